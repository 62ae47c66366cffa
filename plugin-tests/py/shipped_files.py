"""h5repack, nccopy and `quire repack` over all HDF5 and netCDF files that the packages of this environment ship.

shipped_files.py QUIRE

QUIRE is the command line; HDF5_PLUGIN_PATH names the plugin's folder. Each tool copies each file with deflate, and then with our filter under each of
OPTIONS; nccopy also copies its copies, without an option. A file that the tool cannot copy with deflate is counted apart, and must not become one that
it can copy with us alone. All other copies are compared with the one that has deflate: names, links, attributes, dimensions, types and extents are equal;
each value is within the bound, in f64, and gaps come back bit for bit: fill values, and what the attributes `_FillValue` and `missing_value` name.
"""

from __future__ import annotations

import collections
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

import h5py
import numpy as np

from quire_client import FILTER_ID

OPTIONS = ("lossless", "abs=1e-3", "rel=1e-4")
SUFFIXES = {".nc", ".nc3", ".nc4", ".netcdf", ".cdf", ".h5", ".hdf5", ".he5", ".mat"}
# Seconds for a tool and a file; the slowest takes less than one.
PATIENCE = 300


def shipped() -> list[Path]:
    """HDF5 and netCDF files of the environment's packages."""
    found = []
    for path in sorted(Path(sys.prefix, "lib").rglob("*")):
        if path.suffix.lower() in SUFFIXES and path.is_file() and (h5py.is_hdf5(path) or path.read_bytes()[:3] == b"CDF"):
            found.append(path)
    return found


def run(*command: object) -> str | None:
    """None if a tool ends in order, else what it said."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    return None if done.returncode == 0 else f"ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}"


def plain(value: Any, file: h5py.File) -> Any:
    """A value of an attribute, or of a dataset that is no array of numbers, in a form that `==` compares: references by the names of what they point to."""
    if isinstance(value, h5py.RegionReference):
        return "region of", file[value].name if value else None
    if isinstance(value, h5py.Reference):
        return "reference to", file[value].name if value else None
    if isinstance(value, h5py.Empty):
        return "empty", value.dtype.str
    if isinstance(value, np.ndarray) and (value.dtype.hasobject or value.ndim == 0):
        return value.shape, [plain(part, file) for part in value.ravel().tolist()]
    if isinstance(value, np.void) and value.dtype.hasobject:
        return [plain(part, file) for part in value.tolist()]
    if isinstance(value, (tuple, list)):
        return [plain(part, file) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.str, np.shape(value), value.tobytes()
    return value


def attributes(thing: Any, file: h5py.File) -> dict[str, Any]:
    found = {}
    for name in thing.attrs:
        # What points back from a dimension scale is a list without an order.
        try:
            value = plain(thing.attrs[name], file)
        except (OSError, TypeError, ValueError) as error:
            value = type(error).__name__
        found[name] = sorted(map(repr, value[1])) if name == "REFERENCE_LIST" else value
    return found


def gaps(dataset: h5py.Dataset, values: np.ndarray) -> np.ndarray:
    """Where a dataset has its fill value, or one that its attributes name."""
    named = [dataset.attrs[name] for name in ("_FillValue", "missing_value") if name in dataset.attrs]
    if dataset.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        named.append(dataset.fillvalue)
    found = np.zeros(values.shape, bool)
    for value in named:
        if np.asarray(value).dtype.kind in "fiuc":
            for one in np.ravel(value):
                found |= values == one
    return found


def far(original: np.ndarray, copy: np.ndarray) -> np.ndarray:
    """Distances of numbers, in f64; of integers without loss. Equal bits have none, and nothing else may be where the original is not finite."""
    if original.dtype.kind in "iu":
        return np.where(original > copy, original - copy, copy - original).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(original.astype(np.float64) - copy.astype(np.float64))
    equal = original.view(f"V{original.dtype.itemsize}") == copy.view(f"V{copy.dtype.itemsize}")
    return np.where(equal, 0, np.where(np.isfinite(original) & np.isfinite(copy), distance, np.inf))


def variables(path: Path) -> list[str]:
    """The variables of a netCDF-4 file that this filter compresses: it refuses text, and nccopy then ends with an error."""
    found = []

    def visit(name: str, thing: Any) -> None:
        if isinstance(thing, h5py.Dataset) and thing.dtype.kind in "fiu" and thing.shape and "This is a netCDF dimension" not in str(thing.attrs.get("NAME")):
            found.append(f"/{name}" if "/" in name else name)

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return found


def differences(original: h5py.Dataset, copy: h5py.Dataset, options: str, generations: int) -> Iterator[str]:
    """What is wrong with the values of a copy."""
    try:
        values = original[()]
    except (OSError, TypeError, ValueError):
        # Compressed by a filter that is not here, or of a type that numpy does not have.
        return
    found = copy[()]
    kind = original.dtype.kind
    if kind not in "fiuc" or original.shape is None or original.dtype.metadata or original.dtype.itemsize > (16 if kind == "c" else 8):
        if plain(values, original.file) != plain(found, copy.file):
            yield "the values differ, and are no numbers that this filter compresses"
        return
    if not values.size:
        return
    values, found = np.atleast_1d(values), np.atleast_1d(found)
    missing = gaps(original, values)
    part = values.dtype if kind != "c" else values.real.dtype
    parts, found_parts = (np.ascontiguousarray(array).view(part).reshape(*array.shape, -1) for array in (values, found))
    missing = np.broadcast_to(missing[..., None], parts.shape)
    off = far(parts, found_parts)
    changed = (parts.view(f"V{part.itemsize}") != found_parts.view(f"V{part.itemsize}")) & missing
    if changed.any():
        yield f"{np.count_nonzero(changed)} of {np.count_nonzero(missing)} gaps have changed, such as {parts[changed][0]!r} to {found_parts[changed][0]!r}"
    name, _, number = options.partition("=")
    present = parts[~missing & np.isfinite(parts)].astype(np.float64)
    bound = float(number or 0)
    if name == "rel":
        # The range of a chunk is at most that of all. Errors of two generations add up.
        bound *= generations * float(present.max() - present.min()) if present.size else 0
        bound *= 1 + 2**-50
    off = np.where(missing, 0, off)
    if off.max(initial=0) > bound:
        yield f"{np.count_nonzero(off > bound)} of {off.size} values are off by up to {off.max()!r}, the bound is {bound!r}"


class Copies:
    """Problems and numbers of one file."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.numbers: collections.Counter[str] = collections.Counter()

    def compare(self, label: str, original: Path, copy: Path, options: str, generations: int = 1) -> None:
        with h5py.File(original, "r") as one, h5py.File(copy, "r") as other:
            self._compare(f"{label}, {options}", one, other, options, generations, set())

    def _compare(self, label: str, one: h5py.Group, other: h5py.Group, options: str, generations: int, seen: set[int]) -> None:
        if attributes(one, one.file) != attributes(other, other.file):
            self.problems.append(f"{label}: the attributes of {one.name} differ")
        if set(one) != set(other):
            self.problems.append(f"{label}: {one.name} has {sorted(set(one) ^ set(other))} in one of both files")
        for name in set(one) & set(other):
            links = [repr(group.get(name, getlink=True)).split(" at ")[0] for group in (one, other)]
            if links[0] != links[1]:
                self.problems.append(f"{label}: {one.name}/{name} is {links[0]}, and {links[1]} in the copy")
            if not isinstance(one.get(name, getlink=True), h5py.HardLink):
                continue
            try:
                left = one[name]
            except (KeyError, OSError, TypeError):
                # Not to be opened by this HDF5.
                continue
            right = other[name]
            address = h5py.h5o.get_info(left.id).addr
            if address in seen:
                continue
            seen.add(address)
            if type(left) is not type(right):
                self.problems.append(f"{label}: {left.name} is a {type(left).__name__}, and a {type(right).__name__} in the copy")
            elif isinstance(left, h5py.Group):
                self._compare(label, left, right, options, generations, seen)
            elif isinstance(left, h5py.Dataset):
                self._compare_datasets(label, left, right, options, generations)

    def _compare_datasets(self, label: str, left: h5py.Dataset, right: h5py.Dataset, options: str, generations: int) -> None:
        if attributes(left, left.file) != attributes(right, right.file):
            self.problems.append(f"{label}: the attributes of {left.name} differ")
        if (left.shape, left.maxshape) != (right.shape, right.maxshape) or not left.id.get_type().equal(right.id.get_type()):
            self.problems.append(f"{label}: {left.name} has another type or other extents than in the copy, {left.shape} and {right.shape}")
            return
        properties = right.id.get_create_plist()
        ours = [properties.get_filter(number)[0] for number in range(properties.get_nfilters())].count(FILTER_ID)
        self.numbers[f"{label.split(':')[-1]}: datasets with the filter"] += ours
        for problem in differences(left, right, options, generations):
            self.problems.append(f"{label}: {left.name}: {problem}")


def examine(path: Path) -> Copies:
    """All tools over one file."""
    result = Copies()
    label = "/".join(path.parts[-3:])
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "nccopy.nc")
        repacked = Path(folder, "h5repack.h5")
        for tool, plain_copy, by_deflate in (
            ("h5repack", repacked, ("h5repack", "-f", "GZIP=1", path, repacked)),
            ("nccopy", base, ("nccopy", "-4", "-d", "1", path, base)),
        ):
            if tool == "h5repack" and not h5py.is_hdf5(path):
                continue
            without = run(*by_deflate)
            result.numbers[f"{tool}: files{'' if without is None else ' that it cannot copy without us'}"] += 1
            for options in OPTIONS:
                copy, again = Path(folder, f"{tool}-{options}.nc"), Path(folder, f"{tool}-{options}-again.nc")
                # The number of words is a part of h5repack's option.
                words = WORDS[options]
                if tool == "h5repack":
                    with_us = run("h5repack", "-f", f"UD={FILTER_ID},0,{len(words)},{','.join(words)}", path, copy)
                else:
                    chosen = [f"-F{name},{FILTER_ID},{','.join(words)}" for name in (variables(base) if without is None else ["*"])]
                    with_us = run("nccopy", "-4", *chosen, path, copy)
                if (without is None) != (with_us is None):
                    result.problems.append(f"{label}: {tool}, {options}: without us it {without or 'ends in order'}, with us it {with_us or 'ends in order'}")
                if without is not None or with_us is not None:
                    continue
                result.compare(f"{label}: {tool}", plain_copy, copy, options)
                if tool == "nccopy":
                    second = run("nccopy", copy, again)
                    if second is not None:
                        result.problems.append(f"{label}: nccopy of the copy, {options}: it {second}")
                    else:
                        result.compare(f"{label}: nccopy of the copy", plain_copy, again, options, 2)
        original = path if h5py.is_hdf5(path) else base
        for options in OPTIONS:
            copy = Path(folder, f"quire-{options}.h5")
            failure = run(QUIRE, "repack", "--min-size", "1", "--options", options, original, copy)
            if failure is not None:
                if "there is nothing to compress in it, and nothing is written" in failure:
                    result.numbers[f"quire repack, {options}: files with nothing to compress"] += 1
                else:
                    result.problems.append(f"{label}: quire repack, {options}: it {failure}")
                continue
            result.numbers[f"quire repack, {options}: files"] += 1
            failure = run(QUIRE, "verify", original, copy)
            if failure is not None:
                result.problems.append(f"{label}: quire verify, {options}: it {failure}")
            result.compare(f"{label}: quire repack", original, copy, options)
    return result


def words_of(options: str) -> list[str]:
    """`cd_values` of options, by `quire args`."""
    said = subprocess.run([QUIRE, "args", options], capture_output=True, text=True, check=True).stdout
    return next(line for line in said.splitlines() if line.startswith("cd_values")).split()[1].split(",")


QUIRE = sys.argv[1]
WORDS = {options: words_of(options) for options in OPTIONS}


def main() -> None:
    paths = shipped()
    numbers: collections.Counter[str] = collections.Counter({"files of packages": len(paths)})
    problems: list[str] = []
    failed, began = 0, time.monotonic()
    with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
        for result in pool.imap_unordered(examine, paths):
            problems += result.problems
            failed += bool(result.problems)
            numbers.update(result.numbers)
    for name, number in sorted(numbers.items()):
        print(f"{number:6d}  {name}")
    print("".join(f"{problem}\n" for problem in sorted(problems)), end="")
    # One that never compresses would compare copies of nothing.
    compressed = [name for name, number in numbers.items() if name.endswith("datasets with the filter") and number]
    assert len(paths) >= 70 and len(compressed) == 4 * len(OPTIONS), f"{len(paths)} files, {compressed}"
    # run.sh counts lines like pytest's.
    print(f"{f'{failed} failed, ' if failed else ''}{len(paths) - failed} passed in {time.monotonic() - began:.1f}s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
