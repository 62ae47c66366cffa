"""Datasets that HDF5 compresses more than once or describes more than once."""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional

import h5py
import numpy as np

from conftest import in_each_python
from quire_client import FILTER_ID, absolute, assert_bound, assert_same_bits, client, create, nasty, numbers, smooth


@in_each_python
def test_rows_written_one_by_one_do_not_drift() -> None:
    """With rdcc_nbytes = 0 each write reads the chunk, decodes, changes one row, and encodes all of it again."""
    for dtype, bound, coding in (("<f4", 1e-3, 0), (">f4", 1e-1, 0), ("<f8", 1e-6, 0), (">f8", 1e-12, 0), ("<f4", 1e-2, 2), (">f8", 1e-5, 2)):
        data = nasty((64, 75), dtype, 11)
        label = f"rows {dtype} {bound:g} coding {coding}"
        with h5py.File(f"rows_{dtype[1:]}_{bound:g}.h5", "w", rdcc_nbytes=0) as file:
            settings = {"chunks": (64, 80), "compression": FILTER_ID, "compression_opts": absolute(bound, coding), "maxshape": (None, None)}
            dataset = file.create_dataset("x", data.shape, dtype, **settings)
            previous = dataset[()]
            for row in range(64):
                dataset[row] = data[row]
                now = dataset[()]
                assert_bound(data[: row + 1], now[: row + 1], bound, f"{label}, after row {row}")
                # The codec is idempotent: what was rounded once is kept for ever. A chunk may have kept its exact bits before; then a value is rounded now.
                is_rounded = numbers(previous[:row]) != numbers(data[:row])
                assert_same_bits(previous[:row][is_rounded], now[:row][is_rounded], f"{label}, earlier rows after row {row}")
                assert_same_bits(previous[row + 1 :], now[row + 1 :], f"{label}, later rows after row {row}")
                previous = now


@in_each_python
def test_settings_can_be_used_again() -> None:
    """set_local starts from the user's part each time, whatever an earlier call appended."""
    path = "settings.h5"
    first = nasty((40, 50), "<f4", 1)
    with h5py.File(path, "w") as file:
        options = {"chunks": (16, 16), "compression": FILTER_ID, "compression_opts": absolute(1e-3)}
        file.create_dataset("first", data=first, **options)
    # Opened again, so that reading goes through the filter and not to the chunk cache, which holds the values as written.
    with h5py.File(path, "r+") as file:
        source = file["first"]
        assert_bound(first, source[()], 1e-3, "first")

        # The filled creation properties of one dataset, for another of a different type, rank and chunk.
        for name, shape, chunks, dtype in (
            ("same", (40, 50), (16, 16), "<f4"),
            ("bigger", (40, 50), (40, 50), "<f4"),
            ("f64", (33, 20), (8, 30), ">f8"),
            ("rank1", (999,), (100,), "<f4"),
            ("rank5", (3, 4, 5, 6, 7), (2, 3, 4, 5, 6), ">f4"),
        ):
            properties = source.id.get_create_plist()
            properties.set_chunk(chunks)
            properties.set_fill_value(np.zeros((), dtype))
            space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape))
            identifier = h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype)), space, properties)
            data = nasty(shape, dtype, 2)
            h5py.Dataset(identifier)[...] = data
            assert_bound(data, file[name][()], 1e-3, f"settings reused for {name}")

        file.copy("first", "copied")
        assert_same_bits(file["first"][()], file["copied"][()], "H5Ocopy")
        with h5py.File("copied.h5", "w") as other:
            file.copy("first", other)
            assert_same_bits(file["first"][()], other["first"][()], "H5Ocopy to another file")

        for is_mandatory in (False, True):
            early = h5py.h5d.ALLOC_TIME_EARLY
            dataset = create(file, f"flag{is_mandatory}", first.shape, "<f4", (16, 16), absolute(1e-3), is_mandatory=is_mandatory, alloc_time=early)
            assert dataset.id.get_storage_size() > 0, "early allocation wrote no chunk"
            dataset[...] = first
            assert_bound(first, dataset[()], 1e-3, f"mandatory: {is_mandatory}, allocated early")


class Copy(NamedTuple):
    """A dataset that is created with the cd_values of another."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    defined: Optional[float]  # the fill value that its own creation list defines
    kept: Optional[float]  # the fill value that the filter is to know


COPIES = (
    Copy("same", "<f4", (40, 50), None, -99),
    Copy("other order of bytes", ">f4", (40, 50), None, -99),
    Copy("other rank", "<f4", (7, 5, 60), None, -99),
    Copy("defines another", "<f4", (40, 50), 7, 7),
    Copy("defines zero", "<f4", (40, 50), 0, 0),
    Copy("wider type", "<f8", (40, 50), None, None),
    Copy("other type of that size", "<i4", (40, 50), None, None),
)


@in_each_python
def test_a_given_fill_value_is_kept_where_there_is_no_other() -> None:
    """The words carry the fill value of a dataset. It stays if the new list defines none and the values have the same type."""

    def new(file: h5py.File, copy: Copy, words: tuple[int, ...]) -> h5py.Dataset:
        chunks, never = tuple(extent // 2 + 1 for extent in copy.shape), h5py.h5d.FILL_TIME_NEVER if copy.defined is None else None
        fill = None if copy.defined is None else np.array(copy.defined, copy.dtype)
        return create(file, copy.name, copy.shape, copy.dtype, chunks, words, is_mandatory=False, fill=fill, fill_time=never)

    def data(copy: Copy) -> np.ndarray:
        # -99 is not far from the data: to a filter that does not know it, it is a value like others.
        values = (smooth(copy.shape, "f8") * 10 + 280).astype(copy.dtype)
        values.reshape(-1)[300:400] = -99
        return values

    path, relative = "fills.h5", (4, 2)
    with h5py.File(path, "w") as file:
        first = new(file, Copy("first", "<f4", (40, 50), -99, -99), relative)
        words = first.id.get_create_plist().get_filter_by_id(FILTER_ID)[1]
        for copy in COPIES:
            new(file, copy, words)[...] = data(copy)
        # A copy of a copy, as by nccopy and nccopy again.
        new(file, Copy("again", "<f4", (40, 50), None, -99), file["same"].id.get_create_plist().get_filter_by_id(FILTER_ID)[1])
        file["again"][...] = data(COPIES[0])
    # Opened again: HDF5's chunk cache would give back what was written.
    with h5py.File(path, "r") as file:
        for copy in (*COPIES, COPIES[0]._replace(name="again")):
            dataset, original = file[copy.name], data(copy)
            label = f"{client()}: {copy.name}"
            kept = dataset.id.get_create_plist().get_filter_by_id(FILTER_ID)[1]
            # The mode and a bound of two words, what describes the chunk, its extents, and what is left.
            fill = kept[3 + 1 + (kept[3] & 0xFF) :]
            expected = () if copy.kept is None else struct.unpack("<I", struct.pack("<f", copy.kept))
            assert fill == expected, f"{label}: cd_values {kept} end with {fill}, not with {expected}"
            if copy.kept == -99:
                read, good = dataset[()], original != -99
                error, bound = np.abs(read.astype("f8") - original), 1e-2 * float(np.ptp(original[good].astype("f8")))
                assert (error[~good] == 0).all() and error[good].max() <= bound, f"{label}: off by {error[good].max()} where {bound} is allowed"
