#include "model/config.h"

#include "base/error.h"
#include "base/mem.h"
#include "model/config_notes.h"
#include "model/config_source.h"
#include "model/config_table.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "is 1.5", "is \"big\"" or "is not there"; in the caller's buffer. */
static const char *describe_value(const json_t *value, char *text, size_t size) {
  char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
  if (dumped)
    snprintf(text, size, "is %.60s", dumped);
  else
    snprintf(text, size, "is not there");
  free(dumped);
  return text;
}

static int refuse_value(const struct config_source *source, const char *key, const json_t *value, const char *allowed) {
  char is[80];
  return config_refuse(source, key, "%s; allowed: %s", describe_value(value, is, sizeof is), allowed);
}

static int read_activation(const json_t *value, const struct config_source *source, const char *key, int64_t *out) {
  const char *name = json_string_value(value);
  int found = name ? config_find_activation(name) : -1;
  *out = found;
  return found >= 0 ? STATUS_OK : refuse_value(source, key, value, CONFIG_ACTIVATIONS);
}

/* Checks that a value is a number of the type and range in the key's row; raises a message when it is not. */
static int check_number(const struct config_source *source, const char *name, const struct param_row *row,
                        const json_t *value) {
  struct param_range range = param_get_range(row);
  bool fits = row->type == PARAM_INT ? json_is_integer(value) : json_is_number(value);
  if (fits && param_range_contains(&range, json_number_value(value))) return STATUS_OK;
  char *allowed = param_describe(row);
  int status = refuse_value(source, name, value, allowed);
  mem_free(allowed);
  return status;
}

static int read_key(const struct config_key *key, const json_t *value, const struct config_source *source,
                    struct config_raw *raw) {
  const struct param_row *row = config_get_row(key);
  void *at = (char *)raw + key->offset;
  if (!value && row->type == PARAM_FLOAT) *(double *)at = key->standard;
  if (!value && row->type != PARAM_FLOAT) *(int64_t *)at = (int64_t)key->standard;
  if (!value) return STATUS_OK;
  if (row->type == PARAM_STRING) return read_activation(value, source, key->name, at);
  if (row->type == PARAM_BOOL) {
    if (!json_is_boolean(value)) return refuse_value(source, key->name, value, "true or false");
    *(int64_t *)at = json_is_true(value);
    return STATUS_OK;
  }
  int status = check_number(source, key->name, row, value);
  if (!status && row->type == PARAM_INT) *(int64_t *)at = json_integer_value(value);
  if (!status && row->type == PARAM_FLOAT) *(double *)at = json_number_value(value);
  return status;
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

static int read_theta(const json_t *root, const char *object, const json_t *value, const struct config_source *source,
                      struct config_raw *raw) {
  const struct config_key *key = config_find_key(config_find_family("llama"), "rope_theta");
  const json_t *outside = json_object_get(root, key->name);
  double theta = json_number_value(value);
  char inside[64];
  snprintf(inside, sizeof inside, "%s.rope_theta", object);
  int status = check_number(source, inside, config_get_row(key), value);
  if (status) return status;
  if (json_is_number(outside) && json_number_value(outside) != theta)
    return config_refuse(source, key->name, "is %g and '%s' is %g: leave one out", json_number_value(outside), inside,
                         theta);
  raw->theta = theta;
  return STATUS_OK;
}

/* A key inside of rope_parameters: used, harmless, or refused, since what is there is all about the arithmetic. */
static int read_rope_key(const json_t *root, const char *object, const char *name, const json_t *value,
                         const struct config_source *source, struct config_raw *raw) {
  if (!strcmp(name, "rope_theta")) return read_theta(root, object, value, source, raw);
  const struct config_refusal *row = config_rope_keys;
  while (row->name && strcmp(row->name, name)) row++;
  if (row->name && is_harmless(value, row->harmless)) return STATUS_OK;
  char is[80], *inside = mem_format("%s.%s", object, name);
  int status =
      config_refuse(source, inside, "%s: %s", describe_value(value, is, sizeof is),
                    row->name ? row->advice : "this key is not understood; leave it out if it changes nothing");
  mem_free(inside);
  return status;
}

/* rope_parameters and the older rope_scaling. */
static int read_rope(const json_t *root, const struct config_source *source, struct config_raw *raw) {
  static const char *const objects[] = {"rope_parameters", "rope_scaling"};
  int status = STATUS_OK;
  for (int i = 0; i < 2 && !status; i++) {
    json_t *rope = json_object_get(root, objects[i]), *value;
    const char *name;
    if (!rope || json_is_null(rope)) continue;
    if (!json_is_object(rope)) return refuse_value(source, objects[i], rope, "an object, or null");
    json_object_foreach(rope, name, value) {
      if (!status && !json_is_null(value)) status = read_rope_key(root, objects[i], name, value, source, raw);
    }
  }
  return status;
}

/* A deck has no keys for what is refused, so what it leaves out is harmless there, and in what was written of it. */
static int check_refused(const json_t *root, const struct family *family, const struct config_source *source) {
  bool is_deck = source->checked || (source->deck && !source->deck->model.config);
  for (const struct config_refusal *row = config_refusals; row->name; row++) {
    const json_t *value = json_object_get(root, row->name);
    if (!config_has_word(row->families, family->model_type) || !(value || (row->when_absent && !is_deck))) continue;
    if (value && is_harmless(value, row->harmless)) continue;
    char is[80];
    return config_refuse(source, row->name, "%s: %s", describe_value(value, is, sizeof is), row->advice);
  }
  return STATUS_OK;
}

static int find_model_type(const json_t *root, const struct config_source *source, const struct family **family) {
  const json_t *type = json_object_get(root, "model_type");
  if (!type) type = json_object_get(root, "architecture");
  const char *name = json_string_value(type);
  if (!name) return refuse_value(source, "model_type", type, CONFIG_FAMILIES);
  *family = config_find_family(name);
  return *family ? STATUS_OK
                 : config_refuse(source, json_object_get(root, "model_type") ? "model_type" : "architecture",
                                 "is '%s', which is not available in this version; allowed: " CONFIG_FAMILIES, name);
}

/* Returns the family's name of the key for a value. */
static const char *get_name(const struct family *family, size_t offset) {
  return config_find_offset(family, offset)->name;
}
#define NAME(field) get_name(family, offsetof(struct config_raw, field))

static int refuse_kv_heads(const struct config_raw *raw, const struct family *family,
                           const struct config_source *source) {
  return config_refuse(source, NAME(kv_heads), "is %lld; allowed: what divides '%s', which is %lld",
                       (long long)raw->kv_heads, NAME(heads), (long long)raw->heads);
}

static int refuse_heads(const struct config_raw *raw, const struct family *family, const struct config_source *source) {
  const struct config_key *own = config_find_offset(family, offsetof(struct config_raw, head_dim));
  return config_refuse(source, NAME(heads), "is %lld; allowed: what divides '%s', which is %lld%s%s%s",
                       (long long)raw->heads, NAME(hidden), (long long)raw->hidden, own ? ", unless '" : "",
                       own ? own->name : "", own ? "' gives the size of a head" : "");
}

static int refuse_odd(const struct config_raw *raw, const struct family *family, bool given,
                      const struct config_source *source) {
  long long size = (long long)raw->head_dim;
  if (given)
    return config_refuse(source, NAME(head_dim), "is %lld; allowed: even numbers, which rotary positions need", size);
  return config_refuse(source, NAME(heads),
                       "is %lld, which makes heads of size %lld ('%s' is %lld); allowed: what makes "
                       "it even, as rotary positions need, or give '%s'",
                       (long long)raw->heads, size, NAME(hidden), (long long)raw->hidden, NAME(head_dim));
}

/* Values that follow from others, as Hugging Face has it. */
static int derive(struct config_raw *raw, const struct family *family, const struct config_source *source) {
  if (raw->kv_heads < 0) raw->kv_heads = raw->heads;
  if (raw->ffn < 0) raw->ffn = 4 * raw->hidden;
  bool given = raw->head_dim >= 0;
  if (!given && raw->hidden % raw->heads) return refuse_heads(raw, family, source);
  if (!given) raw->head_dim = raw->hidden / raw->heads;
  if (family->rope && raw->head_dim % 2) return refuse_odd(raw, family, given, source);
  return raw->heads % raw->kv_heads ? refuse_kv_heads(raw, family, source) : STATUS_OK;
}

static int read_raw(const json_t *root, const struct family *family, const struct config_source *source,
                    struct config_raw *raw) {
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
static int parse(const struct config_source *source, json_t **root, const struct family **family,
                 struct config_raw *raw) {
  json_error_t place;
  *root = json_loads(source->json, JSON_REJECT_DUPLICATES, &place);
  if (!*root)
    return error_raise(STATUS_MISTAKE, "%s:%d:%d: not valid JSON: %s", source->name, place.line, place.column,
                       place.text);
  if (!json_is_object(*root)) return error_raise(STATUS_MISTAKE, "%s: not a JSON object", source->name);
  int status = find_model_type(*root, source, family);
  return status ? status : read_raw(*root, *family, source, raw);
}

int config_read(const struct config_source *source, double init_std, struct model_config *config,
                struct config_extra *extra, char **notes) {
  json_t *root;
  struct config_raw raw = {0};
  const struct family *family = NULL;
  int status = parse(source, &root, &family, &raw);
  if (!status) {
    fill_config(&raw, family, init_std, config);
    *extra = (struct config_extra){
        .family = family,
        .qkv_bias = family->matrix_bias || family->qkv_bias || raw.attention_bias,
        .mixer_out_bias = family->matrix_bias || raw.attention_bias,
        .mlp_bias = family->matrix_bias || raw.mlp_bias,
    };
    if (notes) *notes = config_make_notes(root, family, source->name);
  }
  json_decref(root);
  return status;
}

/* ---- two configurations ---- */

static char *format_value(const struct config_key *key, const struct config_raw *raw) {
  const void *at = (const char *)raw + key->offset;
  enum param_type type = config_get_row(key)->type;
  if (type == PARAM_FLOAT) return mem_format("%g", *(const double *)at);
  int64_t value = *(const int64_t *)at;
  if (type == PARAM_STRING) return mem_strdup(config_get_activation_name((int)value));
  if (type == PARAM_BOOL) return mem_strdup(value ? "true" : "false");
  return mem_format("%lld", (long long)value);
}

/* Compares two configurations key by key, those keys that are used; others may differ. */
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
  const struct config_source texts[2] = {{before, "the model that this run began with", NULL, true},
                                         {now, source, NULL, true}};
  json_t *roots[2] = {NULL, NULL};
  const struct family *families[2];
  struct config_raw raws[2] = {0};
  int status = parse(&texts[0], &roots[0], &families[0], &raws[0]);
  if (!status) status = parse(&texts[1], &roots[1], &families[1], &raws[1]);
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
