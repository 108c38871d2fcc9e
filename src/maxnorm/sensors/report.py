"""The report on a cleaned log: one HTML page that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxnorm.core.types import Mask
from maxnorm.report_page import counted, make_figure, make_page, make_table
from maxnorm.sensors.cleaning import CleanedLog
from maxnorm.svg import bar_chart, heat_map, line_chart

BINS = 160  # columns of the map of anomalies
WORST = 6  # sensors that are drawn
MOST_BARS = 20  # components of a spectrum
MOST_ROWS = 40  # anomalies in the table


def make_report(
    title: str, names: Sequence[str], labels: Sequence[str], log: CleanedLog, settings: Mapping[str, Any]
) -> str:
    """Return the report on a cleaned log as HTML.

    Parameters
    ----------
    title : str
        Name of the log.
    names : sequence of str
        Names of the sensors.
    labels : sequence of str
        Time of each row.
    log : CleanedLog
        What was found.
    settings : mapping
        Further lines of the summary: names and values.

    Returns
    -------
    str
        The page.
    """
    wrong, gaps = log.is_wrong, np.isnan(log.values)
    summary = {
        "rows": f"{len(log.values):,}, from {labels[0]} to {labels[-1]}",
        "sensors": f"{len(names)}",
        "entries missing": f"{gaps.mean():.2%}",
        "entries replaced as spikes": f"{log.is_spike.sum():,} ({log.is_spike.mean():.2%})",
        "entries replaced because a sensor was stuck": f"{log.is_stuck.sum():,}",
        "rows with something unusual": f"{(wrong.any(axis=1) | (log.decision < 0)).sum():,}",
        "changes of the process": ", ".join(f"row {i + 1:,} ({labels[i]})" for i in log.changes) or "none",
        **settings,
    }
    parts = [
        make_table([(name, str(value)) for name, value in summary.items()]),
        "<h2>Where the anomalies are</h2>",
        make_figure(map_of_anomalies(wrong, names, labels)),
        '<p class="soft">Each column is a stretch of time. The stronger its colour, the larger the share '
        "of the entries of the sensor that are wrong.</p>",
        "<h2>Before and after</h2>",
        *before_and_after(names, log),
        "<h2>What the model found</h2>",
        *(describe_segment(segment, labels) for segment in log.segments),
        "<h2>Largest anomalies</h2>",
        table_of_anomalies(names, labels, log),
    ]
    return make_page(title, parts)


def map_of_anomalies(wrong: Mask, names: Sequence[str], labels: Sequence[str]) -> str:
    """Return the map of anomalies over time and sensors."""
    parts = np.array_split(wrong, min(BINS, len(wrong)))
    shares = np.array([part.mean(axis=0) for part in parts]).T
    return heat_map(shares, names, (labels[0], labels[-1]), "Share of wrong entries of each sensor over time")


def before_and_after(names: Sequence[str], log: CleanedLog) -> list[str]:
    """Return charts of the sensors with the most wrong entries."""
    counts = log.is_wrong.sum(axis=0)
    worst = [j for j in np.argsort(-counts, kind="stable")[:WORST] if counts[j]]
    if not worst:
        return ["<p>No entry was replaced.</p>"]
    charts = [
        '<p class="soft">The log as it was is grey, the cleaned one blue; replaced entries are red. Entries '
        "far beyond the scale are drawn at its edge. A dashed line marks a change of the process.</p>"
    ]
    for j in worst:
        rows = np.flatnonzero(log.is_wrong[:, j])
        caption = f"{names[j]}: {counts[j]:,} {'entry' if counts[j] == 1 else 'entries'} replaced"
        chart = line_chart(log.values[:, j], log.cleaned[:, j], rows, log.changes, caption)
        charts.append(make_figure(chart, caption))
    return charts


def describe_segment(segment: Any, labels: Sequence[str]) -> str:
    """Return the spectrum of the model of a segment."""
    model = segment.detector.estimator_
    shares = model.explained_variance_ratio_[:MOST_BARS].tolist()
    title = (
        f"{labels[segment.start]} to {labels[segment.stop - 1]}: "
        f"{counted(model.n_components_, 'component')}, and the share of the variance that each explains"
    )
    return make_figure(bar_chart(shares, title))


def table_of_anomalies(names: Sequence[str], labels: Sequence[str], log: CleanedLog) -> str:
    """Return a table of the entries that deviate most."""
    size = np.where(log.is_spike, np.abs(log.deviation), 0.0).ravel()
    largest = [k for k in np.argsort(-size, kind="stable")[:MOST_ROWS] if size[k]]
    rows: list[tuple[str, ...]] = [("time", "sensor", "value", "expected", "deviations")]
    for i, j in (divmod(int(k), len(names)) for k in largest):
        numbers = (log.values[i, j], log.expected[i, j], log.deviation[i, j])
        rows.append((labels[i], names[j], *(f"{number:.5g}" for number in numbers)))
    return make_table(rows, has_header=True) if len(rows) > 1 else "<p>No spike was found.</p>"
