#!/bin/bash
# What a run ends with: predicted beside measured, from 1, 2 and 3 ranks and from the timed device, with the numbers of
# plan.h5 and trace.h5; predictions that are not of this machine say so, those of a profile of it do not.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"

make_data data 2000
write_deck "$deck"

# sum_kinds CSV: of the rows of /nodes "kind count ms", sorted; receives last as long as their senders let them.
sum_kinds() {
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["kind"] ~ /^R[FBT]$/ { next }
    { n[$at["kind"]]++; sum[$at["kind"]] += 1e3 * ($at["end_s"] - $at["start_s"]) }
    END { for (kind in n) printf "%s %d %.6f\n", kind, n[kind], sum[kind] }' "$1" | sort
}
# The whole of it, as `penstock report` prints it: the log has step, bubble, memory, and the command.
table=$work/table
tells() { check grep -qE -- "$1" "$table" || fail "the report has no line with '$1'"; }
tells_not() { check; if grep -qE -- "$1" "$table"; then fail "the report has a line with '$1'"; fi; }
# list_kinds COLUMN: the same of the table in the report; 3 is predicted, 4 measured, both a node.
list_kinds() {
  awk -v column="$1" '/ node +a step/ { reading = 1; next } / op, all passes|\(sends and|penstock:/ { reading = 0 }
    reading { printf "%s %d %.6f\n", $1, $2, $2 * $column }' "$table" | sort
}
# same_kinds CSV COLUMN: the table has four decimals a node.
same_kinds() {
  check [ "$(list_kinds "$2" | wc -l)" -ge 3 ] || fail "no table of kinds"
  check paste -d' ' <(sum_kinds "$1") <(list_kinds "$2") > "$work/both"
  check awk '{ d = $3 - $6 } $1 != $4 || $2 != $5 || d > 1e-4 * $2 || d < -1e-4 * $2 { exit 1 }' "$work/both" ||
    fail "$1 and column $2 of the table: $(tr '\n' ';' < "$work/both")"
}
# keeps_edges CSV: each node that something comes before says which node it came after. Of the same rank that has ended by
# then (messages of the timed device have modelled times, its passes real ones); of another it is the send that left later
# than its receive was posted. Norms all come after what the last of them waited for.
keeps_edges() {
  check awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { v = $at["node"]; kind[v] = $at["kind"]; rank[v] = $at["rank"]; peer[v] = $at["peer"]; start[v] = $at["start_s"]
      end[v] = $at["end_s"]; after[v] = $at["after"]; compute[v] = $at["stream"] == "compute"
      later[v] = $at["position"] > 0 || $at["kind"] ~ /^(S|N)/; n++ }
    function wrong(v) { printf "%s, node %d, after %d\n", kind[v], v, after[v]; bad = 1 }
    END { for (v in kind) {
        u = after[v]
        if (u < 0 ? later[v] : !(u in kind)) wrong(v)
        else if (u < 0 || kind[v] == "N") continue
        else if (rank[u] == rank[v]) { if ((compute[v] || !"'"${2:-}"'") && end[u] > start[v] + 1e-8) wrong(v) }
        else if (kind[v] !~ /^R[FBT]$/ || kind[u] !~ /^S[FBT]$/ || rank[u] != peer[v] || start[u] <= start[v]) wrong(v)
      }
      exit bad || !n }' "$1" > "$work/both" || fail "$1: $(head -n 5 "$work/both")"
}
get_json() { sed -nE "s/^ *\"$1\": ([^,]*),?$/\1/p" "$work/json" | head -n 1; }
# is_near A B: as far as the four digits of a step go.
is_near() {
  check awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; m = 2e-3 * b + 1e-3; exit !(a != "" && b != "" && d < m && d > -m) }' || fail "'$1' is not '$2'"
}
# get_step predicted|measured: ms, of the line of the whole step.
get_step() { sed -nE "s/^ *step: .*$1 ([0-9.]+) ms.*/\1/p" "$output"; }

# holds RUN [timed]: of a run of two steps, the second counts alone.
holds() {
  ends 0
  status_is "$1" DONE
  says_once 'predicted beside measured \(median of the last 1 step\);'
  says 'step: predicted [0-9.]+ ms, measured [0-9.]+ ms, measured/predicted [0-9.]+'
  says 'idle: predicted [0-9.]+ %, measured [0-9.]+ %'
  says "memory: predicted at most [0-9.]+ [KMG]iB, measured [0-9.]+ [KMG]iB, limit 64.00 MiB, on rank [0-9]"
  says "by kind of pass and by op: penstock report $work/$1\$"
  says_not ' node +a step| op, all passes'
  "$penstock" report "$work/$1" > "$table" || fail "report"
  "$penstock" report "$work/$1" --step 2 --csv "$work/measured.csv" --json > "$work/json" || fail "report"
  "$penstock" report "$work/$1/plan.h5" --csv "$work/predicted.csv" > /dev/null || fail "report of the plan"
  same_kinds "$work/predicted.csv" 3
  same_kinds "$work/measured.csv" 4
  keeps_edges "$work/measured.csv" "${2:-}"
  is_near "$(get_step predicted)" "$(get_json predicted_step_ms)"
  is_near "$(get_step measured)" "$(get_json measured_step_ms)"
  is_near "$(get_step measured)" "$(get_columns "$1" 6 | tail -n 1)"
  check grep -qE 'predicted beside measured \(median of the last 1 step\);' "$work/$1/report.txt" || fail "report.txt lacks it"
  check grep -qE '<td class="left">step, ms</td><td>[0-9.]+</td><td>[0-9.]+</td>' "$work/$1/report.html" || fail "report.html lacks it"
  command -v h5dump > /dev/null || return
  h5dump -y -m %.9g -d /steps/predicted_seconds "$work/$1/trace.h5" | sed -n '/DATA {/,/}/p' | tr -d ' ,' | sed -n 2,3p \
    > "$work/seconds"
  check [ "$(wc -l < "$work/seconds")" = 1 ] || [ "$(sort -u "$work/seconds" | wc -l)" = 1 ] || fail "predictions of steps"
}

for ranks in 1 2 3; do
  name="$ranks ranks"
  train "cpu$ranks" "$ranks" -D run.steps=2
  holds "cpu$ranks"
  says 'predictions use preset cpu, not measured$'
  says 'NOTE: these predictions use preset times, not measurements of this device'
  tells ' attention\.core +8 '
  tells ' head\.head +2 '
  # Ops are within the passes that they make up.
  check awk '/ node +a step/ { table = 1; next } / op, all passes/ { table = 2; next } / of all passes/ { table = 0 }
    table == 1 && $1 ~ /^[FB]$/ { passes += $2 * $4 } table == 2 { ops += $2 * $4 }
    END { exit !(ops > 0.2 * passes && ops < 1.001 * passes) }' "$table" || fail "ops do not make up passes"
done

name="recomputation, split backwards"
train split 2 -D run.steps=2 -D pipeline.planner=zb-h1
holds split
check grep -qE '^ +W +' "$table" || fail "no W in the table"
train again 2 -D run.steps=2 -D pipeline.planner=1f1b -D pipeline.recompute=full
holds again
tells ' R [0-9.]+$'

name="a device that keeps time: what was predicted, scaled"
train timed 2 -D run.steps=2 -D device.backend=timed -D device.time_scale=0.05 -D cost.source=uniform \
  -D 'cost.uniform={forward_ms: 1, input_ms: 1, weight_ms: 1}' -D optimizer.clip=0
holds timed timed
says 'predictions use uniform$'
says 'step: predicted 180\.0 ms'
says_not 'NOTE:'
tells_not ' op, all passes'

name="no trace: the log has it"
train bare 2 -D run.steps=3 -D run.trace_every=0
ends 0
says_once 'predicted beside measured \(median of the last 2 steps\);'
says ' mlp\.up '

name="a run that goes on compares its own steps"
train cpu2 2 -D run.steps=5
ends 0
says_once 'predicted beside measured \(median of the last 2 steps\);'
"$penstock" report "$work/cpu2" > "$work/report" || fail "report"
check grep -qE 'predicted beside measured \(median of the last 2 steps\);' "$work/report" || fail "the report has another"

name="no profile, or one of another machine, is no failure and no secret"
train lost 2 -D run.steps=2 -D cost.profile=nowhere.h5
ends 0
says 'warning: profile nowhere.h5: there is no such file; .* not measured'
says 'predictions use preset cpu, not measured \(profile nowhere.h5: there is no such file\)$'
says 'NOTE: '

name="a profile of this machine"
timeout -k 5 "$job_seconds" "${launcher[@]}" -n 2 "$penstock" profile "$deck" -D run.folder="$work/measured" \
  -D 'memory.device_limit=512 MiB' --seconds 1 \
  > "$work/profile.out" 2>&1 || fail "profile: $(tail -n 1 "$work/profile.out")"
train known 2 -D run.steps=2 -D "cost.profile=$work/measured/profile.h5"
holds known
says 'costs: profile .* was measured on cpu: '
says 'predictions use profile .*/measured/profile.h5$'
says_not 'NOTE: |not measured'
name="the same on another number of ranks"
train other 1 -D run.steps=2 -D "cost.profile=$work/measured/profile.h5"
ends 0
says 'warning: profile .* another device, not measured here: it is of .* 2 ranks a node; here is .* 1 rank a node'
says 'NOTE: '
name="planning with it"
"$penstock" plan "$deck" -D run.folder="$work/plan" -D pipeline.stages=2 -D "cost.profile=$work/measured/profile.h5" \
  > "$work/plan.out" 2>&1 || fail "plan: $(tail -n 1 "$work/plan.out")"
check grep -q 'costs: profile .*/measured/profile.h5$' "$work/plan.out" || fail "plan does not name the profile"
check grep -q 'was measured on cpu: ' "$work/plan.out" || fail "plan does not say of what the profile is"

finish
