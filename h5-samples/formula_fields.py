"""Fields by formulas: smoother than measured ones, or like those that a compressor with prediction finds hard. compare.py measures them beside the 40 arrays.

    name                  shape, slowest axis first   type       what it is like
    smooth_sines          64, 64, 64                  f32, f64   a sum of sines, as tests of compressors have
    smooth_bell           64, 64, 64                  f32, f64   a bell
    orbital               64, 64, 64                  f32        smooth, of both signs, falls off over decades
    wave_front            96, 96, 96                  f32        a wave in a shell; exactly 0 ahead of it and in a rim of four cells
    kelvin                512, 512                    f32        285 K, an amplitude of 15 K, and a thousandth of it as detail
    relief                512, 512                    f32        metres with one decimal; exactly 0 in the sea
    annual                120, 40, 48                 f32        a rough pattern that stays, and a smooth anomaly for each year
    humidity              16, 96, 192                 f32        clipped at 0
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness import Field


def formula_fields() -> list[Field]:
    fields = [(f"{name}_{dtype}", values.astype(dtype)) for name, values in smooth() for dtype in ("f4", "f8")]
    fields += [(name, values.astype("f4")) for name, values in hard()]
    return [Field(name, values, None) for name, values in fields]


def smooth() -> Iterator[tuple[str, np.ndarray]]:
    z, y, x = np.meshgrid(*[np.linspace(0, 1, 64)] * 3, indexing="ij")
    yield "smooth_sines", np.sin(3 * x + 1) * np.cos(2 * y) + np.sin(2 * z + x * y)
    yield "smooth_bell", np.exp(-8 * ((x - 0.5) ** 2 + (y - 0.4) ** 2 + (z - 0.3) ** 2))


def hard() -> Iterator[tuple[str, np.ndarray]]:
    x, y, z = np.meshgrid(*[np.linspace(-6, 6, 64)] * 3, indexing="ij")
    centres = np.random.default_rng(1).uniform(-2, 2, (6, 3))
    lobes = (z * np.exp(-1.6 * np.sqrt((x - a) ** 2 + (y - b) ** 2 + (z - c) ** 2)) for a, b, c in centres)
    yield "orbital", sum(lobe if number % 2 == 0 else -lobe for number, lobe in enumerate(lobes))

    radius = np.sqrt(sum(np.square(axis) for axis in np.meshgrid(*[np.arange(96) - 40.5] * 3, indexing="ij")))
    ahead = radius * (1 + 0.05 * noise((96, 96, 96), 5, 2)) - 30
    wave = np.where(ahead > 14, 0, (1 - (ahead / 3) ** 2) * np.exp(-((ahead / 3) ** 2) / 2))
    yield "wave_front", np.pad(wave[4:-4, 4:-4, 4:-4], 4)

    yield "kelvin", 285 + 5 * noise((512, 512), 4, 3) + 0.015 * noise((512, 512), 1, 4)

    height = 400 * noise((512, 512), 3.2, 5) + 200
    yield "relief", np.where(height > 0, np.round(height, 1), 0)

    pattern, anomaly = 12 * noise((40, 48), 1.5, 6), 0.6 * noise((120, 40, 48), 4, 7)
    yield "annual", 280 + pattern + anomaly + 0.15 * noise((120, 40, 48), 1, 8)

    yield "humidity", np.clip(0.35 + 0.3 * noise((16, 96, 192), 2.6, 9), 0, None)


def noise(shape: tuple[int, ...], slope: float, seed: int) -> np.ndarray:
    """A random field whose power falls as the wave number to the power of -slope; its standard deviation is 1."""
    frequencies = [*(np.fft.fftfreq(length) for length in shape[:-1]), np.fft.rfftfreq(shape[-1])]
    k = np.sqrt(sum(np.square(axis) for axis in np.meshgrid(*frequencies, indexing="ij")))
    k[(0,) * k.ndim] = np.inf
    white = np.fft.rfftn(np.random.default_rng(seed).standard_normal(shape))
    field = np.fft.irfftn(white * k ** (-slope / 2), s=shape, axes=tuple(range(len(shape))))
    return field / field.std()
