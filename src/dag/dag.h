/* The task graph: what simulator and executor both consume, and the table that plan.h5 and trace.h5 store.
 *
 * One node is one action of one rank on one stream. Every edge is finish to start; nodes of one stream do not overlap
 * and go in `position` order. A transfer fills its SF (SB, ST) on the sender's send stream; its RF ends with it. Blocks
 * go over the copy streams, so that no message waits behind one of them.
 *
 * What consumers must respect: the edges in_offset, and the order of each stream. What the compute order gives already
 * (a stage's F before its B, I before W, U after all of them) is not stored again as edges, except the last weight pass
 * of a layer -> its U. Stored are data      F(s,i) -> SF -> RF -> F(s+1,i) and B or I(s+1,i) -> SB -> RB -> B or
 * I(s,i); producer -> consumer where both stages share a rank; the last weight pass of embedding and head -> ST -> RT
 * where they share none (B or I: or the R before it, which waits for the gradient too unless plan->recompute_early)
 *   receiving compute node k-2 -> RF (RB) when node k consumes it: its buffer exists from the start of node k-1
 *   sending   SF (SB) -> a later compute node of the sender, where nothing else bounds the life of the sent buffer
 *   blocks    of moves (plan.h): compute node out_start -> ES -> ER -> LS -> LR (or EV -> LD, or EV -> SW -> SR -> LD)
 * -> the block's R, B or I. Memory given back at the end of a node by what has to be gone: ES, EV, LS, SW -> the
 * compute node after, and all else that takes memory with it. Memory taken with the start of a node: the node before ->
 *             LR, ER, EV, LD, SR
 *   updates   RT and ST -> the U of their layer; with clip N -> each U of its rank
 *   norm      with clip the last pass of every rank (and RT, ST), without clip its last U -> N of its own rank and N of
 * rank 0; N of rank 0 -> N of every other rank. So all ranks meet with some 3p edges: no N ends before every gradient
 * of every rank is complete. A collective does the same by itself: it needs the edges of its own rank only.
 *
 * Memory. Every device allocation is a row of the buffer table: allocated when compute node `alloc` starts, freed when
 * compute node `release` ends, both on the buffer's rank, so that the bytes in use follow from each rank's compute
 * order alone and not from how fast messages travel. device_alloc and device_free of a node are the sums over its
 * buffers. A receive is posted one compute node ahead of its consumer: its buffer is charged to the start of the
 * consumer's predecessor in the rank's compute order (of the consumer itself when it is the first), and the edge to the
 * receive comes from the node before that. A sent buffer is freed at the end of the first compute node that starts
 * after the receiver has provably finished with the message: the first consumer of a message that the receiver sends
 * back after consuming it. Where there is none, it is the tail of a step, in which backwards free more than they send:
 * `release` is the last compute node of the rank, and the buffer is freed when the rank's streams have drained after
 * it. Forwards alone have no such tail: there an edge from the send bounds it, to the second next compute node of the
 * sender, or the first one after that which comes later than the message in the linear extension of dag_order_messages
 * (an edge to an earlier one could close a cycle).
 */
#ifndef PENSTOCK_DAG_DAG_H
#define PENSTOCK_DAG_DAG_H

#include "plan/plan.h"

struct model;

/* Kinds of buffers: the content of a buffer, for one (stage, micro-batch). */
#define BUFFER_KINDS(X)                                                                                                \
  X(BUFFER_INPUT, "input")           /* hidden state that enters the stage (received or from a stage on this rank) */  \
  X(BUFFER_KEEP_INPUT, "keep_input") /* activations kept until the input pass */                                       \
  X(BUFFER_KEEP_WEIGHT, "keep_weight") /* activations kept until the weight pass */                                    \
  X(BUFFER_MOVE_INPUT, "move_input")   /* the same two of what leaves the device in between */                         \
  X(BUFFER_MOVE_WEIGHT, "move_weight")                                                                                 \
  X(BUFFER_GUEST, "guest")                   /* what has left another rank's device, kept for it */                    \
  X(BUFFER_HOST, "host")                     /* what has left the device, in host memory */                            \
  X(BUFFER_DISK, "disk")                     /* the same in a file */                                                  \
  X(BUFFER_REBUILD_INPUT, "rebuild_input")   /* activations rebuilt by R until the input pass */                       \
  X(BUFFER_REBUILD_WEIGHT, "rebuild_weight") /* activations rebuilt by R until the weight pass */                      \
  X(BUFFER_OUTPUT, "output")                 /* hidden state to be sent */                                             \
  X(BUFFER_D_OUTPUT, "d_output")             /* gradient that enters the backward (received or from this rank) */      \
  X(BUFFER_D_INPUT, "d_input")               /* gradient to be sent */                                                 \
  X(BUFFER_GRAD_WEIGHT, "grad_weight")       /* gradients kept from input pass to weight pass (split backward) */      \
  X(BUFFER_WORK, "work")                     /* workspace of one compute node */                                       \
  X(BUFFER_D_HIDDEN, "d_hidden") /* gradients of the hidden states between the parts of a backward, two in turn */

#define X(id, ...) id,
enum buffer_kind { BUFFER_KINDS(X) BUFFER_KIND_COUNT };
#undef X
const char *buffer_kind_get_name(enum buffer_kind kind);

struct dag_node {
  int32_t rank, stage, micro, layer, peer; /* -1 where it does not apply; layer of a part of a pass: its first */
  int32_t position;                        /* in its stream on its rank */
  uint8_t kind, stream;
  int64_t bytes;                     /* moved */
  int64_t device_alloc, device_free; /* at start, at end */
  int64_t host_alloc, host_free;
};

/* Where buffers lie: the device, but for those of kinds host and disk. */
enum pool_kind { POOL_DEVICE, POOL_HOST, POOL_DISK, POOL_KIND_COUNT };
enum pool_kind buffer_kind_get_pool(enum buffer_kind kind);

struct dag_buffer {
  int32_t rank, stage, micro;
  uint8_t kind;
  int64_t bytes;
  int32_t alloc, release; /* nodes */
  int32_t mover;          /* the node that takes its contents away: freed when that has ended too; -1: none */
};

struct dag {
  int32_t n_ranks, n_nodes;
  struct dag_node *nodes; /* grouped by rank; within a rank compute nodes in order first */
  int32_t *rank_offset;   /* [n_ranks+1] */
  int32_t *stream_offset; /* [n_ranks*STREAM_COUNT+1] into stream_nodes: each rank's streams in position order */
  int32_t *stream_nodes;
  int64_t n_edges;
  int32_t *edge_from, *edge_to; /* sorted by `to` */
  int64_t *in_offset;           /* [n_nodes+1] into the edges */
  int32_t *match;               /* [n_nodes] the other end of a message, else -1 */
  int32_t *sequence; /* [n_nodes] a linear extension of edges and streams together: a receive directly after its send,
                        the norms of all ranks side by side */
  int64_t n_buffers;
  struct dag_buffer *buffers; /* sorted by rank, then alloc */
  int64_t *buffer_offset;     /* [n_ranks+1] */
  int64_t *device_static;     /* [n_ranks] bytes held for the whole step: parameters, gradients, moments */
};

/* Builds the graph of one step of a plan. Owned by the caller. STATUS_FAILED when the plan cannot be ordered. */
int dag_build(const struct plan *plan, const struct model *model, struct dag **dag);
void dag_destroy(struct dag **dag);

/* dag_order.c: puts the nodes of every rank's send and receive streams in the order of one linear extension of compute
 * nodes and messages, each message being one node: key (longest path from the start, topological index). Smallest
 * first, no blocking message waits for a later one. Passes are as long as the plan's pace says. place[n_nodes] receives
 * every node's place in the extension (both ends of a message the same). Called by dag_build. STATUS_FAILED names a
 * cycle when there is no such order. */
int dag_order_messages(struct dag *dag, const struct plan *plan, int32_t *place);

/* dag_check.c: the rules a graph must pass before it is broadcast; STATUS_FAILED with rank, node and reason.
 * Every send has its receive: same bytes, same pair. */
int dag_check_messages(const struct dag *dag);
/* No cycle, even with every message a blocking rendezvous in stream order, N one collective, and each ordered pair of
 * ranks one FIFO. */
int dag_check_deadlock(const struct dag *dag);
/* Each layer has one update on its rank; gradients (of all ranks, with clip) complete before it; N follows every
 * gradient. */
int dag_check_updates(const struct dag *dag, const struct plan *plan);
/* Peak <= limit on every rank: STATUS_MISTAKE with rank, node, bytes over. */
int dag_check_memory(const struct dag *dag, const struct plan *plan);
/* A block that comes back does so before its use, from a rank that has it, when there is memory for it. */
int dag_check_moves(const struct dag *dag, const struct plan *plan);
/* Runs all of these checks. */
int dag_check(const struct dag *dag, const struct plan *plan);

/* The block of a stage and micro-batch as it moves: its buffers in this order (hidden state that enters the stage, kept
 * until the input pass, until the weight pass), 0 bytes where there is none. What keeps it has them one after the
 * other. */
enum { DAG_BLOCK_PARTS = 3 };
extern const enum buffer_kind dag_block_kinds[DAG_BLOCK_PARTS];
/* Returns the sum. */
int64_t dag_measure_block(const struct plan *plan, const struct model *model, int32_t stage, int32_t micro,
                          int64_t bytes[DAG_BLOCK_PARTS]);

/* dag_swap.c: the moves of a plan by stage, the rank whose blocks they are, and where these go. */
struct dag_swap {
  int32_t stage, rank, peer; /* peer -1: the tier is no rank */
  uint8_t tier;              /* enum plan_tier */
  int32_t n_moves;
  int32_t blocks;  /* most that are away during one action */
  int64_t bytes;   /* of all its moves, one way */
  double fraction; /* of what the stage keeps of these micro-batches: what leaves */
};
/* Returns how many, ascending by stage; *swaps is owned by the caller. */
int32_t dag_summarize_moves(const struct plan *plan, const struct model *model, struct dag_swap **swaps);

/* Peak bytes of one rank's device, static part included; *node (may be NULL) is the compute node during which it occurs
 * (-1: none). */
int64_t dag_get_peak(const struct dag *dag, int32_t rank, int32_t *node);
/* Peak bytes of one of a rank's pools: device, host memory, files on disk. *node is as above. */
int64_t dag_get_pool_peak(const struct dag *dag, int32_t rank, enum pool_kind pool, int32_t *node);

/* A step of a block's way: ES, ER, LS, LR, EV, LD, SW, SR. */
bool dag_is_block(const struct dag_node *node);
/* The one end of any message, or the other. */
bool dag_is_send(const struct dag_node *node);
bool dag_is_receive(const struct dag_node *node);

/* "B stage 1 micro-batch 3" in the caller's buffer. */
void dag_describe_node(const struct dag_node *node, char *text, size_t size);

#endif
