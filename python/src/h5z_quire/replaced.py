"""Functions of other libraries that this package replaces by its own, which call the originals."""

from __future__ import annotations

import functools
import inspect
from importlib.metadata import version
from typing import Any, Callable


def replace(owner: Any, name: str, ours: Callable[..., Any]) -> None:
    """Has a class or a module call `ours` in place of its own function, which is the first argument of `ours`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def function(*arguments: Any, **keywords: Any) -> Any:
        return ours(original, *arguments, **keywords)

    setattr(owner, name, function)


def replace_private(package: str, owner: Any, name: str, ours: Callable[..., Any]) -> None:
    """As `replace`, for a function that another version of a package may lack: its parameters must be those of `ours`. Raises ImportError if they are not."""
    _, *expected = inspect.signature(ours).parameters
    found = getattr(owner, name, None)
    if found is None or list(inspect.signature(found).parameters) != expected:
        raise ImportError(
            f"{package} {version(package)} has no {owner.__name__}.{name}({', '.join(expected)}), by which this package has it read filter 33791: "
            f"install a version of {package} that h5z_quire is tested with"
        )
    replace(owner, name, ours)
