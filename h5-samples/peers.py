"""Measures speed and ratio of the plugin's filter(), SZ3 and ZFP on the chunks of each array, in turns in one process.

    h5-samples/peers.sh [REPEATS [NAME...]]

The filter is called as HDF5 calls it (H5Z_class2_t.filter on a buffer from malloc, into which the chunk is copied before the clock starts), without HDF5
around it. A turn compresses all chunks of an array and then decompresses them, as programs do that write or read a dataset: one chunk again and again
would be learned by heart by the CPU, and one between two other codecs would find caches full of their things. Before anything is timed, values of ours
and of SZ3's are checked in f64, and of ours the bits of NaN and fill values too. MB/s are of uncompressed data; each figure is the median of the repeats.
How many times as fast as SZ3 ours is comes from each repeat by itself, in which both took their turns one after another: median and quartiles, so that a
machine that changes its speed in between, as virtual ones do, says the same.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from arrays import CHUNKS, cut, load_arrays
from demo import RELATIVE_BOUNDS, Field, progress
from filter_call import REVERSE, Plugin, chunk_words
from measured import measured
from peer_calls import LIBRARIES, Stream, described, without_gaps

OURS, SZ3, ZFP = "Quire", "SZ3", "ZFP"
OTHERS = (SZ3, ZFP)

# A function that compresses and one that decompresses. Both return seconds and a result: the stream's bytes with the stream, and the values.
Codec = tuple[Callable[[], tuple[float, Stream]], Callable[[Stream], tuple[float, np.ndarray]]]


def timed(call: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def quire(plugin: Plugin, chunk: Field, bound: float) -> Codec:
    values = chunk.values
    words = chunk_words(bound, values.shape, values.dtype, chunk.fill)

    def compress() -> tuple[float, Stream]:
        seconds, stream = plugin.run(0, words, values)
        return seconds, Stream(stream.nbytes, stream)

    def decompress(stream: Stream) -> tuple[float, np.ndarray]:
        seconds, decoded = plugin.run(REVERSE, words, stream.content)
        return seconds, decoded.view(values.dtype).reshape(values.shape)

    return compress, decompress


def of_library(name: str, chunk: Field, bound: float) -> Codec:
    """A library, which gets the chunk without its gaps. Taking those out is not timed, and the bytes of their mask count."""
    library = LIBRARIES[name]
    values, mask = without_gaps(chunk.values, chunk.valid)

    def compress() -> tuple[float, Stream]:
        seconds, stream = timed(lambda: library.compress(values, bound))
        return seconds, Stream(stream.nbytes + mask, stream.content)

    return compress, lambda stream: timed(lambda: library.decompress(stream, values))


def codecs(plugin: Plugin, chunk: Field, bound: float) -> dict[str, Codec]:
    return {OURS: quire(plugin, chunk, bound), **{name: of_library(name, chunk, bound) for name in OTHERS}}


def worst_error(chunk: Field, decoded: np.ndarray) -> float:
    """Largest error of an ordinary value; infinity if one is decoded as NaN."""
    error = float(np.abs(decoded[chunk.valid].astype(np.float64) - chunk.values[chunk.valid].astype(np.float64)).max())
    return np.inf if np.isnan(error) else error


def dataset(own: list[Field]) -> list[Field]:
    """The chunks of an array. If there are fewer than CHUNKS, also the chunks reversed along their axes."""
    most_axes = max((chunk.values.ndim for chunk in own), default=0)
    turned = (
        Field(chunk.name, np.ascontiguousarray(np.flip(chunk.values, axes)), chunk.fill)
        for count in range(most_axes + 1)
        for axes in itertools.combinations(range(most_axes), count)
        for chunk in own
        if all(axis < chunk.values.ndim for axis in axes)
    )
    return list(itertools.islice(turned, CHUNKS))


def measure(plugin: Plugin, chunks: list[Field], relative: float, repeats: int) -> tuple[str, np.ndarray]:
    """A line of the table, and SZ3's times over ours for compression and decompression."""
    contestants: dict[str, list[tuple[Codec, np.ndarray]]] = {}
    worst: dict[str, float] = {}
    for chunk in chunks:
        bound = relative * chunk.range
        for codec, (compress, decompress) in codecs(plugin, chunk, bound).items():
            _, stream = compress()
            decoded = decompress(stream)[1]
            worst[codec] = max(worst.get(codec, 0.0), worst_error(chunk, decoded) / bound)
            if codec == OURS and (worst[codec] > 1 or chunk.values[~chunk.valid].tobytes() != decoded[~chunk.valid].tobytes()):
                sys.exit(f"{chunk.name} at {relative:g}: an error of {worst[codec]} bounds, or another NaN or fill value")
            contestants.setdefault(codec, []).append(((compress, decompress), stream))
    if worst[SZ3] > 1:
        progress("")
        print(f"    SZ3 on {chunks[0].name} at {relative:g}: an error of {worst[SZ3]:.7g} bounds", file=sys.stderr)
    runs = np.empty((repeats, len(contestants), 2))
    for run in runs:
        for seconds, turn in zip(run, contestants.values()):
            seconds[0] = sum(compress()[0] for (compress, _), _ in turn)
            seconds[1] = sum(decompress(stream)[0] for (_, decompress), stream in turn)
    size = sum(chunk.values.nbytes for chunk in chunks)
    ratios = [size / sum(stream.nbytes for _, stream in turn) for turn in contestants.values()]
    speeds = size / np.median(runs, axis=0).T / 1e6
    ours, sz3 = (runs[:, list(contestants).index(codec)] for codec in (OURS, SZ3))
    quartiles = np.quantile(sz3 / ours, (0.25, 0.5, 0.75), axis=0).T
    numbers = [f"{ratio:>7.2f}" for ratio in ratios] + [f"{speed:>6.0f}" for way in speeds for speed in way]
    times = [f"{middle:>6.2f} ({low:.2f} to {high:.2f})" for low, middle, high in quartiles]
    return " ".join([f"{chunks[0].name:<26} {relative:<6g}", *numbers, *times]), quartiles[:, 1]


HEADER = f"{'array':<26} {'bound':<6} {'ratio':>7} {SZ3:>7} {ZFP:>7} {'in':>6} {SZ3:>6} {ZFP:>6} {'out':>6} {SZ3:>6} {ZFP:>6} {'in / SZ3':>21} {'out / SZ3':>21}"


def summary(group: str, times: list[np.ndarray]) -> str:
    """A line with the means of SZ3's times over ours."""
    ways = (
        f"{way} {np.exp(np.log(column).mean()):.2f} (geometric mean), at least {column.min():.2f}, at least 2 in {np.count_nonzero(column >= 2)}"
        for way, column in zip(("in", "out"), np.array(times).T)
    )
    return f"{group} ({len(times)}): {'; '.join(ways)}"


def shape_and_type(values: np.ndarray) -> str:
    return f"{'x'.join(map(str, values.shape))} f{8 * values.itemsize}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("data", type=Path, help="folder of .npy files, from the program generate")
    parser.add_argument("repeats", type=int, nargs="?", default=15)
    parser.add_argument("names", nargs="*", help="of arrays; all by default")
    arguments = parser.parse_args()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    arrays = [array for array in load_arrays(arguments.data) if not arguments.names or array.name in arguments.names]
    print(
        f"{measured()}\n"
        f"command: h5-samples/peers.sh {' '.join(sys.argv[3:])}\n"
        f"machine: {model}, one thread\n"
        f"chunks:  of about 1 MiB or what the array has, at most {CHUNKS}; where they are fewer, turned round too (1-D 2 ways, 2-D 4, 3-D 8)\n"
        f"bound:   share of each chunk's range\n"
        f"MB/s:    in and out, of uncompressed data\n"
        + "".join(f"{name}:     {described(LIBRARIES[name])}; gaps apart, which is not timed\n" for name in OTHERS)
        + f"\n{HEADER}"
    )
    plugin = Plugin(arguments.library)
    times: dict[str, list[np.ndarray]] = {}
    for number, array in enumerate(arrays, 1):
        own = cut(array)
        if not own:
            continue
        chunks = dataset(own)
        largest = max((chunk.values for chunk in chunks), key=lambda values: values.nbytes)
        print(f"{len(own)} chunks, {len(chunks)} with those turned round, up to {shape_and_type(largest)}")
        for relative in RELATIVE_BOUNDS:
            progress(f"{number}/{len(arrays)}: {array.name} at {relative:g}")
            line, faster = measure(plugin, chunks, relative, arguments.repeats)
            progress("")
            print(line, flush=True)
            for group in ("all", "real" if array.name.startswith("real_") else "generated"):
                times.setdefault(group, []).append(faster)
    print(f"\ntimes as fast as {SZ3}, arrays and bounds")
    for group in sorted(times):
        print(summary(group, times[group]))


if __name__ == "__main__":
    main()
