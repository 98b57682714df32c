/* Cores and memory of a rank. */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/topo.h"
#include "scratch.h"
#include "t.h"

static int rank, size;

/* The cores of all ranks, one after the other; owned by the caller. */
static int *gather_cores(struct comm *comm, const struct topo *topo, int64_t *offsets) {
  int64_t bytes = (int64_t)sizeof(int) * topo->n_cores;
  comm_gather_all(comm, topo->cores, bytes, NULL, offsets);
  int *all = mem_alloc((size_t)offsets[size]);
  comm_gather_all(comm, topo->cores, bytes, all, offsets);
  for (int r = 0; r <= size; r++) offsets[r] /= (int64_t)sizeof(int);
  return all;
}

/* How often each core was given out. */
static void test_sharing(struct comm *comm, const cpu_set_t *allowed) {
  struct topo topo;
  T_CHECK(topo_init_all(comm, &topo) == STATUS_OK, "%s", error_text());
  int64_t *offsets = MEM_NEW(int64_t, size + 1);
  int *all = gather_cores(comm, &topo, offsets), uses[CPU_SETSIZE] = {0}, distinct = 0;
  for (int64_t i = 0; i < offsets[size]; i++)
    if (uses[all[i]]++ == 0) distinct++;
  for (int i = 0; i < topo.n_cores; i++)
    T_CHECK(CPU_ISSET(topo.cores[i], allowed), "core %d is not allowed", topo.cores[i]);
  T_CHECK(topo.n_cores >= 1, "%d cores", topo.n_cores);
  T_CHECK(distinct == topo.node_cores, "%d cores given out of %d", distinct, topo.node_cores);
  T_CHECK(topo.oversubscribed == (topo.node_cores < size), "oversubscribed %d", topo.oversubscribed);
  if (!topo.oversubscribed) T_CHECK(offsets[size] == distinct, "a core was given to two ranks");
  for (int r = 0; r < size; r++) {
    int64_t n = offsets[r + 1] - offsets[r], fair = topo.node_cores / size;
    T_CHECK(n == fair || n == fair + 1 || n == 1, "rank %d has %" PRId64 " of %d cores", r, n, topo.node_cores);
  }
  T_CHECK(topo.memory_share_bytes > 1 << 20 && topo.memory_share_bytes <= topo_read_memory("") / size + (4LL << 30),
          "share of memory %" PRId64, topo.memory_share_bytes);
  mem_free(all);
  mem_free(offsets);
  topo_fini(&topo);
}

/* Bound by the launcher to one core each, a rank uses that. */
static void test_binding(struct comm *comm, const cpu_set_t *allowed) {
  int n = CPU_COUNT(allowed), wanted = rank % n, core = -1;
  for (int c = 0; c < CPU_SETSIZE && wanted >= 0; c++)
    if (CPU_ISSET(c, allowed) && wanted-- == 0) core = c;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  T_CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot bind to core %d", core);
  struct topo topo;
  T_CHECK(topo_init_all(comm, &topo) == STATUS_OK, "%s", error_text());
  T_CHECK(topo.n_cores == 1 && topo.cores[0] == core, "bound to core %d, uses %d", core, topo.cores[0]);
  topo_fini(&topo);
  /* Variables by which hwloc takes another machine for this one do not move a rank. */
  const char *variables[][2] = {
      {"HWLOC_SYNTHETIC", "core:64 pu:2"}, {"HWLOC_XMLFILE", "nowhere.xml"}, {"HWLOC_THISSYSTEM", "0"}};
  for (int i = 0; i < 3; i++) {
    setenv(variables[i][0], variables[i][1], 1);
    T_CHECK(topo_init_all(comm, &topo) == STATUS_OK, "%s", error_text());
    T_CHECK(topo.n_cores == 1 && topo.cores[0] == core, "%s: bound to core %d, uses %d", variables[i][0], core,
            topo.cores[0]);
    topo_fini(&topo);
    unsetenv(variables[i][0]);
  }
  sched_setaffinity(0, sizeof *allowed, allowed);
}

/* ---- limits of control groups, in folders that look like the system's ---- */

static void write_file(const char *root, const char *path, const char *text) {
  char *full = mem_format("%s%s", root, path);
  for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(full, 0777);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  T_CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s", full);
  mem_free(full);
}

static void check_limit(const char *root, int64_t wanted, const char *what) {
  int64_t limit = topo_read_memory(root);
  T_CHECK(limit == wanted, "%s: %" PRId64 ", not %" PRId64, what, limit, wanted);
}

static void test_limits(void) {
  const char *root = scratch_make();
  check_limit(root, INT64_MAX, "nothing known");
  write_file(root, "/proc/meminfo", "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:    5000 kB\n");
  check_limit(root, 5000 * 1024, "no groups");
  write_file(root, "/proc/self/cgroup", "0::/slurm/job7/step0\n");
  check_limit(root, 5000 * 1024, "groups without limits");
  write_file(root, "/sys/fs/cgroup/slurm/job7/step0/memory.max", "max\n");
  write_file(root, "/sys/fs/cgroup/slurm/job7/memory.max", "3000000\n");
  check_limit(root, 3000000, "limit of the group above");
  write_file(root, "/sys/fs/cgroup/memory.max", "2000000\n");
  check_limit(root, 2000000, "limit of the first group");
  write_file(root, "/sys/fs/cgroup/slurm/job7/step0/memory.max", "1000000\n");
  check_limit(root, 1000000, "limit of the own group");
  write_file(root, "/proc/self/cgroup", "12:cpu,cpuacct:/a\n5:hugetlb,memory:/b\n1:memory_other:/c\n0::/\n");
  write_file(root, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "10\n");
  write_file(root, "/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "10\n");
  write_file(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write_file(root, "/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1500000\n");
  check_limit(root, 1500000, "version 1");
  scratch_remove();
}

/* A limit on the address space of the process bounds what it may use. The address sanitizer takes terabytes of it for
 * itself. */
static void test_room(struct comm *comm) {
#ifdef __SANITIZE_ADDRESS__
  (void)comm;
#else
  struct rlimit old, limit;
  struct topo topo;
  T_CHECK(getrlimit(RLIMIT_AS, &old) == 0, "getrlimit");
  limit = old;
  limit.rlim_cur = (rlim_t)3 << 30;
  T_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
  T_CHECK(mem_get_room() > 1 << 20 && mem_get_room() < (int64_t)3 << 30, "room %" PRId64, mem_get_room());
  T_CHECK(!strcmp(mem_describe_limits(), " (ulimit -v is 3145728 kB)"), "'%s'", mem_describe_limits());
  T_CHECK(topo_init_all(comm, &topo) == STATUS_OK && topo.memory_share_bytes < mem_get_room(), "share");
  topo_fini(&topo);
  setrlimit(RLIMIT_AS, &old);
#endif
}

int main(int argc, char **argv) {
  struct comm *comm;
  if (comm_open_all(&argc, &argv, false, &comm) != STATUS_OK) {
    fprintf(stderr, "%s\n", error_text());
    return 1;
  }
  rank = comm_get_rank(comm);
  size = comm_get_size(comm);
  cpu_set_t allowed;
  T_CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "affinity");
  test_sharing(comm, &allowed);
  test_binding(comm, &allowed);
  test_room(comm);
  if (rank == 0) test_limits();
  int failed = comm_agree_all(comm, t_failures ? STATUS_FAILED : STATUS_OK);
  comm_close_all(&comm);
  T_CHECK(!failed || t_failures, "another rank failed");
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations left", mem_balance());
  return t_end();
}
