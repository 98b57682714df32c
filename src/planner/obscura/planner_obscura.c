/* Obscura (Huang et al., USENIX ATC 2025): stages over their limit recompute, and run forwards ahead of 1F1B, so that
 * what would be idle time before their first backward lies between backwards instead and takes up the recomputation.
 *
 * The passes of the paper, in its order: identify, migrate, relax, refine, swap and recompute, adjust the partition.
 * That is all with options.faithful, with fewer passes than all, and with a given number of adjusted stages or of
 * blocks that leave. Else the search goes on from there, and what other planners make of the same request is held
 * against it.
 */
#include "planner/obscura/obscura.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cost/cost.h"
#include "model/model.h"
#include "planner/one_f_one_b.h"

/* Returns the first stage whose rank has the costs of this stage's rank. */
static int32_t find_alike(const struct plan_request *request, int32_t stage) {
  int32_t first = 0, rank = planner_get_rank(request, stage);
  while (first < stage && request->cost && !cost_ranks_alike(request->cost, planner_get_rank(request, first), rank))
    first++;
  return first;
}

static void open_planning(struct obscura *x, const struct plan_request *request) {
  *x = (struct obscura){.request = request,
                        .options = request->params->obscura,
                        .early = request->recompute_early && request->recompute_by != PARAMS_RECOMPUTE_BY_BLOCK,
                        .tier = request->params->pipeline.swap_tier == PARAMS_SWAP_TIER_RANK ? PLAN_TIER_RANK
                                                                                             : PLAN_TIER_HOST,
                        .n_stages = request->n_stages,
                        .n_micro = request->n_micro,
                        .n_layers = request->model->n_layers,
                        .copy_factor = 1};
  x->needs = stage_needs_create(request);
  x->menus = MEM_NEW(struct stage_menu *, x->n_stages);
  for (int32_t s = 0; s < x->n_stages; s++) {
    int32_t alike = find_alike(request, s);
    x->menus[s] = alike < s ? x->menus[alike] : stage_menu_create(request, x->needs, s);
  }
  x->memos = MEM_NEW(struct obscura_memo, x->n_layers);
}

static void close_planning(struct obscura *x) {
  for (int32_t s = x->n_stages - 1; s >= 0; s--)
    if (find_alike(x->request, s) == s) stage_menu_destroy(&x->menus[s]);
  stage_needs_destroy(&x->needs);
  mem_free(x->menus);
  mem_free(x->memos);
}

static struct obscura_draft *follow_once(struct obscura *x, const struct plan_stage *stages, const int64_t *margin) {
  struct obscura_draft *d = obscura_draft_create(x, stages);
  memcpy(d->margin, margin, sizeof *margin * (size_t)x->n_stages);
  uint32_t *ops = obscura_list_ops(x);
  obscura_draft_order(x, d, obscura_identify(x, d), x->options.steps);
  for (int32_t s = 0; s < d->n_adjusted; s++) obscura_draft_discard(x, d, s, ops);
  if (x->options.steps >= PARAMS_OBSCURA_STEPS_SWAP) obscura_solve(x, &d);
  if (x->options.steps >= PARAMS_OBSCURA_STEPS_PARTITION && x->request->partition.kind == PARAMS_CUT_AUTO)
    obscura_adjust(x, &d);
  mem_free(ops);
  return d;
}

/* Follows the paper. When the plan takes more memory than estimated, it is done once more with the margins learnt:
 * another stage may be adjusted. */
struct obscura_draft *obscura_follow(struct obscura *x, const struct plan_stage *stages) {
  enum { TRIES = 3 };
  int64_t *margin = MEM_NEW(int64_t, x->n_stages);
  struct obscura_draft *d = NULL;
  bool forced = x->options.adjusted_stages != PARAMS_AUTO;
  for (int t = 0; t < TRIES; t++) {
    obscura_draft_destroy(&d);
    d = follow_once(x, stages, margin);
    if (forced || !isinf(d->seconds) || !x->request->simulate) break;
    obscura_draft_evaluate(x, d);
    if (!isinf(d->seconds)) break;
    memcpy(margin, d->margin, sizeof *margin * (size_t)x->n_stages);
  }
  mem_free(margin);
  return d;
}

/* Chooses the partition to begin with: even as in the paper; by cost where whole blocks do not fill the stages. */
static void choose_base(const struct plan_request *request, struct plan_stage *stages) {
  struct plan_request even = *request;
  if (request->partition.kind != PARAMS_CUT_AUTO) return;
  even.partition.kind = PARAMS_CUT_EVEN;
  struct plan_stage *cut = MEM_NEW(struct plan_stage, request->n_stages);
  if (partition_make(&even, cut))
    error_clear();
  else
    for (int32_t s = 0; s < request->n_stages; s++) stages[s] = cut[s];
  mem_free(cut);
}

static bool goes_beyond(const struct params_obscura *o) {
  bool forced = o->adjusted_stages != PARAMS_AUTO || o->lambda > 0;
  return !o->faithful && !forced && o->steps == PARAMS_obscura_steps_COUNT - 1;
}

/* Follows the paper's procedure to the letter, except for the instant when a recomputation begins. */
static struct obscura_draft *follow_faithfully(struct obscura *x, const struct plan_stage *stages, bool early) {
  struct params_obscura options = x->options;
  bool before = x->early;
  x->options.faithful = true;
  x->early = early;
  struct obscura_draft *draft = obscura_follow(x, stages);
  if (isinf(draft->seconds)) obscura_draft_evaluate(x, draft);
  x->options = options;
  x->early = before;
  return draft;
}

/* Notes which plan was taken, and by how much it is faster. A plan that does not fit counts as infinitely slow. */
static void note_choice(const struct obscura *x, const char *taken, const char *other, double by, double by_paper) {
  char *paper = isfinite(by_paper) ? mem_format(", %.1f %% faster than by the paper's procedure", 100 * by_paper)
                                   : mem_strdup("; by the paper's procedure none fits");
  if (isfinite(by) && by < 5e-4)
    planner_note(x->request, "obscura: %s plan is taken, as fast as %s%s", taken, other, paper);
  else if (isfinite(by))
    planner_note(x->request, "obscura: %s plan is taken, %.1f %% faster than %s%s", taken, 100 * by, other, paper);
  else
    planner_note(x->request, "obscura: %s plan is taken; no other fits%s", taken, paper);
  mem_free(paper);
}

/* Takes the faster of two choices: the search's own and the other planners'. */
static struct plan *take(const struct obscura *x, struct obscura_choice *own, struct obscura_choice *rival,
                         double paper) {
  bool other = rival->seconds < own->seconds;
  struct obscura_choice *taken = other ? rival : own, *left = other ? own : rival;
  char *name = other ? mem_format("%s's", rival->plan->planner) : mem_strdup("its own");
  note_choice(x, name,
              other         ? "its own"
              : rival->plan ? rival->plan->planner
                            : "",
              left->seconds / taken->seconds - 1, paper / taken->seconds - 1);
  if (other) planner_fill(x->request, "obscura", rival->plan);
  *x->request->evaluated = taken->seconds;
  plan_destroy(&left->plan);
  mem_free(name);
  return taken->plan;
}

/* Takes the fastest plan of all that were evaluated; without a simulator, or when none fits, the draft's. */
static int choose_best(struct obscura *x, const struct plan_stage *stages, struct plan **plan) {
  struct obscura_choice rival = {.seconds = INFINITY}, own = {.seconds = INFINITY};
  struct obscura_draft *paper = follow_faithfully(x, stages, false);
  double before = paper->seconds;
  int status = STATUS_OK;
  if (x->early) {
    struct obscura_draft *early = follow_faithfully(x, stages, true);
    obscura_draft_keep(&early, &paper);
  }
  obscura_find_rival(x, &rival);
  struct obscura_draft *draft = obscura_search(x, paper, stages, &own);
  status = obscura_draft_build(x, draft, plan);
  if (!status && x->request->simulate && isfinite(draft->seconds)) {
    obscura_choice_offer(&own, x, *plan, NULL);
    *plan = NULL;
  }
  if (!status && (own.plan || rival.plan)) {
    plan_destroy(plan);
    *plan = take(x, &own, &rival, before);
  }
  obscura_draft_destroy(&draft);
  return status;
}

static int check_request(const struct plan_request *request) {
  CHECK(request->params, "planner obscura is asked without a deck");
  const struct params_obscura *o = &request->params->obscura;
  bool given = request->recompute_stages || request->n_recompute_stages != PLAN_ALL_STAGES;
  if (request->recompute_ops && given)
    return error_raise(STATUS_MISTAKE, "planner obscura finds out itself which stages recompute: leave "
                                       "pipeline.recompute_stages out, or set obscura.adjusted_stages");
  if (o->adjusted_stages > request->n_stages)
    return error_raise(STATUS_MISTAKE, "obscura.adjusted_stages is %d; there are %d stages", (int)o->adjusted_stages,
                       (int)request->n_stages);
  return STATUS_OK;
}

/* Notes that obscura.lambda asks for blocks that leave, and none does. */
static void note_blocks(const struct obscura *x, const struct plan *plan) {
  if (x->options.lambda <= 0 || plan->n_moves > 0) return;
  planner_note(
      x->request,
      "obscura.lambda is %d, but no activations leave: no stage is adjusted, or those that are run too few forwards "
      "ahead for so many, or do not fit with them",
      (int)x->options.lambda);
}

/* Notes that pipeline.swap_tier names a place that is not used: nothing need wait there, or nothing has the time to. */
static void note_tier(const struct obscura *x, const struct plan *plan) {
  static const enum plan_tier tiers[] = {[PARAMS_SWAP_TIER_HOST] = PLAN_TIER_HOST,
                                         [PARAMS_SWAP_TIER_DISK] = PLAN_TIER_DISK,
                                         [PARAMS_SWAP_TIER_RANK] = PLAN_TIER_RANK};
  int asked = x->request->params->pipeline.swap_tier;
  if (asked == PARAMS_SWAP_TIER_AUTO) return;
  for (int32_t m = 0; m < plan->n_moves; m++)
    if (plan->moves[m].tier == (int32_t)tiers[asked]) return;
  planner_note(x->request, "pipeline.swap_tier is %s, but no block of activations goes there: %s",
               params_name_choice(PARAM_pipeline_swap_tier, asked),
               plan->n_moves ? "none has the time to" : "with these limits and times none needs to leave");
}

static int make_by(const struct plan_request *request, struct plan **plan) {
  struct obscura x;
  *plan = NULL;
  int status = check_request(request);
  if (!status) status = planner_linear_make(request, "obscura", one_f_one_b_get_warm_up, NULL, plan);
  if (status) return status;
  open_planning(&x, request);
  choose_base(request, (*plan)->stages);
  struct plan *base = *plan;
  *plan = NULL;
  if (goes_beyond(&x.options)) {
    status = choose_best(&x, base->stages, plan);
  } else {
    struct obscura_draft *draft = obscura_follow(&x, base->stages);
    status = obscura_draft_build(&x, draft, plan);
    if (!status) note_blocks(&x, *plan);
    obscura_draft_destroy(&draft);
  }
  if (!status) note_tier(&x, *plan);
  plan_destroy(&base);
  close_planning(&x);
  return status;
}

/* The paper has it wait. */
static bool begins_early(const struct params *params) { return !params->obscura.faithful; }

/* True when with a little less memory no cut would fit that recomputes stage by stage, without blocks that leave. */
static bool is_tight(const struct plan_request *request) {
  static const double PART = 0.92;
  if (request->partition.kind != PARAMS_CUT_AUTO || !request->device_limit) return false;
  struct plan_request less = *request;
  struct obscura x;
  int64_t *limits = MEM_NEW(int64_t, request->n_ranks);
  struct plan_stage *stages = MEM_NEW(struct plan_stage, request->n_stages);
  for (int32_t r = 0; r < request->n_ranks; r++) {
    int64_t limit = planner_get_limit(request, r);
    limits[r] = limit == INT64_MAX ? limit : (int64_t)(PART * (double)limit);
  }
  less.device_limit = limits;
  open_planning(&x, &less);
  x.options.lambda = 0;
  bool fits = obscura_cut_least(&x, stages);
  close_planning(&x);
  mem_free(stages);
  mem_free(limits);
  return !fits;
}

static void pass_notes(const struct plan_request *request, const char *notes) {
  for (const char *line = notes; line && *line;) {
    int n = (int)strcspn(line, "\n");
    planner_note(request, "%.*s", n, line);
    line += n + (line[n] == '\n');
  }
}

/* Plans with recomputation block by block, and takes that plan if it is faster than `seconds`. */
static int take_by_block(const struct plan_request *request, double seconds, struct plan **plan) {
  struct plan_request by_block = *request;
  struct plan *other = NULL;
  char *notes = NULL;
  double found = NAN;
  by_block.recompute_by = PARAMS_RECOMPUTE_BY_BLOCK;
  by_block.notes = &notes;
  by_block.evaluated = &found;
  int status = make_by(&by_block, &other);
  if (status ||
      (!isnan(seconds) && !(found < seconds))) { /* where neither fits, less memory makes the better message */
    error_clear();
    plan_destroy(&other);
  } else {
    planner_note(request, "obscura: recomputation goes block by block (pipeline.recompute_by)%s",
                 isnan(seconds) ? ", as nothing fits otherwise" : ", which is faster");
    pass_notes(request, notes);
    *request->evaluated = found;
    plan_destroy(plan);
    *plan = other;
  }
  mem_free(notes);
  return STATUS_OK;
}

/* Tries recomputation block by block where memory is tight and the deck lets the planner choose. */
static int make(const struct plan_request *request, struct plan **plan) {
  struct plan_request by_stage = *request;
  char *notes = NULL;
  by_stage.notes = &notes;
  int status = make_by(&by_stage, plan);
  double seconds = *request->evaluated;
  bool may = request->recompute_by == PARAMS_RECOMPUTE_BY_AUTO && request->recompute_ops && request->simulate &&
             goes_beyond(&request->params->obscura);
  const struct plan *before = *plan;
  if (!status && may && (isnan(seconds) || is_tight(request))) status = take_by_block(request, seconds, plan);
  if (*plan == before) pass_notes(request, notes);
  mem_free(notes);
  return status;
}

const struct planner planner_obscura = {
    .id = PARAMS_PLANNER_OBSCURA, .make = make, .recomputes_itself = true, .begins_early = begins_early};
