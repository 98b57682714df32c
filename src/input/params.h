/* The parameters of a run: what a deck and -D say, checked, with defaults filled in. Made from params.def.
 *
 * `params.section.key` is the value (a whole section is a struct params_<section>), in bytes (SIZE) or seconds
 * (DURATION). A key without a value (no default, or one that the program finds out) is 0 or NULL and params_is_set is
 * false; whoever finds the value out tells params_set_used, so that used.yml shows it. Serial, no files but where said:
 * rank 0 reads the deck (deck_read_text) and broadcasts the text, everyone parses.
 */
#ifndef PENSTOCK_INPUT_PARAMS_H
#define PENSTOCK_INPUT_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

/* Token files. */
struct params_mix {
  char **prefixes; /* [n] */
  double *weights; /* [n] above 0; NULL: none were given, every token counts the same */
  int64_t n;
};

struct params_pair {
  double first, second;
};

/* Limits of single ranks, ascending. Ranks are not checked against the size of the job. */
struct params_rank_sizes {
  int64_t *ranks, *bytes; /* [n] */
  int64_t n;
};

enum params_cut { PARAMS_CUT_AUTO, PARAMS_CUT_EVEN, PARAMS_CUT_LIST };
struct params_partition {
  enum params_cut kind;
  const double
      *blocks; /* [n] of LIST: multiples of 0.5, 0 only first and last. The sum is not checked against the model */
  int64_t n;
};

/* Factors of single ranks, ascending. */
struct params_rank_factors {
  int64_t *ranks; /* [n] */
  double *factors;
  int64_t n;
};

/* The times of cost.uniform, in ms: X(key). */
#define PARAMS_TIMES(X) X(forward_ms) X(input_ms) X(weight_ms) X(recompute_ms) X(send_ms) X(evict_ms)
#define X(key) PARAMS_TIME_##key,
enum params_time { PARAMS_TIMES(X) PARAMS_TIME_COUNT };
#undef X
struct params_uniform {
  struct params_uniform_time {
    double *ms;   /* [n] */
    int64_t n;    /* 0: not given */
    bool by_rank; /* a list, of which the ranks are not counted against the plan; else one value */
  } times[PARAMS_TIME_COUNT];
};

/* Times of messages: X(key, meaning). The node_ ones hold inside a node, where they differ. */
#define PARAMS_LINK_KEYS(X)                                                                                            \
  X(latency_us)                                                                                                        \
  X(gb_per_s)                                                                                                          \
  X(node_latency_us)                                                                                                   \
  X(node_gb_per_s)
#define X(key) PARAMS_LINK_##key,
enum params_link_key { PARAMS_LINK_KEYS(X) PARAMS_LINK_COUNT };
#undef X
struct params_link {
  double values[PARAMS_LINK_COUNT];
  bool given[PARAMS_LINK_COUNT];
};

/* The ops that are recomputed: a named set, or ops by name, which are not held against the model. */
struct params_ops {
  int set;      /* enum params_recompute, when n is 0 */
  char **names; /* [n] */
  int64_t n;
};

/* Stages of the plan, which are not held against it. */
enum params_stages_kind { PARAMS_STAGES_AUTO, PARAMS_STAGES_ALL, PARAMS_STAGES_FIRST, PARAMS_STAGES_LIST };
struct params_stages {
  enum params_stages_kind kind;
  int64_t *stages; /* [n] of LIST, ascending */
  int64_t n;       /* of FIRST: how many */
};

enum { PARAMS_AUTO = -1 };

/* Types of keys: name, C type, what it is called in messages and the manual. Texts and lists are owned by the params.
 */
#define PARAM_TYPES(X)                                                                                                 \
  X(BOOL, bool, "true or false")                                                                                       \
  X(INT, int64_t, "a whole number")                                                                                    \
  X(FLOAT, double, "a number")                                                                                         \
  X(AUTO_INT, int64_t, "auto, or a whole number") /* PARAMS_AUTO: auto */                                              \
  X(AUTO_FLOAT, double, "auto, or a number")      /* the same */                                                       \
  X(STRING, char *, "a text")                                                                                          \
  X(PATH, char *, "a path")      /* relative to the working directory */                                               \
  X(DECK_PATH, char *, "a path") /* written relative to its deck; the value is relative to the working directory */    \
  X(CHOICE, int, "one of")       /* enum params_<set> */                                                               \
  X(SIZE, int64_t, "a size with its unit, as 40 GiB")                                                                  \
  X(DURATION, double, "a time with its unit, as 90 s, 5 min, 2 h or 11:45:00")                                         \
  X(PAIR, struct params_pair, "a list of two numbers, as [0.9, 0.95]")                                                 \
  X(MIX, struct params_mix, "a prefix of .bin/.idx files, a list of them, or a map of prefix to weight")               \
  X(RANK_SIZES, struct params_rank_sizes, "a map of rank to size, as {0: 40 GiB, 3: 20 GiB}")                          \
  X(RANK_FACTORS, struct params_rank_factors, "a map of rank to factor, as {3: 0.5}")                                  \
  X(UNIFORM, struct params_uniform,                                                                                    \
    "a map of forward_ms, input_ms, weight_ms, recompute_ms, send_ms, evict_ms to a number, or a list by rank")        \
  X(LINK, struct params_link, "a map of latency_us, gb_per_s, node_latency_us, node_gb_per_s to a number")             \
  X(WAY, struct params_link, "a map of latency_us, gb_per_s to a number") /* the first two of a link */                \
  X(PARTITION, struct params_partition, "auto, even, or a list of blocks a stage, as [3, 4.5, 4.5]")                   \
  X(RECOMPUTE, struct params_ops, "or a list of ops, as [norm, activation]")                                           \
  X(STAGES, struct params_stages, "auto, all, a number of stages, or a list of stages, as [0, 2]")

#define X(type, c_type, text) PARAM_##type,
enum param_type { PARAM_TYPES(X) PARAM_TYPE_COUNT };
#undef X
#define X(type, c_type, text) typedef c_type param_##type;
PARAM_TYPES(X)
#undef X

/* enum params_batching { PARAMS_BATCHING_FIXED, ... } and the like. */
#define CHOICE_BEGIN(set, help) enum params_##set {
#define CHOICE(set, name, text, help) PARAMS_##name,
#define CHOICE_END(set)                                                                                                \
  PARAMS_##set##_COUNT                                                                                                 \
  }                                                                                                                    \
  ;
#include "input/params.def"

/* Keys by name: PARAM_run_steps and so on. */
enum param_id {
#define KEY(section, key, ...) PARAM_##section##_##key,
#include "input/params.def"
  PARAM_COUNT
};

/* Where a value comes from. */
enum param_origin {
  PARAM_UNSET,    /* there is none */
  PARAM_DEFAULT,  /* of the table, or that of the table's rule */
  PARAM_DECK,     /* the deck or one that it includes */
  PARAM_OVERRIDE, /* -D */
  PARAM_PROGRAM,  /* params_set_used */
};

struct params {
#define SECTION_BEGIN(section, help) struct params_##section {
#define KEY(section, key, TYPE, ...) param_##TYPE key;
#define SECTION_END(section)                                                                                           \
  }                                                                                                                    \
  section;
#include "input/params.def"
  char *deck_name; /* as given on the command line; NULL without a deck. Owned */
  struct {
    enum param_origin origin;
    char *text; /* "deck.yml:12:5", "-D run.steps", or the reason; NULL for UNSET and DEFAULT. Owned */
  } sources[PARAM_COUNT];
};

/* Parses the text of a deck (deck_read_text; NULL: no deck, defaults only) and then the overrides, "section.key=value",
 * of which a later one wins. All mistakes are raised in one STATUS_MISTAKE, a line each; then *params is empty. On
 * success it is the caller's, to be freed with params_fini (which is harmless on an empty one too). */
int params_parse(const char *deck_text, const char *const *overrides, int n_overrides, struct params *params);
void params_fini(struct params *params);

/* True when the key has a value. */
bool params_is_set(const struct params *params, enum param_id id);
/* True when deck or -D gave it. */
bool params_is_given(const struct params *params, enum param_id id);
/* STATUS_MISTAKE naming all of these keys that have no value, and what needs them ("training"). */
int params_require(const struct params *params, const char *who, const enum param_id *ids, int n);
/* Training's requirement: a model, the token files, the shapes. */
int params_require_training(const struct params *params);

/* The word that a CHOICE key has, as in the deck ("1f1b"); static. NULL when it is not set. */
const char *params_get_choice(const struct params *params, enum param_id id);
/* Returns the word of a deck for a value of a CHOICE key, or for a set of pipeline.recompute; static. */
const char *params_name_choice(enum param_id id, int value);
/* The model's keys as the text of a Hugging Face config.json; owned by the caller. NULL when the deck has no
 * model_type: then the model is in the file params->model.config, or there is none. */
char *params_format_model_json(const struct params *params);

/* Fills in a value that the program found out, in deck syntax ("2", "40 GiB"), with a reason for used.yml ("the cores
 * of this rank"). A value that the table does not allow is a bug (CHECK). */
void params_set_used(struct params *params, enum param_id id, const char *value, const char *reason);

/* Writes used.yml: every key, its help and where its value comes from; a deck that gives the same values when run from
 * the same working directory. Atomically. Rank 0. */
int params_write_used(const struct params *params, const char *path);
/* The text of used.yml for a file that lies at `path`; owned by the caller. */
char *params_format_used(const struct params *params, const char *path);
/* Holds the parameters of a run that goes on against the used.yml that it began with: STATUS_MISTAKE names each key
 * that may not change and did, with both values. Files that hold what a run is bound to (data.train, model.config) may
 * lie elsewhere, as their content is compared by those who read them, unless `names` is set: then they may not, as
 * there is nothing to compare. Rank 0. */
int params_compare_resume(const struct params *now, const char *used_path, bool names);

/* The keys that must be the same on all ranks, a line each, to be sent to the others; owned by the caller. */
char *params_format_shared(const struct params *params);
/* Holds this rank's parameters against such lines of another rank, which messages call `who` ("rank 0 (node1)"):
 * STATUS_MISTAKE names each key that differs, with both values. */
int params_compare_shared(const struct params *mine, const char *theirs, const char *who);

#endif
