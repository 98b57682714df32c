#include "plan/node_kind.h"

static const struct {
  const char *name;
  enum stream stream;
  enum node_end end;
  enum node_message message;
  const char *colour;
} kinds[NODE_KIND_COUNT] = {
#define X(id, text, on, which, what, rgb) [id] = {text, on, which, what, rgb},
    NODE_KINDS(X)
#undef X
};

#define X(id, text, on, which, what, rgb)                                                                              \
  _Static_assert(((which) == NODE_IS_NONE) == ((what) == MESSAGE_NONE), #id " is the end of no message, or of one");   \
  _Static_assert(sizeof(rgb) == sizeof "#rrggbb", #id " has a colour");
NODE_KINDS(X)
#undef X

static const char *const streams[STREAM_COUNT] = {
#define X(id, text) [id] = text,
    STREAMS(X)
#undef X
};

const char *node_kind_get_name(enum node_kind kind) {
  return (unsigned)kind < NODE_KIND_COUNT ? kinds[kind].name : "?";
}

enum stream node_kind_get_stream(enum node_kind kind) { return kinds[kind].stream; }

enum node_end node_kind_get_end(enum node_kind kind) { return kinds[kind].end; }

enum node_message node_kind_get_message(enum node_kind kind) { return kinds[kind].message; }

const char *node_kind_get_colour(enum node_kind kind) { return kinds[kind].colour; }

const char *stream_get_name(enum stream stream) { return (unsigned)stream < STREAM_COUNT ? streams[stream] : "?"; }
