"""What the plugin's file links and exports."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import LIBRARY_NAME, REPOSITORY, Runner


def test_the_library_links_no_hdf5_and_no_cuda_and_stays_loaded(run: Runner, plugins: Path) -> None:
    dynamic = run("readelf", "-dW", plugins / LIBRARY_NAME).stdout.splitlines()
    needed = [line for line in dynamic if "(NEEDED)" in line]
    assert not [line for line in needed if re.search("hdf5|cuda|nvrtc", line)], "the plugin needs a library that its users may not have"
    # It must not be unloaded while its threads run.
    assert any("(FLAGS_1)" in line and "NODELETE" in line for line in dynamic), dynamic


def test_the_library_exports_the_plugin_calls_and_its_c_api_alone(run: Runner, plugins: Path) -> None:
    def symbols(which: str) -> list[str]:
        return sorted(line.split()[-1] for line in run("nm", "-D", which, plugins / LIBRARY_NAME).stdout.splitlines())

    # The header is what C programs and the Python package go by.
    header = (REPOSITORY / "filter/include/h5z_quire.h").read_text()
    declared = re.findall(r"^(?:int|void) (\w+)\(", header, re.MULTILINE)
    assert len(declared) == 26, declared
    assert symbols("--defined-only") == sorted([*declared, "H5PLget_plugin_info", "H5PLget_plugin_type", "NCZ_get_codec_info"])
    # An H5 function that the loader has to find would come from whichever HDF5 was loaded globally, or from none.
    wanted = [name for name in symbols("--undefined-only") if name.startswith("H5")]
    assert not wanted, f"the plugin waits for {wanted} to be loaded"
