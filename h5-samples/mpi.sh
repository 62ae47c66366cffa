#!/usr/bin/env bash
# Measures parallel HDF5: 1, 2, 4 ... ranks write one dataset together and read it back, without a filter, with ours on the CPU and on the GPU where
# there is one, with gzip, SZ3 and ZFP. Needs cargo, python3, a C compiler and 2 GB in /dev/shm; Debian's h5py with MPI is installed, the rest goes into
# .venv-mpi.
#
#     h5-samples/mpi.sh [FILE [OPTION...]]     the table goes to FILE, figures (.csv) and picture (.png) beside it; by default h5-samples/results/mpi.txt.
#                                              Options are mpi.py's: --ranks 1,2,4,8,16
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/setup.sh"

environment="$repository_root/.venv-mpi"
results="${1:-$here/results/mpi.txt}"

need_apt gcc libc6-dev python3-h5py-mpi python3-mpi4py openmpi-bin openssh-client
step "Python packages"
need_venv "$environment" "hdf5plugin==7.*" "matplotlib==3.*"
peers=("$environment"/lib/python3*/site-packages)

backends=cpu
if has_gpu; then
  need_nvcc
  backends=cpu,cuda,auto
fi
step "plugin, release build"
plugin="$(build_plugin)"
clock="$(dirname "$plugin")/filter_clock.so"
cc -O2 -shared -fPIC "$here/filter_clock.c" -o "$clock"

# Debian's h5py is for Debian's Python.
COMMAND="h5-samples/mpi.sh $*" /usr/bin/python3 "$here/mpi.py" --plugin "$(dirname "$plugin")" --clock "$clock" --peers "${peers[0]}" \
  --results "$results" --backends "$backends" "${@:2}"
exec "$environment/bin/python" "$here/mpi.py" plot "${results%.txt}.csv" "${results%.txt}.png"
