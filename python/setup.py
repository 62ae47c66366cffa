"""Builds a wheel that carries the plugin, `libh5zquire.so`, and a source distribution with the plugin's crates. Everything else is in pyproject.toml.

The library is what `QUIRE_LIBRARY` names, or what cargo builds from the repository around this folder. A source distribution has the crates in `rust/`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

try:
    import tomllib
except ImportError:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE / "rust" if (HERE / "rust").is_dir() else HERE.parent
#: What cargo needs of the repository, as git's patterns.
CRATES = ("Cargo.toml", "Cargo.lock", "LICENSE", "*/Cargo.toml", "*.rs", "*.bin", "gpu/kernels", "filter/include")
LIBRARY_NAMES = {"linux": "libh5zquire.so", "darwin": "libh5zquire.dylib", "win32": "h5zquire.dll"}


def cargo(*arguments: str) -> bytes:
    """Runs cargo in the repository; what it prints on its standard output."""
    if not (REPOSITORY / "filter" / "Cargo.toml").is_file():
        raise SystemExit(f"error: {REPOSITORY} is not H5Z-Quire's repository: build the wheel there (pip wheel python/), or name the library in QUIRE_LIBRARY")
    program = shutil.which("cargo")
    if program is None:
        raise SystemExit("error: cargo is not on the PATH: install Rust, or name a built libh5zquire.so in QUIRE_LIBRARY")
    return subprocess.run([program, *arguments], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE).stdout


def library() -> Path:
    """The plugin."""
    named = os.environ.get("QUIRE_LIBRARY")
    if named:
        path = Path(named)
        if not path.is_absolute():
            raise SystemExit(f"error: QUIRE_LIBRARY={named} is a relative path, and pip builds in a folder of its own: give an absolute one, such as $PWD/{named}")
    else:
        cargo("build", "--release", "-p", "h5z-quire")
        target = json.loads(cargo("metadata", "--no-deps", "--format-version", "1"))["target_directory"]
        path = Path(target) / "release" / LIBRARY_NAMES[sys.platform]
    if not path.is_file():
        raise SystemExit(f"error: {path} is not there: {'QUIRE_LIBRARY must name a built libh5zquire.so' if named else 'cargo built none'}")
    return path


def kind(library: bytes) -> "tuple[str, str]":
    """What kind of machine a library is for, from its own header: the system, as Python names it, and a wheel's tag."""
    if library.startswith(b"\x7fELF"):
        order = ">" if library[5] == 2 else "<"
        machine = {22: "s390x", 62: "x86_64", 183: "aarch64"}[struct.unpack_from(order + "H", library, 18)[0]]
        # The library needs nothing but the C library and libgcc_s (plugin-tests checks): the newest of glibc's symbols decides where it loads (PEP 600).
        minors = [int(found) for found in re.findall(rb"GLIBC_2\.(\d+)", library)]
        # musl has no such symbols (PEP 656).
        return "linux", f"manylinux_2_{max(minors)}_{machine}" if minors else f"musllinux_1_2_{machine}"
    if library.startswith(b"MZ"):
        (header,) = struct.unpack_from("<I", library, 0x3C)
        return "win32", {0x8664: "win_amd64"}[struct.unpack_from("<H", library, header + 4)[0]]
    magic, machine, _, _, commands = struct.unpack_from("<5I", library)
    if magic != 0xFEEDFACF:
        raise SystemExit("error: the library is of no system that is known: neither ELF, nor PE, nor Mach-O of 64 bits")
    at = 32
    for _ in range(commands):
        command, length, first, second = struct.unpack_from("<4I", library, at)
        if command in (0x24, 0x32):  # LC_VERSION_MIN_MACOSX: version; LC_BUILD_VERSION: platform, version
            oldest = first if command == 0x24 else second
            return "darwin", f"macosx_{oldest >> 16}_{oldest >> 8 & 255}_{ {0x01000007: 'x86_64', 0x0100000C: 'arm64'}[machine] }"
        at += length
    raise SystemExit("error: the library does not say for which macOS it is")


def version() -> str:
    """The workspace's version."""
    return tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]["package"]["version"]


class BuildWithLibrary(build_py):
    """Puts the library into the package."""

    def run(self) -> None:
        # What an earlier build has left, and the package no longer has, is not to get into the wheel.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        folder = Path(self.build_lib) / "h5z_quire" / "plugins"
        self.mkpath(str(folder))
        built = library()
        shutil.copyfile(built, folder / LIBRARY_NAMES[kind(built.read_bytes())[0]])


class WithCrates(sdist):
    """A source distribution that has the crates."""

    def make_release_tree(self, base_dir: str, files: "list[str]") -> None:
        super().make_release_tree(base_dir, files)
        listed = subprocess.run(["git", "ls-files", "-z", "--", *CRATES], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE).stdout
        for path in listed.decode().rstrip("\0").split("\0"):
            target = Path(base_dir) / "rust" / path
            self.mkpath(str(target.parent))
            shutil.copyfile(REPOSITORY / path, target)


class WithLibrary(Distribution):
    """What has a library goes where extension modules go."""

    def has_ext_modules(self) -> bool:
        return True


class NoEditableWheel(Command):
    """Refuses `pip install -e`, which would need the library in the source tree."""

    user_options: "list[tuple[str, str, str]]" = [("dist-info-dir=", None, ""), ("dist-dir=", "d", "")]

    def initialize_options(self) -> None:
        self.dist_info_dir = self.dist_dir = None

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        raise SystemExit("error: an editable install would need the library in the source tree: install with pip install python/")


class PlatformWheel(bdist_wheel):
    """A wheel for any Python 3, as it has no extension module, but for one kind of machine."""

    def get_tag(self) -> "tuple[str, str, str]":
        (built,) = Path(self.bdist_dir).glob("**/plugins/*")
        return "py3", "none", kind(built.read_bytes())[1]


COMMANDS = {"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel, "editable_wheel": NoEditableWheel, "sdist": WithCrates}
setup(version=version(), distclass=WithLibrary, cmdclass=COMMANDS)
