"""Bits per value against PSNR for four fields: the plugin's filter(), SZ3, ZFP and SPERR, with a picture.

Run by compare.sh, as compare.py is, whose codecs and checks it uses: the bound of every value is checked in f64.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

from arrays import middle_chunk
from compare import OURS, Results, measure
from demo import Field, step
from measured import measured

BOUNDS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
COLORS = {OURS: "#d62728", "SZ3": "#1f77b4", "ZFP": "#2ca02c", "SPERR h5": "#ff7f0e"}
MARKERS = {OURS: "o", "SZ3": "s", "ZFP": "^", "SPERR h5": "D"}
TITLES = {
    "turbulence_resolved": "turbulent velocity, resolved",
    "turbulence_density": "log-normal density, nine decades",
    "air_temperature": "air temperature, one month",
    "ocean_height": "ocean height",
}


def one_chunk(folder: Path, name: str) -> Field:
    """One chunk of a field. SPERR takes three axes at most, so that a field with time as its first axis has one time."""
    values = np.load(folder / f"{name}.npy")
    return middle_chunk(Field(name, values[0] if values.ndim > 3 else values, None))


def table(results: Results) -> str:
    """All numbers, as CSV."""
    lines = [f"# {measured()}; command: h5-samples/compare.sh", "field,codec,bound (share of the range),bits per value,PSNR (dB),worst error (bounds)"]
    for (name, relative, codec), outcome in results.items():
        if outcome.failure:
            print(f"    without {codec} on {name} at {relative:g}: {outcome.failure}", file=sys.stderr)
        else:
            lines.append(f"{name},{codec},{relative:g},{outcome.bits:.5f},{outcome.psnr:.3f},{outcome.worst:.7g}")
    return "\n".join([*lines, ""])


def plot(chunks: dict[str, Field], results: Results, file: Path) -> None:
    """Draws a panel for each field. Points without any error are left out, as their PSNR is infinite."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(12, 9))
    for axis, (name, chunk) in zip(axes.flat, chunks.items()):
        for codec in COLORS:
            outcomes = [results[name, relative, codec] for relative in BOUNDS]
            points = [(outcome.bits, outcome.psnr) for outcome in outcomes if not outcome.failure and math.isfinite(outcome.psnr)]
            line = {"lw": 2.2, "zorder": 3} if codec == OURS else {"lw": 1.4}
            axis.plot(*zip(*points), color=COLORS[codec], marker=MARKERS[codec], ms=5, label=codec.removesuffix(" h5"), **line)
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

    chunks = {name: one_chunk(arguments.data, name) for name in TITLES}
    step(f"bits per value against PSNR: {len(chunks)} fields, {len(COLORS)} codecs, {len(BOUNDS)} bounds")
    results = measure({name: [chunk] for name, chunk in chunks.items()}, BOUNDS, COLORS)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "rate_distortion.csv").write_text(table(results))
    plot(chunks, results, arguments.results / "rate_distortion.png")


if __name__ == "__main__":
    main()
