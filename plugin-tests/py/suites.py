"""The test suites of h5py, xarray, zarr, numcodecs and b2h5py, without us and with us: both runs of a suite must end alike, test by test.

suites.py FOLDER [NAME ...]     all suites, or those whose names hold one of NAME. FOLDER has `with-us`, where the package is installed that the
                                environment itself has not, and `zarr`, zarr's source distribution, as zarr's wheel has no tests

A suite is run by pytest, twice, beside one another. This file is also pytest's plugin in both runs: it notes how each test ended, and makes the run one
with us as QUIRE_WITH says. That happens before any test is imported, and so before h5py, netCDF4 and zarr are.

Tests that fail without us, such as those that a newer zarr has broken, are to fail with us as well. A test that ends otherwise is run once more, alone and
both ways, as some tests of others depend on the clock. What differs then is named, and the suite has failed.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple


class Suite(NamedTuple):
    """name   what is tested
    where     modules of installed packages, or files below FOLDER/zarr
    us        what makes a run one with us: names of functions below
    chosen    pytest's -k: what is left out, or taken, for a reason that stands beside it"""

    name: str
    where: tuple[str, ...]
    us: tuple[str, ...]
    chosen: str = ""


# h5py's tests on the layout of files: what has our filter is stored in chunks, may be resized, has no address, and is created like another only by
# those who know the filter. The two of a broken stream of bytes leave chunks in HDF5's cache that it can never write: with gzip's chunks it crashes, too.
LAYOUT = (
    "test_no_chunks or test_resize_nonchunked or TestFileAlignment or test_fail_buffer_too_small or test_uncompressed_data or test_exception_write"
)
# xarray's classes whose files are HDF5's; pytest takes capitals for small letters. Left out: those of zarr, of which the next suite has one; of netCDF-3; two
# that do the same as TestH5NetCDFData, with a file object and with dask, and are the longest; and those that open hundreds of files at once.
XARRAY = "(netcdf4 or h5netcdf) and not scipy and not fileobject and not h5netcdfviadask and not manyfiles and not netcdf3 and not zarr"

SUITES = (
    Suite("h5py, inside parallel()", ("h5py.tests",), ("parallel",)),
    Suite("h5py, each dataset with our filter and read by h5z_quire.read", ("h5py.tests",), ("every_dataset",), f"not ({LAYOUT})"),
    Suite("xarray's HDF5 backends, inside parallel()", ("xarray.tests.test_backends",), ("parallel", "xarray"), XARRAY),
    Suite("xarray's zarr backend, with our codecs", ("xarray.tests.test_backends",), ("zarr_codecs",), "TestZarrDictStore"),
    # Left out: most of zarr's tests on what it does with any codec, such as groups, stores and metadata; parts of test_codecs that are about one other codec.
    Suite(
        "zarr's properties and codecs, with our codecs",
        ("tests/test_properties.py", "tests/test_codecs/test_codecs.py", "tests/test_codecs/test_sharding.py", "tests/test_indexing.py", "tests/test_v2.py"),
        ("zarr_codecs",),
        # It counts the bytes of chunks without compression.
        "not test_delete_empty_shards",
    ),
    # zlib's, with its arrays of numbers. Left out: how it names itself and its levels, streams of earlier versions, and that it refuses arrays with strides,
    # which ours takes.
    Suite("numcodecs' helpers, with our codec", ("numcodecs.tests.test_zlib",), ("numcodecs_codec",), "encode_decode or config or buffer or list"),
    # Left out: Blosc's tests, which start processes and threads of their own.
    Suite("numcodecs, with our codec known", ("numcodecs.tests",), ("numcodecs",), "not blosc"),
    Suite("b2h5py, inside parallel()", ("b2h5py.tests",), ("parallel",)),
)

# The ways of being with us that put ours in the place of something of theirs.
IN_PLACE = {"every_dataset", "numcodecs_codec", "zarr_codecs"}
# Examples of each property of zarr's, in place of 300.
EXAMPLES = 25


def parallel(stack: contextlib.ExitStack) -> None:
    import h5z_quire

    stack.enter_context(h5z_quire.parallel())


def every_dataset(stack: contextlib.ExitStack) -> None:
    """Datasets of numbers are compressed without loss, in two chunks an axis, unless they say how they are stored. Whatever `read` takes goes that way."""
    import h5z_quire

    import h5py
    import numpy as np

    keep = h5z_quire.Quire(lossless=True)
    create, getitem = h5py.Group.create_dataset, h5py.Dataset.__getitem__
    theirs = {"compression", "compression_opts", "shuffle", "fletcher32", "scaleoffset", "external", "dcpl", "efile_prefix"}

    def shape_and_type(shape: Any, dtype: Any, data: Any) -> tuple[tuple[int, ...], Any]:
        given = None if data is None else np.asarray(data)
        extents = np.shape(given) if shape is None else (shape,) if np.ndim(shape) == 0 else tuple(shape)
        return extents, np.dtype(dtype or "f4") if given is None or dtype is not None else given.dtype

    @functools.wraps(create)
    def create_dataset(self: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None, **keywords: Any) -> Any:
        with contextlib.suppress(TypeError, ValueError):
            extents, kind = shape_and_type(shape, dtype, data)
            chunks = tuple(max(1, -(-extent // 2)) for extent in extents)
            named = dtype is None or isinstance(dtype, (str, type, np.dtype))
            if named and not theirs & set(keywords) and keywords.get("chunks") is not False and kind.kind in "fiuc" and not kind.metadata and all(extents) and extents:
                if np.prod(chunks, dtype=object) < 1 << 24:
                    keep.check(kind, chunks)
                    keywords = {**keywords, **keep, "chunks": keywords.get("chunks") or chunks}
        return create(self, name, shape, dtype, data, **keywords)

    @functools.wraps(getitem)
    def get(self: Any, args: Any, new_dtype: Any = None) -> Any:
        # None is a new axis to h5py, and all values to `read`.
        if new_dtype is None and args is not None:
            with contextlib.suppress(ValueError, TypeError, IndexError):
                found = h5z_quire.read(self, args)
                calls[0] += 1
                return found
        return getitem(self, args) if new_dtype is None else getitem(self, args, new_dtype)

    h5py.Group.create_dataset, h5py.Dataset.__getitem__ = create_dataset, get


def xarray(stack: contextlib.ExitStack) -> None:
    import h5z_quire.xarray


def numcodecs(stack: contextlib.ExitStack) -> None:
    import h5z_quire.numcodecs


def numcodecs_codec(stack: contextlib.ExitStack) -> None:
    """numcodecs' module `zlib` has our codec, without loss, in place of its own."""
    import numcodecs.zlib
    from h5z_quire.numcodecs import QuireCodec

    class Zlib(QuireCodec):
        def __init__(self, level: int = 1, **config: Any) -> None:
            super().__init__(**(config or {"quire": "lossless"}))

        def encode(self, buf: Any) -> bytes:
            calls[0] += 1
            return super().encode(buf)

    numcodecs.zlib.Zlib = Zlib
    numcodecs.register_codec(Zlib, "quire")


def zarr_codecs(stack: contextlib.ExitStack) -> None:
    """zarr takes our codecs, without loss, for numbers where nobody names one: the serializer of format 3, the compressor of format 2."""
    import zarr.core.array
    from h5z_quire import numcodecs, zarr as ours

    def in_place_of(name: str, codec: Any) -> None:
        theirs = getattr(zarr.core.array, name)

        def default(dtype: Any) -> Any:
            try:
                codec.quire.check(dtype.to_native_dtype())
            except ValueError:
                return theirs(dtype)
            calls[0] += 1
            return codec

        setattr(zarr.core.array, name, default)

    in_place_of("default_serializer_v3", ours.QuireCodec(lossless=True))
    in_place_of("default_compressor_v2", numcodecs.QuireCodec(lossless=True))


# ---- pytest's plugin

ended: dict[str, str] = {}
# How often our code has done what theirs would have done: of IN_PLACE only.
calls = [0]
_stack = contextlib.ExitStack()
for _name in os.environ.get("QUIRE_WITH", "").split():
    globals()[_name](_stack)


def pytest_runtest_logreport(report: Any) -> None:
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = {"skipped": "xfailed", "passed": "xpassed"}.get(outcome, outcome)
    if report.when == "call" or outcome != "passed":
        ended[report.nodeid] = "error" if outcome == "failed" and report.when != "call" else outcome


def pytest_collection() -> None:
    # After zarr's own profile, and before its tests.
    with contextlib.suppress(ImportError):
        import hypothesis

        every_check = list(hypothesis.HealthCheck)
        hypothesis.settings.register_profile("quire", max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=every_check)
        hypothesis.settings.load_profile("quire")


def pytest_sessionfinish() -> None:
    _stack.close()
    Path(os.environ["QUIRE_ENDED"]).write_text(json.dumps({"ended": ended, "calls": calls[0]}))


# ---- the runs


def start(folder: Path, scratch: Path, suite: Suite, us: tuple[str, ...], tests: list[str] | None = None) -> Callable[[], dict[str, Any]]:
    """Starts a run of a suite, or of some of its tests; a function that waits for its end and says how its tests ended."""
    source = folder / "zarr"
    of_zarr = suite.where[0].endswith(".py")
    run_in = Path(tempfile.mkdtemp(dir=scratch))
    what = list(suite.where) if of_zarr else ["--pyargs", *suite.where]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "suites", "-p", "no:cacheprovider", "-W", "ignore", "-o", "addopts="]
    command += ["-o", "asyncio_mode=auto", f"--hypothesis-seed={os.environ.get('QUIRE_SEED', '0')}", "--tb=short", "--basetemp", str(run_in / "temporary")]
    command += ["-k", suite.chosen] if suite.chosen else []
    command += what
    environment = {key: value for key, value in os.environ.items() if key not in ("HDF5_PLUGIN_PATH", "PYTEST_ADDOPTS")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *([str(folder / "with-us")] if us else [])]), "QUIRE_WITH": " ".join(us)}
    environment |= {"QUIRE_ENDED": str(run_in / "ended"), "QUIRE_ONLY": json.dumps(tests)}
    log = run_in / "log"
    process = subprocess.Popen(command, cwd=source if of_zarr else run_in, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT)

    def wait() -> dict[str, Any]:
        process.wait()
        if not (run_in / "ended").is_file():
            return {"ended": {}, "calls": 0, "log": f"the run ended with {process.returncode}\n{log.read_text()[-3000:]}"}
        return {**json.loads((run_in / "ended").read_text()), "log": log.read_text()}

    return wait


def pytest_collection_modifyitems(items: list[Any]) -> None:
    only = json.loads(os.environ["QUIRE_ONLY"])
    if only is not None:
        items[:] = [item for item in items if item.nodeid in only]
    if items and "numcodecs_codec" in os.environ["QUIRE_WITH"]:
        items[0].module.arrays = [array for array in items[0].module.arrays if array.dtype.kind in "fiuc"]


def both(folder: Path, scratch: Path, suite: Suite, tests: list[str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    without, with_us = start(folder, scratch, suite, (), tests), start(folder, scratch, suite, suite.us, tests)
    return without(), with_us()


def differing(without: dict[str, Any], with_us: dict[str, Any]) -> list[str]:
    names = sorted({*without["ended"], *with_us["ended"]})
    return [name for name in names if without["ended"].get(name) != with_us["ended"].get(name)]


def counts(run: dict[str, Any]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(collections.Counter(run["ended"].values()).items())) or run["log"]


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    failed, passed, began = 0, 0, time.monotonic()
    for suite in SUITES:
        if names and not any(name in suite.name for name in names):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            cpu = sum(os.times()[2:4])
            without, with_us = both(folder, Path(scratch), suite)
            different = differing(without, with_us)
            if different and with_us["ended"]:
                print(f"{suite.name}: once more {', '.join(different)}", flush=True)
                for first, second in zip((without, with_us), both(folder, Path(scratch), suite, different)):
                    first["ended"] |= second["ended"]
                different = differing(without, with_us)
            in_place = set(suite.us) & IN_PLACE and not with_us["calls"]
            wrong = bool(different or in_place or not without["ended"])
            cpu = sum(os.times()[2:4]) - cpu
            print(f"{suite.name}: {counts(without)}; with us {'as many' if not different else counts(with_us)}; {cpu:.0f} s of CPU time", flush=True)
            if in_place:
                print("  nothing of ours was called")
            # Of a run that did not end in order its log says all.
            for name in different if with_us["ended"] else []:
                print(f"  {name}: {without['ended'].get(name)} without us, {with_us['ended'].get(name)} with us")
            reasons = [f"  {line}" for line in with_us["log"].splitlines() if wrong and line.startswith("E  ")]
            print("".join(f"{line}\n" for line in reasons[:60]), end="")
            failed, passed = failed + wrong, passed + (not wrong)
    # run.sh counts lines like pytest's.
    print(f"{f'{failed} failed, ' if failed else ''}{passed} passed in {time.monotonic() - began:.1f}s")
    sys.exit(bool(failed) or not passed)


if __name__ == "__main__":
    main()
