# PS_DESCRIBE_BUILD: the same facts in a few words, for `penstock --version` and the manifest of a run.
AC_DEFUN([PS_DESCRIBE_BUILD],
[ps_build="built with `$CC --version 2>/dev/null | $SED 1q` for CPU $with_march, $ps_mpi_version"
ps_build="$ps_build, HDF5 $ps_hdf5_version, $ps_matrix, hwloc API $ps_hwloc_version"
AS_IF([test "$enable_debug" != no], [ps_build="$ps_build, debug"])
AS_IF([test "$enable_sanitizers" != no], [ps_build="$ps_build, sanitizers"])
AC_DEFINE_UNQUOTED([PENSTOCK_BUILD], ["$ps_build"], [What this was built from, in a line.])])

# PS_UNKNOWN_OPTIONS: what is unknown on the command line is said loudly, and is an error where CI is set.
AC_DEFUN([PS_UNKNOWN_OPTIONS],
[AS_IF([test -n "$ac_unrecognized_opts"],
  [AS_IF([test -n "$CI"],
     [AC_MSG_ERROR([unknown options, an error where CI is set: $ac_unrecognized_opts (./configure --help lists those that exist)])])
   AC_MSG_WARN([UNKNOWN OPTIONS, WITHOUT ANY EFFECT: $ac_unrecognized_opts (./configure --help lists those that exist)])])])

# PS_SUMMARY: one frank account of what was configured.
AC_DEFUN([PS_SUMMARY],
[ps_launcher="$MPIEXEC $MPIEXEC_FLAGS"
AS_IF([test "$MPIEXEC" = no], [ps_launcher="none: tests on more than one rank will be skipped"])
AS_ECHO(["
penstock $PACKAGE_VERSION
  compiler        $CC (`$CC --version 2>/dev/null | $SED 1q`)
  flags          $PS_CFLAGS $CFLAGS
  CPU             $with_march
  MPI             $ps_mpi_version
  launcher        $ps_launcher
  HDF5            $ps_hdf5_version, parallel ($ps_hdf5_where)
  matrix products $ps_matrix
  hwloc           API $ps_hwloc_version
  PAPI            $ps_papi
  CUDA            $ps_cuda
  NCCL            $ps_nccl
  debug           $enable_debug
  sanitizers      $enable_sanitizers
  installs into   $prefix"])
AS_IF([test "$with_march" = native],
  [AS_ECHO(["
  Compiled for the CPU of this machine. Where compute nodes differ from it, or from each other, give the oldest of
  them: --with-march=NAME (x86-64-v3, for example)."])])])
