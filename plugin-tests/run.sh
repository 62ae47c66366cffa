#!/usr/bin/env bash
# Tests everything, from formatting to real HDF5 clients, on a Debian-like machine with cargo and python3.
#
#     plugin-tests/run.sh
#
# No GPU is needed: the kernels are compiled by nvcc, and run on the CPU against the codec, and what happens without a GPU is tested.
# plugin-tests/gpu.sh tests on one.
# Needs root or sudo once, for the clients that are Debian packages. What is there already is left alone, so that a second
# run only tests. Cheap checks come first.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

# Begins a part of the run; the table at the end says how long each took.
parts=()
part() {
  parts+=("$SECONDS $*")
  step "$*"
}

part "formatting"
cargo fmt --all --check

part "documents: lengths, links, paths"
python3 plugin-tests/py/documents.py lint

# hdf5-sys looks at libhdf5-dev's headers, so nothing compiles without it.
part "clients from Debian: h5py, h5py with MPI, the HDF5 tools and headers, netCDF, Open MPI"
need_apt gcc g++ libc6-dev binutils pkg-config cmake make libhdf5-dev hdf5-tools netcdf-bin \
  python3-h5py python3-h5py-mpi python3-mpi4py openmpi-bin openssh-client

part "clients from PyPI: h5py on HDF5 2.0 with netCDF4 and PyTables, h5py on HDF5 1.14"
need_venv .venv-hdf5-2.0 h5py==3.16.0 netCDF4==1.7.5.1.post1 tables==3.11.1
need_venv .venv-hdf5-1.14 h5py==3.14.0

part "CUDA's compiler"
[[ "${NVCC:-}" != none ]] || fail "NVCC=none: the tests compile every kernel; unset it, or name an nvcc"
need_nvcc

part "lints"
cargo clippy --workspace --all-targets -- -D warnings

part "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

part "the plugin and the command line, in release"
QUIRE_RELEASE="$(dirname "$(build_plugin -p quire-cli)")"
# The tests take these instead of building their own.
export QUIRE_RELEASE

log="$(mktemp)"
trap 'rm -f "$log"' EXIT
status=0

if [[ "$(uname -m)" == x86_64 ]] && grep -qw avx2 /proc/cpuinfo; then
  part "the kernels on the CPU, against the codec"
  gpu/emulator/test.sh golden lists_and batches gaps matrix damaged adaptive 2>&1 | tee -a "$log" || status=$?
  gpu/emulator/decoders.sh 2>&1 | tee -a "$log" || status=$?
else
  part "no x86-64 with AVX2 here: the kernels are not run on the CPU"
fi

part "unit tests, codec tests, and every client against the plugin"
cargo test --workspace --release --no-fail-fast 2>&1 | tee -a "$log" || status=$?

part "the Python package, beside old and new versions of h5py, numpy, netCDF4, PyTables, xarray and zarr"
python/test.sh 2>&1 | tee -a "$log" || status=$?

parts+=("$SECONDS end")
printf '\nseconds  part\n'
for ((at = 0; at + 1 < ${#parts[@]}; at++)); do
  printf '%7d  %s\n' $((${parts[at + 1]%% *} - ${parts[at]%% *})) "${parts[at]#* }"
done
printf '%7d  in all\n\n' "$SECONDS"

# cargo prints a line per test program, and the last one is of some crate without examples in its documentation; pytest prints one per environment.
awk '/^test result:/ { passed += $4; failed += $6 }
  /^[0-9]+ (passed|failed|skipped|errors?).* in [0-9.]+s/ {
    for (word = 1; word < NF; word++) {
      if ($(word + 1) ~ /^passed/) passed += $word
      if ($(word + 1) ~ /^(failed|error)/) failed += $word
    }
  }
  END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$status"
