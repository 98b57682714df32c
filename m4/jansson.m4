# PS_JANSSON: reads config.json and writes --json.
AC_DEFUN([PS_JANSSON],
[PS_REQUIRE_LIBRARY([JANSSON], [jansson], [jansson -ljansson], [AC_LANG_PROGRAM([[#include <jansson.h>]],
  [[json_decref(json_object());]])], [libjansson-dev])])
