#!/bin/bash
# Whole runs that recompute, or whose activations leave the device: numbers of layers that no group divides, many steps, runs
# in two lives, some stages alone, a spill folder that is full. Always the bits of a run that keeps all. And memory: of ranks
# that differ, and while a checkpoint is loaded.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"
spill=$work/spill

make_data data 300
write_deck "$deck"

# plan NAME RANKS [ARGUMENT...]: NAME.json.
plan() {
  local out=$1 ranks=$2
  shift 2
  output=$work/$out.plan
  "$penstock" plan "$deck" -D run.folder="$work/plans/$out" -D pipeline.stages="$ranks" --json "$@" > "$out.json" 2> "$output" ||
    fail "no plan $out"
}
# get_peaks NAME: device bytes of each rank, a line each.
get_peaks() { sed -n '/"peaks"/,/]/p' "$1.json" | grep '"device_bytes"' | tr -dc '0-9\n'; }
# middle LEAST MOST PERCENT
middle() { echo $(($1 + ($2 - $1) * $3 / 100)); }

# Nothing is taken in groups: each layer by itself recomputes or keeps, as the limit asks, and the last stage may be short.
name="24 layers on one rank, 7 on two and three"
for case in '24 1' '7 2' '7 3'; do
  read -r layers ranks <<< "$case"
  of=(-D "model.num_hidden_layers=$layers" -D run.steps=3)
  plan none$layers "$ranks" "${of[@]}" -D pipeline.planner=1f1b -D pipeline.recompute=none
  plan full$layers "$ranks" "${of[@]}" -D pipeline.planner=1f1b -D pipeline.recompute=full
  train "kept$case" "$ranks" "${of[@]}" -D pipeline.planner=1f1b -D pipeline.recompute=none
  ends 0
  for set in full mlp '[norm, core]'; do
    train again "$ranks" "${of[@]}" -D pipeline.planner=1f1b -D pipeline.recompute="$set"
    ends 0
    same_run "kept$case" again
    rm -r again
  done
  least=$(get_peaks full$layers | sort -n | tail -n 1) most=$(get_peaks none$layers | sort -n | tail -n 1)
  check [ "$least" -lt "$most" ] || fail "$case: recomputation saves nothing ($least, $most)"
  for percent in 30 70; do
    for planner in adapipe obscura; do
      train again "$ranks" "${of[@]}" -D pipeline.planner=$planner \
        -D "memory.device_limit=$(middle "$least" "$most" $percent) B"
      ends 0
      same_run "kept$case" again
      rm -r again
    done
  done
done

name="20 steps with all, some, and no recomputation, and with blocks that leave"
twenty=(-D run.steps=20 -D data.global_batch=16)
train plain 2 "${twenty[@]}" -D pipeline.planner=1f1b -D pipeline.recompute=none
ends 0
for set in full cmb attention; do
  train other 2 "${twenty[@]}" -D pipeline.planner=1f1b -D "pipeline.recompute=$set"
  ends 0
  same_run plain other
  rm -r other
done
leave=(-D pipeline.planner=obscura -D obscura.adjusted_stages=1 -D obscura.lambda=3 -D obscura.beta=1
  -D memory.spill_folder="$spill")
for where in host disk; do
  for set in none full; do
    train other 2 "${twenty[@]}" "${leave[@]}" -D "pipeline.recompute=$set" -D "pipeline.swap_tier=$where"
    ends 0
    check grep -qE '^ +EV +[1-9]' other/report.txt || fail "no block leaves"
    same_run plain other
    rm -r other
  done
done

name="dropout is not there to be drawn twice"
train dropped 2 -D model.attention_dropout=0.1
ends 2
says_once '^penstock: error: .*attention_dropout'

# Ten steps, a checkpoint, ten more: what waits elsewhere during a step is no part of what is saved. Lives may differ in it.
name="ten steps and ten more, blocks on the device, in host memory, on disk"
for where in device host disk; do
  arguments=(-D pipeline.planner=1f1b)
  [ $where = device ] || arguments=("${leave[@]}" -D "pipeline.swap_tier=$where")
  train lives$where 2 "${twenty[@]}" "${arguments[@]}" -D run.steps=10
  ends 0
  train lives$where 2 "${twenty[@]}" "${arguments[@]}"
  ends 0
  says "going on after step 10 from "
  same_run plain lives$where
done
train mixed 2 "${twenty[@]}" "${leave[@]}" -D pipeline.swap_tier=disk -D run.steps=10
train mixed 2 "${twenty[@]}" -D pipeline.planner=1f1b
ends 0
same_run plain mixed

# One estimate a rank, not a mean: what each measured is what was planned for it.
name="blocks unevenly on the stages"
uneven=(-D model.num_hidden_layers=8 -D 'pipeline.partition=[1, 2, 2, 3]' -D data.global_batch=16 -D run.steps=2)
plan uneven 4 "${uneven[@]}" -D pipeline.planner=1f1b
train uneven 4 "${uneven[@]}" -D pipeline.planner=1f1b
ends 0
"$penstock" report uneven --json > uneven.report || fail "no report"
check diff <(grep '"peak_bytes"' uneven.report | tr -dc '0-9\n') <(get_peaks uneven) > differences ||
  fail "measured and planned bytes: $(xargs < differences)"
check [ "$(get_peaks uneven | sort -nu | wc -l)" = 4 ] || fail "peaks are alike: $(get_peaks uneven | xargs)"
train small 4 "${uneven[@]}" -D pipeline.planner=1f1b -D pipeline.recompute=none \
  -D "memory.device_limit=$(($(get_peaks uneven | sort -n | tail -n 1) - 1)) B"
ends 2
says_once '^penstock: error: rank 3 needs '

name="one rank of four with little memory"
four=(-D data.global_batch=16 -D run.steps=2)
plan four 4 "${four[@]}" -D pipeline.planner=1f1b
second=$(get_peaks four | sed -n 2p)
train four 4 "${four[@]}" -D pipeline.planner=1f1b
limits=(-D "memory.rank_limits={1: $((second * 8 / 10)) B}")
for planner in adapipe obscura; do
  train one$planner 4 "${four[@]}" "${limits[@]}" -D pipeline.planner=$planner
  ends 0
  same_run four one$planner
  check awk -v limit="$((second * 8 / 10))" '/^ +1 +[0-9.]+ +[0-9.]+ / { seen = 1; if ($10 * 1048576 > limit + 5243) bad = 1 }
    /^means/ { exit } END { exit bad || !seen }' one$planner/report.txt ||
    fail "$planner: rank 1 takes more than $((second * 8 / 10)): $(cat one$planner/report.txt)"
done

name="blocks of the first two stages of four"
some=(-D data.global_batch=32 -D run.steps=2 -D pipeline.planner=obscura -D obscura.adjusted_stages=3 -D obscura.lambda=3
  -D obscura.beta=1 -D pipeline.recompute=none)
train all4 4 -D data.global_batch=32 -D run.steps=2 -D pipeline.planner=1f1b
train some 4 "${some[@]}" -D 'pipeline.swap_stages=[0, 1]'
ends 0
same_run all4 some
"$penstock" report some --json > some.json || fail "no report"
check [ "$(sed -n '/"moved_stages"/,/\]/p' some.json | grep '"stage"' | tr -dc '0-9\n' | xargs)" = '0 1' ] ||
  fail "what moves: $(sed -n '/"moved_stages"/,/\]/p' some.json)"
check [ "$(sed -n '/"moved_stages"/,/\]/p' some.json | grep -cE '"bytes": [1-9][0-9]*')" = 2 ] ||
  fail "no bytes: $(sed -n '/"moved_stages"/,/\]/p' some.json)"

# Ranks that load a checkpoint take no more memory than those that began without: each reads its own part, piece by piece.
name="memory while a checkpoint is loaded"
large=(-D model.hidden_size=320 -D model.intermediate_size=1280 -D model.num_hidden_layers=8 -D run.trace_every=0
  -D run.steps=100000 -D memory.device_limit=1GiB)
get_resident() { for pid in $(list_ranks loaded); do grep VmHWM "/proc/$pid/status"; done | awk '{ kib += $2 } END { print kib }'; }
resident=()
for life in 1 2; do
  reached=$(get_last_step loaded)
  start loaded 4 "${large[@]}"
  wait_until has_step loaded $((reached + 2))
  resident[life]=$(get_resident)
  touch loaded/stop
  wait_end
  status_is loaded "CHECKPOINTED step [0-9]+"
done
says "going on after step"
size=$(($(stat -c %s "$(get_checkpoint loaded)") / 1024))
most=$((size / 4))
"$penstock" --version | grep -q sanitizers && most=$size # the address sanitizer keeps what was freed for a while
check [ "$((resident[2] - resident[1]))" -lt $most ] ||
  fail "resident ${resident[1]} KiB in the first life, ${resident[2]} in the second; the checkpoint has $size"

# In a file system of its own, which no other process has.
name="a spill folder on a disk that is full"
if on_own_disk 512k true 2> /dev/null; then
  full=(-D data.global_batch=64 -D run.steps=100000)
  plan gpipe 2 "${full[@]}" -D pipeline.planner=gpipe
  "${helper%run_helper}moves_helper" plans/gpipe/plan.h5 disk all full.h5 > "$output" 2>&1 || fail "no moves"
  full+=(-D pipeline.planner=file -D pipeline.plan_file="$work/full.h5" -D memory.spill_folder="$work/small/blocks")
  plan full 2 "${full[@]}"
  check [ "$(grep -h '"disk_bytes"' full.json | tr -dc '0-9\n' | sort -n | tail -n 1)" -gt 524288 ] ||
    fail "it would not fill up: $(grep -h '"disk_bytes"' full.json)"
  run=filling output=$work/filling.out
  on_own_disk 512k timeout -k 5 "$job_seconds" "${launcher[@]}" -n 2 "$penstock" train "$deck" -D run.folder="$work/filling" \
    "${full[@]}" > "$output" 2>&1 < /dev/null
  code=$?
  ends 1
  says_once '^penstock: error: .*cannot write .*small/blocks/penstock-spill-.*h5: No space left on device \([0-9]+ bytes needed, [0-9]+ free\)'
  status_is filling "FAILED .*No space left on device.*"
  log_ends_with_status filling
else
  echo "no file system of its own here: not shown"
fi

finish
