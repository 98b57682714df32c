#include "record/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "record/comparison.h"
#include "record/trace_after.h"
#include "record/trace_rows.h"
#include "record/trace_thin.h"
#include "store/h5.h"
#include "store/rows.h"

enum { N_TABLES = 3, NODES = 0, PEAKS = 1, STEPS = 2, TRACE_VERSION = 1, USUAL_CHUNK = 4096 };

/* Rows that wait for the next flush. */
struct pending {
  char *rows;
  int64_t n, capacity;
};

struct trace {
  struct comm *comm;
  const struct rows_table *tables[N_TABLES];
  struct pending pending[N_TABLES]; /* this rank's; steps on rank 0 only */
  int64_t chunks[N_TABLES];         /* rows of a chunk where a table is made: about what a flush brings */
  char *path;
  int64_t limit;        /* bytes that the file may have */
  int64_t every;        /* one in so many steps is kept, beside the first and last ones */
  struct h5_file *file; /* rank 0 */
  bool is_new;          /* nothing has been appended to what create_file made */
};

static void add_row(struct trace *trace, int t, const void *row) {
  struct pending *pending = &trace->pending[t];
  size_t bytes = trace->tables[t]->row_bytes;
  if (pending->n == pending->capacity) {
    pending->capacity = pending->capacity ? 2 * pending->capacity : 256;
    pending->rows = mem_resize(pending->rows, bytes * (size_t)pending->capacity);
  }
  memcpy(pending->rows + bytes * (size_t)pending->n++, row, bytes);
}

/* ---- opening ---- */

static int write_attributes(void *context, struct h5_file *file) {
  const struct trace *trace = context;
  char *hosts = mem_strdup(comm_get_host(trace->comm, 0));
  for (int r = 1; r < comm_get_size(trace->comm); r++) {
    char *longer = mem_format("%s,%s", hosts, comm_get_host(trace->comm, r));
    mem_free(hosts);
    hosts = longer;
  }
  int status = h5_write_text(file, "/", "format", "penstock-trace");
  if (!status) status = h5_write_int(file, "/", "version", TRACE_VERSION);
  if (!status) status = h5_write_int(file, "/", "n_ranks", comm_get_size(trace->comm));
  if (!status) status = h5_write_text(file, "/", "hosts", hosts);
  mem_free(hosts);
  return status;
}

static int create_file(struct trace *trace, const char *path) {
  int status = h5_create_packed(path, &trace->file);
  trace->every = 1;
  trace->is_new = true;
  for (int t = 0; t < N_TABLES && !status; t++) status = rows_create(trace->file, trace->tables[t]);
  if (!status) status = write_attributes(trace, trace->file);
  if (!status) status = h5_write_int(trace->file, "/", "kept_every", trace->every);
  if (!status) status = h5_flush(trace->file);
  return status;
}

/* Files of before the limit have all steps. */
static void read_every(struct trace *trace) {
  if (!h5_read_int(trace->file, "/", "kept_every", &trace->every) && trace->every >= 1) return;
  trace->every = 1;
  error_clear();
}

/* Opens an earlier life's file and removes later steps. */
static int continue_file(struct trace *trace, const char *path, int64_t last_step) {
  int status = h5_open(path, true, &trace->file);
  for (int t = 0; t < N_TABLES && !status; t++) {
    int64_t n = 0;
    status = rows_complete(trace->file, trace->tables[t]);
    if (!status) status = rows_count_until(trace->file, trace->tables[t], last_step, &n);
    if (!status) status = rows_truncate(trace->file, trace->tables[t], n);
  }
  if (!status) status = comparison_clear(trace->file);
  if (!status) status = write_attributes(trace, trace->file);
  if (status)
    h5_discard(&trace->file);
  else
    read_every(trace);
  return status ? status : h5_flush(trace->file);
}

static int open_file(struct trace *trace, const char *path, int64_t last_step) {
  if (last_step <= 0 || access(path, F_OK)) return create_file(trace, path);
  int status = continue_file(trace, path, last_step);
  if (!status || trace->file) return status;
  char *old = mem_format("%s.old", path);
  log_warn("%s; a new trace is begun, the old one is now %s", error_text(), old);
  if (rename(path, old)) log_warn("cannot rename %s: %s", path, limits_reason(errno));
  mem_free(old);
  return create_file(trace, path);
}

static void free_trace(struct trace **trace) {
  mem_free((*trace)->path);
  for (int t = 0; t < N_TABLES; t++) mem_free((*trace)->pending[t].rows);
  mem_free(*trace);
  *trace = NULL;
}

int trace_open_all(struct comm *comm, const char *path, int64_t last_step, struct trace **out) {
  struct trace *trace = MEM_NEW(struct trace, 1);
  trace->comm = comm;
  trace->path = mem_strdup(path);
  trace->limit = INT64_MAX;
  for (int t = 0; t < N_TABLES; t++) trace->chunks[t] = USUAL_CHUNK;
  trace->tables[NODES] = trace_rows_get_nodes();
  trace->tables[PEAKS] = trace_rows_get_peaks();
  trace->tables[STEPS] = trace_rows_get_steps();
  if (comm_get_rank(comm) == 0) trace_thin_clean(path);
  int status = comm_get_rank(comm) == 0 ? open_file(trace, path, last_step) : STATUS_OK;
  status = comm_agree_all(comm, status);
  *out = trace;
  if (!status) return STATUS_OK;
  h5_discard(&trace->file);
  free_trace(out);
  return status;
}

void trace_set_limit(struct trace *trace, int64_t bytes) { trace->limit = bytes; }

/* ---- adding ---- */

int trace_add(struct trace *trace, const struct dag *dag, const struct trace_span *spans, const struct trace_step *step,
              int64_t peak, int64_t static_bytes) {
  int rank = comm_get_rank(trace->comm);
  /* Spans are of this rank's clock; rank 0's is the one that counts. */
  double shift = comm_get_clock_offset(trace->comm) - step->start;
  int32_t first = dag->rank_offset[rank], n = dag->rank_offset[rank + 1] - first;
  for (int32_t i = 0; i < n; i++) {
    struct node_row row = trace_rows_make_node(dag, first + i, step->step, spans[i].start + shift, spans[i].end + shift,
                                               trace_after_find(dag, spans, rank, first + i));
    add_row(trace, NODES, &row);
  }
  struct peak_row row = {.step = (int32_t)step->step,
                         .rank = rank,
                         .device_bytes = peak,
                         .host_bytes = step->host_peak,
                         .disk_bytes = step->disk_peak,
                         .device_static_bytes = static_bytes};
  add_row(trace, PEAKS, &row);
  if (rank > 0) return STATUS_OK;
  struct step_row line = {.step = (int32_t)step->step,
                          .loss = step->loss,
                          .tokens = step->tokens,
                          .seconds = step->seconds,
                          .predicted_seconds = step->predicted_seconds,
                          .plan_hash = (int64_t)step->plan_hash,
                          .starts = step->starts};
  add_row(trace, STEPS, &line);
  return STATUS_OK;
}

/* ---- flushing ---- */

/* Every row begins with its step. */
static int32_t get_step(const char *row) {
  int32_t step;
  memcpy(&step, row, sizeof step);
  return step;
}

/* Puts rows of all ranks (in rank order, each with ascending steps) in the order of steps, then ranks. Owned by the
 * caller. */
static char *merge_rows(const char *rows, size_t row_bytes, const int64_t *offsets, int n_ranks) {
  char *merged = mem_alloc((size_t)offsets[n_ranks]), *out = merged;
  int64_t *next = MEM_NEW(int64_t, n_ranks);
  for (int r = 0; r < n_ranks; r++) next[r] = offsets[r];
  while (out < merged + offsets[n_ranks]) {
    int32_t step = INT32_MAX;
    for (int r = 0; r < n_ranks; r++)
      if (next[r] < offsets[r + 1] && get_step(rows + next[r]) < step) step = get_step(rows + next[r]);
    for (int r = 0; r < n_ranks; r++)
      for (; next[r] < offsets[r + 1] && get_step(rows + next[r]) <= step;
           next[r] += (int64_t)row_bytes, out += row_bytes)
        memcpy(out, rows + next[r], row_bytes);
  }
  mem_free(next);
  return merged;
}

/* Each step of the nodes of all ranks. */
static void settle_steps(struct node_row *rows, int64_t n) {
  for (int64_t first = 0, end; first < n; first = end) {
    for (end = first; end < n && rows[end].step == rows[first].step;) end++;
    trace_after_settle(rows + first, end - first);
  }
}

/* A new file's tables get chunks of about what a flush brings: its last chunks are packed anew at every flush, and many
 * small ones take more room. */
static int fit_chunks(struct trace *trace, int t, int64_t n) {
  if (n == 0) return STATUS_OK;
  trace->chunks[t] = n;
  if (!trace->is_new) return STATUS_OK;
  int status = h5_remove(trace->file, trace->tables[t]->group);
  return status ? status : rows_create_for(trace->file, trace->tables[t], n);
}

/* Appends rows to a table and flushes none of it. */
static int append_merged(struct trace *trace, int t, const char *rows, const int64_t *offsets, int n_ranks) {
  size_t bytes = trace->tables[t]->row_bytes;
  char *merged = merge_rows(rows, bytes, offsets, n_ranks);
  int64_t n = offsets[n_ranks] / (int64_t)bytes;
  if (t == NODES) settle_steps((struct node_row *)(void *)merged, n);
  int status = fit_chunks(trace, t, n);
  if (!status) status = rows_append(trace->file, trace->tables[t], merged, n);
  mem_free(merged);
  return status;
}

/* All ranks' rows of a table to rank 0, which appends them. */
static int gather_table_all(struct trace *trace, int t) {
  struct pending *pending = &trace->pending[t];
  int n_ranks = comm_get_size(trace->comm), rank = comm_get_rank(trace->comm), status = STATUS_OK;
  int64_t bytes = pending->n * (int64_t)trace->tables[t]->row_bytes;
  int64_t *offsets = MEM_NEW(int64_t, n_ranks + 1);
  comm_gather_root_all(trace->comm, 0, pending->rows, bytes, NULL, offsets);
  char *all = rank == 0 ? mem_alloc((size_t)offsets[n_ranks]) : NULL;
  comm_gather_root_all(trace->comm, 0, pending->rows, bytes, all, offsets);
  if (rank == 0) status = append_merged(trace, t, all, offsets, n_ranks);
  mem_free(all);
  mem_free(offsets);
  return status;
}

/* Rows of each table now; false when the file cannot tell. */
static bool count_rows(struct trace *trace, int64_t counts[N_TABLES]) {
  for (int t = 0; t < N_TABLES; t++)
    if (rows_count(trace->file, trace->tables[t], &counts[t])) return false;
  return true;
}

/* After a failed flush: takes back what it would have added, or a disk that stays full would fill the memory. */
static int take_back(struct trace *trace, const int64_t counts[N_TABLES], int32_t first, int32_t last) {
  int status = first == last ? error_wrap("step %" PRId32 " is missing from the trace", first)
                             : error_wrap("steps %" PRId32 " to %" PRId32 " are missing from the trace", first, last);
  char *text = mem_strdup(error_text());
  for (int t = 0; t < N_TABLES; t++)
    if (rows_truncate(trace->file, trace->tables[t], counts[t])) log_warn("%s", error_text());
  status = error_raise(status, "%s", text);
  mem_free(text);
  return status;
}

static void get_steps(const struct trace *trace, int32_t *first, int32_t *last) {
  const struct pending *steps = &trace->pending[STEPS];
  size_t bytes = trace->tables[STEPS]->row_bytes;
  *first = *last = 0;
  if (steps->n == 0) return;
  *first = get_step(steps->rows);
  *last = get_step(steps->rows + bytes * (size_t)(steps->n - 1));
}

/* Says what stays, once and whenever that becomes less. */
static void note_thinning(struct trace *trace, const struct trace_choice *choice) {
  if (choice->every <= trace->every) return;
  trace->every = choice->every;
  char limit[32];
  bytes_format(trace->limit, limit, sizeof limit);
  log_line("note: %s has reached run.trace_limit (%s): from now on one step in %" PRId64 " and the last %" PRId64
           " are kept",
           trace->path, limit, choice->every, choice->n_last);
}

/* Puts what was appended on the disk, in a file of no more than the limit. */
static int flush_within_limit(struct trace *trace) {
  struct trace_choice choice = {.every = trace->every};
  if (h5_get_size(trace->file) <= trace->limit) return h5_flush(trace->file);
  int status = trace_thin(&trace->file, trace->path, trace->limit, trace->chunks, write_attributes, trace, &choice);
  if (!status) note_thinning(trace, &choice);
  return status;
}

int trace_flush_all(struct trace *trace) {
  int64_t counts[N_TABLES] = {0};
  int32_t first, last;
  bool root = comm_get_rank(trace->comm) == 0;
  int status = root && !count_rows(trace, counts) ? error_status() : STATUS_OK;
  for (int t = 0; t < N_TABLES; t++) {
    int appended = gather_table_all(trace, t);
    if (!status) status = appended;
  }
  if (root && !status) status = flush_within_limit(trace);
  if (trace->pending[STEPS].n > 0 && !status) trace->is_new = false;
  if (root && status) {
    get_steps(trace, &first, &last);
    status = take_back(trace, counts, first, last);
  }
  for (int t = 0; t < N_TABLES; t++) trace->pending[t].n = 0;
  return comm_agree_all(trace->comm, status);
}

void trace_flush_alone(struct trace *trace) {
  if (!trace->file) return;
  int status = STATUS_OK;
  for (int t = 0; t < N_TABLES; t++) {
    if (!status) status = rows_append(trace->file, trace->tables[t], trace->pending[t].rows, trace->pending[t].n);
    trace->pending[t].n = 0;
  }
  if (!status && h5_get_size(trace->file) <= trace->limit) h5_flush(trace->file);
}

int trace_put_comparison(struct trace *trace, const struct comparison *comparison) {
  return comparison_write(trace->file, comparison);
}

int trace_close_all(struct trace **trace) {
  if (!*trace) return STATUS_OK;
  struct comm *comm = (*trace)->comm;
  int status = trace_flush_all(*trace);
  int closed = h5_close(&(*trace)->file);
  free_trace(trace);
  return status ? status : comm_agree_all(comm, closed);
}

void trace_discard(struct trace **trace) {
  if (!*trace) return;
  if ((*trace)->file) h5_discard(&(*trace)->file);
  free_trace(trace);
}
