#!/bin/bash
# A hundred signals at random instants of a step each end a run in a checkpoint that the next life goes on from; after all of
# them the run is that of one life, bit by bit. The products are wide enough for the library's widest kernels, whose damage by a
# signal handler (src/base/interrupt.h) this is about; where the CPU has AVX-512, half of the signals meet kernels without it.
# SIGNALS is their number, by default 100.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

signals=(TERM USR1 USR2 INT XCPU HUP)
each=$((${SIGNALS:-100} / 2))
make_data data 1000
write_deck "$deck"
sed -i -e 's/sequence_length: 16/sequence_length: 128/' -e 's/max_position_embeddings: 16/max_position_embeddings: 128/' \
  -e 's/hidden_size: 32/hidden_size: 96/' -e 's/intermediate_size: 64/intermediate_size: 192/' "$deck"
# Steps that last longer than what a script takes to find and signal a rank, so that there are not many of them; they are run
# once more in one life.
fixed=(-D data.micro_batch=1 -D data.global_batch=10 -D run.trace_every=0)
job_seconds=$((4 * job_seconds))

# live RUN: a life that begins, and is signalled at a random instant after its first step.
live() {
  local before signal=${signals[RANDOM % ${#signals[@]}]}
  before=$(get_last_step "$1")
  start "$1" 2 "${fixed[@]}" -D run.steps=100000
  wait_until has_step "$1" $((before + 1))
  sleep "$(printf '0.%03d' $((RANDOM % 60)))"
  name="SIG$signal, $1, life $2"
  send "$signal" "$1" $((RANDOM % 2))
  wait_end
  says "stopped by SIG$signal after step"
  status_is "$1" "CHECKPOINTED step [0-9]+"
}

# chain RUN: lives that end by signals, then one that ends by itself, and the same run without any of it.
chain() {
  local life last
  for ((life = 1; life <= each; life++)); do live "$1" $life; done
  name="the last life of $1"
  last=$(($(get_last_step "$1") + 2))
  train "$1" 2 "${fixed[@]}" -D run.steps=$last
  status_is "$1" DONE
  name="$1 in one life"
  train "$1-whole" 2 "${fixed[@]}" -D run.steps=$last
  same_run "$1-whole" "$1"
  echo "$1: $each signals, $last steps, $(grep -o 'oneDNN [^;]*' "$1.out" | head -n 1)"
  echo "$checks $failures" > "$1.count"
}

other=("")
grep -q '^flags.* avx512f' /proc/cpuinfo && other=(DNNL_MAX_CPU_ISA=AVX2)
echo "vector unit: $(grep -m 1 '^flags' /proc/cpuinfo | grep -oE 'avx2|avx512f|amx_tile' | sort -u | tr '\n' ' ')"
(chain widest) &
(export "${other[@]}" _; chain other) &
wait
for run in widest other; do
  check [ -s $run.count ] || fail "the chain of $run broke off"
  read -r more failed < $run.count
  checks=$((checks + more)) failures=$((failures + failed))
done
finish
