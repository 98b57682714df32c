#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/checkpoint_impl.h"
#include "store/disk.h"

static const char LOOSE[] = "# loose: ";

/* A name leads nowhere else than into the folder. */
static bool is_name(const char *name) { return *name && !strchr(name, '/') && name[0] != '.'; }

/* Parses the words behind a name; those of a newer program are skipped. */
static bool parse_words(char *words, struct checkpoint_entry *entry) {
  char *rest;
  for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char *end = word;
    if (!strcmp(word, "kept")) entry->is_kept = true;
    if (strncmp(word, "best=", 5)) continue;
    entry->best_loss = strtod(word + 5, &end);
    entry->is_best = end > word + 5 && *end == '\0' && isfinite(entry->best_loss);
  }
  return true;
}

/* Parses one line; false when it is no entry. */
static bool parse_line(char *line, struct checkpoint_entry *entry) {
  int end = 0;
  *entry = (struct checkpoint_entry){0};
  if (sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNx64 " %63s%n", &entry->step, &entry->bytes, &entry->hash, entry->name,
             &end) != 4)
    return false;
  if ((line[end] != '\0' && line[end] != ' ') || entry->step < 0 || entry->bytes <= 0 || !is_name(entry->name))
    return false;
  return parse_words(line + end, entry);
}

/* A comment may name a file in hand; one of our names only. */
static void parse_comment(const char *line, struct checkpoint_index *index) {
  const char *name = line + sizeof LOOSE - 1;
  size_t bytes = strlen(line);
  if (strncmp(line, LOOSE, sizeof LOOSE - 1) || strlen(name) >= CHECKPOINT_NAME_BYTES || !is_name(name)) return;
  if (!strncmp(name, "step-", 5) && !strcmp(line + bytes - 3, ".h5")) checkpoint_index_add_loose(index, name);
}

int checkpoint_index_read(const char *folder, struct checkpoint_index *index) {
  *index = (struct checkpoint_index){0};
  char *path = mem_format("%s/index.txt", folder), *text, *rest;
  int status = disk_read_text(path, &text);
  int number = 0;
  for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
    struct checkpoint_entry entry;
    number++;
    line[strcspn(line, "\r")] = '\0';
    if (line[0] == '#') parse_comment(line, index);
    if (line[0] == '#' || line[0] == '\0') continue;
    if (parse_line(line, &entry))
      checkpoint_index_add(index, &entry);
    else
      log_warn("%s:%d: \"%.40s\" is no entry of a checkpoint; it is passed over", path, number, line);
  }
  mem_free(text);
  mem_free(path);
  return status;
}

/* The words behind the name. */
static void format_words(const struct checkpoint_entry *entry, char *text, size_t size) {
  int n = snprintf(text, size, "%s", entry->is_kept ? " kept" : "");
  if (entry->is_best) snprintf(text + n, size - (size_t)n, " best=%.17g", entry->best_loss);
}

int checkpoint_index_write(const char *folder, const struct checkpoint_index *index) {
  char *text = mem_strdup("# step bytes xxh3 file\n");
  for (int64_t i = 0; i < index->n; i++) {
    const struct checkpoint_entry *entry = &index->entries[i];
    char words[64];
    format_words(entry, words, sizeof words);
    char *longer = mem_format("%s%" PRId64 " %" PRId64 " %016" PRIx64 " %s%s\n", text, entry->step, entry->bytes,
                              entry->hash, entry->name, words);
    mem_free(text);
    text = longer;
  }
  for (int64_t i = 0; i < index->n_loose; i++) {
    char *longer = mem_format("%s%s%s\n", text, LOOSE, index->loose[i]);
    mem_free(text);
    text = longer;
  }
  char *path = mem_format("%s/index.txt", folder);
  int status = disk_write_text(path, text);
  mem_free(path);
  mem_free(text);
  return status;
}

void checkpoint_index_add(struct checkpoint_index *index, const struct checkpoint_entry *entry) {
  index->entries = mem_resize(index->entries, sizeof *entry * (size_t)(index->n + 1));
  int64_t at = index->n++;
  for (; at > 0 && index->entries[at - 1].step > entry->step; at--) index->entries[at] = index->entries[at - 1];
  index->entries[at] = *entry;
}

const struct checkpoint_entry *checkpoint_index_find(const struct checkpoint_index *index, const char *name) {
  for (int64_t i = 0; i < index->n; i++)
    if (!strcmp(index->entries[i].name, name)) return &index->entries[i];
  return NULL;
}

void checkpoint_index_add_loose(struct checkpoint_index *index, const char *name) {
  for (int64_t i = 0; i < index->n_loose; i++)
    if (!strcmp(index->loose[i], name)) return;
  index->loose = mem_resize(index->loose, sizeof *index->loose * (size_t)(index->n_loose + 1));
  snprintf(index->loose[index->n_loose++], CHECKPOINT_NAME_BYTES, "%s", name);
}

void checkpoint_index_fini(struct checkpoint_index *index) {
  mem_free(index->entries);
  mem_free(index->loose);
  *index = (struct checkpoint_index){0};
}

int checkpoint_verify(const char *path, const struct checkpoint_entry *entry, void (*poll)(void *context),
                      void *context) {
  /* Finding a checkpoint and then reading it would hash it twice. */
  static struct stat last;
  static uint64_t last_hash;
  struct stat now;
  if (stat(path, &now))
    return error_raise(STATUS_FAILED, "%s is in the index but cannot be opened: %s", path, limits_reason(errno));
  if (now.st_size != entry->bytes)
    return error_raise(STATUS_FAILED, "%s is damaged: it has %" PRId64 " bytes, the index says %" PRId64, path,
                       (int64_t)now.st_size, entry->bytes);
  uint64_t hash = last_hash;
  int64_t bytes;
  if (now.st_dev != last.st_dev || now.st_ino != last.st_ino || now.st_size != last.st_size ||
      memcmp(&now.st_mtim, &last.st_mtim, sizeof now.st_mtim)) {
    int status = hash_file_polled(path, poll, context, &hash, &bytes);
    if (status) return status;
    last = now;
    last_hash = hash;
  }
  if (hash == entry->hash) return STATUS_OK;
  return error_raise(STATUS_FAILED, "%s is damaged: its hash is %016" PRIx64 ", the index says %016" PRIx64, path, hash,
                     entry->hash);
}
