#!/usr/bin/env bash
# Tests the plugin on a machine with a GPU, which needs neither Rust nor CUDA's compiler: bring the plugin and this repository along.
#
#     plugin-tests/gpu.sh FOLDER_WITH_PLUGIN [WORD...]      only tests whose names have one of the words, if any are given
#
# FOLDER_WITH_PLUGIN holds libh5zquire.so, built where there is nvcc. Needs python3 with h5py, numpy and pytest (another one: PYTHON=...), and
# torch for the tests that fill the GPU's memory. Tests of arrays there are those of CuPy, Numba, PyTorch and JAX where these are installed.
# Without a GPU it says so and ends with 0, with QUIRE_REQUIRE_CUDA=1 with 1.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$(cd "${1:?which folder holds libh5zquire.so?}" && pwd)"
[[ -f "$folder/libh5zquire.so" ]] || { printf 'error: there is no %s/libh5zquire.so\n' "$folder" >&2; exit 1; }

export QUIRE_RELEASE="$folder" PYTHONDONTWRITEBYTECODE=1
words="${*:2}"
exec "${PYTHON:-python3}" -m pytest "$here/test_gpu.py" ${words:+-k "${words// / or }"}
