"""Section 10's modes of bits, with values of all types. Chunks keep what a mode promises, datasets the words of section 10."""

from __future__ import annotations

import itertools

import numpy as np

from craft import EVERY_TYPE, Element
from decoder import read_header
from decoder.header import BFLOAT, CONSTANT, EXACT, QUANTIZED, STORED
from encoder import Seen
from modes import ABSOLUTE, CODINGS, LOSSLESS, POINTWISE, PSNR, RATIO, RATIO_WITHIN, RELATIVE, Request, check_promise, in_binary64
from readers import words_of
from sampling import sample
from values import any_bits, bits_of, bits_type, content, fill_bits, fill_of, of_numbers
from written import check_values

# The matrix of section 10's modes: types, contents, and the shape of a chunk.
MODES_TYPES = ("<f2", ">f4", "<f8", "<bfloat16", ">bfloat16", "i1", "u1", ">i2", "u2", "<i4", ">u4", "i8", "u8")
CONTENTS = ("smooth", "noise", "specials", "filled", "decimals")
CHUNK = (11, 17, 16)
MOST_REQUESTS = 11  # that requests() has for a type
ANY = 1200  # least number of chunks of any values


def requests(element):
    """Modes of bits and their numbers. One absolute bound is coarse for content(), the other fine."""
    coarse, fine = 0.05, 1e-3
    if not element.floating:
        coarse = 1.5 * {1: 2, 2: 200, 4: 10**6, 8: 10**9}[element.width]
        fine = 1.0
    relative = [(RELATIVE, (0.01,)), (RELATIVE, (2.5e-4,))]
    pointwise = [(POINTWISE, (0.02,)), (POINTWISE, (1e-4,))] if element.floating else []
    others = [(PSNR, (45.0,)), (PSNR, (80.5,)), (RATIO, (5.5,)), (RATIO_WITHIN, (12.0, coarse))]
    return [(LOSSLESS, ()), (ABSOLUTE, (coarse,)), (ABSOLUTE, (fine,)), *relative, *pointwise, *others]


def check_mode(plugin, seen, element, values, request, fill, kind, name, again=True, chunk=None):
    """Writes values in chunks along the first axis. They keep what their mode promises. If the mode rounds each value by itself, no value moves `again`."""
    streams, read = check_values(plugin, seen, element, values, request, fill, name, chunk)
    extent = (chunk or values.shape)[0]
    for stream, at in zip(streams, range(0, len(values), extent)):
        there = slice(at, at + extent)
        header, _ = read_header(stream)
        check_promise(request, header, bits_of(values[there]), bits_of(read[there]), len(stream), kind, f"{name}, chunk at {at}")
    by_itself = request.mode in (LOSSLESS, ABSOLUTE, POINTWISE)
    if again and by_itself and all(stream[9] & 15 != QUANTIZED for stream in streams):
        _, twice = check_values(plugin, seen, element, read, request, fill, f"{name}, again", chunk)
        moved = bits_of(twice) != bits_of(read)
        assert not moved.any(), f"{name}: {moved.sum()} values moved when they were written again"
    return streams


def test_modes_keep_what_they_promise(plugin):
    """Every mode of bits, for all types in both codings. Then chunks of any values, until each coding and type has had some."""
    seen = Seen()
    write_modes(plugin, seen, np.random.default_rng(15))
    write_any(plugin, seen, np.random.default_rng(16))
    missing = list(not_encoded(seen))
    assert not missing, missing


def write_modes(plugin, seen, rng):
    """Section 10: the matrix of modes, types, contents and codings."""
    chosen = {}
    for name, kind, number, coding in sample("modes", (MODES_TYPES, CONTENTS, range(MOST_REQUESTS), CODINGS), 3):
        if number < len(requests(Element(name))):
            chosen.setdefault((name, kind), []).append((number, coding))
    for (name, kind), asked in chosen.items():
        element = Element(name)
        shape = (CHUNK[0] * (2 if kind in ("smooth", "filled") else 1), *CHUNK[1:])
        values = content(kind, shape, element, rng)
        values[CHUNK[0] :] = values[CHUNK[0] :][::-1, ::-1]
        fill = fill_of(element)
        for number, coding in asked:
            mode, numbers = requests(element)[number]
            what = f"{kind} {element}, mode {mode} of {numbers}, coding {coding}"
            request = Request(mode, numbers, coding, fill_bits(element, fill))
            streams = check_mode(plugin, seen, element, values, request, fill, kind, what, chunk=CHUNK)
            check_words(plugin, element, values, request, fill, streams, what)


def check_words(plugin, element, values, request, fill, streams, name):
    """Section 10: the words that the dataset keeps. Numbers as decimals keep the same words and give the same streams."""
    by_bits = words_of(request.mode, *request.numbers, coding=request.coding)
    own = [0x51010000 | element.value_type << 8 | 3, *CHUNK, request.fill & 0xFFFFFFFF, request.fill >> 32]
    expected = (*by_bits, *own[: 6 if element.width == 8 else 5])
    decimals = [word for number in request.numbers for word in decimal(number)]
    by_decimals = [request.mode + 1 + 256 * request.coding, *decimals] if decimals else [256 * request.coding]
    for words in (by_bits, by_decimals):
        dataset = plugin.dataset(values.shape, element, tuple(words), CHUNK, fill)
        kept = dataset.id.get_create_plist().get_filter(0)[2]
        assert tuple(kept) == expected, f"{name}: words {words} are kept as {kept}, by section 10 {expected}"
    assert dataset.write(values) == streams, f"{name}: other streams by words {words}"


def decimal(number):
    """Section 10: a number as a decimal, its exponent and its mantissa."""
    for exponent in range(20):
        mantissa = round(number * 10**exponent)
        if float(f"{mantissa}e-{exponent}") == number:
            return exponent, mantissa
    raise AssertionError(number)


def not_encoded(seen):
    """Types and codings that had no chunk, or no chunk with exceptions if the coding has them."""
    for element in map(Element, EVERY_TYPE):
        for coding in element.codings:
            there = [seen.encoded[coding, element.name, has] for has in (False, True)]
            if coding not in (STORED, CONSTANT) and (not any(there) or coding != EXACT and not there[True]):
                yield f"no chunk of {element}, coding {coding}, or none with exceptions"


def write_any(plugin, seen, rng):
    """Chunks of any values, shape and fill value, with bounds of any size: encoded as section 5 says, and kept as section 10 promises."""
    shapes = ((1,), (17,), (300,), (2100,), (9, 40), (5, 6, 7), (3, 4, 5, 6), (2, 1100))
    for turn in itertools.count():
        # If the matrix of modes is sampled, it may take more chunks until nothing is missing.
        if turn >= ANY and (turn == 4 * ANY or turn % 100 == 0 and not list(not_encoded(seen))):
            break
        element, shape = Element(EVERY_TYPE[turn % len(EVERY_TYPE)]), shapes[int(rng.integers(len(shapes)))]
        bits = any_bits(element, int(np.prod(shape)), rng)
        fill = int(rng.choice(bits)) if rng.random() < 0.6 else int.from_bytes(rng.bytes(element.width), "little")
        one = np.array([fill], f"u{element.width}")
        with np.errstate(all="ignore"):
            numbers = in_binary64(bits, element)
            if not np.isfinite(in_binary64(one, element)[0]):
                fill, one = 0, one * 0
            if rng.random() < 0.3:
                bits[rng.random(bits.size) < 0.1] = fill
            finite = numbers[np.isfinite(numbers)]
            size = float(np.median(np.abs(finite))) if finite.size else 0
        # The fill value in a form that h5py takes. That of a bfloat16 is a number, which HDF5 converts.
        of_fill = in_binary64(one, element)[0] if element.kind == BFLOAT else one.astype(bits_type(element)).view(element.dtype)[0]
        bound = float(np.clip((size or 1) * 10.0 ** rng.uniform(-12, 2), 1e-300, 1e300))
        if not element.floating:
            bound = float(rng.choice([bound, 0.7, 1, 2.5]))
        share, ratio = float(10.0 ** rng.uniform(-12, 0)), float(rng.uniform(1.2, 40))
        mode, asked = [
            (LOSSLESS, ()), (ABSOLUTE, (bound,)), (RELATIVE, (share,)), (POINTWISE, (float(10.0 ** rng.uniform(-8, -0.6)),)),
            (PSNR, (float(rng.uniform(5, 200)),)), (RATIO, (ratio,)), (RATIO_WITHIN, (ratio, bound)),
        ][int(rng.choice(7, p=[0.15, 0.25, 0.15, 0.3, 0.05, 0.05, 0.05]))]  # fmt: skip
        if mode == POINTWISE and not element.floating:
            mode, asked = ABSOLUTE, (bound,)
        request = Request(mode, asked, int(rng.choice(CODINGS)), fill)
        values = bits.astype(bits_type(element)).view(element.dtype).reshape(shape)
        name = f"any {turn} {element} {shape}, fill value {fill:#x}, mode {mode} of {asked}, coding {request.coding}"
        check_mode(plugin, seen, element, values, request, of_fill, "any", name)


def test_every_number_of_16_bits(plugin):
    """Sections 5.1 and 5.5, with every number of 16 bits. Then numbers of 32 bits, with a bound so small that every term of the logarithm counts."""
    shape = (1 << 13,)
    numbers = np.random.default_rng(17).uniform(1, 2, shape)
    cases = [(Element("<f4"), of_numbers(numbers, Element("<f4")), ((POINTWISE, 1.3e-7), (POINTWISE, 4e-7)))]
    asked = ((POINTWISE, 0.95), (POINTWISE, 0.6), (POINTWISE, 0.3), (POINTWISE, 4e-3), (ABSOLUTE, 1e-7), (ABSOLUTE, 0.03), (ABSOLUTE, 20.0))
    for name, magnitudes in itertools.product(("<f2", "<bfloat16"), np.arange(1 << 15).reshape(-1, shape[0] // 2)):
        # Numbers of both signs in one chunk, in ascending order, so that chunks get smaller.
        bits = np.concatenate([magnitudes, magnitudes | 1 << 15]).astype("<u2")
        cases.append((Element(name), bits.view(Element(name).dtype), asked))
    for element, values, requested in cases:
        for mode, number in requested:
            name = f"every number of {element}, mode {mode} of {number}, from {values[0]!r} on"
            check_mode(plugin, Seen(), element, values, Request(mode, (number,), 0, 0), 0, "every", name, again=False)


def test_least_numbers_of_binary64(plugin):
    """Section 5.5: subnormal numbers of binary64 do not vanish, and 0 has the code 0."""
    for share in (0.3, 0.5, 0.51, 0.6, 0.9, 0.99, 0.999999):
        values = 1 + np.arange(40) / 40
        values[:8] = 2.0**-1022, 0.0, -0.0, 5e-324, -5e-324, 1.5e-323, 2.0**-1022 - 5e-324, 0.0
        request = Request(POINTWISE, (share,), 0, 0)
        check_mode(plugin, Seen(), Element("<f8"), values, request, 0, "any", f"least numbers, a share of {share}", again=False)
