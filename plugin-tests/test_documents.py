"""The documents: their lint, their code blocks, and what both say of faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import HERE, REPOSITORY, Python, Runner
from documents import README_LINES, documents

LINT = HERE / "py/documents.py", "lint"
RUN = HERE / "py/documents.py", "run"

# File, what is appended to it, and what the lint has to say.
FAULTS = (
    ("README.md", "\n" * README_LINES, f"at most {README_LINES}"),
    ("README.md", "x" * 161 + "\n", "161 characters, at most 160"),
    ("FORMAT.md", "| " + "x" * 160 + " |\n", "164 characters, at most 160"),
    ("FORMAT.md", "\n" + "word " * 31 + "\n", "a sentence of 31 words"),
    ("docs/guide.md", "\n| a | " + "word " * 31 + "|\n", "a sentence of 31 words"),
    ("docs/guide.md", "\n[a](nothing.md)\n", "the link nothing.md leads to no file"),
    ("docs/guide.md", "\n[a](../FORMAT.md#no-such-heading)\n", "FORMAT.md has no heading #no-such-heading"),
    ("docs/guide.md", "\n[a](#no-such-heading)\n", "docs/guide.md has no heading #no-such-heading"),
    ("docs/contributing.md", "\n| `codec/src/nothing.rs` |\n", "there is no codec/src/nothing.rs"),
    ("docs/guide.md", "\n`h5-samples/nothing.sh --all`\n", "there is no h5-samples/nothing.sh"),
    ("docs/guide.md", "\n```\ncode\n```\n", "a fence of language ''"),
    ("docs/guide.md", "\n```sh norun\ncode\n```\n", "a fence marked 'norun'"),
    ("docs/guide.md", "\n```sh no-run:\ncode\n```\n", "a fence marked 'no-run:'"),
    ("docs/guide.md", "\n```sh\ncode\n", "a fence that nothing closes"),
    ("docs/guide.md", "\n```sh no-run: fault\ncode\n```\n" * 9, "blocks are not run, at most"),
    ("CHANGELOG.md", "\n```sh\ncode\n```\n", "a block of sh that no test runs"),
    ("FORMAT.md", "\n| `rel=1e-3` is `2, 3` |\n", "2, 3 is abs=1e-3, not rel=1e-3"),
    ("FORMAT.md", "\nSee §9.9.\n", "FORMAT.md has no section 9.9"),
)
# Tables without their first line.
TABLES = ("h5-samples/results/demo.txt", "h5-samples/results/adaptive.csv")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the documents, and links to everything else."""
    copy = tmp_path / "copy"
    for document in documents(REPOSITORY):
        target = copy / document.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(document.path.read_text(encoding="utf-8"), encoding="utf-8")
    _link_rest(REPOSITORY, copy)
    return copy


def _link_rest(there: Path, here: Path) -> None:
    """Links to what is there and not here, folder by folder."""
    for entry in there.iterdir():
        ours = here / entry.name
        if not ours.exists():
            ours.symlink_to(entry)
        elif ours.is_dir() and not ours.is_symlink():
            _link_rest(entry, ours)


def test_the_lint_finds_no_fault(run: Runner, newest: Python) -> None:
    run(newest.interpreter, *LINT)


def test_the_lint_finds_faults_that_are_put_into_a_copy(run: Runner, newest: Python, copy: Path) -> None:
    command = [newest.interpreter, *LINT, "--repository", copy]
    run(*command)
    for name, addition, message in FAULTS:
        file = copy / name
        text = file.read_text(encoding="utf-8")
        file.write_text(text + addition, encoding="utf-8")
        run(*command, code=1).must_say(message)
        file.write_text(text, encoding="utf-8")
    for name in TABLES:
        table = copy / name
        there = table.resolve()
        table.unlink()
        table.write_text("command: nothing\n", encoding="utf-8")
        run(*command, code=1).must_say(f"{name}:1:")
        table.unlink()
        table.symlink_to(there)


def test_blocks_of_the_documents_run(run: Runner, newest: Python, release: Path, plugins: Path, tmp_path: Path) -> None:
    (tmp_path / "reader").mkdir()
    done = run(newest.interpreter, *RUN, "reader", "--plugins", plugins, "--quire", release / "quire")
    # h5dump and ncdump show the filter; quire and the C program say that the bound held.
    done.must_say("FILTER_ID 33791", '_Filter = "33791,1,3539053052', "the filter works here", "verified: repacked.h5", "within the bound of 0.001")


def test_a_block_that_fails_is_named(run: Runner, newest: Python, release: Path, tmp_path: Path) -> None:
    # Without the plugin the README's first block cannot work.
    for folder in ("reader", "nothing"):
        (tmp_path / folder).mkdir()
    done = run(newest.interpreter, *RUN, "reader", "--plugins", "nothing", "--quire", release / "quire", code=1)
    done.must_say("the block at README.md:", "no folder of HDF5's has libh5zquire.so")
