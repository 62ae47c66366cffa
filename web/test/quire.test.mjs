// Tests of quire.js in Node.js: the streams of streams/streams.csv, damaged streams, and parameters.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { crc32 } from "node:zlib";

import { decode, inspect, jsfive, parameters } from "../quire.js";

const folder = new URL("../../streams/", import.meta.url);
const bytes = (file) => new Uint8Array(readFileSync(new URL(file, folder)));
const [columns, ...rows] = readFileSync(new URL("streams.csv", folder), "utf8")
    .trim()
    .split("\n")
    .map((line) => line.split(";"));
const table = rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at]])));
/** Gives a stream the checksum of its bytes. */
function seal(stream) {
    new DataView(stream.buffer).setUint32(4, crc32(stream.subarray(8), crc32(stream.subarray(0, 4))), true);
}

const valid = table.filter((row) => row.section === "");
const faulty = table.filter((row) => row.section !== "");

test("the module's data fit between the stack and the heap", async () => {
    const module = await WebAssembly.compile(readFileSync(new URL("../dist/libh5zquire.so", import.meta.url)));
    const [type, , ...fields] = new Uint8Array(WebAssembly.Module.customSections(module, "dylink.0")[0]);
    assert.equal(type, 1); // WASM_DYLINK_MEM_INFO, whose first field is the size of the data in LEB128
    const last = fields.findIndex((byte) => byte < 128);
    const size = fields.slice(0, last + 1).reduceRight((sum, byte) => sum * 128 + (byte & 127), 0);
    assert.ok(size > 75 * 106 && size <= 65536, `${size} bytes`);
});

test("valid streams decode to the values of the table", () => {
    for (const row of valid) {
        const stream = bytes(row.file);
        const values = decode(stream, Number(row.bytes));
        assert.equal(crc32(values).toString(16).padStart(8, "0"), row.values_crc, row.file);
        assert.deepEqual(decode(stream), values, row.file);
        const header = inspect(stream);
        assert.equal(header.type, row.type, row.file);
        assert.equal(header.bigEndian, row.order === "big", row.file);
        assert.equal(header.extents.join("x"), row.dims, row.file);
        assert.ok(header.bound >= 0 && Number.isFinite(header.bound), row.file);
    }
    console.log(`${valid.length} valid streams`);
});

test("other lengths are refused", () => {
    for (const row of valid)
        for (const wrong of [0, 1, -1]) {
            const length = wrong === 0 ? 0 : Number(row.bytes) + wrong;
            assert.throws(() => decode(bytes(row.file), length), /the stream has a chunk of/, row.file);
        }
});

test("faulty streams are refused with a reason, and the next stream is read", () => {
    const good = bytes(valid[0].file);
    for (const row of faulty) {
        assert.throws(
            () => decode(bytes(row.file)),
            (error) => error.constructor === Error && error.message !== "",
            row.file,
        );
        assert.equal(decode(good).length, Number(valid[0].bytes));
    }
    console.log(`${faulty.length} faulty streams`);
});

test("damaged streams with a right checksum are refused or read, and never trap", () => {
    let seed = 1;
    const random = (below) => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) % below;
    let read = 0;
    const rounds = Number(process.env.ROUNDS ?? 20000);
    for (let round = 0; round < rounds; round++) {
        const { file, bytes: length } = valid[random(valid.length)];
        const stream = bytes(file);
        for (let changes = 1 + random(3); changes > 0; changes--) stream[8 + random(stream.length - 8)] = random(256);
        seal(stream);
        try {
            decode(stream, Number(length));
            read++;
        } catch (error) {
            assert.equal(error.constructor, Error, `${file}, round ${round}: ${error}`);
        }
    }
    console.log(`${rounds} damaged streams, ${read} of them were read`);
});

test("a chunk larger than the memory is an error", () => {
    // A constant chunk of 2^34 values of u8: header, extent, padding, value.
    const stream = Uint8Array.from([0x51, 0x55, 0x49, 0x90, 0, 0, 0, 0, 5, 1, 0xff, 0xff, 0xff, 0xff, 0x3f, 0, 7]);
    seal(stream);
    assert.equal(inspect(stream).bytes, 2 ** 34);
    assert.throws(() => decode(stream), /no memory/);
});

test("parameters", () => {
    const own = [1359020291, 16, 32, 7];
    const expected = { option: "abs=0.001", bound: 0.001, type: "f64", bigEndian: false, bytes: 16 * 32 * 7 * 8 };
    assert.deepEqual(parameters([1, 3539053052, 1062232653, ...own]), expected);
    assert.deepEqual(parameters([1, -755914244, 1062232653, ...own]), expected);
    assert.deepEqual(parameters([0, ...own]), { ...expected, option: "lossless", bound: 0 });
    assert.equal(parameters([50331649, 16, 32, 64, 3539053052, 1062232653, ...own]).option, "abs=0.001");
    assert.equal(parameters([0x220001, 0, 0, 0, 0xc0040000, 3539053052, 1062232653, ...own]).option, "abs=0.001,keep=order+sign:0:-2.5");
    assert.deepEqual(parameters([]), { option: "unknown" });
    assert.deepEqual(parameters([1, 2]), { option: "unknown" });
    assert.equal(parameters([1, 3539053052, 1062232653, 1359020291, 16]).bytes, undefined);
});

test("the function for jsfive refuses a chunk of another length than the parameters'", () => {
    const { buffer } = bytes(valid.find((row) => row.type === "f64").file);
    assert.throws(() => jsfive(buffer, 8, [0, 1359020291, 16, 32, 7]), /the stream has a chunk of/);
});

test("the package has the version of the plugin", () => {
    const read = (file) => readFileSync(new URL(file, import.meta.url), "utf8");
    assert.equal(/^version = "(.*)"$/m.exec(read("../../Cargo.toml"))[1], JSON.parse(read("../package.json")).version);
});
