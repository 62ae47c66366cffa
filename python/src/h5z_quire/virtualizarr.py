"""VirtualiZarr for HDF5 files with this filter, and so Icechunk, which keeps VirtualiZarr's references::

    import virtualizarr, h5z_quire.virtualizarr
    dataset = virtualizarr.open_virtual_dataset(url, registry=registry, parser=virtualizarr.parsers.HDFParser())

Only the process that makes references imports this module. Whoever reads them has this package installed: zarr finds the codec by its name.

VirtualiZarr's parser has a fixed list of filters. Importing this module puts ours in front of the list.
"""

from __future__ import annotations

from typing import Any, Callable

from virtualizarr.parsers.hdf import filters

from .numcodecs import QuireCodec
from .options import FILTER_ID
from .replaced import replace_private
from .settings import Quire


def _codec(original: Callable[..., Any], filter_id: str, filter_properties: Any = None) -> Any:
    """The codec of one filter of a dataset. VirtualiZarr writes its name and options into the metadata."""
    return QuireCodec(Quire.from_cd_values(filter_properties)) if filter_id == str(FILTER_ID) else original(filter_id, filter_properties)


replace_private("virtualizarr", filters, "_filter_to_codec", _codec)
