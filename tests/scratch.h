/* A folder of a test's own in the folder that it runs in. One a program; removed with all that is in it. */
#ifndef PENSTOCK_TESTS_SCRATCH_H
#define PENSTOCK_TESTS_SCRATCH_H

struct comm;

/* Makes it; its absolute path. The test ends where that fails. */
const char *scratch_make(void);
/* Makes one folder for all ranks. Collective. */
const char *scratch_make_all(struct comm *comm);
/* The test ends where that fails; nothing where there is none. */
void scratch_remove(void);
/* When all ranks are done with it. Collective. */
void scratch_remove_all(struct comm *comm);

#endif
