#!/bin/bash
# Jobs that save checkpoints and write traces are killed, one rank at a random byte of its writing or at a random instant,
# again and again in the same folder. Each next start must find everything that the one before had finished.
set -u
folder=$(mktemp -d /tmp/penstock-kill-XXXXXX)
trap 'rm -rf "$folder"' EXIT
failures=0 code=0 last=never

life() { # RANKS KIND RANK BYTES MICROSECONDS
  # shellcheck disable=SC2086 # the flags are several words
  timeout -k 5 40 $MPIEXEC $MPIEXEC_FLAGS -n "$1" ./tests/kill_helper "$2" "$folder/$2" "$3" "$4" "$5" > "$folder/log" 2>&1 < /dev/null
  code=$?
  # The launcher may lose the code of a killed job, but not what the check says.
  if grep -q "failed:" "$folder/log" || [ $code = 124 ] || [ $code = 137 ]; then
    echo "$2, killed before: $last; now code $code:"
    cat "$folder/log"
    failures=$((failures + 1))
  fi
  last="rank $3 at byte $4, microsecond $5"
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
  [ $code = 0 ] || { echo "the last life ended with $code"; cat "$folder/log"; failures=$((failures + 1)); }
  steps=$(tail -n 1 "$folder/$kind/progress")
  echo "$kind: ${steps:-0} steps in $i lives"
  [ "${steps:-0}" -gt 5 ] || { echo "too few to tell"; failures=$((failures + 1)); }
  rest=$(find "$folder/$kind" -name '*.tmp' -o -name '*.journal')
  if [ $kind = checkpoint ]; then
    listed=$(awk '$1 != "#" { print $4 }' "$folder/checkpoint/index.txt" | sort)
    [ "$(cd "$folder/checkpoint" && printf '%s\n' *.h5)" = "$listed" ] ||
      { echo "files that are not listed: $(ls "$folder/checkpoint"), $listed"; failures=$((failures + 1)); }
    [ "$(wc -l <<< "$listed")" -le 2 ] || { echo "more than two stay: $listed"; failures=$((failures + 1)); }
  fi
  [ -z "$rest" ] || { echo "left: $rest"; failures=$((failures + 1)); }
done

# What was healed is plain HDF5 for others.
if command -v h5dump > /dev/null; then
  h5dump "$folder/trace/trace.h5" > "$folder/dump" 2> "$folder/errors" || { cat "$folder/errors"; failures=$((failures + 1)); }
fi
exit $((failures > 0))
