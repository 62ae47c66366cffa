"""FORMAT.md, section 5: values from codes and from positions. Codes and positions are arrays of signed integers, values are their bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .header import BFLOAT, FLOAT, Header, StreamError

LEAST_STEP = {(FLOAT, 4): 1e-28, (FLOAT, 8): 1e-290}  # of a fine grid, by the value type; others have none
FINE = float.fromhex("0x1.ff7f9fb7c9d76p-4")  # distance of neighbouring positions of the fine grid, in steps: (1020 / 1021) / 8
LN_2 = float.fromhex("0x1.62e42fefa39efp-1")  # 0x3FE62E42FEFA39EF
NO_LOWER, NO_UPPER = -(1 << 31), (1 << 31) - 1  # limits that are none


class Grid(NamedTuple):
    """§4: the rounding grid of a body."""

    half_step: float  # coding 4: the bound, an integer; coding 6: the divisor, an integer
    offset: int = 0  # of coding 5, in steps
    limits: tuple[int, int] | None = None  # of coding 2: the positions of the lower and of the upper one

    @property
    def step(self) -> float:
        """§5.1: the step of any grid but that of §5.4."""
        return 2 * self.half_step


# §5.1: the grid of differences


def values_of_codes(codes: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """The values on the grid of differences."""
    with np.errstate(over="ignore"):
        return rounded(codes.astype(np.float64) * grid.step, header)


def rounded(values: np.ndarray, header: Header) -> np.ndarray:
    """Numbers of binary64, rounded once to the header's type."""
    with np.errstate(over="ignore", under="ignore"):
        if header.kind != BFLOAT:
            return values.astype(f"f{header.width}").view(f"u{header.width}")
        # A bfloat16 has 8 bits from the highest one on, and none below 2^-133. They are the upper half of a binary32's.
        _, exponents = np.frexp(values)
        unit = np.ldexp(1.0, np.maximum(exponents, -125) - 8)
        return (np.float32(np.rint(values / unit) * unit).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def within_limits(bits: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """The values after the limits have replaced values."""
    if grid.limits is None:
        return bits
    lower, upper = grid.limits
    values = bits.view(f"f{header.width}")
    least, greatest = values_of_positions(np.array(grid.limits, np.int32), grid, header).view(values.dtype)
    if lower != NO_LOWER:
        values = np.where(values < least, least, values)
    if upper != NO_UPPER:
        values = np.where(values > greatest, greatest, values)
    return values.view(bits.dtype)


# §5.2: the fine grid of interpolation


def values_of_positions(positions: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """The values on the fine grid."""
    # In 32 bits, so that the last four positions wrap to the first steps.
    steps = (positions + np.int32(4)) // np.int32(8)
    rest = positions - np.int32(8) * steps
    with np.errstate(over="ignore"):
        return rounded(steps * grid.step + rest * (grid.step * FINE), header)


def check_fine_grid(header: Header, step: float, what: str) -> None:
    """Which chunks have a fine grid."""
    if (header.kind, header.width) not in LEAST_STEP:
        raise StreamError("5.2", f"{what} of another type than binary32 and binary64")
    if step < LEAST_STEP[header.kind, header.width]:
        raise StreamError("5.2", f"{what} with a step of {step}")


def on_grid(positions: np.ndarray, width: int) -> np.ndarray:
    """The grid's nearest positions, before they wrap. `width`: the values' bytes."""
    return nearest_multiples(positions, distances_at(positions, width))


def distances_at(positions: np.ndarray, width: int) -> np.ndarray:
    """g, the distance of the grid's positions."""
    magnitudes = np.abs(positions.astype(np.int64))
    return 1 << sum(((width == 4) & (magnitudes >= 1 << bits)).astype(np.int64) for bits in (13, 14, 15))


def nearest_multiples(positions: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The nearest multiples; of two, the greater."""
    return (positions.astype(np.int64) + of // 2) // of * of


# §5.3: exact integers


def values_of_exact(codes: np.ndarray, header: Header) -> np.ndarray:
    """The values of codes."""
    bits = low_bits(codes, header)
    if header.integer:
        return bits
    sign = 1 << (8 * header.width - 1)
    return np.where(bits >= sign, bits ^ bits.dtype.type(sign - 1), bits)


def low_bits(integers: np.ndarray, header: Header) -> np.ndarray:
    """§4, §5.3: those bits of integers that a value has."""
    return integers.astype(f"u{header.width}")


# §5.4: steps of integers


def values_of_steps(codes: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """The values on the grid of integers."""
    ends = np.iinfo(f"{header.kind}{header.width}")
    # Products have up to 127 bits.
    products = codes.astype(object) * (2 * grid.half_step + 1)
    values = np.clip(products, int(ends.min), int(ends.max)).astype(f"{header.kind}{header.width}")
    return low_bits(values, header)


# §5.5: steps of the logarithm


def values_of_logarithms(codes: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """The values on the grid of logarithms."""
    sums = np.abs(codes) + np.int64(grid.offset)  # which wrap
    signs = np.sign(codes)
    with np.errstate(over="ignore"):
        return rounded(np.where(signs, np.copysign(exponential(sums.astype(np.float64) * grid.step, header), signs), 0.0), header)


def exponential(numbers: np.ndarray, header: Header) -> np.ndarray:
    """exp2(y), which is about 2^y."""
    terms = [1.0]
    for number in range(1, 15 if header.width == 8 else 9):
        terms.append(terms[-1] * LN_2 / number)
    numbers = np.clip(numbers, -2000, 2000)
    whole = np.rint(numbers)
    part = numbers - whole
    series = np.full(part.shape, terms[-1])
    for term in reversed(terms[:-1]):
        series = series * part + term
    with np.errstate(over="ignore", under="ignore"):
        power = np.where(whole < -1022, 0.0, np.ldexp(1.0, whole.astype(int)))
        return series * power


# §5.6: decimals


def values_of_decimals(codes: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """The values of codes over a divisor."""
    return rounded(codes.astype(np.float64) / np.float64(grid.half_step), header)
