"""Streams and parts of streams that the plugin's encoder would not write, made from FORMAT.md alone."""

import struct
import zlib
from typing import List, NamedTuple, Optional

import numpy as np

from quire_decoder import (
    BFLOAT, BIT_PLANES, BOOKS, CONSTANT, DECIMAL, DENSE, EMPTY, EXACT, FINER, FLOAT, INTERPOLATION, LEAST_STEP, LINEAR, LOGARITHMIC, NO_LOWER,
    NO_UPPER, PAIR, QUANTIZED, SPARSE, STEPS, STORED, SYMBOLS, TOKENS, VALUE_TYPES, Reader, book_of, interpolates, most_listed, read_dictionary,
    read_integers, read_plane, undo_differences, undo_interpolation,
)  # fmt: skip


EVERY_TYPE = (
    "<f2", ">f2", "<bfloat16", ">bfloat16", "<f4", ">f4", "<f8", ">f8",
    "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8",
)  # fmt: skip


class Element:
    """A type of values by the name that numpy has for it, or "<bfloat16", or ">bfloat16"."""

    def __init__(self, name):
        self.name = name
        self.dtype = np.dtype(name.replace("bfloat16", "u2"))  # of bfloat16 the bits'
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
    """The stream with the checksum that belongs to it, if it is long enough to have one."""
    if len(stream) < 8:
        return stream
    return stream[:4] + struct.pack("<I", zlib.crc32(stream[8:], zlib.crc32(stream[:4]))) + stream[8:]


def is_run(symbol):
    """Section 7."""
    return TOKENS[symbol][0] is not None


def packed_book(lengths, behind=0):
    """Section 8: a custom book, with the bit `behind` in place of the first one of its padding. Lengths above 12 are taken modulo 13."""
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


def codes_of(lengths):
    """Section 8: code and length of each symbol that has one."""
    book = book_of(lengths)
    codes = {}
    for prefix, (symbol, length) in enumerate(zip(book.symbol, book.length)):
        codes.setdefault(symbol, (prefix >> (12 - length), length))
    return codes


def coded_block(lengths, tokens, lanes=32):
    """Sections 7 and 9.1: lane words and extra words of a block of these symbols and their extra bits."""
    codes = codes_of(lengths)
    extra_bits = extra_size = 0
    for symbol, extra in tokens:
        extra_bits |= extra << extra_size
        extra_size += TOKENS[symbol][2]
    return lane_words([codes[symbol] for symbol, _ in tokens], lanes), [extra_bits >> at & 0xFFFF for at in range(0, extra_size, 16)]


def lane_words(tokens, lanes=32):
    """The lanes' words in the order in which section 9's decoder asks for them, from the tokens' codes and lengths."""
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


def token_plane(blocks, predictor, number, custom=b"", widths=None, log2_length=11, lanes=32):
    """Section 4: a plane of blocks of lane words and extra words; its index is as narrow as it can be unless the caller knows better."""
    wide = [max(len(block[part]) for block in blocks).bit_length() for part in (0, 1)] if widths is None else widths
    index = at = 0
    for block in blocks:
        for words, bits in zip(block, wide):
            index |= len(words) << at
            at += bits
    index_bytes = index.to_bytes((at + 31) // 32 * 4, "little")
    body = b"".join(struct.pack(f"<{len(words)}H", *words) for block in blocks for words in block)
    return plane_header(predictor, number, *wide, log2_length, lanes) + custom + index_bytes + body + bytes(-len(body) % 4)


class BitBlock(NamedTuple):
    """Section 9.2: the fields of a block of bit planes; some may be wrong."""

    planes: int
    modes: List[int]
    flags: List[int]
    nibbles: List[int]
    data: bytes
    padding: Optional[bytes] = None  # by default what is needed

    def pack(self):
        """The block's bytes: none if there are no planes and nothing else is said."""
        if not self.planes and not self.modes:
            return b""
        fields = max(self.planes, len(self.modes))
        modes = sum(mode << 2 * plane for plane, mode in enumerate(self.modes)).to_bytes((fields + 3) // 4, "little")
        nibbles = sum(nibble << 4 * at for at, nibble in enumerate(self.nibbles)).to_bytes((len(self.nibbles) + 1) // 2, "little")
        block = bytes([self.planes]) + modes + struct.pack(f"<{len(self.flags)}Q", *self.flags) + nibbles + self.data
        return block + (bytes(-len(block) % 4) if self.padding is None else self.padding)


def numbers_of(integers, bits):
    """Section 9.2: the numbers of integers of `bits` bits."""
    least = -(1 << (bits - 1))
    return np.array([(1 << bits) - 1 if v == least else 2 * v - 1 if v > 0 else -2 * v for v in map(int, integers)], np.uint64)


def bit_block(numbers, mode_of):
    """Section 9.2: a block of at most 2048 numbers; mode_of chooses a plane's mode, and sees its words as rows of four bytes."""
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
    """Sections 4 and 9.2: a plane of such blocks, whose index is as narrow as it can be unless the caller knows better."""
    sizes = [len(block) // 2 for block in blocks]
    wide = max(sizes).bit_length() if lane_bits is None else lane_bits
    entry = wide + extra_bits
    index = sum(size << entry * at for at, size in enumerate(sizes)).to_bytes((len(blocks) * entry + 31) // 32 * 4, "little")
    body = b"".join(blocks)
    return plane_header(predictor, BIT_PLANES, wide, extra_bits, log2_length, lanes) + index + body + bytes(-len(body) % 4)


def signed(integers, bits):
    """Integers modulo 2^bits, in two's complement."""
    half = 1 << (bits - 1)
    return [(integer + half) % (1 << bits) - half for integer in integers]


def exact_bits(integers, predictor, bits=32):
    """A plane of these integers in bit planes, all of them dense."""
    numbers = numbers_of(integers, bits)
    blocks = [bit_block(numbers[at : at + 2048], lambda plane: DENSE).pack() for at in range(0, len(numbers), 2048)]
    return bit_plane(blocks, predictor)


def listed(indices, bits):
    """Section 4: the list of few exceptions in a chunk of fewer than 2^32 values, with their bits as bytes, and padding."""
    return struct.pack(f"<{len(indices)}I", *map(int, indices)) + bits + bytes(-len(bits) % 4)


def whole(element, coding, extents, body):
    """Sections 2 and 3: a stream; element may be a value type's number."""
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
    """Section 4: a body up to its number of exceptions; an integer is the bound of steps or the divisor of decimals. `limits`: two positions."""
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


def any_kind(rng, extents):
    """Section 6.2: the predictor of a kind of interpolation."""
    steps, linear = divmod(int(rng.integers(6)), 2)
    return INTERPOLATION | FINER * steps | LINEAR * linear | int(rng.integers(1 << len(extents)))


def has_fine_grid(element, half_step):
    """Section 5.2: whether the plane of a quantized body may be interpolated, and whether the body may have limits."""
    least = LEAST_STEP.get((FLOAT if element.kind == PAIR else element.kind, element.width))
    return least is not None and not isinstance(half_step, int) and 2 * half_step >= least


def positions_of(plane, extents, element):
    """Section 5.2: the positions of a plane's values. Of differences they are 8 times the codes, where 32 bits hold that."""
    predictor, integers = read_integers(Reader(plane, 0), extents, element.bits)
    if interpolates(predictor, extents):
        return undo_interpolation(np.array(signed(integers, 32), np.int32), extents, predictor, element.width)
    codes = np.array(undo_differences(integers, extents, predictor, element.bits), np.int64)
    return 8 * np.clip(codes, NO_LOWER // 8, NO_UPPER // 8)


class Craft:
    """Streams that the plugin's encoder would not write: any book, any tokens, any index."""

    def __init__(self, rng):
        self.rng = rng
        self.loose = 0.0  # part of blocks with words that they are in no need of

    def stream(self, extents, element, half_step, offset=None):
        """A stream of a body with a grid, with exceptions in a list or in planes, or without any, and with limits or without."""
        rng = self.rng
        fine = offset is None and has_fine_grid(element, half_step)
        coded = fine and rng.random() < 0.5
        plane = self.plane(extents, 32 if coded else element.bits, any_kind(rng, extents) if coded else None)
        limits = self.limits(plane, extents, element) if fine and rng.random() < 1 / 3 else None
        count = int(np.prod(extents))
        most = min(most_listed(count), count)
        kind = rng.random()
        if kind < 0.6:
            mask = self.plane(extents, 32)
            ones = sum(value & 1 for value in read_plane(Reader(mask, 0), extents, 32))
            if ones > most:
                planes = plane + mask + self.plane((ones,), element.bits)
                return self.around(planes, extents, element, half_step, ones, offset, limits)
        ones = int(rng.choice([1, most, rng.integers(most + 1)])) if kind < 0.8 else 0
        indices = np.sort(rng.permutation(count)[:ones])
        planes = listed(indices, rng.bytes(ones * element.width)) + plane
        return self.around(planes, extents, element, half_step, ones, offset, limits)

    def limits(self, plane, extents, element):
        """Section 4: a lower and an upper limit, most of them about positions that the plane's values have."""
        rng = self.rng
        # A plane with words that it is in no need of cannot be read.
        there = np.array([0]) if self.loose else np.unique(positions_of(plane, extents, element))
        about = [int(position) for position in rng.choice(there, 2) + rng.integers(-20, 21, 2)]
        lower, upper = sorted(min(max(position, NO_LOWER), NO_UPPER) for position in about)
        ends = [NO_LOWER, NO_LOWER + 1, -1, 0, lower, NO_UPPER - 4, NO_UPPER - 3, NO_UPPER - 2, NO_UPPER - 1, NO_UPPER]
        far_lower, far_upper = sorted(int(position) for position in rng.choice(ends, 2))
        some = [(lower, upper)] * 4 + [(NO_LOWER, upper), (lower, NO_UPPER), (lower, lower), (far_lower, far_upper)]
        return some[int(rng.integers(len(some)))]

    def around(self, planes, extents, element, half_step, ones, offset=None, limits=None):
        """A stream of these planes, behind the list if there is one."""
        body = grid(half_step, offset, limits) + struct.pack("<I", ones) + planes
        return whole(element, coding_of(element, half_step, offset), extents, body)

    def any_stream(self, extents, element, coding):
        """A stream of a coding that fits the type."""
        rng = self.rng
        count = int(np.prod(extents))
        if coding in (STORED, CONSTANT):
            return whole(element, coding, extents, rng.bytes(element.width * (count if coding == STORED else 1)))
        if coding == EXACT:
            return whole(element, coding, extents, self.plane(extents, element.bits))
        if coding == STEPS:
            top = element.bits - 1
            return self.stream(extents, element, int(rng.choice([1, 2, 1 << rng.integers(top), (1 << top) - 1])))
        if coding == DECIMAL:
            return self.stream(extents, element, int(rng.choice([1, 3, 10, 100, 10**7, 1 << rng.integers(54), rng.integers(1, 1 << 53)])))
        if coding == QUANTIZED:
            return self.stream(extents, element, float(rng.choice([1e-12, 1e-3, 10.0, 1e30, 3e-309, 8e307, 7e-46])))
        half_step = 2.0 ** float(rng.choice([rng.uniform(-40, 8), rng.uniform(-1024, 1022), -24.0]))
        far = int(rng.uniform(-1, 1) * 2.0 ** rng.uniform(0, 63))
        offset = int(rng.choice([0, int(rng.normal(0, 2000)), far, -(1 << 63), (1 << 63) - 1]))
        return self.stream(extents, element, half_step, offset)

    def lengths(self):
        """Lengths of a complete book, with a symbol for single differences."""
        rng = self.rng
        lengths = [1, 1]
        for _ in range(int(rng.integers(0, SYMBOLS - 1))):
            at = int(rng.integers(len(lengths)))
            if rng.random() < 0.3:
                at = int(np.argmax(lengths))
            if lengths[at] < 12:
                lengths[at] += 1
                lengths.append(lengths[at])
        symbols = [int(symbol) for symbol in rng.permutation(SYMBOLS)]
        if rng.random() < 0.3:
            symbols.sort(key=is_run)  # no runs, or few
        if all(is_run(symbol) for symbol in symbols[: len(lengths)]):
            symbols.insert(0, symbols.pop(next(at for at, symbol in enumerate(symbols) if not is_run(symbol))))
        book = [0] * SYMBOLS
        for symbol, length in zip(symbols, lengths):
            book[symbol] = length
        return book

    def plane(self, extents, bits, predictor=None):
        """A plane of random tokens or of random bits, with this predictor or any that is allowed."""
        rng = self.rng
        count = int(np.prod(extents))
        if predictor is None:
            predictor = int(rng.integers(1 << len(extents)))
        if rng.random() < 0.5:
            blocks = [self.bit_block(min(2048, count - at), bits) for at in range(0, count, 2048)]
            return bit_plane(blocks, predictor, 32 if rng.random() < 0.1 else None)
        custom, number = b"", int(rng.integers(BOOKS))
        lengths = list(read_dictionary()[number])
        if rng.random() < 0.6:
            number, lengths = 255, self.lengths()
            custom = packed_book(lengths)
        log2_length, lanes = int(rng.integers(11, 17)), int(rng.choice([8, 32]))
        blocks = [
            self.block(lengths, min(1 << log2_length, count - at), lanes) for at in range(0, count, 1 << log2_length)
        ]
        wide = [max(len(block[part]) for block in blocks).bit_length() for part in (0, 1)]
        if rng.random() < 0.3:
            wide = [int(rng.integers(w, 33)) for w in wide]
        return token_plane(blocks, predictor, number, custom, wide, log2_length, lanes)

    def exactly(self, integers, predictor):
        """A plane of at most 2048 integers of at most 32 bits, in tokens."""
        packed = packed_book([1 if symbol in (30, 67) else 0 for symbol in range(SYMBOLS)])
        lanes = lane_words([(1, 1)] * len(integers))  # symbol 67 for each: 2^28 and more, which may wrap, by 33 extra bits
        extra = sum((int(value) - (1 << 28)) % (1 << 32) << (33 * at + 1) for at, value in enumerate(integers))
        extras = [extra >> at & 0xFFFF for at in range(0, 33 * len(integers), 16)]
        words = struct.pack(f"<{len(lanes) + len(extras)}H", *lanes, *extras)
        index = struct.pack("<HH", len(lanes), len(extras))
        return plane_header(predictor, 255, 16, 16) + packed + index + words + bytes(-len(words) % 4)

    def bit_block(self, count, bits):
        """A block of bit planes: few planes or all, few numbers or many, and any mode that is allowed (section 9.2)."""
        rng = self.rng
        top = int(rng.choice([0, 1, rng.integers(bits + 1), bits]))
        numbers = np.frombuffer(rng.bytes(8 * count), np.uint64) & np.uint64((1 << top) - 1)
        numbers[rng.random(count) < rng.choice([0, 0.9, 0.99])] = 0
        if rng.random() < 0.2:
            numbers &= np.uint64(sum(1 << plane for plane in range(bits) if rng.random() < 0.1))  # planes that are all 0
        if rng.random() < 0.3:
            numbers[int(rng.integers(count))] = (1 << bits) - 1  # the least integer
        words = bit_block(numbers, lambda plane: int(rng.choice([DENSE, SPARSE] if plane.any() else [EMPTY, DENSE]))).pack()
        if rng.random() < self.loose:
            words += bytes(int(byte) * int(rng.integers(2)) for byte in rng.integers(256, size=2 * rng.integers(1, 5)))
        return words

    def block(self, lengths, count, lanes):
        """Lane words and extra words of a block (sections 7, 9)."""
        rng = self.rng
        there = list(codes_of(lengths))
        weights = np.array([2.0 ** -lengths[s] for s in there]) if rng.random() < 0.5 else np.ones(len(there))
        chosen = iter(())
        tokens = []
        while count:
            symbol = next(chosen, None)
            if symbol is None:
                chosen = iter([int(s) for s in rng.choice(there, 200, p=weights / weights.sum())])
                continue
            first, start, bits = TOKENS[symbol]
            extra = int.from_bytes(rng.bytes(8), "little") >> (64 - bits)
            size = 1 if first is None else start + extra
            if size > count:
                continue
            count -= size
            tokens.append((symbol, extra))
        words, extras = coded_block(lengths, tokens, lanes)
        if rng.random() < self.loose:
            more = [int(word) * int(rng.integers(2)) for word in rng.integers(1 << 16, size=rng.integers(1, 70))]
            (words if rng.random() < 0.7 else extras).extend(more)
        return words, extras
