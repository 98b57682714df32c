/* Texts of `penstock simulate` and `penstock report` about a plan file. */
#ifndef PENSTOCK_CMD_SIMULATE_H
#define PENSTOCK_CMD_SIMULATE_H

#include <stdbool.h>
#include <stdint.h>

struct option_list;

/* Simulates n_iterations steps of a plan.h5 with the costs of its deck, which the overrides change. *text, owned by the
 * caller, says where the time goes, or is the JSON object of `penstock plan`. */
int simulate_format(const char *path, const struct option_list *overrides, int32_t n_iterations, bool json,
                    char **text);

#endif
