/* Copies between device and host, all ranks at once: out, in, and both ways at once on the threads of the rank. */
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "comm/comm.h"
#include "exec/profile_internal.h"

/* From what fits a cache to what does not. */
static const int64_t sizes[] = {(int64_t)1 << 20, (int64_t)8 << 20, (int64_t)64 << 20};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_KINDS = PROFILE_COPY_BOTH + 1 };

struct copies {
  struct profile_work *work;
  int n;                     /* sizes that the device has room for twice */
  char *device[2], *host[2]; /* for out, for in */
  int64_t bytes;
};

static void copy_out(struct copies *c) {
  c->work->device->ops->read(c->work->device, c->host[0], c->device[0], c->bytes);
}

static void copy_in(struct copies *c) {
  c->work->device->ops->write(c->work->device, c->device[1], c->host[1], c->bytes);
}

static void copy_one_way(void *context, int64_t i) {
  if (i == 0)
    copy_out(context);
  else
    copy_in(context);
}

static double measure(struct copies *c, enum profile_copy_kind kind) {
  double start = clock_now();
  if (kind == PROFILE_COPY_BOTH)
    pool_run(c->work->device->ops->get_pool(c->work->device), 2, copy_one_way, c);
  else
    copy_one_way(c, kind == PROFILE_COPY_IN);
  return clock_now() - start;
}

static struct profile_copy measure_kind_all(struct copies *c, enum profile_copy_kind kind, double budget) {
  struct profile_samples samples = {0};
  measure(c, kind);
  int n = profile_choose_repetitions_all(c->work, measure(c, kind), budget);
  comm_barrier_all(c->work->comm);
  for (int i = 0; i < n; i++) {
    profile_samples_add(&samples, measure(c, kind));
    comm_poll(c->work->comm);
  }
  struct profile_copy row = {kind, c->bytes, profile_get_most_all(c->work, profile_samples_get_median(&samples))};
  profile_samples_fini(&samples);
  return row;
}

/* Host memory is written first: pages that nobody has touched are no memory yet. */
static int open_copies(struct copies *c) {
  const struct device_ops *ops = c->work->device->ops;
  int64_t most = sizes[c->n - 1];
  for (int i = 0; i < 2; i++) {
    c->device[i] = ops->alloc(c->work->device, most, "copies");
    if (!c->device[i]) return error_status();
    c->host[i] = mem_alloc((size_t)most);
    ops->fill(c->work->device, most / (int64_t)sizeof(float), 1.0f, (float *)(void *)c->device[i]);
    ops->read(c->work->device, c->host[i], c->device[i], most);
  }
  return STATUS_OK;
}

static void close_copies(struct copies *c) {
  for (int i = 0; i < 2; i++) {
    c->work->device->ops->free(c->work->device, c->device[i]);
    mem_free(c->host[i]);
  }
}

int profile_copies_all(struct profile_work *w, double budget) {
  struct copies c = {.work = w};
  struct profile_copy rows[N_SIZES * N_KINDS];
  int n = 0;
  int status = profile_begin_all(w, STATUS_OK, "copies between device and host");
  while (c.n < N_SIZES && 2 * sizes[c.n] <= w->limit) c.n++;
  if (!status && c.n == 0) {
    profile_note(w,
                 "not measured: copies between device and host, as there is no memory for them (memory.device_limit)");
    return STATUS_OK;
  }
  if (!status) status = comm_agree_all(w->comm, open_copies(&c));
  for (int s = 0; s < c.n && !status; s++)
    for (int kind = 0; kind < N_KINDS; kind++) {
      c.bytes = sizes[s];
      rows[n++] = measure_kind_all(&c, (enum profile_copy_kind)kind, budget / (c.n * N_KINDS));
    }
  if (!status && w->profile) profile_set_copies(w->profile, rows, n);
  close_copies(&c);
  return status;
}
