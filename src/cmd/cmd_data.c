#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "data/text.h"
#include "data/tokenizer.h"
#include "data/tokens.h"

#define SECONDS_BETWEEN_LINES 5

struct data_options {
  const char *output, *vocabulary;
  struct text_request request;
  bool json;
};

/* ---- build ---- */

/* Where a long build is. */
struct build {
  int i_file, n_files;
  double start, last;
};

static int print_progress(void *context, const struct text_progress *so_far) {
  struct build *build = context;
  double now = clock_now();
  if (now - build->last < SECONDS_BETWEEN_LINES) return STATUS_OK;
  build->last = now;
  double mib = (double)so_far->bytes / (1 << 20);
  log_line("file %d of %d, %.0f MiB of text, %.0f MiB/s", build->i_file + 1, build->n_files, mib,
           mib / (now - build->start));
  return STATUS_OK;
}

static void print_built(const struct data_options *options, const char *type, int64_t documents, int64_t tokens,
                        const struct text_progress *read) {
  if (options->json) {
    json_t *root = json_pack("{s:o, s:I, s:I, s:s, s:i, s:I, s:I, s:I}", "prefix", json_make_text(options->output),
                             "documents", (json_int_t)documents, "tokens", (json_int_t)tokens, "type", type,
                             "vocabulary", TOKENIZER_VOCAB, "text_bytes", (json_int_t)read->bytes, "skipped_empty",
                             (json_int_t)read->empty, "skipped_bad", (json_int_t)read->bad);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
    return;
  }
  if (read->empty > 0)
    log_line("%" PRId64 " empty %s skipped", read->empty, read->empty == 1 ? "document" : "documents");
  if (read->bad > 0) log_line("%" PRId64 " bad %s skipped", read->bad, read->bad == 1 ? "line" : "lines");
  log_line("%s.bin, %s.idx: %" PRId64 " %s, %" PRId64 " tokens (%s), vocabulary %d", options->output, options->output,
           documents, documents == 1 ? "document" : "documents", tokens, type, TOKENIZER_VOCAB);
}

static int write_files(const struct data_options *options, int n, char **files, struct tokens_writer *writer,
                       struct text_progress *read) {
  struct build build = {.n_files = n, .start = clock_now(), .last = clock_now()};
  int status = STATUS_OK;
  if (!options->json) {
    read->progress = print_progress;
    read->context = &build;
  }
  for (int i = 0; i < n && !status; i++) {
    build.i_file = i;
    status = text_write(files[i], &options->request, writer, read);
  }
  read->progress = NULL; /* what it points to ends here */
  read->context = NULL;
  if (!status && tokens_write_count_documents(writer) == 0)
    return error_raise(STATUS_MISTAKE, "the given files hold no text: no token file was written");
  return status;
}

static int check_request(const struct data_options *options, int n, char **files) {
  int n_standard = 0;
  if (!options->output) return error_raise(STATUS_MISTAKE, "penstock data build needs --output PREFIX");
  if (n == 0) return error_raise(STATUS_MISTAKE, "penstock data build needs text files to read (- is standard input)");
  for (int i = 0; i < n; i++) n_standard += !strcmp(files[i], "-");
  if (n_standard > 1) return error_raise(STATUS_MISTAKE, "standard input (-) is named %d times", n_standard);
  const char *format = options->request.format;
  if (format && !text_has_format(format))
    return error_raise(
        STATUS_MISTAKE,
        "--format %s: allowed are text (a file is a document), jsonl (a line is a document, its key "
        "'text') and bytes (as text, whatever the bytes); without it files are jsonl or text as their name "
        "or their first line says",
        format);
  return STATUS_OK;
}

static int build(const struct data_options *options, int n, char **files) {
  int status = check_request(options, n, files);
  if (status) return status;
  struct tokens_writer *writer;
  struct text_progress read = {0};
  status = tokens_write_begin(options->output, TOKENIZER_VOCAB, &writer);
  if (!status) status = write_files(options, n, files, writer, &read);
  if (status) {
    tokens_write_abandon(&writer);
    return status;
  }
  const char *type = tokens_write_get_type_name(writer);
  int64_t documents = tokens_write_count_documents(writer), tokens = tokens_write_count_tokens(writer);
  status = tokens_write_end(&writer);
  if (!status) print_built(options, type, documents, tokens, &read);
  return status;
}

/* ---- check ---- */

/* The faults of one file, as text lines or for JSON. */
struct findings {
  json_t *list; /* NULL: print */
  int64_t refused;
};

static const char *const fault_names[TOKENS_FAULT_COUNT] = {
#define X(name, text, refused) text,
    TOKENS_FAULTS(X)
#undef X
};

static void take_fault(void *context, enum tokens_fault fault, bool refused, int64_t n, const char *text) {
  struct findings *findings = context;
  (void)n;
  findings->refused += refused;
  if (findings->list)
    json_array_append_new(findings->list, json_pack("{s:s, s:b, s:o}", "fault", fault_names[fault], "refused", refused,
                                                    "text", json_make_text(text)));
  else
    log_line("%s (%s)", text, refused ? "refused" : "tolerated");
}

static void print_file(const struct tokens *file, const struct tokens_scan *scan, int64_t faults,
                       const struct findings *findings) {
  char ids[64] = "";
  if (scan->least <= scan->most) snprintf(ids, sizeof ids, ", ids %" PRId64 " to %" PRId64, scan->least, scan->most);
  if (faults > 0)
    log_line("%s: %" PRId64 " %s; training %s", file->prefix, faults, faults == 1 ? "fault" : "faults",
             findings->refused ? "refuses this file" : "reads this file with a warning");
  if (!findings->refused)
    log_line("%s: %s%" PRId64 " %s (%" PRId64 " empty, longest %" PRId64 " tokens), %" PRId64 " tokens (%s)%s",
             file->prefix, faults ? "" : "no fault; ", file->n_documents,
             file->n_documents == 1 ? "document" : "documents", file->n_empty_documents, file->longest, file->n_tokens,
             tokens_get_type_name(file->type), ids);
}

static json_t *file_to_json(const struct tokens *file, const struct tokens_scan *scan, json_t *faults, bool refused) {
  json_t *object =
      json_pack("{s:o, s:b, s:o}", "prefix", json_make_text(file->prefix), "refused", refused, "faults", faults);
  if (refused) return object;
  json_t *counts = json_pack("{s:I, s:I, s:I, s:I, s:s}", "documents", (json_int_t)file->n_documents, "empty_documents",
                             (json_int_t)file->n_empty_documents, "longest_document", (json_int_t)file->longest,
                             "tokens", (json_int_t)file->n_tokens, "type", tokens_get_type_name(file->type));
  if (scan->least <= scan->most) {
    json_object_set_new(counts, "least_id", json_integer(scan->least));
    json_object_set_new(counts, "most_id", json_integer(scan->most));
  }
  json_object_update(object, counts);
  json_decref(counts);
  return object;
}

static int parse_vocabulary(const char *text, int64_t *vocab) {
  char *end = NULL;
  *vocab = 0;
  if (!text) return STATUS_OK;
  *vocab = strtoll(text, &end, 10);
  if (end == text || *end || *vocab < 1 || *vocab > INT32_MAX)
    return error_raise(STATUS_MISTAKE, "--vocabulary %s: allowed is a whole number from 1 to %d", text, INT32_MAX);
  return STATUS_OK;
}

static int check(const struct data_options *options, int n, char **prefixes) {
  int64_t vocab;
  if (n == 0) return error_raise(STATUS_MISTAKE, "penstock data check needs prefixes of token files");
  int status = parse_vocabulary(options->vocabulary, &vocab);
  if (status) return status;
  json_t *all = options->json ? json_array() : NULL;
  int n_bad = 0;
  for (int i = 0; i < n; i++) {
    struct findings findings = {.list = all ? json_array() : NULL};
    struct tokens_scan scan;
    struct tokens *file;
    int64_t faults = tokens_check(prefixes[i], vocab, take_fault, &findings, &file, &scan);
    n_bad += faults > 0;
    if (all)
      json_array_append_new(all, file_to_json(file, &scan, findings.list, findings.refused > 0));
    else
      print_file(file, &scan, faults, &findings);
    tokens_close(&file);
  }
  if (all) {
    json_t *root = json_pack("{s:o}", "files", all);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
  }
  if (n_bad > 0) return error_raise(STATUS_MISTAKE, "%d of %d token files have faults", n_bad, n);
  return STATUS_OK;
}

int cmd_data(int argc, char **argv) {
  struct data_options options = {.request = {.key = "text"}};
  const struct option_spec specs[] = {
      {"--json", OPTION_FLAG, NULL, "prints one JSON object on standard output", &options.json},
      {"build", OPTION_WORD, NULL, NULL, NULL},
      {"--output", OPTION_TEXT, "PREFIX", "writes PREFIX.bin and PREFIX.idx", &options.output},
      {"--format", OPTION_TEXT, "text|jsonl|bytes", "of all files (default: by name and first line)",
       &options.request.format},
      {"--key", OPTION_TEXT, "NAME", "the key of JSON lines that holds the text (text)", &options.request.key},
      {"--skip-bad", OPTION_FLAG, NULL, "passes over JSON lines without a text, and counts them",
       &options.request.skip_bad},
      {"check", OPTION_WORD, NULL, NULL, NULL},
      {"--vocabulary", OPTION_TEXT, "N", "token ids must be below N", &options.vocabulary},
      {0}};
  bool done;
  int status = options_parse(&argc, argv, specs, &done);
  if (status || done) return status;
  signal(SIGXFSZ, SIG_IGN); /* a file size limit is then an error of the write, with a message */
  if (argc > 1 && !strcmp(argv[1], "build")) return build(&options, argc - 2, argv + 2);
  if (argc > 1 && !strcmp(argv[1], "check")) return check(&options, argc - 2, argv + 2);
  return error_raise(STATUS_MISTAKE, "penstock data %s: use penstock data build or penstock data check",
                     argc > 1 ? argv[1] : "needs one more word");
}
