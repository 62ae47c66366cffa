"""`quire doctor`: what is found of HDF5, of the plugin and of a file, and what is wrong."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Callable

import h5py
import numpy as np
import pytest

from conftest import LIBRARY_NAME, REPOSITORY, Ended, Environment, Python, Runner
from quire_client import FILTER_ID, absolute
from test_backend import SENSELESS

SHAPE = (40, 100)


def unreadable() -> None:
    """Files that an older HDF5, or one without a filter, cannot read whole."""
    names = ("first", "second", "third")
    for number, name in enumerate(names):
        with h5py.File(f"{name}.h5", "w") as file:
            data = np.arange(4000.0).reshape(SHAPE) + 5000 * number
            file.create_dataset("x", data=data, chunks=SHAPE, compression=FILTER_ID, compression_opts=absolute(1e-3))
    layout = h5py.VirtualLayout((120, 100), "<f8")
    for number, name in enumerate(names):
        layout[40 * number : 40 * number + 40] = h5py.VirtualSource(f"{name}.h5", "x", SHAPE)
    with h5py.File("virtual.h5", "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-1)
    # HDF5 2.0 gives filtered chunks and complex numbers forms that HDF5 1.10 does not know.
    with h5py.File("new.h5", "w", libver="latest") as file:
        file.create_dataset("old_form", data=np.arange(4000.0))
        file.create_dataset("new_form", data=np.arange(4000.0), chunks=(4000,), compression="gzip")
    # The version of a superblock that no HDF5 has yet.
    contents = bytearray(Path("new.h5").read_bytes())
    contents[8] = 99
    Path("newer.h5").write_bytes(contents)


Doctor = Callable[..., Ended]


@pytest.fixture
def doctor(quire: Callable[..., Ended]) -> Doctor:
    def doctor(*arguments: object, env: Environment = {}, code: int = 0) -> Ended:
        return quire("doctor", *arguments, env=env, code=code)

    return doctor


@pytest.fixture
def one_fault(doctor: Doctor) -> Doctor:
    """`quire doctor` where one thing is wrong, which it says in one line."""

    def one_fault(**settings: str) -> Ended:
        ended = doctor(env=settings, code=1).must_say("the filter does not work here")
        assert sum(line.startswith("WRONG") for line in ended.stdout.splitlines()) == 1, ended
        return ended

    return one_fault


@pytest.fixture
def own_plugin(plugins: Path, tmp_path: Path) -> Path:
    """A plugin in a folder `own`, which a test may change."""
    (tmp_path / "own").mkdir()
    return Path(shutil.copy(plugins / LIBRARY_NAME, tmp_path / "own"))


def test_doctor_says_what_is_found(doctor: Doctor, plugins: Path) -> None:
    plugin = f"{plugins / LIBRARY_NAME}: filter 33791, quire"
    doctor().must_say("is linked into this program", plugin, "round trip", "streams of format 1.0", "the filter works here")
    report = doctor("--json").json
    assert report["well"] and not [each for each in report["findings"] if each["state"] == "wrong"]
    assert all(each["remedy"] for each in report["findings"] if each["state"] != "well")


def test_doctor_says_what_hides_the_plugin(one_fault: Doctor) -> None:
    words = "HDF5 looks into /nowhere, which is not a folder", "no folder of HDF5's has libh5zquire.so", "export HDF5_PLUGIN_PATH="
    one_fault(HDF5_PLUGIN_PATH="/nowhere").must_say(*words)
    one_fault(HDF5_PLUGIN_PRELOAD="::").must_say("HDF5 is told to load no plugins", "-> unset HDF5_PLUGIN_PRELOAD")


FILES_AND_THREADS = [
    ("QUIRE_DICTIONARY", "/nowhere/books", "QUIRE_DICTIONARY=/nowhere/books: it cannot be read"),
    ("QUIRE_THREADS", "all", "QUIRE_THREADS=all"),
]


@pytest.mark.parametrize("name, value, reason", [*SENSELESS, *FILES_AND_THREADS])
def test_doctor_says_which_variable_makes_no_sense(doctor: Doctor, one_fault: Doctor, name: str, value: str, reason: str) -> None:
    one_fault(**{name: value}).must_say(reason)
    report = doctor("--json", env={name: value}, code=1).json
    assert reason in " ".join(each["text"] for each in report["findings"] if each["state"] == "wrong")


def test_doctor_knows_the_variables(doctor: Doctor, one_fault: Doctor) -> None:
    # A device that no machine has.
    forced = one_fault(QUIRE_BACKEND="cuda", QUIRE_DEVICE="63")
    forced.must_say("the plugin can use neither GPU nor CPU: QUIRE_BACKEND=cuda, but ", "unset QUIRE_BACKEND")
    named = doctor(env={"QUIRE_BAKEND": "cpu", "QUIRE_THREADS": "2"})
    named.must_say("QUIRE_BAKEND is set, but the filter has no such variable", "QUIRE_THREADS=2").must_not_say("QUIRE_THREADS is set, but")
    remedy = next(line for line in named.stdout.splitlines() if "the variables are" in line)
    table = re.findall(r"^\| `(QUIRE_\w+)`", (REPOSITORY / "docs/gpu.md").read_text(), re.MULTILINE)
    assert "QUIRE_THREADS" in table and all(name in remedy for name in table)


def test_doctor_says_what_is_wrong_with_the_plugins_file(doctor: Doctor, one_fault: Doctor, run: Runner, own_plugin: Path) -> None:
    folder = str(own_plugin.parent)
    renamed = own_plugin.rename(own_plugin.with_name("libother.so"))
    found = doctor(env={"HDF5_PLUGIN_PATH": folder})
    found.must_say("note   plugin        no folder of HDF5's has libh5zquire.so", "the filter works here")
    renamed.unlink()
    own_plugin.write_text("no library")
    one_fault(HDF5_PLUGIN_PATH=folder).must_say("libh5zquire.so: it cannot be loaded", "file too short")
    libc = run("bash", "-c", "ldd $(command -v bash) | grep -o '/[^ ]*libc.so.6'").stdout.strip()
    shutil.copy(libc, own_plugin)
    one_fault(HDF5_PLUGIN_PATH=folder).must_say("it has no symbol H5PLget_plugin_type: it is not a plugin of HDF5")


def test_doctor_says_what_keeps_hdf5_from_reading_a_file(doctor: Doctor, newest: Python, tmp_path: Path) -> None:
    newest(unreadable)
    doctor("virtual.h5").must_say("the filters of all 1 datasets and of 3 sources of virtual ones", "the filter works here")

    # Without the plugin, the filter of each source is missing, not that of the virtual dataset.
    without = doctor("virtual.h5", env={"HDF5_PLUGIN_PATH": "/nowhere"}, code=1)
    without.must_say("first.h5:/x and 2 more: HDF5 does not find quire here, and cannot read it", "HDF5_PLUGIN_PATH")

    # HDF5 reads fill values where a source is not there, which is no error.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "second.h5").rename(tmp_path / "elsewhere/second.h5")
    gone = doctor("virtual.h5")
    gone.must_say("note   file          virtual.h5:/v: it is virtual", "gives fill values", "second.h5", "HDF5_VDS_PREFIX", "the filter works here")
    doctor("virtual.h5", env={"HDF5_VDS_PREFIX": "${ORIGIN}/elsewhere"}).must_say("of 3 sources of virtual ones")

    remedy = "read it with a newer HDF5, as h5py's wheels have"
    new = doctor("new.h5", code=1)
    new.must_say("new.h5:/new_form: HDF5 1.", "bad version number", remedy, "not all of these datasets can be read")
    assert "name the folder of its plugin" not in new.stdout
    doctor("newer.h5", code=1).must_say("newer.h5", "bad superblock version number", remedy)
