"""The first line of each table in results/, which names the format and the commit of the measurement."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def measured() -> str:
    """The line, such as "measured: format 1.0, commit 645f1b7"."""
    title = (REPOSITORY / "FORMAT.md").read_text(encoding="utf-8").splitlines()[0] if (REPOSITORY / "FORMAT.md").is_file() else ""
    version = re.search(r"version (\d+\.\d+)$", title)
    return f"measured: format {version[1] if version else 'not known'}, commit {_commit()}"


def _commit() -> str:
    """The commit of the working tree, and whether the tree has changes; "not known" in a copy without git."""
    try:
        commit = _git("rev-parse", "--short", "HEAD").strip()
        # Results do not count as changes: the caller is writing them.
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!h5-samples/results")
    except (OSError, subprocess.CalledProcessError):
        return "not known"
    return f"{commit} with changes" if changed else commit


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(REPOSITORY), *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    print(measured())
