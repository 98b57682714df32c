#include "base/bytes.h"

#include <stdio.h>

void bytes_format(int64_t bytes, char *text, size_t size) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  size_t u = 0;
  while (value >= 1024 && u + 1 < sizeof units / sizeof *units) {
    value /= 1024;
    u++;
  }
  snprintf(text, size, u ? "%.2f %s" : "%.0f %s", value, units[u]);
}
