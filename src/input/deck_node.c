#include "input/deck_node.h"

#include "base/mem.h"
#include <string.h>
#include <yaml.h>

enum { DEEPEST = 5 }; /* root, sections, keys, items of a list, pairs of an item */

struct reader {
  yaml_parser_t parser;
  yaml_event_t event; /* the current one */
  const char *file, *where;
  struct mistakes *mistakes;
};

static struct deck_place place_of(const struct reader *reader, yaml_mark_t mark) {
  return (struct deck_place){reader->file, (int)mark.line + 1, (int)mark.column + 1};
}

static void report(struct reader *reader, yaml_mark_t mark, const char *text) {
  struct deck_place place = place_of(reader, mark);
  char *where = deck_place_format(&place, reader->where);
  mistakes_add(reader->mistakes, "%s: %s", where, text);
  mem_free(where);
}

/* libyaml's own words, with the repair for its least clear one. */
static void report_syntax(struct reader *reader) {
  const yaml_parser_t *parser = &reader->parser;
  const char *problem = parser->problem ? parser->problem : "cannot be read";
  bool tab = strstr(problem, "cannot start any token") != NULL;
  char *text =
      mem_format("not YAML: %s%s%s%s", parser->context ? parser->context : "", parser->context ? ": " : "", problem,
                 tab ? " (indent with spaces, not tabs; quote values that begin with a special character)" : "");
  report(reader, parser->problem_mark, text);
  mem_free(text);
}

/* Moves to the next event; after an error there is only the end of the stream. */
static yaml_event_type_t advance(struct reader *reader) {
  if (reader->event.type != YAML_NO_EVENT) yaml_event_delete(&reader->event);
  memset(&reader->event, 0, sizeof reader->event);
  if (reader->parser.error != YAML_NO_ERROR) return YAML_NO_EVENT;
  if (!yaml_parser_parse(&reader->parser, &reader->event)) {
    report_syntax(reader);
    memset(&reader->event, 0, sizeof reader->event);
    return YAML_NO_EVENT;
  }
  return reader->event.type;
}

/* Tells anchors and tags of the current event; true when there was one. */
static bool refuse_decoration(struct reader *reader) {
  const yaml_event_t *event = &reader->event;
  const yaml_char_t *anchor = NULL, *tag = NULL;
  switch (event->type) {
  case YAML_SCALAR_EVENT: anchor = event->data.scalar.anchor, tag = event->data.scalar.tag; break;
  case YAML_SEQUENCE_START_EVENT:
    anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
    break;
  case YAML_MAPPING_START_EVENT: anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag; break;
  default: break;
  }
  if (anchor) report(reader, event->start_mark, "anchors (&name) are not allowed in a deck");
  if (tag) report(reader, event->start_mark, "tags (!name) are not allowed in a deck");
  return anchor || tag;
}

static void read_node(struct reader *reader, int depth, struct deck_node *node);

static void grow(struct deck_node *node) {
  node->items = mem_resize(node->items, sizeof *node->items * (size_t)(node->n + 1));
  memset(&node->items[node->n], 0, sizeof *node->items);
  if (node->kind != DECK_MAP) return;
  node->keys = mem_resize(node->keys, sizeof *node->keys * (size_t)(node->n + 1));
  memset(&node->keys[node->n], 0, sizeof *node->keys);
}

static void read_list(struct reader *reader, int depth, struct deck_node *node) {
  node->kind = DECK_LIST;
  for (yaml_event_type_t type = advance(reader); type != YAML_SEQUENCE_END_EVENT; type = advance(reader)) {
    if (type == YAML_NO_EVENT) {
      node->broken = true;
      return;
    }
    grow(node);
    struct deck_node *item = &node->items[node->n++];
    read_node(reader, depth + 1, item);
    node->broken |= item->broken;
  }
}

/* A key given twice would silently win over, or lose to, the other. */
static bool refuse_key(struct reader *reader, const struct deck_node *map, const struct deck_node *key,
                       yaml_mark_t mark) {
  if (key->broken) return true;
  if (key->kind != DECK_SCALAR) {
    report(reader, mark, "a key must be a single word");
    return true;
  }
  for (int64_t i = 0; i < map->n; i++) {
    if (map->keys[i].kind != DECK_SCALAR || !map->keys[i].text || strcmp(map->keys[i].text, key->text)) continue;
    char *text = reader->file ? mem_format("'%s' is given twice, first in line %d", key->text, map->keys[i].place.line)
                              : mem_format("'%s' is given twice", key->text);
    report(reader, mark, text);
    mem_free(text);
    return true;
  }
  return false;
}

static void read_map(struct reader *reader, int depth, struct deck_node *node) {
  node->kind = DECK_MAP;
  for (yaml_event_type_t type = advance(reader); type != YAML_MAPPING_END_EVENT; type = advance(reader)) {
    if (type == YAML_NO_EVENT) {
      node->broken = true;
      return;
    }
    grow(node);
    struct deck_node *key = &node->keys[node->n], *item = &node->items[node->n];
    yaml_mark_t mark = reader->event.start_mark;
    read_node(reader, depth + 1, key);
    key->broken = refuse_key(reader, node, key, mark);
    node->n++;
    item->broken = true;
    if (advance(reader) == YAML_NO_EVENT) {
      node->broken = true;
      return;
    }
    item->broken = false;
    read_node(reader, depth + 1, item);
    item->broken |= key->broken;
    /* The root and its sections stay readable, so that all their other keys are checked too. */
    if (depth >= 2) node->broken |= item->broken;
  }
}

/* Moves to the end of the list or map that begins with the current event; its depth is bounded by nothing. */
static void skip_node(struct reader *reader) {
  for (int64_t open = 1; open;) {
    yaml_event_type_t type = advance(reader);
    if (type == YAML_NO_EVENT) return;
    open += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
    open -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
  }
}

/* Reads the node that begins with the current event. */
static void read_node(struct reader *reader, int depth, struct deck_node *node) {
  yaml_event_type_t type = reader->event.type;
  yaml_mark_t mark = reader->event.start_mark;
  node->place = place_of(reader, mark);
  bool refused = refuse_decoration(reader);
  if (depth == DEEPEST && (type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT)) {
    report(reader, mark, "lists and maps are nested too deep for a deck");
    skip_node(reader);
    node->broken = true;
    return;
  }
  switch (type) {
  case YAML_SCALAR_EVENT:
    node->kind = DECK_SCALAR;
    node->text = mem_strdup((const char *)reader->event.data.scalar.value);
    node->quoted = reader->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (strlen(node->text) != reader->event.data.scalar.length) {
      report(reader, mark, "a value may not contain a zero byte");
      refused = true;
    }
    break;
  case YAML_SEQUENCE_START_EVENT: read_list(reader, depth, node); break;
  case YAML_MAPPING_START_EVENT: read_map(reader, depth, node); break;
  case YAML_ALIAS_EVENT:
    report(reader, mark, "aliases (*name) are not allowed in a deck");
    refused = true;
    break;
  default: refused = true; break;
  }
  node->broken |= refused;
}

static void read_document(struct reader *reader, struct deck_node *node, size_t *end) {
  node->broken = true;
  if (advance(reader) != YAML_STREAM_START_EVENT || advance(reader) != YAML_DOCUMENT_START_EVENT) return;
  if (advance(reader) == YAML_NO_EVENT) return;
  node->broken = false;
  read_node(reader, 0, node);
  if (end) *end = reader->event.end_mark.index;
  if (advance(reader) != YAML_DOCUMENT_END_EVENT) return;
  if (advance(reader) == YAML_DOCUMENT_START_EVENT)
    report(reader, reader->event.start_mark, "a second document begins: a deck is one document");
}

void deck_node_parse(const char *text, size_t bytes, const char *file, const char *where, struct deck_node *node,
                     size_t *end, struct mistakes *mistakes) {
  struct reader reader = {.file = file, .where = where, .mistakes = mistakes};
  *node = (struct deck_node){0};
  if (end) *end = 0;
  if (!yaml_parser_initialize(&reader.parser)) {
    mistakes_add(mistakes, "%s: out of memory", file ? file : where);
    return;
  }
  yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, bytes);
  read_document(&reader, node, end);
  if (reader.event.type != YAML_NO_EVENT) yaml_event_delete(&reader.event);
  yaml_parser_delete(&reader.parser);
}

const struct deck_node *deck_node_find(const struct deck_node *map, const char *key) {
  if (map->kind != DECK_MAP) return NULL;
  for (int64_t i = 0; i < map->n; i++)
    if (!map->keys[i].broken && map->keys[i].kind == DECK_SCALAR && !strcmp(map->keys[i].text, key))
      return &map->items[i];
  return NULL;
}

void deck_node_fini(struct deck_node *node) {
  for (int64_t i = 0; i < node->n; i++) {
    if (node->keys) deck_node_fini(&node->keys[i]);
    deck_node_fini(&node->items[i]);
  }
  mem_free(node->text);
  mem_free(node->keys);
  mem_free(node->items);
  *node = (struct deck_node){0};
}
