#include "input/params_print.h"

#include "base/mem.h"
#include "input/params_idle.h"
#include <string.h>

enum { WIDTH = 110 };

/* Prints words up to WIDTH columns a line, each line with the prefix. */
static void print_wrapped(FILE *out, const char *prefix, const char *text) {
  int column = 0;
  while (*text) {
    int n = (int)strcspn(text, " ");
    if (column && column + 1 + n > WIDTH) {
      fputc('\n', out);
      column = 0;
    }
    column += fprintf(out, "%s%.*s", column ? " " : prefix, n, text);
    text += n;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

/* "whole number, 1 or more. Unit: steps."; owned by the caller. */
static char *describe(const struct param_row *row) {
  char *allowed = param_describe(row);
  bool choice = row->type == PARAM_CHOICE;
  char *text = mem_format("%s%s%s%s", choice ? "one of " : "", allowed, row->unit[0] ? "; unit: " : "", row->unit);
  mem_free(allowed);
  return text;
}

void params_print_help(FILE *out, const struct param_row *row) {
  print_wrapped(out, "  # ", row->help);
  char *text = describe(row);
  char *line = mem_format("(%s%s%s)", text, row->family[0] ? "; of model_type " : "", row->family);
  print_wrapped(out, "  # ", line);
  mem_free(line);
  mem_free(text);
}

static bool begins_section(int id) { return id == 0 || strcmp(param_rows[id].section, param_rows[id - 1].section); }

static const char *find_section_help(const char *name) {
  const struct param_section *section = param_sections;
  while (strcmp(section->name, name)) section++;
  return section->help;
}

void params_print_reference(FILE *out) {
  fprintf(out, "# Every parameter, with its default. Keys without one are commented out, with what happens then.\n"
               "# Made by `penstock deck --reference`; keep in a deck only what differs.\n");
  for (int id = 0; id < PARAM_COUNT; id++) {
    const struct param_row *row = &param_rows[id];
    if (begins_section(id)) {
      fputc('\n', out);
      print_wrapped(out, "# ", find_section_help(row->section));
      fprintf(out, "%s:\n", row->section);
    }
    params_print_help(out, row);
    fprintf(out, param_has_standard(row) ? "  %s: %s\n" : "  # %s: %s\n", row->key, row->standard);
  }
}

/* Prints the default, without the brackets of a description. */
static void print_standard(FILE *out, const struct param_row *row) {
  if (param_has_standard(row))
    fprintf(out, "`%s`", row->standard);
  else
    fprintf(out, "%.*s", (int)strlen(row->standard) - 2, row->standard + 1);
}

static void print_choices(FILE *out, const struct param_row *row) {
  if (!param_has_choices(row)) return;
  for (const struct param_choice *choice = param_choices; choice->set; choice++)
    if (!strcmp(choice->set, row->range) && choice->value >= 0)
      fprintf(out, "  - `%s`: %s\n", choice->text, choice->help);
}

static const char *get_bond(const struct param_row *row) {
  if (row->bond == PARAM_BY_RANK) return "may change, and differ between ranks";
  if (row->bond == PARAM_MAY_CHANGE) return "may change";
  return row->type == PARAM_MIX || row->type == PARAM_DECK_PATH ? "fixed: the content, not the place of files"
                                                                : "fixed";
}

static void print_manual_key(FILE *out, const struct param_row *row) {
  char *text = describe(row);
  fprintf(out, "\n**`%s.%s`** — %s\n\n- %s%s%s%s\n", row->section, row->key, row->help,
          row->type == PARAM_CHOICE ? "one of" : text, row->type == PARAM_CHOICE ? ":" : "",
          row->family[0] ? "; of model_type " : "", row->family);
  print_choices(out, row);
  fprintf(out, "- default: ");
  print_standard(out, row);
  const char *condition = params_get_condition((enum param_id)(row - param_rows));
  if (condition) fprintf(out, "\n- acts only %s", condition);
  fprintf(out, "\n- in a run that goes on: %s\n", get_bond(row));
  mem_free(text);
}

void params_print_manual(FILE *out) {
  fprintf(
      out,
      "# Parameters\n\n"
      "Made by `penstock deck --manual` from the program's own table. The deck's form is told in [decks](decks.md).\n\n"
      "Sizes are a number and one of B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (of 1024), rounded down "
      "to\n"
      "whole bytes: every size that the program prints can be typed. Times are a number and one of ms, s, min, h, d, "
      "or\n"
      "hours:minutes:seconds, with days and a dash before it if need be. A bare number is refused where a unit is "
      "needed,\n"
      "but for 0. `-D section.key=value` sets any key from the command line; the value is written as in a deck.\n");
  for (int id = 0; id < PARAM_COUNT; id++) {
    const struct param_row *row = &param_rows[id];
    if (begins_section(id)) fprintf(out, "\n## %s\n\n%s\n", row->section, find_section_help(row->section));
    print_manual_key(out, row);
  }
}

/* Text with the characters that roff takes as its own escaped. */
static void print_roff(FILE *out, const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (; *text; text++) {
    if (*text == '\\')
      fputs("\\e", out);
    else if (*text == '-')
      fputs("\\-", out);
    else if (*text != '`')
      fputc(*text, out);
  }
  fputc('\n', out);
}

void params_print_man(FILE *out) {
  fprintf(out, ".SH PARAMETERS\n");
  for (int id = 0; id < PARAM_COUNT; id++) {
    const struct param_row *row = &param_rows[id];
    if (begins_section(id)) {
      fprintf(out, ".SS %s\n", row->section);
      print_roff(out, find_section_help(row->section));
    }
    char *text = describe(row), *line = mem_format("(%s; default: %s)", text, row->standard);
    fprintf(out, ".TP\n.B %s.%s\n", row->section, row->key);
    print_roff(out, row->help);
    print_roff(out, line);
    mem_free(line);
    mem_free(text);
  }
}
