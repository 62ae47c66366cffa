"""The stream of FORMAT.md, section 12: the bytes that its table prints are those that the plugin writes, quire_decoder.py reads the chunk from them, and
what the tables say of tokens and codes is so.

    stream_example.py FILE     FILE is written
"""

from __future__ import annotations

import math
import re
import struct
import sys
from itertools import accumulate
from pathlib import Path

import h5py
import numpy as np

import quire_decoder
from markdown_text import Document
from quire_client import FILTER_ID, absolute, assert_same_bits

FORMAT = Path(__file__).resolve().parents[2] / "FORMAT.md"
BOUND = 0.05
# What the section says of its chunk.
CHUNK = np.array([0.0] * 11 + [2.51] * 9 + [2.04, math.nan] + [2.13] * 11 + [-12.34] * 15, "<f4")
CODES = [0] * 11 + [25] * 9 + [20] * 2 + [21] * 11 + [-123] * 15

_BYTES = re.compile(r"^\| (\d+) \| `((?:[0-9a-f]{2} ?)+)` \| (.*) \|$")
_LANE = re.compile(r"lane (\d+): `([01]+)`, symbol (\d+)")
_TOKEN = re.compile(r"^\| (\d+) \| (\d+) \| (\d+|–) \| (.*) \|$")
FIRST_LANE_WORD, FIRST_EXTRA_WORD = 40, 56


def section() -> list[str]:
    """The lines of section 12."""
    lines = [line for _, line in Document(FORMAT, FORMAT.name).prose]
    begin = next(number for number, line in enumerate(lines) if line.startswith("## 12."))
    return lines[begin:]


def printed_stream(lines: list[str]) -> bytes:
    """The bytes of the table, whose offsets follow each other."""
    stream = b""
    for line in lines:
        found = _BYTES.match(line)
        if found:
            assert int(found[1]) == len(stream), f"FORMAT.md, section 12: the bytes of offset {found[1]} are at {len(stream)}"
            stream += bytes.fromhex(found[2])
    assert stream, "FORMAT.md, section 12, has no table of bytes"
    return stream


def check_lanes(lines: list[str], stream: bytes) -> list[int]:
    """Each lane's word is the code that the row prints, and that code is the symbol's. The symbols."""
    book = quire_decoder.dictionary_book(8)
    symbols = []
    for line in lines:
        found = _LANE.search(line)
        if found:
            lane, code, symbol = int(found[1]), found[2], int(found[3])
            assert lane == len(symbols), line
            (word,) = struct.unpack_from("<H", stream, FIRST_LANE_WORD + 2 * lane)
            assert word == int(code.ljust(16, "0"), 2), f"{line}: the word is {word:016b}"
            assert (book.symbol[word >> 4], book.length[word >> 4]) == (symbol, len(code)), line
            symbols.append(symbol)
    return symbols


def check_tokens(lines: list[str], stream: bytes, symbols: list[int]) -> list[int]:
    """The second table's extra bits are those of the stream. The differences."""
    extra_bits = int.from_bytes(stream[FIRST_EXTRA_WORD:], "little")
    rows = [found for found in map(_TOKEN.match, lines) if found]
    assert [int(found[1]) for found in rows] == symbols, "FORMAT.md, section 12: the tables have different symbols"
    differences: list[int] = []
    for found in rows:
        first, start, bits = quire_decoder.TOKENS[int(found[1])]
        assert bits == int(found[2]), found[0]
        if not bits:
            differences.append(start)
            assert found[3] == "–" and found[4].replace("−", "-") == str(start), found[0]
            continue
        extra = extra_bits & ((1 << bits) - 1)
        extra_bits >>= bits
        assert extra == int(found[3]), f"{found[0]}: the extra bits are {extra}"
        if first is None:
            difference = (start + extra // 2) * (-1 if extra % 2 else 1)
            differences.append(difference)
            assert str(difference).replace("-", "−") in found[4], found[0]
        else:
            differences += [first, *[0] * (start + extra - 1)]
            assert f"{start} + {extra} = {start + extra}" in found[4], found[0]
    assert extra_bits == 0, f"extra bits that no token has: {extra_bits:b}"
    return differences


def main(path: str) -> None:
    lines = section()
    stream = printed_stream(lines)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=CHUNK, chunks=CHUNK.shape, compression=FILTER_ID, compression_opts=absolute(BOUND))
        _, written = dataset.id.read_direct_chunk((0,))
    assert written == stream, f"FORMAT.md, section 12, prints\n{stream.hex(' ')}\nthe plugin writes\n{written.hex(' ')}"

    decoded = np.frombuffer(quire_decoder.decode(stream), "<f4")
    with h5py.File(path, "r") as file:
        assert_same_bits(file["x"][()], decoded, "plugin -> quire_decoder.py")
    numbers = ~np.isnan(CHUNK)
    assert_same_bits(decoded[~numbers], CHUNK[~numbers], "the NaN")
    assert np.all(np.abs(decoded[numbers].astype("f8") - CHUNK[numbers]) <= BOUND), decoded
    assert sorted(set(decoded[numbers].tolist())) == np.array([-12.3, 0, 2, 2.1, 2.5], "f4").tolist(), decoded

    differences = check_tokens(lines, stream, check_lanes(lines, stream))
    assert list(accumulate(differences)) == CODES, differences
    print(f"FORMAT.md, section 12: {len(stream)} bytes as the plugin writes them and quire_decoder.py reads them")


if __name__ == "__main__":
    main(sys.argv[1])
