"""PyTables."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import tables

from h5z_quire import Quire
from h5z_quire.pytables import create_carray
from conftest import TYPES, assert_bound, field


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if dtype[1:] not in ("f2", "c8", "c16")])
def test_an_array_is_made_and_read_within_the_bound(dtype: str, tmp_path: Path) -> None:
    values, bound = field(dtype), 2 if dtype[1] in "iu" else 1e-3
    with tables.open_file(tmp_path / "t.h5", "w") as file:
        group = file.create_group("/", "group")
        assert list(group) == []
        array = create_carray(file, "/group", "t", Quire(abs=bound), obj=values, chunkshape=(16, 16, 16))
        assert isinstance(array, tables.CArray) and array.chunkshape == (16, 16, 16) and array.shape == values.shape
        assert [node._v_name for node in group] == ["t"] and group.t is array
        file.create_array(group, "u", obj=values)
        assert sorted(group._v_children) == ["t", "u"]
    with tables.open_file(tmp_path / "t.h5", "r+") as file:
        assert_bound(values, file.root.group.t[...], bound)
        file.root.group.t[:5] = values[5:10]
        file.root.group.t.rename("renamed")
    with tables.open_file(tmp_path / "t.h5") as file:
        assert_bound(values[5:10], file.root.group.renamed[:5], bound)
    with h5py.File(tmp_path / "t.h5") as file:
        assert file["group/renamed"].dtype == values.dtype and Quire.from_dataset(file["group/renamed"]) == Quire(abs=bound)


def test_what_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with tables.open_file(tmp_path / "t.h5", "w") as file:
        file.create_group("/", "taken")
        for values, chunkshape, quire, reason in (
            (np.zeros(3, "c8"), (3,), Quire(abs=1), "complex64"),
            (np.zeros(3, "i4"), (3,), Quire(pwrel=0.1), "point-wise"),
            (np.zeros(3, "f2"), (3,), Quire(abs=1), "make the file with h5py"),
            (np.zeros((3, 3)), (3,), Quire(abs=1), "must have 2 extents"),
            (np.zeros((3, 3)), (3, 0), Quire(abs=1), "must have 2 extents"),
            (np.zeros(()), (), Quire(abs=1), "must have 0 extents"),
        ):
            with pytest.raises(ValueError, match=reason):
                create_carray(file, "/", "t", quire, obj=values, chunkshape=chunkshape)
        with pytest.raises(ValueError, match="does not say what to keep"):
            create_carray(file, "/", "t", 5, obj=np.zeros(3), chunkshape=(3,))  # type: ignore[arg-type]
        with pytest.raises(tables.HDF5ExtError, match="[Cc]hunk size must be"):
            create_carray(file, "/", "t", "abs=1", obj=np.zeros(3), chunkshape=(4,))
        with pytest.raises(tables.NodeError, match="taken"):
            create_carray(file, "/", "taken", Quire(abs=1), obj=np.zeros(3), chunkshape=(3,))
        with pytest.raises(tables.NoSuchNodeError):
            create_carray(file, "/nowhere", "t", Quire(abs=1), obj=np.zeros(3), chunkshape=(3,))
        with pytest.raises(ValueError):
            create_carray(file, "/", "a/b", Quire(abs=1), obj=np.zeros(3), chunkshape=(3,))
        assert [node._v_name for node in file.root] == ["taken"]
    with tables.open_file(tmp_path / "t.h5") as file:
        with pytest.raises(tables.FileModeError):
            create_carray(file, "/", "t", Quire(abs=1), obj=np.zeros(3), chunkshape=(3,))


def test_pytables_own_filters_have_no_room_for_it() -> None:
    with pytest.raises(TypeError):
        tables.Filters(**Quire(abs=1))
