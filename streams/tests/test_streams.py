"""The committed streams, the table that lists them, and the decoder in Python. codec/tests/streams.rs tests the plugin's codec."""

import pytest

from decoder import StreamError, decode
from table import FAULTY, FOLDERS, STREAMS, crc, listed_chunk, read_table

ROWS = read_table(STREAMS)


def test_the_table_lists_the_files_that_are_there():
    listed = [row.file for row in ROWS]
    assert sorted(listed) == sorted(f"{name}/{path.name}" for name in FOLDERS for path in (STREAMS / name).iterdir())


@pytest.mark.parametrize("row", [pytest.param(row, id=row.file) for row in ROWS])
def test_the_decoder_agrees_with_the_table(row):
    stream = (STREAMS / row.file).read_bytes()
    assert crc(stream) == row.file_crc
    if row.file.startswith(FAULTY):
        with pytest.raises(StreamError):
            decode(stream)
        return
    for name, value in listed_chunk(stream).items():
        assert value == getattr(row, name), name
    with pytest.raises(StreamError):
        decode(stream, int(row.bytes) - 1)
