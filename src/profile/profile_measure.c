#include "profile/profile_measure.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "profile/counters.h"
#include "profile/profile_internal.h"

/* Parts of the time. */
static const double PART_OPS = 0.75, PART_LINKS = 0.1, PART_COPIES = 0.08, PART_DISK = 0.07;

/* ---- what the parts share ---- */

static double *gather_all(const struct profile_work *w, double value) {
  double *all = MEM_NEW(double, w->size);
  int64_t *offsets = MEM_NEW(int64_t, w->size + 1);
  comm_gather_all(w->comm, &value, sizeof value, all, offsets);
  mem_free(offsets);
  return all;
}

static int find_most(const double *all, int n) {
  int most = 0;
  for (int i = 1; i < n; i++)
    if (all[i] > all[most]) most = i;
  return most;
}

double profile_get_most_all(const struct profile_work *w, double value) {
  double *all = gather_all(w, value);
  double most = all[find_most(all, w->size)];
  mem_free(all);
  return most;
}

int profile_choose_repetitions_all(const struct profile_work *w, double once, double budget) {
  double n = budget / (profile_get_most_all(w, once) + 1e-9), least = -profile_get_most_all(w, -n);
  if (least < PROFILE_LEAST_REPETITIONS) return PROFILE_LEAST_REPETITIONS;
  return least < PROFILE_MOST_REPETITIONS ? (int)least : PROFILE_MOST_REPETITIONS;
}

void profile_take_slowest_all(const struct profile_work *w, double total, void *rows, int64_t bytes) {
  double *all = gather_all(w, total);
  comm_broadcast_all(w->comm, find_most(all, w->size), rows, bytes);
  mem_free(all);
}

void profile_note(struct profile_work *w, const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  char *longer = mem_format("%s%s%s", w->notes, w->notes[0] ? "\n" : "", line);
  mem_free(w->notes);
  w->notes = longer;
}

static void say(const struct profile_work *w, const char *what) {
  if (w->rank != 0 || !w->config->progress) return;
  double left = w->end - clock_now();
  char *line = mem_format("measuring %s; about %.0f s left", what, left > 0 ? left : 0.0);
  w->config->progress(w->config->context, line);
  mem_free(line);
}

int profile_begin_all(struct profile_work *w, int status, const char *format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  if (!status && interrupt_get_signal())
    status = error_raise(STATUS_STOPPED, "stopped by %s before measuring %s; nothing is written",
                         interrupt_get_signal(), what);
  status = comm_agree_all(w->comm, status);
  if (!status) say(w, what);
  return status;
}

/* ---- the whole ---- */

static int open_device(struct profile_work *w) {
  const struct profile_config *c = w->config;
  const struct device_ops *ops = device_find(c->backend);
  if (!ops) return error_raise(STATUS_MISTAKE, "device.backend '%s' is not available", c->backend);
  if (!ops->computes)
    return error_raise(
        STATUS_MISTAKE,
        "device.backend '%s' computes nothing, there is nothing to measure: set device.backend to cpu, or "
        "give times by hand (cost.source)",
        c->backend);
  return ops->open(&c->device, &w->device);
}

static void warn_counters(const struct profile_work *w) {
  const char *reason = counters_get_reason(w->counters);
  if (reason) log_warn("hardware counters: %s; times are measured without them", reason);
}

static int measure_all(struct profile_work *w) {
  const struct profile_config *c = w->config;
  if (c->n_points && c->ops_only) return profile_ops_all(w, c->seconds);
  double links = w->size > 1 ? PART_LINKS * c->seconds : 0;
  int status = profile_ops_all(w, PART_OPS * c->seconds + PART_LINKS * c->seconds - links);
  if (!status) status = profile_links_all(w, links);
  if (!status) status = profile_copies_all(w, PART_COPIES * c->seconds);
  return status ? status : profile_disk_all(w, PART_DISK * c->seconds);
}

int profile_measure_all(const struct profile_config *config, struct profile *profile, char **notes) {
  struct profile_work w = {.config = config,
                           .comm = config->comm,
                           .rank = comm_get_rank(config->comm),
                           .size = comm_get_size(config->comm),
                           .profile = profile,
                           .notes = mem_strdup("")};
  w.limit = (int64_t)-profile_get_most_all(&w, -(double)config->device.limit);
  w.counters = counters_open(); /* before the device: its threads are counted too */
  int status = comm_agree_all(w.comm, open_device(&w));
  if (!status) {
    warn_counters(&w);
    w.begin = clock_now();
    w.end = w.begin + config->seconds;
    status = measure_all(&w);
  }
  if (!status && profile) clock_format(profile->date);
  if (w.device) w.device->ops->close(&w.device);
  counters_close(&w.counters);
  if (w.rank == 0 && !status)
    *notes = w.notes;
  else
    mem_free(w.notes);
  return status;
}
