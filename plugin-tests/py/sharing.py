"""Processes that share GPUs, which are CPUs in disguise (gpu/emulator): who computes where, and what ends while a GPU is being opened.

Workers have the clock of c/set_clock.c: their time stands still, but for what an order says. The scenes themselves wait for what comes, however long that
takes.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import itertools
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Optional

from gpu_filter import Filter
from quire_client import smooth

CALL = Path(__file__).resolve().parents[1] / "call.py"
# 128 KiB, which are for a GPU.
CHUNK = smooth((32, 32, 32), "<f4")
LITTLE_WORK = "a GPU is opened after 50 ms of the CPU's work on chunks for it; in ranks of a job, while all cores are busy, after 5 s"
FEW, MANY = 4, 1000
# Seconds that a chunk takes on the CPU or on the card, where time goes on: MANY open a GPU, also in a rank while all cores are busy.
WORK = 0.01
# Longer than a process that has found no place leaves the card to others, so that it has also come late.
PAUSE = 0.05
# A pause between chunks in which a process keeps the card, and one in which it leaves the card to others.
SOON, LATE = 0.0001, 0.001


# Processes that run until they are killed.
HOLDERS: list[subprocess.Popen[str]] = []


def wait_until(is_so: Callable[[], bool]) -> None:
    """Without an end of its own: the whole program has one."""
    while not is_so():
        time.sleep(0.001)


class Worker:
    """A process that compresses chunks when it is told to."""

    def __init__(self, *arguments: str, gate: Optional[Path] = None, cores: int = 1 << 20, **settings: str) -> None:
        """`gate`: the driver makes this file when it begins to open a GPU, and opens the GPU when the file is gone. `cores`: of the machine."""
        drop = ("QUIRE_", "SLURM_", "OMPI_", "PMI")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
        environment |= {"LD_LIBRARY_PATH": DRIVER, "LD_PRELOAD": CLOCK, "SET_CLOCK_CORES": str(cores), "QUIRE_LOG": "1", **settings}
        if gate is not None:
            environment["QUIRE_EMULATOR_GATE"] = str(gate)
        self.gate = gate
        command = [sys.executable, CALL, "sharing", "work", LIBRARY, *arguments]
        pipe = subprocess.PIPE
        self.log = tempfile.NamedTemporaryFile()
        with open(self.log.name, "a") as stderr:
            self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=stderr, text=True)

    def order(self, *words: object) -> str:
        self.begin(*words)
        return self.answer()

    def begin(self, *words: object) -> None:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        answer = self.process.stdout.readline().strip()
        assert answer, (self.process.wait(), self.said())
        return answer

    def said(self) -> str:
        """What it has written to stderr so far."""
        return Path(self.log.name).read_text()

    def begin_to_compress(self, chunks: int, pause: float = 0, work: float = 0) -> None:
        self.begin("compress", chunks, pause, work)

    def compress(self, chunks: int, pause: float = 0, work: float = 0) -> int:
        """Compresses the chunk again and again, to one stream. Before each chunk the time of `pause` goes by, and during each at least that of `work`. How many
        of the calls were the GPU's."""
        self.begin_to_compress(chunks, pause, work)
        return self.compressed()

    def compressed(self) -> int:
        launched, digest = self.answer().split()
        assert digest == EXPECTED, "other bytes"
        return int(launched)

    def threads(self) -> list[str]:
        names = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                names.append(task.joinpath("comm").read_text().strip())
            except OSError:  # It has ended.
                pass
        return names

    def begins_to_open(self) -> None:
        """Compresses until the GPU is being opened, which then takes until the gate is opened."""
        assert self.compress(MANY, work=WORK) == 0
        wait_until(self.gate.exists)

    def opens(self) -> None:
        """Compresses until the GPU has a chunk. (The trial of its kernels is launched as well.)"""

        def is_open() -> bool:
            self.compress(1, work=WORK)
            return "compress on cuda:" in self.said()

        wait_until(is_open)

    def looks_in_vain(self) -> None:
        """Compresses until the process has looked for a GPU and has found none that it may open."""
        assert self.compress(MANY, work=WORK) == 0
        wait_until(lambda: "quire-open" not in self.threads())

    def kill(self) -> None:
        self.process.kill()
        self.end(-signal.SIGKILL)

    def end(self, code: int = 0) -> list[str]:
        """What the plugin has logged."""
        self.process.communicate()
        stderr = self.said()
        assert self.process.returncode == code, (self.process.returncode, stderr)
        assert not re.search("the driver ends|panicked|Traceback", stderr), stderr
        return [line.removeprefix("H5Z-Quire: ") for line in stderr.splitlines() if line.startswith("H5Z-Quire: ")]


def gate() -> Path:
    """A gate for one worker."""
    return FOLDER / f"gate{next(NUMBERS)}"


NUMBERS = itertools.count()


def work(library: str, *options: str) -> None:
    """A worker's side."""
    clock = ctypes.CDLL(None)
    for setter in (clock.set_clock_tick, clock.set_clock_advance):
        setter.argtypes, setter.restype = [ctypes.c_longlong], None
    plugin = Filter(library)
    if "open" in options:
        info = (ctypes.c_size_t * 2)()
        plugin_library = ctypes.CDLL(library)
        plugin_library.quire_info(info)
        print(ctypes.string_at(info[0]).decode(), flush=True)
        plugin_library.quire_free(info)
    for line in sys.stdin:
        order, *arguments = line.split()
        if order == "compress":
            before, digests = launched(), set()
            pause, tick = (round(float(seconds) * 1e9) for seconds in arguments[1:])
            clock.set_clock_tick(tick)
            for _ in range(int(arguments[0])):
                clock.set_clock_advance(pause)
                digests.add(hashlib.sha256(plugin.compress(CHUNK, 1e-3)[1].tobytes()).hexdigest())
            clock.set_clock_tick(0)
            print(launched() - before, *digests, flush=True)
        elif order == "loaded":
            print(is_loaded(), flush=True)
        elif order == "fork":
            child = os.fork()
            if child == 0:
                stream = plugin.compress(CHUNK, 1e-3)[1].tobytes()
                for _ in range(MANY // 10):
                    assert plugin.compress(CHUNK, 1e-3)[1].tobytes() == stream
                # Through exit(), whose functions the child has, too.
                ctypes.CDLL(None).exit(launched())
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        elif order == "exit":
            print("exits", flush=True)
            ctypes.CDLL(None).exit(0)


def is_loaded() -> bool:
    return "libcuda.so" in Path("/proc/self/maps").read_text()


def launched() -> int:
    """Recordings that the driver has launched in this process: one a chunk."""
    return ctypes.CDLL("libcuda.so.1", os.RTLD_NOLOAD | os.RTLD_NOW).quire_emulator_launched() if is_loaded() else 0


def little_work_does_not_look_for_a_gpu() -> None:
    worker = Worker()
    assert worker.compress(MANY) == 0 and worker.compress(FEW, work=WORK) == 0 and worker.order("loaded") == "False"
    assert worker.end() == [f"compress on the CPU: {LITTLE_WORK}"]


def more_work_opens_it_beside_the_work() -> None:
    worker = Worker(gate=gate())
    worker.begins_to_open()
    worker.gate.unlink()
    worker.opens()
    assert worker.compress(FEW) == FEW
    lines = worker.end()
    # The thread that opens the GPU says so of the lock, at any time.
    of_work = [line for line in lines if not line.startswith("no lock on the GPU")]
    assert of_work[0].startswith("compress on the CPU: a GPU is opened after"), lines
    assert of_work[1:] == ["compress on the CPU: the GPU is being opened", "compress on cuda:0 (CPU in place of a GPU)"], lines
    assert len(lines) <= 4, lines


def ranks_open_it_at_a_low_priority() -> None:
    """A process that is no rank, or that names its GPU, opens the GPU at its own priority."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for settings, expected in (({}, own), ({"SLURM_LOCALID": "0"}, max(own, 10)), ({"SLURM_LOCALID": "0", "QUIRE_DEVICE": "0"}, own)):
        worker = Worker(gate=gate(), **settings)
        worker.begins_to_open()
        tasks = Path(f"/proc/{worker.process.pid}/task")
        found = {task.joinpath("comm").read_text().strip(): os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in tasks.iterdir()}
        assert found["quire-open"] == expected, (settings, found)
        assert os.getpriority(os.PRIO_PROCESS, worker.process.pid) == own, "the program's own thread"
        worker.gate.unlink()
        worker.end()


def ranks_on_busy_cores_open_it_later() -> None:
    """Each chunk then counts a hundredth: a second of work is not enough."""
    # A sandbox may not say how many threads run.
    is_told = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) > 0
    rank = {"SLURM_LOCALID": "0"}
    for settings, cores, opens in (({}, 1, True), (rank, 1, not is_told), (rank, 1 << 20, True), ({**rank, "QUIRE_DEVICE": "0"}, 1, True)):
        worker = Worker(gate=gate(), cores=cores, **settings)
        # The program's libraries may have threads as well.
        assert worker.compress(1) == 0
        before = len(worker.threads())
        assert worker.compress(100, work=WORK) == 0
        assert len(worker.threads()) == before + opens, (settings, cores, worker.threads())
        worker.kill()


def a_process_may_exit_while_it_is_opened() -> None:
    worker = Worker(gate=gate())
    worker.begins_to_open()
    assert worker.order("exit") == "exits"
    worker.gate.unlink()
    worker.end()


def a_signal_ends_a_process_while_it_is_opened() -> None:
    """It does not wait for the driver, which would take for ever."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        worker = Worker(gate=gate())
        worker.begins_to_open()
        worker.process.send_signal(number)
        worker.end(-number)


def a_fork_while_it_is_opened_works_on_the_cpu() -> None:
    worker = Worker(gate=gate())
    worker.begins_to_open()
    assert worker.order("fork") == "0", "the child used a GPU, or did not end in order"
    worker.gate.unlink()
    worker.opens()
    assert worker.compress(FEW) == FEW, "the parent goes on"
    lines = worker.end()
    assert any("this process was forked from process" in line for line in lines), lines


def ranks_take_cards_by_turns() -> None:
    """Also for the number of chunks that the CPU has: the card is chosen before it is opened."""
    cases = (
        ({}, 0, None),
        ({"SLURM_LOCALID": "6"}, 2, "SLURM_LOCALID=6"),
        ({"SLURM_LOCALID": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "3"}, 3, "OMPI_COMM_WORLD_LOCAL_RANK=3"),
        ({"MPI_LOCALRANKID": "5"}, 1, "MPI_LOCALRANKID=5"),
        ({"PMI_LOCAL_RANK": "4", "QUIRE_BACKEND": "cuda"}, 0, "PMI_LOCAL_RANK=4"),
        ({"SLURM_LOCALID": "6", "QUIRE_DEVICE": "1"}, 1, None),
        ({"SLURM_LOCALID": "6", "QUIRE_DEVICE": "auto"}, 2, "SLURM_LOCALID=6"),
    )
    for settings, card, rank in cases:
        worker = Worker("open", QUIRE_EMULATOR_GPUS="4", **settings)
        info = worker.process.stdout.readline()
        assert worker.compress(FEW) == FEW
        lines = worker.end()
        assert f"compress on cuda:{card} (CPU in place of a GPU {card})" in lines, (settings, lines)
        chosen = f"GPU {card} of 4 for {rank}" if rank else f"GPU {card}"
        assert chosen in info, (settings, info)
        assert lines.count(f"QUIRE_DEVICE=auto: {chosen}") == (1 if rank else 0), (settings, lines)


def a_rank_without_a_driver_looks_for_it_once() -> None:
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(SLURM_LOCALID="1", LD_LIBRARY_PATH=folder, LD_DEBUG="libs", LD_DEBUG_OUTPUT=f"{folder}/looks")

        def looks() -> int:
            worker.looks_in_vain()
            text = Path(f"{folder}/looks.{worker.process.pid}").read_text(errors="replace")
            return text.count("find library=libcuda.so")

        first, later = looks(), looks()
        assert 0 < first == later, (first, later)
        worker.end()


def a_card_that_cannot_be_locked_is_used_and_that_is_said() -> None:
    worker = Worker("open")
    assert "as it cannot be locked" in worker.process.stdout.readline()
    assert worker.compress(FEW) == FEW
    lines = worker.end()
    assert any(line.startswith("no lock on the GPU, which other processes may be using: ") for line in lines), lines


# The byte of a card's file that a process locks which opens the card.
CLAIM = 64
# A process that has locks of a card's file until it is killed: that of the file, and those of bytes. It says when it has them.
HOLDER = """
import fcntl, os, signal, sys
from sharing import lock_byte
card = os.open(sys.argv[1], os.O_RDWR)
if "file" in sys.argv[2:]:
    fcntl.flock(card, fcntl.LOCK_EX)
for byte in sys.argv[2:]:
    if byte != "file":
        lock_byte(card, int(byte))
print("held", flush=True)
signal.pause()
"""


def lock_byte(card: int, byte: int) -> None:
    fcntl.fcntl(card, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, byte, 1, 0))  # F_OFD_SETLK


def is_byte_locked(card: int, byte: int) -> bool:
    """Looks, and locks nothing: a worker may be about to lock it."""
    answer = fcntl.fcntl(card, 36, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, byte, 1, 0))  # F_OFD_GETLK
    return struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK


def holder(card: str, places: int) -> subprocess.Popen[str]:
    """Has the first places of a card: the lock of the file, and those of bytes from 1 on."""
    return lock_holder(card, "file", *range(1, places))


def lock_holder(card: str, *locks: object) -> subprocess.Popen[str]:
    command, environment = [sys.executable, "-c", HOLDER, card, *map(str, locks)], {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    HOLDERS.append(process)
    assert process.stdout.readline() == "held\n"
    return process


def release(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def a_card_without_a_free_place_is_left_to_others() -> None:
    worker = Worker("open", QUIRE_EMULATOR_GPUS="2", QUIRE_DEVICE="1")
    assert "unless other processes keep it busy" in worker.process.stdout.readline()
    assert worker.compress(FEW, LATE) == FEW
    with open("/dev/nvidia1") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert worker.compress(FEW, LATE) == FEW, "the lock of another card"
    one = holder("/dev/nvidia0", 1)
    assert worker.compress(FEW, LATE) == FEW, "there is a second place"
    release(one)
    both = holder("/dev/nvidia0", 2)
    assert worker.compress(FEW, LATE) == 0, "others have both places of the card"
    forced = Worker("open", QUIRE_EMULATOR_GPUS="2", QUIRE_DEVICE="1", QUIRE_BACKEND="cuda")
    forced.process.stdout.readline()
    assert forced.compress(FEW) == FEW, "cuda asks nobody"
    release(both)
    assert worker.compress(FEW, LATE) == 0, "it leaves the card to others for a while"
    assert worker.compress(FEW, PAUSE) == FEW, "the other process was killed"
    forced.end()
    lines = worker.end()
    assert lines.count("compress on the CPU as well: other processes are using the GPU") == 1, lines
    assert len(lines) == 2, lines


def a_process_that_comes_back_soon_takes_both_places() -> None:
    card = "/dev/nvidia1"
    worker = Worker("open")
    worker.process.stdout.readline()
    assert worker.compress(FEW, SOON) == FEW
    one = holder(card, 1)
    assert worker.compress(FEW, SOON) == 0, "the second place is for a process that takes its time"
    assert worker.compress(FEW, PAUSE) == 0, "it had come back soon when it had been on the card last"
    release(one)
    assert worker.compress(FEW, PAUSE) == FEW
    one = holder(card, 1)
    assert worker.compress(FEW, LATE) == FEW, "it takes its time now"
    assert worker.compress(FEW, SOON) == 0, "and now it does not"
    release(one)
    worker.end()


def kernels_that_do_something_else_are_not_used() -> None:
    for kernel, verb in (("checksum_and_copy", "compress"), ("decode_lanes", "decompress")):
        worker = Worker("open", QUIRE_EMULATOR_BROKEN=kernel)
        assert f"they {verb} a trial chunk" in worker.process.stdout.readline()
        assert worker.compress(FEW) == 0, "the CPU has the chunks"
        [line] = worker.end()
        assert f"they {verb} a trial chunk" in line, line


def a_driver_before_the_kernels_version_of_cuda_is_not_used() -> None:
    worker = Worker("open", QUIRE_EMULATOR_CUDA="11080")
    assert "the NVIDIA driver is too old: it is of CUDA 11.8, and the kernels need one of CUDA " in worker.process.stdout.readline()
    assert worker.compress(FEW) == 0, "the CPU has the chunks"
    worker.end()


def workers_by_turns_lose_no_chunk() -> None:
    """Several at once: each chunk has the CPU's bytes, and the file is free in the end."""
    workers = [Worker("open") for _ in range(4)]
    for worker in workers:
        worker.process.stdout.readline()
        worker.begin_to_compress(50, work=WORK)
    counts = [worker.compressed() for worker in workers]
    for worker in workers:
        worker.end()
    # How many depends on who meets whom.
    assert 0 < sum(counts) <= 200, counts
    with open("/dev/nvidia1") as card:
        fcntl.flock(card, fcntl.LOCK_EX | fcntl.LOCK_NB)


def under_mps_a_card_has_more_places() -> None:
    worker = Worker("open", QUIRE_EMULATOR_MPS="1")
    assert "as processes share it by MPS" in worker.process.stdout.readline()
    for places, expected in ((15, FEW), (16, 0)):
        others = holder("/dev/nvidia1", places)
        assert worker.compress(FEW) == expected, (places, expected)
        release(others)
    assert worker.compress(FEW, PAUSE) == FEW
    worker.end()


def a_process_waits_with_opening_until_another_has_opened() -> None:
    """It goes on with the CPU meanwhile."""
    other = holder("/dev/nvidiactl", 1)
    worker = Worker()
    assert worker.compress(MANY, work=WORK) == 0 and worker.order("loaded") == "False"
    release(other)
    worker.opens()
    assert worker.compress(FEW) == FEW
    assert is_opened_by_nobody()
    assert "compress on the CPU: another process is opening a GPU" in worker.end()


def is_claimed(card: str) -> bool:
    with open(card, "r+b") as file:
        return is_byte_locked(file.fileno(), CLAIM)


def is_opened_by_nobody() -> bool:
    with open("/dev/nvidiactl") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def a_card_that_another_has_claimed_is_not_opened() -> None:
    """As long as somebody uses it."""
    used, claim = lock_holder("/dev/nvidia1", "file"), lock_holder("/dev/nvidia1", CLAIM)
    worker, other = Worker(gate=gate()), Worker(gate=gate())
    for process in (worker, other):
        process.looks_in_vain()
        assert process.order("loaded") == "True", "it has asked the driver for its card"
        assert process.compress(MANY, work=WORK) == 0 and is_opened_by_nobody()
    release(claim)
    assert worker.compress(FEW) == 0 and is_claimed("/dev/nvidia1") and not is_opened_by_nobody()
    worker.process.kill()
    lines = worker.end(-signal.SIGKILL)
    assert "compress on the CPU: other processes have the GPU open and keep it busy" in lines, lines
    assert not is_claimed("/dev/nvidia1")
    # The process that has the claim may have been stopped.
    claim = lock_holder("/dev/nvidia1", CLAIM)
    assert other.compress(FEW) == 0 and is_opened_by_nobody()
    release(used)
    # Each look is a pause behind the one before it.
    assert other.compress(90, PAUSE) == 0 and is_opened_by_nobody()
    assert other.compress(20, PAUSE) == 0 and not is_opened_by_nobody(), "the card is unused"
    release(claim)
    other.kill()


def reasons_that_come_and_go_are_said_once() -> None:
    """Threads that ask at one time may meet different ones."""
    used, claim = lock_holder("/dev/nvidia1", "file"), lock_holder("/dev/nvidia1", CLAIM)
    worker = Worker()
    worker.looks_in_vain()
    assert worker.compress(FEW) == 0
    for _ in range(2):
        other = holder("/dev/nvidiactl", 1)
        release(claim)
        assert worker.compress(FEW) == 0
        claim = lock_holder("/dev/nvidia1", CLAIM)
        release(other)
        assert worker.compress(FEW) == 0
    release(claim)
    release(used)
    lines = worker.end()
    for reason in ("the GPU is being opened", "another process is opening a GPU", "other processes have the GPU open and keep it busy"):
        assert lines.count(f"compress on the CPU: {reason}") == 1, lines


def a_process_keeps_its_claim_while_it_finds_no_place() -> None:
    places = holder("/dev/nvidia1", 2)
    worker = Worker()
    assert worker.compress(FEW + 1, work=WORK) == 0

    def has_opened() -> bool:
        worker.compress(1, work=WORK)
        return is_claimed("/dev/nvidia1") and is_opened_by_nobody()

    wait_until(has_opened)
    # The process looks ten times a second whether places are free.
    for _ in range(10):
        assert worker.compress(50, work=WORK) == 0
        # So that it can.
        time.sleep(0.02)
        assert is_claimed("/dev/nvidia1")
    release(places)
    assert worker.compress(FEW, PAUSE) == FEW

    def has_given_back() -> bool:
        assert worker.compress(1, work=WORK) == 1
        return not is_claimed("/dev/nvidia1")

    wait_until(has_given_back)
    worker.end()


FREE = (
    little_work_does_not_look_for_a_gpu,
    more_work_opens_it_beside_the_work,
    ranks_open_it_at_a_low_priority,
    ranks_on_busy_cores_open_it_later,
    a_process_may_exit_while_it_is_opened,
    a_signal_ends_a_process_while_it_is_opened,
    a_fork_while_it_is_opened_works_on_the_cpu,
    ranks_take_cards_by_turns,
    a_rank_without_a_driver_looks_for_it_once,
    a_card_that_cannot_be_locked_is_used_and_that_is_said,
    kernels_that_do_something_else_are_not_used,
    a_driver_before_the_kernels_version_of_cuda_is_not_used,
)
LOCKED = (
    a_card_without_a_free_place_is_left_to_others,
    a_process_that_comes_back_soon_takes_both_places,
    workers_by_turns_lose_no_chunk,
    under_mps_a_card_has_more_places,
    a_process_waits_with_opening_until_another_has_opened,
    a_card_that_another_has_claimed_is_not_opened,
    reasons_that_come_and_go_are_said_once,
    a_process_keeps_its_claim_while_it_finds_no_place,
)


def run_scene(library: str, clock: str, driver: str, name: str) -> None:
    """`clock` is c/set_clock.c, built; `driver` is the folder of the emulated driver. Scenes of LOCKED need the files that test_sharing.py makes."""
    global LIBRARY, CLOCK, DRIVER, EXPECTED, FOLDER
    LIBRARY, CLOCK, DRIVER = library, clock, driver
    cpu = Worker(QUIRE_BACKEND="cpu")
    EXPECTED = cpu.order("compress", 1, 0, 0).split()[1]
    cpu.end()
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = Path(folder)
        try:
            globals()[name]()
        finally:
            for process in HOLDERS:
                process.kill()
