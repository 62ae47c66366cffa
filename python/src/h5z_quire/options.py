"""The filter's options in words, as HDF5's `cd_values`, and back (FORMAT.md, section 10).

The words are abs=, rel=, pwrel=, psnr=, ratio= (with abs= beside it or without) or lossless, and coding=auto, huffman or bitshuffle, and
adapt=none or history, and brick=AxBxC, with commas between them: `rel=1e-4,coding=bitshuffle`.

This module stands alone, so that scripts can use it where the package is not installed: `h5-samples/quire_options.py` loads it by its path.
"""

from __future__ import annotations

import math
import re
import struct
from operator import index
from typing import Sequence

#: Number under which HDF5 knows the filter.
FILTER_ID = 33791

# Mode of the bits of a number, by the option's name; that of decimals is one more.
MODES = {"abs": 1, "rel": 3, "pwrel": 5, "psnr": 7, "ratio": 9}
LOSSLESS = 0
CAPPED_RATIO = 11
CODINGS = ("auto", "huffman", "bitshuffle")
ADAPTING = ("none", "history")
# Most extents of a brick.
MAX_RANK = 4
# What an option may be, for error messages.
RANGES = {
    "abs": "a number in the data's own units, 0 or greater, and neither so small nor so large that 2*abs or 1/(2*abs) overflows",
    "rel": "a share of the range, above 0 and at most 1",
    "pwrel": "a share of each value, above 0 and below 1",
    "psnr": "in dB, above 0 and at most 1000",
    "ratio": "above 1 and at most 1e6",
}
# What the filter adds when a dataset is created begins with a word of which this is the highest byte.
MARKER = 0x51


def parse(text: str) -> dict[str, str]:
    """The options of a text such as `abs=1e-3,coding=huffman` by their keys; ValueError for an unknown, a repeated or an unfinished one."""
    if not isinstance(text, str):
        raise ValueError(f"options are {text!r}: they must be a text, such as 'abs=1e-3'")
    if re.search("[\x1c-\x1f]", text):
        # Python alone takes these for spaces.
        raise ValueError(f"options {text!r}: they hold control characters")
    given: dict[str, str] = {}
    for option in filter(None, map(str.strip, text.split(","))):
        key, equals, value = (part.strip() for part in option.partition("="))
        if key not in (*MODES, "lossless", "coding", "adapt", "brick"):
            raise ValueError(f"options {text!r}: {key!r} is unknown, there are {', '.join(MODES)}, lossless, coding, adapt and brick")
        if key in given:
            raise ValueError(f"options {text!r}: {key} is given twice")
        if bool(equals) == (key == "lossless"):
            raise ValueError(f"options {text!r}: {key} {'takes no' if equals else 'needs a'} value")
        given[key] = value
    return given


def cd_values(text: str) -> tuple[int, ...]:
    """The words for options such as `abs=1e-3,coding=huffman`; ValueError with the reason for others."""
    given = parse(text)
    choices = []
    for key, names in (("coding", CODINGS), ("adapt", ADAPTING)):
        choice = given.pop(key, names[0])
        if choice not in names:
            raise ValueError(f"options {text!r}: {key}={choice} is unknown, there are {', '.join(names)}")
        choices.append(names.index(choice))
    extents = parse_brick(given.pop("brick")) if "brick" in given else ()
    bounds = {key: _number(text, key, value) for key, value in given.items() if key != "lossless"}
    numbers: list[float]
    if set(given) == {"ratio", "abs"}:
        if bounds["abs"] == 0:
            raise ValueError(f"options {text!r}: abs={given['abs']} leaves no room for a ratio; it must be above 0, or give lossless alone")
        mode, numbers = CAPPED_RATIO, [bounds["ratio"], bounds["abs"]]
    elif len(given) != 1:
        raise ValueError(f"options {text!r}: they have {'more than one' if given else 'no'} bound")
    elif "lossless" in given or bounds.get("abs") == 0:
        mode, numbers = LOSSLESS, []
    else:
        ((key, number),) = bounds.items()
        mode, numbers = MODES[key], [number]
    halves = (word for number in numbers for word in struct.unpack("<2I", struct.pack("<d", number)))
    return (16777216 * len(extents) + 65536 * choices[1] + 256 * choices[0] + mode, *extents, *halves)


def parse_brick(text: str) -> tuple[int, ...]:
    """The extents of a brick such as `32x32x32`, slowest first. Raises ValueError for a text that is none."""
    extents = text.split("x")
    if len(extents) > MAX_RANK or not all(re.fullmatch("[0-9]+", extent) and 0 < int(extent) < 2**32 for extent in extents):
        raise ValueError(f"brick={text} is none: it must have 1 to {MAX_RANK} extents, slowest first, each from 1 to {2**32 - 1}, as in brick=32x32x32")
    return tuple(map(int, extents))


def _number(text: str, key: str, value: str) -> float:
    """The number of an option. Raises ValueError if the option cannot have it."""
    try:
        # Python alone reads 1_000, and digits of all scripts.
        number = float("" if "_" in value or not value.isascii() else value)
    except ValueError:
        raise ValueError(f"options {text!r}: {key}={value} is not a number") from None
    step_holds = number == 0 or (number > 0 and math.isfinite(2 * number) and 0 < 1 / (2 * number) < math.inf)
    holds = {"abs": step_holds, "rel": 0 < number <= 1, "pwrel": 0 < number < 1, "psnr": 0 < number <= 1000, "ratio": 1 < number <= 1e6}[key]
    if not holds:
        raise ValueError(f"options {text!r}: {key}={value} is out of range: it must be {RANGES[key]}")
    return number


def options(words: Sequence[int]) -> str:
    """The options that words say, a user's or those that a dataset keeps; ValueError for words that say nothing."""
    try:
        words = tuple(map(index, words))
    except TypeError:
        raise ValueError(f"cd_values are {words!r}: they must be whole numbers, such as (2, 3)") from None
    not_ours = f"cd_values {words} are not filter {FILTER_ID}'s: "
    if not all(0 <= word < 2**32 for word in words):
        raise ValueError(f"{not_ours}each must be from 0 to {2**32 - 1}")
    mode, coding, adapt, rank = (words[0] >> bits & 255 for bits in (0, 8, 16, 24)) if words else (255, 0, 0, 0)
    if mode > CAPPED_RATIO + 1 or coding >= len(CODINGS) or adapt >= len(ADAPTING):
        raise ValueError(f"{not_ours}word 0 is mode {mode}, coding {coding}, adaptation {adapt}")
    if len(words) <= rank:
        raise ValueError(f"{not_ours}word 0 announces a brick of {rank} extents, {len(words) - 1} words follow")
    extents, rest = "x".join(map(str, words[1 : 1 + rank])), list(words[1 + rank :])
    if mode == CAPPED_RATIO + 1 and len(rest) != 4:
        raise ValueError(f"{not_ours}mode {mode} takes four words, {len(rest)} are given")
    if mode != LOSSLESS and mode % 2 == 0:
        numbers = [_of_decimals(not_ours, rest[at : at + 2]) for at in range(0, len(rest), 2)]
        mode -= 1
    else:
        count = {LOSSLESS: 0, CAPPED_RATIO: 2}.get(mode, 1)
        added = rest[2 * count :]
        if len(rest) < 2 * count or (added and added[0] >> 24 != MARKER):
            raise ValueError(f"{not_ours}mode {mode} takes {2 * count} words, then those that the filter adds")
        numbers = list(struct.unpack(f"<{count}d", struct.pack(f"<{2 * count}I", *rest[: 2 * count])))
    names = {LOSSLESS: (), CAPPED_RATIO: ("ratio", "abs")}.get(mode, tuple(key for key, value in MODES.items() if value == mode))
    if len(numbers) != len(names):
        raise ValueError(f"cd_values {words} have {len(numbers)} numbers, mode {mode} takes {len(names)}")
    said = [f"{name}={decimal(number)}" for name, number in zip(names, numbers)] or ["lossless"]
    said += [f"{key}={texts[choice]}" for key, texts, choice in (("coding", CODINGS, coding), ("adapt", ADAPTING, adapt)) if choice]
    said += [f"brick={extents}"] if rank else []
    text = ",".join(said)
    try:
        cd_values(text)
    except ValueError as error:
        raise ValueError(f"{not_ours}{error}") from None
    return text


def _of_decimals(not_ours: str, words: Sequence[int]) -> float:
    """m * 10^-e, rounded once; of `e` alone 10^-e, unless that is 0: clients make 0 of a fraction."""
    if words[0] == 0 and len(words) == 1:
        raise ValueError(f"{not_ours}0 alone is no exponent, and a fraction such as 1e-3 becomes 0: write 2,3 for 1e-3, and 2,0,1 for 1")
    exponent, factor = words[0], words[1] if len(words) == 2 else 1
    number = float(f"{factor}e-{exponent}")
    if number == 0 and factor != 0:
        raise ValueError(f"{not_ours}{factor}e-{exponent} is too small for a binary64")
    return number


def decimal(number: float) -> str:
    """The number in as few digits as give it again."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


def for_clients(text: str) -> str:
    """What h5py, h5repack, nccopy and C programs take for options in words, a line each; or, for `cd_values` with commas between them, what these say.

    ValueError with the reason for anything else.
    """
    if text[:1].isdigit():
        if not re.fullmatch("[0-9]+([ ,]+-?[0-9]+)*[ ,]*", text):
            raise ValueError(f"cd_values {text!r} are not whole numbers with commas between them, such as 2,3")
        # h5dump prints words as signed numbers.
        return options([word + 2**32 if -(2**31) <= word < 0 else word for word in map(int, re.findall("-?[0-9]+", text))])
    words = cd_values(text)
    listed = ",".join(map(str, words))
    return "\n".join(
        (
            f"h5py, xarray  compression={FILTER_ID}, compression_opts={words}",
            f"h5repack      -f DATASET:UD={FILTER_ID},0,{len(words)},{listed}",
            f"nccopy        -F DATASET,{FILTER_ID},{listed}",
            f"C             unsigned values[] = {{{listed}}}; H5Pset_filter(dcpl, {FILTER_ID}, H5Z_FLAG_MANDATORY, {len(words)}, values);",
        )
    )
