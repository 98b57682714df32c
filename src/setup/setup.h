/* Makes model, plan and device of parameters: the steps that `train` and `verify` share. Functions ending in _all are
 * collective and end in agreement: every rank gets the same status, and the message is every rank's error_text.
 */
#ifndef PENSTOCK_SETUP_SETUP_H
#define PENSTOCK_SETUP_SETUP_H

#include "comm/topo.h"
#include "device/device.h"
#include "exec/optimizer.h"
#include "setup/request.h"

struct comm;
struct dataset;

/* Reads the deck on rank 0 (NULL: none), broadcasts it, parses it everywhere. A rank that was given another deck, or
 * other values of keys that all must share, is STATUS_MISTAKE with its rank, the key and both values. *deck_text (may
 * be NULL) is the text, owned by the caller. */
int setup_params_all(struct comm *comm, const char *deck, const char *const *overrides, int n_overrides,
                     struct params *params, char **deck_text);

/* Compares the keys of parameters that each rank has already. */
int setup_compare_params_all(struct comm *comm, const struct params *params);

/* A text of rank 0, on all ranks; owned by the caller. What other ranks give is not looked at. */
char *setup_share_text_all(struct comm *comm, const char *text);

/* The model that the parameters name; *json is its configuration's text, owned by the caller. */
int setup_model_all(struct comm *comm, const struct params *params, struct model **model, char **json);

/* dataset_open on all ranks, whose files must have the same content; `key` is how messages call it ("data.train"). */
int setup_open_data_all(struct comm *comm, const struct params *params, const struct model *model, const char *key,
                        const struct params_mix *mix, bool shuffle, struct dataset **dataset);

/* Device limits of all ranks: deck, rank_limits, else `share_bytes` of each rank. limits[size] is filled in. */
int setup_limits_all(struct comm *comm, const struct params *params, int64_t share_bytes, int64_t *limits);

/* Plans on rank 0, checks the plan and its graph, broadcasts it, compares hashes. A plan that does not fit is
 * STATUS_MISTAKE with the smallest changes that would. */
int setup_plan_all(struct comm *comm, const char *planner, const struct plan_request *request, struct plan **plan);

/* The plan of a deck for rows of at most `longest` tokens. share_bytes: this rank's memory where the deck has no limit.
 * The planner's notes, a line each, are the caller's to free: on rank 0, NULL elsewhere and where there are none. With
 * `notes` NULL they are logged. */
int setup_deck_plan_all(struct comm *comm, const struct params *params, const struct model *model, int64_t longest,
                        int64_t share_bytes, struct plan **plan, char **notes);

struct optimizer_config setup_make_optimizer(const struct params *params);

/* A warning for each key that is given and cannot act. */
void setup_warn_idle(const struct params *params);

/* Cores and memory of this rank. Warns of what the environment says and a run cannot take: OMP_NUM_THREADS that is no
 * number, limits on the process (ulimit) that leave it less than the node has. Returns a status, the same on all ranks.
 */
int setup_topo_all(struct comm *comm, const struct params *params, struct topo *topo);

/* Threads and cores of this rank, and its limit. `topo` is borrowed. */
struct device_config setup_make_device(const struct params *params, const struct topo *topo, int64_t limit);

/* Fills in what the program finds out (threads, limit, stages), so that used.yml shows it. */
void setup_note_used(struct params *params, const struct comm *comm, const struct topo *topo);
/* Fills in what the plan tells (stages a rank), so that used.yml shows it. */
void setup_note_plan(struct params *params, const struct plan *plan);

#endif
