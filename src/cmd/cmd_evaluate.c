/* penstock evaluate DECK: the loss of a checkpoint on token files, each by itself. */
#include "cmd/cmd.h"
#include "cmd/job.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/options.h"
#include "comm/comm.h"
#include "run/evaluate_checkpoint.h"
#include "setup/setup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct evaluate_options {
  const char *deck, *checkpoint, *rows;
  struct option_list data, overrides;
  bool json, single;
};

/* ---- what it says ---- */

/* A number that JSON has no word for is null. */
static json_t *make_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *make_sum(const struct evaluation_sum *sum) {
  double loss = evaluation_get_mean(sum);
  return json_pack("{s:I, s:I, s:I, s:o, s:o}", "rows", (json_int_t)sum->rows, "tokens", (json_int_t)sum->tokens,
                   "labels", (json_int_t)sum->labels, "loss", make_number(loss), "perplexity", make_number(exp(loss)));
}

static void print_json(const struct evaluate_result *r) {
  json_t *files = json_array();
  for (int f = 0; f < r->n_files; f++) {
    json_t *file = json_pack("{s:o}", "file", json_make_text(r->files[f])), *sum = make_sum(&r->sum[f]);
    json_object_update(file, sum);
    json_decref(sum);
    json_array_append_new(files, file);
  }
  json_t *root = json_pack("{s:o, s:I, s:o}", "checkpoint", json_make_text(r->checkpoint), "step", (json_int_t)r->step,
                           "files", files);
  json_t *total = make_sum(&r->total);
  json_object_update(root, total);
  json_decref(total);
  json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
  putchar('\n');
  json_decref(root);
}

static void print_row(const char *name, const struct evaluation_sum *sum) {
  double loss = evaluation_get_mean(sum);
  if (sum->labels == 0)
    log_line("%10lld %12lld  %12s  %11s  %s", (long long)sum->rows, (long long)sum->tokens, "-", "-", name);
  else
    log_line("%10lld %12lld  %12.9f  %11.5g  %s", (long long)sum->rows, (long long)sum->tokens, loss, exp(loss), name);
}

static void print_text(const struct evaluate_result *r) {
  log_line("%s, after step %lld", r->checkpoint, (long long)r->step);
  log_line("%10s %12s  %12s  %11s  %s", "rows", "tokens", "loss", "perplexity", "file");
  for (int f = 0; f < r->n_files; f++) print_row(r->files[f], &r->sum[f]);
  if (r->n_files > 1) print_row("all, each label the same", &r->total);
}

/* ---- the command ---- */

static int parse_rows(const char *text, int64_t *rows) {
  char *end = NULL;
  *rows = text ? strtoll(text, &end, 10) : 0;
  if (text && (end == text || *end || *rows < 1))
    return error_raise(STATUS_MISTAKE, "--rows %s: a number of rows of each file, 1 or more", text);
  return STATUS_OK;
}

/* Files that all ranks read. */
static int compare_data_all(struct comm *comm, const struct option_list *data) {
  char *mine = mem_strdup("");
  for (int i = 0; i < data->n; i++) {
    char *longer = mem_format("%s %s", mine, data->items[i]);
    mem_free(mine);
    mine = longer;
  }
  char *theirs = setup_share_text_all(comm, mine);
  int status = STATUS_OK;
  if (strcmp(mine, theirs))
    status = error_raise(STATUS_MISTAKE, "--data of this rank is%s, of rank 0%s: give all the same", mine, theirs);
  mem_free(mine);
  mem_free(theirs);
  return comm_agree_all(comm, status);
}

static int evaluate_all(struct comm *comm, const struct evaluate_options *o) {
  struct params params;
  struct evaluate_result result;
  struct evaluate_request request = {.checkpoint = o->checkpoint, .prefixes = o->data.items, .n_prefixes = o->data.n};
  int status = parse_rows(o->rows, &request.most_rows);
  if (!status) status = compare_data_all(comm, &o->data);
  if (!status) status = setup_params_all(comm, o->deck, o->overrides.items, o->overrides.n, &params, NULL);
  if (status) return status;
  status = evaluate_checkpoint_all(comm, &params, &request, &result);
  if (!status && comm_get_rank(comm) == 0) {
    if (o->json)
      print_json(&result);
    else
      print_text(&result);
  }
  if (!status) status = comm_agree_all(comm, cmd_check_output());
  evaluate_result_fini(&result);
  params_fini(&params);
  return status;
}

int cmd_evaluate(int argc, char **argv) {
  struct evaluate_options o = {0};
  bool done = false;
  const struct option_spec specs[] = {
      {"--checkpoint", OPTION_TEXT, "FILE", "the checkpoint (default: the newest one in run.folder)", &o.checkpoint},
      {"--data", OPTION_LIST, "PREFIX", "token files to evaluate on; may be repeated (default: data.validation)",
       &o.data},
      {"--rows", OPTION_TEXT, "N", "the first N rows of each file (default: all)", &o.rows},
      {"--json", OPTION_FLAG, NULL, "print one JSON object", &o.json},
      OPTION_OVERRIDES(&o.overrides),
      OPTION_SINGLE(&o.single),
      {0},
  };
  struct comm *comm = NULL;
  int status = options_parse(&argc, argv, specs, &done);
  if (!status && !done && argc != 2)
    status = error_raise(STATUS_MISTAKE, "evaluate takes one deck: penstock evaluate DECK");
  o.deck = argc == 2 ? argv[1] : NULL;
  if (!done) status = job_open_all(&argc, &argv, specs, o.single, status, &comm);
  if (comm) status = job_close_all(&comm, evaluate_all(comm, &o));
  options_fini(&o.data);
  options_fini(&o.overrides);
  return status;
}
