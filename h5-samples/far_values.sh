#!/usr/bin/env bash
# Counts whether the rule for far values leaves arrays without such values alone, and does for undeclared fill values what a declared one gets. Needs cargo and
# python3; installs the rest into .venv-compare. Takes about four minutes.
#
#     h5-samples/far_values.sh     The table goes to standard output.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/comparison.sh"

exec "$environment/bin/python" "$here/far_values.py" "$plugin" "$data"
