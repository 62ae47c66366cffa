"""Planes with given integers, tokens or bits, for streams that the plugin has not written. Nothing here is random."""

import hashlib
import itertools

import numpy as np

from quire_decoder import DENSE, EMPTY, SPARSE, SYMBOLS, TOKENS, read_dictionary
from stream_craft import bit_block, bit_plane, coded_block, numbers_of, packed_book, signed, token_plane

CUSTOM = 255
# A complete book in which every symbol has a code.
EVERY_SYMBOL = [6] * 22 + [7] * 84


def some_bytes(name, count):
    """Bytes that look random, and are the same everywhere."""
    return hashlib.shake_128(name.encode()).digest(count)


def some_integers(name, count, least, most):
    """Integers from least to most."""
    data = some_bytes(name, 8 * count)
    return [least + int.from_bytes(data[at : at + 8], "little") % (most - least + 1) for at in range(0, 8 * count, 8)]


def book(lengths):
    """Lengths of all symbols from those of some."""
    return [lengths.get(symbol, 0) for symbol in range(SYMBOLS)]


def token_of(integer):
    """Section 7: symbol and extra bits of one integer."""
    if -15 <= integer <= 15:
        return 30 + integer, 0
    symbol = max(symbol for symbol in range(46, 76) if TOKENS[symbol][1] <= abs(integer))
    return symbol, 2 * (abs(integer) - TOKENS[symbol][1]) + (integer < 0)


def tokens(integers, predictor=0, widths=None):
    """A plane of at most 2048 integers, with a token for each, and runs of zeros."""
    some = []
    for is_zero, group in itertools.groupby(integers, lambda integer: integer == 0):
        left = list(group)
        while is_zero and len(left) > 1:
            symbol = max(symbol for symbol in range(15) if TOKENS[symbol][1] <= len(left))
            extra = min(len(left) - TOKENS[symbol][1], (1 << TOKENS[symbol][2]) - 1)
            some.append((symbol, extra))
            del left[: TOKENS[symbol][1] + extra]
        some += map(token_of, left)
    return token_blocks([some], predictor, widths=widths)


def planes_of_bits(integers, predictor=0, bits=32):
    """A plane of at most 2048 integers in bit planes, which are sparse where that is shorter."""
    numbers = numbers_of(integers, bits)
    return bit_plane([bit_block(numbers, lambda words: EMPTY if not words.any() else SPARSE if words.any(1).mean() < 0.5 else DENSE).pack()], predictor)


def behind_zeros(integers, count):
    """As many integers, of which these are the last."""
    return [0] * (count - len(integers)) + list(integers)


def token_blocks(blocks, predictor=0, lengths=None, log2_length=11, widths=None, number=CUSTOM, lanes=32):
    """A plane of blocks of these symbols and their extra bits; if the book is not said, each symbol has a code."""
    if number != CUSTOM:
        lengths = list(read_dictionary()[number])
    lengths = lengths or EVERY_SYMBOL
    custom = packed_book(lengths) if number == CUSTOM else b""
    return token_plane([coded_block(lengths, block, lanes) for block in blocks], predictor, number, custom, widths, log2_length, lanes)


def length_of(some):
    """Integers that tokens encode."""
    return sum(1 if TOKENS[symbol][0] is None else TOKENS[symbol][1] + extra for symbol, extra in some)


def differences(codes, extents, axes, bits):
    """Section 6.1: the differences of codes along a set of axes."""
    array = np.array(codes, object).reshape(extents)
    for axis in range(len(extents)):
        if axes >> axis & 1:
            array = np.diff(array, axis=-1 - axis, prepend=0)
    return signed(array.reshape(-1).tolist(), bits)
