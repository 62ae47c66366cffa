#!/usr/bin/env bash
# Tests that the plugin makes and reads the bytes of this machine on others, which QEMU runs: aarch64, and s390x, which is big endian. There the codec's tests
# of stored streams and Debian's h5py run.
#
#     plugin-tests/machines.sh
#
# For a Debian machine with cargo from rustup. Needs root or sudo once, for QEMU and cross compilers. The other machines' packages are unpacked below
# target/machines; nothing of them is installed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

[[ "$(uname -m)" == x86_64 ]] || fail "this machine is $(uname -m): the comparison is with x86-64"
command -v rustup >/dev/null || fail "rustup is not on the PATH: it has Rust's standard library for other machines"
need_apt qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross python3-h5py python3-pytest
rustup target add aarch64-unknown-linux-gnu s390x-unknown-linux-gnu

step "this machine's plugin"
[[ "${NVCC:-}" == none ]] || need_nvcc
export CUDAARCHS=80 # as run.sh has it: another one would have the kernels compiled anew
plugin="$(build_plugin --workspace --all-targets)" # as in run.sh, so that it is built once
target="$(dirname "$(dirname "$plugin")")"
clients="$PWD/plugin-tests"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# Runs the tests of another machine.
#     test_on MACHINE DEBIAN_NAME
test_on() {
  local machine="$1" debian="$2" folder="$target/machines/$1" rust="$1-unknown-linux-gnu" libraries="/usr/lib/$1-linux-gnu" variable file name
  unpack "$folder" "$debian" python3-h5py python3-pytest libhdf5-dev
  # The linker looks for libhdf5 on behalf of a crate, though the plugin needs nothing of it.
  printf '#!/bin/sh\nexec %s-linux-gnu-gcc -L"%s" "$@"\n' "$machine" "$folder/link" >"$folder/cc"
  chmod +x "$folder/cc"
  mkdir -p "$folder/link"
  ln -sf "$folder/root$libraries/hdf5/serial/libhdf5.so" "$folder/link"

  local qemu=("qemu-$machine-static" -L "$folder/root")
  local python=(env HDF5_PLUGIN_PATH="$target/$rust/release" PYTHONPATH="$PWD/streams"
    "${qemu[@]}" -E LD_LIBRARY_PATH="$libraries/blas:$libraries/lapack" "$folder/root/usr/bin/python3")
  variable="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$rust")"
  # More code units than a release has: they are compiled side by side.
  local cargo=(env NVCC=none CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 "${variable}_LINKER=$folder/cc" "${variable}_RUNNER=${qemu[*]}" cargo)

  step "$machine: the plugin, and the codec's tests of stored streams"
  # The plugin with the features of dependencies that the tests have, so that the codec is compiled once.
  local targets=(--release --target "$rust" -p h5z-quire -p quire-codec --test golden --test streams)
  "${cargo[@]}" build "${targets[@]}" --lib
  "${cargo[@]}" test "${targets[@]}"

  step "$machine: files of each machine on the other"
  "${python[@]}" plugin-tests/call.py round_trip write "$scratch/$machine.h5"
  "${here[@]}" plugin-tests/call.py round_trip check "$scratch/$machine.h5"
  "${here[@]}" plugin-tests/call.py round_trip write "$scratch/here.h5"
  "${python[@]}" plugin-tests/call.py round_trip check "$scratch/here.h5"
  "${python[@]}" plugin-tests/call.py test_samples check_samples h5-samples/v1_0_0.h5

  if [[ "$machine" == aarch64 ]]; then
    step "$machine: the application's rounding of subnormal numbers"
    (
      cd "$scratch"
      CC="$machine-linux-gnu-gcc" "${python[@]}" "$clients/call.py" test_floating_point_mode test_the_bound_holds_in_any_floating_point_mode
    )
  fi

  step "$machine: streams, byte for byte"
  for file in "$scratch/$machine.h5" h5-samples/v1_0_0.h5; do
    "${here[@]}" plugin-tests/py/same_streams.py "$file" >"$scratch/here"
    "${python[@]}" plugin-tests/py/same_streams.py "$file" >"$scratch/$machine"
    diff "$scratch/here" "$scratch/$machine" || fail "$machine makes other streams of $file"
    name="$(basename "$file")"
    printf '%s: %d datasets of %s have the streams of this machine\n' "$machine" "$(wc -l <"$scratch/here")" "$name"
  done
}

here=(env HDF5_PLUGIN_PATH="$(dirname "$plugin")" /usr/bin/python3)
test_on aarch64 arm64
test_on s390x s390x
