#include "record/trace_rows.h"

#include "store/rows.h"

/* The names of the enum columns: from the lists that made the enums. */
#define X(id, name, ...) name,
static const char *const stream_names[] = {STREAMS(X) NULL};
static const char *const kind_names[] = {NODE_KINDS(X) NULL};
#undef X

#define NODE(member, type, unit) ROWS_COLUMN(node_row, member, type, unit)
static const struct rows_column node_columns[] = {
    NODE(step, H5_INT32, NULL),
    NODE(node, H5_INT32, NULL),
    NODE(rank, H5_INT32, NULL),
    NODE(position, H5_INT32, NULL),
    ROWS_ENUM(node_row, stream, stream_names),
    ROWS_ENUM(node_row, kind, kind_names),
    NODE(stage, H5_INT32, NULL),
    NODE(microbatch, H5_INT32, NULL),
    NODE(layer, H5_INT32, NULL),
    NODE(peer, H5_INT32, NULL),
    NODE(bytes, H5_INT64, "byte"),
    NODE(device_alloc, H5_INT64, "byte"),
    NODE(device_free, H5_INT64, "byte"),
    NODE(host_alloc, H5_INT64, "byte"),
    NODE(host_free, H5_INT64, "byte"),
    NODE(start_s, H5_FLOAT64, "s"),
    NODE(end_s, H5_FLOAT64, "s"),
    ROWS_NEW_COLUMN(node_row, after, H5_INT32, NULL),
};
static const struct rows_table nodes = ROWS_TABLE("/nodes", node_row, node_columns);

/* plan.h5 has the same columns but for the first. */
#define PEAK(member, type, unit) ROWS_COLUMN(peak_row, member, type, unit)
static const struct rows_column peak_columns[] = {
    PEAK(step, H5_INT32, NULL),
    PEAK(rank, H5_INT32, NULL),
    PEAK(device_bytes, H5_INT64, "byte"),
    PEAK(host_bytes, H5_INT64, "byte"),
    PEAK(disk_bytes, H5_INT64, "byte"),
    PEAK(device_static_bytes, H5_INT64, "byte"),
    PEAK(host_static_bytes, H5_INT64, "byte"),
};
enum { N_PEAK_COLUMNS = sizeof peak_columns / sizeof *peak_columns };
static const struct rows_table peaks = ROWS_TABLE("/peaks", peak_row, peak_columns);
static const struct rows_table plan_peaks = {"/peaks", peak_columns + 1, N_PEAK_COLUMNS - 1, sizeof(struct peak_row)};

#define STEP(member, type, unit) ROWS_COLUMN(step_row, member, type, unit)
static const struct rows_column step_columns[] = {
    STEP(step, H5_INT32, NULL),
    STEP(loss, H5_FLOAT64, NULL),
    STEP(tokens, H5_INT64, NULL),
    STEP(seconds, H5_FLOAT64, "s"),
    STEP(predicted_seconds, H5_FLOAT64, "s"),
    STEP(plan_hash, H5_INT64, NULL),
    ROWS_NEW_COLUMN(step_row, starts, H5_INT32, NULL),
};
static const struct rows_table steps = ROWS_TABLE("/steps", step_row, step_columns);

const struct rows_table *trace_rows_get_nodes(void) { return &nodes; }
const struct rows_table *trace_rows_get_peaks(void) { return &peaks; }
const struct rows_table *trace_rows_get_plan_peaks(void) { return &plan_peaks; }
const struct rows_table *trace_rows_get_steps(void) { return &steps; }

struct node_row trace_rows_make_node(const struct dag *dag, int32_t i, int64_t step, double start_s, double end_s,
                                     int32_t after) {
  const struct dag_node *node = &dag->nodes[i];
  return (struct node_row){.step = (int32_t)step,
                           .node = i,
                           .rank = node->rank,
                           .position = node->position,
                           .stream = (int8_t)node->stream,
                           .kind = (int8_t)node->kind,
                           .stage = node->stage,
                           .microbatch = node->micro,
                           .layer = node->layer,
                           .peer = node->peer,
                           .bytes = node->bytes,
                           .device_alloc = node->device_alloc,
                           .device_free = node->device_free,
                           .host_alloc = node->host_alloc,
                           .host_free = node->host_free,
                           .start_s = start_s,
                           .end_s = end_s,
                           .after = after,
                           .match = dag->match[i]};
}
