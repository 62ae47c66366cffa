"""Fill values that codecs keep in their metadata, which are JSON: it has no complex numbers, no NaN and no infinities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .messages import short


def number_of(fill_value: Any) -> int | float | complex | None:
    """The number of a fill value: a number of Python or numpy, an array of one number, or what `to_json` gives.

    None for None, and for NaN and infinities, which come back bit for bit in any case. Raises ValueError for anything else.
    """
    if isinstance(fill_value, (list, tuple)) and len(fill_value) == 2:
        number: Any = complex(*map(float, fill_value))
    else:
        is_of_numpy = isinstance(fill_value, (np.generic, np.ndarray))
        number = fill_value.item() if is_of_numpy and fill_value.size == 1 else fill_value
    if number is not None and not isinstance(number, (int, float, complex)):
        raise ValueError(f"fill value {short(fill_value)} is not a number: give one that values of the array can have")
    return None if number is None or _needs_no_care(number) else number


def to_json(number: int | float | complex | None) -> Any:
    """The number as JSON has it: of a complex one, its parts."""
    return [_part(number.real), _part(number.imag)] if isinstance(number, complex) else number


def _needs_no_care(number: int | float | complex) -> bool:
    parts = (number.real, number.imag) if isinstance(number, complex) else (number,)
    return not any(map(math.isfinite, parts))


def _part(number: float) -> float | str:
    """One part of a complex number; a text where it is not finite, which `float` reads."""
    return number if math.isfinite(number) else str(number)
