/* Describes in words the device that measured times hold for. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "profile/profile_measure.h"

enum { MOST_TEXT = PROFILE_MOST_PROCESSOR };

void profile_read_processor(char text[MOST_TEXT]) {
  char line[MOST_TEXT];
  struct utsname machine;
  text[0] = '\0';
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && !text[0] && fgets(line, sizeof line, file)) {
    char *value = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !value) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(text, MOST_TEXT, "%s", value + 1 + strspn(value + 1, " \t"));
  }
  if (file) fclose(file);
  if (!text[0] && !uname(&machine)) snprintf(text, MOST_TEXT, "%s", machine.machine);
}

/* Ranks of the fullest node. */
static int count_node_ranks(const struct comm *comm) {
  int most = 0, size = comm_get_size(comm);
  int *counts = MEM_NEW(int, size);
  for (int r = 0; r < size; r++) {
    int *count = &counts[comm_get_node(comm, r)];
    if (++*count > most) most = *count;
  }
  mem_free(counts);
  return most;
}

/* True when the ranks have not all the same text. */
static bool differ_all(struct comm *comm, const char text[2 * MOST_TEXT]) {
  char first[2 * MOST_TEXT];
  int64_t *offsets = MEM_NEW(int64_t, comm_get_size(comm) + 1);
  char *all = mem_alloc((size_t)comm_get_size(comm));
  memcpy(first, text, sizeof first);
  comm_broadcast_all(comm, 0, first, sizeof first);
  char differs = strcmp(first, text) != 0;
  comm_gather_all(comm, &differs, 1, all, offsets);
  bool any = memchr(all, 1, (size_t)comm_get_size(comm)) != NULL;
  mem_free(offsets);
  mem_free(all);
  return any;
}

char *profile_describe_device_all(struct comm *comm, const char *backend, const struct device_config *device,
                                  const char *precision) {
  char text[2 * MOST_TEXT] = "", processor[MOST_TEXT];
  const struct device_ops *ops = device_find(backend);
  profile_read_processor(processor);
  int node = count_node_ranks(comm);
  snprintf(text, sizeof text, "%s: %s, %d thread%s a rank, %s, %s, %d rank%s a node", backend, processor,
           device->threads, device->threads == 1 ? "" : "s", ops ? ops->describe() : "", precision, node,
           node == 1 ? "" : "s");
  bool differs = differ_all(comm, text);
  comm_broadcast_all(comm, 0, text, sizeof text);
  return mem_format("%s%s", text, differs ? " (and others)" : "");
}
