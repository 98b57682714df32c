#include "record/trace_after.h"

#include "record/trace.h"

/* The node before v on its stream, -1: none. */
static int32_t find_before(const struct dag *dag, int32_t v) {
  const struct dag_node *n = &dag->nodes[v];
  const int32_t *offset = &dag->stream_offset[n->rank * STREAM_COUNT + n->stream];
  return n->position > 0 ? dag->stream_nodes[offset[0] + n->position - 1] : -1;
}

int32_t trace_after_find(const struct dag *dag, const struct trace_span *spans, int32_t rank, int32_t v) {
  int32_t first = dag->rank_offset[rank], end = dag->rank_offset[rank + 1], last = find_before(dag, v);
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    int32_t u = dag->edge_from[e];
    if (u < first || u >= end || u == dag->match[v]) continue;
    if (last < 0 || spans[u - first].end > spans[last - first].end) last = u;
  }
  return last;
}

static bool is_complete(const struct node_row *rows, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (rows[i].node != i || rows[i].match >= n) return false;
  return true;
}

void trace_after_settle(struct node_row *rows, int64_t n) {
  int64_t last_norm = -1;
  if (!is_complete(rows, n)) return;
  for (int64_t i = 0; i < n; i++) {
    struct node_row *row = &rows[i];
    bool receives = node_kind_get_end((enum node_kind)row->kind) == NODE_IS_RECEIVE;
    if (receives && row->match >= 0 && rows[row->match].start_s > row->start_s) row->after = row->match;
    if (row->kind == NODE_N && (last_norm < 0 || row->start_s > rows[last_norm].start_s)) last_norm = i;
  }
  for (int64_t i = 0; i < n; i++)
    if (rows[i].kind == NODE_N) rows[i].after = rows[last_norm].after;
}
