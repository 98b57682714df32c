/* plan.h5: a plan and its graph as tables /nodes /edges /layers /stages /replicas /microbatches /limits /peaks with
 * attributes format, version, planner, hash, n_ranks, deck. By one rank alone.
 */
#ifndef PENSTOCK_STORE_PLAN_FILE_H
#define PENSTOCK_STORE_PLAN_FILE_H

#include <stdint.h>

struct dag;
struct model;
struct plan;
struct peak_row;

/* Writes or replaces the file, whole or not at all. start_s and end_s of the nodes are NaN until a simulator fills them
 * in. Bytes of limits are -1 where there is none. */
int plan_file_write(const char *path, const struct plan *plan, const struct dag *dag, const struct model *model,
                    const char *deck);

/* Rows of the tables as read back. */
struct plan_file_stage {
  int32_t stage, first_layer, n_layers;
};
struct plan_file_replica {
  int32_t stage, replica, rank;
};
struct plan_file_micro {
  int32_t microbatch, rows, length;
  int64_t tokens;
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
struct plan_file_limit {
  int32_t rank;
  int64_t device_bytes, host_bytes, disk_bytes; /* -1: none */
};

/* What a reader wants of plan.h5; /nodes is read by trace_read_nodes with step 0. */
struct plan_file {
  char *planner, *deck;
  uint64_t hash;
  int32_t n_ranks;
  int64_t n_stages, n_replicas, n_micro, n_layers, n_limits, n_peaks;
  struct plan_file_stage *stages;
  struct plan_file_replica *replicas;
  struct plan_file_micro *micro;
  struct plan_file_layer *layers;
  struct plan_file_limit *limits;
  struct peak_row *peaks; /* trace_rows.h */
};
/* STATUS_MISTAKE for a file that is no plan. plan_file_fini frees what was read, also after a failure. */
int plan_file_read(const char *path, struct plan_file *file);
void plan_file_fini(struct plan_file *file);

#endif
