# PS_XXHASH: checksums (XXH3, xxHash 0.8 or later).
AC_DEFUN([PS_XXHASH],
[PS_REQUIRE_LIBRARY([XXHASH], [xxHash], [libxxhash -lxxhash], [AC_LANG_PROGRAM([[#include <xxhash.h>]],
  [[return XXH3_64bits("", 0) == 0;]])], [libxxhash-dev])])
