/* penstock profile DECK: measures the device of each rank and what lies between them, for the predictions of source
 * "profile". What a file has already is not measured again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/job.h"
#include "cmd/options.h"
#include "comm/comm.h"
#include "comm/watchdog.h"
#include "data/dataset.h"
#include "device/device.h"
#include "profile/profile_measure.h"
#include "record/profile_file.h"
#include "report/profile_report.h"
#include "setup/setup.h"
#include "store/disk.h"

struct profile_options {
  const char *deck, *seconds_text;
  double seconds;
  bool json, again, single;
  struct option_list overrides;
};

struct profile_job {
  const struct profile_options *options;
  struct comm *comm;
  int rank;
  struct params params;
  struct topo topo;
  struct model *model;
  char *json, *path, *device;
  struct device_config config;
  int64_t length;
  /* The shapes to measure, equal on all ranks. */
  struct micro_shape points[PROFILE_MAX_POINTS];
  int n_points;
  bool ops_only;
  struct profile *profile; /* rank 0: what the file had, then what it is to have */
  char *notes;
};

static void close_job(struct profile_job *job) {
  profile_destroy(&job->profile);
  model_destroy(&job->model);
  topo_fini(&job->topo);
  mem_free(job->json);
  mem_free(job->path);
  mem_free(job->device);
  mem_free(job->notes);
  params_fini(&job->params);
}

/* ---- the deck ---- */

/* Refuses a device that does not compute before anything is made. */
static int check_params(const struct params *params) {
  static const enum param_id needed[] = {PARAM_data_sequence_length, PARAM_data_global_batch};
  int status = params_require(params, "a profile", needed, sizeof needed / sizeof *needed);
  const struct device_ops *device = device_of_deck(params);
  if (!status && !device->computes)
    return error_raise(STATUS_MISTAKE,
                       "device.backend %s computes nothing, there is nothing to measure: set device.backend to cpu, or "
                       "give times by hand (cost.source)",
                       device->name);
  return status;
}

/* Tokens of the longest row: with fixed batching every row, else that of the token files where the deck has any. */
static int find_longest_all(struct profile_job *job) {
  const struct params *p = &job->params;
  struct dataset *dataset = NULL;
  job->length = p->data.sequence_length;
  if (p->data.batching == PARAMS_BATCHING_FIXED || !params_is_given(p, PARAM_data_train)) return STATUS_OK;
  int status = setup_open_data_all(job->comm, p, job->model, "data.train", &p->data.train, p->data.shuffle, &dataset);
  if (!status) job->length = dataset_get_longest(dataset);
  dataset_close(&dataset);
  return status;
}

static int open_deck_all(struct profile_job *job) {
  struct params *p = &job->params;
  int status = setup_params_all(job->comm, job->options->deck, job->options->overrides.items, job->options->overrides.n,
                                p, NULL);
  if (status) return status;
  watchdog_set_timeout(job->comm, p->run.hang_timeout);
  status = comm_agree_all(job->comm, check_params(p));
  if (!status) status = setup_topo_all(job->comm, p, &job->topo);
  if (!status) status = setup_model_all(job->comm, p, &job->model, &job->json);
  if (!status) status = comm_agree_all(job->comm, request_check_positions(p, job->model));
  if (!status) status = find_longest_all(job);
  if (status) return status;
  job->config = setup_make_device(p, &job->topo, request_get_limit(p, job->rank, job->topo.memory_share_bytes));
  job->config.host_limit = request_get_host_limit(p, job->topo.memory_share_bytes);
  job->path =
      params_is_given(p, PARAM_cost_profile) ? mem_strdup(p->cost.profile) : mem_format("%s/profile.h5", p->run.folder);
  job->device = profile_describe_device_all(job->comm, params_get_choice(p, PARAM_device_backend), &job->config,
                                            params_get_choice(p, PARAM_device_precision));
  return STATUS_OK;
}

/* ---- what is to be measured ---- */

/* Before a minute of measuring, not after it: the folder is there and can be written. */
static int check_place(const struct profile_job *job) {
  if (job->rank != 0) return STATUS_OK;
  int status = disk_make_named_folder(job->params.run.folder);
  if (status) return status;
  status = disk_check_writable(job->path);
  return status ? error_wrap("cost.profile") : STATUS_OK;
}

/* Takes what the file has when it is of this device and model. A file of another kind is somebody's: it stays. */
static int read_known(struct profile_job *job) {
  struct profile *known = NULL;
  if (job->rank != 0) return STATUS_OK;
  int status = profile_file_read(job->path, &known);
  if (status == STATUS_MISTAKE)
    return error_raise(STATUS_MISTAKE, "%s, and is not replaced: name another file in cost.profile, or remove it",
                       error_text());
  if (status) log_warn("%s; it is measured anew", error_text());
  error_clear();
  char *model = profile_describe_model(job->model);
  if (known && strcmp(known->device, job->device))
    log_warn("%s is of another device and is measured anew: '%s', here '%s'", job->path, known->device, job->device);
  else if (known && strcmp(known->model, model))
    log_warn("%s is of another model and is measured anew: '%s', here '%s'", job->path, known->model, model);
  else if (known && !job->options->again) {
    job->profile = known;
    known = NULL;
  }
  profile_destroy(&known);
  if (!job->profile) job->profile = profile_create(job->device, model);
  job->profile->op_names = model_format_names(job->model, MODEL_OPS);
  mem_free(model);
  return STATUS_OK;
}

/* Every pair of neighbours, both ways, and the other tables. */
static bool has_rest(const struct profile *profile, int size) {
  int64_t most = -1;
  for (int64_t i = 0; i < profile->n_links; i++)
    if (profile->links[i].from > most) most = profile->links[i].from;
  return profile->n_sweeps > 0 && profile->n_copies > 0 && (size == 1 || most >= size - 1);
}

/* The points that the file lacks; the grid's only when one of the deck's own does. */
static void list_missing(struct profile_job *job) {
  const struct params *p = &job->params;
  struct micro_shape points[PROFILE_MAX_POINTS];
  int64_t rows = p->data.micro_batch < p->data.global_batch ? p->data.micro_batch : p->data.global_batch;
  int n_own, n = profile_list_points(rows, p->data.global_batch % rows, job->length, points, &n_own);
  bool lacks = false;
  job->n_points = 0;
  for (int i = 0; i < n; i++) {
    bool has = profile_has_point(job->profile, job->model, points[i]);
    if (i < n_own && !has) lacks = true;
    if (!has && lacks) job->points[job->n_points++] = points[i];
  }
  job->ops_only = has_rest(job->profile, comm_get_size(job->comm));
  if (job->ops_only || job->n_points) return;
  job->points[job->n_points++] = points[0]; /* the rest hangs on the layers of a point */
}

static int choose_all(struct profile_job *job) {
  int status = comm_agree_all(job->comm, check_place(job));
  if (!status) status = comm_agree_all(job->comm, read_known(job));
  if (status) return status;
  if (job->rank == 0) list_missing(job);
  int32_t found[2] = {job->n_points, job->ops_only};
  comm_broadcast_all(job->comm, 0, found, sizeof found);
  comm_broadcast_all(job->comm, 0, job->points, sizeof job->points);
  job->n_points = found[0];
  job->ops_only = found[1];
  return STATUS_OK;
}

/* ---- measuring ---- */

static void print_progress(void *context, const char *line) {
  (void)context;
  log_line("%s", line);
}

static int measure_all(struct profile_job *job) {
  struct profile_config config = {.comm = job->comm,
                                  .model = job->model,
                                  .backend = params_get_choice(&job->params, PARAM_device_backend),
                                  .device = job->config,
                                  .points = job->points,
                                  .n_points = job->n_points,
                                  .ops_only = job->ops_only,
                                  .seconds = job->options->seconds,
                                  .folder = job->params.run.folder,
                                  .progress = job->options->json ? NULL : print_progress};
  int status = profile_measure_all(&config, job->profile, &job->notes);
  if (status) return status;
  return comm_agree_all(job->comm, job->rank == 0 ? profile_file_write(job->path, job->profile) : STATUS_OK);
}

static void print_result(const struct profile_job *job) {
  const struct params *p = &job->params;
  int64_t rows = p->data.micro_batch < p->data.global_batch ? p->data.micro_batch : p->data.global_batch;
  struct profile_report report = {job->profile, job->model, micro_shape_fill(rows, job->length),
                                  job->path,    job->notes, job->n_points > 0};
  char *text = job->options->json ? profile_report_format_json(&report) : profile_report_format(&report);
  fputs(text, stdout);
  mem_free(text);
}

static int profile_all(struct comm *comm, const struct profile_options *o) {
  struct profile_job job = {.options = o, .comm = comm, .rank = comm_get_rank(comm)};
  int status = open_deck_all(&job);
  if (!status) status = choose_all(&job);
  if (!status && job.n_points) status = measure_all(&job);
  if (!status && job.rank == 0) print_result(&job);
  if (!status) status = comm_agree_all(comm, cmd_check_output());
  close_job(&job);
  return status;
}

/* ---- the command ---- */

static int check_options(int argc, char **argv, struct profile_options *o) {
  char *end = NULL;
  if (argc != 2) return error_raise(STATUS_MISTAKE, "profile takes one deck: penstock profile DECK");
  o->deck = argv[1];
  o->seconds = o->seconds_text ? strtod(o->seconds_text, &end) : 60;
  if (o->seconds_text && (end == o->seconds_text || *end || !(o->seconds > 0 && o->seconds <= 1e6)))
    return error_raise(STATUS_MISTAKE, "--seconds %s: a time above 0, at most 1000000, in seconds", o->seconds_text);
  return STATUS_OK;
}

int cmd_profile(int argc, char **argv) {
  struct profile_options o = {0};
  bool done = false;
  const struct option_spec specs[] = {
      {"--again", OPTION_FLAG, NULL, "measures all, also what the file has already", &o.again},
      {"--json", OPTION_FLAG, NULL, "prints one JSON object on standard output", &o.json},
      {"--seconds", OPTION_TEXT, "S", "time to measure for (60); large models take longer", &o.seconds_text},
      OPTION_OVERRIDES(&o.overrides),
      OPTION_SINGLE(&o.single),
      {0},
  };
  struct comm *comm = NULL;
  int status = options_parse(&argc, argv, specs, &done);
  if (!status && !done) status = check_options(argc, argv, &o);
  if (!done) status = job_open_all(&argc, &argv, specs, o.single, status, &comm);
  if (comm) status = job_close_all(&comm, profile_all(comm, &o));
  options_fini(&o.overrides);
  return status;
}
