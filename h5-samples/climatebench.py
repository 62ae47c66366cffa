"""The codec in ClimateBenchPress, a benchmark of others: its own harness compresses, decompresses and judges, beside the compressors that it has.

    CLIMATEBENCHPRESS=CHECKOUT h5-samples/measure climatebench [NAME...]     a checkout of github.com/ClimateBenchPress/compressor; python3 is 3.12 or newer

Each array is a dataset of the harness: at most two slices along the two fastest axes, with NaN for gaps. The harness fetches its own data and bounds, which
are not used. Bounds are shares of the array's range, and shares of each value, which the harness calls relative. To a compressor that has no such bound, the
harness gives the share of the least magnitude that is not 0. packaging/climatebenchpress/quire.py is the adapter. It ends with 0 only if ours kept all bounds.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

import numpy as np
import pandas as pd
import xarray

from arrays import at_most_four_axes, load_arrays
from harness import HERE, Field, Report, parser, step
from measured import REPOSITORY
from peer_calls import versions

sys.path.append(str(REPOSITORY / "packaging" / "climatebenchpress"))
import quire  # noqa: F401  is known to the harness from here on
from climatebenchpress.compressor.scripts.compress import compress
from climatebenchpress.compressor.scripts.compute_metrics import compute_metrics
from climatebenchpress.compressor.scripts.concatenate_metrics import concatenate_metrics

PEERS = ("sz3", "sperr", "zfp", "zfp-round", "ebcc", "bitround-pco")
COMPRESSORS = ("quire", *PEERS, *(f"safeguarded-{name}" for name in ("sz3", "sperr", "zfp-round", "ebcc")))
WASM = tuple(f"numcodecs-wasm-{name}" for name in ("sz3", "sperr", "zfp", "zfp-classic", "ebcc", "pco"))
ARRAYS = (
    "air_temperature", "real_warming_a1b", "real_hybrid_height", "real_orca2_temperature", "real_coads_wind", "real_levitus_salinity", "real_ocean_atlas",
    "real_winter_height", "real_mean_wind",
)  # fmt: skip
#: Names that the harness gives to three bounds.
BOUNDS = {"low": 1e-4, "mid": 1e-3, "high": 1e-2}
SLICES = 2
AXES = {"realization": "E", "time": "T", "vertical": "Z", "latitude": "Y", "longitude": "X"}
DATA = HERE / "data" / "climatebench"


def prepare(array: Field) -> None:
    """Two datasets of the harness with their bounds: absolute ones and relative ones."""
    values = at_most_four_axes(array.values)
    values = np.where(array.valid.reshape(values.shape), values, np.nan).reshape(-1, *values.shape[-2:])
    values = values[:: -(-len(values) // SLICES)][None, :, None]
    coordinates = {name: (name, np.arange(extent), {"axis": axis}) for (name, axis), extent in zip(AXES.items(), values.shape)}
    dataset = xarray.Dataset({"x": (tuple(AXES), values)}, coordinates)
    for kind, unit in (("abs_error", float(np.nanmax(values)) - float(np.nanmin(values))), ("rel_error", 1.0)):
        name = f"{array.name}-{kind}"
        dataset.to_zarr(DATA / "datasets" / name / "standardized.zarr", encoding={"x": {"chunks": values.shape}})
        bounds = [{"x": {"abs_error": None, "rel_error": None, kind: share * unit}} for share in BOUNDS.values()]
        (DATA / "datasets-error-bounds" / name).mkdir(parents=True)
        (DATA / "datasets-error-bounds" / name / "error_bounds.json").write_text(json.dumps(bounds))


def rows(results: pd.DataFrame, kind: str, bound: str, gaps: list[str]) -> Iterator[list[object]]:
    """A row for each compressor, at one bound."""
    here = results[results["Dataset"].str.endswith(kind) & (results["Error Bound Name"] == bound)].set_index("Dataset")
    ours = here[here["Compressor"] == "quire"]
    for name in COMPRESSORS:
        own = here[here["Compressor"].isin([name, f"{name}-conservative-abs", f"{name}-conservative-rel"])]
        ratio = own["Compression Ratio [raw B / enc B]"]
        missed = 1 - own["Satisfies Bound (Passed)"].astype(bool)
        whole = own.drop(own.index.intersection([f"{gap}-{kind}" for gap in gaps]))
        energy = whole["Spectral Error"] / ours["Spectral Error"].loc[whole.index]
        yield [
            f"{kind}={BOUNDS[bound]:g}",
            name,
            len(ours) - len(own),
            missed.sum(),
            f"{own['Satisfies Bound (Value)'].max():.1g}",
            f"{geometric_mean(ratio):.2f}",
            f"{geometric_mean(ours['Compression Ratio [raw B / enc B]'].loc[own.index] / ratio):.2f}",
            f"{geometric_mean(energy[energy > 0]):.2g}",
            f"{1 - whole['DSSIM'].mean():.1e}",
        ]


def main() -> int:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", default=ARRAYS, help="of arrays with two axes or more")
    arguments = options.parse_args()
    shutil.rmtree(DATA, ignore_errors=True)
    arrays = load_arrays(arguments.names)
    for array in arrays:
        prepare(array)
    gaps = [array.name for array in arrays if not array.valid.all()]
    with contextlib.redirect_stdout(sys.stderr):
        step("the harness compresses")
        compress(DATA, include_compressor=COMPRESSORS, data_loader_basepath=DATA, progress=False)
        step("the harness judges")
        compute_metrics(DATA, DATA)
        concatenate_metrics(DATA)
    results = pd.read_csv(DATA / "metrics" / "all_results.csv")
    report = Report(
        "climatebench",
        arguments.results,
        f"made by: {versions(['climatebenchpress.compressor', 'numcodecs-safeguards', *WASM])}",
        f"arrays:  {', '.join(array.name for array in arrays)}",
        f"         of these with gaps: {', '.join(gaps)}",
        "columns: arrays without a result; arrays that miss the bound, and the largest share of an array's values that do; ratio, and ours over it (geometric",
        "         means over arrays with a result); over arrays without gaps, for which the harness's measures are made: error of the spectrum, over ours",
        "         (geometric mean), and 1 - dSSIM (mean)",
        "",
    )
    table = [row for kind in ("abs_error", "rel_error") for bound in BOUNDS for row in rows(results, kind, bound, gaps)]
    report.table([["bound", "compressor", "no result", "missed", "values", "ratio", "ours / it", "spectrum", "1 - dSSIM"], *table], 2)
    return int(any(row[2] or row[3] for row in table if row[1] == "quire") or len(results[results["Compressor"] == "quire"]) < 6 * len(arrays))


if __name__ == "__main__":
    sys.exit(main())
