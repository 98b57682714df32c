#include "setup/same_data.h"

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "data/dataset.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The identity of one file. */
struct identity {
  uint64_t fingerprint;
  int64_t tokens, documents;
};

static struct identity identify(const struct tokens *file) {
  return (struct identity){file->fingerprint, file->n_tokens, file->n_documents};
}

static bool is_same(struct identity a, struct identity b) {
  return a.fingerprint == b.fingerprint && a.tokens == b.tokens && a.documents == b.documents;
}

/* "12 tokens in 3 documents (content 0123456789abcdef)"; owned by the caller. */
static char *describe(struct identity it) {
  return mem_format("%" PRId64 " tokens in %" PRId64 " document%s (content %016" PRIx64 ")", it.tokens, it.documents,
                    it.documents == 1 ? "" : "s", it.fingerprint);
}

/* ---- the ranks of a job ---- */

static int refuse_rank(struct comm *comm, const char *key, const struct tokens *file, struct identity theirs) {
  char *here = describe(identify(file)), *there = describe(theirs);
  int status =
      error_raise(STATUS_MISTAKE,
                  "%s: %s is not the same on all ranks: here it has %s, on rank 0 (%s) %s: give every node the "
                  "same copy",
                  key, file->prefix, here, comm_get_host(comm, 0), there);
  mem_free(here);
  mem_free(there);
  return status;
}

int same_data_compare_ranks_all(struct comm *comm, const char *key, const struct dataset *dataset) {
  int n = dataset_count_files(dataset), status = STATUS_OK; /* as many on all ranks, as the keys agree */
  struct identity *theirs = MEM_NEW(struct identity, n);
  for (int f = 0; f < n; f++) theirs[f] = identify(dataset_get_file(dataset, f));
  comm_broadcast_all(comm, 0, theirs, n * (int64_t)sizeof *theirs);
  for (int f = 0; f < n && !status; f++) {
    const struct tokens *file = dataset_get_file(dataset, f);
    if (!is_same(identify(file), theirs[f])) status = refuse_rank(comm, key, file, theirs[f]);
  }
  mem_free(theirs);
  return comm_agree_all(comm, status);
}

/* ---- the lives of a run ---- */

char *same_data_describe(const struct dataset *dataset) {
  char *text = mem_strdup("");
  for (int f = 0; f < dataset_count_files(dataset); f++) {
    const struct tokens *file = dataset_get_file(dataset, f);
    char *longer = mem_format("%s%016" PRIx64 " %" PRId64 " %" PRId64 " %s\n", text, file->fingerprint, file->n_tokens,
                              file->n_documents, file->prefix);
    mem_free(text);
    text = longer;
  }
  return text;
}

/* The next line of such a text. False when there is none. */
static bool take_line(const char **text, struct identity *it, char **prefix) {
  int at = 0;
  if (sscanf(*text, "%" SCNx64 " %" SCNd64 " %" SCNd64 "%n", &it->fingerprint, &it->tokens, &it->documents, &at) != 3)
    return false;
  const char *name = *text + at + (strncmp(*text + at, " ", 1) == 0);
  size_t n = strcspn(name, "\n");
  *prefix = mem_format("%.*s", (int)n, name);
  *text = name + n + (name[n] == '\n');
  return true;
}

static int refuse_life(const char *key, const char *prefix, struct identity before, const struct tokens *file,
                       const char *so) {
  char *was = describe(before), *is = file ? describe(identify(file)) : NULL;
  int status =
      error_raise(STATUS_MISTAKE, "%s: %s had %s when this run began%s%s%s%s; %s", key, prefix, was,
                  is ? ", " : " and is left out now", is ? file->prefix : "", is ? " has now " : "", is ? is : "", so);
  mem_free(was);
  mem_free(is);
  return status;
}

/* True when two prefixes name one file. */
static bool is_same_place(const char *a, const char *b) {
  if (!strcmp(a, b)) return true;
  char *paths[2] = {mem_format("%s.bin", a), mem_format("%s.bin", b)};
  char *real[2] = {realpath(paths[0], NULL), realpath(paths[1], NULL)};
  bool same = real[0] && real[1] && !strcmp(real[0], real[1]);
  for (int i = 0; i < 2; i++) mem_free(paths[i]), free(real[i]);
  return same;
}

static void add_note(char **note, const char *key, const char *before, const char *now) {
  char *longer =
      *note ? mem_format("%s; %s, which was %s", *note, now, before)
            : mem_format("%s lies elsewhere than before, its content is the same: %s, which was %s", key, now, before);
  mem_free(*note);
  *note = longer;
}

int same_data_compare_life(const char *key, const char *before, const struct dataset *dataset, const char *so,
                           char **note) {
  int n = dataset_count_files(dataset), f = 0, status = STATUS_OK;
  struct identity was;
  char *prefix;
  *note = NULL;
  for (; !status && take_line(&before, &was, &prefix); f++) {
    const struct tokens *file = f < n ? dataset_get_file(dataset, f) : NULL;
    if (!file || !is_same(was, identify(file)))
      status = refuse_life(key, prefix, was, file, so);
    else if (!is_same_place(prefix, file->prefix))
      add_note(note, key, prefix, file->prefix);
    mem_free(prefix);
  }
  if (!status && f < n)
    status = error_raise(STATUS_MISTAKE, "%s: %s was not there when this run began; %s", key,
                         dataset_get_file(dataset, f)->prefix, so);
  return status;
}
