#include "base/bytes.h"

#include <stdio.h>

void bytes_format(int64_t bytes, char *text, size_t size) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int64_t unit = 1;
  size_t u = 0;
  while (bytes / unit >= 1024 && u + 1 < sizeof units / sizeof *units) {
    unit *= 1024;
    u++;
  }
  int64_t whole = bytes / unit, hundredths = (100 * (bytes % unit) + unit - 1) / unit;
  if (u)
    snprintf(text, size, "%lld.%02lld %s", (long long)(whole + hundredths / 100), (long long)(hundredths % 100),
             units[u]);
  else
    snprintf(text, size, "%lld B", (long long)bytes);
}
