/* A trainer set up from a few numbers, without a deck or files. */
#ifndef PENSTOCK_BENCH_TRAINING_H
#define PENSTOCK_BENCH_TRAINING_H

#include "comm/topo.h"
#include "exec/trainer.h"

struct comm;
struct model;
struct plan;

/* Models and batches. */
struct workload {
  const char *name, *json; /* Hugging Face configuration */
  int64_t rows, length;    /* of a step's batch */
};

enum { TRAINING_GPT2, TRAINING_TINY };
const struct workload *training_get_workload(int which);

struct training_config {
  const struct workload *workload;
  int threads;
  int64_t micro_batch;  /* rows */
  const double *stages; /* blocks of each stage, as pipeline.partition; NULL: even */
  int32_t n_stages;
};

struct training {
  struct comm *comm;
  struct topo topo;
  struct model *model;
  struct plan *plan;
  struct trainer *trainer; /* NULL until training_start_all */
  struct batch batch;      /* random tokens, the same every step */
  double flops;            /* of the model in a step */
};

/* Model, plan (1F1B) and batch. Collective; the status is the same on all ranks. `training` is to be closed in any
 * case. */
int training_open_all(struct comm *comm, const struct training_config *config, struct training *training);
/* The trainer, with initial parameters; binds the calling thread to its core. Collective. */
int training_start_all(struct training *training, const struct training_config *config);
void training_close(struct training *training);

/* Seconds of this rank's compute nodes in the last step. */
double training_sum_compute(const struct training *training);

#endif
