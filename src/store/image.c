#include "store/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "store/disk.h"
#include "store/seal.h"

enum { PAGE_BYTES = 1 << 16 };
static const int64_t MOST_KEPT_BYTES = (int64_t)1 << 30; /* of a sealed file, by a reader */
static const char JOURNAL_MAGIC[8] = "PSJRNL1";

struct image {
  char *path, *journal_path;
  int descriptor;       /* -1: a new file that has not been committed */
  int journal;          /* -1: not open */
  bool sparse;          /* reserves no room */
  bool sealed;          /* ends in a seal, which is no content; commits renew it */
  int64_t size;         /* of the content, with the changes */
  int64_t disk_content; /* of the content, as committed */
  int64_t disk_size;    /* of the file as committed */
  uint64_t *hashes;     /* [n_hashes] of the pages as committed, of a sealed file that may be written */
  int64_t n_hashes;
  int64_t n_pages;       /* length of `pages` */
  unsigned char **pages; /* changed pages, or those that a reader keeps; NULL where the disk has the content */
};

/* The journal file: this header, n_pages page numbers, n_pages pages. */
struct journal_header {
  char magic[8];
  int64_t size; /* of the file after the commit */
  int64_t n_pages;
  uint64_t hash; /* of size, page numbers and pages, chained */
};

static struct image *new_image(const char *path) {
  struct image *image = MEM_NEW(struct image, 1);
  image->path = mem_strdup(path);
  image->journal_path = mem_format("%s.journal", path);
  image->descriptor = image->journal = -1;
  return image;
}

static void drop_pages(struct image *image) {
  for (int64_t i = 0; i < image->n_pages; i++) mem_free(image->pages[i]);
  mem_free(image->pages);
  image->pages = NULL;
  image->n_pages = 0;
}

/* Makes room for page i in the table. */
static void grow_table(struct image *image, int64_t i) {
  if (i < image->n_pages) return;
  int64_t n = i + 1 > 2 * image->n_pages ? i + 1 : 2 * image->n_pages;
  image->pages = mem_resize(image->pages, sizeof(*image->pages) * (size_t)n);
  memset(image->pages + image->n_pages, 0, sizeof(*image->pages) * (size_t)(n - image->n_pages));
  image->n_pages = n;
}

static unsigned char *find_page(const struct image *image, int64_t i) {
  return i < image->n_pages ? image->pages[i] : NULL;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t count_pages(int64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES; }

/* ---- journal ---- */

/* Where the pages begin. */
static int64_t find_journal_pages(int64_t n_pages) {
  return (int64_t)sizeof(struct journal_header) + n_pages * (int64_t)sizeof(int64_t);
}

static uint64_t hash_journal_page(uint64_t hash, int64_t number, const void *page) {
  return hash_bytes(page, PAGE_BYTES, hash_bytes(&number, sizeof number, hash));
}

/* Reads header and page numbers of a journal and checks them and the pages against the hash; *numbers (owned by the
 * caller) is NULL when the journal is not complete. Returns 0 or errno. */
static int check_journal(int descriptor, struct journal_header *header, int64_t **numbers) {
  struct stat status;
  *numbers = NULL;
  int failure = fstat(descriptor, &status) ? errno : disk_read_at(descriptor, header, sizeof *header, 0);
  if (failure || memcmp(header->magic, JOURNAL_MAGIC, sizeof header->magic) || header->n_pages <= 0 ||
      header->n_pages > status.st_size / PAGE_BYTES)
    return failure;
  int64_t n = header->n_pages, at = find_journal_pages(n);
  int64_t *list = MEM_NEW(int64_t, n);
  unsigned char *page = mem_alloc(PAGE_BYTES);
  failure = disk_read_at(descriptor, list, n * (int64_t)sizeof *list, sizeof *header);
  uint64_t hash = hash_bytes(&header->size, sizeof header->size, 0);
  for (int64_t i = 0; i < n && !failure; i++) {
    failure = disk_read_at(descriptor, page, PAGE_BYTES, at + i * PAGE_BYTES);
    hash = hash_journal_page(hash, list[i], page);
  }
  mem_free(page);
  if (!failure && hash == header->hash)
    *numbers = list;
  else
    mem_free(list);
  return failure;
}

/* Takes the journal's pages into memory when it is complete; *found says so. Returns 0 or errno. */
static int load_journal(struct image *image, bool *found) {
  *found = false;
  int descriptor = open(image->journal_path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno == ENOENT ? 0 : errno;
  struct journal_header header;
  int64_t *numbers;
  int failure = check_journal(descriptor, &header, &numbers);
  *found = numbers != NULL;
  for (int64_t i = 0; *found && i < header.n_pages && !failure; i++) {
    grow_table(image, numbers[i]);
    if (!image->pages[numbers[i]]) image->pages[numbers[i]] = mem_alloc(PAGE_BYTES);
    failure = disk_read_at(descriptor, image->pages[numbers[i]], PAGE_BYTES,
                           find_journal_pages(header.n_pages) + i * PAGE_BYTES);
  }
  if (*found) image->size = header.size;
  close(descriptor);
  mem_free(numbers);
  return failure;
}

/* Pages first..last-1, which a commit appends to a file: they lie beyond the old end and before the last bytes, which
 * have the seal. All other changed pages go through the journal, so that no seal is in the file before what it stands
 * for. */
struct appended {
  int64_t first, last;
};

static struct appended find_appended(const struct image *image) {
  int64_t first = count_pages(image->disk_size), before_seal = image->size - (int64_t)sizeof(struct seal);
  int64_t last = before_seal > 0 ? before_seal / PAGE_BYTES : 0;
  return (struct appended){.first = first, .last = last > first ? last : first};
}

static bool is_journaled(const struct image *image, struct appended appended, int64_t i) {
  return image->pages[i] && i * PAGE_BYTES < image->size && (i < appended.first || i >= appended.last);
}

/* Writes the changed pages that are not appended to the journal and syncs it. Returns 0 or errno. */
static int write_journal(struct image *image, struct appended appended, int64_t n, int64_t *bytes) {
  *bytes = find_journal_pages(n) + n * PAGE_BYTES;
  if (image->journal < 0) {
    image->journal = open(image->journal_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (image->journal < 0) return errno;
    int failure = disk_sync_folder_of(image->journal_path);
    if (failure) return failure;
  }
  struct journal_header header = {.size = image->size, .n_pages = n};
  memcpy(header.magic, JOURNAL_MAGIC, sizeof header.magic);
  header.hash = hash_bytes(&header.size, sizeof header.size, 0);
  int64_t *numbers = MEM_NEW(int64_t, n);
  int64_t at = find_journal_pages(n), k = 0;
  int failure = 0;
  for (int64_t i = 0; i < image->n_pages && !failure; i++) {
    if (!is_journaled(image, appended, i)) continue;
    header.hash = hash_journal_page(header.hash, i, image->pages[i]);
    failure = disk_write_at(image->journal, image->pages[i], PAGE_BYTES, at + k * PAGE_BYTES);
    numbers[k++] = i;
  }
  if (!failure) failure = disk_write_at(image->journal, numbers, n * (int64_t)sizeof *numbers, sizeof header);
  mem_free(numbers);
  /* The header is written last, so that an incomplete journal is not taken for a whole one; the hash decides. */
  if (!failure) failure = disk_write_at(image->journal, &header, sizeof header, 0);
  if (!failure && fdatasync(image->journal)) failure = errno;
  return failure;
}

/* ---- commit ---- */

/* Writes the changed pages first..last-1 to the file, the last one only up to the end. Returns 0 or errno. */
static int write_pages(struct image *image, int descriptor, int64_t first, int64_t last) {
  int failure = 0;
  for (int64_t i = first; i < least(last, image->n_pages) && !failure; i++)
    if (image->pages[i] && i * PAGE_BYTES < image->size)
      failure =
          disk_write_at(descriptor, image->pages[i], least(PAGE_BYTES, image->size - i * PAGE_BYTES), i * PAGE_BYTES);
  return failure;
}

static void settle(struct image *image) {
  drop_pages(image);
  image->disk_size = image->disk_content = image->size;
}

/* Commits a new file for the first time. */
static int commit_new(struct image *image) {
  int status = disk_check_target(image->path);
  if (status) return status;
  char *temporary = mem_format("%s.tmp", image->path);
  int failure = 0, descriptor = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) failure = errno;
  if (!failure && image->sparse)
    failure = ftruncate(descriptor, (off_t)image->size) ? errno : 0;
  else if (!failure)
    failure = disk_reserve(descriptor, 0, image->size);
  if (!failure) failure = write_pages(image, descriptor, 0, image->n_pages);
  if (!failure && fsync(descriptor)) failure = errno;
  /* The journal of the file that was here before must not be applied to this one. */
  if (!failure && unlink(image->journal_path) && errno != ENOENT) failure = errno;
  if (!failure && rename(temporary, image->path)) failure = errno;
  if (!failure) failure = disk_sync_folder_of(image->path);
  if (failure && descriptor >= 0) {
    close(descriptor);
    unlink(temporary);
  }
  mem_free(temporary);
  if (failure) return disk_raise_write(image->path, failure, image->size);
  image->descriptor = descriptor;
  settle(image);
  return STATUS_OK;
}

/* Changes the file itself, after the journal is safe. Returns 0 or errno. */
static int apply(struct image *image, struct appended appended) {
  int failure = write_pages(image, image->descriptor, 0, appended.first);
  if (!failure) failure = write_pages(image, image->descriptor, appended.last, image->n_pages);
  if (!failure && image->size != image->disk_size && ftruncate(image->descriptor, (off_t)image->size)) failure = errno;
  if (!failure && fdatasync(image->descriptor)) failure = errno;
  return failure;
}

/* Commits all that is in memory, a seal included. */
static int commit_all(struct image *image) {
  if (image->descriptor < 0) return commit_new(image);
  struct appended appended = find_appended(image);
  int64_t n = 0, journal_bytes = 0;
  for (int64_t i = 0; i < image->n_pages; i++) n += is_journaled(image, appended, i);
  int failure = disk_reserve(image->descriptor, image->disk_size, image->size);
  if (failure) return disk_raise_write(image->path, failure, image->size - image->disk_size);
  failure = write_pages(image, image->descriptor, appended.first, appended.last);
  if (!failure && fdatasync(image->descriptor)) failure = errno;
  if (!failure && n) failure = write_journal(image, appended, n, &journal_bytes);
  if (failure) {
    /* The old content stands; what was appended is beyond its end and does no harm where it cannot be cut off. */
    if (image->journal >= 0 && ftruncate(image->journal, 0)) unlink(image->journal_path);
    int status = disk_raise_write(image->path, failure, image->size - image->disk_size + journal_bytes);
    if (image->size > image->disk_size && ftruncate(image->descriptor, (off_t)image->disk_size))
      error_wrap("its end could not be cut off (%s)", limits_reason(errno));
    return status;
  }
  failure = n || image->size < image->disk_size ? apply(image, appended) : 0;
  if (failure)
    return disk_raise_write(image->path, failure, n * PAGE_BYTES); /* the journal stays and is applied later */
  if (image->journal >= 0 && ftruncate(image->journal, 0)) return disk_raise_write(image->journal_path, errno, 0);
  settle(image);
  return STATUS_OK;
}

/* ---- access ---- */

/* Content as it is on the disk, zeros beyond its end. Returns 0 or errno. */
static int read_disk(const struct image *image, int64_t offset, void *data, int64_t bytes) {
  int64_t end = image->descriptor < 0 ? 0 : image->disk_content;
  int64_t there = offset >= end ? 0 : least(bytes, end - offset);
  int failure = there ? disk_read_at(image->descriptor, data, there, offset) : 0;
  memset((char *)data + there, 0, (size_t)(bytes - there));
  return failure;
}

int image_read(const struct image *image, int64_t offset, void *data, int64_t bytes) {
  char *out = data;
  int failure = 0;
  while (bytes > 0 && !failure) {
    int64_t i = offset / PAGE_BYTES, skip = offset % PAGE_BYTES, n = least(bytes, PAGE_BYTES - skip);
    const unsigned char *page = find_page(image, i);
    if (page) {
      memcpy(out, page + skip, (size_t)n);
    } else {
      /* One read for all that the disk has of the content. */
      while (n < bytes && !find_page(image, ++i)) n = least(bytes, n + PAGE_BYTES);
      failure = read_disk(image, offset, out, n);
    }
    out += n, offset += n, bytes -= n;
  }
  return failure;
}

/* Makes page i one of memory; `load`: with what the disk has. */
static void take_page(struct image *image, int64_t i, bool load) {
  grow_table(image, i);
  if (image->pages[i]) return;
  image->pages[i] = mem_alloc(PAGE_BYTES);
  int failure = load ? read_disk(image, i * PAGE_BYTES, image->pages[i], PAGE_BYTES) : 0;
  CHECK(!failure, "cannot read %s again: %s", image->path, limits_reason(failure));
}

void image_write(struct image *image, int64_t offset, const void *data, int64_t bytes) {
  const char *in = data;
  if (offset + bytes > image->size) image->size = offset + bytes;
  while (bytes > 0) {
    int64_t i = offset / PAGE_BYTES, skip = offset % PAGE_BYTES, n = least(bytes, PAGE_BYTES - skip);
    take_page(image, i, n < PAGE_BYTES);
    memcpy(image->pages[i] + skip, in, (size_t)n);
    in += n, offset += n, bytes -= n;
  }
}

int64_t image_get_size(const struct image *image) { return image->size; }

void image_set_size(struct image *image, int64_t bytes) { image->size = bytes; }

/* ---- seals ---- */

void image_leave_unsealed(struct image *image) { image->sealed = false; }

static bool has_changed(const struct image *image) {
  for (int64_t i = 0; i < image->n_pages; i++)
    if (image->pages[i]) return true;
  return image->descriptor < 0 || image->size != image->disk_content;
}

/* The pages of the last seal, which are content now or beyond the end, and the one that the content ends in, zeros
 * beyond it. */
static void take_ends(struct image *image) {
  int64_t last = image->disk_content + (int64_t)sizeof(struct seal) - 1, used = image->size % PAGE_BYTES;
  for (int64_t i = image->disk_content / PAGE_BYTES; i <= last / PAGE_BYTES && i < count_pages(image->size); i++)
    take_page(image, i, true);
  if (!used) return;
  take_page(image, image->size / PAGE_BYTES, true);
  memset(image->pages[image->size / PAGE_BYTES] + used, 0, (size_t)(PAGE_BYTES - used));
}

/* A page that is neither on the disk nor in memory has zeros. */
static void renew_hashes(struct image *image) {
  int64_t n = count_pages(image->size);
  unsigned char *zeros = MEM_NEW(unsigned char, PAGE_BYTES);
  image->hashes = mem_resize(image->hashes, sizeof *image->hashes * (size_t)(n + 1));
  for (int64_t i = 0; i < n; i++) {
    const unsigned char *page = find_page(image, i);
    if (page || i >= image->n_hashes) image->hashes[i] = hash_bytes(page ? page : zeros, PAGE_BYTES, 0);
  }
  image->n_hashes = n;
  mem_free(zeros);
}

/* A seal that could not be written is taken away again: the content may have another end by the next commit. */
int image_commit(struct image *image) {
  if (!image->sealed) return commit_all(image);
  if (!has_changed(image)) return STATUS_OK;
  int64_t size = image->size;
  take_ends(image);
  renew_hashes(image);
  struct seal seal = seal_make(size, image->hashes, image->n_hashes), none = {.size = 0};
  image_write(image, size, &seal, sizeof seal);
  int status = commit_all(image);
  if (status)
    image_write(image, size, &none, sizeof none);
  else
    image->disk_content = size;
  image->size = size;
  return status;
}

int image_move(struct image *image, const char *path) {
  int status = image_commit(image);
  if (status) return status;
  char *journal_path = mem_format("%s.journal", path);
  int failure = 0;
  /* Its own journal is empty, and the journal of the file that was here must not be applied to this one. */
  if (image->journal >= 0) close(image->journal);
  image->journal = -1;
  if (unlink(image->journal_path) && errno != ENOENT) failure = errno;
  if (!failure && unlink(journal_path) && errno != ENOENT) failure = errno;
  if (!failure && rename(image->path, path)) failure = errno;
  if (!failure) failure = disk_sync_folder_of(path);
  if (failure) {
    mem_free(journal_path);
    return disk_raise_write(path, failure, 0);
  }
  mem_free(image->path);
  mem_free(image->journal_path);
  image->path = mem_strdup(path);
  image->journal_path = journal_path;
  return STATUS_OK;
}

int64_t image_measure(const struct image *image, int64_t content) {
  return content + (image->sealed ? (int64_t)sizeof(struct seal) : 0);
}

/* Hashes of all pages of the content; `keep`: the pages stay in memory. Returns 0 or errno. */
static int hash_pages(struct image *image, bool keep) {
  int64_t n = count_pages(image->size);
  int failure = 0;
  unsigned char *page = mem_alloc(PAGE_BYTES);
  image->hashes = mem_resize(image->hashes, sizeof *image->hashes * (size_t)(n + 1));
  for (int64_t i = 0; i < n && !failure; i++) {
    int64_t bytes = least(PAGE_BYTES, image->size - i * PAGE_BYTES);
    failure = image_read(image, i * PAGE_BYTES, page, bytes);
    memset(page + bytes, 0, (size_t)(PAGE_BYTES - bytes));
    image->hashes[i] = hash_bytes(page, PAGE_BYTES, 0);
    if (keep) image_write(image, i * PAGE_BYTES, page, bytes);
  }
  image->n_hashes = n;
  mem_free(page);
  return failure;
}

/* Takes the seal off the content and holds the content against it; a file to be written that has none gets one with the
 * next commit. *good: there is none, or it is right. Returns 0 or errno. */
static int break_seal(struct image *image, bool writable, bool *good) {
  struct seal seal = {.size = 0};
  int64_t at = image->size - (int64_t)sizeof seal;
  int failure = at < 0 ? 0 : image_read(image, at, &seal, sizeof seal);
  bool whole, found = at >= 0 && seal_is_one(&seal, image->size, &whole);
  *good = !found || whole;
  if (found) image->size = image->disk_content = at;
  image->sealed = found || writable;
  if (failure || !image->sealed || !*good) return failure;
  failure = hash_pages(image, !writable && image->size <= MOST_KEPT_BYTES);
  *good = !found || seal_make(image->size, image->hashes, image->n_hashes).hash == seal.hash;
  return failure;
}

/* ---- opening and closing ---- */

struct image *image_create(const char *path) {
  struct image *image = new_image(path);
  image->sealed = true;
  return image;
}

void image_set_sparse(struct image *image) { image->sparse = true; }

/* One try. *good: the seal is right, or there is none. */
static int open_once(const char *path, bool writable, struct image **out, bool *good) {
  struct image *image = new_image(path);
  image->descriptor = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  struct stat status;
  bool found = false;
  int failure = image->descriptor < 0 || fstat(image->descriptor, &status) ? errno : 0;
  if (failure == EISDIR || (!failure && !S_ISREG(status.st_mode))) {
    image_close(&image);
    return error_raise(STATUS_MISTAKE, "cannot open %s: it is %s, not a file", path,
                       failure == EISDIR || S_ISDIR(status.st_mode) ? "a folder" : "a device or a pipe");
  }
  if (!failure) {
    image->size = image->disk_size = image->disk_content = status.st_size;
    failure = load_journal(image, &found);
  }
  if (!failure && writable && found) {
    failure = apply(image, (struct appended){0}); /* what was appended is in the file */
    if (!failure) settle(image);
  }
  if (!failure && writable && unlink(image->journal_path) && errno != ENOENT) failure = errno;
  if (!failure) failure = break_seal(image, writable, good);
  if (failure) {
    image_close(&image);
    return error_raise(failure == ENOENT ? STATUS_MISTAKE : STATUS_FAILED, "cannot open %s: %s", path,
                       limits_reason(failure));
  }
  *out = image;
  return STATUS_OK;
}

/* A reader may see parts of both contents while another process commits: then it reads again. */
int image_open(const char *path, bool writable, struct image **image) {
  enum { TRIES = 3, PAUSE_MS = 100 };
  *image = NULL;
  for (int i = 1;; i++) {
    bool good = false;
    int status = open_once(path, writable, image, &good);
    if (status || good) return status;
    image_close(image);
    if (writable || i == TRIES) break;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
  }
  return error_raise(STATUS_MISTAKE, "%s is damaged: its content is not what was written (by its hash)", path);
}

void image_close(struct image **image) {
  struct image *self = *image;
  if (!self) return;
  struct stat status;
  /* A journal that could not be applied is still needed. */
  if (self->journal >= 0 && !fstat(self->journal, &status) && status.st_size == 0) unlink(self->journal_path);
  if (self->journal >= 0) close(self->journal);
  if (self->descriptor >= 0) close(self->descriptor);
  drop_pages(self);
  mem_free(self->hashes);
  mem_free(self->path);
  mem_free(self->journal_path);
  mem_free(self);
  *image = NULL;
}
