"""The reader in C as a filter (streams/reader): it reads what the plugin reads, and refuses all else with a reason."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import REPOSITORY, Environment, Python
from quire_client import FILTER_ID
from round_trip import pairs

SAMPLE = REPOSITORY / "h5-samples/v1_0_0.h5"


@pytest.fixture(scope="session")
def c_reader(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The setting with which HDF5 finds the reader alone."""
    folder = tmp_path_factory.mktemp("reader")
    subprocess.run(["make", "-s", "-C", REPOSITORY / "streams/reader", f"OUT={folder}", "filter", "WARNINGS=-Wall -Wextra -Wpedantic -Werror"], check=True)
    return {"HDF5_PLUGIN_PATH": str(folder)}


def digests(*paths: str) -> dict[str, str]:
    """What the compressed datasets of sample files hold, by their names."""
    found = {}
    for path in paths:
        with h5py.File(path, "r") as file:
            found.update({f"{path}: {name}": hashlib.sha256(group["compressed"][()].tobytes()).hexdigest() for name, group in pairs(file)})
    return found


def check_refusals(sample: str) -> None:
    """Tries what the reader cannot do. Each error has the reason, in words of the reader."""
    values = np.zeros((32, 40), "<f4")
    options = {"chunks": values.shape, "compression": FILTER_ID, "compression_opts": (0,)}
    with h5py.File("new.h5", "w") as file, pytest.raises(ValueError, match="this filter only reads: to write, .* install H5Z-Quire's own plugin"):
        file.create_dataset("values", data=values, **options)

    Path("copy.h5").write_bytes(Path(sample).read_bytes())
    with h5py.File("copy.h5", "r+") as file:
        dataset, other = file["plane_f32_big_endian/compressed"], file["bytes/compressed"]
        before = dataset[()]
        with pytest.raises(OSError, match="this filter only reads"):
            dataset[0, 0] = 1
        assert np.array_equal(dataset[()], before), "a refused write has changed values"

        corner = (0, 0)
        _, stream = dataset.id.read_direct_chunk(corner)
        for reason, damaged in {
            "the checksum is wrong": stream[:-1] + bytes([stream[-1] ^ 1]),
            "this is no Quire stream": b"no stream",
            "the stream has a version that this reader does not know: it has version 1.7": stream[:3] + b"\x97" + stream[4:],
            "the stream belongs to another dataset, or one of the two is damaged": other.id.read_direct_chunk(corner)[1],
        }.items():
            dataset.id.write_direct_chunk(corner, damaged)
            with pytest.raises(OSError, match=reason):
                dataset[0]
        dataset.id.write_direct_chunk(corner, stream)
        assert np.array_equal(dataset[()], before)


def test_the_reader_in_c_gives_the_bytes_that_the_plugin_gives(python: Python, c_reader: Environment) -> None:
    python("make.main", "written.h5")
    by_plugin = python(digests, SAMPLE, "written.h5").json
    assert len(by_plugin) > 50
    assert python(digests, SAMPLE, "written.h5", env=c_reader).json == by_plugin


def test_the_reader_in_c_refuses_with_the_reason(python: Python, c_reader: Environment) -> None:
    python(check_refusals, SAMPLE, env=c_reader)
