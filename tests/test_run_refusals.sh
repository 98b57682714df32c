#!/bin/bash
# What is wrong in a deck, in its files or in the job is said before training: one message that names it and its repair, and
# exit code 2 on every rank.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
write_deck "$deck"

# refuse RUN RANKS [ARGUMENT...]: a job that is refused, each rank with the same code, by one message.
refuse() {
  local ranks=$2 codes
  run=$1 output=$work/$1.out
  shift 2
  # shellcheck disable=SC2016 # expanded by the inner shell
  timeout -k 5 "$job_seconds" "${launcher[@]}" -n "$ranks" bash -c '"$@"; echo "exit code $?"' - \
    "$penstock" train "${refused_deck:-$deck}" -D "run.folder=$work/$run" "$@" > "$output" 2>&1 < /dev/null
  codes=$(grep -c '^exit code 2$' "$output")
  check [ "$codes" = "$ranks" ] || fail "$codes of $ranks ranks ended with exit code 2"
  says_once '^penstock: error: '
  says_not '^penstock: FAILED' # the reason is said once
  says_not '^#   step'
}

# refuse_ranks RUN ARGUMENT... : ARGUMENT...: the same of two ranks that are started with other arguments of `train`, each in
# the folder that its first argument names.
refuse_ranks() {
  run=$1 output=$work/$1.out
  local folder=$2 parts=()
  shift 2
  parts=(-wdir "$folder" "$penstock" train)
  while [ $# -gt 0 ]; do
    if [ "$1" = : ]; then
      parts+=(-D "run.folder=$work/$run" : -n 1 -wdir "$2" "$penstock" train)
      shift
    else
      parts+=("$1")
    fi
    shift
  done
  timeout -k 5 "$job_seconds" "${launcher[@]}" -n 1 "${parts[@]}" -D "run.folder=$work/$run" > "$output" 2>&1 < /dev/null
  code=$?
  ends 2
  says_once '^penstock: error: '
  says_not '^penstock: FAILED' # the reason is said once
  says_not '^#   step'
}

name="keys that differ between ranks"
refuse_ranks ranks . "$deck" -D optimizer.lr=1e-3 : . "$deck" -D optimizer.lr=0.5
says "on rank 1 .*'optimizer.lr' is 0.5 here and 0.001 on rank 0"
check [ ! -e ranks ] || fail "keys that differ made a run folder"
refuse_ranks ranks . "$deck" : . "$deck" -D run.steps=3 -D data.sequence_length=8
says "'data.sequence_length' is 8 here and 16 on rank 0"
says "'run.steps' is 3 here and 6 on rank 0"
refuse_ranks ranks . "$deck" -D data.micro_batch=1 : . "$deck"
says "deck.yml:.*'data.micro_batch' is 2 here and 1 on rank 0"

name="decks that differ between ranks"
mkdir -p here there
cp "$deck" here
sed 's/lr: 1e-2/lr: 1e-3/' "$deck" > there/deck.yml
refuse_ranks decks here deck.yml : there deck.yml
says "on rank 1 .*there/deck.yml is another than .*here/deck.yml, which rank 0"
refuse_ranks decks . "$deck" : . there/deck.yml
says "there/deck.yml is another than"
refuse_ranks decks . "$deck" : . there/none.yml
says "there/none.yml.*No such file"

name="what may differ between ranks"
mkdir other
cp "$deck" other/other.yml
cp data.* other
timeout -k 5 "$job_seconds" "${launcher[@]}" -n 1 "$penstock" train "$deck" -D "run.folder=$work/differ" \
  -D memory.spill_folder=here -D device.threads=1 -D "memory.device_limit=60 MiB" : \
  -n 1 -wdir other "$penstock" train other.yml -D "run.folder=$work/differ" \
  -D memory.spill_folder=there -D device.threads=2 > "$output" 2>&1 < /dev/null
code=$?
ends 0

name="commands that differ between ranks"
for other in "verify $deck" "profile $deck"; do
  # shellcheck disable=SC2086 # several words
  timeout -k 5 "$job_seconds" "${launcher[@]}" -n 1 "$penstock" verify "$deck" --steps 2 : -n 1 "$penstock" $other \
    > "$output" 2>&1 < /dev/null
  code=$?
  ends 2
  says_once "^penstock: error: on rank 1 .*started as .penstock [0-9.]+ ${other%% *}., rank 0 .* as .penstock [0-9.]+ verify --steps 2.:"
done

name="all mistakes of a deck at once"
cat > bad.yml << 'DECK'
run:
  steps: many
  checkpoint_evry: 5
model:
  model_type: lama
data:
  train: data
  sequence_length: 16
  global_batch: 0
memory:
  device_limit: 40
optimizer:
  lr: 1e-3
  min_lr: 1e-2
DECK
refused_deck=bad.yml refuse mistakes 2
says "bad.yml:2:10: 'run.steps' is 'many'"
says "bad.yml:3:3: unknown key 'checkpoint_evry' in 'run' \(did you mean 'checkpoint_every'\?\)"
says "bad.yml:5:15: 'model.model_type' is 'lama'.*llama"
says "bad.yml:9:17: 'data.global_batch' is 0"
says "bad.yml:11:17: 'memory.device_limit' is '40', which has no unit"
check [ ! -e mistakes ] || fail "a deck with mistakes made a run folder"

name="keys that contradict each other"
refuse contradiction 2 -D optimizer.min_lr=1
says "min_lr.*lr"

name="a feature that is not there yet"
refuse later 2 -D pipeline.chunks=2
says "'?pipeline.chunks'?"

name="no deck of that name"
refused_deck=none.yml refuse none 2
says "none.yml.*No such file"

name="no model, no data"
printf 'run:\n  steps: 3\n' > empty.yml
refused_deck=empty.yml refuse empty 2
says "model.*missing"
says "data.train.*missing"
check [ ! -e empty ] || fail "a refused start has made a folder"

name="other ranks than stages"
refuse stages 2 -D pipeline.stages=3
says "pipeline.stages.*3.*2"

name="more stages than the model can be cut into"
refuse shallow 4 -D model.num_hidden_layers=1 -D pipeline.partition=even
says "pipeline.stages 4: a model of 1 blocks .* at most 3 stages"

name="a partition that leaves blocks out"
refuse partition 2 -D "pipeline.partition=[3, 2]"
says "sum.* 5.*4|5.*model has 4"

name="a plan that does not fit"
refuse limit 2 -D data.micro_batch=4 -D "memory.device_limit=640 KiB"
says "rank [01] needs [0-9]+ bytes .* during .* over its memory.device_limit of 655360 bytes"
says "what would fit: memory.device_limit of rank 0: [0-9]+ B .*, rank 1: [0-9]+ B .*, or data.micro_batch [0-9]+"
line=$(grep '^penstock: error: ' "$output")
read -r bytes0 bytes1 rows < <(sed -E 's/.* rank 0: ([0-9]+) B.* rank 1: ([0-9]+) B.*data.micro_batch ([0-9]+).*/\1 \2 \3/' <<< "$line")
name="one byte less than a rank needs"
refuse byte0 2 -D data.micro_batch=4 -D "memory.rank_limits={0: $((bytes0 - 1)) B, 1: $bytes1 B}"
says "rank 0 needs $bytes0 bytes .* during .*, 1 byte .* over its "
refuse byte1 2 -D data.micro_batch=4 -D "memory.rank_limits={0: $bytes0 B, 1: $((bytes1 - 1)) B}"
says "rank 1 needs $bytes1 bytes .* during .*, 1 byte .* over its "
name="just what they need"
train fits 2 -D data.micro_batch=4 -D "memory.rank_limits={0: $bytes0 B, 1: $bytes1 B}"
ends 0
name="the micro-batch that was said to fit"
train smaller 2 -D "data.micro_batch=$rows" -D "memory.device_limit=640 KiB"
ends 0
name="one row more than that"
refuse larger 2 -D data.micro_batch=$((rows + 1)) -D "memory.device_limit=640 KiB"

name="more micro-batches than a machine can hold the graph of"
refuse many 2 -D data.global_batch=1000000000
says "makes 500000000 micro-batches a step; on 2 stages at most [0-9]+ are possible: raise data.micro_batch to 477,"
grep 'penstock: error' "$output" > words
"$penstock" plan "$deck" -D data.global_batch=1000000000 -D pipeline.stages=2 > "$output" 2>&1
code=$?
ends 2
check diff words "$output" || fail "plan has other words"
refuse rows 2 -D data.global_batch=1000000000 -D data.micro_batch=1000000000 -D "memory.device_limit=1 MiB"
says "rank 0 needs [0-9]+ bytes.*or a data.micro_batch below 10000, with a smaller data.global_batch"

name="a limit of a rank that is not there"
refuse limits 2 -D "memory.rank_limits={2: 1 GiB}"
says "rank_limits.*2.*0 to 1"

name="a token beyond the vocabulary"
printf '{"text": "abc"}\n{"text": ""}\n{"text": "ab~cde, long enough for a row"}\n' > ids.jsonl
"$penstock" data build --output ids ids.jsonl > /dev/null
refuse vocabulary 2 -D data.train=ids -D model.vocab_size=256
says "ids.*document [0-9].*256"
refuse vocabulary 2 -D data.train=ids -D model.vocab_size=126
says "ids.*126"

name="files that are not there"
refuse missing 2 -D data.train=nowhere
says "nowhere.*No such file"
refuse missing 2 -D data.validation=nowhere -D run.evaluate_every=2
says "nowhere.*No such file"
sed '/^model:/,$d' "$deck" > config.yml
printf 'model:\n  config: config.json\n' >> config.yml
refused_deck=config.yml refuse missing 2
says "config.json.*No such file"
refuse weights 2 -D model.init_from=nowhere.h5
says "nowhere.h5.*No such file"
says_not warning

train idle 1 -D data.validation=nowhere -D run.steps=1
ends 0
says_once "warning: -D data.validation: 'data.validation' has no effect here: it acts only with run.evaluate_every above 0"
says_once 'warning: data.validation: nowhere.idx: No such file'

name="a run folder that no job can make"
touch no-folder
for place in no-folder no-folder/below "$(printf 'n%.0s' {1..300})"; do
  refuse nowhere 2 -D "run.folder=$place"
  says "cannot make the folder .*; name a folder where this job may write"
done

name="a damaged index"
cp data.bin cut.bin
head -c 40 data.idx > cut.idx
refuse cut 2 -D data.train=cut
says "cut.idx"
cp data.idx short.idx
head -c 1000 data.bin > short.bin
refuse cut 2 -D data.train=short
says "short.bin.*1000|1000.*short.bin"

name="rows longer than the table of positions"
write_deck gpt2.yml gpt2
refused_deck=gpt2.yml refuse positions 2 -D data.sequence_length=17
says "'data.sequence_length' is 17; allowed: at most 16, which is 'n_positions' of the model .gpt2.yml:"
deck=gpt2.yml
train positions 2
ends 0
deck=$work/deck.yml
name="rows longer than rotary positions were meant for"
train rotary 2 -D data.sequence_length=17
ends 0
says_once "warning: .*sequence_length' is 17, beyond 16, which is 'max_position_embeddings'"

name="threads from the environment"
for case in "2 :2" " 3, 1:3" abc: 0: 1e3: 5000: -1: : 2,x:; do
  export OMP_NUM_THREADS=${case%:*}
  sed '/threads:/d' "$deck" > threads.yml
  deck=$work/threads.yml
  train threads 1 -D run.steps=0
  ends 0
  wanted=${case##*:}
  if [ -n "$wanted" ]; then
    says "rank 0 on .*: $wanted thread"
    says_not 'warning: OMP'
  else
    says_once "warning: OMP_NUM_THREADS is '$OMP_NUM_THREADS', no number of threads from 1 to 4096: every rank takes the cores"
  fi
  rm -rf threads
  deck=$work/deck.yml
done
export OMP_NUM_THREADS=1

name="cores that a file of another machine has"
core=$(sed -n 's/^Cpus_allowed_list:.*[^0-9]\([0-9]*\)$/\1/p' /proc/self/status)
for variable in HWLOC_SYNTHETIC="core:512 pu:1" HWLOC_XMLFILE=/nowhere HWLOC_COMPONENTS=-linux HWLOC_THISSYSTEM=0; do
  launch=("${launcher[@]}")
  launcher=(env "$variable" taskset -c "$core" "${launcher[@]}")
  train cores 1 -D run.steps=0 -D device.threads=1
  ends 0
  says "rank 0 on .*: 1 thread, core $core\$"
  launcher=("${launch[@]}")
  rm -rf cores
done

name="bindings that are meant for OpenMP's threads"
sed '/threads:/d' "$deck" > threads.yml
deck=$work/threads.yml cores=
launch=("${launcher[@]}")
for variable in NONE=1 OMP_PROC_BIND=true OMP_PROC_BIND=close OMP_PLACES=cores GOMP_CPU_AFFINITY="$core"; do
  launcher=(env -u OMP_NUM_THREADS "$variable" "${launch[@]}")
  train bound 1 -D run.steps=0
  ends 0
  found=$(sed -n 's/^  rank 0 on [^:]*: //p' "$output")
  cores=${cores:-$found}
  check [ "$found" = "$cores" ] || fail "$variable: $found, not $cores"
  rm -rf bound
done
launcher=("${launch[@]}")
deck=$work/deck.yml

name="a limit on address space"
grep -v device_limit "$deck" | grep -v '^memory:' > unlimited.yml
deck=$work/unlimited.yml
# The address sanitizer takes terabytes of address space for itself.
"$penstock" --version | grep -q sanitizers || (
  ulimit -v 300000
  refused_deck=unlimited.yml refuse address 2 -D model.hidden_size=1024
  says "rank 0 may use [0-9]+ bytes of what its limits leave \(ulimit -v is 300000 kB\)"
  says "what would fit: memory.device_limit of rank 0"
  train address 2
  ends 0
  train exhausted 1 -D model.hidden_size=1024 -D "memory.device_limit=1 GiB"
  ends 1
  says "ulimit -v is 300000 kB"
  [ $failures = 0 ]
) || failures=$((failures + 1))
deck=$work/deck.yml

name="limits on open files and on the stack"
# limited OPTION SOFT HARD COMMAND: with such limits; lower ones cannot be given back.
limited() {
  (
    ulimit -S "$1" "$2"
    ulimit -H "$1" "$3"
    shift 3
    "$@"
    [ $failures = 0 ]
  ) || failures=$((failures + 1))
}
succeed() { train "$@"; ends 0; }
refused_by() { # PATTERN RUN RANKS
  refuse "$2" "$3"
  says "$1"
}
limited -n 32 32 refused_by 'limit on open files is too low.*ulimit -n is 32, at least 36' files 2
limited -s 128 128 refused_by 'limit on the stack is too low.*ulimit -s is 128 kB' stack 2
limited -n 32 256 succeed files 2
limited -s 128 1024 succeed stack 2 -D device.threads=3 -D model.hidden_size=256
many=$(for i in $(seq 30); do printf 'many%s: 1, ' "$i"; done)
for i in $(seq 30); do for part in bin idx; do ln -s "data.$part" "many$i.$part"; done; done
refuse_many() {
  refuse many 1 -D "data.train={$many}"
  says 'Too many open files \(ulimit -n is 40\)'
}
limited -n 40 40 refuse_many

name="a command line"
for arguments in "" "$deck $deck" "$deck --nonsense" "$deck -D run.steps"; do
  # shellcheck disable=SC2086 # several words
  "$penstock" train $arguments > "$output" 2>&1
  code=$?
  ends 2
  says_once '^penstock: error: '
done

finish
