"""FORMAT.md, section 4: planes, and the index of their blocks."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .bit_planes import read_bit_planes
from .books import CUSTOM_BOOK, dictionary_book, read_custom_book
from .header import Reader, StreamError
from .prediction import interpolates, undo_differences, undo_interpolation, wrapped
from .tokens import read_block

BIT_PLANES = 254  # instead of a codebook's number
NARROW = 32  # bits of residuals and of the mask's integers, for values of all types


class Plane(NamedTuple):
    """A plane before its predictor is undone."""

    extents: Sequence[int]
    bits: int  # of an integer
    predictor: int
    book: int  # the codebook's number
    integers: np.ndarray  # differences or residuals, signed
    data: bytes

    @property
    def interpolated(self) -> bool:
        """Whether the integers are residuals of interpolation."""
        return interpolates(self.predictor, self.extents)

    def codes(self) -> np.ndarray:
        """The integers of a plane of differences."""
        return undo_differences(self.integers, self.extents, self.predictor, self.bits)

    def positions(self, width: int) -> np.ndarray:
        """The positions of a plane of residuals. `width`: bytes of a value."""
        return undo_interpolation(self.integers.astype(np.int32), self.extents, self.predictor, width)


def read_plane(reader: Reader, extents: Sequence[int], bits: int) -> Plane:
    """A plane. `bits`: those of an integer, if the plane has differences."""
    start = reader.at
    predictor, number, word = struct.unpack("<BBH", reader.take(4, "4", "a plane's header"))
    log2_length, lane_bits, extra_bits, lanes = 11 + (word & 7), word >> 3 & 63, word >> 9 & 63, 8 if word >> 15 else 32
    if log2_length > 16:
        raise StreamError("4", f"block length 2^{log2_length}")
    if lane_bits > 32 or extra_bits > 32:
        raise StreamError("4", f"W = {lane_bits}, E = {extra_bits}")
    if number == BIT_PLANES and (log2_length, extra_bits, lanes) != (11, 0, 32):
        raise StreamError("9.2", f"bit planes in blocks of 2^{log2_length}, E = {extra_bits}, {lanes} lanes")
    book = None if number == BIT_PLANES else read_custom_book(reader) if number == CUSTOM_BOOK else dictionary_book(number)
    bits = NARROW if interpolates(predictor, extents) else bits
    count, length = math.prod(extents), 1 << log2_length
    blocks = []
    for at, (lane_words, extra_words) in enumerate(read_index(reader, -(-count // length), lane_bits, extra_bits)):
        size = min(length, count - at * length)
        if book is None:
            blocks.append(read_bit_planes(reader.take(2 * lane_words, "4", "a block of bit planes"), size, bits))
        else:
            words = read_words(reader, lane_words, "lane words")
            blocks.append(read_block(words, lanes, read_words(reader, extra_words, "extra words"), size, book))
    reader.padding("4")
    return Plane(extents, bits, predictor, number, wrapped(np.concatenate(blocks), bits), reader.data[start : reader.at])


def read_index(reader: Reader, blocks: int, lane_bits: int, extra_bits: int) -> list[tuple[int, int]]:
    """For each block the numbers of its lane words and its extra words."""
    entry = lane_bits + extra_bits
    data = int.from_bytes(reader.take((blocks * entry + 7) // 8, "4", "a plane's index"), "little")
    if data >> (blocks * entry):
        raise StreamError("4", "bits behind a plane's index that are not 0")
    reader.padding("4")
    entries = [data >> block * entry & ((1 << entry) - 1) for block in range(blocks)]
    return [(both & ((1 << lane_bits) - 1), both >> lane_bits) for both in entries]


def read_words(reader: Reader, count: int, what: str) -> tuple[int, ...]:
    """`count` words of 16 bits."""
    return struct.unpack(f"<{count}H", reader.take(2 * count, "4", what))
