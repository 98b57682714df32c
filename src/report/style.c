#include "report/style.h"

#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "report/timeline.h"

/* Colours of other things than kinds of nodes: name, colour in a light theme, in a dark one. */
static const struct colour {
  const char *name, *light, *dark;
} colours[] = {{"text", "#222222", "#dddddd"},    {"quiet", "#666666", "#a0a0a0"},  {"page", "#ffffff", "#16181c"},
               {"row", "#f1f1f1", "#24272d"},     {"grid", "#d0d0d0", "#3a3e46"},   {"line", "#888888", "#777777"},
               {"level", "#9db8d2", "#3f5f80"},   {"edge", "#47698c", "#86abcf"},   {"alarm", "#c00000", "#ff6b5e"},
               {"busy", "#4c86c6", "#4c86c6"},    {"bubble", "#d8d8d8", "#454a53"}, {"wait", "#e07050", "#e07050"},
               {"offload", "#8a5fb0", "#a57fd0"}, {"other", "#777777", "#8a8f98"},  {"first", "#2a6cb0", "#6fb1f2"},
               {"band", "#bcd3ea", "#2c4763"},    {"second", "#c0661a", "#f0a050"}, {"bar", "#000000", "#000000"}};

static const char rules[] =
    "text{fill:$text}.quiet{fill:$quiet}.head{font-weight:bold;font-size:13px}"
    ".number{fill:$bar;font-size:9px;text-anchor:middle;pointer-events:none}.label{text-anchor:end}"
    ".tick{text-anchor:middle}.row{fill:$row}.paper{fill:$page}"
    ".level{fill:$level;stroke:$edge}.limit{stroke:$alarm;stroke-dasharray:5 3;fill:none}"
    ".bar{stroke:$bar;stroke-opacity:.3;stroke-width:.5}"
    ".bar[data-path],.onpath{stroke:$alarm;stroke-opacity:1;stroke-width:1.5}.onpath{fill:none}"
    ".level,.limit,.grid,.bar,.onpath,.curve{vector-effect:non-scaling-stroke}"
    ".grid{stroke:$grid;stroke-width:.7;fill:none}.frame{stroke:$line;stroke-width:1;fill:none}"
    ".curve{fill:none;stroke-width:1.5;stroke-linejoin:round}.band{fill:$band}"
    ".c1{stroke:$first}.c2{stroke:$second}.d1{fill:$first}.d2{fill:$second}"
    ".busy{fill:$busy}.bubble{fill:$bubble}.wait{fill:$wait}.offload{fill:$offload}.other{fill:$other}";

void style_write_variables(FILE *out) {
  enum { N = sizeof colours / sizeof *colours };
  fputs(":root{color-scheme:light dark", out);
  for (int i = 0; i < N; i++) fprintf(out, ";--%s:%s", colours[i].name, colours[i].light);
  fputs("}@media (prefers-color-scheme:dark){:root{", out);
  for (int i = 0; i < N; i++) fprintf(out, "%s--%s:%s", i ? ";" : "", colours[i].name, colours[i].dark);
  fputs("}}", out);
}

static const struct colour *find_colour(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
    if (strlen(colours[i].name) == length && !strncmp(colours[i].name, name, length)) return &colours[i];
  return NULL;
}

/* A kind's colour for a shade: shade 0 as it is, the last one far towards white. */
static void write_shade(FILE *out, const char *colour, int shade) {
  long rgb = strtol(colour + 1, NULL, 16), mixed = 0;
  for (int at = 16; at >= 0; at -= 8) {
    long part = rgb >> at & 255;
    mixed = mixed << 8 | (part + (255 - part) * 11 * shade / (20 * (TIMELINE_SHADES - 1)));
  }
  fprintf(out, "#%06lx", mixed);
}

void style_write_rules(FILE *out, bool literal) {
  for (int k = 0; k < NODE_KIND_COUNT; k++)
    fprintf(out, ".%s{fill:%s}", node_kind_get_name((enum node_kind)k), node_kind_get_colour((enum node_kind)k));
  static const enum node_kind passes[] = {NODE_F, NODE_R, NODE_B, NODE_I, NODE_W};
  for (size_t k = 0; k < sizeof passes / sizeof *passes; k++)
    for (int shade = 1; shade < TIMELINE_SHADES; shade++) {
      fprintf(out, ".%s.s%d{fill:", node_kind_get_name(passes[k]), shade);
      write_shade(out, node_kind_get_colour(passes[k]), shade);
      fputc('}', out);
    }
  for (const char *at = rules; *at;) {
    size_t plain = strcspn(at, "$");
    fwrite(at, 1, plain, out);
    at += plain;
    if (!*at) break;
    size_t length = strspn(++at, "abcdefghijklmnopqrstuvwxyz");
    const struct colour *colour = find_colour(at, length);
    if (literal && colour)
      fputs(colour->light, out);
    else
      fprintf(out, "var(--%.*s)", (int)length, at);
    at += length;
  }
}

void style_write_class(FILE *out, int kind, int shade) {
  fputs(node_kind_get_name((enum node_kind)kind), out);
  if (shade > 0) fprintf(out, " s%d", shade);
}
