#!/usr/bin/env bash
# Compares the filter's ratios with those of SZ3, ZFP, SPERR and three lossless compressors over many arrays, and checks every bound. Then measures
# bits per value against PSNR, with a picture. Needs cargo, python3 and some ten minutes; installs the rest into .venv-compare. Leaves out arrays
# that cannot be downloaded. A second run measures this filter alone, and what the CSVs lack of the others.
#
#     h5-samples/compare.sh [FOLDER]     compare.txt and .csv, rate_distortion.csv and .png, equal_psnr.txt and .png go to FOLDER, h5-samples/results by default
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/comparison.sh"

results="${1:-$here/results}"
"$environment/bin/python" "$here/compare.py" "$data" --results "$results"
exec "$environment/bin/python" "$here/rate_distortion.py" "$data" --results "$results"
