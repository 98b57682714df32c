/* Token files in Megatron's indexed format: PREFIX.bin holds the token ids of all sequences, PREFIX.idx says where each
 * begins. Little-endian index, byte by byte:
 *
 *   9 bytes "MMIDIDX\0\0"; uint64 version (1); uint8 type code; uint64 S sequences; uint64 D entries of the document
 * index int32 length[S]        tokens of a sequence int64 pointer[S]       its byte offset in PREFIX.bin int64
 * document[D]      first sequence of each document, and S at the end (D = documents + 1) int8 mode[S]           only in
 * multimodal files
 *
 * A document is one or more sequences. All its tokens end to end, document after document, are the file's stream. Both
 * files stay open and are read when something is asked for (data/tokens_reader.h); every count and offset is 64 bits
 * wide.
 *
 * What is out of order is either refused (the file cannot be read as meant) or tolerated (older tools wrote it and the
 * meaning is plain): tokens_open keeps a note of it, tokens_check lists everything.
 */
#ifndef PENSTOCK_DATA_TOKENS_H
#define PENSTOCK_DATA_TOKENS_H

#include "data/cumulative.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Type codes of the format: name, code, bytes of an element, whether it is read as token ids here. */
#define TOKENS_TYPES(X)                                                                                                \
  X(UINT8, 1, "uint8", 1, false)                                                                                       \
  X(INT8, 2, "int8", 1, false)                                                                                         \
  X(INT16, 3, "int16", 2, false)                                                                                       \
  X(INT32, 4, "int32", 4, true)                                                                                        \
  X(INT64, 5, "int64", 8, false)                                                                                       \
  X(FLOAT, 6, "a floating-point type", 0, false)                                                                       \
  X(DOUBLE, 7, "a floating-point type", 0, false)                                                                      \
  X(UINT16, 8, "uint16", 2, true)
enum tokens_type {
#define X(name, code, text, bytes, readable) TOKENS_##name = code,
  TOKENS_TYPES(X)
#undef X
};
#define TOKENS_VOCAB_UINT16 65536 /* the largest vocabulary that uint16 ids can serve */

/* "uint16" and the like; NULL for a code that the format does not have. Static text. */
const char *tokens_get_type_name(int type);

/* Faults of a pair of files: name, text for people, whether the file is refused for it. */
#define TOKENS_FAULTS(X)                                                                                               \
  X(FILE, "file", true)                  /* cannot be opened or read */                                                \
  X(HEADER, "header", true)              /* magic, version */                                                          \
  X(TYPE, "type", true)                  /* element type unknown, not supported, or too narrow for the vocabulary */   \
  X(TRUNCATED, "truncated", true)        /* the index is shorter than its header says */                               \
  X(TRAILING, "trailing", false)         /* bytes after its end */                                                     \
  X(LENGTH, "length", true)              /* a negative length */                                                       \
  X(OUTSIDE, "outside", true)            /* a sequence that is not inside PREFIX.bin, or not at a whole token */       \
  X(OVERLAP, "overlap", true)            /* a sequence that begins before the end of the one before it */              \
  X(GAP, "gap", false)                   /* a sequence that begins after it */                                         \
  X(REST, "rest", false)                 /* bytes of PREFIX.bin that no sequence uses */                               \
  X(DOCUMENT, "document", true)          /* document index: not from 0, going back, beyond the sequences */            \
  X(DOCUMENT_END, "document end", false) /* it ends before the last sequence */                                        \
  X(MODE, "mode", true)                  /* a sequence that is not text */                                             \
  X(ID, "id", true)                      /* a token id outside the vocabulary */
enum tokens_fault {
#define X(name, text, refused) TOKENS_FAULT_##name,
  TOKENS_FAULTS(X)
#undef X
      TOKENS_FAULT_COUNT
};

/* Two open files. Read-only for all but tokens.c and tokens_check.c. */
struct tokens_reader;
struct tokens {
  char *prefix;
  struct tokens_reader *reader;
  int64_t index_bytes, bin_bytes; /* -1: absent */
  uint64_t fingerprint;           /* of the content of both (tokens_reader.h); set by tokens_open */
  int type;                       /* enum tokens_type */
  int64_t token_bytes;            /* 2 or 4 */
  int64_t n_sequences, n_entries; /* S, D */
  int64_t n_documents, n_empty_documents, n_tokens;
  int64_t longest;           /* tokens of the longest document */
  struct cumulative lengths; /* running sum of the sequences' lengths: places in the stream */
  char **notes;              /* [n_notes] what was tolerated, one line each */
  int n_notes;
};

/* Opens PREFIX.idx and PREFIX.bin and checks all of the index (not the ids). `vocab` is the model's vocabulary (0: not
 * known): 16-bit ids are refused for one above 65536. STATUS_MISTAKE names the first fault and counts the others. */
int tokens_open(const char *prefix, int64_t vocab, struct tokens **out);
void tokens_close(struct tokens **file);

/* Length in tokens of sequence s. */
int64_t tokens_get_sequence_length(const struct tokens *file, int64_t s);
/* Sequences *first .. *end-1 make document d. Sequences after the last document of the index are documents of one
 * sequence each. */
void tokens_get_document(const struct tokens *file, int64_t d, int64_t *first, int64_t *end);
/* Length in tokens of document d. */
int64_t tokens_get_document_length(const struct tokens *file, int64_t d);
/* Place of document d's first token in the stream. */
int64_t tokens_get_document_start(const struct tokens *file, int64_t d);
/* The document that holds a place of the stream; *offset is the token's place in it. */
int64_t tokens_find_document(const struct tokens *file, int64_t position, int64_t *offset);

/* STATUS_FAILED, naming the file, when the files are no longer those that were opened, or could not be read since: what
 * was got from them, lengths included, may be wrong then. */
int tokens_check_unchanged(const struct tokens *file);

/* Copies tokens position .. position+n-1 of the stream (all within it) to out[n]. Ids are not checked. STATUS_FAILED as
 * from tokens_check_unchanged. */
int tokens_read(const struct tokens *file, int64_t position, int64_t n, int32_t *out);

/* tokens_edges.c: the ids that begin and end every document and are nowhere else, of documents spread over the file;
 * -1: there is none. */
void tokens_find_edges(const struct tokens *file, int32_t *begin, int32_t *end);

/* ---- tokens_check.c, tokens_check_ids.c ---- */

/* Receives n faults of a kind: one, or those that are not shown one by one. `text` is a line without newline and ends
 * with the call. */
typedef void tokens_found(void *context, enum tokens_fault fault, bool refused, int64_t n, const char *text);

struct tokens_scan {
  int64_t least, most; /* smallest and largest id; least > most when there is no token */
  int64_t n_outside;   /* ids outside the vocabulary (set by tokens_check) */
};

/* Checks header, index and sizes of open files and fills in the counts of `file`; every fault goes to `found`, of one
 * kind the first few and then their number. Returns how many would be refused. */
int64_t tokens_check_index(struct tokens *file, int64_t vocab, tokens_found *found, void *context);

/* Checks everything of PREFIX that can be checked and reports all of it; ids against `vocab` (0: only that none is
 * negative). *file (not NULL) describes what could be read, for a summary; the caller closes it with tokens_close; its
 * tokens may be read only when nothing was refused. Returns the number of faults reported, tolerated
 * ones included. */
int64_t tokens_check(const char *prefix, int64_t vocab, tokens_found *found, void *context, struct tokens **file,
                     struct tokens_scan *scan);

/* Looks at every id of an open file, at the speed of memory. Ids must be in 0..vocab-1: STATUS_MISTAKE names file,
 * document, position, id and vocabulary of the first that is not. The work can be shared: part p of n (0 <= p < n)
 * looks at the p-th stretch of sequences. */
int tokens_check_vocabulary(const struct tokens *file, int64_t vocab, int part, int n_parts);

/* The message for an id outside the vocabulary at a place of the stream; owned by the caller. */
char *tokens_describe_id(const struct tokens *file, int64_t position, int64_t id, int64_t vocab);

/* ---- tokens_write.c ---- */

struct tokens_writer;

/* Begins PREFIX.bin.tmp and PREFIX.idx.tmp; ids are 16 bits wide when `vocab` <= 65536, else 32. Memory does not grow
 * with the text. Returns STATUS_MISTAKE when a file cannot be made there, or another build writes the prefix. */
int tokens_write_begin(const char *prefix, int64_t vocab, struct tokens_writer **out);
/* Appends ids to the current document. STATUS_FAILED when the disk is full or failing, STATUS_MISTAKE for an id outside
 * the vocabulary. After a failure only tokens_write_abandon is allowed. */
int tokens_write_tokens(struct tokens_writer *writer, const int32_t *ids, int64_t n);
/* Ends the current document (empty ones are written as they are). */
int tokens_write_end_document(struct tokens_writer *writer);
/* Writes the index, syncs, and puts both files into place (data/tokens_pair.h): an older pair stands until the new one
 * is whole. Frees the writer; after a failure the temporary files are gone. */
int tokens_write_end(struct tokens_writer **writer);
/* Removes the temporary files and frees the writer; NULL inside is allowed. */
void tokens_write_abandon(struct tokens_writer **writer);
/* For tests: sets that sequences hold at most this many tokens (default 2^31 - 1); longer documents become several
 * sequences. */
void tokens_write_set_sequence_limit(struct tokens_writer *writer, int64_t limit);
int64_t tokens_write_count_tokens(const struct tokens_writer *writer);
int64_t tokens_write_count_documents(const struct tokens_writer *writer);
/* "uint16" or "int32". */
const char *tokens_write_get_type_name(const struct tokens_writer *writer);

#endif
