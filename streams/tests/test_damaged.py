"""Chunks that were damaged on disk: reading raises OSError with a reason, and never ends the process. plugin-tests/gpu.sh runs these tests with every chunk on
a GPU."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from craft import Element
from modes import ABSOLUTE, LOSSLESS, POINTWISE
from readers import COUNTS, FILTER, words_of

pytestmark = pytest.mark.usefixtures("plugin")
BOUND = 1e-3
BOUNDED = words_of(ABSOLUTE, BOUND)


def smooth(shape, dtype):
    """Waves of different lengths along the axes, and a little noise."""
    waves = sum(np.sin(at * (0.05 + 0.03 * axis)) for axis, at in enumerate(np.indices(shape)))
    return (waves + np.random.default_rng(0).normal(0, 1e-3, shape)).astype(dtype)


def contents():
    """Small chunks in every coding: a name, values, the dataset's words, and a bound on errors."""
    shape = (12, 13)
    for dtype in ("<f4", ">f8"):
        yield f"smooth {dtype}", smooth(shape, dtype), BOUNDED, BOUND
        yield f"constant {dtype}", np.full(shape, 9.97e36, dtype), BOUNDED, BOUND
        noise = np.random.default_rng(3).normal(0, 1e30, shape).astype(dtype)  # does not shrink
        yield f"noise {dtype}", noise, BOUNDED, BOUND
    whole = np.round(1000 * smooth(shape, "<f8"))
    yield "exact", whole.astype(">i4"), words_of(LOSSLESS), 0.0
    yield "steps", whole.astype("<i8"), words_of(ABSOLUTE, 3.0), 3.0
    yield "decimal", whole / 1000, words_of(LOSSLESS), 0.0
    yield "logarithmic", smooth(shape, "<f4"), words_of(POINTWISE, 0.01), 0.01 * 4


def check_refused(dataset, stream, label):
    """Replaces the only chunk by `stream`. Reading it must fail with our text."""
    COUNTS["damaged streams refused"] += 1
    dataset.id.write_direct_chunk((0, 0), stream)
    try:
        dataset[()]
    except OSError as error:
        reason = str(error).lower()
        assert "quire" in reason and any(word in reason for word in ("damaged", "truncated", "version", "chunk")), f"{label}: {error}"
    else:
        pytest.fail(f"{label}: damage was not noticed")


def assert_bound(values, read, bound):
    assert np.all(np.abs(values.astype("f8") - read) <= bound)


def test_every_byte(plugin):
    """Streams with one byte changed, with their end cut off, and with more bytes."""
    codings = set()
    for name, data, words, bound in contents():
        dataset = plugin.dataset(data.shape, Element(data.dtype.str), words)
        (stream,) = dataset.write(data)
        codings.add(stream[9] & 15)
        for at in range(len(stream)):
            for flip in (0x01, 0x80, 0xFF):
                check_refused(dataset, stream[:at] + bytes([stream[at] ^ flip]) + stream[at + 1 :], f"{name}: byte {at} ^ {flip:#x}")
        for length in range(1, len(stream)):
            check_refused(dataset, stream[:length], f"{name}: cut to {length} bytes")
        for more in (b"\0", b"\0" * 4096, stream):
            check_refused(dataset, stream + more, f"{name}: {len(more)} bytes added")
        for value in (0, 0xFF):
            check_refused(dataset, bytes([value]) * 4096, f"{name}: 4096 bytes of {value}")
        dataset.id.write_direct_chunk((0, 0), stream)
        assert_bound(data, dataset[()], bound)
    assert codings == set(range(7))


def test_the_stream_of_a_chunk_of_another_size(plugin):
    datasets = [plugin.dataset(shape, Element("<f4"), BOUNDED) for shape in ((12, 13), (24, 26))]
    (small,), (large,) = (dataset.write(smooth(dataset.shape, "<f4")) for dataset in datasets)
    check_refused(datasets[0], large, "the stream of a larger chunk")
    check_refused(datasets[1], small, "the stream of a smaller chunk")


def test_a_bit_of_the_file(tmp_path):
    """Bytes of the file itself, as a bad disk would change them."""
    path, data = tmp_path / "on_disk.h5", smooth((40, 50), "<f4")
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=data, chunks=(16, 16), compression=FILTER, compression_opts=BOUNDED)
        file.flush()
        chunk = dataset.id.get_chunk_info(4)
    raw = bytearray(path.read_bytes())
    raw[chunk.byte_offset + chunk.size // 2] ^= 0x10
    path.write_bytes(raw)
    with h5py.File(path, "r") as file:
        with pytest.raises(OSError, match="(?i)quire.*damaged"):
            file["x"][()]
        # The other chunks can be read.
        assert_bound(data[:16], file["x"][:16], BOUND)


def test_a_chunk_whose_mask_says_that_the_filter_was_skipped(tmp_path):
    """Such a chunk has plain values."""
    path, data = tmp_path / "skipped.h5", smooth((12, 13), "<f4")
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data.shape, data.dtype, chunks=data.shape, compression=FILTER, compression_opts=BOUNDED)
        dataset.id.write_direct_chunk((0, 0), data.tobytes(), filter_mask=1)
    # The file is opened again: HDF5 1.10.8 to 2.0 remembers the old mask until then.
    with h5py.File(path, "r") as file:
        assert_bound(data, file["x"][()], 0.0)
