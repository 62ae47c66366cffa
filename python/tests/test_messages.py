"""What xarray says where the plugin is missing is in docs/guide.md, as are the messages of all other clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "plugin-tests/py/missing_filter.py"


def test_every_message_of_xarray_is_in_the_guide(tmp_path: Path) -> None:
    # In processes of their own, which have not imported the package.
    made = f"import h5z_quire, runpy, sys; sys.argv = [{str(SCRIPT)!r}, 'make', {str(tmp_path)!r}]; runpy.run_path(sys.argv[0], run_name='__main__')"
    subprocess.run([sys.executable, "-c", made], check=True)
    done = subprocess.run([sys.executable, str(SCRIPT), "check", str(tmp_path), "xarray"], check=False, text=True, capture_output=True)
    assert done.returncode == 0 and done.stdout.startswith("12 messages"), done.stdout + done.stderr
