"""Streams at the edges of single rules of sections 2 to 8, which must be read or refused; bit_plane_edges.py has those of section 9.2."""

import itertools
import struct

import numpy as np

from quire_decoder import INTERPOLATION, LEAST_STEP, Reader, read_plane
from stream_check import TYPES, read_by_both, verdict
from stream_craft import Craft, exact_bits, fresh_checksum, listed, with_length


def edges(plugin, tally, rng, number):
    """Residuals where the formulas of section 6.2 turn, and places where the values of section 5.2 do."""
    craft = Craft(rng)
    turns = [side + by for side in (0, 65536, -65536, 98304, 98304 - 32768, 98304 + 32767, -98304) for by in (-1, 0, 1)]
    turns += [2**31 - 1, -(2**31), -(2**31) + 1, 2**31 - 98304, 98304 - 2**31, 2**30, -(2**30)]
    # An escape to each of the last and the first places.
    turns += [(place + 98304 + 2**31) % 2**32 - 2**31 for place in range(2**31 - 9, 2**31 + 9)]
    bounds = {4: (1.0, 1e-28, 1e30, 1e35, 3e38, 1e300), 8: (1.0, 1e-290, 1e299, 8e307)}
    shapes = ((1,), (2,), (7,), (24,), (3, 5), (6, 1), (4, 9), (3, 4, 5), (2, 2, 2), (2, 3, 2, 3), (4, 5, 6, 7), (1, 3, 1, 4))
    for turn in range(number):
        shape, dtype = shapes[turn % len(shapes)], np.dtype(TYPES[int(rng.integers(4))])
        bound = float(rng.choice(bounds[dtype.itemsize]))
        residuals = rng.choice(turns, int(np.prod(shape)))
        residuals[rng.random(residuals.size) < rng.choice([0, 0.5, 0.95])] = 0
        plane = (craft.exactly, exact_bits)[turn % 2](residuals, INTERPOLATION)
        stream = craft.around(plane, shape, dtype, bound, 0)
        tally.crafted += 1
        name = f"edges {turn} {dtype} {shape} {bound} {residuals[:9].tolist()}"
        read_by_both(plugin.dataset(shape, shape, dtype, 1e-3), tally, stream, name)


def predictors(plugin, tally, rng):
    """Every byte as the predictor of each plane, and the least step that an interpolated plane may have."""
    craft = Craft(rng)
    ones = 20  # of 48 values: more than a list takes
    for turn, extents in enumerate(((48,), (4, 12), (1, 48), (4, 3, 4), (2, 3, 4, 2), (1, 1, 1, 48))):
        dtype = np.dtype(TYPES[turn % 4])
        dataset = plugin.dataset((48,), (48,), dtype, 1e-3)
        axes = range(1 << len(extents))
        there = rng.permutation(np.arange(48) < ones).reshape(extents).astype(int)

        def check(name, good, planes, ones, bound=1.0):
            stream = craft.around(planes, extents, dtype, bound, ones)
            verdict(dataset, tally, stream, f"{dtype} {extents} {name}", good)

        def mask(coded, byte):
            differences = there
            for axis in range(len(extents)):
                if byte in axes and byte >> axis & 1:
                    differences = np.diff(differences, axis=-1 - axis, prepend=0) & 1
            return coded(differences.reshape(-1), byte)

        tokens = craft.exactly
        for coded, other in ((tokens, exact_bits), (exact_bits, tokens)):
            plain, interpolated, sums, bits = coded(range(48), 0), other(range(48), INTERPOLATION), mask(other, 0), other(range(ones), 0)
            for byte in range(256):
                some = byte in axes or byte == INTERPOLATION
                if not some and (byte % 2 == 0) == (coded is tokens):
                    continue  # no plane has such a predictor: one coding for each is enough, and one first plane
                check(f"predictor {byte:#x} of the first plane", some, coded(range(48), byte), 0)
                for before in (plain, interpolated) if some else (plain,):
                    planes = before + mask(coded, byte) + bits
                    check(f"predictor {byte:#x} of the mask", byte in axes, planes, ones)
                    planes = before + sums + coded(range(ones), byte)
                    check(f"predictor {byte:#x} of the bits", byte < 2, planes, ones)
        least = LEAST_STEP[dtype.itemsize] / 2
        for bound, good in ((least, True), (np.nextafter(least, 1), True), (np.nextafter(least, 0), False), (least / 1e9, False)):
            for byte, coded in itertools.product((0, INTERPOLATION), (tokens, exact_bits)):
                check(f"half step {bound!r}, predictor {byte}", good or not byte, coded(range(48), byte), 0, bound)


def rules(plugin, tally, rng):
    """Single rules at their edges: which streams must be read, and which refused."""
    dataset = plugin.dataset((48,), (48,), "<f4", 1e-3)
    value_type, craft = np.dtype("<f4"), Craft(rng)

    def check(name, stream, good):
        verdict(dataset, tally, stream, name, good)

    def constant(*extents):
        head = b"QUIR\0\3\0\1" + bytes([len(extents)]) + bytes(15) + struct.pack(f"<{len(extents)}Q", *extents)
        return fresh_checksum(with_length(head + b"\1\2\3\4"))

    plain = craft.plane((48,), 32)
    head = b"QUIR\0\3\0\2\1" + bytes(15) + struct.pack("<Q", 48)

    def quantized(bound, ones=0, rest=b""):
        return fresh_checksum(with_length(head + struct.pack("<dQ", bound, ones) + plain + rest))

    least = 2.0**-1025
    above = np.nextafter(least, 1)
    for bound in (above, 2.0**1022, np.nextafter(2.0**1023, 0), 1.0):
        check(f"bound {bound}", quantized(bound), True)
    for bound in (least, 5e-324, 2.0**1023, np.inf, np.nan, 0.0, -0.0, -1.0):
        check(f"bound {bound}", quantized(bound), False)
    for extents in ((48,), (4, 12), (1, 48), (48, 1), (4, 3, 4), (2, 3, 4, 2), (1, 1, 1, 48)):
        check(f"extents {extents}", craft.stream(extents, value_type, 1e-3), True)
        check(f"constant, extents {extents}", constant(*extents), True)
    fifth = pow(5, -1, 1 << 64)  # 5 × (48 × fifth) is 48 modulo 2^64
    for extents in ((49,), (0,), (48, 0), (1 << 32, 1 << 32), (2, 3, 4, 2, 1), (5, 48 * fifth % (1 << 64))):
        check(f"constant, extents {extents}", constant(*extents), False)

    mask, ones = b"", 0
    while not 17 < ones < 48:  # more than a list takes
        mask = craft.plane((48,), 32)
        ones = sum(value & 1 for value in read_plane(Reader(mask, 0), (48,), 32))
    for said in (0, 1, 16, 17, ones - 1, ones, ones + 1, 48, 49, 1 << 32, ones + (1 << 32), (1 << 64) - 1):
        rest = mask + craft.plane((min(said, 99),), 32) if said else b""
        check(f"{said} exceptions, {ones} in the mask", quantized(1.0, said, rest), said in (0, ones))
    check("a mask without exceptions", quantized(1.0, 0, mask), False)

    # Books: 0 and the difference 1, in codes of 1 bit; then what is wrong with it.
    for name, book, good in (
        ("complete", {30: 1, 31: 1}, True),
        ("12 bits", {**{30 + n: n + 1 for n in range(12)}, 42: 12}, True),
        ("13 bits", {**{30 + n: n + 1 for n in range(13)}, 43: 13}, False),
        ("one symbol", {30: 1}, False),
        ("no symbol", {}, False),
        ("too few", {30: 1, 31: 2}, False),
        ("too many", {30: 1, 31: 1, 75: 12}, False),
        ("15 bits", {30: 1, 31: 1, 75: 15}, False),
    ):
        lengths = [book.get(symbol, 0) for symbol in range(76)]
        packed = bytes(a | b << 4 for a, b in zip(lengths[::2], lengths[1::2]))
        for end in (b"\0\0", b"\1\0", b"\0\x80"):
            plain = bytes([0, 11, 255, 0, 0, 0, 0, 0]) + packed + end  # W = E = 0: codes of zeros only
            check(f"book {name} {end.hex()}", quantized(1.0), good and end == b"\0\0")
    runs = bytes(a | b << 4 for a, b in zip(*[iter([1, 1] + [0] * 74)] * 2)) + b"\0\0"
    plain = bytes([0, 11, 255, 0, 0, 0, 0, 0]) + runs
    check("runs to the end of the block", quantized(1.0), True)
    plain = bytes([0, 11, 255, 8, 0, 0, 0, 0]) + runs + b"\1\0\0\0" + b"\0\x80\0\0"
    check("a run over the end of the block", quantized(1.0), False)


def lists(plugin, tally, rng):
    """Section 4: the list of few exceptions at its limits, and its indices."""
    craft = Craft(rng)
    for turn, count in enumerate((1, 2, 16, 17, 48, 4095, 4096, 4097, 8191, 8192, 70000)):
        dtype = np.dtype(TYPES[turn % 4])
        dataset = plugin.dataset((count,), (count,), dtype, 1e-3)
        width = dtype.itemsize
        plane = exact_bits([0] * count, 0)
        limit = 16 + count // 4096

        def check(name, planes, ones, good):
            verdict(dataset, tally, craft.around(planes, (count,), dtype, 1.0, ones), f"{dtype} {count} values, {name}", good)

        for ones in (0, 1, limit - 1, limit, limit + 1, 2 * limit):
            if ones > count:
                check(f"{ones} exceptions", listed(range(ones), rng.bytes(width * ones)) + plane, ones, False)
                continue
            places, bits = np.sort(rng.permutation(count)[:ones]), rng.bytes(width * ones)
            check(f"{ones} exceptions listed", listed(places, bits) + plane, ones, ones <= limit)
            check(f"{ones} exceptions listed behind the plane", plane + listed(places, bits), ones, not ones)
            mask = np.zeros(count, int)
            mask[places] = 1
            planes = plane + exact_bits(mask, 0) + exact_bits(range(max(ones, 1)), 1, 8 * width)
            check(f"{ones} exceptions in planes", planes, ones, ones > limit)
            check(f"{ones} exceptions listed and in planes", listed(places, bits) + planes, ones, False)
        if count < 17:
            continue
        places, bits = [0, 3, 7, 9, count - 2, count - 1], rng.bytes(6 * width)
        for name, change, good in (
            ("as they are", {}, True),
            ("two exchanged", {1: 7, 2: 3}, False),
            ("the last exchanged", {4: count - 1, 5: count - 2}, False),
            ("two equal", {2: 3}, False),
            ("the first two equal", {1: 0}, False),
            ("the last two equal", {4: count - 1}, False),
            ("the last behind the chunk", {5: count}, False),
            ("the last far behind the chunk", {5: (1 << 32) - 1}, False),
            ("the first behind the chunk", {0: count}, False),
            ("bit 31 of the last", {5: count - 1 + (1 << 31)}, False),
        ):
            changed = [change.get(at, place) for at, place in enumerate(places)]
            check(f"indices, {name}", listed(changed, bits) + plane, 6, good)
        whole = listed(places, bits)
        check("a list too short", whole[:-4] + plane, 6, False)
        check("a list too long", whole + bytes(4) + plane, 6, False)
        check("indices of 64 bits", struct.pack("<6Q", *places) + bits + plane, 6, False)
        check("each index with its bits", b"".join(struct.pack("<I", place) + bits[:width] for place in places) + plane, 6, False)
