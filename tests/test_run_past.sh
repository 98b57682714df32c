#!/bin/bash
# What a run's folder holds is not lost: a finished one ends at once, a start that is refused leaves everything as it was, and
# one that could only begin again does so only where nothing was saved. The folder is one for all ranks and stays the run's
# own.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
write_deck "$deck"
train base 2 -D run.checkpoint_every=2
ends 0
more=(-D run.steps=8 -D run.checkpoint_every=2)

# print_state FOLDER: what is in it, byte by byte.
print_state() { (cd "$1" && find . -type f | sort | xargs -d '\n' cksum); }
# stays FOLDER: is as it was at the last call of `remember`.
remember() { print_state "$1" > state; }
stays() { check diff <(print_state "$1") state > differences || fail "$1 has changed: $(cat differences)"; }
again() { cp -r base "$1"; }

name="a finished run without its checkpoints"
again ended
rm -r ended/checkpoints
remember ended
train ended 2 -D run.checkpoint_every=2
ends 0
says "DONE at step 6 already"
stays ended
train ended 2 "${more[@]}"
ends 2
says_once "^penstock: error: .*none of its checkpoints is there.*take another run.folder"
stays ended
rm ended/metrics.csv
remember ended
train ended 2
ends 0
stays ended

name="runs that were stopped or killed, without their checkpoints"
for state in "CHECKPOINTED step 6" "FAILED on purpose" ""; do
  again gone
  rm -r gone/checkpoints/*.h5
  if [ -n "$state" ]; then echo "$state" > gone/STATUS; else rm gone/STATUS; fi
  remember gone
  train gone 2 "${more[@]}"
  ends 2
  says "none of its checkpoints is there"
  stays gone
  # The log may be gone too.
  rm gone/log.txt
  remember gone
  train gone 2 "${more[@]}"
  ends 2
  stays gone
  rm -r gone
done

name="an index that is gone, or its newest file"
again index
rm index/checkpoints/index.txt
train index 2 "${more[@]}"
ends 0
says "going on after step 6 from "
same_losses base index 6
again newest
rm "$(get_checkpoint newest 6)"
remember newest
train newest 2 -D run.checkpoint_every=2
ends 0
stays newest
train newest 2 "${more[@]}"
ends 0
says "going on after step 4 from "
same_run index newest

name="broken off before its first checkpoint: begins again, and keeps what was there"
again early
rm -r early/checkpoints early/STATUS
sed -i '/^checkpoint of step/d' early/log.txt
cp early/metrics.csv rows.csv
train early 2 "${more[@]}"
ends 0
says "the last run here broke off after step 6"
says "warning: .*metrics.csv of before is now .*early/metrics.csv.old"
says "warning: .*trace.h5 of before is now .*early/trace.h5.old"
check cmp rows.csv early/metrics.csv.old || fail "other rows are kept"
has_steps early 8
rm -r early/checkpoints early/STATUS
sed -i '/^checkpoint of step/d' early/log.txt
train early 2 "${more[@]}"
check cmp rows.csv early/metrics.csv.old || fail "what was kept is replaced"
check [ -s early/metrics.csv.old2 ] || fail "the second life's rows are not kept"

name="killed before its first step: a trace without steps is nothing to keep"
train unborn 2 -D run.steps=0
check [ -s unborn/trace.h5 ] || fail "no trace.h5"
rm -rf unborn/checkpoints unborn/STATUS
sed -i '/^checkpoint of step/d' unborn/log.txt
train unborn 2
ends 0
says_not "trace.h5 of before"
check [ ! -e unborn/trace.h5.old ] || fail "a trace without steps is kept"

name="refused starts leave the folder as it was"
again refused
for word in DONE "CHECKPOINTED step 6" "FAILED on purpose"; do
  echo "$word" > refused/STATUS
  touch refused/stop
  remember refused
  for wrong in optimizer.lr=5 run.seed=3 pipeline.stages=3 data.train=nowhere memory.device_limit=1KiB run.stps=9 \
    pipeline.partition=9; do
    train refused 2 "${more[@]}" -D $wrong
    ends 2
    stays refused
  done
done
train none 2 -D data.train=nowhere
ends 2
check [ ! -e none ] || fail "a refused start has made a folder"

name="files of others"
mkdir others
echo "all quiet" > others/STATUS
remember others
train others 2
ends 2
says "others/STATUS is none of this program"
stays others
again seed
rm seed/used.yml
train seed 2 "${more[@]}" -D run.seed=9
ends 2
says "is of a run with run.seed 1, and this one has 9"

name="a stop file of before"
again stop
touch stop/stop
train stop 2 "${more[@]}"
ends 0
says_once "stop was older than this start: it is taken away"
check grep -q "stop was older" stop/log.txt || fail "the log does not say so"

name="a folder that a rank does not see"
mkdir -p A B
# apart [ARGUMENT...]: two ranks, each in a folder of its own.
apart() {
  run=none output=$work/apart.out
  timeout -k 5 "$job_seconds" "${launcher[@]}" -n 1 sh -c 'cd A && exec "$@"' - "$penstock" train "$deck" \
    -D data.train="$work/data" "$@" : -n 1 sh -c 'cd B && exec "$@"' - "$penstock" train "$deck" -D data.train="$work/data" "$@" \
    > "$output" 2>&1 < /dev/null
  code=$?
}
apart -D run.folder=here
ends 2
says_once "^penstock: error: on rank 1 \($(hostname)\): the run folder $work/B/here is not the one that rank 0 writes to: No such file"
check [ -z "$(find A B -mindepth 1)" ] || fail "something is left: $(find A B)"
mkdir B/here
apart -D run.folder=here
ends 2
says_once "^penstock: error: on rank 1 .*B/here is not the one .*: a folder of this name is there, but it is another one"
mkdir A/here A/saves B/saves
ln -s ../saves A/here/checkpoints
apart -D run.folder="$work/A/here"
ends 0
rm -r A/here/* && mkdir "$work/A/here/checkpoints"
apart -D run.folder="$work/A/here"
ends 0

name="a folder that is renamed, and another run in its place"
long=(-D run.steps=1000000 -D run.checkpoint_every=0 -D run.trace_every=10)
start moved 1 "${long[@]}"
first=$job
wait_until has_step moved 3
mv moved was
start moved 1 "${long[@]}" -D run.seed=7
second=$job output=$work/second.out
job=$first output=$work/moved.out
wait_until is_gone "$first"
status_is was "FAILED .*moved was renamed, removed or replaced while this run was in it.*"
check [ -z "$(find was -name '.lock*' -o -name '*.tmp' -o -path '*/checkpoints/*')" ] || fail "left: $(find was)"
wait_until has_step moved 3
train moved 1 "${long[@]}" -D run.seed=7
ends 75
says "another job runs in "
touch moved/stop
wait_until is_gone "$second"
status_is moved "CHECKPOINTED step [0-9]+"
check [ ! -e moved/.lock.1 ] || fail "the lock is left"

name="a folder that is removed"
start removed 2 "${long[@]}"
wait_until has_step removed 3
until rm -r removed; do :; done # the run may write a file meanwhile
wait_end
check [ ! -e removed ] || fail "the folder is there again: $(find removed)"
says "^penstock: error: .*removed.* removed or (replaced|taken)"

name="a lock that is removed"
start unlocked 2 "${long[@]}"
wait_until has_step unlocked 3
rm unlocked/.lock.*
wait_end
says "^penstock: error: .*the lock of this run, was removed or taken"
check [ ! -e unlocked/STATUS ] || fail "STATUS is '$(cat unlocked/STATUS)'"

name="the same batch job started again on another node"
for variable in PBS_JOBID LSB_JOBID JOB_ID SLURM_JOB_ID; do
  again job
  rm job/STATUS
  echo "host node17 pid 4242 started 88231 boot 0b4c5d2e-1111-2222-3333-444455556666 job 4711.server restart 0" > job/.lock.1
  touch -d '5 minutes ago' job/.lock.1
  train job 2 "${more[@]}"
  ends 75
  check [ ! -e job/STATUS ] || fail "STATUS is '$(cat job/STATUS)'"
  export $variable=4711.server
  train job 2 "${more[@]}"
  ends 0
  says "going on after step 6 from "
  unset $variable
  rm -r job
done

finish
