#!/usr/bin/env bash
# Tests that the plugin for Windows makes and reads the bytes of this machine. Wine runs C programs with the HDF5 that h5py's wheel for Windows has.
#
#     plugin-tests/windows.sh
#
# For a Debian machine with cargo from rustup. Needs root or sudo once, for Wine and the cross compiler. The wheel is unpacked below target/windows; nothing of
# it is installed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

rust=x86_64-pc-windows-gnu
command -v rustup >/dev/null || fail "rustup is not on the PATH: it has Rust's standard library for Windows"
need_apt wine64 gcc-mingw-w64-x86-64 libhdf5-dev pkg-config
rustup target add "$rust"

step "this machine's plugin"
plugin="$(take_plugin)"
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
folder="$target/windows"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
need_venv "$folder/python" h5py==3.16.0
here=(env HDF5_PLUGIN_PATH="$(dirname "$plugin")" "$folder/python/bin/python")

step "HDF5 for Windows"
mkdir -p "$folder/link" "$folder/headers" "$folder/plugins"
# The HDF5 of newer wheels calls feholdexcept, which Wine 8 lacks.
wheel="h5py-3.12.1-cp312-cp312-win_amd64.whl"
[[ -f "$folder/$wheel" ]] ||
  "$folder/python/bin/python" -m pip download "${quiet_pip[@]}" --no-deps --only-binary :all: --platform win_amd64 --python-version 3.12 \
    --dest "$folder" h5py==3.12.1
python3 -m zipfile -e "$folder/$wheel" "$folder/wheel"
cp "$folder"/wheel/h5py/{hdf5,zlib}.dll "$folder"
# Debian's headers of HDF5 are for Linux: they include this file, which Windows does not have.
: >"$folder/headers/features.h"
compile=(x86_64-w64-mingw32-gcc -O1 -D__USE_MINGW_ANSI_STDIO=1 -I"$folder/headers" -I/usr/include/hdf5/serial -Ifilter/include)
# Wine 8 lacks this library, which Windows has.
"${compile[@]}" -shared -o "$folder/bcryptprimitives.dll" plugin-tests/c/bcryptprimitives.c -ladvapi32
# The headers are of another version than the wheel's HDF5. The functions that the programs call are the same in both.
windows=(env WINEPREFIX="$folder/wine" WINEPATH="Z:$folder;Z:$folder/plugins" WINEDEBUG=-all HDF5_DISABLE_VERSION_CHECK=2 HDF5_PLUGIN_PATH="Z:$folder/plugins"
  /usr/lib/wine/wine64)

step "the plugin for Windows, and its unit tests"
# The linker looks for libhdf5 on behalf of a crate, though the plugin needs nothing of it.
x86_64-w64-mingw32-ar crs "$folder/link/libhdf5.a"
# More code units than a release has: they are compiled side by side.
cargo=(env NVCC=none CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="${windows[*]}"
  CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS="-L native=$folder/link" cargo)
"${cargo[@]}" build --release --target "$rust" -p h5z-quire --lib
"${cargo[@]}" test --release --target "$rust" -p h5z-quire --lib
cp "$target/$rust/release/h5zquire.dll" "$folder/plugins"

step "C programs: every rank, the example of whole arrays, and the functions for programs without HDF5"
for source in plugin-tests/c/{round_trip,pairs,arrays}.c docs/example_arrays.c; do
  "${compile[@]}" -o "$folder/$(basename "$source" .c).exe" "$source" "$folder/hdf5.dll" "$folder/plugins/h5zquire.dll"
done
{
  "${windows[@]}" "$folder/round_trip.exe" write "$scratch/ranks.h5"
  "${windows[@]}" "$folder/example_arrays.exe" "$scratch/arrays.h5"
  "${windows[@]}" "$folder/arrays.exe"
} | tee "$scratch/said"
passed="$(grep -c . "$scratch/said")"

step "files of this machine on Windows, and files of Windows here"
"${here[@]}" plugin-tests/call.py round_trip write "$scratch/here.h5"
for file in h5-samples/v1_0_0.h5 "$scratch/here.h5"; do
  "${windows[@]}" "$folder/pairs.exe" "$file" "$scratch/copy.h5"
  "${windows[@]}" "$folder/pairs.exe" "$scratch/copy.h5" "$scratch/copy_of_copy.h5"
  compared="$("${here[@]}" plugin-tests/py/same_copies.py "$file" "$scratch/copy.h5" "$scratch/copy_of_copy.h5")"
  printf '%s: %d comparisons\n' "$(basename "$file")" "$compared"
  passed=$((passed + compared))
done
printf '%d passed, 0 failed\n' "$passed"
