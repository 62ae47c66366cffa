"""Section 9.2 of FORMAT.md: streams that break one of its statements, and valid streams that an encoder would not write."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pytest

from craft import BitBlock, Element, bit_block, bit_plane, exact_bits, packed_book, with_grid
from decoder.bit_planes import DENSE, EMPTY, SPARSE
from decoder.prediction import INTERPOLATION
from readers import check_grid, read_by_both

# In the last two types, a code has more bits than a value.
TYPES = ("<f4", "<f8", "<f2", ">bfloat16")

# A block of 48 integers has two words. Bit 0 of the first and bit 15 of the second are 1: the bits of the first and of the last integer.
SPARSE_BLOCK = BitBlock(1, [SPARSE], [0b11], [0b0001, 0b0010], b"\x01\x80")
DENSE_BLOCK = BitBlock(1, [DENSE], [], [], b"\1\0\0\0\0\x80\0\0")
# A dense plane may be all 0, unless it is the last one.
MIXED_BLOCK = BitBlock(4, [SPARSE, EMPTY, DENSE, SPARSE], [1, 3], [1, 2, 2], b"\1" + bytes(8) + b"\x81\x80")
# Integers of 64 bits. The first one is the least integer.
LEAST_BLOCK = BitBlock(64, [DENSE] * 64, [], [], (b"\1" + bytes(7)) * 64)


def top(planes, block=DENSE_BLOCK):
    """A block of `planes` bit planes. The last one is the bit plane of `block`, the others are all 0."""
    return block._replace(planes=planes, modes=[EMPTY] * (planes - 1) + block.modes)


class Edges:
    """Has both readers read or refuse streams whose planes are bit planes."""

    def __init__(self, plugin):
        cases = itertools.product((48, 2048, 2049), TYPES)
        self.datasets = {(count, name): plugin.dataset((count,), Element(name)) for count, name in cases}

    def check(self, name, planes, good, count=48, dtype="<f4", ones=0):
        """Planes that must be read, or refused."""
        check_grid(self.datasets[count, dtype], name, good, planes, ones=ones)

    def block(self, name, block, good, count=48, dtype="<f4"):
        """A stream of one plane with this block. A second block is empty."""
        self.check(name, bit_plane([block.pack()] + [b""] * (count > 2048), 0), good, count, dtype)


@pytest.fixture(scope="module")
def edges(plugin):
    return Edges(plugin)


def test_planes_and_modes(edges):
    """The number of planes and their modes."""
    for name, block in (("sparse", SPARSE_BLOCK), ("dense", DENSE_BLOCK), ("mixed", MIXED_BLOCK)):
        edges.block(name, block, True)
        edges.block(f"{name}, 64 bits", block, True, 48, "<f8")
    edges.block("the least integer", LEAST_BLOCK, True, 48, "<f8")
    edges.block("the least integer of 32 bits", LEAST_BLOCK._replace(planes=32, modes=[DENSE] * 32, data=LEAST_BLOCK.data[:256]), True)
    for planes, block in itertools.product((1, 2, 31, 32, 33, 63, 64, 65, 128, 255), (DENSE_BLOCK, SPARSE_BLOCK)):
        edges.block(f"{planes} planes", top(planes, block), planes <= 32)
        edges.block(f"{planes} planes", top(planes, block), planes <= 64, 48, "<f8")
    for padding in (b"\0\0", b"\0\0\0", bytes(7)):
        edges.block("no planes", BitBlock(0, [EMPTY], [], [], b"", padding), False)
    edges.block("no planes, but one dense", DENSE_BLOCK._replace(planes=0), False)
    edges.block("no planes, but a dense one without modes", DENSE_BLOCK._replace(planes=0, modes=[0]), False)
    for planes in (1, 2, 3, 4, 5, 31):
        for more, mode in itertools.product(range(planes, -(-planes // 4) * 4), (1, 2, 3)):
            modes = [EMPTY] * (planes - 1) + [DENSE] + [EMPTY] * (more - planes) + [mode]
            edges.block(f"mode {mode} of plane {more} of {planes}", DENSE_BLOCK._replace(planes=planes, modes=modes), False)
        edges.block(f"mode 3 of the last of {planes} planes", top(planes, DENSE_BLOCK._replace(modes=[3])), False)
        edges.block(f"mode 0 of all of {planes} planes", BitBlock(planes, [EMPTY] * planes, [], [], b""), False)
        under, zeros, dense = DENSE_BLOCK.data * (planes - 1), bytes(8 * planes - 8), [DENSE] * planes
        edges.block(f"mode 0 of the last of {planes} planes", BitBlock(planes, dense[1:] + [EMPTY], [], [], under), False)
        edges.block(f"the last of {planes} planes dense and 0", BitBlock(planes, dense, [], [], under + bytes(8)), False)
        edges.block(f"{planes} planes dense, all 0", BitBlock(planes, dense, [], [], zeros + bytes(8)), False)
        edges.block(f"{planes} planes dense", BitBlock(planes, dense, [], [], under + DENSE_BLOCK.data), True)
        edges.block(f"{planes} planes dense, all but the last 0", BitBlock(planes, dense, [], [], zeros + DENSE_BLOCK.data), True)
    for data in (DENSE_BLOCK.data, DENSE_BLOCK.data * 2):
        edges.block("mode 3 below a dense plane", BitBlock(2, [3, DENSE], [], [], data), False)


def test_sparse_planes(edges):
    """Flags, four bits for each flagged word, and bytes."""
    edges.block("no flag", BitBlock(2, [SPARSE, DENSE], [0], [], DENSE_BLOCK.data), False)
    edges.block("no flag in the last plane", BitBlock(1, [SPARSE], [0], [], b""), False)
    for word in (2, 3, 31, 32, 63):
        for count in (48, 2048, 2049):
            edges.block(f"flag of word {word}", BitBlock(1, [SPARSE], [1 << word], [1], b"\1"), count > 48, count)
            edges.block(f"flags of words 0 and {word}", BitBlock(1, [SPARSE], [1 | 1 << word], [1, 1], b"\1\1"), count > 48, count)
    for name, nibbles, data, good in (
        ("as they are", [0b0001, 0b0010], b"\x01\x80", True),
        ("0 for the first word", [0, 0b0010], b"\x80", False),
        ("0 for the last word", [0b0001, 0], b"\1", False),
        ("a byte of 0", [0b0001, 0b0010], b"\0\x80", False),
        ("the last byte 0", [0b0001, 0b0010], b"\1\0", False),
        ("a byte of 0 beside another", [0b0011, 0b0010], b"\1\0\x80", False),
        ("a byte of 0 below another", [0b0011, 0b0010], b"\0\1\x80", False),
        ("all bytes of a word", [0b1111, 0b0010], b"\1\2\3\4\x80", True),
        ("for a third word", [0b0001, 0b0010, 1], b"\x01\x80\1", False),
    ):
        edges.block(f"four bits, {name}", BitBlock(1, [SPARSE], [0b11], nibbles, data), good)
    for half, data in itertools.product((1, 8, 15), (b"\1", b"\1\1")):
        edges.block(f"unused half {half:#x}", BitBlock(1, [SPARSE], [1], [1, half], data), False)
    shared = BitBlock(3, [SPARSE, DENSE, SPARSE], [1, 2], [2, 1], b"\7" + DENSE_BLOCK.data + b"\5")
    edges.block("two planes in one byte of four bits", shared, True)
    separate = shared._replace(nibbles=[2, 0, 1, 0])
    edges.block("two planes in a byte of four bits each", separate, False)
    edges.block("bytes of sparse planes before those of dense ones", shared._replace(data=b"\7\5" + DENSE_BLOCK.data), False)
    edges.block("flags behind four bits", BitBlock(1, [SPARSE], [], [1, 0], struct.pack("<Q", 1) + b"\1"), False)


def test_bits_behind(edges):
    """Bits behind a block's last integer must be 0."""
    edges.block("all bits of the integers", DENSE_BLOCK._replace(data=b"\xff" * 6 + b"\0\0"), True)
    for bit in (48, 49, 55, 56, 63):
        data, nibble = (1 << bit).to_bytes(8, "little"), 1 << (bit - 32) // 8
        edges.block(f"bit {bit}, dense", DENSE_BLOCK._replace(data=data), False)
        edges.block(f"bit {bit}, dense, below another plane", BitBlock(2, [DENSE, DENSE], [], [], data + DENSE_BLOCK.data), False)
        edges.block(f"bit {bit}, sparse", BitBlock(1, [SPARSE], [2], [nibble], bytes([1 << bit % 8])), False)
        edges.block(f"bits 0 and {bit}, sparse", BitBlock(1, [SPARSE], [3], [1, nibble], bytes([1, 1 << bit % 8])), False)
    # The last block of 2049 values has one integer, and so one word.
    first = DENSE_BLOCK._replace(data=DENSE_BLOCK.data * 32)
    for bits, good in ((1, True), (2, False), (3, False), (1 << 31, False)):
        for begun in (b"", first.pack()):
            last = BitBlock(1, [DENSE], [], [], struct.pack("<I", bits)).pack()
            edges.check(f"last block {bits:#x}", bit_plane([begun, last], 0), good, 2049)
    edges.check("last block of two words", bit_plane([b"", DENSE_BLOCK.pack()], 0), False, 2049)


def test_lengths(edges):
    """Padding of blocks, and blocks that are too short or too long."""
    no_padding = BitBlock(2, [SPARSE, SPARSE], [1, 1], [1, 1], b"\1")
    blocks = [(f"{count} bytes", BitBlock(1, [SPARSE], [1], [(1 << count) - 1], b"\1" * count)) for count in (1, 2, 3, 4)]
    blocks += [("dense", DENSE_BLOCK), ("mixed", MIXED_BLOCK), ("two sparse", no_padding._replace(data=b"\1\1"))]
    for name, block in blocks:
        bare = block._replace(padding=b"").pack()
        need = -len(bare) % 4
        for size in range(9):
            for padding in (bytes(size), b"\1" + bytes(size - 1), bytes(size - 1) + b"\x80") if size else (b"",):
                if len(bare + padding) % 2 == 0:
                    name_of = f"{name}, padding {padding.hex()} where {need} bytes are needed"
                    edges.check(name_of, bit_plane([bare + padding], 0), padding == bytes(need))
    for name, block in blocks + [("the least integer", LEAST_BLOCK), ("sparse", SPARSE_BLOCK)]:
        whole = block.pack()
        for end in range(2, len(whole), 2):
            edges.check(f"{name}, {end} bytes of {len(whole)}", bit_plane([whole[:end]], 0), False, 48, "<f8")
        edges.check(f"{name}, twice", bit_plane([whole * 2], 0), False, 48, "<f8")
        edges.check(f"{name}, behind 4 bytes", bit_plane([bytes(4) + whole], 0), False, 48, "<f8")
    for size in (2, 4, 6, 8, 64, 60000):  # HDF5 before 2.0 takes no chunk above 65535 bytes for so small a dataset
        edges.check(f"{size} bytes of 0", bit_plane([bytes(size)], 0), False)
    edges.check("no bytes", bit_plane([b""], 0), True)


def test_headers(edges):
    """The plane's header and its index."""
    block = SPARSE_BLOCK.pack()
    for width, blocks in itertools.product(range(64), ([b""], [block])):
        if width < 8:
            edges.check(f"blocks of 2^{11 + width}", bit_plane(blocks, 0, None, 11 + width), width == 0)
        edges.check(f"E = {width}, extra words 0", bit_plane(blocks, 0, None, 11, width), width == 0)
        if width >= 4 or blocks == [b""]:
            edges.check(f"W = {width}", bit_plane(blocks, 0, width), width <= 32)
    plane = bit_plane([block], 0)
    edges.check("8 lanes", plane[:3] + bytes([plane[3] | 0x80]) + plane[4:], False)
    for byte, bit in ((4, 0x80), (5, 1), (7, 0x80)):
        edges.check(f"bits behind the index, byte {byte}", plane[:byte] + bytes([plane[byte] | bit]) + plane[byte + 1 :], False)
    edges.check("a custom book", plane[:4] + packed_book([1, 1] + [0] * 104) + plane[4:], False)
    for number in range(75, 254):
        edges.check(f"codebook {number}", plane[:1] + bytes([number]) + plane[2:], False)


def test_widths(edges):
    """Residuals and masks have 32 bits. Codes and exceptions' bits have as many as section 3 gives the type."""
    plain, mask = exact_bits([0] * 48, 0), exact_bits([1] * 20 + [0] * 28, 0)
    for planes, dtype in itertools.product((1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65), TYPES):
        width, fine = Element(dtype).bits, dtype in ("<f4", "<f8")
        one = bit_plane([top(planes).pack()], 0)
        edges.check(f"codes of {planes} planes", one, planes <= width, 48, dtype)
        edges.check(f"residuals of {planes} planes", bytes([INTERPOLATION]) + one[1:], fine and planes <= 32, 48, dtype)
        few = bit_plane([top(planes, BitBlock(1, [DENSE], [], [], b"\1\0\2\0")).pack()], 0)  # 20 integers are one word
        edges.check(f"exceptions' bits of {planes} planes", plain + mask + few, planes <= width, 48, dtype, 20)
        if planes > 64:
            continue
        # The number 1 means the integer 1. A number of several ones means an even integer.
        numbers = np.array([1] * 20 + [0] * 27 + [(1 << planes) - 1 if planes > 1 else 0], np.uint64)
        wide = bit_plane([bit_block(numbers, lambda plane: DENSE).pack()], 0)
        edges.check(f"mask of {planes} planes", plain + wide + exact_bits(range(20), 0), planes <= 32, 48, dtype, 20)


def test_every_byte(edges):
    """Both readers agree on two planes with every value of every byte."""
    for name, block in (("sparse", SPARSE_BLOCK), ("mixed", MIXED_BLOCK)):
        good = bit_plane([block.pack()], 0)
        for at, value in itertools.product(range(len(good)), range(256)):
            stream = with_grid(good[:at] + bytes([value]) + good[at + 1 :], (48,), Element("<f4"), 1.0)
            read_by_both(edges.datasets[48, "<f4"], stream, f"bit planes, {name}, byte {at} = {value}")
