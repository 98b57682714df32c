/* Trace events: JSON that viewers of traces open. */
#include <inttypes.h>

#include "plan/plan.h"
#include "report/picture.h"

/* Writes the comma before every event but the first. */
struct events {
  FILE *out;
  bool any;
};

static FILE *next_event(struct events *events) {
  if (events->any) fputs(",\n", events->out);
  events->any = true;
  return events->out;
}

/* Names of a rank's process and of its threads. */
static void write_names(struct events *e, const struct timeline *t, int32_t rank, int64_t process) {
  fprintf(next_event(e),
          "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%" PRId64 ",\"tid\":0,\"args\":{\"name\":\"%s rank %d\"}}",
          process, t->title, (int)rank);
  fprintf(next_event(e),
          "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%" PRId64
          ",\"tid\":0,\"args\":{\"sort_index\":%" PRId64 "}}",
          process, process);
  for (int s = 0; s < STREAM_COUNT; s++)
    fprintf(next_event(e),
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%" PRId64 ",\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
            process, s, stream_get_name((enum stream)s));
}

static void write_node(struct events *e, const struct timeline *t, const struct node_row *row, int64_t process) {
  FILE *out = next_event(e);
  const char *kind = node_kind_get_name((enum node_kind)row->kind);
  fprintf(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s", t->title, kind);
  if (row->microbatch >= 0) fprintf(out, " %d", (int)row->microbatch);
  fprintf(out,
          "\",\"pid\":%" PRId64 ",\"tid\":%d,\"ts\":%.4f,\"dur\":%.4f,\"args\":{\"node\":%d,\"stage\":%d,"
          "\"microbatch\":%d,\"layer\":%d,\"peer\":%d,\"bytes\":%" PRId64 "}}",
          process, row->stream, (row->start_s - t->begin_s) * 1e6, (row->end_s - row->start_s) * 1e6, (int)row->node,
          (int)row->stage, (int)row->microbatch, (int)row->layer, (int)row->peer, row->bytes);
}

static void write_bytes(struct events *e, int64_t process, double seconds, int64_t bytes) {
  fprintf(next_event(e),
          "{\"ph\":\"C\",\"name\":\"device bytes\",\"pid\":%" PRId64
          ",\"tid\":0,\"ts\":%.4f,\"args\":{\"bytes\":%" PRId64 "}}",
          process, seconds * 1e6, bytes);
}

static void write_timeline(struct events *e, const struct timeline *t, int64_t first_process) {
  int32_t rank = -1;
  int64_t in_use = 0;
  for (int64_t i = 0; i < t->n_rows; i++) {
    const struct node_row *row = &t->rows[i];
    int64_t process = first_process + row->rank;
    if (row->rank != rank) {
      rank = row->rank;
      in_use = t->bytes_static[rank];
      write_names(e, t, rank, process);
    }
    write_node(e, t, row, process);
    if (row->device_alloc) write_bytes(e, process, row->start_s - t->begin_s, in_use += row->device_alloc);
    if (row->device_free) write_bytes(e, process, row->end_s - t->begin_s, in_use -= row->device_free);
  }
}

void picture_write_chrome(FILE *out, const struct picture *picture) {
  struct events events = {.out = out};
  int64_t process = 0;
  fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", out);
  for (int i = picture->n_timelines - 1; i >= 0; i--) {
    write_timeline(&events, &picture->timelines[i], process);
    process += picture->timelines[i].n_ranks;
  }
  fputs("\n]}\n", out);
}
