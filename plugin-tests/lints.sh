#!/usr/bin/env bash
# Reads the sources: formatting, clippy, the documents' lengths, links and paths, and the site of documents, docstrings and rustdoc.
#
#     plugin-tests/lints.sh
#
# For a Debian-like machine with cargo and python3. Fetches Sphinx once. Needs root or sudo once, for Debian's packages.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

step "formatting"
cargo fmt --all --check
# hdf5-sys looks at libhdf5-dev's headers, so nothing compiles without it.
need_apt gcc libc6-dev pkg-config libhdf5-dev
[[ "${NVCC:-}" == none ]] || need_nvcc
export CUDAARCHS=80 # as run.sh has it: another one would have the kernels compiled anew
# In the release profile, and with the dependencies of tests and examples, as run.sh builds: else build scripts would run twice, and with them the kernels.
step "clippy"
cargo clippy --workspace --all-targets --release -- -D warnings
step "documents"
# They name what the plugin answers.
QUIRE_RELEASE="$(dirname "$(build_plugin --workspace --all-targets)")"
export QUIRE_RELEASE
python3 plugin-tests/py/documents.py lint
packaging/site.sh
