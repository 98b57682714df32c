/* The plan for people. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/words.h"
#include "model/model.h"
#include "plan/recompute.h"
#include "report/plan_report.h"
#include "report/report_step.h"
#include "sim/sim.h"

enum { RANKS_DRAWN = 32, RANKS_LISTED = 64, RUNS_LISTED = 24 };
static const double MIB = 1024.0 * 1024.0;

/* Mean seconds of a stage's passes over the micro-batches. */
struct stage_means {
  double forward, recompute, backward;
};

static struct stage_means *measure_stages(const struct plan_report *r) {
  struct stage_means *means = MEM_NEW(struct stage_means, r->plan->n_stages);
  for (int32_t v = 0; v < r->dag->n_nodes; v++) {
    const struct dag_node *n = &r->dag->nodes[v];
    double mean = (r->sim->end[v] - r->sim->start[v]) / r->plan->n_micro;
    if (n->kind == NODE_F) means[n->stage].forward += mean;
    if (n->kind == NODE_R) means[n->stage].recompute += mean;
    if (n->kind == NODE_B || n->kind == NODE_I || n->kind == NODE_W) means[n->stage].backward += mean;
  }
  return means;
}

static void print_head(FILE *out, const struct plan_report *r) {
  const struct micro_shape *micro = &r->plan->micro[0];
  fprintf(out, "plan %s: %d stage%s on %d rank%s, %d micro-batch%s of %d x %d tokens; costs: %s\n", r->plan->planner,
          (int)r->plan->n_stages, words_get_ending(r->plan->n_stages), (int)r->plan->n_ranks,
          words_get_ending(r->plan->n_ranks), (int)r->plan->n_micro, r->plan->n_micro == 1 ? "" : "es",
          (int)micro->rows, (int)micro->length, r->cost_source);
  for (const char *note = r->notes; *note;) {
    int n = 0;
    while (note[n] && note[n] != '\n') n++;
    fprintf(out, "note: %.*s\n", n, note);
    note += n + (note[n] == '\n');
  }
}

/* By how much the step is longer than what no order of these stages, and no cut, can be shorter than. */
static void print_bound(FILE *out, const struct plan_report *r, const char *title, double least, double any) {
  char text[WORDS_DURATION];
  fprintf(out, "%s %s, step / bound %.3f", title, words_format_duration(least, text), r->sim->step / least);
  if (any > 0) fprintf(out, "; of any cut %s, step / bound %.3f", words_format_duration(any, text), r->sim->step / any);
  fputc('\n', out);
}

/* Limits are worth a line where they raise what is known of the step. */
static void print_bounds(FILE *out, const struct plan_report *r) {
  if (!(r->least > 0)) return;
  print_bound(out, r, "lower bound", r->least, r->least_any_cut);
  if (r->least_staying > r->least * 1.0005 || r->least_any_staying > r->least_any_cut * 1.0005)
    print_bound(out, r, "where no activations leave their device", r->least_staying, r->least_any_staying);
}

static void print_step(FILE *out, const struct plan_report *r) {
  struct plan_shares shares = plan_report_get_shares(r);
  char step[WORDS_DURATION];
  fprintf(out, "predicted step %s", words_format_duration(r->sim->step, step));
  if (r->sim->n_iterations > 1)
    fprintf(out, " (%d steps take %s)", (int)r->sim->n_iterations, words_format_duration(r->sim->makespan, step));
  fprintf(out, "; idle %.1f %%", 100 * shares.bubble);
  if (isnan(shares.overlap))
    fprintf(out, "; messages take no time\n");
  else
    fprintf(out, "; %.1f %% of the messages' time is hidden\n", 100 * shares.overlap);
  print_bounds(out, r);
}

static void print_stages(FILE *out, const struct plan_report *r) {
  struct stage_means *means = measure_stages(r);
  fprintf(out, "\nstage   rank       layers  blocks    parameters  forward ms  recompute  backward  discards\n");
  for (int32_t s = 0; s < r->plan->n_stages && s < RANKS_LISTED; s++) {
    const struct plan_stage *stage = &r->plan->stages[s];
    int64_t parameters = 0;
    int32_t body = 0;
    for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
      parameters += r->model->layers[l].n_parameters;
      body += r->model->layers[l].block >= 0;
    }
    char layers[32];
    snprintf(layers, sizeof layers, "%d-%d", (int)stage->first_layer, (int)(stage->first_layer + stage->n_layers - 1));
    char *discards = recompute_describe(r->plan, r->model, s);
    fprintf(out, "%5d  %5d  %11s  %6g  %12" PRId64 "  %10.4g  %9.4g  %8.4g  %s%s\n", (int)s,
            (int)plan_get_holder(r->plan, s), layers, body / 2.0, parameters, means[s].forward * 1e3,
            means[s].recompute * 1e3, means[s].backward * 1e3, *discards ? discards : "-",
            plan_has_parts(r->plan, s) ? ", block by block" : "");
    mem_free(discards);
  }
  if (r->plan->n_stages > RANKS_LISTED) fprintf(out, "... and %d stages more\n", (int)r->plan->n_stages - RANKS_LISTED);
  mem_free(means);
}

static void print_place(FILE *out, const struct dag_swap *swap) {
  if (swap->tier == PLAN_TIER_RANK)
    fprintf(out, "rank %d\n", (int)swap->peer);
  else
    fprintf(out, "%s\n", plan_tier_get_name((enum plan_tier)swap->tier));
}

/* Prints what leaves its device between forward and backward; prints nothing when nothing does. */
static void print_moves(FILE *out, const struct plan_report *r) {
  struct dag_swap *swaps;
  int32_t n = dag_summarize_moves(r->plan, r->model, &swaps);
  if (n > 0) fprintf(out, "\nstage   rank  blocks moved  away at once  MiB a block  of what is kept  to\n");
  for (int32_t k = 0; k < n && k < RANKS_LISTED; k++) {
    const struct dag_swap *s = &swaps[k];
    fprintf(out, "%5d  %5d  %12d  %12d  %11.4g  %13.4g %%  ", (int)s->stage, (int)s->rank, (int)s->n_moves,
            (int)s->blocks, (double)s->bytes / s->n_moves / MIB, 100 * s->fraction);
    print_place(out, s);
  }
  if (n > RANKS_LISTED) fprintf(out, "... and %d rows more\n", (int)n - RANKS_LISTED);
  if (n > 0 && r->sim->block_seconds > 0)
    fprintf(out, "blocks are on their way for %.4g ms in all; %.1f %% of that is hidden\n", r->sim->block_seconds * 1e3,
            100 * (1 - r->sim->block_exposed_seconds / r->sim->block_seconds));
  mem_free(swaps);
}

static void print_memory(FILE *out, const struct plan_report *r) {
  fprintf(out, "\nrank");
#define X(name, title) fprintf(out, "  %10s", title);
  MEMORY_PARTS(X)
#undef X
  fprintf(out, "        peak       limit  (MiB at the peak)\n");
  for (int32_t k = 0; k < r->plan->n_ranks && k < RANKS_LISTED; k++) {
    struct memory_parts parts = plan_report_get_memory(r->dag, k);
    fprintf(out, "%4d", (int)k);
#define X(name, title) fprintf(out, "  %10.2f", (double)parts.name / MIB);
    MEMORY_PARTS(X)
#undef X
    fprintf(out, "  %10.2f", (double)dag_get_peak(r->dag, k, NULL) / MIB);
    if (r->plan->device_limit[k] == INT64_MAX)
      fprintf(out, "  %10s\n", "none");
    else
      fprintf(out, "  %10.2f\n", (double)r->plan->device_limit[k] / MIB);
  }
  if (r->plan->n_ranks > RANKS_LISTED) fprintf(out, "... and %d ranks more\n", (int)r->plan->n_ranks - RANKS_LISTED);
}

static void print_pool(FILE *out, const struct plan_report *r, int32_t rank, enum pool_kind pool, int64_t limit) {
  fprintf(out, "  %10.2f", (double)dag_get_pool_peak(r->dag, rank, pool, NULL) / MIB);
  if (limit == INT64_MAX)
    fprintf(out, "  %10s", "none");
  else
    fprintf(out, "  %10.2f", (double)limit / MIB);
}

/* Prints the host memory and disk in which blocks of activations wait. */
static void print_pools(FILE *out, const struct plan_report *r) {
  bool any = false;
  for (int32_t k = 0; k < r->plan->n_moves; k++) any |= r->plan->moves[k].tier != PLAN_TIER_RANK;
  if (!any) return;
  fprintf(out, "\nrank   host peak       limit   disk peak       limit  (MiB)\n");
  for (int32_t k = 0; k < r->plan->n_ranks && k < RANKS_LISTED; k++) {
    fprintf(out, "%4d", (int)k);
    print_pool(out, r, k, POOL_HOST, r->plan->host_limit[k]);
    print_pool(out, r, k, POOL_DISK, r->plan->disk_limit[k]);
    fputc('\n', out);
  }
}

static void print_picture(FILE *out, const struct plan_report *r) {
  int32_t n_ranks = r->plan->n_ranks < RANKS_DRAWN ? r->plan->n_ranks : RANKS_DRAWN;
  int64_t n = r->dag->rank_offset[n_ranks];
  struct node_row *rows = MEM_NEW(struct node_row, n);
  struct step_view view;
  double end = 0;
  for (int32_t k = 0; k < r->plan->n_ranks; k++)
    end = r->sim->ranks[k].last_end > end ? r->sim->ranks[k].last_end : end;
  for (int32_t v = 0; v < n; v++) rows[v] = plan_report_make_row(r, v);
  step_view_init_rows(&view, rows, n, end, false);
  char *picture = report_step_draw(&view);
  fprintf(out, "\nthe step (a column is 1/%d of it; F forward, R recompute, B I W backward, U update, . idle)\n%s",
          REPORT_PICTURE_COLUMNS, REPORT_PICTURE_NOTE);
  for (int32_t k = 0; k < view.n_ranks; k++)
    fprintf(out, "%4d |%s|\n", (int)k, picture + (size_t)k * (REPORT_PICTURE_COLUMNS + 1));
  if (r->plan->n_ranks > n_ranks) fprintf(out, "... and %d ranks more\n", (int)(r->plan->n_ranks - n_ranks));
  mem_free(picture);
  step_view_fini(&view);
  mem_free(rows);
}

static FILE *open_text(char **buffer, size_t *size) {
  FILE *out = open_memstream(buffer, size);
  CHECK(out, "out of memory");
  return out;
}

static char *close_text(FILE *out, char **buffer) {
  CHECK(!fclose(out), "out of memory");
  char *text = mem_strdup(*buffer);
  free(*buffer);
  return text;
}

char *plan_report_format(const struct plan_report *r) {
  char *buffer = NULL;
  size_t size;
  FILE *out = open_text(&buffer, &size);
  print_head(out, r);
  print_step(out, r);
  print_stages(out, r);
  print_moves(out, r);
  print_memory(out, r);
  print_pools(out, r);
  print_picture(out, r);
  return close_text(out, &buffer);
}

/* ---- times ---- */

static void print_ranks(FILE *out, const struct plan_report *r) {
  bool moves = r->plan->n_moves > 0; /* else no rank waits for blocks */
  fprintf(out, "\nrank        busy  idle: fill       drain        data     message       other%s  (ms of %s step)\n",
          moves ? "     offload" : "", r->sim->n_iterations > 1 ? "the first" : "the");
  for (int32_t k = 0; k < r->plan->n_ranks && k < RANKS_LISTED; k++) {
    const struct sim_rank *rank = &r->sim->ranks[k];
    fprintf(out, "%4d  %10.4g  %10.4g  %10.4g  %10.4g  %10.4g  %10.4g", (int)k, rank->busy * 1e3, rank->idle.fill * 1e3,
            rank->idle.drain * 1e3, rank->idle.data * 1e3, rank->idle.message * 1e3, rank->idle.other * 1e3);
    if (moves) fprintf(out, "  %10.4g", rank->idle.offload * 1e3);
    fputc('\n', out);
  }
#define X(name, meaning)                                                                                               \
  if (moves || strcmp(#name, "offload")) fprintf(out, "  %-7s %s\n", #name, meaning);
  STEP_IDLE_WORDS(X)
#undef X
  fprintf(out, "\nstage  forward bubble  backward bubble  (ms)\n");
  for (int32_t s = 0; s < r->plan->n_stages && s < RANKS_LISTED; s++)
    fprintf(out, "%5d  %14.4g  %15.4g\n", (int)s, r->sim->stages[s].forward_bubble * 1e3,
            r->sim->stages[s].backward_bubble * 1e3);
}

/* "F 0 .. B 3": the first and the last node of a run. */
static void print_run(FILE *out, const struct dag *dag, const struct step_path_run *run) {
  const int32_t ends[2] = {run->first, run->last};
  fprintf(out, "%10.6g  %10.6g  %5d  ", run->from * 1e3, run->until * 1e3, (int)dag->nodes[run->first].rank);
  for (int k = 0; k < (run->n_nodes > 1 ? 2 : 1); k++) {
    char text[80];
    dag_describe_node(&dag->nodes[ends[k]], text, sizeof text);
    fprintf(out, "%s%s", k ? " to " : "", text);
  }
  if (run->n_nodes > 2) fprintf(out, ", %" PRId64 " nodes", run->n_nodes);
  fputc('\n', out);
}

/* The chain that ends last, each node of it after the one that let it start. Runs without time of their own (messages
 * that take none) are not worth a line. */
static void print_critical_path(FILE *out, const struct plan_report *r) {
  struct step_path path = plan_report_find_path(r);
  fprintf(out, "\ncritical path: %" PRId64 " nodes,", path.n_nodes);
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    if (path.seconds[k] > 0) fprintf(out, " %s %.4g ms", node_kind_get_name((enum node_kind)k), path.seconds[k] * 1e3);
  fprintf(out, "\n   from ms    until ms   rank\n");
  int64_t n = 0, shown = 0;
  for (int64_t k = 0; k < path.n_runs; k++) n += path.runs[k].until > path.runs[k].from;
  for (int64_t k = 0; k < path.n_runs; k++) {
    if (path.runs[k].until <= path.runs[k].from) continue;
    if (n <= RUNS_LISTED || shown < RUNS_LISTED / 2 || shown >= n - RUNS_LISTED / 2)
      print_run(out, r->dag, &path.runs[k]);
    else if (shown == RUNS_LISTED / 2)
      fprintf(out, "... %" PRId64 " more\n", n - RUNS_LISTED);
    shown++;
  }
  step_path_fini(&path);
}

char *plan_report_format_times(const struct plan_report *r) {
  char *buffer = NULL;
  size_t size;
  FILE *out = open_text(&buffer, &size);
  print_head(out, r);
  print_step(out, r);
  print_ranks(out, r);
  print_critical_path(out, r);
  print_moves(out, r);
  print_memory(out, r);
  print_picture(out, r);
  return close_text(out, &buffer);
}

/* ---- several planners ---- */

char *plan_report_format_choices(const struct plan_choice *choices, int n) {
  char *buffer = NULL;
  size_t size;
  FILE *out = open_text(&buffer, &size);
  fprintf(out, "planner           step ms    idle %%  hidden %%    peak MiB  stages that recompute\n");
  for (int i = 0; i < n; i++) {
    const struct plan_choice *c = &choices[i];
    fprintf(out, "%-14s", c->planner);
    if (c->reason) {
      fprintf(out, "  no plan: see below\n");
      continue;
    }
    fprintf(out, " %10.6g  %8.1f", c->step_s * 1e3, 100 * c->shares.bubble);
    if (isnan(c->shares.overlap))
      fprintf(out, "  %8s", "-");
    else
      fprintf(out, "  %8.1f", 100 * c->shares.overlap);
    fprintf(out, "  %10.2f  %d\n", (double)c->peak_bytes / MIB, (int)c->n_recompute);
  }
  for (int i = 0; i < n; i++)
    if (choices[i].reason) fprintf(out, "\n%s has no plan: %s\n", choices[i].planner, choices[i].reason);
  return close_text(out, &buffer);
}
