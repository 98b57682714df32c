#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "record/checkpoint.h"
#include "record/checkpoint_impl.h"

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

/* Deletes temporary files, and lists files that the index does not know as entries with only step and name. */
static void scan_folder(const char *folder, const struct checkpoint_index *index, struct checkpoint_index *unlisted) {
  DIR *stream = opendir(folder);
  for (struct dirent *item = stream ? readdir(stream) : NULL; item; item = readdir(stream)) {
    struct checkpoint_entry entry = {0};
    if (strncmp(item->d_name, "step-", 5) && strncmp(item->d_name, "index.txt.", 10)) continue;
    if (ends_with(item->d_name, ".tmp")) {
      char *path = mem_format("%s/%s", folder, item->d_name);
      if (unlink(path)) log_warn("cannot remove %s, which an interrupted save left: %s", path, limits_reason(errno));
      mem_free(path);
    } else if (ends_with(item->d_name, ".h5") && strlen(item->d_name) < sizeof entry.name &&
               !checkpoint_index_find(index, item->d_name)) {
      memcpy(entry.name, item->d_name, strlen(item->d_name) + 1);
      entry.step = strtoll(item->d_name + 5, NULL, 10);
      checkpoint_index_add(unlisted, &entry);
    }
  }
  if (stream) closedir(stream);
}

/* The newest listed file that is whole; owned by the caller, NULL when there is none. Adds up the damaged ones. */
static char *find_listed(const char *folder, const struct checkpoint_index *index, struct checkpoint_vigil *vigil,
                         int64_t *step, int64_t *n_damaged) {
  for (int64_t i = index->n - 1; i >= 0; i--) {
    char *path = mem_format("%s/%s", folder, index->entries[i].name);
    *step = index->entries[i].step;
    if (!checkpoint_verify(path, &index->entries[i], checkpoint_beat, vigil)) return path;
    log_warn("%s; trying the one before it", error_text());
    *n_damaged += access(path, F_OK) == 0;
    mem_free(path);
  }
  return NULL;
}

/* The newest file that no index vouches for but whose content agrees with its own hashes. */
static char *find_unlisted(const char *folder, const struct checkpoint_index *unlisted, struct checkpoint_vigil *vigil,
                           int64_t *step) {
  for (int64_t i = unlisted->n - 1; i >= 0; i--) {
    char *path = mem_format("%s/%s", folder, unlisted->entries[i].name);
    *step = unlisted->entries[i].step;
    if (!checkpoint_check_content(path, checkpoint_beat, vigil)) {
      log_warn("%s is not in %s/index.txt; its arrays agree with the hashes in the file, so it is taken", path, folder);
      return path;
    }
    log_warn("%s is not in %s/index.txt and is passed over: %s", path, folder, error_text());
    mem_free(path);
  }
  return NULL;
}

static int find_newest(const char *folder, struct checkpoint_vigil *vigil, char **path, int64_t *step) {
  struct checkpoint_index index, unlisted = {0};
  int64_t n_damaged = 0;
  if (checkpoint_index_read(folder, &index)) log_warn("%s", error_text());
  scan_folder(folder, &index, &unlisted);
  *path = find_listed(folder, &index, vigil, step, &n_damaged);
  /* Clean only when a whole checkpoint has been found: files of a killed save may be all that there is. */
  if (*path && checkpoint_keep_clean(folder, &index)) log_warn("%s", error_text());
  if (!*path) *path = find_unlisted(folder, &unlisted, vigil, step);
  n_damaged += unlisted.n;
  checkpoint_index_fini(&index);
  checkpoint_index_fini(&unlisted);
  if (*path || n_damaged == 0) return STATUS_OK;
  return error_raise(STATUS_FAILED,
                     "none of the %" PRId64 " checkpoints in %s is whole; move that folder away to begin from step 0",
                     n_damaged, folder);
}

/* Finds the newest checkpoint of the index; removes nothing. */
static int find_newest_listed(const char *folder, struct checkpoint_vigil *vigil, char **path, int64_t *step) {
  struct checkpoint_index index;
  int64_t n_damaged = 0;
  int status = checkpoint_index_read(folder, &index);
  if (!status) *path = find_listed(folder, &index, vigil, step, &n_damaged);
  checkpoint_index_fini(&index);
  if (!status && !*path)
    status =
        error_raise(STATUS_MISTAKE,
                    "there is no whole checkpoint in %s: a run writes one every run.checkpoint_every steps and when it "
                    "ends or is stopped",
                    folder);
  return status;
}

/* Rank 0 finds, all are told. *path NULL: none. */
static int find_all(struct comm *comm, const char *folder,
                    int (*find)(const char *folder, struct checkpoint_vigil *vigil, char **path, int64_t *step),
                    char **path, int64_t *step) {
  int status = STATUS_OK;
  int64_t told[2] = {0, 0}; /* bytes of the path, step */
  *path = NULL;
  if (comm_get_rank(comm) == 0) {
    struct checkpoint_vigil vigil = {.comm = comm};
    status = find(folder, &vigil, path, &told[1]);
    checkpoint_end_vigil(&vigil);
    told[0] = *path ? (int64_t)strlen(*path) + 1 : 0;
  } else {
    checkpoint_follow(comm);
  }
  status = comm_agree_all(comm, status);
  if (status) return status;
  comm_broadcast_all(comm, 0, told, sizeof told);
  *step = told[0] ? told[1] : 0;
  if (!told[0]) return STATUS_OK;
  if (!*path) *path = mem_alloc((size_t)told[0]);
  comm_broadcast_all(comm, 0, *path, told[0]);
  return STATUS_OK;
}

int checkpoint_find_all(struct comm *comm, const char *folder, char **path, int64_t *step) {
  return find_all(comm, folder, find_newest, path, step);
}

int checkpoint_find_listed_all(struct comm *comm, const char *folder, char **path) {
  int64_t step;
  return find_all(comm, folder, find_newest_listed, path, &step);
}
