"""pytest's plugin for suites.py: makes a run of somebody's tests one with us, and writes down how each test ended.

QUIRE_WITH   names of functions in WAYS; none for a run without us. They are called before tests are imported, and so before h5py, netCDF4 and zarr are
QUIRE_ENDED  the file that gets, as JSON, how each test ended, and how often our code stood in for theirs
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from pathlib import Path
from typing import Any, Callable


# h5py's tests of what a dataset with our filter does not have: values in one piece, an address, a length that is that of the values. The last two store bytes
# that are no stream. Their chunks stay in HDF5's cache, which can never write them; with gzip h5py crashes there, too.
LAYOUT = ("test_no_chunks", "test_resize_nonchunked", "TestFileAlignment", "test_uncompressed_data", "test_exception_write", "test_fail_buffer_too_small")
# What says how a dataset is stored, so that it cannot have our filter, or not as a test expects.
STORED = {"compression", "shuffle", "fletcher32", "scaleoffset", "external", "dcpl", "efile_prefix"}

ended: dict[str, str] = {}
stood_in = 0


def count() -> None:
    global stood_in
    stood_in += 1


def parallel() -> None:
    """h5py's own indexing goes our way, in all threads."""
    import h5z_quire

    h5z_quire.parallel.enable()


def filtered() -> None:
    """h5py compresses what this filter takes, without loss and in two chunks an axis, unless a test says how it is stored."""
    import h5py
    import numpy as np
    from h5z_quire import Quire

    create = h5py.Group.create_dataset

    @functools.wraps(create)
    def create_dataset(group: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None, **keywords: Any) -> Any:
        extents = np.atleast_1d(np.shape(data) if shape is None else shape)
        is_ours = keywords.get("chunks") is not False and not STORED & set(keywords) and not any(name in os.environ["PYTEST_CURRENT_TEST"] for name in LAYOUT)
        if is_ours and extents.size and all(extents):
            chunks = keywords.get("chunks") or tuple(int(-(-extent // 2)) for extent in extents)
            # What cannot be compressed, such as a text, is left to h5py.
            with contextlib.suppress(TypeError, ValueError):
                made = create(group, name, shape, dtype, data, **{**keywords, **Quire(lossless=True), "chunks": chunks})
                count()
                return made
        return create(group, name, shape, dtype, data, **keywords)

    h5py.Group.create_dataset = create_dataset


def xarray() -> None:
    """xarray's encodings are there. What xarray opens with h5py goes our way."""
    import h5z_quire.xarray

    parallel()


def numcodecs() -> None:
    """numcodecs' module `zlib` has our codec, without loss, in place of its own."""
    import numcodecs.zlib
    from h5z_quire.numcodecs import QuireCodec

    class Zlib(QuireCodec):  # type: ignore[misc]
        def __init__(self, level: int = 1, **config: Any) -> None:
            super().__init__(**(config or {"quire": "lossless"}))

        def encode(self, buf: Any) -> Any:
            count()
            return super().encode(buf)

    numcodecs.zlib.Zlib = Zlib
    numcodecs.register_codec(Zlib, "quire")


def zarr() -> None:
    """zarr takes our codecs, without loss, for numbers where nobody names one: the serializer of format 3, the compressor of format 2."""
    import zarr.core.array
    from h5z_quire import numcodecs
    from h5z_quire.zarr import QuireCodec

    def stand_in(name: str, codec: Any) -> None:
        theirs = getattr(zarr.core.array, name)

        def default(dtype: Any) -> Any:
            try:
                codec.quire.check(dtype.to_native_dtype())
            except ValueError:
                return theirs(dtype)
            count()
            return codec

        setattr(zarr.core.array, name, default)

    stand_in("default_serializer_v3", QuireCodec(lossless=True))
    stand_in("default_compressor_v2", numcodecs.QuireCodec(lossless=True))


WAYS: dict[str, Callable[[], None]] = {way.__name__: way for way in (parallel, filtered, xarray, numcodecs, zarr)}
for _name in os.environ.get("QUIRE_WITH", "").split():
    WAYS[_name]()


def pytest_collection() -> None:
    """Fewer examples of each property than zarr asks for, and no limit of time. This is after zarr's own profile, and before its tests."""
    with contextlib.suppress(ImportError):
        from hypothesis import HealthCheck, settings

        examples = 300 if os.environ.get("QUIRE_FULL_MATRIX") == "1" else 10
        settings.register_profile("quire", max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        settings.load_profile("quire")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for module in {item.module for item in items if item.module.__name__.endswith("test_zlib")}:
        # Without texts and dates, which are no numbers.
        module.arrays = [array for array in module.arrays if array.dtype.kind in "fiuc"]


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcome = report.outcome if report.when == "call" or report.skipped else "error"
        ended[report.nodeid] = {"skipped": "xfailed", "passed": "xpassed"}[outcome] if hasattr(report, "wasxfail") else outcome


def pytest_sessionfinish() -> None:
    Path(os.environ["QUIRE_ENDED"]).write_text(json.dumps({"ended": ended, "stood_in": stood_in}))
