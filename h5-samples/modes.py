"""What each kind of bound gives on generated and real arrays: exact bits beside lossless compressors, and how close PSNR, ratio and the point-wise bound come
to the values asked for. And what it costs to keep the order of values, or their signs, beside a bound.

    h5-samples/measure modes [NAME...] [--parts lossless psnr ratio pointwise keep]

Every promise is checked in f64 on every value before a figure is printed. It takes about four minutes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from statistics import geometric_mean, median
from typing import NamedTuple

import numpy as np

from arrays import load_chunks
from filter_call import Plugin
from harness import Field, Report, Violation, parser, plugin_file, progress, psnr
from peer_calls import LIBRARIES, Codec, of_library, of_plugin, through_hdf5

REPEATS = 5
LOSSLESS = {
    **{name: LIBRARIES[name] for name in ("pcodec", "Blosc2", "ZFP reversible")},
    **{f"{name} h5": through_hdf5(name) for name in ("gzip", "bitshuffle")},
}
Arrays = dict[str, list[Field]]


class Coded(NamedTuple):
    nbytes: int
    decoded: np.ndarray
    #: The least of the repeats.
    seconds_in: float
    seconds_out: float


def coded(codec: Codec, chunk: Field) -> Coded:
    compressed = [codec.compress(chunk, 0.0) for _ in range(REPEATS)]
    stream = compressed[0][1]
    decompressed = [codec.decompress(stream, chunk) for _ in range(REPEATS)]
    return Coded(stream.nbytes, decompressed[0][1], min(run[0] for run in compressed), min(run[0] for run in decompressed))


@functools.cache
def plugin() -> Plugin:
    return Plugin(plugin_file())


def ours(chunks: list[Field], options: str | Callable[[Field], str]) -> list[Coded]:
    by_chunk = options if callable(options) else lambda _: options
    return [coded(of_plugin(plugin, lambda chunk, _: by_chunk(chunk), ""), chunk) for chunk in chunks]


def ratio_of(chunks: list[Field], found: list[Coded]) -> float:
    return sum(chunk.values.nbytes for chunk in chunks) / sum(one.nbytes for one in found)


def figures(chunks: list[Field], found: list[Coded]) -> tuple[float, float, float]:
    """Ratio, and MB/s of uncompressed data in and out."""
    size = sum(chunk.values.nbytes for chunk in chunks) / 1e6
    return ratio_of(chunks, found), size / sum(one.seconds_in for one in found), size / sum(one.seconds_out for one in found)


def cells(ratio: float, speed_in: float, speed_out: float) -> list[str]:
    return [f"{ratio:.3f}", f"{speed_in:.0f}", f"{speed_out:.0f}"]


def lossless(report: Report, arrays: Arrays) -> Iterator[list[object]]:
    report.say(f"exact bits: ratio, and MB/s in and out, of the shortest of {REPEATS} (ours: filter() alone; h5: through HDF5 in memory)")
    codecs = {"Quire": of_plugin(plugin, lambda _, __: "lossless", "filter()"), **{name: of_library(library) for name, library in LOSSLESS.items()}}
    report.say(*(f"{name + ':':<16}{codec.call}" for name, codec in codecs.items()), "")
    yield ["array", "type", *(title for codec in codecs for title in (codec, "in", "out"))]
    all_figures: dict[str, list[tuple[float, float, float]]] = {codec: [] for codec in codecs}
    for name, chunks in progress(arrays.items()):
        for codec, call in codecs.items():
            found = [coded(call, chunk) for chunk in chunks]
            if any(chunk.values.tobytes() != one.decoded.tobytes() for chunk, one in zip(chunks, found)):
                raise Violation(f"{name}: {codec} does not give the bits back")
            all_figures[codec].append(figures(chunks, found))
        yield [name, chunks[0].values.dtype.str[1:], *(cell for codec in codecs for cell in cells(*all_figures[codec][-1]))]
    yield ["geometric mean", "", *(cell for codec in codecs for cell in cells(*map(geometric_mean, zip(*all_figures[codec]))))]


def psnrs(report: Report, arrays: Arrays) -> Iterator[list[object]]:
    """Chunks that are exact at any bound have no PSNR: theirs is infinite."""
    report.say("PSNR: dB beyond what was asked for, least and median over the chunks of an array, and ratio compared with an even spread of errors", "")
    asked_for = (50, 70, 90)
    yield ["array", *(title for asked in asked_for for title in (f"{asked} dB: least", "median", "ratio"))]
    for name, chunks in progress(arrays.items()):
        row: list[object] = [name]
        for asked in asked_for:
            found = ours(chunks, f"psnr={asked}")
            beyond = [psnr(chunk, one.decoded) - asked for chunk, one in zip(chunks, found)]
            even = ours(chunks, lambda chunk: f"abs={chunk.range * 3**0.5 * 10 ** (-asked / 20)!r}")
            row += [f"{min(beyond):.2f}", f"{median(beyond):.2f}", f"{ratio_of(chunks, found) / ratio_of(chunks, even):.3f}x"]
        yield row


def ratios(report: Report, arrays: Arrays) -> Iterator[list[object]]:
    report.say(
        "ratio: farthest chunk's, beside what was asked for or that of its exact bits, if that is more, and MB/s in beside that of the same chunks at rel=1e-3",
        "",
    )
    asked_for = (4, 8, 16, 32)
    yield ["array", *(title for asked in asked_for for title in (f"{asked}", "speed"))]
    off: list[float] = []
    for name, chunks in progress(arrays.items()):
        row: list[object] = [name]
        exactly, plain = ours(chunks, "lossless"), figures(chunks, ours(chunks, "rel=1e-3"))[1]
        for asked in asked_for:
            found = ours(chunks, f"ratio={asked}")
            possible = [max(asked, chunk.values.nbytes / exact.nbytes) for chunk, exact in zip(chunks, exactly)]
            reached = [chunk.values.nbytes / one.nbytes / most for chunk, one, most in zip(chunks, found, possible)]
            off += [abs(value - 1) for value in reached]
            row += [f"{max(reached, key=lambda value: abs(np.log(value))):.3f}", f"{figures(chunks, found)[1] / plain:.2f}x"]
        yield row
    yield [f"within 5 %: {sum(value <= 0.05 for value in off)} of {len(off)}"]


def pointwise(report: Report, arrays: Arrays) -> Iterator[list[object]]:
    report.say("point-wise relative bound: ratio, and MB/s in and out", "")
    shares = (1e-1, 1e-2, 1e-3)
    yield ["array", *(title for share in shares for title in (f"{share:g}", "in", "out"))]
    for name, chunks in progress(arrays.items()):
        row: list[object] = [name]
        for share in shares:
            found = ours(chunks, f"pwrel={share}")
            for chunk, one in zip(chunks, found):
                wide, other = chunk.values.astype(np.float64), one.decoded.astype(np.float64)
                finite = np.isfinite(wide)
                held = (np.abs(wide - other) <= share * np.abs(wide)) & (np.signbit(wide) == np.signbit(other))
                if not held[finite].all() or chunk.values[~finite].tobytes() != one.decoded[~finite].tobytes():
                    raise Violation(f"{name}: pwrel={share} does not hold")
            ratio, *speeds = figures(chunks, found)
            row += [f"{ratio:.2f}", *(f"{speed:.0f}" for speed in speeds)]
        yield row


def keep(report: Report, arrays: Arrays) -> Iterator[list[object]]:
    kinds, shares = ("order", "sign:0", "order+sign:0"), (1e-2, 1e-3, 1e-4)
    report.say("what is kept beside a bound: bits a value, and time in and out, as multiples of those of the bound alone", "")
    yield ["array", *(title for share in shares for kind in kinds for title in (f"{share:g} {kind}", "in", "out"))]
    rows: list[list[float]] = []
    for name, chunks in progress(arrays.items()):
        rows.append([])
        for share in shares:
            plain = figures(chunks, ours(chunks, f"rel={share}"))
            for kind in kinds:
                found = ours(chunks, f"rel={share},keep={kind}")
                if not all(is_kept(kind, chunk.values, one.decoded) for chunk, one in zip(chunks, found)):
                    raise Violation(f"{name}: keep={kind} does not hold beside rel={share}")
                rows[-1] += [alone / kept for alone, kept in zip(plain, figures(chunks, found))]
        yield [name, *(f"{figure:.2f}x" for figure in rows[-1])]
    yield ["geometric mean", *(f"{geometric_mean(column):.2f}x" for column in zip(*rows))]


def is_kept(kind: str, before: np.ndarray, after: np.ndarray) -> bool:
    """Whether no value passed another one, or crossed 0."""
    before, after = (array.astype(np.float64).reshape(-1) for array in (before, after))
    by_size = np.argsort(before, kind="stable")[: np.count_nonzero(~np.isnan(before))]
    steps, restored = np.diff(before[by_size]), np.diff(after[by_size])
    in_order = not ((restored < 0) | (steps == 0) & (restored != 0)).any()
    signs = np.array_equal(np.sign(before), np.sign(after), equal_nan=True)
    return (in_order or "order" not in kind) and (signs or "sign" not in kind)


PARTS = {"lossless": lossless, "psnr": psnrs, "ratio": ratios, "pointwise": pointwise, "keep": keep}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="of arrays; all by default")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    arguments = options.parse_args()
    arrays = load_chunks(arguments.names)
    generated = {name: chunks for name, chunks in arrays.items() if not name.startswith("real_")}
    report = Report("modes", arguments.results, f"one thread; chunks of about 1 MiB, at most eight an array, {len(arrays)} arrays")
    for part in arguments.parts:
        report.say("")
        report.table(PARTS[part](report, arrays if part in ("lossless", "keep") else generated), 2 if part == "lossless" else 1)


if __name__ == "__main__":
    main()
