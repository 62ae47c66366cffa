"""The filter's options in words, as HDF5's `cd_values`, and back, without the package: its module h5z_quire.options, for scripts of this repository.

    import quire_options
    f.create_dataset("t", data=x, chunks=..., compression=quire_options.FILTER_ID, compression_opts=quire_options.cd_values("rel=1e-4"))

    python3 quire_options.py abs=1e-3,coding=bitshuffle     prints what h5py, h5repack, nccopy and C programs take
    python3 quire_options.py 1,3539053052,1062232653        prints what such words say

The words are abs=, rel=, pwrel=, psnr=, ratio= (with or without abs=) or lossless, and coding=auto, huffman or
bitshuffle, and adapt=none or history, and brick=AxBxC.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# By its path: importing the package would ask for the library, which only a wheel carries.
_HOME = Path(__file__).resolve().parents[1] / "python" / "src" / "h5z_quire" / "options.py"
_spec = importlib.util.spec_from_file_location("h5z_quire_options", _HOME)
assert _spec is not None and _spec.loader is not None, _HOME
_home = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_home)

FILTER_ID, cd_values, for_clients, options = _home.FILTER_ID, _home.cd_values, _home.for_clients, _home.options

__all__ = ["FILTER_ID", "cd_values", "for_clients", "options"]

if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1]:
        sys.exit(__doc__)
    try:
        print(for_clients(sys.argv[1]))
    except ValueError as error:
        sys.exit(f"error: {error}")
