"""Streams at the edges of single rules of sections 2 to 8. Both readers must read or refuse each. test_bit_planes.py has those of section 9.2."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest

from craft import (
    EVERY_TYPE, Element, exact_bits, exact_tokens, grid, has_fine_grid, leb128, listed, ones_of, packed_book, plane_header, signed, whole,
    with_grid, with_header,
)  # fmt: skip
from decoder.books import CUSTOM_BOOK, SYMBOLS
from decoder.header import BFLOAT, CONSTANT, DECIMAL, EXACT, FLOAT, LOGARITHMIC, QUANTIZED, STEPS, STORED, VALUE_TYPES
from decoder.prediction import INTERPOLATION, interpolates
from decoder.quantization import LEAST_STEP, NO_LOWER, NO_UPPER
from random_streams import RandomStreams
from readers import TYPES, check_grid, verdict
from sampling import is_full

VALUE = b"\1\2\3\4"


def elements_of(coding):
    """The types that a coding fits."""
    return [element for element in map(Element, EVERY_TYPE) if coding in element.codings]


def plane_of_codes(codes, element, rng):
    """A plane of 48 codes: these, then random ones."""
    codes = codes + [int.from_bytes(rng.bytes(8), "little") for _ in range(48 - len(codes))]
    return exact_bits(signed(codes, element.bits), 0, element.bits)


def test_turns_of_interpolation(plugin):
    """Residuals and positions beside those where the formulas of sections 6.2 and 5.2 change."""
    rng = np.random.default_rng(8)
    streams = RandomStreams(rng)
    turns = [side + by for side in (0, 65536, -65536, 98304, 98304 - 32768, 98304 + 32767, -98304) for by in (-1, 0, 1)]
    turns += [2**31 - 1, -(2**31), -(2**31) + 1, 2**31 - 98304, 98304 - 2**31, 2**30, -(2**30)]
    # An escape to each of the last and the first positions.
    turns += [(position + 98304 + 2**31) % 2**32 - 2**31 for position in range(2**31 - 9, 2**31 + 9)]
    bounds = {4: (1.0, 1e-28, 1e30, 1e35, 3e38, 1e300), 8: (1.0, 1e-290, 1e299, 8e307)}
    shapes = ((1,), (2,), (7,), (24,), (3, 5), (6, 1), (4, 9), (3, 4, 5), (2, 2, 2), (2, 3, 2, 3), (4, 5, 6, 7), (1, 3, 1, 4))
    for turn in range(5000 if is_full() else 600):
        shape, element = shapes[turn % len(shapes)], Element(TYPES[int(rng.integers(4))])
        bound = float(rng.choice(bounds[element.width]))
        residuals = rng.choice(turns, int(np.prod(shape)))
        residuals[rng.random(residuals.size) < rng.choice([0, 0.5, 0.95])] = 0
        plane = (exact_tokens, exact_bits)[turn % 2](residuals, streams.kind(shape))
        check_grid(plugin.dataset(shape, element), f"edges {turn}, {residuals[:9].tolist()}", True, plane, bound)


def test_predictors(plugin):
    """Every byte as the predictor of each plane, and the least step that an interpolated plane may have."""
    rng = np.random.default_rng(7)
    ones = 20  # of 48 values: more than a list takes
    for turn, extents in enumerate(((48,), (4, 12), (1, 48), (4, 3, 4), (2, 3, 4, 2), (1, 1, 1, 48))):
        element = Element(TYPES[turn % 4])
        dataset = plugin.dataset((48,), element)
        axes = range(1 << len(extents))
        there = rng.permutation(np.arange(48) < ones).reshape(extents).astype(int)

        def check(name, good, planes, ones, bound=1.0):
            stream = with_grid(planes, extents, element, bound, ones)
            verdict(dataset, stream, f"{element} {extents} {name}", good)

        def mask(coded, byte):
            differences = there
            for axis in range(len(extents)):
                if byte in axes and byte >> axis & 1:
                    differences = np.diff(differences, axis=-1 - axis, prepend=0) & 1
            return coded(differences.reshape(-1), byte)

        tokens = exact_tokens
        for coded, other in ((tokens, exact_bits), (exact_bits, tokens)):
            plain, interpolated, sums, bits = coded(range(48), 0), other(range(48), INTERPOLATION), mask(other, 0), other(range(ones), 0)
            for byte in range(256):
                some = byte in axes or interpolates(byte, extents)
                if not some and (byte % 2 == 0) == (coded is tokens):
                    continue  # a byte that is no predictor of any plane: one coding is enough
                check(f"predictor {byte:#x} of the first plane", some, coded(range(48), byte), 0)
                for before in (plain, interpolated) if some else (plain,):
                    planes = before + mask(coded, byte) + bits
                    check(f"predictor {byte:#x} of the mask", byte in axes, planes, ones)
                    planes = before + sums + coded(range(ones), byte)
                    check(f"predictor {byte:#x} of the bits", byte < 2, planes, ones)
        least = LEAST_STEP[FLOAT, element.width] / 2
        for bound, good in ((least, True), (np.nextafter(least, 1), True), (np.nextafter(least, 0), False), (least / 1e9, False)):
            for byte, coded in itertools.product((0, INTERPOLATION), (tokens, exact_bits)):
                check(f"half step {bound!r}, predictor {byte}", good or not byte, coded(range(48), byte), 0, bound)


@pytest.mark.parametrize("element", map(Element, EVERY_TYPE), ids=str)
def test_limits(plugin, element):
    """Sections 4 and 5.1: which bodies may have limits, and limits at all edges of positions."""
    dataset = plugin.dataset((48,), element)
    plane = exact_bits(range(-24, 24), 0, element.bits)

    if not element.floating:
        check_grid(dataset, "limits of steps", False, plane, 1, limits=(-8, 8))
        return
    check_grid(dataset, "limits of decimals", False, plane, 100, limits=(-8, 8))
    check_grid(dataset, "limits of logarithms", False, plane, offset=0, limits=(-8, 8))
    least = LEAST_STEP.get((element.kind, element.width), 2.0) / 2
    for half_step in (1.0, least, float(np.nextafter(least, 0)), 1e-300, 2.0**1022, 0.0, 2.0**1023, np.inf, np.nan):
        good = has_fine_grid(element, half_step) and half_step < 2.0**1023
        check_grid(dataset, "half steps with limits", good, plane, half_step, limits=(-8, 8))
    fine = has_fine_grid(element, 1.0)
    ends = (NO_LOWER, NO_LOWER + 1, -9, -8, -4, -1, 0, 1, 7, 8193, *range(NO_UPPER - 5, NO_UPPER + 1))
    interpolated = exact_bits(range(-24, 24), INTERPOLATION | 1)
    for two in itertools.product(ends, repeat=2):
        for name, plane_of in (("differences", plane), ("an interpolated plane", interpolated)):
            check_grid(dataset, f"limits of {name}", fine and two[0] <= two[1], plane_of, limits=two)
    body = grid(1.0, None, (-8, 8)) + bytes(4) + plane
    for end in range(len(body)):
        verdict(dataset, whole(element, QUANTIZED, (48,), body[:end]), f"{element}, {end} bytes of a body with limits", False)


@pytest.fixture(name="floats")
def floats_of_48_values(plugin):
    """A dataset of 48 values of binary32."""
    return plugin.dataset((48,), Element("<f4"))


def test_half_steps(floats):
    """Section 4: half steps. test_limits has negative ones."""
    plane = RandomStreams(np.random.default_rng(5)).plane((48,), 32)
    least = 2.0**-1025
    for half_step in (np.nextafter(least, 1), 2.0**1022, np.nextafter(2.0**1023, 0), 1.0):
        check_grid(floats, "half steps", True, plane, float(half_step))
    for half_step in (least, 5e-324, 2.0**1023, np.inf, np.nan, 0.0, -0.0):
        check_grid(floats, "half steps", False, plane, half_step)


def test_extents(floats):
    """Section 3: extents of 48 values, and of another number."""
    streams = RandomStreams(np.random.default_rng(5))
    for extents in ((48,), (4, 12), (1, 48), (48, 1), (4, 3, 4), (2, 3, 4, 2), (1, 1, 1, 48)):
        verdict(floats, streams.stream(extents, Element("<f4"), 1e-3), f"extents {extents}", True)
        verdict(floats, whole(Element("<f4"), CONSTANT, extents, VALUE), f"constant, extents {extents}", True)
    fifth = pow(5, -1, 1 << 64)  # 5 × (48 × fifth) is 48 modulo 2^64
    for extents in ((49,), (1 << 32, 1 << 32), (1 << 48,), (1 << 49,), (5, 48 * fifth % (1 << 64))):
        verdict(floats, whole(Element("<f4"), CONSTANT, extents, VALUE), f"constant, extents {extents}", False)


def test_headers(floats):
    """Section 3: the version, how extents are written, and the left-out extent."""
    values, number = bytes(range(192)), Element("<f4").value_type

    def constant(extents, packed=CONSTANT, version=0x90):
        return with_header(number, packed, extents, VALUE, version)

    for version in range(256):
        verdict(floats, constant(leb128(48), CONSTANT, version), f"version byte {version:#x}", version == 0x90)
    for packed in range(256):
        rank = (packed >> 4 & 3) + 1
        extents = [2, 3, 4, 2] if rank == 4 else [3, 4, 4] if rank == 3 else [8, 6] if rank == 2 else [48]
        whole_extents = b"".join(map(leb128, extents))
        verdict(floats, constant(whole_extents, packed), f"constant, byte 9 {packed:#x}", packed & 0xCF == CONSTANT)
        if packed & 15 == STORED:
            left_out = packed >> 6
            others = b"".join(leb128(extent) for axis, extent in enumerate(extents) if axis != left_out)
            good = left_out == extents.index(max(extents))
            verdict(floats, with_header(number, packed, others, values), f"stored, byte 9 {packed:#x}", good)
            verdict(floats, with_header(number, packed, whole_extents, values), f"stored, byte 9 {packed:#x}, all extents", False)
    for name, extents, good in (
        ("47", b"\x2f", True),
        ("47 in two bytes", b"\xaf\0", False),
        ("47 in three bytes", b"\xaf\x80\0", False),
        ("47 and a byte of padding", b"\x2f\0", True),
        ("47 and padding that is not 0", b"\x2f\1", False),
        ("47 and padding of 4 bytes more", b"\x2f" + bytes(5), False),
        ("no end", b"\x80" * 10, False),
        ("8 bytes", b"\xaf" + b"\x80" * 6 + b"\1", False),
        ("none", b"", False),
    ):
        verdict(floats, constant(extents), f"constant, extent {name}", good)
    for extent, good in ((1, True), (3, True), (5, False), (6, True), (7, False), (8, False), (48, False)):
        # Two extents, of which the first is left out. It must be a whole number, and not the smaller extent.
        verdict(floats, with_header(number, STORED | 1 << 4, leb128(extent), values), f"stored, last extent {extent}", good)
    verdict(floats, with_header(number, STORED, b"", b""), "stored, without values", False)
    verdict(floats, with_header(number, STORED, b"", values + b"\0"), "stored, a byte too many", False)
    verdict(floats, with_header(number, STORED, b"\0\1", values), "stored, padding that is not 0", False)


def test_masks(floats):
    """Section 4: the number of exceptions, and the ones of their mask."""
    streams = RandomStreams(np.random.default_rng(5))
    plane, mask, ones = streams.plane((48,), 32), b"", 0
    while not 17 < ones < 48:  # more than a list takes
        mask = streams.plane((48,), 32)
        ones = ones_of(mask, (48,))
    for said in (0, 1, 16, 17, ones - 1, ones, ones + 1, 48, 49, 1 << 31, ones + (1 << 31), (1 << 32) - 1):
        rest = mask + streams.plane((min(said, 99),), 32) if said else b""
        check_grid(floats, f"{ones} in the mask", said in (0, ones), plane + rest, ones=said)
    check_grid(floats, "a mask without exceptions", False, plane + mask)


def test_books(floats):
    """Section 8: complete books, and books that are not complete or are packed wrongly."""
    for name, book, good in (
        ("complete", {30: 1, 31: 1}, True),
        ("12 bits", {**{30 + n: n + 1 for n in range(12)}, 42: 12}, True),
        ("12 bits in an incomplete book", {30 + n: n + 1 for n in range(12)}, False),
        ("one symbol", {30: 1}, False),
        ("no symbol", {}, False),
        ("too few", {30: 1, 31: 2}, False),
        ("too many", {30: 1, 31: 1, 75: 12}, False),
        ("a code of 2 bits too many", {30: 1, 31: 1, 75: 2}, False),
    ):
        lengths = [book.get(symbol, 0) for symbol in range(SYMBOLS)]
        packed = packed_book(lengths)
        for what, data, intact in (
            ("", packed, True),
            (", a bit behind it", packed_book(lengths, 1), False),
            (", the last bit of its padding", packed[:-1] + bytes([packed[-1] | 0x80]), False),
            (", 4 bytes more", packed + bytes(4), False),
            (", 4 bytes less", packed[:-4], False),
        ):
            # With W = E = 0 all bits of codes are 0.
            check_grid(floats, f"book {name}{what}", good and intact, plane_header(0, CUSTOM_BOOK, 0, 0) + data)
    runs = packed_book([1, 1] + [0] * (SYMBOLS - 2))
    check_grid(floats, "runs to the end of the block", True, plane_header(0, CUSTOM_BOOK, 0, 0) + runs)
    over = plane_header(0, CUSTOM_BOOK, 8, 0) + runs + b"\1\0\0\0" + b"\0\x80\0\0"
    check_grid(floats, "a run over the end of the block", False, over)


def test_lists(plugin):
    """Section 4: the list of few exceptions at its limits, its indices, and its padding."""
    rng = np.random.default_rng(9)
    counts = (1, 2, 16, 17, 48, 4095, 4096, 4097, 8191, 8192, 70000)
    for turn, (count, name) in enumerate([(count, None) for count in counts] + [(48, name) for name in EVERY_TYPE]):
        element = Element(name or TYPES[turn % 4])
        dataset = plugin.dataset((count,), element)
        width = element.width
        half_step, offset = [(1.0, None), (1.0, 0), (1, None)][turn % 2 if STEPS not in element.codings else 2]
        plane = exact_bits([0] * count, 0)
        limit = 16 + count // 4096

        def check(name, planes, ones, good):
            check_grid(dataset, name, good, planes, half_step, ones, offset)

        for ones in sorted({0, 1, 2, 3, 4, limit - 1, limit, limit + 1, 2 * limit}):
            if ones > count:
                check(f"{ones} exceptions", listed(range(ones), rng.bytes(width * ones)) + plane, ones, False)
                continue
            indices, bits = np.sort(rng.permutation(count)[:ones]), rng.bytes(width * ones)
            check(f"{ones} exceptions listed", listed(indices, bits) + plane, ones, ones <= limit)
            check(f"{ones} exceptions listed behind the plane", plane + listed(indices, bits), ones, not ones)
            mask = np.zeros(count, int)
            mask[indices] = 1
            planes = plane + exact_bits(mask, 0) + exact_bits(range(max(ones, 1)), 1, element.bits)
            check(f"{ones} exceptions in planes", planes, ones, ones > limit)
            check(f"{ones} exceptions listed and in planes", listed(indices, bits) + planes, ones, False)
            if ones > limit:
                # Integers of exceptions' bits may have any bits above those of a value.
                planes = plane + exact_bits(mask, 0) + exact_bits(rng.integers(-(1 << 31), 1 << 31, ones), 0, element.bits)
                check(f"{ones} exceptions in planes, any bits", planes, ones, True)
            need = -len(bits) % 4
            for size in range(8):
                for padding in {bytes(size), bytes(size)[1:] + b"\1", b"\x80" + bytes(size)[1:]}:
                    good = padding == bytes(need) and ones <= limit
                    whole_list = listed(indices, bits)[: 4 * ones + len(bits)]
                    if size and not (ones and need):
                        continue  # such padding could be read as the plane's bytes
                    check(f"{ones} exceptions, padding {padding.hex()}", whole_list + padding + plane, ones, good)
        if count < 17:
            continue
        indices, bits = [0, 3, 7, 9, count - 2, count - 1], rng.bytes(6 * width)
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
            changed = [change.get(at, index) for at, index in enumerate(indices)]
            check(f"indices, {name}", listed(changed, bits) + plane, 6, good)
        whole_list = listed(indices, bits)
        check("a list too short", whole_list[:-4] + plane, 6, False)
        check("a list too long", whole_list + bytes(4) + plane, 6, False)
        check("indices of 64 bits", struct.pack("<6Q", *indices) + bits + plane, 6, False)
        each = b"".join(struct.pack("<I", index) + bits[:width] for index in indices)
        check("each index with its bits", each + bytes(-len(each) % 4) + plane, 6, False)
        if width < 4:
            padded = b"".join(bits[at : at + width] + bytes(4 - width) for at in range(0, 6 * width, width))
            check("each of the bits padded", listed(indices, padded) + plane, 6, False)


def test_bodies(plugin):
    """Sections 2 and 3: which coding fits which type, and which value types there are."""
    rng = np.random.default_rng(11)
    plane = exact_bits(range(48), 0)
    bodies_of = {
        QUANTIZED: grid(1.0) + bytes(4) + plane,
        EXACT: plane,
        STEPS: grid(1) + bytes(4) + plane,
        LOGARITHMIC: grid(1.0, 0) + bytes(4) + plane,
        DECIMAL: grid(1) + bytes(4) + plane,
    }
    for element in map(Element, EVERY_TYPE):
        dataset = plugin.dataset((48,), element)

        def check(what, stream, good):
            verdict(dataset, stream, f"{element}: {what}", good)

        bodies_of[STORED], bodies_of[CONSTANT] = rng.bytes(48 * element.width), rng.bytes(element.width)
        for coding, body in bodies_of.items():
            good = coding in element.codings
            check(f"coding {coding}", whole(element, coding, (48,), body), good)
            check(f"coding {coding}, 4 bytes less", whole(element, coding, (48,), body[:-4]), False)
            check(f"coding {coding}, a byte less", whole(element, coding, (48,), body[:-1]), False)
            for more in (b"\0", bytes(4), bytes(8)):
                check(f"coding {coding}, {len(more)} bytes more", whole(element, coding, (48,), body + more), False)
            for byte in range(256) if coding == STORED else ():
                if byte % 128 >= len(VALUE_TYPES):
                    check(f"value type {byte}", whole(byte, coding, (48,), body), False)
        for coding in range(7, 16):
            for body in bodies_of.values():
                check(f"coding {coding}", whole(element, coding, (48,), body), False)
        # Only quantized planes of two types may be interpolated: those with a fine grid (section 5.2).
        interpolated = exact_bits([5, -7, 65536, -65536] * 12, INTERPOLATION)
        check("exact, interpolated", whole(element, EXACT, (48,), interpolated), False)
        for half_step, offset in ((1.0, None), (1.0, 0), (1, None)):
            good = offset is None and has_fine_grid(element, half_step)
            check_grid(dataset, "interpolated", good, interpolated, half_step, 0, offset)
        # Every predictor, of a plane of exact integers with four axes.
        for byte in range(256):
            coded = (exact_tokens, exact_bits)[byte % 2](range(48), byte)
            check(f"exact, predictor {byte:#x}", whole(element, EXACT, (2, 3, 4, 2), coded), byte < 16)


def test_exact(plugin):
    """Section 5.3: codes at the ends of each type, and codes beyond the type."""
    rng = np.random.default_rng(12)
    for element in map(Element, EVERY_TYPE):
        dataset = plugin.dataset((48,), element)
        top = 8 * element.width - 1
        ends = [side + by for side in (0, 1 << top, -(1 << top), 1 << (top + 1), 1 << (element.bits - 1)) for by in (-2, -1, 0, 1, 2)]
        for turn in range(4):
            stream = whole(element, EXACT, (48,), plane_of_codes(ends, element, rng))
            verdict(dataset, stream, f"exact codes {turn} of {element}", True)


def test_steps(plugin):
    """Section 5.4: the bound's limits, and multiples within a type's range and beyond."""
    rng = np.random.default_rng(13)
    for element in elements_of(STEPS):
        dataset = plugin.dataset((48,), element)
        top = element.bits - 1
        plane = exact_bits(range(48), 0)
        for bound in (0, 1, 2, (1 << 31) - 1, 1 << 31, (1 << 32) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            check_grid(dataset, "steps", 1 <= bound < 1 << top, plane, bound)
        ends = (0, (1 << 8 * element.width) - 1, 1 << (8 * element.width - 1), -(1 << (8 * element.width - 1)))
        for bound in (1, 2, 3, 127, 1 << 14, (1 << 30) - 1, 1 << 30, (1 << top) - 1):
            step = 2 * bound + 1
            turns = [end // step + by for end in ends for by in (-1, 0, 1, 2)]
            turns += [side + by for side in (0, 1 << top, 1 << (top - 1), 1 << (top // 2)) for by in (-1, 0, 1)]
            check_grid(dataset, "codes in steps", True, plane_of_codes(turns, element, rng), bound)


def test_decimals(plugin):
    """Section 5.6: the divisor's limits, and codes with all roundings of their quotients."""
    rng = np.random.default_rng(18)
    for element in elements_of(DECIMAL):
        dataset = plugin.dataset((48,), element)
        plane = exact_bits(range(48), 0)
        for divisor in (0, 1, 2, 10**7, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, 0x4059000000000000, 1 << 63, (1 << 64) - 1):
            check_grid(dataset, "decimals", 1 <= divisor <= 1 << 53, plane, divisor)
        half = 1 << (element.bits - 1)
        for divisor in (1, 3, 10, 100, 10**4, 10**7, 2**40 + 1, (1 << 53) - 1, 1 << 53, int(rng.integers(1, 1 << 53))):
            turns = [side + by for side in (0, half, half // 2, divisor, -divisor, 1 << 24, 1 << 53) for by in (-2, -1, 0, 1, 2)]
            turns += [int.from_bytes(rng.bytes(8), "little") >> int(rng.integers(64)) for _ in range(48 - len(turns))]
            check_grid(dataset, "codes of decimals", True, plane_of_codes(turns, element, rng), divisor)


def test_logarithms(plugin):
    """Section 5.5: the grid's limits, and codes whose values overflow, vanish, or are rounded in all ways."""
    rng = np.random.default_rng(14)
    least, end = 2.0**-1025, 1 << 63
    for element in elements_of(LOGARITHMIC):
        dataset = plugin.dataset((48,), element)
        plane = exact_bits(range(48), 0)
        for half_step in (least, 5e-324, 2.0**1023, np.inf, -np.inf, np.nan, 0.0, -0.0, -1.0):
            check_grid(dataset, "half steps", False, plane, half_step, offset=0)
        for half_step in (np.nextafter(least, 1), 2.0**1022, np.nextafter(2.0**1023, 0), 1.0, 1e-300):
            for offset in (0, -24, end - 1, -end):
                check_grid(dataset, "half steps", True, plane, float(half_step), offset=offset)
        half = 1 << (element.bits - 1)
        for offset in (0, 1, -1, 47, -48, end - 1, end - 48, -end, 1 - end, (1 << 53) + 1, -(1 << 53) - 1, 1 << 62):
            # Sums that wrap, and codes that are the least of their width.
            turns = [side + by for side in (0, half, half // 2, -offset, offset, end - offset) for by in (-2, -1, 0, 1, 2)]
            codes = plane_of_codes(turns, element, rng)
            for half_step in (2.0**-60, 2.0**-50, 2.0**-12, 0.5, 1000.0):
                check_grid(dataset, "codes about the offset", True, codes, half_step, offset=offset)
        # Logarithms near the ends of the type's range, at its last bits, and near 2000, the greatest exponent of exp2.
        range_ends = {2: (-25, -14, 15, 16), 4: (-150, -149, -126, 127, 128), 8: (-1075, -1074, -1023, -1022, 1023, 1024)}[element.width]
        if element.kind == BFLOAT:
            range_ends = (-134, -133, -126, 127, 128)
        for turn in range(1000 if is_full() else 60):
            half_step = float(rng.choice([2.0**-11, 2.0**-30, 1.2345e-3, 0.3, 7e-11, 0.25]))
            center = float(rng.choice([*range_ends, -2000, 2000, 0, rng.uniform(range_ends[0], range_ends[-1])]))
            offset = int(center / (2 * half_step)) - int(rng.integers(100))
            codes = rng.integers(1, 200, 48) * rng.choice([-1, 1], 48)
            codes[rng.random(48) < 0.05] = 0
            plane = (exact_tokens if element.bits == 32 and turn % 2 else exact_bits)(codes, 0)
            check_grid(dataset, f"logarithms about {center}", True, plane, half_step, offset=offset)
