"""Draws three pictures: a field before compression, after decompression and its error; the ratios of compare.txt; the speeds of whole_arrays.txt.

    h5-samples/measure picture [--results FOLDER]     bound.png, ratios.png and whole_arrays.png go to FOLDER, beside the tables
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np

from arrays import generated
from dataset import Dataset
from harness import Field, check, parser, psnr, pyplot, quire

FIELD, TITLE, UNIT = "turbulence_resolved", "turbulent velocity, resolved", "m/s"
SHARES = (1e-1, 1e-2, 1e-3)
# Rows of whole_arrays.txt, to the first name of which the direction belongs.
WAYS = {
    "h5z_quire.{}": ("h5z_quire, all cores", "#d62728", "D"),
    "h5py's own path": ("h5py, Quire", "#ff9896", "o"),
    "no filter": ("h5py, no filter", "#7f7f7f", "_"),
    "the streams alone, H5D{}_chunk": ("HDF5's part alone", "#000000", "_"),
    "h5py, SZ3": ("h5py, SZ3", "#1f77b4", "o"),
    "h5py, ZFP": ("h5py, ZFP", "#2ca02c", "o"),
    "h5py, Blosc2": ("h5py, Blosc2", "#8c564b", "o"),
    "b2h5py, Blosc2, a new array": ("b2h5py, Blosc2", "#8c564b", "D"),
    "h5py, gzip": ("h5py, gzip", "#9467bd", "o"),
}
CODECS = {"Quire": "#d62728", "SZ3": "#1f77b4", "ZFP": "#2ca02c", "SPERR": "#ff7f0e"}


def through_the_filter(field: Field, share: float) -> tuple[np.ndarray, float]:
    """The field as it is read through HDF5, and the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        data = Dataset(Path(folder) / "field.h5", (64, 64, 64), quire(f"abs={share * field.range!r}"))
        data.write(field.values)
        return data.values(), field.values.nbytes / data.nbytes()


def draw_bound(target: Path) -> None:
    from PIL import Image

    field = generated(FIELD)
    middle = len(field.values) // 2
    figure, axes = pyplot().subplots(2, 1 + len(SHARES), figsize=(13, 6.4), layout="constrained")
    limits = {"vmin": float(field.values[middle].min()), "vmax": float(field.values[middle].max()), "cmap": "viridis"}
    shown = axes[0, 0].imshow(field.values[middle], **limits)
    axes[0, 0].set_title(f"{TITLE}, {UNIT}", fontsize=11)
    for column, share in zip(axes.T[1:], SHARES):
        read, ratio = through_the_filter(field, share)
        bound = share * field.range
        check(field, read, bound)
        column[0].imshow(read[middle], **limits)
        column[0].set_title(f"bound {share:g} of range, ratio {ratio:.1f}", fontsize=11)
        errors = column[1].imshow((read[middle].astype("f8") - field.values[middle]) / bound, vmin=-1, vmax=1, cmap="RdBu")
        column[1].set_title(f"PSNR {psnr(field, read):.1f} dB")
    axes[1, 0].axis("off")
    figure.colorbar(shown, ax=axes[0, -1], label=UNIT)
    figure.colorbar(errors, ax=axes[1, -1], label="error, in bounds")
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.savefig(target, dpi=70)
    # The noise of the error compresses badly as an image, too: with 64 colors, the file has a third of the bytes.
    Image.open(target).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(target, optimize=True)


def ratios(table: Path) -> dict[float, list[dict[str, float]]]:
    """Ratios of the arrays of compare.txt, by bound: the rows of its first table."""
    found: dict[float, list[dict[str, float]]] = {}
    lines = iter(table.read_text().splitlines())
    names = next(line for line in lines if line.startswith("array ")).split()[2 : 2 + len(CODECS)]
    assert names == list(CODECS), names
    for line in lines:
        cells = line.split()
        if not cells:
            break
        found.setdefault(float(cells[1]), []).append({codec: float(cell.rstrip("!*")) for codec, cell in zip(names, cells[2:]) if cell != "-"})
    return found


def draw_ratios(table: Path, target: Path) -> None:
    by_bound = ratios(table)
    figure, axes = pyplot().subplots(1, len(by_bound), figsize=(16, 4), sharey=True, layout="constrained")
    for axis, (bound, rows) in zip(axes, by_bound.items()):
        ordered = sorted(rows, key=lambda row: row["Quire"])
        for codec, color in CODECS.items():
            axis.plot([row.get(codec, np.nan) for row in ordered], color=color, marker=".", lw=1.8 if codec == "Quire" else 1, label=codec)
        axis.set_yscale("log")
        axis.set_title(f"bound {bound:g} of each range", fontsize=11)
        axis.set_xlabel(f"{len(ordered)} arrays, by our ratio")
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("compression ratio")
    axes[0].legend()
    figure.savefig(target, dpi=90)


#: Least, median and most GB/s by direction and way.
Speeds = dict[tuple[str, str], tuple[float, float, float]]


def runs_of(table: Path) -> list[tuple[str, Speeds]]:
    """Title and speeds of each run of whole_arrays.py in its table."""
    found: list[tuple[str, Speeds]] = []
    direction, threads, backend, bound = "", "", "", ""
    for line in table.read_text().splitlines():
        if rel := re.search(r"^command: .*?(?:--rel (\S+)|$)", line):
            bound = rel[1] or "1e-3"
        elif machine := re.search(r"^(?:machine: .*, )?(\d+) threads, (\w+):", line):
            threads, backend = machine[1], {"cuda": "GPU", "cpu": "CPU"}[machine[2]]
        elif chunks := re.search(r"^array: .* chunks (\d+)x", line):
            found.append((f"{chunks[1]}³\n{bound}\n{backend}\n{threads}\nthreads", {}))
        elif head := re.search(r"^(write|read), GB/s ", line):
            direction = head[1]
        elif not line:
            direction = ""
        elif direction and (row := re.search(r"^(\S.*?)  +([\d.]+) +([\d.]+)- *([\d.]+) ", line)):
            found[-1][1][direction, row[1]] = (float(row[3]), float(row[2]), float(row[4]))
    return found


def draw_whole_arrays(table: Path, target: Path) -> None:
    runs = runs_of(table)
    figure, axes = pyplot().subplots(1, 2, figsize=(13, 4.6), sharey=True, layout="constrained")
    for axis, direction in zip(axes, ("write", "read")):
        for way, (label, color, marker) in WAYS.items():
            key = direction, way.format(direction)
            shown = [(at, *speeds[key]) for at, (_, speeds) in enumerate(runs) if key in speeds]
            if shown:
                at, least, middle, most = map(np.array, zip(*shown))
                style = {"color": color, "marker": marker, "ms": 12 if marker == "_" else 6, "ls": "", "lw": 1}
                axis.errorbar(at, middle, [middle - least, most - middle], label=label, **style)
        axis.set_yscale("log")
        axis.set_xticks(range(len(runs)), [title for title, _ in runs], fontsize=8)
        axis.margins(x=0.08)
        axis.set_title(direction)
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("GB/s of f32")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside right center")
    figure.savefig(target, dpi=90)


def main() -> None:
    folder = parser(__doc__).parse_args().results
    draw_bound(folder / "bound.png")
    draw_ratios(folder / "compare.txt", folder / "ratios.png")
    draw_whole_arrays(folder / "whole_arrays.txt", folder / "whole_arrays.png")


if __name__ == "__main__":
    main()
