"""Makes the sample file of the current version, once: `make.py FILE`. A file that exists is never made again.

Each group holds `original`, stored as it is, beside `compressed`, through the filter, with the attribute `options` and an absolute `bound` that holds, or
`pointwise`, the share of each value that it may be off. Run it with HDF5_PLUGIN_PATH naming the folder of libh5zquire.so:

    HDF5_PLUGIN_PATH=target/release .venv-hdf5-2.0/bin/python h5-samples/make.py h5-samples/v1_0_0.h5
"""

from __future__ import annotations

import os
import sys

import h5py
import numpy as np

from quire_options import FILTER_ID, cd_values


def waves(shape: tuple[int, ...]) -> np.ndarray:
    """Sines of different lengths along the axes, with a little noise."""
    field = np.random.default_rng(len(shape)).normal(0.0, 2e-3, shape)
    for axis, extent in enumerate(shape):
        along = [1] * len(shape)
        along[axis] = extent
        field += np.sin(np.arange(extent) * (0.07 + 0.02 * axis)).reshape(along)
    return field


def masked(shape: tuple[int, ...]) -> np.ndarray:
    """Waves with land at 1e35, a patch of NaN, and infinities."""
    field = waves(shape).astype(np.float32)
    rows, columns = np.indices(shape)
    field[(rows - 20) ** 2 + (columns - 25) ** 2 < 200] = 1e35
    field[40:45, 5:30] = np.nan
    field[0, :2] = np.inf, -np.inf
    return field


def samples() -> dict[str, tuple[np.ndarray, str, tuple[int, ...]]]:
    """Name: data, options, chunk."""
    random = np.random.default_rng(1)
    sparse = np.where(random.random((40, 32, 32)) < 0.02, random.random((40, 32, 32)), 0.0)
    volume = waves((20, 33, 40)).astype("<f4")
    return {
        "line_f64": (waves((5000,)), "abs=1e-6", (2000,)),
        "plane_f32_big_endian": (waves((70, 90)).astype(">f4"), "abs=1e-3", (32, 40)),
        "volume_f32": (volume, "abs=1e-3", (16, 16, 40)),
        "four_dimensions_f64_big_endian": (waves((5, 8, 9, 11)).astype(">f8"), "abs=1e-4", (2, 8, 9, 8)),
        "five_dimensions_f32": (waves((3, 4, 5, 6, 7)).astype("<f4"), "abs=1e-3", (2, 2, 5, 6, 7)),
        "land_nan_infinities": (masked((60, 60)), "abs=1e-2", (48, 48)),
        "interpolated_volume_f32": (volume, "abs=5e-2", (20, 32, 40)),
        "interpolated_land_f64": (masked((60, 60)).astype(">f8"), "abs=1e-1", (48, 48)),
        "sparse": (sparse.astype("<f4"), "abs=1e-3", (40, 32, 32)),
        "lattice": (np.round(waves((64, 64)) * 80).astype("<f4") / 8, "abs=1e-4", (64, 64)),
        "wide_range": ((waves((3000,)) * 10.0 ** (np.arange(3000) % 60 - 30)).astype("<f8"), "abs=1e-12", (1500,)),
        "constant": (np.full((30, 30), 273.15, "<f4"), "abs=1e-3", (30, 30)),
        "random_bits": (random.integers(0, 2**63, 400).view("<f8"), "abs=1e-300", (400,)),
        # With many exceptions, so that the mask and the exceptions' bits are bit planes, too.
        "bit_planes_land_f64_big_endian": (masked((60, 60)).astype(">f8"), "abs=1e-2,coding=bitshuffle", (48, 48)),
        "bit_planes_volume_f32": (volume, "abs=1e-3,coding=bitshuffle", (16, 16, 40)),
        "one_value": (np.array([[1.5]], "<f4"), "abs=1e-3", (1, 1)),
        "exact_volume_f32": (volume, "lossless", (16, 16, 40)),
        "exact_land_f64_big_endian": (masked((60, 60)).astype(">f8"), "lossless", (48, 48)),
        "exact_lattice": (np.round(waves((64, 64)) * 80).astype("<f4") / 8, "lossless", (64, 64)),
        "pointwise_wide_range": ((waves((3000,)) * 10.0 ** (np.arange(3000) % 60 - 30)).astype("<f8"), "pwrel=1e-3", (1500,)),
        "pointwise_sparse": (sparse.astype(">f4"), "pwrel=1e-2", (40, 32, 32)),
        "half_precision": (volume.astype("<f2"), "abs=1e-2", (16, 16, 40)),
        "exact_half_precision": (volume.astype(">f2"), "lossless", (16, 16, 40)),
        "bytes": ((waves((70, 90)) * 30 + 100).astype("u1"), "abs=2", (32, 40)),
        "exact_i16_big_endian": ((waves((70, 90)) * 1e4).astype(">i2"), "lossless", (32, 40)),
        "i32": ((waves((20, 33, 40)) * 1e8).astype("<i4"), "abs=1e4", (16, 16, 40)),
        "exact_u64": ((waves((70, 90)) * 1e18 + 5e18).astype("<u8"), "lossless", (32, 40)),
        "exact_decimals_f64": (np.round(waves((64, 64)) * 40, 2), "lossless", (64, 64)),
        "complex_f32": ((waves((70, 90)) + 1j * waves((70, 90)).T.reshape(70, 90)).astype("<c8"), "abs=1e-3", (32, 40)),
        "exact_complex_f64_big_endian": ((waves((40, 50)) * (1 - 2j)).astype(">c16"), "lossless", (32, 40)),
        "booleans": (waves((70, 90)) > 0.5, "abs=1e-3", (32, 40)),
    }


def main(path: str) -> None:
    if os.path.exists(path):
        sys.exit(f"{path} exists: sample files are written once, by their own version")
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        for name, (data, options, chunks) in samples().items():
            group = file.create_group(name)
            group.attrs["options"] = options
            key, _, number = options.split(",")[0].partition("=")
            group.attrs["bound"] = float(number) if key == "abs" else 0.0
            if key == "pwrel":
                group.attrs["pointwise"] = float(number)
            group.create_dataset("original", data=data)
            group.create_dataset("compressed", data=data, chunks=chunks, compression=FILTER_ID, compression_opts=cd_values(options))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
