#!/bin/bash
# run.wall_time counts all that follows a step, and an evaluation loses nothing: it is broken off where it does not fit or a
# stop comes, and what a kill in its middle takes away is its own result alone.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
# An evaluation takes minutes, a step milliseconds.
make_data long 300000 5000
write_deck "$deck"
evaluate=(-D run.steps=100000 -D data.validation=long -D run.evaluate_steps=1000000 -D run.trace_every=0)

get_saved() { awk '$1 != "#" { step = $1 } END { print step + 0 }' "$work/$1/checkpoints/index.txt" 2> /dev/null; }
has_saved() { [ "$(get_saved "$1")" = "$2" ]; }

name="an evaluation that does not fit into the wall time"
seconds=$((6 * factor))
SECONDS=0
train wall 2 "${evaluate[@]}" -D run.evaluate_every=5 -D run.checkpoint_every=0 -D "run.wall_time=$seconds s"
# The launcher's own time is not the program's; without breaking off it would be minutes.
check [ $SECONDS -le $((seconds + 1)) ] || fail "$SECONDS s, with a wall time of $seconds s"
says "the evaluation of step 5 is (broken off after [0-9]+ of [0-9]+ batches|left out): .* of run.wall_time are left"
says "stopped by run.wall_time after step"
status_is wall "CHECKPOINTED step [0-9]+"
check has_saved wall "$(sed 's/.* //' wall/STATUS)" || fail "$(cat wall/STATUS), but the checkpoint is of step $(get_saved wall)"
check [ "$(get_columns wall 9 | tr -d '\n')" = "" ] || fail "an evaluation was finished"
check [ "$(get_last_step wall)" -ge 5 ] || fail "no step 5"

for how in "SIGTERM send TERM" "SIGUSR1 send USR1" "the_stop_file touch"; do
  read -r reason action signal <<< "$how"
  name="$reason in an evaluation"
  start "stop$action$signal" 2 "${evaluate[@]}" -D run.evaluate_every=4 -D run.checkpoint_every=4
  wait_until has_saved "$run" 4
  if [ "$action" = touch ]; then touch "$run/stop"; else send "$signal" "$run" 1; fi
  wait_end
  says "the evaluation of step 4 is (broken off after [0-9]+ of [0-9]+ batches|left out): ${reason//_/ }"
  says "stopped by ${reason//_/ } after step 4"
  status_is "$run" "CHECKPOINTED step 4"
  check [ "$(get_columns "$run" 1 | tr '\n' ' ')" = "1 2 3 4 " ] || fail "steps $(get_columns "$run" 1 | tr '\n' ' ')"
  check [ "$(get_columns "$run" 9 | tr -d '\n')" = "" ] || fail "an evaluation was finished"
  stopped=$run
done
train "$stopped" 3 -D run.steps=6
ends 0
train whole 2 -D run.steps=6
same_run whole "$stopped"

name="SIGKILL in an evaluation"
start killed 2 "${evaluate[@]}" -D run.evaluate_every=4 -D run.checkpoint_every=4
wait_until has_saved killed 4
send KILL killed
wait_end
train killed 2 -D run.steps=6
ends 0
says "going on after step 4 from "
same_run whole killed

finish
