#!/usr/bin/env bash
# Runs the test suites of h5py, xarray, zarr, numcodecs and b2h5py without us and with us (py/suites.py), and h5repack, nccopy and `quire repack` over
# the files that packages ship (py/shipped_files.py). run.sh runs this.
#
#     plugin-tests/suites.sh [NAME ...]          all of them, or the suites whose names hold one of NAME
#     plugin-tests/suites.sh --environment       fetches what they need, and ends
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

# Ours is never installed in it: a run without us finds nothing of ours.
environment="$PWD/.venv-suites"
zarr=3.1.6
need_venv "$environment" h5py==3.16.0 numpy==2.4.6 netCDF4==1.7.5.1.post1 tables==3.11.1 xarray==2026.9.0 h5netcdf==1.8.2 "zarr==$zarr" \
  numcodecs==0.16.6 ml-dtypes==0.6.0 dask==2026.8.0 distributed==2026.8.0 scipy==1.17.1 b2h5py==0.5.1 hdf5plugin==7.1.0 \
  pytest==8.4.2 pytest-asyncio==1.5.0 pytest-mpi==0.6 hypothesis==6.170.17 iris-sample-data==2.5.2 eofs==2.0.0
# zarr's wheel has no tests, its source distribution has.
if [[ ! -d "$environment/zarr" ]]; then
  step "fetching zarr's tests"
  "$environment/bin/python" -m pip download "${quiet_pip[@]}" --disable-pip-version-check --no-deps --no-binary zarr --dest "$environment" "zarr==$zarr" >&2
  tar -xzf "$environment/zarr-$zarr.tar.gz" -C "$environment"
  mv "$environment/zarr-$zarr" "$environment/zarr"
fi
[[ "${1:-}" != --environment ]] || exit 0

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
release="${QUIRE_RELEASE:-}"
[[ -n "$release" ]] || release="$(dirname "$(build_plugin -p quire-cli)")"
QUIRE_LIBRARY="$(realpath "$release/libh5zquire.so")" "$environment/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
  --wheel-dir "$scratch" python/
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$scratch/with-us" "$scratch"/*.whl
ln -s "$environment/zarr" "$scratch/zarr"

# Tests do not depend on the signals that the caller ignores.
python=(env --default-signal "$environment/bin/python")
status=0
if [[ $# == 0 ]]; then
  need_apt hdf5-tools netcdf-bin
  step "h5repack, nccopy and quire repack over the files that packages ship"
  HDF5_PLUGIN_PATH="$scratch/with-us/h5z_quire/plugins" "${python[@]}" plugin-tests/py/shipped_files.py "$release/quire" || status=1
fi
step "the suites of others, without us and with us"
# It takes samples as the tests of streams/ do.
PYTHONPATH="$PWD/streams" "${python[@]}" plugin-tests/py/suites.py "$scratch" "$@" || status=1
exit "$status"
