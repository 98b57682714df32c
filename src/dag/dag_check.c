/* The rules a graph must pass before it is broadcast. One function a rule. */
#include "dag/dag.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/words.h"
#include "dag/dag_fuse.h"

enum { DESCRIPTION = 80 };

static int refuse_node(const struct dag *dag, int32_t v, const char *reason) {
  char name[DESCRIPTION];
  dag_describe_node(&dag->nodes[v], name, sizeof name);
  return error_raise(STATUS_FAILED, "graph: rank %d %s: %s", (int)dag->nodes[v].rank, name, reason);
}

/* Compares a send with its receive: the kinds must match, and the stages must be as far apart as the kind says. Returns
 * what is wrong, NULL when nothing is. */
static const char *compare_ends(const struct dag_node *send, const struct dag_node *receive) {
  enum node_message message = node_kind_get_message((enum node_kind)send->kind);
  if (!dag_is_send(send)) return "it has another end but is no message";
  if (!dag_is_receive(receive) || node_kind_get_message((enum node_kind)receive->kind) != message)
    return "its other end is of another kind";
  if (message != MESSAGE_TIE && receive->stage != send->stage + node_message_get_stage_step(message))
    return "its other end is of another stage";
  if (receive->micro != send->micro) return "its other end is of another micro-batch";
  if (receive->bytes != send->bytes) return "its other end moves another number of bytes";
  if (receive->rank != send->peer || send->rank != receive->peer) return "its ends are of different pairs of ranks";
  return send->rank == send->peer ? "it is a message to its own rank" : NULL;
}

int dag_check_messages(const struct dag *dag) {
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    const struct dag_node *n = &dag->nodes[v];
    int32_t match = dag->match[v];
    if (match < 0 && (dag_is_send(n) || dag_is_receive(n))) return refuse_node(dag, v, "it has no other end");
    if (match < 0) continue;
    if (match >= dag->n_nodes || dag->match[match] != v) return refuse_node(dag, v, "its other end belongs to another");
    const char *reason = dag_is_receive(n) ? NULL : compare_ends(n, &dag->nodes[match]);
    if (reason) return refuse_node(dag, v, reason);
  }
  return STATUS_OK;
}

/* The receives of a stream of each rank take the messages of each sender in the order in which that sender's stream has
 * them. */
static int check_fifo(const struct dag *dag, enum stream stream) {
  int32_t *last = MEM_NEW(int32_t, dag->n_ranks); /* of each sender: position of the message received last, plus 1 */
  int status = STATUS_OK;
  for (int32_t r = 0; r < dag->n_ranks && !status; r++) {
    int32_t first = dag->stream_offset[r * STREAM_COUNT + stream];
    int32_t end = dag->stream_offset[r * STREAM_COUNT + stream + 1];
    for (int32_t k = first; k < end && !status; k++) {
      int32_t match = dag->match[dag->stream_nodes[k]];
      if (match < 0) continue; /* dag_check_messages speaks of it */
      const struct dag_node *send = &dag->nodes[match];
      if (send->position < last[send->rank])
        status = refuse_node(dag, dag->stream_nodes[k], "its sender sends it before a message that is received first");
      last[send->rank] = send->position + 1;
    }
    for (int32_t k = first; k < end; k++)
      if (dag->match[dag->stream_nodes[k]] >= 0) last[dag->nodes[dag->match[dag->stream_nodes[k]]].rank] = 0;
  }
  mem_free(last);
  return status;
}

int dag_check_deadlock(const struct dag *dag) {
  int status = check_fifo(dag, STREAM_RECEIVE);
  if (!status) status = check_fifo(dag, STREAM_COPY_IN);
  if (status) return status;
  struct dag_fused *fused = dag_fuse(dag, true);
  int32_t *order = MEM_NEW(int32_t, dag->n_nodes);
  if (dag_fused_sort(fused, order) < fused->n_leaders) status = dag_fused_raise_cycle(fused, "graph: deadlock");
  mem_free(order);
  dag_fused_destroy(&fused);
  return status;
}

static bool has_edge(const struct dag *dag, int32_t from, int32_t to) {
  for (int64_t e = dag->in_offset[to]; e < dag->in_offset[to + 1]; e++)
    if (dag->edge_from[e] == from) return true;
  return false;
}

/* Tables that the rules of updates look up. */
struct gradients {
  int32_t *stage_end;              /* [n_stages] position of the stage's last weight pass, -1: none */
  int32_t *rank_end;               /* [n_ranks] of the rank's last weight pass, -1: none */
  int32_t *norm;                   /* [n_ranks] N, -1: none */
  int32_t *tie_send, *tie_receive; /* [n_layers] ST and RT, -1: none */
  int32_t *update;                 /* [n_layers] U, -1: none */
};

static int32_t *make_table(int32_t n) {
  int32_t *table = MEM_NEW(int32_t, n);
  for (int32_t i = 0; i < n; i++) table[i] = -1;
  return table;
}

static int note_node(const struct dag *dag, const struct plan *plan, struct gradients *g, int32_t v) {
  const struct dag_node *n = &dag->nodes[v];
  bool of_layer = n->kind == NODE_U || n->kind == NODE_ST || n->kind == NODE_RT;
  if (of_layer && (n->layer < 0 || n->layer >= plan->n_layers)) return refuse_node(dag, v, "there is no such layer");
  if (of_layer && !plan_holds(plan, plan_get_stage(plan, n->layer), n->rank))
    return refuse_node(dag, v, "the rank does not hold the layer");
  if (n->kind == NODE_U && g->update[n->layer] >= 0) return refuse_node(dag, v, "the layer has another update");
  switch (n->kind) {
  case NODE_B:
  case NODE_W:
    if (n->position > g->stage_end[n->stage]) g->stage_end[n->stage] = n->position;
    if (n->position > g->rank_end[n->rank]) g->rank_end[n->rank] = n->position;
    break;
  case NODE_U: g->update[n->layer] = v; break;
  case NODE_N: g->norm[n->rank] = v; break;
  case NODE_ST: g->tie_send[n->layer] = v; break;
  case NODE_RT: g->tie_receive[n->layer] = v; break;
  default: break;
  }
  return STATUS_OK;
}

static int check_layer(const struct dag *dag, const struct plan *plan, const struct gradients *g, int32_t layer) {
  int32_t v = g->update[layer], stage = plan_get_stage(plan, layer);
  if (v < 0) return error_raise(STATUS_FAILED, "graph: layer %d has no update", (int)layer);
  int32_t rank = dag->nodes[v].rank;
  if (dag->nodes[v].position < g->stage_end[stage]) return refuse_node(dag, v, "it comes before a weight pass");
  if (plan->clip && (g->norm[rank] < 0 || !has_edge(dag, g->norm[rank], v)))
    return refuse_node(dag, v, "it does not wait for the norm");
  if (g->tie_receive[layer] >= 0 && !has_edge(dag, g->tie_receive[layer], v))
    return refuse_node(dag, v, "it does not wait for the other use's gradient");
  if (g->tie_send[layer] >= 0 && !has_edge(dag, g->tie_send[layer], v))
    return refuse_node(dag, v, "it does not wait until its gradient has been sent");
  return STATUS_OK;
}

/* waits[rank] grows to the position of the last compute node of each rank that v waits for. */
static void note_waits(const struct dag *dag, int32_t v, int32_t *waits) {
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    const struct dag_node *n = &dag->nodes[dag->edge_from[e]];
    if (n->stream == STREAM_COMPUTE && n->position > waits[n->rank]) waits[n->rank] = n->position;
  }
}

/* A rank's N waits for that rank's last pass by itself, and for all others' through rank 0's. */
static int check_norm(const struct dag *dag, const struct gradients *g, int32_t rank, int32_t hub_waits) {
  int32_t v = g->norm[rank], hub = g->norm[0];
  if (v < 0 || (v != hub && !has_edge(dag, hub, v)))
    return error_raise(STATUS_FAILED, "graph: rank %d does not meet the others in the norm", (int)rank);
  int32_t own = -1;
  for (int64_t e = dag->in_offset[v]; e < dag->in_offset[v + 1]; e++) {
    const struct dag_node *n = &dag->nodes[dag->edge_from[e]];
    if (n->rank == rank && n->stream == STREAM_COMPUTE && n->position > own) own = n->position;
  }
  if (hub_waits < g->rank_end[rank] || own < g->rank_end[rank])
    return error_raise(STATUS_FAILED, "graph: the norm does not wait for the gradients of rank %d", (int)rank);
  return STATUS_OK;
}

/* Checks that with clip the other use's gradient of a tied weight comes before the norm of rank 0 and of the rank
 * that receives it. */
static int check_norm_of_tie(const struct dag *dag, const struct gradients *g, int32_t receive) {
  int32_t norms[2] = {g->norm[0], g->norm[dag->nodes[receive].rank]};
  for (int k = 0; k < 2; k++)
    if (!has_edge(dag, receive, norms[k])) return refuse_node(dag, norms[k], "it does not wait for a tied weight");
  return STATUS_OK;
}

static int check_norms(const struct dag *dag, const struct plan *plan, const struct gradients *g) {
  if (g->norm[0] < 0) return error_raise(STATUS_FAILED, "graph: rank 0 has no norm");
  int32_t *waits = make_table(dag->n_ranks);
  note_waits(dag, g->norm[0], waits);
  int status = STATUS_OK;
  for (int32_t r = 0; r < dag->n_ranks && !status; r++) status = check_norm(dag, g, r, waits[r]);
  for (int32_t l = 0; l < plan->n_layers && !status && plan->clip; l++)
    if (g->tie_receive[l] >= 0) status = check_norm_of_tie(dag, g, g->tie_receive[l]);
  mem_free(waits);
  return status;
}

static int check_evaluation(const struct dag *dag) {
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    int kind = dag->nodes[v].kind;
    if (kind != NODE_F && kind != NODE_SF && kind != NODE_RF)
      return refuse_node(dag, v, "a plan for evaluation has forwards only");
  }
  return STATUS_OK;
}

int dag_check_updates(const struct dag *dag, const struct plan *plan) {
  if (plan->forward_only) return check_evaluation(dag);
  struct gradients g = {make_table(plan->n_stages), make_table(plan->n_ranks),  make_table(plan->n_ranks),
                        make_table(plan->n_layers), make_table(plan->n_layers), make_table(plan->n_layers)};
  int status = STATUS_OK;
  for (int32_t v = 0; v < dag->n_nodes && !status; v++) status = note_node(dag, plan, &g, v);
  for (int32_t l = 0; l < plan->n_layers && !status; l++) status = check_layer(dag, plan, &g, l);
  if (!status) status = check_norms(dag, plan, &g);
  mem_free(g.stage_end);
  mem_free(g.rank_end);
  mem_free(g.norm);
  mem_free(g.tie_send);
  mem_free(g.tie_receive);
  mem_free(g.update);
  return status;
}

/* Host memory and files, that blocks alone take. */
static int check_pool(const struct dag *dag, int32_t rank, enum pool_kind pool, int64_t limit) {
  int32_t node;
  int64_t peak = dag_get_pool_peak(dag, rank, pool, &node);
  if (peak <= limit) return STATUS_OK;
  char name[DESCRIPTION] = "";
  if (node >= 0) dag_describe_node(&dag->nodes[node], name, sizeof name);
  const char *what = pool == POOL_HOST ? "host memory" : "disk",
             *key = pool == POOL_HOST ? "host_limit" : "spill_limit";
  if (pool == POOL_DISK && limit == 0)
    return error_raise(STATUS_MISTAKE,
                       "rank %d needs %lld bytes of disk during %s and has none: memory.spill_folder names a folder on "
                       "a disk of the node, memory.spill_limit what may go there",
                       (int)rank, (long long)peak, name);
  return error_raise(STATUS_MISTAKE,
                     "rank %d needs %lld bytes of %s during %s, %lld byte%s over its memory.%s of %lld bytes",
                     (int)rank, (long long)peak, what, name, (long long)(peak - limit), words_get_ending(peak - limit),
                     key, (long long)limit);
}

int dag_check_memory(const struct dag *dag, const struct plan *plan) {
  for (int32_t r = 0; plan->n_moves && r < dag->n_ranks; r++) {
    int status = check_pool(dag, r, POOL_HOST, plan->host_limit[r]);
    if (!status) status = check_pool(dag, r, POOL_DISK, plan->disk_limit[r]);
    if (status) return status;
  }
  for (int32_t r = 0; r < dag->n_ranks; r++) {
    int32_t node;
    int64_t peak = dag_get_peak(dag, r, &node), limit = plan->device_limit[r];
    if (peak <= limit) continue;
    char name[DESCRIPTION] = "holding parameters, gradients and moments";
    char needed[32], over[32], allowed[32];
    bytes_format(peak, needed, sizeof needed);
    bytes_format(peak - limit, over, sizeof over);
    bytes_format(limit, allowed, sizeof allowed);
    if (node >= 0) dag_describe_node(&dag->nodes[node], name, sizeof name);
    return error_raise(STATUS_MISTAKE,
                       "rank %d needs %lld bytes (%s) during %s, %lld byte%s (%s) over its memory.device_limit of %lld "
                       "bytes (%s); %lld bytes are parameters, gradients and moments",
                       (int)r, (long long)peak, needed, name, (long long)(peak - limit), words_get_ending(peak - limit),
                       over, (long long)limit, allowed, (long long)dag->device_static[r]);
  }
  return STATUS_OK;
}

/* The nodes of a block of activations that the rule of moves looks up. */
struct block_nodes {
  int32_t out, keep, back, in, use;
};

static void note_block(const struct dag *dag, const struct plan *plan, int32_t v, struct block_nodes *blocks) {
  const struct dag_node *n = &dag->nodes[v];
  const struct plan_move *m = n->micro < 0 ? NULL : plan_find_move(plan, n->stage, n->micro);
  if (!m) return;
  struct block_nodes *block = &blocks[m - plan->moves];
  switch (n->kind) {
  case NODE_ES:
  case NODE_EV: block->out = v; break;
  case NODE_ER:
  case NODE_SW: block->keep = v; break;
  case NODE_LS:
  case NODE_SR: block->back = v; break;
  case NODE_LR:
  case NODE_LD: block->in = v; break;
  default: break;
  }
  bool uses = n->kind == NODE_R || n->kind == NODE_B || n->kind == NODE_I;
  if (uses && (block->use < 0 || n->position < dag->nodes[block->use].position)) block->use = v;
}

int dag_check_moves(const struct dag *dag, const struct plan *plan) {
  int status = STATUS_OK;
  struct block_nodes *blocks = MEM_NEW(struct block_nodes, plan->n_moves);
  for (int32_t k = 0; k < plan->n_moves; k++) blocks[k] = (struct block_nodes){-1, -1, -1, -1, -1};
  for (int32_t v = 0; v < dag->n_nodes && plan->n_moves; v++) note_block(dag, plan, v, blocks);
  for (int32_t k = 0; k < plan->n_moves && !status; k++) {
    const struct block_nodes *b = &blocks[k];
    const struct plan_move *m = &plan->moves[k];
    bool stops = m->tier != PLAN_TIER_HOST; /* between out and in */
    if (b->out < 0 || b->in < 0 || b->use < 0 || (stops && (b->keep < 0 || b->back < 0)))
      status = error_raise(STATUS_FAILED, "graph: the block of stage %d micro-batch %d does not leave and come back",
                           (int)m->stage, (int)m->micro);
    else if (stops
                 ? !has_edge(dag, b->keep, b->back) || !has_edge(dag, b->out, b->keep) || !has_edge(dag, b->back, b->in)
                 : !has_edge(dag, b->out, b->in))
      status = refuse_node(dag, b->in, "it does not wait until the block is there");
    else if (!has_edge(dag, b->in, b->use))
      status = refuse_node(dag, b->use, "it does not wait until its block is back");
  }
  mem_free(blocks);
  return status;
}

int dag_check(const struct dag *dag, const struct plan *plan) {
  int status = dag_check_messages(dag);
  if (!status) status = dag_check_deadlock(dag);
  if (!status) status = dag_check_updates(dag, plan);
  if (!status) status = dag_check_moves(dag, plan);
  if (!status) status = dag_check_memory(dag, plan);
  return status;
}
