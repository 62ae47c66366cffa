"""The experiments of two papers in form: messages of MPI that are compressed on the way, beside plain ones.

    h5-samples/measure mpi_messages [--ranks 16] [--links shared,25,10,1] [--backends cpu,cuda,device]     mpi_messages.txt and .csv go to --results FOLDER

Shah et al. (ICS'23): point-to-point messages of 1 to 512 MB, and scatter over 16 ranks, 1 to 8 MB each. CEAZ (ICS'22): MPI_Gather and MPI_File_write at 128
nodes. Here each of them runs with plain values, and with streams of pieces of 64^3 f32 whose codebooks come from the dictionary, or are built for each
piece (QUIRE_CODEBOOK). One side compresses all of a message on its cores or its GPU, then sends; the other side has all of it, then decompresses. With the
backend "device", values begin and end in the GPU's memory, in arrays of CuPy: plain ones are copied to pinned memory of the host, sent, and copied back.

The links are shared memory as it is, and pairs of network namespaces with a token bucket (tc tbf) between them, in Gbit/s: rank 0 is in one, all others
are in the other. That needs root and iproute2. Every value is compared with its bound in f64 before a time counts. Times are medians, until the last rank has
its values.

A job holds a group of ranks for each backend and kind of codebooks, as a process reads these settings once. Groups take turns; those that wait sleep.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harness import Report, parser, step, velocity, write_csv
from message_rank import Rank, groups

PAPERS = {"point-to-point": "Shah et al. 1.4-16.2", "scatter": "Shah et al. 2.2-30.5", "gather": "CEAZ, 128 nodes 37.8", "file": "CEAZ, 128 nodes 28.9"}
COLUMNS = ("link", "experiment", "mib", "relative", "backend", "books", "ratio", "plain_s", "seconds", "factor", "compress_gbs", "decompress_gbs", "link_gbs")

# Pieces of the largest message over a link: at 1 Gbit/s it takes half a second.
MOST_OVER_A_LINK = 64
# Seconds that a job may take.
PATIENCE = 400

NAMESPACES, ADDRESSES = ("quire0", "quire1"), ("10.99.0.1", "10.99.0.2")
# Bytes that the token bucket holds: some of the largest packets, and a small part of the smallest message.
BUCKET = 1 << 18
# What mpirun calls in place of ssh: the first argument is the host, the rest the command. The other side has a name of its own, so that Open MPI does not
# take both for one machine.
AGENT = """#!/bin/sh
shift
export TMPDIR={folder}/other
exec ip netns exec quire1 unshare --uts sh -c "echo quire1 >/proc/sys/kernel/hostname; $*"
"""


def call(command: str) -> None:
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


@contextmanager
def link(speed: str, folder: Path, near: int, far: int) -> Iterator[list[str]]:
    """The beginning of a command that runs a job over a link: `near` ranks on one side, `far` on the other."""
    start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    if speed == "shared":
        yield [*start, "-n", str(near + far)]
        return
    agent = folder / "agent"
    agent.write_text(AGENT.format(folder=folder))
    agent.chmod(0o755)
    (folder / "other").mkdir(exist_ok=True)
    for name in NAMESPACES:
        call(f"ip netns add {name}")
    try:
        call("ip link add quire0 netns quire0 type veth peer name quire1 netns quire1")
        bits = float(speed) * 1e9
        for name, address in zip(NAMESPACES, ADDRESSES):
            inside = f"ip netns exec {name}"
            call(f"{inside} ip address add {address}/24 dev {name}")
            call(f"{inside} ip link set {name} up")
            call(f"{inside} ip link set lo up")
            call(f"{inside} tc qdisc add dev {name} root tbf rate {bits:.0f}bit burst {BUCKET} latency 20ms")
        network = "10.99.0.0/24"
        hosts = f"{ADDRESSES[0]}:{near},{ADDRESSES[1]}:{far}"
        options = ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(agent), "--mca", "oob_tcp_if_include", network, "--mca", "btl_tcp_if_include", network]
        options += ["--mca", "btl", "self,vader,tcp", "--mca", "pml", "ob1", "--host", hosts, "-n", str(near + far)]
        yield ["ip", "netns", "exec", NAMESPACES[0], *start, *options]
    finally:
        for name in NAMESPACES:
            call(f"ip netns delete {name}")


def measure(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    step("field")
    np.save(folder / "field.npy", velocity())
    kinds = groups(arguments.backends.split(","))
    # An Open MPI may have been told by the environment to stay on one machine.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_")}
    for speed in arguments.links.split(","):
        experiments = [name for name in arguments.experiments.split(",") if name != "file" or speed == "shared"]
        settings = {
            "folder": str(folder), "ranks": arguments.ranks, "backends": arguments.backends.split(","), "experiments": experiments, "link": speed,
            "most": arguments.most if speed == "shared" else min(arguments.most, MOST_OVER_A_LINK), "file": str(arguments.file / "quire-messages"),
        }  # fmt: skip
        step(f"{speed}: {len(kinds)} groups of {arguments.ranks} ranks")
        with link(speed, folder, len(kinds), len(kinds) * (arguments.ranks - 1)) as start:
            # The other side has another environment.
            exported = [part for name in ("PYTHONPATH", "OMP_NUM_THREADS") for part in ("-x", name)]
            command = [*start, *exported, sys.executable, "-m", "mpi4py", str(Path(__file__).resolve()), "rank", json.dumps(settings)]
            done = subprocess.run(command, env=environment, timeout=PATIENCE)
            if done.returncode:
                raise SystemExit(f"error: {shlex.join(command)} ended with {done.returncode}, see above")
    lines = [json.loads(line) for file in sorted(folder.glob("figures*")) for line in file.read_text().splitlines()]
    order = {speed: number for number, speed in enumerate(arguments.links.split(","))}
    rows = [dict(zip(COLUMNS, line)) for line in lines]
    return sorted(rows, key=lambda row: (list(PAPERS).index(row["experiment"]), order[row["link"]], row["mib"], -row["relative"], row["backend"]))


def modelled(row: dict[str, Any], ranks: int) -> float:
    """The factor of ratio, speeds of both sides and the bandwidth that plain values reach. A side compresses or decompresses the messages of all ranks, or its
    own; files have no other side."""
    compress, link = row["compress_gbs"], row["link_gbs"]
    if row["experiment"] == "file":
        return 1 / (link / compress / ranks + 1 / row["ratio"])
    copies = 1 if row["experiment"] == "point-to-point" else ranks - 1
    compresses, decompresses = {"scatter": (ranks, 1), "gather": (1, ranks)}.get(row["experiment"], (1, 1))
    return copies / link / (compresses / compress + copies / (row["ratio"] * link) + decompresses / row["decompress_gbs"])


def table(rows: list[dict[str, Any]], ranks: int) -> Iterator[list[object]]:
    yield [
        "experiment",
        "link",
        "MiB",
        "bound",
        "",
        "codebooks",
        "ratio",
        "plain, s",
        "with, s",
        "factor",
        "model",
        "plain, Gbit/s",
        "compress, GB/s",
        "decompress",
    ]
    for row in rows:
        figures = (f"{row['ratio']:.1f}", f"{row['plain_s']:.4f}", f"{row['seconds']:.4f}", f"{row['factor']:.2f}", f"{modelled(row, ranks):.2f}")
        speeds = (f"{8 * row['link_gbs']:.2f}", f"{row['compress_gbs']:.2f}", f"{row['decompress_gbs']:.2f}")
        yield [row["experiment"], row["link"], row["mib"], f"{row['relative']:g}", row["backend"], row["books"], *figures, *speeds]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, default=16, help="of a group")
    options.add_argument("--links", default="shared,25,10,1", help="shared: shared memory; a number: a token bucket of so many Gbit/s")
    options.add_argument("--experiments", default=",".join(PAPERS))
    options.add_argument("--backends", default="cpu", help="cpu, cuda, auto; device: values begin and end in the GPU's memory")
    options.add_argument("--most", type=int, default=512, help="MiB of the largest message; less over slow links")
    options.add_argument("--file", type=Path, default=Path("/tmp"), help="a folder on the disk to which files are written together")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        rows = measure(arguments, Path(name))
        versions = (Path(name) / "versions").read_text()
    for number in range(len(groups(arguments.backends.split(",")))):
        (arguments.file / f"quire-messages{number}").unlink(missing_ok=True)
    report = Report(
        "mpi_messages",
        arguments.results,
        f"made by: {versions}",
        f"data:    pieces of 64^3 f32 (1 MiB) of a turbulence field; bounds are shares of its range. Groups of {arguments.ranks} ranks",
        f"file:    written by MPI_File_write_at_all and synced, in {arguments.file}",
        "factor:  seconds of plain values / seconds with compression. model: of ratio, speeds of both sides and the bandwidth that plain values reach",
        f"papers:  {'; '.join(f'{experiment}: {factor} times' for experiment, factor in PAPERS.items())}",
        "",
    )
    report.table(table(rows, arguments.ranks), 6)
    write_csv(arguments.results / "mpi_messages.csv", COLUMNS, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        Rank(json.loads(sys.argv[2])).run()
    else:
        main()
