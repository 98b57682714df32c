# PS_CUDA: the CUDA compiler, in NVCC, and the prefix it lies in. The driver's library is not needed to build.
AC_DEFUN([PS_CUDA],
[PS_THREE_STATES([cuda], [CUDA devices])
AC_ARG_VAR([NVCC], [CUDA compiler])
ps_cuda="no"
AS_IF([test $with_cuda != no],
  [AC_PATH_PROGS([NVCC], [nvcc])
   AS_IF([test -n "$NVCC"],
     [ps_cuda="found ($NVCC), not used by this version"
      ps_cuda_prefix=`AS_DIRNAME(["$(AS_DIRNAME(["$NVCC"]))"])`],
     [test $with_cuda = yes], [AC_MSG_ERROR([--with-cuda=yes, but there is no nvcc: set NVCC or PATH])],
     [ps_cuda="not found"])])])
