# PS_MPI: the compiler must link MPI by itself (mpicc, Cray's cc, ...). Sets ps_mpi_family (mpich, openmpi, other),
# ps_mpi_version, MPIEXEC and MPIEXEC_FLAGS.
AC_DEFUN([PS_MPI],
[AC_MSG_CHECKING([whether $CC compiles and links MPI programs])
PS_TRY_LINK([], [], [AC_LANG_PROGRAM([[#include <mpi.h>]],
  [[MPI_Comm node; MPI_Init(0, 0); MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Finalize();]])])
AC_MSG_RESULT([$ps_ok])
AS_IF([test $ps_ok = no],
  [AC_MSG_ERROR([$CC does not compile and link a program that uses MPI 3.
  Give the wrapper of your MPI: ./configure CC=mpicc (Debian and Ubuntu: packages mpich and libmpich-dev; clusters: load
  the MPI module first). config.log has the compiler's words.])])

PS_VERSION_TEXT([ps_mpich], [], [[#include <mpi.h>
#ifndef MPICH_VERSION
#define MPICH_VERSION no
#endif]], [MPICH_VERSION])
PS_VERSION_TEXT([ps_openmpi], [], [[#include <mpi.h>
#ifndef OMPI_MAJOR_VERSION
#define OMPI_MAJOR_VERSION no
#define OMPI_MINOR_VERSION no
#endif]], [OMPI_MAJOR_VERSION.OMPI_MINOR_VERSION])
AS_IF([test "$ps_mpich" != no], [ps_mpi_family=mpich ps_mpi_version="MPICH $ps_mpich (or built on it)"],
  [test "$ps_openmpi" != no.no], [ps_mpi_family=openmpi ps_mpi_version="Open MPI $ps_openmpi"],
  [ps_mpi_family=other ps_mpi_version="unknown kind"])

# The launcher is needed by tests only. One that lies beside the compiler's wrapper belongs to it.
AC_ARG_VAR([MPIEXEC], [launcher of MPI programs, for the tests; no: do without])
AC_ARG_VAR([MPIEXEC_FLAGS], [options for the launcher, before -n])
AS_IF([test -n "$MPIEXEC"], [],
  [set dummy $CC
   ps_cc_folder=`AS_DIRNAME(["$(command -v "$[]2" 2>/dev/null)"])`
   AC_PATH_PROGS([MPIEXEC], [mpiexec mpirun], [no], [$ps_cc_folder$PATH_SEPARATOR$PATH])])])
