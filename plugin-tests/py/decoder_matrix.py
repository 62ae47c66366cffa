#!/usr/bin/env python3
"""The plugin against quire_decoder.py, which was written from FORMAT.md alone: the same bytes from the plugin's streams,
the same verdict on altered ones. What the encoder makes of values is held against sections 5.1 and 5.2 as well.

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
from collections import Counter

import h5py
import numpy as np

from quire_decoder import (
    FINE, INTERPOLATION, LEAST_STEP, QUANTIZED, TOKENS, Reader, StreamError, book_of, classes, decode, prediction,
    most_listed, read_dictionary, read_header, read_integers, read_list, read_plane, undo_differences, undo_interpolation, values_of_places, wrapped,
)  # fmt: skip

FILTER = 33791
FILL = 7.25
FIELDS = ("smooth", "noisy", "zeros", "lattice", "specials", "constant", "random bits", "dynamic")
SHAPED = ("waves", "holes", "walk", "ramp")
BOUNDS = (1e-12, 1e-6, 1e-3, 0.5, 10.0)
SHAPES = (
    (1,), (2,), (31,), (33,), (2047,), (2048,), (2049,), (5000,),
    (1, 1), (2, 31), (33, 2), (50, 100), (1, 2049), (2049, 1),
    (2, 3, 5), (17, 16, 15), (1, 40, 1), (16, 16, 16),
    (2, 3, 4, 5), (7, 6, 5, 11), (1, 2, 1, 3), (3, 1, 1, 700),
    (2, 3, 2, 3, 2), (1, 2, 3, 4, 5), (4, 3, 5, 7, 6), (1, 1, 1, 1, 1),
)  # fmt: skip
TYPES = ("<f4", ">f4", "<f8", ">f8")
# Shapes for predictors to choose by: even, odd, powers of two and one beside them, and extents of 1.
GRIDS = (
    (64,), (65,), (127,), (3000,),
    (16, 17), (64, 48), (1, 300), (300, 1), (33, 40), (5, 129),
    (8, 9, 10), (16, 16, 16), (17, 18, 33), (1, 40, 30), (12, 1, 50), (3, 33, 34),
    (8, 9, 10, 11), (5, 6, 7, 8), (1, 12, 13, 14), (2, 16, 1, 33), (9, 8, 1, 8), (2, 3, 9, 10, 11),
)  # fmt: skip


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


def shaped(kind, shape, dtype, bound, rng):
    """Values that a predictor suits: all of a size that the bound is coarse for."""
    native = np.dtype(dtype).newbyteorder("=")
    at = np.indices(shape)
    slopes = rng.uniform(0.1, 0.4, len(shape)).reshape(-1, *[1] * len(shape))
    if kind == "walk":
        values = np.cumsum(rng.normal(0, 20 * bound, shape), int(rng.integers(len(shape))))
    elif kind == "ramp":
        values = 3.7 * bound * (at * slopes * 30).sum(0)
    else:
        values = 50 * bound * np.sin((at * slopes).sum(0) + rng.uniform(0, 6))
    values = values.astype(native)
    if kind == "holes":
        flat = values.reshape(-1)
        flat[rng.random(flat.size) < 0.01] += native.type(3000 * bound)  # out of reach for binary32
        flat[rng.random(flat.size) < 0.01] += native.type(1e7 * bound)  # and for both
        some = rng.random(flat.size) < 0.02
        flat[some] = rng.choice(np.array([np.nan, np.inf, -np.inf, FILL, 1e35, -0.0], native), int(some.sum()))
        flat.view(f"u{native.itemsize}")[:: max(1, flat.size // 7)] = int("7fa12345" if native.itemsize == 4 else "7ff4123456789abc", 16)
    return values.astype(dtype)


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
        self.kept = self.escapes = 0
        self.predictors = Counter()  # of chunks, by rank, type, predictor, and whether there are exceptions
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
    dataset = plugin.dataset(values.shape, chunks, values.dtype, bound, fill=FILL)
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
        elif stream[7] == QUANTIZED and plugins.shape == tuple(chunks):
            check_encoder(tally, stream, np.ascontiguousarray(values[there]), bound, f"{name} chunk {offset}")
    return streams


class Parts:
    """What a quantized stream says before there are values."""

    def __init__(self, stream):
        self.header, reader = read_header(stream)
        self.half_step, self.ones = struct.unpack("<dQ", reader.take(16, "4", "the body"))
        extents, bits = self.header.extents, 8 * self.header.width
        listed = self.ones <= most_listed(self.header.count)
        places, _ = read_list(reader, self.ones if listed else 0, self.header)
        self.predictor, integers = read_integers(reader, extents)
        self.interpolated = self.predictor == INTERPOLATION
        if self.interpolated:
            self.residuals = np.array(wrapped(integers, 32), np.int32)
            self.places = undo_interpolation(self.residuals, extents).reshape(extents)
        else:
            self.codes = np.array(undo_differences(integers, extents, self.predictor, bits)).reshape(extents)
        mask = np.zeros(self.header.count, int) if listed else np.array(read_plane(reader, extents, bits))
        mask[places] = 1
        self.exceptions = (mask & 1 == 1).reshape(extents)


class Rules:
    """Sections 5.1 and 5.2 for an encoder, of one chunk's values."""

    def __init__(self, parts, values, bound):
        native = values.astype(values.dtype.newbyteorder("=")).reshape(parts.header.extents)
        self.header, self.type, self.bits = parts.header, native.dtype, native.view(f"u{native.itemsize}")
        self.x = native.astype("f8")
        self.bound, self.step = bound, 2 * parts.half_step
        self.inverse = 1 / self.step
        self.reach = 512 if native.itemsize == 4 else 32768
        self.fine = parts.half_step == bound and self.step >= LEAST_STEP[native.itemsize]
        self.scaled = self.x * self.inverse
        self.nearest = np.rint(self.scaled)
        self.codes, self.coded = self.try_codes()
        self.places, self.stands = self.try_places()

    def value(self, places):
        """Section 5.2's value of a place as a number of the chunk's type, in binary64."""
        values = np.frombuffer(values_of_places(places, self.step, self.header), self.type)
        return values.reshape(places.shape).astype("f8")

    def unrounded(self, places):
        """Section 5.2's value of a place before it is rounded to its type."""
        steps = (places + 4) // 8
        return steps * self.step + (places - 8 * steps) * (self.step * FINE)

    def restored(self, steps, rest):
        """Section 5.2's value of so many steps and a rest, which may be 4."""
        return (steps * self.step + rest * (self.step * FINE)).astype(self.type).astype("f8")

    def try_codes(self):
        """Section 5.1: codes, and where rules 1 to 4 hold."""
        most = 2.0 ** (31 if self.type.itemsize == 4 else 51)
        fill = self.bits.dtype.type(np.array(FILL, self.type).view(self.bits.dtype))
        back = (self.nearest * self.step + 0.0).astype(self.type)
        self.fill_lost = (self.bits == fill) & (back.view(self.bits.dtype) != fill)
        good = (np.abs(self.x - back) <= self.bound) & (np.abs(self.nearest) < most)
        good &= (np.rint(back.astype("f8") * self.inverse) == self.nearest) & ~self.fill_lost
        return np.where(good, self.nearest, 0).astype("i8"), good

    def try_places(self):
        """Section 5.2: the place nearest to each value, and where the value stands on it."""
        near = np.abs(self.nearest) < self.reach
        rest = np.rint((self.scaled - self.nearest) * (8 / (1020 / 1021)))
        places = np.where(near, 8 * self.nearest + rest, 0).astype("i8")
        return places, near & (self.restored(self.nearest, rest) == self.x)

    def codes_and_exceptions(self):
        """Section 5.1: the plane of codes with those of exceptions, and the mask."""
        good = self.coded
        if self.fine:
            good = good & ~(self.stands & (self.places % 8 != 0))
        # The place of the last good value of the row so far; before it, the first one of all.
        row = np.arange(good.shape[-1])
        before = np.maximum.accumulate(np.where(good, row, -1), -1)
        before = np.where(before < 0, good.argmax(-1)[..., None], before)
        return np.where(good.any(-1)[..., None], np.take_along_axis(self.codes, before, -1), 0), ~good

    def residuals_and_exceptions(self, there, predicted):
        """Section 5.2: the residuals of a class of values, and which are exceptions."""
        x, reach = self.x[there], self.reach

        def holds(places):
            return (-8 * reach <= places) & (places < 8 * reach) & (np.abs(x - self.value(places)) <= self.bound)

        steps = np.rint((x - self.unrounded(predicted)) * self.inverse)
        few = np.abs(steps) < 65536
        steps = np.where(few, steps, 0).astype("i8")
        stepped, near = predicted + 8 * steps, self.places[there]
        out = ~(np.abs(self.scaled[there]) < reach) | ~(np.abs(self.nearest[there]) < reach) | self.fill_lost[there]
        by_steps = ~out & few & holds(stepped) & ~(self.stands[there] & (near != stepped))
        distance = near - predicted
        by_escape = ~out & ~by_steps & holds(near) & (-32768 <= distance) & (distance <= 32767)
        return np.where(by_steps, steps, np.where(by_escape, distance + 98304, 0)), ~(by_steps | by_escape)


def check_encoder(tally, stream, values, bound, name):
    """The codes or residuals and the mask of a stream are those that sections 5.1 and 5.2 ask an encoder for."""
    parts = Parts(stream)
    kind = "interpolated" if parts.interpolated else parts.predictor
    tally.predictors[len(parts.header.extents), values.dtype.str, kind, parts.ones > 0] += 1
    with np.errstate(all="ignore"):
        rules = Rules(parts, values, bound)
        if not parts.interpolated:
            codes, exceptions = rules.codes_and_exceptions()
            if not np.array_equal(exceptions, parts.exceptions):
                tally.disagree(f"{name}: encoder, {int((exceptions != parts.exceptions).sum())} other exceptions")
            elif not np.array_equal(codes, parts.codes):
                tally.disagree(f"{name}: encoder, {int((codes != parts.codes).sum())} other codes")
            return
        if not rules.fine:
            tally.disagree(f"{name}: encoder, interpolation without a fine grid")
        tally.escapes += int((np.abs(parts.residuals.astype("i8")) >= 65536).sum())
        extents = parts.header.extents
        first = (slice(1),) * len(extents)
        at = 0
        for stride, axes, there in itertools.chain([(0, (), first)], classes(extents)):
            grid = parts.places[(slice(None, None, stride or None),) * len(extents)]
            predicted = prediction(grid, axes) if axes else np.zeros(grid[first].shape, "i8")
            residuals, exceptions = rules.residuals_and_exceptions(there, predicted)
            wrong = (residuals != parts.residuals[at : at + residuals.size].reshape(residuals.shape)) | (exceptions != parts.exceptions[there])
            if wrong.any():
                value = rules.x[there][wrong][0]
                tally.disagree(f"{name}: encoder, {int(wrong.sum())} residuals of stride {stride}, axes {axes}; the first for {value!r}")
                return
            at += residuals.size


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
        interpolated = 2 * bound >= LEAST_STEP[width] and rng.random() < 0.5
        plane = self.plane(extents, INTERPOLATION if interpolated else None)
        mask, ones = b"", 0
        if rng.random() < 0.7:
            mask = self.plane(extents)
            ones = sum(value & 1 for value in read_plane(Reader(mask, 0), extents, 8 * width))
        body = plane
        if ones:
            body += mask + self.plane((ones,))
        return self.around(body, extents, dtype, bound, ones)

    def around(self, planes, extents, dtype, bound, ones):
        """A quantized stream of these planes."""
        body = struct.pack("<dQ", bound, ones) + planes
        value_type = (dtype.itemsize == 8) + (0x80 if dtype.byteorder == ">" else 0)
        head = b"QUIR\0\3" + bytes([value_type, QUANTIZED, len(extents), 0, 0, 0]) + bytes(12)
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
            symbols.insert(0, symbols.pop(next(at for at, symbol in enumerate(symbols) if symbol >= 15)))
        book = [0] * 76
        for symbol, length in zip(symbols, lengths):
            book[symbol] = length
        return book

    def plane(self, extents, predictor=None):
        """A plane of random tokens, with this predictor or any that may stand there."""
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
        if predictor is None:
            predictor = int(rng.integers(1 << len(extents)))
        head = bytes([predictor, log2_length, number, *wide, 0, 0, 0])
        return head + custom + index_bytes + body + bytes(-len(body) % 4)

    def exactly(self, integers, predictor):
        """A plane of at most 2048 integers of 32 bits."""
        lengths = [1 if symbol in (30, 67) else 0 for symbol in range(76)]
        packed = bytes(a | b << 4 for a, b in zip(lengths[::2], lengths[1::2])) + b"\0\0"
        lanes = self.lanes([(1, 1)] * len(integers))  # symbol 67 for each: 2^28 and more, which may wrap, by 33 extra bits
        extra = sum((int(value) - (1 << 28)) % (1 << 32) << (33 * at + 1) for at, value in enumerate(integers))
        extras = [extra >> at & 0xFFFF for at in range(0, 33 * len(integers), 16)]
        words = struct.pack(f"<{len(lanes) + len(extras)}H", *lanes, *extras)
        index = struct.pack("<HH", len(lanes), len(extras))
        return bytes([predictor, 11, 255, 16, 16, 0, 0, 0]) + packed + index + words + bytes(-len(words) % 4)

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


def edges(plugin, tally, rng, number):
    """Residuals where the formulas of section 6.2 turn, and places where the values of section 5.2 do."""
    craft = Craft(rng)
    turns = [side + by for side in (0, 65536, -65536, 98304, 98304 - 32768, 98304 + 32767, -98304) for by in (-1, 0, 1)]
    turns += [2**31 - 1, -(2**31), -(2**31) + 1, 2**31 - 98304, 98304 - 2**31, 2**30, -(2**30)]
    # An escape to each of the last and the first places.
    turns += [(place + 98304 + 2**31) % 2**32 - 2**31 for place in range(2**31 - 9, 2**31 + 9)]
    bounds = {4: (1.0, 1e-28, 1e30, 1e35, 3e38, 1e300), 8: (1.0, 1e-290, 1e299, 8e307)}
    shapes = ((1,), (2,), (7,), (24,), (3, 5), (6, 1), (4, 9), (3, 4, 5), (2, 2, 2), (2, 3, 2, 3), (4, 5, 6, 7), (1, 3, 1, 4))
    for turn in range(number):
        shape, dtype = shapes[turn % len(shapes)], np.dtype(TYPES[int(rng.integers(4))])
        bound = float(rng.choice(bounds[dtype.itemsize]))
        residuals = rng.choice(turns, int(np.prod(shape)))
        residuals[rng.random(residuals.size) < rng.choice([0, 0.5, 0.95])] = 0
        stream = craft.around(craft.exactly(residuals, INTERPOLATION), shape, dtype, bound, 0)
        tally.crafted += 1
        refused = tally.refused
        name = f"edges {turn} {dtype} {shape} {bound} {residuals[:9].tolist()}"
        check_stream(plugin.dataset(shape, shape, dtype, 1e-3), tally, stream, name)
        if tally.refused != refused:
            tally.disagree(f"{name}: refused by both")


def predictors(plugin, tally, rng):
    """Every byte as the predictor of each plane, and the least step that an interpolated plane may have."""
    craft = Craft(rng)
    for turn, extents in enumerate(((24,), (4, 6), (1, 24), (2, 3, 4), (2, 3, 2, 2), (1, 1, 1, 24))):
        dtype = np.dtype(TYPES[turn % 4])
        dataset = plugin.dataset((24,), (24,), dtype, 1e-3)
        axes = range(1 << len(extents))

        def check(name, good, planes, ones, bound=1.0):
            tally.altered += 1
            refused = tally.refused
            check_stream(dataset, tally, craft.around(planes, extents, dtype, bound, ones), f"{dtype} {extents} {name}")
            if (tally.refused == refused) != good:
                tally.disagree(f"{dtype} {extents} {name}: {'refused' if good else 'read'} by both")

        plain, sums = craft.exactly(range(24), 0), craft.exactly([1] + [0] * 23, 0)
        for byte in range(256):
            first, mask = bytes([byte]) + plain[1:], bytes([byte]) + sums[1:]
            check(f"predictor {byte:#x} of the first plane", byte in axes or byte == INTERPOLATION, first, 0)
            # Sums of a single 1 along some axes: as many ones as those have values.
            ones = int(np.prod([n for axis, n in enumerate(reversed(extents)) if byte >> axis & 1]))
            for before in (plain, bytes([INTERPOLATION]) + plain[1:]):
                check(f"predictor {byte:#x} of the mask", byte in axes, before + mask + craft.exactly(range(ones), 0), ones)
                check(f"predictor {byte:#x} of the bits", byte < 2, before + sums + craft.exactly([5], byte), 1)
        least = LEAST_STEP[dtype.itemsize] / 2
        for bound, good in ((least, True), (np.nextafter(least, 1), True), (np.nextafter(least, 0), False), (least / 1e9, False)):
            for byte in (0, INTERPOLATION):
                check(f"half step {bound!r}, predictor {byte}", good or not byte, bytes([byte]) + plain[1:], 0, bound)


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
        head = b"QUIR\0\3\0\1" + bytes([len(extents)]) + bytes(15) + struct.pack(f"<{len(extents)}Q", *extents)
        return fresh_checksum(with_length(head + b"\1\2\3\4"))

    plain = craft.plane((24,))
    head = b"QUIR\0\3\0\2\1" + bytes(15) + struct.pack("<Q", 24)

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


def chosen(plugin, tally, rng, every_bound):
    """Values that make the encoder choose between predictors, and what becomes of them when a part is written again."""
    turn = itertools.cycle((bound,) for bound in BOUNDS)
    cases = itertools.product(GRIDS, SHAPED, TYPES)
    for shape, kind, dtype, bound in (case + (b,) for case in cases for b in (BOUNDS if every_bound else next(turn))):
        values = shaped(kind, shape, dtype, bound, rng)
        name = f"{kind} {dtype} {shape} {bound}"
        (stream,) = check_dataset(plugin, tally, values, shape, bound, name)
        if stream[7] != QUANTIZED:
            continue
        parts = Parts(stream)
        if parts.half_step != bound:
            continue
        # What was rounded stays, whatever is written beside it.
        rounded = np.frombuffer(decode(stream), values.dtype).reshape(shape)
        new = rng.random(shape) < rng.choice([0.1, 0.5])
        beside = shaped(str(rng.choice(SHAPED)), shape, dtype, bound, rng)
        (stream,) = check_dataset(plugin, tally, np.where(new, beside, rounded).astype(dtype), shape, bound, f"{name}, again")
        again = np.frombuffer(decode(stream), values.dtype).reshape(shape)
        kept = ~new & ~parts.exceptions.reshape(shape)
        bits = f"u{values.dtype.itemsize}"
        moved = kept & (rounded.view(bits) != again.view(bits))
        tally.kept += int(kept.sum())
        if moved.any():
            was, now = rounded[moved][0], again[moved][0]
            tally.disagree(f"{name}: {int(moved.sum())} values that were rounded once moved, the first from {was!r} to {now!r}")


def covered(tally):
    """Interpolated chunks of all ranks and types, with exceptions and without, and many sets of axes."""
    for rank, dtype, has in itertools.product(range(1, 5), TYPES, (False, True)):
        if not tally.predictors[rank, dtype, "interpolated", has]:
            tally.disagree(f"no interpolated chunk of rank {rank}, {dtype}, {'with' if has else 'without'} exceptions")
    for rank in range(1, 5):
        kinds = Counter()
        for (its_rank, _, kind, _), chunks in tally.predictors.items():
            if its_rank == rank:
                kinds[kind] += chunks
        print(f"rank {rank}: " + ", ".join(f"{kind} {chunks}" for kind, chunks in sorted(kinds.items(), key=lambda one: -one[1])))
        if len(kinds) < min(1 << rank, 6):
            tally.disagree(f"few sets of axes at rank {rank}: {dict(kinds)}")
    if not tally.escapes:
        tally.disagree("no escapes")


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
    yield "waves f4", shaped("waves", (16, 17), "<f4", 1e-2, rng), 1e-2
    yield "holes f8", shaped("holes", (8, 9, 10), ">f8", 1e-2, rng), 1e-2


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--all", action="store_true")
    arguments = arguments.parse_args()
    start = time.perf_counter()
    tally = Tally()
    plugin = Plugin()
    matrix(plugin, tally, np.random.default_rng(1), arguments.all)
    print(f"matrix: {time.perf_counter() - start:.1f} s")
    chosen(plugin, tally, np.random.default_rng(6), arguments.all)
    print(f"predictors chosen: {time.perf_counter() - start:.1f} s, {tally.kept} values kept, {tally.escapes} escapes")
    covered(tally)
    rules(plugin, tally, np.random.default_rng(5))
    predictors(plugin, tally, np.random.default_rng(7))
    edges(plugin, tally, np.random.default_rng(8), 5000 if arguments.all else 600)
    print(f"rules: {time.perf_counter() - start:.1f} s")
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
