#!/bin/sh
# Makes FOLDER/libcuda.so.1, which runs this crate's kernels on the CPU: see cuda_on_cpu.h.
# CONSTANTS is the folder of the constants.cuh that gpu/build.rs has written; without it the newest one in the target folder is taken.
set -eu
folder=${1:?usage: build.sh FOLDER [CONSTANTS]}
here=$(cd "$(dirname "$0")" && pwd)
kernels=$(dirname "$here")/kernels
newest() { ls -t "${CARGO_TARGET_DIR:-$here/../../target}"/*/build/quire-gpu-*/out/constants.cuh | head -n 1; }
constants=${2:-$(dirname "$(newest)")}
mkdir -p "$folder"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed -n 's/^extern "C" __global__ .* \([a-z0-9_]*\)(const __grid_constant__.*/KERNEL(\1)/p' "$kernels"/*/*.cuh >"$scratch/kernels.inc"
# Without contraction, as nvcc compiles them. Wide shifts and unaligned words are other numbers or faults on a GPU.
"${CXX:-g++}" -x c++ -std=c++20 -O2 -march=x86-64-v3 -g1 -ffp-contract=off -fno-strict-aliasing -fwrapv -mtls-dialect=gnu2 \
  -shared -fPIC -fvisibility=hidden -pthread \
  -fsanitize=alignment,shift-exponent -fno-sanitize-recover=all -Wno-unknown-pragmas -Wno-attributes \
  -include "$here/cuda_on_cpu.h" -I "$scratch" -I "$constants" -I "$kernels" \
  -Wl,-soname,libcuda.so.1 -o "$scratch/libcuda.so.1" "$here/driver.cpp"
mv "$scratch/libcuda.so.1" "$folder/libcuda.so.1"
ln -sf libcuda.so.1 "$folder/libcuda.so"  # cudarc asks for this name first
