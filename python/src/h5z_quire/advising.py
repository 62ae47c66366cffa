"""Advice on a bound: what bounds cost and keep on a part of an array, and the largest bound that keeps what is asked for."""

from __future__ import annotations

import contextlib
import math
import os
from itertools import product
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import datasets
from .arrays import as_value, compress_batch, decompress_batch
from .chunk_shapes import chunks as chunk_shape
from .element_types import type_number_in_file
from .ranges import of_type, said_gaps
from .settings import Quire
from .verification import verify

_USUAL = ("rel=1e-2", "rel=1e-3", "rel=1e-4", "lossless")
#: The least dSSIM that `verify` calls good.
_USUAL_SSIM = 0.9995
# A bound of a fifth of the noise's standard deviation makes the noise larger by 0.7 %.
_SHARE_OF_NOISE = 0.2
# The ladder of bounds reaches down eight decades from the range.
_STEPS = 24
# The median magnitude of normally distributed values, in standard deviations.
_MEDIAN_OF_NORMAL = 0.6744897501960817


class Trial(NamedTuple):
    """What a bound costs and keeps."""

    quire: Quire
    #: Bytes of the values over those of the streams.
    ratio: float
    #: In dB.
    psnr: float
    #: Of the plane along the two fastest axes that has the least; None where no plane has 11 rows and columns.
    dssim: float | None
    #: Root mean square of the errors of gradients, as a share of that of the gradients; along the axis where this share is largest.
    gradient_error: float | None
    greatest_error: float


class Advice(NamedTuple):
    """What `advise` has found."""

    #: The largest bound that keeps what was asked for; the exact bits where none does, or where the values are exact anyway.
    quire: Quire
    #: The bounds that were given, and those of the search that keep what was asked for.
    trials: list[Trial]
    #: Standard deviation of the noise, in the units of the data; None where none is seen.
    noise: float | None
    #: All values are multiples of this power of ten or of two, if there is one.
    unit: float | None


def advise(
    array: Any,
    *,
    ssim: float | None = None,
    gradient: float | None = None,
    psnr: float | None = None,
    noise: bool | float = False,
    bounds: Sequence[Quire | str] = _USUAL,
    chunks: Sequence[int] | None = None,
    fill_value: Any = None,
    sample: int = 16 << 20,
) -> Advice:
    """Tries bounds on evenly spaced planes of an array, and finds the largest absolute bound that keeps all that is asked for. `quire advise` does so for files.

    Parameters
    ----------
    array : array_like, dataset or str
        An array of numpy, dask, xarray or zarr, a dataset of h5py, or a text such as "run.h5:/t".
    ssim : float
        The least dSSIM of a plane, such as 0.99995. Without any of these four, 0.9995.
    gradient : float
        The largest error of gradients, as a share, such as 1e-2.
    psnr : float
        The least PSNR, in dB.
    noise : bool or float
        The bound is at most a fifth of the noise: of a standard deviation, such as an ensemble's spread, or of that which is estimated if it is True.
    bounds : sequence of Quire or str
        Bounds to try besides.
    chunks : sequence of int, optional
        The chunk shape; the array's own by default, or that of `h5z_quire.chunks`.
    fill_value : number or sequence of numbers, optional
        The values of gaps, beside those that the array itself names. The first one is the fill value.
    sample : int
        Bytes of the planes.

    Raises
    ------
    ValueError
        For an array of another type than numbers, without values or axes, or with a mask.

    Examples
    --------
    >>> import numpy as np
    >>> from h5z_quire import advise
    >>> y, x = np.mgrid[:200, :300] / 40
    >>> found = advise(np.round(np.sin(x + y) * np.cos(y), 3), psnr=50)
    >>> found.quire, found.unit
    (Quire(abs=0.01), 0.001)
    """
    is_named = isinstance(array, (str, os.PathLike))
    with datasets.opened(array) if is_named else contextlib.nullcontext(array) as opened:
        planes = _Planes(opened, chunks, fill_value, sample)
    if ssim is None and gradient is None and psnr is None and noise is False:
        ssim = _USUAL_SSIM
    trials = [planes.trial(Quire.of(quire)) for quire in bounds]
    own_noise = planes.noise()
    most = math.inf if noise is False else _SHARE_OF_NOISE * ((own_noise or 0.0) if noise is True else float(noise))

    def is_kept(trial: Trial) -> bool:
        return (
            (ssim is None or trial.dssim is None or trial.dssim >= ssim)
            and (gradient is None or trial.gradient_error is None or trial.gradient_error <= gradient)
            and (psnr is None or trial.psnr >= psnr)
        )

    advised = Quire(lossless=True)
    extent = planes.range()
    if 0 < extent < math.inf and most > 0 and planes.values.dtype.kind in "fc":
        kept, missed = planes.step(extent) - _STEPS, planes.step(min(extent, most)) + 1
        step = missed - 1
        while step > kept:
            trial = planes.trial(Quire(abs=planes.bound(step)))
            if is_kept(trial):
                kept, advised = step, trial.quire if trial.greatest_error else Quire(lossless=True)
                trials.append(trial)
            else:
                missed = step
            step = (kept + missed) // 2
    return Advice(advised, trials, own_noise, planes.unit())


class _Planes:
    """Evenly spaced boxes of an array in memory: whole planes of chunks as far as there is room, or the whole array."""

    def __init__(self, array: Any, chunks: Sequence[int] | None, fill_value: Any, sample: int) -> None:
        array = array if hasattr(array, "shape") else np.asarray(array)
        type_number_in_file(np.dtype(array.dtype))
        extents = tuple(map(int, array.shape))
        if not extents or 0 in extents:
            raise ValueError(f"an array of shape {extents} has no planes")
        own = getattr(array, "chunks", None) or chunk_shape(extents)
        chunk = [min(max(side) if isinstance(side, tuple) else side, extent) for side, extent in zip(own if chunks is None else chunks, extents)]
        sides, starts = _boxes(extents, chunk, max(1, sample // array.dtype.itemsize))
        boxes = [array[tuple(slice(at, at + side) for at, side in zip(start, sides))] for start in starts]
        if isinstance(boxes[0], np.ma.MaskedArray):
            raise ValueError("a masked array has no value where it is masked: give array.filled(value), and fill_value=value")
        # With three axes at least, so that boxes are no rows or planes of one array.
        self.values = np.stack([np.asarray(box).reshape((1,) * (3 - len(sides)) + tuple(sides)) for box in boxes])
        gaps = [] if fill_value is None else [as_value(gap, self.values.dtype) for gap in np.ravel(fill_value).tolist()]
        self._gaps = [gap[0] for gap in (*gaps, *of_type(list(said_gaps(array)), self.values.dtype))]
        inner = [1] * (3 - len(sides)) + chunk
        ranges = (range(0, extent, side) for extent, side in zip(self.values.shape[1:], inner))
        self._chunks: list[Any] = [
            (box, *(slice(at, at + side) for at, side in zip(corner, inner))) for corner in product(*ranges) for box in range(len(boxes))
        ]
        parts = self.values.view(self.values.real.dtype) if self.values.dtype.kind == "c" else self.values
        self._numbers = np.moveaxis(parts.reshape(*self.values.shape, -1), -1, 0).astype("f8")
        for gap in self._gaps:
            self._numbers[:, self.values == gap] = np.nan
        self._numbers[~np.isfinite(self._numbers)] = np.nan

    def trial(self, quire: Quire) -> Trial:
        copy, stored = np.empty_like(self.values), 0
        by_shape: dict[tuple[int, ...], list[Any]] = {}
        for chunk in self._chunks:
            by_shape.setdefault(self.values[chunk].shape, []).append(chunk)
        for shape, some in by_shape.items():
            streams = compress_batch([self.values[chunk] for chunk in some], quire, fill_value=self._gaps[0] if self._gaps else None)
            stored += sum(map(len, streams))
            for chunk, values in zip(some, decompress_batch(streams, shape)):
                copy[chunk] = values
        report = verify(self.values, copy, missing=self._gaps)
        gradients = [found["rms_error"] for found in report.gradients]
        dssim = report.dssim and report.dssim["least"]
        return Trial(quire, self.values.nbytes / stored, report.psnr, dssim, max(gradients, default=None), report.greatest_error)

    def range(self) -> float:
        finite = self._numbers[~np.isnan(self._numbers)]
        return float(np.ptp(finite)) if finite.size else 0.0

    def bound(self, step: int) -> float:
        """1, 2 and 5 times powers of ten; for types of 16 bits, powers of two."""
        return 2.0**step if self.values.dtype.itemsize == 2 else float(f"{(1, 2, 5)[step % 3]}e{step // 3}")

    def step(self, most: float) -> int:
        """The largest bound that is at most a number."""
        step = math.ceil(math.log2(most)) if self.values.dtype.itemsize == 2 else 3 * math.ceil(math.log10(most))
        while self.bound(step) > most:
            step -= 1
        return step

    def noise(self) -> float | None:
        """The median magnitude of second differences along all axes (Immerkær 1996, Donoho and Johnstone 1994: report/src/precision.rs)."""
        values = self._numbers
        axes = [axis for axis in (-1, -2, -3) if values.shape[axis] >= 3]
        for axis in axes:
            values = np.diff(values, 2, axis) / math.sqrt(6)
        values = np.abs(values[~np.isnan(values)])
        deviation = float(np.median(values)) / _MEDIAN_OF_NORMAL if axes and values.size else 0.0
        return deviation or None

    def unit(self) -> float | None:
        """The power of ten or of two of which all values are multiples, as report/src/precision.rs has it."""
        dtype = self.values.real.dtype
        values = self._numbers[np.nan_to_num(self._numbers) != 0]
        if dtype.name not in ("float32", "float64") or not values.size:
            return None
        greatest, telling = np.abs(values).max(), 2.0 ** (np.finfo(dtype).nmant - 2)
        mantissa, exponents = np.frexp(values)
        whole = np.abs(mantissa * 2.0**53).astype("i8")
        last = exponents - 53 + np.log2(whole & -whole).astype(int)
        binary = 2.0 ** int(last.min())
        for power in (10.0**places for places in range(10)):
            if greatest * power >= telling or binary * power >= 1:
                break
            if np.array_equal((np.rint(values * power) / power).astype(dtype).astype("f8"), values):
                return float(1 / power)
        is_unit = math.frexp(greatest)[1] - last.min() <= (exponents - last).max() and greatest / binary < telling
        return binary if is_unit else None


def _boxes(extents: Sequence[int], chunk: Sequence[int], room: int) -> tuple[list[int], Iterator[tuple[int, ...]]]:
    """The sides of boxes, and where they start. `room` is in values."""
    sides = list(extents)
    if math.prod(extents) > room:
        sides = list(chunk)
        for axis in (-1, -2) if len(sides) > 1 else ():
            sides[axis] = min(extents[axis], sides[axis] * max(1, room // math.prod(sides)))
    counts = [extent // side for extent, side in zip(extents, sides)]
    of_boxes = math.prod(counts)
    taken = min(of_boxes, max(1, room // math.prod(sides)))
    corners = (np.unravel_index(number * of_boxes // taken, counts) for number in range(taken))
    return sides, (tuple(int(at) * side for at, side in zip(corner, sides)) for corner in corners)
