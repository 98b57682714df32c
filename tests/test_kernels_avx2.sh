#!/bin/bash
# The kernels with the matrix library held to AVX2, where it takes more by itself: other products, and other tiles.
set -eu
grep -qw avx512f /proc/cpuinfo || { echo "this CPU has no AVX-512: test_kernels was all"; exit 77; }
DNNL_MAX_CPU_ISA=AVX2 ./tests/test_kernels
