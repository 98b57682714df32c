#include "data/json_repair.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { DEEPEST = 1000 }; /* the library goes to 2048 */

static void put(struct json_repair *repair, const void *text, size_t bytes) {
  if (repair->bytes + bytes > repair->capacity) {
    repair->capacity = 2 * (repair->bytes + bytes);
    repair->text = mem_resize(repair->text, repair->capacity);
  }
  memcpy(repair->text + repair->bytes, text, bytes);
  repair->bytes += bytes;
}

static void change(struct json_repair *repair, const char *text) {
  put(repair, text, strlen(text));
  repair->n_changed++;
}

/* The value of \uXXXX at `text`, -1 when it is none. */
static long read_escape(const uint8_t *text, size_t left) {
  char digits[5] = "";
  if (left < 6 || text[0] != '\\' || text[1] != 'u') return -1;
  memcpy(digits, text + 2, 4);
  return strspn(digits, "0123456789abcdefABCDEF") == 4 ? strtol(digits, NULL, 16) : -1;
}

static bool is_high(long value) { return value >= 0xd800 && value < 0xdc00; }
static bool is_low(long value) { return value >= 0xdc00 && value < 0xe000; }

/* One escape sequence of a string; returns its bytes. */
static size_t repair_escape(struct json_repair *repair, const uint8_t *text, size_t left) {
  long value = read_escape(text, left);
  if (is_high(value) && is_low(read_escape(text + 6, left - 6))) {
    put(repair, text, 12);
    return 12;
  }
  if (is_high(value) || is_low(value)) {
    change(repair, "\\ufffd");
    repair->n_replaced++;
    return 6;
  }
  size_t n = left < 2 ? left : 2;
  put(repair, text, n);
  return n;
}

/* A string from its opening quote on; returns its bytes, with the closing quote if there is one. */
static size_t repair_string(struct json_repair *repair, const uint8_t *text, size_t bytes) {
  put(repair, text, 1);
  for (size_t i = 1; i < bytes;) {
    size_t n = utf8_measure(text + i, bytes - i);
    if (text[i] == '"') {
      put(repair, text + i, 1);
      return i + 1;
    }
    if (text[i] == '\\') {
      i += repair_escape(repair, text + i, bytes - i);
      continue;
    }
    if (n == 0) {
      change(repair, UTF8_UNKNOWN);
      repair->n_replaced++;
    } else if (text[i] < 32) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", text[i]);
      change(repair, escape);
    } else {
      put(repair, text + i, n);
    }
    i += n ? n : 1;
  }
  return bytes;
}

static bool is_word(uint8_t byte) {
  return (byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'z') || byte == '+' || byte == '-' ||
         byte == '.';
}

/* A number or a word outside of strings. */
static size_t repair_word(struct json_repair *repair, const uint8_t *text, size_t bytes) {
  char word[64] = "", *end;
  size_t n = 0;
  while (n < bytes && is_word(text[n])) n++;
  memcpy(word, text, n < sizeof word ? n : sizeof word - 1);
  bool is_number = word[strspn(word, "+-0123456789.eE")] == 0;
  strtod(word, &end); /* takes NaN and Infinity as well, in any case */
  if (n < sizeof word ? end > word && !*end : is_number)
    change(repair, "0");
  else
    put(repair, text, n);
  return n;
}

void json_repair(const uint8_t *text, size_t bytes, struct json_repair *repair) {
  *repair = (struct json_repair){0};
  int64_t depth = 0;
  size_t hidden = 0; /* where the output ended when the depth went beyond DEEPEST */
  for (size_t i = 0; i < bytes;) {
    uint8_t byte = text[i];
    if (byte == '"') {
      i += repair_string(repair, text + i, bytes - i);
    } else if (is_word(byte)) {
      i += repair_word(repair, text + i, bytes - i);
    } else {
      bool opens = byte == '[' || byte == '{', closes = byte == ']' || byte == '}';
      if (opens && ++depth == DEEPEST) hidden = repair->bytes;
      put(repair, &byte, 1);
      if (closes && depth-- == DEEPEST) {
        repair->bytes = hidden;
        change(repair, "0");
      }
      i++;
    }
  }
}

void json_repair_fini(struct json_repair *repair) {
  mem_free(repair->text);
  *repair = (struct json_repair){0};
}
