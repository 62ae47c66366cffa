"""The command line on hostile files: names that a terminal would obey or that are no UTF-8, damage that makes HDF5 crash."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from pathlib import Path
from typing import Any, Callable

import h5py
import numpy as np

from conftest import IN_ORDER, Ended, Python

FIELD = b"field \x1b[31m\n\xff"
GROUP = b"group \xfe\x07"
ATTRIBUTE = b"attribute \x1b]0;title\x07\xff"
COMMENT = b"comment \xff"


def write_names(path: str) -> None:
    """Writes a file whose links, attributes and comments have such names."""
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


def check_names(path: str, new: str) -> None:
    """All of them must be there byte for byte, and values within 1e-3."""
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


# Changes of a file by Debian's h5py 3.7 on HDF5 1.10.8: offsets, and the bytes that are written there. One to three bytes were changed by chance in 3000
# copies, and HDF5 crashed on 40 of them. Here is a change for each kind of crash, with the function of HDF5 that fails.
BASE = "1e130d1efdbfd2cb59ea3ad39e579c1ba6f5bab456f2269d24d8ce5f6911cc25"
CRASHES = [
    [(816, 113)],  # H5Ocopy of a committed datatype, H5O__msg_copy_file
    [(5601, 255)],  # H5Dread of texts, H5F_get_intent
    [(7379, 255), (11762, 218)],  # H5Ocopy of a dataset, H5T_close_real
    [(993, 255), (3917, 255)],  # H5Aread, H5F_addr_decode
]


def write_damaged(path: str, number: str) -> bool:
    """Writes a damaged file; whether it has the bytes that were seen to crash HDF5 1.10.8."""
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
    return is_recorded


CPU = {"QUIRE_BACKEND": "cpu"}
Quire = Callable[..., Ended]


def harmless(ended: Ended) -> Ended:
    """What was printed is UTF-8 (`Ended` has U+FFFD for what is not), and has no control characters but those that end lines."""
    for text in (ended.stdout, ended.stderr):
        obeyed = [character for character in text if unicodedata.category(character) == "Cc" and character != "\n" or character == "\ufffd"]
        assert not obeyed, f"{obeyed} would be obeyed by a terminal: {text!r}"
    return ended


def test_names_of_any_bytes_are_taken_and_shown_escaped(quire: Quire, newest: Python, pythons: dict[str, Python]) -> None:
    source, target = b"in \x1b[31m\n\xff.h5", b"out \x1b[31m\n\xff.h5"
    newest(write_names, source, env=CPU)
    group, field = source + b":/" + GROUP, source + b":/" + GROUP + b"/" + FIELD
    shown, shown_field = "in \\x1b[31m\\n\\xff.h5", "/group \\xfe\\x07/field \\x1b[31m\\n\\xff"

    for arguments, some_names in (
        (["inspect"], [source, field, group]),
        (["inspect", "--chunks"], [source, field]),
        (["inspect", "--json"], [source, field]),
        (["advise", "--abs", "1e-3", "--json"], [field]),
        (["advise", "--abs", "1e-3", "--chunks", "8x8"], [field, source + b"/" + GROUP + b"/" + FIELD]),
    ):
        for name in some_names:
            # JSON has escapes of its own for all that is UTF-8.
            json = "/group \\\\xfe\\u0007/field \\u001b[31m\\n\\\\xff"
            harmless(quire(*arguments, name)).must_say(json if "--json" in arguments else shown_field)

    repacked = harmless(quire("repack", "--abs", "1e-3", source, target))
    repacked.must_say(shown_field, "verified: out \\x1b[31m\\n\\xff.h5", "skipped /group \\xfe\\x07/small \\x9b\\xff: fewer bytes")
    for python in pythons.values():
        python(check_names, source, target, env=CPU)
    harmless(quire("inspect", "--chunks", target)).must_say("out \\x1b[31m\\n\\xff.h5:/again \\xff: F32 64x128", "abs=1e-3")
    only = harmless(quire("repack", "--abs", "1e-3", "--force", "--json", "--only", GROUP, source, target))
    assert only.stdout.count('"ratio"') == 1
    harmless(quire("train", "--options", "abs=1e-3", "--output", b"books \x1b\xff", field)).must_say("1 dataset, 4 chunks at abs=1e-3")

    # What is not there, by each of them; the file's name and the path's.
    missing = b"no \x1b[31m\n\xff.h5"
    train, repack = ["train", "--options", "abs=1", "--output", "o", missing], ["repack", missing, "--abs", "1", "o"]
    for arguments in (["inspect", missing], ["advise", missing], train, repack):
        harmless(quire(*arguments, code=1)).must_say("error: no \\x1b[31m\\n\\xff.h5: there is no such file")
    nothing = harmless(quire("inspect", source + b":/\x1b", code=1))
    nothing.must_say(f"{shown}:/\\x1b: the file has no dataset and no group of that name")


def test_arguments_and_the_environment_are_shown_escaped(quire: Quire) -> None:
    for code, arguments, reason in (
        (2, ["args", "abs=\x1b[31m\n"], "abs=\\x1b[31m is not a number"),
        (2, ["args", "--\x1b[31m"], "'--\\x1b[31m'"),
        (2, ["args", b"abs=\xff"], "invalid UTF-8"),
        (2, ["\x1b[31m\nfly"], "'\\x1b[31m\\nfly'"),
        (2, ["completions", "\x1b[31msh"], "'\\x1b[31msh'"),
        (1, ["man", "\x1b[31mfly"], "no subcommand"),
        (2, ["advise", "in.h5", "--chunks", "\x1b[31m\n"], "is not a shape"),
        (2, ["repack", "in.h5", "out.h5", "--rel", "\x1b[31m"], "rel=\\x1b[31m is not a number"),
    ):
        harmless(quire(*arguments, code=code)).must_say(reason)
    for variable, value, shown in (
        ("HDF5_PLUGIN_PATH", b"/nowhere \x1b[31m\xff", "HDF5 looks into /nowhere \\x1b[31m\\xff, which is not a folder"),
        ("QUIRE_DICTIONARY", b"/nowhere \x1b[31m\n", "QUIRE_DICTIONARY=/nowhere \\x1b[31m\\n"),
        ("QUIRE_BACKEND", b"\x1b[31m", "QUIRE_BACKEND=\\x1b[31m"),
    ):
        setting = {variable: os.fsdecode(value)}
        harmless(quire("doctor", env=setting, code=1)).must_say(shown)
        harmless(quire("doctor", "--json", env=setting, code=1))
    odd = harmless(quire("doctor", env={os.fsdecode(b"QUIRE_\x1b\xff"): "1"}))
    odd.must_say("QUIRE_\\x1b\\xff is set, but the filter has no such variable")


def test_files_that_make_hdf5_crash_are_errors_and_leave_nothing(quire: Quire, debian: Python, tmp_path: Path) -> None:
    is_1_10_8 = "HDF5 1.10.8 is linked into this program" in quire("doctor").stdout
    for number in range(len(CRASHES)):
        is_recorded = debian(write_damaged, "in.h5", number, env=CPU).json
        for arguments in (
            ["repack", "in.h5", "out.h5", "--abs", "1e-3", "--min-size", "0"],
            ["inspect", "in.h5"],
            ["advise", "in.h5", "--abs", "1"],
            ["train", "in.h5", "--options", "abs=1", "--output", "out.books"],
        ):
            ended = harmless(quire(*arguments, code=IN_ORDER))
            if arguments[0] == "repack" and is_1_10_8 and is_recorded:
                said = "HDF5 crashed on reading in.h5 (signal 11, SIGSEGV): the file is probably damaged; out.h5 was not made"
                assert ended.must_say(f"error: {said}").stdout == ""
            assert not list(tmp_path.glob("out.*.part")), f"{arguments} on file {number}"
        (tmp_path / "out.books").unlink(missing_ok=True)
