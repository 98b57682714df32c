/* The nodes of a large step in few bytes, for the script that draws them at the zoom.
 *
 * One JSON object: title, seconds, units (of time in `seconds`, to which all is rounded), tall (of a row), codes: what
 * nodes are: [class, kind, stage, peer, on the critical path, number is a layer], and ranks: for each a list of
 * streams, each a text of numbers to the base 36: of every node its code, the time since the node before it ended, how
 * long it lasts, and its micro-batch less the one that is expected (one more than the last of this code); empty for 0,
 * a comma after each.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan/plan.h"
#include "report/picture.h"
#include "report/style.h"

enum { UNITS = 200000, MOST_BYTES = 700 << 10, MOST_CODES = 1 << 14, DIGITS = 36 };

struct codes {
  int n;
  struct code {
    int8_t kind, shade;
    bool on_path;
    int32_t stage, peer;
    int32_t expected;
  } items[MOST_CODES];
};

/* -1: too many. Ranks have few each, so the last ones are looked at first. */
static int find_code(struct codes *codes, const struct timeline *t, int64_t row) {
  const struct node_row *node = &t->rows[row];
  for (int i = codes->n - 1; i >= 0; i--) {
    const struct code *c = &codes->items[i];
    if (c->kind == node->kind && c->stage == node->stage && c->peer == node->peer && c->on_path == t->on_path[row])
      return i;
  }
  if (codes->n == MOST_CODES) return -1;
  codes->items[codes->n] = (struct code){.kind = node->kind,
                                         .shade = (int8_t)timeline_get_shade(t, node),
                                         .on_path = t->on_path[row],
                                         .stage = node->stage,
                                         .peer = node->peer};
  return codes->n++;
}

/* Writes a number; nothing for 0. */
static void write_number(FILE *out, int64_t number) {
  char text[16];
  int n = 0;
  if (number < 0) fputc('-', out);
  for (uint64_t rest = (uint64_t)llabs(number); rest > 0; rest /= DIGITS)
    text[n++] = "0123456789abcdefghijklmnopqrstuvwxyz"[rest % DIGITS];
  while (n > 0) fputc(text[--n], out);
  fputc(',', out);
}

static int64_t find_unit(const struct timeline *t, double seconds, double at) {
  return llround((at - t->begin_s) / seconds * UNITS);
}

static bool write_stream(FILE *out, const struct timeline *t, double seconds, int32_t rank, int stream,
                         struct codes *codes) {
  int64_t before = 0;
  for (int64_t i = t->row_offset[rank]; i < t->row_offset[rank + 1]; i++) {
    const struct node_row *node = &t->rows[i];
    if (node->stream != stream) continue;
    int code = find_code(codes, t, i);
    if (code < 0) return false;
    int64_t start = find_unit(t, seconds, node->start_s), end = find_unit(t, seconds, node->end_s);
    int32_t number = node->microbatch >= 0 ? node->microbatch : node->layer;
    write_number(out, code);
    write_number(out, start - before);
    write_number(out, end - start);
    write_number(out, number - codes->items[code].expected);
    codes->items[code].expected = number + 1;
    before = end;
  }
  return true;
}

static void write_codes(FILE *out, const struct codes *codes) {
  fputs("],\"codes\":[", out);
  for (int i = 0; i < codes->n; i++) {
    const struct code *c = &codes->items[i];
    fprintf(out, "%s[\"", i ? "," : "");
    style_write_class(out, c->kind, c->shade);
    fprintf(out, "\",\"%s\",%d,%d,%d,%d]", node_kind_get_name((enum node_kind)c->kind), (int)c->stage, (int)c->peer,
            c->on_path, c->kind == NODE_U);
  }
}

/* Nodes of these streams; false when it takes too much. */
static bool write_nodes(FILE *out, const struct timeline *t, double seconds, int n_streams) {
  struct codes *codes = MEM_NEW(struct codes, 1);
  bool fits = true;
  fprintf(out, "{\"title\":\"%s\",\"seconds\":%.9g,\"units\":%d,\"ranks\":[", t->title, seconds, UNITS);
  for (int32_t r = 0; r < t->n_drawn && fits; r++) {
    fprintf(out, "%s[", r ? ",\n" : "");
    for (int s = 0; s < n_streams && fits; s++) {
      fprintf(out, "%s\"", s ? "," : "");
      fits = write_stream(out, t, seconds, r, s, codes) && ftell(out) < MOST_BYTES;
      fputc('"', out);
    }
    fputc(']', out);
  }
  write_codes(out, codes);
  fputs("]}", out);
  mem_free(codes);
  return fits && ftell(out) < MOST_BYTES;
}

enum picture_detail picture_write_data(FILE *out, const struct timeline *t, double seconds) {
  static const int tries[] = {STREAM_COUNT, 1};
  for (int i = 0; i < 2; i++) {
    char *text = NULL;
    size_t size;
    FILE *part = open_memstream(&text, &size);
    bool fits = part && write_nodes(part, t, seconds, tries[i]);
    fits = part && !fclose(part) && fits;
    if (fits) fprintf(out, "<script type=\"application/json\" id=\"%s\">\n%s\n</script>\n", t->title, text);
    free(text);
    if (fits) return i == 0 ? PICTURE_ALL : PICTURE_COMPUTE;
  }
  return PICTURE_COLUMNS;
}
