#!/usr/bin/env python3
"""The plugin against quire_decoder.py, which was written from FORMAT.md alone: the same bytes from the plugin's streams,
the same verdict on altered ones.

    HDF5_PLUGIN_PATH=<dir of libh5zquire.so> python3 decoder_matrix.py [--all] [--seconds N]

Deterministic; exits 1 after a disagreement. --all alters every bit of every small stream, not a part of them.
"""

import argparse
import itertools
import struct
import sys
import time
import zlib

import h5py
import numpy as np

from quire_decoder import QUANTIZED, StreamError, decode

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
    zero = (0,) * values.ndim
    stream = plugin.raw(dataset, zero)
    limit = values.nbytes
    for what, altered in alterations(stream, rng, part):
        if altered == stream:
            continue
        tally.altered += 1
        got, error = decode_or_error(altered, limit)
        dataset.id.write_direct_chunk(zero, altered)
        plugins, plugin_error = read_chunk(dataset, zero, values.dtype)
        if got is None:
            tally.refused += 1
        if got is not None and len(got) != limit:
            # Other extents or value type than the dataset's: the plugin knows better (section 10).
            if plugin_error is None:
                tally.disagree(f"{name}, {what}: {len(got)} bytes, not {limit}, but the plugin reads it")
        elif got != plugins and not known(altered, stream, plugin_error):
            tally.disagree(f"{name}, {what}: decoder {error or 'reads'}; plugin {plugin_error or 'reads'}")
    return len(stream)


def known(altered, stream, plugin_error):
    """Section 10: the plugin refuses streams of other value types than the dataset has; the decoder sees no dataset."""
    return plugin_error is not None and len(altered) > 6 and altered[6] != stream[6]


def matrix(plugin, tally, rng):
    """All kinds, types and shapes, with bounds taken in turn."""
    bounds = itertools.cycle(BOUNDS)
    for shape, kind, dtype in itertools.product(SHAPES, FIELDS, TYPES):
        bound = next(bounds)
        if np.prod(shape) > 2000 and rng.random() < 0.4:
            continue
        values = field(kind, shape, dtype, bound, rng)
        check_dataset(plugin, tally, values, shape, bound, f"{kind} {dtype} {shape} {bound}")
        if len(shape) in (2, 3) and np.prod(shape) < 3000:
            chunks = tuple(max(1, n - n // 3) for n in shape)
            check_dataset(plugin, tally, values, chunks, bound, f"{kind} {dtype} {shape} {bound} chunks {chunks}")


def large(plugin, tally, rng):
    """64^3 once, and blocks longer than 2048."""
    x = np.linspace(0, 6, 64)
    values = np.sin(x)[:, None, None] * np.cos(2 * x)[:, None] + np.sin(3 * x)
    for dtype, scale in (("<f4", 1e-3), ("<f4", 1e-5)):
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
    matrix(plugin, tally, np.random.default_rng(20240501))
    print(f"matrix: {time.perf_counter() - start:.1f} s")
    large(plugin, tally, np.random.default_rng(2))
    rng = np.random.default_rng(3)
    for name, values, bound in small_streams(rng):
        before, begun = tally.altered, time.perf_counter()
        size = check_altered(plugin, tally, values, bound, name, rng, 1.0 if arguments.all else 0.15)
        print(f"{name}: {size} bytes, {tally.altered - before} alterations, {time.perf_counter() - begun:.1f} s")
    stored, constant, quantized = tally.codings
    print(
        f"{tally.chunks} chunks ({stored} stored, {constant} constant, {quantized} quantized), "
        f"{tally.altered} altered streams ({tally.refused} refused), {tally.disagreements} disagreements, "
        f"slowest chunk {tally.slowest[0]:.2f} s ({tally.slowest[1]}), {time.perf_counter() - start:.1f} s"
    )
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
