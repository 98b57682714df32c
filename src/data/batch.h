/* The micro-batches of a step: token ids and labels in rows of equal length, or their shapes alone for ranks that see
 * activations only.
 */
#ifndef PENSTOCK_DATA_BATCH_H
#define PENSTOCK_DATA_BATCH_H

#include "model/micro_shape.h"

#include <stdint.h>

struct dataset;

struct micro_batch {
  struct micro_shape shape; /* labels: those other than -100 */
  int32_t *lengths;         /* [rows] real inputs of each */
  int32_t *token, *label;   /* [rows * length], NULL in shapes; padding has token 0 and label -100 */
};

/* All arrays lie in one buffer that is used again by the next batch_build into the same struct. Begin with
 * `struct batch batch = {0}`. */
struct batch {
  int64_t step;         /* the caller's; not touched here */
  int64_t first_sample; /* number of its first row over the run */
  int32_t n_micro;
  struct micro_batch *micro;    /* [n_micro] */
  int64_t rows, tokens, labels; /* sums */
  int32_t micro_capacity;
  int64_t buffer_capacity; /* in int32 */
  int32_t *buffer;
};

/* Rows first_sample .. first_sample + global_batch - 1 of the dataset in order, micro_batch rows a micro-batch; the
 * last has what remains. Rows are padded to the longest of their micro-batch. All counts are >= 1. STATUS_MISTAKE for a
 * token outside the vocabulary, STATUS_FAILED when a file has changed since it was opened. */
int batch_build(const struct dataset *dataset, int64_t first_sample, int64_t global_batch, int64_t micro_batch,
                struct batch *batch);

/* Like batch_build, but reads no tokens: each micro-batch has its shape and lengths; token and label are NULL. */
int batch_build_shapes(const struct dataset *dataset, int64_t first_sample, int64_t global_batch, int64_t micro_batch,
                       struct batch *batch);

/* Makes a batch of arrays token[rows][time], label[rows][time] (-100: none) and lengths[rows] (NULL: all `time`), all
 * borrowed. Rows are cut and padded as above. `vocab` bounds ids and labels. STATUS_MISTAKE names row and position of
 * an id or label that is out of range, or of a label where there is no token. */
int batch_build_from_arrays(int64_t rows, int64_t time, const int32_t *token, const int32_t *label,
                            const int32_t *lengths, int64_t vocab, int64_t micro_batch, struct batch *batch);

/* Frees the arrays; the struct may be used again. */
void batch_fini(struct batch *batch);

#endif
