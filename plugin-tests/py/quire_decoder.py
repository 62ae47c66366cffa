#!/usr/bin/env python3
"""A decoder of Quire streams 1.0 in Python and numpy, written from FORMAT.md alone (no code is shared with the plugin).

    python3 quire_decoder.py FILE...     decodes files of one raw stream each to stdout

It is there to be read beside FORMAT.md and to check the plugin against; it is not meant to be fast.
"""

import math
import operator
import struct
import sys
import zlib
from itertools import accumulate, product
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

DICTIONARY = Path(__file__).resolve().parent / ".." / ".." / "codec" / "dictionary" / "books.bin"
DEFAULT_LIMIT = 1 << 30

STORED, CONSTANT, QUANTIZED, EXACT, STEPS, LOGARITHMIC, DECIMAL = range(7)
FLOAT, BFLOAT, SIGNED, UNSIGNED, PAIR = "f", "b", "i", "u", "c"  # kinds of value types
# §3: kind of each value type, and bytes of a value.
INTEGERS = tuple((kind, width) for width in (1, 2, 4, 8) for kind in (SIGNED, UNSIGNED))
VALUE_TYPES = ((FLOAT, 4), (FLOAT, 8), (FLOAT, 2), (BFLOAT, 2), *INTEGERS, (PAIR, 4), (PAIR, 8))
INTERPOLATION = 128  # the bit of predictors that are no sets of axes; cubic, without rough axes
LINEAR = 16  # the bit of linear interpolation
FINER, HALVED = 32, 64  # the bits of finer and of halved steps on coarse levels
LEAST_STEP = {(FLOAT, 4): 1e-28, (FLOAT, 8): 1e-290}  # of a fine grid, by the value type; others have none
FINE = float.fromhex("0x1.ff7f9fb7c9d76p-4")  # distance of neighbouring positions of the fine grid, in steps: (1020 / 1021) / 8
CUSTOM_BOOK = 255
LN_2 = float.fromhex("0x1.62e42fefa39efp-1")  # 0x3FE62E42FEFA39EF
BIT_PLANES = 254  # instead of a codebook's number
SYMBOLS = 106
BOOKS = 75
LONGEST_CODE = 12
MOST_BOOK_BYTES = 96  # of a custom book, in which each difference has up to 7 bits
NARROW = 32  # bits of the integers of residuals and of the mask, whatever the values have
NO_LOWER, NO_UPPER = -(1 << 31), (1 << 31) - 1  # limits that are none
LANES = (range(32), range(8))  # of a block, by bit 15 of its plane's header


class StreamError(ValueError):
    """The stream breaks a rule of FORMAT.md; says which section's."""

    def __init__(self, section: str, reason: str) -> None:
        super().__init__(f"§{section}: {reason}")
        self.section = section
        self.reason = reason


class Header(NamedTuple):
    """§3: what the header says."""

    kind: str  # of the value type; of pairs, that of their parts
    width: int  # bytes of a value: 1, 2, 4 or 8
    big_endian: bool
    coding: int
    extents: Tuple[int, ...]
    count: int  # values of the chunk
    pairs: bool = False  # whether the chunk's elements are pairs of values

    @property
    def bits(self) -> int:
        """§3: the bits of a code."""
        return 64 if self.width == 8 else 32

    @property
    def integer(self) -> bool:
        """§3: whether values are integers."""
        return self.kind in (SIGNED, UNSIGNED)


class Grid(NamedTuple):
    """§4: the rounding grid of a body."""

    half_step: float  # coding 4: the bound, an integer; coding 6: the divisor, an integer
    offset: int = 0  # of coding 5, in steps
    limits: Optional[Tuple[int, int]] = None  # of coding 2: the positions of the lower and of the upper one

    @property
    def step(self) -> float:
        """§5.1: the step of any grid but that of §5.4."""
        return 2 * self.half_step


class Book(NamedTuple):
    """§8: a codebook as tables by the next 12 bits."""

    symbol: List[int]
    length: List[int]


class Reader:
    """§1: the bytes of a stream, read from the front."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, size: int, section: str, what: str) -> bytes:
        """The next `size` bytes."""
        if size > len(self.data) - self.at:
            raise StreamError(section, f"the bytes end within {what}")
        self.at += size
        return self.data[self.at - size : self.at]

    def padding(self, section: str) -> None:
        """§4: bytes of 0 up to a multiple of 4 bytes."""
        if any(self.take(-self.at % 4, section, "padding")):
            raise StreamError(section, "padding that is not 0")


# ---------------------------------------------------------------------------------------------------- §2, §3: stream


def decode(stream: bytes, limit: int = DEFAULT_LIMIT) -> bytes:
    """§2: the chunk's bytes.

    limit: the most bytes to give; few bytes can encode 2^48 values.
    """
    stream = bytes(stream)
    header, reader = read_header(stream)
    if header.count * header.width > limit:
        raise StreamError("3", f"{header.count} values are more than the caller's limit of {limit} bytes")
    if header.coding == STORED:
        chunk = reader.take(header.count * header.width, "2", "a stored body")
    elif header.coding == CONSTANT:
        chunk = reader.take(header.width, "2", "a constant body") * header.count
    elif header.coding == EXACT:
        chunk = chunk_of(values_of_exact(read_plane(reader, header.extents, header.bits), header), header)
    else:
        chunk = chunk_of(read_on_grid(reader, header), header)
    if reader.at != len(stream):
        raise StreamError("2", f"{len(stream) - reader.at} bytes follow the body")
    return side_by_side(chunk, header.width) if header.pairs else chunk


def side_by_side(values: bytes, width: int) -> bytes:
    """§3: the pairs of an array of all first parts and all second parts."""
    return np.frombuffer(values, f"V{width}").reshape(2, -1).T.tobytes()


def read_header(stream: bytes) -> Tuple[Header, Reader]:
    """§3: the header, and a reader at the byte behind it."""
    reader = Reader(stream, 0)
    magic, version, checksum, value_type, packed = struct.unpack("<3sBIBB", reader.take(10, "3", "the header"))
    if magic != b"QUI":
        raise StreamError("3", "no Quire stream: wrong magic")
    if version == ord("R"):
        raise StreamError("1", f"a stream of version {stream[4]}.{stream[5]}; this decoder reads 1.0")
    if version != 0x90:
        raise StreamError("1", f"a stream with the version byte {version:#x}; this decoder reads 1.0")
    if checksum != checksum_of(stream):
        raise StreamError("3", "wrong checksum")
    if value_type & 0x7F >= len(VALUE_TYPES):
        raise StreamError("3", f"value type {value_type & 0x7F} is reserved")
    kind, width = VALUE_TYPES[value_type & 0x7F]
    coding, rank, left_out = packed & 15, (packed >> 4 & 3) + 1, packed >> 6
    if coding > DECIMAL:
        raise StreamError("2", f"coding {coding} is reserved")
    if left_out >= (rank if coding == STORED else 1):
        raise StreamError("3", f"left-out extent {left_out} of a chunk of rank {rank}")
    extents = [1 if coding == STORED and axis == left_out else read_extent(reader) for axis in range(rank)]
    reader.padding("3")
    if coding == STORED:
        extents[left_out], rest = divmod(len(stream) - reader.at, width * math.prod(extents))
        if rest or not extents[left_out]:
            raise StreamError("3", f"{len(stream) - reader.at} stored bytes of extents {extents}")
        if left_out != extents.index(max(extents)):
            raise StreamError("3", f"extent {left_out} of {extents} is left out")
    count = math.prod(extents)
    if count > 1 << 48:
        raise StreamError("3", "more than 2^48 values")
    if kind == PAIR and extents[0] % 2:
        raise StreamError("3", f"pairs with the slowest extent {extents[0]}")
    header = Header(FLOAT if kind == PAIR else kind, width, value_type >= 0x80, coding, tuple(extents), count, kind == PAIR)
    if coding in (QUANTIZED, LOGARITHMIC, DECIMAL) and header.integer or coding == STEPS and not header.integer:
        raise StreamError("2", f"coding {coding} of value type {value_type & 0x7F}")
    return header, reader


def read_extent(reader: Reader) -> int:
    """§3: an extent."""
    number = 0
    for place in range(7):
        (byte,) = reader.take(1, "3", "an extent")
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if place and not byte:
                raise StreamError("3", "an extent whose last byte is 0")
            return number + 1
    raise StreamError("3", "an extent of more than 7 bytes")


def checksum_of(stream: bytes) -> int:
    """§3: CRC-32 of all bytes but those of the checksum."""
    return zlib.crc32(stream[8:], zlib.crc32(stream[:4]))


# ---------------------------------------------------------------------------------------- §4, §5: body, quantization


def read_on_grid(reader: Reader, header: Header) -> np.ndarray:
    """§4: the bits of the values of a body with a grid."""
    grid = read_grid(reader, header)
    exceptions = read_exceptions(reader, header)
    listed = exceptions <= most_listed(header.count)
    indices, numbers = read_list(reader, exceptions if listed else 0, header)
    values = within_limits(read_values(reader, header, grid), grid, header)
    if not listed:
        mask = read_plane(reader, header.extents, NARROW)
        indices = [index for index, value in enumerate(mask) if value & 1]
        if len(indices) != exceptions:
            raise StreamError("5.1", f"the mask has {len(indices)} ones, the body's header says {exceptions}")
        numbers = low_bits(read_plane(reader, (exceptions,), header.bits), header)
    values[indices] = numbers
    return values


def read_grid(reader: Reader, header: Header) -> Grid:
    """§4: the grid, up to the number of exceptions."""
    first = reader.take(8, "4", "the grid")
    if header.coding == STEPS:
        (bound,) = struct.unpack("<Q", first)
        if not 1 <= bound < 1 << (header.bits - 1):
            raise StreamError("4", f"steps with a bound of {bound}")
        return Grid(bound)
    if header.coding == DECIMAL:
        (divisor,) = struct.unpack("<Q", first)
        if not 1 <= divisor <= 1 << 53:
            raise StreamError("4", f"a divisor of {divisor}")
        return Grid(divisor)
    (half_step,) = struct.unpack("<d", first)
    limited = header.coding == QUANTIZED and first[7] >= 0x80
    if limited:
        half_step = abs(half_step)
    if not (math.isfinite(half_step) and half_step > 0):
        raise StreamError("4", f"half step {half_step}")
    step = 2 * half_step
    if not (math.isfinite(step) and math.isfinite(1 / step)):
        raise StreamError("4", f"half step {half_step}: twice it or its reciprocal is not finite")
    if header.coding == LOGARITHMIC:
        return Grid(half_step, *struct.unpack("<q", reader.take(8, "4", "the grid's offset")))
    return Grid(half_step, limits=read_limits(reader, header, step) if limited else None)


def read_limits(reader: Reader, header: Header, step: float) -> Tuple[int, int]:
    """§4: the limits' positions."""
    lower, upper = struct.unpack("<ii", reader.take(8, "4", "the limits"))
    check_fine_grid(header, step, "limits")
    if lower > upper:
        raise StreamError("4", f"a lower limit of {lower} above an upper one of {upper}")
    return lower, upper


def read_exceptions(reader: Reader, header: Header) -> int:
    """§4: the number of exceptions."""
    exceptions = int.from_bytes(reader.take(index_width(header), "4", "the number of exceptions"), "little")
    if exceptions > header.count:
        raise StreamError("4", f"{exceptions} exceptions among {header.count} values")
    return exceptions


def index_width(header: Header) -> int:
    """§4: the bytes of the number of exceptions, and of the index of one."""
    return 4 if header.count < 1 << 32 else 8


def most_listed(count: int) -> int:
    """§4: the most exceptions that a chunk of this number of values may list."""
    return 16 + count // 4096


def read_list(reader: Reader, exceptions: int, header: Header) -> Tuple[List[int], np.ndarray]:
    """§4: the list of few exceptions, or of none: where they are, and their bits."""
    width = index_width(header)
    data = reader.take(exceptions * width, "4", "the list of exceptions")
    indices = list(struct.unpack(f"<{exceptions}{'I' if width == 4 else 'Q'}", data))
    if any(one >= following for one, following in zip(indices, indices[1:])):
        raise StreamError("4", "the list's indices do not ascend")
    if indices and indices[-1] >= header.count:
        raise StreamError("4", f"an exception at index {indices[-1]} of {header.count} values")
    numbers = np.frombuffer(reader.take(exceptions * header.width, "4", "the exceptions' bits"), f"<u{header.width}")
    reader.padding("4")
    return indices, numbers


def read_values(reader: Reader, header: Header, grid: Grid) -> np.ndarray:
    """§5: the bits of the first plane's values, before there are exceptions."""
    predictor, integers = read_integers(reader, header.extents, header.bits)
    if not interpolates(predictor, header.extents):
        codes = undo_differences(integers, header.extents, predictor, header.bits)
        values_of = {QUANTIZED: values_of_codes, STEPS: values_of_steps, LOGARITHMIC: values_of_logarithms, DECIMAL: values_of_decimals}
        return values_of[header.coding](codes, grid, header)
    if header.coding != QUANTIZED:
        raise StreamError("4", f"an interpolated plane of coding {header.coding}")
    check_fine_grid(header, grid.step, "an interpolated plane")
    positions = undo_interpolation(np.array(wrapped(integers, NARROW), np.int32), header.extents, predictor, header.width)
    return values_of_positions(positions, grid, header)


def values_of_codes(codes: Sequence[int], grid: Grid, header: Header) -> np.ndarray:
    """§5.1: the values on the grid of differences."""
    with np.errstate(over="ignore"):
        return rounded(np.array(codes, np.int64).astype(np.float64) * grid.step, header)


def rounded(values: np.ndarray, header: Header) -> np.ndarray:
    """§5.1: the bits of numbers of binary64, rounded once to the header's type."""
    with np.errstate(over="ignore", under="ignore"):
        if header.kind != BFLOAT:
            return values.astype(f"f{header.width}").view(f"u{header.width}")
        # A bfloat16 has 8 bits from the highest one on, and none below 2^-133. They are the upper half of a binary32's.
        _, exponents = np.frexp(values)
        unit = np.ldexp(1.0, np.maximum(exponents, -125) - 8)
        return (np.float32(np.rint(values / unit) * unit).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def values_of_positions(positions: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """§5.2: the values on the fine grid."""
    # In 32 bits, so that the last four positions wrap to the first steps.
    steps = (positions + np.int32(4)) // np.int32(8)
    rest = positions - np.int32(8) * steps
    with np.errstate(over="ignore"):
        return rounded(steps * grid.step + rest * (grid.step * FINE), header)


def check_fine_grid(header: Header, step: float, what: str) -> None:
    """§5.2: which chunks have a fine grid."""
    if (header.kind, header.width) not in LEAST_STEP:
        raise StreamError("5.2", f"{what} of another type than binary32 and binary64")
    if step < LEAST_STEP[header.kind, header.width]:
        raise StreamError("5.2", f"{what} with a step of {step}")


def within_limits(bits: np.ndarray, grid: Grid, header: Header) -> np.ndarray:
    """§5.1: the values' bits after the limits have replaced values."""
    if grid.limits is None:
        return bits
    lower, upper = grid.limits
    values = bits.view(f"f{header.width}")
    least, greatest = values_of_positions(np.array(grid.limits, np.int32), grid, header).view(values.dtype)
    if lower != NO_LOWER:
        values = np.where(values < least, least, values)
    if upper != NO_UPPER:
        values = np.where(values > greatest, greatest, values)
    return values.view(bits.dtype)


def values_of_exact(codes: Sequence[int], header: Header) -> np.ndarray:
    """§5.3: the values of codes."""
    bits = low_bits(codes, header)
    if header.integer:
        return bits
    sign = 1 << (8 * header.width - 1)
    return np.where(bits >= sign, bits ^ bits.dtype.type(sign - 1), bits)


def low_bits(integers: Sequence[int], header: Header) -> np.ndarray:
    """§4, §5.3: those bits of integers that a value has."""
    mask = (1 << 8 * header.width) - 1
    return np.array([integer & mask for integer in integers], f"u{header.width}")


def values_of_steps(codes: Sequence[int], grid: Grid, header: Header) -> np.ndarray:
    """§5.4: the values on the grid of integers."""
    bits = 8 * header.width
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if header.kind == SIGNED else (0, (1 << bits) - 1)
    step = 2 * grid.half_step + 1
    return low_bits([min(max(code * step, least), most) for code in codes], header)


def values_of_logarithms(codes: Sequence[int], grid: Grid, header: Header) -> np.ndarray:
    """§5.5: the values on the grid of logarithms."""
    logarithms = np.array(wrapped([abs(code) + grid.offset for code in codes], 64), np.int64)
    signs = np.sign(np.array(codes, np.int64))
    with np.errstate(over="ignore"):
        return rounded(np.where(signs, np.copysign(exponential(logarithms.astype(np.float64) * grid.step, header), signs), 0.0), header)


def values_of_decimals(codes: Sequence[int], grid: Grid, header: Header) -> np.ndarray:
    """§5.6: the values of codes over a divisor."""
    return rounded(np.array(codes, np.int64).astype(np.float64) / np.float64(grid.half_step), header)


def exponential(numbers: np.ndarray, header: Header) -> np.ndarray:
    """§5.5: exp2(y), which is about 2^y."""
    terms = [1.0]
    for number in range(1, 15 if header.width == 8 else 9):
        terms.append(terms[-1] * LN_2 / number)
    numbers = np.clip(numbers, -2000, 2000)
    whole = np.rint(numbers)
    part = numbers - whole
    series = np.full(part.shape, terms[-1])
    for term in reversed(terms[:-1]):
        series = series * part + term
    with np.errstate(over="ignore", under="ignore"):
        power = np.where(whole < -1022, 0.0, np.ldexp(1.0, whole.astype(int)))
        return series * power


def chunk_of(values: np.ndarray, header: Header) -> bytes:
    """§5.1: the chunk's bytes from the values' bits, in the chunk's byte order."""
    return values.astype(values.dtype.newbyteorder(">" if header.big_endian else "<")).tobytes()


# -------------------------------------------------------------------------------------------------------- §4: planes


def read_plane(reader: Reader, extents: Sequence[int], bits: int) -> List[int]:
    """§4: a plane of signed integers of `bits` bits, which are differences."""
    predictor, differences = read_integers(reader, extents, bits)
    return undo_differences(differences, extents, predictor, bits)


def read_integers(reader: Reader, extents: Sequence[int], bits: int) -> Tuple[int, List[int]]:
    """§4: a plane's predictor and the numbers that it codes: differences modulo 2^bits, or residuals."""
    predictor, number, word = struct.unpack("<BBH", reader.take(4, "4", "a plane's header"))
    log2_length, lane_bits, extra_bits = 11 + (word & 7), word >> 3 & 63, word >> 9 & 63
    if log2_length > 16:
        raise StreamError("4", f"block length 2^{log2_length}")
    if lane_bits > 32 or extra_bits > 32:
        raise StreamError("4", f"W = {lane_bits}, E = {extra_bits}")
    lanes = LANES[word >> 15]
    if number == BIT_PLANES and (log2_length, extra_bits, len(lanes)) != (11, 0, 32):
        raise StreamError("9.2", f"bit planes in blocks of 2^{log2_length}, E = {extra_bits}, {len(lanes)} lanes")
    book = None if number == BIT_PLANES else read_custom_book(reader) if number == CUSTOM_BOOK else dictionary_book(number)
    count = math.prod(extents)
    block_length = 1 << log2_length
    index = read_index(reader, -(-count // block_length), lane_bits, extra_bits)
    integers: List[int] = []
    for lane_words, extra_words in index:
        length = min(block_length, count - len(integers))
        if book is None:
            block = reader.take(2 * lane_words, "4", "a block of bit planes")
            integers += read_bit_planes(block, length, NARROW if interpolates(predictor, extents) else bits)
            continue
        words = read_words(reader, lane_words, "lane words")
        extras = read_words(reader, extra_words, "extra words")
        read_block(words, lanes, extras, length, book, integers)
    reader.padding("4")
    return predictor, integers


def read_index(reader: Reader, blocks: int, lane_bits: int, extra_bits: int) -> List[Tuple[int, int]]:
    """§4: for each block the numbers of its lane words and its extra words."""
    entry = lane_bits + extra_bits
    data = reader.take((blocks * entry + 7) // 8, "4", "a plane's index")
    index = []
    for block in range(blocks):
        both = bits_at(data, block * entry, entry)
        index.append((both & ((1 << lane_bits) - 1), both >> lane_bits))
    used = blocks * entry
    if bits_at(data, used, 8 * len(data) - used):
        raise StreamError("4", "bits behind a plane's index that are not 0")
    reader.padding("4")
    return index


def bits_at(data: bytes, at: int, size: int) -> int:
    """§4: `size` bits from bit `at` on, least significant bits first."""
    some = int.from_bytes(data[at >> 3 : (at + size + 7) >> 3], "little")
    return some >> (at & 7) & ((1 << size) - 1)


def read_words(reader: Reader, count: int, what: str) -> Tuple[int, ...]:
    """§4: `count` words of 16 bits."""
    data = reader.take(2 * count, "4", what)
    return struct.unpack(f"<{count}H", data)


# ------------------------------------------------------------------------------------------------- §6.1: differences


def undo_differences(plane: List[int], extents: Sequence[int], axes: int, bits: int) -> List[int]:
    """§6.1: prefix sums along the axes of the set, then modulo 2^bits, signed."""
    if axes >> len(extents):
        raise StreamError("4", f"predictor {axes:#x} of a plane of rank {len(extents)}")
    stride = 1
    for axis, extent in enumerate(reversed(extents)):
        if axes >> axis & 1 and extent > 1:
            sum_along(plane, extent, stride)
        stride *= extent
    return wrapped(plane, bits)


def wrapped(integers: Sequence[int], bits: int) -> List[int]:
    """§6: the integers modulo 2^bits, signed."""
    half = 1 << (bits - 1)
    low = (1 << bits) - 1
    return [((value + half) & low) - half for value in integers]


def sum_along(plane: List[int], extent: int, stride: int) -> None:
    """§6.1: prefix sums along one axis, for every line of it."""
    for start in range(0, len(plane), extent * stride):
        end = start + extent * stride
        if stride < extent:
            for line in range(start, start + stride):
                plane[line:end:stride] = accumulate(plane[line:end:stride])
        else:
            for at in range(start + stride, end, stride):
                before = plane[at - stride : at]
                plane[at : at + stride] = map(operator.add, before, plane[at : at + stride])


# ----------------------------------------------------------------------------------------------- §6.2: interpolation

# The weights of a, b, c and d by which of a, c and d exist.
WEIGHTS = {
    (True, True, True): (-1, 9, 9, -1),
    (False, True, True): (0, 6, 12, -2),
    (True, True, False): (-2, 12, 6, 0),
    (False, True, False): (0, 8, 8, 0),
    (True, False, False): (-8, 24, 0, 0),
    (False, False, False): (0, 16, 0, 0),
}
LINEAR_WEIGHTS = {True: (0, 8, 8, 0), False: (0, 16, 0, 0)}
# §6.2: positions that a residual of 1 is worth on levels 0, 1, 2, and 3 and coarser.
WORTH = {0: (8, 8, 8, 8), FINER: (8, 6, 4, 3), HALVED: (8, 4, 2, 1)}


def interpolates(predictor: int, extents: Sequence[int]) -> bool:
    """§6.2: whether a plane's predictor is interpolation: the bits of the rank and that of linear interpolation are free."""
    return predictor & ~LINEAR & -1 << len(extents) in (INTERPOLATION, INTERPOLATION | FINER, INTERPOLATION | HALVED)


def undo_interpolation(residuals: np.ndarray, extents: Sequence[int], predictor: int, width: int) -> np.ndarray:
    """§6.2: the positions of a chunk, in C order, from the line of their residuals. `width`: the values' bytes."""
    positions = np.zeros(extents, np.int32)
    last_level = (max(extents) - 1).bit_length()
    positions.reshape(-1)[:1] = restored(np.zeros(1, np.int64), residuals[:1], predictor, last_level, width)
    at = 1
    for stride, axes, there in classes(extents):
        shape = positions[there].shape
        level = positions[(slice(None, None, stride),) * len(extents)]
        some = residuals[at : at + math.prod(shape)].reshape(shape)
        positions[there] = restored(prediction(level, axes, predictor), some, predictor, stride.bit_length() - 1, width)
        at += some.size
    assert at == len(residuals)
    return positions.reshape(-1)


def classes(extents: Sequence[int]) -> Iterator[Tuple[int, Tuple[int, ...], Tuple[slice, ...]]]:
    """§6.2: the parity classes that have values, in order: the level's stride, the axes (0 is the slowest), where the values are."""
    rank = len(extents)
    for level, number in product(reversed(range((max(extents) - 1).bit_length())), sorted(range(1, 1 << rank), key=class_order)):
        stride = 1 << level
        axes = tuple(rank - 1 - bit for bit in range(rank) if number >> bit & 1)
        if all(extents[axis] > stride for axis in axes):
            yield stride, axes, tuple(slice(stride * (axis in axes), None, 2 * stride) for axis in range(rank))


def class_order(number: int) -> Tuple[int, int]:
    """§6.2: what sets of axes are ordered by."""
    return bin(number).count("1"), number


def on_grid(positions: np.ndarray, width: int) -> np.ndarray:
    """§5.2: the grid's nearest positions, before they wrap."""
    return nearest_multiples(positions, distances_at(positions, width))


def distances_at(positions: np.ndarray, width: int) -> np.ndarray:
    """§5.2: g, the distance of the grid's positions."""
    magnitudes = np.abs(positions.astype(np.int64))
    return 1 << sum(((width == 4) & (magnitudes >= 1 << bits)).astype(np.int64) for bits in (13, 14, 15))


def nearest_multiples(positions: np.ndarray, of: np.ndarray) -> np.ndarray:
    """§5.2: of two, the greater."""
    return (positions.astype(np.int64) + of // 2) // of * of


def restored(predictions: np.ndarray, residuals: np.ndarray, predictor: int, level: int, width: int) -> np.ndarray:
    """§6.2: positions from predictions and residuals."""
    wide = residuals.astype(np.int64)
    distances = np.where(np.abs(wide) < 65536, worth_at(predictions, predictor, level, width) * wide, wide - 98304)
    return on_grid((predictions + distances).astype(np.int32), width).astype(np.int32)


def worth_at(predictions: np.ndarray, predictor: int, level: int, width: int) -> np.ndarray:
    """§6.2: S, the positions that a residual of 1 is worth."""
    return np.where(distances_at(predictions, width) > 1, 8, WORTH[predictor & (FINER | HALVED)][min(level, 3)])


def prediction(level: np.ndarray, odd: Tuple[int, ...], predictor: int) -> np.ndarray:
    """§6.2: the predictions of a parity class. Sums of 64 bits do not wrap, so that one cut to 32 bits at the end is enough."""
    smooth = [axis for axis in odd if not predictor >> (level.ndim - 1 - axis) & 1]
    sums, between = zip(*(along(level, axis, odd, bool(predictor & LINEAR)) for axis in smooth or odd))
    any_between = np.any(np.broadcast_arrays(*between), axis=0)
    count, total = np.int64(0), np.int64(0)
    for one_sum, one_between in zip(sums, between):
        counts = one_between | ~any_between
        count = count + counts
        total = total + np.where(counts, one_sum, 0)
    return (total + 8 * count).astype(np.int32) // (16 * count)


def along(level: np.ndarray, axis: int, odd: Tuple[int, ...], linear: bool) -> Tuple[np.ndarray, np.ndarray]:
    """§6.2: the prediction along one axis, in sixteenths, and which values have a neighbour behind them on that axis."""
    even = level[tuple(slice(one in odd and one != axis, None, 2) for one in range(level.ndim))]
    # Odd index 2j + 1 has b at j of the even ones, a at j - 1, c at j + 1 and d at j + 2.
    beside = np.arange(level.shape[axis] // 2)[:, None] + np.array([-1, 0, 1, 2])
    exist = (0 <= beside) & (beside < even.shape[axis])
    weights = np.array([LINEAR_WEIGHTS[bool(c)] if linear else WEIGHTS[bool(a), bool(c), bool(d)] for a, _, c, d in exist], np.int64)
    upright = tuple(-1 if one == axis else 1 for one in range(level.ndim))
    total = np.int64(0)
    for neighbour in range(4):
        values = even.take(beside[:, neighbour], axis, mode="clip")  # those clipped weigh nothing
        total = total + weights[:, neighbour].reshape(upright) * values
    return total, exist[:, 2].reshape(upright)


# ----------------------------------------------------------------------------------------------- §7, §9.1: one block


def token_table() -> List[Tuple[Optional[int], int, int]]:
    """§7: for each symbol what a run begins with, or None; start, extra bits. A plain difference is in no need of its row."""
    runs = [(2, 0), (3, 0), (4, 1), (6, 1), (8, 2), (12, 2), (16, 3), (24, 3)]
    runs += [(1 << bits, bits) for bits in range(5, 11)] + [(2048, 0)]
    classes = [((1 << o) + (h << (o - 1)), o) for o in range(4, 10) for h in (0, 1)]
    classes += [(1 << o, o + 1) for o in range(10, 16)]
    classes += [(1 << (16 + 4 * g), 21 + 4 * g) for g in range(11)] + [(1 << 60, 64)]
    table: List[Tuple[Optional[int], int, int]] = [(0, start, bits) for start, bits in runs]
    table += [(None, symbol - 30, 0) for symbol in range(15, 46)]
    table += [(None, start, bits) for start, bits in classes]
    table += [(first, start, bits) for first in (-1, 1) for start, bits in runs]
    assert len(table) == SYMBOLS
    return table


TOKENS = token_table()


def read_block(lane_words: Sequence[int], lanes: range, extras: Sequence[int], count: int, book: Book, out: List[int]) -> None:
    """§7, §9.1: appends the `count` differences of a block to `out`."""
    tokens, symbols, lengths = TOKENS, book.symbol, book.length
    append, extend = out.append, out.extend
    # Words behind the lane words are 0.
    words = iter(lane_words)
    buffer = [next(words, 0) << 16 for _ in lanes]
    for lane in lanes:
        buffer[lane] |= next(words, 0)
    available = [32 for _ in lanes]
    left = count
    extra_count = len(extras)
    extra_at = extra_buffer = extra_available = 0
    while left:
        for lane in lanes:
            buffered = buffer[lane]
            prefix = buffered >> 20
            symbol = symbols[prefix]
            length = lengths[prefix]
            buffer[lane] = buffered << length & 0xFFFFFFFF
            available[lane] -= length
            if 15 <= symbol <= 45:
                append(symbol - 30)
                left -= 1
            else:
                first, number, bits = tokens[symbol]
                while extra_available < bits:
                    if extra_at == extra_count:
                        raise StreamError("7", "a block has too few extra words")
                    extra_buffer |= extras[extra_at] << extra_available
                    extra_at += 1
                    extra_available += 16
                extra = extra_buffer & ((1 << bits) - 1)
                extra_buffer >>= bits
                extra_available -= bits
                if first is not None:
                    number += extra
                    if number > left:
                        raise StreamError("7", "a run reaches over the end of its block")
                    append(first)
                    extend([0] * (number - 1))
                    left -= number
                else:
                    number += extra >> 1
                    append(-number if extra & 1 else number)
                    left -= 1
            if not left:
                break  # the other lanes have no token in this round
        else:
            for lane in lanes:
                have = available[lane]
                if have <= 16:
                    buffer[lane] |= next(words, 0) << (16 - have)
                    available[lane] = have + 16
            continue
        break
    if extra_at != extra_count:
        raise StreamError("7", "a block has too many extra words")
    if extra_buffer:
        raise StreamError("7", "bits behind a block's extra bits that are not 0")
    if lane_words and lane_words[-1] == 0:
        raise StreamError("9.1", "a block's lane words end with a word of 0")
    if next(words, None) is not None:
        raise StreamError("9.1", "a block has lane words that no lane asks for")
    if any(buffer):
        raise StreamError("9.1", "bits behind a lane's last code that are not 0")


# --------------------------------------------------------------------------------------------------- §9.2: bit planes

EMPTY, DENSE, SPARSE = 0, 1, 2  # modes of a plane


def read_bit_planes(block: bytes, count: int, bits: int) -> List[int]:
    """§9.2: the `count` differences or residuals of a block, of `bits` bits each."""
    if not block:
        return [0] * count
    if len(block) % 4:
        raise StreamError("9.2", f"a block of {len(block)} bytes")
    reader = Reader(block, 0)
    words = -(-count // 32)
    modes = read_modes(reader, bits)
    flags = [read_flags(reader, words) for mode in modes if mode == SPARSE]
    nibbles = read_nibbles(reader, sum(map(len, flags)))
    numbers = np.zeros(count, np.uint64)
    flagged, which = iter(flags), iter(nibbles)
    for plane, mode in enumerate(modes):
        if mode == EMPTY:
            continue
        if mode == DENSE:
            data = reader.take(4 * words, "9.2", "a dense plane")
        else:
            data = read_sparse(reader, next(flagged), which, words)
        # Byte j of a word has its bits 8j to 8j + 7: little-endian in bytes and in bits.
        ones = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        if ones[count:].any():
            raise StreamError("9.2", "bits behind a block's last integer that are not 0")
        if plane == len(modes) - 1 and not ones.any():
            raise StreamError("9.2", "the last plane is all 0")
        numbers |= ones[:count].astype(np.uint64) << np.uint64(plane)
    reader.padding("9.2")
    if reader.at != len(block):
        raise StreamError("9.2", f"{len(block) - reader.at} bytes behind a block's padding")
    return list(map(signed, numbers.tolist()))


def signed(number: int) -> int:
    """§9.2: the integer of a number. The greatest number gives 2^(width - 1), which wraps to the least integer."""
    return (number + 1) // 2 if number & 1 else -(number // 2)


def read_modes(reader: Reader, bits: int) -> List[int]:
    """§9.2: the modes of a block's planes."""
    (planes,) = reader.take(1, "9.2", "the number of planes")
    if not 1 <= planes <= bits:
        raise StreamError("9.2", f"{planes} planes of integers of {bits} bits")
    data = int.from_bytes(reader.take((planes + 3) // 4, "9.2", "the modes of planes"), "little")
    if data >> (2 * planes):
        raise StreamError("9.2", "modes of planes that there are not")
    modes = [data >> (2 * plane) & 3 for plane in range(planes)]
    if 3 in modes:
        raise StreamError("9.2", "a plane of mode 3")
    if modes[-1] == EMPTY:
        raise StreamError("9.2", "the last plane's mode says that it is all 0")
    return modes


def read_flags(reader: Reader, words: int) -> List[int]:
    """§9.2: which words of a sparse plane are not 0."""
    flags = int.from_bytes(reader.take(8, "9.2", "the flags of a sparse plane"), "little")
    if not flags:
        raise StreamError("9.2", "a sparse plane without a flag")
    if flags >> words:
        raise StreamError("9.2", "flags of words that there are not")
    return [word for word in range(words) if flags >> word & 1]


def read_nibbles(reader: Reader, count: int) -> List[int]:
    """§9.2: for each flagged word which of its four bytes are not 0."""
    data = reader.take((count + 1) // 2, "9.2", "the four bits of flagged words")
    nibbles = [half for byte in data for half in (byte & 15, byte >> 4)]
    if any(nibbles[count:]):
        raise StreamError("9.2", "four bits of a word that there is not")
    if 0 in nibbles[:count]:
        raise StreamError("9.2", "a flagged word without bytes")
    return nibbles[:count]


def read_sparse(reader: Reader, flagged: Sequence[int], nibbles: Iterator[int], words: int) -> bytes:
    """§9.2: all bytes of a sparse plane, of which the block holds only those that are not 0."""
    plane = bytearray(4 * words)
    for word in flagged:
        nibble = next(nibbles)
        for byte in range(4):
            if nibble >> byte & 1:
                (plane[4 * word + byte],) = reader.take(1, "9.2", "a sparse plane")
                if not plane[4 * word + byte]:
                    raise StreamError("9.2", "a byte of a sparse plane that is 0")
    return bytes(plane)


# ----------------------------------------------------------------------------------------------------- §8: codebooks


def read_custom_book(reader: Reader) -> Book:
    """§8: a custom book."""
    start, at = reader.at, 0
    bits = int.from_bytes(reader.data[start : start + MOST_BOOK_BYTES], "little")
    lengths = []
    length = 0
    for _ in range(SYMBOLS):
        magnitude = 0
        while magnitude < 6 and bits >> at & 1:
            magnitude += 1
            at += 1
        if magnitude < 6:
            at += 1
        if magnitude:
            length = (length + (-magnitude if bits >> at & 1 else magnitude)) % (LONGEST_CODE + 1)
            at += 1
        lengths.append(length)
    data = reader.take((at + 31) // 32 * 4, "8", "a custom book")
    if int.from_bytes(data, "little") >> at:
        raise StreamError("8", "padding of a custom book that is not 0")
    return book_of(lengths)


def dictionary_book(number: int) -> Book:
    """§8: a book of the dictionary."""
    if number >= BOOKS:
        raise StreamError("8", f"codebook {number} is not in the dictionary")
    if not _dictionary:
        _dictionary.extend(read_dictionary())
    if number not in _books:
        _books[number] = book_of(_dictionary[number])
    return _books[number]


def read_dictionary() -> List[bytes]:
    """§8: the lengths of the dictionary's books. A broken file is no fault of the stream."""
    data = DICTIONARY.read_bytes()
    size = 1 + 8 + 8 + SYMBOLS
    if data[:1] != bytes([BOOKS]) or len(data) != 1 + BOOKS * size:
        raise RuntimeError(f"{DICTIONARY} is not the dictionary")
    return [data[at + 17 : at + size] for at in range(1, len(data), size)]


_dictionary: List[bytes] = []
_books: Dict[int, Book] = {}


def book_of(code_lengths: Sequence[int]) -> Book:
    """§8: tables of the canonical code with these lengths."""
    if max(code_lengths) > LONGEST_CODE:
        raise StreamError("8", f"a code of {max(code_lengths)} bits")
    if sum(1 << (LONGEST_CODE - length) for length in code_lengths if length) != 1 << LONGEST_CODE:
        raise StreamError("8", "the code is not complete")
    # Codes in canonical order, each followed by all its continuations to 12 bits, fill the table from 0 to its end.
    symbols: List[int] = []
    lengths: List[int] = []
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(code_lengths) if length):
        symbols += [symbol] * (1 << (LONGEST_CODE - length))
        lengths += [length] * (1 << (LONGEST_CODE - length))
    return Book(symbols, lengths)


# ----------------------------------------------------------------------------------------------------- command line


def main(paths: Sequence[str]) -> int:
    """Decodes files to stdout; 1 after an error, 2 for wrong use."""
    if not paths:
        print("usage: quire_decoder.py FILE...", file=sys.stderr)
        return 2
    for path in paths:
        try:
            sys.stdout.buffer.write(decode(Path(path).read_bytes()))
        except (StreamError, OSError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
