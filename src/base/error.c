#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { TEXT_BYTES = 8192 };

static _Thread_local char recorded_text[TEXT_BYTES];
static _Thread_local int recorded_status;

static void (*abort_hook)(int status);

/* Marks a text that did not fit, so that nobody takes the cut message for the whole. */
static void mark_cut(char *text, size_t bytes, int wanted) {
  if (wanted >= 0 && (size_t)wanted >= bytes) memcpy(text + bytes - 4, "...", 4);
}

int error_raise(int status, const char *format, ...) {
  char text[TEXT_BYTES]; /* the arguments may include error_text() */
  va_list list;
  va_start(list, format);
  int wanted = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  mark_cut(text, sizeof text, wanted);
  memcpy(recorded_text, text, strlen(text) + 1);
  recorded_status = status;
  return status;
}

int error_wrap(const char *format, ...) {
  char context[1024], text[TEXT_BYTES];
  va_list list;
  va_start(list, format);
  int wanted = vsnprintf(context, sizeof context, format, list);
  va_end(list);
  mark_cut(context, sizeof context, wanted);
  wanted = snprintf(text, sizeof text, "%s: %s", context, recorded_text);
  mark_cut(text, sizeof text, wanted);
  memcpy(recorded_text, text, strlen(text) + 1);
  return recorded_status;
}

const char *error_text(void) { return recorded_text; }

int error_status(void) { return recorded_status; }

void error_clear(void) {
  recorded_text[0] = '\0';
  recorded_status = STATUS_OK;
}

void error_set_abort(void (*abort_job)(int status)) { abort_hook = abort_job; }

_Noreturn void error_die(const char *file, int line, const char *format, ...) {
  char text[TEXT_BYTES];
  va_list list;
  va_start(list, format);
  int wanted = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  mark_cut(text, sizeof text, wanted);
  log_rank("%s:%d: %s", file, line, text);
  if (abort_hook) abort_hook(STATUS_FAILED);
  abort();
}
