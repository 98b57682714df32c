#!/bin/bash
# Activations that wait in host memory and on disk, in whole runs: the same bits as without, files of the size that is planned
# and none left; what goes wrong with them ends the job at once on all ranks, or does no harm.
# shellcheck source=tests/run_lib.sh
. "${srcdir:-$(dirname "$0")/..}/tests/run_lib.sh"
moves=${helper%run_helper}moves_helper
spill=$work/spill

make_data data 300
write_deck "$deck"

# make_moved NAME RANKS TIER STAGES [ARGUMENT...]: NAME.h5, 1f1b's plan in which all blocks of these stages move.
make_moved() {
  local out=$1 ranks=$2 tier=$3 stages=$4
  shift 4
  output=$work/$out.plan
  check "$penstock" plan "$deck" -D run.folder="$work/plans/$out" -D pipeline.stages="$ranks" -D pipeline.planner=1f1b \
    "$@" > "$output" 2>&1 || fail "no plan"
  check "$moves" "$work/plans/$out/plan.h5" "$tier" "$stages" "$work/$out.h5" >> "$output" 2>&1 || fail "no moves"
}
# Arguments that run a plan with its blocks on disk.
moved() { echo -D pipeline.planner=file -D "pipeline.plan_file=$work/$1.h5" -D "memory.spill_folder=$spill"; }
list_files() { find "$spill" -type f 2> /dev/null; }
count_files() { list_files | wc -l; }
is_empty() { check [ "$(count_files)" = 0 ] || fail "left in the spill folder: $(list_files | tr '\n' ' ')"; }
has_files() { [ "$(count_files)" = "$1" ]; }
# get_peak FILE KEY RANK: of what plan --json says.
get_peak() { sed -n '/"peaks"/,/]/p' "$1" | grep "\"$2\"" | sed -n "$(($3 + 1))p" | tr -dc '0-9'; }

name="blocks on disk are blocks in memory"
make_moved disk 2 disk all
train plain 2 -D pipeline.planner=1f1b
ends 0
# shellcheck disable=SC2046 # several words
train disk 2 $(moved disk)
ends 0
for kind in EV LD SW SR; do
  check grep -qE "^ +$kind +4 +[0-9.]+ +[0-9.]+ +[0-9.]+$" disk/report.txt || fail "the report has no prediction of four $kind"
done
check grep -qE 'copies of blocks and their files kept cores busy for [0-9.]+ ms a step' disk/report.txt ||
  fail "the report does not say what copies take"
check grep -qE '^ +"copy_cpu_ms": 0\.[0-9]+,$|^ +"copy_cpu_ms": [1-9][0-9.]*,$' <("$penstock" report disk --json) || fail "no CPU time"
check grep -qE '^ +"copy_cpu_ms": 0\.0,$' <("$penstock" report plain --json) || fail "CPU time of no copies"
same_run plain disk
is_empty
make_moved disk3 3 disk 1,2
# shellcheck disable=SC2046
train disk3 3 $(moved disk3)
ends 0
same_run plain disk3
is_empty

name="no folder on a disk"
train nowhere 2 -D pipeline.planner=file -D pipeline.plan_file="$work/disk.h5"
ends 2
says_once '^penstock: error: .*disk'
says 'memory.spill_folder'

name="a folder that cannot be used"
touch file
# shellcheck disable=SC2046
train unusable 2 $(moved disk) -D memory.spill_folder="$work/file/spill"
ends 2
says_once '^penstock: error: .*memory.spill_folder: .*/file/spill: Not a directory'

name="blocks of some stages, in host memory"
make_moved some 4 host 0,1 -D data.global_batch=16
train some 4 -D pipeline.planner=file -D "pipeline.plan_file=$work/some.h5" -D data.global_batch=16
ends 0
train plain4 1 --single -D data.global_batch=16
same_run plain4 some
says_kinds() { check grep -qE "^ +$1 +$2 " some/report.txt || fail "the report has no $2 nodes of kind $1"; }
says_kinds EV 16
says_kinds LD 16
"$penstock" plan "$deck" -D pipeline.planner=file -D "pipeline.plan_file=$work/some.h5" -D data.global_batch=16 \
  -D pipeline.stages=4 -D run.folder="$work/plans/again" --json > some.plan.json 2> /dev/null
"$penstock" report some --json > some.json || fail "no report"
"$penstock" report some > some.txt || fail "no report"
# Of eight micro-batches each; the bytes that the plan says; other stages have no row.
check [ "$(sed -n '/"moved_stages"/,/\]/p' some.json | grep -E '"(stage|rank|blocks)"' | tr -dc '0-9.,')" = 0,0,8.0,1,1,8.0, ] ||
  fail "what moves: $(sed -n '/"moved_stages"/,/\]/p' some.json)"
check [ "$(sed -n '/"moved_stages"/,/\]/p' some.json | grep -c '"exposed_ms": [0-9.e-]*$')" = 2 ] || fail "no times"
check grep -qE '^ +1 +8 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.-]+ %$' some.txt || fail "no table: $(grep -A 8 'blocks out' some.txt)"
check grep -qE '"host_peak_bytes": [1-9][0-9]*,' some.json || fail "no host memory"
check [ "$(grep '"host_peak_bytes"' some.json | tr -dc '0-9\n' | head -n 2)" = "$(grep -h '"host_bytes"' some.plan.json |
  tr -dc '0-9\n' | head -n 2)" ] || fail "host memory is not what the plan says: $(grep -h 'host.*bytes"' some.json some.plan.json)"
"$penstock" report some --chrome some.trace > some.out2 2>&1
check grep -q '"name":"copy_in"' some.trace || fail "no copies among the trace events"

name="host memory down to the last byte, and no more with every checkpoint"
make_moved host 2 host all -D data.global_batch=16
host=(-D pipeline.planner=file -D "pipeline.plan_file=$work/host.h5" -D data.global_batch=16)
"$penstock" plan "$deck" "${host[@]}" -D pipeline.stages=2 -D run.folder="$work/plans/again" --json > host.json 2> /dev/null
most=$(for rank in 0 1; do get_peak host.json host_bytes $rank; echo; done | sort -n | tail -n 1)
train short 2 "${host[@]}" -D "memory.host_limit=$((most - 1)) B"
ends 2
says_once "^penstock: error: rank [01] needs $most bytes of host memory .*, 1 byte over its memory.host_limit of $((most - 1))"
says "what would fit: memory.host_limit of rank [01]: $most B"
start bounded 2 "${host[@]}" -D "memory.host_limit=$most B" -D run.steps=100000 -D run.checkpoint_every=10
get_resident() { for pid in $(list_ranks bounded); do grep VmHWM "/proc/$pid/status"; done | awk '{ kib += $2 } END { print kib }'; }
wait_until has_step bounded 60
early=$(get_resident)
wait_until has_step bounded 200
late=$(get_resident)
check [ "$late" -le $((early + early / 20)) ] || fail "resident $early KiB after 60 steps, $late after 200"
touch bounded/stop
wait_end
status_is bounded "CHECKPOINTED step [0-9]+"

long=(-D run.steps=100000 -D data.global_batch=32)
make_moved long 2 disk all "${long[@]}"

name="a vanished folder does no harm; files have the size of what they hold"
# shellcheck disable=SC2046
start vanished 2 $(moved long) "${long[@]}" -D run.trace_every=0
wait_until has_step vanished 2
check wait_until has_files 2
# shellcheck disable=SC2046
"$penstock" plan "$deck" $(moved long) "${long[@]}" -D pipeline.stages=2 -D run.folder="$work/plans/again" --json \
  > vanished.json 2> /dev/null
for rank in 0 1; do
  planned=$(get_peak vanished.json disk_bytes "$rank")
  file=$(list_files | grep -- "-$rank.h5$")
  kept=$(($(stat -c %b "$file") * 512))
  # Its own head, and a rounding of at most 4 KiB for each of 16 blocks.
  check [ "${planned:-0}" -gt 0 ] && [ "$kept" -ge "$planned" ] && [ "$kept" -le $((planned + 65536 + 17 * 4096)) ] ||
    fail "rank $rank: $kept bytes on the disk for $planned planned"
done
rm -r "$spill"
reached=$(get_last_step vanished)
wait_until has_step vanished $((reached + 3))
touch vanished/stop
wait_end
status_is vanished "CHECKPOINTED step [0-9]+"
steps=$(get_last_step vanished)
train undisturbed 2 -D pipeline.planner=1f1b "${long[@]}" -D run.steps="$steps"
same_run undisturbed vanished

name="a damaged block"
head -c 1048576 /dev/urandom > noise
for rank in 0 1; do
  # shellcheck disable=SC2046
  start damaged$rank 2 $(moved long) "${long[@]}"
  wait_until has_step damaged$rank 2
  file=$(list_files | grep -- "-$rank.h5$")
  while ! is_gone "$job" && [ -e "$file" ]; do
    dd if=noise of="$file" bs=64k seek=1 conv=notrunc,nocreat status=none 2> /dev/null
  done
  wait_end
  who='on rank 1 \(.+\): '
  [ $rank = 1 ] || who=
  says_once '^penstock: error: '
  says "^penstock: error: $who.*penstock-spill-.*-$rank.h5 is damaged: [0-9]+ bytes of activations"
  status_is damaged$rank "FAILED $who.* is damaged: .*"
  log_ends_with_status damaged$rank
  check "$helper" trace damaged$rank/trace.h5 > trace || fail "the trace is gone: $(cat trace)"
  is_empty
done

name="a disk that fills up in the middle of a step"
if command -v prlimit > /dev/null; then
  # shellcheck disable=SC2046
  start full 2 $(moved long) "${long[@]}"
  wait_until has_step full 2
  prlimit --pid "$(list_ranks full 1)" --fsize=70000 || fail "no limit"
  wait_end
  says_once '^penstock: error: on rank 1 \(.+\): cannot write .*/penstock-spill-.*-1.h5: File too large \(ulimit -f is [0-9]+ kB\) \([0-9]+ bytes needed, [0-9]+ free\)'
  status_is full "FAILED on rank 1 .*: cannot write .*"
  log_ends_with_status full
  is_empty
fi

name="a rank is killed"
long=(-D run.steps=100000 -D data.global_batch=12)
make_moved three 3 disk all "${long[@]}"
# shellcheck disable=SC2046
start killed 3 $(moved three) "${long[@]}" -D run.checkpoint_every=2
wait_until has_step killed 3
send KILL killed 1
wait_end
check [ ! -e killed/STATUS ] || fail "STATUS is $(cat killed/STATUS)"
check [ "$(count_files)" -gt 0 ] || fail "a killed rank has left no file: nothing is shown"
steps=$(($(get_last_step killed) + 2))
# shellcheck disable=SC2046
train killed 3 $(moved three) "${long[@]}" -D run.checkpoint_every=2 -D run.steps="$steps"
ends 0
says "the last run here broke off after step"
is_empty
train peaceful 2 -D pipeline.planner=1f1b "${long[@]}" -D run.checkpoint_every=2 -D run.steps="$steps"
same_run peaceful killed

finish
