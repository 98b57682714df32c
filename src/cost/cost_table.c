/* Times by hand, layer by layer, from a CSV file: one row a layer of the plan, embedding and head included. */
#include "cost/cost_source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"

/* The most bytes that a layer may have: sums over any number of layers and micro-batches can be counted. */
#define MOST_BYTES 1e12

/* Columns after `layer`: X(name, most). */
#define COLUMNS(X)                                                                                                     \
  X(forward_ms, 1e18)                                                                                                  \
  X(input_ms, 1e18)                                                                                                    \
  X(weight_ms, 1e18)                                                                                                   \
  X(recompute_ms, 1e18)                                                                                                \
  X(kept_bytes, MOST_BYTES)                                                                                            \
  X(kept_weight_bytes, MOST_BYTES)                                                                                     \
  X(parameter_bytes, MOST_BYTES)                                                                                       \
  X(output_bytes, MOST_BYTES)

#define X(name, most) COLUMN_##name,
enum column { COLUMNS(X) COLUMN_COUNT };
#undef X
#define X(name, most) #name,
static const char *const column_names[] = {COLUMNS(X)};
#undef X
#define X(name, most) most,
static const double column_most[] = {COLUMNS(X)};
#undef X
#define X(name, most) "," #name
static const char header[] = "layer" COLUMNS(X);
#undef X

struct row {
  double values[COLUMN_COUNT];
};

/* The file and the place in it that is read. */
struct reader {
  const char *path;
  int line;
};

static bool is_blank(const char *text) { return !text[strspn(text, " \t\r")]; }

/* Cuts the next field off *rest, without spaces around it; NULL when there is none. */
static char *take_field(char **rest) {
  if (!*rest) return NULL;
  char *field = *rest + strspn(*rest, " \t"), *comma = strchr(field, ',');
  if (comma) *comma = '\0';
  *rest = comma ? comma + 1 : NULL;
  for (size_t n = strlen(field); n > 0 && strchr(" \t\r", field[n - 1]); n--) field[n - 1] = '\0';
  return field;
}

static int read_number(const struct reader *reader, const char *name, const char *field, double most, double *value) {
  if (!field)
    return error_raise(STATUS_MISTAKE, "%s:%d: no %s: a row has the columns %s", reader->path, reader->line, name,
                       header);
  char *end;
  *value = strtod(field, &end);
  if (end == field || *end || !isfinite(*value) || *value < 0 || *value > most)
    return error_raise(STATUS_MISTAKE, "%s:%d: %s is '%s'; allowed: a number from 0 to %g", reader->path, reader->line,
                       name, field, most);
  return STATUS_OK;
}

static int check_header(const struct reader *reader, char *line) {
  char *expected = mem_strdup(header), *left = line, *right = expected;
  int status = STATUS_OK;
  for (int i = 0; !status && i <= COLUMN_COUNT; i++) {
    const char *have = take_field(&left), *want = take_field(&right);
    if (!have || strcmp(have, want))
      status = error_raise(STATUS_MISTAKE, "%s:%d: column %d is '%s', not '%s': the first line is %s", reader->path,
                           reader->line, i + 1, have ? have : "", want, header);
  }
  if (!status && left)
    status = error_raise(STATUS_MISTAKE, "%s:%d: a column after output_bytes: the first line is %s", reader->path,
                         reader->line, header);
  mem_free(expected);
  return status;
}

static int read_row(const struct reader *reader, char *line, int32_t layer, struct row *row) {
  char *rest = line;
  double number;
  int status = read_number(reader, "layer", take_field(&rest), 1e9, &number);
  if (!status && number != layer)
    status = error_raise(STATUS_MISTAKE, "%s:%d: layer is %g, not %d: rows go through all layers in order from 0",
                         reader->path, reader->line, number, (int)layer);
  for (int c = 0; !status && c < COLUMN_COUNT; c++)
    status = read_number(reader, column_names[c], take_field(&rest), column_most[c], &row->values[c]);
  if (!status && rest)
    status = error_raise(STATUS_MISTAKE, "%s:%d: more than the columns %s", reader->path, reader->line, header);
  if (!status && row->values[COLUMN_kept_weight_bytes] > row->values[COLUMN_kept_bytes])
    status =
        error_raise(STATUS_MISTAKE, "%s:%d: kept_weight_bytes is %.0f, more than the kept_bytes %.0f it is part of",
                    reader->path, reader->line, row->values[COLUMN_kept_weight_bytes], row->values[COLUMN_kept_bytes]);
  return status;
}

static int read_rows(const char *path, char *text, int32_t n_layers, struct row *rows) {
  struct reader reader = {path, 0};
  bool has_header = false;
  int32_t n = 0;
  for (char *line = text, *next; line; line = next) {
    char *end = strchr(line, '\n');
    next = end ? end + 1 : NULL;
    if (end) *end = '\0';
    reader.line++;
    if (is_blank(line)) continue;
    if (has_header && n == n_layers)
      return error_raise(STATUS_MISTAKE,
                         "%s:%d: a row too many: the model has %d layers (two a block, embedding and head)", path,
                         reader.line, (int)n_layers);
    int status = has_header ? read_row(&reader, line, n, &rows[n]) : check_header(&reader, line);
    if (status) return status;
    n += has_header;
    has_header = true;
  }
  if (n < n_layers)
    return error_raise(STATUS_MISTAKE, "%s has %d layers, the model %d (two a block, embedding and head)", path, (int)n,
                       (int)n_layers);
  return STATUS_OK;
}

/* cost.uniform.send_ms, else cost.link, else nothing. */
static int put_messages(struct cost *cost, const struct params *params, char **notes) {
  int status = cost_spread_time(cost, params, PARAMS_TIME_send_ms, &cost->send_s);
  if (!status) status = cost_spread_time(cost, params, PARAMS_TIME_evict_ms, &cost->evict_s);
  if (status || cost->send_s) return status;
  if (params_is_set(params, PARAM_cost_link))
    cost_put_link(cost, params);
  else
    cost_add_note(notes, "messages take no time: neither cost.link nor send_ms in cost.uniform is given");
  return STATUS_OK;
}

static int create(struct cost *cost, const struct params *params, const struct cost_measured *measured, char **notes) {
  (void)measured;
  const char *path = params->cost.table;
  char *text;
  cost->text = mem_format("table %s", path);
  cost->data = MEM_NEW(struct row, cost->model->n_layers);
  int status = file_read_text(path, &text);
  if (status) return error_wrap("cost.table");
  status = read_rows(path, text, cost->model->n_layers, cost->data);
  mem_free(text);
  if (status) return status;
  return put_messages(cost, params, notes);
}

static void destroy(struct cost *cost) { mem_free(cost->data); }

static double get_value(const struct cost *cost, int32_t layer, enum column column) {
  return ((const struct row *)cost->data)[layer].values[column];
}

static double get_op(const struct cost *cost, int32_t rank, int32_t layer, int op, enum pass pass,
                     struct micro_shape shape) {
  static const enum column columns[PASS_COUNT] = {
      [PASS_FORWARD] = COLUMN_forward_ms, [PASS_INPUT] = COLUMN_input_ms, [PASS_WEIGHT] = COLUMN_weight_ms};
  (void)rank, (void)shape;
  return op == 0 ? get_value(cost, layer, columns[pass]) * 1e-3 : 0;
}

static double get_recompute(const struct cost *cost, int32_t rank, int32_t layer, uint32_t discarded,
                            struct micro_shape shape) {
  (void)rank, (void)discarded, (void)shape;
  return get_value(cost, layer, COLUMN_recompute_ms) * 1e-3;
}

static int64_t get_output_bytes(const struct cost *cost, int32_t layer) {
  return (int64_t)get_value(cost, layer, COLUMN_output_bytes);
}

static int64_t get_bytes(const struct cost *cost, int32_t layer, enum column column) {
  return (int64_t)get_value(cost, layer, column);
}

static struct layer_sizes get_sizes(const struct cost *cost, int32_t layer) {
  return (struct layer_sizes){.kept = get_bytes(cost, layer, COLUMN_kept_bytes),
                              .kept_weight = get_bytes(cost, layer, COLUMN_kept_weight_bytes),
                              .parameters = get_bytes(cost, layer, COLUMN_parameter_bytes),
                              .output = get_bytes(cost, layer, COLUMN_output_bytes)};
}

const struct cost_source cost_table = {.create = create,
                                       .destroy = destroy,
                                       .get_op = get_op,
                                       .get_recompute = get_recompute,
                                       .get_output_bytes = get_output_bytes,
                                       .get_sizes = get_sizes};
