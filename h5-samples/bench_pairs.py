#!/usr/bin/env python3
"""Compares two builds of a benchmark, which run in turns on one machine.

    bench_pairs.py OLD NEW [ROUNDS] [-- ARGUMENT...]

OLD and NEW are programs that print tables like those of `codec/examples/bench.rs` and `gpu/examples/gpu_bench.rs`: a row's name, then columns with a header
`median us` among them. Each row's time is the median over ROUNDS (5) of the medians that a program prints. Printed are the rows whose time differs by
3 % or more, and the geometric mean of new over old time.
"""

from __future__ import annotations

import math
import re
import statistics
import subprocess
import sys
from collections import defaultdict

LIMIT = 0.03
# Name, ratio or nothing, median, quartiles, GB/s.
ROW = re.compile(r"^(\S.*?)\s+(?:[\d.]+\s+)?([\d.]+)\s+[\d.]+\s+[\d.]+\s+[\d.]+$")


def times(program: str, arguments: list[str]) -> dict[str, float]:
    """The median time of each row that a run of the program prints."""
    text = subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
    rows: dict[str, float] = {}
    heading = ""
    for line in text.splitlines():
        if found := ROW.match(line):
            # Rows of different tables may have equal names.
            name = found[1] if found[1] not in rows else f"{heading}: {found[1]}"
            if name in rows:
                raise SystemExit(f"{program} prints two rows named {name!r}")
            rows[name] = float(found[2])
        elif line.strip():
            heading = line.strip()
    if not rows:
        raise SystemExit(f"{program} printed no row with a median and quartiles:\n{text}")
    return rows


def main(arguments: list[str]) -> None:
    arguments, passed = (arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]) if "--" in arguments else (arguments, [])
    if len(arguments) not in (2, 3):
        raise SystemExit(__doc__)
    programs, rounds = arguments[:2], int(arguments[2]) if len(arguments) == 3 else 5
    seen: list[defaultdict[str, list[float]]] = [defaultdict(list), defaultdict(list)]
    for number in range(rounds):
        # The first one of a round changes, so that neither always runs on a warmer machine.
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            for name, time in times(programs[which], passed).items():
                seen[which][name].append(time)
    old, new = ({name: statistics.median(medians) for name, medians in program.items()} for program in seen)
    common = [name for name in old if name in new]
    print(f"{len(common)} rows in both; only one program has: {sorted(set(old) ^ set(new)) or 'none'}")
    ratios = {name: new[name] / old[name] for name in common if old[name] > 0}
    for name, ratio in sorted(ratios.items(), key=lambda row: row[1]):
        if abs(ratio - 1) >= LIMIT:
            print(f"{name:<60} old {old[name]:>9.1f}  new {new[name]:>9.1f}  new / old {ratio:.3f}")
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    print(f"new / old time, geometric mean of {len(ratios)} rows over {rounds} rounds: {mean:.4f}")


main(sys.argv[1:])
