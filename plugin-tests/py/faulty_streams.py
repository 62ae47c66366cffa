"""Streams that a reader must refuse, for streams/faulty: each breaks one rule of FORMAT.md. write_streams.py writes them. Nothing here is random."""

import math

from quire_decoder import (
    CONSTANT, DECIMAL, DENSE, EMPTY, EXACT, INTERPOLATION, LEAST_STEP, LOGARITHMIC, NO_LOWER, NO_UPPER, QUANTIZED, SPARSE, STEPS, STORED,
)  # fmt: skip
from stream_craft import (
    BitBlock, Craft, Element, bit_plane, coded_block, exact_bits, fresh_checksum, grid, leb128, listed, packed_book, plane_header,
    token_plane, whole, with_header,
)  # fmt: skip
from stream_planes import book, token_blocks, tokens

CRAFT = Craft(None)
FLOAT32, FLOAT64, INT32 = Element("<f4"), Element("<f8"), Element("<i4")
VALUE = b"\1\2\3\4"
VALUES = bytes(range(192))  # 48 values of four bytes; 48 is the number of values of nearly all these streams
PLANE = exact_bits(range(48), 0)
LONG, ZEROS = (480,), bit_plane([b""], 0)  # a longer chunk where the stream has more bytes than 48 values, and a plane of zeros for it
NO_EXCEPTIONS = bytes(4)


def faulty_streams():
    """Section that is broken, name, what it is, and the stream of each."""
    for section, streams in (
        ("1", versions()), ("2", bodies()), ("3", headers()), ("4", grids()), ("4", limits()), ("4", lists()), ("4", planes()), ("5.1", masks()),
        ("5.2", fine_grids()), ("7", tokens_of_blocks()), ("8", books()), ("9.1", lanes()), ("9.2", bit_planes()),
    ):  # fmt: skip
        for name, about, stream in streams:
            yield section, name, about, stream


def constant(extents, packed=CONSTANT, value_type=0, version=0x90):
    """A constant chunk whose header is given byte by byte."""
    return with_header(value_type, packed, extents, VALUE, version)


def stored(extents, left_out=0, rank=1, values=VALUES):
    """A stored chunk whose written extents are given byte by byte."""
    return with_header(0, STORED | rank - 1 << 4 | left_out << 6, extents, values)


def quantized(planes=PLANE, ones=0, half_step=1.0, element=FLOAT32, extents=(48,), offset=None, limits=None):
    """A body with a grid."""
    return CRAFT.around(planes, extents, element, half_step, ones, offset, limits)


def versions():
    """Section 1."""
    yield "version_0_5", "a stream of version 0.5, which begins with QUIR, 0, 5", b"QUIR\0\5" + bytes(26)
    for major, minor in ((0, 0), (0, 6), (1, 1), (1, 15), (2, 0), (7, 15)):
        yield f"version_{major}_{minor}", f"version {major}.{minor}", constant(leb128(48), version=0x80 | major << 4 | minor)
    yield "version_bit", "bit 7 of the version byte is not set", constant(leb128(48), version=0x10)


def bodies():
    """Section 2."""
    bodies_of = {
        CONSTANT: VALUE, EXACT: PLANE, QUANTIZED: grid(1.0) + NO_EXCEPTIONS + PLANE, STEPS: grid(1) + NO_EXCEPTIONS + PLANE,
        LOGARITHMIC: grid(1.0, 0) + NO_EXCEPTIONS + PLANE, DECIMAL: grid(100) + NO_EXCEPTIONS + PLANE,
    }  # fmt: skip
    for coding in (7, 15):
        yield f"coding_{coding}", f"coding {coding} is reserved", whole(FLOAT32, coding, (48,), VALUE)
    for name, coding, element in (
        ("quantized", QUANTIZED, INT32), ("logarithmic", LOGARITHMIC, INT32), ("steps", STEPS, FLOAT32), ("decimal", DECIMAL, INT32),
    ):  # fmt: skip
        kind = "integers" if element is INT32 else "floating-point numbers"
        yield f"coding_{name}", f"coding {name} of {kind}", whole(element, coding, (48,), bodies_of[coding])
    for name, coding in (("constant", CONSTANT), ("quantized", QUANTIZED), ("exact", EXACT), ("decimal", DECIMAL)):
        yield f"behind_{name}", f"4 bytes of 0 behind a body, {name}", whole(FLOAT32, coding, (48,), bodies_of[coding] + bytes(4))
    yield "behind_constant_byte", "a byte behind a body, constant", whole(FLOAT32, CONSTANT, (48,), VALUE + b"\0")
    yield "behind_constant_part", "the bytes of a pair in place of a value, constant", with_header(12, CONSTANT, leb128(48), VALUE * 2)
    yield "short_constant", "the value of a constant chunk has a byte too few", whole(FLOAT32, CONSTANT, (48,), VALUE[:3])
    yield "short_exact", "no body, exact", whole(FLOAT32, EXACT, (48,), b"")


def headers():
    """Section 3."""
    good = constant(leb128(48))
    yield "empty", "no byte at all", b""
    yield "short_magic", "2 bytes", good[:2]
    yield "short_header", "11 bytes, one too few for the shortest header", good[:11]
    for size in range(4, 8):
        yield f"short_{size}_bytes", f"{size} bytes, the fourth of which is a right version byte", good[:size]
    for size in range(8, 12):
        yield f"short_{size}_bytes", f"{size} bytes with the right checksum of a header that is cut off", fresh_checksum(good[:size])
    yield "magic", "the first bytes are QUJ", fresh_checksum(b"QUJ" + good[3:])
    yield "checksum", "a wrong checksum, by one bit", good[:4] + bytes([good[4] ^ 1]) + good[5:]
    yield "checksum_zero", "a checksum of 0", good[:4] + bytes(4) + good[8:]
    for value_type in (14, 127, 0x80 | 14):
        about = f"value type {value_type & 127} is reserved" + ", big endian" * (value_type > 127)
        yield f"value_type_{value_type}", about, constant(leb128(48), value_type=value_type)
    yield "left_out_of_constant", "bits 6 and 7 of byte 9 are not 0 in a constant chunk", constant(leb128(48), CONSTANT | 0x40)
    ramp = with_header(0, EXACT | 0x10 | 0x40, leb128(6) + leb128(8), PLANE)
    yield "left_out_of_exact", "bits 6 and 7 of byte 9 are not 0 in an exact chunk of rank 2", ramp
    yield "left_out_beyond_rank", "the left-out extent is number 1 of a rank of 1", stored(b"", 1)
    for name, extents, about in (
        ("long", b"\xaf\0", "an extent of 48 in two bytes, the last of which is 0"),
        ("longer", b"\xaf\x80\0", "an extent of 48 in three bytes, the last of which is 0"),
        ("8_bytes", b"\xaf" + b"\x80" * 6 + b"\1", "an extent of 8 bytes"),
        ("without_end", b"\x80" * 10, "an extent that does not end"),
        ("too_large", leb128(2**48 + 1), "an extent of 2^48 + 1"),
    ):
        yield f"extent_{name}", about, constant(extents)
    yield "extent_missing", "the stream ends before its last extent", fresh_checksum(constant(b"\x81\x80", CONSTANT | 0x30)[:12])
    product = leb128(2**32) * 2
    yield "product_wraps", "extents whose product is 2^64", constant(product, CONSTANT | 0x10)
    yield "product_too_large", "extents whose product is 2^49", constant(leb128(2**25) + leb128(2**24), CONSTANT | 0x10)
    yield "product_is_2_to_64_and_1", "extents whose product is 2^64 + 1", constant(leb128(274177) + leb128(67280421310721), CONSTANT | 0x10)
    fifth = pow(5, -1, 2**48)
    yield "product_wraps_to_1", "extents whose product is 1 modulo 2^48", constant(leb128(5) + leb128(fifth), CONSTANT | 0x10)
    yield "header_padding", "padding of the header that is not 0", constant(b"\x2f\1")
    yield "header_padding_first", "the first of three bytes of padding is not 0", with_header(0, CONSTANT | 0x20, b"\3\3\2\1\0\0", VALUE)
    yield "header_padding_more", "4 bytes of padding too many", constant(b"\x2f" + bytes(5))
    yield "stored_nothing", "a stored chunk without values", stored(b"", values=b"")
    yield "stored_a_byte_more", "stored bytes that are no whole number of values", stored(b"", values=VALUES + b"\0")
    yield "stored_no_whole_extent", "stored values that are no whole number of rows", stored(leb128(5), 0, 2)
    yield "stored_not_greatest", "the left-out extent is 6, the other one 8", stored(leb128(8), 0, 2)
    yield "stored_second_of_equal", "of two equal extents the faster one is left out", stored(leb128(4), 1, 2, VALUES[:64])
    yield "stored_all_extents", "a stored chunk whose header has all extents", stored(leb128(48))
    yield "stored_product_too_large", "the written extents of a stored chunk have the product 2^49", stored(leb128(2**25) + leb128(2**24), 0, 3)
    yield "stored_product_wraps", "the written extents of a stored chunk have the product 2^64", stored(leb128(2**32) * 2, 2, 3)
    yield "stored_longer_than_stream", "the written extent of a stored chunk is 2^48, which is more than there are values", stored(leb128(2**48), 0, 2)
    yield "stored_padding", "padding of a stored chunk's header that is not 0", stored(b"\0\1")
    for value_type, kind in ((12, "binary32"), (0x80 | 13, "binary64")):
        about = f"pairs of {kind}, of which the last one has no second part"
        yield f"pairs_odd_{value_type}", about, with_header(value_type, CONSTANT, leb128(49), bytes(4 * (value_type % 128 - 11)))
    yield "pairs_odd_slowest", "pairs, 3 x 16 values: the slowest extent is odd", constant(leb128(3) + leb128(16), CONSTANT | 0x10, 12)
    yield "pairs_odd_stored", "pairs, 15 stored values", with_header(12, STORED, b"", VALUES[:60])


def grids():
    """Section 4: the grid and the number of exceptions."""
    for name, half_step in (
        ("0", 0.0), ("minus_0", -0.0), ("negative", -1.0), ("nan", math.nan), ("infinite", math.inf), ("too_large", 2.0**1023),
        ("too_small", 2.0**-1025), ("least_number", 5e-324),
    ):  # fmt: skip
        says = ", which says that limits follow, though none do" if math.copysign(1, half_step) < 0 else ""
        yield f"half_step_{name}", f"a half step of {half_step!r}{says}", quantized(half_step=half_step)
    yield "half_step_of_logarithms", "logarithmic: a half step of 0.0", quantized(half_step=0.0, offset=0)
    yield "half_step_negative_of_logarithms", "logarithmic: a half step of -1.0", quantized(half_step=-1.0, offset=0)
    for name, kind, bound in (("0", "<i4", 0), ("too_large", "<i2", 2**31), ("wide", ">u4", 2**32 + 1), ("too_large_64", "<u8", 2**63)):
        plane = exact_bits(range(48), 0, Element(kind).bits)
        yield f"bound_{name}", f"a bound of {bound} for {kind[1]}{8 * int(kind[2])}", quantized(plane, 0, bound, Element(kind))
    for name, divisor, about in (
        ("0", 0, "a divisor of 0"), ("too_large", 2**53 + 1, "a divisor of 2^53 + 1"), ("greatest", 2**64 - 1, "a divisor of 2^64 - 1"),
        ("of_binary64", 0x4059000000000000, "a divisor of 100 in binary64"), ("half_step", 0x3F747AE147AE147B, "a half step of 0.005 in place of a divisor"),
    ):  # fmt: skip
        yield f"divisor_{name}", about, quantized(half_step=divisor)
    yield "short_divisor", "the stream ends in the divisor", whole(FLOAT32, DECIMAL, (48,), grid(100)[:7])
    yield "short_half_step", "the stream ends in the half step", whole(FLOAT32, QUANTIZED, (48,), grid(1.0)[:4])
    yield "short_offset", "the stream ends in the offset", whole(FLOAT32, LOGARITHMIC, (48,), grid(1.0, 0)[:12])
    yield "short_exceptions", "the stream ends before the number of exceptions", whole(FLOAT32, QUANTIZED, (48,), grid(1.0))
    yield "too_many_exceptions", "49 exceptions of 48 values", quantized(PLANE + exact_bits([1] * 48, 0) + exact_bits([0] * 49, 0), 49)
    most = 2**32 - 1
    yield "most_exceptions", f"{most} exceptions of 48 values", quantized(PLANE, most)


def limits():
    """Section 4: the limits; fine_grids() has those of chunks without a fine grid."""
    for name, lower, upper in (("by_1", 0, -1), ("of_values", 80, 72), ("ends", NO_UPPER, NO_LOWER), ("none", NO_UPPER, NO_UPPER - 1)):
        yield f"limits_above_{name}", f"a lower limit of {lower} above an upper one of {upper}", quantized(limits=(lower, upper))
    residuals = exact_bits([1] * 48, INTERPOLATION)
    yield "limits_above_interpolated", "a lower limit of 3 above an upper one of 2, interpolated", quantized(residuals, element=FLOAT64, limits=(3, 2))
    for name, half_step in (("0", 0.0), ("nan", math.nan), ("infinite", math.inf), ("too_large", 2.0**1023), ("too_small", 2.0**-1025)):
        yield f"limits_half_step_{name}", f"limits and a half step of {half_step!r}", quantized(half_step=half_step, limits=(-8, 8))
    for name, half_step, offset, element in (("logarithmic", 1.0, 0, FLOAT32), ("decimal", 100, None, FLOAT32), ("steps", 3, None, INT32)):
        yield f"limits_{name}", f"limits of coding {name}", quantized(half_step=half_step, offset=offset, element=element, limits=(-8, 8))
    body = grid(1.0, None, (-8, 8))
    for name, size, about in (
        ("missing", 8, "before the limits"), ("short", 12, "between the limits"), ("short_upper", 15, "in the upper limit"),
        ("short_exceptions", 16, "behind the limits, before the number of exceptions"),
    ):  # fmt: skip
        yield f"limits_{name}", f"the stream ends {about}", whole(FLOAT32, QUANTIZED, (48,), body[:size])
    without = grid(1.0) + body[8:] + NO_EXCEPTIONS + PLANE
    yield "limits_not_said", "limits, of which bit 63 of the half step says nothing", whole(FLOAT32, QUANTIZED, (48,), without)


def lists():
    """Section 4: the list of exceptions."""
    bits = VALUES[:16]
    for name, indices, about in (
        ("descending", (0, 9, 7, 47), "indices that do not ascend"),
        ("repeated", (0, 9, 9, 47), "an index twice"),
        ("behind", (0, 7, 9, 48), "an index that is the number of values"),
        ("far_behind", (0, 7, 9, 2**31 + 9), "an index of 2^31 and more"),
    ):
        yield f"list_{name}", f"list of exceptions: {about}", quantized(listed(indices, bits) + PLANE, 4)
    yield "list_padding", "list of exceptions: padding that is not 0", quantized(
        listed((1, 2, 5), VALUES[:3])[:-1] + b"\1" + ZEROS, 3, 1, Element("u1"), LONG
    )
    yield "list_without_padding", "list of exceptions: no padding behind 2 bytes", quantized(
        listed((1,), VALUES[:2])[:-2] + ZEROS, 1, element=Element("<f2"), extents=LONG
    )
    yield "list_short", "the stream ends in the list of exceptions", whole(
        FLOAT32, QUANTIZED, (48,), grid(1.0) + b"\4\0\0\0" + listed((0, 7, 9, 47), bits)[:-4]
    )
    yield "list_at_once", "list of exceptions: each index with its bits", quantized(b"".join(listed((at,), VALUE) for at in (3, 7)) + PLANE, 2)
    few, many = tuple(range(16)), tuple(range(17))
    mask, numbers = exact_bits([1] * 16 + [0] * 32, 0), exact_bits(range(16), 0)
    yield "few_in_planes", "16 exceptions of 48 values in planes", quantized(PLANE + mask + numbers, len(few))
    yield "many_in_list", "17 exceptions of 480 values in a list", quantized(listed(many, VALUES[:68]) + ZEROS, len(many), extents=LONG)
    yield "mask_without_exceptions", "no exceptions, but a mask", quantized(PLANE + exact_bits([0] * 48, 0), 0)
    yield "list_and_planes", "17 exceptions in a list and in planes", quantized(
        listed(many, VALUES[:68]) + ZEROS + exact_bits([1] * 17 + [0] * 463, 0) + exact_bits(many, 0), len(many), extents=LONG
    )


def planes():
    """Section 4: what a plane says of itself."""
    plain = tokens([0, 1, 2, -20] * 12)
    head, body = plain[:4], plain[4:]

    def header(word_bits):
        return quantized(head[:2] + (int.from_bytes(head[2:], "little") ^ word_bits).to_bytes(2, "little") + body)

    lane_bits = int.from_bytes(head[2:], "little") >> 3 & 63
    yield "plane_missing", "the stream ends before its plane", quantized(b"")
    yield "lanes_8_said", "blocks of 32 lanes that are said to have 8", header(1 << 15)
    empty = book({30: 1, 31: 1})
    for name, width, about in (("6", 6, "2^17"), ("7", 7, "2^18")):
        plane = plane_header(0, 255, 0, 0, 11 + width) + packed_book(empty)
        yield f"block_length_{name}", f"a block length of {about}", quantized(plane)
    for name, lane, extra in (("lane_bits_33", 33, 0), ("extra_bits_33", 0, 33), ("lane_bits_63", 63, 0)):
        plane = plane_header(0, 255, lane, extra) + packed_book(empty) + bytes(8)
        yield name, f"W is {lane}, E is {extra}", quantized(plane)
    yield "index_wider", "W is larger by one than what the block index has", header((lane_bits ^ lane_bits + 1) << 3)
    for name, byte, extents, about in (
        ("rank", 0b10, (48,), "a predictor with an axis that a chunk of rank 1 has not"),
        ("rank_3", 0b1000, (3, 4, 4), "a predictor with an axis that a chunk of rank 3 has not"),
        ("below_128", 0x40, (2, 3, 4, 2), "predictor 0x40"),
        ("bits_5_and_6", INTERPOLATION | 0x60, (48,), "interpolation with bits 5 and 6"),
        ("rough_axis", INTERPOLATION | 0b10, (48,), "interpolation with a rough axis that a chunk of rank 1 has not"),
    ):
        yield f"predictor_{name}", about, quantized(exact_bits([1] * 48, byte), extents=extents)
    residuals = exact_bits([1] * 48, INTERPOLATION)
    yield "interpolated_exact", "an interpolated plane of an exact chunk", whole(FLOAT32, EXACT, (48,), residuals)
    yield "interpolated_steps", "an interpolated plane of steps", quantized(residuals, 0, 1, INT32)
    yield "interpolated_decimal", "an interpolated plane of decimals", quantized(residuals, half_step=100)
    yield "interpolated_logarithmic", "an interpolated plane of a logarithmic chunk", quantized(residuals, offset=0)
    half = [1, 0] * 24
    mask = exact_bits(half, INTERPOLATION)
    yield "interpolated_mask", "an interpolated mask", quantized(PLANE + mask + exact_bits(range(24), 0), 24)
    bits = exact_bits(range(24), INTERPOLATION)
    yield "interpolated_bits", "interpolated bits of exceptions", quantized(PLANE + exact_bits(half, 0) + bits, 24)
    planes_of = exact_bits(range(48), 0) + exact_bits(half, 0) + exact_bits(range(24), 0b10)
    yield "predictor_of_bits", "bits of exceptions with the second axis of a chunk of rank 2", quantized(planes_of, 24, extents=(6, 8))
    custom = len(packed_book([6] * 22 + [7] * 84))
    index = 4 + custom
    yield "index_missing", "the stream ends before the block index", quantized(plain[:index])
    yield "index_padding", "the last bit of the block index, which nothing uses", quantized(
        plain[: index + 3] + bytes([plain[index + 3] | 0x80]) + plain[index + 4 :]
    )
    yield "words_short", "the stream ends in the words of its block", quantized(plain[:-4])
    odd = token_blocks([[(31, 0), (14, 0)]], lengths=book({14: 1, 31: 1}), log2_length=12)  # one lane word, and two bytes of padding
    yield "plane_padding", "padding behind the words of a plane that is not 0", whole(INT32, EXACT, (2049,), odd[:-1] + b"\1")
    yield "plane_without_padding", "no padding behind the words of a plane", whole(INT32, EXACT, (2049,), odd[:-2])


def masks():
    """Section 5.1: the number of ones."""
    for name, ones in (("more", 19), ("fewer", 17), ("none", 0)):
        mask = exact_bits([1] * ones + [0] * (48 - ones), 0)
        yield f"mask_{name}", f"a mask of {ones} ones for 18 exceptions", quantized(PLANE + mask + exact_bits(range(18), 0), 18)


def fine_grids():
    """Section 5.2."""
    residuals = exact_bits([1] * 48, INTERPOLATION)
    for name, kind in (("f16", "<f2"), ("bf16", ">bfloat16")):
        yield f"interpolated_{name}", f"an interpolated plane of {name}", quantized(residuals, element=Element(kind))
        yield f"limits_{name}", f"limits of {name}", quantized(element=Element(kind), limits=(-8, 8))
    for element, name in ((FLOAT32, "f32"), (FLOAT64, "f64")):
        half_step = math.nextafter(LEAST_STEP[element.kind, element.width] / 2, 0)
        yield f"interpolated_small_step_{name}", f"an interpolated plane of {name} with a step just below the least one", quantized(
            residuals, 0, half_step, element
        )
        about = f"limits of {name} with a step just below the least one"
        yield f"limits_small_step_{name}", about, quantized(exact_bits(range(48), 0, element.bits), 0, half_step, element, limits=(-8, 8))
    about = "limits of f32, which are none, with a step just below the least one"
    yield "limits_none_small_step", about, quantized(half_step=math.nextafter(1e-28 / 2, 0), limits=(NO_LOWER, NO_UPPER))


def tokens_of_blocks():
    """Section 7."""
    for name, some, about in (
        ("zeros", [(30, 0)] * 46 + [(1, 0)], "a run of 3 zeros where 2 integers are left"),
        ("ones", [(30, 0)] * 47 + [(91, 0)], "a run of 1 and a zero where 1 integer is left"),
        ("minus_ones", [(30, 0)] * 40 + [(80, 3)], "a run of -1 and ten zeros where 8 integers are left"),
        ("longest", [(14, 0)], "a run of 2048 zeros in a block of 48 integers"),
    ):
        yield f"run_over_end_{name}", about, quantized(token_blocks([some]))
    lengths = [6] * 22 + [7] * 84
    words, extras = coded_block(lengths, [(30, 0)] * 46 + [(46, 9), (47, 15)])
    assert extras == [0xF9]

    def plane(block):
        return quantized(token_plane([block], 0, 255, packed_book(lengths)))

    yield "extra_words_missing", "no extra words where tokens have 8 extra bits", plane((words, []))
    yield "extra_words_more", "an extra word of 0 too many", plane((words, [0xF9, 0]))
    yield "extra_bits_behind", "a bit behind the extra bits of the last token", plane((words, [0x80F9]))
    zeros, _ = coded_block(lengths, [(30, 0)] * 48)
    yield "extra_words_unused", "an extra word in a block whose tokens have no extra bits", plane((zeros, [1]))
    words, extras = coded_block(lengths, [(8, 8)] + [(75, 1)] * 8)
    assert len(extras) == 33
    yield "extra_words_one_less", "32 extra words where tokens need 33", plane((words, extras[:-1]))


def books():
    """Section 8."""
    codes = {30 + n: n + 1 for n in range(12)}
    two = book({30: 1, 31: 1})

    def plane(custom, number=255, predictor=0):
        return quantized(plane_header(predictor, number, 0, 0) + custom)

    for name, lengths, about in (
        ("incomplete", codes, "codes of 1 to 12 bits, one of 12 bits too few"),
        ("incomplete_short", {30: 1, 31: 2}, "codes of 1 and 2 bits, one of 2 bits too few"),
        ("overfull", {30: 1, 31: 1, 75: 12}, "a code of 12 bits too many"),
        ("overfull_short", {30: 1, 31: 1, 32: 1}, "a code of 1 bit too many"),
        ("one_symbol", {30: 1}, "one symbol"),
        ("no_symbol", {}, "no symbol"),
        ("all_of_12", dict.fromkeys(range(106), 12), "106 codes of 12 bits"),
    ):
        yield f"book_{name}", f"custom book: {about}", plane(packed_book(book(lengths)))
    yield "book_padding", "custom book: the first bit of its padding", plane(packed_book(two, 1))
    custom = packed_book(two)
    yield "book_padding_last", "custom book: the last bit of its padding", plane(custom[:-1] + bytes([custom[-1] | 0x80]))
    yield "book_longer", "custom book: 4 bytes of padding too many", plane(custom + bytes(4))
    yield "book_shorter", "custom book: 4 bytes too few", plane(custom[:-4])
    yield "book_missing", "custom book: none", plane(b"")
    for number in (75, 253):
        yield f"dictionary_{number}", f"book {number}, which the dictionary has not", plane(b"", number)


def lanes():
    """Section 9.1."""
    lengths = book({30: 1, 31: 1})
    few, _ = coded_block(lengths, [(31, 0)] * 52, 8)
    assert len(few) == 8 and few[3:5] == [0xFE00, 0xFC00]

    def of_8_lanes(lane_words):
        return quantized(token_plane([(lane_words, [])], 0, 255, packed_book(lengths), lanes=8), extents=(52,))

    yield "few_lanes_bits_behind", "8 lanes: a bit behind the last code of lane 7", of_8_lanes([*few[:-1], 0xFC01])
    yield "few_lanes_bits_behind_second", "8 lanes: a bit in the second word of lane 0, which has seven codes", of_8_lanes([*few, 1])
    yield "few_lanes_without_token", "8 lanes: a bit behind lane 4's last code, in the round in which the block ends", of_8_lanes([*few[:4], 0xFE00, *few[5:]])
    yield "few_lanes_words_more", "8 lanes: more lane words than the decoder asks for", of_8_lanes([*few, *[0] * 8, 1])
    words, _ = coded_block(lengths, [(31, 0)] * 48)
    assert len(words) == 32 and words[15:17] == [0xC000, 0x8000]

    def plane(lane_words):
        return quantized(token_plane([(lane_words, [])], 0, 255, packed_book(lengths)))

    yield "lane_words_zero", "a lane word of 0 at the end", plane(words + [0])
    yield "lane_words_more", "more lane words than the decoder asks for", plane(words + [0] * 32 + [1])
    yield "lane_bits_behind", "a bit behind the last code of lane 31", plane(words[:-1] + [0x8001])
    yield "lane_bits_behind_second", "a bit in the second word of lane 0, which has one code", plane(words + [1])
    run = token_plane([([0x8000, 0, 0x8000], [])], 0, 255, packed_book(book({14: 1, 31: 1})), None, 12)  # a 1, and 2048 zeros
    yield "lane_bits_without_token", "a bit in a lane without a token", whole(INT32, EXACT, (2049,), run)
    yield "lane_words_of_zeros", "lane words of a block that needs none, all 0", plane([0] * 32)


def bit_planes():
    """Section 9.2."""
    sparse = BitBlock(1, [SPARSE], [0b11], [0b0001, 0b0010], b"\x01\x80")
    dense = BitBlock(1, [DENSE], [], [], b"\1\0\0\0\0\x80\0\0")

    def of(block, element=FLOAT32, **named):
        data = block.pack() if isinstance(block, BitBlock) else block
        return quantized(bit_plane([data], 0, **named), element=element)

    def top(planes):
        return dense._replace(planes=planes, modes=[EMPTY] * (planes - 1) + [DENSE])

    yield "block_of_4096", "blocks of 4096 integers", of(sparse, log2_length=12)
    yield "block_with_extra_words", "E is 1", of(sparse, extra_bits=1)
    yield "block_of_8_lanes", "blocks of 8 lanes", of(sparse, lanes=8)
    yield "block_odd", "a block of 2 bytes", of(bytes(2))
    yield "block_zeros", "a block of 4 bytes, all 0", of(bytes(4))
    yield "no_bit_planes", "no bit planes, but the bytes of one", of(dense._replace(planes=0))
    for name, planes, element in (("33", 33, FLOAT32), ("65", 65, FLOAT64), ("255", 255, FLOAT64)):
        yield f"bit_planes_{name}", f"{planes} bit planes of integers of {element.bits} bits", of(top(planes), element)
    residuals = bit_plane([top(33).pack()], INTERPOLATION)
    yield "bit_planes_residuals_33", "33 bit planes of residuals of binary64", quantized(residuals, element=FLOAT64)
    wide, few = bit_plane([top(33)._replace(data=b"\xff\xff\3\0\0\0\0\0").pack()], 0), exact_bits(range(18), 0, 64)
    yield "bit_planes_mask_33", "33 bit planes of the mask of binary64", quantized(exact_bits(range(48), 0, 64) + wide + few, 18, element=FLOAT64)
    yield "mode_3", "mode 3", of(BitBlock(2, [3, DENSE], [], [], dense.data * 2))
    yield "mode_3_last", "mode 3 of the last bit plane", of(dense._replace(modes=[3]))
    yield "mode_3_as_0", "mode 3 of a bit plane without bytes", of(BitBlock(2, [3, DENSE], [], [], dense.data))
    yield "mode_3_as_1", "mode 3 of the second bit plane, which has the bytes of a dense one", of(BitBlock(3, [EMPTY, 3, DENSE], [], [], dense.data * 2))
    yield "mode_3_as_2", "mode 3 of a bit plane with the flags and bytes of a sparse one", of(
        BitBlock(2, [3, DENSE], [0b11], [0b0001, 0b0010], b"\x01\x80" + dense.data)
    )
    yield "mode_3_last_as_2", "mode 3 of the last bit plane, which has the flags and bytes of a sparse one", of(sparse._replace(modes=[3]))
    yield "mode_beyond", "a mode of a bit plane that there is not", of(dense._replace(modes=[DENSE, DENSE]))
    yield "mode_0_last", "mode 0 of the last bit plane", of(BitBlock(2, [DENSE, EMPTY], [], [], dense.data))
    yield "last_dense_zero", "the last bit plane is dense and all 0", of(BitBlock(2, [DENSE, DENSE], [], [], dense.data + bytes(8)))
    yield "all_dense_zero", "a block of one bit plane, which is dense and all 0", of(dense._replace(data=bytes(8)))
    yield "flags_none", "a sparse bit plane without a flag", of(BitBlock(2, [SPARSE, DENSE], [0], [], dense.data))
    yield "flags_beyond", "a flag of word 2, where there are two words", of(BitBlock(1, [SPARSE], [0b101], [1, 1], b"\1\1"))
    yield "flags_last", "a flag of word 63, where there are two words", of(BitBlock(1, [SPARSE], [1 << 63], [1], b"\1"))
    yield "four_bits_zero", "a flagged word whose four bits are 0", of(BitBlock(1, [SPARSE], [0b11], [0, 0b0010], b"\x80"))
    yield "four_bits_unused", "the unused half of the last byte of four bits", of(BitBlock(1, [SPARSE], [1], [1, 8], b"\1"))
    yield "sparse_byte_zero", "a byte of a sparse bit plane that is 0", of(sparse._replace(data=b"\1\0"))
    yield "sparse_byte_zero_beside", "a byte of 0 beside another one of its word", of(sparse._replace(nibbles=[0b0011, 0b0010], data=b"\1\0\x80"))
    yield "bit_behind_dense", "a bit behind the last integer, dense", of(dense._replace(data=b"\1\0\0\0\0\0\1\0"))
    below = BitBlock(2, [DENSE, DENSE], [], [], b"\0\0\0\0\0\0\0\x80" + dense.data)
    yield "bit_behind_dense_below", "a bit behind the last integer, in a bit plane below the last", of(below)
    yield "bit_behind_sparse", "a bit behind the last integer, sparse", of(sparse._replace(nibbles=[1, 0b1000], data=b"\1\x80"))
    last = bit_plane([b"", BitBlock(1, [DENSE], [], [], b"\2\0\0\0").pack()], 0)
    yield "bit_behind_last_block", "a bit behind the only integer of the last block", quantized(last, extents=(2049,))
    bare = BitBlock(1, [SPARSE], [1], [0b0111], b"\1\2\3", b"").pack()
    assert len(bare) % 4 == 2
    yield "block_padding", "padding of a block that is not 0", of(bare + b"\0\1")
    yield "block_padding_more", "4 bytes of padding too many", of(bare + bytes(6))
    yield "block_twice", "a block, and the same bytes once more", of(sparse.pack() * 2)
    whole_block = BitBlock(1, [SPARSE], [0b11], [15, 3], b"\1\2\3\4\5\x80").pack()
    yield "block_short_bytes", "a block that ends in the bytes of a bit plane", of(whole_block[:-4])
    yield "block_short_flags", "a block that ends in the flags", of(whole_block[:8])
    yield "block_short_modes", "a block that ends in the modes", of(top(32).pack()[:8])
