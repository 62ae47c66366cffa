"""Valid streams that no encoder of ours would write, for streams/uncommon; write_streams.py writes them. Nothing here is random.

Chunks are longer than their streams where that is possible, with zeros before or behind what matters: a reader may leave other streams to another one.
"""

import itertools
import math

import numpy as np

from quire_decoder import (
    CONSTANT, DENSE, EMPTY, EXACT, FINER, FLOAT, HALVED, INTERPOLATION, LINEAR, LOGARITHMIC, NO_LOWER, NO_UPPER, SPARSE, STORED, SYMBOLS, TOKENS,
    Header, classes, exponential, on_grid, prediction, read_dictionary, worth_at,
)  # fmt: skip
from stream_craft import EVERY_TYPE, BitBlock, Craft, Element, bit_block, bit_plane, exact_bits, grid, listed, numbers_of, signed, whole
from stream_planes import behind_zeros, book, differences, length_of, planes_of_bits, some_bytes, some_integers, token_blocks, tokens
from streams import type_name

CRAFT = Craft(None)
SHAPES = ((960,), (24, 40), (8, 10, 12), (4, 5, 6, 8))  # of 960 values each


def uncommon_streams():
    """Name, what it is, and the stream of each."""
    for streams in (
        exact_ends, steps, quantized, logarithmic, decimals, stored_and_constant, interpolated, limits, exceptions, coded_in_tokens, in_bit_planes,
    ):  # fmt: skip
        yield from streams()


# ------------------------------------------------------------------------------------------- bodies and value types


def exact_ends():
    """Each value type in both byte orders, in ranks 1 to 4, with tokens or with bit planes."""
    for at, name in enumerate((*EVERY_TYPE, ">i1", ">u1")):
        element = Element(name)
        order = "big" if name[0] == ">" else "little"
        value_type = element.value_type | 0x80 * (order == "big")
        extents = SHAPES[(at + at // 4) % 4]
        axes = (7 * at + 3) % (1 << len(extents))
        top = 8 * element.width - 1
        ends = [side + by for side in (0, 1 << top, -(1 << top), 1 << (element.bits - 1)) for by in (-2, -1, 0, 1, 2)]
        codes = behind_zeros(signed(ends + some_integers(name, 48 - len(ends), -(1 << top), (1 << top) - 1), element.bits), 960)
        rest = differences(codes, extents, axes, element.bits)
        plane = tokens(rest, axes) if at % 2 else planes_of_bits(rest, axes, element.bits)
        how = "tokens" if at % 2 else "bit planes"
        about = f"exact codes at the ends of the type and beyond, {how}, set of axes {axes:#x}"
        yield f"exact_ends_{type_name(element)}_{order}", about, whole(value_type, EXACT, extents, plane)


def steps():
    """Section 5.4."""
    for name, bound, extents, codes, about in (
        ("u1", 3, (20, 24), range(-6, 42), "steps beyond both ends of the type"),
        ("i1", 127, (480,), range(-24, 24), "the step is nearly the whole range"),
        (">i2", 1, (6, 8, 10), (0, 1, -1, 10922, 10923, 10924, -10922, -10923, -10924, 2**31 - 1, -(2**31)), "the least bound"),
        ("<u2", 2**31 - 1, (480,), (0, 1, -1, 2, -2, 2**31 - 1, -(2**31)), "the greatest bound"),
        (">i4", 2**31 - 1, (20, 24), (0, 1, -1, 2, -2, 2**31 - 1, -(2**31)), "the greatest bound"),
        ("<u4", 2**30, (480,), (0, 1, 2, 3, -1, 2**31 - 1, -(2**31)), "products beyond the type"),
        ("<i8", 2**63 - 1, (480,), (0, 1, -1, 2, -2, 2**63 - 1, -(2**63)), "the greatest bound of 64 bits"),
        (">u8", 2**40, (4, 5, 6, 4), (0, 1, -1, 2**22, 2**23 - 1, 2**23, 2**63 - 1, -(2**63)), "products beyond 64 bits"),
    ):
        element = Element(name)
        codes = behind_zeros(codes, 480)
        plane = tokens(differences(codes, extents, 1, element.bits), 1)
        yield f"steps_{type_name(element)}", f"steps: {about}", CRAFT.around(plane, extents, element, bound, 0)


def quantized():
    """Section 5.1."""
    least, greatest = float(np.nextafter(2.0**-1025, 1)), float(np.nextafter(2.0**1023, 0))
    around_24 = [sign * (2**24 + by) for sign in (1, -1) for by in range(-3, 8)]
    around_normal = [sign * (2**24 + by) for sign in (1, -1) for by in range(-3, 2)]
    around_53 = [sign * (2**power + by) for sign in (1, -1) for power in (53, 54, 62) for by in (-1, 0, 1, 2, 3)] + [2**63 - 1, -(2**63)]
    for name, half_step, codes, about in (
        ("f2_infinity", 1000.0, (32, 33, -32, -33, 2**31 - 1, -(2**31)), "values beyond the type become infinity"),
        (">f2_subnormal", 2.0**-26, range(-24, 24), "subnormal values, and halves that round to even"),
        ("bfloat16_subnormal", 2.0**-135, range(-24, 24), "subnormal values, and halves that round to even"),
        (">bfloat16_infinity", 2.0**118, (254, 255, 256, 257, -255, -256, 2**31 - 1), "the type's greatest values and infinity"),
        ("f2_once", 2.0**-31, beside_halves(2**30, 2**20), "values beside halves, which only rounding from binary64 directly gets right"),
        (">f2_once_subnormal", 2.0**-51, beside_halves(0, 2**26), "values beside halves of subnormal ones, rounded from binary64 directly"),
        ("f2_once_infinity", 2.0**-15, beside_halves(65504 * 2**14, 2**19), "values beside the half between the greatest one and infinity"),
        (">bfloat16_once", 2.0**-31, beside_halves(2**30, 2**23), "values beside halves, which only rounding from binary64 directly gets right"),
        ("bfloat16_once_subnormal", 2.0**-161, beside_halves(0, 2**27), "values beside halves of subnormal ones, rounded from binary64 directly"),
        ("bfloat16_once_infinity", 2.0**96, beside_halves(255 * 2**23, 2**23, 1), "values beside the half between the greatest one and infinity"),
        ("f4_subnormal", 2.0**-151, [*range(-19, 19), *around_normal], "subnormal values and the least normal ones, and halves that round to even"),
        (">f4_infinity", 2.0**102, [sign * (2**25 + by) for sign in (1, -1) for by in range(-4, 2)], "the type's greatest values and infinity"),
        ("f4_halves", 0.5, around_24, "codes above 2^24, whose halves round to even"),
        (">f4_greatest_half_step", greatest, (0, 1, -1, 2, -2), "the greatest half step, so that all but 0 is infinity"),
        ("f4_least_half_step", least, (0, 1, -1, 2**31 - 1, -(2**31)), "the least half step, so that all values are 0, with signs"),
        ("f8_wide_codes", 0.5, around_53, "codes above 2^53, which binary64 rounds"),
        (">f8_greatest_half_step", greatest, (0, 1, -1, 2, -2), "the greatest half step"),
        ("f8_least_half_step", least, (0, 1, -1, 2, 2**50, -(2**63)), "the least half step: subnormal values"),
    ):
        kind, _, what = name.partition("_")
        element = Element(kind if kind[0] == ">" else "<" + kind)
        plane = tokens(behind_zeros(codes, 480))
        yield f"quantized_{type_name(element)}_{what}", f"quantized: {about}", CRAFT.around(plane, (480,), element, half_step, 0)


def beside_halves(first, unit, halves=4):
    """Codes about the middle between a value and the next one, which has `unit` codes more: there, and one to each side. binary32 has no such values."""
    middles = [first + unit * at + unit // 2 for at in range(halves)]
    return [sign * (middle + by) for sign in (1, -1) for middle in middles for by in (-1, 0, 1)]


def logarithmic():
    """Section 5.5."""
    for name, half_step, low, high in (
        ("<f2", 2.0**-2, -26, 16), (">f2", 2.0**-11, -15, -15), ("<bfloat16", 2.0**-2, -135, 128), (">bfloat16", 2.0**-9, 127, 127),
        ("<f4", 2.0**-3, -150, 128), (">f4", 1.2345e-3, 127, 127), ("<f8", 0.3, -1075, 1024), (">f8", 7e-11, 1023, 1023),
    ):  # fmt: skip
        element = Element(name)
        offset = int(low / (2 * half_step)) - 12
        end = max(int(high / (2 * half_step)) - offset - 12, 12)
        codes = [sign * code for sign in (1, -1) for code in (*range(1, 13), *range(end, end + 12))]
        order = "big" if element.big_endian else "little"
        about = f"logarithmic: values about 2^{low} and 2^{high}" if low != high else f"logarithmic: values about 2^{low}"
        plane = tokens(behind_zeros(codes, 480))
        yield f"logarithmic_{type_name(element)}_{order}", about, CRAFT.around(plane, (480,), element, half_step, 0, offset)
    edge = [0, 1, -1, 2, -2, 2**31 - 1, -(2**31), 1 - 2**31]
    wide = [*edge, 2**63 - 1, -(2**63), 1 - 2**63, 2**53 + 1]
    for name, kind, half_step, offset, codes, about in (
        ("offset_greatest", "<f4", 2.0**-60, 2**63 - 1, edge, "sums of code and offset that wrap"),
        ("offset_least", ">f8", 2.0**-60, -(2**63), wide, "the least offset, and the least code"),
        ("beyond_2000", "<f8", 1000.0, -2, range(-5, 6), "arguments of E beyond 2000"),
        ("least_code_f32", "<f4", 0.25, 10 - 2**31, down_to_least(31), "the least code, whose magnitude is 2^31"),
        ("least_code_f16", ">f2", 0.25, 10 - 2**31, down_to_least(31), "the least code, whose magnitude is 2^31"),
        ("least_code_f64", "<f8", 0.25, 10 - 2**63, down_to_least(63), "the least code of 64 bits, whose magnitude and offset make 10"),
        ("least_code_alone", "<f8", 2.0**-60, 0, wide, "the least code of 64 bits, whose magnitude is taken as -2^63 without an offset"),
        ("subnormal_f16", "<f2", 2.0**-3, -105, both(range(1, 25)), "subnormal values"),
        ("subnormal_bf16", ">bfloat16", 2.0**-3, -543, both(range(1, 41)), "subnormal values"),
        ("subnormal_f32", ">f4", 2.0**-2, -304, both(range(1, 45)), "subnormal values"),
        ("no_power", "<f8", 0.625, -864, both(range(1, 49)), "2^n is 0 below n = -1022, though binary64 has subnormal values"),
        ("even_power", "<f8", 0.25, -2049, both([*range(1, 9), *range(4089, 4101)]), "n is even at -1022.5, whose value is not 0, and at 1023.5: infinity"),
        ("least_half_step", "<f8", float(np.nextafter(2.0**-1025, 1)), 0, wide, "the least half step: values of about 1"),
    ):
        codes = list(codes)
        extents = (8, 12) if len(codes) <= 24 else (20, 24)
        plane = tokens(behind_zeros(codes, math.prod(extents)))
        yield f"logarithmic_{name}", f"logarithmic: {about}", CRAFT.around(plane, extents, Element(kind), half_step, 0, offset)
    for name, step, low, high, bits in (
        ("<f4", 2.0**-36, 0.485, 0.515, 23), (">f2", 2.0**-36, 0.485, 0.515, 10), ("<bfloat16", 2.0**-34, 0.44, 0.56, 7),
    ):  # fmt: skip
        element, offset = Element(name), int(low / step)
        codes = [(1 - 2 * (at % 2)) * (one - offset) for at, one in enumerate(with_other_terms(step, low, high, bits))]
        plane = tokens(behind_zeros(codes, 480))
        about = "values that E gives only if it begins with t_8, and rounded once from binary64"
        yield f"logarithmic_terms_{type_name(element)}", f"logarithmic: {about}", CRAFT.around(plane, (480,), element, step / 2, 0, offset)


def down_to_least(top):
    """The least code, and magnitudes below that of it."""
    return [-(1 << top), *both((1 << top) - by for by in range(1, 10))]


def both(codes):
    """Codes with their own sign and with the other one, in turn."""
    return [sign * code for code in codes for sign in (1, -1)]


def with_other_terms(step, low, high, bits):
    """Sums of code and offset at which E(y) is on different sides of the half between two values of a type with as many bits of fraction, depending on
    whether it begins with t_8 or with t_14; y is from low to high."""
    first, last = (math.ceil(2.0 ** (end + bits) - 0.5) for end in (low, high))
    sums = []
    for at in range(first, last, max(1, (last - first) // 24)):
        half = (at + 0.5) * 2.0**-bits
        some = round(math.log2(half) / step) + np.arange(-40, 41)
        few, all_terms = (exponential(some * step, Header(FLOAT, width, False, LOGARITHMIC, (1,), 1)) for width in (4, 8))
        differ = some[(few < half) != (all_terms < half)].tolist()
        sums += differ[len(differ) // 2 :][:1]
    assert len(sums) > 12
    return sums


def decimals():
    """Section 5.6."""
    greatest = 2**53
    edge, wide = (31, 63)
    for name, kind, divisor, codes, about in (
        ("divisor_1", "<f4", 1, [*both(range(12)), *ends_of(edge)], "whole numbers, and the code 0 is +0"),
        ("thirds", ">f4", 3, both(range(1, 25)), "a divisor of 3, which no decimals have"),
        ("hundredths", "<f8", 100, [*both(range(1, 20)), *ends_of(wide)], "hundredths, some of which a product with 0.01 misses"),
        ("wide_codes", ">f8", 10**7, [sign * (greatest + by) for sign in (1, -1) for by in range(-4, 8)], "codes above 2^53, which binary64 rounds first"),
        ("divisor_greatest", "<f4", greatest, [*both(range(8)), *ends_of(edge)], "the greatest divisor"),
        ("divisor_greatest", ">f8", greatest, [*both(range(8)), *ends_of(wide)], "the greatest divisor"),
        ("divisor_odd", "<f8", greatest - 1, [*both(range(8)), *ends_of(wide)], "the greatest odd divisor"),
        ("subnormal", "<f2", 10**7, both(range(1, 600, 25)), "values that are subnormal, or 0 with a sign"),
        ("vanishing", ">f2", greatest, both(range(8)), "all values are 0, with signs"),
        ("infinity", "<f2", 10, both(range(655150, 655250, 4)), "the type's greatest values and infinity"),
        ("hundredths", "<bfloat16", 100, both(range(1, 25)), "hundredths"),
        ("once", "<f2", 2**30, beside_halves(2**30, 2**20), "values beside halves, which only rounding from binary64 directly gets right"),
        ("once", ">bfloat16", 2**30, beside_halves(2**30, 2**23), "values beside halves, which only rounding from binary64 directly gets right"),
    ):
        element = Element(kind)
        codes = signed(codes, element.bits)
        yield f"decimal_{name}_{type_name(element)}", f"decimal: {about}", CRAFT.around(tokens(behind_zeros(codes, 480)), (480,), element, divisor, 0)
    for kind, bits in (("<f4", 24), (">f2", 3), ("<bfloat16", 8)):
        element = Element(kind)
        for number in range(2):
            code, divisor = beside_half(bits, number)
            about = "a quotient that binary64 rounds to the half between two values, which rounds to even"
            plane = tokens(behind_zeros([code, -code], 480))
            yield f"decimal_twice_{type_name(element)}_{number}", f"decimal: {about}", CRAFT.around(plane, (480,), element, divisor, 0)


def ends_of(top):
    """Codes at both ends of their width."""
    return [2**top - 1, 2**top - 2, -(2**top), 1 - 2**top]


def beside_half(bits, number):
    """Code and divisor whose quotient is not the middle between two values of `bits` significant bits, but is rounded to it in binary64: rounded to the
    type at once, it would be another value. Subnormal values of binary16 have so few bits."""
    for code in range(2**31 - 1, 2**30, -2):
        middle = 2**bits + 1 + 2 * number  # the odd number that is the middle times a power of two; its half is rounded to even
        shift = (middle << 53).bit_length() - code.bit_length() - 1
        divisor = ((code << shift) + middle // 2) // middle
        if divisor > 2**53:
            divisor = ((code << shift - 1) + middle // 2) // middle
            shift -= 1
        above = code << shift > middle * divisor
        rounds_up = (middle >> 1) % 2 == 1
        if code << shift != middle * divisor and code / divisor == math.ldexp(middle, -shift) and above != rounds_up:
            return code, divisor
    raise AssertionError(bits)


def stored_and_constant():
    """Sections 2 and 3."""
    for name, kind, extents, about in (
        ("one_value", "u1", (1,), "one value of one byte"),
        ("extents_of_1", "<f8", (1, 1, 1, 1), "one value in four extents, of which the slowest is left out"),
        ("first_of_equal", ">i2", (3, 3), "of two equal extents the slowest is left out"),
        ("fastest_left_out", "<f4", (2, 3, 5), "the fastest of three extents is left out"),
        ("third_left_out", ">bfloat16", (2, 1, 9, 4), "the third of four extents is left out"),
        ("fourth_left_out", "i1", (1, 2, 3, 140), "the fastest of four extents is left out, which is above 128"),
    ):
        element = Element(kind)
        body = some_bytes(name, element.width * int(np.prod(extents)))
        yield f"stored_{name}", f"stored: {about}", whole(element, STORED, extents, body)
    yield "stored_zeros", "stored: zeros, which an encoder would call constant", whole(Element("<u4"), STORED, (5, 5), bytes(100))
    for name, kind, extents, value, about in (
        ("one_value", ">u8", (1, 1, 1, 1), "0123456789abcdef", "one value in four extents"),
        ("signalling_nan", "<f4", (129,), "4523a17f", "a signalling NaN, and an extent of two bytes"),
        ("minus_zero", ">f2", (2, 128), "8000", "-0"),
        ("long", "<i2", (1 << 18, 1), "0180", "an extent of three bytes, and one of 1"),
        ("byte", "u1", (3, 5, 7, 9), "ff", "bytes"),
    ):
        yield f"constant_{name}", f"constant: {about}", whole(Element(kind), CONSTANT, extents, bytes.fromhex(value))


# ---------------------------------------------------------------------------------------- predictors and exceptions


def interpolated():
    """Sections 5.2 and 6.2."""
    for name, kind, extents, predictor, about in (
        ("cubic_1d", "<f4", (37,), 0, "cubic, a line of odd length"),
        ("cubic_2d", ">f8", (5, 9), 0, "cubic, ragged"),
        ("cubic_3d_rough", "<f4", (3, 6, 7), 0b001, "cubic, the fastest axis is rough"),
        ("cubic_4d_rough", ">f4", (2, 3, 5, 4), 0b0110, "cubic, the two middle axes are rough"),
        ("cubic_2d_all_rough", "<f8", (6, 10), 0b11, "cubic, all axes are rough"),
        ("linear_1d", ">f4", (43,), LINEAR, "linear, a line"),
        ("linear_2d_rough", "<f8", (6, 11), LINEAR | 0b10, "linear, the slower axis is rough"),
        ("linear_3d", "<f4", (4, 5, 3), LINEAR, "linear, ragged"),
        ("linear_4d_all_rough", "<f4", (3, 2, 4, 5), LINEAR | 0b1111, "linear, all axes are rough"),
        ("extents_of_1", ">f8", (1, 5, 1, 6), 0b1010, "cubic, axes of a single value are rough"),
        ("one_long_axis", "<f4", (1, 1, 1, 48), 0b0111, "cubic, all axes but the slowest are rough"),
        ("finer_1d", "<f4", (97,), FINER, "finer steps on coarse levels, a line"),
        ("finer_3d", ">f8", (9, 17, 5), FINER | LINEAR | 0b001, "linear, finer steps on coarse levels, the fastest axis is rough"),
        ("halved_2d", "<f4", (19, 21), HALVED, "halved steps on coarse levels"),
        ("halved_4d", "<f8", (3, 9, 2, 10), HALVED | LINEAR, "linear, halved steps on coarse levels"),
        ("halved_value", "<f4", (1,), HALVED, "one value, on level 0 although no level is coarser"),
        ("one_value", "<f4", (1,), 0, "one value, whose prediction is 0"),
        ("one_value_4d", ">f8", (1, 1, 1, 1), LINEAR | 0b1111, "one value in four extents"),
    ):
        count = int(np.prod(extents))
        residuals = some_integers(name, count, -40, 40)
        plane = (tokens if count % 2 else exact_bits)(residuals, INTERPOLATION | predictor)
        yield f"interpolated_{name}", f"interpolated: {about}", CRAFT.around(plane, extents, Element(kind), 0.05, 0)
    small = some_integers("escapes", 48, -3, 3)
    turns = [side + by for side in (65536, -65536, 98304, 98304 - 32768, 98304 + 32767, -98304) for by in (-1, 0, 1)]
    far = [position + 98304 for position in (*range(2**31 - 5, 2**31 + 5), 2**30, -(2**30), 2**31 - 98304)]
    for name, kind, half_step, extents, residuals, about in (
        ("escape_first", "<f4", 1e-3, (4, 12), [98304 + 1234, *small[1:]], "the first residual is an escape"),
        ("escape_last", ">f4", 1e-3, (4, 12), [*small[:-1], 98304 - 1234], "the last residual is an escape"),
        ("escapes_only", "<f8", 1e-3, (3, 16), [98304 + 7 * at for at in range(48)], "each residual is an escape"),
        ("turns", "<f8", 0.5, (3, 2, 3), turns, "residuals about the first escape and the farthest one"),
        ("last_positions", ">f8", 0.5, (40,), far + [0] * 27, "positions about 2^31, where all sums wrap"),
        ("least_step_f32", "<f4", 1e-28 / 2, (48,), small, "the least step of binary32"),
        ("least_step_f64", "<f8", 1e-290 / 2, (48,), small, "the least step of binary64"),
        ("infinity", "<f4", 1e38, (48,), [9 * one for one in small], "values beyond binary32 become infinity"),
        ("escape_off_grid", "<f4", 0.5, (48,), [98304 + 8193, *small[1:]], "an escape beside the grid of binary32, to which it is moved"),
    ):
        plane = exact_bits(signed(residuals, 32), INTERPOLATION)
        yield f"interpolated_{name}", f"interpolated: {about}", CRAFT.around(plane, extents, Element(kind), half_step, 0)
    for sign in (1, -1):
        # The first residual is worth 4 on level 2, and the second one 8 on level 1, as its prediction has the magnitude 2^13.
        plane = exact_bits(signed([sign * 2048, 1, 0], 32), INTERPOLATION | FINER)
        about = f"interpolated: finer steps, a prediction of {sign * 8192}, where the grid of binary32 grows coarser"
        yield f"interpolated_finer_at_{'minus_' * (sign < 0)}8192", about, CRAFT.around(plane, (3,), Element("<f4"), 0.5, 0)
    for kind, extents, kind_of, sign in (
        ("<f8", (96,), 0, 1), (">f8", (9, 13), LINEAR, -1), ("<f8", (5, 7, 7), 0, 1), ("<f4", (5, 5, 5, 3), LINEAR, -1),
    ):  # fmt: skip
        axes, name, predictor = len(extents), f"sums_{len(extents)}d", INTERPOLATION | kind_of
        middle = sign * (2**31 // (16 * axes))
        apart = 8 if kind[2] == "4" else 1
        positions = [middle + apart * by for by in some_integers(name, math.prod(extents), -2, 2)]
        plane = tokens(residuals_of(positions, extents, predictor, int(kind[2])), predictor)
        about = f"sums of {axes} axes about {'-' * (sign < 0)}2^31, which wrap, many of them by 8n alone"
        yield f"interpolated_{name}", f"interpolated: {about}", CRAFT.around(plane, extents, Element(kind), 0.5, 0)
    for kind, bits, kind_of in itertools.product(("<f4", "<f8"), (13, 14, 15), (0, LINEAR, FINER, HALVED | LINEAR)):
        name, extents, sign, predictor = f"grid_{kind[1:]}_{bits}_{kind_of}", (7, 9), (-1) ** bits, INTERPOLATION | kind_of
        positions = [sign * (1 << bits) + by for by in some_integers(name, math.prod(extents), -20, 20)]
        plane = tokens(residuals_of(positions, extents, predictor, int(kind[2])), predictor)
        yield f"interpolated_{name}", f"interpolated: positions about {sign * (1 << bits)}", CRAFT.around(plane, extents, Element(kind), 0.5, 0)


def residuals_of(positions, extents, predictor, width):
    """Section 6.2: the line of residuals that gives the grid's positions that are nearest to these: steps, or escapes where steps do not. `width`: the
    values' bytes."""
    array = on_grid(np.array(positions), width).astype(np.int32).reshape(extents)
    wanted, predicted, levels = [int(array.flat[0])], [0], [(max(extents) - 1).bit_length()]
    for stride, axes, there in classes(extents):
        level = array[(slice(None, None, stride),) * len(extents)]
        wanted += array[there].reshape(-1).tolist()
        predicted += prediction(level, axes, predictor).astype(np.int32).reshape(-1).tolist()
        levels += [stride.bit_length() - 1] * array[there].size
    wanted, predicted = np.array(wanted, np.int64), np.array(predicted, np.int64)
    worth = np.array([int(worth_at(predicted[at : at + 1], predictor, level, width)[0]) for at, level in enumerate(levels)])
    steps = (np.array(signed((wanted - predicted).tolist(), 32)) + (worth - 1) // 2) // worth
    led_to = on_grid((predicted + worth * steps).astype(np.int32), width).astype(np.int32)
    lead = (led_to == wanted) & (abs(steps) < 65536)
    return signed(np.where(lead, steps, wanted - predicted + 98304).tolist(), 32)


def limits():
    """Limits of sections 4 and 5.1, of 480 values whose positions lie about 0 or from `first` on."""
    half, least_32, least_64 = 0.05, 1e-28 / 2, 1e-290 / 2
    last = NO_UPPER - 1  # its value is far below 0
    for name, kind, half_step, predictor, first, lower, upper, about in (
        ("differences_f32", "<f4", half, 1, 0, -36, 53, "on positions between two steps"),
        ("differences_f64", ">f8", half, 1, 0, -37, 50, "on positions between two steps"),
        ("interpolated_f32", ">f4", half, INTERPOLATION, 0, -59, 30, "of an interpolated plane"),
        ("interpolated_f64", "<f8", half, INTERPOLATION | LINEAR, 0, -59, 31, "of an interpolated plane"),
        ("pairs_c64", ">c8", half, 1, 0, -25, 43, "of both parts of pairs"),
        ("pairs_c128", "<c16", half, INTERPOLATION, 0, -25, 43, "of both parts of pairs"),
        ("lower_only", "<f4", half, 1, 0, -13, NO_UPPER, "a lower one alone"),
        ("lower_only_interpolated", "<f8", half, INTERPOLATION, 0, -13, NO_UPPER, "a lower one alone"),
        ("upper_only", ">f8", half, 1, 0, NO_LOWER, 13, "an upper one alone"),
        ("upper_only_interpolated", "<f4", half, INTERPOLATION, 0, NO_LOWER, 13, "an upper one alone"),
        ("none", "<f4", half, 1, 0, NO_LOWER, NO_UPPER, "both of which are none"),
        ("equal", "<f4", half, 1, 0, 19, 19, "equal ones, so that all values are equal"),
        ("equal_interpolated", ">f8", half, INTERPOLATION, 0, -20, -20, "equal ones, so that all values are equal"),
        ("zero", "<f4", half, 1, 0, 0, NO_UPPER, "a lower one of 0"),
        ("not_on_grid", "<f4", half, INTERPOLATION, 1 << 15, (1 << 15) - 3, (1 << 15) + 5, "on positions that the grid of binary32 has not"),
        ("beyond_values", ">f4", half, 1, 0, -(10**9), 10**9, "far beyond all values"),
        ("above_values", "<f8", half, 1, 0, 10**9, 2 * 10**9, "above all values, all of which become the lower one"),
        ("below_values", "<f4", half, 1, 0, -2 * 10**9, -(10**9), "below all values, all of which become the upper one"),
        ("first_position", "<f8", half, 1, 0, NO_LOWER + 1, NO_UPPER - 4, "on the first position, and on the last one that does not wrap"),
        ("last_position", "<f8", half, INTERPOLATION, 0, -21, last, "an upper one whose value is below that of the lower one, as its position wraps"),
        ("last_lower", "<f4", half, 1, 0, NO_UPPER, NO_UPPER, "a lower one on the last position, whose value is below all others"),
        ("first_upper", "<f4", half, 1, 0, NO_LOWER, NO_LOWER, "an upper one on the first position"),
        ("least_step_f32", ">f4", least_32, 1, 0, -36, 53, "the least step of binary32"),
        ("least_step_f64", "<f8", least_64, 1, 0, -36, 53, "the least step of binary64"),
        ("infinity", "<f4", 1e38, 1, 0, -9, 30, "a lower one that replaces an infinity, and an upper one of infinity"),
    ):  # fmt: skip
        element = Element(kind)
        positions = [first + by for by in some_integers(name, 480, -100, 100)]
        if predictor >= INTERPOLATION:
            plane = tokens(residuals_of(positions, (480,), predictor, element.width), predictor)
        else:
            plane = tokens(differences([position // 8 for position in positions], (480,), predictor, element.bits), predictor)
        yield f"limits_{name}", f"limits: {about}", CRAFT.around(plane, (480,), element, half_step, 0, None, (lower, upper))
    for name, lower, upper, about in (
        ("none_below_positions", NO_LOWER, 30, "no lower one, and a value that is below those of all positions"),
        ("last_lower_above_value", NO_UPPER, NO_UPPER, "a lower one on the last position, and a value below it"),
    ):
        plane = tokens(differences([-(2**30), -3, 2, 5], (4,), 1, 32), 1)
        yield f"limits_{name}", f"limits: {about}", CRAFT.around(plane, (4,), Element("<f4"), half, 0, None, (lower, upper))


def masked(extents, there, predictor, bits, above=None):
    """Two planes: a mask that marks the indices, with other bits in its first integers if above says which, and the exceptions' bits."""
    mask = [0] * int(np.prod(extents))
    for index in there:
        mask[index] = 1
    for index, more in enumerate(above or ()):
        mask[index] += 2 * more
    return planes_of_bits(differences(mask, extents, predictor, 32), predictor) + bits


def exceptions():
    """Section 4."""
    line, half = (480,), [2 * at for at in range(24)]
    rise = [0] + [1] * 47 + [0] * 432
    ramp = tokens(rise, 1)
    float32, float64 = Element("<f4"), Element("<f8")

    def with_list(name, element, count, indices, plane, half_step, offset=None):
        data = listed(indices, some_bytes(name, len(indices) * element.width))
        return CRAFT.around(data + plane, (count,), element, half_step, len(indices), offset)

    yield "listed_first_and_last", "a list with the first value and the last", with_list("a", float32, 480, [0, 479], ramp, 0.5)
    many = range(0, 480, 30)
    yield "listed_at_limit", "a list of 16 exceptions, the most of 480 values", with_list("b", Element(">f8"), 480, many, ramp, 0.5)
    empty = bit_plane([b"", b""], 0)
    yield "listed_at_limit_of_4096", "a list of 17 exceptions, the most of 4096 values", with_list("c", float32, 4096, range(17), empty, 0.5)
    yield "listed_bytes", "a list whose bits have 3 bytes, and a byte of padding", with_list("d", Element("u1"), 480, [0, 1, 478], ramp, 2)
    yield "listed_f16", "logarithmic: a list whose bits have 2 bytes, and 2 of padding", with_list("e", Element(">f2"), 480, [9], ramp, 0.01, 5)
    data = listed([0, 30, 47, 479], some_bytes("g", 16))
    some = CRAFT.around(data + ramp, line, float32, 0.5, 4, None, (80, 300))
    yield "listed_beside_limits", "a list beside limits, which no exception obeys", some
    plane = tokens([5] * 48 + [0] * 432, INTERPOLATION | LINEAR)
    yield "listed_interpolated", "a list beside an interpolated plane", with_list("f", float32, 480, range(3, 13), plane, 0.5)

    def with_planes(element, extents, ones, planes, half_step, offset=None):
        return CRAFT.around(planes, extents, element, half_step, ones, offset)

    numbers = some_integers("bits", 48, -(2**31), 2**31 - 1)
    wide = some_integers("wide bits", 24, -(2**63), 2**63 - 1)
    planes = ramp + masked(line, range(0, 34, 2), 0, tokens(numbers[:17]))
    yield "masked_17", "17 exceptions of 480 values, the fewest that have planes", with_planes(float32, line, 17, planes, 0.5)
    few = some_integers("18 bits", 18, -(2**31), 2**31 - 1)
    planes = empty + exact_bits([0] * 2000 + [1] * 18 + [0] * 2078, 0) + exact_bits(few, 0)
    yield "masked_18_of_4096", "18 exceptions of 4096 values, the fewest that have planes", with_planes(float32, (4096,), 18, planes, 0.5)
    planes = ramp + masked(line, range(480), 1, tokens(numbers + [0] * 432, 1))
    yield "masked_all", "every value is an exception", with_planes(Element("<u4"), line, 480, planes, 1)
    planes = ramp + masked(line, half, 0, tokens(numbers[:24]), [at * 12345 % 2**20 for at in range(48)])
    yield "masked_other_bits", "a mask whose integers have more bits than the lowest", with_planes(float32, line, 24, planes, 0.5)
    planes = ramp + masked(line, half, 0, tokens(numbers[:24]))
    yield "masked_bits_beyond", "bits of exceptions beyond those of a value", with_planes(Element(">bfloat16"), line, 24, planes, 0.5)
    planes = tokens([3] + [0] * 479, 0b1111) + masked((4, 5, 6, 4), half, 0b1010, exact_bits(wide, 1, 64))
    yield "masked_differences", "differences of the mask along two axes, and of the bits", with_planes(float64, (4, 5, 6, 4), 24, planes, 0.5)
    planes = tokens([7] * 48 + [0] * 432, INTERPOLATION) + masked((20, 24), half, 0b11, tokens(wide))
    yield "masked_interpolated", "a mask beside an interpolated plane", with_planes(float64, (20, 24), 24, planes, 0.5)
    planes = tokens([7] * 48 + [0] * 432, INTERPOLATION) + masked((20, 24), half, 0b11, tokens(wide))
    some = CRAFT.around(planes, (20, 24), float64, 0.5, 24, None, (70, 500))
    yield "masked_beside_limits", "a mask beside limits, which no exception obeys", some
    planes = tokens(rise, 0b11) + masked((20, 24), half, 0b10, tokens(numbers[:24], 1))
    yield "masked_logarithmic", "logarithmic: a mask and bits", with_planes(Element("<f2"), (20, 24), 24, planes, 0.01, -30)


# ----------------------------------------------------------------------------------------------------------- planes


def coded_in_tokens():
    """Sections 7 to 9.1."""
    int32, int64 = Element("<i4"), Element(">i8")

    def exact(element, count, plane):
        return whole(element, EXACT, (count,), plane)

    def of_tokens(element, some, *more, **named):
        return exact(element, length_of(some), token_blocks([some], *more, **named))

    long_codes = {**{30 + n: n + 1 for n in range(12)}, 42: 12}
    cycle = [(30 + at % 13, 0) for at in range(400)]
    yield "tokens_long_codes", "a custom book with codes of 1 to 12 bits", of_tokens(int32, cycle, lengths=book(long_codes))
    yield "tokens_12_bits", "codes of 12 bits only, so that each lane is refilled often", of_tokens(
        int32, [(41 + at % 2, 0) for at in range(500)], lengths=book(long_codes)
    )
    two = book({30: 1, 31: 1})
    yield "tokens_of_zeros", "a custom book of two symbols, W and E are 0: no words at all", exact(int32, 48, token_blocks([[(30, 0)] * 48], lengths=two))
    runs = book({0: 1, 1: 1})
    yield "tokens_runs_of_2", "a custom book of two runs, W and E are 0: runs to the end of the block", exact(
        int32, 48, token_blocks([[(0, 0)] * 24], lengths=runs)
    )
    longest = token_blocks([[(14, 0)] * 32], lengths=book({14: 1, 90: 1}), log2_length=16)
    yield "tokens_longest_block", "a block of 65536 integers without a word: 32 runs of 2048", exact(Element("u1"), 1 << 16, longest)
    every = [(symbol, 0) for symbol in range(SYMBOLS)]
    yield "tokens_every_symbol", "each symbol once, with extra bits of 0", of_tokens(Element("<i2"), every, log2_length=14)
    full = [(symbol, (1 << TOKENS[symbol][2]) - 1) for symbol in range(14)] + [(symbol, (1 << TOKENS[symbol][2]) - 1) for symbol in range(46, 76)]
    yield "tokens_extra_bits_of_1", "runs and token classes whose extra bits are all 1", of_tokens(int64, full, 1, log2_length=13)
    runs_of = [(91 + at % 8, 0) for at in range(16)] + [(76 + at % 8, 0) for at in range(16)]
    yield "tokens_runs_of_1", "runs that begin with 1 and with -1, the last one up to the end of the block", of_tokens(int32, runs_of, 1)
    cut = [(0, 0), (30, 0), (1, 0), (30, 0), (30, 0), (0, 0), (31, 0), (30, 0), (0, 0), (91, 0), (4, 3), (29, 0), (0, 0)]
    yield "tokens_runs_cut", "runs that are cut, and zeros behind them as single integers", of_tokens(int32, cut)
    later = [(symbol, (1 << TOKENS[symbol][2]) - 1 - sign) for symbol in range(64, 75) for sign in (0, 1)] + [(9, 0)]
    yield "tokens_later_classes", "magnitudes that belong to later token classes", of_tokens(int64, later)
    wraps = [(symbol, extra) for symbol in (67, 70, 74, 75) for extra in (0, 1, 6, 7, (1 << TOKENS[symbol][2]) - 1)] + [(9, 0)]
    yield "tokens_wrap", "magnitudes above what 32 bits hold, which wrap", of_tokens(Element("<u4"), wraps, 1)
    for number in (0, 37, 74):
        there = [symbol for symbol, length in enumerate(read_dictionary()[number]) if length and TOKENS[symbol][0] is None]
        some = [(symbol, (1 << TOKENS[symbol][2]) // 3) for symbol in (*there[::3], *there[1::3], *there[2::3])]
        yield f"tokens_book_{number}", f"book {number} of the dictionary, all its symbols but runs", of_tokens(int64, some, number=number)
    plane = tokens(some_integers("widths", 48, -30, 30) + [0] * 48, 1, widths=(32, 32))
    yield "tokens_widest_index", "W and E are 32", exact(Element(">i2"), 96, plane)
    lengths = book({14: 1, 29: 3, 30: 2, 31: 3})
    blocks = [[(14, 0)], [(29 + at % 3, 0) for at in range(2048)], [(14, 0)], [(31, 0), (30, 0)] * 3]
    yield "tokens_several_blocks", "four blocks: two of them without words, the last one short", exact(
        Element(">i2"), 3 * 2048 + 6, token_blocks(blocks, 1, lengths=lengths)
    )
    yield "tokens_one_value", "one value", exact(Element("<u8"), 1, token_blocks([[(75, (1 << 64) - 1)]]))
    yield "lanes_8_one_value", "8 lanes: one value", exact(Element("<i2"), 1, token_blocks([[(46, 3)]], lanes=8))
    yield "lanes_8_every_symbol", "8 lanes: each symbol once, with extra bits of 0", of_tokens(Element("<i2"), every, log2_length=14, lanes=8)
    yield "lanes_8_several_blocks", "8 lanes: four blocks, two of them without words, the last one short", exact(
        Element(">i2"), 3 * 2048 + 6, token_blocks(blocks, 1, lengths=lengths, lanes=8)
    )
    yield "lanes_8_longest_codes", "8 lanes: codes of 12 bits, so that each round asks for six words on average", of_tokens(
        int32, [(41 + at % 2, 0) for at in range(500)], lengths=book(long_codes), lanes=8
    )


def in_bit_planes():
    """Section 9.2."""
    sparse = BitBlock(1, [SPARSE], [0b11], [0b0001, 0b0010], b"\x01\x80")
    dense = BitBlock(1, [DENSE], [], [], b"\1\0\0\0\0\x80\0\0")
    mixed = BitBlock(4, [SPARSE, EMPTY, DENSE, SPARSE], [1, 3], [1, 2, 2], b"\1" + bytes(8) + b"\x81\x80")
    float32, float64 = Element("<f4"), Element(">f8")

    def stream(blocks, count=48, element=float32, **named):
        return CRAFT.around(bit_plane([block.pack() if block else b"" for block in blocks], 0, **named), (count,), element, 1.0, 0)

    yield "bit_planes_sparse", "one sparse bit plane", stream([sparse])
    yield "bit_planes_dense", "one dense bit plane", stream([dense])
    yield "bit_planes_mixed", "bit planes of every mode, a dense one of 0 among them", stream([mixed], element=float64)
    shared = BitBlock(3, [SPARSE, DENSE, SPARSE], [1, 2], [2, 1], b"\7" + dense.data + b"\5")
    yield "bit_planes_shared_byte", "four bits of two sparse bit planes in one byte", stream([shared])
    yield "bit_planes_whole_words", "sparse bit planes whose words have all their bytes", stream(
        [BitBlock(1, [SPARSE], [0b11], [0b1111, 0b0011], b"\1\2\3\4\5\x80")]
    )
    yield "bit_planes_zeros_below", "dense bit planes of 0 below one that is not", stream([BitBlock(5, [DENSE] * 5, [], [], bytes(32) + dense.data)])
    yield "bit_planes_top_only", "the top one of 64 bit planes is not 0, all others have mode 0", stream(
        [BitBlock(64, [EMPTY] * 63 + [SPARSE], [0b11], [0b0001, 0b0010], b"\x01\x80")], element=float64
    )
    for bits, element in ((32, float32), (64, float64)):
        block = BitBlock(bits, [SPARSE] * bits, [1] * bits, [1] * bits, b"\1" * bits)
        yield f"bit_planes_least_{bits}", f"the least integer of {bits} bits", stream([block], 480, element)
        block = BitBlock(bits, [SPARSE] * bits, [2**64 - 1] * bits, [15] * 64 * bits, bytes(1 + at % 255 for at in range(256 * bits)))
        about = f"the longest block of {bits} bits: all bit planes are sparse, though no byte is 0"
        yield f"bit_planes_longest_{bits}", about, stream([block], 2048, element)
    yield "bit_planes_no_bytes", "blocks of 0 without a byte, W is 0", stream([None, None], 4096)
    yield "bit_planes_widest_index", "W is 32", stream([sparse], lane_bits=32)
    yield "bit_planes_last_of_1", "the last block has one integer", stream([None, BitBlock(1, [DENSE], [], [], b"\1\0\0\0")], 2049)
    numbers = numbers_of(some_integers("all modes", 2048 + 700, -9, 9), 32)
    numbers[100:2000] = 0
    blocks = [bit_block(numbers[at : at + 2048], lambda words: SPARSE if words.any() else EMPTY) for at in (0, 2048)]
    yield "bit_planes_two_blocks", "two blocks, all bit planes sparse, with words of the last flag", stream(blocks, 2748)
    residuals = bit_plane([BitBlock(32, [EMPTY] * 31 + [DENSE], [], [], b"\1\0\0\0\0\x80\0\0").pack()], INTERPOLATION)
    yield "bit_planes_residuals", "residuals of binary64 have 32 bits", whole(float64, 2, (48,), grid(0.5) + bytes(4) + residuals)
