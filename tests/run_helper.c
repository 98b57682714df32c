/* Looks into the files of a run for tests/test_run_*.sh:
 *   run_helper compare A.h5 B.h5   exit 0 when two checkpoints hold the same bits, 1 naming what differs
 *   run_helper drop FILE.h5 NAME   removes an attribute of the root, as files of before have it not
 *   run_helper attributes FILE.h5 NAME...   a line for each attribute of the root: its number or text, "none"
 *   run_helper trace RUN/trace.h5  a line "STEP NODES" for each step, then one "ranks N", the ranks of the last step */
#include <hdf5.h>
#include <inttypes.h>

#include "base/error.h"
#include "base/mem.h"
#include "record/trace_read.h"
#include "store/h5.h"
#include "t.h"

enum { MAX_DIMS = 4 };

/* ---- compare ---- */

struct pair {
  struct h5_file *a, *b;
  const char *group;
  int64_t n_arrays;
  int differences;
};

static int say(struct pair *pair, const char *what, const char *how) {
  if (++pair->differences <= 10) printf("%s: %s\n", what, how);
  return STATUS_OK;
}

static int compare_array(void *context, const char *name) {
  struct pair *pair = context;
  char path[256];
  int n_a, n_b;
  int64_t dims_a[MAX_DIMS], dims_b[MAX_DIMS], count = 1;
  float *a, *b;
  snprintf(path, sizeof path, "%s/%s", pair->group, name);
  if (!h5_has(pair->b, path)) return say(pair, path, "only in the first file");
  int status = h5_read_dataset(pair->a, path, H5_FLOAT32, MAX_DIMS, &n_a, dims_a, (void **)&a);
  if (status) return status;
  status = h5_read_dataset(pair->b, path, H5_FLOAT32, MAX_DIMS, &n_b, dims_b, (void **)&b);
  if (status) {
    mem_free(a);
    return status;
  }
  for (int d = 0; d < n_a; d++) count *= dims_a[d];
  if (n_a != n_b || memcmp(dims_a, dims_b, sizeof *dims_a * (size_t)n_a))
    say(pair, path, "has another shape");
  else if (memcmp(a, b, sizeof *a * (size_t)count))
    say(pair, path, "has other numbers");
  pair->n_arrays++;
  mem_free(a);
  mem_free(b);
  return status;
}

/* /layers/NNN and the like; a group of either file that the other lacks shows as arrays that are missing. */
static int compare_layer(void *context, const char *name) {
  struct pair *pair = context;
  const char *parent = pair->group;
  char group[128];
  snprintf(group, sizeof group, "%s/%s", parent, name);
  pair->group = group;
  int status = h5_list(pair->a, group, compare_array, pair);
  pair->group = parent;
  return status;
}

static int count_array(void *context, const char *name) {
  struct pair *pair = context;
  (void)name;
  pair->n_arrays--;
  return STATUS_OK;
}

static int count_layer(void *context, const char *name) {
  struct pair *pair = context;
  char group[128];
  snprintf(group, sizeof group, "%s/%s", pair->group, name);
  return h5_list(pair->b, group, count_array, pair);
}

static int compare_files(struct pair *pair) {
  static const char *const groups[] = {"/layers", "/optimizer/m", "/optimizer/v"};
  static const char *const numbers[] = {"step", "next_sample", "tokens", "seed", "n_layers"};
  int status = STATUS_OK;
  for (size_t i = 0; i < sizeof groups / sizeof *groups && !status; i++) {
    pair->group = groups[i];
    status = h5_list(pair->a, pair->group, compare_layer, pair);
    if (!status && pair->n_arrays == 0) say(pair, pair->group, "has no arrays");
    if (!status) status = h5_list(pair->b, pair->group, count_layer, pair);
    if (!status && pair->n_arrays) say(pair, pair->group, "has more arrays in one of the files");
    pair->n_arrays = 0;
  }
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++) {
    int64_t a = 0, b = 0;
    status = h5_read_int(pair->a, "/", numbers[i], &a);
    if (!status) status = h5_read_int(pair->b, "/", numbers[i], &b);
    if (!status && a != b) say(pair, numbers[i], "is another number");
  }
  return status;
}

static int compare(const char *a, const char *b) {
  struct pair pair = {0};
  int status = h5_open(a, false, &pair.a);
  if (!status) status = h5_open(b, false, &pair.b);
  if (!status) status = compare_files(&pair);
  if (status) printf("%s\n", error_text());
  h5_close(&pair.a);
  h5_close(&pair.b);
  return status || pair.differences ? 1 : 0;
}

static int drop(const char *path, const char *name) {
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  int failed = file < 0 || H5Adelete(file, name) < 0;
  if (file >= 0 && H5Fclose(file) < 0) failed = 1;
  return failed;
}

/* ---- trace ---- */

static int print_trace(const char *path) {
  struct trace_content trace;
  if (trace_read(path, INT64_MAX, &trace)) {
    printf("%s\n", error_text());
    return 1;
  }
  int32_t last_rank = -1;
  int64_t at = 0;
  for (int64_t s = 0; s < trace.n_steps; s++) {
    int64_t n = 0;
    for (; at < trace.n_nodes && trace.nodes[at].step == trace.steps[s].step; at++, n++)
      if (s == trace.n_steps - 1 && trace.nodes[at].rank > last_rank) last_rank = trace.nodes[at].rank;
    printf("%" PRId32 " %" PRId64 "\n", trace.steps[s].step, n);
  }
  printf("ranks %" PRId32 "\n", last_rank + 1);
  trace_content_fini(&trace);
  return 0;
}

/* ---- attributes ---- */

/* Attributes of the root, a line each: a number, or a text. */
static int print_attributes(const char *path, char **names) {
  struct h5_file *file;
  int status = h5_open(path, false, &file);
  for (; !status && *names; names++) {
    double number;
    char *text = NULL;
    if (!h5_read_double(file, "/", *names, &number))
      printf("%.17g\n", number);
    else if (!h5_read_text(file, "/", *names, &text))
      printf("%s\n", text);
    else
      printf("none\n");
    mem_free(text);
  }
  if (status) fprintf(stderr, "%s\n", error_text());
  h5_close(&file);
  return status;
}

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "compare")) return compare(argv[2], argv[3]);
  if (argc == 3 && !strcmp(argv[1], "trace")) return print_trace(argv[2]);
  if (argc == 4 && !strcmp(argv[1], "drop")) return drop(argv[2], argv[3]);
  if (argc > 3 && !strcmp(argv[1], "attributes")) return print_attributes(argv[2], argv + 3);
  fprintf(stderr,
          "usage: run_helper compare A.h5 B.h5 | drop FILE.h5 NAME | trace TRACE.h5 | attributes FILE.h5 NAME...\n");
  return 2;
}
