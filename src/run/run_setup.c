/* Everything of a run up to its first step, and its end. */
#include "run/run.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "cost/cost.h"
#include "device/device.h"
#include "record/checkpoint.h"
#include "record/trace.h"
#include "setup/predict.h"
#include "setup/same_data.h"
#include "store/disk.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Path of a file in the run folder, on any rank; owned by the caller. */
static char *make_path(const struct run *run, const char *name) { return mem_format("%s/%s", run->folder, name); }

static void poll_comm(void *context) { comm_poll(context); }

/* How long a rank waits for the folder to appear: file servers tell other nodes late. */
static double get_patience(const struct run *run) { return comm_get_node(run->comm, run->rank) == 0 ? 1 : 10; }

/* Rank 0 makes and locks the folder; the others look whether they see that very one. */
static int open_folder_all(struct run *run) {
  struct rundir_poll poll = {poll_comm, run->comm};
  struct {
    int64_t before, broke_at;
    struct rundir_token token;
  } found = {0};
  run->folder = mem_strdup(run->params->run.folder);
  int status = STATUS_OK;
  if (run->rank == 0) status = rundir_open(run->folder, &poll, &run->dir, &run->before, &run->broke_at);
  status = comm_agree_all(run->comm, status);
  if (status) return status;
  log_hold_file();
  if (run->rank == 0) {
    found.before = run->before;
    found.broke_at = run->broke_at;
    found.token = rundir_get_token(run->dir);
  }
  comm_broadcast_all(run->comm, 0, &found, sizeof found);
  run->before = (enum run_state)found.before;
  run->broke_at = found.broke_at;
  if (run->rank != 0) status = rundir_join(run->folder, &found.token, get_patience(run), &poll, &run->dir);
  return comm_agree_all(run->comm, status);
}

/* Checks the folder of checkpoints, which may lie outside the run folder, on all ranks. */
static int look_at_checkpoints_all(struct run *run) {
  struct rundir_poll poll = {poll_comm, run->comm};
  int status = run->rank == 0 ? rundir_mark(run->dir, "checkpoints") : STATUS_OK;
  status = comm_agree_all(run->comm, status);
  if (status) return status;
  if (run->rank != 0) status = rundir_find_mark(run->dir, "checkpoints", get_patience(run), &poll);
  status = comm_agree_all(run->comm, status);
  if (run->rank == 0) rundir_unmark(run->dir, "checkpoints");
  return status;
}

/* A run that goes on must be the run that began: rank 0 holds the deck against the used.yml it finds. */
static int compare_deck(const struct run *run, const struct checkpoint_origin *origin) {
  if (run->rank != 0 || run->found_step < 0) return STATUS_OK;
  char *used = make_path(run, "used.yml");
  FILE *file = fopen(used, "r");
  int status = file ? params_compare_resume(run->params, used, !origin->data) : STATUS_OK;
  if (file) fclose(file);
  mem_free(used);
  return status;
}

/* Checks that the model and data named by files are those that the run began with, wherever they lie. Rank 0 does it,
 * as all ranks have equal ones. */
static int compare_content(const struct run *run, const struct checkpoint_origin *origin) {
  char *note = NULL;
  if (run->rank != 0 || run->found_step < 0) return STATUS_OK;
  const char *source = run->params->model.config ? run->params->model.config : "model";
  int status = origin->model ? model_compare(origin->model, run->model_json, source) : STATUS_OK;
  if (!status && origin->data)
    status = same_data_compare_life("data.train", origin->data, run->train,
                                    "it may not change in a run that goes on: put back what was there, or take another "
                                    "run.folder",
                                    &note);
  if (!status && !origin->data)
    log_line("%s does not say what data it was trained on: that data.train is what it was is not checked", run->found);
  if (!status && note) log_line("%s", note);
  mem_free(note);
  return status;
}

/* Rows for evaluation may change, as their key may; what no longer compares is said. */
static void compare_validation(struct run *run, const struct checkpoint_origin *origin) {
  char *note = NULL;
  if (run->rank != 0 || !run->validation || !origin->validation) return;
  if (same_data_compare_life(
          "data.validation", origin->validation, run->validation,
          "validation losses from here on are of other rows than those before, and run.keep_best begins "
          "anew",
          &note)) {
    log_warn("%s", error_text());
    error_clear();
    run->forgets_best = true;
  }
  if (note) log_line("%s", note);
  mem_free(note);
}

/* used.yml, and its text on all ranks for the files that keep it. */
static int write_used_all(struct run *run) {
  char *used = make_path(run, "used.yml");
  int status = STATUS_OK;
  if (run->rank == 0) status = params_write_used(run->params, used);
  if (run->rank == 0 && !status) status = file_read_text(used, &run->deck);
  mem_free(used);
  status = comm_agree_all(run->comm, status);
  if (status) return status;
  int64_t bytes = run->deck ? (int64_t)strlen(run->deck) + 1 : 0;
  comm_broadcast_all(run->comm, 0, &bytes, sizeof bytes);
  if (!run->deck) run->deck = mem_alloc((size_t)bytes);
  comm_broadcast_all(run->comm, 0, run->deck, bytes);
  return STATUS_OK;
}

/* Files that this run does not read, but the next one with run.evaluate_every may. */
static void warn_validation(const struct run *run) {
  struct dataset *dataset = NULL;
  const struct params *p = run->params;
  if (run->rank != 0 || !p->data.validation.n) return;
  if (dataset_open(p, &p->data.validation, false, run->model->config.vocab_size, &dataset))
    log_warn("data.validation: %s", error_text());
  error_clear();
  dataset_close(&dataset);
}

/* The ranks share the look at every id. */
static int open_data_all(struct run *run) {
  const struct params *p = run->params;
  int status =
      setup_open_data_all(run->comm, p, run->model, "data.train", &p->data.train, p->data.shuffle, &run->train);
  if (!status && p->run.evaluate_every && p->data.validation.n)
    status =
        setup_open_data_all(run->comm, p, run->model, "data.validation", &p->data.validation, false, &run->validation);
  if (!status) status = dataset_check_vocabulary(run->train, run->rank, run->size);
  if (!status && run->validation) status = dataset_check_vocabulary(run->validation, run->rank, run->size);
  if (!status && !run->validation) warn_validation(run);
  return comm_agree_all(run->comm, status);
}

/* Describes the model for readers of checkpoints: the configuration with all defaults filled in, and the ids that the
 * documents show. */
static void describe_config(struct run *run) {
  int32_t begin, end;
  tokens_find_edges(dataset_get_file(run->train, 0), &begin, &end);
  run->config = model_format_config(run->model, run->model_json, begin, end);
}

static int64_t get_longest(const struct run *run) {
  int64_t length = dataset_get_longest(run->train);
  int64_t other = run->validation ? dataset_get_longest(run->validation) : 0;
  return other > length ? other : length;
}

/* Memory of this rank where the deck has no limit: what is only counted has none. */
static int64_t get_share(const struct run *run) {
  return device_of_deck(run->params)->uses_node_memory ? run->topo.memory_share_bytes : INT64_MAX;
}

/* plan.h5 holds the plan for the worst micro-batches with its graph and what it is predicted to take. */
static int write_plan(struct run *run) {
  if (run->rank != 0) return STATUS_OK;
  const struct cost *cost = run_compare_get_cost(run);
  struct prediction prediction;
  int status = predict_plan(plan_dup_with_micro(run->plan, run->plan->micro), run->model, cost,
                            run_compare_get_scale(run), 1, &prediction);
  if (status) return status;
  char *path = make_path(run, "plan.h5");
  status = predict_write(&prediction, run->model, cost, path, run->deck, run->model_json);
  run->n_nodes = prediction.dag->n_nodes;
  predict_fini(&prediction);
  mem_free(path);
  return status;
}

static int open_trainer_all(struct run *run) {
  struct trainer_config config = {.comm = run->comm,
                                  .model = run->model,
                                  .plan = run->plan,
                                  .backend = params_get_choice(run->params, PARAM_device_backend),
                                  .device =
                                      setup_make_device(run->params, &run->topo, run->plan->device_limit[run->rank]),
                                  .optimizer = setup_make_optimizer(run->params),
                                  .sync_messages = run->params->device.sync_messages,
                                  .spill_folder = run->params->memory.spill_folder,
                                  .run = run->params->run.name,
                                  .cost = run->cost,
                                  .time_scale = run->params->device.time_scale};
  return comm_agree_all(run->comm, trainer_create(&config, &run->trainer));
}

/* The row of a checkpoint's step is written after the evaluation of that step. Of a run that was killed between the
 * two, the checkpoint has it; the evaluation is owed. */
static int restore_row(struct run *run, const struct metrics_row *last) {
  bool lacks = last ? last->step < run->row.step : run->row.step == 1;
  return lacks && !run->owes_evaluation ? metrics_append(run->dir, &run->row) : STATUS_OK;
}

/* Rank 0. What the row of the checkpoint does not know yet, the file may. */
static int open_metrics(struct run *run) {
  struct metrics_row *rows = NULL, *last = NULL;
  int64_t n = 0;
  char *path = make_path(run, "metrics.csv");
  if (run->row.step > 0 && !access(path, F_OK) && metrics_read(path, &rows, &n)) error_clear(); /* it is read again */
  for (int64_t i = 0; i < n; i++)
    if (rows[i].step <= run->row.step) last = &rows[i];
  if (last && last->step == run->row.step && isnan(run->row.validation_loss)) run->row = *last;
  run->owes_evaluation =
      run->row.step > 0 && isnan(run->row.validation_loss) && run_evaluation_is_due(run, run->row.step);
  int status = metrics_open(run->dir, run->owes_evaluation ? run->step - 1 : run->step);
  if (!status && run->row.step > 0) status = restore_row(run, last);
  mem_free(path);
  mem_free(rows);
  return status;
}

/* Files that grow with the steps, cut back to where the run goes on. */
static int open_outputs_all(struct run *run) {
  int status = run->rank == 0 ? open_metrics(run) : STATUS_OK;
  status = comm_agree_all(run->comm, status);
  if (status || run->params->run.trace_every == 0) return status;
  char *path = make_path(run, "trace.h5");
  status = trace_open_all(run->comm, path, run->step, &run->trace);
  mem_free(path);
  status = comm_agree_all(run->comm, status);
  if (status) return status;
  trace_set_limit(run->trace, run->params->run.trace_limit);
  run_report_trace(run);
  return STATUS_OK;
}

/* A run that is to stop when it cannot save does not train first to find that out. */
static int make_checkpoint_folder(const struct run *run) {
  if (!device_of_deck(run->params)->computes || run->params->run.on_save_error != PARAMS_ON_SAVE_ERROR_STOP)
    return STATUS_OK;
  char *folder = make_path(run, "checkpoints");
  int status = disk_make_folder(folder);
  mem_free(folder);
  return status;
}

/* Model and data, compared with those that a run that goes on began with before anything of it is touched. */
static int open_content_all(struct run *run) {
  struct checkpoint_origin origin = {0};
  int status = run->found && run->rank == 0 ? checkpoint_read_origin(run->found, &origin) : STATUS_OK;
  if (!status) status = compare_deck(run, &origin);
  status = comm_agree_all(run->comm, status);
  if (!status) status = comm_agree_all(run->comm, params_require_training(run->params));
  if (!status) status = setup_model_all(run->comm, run->params, &run->model, &run->model_json);
  if (!status) status = comm_agree_all(run->comm, request_check_positions(run->params, run->model));
  if (!status) status = open_data_all(run);
  if (!status) status = comm_agree_all(run->comm, compare_content(run, &origin));
  if (!status) {
    compare_validation(run, &origin);
    run->data = same_data_describe(run->train);
    if (run->validation)
      run->validation_data = same_data_describe(run->validation);
    else if (origin.validation)
      run->validation_data = mem_strdup(origin.validation);
  }
  checkpoint_fini_origin(&origin);
  return status;
}

/* The run is accepted: from here on the folder is changed. */
static int begin_all(struct run *run) {
  int status = STATUS_OK;
  if (run->rank == 0) {
    char *log = make_path(run, "log.txt");
    status = log_open_file(log);
    if (!status) status = rundir_begin(run->dir);
    if (!status) run->has_begun = true;
    if (!status) status = run_past_keep(run);
    if (!status) status = make_checkpoint_folder(run);
    mem_free(log);
  }
  return comm_agree_all(run->comm, status);
}

/* All that may be refused, and no trace in the folder of what is. */
static int prepare_all(struct run *run) {
  setup_warn_idle(run->params);
  int status = open_content_all(run);
  if (!status) describe_config(run);
  if (!status) status = comm_agree_all(run->comm, run_timed_open(run, run->found_step));
  if (!status)
    status = setup_deck_plan_all(run->comm, run->params, run->model, get_longest(run), get_share(run), &run->plan,
                                 &run->plan_notes);
  if (!status) setup_note_plan(run->params, run->plan);
  if (!status) status = open_trainer_all(run);
  if (!status) status = run_compare_open_all(run);
  if (!status) run_report_start_all(run);
  if (!status) status = run_restore_all(run);
  return status;
}

int run_open_all(struct run *run, bool *done) {
  int status = open_folder_all(run);
  if (!status) status = look_at_checkpoints_all(run);
  if (!status) status = setup_topo_all(run->comm, run->params, &run->topo);
  if (!status) status = run_past_find_all(run, done);
  if (status || *done) return status;
  setup_note_used(run->params, run->comm, &run->topo);
  status = prepare_all(run);
  if (!status) status = begin_all(run);
  if (!status) status = write_used_all(run);
  if (!status) run_report_manifest_all(run);
  if (!status) status = comm_agree_all(run->comm, write_plan(run));
  if (!status) status = open_outputs_all(run);
  if (!status) run_report_head();
  return status;
}

void run_close_all(struct run *run) {
  if (run->has_lost_folder) trace_discard(&run->trace);
  if (run->trace) trace_close_all(&run->trace);
  run_compare_close(run);
  trainer_destroy(&run->trainer);
  cost_destroy(&run->cost);
  plan_destroy(&run->plan);
  mem_free(run->plan_notes);
  dataset_close(&run->train);
  dataset_close(&run->validation);
  model_destroy(&run->model);
  topo_fini(&run->topo);
  log_open_file(NULL);
  rundir_close(&run->dir);
  mem_free(run->model_json);
  mem_free(run->config);
  mem_free(run->deck);
  mem_free(run->data);
  mem_free(run->validation_data);
  mem_free(run->found);
  mem_free(run->folder);
}
