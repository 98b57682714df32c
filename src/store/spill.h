/* Activation blocks on disk: one file a rank in a folder of its node, as long as the run lasts.
 *
 * The file is HDF5 with one contiguous dataset of bytes, /blocks. Room for what the blocks are said to take is reserved
 * when it is made, so that a full disk shows before the first step; the dataset is larger, a hole where nothing is, for
 * blocks that the holes between others do not hold. A thread writes and reads places of it without HDF5, which belongs
 * to the main thread. The hash of every block stays in memory and is checked when the block is read: what is not what
 * was written is a failure, never data.
 */
#ifndef PENSTOCK_STORE_SPILL_H
#define PENSTOCK_STORE_SPILL_H

#include <stdbool.h>
#include <stdint.h>

struct spill;

/* Makes the folder if need be and a file in it named after `run`, host, process and rank, and locks it; removes those
 * that runs which are gone have left there (nobody holds their lock). limit: bytes that blocks may take, INT64_MAX for
 * none; `most`: what they are said to take at a time. STATUS_MISTAKE for a folder that cannot be used, STATUS_FAILED
 * for a disk without room, both with path and reason. */
enum { SPILL_ALIGN = 4096 };
int spill_open(const char *folder, const char *run, int32_t rank, int64_t limit, int64_t most, struct spill **spill);
/* Waits for the job under way and removes the file. */
void spill_close(struct spill **spill);
/* Removes the file's name without a wait, before a process ends in the middle of things. */
void spill_abandon(struct spill *spill);
const char *spill_get_path(const struct spill *spill); /* belongs to the spill */

/* Room for a block: its place, or -1 and a recorded error when it would go beyond the limit. */
int64_t spill_alloc(struct spill *spill, int64_t bytes, const char *what);
void spill_free(struct spill *spill, int64_t place);
int64_t spill_get_peak(const struct spill *spill);
void spill_reset_peak(struct spill *spill);      /* to what is used now */
double spill_get_cpu(const struct spill *spill); /* seconds that its jobs have kept a core busy; none under way */

/* Begin to write or read the whole block at a place, beside all else: one job at a time, `data` stays as it is until it
 * has ended. */
void spill_begin_write(struct spill *spill, int64_t place, const void *data);
void spill_begin_read(struct spill *spill, int64_t place, void *data);
/* True once the job has ended. *status is then how it did (recorded: a full disk, a file that is gone, a damaged
 * block), *start and *end (clock_now) when it ran. */
bool spill_test(struct spill *spill, int *status, double *start, double *end);

#endif
