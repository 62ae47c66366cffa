"""Checks the plugin on a GPU: see plugin-tests/gpu.sh, which runs this.

    gpu_checks.py LIBRARY

Each check is a function, each client a process. A line a check, then the numbers of passed and failed ones.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Iterator

import h5py

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
# After which a client counts as hanging, also beside much other work.
SECONDS = 3600
# What `auto` does where it has opened the GPU: `sharing.py` tests when it does.
OPEN = {"QUIRE_TEST_OPEN": "1"}
CPU, CUDA, LOG = {"QUIRE_BACKEND": "cpu"}, {"QUIRE_BACKEND": "cuda"}, {"QUIRE_LOG": "1", **OPEN}
ON_GPU = re.compile(r"^H5Z-Quire: (compress|decompress) on cuda:\d+ \(.+\)$")
FORCED = "QUIRE_BACKEND=cuda, but "

Check = Callable[[str, Path], str]


class Skipped(Exception):
    """A check that cannot be made here, with the reason."""


class Ended:
    """A client that has ended, with what it said."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stdout, self.stderr = code, stdout, stderr
        # A machine may not say which device file a card has: that is another matter.
        lines = (line for line in stderr.splitlines() if "no lock on the GPU, which other processes may be using" not in line)
        self.log = [line for line in lines if line.startswith("H5Z-Quire: ")]

    def __str__(self) -> str:
        return f"code {self.code}; stdout: {self.stdout.strip()!r}; stderr: {self.stderr.strip()!r}"


def start(settings: dict[str, str], script: str, *arguments: object) -> subprocess.Popen:
    """A client that is spoken to: a script of this folder, or a module by `-m`."""
    command = [sys.executable, script if script == "-m" else str(HERE / script), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, **settings}, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def end(process: subprocess.Popen, last_word: str = "") -> Ended:
    """Waits for a client."""
    try:
        stdout, stderr = process.communicate(last_word, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        raise AssertionError(f"{process.args} hung: {stdout!r} {stderr!r}") from None
    return Ended(process.returncode, stdout, stderr)


def client(settings: dict[str, str], script: str, *arguments: object) -> Ended:
    """A client that must end with 0."""
    ended = end(start(settings, script, *arguments))
    assert ended.code == 0, f"{script} {arguments} under {settings}: {ended}"
    return ended


def must_say(ended: Ended, *texts: str) -> None:
    for text in texts:
        assert text in ended.stdout or text in ended.stderr, f"{text!r} was not said: {ended}"


def must_log(ended: Ended, *patterns: str) -> None:
    """The log is these lines, each a pattern from its start."""
    assert len(ended.log) == len(patterns), f"{len(patterns)} lines of log are expected: {ended}"
    for line, pattern in zip(ended.log, patterns):
        assert re.match(f"H5Z-Quire: {pattern}", line), f"{line!r} is not {pattern!r}"


def need_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise Skipped("torch is not installed, and fills the GPU's memory")


# The same bytes


def raw_chunks(path: Path) -> dict[tuple[str, tuple[int, ...]], bytes]:
    """Every chunk of every compressed dataset as it is stored."""
    found = {}
    with h5py.File(path, "r") as file:

        def visit(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and item.chunks and item.id.get_create_plist().get_nfilters():
                for index in range(item.id.get_num_chunks()):
                    info = item.id.get_chunk_info(index)
                    assert info.filter_mask == 0, f"{path.name}: {name}: the chunk at {info.chunk_offset} is not compressed"
                    found[name, info.chunk_offset] = item.id.read_direct_chunk(info.chunk_offset)[1]

        file.visititems(visit)
    return found


def same_bytes(folder: Path, script: str) -> str:
    """Files from both processors have the same chunks, and both read the other's."""
    files = {name: folder / f"{name}_{script}.h5" for name in ("cuda", "cpu")}
    written = client({**CUDA, **LOG}, script, "write", files["cuda"])
    assert written.log and all(map(ON_GPU.match, written.log)), written
    client(CPU, script, "write", files["cpu"])
    chunks = {name: raw_chunks(file) for name, file in files.items()}
    assert chunks["cuda"].keys() == chunks["cpu"].keys() and chunks["cpu"], "other chunks"
    differ = [key for key, raw in chunks["cuda"].items() if raw != chunks["cpu"][key]]
    assert not differ, f"{len(differ)} of {len(chunks['cpu'])} chunks differ, the first is {differ[0]}"
    client(CPU, script, "check", files["cuda"])
    read = client({**CUDA, **LOG}, script, "check", files["cpu"])
    assert read.log and all(map(ON_GPU.match, read.log)), read
    return f"{len(chunks['cpu'])} chunks, {sum(map(len, chunks['cpu'].values()))} bytes, written by each and read by the other"


def large_chunks_are_the_same(_: str, folder: Path) -> str:
    return same_bytes(folder, "gpu_client.py")


def every_rank_and_content_is_the_same(_: str, folder: Path) -> str:
    return same_bytes(folder, "round_trip.py")


def codebook_policies_are_the_same(_: str, folder: Path) -> str:
    for policy in ("dictionary", "custom"):
        files = []
        for backend in (CUDA, CPU):
            files.append(folder / f"{policy}_{backend['QUIRE_BACKEND']}.h5")
            must_say(client({**backend, "QUIRE_CODEBOOK": policy}, "backend.py", "write", files[-1]), "write: done")
        assert raw_chunks(files[0]) == raw_chunks(files[1]), f"{policy}: chunks differ"
    return "dictionary and custom"


def other_clients_on_the_gpu(_: str, folder: Path) -> str:
    """The scripts that test the CPU, with every chunk on the GPU."""
    samples = sorted((HERE.parent.parent / "h5-samples").glob("v*.h5"))
    scripts = [("fill_value.py", folder), ("rewrite.py", "rows", folder), ("rewrite.py", "settings", folder)]
    scripts += [("-m", "pytest", REPOSITORY / "streams" / "tests" / "test_damaged.py")]
    scripts += [("float_environment.py", folder), ("samples.py", *samples)]
    path = folder / "processes.h5"
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = [pool.submit(client, CUDA, script, *arguments) for script, *arguments in scripts]
        client(CUDA, "round_trip.py", "write", path)
        client(CUDA, "processes.py", "threads", path)
        client(OPEN, "processes.py", "fork", path)
        for each in running:
            each.result()
    return f"damage, fill values, rewriting, floating-point modes, {len(samples)} sample files, threads, forks"


# What runs where


def auto_takes_the_gpu_for_large_chunks_alone(_: str, folder: Path) -> str:
    path, small = folder / "auto.h5", r"on the CPU: chunks below \d+ bytes are no gain for the GPU$"
    for what, direction in (("write", "compress"), ("read", "decompress")):
        ended = client(LOG, "backend.py", what, path)
        must_say(ended, f"{what}: done")
        must_log(ended, f"{direction} {small}", rf"{direction} on cuda:0 \(.+\)$")
    silent = client({}, "backend.py", "read", path)
    must_log(silent)
    return ended.log[0]


def hidden_gpus_are_a_reason(_: str, folder: Path) -> str:
    path = folder / "hidden.h5"
    for settings, reason in (
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_ERROR_NO_DEVICE"),
        ({"QUIRE_DEVICE": "63"}, "there is no GPU 63"),
        ({"QUIRE_DEVICE": "64"}, "there is no GPU 64"),
    ):
        ended = client({**settings, **LOG}, "backend.py", "write", path)
        must_say(ended, "write: done", "compress on the CPU: ", reason)
        must_say(client({**settings, **CUDA}, "backend.py", "read", path), "read: error", FORCED, reason)
        must_say(client({**settings, **CUDA}, "backend.py", "write", folder / "none.h5"), "write: error", FORCED, reason)
    return "CUDA_VISIBLE_DEVICES empty, QUIRE_DEVICE=63 and 64"


def a_forked_child_works_on_the_cpu(_: str, folder: Path) -> str:
    path, reason = folder / "fork.h5", r"this process was forked from process \d+"
    ended = client(LOG, "gpu_client.py", "fork", path)
    must_say(ended, "child: done", "child ended with 0")
    assert ended.stdout.count("parent: done") == 2, ended
    here = [r"compress on cuda:0 \(.+\)$", r"decompress on cuda:0 \(.+\)$"]
    must_log(ended, *here, f"compress on the CPU: {reason}", f"decompress on the CPU: {reason}")
    forced = client(CUDA, "gpu_client.py", "fork", path)
    assert re.search(f"child: error: .*{FORCED}{reason}", forced.stdout), forced
    assert forced.stdout.count("parent: done") == 2, forced
    return "child on the CPU, parent on the GPU before and after; an error where cuda is demanded"


def a_file_that_is_not_closed(_: str, folder: Path) -> str:
    """HDF5 writes the last chunks while the process ends, perhaps after CUDA has ended."""
    path = folder / "exit.h5"
    ended = client(LOG, "gpu_client.py", "exit", path)
    with h5py.File(path, "r") as file:
        stored = file["x"].id.get_num_chunks()
    assert stored == 2, f"{stored} chunks of 2 are in the file"
    assert all(mask.startswith(b"QUI") for mask in raw_chunks(path).values())
    return ended.log[-1] if ended.log else "nothing in the log"


def driver_library() -> Path:
    """The driver's file, as the loader finds it."""
    name = "libcuda.so.1"
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder and (Path(folder) / name).is_file():
            return (Path(folder) / name).resolve()
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"{re.escape(name)} \(.*x86-64.*\) => (.+)", listed)
    if found is None:
        raise Skipped("the driver's library is not in the loader's cache")
    return Path(found[1]).resolve()


def failing_driver(library: str, folder: Path) -> dict[str, str]:
    """The environment of a process whose driver fails: see plugin-tests/c/failing_cuda.c."""
    shim = Path(library).with_name("failing_cuda") / "libcuda.so.1"
    if not shim.is_file():
        raise Skipped(f"there is no {shim}: `gpu/device.sh pack` makes it")
    beside = folder / "failing_cuda"
    if not beside.is_dir():
        driver = driver_library()
        beside.mkdir()
        shutil.copy(shim, beside)
        # Whichever name is looked for first.
        (beside / "libcuda.so").symlink_to("libcuda.so.1")
        (beside / "libcuda_real.so").symlink_to(driver)
    return {"LD_LIBRARY_PATH": str(beside)}


def a_launch_that_fails(library: str, folder: Path) -> str:
    """The chunk goes to the CPU, so do all that follow, and the reason is told: for a launch of the trial when the GPU is opened, and for a later one."""
    failing, path = failing_driver(library, folder), folder / "failing.h5"
    fails = r"on the CPU: .*CUDA_ERROR_LAUNCH_FAILED"

    def allow(launches: int) -> dict[str, str]:
        return {**failing, "QUIRE_TEST_LAUNCHES": str(launches)}

    trial = int(client({**CUDA, **allow(1 << 30)}, "gpu_client.py", "launches", library).stdout)
    assert trial > 0, "opening a GPU launches nothing"
    # A launch a chunk: the second chunk's fails.
    later = client({**LOG, **allow(trial + 1)}, "gpu_client.py", "write", path)
    must_log(later, r"compress on cuda:0 \(.+\)$", f"compress {fails}", "compress on the CPU: the GPU failed earlier in this process: .*LAUNCH_FAILED")
    client(CPU, "gpu_client.py", "check", path)
    for launches in (0, trial - 1):
        # In the first launch of the trial, and in the last one.
        opening = client({**LOG, **allow(launches)}, "backend.py", "write", path)
        must_log(opening, "compress on the CPU: chunks below", f"compress {fails}")
        for what in ("write", "read"):
            forced = client({**CUDA, **allow(launches)}, "backend.py", what, path if what == "read" else folder / "none.h5")
            must_say(forced, f"{what}: error", FORCED, "CUDA_ERROR_LAUNCH_FAILED")
    # Without QUIRE_LOG it is said as well, and once.
    for launches in (0, trial - 1, trial + 1):
        silent = client({**OPEN, **allow(launches)}, "backend.py", "write", path)
        must_log(silent, f"compress {fails}")
    return f"{trial} launches in opening; {later.log[1].removeprefix('H5Z-Quire: ')}"


def a_gpu_that_fails_under_cuda(library: str, folder: Path) -> str:
    """The chunk is stored, where HDF5 would lose it and crash when it closes the file. The next dataset is refused."""
    failing, path = failing_driver(library, folder), folder / "stored.h5"
    trial = int(client({**CUDA, **failing, "QUIRE_TEST_LAUNCHES": str(1 << 30)}, "gpu_client.py", "launches", library).stdout)
    ended = client({**CUDA, **failing, "QUIRE_TEST_LAUNCHES": str(trial + 1)}, "gpu_client.py", "fails", path)
    must_log(ended, f"{FORCED}.*CUDA_ERROR_LAUNCH_FAILED.*; the chunk is stored uncompressed$")
    found = re.search(r"stored bytes: \[(\d+), (\d+)\]", ended.stdout)
    assert found and int(found[1]) < 1 << 20 < 2 << 20 < int(found[2]) <= (2 << 20) + 100, ended
    assert re.search(f"next dataset: .*{FORCED}the GPU failed earlier in this process: .*LAUNCH_FAILED", ended.stdout), ended
    must_say(ended, "closed")
    must_say(client(CPU, "gpu_client.py", "check_failed", path), "done")
    must_say(client({**CUDA, **failing, "QUIRE_TEST_LAUNCHES": str(trial)}, "gpu_client.py", "check_failed", path), "error: ", FORCED)
    return found[0]


# Arrays in the GPU's memory


def install_package(library: str, folder: Path) -> Path:
    """The Python package as a wheel would install it: its sources, the plugin, and metadata. The folder for PYTHONPATH."""
    packages = folder / "packages"
    metadata = packages / "h5z_quire-0.dist-info"
    shutil.copytree(REPOSITORY / "python" / "src" / "h5z_quire", packages / "h5z_quire", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "h5z_quire" / "plugins").mkdir()
    shutil.copy(library, packages / "h5z_quire" / "plugins")
    metadata.mkdir()
    # Nobody here asks which version it is. zarr finds the codec by its name.
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: h5z-quire\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("[zarr.codecs]\nquire = h5z_quire.zarr:QuireCodec\n")
    return packages


def arrays_of_every_library(library: str, folder: Path) -> str:
    """The Python package's tests of arrays in a GPU's memory: of CuPy, Numba, PyTorch and JAX, where these are installed, and of the driver alone."""
    if importlib.util.find_spec("pytest") is None:
        raise Skipped("pytest is not installed, and runs these tests")
    path = os.pathsep.join(filter(None, (str(install_package(library, folder)), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_device_arrays.py"]
    # Plugins of pytest that libraries bring along need more than is here.
    settings = {**os.environ, "PYTHONPATH": path, "QUIRE_REQUIRE_CUDA": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(command, cwd=REPOSITORY / "python", env=settings, capture_output=True, text=True, timeout=SECONDS)
    assert ended.returncode == 0, f"code {ended.returncode}\n{ended.stdout}{ended.stderr}"
    skipped = [line for line in ended.stdout.splitlines() if line.startswith("SKIPPED")]
    return "; ".join([ended.stdout.splitlines()[-1], *skipped])


# Memory


def first_line(process: subprocess.Popen, start_of_line: str) -> str:
    """The line of a client that starts like this, before which it may say other things."""
    said = []
    while line := process.stdout.readline():
        said.append(line.strip())
        if said[-1].startswith(start_of_line):
            return said[-1]
    raise AssertionError(f"{start_of_line!r} was not said: {said}; {end(process)}")


def works_again(process: subprocess.Popen) -> Ended:
    """Has a client use the filter once more, when a GPU without memory is tried again."""
    ended = end(process, "\n")
    assert ended.code == 0, ended
    must_say(ended, "free again: done")
    return ended


def memory_taken_by_this_process(_: str, folder: Path) -> str:
    need_torch()
    path, waiting, lines = folder / "memory.h5", [], []
    # 40 MiB suffice for the kernels and not for a session; 0 perhaps not even for the kernels. One process after the other takes the memory, and all wait
    # together until the GPU is tried again.
    for leave in (0, 40):
        waiting.append(start(LOG, "gpu_client.py", "memory", path, leave))
        first_line(waiting[-1], "full: done")
    told = client(OPEN, "gpu_client.py", "full_memory", path, 0)
    must_say(told, "full: done")
    assert told.log and "OUT_OF_MEMORY" in told.log[0], f"without QUIRE_LOG it is said as well: {told}"
    waiting.append(start(CUDA, "gpu_client.py", "memory_for_reading", path, 0))
    line = first_line(waiting[-1], "full: ")
    assert line.startswith("full: error: ") and FORCED in line and "OUT_OF_MEMORY" in line, line
    # With `auto`, a GPU that another process uses is left to that.
    for ended in map(works_again, waiting[:2]):
        lines.append(next((line for line in ended.log if "on the CPU" in line), "no reason"))
        assert ON_GPU.match(ended.log[-1]), f"the GPU is not used again: {ended}"
    works_again(waiting[2])
    assert "OUT_OF_MEMORY" in lines[0], lines
    return " | ".join(lines)


def memory_taken_by_another_process(_: str, folder: Path) -> str:
    need_torch()
    holder = start({}, "gpu_client.py", "hold")
    try:
        first_line(holder, "ready")
        unforced, forced = (start(settings, "gpu_client.py", "wait", folder / name) for settings, name in ((LOG, "other.h5"), (CUDA, "forced.h5")))
        lines = [first_line(process, "full: ") for process in (unforced, forced)]
    finally:
        end(holder, "\n")
    assert lines[0] == "full: done", lines
    assert lines[1].startswith("full: error: ") and FORCED in lines[1] and "OUT_OF_MEMORY" in lines[1], lines
    ended = works_again(unforced)
    assert ON_GPU.match(ended.log[-1]), f"the GPU is not used again: {ended}"
    assert "OUT_OF_MEMORY" in ended.log[0], ended
    works_again(forced)
    return ended.log[0]


# Many at once


def four_processes_at_once(library: str, _: Path) -> str:
    times = 25

    def run(processes: int, calls: int, settings: dict[str, str]) -> tuple[float, set[str]]:
        running = [start(settings, "gpu_client.py", "calls", library, calls) for _ in range(processes)]
        for process in running:
            assert process.stdout.readline().strip() == "ready", end(process)
        begin = time.perf_counter()
        for process in running:
            process.stdin.write("\n")
            process.stdin.flush()
        results = [process.stdout.readline() for process in running]
        seconds = time.perf_counter() - begin
        ended = [end(process) for process in running]
        assert all(each.code == 0 for each in ended), " / ".join(map(str, ended))
        return seconds, {json.loads(result)["digest"] for result in results}

    expected = run(1, 1, CPU)[1]
    alone, digest_alone = run(1, 4 * times, CUDA)
    together, digests = run(4, times, CUDA)
    assert digests == digest_alone == expected, "not the CPU's bytes"
    return f"{4 * times} chunks of 8 MiB to and fro: {together:.3f} s by 4 processes, {alone:.3f} s by one"


def processes_that_open_it_while_others_send_long_chunks(library: str, _: Path) -> str:
    """The GPU's copies are late then. Kernels that did not wait for their tables failed the trial in 6 of 124 processes on an H100."""
    others, openings = 12, 32
    # They send 16 MiB a call, and are killed long before that number of calls.
    busy = [start(CUDA, "gpu_client.py", "calls", library, 1_000_000) for _ in range(others)]
    try:
        for process in busy:
            assert process.stdout.readline().strip() == "ready", end(process)
        for process in busy:
            process.stdin.write("\n")
            process.stdin.flush()
        with ThreadPoolExecutor(4) as pool:
            ended = list(pool.map(lambda _: end(start(CUDA, "gpu_client.py", "calls", library, 1), "\n"), range(openings)))
        assert all(process.poll() is None for process in busy), "the others ended before"
    finally:
        for process in busy:
            process.kill()
            process.communicate()
    failed = [each for each in ended if each.code != 0]
    assert not failed, f"{len(failed)} of {openings}: {failed[0]}"
    return f"{openings} processes beside {others} others"


def four_processes_under_mps(library: str, folder: Path) -> str:
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        raise Skipped("there is no nvidia-cuda-mps-control")
    settings = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
    environment = {**os.environ, **settings}
    started = subprocess.run([control, "-d"], env=environment, capture_output=True, text=True, timeout=SECONDS)
    if started.returncode != 0:
        raise Skipped(f"MPS does not start: {started.stdout}{started.stderr}")
    try:
        running = [start({**CUDA, **LOG, **settings}, "round_trip.py", "write", folder / f"mps{number}.h5") for number in range(4)]
        ended = [end(process) for process in running]
        served = subprocess.run([control], input="get_server_list", env=environment, capture_output=True, text=True, timeout=SECONDS)
    finally:
        subprocess.run([control], input="quit", env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert all(each.code == 0 and all(map(ON_GPU.match, each.log)) for each in ended), " / ".join(map(str, ended))
    assert served.stdout.strip(), f"no process was served by MPS: {served.stderr}"
    client(CPU, "round_trip.py", "write", folder / "cpu.h5")
    expected = raw_chunks(folder / "cpu.h5")
    assert all(raw_chunks(folder / f"mps{number}.h5") == expected for number in range(4)), "not the CPU's bytes"
    return f"{len(expected)} chunks by each of 4 processes, server {served.stdout.strip()}"


def eight_threads_at_once(library: str, _: Path) -> str:
    times = 12
    ended = client({**CUDA, **LOG}, "gpu_client.py", "threads", library, times)
    report = json.loads(ended.stdout)
    assert report["same"], "threads get other bytes than one alone"
    expected = json.loads(client(CPU, "gpu_client.py", "threads", library, 1).stdout)["digests"]
    assert report["digests"] == expected, "not the CPU's bytes"
    return f"{8 * times} chunks of 8 MiB to and fro: {report['together']:.3f} s by 8 threads, {report['alone']:.3f} s by one"


def arrays_in_the_gpus_memory(library: str, folder: Path) -> str:
    return client({}, "resident.py", library, folder).stdout.strip()


def faults_of_arrays_in_the_gpus_memory(library: str, folder: Path) -> str:
    return client(failing_driver(library, folder), "resident_faults.py", library, folder).stdout.strip()


def warm_calls_only_work(library: str, _: Path) -> str:
    report = json.loads(client(CUDA, "gpu_client.py", "warm", library).stdout)
    assert report["before"] == report["after"], report
    milliseconds = {name: 1000 * report[name] for name in ("first", "compress", "decompress", "slowest")}
    assert max(milliseconds["compress"], milliseconds["decompress"]) < milliseconds["first"] / 10, milliseconds
    return "64^3 chunk, ms: " + ", ".join(f"{name} {value:.3f}" for name, value in milliseconds.items()) + f"; {report['after']}"


CHECKS: tuple[Check, ...] = (
    large_chunks_are_the_same,
    every_rank_and_content_is_the_same,
    codebook_policies_are_the_same,
    other_clients_on_the_gpu,
    auto_takes_the_gpu_for_large_chunks_alone,
    hidden_gpus_are_a_reason,
    a_forked_child_works_on_the_cpu,
    a_file_that_is_not_closed,
    a_launch_that_fails,
    a_gpu_that_fails_under_cuda,
    memory_taken_by_this_process,
    memory_taken_by_another_process,
    four_processes_at_once,
    processes_that_open_it_while_others_send_long_chunks,
    four_processes_under_mps,
    eight_threads_at_once,
    arrays_in_the_gpus_memory,
    faults_of_arrays_in_the_gpus_memory,
    warm_calls_only_work,
    arrays_of_every_library,
)


def obstacle(folder: Path) -> str:
    """Why there is nothing to test; empty if there is a GPU."""
    ended = client(LOG, "backend.py", "write", folder / "probe.h5")
    must_say(ended, "write: done")
    return "" if any(ON_GPU.match(line) for line in ended.log) else "; ".join(ended.log[-1:]) or "the plugin wrote no log"


def run_all(library: str, folder: Path, chosen: list[str]) -> Iterator[bool]:
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        if chosen and not any(word in check.__name__ for word in chosen):
            continue
        begin = time.perf_counter()
        try:
            detail = check(library, folder)
        except Skipped as reason:
            print(f"skipped  {name}: {reason}", flush=True)
            continue
        except Exception as error:  # noqa: BLE001: whatever a check raises, the next ones run
            print(f"FAILED   {name}: {type(error).__name__}: {error}", flush=True)
            yield False
        else:
            print(f"ok       {name} ({time.perf_counter() - begin:.1f} s): {detail}", flush=True)
            yield True


def main() -> int:
    library = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        reason = obstacle(folder)
        if reason:
            print(f"no GPU to test: {reason}\n0 passed, 0 failed")
            return int(os.environ.get("QUIRE_REQUIRE_CUDA") == "1")
        results = list(run_all(library, folder, sys.argv[2:]))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
