"""hdf5plugin with packaging/hdf5plugin applied: `import hdf5plugin` alone reads our files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

import test_c_reader
from conftest import PYTHONS, REPOSITORY, Environment, Python
from test_c_reader import SAMPLE

VERSION = "7.1.0"
OTHERS = "blosc,blosc2,bshuf,bzip2,fcidecomp,htj2k,lz4,sperr,sz,sz3,zfp,zstd"  # which would take minutes to compile


class Patched(NamedTuple):
    """hdf5plugin with the reader: its sources, and the setting with which Python finds what they build, and HDF5 no plugin."""

    sources: Path
    environment: Environment


@pytest.fixture(scope="session")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Patched:
    """Built from the source distribution. Only where there is none to be had, tests are skipped."""
    folder = tmp_path_factory.mktemp("hdf5plugin")
    pip = [PYTHONS["HDF5 2.0"], "-m", "pip", "--quiet", "--disable-pip-version-check"]
    fetch = [*pip, "download", "--no-deps", "--no-binary", "hdf5plugin", "--dest", folder, f"hdf5plugin=={VERSION}"]
    fetched = subprocess.run(fetch, capture_output=True, text=True)
    if fetched.returncode != 0:
        pytest.skip(f"the source distribution of hdf5plugin {VERSION} cannot be fetched: {fetched.stderr.strip()}")
    subprocess.run(["tar", "-xzf", folder / f"hdf5plugin-{VERSION}.tar.gz", "-C", folder], check=True)
    sources = folder / f"hdf5plugin-{VERSION}"
    subprocess.run([REPOSITORY / "packaging/hdf5plugin/apply.sh", sources], check=True)
    install = [*pip, "install", "--no-deps", "--target", folder / "installed", sources]
    subprocess.run(install, env={**os.environ, "HDF5PLUGIN_STRIP": OTHERS}, check=True)
    return Patched(sources, {"PYTHONPATH": str(folder / "installed"), "HDF5_PLUGIN_PATH": str(folder / "no-plugins")})


def digests(*paths: str) -> dict[str, str]:
    """As the reader's, by hdf5plugin."""
    import hdf5plugin

    assert set(hdf5plugin.get_config().registered_filters) == {"quire"}, "other filters"
    return test_c_reader.digests(*paths)


def check_class(sample: str) -> None:
    """The class says what the dataset keeps, and h5py why it cannot write with it."""
    import h5py
    import hdf5plugin

    with h5py.File(sample) as file:
        filter_id, _, options, _ = file["volume_f32/compressed"].id.get_create_plist().get_filter(0)
    assert hdf5plugin.from_filter_options(filter_id, options) == hdf5plugin.Quire(absolute=1e-3)
    with h5py.File("new.h5", "w") as file, pytest.raises(ValueError, match="this filter only reads: to write, .* install H5Z-Quire's own plugin"):
        file.create_dataset("values", shape=(16, 16), dtype="<f4", compression=hdf5plugin.Quire(absolute=1e-3))


def test_import_hdf5plugin_alone_reads_our_files(newest: Python, patched: Patched) -> None:
    newest("make.main", "written.h5")
    by_plugin = newest(test_c_reader.digests, SAMPLE, "written.h5").json
    assert newest(digests, SAMPLE, "written.h5", env=patched.environment).json == by_plugin
    newest(check_class, SAMPLE, env=patched.environment)


def test_the_tests_of_hdf5plugin_pass(newest: Python, patched: Patched) -> None:
    ended = newest.run(newest.interpreter, patched.sources / "test/test.py", "-v", env=patched.environment)
    ended.must_say("Test reading H5Z-Quire compressed data ... ok", "Test that creating a dataset says why it is not possible ... ok", "\nOK")
