/* The graph as an object: names, description, peak, end of life. */
#include "dag/dag.h"

#include <stdio.h>

#include "base/mem.h"

static const char *const buffer_names[BUFFER_KIND_COUNT] = {
#define X(id, text) [id] = text,
    BUFFER_KINDS(X)
#undef X
};

const char *buffer_kind_get_name(enum buffer_kind kind) {
  return (unsigned)kind < BUFFER_KIND_COUNT ? buffer_names[kind] : "?";
}

void dag_destroy(struct dag **dag) {
  if (!dag || !*dag) return;
  struct dag *d = *dag;
  mem_free(d->nodes);
  mem_free(d->rank_offset);
  mem_free(d->stream_offset);
  mem_free(d->stream_nodes);
  mem_free(d->edge_from);
  mem_free(d->edge_to);
  mem_free(d->in_offset);
  mem_free(d->match);
  mem_free(d->sequence);
  mem_free(d->buffers);
  mem_free(d->buffer_offset);
  mem_free(d->device_static);
  mem_free(d);
  *dag = NULL;
}

int64_t dag_get_peak(const struct dag *dag, int32_t rank, int32_t *node) {
  int64_t use = dag->device_static[rank], peak = use;
  int32_t at = -1;
  for (int32_t k = dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
       k < dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE + 1]; k++) {
    const struct dag_node *n = &dag->nodes[dag->stream_nodes[k]];
    use += n->device_alloc;
    if (use > peak) {
      peak = use;
      at = dag->stream_nodes[k];
    }
    use -= n->device_free;
  }
  if (node) *node = at;
  return peak;
}

enum pool_kind buffer_kind_get_pool(enum buffer_kind kind) {
  return kind == BUFFER_HOST ? POOL_HOST : kind == BUFFER_DISK ? POOL_DISK : POOL_DEVICE;
}

/* Bytes that each compute node of a rank takes of a pool, less what it gives back, from the buffer table. */
static void sum_pool(const struct dag *dag, int32_t rank, enum pool_kind pool, int64_t *take, int64_t *give) {
  int32_t first = dag->rank_offset[rank];
  for (int64_t k = dag->buffer_offset[rank]; k < dag->buffer_offset[rank + 1]; k++) {
    const struct dag_buffer *b = &dag->buffers[k];
    if (buffer_kind_get_pool((enum buffer_kind)b->kind) != pool) continue;
    take[b->alloc - first] += b->bytes;
    give[b->release - first] += b->bytes;
  }
}

int64_t dag_get_pool_peak(const struct dag *dag, int32_t rank, enum pool_kind pool, int32_t *node) {
  if (pool == POOL_DEVICE) return dag_get_peak(dag, rank, node);
  int32_t first = dag->rank_offset[rank], at = -1;
  const int32_t *offset = &dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  int64_t n = offset[1] - offset[0], use = 0, peak = 0;
  int64_t *take = MEM_NEW(int64_t, n), *give = MEM_NEW(int64_t, n);
  sum_pool(dag, rank, pool, take, give);
  for (int64_t k = 0; k < n; k++) {
    use += take[k];
    if (use > peak) {
      peak = use;
      at = first + (int32_t)k;
    }
    use -= give[k];
  }
  mem_free(take);
  mem_free(give);
  if (node) *node = at;
  return peak;
}

bool dag_is_send(const struct dag_node *node) { return node_kind_get_end((enum node_kind)node->kind) == NODE_IS_SEND; }

bool dag_is_receive(const struct dag_node *node) {
  return node_kind_get_end((enum node_kind)node->kind) == NODE_IS_RECEIVE;
}

bool dag_is_block(const struct dag_node *node) {
  return node->stream == STREAM_COPY_OUT || node->stream == STREAM_COPY_IN || node->stream == STREAM_DISK;
}

void dag_describe_node(const struct dag_node *node, char *text, size_t size) {
  const char *end = dag_is_send(node) ? "to" : "from";
  char stage[32] = "", micro[32] = "", layer[32] = "", peer[32] = "";
  if ((node->layer < 0 || node->micro >= 0) && node->stage >= 0)
    snprintf(stage, sizeof stage, " stage %d", (int)node->stage);
  if (node->micro >= 0) snprintf(micro, sizeof micro, " micro-batch %d", (int)node->micro);
  if (node->layer >= 0) snprintf(layer, sizeof layer, " layer %d", (int)node->layer);
  if (node->peer >= 0) snprintf(peer, sizeof peer, " %s rank %d", end, (int)node->peer);
  snprintf(text, size, "%s%s%s%s%s", node_kind_get_name(node->kind), stage, micro, layer, peer);
}
