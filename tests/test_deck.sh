#!/bin/bash
# `penstock deck` as a user meets it: exit codes, where messages go and what they name; and the generated files of the tree
# are what this program generates.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"

# expect CODE PATTERN ARGUMENTS...: the exit code, and a line of the output (for code 2: of standard error alone).
expect() {
  local says=out silent=err
  [ "$1" = 0 ] || says=err silent=out
  run "$1" deck "${@:3}"
  check grep -q -- "$2" $says || fail "no '$2'"
  is_silent $silent
}

# What is generated and kept in the tree.
for pair in "--reference inputs/reference.yml" "--manual doc/user/parameters.md"; do
  read -r option file <<< "$pair"
  "$penstock" deck "$option" > made || fail "deck $option"
  cmp made "$source/$file" || fail "$file is old: penstock deck $option > $file"
done
"$penstock" deck --man > made || fail "deck --man"
grep -q '^.B optimizer.lr' made || fail "no optimizer.lr in the man page"

# Decks of the tree.
n=0
for deck in "$source"/inputs/*.yml "$source"/inputs/obscura/*b*.yml; do
  expect 0 ': OK, ' "$deck"
  n=$((n + 1))
done
[ $n -ge 12 ] || fail "only $n decks in inputs"

cat > bad.yml << 'DECK'
run:
  steps: 100

optimizer:
  learnig_rate: 1e-3
  clip: lots
memory:
  device_limit: 40
DECK
expect 2 "bad.yml:5:3: unknown key 'learnig_rate' in 'optimizer' (did you mean 'lr'?)" bad.yml
expect 2 "^bad.yml:6:9: 'optimizer.clip' is 'lots'; allowed: a number, 0 or more" bad.yml
expect 2 "^bad.yml:8:17: 'memory.device_limit' is '40', which has no unit" bad.yml
[ "$(wc -l < err)" = 3 ] || fail "three mistakes in $(wc -l < err) lines"

printf 'run:\n  steps: 5\n' > good.yml
expect 0 'good.yml: OK, 1 of ' good.yml
expect 0 "'data.train'.* is missing" good.yml
expect 0 'good.yml: OK, 2 of ' good.yml -D optimizer.lr=1e-3
expect 0 'good.yml: OK, 1 of ' -D run.steps=6 good.yml
expect 2 "-D optimizer.lr: 'optimizer.lr' is -1, out of range" good.yml -D optimizer.lr=-1
expect 2 "-D run.stpes: unknown key 'stpes' in 'run' (did you mean 'steps'?)" good.yml -D run.stpes=4
expect 2 'none.yml: cannot be read: No such file' none.yml
expect 2 'deck takes one deck'
expect 2 'deck takes one deck' good.yml --reference
expect 2 'deck takes one deck' good.yml bad.yml

# Keys that are given and cannot act are named, with what they act with; those at their default are not.
expect 0 "^-D data.validation: 'data.validation' has no effect here: it acts only with run.evaluate_every" good.yml \
  -D data.validation=none
for set in run.evaluate_steps=5 optimizer.min_lr=1e-5 optimizer.decay_steps=5 device.time_scale=2 pipeline.swap_tier=host \
  pipeline.swap=off obscura.lambda=2 'memory.host_limit=1 GiB' memory.spill_folder=x 'memory.spill_limit=1 GiB' \
  'cost.uniform={forward_ms: 1} -D cost.source=preset' 'device.preset=h100 -D cost.uniform={forward_ms: 1}' \
  'pipeline.recompute_stages=2 -D pipeline.recompute=none' 'model.init_std=0.1 -D model.init_from=x'; do
  other=${set#* -D }
  [ "$other" = "$set" ] && other=run.steps=5
  expect 0 "^-D [a-z_.]*: '${set%%=*}' has no effect here: it acts only with" good.yml -D "${set% -D *}" -D "$other"
done
expect 0 "acts only with pipeline.planner obscura, pipeline.swap auto" good.yml -D pipeline.planner=obscura \
  -D pipeline.swap=off -D pipeline.swap_stages=2
for set in optimizer.min_lr=0 pipeline.swap_tier=auto 'pipeline.swap_tier=rank -D pipeline.planner=obscura' \
  'optimizer.min_lr=1e-5 -D optimizer.schedule=linear' 'run.evaluate_steps=3 -D run.evaluate_every=1 -D data.validation=x'; do
  # shellcheck disable=SC2086 # several words
  expect 0 'OK, ' good.yml -D $set
  grep -q 'no effect' out && fail "$set: $(grep 'no effect' out)"
done

# What other commands would refuse is said with their names.
expect 0 "^refused by train and verify: .*'data.train'.* is missing" good.yml
expect 0 "^refused by plan and profile: the deck names no model" good.yml
expect 0 '^refused by train and verify: device.precision is bf16' good.yml -D device.precision=bf16
cat > whole.yml << 'DECK'
model: {model_type: llama, vocab_size: 257, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 3,
        num_attention_heads: 4}
data: {train: tokens, sequence_length: 8, global_batch: 4}
DECK
expect 0 '^refused by train and verify: tokens.idx: No such file' whole.yml
printf 'some text, which is long enough for rows' > text.txt
"$penstock" data build --output tokens text.txt > made || fail "data build"
expect 0 '^model: llama' whole.yml
grep -q refused out && fail "refused: $(cat out)"
expect 0 '^refused by evaluations of train: gone.idx: No such file' whole.yml -D data.validation=gone
# So is what no plan can be made of, with as much as the deck says of the ranks.
expect 0 "^refused by plan and train: pipeline.recompute names the op 'nrm'; allowed are " whole.yml -D 'pipeline.recompute=[nrm]'
expect 0 '^refused by train: cannot open gone.h5: No such file' whole.yml -D model.init_from=gone.h5
expect 0 '^refused by plan and train: pipeline.plan_file: ' whole.yml -D pipeline.planner=file -D pipeline.plan_file=gone.h5
for planner in gpipe 1f1b interleaved zb-h1 zb-h2 zb-v bpipe adapipe obscura; do
  expect 0 '^model: llama' whole.yml -D pipeline.stages=2 -D pipeline.planner=$planner -D data.micro_batch=2
  grep -q refused out && fail "$planner: refused: $(cat out)"
done
stages() { expect 0 "^refused by plan and train: $1" whole.yml -D pipeline.stages=2 -D "$2" -D "${3:-run.steps=1}"; }
stages 'planner 1f1b holds one stage on each rank, but pipeline.chunks is 3' pipeline.chunks=3 pipeline.planner=1f1b
stages 'pipeline.recompute_stages names stage 9; ' 'pipeline.recompute_stages=[9]' pipeline.recompute=full
stages 'pipeline.swap_stages is 3; the plan has 2 stages' pipeline.swap_stages=3 pipeline.planner=obscura
stages 'cost.uniform: forward_ms lists 3 ranks, the plan has 2' 'cost.uniform={forward_ms: [1, 2, 3]}'
stages 'cost.table: gone.csv: cannot be read' cost.table=gone.csv
stages 'data.global_batch 1000000000 with data.micro_batch 1 makes ' data.global_batch=1000000000

mkdir sub
printf 'include: ../good.yml\nmodel:\n  model_type: gpt2\n' > sub/top.yml
expect 0 'sub/top.yml: OK, 2 of ' sub/top.yml
printf 'model:\n  model_type: gpt2\n' > sub/gpt2.yml
printf 'include: top.yml\nrun:\n  seed: x\n' > sub/over.yml
printf 'run:\n  steps: x\n' > good.yml
expect 2 "^sub/over.yml:3:9: 'run.seed'" sub/over.yml
expect 2 "sub/../good.yml:2:10: 'run.steps'" sub/over.yml

# The model, as far as it can be known without ranks and data.
cat > model.yml << 'DECK'
model: {model_type: llama, vocab_size: 64, hidden_size: 48, intermediate_size: 64, num_hidden_layers: 3,
        num_attention_heads: 6}
DECK
expect 0 '^model: llama, 3 blocks, ' model.yml
# Its mistakes name the key, where it stands, and what is allowed: by the deck, by -D, by a line of config.json.
expect 2 "^penstock: error: -D model.num_attention_heads: 'model.num_attention_heads' is 5; allowed: what divides 'hidden_size'" \
  model.yml -D model.num_attention_heads=5
expect 2 "^penstock: error: model.yml:2:9: 'model.num_attention_heads' is 6, which makes heads of size 1 " model.yml -D model.hidden_size=6
expect 2 "^penstock: error: -D model.num_key_value_heads: 'model.num_key_value_heads' is 4; allowed: what divides 'num_attention" \
  model.yml -D model.num_key_value_heads=4
expect 2 "^penstock: error: -D model.hidden_act: 'model.hidden_act' is \"mish\"; allowed: gelu_new" model.yml -D model.hidden_act=mish
expect 0 'model.yml: OK, ' model.yml -D 'pipeline.partition=[1, 2]'
expect 2 "pipeline.partition: sum 4, model has 3" model.yml -D 'pipeline.partition=[2, 2]'
expect 2 "^penstock: error: -D data.sequence_length: 'data.sequence_length' is 9; allowed: at most 8, .*'n_positions'.*gpt2.yml:2" -D data.sequence_length=9 -D model.n_positions=8 sub/gpt2.yml
printf '{"model_type": "llama",\n "x": {"num_attention_heads": 3},\n "hidden_size": 50,\n "num_attention_heads": 3}\n' > config.json
printf 'model:\n  config: config.json\n' > config.yml
expect 2 "^penstock: error: config.json:4: 'num_attention_heads' is 3; allowed: what divides 'hidden_size', which is 50" config.yml
expect 2 'gone.json' config.yml -D model.config=gone.json

# Help of a command by both names, and one process under a launcher, which others of its job leave to rank 0.
for command in train deck data; do
  "$penstock" help $command > made
  check=$("$penstock" $command --help)
  [ "$(cat made)" = "$check" ] && grep -q "^usage: penstock $command" made || fail "penstock help $command: $(cat made)"
done
expect 2 '-D run.steps=3 sets a key of a deck: --reference' --reference -D run.steps=3
"$penstock" help help > made && diff made <("$penstock" --help) > out || fail "penstock help help: $(cat made out)"
"$penstock" help dekc > out 2> err
[ $? = 2 ] && grep -q "did you mean 'deck'" err || fail "penstock help dekc: $(cat err)"
if [ -n "${MPIEXEC:-}" ] && [ "$MPIEXEC" != no ]; then
  export UCX_TLS=${UCX_TLS:-self,sm}
  # shellcheck disable=SC2086 # several words
  $MPIEXEC ${MPIEXEC_FLAGS:-} -n 3 "$penstock" deck whole.yml > out 2> err < /dev/null || fail "deck on three ranks: $(cat err)"
  [ "$(grep -c 'whole.yml: OK' out)" = 1 ] || fail "deck on three ranks says: $(cat out)"
  [ "$(grep -c 'deck is one process: rank 0 runs it' err)" = 1 ] || fail "deck on three ranks warns: $(cat err)"
  # shellcheck disable=SC2086 # several words
  $MPIEXEC ${MPIEXEC_FLAGS:-} -n 3 bash -c '"$0" deck whole.yml; exit $?' "$penstock" > out 2> err < /dev/null
  [ "$(grep -c 'whole.yml: OK' out)" = 3 ] || fail "deck in a script on three ranks says: $(cat out)"
fi
# A line that names no command: a launched job says so once.
if [ -n "${MPIEXEC:-}" ] && [ "$MPIEXEC" != no ]; then
  for line in nonsense ''; do
    # shellcheck disable=SC2086 # several words
    $MPIEXEC ${MPIEXEC_FLAGS:-} -n 3 "$penstock" $line > out 2> err < /dev/null
    code=$?
    [ "$code $(grep -cE "unknown command|^usage:" err)" = "2 1" ] || fail "'$line' on three ranks: $code: $(cat err)"
  done
fi
# Each family that a deck may name is one that its keys can describe.
for family in gpt2 llama mistral qwen2; do
  printf 'model: {model_type: %s}\n' $family > family.yml
  expect 0 "^model: $family, " family.yml
done
# Keys of a configuration without effect are listed, slips with what may have been meant; what is nested is looked at too.
printf '{"model_type": "llama", "num_layers": 4, "use_cache": true}\n' > config.json
expect 0 "keys without effect here, ignored: num_layers (did you mean 'num_hidden_layers'?), use_cache" config.yml
printf '{"model_type": "llama", "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}\n' > config.json
expect 2 "config.json:1: 'rope_parameters.partial_rotary_factor' is 0.5: " config.yml

finish
