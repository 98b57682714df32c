#!/bin/bash
# What goes wrong while ranks train: the job ends at once with one message that says what and where, nothing that was saved
# is lost, and no process stays.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
write_deck "$deck"
long=(-D run.steps=100000 -D data.global_batch=64 -D data.micro_batch=1)

name="a loss that is not finite"
train nan 2 -D optimizer.lr=1e30 -D optimizer.clip=0 -D run.checkpoint_every=1
ends 1
says_once '^penstock: error: step [0-9]+: .*not finite'
says_not "-nan"
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
for rank in 0 2; do # a sentence each: who waits for whom, for what, for how long
  says "^  rank $rank \([^ ]+\) in step [0-9]+, [^:]+: waits for (rank [0-9]: the message [A-Z]+ stage|all ranks|the gradient norm)[^:]*, for [0-9]+ s$"
done
status_is silent "FAILED rank 1 \(.+\) gives no answer.*"
check "$helper" trace silent/trace.h5 > trace || fail "the trace is gone: $(cat trace)"

name="a rank that hangs before the first step"
sed '/^model:/,$d' "$deck" > fifo.yml
printf 'model:\n  config: fifo.json\n' >> fifo.yml
mkfifo fifo.json # rank 0 waits for a writer
(deck=$work/fifo.yml && train early 2 -D "run.hang_timeout=1 s"; echo $code > code)
code=$(cat code) output=$work/early.out
check [ "$code" != 0 ] || fail "a job that hangs ended well"
says_once '^penstock: error: '
says "error: rank 0 \(.+\) gives no answer, last seen before the first step"
says "rank 1 \(.+\) before the first step: waits for "
check wait_until has_no_rank early

name="two jobs in one folder"
start shared 2 "${long[@]}"
first=$job
wait_until has_step shared 2
train shared 2 -D run.steps=3
mv shared.out second.out
output=$work/second.out
ends 75
says_once '^penstock: error: another job runs in .*/shared: process [0-9]+ on host '
job=$first output=$work/shared.out
touch shared/stop
wait_end
status_is shared "CHECKPOINTED step [0-9]+"

finish
