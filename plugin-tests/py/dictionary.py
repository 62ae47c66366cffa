"""Chunks whose codebooks come from a user's dictionary and from the chunks before.

    dictionary.py make FILE     creates the dataset `sample` to train a dictionary from
    dictionary.py write FILE    creates `plain` and `history`, the latter with adapt=history, and writes the same chunks to both; prints for each how
                                many of its chunks have a custom book, how many of these books differ, and how many bytes the dataset takes
    dictionary.py read FILE     reads all and checks the bound
    dictionary.py create FILE   only creates a dataset

Ends with 0 whether HDF5 reports an error or not: a line says which.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Optional

import h5py
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "h5-samples"))
import quire_options
from decoder import read_header
from decoder.bodies import most_listed, read_exceptions, read_grid, read_list
from decoder.books import CUSTOM_BOOK, read_custom_book
from quire_client import FILTER_ID, assert_bound

BOUND = 0.01
CHUNK = 30_000
CHUNKS = 24


def data(seed: int) -> np.ndarray:
    """Chunks of two kinds that no built-in book suits: 40 values in no order, a few of them far more often than the others, and in each chunk a
    little differently."""
    random = np.random.default_rng(seed)
    kinds = [np.random.default_rng(kind).dirichlet(np.full(40, 0.5)) for kind in range(2)]
    chunks = [random.choice(40, CHUNK, p=random.dirichlet(500 * kinds[chunk // 2 % 2] + 1)) for chunk in range(CHUNKS)]
    return (0.36 * np.concatenate(chunks)).astype("<f4")


def create(file: h5py.File, name: str, options: str, seed: int) -> None:
    words = quire_options.cd_values(options)
    file.create_dataset(name, data=data(seed), chunks=(CHUNK,), compression=FILTER_ID, compression_opts=words)


def custom_book(stream: bytes) -> Optional[bytes]:
    """The custom book of a stream's first plane."""
    header, reader = read_header(stream)
    read_grid(reader, header)
    exceptions = read_exceptions(reader, header)
    assert exceptions <= most_listed(header.count), f"{exceptions} exceptions in data that have none"
    read_list(reader, exceptions, header)
    if stream[reader.at + 1] != CUSTOM_BOOK:
        return None
    start = reader.at = reader.at + 4
    read_custom_book(reader)
    return stream[start : reader.at]


def report(dataset: h5py.Dataset) -> None:
    streams = [dataset.id.read_direct_chunk((CHUNK * chunk,))[1] for chunk in range(CHUNKS)]
    books = [book for book in map(custom_book, streams) if book is not None]
    print(f"{dataset.name}: {len(books)} of {len(streams)} chunks have a custom book, {len(set(books))} differ, {sum(map(len, streams))} bytes")


def main(what: str, path: str) -> None:
    try:
        if what == "make":
            with h5py.File(path, "w") as file:
                file.create_dataset("sample", data=data(2), chunks=(CHUNK,))
        elif what == "write":
            with h5py.File(path, "w") as file:
                create(file, "plain", f"abs={BOUND}", 1)
                create(file, "history", f"abs={BOUND},adapt=history", 1)
                file.flush()
                report(file["plain"])
                report(file["history"])
        elif what == "create":
            with h5py.File(path, "w") as file:
                file.create_dataset("t", (9,), "<f4", chunks=(9,), compression=FILTER_ID, compression_opts=(2, 2))
        else:
            with h5py.File(path, "r") as file:
                for name in ("plain", "history"):
                    assert_bound(data(1), file[name][()], BOUND, name)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"{what}: error: {error}")
    else:
        print(f"{what}: done")


if __name__ == "__main__":
    main(*sys.argv[1:])
