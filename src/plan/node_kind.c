#include "plan/node_kind.h"

#define KIND(kind) (UINT32_C(1) << (kind))

static const struct {
  const char *name, *meaning;
  enum stream stream;
  enum node_end end;
  enum node_message message;
  uint32_t needs;
  const char *colour;
} kinds[NODE_KIND_COUNT] = {
#define X(id, text, does, on, which, what, before, rgb) [id] = {text, does, on, which, what, before, rgb},
    NODE_KINDS(X)
#undef X
};

#define X(id, text, does, on, which, what, before, rgb)                                                                \
  _Static_assert(((which) == NODE_IS_NONE) == ((what) == MESSAGE_NONE), #id " is the end of no message, or of one");   \
  _Static_assert(sizeof(rgb) == sizeof "#rrggbb", #id " has a colour");
NODE_KINDS(X)
#undef X
_Static_assert(NODE_KIND_COUNT <= 32, "a set of kinds is a uint32_t");

static const char *const streams[STREAM_COUNT] = {
#define X(id, text) [id] = text,
    STREAMS(X)
#undef X
};

const char *node_kind_get_name(enum node_kind kind) {
  return (unsigned)kind < NODE_KIND_COUNT ? kinds[kind].name : "?";
}

const char *node_kind_get_meaning(enum node_kind kind) { return kinds[kind].meaning; }

enum stream node_kind_get_stream(enum node_kind kind) { return kinds[kind].stream; }

enum node_end node_kind_get_end(enum node_kind kind) { return kinds[kind].end; }

uint32_t node_kind_get_needs(enum node_kind kind) { return kinds[kind].needs; }

enum node_message node_kind_get_message(enum node_kind kind) { return kinds[kind].message; }

int node_message_get_stage_step(enum node_message message) {
#define X(id, step) [id] = step,
  static const int8_t steps[MESSAGE_COUNT] = {NODE_MESSAGES(X)};
#undef X
  return steps[message];
}

enum node_kind node_message_get_send(enum node_message message) {
  int kind = 0;
  while (kind < NODE_KIND_COUNT && (kinds[kind].message != message || kinds[kind].end != NODE_IS_SEND)) kind++;
  return (enum node_kind)kind;
}

const char *node_kind_get_colour(enum node_kind kind) { return kinds[kind].colour; }

const char *stream_get_name(enum stream stream) { return (unsigned)stream < STREAM_COUNT ? streams[stream] : "?"; }
