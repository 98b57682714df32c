/* Times counted from the ops: a roofline for a device of the data sheets. An op takes the longer of its operations at
 * the rate that products of its size reach and of its bytes at the memory's rate, and a start of its own.
 */
#include "cost/cost_source.h"

#include "base/error.h"
#include "base/mem.h"
#include "model/footprint.h"
#include "model/op_work.h"

/* The speed of a device: operations and bytes a second, messages and copies one way. */
struct preset {
  double flops[PARAMS_precision_COUNT]; /* peak */
  double bytes;                         /* of the device's memory */
  double start_s;                       /* of an op: launching a kernel, waking the threads */
  double half_flops;                    /* an op of so many operations reaches half of what the largest reach */
  struct cost_link inside, across;      /* a node */
  struct cost_link host;                /* to host memory or back */
  int64_t node_size;                    /* 0: all ranks */
  int64_t eager_bytes;
};

/* Peaks, memory and links are those that the makers publish: the data sheets of A100 (PCIe Gen4 and NVLink 3: 600 GB/s
 * both ways), A800 (400), H100 SXM and H200 (NVLink 4: 900), H800 (400); across nodes one InfiniBand port a GPU, HDR
 * 200 and NDR 400 Gbit/s; the host behind PCIe Gen4 or Gen5 x16; a disk is one NVMe drive. fp32 is that of the vector
 * units, bf16 that of the matrix units without sparsity; a core is taken to have no more for bf16. The cpu row is one
 * core with two 256-bit multiply-adds a cycle at 3 GHz and its part of a server's memory channels; its links are shared
 * memory and a 100 Gbit/s port. Starts, latencies and half_flops are of the usual size of such systems: a profile says
 * better. */
#define GB 1e9
static const struct preset presets[PARAMS_preset_COUNT] = {
    [PARAMS_PRESET_CPU] =
        {{96e9, 96e9}, 12 * GB, 2e-6, 1e6, {1e-6, 6 * GB}, {2e-6, 12.5 * GB}, {1e-6, 6 * GB}, 0, 1 << 14},
    [PARAMS_PRESET_A100_40G] =
        {{19.5e12, 312e12}, 1555 * GB, 5e-6, 4e8, {8e-6, 300 * GB}, {15e-6, 25 * GB}, {10e-6, 25 * GB}, 8, 0},
    [PARAMS_PRESET_A100_80G] =
        {{19.5e12, 312e12}, 2039 * GB, 5e-6, 4e8, {8e-6, 300 * GB}, {15e-6, 25 * GB}, {10e-6, 25 * GB}, 8, 0},
    [PARAMS_PRESET_A800_80G] =
        {{19.5e12, 312e12}, 2039 * GB, 5e-6, 4e8, {8e-6, 200 * GB}, {15e-6, 25 * GB}, {10e-6, 25 * GB}, 8, 0},
    [PARAMS_PRESET_H100] =
        {{66.9e12, 989e12}, 3350 * GB, 5e-6, 1e9, {8e-6, 450 * GB}, {15e-6, 50 * GB}, {10e-6, 50 * GB}, 8, 0},
    [PARAMS_PRESET_H200] =
        {{66.9e12, 989e12}, 4800 * GB, 5e-6, 1e9, {8e-6, 450 * GB}, {15e-6, 50 * GB}, {10e-6, 50 * GB}, 8, 0},
    [PARAMS_PRESET_H800] =
        {{66.9e12, 989e12}, 3350 * GB, 5e-6, 1e9, {8e-6, 200 * GB}, {15e-6, 50 * GB}, {10e-6, 50 * GB}, 8, 0},
};

/* The parts of the peaks that large ops reach. */
static const double MOST_FLOPS = 0.8, MOST_BYTES = 0.85;
/* Attention's products are small and end in exponentials. */
static const double ATTENTION_FLOPS = 0.5;

struct analytic {
  const struct preset *preset;
  double flops, bytes; /* of this rank's device */
};

static int create(struct cost *cost, const struct params *params, const struct cost_measured *measured, char **notes) {
  (void)measured;
  const struct preset *preset = &presets[params->device.preset];
  const char *name = params_get_choice(params, PARAM_device_preset);
  struct analytic *a = MEM_NEW(struct analytic, 1);
  bool cpu = params->device.preset == PARAMS_PRESET_CPU;
  double cores = cpu && params_is_set(params, PARAM_device_threads) ? (double)params->device.threads : 1;
  *a = (struct analytic){preset, preset->flops[params->device.precision] * cores, preset->bytes * cores};
  cost->data = a;
  cost->text = mem_format("preset %s, not measured", name);
  cost->inside = preset->inside;
  cost->host = preset->host;
  cost->disk_write = (struct cost_link){100e-6, 2 * GB};
  cost->disk_read = (struct cost_link){100e-6, 4 * GB};
  cost->across = preset->across;
  cost->node_size = preset->node_size ? preset->node_size : cost->n_ranks;
  cost->eager_bytes = preset->eager_bytes;
  cost->ties = true;
  cost_put_link(cost, params);
  cost_add_note(notes, "times are counted from the ops for the preset %s, not measured", name);
  return STATUS_OK;
}

static void destroy(struct cost *cost) { mem_free(cost->data); }

static double get_seconds(const struct analytic *a, enum op_bound bound, const struct op_work *work) {
  if (work->flops == 0 && work->bytes == 0) return 0;
  double most = bound == BOUND_ATTENTION ? ATTENTION_FLOPS : MOST_FLOPS;
  /* most x n / (n + half) of the peak for n operations: the half is a time of its own. */
  double compute = work->flops > 0 ? (work->flops + a->preset->half_flops) / (most * a->flops) : 0;
  double memory = work->bytes / (MOST_BYTES * a->bytes);
  return a->preset->start_s + (compute > memory ? compute : memory);
}

static double get_op(const struct cost *cost, int32_t rank, int32_t layer, int op, enum pass pass,
                     struct micro_shape shape) {
  const struct layer *l = &cost->model->layers[layer];
  struct op_work work[PASS_COUNT];
  (void)rank;
  op_work_count(cost->model, l, &l->ops[op], shape, work);
  return get_seconds(cost->data, op_kind_get_bound(l->ops[op].kind), &work[pass]);
}

static double get_recompute(const struct cost *cost, int32_t rank, int32_t layer, uint32_t discarded,
                            struct micro_shape shape) {
  const struct layer *l = &cost->model->layers[layer];
  double sum = 0;
  for (int o = 0; o < l->n_ops; o++)
    if (footprint_is_rebuilt(l, o, discarded)) sum += get_op(cost, rank, layer, o, PASS_FORWARD, shape);
  return sum;
}

static double get_update(const struct cost *cost, int64_t n_floats) {
  struct op_work work = op_work_count_update(n_floats);
  return get_seconds(cost->data, BOUND_MEMORY, &work);
}

static double get_norm(const struct cost *cost, int64_t n_floats) {
  struct op_work work = {2 * (double)n_floats, sizeof(float) * (double)n_floats};
  return get_seconds(cost->data, BOUND_MEMORY, &work);
}

/* One sum is added to the other and cleared. */
static double get_tied_sum(const struct cost *cost, int64_t n_floats) {
  struct op_work work = {(double)n_floats, 4 * sizeof(float) * (double)n_floats};
  return get_seconds(cost->data, BOUND_MEMORY, &work);
}

const struct cost_source cost_preset = {.create = create,
                                        .destroy = destroy,
                                        .get_op = get_op,
                                        .get_recompute = get_recompute,
                                        .get_update = get_update,
                                        .get_norm = get_norm,
                                        .get_tied_sum = get_tied_sum,
                                        .knows_ops = true};
