"""Runs of `quire repack` that are ended: by a signal, by the system, or by a lack of room. What they leave, and what they say."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import pytest

import quire_files
from conftest import Ended, Runner

ARGUMENTS = ["repack", "in.h5", "out.h5", "--rel", "1e-4"]
# Where a run is held that has written all of its file, and has not given the file its name.
AT_THE_END = 0
# As `nohup quire`, and as `quire &` in a script.
IGNORING = ["env", "--ignore-signal=HUP", "--ignore-signal=INT", "--ignore-signal=QUIT"]


@dataclass
class Held:
    """A run of `quire` that is held at one of its steps by c/hold.c."""

    run: subprocess.Popen[bytes]
    worker: int  # the process that works, a child of `run`
    by: Path

    def let_go(self) -> tuple[int, str, str]:
        """How the run ends: its code, negative for a signal, and what it says."""
        # A process that has ended lets the file lie.
        self.by.unlink(missing_ok=True)
        stdout, stderr = self.run.communicate()
        return self.run.returncode, stdout.decode(), stderr.decode()

    def wait_for_the_worker(self) -> None:
        """Waits until the worker has ended."""
        wait_until(lambda: is_gone(self.worker))


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits until something is so, however long that takes."""
    while not is_so():
        time.sleep(0.001)


def is_gone(process: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file without the filter that takes a while to repack."""
    path = tmp_path_factory.mktemp("large") / "in.h5"
    quire_files.large(str(path))
    return path


@pytest.fixture
def hold(run: Runner, release: Path, large: Path, shared_library: Callable[[str], Path]) -> Callable[..., Held]:
    """Starts a run and waits until it is held at a write, counted from 1, or AT_THE_END. `before` is a command that starts the run."""
    (run.folder / "in.h5").hardlink_to(large)
    library = shared_library("hold")

    def hold(at: int, *more: str, before: list[str] = []) -> Held:
        by = run.folder / f"held{at}"
        settings = {"QUIRE_BACKEND": "cpu", "LD_PRELOAD": str(library), "HOLD_AT": str(at), "HOLD_BY": str(by)}
        started = run.start(*before, release / "quire", *ARGUMENTS, *more, env=settings)
        wait_until(lambda: by.exists() or started.poll() is not None)
        assert by.exists(), f"it ended before: {started.communicate()}"
        worker = int(by.read_text())
        assert worker != started.pid
        return Held(started, worker, by)

    return hold


@pytest.fixture
def there(tmp_path: Path) -> Callable[[], list[str]]:
    """The output, and what lies beside it."""
    return lambda: sorted(path.name for path in tmp_path.glob("out.h5*"))


# Without SIGSEGV: Rust's handler returns from a signal that was sent, to see whether it comes again.
DEATHS = [
    (signal.SIGABRT, "HDF5 crashed on reading in.h5 (signal 6, SIGABRT): the file is probably damaged"),
    (signal.SIGKILL, "this program was ended on reading in.h5 (signal 9), as the system does where memory has run out"),
]


@pytest.mark.parametrize("number, said", DEATHS)
def test_a_worker_that_crashes_or_is_killed_is_told(hold: Callable[..., Held], there: Callable[[], list[str]], number: int, said: str) -> None:
    held = hold(20, "--json")
    os.kill(held.worker, number)
    code, stdout, stderr = held.let_go()
    assert (code, stdout) == (1, "") and f"error: {said}; out.h5 was not made" in stderr
    assert there() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_run_that_its_user_ends_leaves_nothing(hold: Callable[..., Held], there: Callable[[], list[str]], number: int) -> None:
    held = hold(20, "--json")
    os.kill(held.run.pid, number)
    # Both processes go, as one that had the signal's default.
    held.wait_for_the_worker()
    assert held.let_go() == (-number, "", "")
    assert there() == []


def test_a_file_that_was_there_before_stays(hold: Callable[..., Held], tmp_path: Path) -> None:
    (tmp_path / "out.h5").write_text("mine")
    held = hold(20, "--json", "--force")
    os.kill(held.worker, signal.SIGABRT)
    code, stdout, stderr = held.let_go()
    assert "out.h5 is as it was" in stdout + stderr
    assert (tmp_path / "out.h5").read_text() == "mine"


def test_a_signal_that_the_caller_ignores_ends_no_run(hold: Callable[..., Held], there: Callable[[], list[str]], tmp_path: Path) -> None:
    held = hold(20, before=IGNORING)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        # A terminal sends them to both processes.
        os.kill(held.worker, number)
        os.kill(held.run.pid, number)
    code, stdout, stderr = held.let_go()
    assert code == 0 and "verified: out.h5" in stdout + stderr
    (tmp_path / "out.h5").unlink()
    held = hold(20, before=IGNORING)
    os.kill(held.run.pid, signal.SIGTERM)
    held.wait_for_the_worker()
    assert held.let_go()[0] == -signal.SIGTERM, "a signal that is not ignored"
    assert there() == []


def test_the_next_run_removes_what_a_killed_one_has_left_but_not_what_another_is_writing(
    hold: Callable[..., Held], there: Callable[[], list[str]], quire: Callable[..., Ended], tmp_path: Path
) -> None:
    # A process that is killed cannot clean up: its worker ends with it, and the folder stays.
    held = hold(20)
    held.run.kill()
    held.run.communicate()
    held.wait_for_the_worker()
    (left,) = there()
    # A run that takes its time still uses its folder.
    held = hold(AT_THE_END)
    (in_use,) = there()
    assert in_use != left and in_use.startswith("out.h5.")
    quire("repack", "in.h5", "out.h5", "--only", "field0", "--rel", "1e-1")
    assert there() == sorted(["out.h5", in_use])
    first = (tmp_path / "out.h5").read_bytes()
    # The run that goes on finds a file of that name, which it must not replace.
    code, stdout, stderr = held.let_go()
    assert code == 1 and "error: out.h5: " in stdout + stderr and "exists" in stdout + stderr
    assert there() == ["out.h5"] and (tmp_path / "out.h5").read_bytes() == first


@pytest.mark.parametrize("at", [1, 10, 100, AT_THE_END])
def test_a_run_that_is_killed_leaves_nothing_under_the_name(hold: Callable[..., Held], tmp_path: Path, at: int) -> None:
    held = hold(at)
    held.run.kill()
    held.run.communicate()
    held.wait_for_the_worker()
    assert not (tmp_path / "out.h5").exists()


def test_a_file_that_can_grow_no_further_is_an_error(
    run: Runner, release: Path, large: Path, quire: Callable[..., Ended], there: Callable[[], list[str]]
) -> None:
    (run.folder / "in.h5").hardlink_to(large)
    limited = f"trap '' XFSZ; ulimit -f 2000; exec {release / 'quire'} {' '.join(ARGUMENTS)}"
    run("bash", "-c", limited, env={"QUIRE_BACKEND": "cpu"}, code=1).must_say("error: ")
    assert there() == []
    quire(*ARGUMENTS).must_say("verified: out.h5")
    assert there() == ["out.h5"]
