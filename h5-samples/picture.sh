#!/usr/bin/env bash
# Draws pictures: a field at a bound, the ratios of the filter, SZ3 and ZFP from the results of compare.sh, and the speeds of whole_arrays.txt. Run compare.sh
# once before: it makes the environment and the arrays.
#
#     h5-samples/picture.sh [FOLDER]     bound.png, ratios.png and whole_arrays.png go to FOLDER, h5-samples/results by default
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/setup.sh"

environment="$repository_root/.venv-compare"
data="$here/data/seed1-medium"
[[ -x "$environment/bin/python" && -f "$data/fields.json" ]] || fail "no arrays yet: run h5-samples/compare.sh first"
export NVCC=none # the CPU gives the same bytes
plugin="$(take_plugin)"
export HDF5_PLUGIN_PATH="$(dirname "$plugin")" QUIRE_BACKEND=cpu
exec "$environment/bin/python" "$here/picture.py" "$data" "${1:-$here/results}"
