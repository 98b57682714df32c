/* A few layers in device memory, run as a stage is: buffers that live as in a step, the executor's walks, and a clock
 * that is read between two ops. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "exec/stage_pass.h"
#include "model/footprint.h"
#include "profile/counters.h"
#include "profile/profile_internal.h"

/* An op of a layer of the piece in a pass. */
struct slot {
  double seconds;                         /* of this repetition */
  double counters[PROFILE_COUNTER_COUNT]; /* of the last counted one */
  struct profile_samples samples;
};

/* The two nodes of a repetition, whole. */
enum { FORWARD, BACKWARD, N_NODES };

struct profile_run {
  struct profile_work *work;
  struct profile_piece piece;
  struct rank_state *state;
  struct footprint_stage regions;
  int64_t boundary;
  struct op_batch batch;
  int32_t *lengths, *tokens, *labels;
  float *hidden; /* host: what other stages would send */
  double loss;
  char *buffers[BUFFER_KIND_COUNT];
  struct slot *slots; /* [n_layers][LAYER_MAX_OPS][PASS_COUNT] */
  struct profile_samples nodes[N_NODES];
  enum profile_run_way way;
  struct slot *last; /* of the op that ended last */
  double mark, marks[PROFILE_COUNTER_COUNT];
};

static const struct layer *get_layer(const struct profile_run *run, int32_t i) {
  return &run->piece.model->layers[run->piece.first_layer + i];
}

static struct slot *get_slot(const struct profile_run *run, int32_t i, int op, enum pass pass) {
  return &run->slots[(i * LAYER_MAX_OPS + op) * PASS_COUNT + (int)pass];
}

/* ---- memory ---- */

static bool is_first(const struct profile_piece *piece) { return piece->first_layer == 0; }
static bool is_last(const struct profile_piece *piece) {
  return piece->first_layer + piece->n_layers == piece->model->n_layers;
}

static bool *list_layers(const struct profile_piece *piece) {
  bool *holds = MEM_NEW(bool, piece->model->n_layers);
  for (int32_t i = 0; i < piece->n_layers; i++) holds[piece->first_layer + i] = true;
  return holds;
}

static int64_t get_larger(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t profile_run_get_peak(const struct profile_piece *piece, struct micro_shape point) {
  struct footprint_stage f;
  footprint_stage(piece->model, piece->first_layer, piece->n_layers, point, NULL, NULL, &f);
  int64_t boundary = footprint_boundary(piece->model, point);
  int64_t ends = (is_first(piece) ? 0 : 2) + (is_last(piece) ? 0 : 2);
  bool *holds = list_layers(piece);
  int64_t parameters = footprint_static(piece->model, holds);
  mem_free(holds);
  return parameters + ends * boundary + f.keep_input + f.keep_weight + get_larger(f.work_forward, f.work_backward);
}

static int take(struct profile_run *run, enum buffer_kind kind, int64_t bytes) {
  struct device *device = run->state->device;
  if (bytes == 0) return STATUS_OK;
  run->buffers[kind] = device->ops->alloc(device, bytes, buffer_kind_get_name(kind));
  return run->buffers[kind] ? STATUS_OK
                            : error_wrap("measuring %d x %d tokens", run->batch.shape.rows, run->batch.shape.length);
}

static void give(struct profile_run *run, enum buffer_kind kind) {
  run->state->device->ops->free(run->state->device, run->buffers[kind]);
  run->buffers[kind] = NULL;
}

/* Makes the buffer that a message would fill. */
static int receive(struct profile_run *run, enum buffer_kind kind) {
  struct device *device = run->state->device;
  int status = take(run, kind, run->boundary);
  if (!status) device->ops->write(device, run->buffers[kind], run->hidden, run->boundary);
  return status;
}

/* ---- the clock between ops ---- */

static void add_time(struct profile_run *run, struct slot *slot) {
  if (run->way == PROFILE_RUN_COUNT) {
    double now[PROFILE_COUNTER_COUNT];
    counters_read(run->work->counters, now);
    for (int c = 0; c < PROFILE_COUNTER_COUNT; c++) slot->counters[c] += now[c] - run->marks[c];
    memcpy(run->marks, now, sizeof now);
    return;
  }
  double now = clock_now();
  slot->seconds += now - run->mark;
  run->mark = now;
}

/* Called after an op like the executor's: the work for messages is part of the op's time. */
static void end_op(void *context, int32_t layer, int op, enum pass pass) {
  struct profile_run *run = context;
  comm_poll(run->work->comm);
  run->last = get_slot(run, layer - run->piece.first_layer, op, pass);
  add_time(run, run->last);
}

static void begin_clock(struct profile_run *run) {
  if (run->way == PROFILE_RUN_COUNT) counters_read(run->work->counters, run->marks);
  run->mark = clock_now();
}

static void walk(struct profile_run *run, enum node_kind kind) {
  struct stage_run stage = {.state = run->state,
                            .first_layer = run->piece.first_layer,
                            .n_layers = run->piece.n_layers,
                            .end = run->piece.n_layers,
                            .batch = &run->batch,
                            .between = end_op,
                            .context = run};
  memcpy(stage.buffers, run->buffers, sizeof stage.buffers);
  stage_pass_run(kind, &stage);
}

/* ---- nodes ---- */

static int run_forward(struct profile_run *run) {
  int status = is_first(&run->piece) ? STATUS_OK : receive(run, BUFFER_INPUT);
  begin_clock(run);
  if (!status) status = take(run, BUFFER_KEEP_INPUT, run->regions.keep_input);
  if (!status) status = take(run, BUFFER_KEEP_WEIGHT, run->regions.keep_weight);
  if (!status && !is_last(&run->piece)) status = take(run, BUFFER_OUTPUT, run->boundary);
  if (!status) status = take(run, BUFFER_WORK, run->regions.work_forward);
  if (status) return status;
  walk(run, NODE_F);
  give(run, BUFFER_WORK);
  add_time(run, run->last);
  give(run, BUFFER_OUTPUT);
  return STATUS_OK;
}

static int run_backward(struct profile_run *run) {
  int status = is_last(&run->piece) ? STATUS_OK : receive(run, BUFFER_D_OUTPUT);
  begin_clock(run);
  if (!status && !is_first(&run->piece)) status = take(run, BUFFER_D_INPUT, run->boundary);
  if (!status) status = take(run, BUFFER_WORK, run->regions.work_backward);
  if (status) return status;
  walk(run, NODE_B);
  for (int kind = 0; kind < BUFFER_KIND_COUNT; kind++) give(run, (enum buffer_kind)kind);
  add_time(run, run->last);
  return STATUS_OK;
}

static int get_node(enum pass pass) { return pass == PASS_FORWARD ? FORWARD : BACKWARD; }

static void keep_times(struct profile_run *run, double *seconds) {
  int32_t n = run->piece.n_layers * LAYER_MAX_OPS;
  double nodes[N_NODES] = {0};
  for (int32_t i = 0; i < n; i++)
    for (int pass = 0; pass < PASS_COUNT; pass++) {
      struct slot *slot = &run->slots[i * PASS_COUNT + pass];
      nodes[get_node((enum pass)pass)] += slot->seconds;
      if (run->way == PROFILE_RUN_TIME) profile_samples_add(&slot->samples, slot->seconds);
    }
  for (int k = 0; k < N_NODES && run->way == PROFILE_RUN_TIME; k++) profile_samples_add(&run->nodes[k], nodes[k]);
  *seconds = nodes[FORWARD] + nodes[BACKWARD];
}

int profile_run_repeat(struct profile_run *run, enum profile_run_way way, double *seconds) {
  int32_t n = run->piece.n_layers * LAYER_MAX_OPS * PASS_COUNT;
  run->way = way;
  for (int32_t i = 0; i < n; i++) {
    run->slots[i].seconds = 0;
    if (way == PROFILE_RUN_COUNT) memset(run->slots[i].counters, 0, sizeof run->slots[i].counters);
  }
  int status = run_forward(run);
  if (!status) status = run_backward(run);
  for (int kind = 0; status && kind < BUFFER_KIND_COUNT; kind++) give(run, (enum buffer_kind)kind);
  if (!status) keep_times(run, seconds);
  return status;
}

/* ---- the micro-batch ---- */

static void free_batch(struct profile_run *run) {
  mem_free(run->lengths);
  mem_free(run->tokens);
  mem_free(run->labels);
  mem_free(run->hidden);
}

static void make_batch(struct profile_run *run, struct micro_shape point) {
  int64_t n = (int64_t)point.rows * point.length, vocab = run->piece.model->config.vocab_size;
  struct rng_key key = {.seed = 1, .purpose = RNG_PROFILE, .a = (uint32_t)run->work->rank};
  free_batch(run);
  run->lengths = MEM_NEW(int32_t, point.rows);
  run->tokens = MEM_NEW(int32_t, n);
  run->labels = MEM_NEW(int32_t, n);
  run->hidden = MEM_NEW(float, run->boundary / (int64_t)sizeof(float));
  for (int32_t r = 0; r < point.rows; r++) run->lengths[r] = point.length;
  for (int64_t i = 0; i < n; i++) {
    run->tokens[i] = (int32_t)(rng_bits(&key, (uint64_t)i) % (uint64_t)vocab);
    run->labels[i] = (int32_t)(rng_bits(&key, (uint64_t)(n + i)) % (uint64_t)vocab);
  }
  for (int64_t i = 0; i < run->boundary / (int64_t)sizeof(float); i++)
    run->hidden[i] = (float)(rng_uniform(&key, (uint64_t)(2 * n + i)) - 0.5);
  run->batch = (struct op_batch){.shape = point,
                                 .lengths = run->lengths,
                                 .tokens = run->tokens,
                                 .labels = run->labels,
                                 .loss_scale = 1.0f / (float)n,
                                 .with_grad = true,
                                 .loss_sum = &run->loss};
}

static void clear_slots(struct profile_run *run) {
  for (int k = 0; k < N_NODES; k++) run->nodes[k].n = 0;
  for (int32_t i = 0; i < run->piece.n_layers * LAYER_MAX_OPS * PASS_COUNT; i++) {
    run->slots[i].samples.n = 0;
    for (int c = 0; c < PROFILE_COUNTER_COUNT; c++) run->slots[i].counters[c] = NAN;
  }
}

void profile_run_set_point(struct profile_run *run, struct micro_shape point) {
  const struct profile_piece *piece = &run->piece;
  footprint_stage(piece->model, piece->first_layer, piece->n_layers, point, NULL, NULL, &run->regions);
  run->boundary = footprint_boundary(piece->model, point);
  make_batch(run, point);
  clear_slots(run);
}

/* ---- results ---- */

/* All layers of a kind give samples of the same op; *sum grows by the median as often as the op is there. */
static struct profile_op make_row(struct profile_run *run, enum layer_kind kind, int op, enum pass pass, double *sum) {
  struct profile_op row = {kind, op, pass, run->batch.shape.rows, run->batch.shape.length, 0, 0, {0}};
  struct profile_samples all = {0};
  int n = 0;
  for (int32_t i = 0; i < run->piece.n_layers; i++) {
    const struct slot *slot = get_slot(run, i, op, pass);
    if (get_layer(run, i)->kind != kind) continue;
    n++;
    for (int s = 0; s < slot->samples.n; s++) profile_samples_add(&all, slot->samples.values[s]);
    for (int c = 0; c < PROFILE_COUNTER_COUNT; c++) row.counters[c] += slot->counters[c];
  }
  for (int c = 0; c < PROFILE_COUNTER_COUNT; c++) row.counters[c] /= n;
  row.seconds = profile_samples_get_median(&all);
  row.spread = profile_samples_get_spread(&all);
  profile_samples_fini(&all);
  *sum += n * row.seconds;
  return row;
}

/* Where a machine is disturbed now and then, most ops are not, but most passes are: medians of ops sum to less than a
 * pass takes. They are brought to the level of the passes' medians. */
static void scale_rows(struct profile_run *run, const double sums[N_NODES], struct profile_op *rows, int n,
                       double *total) {
  double factors[N_NODES];
  *total = 0;
  for (int k = 0; k < N_NODES; k++) {
    double node = profile_samples_get_median(&run->nodes[k]);
    factors[k] = node / sums[k];
    *total += node;
  }
  for (int i = 0; i < n; i++) rows[i].seconds *= factors[rows[i].pass == PASS_FORWARD ? FORWARD : BACKWARD];
}

int profile_run_get_rows(struct profile_run *run, struct profile_op rows[PROFILE_RUN_MAX_ROWS], double *total) {
  bool seen[LAYER_KIND_COUNT] = {false};
  double sums[N_NODES] = {0};
  int n = 0;
  for (int32_t i = 0; i < run->piece.n_layers; i++) {
    const struct layer *layer = get_layer(run, i);
    if (seen[layer->kind]) continue;
    seen[layer->kind] = true;
    for (int o = 0; o < layer->n_ops; o++)
      for (int pass = 0; pass < PASS_COUNT; pass++)
        rows[n++] = make_row(run, layer->kind, o, (enum pass)pass, &sums[get_node((enum pass)pass)]);
  }
  scale_rows(run, sums, rows, n, total);
  return n;
}

/* ---- life ---- */

int profile_run_create(struct profile_work *w, const struct profile_piece *piece, struct profile_run **run) {
  struct profile_run *made = MEM_NEW(struct profile_run, 1);
  made->work = w;
  made->piece = *piece;
  made->slots = MEM_NEW(struct slot, piece->n_layers * LAYER_MAX_OPS * PASS_COUNT);
  bool *holds = list_layers(piece);
  int status = rank_state_create(piece->model, w->device, holds, false, &made->state);
  mem_free(holds);
  if (status)
    profile_run_destroy(&made);
  else
    rank_state_init(made->state, 1);
  *run = made;
  return status;
}

void profile_run_destroy(struct profile_run **run) {
  struct profile_run *r = *run;
  if (!r) return;
  for (int32_t i = 0; i < r->piece.n_layers * LAYER_MAX_OPS * PASS_COUNT; i++)
    profile_samples_fini(&r->slots[i].samples);
  for (int k = 0; k < N_NODES; k++) profile_samples_fini(&r->nodes[k]);
  rank_state_destroy(&r->state);
  free_batch(r);
  mem_free(r->slots);
  mem_free(r);
  *run = NULL;
}

struct rank_state *profile_run_get_state(const struct profile_run *run) {
  return run->state;
}
