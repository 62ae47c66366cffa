"""What the tests of clients share: where things are, and how a client is run.

The tests themselves load no plugin. Each client is a process of its own, in the test's folder: a program (`run`, `quire`), or a function that another
process of Python calls (`python` for each of the three interpreters, `newest` and `debian` for one of them). A client that must find the plugin finds it by
HDF5_PLUGIN_PATH.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Collection, Mapping, Optional

import pytest

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
LIBRARY_NAME = "libh5zquire.so"
VERSION = re.search(r'^version = "(.+)"', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)[1]

# The h5py wheels that carry HDF5 2.0 and 1.14, and Debian's h5py, which links Debian's HDF5. The first one has netCDF4 and PyTables, which carry an HDF5 each.
PYTHONS = {"HDF5 2.0": REPOSITORY / ".venv-hdf5-2.0/bin/python", "HDF5 1.14": REPOSITORY / ".venv-hdf5-1.14/bin/python", "Debian": Path("/usr/bin/python3")}

# Seconds after which a client counts as hanging. The slowest one took 110 on two cores that had other work, too; beside programs of a higher priority it may
# take ten times as long.
CLIENT_SECONDS = 7200

# `timeout` ends with 124 when the time is up, and with 125 and more when the client could not be run or died by a signal.
IN_ORDER = range(124)
ANYHOW = range(256)

# What a client is not to take from the environment of the tests.
SETTINGS = ("QUIRE_BACKEND", "QUIRE_DEVICE", "QUIRE_LOG", "QUIRE_CODEBOOK", "QUIRE_DICTIONARY", "QUIRE_THREADS", "HDF5_PLUGIN_PRELOAD")

Environment = Mapping[str, Optional[str]]
InNamespace = Callable[[str], list[str]]


@dataclass(frozen=True)
class Ended:
    """A client that has ended, with what it said. Bytes that are no UTF-8 are U+FFFD."""

    command: list[bytes]
    code: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        meanings = {124: f"it was ended after {CLIENT_SECONDS} seconds", 127: "there is no such program; plugin-tests/run.sh installs the clients"}
        meaning = meanings.get(self.code) or (f"it crashed by signal {self.code - 128}" if self.code > 128 else f"it ended with {self.code}")
        return f"{b' '.join(self.command).decode(errors='replace')}: {meaning}\n-- standard output\n{self.stdout}\n-- standard error\n{self.stderr}"

    @property
    def json(self) -> Any:
        """What standard output says as JSON."""
        return json.loads(self.stdout)

    def must_say(self, *texts: str) -> Ended:
        """Each of the texts is in what the client said; gives the client back."""
        __tracebackhide__ = True
        for text in texts:
            assert text in self.stdout or text in self.stderr, f"{text!r} is missing in {self}"
        return self

    def must_not_say(self, text: str) -> Ended:
        __tracebackhide__ = True
        assert text not in self.stdout and text not in self.stderr, f"{text!r} is said in {self}"
        return self


@dataclass(frozen=True)
class Runner:
    """Runs clients in a folder. Signals have their default actions: the caller of the tests may ignore some, as a shell does for `run.sh &`."""

    folder: Path
    plugins: Path

    def environment(self, settings: Environment) -> dict[str, str]:
        """The environment of a client. A setting of None is left out."""
        inherited = {name: value for name, value in os.environ.items() if name not in SETTINGS}
        # Rust's threads have stacks of RUST_MIN_STACK bytes unless they ask for more, and end the process where that is too little. All of ours ask.
        ours = {"HDF5_PLUGIN_PATH": str(self.plugins), "PYTHONDONTWRITEBYTECODE": "1", "RUST_MIN_STACK": "20000"}
        return {name: value for name, value in {**inherited, **ours, **settings}.items() if value is not None}

    def __call__(self, *command: object, code: int | Collection[int] = 0, env: Environment = {}) -> Ended:
        """Runs a client that must end with this code, or with one of these."""
        __tracebackhide__ = True
        words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
        started = ["env", "--default-signal", "timeout", "--kill-after=10", str(CLIENT_SECONDS), *words]
        done = subprocess.run(started, cwd=self.folder, env=self.environment(env), stdin=subprocess.DEVNULL, capture_output=True)
        # `timeout` itself dies by the signal that has ended the client.
        found = 128 - done.returncode if done.returncode < 0 else done.returncode
        ended = Ended(words, found, *(text.decode(errors="replace") for text in (done.stdout, done.stderr)))
        assert found in ((code,) if isinstance(code, int) else code), f"{code} was expected: {ended}"
        return ended

    def start(self, *command: object, env: Environment = {}) -> subprocess.Popen[bytes]:
        """Starts a client that nothing ends when it hangs: signals meet the program itself."""
        started = ["env", "--default-signal", *map(str, command)]
        pipe = subprocess.PIPE
        return subprocess.Popen(started, cwd=self.folder, env=self.environment(env), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)


@dataclass(frozen=True)
class Python:
    """An interpreter that calls functions, each in a process of its own in the test's folder."""

    run: Runner
    interpreter: Path

    def command(self, function: Callable[..., Any] | str, *arguments: object) -> list[object]:
        """A command that calls a function. One of a module that the tests cannot import is named as "module.function"."""
        module, name = function.split(".") if isinstance(function, str) else (function.__module__, function.__name__)
        return [self.interpreter, HERE / "call.py", module, name, *arguments]

    def __call__(self, function: Callable[..., Any] | str, *arguments: object, code: int | Collection[int] = 0, env: Environment = {}) -> Ended:
        return self.run(*self.command(function, *arguments), code=code, env=env)


def in_each_python(body: Callable[[], None]) -> Callable[[Python], None]:
    """A test whose body runs in a process of its own of each of the three interpreters, in the test's folder."""

    def test(python: Python) -> None:
        python(body)

    test.__module__, test.__name__, test.__doc__, test.in_client = body.__module__, body.__name__, body.__doc__, body
    return test


# What is built


def target_folder() -> Path:
    """Cargo's, where tests build, too."""
    return Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).resolve()


@pytest.fixture(scope="session")
def release() -> Path:
    """The folder with the plugin and the command line in release: what users install. QUIRE_RELEASE names the folder where run.sh has built them."""
    if "QUIRE_RELEASE" in os.environ:
        return Path(os.environ["QUIRE_RELEASE"]).resolve()
    # By one command: cargo chooses the features of dependencies for all packages that a command names.
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "h5z-quire", "-p", "quire-cli"], cwd=REPOSITORY, check=True)
    return target_folder() / "release"


@pytest.fixture(scope="session")
def plugins(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for HDF5_PLUGIN_PATH that holds our plugin and nothing else."""
    folder = tmp_path_factory.mktemp("plugins")
    shutil.copy(release / LIBRARY_NAME, folder)
    return folder


@pytest.fixture(scope="session")
def package(plugins: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The setting with which Python finds our package as a wheel would install it: its sources, the plugin, and its version."""
    folder = tmp_path_factory.mktemp("packages")
    ignored = shutil.ignore_patterns("__pycache__", "plugins")
    shutil.copytree(REPOSITORY / "python/src/h5z_quire", folder / "h5z_quire", ignore=ignored)
    shutil.copytree(plugins, folder / "h5z_quire/plugins")
    metadata = folder / f"h5z_quire-{VERSION}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: h5z-quire\nVersion: {VERSION}\n")
    # zarr finds the codec by its name.
    (metadata / "entry_points.txt").write_text("[zarr.codecs]\nquire = h5z_quire.zarr:QuireCodec\n")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


@pytest.fixture(scope="session")
def emulated_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of gpu/emulator's stand-in for NVIDIA's driver, whose GPU is the CPU: where QUIRE_EMULATOR says that it was built, or built now."""
    if platform.machine() != "x86_64":
        pytest.skip("gpu/emulator is for x86-64")
    if "QUIRE_EMULATOR" in os.environ:
        return Path(os.environ["QUIRE_EMULATOR"]).resolve()
    folder = target_folder() / "emulator-driver"
    subprocess.run([REPOSITORY / "gpu/emulator/build.sh", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def failing_driver(emulated_driver: Path, plugins: Path) -> Path:
    """The folder of a driver that fails (c/failing_cuda.c), before the emulated one."""
    folder = plugins / "failing_cuda"
    folder.mkdir()
    # The driver's other half is linked by its name alone.
    real = folder / "libcuda_real.so"
    compiler = ["cc", "-shared", "-fPIC"]
    subprocess.run([*compiler, "-Wl,-soname,libcuda_real.so", "-x", "c", "/dev/null", "-o", real], check=True)
    options = ["-Wl,-soname,libcuda.so.1", HERE / "c/failing_cuda.c", "-Wl,--no-as-needed", real, "-o", folder / "libcuda.so.1", "-ldl"]
    subprocess.run([*compiler, *options], check=True)
    real.unlink()
    real.symlink_to(emulated_driver / "libcuda.so.1")
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    return folder


# Clients


@pytest.fixture
def run(tmp_path: Path, plugins: Path) -> Runner:
    return Runner(tmp_path, plugins)


@pytest.fixture
def pythons(run: Runner) -> dict[str, Python]:
    """The three interpreters by their names."""
    return {name: Python(run, interpreter) for name, interpreter in PYTHONS.items()}


@pytest.fixture(params=PYTHONS)
def python(request: pytest.FixtureRequest, pythons: dict[str, Python]) -> Python:
    """Each of the three interpreters: the test runs three times."""
    return pythons[request.param]


@pytest.fixture
def newest(pythons: dict[str, Python]) -> Python:
    return pythons["HDF5 2.0"]


@pytest.fixture
def debian(pythons: dict[str, Python]) -> Python:
    return pythons["Debian"]


@pytest.fixture
def quire(run: Runner, release: Path) -> Callable[..., Ended]:
    """The command line, on the CPU."""

    def quire(*arguments: object, env: Environment = {}, **expected: Any) -> Ended:
        return run(release / "quire", *arguments, env={"QUIRE_BACKEND": "cpu", **env}, **expected)

    return quire


@pytest.fixture
def compile_c(run: Runner) -> Callable[..., Path]:
    """Compiles a C program, without a warning; the program."""

    def compile_c(compiler: str, source: Path, *options: object, name: str = "program") -> Path:
        program = run.folder / name
        run(compiler, "-Wall", "-Wextra", "-Werror", "-o", program, source, *options, "-lm")
        return program

    return compile_c


@pytest.fixture
def with_plugin(plugins: Path) -> list[object]:
    """Options with which a C program links the plugin itself, and finds its header."""
    return ["-I", REPOSITORY / "filter/include", "-L", plugins, f"-l:{LIBRARY_NAME}", f"-Wl,-rpath,{plugins}"]


@pytest.fixture
def in_namespace(run: Runner) -> InNamespace:
    """The beginning of a command that runs in a namespace of its own, where a script has mounted disks or files: as root, or as root of a user namespace."""

    def in_namespace(script: str) -> list[str]:
        for way in (["--mount"], ["--mount", "--map-root-user"]):
            command = ["unshare", *way, "sh", "-e", "-c", f'{script}\nexec "$@"', "sh"]
            if run(*command, "true", code=ANYHOW).code == 0:
                return command
        pytest.skip("nothing can be mounted here: the kernel forbids it")

    return in_namespace


@pytest.fixture
def shared_library(run: Runner) -> Callable[[str], Path]:
    """A file of c/, built as a shared library."""

    def shared_library(name: str) -> Path:
        library = run.folder / f"lib{name}.so"
        run("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, HERE / f"c/{name}.c", "-ldl")
        return library

    return shared_library


def attack_seconds() -> float:
    """Time that attacks may take, from QUIRE_ATTACK_MINUTES; none for the short form that every run of the tests has."""
    return 60 * float(os.environ.get("QUIRE_ATTACK_MINUTES", "0"))
