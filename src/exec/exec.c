#include "exec/exec.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "exec/exec_internal.h"
#include "exec/forecast.h"

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

/* One tag a boundary, micro-batch and kind. Equal tags of far-apart messages are no harm: the messages of a pair of ranks
 * go in one order on both sides. */
enum tag_kind { TAG_F, TAG_B, TAG_T, TAG_POST };

static int make_tag(const struct dag_node *node, enum tag_kind kind) {
  int32_t boundary = 0, micro = node->micro < 0 ? 0 : node->micro;
  if (node->kind == NODE_SF || node->kind == NODE_RB) boundary = node->stage;
  if (node->kind == NODE_RF || node->kind == NODE_SB) boundary = node->stage - 1;
  return (int)kind << 25 | (boundary & 0xfff) << 13 | (micro & 0x1fff);
}

int exec_make_tag(const struct dag_node *node) {
  enum tag_kind kind = TAG_T;
  if (node->kind == NODE_SF || node->kind == NODE_RF) kind = TAG_F;
  if (node->kind == NODE_SB || node->kind == NODE_RB) kind = TAG_B;
  return make_tag(node, kind);
}

int exec_make_post_tag(const struct dag_node *node) { return make_tag(node, TAG_POST); }

struct comm_request *exec_send_begin(const struct exec *x, int peer, int tag, const void *data, int64_t bytes) {
  return x->step->sync_messages ? comm_send_begin_sync(x->step->comm, peer, tag, data, bytes)
                                : comm_send_begin(x->step->comm, peer, tag, data, bytes);
}

/* Where a message's data lies. */
static void *find_payload(const struct exec *x, const struct dag_node *node) {
  struct rank_state *state = x->step->state;
  switch ((enum node_kind)node->kind) {
  case NODE_SF: return exec_find_buffer(x, BUFFER_OUTPUT, node->stage, node->micro);
  case NODE_RF: return exec_find_buffer(x, BUFFER_INPUT, node->stage, node->micro);
  case NODE_SB: return exec_find_buffer(x, BUFFER_D_INPUT, node->stage, node->micro);
  case NODE_RB: return exec_find_buffer(x, BUFFER_D_OUTPUT, node->stage, node->micro);
  case NODE_ST: return state->has_embed ? state->tied_g_embed : state->tied_g_head;
  case NODE_RT: return state->has_embed ? state->tied_g_head : state->tied_g_embed;
  default: break;
  }
  CHECK(false, "node kind %d carries no data", node->kind);
  return NULL;
}

static void begin_message(struct exec *x, struct exec_stream *s, int32_t id) {
  const struct dag_node *node = &x->step->dag->nodes[id];
  void *data = find_payload(x, node);
  struct comm *comm = x->step->comm;
  int tag = exec_make_tag(node);
  s->request = node->stream == STREAM_SEND ? exec_send_begin(x, node->peer, tag, data, node->bytes)
                                           : comm_receive_begin(comm, node->peer, tag, data, node->bytes);
}

static bool test_message(struct exec *x, struct exec_stream *s) {
  (void)x;
  return comm_test(&s->request);
}

/* Ends what has arrived and begins what may begin on one network stream; true when something happened. */
static bool advance_stream(struct exec *x, enum stream stream) {
  struct exec_stream *s = &x->streams[stream];
  bool moved = false;
  if (s->active >= 0) {
    if (!x->way->test_message(x, s)) return false;
    end_node(x, s->active);
    s->active = -1;
    moved = true;
  }
  int32_t next = get_next(x, stream);
  if (next < 0 || x->step->dag->nodes[next].kind == NODE_N || !is_ready(x, next)) return moved;
  s->next++;
  s->active = next;
  begin_node(x, next);
  x->way->begin_message(x, s, next);
  return true;
}

bool exec_advance_network(struct exec *x) {
  bool sent = advance_stream(x, STREAM_SEND);
  bool received = advance_stream(x, STREAM_RECEIVE);
  return sent || received;
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
  enum comparison_pass kind = x->rebuilds ? COMPARISON_RECOMPUTE : (enum comparison_pass)pass;
  x->step->op_seconds[forecast_op_slot(x->step->state->model->layers[layer].kind, op, kind)] += now - x->op_begin;
  poll_network(x);
  x->op_begin = clock_now();
}

/* ---- compute ---- */

static void note_node(const struct exec *x, int32_t id) {
  char text[80];
  dag_describe_node(&x->step->dag->nodes[id], text, sizeof text);
  watchdog_note(x->step->comm, x->step->step, text);
}

/* What a micro-batch discards of the stage's layers; owned by the caller. */
static uint32_t *list_discarded(const struct plan *plan, int32_t stage, int32_t micro) {
  const struct plan_stage *s = &plan->stages[stage];
  uint32_t *discarded = MEM_NEW(uint32_t, s->n_layers);
  for (int32_t i = 0; i < s->n_layers; i++) discarded[i] = plan_get_discarded(plan, s->first_layer + i, micro);
  return discarded;
}

static void compute_stage(struct exec *x, const struct dag_node *node) {
  const struct exec_step *step = x->step;
  struct op_batch batch = step->micro[node->micro];
  double loss_sum = 0;
  batch.loss_scale = step->loss_scale;
  batch.with_grad = !step->plan->forward_only;
  batch.loss_sum = &loss_sum;
  const struct plan_stage *stage = &step->plan->stages[node->stage];
  uint32_t *discarded = step->plan->n_recompute ? list_discarded(step->plan, node->stage, node->micro) : NULL;
  struct stage_run run = {.state = step->state,
                          .first_layer = stage->first_layer,
                          .n_layers = stage->n_layers,
                          .discarded = discarded,
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
  if (node->kind == NODE_U)
    update_layer(x, node);
  else
    compute_stage(x, node);
}

static int run_compute(struct exec *x, int32_t id) {
  note_node(x, id);
  begin_node(x, id);
  x->way->compute(x, id);
  end_node(x, id);
  x->streams[STREAM_COMPUTE].next++;
  int32_t next = get_next(x, STREAM_COMPUTE);
  /* What the last compute node frees may still be leaving: it goes when the streams have drained. */
  if (next < 0)
    x->last_compute = id;
  else
    exec_free_buffers(x, id);
  return exec_open_node(x, next);
}

static void gather_norm(struct exec *x, int32_t id) {
  (void)id;
  exec_gather_norm(x);
}

/* All ranks meet. Nothing else of this rank is under way: what comes before the norm is done, what comes after waits. */
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

/* What a waiting rank says to the watchdog: its next compute node and what that still lacks. */
static void describe_wait(const struct exec *x, char *text, size_t size) {
  const struct dag *dag = x->step->dag;
  int32_t next = get_next(x, STREAM_COMPUTE);
  int used = snprintf(text, size, "waiting");
  for (int stream = STREAM_SEND; stream <= STREAM_RECEIVE; stream++) {
    int32_t id = x->streams[stream].active;
    if (id < 0) continue;
    char name[64];
    dag_describe_node(&dag->nodes[id], name, sizeof name);
    if (used < (int)size)
      used += snprintf(text + used, size - (size_t)used, " for rank %d (%s)", dag->nodes[id].peer, name);
  }
  if (next < 0 || used >= (int)size) return;
  char name[64];
  dag_describe_node(&dag->nodes[next], name, sizeof name);
  snprintf(text + used, size - (size_t)used, " before %s", name);
}

static int run_nodes(struct exec *x) {
  int64_t fruitless = 0;
  char what[256] = "";
  int status = exec_open_node(x, get_next(x, STREAM_COMPUTE));
  while (!status && x->n_done < x->n_nodes) {
    bool moved = exec_advance_network(x);
    int32_t next = get_next(x, STREAM_COMPUTE);
    if (next >= 0 && is_ready(x, next)) {
      status = run_compute(x, next);
      moved = true;
    } else if (!moved) {
      moved = run_norm(x);
    }
    fruitless = moved ? 0 : fruitless + 1;
    if (moved) continue;
    if (fruitless % 64 == 1) describe_wait(x, what, sizeof what);
    comm_back_off(x->step->comm, fruitless, what);
  }
  if (!status && x->last_compute >= 0) exec_free_buffers(x, x->last_compute);
  return status;
}

static void open_work(struct exec *x) { (void)x; }
static void close_work(struct exec *x, int status) { (void)x, (void)status; }

static const struct exec_way way_of_work = {.open = open_work,
                                            .close = close_work,
                                            .begin_message = begin_message,
                                            .test_message = test_message,
                                            .compute = compute,
                                            .norm = gather_norm};

int exec_run(const struct exec_step *step, struct exec_result *result) {
  *result = (struct exec_result){.finite = true, .bad_layer = -1, .bad_tensor = -1};
  struct exec x;
  exec_init(&x, step, result);
  x.way = step->times ? &exec_way_timed : &way_of_work;
  x.way->open(&x);
  int status = run_nodes(&x);
  x.way->close(&x, status);
  exec_fini(&x);
  return status;
}
