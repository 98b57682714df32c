#!/bin/bash
# A run on the timed device as a user meets it: no loss and no checkpoint, said so; the step that was predicted; twice the
# scale, half the step; memory enforced by count; what it cannot do is refused.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 2000
write_deck "$deck"
cat >> "$deck" << 'DECK'
cost:
  source: uniform
  uniform: {forward_ms: 5, input_ms: 5, weight_ms: 5}
DECK
timed=(-D device.backend=timed -D data.global_batch=16 -D optimizer.clip=0)

# is_near RUN MS: the median of the steps after the first is within 10 %.
is_near() {
  check awk -v want="$2" -v got="$(get_columns "$1" 6 | tail -n +2 | sort -g | sed -n 3p)" \
    'BEGIN { exit !(got > 0.999 * want && got < 1.1 * want) }' ||
    fail "steps of $1 take $(get_columns "$1" 6 | tr '\n' ' ')ms, not $2"
}

name="4 stages, 8 micro-batches: (8 + 3) x 15 ms"
train plain 4 "${timed[@]}"
ends 0
status_is plain DONE
log_ends_with_status plain
has_steps plain 6
is_near plain 165
says 'timed: nothing is computed.* times of uniform.*no loss, no checkpoints'
says 'timed: a step took .* modelled 165\.000 ms'
says 'timed: inputs came '
check [ ! -e plain/checkpoints ] || fail "there are checkpoints"
check [ -s plain/report.txt ] || fail "no report.txt"
check [ -z "$(get_columns plain 2 | tr -d '\n')" ] || fail "there are losses"

# Where the time of each rank goes, and where the bubble: users of pipelines ask for little more.
name="parts of a step"
"$penstock" report plain --json > parts.json || fail "no report"
number() { sed -nE "s/^ *\"$1\": ([-0-9.e+]*),?$/\1/p" parts.json; }
check [ "$(number wait_ms | wc -l)" = 4 ] || fail "not 4 ranks"
check awk -v step="$(number step_ms)" '{ sum = $1 + $2 + $3 + $4; if (sum < 0.99 * step || sum > 1.01 * step) bad = 1
  if ($2 < (3 / 11 - 0.05) * step || $2 > (3 / 11 + 0.05) * step) bad = 1 } END { exit bad || NR != 4 }' \
  <(paste <(number busy_ms) <(number bubble_ms) <(number wait_ms) <(number other_ms)) ||
  fail "parts of $(number step_ms) ms: $(number bubble_ms | tr '\n' ' ')of bubble"
"$penstock" report plain > parts.txt
check grep -q '(p-1)/(m+p-1) = 27.3 %' parts.txt || fail "what the bubble should be is not said"

# Ranks of any number write their trace together, also far more of them than cores.
many=$((4 * $(nproc) + 5))
for ranks in 1 3 7 $((many < 31 ? many : 31)); do
  name="trace of $ranks ranks"
  rm -rf traced
  train traced $ranks "${timed[@]}" -D model.num_hidden_layers=31 -D data.global_batch=4 -D run.steps=2
  ends 0
  has_steps traced 2
done

# A step takes half as long here, and no longer on the devices: what they do in a second is what it was.
name="twice as fast"
train fast 4 "${timed[@]}" -D device.time_scale=2
ends 0
says 'modelled 82\.500 ms'
speeds() { # of a run: columns 7 and 8, of the report, of the end
  get_columns "$1" 7,8 | tail -n 1 | tr ' \t,' '\n'
  "$penstock" report "$1" --json | sed -nE 's/^ *"tokens_per_s": ([-0-9.e+]*),?$/\1/p'
  sed -nE 's/.*all steps but the first: ([0-9.e+-]+) TFLOP.*/\1/p' "$1/log.txt"
}
check [ "$(speeds fast | wc -l)" = 4 ] || fail "no speeds: $(speeds fast | tr '\n' ' ')"
check awk '$1 < 0.8 * $2 || $1 > 1.25 * $2 { bad = 1 } END { exit bad || NR != 4 }' \
  <(paste <(speeds fast) <(speeds plain)) || fail "speeds $(speeds fast | tr '\n' ' ')not $(speeds plain | tr '\n' ' ')"

name="stopped: nothing to go on from"
train stopped 4 "${timed[@]}" -D run.steps=1000 -D 'run.wall_time=2 s'
ends 1
status_is stopped 'FAILED stopped by run.wall_time after step [0-9]+ of 1000; a timed run has no checkpoint to go on from'
log_ends_with_status stopped
has_steps stopped "$(get_last_step stopped)"
check grep -q 'FAILED stopped' stopped/report.txt || fail "no report of what was measured"

# It takes its time to end, so it is looked at below.
name="a signal in a step that lasts for days"
start endless 4 "${timed[@]}" -D device.time_scale=1e-6
wait_until grep -qs "^# *step" endless.out
send TERM endless
endless=$job

name="memory is counted"
train small 4 "${timed[@]}" -D 'memory.device_limit=64 KiB'
ends 2
says 'what would fit'
name="no limit, no memory"
sed '/device_limit/d' "$deck" > "$deck.all" && mv "$deck.all" "$deck"
train huge 2 "${timed[@]}" -D run.steps=1 -D model.hidden_size=65536 -D model.intermediate_size=262144
ends 0

# Ten layers; two of 1 MiB parameters on each rank, 1 GiB kept of a micro-batch. Rank 0 holds 4 of them.
name="memory of a table is counted"
{
  echo layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,parameter_bytes,output_bytes
  for l in 0 1 2 3 4 5 6 7 8 9; do echo "$l,1,1,1,1,$((l % 9 ? 1 << 30 : 0)),0,$((l % 9 ? 1 << 20 : 0)),0"; done
} > sizes.csv
need=$((4 * 2 * (1 << 20) + 4 * 2 * (1 << 30)))
table=(-D cost.source=table -D cost.table=sizes.csv -D pipeline.planner=1f1b -D pipeline.partition=even -D run.steps=2)
train sized 4 "${timed[@]}" "${table[@]}" -D pipeline.recompute=none -D "memory.device_limit=$need B"
ends 0
train sized 4 "${timed[@]}" "${table[@]}" -D pipeline.recompute=none -D "memory.device_limit=$((need - 1)) B"
ends 2
says "rank 0: $need B"
train sized 4 "${timed[@]}" "${table[@]}" -D "memory.device_limit=$((need - 1)) B"
ends 0
says 'recompute'
# Three blocks a rank, own and guests, where 1F1B keeps four on rank 0.
name="blocks that move, and their memory"
need=$((4 * 2 * (1 << 20) + 3 * 2 * (1 << 30)))
bpipe=(-D pipeline.planner=bpipe -D pipeline.recompute=none)
train moved 4 "${timed[@]}" "${table[@]}" "${bpipe[@]}" -D "memory.device_limit=$need B"
ends 0
"$penstock" report moved > moved.txt || fail "no report"
check grep -qE '^ +0 +6 +12288\.00 ' moved.txt || fail "what moves: $(grep -A 5 'blocks out' moved.txt)"
train moved 4 "${timed[@]}" "${table[@]}" "${bpipe[@]}" -D "memory.device_limit=$((need - 1)) B"
ends 2
name="a signal ends also a step that lasts for days"
run=endless output=$work/endless.out job=$endless
wait_end
says_once 'error: .*stopped by SIGTERM in the middle of a step that does not end within 5 s'
status_is endless 'FAILED .*stopped by SIGTERM in the middle of a step.*'
name="scales that no clock shows"
train fastest 2 "${timed[@]}" -D device.time_scale=1e300
ends 2
says "'device.time_scale' is 1e300, out of range; allowed: a number, from 1.0e-06 to 1000000"
name="a device that computes has its own sizes"
train computed 2 "${table[@]}"
ends 0
says_once "warning: memory is that of the model's layers: .*cost.table do not act"

name="a folder with checkpoints"
train real 2
ends 0
train real 2 -D device.backend=timed -D run.steps=9
ends 2
says 'has checkpoints'

finish
