#!/bin/bash
# Planner obscura trains the same bits as 1F1B on one rank, by default and with all that a deck can force: the passes one by one,
# adjusted stages, sets of recomputation, blocks that leave; keys that cannot be are refused.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"
need_launcher
ref=$source/tests/ref

# What `verify --reference` prints, but for the shape of the pipeline: losses, norms, errors of every tensor, all digits.
strip() { grep -v '"stages"' out; }
base() {
  file=$1
  run_on 1 0 verify --reference "$ref/$file.h5" --json -D pipeline.planner=1f1b -D data.micro_batch=1
  strip > "expected.$file"
}
# same RANKS ARGUMENT...: these ranks are to give the same; they run all together, below.
places=() bases=() leaves=()
same() {
  local ranks=$1
  shift
  queue "$ranks" verify --reference "$ref/$file.h5" --json -D pipeline.planner=obscura -D data.micro_batch=1 "$@"
  places+=("$queued") bases+=("$file") leaves+=("")
}
# moves RANKS ARGUMENT...: the same, and blocks do leave.
moves() {
  same "$@"
  leaves[-1]=yes
}

base llama_full
same 2
same 4
for ranks in 2 4; do
  for steps in strawman relaxed refined swap partition cmb; do
    same $ranks -D obscura.steps=$steps -D obscura.adjusted_stages=$((ranks / 2)) -D obscura.faithful=true
  done
  for set in full cmb mlp attention '[norm, core]' none; do
    for by in stage block; do
      same $ranks -D "pipeline.recompute=$set" -D obscura.adjusted_stages=$((ranks / 2)) -D pipeline.recompute_by=$by
    done
  done
done

# All numbers of blocks that there are: 4 of 6 micro-batches go ahead on the first of two stages, all 6 on that of four. Of so
# many and two more in turn with what comes back, lazily none has to leave with less than 3.
for tier in host disk rank; do
  where=(-D "pipeline.swap_tier=$tier")
  [ $tier = disk ] && where+=(-D memory.spill_folder="$work/spill")
  for beta in 0.5 0.625 1; do
    moves 2 "${where[@]}" -D obscura.adjusted_stages=1 -D obscura.lambda=3 -D obscura.beta=$beta
    for lambda in 3 4 5; do
      moves 4 "${where[@]}" -D obscura.adjusted_stages=$((1 + lambda % 2)) -D obscura.lambda=$lambda -D obscura.beta=$beta
    done
  done
  for ranks in 2 4; do
    moves $ranks "${where[@]}" -D obscura.adjusted_stages=1 -D obscura.lambda=3 -D obscura.beta=1 \
      -D pipeline.recompute=full -D pipeline.recompute_by=block
  done
  for lambda in 1 2 3; do
    moves 2 "${where[@]}" -D obscura.adjusted_stages=1 -D obscura.lambda=$lambda -D obscura.beta=1 -D obscura.eviction=eager
  done
done

# From the limit up that the refusal of no memory says is enough. Below, a limit is refused or enough, never too much.
get_need() { sed -nE 's/.*what would fit: memory.device_limit of (rank 0|all ranks): ([0-9]+) B.*/\2/p' err; }
for ranks in 2 4; do
  least=(verify --reference "$ref/$file.h5" -D pipeline.planner=obscura -D data.micro_batch=1)
  run_on $ranks 2 "${least[@]}" -D 'memory.device_limit=1 B'
  need=$(get_need)
  check [ "${need:-0}" -gt 500000 ] || fail "no word of what would fit"
  run_on $ranks 2 "${least[@]}" -D "memory.device_limit=$((need * 3 / 4)) B"
  tells "rank [0-9] needs [0-9]* bytes .* over its memory.device_limit of $((need * 3 / 4)) bytes"
  for more in 0 1 2 5 10 20; do
    same $ranks -D "memory.device_limit=$((need + need * more / 100)) B"
  done
done
same 4 -D obscura.adjusted_stages=1 -D obscura.lambda=5 -D obscura.beta=1
same 4 -D obscura.adjusted_stages=2 -D obscura.lambda=4 -D obscura.beta=0.5 -D obscura.eviction=eager
same 2 -D obscura.adjusted_stages=1 -D obscura.lambda=3 -D obscura.beta=0.25 -D pipeline.recompute=mlp
same 4 -D obscura.adjusted_stages=2 -D obscura.lambda=4 -D obscura.beta=1 -D pipeline.swap_stages=1 \
  -D pipeline.swap_tier=disk -D memory.spill_folder="$work/spill"
same 4 -D obscura.adjusted_stages=2 -D obscura.lambda=4 -D obscura.beta=1 -D pipeline.swap_tier=rank
same 4 -D obscura.adjusted_stages=1 -D obscura.lambda=3 -D obscura.beta=0.5 -D obscura.eviction=eager -D pipeline.swap_tier=rank
base gpt2_padded
same 2 -D obscura.adjusted_stages=2
same 4 -D obscura.adjusted_stages=3 -D obscura.lambda=3 -D obscura.beta=1 -D pipeline.recompute_early=false
same 4 -D obscura.adjusted_stages=1 -D device.sync_messages=true

run_queue
for ((i = 0; i < ${#places[@]}; i++)); do
  take "${places[i]}"
  ends 0
  check diff <(strip) "expected.${bases[i]}" > differences || fail "other results: $(head -n 3 differences)"
  [ -z "${leaves[i]}" ] || check
  [ -z "${leaves[i]}" ] || ! grep -q 'no activations leave' err || fail "none leaves"
done

run_on 2 2 verify --reference "$ref/gpt2_full.h5" -D pipeline.planner=obscura -D obscura.adjusted_stages=3
tells 'obscura.adjusted_stages is 3; there are 2 stages'
run_on 2 2 verify --reference "$ref/gpt2_full.h5" -D pipeline.planner=obscura -D pipeline.recompute=full -D pipeline.recompute_stages=1
tells 'obscura.adjusted_stages'

run_on 2 2 verify --reference "$ref/gpt2_full.h5" -D pipeline.planner=obscura -D 'pipeline.swap_stages=[2]'
tells 'pipeline.swap_stages names stage 2; the plan has stages 0 to 1'
run_on 2 2 verify --reference "$ref/gpt2_full.h5" -D pipeline.planner=obscura -D pipeline.swap_stages=3
tells 'pipeline.swap_stages is 3; the plan has 2 stages'

run_on 1 2 verify --reference "$ref/gpt2_full.h5" -D device.precision=bf16
tells 'device.precision is bf16, which backend cpu does not compute'

finish
