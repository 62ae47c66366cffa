"""Files for the command line, and what must hold of those that it makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import quire_options
from quire_client import FILTER_ID, assert_bound, assert_same_bits, nasty, smooth
from test_bounds import parts

BOUND = 1e-3
USER_BLOCK = b"the bytes before the file are the user's own".ljust(512, b".")


def make(path: str) -> None:
    """Groups, links of all kinds, attributes of all types, references, dimension scales, types, and datasets of all layouts."""
    with h5py.File(path, "w", userblock_size=512, track_order=True) as file:
        file.attrs["title"] = "what a copy must still have, \u00e4\u00f6\u00fc"
        file.attrs["zero"] = h5py.Empty("f4")
        file.attrs["of the root"] = file.ref

        # Their names would sort them in another order.
        fields = file.create_group("fields", track_order=True)
        for name in ("w", "v", "u"):
            fields.create_dataset(name, data=smooth((40, 50, 60), "<f4", ord(name)))
        fields.create_dataset("big_endian", data=nasty((64, 80), ">f8"), chunks=(30, 33), compression="gzip", shuffle=True, fletcher32=True)
        fields.create_dataset("half", data=smooth((64, 256), "<f2"))
        filled = fields.create_dataset("filled", (100, 100), "<f4", maxshape=(None, 100), chunks=(32, 100), fillvalue=-9999.0)
        filled[:50] = smooth((50, 100), "<f4")
        filled[10, 10], filled[11, 11], filled[12, 12] = np.nan, np.inf, -9999.0
        fields.create_dataset("never_written", (1000, 1000), "<f8", chunks=(100, 100), fillvalue=7.5)
        fields.create_dataset("whole", data=np.arange(20_000, dtype="<i4").reshape(200, 100) // 7, chunks=(100, 100))
        waves = smooth((40, 50, 60), "<f4") + 1j * smooth((40, 50, 60), "<f4", 1)
        fields.create_dataset("complex", data=waves, chunks=(20, 50, 60), fillvalue=np.complex64(complex(np.nan, 0)))
        fields.create_dataset("mask", data=smooth((200, 200), "<f4") > 0)
        fields.create_dataset("unsigned", data=np.arange(20_000, dtype=">u8") * 1_000_000_007)

        other = file.create_group("other")
        other["scalar"] = 3.25
        other["empty"] = h5py.Empty("f8")
        other.create_dataset("no_values", (0, 5), "<f4", maxshape=(None, 5), chunks=(10, 5))
        other["small"] = smooth((10, 10), "<f4")
        other["text"] = np.array(["one", "two", "f\u00fcnf"], dtype=h5py.string_dtype())
        other.create_dataset("filled_text", (4,), h5py.string_dtype(), chunks=(2,), fillvalue="nothing yet")[0] = "something"
        other["fixed_text"] = np.array([b"one", b"three"])
        other["truth"] = np.array([True, False, True])
        compound = np.zeros(3000, [("place", "<f4", (3,)), ("name", h5py.string_dtype()), ("count", ">i8")])
        compound["place"] = smooth((3000, 3), "<f4")
        compound["name"] = [f"particle {number}" for number in range(3000)]
        other["compound"] = compound
        other.create_dataset("ragged", (3,), h5py.vlen_dtype("<f4"))
        for number in range(3):
            other["ragged"][number] = np.arange(number * 10, dtype="f4")
        other.create_dataset("compressed_before", data=smooth((100, 100), "<f4"), chunks=(50, 50), compression="gzip")
        other["compact"] = _compact(other, smooth((41, 100), "<f4"))

        # A type of its own, used before its name's turn comes, by a dataset that is compressed, one that is not, and an attribute.
        file["types/number"] = np.dtype("<f4")
        file["types/record"] = np.dtype([("a", "<f4"), ("b", "<i2")])
        file["types/number"].attrs["unit"] = "K"
        file.create_dataset("committed", (50, 200), file["types/number"], data=smooth((50, 200), "<f4"))
        file.create_dataset("a_record", (5,), file["types/record"])
        file.attrs.create("of a type", np.float32(1.5), dtype=file["types/number"])

        file["same"] = fields["u"]
        file["fields/again"] = fields
        file["soft"] = h5py.SoftLink("/fields/v")
        file["nowhere"] = h5py.SoftLink("/not/there")
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/data")

        # Dimension scales: attributes of references in both directions, within arrays, compounds and sequences.
        scales = file.create_group("scales")
        scales["x"] = np.arange(6000, dtype="<f8") * 0.1
        scales["x"].make_scale("x")
        scales["field"] = smooth((6000,), "<f4")
        scales["field"].dims[0].attach_scale(scales["x"])
        scales["field"].dims[0].label = "along"

        references = file.create_group("references")
        references.create_dataset("objects", (4,), h5py.ref_dtype)
        references["objects"][:3] = [fields["u"].ref, fields.ref, other["text"].ref]
        references.create_dataset("regions", (2,), h5py.regionref_dtype)
        references["regions"][0] = fields["u"].regionref[1:3, ::2, 5]
        references["regions"][1] = other["small"].regionref[...]
        mixed = np.zeros(2, [("what", h5py.ref_dtype), ("how", "<f4")])
        references.create_dataset("mixed", (2,), mixed.dtype)
        references["mixed"][0] = (scales["field"].ref, 1.5)
        fields["w"].attrs["see"] = fields["v"].ref
        fields["w"].attrs["part"] = fields["v"].regionref[0:2, 0:2, 0:2]
        fields["w"].attrs["many"] = np.arange(100.0)
        fields["w"].attrs["big endian"] = np.arange(5, dtype=">i2")
        gone = file.create_dataset("gone", data=1.0)
        file.attrs["to nothing"] = gone.ref
        del file["gone"]
    with open(path, "r+b") as file:
        file.write(USER_BLOCK)


def regions(path: str) -> None:
    """Regions in a file whose strategy has HDF5 encode extents in their second version."""
    with h5py.File(path, "w", fs_strategy="page") as file:
        file["t"] = smooth((100, 200), "<f4")
        file.create_dataset("regions", (3,), h5py.regionref_dtype)
        file["regions"][:] = [file["t"].regionref[...], file["t"].regionref[5:9, ::3], file["t"].regionref[7, [1, 50, 52]]]


def regions_check(path: str, new: str) -> None:
    with h5py.File(path, "r") as old, h5py.File(new, "r") as copy:
        for before, after in zip(old["regions"], copy["regions"], strict=True):
            assert copy[after] == copy["t"]
            here, there = (h5py.h5r.get_region(region, file.id) for region, file in ((before, old), (after, copy)))
            assert here.shape == there.shape and here.get_select_npoints() == there.get_select_npoints()
            assert here.get_select_bounds() == there.get_select_bounds()


def _compact(group: h5py.Group, data: np.ndarray) -> h5py.Dataset:
    """A dataset within its object's header."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    identifier = h5py.h5d.create(group.id, None, h5py.h5t.py_create(data.dtype), h5py.h5s.create_simple(data.shape), properties)
    dataset = h5py.Dataset(identifier)
    dataset[...] = data
    return dataset


# What `make` writes that is to be compressed; whole numbers keep their bits.
COMPRESSED = {
    *(f"/fields/{name}" for name in ("w", "v", "u", "big_endian", "half", "filled", "never_written", "whole", "complex", "mask", "unsigned")),
    "/other/compressed_before",
    "/other/compact",
    "/committed",
    "/scales/field",
}


def check(path: str, new: str, share: str) -> None:
    """Values of compressed datasets are within the bound, and everything else is equal."""
    bound = float(share)
    with open(new, "rb") as file:
        assert file.read(512) == USER_BLOCK, "the user block is another"
    with h5py.File(path, "r") as old, h5py.File(new, "r") as copy:
        assert_tree(old, copy)
        found = set()

        def look(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and str(FILTER_ID) in item._filters:
                found.add("/" + name)
                before, after = old[name][()], item[()]
                settings = ("chunks", "maxshape", "fillvalue", "dtype", "shape")
                for setting in settings[0 if old[name].chunks else 1 :]:
                    assert str(getattr(item, setting)) == str(getattr(old[name], setting)), f"{name}: {setting}"
                if before.dtype.kind not in "fc":
                    return assert_same_bits(before, after, name)
                assert list(item._filters) == [str(FILTER_ID)], f"{name}: filters {item._filters}"
                for chunk in item.iter_chunks():
                    here = parts(before[chunk])
                    counted = here[np.isfinite(here) & (here != item.fillvalue if "filled" in name else True)].astype("f8")
                    span = float(counted.max()) - float(counted.min()) if counted.size else 0.0
                    assert_bound(here, parts(after[chunk]), bound * span, f"{name} {chunk}")
                if name == "fields/filled":
                    assert (after[50:] == -9999).all() and after[12, 12] == -9999

        copy.visititems(look)
        assert found == COMPRESSED, f"compressed: {sorted(found ^ COMPRESSED)} too many or too few"
        assert copy["committed"].id.get_type().committed() and copy["committed"].id.get_type() == copy["types/number"].id
        assert copy["a_record"].id.get_type().committed() and copy["a_record"].id.get_type() == copy["types/record"].id
        assert h5py.h5a.open(copy.id, b"of a type").get_type().committed()
        assert copy["types/number"].attrs["unit"] == "K"
        assert copy["same"] == copy["fields/u"] and copy["fields/again"] == copy["fields"]
        field = copy["scales/field"]
        assert field.dims[0].label == "along" and field.dims[0][0] == copy["scales/x"] and copy["scales/x"].attrs["CLASS"] == b"DIMENSION_SCALE"
        assert copy[copy["scales/x"].attrs["REFERENCE_LIST"][0][0]] == field
        objects = copy["references/objects"]
        led_to = [copy[reference] for reference in objects[:3]]
        assert led_to == [copy["fields/u"], copy["fields"], copy["other/text"]] and not objects[3], led_to
        region = copy["references/regions"][0]
        assert copy[region] == copy["fields/u"]
        selected = [h5py.h5r.get_region(file["references/regions"][0], file.id).get_regular_hyperslab() for file in (old, copy)]
        assert selected[0] == selected[1], selected
        assert copy[copy["references/mixed"][0]["what"]] == field and copy["references/mixed"][0]["how"] == 1.5
        assert copy[copy["fields/w"].attrs["see"]] == copy["fields/v"] and copy[copy["fields/w"].attrs["part"]] == copy["fields/v"]
        assert copy[copy.attrs["of the root"]] == copy["/"] and not copy.attrs["to nothing"]


def assert_tree(old: h5py.Group, copy: h5py.Group) -> None:
    """Links and their order, attributes, and values that are not compressed must be equal."""
    assert list(old) == list(copy), f"{old.name}: {list(old)} became {list(copy)}"
    assert_attributes(old, copy)
    for name in old:
        link, other = (group.get(name, getlink=True) for group in (old, copy))
        assert type(link) is type(other), f"{old.name}/{name}: {link} became {other}"
        if not isinstance(link, h5py.HardLink):
            assert vars(link) == vars(other), f"{old.name}/{name}: leads elsewhere"
            continue
        one, two = old[name], copy[name]
        assert type(one) is type(two), f"{one.name}: {one} became {two}"
        if isinstance(one, h5py.Group) and name != "again":
            assert_tree(one, two)
        elif isinstance(one, h5py.Dataset):
            assert_attributes(one, two)
            assert one.dtype == two.dtype and one.shape == two.shape, one.name
            # Debian's h5py 3.7 crashes where a fill value is a text.
            if one.dtype.kind != "O" or h5py.version.version_tuple[:2] >= (3, 14):
                assert repr(one.fillvalue) == repr(two.fillvalue), f"{one.name}: fill value {one.fillvalue} became {two.fillvalue}"
            if str(FILTER_ID) not in two._filters and one.shape is not None and not _refers(one.dtype):
                # HDF5 does not read texts that were never written in a file that is open for reading.
                part = np.s_[:2] if name == "filled_text" else ()
                assert _bytes(one[part]) == _bytes(two[part]), f"{one.name}: values"
                assert one._filters == two._filters and one.chunks == two.chunks, f"{one.name}: filters"


def _refers(dtype: np.dtype) -> bool:
    return h5py.check_ref_dtype(dtype) is not None or any(_refers(member[0]) for member in (dtype.fields or {}).values())


def _bytes(values: Any) -> Any:
    return repr(values.tolist() if isinstance(values, np.ndarray) else values)


def assert_attributes(one: Any, two: Any) -> None:
    assert list(one.attrs) == list(two.attrs), f"{one.name}: attributes {list(one.attrs)} became {list(two.attrs)}"
    for name in one.attrs:
        types = [h5py.h5a.open(item.id, name.encode()).get_type() for item in (one, two)]
        assert types[0] == types[1], f"{one.name}: type of attribute {name}"
        before, after = one.attrs[name], two.attrs[name]
        if "eference" not in repr(before) and "DIMENSION_LIST" != name and "REFERENCE_LIST" != name:
            assert repr(before) == repr(after), f"{one.name}: attribute {name}: {before!r} became {after!r}"


def large(path: str) -> None:
    """Takes a while to repack."""
    with h5py.File(path, "w") as file:
        random = np.random.default_rng(0)
        for number in range(4):
            file[f"field{number}"] = random.normal(size=(256, 256, 128)).astype("<f4").cumsum(axis=0)


def netcdf(path: str) -> None:
    """Has dimensions, by netCDF's own library."""
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        for name, extent in (("time", None), ("lat", 90), ("lon", 180)):
            file.createDimension(name, extent)
        for name, extent in (("time", 8), ("lat", 90), ("lon", 180)):
            file.createVariable(name, "f8", (name,))[:] = np.arange(extent)
        for name in ("temperature", "pressure"):
            variable = file.createVariable(name, "f4", ("time", "lat", "lon"), zlib=True, fill_value=1e20)
            variable.units = "any"
            variable[:] = np.ma.masked_greater(smooth((8, 90, 180), "f4", len(name)), 2.0)
        file.history = "made for a test"


def netcdf_check(path: str, new: str, share: str) -> None:
    import netCDF4

    with netCDF4.Dataset(path) as old, netCDF4.Dataset(new) as copy:
        assert list(old.variables) == list(copy.variables) and list(old.dimensions) == list(copy.dimensions)
        assert copy.dimensions["time"].isunlimited() and copy.history == old.history
        for name, variable in old.variables.items():
            other = copy[name]
            assert variable.dimensions == other.dimensions and variable.ncattrs() == other.ncattrs(), name
            assert (np.ma.getmaskarray(variable[:]) == np.ma.getmaskarray(other[:])).all(), name
            error = float(np.abs(np.ma.filled(variable[:] - other[:], 0)).max())
            assert error <= (float(share) * float(np.ptp(variable[:])) if name in ("temperature", "pressure") else 0), (name, error)
            assert (name in ("temperature", "pressure")) == ("quire" not in str(other.filters()) and "33791" in _filters(new, name)), name


def _filters(path: str, name: str) -> str:
    with h5py.File(path, "r") as file:
        return str(file[name]._filters)


def sparse(path: str) -> None:
    """Two chunks in a million are written."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("t", (100_000, 100_000), "<f4", chunks=(100, 100), fillvalue=7.5)
        dataset[500:600, 500:600] = smooth((100, 100), "<f4", 1)
        dataset[99_950:, 0:50] = smooth((50, 50), "<f4", 2)


def sparse_check(path: str, new: str) -> None:
    with h5py.File(path, "r") as old, h5py.File(new, "r") as copy:
        for box in (np.s_[450:650, 450:650], np.s_[99_900:, 0:100]):
            assert_bound(old["t"][box], copy["t"][box], 1e-3, "sparse")
            assert ((old["t"][box] == 7.5) == (copy["t"][box] == 7.5)).all()
        assert copy["t"].id.get_num_chunks() == 2


def damage(path: str) -> None:
    """Compresses a dataset, and spoils one of its chunks."""
    with h5py.File(path, "w") as file:
        options = quire_options.cd_values("abs=1e-3")
        dataset = file.create_dataset("t", data=smooth((4, 10_000), "<f4"), chunks=(1, 10_000), compression=FILTER_ID, compression_opts=options)
        file.flush()
        place = dataset.id.get_chunk_info(2)
    with open(path, "r+b") as file:
        file.seek(place.byte_offset + place.size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x10]))


def partial(path: str) -> None:
    """Datasets that can have no row for each chunk: unwritten ones, one that was stored without the filter, other filters."""
    options = {"compression": FILTER_ID, "compression_opts": quire_options.cd_values("abs=1e-3,coding=bitshuffle")}
    with h5py.File(path, "w") as file:
        sparse = file.create_dataset("sparse", (10, 10_000), "<f4", chunks=(1, 10_000), **options)
        sparse[7] = smooth((10_000,), "<f4")
        sparse[3] = 5.0
        checked = file.create_dataset("checked", data=smooth((100, 100), "<f4"), chunks=(50, 100), fletcher32=True, **options)
        assert list(checked._filters) == [str(FILTER_ID), "fletcher32"], checked._filters
        # A program may write a stream without the checksum, and says so in the chunk's filter mask.
        unchecked = file.create_dataset("unchecked", data=checked, chunks=(50, 100), fletcher32=True, **options)
        file.flush()
        stream = unchecked.id.read_direct_chunk((50, 0))[1][:-4]
        unchecked.id.write_direct_chunk((50, 0), stream, 2)
        raw = file.create_dataset("raw", (10_000,), "<f4", chunks=(10_000,), **options)
        raw.id.write_direct_chunk((0,), np.zeros(10_000, "<f4").tobytes(), 1)
        file.create_dataset("other", data=smooth((100, 100), "<f4"), chunks=(50, 100), compression="gzip")
        file["contiguous"] = smooth((100,), "<f4")


def errors(path: str, copy: str) -> None:
    """Chunks of 3000 values of each type, with a largest error each. One chunk, most often the last one, comes back exactly."""
    with h5py.File(path, "w") as file, h5py.File(copy, "w") as copied:
        for dtype in ("<f2", "<f4", ">f4", "<f8", ">f8", "<c8", "<i4", ">u8"):
            group, bound = ("integers", 30) if dtype[1] in "iu" else ("floats", 0.5)
            options = {"compression": FILTER_ID, "compression_opts": quire_options.cd_values(f"abs={bound}")}
            for exact in (5, 5, 0):
                random = np.random.default_rng(len(file.get(group, ())))
                values = random.uniform(100, 1000, (6, 3000)).astype(dtype)
                if dtype[1] == "c":
                    values += 1j * values[::-1]
                # Chunks have different ranges, and different largest errors.
                values[exact] = 7
                name = f"{group}/{dtype[1:]} {len(file.get(group, ()))}"
                file.create_dataset(name, data=values, chunks=(1, 3000))
                copied.create_dataset(name, data=values, chunks=(1, 3000), **options)


def errors_check(report_file: str, path: str, copy: str, datasets: str) -> None:
    """The errors that a report in JSON has are those that numpy finds."""
    report = json.loads(Path(report_file).read_text())
    found = report.get("trials") or report.get("datasets") or report["files"][0]["datasets"]
    with h5py.File(path) as file, h5py.File(copy) as copied:
        for each in found:
            name = each.get("path") or each["dataset"].rpartition(":")[2]
            before, after = (wide(one[name][()]) for one in (file, copied))
            off = np.abs(before - after)
            largest, last = float(off.max()), float(off[5].max())
            assert each["greatest_error"] == largest > 0, f"{name}: numpy finds {largest!r}, the last chunk alone has {last!r}: {each}"
            psnr = 20 * np.log10(np.ptp(before)) - 10 * np.log10((off**2).mean())
            assert abs(each["psnr"] - psnr) < 1e-6, f"{name}: numpy finds a PSNR of {psnr!r}: {each}"
            if "beyond_bound" in each:
                share = largest / (30 if "integers" in name else 0.5)
                assert abs(each["share_of_bound"] - share) < 1e-12, f"{name}: {share!r} of the bound: {each}"
                assert len(each["chunks"]) == 6, each
                for chunk in each["chunks"]:
                    of_chunk = float(off[chunk["corner"][0]].max())
                    assert chunk["greatest_error"] == of_chunk, f"{name}: numpy finds {of_chunk!r}: {chunk}"
    assert len(found) == int(datasets)


def wide(values: np.ndarray) -> np.ndarray:
    """The values, or the parts of complex ones, as f64. All integers of the test are small."""
    return (parts(values) if values.dtype.kind == "c" else values).astype("f8")

