#!/bin/bash
# Every key of recomputation, swapping and planner obscura acts: a change of it changes what `plan --json` says, or is refused.
# One process, no launcher.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"

cat > deck.yml << 'DECK'
run:
  folder: RUN
model:
  model_type: llama
  vocab_size: 257
  hidden_size: 32
  intermediate_size: 64
  num_hidden_layers: 16
  num_attention_heads: 4
  num_key_value_heads: 2
  max_position_embeddings: 16
data:
  sequence_length: 16
  global_batch: 64
  micro_batch: 2
pipeline:
  planner: obscura
  stages: 8
DECK

# What a plan is, and what is said of it; ids of runs and times of day are no part of it.
plan() { timeout 60 "$penstock" plan deck.yml --json "$@" > out 2> err < /dev/null; }
# base ARGUMENT...: what the cases below change.
base() {
  base=("$@")
  plan "${base[@]}" || fail "no plan: $*"
  cp out expected
  plan "${base[@]}"
  check cmp -s out expected || fail "twice the same is not the same: $*"
}
# acts KEY=VALUE: another plan.
acts() {
  plan "${base[@]}" -D "$1" || fail "$1: no plan"
  check
  if cmp -s out expected; then fail "$1 changes nothing of ${base[*]}"; fi
}
# refused KEY=VALUE WORDS
refused() {
  plan "${base[@]}" -D "$1"
  check [ $? = 2 ] || fail "$1 is not refused"
  check grep -qE -- "$2" err || fail "$1: no word '$2'"
}

forced=(-D obscura.adjusted_stages=3 -D obscura.lambda=6 -D obscura.beta=1 -D obscura.steps=swap -D pipeline.partition=even)
base "${forced[@]}"
acts obscura.adjusted_stages=2
acts obscura.lambda=4
acts obscura.lambda=0
acts obscura.beta=0.5
acts obscura.beta=0
acts obscura.steps=strawman
acts obscura.steps=refined
acts obscura.eviction=eager
acts pipeline.swap=off
acts pipeline.swap_stages=1
acts 'pipeline.swap_stages=[1, 2]'
acts pipeline.swap_tier=rank
acts pipeline.recompute=none
acts pipeline.recompute=mlp
acts pipeline.recompute=cmb
acts 'pipeline.recompute=[norm]'
acts pipeline.recompute_early=false
acts 'cost.host_link={gb_per_s: 0.01}'
refused 'memory.host_limit=1000 B' 'needs [0-9]+ bytes of host memory .*over its memory.host_limit of 1000'
refused obscura.adjusted_stages=9 'there are 8 stages'
refused pipeline.swap_stages=9 'the plan has 8 stages'
refused pipeline.recompute_stages=2 'obscura.adjusted_stages'
refused pipeline.recompute=everything 'pipeline.recompute'
refused pipeline.swap_teir=host "swap_tier"
refused obscura.lamda=3 "lambda"

disk=(-D memory.spill_folder="$work/spill")
base "${forced[@]}" "${disk[@]}" -D 'memory.host_limit=60000 B'
acts 'memory.host_limit=200000 B'
acts pipeline.swap_tier=disk
refused 'memory.spill_limit=1000 B' 'memory.spill_limit of 1000'
refused memory.spill_folder= 'spill_folder|memory.host_limit'
base "${forced[@]}"
acts_on_disk() { plan "${base[@]}" "${disk[@]}" -D pipeline.swap_tier=disk && ! cmp -s out expected; }
check acts_on_disk || fail "nothing goes to disk"
refused pipeline.swap_tier=disk 'spill_folder'

# Where memory is short and all is found out.
get_peaks() { sed -n '/"peaks"/,/]/p' out | grep '"device_bytes"' | tr -dc '0-9\n'; }
plan -D pipeline.planner=1f1b
most=$(get_peaks | sort -n | tail -n 1)
plan -D pipeline.planner=1f1b -D pipeline.recompute=full
least=$(get_peaks | sort -n | tail -n 1)
base -D "memory.device_limit=$(((3 * least + most) / 4)) B" -D pipeline.swap=off
refused obscura.faithful=true 'over its memory.device_limit'
acts pipeline.recompute_early=false
acts pipeline.planner=1f1b
acts "memory.device_limit=$(((least + most) / 2)) B"
acts "memory.rank_limits={7: $most B}"
base -D "memory.device_limit=$(((least + 9 * most) / 10)) B" -D obscura.faithful=true
for steps in strawman relaxed refined swap partition; do acts obscura.steps=$steps; done
acts pipeline.recompute_early=true
base -D 'memory.device_limit=1080000 B' -D obscura.faithful=true -D obscura.steps=swap -D 'cost.host_link={gb_per_s: 0.05}'
acts obscura.epsilon=1
base -D pipeline.planner=1f1b -D pipeline.recompute=full
acts pipeline.recompute_stages=2
acts 'pipeline.recompute_stages=[3]'

finish
