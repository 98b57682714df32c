/* A file of known results: model, optimizer, batches, and what a float64 computation made of them. See doc/dev for the
 * format. Each rank reads it by itself.
 */
#ifndef PENSTOCK_VERIFY_REFERENCE_FILE_H
#define PENSTOCK_VERIFY_REFERENCE_FILE_H

#include "model/model.h"

#include <stdint.h>

struct h5_file;

struct reference {
  const char *path; /* borrowed */
  struct h5_file *file;
  char *config, *optimizer, *batch_kind; /* texts of the attributes */
  int64_t micro_rows;
  int64_t n_steps, rows, time;
  int32_t *tokens, *labels, *lengths; /* [n_steps][rows][time]; lengths [n_steps][rows], NULL: all `time` */
  double *loss, *grad_norm;           /* [n_steps] */
};

/* STATUS_MISTAKE names file and what is missing or of the wrong shape, and a batch kind that is not built. */
int reference_open(const char *path, struct reference *reference);
void reference_close(struct reference *reference);

/* The overrides "section.key=value" that the file's attributes stand for; owned by the caller (each text and the list).
 */
int reference_make_overrides(const struct reference *reference, char ***overrides, int *n);
void reference_free_overrides(char ***overrides, int n);

/* Reads group/<tensor's name> into data[tensor->count]; a tensor that is missing or of another shape is STATUS_MISTAKE.
 */
int reference_read_tensor(const struct reference *reference, const char *group, const struct tensor *tensor,
                          float *data);
/* STATUS_MISTAKE when the file has weights that the model has not. */
int reference_check_names(const struct reference *reference, const struct model *model);

#endif
