#!/bin/bash
# The files of `penstock report` as a user asks for them, of a plan; and what is refused. One process, no launcher.
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"

cat > deck.yml << 'DECK'
run: {folder: PLAN}
model:
  model_type: llama
  vocab_size: 257
  hidden_size: 32
  intermediate_size: 64
  num_hidden_layers: 8
  num_attention_heads: 4
  num_key_value_heads: 2
  max_position_embeddings: 16
data: {sequence_length: 16, global_batch: 16, micro_batch: 2}
memory: {device_limit: 64 MiB}
optimizer: {clip: 0}
pipeline: {planner: 1f1b, stages: 4}
cost: {source: uniform, uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1}}
DECK
run 0 plan deck.yml

# ---- 4 stages, 8 micro-batches: 24 of 33 ms busy ----
run 0 report PLAN --svg a.svg --chrome a.json --csv a.csv
check [ ! -s err ] || fail "says on standard error"
says '^predicted step: 33\.000 ms$'
says '^   3 +24\.000 +72\.7 +9\.000 +27\.3 .* 64\.00$'
says '^written: PLAN/report.html$'
for file in a.svg a.json a.csv PLAN/report.html; do is_there $file; done
check [ "$(grep -cE '^0,[0-9]+,[0-3],[0-9]+,compute,[FB],' a.csv)" = 64 ] || fail "not 64 passes in a.csv"
check [ "$(grep -cE '<rect class="bar [FB]"' a.svg)" = 64 ] || fail "not 64 passes in a.svg"
check [ "$(grep -cE '"name":"[FB] [0-7]".*"dur":(1000|2000)\.0000' a.json)" = 64 ] || fail "not 64 passes in a.json"
check [ "$(grep -c '<path class="limit"' a.svg)" = 0 ] || fail "limits far above all peaks are drawn in a.svg"
run 0 plan deck.yml -D run.folder=TIGHT -D memory.device_limit='1 MiB'
run 0 report TIGHT --svg b.svg
check [ "$(grep -c '<path class="limit"' b.svg)" = 4 ] || fail "not 4 limits in b.svg"
check [ "$(grep -cE 'http|src=|url\(|@import|<link' PLAN/report.html)" = 0 ] || fail "report.html needs other files"
if command -v xmllint > /dev/null; then check xmllint --noout a.svg 2> err || fail "a.svg is no XML"; fi

# The file in place of its folder, from another folder and under another name.
rm PLAN/report.html
run 0 report PLAN/plan.h5
is_there PLAN/report.html
mkdir other && cp PLAN/plan.h5 other/moved.h5
run 0 report other/moved.h5
is_there other/report.html
cp PLAN/plan.h5 here.h5
run 0 report here.h5 --csv b.csv
is_there report.html
check cmp -s a.csv b.csv || fail "the rows of a copy differ"

# ---- a plan as JSON: what simulate says ----
run 0 report PLAN --json
cp out said.json
run 0 simulate PLAN/plan.h5 --json
check diff said.json out || fail "report and simulate say other things"
says '"predicted_step_s"'

# ---- what is refused ----
run 2 report
warns 'penstock report RUN'
run 2 report none
warns 'none: there is no such folder'
run 2 report deck.yml
warns 'deck.yml'
run 2 report PLAN --step 0
warns '--step 0: a step, 1 or more'
run 2 report PLAN --step 3
warns 'plan of one step'
run 2 report PLAN --svg none/a.svg
warns 'none/a.svg cannot be written'
check [ ! -s out ] || fail "the report comes before the refusal"
run 2 report PLAN --csv PLAN
warns '--csv: cannot write PLAN: it is a folder'
run 2 report PLAN --svg=
warns "option --svg has an empty value"
run 2 report ''
warns 'argument 1 of penstock report is empty'
run 0 report PLAN --csv /dev/null
cp PLAN/plan.h5 before.h5
for option in svg chrome csv; do
  run 2 report PLAN --$option PLAN/plan.h5
  warns "^penstock: error: --$option PLAN/plan.h5: it is there and holds what a run or a plan left"
done
check cmp -s before.h5 PLAN/plan.h5 || fail "the plan is another"
: > PLAN/manifest.txt && echo step > PLAN/metrics.csv
run 2 report PLAN/plan.h5 --csv PLAN/metrics.csv
check [ "$(cat PLAN/metrics.csv)" = step ] || fail "metrics.csv is another"

finish 32
