/* The buffer table: what each compute node allocates at its start, and which node frees it at its end. */
#include <stdlib.h>

#include "base/mem.h"
#include "dag/dag_builder.h"
#include "model/footprint.h"
#include "plan/plan_move.h"

struct table {
  struct dag_builder *b;
  const int32_t *release;          /* of sends */
  struct footprint_stage *regions; /* [n_stages*n_shapes] */
  int64_t max_buffers;
  /* Memory that moves take, in the order of the compute nodes with whose start they do. */
  struct taking {
    int32_t node, move;
    enum { TAKE_BACK, TAKE_GUEST, TAKE_HOST, TAKE_HOST_AGAIN, TAKE_DISK } what;
  } * takings;
  int32_t n_takings, next_taking;
};

/* One (stage, micro-batch) and the nodes that its buffers live between. */
struct unit {
  int32_t stage, micro;
  const struct footprint_stage *regions;
  int64_t enters, leaves; /* bytes of the hidden states before and after the stage */
  int32_t input, weight;  /* the last users of what is kept for the input and the weight pass */
  int32_t gone, mover;    /* of what leaves in between: the node at whose end, and what takes it away; -1: it stays */
};

static struct unit get_unit(const struct table *t, int32_t stage, int32_t micro) {
  const struct dag_builder *b = t->b;
  int32_t shape = b->shape_of[micro];
  size_t at = dag_builder_at(b, stage, micro);
  bool evaluates = b->plan->forward_only;
  const struct plan_move *move = plan_find_move(b->plan, stage, micro);
  int32_t first = move ? b->dag->rank_offset[plan_find_rank(b->plan, stage, micro)] : 0;
  return (struct unit){.stage = stage,
                       .micro = micro,
                       .regions = &t->regions[(size_t)stage * (size_t)b->n_shapes + (size_t)shape],
                       .enters = stage > 0 ? dag_builder_get_boundary(b, stage - 1, micro) : 0,
                       .leaves = dag_builder_get_boundary(b, stage, micro),
                       .input = evaluates ? b->forward[at] : b->input[at],
                       .weight = evaluates ? b->forward[at] : b->weight[at],
                       .gone = move ? first + move->out_end : -1,
                       .mover = move ? b->moves[move - b->plan->moves].out : -1};
}

static void add_buffer(struct table *t, enum buffer_kind kind, const struct unit *u, int64_t bytes, int32_t alloc,
                       int32_t release) {
  struct dag *dag = t->b->dag;
  if (bytes == 0) return;
  if (dag->n_buffers == t->max_buffers) {
    t->max_buffers = t->max_buffers ? 2 * t->max_buffers : 1024;
    dag->buffers = mem_resize(dag->buffers, sizeof *dag->buffers * (size_t)t->max_buffers);
  }
  dag->buffers[dag->n_buffers++] = (struct dag_buffer){.rank = dag->nodes[alloc].rank,
                                                       .stage = u->stage,
                                                       .micro = u->micro,
                                                       .kind = (uint8_t)kind,
                                                       .bytes = bytes,
                                                       .alloc = alloc,
                                                       .release = release,
                                                       .mover = -1};
  if (buffer_kind_get_pool(kind) == POOL_DEVICE) {
    dag->nodes[alloc].device_alloc += bytes;
    dag->nodes[release].device_free += bytes;
  } else if (buffer_kind_get_pool(kind) == POOL_HOST) {
    dag->nodes[alloc].host_alloc += bytes;
    dag->nodes[release].host_free += bytes;
  }
}

/* Adds a buffer that a block of activations may take away: it lives until the block is gone, or to its own end when it
 * stays. */
static void add_movable(struct table *t, enum buffer_kind kind, const struct unit *u, int64_t bytes, int32_t alloc,
                        int32_t release) {
  struct dag *dag = t->b->dag;
  int64_t n = dag->n_buffers;
  add_buffer(t, kind, u, bytes, alloc, u->gone >= 0 ? u->gone : release);
  if (dag->n_buffers > n) dag->buffers[n].mover = u->mover;
}

/* The hidden state that enters a stage moves only where the plan says so. */
static void add_input(struct table *t, struct unit u, int32_t alloc) {
  const struct plan *plan = t->b->plan;
  bool moves = u.gone >= 0 && (plan->moved[plan->stages[u.stage].first_layer] >> FOOTPRINT_MOVES_HIDDEN & 1);
  if (!moves) u.gone = u.mover = -1;
  add_movable(t, BUFFER_INPUT, &u, u.enters, alloc, u.weight);
}

/* Adds the buffer that node v consumes, if it comes by message; node `alloc` takes the memory. */
static void add_received(struct table *t, int32_t v, int32_t alloc) {
  const struct dag_builder *b = t->b;
  const struct dag_node *n = &b->dag->nodes[v];
  if (n->micro < 0) return;
  struct unit u = get_unit(t, n->stage, n->micro);
  bool takes_gradient = v == dag_builder_get_gradient_user(b, dag_builder_at(b, n->stage, n->micro));
  if (n->kind == NODE_F && n->stage > 0 && b->send_forward[dag_builder_at(b, n->stage - 1, n->micro)] >= 0)
    add_input(t, u, alloc);
  if (takes_gradient && n->stage + 1 < b->plan->n_stages &&
      b->send_backward[dag_builder_at(b, n->stage + 1, n->micro)] >= 0)
    add_buffer(t, BUFFER_D_OUTPUT, &u, u.leaves, alloc, u.weight);
}

/* The hidden state that F hands on: to be sent, or the input of the next stage on this rank. */
static void add_output(struct table *t, const struct unit *u, int32_t v) {
  if (u->stage + 1 == t->b->plan->n_stages) return;
  int32_t send = t->b->send_forward[dag_builder_at(t->b, u->stage, u->micro)];
  struct unit next = get_unit(t, u->stage + 1, u->micro);
  if (send >= 0)
    add_buffer(t, BUFFER_OUTPUT, u, u->leaves, v, t->release[send]);
  else
    add_input(t, next, v);
}

/* The gradient that B or I hands on: to be sent, or for the stage before on this rank. */
static void add_d_input(struct table *t, const struct unit *u, int32_t v) {
  if (u->stage == 0) return;
  int32_t send = t->b->send_backward[dag_builder_at(t->b, u->stage, u->micro)];
  struct unit before = get_unit(t, u->stage - 1, u->micro);
  if (send >= 0)
    add_buffer(t, BUFFER_D_INPUT, u, u->enters, v, t->release[send]);
  else
    add_buffer(t, BUFFER_D_OUTPUT, &before, u->enters, v, before.weight);
}

/* The last parts of a pass come first. What a part rebuilds lives until its own backward has ended, the gradients of
 * hidden states between parts from the first part to the last. */
static void add_part(struct table *t, const struct unit *u, int32_t v) {
  const struct dag_builder *b = t->b;
  const struct dag_node *n = &b->dag->nodes[v];
  struct plan_part part = plan_get_part(b->plan, n->rank, n->position);
  struct footprint_stage regions;
  uint32_t *discarded = MEM_NEW(uint32_t, part.n_layers);
  for (int32_t l = 0; l < part.n_layers; l++)
    discarded[l] = plan_get_discarded(b->plan, part.first_layer + l, n->micro);
  footprint_stage(b->model, part.first_layer, part.n_layers, b->shapes[b->shape_of[n->micro]].shape, discarded,
                  b->plan->moved ? b->plan->moved + part.first_layer : NULL, &regions);
  mem_free(discarded);
  if (n->kind == NODE_R) {
    int32_t backward = v + 1; /* of the same layers */
    while (b->dag->nodes[backward].kind != NODE_B || b->dag->nodes[backward].stage != n->stage ||
           b->dag->nodes[backward].micro != n->micro)
      backward++;
    add_buffer(t, BUFFER_REBUILD_INPUT, u, regions.rebuild_input, v, backward);
    add_buffer(t, BUFFER_REBUILD_WEIGHT, u, regions.rebuild_weight, v, backward);
    add_buffer(t, BUFFER_WORK, u, regions.work_rebuild, v, v);
    return;
  }
  bool first = b->gradient[dag_builder_at(b, n->stage, n->micro)] == v, last = u->input == v;
  if (first && !last)
    add_buffer(t, BUFFER_D_HIDDEN, u, 2 * footprint_gradient(b->model, b->shapes[b->shape_of[n->micro]].shape), v,
               u->input);
  if (last) add_d_input(t, u, v);
  add_buffer(t, BUFFER_WORK, u, regions.work_backward, v, v);
}

static void add_own(struct table *t, int32_t v) {
  const struct dag_node *n = &t->b->dag->nodes[v];
  if (n->micro < 0) return;
  struct unit u = get_unit(t, n->stage, n->micro);
  if (n->layer >= 0) {
    add_part(t, &u, v);
    return;
  }
  switch (n->kind) {
  case NODE_F:
    add_buffer(t, BUFFER_KEEP_INPUT, &u, u.regions->keep_input, v, u.input);
    add_buffer(t, BUFFER_KEEP_WEIGHT, &u, u.regions->keep_weight, v, u.weight);
    add_movable(t, BUFFER_MOVE_INPUT, &u, u.regions->move_input, v, u.input);
    add_movable(t, BUFFER_MOVE_WEIGHT, &u, u.regions->move_weight, v, u.weight);
    add_output(t, &u, v);
    add_buffer(t, BUFFER_WORK, &u, u.regions->work_forward, v, v);
    break;
  case NODE_R:
    add_buffer(t, BUFFER_REBUILD_INPUT, &u, u.regions->rebuild_input, v, u.input);
    add_buffer(t, BUFFER_REBUILD_WEIGHT, &u, u.regions->rebuild_weight, v, u.weight);
    add_buffer(t, BUFFER_WORK, &u, u.regions->work_rebuild, v, v);
    break;
  case NODE_B:
    add_d_input(t, &u, v);
    add_buffer(t, BUFFER_WORK, &u, u.regions->work_backward, v, v);
    break;
  case NODE_I:
    add_buffer(t, BUFFER_GRAD_WEIGHT, &u, u.regions->grad_weight, v, u.weight);
    add_d_input(t, &u, v);
    add_buffer(t, BUFFER_WORK, &u, u.regions->work_input, v, v);
    break;
  case NODE_W: add_buffer(t, BUFFER_WORK, &u, u.regions->work_weight, v, v); break;
  default: break;
  }
}

static int compare_takings(const void *left, const void *right) {
  const struct taking *a = left, *b = right;
  if (a->node != b->node) return a->node < b->node ? -1 : 1;
  return (a->move > b->move) - (a->move < b->move);
}

static void add_taking(struct table *t, int32_t rank, int32_t place, int32_t move, int what) {
  t->takings[t->n_takings++] = (struct taking){t->b->dag->rank_offset[rank] + place, move, what};
}

static void list_takings(struct table *t) {
  const struct plan *plan = t->b->plan;
  t->takings = MEM_NEW(struct taking, 4 * (int64_t)plan->n_moves);
  for (int32_t k = 0; k < plan->n_moves; k++) {
    const struct plan_move *m = &plan->moves[k];
    int32_t own = plan_find_rank(plan, m->stage, m->micro);
    add_taking(t, own, m->in_start, k, TAKE_BACK);
    if (m->tier == PLAN_TIER_RANK) {
      add_taking(t, m->peer, m->peer_start, k, TAKE_GUEST);
      continue;
    }
    add_taking(t, own, plan_move_get_host_start(m), k, TAKE_HOST);
    if (m->tier != PLAN_TIER_DISK) continue;
    add_taking(t, own, plan_move_get_host_start(m), k, TAKE_DISK);
    add_taking(t, own, m->disk_end, k, TAKE_HOST_AGAIN);
  }
  if (t->n_takings) qsort(t->takings, (size_t)t->n_takings, sizeof *t->takings, compare_takings);
}

/* Memory that a block takes outside of its device: until something has taken it on, or to its use. */
static void take_outside(struct table *t, struct unit u, const struct taking *taking, int64_t bytes) {
  const struct dag_builder *b = t->b;
  const struct plan_move *m = &b->plan->moves[taking->move];
  const struct dag_move *nodes = &b->moves[taking->move];
  int32_t own = b->dag->rank_offset[plan_find_rank(b->plan, m->stage, m->micro)];
  int32_t use = dag_builder_get_use(b, dag_builder_at(b, m->stage, m->micro));
  enum buffer_kind kind = taking->what == TAKE_GUEST  ? BUFFER_GUEST
                          : taking->what == TAKE_DISK ? BUFFER_DISK
                                                      : BUFFER_HOST;
  u.gone = u.mover = -1;
  if (taking->what == TAKE_GUEST) {
    u.gone = b->dag->rank_offset[m->peer] + m->peer_end;
    u.mover = nodes->back;
  } else if (taking->what == TAKE_HOST && m->tier == PLAN_TIER_DISK) {
    u.gone = own + m->disk_start;
    u.mover = nodes->keep;
  }
  add_movable(t, kind, &u, bytes, taking->node, use);
}

/* Memory that the start of node v takes for blocks. */
static void add_takings(struct table *t, int32_t v) {
  const struct dag_builder *b = t->b;
  for (; t->next_taking < t->n_takings && t->takings[t->next_taking].node == v; t->next_taking++) {
    const struct taking *taking = &t->takings[t->next_taking];
    const struct plan_move *m = &b->plan->moves[taking->move];
    int64_t parts[DAG_BLOCK_PARTS], bytes = dag_builder_get_block(b, m->stage, m->micro, parts);
    struct unit u = get_unit(t, m->stage, m->micro);
    if (taking->what != TAKE_BACK) take_outside(t, u, taking, bytes);
    for (int k = 0; k < DAG_BLOCK_PARTS && taking->what == TAKE_BACK; k++)
      add_buffer(t, dag_block_kinds[k], &u, parts[k], v, dag_block_kinds[k] == BUFFER_MOVE_INPUT ? u.input : u.weight);
  }
}

static void add_rank(struct table *t, int32_t rank) {
  struct dag *dag = t->b->dag;
  int32_t first = dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  int32_t end = dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE + 1];
  for (int32_t k = first; k < end; k++) {
    int32_t v = dag->stream_nodes[k];
    if (k == first) add_received(t, v, v);
    if (k + 1 < end) add_received(t, dag->stream_nodes[k + 1], v);
    add_takings(t, v);
    add_own(t, v);
  }
}

static void measure_regions(struct table *t) {
  const struct dag_builder *b = t->b;
  t->regions = MEM_NEW(struct footprint_stage, (int64_t)b->plan->n_stages * b->n_shapes);
  uint32_t *discarded = MEM_NEW(uint32_t, b->plan->n_layers);
  for (int32_t k = 0; k < b->n_shapes; k++) {
    for (int32_t l = 0; l < b->plan->n_layers; l++)
      discarded[l] = b->plan->forward_only ? 0 : plan_get_discarded(b->plan, l, b->shapes[k].micro);
    for (int32_t s = 0; s < b->plan->n_stages; s++) {
      const struct plan_stage *stage = &b->plan->stages[s];
      footprint_stage(b->model, stage->first_layer, stage->n_layers, b->shapes[k].shape, discarded + stage->first_layer,
                      b->plan->moved ? b->plan->moved + stage->first_layer : NULL,
                      &t->regions[(size_t)s * (size_t)b->n_shapes + (size_t)k]);
    }
  }
  mem_free(discarded);
}

static void measure_static(const struct dag_builder *b) {
  const struct plan *plan = b->plan;
  b->dag->device_static = MEM_NEW(int64_t, plan->n_ranks);
  bool *holds = MEM_NEW(bool, plan->n_layers);
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    for (int32_t s = 0; s < plan->n_stages; s++)
      for (int32_t k = 0; k < plan->stages[s].n_layers; k++)
        holds[plan->stages[s].first_layer + k] = plan_holds(plan, s, r);
    b->dag->device_static[r] = footprint_static(b->model, holds);
  }
  mem_free(holds);
}

void dag_memory_make(struct dag_builder *b, const int32_t *release) {
  struct table t = {.b = b, .release = release};
  measure_regions(&t);
  list_takings(&t);
  b->dag->buffer_offset = MEM_NEW(int64_t, b->plan->n_ranks + 1);
  for (int32_t r = 0; r < b->plan->n_ranks; r++) {
    add_rank(&t, r);
    b->dag->buffer_offset[r + 1] = b->dag->n_buffers;
  }
  mem_free(t.regions);
  mem_free(t.takings);
  measure_static(b);
}
