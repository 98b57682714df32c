/* Internal to the CPU backend: from an op of a layer table to its kernels. */
#ifndef PENSTOCK_DEVICE_DEVICE_CPU_H
#define PENSTOCK_DEVICE_DEVICE_CPU_H

#include "device/device.h"

extern const struct device_ops device_cpu_ops;

/* Runs one op in one pass on a pool of threads (device_cpu_ops.c). An op that has nothing to do in a pass does nothing.
 */
void device_cpu_run_op(struct pool *pool, enum pass pass, const struct op_call *call);

#endif
