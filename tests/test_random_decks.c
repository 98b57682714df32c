/* Random decks through the commands that plan: every planner makes a plan or says why not; what it makes fits its
 * limits, is read again and simulated to the same times, and planned from the file again. Under the sanitizers this is
 * what finds arithmetic that overflows and places that are beyond a table.
 */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "command_case.h"
#include "deck_texts.h"
#include "random_deck.h"
#include "scratch.h"

enum { DECKS = 16 };

static const char folder[] = "random_decks", deck_path[] = "random_decks/deck.yml", out_path[] = "random_decks/out";
static struct random_deck deck;
static char about[64]; /* the case, for messages */

static json_t *read_result(void) {
  json_error_t error;
  json_t *json = json_load_file(out_path, 0, &error);
  T_CHECK(json, "%s: no JSON: %s", about, error.text);
  return json;
}

static void write_deck(int64_t limit) {
  char *text = limit ? mem_format("%smemory: {device_limit: %lld B, host_limit: %lld B, spill_folder: %s}\n", deck.text,
                                  (long long)limit, (long long)(limit / 2), folder)
                     : mem_strdup(deck.text);
  write_file(deck_path, text);
  mem_free(text);
}

static double get_step(const json_t *json) { return json_number_value(json_object_get(json, "predicted_step_s")); }

/* No step takes less than its lower bounds. Where costs are zero there are none. */
static void check_bounds(const json_t *json, double step) {
  static const char *const names[] = {"bound_s", "bound_any_cut_s", "bound_staying_s", "bound_any_cut_staying_s"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    const json_t *bound = json_object_get(json, names[k]);
    T_CHECK(!bound || step >= json_number_value(bound) * (1 - 1e-9), "%s: %.17g s, %s is %.17g", about, step, names[k],
            json_number_value(bound));
  }
}

static int64_t get_bytes(const json_t *json, const char *table, size_t rank, const char *what) {
  return json_integer_value(json_object_get(json_array_get(json_object_get(json, table), rank), what));
}

static int64_t get_peak(const json_t *json) {
  int64_t most = 0;
  for (size_t r = 0; r < json_array_size(json_object_get(json, "peaks")); r++)
    if (get_bytes(json, "peaks", r, "device_bytes") > most) most = get_bytes(json, "peaks", r, "device_bytes");
  return most;
}

static void check_limits(const json_t *json) {
  static const char *const kinds[] = {"device_bytes", "host_bytes"}; /* the disk has no limit here */
  for (size_t r = 0; r < (size_t)deck.n_ranks; r++)
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      int64_t peak = get_bytes(json, "peaks", r, kinds[k]), limit = get_bytes(json, "limits", r, kinds[k]);
      T_CHECK(peak <= limit, "%s: rank %d takes %lld %s of %lld", about, (int)r, (long long)peak, kinds[k],
              (long long)limit);
    }
}

/* The plan that was written, simulated from its file. */
static void simulate_again(double step) {
  int status = run_command(out_path, "simulate", "--json", "random_decks/plan.h5", NULL);
  T_CHECK(!status, "%s: simulate: %s", about, error_text());
  if (status) return;
  json_t *json = read_result();
  T_CHECK(get_step(json) == step, "%s: simulated %.17g s, planned %.17g", about, get_step(json), step);
  json_decref(json);
}

/* The plan from its file, with what is recomputed besides; what comes of that is read again too. Returns its step, 0:
 * refused. */
static double plan_again(const char *recompute) {
  rename("random_decks/plan.h5", "random_decks/given.h5");
  int status = run_command(out_path, "plan", "--json", "-Drun.folder=random_decks", "-Dpipeline.planner=file",
                           "-Dpipeline.plan_file=random_decks/given.h5", "-Dpipeline.partition=auto", recompute,
                           "-Dpipeline.recompute_stages=all", deck_path, NULL);
  T_CHECK(!status || status == STATUS_MISTAKE, "%s, %s: exit code %d: %s", about, recompute, status, error_text());
  if (status) return 0;
  json_t *json = read_result();
  double step = get_step(json);
  json_decref(json);
  simulate_again(step);
  return step;
}

/* Returns the peak of the plan, 0 when there is none. */
static int64_t plan_deck(int64_t limit) {
  write_deck(limit);
  int status = run_command(out_path, "plan", "--json", "-Drun.folder=random_decks", deck_path, NULL);
  T_CHECK(!status || (status == STATUS_MISTAKE && *error_text()), "%s, limit %lld: exit code %d: %s", about,
          (long long)limit, status, error_text());
  if (status) return 0;
  json_t *json = read_result();
  double step = get_step(json);
  int64_t peak = get_peak(json);
  if (limit) check_limits(json);
  check_bounds(json, step);
  json_decref(json);
  simulate_again(step);
  double again = plan_again("-Dpipeline.recompute=none");
  T_CHECK(again == step, "%s: from its file %.17g s, not %.17g: %s", about, again, step, error_text());
  plan_again("-Dpipeline.recompute=full");
  return peak;
}

/* Returns what the message of a refusal names for a key as the deck would have it, and so many percent more: "ranks" a
 * map of rank to size, else the largest; NULL: nothing. Owned by the caller. */
static char *read_advice(const char *message, const char *key, bool ranks, int more) {
  char *words = mem_format("%s of ", key), *map = mem_strdup("");
  const char *at = strstr(message, "what would fit:");
  at = at ? strstr(at, words) : NULL;
  mem_free(words);
  long long most = 0, bytes;
  for (at = at ? strstr(at, " of ") + 4 : NULL; at;) {
    int rank = -1, length = 0;
    if (sscanf(at, "all ranks: %lld B (%*[^)])%n", &bytes, &length) < 1 &&
        sscanf(at, "rank %d: %lld B (%*[^)])%n", &rank, &bytes, &length) < 2)
      break;
    bytes += bytes / 100 * more;
    for (int r = rank < 0 ? 0 : rank; r <= (rank < 0 ? deck.n_ranks - 1 : rank); r++) {
      char *longer = mem_format("%s%s%d: %lld B", map, *map ? ", " : "", r, bytes);
      mem_free(map);
      map = longer;
    }
    if (bytes > most) most = bytes;
    at = !strncmp(at + length, ", rank", 6) ? at + length + 2 : NULL;
  }
  char *value = !most ? NULL : ranks ? mem_format("memory.rank_limits={%s}", map) : mem_format("%s=%lld B", key, most);
  mem_free(map);
  return value;
}

/* Plans with the limits that a message names, and so many percent more. Returns whether it named any. */
static bool try_advice(const char *message, int more) {
  static const char *const keys[] = {"memory.device_limit", "memory.host_limit", "memory.spill_limit"};
  char *set[3];
  bool any = false;
  for (int i = 0; i < 3; i++) {
    char *value = read_advice(message, keys[i], i == 0, more);
    any = any || value;
    set[i] = value ? mem_format("-D%s", value) : mem_strdup("-Drun.name=advised");
    mem_free(value);
  }
  if (any) {
    int status =
        run_command(out_path, "plan", "--json", "-Drun.folder=random_decks", set[0], set[1], set[2], deck_path, NULL);
    T_CHECK(!status, "%s: with %s %s %s: %s; refused before: %s", about, set[0], set[1], set[2], error_text(), message);
  }
  for (int i = 0; i < 3; i++) mem_free(set[i]);
  return any;
}

/* A limit that is refused: what the refusal says is enough, is, and so is more where the planner tries the cuts of less
 * memory too. Returns whether it named any. */
static bool take_advice(int64_t limit, bool tries_less) {
  write_deck(limit);
  int status = run_command(out_path, "plan", "--json", "-Drun.folder=random_decks", deck_path, NULL);
  if (!status) return false;
  char *message = mem_strdup(error_text());
  bool any = try_advice(message, 0);
  if (any && tries_less) try_advice(message, 1 + (int)deck_draw(&deck, 8));
  T_CHECK(any || !strstr(message, "over its memory."), "%s: advice is not understood: %s", about, message);
  mem_free(message);
  return any;
}

static void try_planner(const char *planner) {
  int n_free = 0, n_held = 0, n_advised = 0, n_tight = strcmp(planner, "obscura") ? DECKS : DECKS / 2;
  bool by_memory = !strcmp(planner, "obscura") || !strcmp(planner, "adapipe");
  for (int k = 0; k < DECKS; k++) {
    snprintf(about, sizeof about, "%s, deck %d", planner, k);
    deck_make_random(&deck, (uint64_t)k, planner, "table.csv");
    write_file("random_decks/table.csv", deck.table);
    int64_t peak = plan_deck(0);
    if (peak) n_free++;
    if (peak && plan_deck(peak - peak * deck_draw(&deck, 8) / 20)) n_held++;
    if (peak && k < n_tight && take_advice(peak / 100 * (20 + deck_draw(&deck, 70)), by_memory)) n_advised++;
  }
  printf("%s: %d of %d decks planned, %d held to a limit, %d refused with a limit that is enough\n", planner, n_free,
         DECKS, n_held, n_advised);
  T_CHECK(n_free > DECKS / 2 && n_held > DECKS / 6, "%s: %d plans, %d within limits", planner, n_free, n_held);
  T_CHECK(n_advised > n_tight / 6, "%s: %d refusals name a limit", planner, n_advised);
}

int main(void) {
  static const char *const planners[] = {"gpipe", "1f1b",  "interleaved", "zb-h1",  "zb-h2",
                                         "zb-v",  "bpipe", "adapipe",     "obscura"};
  log_init(1); /* warnings of decks are not shown */
  if (chdir(scratch_make()) || mkdir(folder, 0755)) return 1;
  for (size_t k = 0; k < sizeof planners / sizeof *planners; k++) try_planner(planners[k]);
  if (chdir("..")) return 1;
  scratch_remove();
  return t_end();
}
