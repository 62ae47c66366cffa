#!/usr/bin/env bash
# Builds libpressio with the plugin in this folder, and runs test_quire.cc.
#
#     packaging/libpressio/test.sh STD_COMPAT LIBPRESSIO [FOLDER]     checkouts of github.com/robertu94/std_compat and libpressio 1.0.7
#
# Copies LIBPRESSIO, puts quire.cc and quire.cmake in their places, and builds in FOLDER, or in a temporary one. QUIRE_RELEASE names the folder of
# libh5zquire.so; without it, cargo builds the plugin.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/../../h5-samples/setup.sh"
[[ -f "${1:-}/CMakeLists.txt" && -f "${2:-}/CMakeLists.txt" ]] || { sed -n '2,7p' "$0" >&2; exit 2; }
need_apt g++ cmake make
plugin="$(take_plugin)"
folder="${3:-$(mktemp -d)}"
install="$folder/install"

build() {
  cmake -S "$1" -B "$folder/$2" -DCMAKE_INSTALL_PREFIX="$install" -DCMAKE_PREFIX_PATH="$install" -DBUILD_TESTING=OFF -DCMAKE_CXX_FLAGS=-O1 "${@:3}" >&2
  cmake --build "$folder/$2" --target install >&2
}

step "std_compat"
build "$1" std_compat
step "libpressio with the plugin"
mkdir -p "$folder/source"
cp -r "$2/." "$folder/source"
cp "$here/quire.cc" "$folder/source/src/plugins/compressors/"
# In front of the first plugin that needs a library.
sed "/^option(LIBPRESSIO_HAS_SZ3 /e cat '$here/quire.cmake'" "$2/CMakeLists.txt" >"$folder/source/CMakeLists.txt"
build "$folder/source" libpressio -DLIBPRESSIO_BUILD_MODE=CORE -DLIBPRESSIO_HAS_QUIRE=ON -DQUIRE_LIBRARY="$plugin" \
  -DQUIRE_INCLUDE_DIR="$repository_root/filter/include"
step "the test"
g++ -std=c++17 -Wall -I"$install/include/libpressio" -o "$folder/test_quire" "$here/test_quire.cc" -L"$install/lib" -llibpressio "$plugin" \
  -Wl,-rpath-link,"$(dirname "$plugin")"
LD_LIBRARY_PATH="$install/lib:$(dirname "$plugin")" "$folder/test_quire"
