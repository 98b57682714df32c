/* What the passes of planner obscura hand on to each other. Each pass is one file. Serial.
 *
 * A draft is a pipeline in the making: stages, how far each runs ahead, what it discards, which blocks leave. The
 * paper's passes are obscura_follow (systems of equations first, the simulator for the survivors); obscura_search
 * begins with what they find and goes on by time alone.
 */
#ifndef PENSTOCK_PLANNER_OBSCURA_OBSCURA_H
#define PENSTOCK_PLANNER_OBSCURA_OBSCURA_H

#include "planner/obscura/obscura_model.h"
#include "planner/stage_menu.h"

/* What a layer was last asked to discard, and the bytes of that. */
struct obscura_memo {
  uint32_t ops;
  int64_t bytes;
};

/* A planning. */
struct obscura {
  const struct plan_request *request;
  struct params_obscura options; /* the deck's, but for what a pass tries otherwise */
  bool early;                    /* of new drafts: recomputation does not wait for its gradient */
  enum plan_tier tier;           /* of new drafts: where blocks go */
  int32_t n_stages, n_micro, n_layers;
  struct stage_needs *needs;
  struct stage_menu **menus;  /* [n_stages] of its rank; ranks that are alike share one */
  struct obscura_memo *memos; /* [n_layers] */
};

struct obscura_draft {
  int32_t n_adjusted;        /* stages 0 .. n_adjusted-1 run ahead of 1F1B */
  struct plan_stage *stages; /* [n_stages] */
  struct stage_need *needs;  /* [n_stages] of these, copies: the forwards ahead */
  int32_t *warm_up, *steady; /* [n_stages] as in order_make_ahead */
  int32_t *lambda;           /* [n_stages] blocks that have left when the warm-up ends; 0: none leaves */
  int32_t rest;              /* blocks that stay at least where some leave */
  double beta;               /* the part of a block that leaves, at most */
  enum plan_tier tier;       /* where blocks go: rank, or host (and on to disk) */
  uint32_t *ops;             /* [n_layers] what is discarded */
  int64_t *discarded;        /* [n_stages] bytes of that, of a micro-batch */
  double *recompute;         /* [n_stages] seconds that it takes to make them again */
  int32_t *n_recompute;      /* [n_stages] of so many micro-batches, from the first */
  bool early;                /* recomputation does not wait for its gradient */
  int64_t *margin;           /* [n_stages] bytes that its plan was seen to take beyond its estimate */
  double seconds;            /* of a step, as far as it is known */
};

/* ---- obscura_draft.c ---- */

/* As 1F1B on the given stages, nothing discarded. Freed by obscura_draft_destroy. */
struct obscura_draft *obscura_draft_create(const struct obscura *x, const struct plan_stage *stages);
struct obscura_draft *obscura_draft_dup(const struct obscura *x, const struct obscura_draft *draft);
void obscura_draft_destroy(struct obscura_draft **draft);
/* Keeps `draft` in *best if it is faster, else destroys it; true when kept. */
bool obscura_draft_keep(struct obscura_draft **draft, struct obscura_draft **best);
/* Cuts the layers anew; what is discarded stays layer by layer. */
void obscura_draft_cut(const struct obscura *x, struct obscura_draft *draft, const struct plan_stage *stages);
/* Stages 0 .. n-1 run ahead as the pass has it. */
void obscura_draft_order(const struct obscura *x, struct obscura_draft *draft, int32_t n,
                         enum params_obscura_steps step);
/* The layers of a stage discard ops[n_layers]; its recomputation is priced. */
void obscura_draft_discard(const struct obscura *x, struct obscura_draft *draft, int32_t stage, const uint32_t *ops);
/* Seconds of a step when every pass starts as soon as it can and blocks cost nothing. */
double obscura_draft_time(const struct obscura *x, const struct obscura_draft *draft);
/* Bytes that a stage takes at most, by the footprints. */
int64_t obscura_draft_get_peak(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* The plan, owned by the caller, not frozen. STATUS_FAILED when its blocks cannot move as drafted. */
int obscura_draft_build(const struct obscura *x, const struct obscura_draft *draft, struct plan **plan);
/* Sets draft->seconds: those of the request's evaluation, or of obscura_draft_time without one; INFINITY when it does
 * not fit. When it takes more memory than estimated, its margin grows and the function returns true: the caller may
 * then choose again what is discarded. */
bool obscura_draft_evaluate(const struct obscura *x, struct obscura_draft *draft);
/* Sets draft->seconds by the simulator alone (the request must allow it). peaks[n_ranks] are the peak bytes of each
 * rank's device, INT64_MAX where they are not known. */
void obscura_draft_measure(const struct obscura *x, struct obscura_draft *draft, int64_t *peaks);
/* The model's terms for a draft. */
struct obscura_model obscura_draft_get_model(const struct obscura *x, const struct obscura_draft *draft);

/* ---- obscura_recompute.c ---- */

/* Bytes that may be used on a stage's rank: the limit less the margin. INT64_MAX: no limit. */
int64_t obscura_get_limit(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* The least bytes of each micro-batch that a stage has to discard for its limit; 0: none, -1: no number is enough. */
int64_t obscura_get_discard(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* What a stage may discard: mask by layer, owned by the caller. */
uint32_t *obscura_list_ops(const struct obscura *x);
/* True when each stage chooses what it discards of that, false when adjusted ones discard all of it. */
bool obscura_chooses_ops(const struct obscura *x);
/* Each of these stages discards what costs least time, as its own limit asks for. False when one cannot. */
bool obscura_fit_stages(struct obscura *x, struct obscura_draft *draft, int32_t first, int32_t end);
/* The integer programme of Eq. 4: blocks and ops of the adjusted stages. */
void obscura_solve(struct obscura *x, struct obscura_draft **draft);

/* ---- obscura_identify.c ---- */

/* What of that is cheap to rebuild (the CMB set). */
uint32_t *obscura_list_cheap(const struct obscura *x);
/* Makes all stages up to the last one that is over its limit adjusted; with step cmb those that fit with cheap
 * recomputation get that instead. Returns how many are adjusted. */
int32_t obscura_identify(const struct obscura *x, struct obscura_draft *draft);

/* ---- obscura_swap.c ---- */

/* Whether blocks may leave, and whether those of a stage may. */
bool obscura_may_swap(const struct obscura *x);
bool obscura_may_leave(const struct obscura *x, int32_t stage);
/* The transfer of a block of a stage one way, seconds. */
double obscura_get_transfer(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* Lets the blocks of the draft move in its plan, whose orders have their recomputation. */
int obscura_put_moves(const struct obscura *x, const struct obscura_draft *draft, struct plan *plan);

/* obscura_spill.c: of the n moves of a stage, each of so many bytes, those for which host memory has no room go on to
 * disk, as far as there is one and the request's tier has it; with tier disk all that can. */
void obscura_spill(const struct obscura *x, const struct plan *plan, int32_t stage, int64_t bytes,
                   struct plan_move *moves, int32_t n);

/* ---- obscura_peer.c ---- */

/* The rank that keeps a stage's blocks where they go to one: that with the most room. There are two stages at least. */
int32_t obscura_get_peer(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* True when a block of some stage is sooner on another rank than in host memory, as far as costs and an evaluation
 * tell. */
bool obscura_links_are_faster(const struct obscura *x, const struct plan_stage *stages);

/* ---- obscura_partition.c ---- */

/* Algorithm 1: layers from the slowest adjusted stage to the fastest other. */
void obscura_adjust(struct obscura *x, struct obscura_draft **draft);
/* stages[n_stages] with one layer from stage `from` to stage `to`; those between move by one. False when `from` has
 * one. */
bool obscura_move_layer(struct plan_stage *stages, int32_t from, int32_t to);

/* ---- the whole ---- */

/* planner_obscura.c: the paper's passes up to options.steps. Owned by the caller. */
struct obscura_draft *obscura_follow(struct obscura *x, const struct plan_stage *stages);
/* obscura_search.c: from a pipeline of the paper's on. Takes the draft over, gives one that is no slower; `rival`
 * (may be NULL) is a partition to try too. Where nothing fits
 * it is one that takes as little memory as can be. */
struct obscura_draft *obscura_search(struct obscura *x, struct obscura_draft *paper, const struct plan_stage *rival);
/* obscura_rivals.c: the fastest of the plans that other planners make for the request, with its seconds, owned by the
 * caller; NULL when none fits. */
struct plan *obscura_find_rival(const struct obscura *x, double *seconds);

#endif
