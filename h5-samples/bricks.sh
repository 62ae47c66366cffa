#!/usr/bin/env bash
# Measures `brick=` on flattened boxes beside SZ3, ZFP and gzip, on one thread. Needs cargo, python3 and 1.2 GB of disk for the generator's large fields;
# installs the rest into .venv-bricks. Takes about ten minutes.
#
#     h5-samples/bricks.sh [ROUNDS]     3 rounds by default. The table goes to standard output.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/setup.sh"

environment="$repository_root/.venv-bricks"
data="$repository_root/h5-samples/data/seed1-large"
need_venv "$environment" "numpy==2.*" "h5py==3.16.*" "hdf5plugin==7.*"
export NVCC=none # the CPU gives the same bytes
plugin="$(build_plugin -p h5-samples)"
[[ -f "$data/fields.json" ]] || "$(dirname "$plugin")/generate" "$data" --seed 1 --size large

# HDF5 finds only our plugin and those that hdf5plugin registers. Each codec has one thread, and no GPU.
export HDF5_PLUGIN_PATH="$(dirname "$plugin")" QUIRE_BACKEND=cpu OMP_NUM_THREADS=1
exec "$environment/bin/python" "$here/bricks.py" "$data" "$@"
