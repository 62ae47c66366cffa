"""`quire repack`, and what `quire verify` and `quire advise` say of the same files. test_archive.py has several files at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable

import quire_files
import repack_jobs
import test_bricks
from conftest import Ended, Python, Runner

CPU = {"QUIRE_BACKEND": "cpu"}
Quire = Callable[..., Ended]


def names(folder: Path, beginning: str) -> list[str]:
    """Files of the folder whose names begin so."""
    return sorted(path.name for path in folder.glob(f"{beginning}*"))


def test_repack_compresses_and_keeps_everything_else(quire: Quire, newest: Python, pythons: dict[str, Python], tmp_path: Path) -> None:
    newest(quire_files.make, "in.h5", env=CPU)
    before = (tmp_path / "in.h5").read_bytes()
    quire("repack", "in.h5", "out.h5", "--rel", "1e-3", "-v").must_say(
        "skipped /other/small: fewer bytes than --min-size=16384",
        "skipped /other/text: the dataset's elements are strings",
        "skipped /other/scalar: a scalar, which HDF5 cannot store in chunks",
        "skipped /other/no_values: it has no values",
        "skipped /scales/x: a dimension scale",
        'attribute "to nothing": 1 references lead to nothing',
        "verified: out.h5",
    )
    for python in pythons.values():
        python(quire_files.check, "in.h5", "out.h5", 1e-3, env=CPU)
    assert (tmp_path / "in.h5").read_bytes() == before, "the input was changed"
    assert names(tmp_path, "out.h5") == ["out.h5"]
    # Whoever may read other files may read this one.
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "out.h5").stat().st_mode == (tmp_path / "plain").stat().st_mode

    # Again, from what has the filter already: nothing is left to do.
    again = quire("repack", "out.h5", "again.h5", "--rel", "1e-3", code=1)
    again.must_say("and 14 more: compressed with this filter already", "there is nothing to compress")
    assert names(tmp_path, "again") == []

    only = ["--only", "/fields/u", "--only", "other/compressed_before", "--chunks", "16x16x16"]
    (report,) = quire("repack", "in.h5", "out.h5", "--force", "--json", "--abs", "0.01", *only).json["files"]
    made = [(each["path"], each["options"], each["chunk_shape"]) for each in report["datasets"]]
    assert made == [("/fields/u", "abs=1e-2", [16, 16, 16]), ("/other/compressed_before", "abs=1e-2", [50, 50])]
    assert report["verified"] and all(each["greatest_error"] <= 0.01 and each["ratio"] > 2 for each in report["datasets"])
    assert report["output_bytes"] < report["input_bytes"] and len(report["skipped"]) > 20
    inspected = quire("inspect", "--json", "out.h5").json["datasets"]
    chunks = [(each["name"], len(each["chunks"])) for each in inspected if each["compressed"]]
    assert chunks == [("out.h5:/fields/u", 48), ("out.h5:/other/compressed_before", 4)]
    # A dataset that is named is compressed, even a small one or a dimension scale. Whole numbers are rounded where an option says so.
    for arguments, words in (
        (["--only", "/scales/x", "--rel", "1e-6"], "/scales/x"),
        (["--only", "/other/small", "--psnr", "50"], "/other/small"),
        (["--only", "/fields/whole", "--round-integers", "--abs", "5"], "abs=5e0"),
        (["--only", "/fields/whole", "--abs", "5"], "lossless"),
        (["--only", "/fields/half", "--pwrel", "0.1", "--coding", "bitshuffle"], "pwrel=1e-1,coding=bitshuffle"),
        (["--only", "/fields", "--ratio", "10", "--abs", "0.5"], "ratio=10,abs=5e-1"),
        (["--lossless"], "lossless"),
    ):
        quire("repack", "in.h5", "out.h5", "--force", *arguments).must_say(words, "verified")


def test_regions_of_a_file_in_pages_are_copied(quire: Quire, newest: Python) -> None:
    newest(quire_files.regions, "in.h5", env=CPU)
    quire("repack", "in.h5", "out.h5", "--abs", "1e-3").must_say("verified: out.h5")
    newest(quire_files.regions_check, "in.h5", "out.h5", env=CPU)


def test_a_brick_is_what_repack_advise_and_args_take(quire: Quire, pythons: dict[str, Python]) -> None:
    pythons["HDF5 1.14"](test_bricks.plain, "in.h5")
    dataset, brick = "in.h5:/boxes/compressed", ("--brick", "8x8x8")

    def ratio(*options: str) -> float:
        return quire("advise", dataset, "--abs", "1e-3", "--chunks", 1536, "--json", *options).json["trials"][0]["ratio"]

    assert ratio(*brick) > 1.1 * ratio()
    quire("advise", "in.h5:/cut", "--abs", "1e-3", "--chunks", 1536, *brick).must_say("3 of 3", "abs=1e-3,brick=8x8x8")
    refused = quire("advise", dataset, "--abs", "1e-3", "--chunks", 1500, *brick, code=1)
    refused.must_say("a chunk has 1500 values, which are no whole number of the brick's rows of 8")

    repacked = quire("repack", "in.h5", "out.h5", "--only", "/boxes/compressed", "--abs", "1e-3", "--chunks", 1536, *brick)
    repacked.must_say("abs=1e-3,brick=8x8x8", "verified")
    pythons["HDF5 1.14"](test_bricks.check, "out.h5")
    quire("verify", "in.h5", "out.h5").must_say("brick=8x8x8")
    quire("inspect", "out.h5").must_say("brick=8x8x8")

    words = "50331649,8,8,8,3539053052,1062232653"
    quire("args", "--abs", "1e-3", *brick).must_say(words, "50331650,8,8,8,3, which")
    quire("args", words).must_say("abs=1e-3,brick=8x8x8")


def test_the_largest_error_is_that_of_all_chunks(quire: Quire, newest: Python, tmp_path: Path) -> None:
    newest(quire_files.errors, "in.h5", "copy.h5", env=CPU)
    integers = ["--set", "/integers:abs=30", "--round-integers"]
    for jobs in (1, 3):
        for copy, datasets, *arguments in (
            ("copy.h5", 24, "verify", "in.h5", "copy.h5", "--chunks"),
            ("packed.h5", 24, "repack", "in.h5", "packed.h5", "--only", "/**", "--abs", "0.5", *integers, "--force"),
            ("packed.h5", 18, "advise", "in.h5:/floats", "--abs", "0.5"),
            ("packed.h5", 6, "advise", "in.h5:/integers", "--abs", "30", "--round-integers"),
        ):
            (tmp_path / "report.json").write_text(quire(*arguments, "--json", "--jobs", jobs).stdout)
            newest(quire_files.errors_check, "report.json", "in.h5", copy, datasets, env=CPU)


def test_repack_writes_what_netcdf_reads(run: Runner, quire: Quire, newest: Python) -> None:
    newest(quire_files.netcdf, "in.nc", env=CPU)
    quire("repack", "in.nc", "out.nc", "--rel", "1e-3").must_say("/temperature", "/pressure", "verified")
    newest(quire_files.netcdf_check, "in.nc", "out.nc", 1e-3, env=CPU)
    shown = run("ncdump", "-h", "-s", "out.nc")
    shown.must_say("time = UNLIMITED", 'temperature:_Filter = "33791,', "temperature:_FillValue = 1.e+20f")


def test_repack_leaves_out_what_was_never_written(quire: Quire, newest: Python) -> None:
    newest(quire_files.sparse, "in.h5", env=CPU)
    (report,) = quire("repack", "in.h5", "out.h5", "--abs", "1e-3", "--json").json["files"]
    # The index has no entries for missing chunks either, which an index of a newer layout would have.
    assert report["output_bytes"] < report["input_bytes"] / 4
    newest(quire_files.sparse_check, "in.h5", "out.h5", env=CPU)


def test_repack_refuses_what_would_harm_a_file(run: Runner, quire: Quire, newest: Python, tmp_path: Path) -> None:
    newest(quire_files.partial, "in.h5", env=CPU)
    source, there = tmp_path / "in.h5", tmp_path / "there.h5"
    (tmp_path / "link.h5").hardlink_to(source)
    there.write_text("mine")
    run("mkfifo", "pipe")
    before = source.read_bytes()
    for code, arguments, reason in (
        (1, "in.h5 in.h5 --force --abs 1", "in.h5 is the file that is to be read"),
        (1, "in.h5 ./link.h5 --force --abs 1", "./link.h5 is the file that is to be read"),
        (1, "in.h5 there.h5 --abs 1", "there.h5 is there already: name another file, or give --force"),
        (1, "in.h5 . --force --abs 1", "./in.h5 is the file that is to be read"),
        (1, "in.h5 pipe --force --abs 1 --min-size 0", "pipe is a folder, a pipe or a device"),
        (1, "pipe out.h5 --abs 1", "pipe: it is a folder, a pipe or a device, not a file"),
        (1, "in.h5 nowhere/out.h5 --abs 1 --min-size 0", "nowhere/out.h5: No such file"),
        (1, "nowhere.h5 out.h5 --abs 1", "nowhere.h5: there is no such file"),
        (1, "in.h5 out.h5 --abs 1 --only /nothing", "in.h5:/nothing: the file has no dataset and no group of that name"),
        (1, "in.h5 out.h5 --abs 1 --chunks 2x2x2", "3 axes, which no dataset of in.h5 has"),
        (1, "in.h5 out.h5 --abs 1 --min-size 999999", "there is nothing to compress"),
        (2, "in.h5 out.h5", "no bound is given"),
        (2, "in.h5 out.h5 --rel x", "rel=x is not a number"),
        (2, "in.h5 out.h5 --abs -1", "absolute error bound is -1"),
        (2, "in.h5 --abs 1", "in.h5 is all that is named"),
    ):
        quire("repack", *arguments.split(), code=code).must_say(reason)
    without = quire("repack", "in.h5", "out.h5", "--abs", 1, env={"HDF5_PLUGIN_PATH": None}, code=1)
    without.must_say("HDF5 does not find the filter 33791", "HDF5_PLUGIN_PATH", "quire doctor")
    wrong = quire("repack", "in.h5", "out.h5", "--abs", 1, "--min-size", 0, env={"QUIRE_BACKEND": "gpu"}, code=1)
    wrong.must_say("QUIRE_BACKEND=gpu is unknown")
    assert names(tmp_path, "out") == []
    assert (tmp_path / "pipe").is_fifo(), "the pipe was replaced"
    assert there.read_text() == "mine" and source.read_bytes() == before


def test_every_chunk_has_the_same_bytes_whatever_the_number_of_threads(run: Runner, quire: Quire, newest: Python) -> None:
    def sums(file: str, *names: str) -> list[object]:
        found = newest(repack_jobs.sums, file, *names, env=CPU).json
        assert len(found) > 10
        return found

    newest(repack_jobs.make, "in.h5", env=CPU)
    for number, (jobs, settings) in enumerate(((["--jobs", 1], {}), (["--jobs", 4], {}), ([], {"QUIRE_THREADS": "3"}), ([], {}))):
        quire("repack", "in.h5", f"out{number}.h5", "--abs", "1e-3", *jobs, env=settings).must_say("verified", "/missing/4", "/holes/3")
        assert sums(f"out{number}.h5") == sums("out0.h5"), (jobs, settings)
    newest(repack_jobs.with_h5py, "in.h5", "h5py.h5", env=CPU)
    of_both = ["chunked", "gzip", "holes"]
    assert sums("out1.h5", *of_both) == sums("h5py.h5", *of_both)
    # h5repack's bound is for all datasets, where `quire repack` keeps whole numbers exact.
    floats = ["chunked/3f4", "chunked/2f4b"]
    run("h5repack", "-f", f"{','.join(floats)}:UD=33791,0,2,2,3", "in.h5", "h5repack.h5")
    assert sums("out1.h5", *floats) == sums("h5repack.h5", *floats)

    def verified(jobs: int) -> str:
        return quire("verify", "in.h5", "out1.h5", "--chunks", "--jobs", jobs).stdout

    def inspected(jobs: int) -> str:
        return quire("inspect", "out1.h5", "--json", "--jobs", jobs).stdout

    def advised(jobs: int) -> str:
        """All but the speeds."""
        trials = quire("advise", "in.h5", "--abs", "1e-3", "--psnr", 60, "--json", "--jobs", jobs).json["trials"]
        return json.dumps([{key: told[key] for key in told if not key.endswith("_mb_s")} for told in trials])

    assert verified(1) == verified(5) and inspected(1) == inspected(4)
    alone = advised(1)
    assert "/missing/4" in alone and '"options": "psnr=60"' in alone and advised(4) == alone


def test_a_number_of_threads_that_cannot_be_is_refused(quire: Quire, newest: Python, tmp_path: Path) -> None:
    newest(repack_jobs.make, "in.h5", env=CPU)
    for jobs in ("0", "1025", "many"):
        quire("repack", "in.h5", "out.h5", "--abs", 1, "--jobs", jobs, code=2).must_say("--jobs")
    quire("repack", "in.h5", "out.h5", "--abs", 1, env={"QUIRE_THREADS": "all"}, code=1).must_say("QUIRE_THREADS", "all")
    assert names(tmp_path, "out") == []
