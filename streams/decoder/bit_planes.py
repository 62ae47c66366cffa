"""FORMAT.md, section 9.2: a block of bit planes. In this module a plane is a bit plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .header import Reader, StreamError

EMPTY, DENSE, SPARSE = 0, 1, 2  # modes of a plane


def read_bit_planes(block: bytes, count: int, bits: int) -> np.ndarray:
    """The `count` differences or residuals of a block, of `bits` bits each, modulo 2^64."""
    numbers = np.zeros(count, np.uint64)
    if not block:
        return numbers
    if len(block) % 4:
        raise StreamError("9.2", f"a block of {len(block)} bytes")
    reader = Reader(block)
    words = -(-count // 32)
    modes = read_modes(reader, bits)
    flags = [read_flags(reader, words) for mode in modes if mode == SPARSE]
    nibbles = read_nibbles(reader, sum(map(len, flags)))
    flagged, four_bits = iter(flags), iter(nibbles)
    for plane, mode in enumerate(modes):
        if mode == EMPTY:
            continue
        if mode == DENSE:
            data = reader.take(4 * words, "9.2", "a dense plane")
        else:
            data = read_sparse(reader, next(flagged), four_bits, words)
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
    # Odd numbers mean positive integers. The greatest number means 2^(width - 1), which wraps to the least integer.
    odd = numbers & np.uint64(1)
    halves = (numbers >> np.uint64(1)) + odd
    return np.where(odd, halves, -halves)


def read_modes(reader: Reader, bits: int) -> list[int]:
    """The modes of a block's planes."""
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


def read_flags(reader: Reader, words: int) -> list[int]:
    """Which words of a sparse plane are not 0."""
    flags = int.from_bytes(reader.take(8, "9.2", "the flags of a sparse plane"), "little")
    if not flags:
        raise StreamError("9.2", "a sparse plane without a flag")
    if flags >> words:
        raise StreamError("9.2", "flags of words that there are not")
    return [word for word in range(words) if flags >> word & 1]


def read_nibbles(reader: Reader, count: int) -> list[int]:
    """For each flagged word which of its four bytes are not 0."""
    data = reader.take((count + 1) // 2, "9.2", "the four bits of flagged words")
    nibbles = [half for byte in data for half in (byte & 15, byte >> 4)]
    if any(nibbles[count:]):
        raise StreamError("9.2", "four bits of a word that there is not")
    if 0 in nibbles[:count]:
        raise StreamError("9.2", "a flagged word without bytes")
    return nibbles[:count]


def read_sparse(reader: Reader, flagged: Sequence[int], nibbles: Iterator[int], words: int) -> bytes:
    """All bytes of a sparse plane. The block has only the bytes that are not 0."""
    plane = bytearray(4 * words)
    for word in flagged:
        nibble = next(nibbles)
        for byte in range(4):
            if nibble >> byte & 1:
                (plane[4 * word + byte],) = reader.take(1, "9.2", "a sparse plane")
                if not plane[4 * word + byte]:
                    raise StreamError("9.2", "a byte of a sparse plane that is 0")
    return bytes(plane)
