#!/usr/bin/env bash
# Makes everything that a release uploads, in dist/, and uses it where nothing else is installed. README.md says what a release is made of.
#
#     packaging/release.sh
#     packaging/release.sh PLATFORM...     the archives and wheels of these platforms alone
#
# For a Debian machine on x86-64 with cargo from rustup. Needs root or sudo once, for QEMU. What has been built is built again only where it has changed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

# A platform: its name; Rust's target; zig's target, which says the oldest glibc; the wheel's tag; where it is tried: under Wine, or in a root of a Debian
# machine with these packages. Where there is no such place, what is built is not run, and has no `quire`.
platforms="
linux-x86_64   x86_64-unknown-linux-gnu   x86_64-linux-gnu.2.28   manylinux_2_28_x86_64   amd64  python3-minimal libpython3-stdlib libstdc++6
linux-aarch64  aarch64-unknown-linux-gnu  aarch64-linux-gnu.2.28  manylinux_2_28_aarch64  arm64  python3-minimal libpython3-stdlib libstdc++6
musl-x86_64    x86_64-unknown-linux-musl  x86_64-linux-musl       musllinux_1_2_x86_64    amd64  musl
macos-x86_64   x86_64-apple-darwin        -                       macosx_11_0_x86_64
macos-arm64    aarch64-apple-darwin       -                       macosx_11_0_arm64
windows-amd64  x86_64-pc-windows-gnu      x86_64-windows-gnu      win_amd64               wine
"

[[ "$(uname -m)" == x86_64 ]] || fail "this machine is $(uname -m): what is built is tried on x86-64, or under QEMU on it"
command -v rustup >/dev/null || fail "rustup is not on the PATH: it has Rust's standard library for other machines"
need_apt gcc libc6-dev git gcc-mingw-w64-x86-64 libhdf5-dev pkg-config unzip llvm qemu-user-static wine64
need_venv .venv-release ziglang==0.15.2 cargo-zigbuild==0.24.1 cmake==3.31.10 build==1.6.1 auditwheel==6.8.2 abi3audit==0.0.26 twine==7.0.0
need_nvcc

tools="$PWD/.venv-release/bin"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
target="${CARGO_TARGET_DIR:-$PWD/target}"
work="$target/release-work"
native="$work/linux-x86_64/hdf5" # the HDF5 that runs on this machine
# These crates carry the sources of HDF5 2.2.0 and zlib.
crates_in_c=(hdf5-metno-src@=0.10.4 libz-sys@=1.1.33)
# The time of all files in archives and wheels.
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
# A plugin for musl is a shared library, so that musl is one, too.
export SOURCE_DATE_EPOCH PATH="$tools:$PATH" MACOSX_DEPLOYMENT_TARGET=11.0 CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS=-Ctarget-feature=-crt-static

# Packs a folder: equal files make equal bytes.
#     pack FOLDER ARCHIVE
pack() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX -C "$(dirname "$1")" -c "$(basename "$1")" |
    gzip -9n >"$2"
}

# Fetches the sources in C. cargo compares their checksums.
fetch_sources() {
  [[ ! -f "$work/sources/fetched" || "$(<"$work/sources/fetched")" != "${crates_in_c[*]}" ]] || return 0
  step "the sources of HDF5 and zlib"
  rm -rf "$work/sources"
  mkdir -p "$work/sources/src"
  : >"$work/sources/src/lib.rs"
  printf '[package]\nname = "sources"\nedition = "2024"\n[workspace]\n' >"$work/sources/Cargo.toml"
  cargo add --quiet --manifest-path "$work/sources/Cargo.toml" "${crates_in_c[@]}"
  cargo vendor --quiet --manifest-path "$work/sources/Cargo.toml" "$work/sources/vendor" >/dev/null
  echo "${crates_in_c[*]}" >"$work/sources/fetched"
}

# Puts into a prefix of HDF5, for another machine, what the build script of hdf5-metno-sys can load: it asks the library for its version.
make_loadable() {
  mkdir -p "$1/bin"
  cp "$native/lib/libhdf5.so" "$1/bin"
}

# Builds the HDF5 that `quire` brings along. It is a shared library, as plugins look up its functions. It reads gzip, and not szip.
#     build_hdf5 PLATFORM ZIG_TARGET
build_hdf5() {
  local name="$1" zig="$2" folder="$work/$1" zlib="$work/sources/vendor/libz-sys/src/zlib" system=Linux cc="$work/$1/cc" tool
  local -a settings
  [[ ! -f "$folder/hdf5-built" ]] || return 0
  step "$name: HDF5"
  mkdir -p "$folder/zlib"
  for tool in "cc -target $zig" ar ranlib; do
    printf '#!/bin/sh\nexec "%s/python" -m ziglang %s "$@"\n' "$tools" "$tool" >"$folder/${tool%% *}"
    chmod +x "$folder/${tool%% *}"
  done
  [[ "$zig" != *-windows-* ]] || system=Windows cc=x86_64-w64-mingw32-gcc
  (cd "$folder/zlib" && "$cc" -O2 -fPIC -fvisibility=hidden -DHAVE_UNISTD_H -c "$zlib"/*.c && "$folder/ar" rcs libz.a ./*.o)
  settings=(
    -D{BUILD_STATIC_LIBS,BUILD_TESTING,HDF5_BUILD_{TOOLS,EXAMPLES,HL_LIB,UTILS},HDF5_ENABLE_SZIP_SUPPORT,CMAKE_LINK_DEPENDS_USE_LINKER}=OFF
    -D{BUILD_SHARED_LIBS,HDF5_NO_PACKAGES,HDF5_ENABLE_ZLIB_SUPPORT}=ON
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME="$system" -DCMAKE_SYSTEM_PROCESSOR="${zig%%-*}" -DCMAKE_SHARED_LINKER_FLAGS=-s
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_AR="$folder/ar" -DCMAKE_RANLIB="$folder/ranlib"
    -DZLIB_LIBRARY="$folder/zlib/libz.a" -DZLIB_INCLUDE_DIR="$zlib" -DCMAKE_INSTALL_PREFIX="$folder/hdf5" -DCMAKE_INSTALL_LIBDIR=lib
  )
  { cmake -S "$work/sources/vendor/hdf5-metno-src/ext/hdf5" -B "$folder/build" "${settings[@]}" && cmake --build "$folder/build" --parallel "$(nproc)" &&
    cmake --install "$folder/build"; } >"$folder/hdf5.log" 2>&1 || fail "HDF5 did not build: see $folder/hdf5.log"
  make_loadable "$folder/hdf5"
  touch "$folder/hdf5-built"
}

# Builds the plugin and `quire`. x86-64 with glibc has the kernels, as NVIDIA's driver is for glibc.
build_programs() {
  local oldest_glibc="" cargo
  step "$name: the plugin and quire"
  [[ "$zig" != *-gnu.* ]] || oldest_glibc=".${zig#*-gnu.}"
  cargo=(env "HDF5_DIR=$work/$name/hdf5" "NVCC=$([[ "$name" == linux-x86_64 ]] && echo "$NVCC" || echo none)" "$compiler")
  "${cargo[@]}" build --release --locked --target "$rust$oldest_glibc" -p h5z-quire -p quire-cli
  [[ -z "$rpath" ]] ||
    "${cargo[@]}" rustc --release --locked --target "$rust$oldest_glibc" -p quire-cli --bin quire -- "-Clink-arg=-Wl,-rpath,$rpath"
}

# Builds the plugin alone. The linker looks for libhdf5 on behalf of a crate, though the plugin needs nothing of it.
build_plugin_alone() {
  local hdf5="$work/headers"
  step "$name: the plugin"
  mkdir -p "$hdf5/lib"
  ln -sfn "$native/include" "$hdf5"
  make_loadable "$hdf5"
  python -m ziglang ar crs "$hdf5/lib/libhdf5.a"
  env NVCC=none "HDF5_DIR=$hdf5" cargo-zigbuild build --release --locked --target "$rust" -p h5z-quire
}

# The libraries that a program or library needs.
needed() {
  llvm-readobj --needed-libs "$1" | sed -n '/^NeededLibraries/,/^]/ s/^  *\(.*\)/\1/p' | grep -vF "$(basename "$1")" | sort -u
}

# Packs what needs no installer.
make_archive() {
  local folder="$work/$name/$archive" hdf5
  step "$name: the archive; the plugin needs $(needed "$built/$plugin" | xargs)"
  ! needed "$built/$plugin" | grep -iE 'hdf5|cuda' || fail "the plugin is to load without them"
  rm -rf "$folder"
  mkdir -p "$folder"/{include,plugin}
  cp "$built/$plugin" "$folder/plugin"
  cp filter/include/h5z_quire.h "$folder/include"
  cp LICENSE "$folder"
  cp packaging/archive.txt "$folder/README.txt"
  if [[ -n "$machine" ]]; then
    mkdir -p "$folder"/{bin,licenses,"$libraries"}
    cp "$built/$program" "$folder/bin"
    hdf5="$(needed "$built/$program" | grep hdf5)"
    cp "$work/$name/hdf5/$libraries/$hdf5" "$folder/$libraries"
    cp "$work/sources/vendor/hdf5-metno-src/ext/hdf5/LICENSE" "$folder/licenses/HDF5"
    cp "$work/sources/vendor/libz-sys/src/zlib/LICENSE" "$folder/licenses/zlib"
  fi
  pack "$folder" "dist/$archive.tar.gz"
}

make_wheel() {
  local wheels="$work/$name/wheels" wheel
  step "$name: the wheel"
  rm -rf "$wheels"
  QUIRE_LIBRARY="$built/$plugin" python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$wheels" python/
  wheel="$(echo "$wheels"/*.whl)"
  # It knows musl by the name that Alpine gives its library, and Rust links libc.so, which musl's loader takes for itself.
  [[ "$tag" != manylinux* ]] || auditwheel show "$wheel"
  [[ "$wheel" == *-py3-none-"$tag".whl ]] || fail "$wheel is not for $tag"
  abi3audit --verbose "$wheel"
  mv "$wheel" dist
}

# Looks for the functions of the plugin that others call.
check_exports() {
  local exports symbol
  if [[ "$plugin" == *.dll ]]; then
    exports="$(llvm-readobj --coff-exports "$built/$plugin" | sed -n 's/^ *Name: //p')"
  else
    exports="$(llvm-nm --extern-only --defined-only --format=just-symbols "$built/$plugin" | sed 's/^_//')"
  fi
  for symbol in H5PLget_plugin_type H5PLget_plugin_info $(grep -oE '\bquire_[a-z0-9_]+\(' filter/include/h5z_quire.h | tr -d '(' | sort -u); do
    grep -qx "$symbol" <<<"$exports" || fail "$plugin does not export $symbol"
  done
}

# Uses `quire` by a command that reads and writes files of a folder.
#     try_quire FOLDER COMMAND...
try_quire() {
  "${@:2}" doctor
  "${@:2}" repack --rel 1e-3 "$1/v1_0_0.h5" "$1/copy.h5"
  "${@:2}" verify "$1/v1_0_0.h5" "$1/copy.h5"
}

# Uses the archive under Wine.
try_wine() {
  local folder="$work/$name/wine"
  step "$name: the archive, under Wine"
  rm -rf "$folder"
  mkdir "$folder"
  tar -xzf "dist/$archive.tar.gz" -C "$folder"
  cp h5-samples/v1_0_0.h5 "$folder"
  # Wine 8 lacks this library, which Windows has.
  x86_64-w64-mingw32-gcc -O1 -shared -o "$folder/bcryptprimitives.dll" plugin-tests/c/bcryptprimitives.c -ladvapi32
  try_quire "Z:$folder" env WINEPREFIX="$folder/prefix" WINEPATH="Z:$folder" WINEDEBUG=-all "HDF5_PLUGIN_PATH=Z:$folder/$archive/plugin" \
    /usr/lib/wine/wine64 "$folder/$archive/bin/quire.exe"
}

# Uses the archive and the wheel in a root that has neither compilers nor HDF5.
try_root() {
  local folder="$work/$name/machine" root="$work/$name/machine/root" interpreter
  local -a inside python
  unpack "$folder" "$machine" "${packages[@]}"
  rm -rf "$root/opt"
  mkdir -p "$root"/{opt,proc,tmp}
  tar -xzf "dist/$archive.tar.gz" -C "$root/opt"
  cp h5-samples/v1_0_0.h5 packaging/try.py "$root/opt"
  inside=(unshare --map-root-user --fork --pid --mount-proc --root="$root")
  if [[ "$machine" == arm64 ]]; then
    cp "$(command -v qemu-aarch64-static)" "$root/opt/qemu"
    inside+=(/opt/qemu)
  fi

  step "$name: the archive, in a root of ${packages[*]}"
  try_quire /opt env -i "HDF5_PLUGIN_PATH=/opt/$archive/plugin" "${inside[@]}" "/opt/$archive/bin/quire"

  interpreter="$(cd "$root" && echo usr/bin/python3.*)"
  if [[ ! -x "$root/$interpreter" ]]; then
    step "$name: the wheel is not run, as Debian has no such Python"
    return
  fi
  step "$name: the wheel"
  python -m pip install --quiet --disable-pip-version-check --target "$root/opt/python" --no-compile --only-binary :all: --implementation cp \
    --platform "$tag" --python-version "${interpreter#*python}" dist/*"$tag.whl" h5py==3.16.0
  python=(env -i PYTHONPATH=/opt/python "${inside[@]}" "/$interpreter")
  "${python[@]}" -m h5z_quire
  "${python[@]}" /opt/try.py /opt/v1_0_0.h5
}

# Tries what has been made, as far as that runs here.
try() {
  step "$name: the plugins of archive and wheel are equal"
  unzip -p dist/*"$tag.whl" "h5z_quire/plugins/*" | cmp - "$built/$plugin"
  check_exports
  case "$machine" in
    "") step "$name: it exports what HDF5 and C programs call; it is not run, as there is no such machine here" ;;
    wine) try_wine ;;
    *) try_root ;;
  esac
}

release_platform() {
  local name="$1" rust="$2" zig="$3" tag="$4" machine="${5:-}" archive="h5z-quire-$version-$1" built="$target/$2/release"
  # shellcheck disable=SC2016 # the loader knows what $ORIGIN is
  local compiler=cargo-zigbuild plugin=libh5zquire.so program=quire libraries=lib rpath='$ORIGIN/../lib'
  local -a packages=("${@:6}")
  case "$rust" in
    *-darwin) plugin=libh5zquire.dylib ;;
    *-windows-*) compiler=cargo plugin=h5zquire.dll program=quire.exe libraries=bin rpath="" ;; # a program finds the libraries in its folder
  esac
  rustup --quiet target add "$rust"
  if [[ -n "$machine" ]]; then
    build_hdf5 "$name" "$zig"
    build_programs
  else
    build_plugin_alone
  fi
  make_archive
  make_wheel
  try
}

# Packs the Python package with the crates, and has pip build the plugin from them.
make_source_distribution() {
  local folder="$work/source-distribution" made
  step "the source distribution"
  rm -rf "$folder"
  python -m build --sdist --outdir "$folder" python >/dev/null
  made="$(echo "$folder"/*.tar.gz)"
  tar -xzf "$made" -C "$folder"
  pack "${made%.tar.gz}" "dist/$(basename "$made")"

  step "the source distribution: pip has cargo build it, without kernels and not optimized"
  need_venv "$work/environment" h5py==3.16.0 numpy==2.4.6
  env -u QUIRE_LIBRARY NVCC=none CARGO_TARGET_DIR="$work/from-source" CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    "$work/environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "dist/$(basename "$made")"
  "$work/environment/bin/python" packaging/try.py h5-samples/v1_0_0.h5
}

# Packs the crate of the codec, which has no dependency of ours. cargo builds it from the package.
make_crate() {
  step "the crate of the codec"
  cargo package --quiet --locked -p quire-codec --target-dir "$target"
  cp "$target/package/quire-codec-$version.crate" dist
}

# Lists what `quire` and the plugin are made of, on any platform.
make_bill_of_materials() {
  local sources="$work/materials"
  step "the bill of materials"
  cargo install --quiet --locked --debug --root "$work/cargo" --version 0.5.9 cargo-cyclonedx
  rm -rf "$sources"
  mkdir "$sources"
  # It writes beside each Cargo.toml.
  git archive HEAD | tar -x -C "$sources"
  cargo add --quiet --manifest-path "$sources/cli/Cargo.toml" "${crates_in_c[@]}"
  "$work/cargo/bin/cargo-cyclonedx" cyclonedx --quiet --format json --no-build-deps --target all --manifest-path "$sources/Cargo.toml" \
    --override-filename materials
  cp "$sources/cli/materials.json" "dist/h5z-quire-$version.cdx.json"
}

rm -rf dist
mkdir -p dist "$work"
fetch_sources
build_hdf5 linux-x86_64 x86_64-linux-gnu.2.28
while read -r -a platform; do
  [[ ${#platform[@]} -gt 0 ]] || continue
  [[ $# -eq 0 || " $* " == *" ${platform[0]} "* ]] || continue
  release_platform "${platform[@]}" </dev/null
done <<<"$platforms"

if [[ $# -eq 0 ]]; then
  make_source_distribution
  make_crate
  make_bill_of_materials
fi
twine check --strict dist/h5z_quire-*
(cd dist && sha256sum -- * >../checksums && mv ../checksums SHA256SUMS && cat SHA256SUMS)
