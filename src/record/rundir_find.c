/* Looks at a folder that nobody has opened: whether a run is in it, so that no other command replaces what it left. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "record/rundir_impl.h"
#include "store/disk.h"

/* Files of a run folder that no command but the run's own may replace. */
static const char *const own_files[] = {"STATUS",      "manifest.txt",  "used.yml",  "log.txt",
                                        "metrics.csv", "metrics.jsonl", "report.txt"};
static const char hdf5_signature[] = "\x89HDF\r\n\x1a\n";

static bool has_file(const char *folder, const char *name) {
  char *path = mem_format("%s/%s", folder, name);
  bool there = access(path, F_OK) == 0;
  mem_free(path);
  return there;
}

/* First line of STATUS; NULL: none. Owned by the caller. */
static char *read_first_line(const char *folder) {
  char *path = mem_format("%s/STATUS", folder), *text = NULL;
  if (disk_read_text(path, &text)) error_clear();
  if (text) text[strcspn(text, "\n")] = '\0';
  mem_free(path);
  return text;
}

char *rundir_describe_state(const char *path) {
  char *text = read_first_line(path);
  if (text) return text;
  int status = rundir_check_lock(path);
  error_clear();
  return mem_strdup(status == STATUS_STOPPED ? "running" : "killed: it left no STATUS");
}

int rundir_check_free(const char *path, const char *what) {
  static const char *const results[] = {"metrics.csv", "trace.h5", "checkpoints/index.txt"};
  if (access(path, F_OK)) return STATUS_OK;
  int status = rundir_check_lock(path);
  if (status) return error_wrap("%s was not written", what);
  char *text = read_first_line(path);
  bool ended_well = text && (!strncmp(text, "DONE", 4) || !strncmp(text, "CHECKPOINTED", 12)), found = ended_well;
  for (size_t i = 0; i < sizeof results / sizeof *results; i++) found |= has_file(path, results[i]);
  if (found)
    status = error_raise(STATUS_MISTAKE,
                         "%s holds a run (%s): %s would be replaced; give another folder (-D run.folder=FOLDER), or "
                         "remove the run's folder if it is not wanted any more",
                         path, text ? text : "no STATUS: it was killed", what);
  mem_free(text);
  return status;
}

/* The name without its folders. */
static const char *get_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool is_own_file(const char *path) {
  const char *name = get_name(path);
  char *folder = name == path ? mem_strdup(".") : mem_format("%.*s", (int)(name - path), path);
  bool own = false;
  for (size_t i = 0; i < sizeof own_files / sizeof *own_files; i++) own |= !strcmp(name, own_files[i]);
  own = own && has_file(folder, "manifest.txt");
  mem_free(folder);
  return own;
}

static bool is_hdf5(const char *path) {
  char start[sizeof hdf5_signature - 1];
  FILE *file = fopen(path, "rb");
  bool is = file && fread(start, 1, sizeof start, file) == sizeof start && !memcmp(start, hdf5_signature, sizeof start);
  if (file) fclose(file);
  return is;
}

int rundir_check_output(const char *option, const char *path) {
  struct stat found;
  bool is_there = !stat(path, &found);
  if (is_there && S_ISREG(found.st_mode) && (is_own_file(path) || is_hdf5(path)))
    return error_raise(STATUS_MISTAKE, "%s %s: it is there and holds what a run or a plan left; give another name",
                       option, path);
  if (is_there && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return STATUS_OK;
  return disk_check_writable(path) ? error_wrap("%s", option) : STATUS_OK;
}
