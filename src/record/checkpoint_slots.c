#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "model/model.h"
#include "record/checkpoint_impl.h"
#include "store/h5.h"

static const int64_t ROUND_BYTES = (int64_t)1 << 30;
static const double BEAT_SECONDS = 0.5;

static const char *const set_groups[CHECKPOINT_SETS] = {"/layers", "/optimizer/m", "/optimizer/v"};

struct checkpoint_slot *checkpoint_list_slots(const struct model *model, int n_sets, int64_t *n) {
  struct checkpoint_slot *slots =
      MEM_NEW(struct checkpoint_slot, (int64_t)model->n_layers * n_sets * LAYER_MAX_TENSORS);
  *n = 0;
  for (int32_t l = 0; l < model->n_layers; l++)
    for (int set = 0; set < n_sets; set++)
      for (int t = 0; t < model->layers[l].n_tensors; t++)
        if (!model->layers[l].tensors[t].tied)
          slots[(*n)++] = (struct checkpoint_slot){.set = set, .layer = l, .tensor = &model->layers[l].tensors[t]};
  return slots;
}

void checkpoint_get_group(int set, int32_t layer, char path[CHECKPOINT_PATH_BYTES]) {
  snprintf(path, CHECKPOINT_PATH_BYTES, "%s/%03" PRId32, set_groups[set], layer);
}

void checkpoint_get_path(const struct checkpoint_slot *slot, char path[CHECKPOINT_PATH_BYTES]) {
  snprintf(path, CHECKPOINT_PATH_BYTES, "%s/%03" PRId32 "/%s", set_groups[slot->set], slot->layer, slot->tensor->name);
}

float *checkpoint_get_data(const struct checkpoint_part *part, const struct checkpoint_slot *slot) {
  float *const *const sets[CHECKPOINT_SETS] = {part->weights, part->m, part->v};
  float *block = sets[slot->set] ? sets[slot->set][slot->layer] : NULL;
  return block ? block + slot->tensor->offset : NULL;
}

/* ---- hashes ---- */

uint64_t checkpoint_hash(const float *data, int64_t count) { return hash_bytes(data, (size_t)count * sizeof *data, 0); }

void checkpoint_write_hash(struct h5_file *file, const char *path, uint64_t hash, int *status) {
  char text[24];
  snprintf(text, sizeof text, "%016" PRIx64, hash);
  if (!*status) *status = h5_write_text(file, path, "xxh3", text);
}

int checkpoint_check_hash(struct h5_file *file, const char *file_path, const char *path, const float *data,
                          int64_t count) {
  char *text;
  int status = h5_read_text(file, path, "xxh3", &text);
  if (status) return status;
  bool same = strtoull(text, NULL, 16) == checkpoint_hash(data, count);
  mem_free(text);
  if (same) return STATUS_OK;
  return error_raise(STATUS_FAILED, "%s is damaged: %s is not what was written; use an earlier checkpoint", file_path,
                     path);
}

/* ---- rounds ---- */

static int64_t agree_on_rounds_all(struct comm *comm, int64_t bytes) {
  int n_ranks = comm_get_size(comm);
  int64_t own = (bytes + ROUND_BYTES - 1) / ROUND_BYTES, most = 0;
  int64_t *all = MEM_NEW(int64_t, n_ranks), *offsets = MEM_NEW(int64_t, n_ranks + 1);
  comm_gather_all(comm, &own, sizeof own, all, offsets);
  for (int r = 0; r < n_ranks; r++)
    if (all[r] > most) most = all[r];
  mem_free(all);
  mem_free(offsets);
  return most;
}

int checkpoint_run_jobs_all(struct comm *comm, const struct checkpoint_job *jobs, int64_t n, const int64_t *bytes,
                            int (*work)(void *context, const struct checkpoint_job *job), void *context) {
  int64_t total = 0, next = 0;
  for (int64_t i = 0; i < n; i++) total += bytes[i];
  int64_t n_rounds = agree_on_rounds_all(comm, total);
  int status = STATUS_OK;
  for (int64_t round = 0; round < n_rounds; round++) {
    for (int64_t done = 0; next < n && done < ROUND_BYTES && !status; next++) {
      status = work(context, &jobs[next]);
      done += bytes[next];
      comm_poll(comm);
    }
    status = comm_agree_all(comm, status);
    if (status) return status;
  }
  CHECK(next == n, "%" PRId64 " of %" PRId64 " arrays done", next, n);
  return STATUS_OK;
}

/* ---- vigil ---- */

void checkpoint_beat(void *context) {
  struct checkpoint_vigil *vigil = context;
  uint8_t more = 1;
  comm_poll(vigil->comm);
  if (clock_now() - vigil->last < BEAT_SECONDS) return;
  comm_broadcast_all(vigil->comm, 0, &more, sizeof more);
  vigil->last = clock_now();
}

void checkpoint_end_vigil(struct checkpoint_vigil *vigil) {
  uint8_t more = 0;
  comm_broadcast_all(vigil->comm, 0, &more, sizeof more);
}

void checkpoint_follow(struct comm *comm) {
  uint8_t more = 1;
  while (more) comm_broadcast_all(comm, 0, &more, sizeof more);
}
