"""What h5py learns beside this package: settings as an object, datasets like others, and bfloat16."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray

import h5z_quire
from h5z_quire import Quire, compress, inspect, read, write
from conftest import Array, RunPython, assert_bound, field

QUIRE = Quire(abs=2**-6)


def test_settings_may_be_an_object_wherever_h5py_takes_one(tmp_path: Path) -> None:
    values = field("f4")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        made = [
            file.create_dataset("a", data=values, chunks=(16, 16, 16), compression=QUIRE),
            file.create_dataset("b", data=values, chunks=(16, 16, 16), **QUIRE),
            file.require_dataset("c", values.shape, values.dtype, chunks=(16, 16, 16), compression=QUIRE),
            file.require_dataset("c", values.shape, values.dtype, compression=QUIRE),
            file.create_dataset("d", data=values, compression=QUIRE, fletcher32=True),
        ]
        made[2][...] = values
        with h5z_quire.parallel():
            made.append(file.create_dataset("e", data=values, chunks=(16, 16, 16), compression=QUIRE))
        for dataset in made:
            assert Quire.from_dataset(dataset) == QUIRE
            assert_bound(values, dataset[()], 2**-6)
        assert made[0].id.read_direct_chunk((0, 0, 0)) == made[1].id.read_direct_chunk((0, 0, 0)) == made[-1].id.read_direct_chunk((0, 0, 0))
        with pytest.raises((ValueError, TypeError)):
            file.create_dataset("f", data=values, chunks=(16, 16, 16), compression=QUIRE, shuffle=True)
        with pytest.raises(TypeError, match="[Ss]calar datasets don't support"):
            file.create_dataset("g", data=3.0, compression=QUIRE)


@pytest.mark.parametrize("quire", [QUIRE, Quire(rel=2**-14, coding="bitshuffle"), Quire(lossless=True)], ids=str)
def test_settings_may_be_an_object_or_a_mapping_in_h5netcdf_and_xarray(quire: Quire, tmp_path: Path) -> None:
    values = field("f4", (60, 80))
    values[0, :5] = np.nan
    with h5netcdf.File(tmp_path / "t.nc", "w") as file:
        file.dimensions = {"y": 60, "x": 80}
        file.create_variable("v", ("y", "x"), "f4", chunks=(30, 40), compression=quire)[...] = values
        file.create_variable("w", ("y", "x"), data=values, chunks=(30, 40), **quire)
    dataset = xarray.Dataset({name: (("y", "x"), values) for name in ("v", "w", "plain")}, coords={"x": np.arange(80.0)})
    encoding: dict[str, Any] = {"v": {"compression": quire, "chunksizes": (30, 40)}, "w": {**quire, "chunksizes": (30, 40)}}
    dataset.to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding=encoding)
    bound = 0 if quire == Quire(lossless=True) else 2**-6
    for path, name in itertools.product((tmp_path / "t.nc", tmp_path / "x.nc"), "vw"):
        with h5py.File(path) as file:
            assert Quire.from_dataset(file[name]) == quire and file[name].chunks == (30, 40)
        for engine in ("h5netcdf", "netcdf4"):
            with xarray.open_dataset(path, engine=engine) as opened:
                found = opened[name].values
                assert np.array_equal(np.isnan(found), np.isnan(values))
                assert_bound(np.nan_to_num(values), np.nan_to_num(found), bound)
                assert "plain" not in opened or np.array_equal(opened["plain"].values, values, equal_nan=True)


def test_objects_of_hdf5plugin_stay_as_they_are(run_python: RunPython) -> None:
    pytest.importorskip("hdf5plugin")
    # In a process without netCDF4, behind which hdf5plugin does not find its own filters.
    run_python("""
import h5z_quire, h5py, hdf5plugin, numpy as np
values = np.arange(9000.0)
with h5py.File("t.h5", "w") as file:
    for settings in (hdf5plugin.Zstd(), hdf5plugin.Blosc(), hdf5plugin.LZ4()):
        for number, keywords in enumerate(({"compression": settings}, {**settings})):
            dataset = file.create_dataset(f"{settings.filter_name}{number}", data=values, chunks=(900,), **keywords)
            assert (dataset[()] == values).all() and dataset.id.get_create_plist().get_filter(0)[0] == settings.filter_id
""")


ORDERS = list(itertools.permutations(["import h5py", "import h5z_quire"])) + [("from h5z_quire import Quire; early = Quire(abs=2**-6)", "import h5py")]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_h5py_learns_it_whether_it_is_imported_first_or_last(order: "tuple[str, ...]", run_python: RunPython) -> None:
    said = run_python("\n".join(order) + """
import importlib.util, sys, numpy as np
from h5z_quire import Quire
assert importlib.util.find_spec("h5py") is not None
early = globals().get("early", Quire(abs=2**-6))
x = np.sin(np.arange(4000) / 100)
with h5py.File("t.h5", "w") as file:
    t = file.create_dataset("t", data=x, chunks=(1000,), compression=early)
    like = file.create_dataset_like("like", t)
    print(t.compression, t.compression_opts == early.cd_values, Quire.from_dataset(like) == early, like.chunks)
    gzip = file.create_dataset("gzip", data=x, compression="gzip", compression_opts=3)
    assert (gzip.compression, gzip.compression_opts) == ("gzip", 3)
    plain = file.create_dataset_like("plain", file.create_dataset("p", data=x))
    assert (plain.compression, plain.compression_opts) == (None, None)
    print("h5z_quire.xarray" in sys.modules)
""")
    assert said == "33791 True True (1000,)\nFalse\n"


def test_a_question_whether_h5py_is_there_teaches_nothing(run_python: RunPython) -> None:
    said = run_python("""
import sys, h5z_quire, importlib.util
for _ in range(3):
    print(importlib.util.find_spec("h5py").name, "h5py" in sys.modules, "h5z_quire.h5py_additions" in sys.modules)
import h5py
print("h5z_quire.h5py_additions" in sys.modules)
""")
    assert said == "h5py False False\n" * 3 + "True\n"


def test_without_h5py_the_package_is_whole(run_python: RunPython) -> None:
    said = run_python("""
import sys
class Nothing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("h5py", "netCDF4"):
            raise ModuleNotFoundError(f"no module {name}")
sys.meta_path.insert(0, Nothing())
import numpy as np, h5z_quire
print(len(h5z_quire.compress(np.zeros(100), "abs=1")) > 0)
try:
    import h5py
except ModuleNotFoundError as error:
    print(error)
""")
    assert said == "True\nno module h5py\n"


@pytest.fixture()
def bfloat16() -> "np.dtype[Any]":
    found: "np.dtype[Any]" = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return found


def numbers(dtype: "np.dtype[Any]") -> Array:
    values: Array = np.sin(np.arange(64 * 384) / 50).reshape(64, 384).astype(dtype)
    return values


def assert_numbers(dtype: "np.dtype[Any]", found: Array) -> None:
    assert found.dtype == dtype
    assert_bound(numbers(dtype).astype("f4"), found.astype("f4"), 2**-6)


def test_bfloat16_is_written_and_read(bfloat16: "np.dtype[Any]", tmp_path: Path) -> None:
    values = numbers(bfloat16)
    QUIRE.check(values.dtype, values.shape)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        made = [
            file.create_dataset("a", data=values, chunks=(16, 64), compression=QUIRE),
            file.create_dataset("b", data=values, chunks=(16, 64), **QUIRE),
            file.create_dataset("c", values.shape, bfloat16, chunks=(16, 64), compression=QUIRE),
            file.create_dataset("d", values.shape, bfloat16.type, chunks=(16, 64), compression=QUIRE),
            file.create_dataset("e", values.shape, bfloat16, values.reshape(-1), chunks=(16, 64), compression=QUIRE),
            file.create_dataset("f", data=values.astype("f4"), dtype=bfloat16, chunks=(16, 64), compression=QUIRE),
            file.require_dataset("g", values.shape, bfloat16, chunks=(16, 64), compression=QUIRE),
        ]
        made.append(file.create_dataset_like("h", made[0]))
        for dataset in (made[2], made[3], made[6]):
            dataset[...] = values
        made[7].write_direct(values)
        for dataset in made:
            assert_numbers(bfloat16, dataset[()])
            assert dataset.dtype == bfloat16 and isinstance(dataset, h5py.Dataset) and Quire.from_dataset(dataset) == QUIRE
            assert bytes(dataset.id.read_direct_chunk((0, 64))[1]) == compress(values[:16, 64:128], QUIRE) == bytes(made[0].id.read_direct_chunk((0, 64))[1])
        assert inspect(made[0])[0].coding == "quantized"
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        dataset = file["a"]
        assert_numbers(bfloat16, dataset[()].view(bfloat16))
        assert_numbers(bfloat16, np.asarray(dataset))
        assert_numbers(bfloat16, read(dataset))
        assert_numbers(bfloat16, dataset.astype(bfloat16)[...])
        room = np.zeros((8, 384), bfloat16)
        dataset.read_direct(room, np.s_[3:5], np.s_[2:4])
        assert (room[2:4] == dataset[3:5]).all() and not room[:2].any()
        assert dataset.astype("f8")[3].dtype == np.float64 and (dataset.astype("f8")[3] == dataset[3].astype("f8")).all()
        assert dataset[3, 5] == dataset[()][3, 5] and type(dataset[3, 5]) is bfloat16.type and dataset[3:3].shape == (0, 384)
        assert dataset[::7, [1, 5, 8]].shape == (10, 3) and (dataset[::7, [1, 5, 8]] == dataset[()][::7, [1, 5, 8]]).all()
        mask = np.zeros(values.shape, bool)
        mask[3, 5] = mask[40, 7] = True
        dataset[mask] = [2, 3]
        dataset[5] = 1
        dataset[6, :4] = np.arange(4, dtype="i8")
        dataset[7:9] = np.arange(384.0)[None] / 384
        assert (dataset[mask] == [2, 3]).all() and (dataset[5] == 1).all() and list(dataset[6, :4]) == [0, 1, 2, 3] and (dataset[7] == dataset[8]).all()
        write(dataset, values)
        assert_numbers(bfloat16, dataset[...])
        with pytest.raises((ValueError, TypeError)):
            dataset[...] = "text"
        with pytest.raises(ValueError):
            dataset[...] = np.zeros((3, 5))


def test_bfloat16_inside_a_block_has_the_same_bytes(bfloat16: "np.dtype[Any]", tmp_path: Path) -> None:
    values = numbers(bfloat16)
    seen: "list[int]" = []
    with h5py.File(tmp_path / "t.h5", "w") as file:
        plain = file.create_dataset("plain", data=values, chunks=(16, 64), compression=QUIRE)
        with h5z_quire.parallel(progress=lambda done, total: seen.append(total)):
            block = file.create_dataset("block", data=values, chunks=(16, 64), compression=QUIRE)
            assert_numbers(bfloat16, block[()])
            assert block[3, 5] == block[()][3, 5]
        assert seen and set(seen) == {24}
        for chunk in plain.iter_chunks():
            corner = tuple(part.start for part in chunk)
            assert plain.id.read_direct_chunk(corner) == block.id.read_direct_chunk(corner)


def test_special_values_of_bfloat16_come_back_bit_for_bit(bfloat16: "np.dtype[Any]", tmp_path: Path) -> None:
    values = numbers(bfloat16)
    values.view("u2")[0, :5] = special = 0x7FC1, 0xFFC0, 0x7F80, 0xFF81, 0x0001
    values[20:30] = -99.5
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(16, 64), fillvalue=-99.5, maxshape=(None, 384), compression=QUIRE)
        dataset.resize(80, axis=0)
        like = file.create_dataset_like("like", dataset)
        for one in (dataset, like):
            assert one.fillvalue == -99.5 and type(one.fillvalue) is bfloat16.type
        assert tuple(dataset[0, :4].view("u2")) == special[:4]
        assert (dataset[20:30] == -99.5).all() and (dataset[64:] == -99.5).all() and (like[...] == -99.5).all()


def test_bfloat16_without_the_filter_is_left_to_h5py(bfloat16: "np.dtype[Any]", tmp_path: Path) -> None:
    values = numbers(bfloat16)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        for settings in ({}, {"chunks": (16, 64)}, {"compression": "gzip"}):
            dataset = file.create_dataset(str(settings), data=values, **settings)
            assert type(dataset) is h5py.Dataset and dataset.dtype.kind == "V" and (dataset[()].view(bfloat16) == values).all()
        file.create_dataset("t", data=values, chunks=(16, 64), compression=QUIRE)


def test_bfloat16_is_read_as_numbers_without_the_package(bfloat16: "np.dtype[Any]", tmp_path: Path, run_python: RunPython) -> None:
    values = numbers(bfloat16)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("t", data=values, chunks=(16, 64), compression=QUIRE)
    np.save(tmp_path / "expected.npy", values.astype("f4"))
    run_python(
        "import h5py, numpy as np\nfound = h5py.File('t.h5')['t'][()]\n"
        "assert found.dtype == np.float32 and abs(found - np.load('expected.npy')).max() <= 2**-6",
        HDF5_PLUGIN_PATH=str(h5z_quire.info().library.parent),
    )
