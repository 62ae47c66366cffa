"""Processes that share GPUs, which are CPUs in disguise (gpu/emulator): who computes where, and what ends while a GPU is being opened.

    sharing.py LIBRARY DRIVER_FOLDER SCENE...   runs scenes; those of `LOCKED` need the files that `sharing.rs` makes
    sharing.py worker LIBRARY [open]            what the scenes start; takes orders from its input
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpu_filter import Filter
from quire_client import smooth

# 128 KiB, which are for a GPU. The slower of two cores takes about a millisecond for them.
CHUNK = smooth((32, 32, 32), "<f4")
LITTLE_WORK = "a GPU is opened after 50 ms of the CPU's work on chunks for it; in ranks of a job, while all cores are busy, after 5 s"
# Less than 50 ms of the CPU's work, and much more.
FEW, MANY = 4, 1000
SECONDS = 120
# Longer than a process that has found no place leaves the card to others.
PAUSE = 0.05
# A pause between chunks in which a process leaves the card to others.
SLOW = 0.005
# Longer than the trial of the kernels takes after the context was opened.
TRIAL = 0.5


# Processes that run until they are killed.
HOLDERS: list[subprocess.Popen[str]] = []


class Worker:
    """A process that compresses chunks when it is told to."""

    def __init__(self, *arguments: str, **settings: str) -> None:
        drop = ("QUIRE_", "SLURM_", "OMPI_", "PMI")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
        environment |= {"LD_LIBRARY_PATH": DRIVER, "QUIRE_LOG": "1", **settings}
        command = [sys.executable, __file__, "worker", LIBRARY, *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def order(self, *words: object) -> str:
        self.begin(*words)
        return self.answer()

    def begin(self, *words: object) -> None:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        answer = self.process.stdout.readline().strip()
        assert answer, self.process.communicate(timeout=SECONDS)
        return answer

    def compress(self, chunks: int, pause: float = 0) -> int:
        """Compresses the chunk again and again, to one stream, with pauses in between. How many of the calls were the GPU's."""
        launched, digest = self.order("compress", chunks, pause).split()
        assert digest == EXPECTED, "other bytes"
        return int(launched)

    def compress_until_it_opens(self) -> None:
        assert self.order("until") == "opening"

    def end(self, code: int = 0) -> list[str]:
        """What the plugin has logged."""
        _, stderr = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == code, (self.process.returncode, stderr)
        assert not re.search("the driver ends|panicked|Traceback", stderr), stderr
        return [line.removeprefix("H5Z-Quire: ") for line in stderr.splitlines() if line.startswith("H5Z-Quire: ")]


def work(library: str, *options: str) -> None:
    """A worker's side."""
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
            before, digests, pause = launched(), set(), float(arguments[1])
            for _ in range(int(arguments[0])):
                digests.add(hashlib.sha256(plugin.compress(CHUNK, 1e-3)[1].tobytes()).hexdigest())
                time.sleep(pause)
            print(launched() - before, *digests, flush=True)
        elif order == "hurry":
            # Nothing else between the chunks.
            before = launched()
            for _ in range(int(arguments[0])):
                plugin.compress(CHUNK, 1e-3)
            print(launched() - before, flush=True)
        elif order == "work":
            end = time.monotonic() + float(arguments[0])
            while time.monotonic() < end:
                plugin.compress(CHUNK, 1e-3)
            print("worked", flush=True)
        elif order == "until":
            end = time.monotonic() + SECONDS
            while not is_loaded() and time.monotonic() < end:
                plugin.compress(CHUNK, 1e-3)
            # The driver waits in the step that opens the context.
            time.sleep(0.2)
            print("opening" if is_loaded() else "not opened", flush=True)
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
            ctypes.CDLL(None).exit(0)


def is_loaded() -> bool:
    return "libcuda.so" in Path("/proc/self/maps").read_text()


def launched() -> int:
    """Recordings that the driver has launched in this process: one a chunk."""
    return ctypes.CDLL("libcuda.so.1", os.RTLD_NOLOAD | os.RTLD_NOW).quire_emulator_launched() if is_loaded() else 0


def few_chunks_do_not_look_for_a_gpu() -> None:
    worker = Worker()
    assert worker.compress(FEW) == 0 and worker.order("loaded") == "False"
    assert worker.end() == [f"compress on the CPU: {LITTLE_WORK}"]


def many_chunks_open_it_beside_the_work() -> None:
    worker = Worker(QUIRE_EMULATOR_OPENING="100")
    worker.compress_until_it_opens()
    time.sleep(TRIAL)
    assert worker.compress(FEW) == FEW
    lines = worker.end()
    assert lines[0].startswith("compress on the CPU: a GPU is opened after") and lines[1] == "compress on the CPU: the GPU is being opened", lines
    assert lines[-1] == "compress on cuda:0 (CPU in place of a GPU)", lines
    assert len(lines) <= 4, lines


def ranks_open_it_at_a_low_priority() -> None:
    """Whoever is no rank opens it at his own."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for settings, expected in (({}, own), ({"SLURM_LOCALID": "0"}, max(own, 10)), ({"SLURM_LOCALID": "0", "QUIRE_DEVICE": "0"}, own)):
        worker = Worker(QUIRE_EMULATOR_OPENING="700", **settings)
        worker.compress_until_it_opens()
        tasks = Path(f"/proc/{worker.process.pid}/task")
        found = {task.joinpath("comm").read_text().strip(): os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in tasks.iterdir()}
        assert found["quire-open"] == expected, (settings, found)
        assert os.getpriority(os.PRIO_PROCESS, worker.process.pid) == own, "the program's own thread"
        worker.end()


def ranks_on_busy_cores_open_it_later() -> None:
    """Each chunk then counts a hundredth, so that a second of work is not enough."""
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    HOLDERS.extend(spinners)
    time.sleep(0.2)
    # A sandbox may not say how many threads run.
    busy = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) >= os.cpu_count()
    for settings, opens in (({}, True), ({"SLURM_LOCALID": "0"}, not busy), ({"SLURM_LOCALID": "0", "QUIRE_DEVICE": "0"}, True)):
        worker = Worker(QUIRE_EMULATOR_OPENING="60000", **settings)
        # By time, not by chunks: how long a chunk takes depends on the cores and on what else they do.
        assert worker.order("work", 1) == "worked" and (worker.order("loaded") == "True") == opens, settings
        worker.process.kill()
        worker.end(-signal.SIGKILL)
    for spinner in spinners:
        spinner.kill()
        spinner.wait()


def a_process_may_exit_while_it_is_opened() -> None:
    worker = Worker(QUIRE_EMULATOR_OPENING="700")
    worker.compress_until_it_opens()
    worker.begin("exit")
    worker.end()


def a_signal_ends_a_process_while_it_is_opened() -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        worker = Worker(QUIRE_EMULATOR_OPENING="60000")
        worker.compress_until_it_opens()
        start = time.monotonic()
        worker.process.send_signal(number)
        worker.end(-number)
        assert time.monotonic() - start < 10


def a_fork_while_it_is_opened_works_on_the_cpu() -> None:
    worker = Worker(QUIRE_EMULATOR_OPENING="700")
    worker.compress_until_it_opens()
    assert worker.order("fork") == "0", "the child used a GPU, or did not end in order"
    time.sleep(0.7 + TRIAL)
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
            assert worker.compress(MANY) == 0
            text = Path(f"{folder}/looks.{worker.process.pid}").read_text(errors="replace")
            return text.count("find library=libcuda.so")

        # Later where all cores are busy.
        end = time.monotonic() + SECONDS
        while looks() == 0 and time.monotonic() < end:
            pass
        # The thread that looks may be at it.
        time.sleep(TRIAL)
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
import fcntl, os, sys, time
from sharing import lock_byte
card = os.open(sys.argv[1], os.O_RDWR)
if "file" in sys.argv[2:]:
    fcntl.flock(card, fcntl.LOCK_EX)
for byte in sys.argv[2:]:
    if byte != "file":
        lock_byte(card, int(byte))
print("held", flush=True)
time.sleep(600)
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
    command, environment = [sys.executable, "-c", HOLDER, card, *map(str, locks)], {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    HOLDERS.append(process)
    assert process.stdout.readline() == "held\n"
    return process


def a_card_without_a_free_place_is_left_to_others() -> None:
    worker = Worker("open", QUIRE_EMULATOR_GPUS="2", QUIRE_DEVICE="1")
    assert "unless other processes keep it busy" in worker.process.stdout.readline()
    assert worker.compress(FEW) == FEW
    with open("/dev/nvidia1") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert worker.compress(FEW) == FEW, "the lock of another card"
    one = holder("/dev/nvidia0", 1)
    assert worker.compress(FEW, SLOW) == FEW, "there is a second place"
    one.kill()
    one.wait()
    both = holder("/dev/nvidia0", 2)
    assert worker.compress(FEW) == 0, "others have both places of the card"
    forced = Worker("open", QUIRE_EMULATOR_GPUS="2", QUIRE_DEVICE="1", QUIRE_BACKEND="cuda")
    forced.process.stdout.readline()
    assert forced.compress(FEW) == FEW, "cuda asks nobody"
    both.kill()
    both.wait()
    time.sleep(PAUSE)
    assert worker.compress(FEW) == FEW, "the other process was killed"
    forced.end()
    lines = worker.end()
    assert lines.count("compress on the CPU as well: other processes are using the GPU") == 1, lines
    assert len(lines) == 2, lines


def a_process_that_comes_back_soon_takes_both_places() -> None:
    card = "/dev/nvidia1"
    worker = Worker("open")
    worker.process.stdout.readline()

    def has_second_place() -> bool:
        """While the worker has both: nobody else uses the card."""
        worker.begin("hurry", 10 * FEW)
        with open(card, "r+b") as file:
            seen = 0
            while not select.select([worker.process.stdout], [], [], 0.001)[0]:
                seen += is_byte_locked(file.fileno(), 1)
        assert worker.answer() == str(10 * FEW)
        return seen > 0

    end = time.monotonic() + SECONDS
    while not has_second_place() and time.monotonic() < end:
        pass
    assert has_second_place()
    one = holder(card, 1)
    # The first chunk, for which it took its time, may go there. A pause follows for the others, as long as it hurries.
    while int(worker.order("hurry", FEW)) == FEW and time.monotonic() < end:
        time.sleep(PAUSE)
    assert int(worker.order("hurry", FEW)) < FEW, "the second place is for who takes his time"
    time.sleep(PAUSE)
    one.kill()
    one.wait()
    assert worker.compress(FEW, SLOW) == FEW
    one = holder(card, 1)
    assert worker.compress(FEW, SLOW) == FEW, "it takes its time now"
    one.kill()
    one.wait()
    worker.end()


def kernels_that_do_something_else_are_not_used() -> None:
    for kernel, verb in (("checksum_and_copy", "compress"), ("decode_lanes", "decompress")):
        worker = Worker("open", QUIRE_EMULATOR_BROKEN=kernel)
        assert f"they {verb} a trial chunk" in worker.process.stdout.readline()
        assert worker.compress(FEW) == 0, "the CPU has the chunks"
        [line] = worker.end()
        assert f"they {verb} a trial chunk" in line, line


def workers_by_turns_lose_no_chunk() -> None:
    """Several at once: each chunk has the CPU's bytes, and the file is free in the end."""
    workers = [Worker("open") for _ in range(4)]
    for worker in workers:
        worker.process.stdout.readline()
        worker.begin("compress", 50, 0)
    counts = []
    for worker in workers:
        launched, digest = worker.answer().split()
        assert digest == EXPECTED
        counts.append(int(launched))
        worker.end()
    assert 0 < sum(counts) < 200, counts
    with open("/dev/nvidia1") as card:
        fcntl.flock(card, fcntl.LOCK_EX | fcntl.LOCK_NB)


def under_mps_a_card_has_more_places() -> None:
    worker = Worker("open", QUIRE_EMULATOR_MPS="1")
    assert "as processes share it by MPS" in worker.process.stdout.readline()
    for places, expected in ((15, FEW), (16, 0)):
        others = holder("/dev/nvidia1", places)
        assert worker.compress(FEW) == expected, (places, expected)
        others.kill()
        others.wait()
    time.sleep(PAUSE)
    assert worker.compress(FEW) == FEW
    worker.end()


def a_process_waits_with_opening_until_another_has_opened() -> None:
    """It goes on with the CPU meanwhile."""
    gate = holder("/dev/nvidiactl", 1)
    worker = Worker()
    assert worker.compress(MANY) == 0 and worker.order("loaded") == "False"
    gate.kill()
    gate.wait()
    worker.compress_until_it_opens()
    time.sleep(TRIAL)
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
    worker, other = (Worker(QUIRE_EMULATOR_OPENING="60000") for _ in range(2))
    for process in (worker, other):
        assert process.compress(MANY) == 0 and process.order("loaded") == "True", "it has asked the driver for its card"
        assert process.compress(MANY) == 0 and is_opened_by_nobody()
    claim.kill()
    claim.wait()
    # It takes a minute to open it.
    assert worker.compress(FEW) == 0 and is_claimed("/dev/nvidia1") and not is_opened_by_nobody()
    worker.process.kill()
    lines = worker.end(-signal.SIGKILL)
    assert "compress on the CPU: other processes have the GPU open and keep it busy" in lines, lines
    assert not is_claimed("/dev/nvidia1")
    # The process that has the claim may have been stopped.
    claim = lock_holder("/dev/nvidia1", CLAIM)
    assert other.compress(FEW) == 0 and is_opened_by_nobody()
    used.kill()
    used.wait()
    end = time.monotonic() + SECONDS
    while is_opened_by_nobody() and time.monotonic() < end:
        assert other.compress(MANY // 10) == 0
    assert not is_opened_by_nobody(), "the card is unused"
    for process in (claim, other.process):
        process.kill()
        process.wait()


def reasons_that_come_and_go_are_said_once() -> None:
    """Threads that ask at one time may meet different ones."""
    used, claim = lock_holder("/dev/nvidia1", "file"), lock_holder("/dev/nvidia1", CLAIM)
    worker = Worker()
    assert worker.compress(MANY) == 0
    for _ in range(2):
        gate = holder("/dev/nvidiactl", 1)
        claim.kill()
        claim.wait()
        assert worker.compress(FEW) == 0
        claim = lock_holder("/dev/nvidia1", CLAIM)
        gate.kill()
        gate.wait()
        assert worker.compress(FEW) == 0
    for process in (claim, used):
        process.kill()
        process.wait()
    lines = worker.end()
    for reason in ("the GPU is being opened", "another process is opening a GPU", "other processes have the GPU open and keep it busy"):
        assert lines.count(f"compress on the CPU: {reason}") == 1, lines


def a_process_keeps_its_claim_while_it_finds_no_place() -> None:
    places = holder("/dev/nvidia1", 2)
    worker = Worker()
    # Without a pause, and for longer than the looks below take: a process without chunks gives its claim back.
    worker.begin("work", 10 * TRIAL)
    end = time.monotonic() + SECONDS
    while not is_claimed("/dev/nvidia1") and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(TRIAL)
    for _ in range(10):
        assert is_claimed("/dev/nvidia1")
        time.sleep(PAUSE)
    assert worker.answer() == "worked" and worker.compress(FEW) == 0
    places.kill()
    places.wait()
    time.sleep(PAUSE)
    assert worker.compress(FEW) == FEW
    while is_claimed("/dev/nvidia1") and time.monotonic() < end:
        assert worker.compress(FEW) == FEW
    assert not is_claimed("/dev/nvidia1")
    worker.end()


FREE = (
    few_chunks_do_not_look_for_a_gpu,
    many_chunks_open_it_beside_the_work,
    ranks_open_it_at_a_low_priority,
    ranks_on_busy_cores_open_it_later,
    a_process_may_exit_while_it_is_opened,
    a_signal_ends_a_process_while_it_is_opened,
    a_fork_while_it_is_opened_works_on_the_cpu,
    ranks_take_cards_by_turns,
    a_rank_without_a_driver_looks_for_it_once,
    a_card_that_cannot_be_locked_is_used_and_that_is_said,
    kernels_that_do_something_else_are_not_used,
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


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        work(*sys.argv[2:])
    else:
        LIBRARY, DRIVER, kind = sys.argv[1:]
        EXPECTED = ""
        cpu = Worker(QUIRE_BACKEND="cpu")
        EXPECTED = cpu.order("compress", 1, 0).split()[1]
        cpu.end()
        try:
            for scene in {"free": FREE, "locked": LOCKED}[kind]:
                start = time.monotonic()
                scene()
                print(f"{scene.__name__.replace('_', ' ')}: {time.monotonic() - start:.1f} s", flush=True)
        finally:
            for process in HOLDERS:
                process.kill()
        print("done")
