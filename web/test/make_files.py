"""Writes the files of viewer.test.mjs: make_files.py FOLDER.

small.h5 and small.nc are compressed, original.h5 and original.nc are not. new_index.h5 has an index of chunks of HDF5 1.10.
"""
import subprocess
import sys
from pathlib import Path

import h5py
import netCDF4
import numpy as np

FILTER = 33791
SHAPE, CHUNKS = (24, 60, 80), (8, 32, 32)


def field() -> np.ndarray:
    """Smooth waves with a little noise, between about -400 and 400."""
    z, y, x = np.meshgrid(*(np.linspace(0, 3, extent) for extent in SHAPE), indexing="ij")
    waves = np.sin(2 * x + z) * np.cos(3 * y - z) + 0.3 * np.sin(9 * x * y + 2 * z)
    return 300 * waves + np.random.default_rng(0).normal(size=SHAPE)


def bfloat16() -> h5py.h5t.TypeFloatID:
    kind = h5py.h5t.IEEE_F16LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_ebias(127)
    return kind


def write(path: Path, compressed: bool) -> None:
    values = field()
    with h5py.File(path, "w") as file:

        def add(name: str, data: np.ndarray, *words: int, **options: object) -> None:
            chunks = (2, *CHUNKS)[-data.ndim:] if data.ndim > 1 else (1000,)
            ours = {"chunks": chunks, "compression": FILTER, "compression_opts": words} if compressed else {}
            file.create_dataset(name, data=data, **ours, **options)

        for letter in "fiu":
            for size in (1, 2, 4, 8):
                if letter + str(size) != "f1":
                    shifted = np.clip(values / 4 + 128, 0, 255) if letter == "u" else np.clip(values / 4, -128, 127)
                    add(f"types/{letter}{8 * size}", shifted.astype(f"<{letter}{size}"), 2, 0, 1)
        add("types/c64", (values + 2j * values).astype("c8"), 2, 1)
        add("types/c128", values + 2j * values, 2, 1)
        add("types/big_f32", values.astype(">f4"), 2, 2)
        add("types/big_i16", values.astype(">i2"), 2, 0, 3)
        add("bounds/rel", values.astype("f4"), 4, 3)
        add("bounds/pwrel", values.astype("f4"), 6, 2)
        add("bounds/psnr", values.astype("f4"), 8, 0, 60)
        add("bounds/ratio", values.astype("f4"), 10, 0, 20)
        add("bounds/lossless", values.astype("f4"), 0)
        gaps = np.where(values[0] > 200, -999, values[0]).astype("f4")
        add("shapes/gaps", gaps, 2, 1, fillvalue=-999)
        add("shapes/row", values.ravel()[:2500].astype("f8"), 2, 3)
        add("shapes/four", values.reshape(2, 12, 60, 80).astype("f4"), 2, 2)
        add("shapes/checked", values.astype("f4"), 2, 2, fletcher32=compressed)
        add("temperature", values.astype("f4"), 2, 1)
        bits = (values.astype("<f4").view("<u4") >> 16).astype("<u2")  # numpy has no bfloat16
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if compressed:
            properties.set_chunk(CHUNKS)
            properties.set_filter(FILTER, h5py.h5z.FLAG_MANDATORY, (2, 0, 2))
        dataset = h5py.h5d.create(file["types"].id, b"bf16", bfloat16(), h5py.h5s.create_simple(SHAPE), properties)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, bfloat16())
        file.create_dataset("other/text", data="words")
        file.create_dataset("other/deflated", data=values.astype("f4"), chunks=CHUNKS, compression=4, shuffle=True)


def write_netcdf(path: Path) -> None:
    values = field()
    with netCDF4.Dataset(path, "w") as file:
        for name, extent in zip(("time", "lat", "lon"), SHAPE):
            file.createDimension(name, None if name == "time" else extent)
            file.createVariable(name, "f8", (name,))[:] = np.arange(extent)
        for name, kind in (("ts", "f4"), ("pr", "f8")):
            variable = file.createVariable(name, kind, ("time", "lat", "lon"), chunksizes=CHUNKS, fill_value=1e20)
            variable[:] = np.ma.masked_greater(values, 300)


folder = Path(sys.argv[1])
write(folder / "small.h5", compressed=True)
write(folder / "original.h5", compressed=False)
with h5py.File(folder / "new_index.h5", "w", libver=("v110", "v114")) as new_index:
    new_index.create_dataset("t", data=field().astype("f4"), chunks=CHUNKS, compression=FILTER, compression_opts=(2, 2))
write_netcdf(folder / "original.nc")
subprocess.run(["nccopy", "-F", f"ts,{FILTER},2,2", folder / "original.nc", folder / "half.nc"], check=True)
subprocess.run(["nccopy", "-F", f"pr,{FILTER},4,3", folder / "half.nc", folder / "small.nc"], check=True)
with h5py.File(folder / "shifted.h5", "w") as shifted:
    shifted["temperature"] = (field() + 0.2).astype("f4")
damaged = bytearray((folder / "small.h5").read_bytes())
with h5py.File(folder / "small.h5") as file:
    for number in range(file["temperature"].id.get_num_chunks()):
        chunk = file["temperature"].id.get_chunk_info(number)
        damaged[chunk.byte_offset + chunk.size // 2] ^= 1
(folder / "damaged.h5").write_bytes(damaged)
(folder / "make_files.txt").write_text(__doc__)
