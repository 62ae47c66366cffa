"""Whole arrays where something is wrong: refusals, interrupts, damage, a dataset that shrinks meanwhile, a limit on the size of files."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any, Callable, Iterator

import h5py
import h5z_quire
import numpy as np
from h5z_quire import Quire

from array_pairs import expect
from quire_client import assert_bound, smooth, stored


def check_refusals() -> None:
    """What cannot be done is said, and nothing is written."""
    values = smooth((20, 20), "<f4")
    path = Path("refusals.h5")
    with h5py.File(path, "w") as file:
        options = {"chunks": (8, 8), **Quire(abs=0.01)}
        good = file.create_dataset("good", data=values, **options)
        before = stored(good)
        others = {
            "is not stored in chunks": file.create_dataset("contiguous", data=values),
            "the filters of this dataset are [1]": file.create_dataset("gzip", data=values, chunks=(8, 8), compression="gzip"),
            "the filters of this dataset are []": file.create_dataset("chunked", data=values, chunks=(8, 8)),
            "the filters of this dataset are [33791, 3]": file.create_dataset("fletcher32", data=values, fletcher32=True, **options),
        }
        for text, dataset in others.items():
            expect(h5z_quire.Unsuitable, text, lambda: h5z_quire.read(dataset))
            expect(h5z_quire.Unsuitable, text, lambda: h5z_quire.write(dataset, values))
        for dtype, text in (("<f8", "F64 Little endian, those of the dataset F32 Little"), (">f4", "F32 Big endian"), ("<i4", "I32 Little endian")):
            expect(h5z_quire.Unsuitable, text, lambda: h5z_quire.write(good, values.astype(dtype)))
        expect(ValueError, "values of type complex256 cannot be compressed", lambda: h5z_quire.write(good, values.astype(np.clongdouble)))
        expect(h5z_quire.Unsuitable, "takes every 2th value", lambda: h5z_quire.read(good, np.s_[::2]))
        expect(h5z_quire.Unsuitable, "list selects values", lambda: h5z_quire.read(good, [1, 2]))
        expect(IndexError, "index 20 is outside of an axis of 20 values", lambda: h5z_quire.read(good, 20))
        expect(IndexError, "3 indices, the dataset 2 axes", lambda: h5z_quire.read(good, (1, 2, 3)))
        expect(ValueError, "out has the shape (20, 19)", lambda: h5z_quire.read(good, out=np.zeros((20, 19), "<f4")))
        overlapping = np.lib.stride_tricks.as_strided(np.zeros(100, "<f4"), (20, 20), (4, 4))
        expect(ValueError, "let values share bytes", lambda: h5z_quire.read(good, out=overlapping))
        expect(ValueError, "could not be broadcast", lambda: h5z_quire.write(good, values[:7]))
        expect(ValueError, "masked array", lambda: h5z_quire.write(good, np.ma.masked_array(values)))
        expect(ValueError, "is not an h5py dataset", lambda: h5z_quire.write(file, values))
        expect(ValueError, "threads is 1025", lambda: h5z_quire.write(good, values, threads=1025))
        expect(ValueError, "threads is -1", lambda: h5z_quire.write(good, values, threads=-1))
        assert stored(good) == before
    expect(ValueError, "the dataset is closed", lambda: h5z_quire.read(good))
    with h5py.File(path, "r") as file:
        expect(h5z_quire.Unsuitable, "the file is open for reading only", lambda: h5z_quire.write(file["good"], values))
        assert chunks_of(path) == before


def chunks_of(path: Path) -> Any:
    with h5py.File(path, "r") as file:
        return stored(file["good"])


def check_faults() -> None:
    """Interrupts, damage, a dataset that shrinks meanwhile, a limit on the size of files."""
    values = smooth((64, 64, 64), "<f4")
    path = Path("faults.h5")

    def new(name: str) -> Iterator[h5py.Dataset]:
        with h5py.File(path, "a") as file:
            yield file.create_dataset(name, values.shape, "<f4", chunks=(16, 16, 16), maxshape=(None, 64, 64), fillvalue=-1, **Quire(abs=0.01))

    def check_first(name: str, least: int) -> None:
        """The file opens, the chunks that were written are right, and the others are not there."""
        with h5py.File(path, "r") as file:
            written = sorted(stored(file[name]))
            assert least <= len(written) < 64 and written == [offsets(number) for number in range(len(written))], written
            for at in written:
                part = tuple(slice(start, start + 16) for start in at)
                assert_bound(values[part], file[name][part], 0.01, name)

    def stop(after: int, how: Callable[[], None]) -> Callable[[int, int], None]:
        return lambda done, total: how() if done >= after else None

    def interrupt() -> None:
        raise KeyboardInterrupt

    for dataset in new("raised"):
        error = expect(KeyboardInterrupt, "", lambda: h5z_quire.write(dataset, values, threads=2, progress=stop(5, interrupt)))
        if hasattr(error, "__notes__"):
            assert "of 64 chunks the first" in error.__notes__[0] and "are written" in error.__notes__[0]
    check_first("raised", 5)
    # Python leaves the signal ignored where its caller ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for dataset in new("signal"):
        expect(KeyboardInterrupt, "", lambda: h5z_quire.write(dataset, values, threads=2, progress=stop(5, lambda: os.kill(os.getpid(), signal.SIGINT))))
    check_first("signal", 5)
    for dataset in new("shrunk"):
        expect(OSError, "are written", lambda: h5z_quire.write(dataset, values, threads=2, progress=stop(1, lambda: dataset.resize(16, axis=0))))
    with h5py.File(path, "r") as file:
        assert_bound(values[:16], file["shrunk"][()], 0.01, "shrunk")

    # A chunk that is damaged is named, and others are read.
    for dataset in new("damaged"):
        h5z_quire.write(dataset, values)
        stream = bytearray(dataset.id.read_direct_chunk((16, 0, 32))[1])
        stream[len(stream) // 2] ^= 1
        dataset.id.write_direct_chunk((16, 0, 32), bytes(stream))
        expect(ValueError, "chunk at [16, 0, 32]: stream is damaged", lambda: h5z_quire.read(dataset))
        expect(ValueError, "chunk at [16, 0, 32]: stream is damaged", lambda: h5z_quire.write(dataset, values[:20], np.s_[:20]))
        assert_bound(values[:16], h5z_quire.read(dataset, np.s_[:16]), 0.01, "damaged")
        # Written over, it is whole again.
        h5z_quire.write(dataset, values)
        assert_bound(values, h5z_quire.read(dataset), 0.01, "damaged")
    check_cut_file(path, Path("cut.h5"))
    check_full_disk()


def offsets(number: int) -> tuple[int, ...]:
    """The first indices of a chunk of 16^3 values among 4^3 chunks."""
    return (number // 16 * 16, number // 4 % 4 * 16, number % 4 * 16)


def check_cut_file(path: Path, cut: Path) -> None:
    """A file whose end is cut off while it is open."""
    cut.write_bytes(path.read_bytes())
    with h5py.File(cut, "r") as file:
        dataset = file["damaged"]
        last = max(dataset.id.get_chunk_info(index).byte_offset for index in range(dataset.id.get_num_chunks()))
        os.truncate(cut, last + 10)
        expect((OSError, ValueError), "chunk at [", lambda: h5z_quire.read(dataset))


def check_full_disk(put: Callable[[np.ndarray], Any] = lambda array: array) -> None:
    """A limit on the size of files: an error with the system's reason, and Python goes on. `put`: where the values are."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    noise = np.random.default_rng(0).normal(0, 1e30, (64, 64, 64)).astype("<f4")
    file = h5py.File("full.h5", "w")
    dataset = file.create_dataset("t", noise.shape, "<f4", chunks=(16, 16, 16), **Quire(abs=1e-9))
    values = put(noise)
    h5z_quire.write(dataset, put(noise[:16]), np.s_[:16])
    file.flush()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))
    error = expect(OSError, "are written", lambda: h5z_quire.write(dataset, values, threads=2))
    assert os.strerror(27) in str(error) or "errno = 27" in str(error), error
    # The error does not tell of fewer chunks than there are.
    said = int(str(error).rpartition("the first ")[2].split()[0])
    assert 16 < said <= dataset.id.get_num_chunks() <= said + 1, f"{dataset.id.get_num_chunks()} chunks: {error}"
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert np.array_equal(dataset[:16], noise[:16]), "what was written before"
    # With room again, the rest is written.
    h5z_quire.write(dataset, values, threads=2)
    file.close()
    with h5py.File("full.h5", "r") as file:
        assert np.array_equal(file["t"][()], noise)
