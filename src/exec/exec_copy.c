/* Blocks between the device, host memory and disk: copies and file jobs beside compute, one at a time in each stream.
 */
#include "exec/exec_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "store/spill.h"

static struct device *get_device(const struct exec *x) { return x->step->state->device; }

/* A block's buffers on the device against the one buffer that holds it in host memory. */
static int find_copies(const struct exec *x, const struct dag_node *node, struct copy_part *copies) {
  int64_t bytes[DAG_BLOCK_PARTS];
  char *host = exec_find_buffer(x, BUFFER_HOST, node->stage, node->micro);
  int n = 0;
  dag_measure_block(x->step->plan, x->step->state->model, node->stage, node->micro, bytes);
  for (int k = 0; k < DAG_BLOCK_PARTS; k++) {
    if (bytes[k] == 0) continue;
    char *device = exec_find_buffer(x, dag_block_kinds[k], node->stage, node->micro);
    bool out = node->kind == NODE_EV;
    copies[n++] = (struct copy_part){out ? host : device, out ? device : host, bytes[k]};
    host += bytes[k];
  }
  return n;
}

void exec_begin_copy(struct exec *x, int32_t id) {
  const struct dag_node *node = &x->step->dag->nodes[id];
  struct copy_part copies[DAG_BLOCK_PARTS];
  char *host = exec_find_buffer(x, BUFFER_HOST, node->stage, node->micro);
  if (node->bytes == 0) return; /* all that might move was discarded */
  switch ((enum node_kind)node->kind) {
  case NODE_EV:
  case NODE_LD: {
    int n = find_copies(x, node, copies);
    get_device(x)->ops->copy_begin(get_device(x), node->kind == NODE_EV ? COPY_OUT : COPY_IN, copies, n);
    return;
  }
  case NODE_SW: spill_begin_write(x->step->spill, exec_find_place(x, node), host); return;
  case NODE_SR: spill_begin_read(x->step->spill, exec_find_place(x, node), host); return;
  default: CHECK(false, "node kind %d copies nothing", node->kind);
  }
}

bool exec_test_copy(struct exec *x, int32_t id) {
  const struct dag_node *node = &x->step->dag->nodes[id];
  struct trace_span *span = &x->copied[node->stream];
  if (node->bytes == 0) {
    span->start = span->end = clock_now();
    return true;
  }
  if (node->stream == STREAM_DISK) {
    int status;
    if (!spill_test(x->step->spill, &status, &span->start, &span->end)) return false;
    if (!x->status) x->status = status;
    return true;
  }
  enum copy_way way = node->kind == NODE_EV ? COPY_OUT : COPY_IN;
  return get_device(x)->ops->copy_test(get_device(x), way, &span->start, &span->end);
}
