# What is wanted of all rows of figures 12 and 15: within 0.03 of Eq. 3 / 5, and ours never slower than another one.
# shellcheck shell=bash

# Reads rows: kind, model, micro-batches, name, step, gain, gain by Eq. 3 / 5, over a whole forward, stages ahead, step
# over the lower bound of its stages, and over that of any cut.
summarize() {
  [ -s rows ] || return 0
  printf '\nSummary\n'
  awk -F'|' '
    $1 ~ /paper/ {
      off = $6 > $7 ? $6 - $7 : $7 - $6
      n++
      if ($9 > 0) n_ahead++
      if (off > 0.03) {n_off++; far = far sprintf("\n    %s, %d, %s: %+.3f", $2, $3, $4, $6 - $7)}
      if (off > most) {most = off; where = $2 ", " $3 ", " $4}
    }
    END {
      printf "  rows held against Eq. 3 / 5: %d, of which %d have stages that run ahead; ", n, n_ahead
      printf "farther off than 0.03: %d (wanted 0); the farthest %.3f: %s%s\n", n_off, most, where, far
    }' rows
  awk -F'|' '
    NR == FNR {if ($4 == "ours") ours[$2, $3] = $5; next}
    $1 !~ /free/ && ($2, $3) in ours {
      n++
      if (ours[$2, $3] > $5 * (1 + 1e-6)) {n_slower++; slower = slower "\n    " $2 ", " $3 ", " $4}
    }
    END {
      printf "  rows within the limit: %d; ours slower than the row: %d (wanted 0)%s\n", n, n_slower, slower
    }' rows rows
  # A plain 1F1B within the limit needs no recomputation: what is gained there is no gain of a planner's.
  awk -F'|' '
    NR == FNR {if ($4 == "DAPPLE (1F1B)") plain[$2, $3] = 1; next}
    $4 == "ours" {
      k = (($2, $3) in plain) ? "none" : "some"
      n[k]++
      if ($8 >= 1.33) n_aim[k]++
      else if ($11 > 0) below[k] = below[k] sprintf("\n    %s, %d: %.3f; the bound allows %.3f", $2, $3, $8, $8 * $11)
      if (!least[k] || $8 < least[k]) {least[k] = $8; at[k] = $2 ", " $3}
    }
    function say(k, what) {
      if (!n[k]) return
      printf "  ours over a whole forward again, rows that need %s: %d of %d at 1.33 or more; ", what, n_aim[k], n[k]
      printf "the least %.3f: %s%s\n", least[k], at[k], below[k]
    }
    END {
      say("some", "recomputation")
      say("none", "none (a plain 1F1B fits)")
    }' rows rows
  # The bounds are those of plans like the row's: with as many stages a rank, and backwards in as many passes.
  for name in ours 'ours, no swap'; do summarize_bounds "$name"; done
}
summarize_bounds() { # NAME
  awk -F'|' -v name="$1" '
    $4 == name {
      n[$3]++
      sum[$3] += $10
      if ($10 > most[$3]) most[$3] = $10
      if ($11 > 0) {n_any[$3]++; sum_any[$3] += $11}
    }
    END {
      for (m = 1; m <= 1024; m++) {
        if (!n[m]) continue
        printf "  %s over the lower bound, %d micro-batches: mean %.3f, largest %.3f", name, m, sum[m] / n[m], most[m]
        if (n_any[m]) printf "; of any cut: mean %.3f of %d rows", sum_any[m] / n_any[m], n_any[m]
        printf "\n"
      }
    }' rows
}
