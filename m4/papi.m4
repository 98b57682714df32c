# PS_PAPI: hardware counters. Whether a counter may be read is known at run time only.
AC_DEFUN([PS_PAPI],
[PS_THREE_STATES([papi], [hardware counters through PAPI])
ps_papi="no"
AS_IF([test $with_papi != no],
  [PS_FIND_LIBRARY([PAPI], [PAPI], [papi -lpapi], [AC_LANG_PROGRAM([[#include <papi.h>]],
     [[return PAPI_library_init(PAPI_VER_CURRENT) != PAPI_VER_CURRENT;]])])
   AS_IF([test $ps_ok = yes], [ps_papi="found ($ps_where)" PAPI_CFLAGS="$PAPI_CFLAGS -DHAVE_PAPI"],
     [test $with_papi = yes], [AC_MSG_ERROR([--with-papi=yes, but PAPI does not link (Debian and Ubuntu: libpapi-dev)])],
     [ps_papi="not found"])])])
