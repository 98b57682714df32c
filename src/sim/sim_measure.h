/* What the times of a simulated or measured step mean: busy and idle by cause. */
#ifndef PENSTOCK_SIM_SIM_MEASURE_H
#define PENSTOCK_SIM_SIM_MEASURE_H

#include "sim/sim.h"

/* From start, end and binder of the first iteration to its ranks, stages and message shares. */
void sim_measure(const struct dag *dag, int32_t n_stages, struct sim_result *result);

#endif
