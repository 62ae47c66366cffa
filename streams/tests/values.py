"""Values of every kind and type, to be compressed."""

from __future__ import annotations

import numpy as np

from decoder.quantization import rounded

FILL = 7.25


def field(kind, shape, dtype, bound, rng):
    """Values of one kind."""
    count = int(np.prod(shape))
    native = np.dtype(dtype).newbyteorder("=")
    at = np.arange(count)
    if kind == "smooth":
        values = 3 * np.sin(at / 37.0) + np.cos(at / 501.0)
    elif kind == "noisy":
        values = rng.normal(0, 40 * bound, count) + np.sin(at / 90.0)
    elif kind == "zeros":
        values = np.where(rng.random(count) < 0.01, rng.normal(0, 5, count), 0.0)
    elif kind == "lattice":
        values = rng.integers(-50, 50, count) * 1.0
    elif kind == "specials":
        values = np.sin(at / 37.0)
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e35, -1e35, 1e-40, 5e-324, 3.4e38])
        with np.errstate(over="ignore"):
            values = values.astype(native)
            some = rng.random(count) < 0.05
            values[some] = rng.choice(special, int(some.sum())).astype(native)
        values[count // 3 : count // 2] = 1e35
        add_signalling(values)
    elif kind == "constant":
        values = np.full(count, -1.2345)
    elif kind == "random bits":
        values = np.frombuffer(rng.bytes(count * native.itemsize), native)
    else:
        top = 37 if native.itemsize == 4 else 300
        values = 10.0 ** rng.uniform(-top, top, count) * rng.choice([-1, 1], count)
    return np.asarray(values).astype(dtype).reshape(shape)


def shaped(kind, shape, dtype, bound, rng):
    """Values that suit a predictor. The bound is coarse for them."""
    native = np.dtype(dtype).newbyteorder("=")
    at = np.indices(shape)
    slopes = rng.uniform(0.1, 0.4, len(shape)).reshape(-1, *[1] * len(shape))
    if kind == "walk":
        values = np.cumsum(rng.normal(0, 20 * bound, shape), int(rng.integers(len(shape))))
    elif kind == "ramp":
        values = 3.7 * bound * (at * slopes * 30).sum(0)
    else:
        values = 50 * bound * np.sin((at * slopes).sum(0) + rng.uniform(0, 6))
    values = values.astype(native)
    if kind == "holes":
        flat = values.reshape(-1)
        flat[rng.random(flat.size) < 0.01] += native.type(3000 * bound)  # where binary32's fine grid is coarser
        flat[rng.random(flat.size) < 0.01] += native.type(1e7 * bound)  # beyond both fine grids
        some = rng.random(flat.size) < 0.02
        flat[some] = rng.choice(np.array([np.nan, np.inf, -np.inf, FILL, 1e35, -0.0], native), int(some.sum()))
        add_signalling(flat)
    return values.astype(dtype)


def add_signalling(values):
    """Replaces some of a line of values by signalling NaNs."""
    bits = values.view(f"u{values.itemsize}")
    bits[:: max(1, values.size // 7)] = 0x7FA12345 if values.itemsize == 4 else 0x7FF4123456789ABC


def bits_of(values):
    """The bits of values, in this machine's byte order."""
    unsigned = f"u{values.dtype.itemsize}"
    return np.ascontiguousarray(values).view(np.dtype(unsigned).newbyteorder(values.dtype.byteorder)).astype(unsigned)


def fill_bits(element, fill):
    """The bits of a fill value."""
    return int(bits_of(of_numbers(np.array([fill], float), element))[0])


def of_numbers(numbers, element):
    """Numbers of binary64 as values of a type."""
    if element.kind in "iu":
        info = np.iinfo(element.dtype)
        whole = [min(max(int(number), int(info.min)), int(info.max)) for number in np.rint(numbers).reshape(-1)]
        return np.array(whole, element.dtype).reshape(numbers.shape)
    return rounded(numbers, element).astype(f"u{element.width}").astype(bits_type(element)).view(element.dtype)


def bits_type(element):
    """The unsigned type of a value's bits in memory."""
    return np.dtype(f"{'>' if element.big_endian else '<'}u{element.width}")


def content(kind, shape, element, rng):
    """Values of any type. The coarse bounds of requests() are coarse for them."""
    scale = {1: 1, 2: 200, 4: 10**6, 8: 10**9}[element.width] if element.kind in "iu" else 1
    at = np.indices(shape)
    slopes = np.array([0.21, 0.13, 0.17]).reshape(-1, 1, 1, 1)
    waves = 50 * np.sin((at * slopes).sum(0)) + 12 * np.cos(0.4 * at[2])
    numbers = rng.normal(0, 20, shape) if kind == "noise" else waves.round(2 if element.width > 2 else 0) if kind == "decimals" else waves
    if element.kind == "u":
        numbers = numbers + 128
    values = of_numbers(scale * numbers, element)
    flat = values.reshape(-1)
    if kind == "filled":
        filled = (at[1] > 5) & (at[2] < 9) | (rng.random(shape) < 0.01)
        values[filled] = of_numbers(np.array([fill_of(element)], float), element)[0]
        flat[rng.random(flat.size) < 0.02] = of_numbers(np.array([0.0]), element)[0]
    elif kind == "specials":
        special = ends(element)
        some = rng.random(flat.size) < 0.04
        flat[some] = rng.choice(special, int(some.sum()))
        flat[: len(special)] = special
    return values


def ends(element):
    """The values at the ends of a type. Floating-point types also have NaNs, infinities, zeros and subnormal numbers there."""
    top = 8 * element.width - 1
    if element.kind in "iu":
        bits = [0, 1, 2, (1 << top) - 2, (1 << top) - 1, 1 << top, (1 << top) + 1, (2 << top) - 2, (2 << top) - 1]
    else:
        mantissa = {"<bfloat16": 7, ">bfloat16": 7}.get(element.name, {2: 10, 4: 23, 8: 52}[element.width])
        infinity = (1 << top) - (1 << mantissa)
        bits = [0, 1, 2, 3, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, infinity - 1, infinity, infinity + 1]
        bits += [infinity + (1 << (mantissa - 1)), infinity + (1 << mantissa) - 1]
        bits += [one | 1 << top for one in bits]
    return np.array(bits, f"u{element.width}").astype(bits_type(element)).view(element.dtype)


def fill_of(element):
    """A fill value, far from other values if the type is wide enough. Floating-point ones are on no bound's grid."""
    return 7 if element.width == 1 else -9999 if element.kind == "i" else 54321 if element.kind == "u" else -9984.0


def any_bits(element, count, rng):
    """Bits of values of any size, or of about the same size, and of some at the ends of the type."""
    floating = element.kind not in "iu"
    kind = int(rng.integers(5))
    if kind == 0:
        bits = np.frombuffer(rng.bytes(count * element.width), f"u{element.width}").copy()
    elif kind == 1:
        near = int.from_bytes(rng.bytes(element.width), "little")
        bits = np.array([(near + int(by)) % (1 << 8 * element.width) for by in rng.integers(-300, 300, count)], f"u{element.width}")
    else:
        numbers = rng.normal(0, 1, count) * 10.0 ** rng.uniform(-4, 6)
        if kind == 3:
            numbers = 10.0 ** rng.uniform(-30, 30, count) * rng.choice([-1, 1], count) if floating else np.cumsum(numbers)
        elif kind == 4:
            numbers = np.round(numbers) * 0.25
        bits = bits_of(of_numbers(numbers, element))
    if rng.random() < 0.5:
        some = rng.random(count) < rng.choice([0.001, 0.01, 0.2])
        bits[some] = rng.choice(bits_of(ends(element)), int(some.sum()))
    return bits
