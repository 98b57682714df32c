/* Host memory of the program itself (not of the device): counted, and ending the job when exhausted. Sizes in bytes.
 * A non-zero balance at exit is a bug that the tests look for.
 */
#ifndef PENSTOCK_BASE_MEM_H
#define PENSTOCK_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory owned by the caller; never NULL for a size above 0, NULL for 0. */
void *mem_alloc(size_t bytes);
/* Grows or shrinks; new bytes are not cleared. `memory` may be NULL. */
void *mem_resize(void *memory, size_t bytes);
/* Copy of a string, owned by the caller. */
char *mem_strdup(const char *text);
/* A formatted string, owned by the caller. */
char *mem_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Frees; NULL is allowed. */
void mem_free(void *memory);
/* Returns the bytes that this process may still map under its limits (address space, ulimit -v; data, ulimit -d);
 * INT64_MAX without a limit. */
int64_t mem_get_room(void);
/* " (ulimit -v is 1500000 kB)" when a limit is set, to be put behind a message that memory lacks; else "". Static. */
const char *mem_describe_limits(void);
/* Number of live allocations. */
int64_t mem_balance(void);

#define MEM_NEW(type, count) ((type *)mem_alloc(sizeof(type) * (size_t)(count)))

#endif
