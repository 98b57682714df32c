#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"

enum { LINE_BYTES = 16384 };

static int own_rank;
static int file_descriptor = -1;
static bool has_lost;
static bool holds; /* lines are kept for a file that is not open yet */
static char *held;
static size_t held_bytes;

void log_init(int rank) { own_rank = rank; }

int log_get_rank(void) { return own_rank; }

/* A log that cannot be written (closed pipe, full disk) must not stop the run, so errors end the attempt only. */
static bool write_whole(int descriptor, const char *text, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(descriptor, text, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text += n;
    bytes -= (size_t)n;
  }
  return true;
}

static void drop_held(void) {
  mem_free(held);
  held = NULL;
  held_bytes = 0;
  holds = false;
}

void log_hold_file(void) {
  drop_held();
  holds = own_rank == 0;
}

int log_open_file(const char *path) {
  if (file_descriptor >= 0) close(file_descriptor);
  file_descriptor = -1;
  if (!path || own_rank != 0) {
    drop_held();
    return STATUS_OK;
  }
  file_descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_descriptor >= 0) {
    write_whole(file_descriptor, held, held_bytes);
    drop_held();
    return STATUS_OK;
  }
  return error_raise(STATUS_FAILED, "cannot open the log file %s: %s", path, limits_reason(errno));
}

static void hold(const char *line, size_t bytes) {
  held = mem_resize(held, held_bytes + bytes);
  memcpy(held + held_bytes, line, bytes);
  held_bytes += bytes;
}

static void write_line(int descriptor, const char *prefix, const char *format, va_list list) {
  char line[LINE_BYTES];
  size_t used = strlen(prefix);
  memcpy(line, prefix, used);
  size_t room = sizeof line - used - 1; /* the newline */
  int wanted = vsnprintf(line + used, room, format, list);
  if (wanted > 0) used += (size_t)wanted < room ? (size_t)wanted : room - 1;
  if (used == 0 || line[used - 1] != '\n') line[used++] = '\n';
  bool written = write_whole(descriptor, line, used);
  bool logged = holds;
  if (holds)
    hold(line, used);
  else if (own_rank == 0 && file_descriptor >= 0 && descriptor != file_descriptor)
    logged = write_whole(file_descriptor, line, used);
  if (descriptor == STDOUT_FILENO && !written && !logged) has_lost = true;
}

bool log_has_lost(void) { return has_lost; }

void log_line(const char *format, ...) {
  if (own_rank != 0) return;
  va_list list;
  va_start(list, format);
  write_line(STDOUT_FILENO, "", format, list);
  va_end(list);
}

void log_file_line(const char *format, ...) {
  if (own_rank != 0 || (file_descriptor < 0 && !holds)) return;
  va_list list;
  va_start(list, format);
  write_line(file_descriptor, "", format, list);
  va_end(list);
}

void log_warn(const char *format, ...) {
  if (own_rank != 0) return;
  va_list list;
  va_start(list, format);
  write_line(STDERR_FILENO, "penstock: warning: ", format, list);
  va_end(list);
}

void log_note(const char *format, ...) {
  if (own_rank != 0) return;
  va_list list;
  va_start(list, format);
  write_line(STDERR_FILENO, "penstock: note: ", format, list);
  va_end(list);
}

void log_rank(const char *format, ...) {
  char prefix[48];
  snprintf(prefix, sizeof prefix, "penstock: rank %d: ", own_rank);
  va_list list;
  va_start(list, format);
  write_line(STDERR_FILENO, prefix, format, list);
  va_end(list);
}

void log_error(const char *format, ...) {
  va_list list;
  va_start(list, format);
  write_line(STDERR_FILENO, "penstock: error: ", format, list);
  va_end(list);
}

/* Bytes in a pipe or socket that nobody has read yet; 0 of other files. */
static int count_unread(int descriptor) {
  struct stat info;
  int bytes = 0;
  if (fstat(descriptor, &info) != 0 || !(S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode))) return 0;
  if (ioctl(descriptor, S_ISFIFO(info.st_mode) ? FIONREAD : SIOCOUTQ, &bytes) != 0) return 0;
  return bytes;
}

void log_wait_read(double seconds) {
  const double until = clock_now() + seconds, pause = 1e-3;
  while ((count_unread(STDOUT_FILENO) > 0 || count_unread(STDERR_FILENO) > 0) && clock_now() < until)
    clock_sleep(pause);
}
