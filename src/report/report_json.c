/* The report for programs. Times in ms as in the text and in seconds, shares of the step from 0 to 1. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/model.h"
#include "plan/plan.h"
#include "report/report.h"

static json_t *make_bytes(int64_t bytes) { return bytes < 0 || bytes == INT64_MAX ? json_null() : json_integer(bytes); }
static json_t *make_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *make_rank(const struct report_rank *rank, double step) {
  json_t *object = json_pack("{s:i}", "rank", (int)rank->rank);
  json_t *shares = json_object();
#define X(name, ...)                                                                                                   \
  json_object_set_new(object, #name "_ms", make_real(rank->name * 1e3));                                               \
  json_object_set_new(shares, #name, make_real(step > 0 ? rank->name / step : 0));
  REPORT_PARTS(X)
#undef X
  json_object_set_new(object, "shares", shares);
  json_t *idle = json_object();
#define X(name, ...) json_object_set_new(idle, #name, make_real(rank->idle.name * 1e3));
  STEP_IDLE_WORDS(X)
#undef X
  json_object_set_new(object, "idle_ms", idle);
  json_t *kinds = json_object();
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    if (node_kind_get_stream((enum node_kind)k) == STREAM_COMPUTE)
      json_object_set_new(kinds, node_kind_get_name((enum node_kind)k), make_real(rank->kinds[k] * 1e3));
  json_object_set_new(object, "busy_by_kind_ms", kinds);
  json_object_set_new(object, "blocks", make_real(rank->blocks));
  json_object_set_new(object, "block_bytes", make_real(rank->block_bytes));
  json_object_set_new(object, "block_ms", make_real(rank->block_seconds * 1e3));
  json_object_set_new(object, "block_exposed_ms", make_real(rank->block_exposed * 1e3));
  json_object_set_new(object, "peak_bytes", make_bytes(rank->peak_bytes));
  json_object_set_new(object, "host_peak_bytes", make_bytes(rank->host_bytes));
  json_object_set_new(object, "host_limit_bytes", make_bytes(rank->host_limit));
  json_object_set_new(object, "disk_peak_bytes", make_bytes(rank->disk_bytes));
  json_object_set_new(object, "disk_limit_bytes", make_bytes(rank->disk_limit));
  json_object_set_new(object, "limit_bytes", make_bytes(rank->limit_bytes));
  return object;
}

static json_t *make_late(const struct report_late *late) {
  return json_pack("{s:I, s:i, s:s, s:i, s:i, s:i, s:f, s:s}", "step", (json_int_t)late->step, "rank", (int)late->rank,
                   "kind", node_kind_get_name((enum node_kind)late->kind), "stage", (int)late->stage, "microbatch",
                   (int)late->micro, "layer", (int)late->layer, "late_ms", late->seconds * 1e3, "cause",
                   report_cause_get_text(late->cause));
}

static json_t *make_times(int64_t count, double predicted, double measured) {
  json_t *object = json_pack("{s:I}", "count", (json_int_t)count);
  json_object_set_new(object, "predicted_ms", make_real(predicted * 1e3));
  json_object_set_new(object, "measured_ms", make_real(measured * 1e3));
  return object;
}

/* Times of one step, of all ranks together; null for a run that has not ended. */
static json_t *make_comparison(const struct comparison *c) {
  static const char *const passes[] = {PASS_REPORT_NAMES};
  if (c->n_steps == 0) return json_null();
  json_t *root = json_pack("{s:I, s:o, s:b}", "steps", (json_int_t)c->n_steps, "cost_source",
                           json_make_text(c->cost_source), "cost_is_measured", (int)c->cost_is_measured);
  json_t *kinds = json_array(), *ops = json_array();
  json_object_set_new(root, "predicted_step_ms", make_real(c->predicted_step_s * 1e3));
  json_object_set_new(root, "measured_step_ms", make_real(c->measured_step_s * 1e3));
  json_object_set_new(root, "predicted_bubble_share", make_real(c->predicted_bubble));
  json_object_set_new(root, "measured_bubble_share", make_real(c->measured_bubble));
  json_object_set_new(root, "copy_cpu_ms", make_real(c->copy_cpu_s * 1e3));
  for (int64_t i = 0; i < c->n_kinds; i++) {
    const struct kind_row *row = &c->kinds[i];
    json_t *object = make_times(row->count, row->predicted_s, row->measured_s);
    json_object_set_new(object, "kind", json_string(node_kind_get_name((enum node_kind)row->kind)));
    json_array_append_new(kinds, object);
  }
  for (int64_t i = 0; i < c->n_ops; i++) {
    const struct op_row *row = &c->ops[i];
    json_t *object = make_times(row->count, row->predicted_s, row->measured_s);
    json_object_set_new(object, "layer", json_string(layer_kind_get_name((enum layer_kind)row->layer)));
    json_object_set_new(object, "op", json_integer(row->op));
    json_object_set_new(object, "pass", json_string(passes[row->pass]));
    json_array_append_new(ops, object);
  }
  json_object_set_new(root, "kinds", kinds);
  json_object_set_new(root, "ops", ops);
  return root;
}

/* Lists the stages whose blocks of activations move. */
static json_t *make_stages(const struct report *r) {
  json_t *stages = json_array();
  for (int32_t s = 0; s < r->n_stages; s++) {
    const struct step_stage *stage = &r->stages[s];
    if (stage->rank < 0) continue;
    json_t *object = json_pack("{s:i, s:i}", "stage", (int)s, "rank", (int)stage->rank);
    json_object_set_new(object, "blocks", make_real(stage->blocks));
    json_object_set_new(object, "bytes", make_real(stage->bytes));
    json_object_set_new(object, "ms", make_real(stage->seconds * 1e3));
    json_object_set_new(object, "exposed_ms", make_real(stage->exposed * 1e3));
    json_array_append_new(stages, object);
  }
  return stages;
}

static json_t *make_root(const struct report *r) {
  json_t *ranks = json_array(), *late = json_array(), *picture = json_array();
  for (int32_t i = 0; i < r->n_ranks; i++) {
    json_array_append_new(ranks, make_rank(&r->ranks[i], r->step_seconds));
    json_array_append_new(picture, json_string(r->picture + (size_t)i * (REPORT_PICTURE_COLUMNS + 1)));
  }
  for (int i = 0; i < REPORT_WORST && i < r->n_late; i++) json_array_append_new(late, make_late(&r->worst[i]));
  json_t *root = json_pack("{s:o, s:o, s:o, s:i, s:i, s:I, s:I, s:I}", "folder", json_make_text(r->folder), "status",
                           json_make_text(r->status), "planner", json_make_text(r->planner), "stages", (int)r->n_stages,
                           "micro_batches", (int)r->n_micro, "first_step", (json_int_t)r->first_step, "last_step",
                           (json_int_t)r->last_step, "steps", (json_int_t)r->n_steps);
  json_object_set_new(root, "step_ms", make_real(r->step_seconds * 1e3));
  json_object_set_new(root, "median_step_ms", make_real(r->median_seconds * 1e3));
  json_object_set_new(root, "predicted_step_ms", make_real(r->predicted_seconds * 1e3));
  json_object_set_new(root, "comparison", make_comparison(&r->comparison));
  json_object_set_new(root, "tokens_per_s", make_real(r->tokens_per_s));
  json_object_set_new(root, "loss_first", make_real(r->loss_first));
  json_object_set_new(root, "loss_last", make_real(r->loss_last));
  json_object_set_new(root, "ranks", ranks);
  json_object_set_new(root, "moved_stages", make_stages(r));
  json_object_set_new(root, "n_late", json_integer(r->n_late));
  json_object_set_new(root, "late", late);
  json_object_set_new(root, "picture", picture);
  json_object_set_new(root, "picture_step", json_integer((json_int_t)r->drawn_step));
  return root;
}

char *report_format_json(const struct report *r) {
  json_t *root = make_root(r);
  json_add_seconds(root);
  char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  CHECK(text, "the report is no JSON");
  char *own = mem_format("%s\n", text);
  free(text);
  json_decref(root);
  return own;
}
