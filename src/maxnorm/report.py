"""The report on a fitted model: one HTML page that needs no other file and no network."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from maxnorm.core.types import Array
from maxnorm.report_data import Block, NoiseMap, decompose_blocks, feature_names, model_deviations
from maxnorm.report_page import make_page, make_table
from maxnorm.svg import bar_chart, heat_map, line_chart

BINS = 160  # columns of the map of gross errors
MOST_BARS = 20  # components of which the variance is drawn
MOST_FEATURES = 40  # features in the map
MOST_ROWS = 20  # features and samples in tables
WORST = 3  # samples that are drawn
MUCH = 0.25  # share of gross errors that calls for a warning
FEW_SAMPLES = 10  # samples per component that calls for a warning


def make_model_report(model: Any, X: Any = None, title: str | None = None) -> str:
    """Return the report on a fitted model as HTML.

    Parameters
    ----------
    model : estimator
        A fitted decomposition, completion or anomaly detector.
    X : array, data frame, sparse matrix, Dask collection or Stream, default=None
        Samples whose gross errors are shown. They are read once, in batches.
    title : str, default=None
        Title of the page. None means the name of the estimator.

    Returns
    -------
    str
        The page.
    """
    check_is_fitted(model)
    survey = None if X is None else Survey(model, X)
    notes = [*warnings_of_model(model), *(() if survey is None else survey.warnings())]
    parts = [
        make_table([*summarise(model).items(), *(() if survey is None else survey.summary())]),
        "<h2>Warnings</h2>",
        "".join(f"<p>{escape(note)}</p>" for note in notes) or "<p>There is none.</p>",
        "<h2>Components</h2>",
        spectrum(model),
        *noise_per_feature(model),
        *(() if survey is None else survey.pictures()),
        "<h2>Changes of the stream</h2>",
        table_of_changes(model),
        "<h2>Parameters</h2>",
        make_table([(name, _short(value)) for name, value in model.get_params(deep=False).items()]),
    ]
    return make_page(title or type(model).__name__, parts)


def summarise(model: Any) -> dict[str, str]:
    """Return what a fitted model has found, as names and texts."""
    inner = getattr(model, "estimator_", model)
    found = {"estimator": type(model).__name__, "features": f"{model.n_features_in_:,}"}
    if hasattr(inner, "components_"):
        found["components"] = f"{len(inner.components_):,}"
    if hasattr(model, "n_samples_seen_"):
        found["samples learnt from"] = f"{model.n_samples_seen_:,}"
    if hasattr(inner, "explained_variance_ratio_"):
        found["share of the variance explained"] = f"{inner.explained_variance_ratio_.sum():.1%}"
        deviations = model_deviations(inner)
        assert deviations is not None
        used = deviations > 0.0
        if used.any():
            typical = np.median(np.sqrt(inner.noise_variance_[used]) / deviations[used])
            found["noise of a typical feature"] = f"{typical:.1%} of its standard deviation"
        found["entries classified as gross errors"] = f"{inner._model().gross_share:.2%}"
    if hasattr(model, "offset_"):
        found["score below which a row is an anomaly"] = f"{model.offset_:.4g}"
    if hasattr(model, "changes_"):
        found["changes of the stream"] = f"{len(model.changes_):,}"
    return found


def summary_html(model: Any) -> str:
    """Return what was found as a small table for notebooks; an empty text if the model cannot say it.

    A notebook must show a model whatever its state is, so that no error is raised.
    """
    with suppress(Exception):
        rows = "".join(
            f'<tr><td style="text-align:left">{escape(name)}</td>'
            f'<td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in summarise(model).items()
            if name != "estimator"
        )
        return f'<table class="maxnorm-found"><tbody>{rows}</tbody></table>'
    return ""


def warnings_of_model(model: Any) -> Iterator[str]:
    """Yield what may be wrong with a model."""
    inner = getattr(model, "estimator_", model)
    components = getattr(inner, "components_", None)
    if components is not None and not np.any(components):
        yield "The low-rank part is zero: the model has found no structure that samples share."
    n_samples = getattr(model, "n_samples_seen_", None)
    if components is not None and n_samples is not None and n_samples < FEW_SAMPLES * len(components):
        yield (
            f"The model has {len(components)} components but has learnt from {n_samples} samples only. "
            "Pass more samples, or a smaller n_components."
        )
    with suppress(AttributeError):
        share = inner._model().gross_share
        if share > MUCH:
            yield (
                f"{share:.0%} of the entries learnt from were classified as gross errors. If they are not "
                "errors, pass noise='none'."
            )


def spectrum(model: Any) -> str:
    """Return a chart of the variance that each component explains."""
    inner = getattr(model, "estimator_", model)
    if hasattr(inner, "explained_variance_ratio_"):
        values, title = inner.explained_variance_ratio_, "Share of the variance that each component explains"
    elif hasattr(inner, "components_"):
        values = getattr(inner, "singular_values_", None)
        if values is None:
            values = np.linalg.svd(inner.components_.astype(np.float64), compute_uv=False)
        values = values / (values.max() if values.size and values.max() > 0.0 else 1.0)
        title = "Singular values, as shares of the largest"
    else:
        return "<p>This estimator has no components.</p>"
    if not len(values):
        return "<p>The model has no components.</p>"
    rest = f" (the first {MOST_BARS} of {len(values)})" if len(values) > MOST_BARS else ""
    return f"<figure>{bar_chart(values[:MOST_BARS].tolist(), title + rest)}</figure>"


def noise_per_feature(model: Any) -> Iterator[str]:
    """Yield a table of the features with the largest dense noise, relative to their deviations."""
    inner = getattr(model, "estimator_", model)
    deviations = model_deviations(inner)
    if deviations is None:
        return
    names = feature_names(model)
    p = len(names)  # a detector with lags has further features
    noise = np.sqrt(inner.noise_variance_)[:p]
    share = noise / np.where(deviations[:p] > 0.0, deviations[:p], 1.0)
    rows = [("feature", "standard deviation", "of which is noise", "share")]
    for j in np.argsort(-share, kind="stable")[:MOST_ROWS]:
        rows.append((names[j], f"{deviations[j]:.4g}", f"{noise[j]:.4g}", f"{share[j]:.1%}"))
    yield "<h2>Noise of the features</h2>"
    yield '<p class="soft">The features that the components explain least come first.</p>'
    yield make_table(rows, has_header=True)


def table_of_changes(model: Any) -> str:
    """Return a table of the changes of the stream."""
    changes = getattr(model, "changes_", [])
    if not changes:
        return "<p>None was noticed.</p>"
    rows = [("after sample", "kind", "angle of the basis")]
    for change in changes:
        angle = "not known yet" if change.angle is None else f"{np.degrees(change.angle):.0f}°"
        rows.append((f"{change.sample:,}", change.kind, angle))
    return make_table(rows, has_header=True)


class Survey:
    """What a model finds in samples, which are read once.

    Parameters
    ----------
    model : estimator
        The fitted model.
    X : array, data frame, sparse matrix, Dask collection or Stream
        The samples.
    """

    def __init__(self, model: Any, X: Any) -> None:
        self.names = feature_names(model)
        self.map = NoiseMap(len(self.names), BINS)
        self.worst: list[tuple[float, int, Array, Array, Array]] = []  # total, position, and the parts
        self.totals: list[tuple[float, int, str]] = []  # total, position, and the features
        self.is_converged = True
        known = model_deviations(getattr(model, "estimator_", model))
        scales = None if known is None else known[: len(self.names)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            for block in decompose_blocks(model, X):
                self.map.add(block)
                scales = self.map.deviations if scales is None or not (scales > 0.0).all() else scales
                self._rank(block, scales)
        self.is_converged = not any(issubclass(note.category, ConvergenceWarning) for note in caught)

    def _rank(self, block: Block, scales: Array) -> None:
        """Keep the samples with the largest gross errors, in standard deviations of the features."""
        sizes = np.abs(block.noise / scales)
        totals = sizes.sum(axis=1)
        for i in np.argsort(-totals, kind="stable")[:MOST_ROWS]:
            if totals[i] > 0.0:
                largest = [j for j in np.argsort(-sizes[i], kind="stable")[:3] if sizes[i, j] > 0.0]
                text = ", ".join(self.names[j] for j in largest)
                row = block.first + int(i)
                self.totals.append((float(totals[i]), row, text))
                parts = (block.values[i].copy(), block.low_rank[i].copy(), block.noise[i].copy())
                self.worst = _largest([*self.worst, (float(totals[i]), row, *parts)], WORST)
        self.totals = _largest(self.totals, MOST_ROWS)

    def summary(self) -> Iterator[tuple[str, str]]:
        """Yield further lines of the summary."""
        n_entries = self.map.n_samples * len(self.names)
        yield "samples in the data", f"{self.map.n_samples:,}"
        yield "entries missing in the data", f"{self.map.n_missing.sum() / n_entries:.2%}"
        n_wrong = int(self.map.n_wrong.sum())
        yield "gross errors in the data", f"{n_wrong:,} ({n_wrong / n_entries:.2%} of the entries)"

    def warnings(self) -> Iterator[str]:
        """Yield what may be wrong with the data, or with the model of them."""
        n = self.map.n_samples
        if not self.is_converged:
            yield "The solver did not converge for some samples, whose parts are approximate. Raise max_iter."
        share = self.map.n_wrong.sum() / (n * len(self.names))
        if share > MUCH:
            yield f"{share:.0%} of the entries of the data are gross errors. The model may not suit them."
        for j in np.flatnonzero(self.map.n_missing == n)[:MOST_ROWS]:
            yield f"Feature {self.names[j]} has no value in the data."
        for j in np.flatnonzero(self.map.n_wrong > 0.5 * n)[:MOST_ROWS]:
            yield f"Most entries of feature {self.names[j]} are gross errors: it may be faulty."

    def pictures(self) -> Iterator[str]:
        """Yield the map of gross errors, what is most affected, and the worst samples."""
        counts, n = self.map.n_wrong, self.map.n_samples
        order = [j for j in np.argsort(-counts, kind="stable") if counts[j]]
        yield "<h2>Where the gross errors are</h2>"
        if not order:
            yield "<p>There is none.</p>"
            return
        shown = order[:MOST_FEATURES]
        names = [self.names[j] for j in shown]
        chart = heat_map(self.map.shares[:, shown].T, names, ("sample 0", f"sample {n - 1:,}"))
        yield f"<figure>{chart}</figure>"
        yield (
            '<p class="soft">Each row is a feature, and each column a stretch of samples. The stronger the '
            "colour, the larger the share of gross errors. Features with the most of them come first.</p>"
        )
        yield "<h2>Features most affected</h2>"
        rows = [("feature", "gross errors", "share of samples")]
        rows += [(self.names[j], f"{int(counts[j]):,}", f"{counts[j] / n:.2%}") for j in order[:MOST_ROWS]]
        yield make_table(rows, has_header=True)
        yield "<h2>Samples most affected</h2>"
        rows = [("sample", "sum of the errors, in standard deviations", "features with the largest errors")]
        rows += [(f"{row:,}", f"{total:.4g}", text) for total, row, text in self.totals]
        yield make_table(rows, has_header=True)
        yield "<h2>Before and after</h2>"
        yield (
            '<p class="soft">Samples over their features: the measured values are grey, the low-rank part is '
            "blue, and gross errors are marked by red dots. Values far beyond the scale are drawn at its "
            "edge.</p>"
        )
        for _, row, values, low_rank, noise in self.worst:
            wrong = np.flatnonzero((noise != 0.0) & ~np.isnan(values))
            caption = f"Sample {row:,}: {len(wrong):,} gross errors"
            chart = line_chart(values, low_rank, wrong, ())
            yield f"<figure><figcaption>{escape(caption)}</figcaption>{chart}</figure>"


def _largest(items: Sequence[Any], count: int) -> list[Any]:
    """Return the items with the largest first entry, largest first."""
    return sorted(items, key=lambda item: -item[0])[:count]


def _short(value: Any, longest: int = 80) -> str:
    """Return the representation of a parameter, shortened."""
    text = " ".join(repr(value).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
