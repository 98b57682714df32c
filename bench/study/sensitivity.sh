# Figure 16: steps of the planner one by one, and what limit, host, batch and blocks by hand make of it; llama2-23b.
# shellcheck shell=bash

deck23() { plan "$decks/llama2-23b.yml" "$@"; }
# The reference of a row: 1F1B that runs a whole forward again on all stages, whatever the limit is.
set_reference() { # MICRO-BATCHES
  # shellcheck disable=SC2086 # overrides are words
  deck23 -D data.global_batch="$1" $one_f_one_b $no_limit -D pipeline.recompute=full && reference=$(get_whole_step)
}
print_gain() {
  [ "$planned" = yes ] || { printf ' %8s' 'no fit'; return; }
  awk -v a="$reference" -v b="$(get_step)" 'BEGIN {printf " %8.3f", a / b}'
}
print_ablation() { # NAME PUBLISHED OVERRIDE...
  local name=$1 published=$2 m
  shift 2
  printf '  %-40s' "$name"
  for m in ${BATCHES:-16 32 64 128}; do
    set_reference "$m"
    deck23 -D data.global_batch="$m" "$@"
    print_gain
  done
  printf '   %s\n' "$published"
}
print_uniform_relaxation() {
  local m
  printf '  %-40s' 'DR, uniform times'
  # shellcheck disable=SC2086 # overrides are words
  for m in ${BATCHES:-16 32 64 128}; do
    plan_uniform 1 -D data.global_batch="$m" $one_f_one_b -D pipeline.recompute=full && reference=$(get_step)
    plan_uniform 1 -D data.global_batch="$m" -D obscura.faithful=true -D obscura.steps=relaxed \
      -D obscura.adjusted_stages=3
    print_gain
  done
  printf '   %s\n' 'Eq. 3: 1.278 1.147 1.076 1.038 at 16 32 64 128; trend published'
}
show_ablation() {
  local faithful='-D obscura.faithful=true' forced='-D obscura.faithful=true -D obscura.adjusted_stages=3'
  printf '  %-40s' 'micro-batches'
  printf ' %8s' ${BATCHES:-16 32 64 128}
  printf '   published\n'
  print_uniform_relaxation
  # shellcheck disable=SC2086 # overrides are words
  {
    print_ablation 'DR, stages 0 to 2, full' - $forced -D obscura.steps=relaxed $no_limit
    print_ablation 'DR, stages 0 to 2, mlp, no limit' - $forced -D obscura.steps=relaxed -D pipeline.recompute=mlp \
      $no_limit
    print_ablation 'DR + SAR, stages 0 to 2, full' - $forced -D obscura.steps=swap
    print_ablation 'DR + SAR + CB, stages 0 to 2, full' - $forced -D obscura.steps=partition
    print_ablation 'strawman, stages as memory asks for' - $faithful -D obscura.steps=strawman
    print_ablation 'DR, stages as memory asks for' - $faithful -D obscura.steps=refined
    print_ablation 'DR + SAR' 'curves without numbers' $faithful -D obscura.steps=swap
    print_ablation 'DR + SAR + CB' 'curves without numbers' $faithful -D obscura.steps=partition
    print_ablation 'DR + SAR + CB + CMB (faithful)' - $faithful
    print_ablation 'ours' -
  }
}

# vary TITLE FORMAT VALUE...: a line a value at 32 micro-batches; %s of the format, words of overrides, is the value.
vary() {
  local title=$1 format=$2 value words
  shift 2
  printf '\n  %-24s %9s %9s   (32 micro-batches; published: -)\n' "$title" faithful ours
  set_reference 32
  for value in "$@"; do
    # shellcheck disable=SC2059 # the format is ours
    mapfile -t words < <(printf -- "$format" "$value")
    printf '  %-24s ' "$value"
    deck23 -D data.global_batch=32 "${words[@]}" -D obscura.faithful=true
    print_gain
    printf ' '
    deck23 -D data.global_batch=32 "${words[@]}"
    print_gain
    printf '\n'
  done
}
show_blocks_by_hand() {
  local lambda beta
  printf '\n  blocks by hand, faithful (32 micro-batches; published: -)\n  lambda, beta:'
  printf ' %8s' 0.25 0.5 0.75 1
  printf '\n'
  for lambda in 0 2 3 4 5; do
    printf '  %12d ' "$lambda"
    for beta in 0.25 0.5 0.75 1; do
      deck23 -D data.global_batch=32 -D obscura.faithful=true -D obscura.lambda="$lambda" -D obscura.beta="$beta"
      print_gain
    done
    printf '\n'
  done
}
show_figure16() {
  printf '\nFigure 16: llama2-23b, gain over 1F1B that runs a whole forward again on all stages\n'
  show_ablation
  vary 'device limit' '-D\nmemory.device_limit=%s\n' 50GiB 60GiB 70GiB 80GiB 9999GiB
  vary 'host link, GB/s' '-D\ncost.host_link={latency_us: 15, gb_per_s: %s}\n' 3 6 12 25 50
  show_blocks_by_hand
}
