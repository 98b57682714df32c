/* UTF-8, character by character. */
#ifndef PENSTOCK_BASE_UTF8_H
#define PENSTOCK_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* U+FFFD, which stands for what is no character. */
#define UTF8_UNKNOWN "\xef\xbf\xbd"

/* The mark that some programs put before a text. */
#define UTF8_MARK "\xef\xbb\xbf"

/* Bytes of the character at text[0], of `left` bytes; 0 when it is none (surrogates and longer forms than needed are
 * none), or cut off by the end. */
size_t utf8_measure(const uint8_t *text, size_t left);

#endif
