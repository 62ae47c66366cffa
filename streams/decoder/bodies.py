"""FORMAT.md, section 4: bodies with a grid. Their planes are in planes.py."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

import numpy as np

from .header import DECIMAL, LOGARITHMIC, QUANTIZED, STEPS, Header, Reader, StreamError
from .planes import NARROW, Plane, read_plane
from .quantization import (
    Grid, check_fine_grid, low_bits, values_of_codes, values_of_decimals, values_of_logarithms, values_of_positions, values_of_steps,
    within_limits,
)  # fmt: skip


class Body(NamedTuple):
    """A body before there are values."""

    grid: Grid
    plane: Plane  # of codes or of residuals
    indices: np.ndarray  # of exceptions
    numbers: np.ndarray  # the exceptions' bits
    mask: Plane | None = None  # only if there are many exceptions
    exception_bits: Plane | None = None


def read_body(reader: Reader, header: Header) -> Body:
    """A body with a grid."""
    grid = read_grid(reader, header)
    exceptions = number_of_exceptions(reader, header)
    listed = exceptions <= most_listed(header.count)
    indices, numbers = read_list(reader, exceptions if listed else 0, header)
    plane = read_plane(reader, header.extents, header.bits)
    if listed:
        return Body(grid, plane, indices, numbers)
    mask = read_plane(reader, header.extents, NARROW)
    indices = np.flatnonzero(mask.codes() & 1)
    if len(indices) != exceptions:
        raise StreamError("5.1", f"the mask has {len(indices)} ones, the body's header says {exceptions}")
    exception_bits = read_plane(reader, (exceptions,), header.bits)
    return Body(grid, plane, indices, low_bits(exception_bits.codes(), header), mask, exception_bits)


def read_grid(reader: Reader, header: Header) -> Grid:
    """§4: the grid, up to the number of exceptions."""
    first = reader.take(8, "4", "the grid")
    if header.coding in (STEPS, DECIMAL):
        (number,) = struct.unpack("<Q", first)
        most = 1 << 53 if header.coding == DECIMAL else (1 << header.bits - 1) - 1
        if not 1 <= number <= most:
            raise StreamError("4", f"a divisor of {number}" if header.coding == DECIMAL else f"steps with a bound of {number}")
        return Grid(number)
    (half_step,) = struct.unpack("<d", first)
    limited = header.coding == QUANTIZED and first[7] >= 0x80
    if limited:
        half_step = abs(half_step)
    if not (math.isfinite(half_step) and half_step > 0):
        raise StreamError("4", f"half step {half_step}")
    step = 2 * half_step
    if not (math.isfinite(step) and math.isfinite(1 / step)):
        raise StreamError("4", f"half step {half_step}: twice it or its reciprocal is not finite")
    if header.coding == LOGARITHMIC:
        return Grid(half_step, *struct.unpack("<q", reader.take(8, "4", "the grid's offset")))
    return Grid(half_step, limits=read_limits(reader, header, step) if limited else None)


def read_limits(reader: Reader, header: Header, step: float) -> tuple[int, int]:
    """§4: the limits' positions."""
    lower, upper = struct.unpack("<ii", reader.take(8, "4", "the limits"))
    check_fine_grid(header, step, "limits")
    if lower > upper:
        raise StreamError("4", f"a lower limit of {lower} above an upper one of {upper}")
    return lower, upper


def number_of_exceptions(reader: Reader, header: Header) -> int:
    """§4: the number of exceptions."""
    exceptions = int.from_bytes(reader.take(index_width(header), "4", "the number of exceptions"), "little")
    if exceptions > header.count:
        raise StreamError("4", f"{exceptions} exceptions among {header.count} values")
    return exceptions


def index_width(header: Header) -> int:
    """§4: the bytes of the number of exceptions, and of an exception's index."""
    return 4 if header.count < 1 << 32 else 8


def most_listed(count: int) -> int:
    """§4: the most exceptions that are few, in a chunk of `count` values."""
    return 16 + count // 4096


def read_list(reader: Reader, exceptions: int, header: Header) -> tuple[np.ndarray, np.ndarray]:
    """§4: the list of few exceptions or of none: the exceptions' indices, and their bits."""
    width = index_width(header)
    indices = np.frombuffer(reader.take(exceptions * width, "4", "the list of exceptions"), f"<u{width}")
    if (indices[:-1] >= indices[1:]).any():
        raise StreamError("4", "the list's indices do not ascend")
    if (indices >= header.count).any():
        raise StreamError("4", f"an exception at index {indices[-1]} of {header.count} values")
    numbers = np.frombuffer(reader.take(exceptions * header.width, "4", "the exceptions' bits"), f"<u{header.width}")
    reader.padding("4")
    return indices.astype(np.int64), numbers


def values_of(body: Body, header: Header) -> np.ndarray:
    """§5: the bits of the values."""
    grid = body.grid
    if body.plane.interpolated:
        if header.coding != QUANTIZED:
            raise StreamError("4", f"an interpolated plane of coding {header.coding}")
        check_fine_grid(header, grid.step, "an interpolated plane")
        values = values_of_positions(body.plane.positions(header.width), grid, header)
    else:
        of_codes = {QUANTIZED: values_of_codes, STEPS: values_of_steps, LOGARITHMIC: values_of_logarithms, DECIMAL: values_of_decimals}
        values = of_codes[header.coding](body.plane.codes(), grid, header)
    values = within_limits(values, grid, header)
    values[body.indices] = body.numbers
    return values
