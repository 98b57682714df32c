#include "comm/topo.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>
#include <hwloc/linux.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"

/* ---- memory ---- */

/* The number after `key` at the start of a line of a file ("" takes the first line); -1 without one, as with "max". */
static int64_t read_number(const char *path, const char *key) {
  char line[512];
  int64_t number = -1;
  FILE *file = fopen(path, "r");
  if (!file) return -1;
  while (number < 0 && fgets(line, sizeof line, file)) {
    if (strncmp(line, key, strlen(key)) != 0) continue;
    char *start = line + strlen(key), *end;
    long long value = strtoll(start, &end, 10);
    if (end == start) break;
    number = value;
  }
  fclose(file);
  return number;
}

static void take_smaller(int64_t *smallest, int64_t value) {
  if (value >= 0 && value < *smallest) *smallest = value;
}

/* Limits hold for a group and all above it; in a container the groups above are not visible. */
static void read_group_limits(const char *root, const char *mount, const char *group, const char *name,
                              int64_t *smallest) {
  char *path = mem_strdup(group);
  for (;;) {
    char *file = mem_format("%s%s%s/%s", root, mount, path, name);
    take_smaller(smallest, read_number(file, ""));
    mem_free(file);
    char *slash = strrchr(path, '/');
    if (!slash) break;
    *slash = '\0';
  }
  mem_free(path);
}

/* Is `name` in the list "cpu,memory"? */
static int is_listed(const char *list, size_t bytes, const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; i + length <= bytes; i++)
    if (strncmp(list + i, name, length) == 0 && (i == 0 || list[i - 1] == ',') &&
        (i + length == bytes || list[i + length] == ','))
      return 1;
  return 0;
}

int64_t topo_read_memory(const char *root) {
  int64_t smallest = INT64_MAX;
  char *path = mem_format("%s/proc/meminfo", root);
  int64_t available = read_number(path, "MemAvailable:");
  mem_free(path);
  if (available >= 0) take_smaller(&smallest, available * 1024);
  path = mem_format("%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "r");
  mem_free(path);
  char line[4096];
  while (file && fgets(line, sizeof line, file)) { /* number:controllers:group, no controllers in version 2 */
    line[strcspn(line, "\n")] = '\0';
    char *list = strchr(line, ':');
    char *group = list ? strchr(list + 1, ':') : NULL;
    if (!group) continue;
    size_t bytes = (size_t)(group - list - 1);
    if (bytes == 0)
      read_group_limits(root, "/sys/fs/cgroup", group + 1, "memory.max", &smallest);
    else if (is_listed(list + 1, bytes, "memory"))
      read_group_limits(root, "/sys/fs/cgroup/memory", group + 1, "memory.limit_in_bytes", &smallest);
  }
  if (file) fclose(file);
  return smallest;
}

/* ---- cores ---- */

/* OS numbers of the first hardware thread in `mask` of each core; owned by the caller. Where the system does not say
 * which threads share a core, each has its own. */
static int *list_cores(hwloc_const_bitmap_t mask, int *n) {
  int *cores = MEM_NEW(int, hwloc_bitmap_weight(mask) + 1);
  hwloc_bitmap_t left = hwloc_bitmap_dup(mask), core = hwloc_bitmap_alloc();
  *n = 0;
  for (int thread; (thread = hwloc_bitmap_first(left)) >= 0;) {
    char *path = mem_format("/sys/devices/system/cpu/cpu%d/topology/thread_siblings", thread);
    cores[(*n)++] = thread;
    if (hwloc_linux_read_path_as_cpumask(path, core) != 0) hwloc_bitmap_zero(core);
    hwloc_bitmap_set(core, (unsigned)thread);
    hwloc_bitmap_andnot(left, left, core);
    mem_free(path);
  }
  hwloc_bitmap_free(left);
  hwloc_bitmap_free(core);
  return cores;
}

/* Masks of the ranks on this node: how many ranks have exactly this rank's mask, this rank's place among them, and
 * the union of all masks. */
struct sharing {
  int n_same, place;
  hwloc_bitmap_t together;
};

static void compare_masks(struct comm *comm, hwloc_const_bitmap_t own, struct sharing *sharing) {
  char *text = NULL;
  hwloc_bitmap_list_asprintf(&text, own);
  int size = comm_get_size(comm), rank = comm_get_rank(comm);
  int64_t bytes = (int64_t)strlen(text) + 1, *offsets = MEM_NEW(int64_t, size + 1);
  comm_gather_all(comm, text, bytes, NULL, offsets);
  char *all = mem_alloc((size_t)offsets[size]);
  comm_gather_all(comm, text, bytes, all, offsets);
  hwloc_bitmap_t other = hwloc_bitmap_alloc();
  sharing->together = hwloc_bitmap_alloc();
  sharing->n_same = sharing->place = 0;
  for (int r = 0; r < size; r++) {
    if (comm_get_node(comm, r) != comm_get_node(comm, rank)) continue;
    hwloc_bitmap_list_sscanf(other, all + offsets[r]);
    hwloc_bitmap_or(sharing->together, sharing->together, other);
    if (r == rank) sharing->place = sharing->n_same;
    sharing->n_same += hwloc_bitmap_isequal(other, own);
  }
  hwloc_bitmap_free(other);
  mem_free(offsets);
  mem_free(all);
  free(text);
}

static void share_cores(struct comm *comm, hwloc_const_bitmap_t mask, struct topo *topo) {
  struct sharing sharing;
  compare_masks(comm, mask, &sharing);
  int n, *cores = list_cores(mask, &n);
  int64_t first = (int64_t)sharing.place * n / sharing.n_same;
  int64_t end = (int64_t)(sharing.place + 1) * n / sharing.n_same;
  if (end == first) end = first + 1; /* more ranks than cores: neighbours share one */
  topo->n_cores = (int)(end - first);
  topo->cores = MEM_NEW(int, topo->n_cores);
  memcpy(topo->cores, cores + first, sizeof(int) * (size_t)topo->n_cores);
  mem_free(cores);
  mem_free(list_cores(sharing.together, &topo->node_cores));
  topo->oversubscribed = topo->node_cores < comm_get_node_size(comm);
  hwloc_bitmap_free(sharing.together);
}

/* The hardware threads that this thread, the main one, may run on: by its binding, within what its group is allowed.
 * Owned by the caller, empty on failure. Threads that MPI has started are not looked at: they may be bound elsewhere.
 */
static hwloc_bitmap_t find_mask(void) {
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  for (int most = CPU_SETSIZE; most <= 1 << 20; most *= 2) { /* EINVAL: this system has more */
    cpu_set_t *set = CPU_ALLOC((size_t)most);
    size_t bytes = CPU_ALLOC_SIZE((size_t)most);
    bool enough = sched_getaffinity(0, bytes, set) == 0;
    for (int thread = 0; enough && thread < most; thread++)
      if (CPU_ISSET_S((size_t)thread, bytes, set)) hwloc_bitmap_set(mask, (unsigned)thread);
    CPU_FREE(set);
    if (enough) break;
  }
  return mask;
}

/* Returns the bytes that a device may take under the limits on this process. MPI, files and threads take some of them
 * too, and a full device has holes. */
static int64_t get_process_share(void) {
  int64_t room = mem_get_room();
  const int64_t others = room / 4 + (256 << 20);
  return room == INT64_MAX ? room : room - (others < room / 2 ? others : room / 2);
}

int topo_init_all(struct comm *comm, struct topo *topo) {
  memset(topo, 0, sizeof *topo);
  int status = STATUS_OK;
  hwloc_bitmap_t mask = find_mask();
  if (hwloc_bitmap_iszero(mask))
    status = error_raise(STATUS_FAILED, "this process is allowed no core; check the launcher's binding options");
  status = comm_agree_all(comm, status);
  if (status == STATUS_OK) share_cores(comm, mask, topo);
  hwloc_bitmap_free(mask);
  int64_t memory = topo_read_memory(""), own = get_process_share();
  topo->memory_share_bytes = memory == INT64_MAX ? memory : memory / comm_get_node_size(comm);
  topo->limited = own < topo->memory_share_bytes;
  if (topo->limited) topo->memory_share_bytes = own;
  return status;
}

void topo_fini(struct topo *topo) {
  mem_free(topo->cores);
  memset(topo, 0, sizeof *topo);
}
