/* penstock verify: a deck's plan against one rank, or training against a file of known results. */
#include "cmd/cmd.h"
#include "cmd/job.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cmd/options.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "verify/verify.h"

#include "setup/setup.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct verify_options {
  const char *deck, *reference, *steps;
  bool json, single;
  struct option_list overrides;
};

/* A number that JSON has no word for is null. */
static json_t *make_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *make_numbers(const double *values, int32_t n) {
  json_t *list = json_array();
  for (int32_t i = 0; i < n; i++) json_array_append_new(list, make_number(values[i]));
  return list;
}

static json_t *make_tensor(const struct verify_tensor *t) {
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", json_make_text(t->name), "gradient_error",
                   make_number(t->gradient_error), "gradient_allowed", make_number(t->gradient_allowed), "weight_error",
                   make_number(t->weight_error), "weight_allowed", make_number(t->weight_allowed));
}

static void print_json(const struct verify_result *r) {
  json_t *tensors = json_array();
  for (int32_t t = 0; t < r->n_tensors; t++) json_array_append_new(tensors, make_tensor(&r->tensors[t]));
  json_t *root = json_pack("{s:b, s:b, s:i, s:i, s:o, s:o, s:o, s:o}", "passed", (int)r->passed, "exact", (int)r->exact,
                           "stages", (int)r->n_stages, "micro_batches", (int)r->n_micro, "loss",
                           make_numbers(r->loss, r->n_steps), "loss_error", make_numbers(r->loss_error, r->n_steps),
                           "grad_norm", make_numbers(r->grad_norm, r->n_steps), "tensors", tensors);
  json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
  putchar('\n');
  json_decref(root);
}

static const char *judge(double error, double allowed) { return error <= allowed ? "" : "  OUTSIDE"; }

/* Share of what is allowed that an error takes; with nothing allowed only zero is within. */
static double get_share(double error, double allowed) {
  if (!(error <= allowed)) return INFINITY;
  return allowed > 0 ? error / allowed : 0;
}

static void print_tensor(const char *what, const struct verify_tensor *t, double error, double allowed) {
  log_line("worst %-8s  error %.3e  allowed %.3e  %s%s", what, error, allowed, t->name, judge(error, allowed));
}

/* Every tensor that is outside, else the one that comes nearest. */
static void print_tensors(const struct verify_result *r) {
  const struct verify_tensor *gradient = NULL, *weight = NULL;
  for (int32_t i = 0; i < r->n_tensors; i++) {
    const struct verify_tensor *t = &r->tensors[i];
    double g = get_share(t->gradient_error, t->gradient_allowed), w = get_share(t->weight_error, t->weight_allowed);
    if (isinf(g)) print_tensor("gradient", t, t->gradient_error, t->gradient_allowed);
    if (isinf(w)) print_tensor("weight", t, t->weight_error, t->weight_allowed);
    if (!gradient || g > get_share(gradient->gradient_error, gradient->gradient_allowed)) gradient = t;
    if (!weight || w > get_share(weight->weight_error, weight->weight_allowed)) weight = t;
  }
  if (gradient && gradient->gradient_error <= gradient->gradient_allowed)
    print_tensor("gradient", gradient, gradient->gradient_error, gradient->gradient_allowed);
  if (weight && weight->weight_error <= weight->weight_allowed)
    print_tensor("weight", weight, weight->weight_error, weight->weight_allowed);
}

static void print_text(const struct verify_options *o, const struct verify_result *r) {
  log_line("verify: %d stage%s, %d micro-batch%s, %d tensors", r->n_stages, r->n_stages == 1 ? "" : "s", r->n_micro,
           r->n_micro == 1 ? "" : "es", r->n_tensors);
  if (!o->reference && !r->exact)
    log_line(
        "the plan's micro-batches do not ascend, so that its sums round in another order: compared within tolerances, "
        "not bit by bit");
  for (int32_t i = 0; i < r->n_steps; i++)
    log_line("step %d  loss %.9f  error %.2e (allowed %.0e)%s  gradient norm %.6f  error %.2e (allowed %.0e)%s", i + 1,
             r->loss[i], r->loss_error[i], r->loss_allowed, judge(r->loss_error[i], r->loss_allowed), r->grad_norm[i],
             r->norm_error[i], r->norm_allowed, judge(r->norm_error[i], r->norm_allowed));
  print_tensors(r);
  log_line("verify: %s", r->passed ? "passed" : "FAILED");
}

static int parse_steps(const char *text, int64_t *steps) {
  char *end = NULL;
  *steps = text ? strtoll(text, &end, 10) : 3;
  if (text && (*end || *steps < 1 || *steps > 1000000))
    return error_raise(STATUS_MISTAKE, "--steps %s: a number of steps from 1 to 1000000", text);
  return STATUS_OK;
}

static int verify_all(struct comm *comm, const struct verify_options *o, struct verify_result *result) {
  if (o->reference) return verify_reference_all(comm, o->reference, o->overrides.items, o->overrides.n, result);
  int64_t steps;
  struct params params;
  int status = parse_steps(o->steps, &steps);
  if (!status) status = setup_params_all(comm, o->deck, o->overrides.items, o->overrides.n, &params, NULL);
  if (status) return status;
  watchdog_set_timeout(comm, params.run.hang_timeout);
  status = verify_deck_all(comm, &params, steps, result);
  params_fini(&params);
  return status;
}

/* Prints on rank 0; all ranks return whether it passed. */
static int conclude_all(struct comm *comm, const struct verify_options *o, struct verify_result *result) {
  if (comm_get_rank(comm) == 0) {
    if (o->json)
      print_json(result);
    else
      print_text(o, result);
  }
  int status = comm_agree_all(comm, cmd_check_output());
  if (status) return status;
  int32_t passed = result->passed;
  comm_broadcast_all(comm, 0, &passed, sizeof passed);
  return passed ? STATUS_OK : STATUS_FAILED;
}

static int check_options(int argc, char **argv, struct verify_options *o) {
  if (o->reference && argc > 1)
    return error_raise(STATUS_MISTAKE, "verify takes a deck or --reference FILE.h5, not both ('%s')", argv[1]);
  if (!o->reference && argc != 2) return error_raise(STATUS_MISTAKE, "verify takes one deck, or --reference FILE.h5");
  if (o->reference && o->steps)
    return error_raise(STATUS_MISTAKE, "--steps goes with a deck; with --reference use -D run.steps=N");
  o->deck = o->reference ? NULL : argv[1];
  return STATUS_OK;
}

int cmd_verify(int argc, char **argv) {
  struct verify_options o = {0};
  bool done = false;
  const struct option_spec specs[] = {
      {"--reference", OPTION_TEXT, "FILE.h5", "train the steps of a file of known results and compare", &o.reference},
      {"--steps", OPTION_TEXT, "N", "steps to train of a deck (3)", &o.steps},
      {"--json", OPTION_FLAG, NULL, "print one JSON object", &o.json},
      OPTION_OVERRIDES(&o.overrides),
      OPTION_SINGLE(&o.single),
      {0},
  };
  struct comm *comm = NULL;
  int status = options_parse(&argc, argv, specs, &done);
  if (!status && !done) status = check_options(argc, argv, &o);
  if (!done) status = job_open_all(&argc, &argv, specs, o.single, status, &comm);
  if (comm) {
    struct verify_result result = {0};
    status = verify_all(comm, &o, &result);
    if (!status) status = conclude_all(comm, &o, &result);
    verify_fini(&result);
    status = job_close_all(&comm, status);
  }
  options_fini(&o.overrides);
  return status;
}
