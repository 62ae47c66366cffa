"""The filter is known to every HDF5 of a process, in whatever order they are imported."""

from __future__ import annotations

import itertools
from pathlib import Path

import netCDF4
import pytest

from conftest import RunPython

# The folder of zstd, blosc and bzip2 in netCDF4's wheel, if this one has it: a path or none.
PLUGINS_OF_NETCDF4 = [str(folder) for folder in [Path(netCDF4.__file__).parent / "plugins"] if (folder / "lib__nczhdf5filters.so").exists()]

LIBRARIES = ("h5py", "netCDF4", "tables")

# Imports modules in a given order, then writes and reads with every library; a child process an order, as an import cannot be taken back.
ORDERS = '''
import os, sys, traceback
import numpy as np
# What the libraries need besides HDF5, so that the children need not load it again.
import blosc2, cftime, numexpr

values = np.sin(np.arange(6000.0).reshape(60, 100) / 500).astype("f4")

def within(found):
    return np.abs(found.astype("f8") - values.astype("f8")).max() <= 1e-3

def use(name, folder):
    import h5z_quire
    quire = h5z_quire.Quire(abs=1e-3)
    if name == "h5py":
        import h5py
        with h5py.File(folder + "/h5py", "w") as file:
            file.create_dataset("t", data=values, chunks=(30, 50), **quire)
        with h5py.File(folder + "/h5py") as file:
            assert within(file["t"][()]) and file["t"].id.get_storage_size() < values.nbytes / 2
    elif name == "netCDF4":
        import netCDF4, h5z_quire.netcdf4
        with netCDF4.Dataset(folder + "/netCDF4", "w") as file:
            file.createDimension("y", 60), file.createDimension("x", 100)
            variable = file.createVariable("t", "f4", ("y", "x"), chunksizes=(30, 50))
            h5z_quire.netcdf4.def_var_filter(variable, quire)
            variable[...] = values
        with netCDF4.Dataset(folder + "/netCDF4") as file:
            assert within(np.asarray(file["t"][...]))
    else:
        import tables, h5z_quire.pytables
        with tables.open_file(folder + "/tables", "w") as file:
            h5z_quire.pytables.create_carray(file, "/", "t", quire, obj=values, chunkshape=(30, 50))
        with tables.open_file(folder + "/tables") as file:
            assert within(file.root.t[...])

def check(order, number):
    for name in order:
        __import__(name)
    # Each reads what another one has written, first of all with a library that has never written anything.
    folder = f"order{number}"
    os.mkdir(folder)
    libraries = [name for name in order if name != "h5z_quire"]
    for name in libraries:
        use(name, folder)
    if "h5py" in libraries:
        for name in libraries:
            with sys.modules["h5py"].File(f"{folder}/{name}") as file:
                assert within(file["t"][()])
    with open("/proc/self/maps") as maps:
        assert len({line.split()[-1] for line in maps if "libh5zquire" in line}) == 1

def child(number, order):
    pid = os.fork()
    if not pid:
        try:
            check(order, number)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return pid

orders = list(enumerate(text.split(",") for text in sys.argv[1:]))
for first in range(0, len(orders), 2):
    for pid, (_, order) in [(child(*numbered), numbered) for numbered in orders[first : first + 2]]:
        assert os.waitpid(pid, 0)[1] == 0, order
print("done")
'''


def test_in_every_order_of_imports(run_python: RunPython) -> None:
    alone = [order for name in LIBRARIES for order in itertools.permutations((name, "h5z_quire"))]
    together = list(itertools.permutations((*LIBRARIES, "h5z_quire")))
    assert len(alone) == 6 and len(together) == 24
    assert run_python(ORDERS, *(",".join(order) for order in (*alone, *together))) == "done\n"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_that_has_missed_the_filter_finds_it_afterwards(library: str, run_python: RunPython) -> None:
    script = """
import sys, numpy as np
library, path = sys.argv[1], "t.h5"
values = np.sin(np.arange(6000.0).reshape(60, 100) / 500)

def read():
    module = __import__(library)
    if library == "h5py":
        with module.File(path) as file:
            return file["t"][()]
    if library == "netCDF4":
        with module.Dataset(path) as file:
            return np.asarray(file["t"][...])
    with module.open_file(path) as file:
        return file.root.t[...]

try:
    read()
except Exception as error:
    print("missed", type(error).__name__)
import h5z_quire
assert np.abs(read() - values).max() <= 1e-3
print("found")
"""
    make = """
import numpy as np, h5z_quire, h5py
values = np.sin(np.arange(6000.0).reshape(60, 100) / 500)
with h5py.File("t.h5", "w") as file:
    file.create_dataset("t", data=values, chunks=(30, 50), **h5z_quire.Quire(abs=1e-3))
"""
    run_python(make)
    missed, found = run_python(script, library).splitlines()
    assert missed.startswith("missed ") and found == "found"


def test_the_plugin_path_of_the_environment_stays_behind_ours(run_python: RunPython) -> None:
    script = """
import os, h5py, h5z_quire
from h5py import h5pl
h5z_quire.register()
print(os.environ["HDF5_PLUGIN_PATH"])
print(":".join(os.fsdecode(h5pl.get(index)) for index in range(h5pl.size())))
print(h5z_quire.info().library.parent)
"""
    default = "/usr/local/hdf5/lib/plugin"
    for given, expected in ((None, ":".join((default, *PLUGINS_OF_NETCDF4))), ("/somewhere:/else", "/somewhere:/else")):
        environment, path, folder = run_python(script, **({} if given is None else {"HDF5_PLUGIN_PATH": given})).splitlines()
        assert environment == f"{folder}:{expected}" and path == f"{folder}:{given or default}"
        again = run_python(script, HDF5_PLUGIN_PATH=environment).splitlines()
        assert again == [environment, path, folder]


# What the libraries can do with filters that are not ours, and the plugin path that h5py has in the end.
FILTERS_OF_OTHERS = '''
import contextlib, os, sys, numpy as np
for name in sys.argv[1:]:
    __import__(name)
if "netCDF4" in sys.modules:
    import netCDF4
    for name in ("zlib", "zstd", "bzip2", "blosc_lz", "blosc_zstd"):
        try:
            with netCDF4.Dataset("n.nc", "w") as file:
                file.createDimension("x", 900)
                file.createVariable("t", "f4", ("x",), compression=name)[:] = 1
            with netCDF4.Dataset("n.nc") as file:
                assert (file["t"][:] == 1).all()
            print("netCDF4", name)
        except (RuntimeError, ValueError) as error:
            print("netCDF4 without", name)
if "h5py" in sys.modules:
    import h5py
    for number, options in ((32015, ()), (32001, ()), (307, (5,)), (32004, ())):
        try:
            with h5py.File("h.h5", "w") as file:
                file.create_dataset("t", data=np.arange(9000.0), chunks=(900,), compression=number, compression_opts=options)
            with h5py.File("h.h5") as file:
                print("h5py", number, file["t"].id.get_storage_size(), (file["t"][()] == np.arange(9000.0)).all())
        except (ValueError, OSError) as error:
            print("h5py without", number, error)
'''

ORDERS_OF_OTHERS = [order for names in (("h5py", "netCDF4"), ("h5py", "hdf5plugin"), ("h5py", "netCDF4", "hdf5plugin")) for order in itertools.permutations(names)]


@pytest.mark.parametrize("order", [("netCDF4",), *ORDERS_OF_OTHERS], ids=" ".join)
def test_other_libraries_keep_their_filters(order: "tuple[str, ...]", run_python: RunPython) -> None:
    for name in order:
        pytest.importorskip(name)
    without = run_python(FILTERS_OF_OTHERS, *order)
    # Of three libraries and ours in each order, only what differs from the orders of two.
    for at in range(len(order) + 1) if len(order) < 3 else (0,):
        assert run_python(FILTERS_OF_OTHERS, *order[:at], "h5z_quire", *order[at:]) == without


def test_child_processes_have_the_filter_and_those_of_netcdf4(run_python: RunPython) -> None:
    found = run_python(f"""
import subprocess, sys, numpy as np, h5py, h5z_quire
with h5py.File("q.h5", "w") as file:
    file.create_dataset("t", data=np.arange(9.0), chunks=(9,), compression=h5z_quire.Quire(lossless=True))
child = {FILTERS_OF_OTHERS!r} + '''
import h5py
print((h5py.File("q.h5")["t"][()] == np.arange(9.0)).all())
with netCDF4.Dataset("q.h5") as file:
    print((file["t"][:] == np.arange(9.0)).all())
'''
print(subprocess.run([sys.executable, "-c", child, "netCDF4"], check=True, capture_output=True, text=True).stdout)
""")
    assert found == run_python(FILTERS_OF_OTHERS, "netCDF4") + "True\nTrue\n\n"


def test_loading_has_no_side_effects(run_python: RunPython) -> None:
    script = """
import os, threading, h5z_quire
print(threading.active_count(), len(os.listdir("/proc/self/task")))
print(any("libcuda" in line for line in open("/proc/self/maps")), "h5py" in __import__("sys").modules)
"""
    # numpy's BLAS starts threads of its own, unless it is told not to.
    assert run_python(script, OPENBLAS_NUM_THREADS="1") == "1 1\nFalse False\n"
