/* The costs that a deck asks for, with the profile that it names read from its file. */
#ifndef PENSTOCK_SETUP_COSTS_H
#define PENSTOCK_SETUP_COSTS_H

#include "cost/cost.h"

struct comm;

/* Like cost_create; with cost.source profile it reads the file cost.profile. A file that is not there or cannot be read
 * is no failure: the notes say why, and that times are not measured. device: the one that the plan is for, as
 * profile_describe_device_all has it; NULL: not known. On one rank alone. */
int costs_open(const struct params *params, const struct model *model, int32_t n_ranks, const char *device,
               struct cost **cost, char **notes);
/* Like costs_open, on every rank: rank 0 alone reads the profile and gives all others a copy. Collective; the status is
 * this rank's own. */
int costs_open_all(struct comm *comm, const struct params *params, const struct model *model, const char *device,
                   struct cost **cost, char **notes);

#endif
