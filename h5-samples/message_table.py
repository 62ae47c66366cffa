"""The table of mpi_messages.py, a model of when compression pays, and a picture of both."""

from __future__ import annotations

import argparse
import csv
import math
import shlex
import sys
from pathlib import Path
from statistics import median
from typing import Any

from measured import measured
from message_rank import RELATIVE, groups

PAPERS = {"point-to-point": "Shah et al. 1.4-16.2", "scatter": "Shah et al. 2.2-30.5", "gather": "CEAZ, 128 nodes 37.8", "file": "CEAZ, 128 nodes 28.9"}
COLUMNS = ("link", "experiment", "mib", "relative", "backend", "books", "ratio", "plain_s", "seconds", "factor", "compress_gbs", "decompress_gbs", "link_gbs")


def crossing(ratio: float, compress: float, decompress: float) -> float:
    """GB/s of the link below which a compressed message arrives earlier."""
    return (1 - 1 / ratio) / (1 / compress + 1 / decompress)


def predicted(speed: float, ratio: float, compress: float, decompress: float, copies: int = 1, compresses: int = 1, decompresses: int = 1) -> float:
    """The factor of a message, or of `copies` of them over one link, with a link of `speed` GB/s. Their compression by one side, or decompression, counts
    as often as that side has to do it."""
    return copies / speed / (compresses / compress + copies / (ratio * speed) + decompresses / decompress)


def report(rows: list[dict[str, Any]], arguments: argparse.Namespace, versions: str) -> str:
    from paper import machine

    lines = [
        measured(),
        f"command: h5-samples/mpi_messages.py {shlex.join(sys.argv[1:])}",
        f"machine: {machine()}",
        f"made by: {versions}",
        f"data:    pieces of 64^3 f32 (1 MiB) of a turbulence field; bounds are shares of its range. Groups of {arguments.ranks} ranks",
        f"file:    written by MPI_File_write_at_all and synced, in {arguments.file}",
    ]
    messages = [row for row in rows if row["experiment"] == "point-to-point"]
    if messages:
        lines += ["", "bandwidth reached without compression, GB/s of the largest point-to-point message"]
    for speed in dict.fromkeys(row["link"] for row in messages):
        own = [row for row in messages if row["link"] == speed]
        top = max(row["mib"] for row in own)
        reached = median(row["link_gbs"] for row in own if row["mib"] == top)
        lines.append(f"  {'shared memory' if speed == 'shared' else f'{speed} Gbit/s':<14}{reached:7.3f}  ({8 * reached:.2f} Gbit/s, {top} MiB)")
    lines += [
        "",
        "factor: seconds of plain values / seconds with compression. model: of ratio, speeds of both sides and the bandwidth that plain values reach",
        f"{'experiment':<15}{'link':>7}{'MiB':>5} {'bound':<7}{'':<7}{'codebooks':<11}{'ratio':>6}{'plain, s':>10}{'with, s':>9}{'factor':>8}{'model':>7}"
        f"{'compress, GB/s':>16}{'decompress':>11}",
    ]
    experiment = ""
    for row in rows:
        if row["experiment"] != experiment:
            experiment = row["experiment"]
            lines.append(f"{experiment}: {PAPERS[experiment]} times")
        lines.append(
            f"{experiment:<15}{row['link']:>7}{row['mib']:>5} {row['relative']:<7g}{row['backend']:<7}{row['books']:<11}{row['ratio']:>6.1f}{row['plain_s']:>10.4f}"
            f"{row['seconds']:>9.4f}{row['factor']:>8.2f}{modelled(row, arguments.ranks):>7}{row['compress_gbs']:>16.2f}{row['decompress_gbs']:>11.2f}"
        )
    if messages:
        lines += ["", *where_it_pays(messages, arguments)]
    return "\n".join(lines) + "\n"


def modelled(row: dict[str, Any], ranks: int) -> str:
    """The factor by the model. Files have no other side."""
    if row["experiment"] == "file":
        return f"{1 / (row['link_gbs'] / row['compress_gbs'] / ranks + 1 / row['ratio']):.2f}"
    copies = 1 if row["experiment"] == "point-to-point" else ranks - 1
    compresses, decompresses = (ranks, 1) if row["experiment"] == "scatter" else (1, ranks) if row["experiment"] == "gather" else (1, 1)
    return f"{predicted(row['link_gbs'], row['ratio'], row['compress_gbs'], row['decompress_gbs'], copies, compresses, decompresses):.2f}"


def where_it_pays(own: list[dict[str, Any]], arguments: argparse.Namespace) -> list[str]:
    """Of point-to-point messages: crossings, measured and modelled, and the model beyond what was measured."""
    lines = [
        "Where compression pays: a message of n bytes takes n/L over a link of L bytes/s, and n/C + n/(R L) + n/D with compression at C, ratio R and",
        "decompression at D. So it pays below L = (1 - 1/R) / (1/C + 1/D). Point-to-point, the largest message that all links have:",
        f"{'bound':<7}{'':<7}{'codebooks':<11}{'ratio':>6}{'C, GB/s':>9}{'D, GB/s':>9}{'crossing, Gbit/s: model':>25}{'measured':>10}",
    ]
    links = arguments.links.split(",")
    size = min(max(row["mib"] for row in own if row["link"] == speed) for speed in links)
    models = ["", "MODEL, not measured: the factor by this formula, with R, C and D of the line above it; gather: 127 ranks send to one, which decompresses all"]
    models.append(f"{'':<32}" + "".join(f"{speed:>16} Gbit/s" for speed in (10, 25, 100, 400)))
    for relative in RELATIVE:
        for backend, books in groups(arguments.backends.split(",")):
            lines_of = [row for row in own if (row["mib"], row["relative"], row["backend"], row["books"]) == (size, relative, backend, books)]
            ratio, compress, decompress = (median(row[key] for row in lines_of) for key in ("ratio", "compress_gbs", "decompress_gbs"))
            points = sorted((8 * row["link_gbs"], row["factor"]) for row in lines_of)
            found = measured_crossing(points)
            name = f"{relative:<7g}{backend:<7}{books:<11}"
            lines.append(f"{name}{ratio:>6.1f}{compress:>9.2f}{decompress:>9.2f}{8 * crossing(ratio, compress, decompress):>25.1f}{found:>10}")
            cells = [
                f"{predicted(speed / 8, ratio, compress, decompress):>10.2f} /{predicted(speed / 8, ratio, compress, decompress, 127, 1, 127):>6.2f}     "
                for speed in (10, 25, 100, 400)
            ]
            models.append(f"{name} p-to-p / gather " + "".join(cells))
    return [*lines, *models]


def measured_crossing(points: list[tuple[float, float]]) -> str:
    """Gbit/s at which the factor is 1, between the links on both sides of it."""
    for (slow, before), (fast, after) in zip(points, points[1:]):
        if before >= 1 > after:
            share = math.log(before) / math.log(before / after)
            return f"{slow * (fast / slow) ** share:.1f}"
    return f"> {points[-1][0]:.1f}" if points[-1][1] >= 1 else f"< {points[0][0]:.1f}"


def plot(picture: Path, tables: list[Path]) -> None:
    """The factor of the largest messages by the bandwidth that plain values reach; the papers' factors are drawn as bands and lines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for table in tables for row in csv.DictReader(table.read_text().splitlines()[1:])]
    bands = {"point-to-point": (1.4, 16.2), "scatter": (2.2, 30.5), "gather": (37.8, 37.8)}
    figure, axes = plt.subplots(1, len(bands), figsize=(14, 4.5), sharey=True)
    kinds = list(dict.fromkeys((row["relative"], row["backend"], row["books"]) for row in rows))
    for axis, (name, (low, high)) in zip(axes, bands.items()):
        axis.axhspan(low, high * 1.01, color="0.85", label=PAPERS[name])
        for color, kind in enumerate(kinds):
            own = [row for row in rows if row["experiment"] == name and (row["relative"], row["backend"], row["books"]) == kind]
            largest = {row["link"]: max(int(other["mib"]) for other in own if other["link"] == row["link"]) for row in own}
            points = sorted((8 * float(row["link_gbs"]), float(row["factor"])) for row in own if int(row["mib"]) == largest[row["link"]])
            if points:
                axis.plot(*zip(*points), "o-" if kind[2] == "dictionary" else "x--", color=f"C{color // 2}", label=" ".join(kind))
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("Gbit/s that plain values reach")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    axes[0].set_ylabel("times as fast as plain values")
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
