#!/usr/bin/env bash
# Builds dist/: the plugin, its bytes as a module, and the viewer as one page. Needs clang, wasm-ld, gcc, make, node and npm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
reader=../streams/reader
flags=(--target=wasm32-unknown-emscripten -std=c99 -Wall -Wextra -O2 -ffreestanding -fPIC -fvisibility=hidden -ffp-contract=off
    -mbulk-memory -mmutable-globals -msign-ext -isystem libc -I"$reader" -Ibuild)
mkdir -p build dist

# The reader in C as a module of emscripten's dynamic linker. emscripten itself is not needed.
make -s -C $reader OUT="$PWD/build" "$PWD/build/quire_books.h"
for source in $reader/quire_reader.c $reader/quire_crc32.c plugin.c; do
    clang "${flags[@]}" -c "$source" -o "build/$(basename "$source" .c).o"
done
wasm-ld --shared --experimental-pic --strip-all --no-entry --export=quire_describe --export=quire_read --export=H5PLget_plugin_type \
    --export=H5PLget_plugin_info build/quire_reader.o build/quire_crc32.o build/plugin.o -o dist/libh5zquire.so
chmod -x dist/libh5zquire.so
echo "export default Uint8Array.from(atob(\"$(base64 -w0 dist/libh5zquire.so)\"), (letter) => letter.charCodeAt(0));" > dist/plugin.js

# The viewer: its script goes into the page, which then opens from a folder, too.
[ -d node_modules ] || npm install --silent --no-package-lock --ignore-scripts
npx esbuild viewer/viewer.js --bundle --format=esm --target=es2022 --legal-comments=inline --log-level=warning --outfile=build/viewer.js
node -e '
    const fs = require("fs");
    const script = fs.readFileSync("build/viewer.js", "utf8").replaceAll("</script", "<\\/script");
    const page = fs.readFileSync("viewer/index.html", "utf8");
    fs.writeFileSync("dist/viewer.html", page.replace(`<script type="module" src="viewer.js"></script>`, () => `<script type="module">\n${script}</script>`));'
cp ../LICENSE dist/
ls -l dist
