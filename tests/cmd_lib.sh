# shellcheck shell=bash
# What tests of commands share: a folder of their own, commands with their exit code and output, checks of what they say.
# Sourced, from the build folder; ends with `finish`. Needs no launcher: a test on several ranks calls need_launcher first,
# and one that trains sources run_lib.sh.
set -u
penstock=${PENSTOCK:-$PWD/penstock}
case $penstock in /*) ;; *) penstock=$PWD/$penstock ;; esac
build=${abs_builddir:-$PWD}
source=$(cd "${srcdir:-$(dirname "${BASH_SOURCE[0]}")/..}" && pwd)
factor=${TEST_TIME_FACTOR:-1}
command_seconds=$((60 * factor))
work=$(mktemp -d "$PWD/$(basename "$0" .sh)-XXXXXX")
cd "$work" || exit 1
failures=0 checks=0 code=0 last=start
: > out
: > err
exec < /dev/null

clean_up() { cd / && rm -rf "$work"; }
trap clean_up EXIT

# need_launcher: sets launcher, or ends the test as skipped.
need_launcher() {
  if [ -z "${MPIEXEC:-}" ] || [ "$MPIEXEC" = no ]; then
    echo "skipped: configure found no launcher (MPIEXEC)"
    exit 77
  fi
  export UCX_TLS=${UCX_TLS:-self,sm} OMP_NUM_THREADS=1
  read -ra launcher <<< "$MPIEXEC ${MPIEXEC_FLAGS:-}"
}

# show_output: what a failure is shown with.
show_output() { cat out err | head -n 12 | cut -c 1-300 | sed 's/^/    /'; }

fail() {
  failures=$((failures + 1))
  echo "failed: $last: $*" | cut -c 1-300
  show_output
}
check() { checks=$((checks + 1)); "$@"; }

# finish [LEAST]: the verdict; a test that made fewer checks than that has lost some.
finish() {
  if [ $failures = 0 ]; then echo "$checks checks passed"; else echo "$failures of $checks checks failed"; fi
  [ $checks -ge "${1:-1}" ] && [ $failures = 0 ]
  exit
}

# at_once N PART...: parts of the test, functions of it, N of them side by side, each in a shell and an empty folder of its own
# (so that it sets and leaves nothing for another). What they print comes in their order; their checks are the test's.
at_once() {
  local most=$1 part all failed
  shift
  for part; do
    while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n; done
    (
      work=$work/$part failures=0 checks=0
      mkdir "$work" && cd "$work" || exit 1
      : > out
      : > err
      "$part"
      echo "$checks $failures" > ../counted."$part"
    ) > printed."$part" 2>&1 &
  done
  wait
  for part; do
    cat printed."$part"
    all=0 failed=0
    check read -r all failed < counted."$part" || fail "$part broke off"
    checks=$((checks + all)) failures=$((failures + failed))
  done
}

# ---- commands ----

# call COMMAND...: its output in out and err, its exit code in code; its input is the caller's.
call() {
  last=${*/#"$penstock"/penstock}
  timeout -k 5 "$command_seconds" "$@" > out 2> err
  code=$?
}
# run CODE ARGUMENT...: penstock on one rank without a launcher; it ends with that exit code.
run() {
  call "$penstock" "${@:2}" < /dev/null
  ends "$1"
}
# run_on RANKS CODE ARGUMENT...: penstock on so many ranks; on one without a launcher.
run_on() {
  local where=("${launcher[@]}" -n "$1")
  [ "$1" = 1 ] && where=()
  call "${where[@]}" "$penstock" "${@:3}" < /dev/null
  last="penstock ${*:3} on $1"
  ends "$2"
}

# Many commands in one job, whose start takes longer than most of them:
# queue RANKS ARGUMENT...: a command for later, on so many ranks; its place is in `queued`.
queue() {
  local file=$work/queue.$1/commands
  queued=queue.$1
  shift
  mkdir -p "$work/$queued"
  { printf '%s' "$1"; printf '\t%s' "${@:2}"; echo; } >> "$file"
  queued=$work/$queued/$(wc -l < "$file")
}
# run_queue: all of them, a job for each number of ranks.
run_queue() {
  local file
  for file in "$work"/queue.*/commands; do
    (
      cd "${file%/*}" || exit 1
      call "${launcher[@]}" -n "${PWD##*.}" "$build/tests/commands_helper" commands < /dev/null
      ends 0
      exit $failures
    ) || fail "the commands of ${file%/*}"
    mv "$file" "$file.done"
  done
}
# take PLACE: a command of the queue becomes the last command.
take() {
  local k=${1##*/} folder=${1%/*}
  last="penstock $(sed -n "$k"p "$folder/commands.done" | tr '\t' ' ') on ${folder##*.}"
  code=none
  [ ! -s "$folder/code.$k" ] || code=$(< "$folder/code.$k")
  cat "$folder/out.$k" > out
  cat "$folder/err.$k" > err
}

# ---- what is to hold of the last command ----

ends() { check [ "$code" = "$1" ] || fail "exit code $code, not $1"; }
# Lines that match a pattern: on standard output, on standard error, on either.
says() { check grep -qE -- "$1" out || fail "no '$1' on standard output"; }
warns() { check grep -qE -- "$1" err || fail "no '$1' on standard error"; }
tells() { check grep -qE -- "$1" out err || fail "no '$1'"; }
# is_silent out|err: nothing was said there.
is_silent() { check [ ! -s "$1" ] || fail "says on $1: $(head -c 200 "$1")"; }
is_there() { check [ -s "$1" ] || fail "no $1"; }
