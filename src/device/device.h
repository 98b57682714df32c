/* A device: memory with an enforced limit, and the kernels of every op. One table of functions a backend; the executor
 * knows nothing else. A device belongs to one rank; its functions are called from one thread.
 */
#ifndef PENSTOCK_DEVICE_DEVICE_H
#define PENSTOCK_DEVICE_DEVICE_H

#include "model/micro_shape.h"
#include "model/model.h"
#include "model/pass.h"

#include <stdbool.h>
#include <stdint.h>

struct adamw;
struct device;
struct params;
struct pool;

/* A micro-batch as ops see it. Borrowed. */
struct op_batch {
  struct micro_shape shape;
  const int32_t *lengths; /* [rows] */
  const int32_t *tokens;  /* [rows*length], embedding only */
  const int32_t *labels;  /* [rows*length], head only */
  float loss_scale;       /* head: gradients are those of loss_scale x sum of token losses */
  bool with_grad;         /* head: make gradients in the forward */
  double *loss_sum;       /* head: receives the sum of token losses of the micro-batch */
};

/* One op of one layer on one micro-batch: where its activations, gradients and tensors lie (device memory). */
struct op_call {
  const struct model_config *config;
  const struct layer *layer;
  const struct op *op;
  const struct op_batch *batch;
  float *const *act;         /* [n_acts] by the layer's table */
  float *const *grad;        /* [n_acts] */
  float *const *weight;      /* [n_tensors] */
  float *const *weight_grad; /* [n_tensors] */
  float *scratch;
};

/* Copies between the device and host memory that blocks wait in. */
enum copy_way { COPY_OUT, COPY_IN, COPY_WAY_COUNT };
enum { COPY_MOST_PARTS = 4 };
struct copy_part {
  void *to;
  const void *from;
  int64_t bytes;
};

struct device_config {
  int threads;
  const int *cores; /* may be NULL */
  int n_cores;
  int64_t limit;      /* bytes of device memory, INT64_MAX: none */
  int64_t host_limit; /* the same of host memory for blocks */
  bool poison;        /* fill new memory with NaNs */
};

struct device_ops {
  const char *name; /* as in device.backend */
  /* Properties of a backend; the rest of the program asks for these, never for a backend's name. */
  bool
      computes; /* false: nodes take their modelled times, and there are no numbers to begin with, to save or to lose */
  bool uses_node_memory;         /* where the deck has no limit, a rank's share of its node's memory is one */
  unsigned precisions;           /* a bit for each PARAMS_PRECISION that a run may have on it */
  const char *(*describe)(void); /* the library that does its products, "oneDNN 2.6.3"; static */
  int (*open)(const struct device_config *config, struct device **device);
  void (*close)(struct device **device);
  /* Memory of the device: see arena.h for the contract. */
  void *(*alloc)(struct device *device, int64_t bytes, const char *what);
  void (*free)(struct device *device, void *memory);
  /* Copies between host and device memory, complete on return. */
  void (*read)(struct device *device, void *host, const void *memory, int64_t bytes);
  void (*write)(struct device *device, void *memory, const void *host, int64_t bytes);
  /* Host memory that blocks wait in (pinned where that makes copies faster), with a limit of its own; else as alloc. */
  void *(*alloc_host)(struct device *device, int64_t bytes, const char *what);
  void (*free_host)(struct device *device, void *memory);
  /* Copies beside all else, one at a time each way: begins one, of at most COPY_MOST_PARTS parts, when the one before
   * has been seen to end; asks whether it has, and between which times (clock_now) it ran. */
  void (*copy_begin)(struct device *device, enum copy_way way, const struct copy_part *parts, int n);
  bool (*copy_test)(struct device *device, enum copy_way way, double *start, double *end);
  /* Seconds that copies have kept cores busy so far (those of the rank, where it has no engines of its own for them).
   */
  double (*get_copy_cpu)(const struct device *device);
  /* One op in one pass. */
  void (*run)(struct device *device, enum pass pass, const struct op_call *call);
  /* Vectors of n floats (see kernels.h for their contracts). */
  void (*fill)(struct device *device, int64_t n, float value, float *x);
  void (*add)(struct device *device, int64_t n, const float *x, float *y);
  double (*sum_squares)(struct device *device, int64_t n, const float *g);
  void (*adamw)(struct device *device, const struct adamw *p, int64_t n, float *w, float *g, float *m, float *v);
  struct device_memory {
    int64_t used, peak, reserved, limit;
  } (*get_memory)(const struct device *device);
  struct device_memory (*get_host_memory)(const struct device *device);
  void (*reset_peak)(struct device *device); /* of both */
  struct pool *(*get_pool)(struct device *device);
};

/* A device starts with its backend's table; backends extend this struct. */
struct device {
  const struct device_ops *ops;
};

/* The registry: by name, NULL when there is none. */
const struct device_ops *device_find(const char *name);
/* The backend of a deck. */
const struct device_ops *device_of_deck(const struct params *params);

#endif
