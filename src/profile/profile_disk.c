/* Writing to and reading from the disk, all ranks at once, each a file of its own that has no name: whatever happens to
 * the program, none is left. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "profile/profile_internal.h"
#include "store/disk.h"

static const int64_t sizes[] = {(int64_t)1 << 20, (int64_t)16 << 20};
enum { N_SIZES = sizeof sizes / sizeof *sizes, PIECE = 1 << 20 };

struct disk_file {
  const char *folder;
  int descriptor;
  char *data; /* of the largest size */
};

static int open_file(const struct profile_work *w, struct disk_file *file) {
  char *path = mem_format("%s/profile-XXXXXX", w->config->folder);
  *file = (struct disk_file){.folder = w->config->folder, .data = mem_alloc((size_t)sizes[N_SIZES - 1])};
  file->descriptor = mkstemp(path);
  int error = errno;
  if (file->descriptor >= 0) unlink(path);
  mem_free(path);
  if (file->descriptor < 0)
    return error_raise(STATUS_MISTAKE, "no file can be made in %s (run.folder): %s", w->config->folder,
                       limits_reason(error));
  memset(file->data, 1, (size_t)sizes[N_SIZES - 1]);
  return STATUS_OK;
}

static void close_file(struct disk_file *file) {
  if (file->descriptor >= 0) close(file->descriptor);
  mem_free(file->data);
}

/* Files are written and read in pieces, between which the watchdog is answered. */
static int write_file(const struct profile_work *w, struct disk_file *file, int64_t bytes) {
  int error = 0;
  for (int64_t at = 0; at < bytes && !error; at += PIECE) {
    error = disk_write_at(file->descriptor, file->data + at, PIECE, at);
    comm_poll(w->comm);
  }
  if (!error && fdatasync(file->descriptor)) error = errno;
  return error ? disk_raise_write(file->folder, error, bytes) : STATUS_OK;
}

static int read_file(const struct profile_work *w, struct disk_file *file, int64_t bytes) {
  int error = 0;
  for (int64_t at = 0; at < bytes && !error; at += PIECE) {
    error = disk_read_at(file->descriptor, file->data + at, PIECE, at);
    comm_poll(w->comm);
  }
  return error ? error_raise(STATUS_FAILED, "reading in %s: %s", file->folder, limits_reason(error)) : STATUS_OK;
}

/* One time each. The pages are given up in between, as the system lets them; new ones cost what the first ones did. */
static int measure_once(const struct profile_work *w, struct disk_file *file, int64_t bytes, double seconds[2]) {
  if (ftruncate(file->descriptor, 0)) return error_raise(STATUS_FAILED, "%s: %s", file->folder, limits_reason(errno));
  double start = clock_now();
  int status = write_file(w, file, bytes);
  seconds[0] = clock_now() - start;
  if (!status) posix_fadvise(file->descriptor, 0, bytes, POSIX_FADV_DONTNEED);
  start = clock_now();
  if (!status) status = read_file(w, file, bytes);
  seconds[1] = clock_now() - start;
  return status;
}

static int measure_size_all(struct profile_work *w, struct disk_file *file, int64_t bytes, double budget,
                            struct profile_copy rows[2]) {
  struct profile_samples samples[2] = {{0}};
  double seconds[2] = {0};
  int status = comm_agree_all(w->comm, measure_once(w, file, bytes, seconds));
  int n = status ? 0 : profile_choose_repetitions_all(w, seconds[0] + seconds[1], budget);
  for (int i = 0; i < n && !status; i++) {
    status = measure_once(w, file, bytes, seconds);
    for (int k = 0; k < 2; k++) profile_samples_add(&samples[k], seconds[k]);
  }
  status = comm_agree_all(w->comm, status);
  for (int k = 0; k < 2; k++) {
    double median = profile_samples_get_median(&samples[k]);
    if (!status) median = profile_get_most_all(w, median);
    rows[k] = (struct profile_copy){PROFILE_DISK_WRITE + k, bytes, median};
    profile_samples_fini(&samples[k]);
  }
  return status;
}

/* The disk is no part of a device: on a full one the rest is still worth keeping. */
static bool has_room_all(struct profile_work *w) {
  int64_t room = disk_get_free(w->config->folder), needed = 2 * sizes[N_SIZES - 1] * w->size;
  bool lacks = profile_get_most_all(w, room >= 0 && room < needed) > 0;
  if (lacks)
    profile_note(w, "not measured: disk, as %s has %lld bytes free and %lld are needed", w->config->folder,
                 (long long)room, (long long)needed);
  return !lacks;
}

static void append_rows(struct profile *profile, const struct profile_copy *rows, int n) {
  struct profile_copy *all = MEM_NEW(struct profile_copy, profile->n_copies + n);
  int64_t m = 0;
  for (int64_t i = 0; i < profile->n_copies; i++)
    if (profile->copies[i].kind < PROFILE_DISK_WRITE) all[m++] = profile->copies[i];
  for (int i = 0; i < n; i++) all[m++] = rows[i];
  profile_set_copies(profile, all, m);
  mem_free(all);
}

int profile_disk_all(struct profile_work *w, double budget) {
  struct profile_copy rows[2 * N_SIZES];
  struct disk_file file;
  int status = profile_begin_all(w, STATUS_OK, "disk, in %s", w->config->folder);
  if (status || !has_room_all(w)) return status;
  status = comm_agree_all(w->comm, open_file(w, &file));
  for (int s = 0; s < N_SIZES && !status; s++)
    status = measure_size_all(w, &file, sizes[s], budget / N_SIZES, rows + 2 * s);
  if (!status && w->profile) append_rows(w->profile, rows, 2 * N_SIZES);
  close_file(&file);
  return status;
}
