#!/usr/bin/env bash
# Tests everything, from single functions to real HDF5 clients, on a Debian-like machine with cargo and python3. plugin-tests/lints.sh reads the sources.
#
#     plugin-tests/run.sh
#
# No GPU is needed: nvcc compiles the kernels, the emulator runs them on the CPU, and tests have what happens without a GPU. plugin-tests/gpu.sh tests on a GPU.
# Needs root or sudo once, for the clients that are Debian packages. What is there already is left alone, so that a second run only tests.
#
# Large matrices are sampled by a seed, which is the day's number. QUIRE_SEED=NUMBER takes the sample of another run. QUIRE_FULL_MATRIX=1 takes all cases, as
# before a release.
set -euo pipefail
# The caller's input may be a terminal, nothing, or closed.
exec </dev/null

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

scratch="$(mktemp -d)"
table="$scratch/table" # the time that each part took
failed="$scratch/failed" # the names of tests that have failed
logs="$scratch/logs" # what the tests print, a file for each group of parts
mkdir "$logs"
: >"$failed" >"$table"
declare -A background=() # process groups, by the names of their logs

finish() {
  local status=$? group
  # By SIGKILL: a shell that only ended would write to the table first. bash would say of each process that it was killed.
  exec 2>/dev/null
  for group in "${background[@]}"; do kill -KILL -- "-$group" || true; done
  wait
  rm -rf "$scratch"
  exit "$status"
}
trap finish EXIT

# Runs a command as a part of the run, in a shell of its own, and notes its time. A command that fails is named, and ends the run.
#     part NAME COMMAND...
part() {
  step "$1"
  (
    part_name="$1" part_start=$SECONDS
    trap end_part EXIT
    "${@:2}"
  )
}

end_part() {
  local status=$? times
  [[ "$status" == 0 ]] || printf 'failed: %s\n' "$part_name" >&2
  # The CPU time is that of this shell's children. A pipe from `times` would be a shell without children.
  times="$(mktemp -p "$scratch")"
  times >"$times"
  awk -v name="$part_name" -v seconds=$((SECONDS - part_start)) '
    NR == 2 { for (i = 1; i <= 2; i++) { split($i, time, /[ms]/); cpu += 60 * time[1] + time[2] } printf "%6d s %6d s  %s\n", seconds, cpu, name }
  ' "$times" >>"$table"
}

# Runs a command beside those that follow. Its output is shown by `wait_for`.
#     beside LOG COMMAND...
beside() {
  # With job control the command is a process group, which can be ended as a whole.
  set -m
  "${@:2}" >"$logs/$1" 2>&1 &
  set +m
  background[$1]=$!
}

# Waits for a command that runs beside; its status.
wait_for() {
  local status=0
  wait "${background[$1]}" || status=$?
  unset "background[$1]"
  cat "$logs/$1"
  return "$status"
}

# Runs tests, each with the default action of signals: the caller may ignore some, as a shell does for `run.sh &`. Tests that fail do not end the run.
#     check NAME COMMAND...
check() {
  env --default-signal timeout --foreground --kill-after=10 7200 "${@:2}" || printf '%s\n' "$1" >>"$failed"
}

# All programs have the day of the run's begin, even if midnight comes.
export QUIRE_SEED="${QUIRE_SEED:-$(($(date +%s) / 86400))}"
if [[ "${QUIRE_FULL_MATRIX:-}" == 1 ]]; then
  step "whole matrices"
else
  step "samples of large matrices: QUIRE_SEED=$QUIRE_SEED takes these again"
fi

# -------------------------------------------------------------------------------------------------------------- builds

# hdf5-sys looks at libhdf5-dev's headers, so nothing compiles without it.
part "clients from Debian: h5py, h5py with MPI, the HDF5 tools and headers, netCDF, GDAL, Open MPI" need_apt \
  gcc g++ libc6-dev binutils pkg-config cmake make patch libhdf5-dev hdf5-tools netcdf-bin gdal-bin \
  python3-h5py python3-h5py-mpi python3-mpi4py python3-pytest openmpi-bin libopenmpi-dev openssh-client

[[ "${NVCC:-}" != none ]] || fail "NVCC=none: the tests compile every kernel; unset it, or name an nvcc"
need_nvcc
# One architecture is enough to see that the kernels compile, and no GPU needs more.
export CUDAARCHS=80

environments() {
  need_venv .venv-hdf5-2.0 h5py==3.16.0 netCDF4==1.7.5.1.post1 tables==3.11.1 pytest==8.4.2 pytest-xdist==3.8.0
  need_venv .venv-hdf5-1.14 h5py==3.14.0 pytest==8.4.2
  python/test.sh --environments
  plugin-tests/suites.sh --environment
}
beside environments part "clients from PyPI: HDF5 2.0 and 1.14, those of the Python package, and the suites of others" environments

is_emulated=""
if [[ "$(uname -m)" == x86_64 ]] && grep -qw avx2 /proc/cpuinfo; then
  is_emulated=1
  beside emulator part "build: the kernels for the CPU" gpu/emulator/test.sh --build
else
  step "no x86-64 with AVX2 here: the kernels are not run on the CPU"
fi

plugin="$(part "build: the plugin, the command line, and the tests" build_plugin --workspace --all-targets)"
QUIRE_RELEASE="$(dirname "$plugin")"
export QUIRE_RELEASE
wait_for environments || fail "an environment of PyPI's clients is missing"
if [[ -n "$is_emulated" ]]; then
  wait_for emulator
  # The driver for the tests of processes that share GPUs.
  export QUIRE_EMULATOR="${CARGO_TARGET_DIR:-$PWD/target}/emulator"
fi

# --------------------------------------------------------------------------------------------------------------- tests

export QUIRE_STREAMS="$scratch/streams"
part "random streams that no encoder of ours would write, for every reader" .venv-hdf5-2.0/bin/python streams/random_streams.py "$QUIRE_STREAMS"

conformance() {
  export HDF5_PLUGIN_PATH="$QUIRE_RELEASE" PYTHONDONTWRITEBYTECODE=1
  check "streams" .venv-hdf5-2.0/bin/python -m pytest -n "$(nproc)" streams
  # What depends on the version of HDF5 or numpy.
  for python in .venv-hdf5-1.14/bin/python /usr/bin/python3; do
    check "streams with $python" "$python" -m pytest streams/tests/test_{streams,example,damaged,sampling}.py
  done
}

# One after the other: two of them build the package in python/, and two may install packages.
python_and_others() {
  part "the Python package, beside old and new versions of h5py, numpy, netCDF4, PyTables, xarray and zarr" check "python/test.sh" python/test.sh
  part "the suites of others: h5py, xarray, zarr, numcodecs, b2h5py; the files that packages ship" check "suites.sh" plugin-tests/suites.sh
  part "the browser: the reader as WebAssembly, jsfive, h5wasm, and the page in Chromium" check "web/test.sh" \
    env HDF5_PLUGIN_PATH="$QUIRE_RELEASE" web/test.sh "$PWD/.venv-hdf5-2.0/bin/python"
}

rust_and_clients() {
  check "cargo test" cargo test --workspace --release --no-fail-fast
  check "plugin-tests" .venv-hdf5-2.0/bin/python -m pytest -n "$(nproc)" --durations 20 --durations-min 10 plugin-tests
}

# They share the processors among them: some wait, and some have one thread.
beside python python_and_others
[[ -z "$is_emulated" ]] || beside emulated part "the kernels on the CPU, against the codec" \
  check "gpu/emulator/test.sh" gpu/emulator/test.sh golden lists_and batches gaps matrix damaged adaptive
beside conformance part "conformance: the decoder in Python, the reader in C and the plugin on stored and random streams; the rules of the encoder" conformance
part "unit tests, codec tests, and every client against the plugin" rust_and_clients 2>&1 | tee "$logs/clients"
for log in "${!background[@]}"; do wait_for "$log" || printf '%s\n' "$log" >>"$failed"; done

# ------------------------------------------------------------------------------------------------------------- results

printf '\n  time     CPU time  part\n'
cat "$table"
printf '\n    time  test programs of more than 10 s\n'
# cargo says on one line which program it runs, and the program on its last line how long it took.
awk '/^ +Running / { program = $2 == "unittests" ? $3 " " $4 : $2 }
  /^test result:/ && $NF + 0 > 10 { printf "%6d s  %s\n", $NF, program }' "$logs"/*

# What failed is named, and counts, even if it is no test program.
sed 's/^/failed: /' "$failed"
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
  }' checks="$(wc -l <"$failed")" "$logs"/*
[[ ! -s "$failed" ]]
