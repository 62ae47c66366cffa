"""A file as it lies in a bucket: requests, bytes and seconds for the mean, a box and a place's series of a variable that is read over HTTP.

    h5-samples/measure cloud [FIELD.npy] [--rel 1e-3] [--latency 30] [--bandwidth 100] [--rounds 5]

A server in a process of its own has the file in memory, counts, and imitates a network: a reply begins --latency milliseconds after its request, and all
replies share --bandwidth MB/s. Formats and readers take turns. Each reader opens the file anew, and checks what it has read against the bound in f64. The
references of kerchunk and VirtualiZarr are made once before, and the last table has what that takes.
"""

from __future__ import annotations

import functools
import gc
import http.server
import itertools
import math
import os
import re
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import h5py
import hdf5plugin
import numpy as np
import zarr
from kerchunk.hdf import SingleHdf5ToZarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import HTTPStore
from virtualizarr.parsers import HDFParser

import h5z_quire.kerchunk
import h5z_quire.virtualizarr
from h5z_quire import Quire
from harness import HERE, Field, Remote, Report, check, in_turns, parser, seconds, shape_text, spread
from peer_calls import versions

Reader = Callable[[Any], np.ndarray]

# 1.1 MiB of f32.
CHUNK = (2, 16, 96, 96)
# Bytes that the server sends at once.
PART = 1 << 16
#: What is read of an array of four axes. A place has two chunks a month.
TASKS = {"mean": (...,), "box": (0, slice(0, 16), slice(48, 96), slice(96, 240)), "series": (slice(None), slice(None), 100, 200)}


class Bucket:
    """A server of the files of a folder, on a port of its own."""

    def __init__(self, folder: Path, latency: float, bandwidth: float) -> None:
        """`latency` in seconds, `bandwidth` in bytes a second; 0 for neither."""
        self.folder, self.latency, self.bandwidth = folder, latency, bandwidth
        self.requests = self.bytes = 0
        self.line = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Reply, self))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def count(self) -> tuple[int, int]:
        """Requests and bytes since the last call."""
        found = self.requests, self.bytes
        self.requests = self.bytes = 0
        return found

    def send(self, part: bytes, write: Callable[[bytes], object]) -> None:
        """Sends one part of a reply over the line that all replies share."""
        with self.line:
            if self.bandwidth:
                time.sleep(len(part) / self.bandwidth)
            self.bytes += len(part)
        write(part)


class Reply(http.server.BaseHTTPRequestHandler):
    """One connection to a bucket."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, bucket: Bucket, *arguments: Any) -> None:
        self.bucket = bucket
        super().__init__(*arguments)

    def log_message(self, *_: Any) -> None:
        """Nothing: the counts say more."""

    def do_HEAD(self) -> None:
        self.do_GET(with_body=False)

    def do_GET(self, with_body: bool = True) -> None:
        with self.bucket.line:
            self.bucket.requests += 1
        time.sleep(self.bucket.latency)
        with (self.bucket.folder / self.path.lstrip("/")).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            start, stop = (int(asked[1]), min(int(asked[2] or size) + 1, size)) if asked else (0, size)
            self.send_response(206 if asked else 200)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(stop - start))
            self.send_header("Last-Modified", self.date_time_string(0))
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.end_headers()
            file.seek(start)
            for first in range(start, stop if with_body else start, PART):
                self.bucket.send(file.read(min(PART, stop - first)), self.wfile.write)


def by_h5py(url: str, **cache: Any) -> Reader:
    """HDF5 reads the file through fsspec, as it reads any file."""

    def read(selection: Any) -> np.ndarray:
        with fsspec.filesystem("http", skip_instance_cache=True).open(url, **cache) as source, h5py.File(source) as file:
            return file["t"][selection]

    return read


def by_kerchunk(url: str) -> Reader:
    references = SingleHdf5ToZarr(url, inline_threshold=0, error="raise").translate()
    options = {"remote_protocol": "http", "remote_options": {"asynchronous": True}, "asynchronous": True, "skip_instance_cache": True}

    def read(selection: Any) -> np.ndarray:
        store = zarr.storage.FsspecStore(fsspec.filesystem("reference", fo=references, **options), path="", read_only=True)
        return zarr.open_group(store, mode="r", zarr_format=2)["t"][selection]

    return read


def by_virtualizarr(url: str) -> Reader:
    address = url.rpartition("/")[0]
    manifest = HDFParser()(url, ObjectStoreRegistry({address: HTTPStore(address, client_options={"allow_http": True})}))
    return lambda selection: zarr.open_group(manifest, mode="r", zarr_format=3)["t"][selection]


READERS: dict[str, Callable[[str], Reader]] = {
    "h5py, fsspec's default": by_h5py,
    "h5py, no read-ahead": functools.partial(by_h5py, cache_type="none"),
    "kerchunk, zarr, fsspec": by_kerchunk,
    "VirtualiZarr, zarr, obstore": by_virtualizarr,
}


def formats(bound: float) -> dict[str, tuple[dict[str, Any], float]]:
    """The arguments of h5py's create_dataset and the bound to check, by name."""
    zstd = dict(hdf5plugin.Zstd(), shuffle=True)
    return {
        "Quire": (dict(Quire(abs=bound)), bound),
        "rounded, shuffle, zstd 3": (zstd, bound),
        "shuffle, zstd 3": (zstd, 0),
        "shuffle, gzip 4": ({"compression": "gzip", "compression_opts": 4, "shuffle": True}, 0),
    }


def rounded(values: np.ndarray, bound: float) -> np.ndarray:
    """The values on the widest grid of a power of two that keeps the bound: their last bits are zeros, as a user of a lossless compressor would have them."""
    step = 2.0 ** math.floor(math.log2(2 * bound))
    return (np.rint(values.astype(np.float64) / step) * step).astype(values.dtype)


def measure(report: Report, folder: Path, field: Field, bound: float, rounds: int, bucket: Remote) -> None:
    counts: dict[tuple[str, str, str], tuple[int, int]] = {}

    def timed(key: tuple[str, str, str], reader: Reader, allowed: float) -> float:
        gc.collect()
        bucket("count")
        found = np.empty(0)

        def work() -> None:
            nonlocal found
            found = reader(TASKS[key[0]])
            found.mean(dtype=np.float64)

        taken = seconds(work)
        counts[key] = bucket("count")
        check(Field(key[0], field.values[TASKS[key[0]]]), found, allowed)
        return taken

    calls = {}
    references: list[list[object]] = [["references", "format", "requests", "MB", "s"]]
    for number, (name, (options, allowed)) in enumerate(formats(bound).items()):
        path = folder / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("t", data=rounded(field.values, bound) if name.startswith("rounded") else field.values, chunks=CHUNK, **options)
        report.say(f"{path.stat().st_size / 1e6:8.2f} MB  {name}")
        for reader, make in READERS.items():
            start = time.perf_counter()
            read = make(f"{bucket('address')}/{path.name}")
            taken = time.perf_counter() - start
            requests, size = bucket("count")
            if requests:
                references.append([reader, name, requests, f"{size / 1e6:.2f}", f"{taken:.2f}"])
            for task in TASKS:
                calls[task, reader, name] = functools.partial(timed, (task, reader, name), read, allowed)
    times = in_turns(calls, rounds)
    rows: list[list[object]] = [["task", "reader", "format", "requests", "MB", "s"]]
    for task, reader, name in itertools.product(TASKS, READERS, formats(bound)):
        requests, size = counts[task, reader, name]
        rows.append([task, reader, name, requests, f"{size / 1e6:.2f}", spread(times[task, reader, name], ".2f")])
    report.say("")
    report.table(rows, 3)
    report.say("")
    report.table(references, 2)


def main() -> None:
    options = parser(__doc__)
    default = HERE / "data" / "seed1-large" / "air_temperature.npy"
    options.add_argument("field", type=Path, nargs="?", default=default, help="an array of four axes, .npy; the generator's large air temperatures by default")
    options.add_argument("--rel", type=float, default=1e-3, help="the bound, as a share of the array's range")
    options.add_argument("--latency", type=float, default=30, help="in milliseconds")
    options.add_argument("--bandwidth", type=float, default=100, help="in MB/s, of all replies together; 0 for no limit")
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    # A thread of fsspec or zarr that came to collect objects of h5py would wait for h5py's lock, under which HDF5 and kerchunk wait for that thread.
    gc.disable()
    warnings.filterwarnings("ignore", "Numcodecs codecs are not in the Zarr")
    field = Field(arguments.field.stem, np.load(arguments.field))
    bound = arguments.rel * field.range
    report = Report(
        "cloud",
        arguments.results,
        versions(("h5py", "hdf5plugin", "zarr", "numcodecs", "kerchunk", "virtualizarr", "fsspec", "aiohttp", "obstore")),
        f"network: imitated on one machine: {arguments.latency:g} ms before each reply, {arguments.bandwidth:g} MB/s for all replies (0: no limit)",
        f"array:   {field.name}, {shape_text(field.values.shape)} {field.values.dtype}, {field.values.nbytes / 1e6:.2f} MB, chunks of {shape_text(CHUNK)}",
        f"bound:   abs={bound!r} ({arguments.rel:g} of the range), checked for every value that is read",
        "tasks:   mean: of all values; box: of one month, 16 levels of 48x144 places; series: all months and levels of one place",
        "s:       median and quartiles of opening, reading and taking the mean",
        "",
    )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        bucket = Remote({}, Bucket, Path(folder), arguments.latency / 1e3, arguments.bandwidth * 1e6)
        measure(report, Path(folder), field, bound, arguments.rounds, bucket)
        bucket.stop()


if __name__ == "__main__":
    main()
