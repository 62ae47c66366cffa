"""filter() of several builds of the plugin by turns: seconds and bytes over those of the first build, on chunks of the 40 arrays.

    git worktree add ../old COMMIT && (cd ../old && NVCC=none cargo build --release -p h5z-quire)
    QUIRE_BACKEND=cpu taskset -c 1 .venv-compare/bin/python h5-samples/builds.py ../old/target/release/libh5zquire.so target/release/libh5zquire.so [ARRAY...]

h5-samples/compare.sh makes the environment and the fields. A small change may cost less than two builds differ by chance, and many such changes are slow
together: so compare with the last release, too. Every value is checked against its bound in f64 first. Run it alone on a machine, on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from arrays import cut, load_arrays
from demo import Field
from filter_call import REVERSE, Plugin, chunk_words
from measured import measured
from peers import worst_error

BOUNDS = (1e-2, 1e-3, 1e-4)
CHUNKS = 2  # of each array


def quotients(plugins: list[Plugin], chunks: list[Field], bound: float, rounds: int) -> np.ndarray:
    """`[in, out, bytes][build]`: medians of the quotients over the first build."""
    seconds = np.zeros((2, rounds, len(plugins)))
    size = np.zeros(len(plugins))
    for chunk in chunks:
        words = chunk_words(bound * chunk.range, chunk.values.shape, chunk.values.dtype, chunk.fill)
        backs = [plugin.round_trip(f"abs={bound * chunk.range!r}", chunk.values, chunk.fill) for plugin in plugins]
        for number, back in enumerate(backs):
            if not worst_error(chunk, back.decoded) <= bound * chunk.range:
                raise SystemExit(f"error: build {number} breaks the bound {bound:g} of {chunk.name}")
            size[number] += back.stream.nbytes
        for turn in range(rounds):
            for number in np.roll(np.arange(len(plugins)), turn):
                seconds[0, turn, number] += plugins[number].call(0, words, chunk.values)[0]
                seconds[1, turn, number] += plugins[number].call(REVERSE, words, backs[number].stream)[0]
    return np.concatenate([np.median(seconds / seconds[:, :, :1], axis=1), [size / size[0]]])


def row(title: str, bound: float, found: np.ndarray) -> str:
    parts = (f"{name} {' '.join(f'{value:.3f}' for value in line)}" for name, line in zip(("in", "out", "bytes"), found[:, 1:]))
    return f"{title:26} {bound:<7g} " + "  ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", help="libh5zquire.so of each build, the first one to compare with, and names of arrays; all without names")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    libraries = [Path(name) for name in arguments.builds if name.endswith(".so")]
    names = [name for name in arguments.builds if not name.endswith(".so")]
    plugins = [Plugin(library) for library in libraries]
    print(measured(), f"builds:  {' '.join(map(str, libraries))}", sep="\n")
    all_found: dict[float, list[np.ndarray]] = {bound: [] for bound in BOUNDS}
    for array in load_arrays(Path(__file__).parent / "data" / "seed1-medium"):
        if names and array.name not in names:
            continue
        chunks = cut(array)[:CHUNKS]
        for bound in BOUNDS:
            found = quotients(plugins, chunks, bound, arguments.rounds)
            all_found[bound].append(found)
            print(row(array.name, bound, found), flush=True)
    for bound, found in all_found.items():
        print(row("geometric mean", bound, np.exp(np.mean(np.log(found), axis=0))))
    for bound, found in all_found.items():
        print(row("median", bound, np.median(found, axis=0)))


if __name__ == "__main__":
    main()
