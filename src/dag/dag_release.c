/* When a sent buffer may go: once the receiver has provably finished with it, which a later message from the receiver
 * tells.
 *
 * For each pair of ranks and direction, messages are listed in the order in which they are produced. A message consumed
 * at position c of the receiver is finished with when any message that the receiver produces at c or later has come
 * back; of those, the one that the sender consumes first counts.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "dag/dag_builder.h"

struct pair {
  int32_t low, high, boundary; /* boundary: the lower stage */
};

/* Messages from one rank to another. List 2k goes from the lower to the higher rank of pair k, list 2k+1 back. */
struct lists {
  int32_t n_lists;
  int32_t *pair_of; /* [n_stages-1] pair of a boundary, -1 inside a rank */
  int32_t *offset;  /* [n_lists+1] into sends */
  int32_t *sends;
  int32_t *earliest; /* of this and all later sends of the list: the smallest position of a consumer */
};

static int compare_pairs(const void *left, const void *right) {
  const struct pair *a = left, *b = right;
  if (a->low != b->low) return a->low < b->low ? -1 : 1;
  if (a->high != b->high) return a->high < b->high ? -1 : 1;
  return 0;
}

static void find_pairs(const struct plan *plan, struct lists *lists) {
  int32_t n = 0, n_pairs = 0;
  struct pair *pairs = MEM_NEW(struct pair, plan->n_stages);
  lists->pair_of = MEM_NEW(int32_t, plan->n_stages);
  for (int32_t s = 0; s + 1 < plan->n_stages; s++) {
    int32_t a = plan_get_holder(plan, s), b = plan_get_holder(plan, s + 1);
    lists->pair_of[s] = -1;
    if (a != b) pairs[n++] = (struct pair){a < b ? a : b, a < b ? b : a, s};
  }
  qsort(pairs, (size_t)n, sizeof *pairs, compare_pairs);
  for (int32_t k = 0; k < n; k++) {
    n_pairs += k == 0 || compare_pairs(&pairs[k - 1], &pairs[k]);
    lists->pair_of[pairs[k].boundary] = n_pairs - 1;
  }
  lists->n_lists = 2 * n_pairs;
  mem_free(pairs);
}

/* The send that a compute node feeds, or -1. */
static int32_t get_send(const struct dag_builder *b, int32_t v) {
  const struct dag_node *n = &b->dag->nodes[v];
  if (n->kind == NODE_F) return b->send_forward[dag_builder_at(b, n->stage, n->micro)];
  if (n->kind != NODE_B && n->kind != NODE_I) return -1;
  size_t at = dag_builder_at(b, n->stage, n->micro);
  return b->input[at] == v ? b->send_backward[at] : -1;
}

static const struct dag_node *get_producer(const struct dag_builder *b, int32_t send) {
  const struct dag_node *n = &b->dag->nodes[send];
  size_t at = dag_builder_at(b, n->stage, n->micro);
  return &b->dag->nodes[n->kind == NODE_SF ? b->forward[at] : b->input[at]];
}

static const struct dag_node *get_consumer(const struct dag_builder *b, int32_t send) {
  const struct dag_node *n = &b->dag->nodes[send];
  bool forward = n->kind == NODE_SF;
  size_t at = dag_builder_at(b, forward ? n->stage + 1 : n->stage - 1, n->micro);
  return &b->dag->nodes[forward ? b->forward[at] : dag_builder_get_gradient_user(b, at)];
}

static int32_t get_list(const struct dag_builder *b, const struct lists *lists, int32_t send) {
  const struct dag_node *n = &b->dag->nodes[send];
  return 2 * lists->pair_of[n->kind == NODE_SF ? n->stage : n->stage - 1] + (n->rank > n->peer);
}

static void fill_lists(const struct dag_builder *b, struct lists *lists) {
  const struct dag *dag = b->dag;
  lists->offset = MEM_NEW(int32_t, lists->n_lists + 1);
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    int32_t send = get_send(b, v);
    if (send >= 0) lists->offset[get_list(b, lists, send) + 1]++;
  }
  for (int32_t k = 0; k < lists->n_lists; k++) lists->offset[k + 1] += lists->offset[k];
  int32_t n = lists->offset[lists->n_lists], *used = MEM_NEW(int32_t, lists->n_lists);
  lists->sends = MEM_NEW(int32_t, n);
  lists->earliest = MEM_NEW(int32_t, n);
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    int32_t send = get_send(b, v);
    if (send < 0) continue;
    int32_t list = get_list(b, lists, send);
    lists->sends[lists->offset[list] + used[list]++] = send;
  }
  for (int32_t list = 0; list < lists->n_lists; list++) {
    int32_t smallest = INT32_MAX;
    for (int32_t k = lists->offset[list + 1] - 1; k >= lists->offset[list]; k--) {
      int32_t position = get_consumer(b, lists->sends[k])->position;
      if (position < smallest) smallest = position;
      lists->earliest[k] = smallest;
    }
  }
  mem_free(used);
}

/* Position on the sender of the first node that knows that the message is finished with, or -1. */
static int32_t find_reply(const struct dag_builder *b, const struct lists *lists, int32_t send) {
  int32_t back = get_list(b, lists, send) ^ 1, consumed = get_consumer(b, send)->position;
  int32_t low = lists->offset[back], high = lists->offset[back + 1], end = high;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (get_producer(b, lists->sends[middle])->position >= consumed)
      high = middle;
    else
      low = middle + 1;
  }
  return low < end ? lists->earliest[low] : -1;
}

/* No reply: the rank's last node. In training that is the tail of a step, where backwards free more than what is sent,
 * and nobody waits; forwards alone would pile up, so there a node soon after has to wait for the send. */
static int32_t bound_send(struct dag_builder *b, const int32_t *place, int32_t send) {
  const struct dag *dag = b->dag;
  int32_t rank = dag->nodes[send].rank, first = dag->rank_offset[rank];
  int32_t last = dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE + 1] -
                 dag->stream_offset[rank * STREAM_COUNT + STREAM_COMPUTE] - 1;
  if (!b->plan->forward_only) return first + last;
  int32_t low = get_producer(b, send)->position + 2, high = last;
  while (low < high) { /* places ascend along a rank's compute nodes */
    int32_t middle = low + (high - low) / 2;
    if (place[first + middle] > place[send])
      high = middle;
    else
      low = middle + 1;
  }
  if (low >= last) return first + last;
  dag_edges_add(b, send, first + low);
  return first + low;
}

void dag_release_sent(struct dag_builder *b, const int32_t *place, int32_t *release) {
  struct lists lists = {0};
  find_pairs(b->plan, &lists);
  fill_lists(b, &lists);
  for (int32_t v = 0; v < b->dag->n_nodes; v++) {
    int32_t send = get_send(b, v);
    if (send < 0) continue;
    int32_t reply = find_reply(b, &lists, send);
    release[send] = reply >= 0 ? b->dag->rank_offset[b->dag->nodes[send].rank] + reply : bound_send(b, place, send);
  }
  mem_free(lists.pair_of);
  mem_free(lists.offset);
  mem_free(lists.sends);
  mem_free(lists.earliest);
}
