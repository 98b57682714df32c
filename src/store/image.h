/* A file that changes only at commits: what is written in between stays in memory, and a commit goes to the disk whole
 * or not at all. Killed at any instant, the file holds what the last commit left.
 *
 * A new file is written under a temporary name and renamed. Later commits first write what lies beyond the old end,
 * then the changed pages of the old part and the file's last page to a journal beside the file (path.journal), and only
 * then change the file itself; a complete journal found at opening is applied first (read-only: taken from the
 * journal), an incomplete one is dropped. Files end in a seal (seal.h) beyond their content, which is held against it
 * when they are opened: damage anywhere in a file is found then, before HDF5 meets it. There is no locking: a reader
 * keeps what it has held against the seal, so that commits of others do not change what it reads (files of more than
 * 1 GiB are read from the disk again). A full disk is found before the file is touched; then the file is as it was, the
 * changes stay in memory and a later commit tries again.
 */
#ifndef PENSTOCK_STORE_IMAGE_H
#define PENSTOCK_STORE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct image;

/* A new, empty file that replaces what is there at its first commit; nothing on the disk until then. */
struct image *image_create(const char *path);
/* Room is reserved for all of a new file, so that a full disk shows at once; not for this one, whose holes are to stay
 * holes. */
void image_set_sparse(struct image *image);
/* For a new file into which others write content themselves: it gets no seal. */
void image_leave_unsealed(struct image *image);
/* An existing file, all of which is read once if it has a seal or may be written. One that is not there, a folder, a
 * device, or damaged is STATUS_MISTAKE. */
int image_open(const char *path, bool writable, struct image **image);
/* Frees; changes that are not committed are lost. NULL is allowed. */
void image_close(struct image **image);

/* Bytes that are beyond the end read as zeros. Return 0 or errno. Writes go to memory. */
int image_read(const struct image *image, int64_t offset, void *data, int64_t bytes);
void image_write(struct image *image, int64_t offset, const void *data, int64_t bytes);
int64_t image_get_size(const struct image *image);
void image_set_size(struct image *image, int64_t bytes);
/* Bytes on the disk of a file with so much content. */
int64_t image_measure(const struct image *image, int64_t content);

/* Gives the file another name, of a file that it takes the place of. Commits first; on failure the other file stands.
 */
int image_move(struct image *image, const char *path);

/* Puts all changes on the disk and syncs. Returns a status; STATUS_MISTAKE when a new file is to take the place of what
 * is no file (disk_check_target). */
int image_commit(struct image *image);

#endif
