"""Arrays in a GPU's memory: into datasets of h5py and back, to streams and back. Without a GPU, what is said of them.

With QUIRE_REQUIRE_CUDA=1 a machine without a GPU fails. `plugin-tests/gpu.sh` runs this on a machine that has one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import h5py
import numpy as np
import pytest

import device_libraries
from h5z_quire import Quire, Unsuitable, compress, decompress, device_arrays, parallel, read, write
from h5z_quire.strided import Strided, c_order
from device_libraries import DriverArray, Library
from conftest import Array, RunPython, assert_bound, field

BOUND = 0.01
SHAPE, CHUNKS = (70, 65, 80), (32, 32, 32)


class Says:
    """What says that it is an array in a GPU's memory."""

    def __init__(self, address: int, shape: "tuple[int, ...]" = (4, 5), typestr: str = "<f4", **more: object) -> None:
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3, "stream": None, **more}

    def __repr__(self) -> str:
        return "all of its values"


class Producer:
    """An array of numpy that says by DLPack that it is in a GPU's memory."""

    def __init__(self, array: Array, error: Optional[Exception] = None) -> None:
        self.array, self.error = array, error

    def __dlpack_device__(self) -> "tuple[int, int]":
        return (2, 0)

    def __dlpack__(self, stream: Optional[int] = None) -> Any:
        assert stream == 1
        if self.error:
            raise self.error
        return self.array.__dlpack__()


@pytest.fixture()
def dataset(tmp_path: Path) -> Iterator[h5py.Dataset]:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        yield file.create_dataset("t", (4, 5), "f4", chunks=(2, 5), **Quire(abs=BOUND))


@pytest.fixture(scope="session")
def gpu() -> None:
    """Skips tests on a machine without a GPU."""
    reason = device_libraries.obstacle()
    if reason and os.environ.get("QUIRE_REQUIRE_CUDA") == "1":
        pytest.fail(f"QUIRE_REQUIRE_CUDA=1, but {reason}")
    if reason:
        pytest.skip(reason)


@pytest.fixture(params=device_libraries.NAMES)
def library(request: Any, gpu: None) -> Library:
    """Each library in turn."""
    try:
        return device_libraries.library(request.param)
    except ImportError as error:
        pytest.skip(f"{request.param}: {error}")


# Anywhere


def test_memory_that_is_no_gpus_is_an_error_and_no_crash(dataset: h5py.Dataset) -> None:
    values = np.zeros((4, 5), "f4")
    said = r"^the test_device_arrays\.(Says|Producer) of shape \(4, 5\) and type float32 says that it is in a GPU's memory, but (this process|its address)"
    for array in (Says(0), Says(values.ctypes.data), Says(12345), Producer(values)):
        with pytest.raises(ValueError, match=said):
            write(dataset, array)
        with pytest.raises(ValueError, match=said):
            read(dataset, out=array)
        with pytest.raises(ValueError, match=said):
            compress(array, "abs=1")
        with parallel(), pytest.raises(ValueError, match=said):
            dataset[...] = array
        with parallel(), pytest.raises(ValueError, match=said):
            dataset.file.create_dataset("u", data=array, chunks=(2, 5), **Quire(abs=BOUND))
    assert dataset.id.get_num_chunks() == 0 and "u" not in dataset.file


def test_interfaces_that_make_no_sense_are_errors() -> None:
    incomplete = Says(0)
    del incomplete.__cuda_array_interface__["data"], incomplete.__cuda_array_interface__["shape"]
    with pytest.raises(ValueError, match="without data, shape"):
        device_arrays.find(incomplete)
    with pytest.raises(ValueError, match="has a mask"):
        device_arrays.find(Says(0, mask=Says(0)))
    with pytest.raises(ValueError, match="has the stream 0"):
        device_arrays.find(Says(0, stream=0))
    with pytest.raises(ValueError, match="cannot be taken by DLPack: use detach"):
        device_arrays.find(Producer(np.zeros(3), BufferError("use detach")))
    with pytest.raises(ValueError, match="gave no capsule"):
        device_arrays.of_capsule(None)
    capsule = np.zeros(3, "f4").__dlpack__()
    # Numbers of 8 bits with an exponent, say.
    device_arrays._tensor(capsule)[0].kind = 10
    with pytest.raises(ValueError, match="DLPack's kind 10 with 32 bits and 1 lanes cannot be compressed"):
        device_arrays.of_capsule(capsule)
    assert device_arrays.find(np.zeros(3)) is device_arrays.find([1, 2]) is device_arrays.find(None) is device_arrays.find(1.5) is None


def test_layouts_are_those_that_the_interfaces_say() -> None:
    # No values, no address that has to be one.
    found = device_arrays.find(Says(64, shape=(0, 3, 5), typestr=">f8", stream=7, strides=None))
    assert found is not None and (found.dtype, found.strides, found.stream, found.is_writable) == (np.dtype(">f8"), (120, 40, 8), 7, True)
    found = device_arrays.find(Says(64, shape=(0, 3), strides=(-8, 40), data=(64, True)))
    assert found is not None and (found.address, found.strides, found.stream, found.is_writable) == (64, (-8, 40), 1, False)
    base = field("f4")
    for array in (base, base[3:, ::2, 5], np.asfortranarray(base), base[::-1, 2:9], np.arange(7, dtype="u2"), np.zeros((), "i8")):
        found = device_arrays.of_capsule(array.__dlpack__())
        expected = Strided.of_numpy(array)
        assert (found.address, found.dtype, found.shape) == (expected.address, expected.dtype, expected.shape)
        assert found.strides == expected.strides and found.is_writable and found.stream == 1


def test_a_newer_capsule_says_whether_the_array_may_be_written() -> None:
    array = np.zeros(3)
    try:
        newer = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        pytest.skip(f"numpy {np.__version__} has no such capsules")
    assert device_arrays.of_capsule(newer).is_writable
    array.flags.writeable = False
    assert not device_arrays.of_capsule(array.__dlpack__(max_version=(1, 0))).is_writable


def test_broadcasting_is_numpys() -> None:
    for shape in ((), (1,), (5,), (4, 1), (1, 5), (4, 5), (3, 4, 5)):
        array = np.arange(np.prod(shape, dtype=int), dtype="i4").reshape(shape)
        for target in ((), (5,), (4, 5), (2, 4, 5), (0, 5), (4, 1)):
            try:
                expected = np.broadcast_to(array, target)
            except ValueError:
                with pytest.raises(ValueError, match="could not be broadcast"):
                    Strided.of_numpy(array).broadcast_to(target)
                continue
            found = Strided.of_numpy(array).broadcast_to(target)
            assert np.array_equal(np.lib.stride_tricks.as_strided(array, found.shape, found.strides), expected)
    for shape in ((), (4,), (3, 4, 5)):
        assert c_order(shape, 8) == np.zeros(shape).strides


def test_what_device_can_be(dataset: h5py.Dataset) -> None:
    wrong: "list[Any]" = ["gpu", "cuda:", "cuda:x", "cpu", -1, True, 1.5]
    for device in wrong:
        with pytest.raises(ValueError, match="it must be 'cuda', a number as in 'cuda:1', or the number alone"):
            read(dataset, device=device)
    with pytest.raises(ValueError, match="out and device are both given"):
        read(dataset, out=np.zeros((4, 5), "f4"), device="cuda")  # type: ignore[call-overload]
    swapped = dataset.file.create_dataset("swapped", (4, 5), ">f4", chunks=(2, 5), **Quire(abs=BOUND))
    with pytest.raises(ValueError, match="in this byte order .>f4. on a GPU"):
        read(swapped, device="cuda")
    with pytest.raises(ValueError, match="out is a list that is not in a GPU's memory"):
        read(dataset, out=[1.0])


def test_a_new_array_on_a_machine_without_a_gpu_is_an_error(dataset: h5py.Dataset) -> None:
    if not device_libraries.obstacle():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="neither is installed: install one, or give out=|device='cuda' has no new array of float32 for"):
        read(dataset, device="cuda")
    with pytest.raises(ValueError, match="neither is installed: install one, or give out=|device=0 has no new array of float32 for"):
        decompress(compress(np.zeros(3, "f4"), "abs=1"), device=0)


# On a GPU


def digests(dataset: h5py.Dataset) -> "dict[tuple[int, ...], str]":
    """A digest of every chunk that the file has, by the indices of its first value."""
    dataset.file.flush()
    infos = [dataset.id.get_chunk_info(index) for index in range(dataset.id.get_num_chunks())]
    return {info.chunk_offset: hashlib.sha256(dataset.id.read_direct_chunk(info.chunk_offset)[1]).hexdigest() for info in infos}


class Pair:
    """Two datasets that are created alike: to be written by us, and by h5py."""

    def __init__(self, folder: Path, dtype: str, quire: Quire, shape: "tuple[int, ...]" = SHAPE) -> None:
        # Without a chunk cache, in which h5py would find its values as they were before they were compressed.
        self.file = h5py.File(folder / "pair.h5", "a", rdcc_nbytes=0)
        options = {"chunks": CHUNKS, "fillvalue": 3, **quire}
        number = len(self.file)
        self.ours, self.theirs = (self.file.create_dataset(f"{number}/{way}", shape, dtype, **options) for way in ("ours", "theirs"))

    def assert_same(self, what: str) -> None:
        expected = digests(self.theirs)
        assert expected and digests(self.ours) == expected, f"{what}: the chunks are not those of h5py's own path"


@pytest.mark.parametrize("dtype, quire", [("f4", Quire(abs=BOUND)), ("f8", Quire(rel=1e-3)), ("f2", Quire(abs=0.125)), ("i2", Quire(abs=2)), ("u4", Quire(lossless=True))])
def test_chunks_are_those_of_h5pys_own_path(library: Library, dtype: str, quire: Quire, tmp_path: Path) -> None:
    values = field(dtype, SHAPE)
    if values.dtype.kind == "f":
        values[5, 6, :4] = np.nan, np.inf, -np.inf, -0.0
    values[:32, :32, :32] = 3
    pair = Pair(tmp_path, dtype, quire)
    pair.theirs[...] = values
    write(pair.ours, library.put(values))
    pair.assert_same("the whole")
    expected = pair.theirs[()]
    if library.name != "jax":
        out = library.put(np.zeros(SHAPE, dtype))
        assert read(pair.ours, out=out) is out
        assert library.get(out).tobytes() == expected.tobytes()
    if quire == Quire(abs=BOUND):
        finite = np.isfinite(values)
        assert_bound(values[finite], expected[finite], BOUND)
    # A box that cuts chunks, over what is there; an axis that is dropped; one value for many.
    patch = field(dtype, (40, 30, 50))
    for dataset, put in ((pair.ours, library.put), (pair.theirs, None)):
        for index, part in ((np.s_[11:51, 9:39, 22:72], patch), (np.s_[5, 3:33, 10:60], patch[7]), (np.s_[60:, :, 70:], patch[0, 0, :10])):
            if put:
                write(dataset, put(np.ascontiguousarray(part)), index)
            else:
                # All at once: h5py would write one row after the other, and the filter settle each chunk's relative bound several times.
                dataset[index] = np.broadcast_to(part, dataset[index].shape)
    pair.assert_same("boxes")
    if library.name != "jax":
        out = library.put(np.zeros((40, 30), dtype))
        read(pair.ours, np.s_[11:51, 9:39, 22], out)
        assert library.get(out).tobytes() == pair.theirs[11:51, 9:39, 22].tobytes()


@contextlib.contextmanager
def longest_file(folder: Path) -> Iterator[int]:
    """No file becomes longer than 1 MiB. Gives the number of the error that follows."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        yield errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@contextlib.contextmanager
def full_tmpfs(folder: Path) -> Iterator[int]:
    """The tmpfs that is mounted here has 1 MiB, and much more afterwards."""
    subprocess.run(["mount", "-o", "remount,size=1m", folder], check=True)
    try:
        yield errno.ENOSPC
    finally:
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)


@pytest.fixture(params=[longest_file, full_tmpfs])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], contextlib.AbstractContextManager[int]]]:
    """Called, it makes `tmp_path` small while its context lasts."""
    if request.param is full_tmpfs:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", tmp_path], capture_output=True, text=True)
        if mounted.returncode:
            pytest.skip(f"no tmpfs can be mounted: {mounted.stderr.strip()}")
    yield lambda: request.param(tmp_path)
    if request.param is full_tmpfs:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_a_full_disk_is_an_error(library: Library, tmp_path: Path, small_disk: Callable[[], contextlib.AbstractContextManager[int]]) -> None:
    noise = np.random.default_rng(0).normal(0, 1e30, (128, 64, 64)).astype("f4")
    values = library.put(noise)
    with h5py.File(tmp_path / "full.h5", "w") as file:
        dataset = file.create_dataset("t", noise.shape, "f4", chunks=CHUNKS, **Quire(abs=1e-9))
        write(dataset, library.put(noise[:32]), np.s_[:32])
        file.flush()
        with small_disk() as error:
            with pytest.raises(OSError, match="are written") as raised:
                write(dataset, values)
        assert os.strerror(error) in str(raised.value) or f"errno = {error}" in str(raised.value)
        # The error does not tell of fewer chunks than there are.
        said = int(str(raised.value).rpartition("the first ")[2].split()[0])
        assert 4 < said <= dataset.id.get_num_chunks() <= said + 1
        assert np.array_equal(dataset[:32], noise[:32]), "what was written before"
        # With room again, the rest is written.
        write(dataset, values)
    with h5py.File(tmp_path / "full.h5", "r") as file:
        assert np.array_equal(file["t"][()], noise)


def test_a_file_for_reading_is_an_error(library: Library, tmp_path: Path) -> None:
    values = field("f4", SHAPE)
    pair = Pair(tmp_path, "f4", Quire(abs=BOUND))
    pair.ours[...] = values
    name, before = pair.ours.name, digests(pair.ours)
    pair.file.close()
    with h5py.File(tmp_path / "pair.h5", "r") as file:
        with pytest.raises(Unsuitable, match="read"):
            write(file[name], library.put(values + 1))
        assert digests(file[name]) == before


def test_any_strides(library: Library, tmp_path: Path) -> None:
    values = field("f4", SHAPE)
    spread = np.full((140, 65, 160), 9, "f4")
    spread[::2, :, ::2] = values
    transposed, backwards = np.ascontiguousarray(values.T), np.ascontiguousarray(values[::-1, :, ::-1])
    if library.name == "driver":
        ways = {"transposed": DriverArray(transposed.T), "spread": DriverArray(spread[::2, :, ::2]), "backwards": DriverArray(backwards[::-1, :, ::-1])}
    else:
        ways = {"spread": library.put(spread)[::2, :, ::2]}
    # Numba transposes matrices alone; of these libraries only CuPy steps backwards without a copy.
    if library.name in ("torch", "jax"):
        ways["transposed"] = getattr(library.put(transposed), {"torch": "permute", "jax": "transpose"}[library.name])(2, 1, 0)
    if library.name == "cupy":
        ways |= {"transposed": library.put(transposed).T, "backwards": library.put(backwards)[::-1, :, ::-1]}
    for way, array in ways.items():
        pair = Pair(tmp_path, "f4", Quire(abs=BOUND))
        pair.theirs[...] = values
        write(pair.ours, array)
        pair.assert_same(way)
        if library.name != "jax":
            assert read(pair.ours, out=array) is array
            assert np.array_equal(library.get(array), pair.theirs[()]), way


def test_h5pys_indexing_takes_them(library: Library, tmp_path: Path) -> None:
    values = field("f4", SHAPE)
    pair = Pair(tmp_path, "f4", Quire(abs=BOUND))
    pair.theirs[...] = values
    pair.theirs[3, 4] = values[0, 0]
    array, row, steps = (library.put(np.ascontiguousarray(given)) for given in (values, values[0, 0], values[:35]))
    with parallel():
        pair.ours[...] = array
        # Too little for all cores, and for a GPU all the same.
        pair.ours[3, 4] = row
        pair.assert_same("assigned")
        created = pair.file.create_dataset("created", data=array, chunks=CHUNKS, fillvalue=3, **Quire(abs=BOUND))
        assert isinstance(created[()], np.ndarray)
    assert created.dtype == "f4" and created.shape == SHAPE
    assert_bound(values, created[()], BOUND)
    with parallel():
        try:
            pair.ours[::2] = steps
        except TypeError as error:
            # What h5py says of most of them, and why it was asked.
            assert isinstance(error.__context__, Unsuitable) and "every 2th value" in str(error.__context__)
        else:
            assert_bound(values[:35], pair.ours[::2], BOUND)


def test_streams_are_those_of_the_host(library: Library) -> None:
    values = field("f4", (40, 41, 42))
    for options in ("abs=0.01", "rel=1e-3,coding=bitshuffle", "psnr=60", "lossless"):
        assert compress(library.put(values), options, fill_value=7) == compress(values, options, fill_value=7)
    assert compress(library.put(values[3, 4]), "abs=1") == compress(values[3, 4], "abs=1")
    with pytest.raises(ValueError, match="adapt=history"):
        compress(library.put(values), "abs=1,adapt=history")
    with pytest.raises(ValueError, match="only single numbers are compressed there"):
        compress(library.put(np.zeros(4, "c8")), "abs=1")


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_new_arrays_are_on_the_gpu(name: str, gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip(name)
    other = {"cupy": "torch", "torch": "cupy"}[name]
    make = device_arrays._module
    monkeypatch.setattr(device_arrays, "_module", lambda asked: None if asked == other else make(asked))
    values = field("f4", SHAPE)
    pair = Pair(tmp_path, "f4", Quire(abs=BOUND))
    write(pair.ours, values)
    expected = pair.ours[()]
    get = device_libraries.library(name).get
    kind: Any = getattr(module, {"cupy": "ndarray", "torch": "Tensor"}[name])
    devices: "list[Any]" = ["cuda", "cuda:0", 0]
    for device in devices:
        found = read(pair.ours, device=device)
        assert isinstance(found, kind) and np.array_equal(get(found), expected)
    assert np.array_equal(get(read(pair.ours, np.s_[3, 2:50], device="cuda")), expected[3, 2:50])
    found = decompress(compress(values, "abs=0.01"), device="cuda")
    assert isinstance(found, kind) and np.array_equal(get(found), decompress(compress(values, "abs=0.01")))
    assert decompress(compress(values, "abs=0.01"), shape=(70 * 65, 80), device=0).shape == (70 * 65, 80)
    with pytest.raises(ValueError, match="does not fit"):
        decompress(compress(values, "abs=0.01"), shape=(3,), device=0)
    with pytest.raises(ValueError, match="has no new array of float32 for"):
        read(pair.ours, device="cuda:63")


def test_a_cupy_stream_comes_first(gpu: None, tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    spin = cupy.RawKernel('extern "C" __global__ void spin(long long n) { long long s = clock64(); while (clock64() - s < n); }', "spin")
    values = field("f4", SHAPE)
    pair = Pair(tmp_path, "f4", Quire(abs=BOUND))
    pair.theirs[...] = values
    array = cupy.asarray(values - 1)
    cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Stream(non_blocking=True):
        spin((1,), (1,), (300_000_000,))
        array += 1
        write(pair.ours, array)
        expected = cupy.asnumpy(array)
    pair.theirs[...] = expected
    pair.assert_same("a stream that was still at work")
    with cupy.cuda.Stream(non_blocking=True):
        spin((1,), (1,), (300_000_000,))
        array.fill(9)
        read(pair.ours, out=array)
        assert np.array_equal(cupy.asnumpy(array), pair.theirs[()])


def test_a_torch_stream_comes_first(gpu: None, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    values = field("f4", SHAPE)
    pair = Pair(tmp_path, "f4", Quire(abs=BOUND))
    array = torch.from_numpy(values - 1).cuda()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(300_000_000)
        array += 1
        write(pair.ours, array)
        pair.theirs[...] = array.cpu().numpy()
        pair.assert_same("a stream that was still at work")
        torch.cuda._sleep(300_000_000)
        array.fill_(9)
        read(pair.ours, out=array)
        assert np.array_equal(array.cpu().numpy(), pair.theirs[()])
    with pytest.raises(ValueError, match="cannot be taken by DLPack: .*detach"):
        write(pair.ours, array.requires_grad_())
    # In the host's memory they are what they were before.
    write(pair.ours, torch.from_numpy(values))
    assert_bound(values, read(pair.ours), BOUND)
    with pytest.raises(ValueError, match="out is a Tensor that is not in a GPU's memory"):
        read(pair.ours, out=torch.zeros(SHAPE))


def test_what_jax_computes_comes_first(gpu: None, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    import jax.numpy

    put = device_libraries.library("jax").put
    pair = Pair(tmp_path, "f4", Quire(abs=BOUND), (96, 96, 96))
    matrices = put(field("f4", (96, 96, 96)) / 1000)
    for _ in range(40):
        matrices = jax.numpy.tanh(matrices @ matrices + 0.1)
    write(pair.ours, matrices)
    pair.theirs[...] = np.asarray(matrices)
    pair.assert_same("a computation that was still under way")
    with pytest.raises(ValueError, match="cannot be written; the selection has"):
        read(pair.ours, out=matrices)


def test_what_does_not_fit_is_said_in_few_words(library: Library, tmp_path: Path) -> None:
    pair = Pair(tmp_path, "f4", Quire(abs=BOUND))
    for array, said in (
        (np.zeros(SHAPE, "f8"), "F64"),
        (np.zeros((70, 65), "f4"), r"an array of shape \(70, 65\) could not be broadcast to \(70, 65, 80\)"),
    ):
        with pytest.raises(ValueError, match=said) as raised:
            write(pair.ours, library.put(array))
        assert len(str(raised.value)) < 400
    if library.name != "jax":
        with pytest.raises(ValueError, match=r"out has the shape \(70, 65\); the selection has \(70, 65, 80\)"):
            read(pair.ours, out=library.put(np.zeros((70, 65), "f4")))
    assert pair.ours.id.get_num_chunks() == 0


def test_a_gpu_that_may_not_be_used_is_an_error(gpu: None, run_python: RunPython) -> None:
    script = """
import sys
sys.path.insert(0, sys.argv[1])
import h5py, numpy as np, h5z_quire, device_libraries
device_libraries._open()
array = device_libraries.DriverArray(np.zeros((8, 8), "f4"))
with h5py.File("t.h5", "w") as file:
    dataset = file.create_dataset("t", (8, 8), "f4", chunks=(4, 8), **h5z_quire.Quire(abs=1))
    for call in (lambda: h5z_quire.write(dataset, array), lambda: h5z_quire.read(dataset, out=array), lambda: h5z_quire.compress(array, "abs=1")):
        try:
            call()
        except ValueError as error:
            print(error)
"""
    said = run_python(script, str(Path(__file__).parent), QUIRE_BACKEND="cpu").splitlines()
    assert len(said) == 3 and all("QUIRE_BACKEND" in line and "cupy.asnumpy" in line for line in said), said


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("shards", [None, (64, 64, 64)])
def test_zarr_keeps_arrays_of_cupy_on_the_gpu(shards: "tuple[int, ...] | None", batch_size: int, gpu: None, tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    zarr = pytest.importorskip("zarr", minversion="3.1")
    from h5z_quire.zarr import QuireCodec

    values = field("f4", (70, 65, 128))
    values[:32, :32, :32] = 3

    def make(name: str, given: Any) -> "dict[str, bytes]":
        codec = QuireCodec(Quire(abs=BOUND))
        options = {"shape": values.shape, "dtype": values.dtype, "chunks": CHUNKS, "shards": shards, "fill_value": 3}
        # Of arrays of CuPy zarr does not see that they are fill values, and stores them all the same.
        config = {"write_empty_chunks": True}
        array = zarr.create_array(str(tmp_path / name), serializer=codec, compressors=None, config=config, **options)
        array[...] = given
        array[3:40, 5:60, 7] = given[:37, :55, 2]
        folder = tmp_path / name
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    expected = make("host", values)
    with zarr.config.enable_gpu(), zarr.config.set({"codec_pipeline.batch_size": batch_size}):
        assert make("gpu", cupy.asarray(values)) == expected and len(expected) > 3
        found = zarr.open_array(str(tmp_path / "gpu"), mode="r")
        whole, part = found[...], found[3:5, ::7, 1]
    assert isinstance(whole, cupy.ndarray) and isinstance(part, cupy.ndarray)
    host = zarr.open_array(str(tmp_path / "host"), mode="r")
    assert np.array_equal(cupy.asnumpy(whole), host[...]) and np.array_equal(cupy.asnumpy(part), host[3:5, ::7, 1])
    assert_bound(values[40:], cupy.asnumpy(whole)[40:], BOUND)
