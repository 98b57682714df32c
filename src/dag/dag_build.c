/* Plan -> graph: nodes, edges, the order of messages, memory. Linear in the number of nodes, but for a binary search
 * here and there. */
#include "base/error.h"
#include "base/mem.h"
#include "dag/dag_builder.h"
#include "model/model.h"

static void free_builder(struct dag_builder *b) {
  mem_free(b->shape_of);
  mem_free(b->shapes);
  mem_free(b->ties);
  mem_free(b->forward);
  mem_free(b->rebuild);
  mem_free(b->gradient);
  mem_free(b->input);
  mem_free(b->weight);
  mem_free(b->send_forward);
  mem_free(b->send_backward);
  mem_free(b->update);
  mem_free(b->norm);
  mem_free(b->moves);
  mem_free(b->blocks);
  mem_free(b->edge_from);
  mem_free(b->edge_to);
}

static int order_and_measure(struct dag_builder *b) {
  int32_t *place = MEM_NEW(int32_t, b->dag->n_nodes);
  int status = dag_order_messages(b->dag, b->plan, place);
  if (!status) {
    int32_t *release = MEM_NEW(int32_t, b->dag->n_nodes);
    int64_t n_edges = b->n_edges;
    dag_release_sent(b, place, release);
    if (b->n_edges > n_edges) dag_edges_sort(b);
    dag_memory_make(b, release);
    mem_free(release);
  }
  mem_free(place);
  return status;
}

int dag_build(const struct plan *plan, const struct model *model, struct dag **dag) {
  *dag = NULL;
  if (plan->n_layers != model->n_layers)
    return error_raise(STATUS_FAILED, "the plan has %d layers, the model has %d", (int)plan->n_layers,
                       (int)model->n_layers);
  struct dag_builder b = {.plan = plan, .model = model, .dag = MEM_NEW(struct dag, 1)};
  int status = dag_nodes_make(&b);
  if (!status) {
    dag_edges_make(&b);
    dag_edges_sort(&b);
    status = order_and_measure(&b);
  }
  free_builder(&b);
  if (status)
    dag_destroy(&b.dag);
  else
    *dag = b.dag;
  return status;
}
