#include "model/config.h"

#include "base/error.h"
#include "base/mem.h"
#include "model/config_notes.h"
#include "model/config_table.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_activation(const json_t *value, const char *source, const char *key, int64_t *out) {
  const char *name = json_string_value(value);
  int found = name ? config_find_activation(name) : -1;
  *out = found;
  if (found >= 0) return STATUS_OK;
  return error_raise(STATUS_MISTAKE,
                     "%s: '%s' is %s%s%s; supported: gelu_new, gelu_pytorch_tanh, gelu, silu, relu, relu2", source, key,
                     name ? "'" : "not a name", name ? name : "", name ? "'" : "");
}

static int read_key(const struct config_key *key, const json_t *value, const char *source, struct config_raw *raw) {
  void *at = (char *)raw + key->offset;
  if (key->type == CONFIG_ACTIVATION) {
    if (value) return read_activation(value, source, key->name, at);
    *(int64_t *)at = (int64_t)key->standard;
    return STATUS_OK;
  }
  if (key->type == CONFIG_BOOL) {
    if (value && !json_is_boolean(value))
      return error_raise(STATUS_MISTAKE, "%s: '%s' must be true or false", source, key->name);
    *(int64_t *)at = value ? json_is_true(value) : key->standard != 0;
    return STATUS_OK;
  }
  bool integer = key->type == CONFIG_INT;
  if (value && (integer ? !json_is_integer(value) : !json_is_number(value)))
    return error_raise(STATUS_MISTAKE, "%s: '%s' must be %s", source, key->name, integer ? "an integer" : "a number");
  double number = value ? json_number_value(value) : key->standard;
  if (value && (number < key->least || number > key->most))
    return error_raise(STATUS_MISTAKE, "%s: '%s' is %g; allowed: %g to %g", source, key->name, number, key->least,
                       key->most);
  if (integer)
    *(int64_t *)at = value ? json_integer_value(value) : (int64_t)key->standard;
  else
    *(double *)at = number;
  return STATUS_OK;
}

/* True when a value changes nothing: null, or what the table has for it. */
static bool is_harmless(const json_t *value, const char *text) {
  json_t *harmless = json_loads(text, JSON_DECODE_ANY, NULL);
  const json_t *wanted = json_is_array(harmless) ? json_array_get(harmless, 0) : harmless;
  bool same =
      json_is_null(value) || json_equal(value, harmless) ||
      (json_is_number(value) && json_is_number(wanted) && json_number_value(value) == json_number_value(wanted));
  if (!same && json_is_array(value) && json_is_array(harmless)) {
    same = true;
    for (size_t i = 0; i < json_array_size(value); i++) same &= json_equal(json_array_get(value, i), wanted);
  }
  json_decref(harmless);
  return same;
}

static int read_theta(const json_t *root, const char *object, const json_t *value, const char *source,
                      struct config_raw *raw) {
  const struct config_key *key = config_find_key(config_find_family("llama"), "rope_theta");
  const json_t *outside = json_object_get(root, key->name);
  double theta = json_number_value(value);
  if (!json_is_number(value) || theta < key->least || theta > key->most)
    return error_raise(STATUS_MISTAKE, "%s: '%s.rope_theta' must be a number from %g to %g", source, object, key->least,
                       key->most);
  if (json_is_number(outside) && json_number_value(outside) != theta)
    return error_raise(STATUS_MISTAKE, "%s: 'rope_theta' is %g and '%s.rope_theta' is %g: leave one out", source,
                       json_number_value(outside), object, theta);
  raw->theta = theta;
  return STATUS_OK;
}

/* A key inside of rope_parameters: used, harmless, or refused, since what is there is all about the arithmetic. */
static int read_rope_key(const json_t *root, const char *object, const char *name, const json_t *value,
                         const char *source, struct config_raw *raw) {
  if (!strcmp(name, "rope_theta")) return read_theta(root, object, value, source, raw);
  const struct config_refusal *row = config_rope_keys;
  while (row->name && strcmp(row->name, name)) row++;
  if (row->name && is_harmless(value, row->harmless)) return STATUS_OK;
  char *text = json_dumps(value, JSON_ENCODE_ANY);
  int status = error_raise(STATUS_MISTAKE, "%s: '%s.%s' is %.60s: %s", source, object, name, text ? text : "?",
                           row->name ? row->advice : "this key is not understood; leave it out if it changes nothing");
  free(text);
  return status;
}

/* rope_parameters and the older rope_scaling. */
static int read_rope(const json_t *root, const char *source, struct config_raw *raw) {
  static const char *const objects[] = {"rope_parameters", "rope_scaling"};
  int status = STATUS_OK;
  for (int i = 0; i < 2 && !status; i++) {
    json_t *rope = json_object_get(root, objects[i]), *value;
    const char *name;
    if (!rope || json_is_null(rope)) continue;
    if (!json_is_object(rope))
      return error_raise(STATUS_MISTAKE, "%s: '%s' must be an object or null", source, objects[i]);
    json_object_foreach(rope, name, value) {
      if (!status && !json_is_null(value)) status = read_rope_key(root, objects[i], name, value, source, raw);
    }
  }
  return status;
}

static int check_refused(const json_t *root, const struct family *family, const char *source) {
  for (const struct config_refusal *row = config_refusals; row->name; row++) {
    const json_t *value = json_object_get(root, row->name);
    if (!config_has_word(row->families, family->model_type) || !(value || row->when_absent)) continue;
    if (value && is_harmless(value, row->harmless)) continue;
    return error_raise(STATUS_MISTAKE, "%s: '%s': %s", source, row->name, row->advice);
  }
  return STATUS_OK;
}

static int find_model_type(const json_t *root, const char *source, const struct family **family) {
  const json_t *type = json_object_get(root, "model_type");
  if (!type) type = json_object_get(root, "architecture");
  if (!json_is_string(type))
    return error_raise(STATUS_MISTAKE, "%s: no 'model_type'; supported: " CONFIG_FAMILIES, source);
  *family = config_find_family(json_string_value(type));
  if (*family) return STATUS_OK;
  return error_raise(STATUS_MISTAKE,
                     "%s: model_type '%s' is not available in this version; supported: " CONFIG_FAMILIES, source,
                     json_string_value(type));
}

static int check_shape(const struct config_raw *raw, const char *source) {
  if (raw->heads % raw->kv_heads)
    return error_raise(STATUS_MISTAKE, "%s: %lld attention heads are not a multiple of %lld key-value heads", source,
                       (long long)raw->heads, (long long)raw->kv_heads);
  return STATUS_OK;
}

/* Values that follow from others, as Hugging Face has it. */
static int derive(struct config_raw *raw, const struct family *family, const char *source) {
  if (raw->kv_heads < 0) raw->kv_heads = raw->heads;
  if (raw->ffn < 0) raw->ffn = 4 * raw->hidden;
  if (raw->head_dim < 0) {
    if (raw->hidden % raw->heads)
      return error_raise(STATUS_MISTAKE, "%s: hidden size %lld is not a multiple of %lld attention heads", source,
                         (long long)raw->hidden, (long long)raw->heads);
    raw->head_dim = raw->hidden / raw->heads;
  }
  if (family->rope && raw->head_dim % 2)
    return error_raise(STATUS_MISTAKE, "%s: head size %lld is odd; rotary positions need an even one", source,
                       (long long)raw->head_dim);
  return check_shape(raw, source);
}

static int read_raw(const json_t *root, const struct family *family, const char *source, struct config_raw *raw) {
  *raw = (struct config_raw){.kv_heads = -1, .head_dim = -1, .theta = 10000};
  for (const struct config_key *key = config_keys; key->name; key++) {
    if (!config_has_word(key->families, family->model_type)) continue;
    const json_t *value = json_object_get(root, key->name);
    int status = read_key(key, json_is_null(value) ? NULL : value, source, raw);
    if (status) return status;
  }
  int status = family->rope ? read_rope(root, source, raw) : STATUS_OK;
  if (!status) status = check_refused(root, family, source);
  return status ? status : derive(raw, family, source);
}

static void fill_config(const struct config_raw *raw, const struct family *family, double init_std,
                        struct model_config *config) {
  *config = (struct model_config){
      .vocab_size = raw->vocab,
      .hidden = raw->hidden,
      .n_blocks = raw->blocks,
      .n_heads = raw->heads,
      .n_kv_heads = raw->kv_heads,
      .head_dim = raw->head_dim,
      .ffn = raw->ffn,
      .max_positions = raw->positions,
      .learned_positions = family->learned_positions,
      .layer_norm = family->layer_norm,
      .gated = family->gated,
      .rope = family->rope,
      .tied = raw->tied,
      .activation = (int)raw->activation,
      .norm_eps = (float)raw->eps,
      .rope_theta = raw->theta,
      .init_std = init_std >= 0 ? init_std : raw->init_std,
  };
  snprintf(config->model_type, sizeof config->model_type, "%s", family->model_type);
}

/* *root is the caller's to free, also after a failure. */
static int parse(const char *json, const char *source, json_t **root, const struct family **family,
                 struct config_raw *raw) {
  json_error_t place;
  *root = json_loads(json, JSON_REJECT_DUPLICATES, &place);
  if (!*root)
    return error_raise(STATUS_MISTAKE, "%s:%d:%d: not valid JSON: %s", source, place.line, place.column, place.text);
  if (!json_is_object(*root)) return error_raise(STATUS_MISTAKE, "%s: not a JSON object", source);
  int status = find_model_type(*root, source, family);
  return status ? status : read_raw(*root, *family, source, raw);
}

int config_read(const char *json, const char *source, double init_std, struct model_config *config,
                struct config_extra *extra, char **notes) {
  json_t *root;
  struct config_raw raw = {0};
  const struct family *family = NULL;
  int status = parse(json, source, &root, &family, &raw);
  if (!status) {
    fill_config(&raw, family, init_std, config);
    *extra = (struct config_extra){
        .family = family,
        .qkv_bias = family->matrix_bias || family->qkv_bias || raw.attention_bias,
        .mixer_out_bias = family->matrix_bias || raw.attention_bias,
        .mlp_bias = family->matrix_bias || raw.mlp_bias,
    };
    if (notes) *notes = config_make_notes(root, family, source);
  }
  json_decref(root);
  return status;
}

/* ---- two configurations ---- */

static char *format_value(const struct config_key *key, const struct config_raw *raw) {
  const void *at = (const char *)raw + key->offset;
  if (key->type == CONFIG_REAL) return mem_format("%g", *(const double *)at);
  int64_t value = *(const int64_t *)at;
  if (key->type == CONFIG_ACTIVATION) return mem_strdup(config_get_activation_name((int)value));
  if (key->type == CONFIG_BOOL) return mem_strdup(value ? "true" : "false");
  return mem_format("%lld", (long long)value);
}

/* What is used of both, key by key; keys without effect may differ. */
static int compare_raw(const struct family *family, const struct config_raw *before, const struct config_raw *now,
                       const char *source) {
  for (const struct config_key *key = config_keys; key->name; key++) {
    /* All values have 8 bytes. */
    if (!config_has_word(key->families, family->model_type) ||
        !memcmp((const char *)before + key->offset, (const char *)now + key->offset, sizeof(int64_t)))
      continue;
    char *was = format_value(key, before), *is = format_value(key, now);
    int status =
        error_raise(STATUS_MISTAKE,
                    "%s: '%s' was %s when this run began and is %s now; the model may not change in a run that "
                    "goes on: set it back, or take another run.folder",
                    source, key->name, was, is);
    mem_free(was);
    mem_free(is);
    return status;
  }
  return STATUS_OK;
}

int model_compare(const char *before, const char *now, const char *source) {
  json_t *roots[2] = {NULL, NULL};
  const struct family *families[2];
  struct config_raw raws[2] = {0};
  int status = parse(before, "the model that this run began with", &roots[0], &families[0], &raws[0]);
  if (!status) status = parse(now, source, &roots[1], &families[1], &raws[1]);
  if (!status && families[0] != families[1])
    status = error_raise(STATUS_MISTAKE,
                         "%s: the model was a %s when this run began and is a %s now; it may not change in a run that "
                         "goes on: set it back, or take another run.folder",
                         source, families[0]->model_type, families[1]->model_type);
  if (!status) status = compare_raw(families[0], &raws[0], &raws[1], source);
  json_decref(roots[0]);
  json_decref(roots[1]);
  return status;
}
