#!/bin/sh
# Compares the kernels with the CPU's codec on a machine without a GPU and without nvcc: see cuda_on_cpu.h. About eight minutes on two cores, and two more
# for the plugin's tests of the host's code.
#
#     gpu/emulator/test.sh [ARG...]     ARG: for the test program; without any, all but threads_share
#     gpu/emulator/test.sh --build      builds only
#
# The matrices are sampled, see codec/tests/common/sampling.rs; QUIRE_FULL_MATRIX=1 takes all cases.
# QUIRE_EMULATOR_ORDER=reverse or random:NUMBER runs threads and blocks in another order. QUIRE_EMULATOR_STREAMS=late or others runs the work of streams
# later, see streams.h. Resident chunks, whose batches have several streams, are tested with both.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
# A folder of its own: a build with nvcc is not to be made anew.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/emulator"
# The codec's speed matters less here than the time to compile it.
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
export NVCC="$here/nvcc" QUIRE_REQUIRE_CUDA=1 QUIRE_SMALL_MATRIX=1
# Cargo chooses the features of dependencies for all packages that a command names: each command here names both, or they would be built twice.
packages="-p quire-gpu -p h5z-quire"
cargo test --release $packages --test parity --test resident --lib --no-run
"$here/build.sh" "$CARGO_TARGET_DIR"
[ "${1:-}" != --build ] || exit 0
[ $# -gt 0 ] || set -- --skip threads_share
export LD_LIBRARY_PATH="$CARGO_TARGET_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cargo test --release $packages --test parity -- --nocapture "$@"
for streams in late others; do
  QUIRE_EMULATOR_STREAMS=$streams cargo test --release $packages --test resident -- --nocapture "$@"
done
# Tiles, and the host's code with refused allocations.
cargo test --release $packages --lib -- --nocapture on_the_gpu
