/* Messages between neighbouring ranks. Every rank sends to one neighbour and answers the other with an empty word, so
 * no clock but the sender's is read: a message takes what its word comes back after, less the way of the word.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "model/footprint.h"
#include "profile/profile_internal.h"

enum { WORD = 8 /* bytes */, TAG_MESSAGE = 1, TAG_WORD = 2, MOST_SIZES = 16 };
#define MOST_BYTES ((int64_t)64 << 20)

struct line {
  struct profile_work *work;
  int64_t sizes[MOST_SIZES];
  int n;        /* sizes */
  int to, from; /* this rank's neighbours in the direction; -1: none */
  char *out, *in, word[2][WORD];
};

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Sizes of messages: a word, from 1 KiB to 4 MiB, and what a stage of the deck sends; those that the device has room
 * for twice. Ascending. */
static int list_sizes(const struct profile_work *w, int64_t sizes[MOST_SIZES]) {
  const struct micro_shape *point = &w->config->points[0];
  int64_t hidden = footprint_boundary(w->config->model, *point);
  int n = 0;
  sizes[n++] = WORD;
  for (int64_t bytes = 1 << 10; bytes <= 4 << 20; bytes *= 8) sizes[n++] = bytes;
  if (hidden > MOST_BYTES) hidden = MOST_BYTES;
  bool has_hidden = false;
  for (int i = 0; i < n; i++) has_hidden = has_hidden || sizes[i] == hidden;
  if (!has_hidden) sizes[n++] = hidden;
  qsort(sizes, (size_t)n, sizeof *sizes, compare);
  while (n > 0 && 2 * footprint_round(sizes[n - 1]) > w->limit) n--;
  return n;
}

/* One message each way round; returns the seconds until the word came back, 0 where nothing was sent. */
static double exchange(struct line *line, int64_t bytes) {
  struct comm *comm = line->work->comm;
  struct comm_request *requests[4] = {NULL}; /* message in, word back, message out, word out */
  double start = clock_now(), end = start;
  if (line->from >= 0) requests[0] = comm_receive_begin(comm, line->from, TAG_MESSAGE, line->in, bytes);
  if (line->to >= 0) {
    requests[1] = comm_receive_begin(comm, line->to, TAG_WORD, line->word[0], WORD);
    requests[2] = comm_send_begin(comm, line->to, TAG_MESSAGE, line->out, bytes);
  }
  bool waits_back = line->to >= 0, owes_word = line->from >= 0;
  for (int64_t fruitless = 0; requests[0] || requests[1] || requests[2] || requests[3]; fruitless++) {
    bool moved = false;
    for (int i = 0; i < 4; i++) moved = (requests[i] && comm_test(&requests[i])) || moved;
    if (owes_word && !requests[0]) {
      requests[3] = comm_send_begin(comm, line->from, TAG_WORD, line->word[1], WORD);
      owes_word = false;
    }
    if (waits_back && !requests[1]) {
      end = clock_now();
      waits_back = false;
    }
    if (moved)
      fruitless = -1;
    else
      comm_back_off(comm, -1, fruitless, "the messages that are measured");
  }
  return end - start;
}

static double measure_size_all(struct line *line, int64_t bytes, double budget) {
  struct profile_samples samples = {0};
  comm_barrier_all(line->work->comm);
  exchange(line, bytes);
  double once = exchange(line, bytes);
  int n = profile_choose_repetitions_all(line->work, once, budget);
  for (int i = 0; i < n; i++) {
    comm_barrier_all(line->work->comm); /* all pairs at once */
    profile_samples_add(&samples, exchange(line, bytes));
  }
  double median = profile_samples_get_median(&samples);
  profile_samples_fini(&samples);
  return median;
}

/* The first size is a word: there and back it takes two ways. */
static void fill_rows(const struct line *line, const double *seconds, struct profile_link *rows) {
  struct comm *comm = line->work->comm;
  int rank = line->work->rank;
  bool across = comm_get_node(comm, rank) != comm_get_node(comm, line->to);
  double word = 0.5 * seconds[0];
  for (int i = 0; i < line->n; i++) {
    double way = seconds[i] - word;
    rows[i] = (struct profile_link){rank, line->to, across, line->sizes[i], way > word ? way : word};
  }
}

/* A direction: +1 up the ranks, -1 down. Appends this rank's rows. */
static int measure_direction_all(struct line *line, int direction, double budget, struct profile_link *rows) {
  struct profile_work *w = line->work;
  double seconds[MOST_SIZES];
  int to = w->rank + direction, from = w->rank - direction;
  line->to = to >= 0 && to < w->size ? to : -1;
  line->from = from >= 0 && from < w->size ? from : -1;
  for (int i = 0; i < line->n; i++) seconds[i] = measure_size_all(line, line->sizes[i], budget / line->n);
  if (line->to < 0) return 0;
  fill_rows(line, seconds, rows);
  return line->n;
}

static void gather_rows_all(struct profile_work *w, const struct profile_link *rows, int n) {
  int64_t *offsets = MEM_NEW(int64_t, w->size + 1), bytes = n * (int64_t)sizeof *rows;
  comm_gather_all(w->comm, rows, bytes, NULL, offsets);
  struct profile_link *all = w->profile ? mem_alloc((size_t)offsets[w->size]) : NULL;
  comm_gather_root_all(w->comm, 0, rows, bytes, all, NULL);
  if (w->profile) profile_set_links(w->profile, all, offsets[w->size] / (int64_t)sizeof *rows);
  mem_free(all);
  mem_free(offsets);
}

int profile_links_all(struct profile_work *w, double budget) {
  if (w->size == 1) {
    profile_note(w, "not measured: messages, as there is one rank (mpiexec -n RANKS)");
    return STATUS_OK;
  }
  int status = profile_begin_all(w, STATUS_OK, "messages between neighbouring ranks");
  if (status) return status;
  const struct device_ops *ops = w->device->ops;
  struct line line = {.work = w, .word = {"word", "word"}};
  line.n = list_sizes(w, line.sizes);
  if (line.n == 0) {
    profile_note(w, "not measured: messages, as there is no memory for them (memory.device_limit)");
    return STATUS_OK;
  }
  int64_t most = footprint_round(line.sizes[line.n - 1]);
  line.out = ops->alloc(w->device, most, "messages");
  line.in = line.out ? ops->alloc(w->device, most, "messages") : NULL;
  status = comm_agree_all(w->comm, line.in ? STATUS_OK : error_status());
  if (!status) {
    struct profile_link *rows = MEM_NEW(struct profile_link, 2 * MOST_SIZES);
    ops->fill(w->device, most / (int64_t)sizeof(float), 0.0f, (float *)(void *)line.out);
    int n = measure_direction_all(&line, 1, budget / 2, rows);
    n += measure_direction_all(&line, -1, budget / 2, rows + n);
    gather_rows_all(w, rows, n);
    mem_free(rows);
  }
  ops->free(w->device, line.in);
  ops->free(w->device, line.out);
  return status;
}
