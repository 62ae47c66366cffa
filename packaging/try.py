"""Writes and reads with the installed package, as its users do, and reads the file that it is given: a sample of a release, `h5-samples/v*.h5`."""

from __future__ import annotations

import sys

import h5py
import numpy as np

from h5z_quire import Quire

data = np.random.default_rng(0).normal(size=(64, 96, 128)).cumsum(axis=2).astype("f4")
bound = 1e-3
for options in (f"abs={bound}", f"rel={bound}", f"abs={bound},coding=bitshuffle", "lossless"):
    with h5py.File("/tmp/try.h5", "w") as file:
        file.create_dataset("t", data=data, chunks=(32, 96, 128), compression=Quire.from_options(options))
    with h5py.File("/tmp/try.h5") as file:
        error = np.abs(file["t"][()].astype("f8") - data).max()
        ratio = data.nbytes / file["t"].id.get_storage_size()
    assert error <= {"abs": bound, "rel": bound * np.ptp(data), "los": 0}[options[:3]], (options, error)
    assert ratio > 1, (options, ratio)
    print(f"{options}: error {error:.3g}, ratio {ratio:.1f}")

with h5py.File(sys.argv[1]) as file:
    for name, group in file.items():
        assert group["compressed"].id.get_storage_size() > 0, name
        group["compressed"][()]
    print(f"{sys.argv[1]}: {len(file)} datasets are read")
