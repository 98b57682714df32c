/* Times from a profile: exact where it was measured, in between and beyond along the op's own work, for every op of
 * random points; messages by least squares; and what is done when there is no profile, an empty one, one of another
 * model or device, or one that lacks an op: the preset's times, said so, never a failure. */
#include "deck_texts.h"

#include "cost/cost_fit.h"
#include "cost/profile.h"
#include "make_plan.h"
#include "model/op_work.h"

static bool is_close(double a, double b, double part) { return fabs(a - b) <= part * (fabs(a) + fabs(b)) + 1e-18; }

static struct cost *open_cost(const char *yaml, const struct model *model, int32_t n_ranks,
                              const struct cost_measured *measured, char **notes) {
  struct params params = parse_good(yaml, NULL);
  struct cost *cost = NULL;
  int status = cost_create_measured(&params, model, n_ranks, measured, &cost, notes);
  T_CHECK(!status, "%s: %s", yaml, error_text());
  if (status) exit(1);
  params_fini(&params);
  return cost;
}

/* ---- profiles by hand ---- */

static const int32_t all_rows[] = {1, 2, 5}, all_lengths[] = {16, 32, 128};
enum { N_ROWS = 3, N_LENGTHS = 3, N_SHAPES = N_ROWS * N_LENGTHS };

typedef double time_function(const struct model *model, int32_t layer, int op, enum pass pass,
                             struct micro_shape shape);

static int32_t find_kind(const struct model *model, enum layer_kind kind) {
  for (int32_t l = 0; l < model->n_layers; l++)
    if (model->layers[l].kind == kind) return l;
  return -1;
}

/* Every op at every shape of the grid; the order is no order. */
static struct profile *make_profile(const struct model *model, time_function *get_seconds) {
  char *name = profile_describe_model(model);
  struct profile *profile = profile_create("a test device", name);
  for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
    int32_t l = find_kind(model, (enum layer_kind)kind);
    for (int o = 0; o < model->layers[l].n_ops; o++)
      for (int pass = 0; pass < PASS_COUNT; pass++)
        for (int i = 0; i < N_SHAPES; i++) {
          int32_t rows = all_rows[i * 7 % N_SHAPES % N_ROWS], length = all_lengths[i * 7 % N_SHAPES / N_ROWS];
          struct profile_op row = {.layer = (enum layer_kind)kind,
                                   .op = o,
                                   .pass = (enum pass)pass,
                                   .rows = rows,
                                   .length = length,
                                   .seconds =
                                       get_seconds(model, l, o, (enum pass)pass, micro_shape_fill(rows, length))};
          profile_put_ops(profile, &row, 1);
        }
  }
  const struct profile_sweep sweeps[] = {{PROFILE_UPDATE, 4000, 5e-6},
                                         {PROFILE_UPDATE, 1000, 2e-6},
                                         {PROFILE_NORM, 1000, 1e-6},
                                         {PROFILE_NORM, 4000, 4e-6},
                                         {PROFILE_TIE, 848, 3e-6}};
  const struct profile_copy copies[] = {{PROFILE_COPY_OUT, 1000, 1},
                                        {PROFILE_COPY_BOTH, 1000, 3e-6},
                                        {PROFILE_COPY_BOTH, 1000000, 1002e-6},
                                        {PROFILE_DISK_WRITE, 1000000, 1e-2 + 1e-4},
                                        {PROFILE_DISK_WRITE, 2000000, 2e-2 + 1e-4},
                                        {PROFILE_DISK_READ, 1000000, 1e-3}};
  profile_set_sweeps(profile, sweeps, 5);
  profile_set_copies(profile, copies, 6);
  mem_free(name);
  return profile;
}

/* Any number, the same for the same op and shape. */
static double make_noise(const struct model *model, int32_t layer, int op, enum pass pass, struct micro_shape shape) {
  (void)model;
  uint64_t x = (uint64_t)(((layer * 31 + op) * 31 + (int)pass) * 31 + shape.rows) * 1000003u + (uint64_t)shape.length;
  x = (x ^ (x >> 13)) * 0x9E3779B97F4A7C15u;
  return 1e-6 * (1 + (double)(x >> 40 & 0xffff) / 65536);
}

/* What a device takes that has a start-up time and a rate for flops and bytes each, which are polynomials of the shape.
 */
static double make_physics(const struct model *model, int32_t layer, int op, enum pass pass, struct micro_shape shape) {
  struct op_work work[PASS_COUNT];
  const struct layer *l = &model->layers[layer];
  op_work_count(model, l, &l->ops[op], shape, work);
  const struct op_work *own = &work[(int)pass];
  double amount = own->flops > 0 ? own->flops / 3e9 : own->bytes / 5e9;
  return 2e-6 + amount * (1 + op % 3);
}

static struct cost_measured make_measured(const struct profile *profile) {
  return (struct cost_measured){.profile = profile, .path = "p.h5", .device = "a test device"};
}

/* ---- points, between, beyond ---- */

static const char yaml[] = "cost: {source: profile}\n";

static void test_exact(void) {
  struct model *model = make_tiny_model(2, true);
  struct profile *profile = make_profile(model, make_noise);
  struct cost_measured measured = make_measured(profile);
  char *notes;
  struct cost *cost = open_cost(yaml, model, 1, &measured, &notes);
  T_CHECK(!strcmp(notes, "profile p.h5 was measured on a test device") && cost_is_measured(cost), "notes '%s'", notes);
  T_CHECK(!strcmp(cost_get_source(cost), "profile p.h5"), "source '%s'", cost_get_source(cost));
  int n = 0;
  for (int64_t i = 0; i < profile->n_ops; i++) {
    const struct profile_op *row = &profile->ops[i];
    for (int32_t l = 0; l < model->n_layers; l++) {
      if (model->layers[l].kind != row->layer) continue;
      double got = cost_get_op(cost, 0, l, row->op, row->pass, profile_op_get_shape(row));
      T_CHECK(got == row->seconds, "layer %d op %d pass %d at %d x %d takes %g, measured %g", (int)l, row->op,
              (int)row->pass, (int)row->rows, (int)row->length, got, row->seconds);
      n++;
    }
  }
  T_CHECK(n > 500, "only %d points", n);
  T_CHECK(is_close(cost_get_update(cost, 0, 2500), 3.5e-6, 1e-12), "%g", cost_get_update(cost, 0, 2500));
  T_CHECK(is_close(cost_get_update(cost, 0, 7000), 8e-6, 1e-12), "%g", cost_get_update(cost, 0, 7000));
  T_CHECK(cost_get_update(cost, 0, 0) == 0 && cost_get_norm(cost, 0, 4000) == 4e-6, "norm %g",
          cost_get_norm(cost, 0, 4000));
  T_CHECK(is_close(cost_get_copy(cost, 0, 500000, 1), 502e-6, 1e-9), "a copy takes %g",
          cost_get_copy(cost, 0, 500000, 1));
  T_CHECK(is_close(cost_get_disk(cost, 0, true, 3000000), 3e-2 + 1e-4, 1e-9), "a write takes %g",
          cost_get_disk(cost, 0, true, 3000000));
  T_CHECK(is_close(cost_get_disk(cost, 0, false, 1000000), 1e-3, 1e-9), "a read takes %g",
          cost_get_disk(cost, 0, false, 1000000));
  cost_destroy(&cost);
  mem_free(notes);
  profile_destroy(&profile);
  model_destroy(&model);
}

/* Times that are affine in the op's work are met everywhere, so is attention's square of the length. */
static void test_between(void) {
  static const int64_t shapes[][2] = {{3, 16}, {2, 50}, {5, 100}, {1, 17}, {4, 127}, {6, 16}, {2, 256}, {9, 300}};
  struct model *model = make_tiny_model(2, true);
  struct profile *profile = make_profile(model, make_physics);
  struct cost_measured measured = make_measured(profile);
  char *notes;
  struct cost *cost = open_cost(yaml, model, 1, &measured, &notes);
  for (int32_t l = 0; l < model->n_layers; l++)
    for (int o = 0; o < model->layers[l].n_ops; o++)
      for (int pass = 0; pass < PASS_COUNT; pass++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
          int64_t rows = shapes[i][0], length = shapes[i][1];
          double want = make_physics(model, l, o, (enum pass)pass, micro_shape_fill(rows, length));
          double got = cost_get_op(cost, 0, l, o, (enum pass)pass, micro_shape_fill(rows, length));
          bool has_work = want > 2e-6;
          T_CHECK(!has_work || is_close(got, want, 1e-9), "layer %d op %d pass %d at %lld x %lld takes %g, not %g",
                  (int)l, o, pass, (long long)rows, (long long)length, got, want);
        }
  cost_destroy(&cost);
  mem_free(notes);
  profile_destroy(&profile);
  model_destroy(&model);
}

/* Where the points grow with rows and length, so does everything between and beyond them. */
static void test_monotone(void) {
  struct model *model = make_tiny_model(2, false);
  struct profile *profile = make_profile(model, make_physics);
  for (int64_t i = 0; i < profile->n_ops; i++) { /* another efficiency at every length and at every number of rows */
    struct profile_op *row = &profile->ops[i];
    row->seconds *= 1 + 0.2 * (row->length > 16) + 0.3 * (row->length > 32) + 0.1 * (row->rows > 1);
  }
  struct cost_measured measured = make_measured(profile);
  char *notes;
  struct cost *cost = open_cost(yaml, model, 1, &measured, &notes);
  for (int32_t l = 0; l < model->n_layers; l++)
    for (int o = 0; o < model->layers[l].n_ops; o++) {
      for (int64_t rows = 1; rows <= 8; rows++)
        for (int64_t length = 8; length < 200; length += 4) {
          double here = cost_get_op(cost, 0, l, o, PASS_FORWARD, micro_shape_fill(rows, length));
          double longer = cost_get_op(cost, 0, l, o, PASS_FORWARD, micro_shape_fill(rows, length + 4));
          double more = cost_get_op(cost, 0, l, o, PASS_FORWARD, micro_shape_fill(rows + 1, length));
          T_CHECK(here > 0 && longer >= here && more >= here,
                  "layer %d op %d: %lld x %lld takes %g, four tokens more %g, a row more %g", (int)l, o,
                  (long long)rows, (long long)length, here, longer, more);
        }
    }
  cost_destroy(&cost);
  mem_free(notes);
  profile_destroy(&profile);
  model_destroy(&model);
}

/* ---- links and speeds ---- */

static void test_link_fit(void) {
  struct cost_point points[] = {{0, 3e-6}, {1000, 4e-6}, {1e6, 1003e-6}, {1e8, 3e-6 + 0.1}};
  struct cost_link link = {9, 9};
  cost_fit_link(points, 4, &link);
  T_CHECK(is_close(link.latency_s, 3e-6, 1e-9) && is_close(link.bytes_per_s, 1e9, 1e-9), "%g s, %g B/s", link.latency_s,
          link.bytes_per_s);
  link = (struct cost_link){1e-6, 9};
  cost_fit_link(&points[2], 1, &link); /* one size: the rest of its time */
  T_CHECK(link.latency_s == 1e-6 && is_close(link.bytes_per_s, 1e6 / 1002e-6, 1e-9), "%g B/s", link.bytes_per_s);
  link = (struct cost_link){1e-6, 9};
  cost_fit_link(points, 0, &link);
  T_CHECK(link.latency_s == 1e-6 && link.bytes_per_s == 9, "%g B/s", link.bytes_per_s);
  struct cost_point steep[] = {{1000, 1e-6}, {1e6, 5e-3}}; /* a line through them has a latency below 0 */
  link = (struct cost_link){1e-6, 9};
  cost_fit_link(steep, 2, &link);
  T_CHECK(link.latency_s == 0 && link.bytes_per_s > 0 && link.bytes_per_s < 2e9, "%g s, %g B/s", link.latency_s,
          link.bytes_per_s);
}

static void test_links(void) {
  struct model *model = make_tiny_model(2, false);
  struct profile *profile = make_profile(model, make_physics);
  struct profile_link links[] = {{0, 1, false, 1000, 2e-6 + 1000 / 4e9}, {2, 3, false, 1000000, 2e-6 + 1e6 / 4e9}};
  profile_set_links(profile, links, 2);
  struct cost_measured measured = make_measured(profile);
  char *notes;
  struct cost *cost = open_cost("cost: {source: profile, node_size: 2}\ndevice: {rank_speeds: {1: 0.5}}\n", model, 4,
                                &measured, &notes);
  struct cost_link inside = cost_get_link(cost, 0, 1), across = cost_get_link(cost, 1, 2);
  T_CHECK(is_close(inside.latency_s, 2e-6, 1e-6) && is_close(inside.bytes_per_s, 4e9, 1e-6), "%g s, %g B/s",
          inside.latency_s, inside.bytes_per_s);
  T_CHECK(across.bytes_per_s == 12.5e9 && !cost_is_measured(cost), "across nodes %g B/s", across.bytes_per_s);
  T_CHECK(strstr(notes, "no messages between nodes") && strstr(notes, "not measured"), "notes '%s'", notes);
  T_CHECK(strstr(cost_get_source(cost), "messages not measured"), "source '%s'", cost_get_source(cost));
  T_CHECK(is_close(cost_get_layer(cost, 1, 1, PASS_FORWARD, micro_shape_fill(2, 32)),
                   2 * cost_get_layer(cost, 0, 1, PASS_FORWARD, micro_shape_fill(2, 32)), 1e-12),
          "a rank of half the speed does not take twice as long");
  cost_destroy(&cost);
  mem_free(notes);

  links[1] = (struct profile_link){1, 2, true, 1000000, 1e-5 + 1e6 / 1e9};
  profile_set_links(profile, links, 2);
  cost = open_cost(yaml, model, 4, &measured, &notes); /* the first pair across tells where nodes end */
  T_CHECK(cost_get_link(cost, 0, 1).bytes_per_s != cost_get_link(cost, 1, 2).bytes_per_s && cost_is_measured(cost),
          "nodes of 2 are not found: '%s'", notes);
  cost_destroy(&cost);
  mem_free(notes);
  profile_destroy(&profile);
  model_destroy(&model);
}

/* ---- what may be lacking: a planner's user on a machine unlike ours meets no crash and no silence ---- */

static void check_fallback(const struct model *model, const struct cost_measured *measured, const char *reason) {
  char *notes, *preset_notes;
  struct cost *cost = open_cost(yaml, model, 2, measured, &notes);
  struct cost *preset = open_cost("cost: {source: preset}\n", model, 2, NULL, &preset_notes);
  T_CHECK(strstr(cost_get_source(cost), "not measured") && strstr(cost_get_source(cost), reason), "source '%s'",
          cost_get_source(cost));
  T_CHECK(strstr(notes, "not measured") && strstr(notes, reason), "notes '%s'", notes);
  T_CHECK(!cost_is_measured(cost), "%s: measured", reason);
  for (int32_t l = 0; l < model->n_layers; l++)
    for (int pass = 0; pass < PASS_COUNT; pass++)
      T_CHECK(cost_get_layer(cost, 1, l, (enum pass)pass, micro_shape_fill(3, 20)) ==
                  cost_get_layer(preset, 1, l, (enum pass)pass, micro_shape_fill(3, 20)),
              "%s: layer %d is not priced as by the preset", reason, (int)l);
  T_CHECK(cost_get_update(cost, 0, 999) == cost_get_update(preset, 0, 999) &&
              cost_get_norm(cost, 0, 999) == cost_get_norm(preset, 0, 999) &&
              cost_get_message(cost, 0, 1, 999) == cost_get_message(preset, 0, 1, 999),
          "%s: updates, norm or messages are not the preset's", reason);
  cost_destroy(&cost);
  cost_destroy(&preset);
  mem_free(notes);
  mem_free(preset_notes);
}

static void test_none(void) {
  struct model *model = make_tiny_model(2, true), *other = make_tiny_model(2, false);
  char *name = profile_describe_model(model);
  struct profile *empty = profile_create("a test device", name), *full = make_profile(other, make_physics);
  struct cost_measured measured = {.path = "p.h5", .reason = "there is no such file"};
  check_fallback(model, NULL, "no profile was read");
  check_fallback(model, &measured, "p.h5: there is no such file");
  measured = make_measured(empty);
  check_fallback(model, &measured, "it is empty");
  measured = make_measured(full);
  check_fallback(model, &measured, "another model");
  struct profile_op bad[] = {{.layer = LAYER_MLP, .op = 99, .rows = 1, .length = 1, .seconds = 1},
                             {.layer = LAYER_MLP, .rows = 1, .length = 1, .seconds = NAN},
                             {.layer = LAYER_KIND_COUNT, .rows = 1, .length = 1, .seconds = 1},
                             {.layer = LAYER_MLP, .rows = 0, .length = 1, .seconds = 1}};
  profile_put_ops(empty, bad, 4);
  measured = make_measured(empty);
  check_fallback(model, &measured, "no times of this model's ops");
  profile_destroy(&empty);
  profile_destroy(&full);
  mem_free(name);
  model_destroy(&model);
  model_destroy(&other);
}

static void drop_op(struct profile *profile, enum layer_kind layer, int op, enum pass pass) {
  int64_t n = 0;
  for (int64_t i = 0; i < profile->n_ops; i++) {
    const struct profile_op *row = &profile->ops[i];
    if (row->layer != layer || row->op != op || row->pass != pass) profile->ops[n++] = *row;
  }
  profile->n_ops = n;
}

/* Of a device that takes twice the preset's times a lacking op takes twice its time. */
static void test_lacks_one(void) {
  struct model *model = make_tiny_model(2, false);
  char *notes;
  struct cost *preset = open_cost("cost: {source: preset}\n", model, 1, NULL, &notes);
  struct profile *profile = make_profile(model, make_physics);
  for (int64_t i = 0; i < profile->n_ops; i++) {
    struct profile_op *row = &profile->ops[i];
    row->seconds =
        2 * cost_get_op(preset, 0, find_kind(model, row->layer), row->op, row->pass, profile_op_get_shape(row));
  }
  mem_free(notes);
  int32_t l = find_kind(model, LAYER_ATTENTION);
  drop_op(profile, LAYER_ATTENTION, 1, PASS_FORWARD);
  profile->n_sweeps = profile->n_copies = 0;
  struct cost_measured measured = make_measured(profile);
  struct cost *cost = open_cost(yaml, model, 1, &measured, &notes);
  char *lacks = mem_format("lacks attention.%s forward, updates, norm", model->layers[l].ops[1].name);
  T_CHECK(strstr(notes, lacks) && strstr(notes, "not measured"), "'%s' is not in '%s'", lacks, notes);
  T_CHECK(strstr(notes, "has no copies to the host, no disk:"), "notes '%s'", notes);
  T_CHECK(!strcmp(cost_get_source(cost), "profile p.h5, not measured in part") && !cost_is_measured(cost),
          "source '%s'", cost_get_source(cost));
  T_CHECK(is_close(cost_get_op(cost, 0, l, 1, PASS_FORWARD, micro_shape_fill(3, 40)),
                   2 * cost_get_op(preset, 0, l, 1, PASS_FORWARD, micro_shape_fill(3, 40)), 1e-12) &&
              is_close(cost_get_update(cost, 0, 999), 2 * cost_get_update(preset, 0, 999), 1e-12),
          "what is lacking is not at the level of the rest");
  cost_destroy(&cost);
  cost_destroy(&preset);
  mem_free(lacks);
  mem_free(notes);
  profile_destroy(&profile);
  model_destroy(&model);
}

static void test_elsewhere(void) {
  struct model *model = make_tiny_model(2, false);
  struct profile *profile = make_profile(model, make_physics);
  struct cost_measured measured = make_measured(profile);
  char *notes;
  measured.device = "a laptop";
  struct cost *cost = open_cost(yaml, model, 1, &measured, &notes);
  T_CHECK(strstr(notes, "of a test device; here is a laptop") && strstr(notes, "not measured here"), "notes '%s'",
          notes);
  T_CHECK(strstr(cost_get_source(cost), "another device, not measured here") && !cost_is_measured(cost), "source '%s'",
          cost_get_source(cost));
  cost_destroy(&cost);
  mem_free(notes);
  measured.device = NULL; /* not known: nothing to compare with */
  cost = open_cost("cost: {source: profile}\ndata: {sequence_length: 512, global_batch: 9, micro_batch: 9}\n", model, 1,
                   &measured, &notes);
  T_CHECK(cost_is_measured(cost) && strstr(notes, "1 to 5 rows of up to 128 tokens") && strstr(notes, "extrapolated"),
          "notes '%s'", notes);
  cost_destroy(&cost);
  mem_free(notes);
  profile_destroy(&profile);
  model_destroy(&model);
}

/* A deck that names a profile wants its times. */
static void test_default_source(void) {
  struct params params = parse_good("cost: {profile: p.h5}\n", NULL);
  T_CHECK(params.cost.source == PARAMS_COST_SOURCE_PROFILE && !strcmp(params.cost.profile, "p.h5"), "source %d",
          (int)params.cost.source);
  params_fini(&params);
  params = parse_good("cost: {profile: p.h5, source: preset}\n", NULL);
  T_CHECK(params.cost.source == PARAMS_COST_SOURCE_PRESET, "source %d", (int)params.cost.source);
  params_fini(&params);
  params = parse_good("run: {folder: somewhere}\n", NULL);
  T_CHECK(params.cost.source == PARAMS_COST_SOURCE_PRESET && !strcmp(params.cost.profile, "somewhere/profile.h5"),
          "profile %s", params.cost.profile);
  params_fini(&params);
}

int main(void) {
  test_exact();
  test_between();
  test_monotone();
  test_link_fit();
  test_links();
  test_none();
  test_lacks_one();
  test_elsewhere();
  test_default_source();
  return t_end();
}
