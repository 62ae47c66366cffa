"""Streams and parts of streams that the plugin's encoder would not write, made from FORMAT.md alone."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from decoder.bit_planes import DENSE, SPARSE
from decoder.books import CUSTOM_BOOK, SYMBOLS, book_of
from decoder.header import (
    BFLOAT, CONSTANT, DECIMAL, EXACT, FLOAT, LOGARITHMIC, PAIR, QUANTIZED, STEPS, STORED, VALUE_TYPES, Reader, checksum_of,
)  # fmt: skip
from decoder.planes import BIT_PLANES, NARROW, read_plane
from decoder.quantization import LEAST_STEP, NO_LOWER, NO_UPPER
from decoder.tokens import TOKENS

EVERY_TYPE = (
    "<f2", ">f2", "<bfloat16", ">bfloat16", "<f4", ">f4", "<f8", ">f8",
    "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8",
)  # fmt: skip


class Element:
    """A type of values. Its name is that of numpy, or "<bfloat16", or ">bfloat16"."""

    def __init__(self, name):
        self.name = name
        self.dtype = np.dtype(name.replace("bfloat16", "u2"))  # bfloat16: the type of its bits
        self.kind = BFLOAT if name.endswith("bfloat16") else self.dtype.kind
        self.width = self.dtype.itemsize // (2 if self.kind == PAIR else 1)
        self.big_endian = self.dtype.byteorder == ">"
        self.value_type = VALUE_TYPES.index((self.kind, self.width)) + 0x80 * self.big_endian

    def __str__(self):
        return self.name

    @property
    def bits(self):
        """Section 3: the bits of a code."""
        return 64 if self.width == 8 else 32

    @property
    def floating(self):
        """Section 3: whether values are floating-point numbers."""
        return self.kind in (FLOAT, BFLOAT, PAIR)

    @property
    def codings(self):
        """Section 2: the codings that fit the type."""
        return (STORED, CONSTANT, EXACT, *((QUANTIZED, LOGARITHMIC, DECIMAL) if self.floating else (STEPS,)))


def fresh_checksum(stream):
    """The stream with its right checksum. Streams that are too short for a checksum stay as they are."""
    if len(stream) < 8:
        return stream
    return stream[:4] + struct.pack("<I", checksum_of(stream)) + stream[8:]


def with_bit(stream, bit):
    """The stream with this bit changed."""
    changed = bytearray(stream)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def packed_book(lengths, behind=0):
    """Section 8: a custom book. The first bit of its padding is `behind`. Lengths above 12 are taken modulo 13."""
    bits = ""
    for before, length in zip([0, *lengths], lengths):
        difference = (length - before + 6) % 13 - 6
        bits += "1" * abs(difference) + "0" * (abs(difference) < 6) + ("1" if difference < 0 else "0") * (difference != 0)
    assert behind == 0 or len(bits) % 32, "there is no padding"
    size = (len(bits) + 31) // 32 * 4
    return int((bits + str(behind))[: 8 * size][::-1], 2).to_bytes(size, "little")


def plane_header(predictor, book, lane_bits, extra_bits, log2_length=11, lanes=32):
    """Section 4: a plane's header."""
    return struct.pack("<BBH", predictor, book, log2_length - 11 | lane_bits << 3 | extra_bits << 9 | (lanes == 8) << 15)


@lru_cache(maxsize=100)
def codes_of(lengths):
    """Section 8: code and length of each symbol that has one."""
    book = book_of(lengths)
    codes = {}
    for prefix, (symbol, length) in enumerate(zip(book.symbol, book.length)):
        codes.setdefault(symbol, (prefix >> (12 - length), length))
    return codes


def coded_block(lengths, tokens, lanes=32):
    """Sections 7 and 9.1: lane words and extra words of a block. A token is a symbol and its extra bits."""
    codes = codes_of(tuple(lengths))
    extra_bits = extra_size = 0
    for symbol, extra in tokens:
        extra_bits |= extra << extra_size
        extra_size += TOKENS[symbol][2]
    return lane_words([codes[symbol] for symbol, _ in tokens], lanes), [extra_bits >> at & 0xFFFF for at in range(0, extra_size, 16)]


def lane_words(tokens, lanes=32):
    """Section 9.1: the lane words, in the order in which a decoder asks for them. A token is a code and the code's length."""
    strings = ["".join(f"{code:0{length}b}" for code, length in tokens[lane::lanes]) for lane in range(lanes)]

    def word(lane, number):
        return int(strings[lane][16 * number : 16 * number + 16].ljust(16, "0"), 2)

    words = [word(lane, number) for number in (0, 1) for lane in range(lanes)]
    asked, available = [2] * lanes, [32] * lanes
    for step in range(0, len(tokens), lanes):
        for lane, (_, length) in enumerate(tokens[step : step + lanes]):
            available[lane] -= length
        for lane in range(lanes):
            if available[lane] <= 16:
                words.append(word(lane, asked[lane]))
                asked[lane] += 1
                available[lane] += 16
    while words and words[-1] == 0:
        words.pop()
    return words


def plane_of(blocks, predictor, number, custom=b"", widths=None, log2_length=11, lanes=32):
    """Section 4: a plane. A block is its lane words and its extra words, both as bytes. `widths` are W and E, by default as small as they can be."""
    widths = widths or [max(len(block[part]) // 2 for block in blocks).bit_length() for part in (0, 1)]
    index = at = 0
    for block in blocks:
        for words, bits in zip(block, widths):
            index |= len(words) // 2 << at
            at += bits
    body = b"".join(words for block in blocks for words in block)
    header = plane_header(predictor, number, *widths, log2_length, lanes)
    return header + custom + index.to_bytes((at + 31) // 32 * 4, "little") + body + bytes(-len(body) % 4)


def token_plane(blocks, *arguments):
    """`plane_of` for blocks whose lane words and extra words are numbers."""
    return plane_of([[struct.pack(f"<{len(words)}H", *words) for words in block] for block in blocks], *arguments)


def exact_tokens(integers, predictor):
    """A plane of exactly these integers in tokens: at most 2048, of at most 32 bits."""
    lengths = [int(symbol in (30, 67)) for symbol in range(SYMBOLS)]
    # Each integer has symbol 67, which starts at 2^28. Smaller integers wrap.
    tokens = [(67, (int(value) - (1 << 28)) % (1 << 32) << 1) for value in integers]
    return token_plane([coded_block(lengths, tokens)], predictor, CUSTOM_BOOK, packed_book(lengths), (16, 16))


class BitBlock(NamedTuple):
    """Section 9.2: the fields of a block of bit planes, which may be wrong."""

    planes: int
    modes: list[int]
    flags: list[int]
    nibbles: list[int]
    data: bytes
    padding: bytes | None = None  # by default as long as it must be

    def pack(self):
        """The block's bytes, of which there are none without planes and modes."""
        if not self.planes and not self.modes:
            return b""
        fields = max(self.planes, len(self.modes))
        modes = sum(mode << 2 * plane for plane, mode in enumerate(self.modes)).to_bytes((fields + 3) // 4, "little")
        nibbles = sum(nibble << 4 * at for at, nibble in enumerate(self.nibbles)).to_bytes((len(self.nibbles) + 1) // 2, "little")
        block = bytes([self.planes]) + modes + struct.pack(f"<{len(self.flags)}Q", *self.flags) + nibbles + self.data
        return block + (bytes(-len(block) % 4) if self.padding is None else self.padding)


def numbers_of(integers, bits):
    """Section 9.2: the numbers u of integers of `bits` bits."""
    least = -(1 << (bits - 1))
    return np.array([(1 << bits) - 1 if v == least else 2 * v - 1 if v > 0 else -2 * v for v in map(int, integers)], np.uint64)


def bit_block(numbers, mode_of):
    """Section 9.2: a block of at most 2048 numbers. `mode_of` gives a bit plane's mode, from its words as rows of four bytes."""
    planes = int(numbers.max()).bit_length()
    modes, flags, nibbles, data = [], [], [], b""
    for plane in range(planes):
        bits = (numbers >> np.uint64(plane) & np.uint64(1)).astype(np.uint8)
        words = np.packbits(np.pad(bits, (0, -len(bits) % 32)), bitorder="little").reshape(-1, 4)
        mode = mode_of(words)
        modes.append(mode)
        if mode == SPARSE:
            there = words != 0
            flagged = np.flatnonzero(there.any(1))
            flags.append(sum(1 << word for word in flagged.tolist()))
            nibbles += (there[flagged] @ np.array([1, 2, 4, 8])).tolist()
            data += words[words != 0].tobytes()
        elif mode == DENSE:
            data += words.tobytes()
    return BitBlock(planes, modes, flags, nibbles, data)


def bit_plane(blocks, predictor, lane_bits=None, log2_length=11, extra_bits=0, lanes=32):
    """Section 9.2: a plane of blocks of bit planes, as bytes. `lane_bits` is W, by default as small as it can be."""
    lane_bits = (max(map(len, blocks)) // 2).bit_length() if lane_bits is None else lane_bits
    return plane_of([(block, b"") for block in blocks], predictor, BIT_PLANES, b"", (lane_bits, extra_bits), log2_length, lanes)


def signed(integers, bits):
    """Integers modulo 2^bits, in two's complement."""
    half = 1 << (bits - 1)
    return [(integer + half) % (1 << bits) - half for integer in integers]


def exact_bits(integers, predictor, bits=32):
    """A plane of exactly these integers in bit planes, which are dense."""
    numbers = numbers_of(integers, bits)
    blocks = [bit_block(numbers[at : at + 2048], lambda plane: DENSE).pack() for at in range(0, len(numbers), 2048)]
    return bit_plane(blocks, predictor)


def listed(indices, bits):
    """Section 4: the list of few exceptions, in a chunk of fewer than 2^32 values. `bits` are the exceptions' bits as bytes."""
    return struct.pack(f"<{len(indices)}I", *map(int, indices)) + bits + bytes(-len(bits) % 4)


def whole(element, coding, extents, body):
    """Sections 2 and 3: a stream. `element` may be a value type's number."""
    value_type = getattr(element, "value_type", element)
    left_out = list(extents).index(max(extents)) if coding == STORED else 0
    written = [extent for axis, extent in enumerate(extents) if coding != STORED or axis != left_out]
    return with_header(value_type, coding | len(extents) - 1 << 4 | left_out << 6, b"".join(map(leb128, written)), body)


def leb128(extent):
    """Section 3: an extent."""
    number, data = extent - 1, b""
    while number >= 0x80:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def with_header(value_type, packed, extents, body, version=0x90):
    """Sections 2 and 3: a stream whose byte 9 and extents are given as they are."""
    extents += bytes((2 - len(extents)) % 4)
    return fresh_checksum(b"QUI" + bytes([version, 0, 0, 0, 0, value_type, packed]) + extents + body)


def grid(half_step, offset=None, limits=None):
    """Section 4: a body up to its number of exceptions. An integer as half step is the bound of steps, or the divisor of decimals."""
    first = struct.pack("<Q" if isinstance(half_step, int) else "<d", half_step)
    if limits is not None:
        first = first[:7] + bytes([first[7] | 0x80])
    offset_bytes = b"" if offset is None else struct.pack("<q", offset)
    return first + offset_bytes + (b"" if limits is None else struct.pack("<2i", *limits))


def coding_of(element, half_step, offset=None):
    """Section 2: the coding of a body with this grid."""
    if isinstance(half_step, int):
        return DECIMAL if element.floating else STEPS
    return QUANTIZED if offset is None else LOGARITHMIC


def has_fine_grid(element, half_step):
    """Section 5.2: whether there is a fine grid, so that the plane may be interpolated and the body may have limits."""
    least = LEAST_STEP.get((FLOAT if element.kind == PAIR else element.kind, element.width))
    return least is not None and not isinstance(half_step, int) and 2 * half_step >= least


def with_grid(planes, extents, element, half_step, ones=0, offset=None, limits=None):
    """Section 4: a stream of a body with a grid. `ones` is its number of exceptions. `planes` begins with their list if there are few."""
    body = grid(half_step, offset, limits) + struct.pack("<I", ones) + planes
    return whole(element, coding_of(element, half_step, offset), extents, body)


def ones_of(mask, extents):
    """Section 4: the number of exceptions that a plane of their mask marks."""
    return int((read_plane(Reader(mask), extents, NARROW).codes() & 1).sum())


def positions_of(data, extents, element):
    """Section 5.2: the positions of a plane's values. Those of codes are 8 times the codes, or the ends of 32 bits."""
    plane = read_plane(Reader(data), extents, element.bits)
    return plane.positions(element.width) if plane.interpolated else 8 * np.clip(plane.codes(), NO_LOWER // 8, NO_UPPER // 8)
