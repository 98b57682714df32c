/* Makes a plan of the tables for people: up to version 4 plan.h5 had no group /plan. */
#include "record/plan_file_tables.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/footprint.h"
#include "plan/plan.h"
#include "record/trace_read.h"

static int refuse(const char *path, const char *what) {
  return error_raise(STATUS_MISTAKE, "%s: %s: the file is damaged, or was changed after it was written", path, what);
}

/* Whole numbers of the tables are used as sizes and places. */
static int check_sizes(const char *path, const struct plan_file *file) {
  if (file->n_ranks < 1 || file->n_stages < 1 || file->n_micro < 1 || file->n_layers < 1 ||
      file->n_replicas != file->n_stages || file->n_limits != file->n_ranks || file->n_micro > INT32_MAX)
    return refuse(path, "the sizes of its tables do not belong together");
  for (int64_t s = 0; s < file->n_stages; s++)
    if (file->stages[s].stage != s || file->replicas[s].stage != s || file->replicas[s].rank < 0 ||
        file->replicas[s].rank >= file->n_ranks)
      return refuse(path, "/stages and /replicas are not in order");
  for (int64_t k = 0; k < file->n_recompute; k++)
    if (file->recompute[k].op < 0 || file->recompute[k].op >= 32) return refuse(path, "/recompute names no op");
  return STATUS_OK;
}

/* Out of range numbers of moves are left to plan_check, but for those that it takes as sizes and bits. */
static int check_moves(const char *path, const struct plan_file *file) {
  if (file->n_moves > INT32_MAX) return refuse(path, "/moves has too many rows");
  for (int64_t k = 0; k < file->n_moved; k++)
    if (file->moved[k].layer < 0 || file->moved[k].layer >= file->n_layers || file->moved[k].act < -1 ||
        file->moved[k].act >= LAYER_MAX_ACTS)
      return refuse(path, "/moved names no activation");
  if (!file->n_moves && file->n_moved) return refuse(path, "/moved has rows, /moves has none");
  return STATUS_OK;
}

static bool is_action(const struct node_row *row) {
  return row->stream == STREAM_COMPUTE && row->kind >= 0 && row->kind <= NODE_W;
}

static int compare_rows(const void *left, const void *right) {
  const struct node_row *a = *(const struct node_row *const *)left, *b = *(const struct node_row *const *)right;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (a->position > b->position) - (a->position < b->position);
}

/* The compute nodes of all ranks in their order; *rows point into `nodes`, owned by the caller. */
static int64_t sort_actions(const struct node_row *nodes, int64_t n_nodes, const struct node_row ***rows) {
  int64_t n = 0;
  *rows = MEM_NEW(const struct node_row *, n_nodes);
  for (int64_t i = 0; i < n_nodes; i++)
    if (is_action(&nodes[i])) (*rows)[n++] = &nodes[i];
  if (n > 0) qsort(*rows, (size_t)n, sizeof **rows, compare_rows);
  return n;
}

static void fill_orders(struct plan *plan, const struct node_row *const *rows, int64_t n) {
  int64_t k = 0;
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    while (k < n && rows[k]->rank < r) k++;
    plan->order_offset[r] = k;
    for (; k < n && rows[k]->rank == r; k++)
      plan->order[k] = (struct plan_action){rows[k]->kind, rows[k]->stage, rows[k]->microbatch};
  }
  plan->order_offset[plan->n_ranks] = n;
}

/* Rows of one layer and range follow one another, an op each. */
static void fill_recompute(const struct plan_file *file, struct plan *plan) {
  int32_t n = 0;
  plan_reserve_recompute(plan, (int32_t)file->n_recompute);
  for (int64_t k = 0; k < file->n_recompute; k++) {
    const struct plan_file_recompute *r = &file->recompute[k];
    struct plan_recompute *last = n ? &plan->recompute[n - 1] : NULL;
    bool same = last && last->layer == r->layer && last->first_micro == r->first_microbatch &&
                last->last_micro == r->last_microbatch;
    if (!same) plan->recompute[n++] = (struct plan_recompute){r->layer, r->first_microbatch, r->last_microbatch, 0};
    plan->recompute[n - 1].ops |= (uint32_t)1 << r->op;
  }
  plan->n_recompute = n;
}

static void fill_moves(const struct plan_file *file, struct plan *plan) {
  plan_reserve_moves(plan, (int32_t)file->n_moves);
  for (int64_t k = 0; k < file->n_moves; k++) {
    const struct plan_file_move *m = &file->moves[k];
    plan->moves[k] = (struct plan_move){.stage = m->stage,
                                        .micro = m->microbatch,
                                        .tier = m->tier,
                                        .out_start = m->out_start,
                                        .out_end = m->out_end,
                                        .in_start = m->in_start,
                                        .peer = m->peer,
                                        .peer_start = m->peer_start,
                                        .peer_end = m->peer_end,
                                        .disk_start = m->disk_start,
                                        .disk_end = m->disk_end};
  }
  for (int64_t k = 0; k < file->n_moved; k++) {
    int32_t act = file->moved[k].act;
    plan->moved[file->moved[k].layer] |= (uint32_t)1 << (act < 0 ? FOOTPRINT_MOVES_HIDDEN : act);
  }
}

static int64_t read_limit(int64_t bytes) { return bytes < 0 ? INT64_MAX : bytes; }

static void fill_plan(const struct plan_file *file, struct plan *plan) {
  for (int32_t s = 0; s < plan->n_stages; s++) {
    const struct plan_file_stage *stage = &file->stages[s];
    plan->stages[s] = (struct plan_stage){stage->first_layer, stage->n_layers};
    plan->pace[s] = (struct plan_pace){stage->forward, stage->rebuild, stage->input, stage->weight};
    plan->replica_rank[s] = file->replicas[s].rank;
  }
  for (int32_t i = 0; i < plan->n_micro; i++) {
    const struct plan_file_micro *m = &file->micro[i];
    plan->micro[i] = micro_shape_make(m->rows, m->length, m->tokens, m->labels);
  }
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    plan->device_limit[r] = read_limit(file->limits[r].device_bytes);
    plan->host_limit[r] = read_limit(file->limits[r].host_bytes);
    plan->disk_limit[r] = read_limit(file->limits[r].disk_bytes);
  }
  fill_recompute(file, plan);
  fill_moves(file, plan);
}

int plan_file_make_from_tables(const char *path, const struct plan_file *file, struct plan **plan) {
  struct node_row *nodes = NULL;
  const struct node_row **rows = NULL;
  int64_t n_nodes = 0;
  *plan = NULL;
  int status = check_sizes(path, file);
  if (!status) status = check_moves(path, file);
  if (!status) status = trace_read_nodes(path, 0, &nodes, &n_nodes);
  if (status) return status;
  int64_t n = sort_actions(nodes, n_nodes, &rows);
  *plan = plan_create((int32_t)file->n_layers, (int32_t)file->n_stages, file->n_ranks, (int32_t)file->n_micro, n);
  fill_plan(file, *plan);
  fill_orders(*plan, rows, n);
  mem_free(rows);
  mem_free(nodes);
  return STATUS_OK;
}
