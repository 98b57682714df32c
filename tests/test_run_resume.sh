#!/bin/bash
# A run that is stopped anywhere, in any way, and started again is the run that was not stopped, bit by bit.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 300
write_deck "$deck"

name="a run that is not stopped"
train whole 2
ends 0
status_is whole DONE
log_ends_with_status whole
has_steps whole 6
columns=step,loss,tokens,lr,grad_norm,step_ms,tokens_per_s,tflops,validation_loss,perplexity,tokens_per_s_device
check [ "$(head -n 1 whole/metrics.csv)" = "$columns" ] ||
  fail "the header of metrics.csv is $(head -n 1 whole/metrics.csv)"

name="a life a step, each ended by the stop file"
mkdir stop
for k in 1 2 3 4 5; do
  ask_stop stop
  train stop 2
  ends 75
  status_is stop "CHECKPOINTED step $k"
  log_ends_with_status stop
  says "stopped by the stop file after step $k"
  check [ ! -e stop/stop ] || fail "the stop file is still there"
  [ $k -gt 1 ] && says "going on after step $((k - 1)) from "
done
train stop 2
ends 0
has_steps stop 6
same_run whole stop

name="run.steps grows"
train grown 2 -D run.steps=2
ends 0
status_is grown DONE
cp grown/metrics.csv before.csv
train grown 2 -D run.steps=2
ends 0
says "DONE at step 2 already; raise run.steps"
status_is grown DONE
check cmp grown/metrics.csv before.csv || fail "a finished run is trained again"
train grown 2 -D run.steps=2 -D optimizer.lr=1
ends 2
says 'optimizer.lr'
status_is grown DONE
train grown 2 -D run.steps=4
ends 0
train grown 1
ends 0
has_steps grown 6
name="the first step after a start warms up, and a step of before ran with another plan"
"$penstock" report grown > "$output" || fail "no report"
says '^steps 6 to 6 \(1 in the trace\)'
"$penstock" report grown --step 3 > "$output" || fail "no report of step 3"
says '^step 3 \(one column'
says '^note: step 3 ran with another plan than that in plan.h5 \(2 stages on 2 ranks\)'
check [ "$(grep -c 'timeline, ' grown/report.html)" = 1 ] || fail "a step is drawn beside the prediction of another plan"
same_run whole grown
# The report draws a step beside its own prediction, or alone: plan.h5 is that of the last start.
train grown 4 -D run.steps=8
ends 0
check "$penstock" report grown --step 3 --svg step3.svg > report.txt 2> err || fail "no report of step 3: $(cat err)"
check grep -q "note: step 3 ran with another plan" report.txt || fail "no note: $(tail -n 3 report.txt)"
check [ "$(grep -c predicted step3.svg)" = 0 ] || fail "step 3 is drawn beside the prediction of another plan"
check "$penstock" report grown --step 8 --svg step8.svg > /dev/null 2> err || fail "no report of step 8: $(cat err)"
check [ ! -s err ] || fail "says of step 8: $(cat err)"
check grep -q predicted step8.svg || fail "step 8 is drawn without its prediction"

# Four ranks, then other numbers of them. Three steps after the stop tell by losses and by weights.
name="on other numbers of ranks"
for family in llama gpt2; do
  write_deck "$deck" $family
  train four-$family 4
  ends 0
  mkdir stopped-$family
  ask_stop stopped-$family
  train stopped-$family 4 -D run.steps=7
  ends 75
  for ranks in 1 2 3 8; do
    case $family$ranks in gpt22 | gpt28) continue ;; esac
    name="$family, from 4 ranks to $ranks"
    cp -r stopped-$family $family-$ranks
    # More stages than blocks: cut between attention and feed-forward.
    halves=()
    [ $ranks = 8 ] && halves=(-D "pipeline.partition=[.5, .5, .5, .5, .5, .5, .5, .5]")
    train $family-$ranks $ranks "${halves[@]}"
    ends 0
    says "going on after step 1 from "
    same_run four-$family $family-$ranks
  done
done
check [ "$(tail -n 1 <("$helper" trace llama-3/trace.h5))" = "ranks 3" ] || fail "the trace's last step is not of 3 ranks"

# What a run writes of its model, of the keys of a deck, is read again by all that reads it.
for family in mistral qwen2; do
  name="$family, whose keys a deck has, is read from what it wrote"
  write_deck "$deck" $family
  train again-$family 2 -D run.steps=2
  ends 0
  train again-$family 1 -D run.steps=3
  ends 0
  says "going on after step 2 from "
  check "$penstock" report again-$family > report.txt 2> err || fail "no report: $(cat err)"
  check "$penstock" simulate again-$family/plan.h5 > /dev/null 2> err || fail "no simulation: $(cat err)"
done

# Two epochs, ten rows (of 16 tokens; or a document each) in steps of four: a stop before, at and after the end of an
# epoch, and in the middle of a step's rows.
write_deck "$deck"
make_text 20 | head -c 160 > ten.txt
"$penstock" data build --output fixed ten.txt > /dev/null || fail "data build"
for length in 5 15 1 9 12 3 16 7 2 11; do
  printf '{"text": "%s"}\n' "$(make_text 1 $length | head -c $length)"
done > ten.jsonl
"$penstock" data build --output padded ten.jsonl > /dev/null || fail "data build"
for batching in fixed padded; do
  name="a life a step over two epochs, $batching"
  options=(-D "data.train=$batching" -D "data.batching=$batching" -D run.steps=5)
  train whole-$batching 2 "${options[@]}"
  ends 0
  says " 10 rows of "
  mkdir lives-$batching
  for k in 1 2 3 4 5; do
    ask_stop lives-$batching
    train lives-$batching 2 "${options[@]}"
    [ $k = 5 ] || ends 75
  done
  status_is lives-$batching DONE
  has_steps lives-$batching 5
  same_run whole-$batching lives-$batching
done

# What a kill after the checkpoint of the last step leaves: before the evaluation has ended, before its row, before the mark of
# the best.
write_deck "$deck"
name="a life that ends in the evaluation of its last step"
options=(-D data.validation=data -D run.evaluate_every=2 -D run.evaluate_steps=2 -D run.checkpoint_every=2 -D run.keep_best=true)
losses() { grep -v '^#' "$1/metrics.csv" | cut -d, -f1,2,9,10; }
best() { sed -n 's/^\([0-9]*\) .* best=/\1 /p' "$1/checkpoints/index.txt"; }
train evaluated 2 "${options[@]}"
ends 0
check [ "$(best evaluated | cut -d' ' -f1)" = 6 ] || fail "the best is not the last one: $(best evaluated)"
for cut in row loss mark; do
  cp -r evaluated "cut-$cut"
  rm "cut-$cut/STATUS"
  sed -i '/^6 /s/ best=.*//' "cut-$cut/checkpoints/index.txt"
  case $cut in
    row) sed -i '/^6,/d' "cut-$cut/metrics.csv" ;;
    loss) sed -i '/^6,/s/^\(\([^,]*,\)\{8\}\)[^,]*,[^,]*/\1,/' "cut-$cut/metrics.csv" ;;
  esac
  name="a life that ends in the evaluation of its last step, before its $cut"
  train "cut-$cut" 2 "${options[@]}"
  ends 0
  status_is "cut-$cut" DONE
  check [ "$(losses "cut-$cut")" = "$(losses evaluated)" ] || fail "metrics: $(losses "cut-$cut" | tail -n 1)"
  check [ "$(best "cut-$cut")" = "$(best evaluated)" ] || fail "the best is $(best "cut-$cut"), not $(best evaluated)"
done

finish
