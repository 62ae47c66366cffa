"""Quire: options in words, in numbers, and in datasets."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import h5z_quire
from conftest import RunPython
from h5z_quire import FILTER_ID, Quire


@pytest.mark.parametrize(
    ("quire", "options", "words"),
    [
        (Quire(abs=1e-3), "abs=0.001", (1, 3539053052, 1062232653)),
        (Quire(abs=0.1 + 0.2), "abs=0.30000000000000004", (1, 858993460, 1070805811)),
        (Quire(rel=1e-4), "rel=0.0001", (3, 3944497965, 1058682594)),
        (Quire(pwrel=np.float32(0.5)), "pwrel=0.5", (5, 0, 1071644672)),
        (Quire(psnr=60, coding="huffman"), "psnr=60,coding=huffman", (256 + 7, 0, 0x404E0000)),
        (Quire(ratio=20), "ratio=20", (9, 0, 0x40340000)),
        (Quire(ratio=20, abs=0.5), "ratio=20,abs=0.5", (11, 0, 0x40340000, 0, 0x3FE00000)),
        (Quire(lossless=True), "lossless", (0,)),
        (Quire(abs=0), "lossless", (0,)),
        (Quire(lossless=True, coding="bitshuffle"), "lossless,coding=bitshuffle", (512,)),
        (Quire(abs=2, adapt="history"), "abs=2,adapt=history", (65536 + 1, 0, 0x40000000)),
        (Quire(abs=2, keep="order"), "abs=2,keep=order", (131072 + 1, 0, 0x40000000)),
        (Quire(abs=2, keep="sign:0:-2.5"), "abs=2,keep=sign:0:-2.5", (2097152 + 1, 0, 0, 0, 0xC0040000, 0, 0x40000000)),
        (Quire(abs=2, brick=(8, 16, 32)), "abs=2,brick=8x16x32", ((3 << 24) + 1, 8, 16, 32, 0, 0x40000000)),
        (Quire(lossless=True, coding="huffman", brick=np.array([7])), "lossless,coding=huffman,brick=7", ((1 << 24) + 256, 7)),
    ],
)
def test_it_is_its_options(quire: Quire, options: str, words: "tuple[int, ...]") -> None:
    assert (quire.options, quire.cd_values) == (options, words)
    assert dict(quire) == {"compression": FILTER_ID, "compression_opts": words} == {**quire}
    for same in (Quire.from_options(options), Quire.from_cd_values(words), eval(repr(quire)), pickle.loads(pickle.dumps(quire)), copy.deepcopy(quire)):
        assert same == quire and hash(same) == hash(quire) and repr(same) == repr(quire)


def test_it_is_a_mapping_that_does_not_change() -> None:
    quire = Quire(abs=1e-3)
    assert isinstance(quire, Mapping) and len(quire) == 2 and list(quire) == ["compression", "compression_opts"]
    assert quire != Quire(abs=2e-3) and quire != Quire(rel=1e-3) and quire == dict(quire) and quire != 1
    assert len({quire, Quire(abs=1e-3), Quire(rel=1e-3)}) == 2
    assert repr(Quire(abs=2.5e-3, coding="bitshuffle")) == "Quire(abs=0.0025, coding='bitshuffle')"
    with pytest.raises(KeyError):
        quire["chunks"]
    with pytest.raises(AttributeError, match="cannot be changed"):
        quire.abs = 2
    with pytest.raises(AttributeError, match="cannot be changed"):
        del quire._words


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "no bound"),
        ({"coding": "huffman"}, "no bound"),
        ({"abs": 1, "rel": 0.1}, "more than one bound"),
        ({"lossless": True, "abs": 1}, "more than one bound"),
        ({"abs": -1}, "absolute error bound is -1.0: it must be"),
        ({"abs": float("nan")}, "absolute error bound is NaN: it must be"),
        ({"abs": float("inf")}, "absolute error bound is inf: it must be"),
        ({"abs": 1e-320}, "absolute error bound is 1e-320: it must be"),
        ({"abs": "thick"}, "abs is 'thick': it must be a number"),
        ({"abs": [1]}, "it must be a number"),
        ({"abs": 10**400}, "abs is <int>: it must be a number that a float can hold"),
        ({"abs": 1, "coding": "auto,brick=3"}, "coding is 'auto,brick=3': it must be one word"),
        ({"coding": "auto", "adapt": "none,abs=1"}, "adapt is 'none,abs=1': it must be one word"),
        ({"rel": 0}, "greater than 0 and at most 1"),
        ({"rel": 2}, "greater than 0 and at most 1"),
        ({"pwrel": 1}, "greater than 0 and less than 1"),
        ({"psnr": 0}, "in dB"),
        ({"ratio": 1}, "greater than 1"),
        ({"ratio": 9, "abs": -2}, "absolute error bound beside the ratio is -2.0: it must be"),
        ({"ratio": 9, "abs": 0}, "absolute error bound beside the ratio is 0.0: it must be"),
        ({"abs": 1, "coding": "zstd"}, "coding=zstd is unknown; give one of .* coding=auto, huffman or bitshuffle"),
        ({"abs": 1, "adapt": "always"}, "adapt=always is unknown; give one of .* adapt=none or history"),
        ({"brick": (8, 8)}, "no bound"),
        ({"abs": 1, "brick": ()}, "it must have 1 to 4 extents"),
        ({"abs": 1, "brick": (8, 0)}, r"brick \[8, 0\]: it must have 1 to 4 extents, slowest first, each from 1 to 4294967295"),
        ({"abs": 1, "brick": (1, 2, 3, 4, 5)}, 'brick "1x2x3x4x5": it must have 1 to 4 extents'),
        ({"abs": 1, "brick": (2**32,)}, 'brick "4294967296": it must have 1 to 4 extents'),
        ({"abs": 1, "brick": 32}, "brick is 32: it must be 1 to 4 whole numbers"),
        ({"abs": 1, "brick": "32x32"}, "brick is '32x32': it must be"),
        ({"abs": 1, "brick": (2.5, 8)}, "it must be 1 to 4 whole numbers"),
    ],
)
def test_what_makes_no_sense_is_a_value_error(given: "dict[str, Any]", reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Quire(**given)


@pytest.mark.parametrize(
    "text",
    [
        "", "eb=1", "abs", "abs=1,abs=2", "lossless=1", "abs=x", "abs=1_0", "abs=\N{FULLWIDTH DIGIT ONE}", "abs=1;rel=2", "abs=1,brick=8,brick=8",
        "abs=1,brick", "abs=1\x1c", "\x1fabs=1", 5, None, b"abs=1",
    ],
)  # fmt: skip
def test_texts_that_make_no_sense_are_value_errors(text: Any) -> None:
    with pytest.raises(ValueError, match="options "):
        Quire.from_options(text)
    if isinstance(text, str):
        with pytest.raises(ValueError, match="options "):
            h5z_quire.compress(np.ones(8), text)


def test_what_does_not_say_what_to_keep_is_a_value_error() -> None:
    for quire in (5, None, b"abs=1", {"abs": 1}):
        with pytest.raises(ValueError, match="does not say what to keep: give a Quire, or a text"):
            h5z_quire.compress(np.ones(8), quire)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [
        (), (99,), (1,), (2,), (0x302, 3), (1, 2, 3, 4), (3 << 24, 8, 8), (1 << 24 | 2, 8),
        # What the filter refuses: a fraction that became 0, decimals too small, bounds out of range, numbers of other sizes.
        (2, 0), (2, 400), (2, 324, 1), (2, 2**32 - 1), (4, 0, 2), (3, 0, 2**31), (10, 0, 1), (12, 0, 20, 1), (12, 0, 20, 1, 0), (1 << 24 | 2, 0, 3),
        (2, -3), (2**32 + 2, 3), (2, 2**40), (1, -1, 5), (2.0, 3.0), "2,3", 5, None,
    ],
)  # fmt: skip
def test_words_that_say_nothing_are_value_errors(words: Any) -> None:
    with pytest.raises(ValueError, match="cd_values"):
        Quire.from_cd_values(words)


def test_words_are_read_from_a_command_line(run_python: RunPython) -> None:
    script = """
import sys
from h5z_quire.options import for_clients
for text in sys.argv[1:]:
    try:
        print(for_clients(text))
    except ValueError as error:
        print("refused", error)
"""
    said = run_python(script, "2,3", "1,-755914244,1062232653", "2, 4, 25", "2,x", "2,1_0", "2,\N{FULLWIDTH DIGIT ONE}").splitlines()
    assert said[:3] == ["abs=0.001", "abs=0.001", "abs=0.0025"] and all(line.startswith("refused") for line in said[3:]), said


def test_decimals_are_understood() -> None:
    assert Quire.from_cd_values((2, 4, 25)) == Quire(abs=2.5e-3)
    array: Any = np.array([2, 3], "u4")
    assert Quire.from_cd_values(array) == Quire(abs=1e-3)
    assert Quire.from_cd_values((12, 0, 20, 1, 5)) == Quire(ratio=20, abs=0.5)
    assert Quire.from_cd_values((2 << 24 | 2, 8, 16, 4, 25)) == Quire(abs=2.5e-3, brick=(8, 16))


def test_types_can_be_checked() -> None:
    Quire(pwrel=0.1).check("f4")
    with pytest.raises(ValueError, match="point-wise"):
        Quire(pwrel=0.1).check("i4")
    with pytest.raises(ValueError, match="complex256"):
        Quire(abs=1).check(np.clongdouble)


def test_chunks_can_be_checked() -> None:
    Quire(abs=1).check("f4", (7,))
    quire = Quire(abs=1, brick=(4, 8))
    quire.check("f4")
    Quire(abs=1, brick=(2**32 - 1,)).check("f4")
    for chunk in ((8,), (3, 16), (96,)):
        quire.check("f4", chunk)
    with pytest.raises(ValueError, match=r"brick=4x8: a chunk of \(3, 4\) has 12 values, which are no whole number of the brick's rows of 8"):
        quire.check("f4", (3, 4))
