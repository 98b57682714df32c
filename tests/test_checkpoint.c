/* Checkpoints: what was written at one layout of layers over ranks is read at any other; full disks, limits and folders
 * that cannot be written leave all ranks with one message, the earlier checkpoint and a save that works later; damage
 * anywhere is noticed and the one before is taken; reading needs no memory beside the arrays.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "random_model.h"
#include "record/checkpoint.h"
#include "scratch.h"
#include "store/disk.h"
#include "store/h5.h"
#include "t.h"

enum { N_LAYERS = 9, MOST = 60 };

static struct comm *comm;
static int rank, size;
static const char *folder; /* of all tests; each test has one of its own below */

/* ---- the disk under test ---- */

static int64_t budget = -1; /* bytes that this rank may still write; -1: no limit */
static int failure = EIO;   /* and then */

static ssize_t write_limited(int descriptor, const void *data, size_t bytes, off_t offset) {
  if (budget >= 0 && (int64_t)bytes > budget) {
    errno = failure;
    return -1;
  }
  if (budget >= 0) budget -= (int64_t)bytes;
  return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
  return write_limited(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset) {
  return write_limited(descriptor, data, bytes, offset);
}

/* ---- saving and loading ---- */

static int64_t keep_every; /* of the next saves */

static int save(const char *where, const struct model *model, int spread, int64_t step, int64_t keep) {
  struct arrays arrays = make_arrays(model, spread, rank, size);
  visit_arrays(model, &arrays, step, 3, true);
  struct checkpoint_part part = get_part(&arrays);
  struct checkpoint_info info = {
      .step = step, .next_sample = step * 8, .tokens = step * 5000000000, .seed = UINT64_MAX - 5};
  int status = checkpoint_write_all(comm, where, model, "{\"model_type\": \"test\"}", "run:\n  seed: 1\n", &info, &part,
                                    (struct checkpoint_keep){.newest = keep, .every = keep_every});
  free_arrays(model, &arrays);
  return status;
}

/* Finds and reads the newest; its step, or -1 when something is wrong. */
static int64_t load_newest(const char *where, const struct model *model, int spread) {
  char *path;
  int64_t step = -1;
  struct checkpoint_info info = {0};
  if (checkpoint_find_all(comm, where, &path, &step) || !path) return -1;
  struct arrays arrays = make_arrays(model, spread, rank, size);
  struct checkpoint_part part = get_part(&arrays);
  int status = checkpoint_read_all(comm, path, model, false, &part, &info);
  bool good = !status && info.step == step && info.next_sample == step * 8 && info.tokens == step * 5000000000 &&
              info.seed == UINT64_MAX - 5 && visit_arrays(model, &arrays, step, 3, false) == 0 &&
              count_padding(model, &arrays) == 0;
  free_arrays(model, &arrays);
  mem_free(path);
  return good ? step : -1;
}

static char *dup_folder(const char *name) { return mem_format("%s/%s", folder, name); }

/* Number of files in a folder whose name ends so. */
static int count_files(const char *where, const char *end) {
  char *command = mem_format("ls %s | grep -c '%s$'", where, end);
  FILE *pipe = popen(command, "r");
  int n = -1;
  if (fscanf(pipe, "%d", &n) != 1) n = -1;
  pclose(pipe);
  mem_free(command);
  return n;
}

static void test_spreads(void) {
  char *where = dup_folder("spreads/not/yet/there");
  for (int s = 0; s < SPREAD_COUNT * SPREAD_COUNT; s++) {
    struct model *model = make_random_model((uint64_t)s, N_LAYERS, MOST, s % 2);
    T_CHECK(!save(where, model, s / SPREAD_COUNT, s + 1, 2), "%s", error_text());
    T_CHECK(load_newest(where, model, s % SPREAD_COUNT) == s + 1, "written %d, read %d: %s", s / SPREAD_COUNT,
            s % SPREAD_COUNT, error_text());
    free_random_model(model);
  }
  if (rank == 0) T_CHECK(count_files(where, "h5") == 2, "%d files stay of 2", count_files(where, "h5"));
  mem_free(where);
}

static void test_weights_only(void) {
  char *where = dup_folder("weights"), *path;
  int64_t step;
  struct model *model = make_random_model(1, N_LAYERS, MOST, true);
  save(where, model, SPREAD_EVEN, 4, 1);
  T_CHECK(!checkpoint_find_all(comm, where, &path, &step) && path && step == 4, "%s", error_text());
  struct arrays arrays = make_arrays(model, SPREAD_ROUND, rank, size);
  struct checkpoint_part part = get_part(&arrays);
  struct checkpoint_info info;
  T_CHECK(!checkpoint_read_all(comm, path, model, true, &part, &info), "%s", error_text());
  T_CHECK(visit_arrays(model, &arrays, 4, 1, false) == 0, "weights");
  for (int32_t l = 0; l < N_LAYERS; l++)
    for (int64_t i = 0; arrays.set[1][l] && i < model->layers[l].n_floats; i++)
      T_CHECK(arrays.set[1][l][i] == 0 && arrays.set[2][l][i] == 0, "a moment was touched");
  free_arrays(model, &arrays);
  free_random_model(model);
  mem_free(path);
  mem_free(where);
}

/* Loads into a model that differs; the message must have both words. */
static void check_misfit(const char *path, const struct model *model, const char *word, const char *other) {
  struct arrays arrays = make_arrays(model, SPREAD_EVEN, rank, size);
  struct checkpoint_part part = get_part(&arrays);
  struct checkpoint_info info;
  T_CHECK(checkpoint_read_all(comm, path, model, false, &part, &info) == STATUS_MISTAKE, "a misfit is a mistake");
  T_CHECK(strstr(error_text(), word) && strstr(error_text(), other), "%s", error_text());
  free_arrays(model, &arrays);
}

static void test_misfits(void) {
  char *where = dup_folder("misfits"), *path;
  int64_t step;
  struct model *model = make_random_model(2, N_LAYERS, MOST, false),
               *shorter = make_random_model(2, N_LAYERS - 1, MOST, false);
  save(where, model, SPREAD_EVEN, 1, 1);
  checkpoint_find_all(comm, where, &path, &step);
  check_misfit(path, shorter, "9 layers", "has 8");
  struct tensor *tensor = &model->layers[4].tensors[0];
  tensor->dims[0]--;
  check_misfit(path, model, tensor->name, "shape");
  tensor->dims[0]++;
  tensor->name[0] = 'X';
  check_misfit(path, model, "odel.layers.4.part0", "004");
  tensor->name[0] = 'm';
  int n = model->layers[4].n_tensors--;
  if (n > 1) check_misfit(path, model, model->layers[4].tensors[n - 1].name, "does not have");
  model->layers[4].n_tensors = n;
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 1, "the model itself again: %s", error_text());
  free_random_model(model);
  free_random_model(shorter);
  mem_free(path);
  mem_free(where);
}

/* ---- failures of the disk ---- */

/* After a failed save: one message on all ranks, the earlier file, nothing temporary; then saves work. */
static void check_failure(const char *where, const struct model *model, int status, int64_t step, const char *word) {
  uint64_t hash = hash_bytes(error_text(), strlen(error_text()), 0), first = hash;
  comm_broadcast_all(comm, 0, &first, sizeof first);
  T_CHECK(status == STATUS_FAILED && strstr(error_text(), word), "wanted '%s': %s", word, error_text());
  T_CHECK(hash == first, "rank %d has another message: %s", rank, error_text());
  if (rank == 0) T_CHECK(count_files(where, "tmp") == 0, "a temporary file stays");
  comm_barrier_all(comm);
  T_CHECK(load_newest(where, model, SPREAD_ROUND) == step, "the earlier checkpoint: %s", error_text());
  T_CHECK(!save(where, model, SPREAD_EVEN, step + 1, 2) && load_newest(where, model, SPREAD_EVEN) == step + 1,
          "with room again: %s", error_text());
}

static void test_size_limit(void) {
  char *where = dup_folder("limit");
  struct model *model = make_random_model(3, N_LAYERS, MOST, true);
  save(where, model, SPREAD_EVEN, 1, 2);
  const rlim_t limits[] = {0, 1000, 70000, 200000};
  struct rlimit old, limit;
  getrlimit(RLIMIT_FSIZE, &old);
  for (int i = 0; i < 4; i++) {
    limit = (struct rlimit){.rlim_cur = limits[i], .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    int status = save(where, model, SPREAD_EVEN, 100 + i, 2);
    setrlimit(RLIMIT_FSIZE, &old);
    check_failure(where, model, status, i + 1, "File too large");
  }
  free_random_model(model);
  mem_free(where);
}

/* One rank's disk fails in the middle of the data. */
static void test_failing_rank(void) {
  char *where = dup_folder("failing");
  struct model *model = make_random_model(4, N_LAYERS, MOST, false);
  save(where, model, SPREAD_ROUND, 1, 2);
  int holders = size < N_LAYERS ? size : N_LAYERS;
  for (int i = 0; i < 2 * holders; i++) {
    budget = rank == i % holders ? (i / holders) * (size > 4 ? 4 : 1000) : -1;
    failure = i % 2 ? EIO : EDQUOT;
    int status = save(where, model, SPREAD_ROUND, 100, 2);
    budget = -1;
    check_failure(where, model, status, i + 1, i % 2 ? "Input/output error" : "quota");
  }
  free_random_model(model);
  mem_free(where);
}

static void test_no_folder(void) {
  char *file = dup_folder("file"), *where = dup_folder("file/checkpoints"), *path;
  int64_t step = 5;
  struct model *model = make_random_model(5, N_LAYERS, MOST, false);
  if (rank == 0) disk_write_text(file, "not a folder");
  comm_barrier_all(comm);
  T_CHECK(save(where, model, SPREAD_EVEN, 1, 1) == STATUS_FAILED && strstr(error_text(), where), "%s", error_text());
  T_CHECK(!checkpoint_find_all(comm, where, &path, &step) && !path && step == 0, "nothing to find");
  free_random_model(model);
  mem_free(file);
  mem_free(where);
}

/* ---- damage ---- */

static void flip_byte(const char *path, int64_t at) {
  int descriptor = open(path, O_RDWR);
  uint8_t byte = 0;
  T_CHECK(pread(descriptor, &byte, 1, at) == 1, "byte %" PRId64 " of %s", at, path);
  byte ^= 0x55;
  T_CHECK(pwrite(descriptor, &byte, 1, at) == 1, "byte %" PRId64 " of %s", at, path);
  close(descriptor);
}

static int64_t get_size(const char *path) {
  struct stat status;
  return stat(path, &status) ? -1 : (int64_t)status.st_size;
}

static void test_damage(void) {
  char *where = dup_folder("damage"), *newest = dup_folder("damage/step-00000003.h5"),
       *index = dup_folder("damage/index.txt");
  struct model *model = make_random_model(6, N_LAYERS, MOST, true);
  for (int step = 1; step <= 3; step++) save(where, model, SPREAD_EVEN, step, 3);
  for (int i = 0; i < 16; i++) {
    int64_t at = random_model_pick(7, 0, (uint64_t)i, get_size(newest)), found;
    comm_barrier_all(comm);
    if (rank == 0) flip_byte(newest, i == 0 ? 0 : i == 1 ? get_size(newest) - 1 : at);
    found = load_newest(where, model, SPREAD_EVEN);
    T_CHECK(found == 2, "byte %" PRId64 " is wrong: %" PRId64 " found", at, found);
    comm_barrier_all(comm);
    if (rank == 0) flip_byte(newest, i == 0 ? 0 : i == 1 ? get_size(newest) - 1 : at);
    comm_barrier_all(comm);
  }
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 3, "whole again");
  /* A run that goes on from step 2 must not come back to step 3 later, nor keep it in place of good ones. */
  comm_barrier_all(comm);
  if (rank == 0 && truncate(newest, get_size(newest) - 1)) T_CHECK(false, "truncate");
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 2, "a byte short");
  T_CHECK(!save(where, model, SPREAD_EVEN, 2, 3) && load_newest(where, model, SPREAD_ROUND) == 2, "%s", error_text());
  if (rank == 0) T_CHECK(count_files(where, "h5") == 2, "%d files", count_files(where, "h5"));
  comm_barrier_all(comm);
  if (rank == 0) disk_write_text(index, "\x01\xff garbage\n2 17 zz\n9 9 9 ../x.h5\n9 9 9");
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 2, "index of garbage");
  comm_barrier_all(comm);
  if (rank == 0) unlink(index);
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 2, "no index");
  free_random_model(model);
  mem_free(where);
  mem_free(newest);
  mem_free(index);
}

/* The steps of the files in a folder as "1 2 3". */
static void list_steps(const char *where, char *text, size_t room) {
  size_t n = 0;
  text[0] = '\0';
  for (int step = 0; step < 20; step++) {
    char *path = mem_format("%s/step-%08d.h5", where, step);
    if (access(path, F_OK) == 0) n += (size_t)snprintf(text + n, room - n, "%s%d", n ? " " : "", step);
    mem_free(path);
  }
}

static void check_steps(const char *where, const char *steps, const char *what) {
  char there[128];
  comm_barrier_all(comm);
  if (rank == 0) {
    list_steps(where, there, sizeof there);
    T_CHECK(!strcmp(there, steps), "%s: steps %s are there, not %s", what, there, steps);
  }
  comm_barrier_all(comm);
}

/* Multiples of a number for good, the one of the lowest validation loss, and the newest. */
static void test_kept(void) {
  char *where = dup_folder("kept"), *index = dup_folder("kept/index.txt"), *text = NULL;
  struct model *model = make_random_model(6, N_LAYERS, MOST, true);
  struct checkpoint_keep keep = {.newest = 2, .every = 3};
  keep_every = keep.every;
  for (int step = 1; step <= 7; step++) save(where, model, SPREAD_EVEN, step, 2);
  check_steps(where, "3 6 7", "multiples of 3");
  if (rank == 0) {
    T_CHECK(isinf(checkpoint_get_best(where)), "nothing is the best yet");
    T_CHECK(!checkpoint_set_best(where, 7, 2.5, keep), "%s", error_text());
    T_CHECK(checkpoint_get_best(where) == 2.5, "best %g", checkpoint_get_best(where));
    T_CHECK(checkpoint_set_best(where, 5, 2.0, keep) == STATUS_FAILED, "a step that is not there");
  }
  keep_every = keep.every = 0; /* for good is for good */
  for (int step = 8; step <= 10; step++) save(where, model, SPREAD_EVEN, step, 2);
  check_steps(where, "3 6 7 9 10", "the best stays");
  if (rank == 0) {
    T_CHECK(!checkpoint_set_best(where, 10, 1.0 / 3, keep), "%s", error_text());
    T_CHECK(checkpoint_get_best(where) == 1.0 / 3, "best %g", checkpoint_get_best(where));
    T_CHECK(!disk_read_text(index, &text) && strstr(text, "step-00000010.h5 best=0.333") &&
                strstr(text, "06.h5 kept\n"),
            "%s", text);
    mem_free(text);
  }
  check_steps(where, "3 6 9 10", "another is the best");
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 10, "the newest");
  free_random_model(model);
  mem_free(where);
  mem_free(index);
}

static void put_line(const char *path, const char *line) {
  char *text = NULL, *longer;
  T_CHECK(!disk_read_text(path, &text), "%s", error_text());
  longer = mem_format("%s%s\n", text, line);
  T_CHECK(!disk_write_text(path, longer), "%s", error_text());
  mem_free(longer);
  mem_free(text);
}

/* What a killed save had in hand goes at the next start; what the index does not name is left alone. */
static void test_loose(void) {
  char *where = dup_folder("loose"), *index = dup_folder("loose/index.txt"),
       *first = dup_folder("loose/step-00000001.h5"), *other = dup_folder("loose/step-00000002.h5");
  struct model *model = make_random_model(6, N_LAYERS, MOST, true);
  for (int step = 4; step <= 5; step++) save(where, model, SPREAD_EVEN, step, 2);
  comm_barrier_all(comm);
  if (rank == 0) {
    disk_write_text(first, "killed before it was removed");
    disk_write_text(other, "put there by somebody");
    put_line(index, "# loose: step-00000001.h5");
    put_line(index, "# loose: step-00000005.h5"); /* listed: it stays */
    put_line(index, "# loose: ../loose/step-00000002.h5");
  }
  comm_barrier_all(comm);
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 5, "the newest");
  check_steps(where, "2 4 5", "what was in hand");
  comm_barrier_all(comm);
  if (rank == 0) {
    disk_write_text(first, "put there by somebody");
    char *text = NULL;
    T_CHECK(!disk_read_text(index, &text) && !strstr(text, "loose"), "%s", text);
    mem_free(text);
  }
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 5, "the newest");
  check_steps(where, "1 2 4 5", "it is known no more");
  /* Nothing that is listed is whole: what was in hand may be all that there is. */
  comm_barrier_all(comm);
  if (rank == 0) {
    T_CHECK(!disk_write_text(index, "# step bytes xxh3 file\n# loose: step-00000005.h5\n"), "%s", error_text());
    unlink(first), unlink(other);
  }
  comm_barrier_all(comm);
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 5, "the only one");
  save(where, model, SPREAD_EVEN, 6, 2);
  check_steps(where, "4 6", "it is rotated");
  free_random_model(model);
  mem_free(where);
  mem_free(index);
  mem_free(first);
  mem_free(other);
}

/* Without an index the arrays' own hashes decide. */
static void test_damage_unlisted(void) {
  char *where = dup_folder("unlisted"), *index = dup_folder("unlisted/index.txt"),
       *stale = dup_folder("unlisted/step-00000009.h5.tmp");
  char *second = dup_folder("unlisted/step-00000002.h5"), *path;
  int64_t step;
  struct model *model = make_random_model(8, N_LAYERS, MOST, false);
  save(where, model, SPREAD_EVEN, 1, 3);
  save(where, model, SPREAD_EVEN, 2, 3);
  struct arrays arrays = make_arrays(model, SPREAD_EVEN, rank, size);
  struct checkpoint_part part = get_part(&arrays);
  struct checkpoint_info info;
  comm_barrier_all(comm);
  if (rank == 0) {
    unlink(index);
    flip_byte(second, get_size(second) - 2);
    disk_write_text(stale, "half a file");
  }
  comm_barrier_all(comm);
  T_CHECK(checkpoint_read_all(comm, second, model, false, &part, &info) == STATUS_FAILED &&
              strstr(error_text(), "damaged"),
          "asked for by name: %s", error_text());
  T_CHECK(load_newest(where, model, SPREAD_EVEN) == 1, "the array's hash differs");
  if (rank == 0) T_CHECK(get_size(stale) < 0, "a temporary file is deleted");
  comm_barrier_all(comm);
  for (int i = 1; i <= 2 && rank == 0; i++) {
    char *cut = mem_format("%s/step-%08d.h5", where, i);
    T_CHECK(truncate(cut, 3000) == 0, "cut %s", cut);
    mem_free(cut);
  }
  T_CHECK(checkpoint_find_all(comm, where, &path, &step) == STATUS_FAILED && !path, "none is whole: %s", error_text());
  free_arrays(model, &arrays);
  free_random_model(model);
  mem_free(where);
  mem_free(index);
  mem_free(stale);
  mem_free(second);
}

/* ---- memory ---- */

/* kB of a line of /proc/self/status. */
static int64_t read_status(const char *key) {
  char line[256];
  long long value = -1;
  FILE *stream = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, stream))
    if (!strncmp(line, key, strlen(key))) sscanf(line + strlen(key), "%lld", &value);
  fclose(stream);
  return value;
}

static void test_memory(void) {
  char *where = dup_folder("memory"), *path;
  struct model *model = make_random_model(11, 8, 1200, false);
  int64_t step, floats = 0;
  for (int32_t l = 0; l < model->n_layers; l++) floats += model->layers[l].n_floats;
  T_CHECK(!save(where, model, SPREAD_EVEN, 1, 1), "%s", error_text());
  checkpoint_find_all(comm, where, &path, &step);
  struct arrays arrays = make_arrays(model, SPREAD_ROUND, rank, size);
  visit_arrays(model, &arrays, 2, 3, true); /* touches the memory */
  struct checkpoint_part part = get_part(&arrays);
  struct checkpoint_info info;
  int reset = open("/proc/self/clear_refs", O_WRONLY);
  bool can_reset = reset >= 0 && write(reset, "5", 1) == 1;
  if (reset >= 0) close(reset);
  int64_t before = read_status("VmRSS:");
  T_CHECK(!checkpoint_read_all(comm, path, model, false, &part, &info), "%s", error_text());
  int64_t grown = read_status("VmHWM:") - before, whole = floats * 12 / 1024;
  T_CHECK(whole > 16000, "%" PRId64 " kB are too few to tell", whole);
  if (can_reset)
    T_CHECK(grown < whole / 4, "reading %" PRId64 " kB took %" PRId64 " kB beside the arrays", whole, grown);
  T_CHECK(visit_arrays(model, &arrays, 1, 3, false) == 0, "content");
  free_arrays(model, &arrays);
  free_random_model(model);
  mem_free(where);
  mem_free(path);
}

/* Failed checks of all ranks, known to all. */
static void end_all(void) {
  int64_t counts[2] = {t_failures, t_checks}, *all = MEM_NEW(int64_t, 2 * size), *offsets = MEM_NEW(int64_t, size + 1);
  comm_gather_all(comm, counts, sizeof counts, all, offsets);
  for (int r = 0; r < size; r++)
    if (r != rank) t_failures += (int)all[2 * r], t_checks += (int)all[2 * r + 1];
  mem_free(all);
  mem_free(offsets);
}

int main(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN);
  if (comm_open_all(&argc, &argv, false, &comm)) return 1;
  rank = comm_get_rank(comm);
  size = comm_get_size(comm);
  log_init(rank);
  folder = scratch_make_all(comm);
  test_spreads();
  test_weights_only();
  test_misfits();
  test_size_limit();
  test_failing_rank();
  test_no_folder();
  test_damage();
  test_kept();
  test_loose();
  test_damage_unlisted();
  test_memory();
  T_CHECK(h5_balance() == 0, "%" PRId64 " HDF5 objects open", h5_balance());
  scratch_remove_all(comm);
  end_all();
  comm_close_all(&comm);
  T_CHECK(mem_balance() == 0, "%" PRId64 " allocations live", mem_balance());
  return t_end();
}
