/* The buffers of a step: allocated and freed by this rank's compute nodes as the graph's buffer table says. */
#include "exec/exec_internal.h"

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "store/spill.h"

#include <stdio.h>
#include <string.h>

/* The latest of its kind: a block that has come back is where it is now. */
static int64_t *find_slot(const struct exec *x, enum buffer_kind kind, int32_t stage, int32_t micro) {
  int64_t row = (int64_t)stage * x->step->plan->n_micro + micro;
  return &x->find[row * BUFFER_KIND_COUNT + kind];
}

void exec_memory_init(struct exec *x) {
  const struct dag *dag = x->step->dag;
  const struct plan *plan = x->step->plan;
  x->buffers = dag->buffers + dag->buffer_offset[x->rank];
  x->n_buffers = dag->buffer_offset[x->rank + 1] - dag->buffer_offset[x->rank];
  x->next_buffer = 0;
  x->memory = MEM_NEW(char *, x->n_buffers);
  if (x->step->spill) {
    x->places = MEM_NEW(int64_t, x->n_buffers);
    memset(x->places, 0xff, (size_t)x->n_buffers * sizeof *x->places);
  }
  size_t slots = (size_t)plan->n_stages * (size_t)plan->n_micro * BUFFER_KIND_COUNT;
  x->find = MEM_NEW(int64_t, slots);
  memset(x->find, 0xff, slots * sizeof *x->find);
  x->release_first = MEM_NEW(int64_t, x->n_nodes);
  memset(x->release_first, 0xff, (size_t)x->n_nodes * sizeof *x->release_first);
  x->release_next = MEM_NEW(int64_t, x->n_buffers);
  for (int64_t b = x->n_buffers - 1; b >= 0; b--) {
    int64_t *first = &x->release_first[x->buffers[b].release - x->first];
    x->release_next[b] = *first;
    *first = b;
  }
}

static void free_buffer(struct exec *x, int64_t b) {
  struct device *device = x->step->state->device;
  if (buffer_kind_get_pool((enum buffer_kind)x->buffers[b].kind) == POOL_HOST)
    device->ops->free_host(device, x->memory[b]);
  else
    device->ops->free(device, x->memory[b]);
  x->memory[b] = NULL;
  if (x->places && x->places[b] >= 0) spill_free(x->step->spill, x->places[b]);
  if (x->places) x->places[b] = -1;
}

void exec_memory_fini(struct exec *x) {
  for (int64_t b = 0; b < x->n_buffers; b++) free_buffer(x, b); /* left only after an error */
  mem_free(x->memory);
  mem_free(x->places);
  mem_free(x->find);
  mem_free(x->release_first);
  mem_free(x->release_next);
}

static int open_buffer(struct exec *x, int64_t b) {
  const struct dag_buffer *buffer = &x->buffers[b];
  struct device *device = x->step->state->device;
  char what[96];
  snprintf(what, sizeof what, "%s of stage %d micro-batch %d", buffer_kind_get_name((enum buffer_kind)buffer->kind),
           buffer->stage, buffer->micro);
  bool failed = false;
  switch (buffer_kind_get_pool((enum buffer_kind)buffer->kind)) {
  case POOL_HOST: failed = !(x->memory[b] = device->ops->alloc_host(device, buffer->bytes, what)); break;
  case POOL_DISK: failed = x->places && (x->places[b] = spill_alloc(x->step->spill, buffer->bytes, what)) < 0; break;
  default: failed = !(x->memory[b] = device->ops->alloc(device, buffer->bytes, what)); break;
  }
  if (failed) return error_wrap("step %lld", (long long)x->step->step);
  *find_slot(x, (enum buffer_kind)buffer->kind, buffer->stage, buffer->micro) = b;
  return STATUS_OK;
}

int exec_open_node(struct exec *x, int32_t node) {
  int status = STATUS_OK;
  while (!status && node >= 0 && x->next_buffer < x->n_buffers && x->buffers[x->next_buffer].alloc == node)
    status = open_buffer(x, x->next_buffer++);
  return status;
}

static bool is_gone(const struct exec *x, const struct dag_buffer *buffer) {
  return buffer->mover < 0 || x->done[buffer->mover - x->first];
}

void exec_free_buffers(struct exec *x, int32_t node) {
  for (int64_t b = x->release_first[node - x->first]; b >= 0; b = x->release_next[b])
    if (is_gone(x, &x->buffers[b])) free_buffer(x, b);
}

/* A block that goes in good time is freed with the node that the plan says. */
void exec_free_moved(struct exec *x, int32_t mover) {
  for (int64_t b = 0; b < x->next_buffer; b++)
    if (x->buffers[b].mover == mover && x->memory[b] && x->done[x->buffers[b].release - x->first]) free_buffer(x, b);
}

int64_t exec_find_place(const struct exec *x, const struct dag_node *node) {
  return x->places[*find_slot(x, BUFFER_DISK, node->stage, node->micro)];
}

void *exec_find_buffer(const struct exec *x, enum buffer_kind kind, int32_t stage, int32_t micro) {
  int64_t b = *find_slot(x, kind, stage, micro);
  return b < 0 ? NULL : x->memory[b];
}

void exec_find_buffers(const struct exec *x, int32_t stage, int32_t micro, char *buffers[BUFFER_KIND_COUNT]) {
  for (int kind = 0; kind < BUFFER_KIND_COUNT; kind++)
    buffers[kind] = exec_find_buffer(x, (enum buffer_kind)kind, stage, micro);
  /* Between stages of one rank nothing is sent: the output is the next stage's input, and so back. */
  if (!buffers[BUFFER_OUTPUT] && stage + 1 < x->step->plan->n_stages)
    buffers[BUFFER_OUTPUT] = exec_find_buffer(x, BUFFER_INPUT, stage + 1, micro);
  if (!buffers[BUFFER_D_INPUT] && stage > 0)
    buffers[BUFFER_D_INPUT] = exec_find_buffer(x, BUFFER_D_OUTPUT, stage - 1, micro);
}

void exec_init(struct exec *x, const struct exec_step *step, struct exec_result *result) {
  const struct dag *dag = step->dag;
  *x = (struct exec){
      .step = step, .result = result, .rank = comm_get_rank(step->comm), .last_compute = -1, .opened = -1};
  x->first = dag->rank_offset[x->rank];
  x->n_nodes = dag->rank_offset[x->rank + 1] - x->first;
  x->done = MEM_NEW(bool, x->n_nodes);
  for (int s = 0; s < STREAM_COUNT; s++) {
    const int32_t *offset = &dag->stream_offset[x->rank * STREAM_COUNT + s];
    x->streams[s] =
        (struct exec_stream){.nodes = dag->stream_nodes + offset[0], .n = offset[1] - offset[0], .active = -1};
  }
  x->parts = MEM_NEW(struct norm_part, step->plan->n_layers + 1);
  exec_memory_init(x);
}

void exec_fini(struct exec *x) {
  exec_memory_fini(x);
  mem_free(x->done);
  mem_free(x->parts);
}
