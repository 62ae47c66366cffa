"""What the filter must refuse when a dataset is created, with a text that names the problem."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from conftest import in_each_python
from quire_client import FILTER_ID, absolute, assert_words, smooth

COMPOUND = np.dtype([("a", "<f4"), ("b", "<f8")])
GAP = np.dtype({"names": ["r", "i"], "formats": ["<f4", "<f4"], "offsets": [0, 8], "itemsize": 12})

# What, type, cd_values, words of the message.
CASES: list[tuple[str, Any, tuple[int, ...], list[str]]] = [
    ("words behind mode 0", "<f4", (0, 0, 0), ["0x00000000", "nothing may follow"]),
    ("mode 13", "<f4", (13, 0, 0), ["mode 13", "0 to 12"]),
    ("mode 77", "<f4", (77, 0, 0), ["mode", "77"]),
    ("coding 3", "<f4", (2 + 3 * 256, 3), ["coding 3", "0 to 2"]),
    ("coding 2 without a mode", "<f4", (512, 3), ["512", "nothing may follow"]),
    ("coding 2 and bit 31", "<f4", (514 + (1 << 31), 3), ["brick of 128 extents", "1 words follow"]),
    ("brick without an extent", "<f4", (2 + (2 << 24), 8), ["brick of 2 extents", "1 words follow"]),
    ("brick of 5 extents", "<f4", (2 + (5 << 24), 8, 8, 1, 1, 1, 3), ["brick [8, 8, 1, 1, 1]", "1 to 4 extents"]),
    ("brick with an extent of 0", "<f4", (2 + (2 << 24), 8, 0, 3), ["brick [8, 0]", "each from 1"]),
    ("brick without a bound", "<f4", (2 + (2 << 24), 8, 8), ["mode 2", "exponent"]),
    ("chunk without whole rows", "<f4", (2 + (3 << 24), 8, 8, 7, 3), ["brick=8x8x7", "256 values", "rows of 7", "whole bricks"]),
    ("bits 16 to 19", "<f4", (2 + 4 * 65536, 3), ["word 0 has 4 in its bits 16 to 19", "0 to 3"]),
    ("no cd_values", "<f4", (), ["cd_values"]),
    ("absolute mode without a bound", "<f4", (1,), ["bound"]),
    ("half a bound", "<f4", absolute(1e-3)[:2], ["bound"]),
    ("short form without an exponent", "<f4", (2,), ["mode 2", "exponent"]),
    ("a fraction that h5py cuts to 0", "<f4", (2, 1e-3), ["cut a fraction", "2,3", "2,0,1"]),
    ("negative bound", "<f4", absolute(-1e-3), ["bound is -0.001", "0 or greater"]),
    ("bound NaN", "<f4", absolute(float("nan")), ["bound is nan", "finite"]),
    ("bound infinity", "<f4", absolute(float("inf")), ["bound is inf", "finite"]),
    ("denormal bound", "<f8", absolute(5e-324), ["bound is", "so small"]),
    ("short form of 1e-400", "<f8", (2, 400), ["1e-400 is too small"]),
    ("twice the range", "<f4", (4, 0, 2), ["relative error bound is 2", "at most 1"]),
    ("point-wise 1", "<f4", (6, 0, 1), ["point-wise relative error bound is 1", "less than 1"]),
    ("PSNR 0", "<f4", (8, 0, 0), ["PSNR is 0", "dB"]),
    ("ratio 1", "<f4", (10, 0, 1), ["ratio is 1", "greater than 1"]),
    ("ratio without its bound", "<f4", (12, 0, 20), ["four words"]),
    ("point-wise bound of integers", "<i4", (6, 2), ["point-wise relative bound", "floating-point", "I32"]),
    ("string", "S12", absolute(1e-3), ["elements are strings of 12 bytes", "without the filter"]),
    ("compound", COMPOUND, absolute(1e-3), ["elements are compounds of 12 bytes", "complex numbers of two"]),
    ("two numbers with a gap", GAP, absolute(1e-3), ["elements are compounds of 12 bytes"]),
    ("two integers", np.dtype([("r", "<i4"), ("i", "<i4")]), absolute(1e-3), ["elements are compounds of 8 bytes"]),
    ("two orders", np.dtype([("r", "<f4"), ("i", ">f4")]), absolute(1e-3), ["elements are compounds of 8 bytes"]),
    ("two of binary16", np.dtype([("r", "<f2"), ("i", "<f2")]), absolute(1e-3), ["compounds of 4 bytes", "two parts of 5 exponent"]),
    ("array of f4", np.dtype(("<f4", (3,))), absolute(1e-3), ["elements are arrays of 12 bytes"]),
    ("long double", np.longdouble, absolute(1e-3), ["elements are floating-point numbers of 16 bytes"]),
    ("complex of long double", np.clongdouble, absolute(1e-3), ["compounds of 32 bytes", "two parts of 15 exponent"]),
]


def refusal(file: h5py.File, number: int, dtype: Any, cd_values: tuple[int, ...], flag: int) -> str:
    """The text of the exception that creating the dataset raises; an empty text if it raises none."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((16, 16))
    properties.set_filter(FILTER_ID, flag, cd_values)
    space = h5py.h5s.create_simple((40, 50))
    try:
        h5py.h5d.create(file.id, b"low%d_%d" % (number, flag), h5py.h5t.py_create(np.dtype(dtype), logical=True), space, properties)
    except (ValueError, OSError, RuntimeError) as error:
        return str(error)
    return ""


def order(file: h5py.File) -> None:
    """Filters before ours would hand us something else than numbers."""
    for name, options in {"shuffle": {"shuffle": True}, "scaleoffset": {"scaleoffset": 3}}.items():
        try:
            file.create_dataset(
                name, (40, 50), "<f4", chunks=(16, 16), compression=FILTER_ID, compression_opts=absolute(1e-3), **options
            )
        except (ValueError, OSError, RuntimeError) as error:
            assert_words(str(error), ["quire", "first", "order"], f"{name} before ours")
        else:
            raise AssertionError(f"{name} before ours was accepted")


def behind(file: h5py.File) -> None:
    """Behind ours stand filters that keep all bytes. Those that take bytes for numbers, or that nobody knows, would lose the data."""
    mandatory, optional = h5py.h5z.FLAG_MANDATORY, h5py.h5z.FLAG_OPTIONAL
    nbit, scaleoffset, szip, lzf, zfp = (5, ()), (6, (2, 0)), (4, (32, 8)), (32000, ()), (32013, (1,))
    kept = {"fletcher32": [(3, ())], "shuffle_deflate": [(2, ()), (1, (1,))], "deflate_fletcher32": [(1, (1,)), (3, ())]}
    for dtype in ("<f4", ">f8", "<i2", "u1", "<c8"):
        data = (smooth((40, 50), "<f8") * 100).astype(dtype)

        def create(name: str, flag: int, filters: list[tuple[int, tuple[int, ...]]], dtype: str = dtype) -> h5py.Dataset:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((16, 16))
            properties.set_filter(FILTER_ID, h5py.h5z.FLAG_MANDATORY, (2, 0, 5))
            for number, options in filters:
                properties.set_filter(number, flag, options)
            space = h5py.h5s.create_simple((40, 50))
            return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype), logical=True), space, properties))

        for flag in (mandatory, optional):
            for name, filters in kept.items():
                create(f"plain_behind_{name}_{dtype}_{flag}", flag, filters)[...] = data
        create(f"plain_behind_lzf_{dtype}", optional, [lzf])[...] = data
        # HDF5 looks at its own filters before it asks ours: of complex numbers it refuses szip, and n-bit takes any compound.
        own = [(number, options, flag) for number, options in (nbit, scaleoffset, szip) for flag in (mandatory, optional)]
        for number, options, flag in [*own, (*zfp, optional)]:
            for filters in ([(number, options)], [(3, ()), (number, options)]):
                try:
                    create("refused", flag, filters)
                except (ValueError, OSError, RuntimeError) as error:
                    if dtype != "<c8":
                        assert_words(str(error), ["quire", f"{number} is not known to keep all bytes", "leave it out"], f"{number} behind ours")
                else:
                    raise AssertionError(f"{number} behind ours was accepted for {dtype}")
        try:
            create("refused", mandatory, [lzf])
        except (ValueError, OSError, RuntimeError) as error:
            assert_words(str(error), ["quire", "32000 is mandatory", "make it optional"], "LZF behind ours")
        else:
            raise AssertionError("LZF behind ours was accepted, and would end the write")


def strings(file: h5py.File) -> None:
    """HDF5 leaves optional filters out of datasets of variable length; the strings come back."""
    words = ["a", "quire", "of leaves"]
    try:
        file.create_dataset("plain_strings", data=words, chunks=(3,), compression=FILTER_ID, compression_opts=absolute(1e-3))
    except (ValueError, OSError, RuntimeError) as error:
        # Before it left them out (1.10), it asked the filter.
        assert_words(str(error), ["quire", "type"], "strings of variable length")
        file["plain_strings"] = words


@in_each_python
def test_refusals_name_the_problem() -> None:
    path = "refusals.h5"
    with h5py.File(path, "w") as file:
        order(file)
        behind(file)
        strings(file)
        for number, (what, dtype, cd_values, words) in enumerate(CASES):
            # h5py and netCDF call a filter optional; a refusal must not be passed over in silence then.
            for flag in (h5py.h5z.FLAG_OPTIONAL, h5py.h5z.FLAG_MANDATORY):
                text = refusal(file, number, dtype, cd_values, flag)
                assert text, f"{what}: accepted with flag {flag}"
                assert_words(text, ["quire", *words], what)
            try:
                file.create_dataset(
                    f"high{number}", (40, 50), dtype, chunks=(16, 16), compression=FILTER_ID, compression_opts=cd_values
                )
            except (ValueError, OSError, RuntimeError) as error:
                assert_words(str(error), ["quire", *words], f"create_dataset, {what}")
            else:
                raise AssertionError(f"create_dataset accepted {what}")
        # The file and the library live on after all that.
        file["plain"] = np.arange(3)
    with h5py.File(path, "r") as file:
        followed = [name for name in file if name.startswith("plain_behind_")]
        assert len(followed) == 5 * 7 and set(file) == {"plain", "plain_strings", *followed}, f"left behind in the file: {list(file)}"
        for name in followed:
            data = (smooth((40, 50), "<f8") * 100).astype(file[name].dtype)
            assert np.abs(file[name][()] - data.astype(file[name].dtype.newbyteorder("=")).astype("c16")).max() <= 5, name
        assert file["plain_strings"].asstr()[()].tolist() == ["a", "quire", "of leaves"], "strings of variable length"
