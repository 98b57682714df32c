#include "data/dataset.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/words.h"
#include "data/blend.h"

#define NO_FILE UINT32_MAX /* key of an order that is over all files */

struct source {
  struct tokens *file;
  const struct dataset *dataset;
  int64_t n_rows, first_row; /* rows; rows of the files before it */
  struct cumulative rows;    /* padded: of each document */
};

struct dataset {
  int batching; /* enum params_batching */
  int64_t sequence_length, vocab;
  uint64_t seed;
  bool shuffle, weighted;
  int n;
  struct source *source; /* [n] */
  int64_t n_rows, longest;
  int64_t *share; /* [n] */
  char **lines;
  int n_lines;
};

static void add_line(struct dataset *dataset, char *line) {
  dataset->lines = mem_resize(dataset->lines, sizeof(char *) * (size_t)(dataset->n_lines + 1));
  dataset->lines[dataset->n_lines++] = line;
}

/* ---- rows of a file ---- */

static int64_t count_rows_of(const void *context, int64_t document) {
  const struct source *source = context;
  int64_t length = tokens_get_document_length(source->file, document), most = source->dataset->sequence_length;
  if (length <= 1) return length;
  return (length - 2) / most + 1;
}

static void describe_source(struct dataset *dataset, const struct source *source) {
  const struct tokens *file = source->file;
  for (int i = 0; i < file->n_notes; i++) add_line(dataset, mem_format("warning: %s", file->notes[i]));
  char *skipped = file->n_empty_documents ? mem_format(" (%" PRId64 " empty, skipped)", file->n_empty_documents) : NULL;
  int64_t used = source->n_rows ? source->n_rows * dataset->sequence_length + 1 : 0;
  char *left = dataset->batching == PARAMS_BATCHING_FIXED
                   ? mem_format("; %" PRId64 " tokens at the end, less than a row, left out", file->n_tokens - used)
                   : NULL;
  add_line(dataset,
           mem_format("%s: %" PRId64 " document%s%s, %" PRId64 " tokens (%s), %" PRId64 " row%s of %s%" PRId64
                      " tokens%s",
                      file->prefix, file->n_documents, words_get_ending(file->n_documents), skipped ? skipped : "",
                      file->n_tokens, tokens_get_type_name(file->type), source->n_rows,
                      words_get_ending(source->n_rows), dataset->batching == PARAMS_BATCHING_FIXED ? "" : "at most ",
                      dataset->sequence_length, left ? left : ""));
  mem_free(skipped);
  mem_free(left);
}

static int open_source(struct dataset *dataset, struct source *source, const char *prefix) {
  int64_t most = dataset->sequence_length;
  source->dataset = dataset;
  int status = tokens_open(prefix, dataset->vocab, &source->file);
  if (status) return status;
  const struct tokens *file = source->file;
  int64_t longest = most;
  if (dataset->batching == PARAMS_BATCHING_FIXED) {
    source->n_rows = file->n_tokens > 0 ? (file->n_tokens - 1) / most : 0;
  } else {
    cumulative_init(&source->rows, file->n_documents, count_rows_of, source);
    source->n_rows = source->rows.total;
    if (file->longest - 1 < most) longest = file->longest > 1 ? file->longest - 1 : 1;
  }
  if (source->n_rows > 0 && longest > dataset->longest) dataset->longest = longest;
  source->first_row = dataset->n_rows;
  dataset->n_rows += source->n_rows;
  describe_source(dataset, source);
  return STATUS_OK;
}

static void locate_in_file(const struct dataset *dataset, int f, int64_t i, struct dataset_row *row) {
  const struct source *source = &dataset->source[f];
  int64_t most = dataset->sequence_length;
  *row = (struct dataset_row){.file = f, .row = i, .length = (int32_t)most, .labels = (int32_t)most};
  if (dataset->batching == PARAMS_BATCHING_FIXED) {
    row->position = i * most;
    return;
  }
  int64_t piece, document = cumulative_find(&source->rows, i, &piece);
  int64_t left = tokens_get_document_length(source->file, document) - piece * most;
  if (left < 1) left = 1; /* of an index that was written over */
  if (left <= most) row->labels = (int32_t)(left - 1);
  row->length = row->labels > 0 ? row->labels : 1;
  row->position = tokens_get_document_start(source->file, document) + piece * most;
}

/* ---- the order of samples ---- */

static int64_t permute(const struct dataset *dataset, enum rng_purpose purpose, uint32_t file, int64_t epoch, int64_t n,
                       int64_t i) {
  if (!dataset->shuffle) return i;
  struct rng_key key = {.seed = dataset->seed, .purpose = purpose, .a = file, .b = (uint32_t)epoch};
  return rng_permute(&key, n, i);
}

void dataset_locate(const struct dataset *dataset, int64_t n, struct dataset_row *row) {
  int64_t epoch = n / dataset->n_rows, place = n % dataset->n_rows;
  int f = 0;
  if (!dataset->weighted) {
    int64_t i = permute(dataset, RNG_SHUFFLE, NO_FILE, epoch, dataset->n_rows, place);
    while (f + 1 < dataset->n && i >= dataset->source[f + 1].first_row) f++;
    locate_in_file(dataset, f, i - dataset->source[f].first_row, row);
    return;
  }
  int64_t draw;
  if (dataset->shuffle) {
    draw = permute(dataset, RNG_BLEND, NO_FILE, epoch, dataset->n_rows, place);
    for (; draw >= dataset->share[f]; f++) draw -= dataset->share[f];
  } else {
    f = blend_find(dataset->n, dataset->share, place, &draw);
  }
  /* The draw counts all draws from the file so far, so that a pass over its rows ends before the next begins. */
  draw += epoch * dataset->share[f];
  int64_t rows = dataset->source[f].n_rows;
  locate_in_file(dataset, f, permute(dataset, RNG_SHUFFLE, (uint32_t)f, draw / rows, rows, draw % rows), row);
}

int dataset_read(const struct dataset *dataset, const struct dataset_row *row, int32_t *token, int32_t *label) {
  const struct tokens *file = dataset->source[row->file].file;
  int status = tokens_read(file, row->position, row->length, token);
  for (int32_t t = 0; t + 1 < row->labels; t++) label[t] = token[t + 1];
  if (!status && row->labels > 0) status = tokens_read(file, row->position + row->labels, 1, &label[row->labels - 1]);
  if (status) return status;
  for (int32_t t = row->labels; t < row->length; t++) label[t] = DATASET_NO_LABEL;
  for (int32_t t = 0; t <= row->length; t++) {
    bool last = t == row->length;
    if (last && row->labels < row->length) break;
    int32_t id = last ? label[t - 1] : token[t];
    if (id >= 0 && id < dataset->vocab) continue;
    char *text = tokens_describe_id(file, row->position + t, id, dataset->vocab);
    error_raise(STATUS_MISTAKE, "%s", text);
    mem_free(text);
    return STATUS_MISTAKE;
  }
  return STATUS_OK;
}

/* ---- weights ---- */

static int check_weights(const struct params_mix *mix) {
  double sum = 0;
  for (int64_t f = 0; mix->weights && f < mix->n; f++) {
    if (!isfinite(mix->weights[f]))
      return error_raise(STATUS_MISTAKE, "data file %s: its weight is not a finite number", mix->prefixes[f]);
    sum += mix->weights[f];
  }
  if (mix->weights && (sum <= 0 || !isfinite(sum)))
    return error_raise(STATUS_MISTAKE, "the weights of the data files sum to %g; one at least must be above 0", sum);
  return STATUS_OK;
}

static int share_rows(struct dataset *dataset, const double *weight) {
  int status = STATUS_OK;
  blend_apportion(dataset->n_rows, dataset->n, weight, dataset->share);
  for (int f = 0; f < dataset->n && !status; f++) {
    const struct source *source = &dataset->source[f];
    if (dataset->share[f] > 0 && source->n_rows == 0)
      status = error_raise(STATUS_MISTAKE,
                           "data file %s has weight %g but no row of %" PRId64 " tokens to give (it holds %" PRId64
                           "): leave it out or shorten data.sequence_length",
                           source->file->prefix, weight[f], dataset->sequence_length, source->file->n_tokens);
    add_line(dataset,
             mem_format("%s: weight %g, %" PRId64 " of the %" PRId64 " rows of an epoch (each of its rows %.3g times)",
                        source->file->prefix, weight[f], dataset->share[f], dataset->n_rows,
                        source->n_rows ? (double)dataset->share[f] / (double)source->n_rows : 0.0));
  }
  return status;
}

static int open_all(struct dataset *dataset, const struct params_mix *mix) {
  int n = dataset->n, status = check_weights(mix);
  for (int f = 0; f < n && !status; f++) status = open_source(dataset, &dataset->source[f], mix->prefixes[f]);
  if (status) return status;
  if (dataset->n_rows == 0)
    return error_raise(STATUS_MISTAKE,
                       "data file %s%s no row of %" PRId64 " tokens (it holds %" PRId64
                       "; a row takes one more than data.sequence_length): give more text or a shorter sequence",
                       mix->prefixes[0], n > 1 ? " and the others have" : " has", dataset->sequence_length,
                       dataset->source[0].file->n_tokens);
  if (mix->weights) return share_rows(dataset, mix->weights);
  for (int f = 0; f < n; f++) dataset->share[f] = dataset->source[f].n_rows;
  return STATUS_OK;
}

int dataset_open(const struct params *params, const struct params_mix *mix, bool shuffle, int64_t vocab,
                 struct dataset **out) {
  int64_t length = params->data.sequence_length;
  *out = NULL;
  if (mix->n < 1) return error_raise(STATUS_MISTAKE, "no data file is given");
  if (length < 1 || length >= INT32_MAX)
    return error_raise(STATUS_MISTAKE, "sequence length is %" PRId64 ", allowed is 1 to %d", length, INT32_MAX - 1);
  struct dataset *dataset = MEM_NEW(struct dataset, 1);
  *dataset = (struct dataset){.batching = params->data.batching,
                              .sequence_length = length,
                              .vocab = vocab,
                              .seed = (uint64_t)params->run.seed,
                              .shuffle = shuffle,
                              .weighted = mix->weights != NULL,
                              .n = (int)mix->n,
                              .source = MEM_NEW(struct source, mix->n),
                              .share = MEM_NEW(int64_t, mix->n)};
  int status = open_all(dataset, mix);
  if (status) dataset_close(&dataset);
  *out = dataset;
  return status;
}

void dataset_close(struct dataset **dataset) {
  struct dataset *d = *dataset;
  if (!d) return;
  for (int f = 0; f < d->n; f++) {
    cumulative_fini(&d->source[f].rows);
    tokens_close(&d->source[f].file);
  }
  for (int i = 0; i < d->n_lines; i++) mem_free(d->lines[i]);
  mem_free(d->lines);
  mem_free(d->source);
  mem_free(d->share);
  mem_free(d);
  *dataset = NULL;
}

const char *dataset_get_line(const struct dataset *dataset, int i) {
  return i < dataset->n_lines ? dataset->lines[i] : NULL;
}

int dataset_count_files(const struct dataset *dataset) { return dataset->n; }
const struct tokens *dataset_get_file(const struct dataset *dataset, int f) { return dataset->source[f].file; }
int64_t dataset_count_rows(const struct dataset *dataset) { return dataset->n_rows; }
int64_t dataset_count_file_rows(const struct dataset *dataset, int f) { return dataset->source[f].n_rows; }
int64_t dataset_get_share(const struct dataset *dataset, int f) { return dataset->share[f]; }
int64_t dataset_get_longest(const struct dataset *dataset) { return dataset->longest; }

int dataset_check_row(const struct dataset *dataset, const struct dataset_row *row) {
  return tokens_check_unchanged(dataset->source[row->file].file);
}

int dataset_check_vocabulary(const struct dataset *dataset, int part, int n_parts) {
  int status = STATUS_OK;
  for (int f = 0; f < dataset->n && !status; f++)
    status = tokens_check_vocabulary(dataset->source[f].file, dataset->vocab, part, n_parts);
  return status;
}
