"""The bytes of a small HDF5 file with one chunked dataset: its messages, its filters, where its chunks are listed, and all checksums.

After the HDF5 File Format Specification: object headers of versions 1 and 2, filter pipeline messages of versions 1 and 2, and every
chunk index that a dataset with a filter can have.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Iterator, NamedTuple

import h5py

# Types of messages in an object header.
NIL, DATASPACE, DATATYPE, FILL_VALUE, LAYOUT, PIPELINE, CONTINUATION = 0, 1, 3, 5, 8, 11, 16

SIGNATURES = (b"\x89HDF", b"OHDR", b"OCHK", b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EADB", b"EASB", b"BTHD", b"BTLF", b"BTIN", b"FSHD")


def lookup3(data: bytes) -> int:
    """Bob Jenkins's lookup3 (`hashlittle` with initial value 0), with which HDF5 seals its structures."""

    def rotate(x: int, k: int) -> int:
        return (x << k | x >> (32 - k)) & 0xFFFFFFFF

    a = b = c = (0xDEADBEEF + len(data)) & 0xFFFFFFFF
    if not data:
        return c
    groups = (len(data) + 11) // 12
    words = struct.unpack(f"<{3 * groups}I", data.ljust(12 * groups, b"\0"))
    for i in range(0, len(words), 3):
        a, b, c = (a + words[i]) & 0xFFFFFFFF, (b + words[i + 1]) & 0xFFFFFFFF, (c + words[i + 2]) & 0xFFFFFFFF
        if i + 3 < len(words):
            for k in (4, 6, 8, 16, 19, 4):
                a = ((a - c) & 0xFFFFFFFF) ^ rotate(c, k)
                c = (c + b) & 0xFFFFFFFF
                a, b, c = b, c, a
        else:
            for k in (14, 11, 25, 16, 4, 14, 24):
                c = ((c ^ b) - rotate(b, k)) & 0xFFFFFFFF
                a, b, c = b, c, a
            # Seven turns of three names leave the last result in `b`.
            return b
    raise AssertionError("unreachable")


class Message(NamedTuple):
    kind: int
    header: int  # file offset of the message's header
    at: int  # file offset of its data
    size: int  # bytes of its data


class Filter(NamedTuple):
    id: int
    flags: int
    name: bytes
    words: tuple[int, ...]


class Entry(NamedTuple):
    """Where the index says what a chunk's address, size and filter mask are; file offsets, and the size's number of bytes."""

    address: int
    size: int
    size_bytes: int
    mask: int


class Image:
    """A file's bytes, with what is where for the dataset `x`."""

    def __init__(self, path: Path) -> None:
        with h5py.File(path, "r") as file:
            dataset = file["x"].id
            self.header: int = h5py.h5o.get_info(dataset).addr
            infos = [dataset.get_chunk_info(i) for i in range(dataset.get_num_chunks())]
            self.rank = dataset.rank
        self.chunks = [(info.byte_offset, info.size) for info in infos]
        self.raw = path.read_bytes()
        self.is_new = self.raw[self.header : self.header + 4] == b"OHDR"
        self.sealed = list(self._find_sealed())
        self.messages = list(self._messages_new() if self.is_new else self._messages_old())
        self.entries = self._find_entries()
        self.filters = self._filters()

    def message(self, kind: int) -> Message:
        return next(message for message in self.messages if message.kind == kind)

    def _find_sealed(self) -> Iterator[tuple[int, int]]:
        """Offset and length of all that a checksum follows: the length is the one for which the checksum is right."""
        for signature in SIGNATURES:
            at = self.raw.find(signature)
            while at >= 0:
                for length in range(8, 1200):
                    found = self.raw[at + length : at + length + 4]
                    if len(found) == 4 and any(found) and struct.unpack("<I", found)[0] == lookup3(self.raw[at : at + length]):
                        yield at, length
                        break
                at = self.raw.find(signature, at + 1)

    def seal(self, raw: bytearray) -> bytes:
        """`raw`, which is this file with changes, with right checksums."""
        for at, length in self.sealed:
            # A changed checksum is made right too, which leaves no change.
            if raw[at : at + length + 4] != self.raw[at : at + length + 4]:
                struct.pack_into("<I", raw, at + length, lookup3(bytes(raw[at : at + length])))
        return bytes(raw)

    def _messages_old(self) -> Iterator[Message]:
        blocks = [(self.header + 16, struct.unpack_from("<I", self.raw, self.header + 8)[0])]
        for start, length in blocks:
            at = start
            while at + 8 <= start + length:
                kind, size = struct.unpack_from("<HH", self.raw, at)
                yield Message(kind, at, at + 8, size)
                if kind == CONTINUATION:
                    blocks.append(struct.unpack_from("<QQ", self.raw, at + 8))
                at += 8 + size

    def _messages_new(self) -> Iterator[Message]:
        flags = self.raw[self.header + 5]
        start = self.header + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        size_bytes, self.message_header = 1 << (flags & 3), 6 if flags & 4 else 4
        length = int.from_bytes(self.raw[start : start + size_bytes], "little")
        blocks = [(start + size_bytes, length)]
        for start, length in blocks:
            at = start
            while at + self.message_header <= start + length:
                kind, size = struct.unpack_from("<BH", self.raw, at)
                yield Message(kind, at, at + self.message_header, size)
                if kind == CONTINUATION:
                    address, whole = struct.unpack_from("<QQ", self.raw, at + self.message_header)
                    blocks.append((address + 4, whole - 8))
                at += self.message_header + size

    def _find_entries(self) -> list[Entry]:
        """What the index says of each chunk: the address with the chunk's size and a filter mask of 0 beside it. Addresses occur elsewhere by chance."""
        raw = bytearray(self.raw)
        for start, length in self.sealed:
            if raw[start : start + 4] in (b"FAHD", b"EAHD", b"BTHD"):
                raw[start : start + length] = bytes(length)
        places = [[at for at in range(len(raw)) if raw.startswith(struct.pack("<Q", address), at)] for address, _ in self.chunks]
        firsts = sorted(offsets[0] for offsets in places)
        spacing = min((b - a for a, b in zip(firsts, firsts[1:])), default=0)
        layout = self.message(LAYOUT)

        def entry_at(offset: int) -> Entry:
            if self.raw[layout.at] == 3:
                # A B-tree of version 1: a key of size, mask and offsets (one more than axes) is in front of the address.
                key = offset - 8 * (self.rank + 1) - 8
                return Entry(offset, key, 4, key + 4)
            if layout.at < offset < layout.at + layout.size:
                return Entry(offset, offset - 12, 8, offset - 4)
            # An array, or a B-tree of version 2 ("BTLF"), whose entries end with the chunk's offsets.
            size_bytes = spacing - 12 - (8 * self.rank if b"BTLF" in self.raw else 0)
            return Entry(offset, offset + 8, size_bytes, offset + 8 + size_bytes)

        entries = []
        for offsets, (_, size) in zip(places, self.chunks):
            tried = [entry_at(offset) for offset in offsets]
            fitting = [entry for entry in tried if self.read(entry.size, entry.size_bytes) == size and self.read(entry.mask, 4) == 0]
            assert len(fitting) == 1, f"{tried}"
            entries += fitting
        return entries

    def read(self, at: int, size: int) -> int:
        return int.from_bytes(self.raw[at : at + size], "little")

    def _filters(self) -> list[Filter]:
        message = self.message(PIPELINE)
        self.words_at: list[int] = []  # of the first word of each filter
        self.filters_at: list[int] = []
        version, count = self.raw[message.at : message.at + 2]
        at, filters = message.at + (8 if version == 1 else 2), []
        for _ in range(count):
            self.filters_at.append(at)
            number = self.read(at, 2)
            has_name = version == 1 or number >= 256
            name_length = self.read(at + 2, 2) if has_name else 0
            at += 4 if has_name else 2
            flags, words = struct.unpack_from("<HH", self.raw, at)
            at += 4
            name = self.raw[at : at + name_length]
            at += name_length
            self.words_at.append(at)
            filters.append(Filter(number, flags, name.rstrip(b"\0"), struct.unpack_from(f"<{words}I", self.raw, at)))
            at += 4 * (words + (words & 1 if version == 1 else 0))
        return filters

    def pipeline_bytes(self, filters: list[Filter]) -> bytes:
        """A filter pipeline message of the file's version."""
        version = self.raw[self.message(PIPELINE).at]
        data = struct.pack("<BB", version, len(filters)) + bytes(6 if version == 1 else 0)
        for each in filters:
            name = each.name + b"\0" if each.name else b""
            if version == 1:
                name = name.ljust(-(-len(name) // 8) * 8, b"\0")
            data += struct.pack("<H", each.id) + (struct.pack("<H", len(name)) if version == 1 or each.id >= 256 else b"")
            data += struct.pack("<HH", each.flags, len(each.words)) + (name if version == 1 or each.id >= 256 else b"")
            data += struct.pack(f"<{len(each.words)}I", *each.words) + bytes(4 * (len(each.words) & 1) if version == 1 else 0)
        return data

    def with_pipeline(self, data: bytes) -> bytearray:
        """The file with another filter pipeline message, of any length: a continuation replaces the old one and leads to the end."""
        old, raw = self.message(PIPELINE), bytearray(self.raw)
        if self.is_new:
            message = struct.pack("<BHB", PIPELINE, len(data), 1) + bytes(self.message_header - 4) + data
            block = b"OCHK" + message
            block += struct.pack("<I", lookup3(block))
            continuation = struct.pack("<BHB", CONTINUATION, 16, 0) + bytes(self.message_header - 4)
            rest = struct.pack("<BHB", NIL, old.size - 16 - self.message_header, 0) + bytes(self.message_header - 4)
        else:
            data = data.ljust(-(-len(data) // 8) * 8, b"\0")
            block = struct.pack("<HHB3x", PIPELINE, len(data), 1) + data
            continuation = struct.pack("<HHB3x", CONTINUATION, 16, 0)
            rest = struct.pack("<HHB3x", NIL, old.size - 24, 0)
            # A continuation, an empty message, and the new message, where one message was.
            struct.pack_into("<H", raw, self.header + 2, self.read(self.header + 2, 2) + 2)
        end = -(-len(raw) // 8) * 8
        raw += bytes(end - len(raw))
        new = continuation + struct.pack("<QQ", end, len(block)) + rest
        raw[old.header : old.header + len(new)] = new
        raw[old.header + len(new) : old.at + old.size] = bytes(old.at + old.size - old.header - len(new))
        raw += block
        struct.pack_into("<Q", raw, 28 if raw[8] >= 2 else 40, len(raw))
        return raw

    def patched(self, *changes: tuple[int, bytes]) -> bytearray:
        """The file with these bytes at these offsets."""
        raw = bytearray(self.raw)
        for at, new in changes:
            raw[at : at + len(new)] = new
        return raw

    def regions(self) -> dict[str, tuple[int, int]]:
        """Start and end of everything that says what the dataset is and where its chunks are, by names that files with other filters share."""
        regions = {f"message {message.kind}": (message.header, message.at + message.size) for message in self.messages}
        for start, length in self.sealed:
            signature = self.raw[start : start + 4].decode("latin1")
            if signature not in ("\x89HDF", "OHDR"):
                regions[f"block {signature}"] = (start, start + length)
        for number, entry in enumerate(self.entries):
            regions[f"entry of chunk {number}"] = (min(entry.address, entry.size), max(entry.address + 8, entry.mask + 4))
        return regions
