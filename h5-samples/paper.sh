#!/usr/bin/env bash
# Repeats the experiment of Shah et al. (ICS'23): a 512^3 density field is written through HDF5, with codebooks from the dictionary and with
# codebooks made for each chunk. Needs an NVIDIA GPU, cargo, python3, and 3 GB in /dev/shm; installs the rest. Without a GPU it measures only
# the CPU, which takes longer.
#
#     h5-samples/paper.sh [FILE [OPTION...]]     the table goes to FILE, the picture beside it (.png); by default into data/, which git
#                                                ignores. Options are paper.py's, --size 64 for a quick look
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/setup.sh"

environment="$repository_root/.venv-paper"
results="${1:-$here/data/paper.txt}"

command -v python3 >/dev/null || fail "python3 is not on the PATH"

step "Python packages"
need_venv "$environment" "h5py==3.16.*" "numpy==2.*" "matplotlib==3.*"

backends=(cuda cpu)
if has_gpu; then
  need_nvcc
else
  step "no GPU found: measuring the CPU alone"
  backends=(cpu)
fi

step "plugin, release build"
plugin="$(build_plugin)"
exec "$environment/bin/python" "$here/paper.py" --plugin "$(dirname "$plugin")" --results "$results" --plot "${results%.txt}.png" \
  --backends "${backends[@]}" "${@:2}"
