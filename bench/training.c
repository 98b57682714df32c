#include "training.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "setup/setup.h"

static const struct workload workloads[] = {
    [TRAINING_GPT2] = {"GPT-2 124M", "{\"model_type\": \"gpt2\"}", 4, 256},
    [TRAINING_TINY] = {"tiny Llama",
                       "{\"model_type\": \"llama\", \"vocab_size\": 257, \"hidden_size\": 64, "
                       "\"intermediate_size\": 172, \"num_hidden_layers\": 8, \"num_attention_heads\": 4, "
                       "\"max_position_embeddings\": 64}",
                       16, 64},
};

const struct workload *training_get_workload(int which) { return &workloads[which]; }

static int make_plan_all(struct training *t, const struct training_config *c) {
  struct micro_shape *micro;
  int32_t n_micro = planner_make_worst(c->workload->rows, c->micro_batch, c->workload->length, &micro);
  struct plan_request request = {.model = t->model,
                                 .n_ranks = comm_get_size(t->comm),
                                 .n_stages = comm_get_size(t->comm),
                                 .partition.kind = c->stages ? PARAMS_CUT_LIST : PARAMS_CUT_EVEN,
                                 .partition.blocks = c->stages,
                                 .partition.n = c->n_stages,
                                 .n_micro = n_micro,
                                 .micro = micro,
                                 .clip = true};
  int status = setup_plan_all(t->comm, "1f1b", &request, &t->plan);
  mem_free(micro);
  return status;
}

/* The label of a token is the one after it. */
static int make_batch(struct training *t, const struct training_config *c) {
  int64_t rows = c->workload->rows, length = c->workload->length, vocab = t->model->config.vocab_size;
  struct rng_key key = {.seed = 1, .purpose = RNG_TEST};
  int32_t *token = MEM_NEW(int32_t, rows * length), *label = MEM_NEW(int32_t, rows * length);
  int32_t *lengths = MEM_NEW(int32_t, rows);
  for (int64_t r = 0; r < rows; r++) {
    lengths[r] = (int32_t)length;
    for (int64_t i = 0; i < length; i++) {
      uint64_t at = (uint64_t)(r * (length + 1) + i);
      token[r * length + i] = (int32_t)(rng_bits(&key, at) % (uint64_t)vocab);
      label[r * length + i] = (int32_t)(rng_bits(&key, at + 1) % (uint64_t)vocab);
    }
  }
  int status = batch_build_from_arrays(rows, length, token, label, NULL, vocab, c->micro_batch, &t->batch);
  t->flops = model_get_flops(t->model, rows, lengths);
  mem_free(token);
  mem_free(label);
  mem_free(lengths);
  return status;
}

int training_open_all(struct comm *comm, const struct training_config *c, struct training *t) {
  *t = (struct training){.comm = comm};
  int status = comm_agree_all(comm, model_create(c->workload->json, "bench", -1, &t->model, NULL));
  if (!status) status = topo_init_all(comm, &t->topo);
  if (!status) status = make_plan_all(t, c);
  return status ? status : comm_agree_all(comm, make_batch(t, c));
}

int training_start_all(struct training *t, const struct training_config *c) {
  struct trainer_config config = {
      .comm = t->comm,
      .model = t->model,
      .plan = t->plan,
      .backend = "cpu",
      .device = {.threads = c->threads, .cores = t->topo.cores, .n_cores = t->topo.n_cores, .limit = INT64_MAX},
      .optimizer = {.lr = 1e-4,
                    .schedule = PARAMS_SCHEDULE_CONSTANT,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 0.1}};
  config.optimizer.clip = 1;
  int status = comm_agree_all(t->comm, trainer_create(&config, &t->trainer));
  if (!status) trainer_init(t->trainer, 1);
  return status;
}

void training_close(struct training *t) {
  trainer_destroy(&t->trainer);
  batch_fini(&t->batch);
  plan_destroy(&t->plan);
  topo_fini(&t->topo);
  model_destroy(&t->model);
}

double training_sum_compute(const struct training *t) {
  const struct dag *dag = t->trainer->train.dag;
  int32_t rank = comm_get_rank(t->comm), first = dag->rank_offset[rank];
  double sum = 0;
  for (int32_t i = first; i < dag->rank_offset[rank + 1]; i++)
    if (dag->nodes[i].stream == STREAM_COMPUTE)
      sum += t->trainer->spans[i - first].end - t->trainer->spans[i - first].start;
  return sum;
}
