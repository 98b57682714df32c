# Figures 3 and 13 and Table 1: memory by stage.
# shellcheck shell=bash

# Peaks of a plan in one line, GiB; behind them `published`.
print_peaks() { # NAME PUBLISHED
  if [ "$planned" = no ]; then
    printf '  %-30s %s\n' "$1" "$(get_reason)"
    return
  fi
  list_stages | awk -v name="$1" -v published="$2" '
    {line = line sprintf(" %6.1f", $6); if (NR == 1) first = $6; last = $6}
    END {printf "  %-30s%s %8.1f  %s\n", name, line, first - last, published}'
}
print_memory_heading() {
  printf '  %-30s' ''
  for s in 0 1 2 3 4 5 6 7; do printf ' %6d' "$s"; done
  printf ' %8s  %s\n' 'first-last' published
}
show_figure3() {
  printf '\nFigure 3: memory of 1F1B by stage without recomputation or limit, 32 micro-batches, GiB (80 GB devices)\n'
  print_memory_heading
  # shellcheck disable=SC2086 # overrides are words
  while read -r model published; do
    plan "$decks/$model.yml" -D data.global_batch=32 $one_f_one_b $no_limit -D pipeline.recompute=none
    print_peaks "$model" "$published"
  done << 'ROWS'
llama2-13b stage 0 takes 24 GB more than stage 7
llama2-18b stage 0 does not fit (estimated)
ROWS
}
show_figure13() {
  local key='-D data.global_batch=32'
  printf '\nFigure 13: memory by stage of llama2-28b, 32 micro-batches, GiB; limit 80 GiB where there is one\n'
  print_memory_heading
  # shellcheck disable=SC2086 # overrides are words
  {
    plan "$decks/llama2-28b.yml" $key $one_f_one_b $no_limit -D pipeline.recompute=none
    print_peaks 'DAPPLE, no limit' 'only stages 6 and 7 fit'
    plan "$decks/llama2-28b.yml" $key $one_f_one_b $no_limit -D pipeline.recompute=none -D pipeline.planner=bpipe
    print_peaks 'BPipe, no limit' '106 GB at most'
    plan "$decks/llama2-28b.yml" $key $one_f_one_b $no_limit -D pipeline.recompute=mlp -D pipeline.planner=bpipe
    print_peaks 'BPipe + MLP, no limit' '76 GB at most'
    plan "$decks/llama2-28b.yml" $key $no_limit -D obscura.faithful=true -D obscura.steps=strawman \
      -D obscura.adjusted_stages=6
    print_peaks 'strawman, 0 to 5, no limit' 'stages 0 to 5 are adjusted'
    plan "$decks/llama2-28b.yml" $key -D obscura.faithful=true
    print_peaks 'faithful' 'stages 0 to 4 are adjusted, alike; CMB on 5'
    plan "$decks/llama2-28b.yml" $key
    print_peaks 'ours' -
  }
}

# Blocks live by stage, and what they make with the sizes of a block that fit the published table: 5.37 and 5.29 GB on
# stages 0 and 1, 1.96 and 1.83 GB where it recomputes. The rest of a stage (weights and what else stays) is the
# published size without recomputation less its blocks, so that the first row says nothing; the others check the counts.
print_table1_row() { # NAME RECOMPUTES PUBLISHED-OF-STAGES...
  local name=$1 n=$2
  shift 2
  list_stages | awk -v name="$name" -v n="$n" -v published="$*" '
    BEGIN {
      split("5.37 5.29", kept, " "); split("1.96 1.83", left, " "); split("48.01 42.62", plain, " ")
      split(published, told, " ")
    }
    {
      live = live sprintf(" %3d", $5)
      if (NR > 2) {made = made sprintf(" %6s", "-"); next}
      made = made sprintf(" %6.2f", plain[NR] - (5 - NR) * kept[NR] + $5 * (NR <= n ? left[NR] : kept[NR]))
    }
    END {
      for (s = 1; s <= 4; s++) line = line sprintf(" %6s", s in told ? told[s] : "-")
      printf "  %-12s %s  %s  %s\n", name, live, made, line
    }'
}
show_table1() {
  local mode n key='-D pipeline.stages=4 -D data.global_batch=16'
  printf '\nTable 1: 4 stages, MLP recomputation, 16 micro-batches\n'
  printf '  %-12s %16s  %28s %29s\n' '' 'blocks by stage' 'GB that they make' 'GB published'
  # shellcheck disable=SC2086 # overrides are words
  while read -r name mode n published; do
    case $mode in
      none) plan_uniform 1 $key $one_f_one_b -D pipeline.recompute=none ;;
      1f1b) plan_uniform 1 $key $one_f_one_b -D pipeline.recompute=mlp -D "pipeline.recompute_stages=$n" ;;
      *) plan_uniform 1 $key -D obscura.faithful=true -D "obscura.steps=$mode" -D "obscura.adjusted_stages=$n" \
        -D pipeline.recompute=mlp ;;
    esac
    # shellcheck disable=SC2154 # read above
    print_table1_row "$name" "$n" $published
  done << 'ROWS'
Recomp-Non none 0 48.01 42.62 36.72 30.92
Recomp-0 1f1b 1 34.40
Recomp-1 1f1b 2 34.40 32.25
Strawman-0 strawman 1 46.18
Strawman-1 strawman 2 46.18 39.58
ROWS
}
