#include "base/clock.h"

#include <errno.h>
#include <time.h>

double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
