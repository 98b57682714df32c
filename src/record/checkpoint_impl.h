/* Shared by the parts of checkpoint. Only record/checkpoint*.c include it. */
#ifndef PENSTOCK_RECORD_CHECKPOINT_IMPL_H
#define PENSTOCK_RECORD_CHECKPOINT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/checkpoint.h"

struct h5_file;
struct model;
struct tensor;

#define CHECKPOINT_FORMAT "penstock-checkpoint"
enum { CHECKPOINT_VERSION = 1 };

/* ---- checkpoint_slots.c: what a checkpoint consists of ---- */

enum { CHECKPOINT_SETS = 3, CHECKPOINT_PATH_BYTES = 160 }; /* weights, m, v */

/* One stored array. */
struct checkpoint_slot {
  int set;
  int32_t layer;
  const struct tensor *tensor;
};

/* All slots of a model in the order of the file; owned by the caller. Tied tensors have none. */
struct checkpoint_slot *checkpoint_list_slots(const struct model *model, int n_sets, int64_t *n);
/* The slot's dataset ("/optimizer/m/003/NAME") and the folder of its layer. */
void checkpoint_get_path(const struct checkpoint_slot *slot, char path[CHECKPOINT_PATH_BYTES]);
void checkpoint_get_group(int set, int32_t layer, char path[CHECKPOINT_PATH_BYTES]);
/* This rank's array of a slot; NULL where the layer is not here. */
float *checkpoint_get_data(const struct checkpoint_part *part, const struct checkpoint_slot *slot);
/* Hash of an array as the file's attribute has it. */
uint64_t checkpoint_hash(const float *data, int64_t count);
void checkpoint_write_hash(struct h5_file *file, const char *path, uint64_t hash, int *status);
/* STATUS_FAILED when the array is not the one that was written. */
int checkpoint_check_hash(struct h5_file *file, const char *file_path, const char *path, const float *data,
                          int64_t count);

/* ---- checkpoint_info.c: the attributes of a file ---- */

int checkpoint_write_info(struct h5_file *file, const struct checkpoint_info *info, const struct model *model,
                          const char *model_json, const char *deck);
/* STATUS_MISTAKE for a file that is no checkpoint, or a newer program's; path names it. */
int checkpoint_read_info(struct h5_file *file, const char *path, struct checkpoint_info *info, int64_t *n_layers);

/* A part of a rank's work. */
struct checkpoint_job {
  int64_t slot;
  float *data;
};

/* Calls work(context, job) for this rank's jobs, in rounds of about a GiB after which all ranks agree, so that a
 * failure stops all soon and nobody waits long without a sign of life. `bytes` are those of all jobs of this rank.
 * Collective. */
int checkpoint_run_jobs_all(struct comm *comm, const struct checkpoint_job *jobs, int64_t n, const int64_t *bytes,
                            int (*work)(void *context, const struct checkpoint_job *job), void *context);

/* ---- while rank 0 alone has long work: it beats, the others follow until the end ---- */
struct checkpoint_vigil {
  struct comm *comm;
  double last;
};
void checkpoint_beat(void *vigil);
void checkpoint_end_vigil(struct checkpoint_vigil *vigil);
void checkpoint_follow(struct comm *comm);

/* ---- checkpoint_index.c: index.txt ---- */

enum { CHECKPOINT_NAME_BYTES = 64 };

struct checkpoint_entry {
  int64_t step, bytes;
  uint64_t hash;
  char name[CHECKPOINT_NAME_BYTES];
  bool is_kept;     /* for good */
  bool is_best;     /* of the lowest validation loss */
  double best_loss; /* that, when it is */
};

/* The index names, beside the files that are listed, the files that a save works on: the one that it is about to
 * list, and those that it has taken off the list and not removed yet. Should it be killed in between, the next life
 * knows them and removes them; a file that the index does not name at all is nobody's to remove. */
struct checkpoint_index {
  struct checkpoint_entry *entries; /* in ascending steps */
  int64_t n;
  char (*loose)[CHECKPOINT_NAME_BYTES];
  int64_t n_loose;
};

/* Reads folder/index.txt; lines that make no sense are left out with a warning. Not there: empty. */
int checkpoint_index_read(const char *folder, struct checkpoint_index *index);
int checkpoint_index_write(const char *folder, const struct checkpoint_index *index);
void checkpoint_index_add(struct checkpoint_index *index, const struct checkpoint_entry *entry);
const struct checkpoint_entry *checkpoint_index_find(const struct checkpoint_index *index, const char *name);
void checkpoint_index_add_loose(struct checkpoint_index *index, const char *name);
void checkpoint_index_fini(struct checkpoint_index *index);

/* Checks a file against its entry, reading all of it; a file that has just been checked and has not changed is not read
 * again. STATUS_FAILED names file and difference. */
int checkpoint_verify(const char *path, const struct checkpoint_entry *entry, void (*poll)(void *context),
                      void *context);

/* ---- checkpoint_keep.c: which files stay ---- */

/* Takes off the list what is not to stay. */
void checkpoint_keep_newest(struct checkpoint_index *index, struct checkpoint_keep keep);
/* Takes the entry at a place off the list. */
void checkpoint_keep_drop(struct checkpoint_index *index, int64_t at);
/* Removes the loose files and writes the index without them; nothing when there are none. What cannot be removed stays
 * loose, with a warning. */
int checkpoint_keep_clean(const char *folder, struct checkpoint_index *index);

/* checkpoint_read.c: checks every array of a file that is in no index against its own hash. */
int checkpoint_check_content(const char *path, void (*poll)(void *context), void *context);

#endif
