/* Compares the content of what a job reads: token files are the same on all ranks of a job, and those that are
 * trained on the same in all lives of a run. Where they lie does not matter.
 */
#ifndef PENSTOCK_SETUP_SAME_DATA_H
#define PENSTOCK_SETUP_SAME_DATA_H

struct comm;
struct dataset;

/* Compares the files of one key ("data.train") over all ranks. STATUS_MISTAKE on all of them names a file, two ranks
 * whose copies differ, and what each of these holds. Collective. */
int same_data_compare_ranks_all(struct comm *comm, const char *key, const struct dataset *dataset);

/* The files as a text, a line each, which a checkpoint keeps: fingerprint, tokens, documents, prefix. Owned by the
 * caller. */
char *same_data_describe(const struct dataset *dataset);

/* Compares the files of a key with those of such a text: STATUS_MISTAKE says what was and what is, and then `so`, what
 * follows from it. *note is a line for the log on files that lie elsewhere now, owned by the caller, NULL when none do.
 */
int same_data_compare_life(const char *key, const char *before, const struct dataset *dataset, const char *so,
                           char **note);

#endif
