/* Times that were measured: ops, updates and the norm by the lines of cost_fit.h through the profile's points, links by
 * least squares. What the profile lacks the preset gives, brought to the level of what is there, and both the notes and
 * the source's text say so.
 */
#include "cost/cost_fit.h"
#include "cost/cost_source.h"
#include "cost/profile.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/footprint.h"
#include "model/op_work.h"

struct op_points {
  struct cost_shape_point *points;
  int64_t n;
};

enum { N_SWEEPS = PROFILE_TIE + 1 };

struct measured {
  struct cost preset; /* what is lacking */
  struct op_points ops[LAYER_KIND_COUNT][LAYER_MAX_OPS][PASS_COUNT];
  struct cost_point *sweeps[N_SWEEPS];
  int n_sweeps[N_SWEEPS];
  double scale[OP_KIND_COUNT]; /* of the preset's times: measured over counted, in all points of a kind of op */
};

static const char *const pass_names[PASS_COUNT] = {
    [PASS_FORWARD] = "forward", [PASS_INPUT] = "input", [PASS_WEIGHT] = "weight"};

static int32_t find_layer(const struct model *model, enum layer_kind kind) {
  for (int32_t l = 0; l < model->n_layers; l++)
    if (model->layers[l].kind == kind) return l;
  return -1;
}

/* ---- work ---- */

struct op_place {
  const struct model *model;
  const struct layer *layer;
  const struct op *op;
  enum pass pass;
};

static double get_work(const void *context, struct micro_shape shape) {
  const struct op_place *place = context;
  struct op_work work[PASS_COUNT];
  op_work_count(place->model, place->layer, place->op, shape, work);
  const struct op_work *own = &work[place->pass];
  return own->flops > 0 ? own->flops : own->bytes > 0 ? own->bytes : (double)micro_shape_count_positions(shape);
}

/* ---- points ---- */

/* The measurement as a place in the model's tables; false for one that is none. */
static bool find_place(const struct model *model, const struct profile_op *row, struct op_place *place) {
  int32_t l = row->layer < LAYER_KIND_COUNT ? find_layer(model, row->layer) : -1;
  if (l < 0 || row->op < 0 || row->op >= model->layers[l].n_ops || row->pass >= PASS_COUNT) return false;
  const struct layer *layer = &model->layers[l];
  *place = (struct op_place){model, layer, &layer->ops[row->op], row->pass};
  return row->rows > 0 && row->length > 0 && isfinite(row->seconds) && row->seconds >= 0;
}

static int compare_shapes(const void *left, const void *right) {
  const struct cost_shape_point *a = left, *b = right;
  if (a->length != b->length) return a->length < b->length ? -1 : 1;
  return (a->rows > b->rows) - (a->rows < b->rows);
}

static int compare_points(const void *left, const void *right) {
  const struct cost_point *a = left, *b = right;
  return (a->work > b->work) - (a->work < b->work);
}

static void add_point(struct op_points *list, const struct cost_shape_point *point) {
  list->points = mem_resize(list->points, sizeof *point * (size_t)(list->n + 1));
  list->points[list->n++] = *point;
}

/* Takes the profile's ops; returns how many there were. */
static int64_t take_ops(struct measured *m, const struct model *model, const struct profile *profile) {
  int64_t n = 0;
  for (int64_t i = 0; i < profile->n_ops; i++) {
    const struct profile_op *row = &profile->ops[i];
    struct op_place place;
    if (!find_place(model, row, &place)) continue;
    struct cost_shape_point point = {
        row->rows, row->length, {get_work(&place, profile_op_get_shape(row)), row->seconds}};
    add_point(&m->ops[row->layer][row->op][row->pass], &point);
    n++;
  }
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
    for (int o = 0; o < LAYER_MAX_OPS; o++)
      for (int pass = 0; pass < PASS_COUNT; pass++) {
        struct op_points *list = &m->ops[kind][o][pass];
        if (list->n > 1) qsort(list->points, (size_t)list->n, sizeof *list->points, compare_shapes);
      }
  return n;
}

static void take_sweeps(struct measured *m, const struct profile *profile) {
  for (int k = 0; k < N_SWEEPS; k++) {
    struct cost_point *points = MEM_NEW(struct cost_point, profile->n_sweeps);
    int n = 0;
    for (int64_t i = 0; i < profile->n_sweeps && n < INT_MAX; i++) {
      const struct profile_sweep *row = &profile->sweeps[i];
      if ((int)row->kind == k && row->floats > 0 && isfinite(row->seconds) && row->seconds > 0)
        points[n++] = (struct cost_point){(double)row->floats, row->seconds};
    }
    if (n > 1) qsort(points, (size_t)n, sizeof *points, compare_points);
    m->sweeps[k] = points;
    m->n_sweeps[k] = n;
  }
}

/* Measured over counted by kind of op; of a kind that was not measured, of all. */
static void take_scales(struct measured *m, const struct model *model) {
  double seconds[OP_KIND_COUNT] = {0}, counted[OP_KIND_COUNT] = {0}, all_seconds = 0, all_counted = 0;
  for (int32_t kind = 0; kind < LAYER_KIND_COUNT; kind++) {
    int32_t l = find_layer(model, (enum layer_kind)kind);
    for (int o = 0; l >= 0 && o < model->layers[l].n_ops; o++)
      for (int pass = 0; pass < PASS_COUNT; pass++)
        for (int64_t i = 0; i < m->ops[kind][o][pass].n; i++) {
          const struct cost_shape_point *p = &m->ops[kind][o][pass].points[i];
          enum op_kind op = model->layers[l].ops[o].kind;
          seconds[op] += p->at.seconds;
          counted[op] += cost_preset.get_op(&m->preset, 0, l, o, (enum pass)pass, micro_shape_fill(p->rows, p->length));
        }
  }
  for (int op = 0; op < OP_KIND_COUNT; op++) {
    all_seconds += seconds[op];
    all_counted += counted[op];
  }
  double all = all_seconds > 0 && all_counted > 0 ? all_seconds / all_counted : 1;
  for (int op = 0; op < OP_KIND_COUNT; op++)
    m->scale[op] = seconds[op] > 0 && counted[op] > 0 ? seconds[op] / counted[op] : all;
}

/* ---- what is lacking ---- */

/* Names the first of the ops without a point; owned by the caller, NULL when all are there. */
static char *list_lacking(const struct measured *m, const struct model *model) {
  enum { MOST_NAMES = 4 };
  char *text = NULL;
  int n = 0;
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
    int32_t l = find_layer(model, (enum layer_kind)kind);
    for (int o = 0; l >= 0 && o < model->layers[l].n_ops; o++)
      for (int pass = 0; pass < PASS_COUNT; pass++) {
        bool works = cost_preset.get_op(&m->preset, 0, l, o, (enum pass)pass, micro_shape_fill(1, 1)) > 0;
        if (m->ops[kind][o][pass].n || !works || n++ >= MOST_NAMES) continue;
        char *longer =
            mem_format("%s%s%s.%s %s", text ? text : "", text ? ", " : "", layer_kind_get_name((enum layer_kind)kind),
                       model->layers[l].ops[o].name, pass_names[pass]);
        mem_free(text);
        text = longer;
      }
  }
  for (int k = 0; k < N_SWEEPS; k++) {
    static const char *const names[] = {"updates", "norm", "sums of the tied table"};
    if (m->n_sweeps[k] || (k == PROFILE_TIE && !model->n_ties) || n++ >= MOST_NAMES) continue;
    char *longer = mem_format("%s%s%s", text ? text : "", text ? ", " : "", names[k]);
    mem_free(text);
    text = longer;
  }
  if (n <= MOST_NAMES) return text;
  char *longer = mem_format("%s and %d more", text, n - MOST_NAMES);
  mem_free(text);
  return longer;
}

/* A note when the deck's micro-batches are larger or longer than all that was measured. */
static void note_range(const struct params *params, const struct profile *profile, const char *path, char **notes) {
  int64_t rows = 0, length = 0, least = INT64_MAX;
  if (!params_is_set(params, PARAM_data_sequence_length) || !params_is_set(params, PARAM_data_global_batch)) return;
  for (int64_t i = 0; i < profile->n_ops; i++) {
    const struct profile_op *op = &profile->ops[i];
    if (op->rows > rows) rows = op->rows;
    if (op->length > length) length = op->length;
    if (op->rows < least) least = op->rows;
  }
  int64_t global = params->data.global_batch, micro = params->data.micro_batch;
  int64_t largest = micro < global ? micro : global, smallest = global % micro ? global % micro : largest;
  if (largest > rows || params->data.sequence_length > length || smallest < least)
    cost_add_note(notes,
                  "%s was measured for %lld to %lld rows of up to %lld tokens; micro-batches of %lld rows of %lld are "
                  "extrapolated: profile this deck for times of its own",
                  path, (long long)least, (long long)rows, (long long)length,
                  (long long)(largest > rows ? largest : smallest), (long long)params->data.sequence_length);
}

/* ---- links ---- */

/* Finds the link of the measured messages inside or across nodes, the preset's where none was measured. Returns true
 * when it was measured. */
static bool take_link(const struct profile *profile, bool across, struct cost_link *link) {
  struct cost_point *points = MEM_NEW(struct cost_point, profile->n_links);
  int64_t n = 0;
  for (int64_t i = 0; i < profile->n_links; i++) {
    const struct profile_link *row = &profile->links[i];
    if (row->across == across && row->bytes >= 0 && isfinite(row->seconds) && row->seconds > 0)
      points[n++] = (struct cost_point){(double)row->bytes, row->seconds};
  }
  cost_fit_link(points, n, link);
  mem_free(points);
  return n > 0;
}

/* Ranks are numbered node by node: the first pair that is across says how many a node has. */
static int64_t find_node_size(const struct profile *profile, int64_t otherwise) {
  int64_t size = INT64_MAX;
  for (int64_t i = 0; i < profile->n_links; i++) {
    const struct profile_link *row = &profile->links[i];
    int32_t upper = row->from > row->to ? row->from : row->to;
    if (row->across && upper < size) size = upper;
  }
  return size < INT64_MAX && size > 0 ? size : otherwise;
}

static bool take_links(struct cost *cost, const struct params *params, const struct profile *profile, const char *path,
                       char **notes) {
  bool all = true;
  bool inside = take_link(profile, false, &cost->inside), across = take_link(profile, true, &cost->across);
  bool given = params->cost.link.given[PARAMS_LINK_latency_us] && params->cost.link.given[PARAMS_LINK_gb_per_s];
  cost->node_size = find_node_size(profile, cost->node_size);
  int64_t node_size = params_is_set(params, PARAM_cost_node_size) ? params->cost.node_size : cost->node_size;
  const bool lacks[] = {!inside && cost->n_ranks > 1 && node_size > 1, !across && cost->n_ranks > node_size};
  for (int i = 0; i < 2; i++) {
    if (!lacks[i] || given) continue;
    all = false;
    cost_add_note(notes, "%s has no messages %s nodes: they take what preset %s says, not measured", path,
                  i ? "between" : "inside", params_get_choice(params, PARAM_device_preset));
  }
  return all;
}

/* ---- copies and disk ---- */

/* True when there were some. */
static bool take_way(const struct profile *profile, enum profile_copy_kind kind, struct cost_link *way) {
  struct cost_point *points = MEM_NEW(struct cost_point, profile->n_copies);
  int64_t n = 0;
  for (int64_t i = 0; i < profile->n_copies; i++) {
    const struct profile_copy *row = &profile->copies[i];
    if (row->kind == kind && row->bytes > 0 && isfinite(row->seconds) && row->seconds > 0)
      points[n++] = (struct cost_point){(double)row->bytes, row->seconds};
  }
  cost_fit_link(points, n, way);
  mem_free(points);
  return n > 0;
}

/* A step that moves blocks moves them both ways at once: that is the rate of the host's link where it was measured.
 * They matter to plans that move blocks alone, so that what they lack is noted, but no reason to call all times
 * guessed. */
static void take_copies(struct cost *cost, const struct params *params, const struct profile *profile, const char *path,
                        char **notes) {
  bool host = take_way(profile, PROFILE_COPY_BOTH, &cost->host) || take_way(profile, PROFILE_COPY_OUT, &cost->host) ||
              take_way(profile, PROFILE_COPY_IN, &cost->host);
  bool write = take_way(profile, PROFILE_DISK_WRITE, &cost->disk_write);
  bool read = take_way(profile, PROFILE_DISK_READ, &cost->disk_read);
  if (!host || !write || !read)
    cost_add_note(notes,
                  "profile %s has no %s%s%s: where a plan needs them they take what preset %s says, not measured", path,
                  host ? "" : "copies to the host", !host && !(write && read) ? ", no " : "",
                  write && read ? "" : "disk", params_get_choice(params, PARAM_device_preset));
}

/* ---- the source ---- */

/* Why there is nothing to go by at all; NULL: there is something. */
static const char *find_reason(const struct cost_measured *measured, const char *model) {
  if (!measured || (!measured->profile && !measured->reason)) return "no profile was read";
  if (!measured->profile) return measured->reason;
  if (measured->profile->n_ops == 0) return "it is empty";
  if (strcmp(measured->profile->model, model)) return "it is of another model";
  return NULL;
}

static void put_preset(struct cost *cost, const struct params *params, const char *path, const char *reason,
                       char **notes) {
  const char *name = params_get_choice(params, PARAM_device_preset);
  cost->text = mem_format("preset %s, not measured (profile %s: %s)", name, path, reason);
  cost_add_note(notes,
                "profile %s: %s; times are counted from the ops for the preset %s instead, not measured: penstock "
                "profile measures them",
                path, reason, name);
}

static void put_profile(struct cost *cost, const struct params *params, const struct cost_measured *measured,
                        char **notes) {
  struct measured *m = cost->data;
  const struct profile *profile = measured->profile;
  const char *path = measured->path, *name = params_get_choice(params, PARAM_device_preset);
  take_sweeps(m, profile);
  take_scales(m, cost->model);
  char *lacking = list_lacking(m, cost->model);
  bool linked = take_links(cost, params, profile, path, notes);
  take_copies(cost, params, profile, path, notes);
  bool elsewhere = measured->device && strcmp(measured->device, profile->device);
  if (lacking)
    cost_add_note(notes,
                  "profile %s lacks %s: they take what preset %s says, brought to the level of the other ops, not "
                  "measured",
                  path, lacking, name);
  if (elsewhere)
    cost_add_note(notes, "profile %s was measured on another device, not measured here: it is of %s; here is %s", path,
                  profile->device, measured->device);
  else
    cost_add_note(notes, "profile %s was measured on %s", path, profile->device);
  note_range(params, profile, path, notes);
  cost->text = mem_format("profile %s%s%s", path, elsewhere ? " of another device, not measured here" : "",
                          lacking   ? ", not measured in part"
                          : !linked ? ", messages not measured"
                                    : "");
  cost->is_measured = !lacking && !elsewhere && linked;
  mem_free(lacking);
}

static int create(struct cost *cost, const struct params *params, const struct cost_measured *measured, char **notes) {
  struct measured *m = MEM_NEW(struct measured, 1);
  char *unwanted = mem_strdup(""), *model = profile_describe_model(cost->model);
  const char *path = measured && measured->path ? measured->path : "profile.h5";
  for (int op = 0; op < OP_KIND_COUNT; op++) m->scale[op] = 1;
  m->preset = *cost;
  int status = cost_preset.create(&m->preset, params, NULL, &unwanted);
  mem_free(unwanted);
  cost->data = m;
  cost->inside = m->preset.inside;
  cost->across = m->preset.across;
  cost->node_size = m->preset.node_size;
  cost->host = m->preset.host;
  cost->disk_write = m->preset.disk_write;
  cost->disk_read = m->preset.disk_read;
  cost->eager_bytes = m->preset.eager_bytes;
  cost->ties = true;
  const char *reason = find_reason(measured, model);
  if (!reason && take_ops(m, cost->model, measured->profile) == 0) reason = "it has no times of this model's ops";
  if (reason)
    put_preset(cost, params, path, reason, notes);
  else
    put_profile(cost, params, measured, notes);
  cost_put_link(cost, params);
  mem_free(model);
  return status;
}

static void destroy(struct cost *cost) {
  struct measured *m = cost->data;
  if (!m) return;
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
    for (int o = 0; o < LAYER_MAX_OPS; o++)
      for (int pass = 0; pass < PASS_COUNT; pass++) mem_free(m->ops[kind][o][pass].points);
  for (int k = 0; k < N_SWEEPS; k++) mem_free(m->sweeps[k]);
  cost_preset.destroy(&m->preset);
  mem_free(m->preset.text);
  mem_free(m);
}

static double get_op(const struct cost *cost, int32_t rank, int32_t layer, int op, enum pass pass,
                     struct micro_shape shape) {
  const struct measured *m = cost->data;
  const struct layer *l = &cost->model->layers[layer];
  const struct op_points *list = &m->ops[l->kind][op][pass];
  if (list->n == 0) return m->scale[l->ops[op].kind] * cost_preset.get_op(&m->preset, rank, layer, op, pass, shape);
  struct op_place place = {cost->model, l, &l->ops[op], pass};
  return cost_fit_surface(list->points, list->n, shape, get_work, &place);
}

static double get_recompute(const struct cost *cost, int32_t rank, int32_t layer, uint32_t discarded,
                            struct micro_shape shape) {
  const struct layer *l = &cost->model->layers[layer];
  double sum = 0;
  for (int o = 0; o < l->n_ops; o++)
    if (footprint_is_rebuilt(l, o, discarded)) sum += get_op(cost, rank, layer, o, PASS_FORWARD, shape);
  return sum;
}

static double get_sweep(const struct measured *m, enum profile_sweep_kind kind, int64_t n_floats, double counted) {
  if (n_floats == 0) return 0;
  if (m->n_sweeps[kind] == 0) return m->scale[OP_NORM] * counted;
  return cost_fit_line(m->sweeps[kind], m->n_sweeps[kind], (double)n_floats);
}

static double get_update(const struct cost *cost, int64_t n_floats) {
  const struct measured *m = cost->data;
  return get_sweep(m, PROFILE_UPDATE, n_floats, cost_preset.get_update(&m->preset, n_floats));
}

static double get_norm(const struct cost *cost, int64_t n_floats) {
  const struct measured *m = cost->data;
  return get_sweep(m, PROFILE_NORM, n_floats, cost_preset.get_norm(&m->preset, n_floats));
}

static double get_tied_sum(const struct cost *cost, int64_t n_floats) {
  const struct measured *m = cost->data;
  return get_sweep(m, PROFILE_TIE, n_floats, cost_preset.get_tied_sum(&m->preset, n_floats));
}

const struct cost_source cost_profile = {.create = create,
                                         .destroy = destroy,
                                         .get_op = get_op,
                                         .get_recompute = get_recompute,
                                         .get_update = get_update,
                                         .get_norm = get_norm,
                                         .get_tied_sum = get_tied_sum,
                                         .knows_ops = true};
