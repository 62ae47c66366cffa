"""Compares a file of pairs with the copy that c/pairs.c has made of it on another system, and that copy with its own copy.

    same_copies.py FILE COPY COPY_OF_COPY

The streams of both copies are those that this machine makes of `original`, and both copies have read the values that this machine reads. The values of the
first copy are within their bounds. Prints the number of comparisons.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import h5py

from round_trip import check, pairs
from same_streams import stored, streams


def compare(path: str, copy: str) -> int:
    count = 0
    with h5py.File(path, "r") as ours, h5py.File(copy, "r") as theirs:
        for name, group in pairs(ours):
            other = theirs[name]
            assert stored(other["compressed"].id) == streams(group["original"], group["compressed"]), f"{copy}: {name}: other streams"
            assert other["read"][()].tobytes() == group["compressed"][()].tobytes(), f"{copy}: {name}: other values"
            count += 2
    return count


def main(*paths: str) -> None:
    check(paths[1])
    count = sum(compare(path, copy) for path, copy in pairwise(paths))
    assert count > 0, f"{paths[0]}: no pair of original and compressed in it"
    print(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
