"""The demonstration ``maxnorm demo``: three learners recover a corrupted spectrum image in one pass."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxnorm.core.types import Array
from maxnorm.estimators import Decomposition
from maxnorm.metrics import expressed_variance
from maxnorm.paper.methods import METHODS, Setup

BLOCK = 64  # samples per block of the stream

Curve = list[tuple[int, float]]  # samples seen and expressed variance


@dataclass(frozen=True)
class SpectrumImage:
    """A square image with a spectrum per pixel, which is a mixture of the spectra of a few materials.

    Parameters
    ----------
    true : array of shape (side * side, channels)
        Clean spectra, one per row.
    measured : array of shape (side * side, channels)
        Spectra with gross errors.
    basis : array of shape (channels, materials)
        Spectra of the materials, one per column.
    side : int
        Number of pixels along each side.
    """

    true: Array
    measured: Array
    basis: Array
    side: int

    def image(self, samples: Array, channel: int) -> Array:
        """Return one channel of spectra as an image of shape (side, side)."""
        return samples[:, channel].reshape(self.side, self.side)


def make_spectrum_image(
    side: int = 64, channels: int = 300, materials: int = 5, corruption: float = 0.3, seed: int = 0
) -> SpectrumImage:
    """Generate a spectrum image: smooth abundance maps times spectra with peaks, plus gross errors.

    Parameters
    ----------
    side : int, default=64
        Number of pixels along each side.
    channels : int, default=300
        Number of channels of a spectrum.
    materials : int, default=5
        Number of materials, which is the rank of the clean data.
    corruption : float, default=0.3
        Share of the entries to which an error, uniform in [-20, 20], is added.
    seed : int, default=0
        Random seed.

    Returns
    -------
    SpectrumImage
        Clean and measured spectra.
    """
    rng = np.random.default_rng(seed)
    axis = np.linspace(0.0, 1.0, channels)
    spectra = np.zeros((materials, channels))
    for spectrum in spectra:
        for centre, width, height in zip(
            rng.random(4), rng.uniform(0.01, 0.05, 4), rng.random(4), strict=True
        ):
            spectrum += height * np.exp(-0.5 * ((axis - centre) / width) ** 2)
    y, x = np.mgrid[0 : 1 : side * 1j, 0 : 1 : side * 1j]
    maps = np.zeros((materials, side, side))
    for abundance in maps:
        for cx, cy, radius in zip(*rng.random((2, 3)), rng.uniform(0.08, 0.22, 3), strict=True):
            abundance += np.exp(-0.5 * ((x - cx) ** 2 + (y - cy) ** 2) / radius**2)
    true = maps.reshape(materials, -1).T @ spectra
    spikes = rng.random(true.shape) < corruption
    measured = np.where(spikes, true + rng.uniform(-20.0, 20.0, true.shape), true)
    return SpectrumImage(true, measured, spectra.T, side)


def learn(
    scene: SpectrumImage, progress: Callable[[int, dict[str, Curve]], None]
) -> tuple[dict[str, Curve], Decomposition]:
    """Feed the pixels in random order to OMRMD, OR-PCA and online PCA.

    Parameters
    ----------
    scene : SpectrumImage
        The image.
    progress : callable
        Function that receives the number of samples seen and the learning curves, after every block.

    Returns
    -------
    curves : dict
        Learning curve of each learner, by name.
    parts : Decomposition
        Decomposition of the measured spectra by OMRMD.
    """
    setup = Setup(*scene.basis.shape)
    learners: dict[str, Any] = {
        "OMRMD": METHODS["ours"].make(setup),
        "OR-PCA": METHODS["nuclear"].make(setup),
        "online PCA": METHODS["pca"].make(setup),
    }
    curves: dict[str, Curve] = {name: [] for name in learners}
    order = np.random.default_rng(1).permutation(len(scene.measured))
    for start in range(0, len(order), BLOCK):
        rows = order[start : start + BLOCK]
        for name, learner in learners.items():
            learner.partial_fit(scene.measured[rows])
            ev = expressed_variance(scene.basis, learner.components_.T)
            curves[name].append((start + len(rows), ev))
        progress(start + len(rows), curves)
    return curves, learners["OMRMD"].decompose(scene.measured)


def draw(scene: SpectrumImage, parts: Decomposition, curves: dict[str, Curve], path: Path) -> None:
    """Draw one channel before and after, one spectrum, and the learning curves.

    Parameters
    ----------
    scene : SpectrumImage
        The image.
    parts : Decomposition
        Low-rank part and noise of the measured spectra.
    curves : dict
        Learning curve of each learner, by name.
    path : Path
        File to write.
    """
    from matplotlib.figure import Figure

    channel = int(np.argmax(scene.true.var(axis=0)))
    pixel = int(np.argmax(scene.true.sum(axis=1)))
    top = float(scene.true[:, channel].max())
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=[1.0, 1.05])
    upper, lower = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])

    panels = (
        ("true", scene.true, "magma", 0.0, top),
        ("measured, 30 % of entries corrupted", scene.measured, "magma", 0.0, top),
        ("recovered", parts.low_rank, "magma", 0.0, top),
        ("estimated noise", parts.noise, "coolwarm", -20.0, 20.0),
    )
    for axes, (title, samples, colours, low, high) in zip(upper.subplots(1, 4), panels, strict=True):
        axes.imshow(scene.image(samples, channel), cmap=colours, vmin=low, vmax=high)
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()

    spectrum, learning = lower.subplots(1, 2)
    spectrum.plot(scene.measured[pixel], ".", color="0.75", markersize=3, label="measured")
    spectrum.plot(scene.true[pixel], color="black", linewidth=3, alpha=0.35, label="true")
    spectrum.plot(parts.low_rank[pixel], color="crimson", linewidth=1, label="recovered")
    height = 1.25 * float(scene.true[pixel].max())
    spectrum.set(title="spectrum of one pixel", xlabel="channel", ylim=(-0.25 * height, height))
    for name, curve in curves.items():
        learning.plot(*zip(*curve, strict=True), label=name)
    learning.set(
        title="subspace recovered, one pass",
        xlabel="samples seen",
        ylabel="expressed variance",
        ylim=(0.0, 1.03),
    )
    for axes in (spectrum, learning):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
