"""Calls a function in this process, for a test in another one: call.py MODULE FUNCTION ARGUMENT...

MODULE is a file of tests, or a module of py/. Arguments are texts. What the function returns is printed as JSON.
"""

import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE / folder) for folder in (".", "py", "../h5-samples", "../streams")]

if __name__ == "__main__":
    module, function, *arguments = sys.argv[1:]
    called = getattr(importlib.import_module(module), function)
    # A test that is `in_each_python` is called without what starts it.
    result = getattr(called, "in_client", called)(*arguments)
    if result is not None:
        print(json.dumps(result))
