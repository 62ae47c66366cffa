"""Compares chunk shapes, bounds, modes, codings, processors and codebook policies of the filter, and other compressors.

Run by the script `sweep`. Each row is measured in a process of its own. So the row of a compressor that crashes says so, and the memory of a row is that of
one process. Rows that are in the CSV already are not measured again.

For a row, a field is written through h5py into a file in memory (/dev/shm), three times, each time to a new file that is then opened again and read. The
shortest times count. Every value is checked against the bound in f64. For our filter, filter() is then called on the middle chunk alone, without HDF5. For
binary32 and Huffman codes, the codec's stages are timed on that chunk.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple

import h5py
import numpy as np

import quire_options
from filter_call import PLUGIN_FILE, REVERSE, Plugin
from measured import measured
from peer_calls import FILTERS, LOSSLESS_FILTERS as LOSSLESS, described_filters, filter_chunk

FIELDS = ("turbulence_resolved", "turbulence_density", "air_temperature", "particle_velocity")
SHARES = (1e-2, 1e-3, 1e-4)
# Chunks of 4 KiB to 8 MiB of binary32, by rank. From rank 2 on, the last ones are slices.
CHUNKS = {
    1: ((1024,), (8192,), (32768,), (262144,), (1048576,)),
    2: ((32, 32), (91, 91), (181, 181), (512, 512), (1024, 1024), (1, 32768)),
    3: ((10, 10, 10), (20, 20, 20), (32, 32, 32), (64, 64, 64), (128, 128, 128), (1, 128, 128), (4, 128, 128)),
    4: ((1, 4, 16, 16), (1, 8, 32, 32), (1, 16, 48, 48), (4, 16, 64, 64), (12, 16, 96, 192), (1, 1, 96, 192)),
}
# The chunk of the rows that are not measured with all shapes, by rank.
DEFAULT_CHUNK = {1: (262144,), 2: (512, 512), 3: (64, 64, 64), 4: (4, 16, 64, 64)}
OTHER_MODES = ("rel=1e-3", "pwrel=1e-3", "psnr=60", "ratio=10", "lossless")
OURS = ("Quire", "Quire bit planes")
PEERS = ("SZ3", "ZFP", "SPERR", *LOSSLESS)
REPEATS = 3
# Colors of the picture. Those of our filter on a GPU are darker.
COLORS = {
    "Quire": "#d62728", "Quire bit planes": "#ff7f0e", "Quire cuda": "#7f0000", "Quire bit planes cuda": "#a35200",
    "SZ3": "#1f77b4", "ZFP": "#2ca02c", "SPERR": "#9467bd", "Blosc2": "#8c564b", "bitshuffle": "#e377c2", "gzip": "#7f7f7f",
}  # fmt: skip
# Longest time for a row, in seconds.
LIMIT = 300
KEY = ("field", "codec", "chunk", "option", "backend", "codebook")
MEASURED = (
    "ratio", "PSNR dB", "worst error / bound", "write MB/s", "read MB/s", "compress us", "decompress us", "memory MiB",
    "choose us", "quantize us", "predict us", "tokens us", "codebook us", "code us", "decode us", "undo us", "restore us", "failure", "commit",
)  # fmt: skip
# The benchmark's stages, by column.
STAGES = {
    "choose us": "0 choose a predictor", "quantize us": "1 quantize", "predict us": "2 predict", "tokens us": "3 tokens",
    "codebook us": "4 choose from the dictionary", "code us": "5 code in lanes", "decode us": "5 decode lanes", "undo us": "2 undo the prediction",
    "restore us": "1 restore values",
}  # fmt: skip


class Row(NamedTuple):
    field: str
    codec: str
    chunk: str
    option: str
    backend: str = "cpu"
    codebook: str = "auto"


# 1. What to measure


def rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """All rows: bounds in all chunk shapes, then other modes and codebook policies in one shape."""
    for field in arguments.fields or ((arguments.dataset,) if arguments.dataset else FIELDS):
        shape = shape_of(arguments, field)
        shapes = [tuple(map(int, chunk.split("x"))) for chunk in arguments.chunks or ()] or CHUNKS[len(shape)]
        clipped = list(dict.fromkeys("x".join(map(str, map(min, chunk, shape))) for chunk in shapes if len(chunk) == len(shape)))
        default = "x".join(map(str, map(min, DEFAULT_CHUNK[len(shape)], shape)))
        bounds = [f"abs={share:g} of the range" for share in arguments.shares]
        for chunk, option in itertools.product(clipped, bounds):
            for codec, backend in itertools.product(OURS, arguments.backends):
                yield Row(field, codec, chunk, option, backend)
            for peer in arguments.peers:
                if peer not in LOSSLESS:
                    yield Row(field, peer, chunk, option, "")
        for chunk, peer in itertools.product(clipped, arguments.peers):
            if peer in LOSSLESS:
                yield Row(field, peer, chunk, "lossless", "")
        for option, backend in itertools.product(OTHER_MODES, arguments.backends):
            yield Row(field, OURS[0], default, option, backend)
        for option, backend, codebook in itertools.product(bounds, arguments.backends, ("dictionary", "custom")):
            yield Row(field, OURS[0], default, option, backend, codebook)


def shape_of(arguments: argparse.Namespace, field: str) -> "tuple[int, ...]":
    """The extents of a field's values. Ends the program if they are of another type than the sweep takes."""
    if arguments.dataset:
        path, _, inside = field.rpartition(":")
        with h5py.File(path) as file:
            dataset = file[inside]
            if dataset.dtype.kind != "f" or dataset.dtype.itemsize not in (4, 8):
                sys.exit(f"error: {field} is of type {dataset.dtype}: the sweep takes binary32 and binary64")
            return folded(dataset.shape)
    return np.load(arguments.data / f"{field}.npy", mmap_mode="r").shape


def folded(shape: "tuple[int, ...]") -> "tuple[int, ...]":
    """Extents without those of 1. If more than four axes are left, the slowest ones are folded into one."""
    shape = tuple(extent for extent in shape if extent > 1) or (1,)
    return (int(np.prod(shape[:-3])), *shape[-3:]) if len(shape) > 4 else shape


def load(arguments: argparse.Namespace, field: str) -> "tuple[np.ndarray, float | None]":
    """A field's values, little-endian, and its fill value."""
    if arguments.dataset:
        path, _, inside = field.rpartition(":")
        with h5py.File(path) as file:
            dataset = file[inside]
            fill = dataset.fillvalue if dataset.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED else None
            return dataset[()].reshape(folded(dataset.shape)).astype(dataset.dtype.newbyteorder("<")), fill
    described = {entry["name"]: entry for entry in json.loads((arguments.data / "fields.json").read_text())}
    return np.load(arguments.data / f"{field}.npy"), described[field]["fill"]


# 2. One row, in a process of its own


def settings(row: Row, values: np.ndarray, fill: "float | None") -> "tuple[dict[str, Any], float | None]":
    """The arguments with which h5py compresses, and the absolute bound if there is one."""
    share = re.match(r"abs=(\S+) of the range", row.option)
    bound = float(share[1]) * span(values, fill) if share else None
    if row.codec in OURS:
        options = (f"abs={bound!r}" if bound is not None else row.option) + (",coding=bitshuffle" if row.codec == OURS[1] else "")
        return {"compression": quire_options.FILTER_ID, "compression_opts": quire_options.cd_values(options)}, bound
    chunk = tuple(map(int, row.chunk.split("x")))
    if filter_chunk(row.codec, values.shape, chunk) != chunk:
        raise ValueError("SPERR takes two or three axes of 9 values or more, which divide the dataset's")
    return dict(FILTERS[row.codec](values, bound)), bound


def regular(values: np.ndarray, fill: "float | None") -> np.ndarray:
    """An array that is true for values that are finite and not the fill value."""
    finite = np.isfinite(values)
    return finite if fill is None else finite & (values != values.dtype.type(fill))


def span(values: np.ndarray, fill: "float | None") -> float:
    return float(np.ptp(values[regular(values, fill)].astype(np.float64)))


def measure(arguments: argparse.Namespace, row: Row) -> "dict[str, Any]":
    values, fill = load(arguments, row.field)
    chunk = tuple(map(int, row.chunk.split("x")))
    how, bound = settings(row, values, fill)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    writes, reads = [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "row.h5"
        for _ in range(REPEATS):
            start = time.perf_counter()
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=values, chunks=chunk, fillvalue=fill, **how)
            writes.append(time.perf_counter() - start)
            # The file is opened again, as HDF5's chunk cache would return the originals.
            start = time.perf_counter()
            with h5py.File(path) as file:
                read = file["x"][()]
                stored = file["x"].id.get_storage_size()
            reads.append(time.perf_counter() - start)
    found: "dict[str, Any]" = {
        "ratio": values.nbytes / stored,
        "write MB/s": values.nbytes / min(writes) / 1e6,
        "read MB/s": values.nbytes / min(reads) / 1e6,
        "memory MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        **error_of(values, read, fill, bound, row.option),
    }
    if row.codec in OURS:
        found |= alone(arguments, row, values, chunk, how, bound)
    return found


def error_of(values: np.ndarray, read: np.ndarray, fill: "float | None", bound: "float | None", option: str) -> "dict[str, Any]":
    """PSNR and largest error, and a failure if the bound or exactness is broken."""
    counts = regular(values, fill)
    integers = f"<u{values.dtype.itemsize}"
    # NaN, infinities and fill values must keep their bits.
    special_bits_are_kept = np.array_equal(values[~counts].view(integers), read[~counts].view(integers))
    error = np.abs(read.astype(np.float64) - values.astype(np.float64))[counts]
    noise, worst = float(np.sqrt(np.mean(error**2))) if error.size else 0.0, float(error.max(initial=0.0))
    found: "dict[str, Any]" = {"PSNR dB": 20 * np.log10(span(values, fill) / noise) if noise else float("inf")}
    failures = [] if special_bits_are_kept else ["NaN, infinities or fill values changed"]
    if bound is not None:
        found["worst error / bound"] = worst / bound
        failures += [] if worst <= bound else [f"the bound is broken: {worst / bound:.6g} of it"]
    elif option == "lossless" and worst > 0:
        failures.append(f"values changed by up to {worst:g}")
    return found | {"failure": "; ".join(failures)}


def alone(
    arguments: argparse.Namespace, row: Row, values: np.ndarray, chunk: "tuple[int, ...]", how: "dict[str, Any]", bound: "float | None"
) -> "dict[str, Any]":
    """Times of filter() on the middle chunk, without HDF5, and of the codec's stages."""
    corner = [(extent // side // 2) * side for extent, side in zip(values.shape, chunk)]
    part = np.ascontiguousarray(values[tuple(slice(at, at + side) for at, side in zip(corner, chunk))])
    if part.shape != chunk:
        return {}
    with h5py.File("layout", "w", driver="core", backing_store=False) as file:
        words = file.create_dataset("x", part.shape, part.dtype, chunks=chunk, **how).id.get_create_plist().get_filter(0)[2]
    plugin = Plugin(Path(arguments.programs) / PLUGIN_FILE)
    repeats = range(max(5, min(51, (4 << 20) // part.nbytes)))
    _, stream = plugin.run(0, words, part)
    found = {
        "compress us": 1e6 * float(np.median([plugin.call(0, words, part)[0] for _ in repeats])),
        "decompress us": 1e6 * float(np.median([plugin.call(REVERSE, words, stream)[0] for _ in repeats])),
    }
    if bound is not None and part.dtype == np.float32 and row.codec == OURS[0] and row.backend == "cpu" and row.codebook == "auto":
        with tempfile.NamedTemporaryFile() as file:
            part.tofile(file.name)
            command = [f"{arguments.programs}/examples/bench", str(len(repeats)), file.name, row.chunk, repr(bound)]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for column, name in STAGES.items():
            line = next((line for line in said.splitlines() if line.startswith(name)), None)
            if line:
                found[column] = float(line.split()[-4])
    return found


def in_a_process(arguments: argparse.Namespace, row: Row) -> "dict[str, Any]":
    environment = os.environ | {
        "HDF5_PLUGIN_PATH": str(arguments.programs), "QUIRE_BACKEND": row.backend or "cpu", "QUIRE_CODEBOOK": row.codebook,
        "QUIRE_LOG": "0", "QUIRE_DICTIONARY": "", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    dataset = [arguments.dataset] if arguments.dataset else []
    command = [sys.executable, __file__, "--programs", str(arguments.programs), "--data", str(arguments.data), "--row", json.dumps(row), "--", *dataset]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"failure": f"not done in {LIMIT} seconds"}
    if done.returncode < 0:
        return {"failure": f"crashed by {signal.Signals(-done.returncode).name}"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["failed without a word"])[-1][:300]}
    return json.loads(done.stdout.splitlines()[-1])


# 3. The table and the picture


def text_of(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def measured_rows(file: Iterable[str]) -> Iterator[dict[str, str]]:
    """The rows of a table. The first line, a comment on how they were measured, is skipped."""
    return csv.DictReader(line for line in file if not line.startswith("#"))


def sweep(arguments: argparse.Namespace) -> Path:
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None

    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / "sweep.csv"
    names = (*KEY, *MEASURED)
    done = set()
    if path.exists():
        with path.open() as file:
            done = {tuple(row[name] for name in KEY) for row in measured_rows(file)}
    wanted = list(rows(arguments))
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, names)
        if not done:
            file.write(f"# {measured().partition(',')[0]}, the commit of each row in its last column; command: h5-samples/sweep\n")
            file.writelines(f"# {line}\n" for line in described_filters(arguments.peers))
            writer.writeheader()
        failures = 0
        left = [row for row in wanted if tuple(row) not in done]
        progress = tqdm(left, unit="row", disable=None) if tqdm else left
        for row in progress:
            if tqdm:
                progress.set_postfix_str(f"{row.field} {row.codec} {row.chunk}")
            found = in_a_process(arguments, row) | {"commit": measured().rpartition(" commit ")[2]}
            writer.writerow({**dict(zip(KEY, row)), **{name: text_of(found.get(name, "")) for name in MEASURED}})
            file.flush()
            if found.get("failure") and row.codec in OURS:
                failures += 1
                print(f"{' '.join(row)}: {found['failure']}", file=sys.stderr)
    print(f"{path}: {len(wanted)} rows, {sum(tuple(row) in done for row in wanted)} of them measured before; ours that failed: {failures}")
    if failures:
        sys.exit(1)
    return path


def plot(path: Path) -> None:
    """Draws ratio and speed over the chunk's size, with a column of panels for each field, at a bound of 1e-3 of the range."""
    try:
        import matplotlib
    except ImportError:
        return print(f"no picture of {path}: matplotlib is not installed; install it and run this again")

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with path.open() as file:
        table = [row for row in measured_rows(file) if not row["failure"].startswith("crashed") and row["ratio"]]
    fields = list(dict.fromkeys(row["field"] for row in table))
    options = [row["option"] for row in table if row["option"].startswith("abs=")]
    shown = "abs=0.001 of the range" if "abs=0.001 of the range" in options else options[0]
    figure, axes = plt.subplots(3, len(fields), figsize=(4.2 * len(fields), 9), squeeze=False, layout="constrained")
    for column, field in zip(axes.T, fields):
        series: "dict[str, list[tuple[int, float, float, float, bool]]]" = {}
        for row in table:
            is_shown = row["option"] == shown or (row["option"] == "lossless" and row["codec"] not in OURS)
            if row["field"] == field and row["codebook"] == "auto" and is_shown:
                values = int(np.prod([int(side) for side in row["chunk"].split("x")]))
                name = f"{row['codec']} {row['backend']}".strip() if row["backend"] != "cpu" else row["codec"]
                sides = row["chunk"].split("x")
                is_slice = sum(side != "1" for side in sides) < min(len(sides), 3)
                series.setdefault(name, []).append((values, *(float(row[what]) for what in ("ratio", "write MB/s", "read MB/s")), is_slice))
        for axis, index, what in zip(column, (1, 2, 3), ("ratio", "write MB/s", "read MB/s")):
            for name, points in sorted(series.items()):
                cubes = sorted(point for point in points if not point[4])
                line = {"lw": 2.2} if name.startswith("Quire") else {"lw": 1, "ls": "--"}
                line["color"] = COLORS.get(name, "black")
                axis.plot([point[0] for point in cubes], [point[index] for point in cubes], marker=".", label=name, **line)
                slices = [point for point in points if point[4]]
                axis.plot([point[0] for point in slices], [point[index] for point in slices], "x", color=line["color"], ms=5)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_ylabel(what)
            axis.grid(alpha=0.3)
        column[0].set_title(Path(field).name)
        column[2].set_xlabel("values a chunk (crosses: slices)")
    axes[0, -1].legend(fontsize=7)
    figure.suptitle(f"{shown}; lossless compressors without a bound")
    figure.savefig(path.with_suffix(".png"), dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", help="FILE.h5:/DATASET of your own, in place of the generator's fields")
    parser.add_argument("--fields", nargs="+", help=f"of the generator; by default {', '.join(FIELDS)}")
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, help="absolute bounds, as shares of the field's range")
    parser.add_argument("--chunks", nargs="+", help="shapes such as 64x64x64, for fields of that rank")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "data" / "sweep")
    inner = parser.add_argument_group("options that the script `sweep` gives")
    inner.add_argument("--backends", nargs="+", choices=("cpu", "cuda"), default=["cpu"])
    inner.add_argument("--programs", required=True)
    inner.add_argument("--data", type=Path, required=True)
    inner.add_argument("--row", help=argparse.SUPPRESS)
    # The script's options end with --, and the user's follow. argparse must not see that --.
    words = sys.argv[1:]
    arguments = parser.parse_args([word for index, word in enumerate(words) if word != "--" or index != words.index("--")])
    if arguments.row:
        return print(json.dumps(measure(arguments, Row(*json.loads(arguments.row)))))
    plot(sweep(arguments))


if __name__ == "__main__":
    main()
