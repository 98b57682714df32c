/* Whole text files. */
#ifndef PENSTOCK_BASE_FILE_H
#define PENSTOCK_BASE_FILE_H

/* Reads a file into one string, owned by the caller. STATUS_MISTAKE with path and reason. */
int file_read_text(const char *path, char **text);

#endif
