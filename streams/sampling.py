"""Samples of large matrices. Each day's runs take another part of the cases. A sample has every value of every dimension.

Samples are drawn by a seed: QUIRE_SEED, or the day's number. QUIRE_FULL_MATRIX=1 takes all cases, as before a release. Reports print `said()`: with these
variables another run takes the same sample. codec/tests/common/sampling.rs has the samples of Rust's tests.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

Case = TypeVar("Case")


def is_full() -> bool:
    """Whether all cases are asked for."""
    return os.environ.get("QUIRE_FULL_MATRIX") == "1"


def seed() -> int:
    """The seed of today's samples: days since 1970, or QUIRE_SEED."""
    return int(os.environ.get("QUIRE_SEED") or time.time() // (24 * 60 * 60))


def said() -> str:
    """What makes another run take the same cases."""
    return "QUIRE_FULL_MATRIX=1" if is_full() else f"QUIRE_SEED={seed()}"


def generator(name: str) -> random.Random:
    """Random numbers for the matrix of this name, from the seed."""
    return random.Random(f"{seed()} {name}")


def sample(name: str, dimensions: Sequence[Iterable[Any]], part: int) -> list[tuple[Any, ...]]:
    """About one in `part` cases of a matrix of these dimensions, in its order; all of them if the whole matrix is asked for."""
    values = [list(dimension) for dimension in dimensions]
    sizes = [len(dimension) for dimension in values]
    chosen = all_of(sizes) if is_full() else covering(generator(name), sizes, -(-math.prod(sizes) // part))
    print(f"{name}: {len(chosen)} of {math.prod(sizes)} cases, {said()}", flush=True)
    return [tuple(dimension[index] for dimension, index in zip(values, case)) for case in chosen]


def one_in(name: str, part: int, cases: Iterable[Case]) -> list[Case]:
    """About one in `part` cases of a list, and at least one; all of them if the whole matrix is asked for."""
    listed = list(cases)
    chosen = range(len(listed)) if is_full() else sorted(generator(name).sample(range(len(listed)), -(-len(listed) // part)))
    return [listed[index] for index in chosen]


def is_taken(name: str, number: int, share: int, shares: int) -> bool:
    """Whether run number `share` takes a case, if `shares` runs share the cases of a matrix. If the whole matrix is asked for, every run takes all cases."""
    return is_full() or (number + generator(name).randrange(shares)) % shares == share


def all_of(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, sizes)))


def covering(rng: random.Random, sizes: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """`count` cases, or as many more as it takes to have every value of every dimension."""
    # The cases of a diagonal have every value. The dimensions are shuffled, so that each seed has another diagonal.
    shuffled = [rng.sample(range(size), size) for size in sizes]
    chosen = {tuple(values[at % len(values)] for values in shuffled) for at in range(max(sizes))}
    rest = sorted(set(all_of(sizes)) - chosen)
    chosen.update(rng.sample(rest, max(0, min(count - len(chosen), len(rest)))))
    return sorted(chosen)
