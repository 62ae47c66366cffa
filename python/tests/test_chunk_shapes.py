"""Chunk shapes that the package recommends."""

from math import prod

import pytest

import h5z_quire


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((256, 256, 256), (64, 64, 64)),
        ((128, 128, 128), (64, 64, 64)),
        ((64, 64, 64), (64, 64, 64)),
        ((1000, 1000), (500, 500)),
        ((10**9,), (244141,)),
        ((256, 720, 1440), (64, 90, 45)),
        ((7,), (7,)),
        ((1, 1, 5_000_000), (1, 1, 156250)),
    ],
)
def test_chunks_are_even_and_fit(shape: "tuple[int, ...]", expected: "tuple[int, ...]") -> None:
    found = h5z_quire.chunks(shape)
    assert found == expected
    assert prod(found) <= 64**3 and all(side <= extent for side, extent in zip(found, shape))


@pytest.mark.parametrize("shape", [(), (3, 0)])
def test_an_array_without_values_has_no_chunks(shape: "tuple[int, ...]") -> None:
    with pytest.raises(ValueError, match="no values"):
        h5z_quire.chunks(shape)
