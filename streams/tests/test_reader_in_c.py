"""The reader in C on the committed streams, on random ones, and on damaged ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import random_streams
import sampling
from table import FAULTY, STREAMS, UNCOMMON, VALID, read_table, write_table

ROWS = read_table(STREAMS)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """The folder of the reader's programs."""
    out = tmp_path_factory.mktemp("reader")
    command = ["make", "-C", STREAMS / "reader", f"OUT={out}", "all", "CC=gcc", "WARNINGS=-Wall -Wextra -Wconversion -pedantic -Werror"]
    ended(0, *command)
    return out


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory):
    """The random streams of QUIRE_STREAMS, which plugin-tests/run.sh sets, or a few new ones."""
    if "QUIRE_STREAMS" in os.environ:
        return Path(os.environ["QUIRE_STREAMS"])
    folder = tmp_path_factory.mktemp("random")
    random_streams.main(folder, 60)
    return folder


def ended(code, *command):
    """Runs a program, which must end with this code. What it prints."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == code, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("program", ["read_streams", "read_streams_checked"])
def test_the_reader_in_c_agrees_with_the_table(reader, random_folder, program, tmp_path):
    for folder in (STREAMS, random_folder):
        rows = read_table(folder)
        faulty = sum(row.file.startswith(FAULTY) for row in rows)
        valid = len(rows) - faulty
        assert f"{valid} valid streams, {faulty} faulty ones: 0 went wrong" in ended(0, reader / program, folder)
    # The program finds what is wrong: another CRC of the values, and a section that a valid stream is said to break.
    valid, uncommon = (next(row for row in ROWS if row.file.startswith(name)) for name in (VALID, UNCOMMON))
    for row in (valid, uncommon):
        (tmp_path / row.file).parent.mkdir()
        shutil.copy(STREAMS / row.file, tmp_path / row.file)
    write_table(tmp_path, [valid._replace(values_crc="00000000"), uncommon._replace(section="4")])
    said = ended(1, reader / program, tmp_path)
    for text in ("the values are not those of the table", "a faulty stream was not refused", ": 2 went wrong"):
        assert text in said


def test_the_reader_in_c_stands_damaged_streams(reader):
    files = sorted(STREAMS / row.file for row in ROWS)
    said = ended(0, reader / "mutate", str(sampling.seed()), "100000", "600", *files)
    print(f"seed {sampling.seed()}: {said}")
    assert "100000 damaged streams, " in said and ", 0 of them accepted" not in said
