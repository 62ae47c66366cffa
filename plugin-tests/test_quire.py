"""`quire args`, `inspect`, `advise`, the completions and the manual. test_repack.py, test_archive.py and test_doctor.py have the other commands."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

import quire_files
from conftest import Ended, Python, Runner
from quire_client import FILTER_ID

Quire = Callable[..., Ended]


def test_args_give_what_each_client_takes(quire: Quire) -> None:
    quire("args", "abs=1e-3").must_say(
        "options       abs=1e-3",
        "cd_values     1,3539053052,1062232653",
        "short form    2,3, which",
        "-f DATASET:UD=33791,0,3,1,3539053052,1062232653",
        "compression_opts=(1, 3539053052, 1062232653)",
        "-F DATASET,33791,1,3539053052,1062232653",
        "unsigned values[] = {1,3539053052,1062232653}",
    )


# As h5dump prints them, and with what the filter has added.
@pytest.mark.parametrize("numbers", ["1,3539053052,1062232653", "1 -755914244 1062232653 1359020291 16 32 7", "2,3", "2 3"])
def test_args_give_options_for_numbers(quire: Quire, numbers: str) -> None:
    found = quire("args", "--json", *numbers.split()).json
    assert (found["options"], found["short"]) == ("abs=1e-3", "2,3")


ARGUMENTS = [
    ("--rel 1e-4 --coding bitshuffle", [515, 3944497965, 1058682594]),
    ("--ratio 20 --abs 0.5", [11, 0, 1077149696, 0, 1071644672]),
    ("--lossless", [0]),
    ("--options psnr=60,coding=huffman", [263, 0, 1078853632]),
]


@pytest.mark.parametrize("arguments, words", ARGUMENTS)
def test_args_give_numbers_for_options(quire: Quire, arguments: str, words: list[int]) -> None:
    found = quire("args", "--json", *arguments.split()).json
    assert found["cd_values"] == words and found["filter"] == FILTER_ID
    assert found["h5repack"].split(",")[3:] == [str(word) for word in words]


REFUSED_ARGUMENTS = [
    ("abs=-1", "absolute error bound is -1"),
    ("--abs one", "abs=one is not a number"),
    ("--abs 1 --rel 0.1", "2 bounds are given (abs=1e0 and rel=1e-1): say one"),
    ("abs=1 --rel 0.1", "give one of them"),
    ("", "no bound is given: say one of --abs"),
    ("99", "mode 99 is unknown"),
    ("1,x", "is not a list of 32-bit numbers"),
    ("--bound 1", "unexpected argument '--bound'"),
]


@pytest.mark.parametrize("arguments, reason", REFUSED_ARGUMENTS)
def test_args_refuse_what_makes_no_sense(quire: Quire, arguments: str, reason: str) -> None:
    quire("args", *arguments.split(), code=2).must_say(reason)


def test_completions_and_manual_pages_are_printed(quire: Quire, run: Runner, tmp_path: Path) -> None:
    for shell, words in (("bash", "complete -F _quire"), ("zsh", "#compdef quire"), ("fish", "complete -c quire")):
        quire("completions", shell).must_say(words, "repack", "round-integers")
    (tmp_path / "quire.bash").write_text(quire("completions", "bash").stdout)
    completed = "source quire.bash; COMP_WORDS=(quire insp); COMP_CWORD=1; _quire quire insp quire; echo ${COMPREPLY[@]}"
    assert run("bash", "-c", completed).stdout.strip() == "inspect"
    quire("man").must_say(".TH quire 1", "quire\\-inspect", "Exit codes")
    for subcommand in ("args", "inspect", "advise", "repack", "verify", "doctor", "train"):
        quire("man", subcommand).must_say(f".TH quire-{subcommand} 1", ".SH DESCRIPTION", ".SH OPTIONS")
        quire(subcommand, "--help").must_say("Usage: quire", "Exit codes: 0")
    quire("man", "fly", code=1).must_say('no subcommand "fly"', "inspect")
    quire("--help").must_say("Exit codes: 0")


def test_inspect_has_a_row_for_each_chunk(quire: Quire, newest: Python) -> None:
    newest(quire_files.partial, "partial.h5")
    rows = {line.split()[0].partition(":/")[2]: line for line in quire("inspect", "partial.h5").stdout.splitlines() if line.startswith("partial.h5:/")}
    assert "abs=1e-3,coding=bitshuffle" in rows["checked"] and "bit planes" in rows["checked"]
    assert "(no filter)" in rows["contiguous"] and "(gzip 4)" in rows["other"]
    assert "unfiltered" in rows["raw"] and "constant 1, quantized 1" in rows["sparse"]
    # All three ways to name a dataset.
    for name in ("partial.h5:/sparse", "partial.h5/sparse", "./partial.h5/sparse"):
        chunks = quire("inspect", "--chunks", name).must_say("F32 10x10000 in chunks of 1x10000", "(3, 0)", "(7, 0)")
        assert "checked" not in chunks.stdout
    report = quire("inspect", "--json", "partial.h5")
    assert [each["name"] for each in report.json["datasets"]] == [f"partial.h5:/{name}" for name in sorted(rows)]
    checked, contiguous, _, _, sparse, unchecked = report.json["datasets"]
    # Of two chunks, one has a checksum behind its stream.
    assert [each["values"] for each in unchecked["chunks"]] == ["quantized", "quantized"]
    assert [(each["corner"], each["values"]) for each in sparse["chunks"]] == [([3, 0], "constant"), ([7, 0], "quantized")]
    keys = "corner bytes ratio values coding predictor codebook bound bound_is_share_of_value half_step exceptions error"
    assert set(checked["chunks"][0]) == set(keys.split()) and checked["chunks"][0]["half_step"] == 0.001
    assert not contiguous["compressed"] and report.json["damaged"] == 0
    # The plugin has no part in it.
    assert quire("inspect", "--json", "partial.h5", env={"HDF5_PLUGIN_PATH": None}).stdout == report.stdout


def test_inspect_says_which_chunk_is_damaged_and_how(quire: Quire, newest: Python) -> None:
    newest(quire_files.damage, "damaged.h5")
    words = "the chunk at (2, 0) is damaged: stream is damaged at byte 4, in its checksum", "1 damaged chunk"
    quire("inspect", "damaged.h5", code=1).must_say(*words)
    chunks = quire("inspect", "--chunks", "damaged.h5:/t", code=1).must_say("(2, 0)      damaged  stream is damaged")
    assert sum(line.startswith("(") for line in chunks.stdout.splitlines()) == 4
    report = quire("inspect", "--json", "damaged.h5", code=1).json
    assert [each["corner"] for each in report["datasets"][0]["chunks"] if each["error"]] == [[2, 0]] and report["damaged"] == 1


@pytest.mark.parametrize("command", ["inspect", "advise"])
def test_what_is_not_there_is_said_by_name(quire: Quire, newest: Python, run: Runner, tmp_path: Path, command: str) -> None:
    newest(quire_files.partial, "partial.h5")
    (tmp_path / "text").write_text("no HDF5")
    run("mkfifo", "pipe")
    for name, reason in (
        ("pipe", "pipe: it is a folder, a pipe or a device, not a file"),
        (".", ".: it is a folder, a pipe or a device, not a file"),
        ("nowhere.h5", "nowhere.h5: there is no such file"),
        ("partial.h5:/nothing", "partial.h5:/nothing: the file has no dataset and no group of that name"),
        ("partial.h5/nothing", "partial.h5/nothing: the file has no dataset and no group of that name"),
        ("text", "text: it cannot be read as HDF5"),
    ):
        quire(command, name, code=1).must_say(reason)
    quire(command, code=2).must_say("required arguments")


def test_advise_tries_bounds_and_shapes(quire: Quire, newest: Python) -> None:
    newest(quire_files.make, "in.h5")
    arguments = "advise in.h5:/fields --rel 1e-2 --rel 1e-3 --chunks 20x25x60 --chunks 40x50x60".split()
    table = quire(*arguments)
    table.must_say("PSNR/dB", "largest error", "MB/s", "20x25x60", "4 of 4", "40x50x60", "1 of 1", "rel=1e-2", "rel=1e-3")
    trials = quire(*arguments, "--json").json["trials"]
    of_u = [each for each in trials if each["dataset"].endswith("/u")]
    shapes = ([20, 25, 60], [40, 50, 60])
    assert [(each["options"], each["chunk_shape"]) for each in of_u] == [(bound, shape) for shape in shapes for bound in ("rel=1e-2", "rel=1e-3")]
    assert all(each["ratio"] > 1 and each["compress_mb_s"] > 0 for each in of_u)
    # A smaller bound is a smaller error, and a higher PSNR.
    for a, b in zip(trials[::2], trials[1::2]):
        if a["type"] == "F32" and a["dataset"][-1] in "uvw":
            assert a["greatest_error"] > b["greatest_error"] > 0 and a["psnr"] < b["psnr"] and a["ratio"] > b["ratio"]
    # Without bounds, a few usual ones; datasets of other types than numbers are skipped with the reason.
    usual = quire("advise", "in.h5:/other", "-v")
    usual.must_say("rel=1e-4", "lossless", "exact", "skipped in.h5:/other/text: the dataset's elements are strings")
    # A bound that a type cannot have is a row that says so.
    refused = quire("advise", "in.h5:/fields/whole", "--pwrel", "0.1", "--round-integers", code=1)
    refused.must_say("in.h5:/fields/whole at pwrel=1e-1: a point-wise relative bound is for floating-point types")
    quire("advise", "in.h5:/other/text", code=1).must_say("there is nothing to try")
    quire("advise", "in.h5", "--rel", "2", code=2).must_say("relative error bound is 2")
    quire("advise", "in.h5", "--chunks", "2x2x2x2x2", code=2).must_say("2x2x2x2x2 have 5 axes")
    quire("advise", "in.h5", "--chunks", "0", code=2).must_say('"0" is not a shape')
