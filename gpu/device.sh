#!/usr/bin/env bash
# Tests and measures on a machine with a GPU but without Rust. Build where there is Rust and nvcc, and bring the programs along (git ignores .carry):
#
#     gpu/device.sh pack FOLDER             builds and gathers the programs
#     gpu/device.sh test FOLDER             compares every stream with the CPU's, and refuses each allocation of the host
#     gpu/device.sh sanitize FOLDER         compute-sanitizer over a small matrix, and memcheck over chunks in the GPU's memory
#     gpu/device.sh plugin FOLDER           the plugin under h5py
#     gpu/device.sh bench FOLDER [ARG...]   measures calls, host to host
#     gpu/device.sh resident FOLDER [ARG...]  measures batches of chunks in the GPU's memory
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what="$1" folder="$2"
shift 2
case "$what" in
  pack)
    mkdir -p "$folder"
    # Builds a test program and copies it to FOLDER/NAME. Its path is in cargo's messages alone.
    pack_test() {
      local name="$1" program
      shift
      QUIRE_REQUIRE_CUDA=1 cargo test --release "$@" --no-run
      program="$(QUIRE_REQUIRE_CUDA=1 cargo test --release "$@" --no-run 2>&1 | sed -n 's/.*(\(.*-[0-9a-f]*\))$/\1/p')"
      cp "$program" "$folder/$name"
    }
    pack_test parity -p quire-gpu --test parity
    pack_test resident -p quire-gpu --test resident
    pack_test gpu_tests -p quire-gpu --lib
    pack_test filter_tests -p h5z-quire --lib
    QUIRE_REQUIRE_CUDA=1 cargo build --release -p quire-gpu --examples
    QUIRE_REQUIRE_CUDA=1 cargo build --release -p h5z-quire
    cp target/release/examples/{gpu_bench,resident_bench} target/release/libh5zquire.so "$folder"
    # A driver whose launches fail, for plugin-tests/gpu.sh; its other half is a link that the test makes.
    mkdir -p "$folder/failing_cuda"
    cc -shared -fPIC -Wl,-soname,libcuda_real.so -x c /dev/null -o "$folder/libcuda_real.so"
    cc -shared -fPIC -Wl,-soname,libcuda.so.1 plugin-tests/c/failing_cuda.c -Wl,--no-as-needed "$folder/libcuda_real.so" -o "$folder/failing_cuda/libcuda.so.1" -ldl
    rm "$folder/libcuda_real.so"
    strip "$folder"/{parity,resident,gpu_tests,filter_tests,gpu_bench,resident_bench,libh5zquire.so}
    ;;
  test)
    QUIRE_REQUIRE_CUDA=1 "$folder/parity" --nocapture "$@"
    QUIRE_REQUIRE_CUDA=1 "$folder/resident" --nocapture "$@"
    QUIRE_REQUIRE_CUDA=1 "$folder/gpu_tests" --nocapture on_the_gpu
    QUIRE_REQUIRE_CUDA=1 "$folder/filter_tests" --nocapture on_the_gpu
    ;;
  sanitize)
    # Runs a tool over some tests of a program.
    check() {
      local tool="$1" program="$2" options=()
      shift 2
      echo "== $tool of $program: $*"
      # The tests in the GPU's memory ask the driver about addresses that it does not know.
      [[ "$program $tool" != "resident memcheck" ]] || options=(--report-api-errors no)
      QUIRE_REQUIRE_CUDA=1 QUIRE_SMALL_MATRIX=1 compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 9 "$folder/$program" --nocapture \
        --test-threads 1 "$@" 2>&1 | grep -E "ERROR SUMMARY|RACECHECK SUMMARY|comparisons|test result|=========" | sort | uniq -c | sort -rn | head -30
    }
    check memcheck resident
    check memcheck parity golden matrix bounds "$@"
    for tool in racecheck initcheck synccheck; do
      check "$tool" resident batches_are_chunk_by_chunk
    done
    # Racecheck follows every access to shared memory: the matrix would take it ten minutes.
    check racecheck parity golden "$@"
    for tool in initcheck synccheck; do
      check "$tool" parity golden matrix bounds "$@"
    done
    ;;
  bench) QUIRE_REQUIRE_CUDA=1 "$folder/gpu_bench" "$@" ;;
  resident) QUIRE_REQUIRE_CUDA=1 "$folder/resident_bench" "$@" ;;
  plugin) QUIRE_REQUIRE_CUDA=1 plugin-tests/gpu.sh "$folder" "$@" ;;
  *) sed -n '2,9p' "$0" >&2; exit 2 ;;
esac
