"""The codec of numcodecs, alone and in arrays of zarr's format 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr as zarr_module

from h5z_quire import Quire, compress
from h5z_quire.numcodecs import QuireCodec
from conftest import TYPES, Array, RunPython, assert_bound, field

# Its hints are those of one of its versions, and these tests run with two.
zarr: Any = zarr_module
ZARR_2 = int(zarr.__version__.split(".")[0]) == 2


def make(path: Path, values: Array, codec: QuireCodec, order: str = "C") -> Any:
    """An array of format 2, in whichever way this zarr makes one."""
    if ZARR_2:
        return zarr.open(str(path), "w", shape=values.shape, chunks=(16, 16, 16), dtype=values.dtype, compressor=codec, filters=None, order=order)
    return zarr.create_array(
        str(path), shape=values.shape, chunks=(16, 16, 16), dtype=values.dtype, zarr_format=2, compressors=codec, filters=None, order=order, fill_value=0
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_format_2_keep_their_bound(dtype: str, order: str, tmp_path: Path) -> None:
    values = field(dtype)
    bound = 0.05 if values.dtype.kind in "fc" else 2
    make(tmp_path / "t.zarr", values, QuireCodec(Quire(abs=bound)), order)[...] = values
    found = zarr.open(str(tmp_path / "t.zarr"), mode="r")
    assert_bound(values, found[...], bound)
    stored = sum(path.stat().st_size for path in (tmp_path / "t.zarr").iterdir() if path.name[0] != ".")
    assert stored < values.nbytes
    assert json.loads((tmp_path / "t.zarr" / ".zarray").read_text())["compressor"] == {"id": "quire", "quire": QuireCodec(Quire(abs=bound)).quire.options}


@pytest.mark.parametrize("order", ["C", "F"])
def test_values_that_are_read_as_another_type_keep_their_order(order: str, tmp_path: Path) -> None:
    times = np.arange(20 * 24 * 28).reshape(20, 24, 28).astype("M8[s]")
    codec = QuireCodec("lossless", dtype="<i8")
    make(tmp_path / "t.zarr", times, codec, order)[...] = times
    assert (zarr.open(str(tmp_path / "t.zarr"), mode="r")[...] == times).all()
    chunk = np.asfortranarray(times) if order == "F" else times
    room = np.empty_like(chunk)
    codec.decode(codec.encode(chunk), room)
    assert (room == times).all()


def test_a_chunk_is_the_stream_of_its_array(tmp_path: Path) -> None:
    values = field("f4", (16, 32, 16))
    make(tmp_path / "t.zarr", values, QuireCodec("rel=1e-3"))[...] = values
    assert (tmp_path / "t.zarr" / "0.1.0").read_bytes() == compress(values[:, 16:], Quire(rel=1e-3))


def test_a_reader_needs_not_import_the_package(tmp_path: Path, run_python: RunPython) -> None:
    values = field("f4")
    make(tmp_path / "t.zarr", values, QuireCodec("abs=1e-3"))[...] = values
    np.save(tmp_path / "expected.npy", values)
    run_python("""
import zarr, numpy as np
assert abs(zarr.open("t.zarr", mode="r")[...].astype("f8") - np.load("expected.npy")).max() <= 1e-3
""")


def test_the_codec_is_registered_and_says_what_it_is() -> None:
    for codec in (QuireCodec("abs=1e-3"), QuireCodec(Quire(rel=1e-3), dtype=">f4", fill_value=-9999)):
        config = json.loads(json.dumps(codec.get_config()))
        again = numcodecs.get_codec(config)
        assert type(again) is QuireCodec and again == codec and repr(again) == repr(codec)
    assert repr(codec) == "QuireCodec('rel=0.001', dtype='>f4', fill_value=-9999)"
    with pytest.raises(ValueError, match="no bound"):
        QuireCodec("coding=auto")
    with pytest.raises(ValueError, match="point-wise"):
        QuireCodec("pwrel=0.1", dtype="i4")


def test_bytes_in_and_bytes_out() -> None:
    values = field("<f4", (4000,))
    codec = QuireCodec("abs=1e-3", dtype="<f4")
    for given in (values, values.tobytes(), memoryview(values.tobytes()), values.view("u1"), bytearray(values.tobytes())):
        stream = codec.encode(given)
        assert isinstance(stream, bytes) and stream == compress(values, Quire(abs=1e-3))
        assert_bound(values, codec.decode(stream).view("<f4"), 1e-3)
    room: Any = np.empty_like(values)
    assert codec.decode(stream, out=room) is not None
    assert_bound(values, room, 1e-3)
    room = bytearray(values.nbytes)
    codec.decode(stream, out=room)
    assert_bound(values, np.frombuffer(room, "<f4"), 1e-3)
    with pytest.raises(ValueError, match="out has room for 4"):
        codec.decode(stream, out=bytearray(4))
    with pytest.raises(ValueError, match="out must be contiguous bytes"):
        codec.decode(stream, out=np.empty((8000,), "<f4")[::2])
    with pytest.raises(ValueError, match="out has room for 0"):
        codec.decode(stream, out=values.tobytes())
    with pytest.raises(ValueError, match="cannot be read as values of type"):
        codec.encode(b"12345")


def test_plain_bytes_without_a_type_are_refused() -> None:
    for given in (b"12345678", bytearray(8), np.zeros(8, "u1")):
        with pytest.raises(ValueError, match="say of what type"):
            QuireCodec("abs=1").encode(given)
    assert QuireCodec("lossless").decode(QuireCodec("lossless").encode(b"12345678")).tobytes() == b"12345678"
    numbers = field("u1", (3000,))
    assert_bound(numbers, QuireCodec("abs=2", dtype="u1").decode(QuireCodec("abs=2", dtype="u1").encode(numbers)), 2)


def test_a_fill_value_stays_exact() -> None:
    values = field("f4")
    values[3] = -9999.25
    codec = QuireCodec("abs=1", fill_value=-9999.25)
    assert (codec.decode(codec.encode(values))[3] == np.float32(-9999.25)).all()


@pytest.mark.parametrize("fill_value", [np.float32(-99.5), np.array(7), np.nan, np.float64("inf"), -np.inf], ids=str)
def test_a_fill_value_of_any_kind_is_kept_in_metadata(fill_value: Any, tmp_path: Path) -> None:
    values = field("f4")
    values[3, 4:9] = fill_value

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    codec = QuireCodec(abs=0.01, fill_value=fill_value)
    assert numcodecs.get_codec(json.loads(json.dumps(codec.get_config()), parse_constant=refuse)) == codec
    make(tmp_path / "t.zarr", values, codec)[...] = values
    found = zarr.open(str(tmp_path / "t.zarr"), mode="r")[...]
    assert found[3, 4:9].tobytes() == values[3, 4:9].tobytes()


def test_bfloat16_is_kept_in_metadata() -> None:
    bfloat16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    codec = QuireCodec(abs=0.5, dtype=bfloat16)
    values = field("f4").astype(bfloat16)
    again = numcodecs.get_codec(json.loads(json.dumps(codec.get_config())))
    assert again == codec and again.encode(values.tobytes()) == codec.encode(values.tobytes())


def test_bounds_may_be_keywords() -> None:
    assert QuireCodec(abs=1e-3, dtype="f4").get_config() == QuireCodec("abs=1e-3", dtype="f4").get_config()
    with pytest.raises(ValueError, match="give one text or Quire, or keywords alone"):
        QuireCodec("abs=1e-3", rel=1e-3)
