/* Training of tiny models for tests: a side is a model on its ranks; the other side of every comparison is the same
 * model trained by this rank alone, on one thread. Memory is filled with NaNs before use throughout.
 */
#ifndef PENSTOCK_TESTS_TRAIN_CASE_H
#define PENSTOCK_TESTS_TRAIN_CASE_H

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "exec/trainer.h"
#include "planner/planner.h"
#include "t.h"

#define TRAIN_GPT2(blocks, tied)                                                                                       \
  "{\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_embd\": 32, \"n_layer\": " #blocks                               \
  ", \"n_head\": 4, \"n_positions\": 32, \"tie_word_embeddings\": " tied "}"
/* Grouped queries: two heads share a key. */
#define TRAIN_LLAMA(blocks, tied)                                                                                      \
  "{\"model_type\": \"llama\", \"vocab_size\": 67, \"hidden_size\": 32, \"intermediate_size\": 56, "                   \
  "\"num_hidden_layers\": " #blocks                                                                                    \
  ", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 10, \"max_position_embeddings\": 256, "     \
  "\"tie_word_embeddings\": " tied "}"

/* ---- the job ---- */

struct train_job {
  struct comm *comm, *self; /* all ranks; this one alone */
  int rank, size;
};

/* Starts MPI; the program ends where it does not start. Collective, as all here that has a job or a side. */
struct train_job train_job_open(int *argc, char ***argv);

/* The exit status of all ranks: a failed check of one fails all. */
int train_job_close(struct train_job *job);

/* A step that fails leaves the other ranks waiting: ends the job. */
void train_must(struct comm *comm, int status);

/* ---- rows of tokens ---- */

struct train_rows {
  int64_t rows, time;
  int32_t *token, *label, *length;
};

/* Rows of random tokens, some without a label, all as long as `time`; freed with train_free_rows. */
struct train_rows train_create_rows(uint64_t seed, int64_t rows, int64_t time, int64_t vocab);

/* Cuts a row off; what lies beyond is no token and has no label. */
void train_cut_row(struct train_rows *r, int64_t row, int32_t length);

/* Cuts all rows at lengths drawn from 1 to `time`. */
void train_draw_lengths(struct train_rows *r, uint64_t seed);
void train_free_rows(struct train_rows *r);

/* The caller frees it with batch_fini. */
struct batch train_make_batch(const struct train_rows *r, int64_t vocab, int64_t micro_batch);

/* Shapes of the batch's micro-batches, owned by the caller. */
struct micro_shape *train_list_shapes(const struct batch *batch);

/* ---- a side ---- */

struct train_setup {
  const char *planner; /* NULL: 1f1b */
  const double *partition;
  int32_t n_partition; /* 0: even */
  int threads;         /* 0: 1 */
  int64_t limit;       /* of the device; 0: none */
  bool sync_messages;
  const char *spill_folder; /* NULL: nothing goes to disk */
  struct optimizer_config optimizer;
};

struct train_side {
  struct comm *comm; /* borrowed */
  struct plan *plan;
  struct trainer *trainer;
};

/* AdamW with a rate that warms up and falls. */
struct optimizer_config train_make_optimizer(double clip);

/* A trainer for a plan, which becomes the side's. */
struct train_side train_open_plan(struct comm *comm, const struct model *model, const struct train_setup *setup,
                                  struct plan *plan);

/* Plan (the same on every rank) and trainer for batches cut as this one is. */
struct train_side train_open(struct comm *comm, const struct model *model, const struct train_setup *setup,
                             const struct batch *batch);
void train_close(struct train_side *side);

/* They end the job where they fail. */
struct trainer_result train_step(struct train_side *side, const struct batch *batch, int64_t step);
struct trainer_result train_gradients(struct train_side *side, const struct batch *batch);
double train_evaluate(struct train_side *side, const struct batch *batch);

/* The program ends where the model is none. */
struct model *train_make_model(const char *json);

/* ---- comparisons ---- */

/* The user's copy of the embedding's table, where a rank has one. */
float *train_get_copy(const struct rank_state *s);

/* Every rank compares what it holds with its own run of the whole, or with another run on the same ranks. */
void train_compare_gradients(const char *name, const struct train_side *side, const struct train_side *alone);
void train_compare_weights(const char *name, const struct train_side *side, const struct train_side *alone);
void train_compare_results(const char *name, int64_t step, const struct trainer_result *a,
                           const struct trainer_result *b);

#endif
