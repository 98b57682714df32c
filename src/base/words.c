#include "base/words.h"

#include <stdio.h>

const char *words_format_duration(double seconds, char text[WORDS_DURATION]) {
  if (seconds < 10)
    snprintf(text, WORDS_DURATION, "%.6g ms", seconds * 1e3);
  else if (seconds < 600)
    snprintf(text, WORDS_DURATION, "%.6g s", seconds);
  else
    snprintf(text, WORDS_DURATION, "%.6g min", seconds / 60);
  return text;
}
