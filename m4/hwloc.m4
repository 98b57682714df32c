# PS_HWLOC: cores of a node and of a rank's share.
AC_DEFUN([PS_HWLOC],
[PS_REQUIRE_LIBRARY([HWLOC], [hwloc], [hwloc -lhwloc], [AC_LANG_PROGRAM([[#include <hwloc.h>]],
  [[hwloc_topology_t topology; return hwloc_topology_init(&topology);]])], [libhwloc-dev])
PS_VERSION_TEXT([ps_hwloc_version], [$HWLOC_CFLAGS], [[#include <hwloc.h>]], [HWLOC_API_VERSION])])
