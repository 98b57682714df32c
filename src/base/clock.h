/* Time: seconds on the monotonic clock (since some fixed instant of this machine), sleeping, and wall-clock text. */
#ifndef PENSTOCK_BASE_CLOCK_H
#define PENSTOCK_BASE_CLOCK_H

double clock_now(void);
/* clock_now() as it was when this process began; where the system does not tell, as it was at the first call. */
double clock_get_start(void);
void clock_sleep(double seconds);
/* Sleeps until clock_now() is `instant`; returns at once when it has passed. */
void clock_sleep_until(double instant);
/* UTC as 2026-01-31T12:00:00Z in the caller's buffer of at least 32 bytes. */
void clock_format(char text[32]);
/* The local time so many seconds from now: 14:05 today, "Tue 14:05" within six days, else 2026-01-31. */
void clock_format_local(double seconds, char text[32]);

#endif
