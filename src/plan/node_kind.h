/* Kinds of nodes of the graph: one list for plan, graph, costs, simulator, executor, trace and pictures. A new kind is
 * one row; doc/dev/add-a-node-kind.md says what gives it its meaning.
 */
#ifndef PENSTOCK_PLAN_NODE_KIND_H
#define PENSTOCK_PLAN_NODE_KIND_H

#include <stdint.h>

/* X(enum, name in files, meaning for people, stream, end of a message, message, what it waits for, colour in
 * pictures). It waits for nodes of these kinds of its own rank, stage and micro-batch, beside what the order of compute
 * nodes and memory ask for, and a receive for its send. Colours are told apart by hue and by lightness, for readers who
 * do not see all hues, on light and on dark; of a message the send is the darker one. */
#define NODE_KINDS(X)                                                                                                  \
  X(NODE_F, "F", "forward", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_RF), "#4c86c6")                      \
  X(NODE_R, "R", "recompute what the forward discarded", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE,                   \
    KIND(NODE_RB) | KIND(NODE_LR) | KIND(NODE_LD), "#9b6fc0")                                                          \
  X(NODE_B, "B", "full backward: input pass, then weight pass", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE,            \
    KIND(NODE_RB) | KIND(NODE_LR) | KIND(NODE_LD), "#e0a030")                                                          \
  X(NODE_I, "I", "input pass of the backward", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE,                             \
    KIND(NODE_RB) | KIND(NODE_LR) | KIND(NODE_LD), "#e8c060")                                                          \
  X(NODE_W, "W", "weight pass of the backward", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE, 0, "#b06a28")              \
  X(NODE_U, "U", "update of a layer", STREAM_COMPUTE, NODE_IS_NONE, MESSAGE_NONE,                                      \
    KIND(NODE_N) | KIND(NODE_RT) | KIND(NODE_ST), "#5a9a5a")                                                           \
  X(NODE_SF, "SF", "send an activation to the next stage", STREAM_SEND, NODE_IS_SEND, MESSAGE_ACTIVATION,              \
    KIND(NODE_F), "#2a5a96")                                                                                           \
  X(NODE_RF, "RF", "receive an activation", STREAM_RECEIVE, NODE_IS_RECEIVE, MESSAGE_ACTIVATION, 0, "#7ab0e0")         \
  X(NODE_SB, "SB", "send a gradient to the stage before", STREAM_SEND, NODE_IS_SEND, MESSAGE_GRADIENT,                 \
    KIND(NODE_B) | KIND(NODE_I), "#a06a10")                                                                            \
  X(NODE_RB, "RB", "receive a gradient", STREAM_RECEIVE, NODE_IS_RECEIVE, MESSAGE_GRADIENT, 0, "#e0b868")              \
  X(NODE_ST, "ST", "send the gradient sum of a tied weight", STREAM_SEND, NODE_IS_SEND, MESSAGE_TIE,                   \
    KIND(NODE_B) | KIND(NODE_W), "#777777")                                                                            \
  X(NODE_RT, "RT", "receive the gradient sum of a tied weight", STREAM_RECEIVE, NODE_IS_RECEIVE, MESSAGE_TIE, 0,       \
    "#aaaaaa")                                                                                                         \
  X(NODE_N, "N", "gradient norm of all ranks", STREAM_SEND, NODE_IS_NONE, MESSAGE_NONE,                                \
    KIND(NODE_B) | KIND(NODE_W) | KIND(NODE_ST) | KIND(NODE_RT), "#c05a7a")                                            \
  X(NODE_ES, "ES", "send a block of activations to the rank that keeps it", STREAM_COPY_OUT, NODE_IS_SEND,             \
    MESSAGE_BLOCK_OUT, KIND(NODE_F), "#2f7f7a")                                                                        \
  X(NODE_ER, "ER", "receive a block of activations to keep", STREAM_COPY_IN, NODE_IS_RECEIVE, MESSAGE_BLOCK_OUT, 0,    \
    "#8fc9c4")                                                                                                         \
  X(NODE_LS, "LS", "send a kept block back", STREAM_COPY_OUT, NODE_IS_SEND, MESSAGE_BLOCK_BACK, KIND(NODE_ER),         \
    "#4d8f3a")                                                                                                         \
  X(NODE_LR, "LR", "receive the own block again", STREAM_COPY_IN, NODE_IS_RECEIVE, MESSAGE_BLOCK_BACK, 0, "#a9d69a")   \
  X(NODE_EV, "EV", "evict a block of activations to host memory", STREAM_COPY_OUT, NODE_IS_NONE, MESSAGE_NONE,         \
    KIND(NODE_F), "#5b4fa0")                                                                                           \
  X(NODE_LD, "LD", "load a block from host memory", STREAM_COPY_IN, NODE_IS_NONE, MESSAGE_NONE,                        \
    KIND(NODE_EV) | KIND(NODE_SR), "#b3a9e0")                                                                          \
  X(NODE_SW, "SW", "write a block from host memory to disk", STREAM_DISK, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_EV),   \
    "#8a4a4a")                                                                                                         \
  X(NODE_SR, "SR", "read a block from disk", STREAM_DISK, NODE_IS_NONE, MESSAGE_NONE, KIND(NODE_SW), "#d0a0a0")

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
/* What a node of the kind does, for people. */
const char *node_kind_get_meaning(enum node_kind kind);
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
