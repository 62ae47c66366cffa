"""Bits per value against PSNR: the plugin's filter(), SZ3, ZFP and SPERR on a chunk of each array, with a picture of four fields and one of all arrays.

    h5-samples/measure rate_distortion [--results FOLDER]     equal_psnr.txt and .png, rate_distortion.csv and .png go to FOLDER

SZ3, ZFP and SPERR are given bounds. Ours and SPERR are given a PSNR as well, as somebody does who asks for one: then SPERR promises nothing for single values.
"Ours" is the filter with a PSNR. Codecs, checks and the CSV are compare.py's: bounds that were given are checked in f64, for every value.

Two codecs are compared at equal PSNR. A codec's points of an array, by falling bound, are joined by lines in the plane of PSNR and the logarithm of the bits
per value. In a band of PSNR, the quotient of two codecs' bits is the geometric mean over every whole decibel that both lines reach; an array counts if that is
at least half of the band.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from arrays import cut, load_arrays
from compare import AT_PSNR, OURS, Results, groups_of, measure
from harness import Field, Report, parser, pyplot, shape_text, step

BANDS = ((40, 55), (60, 75), (80, 90))  # decibels
BOUNDS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
#: Color and marker.
STYLES = {
    OURS: ("#d62728", "o"), f"{OURS} bound": ("#e58a8a", "o"), "SZ3": ("#1f77b4", "s"), "ZFP": ("#2ca02c", "^"), "SPERR": ("#ff7f0e", "D"),
    "SPERR PSNR": ("#8c564b", "v"),
}  # fmt: skip
OTHERS = [codec for codec in STYLES if codec != OURS]
TITLES = {
    "turbulence_resolved": "turbulent velocity, resolved",
    "turbulence_density": "log-normal density, nine decades",
    "air_temperature": "air temperature, one month",
    "ocean_height": "ocean height",
}


def one_chunk(array: Field) -> list[Field]:
    """The middle one of an array's chunks, if it has any. SPERR takes three axes at most, so that an array of four has one index along the first."""
    chunks = cut(Field(array.name, array.values[0] if array.values.ndim > 3 else array.values, array.fill))
    return chunks[len(chunks) // 2 :][:1]


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
    found = {name: quotient(results, name, codec, band) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def band_rows(results: Results, groups: dict[str, list[str]]) -> Iterator[list[str]]:
    """Quotients of bits at equal PSNR: their means, how many arrays each is of, and those of every array."""
    of_column = {(codec, band): quotients(results, groups["all"], codec, band) for codec in OTHERS for band in BANDS}
    yield ["", *(f"{codec}, {low} to {high} dB" for codec, (low, high) in of_column)]
    for group, members in groups.items():
        in_group = ([value for name, value in found.items() if name in members] for found in of_column.values())
        yield [f"mean, {group}", *(f"{geometric_mean(found):.3f} of {len(found)}" if found else "-" for found in in_group)]
    for name in groups["all"]:
        yield [name, *(f"{found[name]:.3f}" if name in found else "-" for found in of_column.values())]


def plot_bands(results: Results, names: list[str], file: Path) -> None:
    """Draws a dot for each array, codec and band, and the geometric means."""
    figure, axes = pyplot().subplots(1, len(OTHERS), figsize=(18, 4.5), layout="tight")
    for axis, codec in zip(axes, OTHERS):
        for place, band in enumerate(BANDS):
            found = sorted(quotients(results, names, codec, band).values())
            if found:
                axis.plot(np.linspace(place - 0.3, place + 0.3, len(found)), found, "o", ms=4, color=STYLES[codec][0])
                mean = geometric_mean(found)
                axis.plot([place - 0.35, place + 0.35], [mean, mean], color="#333333", lw=1.5)
                axis.annotate(f"{mean:.2f}", (place, mean), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=11)
        axis.axhline(1, color="#999999", lw=0.8)
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(lambda bits, _: f"{bits:g}")
        axis.set_xticks(range(len(BANDS)), [f"{low} to {high} dB" for low, high in BANDS])
        axis.set_title(f"{codec}: bits over ours", fontsize=12)
    figure.suptitle("Bits per value at equal PSNR, a dot for each array; above 1 ours needs fewer", fontsize=12)
    figure.savefig(file, dpi=100)


def plot(chunks: dict[str, list[Field]], results: Results, file: Path) -> None:
    """Draws a panel for each of four fields."""
    figure, axes = pyplot().subplots(2, 2, figsize=(12, 9), layout="tight")
    for axis, name in zip(axes.flat, TITLES):
        for codec, (color, marker) in STYLES.items():
            psnr, bits = line(results, name, codec)
            axis.plot(np.exp(bits), psnr, color=color, marker=marker, ms=5, label=codec, lw=2.2 if codec == OURS else 1.4)
        values = chunks[name][0].values
        axis.set_title(f"{TITLES[name]}, {shape_text(values.shape)} f{8 * values.itemsize}", fontsize=12)
        # On a logarithmic axis, equal ratios are equal distances.
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda bits, _: f"{bits:g}")
        axis.set_xlabel("bits per value", fontsize=11)
        axis.set_ylabel("PSNR, dB", fontsize=11)
        axis.grid(color="#dddddd", lw=0.6)
    axes[0][0].legend(fontsize=11, frameon=False)
    figure.suptitle(f"One chunk of each field, bounds from {BOUNDS[0]:g} to {BOUNDS[-1]:g} of its range; further up and left is better", fontsize=12)
    figure.savefig(file, dpi=100)


def main() -> None:
    arguments = parser(__doc__).parse_args()
    chunks = {array.name: chunk for array in load_arrays() if (chunk := one_chunk(array))}
    step(f"{len(chunks)} arrays, {len(STYLES)} codecs, {len(BOUNDS)} bounds")
    results = measure("PSNR", chunks, BOUNDS, STYLES, arguments.results / "rate_distortion.csv")
    report = Report(
        "equal_psnr",
        arguments.results,
        "bits of the other codec over ours at equal PSNR; a chunk of each array; - less than half of the band",
        f"bounds:      {BOUNDS[0]:g} to {BOUNDS[-1]:g} of the chunk's range; PSNR: that of errors that are spread evenly up to these bounds",
        *(f"{codec + ':':<13}{AT_PSNR[codec].call}" for codec in STYLES),
        "",
    )
    report.table(band_rows(results, groups_of(chunks)))
    plot(chunks, results, arguments.results / "rate_distortion.png")
    plot_bands(results, list(chunks), arguments.results / "equal_psnr.png")


if __name__ == "__main__":
    main()
