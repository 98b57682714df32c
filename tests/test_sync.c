/* device.sync_messages: every planner trains the bits of one rank when no message is buffered, shorter and longer than
 * what MPI sends eagerly, with one micro-batch, fewer than ranks, as many, and more. A send ends only when its receive
 * has begun, so that an order which relied on buffers would not end: the watchdog would end the job.
 */
#include "planner_cases.h"
#include "train_case.h"

struct sync_case {
  const char *json;
  int64_t micros, rows, time; /* rows of a micro-batch; the last has fewer where there are several */
  int64_t least, most;        /* bytes that a message may have */
};

static struct plan *make_plan(const struct train_job *job, const char *planner, const struct model *model,
                              const struct batch *batch) {
  struct micro_shape *micro = train_list_shapes(batch);
  struct plan_request request = {.model = model,
                                 .params = get_test_params(),
                                 .n_ranks = job->size,
                                 .n_stages = job->size,
                                 .n_chunks = get_test_chunks(planner),
                                 .partition.kind = PARAMS_CUT_EVEN,
                                 .n_micro = batch->n_micro,
                                 .micro = micro,
                                 .clip = true};
  struct plan *plan = NULL;
  train_must(job->comm, planner_run(planner, &request, &plan));
  mem_free(micro);
  return plan;
}

/* Spans of all nodes, on every rank. The ranks of this node have one clock. Owned by the caller. */
static struct trace_span *gather_spans(const struct train_job *job, const struct trainer *t) {
  const struct dag *dag = t->train.dag;
  int64_t own = dag->rank_offset[job->rank + 1] - dag->rank_offset[job->rank];
  struct trace_span *all = MEM_NEW(struct trace_span, dag->n_nodes);
  int64_t *offsets = MEM_NEW(int64_t, job->size + 1);
  comm_gather_all(job->comm, t->spans, own * (int64_t)sizeof *all, all, offsets);
  mem_free(offsets);
  return all;
}

static void check_sends(const char *name, const struct train_job *job, const struct trainer *t,
                        const struct sync_case *c) {
  const struct dag *dag = t->train.dag;
  struct trace_span *spans = gather_spans(job, t);
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    const struct dag_node *n = &dag->nodes[v];
    if (!dag_is_send(n)) continue;
    T_CHECK(spans[v].end >= spans[dag->match[v]].start, "%s: node %d was sent %.6f s before it was asked for", name, v,
            spans[dag->match[v]].start - spans[v].end);
    if (n->kind == NODE_SF || n->kind == NODE_SB)
      T_CHECK(n->bytes >= c->least && n->bytes <= c->most, "%s: a message of %lld bytes", name, (long long)n->bytes);
  }
  mem_free(spans);
}

static void run_case(const struct train_job *job, const char *planner, const struct sync_case *c) {
  char name[96];
  snprintf(name, sizeof name, "%s, %d micro-batches of %d tokens", planner, (int)c->micros, (int)(c->rows * c->time));
  struct model *model = train_make_model(c->json);
  int64_t n_rows = c->micros * c->rows - (c->micros > 1);
  struct train_rows rows = train_create_rows((uint64_t)c->micros, n_rows, c->time, model->config.vocab_size);
  struct batch batch = train_make_batch(&rows, model->config.vocab_size, c->rows);
  struct train_setup setup = {.optimizer = train_make_optimizer(1), .sync_messages = true};
  struct train_side side = train_open_plan(job->comm, model, &setup, make_plan(job, planner, model, &batch));
  struct train_side alone = train_open(job->self, model, &setup, &batch);
  for (int64_t step = 1; step <= (c->least ? 1 : 2); step++) {
    struct trainer_result a = train_step(&side, &batch, step), b = train_step(&alone, &batch, step);
    train_compare_results(name, step, &a, &b);
    check_sends(name, job, side.trainer, c);
  }
  train_compare_weights(name, &side, &alone);
  train_close(&side);
  train_close(&alone);
  batch_fini(&batch);
  train_free_rows(&rows);
  model_destroy(&model);
}

int main(int argc, char **argv) {
  struct train_job job = train_job_open(&argc, &argv);
  static const char large[] =
      "{\"model_type\": \"llama\", \"vocab_size\": 64, \"hidden_size\": 128, \"intermediate_size\": 32, "
      "\"num_hidden_layers\": 6, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
      "\"max_position_embeddings\": 256, \"tie_word_embeddings\": true}";
  for (const struct planner *const *p = planner_get_all(); *p; p++) {
    if (!get_test_chunks(planner_get_name(*p))) continue;
    for (int m = 1; m <= job.size + 1; m++)
      run_case(&job, planner_get_name(*p), &(struct sync_case){TRAIN_GPT2(6, "true"), m, 2, 5, 0, 2048});
    run_case(&job, planner_get_name(*p), &(struct sync_case){large, job.size + 1, 2, 130, 64 << 10, 1 << 20});
  }
  return train_job_close(&job);
}
