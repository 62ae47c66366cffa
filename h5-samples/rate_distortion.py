"""Bits per value against PSNR: the plugin's filter(), SZ3, ZFP and SPERR on a chunk of each array, with a picture of four fields and one of all arrays.
SZ3, ZFP and SPERR are given bounds. Ours and SPERR are given a PSNR as well, as somebody does who asks for one: then SPERR promises nothing for single
values. "Ours" is the filter with a PSNR.

Run by compare.sh, as compare.py is, whose codecs and checks it uses: bounds that were given are checked in f64, for every value.

Two codecs are compared at equal PSNR. A codec's points of an array, by falling bound, are joined by lines in the plane of PSNR and the logarithm of the bits
per value. In a band of PSNR, the quotient of two codecs' bits is the geometric mean over every whole decibel that both lines reach; an array counts if that is
at least half of the band.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from arrays import load_arrays, middle_chunk
from compare import AT_PSNR, OURS, Results, groups_of, measure
from demo import Field, step
from measured import measured

BANDS = ((40, 55), (60, 75), (80, 90))  # decibels
BOUNDS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
COLORS = {OURS: "#d62728", f"{OURS} bound": "#e58a8a", "SZ3": "#1f77b4", "ZFP": "#2ca02c", "SPERR": "#ff7f0e", "SPERR PSNR": "#8c564b"}
MARKERS = {OURS: "o", f"{OURS} bound": "o", "SZ3": "s", "ZFP": "^", "SPERR": "D", "SPERR PSNR": "v"}
TITLES = {
    "turbulence_resolved": "turbulent velocity, resolved",
    "turbulence_density": "log-normal density, nine decades",
    "air_temperature": "air temperature, one month",
    "ocean_height": "ocean height",
}


def one_chunk(array: Field) -> Field | None:
    """One chunk of an array, if it has any. SPERR takes three axes at most, so that an array of four has one index along the first."""
    return middle_chunk(Field(array.name, array.values[0] if array.values.ndim > 3 else array.values, array.fill))


def line(results: Results, name: str, codec: str) -> tuple[list[float], list[float]]:
    """PSNR and the logarithm of the bits per value of an array's points, by rising PSNR. Points without any error have none."""
    outcomes = [results[name, relative, codec] for relative in BOUNDS]
    points = sorted((outcome.psnr, math.log(outcome.bits)) for outcome in outcomes if not outcome.failure and math.isfinite(outcome.psnr))
    return [psnr for psnr, _ in points], [bits for _, bits in points]


def quotient(results: Results, name: str, codec: str, band: tuple[int, int]) -> float | None:
    """How many times our bits another codec needs for an array, in a band of PSNR."""
    ours, other = line(results, name, OURS), line(results, name, codec)
    if not ours[0] or not other[0]:
        return None
    low, high = max(ours[0][0], other[0][0], band[0]), min(ours[0][-1], other[0][-1], band[1])
    decibels = np.arange(math.ceil(low), math.floor(high) + 1)
    if 2 * len(decibels) < band[1] - band[0] + 1:
        return None
    return math.exp(np.mean(np.interp(decibels, *other) - np.interp(decibels, *ours)))


def quotients(results: Results, names: list[str], codec: str, band: tuple[int, int]) -> dict[str, float]:
    """The quotients of the arrays that have one."""
    all_of_them = {name: quotient(results, name, codec, band) for name in names}
    return {name: value for name, value in all_of_them.items() if value is not None}


def band_table(results: Results, groups: dict[str, list[str]]) -> str:
    """Quotients of bits at equal PSNR: their means, how many arrays each is of, and those of every array."""
    names = groups["all"]
    others = [codec for codec in COLORS if codec != OURS]
    columns = [(codec, band) for codec in others for band in BANDS]
    of_column = {column: quotients(results, names, *column) for column in columns}
    title = f"{'':26}" + "".join(f"{f'{codec}, {low} to {high} dB':>26}" for codec, (low, high) in columns)
    lines = [
        measured(),
        "command: h5-samples/compare.sh",
        "bits of the other codec over ours at equal PSNR; a chunk of each array; - less than half of the band",
        f"bounds:      {BOUNDS[0]:g} to {BOUNDS[-1]:g} of the chunk's range; PSNR: that of errors that are spread evenly up to these bounds",
        *(f"{codec + ':':<13}{AT_PSNR[codec].call}" for codec in COLORS),
        "",
        title,
    ]
    for group, members in groups.items():
        in_group = ([value for name, value in found.items() if name in members] for found in of_column.values())
        means = (f"{geometric_mean(found):.3f} of {len(found)}" if found else "-" for found in in_group)
        lines.append(f"{f'mean, {group}':26}" + "".join(f"{mean:>26}" for mean in means))
    for name in names:
        row = [of_column[column].get(name) for column in columns]
        lines.append(f"{name:26}" + "".join(f"{'-' if value is None else format(value, '.3f'):>26}" for value in row))
    return "\n".join([*lines, ""])


def plot_bands(results: Results, names: list[str], file: Path) -> None:
    """Draws a dot for each array, codec and band, and the geometric means."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    others = [codec for codec in COLORS if codec != OURS]
    figure, axes = plt.subplots(1, len(others), figsize=(18, 4.5))
    for axis, codec in zip(axes, others):
        for place, band in enumerate(BANDS):
            found = sorted(quotients(results, names, codec, band).values())
            if found:
                axis.plot(np.linspace(place - 0.3, place + 0.3, len(found)), found, "o", ms=4, color=COLORS[codec])
                mean = geometric_mean(found)
                axis.plot([place - 0.35, place + 0.35], [mean, mean], color="#333333", lw=1.5)
                axis.annotate(f"{mean:.2f}", (place, mean), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=11)
        axis.axhline(1, color="#999999", lw=0.8)
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(lambda bits, _: f"{bits:g}")
        axis.set_xticks(range(len(BANDS)), [f"{low} to {high} dB" for low, high in BANDS])
        axis.set_title(f"{codec}: bits over ours", fontsize=12)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Bits per value at equal PSNR, a dot for each array; above 1 ours needs fewer", fontsize=12)
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def plot(chunks: dict[str, Field], results: Results, file: Path) -> None:
    """Draws a panel for each of four fields."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(12, 9))
    for axis, name in zip(axes.flat, TITLES):
        chunk = chunks[name]
        for codec in COLORS:
            psnr, bits = line(results, name, codec)
            style = {"lw": 2.2, "zorder": 3} if codec == OURS else {"lw": 1.4}
            axis.plot(np.exp(bits), psnr, color=COLORS[codec], marker=MARKERS[codec], ms=5, label=codec.removesuffix(" h5"), **style)
        shape = "×".join(map(str, chunk.values.shape))
        axis.set_title(f"{TITLES[name]}, {shape} f{8 * chunk.values.itemsize}", fontsize=12)
        # On a logarithmic axis, equal ratios are equal distances.
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda bits, _: f"{bits:g}")
        axis.set_xlabel("bits per value", fontsize=11)
        axis.set_ylabel("PSNR, dB", fontsize=11)
        axis.grid(color="#dddddd", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(fontsize=11, frameon=False)
    figure.suptitle(f"One chunk of each field, bounds from {BOUNDS[0]:g} to {BOUNDS[-1]:g} of its range; further up and left is better", fontsize=12)
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of .npy files, from the program generate")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results", help="folder for the numbers and the picture")
    arguments = parser.parse_args()

    found = {array.name: one_chunk(array) for array in load_arrays(arguments.data)}
    chunks = {name: chunk for name, chunk in found.items() if chunk is not None}
    step(f"bits per value against PSNR: {len(chunks)} arrays, {len(COLORS)} codecs, {len(BOUNDS)} bounds")
    measured_chunks = {name: [chunk] for name, chunk in chunks.items()}
    results = measure("PSNR", measured_chunks, BOUNDS, COLORS, arguments.results / "rate_distortion.csv")
    plot(chunks, results, arguments.results / "rate_distortion.png")
    (arguments.results / "equal_psnr.txt").write_text(band_table(results, groups_of(measured_chunks)))
    plot_bands(results, list(chunks), arguments.results / "equal_psnr.png")


if __name__ == "__main__":
    main()
