"""Draws two pictures: a field before compression, after decompression and its error; and the ratios of compare.txt.

h5-samples/measure picture [--results FOLDER]     bound.png and ratios.png go to FOLDER, where compare.txt is
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from arrays import generated
from dataset import Dataset
from harness import Field, check, parser, psnr, pyplot, quire

FIELD, TITLE, UNIT = "turbulence_resolved", "turbulent velocity, resolved", "m/s"
SHARES = (1e-1, 1e-2, 1e-3)
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


def main() -> None:
    folder = parser(__doc__).parse_args().results
    draw_bound(folder / "bound.png")
    draw_ratios(folder / "compare.txt", folder / "ratios.png")


if __name__ == "__main__":
    main()
