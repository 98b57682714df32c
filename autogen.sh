#!/bin/sh
# Makes ./configure from configure.ac and tests/tests.am from tests/testlist.
set -eu
cd "$(dirname "$0")"
for tool in autoreconf automake; do
  command -v $tool >/dev/null || { echo "autogen.sh: $tool is missing; install autoconf and automake" >&2; exit 1; }
done
tools/list-tests tests/testlist > tests/tests.am
exec autoreconf --install
