/* Nodes that keep time. Every node has a modelled start and end, in seconds since an instant that all ranks share; a
 * message is real, but carries its due time in place of data. So modelled times follow from each other alone, as in the
 * simulator, and never from how fast this machine is: a rank that wakes late catches up. What cannot be caught up is
 * noted as lateness.
 *
 * Many ranks share few cores, so a rank sleeps until something is to be done: until the simulator expects the message
 * that it waits for, and only if that is late it polls. Expected times wake ranks; they never enter modelled ones.
 */
#include "exec/exec_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "sim/sim.h"

#include <math.h>

#define SLICE_SECONDS 50e-3     /* asleep at most, so that the watchdog of others is answered */
#define SLICE_RENDEZVOUS 0.5e-3 /* until a message that is late is looked for again, during a pass */
#define NAP_SHORTEST 0.2e-3     /* the same between passes */
#define NAP_LONGEST 10e-3
#define GRACE_SECONDS 5.0        /* for the end of the step after a signal */
#define MEETING_SECONDS 1e-3     /* until rank 0 has heard from all ranks that are there */
#define MARGIN_SECONDS 2e-3      /* until all ranks know when a step begins, */
#define MARGIN_RANK_SECONDS 1e-4 /* and more of them take longer */

/* The message that is under way on a stream. */
struct timed_message {
  struct comm_request *post; /* of a rendezvous, a receiver's word that it is ready */
  double ready, posted, due;
  bool waits_for_post;
};

struct exec_timed {
  double *start, *end; /* [n_nodes] modelled */
  double free_at[STREAM_COUNT];
  double origin; /* this rank's clock at time 0 */
  double late;
  double signalled; /* when this rank noticed a signal to stop, 0: not yet */
  bool has_rendezvous;
  struct timed_message messages[STREAM_COUNT];
};

static double now(const struct exec_timed *t) { return clock_now() - t->origin; }

static bool is_rendezvous(const struct exec *x, const struct dag_node *node) {
  return sim_is_rendezvous(x->step->model.times, node);
}

/* The latest end among the stream and what is before a node on this rank. */
static double find_ready(const struct exec *x, int32_t node) {
  const struct dag *dag = x->step->dag;
  double ready = x->timed->free_at[dag->nodes[node].stream];
  for (int64_t e = dag->in_offset[node]; e < dag->in_offset[node + 1]; e++) {
    int32_t before = dag->edge_from[e] - x->first;
    if (before >= 0 && before < x->n_nodes && x->timed->end[before] > ready) ready = x->timed->end[before];
  }
  return ready;
}

static void set_times(struct exec *x, int32_t node, double start, double end) {
  x->timed->start[node - x->first] = start;
  x->timed->end[node - x->first] = end;
  x->timed->free_at[x->step->dag->nodes[node].stream] = end;
}

/* All ranks' values of n numbers each; the caller's to free. */
static double *gather_all(const struct exec *x, const double *values, int n) {
  int size = comm_get_size(x->step->comm);
  double *all = MEM_NEW(double, n *size);
  int64_t *offsets = MEM_NEW(int64_t, size + 1);
  comm_gather_all(x->step->comm, values, n * (int64_t)sizeof *values, all, offsets);
  mem_free(offsets);
  return all;
}

static double find_most(const double *all, int n, int stride) {
  double most = all[0];
  for (int i = 1; i < n; i++) most = fmax(most, all[i * stride]);
  return most;
}

/* When the first of the messages under way is expected to go on; INFINITY: there is none. */
static double find_look(const struct exec *x) {
  double look = INFINITY;
  for (int s = 0; s < STREAM_COUNT; s++) {
    int32_t id = x->streams[s].active;
    if (id < 0) continue;
    const struct trace_span *expected = &x->step->model.expected[id - x->first];
    look = fmin(look, x->timed->messages[s].waits_for_post ? expected->start : expected->end);
  }
  return look;
}

/* Sleeps for a slice of the time until an instant of the step. This rank has nothing to do before that. */
static void sleep_slice(struct exec *x, double until) {
  struct exec_timed *t = x->timed;
  clock_sleep_until(t->origin + fmin(until, now(t) + SLICE_SECONDS));
  comm_poll(x->step->comm);
}

/* Sleeps until an instant of the step. */
static void sleep_idle(struct exec *x, double until) {
  while (now(x->timed) < until) sleep_slice(x, until);
}

/* A signal ends a run with the step, but a modelled step may last for days, and nothing of it is worth waiting for:
 * then this rank's failure ends the job. True: the rank is to stop. */
static bool is_stopped(struct exec *x) {
  struct exec_timed *t = x->timed;
  const char *signal = interrupt_get_signal();
  if (x->status || !signal) return x->status != STATUS_OK;
  if (t->signalled == 0) t->signalled = clock_now();
  if (clock_now() - t->signalled < GRACE_SECONDS) return false;
  x->status = error_raise(STATUS_FAILED, "stopped by %s in the middle of a step that does not end within %g s", signal,
                          GRACE_SECONDS);
  return true;
}

/* Returns the seconds until a late message is looked for again: a pass that waits for it can catch up with all of its
 * own time. */
static double get_nap(const struct exec *x) {
  const struct exec_stream *s = &x->streams[STREAM_COMPUTE];
  double seconds = s->next < s->n ? x->step->model.times->seconds[s->nodes[s->next]] : 0;
  return fmin(fmax(seconds / 4, NAP_SHORTEST), NAP_LONGEST);
}

static void wait_timed(struct exec *x, int peer, int64_t fruitless, const char *what) {
  double look = find_look(x), at = now(x->timed);
  if (is_stopped(x)) return;
  if (isfinite(look) && look > at) {
    while (now(x->timed) < look && !is_stopped(x)) sleep_slice(x, look);
  } else {
    clock_sleep_until(x->timed->origin + at + get_nap(x));
    comm_back_off(x->step->comm, peer, fruitless, what);
  }
}

/* ---- a step ---- */

static void open_timed(struct exec *x) {
  struct exec_timed *t = MEM_NEW(struct exec_timed, 1);
  struct comm *comm = x->step->comm;
  x->timed = t;
  t->start = MEM_NEW(double, x->n_nodes);
  t->end = MEM_NEW(double, x->n_nodes);
  for (int32_t i = 0; i < x->n_nodes; i++) {
    const struct dag_node *node = &x->step->dag->nodes[x->first + i];
    if (node->peer >= 0 && is_rendezvous(x, node)) t->has_rendezvous = true;
  }
  int size = comm_get_size(comm);
  double offset = comm_get_clock_offset(comm), mine = clock_now() + offset;
  double *all = gather_all(x, &mine, 1);
  t->origin = find_most(all, size, 1) + MARGIN_SECONDS + MARGIN_RANK_SECONDS * size - offset;
  mem_free(all);
}

static void free_timed(struct exec *x) {
  mem_free(x->timed->start);
  mem_free(x->timed->end);
  mem_free(x->timed);
  x->timed = NULL;
}

/* Spans of messages are the modelled ones: nobody watches them end. */
static void set_spans(struct exec *x) {
  const struct exec_timed *t = x->timed;
  for (int32_t i = 0; i < x->n_nodes; i++) {
    if (x->step->dag->nodes[x->first + i].stream == STREAM_COMPUTE) continue;
    x->step->spans[i] = (struct trace_span){t->origin + t->start[i], t->origin + t->end[i]};
  }
}

static void close_timed(struct exec *x, int status) {
  struct exec_timed *t = x->timed;
  struct exec_result *result = x->result;
  if (!status) {
    enum { MODELLED, REAL, LATE, N_VALUES };
    double values[N_VALUES] = {find_most(t->free_at, STREAM_COUNT, 1)};
    clock_sleep_until(t->origin + values[MODELLED]);
    values[REAL] = now(t);
    values[LATE] = t->late;
    sleep_idle(x, x->step->model.end); /* the others are not there before */
    int size = comm_get_size(x->step->comm);
    double *all = gather_all(x, values, N_VALUES);
    result->start = t->origin;
    result->modelled = find_most(all + MODELLED, size, N_VALUES);
    result->seconds = find_most(all + REAL, size, N_VALUES);
    result->late = find_most(all + LATE, size, N_VALUES);
    result->loss_sum = result->grad_norm = NAN;
    mem_free(all);
    set_spans(x);
  }
  free_timed(x);
}

/* ---- messages ---- */

static void send_due(struct exec *x, struct exec_stream *s, int32_t id, double start) {
  const struct dag_node *node = &x->step->dag->nodes[id];
  struct timed_message *m = &x->timed->messages[node->stream];
  m->due = start + x->step->model.times->seconds[id];
  set_times(x, id, start, m->due);
  s->requests[0] = exec_send_begin(x, node->peer, exec_make_tag(node), &m->due, sizeof m->due);
}

static void begin_message_timed(struct exec *x, struct exec_stream *s, int32_t id) {
  const struct dag_node *node = &x->step->dag->nodes[id];
  struct comm *comm = x->step->comm;
  struct timed_message *m = &x->timed->messages[node->stream];
  bool rendezvous = is_rendezvous(x, node);
  *m = (struct timed_message){.ready = find_ready(x, id)};
  m->posted = m->ready;
  if (node->peer < 0) { /* a copy: nobody else has to do with it */
    set_times(x, id, m->ready, m->ready + x->step->model.times->seconds[id]);
    return;
  }
  if (dag_is_receive(node)) {
    if (rendezvous) m->post = comm_send_begin(comm, node->peer, exec_make_post_tag(node), &m->posted, sizeof m->posted);
    s->requests[0] = comm_receive_begin(comm, node->peer, exec_make_tag(node), &m->due, sizeof m->due);
  } else if (rendezvous) {
    m->waits_for_post = true;
    s->requests[0] = comm_receive_begin(comm, node->peer, exec_make_post_tag(node), &m->posted, sizeof m->posted);
  } else {
    send_due(x, s, id, m->ready);
  }
}

static bool test_message_timed(struct exec *x, struct exec_stream *s) {
  int32_t id = s->active;
  struct timed_message *m = &x->timed->messages[x->step->dag->nodes[id].stream];
  if (m->post && !comm_test(&m->post)) return false;
  if (s->requests[0] && !comm_test(&s->requests[0])) return false;
  if (m->waits_for_post) {
    m->waits_for_post = false;
    send_due(x, s, id, fmax(m->ready, m->posted));
    return comm_test(&s->requests[0]);
  }
  if (dag_is_receive(&x->step->dag->nodes[id])) set_times(x, id, m->posted, fmax(m->due, m->posted));
  return true;
}

/* ---- nodes ---- */

static void advance_all(struct exec *x) {
  while (exec_advance_network(x)) {
  }
}

static void sleep_until(struct exec *x, double end) {
  struct exec_timed *t = x->timed;
  for (double at = now(t); at < end && !is_stopped(x); at = now(t)) {
    double until = fmin(end, at + SLICE_SECONDS);
    /* Another rank may wait for this one's word. */
    if (t->has_rendezvous) until = fmin(until, fmax(find_look(x), at + SLICE_RENDEZVOUS));
    clock_sleep_until(t->origin + until);
    comm_poll(x->step->comm);
    if (t->has_rendezvous) advance_all(x);
  }
}

static void compute_timed(struct exec *x, int32_t id) {
  struct exec_timed *t = x->timed;
  advance_all(x); /* what the node before has made leaves now, not after this one */
  double start = find_ready(x, id), end = start + x->step->model.times->seconds[id], begun = now(t);
  set_times(x, id, start, end);
  if (begun - end > t->late) t->late = begun - end;
  x->step->spans[id - x->first].start = t->origin + fmax(start, begun);
  sleep_until(x, end);
}

/* When the last rank gets to the norm, and how long it takes the slowest. */
struct meeting {
  double ready, seconds;
};

/* Rank 0 hears from each rank and tells all. Everybody is awake for that only when all are expected to be there:
 * meeting with all ranks asking for each other would take longer than most norms. */
static struct meeting meet_at_hub(struct exec *x, int32_t id, struct meeting mine) {
  struct comm *comm = x->step->comm;
  int size = comm_get_size(comm), tag = exec_make_tag(&x->step->dag->nodes[id]);
  struct comm_request **requests = MEM_NEW(struct comm_request *, size);
  struct meeting *all = MEM_NEW(struct meeting, size);
  for (int r = 1; r < size; r++) requests[r] = comm_receive_begin(comm, r, tag, &all[r], sizeof *all);
  sleep_idle(x, x->step->model.expected[id - x->first].end - mine.seconds);
  for (int r = 1; r < size; r++) {
    comm_wait(comm, &requests[r], "the gradient norm");
    mine.ready = fmax(mine.ready, all[r].ready);
    mine.seconds = fmax(mine.seconds, all[r].seconds);
  }
  for (int r = 1; r < size; r++) requests[r] = comm_send_begin(comm, r, tag, &mine, sizeof mine);
  for (int r = 1; r < size; r++) comm_wait(comm, &requests[r], "the gradient norm");
  mem_free(all);
  mem_free(requests);
  return mine;
}

static struct meeting meet_hub(struct exec *x, int32_t id, struct meeting mine) {
  struct comm *comm = x->step->comm;
  int tag = exec_make_tag(&x->step->dag->nodes[id]);
  double end = x->step->model.expected[id - x->first].end;
  struct meeting met;
  struct comm_request *receive = comm_receive_begin(comm, 0, tag, &met, sizeof met);
  struct comm_request *send = comm_send_begin(comm, 0, tag, &mine, sizeof mine);
  sleep_idle(x, fmax(end, end - mine.seconds + MEETING_SECONDS));
  comm_wait(comm, &send, "the gradient norm");
  comm_wait(comm, &receive, "the gradient norm");
  return met;
}

/* The norms of all ranks end together. */
static void norm_timed(struct exec *x, int32_t id) {
  struct meeting mine = {find_ready(x, id), x->step->model.times->seconds[id]};
  struct meeting met = x->rank == 0 ? meet_at_hub(x, id, mine) : meet_hub(x, id, mine);
  set_times(x, id, mine.ready, met.ready + met.seconds);
}

const struct exec_way exec_way_timed = {.open = open_timed,
                                        .close = close_timed,
                                        .begin_message = begin_message_timed,
                                        .test_message = test_message_timed,
                                        .compute = compute_timed,
                                        .norm = norm_timed,
                                        .wait = wait_timed};
