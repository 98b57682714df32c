#!/bin/bash
# Signals, the wall time and SIGKILL end a run in a way that it goes on from, bit by bit, whichever process they reach.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
write_deck "$deck"
# Steps that take a while, and more than a run here ever makes.
long=(-D run.steps=100000 -D data.global_batch=64 -D data.micro_batch=1)

# interrupt RUN HOW...: a run that is in its third step or later when HOW is done to it ends resumable.
interrupt() {
  start "$1" 2 "${long[@]}"
  wait_until has_step "$1" 3
  "${@:2}"
  wait_end
  log_ends_with_status "$1"
  status_is "$1" "CHECKPOINTED step [0-9]+"
  check [ "$(sed 's/.* //' "$1/STATUS")" = "$(get_last_step "$1")" ] ||
    fail "STATUS says $(cat "$1/STATUS"), the last row of metrics.csv is of step $(get_last_step "$1")"
}

name="SIGTERM to one rank"
interrupt term send TERM term 1
says "stopped by SIGTERM after step"

name="SIGUSR1 to one rank"
interrupt usr1 send USR1 usr1 0
says "stopped by SIGUSR1 after step"

name="SIGINT to one rank"
interrupt int send INT int 1
says "stopped by SIGINT after step"

name="SIGTERM to the launcher"
end_launcher() { kill -TERM "$job"; }
interrupt launcher end_launcher

name="run.wall_time"
train wall 2 "${long[@]}" -D "run.wall_time=1 s"
says "stopped by run.wall_time after step"
status_is wall "CHECKPOINTED step [0-9]+"

name="SIGKILL of all ranks"
start killed 2 "${long[@]}" -D run.checkpoint_every=4
wait_until has_step killed 6
send KILL killed
wait_end
check [ ! -e killed/STATUS ] || fail "a killed run left a STATUS: $(cat killed/STATUS)"
broke_at=$(get_last_step killed)

# All of them go on to one step, and are the run that made all of its steps in one life.
last=0
for run in term usr1 launcher wall killed; do
  [ "$(get_last_step $run)" -gt "$last" ] && last=$(get_last_step $run)
done
last=$((last + 2))
end=("${long[@]}" -D "run.steps=$last")
name="a run in one life"
train whole 2 "${end[@]}"
ends 0
for run in term usr1 launcher wall killed; do
  name="going on after $run"
  saved=$(awk '$1 != "#" { step = $1 } END { print step }' $run/checkpoints/index.txt)
  train $run 2 "${end[@]}"
  ends 0
  says "going on after step $saved from "
  [ $run = killed ] && says "the last run here broke off after step $broke_at"
  status_is $run DONE
  has_steps $run $last
  same_run whole $run
done

finish
