"""Random crops for PyTorch."""

from __future__ import annotations

import math
import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Iterable, Optional, Sequence

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import device_libraries  # noqa: E402
import h5z_quire.torch  # noqa: E402
from h5z_quire import Quire  # noqa: E402
from h5z_quire.torch import Dataset, _sides  # noqa: E402
from conftest import Array, assert_bound  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

SHAPE, CHUNK, CROP, BOUND = (20, 33, 40), (8, 16, 16), (6, 9, 16), 0.05
VALUES = math.prod(SHAPE)

needs_gpu = pytest.mark.skipif(bool(device_libraries.obstacle()) or not torch.cuda.is_available(), reason=device_libraries.obstacle() or "PyTorch has no GPU")


def numbered(first: int = 0) -> Array:
    """An array whose values, rounded, are the numbers of their places."""
    numbers = np.arange(first, first + VALUES, dtype="f8").reshape(SHAPE)
    return numbers + 0.4 * np.sin(numbers)


def store(folder: Path, kind: str, values: Array, name: str = "t") -> Any:
    """An array in a file, as a source."""
    if kind.startswith("zarr"):
        zarr = pytest.importorskip("zarr", minversion="3.1")
        from h5z_quire.zarr import QuireCodec

        shards = tuple(2 * side for side in CHUNK) if kind == "zarr, shards" else None
        chunked = {"chunks": CHUNK, "shards": shards, "serializer": QuireCodec(abs=BOUND), "compressors": None}
        array = zarr.create_array(folder / f"{name}.zarr", shape=values.shape, dtype=values.dtype, **chunked)
        array[:] = values
        return array
    options = {
        "HDF5": {"chunks": CHUNK, "compression": Quire(abs=BOUND)},
        "HDF5, gzip": {"chunks": CHUNK, "compression": "gzip"},
        "HDF5, contiguous": {},
    }[kind]
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.create_dataset("t", data=values, **options)
    return f"{folder / name}.h5:/t"


@pytest.fixture()
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few chunks a block as can be."""
    monkeypatch.setattr(h5z_quire.torch, "_BLOCK_BYTES", 0)


@pytest.fixture()
def source(tmp_path: Path) -> Any:
    return store(tmp_path, "HDF5", numbered())


def places(batches: Iterable[Any], crop: "tuple[int, ...]" = CROP, *, values: Optional[Array] = None) -> "Counter[int]":
    """The numbers of the crops' first places. Every value of every crop is within the bound."""
    found: "Counter[int]" = Counter()
    original = numbered() if values is None else values
    for batch in batches:
        assert batch.dtype == torch.float64 and batch.shape[1:] == (1, *crop)
        for one in batch.cpu().numpy()[:, 0]:
            number = int(np.rint(one.flat[0]))
            start = np.unravel_index(number, original.shape)
            assert_bound(original[tuple(slice(at, at + extent) for at, extent in zip(start, crop))], one, BOUND)
            found[number] += 1
    return found


KINDS = ("HDF5", "HDF5, gzip", "HDF5, contiguous", "zarr", "zarr, shards")


@pytest.mark.parametrize("crop", [CROP, (1, 1, 40), (17, 30, 3), SHAPE], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_within_the_bound(small_blocks: None, kind: str, crop: "tuple[int, ...]", tmp_path: Path) -> None:
    batch = 1 if crop == SHAPE else 3
    crops = Dataset([store(tmp_path, kind, numbered())], crop, batch=batch)
    found = places(crops, crop)
    assert len(crops) * batch == found.total() == VALUES // math.prod(crop) // batch * batch
    assert crop == SHAPE or len(found) > found.total() / 2


@pytest.mark.parametrize("extent, chunk, crop", [(100, 16, 16), (100, 16, 1), (100, 16, 17), (100, 16, 100), (100, 200, 30), (5, 1, 2), (7, 7, 7)])
def test_axes_are_cut_between_chunks_and_never_within_reach_of_every_crop(extent: int, chunk: int, crop: int) -> None:
    reached = set()
    for seed in range(200):
        sides = _sides(extent, chunk, -(-crop // chunk) + 1 + seed % 3, crop, Random(seed))
        edges = [0, *(side.stop for side in sides)]
        assert [side.start for side in sides] == edges[:-1] and edges[-1] == extent, "there is a gap, or an overlap"
        assert all(edge % chunk == 0 for edge in edges[:-1]) and min(map(int.__sub__, edges[1:], edges)) >= crop
        reached |= {start for side in sides for start in range(side.start, side.stop - crop + 1)}
    assert reached == set(range(extent - crop + 1)), "a crop can never be taken"


def test_a_seed_and_an_epoch_say_what_comes(small_blocks: None, source: Any) -> None:
    def epoch(number: int, seed: int = 0) -> "list[Any]":
        crops = Dataset([source], CROP, batch=2, seed=seed)
        crops.set_epoch(number)
        return list(crops)

    first = epoch(0)
    assert all(map(torch.equal, first, epoch(0))) and len(first) == 15
    assert places(first) != places(epoch(1)) != places(epoch(0, 1)) != places(first)


def test_sources_are_mixed_and_small_pools_give_the_same_crops(small_blocks: None, tmp_path: Path) -> None:
    values = [numbered(number * VALUES) for number in range(3)]
    sources = [store(tmp_path, kind, one, f"{number}") for number, (kind, one) in enumerate(zip(("HDF5", "zarr", "HDF5"), values))]
    found = [list(Dataset(sources, CROP, batch=4, pool=pool)) for pool in (1, 100_000, 1 << 30)]
    counted = [places(batches, values=np.concatenate(values)) for batches in found]
    assert counted[0] == counted[1] == counted[2] and counted[0].total() == 3 * 30 // 4 * 4
    assert Counter(number // VALUES for number in counted[0].elements()).keys() == {0, 1, 2}
    mixed = [{int(crop.flatten()[0]) // VALUES for crop in batch} for batch in found[2]]
    assert max(map(len, mixed)) > 1


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_share_the_crops(start: str, tmp_path: Path) -> None:
    values = [numbered(number * VALUES) for number in range(2)]
    crops = Dataset([store(tmp_path, kind, one) for kind, one in zip(("HDF5", "zarr"), values)], CROP, batch=2)
    # What this process has done before is not to hinder its children.
    seen = [places(crops, values=np.concatenate(values))]
    loader = DataLoader(crops, batch_size=None, num_workers=2, multiprocessing_context=start, persistent_workers=True)
    for epoch in (1, 2):
        crops.set_epoch(epoch)
        found = places(loader, values=np.concatenate(values))
        assert len(loader) == found.total() / 2 == 30
        assert found == places(crops, values=np.concatenate(values)) and found not in seen
        seen.append(found)


def test_ranks_share_the_crops(small_blocks: None, source: Any) -> None:
    whole = places(Dataset([source], CROP))
    for ranks in (2, 3):
        shares = [Dataset([source], CROP, rank=rank, world_size=ranks) for rank in range(ranks)]
        assert {len(share) for share in shares} == {30 // ranks}
        # Crops of different ranks may be the same by chance, but none is missing and none comes twice.
        assert sum(map(places, shares), Counter()) == whole


def test_torch_distributed_says_the_rank(source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        assert (Dataset([source], CROP).rank, Dataset([source], CROP).world_size) == (0, 1)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
        assert (Dataset([source], CROP).rank, Dataset([source], CROP).world_size) == (1, 3)
    finally:
        torch.distributed.destroy_process_group()


def test_variables_become_channels(tmp_path: Path) -> None:
    values = numbered()
    other = store(tmp_path, "zarr", -values, "other")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("t", data=values, chunks=CHUNK, **Quire(abs=BOUND))
    with h5py.File(tmp_path / "t.h5") as file:
        crops = Dataset([(file["t"], other)], CROP, batch=30)
    (batch,) = crops
    assert batch.shape == (30, 2, *CROP) and places([batch[:, :1]]).total() == 30
    assert float((batch[:, 0] + batch[:, 1]).abs().max()) <= 2 * BOUND


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("dtype", ["f2", ">f4", "i2", "u1", "c8", "bool", "bfloat16"])
def test_types_are_kept(dtype: str, device: str, tmp_path: Path) -> None:
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    values = (np.arange(1000).reshape(10, 100) % 7).astype(dtype)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("t", data=values, chunks=(4, 30), **Quire(lossless=True))
    (batch,) = Dataset([f"{tmp_path}/t.h5:/t"], (10, 100), device=device)
    assert str(batch.dtype) == f"torch.{values.dtype.name}"
    assert np.array_equal(batch[0, 0].to(torch.complex64).cpu().numpy(), values.astype("c8"))


def test_an_epoch_may_be_left(source: Any) -> None:
    before = threading.active_count()
    for _ in Dataset([source], CROP, pool=1):
        break
    assert threading.active_count() == before


def test_what_a_read_raises_comes_to_the_caller(source: str) -> None:
    crops = Dataset([source], CROP)
    Path(source[: -len(":/t")]).unlink()
    with pytest.raises(FileNotFoundError):
        next(iter(crops))


def test_what_cannot_be_is_refused(source: str, tmp_path: Path) -> None:
    def refused(match: str, sources: Any = (source,), crop: "Sequence[int]" = CROP, **options: Any) -> None:
        with pytest.raises(ValueError, match=match):
            Dataset(sources, crop, **options)

    refused("give a list, with one array", source)
    refused("give a list, with one array", [])
    refused("is not a dataset: give one", [5])
    refused("give 1 or more", crop=(0, 9, 16))
    refused("give 1 or more", crop=())
    refused("give 1 or more", batch=0)
    refused("give 1 or more", pool=0)
    refused("an extent for each axis", crop=(9, 16))
    refused("which fits into the array", crop=(6, 9, 41))
    refused("30 crops, too few for a batch of 16 on each of 2 ranks", batch=16, rank=0, world_size=2)
    refused("a rank from 0 to world_size - 1", rank=2, world_size=2)
    refused("give both", rank=1)
    refused("can put no crops", device="meta")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        dataset = file.create_dataset("x", data=np.zeros(SHAPE, "f4"))
        file["text"] = ["a"] * 8
        file["rank"] = np.zeros(3)
        refused("is open for writing", [dataset])
    refused("channels must have one shape and one type", [(source, f"{tmp_path}/other.h5:/x")])
    refused("all must have the same", [source, f"{tmp_path}/other.h5:/x"])
    refused("all must have the same", [source, (source, source)])
    refused("channels must have", [()])
    refused("PyTorch has no tensors", [f"{tmp_path}/other.h5:/text"], (2,))


@needs_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_has_the_same_crops(small_blocks: None, kind: str, tmp_path: Path) -> None:
    values = [numbered(number * VALUES) for number in range(4)]
    sources = [store(tmp_path, kind, one, f"{number}") for number, one in enumerate(values)]
    for pool in (1, 1 << 30):
        host, gpu = (Dataset(sources, CROP, batch=2, device=device, pool=pool) for device in ("cpu", "cuda"))
        pairs = list(zip(host, gpu))
        assert len(pairs) == 60
        assert all(theirs.device.type == "cuda" and torch.equal(mine, theirs.cpu()) for mine, theirs in pairs)


@needs_gpu
def test_a_worker_is_refused_a_gpu(source: Any) -> None:
    loader = DataLoader(Dataset([source], CROP, device="cuda"), batch_size=None, num_workers=1, multiprocessing_context="spawn")
    with pytest.raises(ValueError, match="which a worker cannot use: give"):
        next(iter(loader))
