"""The part of a report that shows what a model finds in samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxnorm.core.types import Array
from maxnorm.plot._figures import as_image, is_image, labels_of
from maxnorm.report_data import (
    Block,
    NoiseMap,
    ScoreMap,
    Units,
    decompose_blocks,
    feature_names,
    keep_gross_errors,
)
from maxnorm.report_page import counted, make_figure, make_table
from maxnorm.svg import curve_chart, heat_map, image, line_chart

BINS = 80  # columns of the map of gross errors; up to twice as many are drawn
SCORE_BINS = 500  # points of the chart of scores; up to twice as many are drawn
MOST_FEATURES = 40  # features in the map
MOST_ROWS = 20  # features and samples in tables
MOST_REASONS = 3  # features that are named for a sample
WORST = 3  # samples that are drawn
MUCH = 0.25  # share of gross errors that calls for a warning


class Survey:
    """What a model finds in samples, which are read once.

    Parameters
    ----------
    model : estimator
        The fitted model.
    X : array, data frame, sparse matrix, Dask collection or Stream
        The samples.
    shape : tuple of int or None
        Shape of a sample; None if samples are rows of a table.
    """

    def __init__(self, model: Any, X: Any, shape: tuple[int, ...] | None) -> None:
        self.names = feature_names(model)
        self.labels = labels_of(X)
        self.shape = shape
        self.map = NoiseMap(len(self.names), BINS)
        self.worst: list[tuple[float, int, Array, Array, Array]] = []  # total, position, and the parts
        self.totals: list[tuple[float, int, str]] = []  # total, position, and the features
        self.scores = Scores(model, self.names) if hasattr(model, "offset_") else None
        self.n_unfinished = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the page has a warning of its own
            for block, units in keep_gross_errors(model, decompose_blocks(model, X)):
                self._add(block, units)

    def _add(self, block: Block, units: Units) -> None:
        self.map.add(block)
        self.n_unfinished += block.n_unfinished
        self._rank(block, units.deviations)
        if self.scores is not None:
            self.scores.add(block)

    def _rank(self, block: Block, deviations: Array) -> None:
        """Keep the samples with the largest gross errors, in standard deviations of the features."""
        sizes = np.abs(block.noise / deviations)
        totals = sizes.sum(axis=1)
        for i in np.argsort(-totals, kind="stable")[:MOST_ROWS]:
            if totals[i] > 0.0:
                row = block.first + int(i)
                self.totals.append((float(totals[i]), row, name_largest(sizes[i], self.names)))
                parts = (block.values[i].copy(), block.low_rank[i].copy(), block.noise[i].copy())
                self.worst = _largest([*self.worst, (float(totals[i]), row, *parts)], WORST)
        self.totals = _largest(self.totals, MOST_ROWS)

    def summary(self) -> Iterator[tuple[str, str]]:
        """Yield further lines of the summary."""
        n_entries, n_observed = self.map.n_samples * len(self.names), self.map.n_observed.sum()
        yield "samples in the data", f"{self.map.n_samples:,}"
        yield "entries missing in the data", f"{1.0 - n_observed / n_entries:.2%}"
        n_wrong = int(self.map.n_wrong.sum())
        share = n_wrong / max(n_observed, 1.0)
        yield "gross errors in the data", f"{n_wrong:,} ({share:.2%} of the observed entries)"
        if self.scores is not None:
            yield "anomalous rows in the data", f"{self.scores.n_anomalies:,}"

    def warnings(self) -> Iterator[str]:
        """Yield what may be wrong with the data, or with the model of them."""
        if self.n_unfinished:
            yield (
                f"The solver did not converge for {counted(self.n_unfinished, 'sample')}, whose parts are "
                "approximate. Raise max_iter."
            )
        n_wrong, n_observed = self.map.n_wrong, self.map.n_observed
        share = n_wrong.sum() / max(n_observed.sum(), 1.0)
        if share > MUCH:
            yield (
                f"{share:.0%} of the observed entries of the data are gross errors. The model may not suit "
                "the data."
            )
        for j in np.flatnonzero(n_observed == 0.0)[:MOST_ROWS]:
            yield f"Feature {self.names[j]} has no value in the data."
        for j in np.flatnonzero(n_wrong > 0.5 * n_observed)[:MOST_ROWS]:
            yield f"Most entries of feature {self.names[j]} are gross errors: it may be faulty."

    def pictures(self) -> Iterator[str]:
        """Yield the scores of a detector, the map of gross errors, and the features and samples concerned."""
        if self.scores is not None:
            yield from self.scores.pictures(self.labels)
        yield "<h2>Where the gross errors are</h2>"
        if not self.map.n_wrong.any():
            yield "<p>No gross error was found in the data.</p>"
            return
        yield from self._map()
        yield from self._tables()
        yield "<h2>Before and after</h2>"
        yield from self._images() if is_image(self.shape) else self._lines()

    def _order(self) -> list[int]:
        """Return the features with gross errors, those with the most first."""
        counts = self.map.n_wrong
        return [int(j) for j in np.argsort(-counts, kind="stable") if counts[j]]

    def _map(self) -> Iterator[str]:
        shown = self._order()[:MOST_FEATURES]
        ends = [f"sample {name_row(self.labels, row)}" for row in (0, self.map.n_samples - 1)]
        title = "Share of gross errors of each feature over the samples"
        yield make_figure(heat_map(self.map.shares[:, shown].T, [self.names[j] for j in shown], ends, title))
        yield (
            '<p class="soft">Each row is a feature, and each column a stretch of samples. The stronger the '
            "colour, the larger the share of gross errors. Features with the most of them come first.</p>"
        )

    def _tables(self) -> Iterator[str]:
        counts, observed = self.map.n_wrong, self.map.n_observed
        yield "<h2>Features most affected</h2>"
        rows = [("feature", "gross errors", "share of the observed entries")]
        for j in self._order()[:MOST_ROWS]:
            rows.append((self.names[j], f"{int(counts[j]):,}", f"{counts[j] / observed[j]:.2%}"))
        yield make_table(rows, has_header=True)
        yield "<h2>Samples most affected</h2>"
        rows = [("sample", "sum of the errors, in standard deviations", "features with the largest errors")]
        for total, row, text in self.totals:
            rows.append((name_row(self.labels, row), f"{total:.4g}", text))
        yield make_table(rows, has_header=True)

    def _lines(self) -> Iterator[str]:
        yield (
            '<p class="soft">Samples over their features: the measured values are grey, the low-rank part is '
            "blue, and gross errors are marked by red dots. Values far beyond the scale are drawn at its "
            "edge.</p>"
        )
        for _, row, values, low_rank, noise in self.worst:
            wrong = np.flatnonzero((noise != 0.0) & ~np.isnan(values))
            caption = f"Sample {name_row(self.labels, row)}: {counted(len(wrong), 'gross error')}"
            yield make_figure(line_chart(values, low_rank, wrong, (), caption), caption)

    def _images(self) -> Iterator[str]:
        yield (
            '<p class="soft">Images as they were measured, their low-rank part and their gross errors, of '
            "which positive ones are red and negative ones blue. Missing pixels are yellow.</p>"
        )
        for _, row, *parts in self.worst:
            measured, low_rank, noise = (as_image(part, self.shape) for part in parts)
            grey = (float(low_rank.min()), float(low_rank.max()))  # errors must not darken the image
            caption = f"Sample {name_row(self.labels, row)}"
            shown = [
                image(measured, f"{caption}, measured", grey),
                image(low_rank, f"{caption}, low-rank part", grey),
                image(noise, f"{caption}, gross errors"),
            ]
            yield make_figure(f'<div class="pictures">{"".join(shown)}</div>', caption)


class Scores:
    """The scores of samples by an anomaly detector, and the anomalous rows.

    Parameters
    ----------
    detector : AnomalyDetector
        The fitted detector.
    names : sequence of str
        Names of the features.
    """

    def __init__(self, detector: Any, names: Sequence[str]) -> None:
        self.limit = float(detector.offset_)
        self.names = names
        self.map = ScoreMap(SCORE_BINS)
        self.n_anomalies = 0
        self.lowest: list[tuple[float, int, str]] = []  # minus the score, position, and the features

    def add(self, block: Block) -> None:
        """Add the next samples."""
        assert block.scores is not None
        assert block.deviation is not None
        self.map.add(block.scores)
        anomalies = np.flatnonzero(block.scores < self.limit)
        self.n_anomalies += len(anomalies)
        for i in anomalies[np.argsort(block.scores[anomalies], kind="stable")[:MOST_ROWS]]:
            reasons = name_largest(np.nan_to_num(np.abs(block.deviation[i])), self.names)
            self.lowest.append((-float(block.scores[i]), block.first + int(i), reasons))
        self.lowest = _largest(self.lowest, MOST_ROWS)

    def pictures(self, labels: Any) -> Iterator[str]:
        """Yield the chart of scores, and a table of the anomalous rows."""
        ends = [name_row(labels, row) for row in (0, self.map.n_samples - 1)]
        yield "<h2>Scores</h2>"
        chart = curve_chart(self.map.lowest, ends, "Score of each row, and the threshold", limit=self.limit)
        yield make_figure(chart)
        per_point = self.map.rows_per_bin
        grouped = f" Each point is the lowest score of {per_point:,} rows." if per_point > 1 else ""
        yield (
            '<p class="soft">The lower the score, the more unusual the row. Rows below the dashed line are '
            f"anomalies, and are marked by red dots.{grouped}</p>"
        )
        yield "<h2>Anomalous rows</h2>"
        if not self.lowest:
            yield "<p>No row is anomalous.</p>"
            return
        rows = [("row", "score", "features that deviate most")]
        rows += [(name_row(labels, row), f"{-negative:.4g}", text) for negative, row, text in self.lowest]
        yield make_table(rows, has_header=True)


def name_row(labels: Any, row: int) -> str:
    """Return the label of a row, which is its position if the rows have no labels."""
    return f"{row:,}" if labels is None else str(labels[row])


def name_largest(sizes: Array, names: Sequence[str]) -> str:
    """Return the names of the features whose sizes are largest, of those that are not zero."""
    order = np.argsort(-sizes, kind="stable")[:MOST_REASONS]
    return ", ".join(names[j] for j in order if sizes[j] > 0.0)


def _largest(items: Sequence[Any], count: int) -> list[Any]:
    """Return the items with the largest first entry, largest first."""
    return sorted(items, key=lambda item: -item[0])[:count]
