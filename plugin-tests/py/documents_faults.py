"""The lint of the documents finds a fault of each kind.

    documents_faults.py REPOSITORY COPY     faults are put into COPY, one at a time
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from documents import README_LINES, documents

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
    ("FORMAT.md", "\n| `rel=1e-3` is `2, 3` |\n", "2, 3 is abs=0.001, not rel=1e-3"),
    ("FORMAT.md", "\nSee §9.9.\n", "FORMAT.md has no section 9.9"),
)


# Tables without their first line.
TABLES = ("h5-samples/results/demo.txt", "h5-samples/results/adaptive.csv")


def copy_of(repository: Path, copy: Path) -> None:
    """The documents, and links to everything else."""
    copy.mkdir()
    for document in documents(repository):
        target = copy / document.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(document.path.read_text(encoding="utf-8"), encoding="utf-8")
    _link_rest(repository, copy)


def _link_rest(there: Path, here: Path) -> None:
    """Links to what is there and not here, folder by folder."""
    for entry in there.iterdir():
        ours = here / entry.name
        if not ours.exists():
            ours.symlink_to(entry)
        elif ours.is_dir() and not ours.is_symlink():
            _link_rest(entry, ours)


def lint(copy: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(__file__).with_name("documents.py")), "lint", "--repository", str(copy)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main(repository: Path, copy: Path) -> None:
    copy_of(repository, copy)
    sound = lint(copy)
    assert sound.returncode == 0, f"the copy has faults of its own:\n{sound.stdout}{sound.stderr}"
    for name, addition, message in FAULTS:
        file = copy / name
        text = file.read_text(encoding="utf-8")
        file.write_text(text + addition, encoding="utf-8")
        report = lint(copy)
        assert report.returncode == 1 and message in report.stdout, f"{message!r} is missing in\n{report.stdout}{report.stderr}"
        file.write_text(text, encoding="utf-8")
    for name in TABLES:
        table = copy / name
        there = table.resolve()
        table.unlink()
        table.write_text("command: nothing\n", encoding="utf-8")
        report = lint(copy)
        assert report.returncode == 1 and f"{name}:1:" in report.stdout, f"{name} is missing in\n{report.stdout}{report.stderr}"
        table.unlink()
        table.symlink_to(there)
    print(f"{len(FAULTS) + len(TABLES)} faults, each found")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
