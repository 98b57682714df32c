#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "model/model.h"
#include "record/checkpoint.h"
#include "record/checkpoint_impl.h"
#include "store/h5.h"

/* One load. */
struct load {
  struct comm *comm;
  const char *path;
  const struct model *model;
  const struct checkpoint_part *part;
  struct checkpoint_slot *slots;
  int64_t n_slots;
  struct h5_file *file;
  bool unlisted; /* no index knows the file, and nobody has looked into it yet; on rank 0 */
};

/* ---- before HDF5 opens it: the index, by rank 0 ---- */

static int verify(const char *path, struct checkpoint_vigil *vigil, bool *unlisted) {
  struct stat found;
  const char *slash = strrchr(path, '/');
  char *folder = slash ? mem_format("%.*s", (int)(slash - path), path) : mem_strdup(".");
  struct checkpoint_index index;
  int status = checkpoint_index_read(folder, &index);
  const struct checkpoint_entry *entry = checkpoint_index_find(&index, slash ? slash + 1 : path);
  if (!status && entry)
    status = checkpoint_verify(path, entry, checkpoint_beat, vigil);
  else if (!status && stat(path, &found) == 0 && S_ISDIR(found.st_mode))
    status = error_raise(STATUS_MISTAKE, "%s is a folder, not a checkpoint: name a file in it", path);
  *unlisted = !entry;
  checkpoint_index_fini(&index);
  mem_free(folder);
  return status;
}

static int verify_all(struct comm *comm, const char *path, bool *unlisted) {
  int status = STATUS_OK;
  if (comm_get_rank(comm) == 0) {
    struct checkpoint_vigil vigil = {.comm = comm};
    status = verify(path, &vigil, unlisted);
    checkpoint_end_vigil(&vigil);
  } else {
    checkpoint_follow(comm);
  }
  return comm_agree_all(comm, status);
}

/* ---- does it fit the model ---- */

struct name_check {
  const char *path, *group;
  const struct layer *layer;
};

/* A tensor of the file that the model lacks would be lost without a word. */
static int check_name(void *context, const char *name) {
  const struct name_check *check = context;
  for (int t = 0; t < check->layer->n_tensors; t++)
    if (!check->layer->tensors[t].tied && !strcmp(check->layer->tensors[t].name, name)) return STATUS_OK;
  return error_raise(STATUS_MISTAKE, "%s has %s/%s, which the model of this run does not have", check->path,
                     check->group, name);
}

/* Names of this rank's layers; shapes are checked when they are read. */
static int check_model(const struct load *load, int64_t n_layers) {
  int status = STATUS_OK;
  if (n_layers != load->model->n_layers)
    return error_raise(STATUS_MISTAKE,
                       "%s has %" PRId64 " layers, the model of this run has %" PRId32
                       " (embedding and head count, a block is two)",
                       load->path, n_layers, load->model->n_layers);
  for (int32_t l = 0; l < load->model->n_layers && !status; l++) {
    char group[CHECKPOINT_PATH_BYTES];
    if (!load->part->weights[l]) continue;
    checkpoint_get_group(0, l, group);
    struct name_check check = {.path = load->path, .group = group, .layer = &load->model->layers[l]};
    if (h5_has(load->file, group)) status = h5_list(load->file, group, check_name, &check);
  }
  return status;
}

/* ---- the data ---- */

static int read_array(void *context, const struct checkpoint_job *job) {
  const struct load *load = context;
  const struct tensor *tensor = load->slots[job->slot].tensor;
  char path[CHECKPOINT_PATH_BYTES];
  checkpoint_get_path(&load->slots[job->slot], path);
  int status = h5_read_into(load->file, path, H5_FLOAT32, tensor->n_dims, tensor->dims, job->data);
  if (!status) status = checkpoint_check_hash(load->file, load->path, path, job->data, tensor->count);
  return status;
}

/* Where a copy of a slot's tensor is to go; NULL: there is none. */
static float *find_copy(const struct load *load, const struct checkpoint_slot *slot) {
  for (int i = 0; i < load->part->n_copies; i++) {
    const struct checkpoint_copy *copy = &load->part->copies[i];
    if (copy->layer == slot->layer && slot->tensor == &load->model->layers[copy->layer].tensors[copy->tensor])
      return copy->sets[slot->set];
  }
  return NULL;
}

/* Lists what this rank reads: the arrays of its layers, and of tensors that it has a copy of. */
static struct checkpoint_job *list_jobs(const struct load *load, int64_t *n, int64_t **bytes) {
  struct checkpoint_job *jobs =
      MEM_NEW(struct checkpoint_job, load->n_slots + CHECKPOINT_SETS * CHECKPOINT_MOST_COPIES);
  *bytes = MEM_NEW(int64_t, load->n_slots + CHECKPOINT_SETS * CHECKPOINT_MOST_COPIES);
  *n = 0;
  for (int64_t i = 0; i < load->n_slots; i++) {
    const struct checkpoint_slot *slot = &load->slots[i];
    float *const targets[2] = {checkpoint_get_data(load->part, slot), find_copy(load, slot)};
    for (int k = 0; k < 2; k++) {
      if (!targets[k]) continue;
      (*bytes)[*n] = slot->tensor->count * (int64_t)sizeof(float);
      jobs[(*n)++] = (struct checkpoint_job){.slot = i, .data = targets[k]};
    }
  }
  return jobs;
}

/* Identifies a file by its step, its seed, and the hashes of the first and the last of its arrays. */
static int identify(const struct load *load, const struct checkpoint_info *info, char *text, size_t size) {
  const int64_t ends[2] = {0, load->n_slots - 1};
  uint64_t hash = 0;
  int status = STATUS_OK;
  for (int i = 0; i < 2 && load->n_slots > 0 && !status; i++) {
    char path[CHECKPOINT_PATH_BYTES], *own = NULL;
    checkpoint_get_path(&load->slots[ends[i]], path);
    status = h5_read_text(load->file, path, "xxh3", &own);
    if (own) hash = hash_bytes(own, strlen(own), hash);
    mem_free(own);
  }
  memset(text, 0, size);
  snprintf(text, size, "step %" PRId64 ", seed %" PRIu64 ", content %016" PRIx64, info->step, info->seed, hash);
  return status;
}

/* Every rank reads the file by its name, which may lead to another copy on each node. */
static int compare_copies_all(const struct load *load, const struct checkpoint_info *info) {
  char mine[96], theirs[96];
  int status = comm_agree_all(load->comm, identify(load, info, mine, sizeof mine));
  if (status) return status;
  memcpy(theirs, mine, sizeof theirs);
  comm_broadcast_all(load->comm, 0, theirs, sizeof theirs);
  if (strcmp(mine, theirs))
    status = error_raise(STATUS_MISTAKE,
                         "%s is not the same on all ranks: here it is of %s, on rank 0 (%s) of %s: give every node the "
                         "same copy",
                         load->path, mine, comm_get_host(load->comm, 0), theirs);
  return comm_agree_all(load->comm, status);
}

static int run_load_all(struct load *load, struct checkpoint_info *info) {
  int64_t n_layers = 0, n_jobs, *bytes;
  int status = h5_open(load->path, false, &load->file);
  if (!status) status = checkpoint_read_info(load->file, load->path, info, &n_layers);
  if (!status) status = check_model(load, n_layers);
  status = comm_agree_all(load->comm, status);
  if (!status) status = compare_copies_all(load, info);
  if (status) return status;
  if (load->unlisted) log_warn("%s is in no index.txt: what cannot be checked is trusted", load->path);
  struct checkpoint_job *jobs = list_jobs(load, &n_jobs, &bytes);
  status = checkpoint_run_jobs_all(load->comm, jobs, n_jobs, bytes, read_array, load);
  mem_free(jobs);
  mem_free(bytes);
  return status;
}

int checkpoint_read_all(struct comm *comm, const char *path, const struct model *model, bool weights_only,
                        const struct checkpoint_part *part, struct checkpoint_info *info) {
  struct load load = {.comm = comm, .path = path, .model = model, .part = part};
  int status = verify_all(comm, path, &load.unlisted);
  if (status) return status;
  load.unlisted = load.unlisted && weights_only; /* a file to go on from has been held against its own hashes */
  load.slots = checkpoint_list_slots(model, weights_only ? 1 : CHECKPOINT_SETS, &load.n_slots);
  status = run_load_all(&load, info);
  h5_close(&load.file);
  mem_free(load.slots);
  return status;
}

/* ---- a file that is in no index ---- */

struct content {
  struct h5_file *file;
  const char *path, *group;
  void (*poll)(void *context);
  void *context;
  int64_t n_arrays;
};

static int check_array(void *context, const char *name) {
  struct content *content = context;
  char *path = mem_format("%s/%s", content->group, name);
  int n_dims;
  int64_t dims[2] = {1, 1};
  void *data;
  int status = h5_read_dataset(content->file, path, H5_FLOAT32, 2, &n_dims, dims, &data);
  if (!status)
    status = checkpoint_check_hash(content->file, content->path, path, data, n_dims < 2 ? dims[0] : dims[0] * dims[1]);
  content->n_arrays++;
  content->poll(content->context);
  mem_free(data);
  mem_free(path);
  return status;
}

int checkpoint_check_content(const char *path, void (*poll)(void *context), void *context) {
  struct content content = {.path = path, .poll = poll, .context = context};
  struct checkpoint_info info;
  int64_t n_layers = 0;
  int status = h5_open(path, false, &content.file);
  if (status) return status;
  status = checkpoint_read_info(content.file, path, &info, &n_layers);
  for (int set = 0; set < CHECKPOINT_SETS; set++)
    for (int32_t l = 0; l < n_layers && !status; l++) {
      char group[CHECKPOINT_PATH_BYTES];
      checkpoint_get_group(set, l, group);
      content.group = group;
      if (h5_has(content.file, group)) status = h5_list(content.file, group, check_array, &content);
    }
  if (!status && content.n_arrays == 0) status = error_raise(STATUS_FAILED, "%s has no arrays", path);
  h5_close(&content.file);
  return status;
}
