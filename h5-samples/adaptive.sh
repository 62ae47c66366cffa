#!/usr/bin/env bash
# Measures what codebooks save that are kept from chunk to chunk or made for a domain, as in CEAZ's experiment with one dataset behind another. Draws a
# picture, and makes the domain dictionaries in h5-samples/dictionaries again. Needs cargo, python3 and libhdf5-dev; installs the rest. Takes about a minute.
#
#     h5-samples/adaptive.sh [FILE]     the tables go to FILE, series and picture beside it (.csv, .png); results/adaptive.txt by default
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/setup.sh"

environment="$repository_root/.venv-compare"
results="${1:-$here/results/adaptive.txt}"

command -v python3 >/dev/null || fail "python3 is not on the PATH"

step "Python packages"
need_venv "$environment" "numpy==2.*" "pysz==1.*" "zfpy==1.*" "h5py==3.16.*" "hdf5plugin==7.*" "netCDF4==1.7.*" "matplotlib==3.*"

step "plugin, generator, trainer and command line, release build"
export NVCC=none # the CPU gives the same bytes
programs="$(dirname "$(build_plugin -p h5-samples -p quire-trainer -p quire-cli)")"
for seed in 1 2; do
  [[ -f "$here/data/seed$seed-medium/fields.json" ]] || "$programs/generate" "$here/data/seed$seed-medium" --seed "$seed" --size medium
done

step "series of chunks"
"$programs/quire-trainer" adaptive "${results%.txt}.csv" >"$results"
step "dictionaries for domains"
"$environment/bin/python" "$here/adaptive.py" --programs "$programs" --data "$here/data" --dictionaries "$here/dictionaries" --results "$results"
