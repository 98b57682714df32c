/* A device that computes nothing: its memory is counted but not backed, so that ranks of any size fit on any machine.
 * The time of its nodes is kept by the executor. */
#include "device/device_timed.h"

#include "base/error.h"
#include "base/mem.h"
#include "input/params.h"

#include <string.h>

enum { ROUND = 64 }; /* bytes, as in arena.h */

/* Memory that is counted. */
struct account {
  const char *name;
  int64_t limit, used, peak;
};

struct device_timed {
  struct device device;
  struct account memory, host;
};

/* Stands for a piece of memory: nobody reads or writes behind it. */
struct chunk {
  int64_t bytes;
};

static struct device_timed *timed_of(struct device *device) { return (struct device_timed *)device; }

static const char *describe_timed(void) { return "timed (no arithmetic)"; }

static int open_timed(const struct device_config *config, struct device **device) {
  struct device_timed *timed = MEM_NEW(struct device_timed, 1);
  timed->device.ops = &device_timed_ops;
  timed->memory = (struct account){.name = "device", .limit = config->limit};
  timed->host = (struct account){.name = "host", .limit = config->host_limit};
  *device = &timed->device;
  return STATUS_OK;
}

static void close_timed(struct device **device) {
  if (!*device) return;
  struct device_timed *timed = timed_of(*device);
  CHECK(timed->memory.used == 0 && timed->host.used == 0, "%lld bytes of the device's and host's memory are allocated",
        (long long)(timed->memory.used + timed->host.used));
  mem_free(timed);
  *device = NULL;
}

static void *take(struct account *account, int64_t bytes, const char *what) {
  bytes = (bytes + ROUND - 1) / ROUND * ROUND;
  if (bytes == 0) return NULL;
  if (bytes > account->limit - account->used) {
    error_raise(STATUS_FAILED, "%s memory: %s needs %lld bytes, %lld of %lld are in use: %lld over memory.%s_limit",
                account->name, what, (long long)bytes, (long long)account->used, (long long)account->limit,
                (long long)(bytes - (account->limit - account->used)), account->name);
    return NULL;
  }
  struct chunk *chunk = MEM_NEW(struct chunk, 1);
  chunk->bytes = bytes;
  account->used += bytes;
  if (account->used > account->peak) account->peak = account->used;
  return chunk;
}

static void give(struct account *account, void *memory) {
  if (!memory) return;
  struct chunk *chunk = memory;
  account->used -= chunk->bytes;
  mem_free(chunk);
}

static void *alloc_timed(struct device *device, int64_t bytes, const char *what) {
  return take(&timed_of(device)->memory, bytes, what);
}

static void free_timed(struct device *device, void *memory) { give(&timed_of(device)->memory, memory); }

static void *alloc_host_timed(struct device *device, int64_t bytes, const char *what) {
  return take(&timed_of(device)->host, bytes, what);
}

static void free_host_timed(struct device *device, void *memory) { give(&timed_of(device)->host, memory); }

static void copy_begin_timed(struct device *device, enum copy_way way, const struct copy_part *parts, int n) {
  (void)device, (void)way, (void)parts, (void)n;
}

static double get_copy_cpu_timed(const struct device *device) {
  (void)device;
  return 0;
}

static bool copy_test_timed(struct device *device, enum copy_way way, double *start, double *end) {
  (void)device, (void)way;
  *start = *end = 0;
  return true;
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
  const struct account *a = &((const struct device_timed *)device)->memory;
  return (struct device_memory){a->used, a->peak, 0, a->limit};
}

static struct device_memory get_host_memory_timed(const struct device *device) {
  const struct account *a = &((const struct device_timed *)device)->host;
  return (struct device_memory){a->used, a->peak, 0, a->limit};
}

static void reset_peak_timed(struct device *device) {
  struct device_timed *timed = timed_of(device);
  timed->memory.peak = timed->memory.used;
  timed->host.peak = timed->host.used;
}

static struct pool *get_pool_timed(struct device *device) {
  (void)device;
  return NULL;
}

const struct device_ops device_timed_ops = {
    .name = "timed",
    .precisions = 1u << PARAMS_PRECISION_FP32 | 1u << PARAMS_PRECISION_BF16,
    .describe = describe_timed,
    .open = open_timed,
    .close = close_timed,
    .alloc = alloc_timed,
    .free = free_timed,
    .read = read_timed,
    .write = write_timed,
    .alloc_host = alloc_host_timed,
    .free_host = free_host_timed,
    .copy_begin = copy_begin_timed,
    .copy_test = copy_test_timed,
    .get_copy_cpu = get_copy_cpu_timed,
    .run = run_timed,
    .fill = fill_timed,
    .add = add_timed,
    .sum_squares = sum_squares_timed,
    .adamw = adamw_timed,
    .get_memory = get_memory_timed,
    .get_host_memory = get_host_memory_timed,
    .reset_peak = reset_peak_timed,
    .get_pool = get_pool_timed,
};
