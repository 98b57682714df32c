/* Where messages and copies of a rank go over one link (PCIe), each takes what the other leaves of it. Both are many
 * and short against a step, so that shares on the average are what they come to; a share moment by moment would also
 * depend on what other ranks do at that moment, and a rank of the timed device could not know it.
 */
#include "dag/dag_price.h"

#include "base/mem.h"

enum direction { OUT, IN, N_DIRECTIONS };

/* Mean use of each rank's link in each direction, by messages and by copies: 0 to 1. */
struct shares {
  double *messages, *copies; /* [n_ranks * N_DIRECTIONS] */
};

static bool is_message(const struct dag_node *n) { return n->kind == NODE_SF || n->kind == NODE_SB; }
static bool is_copy(const struct dag_node *n) {
  return n->kind == NODE_ES || n->kind == NODE_LS || n->kind == NODE_EV || n->kind == NODE_LD;
}
static int64_t find_way(int32_t rank, enum direction direction) { return (int64_t)rank * N_DIRECTIONS + direction; }

/* The links that a node's bytes go over: out of its rank, into its peer; one of the two to and from host memory. */
static int list_ways(const struct dag_node *n, int64_t *ways) {
  int k = 0;
  if (n->kind != NODE_LD) ways[k++] = find_way(n->rank, OUT);
  if (n->kind == NODE_LD) ways[k++] = find_way(n->rank, IN);
  if (n->peer >= 0) ways[k++] = find_way(n->peer, IN);
  return k;
}

static void add_up(const struct dag *dag, const double *seconds, struct shares *shares, double *work) {
  for (int32_t v = 0; v < dag->n_nodes; v++) {
    const struct dag_node *n = &dag->nodes[v];
    double *sum = is_message(n) ? shares->messages : is_copy(n) ? shares->copies : NULL;
    int64_t ways[N_DIRECTIONS];
    for (int k = sum ? list_ways(n, ways) : 0; k > 0; k--) sum[ways[k - 1]] += seconds[v];
    if (n->stream == STREAM_COMPUTE) work[n->rank] += seconds[v];
  }
}

static void divide(const struct dag *dag, struct shares *shares, const double *work) {
  for (int64_t w = 0; w < (int64_t)dag->n_ranks * N_DIRECTIONS; w++) {
    double both = shares->messages[w] + shares->copies[w], time = work[w / N_DIRECTIONS];
    if (both > time) time = both;
    if (time > 0) shares->messages[w] /= time, shares->copies[w] /= time;
  }
}

/* While both are under way each has half of the link; a copy, which is long, also has the time between messages. */
static double get_factor(const struct shares *shares, const struct dag_node *n) {
  int64_t ways[N_DIRECTIONS];
  double most = 0;
  const double *others = is_message(n) ? shares->copies : shares->messages;
  for (int k = list_ways(n, ways); k > 0; k--)
    if (others[ways[k - 1]] > most) most = others[ways[k - 1]];
  if (is_message(n)) return 1 + most;
  return 1 / (1 - (most < 0.5 ? most : 0.5));
}

void dag_share_links(const struct dag *dag, double *seconds) {
  int64_t n_ways = (int64_t)dag->n_ranks * N_DIRECTIONS;
  struct shares shares = {MEM_NEW(double, n_ways), MEM_NEW(double, n_ways)};
  double *work = MEM_NEW(double, dag->n_ranks);
  add_up(dag, seconds, &shares, work);
  divide(dag, &shares, work);
  for (int32_t v = 0; v < dag->n_nodes; v++)
    if (is_message(&dag->nodes[v]) || is_copy(&dag->nodes[v])) seconds[v] *= get_factor(&shares, &dag->nodes[v]);
  mem_free(work);
  mem_free(shares.copies);
  mem_free(shares.messages);
}
