# shellcheck shell=bash
# What tests of whole runs share beside cmd_lib.sh: token files, a tiny deck, jobs in front and in the background, and
# comparisons of what they leave. Sourced, from the build folder; ends with `finish`.
#
# A job is known by its run: the folder $work/RUN; what it printed is $work/RUN.out. How a job ended after a signal is read
# from RUN/STATUS: the launcher loses exit codes then.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/cmd_lib.sh"
need_launcher
helper=$build/tests/run_helper
job_seconds=$((30 * factor))
name=start run=none output=$work/none.out shown=
: > "$output"

clean_up() {
  local pid
  for pid in $(list_ranks ''); do kill -KILL "$pid" 2> /dev/null; done
  cd / && rm -rf "$work"
}

fail() {
  failures=$((failures + 1))
  echo "failed: $name: $*" | cut -c 1-300
  [ "$shown" = "$run $output $SECONDS" ] || tail -n 15 "$output" | sed 's/^/    /'
  shown="$run $output $SECONDS"
}

# ---- inputs ----

# make_text LINES [FIRST]: text that a model can learn something from.
make_text() { seq "${2:-1}" $((${2:-1} + $1 - 1)) | sed 's/.*/& tons of water passed the sluice &/'; }

# make_data PREFIX LINES [FIRST]: token files of one document.
make_data() {
  make_text "$2" "${3:-1}" > "$1.txt"
  "$penstock" data build --output "$1" "$1.txt" > "$1.out" || { cat "$1.out"; exit 1; }
}

# write_deck FILE [FAMILY]: four blocks, two micro-batches a step, one checkpoint at the end.
write_deck() {
  cat > "$1" << 'DECK'
run:
  steps: 6
  checkpoint_every: 0
  trace_every: 1
data:
  train: data
  sequence_length: 16
  global_batch: 4
  micro_batch: 2
optimizer:
  lr: 1e-2
device:
  threads: 1
memory:
  device_limit: 64 MiB
model:
DECK
  if [ "${2:-llama}" != gpt2 ]; then
    printf '  model_type: %s\n' "${2:-llama}" >> "$1"
    cat >> "$1" << 'DECK'
  vocab_size: 257
  hidden_size: 32
  intermediate_size: 64
  num_hidden_layers: 4
  num_attention_heads: 4
  num_key_value_heads: 2
  max_position_embeddings: 16
DECK
  else
    cat >> "$1" << 'DECK'
  model_type: gpt2
  vocab_size: 257
  n_positions: 16
  n_embd: 32
  n_layer: 4
  n_head: 4
DECK
  fi
}
deck=$work/deck.yml

# ---- jobs ----

# train RUN RANKS [ARGUMENT...]: a life of a run, to its end; sets code.
train() {
  local ranks=$2
  run=$1 output=$work/$1.out
  shift 2
  timeout -k 5 "$job_seconds" "${launcher[@]}" -n "$ranks" "$penstock" train "$deck" -D "run.folder=$work/$run" "$@" \
    > "$output" 2>&1 < /dev/null
  code=$?
}

# start RUN RANKS [ARGUMENT...]: the same in the background; sets job, the launcher's process.
start() {
  local ranks=$2
  run=$1 output=$work/$1.out
  shift 2
  "${launcher[@]}" -n "$ranks" "$penstock" train "$deck" -D "run.folder=$work/$run" "$@" > "$output" 2>&1 < /dev/null &
  job=$!
}

# ask_stop RUN: of a run that starts later, after its first step: a file older than the start would be taken away.
ask_stop() { touch -d '1 hour' "$1/stop"; }

# list_ranks RUN [RANK]: processes of a run's ranks, or of one rank; '' is any run of this test. Without commands of their own,
# as it is called again and again while something is waited for.
list_ranks() {
  local pid name words word variables found
  for pid in /proc/[0-9]*; do
    { read -r name < "$pid/comm"; } 2> /dev/null && [ "$name" = penstock ] || continue
    { mapfile -d '' words < "$pid/cmdline"; } 2> /dev/null || continue
    found=
    for word in "${words[@]}"; do
      case $word in "run.folder=$work/$1") found=yes ;; "run.folder=$work/"*) [ -n "$1" ] || found=yes ;; esac
    done
    [ -n "$found" ] || continue
    if [ $# -gt 1 ]; then
      { mapfile -d '' variables < "$pid/environ"; } 2> /dev/null || continue
      [[ " ${variables[*]} " = *" PMI_RANK=$2 "* ]] || continue
    fi
    echo "${pid#/proc/}"
  done
}

# send SIGNAL RUN [RANK]: to all its ranks, or to one.
send() {
  local pids
  pids=$(list_ranks "${@:2}")
  [ -n "$pids" ] || fail "no process of $2 to send $1 to"
  # shellcheck disable=SC2086 # several numbers
  kill -"$1" $pids
}

# wait_until COMMAND...: until it succeeds; fails after the time of a job.
wait_until() {
  local end=$((SECONDS + job_seconds))
  until "$@"; do
    if [ $SECONDS -gt $end ]; then
      fail "not within $job_seconds s: $*"
      return 1
    fi
    sleep 0.02
  done
}
has_step() { [ "$(get_last_step "$1")" -ge "$2" ]; }
has_file() { [ -e "$1" ]; }
is_gone() { ! kill -0 "$1" 2> /dev/null; }
has_no_rank() { [ -z "$(list_ranks "$1")" ]; }

# wait_end: of the job started last: no process of it is left then. Sets code.
wait_end() {
  wait_until is_gone "$job" || kill -KILL "$job"
  wait "$job"
  code=$?
  check wait_until has_no_rank "$run"
}

# on_own_disk SIZE COMMAND...: with a file system of so many bytes at $work/small, which no other process sees. Fails where
# that may not be made.
on_own_disk() {
  local size=$1
  shift
  mkdir -p "$work/small"
  unshare --user --map-root-user --mount sh -c "mount -t tmpfs -o size=$size none '$work/small' && \"\$@\"" - "$@"
}

# ---- what is to hold ----

says() { check grep -qE -- "$1" "$output" || fail "no line with '$1'"; }
says_not() { check; if grep -qE -- "$1" "$output"; then fail "a line with '$1'"; fi; }
says_once() { check [ "$(grep -cE -- "$1" "$output")" = 1 ] || fail "not one line with '$1'"; }
status_is() { check grep -qxE -- "$2" "$work/$1/STATUS" || fail "$1/STATUS is '$(cat "$work/$1/STATUS" 2>&1)', not '$2'"; }
# Of a folder after a life: the last line of the log repeats STATUS.
log_ends_with_status() {
  check [ "$(tail -n 1 "$work/$1/log.txt")" = "penstock: $(cat "$work/$1/STATUS")" ] ||
    fail "the last line of log.txt is '$(tail -n 1 "$work/$1/log.txt")', STATUS '$(cat "$work/$1/STATUS")'"
}

get_last_step() {
  local lines=() last=
  { mapfile -t lines < "$work/$1/metrics.csv"; } 2> /dev/null
  [ ${#lines[@]} = 0 ] || last=${lines[-1]%%,*}
  case $last in '' | *[!0-9]*) echo 0 ;; *) echo "$last" ;; esac
}
# get_columns RUN FIELDS [STEPS]: of metrics.csv; step,loss,tokens,lr,grad_norm are 1-5, validation_loss is 9.
get_columns() { tail -n +2 "$work/$1/metrics.csv" | head -n "${3:--0}" | cut -d, -f"$2"; }

# same_losses RUN RUN [STEPS]: step, loss, tokens, rate, norm, digit by digit.
same_losses() {
  check diff <(get_columns "$1" 1-5 "${3:--0}") <(get_columns "$2" 1-5 "${3:--0}") > "$work/differences" ||
    fail "losses of $1 and $2 differ: $(head -n 6 "$work/differences")"
}

# get_checkpoint RUN [STEP]: the file of the newest, or of a step, as the index names it.
get_checkpoint() {
  local file
  file=$(awk -v step="${2:-}" '$1 != "#" && (step == "" || $1 == step) { file = $4 } END { print file }' \
    "$work/$1/checkpoints/index.txt")
  echo "$work/$1/checkpoints/$file"
}
same_weights() { # RUN RUN [STEP]
  check "$helper" compare "$(get_checkpoint "$1" "${3:-}")" "$(get_checkpoint "$2" "${3:-}")" > "$work/differences" 2>&1 ||
    fail "checkpoints of $1 and $2 differ: $(head -n 5 "$work/differences")"
}
same_run() { same_losses "$1" "$2" && same_weights "$1" "$2"; }

# has_steps RUN N: metrics.csv and trace.h5 have the steps 1 to N, each once.
has_steps() {
  check [ "$(get_columns "$1" 1 | tr '\n' ' ')" = "$(seq -s ' ' 1 "$2") " ] ||
    fail "metrics.csv of $1 has steps $(get_columns "$1" 1 | tr '\n' ' ')"
  "$helper" trace "$work/$1/trace.h5" > "$work/trace" || fail "trace.h5 of $1: $(cat "$work/trace")"
  check [ "$(grep -v ranks "$work/trace" | cut -d' ' -f1 | tr '\n' ' ')" = "$(seq -s ' ' 1 "$2") " ] ||
    fail "trace.h5 of $1 has steps $(cut -d' ' -f1 "$work/trace" | tr '\n' ' ')"
}
