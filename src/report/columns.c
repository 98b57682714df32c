#include "report/columns.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

void columns_init(struct columns *c, int n, int n_classes, double begin, double end) {
  *c = (struct columns){.n = n, .n_classes = n_classes, .begin = begin, .width = (end - begin) / n};
  c->shares = MEM_NEW(double, (int64_t)n *n_classes);
}

void columns_fini(struct columns *c) {
  mem_free(c->shares);
  *c = (struct columns){0};
}

void columns_clear(struct columns *c) { memset(c->shares, 0, sizeof *c->shares * (size_t)c->n * (size_t)c->n_classes); }

static int find_column(const struct columns *c, double seconds) {
  double at = floor((seconds - c->begin) / c->width);
  return at < 0 ? 0 : at >= c->n ? c->n - 1 : (int)at;
}

void columns_add(struct columns *c, double start_s, double end_s, int class) {
  if (!(c->width > 0)) return;
  int last = find_column(c, end_s);
  for (int i = find_column(c, start_s); i <= last; i++) {
    double left = c->begin + i * c->width;
    double part = fmin(end_s, left + c->width) - fmax(start_s, left);
    if (part > 0) c->shares[(size_t)i * (size_t)c->n_classes + (size_t) class] += part / c->width;
  }
}

/* owed: what each class, and last of all idleness, has had too little of so far. */
static int choose(const double *shares, int n_classes, double *owed) {
  static const double NOTHING = 1e-3; /* of a column */
  double idle = 1;
  int best = -1;
  for (int k = 0; k < n_classes; k++) idle -= shares[k];
  for (int k = 0; k <= n_classes; k++) {
    double share = k < n_classes ? shares[k] : idle;
    owed[k] += share;
    if (share > NOTHING && (best < 0 || owed[k] > owed[best])) best = k;
  }
  if (best < 0) best = n_classes;
  owed[best] -= 1;
  return best < n_classes ? best : -1;
}

void columns_choose(const struct columns *c, int *chosen) {
  double *owed = MEM_NEW(double, c->n_classes + 1);
  for (int i = 0; i < c->n; i++) chosen[i] = choose(&c->shares[(size_t)i * (size_t)c->n_classes], c->n_classes, owed);
  mem_free(owed);
}

/* ---- chunks ---- */

int32_t *columns_find_chunks(const struct node_row *rows, int64_t n_rows, int32_t *n_stages, int32_t *n_chunks) {
  int32_t n_ranks = 0;
  *n_stages = *n_chunks = 0;
  for (int64_t i = 0; i < n_rows; i++) {
    if (rows[i].stage >= *n_stages) *n_stages = rows[i].stage + 1;
    if (rows[i].rank >= n_ranks) n_ranks = rows[i].rank + 1;
  }
  int32_t *rank_of = MEM_NEW(int32_t, *n_stages), *chunks = MEM_NEW(int32_t, *n_stages),
          *seen = MEM_NEW(int32_t, n_ranks);
  for (int32_t s = 0; s < *n_stages; s++) rank_of[s] = -1;
  for (int64_t i = 0; i < n_rows; i++)
    if (rows[i].stream == STREAM_COMPUTE && rows[i].stage >= 0) rank_of[rows[i].stage] = rows[i].rank;
  for (int32_t s = 0; s < *n_stages; s++) {
    if (rank_of[s] < 0) continue;
    chunks[s] = seen[rank_of[s]]++;
    if (chunks[s] >= *n_chunks) *n_chunks = chunks[s] + 1;
  }
  mem_free(rank_of);
  mem_free(seen);
  return chunks;
}
