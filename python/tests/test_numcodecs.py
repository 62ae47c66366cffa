"""The codec of numcodecs, alone and in arrays of zarr's format 2."""

from __future__ import annotations

import array
import json
import mmap
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
    text = values.tobytes()
    for given in (values, text, memoryview(text), values.view("u1"), values.view("i1"), bytearray(text), array.array("b", text), array.array("B", text)):
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


@pytest.mark.parametrize("fill_value", [1 + 1j, np.complex64(-9999), complex(np.nan, 5), complex(np.nan, np.inf), np.array([2 + 0j])], ids=str)
def test_a_complex_fill_value_is_kept_in_metadata(fill_value: Any, tmp_path: Path) -> None:
    values = field("c8")
    values[3, 4:9] = fill_value
    codec = QuireCodec(abs=0.01, fill_value=fill_value)
    assert numcodecs.get_codec(json.loads(json.dumps(codec.get_config(), allow_nan=False))) == codec
    make(tmp_path / "t.zarr", values, codec)[...] = values
    found = zarr.open(str(tmp_path / "t.zarr"), mode="r")[...]
    assert found[3, 4:9].tobytes() == values[3, 4:9].tobytes()
    assert_bound(np.delete(values, 3, 0), np.delete(found, 3, 0), 0.01)


def test_a_negative_zero_is_a_fill_value() -> None:
    values = field("f4", (100,))
    values[5:9] = -0.0
    codec = numcodecs.get_codec(json.loads(json.dumps(QuireCodec(abs=0.5, fill_value=-0.0).get_config())))
    assert codec.decode(codec.encode(values))[5:9].tobytes() == values[5:9].tobytes()


@pytest.mark.parametrize("fill_value", ["x", b"1", np.datetime64("2000-01-01"), np.array([1, 2]), [1], {}], ids=str)
def test_what_is_no_number_is_no_fill_value(fill_value: Any) -> None:
    with pytest.raises(ValueError, match="fill value .* is not a number"):
        QuireCodec(abs=0.01, fill_value=fill_value)


def view(of: Any) -> memoryview:
    return memoryview(of)


# An array that receives nothing, or the wrong bytes, and why.
NO_ROOM: "list[tuple[Any, str]]" = [
    (np.full(3000, None, object), "elements are objects of Python"),
    (np.full(3000, None, [("x", object)]), "elements are objects of Python"),
    (view(np.full(3000, None, object)), "elements are objects of Python"),
    (np.zeros(3000, "i8"), "holds values of type float64, out has int64"),
    (np.zeros(3000, ">f8"), "holds values of type float64, out has >f8"),
    (np.zeros(6000, "f4"), "holds values of type float64, out has float32"),
    (np.zeros(1500, "c16"), "holds values of type float64, out has complex128"),
    (np.zeros(2999), "the stream holds 24000 bytes, out has room for 23992"),
    (np.zeros(3001), "the stream holds 24000 bytes, out has room for 24008"),
    (np.zeros(6000)[::2], "out must be contiguous bytes"),
    (np.zeros((60, 100))[:, :50], "out must be contiguous bytes"),
    (np.ma.zeros(3000), "out must be contiguous bytes"),
    (np.broadcast_to(np.zeros(1), 3000), "out must be contiguous bytes"),
    (np.frombuffer(bytes(24000)), "out has room for 0"),
    (bytes(24000), "out has room for 0"),
    (memoryview(bytes(24000)), "out has room for 0"),
    ("text", "out must be contiguous bytes"),
    (5, "out must be contiguous bytes"),
    ([0.0] * 3000, "out must be contiguous bytes"),
]


@pytest.mark.parametrize(("out", "reason"), NO_ROOM, ids=str)
def test_an_out_that_cannot_have_the_values_is_refused(out: Any, reason: str) -> None:
    codec = QuireCodec(lossless=True)
    before = np.array(out, copy=True) if isinstance(out, np.ndarray) else None
    with pytest.raises((TypeError, ValueError), match=reason):
        codec.decode(codec.encode(field("f8", (3000,))), out=out)
    assert before is None or (before == out).all()


def test_an_out_of_bytes_has_the_values() -> None:
    values, codec = field("f8", (50, 60)), QuireCodec(lossless=True)
    rooms: "list[Any]" = [
        np.zeros(24000, "u1"), np.zeros((50, 60)), np.zeros((60, 50)).T, np.zeros(24000, "S1"), np.zeros(1, "V24000"), np.zeros(3000, "M8[s]"),
        np.zeros(24000, "i1"), bytearray(24000), memoryview(bytearray(24000)), array.array("d", [0.0] * 3000), mmap.mmap(-1, 24000),
    ]  # fmt: skip
    for out in rooms:
        codec.decode(codec.encode(values), out=out)
        expected = values.T.tobytes() if isinstance(out, np.ndarray) and out.strides == (8, 400) else values.tobytes()
        stored = out.tobytes("A") if isinstance(out, np.ndarray) else bytes(out)
        assert stored == expected or stored == values.tobytes()


@pytest.mark.parametrize(
    ("given", "dtype", "reason"),
    [
        (np.arange(100, dtype=object), None, "holds objects of Python"),
        (np.arange(100, dtype=object), "i8", "holds objects of Python"),
        (["a", "b"], None, "a list of texts holds objects of Python"),
        (np.array(["a", "b"]), None, "cannot be compressed"),
        (np.zeros(9, [("x", "f4"), ("y", "f4")]), None, "cannot be compressed"),
        (np.zeros(9, bool), None, "type bool cannot be compressed"),
        (np.zeros(100, "f4"), "f8", "these are values of type float32, and the codec has dtype='float64'"),
        (np.zeros(100, "i4"), "f4", "these are values of type int32, and the codec has dtype='float32'"),
        (np.zeros(100, ">f4"), "<f4", "these are values of type >f4"),
        (np.ma.zeros(100), "i8", "a masked array has no value where it is masked"),
        (np.ma.zeros(100), None, "a masked array has no value where it is masked"),
        (view(np.zeros(100, "f4")), "<i4", "these are values of type float32"),
    ],
    ids=str,
)
def test_what_is_not_what_was_promised_is_not_encoded(given: Any, dtype: Any, reason: str) -> None:
    with pytest.raises((TypeError, ValueError), match=reason):
        QuireCodec("abs=1e-3", dtype=dtype).encode(given)


FILTERS: "dict[str, Any]" = {
    "BitRound": numcodecs.BitRound(keepbits=8),
    "AsType": numcodecs.AsType(encode_dtype="<f8", decode_dtype="<f4"),
    "FixedScaleOffset": numcodecs.FixedScaleOffset(offset=0, scale=100, dtype="<f4", astype="<i2"),
    "Delta": numcodecs.Delta(dtype="<f4", astype="<f8"),
    "Quantize": numcodecs.Quantize(digits=3, dtype="<f4", astype="<f8"),
}


@pytest.mark.parametrize("name", FILTERS)
def test_behind_a_filter_that_makes_another_type_nothing_is_written(name: str, tmp_path: Path) -> None:
    values = field("f4", (16, 16, 16))
    codec = QuireCodec("abs=1e-3", dtype="<f4")
    if ZARR_2:
        array = zarr.open(str(tmp_path / "t"), "w", shape=values.shape, chunks=values.shape, dtype="f4", compressor=codec, filters=[FILTERS[name]])
    else:
        array = zarr.create_array(
            str(tmp_path / "t"), shape=values.shape, chunks=values.shape, dtype="f4", zarr_format=2, compressors=codec, filters=[FILTERS[name]]
        )
    with pytest.raises(ValueError, match="and the codec has dtype='float32': give the type of the array, and no filter before this codec"):
        array[...] = values
    assert not (tmp_path / "t" / "0.0.0").exists()


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
