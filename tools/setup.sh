# shellcheck shell=bash
# What ./quickstart and ./check share: install what is missing, try MPI, configure and build. Sourced by them, in the root
# of the tree. Sets CC, MPIEXEC and MPIEXEC_FLAGS (taken from the environment where set).

build=build
cores=$(nproc 2> /dev/null || echo 2)
# One machine: shared memory is all that is needed, and probing for networks only costs time.
export UCX_TLS=${UCX_TLS:-self,sm}

needed_packages=(gcc libc6-dev make autoconf automake pkg-config mpich libmpich-dev libhdf5-mpich-dev libyaml-dev
  libjansson-dev libxxhash-dev libhwloc-dev)
matrix_packages=(libdnnl-dev libopenblas-dev) # either; the first is faster
optional_packages=(libpapi-dev)               # hardware counters of penstock profile

say() { echo "== $*"; }
fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# ---- packages

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }
has_candidate() { apt-cache policy "$1" 2> /dev/null | grep -q 'Candidate: [^(]'; }
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}
# Machines just started often run apt-get by themselves: its lock is waited for.
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 install -y \
    --no-install-recommends "$@" > "$build/apt.log" 2>&1
}

update_apt_lists() {
  say "apt-get update"
  as_root apt-get update > "$build/apt.log" 2>&1 || tail -n 5 "$build/apt.log" >&2
}

# install_packages PACKAGE...: those that are not there; a fresh machine knows of no package before an update, and an old
# list names files that are gone.
install_packages() {
  local package missing=() updated=no
  for package; do is_installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} = 0 ] && return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo > /dev/null; then
    say "not installed, and this is neither root nor a machine with sudo: ${missing[*]}"
    say "ask for: apt-get install ${missing[*]}"
    return 1
  fi
  for package in "${missing[@]}"; do
    has_candidate "$package" && continue
    update_apt_lists
    updated=yes
    break
  done
  say "installing ${missing[*]}"
  apt_install "${missing[@]}" && return 0
  [ $updated = yes ] || { update_apt_lists; apt_install "${missing[@]}" && return 0; }
  tail -n 20 "$build/apt.log" >&2
  say "could not install ${missing[*]} (all of apt-get's words: $build/apt.log)"
  return 1
}

install_matrix_package() {
  local package
  for package in "${matrix_packages[@]}"; do is_installed "$package" && return 0; done
  for package in "${matrix_packages[@]}"; do install_packages "$package" && return 0; done
  return 1
}

# Packages that something is left out without; not every release has them.
install_optional_packages() {
  local package
  for package; do
    is_installed "$package" && continue
    has_candidate gcc || update_apt_lists
    if ! has_candidate "$package" || ! install_packages "$package"; then
      say "going on without $package, which this release does not offer: what needs it is left out or skipped"
    fi
  done
}

# install_all [MORE OPTIONAL PACKAGE...]: what cannot be installed may still be there in another way, from modules or from
# source, so configure has the last word.
install_all() {
  mkdir -p "$build"
  if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
    report_without_apt
    return 0
  fi
  install_packages "${needed_packages[@]}" || say "going on with what there is"
  install_matrix_package || say "going on with what there is"
  install_optional_packages "${optional_packages[@]}" "$@"
}

report_without_apt() {
  local tool missing=()
  for tool in autoconf automake make pkg-config "${CC:-mpicc}"; do
    command -v "$tool" > /dev/null || missing+=("$tool")
  done
  [ ${#missing[@]} = 0 ] && return 0
  say "this system has no apt, so nothing can be installed here; these programs are missing: ${missing[*]}"
  say "wanted: a C compiler, make, autoconf, automake, pkg-config, MPICH (or an MPI built on it), HDF5 built with that MPI,"
  say "oneDNN or OpenBLAS, libyaml, jansson, xxHash and hwloc, with their headers; on a cluster, load their modules first"
}

# ---- MPI

# Debian lets several MPIs own the plain names; the suffixed ones are certain.
choose_mpi() {
  local suffix=
  command -v mpicc.mpich > /dev/null && command -v mpiexec.mpich > /dev/null && suffix=.mpich
  CC=${CC:-mpicc$suffix}
  MPIEXEC=${MPIEXEC:-mpiexec$suffix} MPIEXEC_FLAGS=${MPIEXEC_FLAGS:-}
  command -v "${CC%% *}" > /dev/null || fail "the MPI compiler $CC is missing: install MPICH (Debian: mpich, libmpich-dev), load" \
    "the cluster's MPI module, or name the wrapper: CC=cc $0"
}

# Runs a program on two ranks; each must see two.
try_mpi() {
  local output code
  if ! command -v "$MPIEXEC" > /dev/null; then
    say "no launcher $MPIEXEC here (MPIEXEC names another): nothing can be run on several ranks"
    MPIEXEC=no
    return 1
  fi
  [ "$build/hello" -nt tools/hello.c ] || $CC -o "$build/hello" tools/hello.c ||
    fail "$CC does not compile tools/hello.c, an MPI program of ten lines"
  # shellcheck disable=SC2086 # the flags are several words
  output=$(timeout -k 5 60 "$MPIEXEC" $MPIEXEC_FLAGS -n 2 "$build/hello" 2>&1)
  code=$?
  [ "$(echo "$output" | grep -c '^rank [01] of 2$')" = 2 ] && return 0
  if echo "$output" | grep -q '^rank 0 of 1$'; then
    explain_singletons
  else
    echo "$output" | tail -n 20 >&2
    fail "$MPIEXEC -n 2 $build/hello failed with exit code $code; its last words are above"
  fi
}

explain_singletons() {
  cat >&2 <<TEXT
$(basename "$0"): the launcher and the MPI library do not belong together: of two ranks started by $MPIEXEC each believes to be
rank 0 of 1.
  launcher: $(readlink -f "$(command -v "$MPIEXEC")")$(package_of "$MPIEXEC")
  compiler: $(readlink -f "$(command -v "${CC%% *}")")$(package_of "${CC%% *}")
Repair:
  - two MPIs are installed: name the pair that belongs together, for example
    CC=mpicc.mpich MPIEXEC=mpiexec.mpich $0
  - Ubuntu 24.04: its package mpich speaks a start-up protocol (PMI) that the launcher in the same package does not. Use
    Debian 12 or 13 or Ubuntu 22.04 (in a container, for example), or build MPICH from source and put its bin/ first in PATH
  - in a Slurm job: MPIEXEC=srun MPIEXEC_FLAGS=--mpi=pmi2 $0
TEXT
  exit 1
}

package_of() {
  local file package
  command -v dpkg-query > /dev/null || return 0
  for file in "$(command -v "$1")" "$(readlink -f "$(command -v "$1")")"; do
    package=$(dpkg-query -S "$file" 2> /dev/null | head -n 1 | cut -d: -f1)
    if [ -n "$package" ]; then
      dpkg-query -W -f ' (package ${Package} ${Version})' "$package"
      return 0
    fi
  done
}

# ---- build

# run_logged LOG COMMAND...: quiet when it works, the log's end when it fails.
run_logged() {
  local log=$1
  shift
  "$@" > "$log" 2>&1 && return 0
  tail -n 30 "$log" >&2
  fail "$* failed; its last lines are above, all of them in $log"
}

configure_build() {
  (cd "$build" && ../configure CC="$CC" MPIEXEC="$MPIEXEC" MPIEXEC_FLAGS="$MPIEXEC_FLAGS")
}

build_all() {
  if [ ! -e "$build/Makefile" ]; then # later make itself does what changed files ask for
    if [ ! -x configure ] || [ -n "$(find configure.ac m4 Makefile.am sources.am tests/testlist -newer configure)" ]; then
      run_logged "$build/autogen.log" ./autogen.sh
    fi
    say "configure (answers: $build/configure.log)"
    run_logged "$build/configure.log" configure_build
    sed -n '/^penstock /,/installs into/p' "$build/configure.log"
  fi
  say "building in $build/ what is not up to date (words of the compiler: $build/make.log)"
  run_logged "$build/make.log" make -C "$build" -j "$cores"
}
