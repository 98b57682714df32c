# PS_NCCL: NCCL, which needs CUDA. Header and link decide, never a package database.
AC_DEFUN([PS_NCCL],
[PS_THREE_STATES([nccl], [messages between GPUs through NCCL])
ps_nccl="no"
AS_IF([test $with_nccl != no],
  [AS_IF([test -n "$NVCC" && test -z "$NCCL_CFLAGS$NCCL_LIBS"],
     [NCCL_CFLAGS="-I$ps_cuda_prefix/include" NCCL_LIBS="-L$ps_cuda_prefix/lib64 -lnccl"])
   PS_FIND_LIBRARY([NCCL], [NCCL], [nccl -lnccl], [AC_LANG_PROGRAM([[#include <nccl.h>]],
     [[int version; return ncclGetVersion(&version) != ncclSuccess;]])])
   AS_IF([test $ps_ok = yes], [ps_nccl="found, not used by this version"],
     [test $with_nccl = yes], [AC_MSG_ERROR([--with-nccl=yes, but ncclGetVersion does not link: set NCCL_CFLAGS and NCCL_LIBS])],
     [ps_nccl="not found"])])])
