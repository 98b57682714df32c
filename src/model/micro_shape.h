/* The shape of a micro-batch: all that graph, memory, costs and plan know of it. Passed by value. */
#ifndef PENSTOCK_MODEL_MICRO_SHAPE_H
#define PENSTOCK_MODEL_MICRO_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

struct micro_shape {
  int32_t rows, length; /* padded length: that of the longest row, at least 1 */
  int64_t tokens;       /* real inputs */
  int64_t labels;       /* labels that count in the loss */
  int64_t pairs;        /* of a query and a key that attention computes, padding included; at most INT64_MAX */
};

/* The product, or INT64_MAX where that is not enough: rows and lengths that decks and files may name have more pairs
 * than 64 bits count. */
static inline int64_t micro_shape_multiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Padded rows under causal attention: every position attends to itself and to all before it. */
static inline struct micro_shape micro_shape_make(int64_t rows, int64_t length, int64_t tokens, int64_t labels) {
  int64_t pairs = micro_shape_multiply(rows, length * (length + 1) / 2);
  return (struct micro_shape){(int32_t)rows, (int32_t)length, tokens, labels, pairs};
}

/* Rows without padding, all of whose positions have labels. */
static inline struct micro_shape micro_shape_fill(int64_t rows, int64_t length) {
  return micro_shape_make(rows, length, rows * length, rows * length);
}

/* Positions, padding included: what activations and products are of. */
static inline int64_t micro_shape_count_positions(struct micro_shape shape) {
  return (int64_t)shape.rows * shape.length;
}

/* True when every layer takes as long for one as for the other: padding computes as all else does. */
static inline bool micro_shape_costs_alike(struct micro_shape a, struct micro_shape b) {
  return a.rows == b.rows && a.length == b.length && a.pairs == b.pairs;
}

#endif
