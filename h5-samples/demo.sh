#!/usr/bin/env bash
# Compresses scientific fields through the plugin with h5py, netCDF and the HDF5 tools, checks every value against its bound and
# prints ratios and speeds. Needs cargo, python3 and root or sudo; installs the rest. Ends with 0 only if all bounds are kept.
# If the machine has a GPU, the GPU compresses; with QUIRE_BACKEND=cpu, the CPU does.
#
#     h5-samples/demo.sh [FILE]     also writes the table to FILE; by default into the folder of the data, which git ignores
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/setup.sh"

seed=1
size=medium
environment="$repository_root/.venv-demo"
data="$here/data/seed$seed-$size"
results="${1:-$data/demo.txt}"

# Installs a Python package that the demo can do without. Prints one line if that fails.
want_package() {
  local requirement="$1" module="$2" without="$3"
  "$environment/bin/python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$module') is None)" && return 0
  "$environment/bin/python" -m pip install "${quiet_pip[@]}" --disable-pip-version-check --retries 1 --timeout 15 \
    --only-binary :all: "$requirement" >&2 2>/dev/null || printf '    %s cannot be had: %s\n' "$requirement" "$without" >&2
}

command -v python3 >/dev/null || fail "python3 is not on the PATH"

step "HDF5 tools"
need_apt hdf5-tools

step "Python packages"
need_venv "$environment" "h5py==3.16.*" "numpy==2.*" "tqdm==4.*"
want_package "netCDF4==1.7.*" netCDF4 "going on without the netCDF-4 file"
want_package "iris-sample-data==2.5.*" iris_sample_data "going on without real climate fields"

if has_gpu; then
  step "a GPU: the plugin gets its kernels"
  need_nvcc
elif NVCC="$(find_nvcc)"; then
  export NVCC
  step "no GPU found; the kernels are compiled all the same, as nvcc is there: $NVCC"
else
  export NVCC=none
  step "no GPU found: the plugin is built for the CPU alone"
fi

step "plugin and generator, release build"
plugin="$(take_plugin -p h5-samples)"
generate="$(dirname "$plugin")/generate"

step "the Python package, for whole arrays on all cores"
QUIRE_LIBRARY="$(realpath "$plugin")" "$environment/bin/python" -m pip install "${quiet_pip[@]}" --disable-pip-version-check --no-deps \
  --force-reinstall "$repository_root/python" >&2 || fail "pip could not install the package h5z-quire from $repository_root/python"

step "fields"
# The generator writes fields.json last, so that a folder with that file is complete. A newer generator may write other fields.
if [[ ! -f "$data/fields.json" || "$generate" -nt "$data/fields.json" ]]; then
  "$generate" "$data" --seed "$seed" --size "$size"
fi

# HDF5 finds only our plugin, whatever else is installed.
export HDF5_PLUGIN_PATH="$(dirname "$plugin")"
exec "$environment/bin/python" "$here/demo.py" --data "$data" --results "$results"
