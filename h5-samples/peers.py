"""Speed and ratio of the plugin's filter() beside SZ3 and ZFP, on the middle chunk of each array, in one process, taking turns.

    h5-samples/peers.sh [REPEATS [NAME...]]

The filter is called as HDF5 calls it (H5Z_class2_t.filter on a buffer from malloc), without HDF5 around it. Every value of ours and of SZ3's is checked
in f64 before anything is timed. MB/s are of uncompressed data; each figure is the median of the repeats. How many times as fast as SZ3 ours is comes
from each repeat by itself, in which both took their turns within a few milliseconds: median and quartiles, so that a machine that changes its speed
in between, as virtual ones do, says the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zfpy
from pysz import sz, szConfig, szErrorBoundMode

from arrays import load_arrays, middle_chunk
from demo import RELATIVE_BOUNDS, Field, progress
from filter_call import REVERSE, Plugin, chunk_words

OURS, SZ3, ZFP = "Quire", "SZ3", "ZFP"

# Compress and decompress; both give seconds and a result.
Codec = tuple[Callable[[], tuple[float, np.ndarray]], Callable[[np.ndarray], tuple[float, np.ndarray]]]


def timed(call: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def codecs(plugin: Plugin, chunk: Field, bound: float) -> dict[str, Codec]:
    values = chunk.values
    words = chunk_words(bound, values.shape, values.dtype, chunk.fill)
    config = szConfig(values.shape)
    config.errorBoundMode, config.absErrorBound = szErrorBoundMode.ABS, bound

    def quire_back(stream: np.ndarray) -> tuple[float, np.ndarray]:
        seconds, decoded = plugin.run(REVERSE, words, stream)
        return seconds, decoded.view(values.dtype).reshape(values.shape)

    def sz3() -> tuple[float, np.ndarray]:
        seconds, (stream, _) = timed(lambda: sz.compress(values, config))
        return seconds, stream

    def sz3_back(stream: np.ndarray) -> tuple[float, np.ndarray]:
        seconds, (decoded, _) = timed(lambda: sz.decompress(stream, values.dtype, values.shape))
        return seconds, decoded

    def zfp() -> tuple[float, np.ndarray]:
        seconds, stream = timed(lambda: zfpy.compress_numpy(values, tolerance=bound))
        return seconds, np.frombuffer(stream, np.uint8)

    def zfp_back(stream: np.ndarray) -> tuple[float, np.ndarray]:
        source = stream.tobytes()
        return timed(lambda: zfpy.decompress_numpy(source))

    return {OURS: (lambda: plugin.run(0, words, values), quire_back), SZ3: (sz3, sz3_back), ZFP: (zfp, zfp_back)}


def worst_error(chunk: Field, decoded: np.ndarray) -> float:
    """Of an ordinary value; infinity where one comes back as NaN."""
    error = float(np.abs(decoded[chunk.valid].astype(np.float64) - chunk.values[chunk.valid].astype(np.float64)).max())
    return np.inf if np.isnan(error) else error


def measure(plugin: Plugin, chunk: Field, relative: float, repeats: int) -> tuple[str, np.ndarray]:
    """A line of the table, and how many times as fast as SZ3 ours is, in and out."""
    bound = relative * chunk.range
    contestants = codecs(plugin, chunk, bound)
    streams = {}
    for codec, (compress, decompress) in contestants.items():
        _, streams[codec] = compress()
        worst = worst_error(chunk, decompress(streams[codec])[1])
        if codec == OURS and worst > bound:
            sys.exit(f"{chunk.name} at {relative:g}: an error of {worst / bound} bounds")
        if codec == SZ3 and worst > bound:
            progress("")
            print(f"    SZ3 on {chunk.name} at {relative:g}: an error of {worst / bound:.7g} bounds", file=sys.stderr)
    runs = np.empty((repeats, len(contestants), 2))
    for run in runs:
        for seconds, (codec, (compress, decompress)) in zip(run, contestants.items()):
            seconds[:] = compress()[0], decompress(streams[codec])[0]
    size = chunk.values.nbytes
    ratios = [size / stream.nbytes for stream in streams.values()]
    speeds = size / np.median(runs, axis=0).T / 1e6
    ours, sz3 = (runs[:, list(contestants).index(codec)] for codec in (OURS, SZ3))
    quartiles = np.quantile(sz3 / ours, (0.25, 0.5, 0.75), axis=0).T
    numbers = [f"{ratio:>7.2f}" for ratio in ratios] + [f"{speed:>6.0f}" for way in speeds for speed in way]
    times = [f"{middle:>6.2f} ({low:.2f} to {high:.2f})" for low, middle, high in quartiles]
    return " ".join([f"{chunk.name:<26} {relative:<6g}", *numbers, *times]), quartiles[:, 1]


HEADER = f"{'array':<26} {'bound':<6} {'ratio':>7} {SZ3:>7} {ZFP:>7} {'in':>6} {SZ3:>6} {ZFP:>6} {'out':>6} {SZ3:>6} {ZFP:>6} {'in / SZ3':>21} {'out / SZ3':>21}"


def summary(group: str, times: list[np.ndarray]) -> str:
    """Of how many times as fast as SZ3 ours is."""
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
    parser.add_argument("repeats", type=int, nargs="?", default=31)
    parser.add_argument("names", nargs="*", help="of arrays; all by default")
    arguments = parser.parse_args()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    chunks = [chunk for array in load_arrays(arguments.data) if (chunk := middle_chunk(array))]
    chunks = [chunk for chunk in chunks if not arguments.names or chunk.name in arguments.names]
    print(
        f"command: h5-samples/peers.sh {' '.join(sys.argv[3:])}\n"
        f"machine: {model}, one thread\n"
        f"chunks:  the middle one of each array, of about 1 MiB or the whole array; bounds are shares of its range\n"
        f"MB/s:    in and out, of uncompressed data; {SZ3} is pysz, {ZFP} is zfpy\n\n{HEADER}"
    )
    plugin = Plugin(arguments.library)
    times: dict[str, list[np.ndarray]] = {}
    for number, chunk in enumerate(chunks, 1):
        print(shape_and_type(chunk.values))
        for relative in RELATIVE_BOUNDS:
            progress(f"{number}/{len(chunks)}: {chunk.name} at {relative:g}")
            line, faster = measure(plugin, chunk, relative, arguments.repeats)
            progress("")
            print(line, flush=True)
            for group in ("all", "real" if chunk.name.startswith("real_") else "generated"):
                times.setdefault(group, []).append(faster)
    print(f"\ntimes as fast as {SZ3}, arrays and bounds")
    for group in sorted(times):
        print(summary(group, times[group]))


if __name__ == "__main__":
    main()
