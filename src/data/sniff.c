#include "data/sniff.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

/* Files begin with these bytes, some only at a place further on. `command` writes what is inside to standard output,
 * `%s` being the file; NULL: there is none for all files of the kind. `inside`: format of what comes out; NULL: what
 * the name without its last suffix says. */
struct kind {
  const char *what;
  size_t at, length;
  const char *bytes, *command, *inside;
};

#define PANDAS(reader)                                                                                                 \
  "python3 -c 'import pandas, sys; pandas." reader                                                                     \
  "(sys.argv[1]).to_json(sys.stdout, orient=\"records\", lines=True)' %s"

static const struct kind kinds[] = {
    {"compressed with gzip", 0, 2, "\x1f\x8b", "zcat %s", NULL},
    {"compressed with zstd", 0, 4, "\x28\xb5\x2f\xfd", "zstdcat %s", NULL},
    {"compressed with bzip2", 0, 4, "BZh9", "bzcat %s", NULL},
    {"compressed with bzip2", 4, 6, "\x31\x41\x59\x26\x53\x59", "bzcat %s", NULL},
    {"compressed with xz", 0, 6,
     "\xfd"
     "7zXZ\0",
     "xzcat %s", NULL},
    {"compressed with lzma", 0, 4, "\x5d\0\0\x80", "xzcat %s", NULL},
    {"compressed with lz4", 0, 4, "\x04\x22\x4d\x18", "lz4cat %s", NULL},
    {"compressed with compress", 0, 2, "\x1f\x9d", "zcat %s", NULL},
    {"compressed with lzip", 0, 5, "LZIP\1", "lzip -dc %s", NULL},
    {"a zip archive", 0, 4, "PK\3\4", "unzip -p %s", NULL},
    {"a 7z archive", 0, 6, "7z\xbc\xaf\x27\x1c", "7z x -so %s", NULL},
    {"a tar archive", 257, 5, "ustar", "tar -xOf %s", NULL},
    {"a Parquet file", 0, 4, "PAR1", PANDAS("read_parquet"), "jsonl"},
    {"an Arrow file", 0, 6, "ARROW1", PANDAS("read_feather"), "jsonl"},
    {"an ORC file", 0, 4, "ORC\x08", PANDAS("read_orc"), "jsonl"},
    {"a PDF file", 0, 5, "%PDF-", "pdftotext %s -", "text"},
    {"text in UTF-32", 0, 4, "\xff\xfe\0\0", "iconv -f UTF-32 -t UTF-8 %s", NULL},
    {"text in UTF-32", 0, 4, "\0\0\xfe\xff", "iconv -f UTF-32 -t UTF-8 %s", NULL},
    {"text in UTF-16", 0, 2, "\xff\xfe", "iconv -f UTF-16 -t UTF-8 %s", NULL},
    {"text in UTF-16", 0, 2, "\xfe\xff", "iconv -f UTF-16 -t UTF-8 %s", NULL},
    {"an index of token files, made already", 0, 7, "MMIDIDX", NULL, NULL},
    {"an HDF5 file", 0, 8, "\x89HDF\r\n\x1a\n", NULL, NULL},
    {"a NumPy array", 0, 6, "\x93NUMPY", NULL, NULL},
    {"an SQLite database", 0, 15, "SQLite format 3", NULL, NULL},
    {"an Avro file", 0, 4, "Obj\1", NULL, NULL},
    {"a picture", 0, 4, "\x89PNG", NULL, NULL},
    {"a picture", 0, 3, "\xff\xd8\xff", NULL, NULL},
    {"a program", 0, 4,
     "\x7f"
     "ELF",
     NULL, NULL},
};

/* A file's name as a word of the shell; owned by the caller. */
static char *quote(const char *path) {
  if (path[0] && path[strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+,:=@%^-")] == 0)
    return mem_strdup(path);
  char *word = mem_alloc(4 * strlen(path) + 3), *to = word;
  *to++ = '\'';
  for (const char *from = path; *from; from++) {
    if (*from == '\'') to += sprintf(to, "'\\'");
    *to++ = *from;
  }
  *to++ = '\'';
  return word;
}

/* Returns the name without the ending of compression: "a.jsonl.gz" holds JSON lines. NULL: the name tells nothing. */
static const char *name_inside(const char *path) {
  const char *dot = strrchr(path, '.');
  size_t length = dot ? (size_t)(dot - path) : 0;
  static const char *const suffixes[] = {".jsonl", ".ndjson", ".json"};
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(suffixes[i]);
    if (length > n && !strncasecmp(path + length - n, suffixes[i], n)) return "jsonl";
  }
  return length > 4 && !strncasecmp(path + length - 4, ".txt", 4) ? "text" : NULL;
}

static int refuse(const char *path, const struct kind *kind) {
  if (!kind->command)
    return error_raise(STATUS_MISTAKE,
                       "%s is %s, no text in UTF-8: write its texts as a text file or as lines of JSON first", path,
                       kind->what);
  const char *inside = kind->inside ? kind->inside : name_inside(path);
  if (!strcmp(path, "-"))
    return error_raise(STATUS_MISTAKE,
                       "what comes on standard input is %s, no text in UTF-8: send it through a filter first (%.*s)",
                       kind->what, (int)strcspn(kind->command, " "), kind->command);
  char *word = quote(path), *command = mem_format("%.*s%s%s", (int)(strstr(kind->command, "%s") - kind->command),
                                                  kind->command, word, strstr(kind->command, "%s") + 2);
  int status = error_raise(STATUS_MISTAKE, "%s is %s, no text in UTF-8: %s | penstock data build%s%s --output PREFIX -",
                           path, kind->what, command, inside ? " --format " : "", inside ? inside : "");
  mem_free(command);
  mem_free(word);
  return status;
}

int sniff_refuse_kind(const char *path, const uint8_t *first, size_t bytes) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].at + kinds[i].length <= bytes && !memcmp(first + kinds[i].at, kinds[i].bytes, kinds[i].length))
      return refuse(path, &kinds[i]);
  return STATUS_OK;
}

/* ---- text ---- */

enum {
  STRETCH = 4096, /* bytes that are judged together */
  JUDGED = 64,    /* fewer are judged only where there are no others */
  WRONG_PERCENT =
      30, /* of bytes that belong to no character: compressed files have 50, Latin letters in Latin-1 up to 10 */
  ZERO_PERCENT = 1, /* of zero bytes: none in any text, but a few may be by accident */
  ZEROS = 3,
};

size_t sniff_cut(const uint8_t *text, size_t bytes) {
  for (size_t back = 1; back <= 3 && back < bytes; back++) {
    uint8_t byte = text[bytes - back];
    if (byte >= 0xc0) return bytes - back;
    if (byte < 0x80) break;
  }
  return bytes;
}

/* Control characters that texts do not have. */
static bool is_control(uint8_t byte) { return byte < 32 && !(byte >= 7 && byte <= 13) && byte != 27; }

static int judge(struct sniff *sniff, const char *path, const uint8_t *text, size_t bytes) {
  int64_t zeros = 0, odd = 0;
  for (size_t i = 0; i < bytes;) {
    size_t n = utf8_measure(text + i, bytes - i);
    zeros += text[i] == 0;
    if (n == 0 && sniff->n_wrong++ == 0) sniff->first_wrong = sniff->bytes + (int64_t)i;
    odd += n == 0 || is_control(text[i]);
    i += n ? n : 1;
  }
  bool judged = bytes >= JUDGED || sniff->bytes == 0, is_zero = zeros > ZEROS + ZERO_PERCENT * (int64_t)bytes / 100;
  if (judged && (is_zero || odd * 100 > WRONG_PERCENT * (int64_t)bytes))
    return error_raise(
        STATUS_MISTAKE,
        "%s is no text in UTF-8: of the %zu bytes from byte %" PRId64 " on, %" PRId64
        " %s; iconv -f ENCODING -t UTF-8 makes it of text in another encoding (iconv -l lists them), and "
        "--format bytes takes every file as it is",
        path, bytes, sniff->bytes, is_zero ? zeros : odd, is_zero ? "are zero" : "are of no character");
  sniff->bytes += (int64_t)bytes;
  return STATUS_OK;
}

int sniff_look(struct sniff *sniff, const char *path, const uint8_t *text, size_t bytes) {
  int status = STATUS_OK;
  for (size_t at = 0; at < bytes && !status;) {
    size_t n = bytes - at > STRETCH ? sniff_cut(text + at, STRETCH) : bytes - at;
    status = judge(sniff, path, text + at, n);
    at += n;
  }
  return status;
}
