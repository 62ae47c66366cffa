"""Processes that share GPUs, and processes that end while they open one. The driver is gpu/emulator's, whose GPUs are CPUs; the scenes are in py/sharing.py."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

import sharing
from conftest import LIBRARY_NAME, InNamespace, Python, Runner

# Makes the driver's files of two cards, their device files and the driver's own. The card on bus a0 has number 1, the other one number 0.
CARDS = """
mount -t tmpfs tmpfs /proc/driver
for card in a0:1 a1:0; do
  mkdir -p "/proc/driver/nvidia/gpus/0000:${card%:*}:00.0"
  printf 'Model: \\t\\t None\\nDevice Minor: \\t %s\\n' "${card#*:}" >"/proc/driver/nvidia/gpus/0000:${card%:*}:00.0/information"
done
mount -t tmpfs tmpfs dev
for node in null zero urandom random; do touch "dev/$node"; mount --bind "/dev/$node" "dev/$node"; done
touch dev/nvidia0 dev/nvidia1 dev/nvidiactl
mount --move dev /dev
"""


@pytest.fixture
def scene(newest: Python, plugins: Path, shared_library: Callable[[str], Path], emulated_driver: Path) -> Callable[[str], list[object]]:
    """The command that runs a scene."""
    clock = shared_library("set_clock")
    return lambda name: newest.command(sharing.run_scene, plugins / LIBRARY_NAME, clock, emulated_driver, name)


@pytest.mark.parametrize("name", [each.__name__ for each in sharing.FREE])
def test_a_gpu_is_opened_where_it_pays_and_by_whom_it_is_for(run: Runner, scene: Callable[[str], list[object]], name: str) -> None:
    run(*scene(name))


@pytest.mark.parametrize("name", [each.__name__ for each in sharing.LOCKED])
def test_a_card_is_used_by_few_processes_at_a_time_and_opened_by_one(
    run: Runner, in_namespace: InNamespace, scene: Callable[[str], list[object]], name: str
) -> None:
    (run.folder / "dev").mkdir()
    run(*in_namespace(CARDS), *scene(name))
