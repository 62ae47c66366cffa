// The page: files, the list of datasets, a slice of one of them, and its error.
import { datasets, text } from "./hdf5.js";

const element = (id) => document.getElementById(id);

/** A number with four digits. */
function number(value) {
    if (!Number.isFinite(value)) return String(value);
    return Math.abs(value) < 1e6 ? String(Number(value.toPrecision(4))) : value.toExponential(3);
}

let listed = [];
let originals = [];
let chosen = null;

// ---- Files ----

/** Calls `use` with the datasets of each file that is chosen or dropped. */
function onFile(label, input, use) {
    const open = async (file) => {
        if (!file) return;
        label.querySelector("span").textContent = `${file.name}, ${bytes(file.size)}`;
        element("message").textContent = "";
        try {
            use(datasets(await file.arrayBuffer()));
            label.classList.add("open");
        } catch (error) {
            element("message").textContent = `${file.name}: ${text(error)}`;
        }
    };
    input.addEventListener("change", () => open(input.files[0]));
    for (const type of ["dragover", "dragleave", "drop"])
        label.addEventListener(type, (event) => {
            event.preventDefault();
            label.classList.toggle("over", type === "dragover");
            if (type === "drop") open(event.dataTransfer.files[0]);
        });
}

function bytes(length) {
    const units = [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"], [0, "bytes"]];
    const [size, unit] = units.find(([size]) => length >= size);
    return `${number(length / (size || 1))} ${unit}`;
}

onFile(element("drop"), element("file"), (found) => {
    listed = found;
    list();
    const readable = listed.filter((dataset) => dataset.type && !dataset.problem);
    choose(readable.find((dataset) => dataset.parameters) ?? readable[0] ?? null);
});

onFile(element("drop-original"), element("original"), (found) => {
    originals = found;
    choose(chosen);
});

// ---- The list ----

function list() {
    const body = document.querySelector("tbody");
    body.replaceChildren();
    document.querySelector("table").hidden = false;
    for (const dataset of listed) {
        const row = body.insertRow();
        const ours = dataset.parameters;
        const cell = (content, kind) => {
            const cell = row.insertCell();
            cell.textContent = content;
            cell.className = kind ?? "";
            return cell;
        };
        const name = cell(dataset.name);
        if (dataset.problem) {
            const problem = document.createElement("small");
            problem.textContent = ` ${dataset.problem}`;
            name.append(problem);
        }
        cell(dataset.shape ? dataset.shape.join(" × ") || "one value" : "");
        cell(dataset.type ? dataset.type.name + (dataset.type.bigEndian ? ", big endian" : "") : "other");
        cell(ours ? ours.option : "–");
        cell(dataset.stored === undefined ? "" : bytes(dataset.stored), "number");
        cell(dataset.ratio && dataset.filters.length > 0 ? dataset.ratio.toFixed(2) : "–", "number");
        row.dataset.name = dataset.name;
        if (dataset.type && !dataset.problem) row.addEventListener("click", () => choose(dataset));
    }
}

// ---- A slice ----

/** Colours of values from the least to the greatest, and of errors from one bound to the other. */
const VALUES = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"];
const ERRORS = ["#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b"];
const NO_VALUE = [200, 204, 208];

/** 256 colours, which go through those that are given. */
function palette(colours) {
    const corners = colours.map((colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)));
    return Array.from({ length: 256 }, (_, index) => {
        const at = (index / 255) * (corners.length - 1);
        const low = Math.min(Math.floor(at), corners.length - 2);
        return corners[low].map((channel, k) => channel + (corners[low + 1][k] - channel) * (at - low));
    });
}

/** Draws rows of values, and the colours from `low` to `high` below them. */
function draw(canvas, width, values, low, high, colours) {
    const height = values.length / width;
    const shades = palette(colours);
    const paint = (target, width, height, valueAt) => {
        target.width = width;
        target.height = height;
        const image = new ImageData(width, height);
        for (let i = 0; i < width * height; i++) {
            const share = (valueAt(i) - low) / (high - low || 1);
            const colour = Number.isNaN(share) ? NO_VALUE : shades[Math.round(Math.min(Math.max(share, 0), 1) * 255)];
            for (let channel = 0; channel < 3; channel++) image.data[4 * i + channel] = colour[channel];
            image.data[4 * i + 3] = 255;
        }
        target.getContext("2d").putImageData(image, 0, 0);
    };
    paint(canvas, width, height, (i) => values[i]);
    canvas.style.height = height === 1 ? "60px" : "";
    const [bar, caption] = [canvas.nextElementSibling, canvas.parentElement.querySelector("figcaption")];
    paint(bar, 256, 1, (i) => low + ((high - low) * i) / 255);
    const labels = [number(low), canvas.id, number(high)];
    caption.replaceChildren(...labels.map((textContent) => Object.assign(document.createElement("span"), { textContent })));
}

/** The first and the last hundredth of a slice's values, so that a few far values do not take all colours. */
function range(values) {
    const step = Math.ceil(values.length / 20000);
    const some = values.filter((value, i) => i % step === 0 && Number.isFinite(value)).sort();
    return some.length === 0 ? [0, 0] : [some[Math.floor(some.length / 100)], some[Math.ceil((some.length * 99) / 100) - 1]];
}

/** The first parts of the values of a slice, with NaN where the fill value is. */
function slice(dataset, start, count) {
    const { parts } = dataset.type;
    const values = dataset.read(start, count);
    const hole = dataset.fill === 0 ? NaN : dataset.fill;
    return values.filter((_, i) => i % parts === 0).map((value) => (value === hole ? NaN : value));
}

function choose(dataset) {
    chosen = dataset;
    element("message").textContent = "";
    element("view").style.display = dataset ? "block" : "none";
    for (const row of document.querySelectorAll("tbody tr")) row.classList.toggle("chosen", row.dataset.name === dataset?.name);
    if (!dataset) return;
    element("name").textContent = dataset.name + (dataset.type.parts === 2 ? ", real part" : "");

    const original = originals.find((other) => other.name === dataset.name && !other.problem);
    original?.adoptType(dataset);
    const same = original?.type?.parts === dataset.type.parts && String(original.shape) === String(dataset.shape);
    element("errors-figure").style.display = same ? "" : "none";
    const verdict = element("error");
    verdict.className = "";
    verdict.textContent = originals.length > 0 && !same ? "The original has no such dataset of this shape that is read here." : "";

    const rank = dataset.shape.length;
    const start = dataset.shape.map((extent, axis) => (axis < rank - 2 ? Math.floor(extent / 2) : 0));
    const count = dataset.shape.map((extent, axis) => (axis < rank - 2 ? 1 : extent));
    const width = count[rank - 1] ?? 1;
    let limit = 0; // of the colours of errors; 0: those of the slice
    const show = () => {
        try {
            const values = slice(dataset, start, count);
            draw(element("values"), width, values, ...range(values), VALUES);
            if (!same) return;
            const before = slice(original, start, count);
            const errors = values.map((value, i) => value - before[i]);
            const most = limit || Math.max(...range(errors).map(Math.abs));
            draw(element("errors"), width, errors, -most, most, ERRORS);
        } catch (error) {
            element("message").textContent = `${dataset.name}: ${text(error)}`;
        }
    };

    element("axes").replaceChildren(...start.slice(0, -2).map((_, axis) => slider(axis, dataset.shape[axis], start, show)));
    try {
        if (same) limit = judge(dataset, original, verdict);
    } catch (error) {
        verdict.textContent = text(error);
    }
    show();
}

/** A slider that sets the start of a slice along an axis. */
function slider(axis, extent, start, show) {
    const line = Object.assign(document.createElement("div"), { className: "axis" });
    const input = Object.assign(document.createElement("input"), { type: "range", min: 0, max: extent - 1, value: start[axis] });
    const label = document.createElement("span");
    const say = () => (label.textContent = `axis ${axis}: ${start[axis]} of 0 to ${extent - 1}`);
    input.addEventListener("input", () => {
        start[axis] = Number(input.value);
        say();
        show();
    });
    say();
    line.append(input, label);
    return line;
}

// ---- The error ----

/** Says what the error is. Returns the greatest error that may be, in the data's units, or 0 where there is none. */
function judge(dataset, original, verdict) {
    const found = compare(dataset, original);
    const unit = found.isShare ? " of the value" : "";
    const bound = `${found.isWithin ? "within" : "beyond"} the bound of ${number(found.bound)}${unit}`;
    verdict.textContent = `Largest error ${number(found.largest)}${unit}, ${dataset.parameters ? bound : "no bound"}`;
    verdict.className = found.isWithin || !dataset.parameters ? "good" : "bad";
    return found.isShare ? 0 : found.bound;
}

/**
 * The largest error of all values, and whether each chunk's is within its bound: the one that the user gave for `abs` and `pwrel`, else the one in the chunk's
 * stream. `bound` is the largest of these bounds. Under `pwrel`, errors and bounds are shares of the original's magnitude.
 */
function compare(dataset, original) {
    const { option, bound: given } = dataset.parameters ?? { option: "" };
    const isShare = option.startsWith("pwrel");
    const isGiven = isShare || option.startsWith("abs");
    const found = { largest: 0, bound: 0, isShare, isWithin: true };
    for (const { start, count, bound: ofStream } of dataset.regions()) {
        const bound = isGiven ? given : ofStream;
        const [after, before] = [dataset.read(start, count), original.read(start, count)];
        let largest = 0;
        for (let i = 0; i < after.length; i++) {
            if (Object.is(after[i], before[i]) || after[i] === before[i]) continue;
            const error = Math.abs(after[i] - before[i]) / (isShare ? Math.abs(before[i]) : 1);
            largest = Math.max(largest, Number.isNaN(error) ? Infinity : error);
        }
        found.largest = Math.max(found.largest, largest);
        found.bound = Math.max(found.bound, bound);
        found.isWithin &&= largest <= bound;
    }
    return found;
}
