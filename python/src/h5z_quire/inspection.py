"""What was done to each chunk, and what the library is, without decoding anything."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from . import datasets, library
from .arrays import BytesLike, as_bytes
from .options import FILTER_ID

_FLETCHER32 = 3
_CHECKSUM_BYTES = 4


class Plane(NamedTuple):
    """A plane of a stream: the codes; then, where there are many exceptions, their mask and their bits."""

    #: "differences", "cubic interpolation" or "linear interpolation"
    prediction: str
    #: Axes along which, as indices into `extents`. Of interpolation, those that are not rough.
    axes: tuple[int, ...]
    #: "huffman" or "bitshuffle"
    coding: str
    #: Number in the dictionary, "custom", or None for bit planes.
    codebook: int | str | None
    #: Integers of a block.
    block_len: int
    #: Bytes of the plane.
    bytes: int


class Description(NamedTuple):
    """What a stream says of itself."""

    #: "stored", "constant", "quantized", "exact", "steps", "logarithmic" or "decimal"
    coding: str
    #: "f4", "f8", "f2", "bfloat16", "i1", "u1", ...; the digits are bytes
    value_type: str
    #: "little" or "big"
    byte_order: str
    #: Slowest first; those of 1 are dropped, and slow ones folded together until four are left.
    extents: tuple[int, ...]
    #: Half the step of the grid, in the data's own units; of binary logarithms if the coding is "logarithmic"; None for exact values and decimals.
    half_step: float | None
    #: Values that are kept bit for bit beside the grid.
    exceptions: int
    #: The planes, in their order.
    planes: tuple[Plane, ...]


class Chunk(NamedTuple):
    """A chunk of a dataset. A list of them makes a table: `pandas.DataFrame(inspect(dataset))`."""

    #: Indices of its first value in the dataset, slowest axis first.
    offset: tuple[int, ...]
    #: As in `Description`; "unfiltered" if HDF5 has stored the chunk without the filter.
    coding: str
    #: `Plane.prediction` and the axes, as indices into the stream's extents; None if there are no codes.
    predictor: str | None
    #: Number in the dictionary, "custom", "bit planes"; None if there are no codes.
    codebook: int | str | None
    #: Bytes of the whole chunk over those in the file.
    ratio: float
    #: Values that are kept bit for bit beside the grid.
    exceptions: int
    #: As in `Description`.
    half_step: float | None
    #: In the file.
    bytes: int


class Info(NamedTuple):
    """What this package is, and where it computes."""

    #: Of package and library.
    version: str
    #: Of the stream format.
    stream_version: str
    #: Number under which HDF5 knows the filter.
    filter_id: int
    #: "cuda", "cpu", or "none" where the environment stands against every call.
    backend: str
    #: The GPU's name.
    device: str | None
    #: The reason for the backend.
    why: str
    #: Whether GPU kernels are in the library.
    kernels_built: bool
    #: The version of CUDA that a driver must have for them, such as "CUDA 12.0".
    oldest_driver: str | None
    #: The plugin. An HDF5 that had loaded another copy before this package was imported goes on with that copy.
    library: Path


def info() -> Info:
    """What this package is, and where it computes. Looks for a GPU as the first large chunk would, which takes some 300 ms if there is a GPU.

    Examples
    --------
    >>> import h5z_quire
    >>> h5z_quire.info().filter_id
    33791
    """
    return Info(**json.loads(library.info()), library=library.LIBRARY)


def describe(stream: BytesLike) -> Description:
    """Describes a stream: what `compress` gives, or a chunk that was read from a file as it is. Raises ValueError for a damaged stream.

    Examples
    --------
    >>> import numpy as np
    >>> from h5z_quire import compress, describe
    >>> describe(compress(np.arange(600, dtype="f4").reshape(20, 30), "abs=1e-3"))[:4]
    ('quantized', 'f4', 'little', (20, 30))
    """
    found = json.loads(library.describe(as_bytes(stream)))
    planes = tuple(Plane(**{**plane, "axes": tuple(plane["axes"])}) for plane in found.pop("planes"))
    return Description(**{**found, "extents": tuple(found["extents"]), "planes": planes})


def inspect(dataset: Any) -> list[Chunk]:
    """A row for each chunk that a dataset has in its file, the last axis fastest. A chunk that was never written has no row.

    Parameters
    ----------
    dataset : dataset, variable or str
        A dataset of h5py; a variable of h5netcdf, netCDF4 or xarray that was read from a file; or a text such as "run.h5:/t". netCDF4 and xarray do not tell
        their files to flush: close or sync a file that was written.

    Raises
    ------
    ValueError
        If the dataset does not have this filter, has a filter other than fletcher32 behind it, or holds a damaged chunk.

    Examples
    --------
    >>> import h5py, numpy as np
    >>> from h5z_quire import Quire, inspect
    >>> with h5py.File("inspected.h5", "w") as file:
    ...     dataset = file.create_dataset("t", data=np.sin(np.arange(4096) / 50), chunks=(2048,), compression=Quire(abs=1e-3))
    >>> [(chunk.offset, chunk.coding, chunk.half_step) for chunk in inspect("inspected.h5:/t")]
    [((0,), 'quantized', 0.001), ((2048,), 'quantized', 0.001)]
    """
    with datasets.opened(dataset) as opened:
        return _inspect(opened)


def _inspect(dataset: Any) -> list[Chunk]:
    filters = list(datasets.filters(dataset))
    if filters not in ([FILTER_ID], [FILTER_ID, _FLETCHER32]):
        raise ValueError(
            f"{dataset.name!r} has the filters {filters}: only {[FILTER_ID]}, or with fletcher32 behind it {[FILTER_ID, _FLETCHER32]}, can be inspected"
        )
    whole = dataset.dtype.itemsize * math.prod(dataset.chunks)
    return [_chunk(dataset, offset, whole, len(filters)) for offset in datasets.chunk_offsets(dataset)]


def _chunk(dataset: Any, offset: tuple[int, ...], whole: int, filters: int) -> Chunk:
    """A chunk, of `whole` bytes before it was compressed. Bit n of its mask says that it was stored without the nth filter."""
    mask, stored = dataset.id.read_direct_chunk(offset)
    ratio = whole / len(stored)
    if mask & 1:
        return Chunk(offset, "unfiltered", None, None, ratio, 0, None, len(stored))
    has_checksum = filters == 2 and not mask & 2
    try:
        found = describe(stored[:-_CHECKSUM_BYTES] if has_checksum else stored)
    except ValueError as error:
        raise ValueError(f"{dataset.name!r}, chunk at {offset}: {error}") from None
    predictor: str | None = None
    codebook: int | str | None = None
    if found.planes:
        codes = found.planes[0]
        predictor = " ".join((codes.prediction, ",".join(map(str, codes.axes)))).strip()
        codebook = "bit planes" if codes.codebook is None else codes.codebook
    return Chunk(offset, found.coding, predictor, codebook, ratio, found.exceptions, found.half_step, len(stored))
