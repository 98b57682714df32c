#!/bin/bash
# Jobs that hang or lose a rank end by themselves, with one message that names the rank, and leave no process behind; jobs
# that only look so go on. The jobs are hang_helper's cases. T is the hang timeout in seconds.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"
need_launcher
helper=$build/tests/hang_helper
T=2
mark=mark-$$-$RANDOM output=$work/output

fail() {
  failures=$((failures + 1))
  echo "failed: $name: $1"
  sed 's/^/    /' "$output"
}

# Processes of ours that still run (zombies have no command line, and the brackets keep grep from finding itself).
left() { grep -lsa -- "[m]${mark#m}" /proc/[0-9]*/cmdline | grep -o '[0-9]\+'; }

# job NAME "LAUNCHER FLAGS" CASE [RANK]: runs it, sets code.
job() {
  name=$1 mark=$mark-${FUNCNAME[1]}- output=$work/output
  # shellcheck disable=SC2086 # the flags are several words
  timeout -s KILL 30 "${launcher[@]}" $2 -n 4 "$helper" "$3" $T "${4:-2}" "$mark" > "$output" 2>&1
  code=$?
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    processes=$(left)
    [ -z "$processes" ] && return
    sleep 0.2
  done
  fail "processes left: $processes"
  # shellcheck disable=SC2086 # several numbers, all ours
  kill -KILL $processes
}

has() { check grep -qE -- "$1" "$output" || fail "no line with '$1'"; }
has_not() { check; if grep -qE -- "$1" "$output"; then fail "a line with '$1'"; fi; }
ends_badly() { check [ "$code" != 0 ] && [ "$code" != 137 ] || fail "exit code $code"; }
says_once() { check [ "$(grep -c 'penstock: error:' "$output")" = 1 ] || fail "not one error line"; }

# Of every verdict on rank R that stopped answering: who, where, since when; who waits for whom; each other rank's hook.
names_rank() {
  says_once
  has "error: rank $1 \(.+\) gives no answer, last seen in step 5, B stage $1 micro-batch 2$2 \(no progress"
  has "rank $((($1 + 1) % 4)) \(.+\) in step 5, B stage $((($1 + 1) % 4)) micro-batch 2: waits for rank $1: the ring's message( to go out)?, for [0-9]+ s"
  [ "$(grep -c 'hook in time: rank' "$output")" = 3 ] || fail "not three hooks in time"
}

# ---- the jobs, each a part of its own: nearly all of their time is waiting ----

stopped() {
  job "rank 2 is stopped" "" stop
  names_rank 2 "; its process is stopped"
  ends_badly
}
stopped_first() {
  job "rank 0 is stopped" "" stop 0
  names_rank 0 "; its process is stopped"
  ends_badly
}
deaf() {
  job "rank 2 is deaf" "" deaf
  names_rank 2 ""
  ends_badly
}
gone() {
  job "rank 2 exits, the launcher leaves the others alive" "-disable-auto-cleanup" exit
  names_rank 2 "; its process is gone"
  ends_badly
}
# MPICH can be told that even and odd ranks are on two nodes: what rank 3 did is told by its neighbour, rank 1.
elsewhere() {
  export MPIR_CVAR_ODD_EVEN_CLIQUES=1
  job "rank 3 is stopped, on another node" "" stop 3
  names_rank 3 ""
  ends_badly
}
deadlock() {
  job "all wait for each other" "" deadlock
  says_once
  has "error: all ranks wait for each other"
  has "rank 1 \(.+\) in step 5, B stage 1 micro-batch 2: waits for rank 2: the gradient of micro-batch 3, for [0-9]+ s$"
  ends_badly
}
wordy() {
  job "all wait for what takes many words" "" wordy
  says_once
  has "rank 3 \(.+\) in step 5, B stage 3 micro-batch 2: waits for rank 0: the gradient( of which there are many)+( [a-z]+)* \.\.\., for [0-9]+ s$"
  has_not "[^ ]\.\.\."
  ends_badly
}
buffered() {
  job "all send one byte before they receive, buffered" "" buffered
  has_not "penstock"
  ends 0
}
synchronous() {
  job "all send one byte before they receive, synchronously" "" sync
  says_once
  has "error: all ranks wait for each other"
  has "rank 1 \(.+\) in step 5, B stage 1 micro-batch 2: waits for rank 2: its one byte to be received"
  ends_badly
}
works() {
  job "rank 2 works for longer than the timeout" "" work
  has_not "penstock"
  ends 0
}
works_alone() {
  job "rank 2 works alone for longer than the timeout" "" alone
  has_not "penstock"
  ends 0
}
suspended() {
  job "the whole job is suspended for longer than the timeout" "" pause
  has_not "penstock"
  ends 0
}
killed() {
  job "rank 2 is killed" "" kill
  ends_badly
}
checked() {
  job "a check fails on rank 2" "" check
  has "^penstock: rank 2: .*hang_helper.c:[0-9]+: the sum is 7$"
  has_not "MPI_Abort"
  ends_badly
}
shorter() {
  job "a message is shorter than asked for" "" shorter
  has "rank 3: .*message from rank 2 with tag 9: 3000 bytes asked for, 2000 sent"
  ends_badly
}
longer() {
  job "a message is longer than asked for" "" longer
  has "rank 3: .*message from rank 2 with tag 9: 3000 bytes asked for, at least 3001 sent"
  ends_badly
}
lost() {
  job "a message is never received" "" lost
  has "rank 0: .*rank 2 sent 1 messages to this one, which received 0"
  ends_badly
}
at_once 8 deaf works works_alone suspended stopped stopped_first gone elsewhere deadlock wordy synchronous \
  buffered killed checked shorter longer lost

# Four tasks of a launcher that MPI does not see, as of srun without the right --mpi.
name="four tasks that each are rank 0 of 1"
for task in 0 1 2 3; do
  SLURM_NTASKS=4 SLURM_PROCID=$task timeout 20 "$helper" end $T 2 "$mark" > "$output" 2>&1
  code=$?
  has "launcher says 4 tasks \(SLURM_NTASKS\), MPI \(.+\) says 1.*srun --mpi=pmi2.*--single"
  ends 2
done
name="one task on purpose"
SLURM_NTASKS=4 timeout 20 "$helper" single $T 2 "$mark" > "$output" 2>&1
code=$?
ends 0

finish
