/* A checkpoint is one HDF5 file, stored by layer so that it loads at any stage count: /layers/NNN/<tensor> weights,
 * /optimizer/m/NNN/<tensor>, /optimizer/v/NNN/<tensor>, attributes format, version, step, next_sample, tokens, seed, model
 * (the config's JSON), deck (used.yml's text). Written collectively under a temporary name, checksummed, closed, synced,
 * renamed; only then listed in checkpoints/index.txt (step, bytes, hash, file name), which is rewritten atomically. The
 * newest `keep` stay. The files are checked against the index (size, whole-file hash) before HDF5 opens them.
 */
#ifndef PENSTOCK_STORE_CHECKPOINT_H
#define PENSTOCK_STORE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

struct comm;
struct model;

/* This rank's part: for each layer of the model the arrays of its parameter block, NULL where the layer is not here. A
 * tied tensor is not stored; when loading, ranks that hold the tied copy get it through `tied` (weights, m, v of the
 * embedding's table; NULL where there is no separate copy). Arrays are host memory. */
struct checkpoint_part {
  float *const *weights; /* [n_layers] */
  float *const *m;
  float *const *v;
  float *tied[3]; /* loading only */
};

struct checkpoint_info {
  int64_t step;        /* optimizer steps done */
  int64_t next_sample; /* data position */
  int64_t tokens;      /* real tokens trained on so far */
  uint64_t seed;
};

/* Writes step `info->step` into `folder` (RUN/checkpoints) and prunes. Collective. On any failure (full disk, folder not
 * writable) every rank gets the same status and message, the temporary file is removed, and index and earlier files stand.
 * When an HDF5 handle cannot be closed after a failed write it is abandoned without harm to later saves or the exit. */
int checkpoint_write_all(struct comm *comm, const char *folder, const struct model *model, const char *model_json,
                         const char *deck, const struct checkpoint_info *info, const struct checkpoint_part *part,
                         int64_t keep);

/* Finds the newest valid checkpoint of a folder on rank 0 and tells all: *path is owned by the caller, NULL when there is
 * none. Damaged ones are named in a warning and passed over. Temporary files are deleted. Collective. */
int checkpoint_find_all(struct comm *comm, const char *folder, char **path, int64_t *step);

/* Reads a checkpoint: each rank its own layers only. Names and shapes must fit the model: else STATUS_MISTAKE naming the
 * tensor. With `weights_only` moments are left alone. A file that is in no index is opened with a warning. Collective. */
int checkpoint_read_all(struct comm *comm, const char *path, const struct model *model, bool weights_only,
                        const struct checkpoint_part *part, struct checkpoint_info *info);

#endif
