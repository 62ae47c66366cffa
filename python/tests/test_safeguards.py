"""What the options promise, judged by packages of others: compression-safeguards finds no value, and numcodecs-safeguards has nothing to correct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numcodecs_safeguards import SafeguardedCodec
from safeguards import BOUNDS, JUDGED, OPTIONS, UNPROMISED, Field, ends_of, judge, judge_plugin, plain, promised, written

import h5z_quire
from conftest import TYPES, field
from h5z_quire.numcodecs import QuireCodec

CASES = [(options, dtype) for dtype in (*TYPES, bfloat16) for options in OPTIONS if "pwrel" not in options or np.dtype(dtype).kind not in "iu"]


def chunk_of(dtype: Any) -> Any:
    """A field, with gaps where its type has NaN."""
    values = field(dtype, (20, 24, 28))
    if values.dtype.kind != "f":
        return Field("field", values)
    values[3:5, 4:9], values[7, 8, 9:12], values[:, 20] = np.nan, np.inf, -999
    return Field("field", values, -999.0)


@pytest.mark.parametrize(("options", "dtype"), CASES, ids=str)
def test_no_value_breaks_a_promise(options: str, dtype: Any) -> None:
    chunk = chunk_of(dtype)
    for share in BOUNDS:
        judged = written(options, share, chunk)
        found = judge_plugin(judged, chunk)
        assert found["values"] == plain(chunk.values).size and not any(found[promise] for promise in JUDGED), f"{judged}: {found}"


@pytest.mark.parametrize(("options", "dtype"), [case for case in CASES if np.dtype(case[1]).isnative and np.dtype(case[1]).kind in "fiu"], ids=str)
def test_numcodecs_safeguards_has_nothing_to_correct(options: str, dtype: Any) -> None:
    chunk = chunk_of(dtype)
    for share in BOUNDS:
        judged = written(options, share, chunk)
        codec = QuireCodec(judged, fill_value=chunk.fill)
        least, greatest, _ = ends_of(judged, chunk, h5z_quire.describe(codec.encode(chunk.values)).half_step)
        stream = SafeguardedCodec(codec=codec, safeguards=[safeguard for _, safeguard in promised(judged, chunk, least, greatest)]).encode(chunk.values)
        assert stream[0] == 0, f"{judged}: the first byte is the length of a correction"


def test_the_judge_finds_a_single_value() -> None:
    values = np.abs(chunk_of("f4").values)
    chunk = Field("field", values, 999.0)
    judged = written(UNPROMISED, 1e-3, chunk)
    bound, middle = float(judged.split(",")[0][4:]), np.float32(judged.split(":")[-1])
    above = tuple(np.argwhere(values > middle)[0])
    least = np.unravel_index(np.nanargmin(values), values.shape)
    changed: "dict[str, tuple[Any, Any]]" = {
        "bound": ((0, 0, 0), values[0, 0, 0] + 1.01 * bound),
        "fill": ((0, 20, 0), 999 - bound / 2),
        "limits": (least, values[least] - bound / 2),
        "sign": (above, middle - bound / 2),
        "order": ((0, 0, 0), values[0, 0, 0] + bound),
    }
    assert not any(judge(judged, chunk, values.copy(), None)[promise] for promise in JUDGED)
    for promise, (place, value) in changed.items():
        decoded = values.copy()
        decoded[place] = value
        assert judge(judged, chunk, decoded, None)[promise] > 0, promise
