/* Rows, order and blending against a plain re-implementation: rows are cut from arrays in the most direct way and
 * compared one by one; orders must be permutations, the same wherever one begins. */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/blend.h"
#include "data/cumulative.h"
#include "data/dataset.h"
#include "dataset_case.h"
#include "t.h"
#include "token_files.h"

static const struct rng_key random_key = {.seed = 5, .purpose = RNG_TEST};
static uint64_t random_index;

static int64_t pick(int64_t n) { return (int64_t)(rng_bits(&random_key, random_index++) % (uint64_t)n); }

/* ---- the plain way ---- */

enum { MAX_ROW = 64, MAX_ROWS = 4000 };

struct plain_row {
  int length, token[MAX_ROW], label[MAX_ROW];
};

struct plain {
  int n;
  struct plain_row row[MAX_ROWS];
};

static void plain_add(struct plain *plain, const int32_t *ids, int inputs, int labels) {
  struct plain_row *row = &plain->row[plain->n++];
  row->length = inputs;
  for (int t = 0; t < inputs; t++) {
    row->token[t] = ids[t];
    row->label[t] = t < labels ? ids[t + 1] : -100;
  }
}

static void plain_fixed(struct plain *plain, const int32_t *ids, int64_t tokens, int most) {
  for (int64_t i = 0; i + most < tokens; i += most) plain_add(plain, ids + i, most, most);
}

static void plain_padded(struct plain *plain, const int32_t *ids, const int32_t *lengths, int n, int most) {
  for (int d = 0; d < n; ids += lengths[d++]) {
    if (lengths[d] == 1) plain_add(plain, ids, 1, 0);
    for (int i = 0; i + 1 < lengths[d]; i += most) {
      int labels = lengths[d] - i - 1 < most ? lengths[d] - i - 1 : most;
      plain_add(plain, ids + i, labels, labels);
    }
  }
}

static bool same(const struct dataset *dataset, int64_t n, const struct plain_row *plain) {
  struct dataset_row row;
  int32_t token[MAX_ROW], label[MAX_ROW];
  dataset_locate(dataset, n, &row);
  if (row.length != plain->length || dataset_read(dataset, &row, token, label)) return false;
  int labels = 0;
  for (int t = 0; t < row.length; t++) {
    labels += label[t] != -100;
    if (token[t] != plain->token[t] || label[t] != plain->label[t]) return false;
  }
  return labels == row.labels;
}

/* A file of random documents; ids and lengths go to the caller's arrays. */
static int64_t make_file(const char *prefix, int n, int longest, int32_t *lengths, int32_t *ids) {
  int64_t tokens = 0;
  for (int d = 0; d < n; d++) tokens += lengths[d] = pick(5) ? (int32_t)pick(longest + 1) : 0;
  for (int64_t i = 0; i < tokens; i++) ids[i] = (int32_t)pick(1000);
  raw_write_documents(prefix, pick(2) ? 8 : 4, lengths, n, ids);
  return tokens;
}

static struct dataset *open_files(const char *const *files, const double *weights, int n, enum params_batching batching,
                                  int64_t length, int64_t seed, bool shuffle) {
  const struct dataset_case c = {(int)batching, length, seed, 1000, shuffle};
  struct dataset *dataset;
  T_CHECK(dataset_open_case(&c, files, weights, n, &dataset) == 0, "%s", error_text());
  if (!dataset) exit(1);
  return dataset;
}

/* ---- rows ---- */

static void test_rows(enum params_batching batching, int longest, int most) {
  enum { FILES = 3, DOCUMENTS = 60 };
  static struct plain plain;
  static int32_t lengths[FILES][DOCUMENTS], ids[FILES][DOCUMENTS * MAX_ROW];
  const char *files[FILES];
  plain.n = 0;
  for (int f = 0; f < FILES; f++) {
    files[f] = mem_format("%s/rows%d", scratch_make(), f);
    int64_t tokens = make_file(files[f], DOCUMENTS, longest, lengths[f], ids[f]);
    if (batching == PARAMS_BATCHING_FIXED)
      plain_fixed(&plain, ids[f], tokens, most);
    else
      plain_padded(&plain, ids[f], lengths[f], DOCUMENTS, most);
  }
  struct dataset *dataset = open_files(files, NULL, FILES, batching, most, 1, false);
  T_CHECK(dataset_count_rows(dataset) == plain.n, "%d rows, plainly %d", (int)dataset_count_rows(dataset), plain.n);
  int wrong = 0, widest = 0;
  for (int n = 0; n < plain.n; n++) {
    wrong += !same(dataset, n, &plain.row[n]) + !same(dataset, n + 7 * (int64_t)plain.n, &plain.row[n]);
    widest = plain.row[n].length > widest ? plain.row[n].length : widest;
  }
  T_CHECK(wrong == 0, "%d rows of %d differ (longest document %d, row %d)", wrong, plain.n, longest, most);
  T_CHECK(dataset_get_longest(dataset) == widest, "longest %d, plainly %d", (int)dataset_get_longest(dataset), widest);
  dataset_close(&dataset);

  /* Shuffled: in every epoch each row once, and no epoch in the order of another. */
  dataset = open_files(files, NULL, FILES, batching, most, 1, true);
  int moved = 0;
  for (int epoch = 0; epoch < 3; epoch++) {
    int *times = calloc((size_t)plain.n, sizeof(int)), missed = 0;
    struct dataset_row row, other;
    for (int64_t i = 0; i < plain.n; i++) {
      dataset_locate(dataset, epoch * (int64_t)plain.n + i, &row);
      dataset_locate(dataset, i, &other);
      moved += epoch && (row.file != other.file || row.row != other.row);
      int64_t index = row.row;
      for (int f = 0; f < row.file; f++) index += dataset_count_file_rows(dataset, f);
      times[index]++;
      missed += !same(dataset, epoch * (int64_t)plain.n + i, &plain.row[index]);
    }
    for (int i = 0; i < plain.n; i++) missed += times[i] != 1;
    T_CHECK(missed == 0, "epoch %d: %d", epoch, missed);
    free(times);
  }
  T_CHECK(plain.n < 8 || moved > plain.n, "only %d places of two epochs differ", moved);
  dataset_close(&dataset);
  for (int f = 0; f < FILES; f++) mem_free((void *)(uintptr_t)files[f]);
}

/* Documents of 0, 5, 0, 0, 1, 7, 0 tokens: empty ones are skipped and counted, each token is seen once. */
static void test_empty_documents(void) {
  const int32_t lengths[] = {0, 5, 0, 0, 1, 7, 0}, ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  const char *const file = raw_path("empty");
  raw_write_documents(file, 4, lengths, 7, ids);
  for (int most = 1; most <= 8; most++) {
    int inputs[14] = {0}, labels[14] = {0};
    struct dataset *dataset = open_files(&file, NULL, 1, PARAMS_BATCHING_PADDED, most, 3, true);
    T_CHECK(strstr(dataset_get_line(dataset, 0), "7 documents (4 empty, skipped), 13 tokens"), "%s",
            dataset_get_line(dataset, 0));
    T_CHECK(!dataset_get_line(dataset, 1), "one line");
    for (int64_t n = 0; n < dataset_count_rows(dataset); n++) {
      struct dataset_row row;
      int32_t token[8], label[8];
      dataset_locate(dataset, n, &row);
      T_CHECK(dataset_read(dataset, &row, token, label) == 0, "%s", error_text());
      for (int t = 0; t < row.length; t++) {
        inputs[token[t]]++;
        if (label[t] != -100) labels[label[t]]++;
      }
    }
    /* The last of a document is no input (but where it is the only one), the first is no label. */
    for (int id = 1; id <= 13; id++) {
      T_CHECK(inputs[id] == (id != 5 && id != 13), "rows of %d: token %d is input %d times", most, id, inputs[id]);
      T_CHECK(labels[id] == (id != 1 && id != 6 && id != 7), "rows of %d: token %d is label %d times", most, id,
              labels[id]);
    }
    dataset_close(&dataset);

    dataset = open_files(&file, NULL, 1, PARAMS_BATCHING_FIXED, most, 3, true);
    char *words = mem_format("%d row%s of %d tokens; %d tokens at the end", 12 / most, 12 / most == 1 ? "" : "s", most,
                             12 % most);
    T_CHECK(strstr(dataset_get_line(dataset, 0), words), "no '%s' in: %s", words, dataset_get_line(dataset, 0));
    mem_free(words);
    dataset_close(&dataset);
  }
}

/* ---- weights ---- */

static void test_apportion(void) {
  for (int round = 0; round < 3000; round++) {
    double weight[9], sum = 0;
    int64_t share[9], total = pick(3) ? pick(50) : pick(1LL << 50), given = 0;
    int n = 1 + (int)pick(9);
    for (int f = 0; f < n; f++) sum += weight[f] = pick(4) ? (double)(1 + pick(1000)) / (double)(1 + pick(100)) : 0;
    if (sum == 0) sum = weight[0] = 1;
    blend_apportion(total, n, weight, share);
    for (int f = 0; f < n; f++) {
      given += share[f];
      double exact = (double)total * weight[f] / sum;
      double allowed = exact < 1 || total < 50 ? 1.0 + n : 1.0 + exact * 1e-15 + n; /* n: given to those below one */
      T_CHECK(share[f] >= 0 && fabs((double)share[f] - exact) <= allowed, "share %g of %g", (double)share[f], exact);
      T_CHECK(weight[f] > 0 || share[f] == 0, "weight 0 has a share");
      T_CHECK(weight[f] == 0 || total < n || share[f] > 0, "a file has no share of %g", (double)total);
    }
    T_CHECK(given == total, "%g given of %g", (double)given, (double)total);
  }
  int64_t share[3];
  blend_apportion(10, 3, (const double[]){1, 1, 1}, share);
  T_CHECK(share[0] == 4 && share[1] == 3 && share[2] == 3, "thirds of 10");
  blend_apportion(100, 3, (const double[]){0.505, 0.333, 0.162}, share);
  T_CHECK(share[0] == 51 && share[1] == 33 && share[2] == 16, "%d %d %d", (int)share[0], (int)share[1], (int)share[2]);
}

/* Turns without shuffling: against sorting all draws by their instants. */
static void test_turns(void) {
  for (int round = 0; round < 60; round++) {
    int64_t share[5], total = 0, used[5] = {0};
    int n = 1 + (int)pick(5), wrong = 0;
    for (int f = 0; f < n; f++) total += share[f] = pick(4) ? pick(40) : 0;
    for (int64_t place = 0; place < total; place++) {
      int best = -1;
      for (int f = 0; f < n; f++)
        if (used[f] < share[f] && (best < 0 || (2 * used[f] + 1) * share[best] < (2 * used[best] + 1) * share[f]))
          best = f;
      int64_t draw;
      int f = blend_find(n, share, place, &draw);
      wrong += f != best || draw != used[best];
      used[best]++;
    }
    T_CHECK(wrong == 0, "%d of %d turns", wrong, (int)total);
  }
}

static void test_weights(bool shuffle) {
  enum { FILES = 3, EPOCHS = 12 };
  static int32_t lengths[FILES][50], ids[FILES][50 * MAX_ROW];
  const double weights[FILES] = {5, 0.25, 2};
  const char *files[FILES];
  for (int f = 0; f < FILES; f++) {
    files[f] = mem_format("%s/weight%d", scratch_make(), f);
    make_file(files[f], 10 + 20 * f, 30, lengths[f], ids[f]);
  }
  struct dataset *dataset = open_files(files, weights, FILES, PARAMS_BATCHING_PADDED, 8, 9, shuffle);
  int64_t rows = dataset_count_rows(dataset), drawn[FILES] = {0}, *times[FILES], sum = 0;
  for (int f = 0; f < FILES; f++) {
    times[f] = calloc((size_t)dataset_count_file_rows(dataset, f), sizeof(int64_t));
    sum += dataset_get_share(dataset, f);
    T_CHECK(fabs((double)dataset_get_share(dataset, f) - (double)rows * weights[f] / 7.25) < 1, "share of file %d", f);
  }
  T_CHECK(sum == rows, "shares");
  for (int64_t n = 0; n < EPOCHS * rows; n++) {
    struct dataset_row row;
    dataset_locate(dataset, n, &row);
    times[row.file][row.row]++;
    drawn[row.file]++;
    if (!shuffle)
      T_CHECK(row.row == (drawn[row.file] - 1) % dataset_count_file_rows(dataset, row.file), "rows are not in order");
    if ((n + 1) % rows) continue;
    for (int f = 0; f < FILES; f++) {
      int64_t of_file = dataset_count_file_rows(dataset, f), expected = (n + 1) / rows * dataset_get_share(dataset, f);
      T_CHECK(drawn[f] == expected, "file %d: %d draws, expected %d", f, (int)drawn[f], (int)expected);
      for (int64_t r = 0; r < of_file; r++)
        T_CHECK(times[f][r] == expected / of_file || times[f][r] == (expected - 1) / of_file + 1,
                "file %d: a row was drawn %d times in %d draws of %d rows", f, (int)times[f][r], (int)expected,
                (int)of_file);
    }
  }
  dataset_close(&dataset);
  for (int f = 0; f < FILES; f++) {
    free(times[f]);
    mem_free((void *)(uintptr_t)files[f]);
  }
}

/* ---- order ---- */

/* The ids of two epochs, read from any sample on by a dataset that was opened for it, are the same. */
static void test_resume(void) {
  static int32_t lengths[30], ids[30 * MAX_ROW];
  const char *const files[] = {raw_path("resume"), raw_path("resume-b")};
  const double weights[] = {2, 1};
  make_file(files[0], 12, 20, lengths, ids);
  make_file(files[1], 9, 20, lengths, ids);
  for (int weighted = 0; weighted < 2; weighted++) {
    const double *shares = weighted ? weights : NULL;
    struct dataset *whole = open_files(files, shares, 2, PARAMS_BATCHING_PADDED, 6, 77, true);
    int64_t n = 2 * dataset_count_rows(whole), other = 0;
    struct dataset *seeded = open_files(files, shares, 2, PARAMS_BATCHING_PADDED, 6, 78, true);
    for (int64_t k = 0; k <= n; k++) {
      struct dataset *again = open_files(files, shares, 2, PARAMS_BATCHING_PADDED, 6, 77, true);
      struct dataset_row a, b;
      int wrong = 0;
      for (int64_t i = k; i < n; i++) {
        dataset_locate(whole, i, &a);
        dataset_locate(again, i, &b);
        wrong += a.file != b.file || a.row != b.row || a.position != b.position;
      }
      T_CHECK(wrong == 0, "from sample %d: %d differ", (int)k, wrong);
      dataset_locate(seeded, k, &b);
      dataset_locate(whole, k, &a);
      other += a.file != b.file || a.row != b.row;
      dataset_close(&again);
    }
    T_CHECK(other > n / 2, "another seed has the same order");
    dataset_close(&seeded);
    dataset_close(&whole);
  }
}

/* ---- refusals ---- */

static void test_refusals(void) {
  const char *a = raw_path("refuse-a"), *b = raw_path("refuse-b");
  const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  raw_write_documents(a, 8, (const int32_t[]){6, 4}, 2, ids);
  raw_write_documents(b, 8, (const int32_t[]){2, 1}, 2, ids);
  const struct {
    const char *files[2];
    double weights[2]; /* the first below 0: none */
    int n;
    int64_t length, vocab;
    const char *words;
  } cases[] = {
      {{a, b}, {0, 0}, 2, 4, 20, "sum to 0"},
      {{a, b}, {NAN, 1}, 2, 4, 20, "not a finite number"},
      {{a, b}, {1, 1}, 2, 4, 20, "refuse-b has weight 1 but no row of 4 tokens"},
      {{a}, {-1}, 1, 10, 20, "no row of 10 tokens (it holds 10"},
      {{a}, {-1}, 1, 0, 20, "sequence length is 0"},
      {{a}, {-1}, 1, 4, 70000, "uint16"},
      {{raw_path("gone")}, {-1}, 1, 4, 20, "gone.idx: No such file"},
      {{a}, {-1}, 0, 4, 20, "no data file"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct dataset *dataset;
    const struct dataset_case c = {PARAMS_BATCHING_FIXED, cases[i].length, 1, cases[i].vocab, true};
    const double *weights = cases[i].weights[0] < 0 ? NULL : cases[i].weights;
    int status = dataset_open_case(&c, cases[i].files, weights, cases[i].n, &dataset);
    T_CHECK(status == STATUS_MISTAKE && !dataset && strstr(error_text(), cases[i].words), "%d, no '%s' in: %s", status,
            cases[i].words, error_text());
  }
  struct dataset *dataset;
  struct dataset_row row;
  int32_t token[9], label[9];
  const struct dataset_case c = {PARAMS_BATCHING_FIXED, 9, 1, 10, true};
  T_CHECK(dataset_open_case(&c, &a, NULL, 1, &dataset) == 0, "%s", error_text());
  T_CHECK(dataset_check_vocabulary(dataset, 0, 1) == STATUS_MISTAKE, "id 10 of a vocabulary of 10");
  T_CHECK(strstr(error_text(), "refuse-a.bin: document 1, position 3: token id 10"), "%s", error_text());
  error_clear();
  dataset_locate(dataset, 0, &row);
  T_CHECK(dataset_read(dataset, &row, token, label) == STATUS_MISTAKE, "the row's last label is outside");
  T_CHECK(strstr(error_text(), "refuse-a.bin: document 1, position 3: token id 10"), "%s", error_text());
  dataset_close(&dataset);
}

/* ---- running sums ---- */

static int64_t get_size(const void *context, int64_t i) { return ((const int32_t *)context)[i]; }

static void test_cumulative(void) {
  enum { N = 3000 };
  static int32_t sizes[N];
  for (int kind = 0; kind < 3; kind++) {
    for (int i = 0; i < N; i++) sizes[i] = kind == 0 ? (int32_t)pick(4) : kind == 1 ? i % 1000 == 999 : i == 2 * 256;
    for (int n = N - 5; n <= N; n++) {
      struct cumulative sums;
      int wrong = 0;
      int64_t sum = 0, offset;
      cumulative_init(&sums, n, get_size, sizes);
      for (int i = 0; i < n; i++) {
        wrong += cumulative_get(&sums, i) != sum;
        for (int k = 0; k < sizes[i]; k++) wrong += cumulative_find(&sums, sum + k, &offset) != i || offset != k;
        sum += sizes[i];
      }
      T_CHECK(!wrong && sums.total == sum && cumulative_get(&sums, n) == sum, "%d items: %d wrong", n, wrong);
      cumulative_fini(&sums);
    }
  }
}

int main(void) {
  int64_t before = mem_balance();
  test_cumulative();
  for (int round = 0; round < 12; round++) {
    int most = 1 + round % 6 * 3;
    test_rows(PARAMS_BATCHING_FIXED, 1 + (int)pick(50), most);
    test_rows(PARAMS_BATCHING_PADDED, 1 + (int)pick(50), most);
  }
  test_empty_documents();
  test_apportion();
  test_turns();
  test_weights(true);
  test_weights(false);
  test_resume();
  test_refusals();
  T_CHECK(mem_balance() == before, "%d allocations are left", (int)(mem_balance() - before));
  scratch_remove();
  return t_end();
}
