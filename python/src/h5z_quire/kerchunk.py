"""kerchunk for HDF5 files with this filter::

    import h5z_quire.kerchunk
    references = kerchunk.hdf.SingleHdf5ToZarr(url).translate()

Only the process that makes references imports this module. Whoever reads them has this package installed: numcodecs finds the codec by its name.

kerchunk has a fixed list of filters, and leaves out a variable with another one. Importing this module has kerchunk read the rest of the list behind ours.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from kerchunk import hdf

from .numcodecs import QuireCodec
from .options import FILTER_ID
from .replaced import replace_private
from .settings import Quire


class _Rest:
    """A dataset of h5py with some of its filters."""

    def __init__(self, dataset: Any, names: Sequence[str]) -> None:
        self._dataset = dataset
        self._filters = {name: dataset._filters[name] for name in names}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


def _codecs(original: Callable[..., list[Any]], self: Any, h5obj: Any) -> list[Any]:
    """The codecs of a dataset's filters. A checksum of fletcher32 at the end of a chunk has none, as kerchunk cuts it off."""
    first, *others = h5obj._filters or [None]
    if first != str(FILTER_ID):
        return original(self, h5obj)
    rest = others[:-1] if others[-1:] == ["fletcher32"] else others
    return [QuireCodec(Quire.from_cd_values(h5obj._filters[first])), *original(self, _Rest(h5obj, rest))]


replace_private("kerchunk", hdf.SingleHdf5ToZarr, "_decode_filters", _codecs)
