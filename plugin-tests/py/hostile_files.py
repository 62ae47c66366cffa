"""Files that are to do harm, for the command line: names that a terminal would obey or that are no UTF-8, and damage of which HDF5 dies.

    hostile_files.py names FILE                writes a file whose links, attributes and comments have such names
    hostile_files.py names-check FILE NEW      all of them must be there byte for byte, and values within 1e-3
    hostile_files.py crash FILE NUMBER         writes damaged file NUMBER; says whether it has the bytes that were seen to crash HDF5 1.10.8
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any, Callable

import h5py
import numpy as np

FIELD = b"field \x1b[31m\n\xff"
GROUP = b"group \xfe\x07"
ATTRIBUTE = b"attribute \x1b]0;title\x07\xff"
COMMENT = b"comment \xff"


def names(path: str) -> None:
    values = np.linspace(0, 10, 64 * 128, dtype="<f4").reshape(64, 128)
    with h5py.File(path, "w") as file:
        file.create_dataset(FIELD, data=values)
        group = file.create_group(GROUP)
        group.create_dataset(FIELD, data=values[::-1], chunks=(16, 128), compression="gzip")
        group.create_dataset(b"small \x9b\xff", data=np.arange(3, dtype="<i4"))
        h5py.h5t.py_create(np.dtype("<f8")).commit(group.id, b"type \xff")
        for item in (file[FIELD], group):
            _attribute(item.id, ATTRIBUTE, 1.5)
        h5py.h5o.set_comment(file.id, COMMENT, obj_name=GROUP)
        file.id.links.create_soft(b"soft \xff", b"/" + GROUP + b"/" + FIELD)
        file.id.links.create_external(b"elsewhere \xff", b"other \xff.h5", b"/\xff")
        file.id.links.create_hard(b"again \xff", file.id, FIELD)
        file.create_dataset("see", (1,), h5py.ref_dtype)[0] = file[b"/" + GROUP + b"/" + FIELD].ref


def _attribute(owner: Any, name: bytes, value: float) -> None:
    space = h5py.h5s.create(h5py.h5s.SCALAR)
    h5py.h5a.create(owner, name, h5py.h5t.IEEE_F64LE, space).write(np.array(value))


def names_check(path: str, new: str) -> None:
    with h5py.File(path, "r") as old, h5py.File(new, "r") as copy:
        for group in (b"/", b"/" + GROUP):
            links = [_links(file[group].id) for file in (old, copy)]
            assert links[0] == links[1], links
        for item in (FIELD, GROUP):
            attributes = [_attributes(file[item].id) for file in (old, copy)]
            assert attributes[0] == attributes[1] == [(ATTRIBUTE, 1.5)], attributes
        # h5py's get_comment gives memory that is free already.
        assert COMMENT in Path(new).read_bytes()
        for dataset in (FIELD, b"/" + GROUP + b"/" + FIELD):
            assert np.abs(old[dataset][()] - copy[dataset][()]).max() <= 1e-3 and list(copy[dataset]._filters) == ["33791"]
        assert copy[copy["see"][0]] == copy[b"/" + GROUP + b"/" + FIELD]
        assert copy[b"again \xff"] == copy[FIELD]
        print(f"{len(_links(copy['/'].id)) + len(_links(copy[GROUP].id))} links as they were")


def _links(group: Any) -> list[tuple[bytes, int, Any]]:
    found = []
    for name in group:
        kind = group.links.get_info(name).type
        found.append((name, kind, None if kind == h5py.h5l.TYPE_HARD else group.links.get_val(name)))
    return found


def _attributes(owner: Any) -> list[tuple[bytes, float]]:
    found = []
    for index in range(h5py.h5a.get_num_attrs(owner)):
        attribute = h5py.h5a.open(owner, index=index)
        value = np.zeros(())
        attribute.read(value)
        found.append((attribute.name, float(value)))
    return found


# A file by Debian's h5py 3.7 on HDF5 1.10.8 in which 3000 times one to three bytes were changed (random.Random(1), three kinds of changes); `quire repack`
# died of 40 of the files before it had a process for that. These are one of each kind, with the function of HDF5 that fails: offsets, and the bytes that were
# written there.
BASE = "1e130d1efdbfd2cb59ea3ad39e579c1ba6f5bab456f2269d24d8ce5f6911cc25"
CRASHES = [
    [(816, 113)],  # H5Ocopy of a committed datatype, H5O__msg_copy_file
    [(5601, 255)],  # H5Dread of texts, H5F_get_intent
    [(7379, 255), (11762, 218)],  # H5Ocopy of a dataset, H5T_close_real
    [(993, 255), (3917, 255)],  # H5Aread, H5F_addr_decode
]


def crash(path: str, number: str) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=np.arange(400, dtype="<f4"), chunks=(100,), compression="gzip")
        file.create_dataset("text", data=np.array(["one", "two", "three"], dtype=object), dtype=h5py.string_dtype())
        file["t"].attrs["unit"] = "K"
        file["t"].attrs["see"] = file["text"].ref
        group = file.create_group("group")
        group["small"] = np.arange(4, dtype="<i4")
        group["record"] = np.zeros(2, [("a", "<f4"), ("b", "S3")])
        file["type"] = np.dtype("<f8")
        file["soft"] = h5py.SoftLink("/t")
        ragged = file.create_dataset("ragged", (2,), h5py.vlen_dtype("<f4"))
        ragged[0] = [1, 2]
    with open(path, "r+b") as file:
        is_recorded = hashlib.sha256(file.read()).hexdigest() == BASE
        for offset, byte in CRASHES[int(number)]:
            file.seek(offset)
            file.write(bytes([byte]))
    print("as recorded" if is_recorded else "another file than the recorded one")


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"names": names, "names-check": names_check, "crash": crash}
    commands[sys.argv[1]](*sys.argv[2:])
