"""Datasets of h5py."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from h5z_quire import Quire, compress, decompress, inspect, read, write
from conftest import assert_bound, field


@pytest.mark.parametrize("quire", [Quire(rel=1e-3), Quire(psnr=60), Quire(ratio=5), Quire(ratio=50, abs=0.1), Quire(lossless=True), Quire(abs=1, adapt="history")])
def test_a_dataset_says_what_it_was_made_with(quire: Quire, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=field("f4"), chunks=(16, 16, 16), fillvalue=-1, **quire)
        assert Quire.from_dataset(dataset) == quire
        for other in (file.create_dataset("plain", data=np.zeros(3)), file):
            with pytest.raises(ValueError, match="is not compressed with filter 33791|is not a dataset"):
                Quire.from_dataset(other)


def test_a_chunk_in_a_file_is_the_stream_of_its_array(tmp_path: Path) -> None:
    values = field(">f4", (32, 16, 48))
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(16, 16, 16), **Quire(rel=1e-3))
        for chunk in dataset.iter_chunks():
            _, stored = dataset.id.read_direct_chunk(tuple(part.start for part in chunk))
            assert bytes(stored) == compress(values[chunk], Quire(rel=1e-3))
            assert np.array_equal(decompress(stored), dataset[chunk])


def test_a_chunk_in_bricks_is_the_stream_of_its_boxes(tmp_path: Path) -> None:
    boxes = np.stack([field("f8", (8, 8, 8)) + number for number in range(7)])
    values = boxes.reshape(-1)
    quire = Quire(abs=1e-3, brick=(8, 8, 8))
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(2 * 512,), **quire)
        assert Quire.from_dataset(dataset) == quire and dataset.id.get_num_chunks() == 4
        for number in range(3):
            _, stored = dataset.id.read_direct_chunk((1024 * number,))
            pair = boxes[2 * number : 2 * number + 2]
            assert bytes(stored) == compress(pair, Quire(abs=1e-3)) == compress(pair.reshape(-1), quire) == compress(pair, quire)
        whole = file.create_dataset("whole", values.shape, values.dtype, chunks=(2 * 512,), **quire)
        write(whole, values)
        assert [whole.id.read_direct_chunk((at,)) for at in range(0, 3584, 1024)] == [dataset.id.read_direct_chunk((at,)) for at in range(0, 3584, 1024)]
        assert_bound(values, read(whole), 1e-3)
    with h5py.File(tmp_path / "t.h5") as file:
        assert_bound(values, file["t"][()], 1e-3)


def test_a_refusal_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        with pytest.raises(ValueError, match="brick=8x8: a chunk has 12 values, which are no whole number of the brick's rows of 8"):
            file.create_dataset("t", data=np.zeros(24), chunks=(12,), **Quire(abs=1, brick=(8, 8)))
        with pytest.raises(ValueError, match="rows of 8"):
            compress(np.zeros(12), Quire(abs=1, brick=(8, 8)))
        for data, options, reason in (
            (np.zeros((4, 4), [("x", "i4"), ("y", "f4")]), Quire(abs=1), "elements are compounds of 8 bytes"),
            (np.zeros((4, 4), "i4"), Quire(pwrel=0.1), "point-wise"),
        ):
            with pytest.raises(ValueError, match=reason):
                file.create_dataset("t", data=data, chunks=(2, 2), **options)
        with pytest.raises(ValueError, match="must be the first"):
            file.create_dataset("t", data=np.zeros((4, 4)), chunks=(2, 2), shuffle=True, **Quire(abs=1))


@pytest.mark.parametrize("dtype", ["<c8", ">c16"])
def test_a_complex_fill_value_of_two_parts_needs_the_exact_bits(dtype: str, tmp_path: Path) -> None:
    values, fill = field(dtype), np.array(-9999 + 1j, dtype)
    values[3] = fill
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(16, 16, 16), maxshape=(None, 30, 40), fillvalue=fill, compression=Quire(lossless=True))
        dataset.resize(25, axis=0)
        with pytest.raises(ValueError, match="two different parts"):
            file.create_dataset("u", data=values, chunks=(16, 16, 16), fillvalue=fill, compression=Quire(abs=1))
    with h5py.File(tmp_path / "t.h5") as file:
        assert file["t"][:20].tobytes() == values.tobytes() and (file["t"][20:] == fill).all()
    stream = compress(values, "lossless", fill_value=fill)
    assert decompress(stream).tobytes() == values.tobytes()
    with pytest.raises(ValueError, match="two different parts"):
        compress(values, "abs=1", fill_value=fill)


def test_chunks_are_inspected(tmp_path: Path) -> None:
    values = field("f4", (32, 40))
    values[:16, :16] = 7
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", shape=(64, 40), dtype="f4", chunks=(16, 16), **Quire(abs=1e-3, coding="bitshuffle"))
        dataset[:32] = values
        # As HDF5 leaves a chunk that an optional filter could not compress.
        dataset.id.write_direct_chunk((32, 0), np.zeros((16, 16), "f4").tobytes(), filter_mask=1)
        file.flush()
        rows = {row.offset: row for row in inspect(dataset)}
        assert sorted(rows) == [(0, 0), (0, 16), (0, 32), (16, 0), (16, 16), (16, 32), (32, 0)]
        constant, coded, skipped = rows[0, 0], rows[16, 16], rows[32, 0]
        assert constant[1:4] == ("constant", None, None) and constant.ratio == 1024 / constant.bytes > 20
        assert coded.coding == "quantized" and coded.codebook == "bit planes" and coded.half_step == 1e-3 and coded.exceptions == 0
        assert coded.predictor is not None and coded.predictor.startswith("differences ")
        assert skipped == ((32, 0), "unfiltered", None, None, 1.0, 0, None, 1024)


def test_a_checksum_behind_the_filter_is_no_obstacle(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=field("f8"), chunks=(16, 16, 16), fletcher32=True, **Quire(rel=1e-3))
        rows = inspect(dataset)
        assert len(rows) == 2 * 2 * 3 and {row.coding for row in rows} == {"quantized"}
        assert {type(row.codebook) for row in rows} <= {int, str}


def test_what_cannot_be_inspected_is_a_value_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        plain = file.create_dataset("plain", data=np.zeros(9))
        behind = file.create_dataset("gzip", data=np.zeros(9), chunks=(3,), compression="gzip")
        damaged = file.create_dataset("damaged", shape=(9,), dtype="f4", chunks=(9,), **Quire(abs=1))
        damaged.id.write_direct_chunk((0,), b"no stream at all, but some bytes")
        for dataset, reason in ((plain, "has the filters"), (behind, "has the filters"), (damaged, "chunk at .0,.: stream is damaged"), (file, "is not a dataset")):
            with pytest.raises(ValueError, match=reason):
                inspect(dataset)


@pytest.mark.parametrize(("seed", "share"), [(1678, 3e-3), (2203, 3e-4), (660, 3e-3), (1175, 3e-3), (2427, 1e-3), (1243, 1e-3)])
def test_decimals_written_in_parts_keep_the_largest_bound(seed: int, share: float, tmp_path: Path) -> None:
    """Temperatures in tenths of a degree, the first two layers together and then one a write: their digits look like an earlier, finer grid."""
    random = np.random.default_rng(seed)
    pattern = np.cumsum(np.cumsum(random.normal(size=(8, 24, 24)), 1), 2)
    pattern /= np.abs(pattern).max()
    amplitude, offset = random.uniform(2, 30), float(random.integers(0, 20))
    values = np.round(offset + amplitude * pattern * (1 + 0.15 * np.arange(8))[:, None, None], 1).astype("f4")
    path, bound = tmp_path / "t.h5", 0.0
    with h5py.File(path, "w") as file:
        file.create_dataset("t", shape=values.shape, chunks=values.shape, dtype="f4", **Quire(rel=share))
    for first, end in [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6)]:
        with h5py.File(path, "a") as file:
            file["t"][first:end] = values[first:end]
        bound = max(bound, share * (float(values[:end].max()) - float(values[:end].min())))
        with h5py.File(path) as file:
            assert_bound(values[:2], file["t"][:2], bound)
