#include "verify/reference_file.h"

#include "base/error.h"
#include "base/mem.h"
#include "store/h5.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Reads a dataset of exactly these dimensions (-1: any, filled in). */
static int read_array(const struct reference *r, const char *path, enum h5_type type, int n_dims, int64_t *dims,
                      void **data) {
  int found;
  int64_t shape[4];
  int status = h5_read_dataset(r->file, path, type, 4, &found, shape, data);
  if (status) return status;
  bool fits = found == n_dims;
  for (int d = 0; fits && d < n_dims; d++) {
    if (dims[d] < 0) dims[d] = shape[d];
    fits = dims[d] == shape[d];
  }
  if (fits) return STATUS_OK;
  mem_free(*data);
  *data = NULL;
  return error_raise(STATUS_MISTAKE, "%s: '%s' has another shape than the rest of the file asks for", r->path, path);
}

static int read_attributes(struct reference *r) {
  int status = h5_read_text(r->file, "/", "config", &r->config);
  if (!status) status = h5_read_text(r->file, "/", "optimizer", &r->optimizer);
  if (!status) status = h5_read_text(r->file, "/", "batch_kind", &r->batch_kind);
  if (!status) status = h5_read_int(r->file, "/", "micro_batch_rows", &r->micro_rows);
  if (status) return status;
  if (strcmp(r->batch_kind, "full") && strcmp(r->batch_kind, "padded"))
    return error_raise(STATUS_MISTAKE,
                       "%s: batches of kind '%s' are not available in this version; full and padded are", r->path,
                       r->batch_kind);
  return STATUS_OK;
}

static int read_arrays(struct reference *r) {
  int64_t dims[3] = {-1, -1, -1};
  int status = read_array(r, "tokens", H5_INT32, 3, dims, (void **)&r->tokens);
  r->n_steps = dims[0];
  r->rows = dims[1];
  r->time = dims[2];
  if (!status) status = read_array(r, "labels", H5_INT32, 3, dims, (void **)&r->labels);
  if (!status && h5_has(r->file, "lengths")) status = read_array(r, "lengths", H5_INT32, 2, dims, (void **)&r->lengths);
  if (!status) status = read_array(r, "loss", H5_FLOAT64, 1, dims, (void **)&r->loss);
  if (!status) status = read_array(r, "grad_norm", H5_FLOAT64, 1, dims, (void **)&r->grad_norm);
  if (!status && h5_has(r->file, "segments"))
    status = error_raise(STATUS_MISTAKE, "%s: packed batches are not available in this version", r->path);
  return status;
}

int reference_open(const char *path, struct reference *reference) {
  *reference = (struct reference){.path = path};
  int status = h5_open(path, false, &reference->file);
  if (!status) status = read_attributes(reference);
  if (!status) status = read_arrays(reference);
  if (!status) return STATUS_OK;
  reference_close(reference);
  if (status == STATUS_FAILED) /* whatever is wrong with a file that the user names is a mistake in the naming */
    return error_raise(STATUS_MISTAKE, "%s", error_text());
  return status;
}

void reference_close(struct reference *r) {
  h5_close(&r->file);
  mem_free(r->config);
  mem_free(r->optimizer);
  mem_free(r->batch_kind);
  mem_free(r->tokens);
  mem_free(r->labels);
  mem_free(r->lengths);
  mem_free(r->loss);
  mem_free(r->grad_norm);
  *r = (struct reference){0};
}

/* The optimizer's numbers by the names of the file and of the deck. */
static const struct {
  const char *name, *key;
} numbers[] = {
    {"lr", "lr"},
    {"min_lr", "min_lr"},
    {"eps", "eps"},
    {"weight_decay", "weight_decay"},
    {"clip", "clip"},
    {"warmup", "warmup_steps"},
    {"decay_steps", "decay_steps"},
};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers, MOST_OVERRIDES = 32 };

struct list {
  char **items;
  int n;
};

static void add(struct list *list, char *text) {
  CHECK(list->n < MOST_OVERRIDES, "too many overrides");
  list->items[list->n++] = text;
}

/* A number as a deck takes it: whole ones without a point. */
static char *format_number(const char *key, const json_t *value) {
  if (json_is_integer(value)) return mem_format("optimizer.%s=%lld", key, (long long)json_integer_value(value));
  return mem_format("optimizer.%s=%.17g", key, json_number_value(value));
}

static int add_optimizer(const struct reference *r, struct list *list) {
  json_t *root = json_loads(r->optimizer, 0, NULL);
  const json_t *beta1 = json_object_get(root, "beta1"), *beta2 = json_object_get(root, "beta2");
  int status = STATUS_OK;
  if (!json_is_object(root) || !json_is_number(json_object_get(root, "lr")))
    status = error_raise(STATUS_MISTAKE, "%s: attribute 'optimizer' is no JSON object with a number 'lr'", r->path);
  for (int i = 0; i < N_NUMBERS && !status; i++) {
    const json_t *value = json_object_get(root, numbers[i].name);
    if (value && !json_is_number(value))
      status =
          error_raise(STATUS_MISTAKE, "%s: '%s' in attribute 'optimizer' is not a number", r->path, numbers[i].name);
    else if (value)
      add(list, format_number(numbers[i].key, value));
  }
  if (!status && json_is_number(beta1) && json_is_number(beta2))
    add(list, mem_format("optimizer.betas=[%.17g, %.17g]", json_number_value(beta1), json_number_value(beta2)));
  if (!status) add(list, mem_strdup("optimizer.schedule=cosine"));
  json_decref(root);
  return status;
}

int reference_make_overrides(const struct reference *r, char ***overrides, int *n) {
  struct list list = {MEM_NEW(char *, MOST_OVERRIDES), 0};
  int status = add_optimizer(r, &list);
  add(&list, mem_format("run.steps=%lld", (long long)r->n_steps));
  add(&list, mem_format("data.batching=%s", strcmp(r->batch_kind, "full") ? r->batch_kind : "fixed"));
  add(&list, mem_format("data.sequence_length=%lld", (long long)r->time));
  add(&list, mem_format("data.global_batch=%lld", (long long)r->rows));
  add(&list, mem_format("data.micro_batch=%lld", (long long)r->micro_rows));
  add(&list, mem_strdup("pipeline.planner=1f1b"));
  add(&list, mem_strdup("pipeline.partition=even"));
  *overrides = list.items;
  *n = list.n;
  if (status) reference_free_overrides(overrides, *n);
  return status;
}

void reference_free_overrides(char ***overrides, int n) {
  for (int i = 0; i < n && *overrides; i++) mem_free((*overrides)[i]);
  mem_free(*overrides);
  *overrides = NULL;
}

int reference_read_tensor(const struct reference *r, const char *group, const struct tensor *tensor, float *data) {
  char *path = mem_format("%s/%s", group, tensor->name);
  int64_t dims[2] = {tensor->dims[0], tensor->dims[1]};
  float *values = NULL;
  int status = read_array(r, path, H5_FLOAT32, tensor->n_dims, dims, (void **)&values);
  if (!status) memcpy(data, values, sizeof *data * (size_t)tensor->count);
  if (status == STATUS_FAILED) status = error_raise(STATUS_MISTAKE, "%s", error_text());
  mem_free(values);
  mem_free(path);
  return status;
}

struct name_check {
  const struct reference *reference;
  const struct model *model;
};

static int check_name(void *context, const char *name) {
  const struct name_check *check = context;
  int tensor;
  if (model_find_tensor(check->model, name, &tensor) >= 0) return STATUS_OK;
  return error_raise(STATUS_MISTAKE, "%s: the model of attribute 'config' has no tensor '%s'", check->reference->path,
                     name);
}

int reference_check_names(const struct reference *r, const struct model *model) {
  struct name_check check = {r, model};
  return h5_list(r->file, "weights_before", check_name, &check);
}
