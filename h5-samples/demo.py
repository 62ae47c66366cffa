"""Compress scientific fields through the plugin, check every value, and measure.

Run by demo.sh, which makes the environment, the plugin and the data. The work, in order:

1. `load_fields`      reads the generated .npy files and, if their package is installed, real climate fields (arrays.py)
2. `write_originals`  writes original.h5: contiguous, uncompressed
3. `measure`          writes each field at each bound to compressed.h5, reads, checks and times it
4. `check_netcdf`     writes and reads a field through the netCDF4 package, which has an HDF5 library of its own
5. `check_tools`      compresses and decompresses a field with h5repack, and compares h5repack, h5dump and h5py
6. `both_ways`        writes and reads a field through HDF5's filter pipeline, and on all cores beside it: the same chunks, byte for byte
7. `report`           makes the tables, for the terminal and for the file that --results names
"""

import argparse
import contextlib
import ctypes
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

import h5py
import numpy as np

from arrays import load_fields
from dataset import Dataset
from harness import FILTER_ID, RELATIVE_BOUNDS, Field, Violation, aligned, check, machine, progress, psnr, quire, seconds, shape_text, step
from measured import measured
from quire_options import cd_values

REPETITIONS = 3
CHUNK_BYTES = 2**20


@dataclass
class Row:
    """A line of the table: the figures of a field at a bound."""

    field: Field
    relative: float
    bound: float
    ratio: float
    psnr: float  # dB
    worst: float  # largest error, in bounds
    write_speed: float  # MB/s of uncompressed data
    read_speed: float  # MB/s of uncompressed data


# 2. Originals


def write_originals(file: Path, fields: list[Field]) -> None:
    """Write all fields, contiguous and uncompressed."""
    with h5py.File(file, "w") as target:
        for field in fields:
            target.create_dataset(field.name, data=field.values)


# 3. Compression


def chunk_shape(values: np.ndarray) -> tuple[int, ...]:
    """A shape of about CHUNK_BYTES: a cube over the fastest three axes, or a square or line for fewer axes, with an extent of 1 along
    slower ones. Each axis is split evenly, so that chunks at its end have little padding."""
    rank = min(values.ndim, 3)
    side = round((CHUNK_BYTES / values.itemsize) ** (1 / rank))
    sides = (1,) * (values.ndim - rank) + (side,) * rank
    return tuple(math.ceil(length / math.ceil(length / side)) for length, side in zip(values.shape, sides))


def dataset(file: Path, field: Field, bound: float) -> Dataset:
    """A file with this field alone. HDF5 also pads chunks at the edge with the fill value."""
    return Dataset(file, chunk_shape(field.values), quire(f"abs={bound!r}"), field.fill)


def write_and_read(data: Dataset, field: Field) -> tuple[float, float, np.ndarray]:
    """MB/s of uncompressed data in and out, medians over the repetitions, and the values that were read."""
    results: list[np.ndarray] = []
    write = median(data.write(field.values) for _ in range(REPETITIONS))
    read = median(seconds(lambda: results.append(data.values())) for _ in range(REPETITIONS))
    size = field.values.nbytes / 1e6
    return size / write, size / read, results[-1]


def measure(fields: list[Field], file: Path, scratch: Path) -> tuple[list[Row], list[str]]:
    """Compress all fields at all bounds. Returns the rows and the violations of bounds."""
    rows, violations = [], []
    work = [(field, relative) for relative in RELATIVE_BOUNDS for field in fields]
    with h5py.File(file, "w") as target:
        for field, relative in progress(work):
            bound = relative * field.range
            data = dataset(scratch / "one.h5", field, bound)
            write_speed, read_speed, decoded = write_and_read(data, field)
            try:
                worst = check(field, decoded, bound)
                rows.append(Row(field, relative, bound, field.values.nbytes / data.nbytes(), psnr(field, decoded), worst, write_speed, read_speed))
            except Violation as violation:
                violations.append(str(violation))
            with h5py.File(data.path) as source:
                # HDF5 copies the compressed chunks as they are.
                source.copy("x", target.require_group(f"{relative:g}"), field.name)
    return rows, violations


def read(file: Path, name: str) -> np.ndarray:
    """All values of a data set."""
    with h5py.File(file) as source:
        return source[name][...]


# 4. netCDF


def check_netcdf(field: Field, file: Path) -> str:
    """Write a netCDF-4 file with the netCDF4 package, and read it with netCDF4 and with h5py. Returns a remark for the report."""
    try:
        import netCDF4
    except ImportError:
        return "netCDF-4: left out, the netCDF4 package is not installed"
    bound = 1e-3 * field.range
    with netCDF4.Dataset(file, "w") as target:
        axes = [f"axis{axis}" for axis in range(field.values.ndim)]
        for axis, length in zip(axes, field.values.shape):
            target.createDimension(axis, length)
        # Without the default prefill, as every value is written below.
        target.set_fill_off()
        variable = target.createVariable(field.name, field.values.dtype, axes, chunksizes=chunk_shape(field.values), fill_value=field.fill)
        define_netcdf_filter(target, variable, cd_values(f"abs={bound!r}"))
        variable.set_auto_maskandscale(False)
        variable[...] = field.values
    with netCDF4.Dataset(file) as source:
        source.set_auto_maskandscale(False)
        decoded = source[field.name][...]
    worst = check(field, decoded, bound)
    if read(file, field.name).tobytes() != decoded.tobytes():
        raise Violation(f"{field.name}: netCDF4 and h5py read different values from one file")
    with h5py.File(file) as source:
        ratio = field.values.nbytes / source[field.name].id.get_storage_size()
    versions = f"netCDF4 {netCDF4.__version__}, HDF5 {netCDF4.__hdf5libversion__}"
    return f"netCDF-4 ({versions}): {field.name} at 1e-3, ratio {ratio:.2f}, worst error {worst:.4f} bounds, h5py reads the same"


def define_netcdf_filter(dataset: object, variable: object, parameters: tuple[int, ...]) -> None:
    """Call nc_def_var_filter of the library that the netCDF4 package has loaded. The package has no Python function for it."""
    library = ctypes.CDLL(loaded_object("libnetcdf"))
    values = (ctypes.c_uint * len(parameters))(*parameters)
    status = library.nc_def_var_filter(dataset._grpid, variable._varid, FILTER_ID, ctypes.c_size_t(len(parameters)), values)
    if status != 0:
        library.nc_strerror.restype = ctypes.c_char_p
        raise RuntimeError(f"nc_def_var_filter: {library.nc_strerror(status).decode()}")


def loaded_object(name: str) -> str:
    """Path of a shared library that this process has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.rpartition(" ")[2]
        if Path(path).name.startswith(name):
            return path
    raise RuntimeError(f"{name} is not loaded")


# 5. The HDF5 tools


def check_tools(field: Field, originals: Path, scratch: Path) -> str:
    """Compress with h5repack, decompress with h5repack, and dump with h5dump. Returns a remark for the report."""
    packed, unpacked, dumped = scratch / "packed.h5", scratch / "unpacked.h5", scratch / "dumped.bin"
    exponent = 3
    bound = float(f"1e-{exponent}")
    layout = shape_text(chunk_shape(field.values))
    # Flag 0 makes the filter mandatory, so that a refusal is an error and not an uncompressed data set. Two cd_values follow: mode 2 and e, for 10**-e.
    filtered = f"/{field.name}:UD={FILTER_ID},0,2,2,{exponent}"
    run("h5repack", "-l", f"/{field.name}:CHUNK={layout}", "-f", filtered, originals, packed)
    run("h5repack", "-f", "NONE", packed, unpacked)
    run("h5dump", "-d", f"/{field.name}", "-b", "LE", "-o", dumped, packed)
    decoded = read(packed, field.name)
    worst = check(field, decoded, bound)
    with h5py.File(packed) as source:
        if str(FILTER_ID) not in source[field.name]._filters:
            raise Violation("h5repack wrote no filter")
        ratio = field.values.nbytes / source[field.name].id.get_storage_size()
    with h5py.File(unpacked) as source:
        if source[field.name]._filters:
            raise Violation("h5repack left a filter")
    if read(unpacked, field.name).tobytes() != decoded.tobytes():
        raise Violation("h5repack to no filter and h5py read different values from one file")
    if dumped.read_bytes() != decoded.astype(decoded.dtype.newbyteorder("<")).tobytes():
        raise Violation("h5dump and h5py read different values from one file")
    return (
        f"h5repack and h5dump (HDF5 {tools_version()}): {field.name} at {bound:g} absolute, ratio {ratio:.2f}, "
        f"worst error {worst:.4f} bounds, all three read the same"
    )


def run(*command: str | Path) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\nended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def tools_version() -> str:
    """HDF5 version of the tools."""
    return run("h5dump", "--version").split()[-1]


# 6. All cores


def both_ways(field: Field, scratch: Path) -> list[str]:
    """Write and read a field, twice along each axis, with h5py alone, and inside h5z_quire.parallel(). Returns a table; raises Violation where a stored
    chunk differs."""
    import h5z_quire

    # As it is, it has eight chunks: starting threads takes as long as these.
    field = Field(field.name, np.tile(field.values, (2,) * field.values.ndim), field.fill)
    rows: list[list[str]] = [["bound", "write, h5py", "parallel", "read, h5py", "parallel"]]
    for relative in RELATIVE_BOUNDS:
        bound, speeds, chunks = relative * field.range, [], []
        for way in (contextlib.nullcontext, h5z_quire.parallel):
            data = dataset(scratch / "way.h5", field, bound)
            with way():
                *own, decoded = write_and_read(data, field)
            check(field, decoded, bound)
            speeds.append([f"{speed:.0f}" for speed in own])
            chunks.append(data.streams())
        if chunks[0] != chunks[1]:
            raise Violation(f"{field.name} at {relative:g}: h5py alone and h5z_quire.parallel() write different chunks")
        rows.append([f"{relative:g}", *(speed for direction in zip(*speeds) for speed in direction)])
    return [
        f"{field.name}, repeated to {shape_text(field.values.shape)}: MB/s with h5py alone (chunk by chunk, on one thread), and inside",
        "h5z_quire.parallel() (all cores); the stored chunks are the same, byte for byte",
        *aligned(rows, 0),
    ]


# 7. Report


def report(rows: list[Row], ways: list[str], remarks: list[str], plugin: Path) -> str:
    """Machine, tables, summary."""
    root = Path(__file__).resolve().parent.parent
    shown = plugin.relative_to(root) if plugin.is_relative_to(root) else plugin
    lines = [
        measured(),
        "command: h5-samples/demo.sh",
        f"machine: {machine()}",
        f"backend: {backend()}",
        f"plugin:  {shown}, under h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}",
        "bound:   share of the range over finite values that are not fill, and the absolute bound that it gives",
        f"MB/s:    uncompressed, whole data set through h5py, median of {REPETITIONS}; worst: largest error in bounds",
        "",
        *table(rows),
        "",
    ]
    for relative in RELATIVE_BOUNDS:
        ratios = [row.ratio for row in rows if row.relative == relative]
        if ratios:
            lines.append(f"geometric mean of the ratio at {relative:g}: {geometric_mean(ratios):.2f} ({len(ratios)} fields)")
    return "\n".join([*lines, *remarks, "", *ways, ""])


def table(rows: list[Row]) -> list[str]:
    """Header and rows, aligned."""
    cells: list[list[object]] = [["data set", "shape", "type", "bound", "absolute", "ratio", "PSNR dB", "worst", "write MB/s", "read MB/s"]]
    for row in rows:
        values = row.field.values
        figures = (f"{row.bound:.3g}", f"{row.ratio:.2f}", f"{row.psnr:.2f}", f"{row.worst:.4f}", f"{row.write_speed:.0f}", f"{row.read_speed:.0f}")
        cells.append([row.field.name, shape_text(values.shape), f"f{8 * values.itemsize}", f"{row.relative:g}", *figures])
    return list(aligned(cells, 3))


def backend() -> str:
    """The processor that the plugin takes here, and why."""
    import h5z_quire

    info = h5z_quire.info()
    return f"{info.backend}: {info.why}"


def main() -> int:
    """Run the demo. Returns 0 if all bounds are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the generated fields; the .h5 files go there too")
    parser.add_argument("--results", type=Path, required=True, help="file for the table")
    arguments = parser.parse_args()

    if not h5py.h5z.filter_avail(FILTER_ID):
        print(f"error: HDF5 finds no filter {FILTER_ID} in HDF5_PLUGIN_PATH={os.environ.get('HDF5_PLUGIN_PATH')}", file=sys.stderr)
        return 1
    plugin = Path(loaded_object("libh5zquire"))
    fields = load_fields(arguments.data)
    by_name = {field.name: field for field in fields}
    step(f"writing {len(fields)} fields to {arguments.data / 'original.h5'}")
    write_originals(arguments.data / "original.h5", fields)
    remarks: list[str] = []
    ways: list[str] = []
    with tempfile.TemporaryDirectory(dir=arguments.data) as scratch_name:
        scratch = Path(scratch_name)
        step(f"compressing, reading and checking each at {', '.join(f'{bound:g}' for bound in RELATIVE_BOUNDS)} of its range")
        rows, violations = measure(fields, arguments.data / "compressed.h5", scratch)
        sea, velocity = by_name["sea_surface_temperature"], by_name["turbulence_velocity"]
        for text, work in (
            ("netCDF-4 file", lambda: remarks.append(check_netcdf(sea, arguments.data / "compressed.nc"))),
            ("h5repack in and out, h5dump", lambda: remarks.append(check_tools(velocity, arguments.data / "original.h5", scratch))),
            # Last: the package puts its own copy of the plugin first.
            ("all cores", lambda: ways.extend(both_ways(velocity, scratch))),
        ):
            step(text)
            try:
                work()
            except (Violation, RuntimeError, OSError) as error:
                violations.append(f"{text}: {error}")
    text = report(rows, ways, remarks, plugin)
    print(text, end="")
    for violation in violations:
        print(f"error: {violation}", file=sys.stderr)
    if violations:
        return 1
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text(text)
    print(f"every bound held; the table is in {arguments.results}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
