"""python -m h5z_quire              says what this package is, and where it computes
python -m h5z_quire rel=1e-4     prints what h5py, h5repack, nccopy and C programs take for these options
python -m h5z_quire 2,3          prints what such words say; 2 3 as well
"""

from __future__ import annotations

import sys

from .inspection import info
from .options import for_clients


def main(arguments: list[str]) -> None:
    """Runs the command line."""
    if not arguments:
        for key, value in info()._asdict().items():
            print(f"{key:<15} {value}")
    elif (joined := ",".join(arguments)) and not joined.startswith("-"):
        print(for_clients(joined))
    else:
        sys.exit(__doc__)


try:
    main(sys.argv[1:])
except ValueError as error:
    sys.exit(f"error: {error}")
