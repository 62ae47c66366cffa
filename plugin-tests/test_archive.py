"""`quire repack` and `quire verify` on an archive: several files, bounds by dataset, missing values, tiny chunks, and data that does not shrink."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import h5py
import numpy as np
import pytest

from conftest import Ended, Python
from quire_client import assert_bound, assert_same_bits, smooth

SHAPE = (40, 50, 60)
# Values that stand for "nothing was measured". They lie on no rounding grid, and the data could have the second one.
MISSING = np.float32(-9999.9)
OTHER_MISSING = np.float32(0.7)
TEXTS = ["one", "two"]


def make(folder: str) -> None:
    random = np.random.default_rng(1)
    for day in (1, 2):
        with h5py.File(Path(folder) / f"day{day}.h5", "w") as file:
            gaps = random.random(SHAPE) < 0.2
            field = smooth(SHAPE, "<f4", day)
            file["t"] = field
            for order in ("le", "be"):
                dtype = "<f4" if order == "le" else ">f4"
                one = file.create_dataset(f"missing/one_{order}", data=np.where(gaps, MISSING, field).astype(dtype), chunks=(32, 32, 32))
                one.attrs["missing_value"] = np.float64(MISSING)
            # Chunks at the end are filled up with the fill value, which is a third kind of gap.
            two = file.create_dataset("missing/two", SHAPE, "<f4", chunks=(32, 32, 32), fillvalue=1e20)
            two[:, :, :50] = np.where(gaps, MISSING, np.where(random.random(SHAPE) < 0.1, OTHER_MISSING, field))[:, :, :50]
            two.attrs["missing_value"], two.attrs["_FillValue"] = MISSING, OTHER_MISSING
            # One -999 among temperatures, and nothing that says what it stands for: not so far away that the filter leaves it out of the range.
            far = 10 * field
            far[3, 4, 5] = -999
            file["far"] = far
            file.create_dataset("tiny", data=smooth((60, 80), "<f4", 3), chunks=(1, 1))
            file["noise"] = np.frombuffer(random.bytes(80_000), "<f8")
            file["flag_a"] = random.integers(0, 3, (100, 100)).astype("<i4")
            file["flag_b"] = random.integers(0, 1000, (100, 100)).astype("<i4")
            for name in ("same", "other"):
                file[f"texts/{name}"] = np.array(TEXTS, dtype=h5py.string_dtype())
            for number in range(20):
                file[f"small/{number}"] = np.arange(number + 2, dtype="f4")


def check_missing(path: str, new: str) -> None:
    """Missing values are kept bit for bit, and all others within 1e-3 of the range of those that are there."""
    with h5py.File(path) as old, h5py.File(new) as copy:
        for name, specials in (("one_le", [MISSING]), ("one_be", [MISSING]), ("two", [MISSING, OTHER_MISSING, np.float32(1e20)])):
            before, after = old[f"missing/{name}"][()], copy[f"missing/{name}"][()]
            is_special = np.isin(before, np.array(specials))
            assert is_special.sum() > 1000 and not is_special.all(), name
            assert_same_bits(before[is_special].astype("<f4"), after[is_special].astype("<f4"), name)
            counted = before[~is_special]
            assert_bound(np.ascontiguousarray(counted), np.ascontiguousarray(after[~is_special]), 1e-3 * float(np.ptp(counted)), name)
            # Where several kinds of gaps meet in a chunk, all but one are far values.
            assert (before != after).any(), f"{name}: what was rounded"
            assert repr(copy[f"missing/{name}"].fillvalue) == repr(old[f"missing/{name}"].fillvalue), name


def check_annotations(path: str) -> None:
    """The attributes that `--annotate` writes."""
    with h5py.File(path) as file:
        of_t, of_flag = file["t"].attrs, file["flag_a"].attrs
        assert of_t["quire_options"] == "abs=1e-2" and 0 < of_t["quire_largest_error"] < 0.01 and "quire_psnr" in of_t
        assert of_flag["quire_options"] == "abs=1e0" and of_flag["quire_largest_error"] == 1
        assert set(file["noise"].attrs) == set(), "an annotation where nothing was done"


def by_others(path: str, new: str) -> None:
    """A copy by filters that HDF5 itself has: scale-offset with two digits, and exact ones, of rounded values among others."""
    with h5py.File(path) as old, h5py.File(new, "w") as copy:
        copy.create_dataset("t", data=old["t"], chunks=(20, 25, 30), scaleoffset=2)
        copy.create_dataset("flag_a", data=old["flag_a"], chunks=True, compression="gzip", shuffle=True)
        copy["flag_b"] = old["flag_b"][()].astype("<i8")
        copy["tiny"] = old["tiny"][:50]
        # Rounded before it is compressed, as many archives are; the missing value is rounded with all others.
        rounded = (np.round(old["missing/one_le"][()] * 128) / 128).astype("<f4")
        one = copy.create_dataset("missing/one_le", data=rounded, chunks=(32, 32, 32), compression="gzip")
        one.attrs["missing_value"] = MISSING
        copy["texts/same"], copy["texts/other"] = (np.array(texts, dtype=h5py.string_dtype()) for texts in (TEXTS, TEXTS[::-1]))
        copy["additional"] = 1.5


def empty(path: str, new: str) -> None:
    """Two files of datasets without values; some types and a number of values differ."""
    pairs = np.dtype([("a", "<i4"), ("b", "<f8")])
    types = {"same": ("<f4", "<f4"), "order": ("<f4", ">f4"), "pairs": (pairs, pairs), "type": ("<f4", "<f8")}
    types |= {"text": (h5py.string_dtype(), "<f4"), "other_pairs": (pairs, np.dtype([("a", "<i4"), ("c", "<f8")]))}
    for number, name in enumerate((path, new)):
        with h5py.File(name, "w") as file:
            for dataset, dtypes in types.items():
                file.create_dataset(dataset, (0, 5), dtypes[number], maxshape=(None, 5))
            file["null"] = h5py.Empty("<f4")
            file[("scalar", "none")[number]], file[("none", "scalar")[number]] = 1.0, h5py.Empty("<f8")


def spoil(path: str) -> None:
    """Changes values of a copy that must not change, and takes a dataset away."""
    with h5py.File(path, "r+") as file:
        del file["flag_b"]
        # Written to existing datasets, as a program that knows nothing of their values would.
        assert h5py.h5z.filter_avail(33791)
        file["t"][0, 0, 0] += 10
        gap = tuple(np.argwhere(file["missing/one_le"][()] == MISSING)[0])
        file["missing/one_le"][gap] = MISSING + 1


CPU = {"QUIRE_BACKEND": "cpu"}
Quire = Callable[..., Ended]


@pytest.fixture(autouse=True)
def archive(newest: Python, tmp_path: Path) -> None:
    """The files of `make` in a folder `in`, and an empty folder `out`."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    newest(make, "in", env=CPU)


def test_verify_names_the_filter_that_is_missing_and_shows_no_error_of_what_it_cannot_read(quire: Quire) -> None:
    quire("repack", "in/day1.h5", "out.h5", "--rel", "1e-3")
    quire("verify", "in/day1.h5", "out.h5").must_say("rel=1e-3")
    lost = quire("verify", "in/day1.h5", "out.h5", env={"HDF5_PLUGIN_PATH": "/nowhere"}, code=1)
    lost.must_say("cannot be read: HDF5 does not find quire here: name the folder of its plugin in HDF5_PLUGIN_PATH", "WRONG /")
    assert "rel=1e-3" not in lost.stdout, "a row without values"


BY_DATASET = ["--rel", "1e-3", "--set", "/flag_*:none", "--set", "flag_a:abs=1", "--set", "/**ti?y:abs=0.01", "--set", "/noise:abs=1e-300"]


def test_several_files_go_into_a_folder_with_bounds_by_dataset(quire: Quire, pythons: dict[str, Python], tmp_path: Path) -> None:
    arguments = ["repack", "in/day1.h5", "in/day2.h5", "out", *BY_DATASET]
    # A folder needs no option. A dry run says what would be done.
    planned = quire(*arguments, "--dry-run")
    planned.must_say("/flag_a", "abs=1e0", "/tiny", "abs=1e-2", "skipped /flag_b: --set leaves it alone", "nothing is written", "out/day2.h5")
    assert not list((tmp_path / "out").iterdir())

    done = quire(*arguments, "--annotate").must_say(
        "skipped /small/0 and 19 more: fewer bytes than --min-size=16384",
        "23 datasets are skipped; -v lists all of them",
        "note: /tiny: its chunks of 1x1 are too small to compress: the copy has 60x80",
        "note: /missing/one_be and 2 more: chunks of 32x32x32 (128 KiB) are small",
        "--chunks gives the copy others",
        "note: /missing/one_be and 2 more: its attribute names missing values that are not its fill value",
        "note: /far: in a chunk one value decides the range",
        "-9.99e2 makes it",
        "verified: out/day1.h5",
        "2 of 2 files: ",
    )
    assert sum(line.startswith("skipped") for line in done.stdout.splitlines()) == 6, done
    again = quire(*arguments, "--force", "-v")
    again.must_say("skipped /small/7: fewer bytes than --min-size=16384", "skipped /small/19: fewer")
    for python in pythons.values():
        python(check_missing, "in/day1.h5", "out/day1.h5", env=CPU)

    # A second run refuses the files that are there, and one that fails does not keep the others from being written.
    (tmp_path / "out/day2.h5").unlink()
    quire(*arguments, code=1).must_say("error: out/day1.h5 is there already", "verified: out/day2.h5", "1 of 2 files")
    for more, reason in (
        (["in/day1.h5", "in/day2.h5", "nowhere", "--abs", "1"], "2 files to read, and nowhere is no folder"),
        (["in/day1.h5", "./in/day1.h5", "out", "--abs", "1"], "out/day1.h5 would be written twice"),
        (["in/day1.h5", "o.h5", "--set", "/t"], "give PATH:OPTIONS"),
        (["in/day1.h5", "o.h5", "--set", "/t:abs=-1"], "--set /t:abs=-1: "),
    ):
        quire("repack", *more, code=2).must_say(reason)
    unknown = quire("repack", "in/day1.h5", "o.h5", "--set", "/zz*:abs=1", code=1)
    unknown.must_say("in/day1.h5:/zz*: the file has no dataset of such a path")


def test_copies_say_what_was_done_and_leave_alone_what_would_grow(quire: Quire, newest: Python, tmp_path: Path) -> None:
    only = ["--only", "/noise", "--set", "/flag_a:abs=1", "--only", "/flag_a", "--set", "/noise:abs=1e-300"]
    # A dataset that the user names gets the filter, though its chunks become longer.
    named = quire("repack", "in/day1.h5", "o.h5", "--abs", "1e-3", *only, "--json").json
    assert [each["path"] for each in named["files"][0]["datasets"]] == ["/flag_a", "/noise"]
    bounds = ["--abs", "1e-300", "--set", "/t:abs=0.01", "--set", "/flag_a:abs=1"]
    left = quire("repack", "in/day1.h5", "o.h5", "--force", "--annotate", *bounds)
    left.must_say("/noise", "compressed it would take more bytes than it has", "verified: o.h5")
    newest(check_annotations, "o.h5", env=CPU)
    # Again from a file with these attributes: they are not doubled, and there is nothing else left to do.
    again = quire("repack", "o.h5", "again.h5", "--abs", "1", "--only", "/t", "--annotate", code=1)
    again.must_say("there is nothing to compress")
    assert not list(tmp_path.glob("again*"))

    # advise leaves out the same datasets for the same reasons.
    def skipped(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith("skipped")]

    repacked = quire("repack", "in/day1.h5", "p.h5", "--dry-run", "--abs", "1", "-v")
    advised = quire("advise", "in/day1.h5", "--abs", "1", "-v", "--rel", "1e-3")
    assert skipped(advised.stderr.replace("in/day1.h5:", "")) == skipped(repacked.stdout)
    advised.must_say("note: in/day1.h5:/tiny: chunks of 1x1 (4 bytes) are small", "/far at rel=1e-3: in a chunk one value decides")
    quire("inspect", "in/day1.h5").must_say("note: in/day1.h5:/missing/one_be and 2 more: chunks of")
    checked = quire("doctor", "in/day1.h5")
    checked.must_say("in/day1.h5:/tiny: chunks of 1x1 (4 bytes) are small", "quire repack --chunks SHAPE")


def test_verify_says_which_promises_a_copy_keeps(quire: Quire, pythons: dict[str, Python], debian: Python) -> None:
    quire("repack", "in/day1.h5", "o.h5", "--rel", "1e-3", "--set", "/tiny:abs=0.01")
    kept = quire("verify", "in/day1.h5", "o.h5")
    kept.must_say("rel=1e-3", "abs=1e-2", "22 other datasets are equal", "9 datasets compared: no promise is broken")
    report = quire("verify", "in/day1.h5", "o.h5", "--json", "--chunks").json
    (t,) = [each for each in report["datasets"] if each["path"] == "/t"]
    assert (t["filters"], t["bound"], report["kept"]) == ("quire", "rel=1e-3", True)
    assert 0.5 < t["share_of_bound"] <= 1 and t["psnr"] > 50 and t["values"] == 120000
    assert [each["corner"] for each in t["chunks"]] == [[0, 0, 0]]

    # A smaller bound than was promised, for all that is rounded.
    smaller = quire("verify", "in/day1.h5:/t", "o.h5", "--rel", "1e-4", code=1)
    smaller.must_say("WRONG /t: value ", "it may be off by", "the chunk is at (0, 0, 0)", "1 of 1 datasets are WRONG")

    pythons["HDF5 1.14"](spoil, "o.h5", env=CPU)
    quire("verify", "in/day1.h5", "o.h5", "--chunks", code=1).must_say(
        "WRONG /flag_b: the copy has no such dataset",
        "WRONG /t: value 0 of a chunk was",
        "WRONG /missing/one_le: value ",
        "fill values, missing values, far values and what is not finite are kept bit for bit",
        "3 of 9 datasets are WRONG",
    )

    debian(by_others, "in/day1.h5", "others.h5", env=CPU)
    report = quire("verify", "in/day1.h5", "others.h5", "--abs", "0.01", "--json", code=1).json
    problems = {each["path"]: each["problem"] for each in report["datasets"]}
    assert (problems["/t"], problems["/flag_a"], problems["/flag_b"]) == (None, None, "its type is not that of the original")
    assert problems["/tiny"] == "its shape is 50x80, the original's is 60x80" and problems["/texts/other"].startswith("its values are not t")
    assert "/texts/same" not in problems and report["equal"] == 1 and report["only_in_copy"] == ["/additional"]
    assert "are kept bit for bit" in problems["/missing/one_le"]
    (one,) = [each for each in report["datasets"] if each["path"] == "/missing/one_le"]
    assert one["changed"] > 1000 and one["beyond_bound"] == 0
    # Types and numbers of values are compared where there are no values.
    debian(empty, "one.h5", "two.h5", env=CPU)
    report = quire("verify", "one.h5", "two.h5", "--json", code=1).json
    assert report["equal"] == 4 and {each["path"]: each["problem"] for each in report["datasets"]} == {
        "/none": "its number of values is 1, the original's is 0",
        "/other_pairs": "its type is not that of the original",
        "/scalar": "its number of values is 0, the original's is 1",
        "/text": "its type is not that of the original",
        "/type": "its type is not that of the original",
    }
    # Nothing is promised where no bound is given.
    quire("verify", "in/day1.h5:/t", "others.h5").must_say("filter 6", "1 dataset compared: no promise is broken")
    for code, arguments, reason in (
        (1, ["in/day1.h5", "nowhere.h5"], "nowhere.h5: there is no such file"),
        (1, ["in/day1.h5:/nothing", "o.h5"], "in/day1.h5:/nothing: the file has no dataset"),
        (2, ["in/day1.h5"], "<COPY>"),
    ):
        quire("verify", *arguments, code=code).must_say(reason)


def test_verify_reports_what_copies_keep(quire: Quire, tmp_path: Path) -> None:
    quire("repack", "in/day1.h5", "o.h5", "--rel", "1e-3", "--set", "/t:abs=0.01")
    quire("verify", "in/day1.h5:/t", "o.h5", "--report").must_say("PSNR", "dSSIM", "gradient along axis 2", "good  largest error", "slopes inverted")
    found = quire("verify", "in/day1.h5", "o.h5", "--json", "--report", "--html", "all.html").json
    reports = {each["path"]: each["report"] for each in found["datasets"]}
    # The bound is checked chunk by chunk, and the report goes box by box.
    for each in found["datasets"]:
        assert (each["report"]["greatest_error"], each["report"]["changed"]) == (each["greatest_error"], 0), each["path"]
        assert each["path"] != "/t" or each["report"]["psnr"] == pytest.approx(each["psnr"], abs=1e-6)
    assert reports["/t"]["bound"] == 0.01 and reports["/tiny"]["bound"] is None
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert page.count("<svg") == len(reports) and page.count("http") == len(reports), "the page needs nothing but itself"
    quire("verify", "in/day1.h5:/t", "o.h5", "--plot", "t.png")
    quire("verify", "in/day1.h5:/t", "o.h5", "--plot", "t.svg")
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "t.svg").read_text().startswith("<svg")
    for copy, plot, reason in (("o.h5", "t.pdf", "t.pdf: --plot writes a file.png or file.svg"), ("o.h5", "no/t.png", "no/t.png")):
        quire("verify", "in/day1.h5:/t", copy, "--plot", plot, code=1).must_say(reason)
    quire("verify", "in/day1.h5", "o.h5", "--plot", "t.png", code=1).must_say("--plot draws one dataset, and")
