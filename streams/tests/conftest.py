"""What all tests share: the plugin of HDF5_PLUGIN_PATH, and the counts that are printed at the end of a run."""

import pytest

from readers import COUNTS, Plugin
from sampling import said


@pytest.fixture(scope="session")
def plugin():
    """The plugin, which the tests with h5py need."""
    return Plugin()


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist
        session.config.workeroutput["counts"] = dict(COUNTS)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    COUNTS.update(getattr(node, "workeroutput", {}).get("counts", {}))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(", ".join([*(f"{number} {what}" for what, number in sorted(COUNTS.items())), said()]))
