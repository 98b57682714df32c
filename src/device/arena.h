/* The device's memory: a limit that is enforced, exact accounting, and backing that reuses its pages.
 *
 * Every allocation is rounded up to 64 bytes and counted; "used" is the sum of the live ones, "peak" its high-water
 * mark. An allocation that would take used above the limit is refused. Backing is one reserved address range; holes are
 * reused (best fit), and when live blocks reach beyond the limit because of holes, the holes' pages go back to the
 * system, so that resident memory follows used memory. "reserved" is how far the range has been used.
 */
#ifndef PENSTOCK_DEVICE_ARENA_H
#define PENSTOCK_DEVICE_ARENA_H

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* name: what messages call it, and the deck's key of its limit: "device", "host". limit: bytes, INT64_MAX for none.
 * With poison every new block is filled with NaNs, so that reading what was never written shows, and blocks lie 64
 * bytes apart (not counted as used), so that writing beyond one shows when it is freed (CHECK). NULL and a recorded
 * error when no address range can be had. */
struct arena *arena_create(const char *name, int64_t limit, bool poison);
/* Live blocks are a bug (CHECK). */
void arena_destroy(struct arena **arena);
/* NULL and a recorded error (STATUS_FAILED: what, bytes, used, limit) when it does not fit. Not cleared. Bytes 0: NULL
 * without an error. */
void *arena_alloc(struct arena *arena, int64_t bytes, const char *what);
void arena_free(struct arena *arena, void *block);
int64_t arena_get_used(const struct arena *arena);
int64_t arena_get_peak(const struct arena *arena);
void arena_reset_peak(struct arena *arena); /* to what is used now */
int64_t arena_get_reserved(const struct arena *arena);

#endif
