"""Codebooks besides the built-in ones: `quire train`, `QUIRE_DICTIONARY`, `adapt=history`."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Optional

import h5py
import numpy as np

import quire_options
from conftest import IN_ORDER, Ended, Environment, Python
from decoder import read_header
from decoder.bodies import most_listed, number_of_exceptions, read_grid, read_list
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
    exceptions = number_of_exceptions(reader, header)
    assert exceptions <= most_listed(header.count), f"{exceptions} exceptions in data that have none"
    read_list(reader, exceptions, header)
    if stream[reader.at + 1] != CUSTOM_BOOK:
        return None
    start = reader.at = reader.at + 4
    read_custom_book(reader)
    return stream[start : reader.at]


def make(path: str) -> None:
    """Creates the dataset `sample` to train a dictionary from."""
    with h5py.File(path, "w") as file:
        file.create_dataset("sample", data=data(2), chunks=(CHUNK,))


def write(path: str) -> list[tuple[int, int, int]]:
    """Creates `plain` and `history`, the latter with adapt=history, and writes the same chunks to both. For each: how many chunks have a custom book, how many
    of these books differ, and how many bytes the dataset takes."""
    with h5py.File(path, "w") as file:
        create(file, "plain", f"abs={BOUND}", 1)
        create(file, "history", f"abs={BOUND},adapt=history", 1)
        file.flush()
        found = []
        for name in ("plain", "history"):
            streams = [file[name].id.read_direct_chunk((CHUNK * chunk,))[1] for chunk in range(CHUNKS)]
            books = [book for book in map(custom_book, streams) if book is not None]
            found.append((len(books), len(set(books)), sum(map(len, streams))))
        return found


def read(path: str) -> None:
    with h5py.File(path, "r") as file:
        for name in ("plain", "history"):
            assert_bound(data(1), file[name][()], BOUND, name)


def refused(path: str) -> str:
    """Only creates a dataset; the error."""
    with h5py.File(path, "w") as file:
        try:
            file.create_dataset("t", (9,), "<f4", chunks=(9,), compression=FILTER_ID, compression_opts=(2, 2))
        except (OSError, ValueError, RuntimeError) as error:
            return str(error)
    raise AssertionError("the dataset was created")


CPU = {"QUIRE_BACKEND": "cpu"}


def with_dictionary(path: object) -> Environment:
    return {**CPU, "QUIRE_DICTIONARY": str(path), "QUIRE_LOG": "1"}


def test_books_of_other_chunks_are_taken_and_files_need_none_of_them(python: Python, quire: Callable[..., Ended]) -> None:
    python(make, "sample.h5", env=CPU)
    trained = quire("train", "--options", "abs=0.01", "--output", "books", "sample.h5")
    trained.must_say("1 dataset, 24 chunks at abs=0.01", "with such a dictionary")

    (custom, different, length), (with_history, of_history, length_with_history) = python(write, "written.h5", env=CPU).json
    python(read, "written.h5", env=CPU)
    # Without a history each chunk builds its own; with one, those of two kinds are taken again and again.
    assert custom == 24 and different > 8
    assert with_history == 24 and of_history < 6 and length_with_history * 100 < length * 102

    written = python(write, "written.h5", env=with_dictionary("books")).must_say("more codebooks: ", "sample.h5 at abs=0.01")
    for custom, different, length_with_books in written.json:
        assert custom == 24 and different < 6 and length_with_books * 100 < length * 102
    python(read, "written.h5", env=CPU)


def test_a_dictionary_that_is_none_is_refused_where_data_are_written_and_nowhere_else(python: Python, tmp_path: Path) -> None:
    python(write, "written.h5", env=CPU)
    for name, reason in (("missing", "it cannot be read"), ("written.h5", "it is not a dictionary of codebooks")):
        said = python(refused, "other.h5", env=with_dictionary(tmp_path / name))
        said.must_say(f"QUIRE_DICTIONARY={tmp_path / name}: {reason}", "unset it to do without")
        python(read, "written.h5", env=with_dictionary(tmp_path / name))


def test_training_says_what_it_cannot_use_and_leaves_no_half_file(newest: Python, quire: Callable[..., Ended], tmp_path: Path) -> None:
    newest(make, "sample.h5", env=CPU)
    for arguments, reason in (
        (["--options", "abs=-1", "-o", "books", "sample.h5"], "absolute error bound is -1"),
        (["--options", "abs=1", "-o", "books", "nowhere.h5"], "nowhere.h5: "),
        (["--options", "abs=1", "-o", "books", "sample.h5:/nothing"], ":/nothing: the file has no dataset and no group of that name"),
        (["--options", "pwrel=0.1", "--chunks", "0", "-o", "books", "sample.h5"], '"0" is not a shape'),
        (["-o", "books", "sample.h5"], "--options"),
    ):
        quire("train", *arguments, code=IN_ORDER).must_say(reason)
    assert not (tmp_path / "books").exists()
    quire("train", "--options", "abs=0.01", "-o", "/nowhere/books", "sample.h5", code=IN_ORDER).must_say("/nowhere/books: ")
