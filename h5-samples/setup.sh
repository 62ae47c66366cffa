# Set-up steps shared by h5-samples/demo.sh and plugin-tests/run.sh. Source this file; it runs nothing by itself.
#
#   step "text"                    say what comes next
#   fail "text"                    say what went wrong, and stop
#   need_apt package...            install Debian packages, only those that are missing
#   unpack folder machine package...  unpack Debian packages of a machine, and all that they depend on, into folder/root; nothing is installed
#   need_venv folder requirement...  a Python environment holding exactly these requirements
#   find_nvcc                      print the path of CUDA's compiler, if this machine has it
#   has_gpu                        whether there is an NVIDIA GPU, as far as can be seen without CUDA
#   need_nvcc                      have CUDA's compiler, from PyPI if need be, and export NVCC for the builds that follow
#   build_plugin [cargo option...] build libh5zquire.so in release and print its path: plugin="$(build_plugin)"
#   take_plugin [cargo option...]  the same, but where QUIRE_RELEASE names a folder of built programs, that folder's plugin, and nothing is built
#
# Every function is cheap when its work is already done, so that a second run of a script costs next to nothing.
# All messages go to standard error: standard output belongs to results such as build_plugin's path.

repository_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# On a terminal apt and pip show their progress; in a log it would only be noise.
quiet_apt=(-qq) quiet_pip=(--quiet)
[[ ! -t 2 ]] || quiet_apt=() quiet_pip=()

step() {
  if [[ -t 2 ]]; then
    printf '\033[1m==> %s\033[0m\n' "$*" >&2
  else
    printf '==> %s\n' "$*" >&2
  fi
}

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

need_apt() {
  local package
  local -a missing=() as_root=()
  for package in "$@"; do
    [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" == installed ]] || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0

  command -v apt-get >/dev/null || fail "please install these packages by hand (no apt-get on this machine): ${missing[*]}"
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || fail "installing ${missing[*]} needs root or sudo"
    as_root=(sudo)
  fi
  step "installing ${missing[*]}"
  # `env` rather than an export: sudo drops the caller's variables.
  # A failed update is not yet an error: the lists already on the machine may do.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update "${quiet_apt[@]}" >&2 || true
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y "${quiet_apt[@]}" --no-install-recommends "${missing[@]}" >&2 ||
    fail "apt-get could not install ${missing[*]}"
}

unpack() {
  local folder="$1" debian="$2" archive
  shift 2
  [[ ! -f "$folder/unpacked" || "$(<"$folder/unpacked")" != "$*" ]] || return 0
  step "packages for $debian: $*"
  rm -rf "$folder"
  mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" "$folder/root"
  # An apt of its own, for which nothing is installed.
  : >"$folder/state/status"
  cat >"$folder/apt.conf" <<CONFIGURATION
APT::Architecture "$debian";
APT::Architectures { "$debian"; };
Dir::State "$folder/state";
Dir::State::status "$folder/state/status";
Dir::Cache "$folder/cache";
CONFIGURATION
  APT_CONFIG="$folder/apt.conf" apt-get "${quiet_apt[@]}" update >&2
  APT_CONFIG="$folder/apt.conf" apt-get "${quiet_apt[@]}" install -y --no-install-recommends --download-only "$@" >&2
  for archive in "$folder"/cache/archives/*.deb; do dpkg-deb -x "$archive" "$folder/root"; done
  rm -r "$folder/state" "$folder/cache"
  echo "$*" >"$folder/unpacked"
}

need_venv() {
  local folder="$1"
  shift
  local stamp="$folder/requirements-installed" wanted
  wanted="$(python3 --version) $*"
  [[ -f "$stamp" && "$(cat "$stamp")" == "$wanted" && -x "$folder/bin/python" ]] && return 0

  # Debian splits ensurepip off into python3-venv; other Pythons bring it along.
  python3 -c 'import ensurepip, venv' 2>/dev/null || need_apt python3-venv
  step "making the Python environment $folder: $*"
  python3 -m venv --clear "$folder" || fail "python3 could not make the environment $folder"
  # --only-binary: a source build of h5py or netCDF4 would link the system's HDF5 and test something else.
  "$folder/bin/python" -m pip install "${quiet_pip[@]}" --disable-pip-version-check --only-binary :all: "$@" >&2 ||
    fail "pip could not install: $*"
  printf '%s\n' "$wanted" >"$stamp"
}

# CUDA's compiler as a library, 90 MB to fetch, for gpu/nvrtc.py, which is called as nvcc is. Kernels of CUDA 12 run with drivers of CUDA 12 and 13.
nvrtc_package="nvidia-cuda-nvrtc-cu12==12.9.86"
nvcc_environment="$repository_root/.venv-nvcc"

# Whether an nvcc is new enough for the kernels: gpu/build.rs has the least version.
is_new_enough() {
  local least release
  least="$(sed -n 's/^const OLDEST_NVCC: (u32, u32) = (\([0-9]*\), \([0-9]*\));$/\1.\2/p' "$repository_root/gpu/build.rs")"
  release="$("$1" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')"
  [[ -n "$release" && "$(printf '%s\n' "$least" "$release" | sort -V | head -1)" == "$least" ]]
}

# Looks where gpu/build.rs looks, in its order.
find_nvcc() {
  local candidate
  if [[ -n "${NVCC:-}" && "$NVCC" != none ]]; then
    printf '%s\n' "$NVCC"
    return 0
  fi
  for candidate in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} ${CUDA_PATH:+"$CUDA_PATH/bin/nvcc"} "$(command -v nvcc || true)" \
    /usr/local/cuda/bin/nvcc; do
    if [[ -x "$candidate" ]] && is_new_enough "$candidate"; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 1
}

has_gpu() {
  [[ -e /dev/nvidia0 ]] || command -v nvidia-smi >/dev/null || { PATH="$PATH:/sbin" ldconfig -p 2>/dev/null | grep 'libcuda\.so' >/dev/null; }
}

need_nvcc() {
  if ! NVCC="$(find_nvcc)"; then
    step "no nvcc on this machine: the kernels are compiled by NVIDIA's NVRTC, from PyPI"
    need_venv "$nvcc_environment" "$nvrtc_package"
    NVCC="$repository_root/gpu/nvrtc.py"
  fi
  command -v "$NVCC" >/dev/null || fail "NVCC=$NVCC is not there"
  # nvcc has the host's C++ compiler preprocess the kernels; NVRTC does so by itself.
  [[ "$NVCC" == *nvrtc.py ]] || command -v g++ >/dev/null || need_apt g++
  export NVCC
  step "GPU kernels will be compiled by $NVCC"
}

build_plugin() {
  local target_folder plugin
  command -v cargo >/dev/null || fail "cargo is not on the PATH"
  command -v cc >/dev/null || need_apt gcc libc6-dev
  # Only the headers and version of the library are looked at; the plugin itself links no libhdf5.
  need_apt libhdf5-dev pkg-config
  # The explicit `|| fail`: inside $(build_plugin) bash does not stop at a failed command by itself.
  cargo build --manifest-path "$repository_root/Cargo.toml" --release -p h5z-quire "$@" >&2 || fail "the plugin did not build"
  target_folder="$(cargo metadata --manifest-path "$repository_root/Cargo.toml" --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')"
  plugin="$target_folder/release/libh5zquire.so"
  [[ -f "$plugin" ]] || fail "cargo finished, but $plugin is not there"
  printf '%s\n' "$plugin"
}

take_plugin() {
  if [[ -z "${QUIRE_RELEASE:-}" ]]; then
    build_plugin "$@"
    return
  fi
  [[ -f "$QUIRE_RELEASE/libh5zquire.so" ]] || fail "QUIRE_RELEASE=$QUIRE_RELEASE has no libh5zquire.so"
  realpath "$QUIRE_RELEASE/libh5zquire.so"
}
