#include "input/mistakes.h"

#include "base/error.h"
#include "base/mem.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 6000 }; /* bytes, within what the error module keeps */

void mistakes_add(struct mistakes *mistakes, const char *format, ...) {
  if (mistakes->n++ >= MISTAKES_SHOWN || mistakes->full) return;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *line = mem_alloc((size_t)length + 1);
  va_start(arguments, format);
  vsnprintf(line, (size_t)length + 1, format, arguments);
  va_end(arguments);
  char *text = mistakes->text ? mem_format("%s\n%s", mistakes->text, line) : mem_strdup(line);
  mem_free(line);
  if (mistakes->text && strlen(text) > LONGEST) {
    mistakes->full = true;
    mem_free(text);
    return;
  }
  mem_free(mistakes->text);
  mistakes->text = text;
  mistakes->n_shown++;
}

int mistakes_end(struct mistakes *mistakes) {
  int status = STATUS_OK;
  int64_t more = mistakes->n - mistakes->n_shown;
  if (more)
    status = error_raise(STATUS_MISTAKE, "%s\nand %lld more", mistakes->text, (long long)more);
  else if (mistakes->n)
    status = error_raise(STATUS_MISTAKE, "%s", mistakes->text);
  mem_free(mistakes->text);
  *mistakes = (struct mistakes){0};
  return status;
}
