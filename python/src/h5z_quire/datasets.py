"""What h5py says of a dataset's filters."""

from __future__ import annotations

from typing import Any


def filters(dataset: Any) -> dict[int, tuple[int, ...]]:
    """The parameters of a dataset's filters by their numbers, in the order in which a write applies them. Raises ValueError for anything but a dataset of h5py."""
    identifier: Any = getattr(dataset, "id", None)
    if not hasattr(identifier, "get_num_chunks"):
        raise ValueError(f"{dataset!r} is not an h5py dataset: open the file with h5py.File, and give file[name]")
    properties = identifier.get_create_plist()
    listed = (properties.get_filter(index) for index in range(properties.get_nfilters()))
    return {number: tuple(map(int, words)) for number, _, words, _ in listed}
