"""FORMAT.md, sections 1 and 3: conventions, and the header of a stream."""

from __future__ import annotations

import math
import struct
import zlib
from typing import NamedTuple

STORED, CONSTANT, QUANTIZED, EXACT, STEPS, LOGARITHMIC, DECIMAL = range(7)
FLOAT, BFLOAT, SIGNED, UNSIGNED, PAIR = "f", "b", "i", "u", "c"  # kinds of value types
INTEGERS = tuple((kind, width) for width in (1, 2, 4, 8) for kind in (SIGNED, UNSIGNED))
# By its number, the kind of each value type, and the bytes of a value.
VALUE_TYPES = ((FLOAT, 4), (FLOAT, 8), (FLOAT, 2), (BFLOAT, 2), *INTEGERS, (PAIR, 4), (PAIR, 8))


class StreamError(ValueError):
    """The stream breaks a rule of a section of FORMAT.md."""

    def __init__(self, section: str, reason: str) -> None:
        super().__init__(f"§{section}: {reason}")
        self.section = section
        self.reason = reason


class Reader:
    """§1: the bytes of a stream, read from the front."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, size: int, section: str, what: str) -> bytes:
        """The next `size` bytes."""
        if size > len(self.data) - self.at:
            raise StreamError(section, f"the bytes end within {what}")
        self.at += size
        return self.data[self.at - size : self.at]

    def padding(self, section: str) -> None:
        """Bytes of 0 up to a multiple of 4 bytes."""
        if any(self.take(-self.at % 4, section, "padding")):
            raise StreamError(section, "padding that is not 0")


class Header(NamedTuple):
    """§3: what the header says."""

    kind: str  # of the values; pairs are an array of their parts
    width: int  # bytes of a value: 1, 2, 4 or 8
    big_endian: bool
    coding: int
    extents: tuple[int, ...]
    count: int  # values of the chunk
    pairs: bool = False  # whether the elements are pairs of values

    @property
    def bits(self) -> int:
        """The bits of a code."""
        return 64 if self.width == 8 else 32

    @property
    def integer(self) -> bool:
        """Whether values are integers."""
        return self.kind in (SIGNED, UNSIGNED)


def read_header(stream: bytes) -> tuple[Header, Reader]:
    """§3: the header, and a reader at the byte behind it."""
    reader = Reader(stream)
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
