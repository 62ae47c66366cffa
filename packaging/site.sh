#!/usr/bin/env bash
# Builds the site into target/site: the repository's documents, Python's docstrings, C's header and rustdoc. Fails for a link that leads nowhere.
#
#     packaging/site.sh
#
# For a Debian-like machine with cargo and python3. Fetches Sphinx once. Needs root or sudo once, for Debian's packages.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=../h5-samples/setup.sh
source h5-samples/setup.sh

plugin="$(take_plugin)"
# hdf5-sys looks at libhdf5-dev's headers, so that rustdoc needs them where the plugin is built already.
need_apt gcc libc6-dev pkg-config libhdf5-dev
need_venv .venv-site sphinx==9.0.4 myst-parser==5.2.0 furo==2025.12.19 numpy==2.4.6 netCDF4==1.7.5.1.post1 setuptools==84.2.1
python=.venv-site/bin/python
QUIRE_LIBRARY="$plugin" $python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall python/

step "rustdoc"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --release --quiet --lib --bin quire --bin generate --examples
step "the site"
site=target/site
rm -rf "$site"
$python -m sphinx --fail-on-warning --keep-going --quiet --doctree-dir "$site/doctrees" --conf-dir packaging/site . "$site"
rm -r "$site/doctrees"
# Tables of results and sources open in the browser.
find "$site" -name '*.html' -exec sed -i 's/ download=""//g' {} +
cp "$site/README.html" "$site/index.html"
cp -r "${CARGO_TARGET_DIR:-target}/doc" "$site/rust"
$python packaging/site/links.py "$site"
