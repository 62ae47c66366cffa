#!/usr/bin/env bash
# Builds and tests everything here, on a Debian-like machine. SCREENSHOT=web/screenshot.png takes that picture anew.
#
#     HDF5_PLUGIN_PATH=FOLDER web/test.sh [PYTHON]
#
# The folder has libh5zquire.so, which writes the files of the tests. PYTHON is a Python with h5py and netCDF4. Needs root or sudo once, for Debian's packages.
set -euo pipefail
[[ -z "${SCREENSHOT:-}" ]] || SCREENSHOT="$(realpath "$SCREENSHOT")" # before the folder changes
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=../h5-samples/setup.sh
source ../h5-samples/setup.sh
python="${1:-python3}"

need_apt clang lld make gcc netcdf-bin chromium
command -v npm >/dev/null || need_apt nodejs npm
if [[ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]]; then
  step "skipped: the package needs Node.js 20, and here is $(node --version)"
  exit
fi
export FILES CHROMIUM
FILES="$(mktemp -d)"
CHROMIUM="$(command -v chromium)"
trap 'rm -rf "$FILES"' EXIT

./build.sh
[[ "$(stat -c %s dist/libh5zquire.so)" -lt 300000 ]] || fail "the plugin has 300 kB or more"
"$python" test/make_files.py "$FILES"
node --test --test-concurrency=1 test/*.test.mjs
npm pack --dry-run --ignore-scripts
