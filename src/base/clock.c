#include "base/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds since this process began, from the ticks after boot that Linux keeps; negative when it does not tell. */
static double read_age(void) {
  char text[1024] = "";
  unsigned long long ticks = 0;
  struct timespec now;
  FILE *stream = fopen("/proc/self/stat", "r");
  if (!stream) return -1;
  size_t n = fread(text, 1, sizeof text - 1, stream);
  fclose(stream);
  text[n] = '\0';
  const char *at = strrchr(text, ')'); /* a name may hold spaces; the start is the 20th field after it */
  for (int field = 0; at && field < 20; field++) at = strchr(at + 1, ' ');
  if (!at || sscanf(at, "%llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &now)) return -1;
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

double clock_get_start(void) {
  static double start;
  if (start == 0) {
    double age = read_age();
    start = clock_now() - (age > 0 ? age : 0);
  }
  return start;
}

void clock_sleep(double seconds) {
  if (!(seconds > 0)) return;
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  time_t whole = (time_t)seconds;
  end.tv_sec += whole;
  end.tv_nsec += (long)((seconds - (double)whole) * 1e9);
  if (end.tv_nsec >= 1000000000L) {
    end.tv_nsec -= 1000000000L;
    end.tv_sec++;
  }
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
  }
}

void clock_sleep_until(double instant) {
  time_t whole = (time_t)instant;
  struct timespec end = {whole, (long)((instant - (double)whole) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
  }
}

void clock_format(char text[32]) {
  time_t now = time(NULL);
  struct tm parts;
  gmtime_r(&now, &parts);
  strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

void clock_format_local(double seconds, char text[32]) {
  static const double DAY = 86400, MOST = 100 * 365.25 * 86400;
  time_t now = time(NULL), then = now + (time_t)(seconds < MOST ? seconds : MOST);
  struct tm today, parts;
  localtime_r(&now, &today);
  localtime_r(&then, &parts);
  bool is_today = parts.tm_yday == today.tm_yday && parts.tm_year == today.tm_year;
  strftime(text, 32, is_today ? "%H:%M" : seconds < 6 * DAY ? "%a %H:%M" : "%Y-%m-%d", &parts);
}
