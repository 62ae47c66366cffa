#!/usr/bin/env python3
"""The plugin against quire_decoder.py, which was written from FORMAT.md alone: the same bytes from the plugin's streams,
the same verdict on altered ones.

    HDF5_PLUGIN_PATH=<dir of libh5zquire.so> python3 decoder_matrix.py [--all]

Deterministic; exits 1 after a disagreement. --all takes every bound for every field, alters every bit of every small stream,
and crafts more. What the plugin reads in spite of bits that sections 7 and 9 want to be 0 is counted, and is no disagreement
as long as the values are the same.
"""

import argparse
import itertools
import struct
import sys
import time
import zlib

import h5py
import numpy as np

from quire_decoder import QUANTIZED, TOKENS, Reader, StreamError, book_of, decode, read_dictionary, read_plane

FILTER = 33791
FIELDS = ("smooth", "noisy", "zeros", "lattice", "specials", "constant", "random bits", "dynamic")
BOUNDS = (1e-12, 1e-6, 1e-3, 0.5, 10.0)
SHAPES = (
    (1,), (2,), (31,), (33,), (2047,), (2048,), (2049,), (5000,),
    (1, 1), (2, 31), (33, 2), (50, 100), (1, 2049), (2049, 1),
    (2, 3, 5), (17, 16, 15), (1, 40, 1), (16, 16, 16),
    (2, 3, 4, 5), (7, 6, 5, 11), (1, 2, 1, 3), (3, 1, 1, 700),
    (2, 3, 2, 3, 2), (1, 2, 3, 4, 5), (4, 3, 5, 7, 6), (1, 1, 1, 1, 1),
)  # fmt: skip
TYPES = ("<f4", ">f4", "<f8", ">f8")


def field(kind, shape, dtype, bound, rng):
    """Values of one kind."""
    count = int(np.prod(shape))
    native = np.dtype(dtype).newbyteorder("=")
    at = np.arange(count)
    if kind == "smooth":
        values = 3 * np.sin(at / 37.0) + np.cos(at / 501.0)
    elif kind == "noisy":
        values = rng.normal(0, 40 * bound, count) + np.sin(at / 90.0)
    elif kind == "zeros":
        values = np.where(rng.random(count) < 0.01, rng.normal(0, 5, count), 0.0)
    elif kind == "lattice":
        values = rng.integers(-50, 50, count) * 1.0
    elif kind == "specials":
        values = np.sin(at / 37.0)
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e35, -1e35, 1e-40, 5e-324, 3.4e38])
        with np.errstate(over="ignore"):
            values = values.astype(native)
            some = rng.random(count) < 0.05
            values[some] = rng.choice(special, int(some.sum())).astype(native)
        values[count // 3 : count // 2] = 1e35
        bits = values.view(f"u{native.itemsize}")
        bits[:: max(1, count // 7)] = int("7fa12345" if native.itemsize == 4 else "7ff4123456789abc", 16)  # signalling
    elif kind == "constant":
        values = np.full(count, -1.2345)
    elif kind == "random bits":
        values = np.frombuffer(rng.bytes(count * native.itemsize), native)
    else:
        top = 37 if native.itemsize == 4 else 300
        values = 10.0 ** rng.uniform(-top, top, count) * rng.choice([-1, 1], count)
    return np.asarray(values).astype(dtype).reshape(shape)


class Plugin:
    """One file in memory, in which datasets of one chunk or more are made, read and altered."""

    def __init__(self):
        self.file = h5py.File("decoder_matrix", "w", driver="core", backing_store=False, rdcc_nbytes=0)  # no cache
        self.number = 0

    def dataset(self, shape, chunks, dtype, bound, fill=0.0):
        """A new dataset with the filter."""
        self.number += 1
        words = struct.unpack("<II", struct.pack("<d", bound))
        return self.file.create_dataset(
            f"d{self.number}", shape, dtype, chunks=chunks, compression=FILTER, compression_opts=(1, *words), fillvalue=fill
        )

    def raw(self, dataset, offset):
        """A chunk's stream; it must have gone through the filter."""
        mask, stream = dataset.id.read_direct_chunk(offset)
        assert mask == 0, f"filter mask {mask}"
        return stream


class Tally:
    """Counts and disagreements."""

    def __init__(self):
        self.chunks = self.altered = self.refused = self.disagreements = 0
        self.crafted = 0
        self.codings = [0, 0, 0]
        self.slowest = (0.0, "")

    def disagree(self, text):
        self.disagreements += 1
        if self.disagreements <= 40:
            print("DISAGREE", text, flush=True)


def read_chunk(dataset, offset, dtype):
    """What the plugin makes of a chunk that lies within the dataset: bytes, or the error."""
    part = tuple(slice(o, o + c) for o, c in zip(offset, dataset.chunks))
    try:
        return dataset[part].astype(dtype, copy=False).tobytes(), None
    except OSError as error:
        return None, str(error)


def decode_or_error(stream, limit):
    """What the decoder in Python makes of it. Any exception but StreamError goes through to the top."""
    try:
        return decode(stream, limit), None
    except StreamError as error:
        return None, str(error)


def check_dataset(plugin, tally, values, chunks, bound, name):
    """Writes values and decodes each chunk; gives the streams."""
    dataset = plugin.dataset(values.shape, chunks, values.dtype, bound, fill=7.25)
    dataset[...] = values
    read = dataset[...]
    bits = f"u{values.dtype.itemsize}"
    streams = []
    for offset in itertools.product(*(range(0, n, c) for n, c in zip(values.shape, chunks))):
        stream = plugin.raw(dataset, offset)
        streams.append(stream)
        tally.chunks += 1
        tally.codings[stream[7]] += 1
        start = time.perf_counter()
        limit = int(np.prod(chunks)) * values.dtype.itemsize
        got, error = decode_or_error(stream, limit)
        tally.slowest = max(tally.slowest, (time.perf_counter() - start, name))
        if got is None or len(got) != limit:
            tally.disagree(f"{name} chunk {offset}: {error or len(got)}")
            continue
        inside = tuple(slice(0, min(c, n - o)) for n, c, o in zip(values.shape, chunks, offset))
        there = tuple(slice(o, o + c) for o, c in zip(offset, chunks))
        mine = np.frombuffer(got, values.dtype).reshape(chunks)[inside].copy().view(bits)
        plugins = np.ascontiguousarray(read[there]).view(bits)
        if not np.array_equal(mine, plugins):
            tally.disagree(f"{name} chunk {offset}: {int((mine != plugins).sum())} other values")
    return streams


def fresh_checksum(stream):
    """The stream with the checksum that belongs to it, if it is long enough to have one."""
    if len(stream) < 16:
        return stream
    return stream[:12] + struct.pack("<I", zlib.crc32(stream[16:], zlib.crc32(stream[:12]))) + stream[16:]


def with_length(stream):
    """The stream with its own length in its header, too."""
    return stream[:16] + struct.pack("<Q", len(stream)) + stream[24:] if len(stream) >= 24 else stream


def alterations(stream, rng, part):
    """Altered streams with right checksums: bits, ends, lengths."""
    for bit in range(len(stream) * 8):
        if bit // 8 in range(12, 16) or not (bit < 8 * 80 or rng.random() < part):
            continue
        altered = bytearray(stream)
        altered[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", fresh_checksum(bytes(altered))
    for end in range(1, len(stream)):  # HDF5 has no chunks of 0 bytes
        if end < 60 or end > len(stream) - 8 or rng.random() < part:
            yield f"end {end}", fresh_checksum(stream[:end])
            yield f"end {end}, length set", fresh_checksum(with_length(stream[:end]))
    for more in (b"\0", b"\0\0", b"\0\0\0\0", b"\1\2\3\4"):
        yield f"{len(more)} more", fresh_checksum(stream + more)
        yield f"{len(more)} more, length set", fresh_checksum(with_length(stream + more))
    for byte in range(6, min(len(stream), 72)):
        for value in (0, 1, 11, 16, 17, 32, 33, 74, 75, 127, 128, 255):
            altered = bytearray(stream)
            altered[byte] = value
            if bytes(altered) != stream:
                yield f"byte {byte} = {value}", fresh_checksum(bytes(altered))
    yield "checksum", stream[:12] + bytes([stream[12] ^ 1]) + stream[13:]


def check_altered(plugin, tally, values, bound, name, rng, part):
    """Both readers on alterations of a small stream."""
    dataset = plugin.dataset(values.shape, values.shape, values.dtype, bound)
    dataset[...] = values
    stream = plugin.raw(dataset, (0,) * values.ndim)
    for what, altered in alterations(stream, rng, part):
        if altered != stream:
            tally.altered += 1
            check_stream(dataset, tally, altered, f"{name}, {what}")
    return len(stream)


def check_stream(dataset, tally, stream, name):
    """Both readers on one stream for a dataset of one chunk: the same bytes, or refused by both."""
    zero = (0,) * dataset.ndim
    limit = dataset.size * dataset.dtype.itemsize
    got, error = decode_or_error(stream, limit)
    dataset.id.write_direct_chunk(zero, stream)
    plugins, plugin_error = read_chunk(dataset, zero, dataset.dtype)
    tally.refused += plugins is None
    if plugins is None and got is not None and len(stream) > 6:
        # Section 10: the stream must agree with the dataset in length, value type and byte order.
        value_type = (dataset.dtype.itemsize == 8) + (0x80 if dataset.dtype.byteorder == ">" else 0)
        if len(got) != limit or stream[6] != value_type:
            return
    if got != plugins:
        tally.disagree(f"{name}: decoder {error or 'reads'}; plugin {plugin_error or 'reads'}")


class Craft:
    """Streams that the plugin's encoder would not write: any book, any tokens, any index."""

    def __init__(self, rng):
        self.rng = rng
        self.loose = 0.0  # part of blocks with words that they are in no need of

    def stream(self, extents, dtype, bound):
        """A quantized stream."""
        rng = self.rng
        width = dtype.itemsize
        plane = self.plane(extents)
        mask, ones = b"", 0
        if rng.random() < 0.7:
            mask = self.plane(extents)
            ones = sum(value & 1 for value in read_plane(Reader(mask, 0), extents, 8 * width))
        body = struct.pack("<dQ", bound, ones) + plane
        if ones:
            body += mask + self.plane((ones,))
        value_type = (width == 8) + (0x80 if dtype.byteorder == ">" else 0)
        head = b"QUIR\0\1" + bytes([value_type, QUANTIZED, len(extents), 0, 0, 0]) + bytes(12)
        return fresh_checksum(with_length(head + struct.pack(f"<{len(extents)}Q", *extents) + body))

    def lengths(self):
        """Lengths of a complete book, with a symbol for single differences."""
        rng = self.rng
        lengths = [1, 1]
        for _ in range(int(rng.integers(0, 75))):
            at = int(rng.integers(len(lengths)))
            if rng.random() < 0.3:
                at = int(np.argmax(lengths))
            if lengths[at] < 12:
                lengths[at] += 1
                lengths.append(lengths[at])
        symbols = [int(symbol) for symbol in rng.permutation(76)]
        if rng.random() < 0.3:
            symbols.sort(key=lambda symbol: symbol < 15)  # no runs, or few
        if all(symbol < 15 for symbol in symbols[: len(lengths)]):
            symbols.insert(0, symbols.pop())
        book = [0] * 76
        for symbol, length in zip(symbols, lengths):
            book[symbol] = length
        return book

    def plane(self, extents):
        """A plane of random tokens."""
        rng = self.rng
        count = int(np.prod(extents))
        custom, number = b"", int(rng.integers(75))
        lengths = list(read_dictionary()[number])
        if rng.random() < 0.6:
            number, lengths = 255, self.lengths()
            custom = bytes(a | b << 4 for a, b in zip(lengths[::2], lengths[1::2])) + b"\0\0"
        log2_length = int(rng.integers(11, 17))
        blocks = [
            self.block(lengths, min(1 << log2_length, count - at)) for at in range(0, count, 1 << log2_length)
        ]
        wide = [max(len(block[part]) for block in blocks).bit_length() for part in (0, 1)]
        if rng.random() < 0.3:
            wide = [int(rng.integers(w, 33)) for w in wide]
        index = at = 0
        for block in blocks:
            for words, bits in zip(block, wide):
                index |= len(words) << at
                at += bits
        index_bytes = index.to_bytes((at + 31) // 32 * 4, "little")
        body = b"".join(struct.pack(f"<{len(words)}H", *words) for block in blocks for words in block)
        axes = int(rng.integers(1 << len(extents)))
        head = bytes([axes, log2_length, number, *wide, 0, 0, 0])
        return head + custom + index_bytes + body + bytes(-len(body) % 4)

    def block(self, lengths, count):
        """Lane words and extra words of a block (sections 7, 9)."""
        rng = self.rng
        book = book_of(lengths)
        codes = {}
        for prefix, (symbol, length) in enumerate(zip(book.symbol, book.length)):
            codes.setdefault(symbol, (prefix >> (12 - length), length))
        weights = np.array([2.0 ** -lengths[s] for s in codes]) if rng.random() < 0.5 else np.ones(len(codes))
        chosen = iter(())
        tokens, extra_bits, extra_size = [], 0, 0
        while count:
            symbol = next(chosen, None)
            if symbol is None:
                chosen = iter([int(s) for s in rng.choice(list(codes), 200, p=weights / weights.sum())])
                continue
            is_run, start, bits = TOKENS[symbol]
            extra = int.from_bytes(rng.bytes(8), "little") >> (64 - bits)
            size = start + extra if is_run else 1
            if size > count:
                continue
            count -= size
            tokens.append(codes[symbol])
            extra_bits |= extra << extra_size
            extra_size += bits
        extras = [extra_bits >> at & 0xFFFF for at in range(0, extra_size, 16)]
        words = self.lanes(tokens)
        if rng.random() < self.loose:
            more = [int(word) * int(rng.integers(2)) for word in rng.integers(1 << 16, size=rng.integers(1, 70))]
            (words if rng.random() < 0.7 else extras).extend(more)
        return words, extras

    def lanes(self, tokens):
        """The lanes' words in the order in which section 9's decoder asks for them."""
        strings = ["".join(f"{code:0{length}b}" for code, length in tokens[lane::32]) for lane in range(32)]

        def word(lane, number):
            return int(strings[lane][16 * number : 16 * number + 16].ljust(16, "0"), 2)

        words = [word(lane, number) for number in (0, 1) for lane in range(32)]
        asked, available = [2] * 32, [32] * 32
        for step in range(0, len(tokens), 32):
            for lane, (_, length) in enumerate(tokens[step : step + 32]):
                available[lane] -= length
            for lane in range(32):
                if available[lane] <= 16:
                    words.append(word(lane, asked[lane]))
                    asked[lane] += 1
                    available[lane] += 16
        while words and words[-1] == 0:
            words.pop()
        return words


def crafted(plugin, tally, rng, number):
    """Streams by Craft, which both must read; and what becomes of them with words too many or other bits."""
    shapes = ((1,), (33,), (700,), (5000,), (70000,), (9, 13), (2, 600), (600, 2), (5, 6, 7), (1, 9, 1), (3, 4, 5, 6))
    for turn in range(number):
        craft = Craft(rng)
        shape = shapes[int(rng.integers(len(shapes)))]
        if shape == (70000,) and rng.random() < 0.8:
            continue
        dtype = np.dtype(TYPES[turn % 4])
        bound = float(rng.choice([1e-12, 1e-3, 10.0, 1e30, 3e-309, 8e307, 7e-46]))
        name = f"crafted {turn} {dtype} {shape} {bound}"
        dataset = plugin.dataset(shape, shape, dtype, 1e-3)
        stream = craft.stream(shape, dtype, bound)
        tally.crafted += 1
        refused = tally.refused
        check_stream(dataset, tally, stream, name)
        if tally.refused != refused:
            tally.disagree(f"{name}: refused by both")
        if dataset.size > 1000:
            continue
        for at in rng.integers(8 * 24, 8 * len(stream), 5):
            altered = bytearray(stream)
            altered[at // 8] ^= 1 << at % 8
            tally.altered += 1
            check_stream(dataset, tally, fresh_checksum(bytes(altered)), f"{name}, bit {at}")
        craft.loose = 0.5
        for _ in range(3):
            tally.altered += 1
            try:
                stream = craft.stream(shape, dtype, bound)
            except StreamError:  # a loose mask, which has no count of ones
                continue
            check_stream(dataset, tally, stream, f"{name}, loose")


def rules(plugin, tally, rng):
    """Single rules at their edges: which streams must be read, and which refused."""
    dataset = plugin.dataset((24,), (24,), "<f4", 1e-3)
    value_type, craft = np.dtype("<f4"), Craft(rng)

    def check(name, stream, good):
        tally.altered += 1
        refused = tally.refused
        check_stream(dataset, tally, stream, name)
        if (tally.refused == refused) != good:
            tally.disagree(f"{name}: {'refused' if good else 'read'} by both")

    def constant(*extents):
        head = b"QUIR\0\1\0\1" + bytes([len(extents)]) + bytes(15) + struct.pack(f"<{len(extents)}Q", *extents)
        return fresh_checksum(with_length(head + b"\1\2\3\4"))

    plain = craft.plane((24,))
    head = b"QUIR\0\1\0\2\1" + bytes(15) + struct.pack("<Q", 24)

    def quantized(bound, ones=0, rest=b""):
        return fresh_checksum(with_length(head + struct.pack("<dQ", bound, ones) + plain + rest))

    least = 2.0**-1025
    above = np.nextafter(least, 1)
    for bound in (above, 2.0**1022, np.nextafter(2.0**1023, 0), 1.0):
        check(f"bound {bound}", quantized(bound), True)
    for bound in (least, 5e-324, 2.0**1023, np.inf, np.nan, 0.0, -0.0, -1.0):
        check(f"bound {bound}", quantized(bound), False)
    for extents in ((24,), (4, 6), (1, 24), (24, 1), (2, 3, 4), (2, 3, 2, 2), (1, 1, 1, 24)):
        check(f"extents {extents}", craft.stream(extents, value_type, 1e-3), True)
        check(f"constant, extents {extents}", constant(*extents), True)
    fifth = pow(5, -1, 1 << 64)  # 5 × (24 × fifth) is 24 modulo 2^64
    for extents in ((25,), (0,), (24, 0), (1 << 32, 1 << 32), (2, 3, 2, 2, 1), (5, 24 * fifth % (1 << 64))):
        check(f"constant, extents {extents}", constant(*extents), False)

    mask = craft.plane((24,))
    ones = sum(value & 1 for value in read_plane(Reader(mask, 0), (24,), 32))
    while not 1 < ones < 24:
        mask = craft.plane((24,))
        ones = sum(value & 1 for value in read_plane(Reader(mask, 0), (24,), 32))
    for said in (0, 1, ones - 1, ones, ones + 1, 24, 25, 1 << 32, ones + (1 << 32), (1 << 64) - 1):
        rest = mask + craft.plane((min(said, 99),)) if said else b""
        check(f"{said} exceptions, {ones} in the mask", quantized(1.0, said, rest), said in (0, ones))
    check("a mask without exceptions", quantized(1.0, 0, mask), False)

    # Books: 0 and the difference 1, in codes of 1 bit; then what is wrong with it.
    for name, book, good in (
        ("complete", {30: 1, 31: 1}, True),
        ("12 bits", {**{30 + n: n + 1 for n in range(12)}, 42: 12}, True),
        ("13 bits", {**{30 + n: n + 1 for n in range(13)}, 43: 13}, False),
        ("one symbol", {30: 1}, False),
        ("no symbol", {}, False),
        ("too few", {30: 1, 31: 2}, False),
        ("too many", {30: 1, 31: 1, 75: 12}, False),
        ("15 bits", {30: 1, 31: 1, 75: 15}, False),
    ):
        lengths = [book.get(symbol, 0) for symbol in range(76)]
        packed = bytes(a | b << 4 for a, b in zip(lengths[::2], lengths[1::2]))
        for end in (b"\0\0", b"\1\0", b"\0\x80"):
            plain = bytes([0, 11, 255, 0, 0, 0, 0, 0]) + packed + end  # W = E = 0: codes of zeros only
            check(f"book {name} {end.hex()}", quantized(1.0), good and end == b"\0\0")
    runs = bytes(a | b << 4 for a, b in zip(*[iter([1, 1] + [0] * 74)] * 2)) + b"\0\0"
    plain = bytes([0, 11, 255, 0, 0, 0, 0, 0]) + runs
    check("runs to the end of the block", quantized(1.0), True)
    plain = bytes([0, 11, 255, 8, 0, 0, 0, 0]) + runs + b"\1\0\0\0" + b"\0\x80\0\0"
    check("a run over the end of the block", quantized(1.0), False)


def matrix(plugin, tally, rng, every_bound):
    """All kinds, types and shapes, with all bounds or with bounds taken in turn."""
    turn = itertools.cycle((bound,) for bound in BOUNDS)
    cases = itertools.product(SHAPES, FIELDS, TYPES)
    for shape, kind, dtype, bound in (case + (b,) for case in cases for b in (BOUNDS if every_bound else next(turn))):
        values = field(kind, shape, dtype, bound, rng)
        check_dataset(plugin, tally, values, shape, bound, f"{kind} {dtype} {shape} {bound}")
        if len(shape) in (2, 3) and np.prod(shape) < 3000:
            chunks = tuple(max(1, n - n // 3) for n in shape)
            check_dataset(plugin, tally, values, chunks, bound, f"{kind} {dtype} {shape} {bound} chunks {chunks}")


def large(plugin, tally, rng):
    """64^3 once, and blocks longer than 2048."""
    x = np.linspace(0, 6, 64)
    values = np.sin(x)[:, None, None] * np.cos(2 * x)[:, None] + np.sin(3 * x)
    for dtype, scale in (("<f4", 1e-3), (">f8", 1e-5)):
        noisy = (values + rng.normal(0, scale, values.shape)).astype(dtype)
        start = time.perf_counter()
        check_dataset(plugin, tally, noisy, noisy.shape, 1e-4, f"64^3 {dtype} {scale}")
        print(f"64^3 {dtype}, noise {scale}: {time.perf_counter() - start:.1f} s")
    sparse = np.where(rng.random((3, 100, 1000)) < 1e-3, np.nan, 0).astype("<f8")
    check_dataset(plugin, tally, sparse, sparse.shape, 1e-4, "sparse NaN")


def small_streams(rng):
    """What gets altered."""
    yield "constant", np.full((3, 4), 1.5, "<f4"), 1e-3
    yield "stored", field("random bits", (5,), ">f8", 1e-3, rng), 1e-3
    yield "lattice f4", np.round(np.linspace(0, 5, 24 * 9)).reshape(24, 9).astype("<f4"), 0.5
    yield "smooth f4", field("smooth", (3, 4, 5, 6), "<f4", 1e-3, rng), 1e-3
    yield "smooth f8", field("smooth", (40, 8), ">f8", 1e-5, rng), 1e-5
    yield "specials f4", field("specials", (9, 25), ">f4", 1e-2, rng), 1e-2
    yield "specials f8", field("specials", (200,), "<f8", 1e-2, rng), 1e-2
    zeros = np.zeros(2100, "<f4")
    zeros[[5, 99, 2060]] = 3, np.inf, 7
    yield "two blocks", zeros, 1e-3
    steps = np.tile(np.repeat([0.0, 1.0, 3.0], 7), 150).astype("<f8")
    yield "custom book", rng.choice([0.0, 9.0, 70.0], 1500, p=[0.5, 0.3, 0.2]).astype("<f4"), 0.5
    yield "steps", steps, 0.4


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--all", action="store_true")
    arguments = arguments.parse_args()
    start = time.perf_counter()
    tally = Tally()
    plugin = Plugin()
    matrix(plugin, tally, np.random.default_rng(1), arguments.all)
    print(f"matrix: {time.perf_counter() - start:.1f} s")
    rules(plugin, tally, np.random.default_rng(5))
    large(plugin, tally, np.random.default_rng(2))
    begun = time.perf_counter()
    crafted(plugin, tally, np.random.default_rng(4), 2000 if arguments.all else 300)
    print(f"{tally.crafted} crafted streams: {time.perf_counter() - begun:.1f} s")
    rng = np.random.default_rng(3)
    for name, values, bound in small_streams(rng):
        before, begun = tally.altered, time.perf_counter()
        size = check_altered(plugin, tally, values, bound, name, rng, 1.0 if arguments.all else 0.15)
        print(f"{name}: {size} bytes, {tally.altered - before} alterations, {time.perf_counter() - begun:.1f} s")
    stored, constant, quantized = tally.codings
    print(
        f"{tally.chunks} chunks ({stored} stored, {constant} constant, {quantized} quantized), "
        f"{tally.crafted} crafted streams, {tally.altered} altered ones ({tally.refused} refused), {tally.disagreements} disagreements, "
        f"slowest chunk {tally.slowest[0]:.2f} s ({tally.slowest[1]}), {time.perf_counter() - start:.1f} s"
    )
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
