#!/bin/bash
# `penstock profile` as a user meets it: on 1, 2 and 3 ranks all ops in all passes with times above 0; what a file has is not
# measured again, what it lacks is added; other devices, other models and damaged files; mistakes; and jobs that are stopped
# or killed while they measure.
. "${srcdir:-.}/tests/run_lib.sh"
write_deck "$deck"

# profile RUN RANKS [ARGUMENT...]: a job to its end; sets code.
profile() {
  local ranks=$2
  name="$1 on $2 ranks" run=$1 output=$work/$1.out
  shift 2
  timeout -k 5 "$job_seconds" "${launcher[@]}" -n "$ranks" "$penstock" profile "$deck" -D "run.folder=$work/$run" \
    --seconds 1 "$@" > "$output" 2> "$output.err" < /dev/null
  code=$?
  cat "$output.err" >> "$output"
}
count() { grep -cE -- "$1" "$output"; }
counts() { check [ "$(count "$1")" = "$2" ] || fail "$(count "$1") lines with '$1', not $2"; }
# Every time of the JSON is a number above 0.
# shellcheck disable=SC2016 # variables of awk
has_times() {
  check awk '/"seconds":/ { n++; value = $2; sub(/,/, "", value); if (!(value + 0 > 0)) bad++ } END { exit bad > 0 || n == 0 }' \
    "$output" || fail "a time is not above 0"
}

# ---- all that is to be measured: 12 ops in 3 passes at 6 shapes; both ways of each pair, 7 sizes ----
for ranks in 1 2 3; do
  profile "all$ranks" "$ranks" --json
  ends 0
  has_times
  counts '"pass": "(forward|input|weight)"' 216
  for pass in forward input weight; do counts "\"pass\": \"$pass\"" 72; done
  for layer in embed:18 attention:90 mlp:72 head:36; do counts "\"layer\": \"${layer%:*}\"" "${layer#*:}"; done
  counts '"length": 16,' 72
  counts '"from":' $((2 * (ranks - 1) * 7))
  counts '"kind": "(copy_out|copy_in|copy_both)"' 6
  counts '"kind": "disk_(write|read)"' 4
  counts '"kind": "(update|norm)"' 8
  check [ -s "$work/all$ranks/profile.h5" ] || fail "no profile.h5"
  check [ "$(ls -A "$work/all$ranks")" = profile.h5 ] || fail "also left: $(ls -A "$work/all$ranks")"
  check [ "$(count 'warning: ')" -le 1 ] || fail "more than one warning"
  # What the machine does not count is null, never 0, and one plain line says why.
  counts '"(cycles|instructions)": 0(\.0)?,?$' 0
  if [ "$(count '"(cycles|instructions)": null')" = 0 ]; then
    says_not 'hardware counters'
  else
    counts '^penstock: warning: hardware counters: .*PAPI.*; times are measured without them$' 1
  fi
  [ "$ranks" = 1 ] && says 'not measured: messages, as there is one rank'
done

# ---- the file is used again while device and model stand ----
cp "$work/all2/profile.h5" first.h5
profile all2 2
ends 0
says 'nothing was measured'
says '^ops for 2 x 16 tokens'
says '^  attention  core +[0-9.]+ +[0-9.]+ +[0-9.]+ '
says_not '^measuring'
check cmp -s first.h5 "$work/all2/profile.h5" || fail "the file has changed"
profile all2 2 -D data.micro_batch=3 --json
ends 0
counts '"rows": 3,' 108
counts '"rows": 2,' 108
has_times
profile all2 2 --again
ends 0
says '^measuring ops, 2 x 16 tokens'
says '^written: '
check cmp -s first.h5 "$work/all2/profile.h5" && fail "the file is as it was"
profile all2 2 -D model.hidden_size=64 --json
ends 0
says 'is of another model and is measured anew'
counts '"rows": 3,' 0
profile all2 2 -D model.hidden_size=64 -D device.threads=2
ends 0
says 'is of another device and is measured anew'

# ---- a damaged file ----
head -c 3000 first.h5 > damaged.h5
profile damaged 1 -D "cost.profile=$work/damaged.h5"
ends 0
says "warning: .*damaged.h5.*; it is measured anew"
says "^written: .*damaged.h5"
profile damaged 1 -D "cost.profile=$work/damaged.h5"
says 'nothing was measured'

# ---- somebody's file is not replaced ----
for options in '' --again; do
  cp "$deck" notes.txt
  # shellcheck disable=SC2086 # none or one
  profile foreign 2 -D "cost.profile=$work/notes.txt" $options
  ends 2
  says_once 'penstock: error: .*notes.txt is no profile: it is no HDF5 file, and is not replaced: name another file'
  check cmp -s "$deck" notes.txt || fail "notes.txt was replaced"
done

# ---- memory: parts of what fits, and what does not is named ----
profile tight 2 -D memory.device_limit='130 KiB' -D model.vocab_size=32
says 'not measured|memory'
profile small 2 -D memory.device_limit='20 KiB'
check [ "$code" != 0 ] || says 'not measured: 2 x 16 tokens, layer kind embed: they need .* of 20.00 KiB'

# ---- mistakes: one line, the same code on all ranks ----
refused() { # RUN PATTERN ARGUMENT...
  profile "$1" 3 "${@:3}"
  ends 2
  says_once 'penstock: error: '
  says "$2"
}
refused timed 'device.backend timed computes nothing, there is nothing to measure' -D device.backend=timed
refused seconds '--seconds x: a time above 0' --seconds x
refused rows 'data.global_batch' -D data.global_batch=0
refused place 'cannot be written' -D cost.profile="$work/nowhere/profile.h5"
refused folder "cost.profile: cannot write .*: it is a folder; name a file in it" -D cost.profile="$work"
refused model 'vocab' -D model.vocab_size=0

# ---- stopped and killed: nothing is left ----
start_profile() { # RUN
  name=$1 run=$1 output=$work/$1.out
  "${launcher[@]}" -n 2 "$penstock" profile "$deck" -D "run.folder=$work/$run" --seconds 120 > "$output" 2>&1 < /dev/null &
  job=$!
  wait_until grep -q '^measuring ops' "$output"
}
start_profile stopped
send TERM stopped 1
wait_end
says 'stopped by SIGTERM'
check [ -z "$(ls -A "$work/stopped")" ] || fail "left: $(ls -A "$work/stopped")"
start_profile killed
send KILL killed 0
wait_end
check [ -z "$(ls -A "$work/killed")" ] || fail "left: $(ls -A "$work/killed")"
finish
