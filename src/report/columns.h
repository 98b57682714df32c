/* Large steps in few columns: what share of each column's time went into what. Serial.
 *
 * What is drawn of a column stands for these shares: a stack of their heights in pictures; in text, where a column is
 * one letter, a choice by which letters are as frequent over a few columns as their times are long.
 */
#ifndef PENSTOCK_REPORT_COLUMNS_H
#define PENSTOCK_REPORT_COLUMNS_H

#include "record/trace_rows.h"

struct columns {
  int n, n_classes;
  double begin, width; /* of the first column; of each: seconds */
  double *shares;      /* [n][n_classes] of the column's time, 0 to 1 */
};

void columns_init(struct columns *columns, int n, int n_classes, double begin, double end);
void columns_fini(struct columns *columns);
void columns_clear(struct columns *columns);

/* Adds the time of a node to the columns that it lies in, as class `class`. */
void columns_add(struct columns *columns, double start_s, double end_s, int class);

/* A class for each column, -1: idle. The error of each choice is carried on, so that over any run of columns each class
 * is chosen as often as its shares sum to, within about one; a class of which a column has nothing is not chosen for
 * it. */
void columns_choose(const struct columns *columns, int *chosen);

/* Returns for each stage its place among the stages of its rank, from 0 in ascending order: [*n_stages], owned by the
 * caller. *n_chunks: the most stages of a rank. */
int32_t *columns_find_chunks(const struct node_row *rows, int64_t n_rows, int32_t *n_stages, int32_t *n_chunks);

#endif
