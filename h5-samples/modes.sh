#!/usr/bin/env bash
# What each kind of bound gives: exact bits beside lossless compressors, PSNR and ratio asked for and reached, point-wise bounds. Every promise is checked. Run
# compare.sh before it once: it makes the environment and the arrays. About four minutes.
#
#     h5-samples/modes.sh [PART...]     lossless, psnr, ratio, pointwise; all by default. The table goes to standard output.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/setup.sh"

environment="$repository_root/.venv-compare"
data="$here/data/seed1-medium"
[[ -x "$environment/bin/python" && -f "$data/fields.json" ]] || fail "no arrays yet: run h5-samples/compare.sh first"
export NVCC=none # the CPU gives the same bytes
plugin="$(build_plugin)"
export HDF5_PLUGIN_PATH="$(dirname "$plugin")" QUIRE_BACKEND=cpu OMP_NUM_THREADS=1
exec "$environment/bin/python" "$here/modes.py" "$data" "$@"
