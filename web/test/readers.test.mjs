// Tests of the filter in jsfive and h5wasm, in Node.js and in Chromium, with the files of make_files.py in the folder FILES.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { File, Filters } from "jsfive";
import * as h5wasm from "h5wasm/node";
import { chromium } from "playwright-core";

import { FILTER_ID, jsfive } from "../quire.js";

const { CHROMIUM = "/usr/bin/chromium", FILES } = process.env;
// By name, and the bound; jsfive reads no complex numbers, and neither library reads floating-point numbers of 16 bits.
const BOUNDS = {
    "types/f32": 1, "types/f64": 1, "types/big_f32": 0.01, "types/big_i16": 3,
    "types/i8": 1, "types/i16": 1, "types/i32": 1, "types/i64": 1,
    "types/u8": 1, "types/u16": 1, "types/u32": 1, "types/u64": 1,
    "shapes/four": 0.01, "shapes/checked": 0.01, "shapes/row": 0.001, temperature: 0.1,
};
const read = (file, name) => Array.from(file.get(name).value, Number);

function largestError(after, before) {
    return after.reduce((most, value, i) => Math.max(most, Math.abs(value - before[i])), 0);
}

/** Checks the largest errors by name of a dataset. */
function assertBounds(largestOf) {
    for (const [name, bound] of Object.entries(BOUNDS)) {
        const largest = largestOf(name);
        assert.ok(largest > 0 && largest <= bound, `${name}: ${largest}`);
    }
}

const bytes = (name) => {
    const { buffer, byteOffset, length } = readFileSync(`${FILES}/${name}`);
    return buffer.slice(byteOffset, byteOffset + length);
};
const original = new File(bytes("original.h5"));

test("jsfive", () => {
    const file = new File(bytes("small.h5"));
    assert.throws(() => file.get("temperature").value, /33791/);
    Filters.set(FILTER_ID, jsfive);
    assertBounds((name) => largestError(read(file, name), read(original, name)));
    assert.throws(() => new File(bytes("damaged.h5")).get("temperature").value, /checksum/);
});

test("h5wasm in Node.js", async () => {
    const module = await h5wasm.ready;
    module.insert_plugin_search_path(fileURLToPath(new URL("../dist", import.meta.url)), 0);
    const open = (name) => new h5wasm.File(`${FILES}/${name}`, "r");
    const file = open("small.h5");
    assertBounds((name) => largestError(read(file, name), read(original, name)));
    assert.equal(open("new_index.h5").get("t").value.length, 24 * 60 * 80);
    // h5wasm does not look at HDF5's status: `value` has no error, and HDF5 prints one.
    const damaged = open("damaged.h5");
    const room = module._malloc(4 * 24 * 60 * 80);
    const status = (name) => module.get_dataset_data(damaged.file_id, name, null, null, null, BigInt(room));
    assert.ok(status("/temperature") < 0);
    assert.ok(status("/types/f32") >= 0);
});

test("h5wasm in Chromium", async () => {
    const { outputFiles } = await build({
        stdin: {
            contents: `
                import * as h5wasm from "h5wasm";
                import { install } from "./quire.js";
                const module = await h5wasm.ready;
                install(module);
                const open = (name, base64) => {
                    module.FS.writeFile(name, Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)));
                    return new h5wasm.File(name, "r");
                };
                const read = ${read};
                ${largestError}
                window.largestErrors = (names, small, original) => {
                    const files = [open("small.h5", small), open("original.h5", original)];
                    const errorOf = (name) => largestError(...files.map((file) => read(file, name)));
                    return Object.fromEntries(names.map((name) => [name, errorOf(name)]));
                };`,
            resolveDir: fileURLToPath(new URL("..", import.meta.url)),
        },
        bundle: true,
        format: "esm",
        target: "es2022",
        write: false,
        logLevel: "error",
    });
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    try {
        const page = await browser.newPage();
        page.setDefaultTimeout(120_000); // for busy machines
        await page.addScriptTag({ content: outputFiles[0].text, type: "module" });
        await page.waitForFunction(() => window.largestErrors);
        const files = ["small.h5", "original.h5"].map((name) => readFileSync(`${FILES}/${name}`).toString("base64"));
        const largest = await page.evaluate(
            ([names, files]) => window.largestErrors(names, ...files),
            [Object.keys(BOUNDS), files],
        );
        assertBounds((name) => largest[name]);
    } finally {
        await browser.close();
    }
});
