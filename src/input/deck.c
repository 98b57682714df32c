#include "input/deck.h"

#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "input/deck_node.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The text that is broadcast: MARK, then for each file its header line "<bytes> <name>" and its bytes. */
static const char MARK[] = "penstock-deck\n";
enum { LARGEST = 1 << 20 }; /* a deck is written by hand */

struct source {
  char *name, *text;
  size_t bytes;
  dev_t device; /* with inode: which file it is, whatever its name */
  ino_t inode;
};

char *deck_place_format(const struct deck_place *place, const char *where) {
  if (!place->file) return mem_strdup(where);
  return mem_format("%s:%d:%d", place->file, place->line, place->column);
}

/* ---- reading files ---- */

static int read_stream(FILE *stream, struct source *source) {
  struct stat info;
  if (fstat(fileno(stream), &info)) return error_raise(STATUS_MISTAKE, "cannot be read: %s", limits_reason(errno));
  if (S_ISDIR(info.st_mode)) return error_raise(STATUS_MISTAKE, "is a folder, not a deck");
  source->device = info.st_dev;
  source->inode = info.st_ino;
  source->text = mem_alloc(LARGEST + 1);
  source->bytes = fread(source->text, 1, LARGEST + 1, stream);
  if (ferror(stream)) return error_raise(STATUS_MISTAKE, "cannot be read: %s", limits_reason(errno));
  if (source->bytes > LARGEST) return error_raise(STATUS_MISTAKE, "is not a deck: it is longer than 1 MiB");
  if (memchr(source->text, '\0', source->bytes)) return error_raise(STATUS_MISTAKE, "is not a text file");
  source->text = mem_resize(source->text, source->bytes + 1);
  source->text[source->bytes] = '\0';
  return STATUS_OK;
}

/* Reads a file whose name is source->name. */
static int read_source(struct source *source) {
  if (strchr(source->name, '\n')) return error_raise(STATUS_MISTAKE, "the name of a deck holds a line break");
  FILE *stream = fopen(source->name, "r");
  int status =
      stream ? read_stream(stream, source) : error_raise(STATUS_MISTAKE, "cannot be read: %s", limits_reason(errno));
  if (stream) fclose(stream);
  return status ? error_wrap("deck %s", source->name) : STATUS_OK;
}

/* Path of `name` as seen from the folder of `from`; owned by the caller. */
static char *resolve(const char *from, const char *name) {
  const char *slash = strrchr(from, '/');
  if (name[0] == '/' || !slash) return mem_strdup(name);
  return mem_format("%.*s/%s", (int)(slash - from), from, name);
}

/* Finds what a deck includes. *included: path, owned by the caller, or NULL; *place: where it says so, likewise.
 * Mistakes of any other kind are left to deck_parse. */
static void find_include(const struct source *source, char **included, char **place) {
  struct deck_node root;
  struct mistakes ignored = {0};
  deck_node_parse(source->text, source->bytes, source->name, "", &root, NULL, &ignored);
  mem_free(ignored.text);
  const struct deck_node *node = deck_node_find(&root, "include");
  *included = *place = NULL;
  if (node && node->kind == DECK_SCALAR && !node->broken && node->text[0]) {
    *included = resolve(source->name, node->text);
    *place = deck_place_format(&node->place, "");
  }
  deck_node_fini(&root);
}

static int refuse_circle(const struct source *sources, int n) {
  for (int i = 0; i < n; i++)
    if (sources[i].device == sources[n].device && sources[i].inode == sources[n].inode)
      return error_raise(STATUS_MISTAKE, "'include' goes in a circle: %s is already being read", sources[n].name);
  return STATUS_OK;
}

/* Reads sources[0] (its name is set) and what it includes, one after another. */
static int read_chain(struct source *sources, int *n) {
  char *place = NULL;
  int status = STATUS_OK;
  for (*n = 0; sources[*n].name;) {
    status = read_source(&sources[*n]);
    if (!status) status = refuse_circle(sources, *n);
    if (status && place) error_wrap("%s: include", place);
    mem_free(place);
    place = NULL;
    struct source *source = &sources[(*n)++];
    if (status) break;
    char *included;
    find_include(source, &included, &place);
    if (included && *n == DECK_DEPTH) {
      status = error_raise(STATUS_MISTAKE, "%s: 'include' is nested deeper than %d decks", place, DECK_DEPTH);
      mem_free(included);
      break;
    }
    sources[*n].name = included;
  }
  mem_free(place);
  return status;
}

int deck_read_text(const char *path, char **text) {
  struct source sources[DECK_DEPTH + 1] = {{.name = mem_strdup(path)}};
  int n;
  int status = read_chain(sources, &n);
  char *joined = mem_strdup(MARK);
  for (int i = n - 1; i >= 0; i--) {
    char *longer =
        status ? NULL : mem_format("%s%zu %s\n%s", joined, sources[i].bytes, sources[i].name, sources[i].text);
    if (longer) {
      mem_free(joined);
      joined = longer;
    }
    mem_free(sources[i].name);
    mem_free(sources[i].text);
  }
  if (status) mem_free(joined);
  *text = status ? NULL : joined;
  return status;
}

char *deck_wrap_text(const char *name, const char *yaml) {
  return mem_format("%s%zu %s\n%s", MARK, strlen(yaml), name, yaml);
}

/* ---- taking the text apart ---- */

/* The next deck of a text: its bytes; *name and *n_name, its name as it lies there. Returns what follows it. */
static const char *take_source(const char *text, const char **name, size_t *n_name, const char **body, size_t *bytes) {
  char *rest;
  *bytes = (size_t)strtoull(text, &rest, 10);
  *name = rest + 1;
  *n_name = strcspn(*name, "\n");
  *body = *name + *n_name + 1;
  return *body + *bytes;
}

bool deck_is_same_text(const char *a, const char *b) {
  for (a += sizeof MARK - 1, b += sizeof MARK - 1; *a && *b;) {
    const char *name, *bodies[2];
    size_t n_name, bytes[2];
    a = take_source(a, &name, &n_name, &bodies[0], &bytes[0]);
    b = take_source(b, &name, &n_name, &bodies[1], &bytes[1]);
    if (bytes[0] != bytes[1] || memcmp(bodies[0], bodies[1], bytes[0])) return false;
  }
  return *a == *b;
}

static void add_entry(struct deck *deck, const char *section, const char *key, struct deck_place place,
                      const struct deck_node *value) {
  deck->entries = mem_resize(deck->entries, sizeof *deck->entries * (size_t)(deck->n_entries + 1));
  deck->entries[deck->n_entries++] = (struct deck_entry){section, key, place, value};
}

static void add_section(struct deck *deck, const struct deck_node *name, const struct deck_node *value) {
  bool empty = value->kind == DECK_SCALAR && !value->quoted && !value->text[0];
  if (value->kind != DECK_MAP && !empty) {
    add_entry(deck, name->text, NULL, name->place, value);
    return;
  }
  add_entry(deck, name->text, NULL, name->place, NULL);
  for (int64_t i = 0; i < value->n; i++) {
    if (value->items[i].broken) continue;
    add_entry(deck, name->text, value->keys[i].text, value->keys[i].place, &value->items[i]);
  }
}

static void add_root(struct deck *deck, const char *file, const struct deck_node *root, struct mistakes *mistakes) {
  if (root->kind == DECK_SCALAR && root->broken) {
    if (!mistakes->n) mistakes_add(mistakes, "%s: the deck is empty", file);
    return;
  }
  if (root->kind != DECK_MAP) {
    mistakes_add(mistakes, "%s:%d:%d: a deck begins with sections: `run:` and below it, indented, `steps: 100`", file,
                 root->place.line, root->place.column);
    return;
  }
  for (int64_t i = 0; i < root->n; i++) {
    const struct deck_node *key = &root->keys[i], *value = &root->items[i];
    /* A section with a mistake inside still has its other keys. */
    if (!key->broken && (!value->broken || value->kind == DECK_MAP)) add_section(deck, key, value);
  }
}

void deck_parse(const char *text, struct deck *deck, struct mistakes *mistakes) {
  *deck = (struct deck){0};
  if (!text) return;
  CHECK(!strncmp(text, MARK, sizeof MARK - 1), "not a deck text");
  for (text += sizeof MARK - 1; *text;) {
    const char *name, *body;
    size_t n_name, bytes;
    text = take_source(text, &name, &n_name, &body, &bytes);
    int64_t n = deck->n_files++;
    deck->files = mem_resize(deck->files, sizeof *deck->files * (size_t)deck->n_files);
    deck->roots = mem_resize(deck->roots, sizeof *deck->roots * (size_t)deck->n_files);
    deck->files[n] = mem_format("%.*s", (int)n_name, name);
    deck_node_parse(body, bytes, deck->files[n], "", &deck->roots[n], NULL, mistakes);
  }
  for (int64_t i = 0; i < deck->n_files; i++) add_root(deck, deck->files[i], &deck->roots[i], mistakes);
  deck->name = mem_strdup(deck->files[deck->n_files - 1]);
}

void deck_fini(struct deck *deck) {
  for (int64_t i = 0; i < deck->n_files; i++) {
    deck_node_fini(&deck->roots[i]);
    mem_free(deck->files[i]);
  }
  mem_free(deck->roots);
  mem_free(deck->files);
  mem_free(deck->entries);
  mem_free(deck->name);
  *deck = (struct deck){0};
}

/* The text behind its first n characters (of UTF-8) and the spaces that follow. */
static const char *skip_characters(const char *text, size_t n) {
  for (; n && *text; n--) do
      text++;
    while (((unsigned char)*text & 0xc0) == 0x80);
  return text + strspn(text, " ");
}

void deck_parse_value(const char *text, const char *where, struct deck_node *node, struct mistakes *mistakes) {
  size_t end = 0;
  int64_t before = mistakes->n;
  deck_node_parse(text, strlen(text), NULL, where, node, &end, mistakes);
  if (mistakes->n > before) {
    node->broken = true;
    return;
  }
  /* An empty text has no node; the type of the key decides whether an empty value is allowed. */
  if (node->broken) {
    *node = (struct deck_node){.kind = DECK_SCALAR, .text = mem_strdup("")};
    return;
  }
  const char *rest = skip_characters(text, end);
  if (!*rest) return;
  mistakes_add(mistakes, "%s: '%s' follows the value: put values with special characters in quotes", where, rest);
  node->broken = true;
}
