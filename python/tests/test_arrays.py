"""Arrays to streams and back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import h5z_quire
from h5z_quire import Quire, compress, decompress, describe
from conftest import TYPES, Array, RunPython, assert_bound, field


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("coding", ["auto", "huffman", "bitshuffle"])
def test_every_type_keeps_an_absolute_bound(dtype: str, coding: str) -> None:
    values = field(dtype)
    bound = 0.05 if values.dtype.kind in "fc" else 2
    stream = compress(values, Quire(abs=bound, coding=coding))
    assert len(stream) < values.nbytes
    found = decompress(stream)
    assert found.dtype == values.dtype
    assert_bound(values, found, bound)
    # Streams of integers without a bound are exact.
    assert np.array_equal(decompress(compress(values, "lossless")), values)


def test_bits_come_back_where_they_must() -> None:
    values = field("f8")
    values[0, 0, :3] = np.nan, np.inf, -np.inf
    values[1, 1] = 1e300
    values[2] = -9999.25
    found = decompress(compress(values, Quire(abs=0.1), fill_value=-9999.25))
    for place in (np.s_[0, 0, :3], np.s_[1, 1], np.s_[2]):
        assert found[place].tobytes() == values[place].tobytes()
    inside = np.abs(values) < 100
    assert_bound(values[inside], found[inside], 0.1)


def test_bfloat16() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    values = field("f4").astype(bfloat16)
    stream = compress(values, Quire(abs=0.5), fill_value=3.0)
    found = decompress(stream)
    assert found.dtype == bfloat16 and describe(stream).value_type == "bfloat16"
    assert_bound(values, found, 0.5)


def test_a_stream_of_bfloat16_without_ml_dtypes_is_a_value_error(run_python: RunPython) -> None:
    # The type's number is in byte 8 of the header; a checksum is what the library would miss first, so one is made anew.
    script = """
import sys, zlib, numpy as np, h5z_quire
sys.modules["ml_dtypes"] = None
stream = bytearray(h5z_quire.compress(np.arange(9, dtype="f2"), "lossless"))
stream[8] = 3
stream[4:8] = zlib.crc32(bytes(stream[:4] + stream[8:])).to_bytes(4, "little")
try:
    h5z_quire.decompress(stream)
except ValueError as error:
    print(error)
"""
    assert "install ml_dtypes" in run_python(script)


@pytest.mark.parametrize("shape", [(7,), (1, 5, 1, 9), (2, 3, 4, 5, 6), (2, 1, 3, 1, 4, 5, 6, 2), (1, 1)])
def test_shapes(shape: "tuple[int, ...]") -> None:
    values = field("f4", shape)
    stream = compress(values, Quire(abs=1e-3))
    assert_bound(values, decompress(stream, shape=shape), 1e-3)
    assert decompress(stream).size == values.size and decompress(stream).ndim <= 4
    with pytest.raises(ValueError, match="does not fit"):
        decompress(stream, shape=(*shape, 2))


def test_what_does_not_lie_in_order_is_copied() -> None:
    values = field("f4")
    for view in (values.T, values[::2, ::-1, 3:], np.asfortranarray(values)):
        assert_bound(view, decompress(compress(view, "abs=1e-3"), shape=view.shape), 1e-3)
    assert decompress(compress(np.float64(3.25), Quire(abs=1e-3))) == [3.25]
    assert decompress(compress([1, 2, 300], "lossless")).tolist() == [1, 2, 300]


@pytest.mark.parametrize("container", [bytes, bytearray, memoryview, lambda stream: np.frombuffer(stream, np.uint8)])
def test_streams_come_in_anything_with_bytes(container: Any) -> None:
    values = field("f4")
    assert_bound(values, decompress(container(compress(values, Quire(abs=1e-3)))), 1e-3)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.zeros(3, bool), "values of type bool"),
        (np.zeros(3, np.clongdouble), "values of type complex256"),
        (np.zeros(3, "M8[s]"), "datetime64"),
        (np.zeros(3, [("a", "f4")]), "values of type"),
        (np.array(["text"]), "values of type"),
        (np.array([None]), "values of type object"),
        (np.zeros(3, np.longdouble), "values of type float128"),
        (np.zeros((3, 0), "f4"), "hold no elements"),
        (np.ma.masked_greater(np.arange(9.0), 3), "masked array"),
    ],
)
def test_arrays_that_cannot_be_are_value_errors(values: Array, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        compress(values, Quire(abs=1))


@pytest.mark.parametrize(("dtype", "fill_value"), [("u1", 256), ("u1", -1), ("i4", 1.5), ("f4", "x"), ("f4", [1, 2])])
def test_fill_values_that_cannot_be_are_value_errors(dtype: npt.DTypeLike, fill_value: Any) -> None:
    with pytest.raises(ValueError, match="fill value"):
        compress(np.zeros(3, dtype), Quire(abs=1), fill_value=fill_value)


def test_options_that_cannot_be_are_value_errors() -> None:
    for options, reason in (("abs=x", "is not a number"), ("abs=1\0", "character 0"), ("", "no bound")):
        with pytest.raises(ValueError, match=reason):
            compress(np.zeros(3), options)
    with pytest.raises(ValueError, match="point-wise"):
        compress(np.zeros(3, int), Quire(pwrel=0.1))


def test_damaged_streams_are_value_errors() -> None:
    stream = compress(field("f4"), Quire(abs=1e-3))
    for damaged, reason in (
        (stream[:-1], "checksum"),
        (stream[:10], "truncated"),
        (b"", "truncated"),
        (b"HDF5" + stream[4:], "damaged at byte 0"),
        (stream[:-1] + bytes([stream[-1] ^ 1]), "checksum"),
        (stream[:3] + b"\x91" + stream[4:], "install a newer"),
        (b"QUIR\0\5" + stream[6:], "install H5Z-Quire 0.5"),
    ):
        for read in (decompress, describe):
            with pytest.raises(ValueError, match=reason):
                read(damaged)
    with pytest.raises(ValueError, match="contiguous bytes"):
        decompress("text")
    with pytest.raises(ValueError, match="contiguous bytes"):
        decompress(5)


def test_threads_do_not_disturb_each_other() -> None:
    values = [field("f4") * (1 + number) for number in range(16)]
    expected = [compress(value, Quire(abs=1e-3)) for value in values]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(lambda value: compress(value, Quire(abs=1e-3)), values)) == expected
            for value, found in zip(values, pool.map(decompress, expected)):
                assert_bound(value, found, 1e-3)


def test_a_stream_is_described() -> None:
    values = field("f4", (3, 1, 40, 50))
    found = describe(compress(values, Quire(abs=1e-3)))
    assert found[:5] == ("quantized", "f4", "little", (3, 40, 50), 1e-3)
    assert found.planes[0].coding == "huffman" and found.planes[0].bytes > 100
    assert describe(compress(values.astype(">f8"), Quire(abs=1e-3, coding="bitshuffle"))).planes[0][2:4] == ("bitshuffle", None)
    assert describe(compress(np.full(9, 7), Quire(abs=1)))[:5] == ("constant", "i8", "little", (9,), None)
    assert describe(compress(values, Quire(pwrel=1e-3))).coding == "logarithmic"
    assert describe(compress(field("i4"), Quire(abs=2))).coding == "steps"
    decimals = describe(compress(values.astype("f8").round(2), Quire(lossless=True)))
    assert (decimals.coding, decimals.half_step) == ("decimal", None)
    values[0] = np.where(values[0] > 0, values[0], np.nan)
    found = describe(compress(values, Quire(abs=1e-3)))
    gaps = int(np.isnan(values).sum())
    assert gaps <= found.exceptions <= gaps + 9 and len(found.planes) == 3
    noise = np.random.default_rng(1).integers(0, 2**63, 1000)
    assert describe(compress(noise, Quire(lossless=True))).coding in ("stored", "exact")


def test_the_library_says_what_it_is(run_python: RunPython) -> None:
    found = h5z_quire.info()
    # Cargo writes 1.0.0-rc.2, Python's packages 1.0.0rc2.
    assert found.version.replace("-rc.", "rc") == h5z_quire.__version__
    assert found.filter_id == 33791 and found.library.is_file()
    assert found.backend in ("cuda", "cpu") and found.why and (found.device is not None) == (found.backend == "cuda")
    script = "import h5z_quire; print(h5z_quire.info())"
    assert "backend='cpu', device=None, why='QUIRE_BACKEND=cpu'" in run_python(script, QUIRE_BACKEND="cpu")
    assert "backend='none', device=None, why='QUIRE_BACKEND=gpu is unknown" in run_python(script, QUIRE_BACKEND="gpu")
    if found.backend == "cpu":
        forced = run_python(script, QUIRE_BACKEND="cuda")
        assert "backend='none'" in forced and "QUIRE_BACKEND=cuda, but " in forced


def test_an_environment_that_makes_no_sense_is_a_value_error(run_python: RunPython) -> None:
    script = """
import numpy, h5z_quire
try:
    h5z_quire.compress(numpy.zeros(9), "abs=1")
except ValueError as error:
    print(error)
"""
    assert "QUIRE_BACKEND=gpu is unknown: the choices are auto, cpu, cuda" in run_python(script, QUIRE_BACKEND="gpu")


def test_the_module_is_a_command(run_python: RunPython) -> None:
    run = "import runpy, sys; sys.argv = ['', *sys.argv[1:]]; runpy.run_module('h5z_quire', run_name='__main__')"
    assert "filter_id       33791" in run_python(run)
    assert "compression=33791, compression_opts=(3, 3944497965, 1058682594)" in run_python(run, "rel=1e-4")
    assert run_python(run, "2,3") == run_python(run, "2", "3") == "abs=0.001\n"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("options", ["abs=1e-3", "rel=1e-5", "psnr=100", "pwrel=1e-2", "pwrel=1e-3", "pwrel=1e-5"])
def test_counts_are_exact_and_small_at_any_bound(dtype: str, options: str) -> None:
    """README's promise. Counts are stored as floating-point numbers in single-cell data and in detectors' images (hdf5plugin#304, anndata#828)."""
    random = np.random.default_rng(0)
    for counts in random.poisson(3, 1 << 17), np.where(random.random(1 << 17) < 0.9, 0, random.poisson(20, 1 << 17)):
        values = counts.astype(dtype)
        stream = compress(values, options)
        assert len(stream) <= 1.01 * len(compress(values, "lossless"))
        assert np.array_equal(decompress(stream), values)
