#!/bin/bash
# Jobs that save checkpoints and write traces are killed, one rank at a random byte of its writing or at a random instant,
# again and again in the same folder. Each next start must find everything that the one before had finished.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"
need_launcher
folder=$work before=never
show_output() { sed 's/^/    /' log; }

life() { # RANKS KIND RANK BYTES MICROSECONDS
  timeout -k 5 40 "${launcher[@]}" -n "$1" "$build/tests/kill_helper" "$2" "$folder/$2" "$3" "$4" "$5" > log 2>&1 < /dev/null
  code=$?
  last="$2, killed before: $before"
  # The launcher may lose the code of a killed job, but not what the check says.
  check [ "$(grep -c "failed:" log)" = 0 ] && [ $code != 124 ] && [ $code != 137 ] || fail "code $code"
  before="rank $3 at byte $4, microsecond $5"
}

random() { echo $((RANDOM * 32768 + RANDOM)); }

for kind in checkpoint trace; do
  mkdir "$folder/$kind"
  # Bytes and microseconds of a few saves.
  most_bytes=700000 most_time=60000
  [ $kind = checkpoint ] || most_bytes=6000000 most_time=200000
  for i in $(seq 1 "${LIVES:-20}"); do
    # Traces are written by rank 0. Half of the lives end at a byte, half at an instant.
    rank=0
    [ $kind = trace ] || rank=$((i % 3))
    if [ $((i % 2)) = 1 ]; then
      life 3 $kind $rank $(($(random) % most_bytes + 1)) 0
    else
      life 3 $kind $rank 0 $(($(random) % most_time + 1))
    fi
  done
  # At the two places where a save has a file in hand that is not on the list.
  for place in -1 -2 -1 -2; do
    [ $kind = trace ] || life 3 $kind 0 $place 0
  done
  life 3 $kind 0 0 0
  ends 0
  steps=$(tail -n 1 "$folder/$kind/progress")
  echo "$kind: ${steps:-0} steps in $i lives"
  check [ "${steps:-0}" -gt 5 ] || fail "too few to tell"
  rest=$(find "$folder/$kind" -name '*.tmp' -o -name '*.journal')
  if [ $kind = checkpoint ]; then
    listed=$(awk '$1 != "#" { print $4 }' "$folder/checkpoint/index.txt" | sort)
    check [ "$(cd "$folder/checkpoint" && printf '%s\n' *.h5)" = "$listed" ] ||
      fail "files that are not listed: $(ls "$folder/checkpoint"), $listed"
    check [ "$(wc -l <<< "$listed")" -le 2 ] || fail "more than two stay: $listed"
  fi
  check [ -z "$rest" ] || fail "left: $rest"
done

# What was healed is plain HDF5 for others.
if command -v h5dump > /dev/null; then
  check h5dump "$folder/trace/trace.h5" > dump 2> log || fail "h5dump"
fi
finish
