"""A decoder of Quire streams 1.0 in Python and numpy, written from FORMAT.md alone. No code is shared with the plugin.

    python3 -m decoder FILE...     decodes files of one raw stream each to stdout

It is there to be read beside FORMAT.md, and to compare the plugin with. It is not fast. Each module has its sections of FORMAT.md:

    header          1, 3         conventions, and the header
    bodies          4            bodies with a grid
    planes          4            planes of integers
    quantization    5            values from codes and from positions
    prediction      6            differences, and interpolation
    tokens          7, 9.1       tokens, and their blocks of lanes
    books           8            codebooks
    bit_planes      9.2          blocks of bit planes

This module has section 2: a stream as a whole.
"""

from __future__ import annotations

import numpy as np

from .bodies import read_body, values_of
from .header import CONSTANT, EXACT, STORED, Header, StreamError, read_header
from .planes import read_plane
from .quantization import values_of_exact

__all__ = ["Header", "StreamError", "decode", "read_header"]

DEFAULT_LIMIT = 1 << 30


def decode(stream: bytes, limit: int = DEFAULT_LIMIT) -> bytes:
    """§2: the chunk's bytes.

    `limit`: the most bytes that the chunk may have, as a short stream can encode 2^48 values.
    """
    stream = bytes(stream)
    header, reader = read_header(stream)
    if header.count * header.width > limit:
        raise StreamError("3", f"{header.count} values are more than the caller's limit of {limit} bytes")
    if header.coding == STORED:
        chunk = reader.take(header.count * header.width, "2", "a stored body")
    elif header.coding == CONSTANT:
        chunk = reader.take(header.width, "2", "a constant body") * header.count
    elif header.coding == EXACT:
        chunk = chunk_of(values_of_exact(read_plane(reader, header.extents, header.bits).codes(), header), header)
    else:
        chunk = chunk_of(values_of(read_body(reader, header), header), header)
    if reader.at != len(stream):
        raise StreamError("2", f"{len(stream) - reader.at} bytes follow the body")
    return side_by_side(chunk, header.width) if header.pairs else chunk


def chunk_of(values: np.ndarray, header: Header) -> bytes:
    """§5.1: the chunk's bytes from the values' bits, in the chunk's byte order."""
    return values.astype(values.dtype.newbyteorder(">" if header.big_endian else "<")).tobytes()


def side_by_side(values: bytes, width: int) -> bytes:
    """§3: the pairs of an array of all first parts and all second parts."""
    return np.frombuffer(values, f"V{width}").reshape(2, -1).T.tobytes()
