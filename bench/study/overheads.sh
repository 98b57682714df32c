# Figures 5 and 14, and the gains that Eq. 3 promises: compute, recomputation and bubbles.
# shellcheck shell=bash

# Uniform times: gain over recomputation on all stages (r = f) with r = 0.39 f, which the paper's own numbers lead to.
show_gains() {
  local n m whole
  printf '\nUniform times: gain over recomputation on all stages (r = f) with r = 0.39 f; 8 stages\n'
  printf '  %-12s %8s %8s %8s %8s   %s\n' adjusted 16 32 64 128 published
  # shellcheck disable=SC2086 # overrides are words
  for n in 3 5; do
    printf '  %-12s' "first $n"
    for m in 16 32 64 128; do
      plan_uniform 1 -D data.global_batch=$m $one_f_one_b -D pipeline.recompute=full
      whole=$(get_step)
      plan_uniform 0.39 -D data.global_batch=$m -D obscura.faithful=true -D obscura.steps=refined \
        -D obscura.adjusted_stages=$n
      awk -v a="$whole" -v b="$(get_step)" 'BEGIN {printf " %8.3f", a / b}'
    done
    printf '   %s\n' "$([ $n = 3 ] && echo '23 B: 1.29-1.31' || echo '28 B: 1.22-1.27, 1.22 at 64')"
  done
}

# Four stages, 13 micro-batches (fitted to the published percentages), f = 1 ms, r = f, or for MLP what the preset says.
plan_figure5() { # MODE N SET R
  local key='-D pipeline.stages=4 -D data.global_batch=13'
  # shellcheck disable=SC2086 # overrides are words
  case $1 in
    1f1b) plan_uniform "$4" $key $one_f_one_b -D "pipeline.recompute=$3" -D "pipeline.recompute_stages=$2" ;;
    *) plan_uniform "$4" $key -D obscura.faithful=true -D "obscura.steps=$1" -D "obscura.adjusted_stages=$2" \
      -D "pipeline.recompute=$3" ;;
  esac
}
get_mlp_ratio() {
  # shellcheck disable=SC2086 # overrides are words
  plan "$decks/llama2-23b.yml" $one_f_one_b $no_limit -D pipeline.recompute=mlp
  list_stages | awk 'NR == 2 {printf "%.2f", $2 / $1}'
}
show_figure5() {
  local base name mode n set published r
  local mlp
  mlp=$(get_mlp_ratio)
  plan_figure5 1f1b 4 none 1
  base=$(get_step)
  printf '\nFigure 5: what recomputation adds; uniform times (f = 1), 4 stages, 13 micro-batches; r = f, with MLP '
  printf '%s f\n' "$mlp"
  printf '  %-24s %7s %9s   %s\n' '' adds published 'R, forward bubble, backward bubble by stage'
  while read -r name mode n set published; do
    r=1
    [ "$set" = mlp ] && r=$mlp
    plan_figure5 "$mode" "$n" "$set" "$r" || continue
    list_times 13 | awk -v name="$name" -v published="$published" -v a="$(get_step)" -v b="$base" '
      {line = line sprintf("  %5.2f %5.2f %5.2f |", $2, $3, $4)}
      END {printf "  %-24s %5.1f %% %9s %s\n", name, 100 * (a / b - 1), published, line}'
  done << 'ROWS'
a_Recomp-Non 1f1b 4 none -
a_Recomp-0 1f1b 1 full 19%
a_Recomp-1 1f1b 2 full 25%
a_Recomp-All 1f1b 4 full 33%
b_Strawman-0 strawman 1 full 8%
b_Strawman-1 strawman 2 full 17%
c_Recomp-0,_MLP 1f1b 1 mlp -
c_Strawman-0,_MLP strawman 1 mlp -
c_Strawman-1,_MLP strawman 2 mlp -
ROWS
  show_bubble_ratio
}
# Bubbles of stage 0 without recomputation: 2 : 1 when messages take no time, less so when both sides wait for them.
show_bubble_ratio() {
  local send
  printf '  stage 0 of Recomp-Non, forward bubble : backward bubble; published 0.50 s : 0.37 s, 1.35\n'
  for send in 0 0.05 0.1 0.2; do
    # shellcheck disable=SC2086 # overrides are words
    plan "$decks/llama2-23b.yml" $no_limit $one_f_one_b -D pipeline.stages=4 -D data.global_batch=13 \
      -D pipeline.recompute=none -D cost.source=uniform \
      -D "cost.uniform={forward_ms: 1, input_ms: 1, weight_ms: 1, send_ms: $send}" \
      -D device.sync_messages=true
    list_times 13 |
      awk -v send="$send" 'NR == 1 {printf "    messages of %4.2f f: %.2f : %.2f, %.2f\n", send, $3, $4, $3 / $4}'
  done
}

# What stages 0 to 2 do more than DAPPLE's, in per cent of its compute, and in seconds of bubbles.
print_against() { # NAME PUBLISHED
  awk -v name="$1" -v published="$2" '
    NR == FNR {compute[FNR] = $1 + $2; bubble[FNR] = $3 + $4; next}
    FNR <= 3 {a += $1 + $2; b += compute[FNR]; c += $3 + $4 - bubble[FNR]}
    END {
      printf "  stages 0 to 2 of %s: compute %+.1f %%, bubbles %+.2f s each; published %s\n", name, 100 * (a / b - 1),
        c / 3e3, published
    }' dapple <(list_times 32)
}
show_figure14() {
  local deck=$decks/llama2-23b.yml key='-D data.global_batch=32' faithful='-D obscura.faithful=true'
  printf '\nFigure 14: llama2-23b, 32 micro-batches\n'
  # shellcheck disable=SC2086 # overrides are words
  {
    plan "$deck" $key $one_f_one_b $no_limit -D pipeline.recompute=none
    show_times 32 'DAPPLE, no limit' && list_times 32 > dapple
    plan "$deck" $key $faithful -D obscura.steps=strawman -D obscura.adjusted_stages=4 $no_limit
    show_times 32 'strawman, stages 0 to 3, no limit (the paper adjusts these)' && print_against 'strawman' -
    plan "$deck" $key $no_limit -D pipeline.partition=even $faithful -D obscura.steps=refined \
      -D obscura.adjusted_stages=3 -D pipeline.recompute=mlp
    show_times 32 'stages 0 to 2 adjusted, mlp, no limit' && print_against 'it' '+13 %, -1.7 s'
    plan "$deck" $key $faithful
    show_times 32 'faithful, stages as our memory asks for' && print_against 'faithful' '+13 %, -1.7 s'
    plan "$deck" $key
    show_times 32 'ours' && print_against 'ours' -
  }
  show_28b_times
}
show_28b_times() {
  local key='-D data.global_batch=32' deck=$decks/llama2-28b.yml
  printf '\nThe same of llama2-28b (not published)\n'
  # shellcheck disable=SC2086 # overrides are words
  {
    plan "$deck" $key -D obscura.faithful=true
    show_times 32 faithful
    plan "$deck" $key
    show_times 32 ours
  }
}
