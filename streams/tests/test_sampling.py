"""A sample has every value of every dimension, and no case twice. Another seed gives another sample."""

import itertools
import math
import random

import pytest

from sampling import all_of, covering, is_full, is_taken


@pytest.mark.parametrize("sizes", [(1, 1, 1), (26, 8, 4), (3, 40, 2), (5, 5, 5)])
def test_samples_have_every_value_of_every_dimension(sizes):
    everything, samples = math.prod(sizes), set()
    for number, part in itertools.product(range(50), (1, 3, 10, 1000)):
        chosen = covering(random.Random(number), sizes, -(-everything // part))
        assert len(chosen) == len(set(chosen)) == max(-(-everything // part), max(sizes))
        for axis, size in enumerate(sizes):
            assert {case[axis] for case in chosen} == set(range(size))
        if part == 10:
            samples.add(tuple(chosen))
    assert everything < 50 or len(samples) > 40
    assert covering(random.Random(1), sizes, everything) == all_of(sizes)


@pytest.mark.parametrize("name", "abc")
def test_runs_share_the_cases_of_a_matrix(name):
    taken = [[number for number in range(30) if is_taken(name, number, share, 3)] for share in range(3)]
    if is_full():
        assert taken == [list(range(30))] * 3
    else:
        assert sorted(itertools.chain(*taken)) == list(range(30)) and [len(numbers) for numbers in taken] == [10] * 3
