/* A device that computes nothing: its memory is counted but not backed, so that ranks of any size fit on any machine. The
 * time of its nodes is kept by the executor. */
#include "device/device_timed.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { ROUND = 64 }; /* bytes, as in arena.h */

struct device_timed {
  struct device device;
  int64_t limit, used, peak;
};

/* What stands for a block: nobody reads or writes behind it. */
struct block {
  int64_t bytes;
};

static struct device_timed *timed_of(struct device *device) { return (struct device_timed *)device; }

static const char *describe_timed(void) { return "timed (no arithmetic)"; }

static int open_timed(const struct device_config *config, struct device **device) {
  struct device_timed *timed = MEM_NEW(struct device_timed, 1);
  timed->device.ops = &device_timed_ops;
  timed->limit = config->limit;
  *device = &timed->device;
  return STATUS_OK;
}

static void close_timed(struct device **device) {
  if (!*device) return;
  struct device_timed *timed = timed_of(*device);
  CHECK(timed->used == 0, "%lld bytes of the device's memory are still allocated", (long long)timed->used);
  mem_free(timed);
  *device = NULL;
}

static void *alloc_timed(struct device *device, int64_t bytes, const char *what) {
  struct device_timed *timed = timed_of(device);
  bytes = (bytes + ROUND - 1) / ROUND * ROUND;
  if (bytes == 0) return NULL;
  if (bytes > timed->limit - timed->used) {
    error_raise(STATUS_FAILED,
                "device memory: %s needs %lld bytes, %lld of %lld are in use: %lld over memory.device_limit", what,
                (long long)bytes, (long long)timed->used, (long long)timed->limit,
                (long long)(bytes - (timed->limit - timed->used)));
    return NULL;
  }
  struct block *block = MEM_NEW(struct block, 1);
  block->bytes = bytes;
  timed->used += bytes;
  if (timed->used > timed->peak) timed->peak = timed->used;
  return block;
}

static void free_timed(struct device *device, void *memory) {
  if (!memory) return;
  struct block *block = memory;
  timed_of(device)->used -= block->bytes;
  mem_free(block);
}

/* There is nothing to read: zeros. */
static void read_timed(struct device *device, void *host, const void *memory, int64_t bytes) {
  (void)device, (void)memory;
  memset(host, 0, (size_t)bytes);
}

static void write_timed(struct device *device, void *memory, const void *host, int64_t bytes) {
  (void)device, (void)memory, (void)host, (void)bytes;
}

static void run_timed(struct device *device, enum pass pass, const struct op_call *call) {
  (void)device, (void)pass, (void)call;
}

static void fill_timed(struct device *device, int64_t n, float value, float *x) {
  (void)device, (void)n, (void)value, (void)x;
}

static void add_timed(struct device *device, int64_t n, const float *x, float *y) {
  (void)device, (void)n, (void)x, (void)y;
}

static double sum_squares_timed(struct device *device, int64_t n, const float *g) {
  (void)device, (void)n, (void)g;
  return 0;
}

static void adamw_timed(struct device *device, const struct adamw *p, int64_t n, float *w, float *g, float *m,
                        float *v) {
  (void)device, (void)p, (void)n, (void)w, (void)g, (void)m, (void)v;
}

static struct device_memory get_memory_timed(const struct device *device) {
  const struct device_timed *timed = (const struct device_timed *)device;
  return (struct device_memory){timed->used, timed->peak, 0, timed->limit};
}

static void reset_peak_timed(struct device *device) { timed_of(device)->peak = timed_of(device)->used; }

static struct pool *get_pool_timed(struct device *device) {
  (void)device;
  return NULL;
}

const struct device_ops device_timed_ops = {
    .name = "timed",
    .keeps_time = true,
    .describe = describe_timed,
    .open = open_timed,
    .close = close_timed,
    .alloc = alloc_timed,
    .free = free_timed,
    .read = read_timed,
    .write = write_timed,
    .run = run_timed,
    .fill = fill_timed,
    .add = add_timed,
    .sum_squares = sum_squares_timed,
    .adamw = adamw_timed,
    .get_memory = get_memory_timed,
    .reset_peak = reset_peak_timed,
    .get_pool = get_pool_timed,
};
