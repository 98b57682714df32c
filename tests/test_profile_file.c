/* profile.h5 there and back: random profiles, files that are cut, changed or something else, and what a profile knows
 * of points and models. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "record/profile_file.h"
#include "store/h5.h"
#include "t.h"
#include "tiny_model.h"

static const char path[] = "profile.h5";
static uint64_t drawn;

static int64_t draw(int64_t n) {
  static const struct rng_key key = {.seed = 7, .purpose = RNG_TEST};
  return (int64_t)(rng_bits(&key, drawn++) % (uint64_t)n);
}
static double draw_time(void) { return 1e-9 * (double)(1 + draw(1000000000)); }

/* Every op of every layer kind in every pass at `points` shapes. */
static struct profile *make_profile(const struct model *model, int points) {
  struct profile *p = profile_create("cpu: a processor, 1 thread a rank", "a model");
  for (int k = 0; k < points; k++)
    for (int32_t l = 0; l < model->n_layers; l++)
      for (int o = 0; o < model->layers[l].n_ops; o++)
        for (int pass = 0; pass < PASS_COUNT; pass++) {
          struct profile_op op = {model->layers[l].kind, o,           (enum pass)pass, k + 1, 16,
                                  draw_time(),           draw_time(), {NAN, NAN}};
          if (draw(2)) op.counters[0] = (double)draw(1000000);
          profile_put_ops(p, &op, 1);
        }
  struct profile_sweep sweeps[] = {{PROFILE_UPDATE, 1 + draw(1000000), draw_time()},
                                   {PROFILE_NORM, 5, draw_time()},
                                   {PROFILE_TIE, (int64_t)1 << 40, draw_time()}};
  struct profile_link links[] = {{0, 1, false, 8, draw_time()}, {1, 0, true, (int64_t)1 << 33, draw_time()}};
  struct profile_copy copies[] = {{PROFILE_COPY_OUT, 64, draw_time()}, {PROFILE_DISK_READ, 128, draw_time()}};
  profile_set_sweeps(p, sweeps, draw(4));
  profile_set_links(p, links, draw(3));
  profile_set_copies(p, copies, draw(3));
  snprintf(p->date, sizeof p->date, "2026-01-02T03:04:05Z");
  return p;
}

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool same_op(const struct profile_op *a, const struct profile_op *b) {
  return a->layer == b->layer && a->op == b->op && a->pass == b->pass && a->rows == b->rows && a->length == b->length &&
         a->seconds == b->seconds && a->spread == b->spread && same_number(a->counters[0], b->counters[0]) &&
         same_number(a->counters[1], b->counters[1]);
}

static void check_same(const struct profile *a, const struct profile *b) {
  T_CHECK(!strcmp(a->device, b->device) && !strcmp(a->model, b->model) && !strcmp(a->date, b->date), "texts");
  T_CHECK(a->n_ops == b->n_ops && a->n_sweeps == b->n_sweeps && a->n_links == b->n_links && a->n_copies == b->n_copies,
          "numbers of rows");
  for (int64_t i = 0; i < a->n_ops; i++) T_CHECK(same_op(&a->ops[i], &b->ops[i]), "op %lld", (long long)i);
  for (int64_t i = 0; i < a->n_sweeps; i++)
    T_CHECK(a->sweeps[i].kind == b->sweeps[i].kind && a->sweeps[i].floats == b->sweeps[i].floats &&
                a->sweeps[i].seconds == b->sweeps[i].seconds,
            "sweep %lld", (long long)i);
  for (int64_t i = 0; i < a->n_links; i++)
    T_CHECK(a->links[i].from == b->links[i].from && a->links[i].to == b->links[i].to &&
                a->links[i].across == b->links[i].across && a->links[i].bytes == b->links[i].bytes &&
                a->links[i].seconds == b->links[i].seconds,
            "link %lld", (long long)i);
  for (int64_t i = 0; i < a->n_copies; i++)
    T_CHECK(a->copies[i].kind == b->copies[i].kind && a->copies[i].bytes == b->copies[i].bytes &&
                a->copies[i].seconds == b->copies[i].seconds,
            "copy %lld", (long long)i);
}

static void test_round_trip(const struct model *model) {
  for (int trial = 0; trial < 30; trial++) {
    struct profile *profile = make_profile(model, (int)draw(4)), *back;
    T_CHECK(!profile_file_write(path, profile), "%s", error_text());
    T_CHECK(!profile_file_read(path, &back) && back, "%s", error_text());
    if (back) check_same(profile, back);
    profile_destroy(&back);
    profile_destroy(&profile);
  }
}

static void refuses(const char *wanted, int status) {
  struct profile *back;
  T_CHECK(profile_file_read(path, &back) == status && !back, "wanted: %s", wanted);
  T_CHECK(strstr(error_text(), wanted) && strstr(error_text(), path), "'%s', wanted: %s", error_text(), wanted);
  profile_destroy(&back);
}

static void write_good(const struct model *model) {
  struct profile *profile = make_profile(model, 1);
  T_CHECK(!profile_file_write(path, profile), "%s", error_text());
  profile_destroy(&profile);
}

/* A file that lost its end is refused, unless all that is read of it is still there. */
static void test_cut(const struct model *model) {
  struct profile *profile = make_profile(model, 1);
  struct stat whole;
  int n_refused = 0;
  T_CHECK(!profile_file_write(path, profile) && !stat(path, &whole), "%s", error_text());
  for (int k = 0; k < 16; k++) {
    struct profile *back;
    T_CHECK(!profile_file_write(path, profile), "%s", error_text());
    T_CHECK(!truncate(path, whole.st_size * k / 16), "truncate");
    int status = profile_file_read(path, &back);
    T_CHECK(status ? status == STATUS_FAILED && !back && strstr(error_text(), path) : back != NULL, "%s", error_text());
    if (back) check_same(profile, back);
    n_refused += status != STATUS_OK;
    profile_destroy(&back);
  }
  T_CHECK(n_refused >= 12, "%d of 16 cut files refused", n_refused);
  profile_destroy(&profile);
}

static void test_other_files(const struct model *model) {
  struct profile *back;
  unlink(path);
  T_CHECK(!profile_file_read(path, &back) && !back, "a file that is not there");
  FILE *file = fopen(path, "w");
  fputs("no HDF5\n", file);
  fclose(file);
  refuses("no HDF5 file", STATUS_MISTAKE);
  struct h5_file *h5;
  T_CHECK(!h5_create(path, &h5) && !h5_write_text(h5, "/", "format", "penstock-plan") && !h5_close(&h5), "%s",
          error_text());
  refuses("is no profile: its format is 'penstock-plan'", STATUS_MISTAKE);
  T_CHECK(!h5_create(path, &h5) && !h5_close(&h5), "%s", error_text());
  refuses("format", STATUS_MISTAKE);
  write_good(model);
  T_CHECK(!h5_open(path, true, &h5) && !h5_write_int(h5, "/", "version", 9) && !h5_close(&h5), "%s", error_text());
  refuses("version 9", STATUS_FAILED);
}

/* A table without its columns, and columns that are not of one length. */
static void test_columns(void) {
  static const struct h5_column seconds = {"seconds", H5_FLOAT64, "s", NULL};
  static const double one = 1;
  const void *data[] = {&one};
  struct profile *empty = profile_create("d", "m");
  struct h5_file *h5;
  T_CHECK(!h5_create(path, &h5), "%s", error_text());
  int status = h5_write_text(h5, "/", "format", "penstock-profile");
  if (!status) status = h5_write_int(h5, "/", "version", 1);
  if (!status) status = h5_write_text(h5, "/", "device", "d");
  if (!status) status = h5_write_text(h5, "/", "model", "m");
  if (!status) status = h5_write_text(h5, "/", "date", "");
  if (!status) status = h5_table_create(h5, "/ops", &seconds, 1);
  if (!status) status = h5_table_append(h5, "/ops", &seconds, 1, 1, data);
  T_CHECK(!status && !h5_close(&h5), "%s", error_text());
  refuses("/ops/layer", STATUS_FAILED);
  struct profile_sweep sweep = {PROFILE_NORM, 3, 1};
  profile_set_sweeps(empty, &sweep, 1);
  T_CHECK(!profile_file_write(path, empty), "%s", error_text());
  static const struct h5_column kind = {"kind", H5_INT8, NULL, NULL};
  T_CHECK(!h5_open(path, true, &h5) && !h5_table_truncate(h5, "/sweeps", &seconds, 1, 0) && !h5_close(&h5), "%s",
          error_text());
  refuses("seconds", STATUS_FAILED);
  T_CHECK(!profile_file_write(path, empty), "%s", error_text());
  T_CHECK(!h5_open(path, true, &h5) && !h5_table_truncate(h5, "/sweeps", &kind, 1, 0) && !h5_close(&h5), "%s",
          error_text());
  struct profile *back;
  T_CHECK(!profile_file_read(path, &back) && back && back->n_sweeps == 0, "the first column counts");
  profile_destroy(&back);
  profile_destroy(&empty);
}

/* Rows that no measurement gives. */
static void test_numbers(void) {
  static const struct profile_op ops[] = {
      {LAYER_MLP, 0, PASS_INPUT, 1, 16, 0, 0, {0}},   {LAYER_MLP, 0, PASS_INPUT, 1, 16, -1, 0, {0}},
      {LAYER_MLP, 0, PASS_INPUT, 1, 16, NAN, 0, {0}}, {LAYER_MLP, 0, PASS_INPUT, 0, 16, 1, 0, {0}},
      {LAYER_MLP, -1, PASS_INPUT, 1, 16, 1, 0, {0}},  {LAYER_MLP, 99, PASS_INPUT, 1, 16, 1, 0, {0}},
      {LAYER_MLP, 0, PASS_COUNT, 1, 1, 1, 0, {0}}};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    struct profile *profile = profile_create("d", "m");
    profile_put_ops(profile, &ops[i], 1);
    T_CHECK(!profile_file_write(path, profile), "%s", error_text());
    refuses("row 0 of /ops is no measurement", STATUS_FAILED);
    profile_destroy(&profile);
  }
}

static void test_points(const struct model *model) {
  struct profile *p = make_profile(model, 2);
  int64_t n = p->n_ops;
  T_CHECK(profile_has_point(p, model, micro_shape_fill(1, 16)) && profile_has_point(p, model, micro_shape_fill(2, 16)),
          "points that are there");
  T_CHECK(!profile_has_point(p, model, micro_shape_fill(3, 16)) && !profile_has_point(p, model, micro_shape_fill(1, 8)),
          "points that are not");
  struct profile_op again = p->ops[n / 2];
  again.seconds = 42;
  profile_put_ops(p, &again, 1);
  T_CHECK(p->n_ops == n && p->ops[n / 2].seconds == 42, "a second measurement takes the place of the first");
  p->ops[n / 2].op = LAYER_MAX_OPS - 1;
  T_CHECK(!profile_has_point(p, model, profile_op_get_shape(&again)), "a point that lacks an op");
  profile_destroy(&p);
}

/* The text tells models apart by what their ops are, not by how many blocks they have. */
static char *describe_model(const char *vocabulary, const char *feed_forward, const char *blocks, const char *more) {
  struct model *model;
  char *json =
      mem_format("{\"model_type\": \"llama\", \"hidden_size\": 32, \"num_attention_heads\": 4, \"vocab_size\": "
                 "%s, \"intermediate_size\": %s, \"num_hidden_layers\": %s%s}",
                 vocabulary, feed_forward, blocks, more);
  int status = model_create(json, "test", -1, &model, NULL);
  T_CHECK(!status, "%s", error_text());
  char *text = status ? mem_strdup("") : profile_describe_model(model);
  if (!status) model_destroy(&model);
  mem_free(json);
  return text;
}

static void test_model_text(void) {
  static const struct {
    const char *vocabulary, *feed_forward, *blocks, *more;
    bool same;
  } others[] = {{"96", "64", "5", "", true},
                {"96", "64", "2", ", \"max_position_embeddings\": 7", true},
                {"97", "64", "2", "", false},
                {"96", "65", "2", "", false},
                {"96", "64", "2", ", \"num_key_value_heads\": 2", false},
                {"96", "64", "2", ", \"tie_word_embeddings\": true", false},
                {"96", "64", "2", ", \"attention_bias\": true", false},
                {"96", "64", "2", ", \"hidden_act\": \"gelu\"", false}};
  char *text = describe_model("96", "64", "2", "");
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    char *other = describe_model(others[i].vocabulary, others[i].feed_forward, others[i].blocks, others[i].more);
    T_CHECK(!strcmp(text, other) == others[i].same, "%zu: %s", i, other);
    mem_free(other);
  }
  mem_free(text);
}

static void test_cut_model(const struct model *model) {
  struct model *cut = model_dup_blocks(model, 1);
  T_CHECK(cut->n_layers == 4 && cut->layers[3].kind == LAYER_HEAD && cut->config.n_blocks == 1, "%d layers",
          cut->n_layers);
  int64_t sum = 0;
  for (int l = 0; l < 4; l++) sum += cut->layers[l].n_parameters;
  T_CHECK(cut->n_parameters == sum, "parameters");
  const struct tie *tie = model_find_tie(cut, 3);
  T_CHECK(cut->n_ties == 1 && tie && tie->layer == 0 && tie->user == 3 && tie->floats == model->ties[0].floats,
          "the head's tensor is still the embedding's");
  model_destroy(&cut);
}

int main(void) {
  char folder[] = "test_profile_file-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder)) return 1;
  struct model *model = make_tiny_model(3, true);
  test_round_trip(model);
  test_cut(model);
  test_other_files(model);
  test_columns();
  test_numbers();
  test_points(model);
  test_model_text();
  test_cut_model(model);
  model_destroy(&model);
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  T_CHECK(h5_balance() == 0, "%lld objects open", (long long)h5_balance());
  unlink(path);
  if (chdir("..") || rmdir(folder)) return 1;
  return t_end();
}
