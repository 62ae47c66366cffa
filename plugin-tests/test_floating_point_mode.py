"""The bound holds in processes whose floating-point mode others have changed.

Many libraries are linked with -ffast-math, and loading one of them switches subnormal numbers off in the loading thread. The compiler is $CC, or gcc.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np

from conftest import in_each_python
from quire_client import FILTER_ID, absolute, client

BOUND = 1e-39


def exact(bits: int) -> Fraction:
    """The value of a binary32, from its bits: floating-point arithmetic is what is under test."""
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    magnitude = Fraction(fraction, 2**149) if exponent == 0 else Fraction(fraction | 0x800000) * Fraction(2) ** (exponent - 150)
    return -magnitude if bits >> 31 else magnitude


def worst(path: str, bits: np.ndarray) -> Fraction:
    """Largest error in the file, in bounds."""
    with h5py.File(path, "r") as file:
        read = file["x"][()].view(np.uint32)
    return max(abs(exact(int(x)) - exact(int(y))) for x, y in zip(bits, read)) / Fraction(BOUND)


def write(path: str, bits: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        options = {"chunks": (4096,), "compression": FILTER_ID, "compression_opts": absolute(BOUND)}
        file.create_dataset("x", data=bits.view(np.float32), **options)


@in_each_python
def test_the_bound_holds_in_any_floating_point_mode() -> None:
    values = (np.random.default_rng(1).random(4096) * 2 - 1) * 1e-37
    bits = values.astype(np.float32).view(np.uint32)
    before, after = "before.h5", "after.h5"
    write(before, bits)
    stream = h5py.File(before, "r")["x"].id.read_direct_chunk((0,))[1]
    assert worst(before, bits) <= 1

    Path("empty.c").write_text("int quire_test_nothing;\n")
    # From version 13 on, gcc leaves the mode of shared libraries alone unless told; before, it does not know the option.
    for options in (["-mdaz-ftz"], []):
        command = [os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-ffast-math", *options, "-o", "libfast.so", "empty.c"]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0:
            break
    ctypes.CDLL("./libfast.so")
    subnormal = np.array([1], np.uint32).view(np.float32)
    assert (subnormal + subnormal).view(np.uint32)[0] == 0, "the test has lost its point: subnormal numbers are still on"

    assert worst(before, bits) <= 1, f"{client()}: reading breaks the bound by {float(worst(before, bits))}"
    write(after, bits)
    assert worst(after, bits) <= 1, f"{client()}: writing breaks the bound by {float(worst(after, bits))}"
    assert h5py.File(after, "r")["x"].id.read_direct_chunk((0,))[1] == stream, f"{client()}: the stream's bytes depend on the mode"
    assert (subnormal + subnormal).view(np.uint32)[0] == 0, f"{client()}: the filter has changed the application's mode"
