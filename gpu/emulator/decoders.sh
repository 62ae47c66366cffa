#!/bin/sh
# Checks the decoders that examples/decoders measures, on small streams, on a machine without a GPU and without nvcc: see cuda_on_cpu.h.
# QUIRE_EMULATOR_ORDER is as in test.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/emulator"
export NVCC="$here/nvcc" QUIRE_REQUIRE_CUDA=1
# Both packages, as in test.sh, so that its builds are used.
cargo build --release -p quire-gpu -p h5z-quire --example decoders
# A library of its own: the kernels' shared memory would slow down all of the plugin's blocks.
SOURCES=measure/decoders.cu KERNELS="measure/decoders/*.cuh" "$here/build.sh" "$CARGO_TARGET_DIR/decoders"
LD_LIBRARY_PATH="$CARGO_TARGET_DIR/decoders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$CARGO_TARGET_DIR/release/examples/decoders" --check
