"""FORMAT.md, section 4: planes, and the index of their blocks."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from .bit_planes import read_bit_planes
from .books import CUSTOM_BOOK, dictionary_book, read_custom_book
from .header import Reader, StreamError
from .prediction import interpolates, undo_differences
from .tokens import read_block

BIT_PLANES = 254  # instead of a codebook's number
NARROW = 32  # bits of the integers of residuals and of the mask, whatever the values have


def read_plane(reader: Reader, extents: Sequence[int], bits: int) -> np.ndarray:
    """A plane of signed integers of `bits` bits, which are differences."""
    predictor, differences = read_integers(reader, extents, bits)
    return undo_differences(differences, extents, predictor, bits)


def read_integers(reader: Reader, extents: Sequence[int], bits: int) -> tuple[int, np.ndarray]:
    """A plane's predictor and the numbers that it codes, modulo 2^64: differences, or residuals."""
    predictor, number, word = struct.unpack("<BBH", reader.take(4, "4", "a plane's header"))
    log2_length, lane_bits, extra_bits, lanes = 11 + (word & 7), word >> 3 & 63, word >> 9 & 63, 8 if word >> 15 else 32
    if log2_length > 16:
        raise StreamError("4", f"block length 2^{log2_length}")
    if lane_bits > 32 or extra_bits > 32:
        raise StreamError("4", f"W = {lane_bits}, E = {extra_bits}")
    if number == BIT_PLANES and (log2_length, extra_bits, lanes) != (11, 0, 32):
        raise StreamError("9.2", f"bit planes in blocks of 2^{log2_length}, E = {extra_bits}, {lanes} lanes")
    book = None if number == BIT_PLANES else read_custom_book(reader) if number == CUSTOM_BOOK else dictionary_book(number)
    count, length = math.prod(extents), 1 << log2_length
    blocks = []
    for at, (lane_words, extra_words) in enumerate(read_index(reader, -(-count // length), lane_bits, extra_bits)):
        size = min(length, count - at * length)
        if book is None:
            block = reader.take(2 * lane_words, "4", "a block of bit planes")
            blocks.append(read_bit_planes(block, size, NARROW if interpolates(predictor, extents) else bits))
        else:
            words = read_words(reader, lane_words, "lane words")
            blocks.append(read_block(words, lanes, read_words(reader, extra_words, "extra words"), size, book))
    reader.padding("4")
    return predictor, np.concatenate(blocks)


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
