"""Who keeps the bound: arrays written through h5py by error-bounded filters of HDF5, read and compared by `quire verify`.

Run by audit.sh, which makes the environment, the plugin (found through HDF5_PLUGIN_PATH), the command line and the data. The work, in order:

1. `write_originals`  writes the arrays of arrays.py to a file, without a filter, with their fill values
2. `write_copy`       writes an array with a filter and a bound to a file of its own, in a process of its own, as filters may crash or hang
3. `audit`            has `quire verify` compare the copy with the original: values beyond the bound, and NaN, infinities and fill values that changed
4. `report`           makes the tables
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import h5py
import hdf5plugin

from arrays import at_most_four_axes, load_arrays
from compare import DATA_PACKAGES, debian_version
from demo import FILTER, RELATIVE_BOUNDS, Field, cd_values, chunk_shape, machine, progress, step
from measured import measured
from peer_calls import FILTERS, described_filters, filter_chunk, versions

PROCESSES = 2
# In Python, hdf5plugin registers its filters; `quire` has to find them.
WRITER_PATH = os.environ.get("HDF5_PLUGIN_PATH", "")
READER_PATH = os.pathsep.join((WRITER_PATH, hdf5plugin.PLUGIN_PATH))
PATIENCE = 60  # longest time for writing or for reading a copy, in seconds of CPU time, which other load does not lengthen

OURS = "Quire"
OTHERS = ("SZ3", "ZFP", "SPERR")
NAMES = (OURS, *OTHERS)


@dataclass
class Outcome:
    """What the audit says of an array, a bound and a filter, or the reason why it says nothing."""

    ratio: float = 0.0  # bytes of the values / bytes they are stored in
    share: float = 0.0  # largest error of an ordinary value, in bounds
    beyond: int = 0  # ordinary values that are off by more than the bound
    changed: int = 0  # NaN, infinities and fill values whose bits changed
    failure: str = ""

    @property
    def broken(self) -> bool:
        return self.beyond + self.changed > 0


Results = dict[tuple[str, float, str], Outcome]  # by array, bound and filter


# 1. Originals


def write_originals(file: Path, arrays: list[Field]) -> None:
    """Writes all arrays. HDF5 knows their fill values, so that filters can."""
    with h5py.File(file, "w") as target:
        for array in arrays:
            target.create_dataset(array.name, data=at_most_four_axes(array.values), fillvalue=array.fill)


# 2. Copies


def write_copy(original: Path, name: str, filter_name: str, bound: float, copy: Path) -> None:
    """Writes a compressed copy of a dataset."""
    with h5py.File(original) as source, h5py.File(copy, "w") as target:
        values = source[name][...]
        options = {"compression": FILTER, "compression_opts": cd_values(bound)} if filter_name == OURS else FILTERS[filter_name](values, bound)
        chunk = filter_chunk(filter_name, values.shape, chunk_shape(values))
        target.create_dataset(name, data=values, chunks=chunk, fillvalue=source[name].fillvalue, **options)


def run(command: list[str | Path], verb: str, plugin_path: str) -> tuple[int, str]:
    """Exit code and output of a command. Raises RuntimeError with the reason if it crashes or hangs."""
    environment = {**os.environ, "HDF5_PLUGIN_PATH": plugin_path}
    limited = ["prlimit", f"--cpu={PATIENCE}:{PATIENCE + 10}", "--", *command]
    done = subprocess.run(limited, capture_output=True, text=True, env=environment)
    if done.returncode == -signal.SIGXCPU:
        raise RuntimeError(f"{verb}: hangs, no answer in {PATIENCE} s of CPU time")
    if done.returncode < 0:
        raise RuntimeError(f"{verb}: crash, {signal.Signals(-done.returncode).name}")
    return done.returncode, done.stdout if done.returncode == 0 or done.stdout else done.stderr


# 3. Audit


def audit(quire: Path, original: Path, array: Field, relative: float, filter_name: str) -> Outcome:
    """Writes a copy and has it compared."""
    bound = relative * array.range
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.h5"
        try:
            code, said = run([sys.executable, __file__, "--copy", original, array.name, filter_name, repr(bound), copy], "writing", WRITER_PATH)
            if code:
                # The last line is the exception.
                raise RuntimeError(f"writing: {said.strip().splitlines()[-1]}")
            ratio, unfiltered = stored(copy, array.name)
            if unfiltered:
                raise RuntimeError(f"writing: {unfiltered} without compression")
            code, said = run([quire, "verify", f"{original}:/{array.name}", copy, "--abs", repr(bound), "--jobs", "1", "--json"], "reading", READER_PATH)
            report = json.loads(said) if said.startswith("{") else {"error": said.strip()}
            if "datasets" not in report:
                raise RuntimeError(f"reading: {report['error'].splitlines()[-1]}")
        except RuntimeError as reason:
            return Outcome(failure=str(reason))
    (found,) = report["datasets"]
    if "beyond_bound" not in found:
        return Outcome(failure=f"reading: {found['problem']}")
    return Outcome(ratio, found["share_of_bound"] if found["share_of_bound"] is not None else float("inf"), found["beyond_bound"], found["changed"])


def stored(copy: Path, name: str) -> tuple[float, str]:
    """Ratio of a dataset, and which of its chunks HDF5 has stored without the filter, as it may where a filter fails."""
    with h5py.File(copy) as file:
        dataset = file[name]
        masks = [dataset.id.get_chunk_info(number).filter_mask for number in range(dataset.id.get_num_chunks())]
        without = sum(mask != 0 for mask in masks)
        return dataset.size * dataset.dtype.itemsize / dataset.id.get_storage_size(), f"{without} of {len(masks)} chunks" if without else ""


def audit_all(quire: Path, original: Path, arrays: list[Field]) -> Results:
    """All arrays, bounds and filters, a few processes at a time."""
    work = [*itertools.product(arrays, RELATIVE_BOUNDS, NAMES)]
    results: Results = {}
    with ThreadPoolExecutor(PROCESSES) as pool:
        outcomes = pool.map(lambda item: audit(quire, original, *item), work)
        for number, ((array, relative, filter_name), outcome) in enumerate(zip(work, outcomes), 1):
            progress(f"{number}/{len(work)}: {array.name} at {relative:g}, {filter_name}")
            results[array.name, relative, filter_name] = outcome
    progress("")
    return results


# 4. Report


def report(arrays: list[Field], results: Results) -> str:
    """The text of the results: a preamble and the tables."""
    lines = [
        measured(),
        "command: h5-samples/audit.sh",
        f"machine: {machine()}",
        f"made by: Python {platform.python_version()}, HDF5 {h5py.version.hdf5_version}, {versions(('numpy', 'h5py', 'hdf5plugin'))}",
        f"data:    the generator's fields (seed 1, medium), {versions(DATA_PACKAGES)},",
        f"         ferret-datasets {debian_version('ferret-datasets')} (Debian); whole arrays in chunks of about 1 MiB",
        "bound:   share of each array's range over finite values that are not fill, given to every filter as an absolute bound. The fill value is the dataset's",
        "audit:   quire verify ORIGINAL:/ARRAY COPY --abs BOUND, in f64",
        "SPERR:   its chunks divide the array and have two or three axes of 9 values or more, as its filter asks",
        *described_filters(OTHERS),
        "",
        f"arrays ({len(arrays)} at each bound) that keep the bound and all special values (NaN, infinities, fill values); that have values beyond the bound; whose",
        "special values changed; without a result. Values beyond the bound of all arrays, the largest error in bounds, geometric mean of the ratio where kept",
        f"{'filter':<8} {'bound':<7} {'kept':>5} {'beyond':>7} {'changed':>8} {'no result':>10} {'values beyond':>14} {'largest error':>14} {'ratio':>7}",
        *(summary_row(arrays, results, filter_name, relative) for filter_name in NAMES for relative in RELATIVE_BOUNDS),
        "",
        "largest error of an ordinary value, in bounds (values beyond the bound + special values changed)!",
        f"{'array':<26} {'bound':<7}" + "".join(f"{name:>26}" for name in NAMES),
        *detail_rows(arrays, results),
        "",
        *failures(results),
    ]
    return "\n".join([*lines, ""])


def summary_row(arrays: list[Field], results: Results, filter_name: str, relative: float) -> str:
    outcomes = [results[array.name, relative, filter_name] for array in arrays]
    done = [outcome for outcome in outcomes if not outcome.failure]
    kept = [outcome for outcome in done if not outcome.broken]
    beyond, changed = sum(outcome.beyond > 0 for outcome in done), sum(outcome.changed > 0 for outcome in done)
    worst = share_text(max(outcome.share for outcome in done)) if done else "-"
    ratio = f"{geometric_mean(outcome.ratio for outcome in kept):.2f}" if kept else "-"
    return (
        f"{filter_name:<8} {relative:<7g} {len(kept):>5} {beyond:>7} {changed:>8} {len(outcomes) - len(done):>10} "
        f"{sum(outcome.beyond for outcome in done):>14} {worst:>14} {ratio:>7}"
    )


def detail_rows(arrays: list[Field], results: Results) -> Iterator[str]:
    for array, relative in itertools.product(arrays, RELATIVE_BOUNDS):
        cells = (cell(results[array.name, relative, filter_name]) for filter_name in NAMES)
        yield f"{array.name:<26} {relative:<7g}" + "".join(f"{text:>26}" for text in cells)


def cell(outcome: Outcome) -> str:
    if outcome.failure:
        return "-"
    return share_text(outcome.share) + (f" ({outcome.beyond}+{outcome.changed})!" if outcome.broken else "")


def share_text(share: float) -> str:
    """An error in bounds. That of rounding to f32 is seen only in the last digits."""
    return f"{share:.4f}" if share <= 1 else f"{share:.7f}" if share < 2 else f"{share:.2g}"


def failures(results: Results) -> Iterator[str]:
    """The reasons for missing results, each once with all arrays that it holds for."""
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (name, relative, filter_name), outcome in results.items():
        if outcome.failure:
            reasons.setdefault((filter_name, outcome.failure), {}).setdefault(name, []).append(f"{relative:g}")
    yield "no result" if reasons else "every filter has a result for every array"
    for (filter_name, reason), names in reasons.items():
        where = [name if len(bounds) == len(RELATIVE_BOUNDS) else f"{name} at {' and '.join(bounds)}" for name, bounds in names.items()]
        yield from textwrap.wrap(f"{filter_name}: {reason}: {', '.join(where)}", 140, subsequent_indent="    ")


def main() -> int:
    """Runs the audit. Returns 0 if our filter kept all bounds."""
    if sys.argv[1:2] == ["--copy"]:
        original, name, filter_name, bound, copy = sys.argv[2:]
        write_copy(Path(original), name, filter_name, float(bound), Path(copy))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire", type=Path, help="the command line")
    parser.add_argument("data", type=Path, help="folder of .npy files, from the program generate")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "audit.txt", help="file for the tables")
    arguments = parser.parse_args()

    arrays = load_arrays(arguments.data)
    step(f"{len(arrays)} arrays, {len(FILTERS)} filters, {len(RELATIVE_BOUNDS)} bounds")
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "original.h5"
        write_originals(original, arrays)
        results = audit_all(arguments.quire, original, arrays)
    text = report(arrays, results)
    print(text, end="")
    arguments.results.write_text(text)
    ours = [outcome for (_, _, filter_name), outcome in results.items() if filter_name == OURS]
    return int(any(outcome.failure or outcome.broken for outcome in ours))


if __name__ == "__main__":
    sys.exit(main())
