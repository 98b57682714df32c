/* Blocks that leave their device and come back: what they wait for, and what waits for them. */
#include <stdlib.h>

#include "base/mem.h"
#include "dag/dag_builder.h"
#include "model/footprint.h"
#include "plan/plan_move.h"

const enum buffer_kind dag_block_kinds[DAG_BLOCK_PARTS] = {BUFFER_INPUT, BUFFER_MOVE_INPUT, BUFFER_MOVE_WEIGHT};

int64_t dag_measure_block(const struct plan *plan, const struct model *model, int32_t stage, int32_t micro,
                          int64_t bytes[DAG_BLOCK_PARTS]) {
  const struct plan_stage *s = &plan->stages[stage];
  const struct micro_shape *m = &plan->micro[micro];
  const uint32_t *moved = plan->moved + s->first_layer;
  uint32_t *discarded = MEM_NEW(uint32_t, s->n_layers);
  for (int32_t l = 0; l < s->n_layers; l++) discarded[l] = plan_get_discarded(plan, s->first_layer + l, micro);
  struct footprint_stage regions;
  footprint_stage(model, s->first_layer, s->n_layers, *m, discarded, moved, &regions);
  mem_free(discarded);
  bool hidden = stage > 0 && (moved[0] >> FOOTPRINT_MOVES_HIDDEN & 1);
  bytes[0] = hidden ? footprint_output(model, s->first_layer - 1, *m) : 0;
  bytes[1] = regions.move_input;
  bytes[2] = regions.move_weight;
  return bytes[0] + bytes[1] + bytes[2];
}

void dag_moves_measure(struct dag_builder *b) {
  if (b->plan->n_moves == 0) return;
  b->blocks = MEM_NEW(int64_t, (int64_t)b->plan->n_stages * b->n_shapes * DAG_BLOCK_PARTS);
  for (int32_t s = 0; s < b->plan->n_stages; s++)
    for (int32_t k = 0; k < b->n_shapes; k++)
      dag_measure_block(b->plan, b->model, s, b->shapes[k].micro,
                        b->blocks + ((size_t)s * (size_t)b->n_shapes + (size_t)k) * DAG_BLOCK_PARTS);
}

/* A compute node that may begin, and take its memory, only when a block has gone. */
struct gate {
  int32_t node, mover;
};

struct gates {
  int32_t n;
  struct gate *list; /* ascending by node */
};

static int compare_gates(const void *left, const void *right) {
  const struct gate *a = left, *b = right;
  if (a->node != b->node) return a->node < b->node ? -1 : 1;
  return (a->mover > b->mover) - (a->mover < b->mover);
}

/* The compute node at a place of a rank, or -1 after its last. */
static int32_t get_compute(const struct dag *dag, int32_t rank, int32_t place) {
  const int32_t *offset = &dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE];
  return place < offset[1] - offset[0] ? dag->rank_offset[rank] + place : -1;
}

static void add_gate(struct dag_builder *b, struct gates *gates, int32_t mover, int32_t place) {
  int32_t node = get_compute(b->dag, b->dag->nodes[mover].rank, place);
  if (node < 0) return;
  gates->list[gates->n++] = (struct gate){node, mover};
  dag_edges_add(b, mover, node);
}

static void find_gates(struct dag_builder *b, struct gates *gates) {
  gates->list = MEM_NEW(struct gate, 2 * (int64_t)b->plan->n_moves);
  for (int32_t k = 0; k < b->plan->n_moves; k++) {
    const struct plan_move *m = &b->plan->moves[k];
    add_gate(b, gates, b->moves[k].out, m->out_end + 1);
    if (m->tier == PLAN_TIER_RANK) add_gate(b, gates, b->moves[k].back, m->peer_end + 1);
    if (m->tier == PLAN_TIER_DISK) add_gate(b, gates, b->moves[k].keep, m->disk_start + 1);
  }
  qsort(gates->list, (size_t)gates->n, sizeof *gates->list, compare_gates);
}

/* `taker` takes its memory with the start of compute node `opener`: it waits for what that waits for. */
static void hold_back(struct dag_builder *b, const struct gates *gates, int32_t opener, int32_t taker) {
  int32_t low = 0, high = gates->n;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (gates->list[middle].node < opener)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < gates->n && gates->list[low].node == opener; low++)
    if (gates->list[low].mover != taker) dag_edges_add(b, gates->list[low].mover, taker);
}

/* A received message takes its memory with the node before its consumer. */
static void hold_message(struct dag_builder *b, const struct gates *gates, int32_t consumer, int32_t send) {
  if (send >= 0 && b->dag->nodes[consumer].position > 0) hold_back(b, gates, consumer - 1, b->dag->match[send]);
}

static void hold_messages(struct dag_builder *b, const struct gates *gates) {
  for (int32_t s = 0; s + 1 < b->plan->n_stages; s++)
    for (int32_t i = 0; i < b->plan->n_micro; i++) {
      size_t lower = dag_builder_at(b, s, i), upper = dag_builder_at(b, s + 1, i);
      hold_message(b, gates, b->forward[upper], b->send_forward[lower]);
      hold_message(b, gates, dag_builder_get_gradient_user(b, lower), b->send_backward[upper]);
    }
}

/* A node that puts a block into the memory that the start of a place's node takes. */
static void connect_taker(struct dag_builder *b, const struct gates *gates, int32_t taker, int32_t place) {
  int32_t opener = get_compute(b->dag, b->dag->nodes[taker].rank, place);
  if (place > 0) dag_edges_add(b, opener - 1, taker);
  hold_back(b, gates, opener, taker);
}

/* The nodes that a block goes through, one after the other. */
static void connect_way(struct dag_builder *b, const struct dag_move *nodes) {
  int32_t last = nodes->out, way[] = {nodes->keep, nodes->back, nodes->in};
  for (int i = 0; i < 3; i++) {
    if (way[i] < 0) continue;
    dag_edges_add(b, last, way[i]);
    last = way[i];
  }
}

void dag_moves_connect(struct dag_builder *b) {
  struct gates gates = {0};
  find_gates(b, &gates);
  hold_messages(b, &gates);
  for (int32_t k = 0; k < b->plan->n_moves; k++) {
    const struct plan_move *m = &b->plan->moves[k];
    const struct dag_move *nodes = &b->moves[k];
    dag_edges_add(b, get_compute(b->dag, b->dag->nodes[nodes->out].rank, m->out_start), nodes->out);
    connect_way(b, nodes);
    dag_edges_add(b, nodes->in, dag_builder_get_use(b, dag_builder_at(b, m->stage, m->micro)));
    if (m->tier == PLAN_TIER_RANK) connect_taker(b, &gates, nodes->keep, m->peer_start);
    if (m->tier != PLAN_TIER_RANK) connect_taker(b, &gates, nodes->out, plan_move_get_host_start(m));
    if (m->tier == PLAN_TIER_DISK) connect_taker(b, &gates, nodes->back, m->disk_end);
    connect_taker(b, &gates, nodes->in, m->in_start);
  }
  mem_free(gates.list);
}
