#include "record/trace_thin.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "record/comparison.h"
#include "record/trace.h"
#include "record/trace_rows.h"
#include "store/h5.h"
#include "store/rows.h"

enum { N_TABLES = 3, BLOCK_ROWS = 1 << 16, FIRST_STEPS = 8 };

/* The new file is flushed after so many blocks: what is not flushed lies in memory. */
enum { FLUSH_BLOCKS = 16 };

/* ---- which steps stay ---- */

bool trace_choice_keeps(const struct trace_choice *choice, int64_t step) {
  return step <= choice->first || step >= choice->last || step % choice->every == 0;
}

static int64_t count_kept(const struct trace_choice *choice, const int32_t *steps, int64_t n) {
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++) kept += trace_choice_keeps(choice, steps[i]);
  return kept;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

struct trace_choice trace_choose(const int32_t *steps, int64_t n, int64_t most, int64_t every) {
  struct trace_choice choice = {.first = INT64_MIN, .last = INT64_MAX, .every = every, .n_last = n};
  if (most < 1) most = 1;
  if (n <= most) {
    choice.first = INT64_MAX;
    return choice;
  }
  int64_t n_last = least((most + 1) / 2, TRACE_LAST_STEPS), n_first = least(most / 8, FIRST_STEPS);
  choice.n_last = n_last;
  choice.last = steps[n - n_last];
  if (n_first > 0) choice.first = steps[n_first - 1];
  while (count_kept(&choice, steps, n) > most) choice.every *= 2;
  return choice;
}

/* ---- what there is ---- */

/* The distinct steps of a table, ascending; owned by the caller. */
static int list_steps(struct h5_file *file, const struct rows_table *table, int32_t **steps, int64_t *n) {
  int64_t n_rows = 0, capacity = 0;
  int32_t *block = MEM_NEW(int32_t, BLOCK_ROWS);
  *steps = NULL;
  *n = 0;
  int status = rows_count(file, table, &n_rows);
  for (int64_t first = 0; first < n_rows && !status; first += BLOCK_ROWS) {
    int64_t rows = least(BLOCK_ROWS, n_rows - first);
    status = rows_read_steps(file, table, first, rows, block);
    for (int64_t i = 0; i < rows && !status; i++) {
      if (*n > 0 && (*steps)[*n - 1] == block[i]) continue;
      if (*n == capacity) *steps = mem_resize(*steps, sizeof **steps * (size_t)(capacity = 2 * capacity + 256));
      (*steps)[(*n)++] = block[i];
    }
  }
  mem_free(block);
  return status;
}

/* Chooses for every table. Steps of /nodes are those of /peaks, which has far fewer rows. What rows take differs little
 * from step to step. */
static int choose(struct h5_file *old, int64_t target, int64_t every, struct trace_choice choices[N_TABLES]) {
  int64_t nodes = 0, peaks = 0, lines = 0, n, n_lines;
  int32_t *steps = NULL, *all = NULL;
  int status = rows_get_bytes(old, trace_rows_get_nodes(), &nodes);
  if (!status) status = rows_get_bytes(old, trace_rows_get_peaks(), &peaks);
  if (!status) status = rows_get_bytes(old, trace_rows_get_steps(), &lines);
  if (!status) status = list_steps(old, trace_rows_get_peaks(), &steps, &n);
  if (!status) status = list_steps(old, trace_rows_get_steps(), &all, &n_lines);
  if (!status) {
    bool long_lines = lines > target / 2;
    double line_share = long_lines ? (double)(target / 4) / (double)lines : 1;
    double room = (double)target - (double)lines * line_share, share = room / (double)(nodes + peaks + 1);
    choices[0] = choices[1] = trace_choose(steps, n, share < 1 ? (int64_t)(share * (double)n) : n, every);
    choices[2] = trace_choose(all, n_lines, long_lines ? (int64_t)(line_share * (double)n_lines) : n_lines, 1);
  }
  mem_free(steps);
  mem_free(all);
  return status;
}

/* ---- copying ---- */

/* Copies the rows of a block that stay: reads from the first to the last of them. */
static int copy_block(struct h5_file *old, struct h5_file *new, const struct rows_table *table, int64_t first,
                      const int32_t *steps, int64_t n, const struct trace_choice *choice, char *rows) {
  int64_t begin = 0, end = n, kept = 0;
  while (begin < end && !trace_choice_keeps(choice, steps[begin])) begin++;
  while (end > begin && !trace_choice_keeps(choice, steps[end - 1])) end--;
  if (begin == end) return STATUS_OK;
  int status = rows_read(old, table, first + begin, end - begin, rows);
  for (int64_t i = begin; i < end && !status; i++)
    if (trace_choice_keeps(choice, steps[i]))
      memmove(rows + table->row_bytes * (size_t)kept++, rows + table->row_bytes * (size_t)(i - begin),
              table->row_bytes);
  return status ? status : rows_append(new, table, rows, kept);
}

static int copy_table(struct h5_file *old, struct h5_file *new, const struct rows_table *table, int64_t chunk,
                      const struct trace_choice *choice) {
  int64_t n_rows = 0;
  int32_t *steps = MEM_NEW(int32_t, BLOCK_ROWS);
  char *rows = mem_alloc(table->row_bytes * BLOCK_ROWS);
  int status = rows_create_for(new, table, chunk);
  if (!status) status = rows_count(old, table, &n_rows);
  for (int64_t first = 0, block = 1; first < n_rows && !status; first += BLOCK_ROWS, block++) {
    int64_t n = least(BLOCK_ROWS, n_rows - first);
    status = rows_read_steps(old, table, first, n, steps);
    if (!status) status = copy_block(old, new, table, first, steps, n, choice, rows);
    if (!status && block % FLUSH_BLOCKS == 0) status = h5_flush(new);
  }
  mem_free(steps);
  mem_free(rows);
  return status;
}

static char *make_name(const char *path) { return mem_format("%s.thin", path); }

void trace_thin_clean(const char *path) {
  static const char *const ends[] = {"", ".tmp", ".journal"};
  char *name = make_name(path);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    char *file = mem_format("%s%s", name, ends[i]);
    unlink(file);
    mem_free(file);
  }
  mem_free(name);
}

int trace_thin(struct h5_file **file, const char *path, int64_t limit, const int64_t chunks[3],
               int (*write_attributes)(void *context, struct h5_file *file), void *context,
               struct trace_choice *choice) {
  const struct rows_table *tables[N_TABLES] = {trace_rows_get_nodes(), trace_rows_get_peaks(), trace_rows_get_steps()};
  struct trace_choice choices[N_TABLES] = {0};
  struct h5_file *new = NULL;
  char *name = make_name(path);
  int status = choose(*file, limit / 4, choice->every, choices);
  if (!status) status = h5_create_packed(name, &new);
  if (!status) status = write_attributes(context, new);
  if (!status) status = h5_write_int(new, "/", "kept_every", choices[0].every);
  for (int t = 0; t < N_TABLES && !status; t++) status = copy_table(*file, new, tables[t], chunks[t], &choices[t]);
  if (!status) status = comparison_copy(*file, new);
  if (!status) status = h5_move(new, path);
  mem_free(name);
  if (status) {
    h5_discard(&new);
    trace_thin_clean(path);
    return error_wrap("%s cannot be thinned to run.trace_limit", path);
  }
  h5_discard(file);
  *choice = choices[0];
  *file = new;
  return STATUS_OK;
}
