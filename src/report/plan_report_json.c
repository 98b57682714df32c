/* The plan for programs. Seconds and bytes, shares from 0 to 1. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "plan/recompute.h"
#include "report/plan_report.h"
#include "sim/sim.h"

static json_t *make_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }
static json_t *make_bytes(int64_t bytes) { return bytes == INT64_MAX ? json_null() : json_integer(bytes); }

static json_t *make_stages(const struct plan *plan, const struct model *model) {
  json_t *list = json_array();
  for (int32_t s = 0; s < plan->n_stages; s++) {
    json_t *ranks = json_array();
    for (int32_t i = plan->replica_offset[s]; i < plan->replica_offset[s + 1]; i++)
      json_array_append_new(ranks, json_integer(plan->replica_rank[i]));
    char *discards = recompute_describe(plan, model, s);
    json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:o, s:s, s:s}", "stage", (int)s, "first_layer",
                                          (int)plan->stages[s].first_layer, "n_layers", (int)plan->stages[s].n_layers,
                                          "ranks", ranks, "recompute", *discards ? discards : "none", "recompute_by",
                                          plan_has_parts(plan, s) ? "block" : "stage"));
    mem_free(discards);
  }
  return list;
}

static json_t *make_peaks(const struct dag *dag) {
  json_t *list = json_array();
  for (int32_t r = 0; r < dag->n_ranks; r++) {
    struct memory_parts parts = plan_report_get_memory(dag, r);
    json_t *row =
        json_pack("{s:i, s:I, s:I, s:I}", "rank", (int)r, "device_bytes", (json_int_t)dag_get_peak(dag, r, NULL),
                  "host_bytes", (json_int_t)dag_get_pool_peak(dag, r, POOL_HOST, NULL), "disk_bytes",
                  (json_int_t)dag_get_pool_peak(dag, r, POOL_DISK, NULL));
#define X(name, title) json_object_set_new(row, #name "_bytes", json_integer(parts.name));
    MEMORY_PARTS(X)
#undef X
    json_array_append_new(list, row);
  }
  return list;
}

static json_t *make_moves(const struct plan_report *r) {
  json_t *list = json_array();
  struct dag_swap *swaps;
  int32_t n = dag_summarize_moves(r->plan, r->model, &swaps);
  for (int32_t k = 0; k < n; k++) {
    const struct dag_swap *s = &swaps[k];
    json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:i, s:i, s:i, s:I, s:f}", "stage", (int)s->stage, "rank",
                                          (int)s->rank, "tier", plan_tier_get_name((enum plan_tier)s->tier), "peer",
                                          (int)s->peer, "moves", (int)s->n_moves, "blocks", (int)s->blocks, "bytes",
                                          (json_int_t)s->bytes, "fraction", s->fraction));
  }
  mem_free(swaps);
  return list;
}

static json_t *make_limits(const struct plan *plan) {
  json_t *list = json_array();
  for (int32_t r = 0; r < plan->n_ranks; r++)
    json_array_append_new(
        list, json_pack("{s:i, s:o, s:o, s:o}", "rank", (int)r, "device_bytes", make_bytes(plan->device_limit[r]),
                        "host_bytes", make_bytes(plan->host_limit[r]), "disk_bytes", make_bytes(plan->disk_limit[r])));
  return list;
}

static json_t *make_times(const struct plan_report *r) {
  json_t *list = json_array();
  for (int32_t k = 0; k < r->plan->n_ranks; k++) {
    const struct sim_rank *rank = &r->sim->ranks[k];
    json_array_append_new(list, json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "rank", (int)k, "busy_s",
                                          rank->busy, "fill_s", rank->idle.fill, "drain_s", rank->idle.drain, "data_s",
                                          rank->idle.data, "message_s", rank->idle.message, "other_s", rank->idle.other,
                                          "offload_s", rank->idle.offload));
  }
  return list;
}

static json_t *make_bubbles(const struct plan_report *r) {
  json_t *list = json_array();
  for (int32_t s = 0; s < r->plan->n_stages; s++)
    json_array_append_new(list,
                          json_pack("{s:i, s:f, s:f}", "stage", (int)s, "forward_s", r->sim->stages[s].forward_bubble,
                                    "backward_s", r->sim->stages[s].backward_bubble));
  return list;
}

/* Runs of the critical path, those that take no time left out. */
static json_t *make_path(const struct plan_report *r) {
  struct step_path path = plan_report_find_path(r);
  json_t *list = json_array();
  for (int64_t k = 0; k < path.n_runs; k++) {
    const struct step_path_run *run = &path.runs[k];
    const struct dag_node *n = &r->dag->nodes[run->first];
    if (run->until <= run->from) continue;
    json_array_append_new(list, json_pack("{s:i, s:s, s:i, s:i, s:I, s:f, s:f}", "rank", (int)n->rank, "stream",
                                          stream_get_name((enum stream)n->stream), "first_node", (int)run->first,
                                          "last_node", (int)run->last, "nodes", (json_int_t)run->n_nodes, "start_s",
                                          run->from, "end_s", run->until));
  }
  step_path_fini(&path);
  return list;
}

static void put_plan(json_t *root, const struct plan_report *r) {
  struct plan_shares shares = plan_report_get_shares(r);
  json_object_set_new(root, "planner", json_string(r->plan->planner));
  json_object_set_new(root, "cost_source", json_string(r->cost_source));
  json_object_set_new(root, "notes", json_string(r->notes));
  json_object_set_new(root, "n_ranks", json_integer(r->plan->n_ranks));
  json_object_set_new(root, "micro_batches", json_integer(r->plan->n_micro));
  json_object_set_new(root, "predicted_step_s", make_real(r->sim->step));
  if (r->least > 0) json_object_set_new(root, "bound_s", make_real(r->least));
  if (r->least_any_cut > 0) json_object_set_new(root, "bound_any_cut_s", make_real(r->least_any_cut));
  if (r->least_staying > 0) json_object_set_new(root, "bound_staying_s", make_real(r->least_staying));
  if (r->least_any_staying > 0) json_object_set_new(root, "bound_any_cut_staying_s", make_real(r->least_any_staying));
  json_object_set_new(root, "iterations", json_integer(r->sim->n_iterations));
  json_object_set_new(root, "makespan_s", make_real(r->sim->makespan));
  json_object_set_new(root, "bubble_share", make_real(shares.bubble));
  json_object_set_new(root, "overlap_share", make_real(shares.overlap));
  json_object_set_new(root, "block_seconds", make_real(r->sim->block_seconds));
  json_object_set_new(root, "block_exposed_seconds", make_real(r->sim->block_exposed_seconds));
  json_object_set_new(root, "moves", make_moves(r));
  json_object_set_new(root, "stages", make_stages(r->plan, r->model));
  json_object_set_new(root, "peaks", make_peaks(r->dag));
  json_object_set_new(root, "limits", make_limits(r->plan));
  json_object_set_new(root, "times", make_times(r));
  json_object_set_new(root, "bubbles", make_bubbles(r));
  json_object_set_new(root, "critical_path", make_path(r));
}

static json_t *make_choice(const struct plan_choice *c) {
  if (c->reason) return json_pack("{s:s, s:s}", "planner", c->planner, "reason", c->reason);
  return json_pack("{s:s, s:o, s:o, s:o, s:I, s:i}", "planner", c->planner, "predicted_step_s", make_real(c->step_s),
                   "bubble_share", make_real(c->shares.bubble), "overlap_share", make_real(c->shares.overlap),
                   "peak_device_bytes", (json_int_t)c->peak_bytes, "recompute_stages", (int)c->n_recompute);
}

char *plan_report_format_json(const struct plan_report *r, const struct plan_choice *choices, int n_choices) {
  json_t *root = json_object(), *compared = json_array(), *declined = json_array();
  if (r) put_plan(root, r);
  for (int i = 0; i < n_choices; i++)
    json_array_append_new(choices[i].reason ? declined : compared, make_choice(&choices[i]));
  if (n_choices > 0)
    json_object_set_new(root, "compared", compared);
  else
    json_decref(compared);
  json_object_set_new(root, "declined", declined);
  char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  CHECK(text, "the plan is no JSON");
  char *own = mem_format("%s\n", text);
  free(text);
  json_decref(root);
  return own;
}
