/* The CPU as a device: an arena of host memory and the kernels of kernels/, on a pool of threads. */
#include "device/device_cpu.h"
#include "device/arena.h"
#include "device/device.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/worker.h"
#include "input/params.h"
#include "kernels.h"

#include <string.h>

struct device_cpu {
  struct device device;
  struct arena *arena, *host;
  struct pool *pool;
  struct copier {
    struct worker *worker;
    struct copy_part parts[COPY_MOST_PARTS];
    int n_parts;
  } copiers[COPY_WAY_COUNT];
  int64_t limit, host_limit;
  bool poison;
};

static struct device_cpu *cpu_of(struct device *device) { return (struct device_cpu *)device; }

static const char *describe_cpu(void) { return matmul_get_library(); }

static int open_cpu(const struct device_config *config, struct device **device) {
  struct arena *arena = arena_create("device", config->limit, config->poison);
  if (!arena) return error_status();
  struct device_cpu *cpu = MEM_NEW(struct device_cpu, 1);
  cpu->device.ops = &device_cpu_ops;
  cpu->arena = arena;
  cpu->limit = config->limit;
  cpu->host_limit = config->host_limit;
  cpu->poison = config->poison;
  for (int way = 0; way < COPY_WAY_COUNT; way++)
    cpu->copiers[way].worker = worker_create(config->cores, config->n_cores);
  cpu->pool = pool_create(config->threads, config->cores, config->n_cores);
  if (!cpu->pool) {
    for (int way = 0; way < COPY_WAY_COUNT; way++) worker_destroy(&cpu->copiers[way].worker);
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
  for (int way = 0; way < COPY_WAY_COUNT; way++) worker_destroy(&cpu->copiers[way].worker);
  arena_destroy(&cpu->arena);
  arena_destroy(&cpu->host);
  pool_destroy(&cpu->pool);
  mem_free(cpu);
  *device = NULL;
}

static void *alloc_cpu(struct device *device, int64_t bytes, const char *what) {
  return arena_alloc(cpu_of(device)->arena, bytes, what);
}

static void free_cpu(struct device *device, void *memory) { arena_free(cpu_of(device)->arena, memory); }

/* Host memory is allocated with the first call, as most runs need none. */
static void *alloc_host_cpu(struct device *device, int64_t bytes, const char *what) {
  struct device_cpu *cpu = cpu_of(device);
  if (!cpu->host) cpu->host = arena_create("host", cpu->host_limit, cpu->poison);
  return cpu->host ? arena_alloc(cpu->host, bytes, what) : NULL;
}

static void free_host_cpu(struct device *device, void *memory) {
  if (memory) arena_free(cpu_of(device)->host, memory);
}

static void copy_parts(void *context) {
  struct copier *c = context;
  for (int k = 0; k < c->n_parts; k++) memcpy(c->parts[k].to, c->parts[k].from, (size_t)c->parts[k].bytes);
}

static void copy_begin_cpu(struct device *device, enum copy_way way, const struct copy_part *parts, int n) {
  struct copier *c = &cpu_of(device)->copiers[way];
  CHECK(n <= COPY_MOST_PARTS, "%d parts of a copy", n);
  memcpy(c->parts, parts, sizeof *parts * (size_t)n);
  c->n_parts = n;
  worker_begin(c->worker, copy_parts, c);
}

static bool copy_test_cpu(struct device *device, enum copy_way way, double *start, double *end) {
  return worker_test(cpu_of(device)->copiers[way].worker, start, end);
}

static double get_copy_cpu_cpu(const struct device *device) {
  const struct device_cpu *cpu = (const struct device_cpu *)device;
  double sum = 0;
  for (int way = 0; way < COPY_WAY_COUNT; way++) sum += worker_get_cpu(cpu->copiers[way].worker);
  return sum;
}

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

static struct device_memory get_host_memory_cpu(const struct device *device) {
  const struct device_cpu *cpu = (const struct device_cpu *)device;
  if (!cpu->host) return (struct device_memory){.limit = cpu->host_limit};
  return (struct device_memory){arena_get_used(cpu->host), arena_get_peak(cpu->host), arena_get_reserved(cpu->host),
                                cpu->host_limit};
}

static void reset_peak_cpu(struct device *device) {
  arena_reset_peak(cpu_of(device)->arena);
  if (cpu_of(device)->host) arena_reset_peak(cpu_of(device)->host);
}

static struct pool *get_pool_cpu(struct device *device) { return cpu_of(device)->pool; }

const struct device_ops device_cpu_ops = {
    .name = "cpu",
    .computes = true,
    .uses_node_memory = true,
    .precisions = 1u << PARAMS_PRECISION_FP32,
    .describe = describe_cpu,
    .open = open_cpu,
    .close = close_cpu,
    .alloc = alloc_cpu,
    .free = free_cpu,
    .read = read_cpu,
    .write = write_cpu,
    .alloc_host = alloc_host_cpu,
    .free_host = free_host_cpu,
    .copy_begin = copy_begin_cpu,
    .copy_test = copy_test_cpu,
    .get_copy_cpu = get_copy_cpu_cpu,
    .run = run_cpu,
    .fill = do_fill_cpu,
    .add = do_add_cpu,
    .sum_squares = do_sum_squares_cpu,
    .adamw = do_adamw_cpu,
    .get_memory = get_memory_cpu,
    .get_host_memory = get_host_memory_cpu,
    .reset_peak = reset_peak_cpu,
    .get_pool = get_pool_cpu,
};
