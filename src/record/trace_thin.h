/* Keeps trace.h5 within a bound: some steps go, whole. Only for trace.c. */
#ifndef PENSTOCK_RECORD_TRACE_THIN_H
#define PENSTOCK_RECORD_TRACE_THIN_H

#include <stdbool.h>
#include <stdint.h>

struct h5_file;

/* The steps of a table that stay: those up to `first`, those from `last` on, and between them the multiples of `every`.
 */
struct trace_choice {
  int64_t first, last, every;
  int64_t n_last; /* steps from `last` on */
};
bool trace_choice_keeps(const struct trace_choice *choice, int64_t step);
/* Chooses at most `most` of n ascending steps to stay, at least the last one: up to TRACE_LAST_STEPS last ones, a few
 * first ones, and between them as many as there is room for. Their distance is a power of two and at least `every`,
 * the distance of the last choice, so that they are among the steps that stayed then. */
struct trace_choice trace_choose(const int32_t *steps, int64_t n, int64_t most, int64_t every);

/* Writes a file with what stays of `old`, a quarter of `limit` bytes or less (more where one step alone takes more),
 * puts it in the place of path and of *file, and closes the old one. What was written to the old one and not flushed is
 * in the new one. chunks: rows of a chunk of /nodes, /peaks, /steps. *choice: what stays of /nodes and /peaks, its
 * `every` before and after; /steps stays whole while it takes little. On failure *file and the disk are as before. By
 * one rank alone. */
int trace_thin(struct h5_file **file, const char *path, int64_t limit, const int64_t chunks[3],
               int (*write_attributes)(void *context, struct h5_file *file), void *context,
               struct trace_choice *choice);
/* The file that a killed trace_thin leaves beside path goes. */
void trace_thin_clean(const char *path);

#endif
