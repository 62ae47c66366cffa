"""What xarray says where the plugin is missing is in docs/guide.md, as are the messages of all other clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CLIENTS = Path(__file__).parents[2] / "plugin-tests"


def test_every_message_of_xarray_is_in_the_guide(tmp_path: Path) -> None:
    # In processes of their own, which have not imported the package.
    made = f"import h5z_quire, sys; sys.path.append({str(CLIENTS / 'py')!r}); import missing_filter; missing_filter.make({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", made], check=True)
    command = [sys.executable, str(CLIENTS / "call.py"), "missing_filter", "check", str(tmp_path), "xarray"]
    done = subprocess.run(command, check=False, text=True, capture_output=True)
    assert done.returncode == 0 and done.stdout == "12\n", done.stdout + done.stderr
