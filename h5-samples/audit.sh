#!/usr/bin/env bash
# Audits error-bounded filters of HDF5: writes arrays through h5py with this filter and with those of SZ3, ZFP and SPERR, and has `quire verify` say who kept
# the bound. Needs cargo, python3 and some ten minutes; installs the rest into .venv-compare. Leaves out arrays that cannot be downloaded.
#
#     h5-samples/audit.sh [FILE]     the table goes to FILE, h5-samples/results/audit.txt by default
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/comparison.sh"

build_plugin -p quire-cli >/dev/null
exec "$environment/bin/python" "$here/audit.py" "$(dirname "$plugin")/quire" "$data" --results "${1:-$here/results/audit.txt}"
