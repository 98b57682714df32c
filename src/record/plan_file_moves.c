#include "record/plan_file_moves.h"

#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "model/footprint.h"
#include "plan/plan.h"
#include "store/rows.h"

/* A row of /swap. */
struct plan_file_swap {
  int32_t stage, blocks;
  double fraction;
  int8_t tier;
  int32_t peer;
};

#define X(id, name) name,
static const char *const tier_names[] = {PLAN_TIERS(X) NULL};
#undef X

#define C(row, member) ROWS_COLUMN(plan_file_##row, member, H5_INT32, NULL)
static const struct rows_column move_columns[] = {
    C(move, stage),      C(move, microbatch), ROWS_ENUM(plan_file_move, tier, tier_names),
    C(move, out_start),  C(move, out_end),    C(move, in_start),
    C(move, peer),       C(move, peer_start), C(move, peer_end),
    C(move, disk_start), C(move, disk_end)};
static const struct rows_column moved_columns[] = {C(moved, layer), C(moved, act)};
static const struct rows_column swap_columns[] = {C(swap, stage), C(swap, blocks),
                                                  ROWS_COLUMN(plan_file_swap, fraction, H5_FLOAT64, NULL),
                                                  ROWS_ENUM(plan_file_swap, tier, tier_names), C(swap, peer)};
static const struct rows_table moves = ROWS_TABLE("/moves", plan_file_move, move_columns);
static const struct rows_table moved = ROWS_TABLE("/moved", plan_file_moved, moved_columns);
static const struct rows_table swaps = ROWS_TABLE("/swap", plan_file_swap, swap_columns);

/* Creates a table with its rows, and frees them. */
static int give_rows(struct h5_file *file, const struct rows_table *table, void *rows, int64_t n) {
  int status = rows_write(file, table, rows, n);
  mem_free(rows);
  return status;
}

static int write_moves(struct h5_file *file, const struct plan *plan) {
  struct plan_file_move *rows = MEM_NEW(struct plan_file_move, plan->n_moves);
  for (int32_t k = 0; k < plan->n_moves; k++) {
    const struct plan_move *m = &plan->moves[k];
    rows[k] = (struct plan_file_move){.stage = m->stage,
                                      .microbatch = m->micro,
                                      .tier = (int8_t)m->tier,
                                      .out_start = m->out_start,
                                      .out_end = m->out_end,
                                      .in_start = m->in_start,
                                      .peer = m->peer,
                                      .peer_start = m->peer_start,
                                      .peer_end = m->peer_end,
                                      .disk_start = m->disk_start,
                                      .disk_end = m->disk_end};
  }
  return give_rows(file, &moves, rows, plan->n_moves);
}

static int write_moved(struct h5_file *file, const struct plan *plan) {
  int32_t n_layers = plan->n_moves ? plan->n_layers : 0, n = 0;
  struct plan_file_moved *rows = MEM_NEW(struct plan_file_moved, (int64_t)n_layers * (LAYER_MAX_ACTS + 1));
  for (int32_t l = 0; l < n_layers; l++) {
    for (int32_t a = 0; a < LAYER_MAX_ACTS; a++)
      if (plan->moved[l] >> a & 1) rows[n++] = (struct plan_file_moved){l, a};
    if (plan->moved[l] >> FOOTPRINT_MOVES_HIDDEN & 1) rows[n++] = (struct plan_file_moved){l, -1};
  }
  return give_rows(file, &moved, rows, n);
}

static int write_swap(struct h5_file *file, const struct plan *plan, const struct model *model) {
  struct dag_swap *all;
  int32_t n = dag_summarize_moves(plan, model, &all);
  struct plan_file_swap *rows = MEM_NEW(struct plan_file_swap, n);
  for (int32_t k = 0; k < n; k++)
    rows[k] = (struct plan_file_swap){.stage = all[k].stage,
                                      .blocks = all[k].blocks,
                                      .fraction = all[k].fraction,
                                      .tier = (int8_t)all[k].tier,
                                      .peer = all[k].peer};
  mem_free(all);
  return give_rows(file, &swaps, rows, n);
}

int plan_file_write_moves(struct h5_file *file, const struct plan *plan, const struct model *model) {
  int status = write_moves(file, plan);
  if (!status) status = write_moved(file, plan);
  return status ? status : write_swap(file, plan, model);
}

int plan_file_read_moves(struct h5_file *file, struct plan_file *read) {
  int status = rows_read_all(file, &moves, (void **)&read->moves, &read->n_moves);
  return status ? status : rows_read_all(file, &moved, (void **)&read->moved, &read->n_moved);
}
