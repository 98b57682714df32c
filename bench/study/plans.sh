# Plans and what is read from them. Needs: penstock, decks, and a folder of its own to work in.
# shellcheck shell=bash

no_limit='-D memory.device_limit=9999GiB'
one_f_one_b='-D pipeline.planner=1f1b -D pipeline.partition=even -D pipeline.recompute_early=false'
equations=$source/equations.awk

# plan DECK OVERRIDE...: leaves plan.txt, order.csv and RUN/plan.h5, or the reason in reason.
plan() {
  planned=no
  "$penstock" plan "$@" -D run.folder=RUN --export order.csv > plan.txt 2> reason && planned=yes
  [ "$planned" = yes ]
}
# plan_uniform R OVERRIDE...: the same with passes of 1, 1 and 1 ms and recomputation of R ms, whatever is recomputed.
plan_uniform() {
  local r=$1
  shift
  # shellcheck disable=SC2086 # overrides are words
  plan "$decks/llama2-23b.yml" $no_limit -D pipeline.partition=even -D cost.source=uniform \
    -D "cost.uniform={forward_ms: 1, input_ms: 1, weight_ms: 1, recompute_ms: $r}" "$@"
}
# Why there is no plan; of a limit that is passed, where and what would be needed.
get_reason() {
  sed -n 's/^penstock: error: //p' reason | head -n 1 | sed 's/^no plan fits[^:]*: //' | awk '
    /^rank [0-9]+ needs [0-9]+ bytes/ {printf "does not fit: rank %d needs %.1f GiB\n", $2, $4 / 1024 ^ 3; next}
    {print substr($0, 1, 100)}'
}
# "N UNIT" of each line as ms.
to_ms() { awk '{printf "%.9g\n", $1 * ($2 == "min" ? 60000 : $2 == "s" ? 1000 : 1)}'; }
get_step() { sed -nE 's/^predicted step ([0-9.e+]+ (ms|s|min)).*/\1/p' "${1:-plan.txt}" | to_ms; }
# Lower bounds of the plan's stages, and of any cut into as many. Where no activations may leave their device, limits
# count: plan prints that in a line of its own where it makes a difference.
get_bound_line() { # LEAVES (yes, no)
  [ "$1" = no ] && grep '^where no activations leave' plan.txt || grep '^lower bound' plan.txt
}
get_bound() { get_bound_line "$1" | sed -nE 's/^[a-z ]* ([0-9.e+]+ (ms|s|min)), step.*/\1/p' | to_ms; }
get_any_bound() { get_bound_line "$1" | sed -nE 's/^.* of any cut ([0-9.e+]+ (ms|s|min)).*/\1/p' | to_ms; }
get_hidden_copies() { sed -nE 's/^blocks are on their way.*; ([0-9.]+) % of that is hidden/\1/p' plan.txt; }
list_block() { awk -v head="$1" '$0 ~ head {on = 1; next} /^$/ {on = 0} on' "${2:-plan.txt}"; } # HEAD-PATTERN [FILE]

# A line a stage: forward, recomputation, backward of a micro-batch, ms (means); forwards that it runs ahead;
# micro-batches whose activations it has at most; peak, GiB.
list_stages() {
  paste -d ' ' <(list_block '^stage .*layers' | awk '{print $6, $7 + 0, $8}') <(list_orders) \
    <(list_block '^rank .*peak .*MiB at' | awk '{print $8 / 1024}')
}
list_orders() {
  awk -F, '{
    live = most = ahead = 0
    back = ""
    for (i = 1; i <= NF; i++) {
      if ($i ~ /F/) {live++; if (back == "") ahead++}
      if ($i ~ /[BI]/) {live--; back = "yes"}
      if (live > most) most = live
    }
    print ahead, most
  }' order.csv
}
get_peak() { list_stages | awk '$6 > most {most = $6} END {printf "%.0f", most}'; }

# A line a stage: compute, recomputation, forward bubble, backward bubble of a step, ms; peak, GiB.
list_times() { # MICRO-BATCHES
  "$penstock" simulate RUN/plan.h5 > times.txt || return
  paste -d ' ' <(list_stages) <(list_block '^stage  forward' times.txt | awk '{print $2, $3}') |
    awk -v m="$1" '{print m * ($1 + $3), m * $2, $7, $8, $6}'
}
show_times() { # MICRO-BATCHES TITLE
  if [ "$planned" = no ]; then
    printf '\n  %s: %s\n' "$2" "$(get_reason)"
    return 1
  fi
  printf '\n  %s: step %.0f ms\n' "$2" "$(get_step)"
  printf '  stage  F + B ms   R ms  forward bubble ms  backward bubble ms   sum ms  peak GiB\n'
  list_times "$1" | awk '{
    printf "  %5d %9.0f %6.0f %18.0f %19.0f %8.0f %9.1f\n", NR - 1, $1, $2, $3, $4, $1 + $2 + $3 + $4, $5
  }'
}

# How long the step of this plan would be if recomputation took as long as the blocks' forward (that of the second
# stage, which has blocks alone): the plan simulated with its own times by hand, with either recomputation, and the
# difference added. Of equal stages it is (m + p - 1) (f - r).
get_whole_step() {
  local f b r lists own whole
  lists=$(list_stages | awk '{f = f sep $1; b = b sep $3; r = r sep $2; sep = ", "} END {print f ";" b ";" r}')
  IFS=';' read -r f b r <<< "$lists"
  own=$(reprice "$f" "$b" "$r")
  r=$(list_stages | awk 'NR == 2 {f = $1} END {for (s = 1; s <= NR; s++) printf "%s%s", (s > 1 ? ", " : ""), f}')
  whole=$(reprice "$f" "$b" "$r")
  awk -v step="$(get_step)" -v own="$own" -v whole="$whole" 'BEGIN {print step + whole - own}'
}
reprice() { # FORWARDS BACKWARDS RECOMPUTATIONS: the step
  "$penstock" simulate RUN/plan.h5 -D cost.source=uniform \
    -D "cost.uniform={forward_ms: [$1], input_ms: 0, weight_ms: [$2], recompute_ms: [$3]}" > repriced.txt
  get_step repriced.txt
}
