"""A training loader: random crops for PyTorch by h5z_quire.torch, beside gzip, zarr with Blosc and raw .npy; and what a bound does to a small UNet.

    h5-samples/measure loader [--files 8] [--size 256] [--rel 1e-3] [--rounds 5] [--device cuda] [--steps 2000]

Files hold fields of turbulent velocity. Every value in them is first checked against its bound in f64, and crops that a GPU has decompressed must be those of
the CPU. Then the ways take turns, each for an epoch, after one that does not count. Workers are processes of PyTorch's DataLoader, one for each core.
"Crop by crop" is a data set that reads each crop when it is asked for. Printed are medians and quartiles of crops a second, on the device.

The UNet learns to restore crops from means of 4x4x4 values. For each seed all trainings have the same weights to begin with, the same crops and the same number
of steps; they differ in the bound of what they are given. The loss is that of crops of another field, as it was, as a share of their variance.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import tempfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import zarr
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

import h5z_quire
from h5z_quire import Quire
from h5z_quire.torch import Dataset
from harness import RELATIVE_BOUNDS, Report, check_slabs, in_turns, parser, seconds, spread, step, velocity
from peer_calls import versions

CHUNK, CROP, BATCH = (64, 64, 64), (64, 64, 64), 8
UNET_CROP, SEEDS = (32, 32, 32), 3

#: By name: the end of a file's name, and h5py's arguments for a bound.
HDF5: dict[str, tuple[str, Callable[[float], dict[str, Any]]]] = {
    "HDF5, Quire": ("quire.h5", lambda bound: {**Quire(abs=bound)}),
    "HDF5, gzip 4 with shuffle": ("gzip.h5", lambda _: {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
}
ZARR, NPY = "zarr, Blosc (lz4, 5, shuffle)", ".npy, not compressed"


def write(folder: Path, number: int, size: int, bound: float) -> None:
    """A field, in all files."""
    values = velocity(size, number)
    np.save(folder / f"{number}.npy", values)
    for name, options in HDF5.values():
        with h5py.File(folder / f"{number}.{name}", "w") as file:
            file.create_dataset("x", data=values, chunks=CHUNK, **options(bound))
    blosc = zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
    zarr.create_array(folder / f"{number}.zarr", shape=values.shape, dtype=values.dtype, chunks=CHUNK, compressors=blosc)[:] = values


@cache
def opened(path: Path) -> Any:
    """The array of a file, once in a process."""
    if path.suffix == ".h5":
        return h5py.File(path)["x"]
    return zarr.open_array(path, mode="r") if path.suffix == ".zarr" else np.load(path, mmap_mode="r")


class CropByCrop(torch.utils.data.Dataset):
    """What programs do without this loader: each item is a random crop of a file."""

    def __init__(self, paths: list[Path], count: int) -> None:
        self.paths, self.count = paths, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> np.ndarray:
        array = opened(self.paths[number % len(self.paths)])
        start = [random.randint(0, extent - crop) for extent, crop in zip(array.shape, CROP)]
        return np.array(array[tuple(slice(at, at + crop) for at, crop in zip(start, CROP))])[None]


def on_the_cpu(_worker: int = 0) -> None:
    os.environ["QUIRE_BACKEND"] = "cpu"


def run(batches: Iterable[torch.Tensor], device: str) -> None:
    """Has all batches on the device."""
    for batch in batches:
        batch.to(device, non_blocking=True)
    if device == "cuda":
        torch.cuda.synchronize()


def measure_speed(report: Report, folder: Path, files: int, bound: float, device: str, rounds: int) -> None:
    paths = {name: [folder / f"{number}.{ending}" for number in range(files)] for name, (ending, _) in HDF5.items()}
    paths |= {name: [folder / f"{number}.{ending}" for number in range(files)] for name, ending in ((ZARR, "zarr"), (NPY, "npy"))}
    for name, own in paths.items():
        for path, original in zip(own, paths[NPY]):
            check_slabs(opened(original), opened(path)[:], bound if "Quire" in name else 0.0)
    sources = {name: [f"{path}:/x" for path in paths[name]] for name in HDF5} | {ZARR: list(map(opened, paths[ZARR]))}
    if device == "cuda":
        for mine, theirs in zip(Dataset(sources["HDF5, Quire"], CROP), Dataset(sources["HDF5, Quire"], CROP, device=device)):
            assert torch.equal(mine, theirs.cpu()), "a crop from the GPU is not that of the CPU"
    ours = Dataset(sources["HDF5, Quire"], CROP, batch=BATCH, device=device)
    count = BATCH * len(ours)
    workers = partial(
        DataLoader, num_workers=len(os.sched_getaffinity(0)), multiprocessing_context="spawn", persistent_workers=True, worker_init_fn=on_the_cpu,
        pin_memory=device == "cuda",
    )  # fmt: skip
    loaders: dict[str, Any] = {"HDF5, Quire; this loader": ours}
    loaders |= {f"{name}; this loader, workers": workers(Dataset(own, CROP, batch=BATCH), batch_size=None) for name, own in sources.items()}
    loaders |= {f"{name}; crop by crop, workers": workers(CropByCrop(own, count), BATCH, shuffle=True, drop_last=True) for name, own in paths.items()}
    taken = in_turns({name: partial(seconds, partial(run, loader, device)) for name, loader in loaders.items()}, rounds + 1)
    bytes_of = {name: sum(file.stat().st_size for path in own for file in [path, *path.rglob("*")] if file.is_file()) for name, own in paths.items()}
    rows = [["", "ratio", "crops/s", "times .npy"]]
    plain = np.median(taken[f"{NPY}; crop by crop, workers"][1:])
    for name, own in taken.items():
        ratio = bytes_of[NPY] / bytes_of[name.partition(";")[0]]
        rows.append([name, f"{ratio:.2f}", spread([count / one for one in own[1:]], ".0f"), f"{plain / np.median(own[1:]):.2f}"])
    report.table(rows)


class UNet(nn.Module):
    """A network of two levels, whose output is added to its input."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.fine, self.coarse, self.last = self.block(1, width), self.block(width, 2 * width), self.block(3 * width, width)
        self.out = nn.Conv3d(width, 1, 1)

    def block(self, before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv3d(before, after, 3, padding=1), nn.ReLU(), nn.Conv3d(after, after, 3, padding=1), nn.ReLU())

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        fine = self.fine(given)
        coarse = functional.interpolate(self.coarse(functional.max_pool3d(fine, 2)), scale_factor=2)
        return given + self.out(self.last(torch.cat([fine, coarse], 1)))


def blurred(values: torch.Tensor) -> torch.Tensor:
    """What is left in means of 4x4x4 values."""
    return functional.interpolate(functional.avg_pool3d(values, 4), scale_factor=4, mode="trilinear")


def trained_loss(source: str, seed: int, steps: int, unseen: list[torch.Tensor], device: str) -> float:
    """The loss on unseen crops after a training."""
    torch.manual_seed(seed)
    model = UNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    crops = Dataset([source], UNET_CROP, batch=BATCH, seed=seed, device=device)
    for number in range(0, steps, len(crops)):
        crops.set_epoch(number)
        for crop in islice(crops, steps - number):
            loss = functional.mse_loss(model(blurred(crop)), crop)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return share_of_variance(model, unseen)


def share_of_variance(model: Callable[[torch.Tensor], torch.Tensor], crops: list[torch.Tensor]) -> float:
    return sum(float(functional.mse_loss(model(blurred(crop)), crop)) for crop in crops) / sum(float(crop.var()) for crop in crops)


def measure_loss(report: Report, folder: Path, size: int, steps: int, device: str) -> None:
    """Trains on one field at several bounds, and tries the model on another field."""
    values, other = (velocity(size, number) / np.float32(velocity(size, number).std()) for number in (0, 1))
    bounds = {f"{share:g} of the range": share * float(np.ptp(values)) for share in RELATIVE_BOUNDS}
    with h5py.File(folder / "loss.h5", "w") as file:
        for name, quire in {"the original": Quire(lossless=True), **{name: Quire(abs=bound) for name, bound in bounds.items()}}.items():
            dataset = file.create_dataset(name, values.shape, values.dtype, chunks=CHUNK, **quire)
            h5z_quire.write(dataset, values)
            check_slabs(values, h5z_quire.read(dataset), bounds.get(name, 0.0))
        file.create_dataset("unseen", data=other, chunks=CHUNK)
    unseen = list(Dataset([f"{folder}/loss.h5:/unseen"], UNET_CROP, batch=BATCH, device=device))
    rows = [["UNet, trained on", "bound, standard deviations", "loss, 1e-3 of the variance", *[""] * (SEEDS - 1)]]
    for name in ("the original", *bounds):
        losses = [trained_loss(f"{folder}/loss.h5:/{name}", seed, steps, unseen, device) for seed in range(SEEDS)]
        rows.append([name, f"{bounds.get(name, 0):.2g}", *(f"{1e3 * loss:.3f}" for loss in losses)])
    rows.append(["no UNet: means, interpolated", "", f"{1e3 * share_of_variance(nn.Identity(), unseen):.3f}"])
    report.table(rows)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--files", type=int, default=8)
    options.add_argument("--size", type=int, default=256, help="extent of a field along each of three axes")
    options.add_argument("--rel", type=float, default=1e-3, help="the bound, as a share of the first field's range")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options.add_argument("--steps", type=int, default=0, help="of each training of the UNet, which a GPU does in seconds")
    options.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    arguments = options.parse_args()
    # The script `measure` has one thread, for peers that are measured so.
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    bound = arguments.rel * float(np.ptp(velocity(arguments.size, 0)))
    info = h5z_quire.info()
    report = Report(
        "loader",
        arguments.results,
        f"{torch.get_num_threads()} threads, crops on {arguments.device}; {info.backend}: {info.why}; {versions(('torch', 'h5py', 'zarr', 'numcodecs'))}",
        f"{arguments.files} fields of {arguments.size}^3 f32, chunks and crops of 64^3, batches of {BATCH}; abs={bound:.4g}, {arguments.rel:g} of the range",
        "",
    )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        step("files")
        with multiprocessing.get_context("spawn").Pool(initializer=on_the_cpu) as pool:
            pool.starmap(write, [(folder, number, arguments.size, bound) for number in range(arguments.files)])
        step("crops a second")
        measure_speed(report, folder, arguments.files, bound, arguments.device, arguments.rounds)
        if arguments.steps:
            step("the UNet")
            report.say("", f"{arguments.steps} steps of {BATCH} crops of 32^3, a column for each of {SEEDS} seeds")
            measure_loss(report, folder, arguments.size, arguments.steps, arguments.device)


if __name__ == "__main__":
    main()
