#include "setup/costs.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "cost/profile.h"
#include "input/params.h"
#include "profile/profile_measure.h"
#include "record/profile_file.h"

/* Why there is no profile, NULL when there is one; both owned by the caller. */
static char *read_profile(const struct params *params, struct profile **profile) {
  *profile = NULL;
  if (profile_file_read(params->cost.profile, profile)) {
    char *reason = mem_strdup(error_text());
    error_clear();
    return reason;
  }
  return *profile ? NULL : mem_strdup("there is no such file");
}

static int create(const struct params *params, const struct model *model, int32_t n_ranks, const char *device,
                  const struct profile *profile, const char *reason, struct cost **cost, char **notes) {
  const struct cost_measured measured = {profile, params->cost.profile, reason, device};
  return cost_create_measured(params, model, n_ranks, &measured, cost, notes);
}

/* Planning may be for another machine than this one, so that is no fault; but who plans for this one must know. */
static void note_processor(const struct profile *profile, char **notes) {
  char processor[PROFILE_MOST_PROCESSOR];
  profile_read_processor(processor);
  if (strstr(profile->device, processor)) return;
  char *longer = mem_format("%s%sthis machine's processor is another (%s): the times are not measured here", *notes,
                            (*notes)[0] ? "\n" : "", processor);
  mem_free(*notes);
  *notes = longer;
}

int costs_open(const struct params *params, const struct model *model, int32_t n_ranks, const char *device,
               struct cost **cost, char **notes) {
  struct profile *profile = NULL;
  char *reason = params->cost.source == PARAMS_COST_SOURCE_PROFILE ? read_profile(params, &profile) : NULL;
  int status = create(params, model, n_ranks, device, profile, reason, cost, notes);
  if (!status && profile && !device) note_processor(profile, notes);
  profile_destroy(&profile);
  mem_free(reason);
  return status;
}

/* ---- the same profile on all ranks ---- */

static void share_array_all(struct comm *comm, void **array, int64_t *n, size_t row_bytes) {
  comm_broadcast_all(comm, 0, n, sizeof *n);
  if (comm_get_rank(comm) != 0) *array = mem_alloc(row_bytes * (size_t)*n);
  if (*n > 0) comm_broadcast_all(comm, 0, *array, *n * (int64_t)row_bytes);
}

/* NULL stays NULL. */
static void share_text_all(struct comm *comm, char **text) {
  int64_t n = *text ? (int64_t)strlen(*text) + 1 : 0;
  void *bytes = *text;
  share_array_all(comm, &bytes, &n, 1);
  if (n == 0 && bytes) mem_free(bytes);
  *text = n ? bytes : NULL;
}

static void share_profile_all(struct comm *comm, struct profile **profile) {
  int64_t there = *profile != NULL;
  comm_broadcast_all(comm, 0, &there, sizeof there);
  if (!there) return;
  bool reads = comm_get_rank(comm) == 0;
  char *device = reads ? mem_strdup((*profile)->device) : NULL, *model = reads ? mem_strdup((*profile)->model) : NULL;
  share_text_all(comm, &device);
  share_text_all(comm, &model);
  if (!reads) *profile = profile_create(device ? device : "", model ? model : "");
  struct profile *p = *profile;
#define X(table, row) share_array_all(comm, (void **)&p->table, &p->n_##table, sizeof(row));
  PROFILE_TABLES(X)
#undef X
  mem_free(device);
  mem_free(model);
}

/* A table is read by every rank, maybe from a disk of its own. */
static int compare_table_all(struct comm *comm, const struct params *params) {
  uint64_t mine = 0, theirs;
  int64_t bytes;
  if (params->cost.source != PARAMS_COST_SOURCE_TABLE) return STATUS_OK;
  int status = comm_agree_all(comm, hash_file(params->cost.table, &mine, &bytes));
  if (status) return status;
  theirs = mine;
  comm_broadcast_all(comm, 0, &theirs, sizeof theirs);
  if (mine != theirs)
    status = error_raise(STATUS_MISTAKE, "cost.table: %s is another file than that of rank 0 (%s)", params->cost.table,
                         comm_get_host(comm, 0));
  return comm_agree_all(comm, status);
}

int costs_open_all(struct comm *comm, const struct params *params, const struct model *model, const char *device,
                   struct cost **cost, char **notes) {
  struct profile *profile = NULL;
  char *reason = NULL;
  if (params->cost.source == PARAMS_COST_SOURCE_PROFILE) {
    if (comm_get_rank(comm) == 0) reason = read_profile(params, &profile);
    share_text_all(comm, &reason);
    share_profile_all(comm, &profile);
  }
  int status = comm_agree_all(comm, create(params, model, comm_get_size(comm), device, profile, reason, cost, notes));
  if (!status) status = compare_table_all(comm, params);
  profile_destroy(&profile);
  mem_free(reason);
  return status;
}
