/* A checkpoint is one HDF5 file, stored by layer so that it loads at any stage count: /layers/NNN/<tensor> weights,
 * /optimizer/m/NNN/<tensor>, /optimizer/v/NNN/<tensor>, each a contiguous dataset with its XXH3 as attribute `xxh3`;
 * attributes format, version, step, next_sample, tokens, seed, n_layers, model (the config's JSON), deck (used.yml's
 * text), data (what it was trained on), validation (what it was evaluated on, where it was), config (the whole
 * configuration as a Hugging Face config.json) and each of its numbers and texts under its own name, and what was
 * measured of its step (the columns of metrics.csv, but those of an evaluation, which comes later). Rank 0 writes the
 * structure and reserves the room of the whole file, then every rank writes its own arrays at their places; under a
 * temporary name, synced, renamed; only then listed in checkpoints/index.txt (step, bytes, hash, file name), which is
 * rewritten atomically. Which stay says checkpoint_keep. The files are checked against the index (size, whole-file
 * hash) before HDF5 opens them, and every array against its own hash when it is read.
 */
#ifndef PENSTOCK_RECORD_CHECKPOINT_H
#define PENSTOCK_RECORD_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "record/rundir.h"

struct comm;
struct model;

/* This rank's part: for each layer of the model the arrays of its parameter block, NULL where the layer is not here. A
 * tied tensor is not stored; when loading, ranks that hold a copy of one get it through `copies`. Arrays are host
 * memory. */
enum { CHECKPOINT_MOST_COPIES = 4 };
struct checkpoint_part {
  float *const *weights; /* [n_layers] */
  float *const *m;
  float *const *v;
  int n_copies; /* loading only */
  struct checkpoint_copy {
    int32_t layer; /* whose tensor it is */
    int tensor;
    float *sets[3]; /* weights, m, v */
  } copies[CHECKPOINT_MOST_COPIES];
};

struct checkpoint_info {
  int64_t step;        /* optimizer steps done */
  int64_t next_sample; /* data position */
  int64_t tokens;      /* real tokens trained on so far */
  uint64_t seed;
  const char *config;     /* model_format_config; borrowed, NULL: none. Written alone */
  struct metrics_row row; /* of the step, on rank 0; its step is 0 where it is not known */
  const char *data;       /* what it was trained on, a text of the caller's (same_data.h); writing only, may be NULL */
  const char *validation; /* the same of what it was evaluated on */
};

/* The checkpoints that stay: the newest (0: all), those of steps that are multiples of `every` (0: none), for good,
 * and the one of the lowest validation loss. */
struct checkpoint_keep {
  int64_t newest, every;
};

/* Writes step `info->step` into `folder` (RUN/checkpoints) and prunes. Collective. On any failure (full disk, folder
 * not writable) every rank gets the same status and message, the temporary file is removed, and index and earlier files
 * stand; later saves are not affected. Entries of later steps, and of the same one, give way to the new one. A layer
 * that several ranks hold is written by the lowest. With m or v NULL (on all ranks) only weights are stored. */
int checkpoint_write_all(struct comm *comm, const char *folder, const struct model *model, const char *model_json,
                         const char *deck, const struct checkpoint_info *info, const struct checkpoint_part *part,
                         struct checkpoint_keep keep);

/* The lowest validation loss of a checkpoint of this folder, INFINITY when none is marked. By rank 0. */
double checkpoint_get_best(const char *folder);
/* Marks the checkpoint of a step as the one of the lowest validation loss, in the place of the one before, and prunes.
 * By rank 0. */
int checkpoint_set_best(const char *folder, int64_t step, double loss, struct checkpoint_keep keep);

/* Finds the newest valid checkpoint of a folder on rank 0 and tells all: *path is owned by the caller, NULL when there
 * is none. Damaged ones are named in a warning and passed over; where none of those that are there is whole it is
 * STATUS_FAILED. A file that is not in the index is taken only when no listed one is whole and its arrays agree with
 * their hashes. Temporary files are deleted, and files that a save had in hand when it was killed. Collective. */
int checkpoint_find_all(struct comm *comm, const char *folder, char **path, int64_t *step);

/* Like checkpoint_find_all, for a folder that another job may write into: only files in the index count, and nothing
 * is removed. STATUS_MISTAKE names the folder when no checkpoint is whole. Collective. */
int checkpoint_find_listed_all(struct comm *comm, const char *folder, char **path);

/* The origin of a checkpoint, for a run that would go on from it: texts, owned, NULL where an older file has none. */
struct checkpoint_origin {
  char *model, *data, *validation;
};
/* Reads the origin of a checkpoint that has been found good. One rank calls it; the origin is freed with
 * checkpoint_fini_origin, also after a failure. */
int checkpoint_read_origin(const char *path, struct checkpoint_origin *origin);
void checkpoint_fini_origin(struct checkpoint_origin *origin);

/* Reads a checkpoint: each rank its own layers only. Names and shapes must fit the model: else STATUS_MISTAKE naming
 * the tensor. With `weights_only` moments are left alone. A file that is in no index is opened with a warning.
 * Collective. */
int checkpoint_read_all(struct comm *comm, const char *path, const struct model *model, bool weights_only,
                        const struct checkpoint_part *part, struct checkpoint_info *info);

#endif
