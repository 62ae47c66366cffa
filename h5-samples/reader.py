"""Speed of the reader in C (streams/reader) beside the plugin's decoder, on the chunks of each array, in turns in one process.

    h5-samples/measure reader [NAME...] [--rounds 15]

The plugin compresses chunks. Both filters then decompress the streams, called as HDF5 calls them. Before anything is timed, both must give the same bytes. MB/s
are of uncompressed data and of the thread's CPU time; each figure is the best of the rounds. So other work on the machine changes little.
"""

from __future__ import annotations

import functools
import itertools
import subprocess
import time
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from arrays import cut, load_arrays
from filter_call import REVERSE, Plugin, chunk_words
from harness import HERE, RELATIVE_BOUNDS, Report, in_turns, parser, plugin_file, progress, shape_text

NAMES = {"plugin": "Rust", "reader": "C"}
READER = HERE.parent / "streams" / "reader"


def built_reader(folder: Path) -> Path:
    """The reader as a filter, compiled as its README says."""
    subprocess.run(["make", "-s", "-C", READER, f"OUT={folder}", "filter"], check=True)
    return folder / "libh5quire.so"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="of arrays; all by default")
    options.add_argument("--rounds", type=int, default=15)
    arguments = options.parse_args()
    files = {"plugin": plugin_file(), "reader": built_reader((HERE / "data" / "reader").resolve())}
    filters = {name: Plugin(file, time.thread_time) for name, file in files.items()}
    report = Report("reader", arguments.results, "one thread, its CPU time", "bound:   share of each chunk's range, 0 for the exact bits", "")
    rows, quotients = [], {}
    for array, relative in itertools.product(progress(load_arrays(arguments.names)), (*RELATIVE_BOUNDS, 0)):
        chunks = cut(array)
        if not chunks:
            continue
        streams = []
        for chunk in chunks:
            words = chunk_words(f"abs={relative * chunk.range!r}", chunk.values.shape, chunk.values.dtype, chunk.fill)
            streams.append((words, filters["plugin"].run(0, words, chunk.values)[1]))
            decoded = [one.run(REVERSE, *streams[-1])[1] for one in filters.values()]
            assert np.array_equal(*decoded), f"{array.name}: the reader gives other bytes than the plugin"

        def decompress(one: Plugin) -> float:
            return sum(one.call(REVERSE, words, stream)[0] for words, stream in streams)

        taken = in_turns({name: functools.partial(decompress, one) for name, one in filters.items()}, arguments.rounds)
        size = sum(chunk.values.nbytes for chunk in chunks)
        quotient = min(taken["plugin"]) / min(taken["reader"])
        largest = max((chunk.values for chunk in chunks), key=lambda values: values.nbytes)
        speeds = [f"{size / min(taken[name]) / 1e6:.0f}" for name in filters]
        rows.append([array.name, f"{relative:g}", *speeds, f"{quotient:.2f}", f"{len(chunks)} of {shape_text(largest.shape)} f{8 * largest.itemsize}"])
        for group in ("all", f"f{8 * largest.itemsize}", f"bound {relative:g}"):
            quotients.setdefault(group, []).append(quotient)
    report.table([["array", "bound", *NAMES.values(), "C / Rust", "chunks"], *rows])
    report.say("", "speed of C over that of Rust")
    means = ([group, len(found), f"{geometric_mean(found):.2f}", f"{min(found):.2f}"] for group, found in quotients.items())
    report.table([["arrays, bounds", "cases", "geometric mean", "least"], *means])


if __name__ == "__main__":
    main()
