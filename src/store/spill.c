#include "store/spill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/worker.h"
#include "store/disk.h"
#include "store/h5.h"

static const char prefix[] = "penstock-spill-", suffix[] = ".h5", unfinished[] = ".h5.tmp";
/* A file is made and locked in a moment, unless its maker was killed then. */
static const double MAKING_SECONDS = 60;

struct stored {
  int64_t place, bytes; /* place: in the dataset */
  uint64_t hash;
  bool written;
};

struct spill {
  char *path;
  int descriptor;
  int64_t limit, range, data_offset; /* of the dataset: its bytes, where it starts in the file */
  int64_t reserved;                  /* from its start, the room that the file keeps */
  int64_t used, peak;
  struct stored *blocks; /* live ones, by place */
  int64_t n_blocks, n_room;
  struct worker *worker;
  /* The job: its own copy of the block, and how it ended. */
  struct {
    struct stored block;
    void *data;
    bool writes, damaged;
    int error;
    bool under_way;
  } job;
};

static int64_t round_up(int64_t bytes) { return (bytes + SPILL_ALIGN - 1) / SPILL_ALIGN * SPILL_ALIGN; }

/* ---- the file ---- */

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && !strcmp(name + n - m, end);
}

/* Returns true when the process in "...-PID-RANK.h5" lives, or another one that has got its number. */
static bool has_maker(const char *name) {
  const char *rank = strrchr(name, '-'), *pid = rank;
  while (pid > name && *--pid != '-') continue;
  long number = strtol(pid + 1, NULL, 10);
  return number > 0 && (!kill((pid_t)number, 0) || errno == EPERM);
}

/* Removes a file of a run that is gone: the lock of one that lives is held, or about to be taken. */
static void remove_stale(const char *folder, const char *name) {
  bool half = ends_with(name, unfinished);
  if (strncmp(name, prefix, strlen(prefix)) || (!half && !ends_with(name, suffix))) return;
  char *path = mem_format("%s/%s", folder, name);
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  struct stat status;
  bool old = descriptor >= 0 && !fstat(descriptor, &status) && difftime(time(NULL), status.st_mtime) > MAKING_SECONDS;
  if (descriptor >= 0 && !flock(descriptor, LOCK_EX | LOCK_NB) && (old || !has_maker(name))) unlink(path);
  if (descriptor >= 0) close(descriptor);
  mem_free(path);
}

static void reclaim(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) remove_stale(folder, entry->d_name);
  closedir(dir);
}

static char *make_path(const char *folder, const char *run, int32_t rank) {
  char host[128] = "";
  gethostname(host, sizeof host - 1);
  const char *name = strrchr(run, '/') ? strrchr(run, '/') + 1 : run;
  return mem_format("%s/%s%s-%s-%ld-%d%s", folder, prefix, name, host, (long)getpid(), (int)rank, suffix);
}

static int create_file(struct spill *s) {
  struct h5_file *file;
  int64_t dims[1] = {s->range};
  int status = h5_create(s->path, &file);
  if (status) return status;
  h5_set_sparse(file);
  status = h5_reserve_dataset(file, "/blocks", H5_INT8, 1, dims, &s->data_offset);
  if (status) {
    h5_discard(&file);
    return status;
  }
  return h5_close(&file);
}

/* True while the name is that of the file that is open here. */
static bool has_name(const struct spill *s) {
  struct stat own, named;
  return s->descriptor >= 0 && !fstat(s->descriptor, &own) && !stat(s->path, &named) && own.st_ino == named.st_ino &&
         own.st_dev == named.st_dev;
}

static int raise_write(const struct spill *s, int error, int64_t bytes) {
  const char *repair = error == EFBIG    ? "raise the limit on file size (ulimit -f)"
                       : error == EMFILE ? "raise the limit on open files (ulimit -n)"
                                         : "free space there, set memory.spill_folder to another disk, or lower "
                                           "memory.spill_limit so that less is planned to go there";
  return error_raise(STATUS_FAILED, "cannot write %s: %s (%lld bytes needed, %lld free); %s", s->path,
                     limits_reason(error), (long long)bytes, (long long)disk_get_free(s->path), repair);
}

/* A file that appears between its creation and its lock may be taken for a stale one: then it is made again. */
static int open_file(struct spill *s) {
  int failure = 0;
  for (int tries = 0; tries < 10; tries++) {
    int status = create_file(s);
    if (status) return status;
    s->descriptor = open(s->path, O_RDWR | O_CLOEXEC);
    failure = s->descriptor < 0 || flock(s->descriptor, LOCK_EX | LOCK_NB) ? errno : 0;
    if (!failure && has_name(s)) break;
    if (s->descriptor >= 0) close(s->descriptor);
    s->descriptor = -1;
    clock_sleep(1e-3 * tries);
  }
  if (s->descriptor < 0)
    return error_raise(STATUS_FAILED, "%s cannot be opened and locked: %s", s->path,
                       failure ? limits_reason(failure) : "others remove it");
  struct stat status;
  failure = fstat(s->descriptor, &status) ? errno : 0;
  if (!failure) failure = disk_reserve(s->descriptor, s->data_offset, s->data_offset + s->reserved);
  if (failure) return raise_write(s, failure, s->reserved);
  /* The file is cut to the part that was asked for, where room for more cannot be reserved. */
  return ftruncate(s->descriptor, status.st_size) ? raise_write(s, errno, 0) : STATUS_OK;
}

int spill_open(const char *folder, const char *run, int32_t rank, int64_t limit, int64_t most, struct spill **spill) {
  *spill = NULL;
  if (disk_make_folder(folder)) {
    error_wrap("memory.spill_folder");
    return error_raise(STATUS_MISTAKE, "%s", error_text());
  }
  reclaim(folder);
  struct spill *s = MEM_NEW(struct spill, 1);
  s->path = make_path(folder, run, rank);
  s->descriptor = -1;
  s->limit = limit;
  s->reserved = round_up(most);
  s->range = 4 * s->reserved + ((int64_t)1 << 20); /* with holes */
  s->worker = worker_create(NULL, 0);
  int status =
      access(folder, W_OK | X_OK)
          ? error_raise(STATUS_MISTAKE, "%s: %s; name a folder where this job may write", folder, limits_reason(errno))
          : open_file(s);
  if (status) {
    spill_close(&s);
    return error_wrap("memory.spill_folder");
  }
  *spill = s;
  return STATUS_OK;
}

void spill_close(struct spill **spill) {
  struct spill *s = *spill;
  if (!s) return;
  worker_destroy(&s->worker);
  spill_abandon(s);
  if (s->descriptor >= 0) close(s->descriptor);
  mem_free(s->path);
  mem_free(s->blocks);
  mem_free(s);
  *spill = NULL;
}

void spill_abandon(struct spill *s) {
  if (has_name(s)) unlink(s->path);
}

const char *spill_get_path(const struct spill *s) { return s->path; }

/* ---- room ---- */

/* Index of the live block before which the first hole that fits lies; n_blocks for the end. */
static int64_t find_hole(const struct spill *s, int64_t bytes, int64_t *place) {
  int64_t end = 0;
  for (int64_t i = 0; i < s->n_blocks; i++) {
    *place = end;
    if (s->blocks[i].place - end >= bytes) return i;
    end = s->blocks[i].place + round_up(s->blocks[i].bytes);
  }
  *place = end;
  return s->n_blocks;
}

int64_t spill_alloc(struct spill *s, int64_t bytes, const char *what) {
  int64_t place, at = find_hole(s, round_up(bytes), &place);
  if (bytes > s->limit - s->used) {
    error_raise(STATUS_FAILED, "%s: %s needs %lld bytes, %lld of memory.spill_limit %lld are in use", s->path, what,
                (long long)bytes, (long long)s->used, (long long)s->limit);
    return -1;
  }
  if (place + round_up(bytes) > s->range) {
    error_raise(STATUS_FAILED, "%s: %s needs %lld bytes, and no hole between the blocks there (%lld bytes) is as large",
                s->path, what, (long long)bytes, (long long)s->used);
    return -1;
  }
  if (s->n_blocks == s->n_room) {
    s->n_room = s->n_room ? 2 * s->n_room : 16;
    s->blocks = mem_resize(s->blocks, sizeof *s->blocks * (size_t)s->n_room);
  }
  memmove(s->blocks + at + 1, s->blocks + at, sizeof *s->blocks * (size_t)(s->n_blocks - at));
  s->blocks[at] = (struct stored){.place = place, .bytes = bytes};
  s->n_blocks++;
  s->used += bytes;
  if (s->used > s->peak) s->peak = s->used;
  return place;
}

static struct stored *find_stored(const struct spill *s, int64_t place) {
  int64_t low = 0, high = s->n_blocks;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (s->blocks[middle].place < place)
      low = middle + 1;
    else
      high = middle;
  }
  CHECK(low < s->n_blocks && s->blocks[low].place == place, "there is no block at %lld of %s", (long long)place,
        s->path);
  return &s->blocks[low];
}

/* Blocks beyond the reserved room take disk only while they are there. Where the file system has no holes, the room
 * stays taken. */
static void give_back(const struct spill *s, int64_t from, int64_t to) {
  (void)!fallocate(s->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(s->data_offset + from),
                   (off_t)(to - from));
}

void spill_free(struct spill *s, int64_t place) {
  struct stored *block = find_stored(s, place);
  int64_t at = block - s->blocks, end = place + round_up(block->bytes);
  s->used -= block->bytes;
  if (end > s->reserved) give_back(s, place > s->reserved ? place : s->reserved, end);
  s->n_blocks--;
  memmove(s->blocks + at, s->blocks + at + 1, sizeof *s->blocks * (size_t)(s->n_blocks - at));
}

int64_t spill_get_peak(const struct spill *s) { return s->peak; }
void spill_reset_peak(struct spill *s) { s->peak = s->used; }

double spill_get_cpu(const struct spill *s) { return worker_get_cpu(s->worker); }

/* ---- jobs ---- */

/* Runs on the worker's thread: it records no errors. */
static void run_job(void *context) {
  struct spill *s = context;
  struct stored *block = &s->job.block;
  int64_t offset = s->data_offset + block->place;
  if (s->job.writes) {
    block->hash = hash_bytes(s->job.data, (size_t)block->bytes, 0);
    s->job.error = disk_write_at(s->descriptor, s->job.data, block->bytes, offset);
  } else {
    s->job.error = disk_read_at(s->descriptor, s->job.data, block->bytes, offset);
    s->job.damaged = !s->job.error && hash_bytes(s->job.data, (size_t)block->bytes, 0) != block->hash;
  }
}

static void begin(struct spill *s, int64_t place, void *data, bool writes) {
  s->job.block = *find_stored(s, place);
  CHECK(writes || s->job.block.written, "a block of %s is read before it is written", s->path);
  s->job.data = data;
  s->job.writes = writes;
  s->job.damaged = false;
  s->job.error = 0;
  s->job.under_way = true;
  worker_begin(s->worker, run_job, s);
}

void spill_begin_write(struct spill *s, int64_t place, const void *data) {
  begin(s, place, (void *)(uintptr_t)data, true);
}

void spill_begin_read(struct spill *s, int64_t place, void *data) { begin(s, place, data, false); }

static int conclude(struct spill *s) {
  const struct stored *done = &s->job.block;
  struct stored *block = find_stored(s, done->place);
  if (s->job.error && s->job.writes) return raise_write(s, s->job.error, done->bytes);
  if (s->job.error)
    return error_raise(STATUS_FAILED, "%s: %lld bytes cannot be read: %s", s->path, (long long)done->bytes,
                       limits_reason(s->job.error));
  if (s->job.damaged)
    return error_raise(STATUS_FAILED,
                       "%s is damaged: %lld bytes of activations are not what was written; start the run again, with "
                       "another memory.spill_folder",
                       s->path, (long long)done->bytes);
  block->hash = done->hash;
  block->written = true;
  return STATUS_OK;
}

bool spill_test(struct spill *s, int *status, double *start, double *end) {
  if (!worker_test(s->worker, start, end)) return false;
  *status = s->job.under_way ? conclude(s) : STATUS_OK;
  s->job.under_way = false;
  return true;
}
