"""Calls a function in this process, for a test in another one: call.py MODULE FUNCTION ARGUMENT...

MODULE is a file of tests, or a module of py/. Arguments are texts. What the function returns is printed as JSON.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any


class WithoutPytest:
    """Stands in for pytest, whose import takes as long as that of numpy and h5py. Fixtures, marks and parameters mean nothing to a function that is called."""

    def __getattr__(self, name: str) -> Any:
        if name != "raises":
            return self
        # What clients themselves use.
        del sys.modules["pytest"]
        return importlib.import_module("pytest").raises

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """What is decorated, or another decorator."""
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self


HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE / folder) for folder in (".", "py", "../h5-samples", "../streams")]

if __name__ == "__main__":
    sys.modules["pytest"] = WithoutPytest()
    module, function, *arguments = sys.argv[1:]
    called = getattr(importlib.import_module(module), function)
    # A test that is `in_each_python` is called without what starts it.
    result = getattr(called, "in_client", called)(*arguments)
    if result is not None:
        print(json.dumps(result))
