"""References to the chunks of HDF5 files, as VirtualiZarr and kerchunk make them, and arrays of zarr that read chunks by them."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3.1")
virtualizarr = pytest.importorskip("virtualizarr")
icechunk = pytest.importorskip("icechunk")
hdf = pytest.importorskip("kerchunk.hdf")
import fsspec  # noqa: E402
import xarray  # noqa: E402
from obspec_utils.registry import ObjectStoreRegistry  # noqa: E402
from obstore.store import LocalStore  # noqa: E402

import h5z_quire.kerchunk  # noqa: E402
import h5z_quire.virtualizarr  # noqa: E402
from h5z_quire import Quire  # noqa: E402
from h5z_quire.numcodecs import QuireCodec  # noqa: E402
from h5z_quire.replaced import replace_private  # noqa: E402
from conftest import TYPES, Array, RunPython, assert_bound, field  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr"),
    pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification"),
]
REGISTRY = ObjectStoreRegistry({"file://": LocalStore()})


def by_virtualizarr(path: Path) -> Any:
    """A group of zarr that reads the chunks of a file."""
    return zarr.open_group(virtualizarr.parsers.HDFParser()(f"file://{path}", REGISTRY), mode="r", zarr_format=3)


def translate(path: Path, **options: Any) -> Any:
    """What kerchunk makes of a file. It waits for zarr's thread under h5py's lock, for which that thread would wait if it came to collect objects of h5py."""
    gc.collect()
    gc.disable()
    try:
        return hdf.SingleHdf5ToZarr(str(path), **options).translate()
    finally:
        gc.enable()


def by_kerchunk(path: Path) -> Any:
    references = translate(path, inline_threshold=0, error="raise")
    files = fsspec.filesystem("reference", fo=references, remote_protocol="file", asynchronous=True, remote_options={"asynchronous": True})
    return zarr.open_group(zarr.storage.FsspecStore(files, path="", read_only=True), mode="r", zarr_format=2)


@pytest.fixture(params=[by_virtualizarr, by_kerchunk])
def read(request: pytest.FixtureRequest) -> Any:
    return request.param


def make(path: Path, **datasets: "tuple[Array, dict[str, Any]]") -> Path:
    with h5py.File(path, "w") as file:
        for name, (values, options) in datasets.items():
            file.create_dataset(name, data=values, **{"chunks": (16, 16, 16), **options})
    return path


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_keeps_its_bound(dtype: str, read: Any, tmp_path: Path) -> None:
    values = field(dtype)
    bound = 0.05 if values.dtype.kind in "fc" else 2
    group = read(make(tmp_path / "t.h5", t=(values, dict(Quire(abs=bound)))))
    assert_bound(values, group["t"][...], bound)
    assert_bound(values[3:5, ::7, 1], group["t"][3:5, ::7, 1], bound)


def test_the_values_are_those_that_h5py_reads(read: Any, tmp_path: Path) -> None:
    values = field("f4")
    values[::3] = -9999
    values[5, 5] = np.nan
    written = {
        "quire": dict(Quire(rel=1e-3), fillvalue=-9999),
        "quire_checksum": dict(Quire(rel=1e-3), fillvalue=-9999, fletcher32=True),
        "bitshuffle": dict(Quire(abs=1e-2, coding="bitshuffle")),
        "gzip": {"compression": "gzip", "shuffle": True},
        "plain": {},
    }
    path = make(tmp_path / "t.h5", **{name: (values, options) for name, options in written.items()})
    with h5py.File(path, "a") as file:
        # No chunk, and one chunk of 18.
        file.create_dataset("empty", values.shape, "f4", chunks=(16, 16, 16), fillvalue=7, **Quire(abs=1))
        file.create_dataset("sparse", values.shape, "f4", chunks=(16, 16, 16), fillvalue=-9999, **Quire(abs=1))[16:, 16:, 32:] = values[16:, 16:, 32:]
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((16, 16, 16))
        properties.set_filter(Quire.filter_id, 0, Quire(abs=1e-2).cd_values)
        properties.set_deflate(4)
        h5py.h5d.create(file.id, b"quire_gzip", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(values.shape), properties)
        file["quire_gzip"][...] = values
    group = read(path)
    with h5py.File(path) as file:
        assert set(file) == set(group.array_keys())
        for name in file:
            assert group[name][...].tobytes() == file[name][...].tobytes(), name
            assert group[name].fill_value == file[name].fillvalue
    assert (group["quire"][::3] == -9999).all() and np.isnan(group["quire"][5, 5]).all()


def test_icechunk_reads_without_an_import_of_this_package(tmp_path: Path, run_python: RunPython) -> None:
    values = field("f4")
    path = make(tmp_path / "t.h5", t=(values, dict(Quire(abs=1e-3))))
    np.save(tmp_path / "expected.npy", values)
    dataset = virtualizarr.open_virtual_dataset(f"file://{path}", registry=REGISTRY, parser=virtualizarr.parsers.HDFParser())
    folder = f"file://{tmp_path}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(folder, icechunk.local_filesystem_store(str(tmp_path))))
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(tmp_path / "ice")), config, authorize_virtual_chunk_access={folder: None}
    )
    session = repository.writable_session("main")
    dataset.vz.to_icechunk(session.store)
    session.commit("t.h5")
    (tmp_path / "kerchunk.json").write_text(json.dumps(dataset.vz.to_kerchunk(format="dict")))
    run_python(f"""
import sys, icechunk, numpy as np, xarray
expected = np.load("expected.npy").astype("f8")
repository = icechunk.Repository.open(icechunk.local_filesystem_storage("ice"), authorize_virtual_chunk_access={{{folder!r}: None}})
found = xarray.open_zarr(repository.readonly_session("main").store, consolidated=False, zarr_format=3).t
assert "h5z_quire.virtualizarr" not in sys.modules and abs(found - expected).max() <= 1e-3
found = xarray.open_dataset("kerchunk.json", engine="kerchunk", mask_and_scale=False).t
assert abs(found - expected).max() <= 1e-3
""")


def test_without_the_modules_both_say_that_they_do_not_know_the_filter(tmp_path: Path, run_python: RunPython) -> None:
    make(tmp_path / "t.h5", t=(field("f4"), dict(Quire(abs=1e-3))))
    said = run_python("""
import pathlib, virtualizarr, warnings
from kerchunk.hdf import SingleHdf5ToZarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
with warnings.catch_warnings(record=True) as caught:
    print("t/.zarray" in SingleHdf5ToZarr("t.h5").translate()["refs"], *(warning.message for warning in caught))
try:
    virtualizarr.parsers.HDFParser()(pathlib.Path("t.h5").resolve().as_uri(), ObjectStoreRegistry({"file://": LocalStore()}))
except ValueError as error:
    print(error)
""")
    assert said.startswith("False ") and "not supported by kerchunk" in said and "Unknown filter: 33791" in said, said


def test_metadata_name_the_options(tmp_path: Path) -> None:
    path = make(tmp_path / "t.h5", t=(field("f4"), dict(Quire(rel=1e-3, coding="bitshuffle"))))
    codecs = by_virtualizarr(path)["t"].metadata.to_dict()["codecs"]
    assert codecs[1:] == ({"name": "numcodecs.quire", "configuration": {"quire": "rel=0.001,coding=bitshuffle"}},)
    assert by_kerchunk(path)["t"].metadata.filters == (QuireCodec("rel=1e-3,coding=bitshuffle"),)


def test_files_with_one_bound_are_one_dataset(tmp_path: Path) -> None:
    values = field("f4")
    parts = []
    for number in range(2):
        path = make(tmp_path / f"{number}.h5", t=(values[10 * number : 10 * number + 10], {"chunks": (5, 16, 16), **Quire(abs=1e-3)}))
        parts.append(virtualizarr.open_virtual_dataset(f"file://{path}", registry=REGISTRY, parser=virtualizarr.parsers.HDFParser()))
    joined = xarray.concat(parts, "phony_dim_0", coords="minimal", compat="override")
    assert joined.t.shape == values.shape
    assert len(joined.vz.to_kerchunk(format="dict")["refs"]) > 24


@pytest.mark.parametrize("which", ["all", "one"])
def test_chunks_that_are_stored_uncompressed_are_read_or_refused(which: str, read: Any, tmp_path: Path) -> None:
    """HDF5 stores a chunk as it is where a writer lacks the filter. kerchunk sees that; VirtualiZarr does not."""
    path = make(tmp_path / "t.h5", t=(field("f4", (32, 16, 16)), dict(Quire(abs=1e-3))))
    plain = np.ones((16, 16, 16), "f4")
    with h5py.File(path, "a") as file:
        for row in (0, 16)[: 2 if which == "all" else 1]:
            file["t"].id.write_direct_chunk((row, 0, 0), plain.tobytes(), filter_mask=1)
    if read is by_kerchunk and which == "all":
        assert (read(path)["t"][...] == 1).all()
    else:
        with pytest.raises((ValueError, hdf.Hdf5FeatureNotSupported), match="the stream begins with|has heterogeneous `filter_mask`"):
            read(path)["t"][...]


def test_what_kerchunk_cannot_translate_is_a_warning(tmp_path: Path) -> None:
    path = make(tmp_path / "t.h5", t=(field("f4"), dict(Quire(abs=1e-3))), lzf=(field("f4"), {"compression": "lzf"}))
    with pytest.warns(UserWarning, match="lzf uses szip or lzf compression - not supported by kerchunk"):
        references = translate(path)["refs"]
    assert "t/.zarray" in references and "lzf/.zarray" not in references


def test_a_version_with_another_function_is_refused() -> None:
    class Parser:
        def codec(self, number: int) -> None: ...

    def ours(original: Any, self: Any, number: int, properties: Any) -> None: ...

    for name in ("codec", "gone"):
        with pytest.raises(ImportError, match=f"numpy {np.__version__} has no Parser.{name}.self, number, properties., by which"):
            replace_private("numpy", Parser, name, ours)
