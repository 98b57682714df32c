/* Copies between device and host as a step does them, all ranks at once: on the device's streams, beside computing, of
 * memory that no cache holds any more. Out, in, and both ways at once. */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "profile/profile_internal.h"

static const int64_t sizes[] = {(int64_t)1 << 20, (int64_t)8 << 20, (int64_t)64 << 20};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_KINDS = PROFILE_COPY_BOTH + 1 };
enum { BUSY_FLOATS = 4096 }; /* what is computed beside copies: little memory, so that copies are asked for often */

struct copies {
  struct profile_work *work;
  int n;        /* sizes that there is room for twice */
  int64_t most; /* the largest of them: what each buffer has */
  char *device[COPY_WAY_COUNT], *host[COPY_WAY_COUNT];
  float *busy;
  int64_t bytes, at;
};

static void begin(const struct copies *c, enum copy_way way) {
  char *device = c->device[way] + c->at, *host = c->host[way] + c->at;
  struct copy_part part = {way == COPY_OUT ? host : device, way == COPY_OUT ? device : host, c->bytes};
  c->work->device->ops->copy_begin(c->work->device, way, &part, 1);
}

static bool copies_way(enum profile_copy_kind kind, enum copy_way way) {
  return kind == PROFILE_COPY_BOTH || (kind == PROFILE_COPY_OUT) == (way == COPY_OUT);
}

/* Returns the seconds from the first start to the last end. Each measurement goes on where the last one ended in the
 * buffers, which are larger than the caches where there is memory for that. */
static double measure(struct copies *c, enum profile_copy_kind kind) {
  struct device *device = c->work->device;
  double first = INFINITY, last = 0;
  for (int way = 0; way < COPY_WAY_COUNT; way++)
    if (copies_way(kind, (enum copy_way)way)) begin(c, (enum copy_way)way);
  for (int way = 0; way < COPY_WAY_COUNT; way++) {
    if (!copies_way(kind, (enum copy_way)way)) continue;
    double start, end;
    while (!device->ops->copy_test(device, (enum copy_way)way, &start, &end))
      device->ops->sum_squares(device, BUSY_FLOATS, c->busy);
    first = fmin(first, start);
    last = fmax(last, end);
  }
  c->at = c->at + 2 * c->bytes <= c->most ? c->at + c->bytes : 0;
  return last - first;
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

/* Chooses as many sizes as all ranks have room for. Collective. */
static void choose_sizes_all(struct copies *c) {
  const struct device *device = c->work->device;
  double host = -profile_get_most_all(c->work, -(double)device->ops->get_host_memory(device).limit);
  int64_t busy = BUSY_FLOATS * (int64_t)sizeof(float);
  while (c->n < N_SIZES && 2 * sizes[c->n] + busy <= c->work->limit && 2 * (double)sizes[c->n] <= host) c->n++;
  c->most = c->n ? sizes[c->n - 1] : 0;
}

/* Host memory is written first: pages that nobody has touched are no memory yet. */
static int open_copies(struct copies *c) {
  struct device *device = c->work->device;
  c->busy = device->ops->alloc(device, BUSY_FLOATS * (int64_t)sizeof(float), "copies");
  if (!c->busy) return error_status();
  device->ops->fill(device, BUSY_FLOATS, 1.0f, c->busy);
  for (int i = 0; i < COPY_WAY_COUNT; i++) {
    c->device[i] = device->ops->alloc(device, c->most, "copies");
    if (!c->device[i]) return error_status();
    c->host[i] = device->ops->alloc_host(device, c->most, "copies");
    if (!c->host[i]) return error_status();
    device->ops->fill(device, c->most / (int64_t)sizeof(float), 1.0f, (float *)(void *)c->device[i]);
    device->ops->read(device, c->host[i], c->device[i], c->most);
  }
  return STATUS_OK;
}

static void close_copies(struct copies *c) {
  struct device *device = c->work->device;
  for (int i = 0; i < COPY_WAY_COUNT; i++) {
    device->ops->free(device, c->device[i]);
    device->ops->free_host(device, c->host[i]);
  }
  device->ops->free(device, c->busy);
}

int profile_copies_all(struct profile_work *w, double budget) {
  struct copies c = {.work = w};
  struct profile_copy rows[N_SIZES * N_KINDS];
  int n = 0;
  int status = profile_begin_all(w, STATUS_OK, "copies between device and host");
  if (!status) choose_sizes_all(&c);
  if (!status && c.n == 0) {
    profile_note(w, "not measured: copies between device and host, as there is no memory for them "
                    "(memory.device_limit, memory.host_limit)");
    return STATUS_OK;
  }
  if (!status) status = comm_agree_all(w->comm, open_copies(&c));
  for (int s = 0; s < c.n && !status; s++)
    for (int kind = 0; kind < N_KINDS; kind++) {
      c.bytes = sizes[s];
      c.at = 0;
      rows[n++] = measure_kind_all(&c, (enum profile_copy_kind)kind, budget / (c.n * N_KINDS));
    }
  if (!status && w->profile) profile_set_copies(w->profile, rows, n);
  close_copies(&c);
  return status;
}
