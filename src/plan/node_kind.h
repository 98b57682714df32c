/* Kinds of nodes of the graph: one list for plan, graph, costs, simulator, executor, trace and pictures. A new kind is
 * one row; doc/dev/add-a-node-kind.md says what gives it its meaning.
 */
#ifndef PENSTOCK_PLAN_NODE_KIND_H
#define PENSTOCK_PLAN_NODE_KIND_H

#include <stdint.h>

/* X(enum, name in files, stream, end of a message, message, what it waits for, colour in pictures). It waits for nodes
 * of these kinds of its own rank, stage and micro-batch, beside what the order of compute nodes and memory ask for, and
 * a receive for its send. Colours are told apart by hue and by lightness, for readers who do not see all hues, on light
 * and on dark; of a message the send is the darker one. */
#define NODE_KINDS(X)                                                                                                  \
  /* forward */                                                                                                        \
  X(NODE_F, "F", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_RF), "#4c86c6")                                 \
  /* recompute what the forward discarded */                                                                           \
  X(NODE_R, "R", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_RB) | KIND(NODE_LR) | KIND(NODE_LD), "#9b6fc0") \
  /* full backward: input pass, then weight pass */                                                                    \
  X(NODE_B, "B", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_RB) | KIND(NODE_LR) | KIND(NODE_LD), "#e0a030") \
  /* input gradient only */                                                                                            \
  X(NODE_I, "I", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_RB) | KIND(NODE_LR) | KIND(NODE_LD), "#e8c060") \
  /* weight gradient only */                                                                                           \
  X(NODE_W, "W", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE, 0, "#b06a28")                                             \
  /* optimizer update of a layer */                                                                                    \
  X(NODE_U, "U", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_N) | KIND(NODE_RT) | KIND(NODE_ST), "#5a9a5a")  \
  /* send an activation to the next stage */                                                                           \
  X(NODE_SF, "SF", STREAM_SEND, NODE_IS_SEND, MESSAGE_ACTIVATION, KIND(NODE_F), "#2a5a96")                             \
  /* receive it */                                                                                                     \
  X(NODE_RF, "RF", STREAM_RECEIVE, NODE_IS_RECEIVE, MESSAGE_ACTIVATION, 0, "#7ab0e0")                                  \
  /* send a gradient to the stage before */                                                                            \
  X(NODE_SB, "SB", STREAM_SEND, NODE_IS_SEND, MESSAGE_GRADIENT, KIND(NODE_B) | KIND(NODE_I), "#a06a10")                \
  /* receive it */                                                                                                     \
  X(NODE_RB, "RB", STREAM_RECEIVE, NODE_IS_RECEIVE, MESSAGE_GRADIENT, 0, "#e0b868")                                    \
  /* send this use's gradient sum of a tied weight */                                                                  \
  X(NODE_ST, "ST", STREAM_SEND, NODE_IS_SEND, MESSAGE_TIE, KIND(NODE_B) | KIND(NODE_W), "#777777")                     \
  /* receive the other use's */                                                                                        \
  X(NODE_RT, "RT", STREAM_RECEIVE, NODE_IS_RECEIVE, MESSAGE_TIE, 0, "#aaaaaa")                                         \
  /* global gradient norm: all ranks meet */                                                                           \
  X(NODE_N, "N", STREAM_SEND, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_B) | KIND(NODE_W) | KIND(NODE_ST) | KIND(NODE_RT), \
    "#c05a7a")                                                                                                         \
  /* send an activation block to the rank that keeps it */                                                             \
  X(NODE_ES, "ES", STREAM_COPY_OUT, NODE_IS_SEND, MESSAGE_BLOCK_OUT, KIND(NODE_F), "#2f7f7a")                          \
  /* receive another rank's block to keep it */                                                                        \
  X(NODE_ER, "ER", STREAM_COPY_IN, NODE_IS_RECEIVE, MESSAGE_BLOCK_OUT, 0, "#8fc9c4")                                   \
  /* send a kept block back */                                                                                         \
  X(NODE_LS, "LS", STREAM_COPY_OUT, NODE_IS_SEND, MESSAGE_BLOCK_BACK, KIND(NODE_ER), "#4d8f3a")                        \
  /* receive the own block again */                                                                                    \
  X(NODE_LR, "LR", STREAM_COPY_IN, NODE_IS_RECEIVE, MESSAGE_BLOCK_BACK, 0, "#a9d69a")                                  \
  /* evict an activation block to host memory */                                                                       \
  X(NODE_EV, "EV", STREAM_COPY_OUT, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_F), "#5b4fa0")                               \
  /* load it from there */                                                                                             \
  X(NODE_LD, "LD", STREAM_COPY_IN, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_EV) | KIND(NODE_SR), "#b3a9e0")               \
  /* write it from host memory to disk */                                                                              \
  X(NODE_SW, "SW", STREAM_DISK, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_EV), "#8a4a4a")                                  \
  /* read it back */                                                                                                   \
  X(NODE_SR, "SR", STREAM_DISK, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_SW), "#d0a0a0")

#define STREAMS(X)                                                                                                     \
  X(STREAM_COMPUTE, "compute")                                                                                         \
  X(STREAM_SEND, "send")                                                                                               \
  X(STREAM_RECEIVE, "receive")                                                                                         \
  X(STREAM_COPY_OUT, "copy_out")                                                                                       \
  X(STREAM_COPY_IN, "copy_in")                                                                                         \
  X(STREAM_DISK, "disk")

#define X(id, ...) id,
enum node_kind { NODE_KINDS(X) NODE_KIND_COUNT };
enum stream { STREAMS(X) STREAM_COUNT };
#undef X

/* The end of a message that a kind is, and the message; both ends of a message have its kind in their tag. */
enum node_end { NODE_IS_NONE, NODE_IS_SEND, NODE_IS_RECEIVE };
/* X(enum, stage of the receive less that of the send). The two layers of a tied weight are of any two stages. */
#define NODE_MESSAGES(X)                                                                                               \
  X(MESSAGE_NONE, 0)                                                                                                   \
  X(MESSAGE_ACTIVATION, 1)                                                                                             \
  X(MESSAGE_GRADIENT, -1)                                                                                              \
  X(MESSAGE_TIE, 0)                                                                                                    \
  X(MESSAGE_BLOCK_OUT, 0)                                                                                              \
  X(MESSAGE_BLOCK_BACK, 0)
#define X(id, ...) id,
enum node_message { NODE_MESSAGES(X) MESSAGE_COUNT };
#undef X

/* "?" for a number that is no kind. */
const char *node_kind_get_name(enum node_kind kind);
enum stream node_kind_get_stream(enum node_kind kind);
enum node_end node_kind_get_end(enum node_kind kind);
enum node_message node_kind_get_message(enum node_kind kind);
int node_message_get_stage_step(enum node_message message);
/* The kind of a message's send; MESSAGE_NONE has none. */
enum node_kind node_message_get_send(enum node_message message);
/* The kinds that it waits for: bit 1u << kind of each. */
uint32_t node_kind_get_needs(enum node_kind kind);
/* "#rrggbb". */
const char *node_kind_get_colour(enum node_kind kind);
/* "?" for a number that is no stream. */
const char *stream_get_name(enum stream stream);

#endif
