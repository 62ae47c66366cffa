"""The test suites of h5py, xarray, zarr, numcodecs and b2h5py, without us and with us: all runs of a suite must end alike, test by test.

suites.py FOLDER [NAME ...]     all suites, or those whose names hold one of NAME. FOLDER has `with-us`, where our package is installed, which the
                                environment does not have, and `zarr`, zarr's source distribution, as its wheel has no tests

suites_plugin.py makes a run one with us. Tests that fail without us are to fail with us as well. Some tests of others depend on the clock. So where a test ends
otherwise, the suite runs once more, without us and with us. A test that ends otherwise again is named, and the suite has failed.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import sampling


class Suite(NamedTuple):
    """name    what is tested
    where   modules of installed packages, or files below FOLDER/zarr
    ways    those of being with us: names in suites_plugin.py
    chosen  pytest's -k"""

    name: str
    where: tuple[str, ...]
    ways: tuple[str, ...]
    chosen: str = ""


FULL = sampling.is_full()
# Tests of netCDF-4 files, not of other formats. Left out of a sample are classes that run the same tests once more: with Dask, in netCDF's classic model.
XARRAY = "(netcdf4 or h5netcdf) and not scipy and not manyfiles and not netcdf3 and not zarr" + ("" if FULL else " and not (viadask or classic or fileobject)")
# Left out is a test that counts the bytes of chunks without compression; and of a sample, sharding in stores other than memory.
ZARR = "not test_delete_empty_shards" + ("" if FULL else " and not (test_sharding and (local or zip))")
ZARR_FILES = ("test_properties", "test_codecs/test_codecs", "test_codecs/test_sharding", "test_indexing", "test_v2")

# The longest first.
SUITES = (
    Suite("h5py", ("h5py.tests",), ("parallel", "filtered parallel")),
    Suite("xarray's backends for netCDF-4", ("xarray.tests.test_backends",), ("xarray",), XARRAY),
    Suite("zarr's properties and codecs", tuple(f"tests/{name}.py" for name in ZARR_FILES), ("zarr",), ZARR),
    Suite("xarray's backend for zarr", ("xarray.tests.test_backends",), ("zarr",), "TestZarrDictStore" + ("" if FULL else " and roundtrip")),
    Suite("b2h5py", ("b2h5py.tests",), ("parallel",)),
    # zlib's tests, which call the helpers. Left out: a codec's name and levels, streams of earlier versions, and that arrays with strides are refused.
    Suite("numcodecs' helpers", ("numcodecs.tests.test_zlib",), ("numcodecs",), "encode_decode or config or buffer or list"),
)


class Run(NamedTuple):
    """How each test ended, how often our code stood in for theirs, and what pytest printed."""

    ended: dict[str, str]
    stood_in: int
    log: str


# The ways in which our code stands in for theirs. A run in which it never does proves nothing.
STAND_IN = ("filtered parallel", "numcodecs", "zarr")


def run(folder: Path, suite: Suite, way: str) -> Run:
    """Runs a suite in a folder of its own; without us if `way` is empty."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "suites_plugin", "-p", "no:cacheprovider", "-W", "ignore", "-o", "addopts="]
        command += ["-o", "asyncio_mode=auto", f"--hypothesis-seed={sampling.seed()}", "--basetemp", str(scratch / "basetemp"), "-k", suite.chosen]
        has_files = suite.where[0].endswith(".py")
        command += suite.where if has_files else ["--pyargs", *suite.where]
        environment = {key: value for key, value in os.environ.items() if key not in ("HDF5_PLUGIN_PATH", "PYTEST_ADDOPTS")}
        environment |= {"QUIRE_WITH": way, "QUIRE_ENDED": str(scratch / "ended")}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *([str(folder / "with-us")] if way else [])])
        with (scratch / "log").open("w+", errors="replace") as log:
            done = subprocess.run(command, cwd=folder / "zarr" if has_files else scratch, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            log.seek(0)
            said = log.read()
        if not (scratch / "ended").is_file():
            return Run({}, 0, f"the run ended with {done.returncode}\n{said}")
        return Run(**json.loads((scratch / "ended").read_text()), log=said)


def differing(one: Run, other: Run) -> set[str]:
    return {name for name in {*one.ended, *other.ended} if one.ended.get(name) != other.ended.get(name)}


def counts(run: Run) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(collections.Counter(run.ended.values()).items())) or "no test"


def is_same(folder: Path, suite: Suite, without: Run, way: str, with_us: Run) -> bool:
    """Whether a run with us ended like the one without us; says what differs."""
    different = differing(without, with_us)
    if different:
        print(f"  {way}: once more, as these end otherwise: {', '.join(sorted(different)[:20])}", flush=True)
        different &= differing(run(folder, suite, ""), run(folder, suite, way))
    is_idle = way in STAND_IN and not with_us.stood_in
    print(f"  {way}: {counts(with_us)}{f', and ours stood in {with_us.stood_in} times' if way in STAND_IN else ''}", flush=True)
    if without.ended and with_us.ended and not different and not is_idle:
        return True
    for name in sorted(different)[:50] if with_us.ended else []:
        print(f"    {name}: {without.ended.get(name)} without us, {with_us.ended.get(name)} with us")
    print((with_us if without.ended else without).log[-5000:], flush=True)
    return False


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    suites = [suite for suite in SUITES if not names or any(name in suite.name for name in names)]
    began, outcomes = time.monotonic(), []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = pool.map(lambda task: run(folder, *task), [(suite, way) for suite in suites for way in ("", *suite.ways)])
        for suite in suites:
            without = next(runs)
            print(f"{suite.name}: {counts(without)} without us", flush=True)
            outcomes += [is_same(folder, suite, without, way, next(runs)) for way in suite.ways]
    passed, failed, cpu = sum(outcomes), outcomes.count(False), sum(os.times()[2:4])
    # run.sh counts lines like pytest's.
    print(f"{f'{failed} failed, ' if failed else ''}{passed} passed in {time.monotonic() - began:.1f}s, {cpu:.0f} s of CPU time, {sampling.said()}")
    sys.exit(bool(failed) or not passed)


if __name__ == "__main__":
    main()
