/* Whole text files. */
#ifndef PENSTOCK_BASE_FILE_H
#define PENSTOCK_BASE_FILE_H

/* Reads a file into one string, owned by the caller, without the mark of UTF-8 that it may begin with. STATUS_MISTAKE
 * with path and reason, also for more than 256 MiB: nothing that this program takes as text is as large, and a device
 * may have no end. */
int file_read_text(const char *path, char **text);

#endif
