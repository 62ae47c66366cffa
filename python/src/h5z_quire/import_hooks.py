"""Teaches h5py the filter, whether h5py is imported before this package or after it. netCDF4's plugins are found in either case, too.

This module imports neither of them: other clients do not need them.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Callable, Sequence

from .registration import register


def watch_imports() -> None:
    """Does now what is due for modules that are imported already, and for each other module as soon as it has been imported."""
    due: dict[str, Callable[[], None]] = {"h5py": _teach_h5py, "netCDF4": register}
    for name in due.keys() & sys.modules.keys():
        due.pop(name)()
    sys.meta_path.insert(0, _Finder(due))


def _teach_h5py() -> None:
    # This imports h5py.
    from .h5py_additions import add

    register()
    add()


class _Finder(MetaPathFinder):
    """Finds some modules where the other finders find them, and calls a function for each after its first execution."""

    def __init__(self, due: dict[str, Callable[[], None]]) -> None:
        self._due = due

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The specification of a module, for an import or for a mere question whether it is installed."""
        if fullname not in self._due:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for finder in others if (found := finder.find_spec(fullname, path, target)) is not None), None)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._due.pop(fullname, lambda: None)()

        # Of this one loader: each specification has its own.
        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
