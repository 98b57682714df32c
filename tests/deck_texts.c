#include "deck_texts.h"

int parse_text(const char *yaml, const char *override, struct params *params) {
  char *text = yaml ? deck_wrap_text("t.yml", yaml) : NULL;
  int status = params_parse(text, &override, override ? 1 : 0, params);
  mem_free(text);
  return status;
}

void check_refused(const char *yaml, const char *override, const char *wanted) {
  struct params params;
  error_clear();
  int status = parse_text(yaml, override, &params);
  const char *what = override ? override : yaml;
  T_CHECK(status == STATUS_MISTAKE, "%s gives status %d", what, status);
  T_CHECK(strstr(error_text(), wanted), "%s: not '%s' but:\n%s", what, wanted, error_text());
  if (!status) params_fini(&params);
}

struct params parse_good(const char *yaml, const char *override) {
  struct params params;
  int status = parse_text(yaml, override, &params);
  T_CHECK(!status, "%s: %s", override ? override : yaml, error_text());
  return params;
}

void write_file(const char *path, const char *text) {
  FILE *out = fopen(path, "w");
  if (!out) {
    perror(path);
    exit(1);
  }
  fputs(text, out);
  fclose(out);
}
