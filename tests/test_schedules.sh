#!/bin/bash
# Every planner trains the same bits: on the weights of the reference files, within their tolerances and digit by digit what
# one rank gives; with recomputation of all kinds; by orders of torch.distributed.pipelining; by a plan.h5.
# shellcheck disable=SC2016 # variables of awk
# shellcheck source=tests/cmd_lib.sh
. "$(dirname "$0")/cmd_lib.sh"
need_launcher
ref=$source/tests/ref

# What `verify --reference` prints, but for the shape of the pipeline: losses, norms, errors of every tensor, all digits.
strip() { grep -v '"stages"' out; }
# base CODE FILE ARGUMENT...: what one rank gives.
base() {
  code=$1 file=$2 expected=$((expected + 1))
  shift 2
  arguments=("$@")
  run_on 1 "$code" verify --reference "$ref/$file.h5" --json -D pipeline.planner=1f1b "${arguments[@]}"
  wanted=$code
  strip > "expected.$expected"
}
# same RANKS STAGES ARGUMENT...: so many ranks are to give the same; they run all together, below.
expected=0 places=() expectations=()
same() {
  queue "$1" verify --reference "$ref/$file.h5" --json "${arguments[@]}" "${@:3}"
  places+=("$queued") expectations+=("$wanted $2 expected.$expected")
}

# ---- planners; the models have four blocks, so eight stages are halves of them
eighths='pipeline.partition=[.5, .5, .5, .5, .5, .5, .5, .5]'
one() { for p in "${ranks[@]}"; do same "$p" "$p" -D pipeline.planner="$1"; done; }
two() {
  local p cut
  for p in "${ranks[@]}"; do
    cut=pipeline.partition=even
    [ "$p" = 4 ] && cut=$eighths
    same "$p" $((2 * p)) -D pipeline.planner="$1" -D "$cut"
  done
}
all() {
  for planner in gpipe 1f1b zb-h1 zb-h2 bpipe; do one $planner; done
  for planner in interleaved zb-v; do two $planner; done
}
ranks=(1 2 3 4)
base 0 gpt2_padded -D data.micro_batch=1
all
ranks=(2 3)
base 0 llama_full -D data.micro_batch=1
all
ranks=(4)
base 0 llama_padded -D data.micro_batch=3
all
base 0 gpt2_full -D data.micro_batch=6
all
same 2 8 -D pipeline.planner=interleaved -D pipeline.chunks=4 -D "$eighths"

# ---- messages that wait for their receivers
same 4 8 -D pipeline.planner=zb-v -D "$eighths" -D device.sync_messages=true

same 4 4 -D pipeline.planner=bpipe -D device.sync_messages=true

# ---- recomputation
base 0 gpt2_padded -D data.micro_batch=1
for set in full cmb mlp attention '[norm, core]' auto; do
  same 2 2 -D pipeline.planner=1f1b -D "pipeline.recompute=$set" -D pipeline.recompute_early=false
  same 3 3 -D pipeline.planner=1f1b -D "pipeline.recompute=$set"
done
same 1 1 -D pipeline.recompute=full
same 3 3 -D pipeline.recompute=full -D pipeline.recompute_stages=2
same 4 4 -D pipeline.recompute=mlp -D 'pipeline.recompute_stages=[3, 1]'
same 2 4 -D pipeline.planner=zb-v -D pipeline.recompute=full
for set in mlp full; do same 4 4 -D pipeline.planner=bpipe -D pipeline.recompute=$set; done
same 3 3 -D pipeline.planner=zb-h1 -D pipeline.recompute=cmb -D pipeline.recompute_early=false
same 2 4 -D pipeline.planner=interleaved -D pipeline.recompute=attention -D 'pipeline.recompute_stages=[0, 3]'
base 0 llama_full -D data.micro_batch=2
for set in full cmb '[up, rope, qkv]'; do same 2 2 -D "pipeline.recompute=$set"; done
run_on 2 2 verify --reference "$ref/llama_full.h5" -D 'pipeline.recompute=[nrom]'
tells "pipeline.recompute names the op 'nrom'; allowed are this model's: norm, qkv, rope, core, up, activation"
run_on 2 2 verify --reference "$ref/llama_full.h5" -D pipeline.recompute=full -D 'pipeline.recompute_stages=[2]'
tells 'pipeline.recompute_stages names stage 2; the plan has stages 0 to 1'
run_on 2 2 verify --reference "$ref/llama_full.h5" -D pipeline.recompute=full -D pipeline.recompute_stages=3
tells 'pipeline.recompute_stages is 3; the plan has 2 stages'

# ---- a deck
for i in $(seq 40); do head -c $((i * 3)) "$source/tests/test_schedules.sh"; echo "$i"; done > text.txt
"$penstock" data build --output tokens text.txt "$source/tests/test_schedules.sh" > out 2> err || fail "no token file"
cat > deck.yml << 'DECK'
run:
  folder: RUN
model:
  model_type: gpt2
  vocab_size: 257
  n_positions: 24
  n_embd: 32
  n_layer: 4
  n_head: 4
data:
  train: tokens
  batching: padded
  sequence_length: 24
  global_batch: 6
cost:
  source: uniform
  uniform: {forward_ms: 1, input_ms: 1, weight_ms: 1}
DECK

# ---- orders of torch.distributed.pipelining: imported, priced, exported again, trained
# passes FILE: its actions alone, pairs taken apart.
passes() {
  tr -d '\r' < "$1" |
    sed -E 's/\(([^;]*);([^)]*)\)OVERLAP_F_B/\1,\2/g; s/[0-9]*(WAIT_)?REDUCE_GRAD//g; s/,+/,/g; s/^,//; s/,$//'
}
# order NAME RANKS CHUNKS MICRO-BATCHES STEP-MS
order() {
  local csv=$ref/torch-schedules/$1.csv on=$2 stages=$(($2 * $3)) rows=$4
  local file_keys=(-D pipeline.planner=file -D pipeline.plan_file="$csv")
  run_on 1 0 plan deck.yml "${file_keys[@]}" -D data.global_batch="$rows" -D data.batching=fixed --export again.csv --json \
    -D model.n_layer=12 -D pipeline.partition=even
  tells "\"planner\": \"file\""
  check awk -v step="$5" '/"predicted_step_s"/ { d = $2 * 1000 - step; exit !(d < 1e-6 && d > -1e-6) }' out ||
    fail "$(grep predicted out), not $5 ms"
  check diff <(passes "$csv") again.csv > differences || fail "$1: written again: $(head -n 3 differences)"
  run_on "$on" 0 verify deck.yml "${file_keys[@]}" -D data.global_batch="$rows" --json
  tells '"passed": true'
  tells '"exact": true'
  tells "\"stages\": $stages,"
  [ "$rows" -gt 6 ] && return
  # Fewer rows than the file's steps have: other results, the same on one rank.
  base $((rows < 6)) gpt2_full -D data.micro_batch=1 -D data.global_batch="$rows"
  same "$on" "$stages" "${file_keys[@]}"
}
order gpipe_p3_v1_m5 3 1 5 21
order interleaved_1f1b_p3_v2_m6 3 2 6 21
order interleaved_zb_p2_v2_m4 2 2 4 12.5
order zbv_p3_v2_m7 3 2 7 22
order dualpipev_p2_v2_m4 2 2 4 12.5
says_nothing_twice() { check [ "$(grep -c "$1" err)" = 1 ] || fail "'$1' is not said once"; }
run_on 3 0 verify deck.yml -D pipeline.planner=file -D pipeline.plan_file="$ref/torch-schedules/gpipe_p3_v1_m5.csv" \
  -D data.global_batch=5
says_nothing_twice 'REDUCE_GRAD, WAIT_REDUCE_GRAD left out'
# Micro-batches that do not ascend: the sums round in another order, which is no failure, and is said.
printf '%s\n' 0F3,0F1,0F2,0F0,0B1,0B3,0B0,0B2 1F3,1F1,1B1,1F2,1B3,1F0,1B0,1B2 > descends.csv
descends=(-D pipeline.planner=file -D pipeline.plan_file=descends.csv -D data.global_batch=4)
run_on 2 0 verify deck.yml "${descends[@]}"
tells 'do not ascend, so that its sums round in another order: compared within tolerances, not bit by bit'
tells '^verify: passed$'
run_on 2 0 verify deck.yml "${descends[@]}" --json
tells '"passed": true'
tells '"exact": false'
check awk '/_error": [^0[]/ { n++ } END { exit !n }' out || fail "no error of a tensor: the orders are the same"
faulty=$ref/torch-schedules/1f1b_p3_v1_m7.csv
run_on 3 2 verify deck.yml -D pipeline.planner=file -D pipeline.plan_file="$faulty" -D data.global_batch=7
tells "row 3, cell 13, action '2F7'"
run_on 2 2 verify deck.yml -D pipeline.planner=file -D pipeline.plan_file="$faulty"
tells 'is for 3 ranks, but ranks are 2'
run_on 1 2 plan deck.yml -D pipeline.planner=file -D pipeline.plan_file=none.csv
tells 'pipeline.plan_file: .*none.csv'
run_on 1 2 plan deck.yml -D pipeline.plan_file="$faulty"
tells "'pipeline.plan_file' is given, but 'pipeline.planner' is auto"
run_on 1 2 plan deck.yml -D pipeline.planner=file
tells "'pipeline.planner' is file, but 'pipeline.plan_file' names none"

# ---- a plan.h5 of another run is a plan, its recomputation included
run_on 1 0 plan deck.yml -D data.batching=fixed -D pipeline.stages=2 -D pipeline.planner=zb-v -D pipeline.recompute=mlp \
  -D 'pipeline.recompute_stages=[0, 2]' -D run.folder=PLAN
given=(-D pipeline.planner=file -D pipeline.plan_file=PLAN/plan.h5)
base 0 gpt2_padded -D data.micro_batch=1
same 2 4 -D pipeline.planner=file -D pipeline.plan_file="$work/PLAN/plan.h5"
run_on 1 0 plan deck.yml -D data.batching=fixed "${given[@]}" --json
check [ "$(grep -c '"recompute": "mlp"' out)$(grep -c '"recompute": "none"' out)" = 22 ] || fail "recomputation"
tells '"planner": "file"'
run_on 1 0 plan deck.yml -D data.batching=fixed "${given[@]}" -D pipeline.recompute=full
tells 'note: PLAN/plan.h5: it says itself what is recomputed'
run_on 2 0 train deck.yml "${given[@]}" -D data.micro_batch=1 -D pipeline.recompute=full -D run.steps=1 -D run.folder=GIVEN
tells '^  note: PLAN/plan.h5: it says itself what is recomputed'
run_on 1 2 plan deck.yml -D data.batching=fixed "${given[@]}" -D pipeline.chunks=3
tells 'has 4 stages on 2 ranks, but pipeline.chunks is 3'
run_on 1 2 plan deck.yml -D data.batching=fixed "${given[@]}" -D 'pipeline.partition=[1, 3]'
tells 'has its own cut of the layers: leave pipeline.partition out'

# ---- all that is to be as on one rank
run_queue
for ((i = 0; i < ${#places[@]}; i++)); do
  take "${places[i]}"
  read -r wanted stages expected <<< "${expectations[i]}"
  ends "$wanted"
  check grep -q "\"stages\": $stages," out || fail "not $stages stages"
  check diff <(strip) "$expected" > differences || fail "other results: $(head -n 3 differences)"
done

# ---- and the deck's own planners, with stages that are larger and smaller, against one rank
for planner in zb-h2 interleaved zb-v; do
  run_on 3 0 verify deck.yml --json -D pipeline.planner=$planner -D pipeline.recompute=cmb
  tells '"passed": true'
done
# Memory is told stage by stage: each rank of an uneven cut needs what it was said to, not the mean; the largest decides.
uneven=(-D data.batching=fixed -D data.micro_batch=4 -D data.global_batch=24 -D model.n_layer=8 -D pipeline.recompute=none)
cut=('-D' 'pipeline.partition=[1, 2, 2, 3]')
get_peaks() { sed -nE '/"peaks"/,/\]/s/.*"device_bytes": ([0-9]*).*/\1/p' out; }
run_on 1 0 plan deck.yml --json "${uneven[@]}" "${cut[@]}" -D pipeline.planner=1f1b -D pipeline.stages=4
said=$(get_peaks)
most=$(sort -n <<< "$said" | tail -n 1)
run_on 4 0 train deck.yml "${uneven[@]}" "${cut[@]}" -D pipeline.planner=1f1b -D run.steps=2 -D run.folder=UNEVEN \
  -D "memory.device_limit=$most B"
run_on 1 0 report UNEVEN --json
check [ "$(sed -nE 's/^ *"peak_bytes": ([0-9]*),*$/\1/p' out)" = "$said" ] || fail "not the peaks that were said: $said"
check [ "$(sort -nu <<< "$said" | wc -l)" = 4 ] || fail "ranks need the same: $said"
run_on 4 2 train deck.yml "${uneven[@]}" "${cut[@]}" -D pipeline.planner=1f1b -D run.folder=UNEVEN2 \
  -D "memory.device_limit=$((most - 1)) B"
tells "rank $(awk -v m="$most" '$1 == m { print NR - 1 }' <<< "$said") needs $most bytes"
# Stages that are not there are refused also where as many recompute as memory asks for, and it asks for none.
for stages in '[1, 4]' 5; do
  run_on 1 2 plan deck.yml -D pipeline.stages=4 -D pipeline.planner=1f1b -D pipeline.recompute=auto \
    -D "pipeline.recompute_stages=$stages" -D run.folder=STAGES
  tells 'pipeline.recompute_stages (names stage 4|is 5); the plan has (stages 0 to 3|4 stages)'
done
# One rank of four with three fifths of what it would need: it alone recomputes, within its limit.
poor=("${uneven[@]}" -D data.micro_batch=8 -D data.global_batch=48 -D pipeline.partition=even)
run_on 1 0 plan deck.yml --json "${poor[@]}" -D pipeline.planner=1f1b -D pipeline.stages=4
read -ra need <<< "$(get_peaks | tr '\n' ' ')"
fifths=$((need[1] * 6 / 10))
all_limits="memory.rank_limits={0: ${need[0]} B, 1: $fifths B, 2: ${need[2]} B, 3: ${need[3]} B}"
run_on 4 0 verify deck.yml "${poor[@]}" -D pipeline.planner=1f1b -D pipeline.recompute=auto -D 'pipeline.recompute_stages=[1]' \
  -D "$all_limits"
run_on 4 0 train deck.yml "${poor[@]}" -D pipeline.planner=adapipe -D pipeline.recompute=auto \
  -D "memory.rank_limits={1: $fifths B}" -D run.steps=2 -D run.folder=POOR
check [ "$(grep -c ', recomputes ' out)" = 1 ] || fail "not one stage recomputes"
tells '^ +stage 1 on rank 1: .*, recomputes '
run_on 1 0 report POOR --json
check awk -v most="$fifths" '/"peak_bytes"/ { n++; if (n == 2) exit !($2 + 0 > 0 && $2 + 0 <= most) }' out ||
  fail "rank 1 needs more than $fifths"
# One byte less than the first rank needs without: refused where nothing may be recomputed, else its stage recomputes.
fixed=(-D data.batching=fixed -D data.micro_batch=2 -D pipeline.planner=1f1b -D pipeline.partition=even)
run_on 1 0 plan deck.yml --json "${fixed[@]}" -D pipeline.stages=3
limit=$(sed -n 's/^ *"device_bytes": \([0-9]*\),*$/\1/p' out | head -n 1)
run_on 3 0 verify deck.yml "${fixed[@]}" -D "memory.rank_limits={0: $limit B}" -D pipeline.recompute=none
run_on 3 2 verify deck.yml "${fixed[@]}" -D "memory.rank_limits={0: $((limit - 1)) B}" -D pipeline.recompute=none
tells 'rank 0 needs .* 1 byte .* over'
run_on 3 0 verify deck.yml "${fixed[@]}" -D "memory.rank_limits={0: $((limit - 1)) B}"
run_on 3 0 train deck.yml "${fixed[@]}" -D "memory.rank_limits={0: $((limit - 1)) B}" -D run.steps=1 -D run.folder=LIMITED
check [ "$(grep -c ', recomputes ' out)" = 1 ] || fail "not one stage recomputes"
tells '^ +stage 0 on rank 0: .*, recomputes full$'

run_on 3 0 train deck.yml -D run.steps=2 -D pipeline.planner=zb-v -D pipeline.recompute=full -D pipeline.recompute_stages=1
tells '^ +stage 0 on rank 0: .*, recomputes full$'
tells '^ +stage 5 on rank 0: .* parameters$'
tells '^ +rank 2 needs at most '
check grep -qx '  chunks: 2  # what the planner takes' RUN/used.yml || fail "chunks in used.yml"
run_on 1 0 report RUN --json # in milliseconds and in seconds
check awk '/"R":/ { if ($2 + 0 > 0) r++ } /"W":/ { if ($2 + 0 > 0) w++ } /"B":/ { if ($2 + 0 > 0) b++ }
  END { exit !(r == 2 && w == 6 && b == 0) }' out || fail "busy by kind"
run_on 1 0 report RUN
tells '^rank +F +% +R +% +I +% +W +% +U +%  \(busy, ms\)$'

finish 201
