"""The report on a fitted model: one HTML page that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxnorm.core.types import Array
from maxnorm.estimators import Recommender, SeriesImputer, VideoBackground
from maxnorm.plot._figures import as_image, check_shape, is_image
from maxnorm.report_data import feature_names, feature_shape_of, model_deviations
from maxnorm.report_page import counted, make_figure, make_page, make_table
from maxnorm.report_samples import MOST_ROWS, MUCH, Survey
from maxnorm.series import N_DISTANCES
from maxnorm.svg import bar_chart, curve_chart, image, line_chart

MOST_BARS = 20  # components of which the variance is drawn
MOST_COMPONENTS = 6  # components that are drawn
MOST_SERIES = 6  # series whose filled gaps are drawn
FEW_SAMPLES = 10  # samples per component that calls for a warning

Shape = tuple[int, ...] | None


def make_model_report(model: Any, X: Any = None, feature_shape: Shape = None) -> str:
    """Return the report on a fitted model as HTML.

    Parameters
    ----------
    model : estimator
        The fitted model.
    X : array, data frame, sparse matrix, Dask collection or Stream, default=None
        Samples whose gross errors are shown. They are read once, in batches.
    feature_shape : tuple of int, default=None
        Shape of a sample. None means that of the samples if X is an array of images.

    Returns
    -------
    str
        The page.
    """
    check_is_fitted(model)
    parts = describe(model, X, feature_shape)
    parameters = [(name, _short(value)) for name, value in model.get_params(deep=False).items()]
    return make_page(type(model).__name__, [*parts, "<h2>Parameters</h2>", make_table(parameters)])


def summary_html(model: Any) -> str:
    """Return what was found as a small table for notebooks; an empty text if the model cannot say it.

    A notebook must show a model whatever its state is, so that no error is raised.
    """
    with suppress(Exception):
        rows = "".join(
            f'<tr><td style="text-align:left">{escape(name)}</td>'
            f'<td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in summarise(model).items()
        )
        return f'<table class="maxnorm-found"><tbody>{rows}</tbody></table>'
    return ""


# -- decompositions, completions and anomaly detectors ------------------------------------------------


@singledispatch
def summarise(model: Any) -> dict[str, str]:
    """Return what a fitted model has found, as names and texts."""
    inner = getattr(model, "estimator_", model)
    found = {"features": f"{model.n_features_in_:,}"}
    if hasattr(inner, "components_"):
        found["components"] = f"{len(inner.components_):,}"
    if hasattr(model, "n_samples_seen_"):
        found["samples learnt from"] = f"{model.n_samples_seen_:,}"
    if hasattr(inner, "explained_variance_ratio_"):
        found["share of the variance explained"] = f"{inner.explained_variance_ratio_.sum():.1%}"
        found |= summarise_noise(inner)
    if hasattr(model, "offset_"):
        found["score below which a row is an anomaly"] = f"{model.offset_:.4g}"
    if hasattr(model, "changes_"):
        found["changes of the stream"] = f"{len(model.changes_):,}"
    return found


def summarise_noise(model: Any) -> dict[str, str]:
    """Return what a factor model says about noise and gross errors, as names and texts."""
    found, deviations = {}, model_deviations(model)
    assert deviations is not None
    used = deviations > 0.0
    if used.any():
        typical = np.median(np.sqrt(model.noise_variance_[used]) / deviations[used])
        found["noise of a typical feature"] = f"{typical:.1%} of its standard deviation"
    found["estimated share of gross errors"] = f"{model._model().gross_share:.2%}"
    return found


@singledispatch
def describe(model: Any, X: Any, feature_shape: Shape) -> Iterator[str]:
    """Yield the parts of the page of a model, from the summary to what was found in the samples X."""
    shape = check_shape(feature_shape_of(X) if feature_shape is None else feature_shape, model.n_features_in_)
    survey = None if X is None else Survey(model, X, shape)
    yield make_table([*summarise(model).items(), *(() if survey is None else survey.summary())])
    yield "<h2>Warnings</h2>"
    notes = [*warnings_of_model(model), *(() if survey is None else survey.warnings())]
    yield "".join(f"<p>{escape(note)}</p>" for note in notes) or "<p>Nothing unusual was noticed.</p>"
    yield "<h2>Components</h2>"
    yield from describe_components(model, shape)
    yield from noise_per_feature(model)
    if survey is not None:
        yield from survey.pictures()
    if hasattr(model, "changes_"):
        yield "<h2>Changes of the stream</h2>"
        yield table_of_changes(model)


def warnings_of_model(model: Any) -> Iterator[str]:
    """Yield what may be wrong with a model."""
    inner = getattr(model, "estimator_", model)
    components = getattr(inner, "components_", None)
    if components is not None and not np.any(components):
        yield "The low-rank part is zero: the model has found no structure that samples share."
    n_samples = getattr(model, "n_samples_seen_", None)
    if components is not None and n_samples is not None and n_samples < FEW_SAMPLES * len(components):
        yield (
            f"The model has {counted(len(components), 'component')} but has learnt from "
            f"{counted(n_samples, 'sample')} only. Pass more samples, or a smaller n_components."
        )
    with suppress(AttributeError):
        share = inner._model().gross_share
        if share > MUCH:
            yield (
                f"An estimated {share:.0%} of the entries learnt from are gross errors. If they are not "
                "errors, pass noise='none'."
            )


def describe_components(model: Any, shape: Shape) -> Iterator[str]:
    """Yield charts of the variance that the components explain, and of the first components."""
    inner = getattr(model, "estimator_", model)
    components = np.asarray(inner.components_)
    if not len(components):
        yield "<p>The model has no components.</p>"
        return
    yield make_figure(spectrum(inner))
    rest = f" (the first {MOST_COMPONENTS} of {len(components)})" if len(components) > MOST_COMPONENTS else ""
    shown = components[:MOST_COMPONENTS]
    if is_image(shape) and components.shape[1] == model.n_features_in_:
        titles = [f"Component {k + 1}" for k in range(len(shown))]
        figures = [
            make_figure(image(as_image(values, shape), title), title)
            for values, title in zip(shown, titles, strict=True)
        ]
        yield f'<p class="soft">The components as images{rest}: red is positive, blue negative.</p>'
        yield f'<div class="pictures">{"".join(figures)}</div>'
        return
    names = feature_names(model)
    # A detector with lags has the features once more for each lag.
    ends = (names[0], names[-1] if len(names) == components.shape[1] else f"{names[-1]}, last lag")
    yield f'<p class="soft">The components over the features{rest}.</p>'
    for k, values in enumerate(shown):
        yield make_figure(curve_chart(values, ends, f"Component {k + 1}"), f"Component {k + 1}")


def spectrum(model: Any) -> str:
    """Return a chart of the variance that each component explains."""
    values, title = spectrum_of(model)
    rest = f" (the first {MOST_BARS} of {len(values)})" if len(values) > MOST_BARS else ""
    return bar_chart(values[:MOST_BARS].tolist(), title + rest)


def spectrum_of(model: Any) -> tuple[Array, str]:
    """Return shares of the variance or, if a model does not know them, relative singular values."""
    if hasattr(model, "explained_variance_ratio_"):
        return model.explained_variance_ratio_, "Share of the variance that each component explains"
    values = getattr(model, "singular_values_", None)
    if values is None:
        values = np.linalg.svd(model.components_.astype(np.float64), compute_uv=False)
    return values / (values.max() or 1.0), "Singular values, as shares of the largest"


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
    if not model.changes_:
        return "<p>No change was noticed.</p>"
    rows = [("after sample", "kind", "angle of the basis")]
    for change in model.changes_:
        angle = "not known yet" if change.angle is None else f"{np.degrees(change.angle):.0f}°"
        rows.append((f"{change.sample:,}", change.kind, angle))
    return make_table(rows, has_header=True)


# -- other estimators ---------------------------------------------------------------------------------


@summarise.register
def _(model: Recommender) -> dict[str, str]:
    ratings = model.ratings_
    stars, (n_users, n_items) = ratings.matrix.data, ratings.matrix.shape
    return {
        "users": f"{n_users:,}",
        "items": f"{n_items:,}",
        "ratings": f"{len(stars):,}, from {stars.min():g} to {stars.max():g}, {stars.mean():.3g} on average",
        "share of the ratings that are known": f"{len(stars) / (n_users * n_items):.2%}",
        "components": f"{len(model.model_.components_):,}",
    }


@describe.register
def _(model: Recommender, X: Any, feature_shape: Shape) -> Iterator[str]:
    refuse_samples(model, X, feature_shape)
    yield make_table(list(summarise(model).items()))
    yield "<h2>Components</h2>"
    yield make_figure(spectrum(model.model_))
    yield "<h2>Items with the most ratings</h2>"
    matrix = model.ratings_.matrix.tocsc()
    counts = np.diff(matrix.indptr)
    rows = [("item", "ratings", "mean rating")]
    for j in np.argsort(-counts, kind="stable")[:MOST_ROWS]:
        mean = matrix.data[matrix.indptr[j] : matrix.indptr[j + 1]].mean()
        rows.append((str(model.ratings_.items[j]), f"{counts[j]:,}", f"{mean:.3g}"))
    yield make_table(rows, has_header=True)


@summarise.register
def _(model: SeriesImputer) -> dict[str, str]:
    short, long = model.weights_[0], model.weights_[N_DISTANCES - 1]
    return {
        "series": f"{model.n_features_in_:,}",
        "components": f"{len(model.model_.components_):,}",
        **{
            f"weight of {way}": f"{near:.0%} in short gaps, {far:.0%} in long ones"
            for way, near, far in zip(model.ways_, short, long, strict=True)
        },
    }


@describe.register
def _(model: SeriesImputer, X: Any, feature_shape: Shape) -> Iterator[str]:
    refuse_samples(model, None, feature_shape)
    yield make_table(list(summarise(model).items()))
    if X is not None:
        yield from filled_series(model, X)
    yield "<h2>Components</h2>"
    yield make_figure(spectrum(model.model_))


def filled_series(model: SeriesImputer, X: Any) -> Iterator[str]:
    """Yield charts of the series with the most gaps, before and after these are filled."""
    values, filled = np.asarray(X, dtype=np.float64), np.asarray(model.transform(X), dtype=np.float64)
    counts, names = np.isnan(values).sum(axis=0), feature_names(model)
    yield "<h2>Filled gaps</h2>"
    if not counts.any():
        yield "<p>The data have no gaps.</p>"
        return
    yield '<p class="soft">The filled series are blue, and red dots mark what was missing.</p>'
    for j in np.argsort(-counts, kind="stable")[:MOST_SERIES]:
        if counts[j]:
            caption = f"{names[j]}: {counts[j]:,} of {len(values):,} entries filled"
            gaps = np.flatnonzero(np.isnan(values[:, j]))
            yield make_figure(line_chart(filled[:, j], filled[:, j], gaps, (), caption), caption)


@summarise.register
def _(model: VideoBackground) -> dict[str, str]:
    height, width = model.frame_shape_[:2]
    return {
        "frames seen": f"{model.n_frames_:,}",
        "size of a frame": f"{width} x {height} pixels, {'in colour' if is_colour(model) else 'grey'}",
        "brightness of the last frame": f"{model.brightness_:.2f}",
    }


@describe.register
def _(model: VideoBackground, X: Any, feature_shape: Shape) -> Iterator[str]:
    refuse_samples(model, X, feature_shape)
    yield make_table(list(summarise(model).items()))
    yield "<h2>Background</h2>"
    background = model.as_bytes(model.background_).astype(np.float64)
    grey = background.mean(axis=2) if background.ndim == 3 else background
    yield make_figure(image(grey, "The background", (0.0, 255.0)))


def is_colour(model: VideoBackground) -> bool:
    """Return whether the frames of a film have colours."""
    return len(model.frame_shape_) == 3 and model.frame_shape_[2] == 3


def refuse_samples(model: Any, X: Any, feature_shape: Shape) -> None:
    """Raise an error if samples are given to a report that does not show them."""
    name = type(model).__name__
    if X is not None:
        raise TypeError(f"the report on a {name} shows the model only; leave out the data")
    if feature_shape is not None:
        raise TypeError(f"the samples of a {name} have no shape; leave out feature_shape")


def _short(value: Any, longest: int = 80) -> str:
    """Return the representation of a parameter, shortened."""
    text = " ".join(repr(value).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
