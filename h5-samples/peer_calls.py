"""How other compressors are called, each as its authors' documentation says. All measurements of this folder take the calls from here and print them.

`FILTERS` are filters of HDF5: the arguments for h5py's create_dataset. `LIBRARIES` are called on an array, without HDF5. `of_library` and `of_plugin` make a
`Codec` of fields from a library and from this filter. What the documents say, and what was tried on one to three chunks of each array of arrays.py:

SZ3         INTERP_LORENZO, its default, has the best ratio at 1e-2; LORENZO_REG has a better one from 1e-3 on. It has no fill values.
ZFP         Fixed accuracy is the mode that bounds the error of every value. It has neither fill values nor NaN.
SPERR       hdf5plugin's `swap` puts the axes in SPERR's order, fastest first; without it, all fields but cubes are read along wrong axes. A chunk has two
            or three axes of 9 values or more, and divides the dataset. Missing values are NaN, or 1e35 and more; no others. With a PSNR in place
            of a bound, it corrects no single values, and streams of that PSNR are shorter.
Blosc2      Byte shuffle before zstd is better for floating-point numbers than bit shuffle, and bytedelta behind it better still, which HDF5's filter cannot
            be asked for. Level 9 saves 2 % more in twenty times the time.
pcodec      Level 8 is its default. Level 12 saves 1 % in twenty times the time. It takes values in one dimension.
gzip        h5py's default level, 4, behind HDF5's shuffle.
"""

from __future__ import annotations

import importlib.metadata
import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import h5py
import numpy as np

from filter_call import REVERSE, Plugin, chunk_words
from harness import Field

Shape = tuple[int, ...]


class Stream(NamedTuple):
    nbytes: int
    content: Any


class Library(NamedTuple):
    """A compressor of arrays: its package, the call in words, and the calls. A lossless one takes no notice of the bound."""

    package: str
    call: str
    compress: Callable[[np.ndarray, float], Stream]
    #: Takes an array of the type and shape that come back.
    decompress: Callable[[Stream, np.ndarray], np.ndarray]
    lossless: bool = False


class Codec(NamedTuple):
    """A compressor of fields at an absolute bound: the call in words, and the calls, which return the seconds that they took, too."""

    call: str
    compress: Callable[[Field, float], tuple[float, Stream]]
    decompress: Callable[[Stream, Field], tuple[float, np.ndarray]]
    lossless: bool = False


def of_library(library: Library, gaps_apart: bool = False) -> Codec:
    """A library as a codec. With `gaps_apart`, it gets a field without its gaps, whose places are counted beside it; taking them out is not timed."""

    def compress(field: Field, bound: float) -> tuple[float, Stream]:
        values, mask = field.without_gaps if gaps_apart else (field.values, 0)
        start = time.perf_counter()
        stream = library.compress(values, bound)
        return time.perf_counter() - start, Stream(stream.nbytes + mask, stream.content)

    def decompress(stream: Stream, field: Field) -> tuple[float, np.ndarray]:
        start = time.perf_counter()
        decoded = library.decompress(stream, field.values)
        seconds = time.perf_counter() - start
        has_gaps = gaps_apart and field.without_gaps[1] > 0
        return seconds, np.where(field.valid, decoded, field.values) if has_gaps else decoded

    return Codec(described(library) + (", gaps apart" if gaps_apart else ""), compress, decompress, library.lossless)


def of_plugin(plugin: Callable[[], Plugin], options: Callable[[Field, float], str], call: str) -> Codec:
    """filter() as a codec, with the fill value declared and options by field and bound."""

    def words(field: Field, bound: float) -> tuple[int, ...]:
        return chunk_words(options(field, bound), field.values.shape, field.values.dtype, field.fill)

    def compress(field: Field, bound: float) -> tuple[float, Stream]:
        seconds, stream = plugin().run(0, words(field, bound), field.values)
        return seconds, Stream(stream.nbytes, stream)

    def decompress(stream: Stream, field: Field) -> tuple[float, np.ndarray]:
        # A decoder takes no notice of the parameters.
        seconds, decoded = plugin().run(REVERSE, (), stream.content)
        return seconds, decoded.view(field.values.dtype).reshape(field.values.shape)

    return Codec(call, compress, decompress)


# Filters of HDF5


def hdf5plugin() -> Any:
    """Imported where it is needed, as all packages here: some measurements run on machines that lack them."""
    import hdf5plugin

    return hdf5plugin


def psnr_of_bound(value_range: float, bound: float) -> float:
    """The PSNR in dB of errors that are spread evenly up to a bound."""
    return 20 * math.log10(3**0.5 * max(value_range, bound) / bound)


def sperr_filter(values: np.ndarray, bound: float) -> Any:
    mode = 1 if np.isnan(values).any() else 2 if (np.abs(values) >= 1e35).any() else 0
    return hdf5plugin().Sperr(absolute=bound, swap=True, missing_value_mode=mode)


def sperr_psnr_filter(values: np.ndarray, bound: float) -> Any:
    """SPERR without a bound for single values: a PSNR."""
    psnr = psnr_of_bound(float(np.ptp(values.astype(np.float64))), bound)
    return hdf5plugin().Sperr(peak_signal_to_noise_ratio=psnr, swap=True)


#: By name: a function of the values and the absolute bound that gives create_dataset's arguments.
FILTERS: dict[str, Callable[[np.ndarray, float], Any]] = {
    "SZ3": lambda _, bound: hdf5plugin().SZ3(absolute=bound),
    "ZFP": lambda _, bound: hdf5plugin().Zfp(accuracy=bound),
    "SPERR": sperr_filter,
    "SPERR PSNR": sperr_psnr_filter,
    "Blosc2": lambda _, __: hdf5plugin().Blosc2(cname="zstd", clevel=5, filters=hdf5plugin().Blosc2.SHUFFLE),
    "bitshuffle": lambda _, __: hdf5plugin().Bitshuffle(cname="lz4"),
    "gzip": lambda _, __: {"compression": "gzip", "compression_opts": 4, "shuffle": True},
}
LOSSLESS_FILTERS = ("Blosc2", "bitshuffle", "gzip")


def filter_chunk(name: str, shape: Shape, wanted: Sequence[int]) -> Shape:
    """The chunk nearest to the one wanted that a filter takes in a dataset of a shape. Raises ValueError if there is none."""
    if not name.startswith("SPERR"):
        return tuple(wanted)
    dividing = [next(part for part in range(most, extent + 1) if extent % part == 0) for extent, most in zip(shape, wanted)]
    chunk = [part if part >= 9 else 1 for part in dividing]
    axes = [axis for axis, part in enumerate(chunk) if part > 1]
    if len(axes) < 2:
        raise ValueError("SPERR takes two or three axes of 9 values or more")
    for axis in axes[:-3]:
        chunk[axis] = 1
    return tuple(chunk)


def through_hdf5(name: str) -> Library:
    """A filter as a library: an array becomes a dataset of one chunk, if the filter takes that, in a file in memory. The file is opened again for reading, as
    HDF5's chunk cache would return the originals."""

    def compress(values: np.ndarray, bound: float) -> Stream:
        chunk = filter_chunk(name, values.shape, values.shape)
        with h5py.File("memory", "w", driver="core", backing_store=False) as target:
            data = target.create_dataset("x", data=values, chunks=chunk, **FILTERS[name](values, bound))
            target.flush()
            return Stream(data.id.get_storage_size(), target.id.get_file_image())

    def decompress(stream: Stream, _like: np.ndarray) -> np.ndarray:
        with h5py.File(h5py.h5f.open_file_image(stream.content)) as source:
            return source["x"][...]

    package = "h5py" if name == "gzip" else "hdf5plugin"
    call = re.sub(r"ratio=[\d.]+", "ratio=PSNR", str(FILTERS[name](np.zeros(1, np.float32), 0.125)).replace("0.125", "BOUND"))
    return Library(package, call, compress, decompress, name in LOSSLESS_FILTERS)


# Libraries


def sz3(algorithm: str) -> Library:
    def compress(values: np.ndarray, bound: float) -> Stream:
        from pysz import sz, szAlgorithm, szConfig, szErrorBoundMode

        config = szConfig()
        config.errorBoundMode, config.absErrorBound, config.cmprAlgo = szErrorBoundMode.ABS, bound, getattr(szAlgorithm, algorithm)
        stream, _ = sz.compress(values, config)
        return Stream(stream.nbytes, stream)

    def decompress(stream: Stream, like: np.ndarray) -> np.ndarray:
        from pysz import sz

        return sz.decompress(stream.content, like.dtype, like.shape)[0]

    return Library("pysz", f"sz.compress(values, config), config.cmprAlgo = {algorithm}, absErrorBound = BOUND", compress, decompress)


def zfp(reversible: bool) -> Library:
    def compress(values: np.ndarray, bound: float) -> Stream:
        import zfpy

        stream = zfpy.compress_numpy(values) if reversible else zfpy.compress_numpy(values, tolerance=bound)
        return Stream(len(stream), stream)

    def decompress(stream: Stream, _like: np.ndarray) -> np.ndarray:
        import zfpy

        return zfpy.decompress_numpy(stream.content)

    return Library("zfpy", f"zfpy.compress_numpy(values{'' if reversible else ', tolerance=BOUND'})", compress, decompress, reversible)


def blosc2_compress(values: np.ndarray, _bound: float) -> Stream:
    import blosc2

    filters = [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA]
    stream = blosc2.compress2(values, typesize=values.itemsize, codec=blosc2.Codec.ZSTD, clevel=5, filters=filters, filters_meta=[0, 0], nthreads=1)
    return Stream(len(stream), stream)


def blosc2_decompress(stream: Stream, like: np.ndarray) -> np.ndarray:
    import blosc2

    return np.frombuffer(blosc2.decompress2(stream.content, nthreads=1), like.dtype).reshape(like.shape)


def pcodec_compress(values: np.ndarray, _bound: float) -> Stream:
    from pcodec import ChunkConfig, standalone

    stream = standalone.simple_compress(values.ravel(), ChunkConfig())
    return Stream(len(stream), stream)


def pcodec_decompress(stream: Stream, like: np.ndarray) -> np.ndarray:
    from pcodec import standalone

    return standalone.simple_decompress(stream.content).reshape(like.shape)


LIBRARIES: dict[str, Library] = {
    "SZ3": sz3("INTERP_LORENZO"),
    "SZ3 LR": sz3("LORENZO_REG"),
    "ZFP": zfp(reversible=False),
    "ZFP reversible": zfp(reversible=True),
    "Blosc2": Library("blosc2", "blosc2.compress2(values, codec=ZSTD, clevel=5, filters=[SHUFFLE, BYTEDELTA])", blosc2_compress, blosc2_decompress, True),
    "pcodec": Library("pcodec", "standalone.simple_compress(values.ravel(), ChunkConfig())", pcodec_compress, pcodec_decompress, True),
}


# Versions


def versions(packages: Iterable[str]) -> str:
    """Names and versions of packages; `no NAME` for a package that is not installed."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def described(library: Library) -> str:
    """Package, version and call."""
    return f"{versions([library.package])}, {library.call}"


def described_filters(names: Iterable[str]) -> list[str]:
    """A line for each filter, for the head of a table."""
    return [f"{name + ':':<8} {described(through_hdf5(name))}" for name in names]
