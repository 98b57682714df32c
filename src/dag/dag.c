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

bool dag_is_send(const struct dag_node *node) { return node_kind_get_end((enum node_kind)node->kind) == NODE_IS_SEND; }

bool dag_is_receive(const struct dag_node *node) {
  return node_kind_get_end((enum node_kind)node->kind) == NODE_IS_RECEIVE;
}

bool dag_is_block(const struct dag_node *node) {
  return node->stream == STREAM_COPY_OUT || node->stream == STREAM_COPY_IN;
}

void dag_describe_node(const struct dag_node *node, char *text, size_t size) {
  const char *end = dag_is_send(node) ? "to" : "from";
  char stage[32] = "", micro[32] = "", layer[32] = "", peer[32] = "";
  if (node->layer < 0 && node->stage >= 0) snprintf(stage, sizeof stage, " stage %d", (int)node->stage);
  if (node->micro >= 0) snprintf(micro, sizeof micro, " micro-batch %d", (int)node->micro);
  if (node->layer >= 0) snprintf(layer, sizeof layer, " layer %d", (int)node->layer);
  if (node->peer >= 0) snprintf(peer, sizeof peer, " %s rank %d", end, (int)node->peer);
  snprintf(text, size, "%s%s%s%s%s", node_kind_get_name(node->kind), stage, micro, layer, peer);
}
