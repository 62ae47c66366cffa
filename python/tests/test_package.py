"""The installed package: the library once, and of a size that a user may be asked to fetch."""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path

from h5z_quire.library import LIBRARY

# The library has 11.7 MB in version 1.0.0rc2. Debug information would add 20.
MOST_BYTES = 13_000_000
MOST_BYTES_BESIDE_THE_LIBRARY = 650_000


def test_the_library_is_in_the_package_once_and_has_no_debug_information() -> None:
    listed = files("h5z-quire") or []
    sizes = {found: found.stat().st_size for found in (Path(str(path.locate())).resolve() for path in listed) if found.is_file()}
    assert [found for found in sizes if found.suffix == ".so"] == [LIBRARY]
    # As a name in the list of sections: Rust's own library has the words in a text.
    assert b"\0.debug_info\0" not in LIBRARY.read_bytes()
    assert sum(sizes.values()) <= MOST_BYTES, sizes
    # A copy by another name would be seen here.
    assert sum(sizes.values()) - sizes[LIBRARY] <= MOST_BYTES_BESIDE_THE_LIBRARY, sizes
