"""The codec of zarr's format 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3.1")

from h5z_quire import Quire, compress  # noqa: E402
import h5z_quire.numcodecs  # noqa: E402
from h5z_quire.zarr import NumcodecsQuire, QuireCodec  # noqa: E402
from conftest import TYPES, Array, RunPython, assert_bound, field  # noqa: E402


def make(path: Path, values: Array, quire: Any, **options: Any) -> Any:
    given = {"shape": values.shape, "dtype": values.dtype, "chunks": (16, 16, 16), "compressors": None, **options}
    array = zarr.create_array(str(path), serializer=quire if isinstance(quire, QuireCodec) else QuireCodec(quire), **given)
    array[...] = values
    return array


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("options", [{}, {"shards": (32, 32, 32)}, {"order": "F"}], ids=["chunks", "shards", "fortran"])
@pytest.mark.filterwarnings("ignore:The `order` keyword")
def test_arrays_keep_their_bound(dtype: str, options: "dict[str, Any]", tmp_path: Path) -> None:
    values = field(dtype)
    bound = 0.05 if values.dtype.kind in "fc" else 2
    if "order" in options:
        options = {"config": {"order": "F"}}
    make(tmp_path / "t.zarr", values, Quire(abs=bound), **options)
    found = zarr.open_array(str(tmp_path / "t.zarr"), mode="r")
    assert_bound(values, found[...], bound)
    assert_bound(values[3:5, ::7, 1], found[3:5, ::7, 1], bound)
    assert sum(path.stat().st_size for path in (tmp_path / "t.zarr").rglob("c/**/*") if path.is_file()) < values.nbytes


def test_a_chunk_is_the_stream_of_its_array_and_metadata_say_the_options(tmp_path: Path) -> None:
    values = field("f4", (16, 32, 16))
    make(tmp_path / "t.zarr", values, "rel=1e-3,coding=bitshuffle")
    assert (tmp_path / "t.zarr" / "c" / "0" / "1" / "0").read_bytes() == compress(values[:, 16:], Quire(rel=1e-3, coding="bitshuffle"))
    codecs = json.loads((tmp_path / "t.zarr" / "zarr.json").read_text())["codecs"]
    assert codecs == [{"name": "quire", "configuration": {"options": "rel=0.001,coding=bitshuffle"}}]


def test_chunks_may_lie_in_bricks(tmp_path: Path) -> None:
    boxes = np.stack([field("f4", (8, 8, 8)) + number for number in range(5)])
    quire = Quire(abs=1e-3, brick=(8, 8, 8))
    make(tmp_path / "t.zarr", boxes.reshape(-1), quire, chunks=(1024,))
    assert_bound(boxes.reshape(-1), zarr.open_array(str(tmp_path / "t.zarr"), mode="r")[...], 1e-3)
    assert (tmp_path / "t.zarr" / "c" / "1").read_bytes() == compress(boxes[2:4], Quire(abs=1e-3))
    with pytest.raises(ValueError, match="which are no whole number of the brick's rows of 8"):
        make(tmp_path / "u.zarr", boxes.reshape(-1), quire, chunks=(1020,))


def test_a_reader_needs_not_import_the_package(tmp_path: Path, run_python: RunPython) -> None:
    values = field("f4")
    make(tmp_path / "t.zarr", values, "abs=1e-3")
    np.save(tmp_path / "expected.npy", values)
    run_python("""
import zarr, numpy as np
array = zarr.open("t.zarr", mode="r+")
assert abs(array[...].astype("f8") - np.load("expected.npy")).max() <= 1e-3
array[:3] = 5
assert abs(array[:3].astype("f8") - 5).max() <= 1e-3
""")


@pytest.mark.parametrize("fill_value", [-0.0, 0.0, 5.0, np.float32(-9999)], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_a_chunk_is_that_of_a_dataset_with_the_same_fill_value(dtype: str, fill_value: Any, tmp_path: Path) -> None:
    values = (field(dtype, (16, 16, 16)) + 1000).astype(dtype)
    values[::3] = fill_value
    array = make(tmp_path / "t.zarr", values, Quire(rel=1e-3), fill_value=fill_value)
    own = make(tmp_path / "own.zarr", values, QuireCodec(rel=1e-3, fill_value=fill_value))
    stream = (tmp_path / "t.zarr" / "c" / "0" / "0" / "0").read_bytes()
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=values.shape, fillvalue=values.dtype.type(fill_value), compression=Quire(rel=1e-3))
        assert stream == bytes(dataset.id.read_direct_chunk((0, 0, 0))[1]) == (tmp_path / "own.zarr" / "c" / "0" / "0" / "0").read_bytes()
    assert array[::3].tobytes() == own[::3].tobytes() == values[::3].tobytes()


def test_the_codec_keeps_a_fill_value_that_the_array_does_not_have(tmp_path: Path) -> None:
    values = field("f4")
    values[3] = 1e20
    for number, fill_value in enumerate((None, 0, np.nan, np.float32(1e20))):
        codec = QuireCodec(rel=1e-3, fill_value=np.float32(1e20))
        array = make(tmp_path / str(number), values, codec, **({} if fill_value is None else {"fill_value": fill_value}))
        assert (array[3] == np.float32(1e20)).all()
        others = np.delete(values, 3, 0)
        assert_bound(others, np.delete(array[...], 3, 0), 1e-3 * float(np.ptp(others)))
        stored = json.loads((tmp_path / str(number) / "zarr.json").read_text())["codecs"][0]
        assert stored["configuration"] == {"options": "rel=0.001", "fill_value": 1.0000000200408773e20} and QuireCodec.from_dict(stored) == codec
    with pytest.raises(ValueError, match="the array has the fill value 5.0, the codec 1.0000000200408773e.20, and one value comes back bit for bit"):
        make(tmp_path / "two", values, codec, fill_value=5)
    for complex_one in (1 + 2j, complex(0, -1), np.complex64(7)):
        assert QuireCodec.from_dict(json.loads(json.dumps(QuireCodec("abs=1", complex_one).to_dict(), allow_nan=False))) == QuireCodec("abs=1", complex_one)
    with pytest.raises(ValueError, match="is not a number"):
        QuireCodec("abs=1", fill_value="x")


FILTERS = {
    "BitRound": lambda codecs: codecs.BitRound(keepbits=8),
    "Quantize": lambda codecs: codecs.Quantize(digits=3, dtype="<f4", astype="<f8"),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")
def test_behind_a_filter_that_makes_another_type_than_it_says_nothing_is_written(name: str, tmp_path: Path) -> None:
    codecs = pytest.importorskip("zarr.codecs.numcodecs")
    with pytest.raises(ValueError, match="where type float32 and shape .16, 16, 16. were promised, so that nobody could read it: leave out the filter"):
        make(tmp_path / "t", field("f4"), Quire(abs=1e-3), filters=[FILTERS[name](codecs)])
    assert not list((tmp_path / "t").rglob("c/*"))


@pytest.mark.parametrize("fill_value", [0.0, 1e20, np.nan], ids=str)
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr", "ignore:invalid value encountered in cast")
def test_behind_a_filter_that_says_its_type_the_bound_is_for_what_it_makes(fill_value: float, tmp_path: Path) -> None:
    codecs = pytest.importorskip("zarr.codecs.numcodecs")
    values = field("f4")
    for number, one in enumerate((codecs.AsType(encode_dtype="<f8", decode_dtype="<f4"), codecs.FixedScaleOffset(offset=0, scale=64, dtype="<f4", astype="<i2"))):
        array = make(tmp_path / str(number), values, Quire(abs=1e-3), filters=[one], fill_value=fill_value)
        # Half of a step of the second filter, and for the first one a rounding to binary32.
        assert_bound(values, array[...], (1.00001e-3, 1 / 128)[number])


def test_what_cannot_be_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bool"):
        make(tmp_path / "a.zarr", np.zeros((4, 4, 4), bool), Quire(abs=1))
    with pytest.raises(ValueError, match="point-wise"):
        make(tmp_path / "b.zarr", np.zeros((4, 4, 4), "i4"), Quire(pwrel=0.1))
    with pytest.raises(ValueError, match="no bound"):
        QuireCodec("coding=auto")
    for configuration in ({}, {"options": 5}, {"options": "abs=1", "more": 1}, {"fill_value": 1}):
        with pytest.raises(ValueError, match="it must have one text"):
            QuireCodec.from_dict({"name": "quire", "configuration": configuration})
    make(tmp_path / "c.zarr", field("f4"), Quire(abs=1))
    chunk = tmp_path / "c.zarr" / "c" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(ValueError, match="checksum"):
        zarr.open_array(str(tmp_path / "c.zarr"))[...]
    chunk.write_bytes(compress(np.zeros((16, 16, 16), "f8"), Quire(abs=1)))
    with pytest.raises(ValueError, match="belongs to another array"):
        zarr.open_array(str(tmp_path / "c.zarr"))[...]


@pytest.mark.parametrize("batch_size", [1, 5, 1000])
@pytest.mark.parametrize("shards", [None, (32, 32, 32)])
def test_batches_have_the_bytes_of_single_chunks(batch_size: int, shards: "tuple[int, ...] | None", tmp_path: Path) -> None:
    values = field("f4", (70, 40, 50))
    values[:16, :16] = 7.25
    stored = []
    for name, size in (("one", 1), ("many", batch_size)):
        with zarr.config.set({"codec_pipeline.batch_size": size}):
            array = make(tmp_path / name, values, Quire(abs=1e-2), shards=shards, fill_value=7.25)
            array[3:9, 1:40, 7] = values[3:9, 1:40, 7]
            found = zarr.open_array(str(tmp_path / name), mode="r")
            assert_bound(values, found[...], 1e-2)
            assert (found[:16, :16] == 7.25).all()
        folder = tmp_path / name
        stored.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert stored[0] == stored[1] and len(stored[0]) > 3


def test_errors_of_a_batch_are_those_of_its_chunk(tmp_path: Path) -> None:
    with zarr.config.set({"codec_pipeline.batch_size": 100}):
        make(tmp_path / "t.zarr", field("f4"), Quire(abs=1))
        chunk = tmp_path / "t.zarr" / "c" / "0" / "1" / "0"
        chunk.write_bytes(chunk.read_bytes()[:-1])
        with pytest.raises(ValueError, match="checksum"):
            zarr.open_array(str(tmp_path / "t.zarr"))[...]
        for wrong in (np.zeros((16, 16, 16), "f8"), np.zeros((16, 16, 8), "f4")):
            chunk.write_bytes(compress(wrong, Quire(abs=1)))
            with pytest.raises(ValueError, match="belongs to another array|does not fit"):
                zarr.open_array(str(tmp_path / "t.zarr"))[...]


def test_bounds_may_be_keywords_and_the_place_of_the_codec_is_said(tmp_path: Path) -> None:
    assert QuireCodec(abs=1e-3, coding="bitshuffle") == QuireCodec("abs=1e-3,coding=bitshuffle")
    with pytest.raises(ValueError, match="no bound"):
        QuireCodec()
    with pytest.raises(ValueError, match="give one text or Quire, or keywords alone"):
        QuireCodec("abs=1e-3", coding="bitshuffle")
    with pytest.raises(TypeError, match=r"write serializer=QuireCodec\(...\), compressors=None"):
        zarr.create_array(str(tmp_path / "t.zarr"), shape=(4,), dtype="f4", compressors=QuireCodec(abs=1))


def test_the_codec_is_the_same_from_its_metadata() -> None:
    codec = QuireCodec(Quire(abs=1e-3))
    assert QuireCodec.from_dict(codec.to_dict()) == codec and hash(codec) == hash(QuireCodec("abs=1e-3"))
    with pytest.raises(NotImplementedError):
        codec.compute_encoded_size(100, None)  # type: ignore[arg-type]


def test_arrays_that_zarr_migrates_from_format_2_are_read_and_written(tmp_path: Path) -> None:
    migrate = pytest.importorskip("zarr.metadata.migrate_v3")
    for dtype in ("<f4", ">f4", "<i2"):
        values, path = field(dtype), str(tmp_path / dtype[1:] / dtype[0])
        codec = h5z_quire.numcodecs.QuireCodec("abs=1", dtype=dtype if dtype == ">f4" else None)
        options = {"zarr_format": 2, "filters": None, "compressors": codec, "chunks": (16, 16, 16)}
        zarr.create_array(path, shape=values.shape, dtype=values.dtype, **options)[...] = values
        migrate.migrate_v2_to_v3(input_store=zarr.storage.LocalStore(path))
        found = zarr.open_array(path, mode="r+", zarr_format=3)
        *_, named = found.metadata.to_dict()["codecs"]
        assert named == NumcodecsQuire(codec).to_dict() == {"name": "numcodecs.quire", "configuration": {"quire": "abs=1", **named["configuration"]}}
        assert_bound(values, found[...], 1)
        if codec.dtype is None:
            with pytest.raises(ValueError, match="say of what type their numbers are"):
                found[0, 0] = 7
        else:
            found[:20, 3] = values[:20, 4]
            assert_bound(values[:, 4], found[:, 3], 2)
    with pytest.raises(NotImplementedError):
        NumcodecsQuire(codec).compute_encoded_size(100, None)  # type: ignore[arg-type]
