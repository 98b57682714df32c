/* Orders from CSV: files that torch.distributed.pipelining wrote, read, priced and written again; files that are
 * refused, with row, action and reason; orders whose micro-batches do not ascend. */
#include "plan/plan_csv.h"
#include "plan/recompute.h"

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dag/dag.h"
#include "make_plan.h"
#include "naive_run.h"
#include "sim/sim.h"
#include "t.h"
#include "torch_schedules.h"

static struct micro_shape micros[MAX_MICRO];

static bool says(const char *part) { return strstr(error_text(), part) != NULL; }

static const struct params test_csv = {.pipeline.plan_file = "test.csv"};

static struct plan_request make_request(const struct model *model, int32_t p, int32_t m, const char *csv) {
  for (int32_t i = 0; i < m; i++) micros[i] = micro_shape_make(1, 4, 4, 4);
  return (struct plan_request){.model = model,
                               .n_ranks = p,
                               .n_stages = p,
                               .n_micro = m,
                               .micro = micros,
                               .clip = true,
                               .params = &test_csv,
                               .plan_csv = csv};
}

/* Forward, input and weight pass of a rank's whole share take 1 each. */
static double price(const struct plan *plan, const struct dag *dag) {
  double *seconds = MEM_NEW(double, dag->n_nodes), chunks = (double)plan->n_stages / plan->n_ranks;
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    int kind = dag->nodes[v].kind;
    seconds[v] = (kind == NODE_B ? 2 : kind == NODE_F || kind == NODE_I || kind == NODE_W) / chunks;
  }
  struct sim *sim = sim_create(dag, plan->n_stages);
  struct sim_times times = {seconds, 0};
  double makespan = sim_run(sim, &times, 1)->makespan;
  sim_destroy(&sim);
  mem_free(seconds);
  return makespan;
}

/* ---- files of the library ---- */

/* What of a cell is kept, another way than the reader's: a pass is digits, one of FBIW, digits. */
static size_t copy_passes(const char *cell, char *out) {
  size_t n = 0;
  for (const char *c = cell; *c;) {
    size_t stage = strspn(c, "0123456789"), micro = 0;
    if (stage && strchr("FBIW", c[stage])) micro = strspn(c + stage + 1, "0123456789");
    if (micro) {
      memcpy(out + n, c, stage + 1 + micro);
      n += stage + 1 + micro;
      out[n++] = ',';
    }
    c += micro ? stage + 1 + micro : stage ? stage : 1;
  }
  return n;
}

static char *copy_rows(const char *text) {
  char *out = mem_alloc(2 * strlen(text) + 2), *rows = mem_strdup(text), *next = rows;
  size_t n = 0;
  for (char *row; (row = strsep(&next, "\n"));) {
    if (!*row) continue;
    n += copy_passes(row, out + n);
    out[n - 1] = '\n';
  }
  out[n] = 0;
  mem_free(rows);
  return out;
}

static void check_file(const struct torch_schedule *file, const char *text) {
  struct model *model = make_tiny_model(file->p * file->chunks, true);
  struct plan_request request = make_request(model, file->p, file->m, text);
  char *notes = NULL;
  request.notes = &notes;
  struct plan *plan;
  struct dag *dag = NULL;
  int status = planner_run("file", &request, &plan);
  T_CHECK(status == STATUS_OK, "%s: %s", file->name, error_text());
  if (plan) {
    T_CHECK(plan->n_stages == file->p * file->chunks && !plan->free_order && !strcmp(plan->planner, "file"), "%s",
            file->name);
    T_CHECK(dag_build(plan, model, &dag) == STATUS_OK && dag_check(dag, plan) == STATUS_OK, "%s: %s", file->name,
            error_text());
    T_CHECK(fabs(price(plan, dag) - file->step) < 1e-9, "%s: step %g", file->name, price(plan, dag));
    char *expected = copy_rows(text), *written = plan_csv_format(plan);
    T_CHECK(!strcmp(written, expected), "%s: written again as\n%s", file->name, written);
    bool drops = strstr(text, "REDUCE_GRAD") != NULL;
    T_CHECK((notes != NULL) == drops, "%s: notes: %s", file->name, notes ? notes : "none");
    if (notes) T_CHECK(strstr(notes, "REDUCE_GRAD, WAIT_REDUCE_GRAD left out"), "%s", notes);
    mem_free(expected);
    mem_free(written);
  }
  mem_free(notes);
  dag_destroy(&dag);
  plan_destroy(&plan);
  model_destroy(&model);
}

static void test_files(void) {
  for (size_t k = 0; k < sizeof torch_schedules / sizeof torch_schedules[0]; k++) {
    const struct torch_schedule *file = &torch_schedules[k];
    if (file->step > 0) check_file(file, file->text);
  }
}

/* As the library writes it: lines that end in carriage return and line feed; quotation marks, blanks and a byte order
 * mark as other programs may add them. */
static void test_spellings(void) {
  static const char *const same[] = {
      "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n",
      "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1",
      "\xef\xbb\xbf"
      "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n\n\n",
      "\"0F0\",\"0F1\", 0B0 ,0B1,,,\n,\t1F0,\"\",1B0,1F1,1B1,\n",
      "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0RESHARD,0REDUCE_GRAD\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
      "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,( 1B0 ; 1F1 )OVERLAP_F_B,1B1\n",
      "0F0,0F1,0R0,0B0,0R1,0B1\n1F0,1B0,1F1,1B1\n",
  };
  struct model *model = make_tiny_model(2, false);
  for (size_t k = 0; k < sizeof same / sizeof same[0]; k++) {
    struct plan_request request = make_request(model, 2, 2, same[k]);
    char *notes = NULL;
    request.notes = &notes;
    struct plan *plan;
    T_CHECK(planner_run("file", &request, &plan) == STATUS_OK, "spelling %zu: %s", k, error_text());
    char *text = plan ? plan_csv_format(plan) : mem_strdup("");
    T_CHECK(!strcmp(text, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"), "spelling %zu: %s", k, text);
    mem_free(text);
    plan_destroy(&plan);
    /* Planning again, as is done to find what fits, says nothing twice. */
    char *once = mem_strdup(notes ? notes : "");
    T_CHECK(planner_run("file", &request, &plan) == STATUS_OK && !strcmp(once, notes ? notes : ""), "%s", once);
    if (k == 4)
      T_CHECK(!strcmp(once,
                      "test.csv: UNSHARD, RESHARD, REDUCE_GRAD left out: what they do follows from the plan\n"
                      "test.csv: SEND_F, RECV_F, SEND_B, RECV_B replaced by messages and recomputation in an order "
                      "of our own"),
              "%s", once);
    mem_free(once);
    mem_free(notes);
    plan_destroy(&plan);
  }
  model_destroy(&model);
}

/* ---- what is refused ---- */

static void test_refusals(void) {
  static const struct {
    int32_t p, m;
    const char *text, *reasons[3];
  } cases[] = {
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1,0W0\n", {"row 2, cell 5", "'0W0'", "stage 0 is in row 1 too"}},
      {2, 2, "0F0,0B0\n1F0,1B0\n", {"row 1", "'0F1' is missing", "for 1 micro-batches, the step has 2"}},
      {2,
       2,
       "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n",
       {"row 1, cell 3", "'0F2'", "for 3 micro-batches, the step has 2"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n", {"row 2", "'1B1' is missing", "an I and a W"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1I1,1W0\n", {"row 2", "'1W1' is missing", "every I needs its W"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1,1F0\n", {"row 2, cell 5", "'1F0'", "repeated"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1W0,1F1,1B1\n", {"row 2, cell 3", "'1W0'", "repeated"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1I0,1B0,1F1,1B1\n", {"row 2, cell 3", "'1B0'", "repeated"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,,1B1,1B7\n", {"row 2, cell 6", "'1B7'", "no such micro-batch"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1B1,1F1\n", {"row 2, cell 3", "'1B1'", "before its forward '1F1'"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1W0,1I0,1F1,1B1\n", {"row 2, cell 2", "'1W0'", "before its input pass '1I0'"}},
      {2, 1, "0F0,3B0,3F0,0B0\n1F0,2F0,2B0,1B0\n", {"row 1, cell 2", "'3B0'", "before its forward"}},
      {2, 2, "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", {"row 1, cell 2", "'0B0'", "cannot run"}},
      {2, 1, "0F0,1F0,1B0,0B0\n3F0,2F0,2B0,3B0\n", {"row 1, cell 3", "'1B0'", "stage 2's input pass"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1X1\n", {"row 2, cell 4", "'1X1'", "no such kind"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1BW1\n", {"row 2, cell 4", "'1BW1'", "no such kind"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,F1,1B1\n", {"row 2, cell 3", "'F1'", "number of a stage"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,-1F1,1B1\n", {"row 2, cell 3", "'-1F1'", "number of a stage"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F,1B1\n", {"row 2, cell 3", "'1F'", "number of a micro-batch"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,(1B0;1F1)OVERLAP,1B1\n", {"row 2, cell 2", "'(1B0;1F1)OVERLAP'", "OVERLAP_F_B"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,(1B0;)OVERLAP_F_B,1B1\n", {"row 2, cell 2", "'(1B0;)OVERLAP_F_B'", "empty"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,(1B0;(1F1;1B1)OVERLAP_F_B\n", {"row 2, cell 2", "'(1F1'", "number of a stage"}},
      {2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F99999999999,1B1\n", {"row 2, cell 3", "'1F99999999999'", "micro-batch"}},
      {2, 2, "0F0,0F1,0B0,0B1\n3F0,3B0,3F1,3B1\n", {"no row", "'1F0' is missing", "stage 1 of 4"}},
      {2, 2, "0F0,0F1,0B0,0B1\n900000000F0\n", {"row 2, cell 1", "'900000000F0'", "without gaps"}},
      {2, 2, "0F0,0F1,0B0,0B1\n,,\n1F0,1B0,1F1,1B1\n", {"row 2", "no action", ""}},
      {3, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", {"test.csv is for 2 ranks", "ranks are 3", "start 2 ranks"}},
      {2, 2, "  \n", {"test.csv", "no rows", ""}},
  };
  struct model *model = make_tiny_model(4, false);
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    struct plan_request request = make_request(model, cases[k].p, cases[k].m, cases[k].text);
    struct plan *plan;
    int status = planner_run("file", &request, &plan);
    T_CHECK(status == STATUS_MISTAKE && !plan, "case %zu: status %d", k, status);
    for (int j = 0; j < 3; j++)
      T_CHECK(says(cases[k].reasons[j]), "case %zu: no '%s' in: %s", k, cases[k].reasons[j], error_text());
    plan_destroy(&plan);
  }
  model_destroy(&model);
}

/* The library's own faulty file. */
static void test_faulty_file(void) {
  for (size_t k = 0; k < sizeof torch_schedules / sizeof torch_schedules[0]; k++) {
    const struct torch_schedule *file = &torch_schedules[k];
    if (file->step > 0) continue;
    struct model *model = make_tiny_model(6, false);
    struct plan *plan;
    struct plan_request request = make_request(model, file->p, file->m, file->text);
    T_CHECK(planner_run("file", &request, &plan) == STATUS_MISTAKE && says("row 3, cell 13, action '2F7'") &&
                says("0 to 6"),
            "%s", error_text());
    request = make_request(model, file->p, file->m + 1, file->text);
    T_CHECK(planner_run("file", &request, &plan) == STATUS_MISTAKE && says("row 1, action '0F7' is missing"), "%s",
            error_text());
    model_destroy(&model);
  }
}

/* ---- other shapes ---- */

/* Backwards last first, as GPipe once had it; ranks with different numbers of stages, two of them neighbours on one
 * rank. */
static void test_free_orders(void) {
  static const struct {
    const char *text;
    bool descends;
  } cases[] = {
      {"0F0,0F1,0F2,0B2,0B1,0B0\n1F0,1F1,1F2,1B2,1B1,1B0\n", true},
      {"0F0,0F1,0F2,0I0,0I1,0I2,0W2,0W0,0W1\n1F0,1F1,1F2,1B0,1B1,1B2\n", true},
      {"0F2,0F0,0F1,0B0,0B1,0B2\n1F2,1F0,1F1,1B0,1B1,1B2\n", true},
      {"0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n", false},
      {"0F0,1F0,3F0,0F1,1F1,3F1,0F2,1F2,3F2,3I0,3I1,3I2,1B0,0B0,1B1,0B1,1B2,0B2,3W0,3W1,3W2\n"
       "2F0,2F1,2F2,2B0,2B1,2B2\n",
       false},
  };
  struct model *model = make_tiny_model(4, true);
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    struct plan_request request = make_request(model, 2, 3, cases[k].text);
    char *notes = NULL;
    request.notes = &notes;
    struct plan *plan;
    struct dag *dag = NULL;
    T_CHECK(planner_run("file", &request, &plan) == STATUS_OK, "case %zu: %s", k, error_text());
    if (!plan) continue;
    T_CHECK(plan->free_order == cases[k].descends && (notes != NULL) == cases[k].descends, "case %zu: %s", k,
            notes ? notes : "no note");
    if (notes) T_CHECK(strstr(notes, "do not ascend") && strstr(notes, "rounded"), "%s", notes);
    T_CHECK(dag_build(plan, model, &dag) == STATUS_OK && dag_check(dag, plan) == STATUS_OK, "case %zu: %s", k,
            error_text());
    char *text = plan_csv_format(plan);
    T_CHECK(!strcmp(text, cases[k].text), "case %zu: %s", k, text);
    mem_free(text);
    plan->free_order = !plan->free_order;
    T_CHECK((plan_check(plan) == STATUS_OK) == !cases[k].descends, "only a plan that says so may descend: %zu", k);
    mem_free(notes);
    dag_destroy(&dag);
    plan_destroy(&plan);
  }
  model_destroy(&model);
}

/* Orders shuffled within a rank: what the reader accepts runs as a graph, what it refuses does not. */
static void shuffle(struct plan *plan, int changes) {
  for (; changes > 0; changes--) {
    int32_t r = draw(plan->n_ranks);
    int64_t first = plan->order_offset[r], n = plan->order_offset[r + 1] - first;
    if (n < 2) continue;
    int64_t a = first + draw((int32_t)n), b = first + draw((int32_t)n);
    struct plan_action kept = plan->order[a];
    plan->order[a] = plan->order[b];
    plan->order[b] = kept;
  }
}

/* Whether a shuffled plan can run, without the reader: by its graph. */
static bool can_run(struct plan *plan, const struct model *model) {
  struct dag *dag = NULL;
  plan->free_order = true;
  bool runs = !plan_check(plan) && !dag_build(plan, model, &dag) && !dag_check(dag, plan);
  dag_destroy(&dag);
  return runs;
}

static void test_random_orders(void) {
  struct model *model = make_tiny_model(4, true);
  int n_accepted = 0, n_descending = 0;
  for (int trial = 0; trial < 1500; trial++) {
    struct plan *plan = make_random_plan(model), *read = NULL;
    if (plan->forward_only) {
      plan_destroy(&plan);
      continue;
    }
    shuffle(plan, draw(3));
    bool holds_all = true; /* a rank without a stage has no row */
    for (int32_t r = 0; r < plan->n_ranks; r++)
      holds_all = holds_all && plan->order_offset[r] < plan->order_offset[r + 1];
    char *text = plan_csv_format(plan);
    struct plan_request request = make_request(model, plan->n_ranks, plan->n_micro, text);
    int status = planner_run("file", &request, &read);
    bool runs = can_run(plan, model) && holds_all;
    T_CHECK((status == STATUS_OK) == runs, "trial %d: should be %s: %s\n%s", trial, runs ? "read" : "refused",
            status ? error_text() : "", text);
    if (read) {
      char *again = plan_csv_format(read);
      T_CHECK(!strcmp(again, text) && can_run(read, model), "trial %d: %s", trial, again);
      n_accepted++;
      n_descending += strchr(text, 'F') != NULL && read->free_order;
      mem_free(again);
    }
    mem_free(text);
    plan_destroy(&read);
    plan_destroy(&plan);
  }
  T_CHECK(n_accepted > 200 && n_accepted < 1200, "both outcomes were met: %d read", n_accepted);
  model_destroy(&model);
}

/* Passes that are cut into parts are whole in the text. */
static void check_parts(const struct model *model, const struct plan *plan) {
  struct plan *copy = plan_dup(plan);
  uint32_t *ops = MEM_NEW(uint32_t, model->n_layers);
  bool *stages = MEM_NEW(bool, plan->n_stages);
  for (int32_t l = 0; l < model->n_layers; l++) ops[l] = recompute_get_ops(&model->layers[l], PARAMS_RECOMPUTE_FULL);
  for (int32_t s = 0; s < plan->n_stages; s++) stages[s] = true;
  recompute_put(copy, ops, stages);
  char *whole = plan_csv_format(copy);
  recompute_cut(copy, model, stages);
  char *parts = plan_csv_format(copy);
  T_CHECK(!strcmp(whole, parts) && copy->n_parts > 0, "%s: %s is not %s", plan->planner, parts, whole);
  mem_free(whole);
  mem_free(parts);
  mem_free(ops);
  mem_free(stages);
  plan_destroy(&copy);
}

/* Every planner's plan comes back from its text. */
static void test_export(void) {
  struct model *model = make_tiny_model(8, true);
  for (const struct planner *const *planner = planner_get_all(); *planner; planner++) {
    if (get_test_chunks(planner_get_name(*planner)) == 0) continue;
    struct plan *plan = make_plan(model, planner_get_name(*planner), 3, 5, true), *read;
    char *text = plan_csv_format(plan);
    struct plan_request request = make_request(model, 3, 5, text);
    T_CHECK(planner_run("file", &request, &read) == STATUS_OK, "%s: %s", plan->planner, error_text());
    bool same = read && read->n_stages == plan->n_stages && !read->free_order;
    for (int64_t k = 0; same && k < plan->order_offset[3]; k++)
      same = plan->order[k].kind == read->order[k].kind && plan->order[k].stage == read->order[k].stage &&
             plan->order[k].micro == read->order[k].micro;
    T_CHECK(same && !memcmp(plan->replica_rank, read->replica_rank, sizeof(int32_t) * (size_t)plan->n_stages), "%s",
            plan->planner);
    check_parts(model, plan);
    mem_free(text);
    plan_destroy(&read);
    plan_destroy(&plan);
  }
  model_destroy(&model);
}

/* A plan as planner "file" takes it from a plan.h5. */
static void test_given_plan(void) {
  struct model *model = make_tiny_model(4, true);
  struct plan *given = make_plan(model, "zb-v", 2, 3, false), *plan;
  struct plan_request request = make_request(model, 2, 3, NULL);
  int64_t limits[] = {1000, 2000};
  request.given = given;
  request.device_limit = limits;
  T_CHECK(planner_run("file", &request, &plan) == STATUS_OK, "%s", error_text());
  T_CHECK(plan && plan->clip && plan->device_limit[1] == 2000 && plan->micro[2].length == 4 && plan->n_stages == 4 &&
              plan_get_holder(plan, 3) == 0 && plan->hash && plan->hash != given->hash &&
              !strcmp(plan->planner, "file"),
          "the request's limits and micro-batches, the plan's stages and orders");
  plan_destroy(&plan);
  request.n_micro = 2;
  T_CHECK(planner_run("file", &request, &plan) == STATUS_MISTAKE && says("for 3 micro-batches, the step has 2"), "%s",
          error_text());
  request.n_micro = 3;
  request.n_ranks = 4;
  T_CHECK(planner_run("file", &request, &plan) == STATUS_MISTAKE && says("start 2 ranks"), "%s", error_text());
  plan_destroy(&given);
  model_destroy(&model);
}

int main(void) {
  test_files();
  test_spellings();
  test_refusals();
  test_faulty_file();
  test_free_orders();
  test_random_orders();
  test_export();
  test_given_plan();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
