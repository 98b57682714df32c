/* Paths as they lie in the file system, for params_compare.c and params_write.c. Internal to input. */
#ifndef PENSTOCK_INPUT_PARAMS_COMPARE_H
#define PENSTOCK_INPUT_PARAMS_COMPARE_H

/* realpath of what need not exist yet: of its folder, then. NULL when there is not even that. Owned by the caller. */
char *params_make_absolute(const char *path);

#endif
