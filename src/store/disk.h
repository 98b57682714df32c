/* Files of a run as the disk sees them: whole small files that appear at once or not at all, room that is reserved
 * before it is needed, and messages that say what was missing. By one rank alone. SIGXFSZ must be ignored by the
 * program, so that a limit on file size is an error like a full disk.
 */
#ifndef PENSTOCK_STORE_DISK_H
#define PENSTOCK_STORE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The status of an errno of a file or folder that a deck or an option names: STATUS_MISTAKE when the path is at fault
 * or may not be written, so that another has to be named; STATUS_FAILED when the disk is, as where it is full. */
int disk_judge(int failure);

/* Makes a folder and its parents where they are missing; one that a deck names has errors as disk_judge has it. */
int disk_make_folder(const char *path);
int disk_make_named_folder(const char *path);

/* Checks that a file may take the place of what is at `path`: there is nothing, or a regular file. A device, a pipe or
 * a folder would be lost or in the way: STATUS_MISTAKE with path and repair. */
int disk_check_target(const char *path);

/* Checks, before the work whose result goes to `path`, what disk_check_target checks, and that this job may make files
 * in its folder: errors as disk_judge has it, with path and reason. It leaves no file there. */
int disk_check_writable(const char *path);

/* Writes `text` as the whole content of `path` (of the file that it links to): temporary name (path.tmp), sync, rename,
 * sync of the folder. On failure the earlier content stands and no temporary file stays. STATUS_MISTAKE as
 * disk_check_target. */
int disk_write_text(const char *path, const char *text);

/* The whole content, NUL-terminated, owned by the caller. A file that is not there is STATUS_OK with *text NULL. */
int disk_read_text(const char *path, char **text);

/* Gives a file another name beside it, "path.old", or "path.old2" and so on where that is taken: nothing is replaced.
 * *name (may be NULL) is owned by the caller. What is not there is STATUS_OK with *name NULL. */
int disk_put_aside(const char *path, char **name);

/* Syncs the folder that holds `path`, so that a rename survives a power loss. Returns 0 or errno. */
int disk_sync_folder_of(const char *path);

/* Writes or reads all bytes at an offset. Return 0 or errno; a read past the end fills with zeros. */
int disk_write_at(int descriptor, const void *data, int64_t bytes, int64_t offset);
int disk_read_at(int descriptor, void *data, int64_t bytes, int64_t offset);

/* Reserves room for the bytes from..to of a file, which grows to `to`: a full disk, a quota or a limit shows here and
 * not in the middle of the data. Where the file system cannot reserve, the file only grows. Returns 0 or errno; after a
 * failure the file has its old size. */
int disk_reserve(int descriptor, int64_t from, int64_t to);

/* Bytes that this user may still write in the file system of `path` (or of its folder when it is not there); -1 when
 * unknown. */
int64_t disk_get_free(const char *path);

/* Raises STATUS_FAILED for a write of `bytes` to `path` that ended with this errno: path, reason, needed and free
 * bytes, repair. */
int disk_raise_write(const char *path, int error, int64_t bytes);

#endif
