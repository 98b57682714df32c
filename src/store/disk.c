#include "store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

/* One write(2) of Linux moves at most 2 GiB; pieces also let a signal in. */
static const int64_t PIECE_BYTES = (int64_t)256 << 20;

/* The folder part of a path; owned by the caller. */
static char *dup_folder(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return mem_strdup(".");
  if (slash == path) return mem_strdup("/");
  return mem_format("%.*s", (int)(slash - path), path);
}

int disk_judge(int failure) {
  static const int of_path[] = {ENOTDIR, ENOENT, ENAMETOOLONG, ELOOP, EACCES, EPERM, EROFS};
  for (size_t i = 0; i < sizeof of_path / sizeof *of_path; i++)
    if (failure == of_path[i]) return STATUS_MISTAKE;
  return STATUS_FAILED;
}

/* Returns the errno of what failed, 0 when the folder is there. */
static int make_folder(const char *path) {
  char *part = mem_strdup(path);
  int failure = 0;
  for (char *at = part + 1; !failure && *part; at++) {
    if (*at != '/' && *at != '\0') continue;
    char end = *at;
    *at = '\0';
    if (mkdir(part, 0777) && errno != EEXIST) failure = errno;
    *at = end;
    if (end == '\0') break;
  }
  mem_free(part);
  struct stat status;
  if (!failure && stat(path, &status)) failure = errno;
  if (!failure && !S_ISDIR(status.st_mode)) failure = ENOTDIR;
  return failure;
}

static int raise_folder(int status, const char *path, int failure) {
  return error_raise(status, "cannot make the folder %s: %s; name a folder where this job may write", path,
                     limits_reason(failure));
}

int disk_make_folder(const char *path) {
  int failure = make_folder(path);
  return failure ? raise_folder(STATUS_FAILED, path, failure) : STATUS_OK;
}

int disk_make_named_folder(const char *path) {
  int failure = make_folder(path);
  return failure ? raise_folder(disk_judge(failure), path, failure) : STATUS_OK;
}

int disk_sync_folder_of(const char *path) {
  char *folder = dup_folder(path);
  int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  mem_free(folder);
  if (descriptor < 0) return errno;
  int failure = fsync(descriptor) ? errno : 0;
  close(descriptor);
  /* Some file systems have no sync of folders: then there is nothing more to do. */
  return failure == EINVAL || failure == ENOTSUP || failure == EROFS ? 0 : failure;
}

int disk_write_at(int descriptor, const void *data, int64_t bytes, int64_t offset) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t n = pwrite(descriptor, at, (size_t)(bytes < PIECE_BYTES ? bytes : PIECE_BYTES), (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    at += n, offset += n, bytes -= n;
  }
  return 0;
}

int disk_read_at(int descriptor, void *data, int64_t bytes, int64_t offset) {
  char *at = data;
  while (bytes > 0) {
    ssize_t n = pread(descriptor, at, (size_t)(bytes < PIECE_BYTES ? bytes : PIECE_BYTES), (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) {
      memset(at, 0, (size_t)bytes);
      break;
    }
    at += n, offset += n, bytes -= n;
  }
  return 0;
}

int disk_reserve(int descriptor, int64_t from, int64_t to) {
  if (to <= from) return 0;
  int result;
  do result = fallocate(descriptor, 0, (off_t)from, (off_t)(to - from));
  while (result && errno == EINTR);
  if (!result) return 0;
  int failure = errno;
  if (failure == EOPNOTSUPP || failure == ENOSYS || failure == EINVAL)
    failure = ftruncate(descriptor, (off_t)to) ? errno : 0;
  else if (ftruncate(descriptor, (off_t)from))
    failure = errno; /* what was reserved before the failure could not be given back; the first reason is the same */
  return failure;
}

int64_t disk_get_free(const char *path) {
  struct statvfs status;
  int result = statvfs(path, &status);
  if (result) {
    char *folder = dup_folder(path);
    result = statvfs(folder, &status);
    mem_free(folder);
  }
  if (result) return -1;
  return (int64_t)((uint64_t)status.f_bavail * status.f_frsize);
}

int disk_raise_write(const char *path, int error, int64_t bytes) {
  int64_t free_bytes = disk_get_free(path);
  const char *repair = error == EFBIG    ? "raise the limit on file size (ulimit -f)"
                       : error == EMFILE ? "raise the limit on open files (ulimit -n)"
                       : error == EDQUOT ? "free space within your quota, or set run.folder elsewhere"
                       : error == ENOSPC ? "free space there, or set run.folder elsewhere"
                                         : "see that the folder exists and that this job may write there";
  if (free_bytes < 0) return error_raise(STATUS_FAILED, "cannot write %s: %s; %s", path, limits_reason(error), repair);
  return error_raise(STATUS_FAILED, "cannot write %s: %s (%" PRId64 " bytes needed, %" PRId64 " free); %s", path,
                     limits_reason(error), bytes, free_bytes, repair);
}

int disk_check_target(const char *path) {
  struct stat status;
  if (stat(path, &status) || S_ISREG(status.st_mode)) return STATUS_OK;
  return error_raise(STATUS_MISTAKE, "cannot write %s: it is %s; name %s", path,
                     S_ISDIR(status.st_mode) ? "a folder" : "no regular file",
                     S_ISDIR(status.st_mode) ? "a file in it" : "another");
}

int disk_check_writable(const char *path) {
  int status = disk_check_target(path);
  if (status) return status;
  char *temporary = mem_format("%s.tmp", path);
  int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor >= 0) {
    close(descriptor);
    unlink(temporary);
  } else if (errno != EEXIST) {
    status = error_raise(disk_judge(errno), "%s cannot be written: %s", path, limits_reason(errno));
  }
  mem_free(temporary);
  return status;
}

/* The temporary file lies beside the file itself, also where `path` is a link to it: links stay links. */
static char *name_target(const char *path) {
  char *real = realpath(path, NULL), *target = mem_strdup(real ? real : path);
  free(real);
  return target;
}

int disk_write_text(const char *path, const char *text) {
  int status = disk_check_target(path);
  if (status) return status;
  char *target = name_target(path), *temporary = mem_format("%s.tmp", target);
  int64_t bytes = (int64_t)strlen(text);
  int failure = 0;
  int descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) failure = errno;
  if (!failure) failure = disk_write_at(descriptor, text, bytes, 0);
  if (!failure && fsync(descriptor)) failure = errno;
  if (descriptor >= 0 && close(descriptor) && !failure) failure = errno;
  if (!failure && rename(temporary, target)) failure = errno;
  if (!failure) failure = disk_sync_folder_of(target);
  if (failure && descriptor >= 0) unlink(temporary);
  mem_free(temporary);
  mem_free(target);
  return failure ? disk_raise_write(path, failure, bytes) : STATUS_OK;
}

int disk_read_text(const char *path, char **text) {
  *text = NULL;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) return STATUS_OK;
  struct stat status;
  int failure = descriptor < 0 || fstat(descriptor, &status) ? errno : 0;
  if (!failure) {
    char *content = mem_alloc((size_t)status.st_size + 1);
    failure = disk_read_at(descriptor, content, status.st_size, 0);
    if (failure)
      mem_free(content);
    else
      *text = content;
  }
  if (descriptor >= 0) close(descriptor);
  return failure ? error_raise(STATUS_FAILED, "cannot read %s: %s", path, limits_reason(failure)) : STATUS_OK;
}

int disk_put_aside(const char *path, char **name) {
  struct stat found;
  if (name) *name = NULL;
  if (lstat(path, &found)) return STATUS_OK;
  char *aside = mem_format("%s.old", path);
  for (int again = 2; !lstat(aside, &found); again++) {
    mem_free(aside);
    aside = mem_format("%s.old%d", path, again);
  }
  int failure = rename(path, aside) ? errno : 0;
  if (!failure && name)
    *name = aside;
  else
    mem_free(aside);
  return failure ? disk_raise_write(path, failure, 0) : STATUS_OK;
}
