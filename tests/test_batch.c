/* Micro-batches: cut, padded and counted as rows say, the same rows for any cut, shapes without tokens, and arrays. */
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "dataset_case.h"
#include "t.h"
#include "token_files.h"

static const struct rng_key random_key = {.seed = 6, .purpose = RNG_TEST};
static uint64_t random_index;

static int64_t pick(int64_t n) { return (int64_t)(rng_bits(&random_key, random_index++) % (uint64_t)n); }

static struct dataset *make(int documents, enum params_batching batching, int64_t length) {
  static int32_t lengths[100], ids[100 * 20];
  const char *const prefix = raw_path("batch");
  int64_t tokens = 0;
  for (int d = 0; d < documents; d++) tokens += lengths[d] = 1 + (int32_t)pick(20);
  for (int64_t i = 0; i < tokens; i++) ids[i] = 1 + (int32_t)pick(500);
  raw_write_documents(prefix, 8, lengths, documents, ids);
  struct dataset *dataset;
  const struct dataset_case c = {(int)batching, length, 4, 501, true};
  T_CHECK(dataset_open_case(&c, &prefix, NULL, 1, &dataset) == 0, "%s", error_text());
  if (!dataset) exit(1);
  return dataset;
}

/* One batch against its rows, one by one, and against its shapes. */
static void check_batch(const struct dataset *dataset, int64_t first, int64_t global, int64_t size, struct batch *batch,
                        struct batch *shapes) {
  int64_t tokens = 0, labels = 0, r = 0;
  int32_t token[64], label[64];
  T_CHECK(batch_build(dataset, first, global, size, batch) == 0, "%s", error_text());
  batch_build_shapes(dataset, first, global, size, shapes);
  T_CHECK(batch->n_micro == (global + size - 1) / size && shapes->n_micro == batch->n_micro, "micro-batches");
  for (int32_t m = 0; m < batch->n_micro; m++) {
    const struct micro_batch *micro = &batch->micro[m], *shape = &shapes->micro[m];
    int64_t micro_tokens = 0, micro_labels = 0;
    int longest = 1, wrong = 0;
    T_CHECK(micro->shape.rows == (m + 1 < batch->n_micro ? size : global - m * size), "rows of micro-batch %d", m);
    for (int32_t i = 0; i < micro->shape.rows; i++, r++) {
      struct dataset_row row;
      dataset_locate(dataset, first + r, &row);
      dataset_read(dataset, &row, token, label);
      longest = row.length > longest ? row.length : longest;
      wrong += micro->lengths[i] != row.length || shape->lengths[i] != row.length;
      for (int t = 0; t < micro->shape.length; t++) {
        int64_t at = (int64_t)i * micro->shape.length + t;
        bool real = t < row.length;
        wrong += micro->token[at] != (real ? token[t] : 0) || micro->label[at] != (real ? label[t] : -100);
        micro_labels += micro->label[at] != -100;
      }
      micro_tokens += row.length;
    }
    T_CHECK(wrong == 0, "micro-batch %d: %d wrong", m, wrong);
    T_CHECK(micro->shape.length == longest && micro->shape.tokens == micro_tokens &&
                micro->shape.labels == micro_labels,
            "counts");
    T_CHECK(shape->shape.rows == micro->shape.rows && shape->shape.length == micro->shape.length &&
                shape->shape.tokens == micro->shape.tokens && shape->shape.labels == micro->shape.labels &&
                !shape->token && !shape->label,
            "shape");
    tokens += micro_tokens;
    labels += micro_labels;
  }
  T_CHECK(r == global && batch->rows == global && batch->tokens == tokens && batch->labels == labels, "sums");
  T_CHECK(shapes->tokens == tokens && shapes->labels == labels && batch->first_sample == first, "sums of shapes");
}

static void test_batches(enum params_batching batching) {
  struct batch batch = {0}, shapes = {0};
  for (int round = 0; round < 40; round++) {
    struct dataset *dataset = make(1 + (int)pick(60) + 20, batching, 1 + pick(25));
    /* Beyond the end of epochs, micro-batches larger than the batch too; the same struct again and again. */
    for (int i = 0; i < 10; i++)
      check_batch(dataset, pick(300), 1 + pick(30), 1 + pick(12) * (i == 9 ? 10 : 1), &batch, &shapes);
    dataset_close(&dataset);
  }
  batch_fini(&batch);
  batch_fini(&shapes);
}

/* Ten rows, micro-batches of three: 3, 3, 3, 1, and in two epochs of steps of four each row twice. */
static void test_ten_rows(void) {
  static int32_t ids[10 * 4 + 1];
  const int32_t length = 41;
  const char *const prefix = raw_path("ten");
  for (int i = 0; i < 41; i++) ids[i] = i;
  raw_write_documents(prefix, 8, &length, 1, ids);
  struct dataset *dataset;
  struct batch batch = {0};
  const struct dataset_case c = {PARAMS_BATCHING_FIXED, 4, 4, 41, true};
  T_CHECK(dataset_open_case(&c, &prefix, NULL, 1, &dataset) == 0, "%s", error_text());
  T_CHECK(dataset_count_rows(dataset) == 10, "rows");
  T_CHECK(batch_build(dataset, 0, 10, 3, &batch) == 0, "%s", error_text());
  T_CHECK(batch.n_micro == 4 && batch.micro[2].shape.rows == 3 && batch.micro[3].shape.rows == 1 && batch.labels == 40,
          "cut");
  int times[10] = {0};
  for (int64_t step = 0; step < 5; step++) {
    T_CHECK(batch_build(dataset, step * 4, 4, 3, &batch) == 0, "%s", error_text());
    for (int m = 0; m < batch.n_micro; m++)
      for (int i = 0; i < batch.micro[m].shape.rows; i++) times[batch.micro[m].token[4 * i] / 4]++;
  }
  for (int i = 0; i < 10; i++) T_CHECK(times[i] == 2, "row %d was used %d times in two epochs", i, times[i]);
  batch_fini(&batch);
  dataset_close(&dataset);
}

static void test_arrays(void) {
  const int32_t token[] = {1, 2, 3, 0, 4, 0, 0, 0, 5, 6, 7, 8}, lengths[] = {3, 1, 4};
  const int32_t label[] = {2, 3, -100, -100, -100, -100, -100, -100, 6, -100, 8, 9};
  struct batch batch = {0};
  T_CHECK(batch_build_from_arrays(3, 4, token, label, lengths, 10, 2, &batch) == 0, "%s", error_text());
  const struct micro_batch *micro = batch.micro;
  T_CHECK(batch.n_micro == 2 && micro[0].shape.rows == 2 && micro[0].shape.length == 3 && micro[1].shape.rows == 1 &&
              micro[1].shape.length == 4,
          "shapes");
  T_CHECK(!memcmp(micro[0].token, (const int32_t[]){1, 2, 3, 4, 0, 0}, 24), "tokens");
  T_CHECK(!memcmp(micro[0].label, (const int32_t[]){2, 3, -100, -100, -100, -100}, 24), "labels");
  T_CHECK(!memcmp(micro[1].label, label + 8, 16) && micro[0].shape.labels == 2 && micro[1].shape.labels == 3 &&
              batch.tokens == 8,
          "counts");
  T_CHECK(batch_build_from_arrays(3, 4, token, label, lengths, 9, 2, &batch) == STATUS_MISTAKE &&
              strstr(error_text(), "label 3 of row 2 is 9"),
          "%s", error_text());
  T_CHECK(batch_build_from_arrays(3, 4, token, label, lengths, 8, 2, &batch) == STATUS_MISTAKE &&
              strstr(error_text(), "label 2 of row 2 is 8"),
          "%s", error_text());
  const int32_t short_lengths[] = {3, 1, 3}, bad_lengths[] = {3, 5, 4};
  T_CHECK(batch_build_from_arrays(3, 4, token, label, short_lengths, 10, 2, &batch) == STATUS_MISTAKE &&
              strstr(error_text(), "after the end of the row"),
          "%s", error_text());
  T_CHECK(batch_build_from_arrays(3, 4, token, label, bad_lengths, 10, 2, &batch) == STATUS_MISTAKE &&
              strstr(error_text(), "length of row 1 is 5, allowed is 0 to 4"),
          "%s", error_text());
  T_CHECK(batch_build_from_arrays(2, 6, token, label, NULL, 10, 2, &batch) == 0 && batch.tokens == 12, "whole rows");
  batch_fini(&batch);
}

int main(void) {
  int64_t before = mem_balance();
  test_batches(PARAMS_BATCHING_FIXED);
  test_batches(PARAMS_BATCHING_PADDED);
  test_ten_rows();
  test_arrays();
  T_CHECK(mem_balance() == before, "%d allocations are left", (int)(mem_balance() - before));
  scratch_remove();
  return t_end();
}
