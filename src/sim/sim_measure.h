/* Measures a simulated step: its parts as of any step (record/step_parts.h), and the sums that only its graph tells.
 */
#ifndef PENSTOCK_SIM_SIM_MEASURE_H
#define PENSTOCK_SIM_SIM_MEASURE_H

#include "sim/sim.h"

/* From start, end and binder of the first iteration to its ranks, stages and message shares. ranks [n_ranks], stages
 * [n_stages]: room for the parts. */
void sim_measure(const struct dag *dag, int32_t n_stages, struct step_rank *ranks, struct step_stage *stages,
                 struct sim_result *result);

#endif
