#!/usr/bin/env bash
# Tests the Python package: builds the wheel with cargo, installs it beside new and beside old versions of the libraries that it works with, checks its
# type hints, and runs its tests there.
#
#     python/test.sh
#     python/test.sh --environments     makes the environments only
#     QUIRE_TORCH=1 python/test.sh      also tests h5z_quire.torch; for x86-64 PyPI has PyTorch with CUDA alone, 2.7 GB to fetch
#
# The environments are made once, in two or three minutes; a further run takes about two minutes on two cores.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

need_venv .venv-python-new h5py==3.16.0 numpy==2.4.6 netCDF4==1.7.5.1.post1 tables==3.11.1 xarray==2026.9.0 h5netcdf==1.8.2 zarr==3.1.6 \
  numcodecs==0.16.6 ml-dtypes==0.6.0 dask==2026.8.0 distributed==2026.8.0 hdf5plugin==7.1.0 b2h5py==0.5.1 \
  virtualizarr==2.5.1 icechunk==1.1.21 kerchunk==0.2.10 compression-safeguards==1.0.0rc5 numcodecs-safeguards==0.1.0rc5 mypy==1.18.2 pytest==8.4.2
need_venv .venv-python-old h5py==3.8.0 numpy==1.26.4 netCDF4==1.6.5 tables==3.9.2 xarray==2024.1.1 pandas==2.2.3 h5netcdf==1.3.0 zarr==2.18.3 \
  numcodecs==0.12.1 ml-dtypes==0.3.2 pytest==8.4.2
environments=(.venv-python-new .venv-python-old)
if [[ "${QUIRE_TORCH:-}" == 1 ]]; then
  need_venv .venv-python-torch torch==2.11.0 h5py==3.16.0 numpy==2.4.6 zarr==3.1.6 ml-dtypes==0.6.0 pytest==8.4.2
  environments+=(.venv-python-torch)
fi
[[ "${1:-}" != --environments ]] || exit 0

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
plugin="${QUIRE_RELEASE:+$QUIRE_RELEASE/libh5zquire.so}"
[[ -n "$plugin" ]] || plugin="$(build_plugin)"

wheel() {
  .venv-python-new/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$1" python/
}

# Without kernels and not optimized: plugin-tests/test_install.py has the same build.
step "the wheel with a library that setup.py has cargo build"
env -u QUIRE_LIBRARY NVCC=none CARGO_TARGET_DIR="$(dirname "$plugin")/../installed/cargo" CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
  CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 bash -c "$(declare -f wheel); wheel $scratch/by-cargo"
libraries="$(python3 -m zipfile --list "$scratch"/by-cargo/*.whl | grep -c 'libh5zquire\.so')"
[[ "$libraries" == 1 ]] || fail "the wheel that setup.py builds has $libraries libraries"

step "the wheel with the library in release"
! QUIRE_LIBRARY=target/release/libh5zquire.so wheel "$scratch/refused" 2>"$scratch/refusal" || fail "a relative QUIRE_LIBRARY is taken"
grep -q "QUIRE_LIBRARY=target/release/libh5zquire.so is a relative path" "$scratch/refusal" || fail "$(cat "$scratch/refusal")"
QUIRE_LIBRARY="$(realpath "$plugin")" wheel "$scratch/wheel"
for environment in "${environments[@]}"; do
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$scratch"/wheel/*.whl
done

step "beside one another: type hints; tests with h5py 3.16 and numpy 2.4; tests with h5py 3.8 and numpy 1.26"
cd python
../.venv-python-new/bin/python -m mypy >"$scratch/types" 2>&1 &
types=$!
../.venv-python-new/bin/python -m pytest -p no:cacheprovider >"$scratch/new" 2>&1 &
new=$!
# Its zarr is version 2, which has no format 3, and the safeguards need a newer numpy.
../.venv-python-old/bin/python -m pytest -p no:cacheprovider --ignore tests/test_zarr.py --ignore tests/test_safeguards.py >"$scratch/old" 2>&1 &
old=$!
torch=""
if [[ "${QUIRE_TORCH:-}" == 1 ]]; then
  ../.venv-python-torch/bin/python -m pytest -p no:cacheprovider tests/test_torch.py tests/test_docstrings.py >"$scratch/torch" 2>&1 &
  torch=$!
fi
cd ..
status=0
for process in "$types" "$new" "$old" $torch; do
  wait "$process" || status=$?
done
cat "$scratch/types" "$scratch/new" "$scratch/old" ${torch:+"$scratch/torch"}

step "code blocks of the documents that need the package"
mkdir "$scratch/reader"
.venv-python-new/bin/python plugin-tests/py/documents.py run "$scratch/reader" --package || status=$?
exit "$status"
