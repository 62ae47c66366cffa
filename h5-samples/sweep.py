"""Compares chunk shapes, bounds, modes, codings, processors and codebook policies of the filter, and other compressors.

    h5-samples/measure sweep [OPTION...] [FILE.h5:/DATASET]     a dataset of your own, or the generator's fields

sweep.csv and sweep.png go to h5-samples/data/results, which git ignores, unless --results names another folder. Each row is measured in a process of its own.
So the row of a compressor that crashes says so, and the memory of a row is that of one process. Rows that are in the CSV already are not measured again.

For a row, a field is written through h5py into a file in memory (/dev/shm), three times, each time to a new file that is then opened again and read. The
shortest times count. Every value is checked against the bound in f64. For our filter, filter() is then called on the middle chunk alone, without HDF5.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import h5py
import numpy as np

from arrays import CHUNK_EXTENTS, at_most_four_axes, generated
from dataset import Dataset
from filter_call import REVERSE, Plugin, chunk_words
from harness import RELATIVE_BOUNDS, Field, backends, changed_bits, errors_of, isolated, parser, plugin_file, progress, psnr
from harness import pyplot, quire, read_csv, shape_text
from measured import measured
from peer_calls import FILTERS, LOSSLESS_FILTERS, described_filters, filter_chunk

FIELDS = ("turbulence_resolved", "turbulence_density", "air_temperature", "particle_velocity")
# Chunks of 4 KiB to 8 MiB of binary32, by rank. From rank 2 on, the last ones are slices.
CHUNKS = {
    1: ((1024,), (8192,), (32768,), (262144,), (1048576,)),
    2: ((32, 32), (91, 91), (181, 181), (512, 512), (1024, 1024), (1, 32768)),
    3: ((10, 10, 10), (20, 20, 20), (32, 32, 32), (64, 64, 64), (128, 128, 128), (1, 128, 128), (4, 128, 128)),
    4: ((1, 4, 16, 16), (1, 8, 32, 32), (1, 16, 48, 48), (4, 16, 64, 64), (12, 16, 96, 192), (1, 1, 96, 192)),
}
OTHER_MODES = ("rel=1e-3", "pwrel=1e-3", "psnr=60", "ratio=10", "lossless")
OURS = ("Quire", "Quire bit planes")
PEERS = ("SZ3", "ZFP", "SPERR", *LOSSLESS_FILTERS)
REPEATS = 3
#: Longest CPU time for a row, in seconds.
PATIENCE = 300
# Colors of the picture. Those of our filter on a GPU are darker.
COLORS = {
    "Quire": "#d62728", "Quire bit planes": "#ff7f0e", "Quire cuda": "#7f0000", "Quire bit planes cuda": "#a35200",
    "SZ3": "#1f77b4", "ZFP": "#2ca02c", "SPERR": "#9467bd", "Blosc2": "#8c564b", "bitshuffle": "#e377c2", "gzip": "#7f7f7f",
}  # fmt: skip
KEY = ("field", "codec", "chunk", "option", "backend", "codebook")
MEASURED = (
    "ratio", "PSNR dB", "worst error / bound", "write MB/s", "read MB/s", "compress us", "decompress us", "memory MiB", "failure", "commit",
)  # fmt: skip


class Row(NamedTuple):
    field: str
    codec: str
    chunk: str
    option: str
    backend: str = ""
    codebook: str = "auto"

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(map(int, self.chunk.split("x")))


# What to measure


def load(name: str) -> Field:
    """A field of the generator, or FILE:/DATASET, little-endian. Ends the program if the values are of another type than the sweep takes."""
    if ":" not in name:
        return generated(name)
    path, _, inside = name.rpartition(":")
    with h5py.File(path) as file:
        data = file[inside]
        if data.dtype.kind != "f" or data.dtype.itemsize not in (4, 8):
            sys.exit(f"error: {name} is of type {data.dtype}: the sweep takes binary32 and binary64")
        fill = data.fillvalue if data.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED else None
        return Field(name, at_most_four_axes(data[()].astype(data.dtype.newbyteorder("<"))), fill)


def rows(field: Field, shapes: list[tuple[int, ...]], shares: list[float], peers: list[str], processors: list[str]) -> Iterator[Row]:
    """All rows of a field: bounds in all chunk shapes, then other modes and codebook policies in one shape."""
    name, shape = field.name, field.values.shape
    clipped = list(dict.fromkeys(shape_text(tuple(map(min, chunk, shape))) for chunk in shapes or CHUNKS[len(shape)] if len(chunk) == len(shape)))
    default = shape_text(tuple(map(min, CHUNK_EXTENTS[len(shape)], shape)))
    bounds = [f"abs={share:g} of the range" for share in shares]
    for chunk, option in itertools.product(clipped, bounds):
        yield from (Row(name, codec, chunk, option, backend) for codec in OURS for backend in processors)
        yield from (Row(name, peer, chunk, option) for peer in peers if peer not in LOSSLESS_FILTERS)
    yield from (Row(name, peer, chunk, "lossless") for chunk in clipped for peer in peers if peer in LOSSLESS_FILTERS)
    yield from (Row(name, OURS[0], default, option, backend) for option in OTHER_MODES for backend in processors)
    for option, backend, codebook in itertools.product(bounds, processors, ("dictionary", "custom")):
        yield Row(name, OURS[0], default, option, backend, codebook)


# One row, in a process of its own


def measure(row: Row) -> dict[str, Any]:
    field = load(row.field)
    share = re.match(r"abs=(\S+) of the range", row.option)
    bound = float(share[1]) * field.range if share else None
    options = (f"abs={bound!r}" if share else row.option) + (",coding=bitshuffle" if row.codec == OURS[1] else "")
    if row.codec not in OURS and filter_chunk(row.codec, field.values.shape, row.extents) != row.extents:
        raise ValueError("SPERR takes two or three axes of 9 values or more, which divide the dataset's")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = np.empty_like(field.values)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        how = quire(options) if row.codec in OURS else FILTERS[row.codec](field.values, bound)
        data = Dataset(Path(folder) / "row.h5", row.extents, how, field.fill)
        writes, reads = zip(*((data.write(field.values), data.read(read)) for _ in range(REPEATS)))
        size = field.values.nbytes
        found = {
            "ratio": size / data.nbytes(),
            "write MB/s": size / min(writes) / 1e6,
            "read MB/s": size / min(reads) / 1e6,
            "memory MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        }
    found |= errors(field, read, bound, row.option)
    return found | alone(row, field, options) if row.codec in OURS else found


def errors(field: Field, read: np.ndarray, bound: float | None, option: str) -> dict[str, Any]:
    """PSNR and largest error, and a failure if the bound or exactness is broken."""
    worst = float(errors_of(field, read).max(initial=0.0))
    failures = ["NaN, infinities or fill values changed"] if changed_bits(field, read) else []
    if bound is not None and worst > bound:
        failures.append(f"the bound is broken: {worst / bound:.6g} of it")
    if option == "lossless" and worst > 0:
        failures.append(f"values changed by up to {worst:g}")
    return {"PSNR dB": psnr(field, read), "worst error / bound": "" if bound is None else worst / bound, "failure": "; ".join(failures)}


def alone(row: Row, field: Field, options: str) -> dict[str, float]:
    """Times of filter() on the middle chunk, without HDF5."""
    corner = [(extent // side // 2) * side for extent, side in zip(field.values.shape, row.extents)]
    part = np.ascontiguousarray(field.values[tuple(slice(at, at + side) for at, side in zip(corner, row.extents))])
    if part.shape != row.extents:
        return {}
    words = chunk_words(options, part.shape, part.dtype, field.fill)
    plugin = Plugin(plugin_file())
    repeats = range(max(5, min(51, (4 << 20) // part.nbytes)))
    _, stream = plugin.run(0, words, part)
    return {
        "compress us": 1e6 * median(plugin.call(0, words, part)[0] for _ in repeats),
        "decompress us": 1e6 * median(plugin.call(REVERSE, words, stream)[0] for _ in repeats),
    }


# The table and the picture


def outcome(row: Row) -> dict[str, Any]:
    environment = {"QUIRE_BACKEND": row.backend or "cpu", "QUIRE_CODEBOOK": row.codebook, "QUIRE_LOG": "0", "QUIRE_DICTIONARY": ""}
    try:
        found = isolated(environment, PATIENCE, measure, row)
    except RuntimeError as failure:
        found = {"failure": str(failure)}
    found["commit"] = measured().rpartition(" commit ")[2]
    return dict(zip(KEY, row)) | {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in found.items()}


def plot(path: Path) -> None:
    """Draws ratio and speed over the chunk's size, with a column of panels for each field, at a bound of 1e-3 of the range."""
    table = [row for row in read_csv(path) if not row["failure"].startswith("crash") and row["ratio"]]
    fields = list(dict.fromkeys(row["field"] for row in table))
    options = [row["option"] for row in table if row["option"].startswith("abs=")]
    shown = "abs=0.001 of the range" if "abs=0.001 of the range" in options else options[0]
    table = [row for row in table if row["codebook"] == "auto" and (row["option"] == shown or row["option"] == "lossless" and row["codec"] not in OURS)]
    figure, axes = pyplot().subplots(3, len(fields), figsize=(4.2 * len(fields), 9), squeeze=False, layout="constrained")
    for column, field in zip(axes.T, fields):
        series: dict[str, list[tuple[list[int], dict[str, str]]]] = {}
        for row in table:
            if row["field"] == field:
                name = row["codec"] if row["backend"] in ("", "cpu") else f"{row['codec']} {row['backend']}"
                series.setdefault(name, []).append((list(map(int, row["chunk"].split("x"))), row))
        for axis, what in zip(column, ("ratio", "write MB/s", "read MB/s")):
            for name, points in sorted(series.items()):
                color = COLORS.get(name, "black")
                own: dict[bool, list[tuple[int, float]]] = {False: [], True: []}
                for sides, row in points:
                    is_slice = sum(side != 1 for side in sides) < min(len(sides), 3)
                    own[is_slice].append((math.prod(sides), float(row[what])))
                line = {"lw": 2.2} if name.startswith("Quire") else {"lw": 1, "ls": "--"}
                axis.plot(*zip(*sorted(own[False])), marker=".", label=name, color=color, **line)
                axis.plot([at for at, _ in own[True]], [value for _, value in own[True]], "x", color=color, ms=5)
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
    options = parser(__doc__)
    options.add_argument("dataset", nargs="?", help="FILE.h5:/DATASET of your own, in place of the generator's fields")
    options.add_argument("--fields", nargs="+", default=FIELDS, help=f"of the generator; by default {', '.join(FIELDS)}")
    options.add_argument("--shares", nargs="+", type=float, default=RELATIVE_BOUNDS, help="absolute bounds, as shares of the field's range")
    options.add_argument("--chunks", nargs="+", default=(), help="shapes such as 64x64x64, for fields of that rank")
    options.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    options.add_argument("--backends", nargs="+", choices=("cpu", "cuda"), default=backends())
    arguments = options.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / "sweep.csv"
    done = {tuple(row[name] for name in KEY) for row in read_csv(path)}
    shapes = [tuple(map(int, chunk.split("x"))) for chunk in arguments.chunks]
    wanted = [
        row
        for name in ([arguments.dataset] if arguments.dataset else arguments.fields)
        for row in rows(load(name), shapes, arguments.shares, arguments.peers, arguments.backends)
    ]
    failures = 0
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, (*KEY, *MEASURED), lineterminator="\n")
        if not done:
            file.write(f"# {measured().partition(',')[0]}, the commit of each row in its last column; command: h5-samples/measure sweep\n")
            file.writelines(f"# {line}\n" for line in described_filters(arguments.peers))
            writer.writeheader()
        for row in progress([row for row in wanted if tuple(row) not in done]):
            found = outcome(row)
            writer.writerow(found)
            file.flush()
            if found["failure"] and row.codec in OURS:
                failures += 1
                print(f"{' '.join(row)}: {found['failure']}", file=sys.stderr)
    print(f"{path}: {len(wanted)} rows, {sum(tuple(row) in done for row in wanted)} of them measured before; ours that failed: {failures}")
    plot(path)
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
