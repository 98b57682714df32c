# PS_HDF5: HDF5 with MPI, in HDF5_CFLAGS and HDF5_LIBS. Order: the user's HDF5_CFLAGS and HDF5_LIBS, --with-hdf5=PREFIX,
# pkg-config modules, the bare library. A candidate counts when a call of the parallel interface compiles and links.
AC_DEFUN([PS_HDF5],
[AC_ARG_WITH([hdf5], [AS_HELP_STRING([--with-hdf5=PREFIX], [where parallel HDF5 is installed])], [], [with_hdf5=yes])
AS_CASE([$with_hdf5], [yes|no], [],
  [AS_IF([test -z "$HDF5_CFLAGS$HDF5_LIBS"],
    [ps_hdf5_prefix="--with-hdf5=$with_hdf5"
     HDF5_CFLAGS="-I$with_hdf5/include"
     for ps_folder in lib lib64; do
       AS_IF([test -d "$with_hdf5/$ps_folder"],
         [HDF5_LIBS="$HDF5_LIBS -L$with_hdf5/$ps_folder -Wl,-rpath,$with_hdf5/$ps_folder"])
     done
     HDF5_LIBS="$HDF5_LIBS -lhdf5"])])

# A library built on the other MPI links, and then crashes: such a module is not even tried.
ps_modules="hdf5-mpich hdf5_mpich hdf5 hdf5-openmpi"
AS_CASE([$ps_mpi_family], [mpich], [ps_modules="hdf5-mpich hdf5_mpich hdf5"], [openmpi], [ps_modules="hdf5 hdf5-openmpi"])
PS_FIND_LIBRARY([HDF5], [parallel HDF5], [$ps_modules -lhdf5], [AC_LANG_PROGRAM([[#include <hdf5.h>
#include <mpi.h>
#ifndef H5_HAVE_PARALLEL
#error "this HDF5 is serial"
#endif]], [[return H5Pset_fapl_mpio(H5Pcreate(H5P_FILE_ACCESS), MPI_COMM_WORLD, MPI_INFO_NULL) < 0;]])])
AS_IF([test $ps_ok = no],
  [AC_MSG_ERROR([no HDF5 that was built with MPI was found, and Penstock writes its files from all ranks at once.
  A serial HDF5 does not do: the call H5Pset_fapl_mpio must compile with $CC and link (tried: ${ps_hdf5_prefix:-$ps_candidates}).
  Debian and Ubuntu: libhdf5-mpich-dev; clusters: load the parallel HDF5 module; else --with-hdf5=PREFIX, or
  HDF5_CFLAGS and HDF5_LIBS. config.log has the compiler's words.])])
PS_VERSION_TEXT([ps_hdf5_version], [$HDF5_CFLAGS], [[#include <H5public.h>]], [H5_VERS_MAJOR.H5_VERS_MINOR.H5_VERS_RELEASE])
ps_hdf5_where=$ps_where])
