"""What a copy, by whichever compressor, keeps of an array."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Callable, Iterable

import numpy as np
import numpy.typing as npt

from . import datasets, library
from .element_types import type_number, type_number_in_file
from .options import FILTER_ID, by_key
from .ranges import of_type, said_gaps
from .settings import Quire

_TEXT, _JSON, _HTML, _SVG = range(4)


class Report:
    """What `verify` has found. Its keys are attributes, too: `report.psnr`, `report.dssim["least"]`. As a text it is a table."""

    def __init__(self, statistics: library.Statistics) -> None:
        self._statistics = statistics
        #: All numbers, as the JSON of `quire verify --report --json` has them.
        self.json: dict[str, Any] = json.loads(statistics.write(_JSON))
        if self.json["psnr"] is None and self.json["greatest_error"] == 0:
            self.json["psnr"] = math.inf

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["json"][name]
        except KeyError:
            raise AttributeError(f"the report has no {name!r}") from None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.json]

    def __str__(self) -> str:
        return self._statistics.write(_TEXT)

    def html(self, path: str | Path, title: str = "A copy and its original") -> None:
        """Writes a page with all numbers and drawings, which needs no other file."""
        Path(path).write_text(self._statistics.write(_HTML, title), encoding="utf-8")

    def svg(self) -> str:
        """The drawings: the errors' histogram, spectra, and a plane of original, copy and error. Jupyter shows them."""
        return self._statistics.write(_SVG)

    _repr_svg_ = svg


def verify(
    original: Any, copy: Any, bound: float | None = None, *, missing: Any = None, threads: int = 0, progress: Callable[[int, int], Any] | None = None
) -> Report:
    """Compares an array with a copy that any compressor has made.

    Parameters
    ----------
    original, copy : array_like
        Arrays of one shape: of numpy, or what gives arrays of numpy for slices, such as datasets of h5py and arrays of zarr. These are read box by box, so
        that they need not fit into memory. A copy of another type is converted to the original's.
    bound : float, optional
        The largest error that is allowed. By default, that of the filter's options, if the copy is a dataset of h5py with an absolute bound.
    missing : array_like, optional
        Values that stand for none. They count nowhere, as NaN and infinities do not. By default, the fill value of the original, if it is a dataset of h5py,
        and what its attributes missing_value and _FillValue name.
    threads : int, default 0
        1 to 1024; 0 for what QUIRE_THREADS says, or what the process may use.
    progress : callable, optional
        Called as ``progress(done, total)``, in values.

    Raises
    ------
    ValueError
        For arrays of different shapes, of a type that the filter does not take, or without values.

    Examples
    --------
    >>> import h5z_quire, numpy as np
    >>> x = np.sin(np.arange(64 * 96) / 50).reshape(64, 96)
    >>> report = h5z_quire.verify(x, np.round(x, 3), bound=5e-4)
    >>> round(report.psnr), [(check["name"], check["is_kept"]) for check in report.checks][0]
    (77, ('largest error', True))
    """
    original, copy = (thing if hasattr(thing, "shape") and hasattr(thing, "dtype") else np.asarray(thing) for thing in (original, copy))
    if original.shape != copy.shape:
        raise ValueError(f"the shapes differ: {original.shape} and {copy.shape}")
    dtype = np.dtype(original.dtype)
    number = (type_number_in_file if datasets.is_dataset(original) else type_number)(dtype)
    if missing is None:
        missing = list(of_type(list(said_gaps(original)), dtype)) if datasets.is_dataset(original) else []
    # dask has the extents of each chunk.
    chunks = getattr(copy, "chunks", None)
    chunks = chunks if chunks and all(isinstance(extent, int) for extent in chunks) else None
    bits = np.ravel(np.asarray(missing, dtype)).view(f"u{dtype.itemsize // (2 if dtype.kind == 'c' else 1)}")
    bound = _bound_of(copy) if bound is None else bound
    field = {"shape": original.shape, "chunk": chunks, "missing": bits.tolist(), "bound": bound}
    statistics = library.Statistics(number, field, threads)
    total = math.prod(original.shape)
    done = 0
    while (box := statistics.next()) is not None:
        place = tuple(slice(start, end) for start, end in box)
        values = _in_order(original[place], dtype)
        statistics.add(values, _in_order(copy[place], dtype))
        done = min(done + values.size, total)
        if progress is not None:
            progress(done, total)
    return Report(statistics)


def _in_order(values: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(np.asarray(values), dtype)


def _bound_of(copy: Any) -> float | None:
    """The absolute bound of a dataset with the filter."""
    if not datasets.is_dataset(copy) or FILTER_ID not in datasets.filters(copy):
        return None
    options = by_key(Quire.from_dataset(copy).options)
    return 0.0 if "lossless" in options else float(options["abs"]) if "abs" in options else None
