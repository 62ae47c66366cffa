"""The recipes of packaging/ and the descriptions in the root agree with the repository and with each other."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import LIBRARY_NAME, REPOSITORY, VERSION

EASYCONFIG = next((REPOSITORY / "packaging/easybuild").glob("*.eb")).relative_to(REPOSITORY)


def _text(file: str | Path) -> str:
    return (REPOSITORY / file).read_text(encoding="utf-8")


def _found(file: str | Path, pattern: str) -> set[str]:
    """What a pattern finds in a file of the repository."""
    return set(re.findall(pattern, _text(file), re.MULTILINE))


def _easyconfig() -> dict[str, Any]:
    """The parameters of the easyconfig, which is a program in Python."""
    parameters: dict[str, Any] = {"SYSTEM": {"name": "system", "version": "system"}}
    exec(_text(EASYCONFIG), parameters)
    return parameters


(RUST,) = _found("Cargo.toml", r'^rust-version = "(.+)"')
(NUMPY,) = _found("python/pyproject.toml", r'"numpy>=(.+?)"')
(CMAKE,) = _found("CMakeLists.txt", r"^cmake_minimum_required\(VERSION (.+)\)")
NVCC = ".".join(re.search(r"OLDEST_NVCC: .* = \((\d+), (\d+)\)", _text("gpu/build.rs")).groups())
# conda and Python call 1.0.0-rc.2 1.0.0rc2.
PYTHON_VERSION = VERSION.replace("-rc.", "rc")


@pytest.mark.parametrize(
    "file, pattern, value",
    [
        ("codec/zarrs/Cargo.toml", r'^version = "(.+)"', VERSION),
        ("codec/zarrs/Cargo.toml", r'^quire-codec = .*version = "(.+?)"', VERSION),
        ("web/package.json", r'^  "version": "(.+)"', VERSION),
        ("CITATION.cff", r"^version: (.+)", VERSION),
        ("codemeta.json", r'^  "version": "(.+)"', VERSION),
        ("packaging/registration.md", r"^Version: +(.+)", VERSION),
        ("packaging/recipes/README.md", r"h5z-quire[@-](\d[\w.-]*\d)", VERSION),
        ("packaging/spack/package.py", r'^    version\("(.+)"\)', VERSION),
        ("packaging/spack/package.py", r"dev-build h5z-quire@([\w.-]+)", VERSION),
        (EASYCONFIG, r"^version = '(.+)'", VERSION),
        ("packaging/debian/changelog", r"\Ah5z-quire \((.+)\)", VERSION.replace("-", "~")),
        ("packaging/conda/recipe.yaml", r"^  version: (\d.+)", PYTHON_VERSION),
        ("packaging/conda/recipe.yaml", r"- rust >=(.+)", RUST),
        ("packaging/debian/control", r"^ cargo \(>= (.+?)\)", RUST),
        ("packaging/spack/package.py", r'"rust@(.+):"', RUST),
        ("packaging/spack/package.py", r'"cmake@(.+):"', CMAKE),
        ("packaging/spack/package.py", r'"cuda@(.+):"', NVCC),
        ("packaging/conda/recipe.yaml", r"- numpy >=(.+)", NUMPY),
    ],
)
def test_versions_agree(file: str | Path, pattern: str, value: str) -> None:
    assert _found(file, pattern) == {value}


def test_the_license_is_the_same_everywhere() -> None:
    (license,) = _found("Cargo.toml", r'^license = "(.+)"')
    assert _found("CITATION.cff", "^license: (.+)") == _found("packaging/conda/recipe.yaml", "^ +license: (.+)") == {license}
    assert _found("packaging/spack/package.py", r'^    license\("(.+)"\)') == {license}
    assert json.loads(_text("codemeta.json"))["license"].endswith(f"/{license}")
    # Debian's copy of the text: indented, with a dot for an empty line.
    text = _text("LICENSE").split("\n\n", 2)[2]
    debian = _text("packaging/debian/copyright").split(f"\nLicense: {license}\n")[-1]
    assert debian == "".join(f" {line or '.'}\n" for line in text.splitlines())


def test_recipes_expect_what_cmake_installs() -> None:
    (folder,) = _found("CMakeLists.txt", r'^set\(QUIRE_INSTALL_DIR "(.+?)"')
    headers = _found("CMakeLists.txt", r'^install\(FILES "\$\{CMAKE_SOURCE_DIR\}/filter/include/(.+)" DESTINATION include\)')
    assert headers == {path.name for path in (REPOSITORY / "filter/include").iterdir()}
    includes = {f"include/{header}" for header in headers}

    easyconfig = _easyconfig()
    assert set(easyconfig["sanity_check_paths"]["files"]) == {f"{folder}/{LIBRARY_NAME}"} | includes
    assert easyconfig["modextrapaths"]["HDF5_PLUGIN_PATH"]["paths"] == folder
    assert _found("packaging/spack/package.py", r'append_path\("HDF5_PLUGIN_PATH", self\.prefix\.(.+)\)') == {folder.replace("/", ".")}
    # conda and Debian have the plugin in HDF5's own folder, in place of CMake's.
    conda = {f"{target}/{name}" for target, name in _found("packaging/conda/recipe.yaml", r"- install .* \$PREFIX/(\S+) (?:\S+/)?(\S+)")}
    assert _found("packaging/conda/recipe.yaml", r"test -f \$PREFIX/(.+)") | includes <= conda
    debian = {f"{target}/{name}" for name, target in _found("packaging/debian/install", r"^(?:\S+/)?(\S+) usr/(.+)")}
    assert _found("packaging/debian/links", r"^usr/(\S+) ") | includes <= debian


def test_recipes_name_what_there_is() -> None:
    easyconfig = _easyconfig()
    toolchain = easyconfig["toolchain"]
    assert EASYCONFIG.name == f"{easyconfig['name']}-{easyconfig['version']}-{toolchain['name']}-{toolchain['version']}.eb"
    kernels = re.findall(r"\((\d+)(\d), \(", re.search(r"const ARCHITECTURES: .*\n.*;", _text("gpu/build.rs"))[0])
    assert easyconfig["cuda_compute_capabilities"] == [".".join(numbers) for numbers in kernels]
    ast.parse(_text("packaging/spack/package.py"))
    # YAML takes a command with a colon for a mapping, and rattler-build no anchors.
    assert not _found("packaging/conda/recipe.yaml", r"^ *- \S+ .*: .*|: [&*].*|\t")
    named = _found("packaging/conda/recipe.yaml", r"(?:- |\$SRC_DIR/)(\S+/\S+\.\w+)$")
    named |= {name for file in ("docs", "install") for name in _found(f"packaging/debian/{file}", r"^(\S+)") if not name.startswith("debian/build/")}
    assert len(named) > 3
    assert all((REPOSITORY / name).exists() for name in named), named
    # What Debian's recipe makes is what it installs.
    made = _found("packaging/debian/rules", r"> \$\(build\)/(\S+)")
    installed = set().union(*(_found(f"packaging/debian/{file}", r"^debian/build/([\w.]+)(?: |$)") for file in ("install", "manpages", "docs")))
    assert made == installed and made
