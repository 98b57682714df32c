#include "data/batch.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "data/dataset.h"

/* Sets n_micro and the rows of each micro-batch; nothing else. */
static void cut(struct batch *batch, int64_t first_sample, int64_t rows, int64_t micro_batch) {
  int32_t n = (int32_t)((rows - 1) / micro_batch + 1);
  if (n > batch->micro_capacity) {
    batch->micro = mem_resize(batch->micro, sizeof(struct micro_batch) * (size_t)n);
    batch->micro_capacity = n;
  }
  batch->first_sample = first_sample;
  batch->n_micro = n;
  batch->rows = rows;
  for (int32_t m = 0; m < n; m++) {
    int64_t left = rows - m * micro_batch;
    batch->micro[m] =
        (struct micro_batch){.shape = {.rows = (int32_t)(left < micro_batch ? left : micro_batch), .length = 1}};
  }
}

static void grow(struct batch *batch, int64_t count) {
  if (count <= batch->buffer_capacity) return;
  mem_free(batch->buffer);
  batch->buffer = MEM_NEW(int32_t, count);
  batch->buffer_capacity = count;
}

/* One row's part in its micro-batch's shape. */
static void count_row(struct micro_batch *micro, int32_t length, int32_t labels) {
  struct micro_shape *s = &micro->shape;
  *s = micro_shape_make(s->rows, length > s->length ? length : s->length, s->tokens + length, s->labels + labels);
}

/* Called when all shapes are known: gives each micro-batch its part of the buffer and adds up. */
static void lay_out(struct batch *batch, bool with_tokens) {
  int64_t count = batch->rows;
  batch->tokens = batch->labels = 0;
  for (int32_t m = 0; m < batch->n_micro; m++) {
    const struct micro_batch *micro = &batch->micro[m];
    batch->tokens += micro->shape.tokens;
    batch->labels += micro->shape.labels;
    if (with_tokens) count += 2 * micro_shape_count_positions(micro->shape);
  }
  grow(batch, count);
  int32_t *at = batch->buffer;
  for (int32_t m = 0; m < batch->n_micro; m++) {
    struct micro_batch *micro = &batch->micro[m];
    int64_t size = micro_shape_count_positions(micro->shape);
    micro->lengths = at;
    at += micro->shape.rows;
    if (!with_tokens) continue;
    micro->token = at;
    micro->label = at + size;
    at += 2 * size;
    memset(micro->token, 0, (size_t)size * sizeof(int32_t));
    for (int64_t i = 0; i < size; i++) micro->label[i] = DATASET_NO_LABEL;
  }
}

static int build_shapes(const struct dataset *dataset, int64_t first_sample, int64_t global_batch, int64_t micro_batch,
                        bool with_tokens, struct batch *batch) {
  struct dataset_row row;
  cut(batch, first_sample, global_batch, micro_batch);
  for (int64_t r = 0; r < global_batch; r++) {
    dataset_locate(dataset, first_sample + r, &row);
    count_row(&batch->micro[r / micro_batch], row.length, row.labels);
    int status = dataset_check_row(dataset, &row);
    if (status) return status;
  }
  lay_out(batch, with_tokens);
  for (int64_t r = 0; r < global_batch; r++) {
    dataset_locate(dataset, first_sample + r, &row);
    batch->micro[r / micro_batch].lengths[r % micro_batch] = row.length;
  }
  return STATUS_OK;
}

int batch_build_shapes(const struct dataset *dataset, int64_t first_sample, int64_t global_batch, int64_t micro_batch,
                       struct batch *batch) {
  return build_shapes(dataset, first_sample, global_batch, micro_batch, false, batch);
}

int batch_build(const struct dataset *dataset, int64_t first_sample, int64_t global_batch, int64_t micro_batch,
                struct batch *batch) {
  int status = build_shapes(dataset, first_sample, global_batch, micro_batch, true, batch);
  for (int64_t r = 0; r < global_batch && !status; r++) {
    struct dataset_row row;
    struct micro_batch *micro = &batch->micro[r / micro_batch];
    int64_t at = r % micro_batch * micro->shape.length;
    dataset_locate(dataset, first_sample + r, &row);
    if (row.length > micro->shape.length) /* another length than a moment ago */
      status = error_raise(STATUS_FAILED, "the token files changed while they were read");
    else
      status = dataset_read(dataset, &row, micro->token + at, micro->label + at);
  }
  return status;
}

/* One row of arrays: ids and labels in range, no label beyond the row's end; counts its labels. */
static int check_row(int64_t r, int64_t time, const int32_t *token, const int32_t *label, int64_t length, int64_t vocab,
                     int32_t *labels) {
  *labels = 0;
  if (length < 0 || length > time)
    return error_raise(STATUS_MISTAKE, "length of row %" PRId64 " is %" PRId64 ", allowed is 0 to %" PRId64, r, length,
                       time);
  for (int64_t t = 0; t < time; t++) {
    bool has_label = label[t] != DATASET_NO_LABEL;
    if (t < length && (token[t] < 0 || token[t] >= vocab))
      return error_raise(STATUS_MISTAKE,
                         "token %" PRId64 " of row %" PRId64 " is %d, outside the vocabulary of %" PRId64, t, r,
                         token[t], vocab);
    if (has_label && (t >= length || label[t] < 0 || label[t] >= vocab))
      return error_raise(STATUS_MISTAKE, "label %" PRId64 " of row %" PRId64 " is %d; allowed is -100 (none)%s", t, r,
                         label[t], t < length ? " or an id of the vocabulary" : " after the end of the row");
    *labels += has_label;
  }
  return STATUS_OK;
}

int batch_build_from_arrays(int64_t rows, int64_t time, const int32_t *token, const int32_t *label,
                            const int32_t *lengths, int64_t vocab, int64_t micro_batch, struct batch *batch) {
  cut(batch, 0, rows, micro_batch);
  for (int64_t r = 0; r < rows; r++) {
    int32_t labels, length = lengths ? lengths[r] : (int32_t)time;
    int status = check_row(r, time, token + r * time, label + r * time, length, vocab, &labels);
    if (status) return status;
    count_row(&batch->micro[r / micro_batch], length, labels);
  }
  lay_out(batch, true);
  for (int64_t r = 0; r < rows; r++) {
    struct micro_batch *micro = &batch->micro[r / micro_batch];
    int32_t length = lengths ? lengths[r] : (int32_t)time;
    int64_t at = r % micro_batch * micro->shape.length;
    micro->lengths[r % micro_batch] = length;
    memcpy(micro->token + at, token + r * time, sizeof(int32_t) * (size_t)length);
    memcpy(micro->label + at, label + r * time, sizeof(int32_t) * (size_t)length);
  }
  return STATUS_OK;
}

void batch_fini(struct batch *batch) {
  mem_free(batch->micro);
  mem_free(batch->buffer);
  *batch = (struct batch){.step = batch->step};
}
