/* A profile that rank 0 alone reads: every rank has the costs that it alone would have with the file, of ops, updates,
 * messages, copies and the disk.
 */
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "cost/profile.h"
#include "input/params.h"
#include "record/profile_file.h"
#include "setup/costs.h"
#include "t.h"
#include "tiny_model.h"

static const char path[] = "costs_profile.h5";

/* An op, an update and a copy each way that no preset has. */
static void write_profile(const struct model *model) {
  char *name = profile_describe_model(model);
  struct profile *p = profile_create("a test device", name);
  const struct profile_op op = {
      .layer = model->layers[1].kind, .pass = PASS_FORWARD, .rows = 1, .length = 8, .seconds = 7};
  const struct profile_sweep sweep = {PROFILE_UPDATE, 1000, 11};
  const struct profile_link links[] = {{0, 1, false, 1000, 13}, {0, 1, true, 1000, 13}};
  const struct profile_copy copies[] = {{PROFILE_COPY_BOTH, 1000, 17},
                                        {PROFILE_COPY_BOTH, 2000, 34},
                                        {PROFILE_DISK_WRITE, 1000, 19},
                                        {PROFILE_DISK_READ, 1000, 23}};
  profile_put_ops(p, &op, 1);
  profile_set_sweeps(p, &sweep, 1);
  profile_set_links(p, links, 2);
  profile_set_copies(p, copies, 4);
  T_CHECK(!profile_file_write(path, p), "%s", error_text());
  profile_destroy(&p);
  mem_free(name);
}

enum { OP, UPDATE, MESSAGE, COPY, WRITE, READ, TIMES };

static void list_times(const struct cost *cost, double times[TIMES]) {
  times[OP] = cost_get_op(cost, 0, 1, 0, PASS_FORWARD, micro_shape_fill(1, 8));
  times[UPDATE] = cost_get_update(cost, 0, 1000);
  times[MESSAGE] = cost_get_message(cost, 0, 1, 1000);
  times[COPY] = cost_get_copy(cost, 0, 1000, 1);
  times[WRITE] = cost_get_disk(cost, 0, true, 1000);
  times[READ] = cost_get_disk(cost, 0, false, 1000);
}

static void compare(struct comm *comm, const struct params *params, const struct model *model) {
  struct cost *shared = NULL, *own = NULL;
  char *shared_notes = NULL, *own_notes = NULL;
  double there[TIMES], here[TIMES];
  T_CHECK(!costs_open_all(comm, params, model, "a test device", &shared, &shared_notes), "%s", error_text());
  T_CHECK(!costs_open(params, model, comm_get_size(comm), "a test device", &own, &own_notes), "%s", error_text());
  list_times(shared, there);
  list_times(own, here);
  for (int k = 0; k < TIMES; k++)
    T_CHECK(there[k] == here[k] && here[k] > 1, "rank %d: time %d is %g, by the file itself %g", comm_get_rank(comm), k,
            there[k], here[k]);
  T_CHECK(!strcmp(shared_notes, own_notes), "rank %d: '%s', not '%s'", comm_get_rank(comm), shared_notes, own_notes);
  cost_destroy(&shared);
  cost_destroy(&own);
  mem_free(shared_notes);
  mem_free(own_notes);
}

int main(int argc, char **argv) {
  struct comm *comm;
  struct params params;
  const char *const overrides[] = {"cost.profile=costs_profile.h5"};
  if (comm_open_all(&argc, &argv, false, &comm) != STATUS_OK) {
    fprintf(stderr, "%s\n", error_text());
    return 1;
  }
  struct model *model = make_tiny_model(2, false);
  T_CHECK(!params_parse(NULL, overrides, 1, &params), "%s", error_text());
  if (comm_get_rank(comm) == 0) write_profile(model);
  comm_barrier_all(comm);
  compare(comm, &params, model);
  params_fini(&params);
  model_destroy(&model);
  int failed = comm_agree_all(comm, t_failures ? STATUS_FAILED : STATUS_OK);
  if (comm_get_rank(comm) == 0) remove(path);
  comm_close_all(&comm);
  T_CHECK(!failed || t_failures, "another rank failed");
  T_CHECK(mem_balance() == 0, "%lld allocations left", (long long)mem_balance());
  return t_end();
}
