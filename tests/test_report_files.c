/* Pictures of a trace and a plan made by hand, with bars where the times say: SVG and HTML well-formed and without
 * other files, one bar a node with its place and width, trace events and CSV with every row, and a large step that
 * stays small.
 */
#include <ctype.h>
#include <jansson.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "dag/dag.h"
#include "report/columns.h"
#include "report/picture.h"
#include "store/h5.h"
#include "t.h"

/* Two ranks, one micro-batch: 100 ms. */
static const struct node_row nodes[] = {
    {.step = 7,
     .node = 0,
     .rank = 0,
     .position = 0,
     .stream = STREAM_COMPUTE,
     .kind = NODE_F,
     .peer = -1,
     .layer = -1,
     .device_alloc = 1 << 20,
     .start_s = 0,
     .end_s = 0.020,
     .after = -1},
    {.step = 7,
     .node = 1,
     .rank = 0,
     .position = 1,
     .stream = STREAM_COMPUTE,
     .kind = NODE_B,
     .peer = -1,
     .layer = -1,
     .device_free = 1 << 20,
     .start_s = 0.070,
     .end_s = 0.100,
     .after = 3},
    {.step = 7,
     .node = 2,
     .rank = 0,
     .stream = STREAM_SEND,
     .kind = NODE_SF,
     .peer = 1,
     .layer = -1,
     .bytes = 64,
     .start_s = 0.020,
     .end_s = 0.025,
     .after = 0},
    {.step = 7,
     .node = 3,
     .rank = 0,
     .stream = STREAM_RECEIVE,
     .kind = NODE_RB,
     .peer = 1,
     .layer = -1,
     .bytes = 64,
     .start_s = 0.060,
     .end_s = 0.065,
     .after = 6},
    {.step = 7,
     .node = 4,
     .rank = 1,
     .stage = 1,
     .position = 0,
     .stream = STREAM_COMPUTE,
     .kind = NODE_F,
     .peer = -1,
     .layer = -1,
     .device_alloc = 3 << 20,
     .start_s = 0.025,
     .end_s = 0.040,
     .after = -1},
    {.step = 7,
     .node = 5,
     .rank = 1,
     .stage = 1,
     .position = 1,
     .stream = STREAM_COMPUTE,
     .kind = NODE_B,
     .peer = -1,
     .layer = -1,
     .device_free = 3 << 20,
     .start_s = 0.040,
     .end_s = 0.060,
     .after = 4},
    {.step = 7,
     .node = 6,
     .rank = 1,
     .stage = 1,
     .stream = STREAM_SEND,
     .kind = NODE_SB,
     .peer = 0,
     .layer = -1,
     .bytes = 64,
     .start_s = 0.060,
     .end_s = 0.065,
     .after = 5},
    {.step = 7,
     .node = 7,
     .rank = 1,
     .stage = 1,
     .stream = STREAM_COMPUTE,
     .kind = NODE_U,
     .peer = -1,
     .layer = 3,
     .microbatch = -1,
     .start_s = NAN,
     .end_s = NAN,
     .after = -1},
};
enum { N_NODES = sizeof nodes / sizeof *nodes, N_TIMED = N_NODES - 1, N_COMPUTE = 4 };

static const int64_t bytes_static[2] = {2 << 20, 2 << 20}, limits[2] = {INT64_MAX, 8 << 20};

/* The rows backwards: files need not be in order. `slower` stretches the times. */
static struct timeline make_timeline(const char *title, int64_t step, double slower) {
  struct node_row *rows = MEM_NEW(struct node_row, N_NODES);
  for (int i = 0; i < N_NODES; i++) {
    rows[i] = nodes[N_NODES - 1 - i];
    rows[i].start_s *= slower;
    rows[i].end_s *= slower;
  }
  struct timeline t;
  struct timeline_memory memory = {2, bytes_static, limits};
  T_CHECK(!timeline_init(&t, title, step, 0, rows, N_NODES, &memory), "%s", error_text());
  return t;
}

static struct picture make_picture(void) {
  struct picture p = {.name = mem_strdup("runs/<a&b>"), .planner = mem_strdup("1f1b"), .n_timelines = 2};
  p.timelines[0] = make_timeline("predicted", 0, 0.5);
  p.timelines[1] = make_timeline("measured", 7, 1);
  return p;
}

static void write_standalone(FILE *out, const struct picture *p) { picture_write_svg(out, p, true); }
static void write_page(FILE *out, const struct picture *p) { page_write(out, &(struct page){.picture = p}); }
static void write_rows(FILE *out, const struct picture *p) {
  picture_write_csv(out, &p->timelines[p->n_timelines - 1]);
}

/* Freed with free(). */
static char *make_text(void (*write)(FILE *, const struct picture *), const struct picture *picture) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  write(out, picture);
  T_CHECK(!ferror(out) && !fclose(out), "no text");
  return text;
}

static int count(const char *text, const char *word) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
  return n;
}

/* ---- tags ---- */

static bool is_void(const char *name) { return !strcmp(name, "meta") || !strcmp(name, "!DOCTYPE"); }

/* Tags close in the order in which they were opened, quotes of attributes pair, and no '<' or '&' stands bare. */
static bool is_well_formed(const char *text) {
  char open[64][16];
  int depth = 0;
  for (const char *c = text; *c;) {
    if (*c == '&' && !strchr("lgaqm", c[1])) return false;
    if (*c++ != '<') continue;
    char name[16] = "";
    bool closes = *c == '/', quoted = false;
    c += closes;
    for (size_t n = 0; n + 1 < sizeof name && (isalnum((unsigned char)*c) || *c == '!'); c++) name[n++] = *c;
    if (!name[0]) return false;
    for (; *c && (quoted || *c != '>'); c++) {
      if (*c == '"') quoted = !quoted;
      if (*c == '<') return false;
    }
    if (!*c) return false;
    bool empty = c[-1] == '/';
    if (closes) {
      if (depth == 0 || strcmp(open[--depth], name)) return false;
    } else if (!empty && !is_void(name)) {
      if (depth == 64) return false;
      strcpy(open[depth++], name);
      if (!strcmp(name, "script") && !(c = strstr(c, "</script>"))) return false;
    }
  }
  return depth == 0;
}

static double get_number(const char *tag, const char *attribute) {
  const char *end = strchr(tag, '>'), *at = strstr(tag, attribute);
  return at && at < end ? strtod(at + strlen(attribute), NULL) : NAN;
}

/* The bars of compute nodes, in the order of the rows: the prediction's, then the measurement's. */
static void check_bars(const char *svg) {
  const char *at = svg;
  for (int i = 0; i < 2 * N_COMPUTE; i++) {
    static const int row_of[N_COMPUTE] = {0, 1, 4, 5};
    const struct node_row *node = &nodes[row_of[i % N_COMPUTE]];
    double slower = i < N_COMPUTE ? 0.5 : 1;
    const char *f = strstr(at, "<rect class=\"bar F\""), *b = strstr(at, "<rect class=\"bar B\"");
    const char *next = !f || (b && b < f) ? b : f;
    T_CHECK(next, "bar %d is not there", i);
    if (!next) return;
    T_CHECK((next == f) == (node->kind == NODE_F), "bar %d is of another kind", i);
    /* 100 ms are 1000 units. */
    T_CHECK(fabs(get_number(next, " x=\"") - node->start_s * slower * 1e4) < 1e-3, "bar %d: x", i);
    T_CHECK(fabs(get_number(next, " width=\"") - (node->end_s - node->start_s) * slower * 1e4) < 1e-3, "bar %d: width",
            i);
    double y = get_number(next, " y=\"");
    T_CHECK(node->rank == 0 ? y < 24 : y >= 24 && y < 48, "bar %d: y %g", i, y);
    at = next + 1;
  }
  T_CHECK(count(svg, "<rect class=\"bar F\"") + count(svg, "<rect class=\"bar B\"") == 2 * N_COMPUTE, "bars");
  T_CHECK(count(svg, "<rect class=\"bar SF\"") == 2 && count(svg, "<rect class=\"bar RB\"") == 2, "messages");
  T_CHECK(count(svg, "<rect class=\"bar ") == 2 * N_TIMED, "a node without times is drawn");
}

static void test_svg(const struct picture *p) {
  char *svg = make_text(write_standalone, p);
  T_CHECK(is_well_formed(svg), "%s", svg);
  T_CHECK(strstr(svg, "xmlns=\"http://www.w3.org/2000/svg\""), "a file of its own names its kind");
  check_bars(svg);
  T_CHECK(strstr(svg, "predicted") < strstr(svg, "measured"), "the prediction is above");
  /* Rank 1: 2 MiB all the time, 3 MiB more from 25 to 60 of 100 ms, of 8 MiB; a row is 36 units. */
  T_CHECK(strstr(svg, "H250.000V50.67H400.000V50.67H400.000V50.67H600.000V62.82"), "memory of rank 1");
  T_CHECK(strstr(svg, "5.00 of 8.00 MiB") && strstr(svg, "3.00 MiB, no limit"), "memory beside limits");
  T_CHECK(count(svg, "<path class=\"limit\"") == 2, "one limit in each of two pictures");
  free(svg);
}

static void test_html(const struct picture *p) {
  char *page = make_text(write_page, p);
  T_CHECK(is_well_formed(page), "%s", page);
  check_bars(page);
  for (const char *const *word = (const char *const[]){"http", "src=", "url(", "@import", "<link", "<img", NULL}; *word;
       word++)
    T_CHECK(!strstr(page, *word), "the page has %s", *word);
  T_CHECK(strstr(page, "runs/&lt;a&amp;b&gt;"), "escapes");
  /* Rank 0: busy 50, idle 50 of which 40 until the gradient is made, 5 under way, 5 after that. */
  for (int i = 0; i < 2; i++) { /* predicted, at half the time, and measured */
    static const char *const parts[] = {"25.000", "20.000", "2.500", "50.000", "40.000", "5.000"};
    char row[300];
    snprintf(row, sizeof row,
             "<td>0</td><td>%s</td><td class=\"share\">50.0 %%</td><td>%s</td><td class=\"share\">40.0 %%</td>"
             "<td>%s</td><td class=\"share\">5.0 %%</td>",
             parts[3 * i], parts[3 * i + 1], parts[3 * i + 2]);
    T_CHECK(strstr(page, row), "parts of rank 0: %s", row);
  }
  T_CHECK(count(page, "<script>") == 1 && strstr(page, "wheel"), "the script");
  free(page);
}

static void test_chrome(const struct picture *p) {
  char *text = make_text(picture_write_chrome, p);
  json_error_t error;
  json_t *root = json_loads(text, 0, &error), *event;
  T_CHECK(root, "%s in line %d", error.text, error.line);
  int n_nodes = 0, n_bytes = 0, n_names = 0;
  bool found = false, predicted = false;
  size_t i;
  json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    n_nodes += !strcmp(phase, "X");
    n_bytes += !strcmp(phase, "C");
    n_names += !strcmp(json_string_value(json_object_get(event, "name")), "process_name");
    if (strcmp(phase, "X") || strcmp(json_string_value(json_object_get(event, "name")), "B 0")) continue;
    json_int_t process = json_integer_value(json_object_get(event, "pid"));
    double start = json_number_value(json_object_get(event, "ts")),
           length = json_number_value(json_object_get(event, "dur"));
    found |= process == 1 && fabs(start - 40000) < 1e-3 && fabs(length - 20000) < 1e-3;
    predicted |= process == 3 && fabs(start - 20000) < 1e-3 && fabs(length - 10000) < 1e-3;
  }
  T_CHECK(n_nodes == 2 * N_TIMED && n_bytes == 8 && n_names == 4, "%d nodes, %d levels, %d ranks", n_nodes, n_bytes,
          n_names);
  T_CHECK(found && predicted, "B of rank 1 is not where it was");
  json_decref(root);
  free(text);
}

static void test_csv(const struct picture *p) {
  char *text = make_text(write_rows, p);
  T_CHECK(count(text, "\n") == 1 + N_TIMED, "%s", text);
  T_CHECK(!strncmp(text, "step,node,rank,position,stream,kind,stage,microbatch,layer,peer,bytes,", 70), "%s", text);
  T_CHECK(strstr(text, "\n7,2,0,0,send,SF,0,0,-1,1,64,0,0,0,0,0.02"), "%s", text);
  free(text);
}

/* 300 ranks with 200 passes each, back to back: the picture stays small and loses no time and no byte. */
static void test_large(void) {
  enum { RANKS = 300, PASSES = 200 };
  struct node_row *rows = MEM_NEW(struct node_row, RANKS * PASSES);
  for (int i = 0; i < RANKS * PASSES; i++) {
    int at = i % PASSES;
    rows[i] = (struct node_row){.rank = i / PASSES,
                                .kind = NODE_F,
                                .microbatch = at,
                                .layer = -1,
                                .peer = -1,
                                .device_alloc = at == 77 ? 1000 : 0,
                                .device_free = at == 77 ? 1000 : 0,
                                .start_s = at,
                                .end_s = at + 1};
  }
  struct picture p = {.name = mem_strdup("large"), .n_timelines = 1};
  struct timeline *t = &p.timelines[0];
  T_CHECK(!timeline_init(t, "predicted", 0, 0, rows, RANKS * PASSES, &(struct timeline_memory){0}), "%s", error_text());
  T_CHECK(t->n_ranks == RANKS && t->n_drawn == TIMELINE_MOST_RANKS && t->n_bars == 0, "what is drawn");
  T_CHECK(t->n_columns > 20 && t->n_columns * t->n_drawn <= TIMELINE_MOST_CELLS, "%d columns", t->n_columns);
  struct columns columns;
  columns_init(&columns, t->n_columns, NODE_KIND_COUNT * TIMELINE_SHADES, t->begin_s, t->end_s);
  for (int32_t r = 0; r < RANKS; r++) {
    double sum = 0;
    timeline_fill_columns(t, r, &columns);
    for (int c = 0; c < columns.n; c++) sum += columns.shares[c * columns.n_classes + NODE_F * TIMELINE_SHADES];
    T_CHECK(fabs(sum - columns.n) < 1e-6 && t->ranks[r].peak_bytes == 1000, "rank %d", (int)r);
  }
  columns_fini(&columns);
  char *page = make_text(write_page, &p);
  T_CHECK(is_well_formed(page) && strlen(page) < 2 << 20, "%zu bytes", strlen(page));
  T_CHECK(strstr(page, "the first 256 of 300 ranks"), "what is left out is told");
  free(page);
  picture_fini(&p);
}

static void test_damage(void) {
  struct node_row *rows = MEM_NEW(struct node_row, 1);
  struct timeline t;
  rows[0] = (struct node_row){.rank = -3};
  int status = timeline_init(&t, "measured", 1, 0, rows, 1, &(struct timeline_memory){0});
  T_CHECK(status == STATUS_FAILED && strstr(error_text(), "rank -3"), "%s", error_text());
  error_clear();
  rows = MEM_NEW(struct node_row, 1);
  rows[0] = (struct node_row){.start_s = NAN, .end_s = NAN};
  T_CHECK(!timeline_init(&t, "predicted", 0, 0, rows, 1, &(struct timeline_memory){0}) && t.n_rows == 0, "no times");
  timeline_fini(&t);
}

int main(void) {
  struct picture picture = make_picture();
  test_svg(&picture);
  test_html(&picture);
  test_chrome(&picture);
  test_csv(&picture);
  picture_fini(&picture);
  test_large();
  test_damage();
  T_CHECK(!is_well_formed("<a><b></a></b>") && !is_well_formed("<a>") && !is_well_formed("<a x=\"1></a>"), "tags");
  T_CHECK(mem_balance() == 0, "%d allocations are left", (int)mem_balance());
  return t_end();
}
