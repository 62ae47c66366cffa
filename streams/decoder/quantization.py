"""FORMAT.md, section 5: values from codes and from positions. Codes and positions are arrays of signed integers, values arrays of their bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .header import BFLOAT, FLOAT, Header, StreamError

LEAST_STEP = {(FLOAT, 4): 1e-28, (FLOAT, 8): 1e-290}  # of a fine grid, by the value type; other types have no fine grid
FINE = float.fromhex("0x1.ff7f9fb7c9d76p-4")  # C: distance of neighbouring positions, in steps
LN_2 = float.fromhex("0x1.62e42fefa39efp-1")  # 0x3FE62E42FEFA39EF
NO_LOWER, NO_UPPER = -(1 << 31), (1 << 31) - 1  # positions that mean no limit


class Grid(NamedTuple):
    """§4: the rounding grid of a body."""

    half_step: float  # of steps the bound, of decimals the divisor: integers
    offset: int = 0  # of steps of the logarithm, in steps
    limits: tuple[int, int] | None = None  # the positions of the lower and of the upper limit

    @property
    def step(self) -> float:
        """§5.1, §5.5: the step."""
        return 2 * self.half_step


# §5.1: the grid of differences


def values_of_codes(codes: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """The values on the grid of differences."""
    with np.errstate(over="ignore"):
        return rounded(codes.astype(np.float64) * grid.step, header)


def rounded(values: np.ndarray, header: Header) -> np.ndarray:
    """The bits of numbers of binary64, rounded once to the header's type."""
    with np.errstate(over="ignore", under="ignore"):
        if header.kind != BFLOAT:
            return values.astype(f"f{header.width}").view(f"u{header.width}")
        # A bfloat16 has the 8 highest bits of a number, but no bit below 2^-133. It is the upper half of a binary32.
        _, exponents = np.frexp(values)
        unit = np.ldexp(1.0, np.maximum(exponents, -125) - 8)
        return (np.float32(np.rint(values / unit) * unit).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def within_limits(bits: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """The values' bits after limits have replaced values."""
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
    """Refuses `what`, which needs a fine grid, of a chunk that has none."""
    if (header.kind, header.width) not in LEAST_STEP:
        raise StreamError("5.2", f"{what} of another type than binary32 and binary64")
    if step < LEAST_STEP[header.kind, header.width]:
        raise StreamError("5.2", f"{what} with a step of {step}")


def on_grid(positions: np.ndarray, width: int) -> np.ndarray:
    """The positions of the grid that are nearest to positions, before they wrap. `width`: bytes of a value."""
    return nearest_multiples(positions, distances_at(positions, width))


def distances_at(positions: np.ndarray, width: int) -> np.ndarray:
    """g at each position: the distance of the grid's positions there."""
    magnitudes = np.abs(positions.astype(np.int64))
    return 1 << sum(((width == 4) & (magnitudes >= 1 << bits)).astype(np.int64) for bits in (13, 14, 15))


def nearest_multiples(positions: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The multiples of g nearest to positions, of two the greater."""
    return (positions.astype(np.int64) + g // 2) // g * g


# §5.3: exact integers


def values_of_exact(codes: np.ndarray, header: Header) -> np.ndarray:
    """The values of codes."""
    bits = low_bits(codes, header)
    if header.integer:
        return bits
    sign = 1 << (8 * header.width - 1)
    return np.where(bits >= sign, bits ^ bits.dtype.type(sign - 1), bits)


def low_bits(integers: np.ndarray, header: Header) -> np.ndarray:
    """§4, §5.3: the low bits of integers, as many as a value has."""
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
    sums = np.abs(codes) + np.int64(grid.offset)  # these wrap
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
