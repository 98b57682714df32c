# PS_COMPILER: language, warnings and optimisation, in PS_CFLAGS and PS_LDFLAGS. The user's CFLAGS come after them on
# every command line. Options that let the compiler reorder sums are never used: results must not depend on them.
AC_DEFUN([PS_COMPILER],
[AC_ARG_WITH([march],
  [AS_HELP_STRING([--with-march=NAME], [CPU to compile for (native); no: what the compiler takes by itself])],
  [], [with_march=native])
AC_ARG_ENABLE([debug],
  [AS_HELP_STRING([--enable-debug], [little optimisation, for a debugger])], [], [enable_debug=no])
AC_ARG_ENABLE([sanitizers],
  [AS_HELP_STRING([--enable-sanitizers], [address and undefined behaviour sanitizers])], [], [enable_sanitizers=no])

PS_CFLAGS=
PS_LDFLAGS=
PS_NEED_FLAG([-std=gnu17])
for ps_flag in -Wall -Wextra -Wshadow -Werror=switch -fno-fast-math -fno-math-errno -fno-trapping-math -ffp-contract=fast; do
  PS_ADD_FLAG([$ps_flag])
done

ps_optimise=-O3
AS_IF([test "$enable_debug" != no], [ps_optimise="-O1 -fno-omit-frame-pointer"])
AS_IF([test "$enable_sanitizers" != no],
  [ps_optimise="-O1 -fno-omit-frame-pointer"
   PS_NEED_FLAG([-fsanitize=address,undefined -fno-sanitize-recover=all])
   PS_LDFLAGS="-fsanitize=address,undefined"])
PS_CFLAGS="$PS_CFLAGS $ps_optimise"

PS_MARCH
AC_SUBST([PS_CFLAGS])
AC_SUBST([PS_LDFLAGS])])

# PS_MARCH: -march=NAME, or -mcpu=NAME where the compiler calls it that.
AC_DEFUN([PS_MARCH],
[AS_IF([test "$with_march" = yes], [with_march=native])
AS_IF([test "$with_march" != no],
  [ps_march=
   for ps_option in -march -mcpu; do
     PS_TEST_FLAG([$ps_option=$with_march])
     AS_IF([test $ps_ok = yes], [ps_march=$ps_option=$with_march; break])
   done
   AS_IF([test -n "$ps_march"], [PS_CFLAGS="$PS_CFLAGS $ps_march"],
     [test "$with_march" = native], [with_march="no (this compiler has no native)"],
     [AC_MSG_ERROR([--with-march=$with_march: the compiler $CC does not know this CPU])])])])

# PS_TEST_FLAG(FLAG): sets ps_ok to whether a program compiles and links with it.
AC_DEFUN([PS_TEST_FLAG],
[AC_MSG_CHECKING([whether $CC takes $1])
PS_TRY_LINK([-Werror $1], [], [AC_LANG_PROGRAM])
AC_MSG_RESULT([$ps_ok])])

# PS_ADD_FLAG(FLAG): takes it where the compiler knows it.
AC_DEFUN([PS_ADD_FLAG],
[PS_TEST_FLAG([$1])
AS_IF([test $ps_ok = yes], [PS_CFLAGS="$PS_CFLAGS $1"])])

# PS_NEED_FLAG(FLAG): takes it or stops.
AC_DEFUN([PS_NEED_FLAG],
[PS_TEST_FLAG([$1])
AS_IF([test $ps_ok = no], [AC_MSG_ERROR([the compiler $CC does not take $1, which is needed])])
PS_CFLAGS="$PS_CFLAGS $1"])
