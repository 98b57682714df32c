/* Device memory: counted, limited to the byte, reused, and given back to the system where holes would add up. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "device/arena.h"
#include "t.h"

static uint64_t draw(uint64_t n) {
  static const struct rng_key key = {.seed = 8, .purpose = RNG_TEST};
  static uint64_t drawn;
  return rng_bits(&key, drawn++) % n;
}

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* ---- random use against a list of what is live ---- */

struct live {
  unsigned char *data;
  int64_t bytes;
  unsigned char mark;
};

enum { SLOTS = 40 };

static void check_apart(const struct live *live, const struct live *new) {
  for (int i = 0; i < SLOTS; i++) {
    if (!live[i].data || &live[i] == new) continue;
    bool before = new->data + round_up(new->bytes) <= live[i].data;
    bool after = live[i].data + round_up(live[i].bytes) <= new->data;
    T_CHECK(before || after, "a block of %lld bytes lies on one of %lld", (long long)new->bytes,
            (long long)live[i].bytes);
  }
}

static void check_content(const struct live *block) {
  T_CHECK(block->data[0] == block->mark && block->data[block->bytes - 1] == block->mark &&
              block->data[block->bytes / 2] == block->mark,
          "a block of %lld bytes was written by another", (long long)block->bytes);
}

static int64_t alloc_one(struct arena *arena, struct live *live, int i, int64_t used, int64_t limit) {
  int64_t bytes = 1 + (int64_t)draw(draw(2) ? 300 : 20000);
  void *data = arena_alloc(arena, bytes, "a block");
  bool fits = used + round_up(bytes) <= limit;
  T_CHECK((data != NULL) == fits, "%lld bytes on top of %lld of %lld: %s", (long long)bytes, (long long)used,
          (long long)limit, data ? "given" : "refused");
  if (!data) return 0;
  T_CHECK((uintptr_t)data % 64 == 0, "a block at %p", data);
  live[i] = (struct live){data, bytes, (unsigned char)draw(256)};
  check_apart(live, &live[i]);
  memset(data, live[i].mark, (size_t)bytes);
  return round_up(bytes);
}

static int64_t free_one(struct arena *arena, struct live *block) {
  check_content(block);
  arena_free(arena, block->data);
  int64_t bytes = round_up(block->bytes);
  *block = (struct live){0};
  return bytes;
}

static void test_random(void) {
  const int64_t limit = 128000;
  struct arena *arena = arena_create("device", limit, true);
  struct live live[SLOTS] = {0};
  int64_t used = 0, peak = 0, refused = 0;
  for (int n = 0; n < 20000; n++) {
    int i = (int)draw(SLOTS);
    int64_t before = used;
    if (live[i].data)
      used -= free_one(arena, &live[i]);
    else
      used += alloc_one(arena, live, i, used, limit);
    refused += used == before;
    peak = used > peak ? used : peak;
    if (draw(1000) == 0) {
      arena_reset_peak(arena);
      peak = used;
    }
    T_CHECK(arena_get_used(arena) == used && arena_get_peak(arena) == peak, "used %lld, peak %lld; are %lld and %lld",
            (long long)arena_get_used(arena), (long long)arena_get_peak(arena), (long long)used, (long long)peak);
  }
  T_CHECK(refused > 100, "only %lld requests were too large", (long long)refused);
  for (int i = 0; i < SLOTS; i++)
    if (live[i].data) used -= free_one(arena, &live[i]);
  T_CHECK(used == 0 && arena_get_used(arena) == 0, "%lld bytes left", (long long)arena_get_used(arena));
  arena_destroy(&arena);
}

/* ---- limits ---- */

static void test_limit(void) {
  struct arena *arena = arena_create("device", 1024 + 63, false);
  void *first = arena_alloc(arena, 960, "the first");
  T_CHECK(first, "%s", error_text());
  T_CHECK(!arena_alloc(arena, 65, "the second") && error_status() == STATUS_FAILED, "two blocks above the limit");
  const char *text = error_text();
  T_CHECK(strstr(text, "the second") && strstr(text, "128") && strstr(text, "960") && strstr(text, "1087") &&
              strstr(text, "1 over"),
          "what, bytes, used, limit, bytes over are not in: %s", text);
  void *second = arena_alloc(arena, 64, "the second");
  T_CHECK(second && arena_get_used(arena) == 1024, "%s", error_text());
  T_CHECK(!arena_alloc(arena, 1, "a byte"), "a byte above the limit");
  error_clear();
  T_CHECK(!arena_alloc(arena, 0, "nothing") && error_status() == STATUS_OK, "nothing is an error");
  arena_free(arena, NULL);
  arena_free(arena, first);
  T_CHECK(arena_get_used(arena) == 64 && arena_get_peak(arena) == 1024, "used %lld, peak %lld",
          (long long)arena_get_used(arena), (long long)arena_get_peak(arena));
  arena_free(arena, second);
  arena_destroy(&arena);
  arena = arena_create("device", 64, false);
  T_CHECK(!arena_alloc(arena, INT64_MAX / 2, "far too much"), "half of all bytes");
  arena_destroy(&arena);
}

/* Holes are used again, the smallest that fits first. */
static void test_holes(void) {
  struct arena *arena = arena_create("device", 1 << 20, false);
  static const int64_t sizes[] = {4096, 64, 1024, 64, 2048, 64};
  void *blocks[6];
  for (int i = 0; i < 6; i++) blocks[i] = arena_alloc(arena, sizes[i], "a block");
  int64_t reserved = arena_get_reserved(arena);
  T_CHECK(reserved == 4096 + 1024 + 2048 + 3 * 64, "reserved %lld", (long long)reserved);
  for (int i = 0; i < 6; i += 2) arena_free(arena, blocks[i]);
  void *middle = arena_alloc(arena, 1100, "a block"), *small = arena_alloc(arena, 1024, "a block"),
       *large = arena_alloc(arena, 4096, "a block");
  T_CHECK(middle == blocks[4] && small == blocks[2] && large == blocks[0], "blocks at %p, %p, %p", middle, small,
          large);
  T_CHECK(arena_get_reserved(arena) == reserved, "reserved grew to %lld", (long long)arena_get_reserved(arena));
  arena_free(arena, middle);
  arena_free(arena, small);
  arena_free(arena, large);
  for (int i = 1; i < 6; i += 2) arena_free(arena, blocks[i]);
  arena_destroy(&arena);
}

static void test_poison(void) {
  struct arena *arena = arena_create("device", 1 << 16, true);
  float *x = arena_alloc(arena, 4000, "floats");
  for (int i = 0; i < 1000; i++) T_CHECK(isnan(x[i]), "float %d is %g", i, (double)x[i]);
  memset(x, 0, 4000);
  arena_free(arena, x);
  float *y = arena_alloc(arena, 4000, "floats");
  T_CHECK(y == x && isnan(y[0]) && isnan(y[999]), "a block used again keeps its values");
  arena_free(arena, y);
  arena_destroy(&arena);
}

/* A process that runs a function and should be ended by it; true when it was. */
static bool ends(void (*function)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    fclose(stderr);
    function();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return child > 0 && status != 0;
}

static void write_beyond(void) {
  struct arena *arena = arena_create("device", 1 << 16, true);
  char *block = arena_alloc(arena, 100, "a block");
  block[128] = 0;
  arena_free(arena, block);
}

static void write_all(void) {
  struct arena *arena = arena_create("device", 1 << 16, true);
  char *block = arena_alloc(arena, 100, "a block");
  memset(block, 0, 128);
  arena_free(arena, block);
  arena_destroy(&arena);
}

static void free_twice(void) {
  struct arena *arena = arena_create("device", 1 << 16, false);
  char *block = arena_alloc(arena, 100, "a block"), *other = arena_alloc(arena, 100, "another block");
  arena_free(arena, block);
  arena_free(arena, block);
  arena_free(arena, other);
}

static void leave_one(void) {
  struct arena *arena = arena_create("device", 1 << 16, false);
  arena_alloc(arena, 100, "a block");
  arena_destroy(&arena);
}

static void test_misuse(void) {
  T_CHECK(ends(write_beyond), "writing behind a block goes unseen");
  T_CHECK(!ends(write_all), "writing all of a block is taken for a mistake");
  T_CHECK(ends(free_twice), "a block can be freed twice");
  T_CHECK(ends(leave_one), "a block that is left goes unseen");
}

/* ---- resident memory ---- */

/* Pages of this process that are in memory, bytes. */
static int64_t get_resident(void) {
  long long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%lld %lld", &size, &resident) != 2) resident = -1;
  if (file) fclose(file);
  return resident < 0 ? -1 : resident * sysconf(_SC_PAGESIZE);
}

/* Every second block is freed, and larger ones that fit into no hole come after: the holes' pages go back, so that no
 * more than the limit is in memory although addresses reach far beyond it. */
static void test_resident(void) {
  enum { N = 64, BLOCK = 1 << 20 };
  const int64_t limit = (int64_t)N * BLOCK, slack = 4 << 20;
  if (get_resident() < 0) return;
  struct arena *arena = arena_create("device", limit, false);
  int64_t start = get_resident();
  char *blocks[N], *larger[N / 4];
  for (int i = 0; i < N; i++) {
    blocks[i] = arena_alloc(arena, BLOCK, "a block");
    memset(blocks[i], i, BLOCK);
  }
  T_CHECK(get_resident() - start >= limit - slack, "%lld bytes in memory", (long long)(get_resident() - start));
  for (int i = 0; i < N; i += 2) arena_free(arena, blocks[i]);
  int n = 0;
  for (; n < N / 4 - 1; n++) {
    larger[n] = arena_alloc(arena, 2 * BLOCK, "a larger block");
    T_CHECK(larger[n], "%s", error_text());
    if (!larger[n]) break;
    memset(larger[n], n, 2 * BLOCK);
  }
  T_CHECK(arena_get_reserved(arena) > limit, "reserved %lld", (long long)arena_get_reserved(arena));
  int64_t resident = get_resident() - start;
  T_CHECK(resident <= limit + slack, "%lld bytes in memory, the limit is %lld", (long long)resident, (long long)limit);
  for (int i = 1; i < N; i += 2) {
    T_CHECK(blocks[i][0] == (char)i && blocks[i][BLOCK - 1] == (char)i, "block %d was lost", i);
    arena_free(arena, blocks[i]);
  }
  for (int i = 0; i < n; i++) {
    T_CHECK(larger[i][0] == (char)i && larger[i][2 * BLOCK - 1] == (char)i, "larger block %d was lost", i);
    arena_free(arena, larger[i]);
  }
  arena_destroy(&arena);
  T_CHECK(get_resident() - start <= slack, "%lld bytes stay", (long long)(get_resident() - start));
}

/* No limit: as much as there is. */
static void test_unlimited(void) {
  struct arena *arena = arena_create("device", INT64_MAX, false);
  T_CHECK(arena, "%s", error_text());
  if (!arena) return;
  void *block = arena_alloc(arena, (int64_t)3 << 30, "3 GiB that nobody touches");
  T_CHECK(block, "%s", error_text());
  arena_free(arena, block);
  arena_destroy(&arena);
}

int main(void) {
  test_random();
  test_limit();
  test_holes();
  test_poison();
  test_misuse();
  test_resident();
  test_unlimited();
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
