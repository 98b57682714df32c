#!/bin/bash
# penstock verify as a user meets it: against files of known results at 1 to 4 ranks, with whole and cut steps; files that
# were tampered with; kinds that are not built; a deck against one rank.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"
need_launcher
ref=$source/tests/ref
folder=$work

# on RANKS ARGUMENT...: penstock on so many ranks; output in $output, exit code in $code.
on() {
  local where=("${launcher[@]}" -n "$1")
  [ "$1" = 1 ] && where=()
  call "${where[@]}" "$penstock" "${@:2}" < /dev/null
  output=$(cat out err)
}
# expect RANKS CODE WORDS ARGUMENT...: the exit code, and the words somewhere in what it prints, once.
expect() {
  local ranks=$1 wanted=$2 words=$3 times
  shift 3
  on "$ranks" "$@"
  times=$(grep -cF -- "$words" <<< "$output")
  check [ "$code $times" = "$wanted 1" ] ||
    fail "on $ranks: exit code $code, not $wanted, or '$words' on $times lines, not one"
}
# number KEY: a whole number of the JSON in $output.
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" <<< "$output"; }
# tampered FILE CHANGE...: a changed copy's path in $copy.
tampered() {
  copy=$folder/$1
  cp "$ref/$1" "$copy"
  chmod u+w "$copy"
  shift
  "$build/tests/reference_helper" "$copy" "$@" || fail "cannot change $copy: $*"
}

# ---- files of known results; 2 rows a micro-batch are 3 micro-batches, 6 rows are one
cases=() places=()
for file in gpt2_full gpt2_padded llama_full llama_padded; do
  for ranks in 1 2 3 4; do
    for rows in 2 6; do
      queue $ranks verify --reference "$ref/$file.h5" --json -D data.micro_batch=$rows
      places+=("$queued") cases+=("$file $ranks $((6 / rows))")
    done
  done
done
run_queue
for ((i = 0; i < ${#places[@]}; i++)); do
  take "${places[i]}"
  output=$(cat out err)
  read -r file ranks micro <<< "${cases[i]}"
  check [ $code = 0 ] && grep -q '"passed": true' <<< "$output" || fail "exit code $code: $output"
  check [ "$(number stages)" = "$ranks" ] && [ "$(number micro_batches)" = "$micro" ] ||
    fail "$(number stages) stages, $(number micro_batches) micro-batches, expected $ranks and $micro"
done
# Every tensor is there with its errors: the embeddings, 12 a block, the last norm; untied, the head.
[ "$(grep -c '"gradient_allowed": [0-9.e-]*[1-9]' <<< "$output")" = 39 ] || fail "llama has other tensors: $output"
[ "$(grep -c '"weight_error": [0-9]' <<< "$output")" = 39 ] || fail "llama has other weights: $output"
expect 2 0 "verify: passed" verify --reference "$ref/gpt2_padded.h5" -D pipeline.planner=gpipe
# A verdict that nobody can read is none, on every rank.
if [ -w /dev/full ]; then
  for json in "" --json; do
    # shellcheck disable=SC2016 # expanded by the inner shell
    output=$(${MPIEXEC:-mpiexec} ${MPIEXEC_FLAGS:-} -n 2 sh -c '"$@" > /dev/full; echo "code $?" >&2' - \
      "$penstock" verify --reference "$ref/gpt2_padded.h5" $json 2>&1 < /dev/null)
    [ "$(grep -c '^code 1$' <<< "$output")$(grep -c 'error: standard output cannot be written' <<< "$output")" = 21 ] ||
      fail "standard output on a full disk: $output"
  done
fi
expect 2 0 "verify: passed" verify --reference "$ref/llama_padded.h5" -D 'pipeline.partition=[0.5, 3.5]'

# ---- results that are not these: 1, and the place is named
expect 2 1 "verify: FAILED" verify --reference "$ref/llama_full.h5" -D optimizer.lr=0.00201
tampered llama_full.h5 scale weights_after/model.layers.2.mlp.up_proj.weight 1.0001
expect 3 1 "model.layers.2.mlp.up_proj.weight  OUTSIDE" verify --reference "$copy"
on 2 verify --reference "$copy" --json
[ $code = 1 ] && grep -q '"passed": false' <<< "$output" || fail "a changed weight: exit code $code: $output"
tampered llama_full.h5 scale weights_after/model.layers.2.mlp.up_proj.weight 1.00001
expect 1 0 "verify: passed" verify --reference "$copy"
tampered gpt2_padded.h5 scale grad_first_step/transformer.h.1.attn.c_attn.weight 1.001
expect 2 1 "transformer.h.1.attn.c_attn.weight  OUTSIDE" verify --reference "$copy"
tampered gpt2_full.h5 scale loss 1.00001
expect 1 1 "verify: FAILED" verify --reference "$copy"
tampered gpt2_full.h5 scale weights_before/transformer.h.0.ln_1.weight 1.01
expect 1 1 "verify: FAILED" verify --reference "$copy"

# ---- what cannot be compared: 2, and why
tampered llama_full.h5 text batch_kind packed
expect 2 2 "'packed'" verify --reference "$copy"
tampered llama_full.h5 text config '{"architecture": "bert", "vocab_size": 97}'
expect 2 2 "'bert'" verify --reference "$copy"
tampered llama_full.h5 text config '{"architecture": "llama", "vocab_size": 97, "hidden_size": 48}'
expect 1 2 "$copy" verify --reference "$copy"
tampered llama_full.h5 text optimizer 'lr = 1'
expect 1 2 "attribute 'optimizer'" verify --reference "$copy"
tampered llama_full.h5 move weights_before/model.norm.weight weights_before/model.other.weight
expect 2 2 "weight" verify --reference "$copy"
tampered llama_full.h5 move labels segments
expect 2 2 "labels" verify --reference "$copy"
expect 2 2 "$folder/absent.h5" verify --reference "$folder/absent.h5"
head -c 100000 "$ref/gpt2_full.h5" > "$folder/cut.h5"
expect 2 2 "$folder/cut.h5" verify --reference "$folder/cut.h5"
echo "no HDF5 file" > "$folder/text.h5"
expect 1 2 "$folder/text.h5" verify --reference "$folder/text.h5"
expect 1 2 "verify takes" verify
expect 2 2 "optimiser" verify --reference "$ref/gpt2_full.h5" -D optimiser.lr=1

# ---- a deck against one rank
for i in $(seq 40); do head -c $((i * 3)) "$source/tests/test_verify.sh"; echo "$i"; done > "$folder/text.txt"
"$penstock" data build --output "$folder/tokens" "$folder/text.txt" "$source/tests/test_verify.sh" > /dev/null || fail "no token file"
cat > "$folder/deck.yml" << EOF
run:
  folder: $folder/run
  steps: 5
model:
  model_type: llama
  vocab_size: 257
  hidden_size: 32
  intermediate_size: 48
  num_hidden_layers: 3
  num_attention_heads: 4
  num_key_value_heads: 2
  tie_word_embeddings: true
data:
  train: $folder/tokens
  batching: padded
  sequence_length: 24
  global_batch: 7
  micro_batch: 2
EOF
for ranks in 2 3 4; do
  expect $ranks 0 '"passed": true' verify "$folder/deck.yml" --json -D device.threads=$((1 + ranks % 2))
  [ "$(number stages)" = $ranks ] && [ "$(number micro_batches)" = 4 ] || fail "another plan: $output"
done
expect 3 0 "verify: passed" verify "$folder/deck.yml" --steps 5 -D data.batching=fixed -D pipeline.planner=gpipe \
  -D 'pipeline.partition=[0, 2.5, 0.5]'
expect 2 2 "--steps x" verify "$folder/deck.yml" --steps x
expect 2 2 "sum 4, model has 3" verify "$folder/deck.yml" -D 'pipeline.partition=[3, 1]'
expect 2 2 "what would fit" verify "$folder/deck.yml" -D 'memory.device_limit=400 KiB'
# On one rank there is nothing to hold one rank against, but for a plan that recomputes.
expect 1 2 "there is nothing to compare; start it on several ranks" verify "$folder/deck.yml"
expect 1 0 "verify: passed" verify "$folder/deck.yml" -D pipeline.recompute=full
expect 1 2 "absent.yml" verify "$folder/absent.yml"
[ ! -e "$folder/run" ] || fail "verify made the run folder"

finish
