"""Builds a wheel that carries `libh5zquire.so`. Everything else is in pyproject.toml.

The library is what `QUIRE_LIBRARY` names, or what cargo builds from the repository around this folder.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

try:
    import tomllib
except ImportError:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[1]
LIBRARY_NAME = "libh5zquire.so"


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
        path = Path(target) / "release" / LIBRARY_NAME
    if not path.is_file():
        raise SystemExit(f"error: {path} is not there: {'QUIRE_LIBRARY must name a built libh5zquire.so' if named else 'cargo built none'}")
    return path


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
        shutil.copyfile(library(), folder / LIBRARY_NAME)


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
        (built,) = Path(self.bdist_dir).glob(f"**/{LIBRARY_NAME}")
        # The library needs nothing but glibc and libgcc_s (plugin-tests checks): the newest of glibc's symbols decides where it loads (PEP 600).
        minor = max(int(found) for found in re.findall(rb"GLIBC_2\.(\d+)", built.read_bytes()))
        return "py3", "none", f"manylinux_2_{minor}_{platform.machine()}"


setup(version=version(), distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel, "editable_wheel": NoEditableWheel})
