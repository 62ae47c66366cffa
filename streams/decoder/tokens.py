"""FORMAT.md, sections 7 and 9.1: tokens, and a block of their codes in lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .books import SYMBOLS, Book
from .header import StreamError


def token_table() -> list[tuple[int | None, int, int]]:
    """§7: for each symbol, the first integer of its run or None, its start, and its number of extra bits."""
    runs = [(2, 0), (3, 0), (4, 1), (6, 1), (8, 2), (12, 2), (16, 3), (24, 3)]
    runs += [(1 << bits, bits) for bits in range(5, 11)] + [(2048, 0)]
    classes = [((1 << o) + (h << (o - 1)), o) for o in range(4, 10) for h in (0, 1)]
    classes += [(1 << o, o + 1) for o in range(10, 16)]
    classes += [(1 << (16 + 4 * g), 21 + 4 * g) for g in range(11)] + [(1 << 60, 64)]
    table: list[tuple[int | None, int, int]] = [(0, start, bits) for start, bits in runs]
    table += [(None, symbol - 30, 0) for symbol in range(15, 46)]
    table += [(None, start, bits) for start, bits in classes]
    table += [(first, start, bits) for first in (-1, 1) for start, bits in runs]
    assert len(table) == SYMBOLS
    return table


TOKENS = token_table()


def read_block(lane_words: Sequence[int], lanes: int, extras: Sequence[int], count: int, book: Book) -> np.ndarray:
    """§7, §9.1: the `count` differences of a block, modulo 2^64."""
    tokens, symbols, lengths = TOKENS, book.symbol, book.length
    out: list[int] = []
    append, extend = out.append, out.extend
    # Words behind the lane words are 0.
    words = iter(lane_words)
    buffer = [next(words, 0) << 16 for _ in range(lanes)]
    for lane in range(lanes):
        buffer[lane] |= next(words, 0)
    available = [32] * lanes
    left = count
    extra_count = len(extras)
    extra_at = extra_buffer = extra_available = 0
    while left:
        for lane in range(lanes):
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
                break  # the lanes left have no token
        else:
            for lane in range(lanes):
                have = available[lane]
                if have <= 16:
                    buffer[lane] |= next(words, 0) << (16 - have)
                    available[lane] = have + 16
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
    return np.array([difference & (1 << 64) - 1 for difference in out], np.uint64)
