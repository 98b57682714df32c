# How every dependency is looked for: compile and link a program that calls what Penstock calls. Nothing is ever run, and
# no wrapper's output is parsed.

# PS_PKG_CONFIG: finds pkg-config; a machine without it is fine.
AC_DEFUN([PS_PKG_CONFIG],
[AC_ARG_VAR([PKG_CONFIG], [pkg-config program])
AC_ARG_VAR([PKG_CONFIG_PATH], [where pkg-config looks first])
AC_PATH_PROGS([PKG_CONFIG], [pkg-config pkgconf])])

# PS_TRY_LINK(CFLAGS, LIBS, PROGRAM): sets ps_ok to yes or no.
AC_DEFUN([PS_TRY_LINK],
[ps_save_CFLAGS=$CFLAGS
ps_save_LIBS=$LIBS
CFLAGS="$CFLAGS $1"
LIBS="$2 $LIBS"
AC_LINK_IFELSE([$3], [ps_ok=yes], [ps_ok=no])
CFLAGS=$ps_save_CFLAGS
LIBS=$ps_save_LIBS])

# PS_FIND_LIBRARY(VAR, NAME, CANDIDATES, PROGRAM): the first candidate with which PROGRAM compiles and links. A candidate
# is the name of a pkg-config module or "-l..." for the bare library. VAR_CFLAGS and VAR_LIBS of the user come before all
# of them. Sets ps_ok, ps_where (what was taken), VAR_CFLAGS and VAR_LIBS.
AC_DEFUN([PS_FIND_LIBRARY],
[AC_ARG_VAR([$1_CFLAGS], [compiler flags for $2, before any search])
AC_ARG_VAR([$1_LIBS], [linker flags for $2, before any search])
AC_MSG_CHECKING([for $2])
ps_ok=no
ps_candidates="$3"
AS_IF([test -n "$$1_CFLAGS$$1_LIBS"], [ps_candidates="$1_LIBS"])
for ps_where in $ps_candidates; do
  AS_CASE([$ps_where],
    [$1_LIBS], [ps_cflags=$$1_CFLAGS ps_libs=$$1_LIBS],
    [-l*], [ps_cflags= ps_libs=$ps_where],
    [test -n "$PKG_CONFIG" && $PKG_CONFIG --exists $ps_where || continue
     ps_cflags=`$PKG_CONFIG --cflags $ps_where` ps_libs=`$PKG_CONFIG --libs $ps_where`])
  PS_TRY_LINK([$ps_cflags], [$ps_libs], [$4])
  AS_IF([test $ps_ok = yes], [break])
done
AS_IF([test $ps_ok = yes],
  [$1_CFLAGS=$ps_cflags
   $1_LIBS=$ps_libs
   AC_MSG_RESULT([yes ($ps_where)])],
  [AC_MSG_RESULT([no])])])

# PS_REQUIRE_LIBRARY(VAR, NAME, CANDIDATES, PROGRAM, PACKAGE): the same, and an error where there is none.
AC_DEFUN([PS_REQUIRE_LIBRARY],
[PS_FIND_LIBRARY([$1], [$2], [$3], [$4])
AS_IF([test $ps_ok = no],
  [AC_MSG_ERROR([$2 is required and no program that calls it could be linked (tried: $ps_candidates).
  Install it (Debian and Ubuntu: $5), or set PKG_CONFIG_PATH, or $1_CFLAGS and $1_LIBS.
  config.log has the compiler's words.])])])

# PS_VERSION_TEXT(VAR, CFLAGS, PROLOGUE, EXPRESSION): what the preprocessor makes of EXPRESSION, without quotes and spaces.
# (It may spread it over several lines, with line markers between.)
AC_DEFUN([PS_VERSION_TEXT],
[AC_LANG_CONFTEST([AC_LANG_SOURCE([$3
PENSTOCK_VALUE $4])])
$1=`$CC $CFLAGS $CPPFLAGS $2 -E conftest.c 2>&AS_MESSAGE_LOG_FD |
  $SED -n '/^PENSTOCK_VALUE/,${/^@%:@/d;s/^PENSTOCK_VALUE//;s/[[" ]]//g;p;}' | tr -d '\n'`
rm -f conftest.c])

# PS_THREE_STATES(NAME, HELP): --with-NAME=auto|yes|no into with_NAME.
AC_DEFUN([PS_THREE_STATES],
[AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1=auto|yes|no], [$2 (auto)])], [], [with_$1=auto])
AS_CASE([$with_$1], [auto|yes|no], [],
  [AC_MSG_ERROR([--with-$1=$with_$1: allowed are auto, yes and no])])])
