#!/usr/bin/env python3
"""The streams of the folder streams/, and the table that lists them.

    streams.py FOLDER     holds quire_decoder.py against the table: values of valid streams have their CRC-32, faulty streams are refused

Needs numpy, but neither h5py nor the plugin. Ends with 1 after a disagreement.
"""

import sys
import zlib
from pathlib import Path
from typing import Dict, List, NamedTuple

from quire_decoder import BFLOAT, StreamError, decode, read_header

TABLE = "streams.csv"
VALID, UNCOMMON, FAULTY = FOLDERS = ("valid", "uncommon", "faulty")
BETWEEN = ";"  # no field has one: messages have commas


class Row(NamedTuple):
    """A row of the table, whose fields are its columns."""

    file: str  # within the folder: valid/NAME.quire
    about: str
    type: str = ""
    order: str = ""
    dims: str = ""  # slowest first: 9x20x31
    bytes: str = ""  # of the values
    values_crc: str = ""
    file_crc: str = ""
    section: str = ""  # of FORMAT.md that a faulty stream breaks
    message: str = ""  # of H5Z-Quire's decoder


def type_name(element) -> str:
    """A value type's name; it has a kind and a width."""
    if getattr(element, "pairs", False):
        return f"c{16 * element.width}"
    return f"{'bf' if element.kind == BFLOAT else element.kind}{8 * element.width}"


def crc(data: bytes) -> str:
    """A CRC-32 as the table has it."""
    return f"{zlib.crc32(data):08x}"


def listed_chunk(stream: bytes) -> Dict[str, str]:
    """Those fields of a valid stream that its decoding gives."""
    header, _ = read_header(stream)
    values = decode(stream)
    order, dims = "big" if header.big_endian else "little", "x".join(map(str, header.extents))
    return {"type": type_name(header), "order": order, "dims": dims, "bytes": str(len(values)), "values_crc": crc(values)}


def read_table(folder: Path) -> List[Row]:
    """The rows of the folder's table."""
    first, *lines = (folder / TABLE).read_text(encoding="utf-8").splitlines()
    assert first.split(BETWEEN) == list(Row._fields), first
    return [Row(*line.split(BETWEEN)) for line in lines]


def write_table(folder: Path, rows: List[Row]) -> None:
    """Writes the folder's table."""
    assert not any(BETWEEN in field or "\n" in field for row in rows for field in row)
    text = "".join(BETWEEN.join(row) + "\n" for row in (Row._fields, *rows))
    (folder / TABLE).write_text(text, encoding="utf-8")


def fault(folder: Path, row: Row) -> str:
    """What is wrong with a row, or nothing."""
    stream = (folder / row.file).read_bytes()
    if crc(stream) != row.file_crc:
        return f"the file has the CRC-32 {crc(stream)}"
    if row.file.startswith(FAULTY):
        try:
            decode(stream)
        except StreamError:
            return ""
        return "is read"
    try:
        found = listed_chunk(stream)
    except StreamError as error:
        return f"is refused: {error}"
    try:
        decode(stream, int(row.bytes) - 1)
        return "is read where a byte less is the limit"
    except StreamError:
        pass
    wrong = [f"{name} {value}" for name, value in found.items() if value != getattr(row, name)]
    return ", ".join(wrong)


def main(folder: Path) -> int:
    rows = read_table(folder)
    wrong = [f"{row.file}: {what}" for row in rows for what in [fault(folder, row)] if what]
    there = {f"{name}/{path.name}" for name in FOLDERS for path in (folder / name).iterdir()}
    listed = [row.file for row in rows]
    wrong += [f"{file}: listed more than once" for file in sorted({file for file in listed if listed.count(file) > 1})]
    wrong += [f"{file}: listed or there, but not both" for file in sorted(there ^ set(listed))]
    for line in wrong:
        print(line)
    counts = ", ".join(f"{sum(row.file.startswith(name) for row in rows)} {name}" for name in FOLDERS)
    print(f"quire_decoder.py on the streams of {folder.name}/: {counts}; {len(wrong)} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
