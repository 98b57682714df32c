/* The registry of backends: one line each. */
#include "device/device.h"
#include "device/device_cpu.h"
#include "device/device_timed.h"

#include "base/error.h"
#include "input/params.h"

#include <stddef.h>
#include <string.h>

static const struct device_ops *const backends[] = {
    &device_cpu_ops,
    &device_timed_ops,
};

const struct device_ops *device_find(const char *name) {
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
    if (!strcmp(backends[i]->name, name)) return backends[i];
  return NULL;
}

const struct device_ops *device_of_deck(const struct params *params) {
  const char *name = params_get_choice(params, PARAM_device_backend);
  const struct device_ops *ops = device_find(name);
  CHECK(ops, "no backend %s", name); /* what a deck may name is built */
  return ops;
}
