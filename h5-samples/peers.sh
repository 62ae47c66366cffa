#!/usr/bin/env bash
# Compares speed and ratio of the plugin's filter() on the CPU with SZ3 and ZFP, on the chunks of compare.sh's arrays. Needs cargo and python3; installs the
# rest into .venv-compare. Takes about two minutes with 15 repeats.
#
#     h5-samples/peers.sh [REPEATS [NAME...]]     15 repeats, all arrays by default. The table goes to standard output.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/comparison.sh"

exec "$environment/bin/python" "$here/peers.py" "$plugin" "$data" "$@"
