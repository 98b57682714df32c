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

/* The last question about a layer: the ops to discard, and the bytes of them. */
struct obscura_memo {
  uint32_t ops;
  int64_t bytes;
};

/* A planning. */
struct obscura {
  const struct plan_request *request;
  struct params_obscura options; /* the deck's, but for what a pass tries otherwise */
  bool early;                    /* for new drafts: recomputation does not wait for its gradient */
  enum plan_tier tier;           /* for new drafts: where blocks of activations go */
  int32_t n_stages, n_micro, n_layers;
  double copy_factor; /* of the quick times of copies of blocks: 1, but where a search supposes others */
  struct stage_needs *needs;
  struct stage_menu **menus;  /* [n_stages] of its rank; ranks that are alike share one */
  struct obscura_memo *memos; /* [n_layers] */
};

struct obscura_draft {
  int32_t n_micro;
  int32_t n_adjusted;        /* stages 0 .. n_adjusted-1 run ahead of 1F1B */
  struct plan_stage *stages; /* [n_stages] */
  struct stage_need *needs;  /* [n_stages] needs; `copies` of each: the forwards that the stage runs ahead */
  int32_t *warm_up, *steady; /* [n_stages] forwards ahead, as in order_make_ahead */
  int32_t *lambda;           /* [n_stages] blocks that have left when the warm-up ends; 0: none leaves */
  int32_t rest;              /* blocks that stay at least where some leave */
  double beta;               /* the part of a block that leaves, at most */
  enum plan_tier tier;       /* where blocks go: rank, or host (and on to disk) */
  uint32_t *ops;             /* [n_layers] the ops that are discarded */
  int64_t *discarded;        /* [n_stages] bytes of a micro-batch that are discarded */
  double *recompute;         /* [n_stages] seconds of a recomputation */
  int32_t *n_recompute;      /* [n_stages] micro-batches that recompute, from the first */
  bool early;                /* recomputation does not wait for its gradient */
  int64_t *margin;           /* [n_stages] bytes that evaluated plans took beyond the draft's estimate */
  double seconds;            /* of a step, estimated or evaluated */
  double limits;             /* in a pool: the part of the request's limits that it was judged with */
};

/* The fastest of the plans that were offered, as it was evaluated. */
struct obscura_choice {
  struct plan *plan; /* owned by whoever made the choice; NULL: none fits */
  double seconds;    /* INFINITY: none fits */
};

/* obscura_choice.c: evaluates the plan and takes it over; it stays when it is the fastest. peaks[n_ranks] (may be NULL)
 * as of planner_evaluate. Returns its seconds, INFINITY when it does not fit. */
double obscura_choice_offer(struct obscura_choice *choice, const struct obscura *x, struct plan *plan, int64_t *peaks);

/* ---- obscura_draft.c ---- */

/* Makes a draft of 1F1B on the given stages; nothing is discarded. */
struct obscura_draft *obscura_draft_create(const struct obscura *x, const struct plan_stage *stages);
struct obscura_draft *obscura_draft_dup(const struct obscura *x, const struct obscura_draft *draft);
void obscura_draft_destroy(struct obscura_draft **draft);
/* Keeps `draft` in *best if it is faster, else destroys it; true when kept. */
bool obscura_draft_keep(struct obscura_draft **draft, struct obscura_draft **best);
/* Cuts the layers anew; what is discarded stays layer by layer. */
void obscura_draft_cut(const struct obscura *x, struct obscura_draft *draft, const struct plan_stage *stages);
/* Makes stages 0 .. n-1 run ahead as this step of the paper does. */
void obscura_draft_order(const struct obscura *x, struct obscura_draft *draft, int32_t n,
                         enum params_obscura_steps step);
/* The layers of a stage discard ops[n_layers]; its recomputation is priced. */
void obscura_draft_discard(const struct obscura *x, struct obscura_draft *draft, int32_t stage, const uint32_t *ops);
/* Returns the seconds of a step when every pass starts as soon as it can. */
double obscura_draft_time(const struct obscura *x, const struct obscura_draft *draft);
/* Returns the most bytes that a stage takes, estimated by the footprints. */
int64_t obscura_draft_get_peak(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* Sets the seconds of a message of a stage to the next one, and of one back. */
void obscura_draft_get_messages(const struct obscura *x, const struct obscura_draft *draft, int32_t stage, double *send,
                                double *send_back);
/* Fills in what does not depend on the orders: stages, their ranks, paces, and all that no planner decides. */
void obscura_draft_put_stages(const struct obscura *x, const struct obscura_draft *draft, struct plan *plan);
/* Makes the draft's plan, owned by the caller, not frozen. */
int obscura_draft_build(const struct obscura *x, const struct obscura_draft *draft, struct plan **plan);
/* Sets draft->seconds by planner_evaluate, or by obscura_draft_time where the request does not allow the simulator;
 * INFINITY when it does not fit. When it takes more memory than estimated, its margin grows and the function returns
 * true: the caller may then choose again what is discarded. */
bool obscura_draft_evaluate(const struct obscura *x, struct obscura_draft *draft);
/* Sets draft->seconds by the simulator alone (the request must allow it). peaks[n_ranks] are the peak bytes of each
 * rank's device, INT64_MAX where they are not known. */
void obscura_draft_measure(const struct obscura *x, struct obscura_draft *draft, int64_t *peaks);
/* Returns the draft in the terms of the paper's model. */
struct obscura_model obscura_draft_get_model(const struct obscura *x, const struct obscura_draft *draft);

/* ---- obscura_recompute.c ---- */

/* Returns the bytes that a stage's rank may use: the limit less the margin. INT64_MAX: no limit. */
int64_t obscura_get_limit(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* Returns the least bytes of each micro-batch that a stage must discard for its limit; 0: none, -1: no number is
 * enough. */
int64_t obscura_get_discard(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* Lists the ops that may be discarded: a mask for each layer, owned by the caller. */
uint32_t *obscura_list_ops(const struct obscura *x);
/* True when each stage chooses what it discards among these, false when adjusted stages discard all of them. */
bool obscura_chooses_ops(const struct obscura *x);
/* Makes each of these stages discard what its own limit demands, at the least time. False when one cannot. */
bool obscura_fit_stages(struct obscura *x, struct obscura_draft *draft, int32_t first, int32_t end);
/* Solves the integer programme of Eq. 4: blocks and ops of the adjusted stages. */
void obscura_solve(struct obscura *x, struct obscura_draft **draft);

/* ---- obscura_identify.c ---- */

/* Lists those of them that are cheap to recompute (the CMB set); owned by the caller. */
uint32_t *obscura_list_cheap(const struct obscura *x);
/* Makes all stages up to the last one that is over its limit adjusted; with step cmb those that fit with cheap
 * recomputation get that instead. Returns how many are adjusted. */
int32_t obscura_identify(const struct obscura *x, struct obscura_draft *draft);

/* ---- obscura_swap.c ---- */

/* Return true when blocks of activations may leave at all, and when those of a stage may. */
bool obscura_may_swap(const struct obscura *x);
bool obscura_may_leave(const struct obscura *x, int32_t stage);
/* Returns the bytes of a stage's whole block that can leave, when its layers discard ops[n_layers]. */
int64_t obscura_measure_block(const struct obscura *x, const struct obscura_draft *draft, int32_t stage,
                              const uint32_t *ops);
/* Returns the seconds of the transfer of a stage's block, one way. */
double obscura_get_transfer(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* Puts the moves of the draft's blocks into its plan, whose orders have their recomputation. */
int obscura_put_moves(const struct obscura *x, const struct obscura_draft *draft, struct plan *plan);

/* obscura_spill.c: of the n moves of a stage, each of so many bytes, those for which host memory has no room go on to
 * disk, as far as there is one and the request's tier has it; with tier disk all that can. */
void obscura_spill(const struct obscura *x, const struct plan *plan, int32_t stage, int64_t bytes,
                   struct plan_move *moves, int32_t n);

/* ---- obscura_peer.c ---- */

/* Returns the rank that keeps a stage's blocks when they go to another rank: the one with the most room. */
int32_t obscura_get_peer(const struct obscura *x, const struct obscura_draft *draft, int32_t stage);
/* True when a block of some stage is sooner on another rank than in host memory, as far as costs and an evaluation
 * tell. */
bool obscura_links_are_faster(const struct obscura *x, const struct plan_stage *stages);

/* ---- obscura_partition.c ---- */

/* Runs Algorithm 1: layers go from the slowest adjusted stage to the fastest other one. */
void obscura_adjust(struct obscura *x, struct obscura_draft **draft);
/* Cuts the layers so that each stage fits when all is discarded and all has left that may. False when none fits. */
bool obscura_cut_least(const struct obscura *x, struct plan_stage *stages);
/* Cuts in that way within a part of each limit. */
bool obscura_cut_within(const struct obscura *x, double part, struct plan_stage *stages);
/* Cuts so that the limit that they would then need is least, for the message when none fits. */
void obscura_cut_nearest(const struct obscura *x, struct plan_stage *stages);
/* stages[n_stages] with one layer from stage `from` to stage `to`; those between move by one. False when `from` has
 * one. */
bool obscura_move_layer(struct plan_stage *stages, int32_t from, int32_t to);

/* ---- the whole ---- */

/* planner_obscura.c: follows the paper's passes up to options.steps. The draft is owned by the caller. */
struct obscura_draft *obscura_follow(struct obscura *x, const struct plan_stage *stages);
/* obscura_search.c: goes on from a pipeline of the paper's. Takes the draft over, gives one that is no slower; `base`
 * is a partition to begin with, and refined schedules are offered. Where nothing fits it is one that takes as little
 * memory as can be. */
struct obscura_draft *obscura_search(struct obscura *x, struct obscura_draft *paper, const struct plan_stage *base,
                                     struct obscura_choice *choice);
/* Takes the draft over: into the pool, unless it does not fit or one like it is there. */
struct obscura_pool {
  struct obscura_draft **drafts; /* [n], each owned */
  int32_t n, room;
};
void obscura_pool_add(struct obscura_pool *pool, const struct obscura *x, struct obscura_draft *draft);
/* Evaluates the draft, with more discarded or evicted where it takes more memory than estimated. Keeps it in *best (may
 * be NULL) if it is faster, else destroys it. */
void obscura_judge(struct obscura *x, struct obscura_draft *draft, struct obscura_draft **best);
/* obscura_look.c: adds the fastest that it finds for x->request, where swaps says so with blocks that leave. */
void obscura_look(struct obscura *x, const struct plan_stage *base, bool swaps, struct obscura_pool *pool);
/* Chooses what a stage evicts and discards for its limit. False when it does not fit with all. */
bool obscura_settle_stage(struct obscura *x, struct obscura_draft *draft, int32_t stage, bool swaps);
/* obscura_climb.c: looks for better boundaries and for better counts of forwards ahead, each stage by itself, around
 * the draft. Returns the best draft by its quick time, owned by the caller. */
struct obscura_draft *obscura_climb(struct obscura *x, const struct obscura_draft *draft, bool swaps);
/* obscura_refine.c: improves the draft action by action and micro-batch by micro-batch, where swaps says so with blocks
 * that leave, and offers what it finds. */
void obscura_refine(struct obscura *x, const struct obscura_draft *draft, bool swaps, struct obscura_choice *choice);
/* Refines drafts of all cuts, where there are few and schedules are small. */
void obscura_refine_cuts(struct obscura *x, bool swaps, struct obscura_choice *choice);
/* obscura_rivals.c: offers the plans that other planners make for the request. */
void obscura_find_rival(struct obscura *x, struct obscura_choice *choice);
/* obscura_fit_order.c: lets the stages of a plan that discards nothing discard what their ranks lack, and offers it. */
void obscura_fit_order(struct obscura *x, const struct plan *base, struct obscura_choice *choice);

#endif
