#!/bin/bash
# The summary of `make study-obscura`, of rows made up: rows that a plain 1F1B fits are counted apart.
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# shellcheck source=bench/study/summary.sh
. "$top/bench/study/summary.sh"
fails=0
says() {
  grep -qF -- "$1" summary || { echo "the summary does not say: $1"; fails=1; }
}

# Kind, model, micro-batches, name, step, gain, gain by Eq. 3 / 5, gain over a whole forward, stages that run ahead, step
# over two lower bounds (0: not known).
cat > rows << 'ROWS'
whole|small|16|DAPPLE+ (1F1B, full on all)|1500|1|1|1.1|0
paper|small|16|DAPPLE (1F1B)|1000|1.5|1.5|1.65|0
ours|small|16|ours|1000|1.5|0|1.65|0|1.1|1.2
whole|large|16|DAPPLE+ (1F1B, full on all)|1500|1|1|1.1|0
rival|large|16|AdaPipe|1100|1.36|0|1.5|0
ours|large|16|ours|1200|1.25|0|1.375|2|1.2|0
whole|large|32|DAPPLE+ (1F1B, full on all)|2900|1|1|1.1|0
ours|large|32|ours|2500|1.16|0|1.276|2|1.05|1.06
ours|large|32|ours, no swap|2600|1.12|0|1.2|2|1.03|1.04
ROWS
summarize > summary
says 'rows held against Eq. 3 / 5: 1, '
says 'ours slower than the row: 1 (wanted 0)'
says 'rows that need recomputation: 1 of 2 at 1.33 or more; the least 1.276: large, 32'
says '    large, 32: 1.276; the bound allows 1.353'
says 'rows that need none (a plain 1F1B fits): 1 of 1 at 1.33 or more; the least 1.650: small, 16'
says 'ours over the lower bound, 16 micro-batches: mean 1.150, largest 1.200; of any cut: mean 1.200 of 1 rows'
says 'ours over the lower bound, 32 micro-batches: mean 1.050, largest 1.050; of any cut: mean 1.060 of 1 rows'
says 'ours, no swap over the lower bound, 32 micro-batches: mean 1.030, largest 1.030; of any cut: mean 1.040 of 1 rows'
[ $fails = 0 ] || cat summary
exit $fails
