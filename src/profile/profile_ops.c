/* Chooses the layers that are measured together, and the points that there is time for. */
#include <math.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "profile/counters.h"
#include "profile/profile_internal.h"

enum { MAX_PIECES = 4 };
#define LONG_SECONDS 0.5

/* Ways to cut a few layers into pieces, from the one that is most like a rank of a pipeline to the one that needs least
 * memory. Blocks: of the model that is cut; `ends`: first layer after each piece. */
static const struct {
  int blocks, n, first[MAX_PIECES], n_layers[MAX_PIECES];
} ways[] = {{2, 1, {0}, {6}}, {1, 1, {0}, {4}},      {1, 2, {0, 1}, {3, 3}}, {1, 4, {0, 1, 2, 3}, {1, 1, 1, 1}},
            {0, 1, {0}, {2}}, {0, 2, {0, 1}, {1, 1}}};
enum { N_WAYS = sizeof ways / sizeof *ways };

struct pieces {
  struct model *model;
  int n;
  struct profile_piece list[MAX_PIECES];
};

static bool fits(const struct profile_work *w, const struct profile_piece *piece, struct micro_shape point) {
  return profile_run_get_peak(piece, point) <= w->limit;
}

static bool is_possible(const struct model *model, int way) {
  int blocks = (model->n_layers - 2) / 2;
  return ways[way].blocks <= blocks && (ways[way].blocks > 0 || blocks == 0);
}

static void cut(const struct model *model, int way, struct pieces *pieces) {
  pieces->model = model_dup_blocks(model, ways[way].blocks);
  pieces->n = ways[way].n;
  for (int k = 0; k < pieces->n; k++)
    pieces->list[k] = (struct profile_piece){pieces->model, ways[way].first[k], ways[way].n_layers[k]};
}

/* The first way of which every piece fits for the point, else the last. */
static void choose_pieces(const struct profile_work *w, struct micro_shape point, struct pieces *pieces) {
  *pieces = (struct pieces){0};
  for (int way = 0; way < N_WAYS; way++) {
    if (!is_possible(w->config->model, way)) continue;
    model_destroy(&pieces->model);
    cut(w->config->model, way, pieces);
    bool good = true;
    for (int k = 0; k < pieces->n; k++) good = good && fits(w, &pieces->list[k], point);
    if (good) return;
  }
}

/* ---- one point ---- */

static int repeat(struct profile_run *run, enum profile_run_way way, int n, double *seconds) {
  int status = STATUS_OK;
  for (int i = 0; i < n && !status; i++) status = profile_run_repeat(run, way, seconds);
  return status;
}

/* The first time makes what the matrix library keeps for a shape, and touches pages: of what is short it tells nothing
 * about the next one. */
static int warm_up(struct profile_run *run, double *seconds) {
  int status = repeat(run, PROFILE_RUN_WARM, 1, seconds);
  return status || *seconds > LONG_SECONDS ? status : repeat(run, PROFILE_RUN_WARM, 1, seconds);
}

/* *once: of the slowest rank. */
static int measure_point_all(struct profile_work *w, struct profile_run *run, struct micro_shape point, double budget,
                             double *once) {
  struct profile_op *rows = MEM_NEW(struct profile_op, PROFILE_RUN_MAX_ROWS);
  double total, last, from = clock_now();
  profile_run_set_point(run, point);
  int status = comm_agree_all(w->comm, warm_up(run, once));
  if (!status) {
    *once = profile_get_most_all(w, *once);
    int n = profile_choose_repetitions_all(w, *once, budget - (clock_now() - from));
    comm_barrier_all(w->comm);
    status = repeat(run, PROFILE_RUN_TIME, n, &last);
    if (!status && counters_any(w->counters)) status = repeat(run, PROFILE_RUN_COUNT, 1, &last);
    status = comm_agree_all(w->comm, status);
  }
  if (!status) {
    int n = profile_run_get_rows(run, rows, &total);
    profile_take_slowest_all(w, total, rows, n * (int64_t)sizeof *rows);
    if (w->profile) profile_put_ops(w->profile, rows, n);
  }
  mem_free(rows);
  return status;
}

/* ---- all points ---- */

static double count_tokens(struct micro_shape point) { return (double)point.rows * point.length; }

/* A point's part of the time: by its tokens, as it takes so long, and never too little for a median. */
static double get_weight(const struct profile_work *w, int i) {
  return count_tokens(w->config->points[i]) + 0.1 * count_tokens(w->config->points[0]);
}

/* Returns the seconds that a point may take of the time until `end`. */
static double get_budget(const struct profile_work *w, int i, double end) {
  double weights = 0;
  for (int k = i; k < w->config->n_points; k++) weights += get_weight(w, k);
  return (end - clock_now()) * get_weight(w, i) / weights;
}

/* Bytes for people. */
static void note_memory(struct profile_work *w, const struct profile_piece *piece, struct micro_shape point) {
  char needed[32], limit[32];
  bytes_format(profile_run_get_peak(piece, point), needed, sizeof needed);
  bytes_format(w->limit, limit, sizeof limit);
  profile_note(w, "not measured: %d x %d tokens, layer kind %s: they need %s of %s (memory.device_limit)", point.rows,
               point.length, layer_kind_get_name(piece->model->layers[piece->first_layer].kind), needed, limit);
}

/* True when the time that is left, and a little more, is too short for a point; all ranks together. What is short is
 * always measured. */
static bool is_late_all(const struct profile_work *w, struct micro_shape point, double per_token, double end) {
  double needed = (1 + PROFILE_LEAST_REPETITIONS) * per_token * count_tokens(point);
  double slack = 0.1 * w->config->seconds, left = end - clock_now();
  return profile_get_most_all(w, needed - 0.2 * slack) > 0 && profile_get_most_all(w, needed - left - slack) > 0;
}

static int measure_points_all(struct profile_work *w, struct profile_run *run, const struct profile_piece *piece,
                              double end) {
  const struct profile_config *c = w->config;
  double per_token = 0; /* of one repetition of the first point, which is always measured */
  int status = STATUS_OK;
  for (int i = 0; i < c->n_points && !status; i++) {
    struct micro_shape point = c->points[i];
    double once = 0;
    if (!fits(w, piece, point)) {
      note_memory(w, piece, point);
      continue;
    }
    if (is_late_all(w, point, per_token, end)) {
      profile_note(w, "not measured: %d x %d tokens: no time was left (--seconds)", point.rows, point.length);
      continue;
    }
    status =
        profile_begin_all(w, STATUS_OK, "ops, %d x %d tokens (%d of %d)", point.rows, point.length, i + 1, c->n_points);
    if (!status) status = measure_point_all(w, run, point, get_budget(w, i, end), &once);
    if (per_token == 0) per_token = once / count_tokens(point);
  }
  return status;
}

/* A piece of which nothing fits is not even put into memory. */
static bool fits_any(const struct profile_work *w, const struct profile_piece *piece) {
  for (int i = 0; i < w->config->n_points; i++)
    if (fits(w, piece, w->config->points[i])) return true;
  return false;
}

static int measure_piece_all(struct profile_work *w, const struct profile_piece *piece, double budget,
                             double sweep_budget) {
  struct profile_run *run = NULL;
  double end = clock_now() + budget;
  bool any = fits_any(w, piece);
  int status = comm_agree_all(w->comm, any ? profile_run_create(w, piece, &run) : STATUS_OK);
  if (!status) status = measure_points_all(w, run, piece, end);
  if (!status && any && !w->config->ops_only) status = profile_sweeps_all(w, profile_run_get_state(run), sweep_budget);
  profile_run_destroy(&run);
  return status;
}

int profile_ops_all(struct profile_work *w, double budget) {
  struct pieces pieces;
  choose_pieces(w, w->config->points[0], &pieces);
  double sweeps = w->config->ops_only ? 0 : 0.1 * budget;
  int status = STATUS_OK;
  for (int k = 0; k < pieces.n && !status; k++)
    status = measure_piece_all(w, &pieces.list[k], (budget - sweeps) / pieces.n, sweeps / pieces.n);
  model_destroy(&pieces.model);
  return status;
}
