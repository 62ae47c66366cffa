"""Objects in messages."""

from __future__ import annotations

from typing import Any

_LONGEST = 80


def short(thing: Any) -> str:
    """An object in a few words: its own text, or if that is long or has several lines, its type, shape and element type."""
    text = repr(thing)
    if len(text) <= _LONGEST and "\n" not in text:
        return text
    kind = type(thing)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    shape, dtype = _attribute(thing, "shape"), _attribute(thing, "dtype")
    words = (name, "" if shape is None else f"of shape {tuple(shape)}", "" if dtype is None else f"and type {dtype}")
    return f"<{' '.join(filter(None, words))}>"


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:
        # A file of netCDF4 raises KeyError.
        return None
