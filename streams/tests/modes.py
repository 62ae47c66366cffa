"""Section 10's modes of bits: what a dataset asks of its chunks, the bound or the divisor that section 11 settles for a chunk, and what values must keep."""

from __future__ import annotations

import math
import struct
import sys
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from decoder.header import BFLOAT
from decoder.quantization import rounded

# Section 10's modes of bits, which datasets keep: numbers are given by their bits.
LOSSLESS, ABSOLUTE, RELATIVE, POINTWISE, PSNR, RATIO, RATIO_WITHIN = 0, 1, 3, 5, 7, 9, 11
HUFFMAN, BITS = 1, 2  # section 10's codings; 0 leaves the choice to the encoder
CODINGS = (0, BITS)  # codings that give different streams
GREATEST_BOUND = 1e300  # of a share of a range


class Request(NamedTuple):
    """Section 10: what a dataset asks of its chunks."""

    mode: int
    numbers: tuple  # of the mode
    coding: int
    fill: int  # bits of the fill value


class Values:
    """The values of a chunk, by their bits."""

    def __init__(self, header, bits, fill, mode=None):
        self.header, self.bits, self.fill = header, bits.reshape(header.extents), fill
        self.x = in_binary64(self.bits, header)
        self.is_fill = self.bits == self.bits.dtype.type(fill)
        self.counted = np.isfinite(self.x) & ~self.is_fill  # "finite values but the fill value"
        self.is_far = np.zeros(self.x.shape, bool)
        if mode in (RELATIVE, PSNR, RATIO, RATIO_WITHIN):
            least, greatest = span(self.x[self.counted])
            self.is_far = np.isfinite(self.x) & ((self.x < least) | (self.x > greatest)) & ~self.is_fill
            self.counted &= ~self.is_far

    def integers(self):
        """The values of a chunk of integers, as Python's numbers."""
        return self.bits.view(f"{self.header.kind}{self.header.width}").reshape(-1).tolist()

    def range(self):
        """Section 10: the range. 0 if no values count."""
        some = self.x[self.counted]
        return min(float(some.max() - some.min()), sys.float_info.max) if some.size else 0.0


def span(x):
    """Section 11.2: the least and the greatest value among those that are not far, or infinities if no value is far."""
    different, occur = np.unique(x + 0.0, return_counts=True)
    first, last = 0, len(different) - 1

    def is_far(value, near, end):
        gap, width = abs(different[value] - different[near]), abs(different[near] - different[end])
        return width > 0 and (gap > 64 * width or gap > 8 * width and occur[value] >= 16)

    with np.errstate(all="ignore"):
        while True:
            before = first, last
            for at in range(last - 1, max(first, len(different) - 17) - 1, -1):
                if is_far(at + 1, at, first):
                    last = at
                    break
            for at in range(first + 1, min(last, 16) + 1):
                if is_far(at - 1, at, last):
                    first = at
                    break
            if before == (first, last):
                break
    if (first, last) == (0, len(different) - 1) or last - first < 7:
        return -math.inf, math.inf
    return different[first], different[last]


def in_binary64(bits, header):
    """The values in binary64. Integers of 64 bits may be rounded."""
    if header.kind == BFLOAT:
        return (bits.astype("u4") << np.uint32(16)).view("f4").astype("f8")
    return bits.view(f"{header.kind}{header.width}").astype("f8")


# --------------------------------------------------------------------------------------------- section 11: the bound


def cut(number):
    """Section 11.2: a bound whose lowest 47 bits are 0."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    return struct.unpack("<d", struct.pack("<Q", bits >> 47 << 47))[0]


FACTORS = (17, 23, 33, 37, 39, 41, 43, 49, 51, 53, 57, 59, 61, 63)


def rung(wanted):
    """Section 11.2: the greatest step up to this one on the ladder of binary32 and binary64."""
    exponents = [math.frexp(wanted / odd)[1] - 1 for odd in FACTORS]
    return max(odd * 2.0**exponent for odd, exponent in zip(FACTORS, exponents) if odd * 2.0**exponent <= wanted)


def on_ladder(bound, values):
    """Section 11.2: the bound of a chunk of floating-point numbers that were not rounded before."""
    if values.header.width == 2:
        return 2.0 ** (math.frexp(2 * bound)[1] - 2) / 2 if bound > 0 else 0.0
    wanted = 2 * bound * (1 - 1 / 1024)
    some = np.abs(values.x[values.counted])
    greatest = float(some.max()) if some.size else 0.0
    fine = 64 * 2.0 ** (math.frexp(greatest)[1] - 1 - (23 if values.header.width == 4 else 52)) if greatest else 0.0
    if wanted <= 0:
        return 0.0
    step = 2.0 ** (math.frexp(wanted)[1] - 2) if wanted < 2 * fine else rung(wanted - fine)
    return step / 2


def on_thirds(bound):
    """Section 11.2: the bound of integers: their step is the greatest power of three."""
    step = 1
    while (3 * step - 1) // 2 <= bound and step < 3**33:
        step *= 3
    return float((step - 1) // 2)


def settled_bound(request, values):
    """Section 11: the absolute bound of a chunk. 0 for the exact bits, None if FORMAT.md leaves the bound to the code."""
    if request.mode in (LOSSLESS, POINTWISE):
        bound = 0.0  # a chunk in steps of the logarithm does not come here
    elif request.mode == ABSOLUTE:
        (bound,) = request.numbers
    elif request.mode == RELATIVE and values.header.integer:
        integers = [one for one, fill in zip(values.integers(), (values.is_fill | values.is_far).reshape(-1)) if not fill] or [0]
        bound = on_thirds(math.floor(Fraction(request.numbers[0]) * (max(integers) - min(integers))))
    elif request.mode == RELATIVE:
        bound = on_ladder(min(values.range() * request.numbers[0], GREATEST_BOUND), values)
    else:
        return None
    usable = 0 < bound and math.isfinite(2 * bound) and math.isfinite(1 / (2 * bound) if 2 * bound else math.inf)
    return bound if usable else 0.0


def greatest_power(numbers):
    """The exponent of the greatest power of two of which all numbers are multiples, or None if they are all 0."""
    numbers = numbers[numbers != 0]
    if not numbers.size:
        return None
    mantissas, exponents = np.frexp(numbers)
    whole = np.abs(mantissas * 2.0**53).astype("i8")
    return int((exponents - 53 + np.log2((whole & -whole).astype("f8")).astype(int)).min())


def half_step_of(bound, values):
    """Section 11.1: the half step of a bound, which is wider on a lattice of the values."""
    power = greatest_power(values.x[values.counted])
    if power is None or power < -1000 or not 2.0 ** min(power, 1000) > 2 * bound:
        return bound
    return 2.0 ** (min(power, 1000) - 1)


def lattice_of_bits(values):
    """Section 11.1: the half step of the lattice of a chunk's exact bits, or None."""
    finite = values.x[np.isfinite(values.x)]
    power = greatest_power(finite)
    if power is None or not -1000 <= power <= 1000 or np.any((finite == 0) & np.signbit(finite)):
        return None
    return 2.0 ** (power - 1) if np.abs(finite * 2.0**-power).max() < code_limit(values.header) else None


# Section 11.1: divisors of decimals, and the limit L of codes.
DIVISORS = [digit * 10**exponent for exponent in range(8) for digit in (1, 2, 5)][:22]
DECIMAL_LIMIT = {("f", 4): 2.0**22, ("f", 8): 2.0**50, ("f", 2): 2.0**9, (BFLOAT, 2): 2.0**6}


def divisor_of_bits(values):
    """Section 11.1: the divisor of a chunk's exact bits, or None."""
    header, count = values.header, values.x.size
    sampled = min(count, 128)
    x = values.x.reshape(-1)[[(0x9E3779B9 * k % 2**32) * count >> 32 for k in range(sampled)]]
    restored = [decimals_restored(x, divisor, header) for divisor in DIVISORS]
    most = max(restored)
    if most < 32:
        return None
    divisor = next(divisor for divisor, of_divisor in zip(DIVISORS, restored) if of_divisor >= most - most // 16)
    half_step = lattice_of_bits(values)
    return None if half_step is not None and 2 * half_step >= 1 / divisor else divisor


def decimals_restored(x, divisor, header):
    """Section 11.1: the number r of a divisor."""
    scaled = x * divisor
    counted = (np.abs(scaled) > 0) & (np.abs(scaled) < DECIMAL_LIMIT[header.kind, header.width] / 8)
    nearest = np.rint(np.where(counted, scaled, 0))
    has_code = counted & (in_binary64(rounded(nearest / divisor + 0.0, header), header) == x)
    count, coded = int(counted.sum()), int(has_code.sum())
    return 0 if 8 * coded < 5 * count or 8 * (count - coded) > 3 * x.size else coded


def code_limit(header):
    """Section 5.1, rule 2."""
    return 2.0**51 if header.bits == 64 else 2.0**31


# ------------------------------------------------------------------------------------------- section 10: the promises


def check_promise(request, header, bits, read, size, content, name):
    """What section 10 promises of a mode. `bits` are a chunk's bits, `read` those that the plugin reads, `size` the stream's bytes."""
    with np.errstate(all="ignore"):
        before, after = Values(header, bits, request.fill, request.mode), Values(header, read, request.fill)
        x, y = before.x, after.x
        kept = before.bits == after.bits
        broken = ~kept & ~np.isfinite(x)  # only finite values may change
        mode, numbers = request.mode, request.numbers
        if mode == LOSSLESS:
            broken |= ~kept
        elif mode == POINTWISE:
            broken |= ~kept & ~((np.abs(x - y) <= numbers[0] * np.abs(x)) & (np.signbit(x) == np.signbit(y)) & (y != 0))
        elif mode in (ABSOLUTE, RELATIVE, RATIO_WITHIN):
            bound = before.range() * numbers[0] if mode == RELATIVE else numbers[-1]
            broken |= ~kept & ~within(before, after, bound)
        if mode != POINTWISE:
            broken |= (before.is_fill | before.is_far) & ~kept
        assert not broken.any(), f"{name}: {broken.sum()} values, the first {x[broken][0]!r}, read as {y[broken][0]!r}"
        if mode == PSNR and content in ("smooth", "noise") and before.header.kind in "fb":
            some = before.counted
            noise = float(np.mean((x[some] - y[some]) ** 2))
            psnr = 20 * math.log10(before.range()) - 10 * math.log10(noise) if noise else math.inf
            assert psnr >= numbers[0] - 0.05, f"{name}: {psnr:.2f} dB"
        # Types of 16 bits have few grids, and so few ratios.
        if mode == RATIO and content == "smooth" and before.header.kind == "f" and header.width > 2:
            ratio = bits.size * header.width / size
            assert abs(ratio / numbers[0] - 1) <= 0.05, f"{name}: a ratio of {ratio:.3f}"


def within(before, after, bound):
    """Which values are within the bound. Integers are compared exactly, other values in binary64."""
    if not before.header.integer:
        return np.abs(before.x - after.x) <= bound
    far = [abs(one - other) <= bound for one, other in zip(before.integers(), after.integers())]
    return np.array(far).reshape(before.bits.shape)
