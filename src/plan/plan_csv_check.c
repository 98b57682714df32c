/* The rules that an order made elsewhere must keep before it becomes a plan. One function a rule. Tables never get
 * larger than the file: what could make them so (a far stage, many micro-batches) is refused first.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "plan/plan_csv.h"

enum { DID_FORWARD = 1, DID_INPUT = 2, DID_WEIGHT = 4, DID_ALL = 7 };

static const uint8_t does[] = {
    [NODE_F] = DID_FORWARD, [NODE_B] = DID_INPUT | DID_WEIGHT, [NODE_I] = DID_INPUT, [NODE_W] = DID_WEIGHT};
static const uint8_t needs[] = {
    [NODE_F] = 0, [NODE_B] = DID_FORWARD, [NODE_I] = DID_FORWARD, [NODE_W] = DID_FORWARD | DID_INPUT};

struct checker {
  struct plan_csv *csv;
  const char *name;
  int32_t n_micro;
  int64_t *stage_offset; /* [n_stages+1] into by_stage */
  int64_t *by_stage;     /* actions of each stage, in the order of its row */
};

static int32_t find_row(const struct plan_csv *csv, int64_t k) {
  int32_t low = 0, high = csv->n_ranks - 1;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (k < csv->offset[middle + 1])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static int refuse(const struct checker *c, int64_t k, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int refuse(const struct checker *c, int64_t k, const char *format, ...) {
  const struct plan_csv_action *a = &c->csv->actions[k];
  char reason[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  return error_raise(STATUS_MISTAKE, "%s: row %d, cell %d, action '%d%s%d': %s", c->name, (int)find_row(c->csv, k) + 1,
                     (int)a->cell, (int)a->action.stage, node_kind_get_name(a->action.kind), (int)a->action.micro,
                     reason);
}

static int64_t count_actions(const struct checker *c) { return c->csv->offset[c->csv->n_ranks]; }

/* Refuses more stages than actions, as some stage would have none; so every table by stage fits. */
static int check_extent(struct checker *c) {
  if (c->csv->n_stages <= count_actions(c)) return STATUS_OK;
  int64_t k = 0;
  while (c->csv->actions[k].action.stage != c->csv->n_stages - 1) k++;
  return refuse(c, k, "stages are numbered from 0 without gaps, and the file has only %lld actions",
                (long long)count_actions(c));
}

static int check_rows(struct checker *c) {
  struct plan_csv *csv = c->csv;
  mem_free(csv->rank_of);
  csv->rank_of = MEM_NEW(int32_t, csv->n_stages);
  for (int32_t s = 0; s < csv->n_stages; s++) csv->rank_of[s] = -1;
  for (int32_t r = 0; r < csv->n_ranks; r++)
    for (int64_t k = csv->offset[r]; k < csv->offset[r + 1]; k++) {
      int32_t *rank = &csv->rank_of[csv->actions[k].action.stage];
      if (*rank >= 0 && *rank != r)
        return refuse(c, k, "stage %d is in row %d too: a stage must be in one row", (int)csv->actions[k].action.stage,
                      (int)*rank + 1);
      *rank = r;
    }
  for (int32_t s = 0; s < csv->n_stages; s++)
    if (csv->rank_of[s] < 0)
      return error_raise(STATUS_MISTAKE, "%s: no row, action '%dF0' is missing: no row has stage %d of %d", c->name,
                         (int)s, (int)s, (int)csv->n_stages);
  return STATUS_OK;
}

static void group_by_stage(struct checker *c) {
  const struct plan_csv *csv = c->csv;
  int64_t n = count_actions(c), *used = MEM_NEW(int64_t, csv->n_stages);
  c->stage_offset = MEM_NEW(int64_t, (int64_t)csv->n_stages + 1);
  c->by_stage = MEM_NEW(int64_t, n);
  for (int64_t k = 0; k < n; k++) c->stage_offset[csv->actions[k].action.stage + 1]++;
  for (int32_t s = 0; s < csv->n_stages; s++) c->stage_offset[s + 1] += c->stage_offset[s];
  for (int64_t k = 0; k < n; k++) {
    int32_t stage = csv->actions[k].action.stage;
    c->by_stage[c->stage_offset[stage] + used[stage]++] = k;
  }
  mem_free(used);
}

/* True when every stage has as many forwards as the file names micro-batches. */
static bool is_even(const struct checker *c) {
  for (int32_t s = 0; s < c->csv->n_stages; s++) {
    int64_t forwards = 0;
    for (int64_t k = c->stage_offset[s]; k < c->stage_offset[s + 1]; k++)
      forwards += c->csv->actions[c->by_stage[k]].action.kind == NODE_F;
    if (forwards != c->csv->n_micro) return false;
  }
  return true;
}

static int check_micro(struct checker *c) {
  const struct plan_csv *csv = c->csv;
  group_by_stage(c);
  bool even = is_even(c);
  if (even && csv->n_micro < c->n_micro)
    return error_raise(STATUS_MISTAKE,
                       "%s: row %d, action '0F%d' is missing: the file is for %d micro-batches, the step has %d (set "
                       "data.global_batch to %d times data.micro_batch)",
                       c->name, (int)csv->rank_of[0] + 1, (int)csv->n_micro, (int)csv->n_micro, (int)c->n_micro,
                       (int)csv->n_micro);
  for (int64_t k = 0; k < count_actions(c); k++) {
    if (csv->actions[k].action.micro < c->n_micro) continue;
    if (even)
      return refuse(c, k,
                    "the file is for %d micro-batches, the step has %d (set data.global_batch to %d times "
                    "data.micro_batch)",
                    (int)csv->n_micro, (int)c->n_micro, (int)csv->n_micro);
    return refuse(c, k, "there is no such micro-batch: the step has %d, 0 to %d", (int)c->n_micro, (int)c->n_micro - 1);
  }
  return STATUS_OK;
}

static int refuse_missing(const struct checker *c, int32_t stage, int32_t micro, uint8_t done) {
  const char *kind = !(done & DID_FORWARD) ? "F" : !(done & DID_INPUT) ? "B" : "W";
  const char *reason = *kind == 'F'   ? "every stage needs a forward of every micro-batch"
                       : *kind == 'B' ? "every stage needs a B, or an I and a W, of every micro-batch"
                                      : "every I needs its W";
  return error_raise(STATUS_MISTAKE, "%s: row %d, action '%d%s%d' is missing: %s", c->name,
                     (int)c->csv->rank_of[stage] + 1, (int)stage, kind, (int)micro, reason);
}

/* The passes of one stage: each once, after those that it needs on its own rank. */
static int check_stage(const struct checker *c, int32_t stage, uint8_t *done) {
  int32_t latest[DID_ALL + 1] = {0}; /* of each kind of pass */
  for (int64_t j = c->stage_offset[stage]; j < c->stage_offset[stage + 1]; j++) {
    int64_t k = c->by_stage[j];
    const struct plan_action *a = &c->csv->actions[k].action;
    uint8_t did = done[a->micro], does_now = does[a->kind];
    if (did & does_now)
      return refuse(c, k, "it is repeated%s",
                    does_now == DID_FORWARD ? "" : ": a B is an I and a W in one, so each comes once");
    if ((did & needs[a->kind]) != needs[a->kind])
      return refuse(c, k, "it comes before its %s '%d%s%d'", did & DID_FORWARD ? "input pass" : "forward", (int)stage,
                    did & DID_FORWARD ? "I" : "F", (int)a->micro);
    done[a->micro] |= does_now;
    for (int bit = DID_FORWARD; bit <= DID_WEIGHT; bit *= 2) {
      if (!(does_now & bit)) continue;
      if (a->micro < latest[bit]) c->csv->descends = true;
      latest[bit] = a->micro;
    }
  }
  for (int32_t i = 0; i < c->n_micro; i++)
    if (done[i] != DID_ALL) return refuse_missing(c, stage, i, done[i]);
  return STATUS_OK;
}

static int check_passes(struct checker *c) {
  int status = STATUS_OK;
  c->csv->descends = false;
  for (int32_t s = 0; s < c->csv->n_stages && !status; s++) {
    uint8_t *done = MEM_NEW(uint8_t, c->n_micro);
    status = check_stage(c, s, done);
    mem_free(done);
  }
  return status;
}

/* The rows as they run: how far each has got, and what is done of each stage and micro-batch. */
struct running {
  int64_t *next;
  uint8_t *done; /* [n_stages][n_micro] */
};

/* The pass of another stage that an action waits for; false when it waits for none. */
static bool find_wait(const struct checker *c, const struct running *run, const struct plan_action *a,
                      struct plan_action *wait) {
  *wait = *a;
  wait->stage += a->kind == NODE_F ? -1 : 1;
  if (a->kind == NODE_W || wait->stage < 0 || wait->stage == c->csv->n_stages) return false;
  uint8_t bit = a->kind == NODE_F ? DID_FORWARD : DID_INPUT;
  return !(run->done[(int64_t)wait->stage * c->n_micro + a->micro] & bit);
}

static int64_t run_row(const struct checker *c, struct running *run, int32_t row) {
  int64_t begun = run->next[row];
  struct plan_action wait;
  for (; run->next[row] < c->csv->offset[row + 1]; run->next[row]++) {
    const struct plan_action *a = &c->csv->actions[run->next[row]].action;
    if (find_wait(c, run, a, &wait)) break;
    run->done[(int64_t)a->stage * c->n_micro + a->micro] |= does[a->kind];
  }
  return run->next[row] - begun;
}

/* Rows run as far as they can, again and again. */
static int check_waits(struct checker *c) {
  const struct plan_csv *csv = c->csv;
  struct running run = {MEM_NEW(int64_t, csv->n_ranks), MEM_NEW(uint8_t, (int64_t)csv->n_stages * c->n_micro)};
  for (int32_t r = 0; r < csv->n_ranks; r++) run.next[r] = csv->offset[r];
  int64_t moved = 1;
  while (moved) {
    moved = 0;
    for (int32_t r = 0; r < csv->n_ranks; r++) moved += run_row(c, &run, r);
  }
  int status = STATUS_OK;
  for (int32_t r = 0; r < csv->n_ranks && !status; r++) {
    struct plan_action wait;
    if (run.next[r] == csv->offset[r + 1]) continue;
    find_wait(c, &run, &csv->actions[run.next[r]].action, &wait);
    status =
        refuse(c, run.next[r],
               "the order cannot run: it waits for stage %d's %s of micro-batch %d in row %d, which never comes as "
               "the rows wait for one another",
               (int)wait.stage, wait.kind == NODE_F ? "forward" : "input pass", (int)wait.micro,
               (int)csv->rank_of[wait.stage] + 1);
  }
  mem_free(run.next);
  mem_free(run.done);
  return status;
}

int plan_csv_check(struct plan_csv *csv, const char *name, int32_t n_micro) {
  static int (*const rules[])(struct checker *) = {check_extent, check_rows, check_micro, check_passes, check_waits};
  struct checker c = {.csv = csv, .name = name, .n_micro = n_micro};
  int status = STATUS_OK;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0] && !status; i++) status = rules[i](&c);
  mem_free(c.stage_offset);
  mem_free(c.by_stage);
  return status;
}
