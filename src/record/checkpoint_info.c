/* Attributes of a checkpoint file: what it says about itself. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"
#include "record/checkpoint_impl.h"
#include "store/h5.h"

/* The columns of metrics.csv that are measured; step and tokens are the checkpoint's own. */
enum column_kind { INTEGER, REAL };
static const struct {
  const char *name;
  enum column_kind kind;
  size_t offset;
} columns[] = {
#define X(name, kind) {#name, kind, offsetof(struct metrics_row, name)},
    METRICS_COLUMNS(X)
#undef X
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static int write_row(struct h5_file *file, const struct metrics_row *row) {
  int status = STATUS_OK;
  for (int c = 0; c < N_COLUMNS && !status; c++) {
    if (columns[c].kind != REAL) continue;
    double value;
    memcpy(&value, (const char *)row + columns[c].offset, sizeof value);
    if (!isnan(value)) status = h5_write_double(file, "/", columns[c].name, value);
  }
  return status;
}

/* Files of before have no loss. */
static void read_row(struct h5_file *file, struct checkpoint_info *info) {
  info->row = (struct metrics_row){.step = info->step, .tokens = info->tokens};
  for (int c = 0; c < N_COLUMNS; c++) {
    double value;
    if (columns[c].kind != REAL) continue;
    if (h5_read_double(file, "/", columns[c].name, &value)) value = NAN;
    memcpy((char *)&info->row + columns[c].offset, &value, sizeof value);
  }
  error_clear();
  if (isnan(info->row.loss)) info->row.step = 0;
}

/* Numbers, truths and texts of the configuration under their own names too; lists are in the text alone. */
static int write_config(struct h5_file *file, const char *config) {
  json_t *root = json_loads(config, 0, NULL), *value;
  const char *name;
  int status = h5_write_text(file, "/", "config", config);
  json_object_foreach(root, name, value) {
    if (status) break;
    if (json_is_boolean(value)) status = h5_write_int(file, "/", name, json_is_true(value));
    if (json_is_integer(value)) status = h5_write_int(file, "/", name, (int64_t)json_integer_value(value));
    if (json_is_real(value)) status = h5_write_double(file, "/", name, json_real_value(value));
    if (json_is_string(value)) status = h5_write_text(file, "/", name, json_string_value(value));
  }
  json_decref(root);
  return status;
}

int checkpoint_write_info(struct h5_file *file, const struct checkpoint_info *info, const struct model *model,
                          const char *model_json, const char *deck) {
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {{"version", CHECKPOINT_VERSION}, {"step", info->step},          {"next_sample", info->next_sample},
                 {"tokens", info->tokens},        {"seed", (int64_t)info->seed}, {"n_layers", model->n_layers}};
  /* First, so that no key of a configuration takes the place of what the file must say. */
  int status = info->config ? write_config(file, info->config) : STATUS_OK;
  if (!status) status = h5_write_text(file, "/", "format", CHECKPOINT_FORMAT);
  if (!status) status = h5_write_text(file, "/", "model", model_json);
  if (!status) status = h5_write_text(file, "/", "deck", deck);
  if (!status && info->data) status = h5_write_text(file, "/", "data", info->data);
  if (!status && info->validation) status = h5_write_text(file, "/", "validation", info->validation);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++)
    status = h5_write_int(file, "/", numbers[i].name, numbers[i].value);
  return status || info->row.step == 0 ? status : write_row(file, &info->row);
}

int checkpoint_read_info(struct h5_file *file, const char *path, struct checkpoint_info *info, int64_t *n_layers) {
  char *format = NULL;
  int64_t version = 0, seed = 0;
  int status = h5_read_text(file, "/", "format", &format);
  if (!status && strcmp(format, CHECKPOINT_FORMAT))
    status = error_raise(STATUS_MISTAKE, "%s is no checkpoint: its format is '%s'", path, format);
  mem_free(format);
  if (!status) status = h5_read_int(file, "/", "version", &version);
  if (!status && version > CHECKPOINT_VERSION)
    status = error_raise(STATUS_MISTAKE, "%s has version %" PRId64 ", this program reads up to %d: use a newer program",
                         path, version, CHECKPOINT_VERSION);
  if (!status) status = h5_read_int(file, "/", "step", &info->step);
  if (!status) status = h5_read_int(file, "/", "next_sample", &info->next_sample);
  if (!status) status = h5_read_int(file, "/", "tokens", &info->tokens);
  if (!status) status = h5_read_int(file, "/", "seed", &seed);
  if (!status) status = h5_read_int(file, "/", "n_layers", n_layers);
  info->seed = (uint64_t)seed;
  if (!status) read_row(file, info);
  return status;
}

int checkpoint_read_origin(const char *path, struct checkpoint_origin *origin) {
  struct h5_file *file;
  *origin = (struct checkpoint_origin){0};
  int status = h5_open(path, false, &file);
  if (status) return status;
  if (h5_read_text(file, "/", "model", &origin->model) || h5_read_text(file, "/", "data", &origin->data) ||
      h5_read_text(file, "/", "validation", &origin->validation))
    error_clear();
  return h5_close(&file);
}

void checkpoint_fini_origin(struct checkpoint_origin *origin) {
  mem_free(origin->model);
  mem_free(origin->data);
  mem_free(origin->validation);
  *origin = (struct checkpoint_origin){0};
}
