#!/usr/bin/env bash
# Speed and ratio of the plugin's filter() beside SZ3 and ZFP: h5-samples/peers.sh [REPEATS]. Installs both into .venv-peers.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/setup.sh"

step "Python packages"
need_venv "$repository_root/.venv-peers" "numpy==2.*" "pysz==1.*" "zfpy==1.*"

step "plugin and generator, release build"
plugin="$(build_plugin -p h5-samples)"
data="$here/data/seed1-medium"
[[ -f "$data/fields.json" ]] || "$(dirname "$plugin")/generate" "$data" --seed 1 --size medium

exec "$repository_root/.venv-peers/bin/python" "$here/peers.py" "$plugin" "$data" "${1:-31}"
