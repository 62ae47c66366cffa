"""What FORMAT.md asks of an encoder (sections 5.1, 5.2, 6.1, and of 11 what is said of bit planes), recomputed from a stream's values."""

import itertools
import struct
from typing import List, NamedTuple

import numpy as np

from quire_decoder import (
    BIT_PLANES, DENSE, EMPTY, FINE, INTERPOLATION, LEAST_STEP, SPARSE, classes, most_listed, prediction, read_header,
    read_integers, read_list, undo_differences, undo_interpolation, values_of_places, wrapped,
)  # fmt: skip
from stream_check import FILL
from stream_craft import bit_block, bit_plane, numbers_of


class Plane(NamedTuple):
    """A plane of a stream before its differences are undone."""

    predictor: int
    book: int
    integers: List[int]  # differences or residuals
    bits: int  # of each
    data: bytes


class Parts:
    """What a quantized stream says before there are values."""

    def __init__(self, stream):
        self.header, reader = read_header(stream)
        self.half_step, self.ones = struct.unpack("<dQ", reader.take(16, "4", "the body"))
        self.planes = []
        extents, bits = self.header.extents, 8 * self.header.width
        listed = self.ones <= most_listed(self.header.count)
        places, numbers = read_list(reader, self.ones if listed else 0, self.header)
        self.predictor, integers = self.plane(reader, extents, bits)
        self.interpolated = self.predictor == INTERPOLATION
        if self.interpolated:
            self.residuals = np.array(wrapped(integers, 32), np.int32)
            self.places = undo_interpolation(self.residuals, extents).reshape(extents)
        else:
            self.codes = np.array(undo_differences(integers, extents, self.predictor, bits)).reshape(extents)
        mask = np.zeros(self.header.count, int)
        mask[places] = 1
        if not listed:
            predictor, integers = self.plane(reader, extents, 32)
            mask = np.array(undo_differences(integers, extents, predictor, 32)) & 1
            predictor, integers = self.plane(reader, (self.ones,), bits)
            numbers = undo_differences(integers, (self.ones,), predictor, bits)
        self.exceptions = (mask == 1).reshape(extents)
        self.numbers = np.array(numbers, f"i{self.header.width}").view(f"u{self.header.width}")

    def plane(self, reader, extents, bits):
        """Reads a plane, and keeps it as it stands."""
        at = reader.at
        predictor, integers = read_integers(reader, extents, bits)
        bits = 32 if predictor == INTERPOLATION else bits
        self.planes.append(Plane(predictor, reader.data[at + 2], wrapped(integers, bits), bits, reader.data[at : reader.at]))
        return predictor, integers


class Rules:
    """Sections 5.1 and 5.2 for an encoder, of one chunk's values."""

    def __init__(self, parts, values, bound):
        native = values.astype(values.dtype.newbyteorder("=")).reshape(parts.header.extents)
        self.header, self.type, self.bits = parts.header, native.dtype, native.view(f"u{native.itemsize}")
        self.x = native.astype("f8")
        self.bound, self.step = bound, 2 * parts.half_step
        self.inverse = 1 / self.step
        self.reach = 512 if native.itemsize == 4 else 32768
        self.fine = parts.half_step == bound and self.step >= LEAST_STEP[native.itemsize]
        self.scaled = self.x * self.inverse
        self.nearest = np.rint(self.scaled)
        self.codes, self.coded = self.try_codes()
        self.places, self.stands = self.try_places()

    def value(self, places):
        """Section 5.2's value of a place as a number of the chunk's type, in binary64."""
        values = np.frombuffer(values_of_places(places, self.step, self.header), self.type)
        return values.reshape(places.shape).astype("f8")

    def unrounded(self, places):
        """Section 5.2's value of a place before it is rounded to its type."""
        steps = (places + 4) // 8
        return steps * self.step + (places - 8 * steps) * (self.step * FINE)

    def restored(self, steps, rest):
        """Section 5.2's value of so many steps and a rest, which may be 4."""
        return (steps * self.step + rest * (self.step * FINE)).astype(self.type).astype("f8")

    def try_codes(self):
        """Section 5.1: codes, and where rules 1 to 4 hold."""
        most = 2.0 ** (31 if self.type.itemsize == 4 else 51)
        fill = self.bits.dtype.type(np.array(FILL, self.type).view(self.bits.dtype))
        back = (self.nearest * self.step + 0.0).astype(self.type)
        self.fill_lost = (self.bits == fill) & ((back.view(self.bits.dtype) != fill) | (np.abs(self.nearest) >= 32))
        good = (np.abs(self.x - back) <= self.bound) & (np.abs(self.nearest) < most)
        good &= (np.rint(back.astype("f8") * self.inverse) == self.nearest) & ~self.fill_lost
        return np.where(good, self.nearest, 0).astype("i8"), good

    def try_places(self):
        """Section 5.2: the place nearest to each value, and where the value stands on it."""
        near = np.abs(self.nearest) < self.reach
        rest = np.rint((self.scaled - self.nearest) * (8 / (1020 / 1021)))
        places = np.where(near, 8 * self.nearest + rest, 0).astype("i8")
        return places, near & (self.restored(self.nearest, rest) == self.x)

    def codes_and_exceptions(self):
        """Section 5.1: the plane of codes with those of exceptions, and the mask."""
        good = self.coded
        if self.fine:
            good = good & ~(self.stands & (self.places % 8 != 0))
        # The place of the last good value of the row so far; before it, the first one of all.
        row = np.arange(good.shape[-1])
        before = np.maximum.accumulate(np.where(good, row, -1), -1)
        before = np.where(before < 0, good.argmax(-1)[..., None], before)
        return np.where(good.any(-1)[..., None], np.take_along_axis(self.codes, before, -1), 0), ~good

    def residuals_and_exceptions(self, there, predicted):
        """Section 5.2: the residuals of a class of values, and which are exceptions."""
        x, reach = self.x[there], self.reach

        def holds(places):
            return (-8 * reach + 4 <= places) & (places < 8 * reach - 4) & (np.abs(x - self.value(places)) <= self.bound)

        steps = np.rint((x - self.unrounded(predicted)) * self.inverse)
        few = np.abs(steps) < 65536
        steps = np.where(few, steps, 0).astype("i8")
        stepped, near = predicted + 8 * steps, self.places[there]
        out = ~(np.abs(self.scaled[there]) < reach) | ~(np.abs(self.nearest[there]) < reach) | self.fill_lost[there]
        by_steps = ~out & few & holds(stepped) & ~(self.stands[there] & (near != stepped))
        distance = near - predicted
        by_escape = ~out & ~by_steps & holds(near) & (-32768 <= distance) & (distance <= 32767)
        return np.where(by_steps, steps, np.where(by_escape, distance + 98304, 0)), ~(by_steps | by_escape)


def check_planes(tally, parts, coding, name):
    """Sections 6.1 and 11: planes are bit planes where the dataset asks for them, and then these bytes; predictors of exceptions."""
    for what, plane in zip(("values", "mask", "exceptions"), parts.planes):
        if (plane.book == BIT_PLANES) != (coding == 2):
            tally.disagree(f"{name}: encoder, coding {coding}, but book {plane.book} for the plane of {what}")
        if plane.book != BIT_PLANES:
            continue
        if plane.predictor == INTERPOLATION:
            tally.disagree(f"{name}: encoder, interpolation with bit planes")
        numbers = numbers_of(plane.integers, plane.bits)
        blocks = [bit_block(numbers[at : at + 2048], encoders_mode) for at in range(0, len(numbers), 2048)]
        for block in blocks:
            tally.modes.update((what, parts.header.width, mode) for mode in block.modes)
        expected = bit_plane([block.pack() for block in blocks], plane.predictor)
        if plane.data != expected:
            tally.disagree(f"{name}: encoder, plane of {what} {plane.data[:40].hex()}, by section 11 {expected[:40].hex()}")
    if len(parts.planes) == 3:
        check_mask(tally, parts, name)


def encoders_mode(plane):
    """Section 11: the mode of a plane, whose words are rows of four bytes."""
    if not plane.any():
        return EMPTY
    sparse = 64 + 4 * int(plane.any(1).sum()) + 8 * int((plane != 0).sum())
    return SPARSE if sparse < 32 * len(plane) else DENSE


def check_mask(tally, parts, name):
    """Section 6.1: the predictors of the mask and of the exceptions' bits."""
    rank = parts.exceptions.ndim
    ones = {}
    for axes in ((1 << rank) - 1, 1, 0):
        differences = parts.exceptions.astype("i1")
        for axis in range(rank):
            if axes >> (rank - 1 - axis) & 1:
                differences = np.diff(differences, axis=axis, prepend=0) & 1
        ones.setdefault(axes, int(differences.sum()))
    _, mask, bits = parts.planes
    if mask.predictor != min(ones, key=ones.get) or not set(mask.integers) <= {0, 1}:
        tally.disagree(f"{name}: encoder, predictor {mask.predictor} of a mask with {ones} ones")
    if bits.predictor != 1:
        tally.disagree(f"{name}: encoder, predictor {bits.predictor} of the exceptions' bits")


def check_encoder(tally, stream, values, bound, coding, name):
    """The codes or residuals and the mask of a stream are those that sections 5.1 and 5.2 ask an encoder for, its planes section 11's."""
    parts = Parts(stream)
    check_planes(tally, parts, coding, name)
    kind = "interpolated" if parts.interpolated else parts.predictor
    tally.predictors[len(parts.header.extents), values.dtype.str, kind, parts.ones > 0] += 1
    with np.errstate(all="ignore"):
        rules = Rules(parts, values, bound)
        if not np.array_equal(rules.bits[parts.exceptions], parts.numbers):
            tally.disagree(f"{name}: encoder, other bits of exceptions")
        if not parts.interpolated:
            codes, exceptions = rules.codes_and_exceptions()
            if not np.array_equal(exceptions, parts.exceptions):
                tally.disagree(f"{name}: encoder, {int((exceptions != parts.exceptions).sum())} other exceptions")
            elif not np.array_equal(codes, parts.codes):
                tally.disagree(f"{name}: encoder, {int((codes != parts.codes).sum())} other codes")
            return
        if not rules.fine:
            tally.disagree(f"{name}: encoder, interpolation without a fine grid")
        tally.escapes += int((np.abs(parts.residuals.astype("i8")) >= 65536).sum())
        extents = parts.header.extents
        first = (slice(1),) * len(extents)
        at = 0
        for stride, axes, there in itertools.chain([(0, (), first)], classes(extents)):
            grid = parts.places[(slice(None, None, stride or None),) * len(extents)]
            predicted = prediction(grid, axes) if axes else np.zeros(grid[first].shape, "i8")
            residuals, exceptions = rules.residuals_and_exceptions(there, predicted)
            wrong = (residuals != parts.residuals[at : at + residuals.size].reshape(residuals.shape)) | (exceptions != parts.exceptions[there])
            if wrong.any():
                value = rules.x[there][wrong][0]
                tally.disagree(f"{name}: encoder, {int(wrong.sum())} residuals of stride {stride}, axes {axes}; the first for {value!r}")
                return
            at += residuals.size
