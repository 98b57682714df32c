#include "base/utf8.h"

size_t utf8_measure(const uint8_t *text, size_t left) {
  if (left == 0) return 0;
  uint8_t first = text[0], low = 0x80, high = 0xbf; /* what the second byte may be */
  if (first < 0x80) return 1;
  size_t n = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (n == 0 || n > left) return 0;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  if (text[1] < low || text[1] > high) return 0;
  for (size_t i = 2; i < n; i++)
    if ((text[i] & 0xc0) != 0x80) return 0;
  return n;
}
