/* Numbers of bytes for people. */
#ifndef PENSTOCK_BASE_BYTES_H
#define PENSTOCK_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes as "1.50 GiB" in the caller's buffer, rounded up, so that a need that is printed is enough when it is typed as
 * a limit: a deck takes all that this writes, and rounds down (input/units.h). */
void bytes_format(int64_t bytes, char *text, size_t size);

#endif
