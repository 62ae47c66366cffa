#!/usr/bin/env bash
# Tests everything, from formatting to real HDF5 clients, on a Debian-like machine with cargo and python3.
#
#     plugin-tests/run.sh
#
# No GPU is needed: the kernels are compiled by nvcc, and run on the CPU against the codec, and what happens without a GPU is tested.
# plugin-tests/gpu.sh tests on one.
# Needs root or sudo once, for the clients that are Debian packages. What is there already is left alone, so that a second
# run only tests. Cheap checks come first.
#
# Large matrices are sampled, by a seed that differs from day to day: QUIRE_SEED=NUMBER takes the sample of another run again, QUIRE_FULL_MATRIX=1
# all cases, as before a release.
set -euo pipefail
# Whatever the caller's input is: a terminal, nothing, or closed. Tests restore the signals that the caller ignores, as a shell does for `run.sh &`; the run
# itself leaves them ignored, as for `nohup run.sh`.
exec </dev/null

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

scratch="$(mktemp -d)"
log="$scratch/log"
table="$scratch/table"
part_name=""
failed=()

# A command that fails may end the run within a part: it is named then.
finish() {
  local status=$?
  rm -rf "$scratch"
  [[ -z "$part_name" ]] || printf 'failed: %s\n' "$part_name" >&2
  exit "$status"
}
trap finish EXIT

# Seconds of CPU time that this shell's children have used so far. Not in a subshell, which has children of its own: the result is in cpu_seconds.
measure_cpu() {
  times >"$scratch/times"
  cpu_seconds="$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += 60 * part[1] + part[2] } print int(sum) }' "$scratch/times")"
}

# Begins a part of the run, and keeps how long the part before it took.
part() {
  measure_cpu
  [[ -z "$part_name" ]] || printf '%6d s %6d s  %s\n' $((SECONDS - part_start)) $((cpu_seconds - part_cpu)) "$part_name" >>"$table"
  part_name="$1" part_start=$SECONDS part_cpu=$cpu_seconds
  [[ -z "$part_name" ]] || step "$part_name"
}

# One day's number for all programs, even if midnight comes.
export QUIRE_SEED="${QUIRE_SEED:-$(($(date +%s) / 86400))}"
if [[ "${QUIRE_FULL_MATRIX:-}" == 1 ]]; then
  step "whole matrices"
else
  step "samples of large matrices: QUIRE_SEED=$QUIRE_SEED takes these again"
fi

part "formatting"
cargo fmt --all --check

# hdf5-sys looks at libhdf5-dev's headers, so nothing compiles without it.
part "clients from Debian: h5py, h5py with MPI, the HDF5 tools and headers, netCDF, Open MPI"
need_apt gcc g++ libc6-dev binutils pkg-config cmake make libhdf5-dev hdf5-tools netcdf-bin \
  python3-h5py python3-h5py-mpi python3-mpi4py python3-pytest openmpi-bin libopenmpi-dev openssh-client

part "CUDA's compiler"
[[ "${NVCC:-}" != none ]] || fail "NVCC=none: the tests compile every kernel; unset it, or name an nvcc"
need_nvcc

# Fetching and unpacking leave a core free for the builds, which need none of these environments.
(
  need_venv .venv-hdf5-2.0 h5py==3.16.0 netCDF4==1.7.5.1.post1 tables==3.11.1 pytest==8.4.2 pytest-xdist==3.8.0
  need_venv .venv-hdf5-1.14 h5py==3.14.0 pytest==8.4.2
  python/test.sh --environments
  plugin-tests/suites.sh --environment
) >"$scratch/environments" 2>&1 &
environments=$!

# All in the release profile: what build scripts make, the kernels among it, is made once.
part "lints"
cargo clippy --workspace --all-targets --release -- -D warnings

part "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --release --quiet

# By one command, with the features of dependencies that the tests have: nothing is built twice.
part "build: the plugin, the command line, and the tests"
plugin="$(build_plugin --workspace --all-targets)"
QUIRE_RELEASE="$(dirname "$plugin")"
export QUIRE_RELEASE

part "documents: lengths, links, paths"
python3 plugin-tests/py/documents.py lint

part "clients from PyPI, which were fetched beside the builds: HDF5 2.0 and 1.14, and those of the Python package, and the suites of others"
wait "$environments" || { cat "$scratch/environments" >&2; fail "an environment of PyPI's clients is missing"; }

part "random streams that no encoder of ours would write, for every reader"
QUIRE_STREAMS="$scratch/streams"
export QUIRE_STREAMS
.venv-hdf5-2.0/bin/python streams/random_streams.py "$QUIRE_STREAMS"

part "conformance: the decoder in Python, the reader in C and the plugin on the streams of streams/ and on others; the rules of the encoder"
# With default signals, and with an end for what hangs.
conformance() {
  HDF5_PLUGIN_PATH="$QUIRE_RELEASE" PYTHONDONTWRITEBYTECODE=1 env --default-signal timeout --kill-after=10 7200 "$1" -m pytest "${@:2}" 2>&1 |
    tee -a "$log" || failed+=("streams: pytest by $1")
}
conformance .venv-hdf5-2.0/bin/python -n "$(nproc)" streams
# What depends on the version of HDF5 or numpy.
for python in .venv-hdf5-1.14/bin/python /usr/bin/python3; do
  conformance "$python" streams/tests/test_{streams,example,damaged,sampling}.py
done

emulated=""
if [[ "$(uname -m)" == x86_64 ]] && grep -qw avx2 /proc/cpuinfo; then
  part "build: the kernels for the CPU"
  gpu/emulator/test.sh --build
  # The driver for the tests of processes that share GPUs.
  export QUIRE_EMULATOR="${CARGO_TARGET_DIR:-$PWD/target}/emulator"
  part "unit tests, codec tests, and every client against the plugin; beside them the kernels on the CPU, against the codec"
  (
    emulated_failed=()
    gpu/emulator/test.sh golden lists_and batches gaps matrix damaged adaptive || emulated_failed+=("gpu/emulator/test.sh")
    times >"$scratch/emulated-times"
    sed -n '2s/^/user and system time of the kernels on the CPU: /p' "$scratch/emulated-times"
    printf '%s\n' "${emulated_failed[@]}" >"$scratch/emulated-failed"
  ) >"$scratch/emulated" 2>&1 &
  emulated=$!
else
  part "unit tests, codec tests, and every client against the plugin"
  step "no x86-64 with AVX2 here: the kernels are not run on the CPU"
fi
cargo test --workspace --release --no-fail-fast 2>&1 | tee -a "$log" || failed+=("cargo test")
# They share the processors among them.
env --default-signal .venv-hdf5-2.0/bin/python -m pytest -n "$(nproc)" --durations 20 --durations-min 10 plugin-tests 2>&1 | tee -a "$log" || failed+=("pytest plugin-tests")
if [[ -n "$emulated" ]]; then
  wait "$emulated" || failed+=("the kernels on the CPU")
  tee -a "$log" <"$scratch/emulated"
  while read -r script; do failed+=("$script"); done < <(grep . "$scratch/emulated-failed")
fi

part "the Python package, beside old and new versions of h5py, numpy, netCDF4, PyTables, xarray and zarr"
python/test.sh 2>&1 | tee -a "$log" || failed+=("python/test.sh")

part "the suites of others: h5py, xarray, zarr, numcodecs, b2h5py; the files that packages ship"
plugin-tests/suites.sh 2>&1 | tee -a "$log" || failed+=("plugin-tests/suites.sh")

part ""
printf '\n  time     CPU time  part\n'
cat "$table"
printf '\n    time  test programs of more than 10 s\n'
# cargo says on one line which program it runs, and the program on its last line how long it took.
awk '/^ +Running / { program = $2 == "unittests" ? $3 " " $4 : $2 }
  /^test result:/ && $NF + 0 > 10 { printf "%6d s  %s\n", $NF, program }' "$log"

# What failed is named, and counts, even if it is no test program.
[[ ${#failed[@]} == 0 ]] || printf 'failed: %s\n' "${failed[@]}"
# cargo prints a line per test program, and the last one is of some crate without examples in its documentation; pytest prints one per environment.
awk '/^test result:/ { passed += $4; failed += $6 }
  /^[0-9]+ (passed|failed|skipped|errors?).* in [0-9.]+s/ {
    for (word = 1; word < NF; word++) {
      if ($(word + 1) ~ /^passed/) passed += $word
      if ($(word + 1) ~ /^(failed|error)/) failed += $word
    }
  }
  END {
    if (failed < checks) failed = checks
    printf "%d passed, %d failed\n", passed, failed
  }' checks=${#failed[@]} "$log"
exit $((${#failed[@]} > 0))
