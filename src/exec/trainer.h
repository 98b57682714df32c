/* A model on its ranks, trained a step at a time by a plan: what `train` and `verify` share. */
#ifndef PENSTOCK_EXEC_TRAINER_H
#define PENSTOCK_EXEC_TRAINER_H

#include "dag/dag.h"
#include "data/batch.h"
#include "exec/exec.h"
#include "exec/optimizer.h"
#include "exec/rank_state.h"
#include "record/checkpoint.h"
#include "sim/sim_plan.h"

struct comm;
struct cost;
struct dataset;
struct spill;

struct trainer_config {
  struct comm *comm;         /* borrowed; as many ranks as the plan has */
  const struct model *model; /* borrowed */
  const struct plan *plan;   /* borrowed; frozen and the same on all ranks */
  const char *backend;       /* device.backend */
  struct device_config device;
  struct optimizer_config optimizer;
  bool sync_messages;       /* device.sync_messages: see exec_step */
  bool weights_only;        /* for evaluations: no gradients, no moments */
  const char *spill_folder; /* for blocks of tier disk; borrowed, NULL where the plan has none */
  const char *run;          /* the run's name, for the spill file's; borrowed */
  /* Costs for a device that keeps time; borrowed, NULL for other devices. */
  const struct cost *cost;
  double time_scale; /* divides all times */
};

/* A plan with the graph of one step's real lengths; kept while the shapes stay the same. */
struct step_graph {
  struct plan *plan;
  struct dag *dag;
  int64_t peak, host_peak, disk_peak; /* predicted bytes of this rank's device, host memory and spill file */
  struct sim_plan simulated;          /* on a device that keeps time; else all zeros */
  struct trace_span *expected;        /* the same: [nodes of this rank] and the step's end, as the simulator has them */
  double expected_end;
  int64_t n_builds; /* how often it was made: another number, other shapes */
};

struct trainer {
  struct trainer_config config;
  struct device *device;
  struct rank_state *state;
  struct spill *spill; /* NULL: nothing goes to disk */
  struct step_graph train, evaluate;
  struct trace_span *spans; /* of the last step, [nodes of this rank] */
  double *op_seconds;       /* of the last training step, [OP_TIMES] of op_times.h; 0 on a device that keeps time */
};

struct trainer_result {
  bool skipped; /* the step had no label: nothing was done */
  double loss;  /* mean over the labels of the global batch, on every rank */
  double grad_norm, lr;
  bool finite;
  int32_t bad_layer; /* see exec_result */
  int bad_tensor;
  double start, seconds;        /* of this rank's clock */
  int64_t peak, predicted_peak; /* bytes of this rank's device */
  double copy_cpu;              /* seconds that copies of blocks and their files kept this rank's cores busy */
  int64_t host_peak, disk_peak; /* the same of host memory and its spill file, as predicted too */
  double modelled, late;        /* see exec_result */
};

/* Opens the device and allocates what the rank holds; parameters are not yet set. A status of this rank alone: the
 * caller lets the ranks agree. */
int trainer_create(const struct trainer_config *config, struct trainer **trainer);
void trainer_destroy(struct trainer **trainer);
/* Called when a job ends in the middle of a step: removes what would outlive the process (its spill file). */
void trainer_abandon(struct trainer *trainer);

/* Initial parameters as a function of the seed. */
void trainer_init(struct trainer *trainer, uint64_t seed);

/* False on a device that lets nodes take their modelled times: there are no results, and nothing to save. */
bool trainer_computes(const struct trainer *trainer);

/* True when this rank needs a batch's tokens and labels (it holds embedding or head), not its shapes alone. */
bool trainer_needs_tokens(const struct trainer *trainer);

/* Rows of a dataset as a batch (batch_build): ids and labels only where this rank needs them. */
int trainer_build_batch(const struct trainer *trainer, const struct dataset *dataset, int64_t first, int64_t rows,
                        int64_t micro_batch, struct batch *batch);

/* One optimizer step (from 1) on a batch. Collective. A status that is not OK is this rank's own and leaves the other
 * ranks waiting: the caller ends the job. The measured peak equals the predicted one (CHECK). */
int trainer_step(struct trainer *trainer, const struct batch *batch, int64_t step, struct trainer_result *result);

/* The gradients of a batch without an update: left in the trainer's state for reading (a tied tensor's are complete in
 * the layer that it is of), until trainer_clear_gradients. Collective. Status as of trainer_step. */
int trainer_compute_gradients(struct trainer *trainer, const struct batch *batch, struct trainer_result *result);
void trainer_clear_gradients(struct trainer *trainer);

/* Forward passes only: the sum of token losses of the batch, on every rank. Collective. Status as of trainer_step. */
int trainer_evaluate(struct trainer *trainer, const struct batch *batch, int64_t step, double *loss_sum);

/* This rank's arrays for the checkpoint module. Valid as long as the trainer. */
struct checkpoint_part trainer_get_part(const struct trainer *trainer);

#endif
