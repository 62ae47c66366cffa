"""A dataset's fill value comes back bit for bit, so that masks survive, whatever the bound does to other values.

Every type gets fill values of every sort (far from the data and among them, on a tie between two steps of the bound, one unit in the last
place beside such a tie, NaN, infinities, zeros, the type's extremes), in three fields: a 2-D one in partial chunks, a smooth 3-D one that the
encoder interpolates, and one whose values are all fill values but a few. The three HDF5s share the cases, each day in another way, and take all of them
with QUIRE_FULL_MATRIX=1: what the bound does to a value does not depend on the HDF5.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import h5py
import numpy as np

from conftest import PYTHONS, Python
from quire_client import FILTER_ID, absolute, assert_bound, client, smooth
from sampling import is_taken, said

FLOATS = ("<f2", ">f2", "<f4", ">f4", "<f8", ">f8")
INTEGERS = ("<i2", ">i2", "<i4", ">i4", "|u1")

# Fills of models and bounds under which they are no multiples of the step, twice the bound.
MODEL_FILLS = [(-9999.0, 3.5e-3), (-9999.0, 0.2), (-32768.0, 0.7), (-99.99, 0.05), (-1.0, 3.0), (1e20, 1e-3), (-0.0, 0.1), (0.0, 0.1)]

# Bounds of the fills that are ties: both exact and inexact in binary, and numbers of whole steps below the tie. A fill value of 32 steps or
# more is always an exception, interpolation reaches 512 (f4) or 32768 (f8) steps.
TIE_BOUNDS = (0.2, 0.25, 3.5e-3, 3.0)
TIE_STEPS = (0, 1, 30, 31, 32, 511, 512, 24997, 32767, 32768, 1 << 20)

# One field of the 3-D case that once lost fill values: interpolated in f8 with a bound of 0.2, where -9999 is 24997.5 steps.
CUBE, EVERY = (32, 32, 32), 97


class Case(NamedTuple):
    fill: np.ndarray  # one value, in the dataset's type
    bound: float
    label: str


def of_bits(bits: int, dtype: np.dtype) -> np.ndarray:
    """The value of `dtype` that has these bits."""
    return np.array(bits, dtype.str.replace("f", "u")).view(dtype)


def float_cases(dtype: np.dtype) -> Iterator[Case]:
    """Fills of a floating-point type; those that the type does not hold become its infinity."""
    info, size = np.finfo(dtype), dtype.itemsize
    with np.errstate(over="ignore"):
        for fill, bound in MODEL_FILLS:
            yield Case(np.array(fill, dtype), bound, f"{fill}")
        for bound in TIE_BOUNDS:
            for steps in TIE_STEPS:
                # The largest numbers of steps lie beyond f2's range.
                if (steps + 0.5) * 2 * bound > info.max:
                    continue
                for sign in (1, -1):
                    tie = np.array(sign * (steps + 0.5) * 2 * bound, dtype.newbyteorder("="))
                    for name, fill in (("", tie), (" and a bit", np.nextafter(tie, info.max)), (" less a bit", np.nextafter(tie, info.min))):
                        yield Case(np.array(fill, dtype), bound, f"{sign * steps} and a half steps{name}")
    # The lowest bit is a NaN's payload; the highest bit of the mantissa says that it is quiet.
    exponent, quiet = {2: (0x7C00, 1 << 9), 4: (0xFF << 23, 1 << 22), 8: (0x7FF << 52, 1 << 51)}[size]
    for name, bits in (("quiet", exponent | quiet | 5), ("signalling", exponent | 5), ("negative", 1 << (8 * size - 1) | exponent | quiet)):
        yield Case(of_bits(bits, dtype), 0.1, f"{name} NaN")
    for fill in (np.inf, -np.inf, info.max, info.min, info.tiny, info.smallest_subnormal):
        for bound in (0.1, 3.0):
            yield Case(np.array(fill, dtype), bound, f"{fill}")


def integer_cases(dtype: np.dtype) -> Iterator[Case]:
    """Fills of an integer type: its extremes, numbers around 0, and the last value of a step and the first of the next."""
    info = np.iinfo(dtype)
    for bound in (0.0, 1.0, 2.5, 40.0):
        bound_steps, step = int(bound), 2 * int(bound) + 1
        fills = {info.min, info.min + 1, info.max - 1, info.max, 0, 1, -1, -9999, 255, -32768}
        for steps in (1, 31, 32, 700):
            fills |= {sign * (steps * step + bound_steps + more) for sign in (1, -1) for more in (0, 1)}
        for fill in sorted(fill for fill in fills if info.min <= fill <= info.max):
            yield Case(np.array(fill, dtype), bound, f"{fill}")


def fields(dtype: np.dtype) -> Iterator[tuple[str, np.ndarray, np.ndarray, tuple[int, ...]]]:
    """Name, values of the type, which of them become fill values, and chunk shape."""
    i, j, k = np.ogrid[: CUBE[0], : CUBE[1], : CUBE[2]]
    cube = (np.sin(i / 9) * np.cos(j / 7) + np.sin(k / 11)) * 30 + 15
    plane = smooth((70, 90), "f8", 3) * (20 if dtype.kind != "f" else 1) + (100 if dtype.itemsize == 1 else 280)
    if dtype.kind != "f":
        cube, plane = np.clip(np.round(cube), 0, None), np.round(plane)
    random = np.random.default_rng(1)
    mask = random.random(plane.shape) < 0.1
    mask[20:40, 30:80] = True
    yield "2-D", plane.astype(dtype), mask, (32, 40)
    yield "3-D", cube.astype(dtype), (np.arange(cube.size) % EVERY == 0).reshape(CUBE), CUBE
    sparse = random.random(plane.shape) < 0.97
    yield "sparse", plane.astype(dtype), sparse, (35, 45)


def cases(dtype: np.dtype, data: np.ndarray) -> Iterator[Case]:
    """All of the above, and fills that are values of the data themselves."""
    yield from float_cases(dtype) if dtype.kind == "f" else integer_cases(dtype)
    for at in (0, data.size // 3, data.size - 1):
        for bound in (0.01, 0.2) if dtype.kind == "f" else (1.0, 3.0):
            # An array: numpy's scalars have the machine's byte order.
            yield Case(data.reshape(-1)[at : at + 1].copy().reshape(()), bound, f"value {at} of the data")


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def check(path: str, dtype: np.dtype, share: int) -> tuple[int, list[str]]:
    """Number of datasets, and what is wrong with them."""
    written: list[tuple[str, np.ndarray, Case]] = []
    with h5py.File(path, "w") as file:
        for field, values, mask, chunks in fields(dtype):
            for number, case in enumerate(cases(dtype, values)):
                if not is_taken(f"fill values {dtype.str} {field}", number, share, len(PYTHONS)):
                    continue
                name = f"{len(written)}"
                # Bits, not values: an assignment between float arrays may quiet a signalling NaN.
                data = bits(values).copy()
                data[mask] = bits(case.fill)
                data = data.view(dtype).reshape(values.shape)
                options = {"chunks": chunks, "compression": FILTER_ID, "compression_opts": absolute(case.bound)}
                dataset = file.create_dataset(name, data.shape, dtype, fillvalue=case.fill, **options)
                rows = data.shape[0] - (5 if field == "2-D" else 0)
                dataset[:rows] = data[:rows]  # the rest are fill values that HDF5 puts there
                bits(data)[rows:] = bits(case.fill)
                written.append((f"{client()}: {dtype.str}, {field} field, fill {case.label}, bound {case.bound}", data, case))
    failures = []
    with h5py.File(path, "r") as file:
        for name, (label, data, case) in enumerate(written):
            read = file[f"{name}"][()]
            is_fill = bits(data) == bits(case.fill)
            lost = is_fill & (bits(read) != bits(case.fill))
            if lost.any():
                failures.append(f"{label}: {lost.sum()} of {is_fill.sum()} fill values are lost, the first became {read[lost][0]!r}")
            else:
                assert_bound(data, read, case.bound, label)
    return len(written), failures


def check_all(share: str) -> None:
    checked = [check("fill.h5", np.dtype(dtype), int(share)) for dtype in FLOATS + INTEGERS]
    failures = [failure for _, failed in checked for failure in failed]
    count = sum(count for count, _ in checked)
    print(f"{client()}: share {share} of {said()}: {count} datasets")
    assert not failures, "\n".join([*failures, f"{client()}: {len(failures)} of {count} datasets lose fill values, {said()}"])


def test_fill_values_come_back_bit_for_bit(python: Python, pythons: dict[str, Python]) -> None:
    print(python(check_all, [*pythons.values()].index(python)).stdout)
