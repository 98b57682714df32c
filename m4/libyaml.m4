# PS_LIBYAML: reads input decks.
AC_DEFUN([PS_LIBYAML],
[PS_REQUIRE_LIBRARY([YAML], [libyaml], [yaml-0.1 -lyaml], [AC_LANG_PROGRAM([[#include <yaml.h>]],
  [[yaml_parser_t parser; return !yaml_parser_initialize(&parser);]])], [libyaml-dev])])
