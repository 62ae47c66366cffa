"""The table that lists the streams of a folder: streams.csv. README.md says what its columns mean."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

from decoder import decode, read_header
from decoder.header import BFLOAT

STREAMS = Path(__file__).resolve().parent
TABLE = "streams.csv"
VALID, UNCOMMON, FAULTY = FOLDERS = ("valid", "uncommon", "faulty")
BETWEEN = ";"  # no field has one: messages have commas


class Row(NamedTuple):
    """A row of the table, whose fields are its columns."""

    file: str
    about: str
    type: str = ""
    order: str = ""
    dims: str = ""
    bytes: str = ""
    values_crc: str = ""
    file_crc: str = ""
    section: str = ""
    message: str = ""


def crc(data: bytes) -> str:
    """A CRC-32 as the table has it."""
    return f"{zlib.crc32(data):08x}"


def listed_chunk(stream: bytes) -> dict[str, str]:
    """The fields of a valid stream's row that follow from decoding the stream."""
    header, _ = read_header(stream)
    values = decode(stream)
    kind, width = ("c", 2 * header.width) if header.pairs else ("bf" if header.kind == BFLOAT else header.kind, header.width)
    order, dims = "big" if header.big_endian else "little", "x".join(map(str, header.extents))
    return {"type": f"{kind}{8 * width}", "order": order, "dims": dims, "bytes": str(len(values)), "values_crc": crc(values)}


def read_table(folder: Path) -> list[Row]:
    """The rows of the folder's table."""
    first, *lines = (folder / TABLE).read_text(encoding="utf-8").splitlines()
    assert first.split(BETWEEN) == list(Row._fields), first
    return [Row(*line.split(BETWEEN)) for line in lines]


def write_table(folder: Path, rows: list[Row]) -> None:
    """Writes the folder's table."""
    assert not any(BETWEEN in field or "\n" in field for row in rows for field in row)
    text = "".join(BETWEEN.join(row) + "\n" for row in (Row._fields, *rows))
    (folder / TABLE).write_text(text, encoding="utf-8")
