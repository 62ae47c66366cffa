"""h5repack, nccopy and `quire repack` over the HDF5 and netCDF files that the packages of this environment ship.

shipped_files.py QUIRE     QUIRE is the command line; HDF5_PLUGIN_PATH names the plugin's folder

h5repack and nccopy copy each file with deflate, and then with our filter under each of OPTIONS: a file that they cannot copy is to be the same one both ways.
nccopy also copies its copies. The copies are compared with the one that has deflate, those of `quire repack` with the file itself. Names, types, extents and
attributes must be equal. Each value must be within the bound, and fill values and what the attributes `_FillValue` and `missing_value` name keep their bits.
"""

from __future__ import annotations

import collections
import functools
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator, Optional

import h5py
import numpy as np

from quire_client import FILTER_ID, assert_bound, assert_same_bits

QUIRE = sys.argv[1]
OPTIONS = ("lossless", "abs=1e-3", "rel=1e-4")
SUFFIXES = {".nc", ".nc3", ".nc4", ".netcdf", ".cdf", ".h5", ".hdf5", ".he5", ".mat"}


def shipped() -> list[Path]:
    found = (path for path in sorted(Path(sys.prefix, "lib").rglob("*")) if path.suffix.lower() in SUFFIXES and path.is_file())
    return [path for path in found if h5py.is_hdf5(path) or path.read_bytes()[:3] == b"CDF"]


def refusal(*command: object) -> Optional[str]:
    """None if a tool ends in order, else what it said."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace")
    return None if done.returncode == 0 else f"ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}"


def words(options: str) -> str:
    """`cd_values` of options, such as "2,3"."""
    said = subprocess.run([QUIRE, "args", options], capture_output=True, text=True, check=True).stdout
    return next(line for line in said.splitlines() if line.startswith("cd_values")).split()[1]


@functools.cache
def structure(path: Path) -> list[str]:
    """Names, types, extents and attributes, as h5dump prints them, without the file's name and the addresses of what references point to."""
    said = subprocess.run(["h5dump", "-A", "-w", "0", path], capture_output=True, text=True, errors="replace", check=True).stdout
    return re.sub(r"(DATASET|GROUP|DATATYPE) \d+ ", r"\1 ", said).splitlines()[1:]


def datasets(file: h5py.File) -> Iterator[h5py.Dataset]:
    names: list[str] = []
    file.visit(names.append)
    for name in names:
        try:
            found = file[name]
        except (KeyError, OSError, TypeError):
            # A type that h5py does not have.
            continue
        if isinstance(found, h5py.Dataset):
            yield found


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether it is a type that this filter rounds; the numbers of an enumeration keep their bits."""
    return not dtype.metadata and (dtype.kind in "fiu" and dtype.itemsize <= 8 or dtype.kind == "c" and dtype.itemsize <= 16)


def variables(path: Path) -> list[str]:
    """The variables of numbers of a netCDF-4 file, without dimensions that have no values. nccopy ends with an error where this filter refuses one."""
    with h5py.File(path) as file:
        found = [one for one in datasets(file) if is_number(one.dtype) and one.shape and "This is a netCDF dimension" not in str(one.attrs.get("NAME"))]
        return [one.name if "/" in one.name[1:] else one.name[1:] for one in found]


def gaps(dataset: h5py.Dataset, values: np.ndarray) -> np.ndarray:
    """Where a dataset has its fill value, or one that its attributes name."""
    named = [dataset.attrs[name] for name in ("_FillValue", "missing_value") if name in dataset.attrs]
    if dataset.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        named.append(dataset.fillvalue)
    numbers = [one for value in named if np.asarray(value).dtype.kind in "fiuc" for one in np.ravel(value)]
    return np.any([values == one for one in numbers], axis=0) if numbers else np.zeros(values.shape, bool)


def check_values(original: h5py.Dataset, copy: h5py.Dataset, options: str, copies: int) -> None:
    """Raises AssertionError where a value of a copy, or of a copy of a copy, is none that `options` allow."""
    try:
        values = original[()]
    except (OSError, TypeError, ValueError):
        # Compressed by a filter that is not here, or of a type that numpy does not have.
        return
    found = copy[()]
    if not is_number(original.dtype) or original.shape is None:
        before, after = (repr(array.tolist() if isinstance(array, np.ndarray) else array) for array in (values, found))
        assert before == after, f"{original.name}: {before[:200]} became {after[:200]}"
        return
    values, found = np.atleast_1d(values), np.atleast_1d(found)
    missing = gaps(original, values)
    assert_same_bits(values[missing], found[missing], f"{original.name}, gaps")
    values, found = values[~missing], found[~missing]
    name, _, number = options.partition("=")
    if name == "lossless":
        assert_same_bits(values, found, original.name)
        return
    bound = float(number)
    if name == "rel":
        # The range of a chunk is at most that of all. It is another one in a copy, whose values are rounded again. Under `abs` the grid stays as it is.
        finite = values[np.isfinite(values)]
        parts = finite.view(finite.real.dtype).astype(np.float64)
        bound *= copies * (float(np.ptp(parts)) if parts.size else 0) * (1 + 2**-50)
    assert_bound(values, found, bound, original.name)


class Copies:
    """What is wrong with the copies of a file, and how many there are."""

    def __init__(self, path: Path) -> None:
        self.label = "/".join(path.parts[-3:])
        self.problems: list[str] = []
        self.numbers: collections.Counter[str] = collections.Counter()

    def report(self, tool: str, problem: Optional[str]) -> None:
        if problem is not None:
            self.problems.append(f"{self.label}: {tool}: {problem}")

    def compare(self, tool: str, original: Path, copy: Path, options: str, copies: int = 1) -> None:
        if structure(original) != structure(copy):
            self.report(f"{tool}, {options}", "h5dump -A prints another text for the copy")
        with h5py.File(original) as one, h5py.File(copy) as other:
            for dataset in datasets(one):
                try:
                    check_values(dataset, other[dataset.name], options, copies)
                except (AssertionError, KeyError, OSError) as error:
                    self.report(f"{tool}, {options}", str(error))
            self.numbers[f"datasets with the filter: {tool}, {options}"] += sum(str(FILTER_ID) in dataset._filters for dataset in datasets(other))

    def with_theirs(self, tool: str, path: Path, folder: Path) -> Optional[Path]:
        """Returns the copy with deflate, if there is one."""
        plain = folder / f"{tool}.nc"
        without = refusal(tool, *(["-f", "GZIP=1"] if tool == "h5repack" else ["-4", "-d", "1"]), path, plain)
        self.numbers[f"files: {tool}{' cannot copy, without us and with us' if without else ''}"] += 1
        names = variables(plain) if tool == "nccopy" and without is None else ["*"]
        for options, words in WORDS.items():
            copy, again = folder / f"{tool}-{options}.nc", folder / f"{tool}-{options}-again.nc"
            # After the number of the filter h5repack wants to know whether it may be left out, and how many words follow.
            of_h5repack = ["-f", f"UD={FILTER_ID},0,{words.count(',') + 1},{words}"]
            of_nccopy = ["-4", *(f"-F{name},{FILTER_ID},{words}" for name in names)]
            with_us = refusal(tool, *(of_h5repack if tool == "h5repack" else of_nccopy), path, copy)
            if (without is None) != (with_us is None):
                self.report(f"{tool}, {options}", f"without us: {without}; with us: {with_us}")
            elif without is None:
                self.compare(tool, plain, copy, options)
                if tool == "nccopy":
                    failure = refusal("nccopy", copy, again)
                    self.report(f"nccopy of the copy, {options}", failure)
                    if failure is None:
                        self.compare("nccopy of the copy", plain, again, options, 2)
        return plain if without is None else None

    def with_quire(self, path: Path, folder: Path) -> None:
        for options in OPTIONS:
            copy = folder / f"quire-{options}.h5"
            failure = refusal(QUIRE, "repack", "--min-size", "1", "--options", options, path, copy)
            if failure is None:
                self.report(f"quire verify, {options}", refusal(QUIRE, "verify", path, copy))
                self.compare("quire repack", path, copy, options)
            elif "there is nothing to compress in it" not in failure:
                self.report(f"quire repack, {options}", failure)


def examine(path: Path) -> Copies:
    """All tools over one file."""
    copies = Copies(path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        original: Optional[Path] = copies.with_theirs("nccopy", path, folder)
        if h5py.is_hdf5(path):
            copies.with_theirs("h5repack", path, folder)
            original = path
        # Of a file of netCDF-3, the command line gets nccopy's copy.
        if original is not None:
            copies.with_quire(original, folder)
    return copies


WORDS = {options: words(options) for options in OPTIONS}


def main() -> None:
    paths, began = shipped(), time.monotonic()
    with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
        done = list(pool.imap_unordered(examine, paths))
    numbers = sum((copies.numbers for copies in done), collections.Counter[str]())
    for name, number in sorted(numbers.items()):
        print(f"{number:6d}  {name}")
    for problem in sorted(problem for copies in done for problem in copies.problems):
        print(problem)
    failed = sum(bool(copies.problems) for copies in done)
    # Copies without our filter would prove nothing.
    compressed = [name for name in numbers if name.startswith("datasets") and numbers[name] > 100]
    assert len(paths) >= 70 and len(compressed) == 4 * len(OPTIONS), f"{len(paths)} files; more than 100 datasets in {compressed}"
    # run.sh counts lines like pytest's.
    print(f"{f'{failed} failed, ' if failed else ''}{len(paths) - failed} passed in {time.monotonic() - began:.1f}s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
