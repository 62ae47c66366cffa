"""FORMAT.md, section 8: codebooks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .header import Reader, StreamError

DICTIONARY = Path(__file__).resolve().parents[2] / "codec" / "dictionary" / "books.bin"
CUSTOM_BOOK = 255
SYMBOLS = 106
BOOKS = 75
LONGEST_CODE = 12
MOST_BOOK_BYTES = 96  # of a custom book, whose differences have up to 7 bits each


class Book(NamedTuple):
    """Tables of a codebook: for each string of 12 bits, the symbol whose code begins it, and the code's length."""

    symbol: list[int]
    length: list[int]


def read_custom_book(reader: Reader) -> Book:
    """A custom book."""
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


@lru_cache(maxsize=None)
def dictionary_book(number: int) -> Book:
    """A book of the dictionary."""
    if number >= BOOKS:
        raise StreamError("8", f"codebook {number} is not in the dictionary")
    return book_of(read_dictionary()[number])


@lru_cache(maxsize=None)
def read_dictionary() -> list[bytes]:
    """The lengths of the dictionary's books. A wrong file is no fault of the stream."""
    data = DICTIONARY.read_bytes()
    size = 1 + 8 + 8 + SYMBOLS
    if data[:1] != bytes([BOOKS]) or len(data) != 1 + BOOKS * size:
        raise RuntimeError(f"{DICTIONARY} is not the dictionary")
    return [data[at + 17 : at + size] for at in range(1, len(data), size)]


def book_of(code_lengths: Sequence[int]) -> Book:
    """Tables of the canonical code with these lengths."""
    if max(code_lengths) > LONGEST_CODE:
        raise StreamError("8", f"a code of {max(code_lengths)} bits")
    if sum(1 << (LONGEST_CODE - length) for length in code_lengths if length) != 1 << LONGEST_CODE:
        raise StreamError("8", "the code is not complete")
    # In canonical order, each code begins the next strings of 12 bits: as many as it has continuations. So the codes fill the tables from 0 to their end.
    symbols: list[int] = []
    lengths: list[int] = []
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(code_lengths) if length):
        symbols += [symbol] * (1 << (LONGEST_CODE - length))
        lengths += [length] * (1 << (LONGEST_CODE - length))
    return Book(symbols, lengths)
