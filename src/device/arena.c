#include "device/arena.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct chunk {
  int64_t offset, bytes; /* with the guard */
};

struct arena {
  const char *name; /* static */
  char *base;
  int64_t range; /* bytes of address space */
  int64_t limit, used, peak, reserved;
  int64_t guard;        /* bytes behind each chunk that nobody may touch; 0 without poison */
  struct chunk *chunks; /* live ones, by offset */
  int64_t n_chunks, n_room;
};

enum { ALIGN = 64, GUARD = 64, POISON = 0xff };

/* Address space to reserve: room for holes beside what can be live at all. Where the process has a limit on it, a
 * quarter is left to everything else. */
static int64_t choose_range(int64_t limit) {
  int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE), room = mem_get_room();
  if (limit > memory) limit = memory;
  int64_t range = 4 * limit + ((int64_t)1 << 30), most = room / 4 * 3;
  return range < most ? range : most;
}

struct arena *arena_create(const char *name, int64_t limit, bool poison) {
  struct arena *a = MEM_NEW(struct arena, 1);
  a->name = name;
  a->limit = limit;
  a->guard = poison ? GUARD : 0;
  /* A process with a limit on its address space may get less; half of it may still do. */
  for (a->range = choose_range(limit); a->range >= 1 << 20; a->range /= 2) {
    void *base =
        mmap(NULL, (size_t)a->range, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    a->base = base;
    return a;
  }
  error_raise(STATUS_FAILED, "no address space for %s memory%s: raise the limit on virtual memory (ulimit -v)", name,
              mem_describe_limits());
  mem_free(a);
  return NULL;
}

void arena_destroy(struct arena **arena) {
  struct arena *a = *arena;
  if (!a) return;
  CHECK(a->n_chunks == 0, "%lld pieces of the device's memory are still allocated", (long long)a->n_chunks);
  munmap(a->base, (size_t)a->range);
  mem_free(a->chunks);
  mem_free(a);
  *arena = NULL;
}

/* Index of the live chunk before which the smallest hole that fits lies; n_chunks for the end. Sets the offset. */
static int64_t find_hole(const struct arena *a, int64_t bytes, int64_t *offset) {
  int64_t end = 0, best = a->n_chunks, best_size = INT64_MAX;
  for (int64_t i = 0; i < a->n_chunks; i++) {
    int64_t size = a->chunks[i].offset - end;
    if (size >= bytes && size < best_size) {
      best = i;
      best_size = size;
      *offset = end;
    }
    end = a->chunks[i].offset + a->chunks[i].bytes;
  }
  if (best == a->n_chunks) *offset = end;
  return best;
}

/* Gives the whole pages of a hole back to the system. */
static void release_pages(const struct arena *a, int64_t from, int64_t to) {
  int64_t page = sysconf(_SC_PAGESIZE);
  from = (from + page - 1) / page * page;
  to = to / page * page;
  if (to > from) madvise(a->base + from, (size_t)(to - from), MADV_DONTNEED);
}

static void release_holes(const struct arena *a) {
  int64_t end = 0;
  for (int64_t i = 0; i < a->n_chunks; i++) {
    release_pages(a, end, a->chunks[i].offset);
    end = a->chunks[i].offset + a->chunks[i].bytes;
  }
}

/* Large arrays go on large pages where the system has them: kernels that read rows far apart miss fewer translations.
 */
static void ask_large_pages(const struct arena *a, int64_t from, int64_t to) {
  const int64_t large = (int64_t)2 << 20;
  from = (from + large - 1) / large * large;
  to = to / large * large;
  if (to > from) madvise(a->base + from, (size_t)(to - from), MADV_HUGEPAGE);
}

static void insert_chunk(struct arena *a, int64_t index, struct chunk chunk) {
  if (a->n_chunks == a->n_room) {
    a->n_room = a->n_room ? 2 * a->n_room : 64;
    a->chunks = mem_resize(a->chunks, sizeof *a->chunks * (size_t)a->n_room);
  }
  memmove(a->chunks + index + 1, a->chunks + index, sizeof *a->chunks * (size_t)(a->n_chunks - index));
  a->chunks[index] = chunk;
  a->n_chunks++;
}

void *arena_alloc(struct arena *a, int64_t bytes, const char *what) {
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  if (bytes == 0) return NULL;
  if (bytes > a->limit - a->used) {
    error_raise(STATUS_FAILED, "%s memory: %s needs %lld bytes, %lld of %lld are in use: %lld over memory.%s_limit",
                a->name, what, (long long)bytes, (long long)a->used, (long long)a->limit,
                (long long)(bytes - (a->limit - a->used)), a->name);
    return NULL;
  }
  int64_t offset = 0, index = find_hole(a, bytes + a->guard, &offset), end = offset + bytes + a->guard;
  if (end > a->range) {
    error_raise(STATUS_FAILED, "%s memory: the reserved address space of %lld bytes is used up by %s%s", a->name,
                (long long)a->range, what, mem_describe_limits());
    return NULL;
  }
  insert_chunk(a, index, (struct chunk){offset, bytes + a->guard});
  a->used += bytes;
  if (a->used > a->peak) a->peak = a->used;
  if (end > a->reserved) {
    ask_large_pages(a, a->reserved, end);
    a->reserved = end;
  }
  if (end > a->limit) release_holes(a);
  if (a->guard) memset(a->base + offset, POISON, (size_t)(bytes + a->guard));
  return a->base + offset;
}

/* Whoever wrote beyond a chunk is found when it is freed. */
static void check_guard(const struct arena *a, const struct chunk *chunk) {
  const unsigned char *end = (unsigned char *)a->base + chunk->offset + chunk->bytes;
  for (int64_t i = 1; i <= a->guard; i++)
    CHECK(end[-i] == POISON, "%s memory was written beyond a piece of %lld bytes", a->name,
          (long long)(chunk->bytes - a->guard));
}

void arena_free(struct arena *a, void *memory) {
  if (!memory) return;
  int64_t offset = (char *)memory - a->base, low = 0, high = a->n_chunks - 1;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (a->chunks[middle].offset < offset)
      low = middle + 1;
    else
      high = middle;
  }
  CHECK(a->n_chunks && a->chunks[low].offset == offset, "freeing device memory that is not allocated");
  check_guard(a, &a->chunks[low]);
  a->used -= a->chunks[low].bytes - a->guard;
  a->n_chunks--;
  memmove(a->chunks + low, a->chunks + low + 1, sizeof *a->chunks * (size_t)(a->n_chunks - low));
}

int64_t arena_get_used(const struct arena *a) { return a->used; }
int64_t arena_get_peak(const struct arena *a) { return a->peak; }
void arena_reset_peak(struct arena *a) { a->peak = a->used; }
int64_t arena_get_reserved(const struct arena *a) { return a->reserved; }
