/* Reading and writing the text. */
#include "plan/plan_csv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* Words that can follow the number of the stage. */
enum word_use { WORD_PASS, WORD_DROPPED, WORD_REPLACED };

static const struct word {
  const char *text;
  enum word_use use;
  uint8_t kind; /* of a pass */
} words[] = {
    {"F", WORD_PASS, NODE_F},         {"B", WORD_PASS, NODE_B},
    {"I", WORD_PASS, NODE_I},         {"W", WORD_PASS, NODE_W},
    {"UNSHARD", WORD_DROPPED, 0},     {"RESHARD", WORD_DROPPED, 0},
    {"REDUCE_GRAD", WORD_DROPPED, 0}, {"WAIT_REDUCE_GRAD", WORD_DROPPED, 0},
    {"SEND_F", WORD_REPLACED, 0},     {"RECV_F", WORD_REPLACED, 0},
    {"SEND_B", WORD_REPLACED, 0},     {"RECV_B", WORD_REPLACED, 0},
    {"R", WORD_REPLACED, 0},
};

enum { N_WORDS = sizeof words / sizeof words[0], MAX_NUMBER = 1000000000, SHOWN = 60 };

/* A piece of the text, not ended by 0. */
struct piece {
  const char *text;
  size_t length;
};

struct reader {
  const char *name;
  struct plan_csv *csv;
  int32_t cell;
  int64_t max_actions, max_ranks;
  bool met[N_WORDS];
};

static int refuse(const struct reader *reader, struct piece piece, const char *reason) {
  return error_raise(STATUS_MISTAKE, "%s: row %d, cell %d, action '%.*s%s': %s", reader->name,
                     (int)reader->csv->n_ranks, (int)reader->cell, piece.length < SHOWN ? (int)piece.length : SHOWN,
                     piece.text, piece.length > SHOWN ? "..." : "", reason);
}

static struct piece trim(struct piece piece) {
  while (piece.length && isspace((unsigned char)piece.text[0])) piece.text++, piece.length--;
  while (piece.length && isspace((unsigned char)piece.text[piece.length - 1])) piece.length--;
  return piece;
}

/* Blanks and a pair of quotation marks around a cell mean nothing. */
static struct piece trim_cell(struct piece piece) {
  piece = trim(piece);
  if (piece.length < 2 || piece.text[0] != '"' || piece.text[piece.length - 1] != '"') return piece;
  return trim((struct piece){piece.text + 1, piece.length - 2});
}

/* Takes up to the separator, or all, off the front of `rest`; false when nothing was left. */
static bool take_piece(struct piece *rest, char separator, struct piece *piece) {
  if (!rest->text) return false;
  const char *end = rest->length ? memchr(rest->text, separator, rest->length) : NULL;
  *piece = *rest;
  if (!end) {
    rest->text = NULL;
    return true;
  }
  piece->length = (size_t)(end - rest->text);
  rest->text = end + 1;
  rest->length -= piece->length + 1;
  return true;
}

/* Takes digits off the front; -1 when there are none or too many. */
static int32_t take_number(struct piece *piece) {
  int64_t value = -1;
  while (piece->length && isdigit((unsigned char)piece->text[0]) && value < MAX_NUMBER) {
    value = (value < 0 ? 0 : 10 * value) + (piece->text[0] - '0');
    piece->text++, piece->length--;
  }
  return value < MAX_NUMBER ? (int32_t)value : -1;
}

/* The word is all that is neither a digit in front nor behind. */
static int take_word(struct piece *piece) {
  size_t length = piece->length;
  while (length && isdigit((unsigned char)piece->text[length - 1])) length--;
  for (int k = 0; k < N_WORDS; k++)
    if (strlen(words[k].text) == length && !memcmp(words[k].text, piece->text, length)) {
      piece->text += length;
      piece->length -= length;
      return k;
    }
  return -1;
}

static void add_action(struct reader *reader, struct plan_action action) {
  struct plan_csv *csv = reader->csv;
  int64_t n = csv->offset[csv->n_ranks]++;
  if (n == reader->max_actions) {
    reader->max_actions = n ? 2 * n : 1024;
    csv->actions = mem_resize(csv->actions, sizeof *csv->actions * (size_t)reader->max_actions);
  }
  csv->actions[n] = (struct plan_csv_action){action, reader->cell};
  if (action.stage >= csv->n_stages) csv->n_stages = action.stage + 1;
  if (action.micro >= csv->n_micro) csv->n_micro = action.micro + 1;
}

static int read_action(struct reader *reader, struct piece whole) {
  struct piece piece = whole;
  int32_t stage = take_number(&piece);
  if (stage < 0) return refuse(reader, whole, "it must start with the number of a stage");
  int word = take_word(&piece);
  if (word < 0)
    return refuse(reader, whole,
                  "there is no such kind of action (known: F, B, I, W, and OVERLAP_F_B of these; UNSHARD, RESHARD, "
                  "REDUCE_GRAD, WAIT_REDUCE_GRAD, SEND_F, RECV_F, SEND_B, RECV_B and R are left out)");
  reader->met[word] = true;
  if (words[word].use != WORD_PASS) return STATUS_OK;
  int32_t micro = take_number(&piece);
  if (micro < 0 || piece.length) return refuse(reader, whole, "it must end with the number of a micro-batch");
  add_action(reader, (struct plan_action){.kind = words[word].kind, .stage = stage, .micro = micro});
  return STATUS_OK;
}

static int read_overlap(struct reader *reader, struct piece whole) {
  static const char end[] = ")OVERLAP_F_B";
  size_t tail = sizeof end - 1;
  if (whole.length < 1 + tail || memcmp(whole.text + whole.length - tail, end, tail))
    return refuse(reader, whole, "what begins with '(' must end with ')OVERLAP_F_B'");
  struct piece rest = {whole.text + 1, whole.length - 1 - tail}, part;
  while (take_piece(&rest, ';', &part)) {
    part = trim(part);
    if (!part.length) return refuse(reader, whole, "one of its parts is empty");
    int status = read_action(reader, part);
    if (status) return status;
  }
  return STATUS_OK;
}

static int read_row(struct reader *reader, struct piece row) {
  struct plan_csv *csv = reader->csv;
  struct piece cell;
  if (csv->n_ranks == reader->max_ranks) {
    reader->max_ranks *= 2;
    csv->offset = mem_resize(csv->offset, sizeof *csv->offset * (size_t)(reader->max_ranks + 1));
  }
  csv->n_ranks++;
  csv->offset[csv->n_ranks] = csv->offset[csv->n_ranks - 1];
  for (reader->cell = 1; take_piece(&row, ',', &cell); reader->cell++) {
    cell = trim_cell(cell);
    if (!cell.length) continue;
    int status = cell.text[0] == '(' ? read_overlap(reader, cell) : read_action(reader, cell);
    if (status) return status;
  }
  if (csv->offset[csv->n_ranks] > csv->offset[csv->n_ranks - 1]) return STATUS_OK;
  return error_raise(STATUS_MISTAKE, "%s: row %d has no action: every rank must hold a stage", reader->name,
                     (int)csv->n_ranks);
}

static char *list_words(const struct reader *reader, enum word_use use) {
  char *list = mem_strdup("");
  for (int k = 0; k < N_WORDS; k++) {
    if (!reader->met[k] || words[k].use != use) continue;
    char *longer = mem_format("%s%s%s", list, *list ? ", " : "", words[k].text);
    mem_free(list);
    list = longer;
  }
  return list;
}

int plan_csv_parse(const char *text, const char *name, struct plan_csv **csv) {
  struct reader reader = {.name = name, .csv = MEM_NEW(struct plan_csv, 1), .max_ranks = 64};
  reader.csv->offset = MEM_NEW(int64_t, reader.max_ranks + 1);
  *csv = NULL;
  if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3; /* a byte order mark */
  struct piece rest = trim((struct piece){text, strlen(text)}), row;
  /* Blanks before the first row could be those of its first cells: commas are none. */
  int status = rest.length ? STATUS_OK : error_raise(STATUS_MISTAKE, "%s: it has no rows", name);
  while (!status && take_piece(&rest, '\n', &row)) status = read_row(&reader, row);
  if (status) {
    plan_csv_destroy(&reader.csv);
    return status;
  }
  reader.csv->dropped = list_words(&reader, WORD_DROPPED);
  reader.csv->replaced = list_words(&reader, WORD_REPLACED);
  *csv = reader.csv;
  return STATUS_OK;
}

void plan_csv_destroy(struct plan_csv **csv) {
  struct plan_csv *c = *csv;
  if (!c) return;
  mem_free(c->offset);
  mem_free(c->actions);
  mem_free(c->rank_of);
  mem_free(c->dropped);
  mem_free(c->replaced);
  mem_free(c);
  *csv = NULL;
}

/* Of a pass in parts the first recomputation stands for all, and the last backward. rebuilt[n_stages * n_micro] are the
 * passes of which a recomputation was there. */
static bool stands_for_pass(const struct plan *plan, int64_t k, bool *rebuilt) {
  const struct plan_action *a = &plan->order[k];
  if (plan->n_parts == 0 || plan->parts[k].n_layers == 0) return true;
  if (a->kind == NODE_B) return plan->parts[k].first_layer == plan->stages[a->stage].first_layer;
  bool *seen = &rebuilt[(int64_t)a->stage * plan->n_micro + a->micro], first = !*seen;
  *seen = true;
  return first;
}

char *plan_csv_format(const struct plan *plan) {
  enum { WIDEST = 2 * 11 + 4 };
  int64_t n_actions = plan->order_offset[plan->n_ranks];
  size_t size = (size_t)n_actions * WIDEST + (size_t)plan->n_ranks + 1, n = 0;
  char *text = mem_alloc(size);
  bool *rebuilt = MEM_NEW(bool, (int64_t)plan->n_stages * plan->n_micro);
  for (int32_t r = 0; r < plan->n_ranks; r++) {
    for (int64_t k = plan->order_offset[r]; k < plan->order_offset[r + 1]; k++) {
      const struct plan_action *a = &plan->order[k];
      if (!stands_for_pass(plan, k, rebuilt)) continue;
      n += (size_t)snprintf(text + n, size - n, "%s%d%s%d", k > plan->order_offset[r] ? "," : "", (int)a->stage,
                            node_kind_get_name(a->kind), (int)a->micro);
    }
    text[n++] = '\n';
  }
  text[n] = 0;
  mem_free(rebuilt);
  return mem_resize(text, n + 1);
}
