# PS_MATRIX: the library of matrix products, in MATRIX_CFLAGS and MATRIX_LIBS: oneDNN, else any CBLAS. Defines HAVE_DNNL or
# HAVE_CBLAS, which kernels/matmul.c reads.
AC_DEFUN([PS_MATRIX],
[AC_ARG_WITH([matrix],
  [AS_HELP_STRING([--with-matrix=auto|dnnl|cblas], [library of matrix products (auto: oneDNN, else CBLAS)])],
  [], [with_matrix=auto])
AS_CASE([$with_matrix], [auto|dnnl|cblas], [],
  [AC_MSG_ERROR([--with-matrix=$with_matrix: allowed are auto, dnnl and cblas])])
ps_matrix=no
AS_IF([test $with_matrix != cblas], [PS_FIND_DNNL])
AS_IF([test "$ps_matrix" = no && test $with_matrix != dnnl], [PS_FIND_CBLAS])
AS_IF([test "$ps_matrix" = no],
  [AC_MSG_ERROR([no library of matrix products was found: Penstock needs oneDNN (dnnl_sgemm) or a CBLAS (cblas_sgemm).
  Debian and Ubuntu: libdnnl-dev, or libopenblas-dev. Elsewhere set DNNL_CFLAGS and DNNL_LIBS, or CBLAS_CFLAGS and
  CBLAS_LIBS. config.log has the compiler's words.])])
AC_SUBST([MATRIX_CFLAGS])
AC_SUBST([MATRIX_LIBS])])

AC_DEFUN([PS_FIND_DNNL],
[PS_FIND_LIBRARY([DNNL], [oneDNN], [dnnl -ldnnl], [AC_LANG_PROGRAM([[#include <oneapi/dnnl/dnnl.h>]],
  [[float a = 1, b = 1, c = 0; return dnnl_sgemm('N', 'N', 1, 1, 1, 1.0f, &a, 1, &b, 1, 0.0f, &c, 1) != dnnl_success;]])])
AS_IF([test $ps_ok = yes],
  [PS_VERSION_TEXT([ps_version], [$DNNL_CFLAGS], [[#include <oneapi/dnnl/dnnl_version.h>]],
     [DNNL_VERSION_MAJOR.DNNL_VERSION_MINOR.DNNL_VERSION_PATCH])
   ps_matrix="oneDNN $ps_version"
   MATRIX_CFLAGS=$DNNL_CFLAGS MATRIX_LIBS=$DNNL_LIBS
   AC_DEFINE([HAVE_DNNL], [1], [Matrix products come from oneDNN.])])])

AC_DEFUN([PS_FIND_CBLAS],
[PS_FIND_LIBRARY([CBLAS], [CBLAS], [openblas blis cblas -lopenblas -lblis -lcblas],
  [AC_LANG_PROGRAM([[#include <cblas.h>]],
  [[float a = 1, b = 1, c = 0;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1.0f, &a, 1, &b, 1, 0.0f, &c, 1); return c < 0;]])])
AS_IF([test $ps_ok = yes],
  [ps_matrix="CBLAS ($ps_where)"
   MATRIX_CFLAGS=$CBLAS_CFLAGS MATRIX_LIBS=$CBLAS_LIBS
   AC_DEFINE([HAVE_CBLAS], [1], [Matrix products come from a CBLAS.])
   PS_TRY_LINK([$CBLAS_CFLAGS], [$CBLAS_LIBS],
     [AC_LANG_PROGRAM([[#include <cblas.h>]], [[openblas_set_num_threads(1);]])])
   AS_IF([test $ps_ok = yes], [AC_DEFINE([HAVE_OPENBLAS], [1], [The CBLAS is OpenBLAS.])])])])
