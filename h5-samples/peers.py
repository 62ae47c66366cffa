"""Speed and ratio of the plugin's filter() beside SZ3 and ZFP, on one chunk, in one process, taking turns.

    h5-samples/peers.sh [REPEATS]

The filter is called as HDF5 calls it (H5Z_class2_t.filter on a buffer from malloc), without HDF5 around it. Every codec's bound is
checked in f64 on every value before anything is timed. MB/s are of uncompressed data; each figure is the median of the repeats. How many times as fast as
SZ3 a codec is comes from each repeat by itself, in which both took their turns within a few milliseconds: median and quartiles, so that a machine
that changes its speed in between, as virtual ones do, says the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import numpy as np
import zfpy
from pysz import sz, szConfig, szErrorBoundMode

from filter_call import REVERSE, Plugin, chunk_words

Codec = tuple[Callable[[], tuple[float, np.ndarray]], Callable[[np.ndarray], tuple[float, np.ndarray]]]


SZ3 = "SZ3 (pysz)"


def timed(call: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def codecs(plugin: Plugin, chunk: np.ndarray, bound: float) -> dict[str, Codec]:
    """Compress and decompress of each codec; both give seconds and a result."""
    words = chunk_words(bound, chunk.shape)
    config = szConfig(chunk.shape)
    config.errorBoundMode, config.absErrorBound = szErrorBoundMode.ABS, bound
    return {
        "Quire filter()": (
            lambda: plugin.run(0, words, chunk),
            lambda stream: (lambda s, b: (s, b.view(chunk.dtype).reshape(chunk.shape)))(*plugin.run(REVERSE, words, stream)),
        ),
        SZ3: (
            lambda: (lambda s, r: (s, r[0]))(*timed(lambda: sz.compress(chunk, config))),
            lambda stream: (lambda s, r: (s, r[0]))(*timed(lambda: sz.decompress(stream, chunk.dtype, chunk.shape))),
        ),
        "ZFP (zfpy)": (
            lambda: (lambda s, r: (s, np.frombuffer(r, np.uint8)))(*timed(lambda: zfpy.compress_numpy(chunk, tolerance=bound))),
            lambda stream: timed(lambda: zfpy.decompress_numpy(stream.tobytes())),
        ),
    }


def measure(plugin: Plugin, name: str, chunk: np.ndarray, relative: float, repeats: int) -> None:
    bound = relative * (float(chunk.max()) - float(chunk.min()))
    rows = {}
    contestants = codecs(plugin, chunk, bound)
    for codec, (compress, decompress) in contestants.items():
        _, stream = compress()
        worst = np.abs(decompress(stream)[1].astype(np.float64) - chunk.astype(np.float64)).max() / bound
        rows[codec] = (stream, worst, [], [])
    for _ in range(repeats):
        for codec, (compress, decompress) in contestants.items():
            stream, _, encode, decode = rows[codec]
            encode.append(compress()[0])
            decode.append(decompress(stream)[0])
    for codec, (stream, worst, encode, decode) in rows.items():
        speeds = [chunk.nbytes / np.quantile(times, 0.5) / 1e6 for times in (encode, decode)]
        times_as_fast = [
            "{1:.2f} ({0:.2f} to {2:.2f})".format(*np.quantile(np.divide(sz3, times), (0.25, 0.5, 0.75)))
            for sz3, times in zip(rows[SZ3][2:], (encode, decode))
        ]
        print(
            f"{name:<20} {relative:<6g} {codec:<15} {chunk.nbytes / stream.nbytes:>6.2f} {worst:>8.4f} {speeds[0]:>9.0f} {speeds[1]:>11.0f}"
            f"  {times_as_fast[0]:>20} {times_as_fast[1]:>20}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("fields", type=Path, help="folder of .npy files, from the program generate")
    parser.add_argument("repeats", type=int, nargs="?", default=31)
    arguments = parser.parse_args()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    print(f"command: h5-samples/peers.sh {arguments.repeats}\nmachine: {model}; one thread; f32 chunks of 64^3")
    print(f"{'field':<20} {'bound':<6} {'codec':<15} {'ratio':>6} {'worst':>8} {'MB/s in':>9} {'MB/s out':>11}  {'times SZ3 in':>20} {'out':>20}")
    plugin = Plugin(arguments.library)
    for name in ("turbulence_resolved", "turbulence_velocity", "turbulence_density", "cloud_water"):
        chunk = np.ascontiguousarray(np.load(arguments.fields / f"{name}.npy")[32:96, 32:96, 32:96])
        for relative in (1e-2, 1e-3, 1e-4):
            measure(plugin, name, chunk, relative, arguments.repeats)


if __name__ == "__main__":
    main()
