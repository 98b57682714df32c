#include "report/profile_report.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/op_work.h"

#define X(name) #name,
static const char *const counter_names[] = {PROFILE_COUNTERS(X)};
#undef X
static const char *const pass_names[PASS_COUNT] = {PASS_NAMES};
static const char *const sweep_names[] = {PROFILE_SWEEP_NAMES};
static const char *const copy_names[] = {PROFILE_COPY_NAMES};

static const struct layer *find_layer(const struct model *model, int kind) {
  for (int32_t l = 0; l < model->n_layers; l++)
    if ((int)model->layers[l].kind == kind) return &model->layers[l];
  return NULL;
}

/* ---- ops ---- */

/* Work in a second: operations of what arithmetic limits, bytes of what memory limits. */
static void print_rate(FILE *out, const struct op_work *work, const struct op *op, double seconds) {
  bool multiplies = op_kind_get_bound(op->kind) != BOUND_MEMORY;
  double amount = multiplies ? work->flops : work->bytes;
  if (amount > 0)
    fprintf(out, " %8.1f %-7s", 1e-9 * amount / seconds, multiplies ? "GFLOP/s" : "GB/s");
  else
    fprintf(out, " %8s %-7s", "", "");
}

static void print_op(FILE *out, const struct profile_report *r, const struct layer *layer, int o, double *sums) {
  struct op_work work[PASS_COUNT];
  const struct profile_op *found[PASS_COUNT];
  op_work_count(r->model, layer, &layer->ops[o], r->shape, work);
  fprintf(out, "  %-10s %-11s", layer_kind_get_name(layer->kind), layer->ops[o].name);
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    found[pass] = profile_find_op(r->profile, layer->kind, o, (enum pass)pass, r->shape);
    double seconds = found[pass] ? found[pass]->seconds : NAN;
    sums[pass] += seconds;
    fprintf(out, " %9.3f", 1e3 * seconds);
  }
  for (int pass = 0; pass < PASS_COUNT; pass++)
    if (found[pass]) print_rate(out, &work[pass], &layer->ops[o], found[pass]->seconds);
  fputc('\n', out);
}

static void print_ops(FILE *out, const struct profile_report *r) {
  fprintf(out, "\nops for %lld x %lld tokens, ms and per second:\n", (long long)r->shape.rows,
          (long long)r->shape.length);
  fprintf(out, "  %-10s %-11s %9s %9s %9s %16s %16s %16s\n", "layer", "op", pass_names[0], pass_names[1], pass_names[2],
          pass_names[0], pass_names[1], pass_names[2]);
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
    const struct layer *layer = find_layer(r->model, kind);
    double sums[PASS_COUNT] = {0};
    if (!layer || !profile_find_op(r->profile, layer->kind, 0, PASS_FORWARD, r->shape)) continue;
    for (int o = 0; o < layer->n_ops; o++) print_op(out, r, layer, o, sums);
    fprintf(out, "  %-10s %-11s %9.3f %9.3f %9.3f\n", layer_kind_get_name(layer->kind), "all", 1e3 * sums[0],
            1e3 * sums[1], 1e3 * sums[2]);
  }
}

/* A line a shape: the layers' passes as a whole. */
static void print_shape(FILE *out, const struct profile_report *r, struct micro_shape shape) {
  fprintf(out, "  %4lld x %-6lld", (long long)shape.rows, (long long)shape.length);
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
    const struct layer *layer = find_layer(r->model, kind);
    double sum = 0;
    if (!layer) continue;
    for (int o = 0; o < layer->n_ops; o++)
      for (int pass = 0; pass < PASS_COUNT; pass++) {
        const struct profile_op *op = profile_find_op(r->profile, layer->kind, o, (enum pass)pass, shape);
        sum += op ? op->seconds : NAN;
      }
    fprintf(out, " %10.3f", 1e3 * sum);
  }
  fputc('\n', out);
}

static void print_shapes(FILE *out, const struct profile_report *r) {
  const struct profile *p = r->profile;
  fprintf(out, "\nshapes, ms of all passes of a layer:\n  %13s", "rows x tokens");
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
    if (find_layer(r->model, kind)) fprintf(out, " %10s", layer_kind_get_name((enum layer_kind)kind));
  fputc('\n', out);
  for (int64_t i = 0; i < p->n_ops; i++) {
    bool seen = false;
    for (int64_t k = 0; k < i && !seen; k++)
      seen = p->ops[k].rows == p->ops[i].rows && p->ops[k].length == p->ops[i].length;
    if (!seen) print_shape(out, r, profile_op_get_shape(&p->ops[i]));
  }
}

/* ---- the rest ---- */

/* Floats of parameters, gradients and moments that a sweep reads and writes. */
static double count_sweep_floats(const struct profile_sweep *s) {
  static const int each[] = {[PROFILE_UPDATE] = 8, [PROFILE_NORM] = 1, [PROFILE_TIE] = 4};
  return (double)each[s->kind] * (double)s->floats;
}

static void print_sweeps(FILE *out, const struct profile *p) {
  if (p->n_sweeps) fprintf(out, "\nparameters of a layer:\n");
  for (int64_t i = 0; i < p->n_sweeps; i++) {
    const struct profile_sweep *s = &p->sweeps[i];
    fprintf(out, "  %-10s %12lld floats %10.3f ms %8.1f GB/s\n", sweep_names[s->kind], (long long)s->floats,
            1e3 * s->seconds, 1e-9 * sizeof(float) * count_sweep_floats(s) / s->seconds);
  }
}

/* Prints the median and the slowest pair of ranks, inside a node or across nodes. */
static void print_link(FILE *out, const struct profile *p, bool across, int64_t bytes) {
  double slowest = 0, sum = 0;
  int n = 0;
  for (int64_t i = 0; i < p->n_links; i++) {
    const struct profile_link *l = &p->links[i];
    if (l->across != across || l->bytes != bytes) continue;
    n++;
    sum += l->seconds;
    if (l->seconds > slowest) slowest = l->seconds;
  }
  fprintf(out, "  %-10s %12lld bytes  %10.1f us %8.3f GB/s, slowest of %d %.1f us\n", across ? "across" : "in a node",
          (long long)bytes, 1e6 * sum / n, 1e-9 * (double)bytes * n / sum, n, 1e6 * slowest);
}

static void print_links(FILE *out, const struct profile *p) {
  if (p->n_links) fprintf(out, "\nmessages between neighbouring ranks, one way, all at once:\n");
  for (int64_t i = 0; i < p->n_links; i++) {
    bool seen = false;
    for (int64_t k = 0; k < i && !seen; k++)
      seen = p->links[k].across == p->links[i].across && p->links[k].bytes == p->links[i].bytes;
    if (!seen) print_link(out, p, p->links[i].across, p->links[i].bytes);
  }
}

static void print_copies(FILE *out, const struct profile *p) {
  if (p->n_copies) fprintf(out, "\ncopies between device and host, and disk:\n");
  for (int64_t i = 0; i < p->n_copies; i++) {
    const struct profile_copy *c = &p->copies[i];
    fprintf(out, "  %-10s %12lld bytes  %10.3f ms %8.2f GB/s%s\n", copy_names[c->kind], (long long)c->bytes,
            1e3 * c->seconds, 1e-9 * (double)c->bytes / c->seconds, c->kind == PROFILE_COPY_BOTH ? " each way" : "");
  }
}

char *profile_report_format(const struct profile_report *r) {
  char *buffer = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&buffer, &size);
  CHECK(out, "no memory for a text");
  fprintf(out, "device %s\nmodel %s\nmeasured %s\n", r->profile->device, r->profile->model, r->profile->date);
  print_ops(out, r);
  print_shapes(out, r);
  print_sweeps(out, r->profile);
  print_links(out, r->profile);
  print_copies(out, r->profile);
  if (r->notes && *r->notes) fprintf(out, "\n%s\n", r->notes);
  fprintf(out, "\n%s: %s\n",
          r->measured ? "written" : "all of it is there already, nothing was measured (--again does)", r->path);
  fclose(out);
  char *text = mem_strdup(buffer);
  free(buffer);
  return text;
}

/* ---- for programs ---- */

static json_t *make_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *make_op(const struct model *model, const struct profile_op *op) {
  const struct layer *layer = find_layer(model, (int)op->layer);
  const char *name = layer && op->op < layer->n_ops ? layer->ops[op->op].name : "";
  json_t *object = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:o}", "layer", layer_kind_get_name(op->layer), "op", name,
                             "pass", pass_names[op->pass], "rows", (int)op->rows, "length", (int)op->length, "seconds",
                             make_real(op->seconds), "spread", make_real(op->spread));
  for (int c = 0; c < PROFILE_COUNTER_COUNT; c++)
    json_object_set_new(object, counter_names[c], make_real(op->counters[c]));
  return object;
}

static json_t *make_ops(const struct profile_report *r) {
  json_t *list = json_array();
  for (int64_t i = 0; i < r->profile->n_ops; i++) json_array_append_new(list, make_op(r->model, &r->profile->ops[i]));
  return list;
}

static json_t *make_sweeps(const struct profile *p) {
  json_t *list = json_array();
  for (int64_t i = 0; i < p->n_sweeps; i++)
    json_array_append_new(list, json_pack("{s:s, s:I, s:o}", "kind", sweep_names[p->sweeps[i].kind], "floats",
                                          (json_int_t)p->sweeps[i].floats, "seconds", make_real(p->sweeps[i].seconds)));
  return list;
}

static json_t *make_links(const struct profile *p) {
  json_t *list = json_array();
  for (int64_t i = 0; i < p->n_links; i++) {
    const struct profile_link *l = &p->links[i];
    json_array_append_new(list,
                          json_pack("{s:i, s:i, s:b, s:I, s:o}", "from", (int)l->from, "to", (int)l->to, "across",
                                    (int)l->across, "bytes", (json_int_t)l->bytes, "seconds", make_real(l->seconds)));
  }
  return list;
}

static json_t *make_copies(const struct profile *p) {
  json_t *list = json_array();
  for (int64_t i = 0; i < p->n_copies; i++)
    json_array_append_new(list, json_pack("{s:s, s:I, s:o}", "kind", copy_names[p->copies[i].kind], "bytes",
                                          (json_int_t)p->copies[i].bytes, "seconds", make_real(p->copies[i].seconds)));
  return list;
}

static json_t *make_notes(const char *notes) { return json_make_text(notes ? notes : ""); }

char *profile_report_format_json(const struct profile_report *r) {
  const struct profile *p = r->profile;
  json_t *root = json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "file", json_make_text(r->path),
                           "device", json_make_text(p->device), "model", json_make_text(p->model), "date",
                           json_make_text(p->date), "measured", (int)r->measured, "notes", make_notes(r->notes), "ops",
                           make_ops(r), "sweeps", make_sweeps(p), "links", make_links(p), "copies", make_copies(p));
  char *dump = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
  CHECK(dump, "a profile that JSON cannot hold");
  char *text = mem_format("%s\n", dump);
  free(dump);
  json_decref(root);
  return text;
}
