"""Measures each kind of bound on generated and real arrays: lossless ratios compared with lossless compressors, and how close PSNR, ratio and the point-wise
bound come to the values asked for. Run by modes.sh; every promise is checked in f64 on every value before a figure is printed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from arrays import cut, load_arrays
from demo import Field, machine, progress
from filter_call import PLUGIN_FILE, Plugin
from measured import measured
from peer_calls import LIBRARIES, Library, described, through_hdf5

REPEATS = 5
Coded = tuple[int, np.ndarray, float, float]  # bytes, decoded values, seconds in and out


def quire(plugin: Plugin, chunk: Field, options: str) -> Coded:
    runs = [plugin.round_trip(options, chunk.values, chunk.fill) for _ in range(REPEATS)]
    return runs[0].stream.nbytes, runs[0].decoded, min(run.seconds_in for run in runs), min(run.seconds_out for run in runs)


def of_library(library: Library) -> Callable[[Field], Coded]:
    """A library on a chunk; a filter is one, through HDF5 in a file in memory."""

    def run(chunk: Field) -> Coded:
        seconds_in, seconds_out = [], []
        for _ in range(REPEATS):
            start = time.perf_counter()
            stream = library.compress(chunk.values, 0.0)
            seconds_in.append(time.perf_counter() - start)
            start = time.perf_counter()
            decoded = library.decompress(stream, chunk.values)
            seconds_out.append(time.perf_counter() - start)
        return stream.nbytes, decoded, min(seconds_in), min(seconds_out)

    return run


LOSSLESS = {
    **{name: LIBRARIES[name] for name in ("pcodec", "Blosc2", "ZFP reversible")},
    **{f"{name} h5": through_hdf5(name) for name in ("gzip", "bitshuffle")},
}


def mean_ratio(chunks: list[Field], coded: list[Coded]) -> float:
    return sum(chunk.values.nbytes for chunk in chunks) / sum(result[0] for result in coded)


def speeds(chunks: list[Field], coded: list[Coded]) -> tuple[float, float]:
    """MB/s of uncompressed data, in and out."""
    size = sum(chunk.values.nbytes for chunk in chunks) / 1e6
    return size / sum(result[2] for result in coded), size / sum(result[3] for result in coded)


def same_bits(chunk: Field, decoded: np.ndarray) -> bool:
    return chunk.values.tobytes() == decoded.tobytes()


def lossless(plugin: Plugin, arrays: dict[str, list[Field]]) -> None:
    print(f"exact bits: ratio, and MB/s in and out, of the shortest of {REPEATS} (ours: filter() alone; h5: through HDF5 in memory)")
    print(*(f"{name + ':':<16}{described(library)}" for name, library in LOSSLESS.items()), "", sep="\n")
    codecs = {"Quire": lambda chunk: quire(plugin, chunk, "lossless"), **{name: of_library(library) for name, library in LOSSLESS.items()}}
    print(f"{'array':<26} {'type':<4}" + "".join(f" {codec:>26}" for codec in codecs))
    figures: dict[str, list[tuple[float, float, float]]] = {codec: [] for codec in codecs}
    for name, chunks in arrays.items():
        progress(f"exact bits: {name}")
        row = f"{name:<26} {chunks[0].values.dtype.str[1:]:<4}"
        for codec, run in codecs.items():
            coded = [run(chunk) for chunk in chunks]
            if not all(same_bits(chunk, result[1]) for chunk, result in zip(chunks, coded)):
                sys.exit(f"{name}: {codec} does not give the bits back")
            figures[codec].append((mean_ratio(chunks, coded), *speeds(chunks, coded)))
            row += cells(*figures[codec][-1])
        print(row)
    progress("")
    print(f"{'geometric mean':<31}" + "".join(cells(*map(geometric_mean, zip(*figures[codec]))) for codec in codecs))


def cells(ratio: float, speed_in: float, speed_out: float) -> str:
    return f" {ratio:>10.3f} {speed_in:>7.0f} {speed_out:>7.0f}"


def noise(chunk: Field, decoded: np.ndarray) -> float:
    """PSNR in dB over finite values but the fill value."""
    wide, other = chunk.values.astype(np.float64), decoded.astype(np.float64)
    counts = np.isfinite(wide) & (True if chunk.fill is None else chunk.values != np.array(chunk.fill, chunk.values.dtype))
    error = np.sqrt(np.mean((wide[counts] - other[counts]) ** 2))
    return np.inf if error == 0 else 20 * np.log10(np.ptp(wide[counts]) / error)


def psnr(plugin: Plugin, arrays: dict[str, list[Field]]) -> None:
    """Prints for each array how many dB the PSNR of its chunks is above the PSNR asked for. Chunks that are exact at any bound have no PSNR and are left
    out."""
    print("\nPSNR: dB beyond what was asked for, least and median over the chunks of an array, and ratio compared with an even spread of errors\n")
    print(f"{'array':<26}" + "".join(f" {f'{asked} dB':>28}" for asked in (50, 70, 90)))
    for name, chunks in arrays.items():
        row = f"{name:<26}"
        for asked in (50, 70, 90):
            progress(f"PSNR: {name} {asked}")
            coded = [quire(plugin, chunk, f"psnr={asked}") for chunk in chunks]
            beyond = [noise(chunk, result[1]) - asked for chunk, result in zip(chunks, coded)]
            even = [quire(plugin, chunk, f"abs={chunk.range * 3**0.5 * 10 ** (-asked / 20)!r}") for chunk in chunks]
            gain = mean_ratio(chunks, coded) / mean_ratio(chunks, even)
            row += f" {min(beyond):>8.2f} {median(beyond):>8.2f} {gain:>8.3f}x "
        print(row)
    progress("")


def ratio(plugin: Plugin, arrays: dict[str, list[Field]]) -> None:
    print("\nratio: farthest chunk's, beside what was asked for or that of its exact bits, if that is more, and MB/s in beside that of the same chunks at rel=1e-3\n")
    print(f"{'array':<26}" + "".join(f" {f'{asked}':>18}" for asked in (4, 8, 16, 32)))
    off: list[float] = []
    for name, chunks in arrays.items():
        row = f"{name:<26}"
        exactly = [quire(plugin, chunk, "lossless") for chunk in chunks]
        plain = speeds(chunks, [quire(plugin, chunk, "rel=1e-3") for chunk in chunks])[0]
        for asked in (4, 8, 16, 32):
            progress(f"ratio: {name} {asked}")
            coded = [quire(plugin, chunk, f"ratio={asked}") for chunk in chunks]
            possible = [max(asked, chunk.values.nbytes / exact[0]) for chunk, exact in zip(chunks, exactly)]
            reached = [chunk.values.nbytes / result[0] / most for chunk, result, most in zip(chunks, coded, possible)]
            off += [abs(value - 1) for value in reached]
            row += f" {max(reached, key=lambda value: abs(np.log(value))):>8.3f} {speeds(chunks, coded)[0] / plain:>7.2f}x "
        print(row)
    progress("")
    print(f"within 5 %: {sum(value <= 0.05 for value in off)} of {len(off)}")


def pointwise(plugin: Plugin, arrays: dict[str, list[Field]]) -> None:
    print("\npoint-wise relative bound: ratio, and MB/s in and out\n")
    print(f"{'array':<26}" + "".join(f" {f'{share:g}':>26}" for share in (1e-1, 1e-2, 1e-3)))
    for name, chunks in arrays.items():
        row = f"{name:<26}"
        for share in (1e-1, 1e-2, 1e-3):
            progress(f"point-wise: {name} {share}")
            coded = [quire(plugin, chunk, f"pwrel={share}") for chunk in chunks]
            for chunk, result in zip(chunks, coded):
                wide, other = chunk.values.astype(np.float64), result[1].astype(np.float64)
                finite = np.isfinite(wide)
                held = (np.abs(wide - other) <= share * np.abs(wide)) & (np.signbit(wide) == np.signbit(other))
                if not held[finite].all() or chunk.values[~finite].tobytes() != result[1][~finite].tobytes():
                    sys.exit(f"{name}: pwrel={share} does not hold")
            row += " {:>10.2f} {:>7.0f} {:>7.0f}".format(mean_ratio(chunks, coded), *speeds(chunks, coded))
        print(row)
    progress("")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fields", type=Path, help="folder of the generator's fields")
    parser.add_argument("parts", nargs="*", help="lossless, psnr, ratio, pointwise; all by default")
    arguments = parser.parse_args()
    plugin = Plugin(Path(os.environ["HDF5_PLUGIN_PATH"]) / PLUGIN_FILE)
    arrays = {array.name: cut(array) for array in load_arrays(arguments.fields)}
    arrays = {name: chunks for name, chunks in arrays.items() if chunks}
    generated = {name: chunks for name, chunks in arrays.items() if not name.startswith("real_")}
    print(measured())
    print(f"command: h5-samples/modes.sh\nmachine: {machine()}, one of them used\nchunks:  about 1 MiB, at most eight an array, {len(arrays)} arrays\n")
    parts = {
        "lossless": lambda: lossless(plugin, arrays),
        "psnr": lambda: psnr(plugin, generated),
        "ratio": lambda: ratio(plugin, generated),
        "pointwise": lambda: pointwise(plugin, generated),
    }
    for part in arguments.parts or parts:
        parts[part]()


if __name__ == "__main__":
    main()
