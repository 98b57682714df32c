/* The CPU as a device: an arena of host memory and the kernels of kernels/, on a pool of threads. */
#include "device/device_cpu.h"
#include "device/arena.h"
#include "device/device.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels.h"

#include <string.h>

struct device_cpu {
  struct device device;
  struct arena *arena;
  struct pool *pool;
  int64_t limit;
};

static struct device_cpu *cpu_of(struct device *device) { return (struct device_cpu *)device; }

static const char *describe_cpu(void) { return matmul_get_library(); }

static int open_cpu(const struct device_config *config, struct device **device) {
  struct arena *arena = arena_create(config->limit, config->poison);
  if (!arena) return error_status();
  struct device_cpu *cpu = MEM_NEW(struct device_cpu, 1);
  cpu->device.ops = &device_cpu_ops;
  cpu->arena = arena;
  cpu->limit = config->limit;
  cpu->pool = pool_create(config->threads, config->cores, config->n_cores);
  if (!cpu->pool) {
    arena_destroy(&cpu->arena);
    mem_free(cpu);
    return error_status();
  }
  matmul_init_cpu();
  *device = &cpu->device;
  return STATUS_OK;
}

static void close_cpu(struct device **device) {
  if (!*device) return;
  struct device_cpu *cpu = cpu_of(*device);
  arena_destroy(&cpu->arena);
  pool_destroy(&cpu->pool);
  mem_free(cpu);
  *device = NULL;
}

static void *alloc_cpu(struct device *device, int64_t bytes, const char *what) {
  return arena_alloc(cpu_of(device)->arena, bytes, what);
}

static void free_cpu(struct device *device, void *memory) { arena_free(cpu_of(device)->arena, memory); }

static void read_cpu(struct device *device, void *host, const void *memory, int64_t bytes) {
  (void)device;
  memcpy(host, memory, (size_t)bytes);
}

static void write_cpu(struct device *device, void *memory, const void *host, int64_t bytes) {
  (void)device;
  memcpy(memory, host, (size_t)bytes);
}

static void run_cpu(struct device *device, enum pass pass, const struct op_call *call) {
  device_cpu_run_op(cpu_of(device)->pool, pass, call);
}

static void do_fill_cpu(struct device *device, int64_t n, float value, float *x) {
  fill_cpu(cpu_of(device)->pool, n, value, x);
}

static void do_add_cpu(struct device *device, int64_t n, const float *x, float *y) {
  add_cpu(cpu_of(device)->pool, n, x, y);
}

static double do_sum_squares_cpu(struct device *device, int64_t n, const float *g) {
  return sum_squares_cpu(cpu_of(device)->pool, n, g);
}

static void do_adamw_cpu(struct device *device, const struct adamw *p, int64_t n, float *w, float *g, float *m,
                         float *v) {
  adamw_cpu(cpu_of(device)->pool, p, n, w, g, m, v);
}

static struct device_memory get_memory_cpu(const struct device *device) {
  const struct device_cpu *cpu = (const struct device_cpu *)device;
  return (struct device_memory){arena_get_used(cpu->arena), arena_get_peak(cpu->arena), arena_get_reserved(cpu->arena),
                                cpu->limit};
}

static void reset_peak_cpu(struct device *device) { arena_reset_peak(cpu_of(device)->arena); }

static struct pool *get_pool_cpu(struct device *device) { return cpu_of(device)->pool; }

const struct device_ops device_cpu_ops = {
    .name = "cpu",
    .describe = describe_cpu,
    .open = open_cpu,
    .close = close_cpu,
    .alloc = alloc_cpu,
    .free = free_cpu,
    .read = read_cpu,
    .write = write_cpu,
    .run = run_cpu,
    .fill = do_fill_cpu,
    .add = do_add_cpu,
    .sum_squares = do_sum_squares_cpu,
    .adamw = do_adamw_cpu,
    .get_memory = get_memory_cpu,
    .reset_peak = reset_peak_cpu,
    .get_pool = get_pool_cpu,
};
