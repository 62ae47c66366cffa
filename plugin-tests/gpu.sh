#!/usr/bin/env bash
# Tests the plugin on a machine with a GPU, which needs neither Rust nor CUDA's compiler: bring the plugin and this repository along.
#
#     plugin-tests/gpu.sh FOLDER_WITH_PLUGIN [WORD...]      only checks whose names have one of the words, if any are given
#
# FOLDER_WITH_PLUGIN holds libh5zquire.so, built where there is nvcc. Needs python3 with h5py and numpy (another one: PYTHON=...), and pytest for
# damaged streams. torch is for the tests that fill the GPU's memory; CuPy, Numba, PyTorch and JAX are for those of arrays there, where they are installed.
# Without a GPU it says so and ends with 0, with QUIRE_REQUIRE_CUDA=1 with 1.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$(cd "${1:?which folder holds libh5zquire.so?}" && pwd)"
[[ -f "$folder/libh5zquire.so" ]] || { printf 'error: there is no %s/libh5zquire.so\n' "$folder" >&2; exit 1; }

# Settings of the caller are not to steer the tests.
unset QUIRE_BACKEND QUIRE_DEVICE QUIRE_LOG QUIRE_CODEBOOK
# Scripts import the decoder of streams/.
export HDF5_PLUGIN_PATH="$folder" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="${here%/*}/streams"
exec "${PYTHON:-python3}" "$here/py/gpu_checks.py" "$folder/libh5zquire.so" "${@:2}"
