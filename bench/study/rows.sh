# Figures 12 and 15: a table for a model and a number of micro-batches, a row for each way to train.
# shellcheck shell=bash

# Adjusted stages (those that run ahead of 1F1B), the largest r / f, and Eq. 3 / 5 with the stages' own times. Where no
# stage runs ahead all are held to be alike: right for recomputation on all or none.
solve() { # MICRO-BATCHES
  list_stages | awk -v m="$1" -f "$equations" -f <(echo '
    {time[NR] = $1 + $2 + $3; ahead[NR] = $4; if ($2 / $1 > ratio) ratio = $2 / $1}
    END {
      for (s = 1; s <= NR; s++) if (ahead[s] > (m < NR - s + 1 ? m : NR - s + 1)) n = s
      for (s = 1; s <= n; s++) if (time[s] > slow) slow = time[s]
      for (s = n + 1; s <= NR; s++) if (time[s] > even) even = time[s]
      printf "%d %.2f %.3f\n", n, ratio, get_time(NR, m, n, even, slow)
    }')
}

# row KIND NAME PUBLISHED DECK OVERRIDE...; a kind is whole (all recompute), paper (Eq. 3 / 5 holds for it), rival, free
# (no limit) or free-paper, ours.
row() {
  local kind=$1 name=$2 published=$3 step k ratio equation
  shift 3
  if ! plan "$@"; then
    printf '  %-36s %s\n' "$name" "$(get_reason)"
    return
  fi
  step=$(get_step)
  read -r k ratio equation <<< "$(solve "$batch")"
  case $kind in
    whole) whole=$step whole_equation=$equation whole_forward=$(get_whole_step) ;;
    rival | free | ours) equation=0 ;;
  esac
  [ "$kind" = free ] && ideal=$step
  print_row "$kind" "$name" "$published" "$step" "$k" "$ratio" "$equation"
  [ "$kind" = whole ] && print_row rival 'DAPPLE+, a whole forward again' - "$whole_forward" 0 1.00 0
  [ "${STAGES:-no}" = yes ] && show_times "$batch" "$name"
}
print_row() { # KIND NAME PUBLISHED STEP K RATIO EQUATION
  local leaves=no
  [ "$2" = ours ] && leaves=yes
  list_stages | awk -v kind="$1" -v name="$2" -v published="$3" -v step="$4" -v k="$5" -v ratio="$6" \
    -v equation="$7" -v m="$batch" -v whole="$whole" -v forward="$whole_forward" -v whole_equation="$whole_equation" \
    -v ideal="$ideal" -v bound="$(get_bound $leaves)" -v any="$(get_any_bound $leaves)" -v model="$model" \
    -v copies="$(get_hidden_copies)" -v peak="$(get_peak)" '
    {if ($2 > most) most = $2}
    END {
      gain = whole / step
      solved = equation > 0 ? whole_equation / equation : 0
      hidden = most > 0 && ideal > 0 ? 100 * (1 - (step - ideal) / (m * most)) : -1
      if (hidden > 100) hidden = 100
      if (ratio == "1.00") hidden = peak = -1
      over = bound > 0 ? step / bound : 0
      over_any = any > 0 ? step / any : 0
      printf "  %-36s %9.0f %6.3f %6s %6.3f %6.3f %3d %5.2f %7s %6s %7s %7s %5s  %s\n", name, step, over,
        over_any ? sprintf("%.3f", over_any) : "-", gain, forward / step, k,
        ratio, solved ? sprintf("%.3f", solved) : "-", solved ? sprintf("%+.3f", gain - solved) : "-",
        hidden < 0 ? "-" : sprintf("%.0f %%", hidden), copies == "" ? "-" : copies " %",
        peak < 0 ? "-" : peak, published
      print kind "|" model "|" m "|" name "|" step "|" gain "|" solved "|" forward / step "|" k "|" over "|" over_any >> "rows"
    }'
}
heading() {
  printf '\n%s, %d micro-batches, %d stages\n' "$model" "$batch" "$stages"
  printf '  %-36s %9s %6s %6s %6s %6s %3s %5s %7s %6s %7s %7s %5s  %s\n' '' 'step ms' bound any gain whole k r/f 'Eq. 3/5' off \
    'hid. R' 'hid. C' GiB published
}
get_published() { # gain over a 1F1B that runs a whole forward again on all stages
  case $model-$batch in
    llama2-28b-64) echo 1.22 ;;
    gpt3-28b-64) echo 1.30 ;;
    llama2-18b-* | llama2-23b-*) echo 1.29-1.31 ;;
    llama2-28b-*) echo 1.22-1.27 ;;
    gpt3-18b-* | gpt3-23b-*) echo 1.32-1.33 ;;
    gpt3-28b-*) echo 1.30-1.32 ;;
    *a800-32) echo 1.27-1.31 ;;
    *) echo - ;;
  esac
}
get_published_bpipe() {
  case $model in
    *a800) echo '11-17 % slower than DAPPLE' ;;
    llama2-23b | llama2-28b) echo 1.17 ;;
    *) echo - ;;
  esac
}

compare() { # model, batch
  local deck=$decks/$model.yml key="-D data.global_batch=$batch" n=3 faithful='-D obscura.faithful=true' published bpipe
  whole=0 whole_forward=0 whole_equation=0 ideal=0 stages=8
  case $model in *28b) n=5 ;; *a800) n=1 stages=4 ;; esac
  published=$(get_published) bpipe=$(get_published_bpipe)
  heading
  # shellcheck disable=SC2086 # overrides are words
  {
    row whole 'DAPPLE+ (1F1B, full on all)' - "$deck" $key $one_f_one_b -D pipeline.recompute=full
    row free '1F1B without recomputation or limit' - "$deck" $key $one_f_one_b $no_limit -D pipeline.recompute=none
    row paper 'DAPPLE (1F1B)' - "$deck" $key $one_f_one_b -D pipeline.recompute=none
    row rival '1F1B, full on demand' - "$deck" $key $one_f_one_b
    row rival 'BPipe' - "$deck" $key $one_f_one_b -D pipeline.planner=bpipe -D pipeline.recompute=none
    row rival 'BPipe + MLP' "$bpipe" "$deck" $key $one_f_one_b -D pipeline.planner=bpipe -D pipeline.recompute=mlp
    row paper 'CMB on all' - "$deck" $key $one_f_one_b -D pipeline.recompute=cmb
    row rival 'AdaPipe' - "$deck" $key -D pipeline.planner=adapipe
    row rival 'interleaved, 2 a rank' - "$deck" $key -D pipeline.planner=interleaved
    row rival 'zb-h1' - "$deck" $key -D pipeline.planner=zb-h1
    row rival 'zb-v' - "$deck" $key -D pipeline.planner=zb-v
    row rival 'strawman' - "$deck" $key $faithful -D obscura.steps=strawman
    for step in relaxed refined swap partition; do
      row paper "$step" - "$deck" $key $faithful -D obscura.steps=$step
    done
    row paper 'faithful (all steps)' "$published" "$deck" $key $faithful
    row paper "first $n adjusted, full, all steps" - "$deck" $key $faithful -D obscura.adjusted_stages=$n
    row free-paper "first $n adjusted, mlp, no limit" "$published" "$deck" $key $no_limit -D pipeline.partition=even \
      $faithful -D obscura.steps=refined -D obscura.adjusted_stages=$n -D pipeline.recompute=mlp
    row ours 'ours, no swap' - "$deck" $key -D pipeline.swap=off
    row ours 'ours' - "$deck" $key
  }
}
show_legend() {
  cat << 'TEXT'

bound: step over the lower bound of any order of these stages, within the limits where no activations leave, as they may
in the row of ours alone; any: over that of any cut into as many, with as many stages a rank and backwards in as many
passes (of several stages a rank the work alone counts there);
gain: step of DAPPLE+ over that of the row; whole: the same for a DAPPLE+ that runs a whole forward again, as the
paper's does; k: stages that run ahead; r/f: the largest; Eq. 3/5: gain by the paper's model with the stages' own times,
off: gain - that; hid. R: the part of the slowest recomputation that makes the step no longer than 1F1B without any;
hid. C: the part of copies that nothing waits for; GiB: the largest peak. Only in AdaPipe's row and ours does
recomputation begin before its gradient is there.
TEXT
}
show_figure12() {
  printf '\nFigure 12: steps on 8 stages; published is gain over a whole forward again, of whichever batch\n'
  show_legend
  for model in ${MODELS:-llama2-13b llama2-18b llama2-23b llama2-28b gpt3-13b gpt3-18b gpt3-23b gpt3-28b}; do
    for batch in ${BATCHES:-16 32 64 128}; do compare; done
  done
}
show_figure15() {
  printf '\nFigure 15: steps on 4 stages behind PCIe; published is batch 32\n'
  show_legend
  for model in ${MODELS_A800:-llama2-10b-a800 llama2-13b-a800}; do
    for batch in ${BATCHES:-16 32 64 128}; do compare; done
  done
}
