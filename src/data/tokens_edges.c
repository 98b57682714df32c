/* Ids that begin and end the documents of a token file, as far as the file itself shows them. */
#include "base/mem.h"
#include "data/tokens.h"

/* Documents that are looked at, spread over the file, and tokens from the start of each. */
enum { MOST_DOCUMENTS = 64, MOST_TOKENS = 4096 };

struct edges {
  int32_t first, last; /* of all documents so far; -1: not the same, or also inside */
  bool any;
};

static void look_at(const struct tokens *file, int64_t document, int32_t *ids, struct edges *edges) {
  int64_t length = tokens_get_document_length(file, document), start = tokens_get_document_start(file, document);
  if (length < 2) return;
  int32_t last;
  int64_t n = length - 1 < MOST_TOKENS ? length - 1 : MOST_TOKENS; /* without the last */
  tokens_read(file, start, n, ids);
  tokens_read(file, start + length - 1, 1, &last);
  if (!edges->any) *edges = (struct edges){ids[0], last, true};
  if (ids[0] != edges->first || last == edges->first) edges->first = -1;
  if (last != edges->last || ids[0] == edges->last) edges->last = -1;
  for (int64_t i = 1; i < n; i++) {
    if (ids[i] == edges->first) edges->first = -1;
    if (ids[i] == edges->last) edges->last = -1;
  }
}

void tokens_find_edges(const struct tokens *file, int32_t *begin, int32_t *end) {
  struct edges edges = {-1, -1, false};
  int32_t *ids = MEM_NEW(int32_t, MOST_TOKENS);
  int64_t n = file->n_documents < MOST_DOCUMENTS ? file->n_documents : MOST_DOCUMENTS;
  for (int64_t i = 0; i < n; i++) look_at(file, i * file->n_documents / n, ids, &edges);
  mem_free(ids);
  *begin = n > 1 ? edges.first : -1; /* of one document alone any first token would do */
  *end = edges.last;
}
