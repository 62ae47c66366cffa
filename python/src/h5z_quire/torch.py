"""Random crops of HDF5 datasets and zarr arrays, as batches for PyTorch::

    crops = h5z_quire.torch.Dataset(["1.h5:/t", "2.h5:/t"], crop=(64, 64, 64), batch=8, device="cuda")
    for epoch in range(10):
        crops.set_epoch(epoch)
        for x in crops:                      # a tensor of shape (8, 1, 64, 64, 64)
            ...

Where batches are on a GPU, it decompresses the chunks while the training goes on.
"""

from __future__ import annotations

import itertools
import math
import os
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from types import SimpleNamespace
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import IterableDataset, get_worker_info

from .datasets import opened
from .library import Unsuitable
from .messages import short
from .transfers import read

# Blocks that are read at a time.
_READERS = 2
# Bytes of a block, if a crop needs no more: few large reads are faster than many small ones.
_BLOCK_BYTES = 32 << 20

_Box = tuple[slice, ...]


class _Source(NamedTuple):
    """Arrays of one shape and type, which become the channels of crops."""

    #: Texts such as `run.h5:/t`, by which each read opens the file, and arrays of zarr. So no file is open when a process forks.
    arrays: tuple[Any, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: Any

    def bytes(self, box: Iterable[int]) -> int:
        """Of a box of all channels, by its extents."""
        size: int = len(self.arrays) * self.dtype.itemsize * math.prod(box)
        return size


class Dataset(IterableDataset):  # type: ignore[misc]
    """Batches of random crops: tensors of the arrays' own type, whose axes are batch, channels, and those of the arrays.

    In each epoch, every array is cut into other blocks of whole chunks. Blocks are read in random order, each of them once. A block has crops at random places,
    as many as fit into the block side by side.

    Parameters
    ----------
    sources : sequence
        Of arrays, or of tuples of arrays, which become channels. An array is one of zarr, a text such as "run.h5:/t", a dataset of h5py whose file is open
        for reading only, or what else `inspect` takes. Files with other filters are read by HDF5.
    crop : sequence of int
        Values along each axis of the arrays.
    batch : int, default 1
        Crops of a tensor. The last crops of an epoch are dropped if they fill no tensor.
    seed : int, default 0
    device : str or torch.device, default "cpu"
        Where tensors are. A GPU decompresses the chunks of HDF5 files that have this package's filter. Other values come from pinned memory.
    pool : int, default 256 MiB
        Bytes of the blocks whose crops are mixed. A process, or a worker, has twice as much: the next blocks are read meanwhile.
    rank, world_size : int, optional
        The share of this process, and the number of shares. Without them torch.distributed says both, if there is a process group.

    Raises
    ------
    ValueError
        With the reason, for arrays or numbers that do not go together. Batches raise what `read`, h5py and zarr raise.

    Notes
    -----
    The seed and `set_epoch` alone say which crops an epoch has. Ranks share these crops, and all ranks have equally many batches. The workers of a DataLoader
    share those of a rank: give the DataLoader ``batch_size=None``. A block in two shares is read twice.

    Threads read the next blocks while the caller has a batch. On the CPU, `torch.get_num_threads()` says how many: all cores, or one in a worker. For a GPU,
    the threads have a stream of CUDA of their own. Then a DataLoader is not needed, and its workers are refused.

    Examples
    --------
    >>> import h5py, numpy as np
    >>> from h5z_quire import Quire
    >>> from h5z_quire.torch import Dataset
    >>> x = np.sin(np.arange(64 * 64) / 50).reshape(64, 64)
    >>> with h5py.File("trained.h5", "w") as file:
    ...     for name in "uv":
    ...         _ = file.create_dataset(name, data=x, chunks=(32, 32), **Quire(abs=1e-3))
    >>> crops = Dataset([("trained.h5:/u", "trained.h5:/v")], crop=(16, 24), batch=5)
    >>> len(crops), next(iter(crops)).shape
    (2, torch.Size([5, 2, 16, 24]))
    """

    def __init__(
        self, sources: Sequence[Any], crop: Sequence[int], *, batch: int = 1, seed: int = 0, device: Any = "cpu", pool: int = 256 << 20,
        rank: int | None = None, world_size: int | None = None,
    ) -> None:  # fmt: skip
        if isinstance(sources, (str, os.PathLike)) or hasattr(sources, "shape") or not len(sources):
            raise ValueError(f"sources is {short(sources)}: give a list, with one array at least")
        self.crop, self.batch, self.seed, self.device, self.pool = tuple(map(int, crop)), int(batch), int(seed), torch.device(device), int(pool)
        if min((self.batch, self.pool, *self.crop)) < 1 or not self.crop:
            raise ValueError(f"crop is {crop!r}, batch {batch!r}, and pool {pool!r}: give 1 or more for each")
        if self.device.type not in ("cpu", "cuda") or (self.device.type == "cuda" and not torch.cuda.is_available()):
            raise ValueError(f"device is {str(self.device)!r}, where PyTorch {torch.__version__} can put no crops: give 'cpu', or 'cuda' where there is a GPU")
        self._sources = [_source(given, self.crop) for given in sources]
        kinds = [f"{len(source.arrays)} channels of {source.dtype}" for source in self._sources]
        if other := next((number for number, kind in enumerate(kinds) if kind != kinds[0]), None):
            raise ValueError(f"{short(sources[other])} has {kinds[other]}, the first source {kinds[0]}: all must have the same")
        group = torch.distributed
        if rank is None and world_size is None and group.is_available() and group.is_initialized():
            rank, world_size = group.get_rank(), group.get_world_size()
        self.rank, self.world_size = rank or 0, 1 if world_size is None else world_size
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank is {rank} and world_size {world_size}: give both, and a rank from 0 to world_size - 1")
        # Persistent workers of a DataLoader see it as well.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        if not len(self):
            raise ValueError(
                f"an epoch has {sum(map(self._count, self._sources))} crops, too few for a batch of {self.batch} on each of {self.world_size} ranks: give "
                "smaller batches or crops, or more sources"
            )

    def __len__(self) -> int:
        """Batches of an epoch on this rank."""
        return sum(map(self._count, self._sources)) // self.world_size // self.batch

    def set_epoch(self, epoch: int) -> None:
        """Has iterations give the crops of this epoch from now on. They begin with those of epoch 0."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[torch.Tensor]:
        """The batches of this rank, and in a DataLoader those of this worker."""
        worker = get_worker_info()
        if worker and self.device.type == "cuda":
            raise ValueError(f"device is {str(self.device)!r}, which a worker cannot use: give the DataLoader num_workers=0, or the dataset device='cpu'")
        share, shares = (worker.id, worker.num_workers) if worker else (0, 1)
        first, end = (self.batch * (self.rank * len(self) + len(self) * number // shares) for number in (share, share + 1))
        key = f"{self.seed} {int(self._epoch)}"
        order = Random(f"{key} from {first}")
        batch: list[Any] = []
        for crops in self._read(self._pools(key, first, end)):
            order.shuffle(crops)
            # The memory of a block is let go with its last crop.
            while crops:
                batch.append(crops.pop())
                if len(batch) == self.batch:
                    yield self._stack(batch)
                    batch.clear()

    def _stack(self, crops: list[Any]) -> torch.Tensor:
        if self.device.type == "cpu":
            return torch.from_numpy(np.stack(crops).view(np.uint8)).view(_torch_type(self._sources[0]))
        for crop in crops:
            # The readers' stream, whose memory it is, is not to use it anew before the batch is there.
            crop.record_stream(torch.cuda.current_stream(self.device))
        return torch.stack(crops)

    def _count(self, source: _Source) -> int:
        """Crops of a source in an epoch."""
        return math.prod(source.shape) // math.prod(self.crop)

    def _pools(self, key: str, first: int, end: int) -> Iterator[list[tuple[_Source, _Box, list[_Box]]]]:
        """Where the crops of an epoch are, from the first to the end: blocks in random order with crops in them, a pool at a time."""
        random = Random(key)
        blocks = [block for source in self._sources for block in self._cut(source, random)]
        random.shuffle(blocks)
        pool: list[tuple[_Source, _Box, list[_Box]]] = []
        room, done = self.pool, 0
        for number, (source, box, count) in enumerate(blocks):
            mine = slice(max(first - done, 0), max(end - done, 0))
            done += count
            if range(count)[mine]:
                places = Random(f"{key} block {number}")
                starts = [[places.randint(0, _extent(side) - extent) for side, extent in zip(box, self.crop)] for _ in range(count)]
                pool.append((source, box, [tuple(slice(at, at + extent) for at, extent in zip(start, self.crop)) for start in starts[mine]]))
                room -= source.bytes(map(_extent, box))
            if room <= 0:
                yield pool
                pool, room = [], self.pool
        yield pool

    def _cut(self, source: _Source, random: Random) -> Iterator[tuple[_Source, _Box, int]]:
        """The blocks of a source, and how many of its crops each has, by volume."""
        steps = [-(-extent // chunk) + 1 for extent, chunk in zip(self.crop, source.chunks)]
        while source.bytes((step + 1) * chunk for step, chunk in zip(steps, source.chunks)) <= _BLOCK_BYTES:
            steps = [step + 1 for step in steps]
        total, before = math.prod(source.shape), 0
        for box in itertools.product(*(_sides(*axis, random) for axis in zip(source.shape, source.chunks, steps, self.crop))):
            after = before + math.prod(map(_extent, box))
            yield source, box, self._count(source) * after // total - self._count(source) * before // total
            before = after

    def _read(self, pools: Iterator[list[tuple[_Source, _Box, list[_Box]]]]) -> Iterator[list[Any]]:
        """The crops of each pool. While the caller has those of one pool, threads read the next."""
        cores, stream = torch.get_num_threads(), torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        count = _READERS if stream else min(_READERS, cores)
        readers = ThreadPoolExecutor(count)

        def begin() -> list[Future[list[Any]]]:
            return [readers.submit(self._crops, *block, stream, -(-cores // count)) for block in next(pools, ())]

        try:
            ahead = begin()
            while ahead:
                crops = [crop for block in ahead for crop in block.result()]
                ahead = begin()
                yield crops
        finally:
            readers.shutdown(cancel_futures=True)

    def _crops(self, source: _Source, box: _Box, crops: list[_Box], stream: Any, threads: int) -> list[Any]:
        """Reads a block, and cuts its crops, which share its memory: arrays of numpy, or in a GPU's memory tensors."""
        shape = (len(source.arrays), *map(_extent, box))
        if stream is None:
            # numpy's arrays are in huge pages, which cost the system less.
            values: Any = np.empty(shape, source.dtype)
            for channel, array in zip(values, source.arrays):
                _fill(channel, array, box, threads)
        else:
            with torch.cuda.stream(stream):
                values = torch.empty(shape, dtype=_torch_type(source), device=self.device)
                for channel, array in zip(values, source.arrays):
                    if not _decompress(channel, array, box, stream):
                        host = torch.empty_like(channel, device="cpu", pin_memory=True)
                        _fill(host.view(torch.uint8).numpy().view(source.dtype), array, box, threads)
                        channel.copy_(host, non_blocking=True)
                stream.synchronize()
        return [values[(slice(None), *crop)] for crop in crops]


def _extent(side: slice) -> int:
    extent: int = side.stop - side.start
    return extent


def _sides(extent: int, chunk: int, step: int, crop: int, random: Random) -> list[slice]:
    """Cuts an axis every so many chunks, from a random one on, but not where a crop would not fit in before an end."""
    cuts = range(random.randrange(step) * chunk, extent, step * chunk)
    return [slice(*side) for side in itertools.pairwise([0, *(cut for cut in cuts if crop <= cut <= extent - crop), extent])]


def _source(given: Any, crop: tuple[int, ...]) -> _Source:
    """What is given as a source. Raises ValueError if it cannot be one."""
    channels = list(map(_array, given if isinstance(given, (tuple, list)) else (given,)))
    if len({(one.shape, one.dtype) for one in channels}) != 1:
        raise ValueError(f"{short(given)} has arrays {[(one.shape, str(one.dtype)) for one in channels]}: channels must have one shape and one type")
    source = channels[0]._replace(arrays=tuple(array for one in channels for array in one.arrays), chunks=channels[0].chunks or crop)
    if len(crop) != len(source.shape) or any(extent > most for extent, most in zip(crop, source.shape)):
        raise ValueError(f"crop is {crop}, and {short(given)} has the shape {source.shape}: give an extent for each axis, which fits into the array")
    if not isinstance(_torch_type(source), torch.dtype):
        raise ValueError(f"{short(given)} has values of type {source.dtype}, of which PyTorch has no tensors")
    return source


def _array(given: Any) -> _Source:
    """A source of one array, without chunks if the array has none."""
    if _is_zarr(given):
        return _Source((given,), given.shape, given.chunks, given.dtype.newbyteorder("="))
    with opened(given) as dataset:
        if dataset.file.mode != "r":
            raise ValueError(f"the file of {dataset.name!r} is open for writing, and each read would open it: close it, or open it with 'r'")
        return _Source((f"{os.path.abspath(dataset.file.filename)}:{dataset.name}",), dataset.shape or (), dataset.chunks, dataset.dtype.newbyteorder("="))


def _torch_type(source: _Source) -> Any:
    """What PyTorch calls the type of values; None if it has no such type."""
    return getattr(torch, source.dtype.name, None)


def _is_zarr(array: Any) -> bool:
    return hasattr(array, "get_basic_selection")


def _fill(out: npt.NDArray[Any], array: Any, box: _Box, threads: int) -> None:
    """Reads values into the host's memory."""
    if _is_zarr(array):
        out[...] = array[box]
        return
    with opened(array) as dataset:
        try:
            read(dataset, box, out=out, threads=threads)
        except Unsuitable:
            dataset.read_direct(out, box)


def _decompress(out: torch.Tensor, array: Any, box: _Box, stream: Any) -> bool:
    """Has the GPU decompress values into its memory. False if they are complex, or not of this package's filter in an HDF5 file."""
    if _is_zarr(array) or out.is_complex():
        return False
    # By DLPack the work would wait for all that the default stream was given: for the training.
    place = {**out.__cuda_array_interface__, "version": 3, "stream": stream.cuda_stream}
    with opened(array) as dataset:
        try:
            read(dataset, box, out=SimpleNamespace(__cuda_array_interface__=place, dtype=out.dtype))
        except Unsuitable:
            return False
    return True
