#!/usr/bin/env python3
"""Writes the streams of the folder streams/ that are missing, and its table.

    write_streams.py FOLDER             writes them
    write_streams.py FOLDER --check     writes nothing, and ends with 1 if there is anything to write

uncommon_streams.py and faulty_streams.py make the streams of two subfolders. Those of valid/ are there before: codec/tests/golden.rs writes them. A
file that is there is never changed; if its bytes are not those that are made here, nothing is written, and the end is 1. Messages of the table are
kept, and missing ones are filled in by `cargo test -p quire-codec --test streams -- --ignored`. Needs numpy, but neither h5py nor the plugin.
"""

import argparse
import sys
from pathlib import Path
from typing import List, Tuple

from faulty_streams import faulty_streams
from streams import FAULTY, TABLE, UNCOMMON, VALID, Row, crc, listed_chunk, read_table, write_table
from uncommon_streams import uncommon_streams

# What our encoder has written, by the names that codec/tests/golden.rs gives.
WRITTEN = {
    "smooth_f32_3d": "smooth values, an absolute bound",
    "smooth_f64_4d": "smooth values, an absolute bound",
    "mask_f32_2d_big_endian": "land at 1e35 beside sea, which is many exceptions",
    "gaps_f64_1d": "gaps of NaN",
    "specials_f32_1d": "NaN, infinities, -0 and subnormal values",
    "sparse_f32_3d_long_blocks": "mostly zeros, long blocks",
    "outliers_f32_2d": "some values far from the others",
    "lattice_f32_2d_custom_book": "values on a lattice, a custom book",
    "interpolated_f32_3d": "cubic interpolation",
    "interpolated_gaps_f64_2d_big_endian": "cubic interpolation, gaps of NaN",
    "interpolated_outliers_f32_4d": "cubic interpolation, some values far from the others",
    "interpolated_rough_f64_4d": "cubic interpolation, the two middle axes are rough",
    "interpolated_linear_f32_2d": "linear interpolation, the fastest axis is rough",
    "interpolated_finer_f32_3d": "cubic interpolation, finer steps on coarse levels",
    "interpolated_halved_f64_2d_big_endian": "linear interpolation, halved steps on coarse levels, the slower axis is rough",
    "two_axes_f32_3d": "differences along two axes of three",
    "bit_planes_f32_3d": "bit planes",
    "bit_planes_gaps_f64_2d_big_endian": "bit planes, gaps of NaN",
    "constant_f64": "one value everywhere",
    "stored_f64": "random bits, which are stored",
    "exact_f32_3d": "exact bits",
    "exact_specials_f64_1d": "exact bits, NaN, infinities, -0 and subnormal values",
    "exact_lattice_f32_2d": "exact bits on a lattice",
    "exact_decimal_f64_2d": "exact bits of decimals",
    "exact_decimal_c64_2d_big_endian": "pairs, exact bits of decimals",
    "exact_i16_3d_big_endian": "exact integers",
    "exact_bit_planes_u64_2d": "exact integers, bit planes",
    "steps_u8_2d": "steps of integers",
    "steps_i32_4d_big_endian": "steps of integers",
    "steps_i64_1d": "steps of integers",
    "logarithmic_f32_3d": "a point-wise relative bound",
    "logarithmic_gaps_f64_2d_big_endian": "a point-wise relative bound, gaps of NaN",
    "quantized_f16_2d": "an absolute bound",
    "ladder_relative_bf16_2d": "a share of the range",
    "ladder_relative_f32_3d": "a share of the range",
    "ladder_relative_i32_2d": "a share of the range of integers",
    "ladder_psnr_f64_3d": "a PSNR",
    "ladder_ratio_f32_3d": "a ratio with a ceiling",
    "quantized_c64_2d": "pairs, an absolute bound",
    "interpolated_gaps_c128_3d_big_endian": "pairs, cubic interpolation, gaps of NaN",
    "exact_specials_c64_1d_big_endian": "pairs, exact bits, NaN, infinities, -0 and subnormal values",
    "logarithmic_c128_2d": "pairs, a point-wise relative bound",
    "constant_c64": "pairs, one value everywhere",
    "stored_c128": "pairs of random bits, which are stored",
}


def made(folder: Path) -> List[Tuple[Row, bytes]]:
    """All rows, without messages, and their streams."""
    rows = []
    for path in sorted((folder / VALID).glob("*.quire")):
        version, name = path.stem[:6], path.stem[7:]
        about = f"written by {version[1:].replace('_', '.')}: {WRITTEN[name]}"
        rows.append((Row(f"{VALID}/{path.name}", about), path.read_bytes()))
    rows += [(Row(f"{UNCOMMON}/{name}.quire", about), stream) for name, about, stream in uncommon_streams()]
    rows = [(row._replace(**listed_chunk(stream)), stream) for row, stream in rows]
    rows += [(Row(f"{FAULTY}/{name}.quire", about, section=section), stream) for section, name, about, stream in faulty_streams()]
    return [(row._replace(file_crc=crc(stream)), stream) for row, stream in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    made_rows = made(folder)
    assert len({row.file for row, _ in made_rows}) == len(made_rows), "a name is there twice"
    there = {row.file: (folder / row.file).read_bytes() for row, _ in made_rows if (folder / row.file).exists()}
    changed = [row.file for row, stream in made_rows if there.get(row.file, stream) != stream]
    if changed:
        print("these files have other bytes than those that are made now:", *changed, sep="\n")
        return 1
    missing = [(row.file, stream) for row, stream in made_rows if row.file not in there]
    old = read_table(folder) if (folder / TABLE).exists() else []
    messages = {(row.file, row.file_crc): row.message for row in old}
    rows = [row._replace(message=messages.get((row.file, row.file_crc), "")) for row, _ in made_rows]
    if arguments.check:
        print(f"{len(rows)} streams, {len(missing)} of them missing; the table is {'as it should be' if rows == old else 'another one'}")
        return 1 if missing or rows != old else 0
    for file, stream in missing:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(stream)
    write_table(folder, rows)
    print(f"{len(rows)} streams, {len(missing)} of them written; {sum(len(stream) for _, stream in made_rows)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
