#!/bin/bash
# Disks that are full, folders that are in the way, files that are damaged or left over: a run says so, keeps what was good,
# and goes on where it may.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
write_deck "$deck"
long=(-D run.steps=100000)

# Checkpoints that cannot be written: a file has the folder's name, or files may not grow as large as a checkpoint.
train whole 2
name="no place for checkpoints, stop: found out before the first step"
mkdir blocked && touch blocked/checkpoints
train blocked 2 -D run.checkpoint_every=2
ends 1
says_once '^penstock: error: .*blocked/checkpoints'
status_is blocked "FAILED .*blocked/checkpoints.*"
check [ "$(get_last_step blocked)" = 0 ] || fail "it ended after step $(get_last_step blocked)"
says_not warning

name="no place for checkpoints, continue"
train blocked 2 -D run.checkpoint_every=2 -D run.on_save_error=continue
ends 1
says "warning: .*blocked/checkpoints.*; training goes on"
status_is blocked "FAILED the checkpoint of the last step could not be written"
same_losses whole blocked

name="room again while it trains"
start blocked 2 "${long[@]}" -D run.checkpoint_every=2 -D run.on_save_error=continue
wait_until has_step blocked 4
rm blocked/checkpoints
wait_until has_file blocked/checkpoints/index.txt
touch blocked/stop
wait_end
status_is blocked "CHECKPOINTED step [0-9]+"
train blocked 2 -D run.steps="$(($(get_last_step blocked) + 1))"
ends 0

name="a limit on the size of files"
big=(-D model.hidden_size=192 -D model.intermediate_size=768 -D run.checkpoint_every=2 -D run.trace_every=0)
train limited 2 "${big[@]}" -D run.steps=2
ends 0
(ulimit -f 12000 && train limited 2 "${big[@]}" -D run.steps=5; echo $code > code)
code=$(cat code) output=$work/limited.out
ends 1
says_once '^penstock: error: .*limited/checkpoints/step-00000004.h5.tmp'
check [ "$(echo limited/checkpoints/*)" = "limited/checkpoints/index.txt limited/checkpoints/step-00000002.h5" ] ||
  fail "checkpoints are $(echo limited/checkpoints/*)"
train limited 2 "${big[@]}"
ends 0
says "going on after step 2 from "
has_no_trace() { [ ! -e "$1/trace.h5" ]; }
check has_no_trace limited || fail "a trace that was not asked for"

# Only the trace outgrows the limit; a rank alone has no shared memory that would.
name="a limit on the size of files that the trace meets, continue"
export UCX_TLS=self
wide=(-D run.steps=400 -D data.global_batch=128 -D data.micro_batch=1 -D model.num_hidden_layers=1
  -D data.sequence_length=4)
train first 1 "${wide[@]}" -D run.steps=1
most=$(($(stat -c %s first/*.* first/checkpoints/* | sort -n | tail -n 1) / 1024 + 50))
(ulimit -f $most && train traced 1 "${wide[@]}" -D run.on_save_error=continue; echo $code > code)
code=$(cat code) output=$work/traced.out
ends 0
says "warning: .*traced/trace.h5.*; training goes on"
status_is traced DONE
check [ "$(get_last_step traced)" = 400 ] || fail "it ended after step $(get_last_step traced)"
check "$helper" trace traced/trace.h5 > trace || fail "the trace is gone: $(cat trace)"
name="a limit on the size of files that the trace meets, stop"
(ulimit -f $most && train traced2 1 "${wide[@]}" -D run.checkpoint_every=5; echo $code > code)
code=$(cat code) output=$work/traced2.out
ends 1
says_once '^penstock: error: .*traced2/trace.h5'
says_not "steps ([0-9]+) to \1 "
status_is traced2 "FAILED .*traced2/trace.h5.*"
export UCX_TLS=self,sm
train traced2 1 "${wide[@]}"
ends 0
says "going on after step [0-9]*[05] from "
has_steps traced2 400
same_run traced traced2

# metrics.csv lies on a disk of one page, which is full after some forty steps.
if on_own_disk 4k true 2> /dev/null; then
  name="metrics that cannot be written"
  for way in continue stop; do
    run=measured$way output=$work/measured$way.out
    mkdir measured$way && ln -s "$work/small/metrics.csv" measured$way/metrics.csv
    # shellcheck disable=SC2016 # expanded by the inner shell
    on_own_disk 4k sh -c '"$@"; code=$?; cp "$0/small/metrics.csv" "$0/rows"; exit $code' "$work" timeout -k 5 \
      "$job_seconds" "${launcher[@]}" -n 1 "$penstock" train "$deck" -D run.folder="$work/measured$way" -D run.steps=100 \
      -D run.on_save_error=$way -D run.checkpoint_every=20 > "$output" 2>&1 < /dev/null
    code=$?
    # A later row that is shorter may still find room.
    check awk -F, 'NR > 1 && ((NR > 2 && $1 <= last) || (NR < 20 && $1 != NR - 1) || NF != fields) { bad = 1 } { fields = NF; last = $1 }
      END { exit bad || NR < 20 || NR > 99 }' rows ||
      fail "rows are not whole: $(tail -n 2 rows)"
    if [ $way = continue ]; then
      ends 0
      says "warning: .*metrics.csv: No space left on device .*; training goes on"
      status_is measuredcontinue DONE
      check "$helper" trace measuredcontinue/trace.h5 > trace || fail "no trace: $(cat trace)"
      check grep -q '^100 ' trace || fail "the trace ends early: $(tail -n 2 trace)"
    else
      ends 1
      says_once '^penstock: error: .*metrics.csv: No space left on device'
      status_is measuredstop "FAILED .*metrics.csv.*"
      check [ "$(awk '$1 != "#" { step = $1 } END { print step }' measuredstop/checkpoints/index.txt)" -ge 20 ] || fail "no checkpoint"
    fi
  done
else
  echo "no file system of its own here: metrics that cannot be written are not shown"
fi

name="left over from a killed run"
mkdir -p left/checkpoints
for file in STATUS manifest.txt used.yml plan.h5 trace.h5 checkpoints/step-00000004.h5 checkpoints/index.txt; do
  echo half > "left/$file.tmp"
done
echo "host $(hostname) pid 1999999999 started 1 boot - job - restart 0" > left/.lock.7
train left 2
ends 0
check [ -z "$(find left -name '*.tmp')" ] || fail "left: $(find left -name '*.tmp')"
check [ ! -e left/.lock.7 ] || fail "the dead job's lock is left"
same_run whole left

name="a damaged checkpoint"
train damaged 2 -D run.checkpoint_every=2 -D run.keep_checkpoints=0
file=$(get_checkpoint damaged 6)
printf '\001\002\003' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) conv=notrunc 2> /dev/null
train damaged 2 -D run.steps=7
ends 0
says "warning: .*step-00000006.h5 is damaged.*; trying the one before it"
says "going on after step 4 from "
has_steps damaged 7
train whole 2 -D run.steps=7
same_run whole damaged
name="no checkpoint is whole"
cp -r damaged ruined
for file in ruined/checkpoints/step-*.h5; do truncate -s 1000 "$file"; done
train ruined 2 -D run.steps=8
ends 1
says_once '^penstock: error: none of the [0-9]+ checkpoints in .* is whole'

name="a key that may not change"
train whole 2 -D run.steps=9 -D optimizer.lr=2e-2 -D run.seed=5
ends 2
says "'run.seed' was 1 when this run began and is 5 now"
says "'optimizer.lr' was 0.01 when this run began and is 0.02 now"
says_once '^penstock: error: '
train whole 2 -D run.steps=9 -D run.log_every=2
ends 0
says "going on after step 7 from "

finish
