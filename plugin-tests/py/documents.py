#!/usr/bin/env python3
"""The lint of the documents, and a run of their code blocks.

    documents.py lint [--repository FOLDER]     lengths, links, paths, sections, fences, cd_values, first lines of results; ends with 1
                                                if anything is wrong
    documents.py run FOLDER --plugins FOLDER --quire PROGRAM
                                                runs blocks of shell and Python in FOLDER, as a reader would, in one shell
    documents.py run FOLDER --package           runs those marked `package`, which need the package h5z_quire and its clients

A block is not run if its fence says `no-run: REASON` behind the language.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Iterator

from markdown_text import Document, Fence, words

REPOSITORY = Path(__file__).resolve().parents[2]

LONGEST_LINE = 160
LONGEST_SENTENCE = 30  # words
README_LINES = 150
MOST_UNRUN = 10
BUILT = {"target", "build", "data", "node_modules", "__pycache__"}
LANGUAGES = {"sh", "python", "text", "c", "rust", "tcl"}
RUN = {"sh", "python"}
NO_RUN = "no-run: "
PACKAGE = "package"

# Tables of these may not be wider than the text.
NARROW_TABLES = ("README.md", "FORMAT.md")
# Laboratory notes are not read as text.
FREE_SENTENCES = ("h5-samples/results/gpu.md",)
# Its rows are of two runs, with a GPU and without, and neither the file nor the commit says with which format.
WITHOUT_COMMIT = ("sweep.csv",)
# Blocks run in this order, in one shell: the guide goes on with the README's files.
IN_ORDER = ("README.md", "docs/guide.md", "docs/c.md", "docs/install.md")
# Here HDF5 finds the filter without the package, but its clients are those of the package's environment.
PLUGINS_BY_HAND = ("docs/guide.md",)

# A path in the repository begins with one of its entries. What has a space, a bracket or a star is a command or a pattern.
_PATH = re.compile(r"^[\w.-]+(?:/[\w.-]+)+/?$")
# "`abs=1e-3` is `2, 3`" in the tables of FORMAT.md, section 10.
_WORDS = re.compile(r"`([a-z]+=[^`]*)` is `([\d, ]+)`")


def documents(repository: Path) -> list[Document]:
    """All Markdown files but those in folders of builds, environments and data."""
    found = []
    for folder, folders, names in os.walk(repository):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in BUILT]
        found += [Path(folder) / name for name in names if name.endswith(".md")]
    return [Document(path, path.relative_to(repository).as_posix()) for path in sorted(found)]


# ------------------------------------------------------------------------------------------------------------ lint


def lengths(document: Document) -> Iterator[str]:
    """Lines, sentences, and the README as a whole."""
    name = document.name
    if name == "README.md" and len(document.lines) > README_LINES:
        yield f"{name}: {len(document.lines)} lines, at most {README_LINES}"
    for number, line in enumerate(document.lines, 1):
        if len(line) > LONGEST_LINE and (name in NARROW_TABLES or not line.lstrip().startswith("|")):
            yield f"{name}:{number}: {len(line)} characters, at most {LONGEST_LINE}"
    if name in FREE_SENTENCES:
        return
    for number, sentence in document.sentences():
        if words(sentence) > LONGEST_SENTENCE:
            yield f"{name}:{number}: a sentence of {words(sentence)} words, at most {LONGEST_SENTENCE}: {sentence[:80]}..."


def links(document: Document, repository: Path, anchors: dict[Path, set[str]]) -> Iterator[str]:
    """Files and headings that links name."""
    name = document.name
    for number, target in document.links():
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (document.path.parent / file).resolve() if file else document.path
        if not path.exists():
            yield f"{name}:{number}: the link {target} leads to no file"
        elif anchor and anchor not in anchors.get(path, set()):
            yield f"{name}:{number}: {path.relative_to(repository)} has no heading #{anchor}"


def paths(document: Document, repository: Path) -> Iterator[str]:
    """Files of the repository that text names between backticks."""
    top = {entry.name for entry in repository.iterdir()} - {"target"}
    for number, span in document.code_spans():
        # The first word of a command, too.
        first = span.split(" ")[0]
        if not _PATH.match(first) or first.split("/")[0] not in top:
            continue
        if not (repository / first).exists():
            yield f"{document.name}:{number}: there is no {first}"


def fences(document: Document) -> Iterator[str]:
    """Languages and marks."""
    name = document.name
    for number in document.open_fences:
        yield f"{name}:{number}: a fence that nothing closes"
    for fence in document.fences:
        if fence.language not in LANGUAGES:
            yield f"{name}:{fence.line}: a fence of language {fence.language!r}; one of {', '.join(sorted(LANGUAGES))} is expected"
        if fence.mark and fence.mark != PACKAGE and not (fence.mark.startswith(NO_RUN) and fence.mark != NO_RUN):
            yield f"{name}:{fence.line}: a fence marked {fence.mark!r}; `{PACKAGE}` or `{NO_RUN}REASON` is expected"
        if fence.language in RUN and not fence.mark and name not in IN_ORDER:
            yield f"{name}:{fence.line}: a block of {fence.language} that no test runs"
        if fence.mark == PACKAGE and fence.language not in RUN:
            yield f"{name}:{fence.line}: a block of {fence.language} cannot be run"


def option_words(document: Document) -> Iterator[str]:
    """FORMAT.md's examples of cd_values say what their options say."""
    if document.name != "FORMAT.md":
        return
    sys.path.append(str(REPOSITORY / "h5-samples"))
    import quire_options

    count = 0
    for number, line in document.prose:
        for option, numbers in _WORDS.findall(line):
            count += 1
            meant = quire_options.options(tuple(int(word) for word in numbers.split(",")))
            if quire_options.cd_values(meant) != quire_options.cd_values(option):
                yield f"FORMAT.md:{number}: {numbers} is {meant}, not {option}"
    if not count:
        yield "FORMAT.md: no example of cd_values is left in section 10"


def sections(document: Document, known: set[str]) -> Iterator[str]:
    """Sections of FORMAT.md that text names: "§9.2"."""
    for number, line in document.prose:
        for section in re.findall(r"§(\d+(?:\.\d+)?)", line):
            if section not in known:
                yield f"{document.name}:{number}: FORMAT.md has no section {section}"


def section_numbers(some: list[Document]) -> set[str]:
    """The numbers of FORMAT.md's headings."""
    lines = [line for document in some if document.name == "FORMAT.md" for _, line in document.prose]
    return {found[1] for found in (re.match(r"#+ (\d+(?:\.\d+)?)\.? ", line) for line in lines) if found}


def results(repository: Path) -> Iterator[str]:
    """Tables say in their first line with which format and commit they were measured. Documents and pictures beside them say so in the text around them."""
    for table in sorted((repository / "h5-samples" / "results").iterdir()):
        if table.suffix in (".md", ".png") or table.name in WITHOUT_COMMIT:
            continue
        first, _, _ = table.read_text(encoding="utf-8").partition("\n")
        if not re.match(r"(?:# )?measured: format \d\.\d, commits? (?:[0-9a-f]{7}|not known)", first):
            yield f"{table.relative_to(repository)}:1: \"measured: format 1.0, commit 1234567\" is expected"


def unrun(some: list[Document]) -> list[tuple[Document, Fence]]:
    return [(document, fence) for document in some for fence in document.fences if fence.mark.startswith(NO_RUN)]


def lint(repository: Path) -> int:
    """Prints what is wrong; 1 if anything is."""
    some = documents(repository)
    anchors = {document.path: document.anchors() for document in some}
    known = section_numbers(some)
    wrong: list[str] = []
    for document in some:
        wrong += [*lengths(document), *links(document, repository, anchors), *paths(document, repository), *fences(document), *option_words(document)]
        wrong += sections(document, known)
    wrong += results(repository)
    skipped = unrun(some)
    if len(skipped) > MOST_UNRUN:
        wrong.append(f"{len(skipped)} blocks are not run, at most {MOST_UNRUN}")
    for line in wrong:
        print(line)
    marks = [fence.mark for document in some for fence in document.fences if fence.language in RUN]
    print(
        f"{len(some)} documents, {sum(1 for document in some for _ in document.links())} links; {marks.count('')} blocks to be run, "
        f"{marks.count(PACKAGE)} with the package, {len(skipped)} not run; {len(wrong)} faults"
    )
    for document, fence in skipped:
        print(f"not run: {document.name}:{fence.line}: {fence.mark.removeprefix(NO_RUN)}")
    return 1 if wrong else 0


# ------------------------------------------------------------------------------------------------------------- run


def script(some: list[Document], mark: str) -> str:
    """A shell script of the blocks that have a mark. Where they are marked `package`, those of a section are run in one process, one after the other."""
    lines = ["set -e", "trap 'status=$?; [ $status = 0 ] || echo \"the block at $block ended with $status\" >&2' EXIT"]
    for document in some:
        blocks = [fence for fence in document.fences if fence.language in RUN and fence.mark == mark]
        if mark == PACKAGE and blocks:
            # A reader goes on with the names of the blocks before, but need not have read other sections.
            blocks = [joined(list(some_blocks)) for _, some_blocks in itertools.groupby(blocks, lambda fence: fence.section)]
            by_hand = document.name in PLUGINS_BY_HAND
            lines.append(f"export HDF5_PLUGIN_PATH={shlex.quote(str(package_plugins()))}" if by_hand else "unset HDF5_PLUGIN_PATH")
        for fence in blocks:
            where = f"{document.name}:{fence.line}"
            lines += [f"block={shlex.quote(where)}", 'echo "== $block"']
            if fence.language == "sh":
                lines += fence.lines
            else:
                # As an argument: processes that a block starts would look for a file of the name "<stdin>".
                lines += [f"{shlex.quote(sys.executable)} -c \"$(cat <<'END_OF_BLOCK'", *fence.lines, "END_OF_BLOCK", ')"']
    return "\n".join([*lines, ""])


def joined(blocks: list[Fence]) -> Fence:
    """Blocks of Python as one."""
    return blocks[0]._replace(lines=[line for fence in blocks for line in (f"# line {fence.line}", *fence.lines)])


def package_plugins() -> Path:
    """The folder in which the installed package has the plugin."""
    found = importlib.util.find_spec("h5z_quire")
    if found is None or found.origin is None:
        raise SystemExit(f"{sys.executable} has no package h5z_quire")
    return Path(found.origin).parent / "plugins"


def folder_as_repository(folder: Path, plugins: Path | None, quire: Path | None) -> None:
    """What the repository has, and a target folder with what the reader has built."""
    for entry in REPOSITORY.iterdir():
        if entry.name != "target" and not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    if plugins and quire:
        release = folder / "target" / "release"
        release.mkdir(parents=True)
        (release / "libh5zquire.so").symlink_to((plugins / "libh5zquire.so").resolve())
        (release / "quire").symlink_to(quire.resolve())


def files_of_the_reader(folder: Path) -> None:
    """Files that the documents call the reader's own: one of boxes value after value, as AMReX writes them, and two days of an archive."""
    import h5py
    import numpy as np

    field = np.random.default_rng(0).normal(size=(8, 32, 32, 32)).cumsum(axis=3).astype("f4")
    with h5py.File(folder / "plt00100.h5", "w") as file:
        file["level_0/data:datatype=0"] = field.ravel()
    for day in (1, 2):
        with h5py.File(folder / f"day{day}.nc", "w") as file:
            file["t"], file["pressure"], file["flag_land"] = field[day], 1e5 + 100 * field[day + 2], field[day] > 0


def run(folder: Path, plugins: Path | None, quire: Path | None) -> int:
    """Runs the blocks; the exit code of the first one that fails."""
    folder_as_repository(folder, plugins, quire)
    if plugins:
        files_of_the_reader(folder)
        some, mark = [Document(REPOSITORY / name, name) for name in IN_ORDER], ""
    else:
        some, mark = documents(REPOSITORY), PACKAGE
    # The README's own export has to do.
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"} | {"CONDA_PREFIX": str(folder.resolve() / "conda")}
    return subprocess.run(["bash", "-c", script(some, mark)], cwd=folder, env=environment, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    linter = commands.add_parser("lint")
    linter.add_argument("--repository", type=Path, default=REPOSITORY)
    runner = commands.add_parser("run")
    runner.add_argument("folder", type=Path)
    runner.add_argument("--plugins", type=Path)
    runner.add_argument("--quire", type=Path)
    runner.add_argument("--package", action="store_true")
    arguments = parser.parse_args()
    if arguments.command == "lint":
        return lint(arguments.repository.resolve())
    if arguments.package == bool(arguments.plugins and arguments.quire):
        parser.error("give either --package, or --plugins and --quire")
    return run(arguments.folder, arguments.plugins, arguments.quire)


if __name__ == "__main__":
    sys.exit(main())
