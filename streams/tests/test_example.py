"""The stream of FORMAT.md, section 12. The plugin writes the bytes that the table prints, both readers read the chunk from them, and the tables' tokens and
codes are right."""

from __future__ import annotations

import math
import re
import struct
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from craft import Element
from decoder import decode
from decoder.books import dictionary_book
from decoder.tokens import TOKENS
from readers import words_of

FORMAT = Path(__file__).resolve().parents[2] / "FORMAT.md"
BOUND = 0.05
# The section's chunk and its codes.
CHUNK = np.array([0.0] * 11 + [2.51] * 9 + [2.04, math.nan] + [2.13] * 11 + [-12.34] * 15, "<f4")
CODES = [0] * 11 + [25] * 9 + [20] * 2 + [21] * 11 + [-123] * 15

BYTES = re.compile(r"^\| (\d+) \| `((?:[0-9a-f]{2} ?)+)` \| .* \|$")
LANE = re.compile(r"lane (\d+): `([01]+)`, symbol (\d+)")
TOKEN = re.compile(r"^\| (\d+) \| (\d+) \| (\d+|–) \| (.*) \|$")
FIRST_LANE_WORD, FIRST_EXTRA_WORD = 40, 56


@pytest.fixture(scope="module")
def lines():
    """The lines of section 12."""
    return FORMAT.read_text(encoding="utf-8").split("\n## 12. ")[1].splitlines()


@pytest.fixture(scope="module")
def stream(lines):
    """The bytes of the table, whose offsets follow each other."""
    printed = b""
    for found in filter(None, map(BYTES.match, lines)):
        assert int(found[1]) == len(printed), f"the bytes of offset {found[1]} are at {len(printed)}"
        printed += bytes.fromhex(found[2])
    return printed


def test_the_plugin_writes_it_and_both_readers_read_it(plugin, stream):
    dataset = plugin.dataset(CHUNK.shape, Element("<f4"), words_of(1, BOUND))
    assert dataset.write(CHUNK) == [stream]
    decoded = np.frombuffer(decode(stream), "<f4")
    assert dataset.read().tobytes() == decoded.tobytes()
    numbers = ~np.isnan(CHUNK)
    assert decoded[~numbers].tobytes() == CHUNK[~numbers].tobytes()
    assert np.all(np.abs(decoded[numbers].astype("f8") - CHUNK[numbers]) <= BOUND), decoded
    assert sorted(set(decoded[numbers].tolist())) == np.array([-12.3, 0, 2, 2.1, 2.5], "f4").tolist(), decoded


def test_lanes_and_tokens_are_those_of_the_tables(lines, stream):
    """Each lane's word is the code that its row prints, and the code is that of the row's symbol. The second table has the stream's extra bits."""
    book = dictionary_book(8)
    lanes = list(filter(None, map(LANE.search, lines)))
    assert [int(found[1]) for found in lanes] == list(range(8))
    for found, word in zip(lanes, struct.unpack_from("<8H", stream, FIRST_LANE_WORD)):
        assert word == int(found[2].ljust(16, "0"), 2), f"{found[0]}: the word is {word:016b}"
        assert (book.symbol[word >> 4], book.length[word >> 4]) == (int(found[3]), len(found[2])), found[0]
    rows = list(filter(None, map(TOKEN.match, lines)))
    assert [found[1] for found in rows] == [found[3] for found in lanes], "the tables have different symbols"
    extra_bits = int.from_bytes(stream[FIRST_EXTRA_WORD:], "little")
    differences: list[int] = []
    for found in rows:
        first, start, bits = TOKENS[int(found[1])]
        assert bits == int(found[2]), found[0]
        extra = extra_bits & ((1 << bits) - 1)
        extra_bits >>= bits
        assert str(extra) == (found[3] if bits else "0"), f"{found[0]}: the extra bits are {extra}"
        if first is None:
            difference = (start + extra // 2) * (-1 if extra % 2 else 1)
            differences.append(difference)
            says = str(difference).replace("-", "−")
            assert says in found[4] if bits else (found[3], found[4]) == ("–", says), found[0]
        else:
            differences += [first, *[0] * (start + extra - 1)]
            assert f"{start} + {extra} = {start + extra}" in found[4], found[0]
    assert extra_bits == 0, f"extra bits that no token has: {extra_bits:b}"
    assert list(accumulate(differences)) == CODES, differences
