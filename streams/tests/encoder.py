"""What FORMAT.md asks of an encoder, computed again from the values: codes, residuals and exceptions (section 5), the predictors of mask and exceptions
(section 6.1), and bit planes (section 11.4)."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np

from craft import bit_block, bit_plane, numbers_of, whole
from decoder.bit_planes import DENSE, EMPTY, SPARSE
from decoder.bodies import Body, read_body
from decoder.header import BFLOAT, CONSTANT, DECIMAL, EXACT, QUANTIZED, STEPS, STORED, UNSIGNED, read_header
from decoder.planes import BIT_PLANES, read_plane
from decoder.prediction import INTERPOLATION, classes, prediction, worth_at, wrapped
from decoder.quantization import (
    FINE, LEAST_STEP, NO_LOWER, NO_UPPER, Grid, distances_at, nearest_multiples, on_grid, rounded, values_of_decimals,
    values_of_logarithms, values_of_positions, values_of_steps,
)  # fmt: skip
from modes import BITS, POINTWISE, Values, code_limit, cut, divisor_of_bits, half_step_of, in_binary64, lattice_of_bits, settled_bound

LEAST_NORMAL = 2.0**-1022  # of binary64
REACH = 1 << 22  # section 5.2's T
REST_SCALE = 8 / (1020 / 1021)  # section 5.2's P
SQUARE_ROOT = float.fromhex("0x1.6a09e667f3bcdp+0")  # of 2: twice 0x3FE6A09E667F3BCD
LOG2_E = float.fromhex("0x1.71547652b82fep+0")  # 0x3FF71547652B82FE


class Seen:
    """Counts of what was checked, with which a test can find what is missing."""

    def __init__(self):
        self.encoded = Counter()  # chunks by coding, type, and whether there are exceptions
        self.predictors = Counter()  # quantized chunks by rank, type, predictor, and whether there are exceptions
        self.modes = Counter()  # bit planes by the chunk's plane, bytes of a value, and mode
        self.escapes = 0


class Parts:
    """What is in a stream of planes: grid, planes, exceptions, and codes or positions."""

    def __init__(self, stream):
        self.header, reader = read_header(stream)
        extents, width = self.header.extents, self.header.width
        if self.header.coding == EXACT:
            body = Body(Grid(0), read_plane(reader, extents, self.header.bits), np.zeros(0, int), np.zeros(0, f"u{width}"))
        else:
            body = read_body(reader, self.header)
        self.grid, self.numbers, self.ones = body.grid, body.numbers, len(body.indices)
        self.planes = [plane for plane in (body.plane, body.mask, body.exception_bits) if plane]
        self.interpolated, self.predictor = body.plane.interpolated, body.plane.predictor
        if self.interpolated:
            self.residuals = body.plane.integers
            self.positions = body.plane.positions(width).reshape(extents)
        else:
            self.codes = body.plane.codes().reshape(extents)
        self.exceptions = np.isin(np.arange(self.header.count), body.indices).reshape(extents)


# Section 5: the codes


class Rules:
    """The rules of sections 5.1 and 5.2 for an encoder, for the values of one chunk."""

    def __init__(self, parts, values, bound):
        self.header, self.grid, self.x = parts.header, parts.grid, values.x
        self.values, self.bound, self.step = values, bound, parts.grid.step
        self.inverse = 1 / self.step
        least = LEAST_STEP.get((self.header.kind, self.header.width), math.inf)
        self.fine = parts.grid.half_step == bound and self.step >= least
        self.scaled = self.x * self.inverse
        self.nearest = np.rint(self.scaled)
        self.is_far = values.is_far & (bound > 0)  # exact bits have no far values
        self.codes, self.coded = self.try_codes()
        if self.fine:
            self.positions, self.is_on_position = self.try_positions()
            self.coded &= ~(self.is_on_position & (self.positions % 8 != 0))
        # Only fill values within the grid are masked.
        self.masked = (values.is_fill & (np.abs(self.scaled) < code_limit(self.header)) | self.is_far) & ~self.coded
        zeros = values.bits == 0
        if parts.interpolated and not (values.is_fill & self.masked).any() and parts.exceptions[zeros].all():
            self.masked |= zeros  # section 11.3 says when

    def value(self, positions):
        """Section 5.2's values of positions, rounded to the type, in binary64."""
        return in_binary64(values_of_positions(positions, self.grid, self.header), self.header)

    def unrounded(self, positions):
        """Section 5.2's values of positions, not yet rounded to the type."""
        steps = (positions + 4) // 8
        return steps * self.step + (positions - 8 * steps) * (self.step * FINE)

    def try_codes(self):
        """Section 5.1: codes, and where rules 1 to 3 and 5 hold."""
        back = rounded(self.nearest * self.step + 0.0, self.header)
        fill_lost = self.values.is_fill & ((back != self.values.bits) | (np.abs(self.nearest) >= 32)) | self.is_far
        number = in_binary64(back, self.header)
        good = (np.abs(self.x - number) <= self.bound) & (np.abs(self.nearest) < code_limit(self.header))
        good &= (np.rint(number * self.inverse) == self.nearest) & ~fill_lost
        return np.where(good, self.nearest, 0).astype("i8"), good

    def try_positions(self):
        """Section 5.2: the position nearest to each value, and which values are exactly on it."""
        near = np.abs(self.nearest) < REACH
        rest = np.rint((self.scaled - self.nearest) * REST_SCALE)  # may be 4
        positions = np.where(near, 8 * self.nearest + rest, 0).astype("i8")
        there = rounded(self.nearest * self.step + rest * (self.step * FINE), self.header)
        on_the_grid = on_grid(positions, self.header.width) == positions
        return positions, near & on_the_grid & (in_binary64(there, self.header) == self.x)

    def codes_and_exceptions(self):
        """Section 5.1: the plane of codes, and the mask."""
        return codes_beside(self.codes, self.coded), ~self.coded

    def residuals_and_exceptions(self, there, predicted, worth):
        """Section 5.2: the residuals of a parity class, and which are exceptions. The class is at the slices `there`."""
        x = self.x[there]

        def holds(positions):
            return is_in_reach(positions) & (np.abs(x - self.value(positions)) <= self.bound)

        aligned = nearest_multiples(predicted, distances_at(self.positions[there], self.header.width))
        steps = np.rint((x - self.unrounded(aligned)) * self.inverse * (8 / worth))
        small = np.abs(steps) < 65536
        steps = np.where(small, steps, 0).astype("i8")
        stepped, near = on_grid(predicted + worth * steps, self.header.width), self.positions[there]
        out = ~(np.abs(self.scaled[there]) < REACH) | ~(np.abs(self.nearest[there]) < REACH) | self.masked[there]
        by_steps = ~out & small & holds(stepped) & ~(self.is_on_position[there] & (near != stepped))
        escaped_to = on_grid(near, self.header.width)
        escapes = wrapped(escaped_to - predicted + 98304, 32)
        by_escape = ~out & ~by_steps & holds(escaped_to) & (np.abs(escapes) >= 65536)
        return np.where(by_steps, steps, np.where(by_escape, escapes, 0)), ~(by_steps | by_escape)

    def limits(self, interpolated):
        """Section 11.3: the limits that the body has, or None."""
        some = self.x[(np.abs(self.scaled) < code_limit(self.header)) & ~self.masked]
        if not self.fine or not some.size:
            return None
        lower, upper = self.limit(float(some.min()), 1), self.limit(float(some.max()), -1)
        below = lower is not None and 8 * np.rint(some.min() * self.inverse) < lower
        above = upper is not None and 8 * np.rint(some.max() * self.inverse) > upper
        if not (interpolated or below or above) or lower is upper is None:
            return None
        lower, upper = NO_LOWER if lower is None else lower, NO_UPPER if upper is None else upper
        if lower > upper:
            lower = upper = lower if abs(lower) < abs(upper) else upper
        return lower, upper

    def limit(self, end, inward):
        """Section 11.3: the limit at an end of the values, or None. `inward` is 1 for the lower limit and -1 for the upper limit."""
        steps = np.rint(end * self.inverse)
        if not abs(steps) < REACH:
            return None
        nearest = int(8 * steps + np.rint((end * self.inverse - steps) * REST_SCALE))
        positions = on_grid(np.arange(nearest - 8, nearest + 9), self.header.width)
        inside = positions[inward * (self.value(positions) - end) >= 0]
        limit = int(inside.min() if inward > 0 else inside.max())
        (value,) = self.value(np.array([limit]))
        return limit if is_in_reach(limit) and abs(value - end) <= self.bound else None


def is_in_reach(positions):
    """Section 5.2: whether a position may hold a value."""
    return (-8 * REACH + 4 <= positions) & (positions < 8 * REACH - 4)


def codes_beside(codes, good):
    """Section 5.1: the plane of codes. Exceptions, which are not good, get codes of good values of their row."""
    row = np.arange(good.shape[-1])
    # For each value, the index of the last good value up to it in its row, or of the row's first good value.
    before = np.maximum.accumulate(np.where(good, row, -1), -1)
    before = np.where(before < 0, good.argmax(-1)[..., None], before)
    return np.where(good.any(-1)[..., None], np.take_along_axis(codes, before, -1), 0)


def lattice_codes(parts, values):
    """Section 11.1: codes on the lattice of the exact bits, and which are exceptions. All finite values have codes."""
    finite = np.isfinite(values.x)
    return codes_beside(np.where(finite, values.x / parts.grid.step, 0).astype("i8"), finite), ~finite


def decimal_codes(parts, values):
    """Section 5.6: codes, and which are exceptions."""
    nearest = np.rint(values.x * parts.grid.half_step)
    good = np.abs(nearest) < code_limit(parts.header)
    codes = np.where(good, nearest, 0).astype("i8")
    good &= values_of_decimals(codes, parts.grid, parts.header) == values.bits
    return codes_beside(codes, good), ~good


def exact_codes(values):
    """Section 5.3: codes. There are no exceptions."""
    header = values.header
    numbers = values.bits.view(f"{header.kind if header.integer else 'i'}{header.width}")
    codes = wrapped(numbers, header.bits)
    if not header.integer:
        codes = np.where(codes < 0, codes ^ ((1 << (8 * header.width - 1)) - 1), codes)
    return codes, np.zeros(codes.shape, bool)


def step_codes(parts, values):
    """Section 5.4: codes, and which are exceptions."""
    bound = parts.grid.half_step
    codes = np.array([(integer + bound) // (2 * bound + 1) for integer in values.integers()], np.int64).reshape(values.bits.shape)
    good = ~(values.is_fill | values.is_far) | (values_of_steps(codes, parts.grid, parts.header) == values.bits)
    return codes_beside(codes, good), ~good


def logarithm(numbers, terms):
    """Section 5.5: L(x), with u_0 to u_terms. For subnormal numbers and 0 it is any number."""
    series = [2 * LOG2_E / (2 * index + 1) for index in range(terms + 1)]
    bits = np.asarray(numbers, np.float64).view(np.uint64)
    exponents = (bits >> np.uint64(52)).astype(int) - 1023
    mantissas = (bits & np.uint64((1 << 52) - 1) | np.uint64(1023 << 52)).view(np.float64)
    high = mantissas >= SQUARE_ROOT
    mantissas, exponents = np.where(high, mantissas / 2, mantissas), exponents + high
    s = (mantissas - 1) / (mantissas + 1)
    z = s * s
    q = np.full(np.shape(s), series[-1])
    for term in reversed(series[:-1]):
        q = q * z + term
    return exponents + s * q


def logarithm_grid(values, share):
    """Section 5.5: half step and offset."""
    half_step = float(logarithm(np.float64(1 + share), 10))
    magnitudes = np.abs(values.x[np.isfinite(values.x)])
    magnitudes = magnitudes[magnitudes >= LEAST_NORMAL]
    if not magnitudes.size:
        return Grid(half_step, 0)
    least = logarithm(magnitudes.min(), terms_of(values.header))
    return Grid(half_step, math.floor(least * (1 / (2 * half_step))) - 1)


def terms_of(header):
    """Section 5.5: the index of the last term of L."""
    return 10 if header.width == 8 else 5


def logarithm_codes(parts, values, share):
    """Section 5.5: codes, and which are exceptions."""
    header, grid = parts.header, parts.grid

    def positions(numbers):
        return np.rint(logarithm(np.abs(numbers), terms_of(header)) * (1 / grid.step)) - grid.offset

    x = values.x
    magnitude = positions(x)
    good = (1 <= magnitude) & (magnitude < code_limit(header)) & np.isfinite(x) & (np.abs(x) >= LEAST_NORMAL)
    codes = np.where(good, np.copysign(magnitude, x), 0).astype("i8")
    back = values_of_logarithms(codes, grid, header)
    number = in_binary64(back, header)
    good &= (np.abs(x - number) <= share * np.abs(x)) & (np.abs(number) >= LEAST_NORMAL) & (positions(number) == magnitude)
    good |= values.bits == 0
    good &= ~values.is_fill | (back == values.bits)
    return codes_beside(codes, good), ~good


# Sections 6.1 and 11.4: the planes


def check_planes(seen, parts, coding, name):
    """Planes are bit planes if the dataset asks for them. Then they have these bytes. The mask and the exceptions' bits have these predictors."""
    for what, plane in zip(("values", "mask", "exceptions"), parts.planes):
        assert (plane.book == BIT_PLANES) == (coding == BITS), f"{name}: book {plane.book} for the plane of {what}"
        if plane.book != BIT_PLANES:
            continue
        assert plane.predictor < INTERPOLATION, f"{name}: interpolation with bit planes"
        numbers = numbers_of(plane.integers, plane.bits)
        blocks = [bit_block(numbers[at : at + 2048], encoders_mode) for at in range(0, len(numbers), 2048)]
        for block in blocks:
            seen.modes.update((what, parts.header.width, mode) for mode in block.modes)
        expected = bit_plane([block.pack() for block in blocks], plane.predictor)
        assert plane.data == expected, f"{name}: plane of {what} {plane.data[:40].hex()}, by section 11 {expected[:40].hex()}"
    if len(parts.planes) == 3:
        check_mask(parts, name)


def encoders_mode(plane):
    """Section 11.4: the mode of a bit plane, whose words are rows of four bytes."""
    if not plane.any():
        return EMPTY
    sparse = 64 + 4 * int(plane.any(1).sum()) + 8 * int((plane != 0).sum())
    return SPARSE if sparse < 32 * len(plane) else DENSE


def check_mask(parts, name):
    """Section 6.1: the predictors of the mask and of the exceptions' bits. Section 4: how these bits are extended."""
    rank = parts.exceptions.ndim
    ones = {}
    for axes in ((1 << rank) - 1, 1, 0):
        differences = parts.exceptions.astype("i1")
        for axis in range(rank):
            if axes >> (rank - 1 - axis) & 1:
                differences = np.diff(differences, axis=axis, prepend=0) & 1
        ones.setdefault(axes, int(differences.sum()))
    _, mask, bits = parts.planes
    assert mask.predictor == min(ones, key=ones.get), f"{name}: predictor {mask.predictor} of a mask with {ones} ones"
    assert np.isin(mask.integers, (0, 1)).all(), f"{name}: differences of the mask other than 0 and 1"
    assert bits.predictor == 1, f"{name}: predictor {bits.predictor} of the exceptions' bits"
    header = parts.header
    extended = parts.numbers if header.kind == UNSIGNED else parts.numbers.view(f"i{header.width}")
    assert np.array_equal(wrapped(extended, header.bits), bits.codes()), f"{name}: bits not extended as section 5.3 extends codes"


# Section 11: a chunk


def check_encoder(seen, stream, bits, request, name):
    """Codes or residuals and the mask of a stream are those of section 5, and its planes those of section 11."""
    header, _ = read_header(stream)
    coding, stored = header.coding, len(whole(0, STORED, header.extents, b"")) + header.count * header.width
    same = bool((bits == bits.reshape(-1)[0]).all())
    assert (coding == CONSTANT) == same, f"{name}: coding {coding}, where values are {'all' if same else 'not all'} equal"
    if coding in (STORED, CONSTANT):
        return
    assert len(stream) < stored, f"{name}: {len(stream)} bytes are not stored ones"
    parts = Parts(stream)
    order = "" if header.width == 1 else ">" if header.big_endian else "<"
    element = order + ("bfloat16" if header.kind == BFLOAT else f"{header.kind}{header.width}")
    seen.encoded[coding, element, parts.ones > 0] += 1
    check_planes(seen, parts, request.coding, name)
    with np.errstate(all="ignore"):
        values = Values(header, bits, request.fill, request.mode)
        assert np.array_equal(values.bits[parts.exceptions], parts.numbers), f"{name}: other bits of exceptions"
        if coding == QUANTIZED:
            check_quantized(seen, parts, values, request, element, name)
            return
        assert not parts.interpolated, f"{name}: coding {coding} is interpolated"
        if coding == EXACT:
            expected = exact_codes(values)
        elif coding == DECIMAL:
            divisor = divisor_of_bits(values)
            assert parts.grid.half_step == divisor, f"{name}: divisor {parts.grid.half_step}, by section 11.1 {divisor}"
            expected = decimal_codes(parts, values)
        elif coding == STEPS:
            bound = settled_bound(request, values)
            if bound is not None:
                steps = min(math.floor(bound), (1 << (header.bits - 1)) - 1)
                assert parts.grid.half_step == steps, f"{name}: steps of {parts.grid.half_step} for a bound of {bound}"
            expected = step_codes(parts, values)
        else:
            (share,) = request.numbers
            grid = logarithm_grid(values, share)
            assert parts.grid == grid and request.mode == POINTWISE, f"{name}: mode {request.mode}, {parts.grid}, by section 5.5 {grid}"
            expected = logarithm_codes(parts, values, share)
        check_codes(parts, values, [expected], name)


def check_codes(parts, values, ways, name):
    """The codes and exceptions of a stream are those of one of these ways. A message compares them with the first way."""
    if any(np.array_equal(codes, parts.codes) and np.array_equal(exceptions, parts.exceptions) for codes, exceptions in ways):
        return
    codes, exceptions = ways[0]
    wrong = exceptions != parts.exceptions
    if wrong.any():
        what = f"the first, {values.x[wrong][0]!r}, is {'one' if exceptions[wrong][0] else 'none'} by FORMAT.md"
        raise AssertionError(f"{name}: {wrong.sum()} other exceptions, {what}")
    wrong = codes != parts.codes
    what = f"the first, of {values.x[wrong][0]!r}, is {codes[wrong][0]} by FORMAT.md, not {parts.codes[wrong][0]}"
    raise AssertionError(f"{name}: {wrong.sum()} other codes, {what}")


def check_quantized(seen, parts, values, request, element, name):
    """Sections 5.1, 5.2 and 11, for coding 2."""
    kind = "interpolated" if parts.interpolated else parts.predictor
    seen.predictors[len(parts.header.extents), element, kind, parts.ones > 0] += 1
    bound, half_step = settled_bound(request, values), parts.grid.half_step
    if bound is None:
        if math.frexp(half_step)[0] == 0.5:
            return  # a bound that FORMAT.md leaves to the code, or a lattice
        assert half_step == cut(half_step), f"{name}: half step {half_step!r}, which is not cut"
        bound = half_step
    of_bound, of_bits = half_step_of(bound, values), lattice_of_bits(values)
    rules = Rules(parts, values, bound)
    limits = rules.limits(parts.interpolated)
    assert parts.grid.limits == limits, f"{name}: limits {parts.grid.limits}, by section 11.3 {limits}"
    if not parts.interpolated:
        # Exact bits may replace the bound's grid, if its stream is longer.
        ways = [rules.codes_and_exceptions()] if bound and half_step == of_bound else []
        ways += [lattice_codes(parts, values)] if half_step == of_bits else []
        assert ways, f"{name}: half step {half_step!r} for a bound of {bound!r}, by section 11 {of_bound!r} or {of_bits!r}"
        check_codes(parts, values, ways, name)
        return
    assert rules.fine, f"{name}: interpolation without a fine grid"
    seen.escapes += int((np.abs(parts.residuals) >= 65536).sum())
    extents = parts.header.extents
    first = (slice(1),) * len(extents)
    at = 0
    for stride, axes, there in itertools.chain([(0, (), first)], classes(extents)):
        level = parts.positions[(slice(None, None, stride or None),) * len(extents)]
        predicted = prediction(level, axes, parts.predictor) if axes else np.zeros(level[first].shape, "i8")
        number = stride.bit_length() - 1 if axes else (max(extents) - 1).bit_length()
        worth = worth_at(predicted, parts.predictor, number, parts.header.width)
        residuals, exceptions = rules.residuals_and_exceptions(there, predicted, worth)
        wrong = (residuals != parts.residuals[at : at + residuals.size].reshape(residuals.shape)) | (exceptions != parts.exceptions[there])
        assert not wrong.any(), f"{name}: {wrong.sum()} residuals of stride {stride}, axes {axes}; the first for {rules.x[there][wrong][0]!r}"
        at += residuals.size
