#!/bin/bash
# `penstock plan` and `penstock simulate` as a user meets them: worked examples to the digit, what is written, JSON, what is
# compared and what is refused. One process, no launcher; nothing of MPI is started.
# shellcheck disable=SC2016 # variables of awk
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"

# get KEY: a number at the top level of the JSON on `out`.
get() { sed -nE "s/^ \"$1\": ([^,]*),?$/\1/p" out; }
gives() { check [ "$(get "$1")" = "$2" ] || fail "$1 is '$(get "$1")', not '$2'"; }
# gives_near KEY VALUE: within 1e-9 of it.
gives_near() {
  check awk -v a="$(get "$1")" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && d < 1e-9 && d > -1e-9) }' ||
    fail "$1 is '$(get "$1")', not $2"
}

cat > deck.yml << 'DECK'
run:
  folder: RUN
model:
  model_type: llama
  vocab_size: 257
  hidden_size: 32
  intermediate_size: 64
  num_hidden_layers: 8
  num_attention_heads: 4
  num_key_value_heads: 2
  max_position_embeddings: 16
data:
  sequence_length: 16
  global_batch: 16
  micro_batch: 2
optimizer:
  clip: 0
pipeline:
  planner: 1f1b
  stages: 4
cost:
  source: uniform
  uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1}
DECK

# ---- the worked example: p=4, m=8, f=1, b=2 ----
run 0 plan deck.yml
is_silent err
says '^predicted step 33 ms; idle 27\.3 %; messages take no time$'
says '^lower bound 33 ms, step / bound 1\.000; of any cut [23][0-9.]* ms, step / bound 1\.[0-9]+$'
says '^plan 1f1b: 4 stages on 4 ranks, 8 micro-batches of 2 x 16 tokens; costs: uniform$'
says '^ +3 +3 +13-17 +2 '
says '^   0 \|F+\.+B'
says '^written: RUN/plan.h5$'
check [ "$(grep -c '^ *[0-9] |' out)" = 4 ] || fail "the picture has not four ranks"
check [ -s RUN/plan.h5 ] || fail "no RUN/plan.h5"
cp RUN/plan.h5 first.h5

says '^written: RUN/report.html$'
check [ "$(grep -cE '<rect class="bar [FB]' RUN/report.html)" = 64 ] || fail "not 64 passes in RUN/report.html"

run 0 plan deck.yml --json
is_silent err
gives planner '"1f1b"'
gives_near predicted_step_s 0.033
gives_near bound_s 0.033
says '^ "bound_any_cut_s": 0\.0[23]'
gives_near bubble_share "$(awk 'BEGIN { printf "%.12f", 9 / 33 }')"
gives overlap_share null
for key in stages peaks limits declined; do says "^ \"$key\": \["; done
check [ "$(grep -c '"first_layer":' out)" = 4 ] || fail "JSON has not four stages"
# The parts of a rank's memory sum to its peak.
check awk -F'[:,]' '/"device_bytes"/ { peak = $2; sum = 0; n++ } /"(fixed|activations|guests|gradients|messages|workspace)_bytes"/ { sum += $2 }
  /"workspace_bytes"/ && sum != peak { bad = 1 } /"limits"/ { exit } END { exit bad || n < 4 }' out || fail "parts of memory"
check [ "$(head -n 1 out)$(tail -n 1 out)" = '{}' ] || fail "not one object alone"

# Messages: those of one micro-batch, each of which is waited for.
run 0 plan deck.yml --json -D data.global_batch=2 -D 'cost.uniform={forward_ms: 1, input_ms: 1, weight_ms: 1, send_ms: 0.5}'
gives_near predicted_step_s 0.015
gives_near overlap_share 0
# Uneven: the third stage has 5 of 8 blocks, f 2.5 and b 5; it never rests between its first and its last pass.
run 0 plan deck.yml --json -D 'pipeline.partition=[1, 1, 5, 1]'
gives_near predicted_step_s "$(awk 'BEGIN { print (0.5 + 0.5 + 8 * 7.5 + 1 + 1) / 1000 }')"
# A list by rank is each rank's own share, whatever it holds.
run 0 plan deck.yml --json -D 'pipeline.partition=[1, 1, 5, 1]' \
  -D 'cost.uniform={forward_ms: [1, 1, 1, 1], input_ms: [1, 1, 1, 1], weight_ms: [1, 1, 1, 1]}'
gives_near predicted_step_s 0.033
# A rank at half speed, with a quarter of the layers; and cut by cost into 5, 5, 1 and 5 of them.
run 0 plan deck.yml --json -D data.global_batch=2 -D 'device.rank_speeds={2: 0.5}' -D pipeline.partition=even
gives_near predicted_step_s 0.015
run 0 plan deck.yml --json -D data.global_batch=2 -D 'device.rank_speeds={2: 0.5}'
gives_near predicted_step_s 0.01275

# ---- the same plan, simulated ----
run 0 simulate first.h5
is_silent err
says '^predicted step 33 ms'
says '^   0 +24 +0 +0 +9 +0 +0$'
says '^ +0 +6 +3$'
says '^critical path: [0-9]+ nodes, F 11 ms B 22 ms$'
says '^ +0 +[0-9]+ +0  F stage 0 micro-batch 0'
says '^ +[0-9]+ +33 +0  (B stage 0 micro-batch [0-9]+ to )?B stage 0 micro-batch 7'
run 0 simulate first.h5 --json --iterations 3
gives iterations 3
gives_near makespan_s 0.099
run 0 simulate first.h5 --json -D 'cost.uniform={forward_ms: 2, input_ms: 2, weight_ms: 2}'
gives_near predicted_step_s 0.066
mkdir elsewhere && cp first.h5 elsewhere/moved.h5
run 0 simulate elsewhere/moved.h5 --json -D cost.source=preset -D device.preset=h100
says '"cost_source": "preset h100, not measured"'
run 0 simulate first.h5 -D cost.source=preset -D 'cost.uniform={forward_ms: 2}'
says 'cost.uniform does not act: times come from cost.source preset'
run 0 simulate first.h5 -D pipeline.stages=3 -D cost.source=preset
check [ "$(grep -c 'warning: -D' err)" = 1 ] || fail "not one warning"
warns 'warning: -D pipeline.stages=3 changes nothing: the plan is made'
run 2 simulate .
warns 'it is a folder, not a file'
run 2 simulate none.h5
warns 'none.h5'
printf 'no plan' > text.h5
run 2 simulate text.h5
warns 'text.h5'
run 2 simulate
warns 'simulate takes one plan'
run 2 simulate first.h5 --iterations 0
warns '--iterations 0: a number of steps'

# ---- every planner ----
run 0 plan deck.yml --compare
says '^costs: uniform$'
says '^1f1b +33 +27\.3'
says '^interleaved +28\.5 '
says '^zb-h1 +27 '
says '^zb-v +25\.5 '
says '^file +no plan: see below' && says '^file has no plan: planner file needs pipeline.plan_file'
check awk '/^planner/ { body = 1; next } body && $2 ~ /^[0-9.]+$/ { if ($2 < last || declined) bad = 1; last = $2; n++ }
  body && $2 !~ /^[0-9.]+$/ { declined = 1 } END { exit bad || n < 3 }' out || fail "not the best first"
run 0 plan deck.yml --compare --json
gives planner '"zb-v"'
gives_near predicted_step_s 0.0255
says '"reason": ".*pipeline.plan_file'
run 0 plan deck.yml --compare -D pipeline.chunks=2
says '^1f1b +no plan: see below' && says '^1f1b has no plan: planner 1f1b holds one stage on each rank, but pipeline.chunks is 2'
rm -rf RUN
run 0 plan deck.yml --compare
check [ ! -e RUN ] || fail "--compare writes"

# Many micro-batches and little memory: what is fastest of what fits comes first, whatever its name; the others are listed
# with their times and peaks, or with what they lack.
many=(-D data.global_batch=128)
run 0 plan deck.yml "${many[@]}" --compare
fits=$(awk '$1 == "interleaved" { print $5 }' out)
check awk '$1 ~ /^(zb-v|zb-h1|interleaved|1f1b|adapipe|gpipe)$/ && $2 > 190 && $5 > 0.5 { n++ } END { exit n != 6 }' out ||
  fail "not six with time and peak"
limit=(-D "memory.device_limit=$(awk -v m="$fits" 'BEGIN { printf "%d", (m + 0.005) * 1048576 }') B")
run 0 plan deck.yml "${many[@]}" "${limit[@]}" --compare
check awk '/^planner/ { body = 1; next } body && $2 ~ /^[0-9.]+$/ { if ($2 < last) bad = 1; last = $2; order = order " " $1 }
  END { exit bad || order !~ /^ obscura zb-v zb-h1.* interleaved.* 1f1b/ }' out || fail "not by time"
says '^(gpipe|zb-h2) .*rank 0 needs'
run 0 plan deck.yml "${many[@]}" -D 'memory.device_limit=1000000 B' -D pipeline.recompute=none --compare
check [ "$(awk '/^planner/ { getline; print $1; getline; print $1 }' out | xargs)" = 'bpipe 1f1b' ] ||
  fail "not the fastest that fits, with less memory first"
says '^zb-v .*needs'

# ---- blocks that move: in text, JSON, plan.h5 and back, and not in a file of actions
moves=(-D pipeline.planner=bpipe -D 'cost.uniform={forward_ms: 1, input_ms: 1, weight_ms: 1, evict_ms: 0.5}')
run 0 plan deck.yml "${moves[@]}" -D run.folder=MOVES --export moves.csv
says '^ +0 +0 +[1-9][0-9]* +1 +[0-9.e-]+ +100 %  rank 3$'
says '^blocks are on their way for [0-9.]+ ms in all; [0-9.]+ % of that is hidden$'
check awk '/^rank .*guests/ { on = 1; next } on && $1 == 0 && $4 > 0 { bad = 1 } on && $1 == 3 && $4 > 0 { kept = 1 }
  END { exit bad || !kept }' out || fail "rank 3 alone keeps blocks of others"
check grep -q 'moves.csv has the order of passes only: the [0-9]* blocks of activations that move are in plan.h5' err ||
  fail "no word of what the file lacks"
check [ "$(tr ',' '\n' < moves.csv | grep -cE '^[0-9]+[FB][0-9]+$')" = 64 ] || fail "moves.csv has not all passes"
run 0 plan deck.yml "${moves[@]}" --json
says '^   "tier": "rank",$'
says '^   "peer": 3,$'
says '^   "blocks": 1,$'
cp MOVES/plan.h5 moves.h5
run 0 plan deck.yml "${moves[@]}" -D pipeline.planner=file -D pipeline.plan_file=moves.h5 -D run.folder=AGAIN
says '^ +0 +0 +[1-9][0-9]* +1 +[0-9.e-]+ +100 %  rank 3$'
run 0 plan deck.yml "${moves[@]}" -D pipeline.stages=2
says '^note: bpipe: no stage of 2 holds more than 2 activation blocks: nothing moves$'
run 0 report MOVES/plan.h5 --svg moves.svg --chrome moves.json
check [ "$(grep -c 'class="bar \(ES\|LS\)"' moves.svg)" -gt 1 ] || fail "moves.svg has no blocks on their way"
check grep -q '"copy_out"' moves.json || fail "moves.json has no copy_out"

# ---- memory ----
run 0 plan deck.yml --json -D 'memory.device_limit=64 MiB'
says '"device_bytes": 67108864'
run 2 plan deck.yml --json -D 'memory.device_limit=64 KiB'
is_silent out
warns 'rank 0 needs .* what would fit: memory.device_limit'
run 2 plan deck.yml --compare -D 'memory.device_limit=64 KiB'
warns 'no planner has a plan that fits'
says '^gpipe +.*rank 0 needs'
run 2 plan deck.yml -D 'memory.rank_limits={2: 64 KiB}'
warns 'rank 2 needs'

# ---- presets, with no keys of cost at all ----
grep -v -A3 '^cost:' deck.yml | sed '/^cost:/,$d' > preset.yml
run 0 plan preset.yml
says 'costs: preset cpu, not measured$'
says '^note: times are counted from the ops for the preset cpu, not measured$'
cp RUN/plan.h5 preset.h5
run 0 simulate preset.h5
run 2 plan preset.yml -D device.preset=a100
warns 'allowed: cpu, a100-40g, a100-80g, a800-80g, h100, h200, h800'

# ---- a table, found beside the deck ----
mkdir beside && sed 's/source: uniform/source: table/; s/uniform: .*/table: costs.csv/' deck.yml > beside/deck.yml
{
  echo layer,forward_ms,input_ms,weight_ms,recompute_ms,kept_bytes,kept_weight_bytes,parameter_bytes,output_bytes
  for ((l = 0; l < 18; l++)); do echo "$l,$((l > 0 && l < 17 ? 25 : 0))e-2,0.25,0.25,0,0,0,0,0"; done
} > beside/costs.csv
run 0 plan beside/deck.yml --json -D run.folder=beside/RUN
says 'table beside/costs.csv'
says 'messages take no time'
cp -r beside there
run 0 simulate there/RUN/plan.h5 --json
says 'table there/'
# its memory: 4 layers a rank with 16 KiB of parameters, 4 times with gradients and moments; 64 KiB a micro-batch and layer
{ head -n 1 beside/costs.csv; tail -n +2 beside/costs.csv | sed -E '2,17s/(,0){4}$/,65536,32768,16384,0/'; } > sized.csv
mv sized.csv beside/costs.csv
# peaks BYTES...: of ranks 0, 1, ...
peaks() {
  check [ "$(sed -nE '/"peaks"/,/\]/s/.*"device_bytes": ([0-9]*).*/\1/p' out | tr '\n' ' ')" = "$* " ] || fail "other peaks"
}
full=$((4 * 4 * 16384)) each=$((4 * 65536))
first=(-D pipeline.planner=1f1b --json -D run.folder=beside/RUN)
run 0 plan beside/deck.yml "${first[@]}"
peaks $((full + 4 * each)) $((full + 3 * each)) $((full + 2 * each)) $((full + each))
run 0 simulate beside/RUN/plan.h5 --json
peaks $((full + 4 * each)) $((full + 3 * each)) $((full + 2 * each)) $((full + each))
run 0 plan beside/deck.yml "${first[@]}" -D pipeline.planner=gpipe
peaks $((full + 8 * each)) $((full + 8 * each)) $((full + 8 * each)) $((full + 8 * each))
run 0 plan beside/deck.yml "${first[@]}" -D pipeline.planner=zb-h1
peaks $((full + 4 * each)) $((full + 3 * each + each / 2)) $((full + 3 * each)) $((full + 2 * each + each / 2))
run 0 plan beside/deck.yml "${first[@]}" -D "memory.device_limit=$((full + 2 * each)) B"
peaks $((full + each)) $((full + each)) $((full + 2 * each)) $((full + each))
run 2 plan beside/deck.yml "${first[@]}" -D "memory.device_limit=$((full + each - 1)) B"
warns "all ranks: $((full + each)) B"

# ---- what is refused, each with exit code 2 and its key ----
refuse() {
  local wanted=$1
  shift
  run 2 plan "$@"
  is_silent out
  warns "$wanted"
}
# No profile, an empty one, one that is none: the times of the preset, and said so; on any machine.
run 0 plan deck.yml -D cost.source=profile
says 'costs: preset cpu, not measured \(profile RUN/profile.h5: there is no such file\)$'
says 'times are counted from the ops for the preset cpu instead, not measured: penstock profile measures them'
run 0 simulate RUN/plan.h5 -D cost.source=profile -D cost.profile=nowhere.h5 -D device.preset=h100 --json
says '"cost_source": "preset h100, not measured \(profile nowhere.h5: there is no such file\)"'
: > empty.h5
echo 'this is no HDF5 file' > text.h5
for file in empty.h5 text.h5 .; do
  run 0 plan preset.yml -D "cost.profile=$file" --compare
  says "^costs: preset cpu, not measured \(profile $file: "
done
run 0 plan deck.yml -D cost.source=uniform -D cost.profile=empty.h5
says 'costs: uniform$'

# The times that a deck gives are those that count, without a word on cost.source.
run 0 plan preset.yml -D 'cost.uniform={forward_ms: 1}'
says 'costs: uniform$'
run 0 plan preset.yml -D 'cost.uniform={forward_ms: 1}' -D cost.profile=empty.h5
says 'costs: preset cpu, not measured \(profile empty.h5: '
refuse 'cost.table: none.csv: cannot be read' preset.yml -D 'cost.uniform={send_ms: 1}' -D cost.table=none.csv

refuse 'cost.uniform: forward_ms lists 2 ranks, the plan has 4' deck.yml -D 'cost.uniform={forward_ms: [1, 2]}'
refuse "'cost.source' is uniform, but 'cost.uniform' gives no times" preset.yml -D cost.source=uniform
refuse 'device.rank_speeds names rank 4' deck.yml -D 'device.rank_speeds={4: 2}'
refuse 'pipeline.stages 11: a model of 8 blocks' deck.yml -D pipeline.stages=11 -D pipeline.partition=even
refuse 'pipeline.stages 19 .* a model of 8 blocks .* at most 18 stages' deck.yml -D pipeline.stages=19
refuse 'sum 5, model has 8' deck.yml -D 'pipeline.partition=[2, 1, 1, 1]'
refuse "'data.train'.* is missing" deck.yml -D data.batching=padded
refuse 'none.yml: cannot be read' none.yml
refuse 'plan takes one deck'
refuse "unknown option '--all'" deck.yml --all
grep -v sequence_length deck.yml > short.yml
refuse "'data.sequence_length'.* is missing; a plan needs it" short.yml
sed '/^model:/,/^data:/{/^data:/!d;}' deck.yml > modelless.yml
refuse 'the deck names no model' modelless.yml

# ---- a folder in which a run is, or was: nothing of it is replaced; one that holds a plan alone is planned anew ----
run 0 plan deck.yml -D run.folder=KEPT
cp KEPT/plan.h5 kept.h5
echo 'the page of the run' > KEPT/report.html
refuse_kept() { # WANTED [CODE]: for the folder as it is
  run "${2:-2}" plan deck.yml -D run.folder=KEPT -D pipeline.planner=gpipe
  warns "$1"
  warns 'run.folder'
  is_silent out
  check cmp -s kept.h5 KEPT/plan.h5 || fail "the plan is another"
  check [ "$(cat KEPT/report.html)" = 'the page of the run' ] || fail "the page is another"
}
echo 'DONE' > KEPT/STATUS
refuse_kept 'KEPT holds a run \(DONE\): plan.h5 would be replaced'
run 0 plan deck.yml -D run.folder=KEPT --compare
echo 'CHECKPOINTED step 7' > KEPT/STATUS
refuse_kept 'KEPT holds a run \(CHECKPOINTED step 7\)'
rm KEPT/STATUS
for file in metrics.csv trace.h5 checkpoints/index.txt; do
  mkdir -p KEPT/checkpoints && : > KEPT/$file
  refuse_kept 'KEPT holds a run'
  rm KEPT/$file
done
echo "host $(hostname) pid $$ started $(awk '{ print $22 }' /proc/$$/stat) boot $(cat /proc/sys/kernel/random/boot_id) job - restart 0" > KEPT/.lock.1
refuse_kept 'plan.h5 was not written: another job runs in KEPT: process [0-9]+ on host' 75
sed -i 's/pid [0-9]* started [0-9]*/pid 999999999 started 1/' KEPT/.lock.1
run 0 plan deck.yml -D run.folder=KEPT -D pipeline.planner=gpipe
check cmp -s kept.h5 KEPT/plan.h5 && fail "the plan is the old one"
: > KEPT/manifest.txt && echo step > KEPT/metrics.csv
for file in KEPT/metrics.csv KEPT/plan.h5 KEPT/manifest.txt; do
  cp $file before
  run 2 plan deck.yml --export $file
  warns "--export $file: it is there and holds what a run or a plan left"
  check cmp -s before $file || fail "$file is another"
done
run 2 plan deck.yml --export nowhere/order.csv
warns 'nowhere/order.csv cannot be written: No such file'
for place in deck.yml deck.yml/below; do
  run 2 plan deck.yml -D "run.folder=$place"
  warns "the folder $place: Not a directory"
done

run 2 plan deck.yml -D run.folder=NOWHERE --export none/a.csv
warns '--export: none/a.csv cannot be written'
check [ ! -e NOWHERE ] || fail "a plan was written"

# ---- without pipeline.stages, and inside a job of any size, the deck alone says how many ranks ----
run 0 plan deck.yml --json -D run.folder=R1 -D 'data.global_batch=1000'
sed '/stages: 4/d' deck.yml > one.yml
run 0 plan one.yml
warns 'pipeline.stages is not given: this is the plan for 1 rank'
says '1 stage on 1 rank,'
PMI_SIZE=3 PMI_RANK=0 SLURM_NTASKS=3 run 0 plan deck.yml
says '4 stages on 4 ranks'

# ---- a limit on file size is an error, and leaves nothing ----
run 0 plan deck.yml -D run.folder=limited
cp limited/plan.h5 whole.h5
(
  failures=0
  ulimit -f 64
  run 1 plan deck.yml -D run.folder=limited
  warns 'cannot write limited/plan.h5: .*ulimit -f'
  exit $failures
) || failures=$((failures + 1))
check cmp -s whole.h5 limited/plan.h5 || fail "the earlier plan is gone"
check [ ! -e limited/plan.h5.tmp ] || fail "a temporary file stays"

finish 51
