/* What pages are drawn from: columns hold the shares of their time and letters are as frequent, ticks are round, a
 * large step and many steps of metrics stay small and tell the truth, and the page can be read in a light and in a dark
 * theme.
 */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dag/dag.h"
#include "report/columns.h"
#include "report/picture.h"
#include "report/ticks.h"
#include "t.h"

static double draw_number(uint32_t trial, uint64_t i) {
  struct rng_key key = {.seed = 11, .purpose = RNG_TEST, .a = trial};
  return rng_uniform(&key, i);
}

static int count(const char *text, const char *word) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
  return n;
}

/* ---- ticks ---- */

static bool is_round(double number) {
  double part = fabs(number) / pow(10, floor(log10(fabs(number)) + 1e-9));
  return fabs(part - 1) < 1e-6 || fabs(part - 2) < 1e-6 || fabs(part - 5) < 1e-6;
}

static void test_ticks(void) {
  for (uint32_t trial = 0; trial < 2000; trial++) {
    double size = pow(10, 30 * draw_number(trial, 0) - 15), low = size * (draw_number(trial, 1) - 0.5);
    double high = low + size * (0.01 + draw_number(trial, 2));
    int most = 3 + (int)(12 * draw_number(trial, 3));
    struct ticks t = ticks_make(low, high, most);
    T_CHECK(t.n >= 1 && t.n <= most && is_round(t.step), "%g to %g: %d ticks of %g", low, high, t.n, t.step);
    for (int i = 0; i < t.n; i++) {
      double turns = t.at[i] / t.step;
      T_CHECK(fabs(turns - round(turns)) < 1e-6 && t.at[i] >= low - 1e-6 * size && t.at[i] <= high + 1e-6 * size,
              "%g to %g: tick %g of %g", low, high, t.at[i], t.step);
      char text[TICK_TEXT], next[TICK_TEXT];
      ticks_format(&t, t.at[i], text);
      T_CHECK(i == 0 || strcmp(text, ticks_format(&t, t.at[i - 1], next)), "%g to %g: two ticks %s", low, high, text);
      T_CHECK(strlen(text) <= 10, "a long tick: %s", text);
    }
    ticks_widen(&low, &high, most);
    struct ticks wide = ticks_make(low, high, most);
    T_CHECK(wide.n >= 2 && fabs(wide.at[0] - low) < 1e-6 * size && fabs(wide.at[wide.n - 1] - high) < 1e-6 * size,
            "%g to %g does not end in ticks", low, high);
  }
  struct ticks decades = ticks_make_log(0.02, 900, 8);
  T_CHECK(decades.n == 4 && fabs(decades.at[0] - 0.1) < 1e-12 && fabs(decades.at[3] - 100) < 1e-9, "%d decades",
          decades.n);
  char text[TICK_TEXT];
  struct ticks t = ticks_make(0, 31, 11);
  T_CHECK(!strcmp(ticks_format(&t, t.at[1], text), "5"), "%s", text);
  t = ticks_make(0, 35000, 8);
  T_CHECK(!strcmp(ticks_format(&t, t.at[1], text), "5k"), "%s", text);
  t = ticks_make(0, 0.002, 6);
  T_CHECK(!strcmp(ticks_format(&t, t.at[1], text), "0.0005"), "%s", text);
  t = ticks_make(0, 3e-5, 6);
  T_CHECK(!strcmp(ticks_format(&t, t.at[1], text), "1e-05"), "%s", text);
}

/* ---- columns ---- */

enum { CLASSES = 4, NODES = 400 };

/* Nodes one after the other, some with time between them. */
static void make_spans(uint32_t trial, double *from, double *to, int *class) {
  double now = 0;
  for (int i = 0; i < NODES; i++) {
    from[i] = now + (draw_number(trial, 10 + (uint64_t)i) < 0.3 ? draw_number(trial, 1000 + (uint64_t)i) : 0);
    to[i] = now = from[i] + draw_number(trial, 2000 + (uint64_t)i);
    class[i] = (int)(CLASSES * draw_number(trial, 3000 + (uint64_t)i));
  }
}

static void check_letters(const struct columns *c, uint32_t trial) {
  int *chosen = MEM_NEW(int, c->n);
  columns_choose(c, chosen);
  for (int k = 0; k < CLASSES; k++) {
    double owed = 0, most = 0;
    for (int i = 0; i < c->n; i++) {
      owed += c->shares[i * CLASSES + k] - (chosen[i] == k);
      most = fmax(most, fabs(owed));
      T_CHECK(chosen[i] != k || c->shares[i * CLASSES + k] > 0, "trial %u: a letter of nothing", trial);
    }
    T_CHECK(most < 2.5, "trial %u: class %d is %g columns away from its share", trial, k, most);
  }
  mem_free(chosen);
}

static void test_columns(void) {
  double from[NODES], to[NODES];
  int class[NODES];
  for (uint32_t trial = 0; trial < 40; trial++) {
    int n = 1 + (int)(150 * draw_number(trial, 0));
    make_spans(trial, from, to, class);
    struct columns c;
    columns_init(&c, n, CLASSES, 0, to[NODES - 1]);
    for (int i = 0; i < NODES; i++) columns_add(&c, from[i], to[i], class[i]);
    for (int k = 0; k < n * CLASSES; k++) {
      double left = c.begin + k / CLASSES * c.width, sum = 0;
      for (int i = 0; i < NODES; i++)
        if (class[i] == k % CLASSES) sum += fmax(0, fmin(to[i], left + c.width) - fmax(from[i], left));
      T_CHECK(fabs(c.shares[k] - sum / c.width) < 1e-9, "trial %u column %d: %g, not %g", trial, k / CLASSES,
              c.shares[k], sum / c.width);
    }
    if (n > 20) check_letters(&c, trial);
    columns_fini(&c);
  }
}

/* ---- a large step ---- */

enum { RANKS = 64, MICRO = 256 };

/* 64 ranks with two stages each, 256 micro-batches: forward, input and weight pass of each, a third of the time idle.
 */
static void make_large(struct picture *p, const char *title) {
  int64_t n = (int64_t)RANKS * MICRO * 4;
  struct node_row *rows = MEM_NEW(struct node_row, n);
  static const int8_t kinds[] = {NODE_F, NODE_I, NODE_W, NODE_SF};
  for (int64_t i = 0; i < n; i++) {
    int rank = (int)(i / (MICRO * 4)), micro = (int)(i / 4 % MICRO), part = (int)(i % 4);
    double start = rank * 0.01 + micro * 0.04 + part * 0.01 + (part == 3 ? -0.01 : 0);
    rows[i] = (struct node_row){.rank = rank,
                                .node = (int32_t)i,
                                .position = (int32_t)i,
                                .kind = kinds[part],
                                .stream = part == 3 ? STREAM_SEND : STREAM_COMPUTE,
                                .stage = rank + (micro % 2 ? RANKS : 0),
                                .microbatch = micro,
                                .layer = -1,
                                .peer = part == 3 ? (rank + 1) % RANKS : -1,
                                .device_alloc = part == 0 ? 1 << 20 : 0,
                                .device_free = part == 2 ? 1 << 20 : 0,
                                .start_s = start,
                                .end_s = start + 0.009};
  }
  struct timeline *t = &p->timelines[p->n_timelines++];
  T_CHECK(!timeline_init(t, title, p->n_timelines - 1, 0, rows, n, &(struct timeline_memory){0}), "%s", error_text());
}

static char *make_page(const struct page *page) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  page_write(out, page);
  T_CHECK(!ferror(out) && !fclose(out), "no page");
  return text;
}

/* The heights of a path of steps, in hundredths of its lane. */
static void read_steps(const char *path, int n, int *heights) {
  int height = 0, at = 0;
  for (const char *c = strchr(strstr(path, " d=\""), '0') + strlen("0 100"); *c == 'v' || *c == 'h';) {
    char what = *c++;
    char *end;
    long number = strtol(c, &end, 10);
    c = end;
    if (what == 'v') height -= (int)number;
    for (long i = 0; what == 'h' && i < number && at < n; i++) heights[at++] = height;
  }
  T_CHECK(at == n, "%d of %d columns", at, n);
}

/* The stack of rank 0: F of its first stage to its own height, F of the second on top of it, and so on. */
static void check_stack(const struct timeline *t, const char *svg) {
  struct columns c;
  int *heights = MEM_NEW(int, t->n_columns), n_paths = 0;
  columns_init(&c, t->n_columns, NODE_KIND_COUNT * TIMELINE_SHADES, t->begin_s, t->end_s);
  timeline_fill_columns(t, 0, &c);
  const char *at = strstr(svg, "class=\"stacks\""), *end = strstr(at, "</g>");
  for (int class = c.n_classes - 1; class >= 0; class --) {
    double all = 0;
    for (int i = 0; i < c.n; i++) all += c.shares[i * c.n_classes + class];
    if (all == 0) continue;
    at = strstr(at, "<path");
    T_CHECK(at && at < end, "no path of class %d", class);
    if (!at || at > end) break;
    read_steps(at++, c.n, heights);
    n_paths++;
    for (int i = 0; i < c.n; i++) {
      double sum = 0;
      for (int k = 0; k <= class; k++) sum += c.shares[i * c.n_classes + k];
      T_CHECK(fabs(heights[i] - 100 * sum) <= 0.5 + 1e-9, "column %d: %d, not %g", i, heights[i], 100 * sum);
    }
  }
  T_CHECK(n_paths == 6, "%d of F, I and W of two stages", n_paths);
  columns_fini(&c);
  mem_free(heights);
}

/* A number to the base 36, nothing for 0, up to a comma. */
static int64_t read_number(const char **text) {
  char *end;
  int64_t number = **text == ',' ? 0 : strtoll(*text, &end, 36);
  *text = strchr(*text, ',') + 1;
  return number;
}

/* What the script draws at the zoom: every compute node of a rank, to one unit of time, with its kind, stage and
 * micro-batch. */
static void check_data(const struct timeline *t, double seconds, int32_t rank) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  enum picture_detail detail = picture_write_data(out, t, seconds);
  T_CHECK(!fclose(out) && detail != PICTURE_COLUMNS, "detail %d", detail);
  json_t *root = json_loads(strchr(text, '{'), JSON_DISABLE_EOF_CHECK, NULL), *codes = json_object_get(root, "codes");
  T_CHECK(root, "no JSON");
  double unit = seconds / json_number_value(json_object_get(root, "units"));
  int64_t *expected = MEM_NEW(int64_t, (int64_t)json_array_size(codes)), n = 0, end = 0;
  for (int32_t r = 0; r <= rank; r++) {
    const char *at = json_string_value(json_array_get(json_array_get(json_object_get(root, "ranks"), (size_t)r), 0));
    end = 0;
    for (int64_t i = t->row_offset[r]; i < t->row_offset[r + 1]; i++) {
      const struct node_row *row = &t->rows[i];
      if (row->stream != STREAM_COMPUTE) continue;
      size_t code = (size_t)read_number(&at);
      int64_t start = end + read_number(&at);
      end = start + read_number(&at);
      expected[code] += read_number(&at);
      json_t *what = json_array_get(codes, code);
      T_CHECK(fabs((double)start * unit - row->start_s) <= unit && fabs((double)end * unit - row->end_s) <= unit,
              "rank %d node %d: %g to %g", r, (int)i, (double)start * unit, (double)end * unit);
      T_CHECK(expected[code]++ == row->microbatch && json_integer_value(json_array_get(what, 2)) == row->stage &&
                  !strcmp(json_string_value(json_array_get(what, 1)), node_kind_get_name((enum node_kind)row->kind)),
              "rank %d: node %d is another", r, (int)i);
      n++;
    }
    T_CHECK(!*at, "rank %d has more nodes than rows: %.40s", r, at);
  }
  T_CHECK(n == (int64_t)(rank + 1) * MICRO * 3, "%d nodes", (int)n);
  mem_free(expected);
  json_decref(root);
  free(text);
}

static void test_large(void) {
  struct picture p = {.name = mem_strdup("large")};
  make_large(&p, "predicted");
  make_large(&p, "measured");
  T_CHECK(p.timelines[0].n_columns > 60 && p.timelines[0].n_chunks == 2, "%d columns", p.timelines[0].n_columns);
  T_CHECK(p.timelines[0].ranks[5].peak_bytes == 1 << 20, "peak");
  struct page page = {.picture = &p};
  char *text = make_page(&page);
  T_CHECK(strlen(text) < 2 << 20, "%zu bytes", strlen(text));
  check_stack(&p.timelines[0], text);
  check_data(&p.timelines[0], picture_get_seconds(&p), 5);
  T_CHECK(count(text, "<script type=\"application/json\" id=\"") == 2, "the passes are beside the picture");
  T_CHECK(strstr(text, "[\"F\",\"F\",0,-1,") && strstr(text, "[\"F s7\",\"F\",64,-1,"), "two stages have two shades");
  T_CHECK(strstr(text, "Zooming shows the passes one by one"), "what zooming does is told");
  free(text);
  picture_fini(&p);
}

/* ---- many steps ---- */

static struct metrics_row *make_metrics(int64_t n) {
  struct metrics_row *rows = MEM_NEW(struct metrics_row, n);
  for (int64_t i = 0; i < n; i++)
    rows[i] = (struct metrics_row){.step = i + 1,
                                   .loss = i == n / 2 ? 9.75 : 2 + 3 * exp(-(double)i / (double)n),
                                   .lr = 1e-4,
                                   .grad_norm = i % 1000 == 7 ? 500 : 1,
                                   .tokens_per_s = i == 5 ? NAN : 12345,
                                   .validation_loss = i % (n / 10) == n / 10 - 1 ? 3 : NAN};
  return rows;
}

static void check_curves(int64_t n, size_t most) {
  struct metrics_row *rows = make_metrics(n);
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  page_write_curves(out, &(struct page){.metrics = rows, .n_metrics = n});
  T_CHECK(!fclose(out) && size < most, "%lld steps: %zu bytes", (long long)n, size);
  T_CHECK(count(text, "<figure>") == 4 && count(text, "</figure>") == 4, "four curves");
  T_CHECK(!strstr(text, "nan") && !strstr(text, "inf"), "numbers alone");
  T_CHECK(count(text, "(logarithmic)") == 1, "the gradient norm by its logarithm");
  T_CHECK(count(text, "<circle class=\"d2\"") == 10, "ten evaluations");
  /* One step of many stands out: its loss is the highest point, 9.75 of an axis from 3 to 10 that is 170 high below 8.
   */
  T_CHECK(strstr(text, ">10<"), "an axis to 10");
  T_CHECK(n < 1000 || strstr(text, " 14.1H"), "the highest loss is not seen");
  free(text);
  mem_free(rows);
}

static void test_themes(void) {
  struct picture p = {.name = mem_strdup("<script>&\"")};
  make_large(&p, "predicted");
  struct metrics_row *rows = make_metrics(50);
  struct page page = {.picture = &p, .metrics = rows, .n_metrics = 50};
  char *text = make_page(&page);
  T_CHECK(count(text, "prefers-color-scheme:dark") == 1 && count(text, "--page:") == 2, "a dark theme");
  T_CHECK(!strstr(text, "<script>&"), "names are text");
  for (const char *at = text; (at = strstr(at, "var(--")); at++) {
    char name[32];
    snprintf(name, sizeof name, "--%.*s:", (int)strcspn(at + 6, ")"), at + 6);
    T_CHECK(count(text, name) == 2, "%s has a value in both themes", name);
  }
  for (const char *const *word =
           (const char *const[]){"http", "src=", "url(", "@import", "<link", "<img", "<pre", NULL};
       *word; word++)
    T_CHECK(!strstr(text, *word), "the page has %s", *word);
  free(text);
  mem_free(rows);
  picture_fini(&p);
}

int main(void) {
  test_ticks();
  test_columns();
  test_large();
  check_curves(50, 20 << 10);
  check_curves(100000, 200 << 10);
  test_themes();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
