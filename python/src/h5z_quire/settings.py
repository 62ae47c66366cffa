"""`Quire`: what the filter is to keep of the data."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any, Iterable, Iterator, Mapping, NoReturn, Sequence, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import datasets, library
from .element_types import type_number
from .messages import short
from .options import FILTER_ID, by_key, cd_values, decimal, options

_KEYS = ("compression", "compression_opts")


class Quire(Mapping[str, Any]):
    """What the filter is to keep of the data: one bound, and how to code.

    h5py, h5netcdf and xarray take a Quire as `compression`. It is also a mapping with the keys `compression` and `compression_opts`. Two are equal if their
    options are. A Quire is hashable, and cannot be changed.

    Parameters
    ----------
    abs : float
        No value is off by more, in the data's own units; for integers, whole units. 0 asks for the exact bits.
    rel : float
        No value is off by more than this share, above 0 and at most 1, of its chunk's range: that of the finite values but the fill value and far values.
    pwrel : float
        No value is off by more than this share of itself, above 0 and below 1. For floating-point types.
    psnr : float
        Peak signal-to-noise ratio of each chunk, in dB.
    ratio : float
        Bytes of each chunk over those of its stream, above 1, as far as the data allow. With `abs`, the ratio takes no larger bound than `abs`.
    lossless : bool
        The exact bits.
    coding : {"auto", "huffman", "bitshuffle"}
        "bitshuffle" is faster on a GPU, and streams are a fifth to a tenth larger.
    keep : str
        "order": no value passes another of its chunk. "sign:0": values below, at and above 0 stay there; so with other thresholds, as in "sign:0:273.15".
        "order+sign:0": both.
    adapt : {"none", "history"}
        With "history", codebooks that earlier chunks needed may be taken again. Streams then depend on the order of writing.
    brick : sequence of int
        1 to 4 extents, slowest first, such as (32, 32, 32): the values of a chunk, whatever its shape, are bricks of these extents, one after the other.
        A chunk must have whole rows of a brick, and compresses best if it has whole bricks.

    Raises
    ------
    ValueError
        With the reason, for options that make no sense.

    Examples
    --------
    >>> import h5py, numpy as np
    >>> from h5z_quire import Quire
    >>> with h5py.File("quire.h5", "w") as file:
    ...     t = file.create_dataset("t", data=np.zeros((64, 64)), chunks=(32, 64), compression=Quire(abs=1e-3))
    ...     u = file.create_dataset("u", data=np.zeros((64, 64)), chunks=(32, 64), **Quire(rel=1e-4, coding="huffman"))
    ...     Quire.from_dataset(t), Quire.from_dataset(u)
    (Quire(abs=0.001), Quire(rel=0.0001, coding='huffman'))
    """

    __slots__ = ("_words",)
    _words: tuple[int, ...]

    #: Number under which HDF5 knows the filter.
    filter_id = FILTER_ID

    def __init__(
        self,
        *,
        abs: SupportsFloat | None = None,
        rel: SupportsFloat | None = None,
        pwrel: SupportsFloat | None = None,
        psnr: SupportsFloat | None = None,
        ratio: SupportsFloat | None = None,
        lossless: bool = False,
        coding: str = "auto",
        keep: str = "",
        adapt: str = "none",
        brick: Iterable[SupportsIndex] | None = None,
    ) -> None:
        numbers = {"abs": abs, "rel": rel, "pwrel": pwrel, "psnr": psnr, "ratio": ratio}
        for key, choice in (("coding", coding), ("keep", keep), ("adapt", adapt)):
            if "," in str(choice):
                raise ValueError(f"{key} is {choice!r}: it must be one word")
        texts = [f"{key}={_decimal(key, number)}" for key, number in numbers.items() if number is not None]
        texts += ["lossless"] if lossless else []
        texts += [f"keep={keep}"] if keep else []
        texts += [] if brick is None else [f"brick={_extents(brick)}"]
        object.__setattr__(self, "_words", cd_values(",".join((*texts, f"coding={coding}", f"adapt={adapt}"))))

    @classmethod
    def from_options(cls, text: str) -> Quire:
        """A Quire from a text such as `rel=1e-4,coding=bitshuffle`. Raises ValueError for one that makes no sense.

        >>> Quire.from_options("rel=1e-4,coding=bitshuffle")
        Quire(rel=0.0001, coding='bitshuffle')
        """
        made = cls.__new__(cls)
        object.__setattr__(made, "_words", cd_values(text))
        return made

    @classmethod
    def from_cd_values(cls, words: Sequence[int]) -> Quire:
        """A Quire from the filter's parameters in HDF5, a user's or those that a dataset keeps. Raises ValueError for others.

        >>> Quire.from_cd_values((2, 3))
        Quire(abs=0.001)
        """
        return cls.from_options(options(words))

    @classmethod
    def from_dataset(cls, dataset: Any) -> Quire:
        """What a dataset was made with. The dataset is given as for `inspect`. Raises ValueError if it does not have this filter."""
        with datasets.opened(dataset) as opened:
            filters = datasets.filters(opened)
            if FILTER_ID not in filters:
                raise ValueError(f"{opened.name!r} is not compressed with filter {FILTER_ID}: its filters are {list(filters)}")
            return cls.from_cd_values(filters[FILTER_ID])

    @classmethod
    def for_array(cls, array: Any, *, rel: SupportsFloat | None = None, psnr: SupportsFloat | None = None, fill_value: Any = None, **beside: Any) -> Quire:
        """An absolute bound for a whole array, from the array's own range. So all chunks have one bound, however they are written.

        Parameters
        ----------
        array : array_like
            An array of numpy, dask or xarray, a dataset of h5py, a variable of netCDF4, or an array of zarr. Other than numpy's are read block by block.
        rel : float
            The bound is this share of the range: that of all finite values but gaps and far values, and of both parts of complex numbers.
        psnr : float
            In its place, the PSNR of the whole array, in dB, where errors are spread evenly over ± the bound. The PSNR of interpolated chunks is higher.
        fill_value : number or sequence of numbers, optional
            The values of gaps, beside those that the array itself names: HDF5's and zarr's fill value, `_FillValue`, `missing_value`, masks.
        **beside
            `coding`, `keep`, `adapt` and `brick`, as for `Quire`.

        Raises
        ------
        ValueError
            With the reason, for options that make no sense, and for an array without values or of another type than numbers.

        Examples
        --------
        >>> import numpy as np
        >>> from h5z_quire import Quire
        >>> Quire.for_array(np.array([270.0, 310.0, 1e20, np.nan]), rel=1e-3, fill_value=1e20)
        Quire(abs=0.04)
        """
        from .ranges import bound_of

        asked = by_key(cls(rel=rel, psnr=psnr, **beside).options)
        if rel is not None:
            bound = bound_of(array, float(rel), fill_value)
        elif psnr is not None:
            bound = bound_of(array, 10 ** (-float(psnr) / 20), fill_value, is_rms=True)
        else:
            raise ValueError(f"{next(iter(asked))} needs no array: give rel= or psnr=, of which an absolute bound is made")
        return cls(abs=bound, **beside)

    @property
    def options(self) -> str:
        """The options as a text, as command lines and metadata have them: `abs=0.001,coding=bitshuffle`."""
        return options(self._words)

    @property
    def cd_values(self) -> tuple[int, ...]:
        """The filter's parameters in HDF5, for any client (FORMAT.md, section 10)."""
        return self._words

    # By this name h5py takes them from an object that is given as `compression=`.
    filter_options = cd_values

    @classmethod
    def of_codec(cls, quire: Quire | str | None, keywords: Mapping[str, Any]) -> Quire:
        """A codec's Quire from a Quire, options as a text, or Quire's own keywords. Raises ValueError for both or neither."""
        if quire is None:
            return cls(**keywords)
        if keywords:
            raise ValueError(f"a codec is given {short(quire)} and {', '.join(keywords)}: give one text or Quire, or keywords alone")
        return cls.of(quire)

    @classmethod
    def of(cls, quire: Quire | str) -> Quire:
        """The Quire itself, or the Quire of a text. Raises ValueError for anything else."""
        if isinstance(quire, Quire):
            return quire
        if isinstance(quire, str):
            return cls.from_options(quire)
        raise ValueError(f"{short(quire)} does not say what to keep: give a Quire, or a text such as 'abs=1e-3'")

    def check(self, dtype: npt.DTypeLike, chunk: Sequence[int] | None = None) -> None:
        """Raises ValueError, with the reason, if values of this type cannot be compressed so, in chunks of this shape if one is given."""
        said, value = by_key(self.options), np.zeros(1, dtype)
        extents = _brick(said.pop("brick", ""))
        # Without the brick: one value is no whole row.
        text = ",".join(f"{key}={choice}" if choice else key for key, choice in said.items())
        library.compress(library.Task(text, type_number(value.dtype), value.shape, None), [value])
        if chunk is not None and extents and prod(chunk) % extents[-1]:
            raise ValueError(
                f"brick={_extents(extents)}: a chunk of {tuple(chunk)} has {prod(chunk)} values, which are no whole number of the brick's rows of "
                f"{extents[-1]}: choose chunks of whole bricks, or of a multiple of {extents[-1]} values, or leave the brick out"
            )

    def __getitem__(self, key: str) -> Any:
        if key not in _KEYS:
            raise KeyError(key)
        return FILTER_ID if key == _KEYS[0] else self._words

    def __iter__(self) -> Iterator[str]:
        return iter(_KEYS)

    def __len__(self) -> int:
        return len(_KEYS)

    def __eq__(self, other: object) -> bool:
        return self._words == other._words if isinstance(other, Quire) else super().__eq__(other)

    def __hash__(self) -> int:
        return hash(self._words)

    def __repr__(self) -> str:
        said = by_key(self.options)
        return f"Quire({', '.join(f'{key}={_repr(key, value)}' for key, value in said.items())})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Quire cannot be changed: make another one to set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Quire cannot be changed: {name} stays")

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return Quire.from_options, (self.options,)


def names_filter(compression: Any) -> bool:
    """Whether what h5py is given as `compression` is this filter: its number, or an object that has it, such as a Quire."""
    return bool(FILTER_ID in (compression, getattr(compression, "filter_id", None)))


def _decimal(key: str, number: SupportsFloat) -> str:
    try:
        return decimal(float(number))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{key} is {short(number)}: it must be a number that a float can hold") from None


def _extents(brick: Iterable[SupportsIndex]) -> str:
    try:
        return "x".join(str(index(extent)) for extent in brick)
    except TypeError:
        raise ValueError(f"brick is {brick!r}: it must be 1 to 4 whole numbers, slowest first, such as (32, 32, 32)") from None


def _brick(text: str) -> tuple[int, ...]:
    """The extents of a brick such as `32x32x32`; none of an empty text."""
    return tuple(map(int, text.split("x"))) if text else ()


def _repr(key: str, value: str) -> str:
    if key == "lossless":
        return "True"
    if key == "brick":
        return repr(_brick(value))
    return repr(value) if value[0].isalpha() else value


