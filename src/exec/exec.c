#include "exec/exec.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "exec/exec_internal.h"
#include "exec/op_times.h"

#include <stdio.h>
#include <string.h>

/* ---- which nodes may run ---- */

/* The other ranks' nodes before a node show through messages: only this rank's count. */
static bool is_ready(const struct exec *x, int32_t node) {
  const struct dag *dag = x->step->dag;
  for (int64_t e = dag->in_offset[node]; e < dag->in_offset[node + 1]; e++) {
    int32_t before = dag->edge_from[e] - x->first;
    if (before >= 0 && before < x->n_nodes && !x->done[before]) return false;
  }
  return true;
}

/* The next node of a stream, or -1 when all have begun. */
static int32_t get_next(const struct exec *x, enum stream stream) {
  const struct exec_stream *s = &x->streams[stream];
  return s->next < s->n ? s->nodes[s->next] : -1;
}

static void begin_node(struct exec *x, int32_t node) { x->step->spans[node - x->first].start = clock_now(); }

static void end_node(struct exec *x, int32_t node) {
  x->step->spans[node - x->first].end = clock_now();
  x->done[node - x->first] = true;
  x->n_done++;
}

/* ---- messages ---- */

/* One tag a boundary, micro-batch and message. Equal tags of far-apart messages are no harm: the messages of a pair of
 * ranks go in one order on both sides. */
static int make_tag(const struct dag_node *node, bool posts) {
  int32_t boundary = node->micro < 0 ? 0 : node->stage, micro = node->micro < 0 ? 0 : node->micro;
  if (node->kind == NODE_RF || node->kind == NODE_SB) boundary--; /* the lower stage */
  int message = (int)node_kind_get_message((enum node_kind)node->kind) + (posts ? MESSAGE_COUNT : 0);
  return message << 23 | (boundary & 0x3ff) << 13 | (micro & 0x1fff);
}

int exec_make_tag(const struct dag_node *node) { return make_tag(node, false); }
int exec_make_post_tag(const struct dag_node *node) { return make_tag(node, true); }

struct comm_request *exec_send_begin(const struct exec *x, int peer, int tag, const void *data, int64_t bytes) {
  return x->step->sync_messages ? comm_send_begin_sync(x->step->comm, peer, tag, data, bytes)
                                : comm_send_begin(x->step->comm, peer, tag, data, bytes);
}

struct message_part {
  char *data;
  int64_t bytes;
};

/* The gradient sum of a tied tensor that ST sends, this rank's use's, or that RT receives, the other use's. */
static void *find_tied_sum(const struct rank_state *state, const struct dag_node *node) {
  const struct rank_tie *t = rank_state_find_tie(state, node->layer);
  return (node->kind == NODE_ST) == t->has_owner ? t->g_owner : t->g_user;
}

/* Where the data of an ordinary message lies. */
static void *find_payload(const struct exec *x, const struct dag_node *node) {
  struct rank_state *state = x->step->state;
  switch ((enum node_kind)node->kind) {
  case NODE_SF: return exec_find_buffer(x, BUFFER_OUTPUT, node->stage, node->micro);
  case NODE_RF: return exec_find_buffer(x, BUFFER_INPUT, node->stage, node->micro);
  case NODE_SB: return exec_find_buffer(x, BUFFER_D_INPUT, node->stage, node->micro);
  case NODE_RB: return exec_find_buffer(x, BUFFER_D_OUTPUT, node->stage, node->micro);
  case NODE_ST:
  case NODE_RT: return find_tied_sum(state, node);
  default: break;
  }
  CHECK(false, "node kind %d carries no data", node->kind);
  return NULL;
}

/* A block is several buffers on its own rank, one on the rank that keeps it. */
static int find_block(const struct exec *x, const struct dag_node *node, struct message_part *parts) {
  int64_t bytes[DAG_BLOCK_PARTS];
  bool guest = node->kind == NODE_ER || node->kind == NODE_LS;
  char *at = guest ? exec_find_buffer(x, BUFFER_GUEST, node->stage, node->micro) : NULL;
  int n = 0;
  dag_measure_block(x->step->plan, x->step->state->model, node->stage, node->micro, bytes);
  for (int k = 0; k < DAG_BLOCK_PARTS; k++) {
    if (bytes[k] == 0) continue;
    parts[n++] =
        (struct message_part){guest ? at : exec_find_buffer(x, dag_block_kinds[k], node->stage, node->micro), bytes[k]};
    if (guest) at += bytes[k];
  }
  return n;
}

static int find_parts(const struct exec *x, const struct dag_node *node, struct message_part *parts) {
  if (dag_is_block(node)) return find_block(x, node, parts);
  parts[0] = (struct message_part){find_payload(x, node), node->bytes};
  return 1;
}

static void begin_message(struct exec *x, struct exec_stream *s, int32_t id) {
  const struct dag_node *node = &x->step->dag->nodes[id];
  if (node->peer < 0) {
    exec_begin_copy(x, id);
    return;
  }
  struct message_part parts[EXEC_MESSAGE_PARTS];
  struct comm *comm = x->step->comm;
  int tag = exec_make_tag(node), n = find_parts(x, node, parts);
  for (int k = 0; k < n; k++)
    s->requests[k] = dag_is_send(node) ? exec_send_begin(x, node->peer, tag, parts[k].data, parts[k].bytes)
                                       : comm_receive_begin(comm, node->peer, tag, parts[k].data, parts[k].bytes);
}

static bool test_message(struct exec *x, struct exec_stream *s) {
  if (x->step->dag->nodes[s->active].peer < 0) return exec_test_copy(x, s->active);
  bool all = true;
  for (int k = 0; k < EXEC_MESSAGE_PARTS; k++)
    if (s->requests[k] && !comm_test(&s->requests[k])) all = false;
  return all;
}

/* Takes a block away from memory that something waits for. */
static bool leaves_block(const struct dag_node *node) {
  return node->stream == STREAM_COPY_OUT || node->kind == NODE_SW;
}

/* Gives the next compute node its memory once all blocks that it waits for are gone: they leave theirs to it. */
static int open_next(struct exec *x) {
  const struct dag *dag = x->step->dag;
  int32_t next = get_next(x, STREAM_COMPUTE);
  if (next < 0 || next == x->opened) return STATUS_OK;
  for (int64_t e = dag->in_offset[next]; e < dag->in_offset[next + 1]; e++) {
    int32_t before = dag->edge_from[e] - x->first;
    bool leaves = before >= 0 && before < x->n_nodes && leaves_block(&dag->nodes[x->first + before]);
    if (leaves && !x->done[before]) return STATUS_OK;
  }
  x->opened = next;
  return exec_open_node(x, next);
}

/* A block has left: so does its memory. */
static void close_move(struct exec *x, int32_t id) {
  exec_free_moved(x, id);
  if (!x->status) x->status = open_next(x);
}

/* Ends what has arrived and begins what may begin on one network stream; true when something happened. */
static bool advance_stream(struct exec *x, enum stream stream) {
  struct exec_stream *s = &x->streams[stream];
  bool moved = false;
  if (s->active >= 0) {
    if (!x->way->test_message(x, s)) return false;
    int32_t id = s->active;
    end_node(x, id);
    if (x->step->dag->nodes[id].peer < 0) x->step->spans[id - x->first] = x->copied[stream];
    s->active = -1;
    moved = true;
    if (stream == STREAM_COPY_OUT || stream == STREAM_DISK) close_move(x, id);
  }
  int32_t next = get_next(x, stream);
  if (next < 0 || x->status || x->step->dag->nodes[next].kind == NODE_N || !is_ready(x, next)) return moved;
  s->next++;
  s->active = next;
  begin_node(x, next);
  x->way->begin_message(x, s, next);
  return true;
}

bool exec_advance_network(struct exec *x) {
  bool moved = false;
  for (int stream = STREAM_SEND; stream <= STREAM_DISK; stream++) moved |= advance_stream(x, (enum stream)stream);
  return moved;
}

/* Between two ops of a compute node. */
static void poll_network(struct exec *x) {
  comm_poll(x->step->comm);
  exec_advance_network(x);
}

/* The time of an op is that until its end, from the end of what was done after the one before. */
static void end_op(void *context, int32_t layer, int op, enum pass pass) {
  struct exec *x = context;
  if (!x->step->op_seconds) {
    poll_network(x);
    return;
  }
  double now = clock_now();
  enum pass kind = x->rebuilds ? PASS_RECOMPUTE : pass;
  x->step->op_seconds[op_times_slot(x->step->state->model->layers[layer].kind, op, kind)] += now - x->op_begin;
  poll_network(x);
  x->op_begin = clock_now();
}

/* ---- compute ---- */

static void note_node(const struct exec *x, int32_t id) {
  char text[80];
  dag_describe_node(&x->step->dag->nodes[id], text, sizeof text);
  watchdog_note(x->step->comm, x->step->step, text);
}

/* Lists the ops of the stage's layers that a micro-batch discards; owned by the caller. */
static uint32_t *list_discarded(const struct plan *plan, int32_t stage, int32_t micro) {
  const struct plan_stage *s = &plan->stages[stage];
  uint32_t *discarded = MEM_NEW(uint32_t, s->n_layers);
  for (int32_t i = 0; i < s->n_layers; i++) discarded[i] = plan_get_discarded(plan, s->first_layer + i, micro);
  return discarded;
}

/* Parts of the same backward that come after this node. */
static int32_t count_parts_after(const struct exec *x, const struct dag_node *node) {
  const struct plan *plan = x->step->plan;
  int32_t n = 0, left = node->layer - plan->stages[node->stage].first_layer;
  for (int64_t place = node->position + 1; left > 0; place++) {
    const struct plan_action *a = &plan->order[plan->order_offset[node->rank] + place];
    if (a->kind != NODE_B || a->stage != node->stage || a->micro != node->micro) continue;
    left -= plan_get_part(plan, node->rank, place).n_layers;
    n++;
  }
  return n;
}

static void compute_stage(struct exec *x, const struct dag_node *node) {
  const struct exec_step *step = x->step;
  struct op_batch batch = step->micro[node->micro];
  double loss_sum = 0;
  batch.loss_scale = step->loss_scale;
  batch.with_grad = !step->plan->forward_only;
  batch.loss_sum = &loss_sum;
  const struct plan_stage *stage = &step->plan->stages[node->stage];
  struct plan_part part = plan_get_part(step->plan, node->rank, node->position);
  uint32_t *discarded = step->plan->n_recompute ? list_discarded(step->plan, node->stage, node->micro) : NULL;
  struct stage_run run = {.state = step->state,
                          .first_layer = stage->first_layer,
                          .n_layers = stage->n_layers,
                          .first = part.first_layer - stage->first_layer,
                          .end = part.first_layer - stage->first_layer + part.n_layers,
                          .odd = node->layer >= 0 && node->kind == NODE_B && count_parts_after(x, node) % 2 == 1,
                          .discarded = discarded,
                          .moved = step->plan->moved ? step->plan->moved + stage->first_layer : NULL,
                          .batch = &batch,
                          .between = end_op,
                          .context = x};
  exec_find_buffers(x, node->stage, node->micro, run.buffers);
  x->rebuilds = node->kind == NODE_R;
  x->op_begin = clock_now();
  stage_pass_run((enum node_kind)node->kind, &run);
  mem_free(discarded);
  if (node->kind == NODE_F) x->result->loss_sum += loss_sum;
}

static void update_layer(struct exec *x, const struct dag_node *node) {
  const struct exec_step *step = x->step;
  if (!step->plan->clip) exec_measure_layer(x, node->layer);
  if (!x->result->finite || step->keep_gradients) return;
  double scale = optimizer_get_scale(step->optimizer, x->result->grad_norm);
  optimizer_update_layer(step->state, step->optimizer, node->layer, step->step, step->plan->clip ? scale : 1);
}

static void compute(struct exec *x, int32_t id) {
  const struct dag_node *node = &x->step->dag->nodes[id];
  switch ((enum node_kind)node->kind) {
  case NODE_F:
  case NODE_R:
  case NODE_B:
  case NODE_I:
  case NODE_W: compute_stage(x, node); return;
  case NODE_U: update_layer(x, node); return;
  default: CHECK(false, "node kind %d computes nothing", node->kind);
  }
}

static void run_compute(struct exec *x, int32_t id) {
  note_node(x, id);
  begin_node(x, id);
  x->way->compute(x, id);
  end_node(x, id);
  x->streams[STREAM_COMPUTE].next++;
  /* Memory that the last compute node gives back may still be sent: it is freed when the streams have drained. */
  if (get_next(x, STREAM_COMPUTE) < 0)
    x->last_compute = id;
  else
    exec_free_buffers(x, id);
  if (!x->status) x->status = open_next(x);
}

static void gather_norm(struct exec *x, int32_t id) {
  (void)id;
  exec_gather_norm(x);
}

/* All ranks meet. Nothing else of this rank is under way: what comes before the norm is done, what comes after waits.
 */
static bool run_norm(struct exec *x) {
  struct exec_stream *s = &x->streams[STREAM_SEND];
  int32_t id = get_next(x, STREAM_SEND);
  if (id < 0 || s->active >= 0 || x->step->dag->nodes[id].kind != NODE_N || !is_ready(x, id)) return false;
  note_node(x, id);
  begin_node(x, id);
  x->way->norm(x, id);
  end_node(x, id);
  s->next++;
  return true;
}

/* ---- the loop ---- */

/* Finds the node for which a stream's node has not begun or ended: the node on the stream that is under way, or else
 * the first one before `id` that is not done. id itself where nothing before it is missing. */
static int32_t find_missing(const struct exec *x, int32_t id) {
  const struct dag *dag = x->step->dag;
  enum stream stream = (enum stream)dag->nodes[id].stream;
  int32_t active = stream == STREAM_COMPUTE ? -1 : x->streams[stream].active;
  if (active >= 0) return active;
  for (int64_t e = dag->in_offset[id]; e < dag->in_offset[id + 1]; e++) {
    int32_t before = dag->edge_from[e] - x->first;
    if (before >= 0 && before < x->n_nodes && !x->done[before]) return dag->edge_from[e];
  }
  return id;
}

/* The node of a network stream that holds up what comes next on this rank: its next compute node, or, after the last
 * one, whatever is left. -1: none. */
static int32_t find_holder(const struct exec *x, int32_t next) {
  int32_t at = next;
  for (int stream = STREAM_SEND; at < 0 && stream <= STREAM_DISK; stream++)
    at = x->streams[stream].active >= 0 ? x->streams[stream].active : get_next(x, (enum stream)stream);
  for (int32_t before = -1, i = 0; at >= 0 && at != before && i < STREAM_COUNT; i++) {
    before = at;
    at = find_missing(x, at);
  }
  return at == next ? -1 : at;
}

/* Describes for the watchdog what this rank waits for, as comm_wait asks; returns the rank that it waits for, or -1. */
static int describe_wait(const struct exec *x, char text[COMM_WAIT_BYTES]) {
  int32_t next = get_next(x, STREAM_COMPUTE), holder = find_holder(x, next);
  char name[64], user[64] = "";
  if (next >= 0) dag_describe_node(&x->step->dag->nodes[next], user, sizeof user);
  if (holder < 0) {
    snprintf(text, COMM_WAIT_BYTES, "memory or time for %s", next >= 0 ? user : "the end of the step");
    return -1;
  }
  struct dag_node node = x->step->dag->nodes[holder];
  bool sends = dag_is_send(&node);
  int peer = node.peer;
  node.peer = -1; /* the sentence names it */
  dag_describe_node(&node, name, sizeof name);
  snprintf(text, COMM_WAIT_BYTES, "%s %s%s%s%s", peer < 0 ? "the node" : "the message", name,
           peer >= 0 && sends ? " to be received" : "", *user ? ", before " : "", user);
  return peer;
}

static int run_nodes(struct exec *x) {
  int64_t fruitless = 0;
  char what[COMM_WAIT_BYTES] = "";
  int peer = -1;
  x->status = open_next(x);
  while (!x->status && x->n_done < x->n_nodes) {
    bool moved = exec_advance_network(x);
    int32_t next = x->status ? -1 : get_next(x, STREAM_COMPUTE);
    if (next >= 0 && is_ready(x, next)) {
      run_compute(x, next);
      moved = true;
    } else if (!moved) {
      moved = run_norm(x);
    }
    fruitless = moved ? 0 : fruitless + 1;
    if (moved) continue;
    if (fruitless % 64 == 1) peer = describe_wait(x, what);
    x->way->wait(x, peer, fruitless, what);
  }
  if (!x->status && x->last_compute >= 0) exec_free_buffers(x, x->last_compute);
  return x->status;
}

static void back_off(struct exec *x, int peer, int64_t fruitless, const char *what) {
  comm_back_off(x->step->comm, peer, fruitless, what);
}

static void open_work(struct exec *x) { (void)x; }
static void close_work(struct exec *x, int status) { (void)x, (void)status; }

const struct exec_way exec_way_work = {.open = open_work,
                                       .close = close_work,
                                       .begin_message = begin_message,
                                       .test_message = test_message,
                                       .compute = compute,
                                       .norm = gather_norm,
                                       .wait = back_off};

int exec_run(const struct exec_step *step, struct exec_result *result) {
  *result = (struct exec_result){.finite = true, .bad_layer = -1, .bad_tensor = -1};
  struct exec x;
  exec_init(&x, step, result);
  x.way = step->way;
  x.way->open(&x);
  int status = run_nodes(&x);
  x.way->close(&x, status);
  exec_fini(&x);
  return status;
}
