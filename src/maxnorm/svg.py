"""Small charts as SVG text, for pages that need no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxnorm.core.types import Array

WIDTH = 960
MOST_POINTS = 1200  # of a line; of more, the least and the largest of each group are drawn


def heat_map(shares: Array, names: Sequence[str], labels: Sequence[str]) -> str:
    """Return a chart of shares between zero and one: names in rows, time in columns.

    Parameters
    ----------
    shares : array of shape (n_names, n_bins)
        The shares.
    names : sequence of str
        Names of the rows.
    labels : sequence of str
        The first and the last time.
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
    return frame(parts, bottom + 6)


def line_chart(
    before: Array, after: Array, wrong: NDArray[np.integer[Any]], changes: Sequence[int], height: int = 150
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
    height : int, default=150
        Height of the chart.
    """
    n = len(after)
    low, high = float(np.nanmin(after)), float(np.nanmax(after))
    margin = 0.3 * (high - low) or 1.0  # wrong entries beyond it are drawn at the edge
    low, high = low - margin, high + margin

    def x(i: int) -> float:
        return 70 + (WIDTH - 70) * i / max(n - 1, 1)

    def y(value: float) -> float:
        return height - 8 - (height - 16) * (min(max(value, low), high) - low) / (high - low)

    parts = [f'<line class="change" x1="{x(i):.1f}" x2="{x(i):.1f}" y1="0" y2="{height}"/>' for i in changes]
    for values, kind in ((before, "before"), (after, "after")):
        points = " ".join(f"{x(i):.1f},{y(values[i]):.1f}" for i in envelope(values))
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
    parts += [f'<circle class="wrong" cx="{x(i):.1f}" cy="{y(before[i]):.1f}" r="2.5"/>' for i in wrong]
    for value in (low + margin, high - margin):
        parts.append(f'<text x="64" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    return frame(parts, height)


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
    return f"<figcaption>{escape(title)}</figcaption>" + frame(parts, height)


def frame(parts: Sequence[str], height: float) -> str:
    """Return the parts of a chart as a chart."""
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img">' + "".join(parts) + "</svg>"


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
