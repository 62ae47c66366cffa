"""Makes dictionaries for domains with `quire train` from the generator's fields of seed 2, tries them on the fields of seed 1 through h5py, and draws a series
of chunks.

Run by adaptive.sh.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np

import quire_options

# Fields by domain.
DOMAINS = {
    "turbulence": ("turbulence_velocity", "turbulence_resolved", "turbulence_density", "cloud_water"),
    "climate": ("sea_surface_temperature", "air_temperature", "ocean_height", "station_temperature"),
    "particles": ("particle_position", "particle_velocity"),
    "instruments": ("seismic_shot", "detector_counts", "thermal_eighths"),
}
# Chunk shapes of 32^3 values, by rank. The smaller a chunk, the larger the share of its stream that a codebook takes.
CHUNKS = {1: (1 << 15,), 2: (181, 181), 3: (32, 32, 32), 4: (1, 16, 45, 45)}
BOUNDS = ("rel=1e-2", "rel=1e-3", "rel=1e-4")


def fields(folder: Path, domain: str) -> "dict[str, tuple[np.ndarray, float | None]]":
    """A domain's fields and their fill values."""
    described = {field["name"]: field for field in json.loads((folder / "fields.json").read_text())}
    return {name: (np.load(folder / f"{name}.npy"), described[name].get("fill")) for name in DOMAINS[domain]}


def write(path: Path, folder: Path, domain: str, **how: object) -> None:
    with h5py.File(path, "w") as file:
        for name, (values, fill) in fields(folder, domain).items():
            chunks = tuple(min(pair) for pair in zip(values.shape, CHUNKS[values.ndim]))
            file.create_dataset(name, data=values, chunks=chunks, fillvalue=fill, **how)


def length(data: Path, domain: str, options: str) -> "tuple[int, int]":
    """Bytes of a domain's fields as they are, and as the filter of this process writes them; every bound is checked."""
    path = data / "adaptive.h5"
    how = {"compression": quire_options.FILTER_ID, "compression_opts": quire_options.cd_values(options)}
    write(path, data / "seed1-medium", domain, **how)
    share, before, after = float(options.split(",")[0].removeprefix("rel=")), 0, 0
    with h5py.File(path, "r") as file:
        for name, (values, fill) in fields(data / "seed1-medium", domain).items():
            read = file[name][()].astype(np.float64)
            regular = np.isfinite(values) & (values != fill if fill is not None else True)
            span = np.ptp(values[regular].astype(np.float64))
            assert np.abs(read - values)[regular].max() <= share * span, f"{name} misses its bound"
            before, after = before + values.nbytes, after + file[name].id.get_storage_size()
    path.unlink()
    return before, after


def lengths(arguments: argparse.Namespace, domain: str, options: str, dictionary: "Path | None" = None) -> "tuple[int, int]":
    """Bytes of a domain's fields before and after compression, measured in a process of its own because the plugin reads its environment only once."""
    environment = {**os.environ, "HDF5_PLUGIN_PATH": arguments.programs, "QUIRE_BACKEND": "cpu", "QUIRE_DICTIONARY": str(dictionary or "")}
    command = [sys.executable, __file__, "--data", str(arguments.data), "--length", domain, options]
    before, after = map(int, subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split())
    return before, after


def train(arguments: argparse.Namespace, domain: str) -> str:
    """Makes a domain's dictionary; what `quire train` says of it."""
    source = arguments.data / f"{domain}.h5"
    write(source, arguments.data / "seed2-medium", domain)
    options = [part for bound in BOUNDS for part in ("--options", bound)]
    command = [f"{arguments.programs}/quire", "train", *options, "--output", f"{domain}.books", source.name]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=source.parent).stdout
    arguments.dictionaries.mkdir(exist_ok=True)
    (source.parent / f"{domain}.books").replace(arguments.dictionaries / f"{domain}.books")
    source.unlink()
    return said


def table(arguments: argparse.Namespace) -> str:
    lines = [
        "(c) Dictionaries for domains: made by `quire train` from the generator's fields of seed 2, tried on those of seed 1 in chunks of 32^3 values through h5py; ratio",
        "",
        f"{'domain':12} {'bound':9} {'built in':>9} {'history':>9} {'dictionary':>11} {'both':>9}",
    ]
    said = []
    for domain in DOMAINS:
        said.append(f"{domain}: quire train {' '.join(f'--options {bound}' for bound in BOUNDS)}\n{train(arguments, domain)}")
        books = arguments.dictionaries / f"{domain}.books"
        for bound in BOUNDS:
            ways = ((bound, None), (f"{bound},adapt=history", None), (bound, books), (f"{bound},adapt=history", books))
            found = [lengths(arguments, domain, *way) for way in ways]
            cells = [f"{before / after:.3f}" for before, after in found]
            lines.append(f"{domain:12} {bound:9} {cells[0]:>9} {cells[1]:>9} {cells[2]:>11} {cells[3]:>9}")
    return "\n".join([*lines, "", *said])


def plot(series: Path, file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with series.open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    colors = {"dictionary alone": "#7f7f7f", "auto": "#d62728", "adapt=history": "#ff7f0e", "user's dictionary": "#2ca02c"}
    figure, axis = plt.subplots(figsize=(11, 5))
    for name in list(rows[0])[1:]:
        values = [float(row[name]) / float(row["ideal"]) for row in rows]
        dashed = {"ls": "--", "lw": 1.2} if name.startswith("deviation") else {"lw": 1.8}
        axis.plot([int(row["chunk"]) for row in rows], values, label=name, color=colors.get(name, "black" if name == "ideal" else None), **dashed)
    axis.set_ylim(0.7, 1.02)
    axis.set_xlabel("chunk (seismic shot, then ocean height)")
    axis.set_ylabel("ratio / ratio with a book for each chunk, for nothing")
    axis.set_title("Two datasets one behind the other, bound 1e-3 of the range: where codebooks come from")
    axis.legend(loc="lower left")
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--programs")
    parser.add_argument("--dictionaries", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--length", nargs=2, metavar=("DOMAIN", "OPTIONS"))
    arguments = parser.parse_args()
    if arguments.length:
        return print(*length(arguments.data, *arguments.length))
    with arguments.results.open("a") as file:
        file.write(table(arguments))
    plot(arguments.results.with_suffix(".csv"), arguments.results.with_suffix(".png"))


if __name__ == "__main__":
    main()
