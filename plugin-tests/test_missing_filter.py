"""What clients say where HDF5 does not find the plugin: docs/guide.md has each message."""

from __future__ import annotations

import missing_filter
from conftest import Python


def test_every_message_of_a_missing_filter_is_in_the_guide(python: Python, newest: Python) -> None:
    newest(missing_filter.make, ".")
    assert python(missing_filter.check, ".").json > 0


def test_every_message_of_the_tools_is_in_the_guide(newest: Python, debian: Python) -> None:
    newest(missing_filter.make, ".")
    assert debian(missing_filter.tools, ".").json > 0
