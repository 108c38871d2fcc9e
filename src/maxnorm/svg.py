"""Small charts and images as text, for pages that need no other file."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxnorm.core.types import Array

WIDTH = 960
LEFT = 70  # width of the numbers beside a chart of lines
MOST_POINTS = 1200  # of a line; of more, the least and the largest of each group are drawn
MOST_MARKS = 400  # entries that are marked in a chart
MOST_PIXELS = 200  # of a side of an image; of a larger one, every second pixel or fewer are drawn
RED, BLUE = (178.0, 24.0, 43.0), (33.0, 102.0, 172.0)  # colours of the extremes of an image


def heat_map(shares: Array, names: Sequence[str], labels: Sequence[str], title: str) -> str:
    """Return a chart of shares between zero and one: names in rows, time in columns.

    Parameters
    ----------
    shares : array of shape (n_names, n_bins)
        The shares.
    names : sequence of str
        Names of the rows.
    labels : sequence of str
        The first and the last time.
    title : str
        What the chart shows, for readers who cannot see it.
    """
    left, height = 170, 16
    step = (WIDTH - left) / shares.shape[1]
    parts = []
    for j, (name, row) in enumerate(zip(names, shares, strict=True)):
        y = j * height
        parts.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(shorten(name))}</text>')
        parts.append(
            f'<rect class="empty" x="{left}" y="{y + 1}" width="{WIDTH - left}" height="{height - 2}"/>'
        )
        for k in np.flatnonzero(row > 0.0):
            strength = 0.1 + 0.9 * float(row[k]) ** 0.5
            parts.append(
                f'<rect class="wrong" x="{left + k * step:.1f}" y="{y + 1}" width="{max(step, 1.0):.1f}" '
                f'height="{height - 2}" fill-opacity="{strength:.2f}"><title>{escape(name)}: '
                f"{row[k]:.0%}</title></rect>"
            )
    bottom = len(names) * height + 16
    parts.append(f'<text x="{left}" y="{bottom}">{escape(labels[0])}</text>')
    parts.append(f'<text x="{WIDTH}" y="{bottom}" text-anchor="end">{escape(labels[1])}</text>')
    return frame(parts, bottom + 6, title)


@dataclass(frozen=True)
class Plane:
    """Where the entries of series are drawn.

    Parameters
    ----------
    n : int
        Number of entries.
    low, high : float
        Values at the lower and upper edge, at which values beyond them are drawn.
    height : int
        Height of the chart.
    """

    n: int
    low: float
    high: float
    height: int

    def x(self, i: float) -> float:
        """Return the horizontal coordinate of a position."""
        return LEFT + (WIDTH - LEFT) * i / max(self.n - 1, 1)

    def y(self, value: float) -> float:
        """Return the vertical coordinate of a value."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.height - 8 - (self.height - 16) * share

    def line(self, values: Array, kind: str) -> str:
        """Return a series as a line."""
        points = " ".join(f"{self.x(i):.1f},{self.y(values[i]):.1f}" for i in envelope(values))
        return f'<polyline class="{kind}" points="{points}"/>'

    def marks(self, values: Array, positions: NDArray[np.integer[Any]]) -> list[str]:
        """Return dots at some entries, or at entries evenly chosen from too many."""
        count = min(len(positions), MOST_MARKS)
        shown = positions[np.linspace(0, len(positions) - 1, count).astype(int)]
        return [
            f'<circle class="wrong" cx="{self.x(i):.1f}" cy="{self.y(values[i]):.1f}" r="2.5"/>'
            for i in shown
        ]

    def number(self, value: float) -> str:
        """Return the text of a value beside the chart."""
        return f'<text x="{LEFT - 6}" y="{self.y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>'


def line_chart(
    before: Array,
    after: Array,
    wrong: NDArray[np.integer[Any]],
    changes: Sequence[int],
    title: str,
    height: int = 150,
) -> str:
    """Return a chart of a series before and after cleaning, in which wrong entries and changes are marked.

    Parameters
    ----------
    before, after : array of shape (n,)
        The series; NaN marks missing entries.
    wrong : array of int
        Positions of wrong entries.
    changes : sequence of int
        Positions of changes of the process.
    title : str
        What the chart shows, for readers who cannot see it.
    height : int, default=150
        Height of the chart.
    """
    low, high = float(np.nanmin(after)), float(np.nanmax(after))
    margin = 0.3 * (high - low) or 1.0  # wrong entries beyond it are drawn at the edge
    plane = Plane(len(after), low - margin, high + margin, height)
    places = [f"{plane.x(i):.1f}" for i in changes]
    parts = [f'<line class="change" x1="{x}" x2="{x}" y1="0" y2="{height}"/>' for x in places]
    parts += [plane.line(before, "before"), plane.line(after, "after"), *plane.marks(before, wrong)]
    return frame([*parts, plane.number(low), plane.number(high)], height, title)


def curve_chart(
    values: Array, labels: Sequence[str], title: str, *, limit: float | None = None, height: int = 110
) -> str:
    """Return a chart of one series, in which entries below a limit are marked.

    Parameters
    ----------
    values : array of shape (n,)
        The series.
    labels : sequence of str
        Names of the first and the last entry.
    title : str
        What the chart shows, for readers who cannot see it.
    limit : float, default=None
        The limit, which is drawn as a dashed line. None means that there is none.
    height : int, default=110
        Height of the chart.
    """
    levels = [*values[np.isfinite(values)].tolist(), *([] if limit is None else [limit])] or [0.0]
    low, high = min(levels), max(levels)
    plane = Plane(len(values), low, high if high > low else low + 1.0, height)
    parts = [plane.line(values, "after"), plane.number(low), plane.number(high)]
    if limit is not None:
        y = f"{plane.y(limit):.1f}"
        parts.append(f'<line class="change" x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}"/>')
        parts += plane.marks(values, np.flatnonzero(values < limit))
    parts.append(f'<text x="{LEFT}" y="{height + 12}">{escape(shorten(labels[0]))}</text>')
    parts.append(f'<text x="{WIDTH}" y="{height + 12}" text-anchor="end">{escape(shorten(labels[1]))}</text>')
    return frame(parts, height + 18, title)


def bar_chart(values: Sequence[float], title: str) -> str:
    """Return a chart of shares, numbered from one."""
    height, step = 120, 36
    parts = []
    for k, value in enumerate(values):
        size = (height - 34) * min(value, 1.0)
        x = 10 + k * step
        parts.append(
            f'<rect class="bar" x="{x}" y="{height - 18 - size:.1f}" width="26" height="{size:.1f}"/>'
        )
        parts.append(
            f'<text x="{x + 13}" y="{height - 22 - size:.1f}" text-anchor="middle">{value:.0%}</text>'
        )
        parts.append(f'<text x="{x + 13}" y="{height - 4}" text-anchor="middle">{k + 1}</text>')
    return f"<figcaption>{escape(title)}</figcaption>" + frame(parts, height, title)


def frame(parts: Sequence[str], height: float, title: str) -> str:
    """Return the parts of a chart as a chart, with a title for readers who cannot see it."""
    opening = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">'
    return opening + "".join(parts) + "</svg>"


def image(values: Array, title: str, limits: tuple[float, float] | None = None) -> str:
    """Return a matrix as an image that is part of the page, in grey or in colours.

    Parameters
    ----------
    values : array of shape (height, width)
        The matrix; NaN, which is missing, has a colour of its own.
    title : str
        What the image shows, for readers who cannot see it.
    limits : tuple of float, default=None
        Values that are black and white. None means that negative values are blue, zero is white and positive
        values are red.
    """
    step = -(-max(values.shape) // MOST_PIXELS)
    shown = values[::step, ::step].astype(np.float64)
    pixels = _signed_colours(shown) if limits is None else _grey(shown, *limits)
    pixels[np.isnan(shown)] = (255, 210, 77)
    source = base64.b64encode(png(pixels)).decode()
    return f'<img class="picture" alt="{escape(title)}" src="data:image/png;base64,{source}">'


def _grey(values: Array, low: float, high: float) -> NDArray[np.uint8]:
    shares = np.clip((np.nan_to_num(values) - low) / ((high - low) or 1.0), 0.0, 1.0)
    return np.repeat(np.rint(255.0 * shares)[..., None], 3, axis=2).astype(np.uint8)


def _signed_colours(values: Array) -> NDArray[np.uint8]:
    values = np.nan_to_num(values)
    shares = np.abs(values)[..., None] / (np.abs(values).max() or 1.0)
    extreme = np.where(values[..., None] > 0.0, RED, BLUE)
    return np.rint(255.0 + shares * (extreme - 255.0)).astype(np.uint8)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return an image of shape (height, width, 3) as a PNG file."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    chunks += [(b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def envelope(values: Array) -> list[int]:
    """Return the positions of the entries that are drawn: all, or the extremes of groups of entries."""
    there = np.flatnonzero(~np.isnan(values))
    if len(there) <= MOST_POINTS:
        return there.tolist()
    positions: list[int] = []
    for group in np.array_split(there, MOST_POINTS // 2):
        extremes = {int(group[np.argmin(values[group])]), int(group[np.argmax(values[group])])}
        positions += sorted(extremes)
    return positions


def shorten(name: str, longest: int = 22) -> str:
    """Return a name that is not too long."""
    return name if len(name) <= longest else name[: longest - 1] + "…"
