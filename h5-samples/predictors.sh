#!/usr/bin/env bash
# How far the predictor that the encoder chooses is from the best one, found by trial of all, over many arrays, chunk sizes and bounds. Needs cargo and
# python3; installs the rest into .venv-compare. About ten minutes.
#
#     h5-samples/predictors.sh [FOLDER]     predictors.txt goes to FOLDER, h5-samples/results by default
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/comparison.sh"

results="${1:-$here/results}"
cargo build --release --quiet -p quire-codec --example predictors
exec "$environment/bin/python" "$here/predictors.py" "$data" "$(dirname "$plugin")/examples/predictors" --results "$results/predictors.txt"
