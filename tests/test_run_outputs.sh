#!/bin/bash
# What a run leaves in its folder, and what its outputs do not change: evaluation, the order of ranks, used.yml run again,
# weights over several files, checkpoints that come and go.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
make_data other 200 5000
make_data few 7 900
write_deck "$deck"

name="the folder of a run on 4 ranks"
train plain 4 -D run.name=sluice
ends 0
status_is plain DONE
log_ends_with_status plain
has_steps plain 6
for file in manifest.txt used.yml plan.h5 log.txt metrics.csv metrics.jsonl trace.h5 report.txt report.html checkpoints/index.txt; do
  check [ -s plain/$file ] || fail "there is no $file"
done
check diff <(grep -v '^penstock: warning' "$output") plain/log.txt > differences || fail "log.txt is not what was printed"
# One line a step, with the loss that is in metrics.csv.
check [ "$(grep -cE '^ +[0-9]+ +[0-9]+ +[0-9]\.[0-9]{6} ' "$output")" = 6 ] || fail "not six lines of steps"
while IFS=, read -r step loss tokens _; do
  says_once "^ +$step +$tokens +$(printf '%.6f' "$loss") "
done < <(get_columns plain 1-3)
check [ "$(get_columns plain 3 | tail -n 1)" = $((6 * 4 * 16)) ] || fail "tokens are $(get_columns plain 3 | tail -n 1)"
says "run sluice in "
says "model: llama, 4 blocks, .* 53600 parameters"
for stage in 0 1 2 3; do says "stage $stage on rank $stage: layers .*\(1 blocks?\)"; done
for word in "version: " "command: penstock train .*sluice" "ranks: 4" "rank 3 on .*: 1 thread, cores* [0-9]"; do
  check grep -q -- "$word" plain/manifest.txt || fail "manifest.txt has no '$word'"
done
check awk -F, 'NR > 1 && ($6 <= 0 || $7 <= 0 || $8 <= 0 || $5 <= 0 || $4 != 0.01) { exit 1 }' plain/metrics.csv ||
  fail "metrics.csv has rates that are none"

name="report.txt"
check grep -q "DONE" plain/report.txt || fail "report.txt does not say how the run ended"
# Of each rank four parts in ms and per cent, the peak and the limit in MiB; the parts sum to the step.
check awk '/^steps .* mean / { for (i = 1; i < NF; i++) if ($i == "mean") step = $(i + 1) }
  /^ +[0-3] +[0-9.]+ +[0-9.]+ / {
    n++
    ms = $2 + $4 + $6 + $8; percent = $3 + $5 + $7 + $9
    if (ms < 0.99 * step - 0.03 || ms > 1.01 * step + 0.03 || percent < 99.6 || percent > 100.4) bad = 1
    if (NF != 11 || $11 != 64 || $10 <= 0 || $10 > 64) bad = 1
  }
  /^means/ { exit }
  END { exit bad || n != 4 }' plain/report.txt || fail "the numbers of report.txt do not sum: $(cat plain/report.txt)"
check grep -qE "timeline, measured in step [2-6]: " plain/report.html || fail "report.html has no timeline of a step"
check [ "$(grep -c '<figure>' plain/report.html)" = 4 ] || fail "report.html has not four curves"
check [ "$(grep -cE '<pre|http|src=' plain/report.html)" = 0 ] || fail "report.html needs other files, or has a block of text"
check [ "$(grep -cE '<rect class="bar [FB]"' plain/report.html)" = 32 ] ||
  fail "not 2 x 4 x 2 passes in report.html, predicted and measured"
check "$penstock" report plain > again.txt || fail "penstock report fails"
check grep -q "^steps " again.txt || fail "penstock report says $(cat again.txt)"
# A plan that is damaged takes nothing away of what was measured.
cp -r plain torn && head -c 5000 plain/plan.h5 > torn/plan.h5
check "$penstock" report torn --svg torn.svg > again.txt 2> warnings.txt || fail "no report: $(cat warnings.txt)"
check grep -q "^steps " again.txt || fail "penstock report says $(cat again.txt)"
check grep -q "warning: torn/plan.h5.*; the report lacks what it says of the plan" warnings.txt || fail "$(cat warnings.txt)"
check grep -q '<rect' torn.svg || fail "no picture"

name="used.yml runs again"
deck=plain/used.yml
train again 4
ends 0
same_run plain again
deck=$work/deck.yml

name="with evaluation"
train evaluated 4 -D run.evaluate_every=2 -D run.evaluate_steps=2 -D data.validation=other
ends 0
same_run plain evaluated
check [ "$(get_columns evaluated 9 | awk '{ print ($1 == "" ? "-" : ($1 > 3 && $1 < 6)) }' | tr '\n' ' ')" = "- 1 - 1 - 1 " ] ||
  fail "losses of validation are $(get_columns evaluated 9 | tr '\n' ' ')"
says_once "^ +2 .*validation $(printf '%.6f' "$(get_columns evaluated 9 | sed -n 2p)")"
says_once "^ +2 .*perplexity $(awk -F, '$1 == 2 { printf "%.5g", exp($9) }' evaluated/metrics.csv)\$"
check awk -F, 'NR > 1 { d = $9 == "" ? $10 + 0 : $10 / exp($9) - 1; e = 4 * $11 / $7 - 1; f = f || d > 1e-9 || d < -1e-9 || e > 1e-9 || e < -1e-9 }
  END { exit f || NR != 7 }' evaluated/metrics.csv || fail "perplexity or tokens a second a device"
# One object a step, of the columns that are numbers.
check diff <(sed 's/[{}" ]//g; s/,/\n/g; s/$/\n/' evaluated/metrics.jsonl) <(awk -F, 'NR == 1 { split($0, name) }
  NR > 1 { for (i = 1; i <= NF; i++) if ($i != "") print name[i] ":" $i; print "" }' evaluated/metrics.csv) > differences ||
  fail "metrics.jsonl and metrics.csv differ: $(head -n 4 differences)"
says_once "^ +6 .* [0-2][0-9]:[0-5][0-9] +[0-9]+  validation"
train evaluated1 1 -D run.evaluate_every=2 -D run.evaluate_steps=2 -D data.validation=other
check [ "$(get_columns evaluated 9)" = "$(get_columns evaluated1 9)" ] || fail "validation differs between 4 ranks and 1"
name="fewer rows for evaluation than asked for"
train fewer 2 -D run.evaluate_every=3 -D run.evaluate_steps=1000 -D data.validation=few
ends 0
same_run plain fewer
train fewer1 2 -D run.evaluate_every=3 -D run.evaluate_steps=1000 -D data.validation=few -D data.micro_batch=1 \
  -D run.steps=3
check awk -v a="$(get_columns fewer 9 | sed -n 3p)" -v b="$(get_columns fewer1 9 | sed -n 3p)" \
  'BEGIN { exit !(a > 3 && (a - b) ^ 2 < (2e-6 * a) ^ 2) }' || fail "not the mean over all rows"

name="weights over several files"
mix=(-D "data.train={data: 3, other: 1}")
train mixed 2 "${mix[@]}"
ends 0
says "data: .*"
says "other: .*"
train mixed1 1 "${mix[@]}" -D run.steps=4
ask_stop mixed1
train mixed1 3 "${mix[@]}"
ends 75
train mixed1 2 "${mix[@]}"
ends 0
same_run mixed mixed1
check [ "$(get_columns mixed 2)" != "$(get_columns plain 2)" ] || fail "the second file has no effect"

# A step's rows without any label: four documents of one token, between others. The file is written by hand, as the builder
# ends every document with a token of its own.
name="a step without a label"
little() { # BYTES NUMBER...
  local bytes=$1 number i
  for number in "${@:2}"; do
    for ((i = 0; i < bytes; i++)); do printf '%b' "\\x$(printf %02x $((number >> 8 * i & 255)))"; done
  done
}
lengths=(5 5 5 5 1 1 1 1 5 5 5 5) pointers=() at=0
for length in "${lengths[@]}"; do
  pointers+=("$at")
  at=$((at + 2 * length))
done
little 2 $(seq 65 $((64 + at / 2))) > bare.bin
{
  printf 'MMIDIDX\0\0'
  little 8 1
  little 1 8
  little 8 12 13
  little 4 "${lengths[@]}"
  little 8 "${pointers[@]}" $(seq 0 12)
} > bare.idx
bare=(-D data.train=bare -D data.batching=padded -D data.shuffle=false)
train bare 2 "${bare[@]}" -D run.steps=3
ends 0
says_once "warning: step 2 has no label: it is skipped"
check [ "$(get_columns bare 1,3 | tr '\n' ' ')" = "1,16 3,36 " ] || fail "steps and tokens are $(get_columns bare 1,3 | tr '\n' ' ')"
says_not nan
train bare2 2 "${bare[@]}" -D run.steps=2
train bare2 1 "${bare[@]}" -D run.steps=3
says "going on after step 2 from "
same_run bare bare2
# One micro-batch of two without a label adds nothing.
train half 2 "${bare[@]}" -D data.global_batch=8 -D data.micro_batch=4 -D run.steps=1
train half1 1 "${bare[@]}" -D data.global_batch=8 -D data.micro_batch=8 -D run.steps=1
check awk -v a="$(get_columns half 2)" -v b="$(get_columns half1 2)" \
  'BEGIN { exit !(a > 4 && (a - b) ^ 2 < (1e-6 * a) ^ 2) }' || fail "losses $(get_columns half 2), $(get_columns half1 2)"

name="weights of a checkpoint to begin from"
train first 1 -D run.steps=0 -D data.shuffle=false
ends 0
train same 2 -D data.shuffle=false
train from 2 -D data.shuffle=false -D run.seed=7 -D "model.init_from=$(get_checkpoint first)"
ends 0
same_losses same from
train seed 2 -D data.shuffle=false -D run.seed=7 -D run.steps=1
check [ "$(get_columns seed 2)" != "$(get_columns same 2 1)" ] || fail "the seed has no effect"

name="checkpoints come and go"
train kept 2 -D run.checkpoint_every=2 -D run.keep_checkpoints=2 -D run.steps=7
ends 0
check [ "$(cd kept/checkpoints && echo *)" = "index.txt step-00000006.h5 step-00000007.h5" ] ||
  fail "checkpoints are $(echo kept/checkpoints/*)"
train all 2 -D run.checkpoint_every=2 -D run.keep_checkpoints=0 -D run.trace_every=0 -D run.log_every=3
ends 0
check [ "$(cd all/checkpoints && echo *)" = "index.txt step-00000002.h5 step-00000004.h5 step-00000006.h5" ] ||
  fail "checkpoints are $(echo all/checkpoints/*)"
check [ ! -e all/trace.h5 ] || fail "a trace that was not asked for"
check [ "$(grep -cE '^ +[0-9]+ +[0-9]+ +[0-9]\.[0-9]{6} ' "$output")" = 2 ] || fail "not a line every 3 steps"
same_losses plain all

# Of the steps 2 to 12, every second is saved; the learning rate makes the validation loss fall, then rise.
name="checkpoints that stay"
stay=(-D run.steps=12 -D run.checkpoint_every=2 -D run.keep_every=4 -D run.keep_best=true -D run.evaluate_every=3
  -D data.validation=other -D run.evaluate_steps=2 -D run.trace_every=0)
train stays 2 "${stay[@]}" -D run.steps=7
ends 0
train stays 2 "${stay[@]}"
ends 0
best=$(get_columns stays 1,9 | awk -F, '$2 != "" && (loss == "" || $2 < loss) { loss = $2; step = $1 } END { print step }')
check [ "$(grep -c ' best=' stays/checkpoints/index.txt)" = 1 ] || fail "not one best: $(cat stays/checkpoints/index.txt)"
check [ "$(sed -n "s/^$best .* best=//p" stays/checkpoints/index.txt | awk '{ printf "%.12g", $1 }')" = \
  "$(get_columns stays 1,9 | awk -F, -v best="$best" '$1 == best { printf "%.12g", $2 }')" ] ||
  fail "the best is of step $best: $(cat stays/checkpoints/index.txt)"
check [ "$(cd stays/checkpoints && printf '%s\n' ./*.h5 | sed 's/.*-0*//; s/.h5//' | tr '\n' ' ')" = \
  "$(printf '%s\n' 4 8 10 12 "$best" | sort -nu | tr '\n' ' ')" ] || fail "checkpoints are $(echo stays/checkpoints/*)"
says "the checkpoint of step $best has the lowest validation loss so far"
# Each new best takes the place of the one before, whatever else is saved.
train bests 2 "${stay[@]}" -D run.checkpoint_every=0 -D run.keep_checkpoints=1 -D run.keep_every=0 -D run.evaluate_every=1 \
  -D run.steps=4
ends 0
check [ "$(grep -c '^checkpoint of step' bests.out)" -ge 2 ] || fail "no best is saved"
check [ "$(grep -vc '^#' bests/checkpoints/index.txt)" -le 2 ] || fail "more than newest and best: $(cat bests/checkpoints/index.txt)"
train nobest 2 -D run.keep_best=true
ends 0
says "run.keep_best.* with run.evaluate_every above 0"

# The share of a peak is that of the peak given, never of a guess; more than all of it is no share.
name="the share of a peak"
train share 2 -D device.peak_tflops=0.5
ends 0
says_once '^model FLOPs, mean of all steps but the first: .* % of the peak of 2 x 0\.5 TFLOP/s'
check awk -F, 'NR > 2 { flops += $8 * $6; ms += $6 } END { printf "%.2f\n", 100 * flops / ms / (2 * 0.5) }' share/metrics.csv \
  > wanted || fail "metrics.csv"
says " TFLOP/s, $(cat wanted) % of the peak"
says_not 'warning: the share'
train share 2 -D device.peak_tflops=1e-9 -D run.steps=8
ends 0
says_once 'warning: the share of the peak is .*device.peak_tflops 1e-09 is less than a rank did'
train plain2 2
says_once 'give device.peak_tflops to see the share of the peak'

# Model FLOPs are those of the model: what is recomputed adds none, and padding has none.
name="model FLOPs with recomputation"
train again 2 -D pipeline.recompute=full
ends 0
flops() { awk -F, 'NR > 1 { printf "%.6g\n", $8 * $6 }' "$1/metrics.csv"; }
check diff <(flops plain2) <(flops again) > differences || fail "other FLOPs: $(head -n 3 differences)"

# However often it is written, the trace stays within its limit; what is asked for most is there: the last steps.
name="a trace with a limit"
limited=(-D run.trace_limit=128KiB -D run.checkpoint_every=0 -D data.micro_batch=1 -D data.global_batch=12)
for every in 5 50; do
  train limited$every 2 "${limited[@]}" -D run.trace_every=$every -D run.steps=130
  ends 0
  status_is limited$every DONE
  says 'trace\.h5: about [0-9.]+ KiB a step; run\.trace_limit \(128\.00 KiB\) will be reached in [0-9]+ steps: '
  says 'limited[0-9]+/trace\.h5 has reached run\.trace_limit \(128\.00 KiB\): from now on one step in [0-9]+ and the last [0-9]+ are kept'
  check [ "$(stat -c %s limited$every/trace.h5)" -le 131072 ] || fail "trace.h5 has $(stat -c %s limited$every/trace.h5) bytes"
  check "$penstock" report limited$every > report.txt || fail "no report"
  check grep -qE '^steps [0-9]+ to 130 \([1-9][0-9]* in the trace\)' report.txt || fail "the report says $(sed -n 3p report.txt)"
done
train limited5 2 "${limited[@]}" -D run.trace_every=5 -D run.steps=150
ends 0
check [ "$(stat -c %s limited5/trace.h5)" -le 131072 ] || fail "trace.h5 has $(stat -c %s limited5/trace.h5) bytes"
"$penstock" report limited5 --json > report.json || fail "no report"
check grep -q '"last_step": 150,' report.json || fail "the report does not end with step 150"
check [ "$(get_columns limited5 1 | tr '\n' ' ')" = "$(seq -s ' ' 1 150) " ] || fail "metrics.csv lacks steps"
name="a trace that fits"
says 'trace\.h5: about .*run\.trace_limit' && train fits 2 && says 'trace\.h5: about .* in the steps to come; run\.trace_limit is 256'

# What a run says on standard output is in its log, and a full disk there does not stop it.
if [ -w /dev/full ]; then
  name="standard output that takes nothing"
  # shellcheck disable=SC2016 # expanded by the inner shell
  timeout -k 5 "$job_seconds" "${launcher[@]}" -n 2 sh -c '"$@" > /dev/full' - "$penstock" train "$deck" \
    -D run.folder="$work/mute" > "$output" 2>&1 < /dev/null
  code=$?
  ends 0
  status_is mute DONE
  log_ends_with_status mute
fi

# 16 ranks on the cores there are: each checkpoint is whole, with all ranks' arrays.
name="16 ranks that save every step"
many=(-D model.num_hidden_layers=16 -D data.micro_batch=1 -D run.steps=3 -D run.checkpoint_every=1 -D run.keep_checkpoints=0
  -D run.trace_every=3)
train many 16 "${many[@]}"
ends 0
train single 1 "${many[@]}"
for step in 1 2 3; do same_weights single many $step; done
same_losses single many

finish
