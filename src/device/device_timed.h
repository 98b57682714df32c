/* Internal to the registry of backends. */
#ifndef PENSTOCK_DEVICE_DEVICE_TIMED_H
#define PENSTOCK_DEVICE_DEVICE_TIMED_H

#include "device/device.h"

extern const struct device_ops device_timed_ops;

#endif
