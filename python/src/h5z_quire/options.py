"""The filter's options as a text, as HDF5's `cd_values`, and back (FORMAT.md, section 10). The library alone reads and checks them.

A text has abs=, rel=, pwrel=, psnr=, ratio= (with abs= beside it or without) or lossless, and perhaps coding=auto, huffman or bitshuffle, keep=order or
keep=sign:0, adapt=none or history, and brick=AxBxC, with commas between them: `rel=1e-4,coding=bitshuffle`.
"""

from __future__ import annotations

import re
from operator import index
from typing import Sequence

from . import library

#: Number under which HDF5 knows the filter.
FILTER_ID = 33791
# Options whose value is a number.
NUMBERS = ("abs", "rel", "pwrel", "psnr", "ratio")


def cd_values(text: str) -> tuple[int, ...]:
    """The words for options such as `abs=1e-3,coding=huffman`; ValueError with the reason for others."""
    if not isinstance(text, str):
        raise ValueError(f"options are {text!r}: they must be a text, such as 'abs=1e-3'")
    return library.cd_values(text)


def options(words: Sequence[int]) -> str:
    """The options that words say, a user's or those that a dataset keeps; ValueError for words that say nothing."""
    try:
        words = tuple(map(index, words))
    except TypeError:
        raise ValueError(f"cd_values are {words!r}: they must be whole numbers, such as (2, 3)") from None
    if not all(0 <= word < 2**32 for word in words):
        raise ValueError(f"cd_values are {words}: each must be from 0 to {2**32 - 1}")
    # The library writes 1e-3, Python 0.001.
    said = {key: decimal(float(value)) if key in NUMBERS else value for key, value in by_key(library.options(words)).items()}
    return ",".join(f"{key}={value}" if value else key for key, value in said.items())


def by_key(text: str) -> dict[str, str]:
    """The values of options that the library has written; that of lossless is empty."""
    return {key: value for key, _, value in (option.partition("=") for option in text.split(","))}


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
