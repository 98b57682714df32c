/* Numbers of bytes for people. */
#ifndef PENSTOCK_BASE_BYTES_H
#define PENSTOCK_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes as "1.50 GiB" in the caller's buffer. */
void bytes_format(int64_t bytes, char *text, size_t size);

#endif
