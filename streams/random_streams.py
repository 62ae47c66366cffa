#!/usr/bin/env python3
"""Writes random streams, which our encoder would not write, in the form of the folder streams/. They test every reader.

    random_streams.py FOLDER [NUMBER]     NUMBER valid streams, 300 by default, and with each up to two altered ones

Streams are made from FORMAT.md alone: random tokens, books, bit planes, predictors, exceptions, and all types. The decoder says what their values are, and
which altered streams are faulty. Equal seeds (sampling.py) give equal streams. With QUIRE_STREAMS=FOLDER the tests of the codec (codec/tests/streams.rs), of
the kernels (gpu/tests/parity/decoding.rs) and of the reader in C (tests/test_reader_in_c.py) take them, too. Needs numpy, but neither h5py nor the plugin.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import sampling
from craft import (
    EVERY_TYPE, Element, bit_block, bit_plane, coded_block, codes_of, fresh_checksum, has_fine_grid, listed, ones_of, packed_book, positions_of,
    token_plane, whole, with_bit, with_grid,
)  # fmt: skip
from decoder import StreamError, read_header
from decoder.bit_planes import DENSE, EMPTY, SPARSE
from decoder.bodies import most_listed
from decoder.books import BOOKS, CUSTOM_BOOK, SYMBOLS, read_dictionary
from decoder.header import CONSTANT, DECIMAL, EXACT, PAIR, QUANTIZED, STEPS, STORED
from decoder.prediction import FINER, INTERPOLATION, LINEAR
from decoder.quantization import NO_LOWER, NO_UPPER
from decoder.tokens import TOKENS
from table import FAULTY, FOLDERS, UNCOMMON, Row, crc, listed_chunk, write_table

SHAPES = ((1,), (33,), (700,), (5000,), (9, 13), (2, 600), (600, 2), (5, 6, 7), (1, 9, 1), (3, 4, 5, 6), (16, 17, 18))
# Extents of a plane longer than a block can be. They are few, as Python takes long for them.
LONG, ONE_IN = (70000,), 40
PAIRS = ("<c8", ">c8", "<c16", ">c16")
ALTERED = 2  # streams that are made of each valid stream


class RandomStreams:
    """Any book, any tokens, any bit planes, any index."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.loose = 0.0  # share of blocks with more words than they need

    def any_stream(self, extents, element, coding):
        """A stream of a coding that fits the type."""
        rng = self.rng
        count = math.prod(extents)
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

    def stream(self, extents, element, half_step, offset=None):
        """A stream of a body with a grid, with exceptions in a list or in planes, or without any, and with limits or without."""
        rng = self.rng
        fine = offset is None and has_fine_grid(element, half_step)
        interpolated = fine and rng.random() < 0.5
        plane = self.plane(extents, 32 if interpolated else element.bits, self.kind(extents) if interpolated else None)
        limits = self.limits(plane, extents, element) if fine and rng.random() < 1 / 3 else None
        count = math.prod(extents)
        most = min(most_listed(count), count)
        kind = rng.random()
        if kind < 0.6:
            mask = self.plane(extents, 32)
            ones = ones_of(mask, extents)
            if ones > most:
                planes = plane + mask + self.plane((ones,), element.bits)
                return with_grid(planes, extents, element, half_step, ones, offset, limits)
        ones = int(rng.choice([1, most, rng.integers(most + 1)])) if kind < 0.8 else 0
        indices = np.sort(rng.permutation(count)[:ones])
        planes = listed(indices, rng.bytes(ones * element.width)) + plane
        return with_grid(planes, extents, element, half_step, ones, offset, limits)

    def kind(self, extents):
        """Section 6.2: the predictor of a kind of interpolation."""
        steps, linear = divmod(int(self.rng.integers(6)), 2)
        return INTERPOLATION | FINER * steps | LINEAR * linear | int(self.rng.integers(1 << len(extents)))

    def limits(self, plane, extents, element):
        """Section 4: a lower and an upper limit, most of them near positions of the plane's values."""
        rng = self.rng
        # A plane with more words than it needs cannot be read.
        there = np.array([0]) if self.loose else np.unique(positions_of(plane, extents, element))
        about = [int(position) for position in rng.choice(there, 2) + rng.integers(-20, 21, 2)]
        lower, upper = sorted(min(max(position, NO_LOWER), NO_UPPER) for position in about)
        ends = [NO_LOWER, NO_LOWER + 1, -1, 0, lower, NO_UPPER - 4, NO_UPPER - 3, NO_UPPER - 2, NO_UPPER - 1, NO_UPPER]
        far_lower, far_upper = sorted(int(position) for position in rng.choice(ends, 2))
        some = [(lower, upper)] * 4 + [(NO_LOWER, upper), (lower, NO_UPPER), (lower, lower), (far_lower, far_upper)]
        return some[int(rng.integers(len(some)))]

    def plane(self, extents, bits, predictor=None):
        """A plane of random tokens or of random bits, with this predictor or with any set of axes."""
        rng = self.rng
        count = math.prod(extents)
        if predictor is None:
            predictor = int(rng.integers(1 << len(extents)))
        if rng.random() < 0.5:
            blocks = [self.bit_block(min(2048, count - at), bits) for at in range(0, count, 2048)]
            return bit_plane(blocks, predictor, 32 if rng.random() < 0.1 else None)
        custom, number = b"", int(rng.integers(BOOKS))
        lengths = list(read_dictionary()[number])
        if rng.random() < 0.6:
            number, lengths = CUSTOM_BOOK, self.lengths()
            custom = packed_book(lengths)
        log2_length, lanes = int(rng.integers(11, 17)), int(rng.choice([8, 32]))
        blocks = [self.token_block(lengths, min(1 << log2_length, count - at), lanes) for at in range(0, count, 1 << log2_length)]
        widths = [max(len(block[part]) for block in blocks).bit_length() for part in (0, 1)]
        if rng.random() < 0.3:
            widths = [int(rng.integers(width, 33)) for width in widths]
        return token_plane(blocks, predictor, number, custom, widths, log2_length, lanes)

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
        if all(map(is_run, symbols[: len(lengths)])):
            symbols.insert(0, symbols.pop(next(at for at, symbol in enumerate(symbols) if not is_run(symbol))))
        of_symbol = dict(zip(symbols, lengths))
        return [of_symbol.get(symbol, 0) for symbol in range(SYMBOLS)]

    def bit_block(self, count, bits):
        """Section 9.2: a block of few bit planes or all, with few numbers other than 0 or many, in any mode that is allowed."""
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

    def token_block(self, lengths, count, lanes):
        """Sections 7 and 9.1: lane words and extra words of a block."""
        rng = self.rng
        there = list(codes_of(tuple(lengths)))
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
            if size > count:  # a run beyond the block's end
                continue
            count -= size
            tokens.append((symbol, extra))
        words, extras = coded_block(lengths, tokens, lanes)
        if rng.random() < self.loose:
            more = [int(word) * int(rng.integers(2)) for word in rng.integers(1 << 16, size=rng.integers(1, 70))]
            (words if rng.random() < 0.7 else extras).extend(more)
        return words, extras


def is_run(symbol: int) -> bool:
    """Section 7: whether a symbol is that of a run."""
    return TOKENS[symbol][0] is not None


def extents_of(element: Element, rng: np.random.Generator) -> tuple[int, ...]:
    """Random extents. Section 3: the slowest extent of pairs is even."""
    if rng.random() < 1 / ONE_IN:
        return LONG
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    return (2 * shape[0], *shape[1:]) if element.kind == PAIR else shape


def altered(stream: bytes, rng: np.random.Generator) -> bytes:
    """The stream with one bit changed behind its header, and with its right checksum."""
    begin = 8 * read_header(stream)[1].at
    if begin >= 8 * len(stream):
        return stream
    return fresh_checksum(with_bit(stream, int(rng.integers(begin, 8 * len(stream)))))


def rows_and_streams(number: int, seed: int) -> Iterator[tuple[Row, bytes]]:
    """Rows of the table with their streams."""
    rng = np.random.default_rng(seed)
    bodies = itertools.cycle([(element, coding) for element in map(Element, EVERY_TYPE + PAIRS) for coding in element.codings])
    for turn, (element, coding) in enumerate(itertools.islice(bodies, number)):
        extents = extents_of(element, rng)
        stream = RandomStreams(rng).any_stream(extents, element, coding)
        about = f"{element}, coding {coding}, extents {'x'.join(map(str, extents))}"
        for version, bytes_of in enumerate([stream] + [altered(stream, rng) for _ in range(ALTERED)]):
            name = f"random_{turn:05}_{version}.quire"
            if version and bytes_of == stream:
                continue
            row = Row("", f"{about}, one bit changed" if version else about, file_crc=crc(bytes_of))
            try:
                yield row._replace(file=f"{UNCOMMON}/{name}", **listed_chunk(bytes_of)), bytes_of
            except StreamError:
                if not version:
                    raise
                yield row._replace(file=f"{FAULTY}/{name}", section="any"), bytes_of


def main(folder: Path, number: int = 300) -> int:
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    rows = []
    for row, stream in rows_and_streams(number, sampling.seed()):
        (folder / row.file).write_bytes(stream)
        rows.append(row)
    write_table(folder, rows)
    faulty = sum(row.file.startswith(FAULTY) for row in rows)
    print(f"{len(rows) - faulty} random valid streams, {faulty} faulty ones: QUIRE_SEED={sampling.seed()} makes them again")
    return 0 if faulty else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
