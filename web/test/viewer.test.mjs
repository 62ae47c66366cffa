// Tests of the page in Chromium, with the files of make_files.py in the folder FILES. Takes the picture of README.md.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

import { VALUE_TYPES } from "../quire.js";

const { CHROMIUM = "/usr/bin/chromium", FILES } = process.env;
const PAGE = new URL("../dist/viewer.html", import.meta.url).href;
let browser, page;
const requests = [];

before(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    page = await browser.newPage({ viewport: { width: 1120, height: 970 } });
    page.setDefaultTimeout(120_000); // for busy machines
    page.on("request", (request) => requests.push(request.url()));
    page.on("pageerror", (error) => assert.fail(error));
    await page.goto(PAGE);
});

after(() => browser.close());

const message = () => page.textContent("#message");

async function open(name, original) {
    await page.reload();
    if (original) {
        await page.setInputFiles("#original", `${FILES}/${original}`);
        await page.waitForSelector("#drop-original.open");
    }
    await page.setInputFiles("#file", `${FILES}/${name}`);
    await page.waitForSelector("tbody tr, #message:not(:empty)");
}

/** The table's rows by the names of their datasets. */
async function table() {
    const rows = await page.$$eval("tbody tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
    return Object.fromEntries(
        rows.map(([name, shape, type, bound, stored, ratio]) => [name, { shape, type, bound, stored, ratio: Number(ratio) }]),
    );
}

async function choose(name) {
    await page.click(`tbody tr[data-name="${name}"]`);
    return page.textContent("#error");
}

/** Number of colours in a picture. */
const colours = (canvas) =>
    page.$eval(
        canvas,
        (canvas) =>
            new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size,
    );

/** Checks that a part of the picture is grey, as no values are there. */
async function assertGaps() {
    const grey = await page.$eval("#values", (canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.reduce((count, value, i) => count + (i % 4 === 0 && value === 200 && data[i + 1] === 204), 0);
    });
    assert.ok(grey > 50 && grey < 2400, `${grey} values of gaps`);
}

test("each type: bound, ratio, slice and error", async () => {
    await open("small.h5", "original.h5");
    const rows = await table();
    const others = { bf16: 2, c64: 0.1, c128: 0.1, big_f32: 0.01, big_i16: 3 };
    for (const type of [...VALUE_TYPES, "big_f32", "big_i16"]) {
        const bound = others[type] ?? 1;
        const name = `types/${type}`;
        assert.equal(rows[name].type, type.startsWith("big_") ? `${type.slice(4)}, big endian` : type);
        assert.equal(rows[name].shape, "24 × 60 × 80");
        assert.equal(rows[name].bound, `abs=${bound}`, name);
        assert.ok(rows[name].ratio > 1.2, `${name}: ${rows[name].ratio}`);
        const verdict = await choose(name);
        assert.match(verdict, /^Largest error \S+, within the bound of/, name);
        const largest = verdict.match(/[\d.]+/)[0];
        assert.ok(Number(largest) <= bound && Number(largest) > 0, `${name}: ${largest}`);
        assert.ok((await colours("#values")) > 30, name);
        assert.equal(await message(), "");
    }
});

test("each kind of bound", async () => {
    for (const [name, option, verdict] of [
        ["rel", "rel=0.001", /^Largest error \S+, within the bound/],
        ["pwrel", "pwrel=0.01", /^Largest error 0\.0\d+ of the value, within the bound of 0\.01 of the value$/],
        ["psnr", "psnr=60", /^Largest error \S+, within the bound/],
        ["ratio", "ratio=20", /^Largest error \S+, within the bound/],
        ["lossless", "lossless", /^Largest error 0, within the bound of 0$/],
    ]) {
        assert.equal((await table())[`bounds/${name}`].bound, option);
        assert.match(await choose(`bounds/${name}`), verdict);
    }
});

test("gaps, one axis, incomplete chunks, a filter behind ours, and other datasets", async () => {
    for (const name of ["gaps", "row", "four", "checked"]) assert.match(await choose(`shapes/${name}`), /within the bound/, name);
    await choose("shapes/gaps");
    await assertGaps();
    assert.equal((await table())["other/text"].type, "other");
    assert.equal(await choose("other/deflated"), "Largest error 0, no bound");
    assert.ok((await colours("#values")) > 30);
});

test("a slider shows another slice", async () => {
    await choose("temperature");
    const picture = () => page.$eval("#values", (canvas) => canvas.toDataURL());
    const first = await picture();
    await page.fill(".axis input", "3");
    assert.notEqual(await picture(), first);
    assert.match(await page.textContent(".axis"), /axis 0: 3 of 0 to 23/);
});

test("netCDF, with masked values", async () => {
    await open("small.nc", "original.nc");
    const rows = await table();
    assert.deepEqual(Object.keys(rows), ["lat", "lon", "pr", "time", "ts"]);
    assert.deepEqual([rows.ts.bound, rows.pr.bound, rows.lat.bound], ["abs=0.01", "rel=0.001", "–"]);
    for (const name of ["ts", "pr"]) {
        assert.match(await choose(name), /^Largest error \S+, within the bound/);
        assert.ok(rows[name].ratio > 2, name);
        await assertGaps();
    }
});

test("an error beyond the bound is found", async () => {
    await open("small.h5", "shifted.h5");
    assert.match(await choose("temperature"), /^Largest error \S+, beyond the bound of 0\.1$/);
    assert.equal(await page.getAttribute("#error", "class"), "bad");
    assert.match(await choose("types/f32"), /no such dataset/);
});

test("files that cannot be read are named, and the page goes on", async () => {
    await open("make_files.txt");
    assert.match(await message(), /make_files\.txt: /);
    await open("new_index.h5");
    assert.match(await page.textContent("tbody"), /index of chunks is of HDF5 1\.10 or newer/);
    await open("damaged.h5");
    await choose("temperature");
    assert.match(await message(), /temperature: /);
    assert.match(await choose("types/f32"), /^$/);
    assert.ok((await colours("#values")) > 30);
});

test("a file that is dropped", async () => {
    await page.reload();
    const base64 = readFileSync(`${FILES}/small.nc`).toString("base64");
    const dataTransfer = await page.evaluateHandle((base64) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))], "small.nc"));
        return transfer;
    }, base64);
    await page.dispatchEvent("#drop", "drop", { dataTransfer });
    await page.waitForSelector("tbody tr");
    assert.match(await page.textContent("#drop"), /small\.nc, 2\d\d\.\d+ KiB/);
});

test("a picture for README.md", async () => {
    await open("small.nc", "original.nc");
    await choose("ts");
    await page.screenshot({ path: process.env.SCREENSHOT ?? `${process.env.FILES}/screenshot.png` });
});

test("the page asks the network for nothing", () => {
    assert.deepEqual([...new Set(requests)], [PAGE]);
});
