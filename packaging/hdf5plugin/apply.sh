#!/usr/bin/env bash
# Adds the reader in C to an unpacked source distribution of hdf5plugin: the sources, the patch, and a file for its tests.
#
#     packaging/hdf5plugin/apply.sh FOLDER
#
# make, patch and a C compiler are needed.
set -euo pipefail

folder="$(realpath "$1")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

patch --forward --directory "$folder" --strip 1 --input "$PWD/packaging/hdf5plugin/quire.patch"
make --silent -C streams/reader OUT="$scratch" "$scratch/quire_books.h"
mkdir "$folder/lib/quire"
cp LICENSE streams/reader/{quire_filter.c,quire_reader.c,quire_reader.h,quire_crc32.c} "$scratch/quire_books.h" "$folder/lib/quire"
cp h5-samples/v1_0_0.h5 "$folder/test/quire.h5"
