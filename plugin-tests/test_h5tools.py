"""h5repack, h5dump and h5diff of Debian's HDF5."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Callable

import h5py
import numpy as np
import pytest

import round_trip
import test_bricks
from conftest import IN_ORDER, Ended, Python, Runner
from quire_client import FILTER_ID, absolute, assert_bound, assert_same_bits, smooth, unsigned

SHAPE, CHUNKS = (64, 53), (20, 25)

# Bounds of floating-point numbers and of integers.
BOUNDS = {"ours": (0.01, 2.0), "coarse": (0.05, 5.0), "scaleoffset": (1e-3, 0.0)}

FILLS = {"nofill": None, "far": -9999, "zero": 0, "nan": np.nan}


def write(path: str) -> None:
    """Groups of datasets with equal values in different filters."""
    with h5py.File(path, "w") as file:
        for dtype in map(np.dtype, ("<f2", "<f4", ">f4", "<f8", ">f8", "|i1", "<i2", ">i4", "<i8", "<u4")):
            for fill_name, fill in FILLS.items():
                is_float = dtype.kind == "f"
                if not is_float and (fill_name == "nan" or fill_name == "far" and (dtype.kind == "u" or dtype.itemsize == 1)):
                    continue
                name = f"{dtype.str.replace('<', 'le_').replace('>', 'be_').replace('|', 'le_')}_{fill_name}"
                group = file.create_group(name)
                field = smooth(SHAPE, "f8", 2) * 20 + 60
                data = (field if is_float else np.round(field)).astype(dtype)
                settings = {} if fill is None else {"fillvalue": np.array(fill, dtype)}
                if fill is not None:
                    data[np.random.default_rng(5).random(SHAPE) < 0.1] = fill
                    data[:, 40:] = fill
                group.create_dataset("original", data=data, **settings)
                group.create_dataset("contiguous", data=data, **settings)
                ours = {"compression": FILTER_ID, "compression_opts": absolute(BOUNDS["ours"][0 if is_float else 1])}
                dataset = group.create_dataset("ours", SHAPE, dtype, chunks=CHUNKS, **ours, **settings)
                # Columns from 40 on, the third column of chunks among them, are fill values that HDF5 puts there.
                written = np.s_[:, :40] if fill is not None else np.s_[:]
                dataset[written] = data[written]
                # The scale-offset filter knows nothing of NaN and needs binary32 or binary64.
                if fill_name == "nofill" and dtype.itemsize >= (4 if is_float else 1):
                    group.create_dataset("scaleoffset", data=data, chunks=CHUNKS, scaleoffset=3 if is_float else 0)


def check(path: str, which: str, steps: str) -> None:
    """Every group's dataset of this name against its `original`, within the sum of the bounds of steps, such as ours+coarse. Fill values are kept."""
    count = 0
    with h5py.File(path, "r") as file:
        for name, group in file.items():
            if which not in group:
                continue
            original, dataset = group["original"][()], group[which]
            read, label = dataset[()], f"{path}: {name}/{which}"
            bound = sum(BOUNDS[step][0 if original.dtype.kind == "f" else 1] for step in steps.split("+"))
            assert_bound(original, read, bound, label)
            assert dataset.fillvalue == group["original"].fillvalue or np.isnan(dataset.fillvalue), f"{label}: fill {dataset.fillvalue}"
            if not name.endswith("nofill"):
                is_fill = unsigned(original) == unsigned(np.array([group["original"].fillvalue]).astype(original.dtype))
                assert is_fill.sum() > SHAPE[0] * 13, f"{label}: {is_fill.sum()} fill values"
                assert_same_bits(original[is_fill], read[is_fill], f"{label}: fill values")
            count += 1
    assert count > 0, f"{path}: no dataset {which}"


Repack = Callable[..., str]


@pytest.fixture
def repack(run: Runner) -> Repack:
    """Runs h5repack; the new file's name."""

    def repack(source: str, target: str, *options: str) -> str:
        # h5repack warns, and goes on without the filter, where the filter cannot be applied.
        assert run("h5repack", *options, source, target).stderr == ""
        return target

    return repack


@pytest.fixture
def plain(pythons: dict[str, Python]) -> str:
    """A file by h5py that nothing has compressed yet."""
    pythons["HDF5 1.14"](round_trip.plain, "plain.h5")
    return "plain.h5"


@pytest.fixture
def values(pythons: dict[str, Python]) -> str:
    """A file of groups of datasets with equal values in different filters."""
    pythons["HDF5 1.14"](write, "values.h5")
    return "values.h5"


def properties(run: Runner, file: str, dataset: str) -> Ended:
    """`h5dump -pH` of one dataset."""
    return run("h5dump", "-pH", "-d", dataset, file)


def in_all(pythons: dict[str, Python], function: Callable[..., None], *arguments: object) -> None:
    for python in pythons.values():
        python(function, *arguments)


# The datasets of `round_trip.plain` that h5repack is to compress.
PLAIN = [f"{layout}_{dtype}/compressed" for layout in ("contiguous", "chunked", "gzip") for dtype in ("le_f4", "be_f4", "le_f8", "be_f8")]


def test_h5repack_compresses_rechunks_and_unpacks(run: Runner, pythons: dict[str, Python], repack: Repack, plain: str) -> None:
    def same_values(one: str, other: str) -> None:
        """h5diff finds no difference in any of the datasets. To h5diff a NaN equals a NaN."""
        for dataset in PLAIN:
            run("h5diff", one, other, dataset)

    datasets = ",".join(PLAIN)
    packed = repack(plain, "packed.h5", "-f", f"{datasets}:UD=33791,0,2,2,3", "-l", f"{datasets}:CHUNK=16x20")
    in_all(pythons, round_trip.check, packed)
    for dataset in PLAIN:
        properties(run, packed, dataset).must_say("FILTER_ID 33791", "CHUNKED ( 16, 20 )")
    # Both halves of an f64 written out, and the layout that h5repack chooses.
    in_all(pythons, round_trip.check, repack(plain, "by_bits.h5", "-f", f"{datasets}:UD=33791,0,3,1,3539053052,1062232653"))

    # The filter is idempotent, so other chunks change no value, and set_local copes with what it filled in before.
    previous = packed
    for rows, columns in ((7, 53), (64, 1), (33, 32)):
        rechunked = repack(previous, f"rechunked{rows}.h5", "-l", f"{datasets}:CHUNK={rows}x{columns}")
        in_all(pythons, round_trip.check, rechunked)
        same_values(packed, rechunked)
        for dataset in PLAIN:
            properties(run, rechunked, dataset).must_say("FILTER_ID 33791", f"CHUNKED ( {rows}, {columns} )")
        previous = rechunked

    unpacked = repack(previous, "unpacked.h5", "-f", "NONE")
    in_all(pythons, round_trip.check, unpacked)
    same_values(packed, unpacked)
    properties(run, unpacked, "gzip_le_f4/compressed").must_not_say("FILTER_ID")


def test_h5repack_keeps_the_brick_for_other_chunks(run: Runner, pythons: dict[str, Python], repack: Repack) -> None:
    pythons["HDF5 1.14"](test_bricks.plain, "plain.h5")
    file, compress = "plain.h5", ["-f", "boxes/compressed:UD=33791,0,5,50331650,8,8,8,3"]
    # A brick, many of them, slices, and rows.
    for chunk in (512, 1536, 128, 24):
        source, file = file, repack(file, f"repacked{chunk}.h5", *compress, "-l", f"boxes/compressed:CHUNK={chunk}")
        compress = []
        properties(run, file, "boxes/compressed").must_say("50331649 8 8 8 -755914244 1062232653")
        in_all(pythons, test_bricks.check, file, source)
    # h5repack takes a refusal for no error, and keeps the chunks as they were.
    refused = run("h5repack", "--enable-error-stack", "-l", "boxes/compressed:CHUNK=500", file, "refused.h5", code=IN_ORDER)
    assert "a chunk has 500 values, which are no whole number of the brick's rows of 8" in refused.stderr


def test_h5repack_copies_everything_that_h5py_writes(run: Runner, newest: Python, pythons: dict[str, Python], repack: Repack) -> None:
    newest(round_trip.write, "file.h5")
    in_all(pythons, round_trip.check, repack("file.h5", "copied.h5"))
    in_all(pythons, round_trip.check, repack("file.h5", "gzip.h5", "-f", "GZIP=1"))
    unpacked = repack("file.h5", "none.h5", "-f", "NONE")
    in_all(pythons, round_trip.check, unpacked)
    # Every rank in again, from chunks without a filter. The values lie on the grid of 1e-6 already, so none moves once more.
    names = [f"rank{rank}_{dtype}_1e-06/compressed" for rank in range(1, 6) for dtype in ("le_f4", "be_f4", "le_f8", "be_f8")]
    packed = repack(unpacked, "packed.h5", "-f", f"{','.join(names)}:UD=33791,0,2,2,6")
    properties(run, packed, "rank5_be_f8_1e-06/compressed").must_say("FILTER_ID 33791")
    in_all(pythons, round_trip.check, packed)


def test_h5dump_reads_the_values(run: Runner, repack: Repack, plain: str, tmp_path: Path) -> None:
    packed = repack(plain, "packed.h5", "-f", f"{','.join(PLAIN)}:UD=33791,0,2,2,3")

    def dumped(dataset: str) -> np.ndarray:
        run("h5dump", "-d", dataset, "-b", "LE", "-o", "bytes", packed)
        return np.fromfile(tmp_path / "bytes", "<f8")

    for kind in ("contiguous_be_f8", "gzip_be_f8"):
        original, compressed = dumped(f"{kind}/original"), dumped(f"{kind}/compressed")
        assert original.size == 64 * 53, f"{kind}: h5dump wrote another number of values"
        assert_bound(original, compressed, 1e-3, f"h5dump: {kind}")
    text = run("h5dump", "-d", "gzip_le_f4/compressed", packed).must_say("nan", "inf", "e+36")
    assert text.stderr == ""


REFUSALS = [
    ("contiguous_le_f4/compressed", "2,77,3", ["mode", "77"]),
    ("contiguous_le_f4/compressed", "3,4,0,2", ["relative error bound is 2", "at most 1"]),
    ("contiguous_le_f4/compressed", "3,1,0,2146959360", ["bound is NaN", "finite"]),
    ("contiguous_le_f4/compressed", "3,1,0,2146435072", ["bound is inf", "finite"]),
    ("integers", "2,6,2", ["point-wise", "I32"]),
    ("text", "2,2,3", ["type", "string"]),
]


@pytest.mark.parametrize("dataset, words, reasons", REFUSALS)
def test_h5repack_says_why_it_cannot_compress(run: Runner, plain: str, dataset: str, words: str, reasons: list[str]) -> None:
    options = ["-l", f"{dataset}:CHUNK=4x2", "-f", f"{dataset}:UD=33791,0,{words}"]
    # h5repack 1.10.8 prints the error and ends with 0, so its exit code is not looked at.
    run("h5repack", "--enable-error-stack", *options, plain, "refused.h5", code=IN_ORDER).must_say(*reasons)


# The groups of `write` whose values are floating-point numbers, and those with integers: the two have bounds of their own.
FLOATS, INTEGERS = ("le_f2", "le_f4", "be_f4", "le_f8", "be_f8"), ("le_i1", "le_i2", "be_i4", "le_i8", "le_u4")


def fills_of(dtype: str) -> tuple[str, ...]:
    """The fill values with which `write` makes groups of a type."""
    return ("nofill", "zero", "far", "nan") if "_f" in dtype else ("nofill", "zero") if dtype in ("le_i1", "le_u4") else ("nofill", "zero", "far")


def names(types: tuple[str, ...], dataset: str) -> str:
    """Names of datasets of these types, for h5repack's options."""
    return ",".join(f"{dtype}_{fill}/{dataset}" for dtype in types for fill in fills_of(dtype))


def ours(dataset: str, mantissa: int, whole: int) -> list[str]:
    """h5repack's options for a dataset of every group: ours with the bound `mantissa * 10^-2` for floating-point numbers, and `whole` for integers."""
    return ["-f", f"{names(FLOATS, dataset)}:UD=33791,0,3,2,2,{mantissa}", "-f", f"{names(INTEGERS, dataset)}:UD=33791,0,3,2,0,{whole}"]


def has_filters(run: Runner, file: str, dataset: str, *present: str) -> None:
    """h5dump shows these filters, and no others."""
    shown = properties(run, file, dataset).must_say(*present)
    for word in ("FILTER_ID", "DEFLATE", "SHUFFLE", "FLETCHER32", "SZIP", "SCALEOFFSET"):
        assert (word in shown.stdout) == any(word in given for given in present), f"{word} in {dataset} of {file}: {shown}"


# Debian's HDF5 has szip's encoder; builds without it refuse SZIP, and `repack` then fails.
OTHER_FILTERS = [
    (["GZIP=6"], ["DEFLATE"]),
    (["SHUF", "GZIP=1"], ["SHUFFLE", "DEFLATE"]),
    (["FLET"], ["FLETCHER32"]),
    (["SHUF", "GZIP=1", "FLET"], ["SHUFFLE", "DEFLATE", "FLETCHER32"]),
    (["SZIP=8,NN"], ["SZIP"]),
    (["NONE"], []),
]


def test_h5repack_to_other_filters_and_back_changes_no_value(run: Runner, pythons: dict[str, Python], repack: Repack, values: str) -> None:
    datasets = f"{names(FLOATS, 'ours')},{names(INTEGERS, 'ours')}"
    in_all(pythons, check, values, "ours", "ours")
    for (filters, shown), python in zip(OTHER_FILTERS, itertools.cycle(pythons.values())):
        there = repack(values, "there.h5", *(word for name in filters for word in ("-f", f"{datasets}:{name}")))
        # The values are on the grid of this bound already: none moves.
        back = repack(there, "back.h5", *ours("ours", 1, 2))
        for dataset in ("le_f4_far/ours", "be_i4_far/ours", "le_f2_nan/ours"):
            has_filters(run, there, dataset, *shown)
            has_filters(run, back, dataset, "FILTER_ID 33791")
        # h5diff compares all datasets of the two files; to it a NaN equals a NaN. Each HDF5 in turn reads what comes back.
        run("h5diff", values, there)
        run("h5diff", values, back)
        python(check, back, "ours", "ours")
    # A filter behind ours.
    behind = repack(values, "behind.h5", *ours("ours", 1, 2), "-f", f"{datasets}:GZIP=1")
    has_filters(run, behind, "le_f4_far/ours", "FILTER_ID 33791", "DEFLATE")
    run("h5diff", values, behind)


def test_h5repack_to_other_chunks_and_bounds_keeps_the_sum_of_the_bounds(run: Runner, pythons: dict[str, Python], repack: Repack, values: str) -> None:
    datasets = f"{names(FLOATS, 'ours')},{names(INTEGERS, 'ours')}"
    coarse = repack(values, "coarse.h5", *ours("ours", 5, 5), "-l", f"{datasets}:CHUNK=33x32")
    in_all(pythons, check, coarse, "ours", "ours+coarse")
    # The words of FORMAT.md section 10, signed as h5dump prints them: mode 1, the bound's two halves (0.05, or 5.0), value type and rank,
    # extents, bits of the fill value.
    for dataset, words in (
        ("le_f4_nofill/ours", "1 -1717986918 1068079513 1359020034 33 32"),
        ("le_f4_far/ours", "1 -1717986918 1068079513 1359020034 33 32 -971228160"),
        ("be_f8_nan/ours", "1 -1717986918 1068079513 1359053058 33 32 0 2146959360"),
        ("le_f2_zero/ours", "1 -1717986918 1068079513 1359020546 33 32 0"),
        ("be_i4_far/ours", "1 0 1075052544 1359054850 33 32 -9999"),
        ("le_i8_far/ours", "1 0 1075052544 1359022594 33 32 -9999 -1"),
        ("le_u4_nofill/ours", "1 0 1075052544 1359022338 33 32"),
    ):
        properties(run, coarse, dataset).must_say(f"PARAMS {{ {words} }}", "CHUNKED ( 33, 32 )")
    # A finer bound after a coarse one: every grid is another, and the sum of all three bounds holds.
    in_all(pythons, check, repack(coarse, "finer.h5", *ours("ours", 1, 2)), "ours", "ours+coarse+ours")


def test_h5repack_compresses_contiguous_and_scaled_datasets(run: Runner, pythons: dict[str, Python], repack: Repack, values: str) -> None:
    packed = repack(values, "contiguous.h5", *ours("contiguous", 1, 2))
    has_filters(run, packed, "le_f4_far/contiguous", "FILTER_ID 33791")
    in_all(pythons, check, packed, "contiguous", "ours")

    in_all(pythons, check, values, "scaleoffset", "scaleoffset")
    scaled = {types: ",".join(f"{dtype}_nofill/scaleoffset" for dtype in types) for types in (FLOATS[1:], INTEGERS)}
    packed = repack(values, "scaled.h5", "-f", f"{scaled[FLOATS[1:]]}:UD=33791,0,3,2,2,1", "-f", f"{scaled[INTEGERS]}:UD=33791,0,3,2,0,2")
    for dataset in ("be_f8_nofill/scaleoffset", "le_i2_nofill/scaleoffset"):
        has_filters(run, packed, dataset, "FILTER_ID 33791")
    in_all(pythons, check, packed, "scaleoffset", "scaleoffset+ours")


def test_h5repack_with_a_filter_at_a_wrong_place_says_why_and_keeps_the_old_filters(run: Runner, values: str) -> None:
    def refused(filters: list[str], *reasons: str) -> None:
        options = [word for name in filters for word in ("-f", f"le_f4_far/contiguous:{name}")]
        # h5repack 1.10.8 ends with 0 and copies the dataset as it was.
        run("h5repack", *options, "--enable-error-stack", values, "refused.h5", code=IN_ORDER).must_say(*reasons)
        has_filters(run, "refused.h5", "le_f4_far/contiguous")

    ours = "UD=33791,0,2,2,2"
    for front, number in (("SHUF", 2), ("GZIP=1", 1), ("FLET", 3), ("SZIP=8,NN", 4), ("NBIT", 5), ("SOFF=3,DS", 6)):
        refused([front, ours], f"[{number}, 33791]", "must be the first")
    for behind, number in (("SZIP=8,NN", 4), ("NBIT", 5), ("SOFF=3,DS", 6)):
        refused([ours, behind], f"[33791, {number}]", "is not known to keep all bytes")
