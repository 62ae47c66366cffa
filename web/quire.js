/**
 * Reads H5Z-Quire streams in JavaScript: the reader in C (streams/reader) as WebAssembly. FORMAT.md defines streams and parameters; "§" names its sections.
 *
 * The module is an HDF5 plugin for h5wasm. Here the plugin is loaded without HDF5: this file has the few functions that the plugin imports.
 */
import plugin from "./dist/plugin.js";

/** HDF5's number of the filter. */
export const FILTER_ID = 33791;

/** Value types (§3), and the bytes of one value. Of the pairs `c64` and `c128` one value is one part. */
export const VALUE_TYPES = ["f32", "f64", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "c64", "c128"];
const VALUE_SIZES = [4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8];
const CODINGS = ["stored", "constant", "quantized", "exact", "steps", "logarithmic", "decimal"];

// ---- The memory of the module: its stack, its data, then a heap that begins anew with each stream ----

const PAGE = 1 << 16;
const STACK_TOP = PAGE;
const HEAP = 2 * PAGE;
const memory = new WebAssembly.Memory({ initial: HEAP / PAGE, maximum: 0x8000 });
const stack = new WebAssembly.Global({ value: "i32", mutable: true }, STACK_TOP);
let heapEnd = HEAP;

/** Bytes of the heap, or 0 (C's null pointer) where there is no memory. */
function allocate(size) {
    const start = heapEnd;
    const end = Math.ceil((start + size) / 16) * 16;
    const missing = Math.ceil((end - memory.buffer.byteLength) / PAGE);
    try {
        if (missing > 0) memory.grow(missing);
    } catch {
        return 0;
    }
    heapEnd = end;
    return start;
}

function allocateZeros(count, size) {
    const length = (count >>> 0) * (size >>> 0);
    const start = allocate(length);
    if (start !== 0) new Uint8Array(memory.buffer, start, length).fill(0);
    return start;
}

const { instance } = await WebAssembly.instantiate(plugin, {
    env: {
        memory,
        __stack_pointer: stack,
        __memory_base: new WebAssembly.Global({ value: "i32" }, STACK_TOP),
        __table_base: new WebAssembly.Global({ value: "i32" }, 0),
        __indirect_function_table: new WebAssembly.Table({ element: "anyfunc", initial: 16 }),
        malloc: (size) => allocate(size >>> 0),
        calloc: allocateZeros,
        free() {},
    },
});
const reader = instance.exports;

/** Copies a stream into an empty heap, and returns its address. */
function load(stream) {
    heapEnd = HEAP;
    stack.value = STACK_TOP;
    const address = need(stream.length);
    new Uint8Array(memory.buffer).set(stream, address);
    return address;
}

function need(size) {
    const address = allocate(size);
    if (address === 0) throw new Error("no memory");
    return address;
}

/** Throws the text that a function of the reader returned, unless it is the null pointer. */
function check(fault) {
    if (fault === 0) return;
    const bytes = new Uint8Array(memory.buffer, fault >>> 0);
    throw new Error(new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0))));
}

// ---- Streams ----

/** What the header of the stream at an address of the module's memory says. */
function describe(address, length) {
    const chunk = need(72); // quire_chunk of quire_reader.h
    check(reader.quire_describe(address, length, chunk));
    const field = new DataView(memory.buffer, chunk);
    const rank = field.getUint32(12, true);
    return {
        type: VALUE_TYPES[field.getUint32(0, true)],
        bigEndian: field.getUint32(4, true) !== 0,
        coding: CODINGS[field.getUint32(8, true)],
        extents: Array.from({ length: rank }, (_, axis) => Number(field.getBigUint64(16 + 8 * axis, true))),
        bytes: Number(field.getBigUint64(56, true)),
        body: field.getUint32(64, true),
    };
}

/**
 * Says what a stream's header says, after a check of the stream's checksum: `type`, `bigEndian`, `coding`, `extents` (of pairs as in §3), `bytes` of the
 * chunk, and `body`, where the body begins. No value that is read is off by more than `bound`. If the coding is logarithmic, the bound is a share of the
 * value. Else the bound is in the data's units.
 *
 * @param {Uint8Array} stream
 * @throws {Error} for bytes that are no valid stream, with the reason
 */
export function inspect(stream) {
    const header = describe(load(stream), stream.length);
    const body = new DataView(stream.buffer, stream.byteOffset + header.body, stream.length - header.body);
    const bound = {
        quantized: () => Math.abs(body.getFloat64(0, true)),
        steps: () => Number(body.getBigUint64(0, true)),
        logarithmic: () => 2 ** body.getFloat64(0, true) - 1,
    }[header.coding];
    return { ...header, bound: bound ? bound() : 0 };
}

/**
 * Decodes a stream into the bytes of its chunk.
 *
 * @param {Uint8Array} stream
 * @param {number} [length] bytes of the chunk, if known: a stream of another length is then refused before memory is taken for it
 * @returns {Uint8Array}
 * @throws {Error} for bytes that are no valid stream, with the reason
 */
export function decode(stream, length) {
    const address = load(stream);
    const { bytes } = describe(address, stream.length);
    if (length !== undefined && bytes !== length) throw new Error(`the stream has a chunk of ${bytes} bytes, not of ${length}`);
    const values = need(bytes);
    check(reader.quire_read(address, stream.length, values, bytes));
    return new Uint8Array(memory.buffer).slice(values, values + bytes);
}

// ---- Parameters of datasets ----

/**
 * Says what the filter's parameters of a dataset (§10, `cd_values`) ask for: `option`, such as `abs=0.001`, and the number `bound` in it. Parameters that the
 * filter itself has completed also have `type`, `bigEndian` and `bytes` of a chunk.
 *
 * @param {ArrayLike<number>} words
 */
export function parameters(words) {
    const word = Uint32Array.from(words);
    const number = (at) => new DataView(word.slice(at, at + 2).buffer).getFloat64(0, true);
    const mode = word[0] & 255;
    const names = { 1: "abs", 3: "rel", 5: "pwrel", 7: "psnr", 9: "ratio", 11: "ratio" };
    const thresholds = (word[0] >>> 20) & 15;
    const start = 1 + (word[0] >>> 24) + 2 * thresholds;
    const own = start + (mode === 0 ? 0 : mode === 11 ? 4 : 2);
    if (!(mode === 0 || mode in names) || own > word.length) return { option: "unknown" };
    const bound = mode === 0 ? 0 : number(start);
    const sides = Array.from({ length: thresholds }, (_, at) => `:${number(start - 2 * (thresholds - at))}`).join("");
    const keeps = [...((word[0] >>> 17) & 1 ? ["order"] : []), ...(sides ? [`sign${sides}`] : [])];
    const kept = keeps.length > 0 ? `,keep=${keeps.join("+")}` : "";
    const option = mode === 0 ? "lossless" : `${names[mode]}=${bound}` + (mode === 11 ? `,abs=${number(start + 2)}` : "") + kept;
    const rank = word[own] & 255;
    const type = (word[own] >>> 8) & 127;
    if (word[own] >>> 16 !== 0x5101 || type >= VALUE_TYPES.length || word.length <= own + rank) return { option, bound };
    const bytes = word.slice(own + 1, own + 1 + rank).reduce((product, extent) => product * extent, VALUE_SIZES[type]);
    return { option, bound, type: VALUE_TYPES[type], bigEndian: (word[own] & 0x8000) !== 0, bytes };
}

// ---- Readers of HDF5 ----

/** The filter as a function for jsfive: `Filters.set(FILTER_ID, jsfive)`. */
export function jsfive(stream, _itemSize, words) {
    return decode(new Uint8Array(stream), parameters(words).bytes).buffer;
}

/**
 * Makes the filter known to h5wasm in a browser: `install(await h5wasm.ready)`. In Node.js, whose files h5wasm reads directly, name the folder that has
 * `libh5zquire.so` instead: `module.insert_plugin_search_path(folder, 0)`.
 */
export function install(module, folder = "/quire") {
    module.FS.mkdirTree(folder);
    module.FS.writeFile(`${folder}/libh5zquire.so`, plugin);
    module.insert_plugin_search_path(folder, 0);
}
