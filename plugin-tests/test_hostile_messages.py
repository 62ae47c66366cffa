"""Files whose messages, filter parameters and chunk indices were changed by somebody: every read is right or refused.

Round 0 has all changes that are listed here, and some bits flipped by chance; other rounds have other bits. All are drawn from fixed seeds.
QUIRE_ATTACK_MINUTES has more rounds. Three versions of HDF5 share the changes of a file, each day in another way, and take all of them with
QUIRE_FULL_MATRIX=1.

Each change is made to a file with our filter. Where filters are not told what was changed, other values may come back (the EXCUSES). Then a
twin, the file with h5py's LZF instead of our filter, gets the change too, and must not be refused: otherwise HDF5 could have noticed, and our filter
would have kept it from that. A crash is a failure if our library is on the stack. One within HDF5 is counted, and the twin is tried.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional

import h5py
import numpy as np

from conftest import PYTHONS, Python, attack_seconds
from hdf5_bytes import DATATYPE, LAYOUT, PIPELINE, Filter, Image, lookup3
from quire_client import FILTER_ID, absolute, client, smooth
from sampling import is_taken, said, seed

# Changes after which other values than the written ones may come back, because no filter can know better.
NOT_OURS = "the message names another filter or none: ours is not called"
IN_FRONT = "another filter is in front of ours: HDF5 hands it our values"
LAYOUT_CHANGED = "the layout message was changed: filters are not told the chunk's extents"
TYPE_CHANGED = "the datatype message was changed: filters are not told the type"
INDEX_CHANGED = "the index gives another chunk, or none, instead of this one: filters are not told which chunk it is"
MASKED = "the chunk's filter mask says that our filter was skipped: it is not called"
OTHER_MESSAGE = "another message than the filters', or the index, was changed"
BORDERS = "type or size of another message was changed: HDF5 reads the messages behind it as others"
EXCUSES = (NOT_OURS, IN_FRONT, LAYOUT_CHANGED, TYPE_CHANGED, INDEX_CHANGED, MASKED, OTHER_MESSAGE, BORDERS)
# Of these a twin tells nothing: another filter does what is to be seen, or the twin has other messages.
WITHOUT_TWIN = ("", NOT_OURS, IN_FRONT, BORDERS)
CRASHED = "HDF5 crashed or did not end, without our library on the stack"

SHAPE = (40, 50)
BOUND = 0.01
LAYOUTS: dict[str, dict[str, Any]] = {
    "earliest": {"chunks": (16, 20)},
    "single": {"chunks": SHAPE, "libver": "latest"},
    "fixed": {"chunks": (16, 20), "libver": "latest"},
    "extensible": {"chunks": (16, 20), "maxshape": (None, 50), "libver": "latest"},
    "btree2": {"chunks": (16, 20), "maxshape": (None, None), "libver": "latest"},
}
CPU_SECONDS_PER_READ = 0.3  # a read takes about a millisecond
FLIPS_PER_ROUND = 150
SHARES = len(PYTHONS)


class Case(NamedTuple):
    name: str
    raw: bytes  # the changed file
    excuse: str  # "" if the values must be right or refused
    flips: tuple[tuple[str, int, int], ...] = ()  # region, offset in it and bit, where that is the change


def contents() -> Iterator[tuple[str, np.ndarray, float, dict[str, Any]]]:
    """Data of every coding, with a fill value or without, and cd_values."""
    noise = np.random.default_rng(3).normal(0, 1e30, SHAPE)
    yield "f4", smooth(SHAPE, "<f4", 1), BOUND, {"compression_opts": absolute(BOUND), "fillvalue": np.float32(-99)}
    yield "stored_f8", noise.astype(">f8"), 0.0, {"compression_opts": (0,)}
    yield "steps_i2", np.round(smooth(SHAPE, "f8", 2) * 1000).astype("<i2"), 3.0, {"compression_opts": absolute(3.0)}
    yield "constant_u4", np.full(SHAPE, 7, "<u4"), 0.0, {"compression_opts": (0,)}


def write_files() -> None:
    """Writes each file and its twin."""
    for layout, options in LAYOUTS.items():
        for content, data, _, settings in contents():
            name = f"{layout}_{content}"
            twin = {key: value for key, value in settings.items() if key != "compression_opts"}
            # Numbers that shrink: LZF, which is optional, is skipped where it does not help.
            shrinking = np.resize(np.arange(7), SHAPE).astype(data.dtype)
            ours, lzf = {"data": data, "compression": FILTER_ID, **settings}, {"data": shrinking, "compression": "lzf", **twin}
            for path, filters in ((f"{name}.h5", ours), (f"{name}_twin.h5", lzf)):
                with h5py.File(path, "w", libver=options.get("libver", "earliest")) as file:
                    file.create_dataset("x", **{key: value for key, value in options.items() if key != "libver"}, **filters)


def word_cases(image: Image, draw: random.Random) -> Iterator[Case]:
    """Every word of cd_values changed, and their number."""
    ours, at = image.filters[0], image.words_at[0]
    for i, word in enumerate(ours.words):
        swapped = int.from_bytes(word.to_bytes(4, "little"), "big")
        flipped = [word ^ 1 << bit for bit in draw.sample(range(32), 8)]
        for value in (*flipped, 0, 0xFFFFFFFF, word + 1 & 0xFFFFFFFF, word - 1 & 0xFFFFFFFF, swapped, draw.getrandbits(32)):
            yield Case(f"word {i} is {value:#x}", image.patched((at + 4 * i, struct.pack("<I", value))), "")
    count = len(ours.words)
    for more in ([], [0], [0] * 3, [draw.getrandbits(32)] * 8, [0] * 57, [1] * 1000):
        for kept in range(count + 1) if not more else (count,):
            words = (*ours.words[:kept], *more)
            yield Case(f"{len(words)} words", image.with_pipeline(image.pipeline_bytes([ours._replace(words=words)])), "")
    number_at = image.filters_at[0] + 6
    for number in (0, count - 1, count + 1, 255, 0xFFFF):
        yield Case(f"{number} words announced", image.patched((number_at, struct.pack("<H", number))), "")


def header_cases(image: Image) -> Iterator[Case]:
    """Flags, name and number of the filter, and the message around it."""
    ours, at, message = image.filters[0], image.filters_at[0], image.message(PIPELINE)
    for flags in (0, 1, 2, 0x100, 0x8000, 0xFFFF):
        yield Case(f"filter flags {flags:#x}", image.patched((at + 4, struct.pack("<H", flags))), "")
    for name in (b"", b"x", b"deflate", b"n" * 300, bytes(range(1, 256))):
        yield Case(f"name {name[:9]!r}", image.with_pipeline(image.pipeline_bytes([ours._replace(name=name)])), "")
    if ours.id >= 256:
        name_at = at + 8
        yield Case("name without an end", image.patched((name_at, b"x" * 48)), "")
        for length in (0, 1, 7, 8, 40, 64, 0xFFFF):
            yield Case(f"name of {length} bytes announced", image.patched((at + 2, struct.pack("<H", length))), NOT_OURS if length > 64 else "")
    for number in (0, 1, 2, 3, 4, 5, 6, 256, 305, 32000, 32001, FILTER_ID - 1, FILTER_ID + 1, FILTER_ID ^ 0x8000, 0xFFFF):
        yield Case(f"filter {number}", image.patched((at, struct.pack("<H", number))), NOT_OURS)
    for other in others(image):
        yield Case(f"filter {other.id} with {len(other.words)} words", image.with_pipeline(image.pipeline_bytes([other])), NOT_OURS)
    for count in (0, 2, 32, 33, 255):
        yield Case(f"{count} filters announced", image.patched((message.at + 1, bytes([count]))), NOT_OURS if count == 0 else "")
    for version in (0, 1, 2, 3, 255):
        yield Case(f"message of version {version}", image.patched((message.at, bytes([version]))), "")
    for kind in (0, 3, 12, 0x55, 0xFF):
        # The message is gone, and the filter with it.
        yield Case(f"message of type {kind}", image.patched((message.header, bytes([kind]))), NOT_OURS)
    flags_at = message.header + (3 if image.is_new else 4)
    for flags in (0, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xFF):
        yield Case(f"message flags {flags:#x}", image.patched((flags_at, bytes([flags]))), "")


def others(image: Image) -> list[Filter]:
    """Filters of HDF5 and of h5py, with parameters that make sense for the dataset, and some that do not."""
    size = {"f4": 4, "f8": 8, "i2": 2, "u4": 4}[image.content.split("_")[-1]]
    return [
        Filter(1, 0, b"deflate", (6,)),
        Filter(2, 0, b"shuffle", (size,)),
        Filter(2, 0, b"shuffle", (1,)),
        Filter(2, 1, b"shuffle", (3,)),
        Filter(3, 0, b"fletcher32", ()),
        Filter(4, 0, b"szip", (141, 8, 8 * size, 320)),
        Filter(5, 0, b"nbit", (8, 0, 320, 1, size, 0, 8 * size, 0)),
        Filter(6, 0, b"scaleoffset", (2, 0, 320, 0, size, 1, 0, *[0] * 13)),
        Filter(32000, 0, b"lzf", (4, 261, 320 * size)),
        Filter(40000, 0, b"unknown", ()),
        Filter(40000, 1, b"unknown", (1, 2, 3)),
    ]


def order_cases(image: Image) -> Iterator[Case]:
    """Other filters in front of ours and behind it, and ours twice."""
    ours = image.filters[0]
    for other in others(image):
        for where, excuse, filters in (("in front", IN_FRONT, [other, ours]), ("behind", "", [ours, other]), ("on both sides", IN_FRONT, [other, ours, other])):
            label = f"filter {other.id} with {other.words} and flags {other.flags} {where}"
            # Bytes shuffled one by one stay where they are.
            yield Case(label, image.with_pipeline(image.pipeline_bytes(filters)), "" if other.words == (1,) else excuse)
    for filters in ([ours] * 2, [ours] * 3, [ours] * 32, [ours] * 33):
        yield Case(f"{len(filters)} times ours", image.with_pipeline(image.pipeline_bytes(filters)), "")


def shape_cases(image: Image) -> Iterator[Case]:
    """Every byte of the layout and of the datatype, and chunk extents."""
    layout, datatype = image.message(LAYOUT), image.message(DATATYPE)
    for message, excuse in ((layout, LAYOUT_CHANGED), (datatype, TYPE_CHANGED)):
        for at in range(message.at, message.at + message.size):
            for flip in (0x01, 0x10, 0x80, 0xFF):
                yield Case(f"{excuse.split()[1]} byte {at - message.at} ^ {flip:#x}", image.patched((at, bytes([image.raw[at] ^ flip]))), excuse)
    # Extents of the chunk: after the B-tree's address in version 3; from version 4 on behind their size in bytes.
    at, size = (layout.at + 11, 4) if image.raw[layout.at] == 3 else (layout.at + 5, image.raw[layout.at + 4])
    extents = [image.read(at + size * axis, size) for axis in range(image.rank)]
    top = (1 << 8 * size) - 1
    changes = [extents[::-1], [extents[0] * extents[1], 1], [1, extents[0] * extents[1]], [extents[0] * 2, extents[1] // 2], [0, 0], [top, top], [1, 1]]
    changes += [[extents[0] + more, extents[1]] for more in (-1, 1, extents[0], -extents[0] // 2)]
    for changed in changes:
        if all(0 <= extent <= top for extent in changed):
            new = b"".join(extent.to_bytes(size, "little") for extent in changed)
            yield Case(f"chunks of {changed}", image.patched((at, new)), LAYOUT_CHANGED)


def index_cases(image: Image) -> Iterator[Case]:
    """Sizes, filter masks and addresses of chunks in the index."""
    for number in sorted({0, len(image.entries) // 2, len(image.entries) - 1}):
        entry, (address, size) = image.entries[number], image.chunks[number]
        top = (1 << 8 * entry.size_bytes) - 1
        for wrong in sorted({0, 1, 4, 15, 16, 27, size - 1, size + 1, size // 2, 2 * size, size ^ 0x80, top >> 8, top >> 1, top} - {size}):
            if wrong <= top:
                yield Case(f"chunk {number} of {wrong} bytes", image.patched((entry.size, wrong.to_bytes(entry.size_bytes, "little"))), "")
        for mask in (1, 2, 0xFFFFFFFE, 0x80000000, 0xFFFFFFFF):
            yield Case(f"chunk {number} with mask {mask:#x}", image.patched((entry.mask, struct.pack("<I", mask))), MASKED if mask & 1 else "")
        for target in (0, address + 1, address - 1, address + 8, len(image.raw) - 1, len(image.raw), 1 << 40):
            yield Case(f"chunk {number} at {target}", image.patched((entry.address, struct.pack("<Q", target))), "")
        yield Case(f"no chunk {number}", image.patched((entry.address, b"\xff" * 8)), INDEX_CHANGED)
        for other in {0, len(image.chunks) - 1} - {number}:
            target, length = image.chunks[other]
            changes = (entry.address, struct.pack("<Q", target)), (entry.size, length.to_bytes(entry.size_bytes, "little"))
            yield Case(f"chunk {other} instead of {number}", image.patched(*changes), INDEX_CHANGED)


def flip_cases(image: Image, draw: random.Random) -> Iterator[Case]:
    """One to three bits anywhere in the object header, in the index, or in the entries of chunks."""
    regions = image.regions()
    names = [*regions, *[f"message {PIPELINE}"] * 5]
    for _ in range(FLIPS_PER_ROUND):
        name = draw.choice(names)
        start, end = regions[name]
        flips = tuple((name, draw.randrange(end - start), draw.randrange(8)) for _ in range(draw.randint(1, 3)))
        yield Case(f"bits {flips}", flipped(image, flips), excuse_of(image, name, [start + at for _, at, _ in flips]), flips)


def flipped(image: Image, flips: tuple[tuple[str, int, int], ...]) -> bytearray:
    raw, regions = bytearray(image.raw), image.regions()
    for name, at, bit in flips:
        raw[regions[name][0] + at] ^= 1 << bit
    return raw


def excuse_of(image: Image, region: str, changed: list[int]) -> str:
    """Only the message of the filters, behind the filter's number, has no excuse."""
    start = image.regions()[region][0]
    if region != f"message {PIPELINE}":
        return BORDERS if region.startswith("message") and min(changed) < start + 4 else OTHER_MESSAGE
    return NOT_OURS if min(changed) < image.filters_at[0] + 2 else ""


def cases(image: Image, number: int) -> Iterator[Case]:
    """Round 0 has everything, later rounds have more of what is drawn. Checksums are those of the file before the change: `Image.seal` makes them right."""
    draw = random.Random(f"{image.content} {number}")
    everything = [word_cases(image, draw), header_cases(image), order_cases(image), shape_cases(image), index_cases(image)] if number == 0 else []
    for family in [*everything, flip_cases(image, draw)]:
        yield from family


def read(path: Path) -> tuple[Optional[np.ndarray], str]:
    """A part of the dataset that is no larger than the original, or the error's text."""
    try:
        with h5py.File(path, "r") as file:
            dataset = file["x"]
            limits = (*SHAPE, *[2] * 30)
            return dataset[tuple(slice(0, min(extent, limit)) for extent, limit in zip(dataset.shape, limits))], ""
    # A hostile file makes h5py raise nearly anything.
    except Exception as error:  # noqa: BLE001
        return None, f"{type(error).__name__}: {error}"


def judge(found: Optional[np.ndarray], data: np.ndarray, bound: float, unchanged: np.ndarray) -> str:
    """What has been read, in a word."""
    if found is None:
        return "refused"
    if found.dtype == data.dtype and found.shape == data.shape:
        with np.errstate(all="ignore"):
            if (np.abs(found.astype("f8") - data.astype("f8")) <= bound).all():
                return "right"
    if found.tobytes() == unchanged.tobytes():
        return "right bytes of another type or shape"
    return "other values"


def timed_read(raw: bytes) -> tuple[Optional[np.ndarray], str]:
    """Reads a file with these bytes. SIGPROF ends a process that takes too long."""
    path = Path(f"case{os.getpid()}.h5")
    path.write_bytes(raw)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_PER_READ)
    result = read(path)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    path.unlink()
    return result


def in_child(body: Callable[[], None]) -> tuple[list[Any], int, str]:
    """Runs a body in a fork of this process: what the body printed as JSON, a line each, the exit code, and what is on stderr."""
    said, errors = Path("stdout"), Path("stderr")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        for path, number in ((said, 1), (errors, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        status = 1
        try:
            body()
            status = 0
        except BaseException:  # noqa: B902
            traceback.print_exc()
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    # A signal for which nobody watched is a negative number.
    return lines, 128 - code if code < 0 else code, errors.read_text(errors="replace")


class Attack:
    """A file, its twin, and the changes of a round and a share. This process never loads the plugin: each child does so anew."""

    def __init__(self, library: str, name: str, number: int, share: int) -> None:
        self.library, self.name = library, name
        self.image, self.twin = (Image(Path(f"{name}{suffix}.h5")) for suffix in ("", "_twin"))
        for image in (self.image, self.twin):
            image.content = name
            assert image.seal(bytearray(image.raw)) == image.raw, f"{name}: checksums"
        _, self.data, self.bound, _ = next(content for content in contents() if name.endswith(f"_{content[0]}"))
        self.cases = [case for index, case in enumerate(cases(self.image, number)) if is_taken(f"{name} {number}", index, share, SHARES)]
        self.twins = {(case.name, case.excuse): case.raw for case in cases(self.twin, number)}

    def changed_twin(self, case: Case) -> Optional[bytes]:
        """The twin with the case's change, if it has what the case changes."""
        if case.flips:
            return self.twin.seal(flipped(self.twin, case.flips)) if all(region in self.twin.regions() for region, _, _ in case.flips) else None
        changed = self.twins.get((case.name, case.excuse))
        return None if changed is None else self.twin.seal(bytearray(changed))

    def prepare(self) -> np.ndarray:
        """What a child does first. The values as this client reads them from the file that nobody has changed."""
        ctypes.CDLL(self.library).watch_for_crashes()
        unchanged, text = read(Path(f"{self.name}.h5"))
        assert judge(unchanged, self.data, self.bound, unchanged) == "right", f"{self.name}: {text}"
        # A file may ask for any amount of memory.
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        return unchanged

    def read_twin(self, case: Case) -> None:
        self.prepare()
        changed = self.changed_twin(case)
        print(json.dumps("without a twin" if changed is None else "refused" if timed_read(changed)[1] else "read"), flush=True)

    def read_from(self, first: int) -> None:
        """Reads the files of all cases from one on. Writes a line before each case and one after it."""
        unchanged = self.prepare()
        for index, case in enumerate(self.cases[first:], first):
            print(json.dumps([index, "begin", ""]), flush=True)
            found, text = timed_read(self.image.seal(bytearray(case.raw)))
            outcome = judge(found, self.data, self.bound, unchanged)
            if outcome not in ("right", "refused"):
                changed = None if case.excuse in WITHOUT_TWIN else self.changed_twin(case)
                if changed is not None:
                    print(json.dumps([index, "twin", ""]), flush=True)
                    text = timed_read(changed)[1]
                    outcome += ", where LZF refuses" if text else ", as with LZF"
            print(json.dumps([index, outcome, text]), flush=True)

    def run(self, counts: Counter[tuple[str, str]], failures: list[str]) -> None:
        """All cases, with a new child after each crash."""
        first = 0
        while True:
            lines, code, stderr = in_child(lambda: self.read_from(first))
            if "panicked" in stderr:
                failures.append(f"{self.name}: a panic: {stderr[:600]}")
            for index, outcome, text in lines:
                if outcome in ("begin", "twin"):
                    continue
                case = self.cases[index]
                counts[case.excuse, outcome] += 1
                if outcome not in ("right", "refused") and "QUIRE_VERBOSE" in os.environ:
                    print(f"{self.name}: {case.name}: {outcome}")
                if outcome not in ("right", "refused") and (not case.excuse or "LZF refuses" in outcome) or "internal error" in text:
                    failures.append(f"{self.name}: {case.name} ({case.excuse}): {outcome} {text}")
            if code == 0:
                return
            assert lines and lines[-1][1] in ("begin", "twin") and code >= 128, f"{self.name}: the child ended with {code}: {stderr}"
            index, state, _ = lines[-1]
            first, case, outcome = index + 1, self.cases[index], "with LZF, ours read other values"
            if "libh5zquire" in stderr:
                failures.append(f"{self.name}: {case.name}: crashed with our library on the stack: {stderr}")
            if state == "begin":
                said, twin_code, _ = in_child(lambda: self.read_twin(case))
                outcome = "as with LZF" if twin_code >= 128 else f"with LZF: {said[-1]}"
            counts[CRASHED, outcome] += 1
            if "QUIRE_VERBOSE" in os.environ:
                print(f"{self.name}: {case.name}: {outcome}, code {code}: {stderr[:1200]}")


def attack(library: str, round_number: str, share_number: str) -> None:
    """Files, changes, reads in child processes, counts. `library` is c/crash_stack.c, built."""
    number, share = int(round_number), int(share_number)
    # All files of a process have the cases of one day.
    os.environ["QUIRE_SEED"] = str(seed())
    known = lookup3(b"Four score and seven years ago")
    assert known == 0x17770551, f"lookup3 gives {known:#x}, its author's text says 0x17770551"
    counts: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    _, code, stderr = in_child(write_files)
    assert code == 0, stderr
    names = [f"{layout}_{content[0]}" for layout in LAYOUTS for content in contents()]
    for name in names:
        Attack(library, name, number, share).run(counts, failures)
    total = sum(counts.values())
    print(f"{client()}: round {number}, share {share} of {said()}: {total} changed files in {len(names)} layouts and contents")
    for excuse in ("", *EXCUSES, CRASHED):
        outcomes = ", ".join(f"{count} {outcome}" for (of, outcome), count in sorted(counts.items()) if of == excuse)
        if outcomes:
            print(f"  {excuse or 'the values must be right or refused'}: {outcomes}")
    assert not failures, "\n".join(failures[:40])


def test_changed_messages_and_chunk_indices_are_read_right_or_refused(
    python: Python, pythons: dict[str, Python], shared_library: Callable[[str], Path]
) -> None:
    start, library = time.monotonic(), shared_library("crash_stack")
    share = [*pythons.values()].index(python)
    for number in itertools.count():
        print(python(attack, library, number, share).stdout)
        if time.monotonic() - start >= attack_seconds():
            break
