#!/usr/bin/env bash
# Measures each kind of bound: exact bits beside lossless compressors, the PSNR and the ratio that are reached, point-wise bounds. Every promise is
# checked. Needs cargo and python3; installs the rest into .venv-compare. Takes about four minutes.
#
#     h5-samples/modes.sh [PART...]     lossless, psnr, ratio, pointwise; all by default. The table goes to standard output.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/comparison.sh"

exec "$environment/bin/python" "$here/modes.py" "$data" "$@"
