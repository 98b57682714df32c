/* The plan: everything a planner decides, as data. No communicator, no device memory, no pointer into anything else.
 * Made on rank 0, checked, hashed, broadcast; nothing writes to it afterwards.
 */
#ifndef PENSTOCK_PLAN_PLAN_H
#define PENSTOCK_PLAN_PLAN_H

#include "model/micro_shape.h"
#include "plan/node_kind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model;

struct plan_stage {
  int32_t first_layer, n_layers; /* contiguous; stages in order cover all layers; each holds at least one */
};

/* How long a stage's passes are taken to be where messages are put in order, in units of the plan's own: what is needed
 * first goes first. All zero means the defaults: 1 for F, I and W, 0 for R. Any lengths up to PLAN_PACE_MOST give an
 * order that can run. */
enum { PLAN_PACE_MOST = 1024 };
struct plan_pace {
  int32_t forward, rebuild, input, weight;
};

/* Op outputs of a layer that the forward discards for a range of micro-batches, and that R makes again. */
struct plan_recompute {
  int32_t layer, first_micro, last_micro;
  uint32_t ops; /* bit o: op o of the layer's table */
};

/* Where activations wait for their backward when they leave the device: enum, name in files. */
#define PLAN_TIERS(X)                                                                                                  \
  X(PLAN_TIER_RANK, "rank") /* another rank's device */                                                                \
  X(PLAN_TIER_HOST, "host") /* host memory */                                                                          \
  X(PLAN_TIER_DISK, "disk") /* a file, by way of host memory */
#define X(id, name) id,
enum plan_tier { PLAN_TIERS(X) PLAN_TIER_COUNT };
#undef X

/* The activation block of one stage and micro-batch leaves its device after the forward and comes back before the
 * backward. Places are those of actions in a rank's order (0: its first). What takes memory does so with the start of
 * an action, and what gives it back does so with the end of one, so that memory follows from the order alone: the block
 * may leave when action out_start has ended; its memory is given back when out_end has, and the action after that waits
 * until the block is gone; its memory is taken again with the start of in_start, when it may come back. Another rank
 * that keeps it takes memory with the start of its action peer_start; it gives that back when its action peer_end has
 * ended, and the action after that waits until the block is gone. Host memory is taken with the start of the action
 * after out_start (of out_end, if that is before), and given back at the end of the one that needs the block. On the
 * way to disk it is given back when disk_start has ended already, and the action after that waits until the block is on
 * disk; it is taken again with the start of disk_end. */
struct plan_move {
  int32_t stage, micro;
  int32_t tier; /* enum plan_tier */
  int32_t out_start, out_end, in_start;
  int32_t peer, peer_start, peer_end; /* tier rank, else -1 */
  int32_t disk_start, disk_end;       /* tier disk, else -1 */
};

struct plan_action {
  int32_t kind; /* enum node_kind: F, R, B, I or W */
  int32_t stage, micro;
};

/* The layers that an action goes over, where it is a part of its stage's pass: a recomputation and its backward may be
 * cut into parts, the last layers first, each rebuilt before its backward, so that no more than one part's rebuilt
 * activations are there at a time. n_layers 0: all layers of the stage. */
struct plan_part {
  int32_t first_layer, n_layers;
};

/* ---- The plan's content as lists ----
 * plan_create, plan_dup, plan_destroy, plan_pack, the hash and group /plan of plan.h5 are made from these. A new array
 * is a member of struct plan and one row of PLAN_ARRAYS; what else it needs is its meaning: a rule in plan_check, and
 * who writes and reads it (doc/dev/add-an-array.md). Each row ends in the first version of plan.h5 that has it: in a
 * plan from an older file it is 0.
 */

/* Sizes of the arrays: X(member, since). */
#define PLAN_SIZES(X)                                                                                                  \
  X(n_layers, 5)                                                                                                       \
  X(n_stages, 5)                                                                                                       \
  X(n_ranks, 5)                                                                                                        \
  X(n_micro, 5)                                                                                                        \
  X(n_replicas, 5)                                                                                                     \
  X(n_actions, 5)                                                                                                      \
  X(n_recompute, 5)                                                                                                    \
  X(n_moves, 5)                                                                                                        \
  X(n_parts, 6)

/* Yes or no, attributes of plan.h5: X(member, since). */
#define PLAN_FLAGS(X) X(clip, 4) X(forward_only, 4) X(recompute_early, 4) X(free_order, 4)

/* Members of an array's element, as F(struct, member): numbers of 32 or 64 bits, no padding between them (plan.c proves
 * it), so that equal plans are equal bytes. Arrays of single numbers have the member of struct plan_int32 or
 * plan_int64. */
struct plan_int32 {
  int32_t value;
};
struct plan_int64 {
  int64_t value;
};
#define PLAN_INT32_FIELDS(F) F(plan_int32, value)
#define PLAN_INT64_FIELDS(F) F(plan_int64, value)
#define PLAN_STAGE_FIELDS(F) F(plan_stage, first_layer) F(plan_stage, n_layers)
#define PLAN_PACE_FIELDS(F) F(plan_pace, forward) F(plan_pace, rebuild) F(plan_pace, input) F(plan_pace, weight)
#define PLAN_MICRO_FIELDS(F)                                                                                           \
  F(micro_shape, rows) F(micro_shape, length) F(micro_shape, tokens) F(micro_shape, labels) F(micro_shape, pairs)
#define PLAN_ACTION_FIELDS(F) F(plan_action, kind) F(plan_action, stage) F(plan_action, micro)
#define PLAN_PART_FIELDS(F) F(plan_part, first_layer) F(plan_part, n_layers)
#define PLAN_RECOMPUTE_FIELDS(F)                                                                                       \
  F(plan_recompute, layer) F(plan_recompute, first_micro) F(plan_recompute, last_micro) F(plan_recompute, ops)
#define PLAN_MOVE_FIELDS(F)                                                                                            \
  F(plan_move, stage)                                                                                                  \
  F(plan_move, micro)                                                                                                  \
  F(plan_move, tier)                                                                                                   \
  F(plan_move, out_start)                                                                                              \
  F(plan_move, out_end)                                                                                                \
  F(plan_move, in_start)                                                                                               \
  F(plan_move, peer)                                                                                                   \
  F(plan_move, peer_start)                                                                                             \
  F(plan_move, peer_end)                                                                                               \
  F(plan_move, disk_start)                                                                                             \
  F(plan_move, disk_end)

/* The arrays: X(member, number of elements of plan p, fields of an element, since). */
#define PLAN_ARRAYS(X)                                                                                                 \
  X(stages, p->n_stages, PLAN_STAGE_FIELDS, 5)                                                                         \
  X(pace, p->n_stages, PLAN_PACE_FIELDS, 5)                                                                            \
  X(replica_offset, (int64_t)p->n_stages + 1, PLAN_INT32_FIELDS, 5)                                                    \
  X(replica_rank, p->n_replicas, PLAN_INT32_FIELDS, 5)                                                                 \
  X(micro, p->n_micro, PLAN_MICRO_FIELDS, 5)                                                                           \
  X(order_offset, (int64_t)p->n_ranks + 1, PLAN_INT64_FIELDS, 5)                                                       \
  X(order, p->n_actions, PLAN_ACTION_FIELDS, 5)                                                                        \
  X(parts, p->n_parts, PLAN_PART_FIELDS, 6)                                                                            \
  X(recompute, p->n_recompute, PLAN_RECOMPUTE_FIELDS, 5)                                                               \
  X(moves, p->n_moves, PLAN_MOVE_FIELDS, 5)                                                                            \
  X(moved, p->n_moves ? p->n_layers : 0, PLAN_INT32_FIELDS, 5)                                                         \
  X(device_limit, p->n_ranks, PLAN_INT64_FIELDS, 5)                                                                    \
  X(host_limit, p->n_ranks, PLAN_INT64_FIELDS, 5)                                                                      \
  X(disk_limit, p->n_ranks, PLAN_INT64_FIELDS, 5)

struct plan {
  char planner[32];
  int32_t n_layers, n_stages, n_ranks, n_micro;
  int32_t n_replicas; /* of all stages together */
  int64_t n_actions;  /* of all ranks together */
  int64_t n_parts;
  int32_t n_recompute, n_moves;
  bool forward_only;         /* a plan for evaluation */
  bool clip;                 /* the norm stands before every update */
  bool free_order;           /* a stage's micro-batches need not ascend: its sums round differently than other plans' */
  bool recompute_early;      /* R may start before its gradient arrives, else it waits for it */
  struct plan_stage *stages; /* [n_stages] */
  struct plan_pace *pace;    /* [n_stages] */
  int32_t *replica_offset;   /* [n_stages+1] into replica_rank: the ranks that hold a stage (one each for now) */
  int32_t *replica_rank;     /* [n_replicas] */
  struct micro_shape *micro; /* [n_micro] */
  int64_t *order_offset;     /* [n_ranks+1] into order: each rank's compute nodes in order */
  struct plan_action *order; /* [n_actions] */
  struct plan_part *parts;   /* [n_parts] the layers of each action; n_parts is n_actions, or 0: none is a part */
  struct plan_recompute *recompute; /* [n_recompute] each layer and micro-batch in one row at most */
  struct plan_move *moves;          /* [n_moves] ascending by stage, then micro-batch */
  uint32_t *moved; /* [n_layers] what of a layer belongs to a block, as in footprint.h; 0: nothing. NULL: no moves */
  int64_t *device_limit; /* [n_ranks] bytes, INT64_MAX: none */
  int64_t *host_limit;   /* [n_ranks] bytes of host memory that blocks wait in, INT64_MAX: none */
  int64_t *disk_limit;   /* [n_ranks] bytes of files that blocks wait in, INT64_MAX: none */
  uint64_t hash;         /* of all the above, set by plan_freeze; 0: not frozen */
};

/* An empty plan with arrays of these sizes: one replica a stage, no limits, n_actions in the last rank's order until
 * the caller sets order_offset. Owned by the caller. */
struct plan *plan_create(int32_t n_layers, int32_t n_stages, int32_t n_ranks, int32_t n_micro, int64_t n_actions);
struct plan *plan_dup(const struct plan *plan);
void plan_destroy(struct plan **plan);
/* Computes the hash. */
void plan_freeze(struct plan *plan);
/* Returns true when the rank holds the stage: its parameters, gradients and updates. Each replica does. */
bool plan_holds(const struct plan *plan, int32_t stage, int32_t rank);
/* Returns the rank that computes a micro-batch of a stage: one of those that hold it. Of n replicas, replica i computes
 * the micro-batches i, i + n, i + 2n, ... */
int32_t plan_find_rank(const struct plan *plan, int32_t stage, int32_t micro);
/* The first of those that hold a stage, where one speaks for all: what they hold is the same. */
int32_t plan_get_holder(const struct plan *plan, int32_t stage);
/* Ops of a layer whose outputs a micro-batch's forward discards, a bit an op; 0: none. */
uint32_t plan_get_discarded(const struct plan *plan, int32_t layer, int32_t micro);
/* True when some layer of the stage discards something: then the micro-batch has an R there. */
bool plan_recomputes(const struct plan *plan, int32_t stage, int32_t micro);
/* Takes memory for every array, cleared, by the sizes that the plan has; an array without elements is NULL. What the
 * arrays were before is forgotten. For plan_create and readers of plans. */
void plan_allocate(struct plan *plan);
/* Room for n rows of recomputation, cleared. */
void plan_reserve_recompute(struct plan *plan, int32_t n);
/* Room for n moves and for what they move, cleared. */
void plan_reserve_moves(struct plan *plan, int32_t n);
/* True when backwards of the stage are cut into parts. */
bool plan_has_parts(const struct plan *plan, int32_t stage);
/* Returns true when some backward is two passes. */
bool plan_splits(const struct plan *plan);
/* Returns the layers that the action at a place of a rank's order goes over; n_layers is never 0. */
struct plan_part plan_get_part(const struct plan *plan, int32_t rank, int64_t place);
/* The move of a stage's block of a micro-batch, or NULL. */
const struct plan_move *plan_find_move(const struct plan *plan, int32_t stage, int32_t micro);
const char *plan_tier_get_name(enum plan_tier tier);
/* Bytes of all that a stage keeps of a micro-batch until its backward, the hidden state that enters it included,
 * whether it moves or not: what a fraction of a block is of. */
int64_t plan_measure_kept(const struct plan *plan, const struct model *model, int32_t stage, int32_t micro);
/* The stage that holds a layer. */
int32_t plan_get_stage(const struct plan *plan, int32_t layer);
/* A plan of the same shape for other micro-batches of the same count (a step's real lengths), frozen if `plan` is. */
struct plan *plan_dup_with_micro(const struct plan *plan, const struct micro_shape *micro);

/* plan_pack returns the plan as bytes for the broadcast, owned by the caller. plan_unpack makes a plan owned by the
 * caller, the hash included; bytes that are cut short, damaged (the hash tells, if the plan is frozen) or of another
 * version are STATUS_FAILED. */
void *plan_pack(const struct plan *plan, size_t *bytes);
int plan_unpack(const void *data, size_t bytes, struct plan **plan);
/* For readers of plans: check that sizes are possible and that offsets match them. STATUS_FAILED says what is wrong. */
int plan_check_sizes(const struct plan *plan);
int plan_check_offsets(const struct plan *plan);

/* The rules that hold for every plan by itself: stages contiguous and complete, ranks in range, each F and B (or I and
 * W) of every stage and micro-batch exactly once on a rank that holds the stage (forwards only when forward_only), F, I
 * and W of a stage each in ascending micro-batch order (unless free_order), F before B, a block gone after its F and
 * back before what needs it. STATUS_FAILED with what is wrong. */
int plan_check(const struct plan *plan);

/* plan_forward.c: a plan for evaluation with the stages, ranks and limits of `plan`: forwards only, frozen. Owned by
 * the caller. */
struct plan *plan_make_forward(const struct plan *plan, int32_t n_micro, const struct micro_shape *micro);

#endif
