"""Speed and ratio of the plugin's filter(), SZ3 and ZFP on the chunks of each array, in turns in one process; or of filter() of several builds.

    h5-samples/measure peers [NAME...] [--rounds 15]
    h5-samples/measure peers [NAME...] --builds OLD/libh5zquire.so NEW/libh5zquire.so

The filter is called as HDF5 calls it (H5Z_class2_t.filter on a buffer from malloc, into which the chunk is copied before the clock starts), without HDF5
around it. A turn compresses all chunks of an array and then decompresses them, as programs do that write or read a dataset: one chunk again and again
would be learned by heart by the CPU, and one between two other codecs would find caches full of their things. Before anything is timed, values of ours
and of SZ3's are checked in f64, and of ours the bits of NaN and fill values too. MB/s are of uncompressed data; each figure is the median of the rounds.
How many times as long another takes as the first one comes from each round by itself, in which all took their turns one after another: median and quartiles,
so that a machine that changes its speed in between, as virtual ones do, says the same.

A small change may cost less than two builds differ by chance, and many such changes are slow together: so compare with the last release, too.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from arrays import CHUNKS, cut, load_arrays
from filter_call import Plugin
from harness import RELATIVE_BOUNDS, Field, Report, check, errors_of, in_turns, parser, plugin_file, progress, quartiles, shape_text
from peer_calls import LIBRARIES, Codec, of_library, of_plugin

OURS = "Quire"


def ours(file: Path) -> Codec:
    plugin = Plugin(file)
    return of_plugin(lambda: plugin, lambda _, bound: f"abs={bound!r}", "filter(), the fill value declared")


def turned_round(chunks: list[Field]) -> list[Field]:
    """Chunks as they are and with some of their axes turned round, until there are CHUNKS of them."""
    most_axes = max(chunk.values.ndim for chunk in chunks)
    turned = (
        Field(chunk.name, np.ascontiguousarray(np.flip(chunk.values, axes)), chunk.fill)
        for count in range(most_axes + 1)
        for axes in itertools.combinations(range(most_axes), count)
        for chunk in chunks
        if all(axis < chunk.values.ndim for axis in axes)
    )
    return list(itertools.islice(turned, CHUNKS))


def measure(codecs: dict[str, Codec], chunks: list[Field], relative: float, rounds: int) -> tuple[list[object], np.ndarray]:
    """A row of the table, and the medians of the others' times over the first one's, `[other][in, out]`."""
    streams: dict[str, list] = {name: [] for name in codecs}
    for chunk, (name, codec) in itertools.product(chunks, codecs.items()):
        bound = relative * chunk.range
        streams[name].append(codec.compress(chunk, bound)[1])
        decoded = codec.decompress(streams[name][-1], chunk)[1]
        if codec.call.startswith("filter()"):
            check(chunk, decoded, bound)
        elif name == "SZ3" and (worst := errors_of(chunk, decoded).max() / bound) > 1:
            print(f"    SZ3 on {chunk.name} at {relative:g}: an error of {worst:.7g} bounds", file=sys.stderr)

    def compress(codec: Codec) -> float:
        return sum(codec.compress(chunk, relative * chunk.range)[0] for chunk in chunks)

    def decompress(codec: Codec, own: list) -> float:
        return sum(codec.decompress(stream, chunk)[0] for stream, chunk in zip(own, chunks))

    ways = {}
    for name, codec in codecs.items():
        ways[name, "in"] = functools.partial(compress, codec)
        ways[name, "out"] = functools.partial(decompress, codec, streams[name])
    taken = in_turns(ways, rounds)
    size = sum(chunk.values.nbytes for chunk in chunks)
    first, *others = codecs
    row: list[object] = [chunks[0].name, f"{relative:g}", *(f"{size / sum(stream.nbytes for stream in own):.2f}" for own in streams.values())]
    row += [f"{size / median(taken[name, way]) / 1e6:.0f}" for way in ("in", "out") for name in codecs]
    found = np.array([[quartiles(np.divide(taken[name, way], taken[first, way])) for way in ("in", "out")] for name in others])
    row += [f"{middle:.2f} ({low:.2f} to {high:.2f})" for other in found for low, middle, high in other]
    return row, found[:, :, 1]


def summary(first: str, others: list[str], group: str, bound: str, times: np.ndarray) -> Iterator[list[object]]:
    """Rows with the means of the others' times over the first one's, `[case][other][in, out]`."""
    for number, other in enumerate(others):
        for way, column in zip(("in", "out"), times[:, number].T):
            means = (f"{geometric_mean(column):.3f}", f"{median(column):.3f}", f"{column.min():.2f}")
            counts = (np.count_nonzero(column < 1), np.count_nonzero(column >= 2))
            yield [f"{other} / {first}", way, f"{group}, {bound}", len(column), *means, *counts]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="of arrays; all by default")
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--builds", nargs="+", type=Path, metavar="PLUGIN", help="libh5zquire.so of builds, the first one to compare with")
    arguments = options.parse_args()
    if arguments.builds:
        codecs = {f"build {number}": ours(file) for number, file in enumerate(arguments.builds)}
        lines = [f"{name}: {file}" for name, file in zip(codecs, arguments.builds)]
    else:
        codecs = {OURS: ours(plugin_file())} | {name: of_library(LIBRARIES[name], gaps_apart=True) for name in ("SZ3", "ZFP")}
        lines = [f"{name}:     {codec.call}, which is not timed" for name, codec in codecs.items() if name != OURS]
    report = Report(
        "builds" if arguments.builds else "peers",
        arguments.results,
        "one thread",
        f"chunks:  of about 1 MiB or what the array has, at most {CHUNKS}; where they are fewer, turned round too (1-D 2 ways, 2-D 4, 3-D 8)",
        "bound:   share of each chunk's range",
        "MB/s:    in and out, of uncompressed data",
        *lines,
        "",
    )
    first, *others = codecs
    rows: list[list[object]] = []
    times: dict[tuple[str, str], list[np.ndarray]] = {}
    for array in progress(load_arrays(arguments.names)):
        own = cut(array)
        if not own:
            continue
        chunks = turned_round(own)
        largest = max((chunk.values for chunk in chunks), key=lambda values: values.nbytes)
        for relative in RELATIVE_BOUNDS:
            row, found = measure(codecs, chunks, relative, arguments.rounds)
            rows.append([*row, f"{len(own)} of {shape_text(largest.shape)} f{8 * largest.itemsize}"])
            for group, bound in itertools.product(("all", "real" if array.name.startswith("real_") else "generated"), ("all bounds", f"{relative:g}")):
                times.setdefault((group, bound), []).append(found)
    quotients = [f"{other} / {first}, {way}" for other in others for way in ("in", "out")]
    speeds = [f"{way} {name}" for way in ("in", "out") for name in codecs]
    report.table([["array", "bound", *(f"ratio {name}" for name in codecs), *speeds, *quotients, "chunks"], *rows])
    report.say("", f"times of the others over those of {first}, arrays and bounds")
    head = ["", "", "arrays, bound", "cases", "geometric mean", "median", "least", "less than 1", "2 and more"]
    report.table([head, *(row for (group, bound), found in times.items() for row in summary(first, others, group, bound, np.array(found)))], 3)


if __name__ == "__main__":
    main()
