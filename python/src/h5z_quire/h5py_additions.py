"""What h5py learns beside this package:

* `compression=` takes a `Quire`, as it takes the objects of hdf5plugin.
* The properties `compression` and `compression_opts` of a dataset with this filter are what `create_dataset` takes. h5py alone says "unknown". So
  `create_dataset_like` works, and xarray saves what it has opened with h5netcdf as it was compressed.
* bfloat16 of ml_dtypes is stored as a floating-point type of 16 bits, and read as bfloat16, in datasets with this filter. h5py alone stores bfloat16 as an
  opaque type, and reads the floating-point type as float32.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Callable

import h5py
import numpy as np
import numpy.typing as npt
from h5py._hl import selections

from . import datasets
from .element_types import bfloat16
from .options import FILTER_ID
from .replaced import replace
from .settings import Quire, names_filter

# Bits of a bfloat16: the sign's place, the exponent's first bit and length, the mantissa's first bit and length. Then what is added to an exponent.
_FIELDS = (15, 7, 8, 0, 7)
_EXPONENT_BIAS = 127


def add() -> None:
    """Adds all that to h5py."""
    h5py.filters.FilterRefBase.register(Quire)
    _replace_property("compression", lambda words: FILTER_ID)
    _replace_property("compression_opts", _options_of)
    if find_spec("ml_dtypes") is not None:
        replace(h5py.Dataset, "__init__", _init)
        replace(h5py.Group, "create_dataset", _create_dataset)


def _replace_property(name: str, ours: Callable[[tuple[int, ...]], Any]) -> None:
    """Has h5py's datasets with this filter say something else."""
    original = getattr(h5py.Dataset, name)

    def value(dataset: Any) -> Any:
        words = datasets.filters(dataset).get(FILTER_ID)
        return original.fget(dataset) if words is None else ours(words)

    setattr(h5py.Dataset, name, property(value, doc=original.__doc__))


def _options_of(words: tuple[int, ...]) -> tuple[int, ...]:
    """The user's part of `cd_values`. All of them if this version does not understand them: the values can be read nevertheless."""
    try:
        return Quire.from_cd_values(words).cd_values
    except ValueError:
        return words


def _init(original: Callable[..., None], dataset: Any, *arguments: Any, **keywords: Any) -> None:
    original(dataset, *arguments, **keywords)
    if type(dataset) is h5py.Dataset and _is_bfloat16(dataset.id.get_type()) and FILTER_ID in datasets.filters(dataset):
        dataset.__class__ = Bfloat16Dataset


def _is_bfloat16(stored: Any) -> bool:
    return isinstance(stored, h5py.h5t.TypeFloatID) and stored.get_fields() == _FIELDS and stored.get_ebias() == _EXPONENT_BIAS and stored.get_size() == 2


def _means_bfloat16(given: Any) -> bool:
    try:
        return given is not None and np.dtype(given) == bfloat16()
    except TypeError:
        # A type of another library.
        return False


def _in_file() -> Any:
    """HDF5's type for bfloat16 in the byte order of this machine, which is that of memory as well."""
    made = (h5py.h5t.IEEE_F16LE if sys.byteorder == "little" else h5py.h5t.IEEE_F16BE).copy()
    made.set_fields(*_FIELDS)
    made.set_ebias(_EXPONENT_BIAS)
    return made


def _create_dataset(
    original: Callable[..., Any], group: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None, **keywords: Any
) -> Any:
    if not names_filter(keywords.get("compression")) or not _means_bfloat16(getattr(data, "dtype", None) if dtype is None else dtype):
        return original(group, name, shape, dtype, data, **keywords)
    if keywords.get("fillvalue") is not None:
        # HDF5 converts it to the dataset's type.
        keywords["fillvalue"] = np.float32(keywords["fillvalue"])
    values = None if data is None else np.asarray(data, bfloat16())
    dataset = original(group, name, values.shape if shape is None and values is not None else shape, h5py.Datatype(_in_file()), None, **keywords)
    if values is not None:
        dataset[...] = values.reshape(dataset.shape)
    return dataset


class Bfloat16Dataset(h5py.Dataset):  # type: ignore[misc]
    """A dataset of h5py whose values are read and written as bfloat16 of ml_dtypes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """bfloat16."""
        return bfloat16()

    @property
    def fillvalue(self) -> Any:
        """As h5py's."""
        value = np.zeros(1, np.float32)
        self.id.get_create_plist().get_fill_value(value)
        return value.astype(bfloat16())[0]

    def __getitem__(self, args: Any, new_dtype: npt.DTypeLike | None = None) -> Any:
        """As h5py's."""
        if new_dtype is not None and new_dtype != bfloat16():
            return super().__getitem__(args, new_dtype)
        with h5py._hl.base.phil:
            selection = selections.select(self.shape, args, dataset=self)
            values = np.zeros(selection.array_shape, bfloat16())
            if selection.nselect:
                self.id.read(h5py.h5s.create_simple(selection.mshape), selection.id, values, _in_file(), dxpl=self._dxpl)
        return values if values.shape else values[()]

    def __setitem__(self, args: Any, val: Any) -> None:
        """As h5py's; values of other types are converted by ml_dtypes."""
        with h5py._hl.base.phil:
            selection = selections.select(self.shape, args, dataset=self)
            values = np.empty(selection.array_shape, bfloat16())
            values[...] = val
            if selection.nselect:
                self.id.write(h5py.h5s.create_simple(selection.mshape), selection.id, values, _in_file(), dxpl=self._dxpl)

    def read_direct(self, dest: npt.NDArray[Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """As h5py's."""
        if dest.dtype != bfloat16():
            super().read_direct(dest, source_sel, dest_sel)
        else:
            dest[... if dest_sel is None else dest_sel] = self[... if source_sel is None else source_sel]

    def write_direct(self, source: npt.NDArray[Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """As h5py's."""
        self[... if dest_sel is None else dest_sel] = source[... if source_sel is None else source_sel]
