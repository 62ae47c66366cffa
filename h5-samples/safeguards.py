"""What the options promise, judged by compression-safeguards, a package of others, over generated and real arrays, five bounds and all types.

    h5-samples/measure safeguards [NAME...]

Arrays are taken in chunks of about 1 MiB, at most eight of each, in their own type. A small chunk of each is taken in every type, without its gaps and
stretched over the type's numbers. The judge checks every value. Order between any two values is not in its language, and is checked by sorting besides. The
last table has what is not promised there, beside SZ3 and ZFP: it shows what the judge finds. It ends with 0 only if no promise is broken.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import ml_dtypes  # noqa: F401  numpy knows bfloat16 by its name from here on
import numpy as np
from compression_safeguards import SafeguardKind
from compression_safeguards.utils.bindings import Bindings

import h5z_quire
from arrays import cut, load_arrays
from harness import Field, Report, parser, progress
from peer_calls import LIBRARIES, of_library, versions

BOUNDS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
TYPES = ("f2", "bfloat16", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "c8", "c16")
SMALL = {1: (2**15,), 2: (180, 180), 3: (32, 32, 32), 4: (2, 16, 32, 32)}
#: {bound} is in the data's units, {share} of the range, {middle} a value amid the others.
OPTIONS = ("abs={bound}", "rel={share}", "pwrel={share}", "lossless", "abs={bound},keep=order", "rel={share},keep=sign:0:{middle}", "pwrel={share},keep=order")
#: What is judged in the last table.
UNPROMISED = "abs={bound},keep=order+sign:0:{middle}"
JUDGED = ("bound", "fill", "limits", "sign", "order")

#: A quantity that is 1 where a value is between two others.
WITHIN = 'all([x >= c["least"], x <= c["greatest"]])'
#: One that is 1 unless neighbours change places, or become different.
IN_ORDER = 'all([any([X[0] <= X[1], not(C["$X"][0] <= C["$X"][1])]), any([X[0] >= X[1], not(C["$X"][0] >= C["$X"][1])])])'


def plain(values: np.ndarray) -> np.ndarray:
    """Values as the judge takes them: bfloat16 as f32, complex numbers as pairs, in the machine's byte order."""
    if values.dtype.kind == "c":
        values = values.view(values.real.dtype).reshape(*values.shape, 2)
    return values.astype("f4" if values.dtype.name == "bfloat16" else values.dtype.newbyteorder("="))


def stretched(chunk: Field, kind: str) -> Field:
    """The values in another type, gaps apart. Integers take nine tenths of the type's range."""
    values = chunk.without_gaps[0].astype("f8")
    values = (values - values.min()) / (values.max() - values.min())
    if kind[0] == "u":
        values = values * 0.9 * np.iinfo(kind).max
    elif kind[0] == "i":
        values = (values - 0.5) * 1.8 * np.iinfo(kind).max
    else:
        values = (values - 0.5) * 1000
    if kind[0] == "c":
        values = values + 1j * np.flip(values)
    return Field(chunk.name, values.astype(kind))


def written(template: str, share: float, chunk: Field) -> str:
    """Options for a chunk. A bound is a number of the type in which the judge computes."""
    numbers = Field(chunk.name, plain(chunk.values), chunk.fill)
    kind = numbers.values.dtype
    bound = share * numbers.range
    if kind.kind == "f":
        share, bound = float(kind.type(share)), float(kind.type(bound))
    else:
        bound = max(1.0, np.floor(bound))
    # Thresholds of integers are below 2^53.
    found = np.clip(np.sort(numbers.values[numbers.valid]).astype("f8"), 1 - 2.0**53, 2.0**53 - 1)
    return template.format(share=repr(share), bound=repr(float(bound)), middle=repr(float(found[found.size // 2])))


def ends_of(options: str, chunk: Field, half_step: float | None) -> tuple[Any, Any, int]:
    """Between which two numbers values stay, and how many of the two are the chunk's own ends, as docs/guide.md promises under Ranges."""
    numbers = plain(chunk.values)
    numbers = numbers[np.isfinite(numbers)]
    kind, least, greatest = numbers.dtype, numbers.min(), numbers.max()
    widest = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    ends = [0 if least >= 0 else kind.type(widest.min).item(), 0 if greatest <= 0 else kind.type(widest.max).item(), 0]
    has_limits = kind.kind == "f" and chunk.values.real.itemsize >= 4 and "pwrel" not in options and (half_step is None or "keep" not in options)
    steps, smallest = (2**22, 1e-290) if kind.itemsize == 8 else (2048, 1e-28)
    for side, end in enumerate((least, greatest)):
        # Without a step, the values are exact.
        if has_limits and (half_step is None or smallest < 2 * half_step < float(greatest) - float(least) and abs(float(end)) <= steps * 2 * half_step):
            ends[side], ends[2] = end.item(), ends[2] + 1
    return tuple(ends)


def promised(options: str, chunk: Field, least: Any, greatest: Any) -> Iterator[tuple[str, Any]]:
    """What options promise for a chunk of plain values that stay between two numbers: what is judged, and the safeguard."""

    def safeguard(kind: str, **settings: Any) -> Any:
        return SafeguardKind[kind].value(**settings)

    kind = chunk.values.dtype
    for key, _, value in (option.partition("=") for option in options.split(",")):
        if key == "abs":
            yield "bound", safeguard("eb", type="abs", eb=float(value))
        elif key == "rel":
            # One spacing more, as the judge rounds this bound to the chunk's type.
            spacing = np.finfo(kind).eps.item() if kind.kind == "f" else 0.0
            yield "bound", safeguard("eb", type="abs", eb=float(value) * chunk.range * (1 + spacing))
        elif key == "pwrel":
            yield "bound", safeguard("eb", type="rel", eb=float(value))
            yield "sign", safeguard("sign")
        elif key == "lossless":
            yield "bound", safeguard("lossless")
        elif key == "keep":
            for axis in range(chunk.values.ndim if "order" in value else 0):
                neighbours = [dict(axis=axis, before=0, after=1, boundary="valid")]
                yield "order", safeguard("qoi_eb_stencil", qoi=IN_ORDER, type="abs", eb=0, neighbourhood=neighbours)
            yield from (("sign", safeguard("sign", offset=kind.type(float(offset)).item())) for offset in value.split(":")[1:])
    if chunk.fill is not None:
        yield "fill", safeguard("same", value=kind.type(chunk.fill).item())
    yield "limits", safeguard("qoi_eb_pw", qoi=WITHIN, type="abs", eb=0, early_bound=dict(least=least, greatest=greatest))


def inversions(chunk: Field, decoded: np.ndarray) -> int:
    """Neighbours in the order of the original values that have changed places, or are equal no more."""
    order = np.argsort(chunk.values[chunk.valid], kind="stable")
    before, after = chunk.values[chunk.valid][order], decoded[chunk.valid][order]
    return int(np.count_nonzero((after[1:] < after[:-1]) | (after[1:] != after[:-1]) & (before[1:] == before[:-1])))


def judge(options: str, chunk: Field, decoded: np.ndarray, half_step: float | None) -> Counter[str]:
    """How many values break each promise; beside them, how many streams, values and ends of ranges were judged."""
    least, greatest, ends = ends_of(options, chunk, half_step)
    numbers, found = Field(chunk.name, plain(chunk.values), chunk.fill), plain(decoded)
    counts = Counter(streams=1, values=numbers.values.size, ends=ends)
    known = Bindings(**{"$x": numbers.values, "$X": numbers.values})
    for promise, safeguard in promised(options, numbers, least, greatest):
        counts[promise] += int(np.count_nonzero(~safeguard.check_pointwise(numbers.values, found, late_bound=known)))
    if "keep=order" in options:
        counts["order"] += inversions(numbers, found)
    return counts


def judge_plugin(options: str, chunk: Field, judged: str | None = None) -> Counter[str]:
    """Compresses, decompresses and judges what the options promise, or what other options do and that no value leaves the range."""
    stream = h5z_quire.compress(chunk.values, options, fill_value=chunk.fill)
    decoded = h5z_quire.decompress(stream, shape=chunk.values.shape)
    return judge(judged or options, chunk, decoded, None if judged else h5z_quire.describe(stream).half_step)


def rows(found: dict[tuple[str, str], Counter[str]]) -> Iterator[list[object]]:
    yield ["type", "options", "streams", "values", *JUDGED, "ends"]
    for (name, options), counts in found.items():
        yield [name, options, *(counts[column] for column in ("streams", "values", *JUDGED)), f"{counts['ends']} of {2 * counts['streams']}"]


def main() -> int:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="of arrays; all by default")
    arguments = options.parse_args()
    arrays = load_arrays(arguments.names)
    peers = {name: of_library(LIBRARIES[name], gaps_apart=True) for name in ("SZ3", "ZFP")}
    promises: dict[tuple[str, str], Counter[str]] = {}
    others: dict[tuple[str, str], Counter[str]] = {}
    for array in progress(arrays):
        whole, small = cut(array), cut(array, SMALL[min(4, np.squeeze(array.values).ndim or 1)])[:1]
        tasks = [("own", chunk) for chunk in whole] + [(kind, stretched(chunk, kind)) for chunk in small for kind in TYPES]
        for kind, chunk in tasks:
            for template in OPTIONS:
                if "pwrel" in template and kind[0] in "iu":
                    continue  # README: floating-point types only
                for share in BOUNDS if "{" in template else BOUNDS[:1]:
                    row = (kind, template if kind == "own" else "all of them")
                    promises.setdefault(row, Counter()).update(judge_plugin(written(template, share, chunk), chunk))
        for share in BOUNDS:
            for chunk in small:
                judged = written(UNPROMISED, share, chunk)
                bound = judged.partition(",")[0]
                others.setdefault(("own", "Quire, abs={bound}"), Counter()).update(judge_plugin(bound, chunk, judged))
                for name, codec in peers.items():
                    decoded = codec.decompress(codec.compress(chunk, float(bound[4:]))[1], chunk)[1]
                    others.setdefault(("own", name), Counter()).update(judge(judged, chunk, decoded, None))
    report = Report(
        "safeguards",
        arguments.results,
        f"judge:   {versions(['compression-safeguards'])}, in each array's own type",
        f"arrays:  {len(arrays)}; bounds {', '.join(f'{share:g}' for share in BOUNDS)} of a chunk's range",
        "columns: values beyond the bound; fill values with other bits; values beyond the range, where docs/guide.md promises it, or beyond 0 where none was;",
        "         values on another side of 0 or of the value given; neighbours along an axis, or in the order of values, that change places or are equal no",
        "         more; ends of ranges that are promised",
        "",
    )
    report.table(rows(promises), 2)
    report.say("", "what is not promised there, on a small chunk of each array, at the bounds above")
    report.table(rows(others), 2)
    return int(any(counts[promise] for counts in promises.values() for promise in JUDGED))


if __name__ == "__main__":
    sys.exit(main())
