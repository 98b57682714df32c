/* plan.h5: the plan in group /plan, and for people and their scripts the plan and its graph as tables /nodes /edges
 * /layers /stages /replicas /microbatches /recompute /moves /moved /swap /limits /peaks /costs, with attributes format,
 * version, planner, hash, n_ranks, the plan's flags, predicted_step_s, time_scale, cost_source, deck, model. By one
 * rank alone.
 */
#ifndef PENSTOCK_RECORD_PLAN_FILE_H
#define PENSTOCK_RECORD_PLAN_FILE_H

#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct dag;
struct model;
struct peak_row;

/* /costs: what an op of a layer takes for the largest micro-batch, on the rank that holds the layer. */
struct plan_file_cost {
  int32_t layer, op; /* op: its place in the layer's table */
  int8_t kind;       /* enum op_kind */
  double forward_s, input_s, weight_s;
  int64_t bytes_kept; /* of its outputs, to the backward */
};

/* The prediction of a plan. */
struct plan_file_prediction {
  const double *start_s, *end_s; /* [n_nodes] */
  const int32_t *after;          /* [n_nodes] the node whose end let a node start, -1: none */
  double step_s;
  double time_scale; /* all these times are divided by it */
  const char *cost_source;
  const struct plan_file_cost *costs; /* [n_costs] */
  int64_t n_costs;
};

/* All borrowed. */
struct plan_file_content {
  const struct plan *plan;
  const struct dag *dag;
  const struct model *model;
  const char *deck, *model_json;                 /* texts; NULL: "" */
  const struct plan_file_prediction *prediction; /* NULL: times are NaN, /costs is empty */
};

/* Writes or replaces the file, whole or not at all. Bytes of limits are -1 where there is none. */
int plan_file_write(const char *path, const struct plan_file_content *content);

/* Rows of the tables as read back. */
struct plan_file_stage {
  int32_t stage, first_layer, n_layers;
  int32_t forward, rebuild, input, weight; /* its pace */
};
struct plan_file_replica {
  int32_t stage, replica, rank;
};
struct plan_file_micro {
  int32_t microbatch, rows, length;
  int64_t tokens, labels;
  int64_t pairs; /* -1 in files of version 4 */
};
/* One op of a layer that the forward of these micro-batches does not keep. */
struct plan_file_recompute {
  int32_t layer, op, first_microbatch, last_microbatch, discard; /* discard: 1 */
};
struct plan_file_layer {
  int32_t layer;
  int8_t kind; /* enum layer_kind */
  int32_t stage;
  int64_t parameters;
  int64_t parameter_bytes;  /* of the parameter block, fp32, padding included */
  int64_t activation_bytes; /* kept from forward to backward for the largest micro-batch, without the hidden states
                               between layers */
};
/* The move of one block: struct plan_move. */
struct plan_file_move {
  int32_t stage, microbatch;
  int8_t tier; /* enum plan_tier */
  int32_t out_start, out_end, in_start, peer, peer_start, peer_end, disk_start, disk_end;
};
/* An activation of a layer that is part of a block of activations. */
struct plan_file_moved {
  int32_t layer, act; /* act: its place in the layer's table; -1: the hidden state that enters the layer */
};
struct plan_file_limit {
  int32_t rank;
  int64_t device_bytes, host_bytes, disk_bytes; /* -1: none */
};

/* The content of plan.h5 for readers; /nodes is read by trace_read_nodes with step 0. */
struct plan_file {
  char *planner, *deck, *model_json;
  int32_t version;
  uint64_t hash;
  int32_t n_ranks;
#define X(name, since) bool name;
  PLAN_FLAGS(X)
#undef X
  double predicted_step_s; /* NaN: not predicted */
  double time_scale;       /* times of the prediction, and of the run that wrote it, are divided by it */
  int64_t n_stages, n_replicas, n_micro, n_recompute, n_moves, n_moved, n_layers, n_limits, n_peaks;
  struct plan_file_stage *stages;
  struct plan_file_replica *replicas;
  struct plan_file_micro *micro;
  struct plan_file_recompute *recompute;
  struct plan_file_move *moves;
  struct plan_file_moved *moved;
  struct plan_file_layer *layers;
  struct plan_file_limit *limits;
  struct peak_row *peaks; /* trace_rows.h */
};
/* STATUS_MISTAKE for a file that is no plan. plan_file_fini frees what was read, also after a failure. */
int plan_file_read(const char *path, struct plan_file *file);
void plan_file_fini(struct plan_file *file);

/* The plan that a file holds, frozen, owned by the caller. STATUS_MISTAKE when it is not the plan that was written: its
 * hash tells. (Up to version 4 the hash was made of other bytes: there it is not compared.) */
int plan_file_load(const char *path, const struct plan_file *file, struct plan **plan);

#endif
