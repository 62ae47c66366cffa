"""Whether the rule for far values (FORMAT.md, 11.2) leaves data alone that have none, and takes undeclared fill values for what they are. Run by far_values.sh.

1. Every chunk of the comparison's arrays, their fill values declared: does rel=1e-3 settle the half step that it would settle without the rule? With far
   values the range would be an eighth or less. What the tests know of section 11 (streams/tests/modes.py) says which half step that is, and which
   values of a chunk are far.
2. The chunks of the real arrays, with fill values put in: do they come back bit for bit when nobody declares them? Has the stream the half step, and have
   the other values the largest error, of a dataset that declares them?
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arrays import cut, load_arrays
from demo import Field, machine
from filter_call import Plugin
from measured import measured

STREAMS = Path(__file__).resolve().parents[1] / "streams"
sys.path[:0] = [str(STREAMS), str(STREAMS / "tests")]
import modes as rules  # noqa: E402
from decoder import read_header  # noqa: E402
from decoder.bodies import read_grid  # noqa: E402
from decoder.header import DECIMAL, QUANTIZED  # noqa: E402

OPTIONS = ("rel=1e-3", "rel=1e-4", "psnr=80", "ratio=8")
FILLS = (1e20, 9.96921e36, 1e35, -9999.0, -32768.0, -999.0)
SHARES = (0.01, 0.1, 0.6)


def coded(plugin: Plugin, chunk: Field, options: str) -> tuple[bytes, np.ndarray]:
    """A chunk's stream and what comes back of it."""
    back = plugin.round_trip(options, chunk.values, chunk.fill)
    return back.stream.tobytes(), back.decoded


def grid_of(stream: bytes) -> tuple[int, float]:
    """A stream's coding, and the half step or the divisor if it has one."""
    header, reader = read_header(stream)
    return header.coding, read_grid(reader, header).half_step if header.coding in (QUANTIZED, DECIMAL) else 0.0


def by_rules(chunk: Field, stream: bytes, mode: int | None) -> rules.Values:
    """The values as the tests see them. Far ones are looked for in the modes that the rule is for."""
    fill = np.array([np.nan if chunk.fill is None else chunk.fill], chunk.values.dtype)  # NaN counts nowhere
    return rules.Values(read_header(stream)[0], bits(chunk.values), bits(fill)[0], mode)


def bits(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.itemsize}")


def as_they_are(plugin: Plugin, arrays: dict[str, list[Field]]) -> Iterator[str]:
    """Part 1."""
    request, count, named = rules.Request(rules.RELATIVE, (1e-3,), 0, 0), Counter(), []
    for name, chunk, number in ((name, chunk, number) for name, chunks in arrays.items() for number, chunk in enumerate(chunks)):
        stream, decoded = coded(plugin, chunk, "rel=1e-3")
        plain, ruled = by_rules(chunk, stream, None), by_rules(chunk, stream, rules.RELATIVE)
        same = grid_of(stream) == (QUANTIZED, rules.half_step_of(rules.settled_bound(request, plain), plain))
        exact = np.array_equal(bits(chunk.values), bits(decoded))
        what = "the half step of no far values" if same else "exact bits" if exact else "another half step"
        far = np.unique(ruled.x[ruled.is_far])
        count[what, bool(far.size)] += 1
        if far.size or not same:
            named.append(f"{name}, chunk {number}: {what}, {ruled.is_far.sum()} far {', '.join(f'{value:g}' for value in far)}".rstrip())
    yield f"{sum(count.values())} chunks of {len(arrays)} arrays at rel=1e-3, fill values declared"
    for (what, far), chunks in sorted(count.items()):
        yield f"{chunks:>5}  {what}, {'with' if far else 'without'} far values by the rule"
    yield from ("chunks with far values by the rule, or without that half step:" if named else "no chunk has far values by the rule", *named)


class Case(NamedTuple):
    """A chunk with a fill value in it, under an option."""

    array: str
    chunk: int
    fill: float
    share: float
    option: str
    near: str  # where it is if it is not far by the rule
    wrong: str  # what is not as where the fill value is declared
    errors: tuple[float, ...]  # the largest of the other values, undeclared and declared
    longer: float  # bytes of the stream over those where the fill value is declared


def cases_of(work: tuple[Path, int, Field]) -> list[Case]:
    """Fill values are put in for a share of a chunk's values, and for those that are missing."""
    library, number, chunk = work
    plugin, found = Plugin(library), []
    missing = False if chunk.fill is None else chunk.values == chunk.values.dtype.type(chunk.fill)
    for fill, share, option in itertools.product(FILLS, SHARES, OPTIONS):
        random = np.random.default_rng([zlib.crc32(chunk.name.encode()), number, FILLS.index(fill), SHARES.index(share)])
        values = np.where(missing | (random.random(chunk.values.shape) < share), chunk.values.dtype.type(fill), chunk.values)
        there = values == values.dtype.type(fill)
        ordinary = np.isfinite(values) & ~there
        others = values[ordinary].astype("f8")
        (stream, decoded), (declared, beside) = (coded(plugin, Field(chunk.name, values, known), option) for known in (None, fill))
        if option == OPTIONS[0]:
            away = max(others.min() - fill, fill - others.max()) / np.ptp(others)
            where = "among the data" if away <= 0 else "at most 8 ranges away" if away <= 8 else "farther away"
            near = "" if np.array_equal(by_rules(Field(chunk.name, values, None), stream, rules.RELATIVE).is_far, there) else where
        errors = tuple(float(np.abs(others - one[ordinary]).max()) for one in (decoded, beside))
        same = {"bits": np.array_equal(bits(values)[there], bits(decoded)[there]), "half step": grid_of(stream) == grid_of(declared)}
        wrong = ", ".join(name for name, holds in (same | {"largest error": errors[0] == errors[1]}).items() if not holds)
        found.append(Case(chunk.name, number, fill, share, option, near, wrong, errors, len(stream) / len(declared)))
    return found


def with_fills(library: Path, arrays: dict[str, list[Field]]) -> Iterator[str]:
    """Part 2."""
    work = [(library, number, chunk) for chunks in arrays.values() for number, chunk in enumerate(chunks)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        cases = [case for found in pool.imap(cases_of, work) for case in found]
    far, near = [case for case in cases if not case.near], [case for case in cases if case.near]
    fills = ", ".join(f"{fill:g}" for fill in FILLS)
    yield f"fill values put into {len(work)} chunks of {len(arrays)} real arrays: {fills}, each in 1, 10 and 60 % of the values, and in"
    yield "the gaps of arrays that have some. Equal: the fill values come back bit for bit, and half step and largest error of the other values are those"
    yield "of the same values with the fill value declared"
    for title, some in (("far by the rule", far), ("not far", near)):
        back, equal = sum("bits" not in case.wrong for case in some), sum(not case.wrong for case in some)
        yield f"{title}: {len(some)} cases, {back} bit for bit, {equal} equal, {len(some) - equal} different"
    yield from (f"{number:>7} of these: the fill value is {where}" for where, number in Counter(case.near for case in near).most_common())
    lengths = [case.longer for case in far]
    yield f"a stream with a far fill value has {min(lengths):.4f} to {max(lengths):.4f} times the bytes of the one where it is declared"
    yield from ("", "equal cases of those with a far fill value")
    yield f"{'array':<26}" + "".join(f"{option:>14}" for option in OPTIONS) + "   fill values that are not far in some chunk"
    for name in arrays:
        cells = ([not case.wrong for case in far if (case.array, case.option) == (name, option)] for option in OPTIONS)
        not_far = ", ".join(f"{fill:g}" for fill in FILLS if any((case.array, case.fill) == (name, fill) for case in near))
        yield (f"{name:<26}" + "".join(f"{f'{sum(cell)} of {len(cell)}':>14}" for cell in cells) + f"   {not_far}").rstrip()
    yield from ("", f"different cases with a far fill value: {sum(bool(case.wrong) for case in far)}")
    yield from (f"{case.array}, chunk {case.chunk}, {case.fill:g}, {case.share:g}, {case.option}: {case.wrong}, {case.errors}" for case in far if case.wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugin", type=Path)
    parser.add_argument("fields", type=Path, help="folder of the generator's fields")
    arguments = parser.parse_args()
    arrays = {array.name: chunks for array in load_arrays(arguments.fields) if (chunks := cut(array))}
    print(measured(), "command: h5-samples/far_values.sh", f"machine: {machine()}", "", sep="\n")
    with np.errstate(all="ignore"):
        print(*as_they_are(Plugin(arguments.plugin), arrays), "", sep="\n")
    print(*with_fills(arguments.plugin, {name: chunks for name, chunks in arrays.items() if name.startswith("real_")}), sep="\n")


if __name__ == "__main__":
    main()
