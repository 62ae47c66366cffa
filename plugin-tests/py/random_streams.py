#!/usr/bin/env python3
"""Writes random streams that no encoder of ours would write, in the form of the folder streams/, for every reader to be tested with.

    random_streams.py FOLDER [NUMBER]     NUMBER valid streams, 300 by default, and with each up to two altered ones

Streams are made from FORMAT.md alone (stream_craft.py): random tokens, books, bit planes, predictors, exceptions, and all types. quire_decoder.py says
what their values are, and which altered ones are faulty. Equal seeds (sampling.py) give equal streams. With QUIRE_STREAMS=FOLDER the tests of the codec
(codec/tests/streams.rs), of the kernels (gpu/tests/parity.rs, golden_streams) and of the reader in C (plugin-tests/tests/samples.rs) take them, too.
Needs numpy, but neither h5py nor the plugin.
"""

import itertools
import sys
from pathlib import Path
from typing import Iterator, Tuple

import numpy as np

import sampling
from quire_decoder import PAIR, StreamError, read_header
from stream_craft import EVERY_TYPE, Craft, Element, fresh_checksum
from streams import FAULTY, FOLDERS, UNCOMMON, Row, crc, listed_chunk, write_table

SHAPES = ((1,), (33,), (700,), (5000,), (9, 13), (2, 600), (600, 2), (5, 6, 7), (1, 9, 1), (3, 4, 5, 6), (16, 17, 18))
# A few planes are longer than a block can be: Python takes its time for them.
LONG, ONE_IN = (70000,), 40
PAIRS = ("<c8", ">c8", "<c16", ">c16")
ALTERED = 2


def extents_of(element: Element, rng: np.random.Generator) -> Tuple[int, ...]:
    """Random extents; section 3: the slowest one of pairs is even."""
    if rng.random() < 1 / ONE_IN:
        return LONG
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    return (2 * shape[0], *shape[1:]) if element.kind == PAIR else shape


def altered(stream: bytes, rng: np.random.Generator) -> bytes:
    """The stream with one other bit behind its header, and the checksum that belongs to it."""
    begin = 8 * read_header(stream)[1].at
    if begin >= 8 * len(stream):
        return stream
    bit = int(rng.integers(begin, 8 * len(stream)))
    changed = bytearray(stream)
    changed[bit // 8] ^= 1 << bit % 8
    return fresh_checksum(bytes(changed))


def random_streams(number: int, seed: int) -> Iterator[Tuple[Row, bytes]]:
    """Rows of the table with their streams."""
    rng = np.random.default_rng(seed)
    bodies = itertools.cycle([(element, coding) for element in map(Element, EVERY_TYPE + PAIRS) for coding in element.codings])
    for turn, (element, coding) in zip(range(number), bodies):
        extents = extents_of(element, rng)
        stream = Craft(rng).any_stream(extents, element, coding)
        about = f"{element}, coding {coding}, extents {'x'.join(map(str, extents))}"
        for version, bytes_of in enumerate([stream] + [altered(stream, rng) for _ in range(ALTERED)]):
            name = f"random_{turn:05}_{version}.quire"
            if version and bytes_of == stream:
                continue
            row = Row("", f"{about}, one other bit" if version else about, file_crc=crc(bytes_of))
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
    for row, stream in random_streams(number, sampling.seed()):
        (folder / row.file).write_bytes(stream)
        rows.append(row)
    write_table(folder, rows)
    faulty = sum(row.file.startswith(FAULTY) for row in rows)
    print(f"{len(rows) - faulty} random valid streams, {faulty} faulty ones: QUIRE_SEED={sampling.seed()} makes them again")
    return 0 if faulty else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
