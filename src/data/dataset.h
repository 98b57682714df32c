/* Rows to train on, from one or several token files, and which row each sample of a run is.
 *
 * Rows. `fixed`: row i of a file is tokens iT .. iT+T of its stream: T inputs, and for each the next token as label, so
 * that each token is predicted once; what is left at a file's end is shorter than a row and not used. `padded`: a
 * document a row, its inputs all tokens but the last; a longer document becomes rows of at most T+1 tokens that overlap
 * by one; a document of one token is a row without label; empty documents are no rows.
 *
 * Samples are numbered 0, 1, 2, ... over the whole run, E = dataset_count_rows of them an epoch. Without weights an
 * epoch is every row of every file once. With weights it has E rows too, of each file its share; a file's rows are
 * drawn from its own passes, each of which uses every row once, however the epochs fall. Shuffled, each epoch (or pass)
 * has an order of its own; else the order is that of the files, with weights interleaved evenly. All is a function of
 * the seed and the sample's number, not of history, rank, or batch size.
 */
#ifndef PENSTOCK_DATA_DATASET_H
#define PENSTOCK_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "data/tokens.h"
#include "input/params.h"

enum { DATASET_NO_LABEL = -100 };

struct dataset;

/* Opens and checks the files of a mix (not their ids). Rows and their order are as the deck says: params->data.batching
 * and sequence_length (T), params->run.seed; `shuffle` apart, as what is evaluated keeps its order. `vocab` is the
 * model's vocabulary. Nothing is borrowed beyond the call. STATUS_MISTAKE for a file that is refused, weights that are
 * all 0 or not finite, or when a file has no row to give its share. */
int dataset_open(const struct params *params, const struct params_mix *mix, bool shuffle, int64_t vocab,
                 struct dataset **out);
void dataset_close(struct dataset **dataset);

/* Lines that tell the user what the files hold and what is left out; NULL for i at the end. The text belongs to the
 * dataset. */
const char *dataset_get_line(const struct dataset *dataset, int i);

int dataset_count_files(const struct dataset *dataset);
const struct tokens *dataset_get_file(const struct dataset *dataset, int f);
/* Samples an epoch: the rows of all files together. */
int64_t dataset_count_rows(const struct dataset *dataset);
/* Rows of one file, and how many of an epoch's samples come from it. */
int64_t dataset_count_file_rows(const struct dataset *dataset, int f);
int64_t dataset_get_share(const struct dataset *dataset, int f);
/* Inputs of the longest row: at most T. */
int64_t dataset_get_longest(const struct dataset *dataset);

/* Looks at every id of every file: part p of n, see tokens_check_vocabulary. */
int dataset_check_vocabulary(const struct dataset *dataset, int part, int n_parts);

struct dataset_row {
  int32_t file;
  int64_t row;            /* in that file */
  int64_t position;       /* of its first token in the file's stream */
  int32_t length, labels; /* inputs; labels (the first `labels` inputs have one) */
};

/* The row of sample n >= 0. Reads the index only, and gives a row of some length up to T whatever that holds by now:
 * dataset_check_row is STATUS_FAILED, naming the file, when it is no longer the one that was opened. */
void dataset_locate(const struct dataset *dataset, int64_t n, struct dataset_row *row);
int dataset_check_row(const struct dataset *dataset, const struct dataset_row *row);

/* The row's inputs and labels into token[row->length], label[row->length]. STATUS_MISTAKE for an id outside the
 * vocabulary, STATUS_FAILED for a file that has changed. */
int dataset_read(const struct dataset *dataset, const struct dataset_row *row, int32_t *token, int32_t *label);

#endif
