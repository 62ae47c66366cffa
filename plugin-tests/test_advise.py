"""`quire advise`: what it finds of digits and noise, and the bounds that keep what was asked for. test_quire.py has its tables."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Callable

import h5py
import numpy as np
import pytest

import quire_client
from conftest import Ended, Python

Quire = Callable[..., Ended]

CPU = {"QUIRE_BACKEND": "cpu"}
NOISE = 0.05
BOUNDS = [float(f"{digit}e{power}") for power in range(-12, 4) for digit in (1, 2, 5)]


def make(path: str, spread: str) -> None:
    """Fields of known noise and known digits."""
    random = np.random.default_rng(11)
    z, y, x = np.meshgrid(*(np.linspace(0, 4, extent) for extent in (24, 90, 120)), indexing="ij")
    field = 280 + 20 * np.sin(x + 2 * y) + 5 * np.cos(2 * z) * np.cos(y)
    noisy = field + random.normal(scale=NOISE, size=field.shape)
    noisy[3:5, 10:40, 50:90] = -999
    with h5py.File(path, "w") as file:
        file.create_dataset("noisy", data=noisy.astype("f4"), chunks=(4, 90, 60), fillvalue=-999)
        file.create_dataset("big_endian", data=noisy[6:].astype(">f8"), fillvalue=-999)
        file.create_dataset("smooth", data=field, chunks=(24, 45, 60))
        file.create_dataset("decimals", data=np.rint(noisy * 100) / 100, dtype="f4", fillvalue=-999)
        file.create_dataset("eighths", data=np.rint(noisy * 8) / 8, dtype="f8", fillvalue=-999)
        bits = np.exp(noisy[6:] / 10).astype("f4").view("u4")
        file.create_dataset("ten bits", data=((bits + (1 << 12)) & ~np.uint32((1 << 13) - 1)).view("f4"))
        file.create_dataset("counts", data=random.poisson(30, field.shape).astype("i4"))
        file.create_dataset("line", data=noisy[10, 20:].ravel())
        file.create_dataset("gaps", data=np.full((40, 200), np.nan))
    with h5py.File(spread, "w") as file:
        for name in ("noisy", "smooth"):
            file.create_dataset(name, data=np.where(noisy[0] > 290, 0, 0.3))


def values(path: str, name: str) -> Any:
    """In f64, with NaN for gaps."""
    with h5py.File(path) as file:
        found = file[name][...].astype("f8")
    return np.where(found == -999, np.nan, found)


def keeps_gradients(report: str, original: str, copy: str, name: str, most: str) -> None:
    """The error of gradients in the copy is at most this share, and what was told of it. At the next larger bound it is larger."""
    trials = [trial for trial in json.loads(Path(report).read_text())["trials"] if trial["dataset"].endswith(name)]
    before, after = values(original, name), values(copy, name)
    shares = []
    for axis in range(3):
        slopes, off = np.diff(before, axis=axis), np.diff(after - before, axis=axis)
        shares.append(float(np.sqrt(np.nanmean(off**2) / np.nanmean(slopes**2))))
    assert max(shares) <= float(most), shares
    by_bound = {float(trial["options"].removeprefix("abs=")): trial["gradient_error"] for trial in trials if trial["options"].startswith("abs=")}
    advised = max(bound for bound, share in by_bound.items() if share <= float(most))
    assert abs(by_bound[advised] - max(shares)) < 1e-9, (by_bound, shares)
    assert float(np.nanmax(abs(after - before))) <= advised
    assert by_bound.get(BOUNDS[BOUNDS.index(advised) + 1], 1) > float(most)


def of_dataset(report: Any, name: str) -> Any:
    return next(found for found in report["datasets"] if found["dataset"].endswith(":/" + name))


@pytest.fixture
def file(newest: Python) -> str:
    newest(make, "in.h5", "spread.h5", env=CPU)
    return "in.h5"


def test_digits_and_noise_are_found(quire: Quire, file: str) -> None:
    report = quire("advise", file, "--rel", "1e-2", "--json").json
    for name in ("noisy", "big_endian", "decimals"):
        assert abs(of_dataset(report, name)["noise"] - NOISE) < 0.2 * NOISE, name
    assert (of_dataset(report, "smooth")["noise"] or 0) < 0.01 and of_dataset(report, "gaps")["noise"] is None
    digits = {found["dataset"].partition(":/")[2]: (found["unit"], found["bits"], found["digits_are_worth"]) for found in report["datasets"]}
    assert digits == {
        "noisy": (None, None, None),
        "big_endian": (None, None, None),
        "smooth": (None, None, None),
        "line": (None, None, None),
        "gaps": (None, None, None),
        "counts": (None, None, None),
        "decimals": (0.01, None, "abs=5e-3"),
        "eighths": (0.125, None, "abs=6.25e-2"),
        "ten bits": (None, 10, "pwrel=4.8828125e-4"),
    }
    text = quire("advise", file, "--rel", "1e-2")
    text.must_say("values are multiples of 0.01, worth abs=5e-3; noise is about 4.9", "values have 10 bits of fraction, worth pwrel=4.8828125e-4")
    text.must_not_say("advised")


def test_bounds_keep_what_is_asked_for(quire: Quire, newest: Python, file: str, tmp_path: Path) -> None:
    asked = quire("advise", file, "--keep", "gradient=0.02", "--keep", "psnr=50", "--json")
    (tmp_path / "report.json").write_text(asked.stdout)
    report = asked.json
    (command,) = report["commands"]
    assert shlex.split(command)[:4] == ["quire", "repack", "in.h5", "in-small.h5"]
    quire(*shlex.split(command)[1:]).must_say("verified: in-small.h5")
    for name in ("noisy", "smooth"):
        newest(keeps_gradients, "report.json", file, "in-small.h5", name, 0.02, env=CPU)
    verified = {found["path"]: found for found in quire("verify", file, "in-small.h5", "--report", "--json").json["datasets"]}
    for name in ("noisy", "big_endian", "smooth", "ten bits"):
        found = verified["/" + name]
        assert found["psnr"] >= 50 and max(each["rms_error"] for each in found["report"]["gradients"]) <= 0.02, found
    # Counts keep their exact bits, and a field without values has no bound.
    assert of_dataset(report, "counts")["advised"] == of_dataset(report, "gaps")["advised"] == "lossless"
    # A finer target costs ratio, and below the digits of the values they are exact anyway.
    fine = quire("advise", file, "--keep", "ssim=0.99999", "--json").json
    usual = quire("advise", file, "--json").json
    quire(*shlex.split(usual["commands"][0])[1:], "--force")
    verified = {found["path"]: found for found in quire("verify", file, "in-small.h5", "--report", "--json").json["datasets"]}
    for name in ("noisy", "smooth"):
        bounds = [float(of_dataset(found, name)["advised"].removeprefix("abs=")) for found in (fine, usual)]
        assert 0 < bounds[0] < bounds[1] <= 1 and verified["/" + name]["report"]["dssim"]["least"] >= 0.9995
    assert of_dataset(quire("advise", file, "--keep", "psnr=120", "--json").json, "decimals")["advised"] == "lossless"
    quire("advise", file + ":/line").must_say("there is no ssim of such an array")


def test_bounds_are_below_the_noise(quire: Quire, file: str) -> None:
    found = quire("advise", f"{file}:/noisy", "--noise", "--json").json
    advised = float(of_dataset(found, "noisy")["advised"].removeprefix("abs="))
    assert NOISE / 12 < advised <= of_dataset(found, "noisy")["noise"] / 5
    spread = quire("advise", f"{file}:/noisy", f"{file}:/smooth", "--noise=spread.h5", "--json").json
    for name in ("noisy", "smooth"):
        assert (of_dataset(spread, name)["noise"], of_dataset(spread, name)["advised"]) == (0.3, "abs=5e-2")
    quire("advise", f"{file}:/decimals", "--noise=spread.h5", code=1).must_say("spread.h5:/decimals")
    quire("advise", file, "--noise=nowhere.h5", code=1).must_say("nowhere.h5: there is no such file")
    both = quire("advise", f"{file}:/noisy", "--noise", "--keep", "gradient=1e-4", "--json").json
    assert float(of_dataset(both, "noisy")["advised"].removeprefix("abs=")) < advised


def test_a_part_of_a_large_dataset_is_tried(quire: Quire, file: str) -> None:
    whole, part = (quire("advise", f"{file}:/smooth", "--rel", "1e-3", "--sample", mib, "--json").json["trials"][0] for mib in (16, 1))
    assert (whole["chunks"], whole["of_chunks"], part["chunks"], part["of_chunks"]) == (4, 4, 2, 4)
    assert abs(part["ratio"] / whole["ratio"] - 1) < 0.2 and abs(part["psnr"] - whole["psnr"]) < 1


@pytest.mark.parametrize("target", ["ssim=1", "ssim=many", "slopes=1", "psnr=-3", "gradient=0"])
def test_targets_that_make_no_sense_are_refused(quire: Quire, target: str) -> None:
    quire("advise", "in.h5", "--keep", target, code=2).must_say("give ssim=, gradient= or psnr= and a number")


def test_order_and_signs_are_kept_beside_the_bounds_that_are_tried(quire: Quire, file: str) -> None:
    tried = quire("advise", f"{file}:/smooth", "--keep", "order", "--keep", "sign:0", "--json").json["trials"]
    assert [trial["options"].partition(",")[2] for trial in tried] == 5 * ["keep=order+sign:0"]
    quire("advise", file, "--keep", "ssim", code=2).must_say("keep=ssim is unknown")
    quire("repack", file, "out.h5", "--abs", "1e-3", "--keep", "ssim=0.9", code=2).must_say("quire advise finds the bound that keeps it")
