#!/bin/bash
# What goes wrong while a run trains: it ends at once with one message that says what and where, or goes on where the deck
# says so; nothing that was saved is lost, and no process stays.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
write_deck "$deck"
long=(-D run.steps=100000 -D data.global_batch=64 -D data.micro_batch=1)

name="a loss that is not finite"
train nan 2 -D optimizer.lr=1e30 -D optimizer.clip=0 -D run.checkpoint_every=1
ends 1
says_once '^penstock: error: step [0-9]+: .*not finite'
says "the (loss|gradient of [a-z_.0-9]+ \(layer [0-9]+, [a-z]+\)) is not finite"
status_is nan "FAILED step [0-9]+: .* is not finite .*the last checkpoint is of step [0-9]+.*"
log_ends_with_status nan
saved=$(sed 's/.*last checkpoint is of step \([0-9]*\).*/\1/' nan/STATUS)
check [ -s "$(get_checkpoint nan "$saved")" ] || fail "there is no checkpoint of step $saved"
check [ "$(get_last_step nan)" = "$saved" ] || fail "metrics.csv ends with step $(get_last_step nan)"

name="a rank is killed"
start killed 4 "${long[@]}" -D run.checkpoint_every=4
wait_until has_step killed 5
send KILL killed 2
wait_end
check [ ! -e killed/STATUS ] || fail "STATUS is $(cat killed/STATUS)"
last=$(get_last_step killed)
train killed 4 "${long[@]}" -D run.steps=$((last + 1))
ends 0
says "the last run here broke off after step $last"

name="a rank is stopped"
start silent 3 "${long[@]}" -D "run.hang_timeout=2 s"
wait_until has_step silent 3
send STOP silent 1
wait_end
says_once '^penstock: error: '
says "error: rank 1 \(.+\) gives no answer, last seen in step [0-9]+, .*its process is stopped"
says "rank 0 \(.+\) in step [0-9]+, .*: waits for "
status_is silent "FAILED rank 1 \(.+\) gives no answer.*"
check "$helper" trace silent/trace.h5 > trace || fail "the trace is gone: $(cat trace)"

name="two jobs in one folder"
start shared 2 "${long[@]}"
first=$job
wait_until has_step shared 2
train shared 2 -D run.steps=3
mv shared.out second.out
output=$work/second.out
ends 2
says_once '^penstock: error: another job runs in .*/shared: process [0-9]+ on host '
job=$first output=$work/shared.out
touch shared/stop
wait_end
status_is shared "CHECKPOINTED step [0-9]+"

# Checkpoints that cannot be written: a file has the folder's name, or files may not grow as large as a checkpoint.
train whole 2
name="no place for checkpoints, stop"
mkdir blocked && touch blocked/checkpoints
train blocked 2 -D run.checkpoint_every=2
ends 1
says_once '^penstock: error: .*blocked/checkpoints'
status_is blocked "FAILED .*blocked/checkpoints.*"
check [ "$(get_last_step blocked)" = 2 ] || fail "it ended after step $(get_last_step blocked)"

name="no place for checkpoints, continue"
train blocked 2 -D run.checkpoint_every=2 -D run.on_save_error=continue
ends 1
says "warning: .*blocked/checkpoints.*; training goes on"
status_is blocked "FAILED the checkpoint of the last step could not be written"
same_losses whole blocked

name="room again while it trains"
start blocked 2 "${long[@]}" -D data.global_batch=4 -D data.micro_batch=2 -D run.checkpoint_every=2 \
  -D run.on_save_error=continue
wait_until has_step blocked 4
rm blocked/checkpoints
wait_until has_file blocked/checkpoints/index.txt
touch blocked/stop
wait_end
status_is blocked "CHECKPOINTED step [0-9]+"
train blocked 2 -D run.steps="$(($(get_last_step blocked) + 1))"
ends 0

name="a limit on the size of files"
big=(-D model.hidden_size=128 -D model.intermediate_size=512 -D run.checkpoint_every=2 -D run.trace_every=0)
train limited 2 "${big[@]}" -D run.steps=2
ends 0
(ulimit -f 6000 && train limited 2 "${big[@]}" -D run.steps=5; echo $code > code)
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
