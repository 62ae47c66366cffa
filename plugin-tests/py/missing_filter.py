"""The messages that a missing filter causes: each is provoked, and has to be in the table of docs/guide.md, word for word."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

from quire_client import FILTER_ID, create

HERE = Path(__file__).resolve().parent
GUIDE = HERE.parents[1] / "docs/guide.md"
SHAPE, CHUNKS = (64, 64), (32, 64)
OPTIONS = {"chunks": CHUNKS, "compression": FILTER_ID, "compression_opts": (2, 3)}


def make(folder: str) -> None:
    """Writes files with and without the filter."""
    import h5py
    import numpy as np

    with h5py.File(Path(folder) / "ours.h5", "w") as file:
        data = np.random.default_rng(0).normal(size=SHAPE).cumsum(axis=0).astype("<f4")
        for axis, name in enumerate("yx"):
            file[name] = np.arange(float(SHAPE[axis]))
            file[name].make_scale(name)
        for name in ("t", "written"):
            dataset = file.create_dataset(name, data=data, **OPTIONS)
            for axis, scale in enumerate("yx"):
                dataset.dims[axis].attach_scale(file[scale])
    # h5dump of 1.10.8 has errors of its own with dimension scales.
    with h5py.File(Path(folder) / "bare.h5", "w") as file:
        file.create_dataset("t", data=data, **OPTIONS)
    with h5py.File(Path(folder) / "mandatory.h5", "w") as file:
        _create_mandatory(file)
    with h5py.File(Path(folder) / "plain.h5", "w") as file:
        file["t"] = data


def _create_mandatory(file: Any) -> None:
    """A dataset as C programs create it; h5py itself makes filters optional."""
    create(file, "mandatory", SHAPE, "<f4", CHUNKS, (2, 3))


def h5py_read(file: str) -> None:
    import h5py

    h5py.File(file)["t"][0, 0]


def h5py_create(file: str) -> None:
    import h5py

    h5py.File("new.h5", "w").create_dataset("t", SHAPE, "<f4", **OPTIONS)


def h5py_create_mandatory(file: str) -> None:
    import h5py

    _create_mandatory(h5py.File("new.h5", "w"))


def h5py_write(file: str) -> None:
    import h5py
    import numpy as np

    with h5py.File("mandatory.h5", "r+") as opened:
        opened["mandatory"][:] = np.ones(SHAPE)


def netcdf4_read(file: str) -> None:
    import netCDF4

    netCDF4.Dataset(file)["t"][0, 0]


def tables_read(file: str) -> None:
    import tables

    tables.open_file(file).root.t[0, 0]


def _xarray_read(engine: str, file: str) -> None:
    import xarray

    xarray.open_dataset(file, engine=engine)["t"].values


def _xarray_write(engine: str, file: str) -> None:
    import numpy as np
    import xarray

    encoding = {"t": {"compression": FILTER_ID, "compression_opts": (2, 3), "chunksizes": CHUNKS}}
    xarray.Dataset({"t": (("y", "x"), np.zeros(SHAPE, "f4"))}).to_netcdf("new.nc", engine=engine, encoding=encoding)


# The packages that a case needs, and the case.
CASES: dict[str, tuple[tuple[str, ...], Callable[[str], None]]] = {
    "h5py reads": (("h5py",), h5py_read),
    "h5py creates a dataset": (("h5py",), h5py_create),
    "h5py creates a dataset as C does": (("h5py",), h5py_create_mandatory),
    "h5py writes to a dataset that C has created": (("h5py",), h5py_write),
    "netCDF4 reads": (("netCDF4",), netcdf4_read),
    "PyTables reads": (("tables",), tables_read),
    "xarray reads with h5netcdf": (("xarray", "h5netcdf"), lambda file: _xarray_read("h5netcdf", file)),
    "xarray reads with netcdf4": (("xarray", "netCDF4"), lambda file: _xarray_read("netcdf4", file)),
    "xarray writes with h5netcdf": (("xarray", "h5netcdf"), lambda file: _xarray_write("h5netcdf", file)),
    "xarray writes with netcdf4": (("xarray", "netCDF4"), lambda file: _xarray_write("netcdf4", file)),
}

# A message counts even where the tool that prints it ends in order.
TOOLS = [
    ["h5dump", "-d", "/t", "bare.h5"],
    ["h5dump", "--enable-error-stack", "-d", "/t", "bare.h5"],
    ["h5repack", "-f", "t:NONE", "bare.h5", "out.h5"],
    ["h5repack", "--enable-error-stack", "-f", "t:UD=33791,0,2,2,3", "-l", "t:CHUNK=32x64", "plain.h5", "out.h5"],
    ["ncdump", "ours.h5"],
    ["nccopy", "ours.h5", "out.nc"],
    ["nccopy", "-F", "t,33791,2,3", "plain.h5", "out.nc"],
]


def messages_of_the_guide() -> list[re.Pattern[str]]:
    """The messages in the first column of the guide's tables of errors; an ellipsis stands for any text."""
    section = GUIDE.read_text(encoding="utf-8").split("## Errors and what to do")[1].split("\n## ")[0]
    columns = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| ")]
    found = [message for column in columns for message in re.findall(r"`` (.+?) ``|`([^`]+)`", column)]
    assert len(found) > 20, f"{GUIDE}: only {len(found)} messages in its tables of errors"
    return [re.compile(".*".join(map(re.escape, (one or other).split("…")))) for one, other in found]


def without_plugin(folder: str) -> list[tuple[str, dict[str, str]]]:
    """Environments in which HDF5 finds no plugin: no variable, a folder without it, and no folder."""
    empty = Path(folder) / "empty"
    empty.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    paths = {"an empty folder": str(empty), "a folder that is not there": str(empty / "nowhere")}
    return [("no HDF5_PLUGIN_PATH", environment), *((what, {**environment, "HDF5_PLUGIN_PATH": path}) for what, path in paths.items())]


def assert_known(message: str, known: list[re.Pattern[str]], who: str) -> None:
    assert any(pattern.fullmatch(message) for pattern in known), f"{who} says what docs/guide.md does not have:\n{message}"


def check(folder: str, client: str = "") -> int:
    """Provokes the messages of this Python's packages, without the plugin, and looks for them in the guide; how many there are."""
    known, count = messages_of_the_guide(), 0
    for what, environment in without_plugin(folder):
        for name, (packages, _) in CASES.items():
            if not name.startswith(client) or not all(importlib.util.find_spec(package) for package in packages):
                continue
            command = [sys.executable, HERE.parent / "call.py", "missing_filter", "case", name, "ours.h5"]
            done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)
            if done.returncode < 0:
                assert_known(f"signal {-done.returncode}", known, f"{name}, {what}")
            else:
                lines = [line for line in done.stdout.splitlines() if line.startswith("message: ")]
                assert len(lines) == 1, f"{name}, {what}: no message in\n{done.stdout}{done.stderr}"
                assert_known(lines[0].removeprefix("message: "), known, f"{name}, {what}")
            count += 1
    return count


def tools(folder: str) -> int:
    """Those of the tools of HDF5 and netCDF."""
    known, count = messages_of_the_guide(), 0
    for what, environment in without_plugin(folder):
        for command in TOOLS:
            done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)
            # Of HDF5's stack the last line says why; the others say where. The line on the filter is there for a folder that exists and for one that does not.
            reasons = re.findall(r"#\d+: .*?\(\): (.*)", done.stderr.split("H5tools-DIAG")[0])
            about_filter = [reason for reason in reasons if "required filter" in reason]
            lines = [line for line in done.stderr.splitlines() if line and not re.match(r"HDF5-DIAG|H5tools-DIAG|Location:|  #|    m", line)]
            for message in about_filter + reasons[-1:] + lines:
                assert_known(message, known, f"{' '.join(command)}, {what}")
                count += 1
    return count


def case(name: str, file: str) -> None:
    """Prints the message of a case, in a process of its own."""
    try:
        CASES[name][1](file)
    except Exception as error:
        text = str(error).replace("\n", " ")
        print(f"message: {text}")
    else:
        sys.exit(f"{name}: there is no error")
