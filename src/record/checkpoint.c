#include "record/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "model/model.h"
#include "record/checkpoint_impl.h"
#include "store/disk.h"
#include "store/h5.h"

/* Rank 0 writes the file's structure with room for every array, all ranks fill in theirs at the places it names. So the
 * data goes to the disk from all ranks at once, every write is one whose failure is seen, and HDF5 itself never stands
 * between ranks when the disk fails. */

static const int64_t PIECE_BYTES = (int64_t)64 << 20;

/* One save. */
struct save {
  struct comm *comm;
  const char *folder;
  const struct model *model;
  const char *model_json, *deck;
  const struct checkpoint_info *info;
  const struct checkpoint_part *part;
  int n_sets;
  struct checkpoint_slot *slots;
  int64_t n_slots;
  int *owner;       /* [n_layers] rank that writes a layer */
  uint64_t *hashes; /* [n_slots], rank 0 */
  int64_t *offsets; /* [n_slots] bytes in the file */
  char *temporary;
  int descriptor;
};

/* ---- who writes what ---- */

static bool has_arrays(const struct layer *layer) {
  for (int t = 0; t < layer->n_tensors; t++)
    if (!layer->tensors[t].tied) return true;
  return false;
}

/* The lowest rank that holds a layer writes it. The same answer on all ranks. */
static int find_owners_all(struct save *save) {
  int n_ranks = comm_get_size(save->comm);
  int32_t n_layers = save->model->n_layers;
  bool *mine = MEM_NEW(bool, n_layers), *all = MEM_NEW(bool, (int64_t)n_ranks *n_layers);
  int64_t *offsets = MEM_NEW(int64_t, n_ranks + 1);
  for (int32_t l = 0; l < n_layers; l++) mine[l] = save->part->weights[l] != NULL;
  comm_gather_all(save->comm, mine, n_layers, all, offsets);
  int status = STATUS_OK;
  for (int32_t l = 0; l < n_layers; l++) {
    save->owner[l] = -1;
    for (int r = n_ranks - 1; r >= 0; r--)
      if (all[(int64_t)r * n_layers + l]) save->owner[l] = r;
    if (save->owner[l] < 0 && has_arrays(&save->model->layers[l]))
      status = error_raise(STATUS_FAILED, "layer %" PRId32 " is on no rank: nothing is saved", l);
  }
  mem_free(mine);
  mem_free(all);
  mem_free(offsets);
  return status;
}

/* This rank's arrays; owned by the caller, bytes too. */
static struct checkpoint_job *list_jobs(const struct save *save, int64_t *n, int64_t **bytes) {
  struct checkpoint_job *jobs = MEM_NEW(struct checkpoint_job, save->n_slots);
  *bytes = MEM_NEW(int64_t, save->n_slots);
  *n = 0;
  for (int64_t i = 0; i < save->n_slots; i++) {
    if (save->owner[save->slots[i].layer] != comm_get_rank(save->comm)) continue;
    (*bytes)[*n] = save->slots[i].tensor->count * (int64_t)sizeof(float);
    jobs[(*n)++] = (struct checkpoint_job){.slot = i, .data = checkpoint_get_data(save->part, &save->slots[i])};
  }
  return jobs;
}

/* The hashes of all arrays on rank 0. */
static void gather_hashes_all(struct save *save, const struct checkpoint_job *jobs, int64_t n) {
  int n_ranks = comm_get_size(save->comm);
  uint64_t *mine = MEM_NEW(uint64_t, n), *all = MEM_NEW(uint64_t, save->n_slots);
  int64_t *at = MEM_NEW(int64_t, n_ranks + 1);
  for (int64_t i = 0; i < n; i++) {
    mine[i] = checkpoint_hash(jobs[i].data, save->slots[jobs[i].slot].tensor->count);
    comm_poll(save->comm);
  }
  comm_gather_root_all(save->comm, 0, mine, n * (int64_t)sizeof *mine, all, at);
  if (comm_get_rank(save->comm) == 0)
    for (int64_t i = 0; i < save->n_slots; i++) {
      int64_t *next = &at[save->owner[save->slots[i].layer]];
      save->hashes[i] = all[*next / (int64_t)sizeof *all];
      *next += (int64_t)sizeof *all;
    }
  mem_free(mine);
  mem_free(all);
  mem_free(at);
}

/* ---- the structure, by rank 0 ---- */

static int write_structure(struct save *save) {
  struct h5_file *file;
  int64_t needed = 0;
  for (int64_t i = 0; i < save->n_slots; i++) needed += save->slots[i].tensor->count * (int64_t)sizeof(float);
  int status = disk_make_folder(save->folder);
  if (status) return status;
  int64_t there = disk_get_free(save->folder);
  if (there >= 0 && there < needed) return disk_raise_write(save->temporary, ENOSPC, needed);
  status = h5_create(save->temporary, &file);
  if (status) return status;
  status = checkpoint_write_info(file, save->info, save->model, save->model_json, save->deck);
  for (int64_t i = 0; i < save->n_slots && !status; i++) {
    char path[CHECKPOINT_PATH_BYTES];
    const struct tensor *tensor = save->slots[i].tensor;
    checkpoint_get_path(&save->slots[i], path);
    status = h5_reserve_dataset(file, path, H5_FLOAT32, tensor->n_dims, tensor->dims, &save->offsets[i]);
    checkpoint_write_hash(file, path, save->hashes[i], &status);
    comm_poll(save->comm);
  }
  if (!status) return h5_close(&file); /* reserves the room of all arrays on the disk */
  h5_discard(&file);
  return status;
}

/* ---- the data, by all ranks ---- */

static int write_array(void *context, const struct checkpoint_job *job) {
  struct save *save = context;
  int64_t bytes = save->slots[job->slot].tensor->count * (int64_t)sizeof(float);
  for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
    int64_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
    int failure = disk_write_at(save->descriptor, (char *)job->data + done, piece, save->offsets[job->slot] + done);
    if (failure) return disk_raise_write(save->temporary, failure, bytes - done);
    comm_poll(save->comm);
  }
  return STATUS_OK;
}

static int write_data_all(struct save *save, const struct checkpoint_job *jobs, int64_t n, const int64_t *bytes) {
  int status = STATUS_OK, failure = 0;
  comm_broadcast_all(save->comm, 0, save->offsets, save->n_slots * (int64_t)sizeof *save->offsets);
  save->descriptor = n ? open(save->temporary, O_WRONLY | O_CLOEXEC) : -1;
  if (n && save->descriptor < 0) status = disk_raise_write(save->temporary, errno, 0);
  status = comm_agree_all(save->comm, status);
  if (!status) status = checkpoint_run_jobs_all(save->comm, jobs, n, bytes, write_array, save);
  if (!status && save->descriptor >= 0 && fsync(save->descriptor)) failure = errno;
  if (save->descriptor >= 0 && close(save->descriptor) && !failure) failure = errno;
  if (!status && failure) status = disk_raise_write(save->temporary, failure, 0);
  return comm_agree_all(save->comm, status);
}

/* ---- the end, by rank 0 ---- */

/* The name under which the file will stand: one that no listed file has, so that an earlier save of the same step stays
 * until this one is listed. */
static void choose_name(const struct checkpoint_index *index, int64_t step, char *name, size_t size) {
  snprintf(name, size, "step-%08" PRId64 ".h5", step);
  for (int again = 2; checkpoint_index_find(index, name); again++)
    snprintf(name, size, "step-%08" PRId64 "-%d.h5", step, again);
}

/* Takes off the list what gives way to a new one: later steps and the same one (of a run that was continued from an
 * earlier step because they were damaged). */
static void drop_later(struct checkpoint_index *index, int64_t step) {
  for (int64_t i = index->n - 1; i >= 0 && index->entries[i].step >= step; i--) checkpoint_keep_drop(index, i);
}

/* Gives the file its name. The index tells of it first, so that a file that is there but not listed is known for what
 * it is. */
static int rename_announced(const struct save *save, struct checkpoint_index *index, const char *name) {
  checkpoint_index_add_loose(index, name);
  int status = checkpoint_index_write(save->folder, index);
  if (status) return status;
  char *path = mem_format("%s/%s", save->folder, name);
  int failure = rename(save->temporary, path) ? errno : disk_sync_folder_of(path);
  if (failure) status = disk_raise_write(path, failure, 0);
  mem_free(path);
  return status;
}

/* Renames the file, lists it, and deletes what it replaces. */
static int publish(const struct save *save, struct checkpoint_keep keep, struct checkpoint_vigil *vigil) {
  struct checkpoint_index index;
  struct checkpoint_entry entry = {.step = save->info->step};
  int status = hash_file_polled(save->temporary, checkpoint_beat, vigil, &entry.hash, &entry.bytes);
  if (status) return status;
  status = checkpoint_index_read(save->folder, &index);
  if (status) return status;
  choose_name(&index, entry.step, entry.name, sizeof entry.name);
  status = rename_announced(save, &index, entry.name);
  if (!status) {
    drop_later(&index, entry.step);
    checkpoint_index_add(&index, &entry);
    checkpoint_keep_newest(&index, keep);
    status = checkpoint_index_write(save->folder, &index);
    if (status) {
      char *path = mem_format("%s/%s", save->folder, entry.name);
      unlink(path);
      mem_free(path);
    }
  }
  /* The new one stands, whether the old ones could be removed or not. */
  if (!status && checkpoint_keep_clean(save->folder, &index)) {
    log_warn("%s", error_text());
    error_clear();
  }
  checkpoint_index_fini(&index);
  return status;
}

static int publish_all(struct save *save, struct checkpoint_keep keep) {
  int status = STATUS_OK;
  if (comm_get_rank(save->comm) == 0) {
    struct checkpoint_vigil vigil = {.comm = save->comm};
    status = publish(save, keep, &vigil);
    checkpoint_end_vigil(&vigil);
  } else {
    checkpoint_follow(save->comm);
  }
  return comm_agree_all(save->comm, status);
}

static int run_save_all(struct save *save, struct checkpoint_keep keep) {
  int status = find_owners_all(save);
  if (status) return status;
  int64_t n_jobs, *bytes;
  struct checkpoint_job *jobs = list_jobs(save, &n_jobs, &bytes);
  gather_hashes_all(save, jobs, n_jobs);
  if (comm_get_rank(save->comm) == 0) status = write_structure(save);
  status = comm_agree_all(save->comm, status);
  if (!status) status = write_data_all(save, jobs, n_jobs, bytes);
  if (!status) status = publish_all(save, keep);
  if (status && comm_get_rank(save->comm) == 0) unlink(save->temporary);
  mem_free(jobs);
  mem_free(bytes);
  return status;
}

int checkpoint_write_all(struct comm *comm, const char *folder, const struct model *model, const char *model_json,
                         const char *deck, const struct checkpoint_info *info, const struct checkpoint_part *part,
                         struct checkpoint_keep keep) {
  struct save save = {.comm = comm,
                      .folder = folder,
                      .model = model,
                      .model_json = model_json,
                      .deck = deck,
                      .info = info,
                      .part = part,
                      .n_sets = part->m && part->v ? CHECKPOINT_SETS : 1,
                      .descriptor = -1};
  save.slots = checkpoint_list_slots(model, save.n_sets, &save.n_slots);
  save.owner = MEM_NEW(int, model->n_layers);
  save.hashes = MEM_NEW(uint64_t, save.n_slots);
  save.offsets = MEM_NEW(int64_t, save.n_slots);
  save.temporary = mem_format("%s/step-%08" PRId64 ".h5.tmp", folder, info->step);
  int status = run_save_all(&save, keep);
  if (status) status = error_wrap("the checkpoint of step %" PRId64 " is not saved", info->step);
  mem_free(save.slots);
  mem_free(save.owner);
  mem_free(save.hashes);
  mem_free(save.offsets);
  mem_free(save.temporary);
  return status;
}
