"""Ratios of complex arrays in each order of their parts, and of masks beside gzip: the figures of docs/design-notes.md, "Pairs" and "Masks".

    h5-samples/compare.sh makes the environment
    HDF5_PLUGIN_PATH=target/release .venv-compare/bin/python h5-samples/pairs_and_masks.py

Complex arrays are generated. Masks say where the real arrays of arrays.py have values, or have more than their median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import h5py
import numpy as np

from arrays import real_arrays
from quire_options import FILTER_ID, cd_values

SHAPES = ((64, 64, 64), (16, 128, 128), (4, 256, 256), (512, 512), (64, 64, 16, 8), (2**18,))
BOUNDS = ("rel=1e-2", "rel=1e-3", "rel=1e-4", "lossless")
GZIP = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


def random_field(shape: tuple[int, ...], slope: float) -> np.ndarray:
    """Waves with random phases, whose amplitudes fall with their number."""
    random = np.random.default_rng(0)
    waves = random.normal(size=shape) + 1j * random.normal(size=shape)
    numbers = np.sqrt(sum(axis**2 for axis in np.meshgrid(*(np.fft.fftfreq(extent) * extent for extent in shape), indexing="ij")))
    numbers[(0,) * len(shape)] = 1
    return np.fft.ifftn(waves * numbers**-slope)


def complex_arrays() -> Iterator[tuple[str, np.ndarray]]:
    """Rough and smooth fields, wave packets, and fields of phases; a chirp, and a Fourier transform."""
    for shape in SHAPES:
        axes = np.meshgrid(*(np.linspace(-4, 4, extent) for extent in shape), indexing="ij")
        smooth = random_field(shape, 2.5 * len(shape) / 3)
        phase = sum(axis * (3 + number) for number, axis in enumerate(axes))
        for name, values in (
            ("rough", random_field(shape, 0.6 * len(shape))),
            ("smooth", random_field(shape, len(shape))),
            ("wave packet", np.exp(-sum(axis**2 for axis in axes) / 4 + 1j * phase) * (1 + 0.1 * axes[-1])),
            ("phases", np.exp(20j * smooth.real / np.abs(smooth).max())),
        ):
            yield f"{name} {'x'.join(map(str, shape))}", values.astype("c8")
    at = np.arange(2**18) / 2**18
    yield "chirp", np.exp(2j * np.pi * (200 * at + 3000 * at * at)).astype("c8")
    yield "transform", np.fft.fftshift(np.fft.fft2(random_field((512, 512), 1.8).real)).astype("c8")


def stored(values: np.ndarray, settings: dict) -> int:
    """Bytes of a dataset of one chunk."""
    with h5py.File("stored", "w", driver="core", backing_store=False) as file:
        return file.create_dataset("x", data=values, chunks=values.shape, **settings).id.get_storage_size()


def ours(options: str) -> dict:
    return {"compression": FILTER_ID, "compression_opts": cd_values(options)}


# The arrays that are coded.
ORDERS: dict[str, Callable[[np.ndarray], list[np.ndarray]]] = {
    "complex64, as the filter takes it": lambda values: [values],
    "behind each other along the slowest axis": lambda values: [np.concatenate([values.real, values.imag])],
    "along an axis of their own, of two": lambda values: [np.stack([values.real, values.imag])],
    "side by side, along the fastest axis": lambda values: [values.view("f4").reshape(*values.shape, 2)],
    "in streams of their own": lambda values: [values.real.copy(), values.imag.copy()],
}


def main() -> None:
    print("| order of the parts | " + " | ".join(BOUNDS) + " |\n|---|" + "---|" * len(BOUNDS))
    arrays = list(complex_arrays())
    for name, order in ORDERS.items():
        ratios = [[values.nbytes / sum(stored(part, ours(bound)) for part in order(values)) for _, values in arrays] for bound in BOUNDS]
        print(f"| {name} | " + " | ".join(f"{mean:.2f}" for mean in np.exp(np.log(ratios).mean(1))) + " |")
    print("\n| mask | values | ours | gzip, level 4, shuffle |\n|---|---|---|---|")
    rows = []
    for field in real_arrays():
        valid = field.valid
        for what, mask in (("has values", valid), ("above the median", valid & (field.values > np.median(field.values[valid])))):
            if not mask.all():
                rows.append(tuple(mask.nbytes / stored(mask, settings) for settings in (ours("abs=1e-3"), GZIP)))
                print(f"| {field.name} {what} | {mask.size} | {rows[-1][0]:.1f} | {rows[-1][1]:.1f} |")
    print("| geometric mean | | " + " | ".join(f"{mean:.1f}" for mean in np.exp(np.log(rows).mean(0))) + " |")


if __name__ == "__main__":
    main()
