#include "record/plan_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "model/footprint.h"
#include "model/model.h"
#include "plan/plan.h"
#include "record/plan_file_arrays.h"
#include "record/plan_file_moves.h"
#include "record/plan_file_tables.h"
#include "record/trace_rows.h"
#include "store/h5.h"
#include "store/rows.h"

#define PLAN_FORMAT "penstock-plan"
/* Before PLAN_GROUP_VERSION there was no group /plan. */
enum { PLAN_VERSION = 6, PLAN_OLDEST_VERSION = 4, PLAN_GROUP_VERSION = 5 };

/* ---- tables that are this file's own ---- */

struct plan_file_edge {
  int32_t from, to;
};

#define X(id, name) name,
static const char *const layer_kind_names[] = {LAYER_KINDS(X) NULL};
#undef X
#define X(id, word, ...) #word,
static const char *const op_kind_names[] = {OP_KINDS(X) NULL};
#undef X

#define C(row, member, type) ROWS_COLUMN(plan_file_##row, member, type, NULL)
#define BYTES(row, member) ROWS_COLUMN(plan_file_##row, member, H5_INT64, "byte")
static const struct rows_column edge_columns[] = {C(edge, from, H5_INT32), C(edge, to, H5_INT32)};
static const struct rows_column stage_columns[] = {C(stage, stage, H5_INT32),    C(stage, first_layer, H5_INT32),
                                                   C(stage, n_layers, H5_INT32), C(stage, forward, H5_INT32),
                                                   C(stage, rebuild, H5_INT32),  C(stage, input, H5_INT32),
                                                   C(stage, weight, H5_INT32)};
static const struct rows_column replica_columns[] = {C(replica, stage, H5_INT32), C(replica, replica, H5_INT32),
                                                     C(replica, rank, H5_INT32)};
static const struct rows_column micro_columns[] = {
    C(micro, microbatch, H5_INT32), C(micro, rows, H5_INT32),
    C(micro, length, H5_INT32),     C(micro, tokens, H5_INT64),
    C(micro, labels, H5_INT64),     ROWS_NEW_COLUMN(plan_file_micro, pairs, H5_INT64, NULL)};
static const struct rows_column recompute_columns[] = {
    C(recompute, layer, H5_INT32), C(recompute, op, H5_INT32), C(recompute, first_microbatch, H5_INT32),
    C(recompute, last_microbatch, H5_INT32), C(recompute, discard, H5_INT32)};
#define SECONDS(row, member) ROWS_COLUMN(plan_file_##row, member, H5_FLOAT64, "s")
static const struct rows_column cost_columns[] = {C(cost, layer, H5_INT32),
                                                  C(cost, op, H5_INT32),
                                                  SECONDS(cost, forward_s),
                                                  SECONDS(cost, input_s),
                                                  SECONDS(cost, weight_s),
                                                  BYTES(cost, bytes_kept),
                                                  ROWS_ENUM(plan_file_cost, kind, op_kind_names)};
static const struct rows_column layer_columns[] = {
    C(layer, layer, H5_INT32),     ROWS_ENUM(plan_file_layer, kind, layer_kind_names),
    C(layer, stage, H5_INT32),     C(layer, parameters, H5_INT64),
    BYTES(layer, parameter_bytes), BYTES(layer, activation_bytes)};
static const struct rows_column limit_columns[] = {C(limit, rank, H5_INT32), BYTES(limit, device_bytes),
                                                   BYTES(limit, host_bytes), BYTES(limit, disk_bytes)};
static const struct rows_table edges = ROWS_TABLE("/edges", plan_file_edge, edge_columns);
static const struct rows_table stages = ROWS_TABLE("/stages", plan_file_stage, stage_columns);
static const struct rows_table replicas = ROWS_TABLE("/replicas", plan_file_replica, replica_columns);
static const struct rows_table micros = ROWS_TABLE("/microbatches", plan_file_micro, micro_columns);
static const struct rows_table recomputes = ROWS_TABLE("/recompute", plan_file_recompute, recompute_columns);
static const struct rows_table costs = ROWS_TABLE("/costs", plan_file_cost, cost_columns);
static const struct rows_table layers = ROWS_TABLE("/layers", plan_file_layer, layer_columns);
static const struct rows_table limits = ROWS_TABLE("/limits", plan_file_limit, limit_columns);

/* ---- writing ---- */

/* Creates a table with its rows, and frees them. */
static int give_rows(struct h5_file *file, const struct rows_table *table, void *rows, int64_t n) {
  int status = rows_write(file, table, rows, n);
  mem_free(rows);
  return status;
}

/* Nodes and edges of a large plan are many: block by block, their rows need hardly any memory. */
enum { BLOCK_ROWS = 1 << 16 };

static int write_nodes(struct h5_file *file, const struct dag *dag, const struct plan_file_prediction *p) {
  struct node_row *rows = MEM_NEW(struct node_row, BLOCK_ROWS);
  int status = rows_create_for(file, trace_rows_get_nodes(), dag->n_nodes);
  for (int64_t first = 0; first < dag->n_nodes && !status; first += BLOCK_ROWS) {
    int64_t n = dag->n_nodes - first < BLOCK_ROWS ? dag->n_nodes - first : BLOCK_ROWS;
    for (int64_t i = first; i < first + n; i++)
      rows[i - first] = trace_rows_make_node(dag, (int32_t)i, 0, p ? p->start_s[i] : NAN, p ? p->end_s[i] : NAN,
                                             p ? p->after[i] : -1);
    status = rows_append(file, trace_rows_get_nodes(), rows, n);
  }
  mem_free(rows);
  return status;
}

static int write_edges(struct h5_file *file, const struct dag *dag) {
  struct plan_file_edge *rows = MEM_NEW(struct plan_file_edge, BLOCK_ROWS);
  int status = rows_create_for(file, &edges, dag->n_edges);
  for (int64_t first = 0; first < dag->n_edges && !status; first += BLOCK_ROWS) {
    int64_t n = dag->n_edges - first < BLOCK_ROWS ? dag->n_edges - first : BLOCK_ROWS;
    for (int64_t i = 0; i < n; i++)
      rows[i] = (struct plan_file_edge){.from = dag->edge_from[first + i], .to = dag->edge_to[first + i]};
    status = rows_append(file, &edges, rows, n);
  }
  mem_free(rows);
  return status;
}

static int write_peaks(struct h5_file *file, const struct dag *dag) {
  struct peak_row *rows = MEM_NEW(struct peak_row, dag->n_ranks);
  for (int32_t r = 0; r < dag->n_ranks; r++)
    rows[r] = (struct peak_row){.rank = r,
                                .device_bytes = dag_get_peak(dag, r, NULL),
                                .host_bytes = dag_get_pool_peak(dag, r, POOL_HOST, NULL),
                                .disk_bytes = dag_get_pool_peak(dag, r, POOL_DISK, NULL),
                                .device_static_bytes = dag->device_static[r]};
  return give_rows(file, trace_rows_get_plan_peaks(), rows, dag->n_ranks);
}

static int64_t write_limit(int64_t bytes) { return bytes == INT64_MAX ? -1 : bytes; }

static int write_limits(struct h5_file *file, const struct plan *plan) {
  struct plan_file_limit *rows = MEM_NEW(struct plan_file_limit, plan->n_ranks);
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    rows[r] = (struct plan_file_limit){.rank = r,
                                       .device_bytes = write_limit(plan->device_limit[r]),
                                       .host_bytes = write_limit(plan->host_limit[r]),
                                       .disk_bytes = write_limit(plan->disk_limit[r])};
  }
  return give_rows(file, &limits, rows, plan->n_ranks);
}

static int write_stages(struct h5_file *file, const struct plan *plan) {
  struct plan_file_stage *rows = MEM_NEW(struct plan_file_stage, plan->n_stages);
  struct plan_file_replica *holders = MEM_NEW(struct plan_file_replica, plan->replica_offset[plan->n_stages]);
  int64_t n = 0;
  for (int32_t s = 0; s < plan->n_stages; s++) {
    const struct plan_stage *stage = &plan->stages[s];
    const struct plan_pace *pace = &plan->pace[s];
    rows[s] = (struct plan_file_stage){.stage = s,
                                       .first_layer = stage->first_layer,
                                       .n_layers = stage->n_layers,
                                       .forward = pace->forward,
                                       .rebuild = pace->rebuild,
                                       .input = pace->input,
                                       .weight = pace->weight};
    for (int32_t i = plan->replica_offset[s]; i < plan->replica_offset[s + 1]; i++)
      holders[n++] =
          (struct plan_file_replica){.stage = s, .replica = i - plan->replica_offset[s], .rank = plan->replica_rank[i]};
  }
  int status = give_rows(file, &stages, rows, plan->n_stages);
  if (!status) return give_rows(file, &replicas, holders, n);
  mem_free(holders);
  return status;
}

static int write_micros(struct h5_file *file, const struct plan *plan) {
  struct plan_file_micro *rows = MEM_NEW(struct plan_file_micro, plan->n_micro);
  for (int32_t m = 0; m < plan->n_micro; m++) {
    const struct micro_shape *micro = &plan->micro[m];
    rows[m] = (struct plan_file_micro){.microbatch = m,
                                       .rows = micro->rows,
                                       .length = micro->length,
                                       .tokens = micro->tokens,
                                       .labels = micro->labels,
                                       .pairs = micro->pairs};
  }
  return give_rows(file, &micros, rows, plan->n_micro);
}

static int write_recompute(struct h5_file *file, const struct plan *plan) {
  struct plan_file_recompute *rows = MEM_NEW(struct plan_file_recompute, (int64_t)plan->n_recompute * LAYER_MAX_OPS);
  int64_t n = 0;
  for (int32_t k = 0; k < plan->n_recompute; k++)
    for (int32_t o = 0; o < LAYER_MAX_OPS; o++)
      if (plan->recompute[k].ops >> o & 1)
        rows[n++] = (struct plan_file_recompute){plan->recompute[k].layer, o, plan->recompute[k].first_micro,
                                                 plan->recompute[k].last_micro, 1};
  return give_rows(file, &recomputes, rows, n);
}

static int write_costs(struct h5_file *file, const struct plan_file_prediction *p) {
  return rows_write(file, &costs, p ? p->costs : NULL, p ? p->n_costs : 0);
}

static int64_t count_kept(const struct plan *plan, const struct model *model, const struct layer *layer) {
  int64_t most = 0;
  for (int32_t m = 0; m < plan->n_micro; m++) {
    struct footprint footprint;
    footprint_layer(model, layer, plan->micro[m], plan_get_discarded(plan, (int32_t)(layer - model->layers), m), 0,
                    &footprint);
    int64_t kept = footprint.bytes[REGION_KEEP_INPUT] + footprint.bytes[REGION_KEEP_WEIGHT];
    if (kept > most) most = kept;
  }
  return most;
}

static int write_layers(struct h5_file *file, const struct plan *plan, const struct model *model) {
  struct plan_file_layer *rows = MEM_NEW(struct plan_file_layer, plan->n_layers);
  for (int32_t l = 0; l < plan->n_layers; l++) {
    const struct layer *layer = &model->layers[l];
    rows[l] = (struct plan_file_layer){.layer = l,
                                       .kind = (int8_t)layer->kind,
                                       .stage = plan_get_stage(plan, l),
                                       .parameters = layer->n_parameters,
                                       .parameter_bytes = footprint_parameters(model, layer),
                                       .activation_bytes = count_kept(plan, model, layer)};
  }
  return give_rows(file, &layers, rows, plan->n_layers);
}

static int write_attributes(struct h5_file *file, const struct plan_file_content *content) {
  const struct plan *plan = content->plan;
  const struct plan_file_prediction *p = content->prediction;
  int status = h5_write_text(file, "/", "format", PLAN_FORMAT);
  if (!status) status = h5_write_int(file, "/", "version", PLAN_VERSION);
  if (!status) status = h5_write_text(file, "/", "planner", plan->planner);
  if (!status) status = h5_write_int(file, "/", "hash", (int64_t)plan->hash);
  if (!status) status = h5_write_int(file, "/", "n_ranks", plan->n_ranks);
#define X(name, since)                                                                                                 \
  if (!status) status = h5_write_int(file, "/", #name, plan->name);
  PLAN_FLAGS(X)
#undef X
  if (!status) status = h5_write_double(file, "/", "predicted_step_s", p ? p->step_s : NAN);
  if (!status) status = h5_write_double(file, "/", "time_scale", p ? p->time_scale : 1);
  if (!status) status = h5_write_text(file, "/", "cost_source", p ? p->cost_source : "");
  if (!status) status = h5_write_text(file, "/", "deck", content->deck ? content->deck : "");
  if (!status) status = h5_write_text(file, "/", "model", content->model_json ? content->model_json : "");
  return status;
}

static int write_tables(struct h5_file *file, const struct plan_file_content *content) {
  int status = plan_file_write_plan(file, content->plan);
  if (!status) status = write_nodes(file, content->dag, content->prediction);
  if (!status) status = write_edges(file, content->dag);
  if (!status) status = write_layers(file, content->plan, content->model);
  if (!status) status = write_stages(file, content->plan);
  if (!status) status = write_micros(file, content->plan);
  if (!status) status = write_recompute(file, content->plan);
  if (!status) status = plan_file_write_moves(file, content->plan, content->model);
  if (!status) status = write_costs(file, content->prediction);
  if (!status) status = write_limits(file, content->plan);
  return status ? status : write_peaks(file, content->dag);
}

/* Writes the names that the numbers in columns `op` and `act` stand for. */
static int write_names(struct h5_file *file, const struct model *model) {
  char *ops = model_format_names(model, MODEL_OPS), *acts = model_format_names(model, MODEL_ACTS);
  int status = h5_write_text(file, "/costs/op", "names", ops);
  if (!status) status = h5_write_text(file, "/recompute/op", "names", ops);
  if (!status) status = h5_write_text(file, "/moved/act", "names", acts);
  mem_free(ops);
  mem_free(acts);
  return status;
}

int plan_file_write(const char *path, const struct plan_file_content *content) {
  struct h5_file *file;
  int status = h5_create_packed(path, &file);
  if (status) return status;
  status = write_attributes(file, content);
  if (!status) status = write_tables(file, content);
  if (!status) status = write_names(file, content->model);
  if (!status) return h5_close(&file);
  h5_discard(&file);
  return status;
}

/* ---- reading ---- */

static int read_flag(struct h5_file *h5, const char *name, bool *flag) {
  int64_t value = 0;
  int status = h5_read_int(h5, "/", name, &value);
  *flag = value != 0;
  return status;
}

static int check_format(struct h5_file *h5, const char *path, int32_t *read) {
  char *format = NULL;
  int64_t version = 0;
  int status = h5_read_text(h5, "/", "format", &format);
  if (!status && strcmp(format, PLAN_FORMAT))
    status = error_raise(STATUS_MISTAKE, "%s is no plan: its format is '%s'", path, format);
  mem_free(format);
  if (!status) status = h5_read_int(h5, "/", "version", &version);
  if (!status && (version < PLAN_OLDEST_VERSION || version > PLAN_VERSION))
    status =
        error_raise(STATUS_MISTAKE, "%s is a plan of version %lld, this program reads versions %d to %d: make it anew",
                    path, (long long)version, PLAN_OLDEST_VERSION, PLAN_VERSION);
  *read = (int32_t)version;
  return status;
}

static int read_attributes(struct h5_file *h5, const char *path, struct plan_file *file) {
  int64_t hash = 0, n_ranks = 0;
  int status = check_format(h5, path, &file->version);
  if (!status) status = h5_read_text(h5, "/", "planner", &file->planner);
  if (!status) status = h5_read_text(h5, "/", "deck", &file->deck);
  if (!status) status = h5_read_text(h5, "/", "model", &file->model_json);
  if (!status) status = h5_read_int(h5, "/", "hash", &hash);
  if (!status) status = h5_read_int(h5, "/", "n_ranks", &n_ranks);
#define X(name, since)                                                                                                 \
  if (!status && file->version >= since) status = read_flag(h5, #name, &file->name);
  PLAN_FLAGS(X)
#undef X
  if (!status) status = h5_read_double(h5, "/", "predicted_step_s", &file->predicted_step_s);
  file->time_scale = 1;
  if (!status && h5_has_attribute(h5, "/", "time_scale")) /* files of before do not have it */
    status = h5_read_double(h5, "/", "time_scale", &file->time_scale);
  file->hash = (uint64_t)hash;
  file->n_ranks = (int32_t)n_ranks;
  return status;
}

int plan_file_read(const char *path, struct plan_file *file) {
  struct h5_file *h5;
  memset(file, 0, sizeof *file);
  int status = h5_open(path, false, &h5);
  if (status) return status;
  status = read_attributes(h5, path, file);
  if (!status) status = rows_read_all(h5, &stages, (void **)&file->stages, &file->n_stages);
  if (!status) status = rows_read_all(h5, &replicas, (void **)&file->replicas, &file->n_replicas);
  if (!status) status = rows_read_all(h5, &micros, (void **)&file->micro, &file->n_micro);
  if (!status) status = rows_read_all(h5, &recomputes, (void **)&file->recompute, &file->n_recompute);
  if (!status) status = plan_file_read_moves(h5, file);
  if (!status) status = rows_read_all(h5, &layers, (void **)&file->layers, &file->n_layers);
  if (!status) status = rows_read_all(h5, &limits, (void **)&file->limits, &file->n_limits);
  if (!status) status = rows_read_all(h5, trace_rows_get_plan_peaks(), (void **)&file->peaks, &file->n_peaks);
  h5_close(&h5);
  return status;
}

void plan_file_fini(struct plan_file *file) {
  mem_free(file->planner);
  mem_free(file->deck);
  mem_free(file->model_json);
  mem_free(file->stages);
  mem_free(file->replicas);
  mem_free(file->micro);
  mem_free(file->recompute);
  mem_free(file->moves);
  mem_free(file->moved);
  mem_free(file->layers);
  mem_free(file->limits);
  mem_free(file->peaks);
  memset(file, 0, sizeof *file);
}

/* ---- the plan ---- */

static int refuse(const char *path, const char *what) {
  return error_raise(STATUS_MISTAKE, "%s: %s: the file is damaged, or was changed after it was written", path, what);
}

static int read_plan(const char *path, const struct plan_file *file, struct plan **plan) {
  struct h5_file *h5;
  *plan = NULL;
  if (file->version < PLAN_GROUP_VERSION) return plan_file_make_from_tables(path, file, plan);
  int status = h5_open(path, false, &h5);
  if (!status) status = plan_file_read_plan(h5, file->version, plan);
  h5_close(&h5);
  return status ? refuse(path, error_text()) : STATUS_OK;
}

int plan_file_load(const char *path, const struct plan_file *file, struct plan **plan) {
  struct plan *made;
  *plan = NULL;
  int status = read_plan(path, file, &made);
  if (status) return status;
  snprintf(made->planner, sizeof made->planner, "%s", file->planner);
#define X(name, since) made->name = file->name;
  PLAN_FLAGS(X)
#undef X
  status = plan_check(made);
  if (status) status = refuse(path, error_text());
  if (!status) plan_freeze(made);
  if (!status && file->version == PLAN_VERSION && made->hash != file->hash)
    status = refuse(path, "its tables and its hash are of different plans");
  if (status)
    plan_destroy(&made);
  else
    *plan = made;
  return status;
}
