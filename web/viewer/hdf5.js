// Datasets of a file, read part by part: jsfive finds them and their properties, and this file reads their chunks.
import { File as Root, Filters } from "jsfive";
import { FILTER_ID, inspect, jsfive, parameters } from "../quire.js";

Filters.set(FILTER_ID, jsfive);

const UNDEFINED_ADDRESS = 2n ** 64n - 1n;
const NEWER_INDEX =
    "its index of chunks is of HDF5 1.10 or newer, which is not read here: h5repack -l NAME:CHUNK=... and nccopy write the older";
const MOST_KEPT = 256 << 20; // bytes of decoded chunks that a dataset keeps

const product = (extents) => extents.reduce((all, extent) => all * extent, 1);

/** The datasets of a file's bytes, sorted by name. */
export function datasets(buffer) {
    const found = [];
    const seen = new Set();
    const visit = (group, path) => {
        for (const key of group.keys) {
            const name = path === "" ? key : `${path}/${key}`;
            let object;
            try {
                object = group.get(key);
            } catch (error) {
                found.push({ name, problem: text(error) });
                continue;
            }
            const address = object?._dataobjects.offset;
            if (object === null || seen.has(address)) continue;
            seen.add(address);
            if (object._dataobjects.is_dataset) found.push(new Dataset(name, object, buffer));
            else visit(object, name);
        }
    };
    visit(new Root(buffer, ""), "");
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What an error says; jsfive throws texts. */
export const text = (error) => String(error?.message ?? error);

/** A property, or undefined where jsfive cannot read it. */
function attempt(property) {
    try {
        return property();
    } catch {
        return undefined;
    }
}

class Dataset {
    #file;
    #chunks;
    #kept = new Map();
    #bytesKept = 0;

    constructor(name, object, file) {
        const inside = object._dataobjects;
        this.name = name;
        this.#file = file;
        this.shape = attempt(() => object.shape) ?? [];
        // nccopy's files have netCDF's attribute alone.
        this.fill = Number(attempt(() => object.attrs._FillValue) ?? attempt(() => object.fillvalue) ?? 0);
        this.filters = attempt(() => inside.filter_pipeline) ?? [];
        const ours = this.filters.find((filter) => filter.get("filter_id") === FILTER_ID);
        this.parameters = ours && parameters(ours.get("client_data"));
        this.type = this.parameters?.type ? typeOf(this.parameters) : typeOfName(attempt(() => object.dtype));
        try {
            this.#chunks = this.#layout(inside);
            this.stored = this.#chunks.reduce((sum, chunk) => sum + chunk.length, 0);
        } catch (error) {
            this.problem = text(error);
        }
    }

    /** Number of values; a complex number counts as one. */
    get count() {
        return product(this.shape);
    }

    /** Times that the values are larger than what the file stores of them. */
    get ratio() {
        return this.type && this.stored > 0 ? (this.count * this.type.size * this.type.parts) / this.stored : undefined;
    }

    /** Takes the type of another dataset, if jsfive cannot say it or takes all 16-bit floating-point types for one. */
    adoptType(other) {
        if ((this.type === null || this.type.name === "f16") && !this.parameters) this.type = other.type;
    }

    /** Where the dataset's bytes are in the file: chunks, or one for all values. */
    #layout(inside) {
        const at = inside.find_msg_type(8)[0].get("offset_to_message");
        const field = new DataView(this.#file);
        const isOld = field.getUint8(at) < 3;
        const layout = field.getUint8(at + (isOld ? 2 : 1));
        const properties = at + (isOld ? 8 : 2);
        const whole = { start: this.shape.map(() => 0), mask: 0 };
        this.chunkShape = this.shape;
        if (layout === 0) return [{ ...whole, at: properties + 2, length: field.getUint16(properties, true) }];
        if (layout === 1) {
            const address = field.getBigUint64(properties, true);
            const length = isOld
                ? this.count * this.type.size * this.type.parts
                : Number(field.getBigUint64(properties + 8, true));
            return address === UNDEFINED_ADDRESS ? [] : [{ ...whole, at: Number(address), length }];
        }
        if (layout !== 2) throw new Error("virtual datasets are not read here");
        if (field.getUint8(at) > 3) throw new Error(NEWER_INDEX);
        this.chunkShape = inside.chunks;
        const root = field.getBigUint64(properties + (isOld ? 0 : 1), true);
        return root === UNDEFINED_ADDRESS ? [] : [...this.#node(field, Number(root), new Set())];
    }

    /** The chunks of a node of the B-tree, version 1, that is their index. */
    *#node(field, node, seen) {
        const isTree = field.getUint32(node, false) === 0x54524545; // "TREE"
        if (!isTree || seen.has(node)) throw new Error("its index of chunks is damaged");
        seen.add(node);
        const level = field.getUint8(node + 5);
        const children = field.getUint16(node + 6, true);
        const rank = this.shape.length;
        const key = 8 + 8 * (rank + 1);
        for (let at = node + 24, child = 0; child < children; child++, at += key + 8) {
            const address = Number(field.getBigUint64(at + key, true));
            if (level > 0) {
                yield* this.#node(field, address, seen);
                continue;
            }
            yield {
                start: Array.from({ length: rank }, (_, axis) => Number(field.getBigUint64(at + 8 + 8 * axis, true))),
                at: address,
                length: field.getUint32(at, true),
                mask: field.getUint32(at + 4, true),
            };
        }
    }

    /** A chunk's bytes after the filters behind the one of number `last` in the pipeline, and after this one if `inclusive`. */
    #unfiltered(chunk, last, inclusive) {
        let bytes = this.#file.slice(chunk.at, chunk.at + chunk.length);
        for (let number = this.filters.length - 1; number >= last; number--) {
            if ((chunk.mask & (1 << number)) !== 0 || (number === last && !inclusive)) continue;
            const filter = this.filters[number];
            const id = filter.get("filter_id");
            if (!Filters.has(id)) throw new Error(`this page does not have the filter ${id}`);
            bytes = Filters.get(id)(bytes, this.type.size * this.type.parts, filter.get("client_data"));
        }
        return bytes;
    }

    #values(chunk) {
        if (!this.#kept.has(chunk)) {
            const bytes = this.#unfiltered(chunk, 0, true);
            const expected = product(this.chunkShape) * this.type.size * this.type.parts;
            if (bytes.byteLength < expected) throw new Error(`a chunk has ${bytes.byteLength} bytes, not ${expected}`);
            if ((this.#bytesKept += bytes.byteLength) > MOST_KEPT) {
                this.#kept.clear();
                this.#bytesKept = bytes.byteLength;
            }
            this.#kept.set(chunk, new DataView(bytes));
        }
        return this.#kept.get(chunk);
    }

    /** Regions of the dataset, one for each chunk, with the bound that the chunk's stream has. */
    *regions() {
        const ours = this.filters.findIndex((filter) => filter.get("filter_id") === FILTER_ID);
        for (const chunk of this.#chunks) {
            const count = chunk.start.map((start, axis) => Math.min(this.chunkShape[axis], this.shape[axis] - start));
            const skipped = ours < 0 || (chunk.mask & (1 << ours)) !== 0;
            const bound = skipped ? 0 : inspect(new Uint8Array(this.#unfiltered(chunk, ours, false))).bound;
            yield { start: chunk.start, count, bound };
        }
    }

    /** The values of a region, part by part of complex numbers, as an array of 64-bit numbers. */
    read(start, count) {
        if (this.type === null) throw new Error("the type of its values is not read here");
        const { size, parts, get } = this.type;
        const values = new Float64Array(product(count) * parts).fill(this.fill);
        const rank = this.shape.length;
        for (const chunk of this.#chunks) {
            const low = start.map((first, axis) => Math.max(first, chunk.start[axis]));
            const high = start.map((first, axis) => Math.min(first + count[axis], chunk.start[axis] + this.chunkShape[axis]));
            if (low.some((first, axis) => first >= high[axis])) continue;
            const bytes = this.#values(chunk);
            const row = rank === 0 ? parts : (high[rank - 1] - low[rank - 1]) * parts;
            const at = low.slice();
            for (;;) {
                let from = 0;
                let to = 0;
                for (let axis = 0; axis < rank; axis++) {
                    from = from * this.chunkShape[axis] + at[axis] - chunk.start[axis];
                    to = to * count[axis] + at[axis] - start[axis];
                }
                for (let i = 0; i < row; i++) values[to * parts + i] = get(bytes, (from * parts + i) * size);
                let axis = rank - 2;
                while (axis >= 0 && ++at[axis] === high[axis]) at[axis] = low[axis--];
                if (axis < 0) break;
            }
        }
        return values;
    }
}

// ---- Types ----

/** Reads a floating-point number of 16 bits, with 5 bits of exponent. */
function binary16(bits) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const magnitude = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
    const sign = bits & 0x8000 ? -1 : 1;
    if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
    return sign * magnitude;
}

const scratch = new DataView(new ArrayBuffer(4));

function bfloat16(bits) {
    scratch.setUint16(0, bits);
    return scratch.getFloat32(0);
}

/** The functions of a DataView by type. Of a 16-bit floating-point number they read the bits. */
const GETTERS = {
    f16: "getUint16", f32: "getFloat32", f64: "getFloat64", bf16: "getUint16", c64: "getFloat32", c128: "getFloat64",
    i8: "getInt8", i16: "getInt16", i32: "getInt32", i64: "getBigInt64",
    u8: "getUint8", u16: "getUint16", u32: "getUint32", u64: "getBigUint64",
};

/** How values of a type are read; `type` is one of `VALUE_TYPES` of quire.js. */
function typeOf({ type, bigEndian }) {
    const getter = GETTERS[type];
    const convert = { f16: binary16, bf16: bfloat16, i64: Number, u64: Number }[type];
    const get = convert ? (view, at) => convert(view[getter](at, !bigEndian)) : (view, at) => view[getter](at, !bigEndian);
    return { name: type, bigEndian, parts: type.startsWith("c") ? 2 : 1, size: Number(/\d+$/.exec(getter)[0]) / 8, get };
}

/** The type of jsfive's name for it, such as `<f4`; null for types that are no numbers. */
function typeOfName(dtype) {
    const [, order, letter, size] = /^([<>])([fiu])([1248])$/.exec(dtype) ?? [];
    return letter ? typeOf({ type: letter + 8 * size, bigEndian: order === ">" }) : null;
}
