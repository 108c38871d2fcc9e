"""Checks of a model that was read from a file, so that a model that loads is a valid model.

A file may be damaged or written by a stranger, and compiled code trusts the shapes, types and indices of its
arrays. Every function raises a ValueError that names what is wrong.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp

from maxnorm.core.batch import Batch, check_range
from maxnorm.core.bias import BiasModel
from maxnorm.core.drift import Change, Drift, Kind
from maxnorm.core.entry_model import EntryModel, EntrySums, gram_type
from maxnorm.core.factor_model import LEAST_SHARE, MOST_SHARE, SMALLEST_NOISE, FactorModel
from maxnorm.core.gauge import Gauge
from maxnorm.core.linalg import row_norms
from maxnorm.core.patterns import Pattern
from maxnorm.core.precision import range_of
from maxnorm.core.scales import Scales
from maxnorm.core.scene import RULES, Scene
from maxnorm.core.state import Selection, State, surrogate
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.crowded import first_rows
from maxnorm.detection import Judge, Memory
from maxnorm.learner import Progress
from maxnorm.ratings import Ratings
from maxnorm.series import N_DISTANCES

ONLINE_ATTRIBUTES = ("_progress",)
DETECTOR_ATTRIBUTES = ("estimator_", "_memory", "_judge")
FILM_ATTRIBUTES = ("frame_shape_", "_scene", "_dtype", "_unit")
RECOMMENDER_ATTRIBUTES = ("model_", "ratings_")
SERIES_MODELS = ("model_", "lagged_model_", "period_model_", "robust_model_")
SERIES_ATTRIBUTES = (*SERIES_MODELS, "lags_", "usual_period_", "weights_")
PURSUIT_ATTRIBUTES = ("components_", "singular_values_", "low_rank_", "noise_", "n_iter_")
SHARED_ATTRIBUTES = ("n_features_in_", "feature_names_in_", "feature_shape_", "_sklearn_output_config")
LARGEST_LOG = 700.0  # the exponential of a larger number overflows
MERSENNE_TWISTER_WORDS = 624


def learnt_attributes(estimator: Any) -> tuple[str, ...]:
    """Return the names of the attributes in which an estimator keeps what it has learnt."""
    if _is_subtractor(estimator):
        return FILM_ATTRIBUTES
    if _is_recommender(estimator):
        return RECOMMENDER_ATTRIBUTES
    if _is_series_imputer(estimator):
        return SHARED_ATTRIBUTES + SERIES_ATTRIBUTES
    if _is_detector(estimator):
        return SHARED_ATTRIBUTES + DETECTOR_ATTRIBUTES
    return SHARED_ATTRIBUTES + (ONLINE_ATTRIBUTES if _is_online(estimator) else PURSUIT_ATTRIBUTES)


def _is_detector(estimator: Any) -> bool:
    return hasattr(estimator, "score_learn")


def _is_recommender(estimator: Any) -> bool:
    return hasattr(estimator, "similar_items")


def _is_series_imputer(estimator: Any) -> bool:
    return hasattr(estimator, "period")


def _is_subtractor(estimator: Any) -> bool:
    return hasattr(estimator, "getBackgroundImage")


def _is_online(estimator: Any) -> bool:
    return hasattr(estimator, "make_learner")


def check_model(estimator: Any) -> None:
    """Check the parameters of an estimator and everything that it has learnt."""
    if _is_subtractor(estimator):
        _check_subtractor(estimator)
        return
    if _is_recommender(estimator):
        _check_recommender(vars(estimator))
        return
    if _is_series_imputer(estimator):
        _check_series_imputer(estimator)
        return
    for name, value in estimator.get_params(deep=False).items():
        if name in ("noise", "norm") and not isinstance(value, str):
            _check_numbers(value, name)
    learnt = vars(estimator)
    _check_output(learnt.get("_sklearn_output_config", {}))
    if not learnt.keys().isdisjoint(ONLINE_ATTRIBUTES + PURSUIT_ATTRIBUTES + DETECTOR_ATTRIBUTES):
        n_features = estimator.n_features_in_
        _check_integer(n_features, "n_features_in_", least=1)
        _check_names(learnt.get("feature_names_in_"), n_features)
        _check_shape(learnt.get("feature_shape_", (n_features,)), n_features)
        if _is_detector(estimator):
            _check_detector(estimator, n_features)
        elif _is_online(estimator):
            _check_progress(learnt["_progress"], n_features)
        else:
            _check_pursuit(learnt, n_features)
    else:
        _require("n_features_in_" not in learnt, "features are known, but nothing was learnt")
    if _is_online(estimator):
        _check_objective(estimator.make_learner(), learnt.get("_progress"))
    else:
        estimator._check_parameters()


def _check_subtractor(subtractor: Any) -> None:
    subtractor._check_parameters()
    learnt = {name: vars(subtractor).get(name) for name in FILM_ATTRIBUTES}
    if all(value is None for value in learnt.values()):
        return
    shape, scene, unit = learnt["frame_shape_"], learnt["_scene"], learnt["_unit"]
    _require(isinstance(shape, tuple) and len(shape) in (2, 3), "frame_shape_ is not the shape of a frame")
    for size in shape:
        _check_integer(size, "frame_shape_", least=1)
    _require(isinstance(learnt["_dtype"], str), "the type of the frames is not known")
    _require(np.dtype(learnt["_dtype"]).kind in "biuf", "the type of the frames is not known")
    _check_number(unit, "the unit", least=0.0)
    _require(unit > 0.0 and isinstance(scene, Scene), "a part of the subtractor is missing")
    height, width = (-(-size // subtractor._factor) for size in shape[:2])
    channels = 1 if len(shape) == 2 else shape[2]
    _check_scene(scene, height, width, channels)


def _check_recommender(learnt: dict[str, Any]) -> None:
    model, ratings = learnt.get("model_"), learnt.get("ratings_")
    if model is None and ratings is None:
        return
    _require(hasattr(model, "predict_entries"), "the model of the recommender is of the wrong type")
    _require(isinstance(ratings, Ratings), "the ratings of the recommender are of the wrong type")
    assert isinstance(ratings, Ratings)
    _require(isinstance(ratings.matrix, sp.csr_array), "the ratings are not a sparse matrix")
    for labels, length in zip((ratings.users, ratings.items), ratings.matrix.shape, strict=True):
        is_array = isinstance(labels, np.ndarray) and labels.shape == (length,)
        _require(is_array, "users or items have not as many names as there are")
        _require(labels.dtype.kind in "iO", "the names of users or items are neither numbers nor texts")
    _require(bool(np.isfinite(ratings.matrix.data).all()), "a rating is not finite")
    for features, length in zip(
        (ratings.user_features, ratings.item_features), ratings.matrix.shape, strict=True
    ):
        _check_features(features, length)
    is_same = getattr(model, "n_features_in_", None) == ratings.matrix.shape[1]
    _require(is_same, "the model of the recommender has other items")


def _check_features(features: Any, length: int) -> None:
    """Raise an error unless features are a table of so many rows, without infinite entries, or None."""
    if features is None:
        return
    is_table = isinstance(features, np.ndarray) and features.dtype == np.float64 and features.ndim == 2
    _require(is_table and len(features) == length, "features are not a table of numbers of the right length")
    _require(not np.isinf(features).any(), "a feature is infinite")


def _check_series_imputer(imputer: Any) -> None:
    imputer._check_parameters()
    learnt = vars(imputer)
    _check_output(learnt.get("_sklearn_output_config", {}))
    if "model_" not in learnt:
        return
    p, lags, period = imputer.n_features_in_, learnt["lags_"], imputer.period
    _check_integer(p, "n_features_in_", least=1)
    _check_integer(lags, "lags_", least=0)
    _check_names(learnt.get("feature_names_in_"), p)
    widths = (p, (2 * lags + 1) * p, None if period is None else period * p, p)
    for name, width in zip(SERIES_MODELS, widths, strict=True):
        model = learnt[name]
        if model is not None or name in SERIES_MODELS[:2]:
            is_same = _is_online(model) and getattr(model, "n_features_in_", None) == width
            _require(is_same, f"{name} is of the wrong type or has other features")
    is_periodic = (learnt["period_model_"] is not None, learnt["usual_period_"] is not None)
    _require(is_periodic == (period is not None,) * 2, "a part of what is known of periods is missing")
    if period is not None:
        _check_array(learnt["usual_period_"], "usual_period_", period, p)
    _check_array(learnt["weights_"], "weights_", 2 * N_DISTANCES, len(imputer.ways_), least=0.0)


def _check_scene(scene: Scene, height: int, width: int, channels: int) -> None:
    size, single = (height, width), np.float32
    _check_array(scene.background, "background", channels, *size, dtype=single)
    n_neighbourhoods = len(RULES.halves)
    _check_array(scene.scales, "scales", n_neighbourhoods, 2, *size, dtype=single, least=0.0)
    _check_array(scene.blinks, "blinks", *size, dtype=single, least=0.0)
    _check_array(scene.suspicion, "suspicion", *size, dtype=single, least=0.0)
    _check_array(scene.ages, "ages", *size, dtype=np.int32, least=0)
    _check_array(scene.raw, "raw", *size, dtype=bool)
    _check_array(scene.covered, "covered", *size, dtype=bool)
    _require(isinstance(scene.first, np.ndarray) and scene.first.ndim == 4, "the first frames are missing")
    _check_array(scene.first, "first", len(scene.first), *size, channels, dtype=single)
    _check_number(scene.brightness, "brightness")
    _check_number(scene.offset, "offset")
    _check_integer(scene.n_frames, "n_frames", least=1)
    _check_integer(scene.stride, "stride", least=1)
    _check_integer(scene.n_floods, "n_floods", least=0)


def _check_detector(detector: Any, n_features: int) -> None:
    memory, judge, model = (vars(detector)[name] for name in ("_memory", "_judge", "estimator_"))
    lags = detector.lags
    _check_integer(lags, "lags", least=0)
    p = n_features * (lags + 1)
    _require(hasattr(model, "mahalanobis"), "the model of the detector is of the wrong type")
    _require(getattr(model, "n_features_in_", p) == p, "the model of the detector has other features")
    _require(isinstance(memory, Memory) and isinstance(judge, Judge), "a part of the detector is missing")
    for rows, name in ((memory.past, "past"), (memory.recent, "recent")):
        _check_incomplete_array(rows, name, len(rows), p)
    _check_incomplete_array(memory.history, "history", lags, n_features)
    _check_array(memory.numbers, "numbers", len(memory.past), least=0.0)
    _check_incomplete_array(memory.scores, "scores", len(memory.scores))
    for name in ("n_seen", "n_process", "n_changes"):
        _check_integer(getattr(memory, name), name, least=0)
    _check_number(memory.alarm_share, "the share of alarms", least=0.0)
    _check_number(judge.limit, "the limit of the scores")
    if judge.model is not None:
        _check_factor_model(judge.model, judge.model.gauge, p, judge.model.n_components)
        _check_incomplete_array(judge.past, "past", len(judge.past), p)


def _check_objective(learner: Any, progress: Progress | None) -> None:
    """Check that the numbers of a state, each of which is finite, are so together."""
    if progress is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            objective = surrogate(progress.state, learner.norm_at(progress.state))
        _require(math.isfinite(objective), f"the objective is {objective}")


def check_random_state(state: tuple[Any, ...]) -> None:
    """Check the state of a legacy random generator of NumPy, which reads beyond its array otherwise."""
    kind, keys, position, has_gauss, gauss = state
    _require(kind == "MT19937", f"the random generator {kind!r} is not known")
    _require(
        isinstance(keys, np.ndarray) and keys.shape == (MERSENNE_TWISTER_WORDS,) and keys.dtype == np.uint32,
        "the state of the random generator is not valid",
    )
    _check_integer(position, "the position of the random generator", least=0)
    _require(position <= MERSENNE_TWISTER_WORDS, "the position of the random generator is out of range")
    _require(has_gauss in (0, 1), "the state of the random generator is not valid")
    _check_number(gauss, "the cached number of the random generator")


def check_rows(rows: sp.csr_array) -> None:
    """Check that the indices of a sparse matrix are in range, which is not checked when they are used."""
    _require(rows.indices.dtype.kind == "i" and rows.indptr.dtype.kind == "i", "indices are not integers")
    rows.check_format(full_check=True)
    _require(rows.has_canonical_format, "the indices of a sparse matrix are not sorted or not unique")


def _check_progress(progress: Any, n_features: int) -> None:
    _require(isinstance(progress, Progress), "what was learnt is of the wrong type")
    _check_state(progress.state, n_features)
    dtype = progress.state.L.dtype
    for batch in progress.waiting:
        _require(isinstance(batch, Batch), "a row that waits is of the wrong type")
        values = batch.values
        expected = np.dtype(np.float64) if batch.is_sparse else dtype
        _require(values.dtype == expected, "a row that waits has the wrong precision")
        _require(values.ndim == 2 and values.shape[1] == n_features, "a row that waits has the wrong length")
        if batch.is_sparse:
            check_rows(values)
            _require(not np.isnan(values.data).any(), "an observed entry of a row that waits is NaN")
        _check_features(batch.features, len(batch))
        check_range(batch)


def _check_state(state: Any, n_features: int) -> None:
    _require(isinstance(state, State), "the state is of the wrong type")
    L = state.L
    _require(
        isinstance(L, np.ndarray) and L.ndim == 2 and L.dtype in (np.float32, np.float64),
        "the basis is not a matrix of floating-point numbers",
    )
    p, d = L.shape
    _require(p == n_features and d > 0, f"the basis has shape {L.shape}, but there are {n_features} features")
    _check_array(L, "the basis", p, d, dtype=L.dtype)
    largest = range_of(L.dtype).largest
    _require(bool((row_norms(L) <= largest).all()), f"the basis has a row of a norm above {largest:.0e}")
    _check_statistics(state.statistics, p, d)
    _check_scales(state.scales, p)
    for name in ("n_samples", "n_steps", "time", "first_rows"):
        _check_integer(getattr(state, name), name, least=0)
    _require(state.first_rows <= first_rows(p, d), "first_rows is out of range")
    _require(isinstance(state.is_shared, bool), "is_shared is not a truth value")
    if state.biases is not None:
        _check_biases(state.biases, p)
    if state.selection is not None:
        _check_selection(state.selection, d)
    if state.gauge is not None:
        _check_gauge(state.gauge, p)
    if state.model is not None:
        _check_factor_model(state.model, state.gauge, p, d)
    if state.drift is not None:
        _check_drift(state.drift, p, d)
    _check_number(state.repeated_weight, "repeated_weight", least=0.0)
    _require((state.entry_model is None) == (state.entry_sums is None), "a part of the model is missing")
    if state.entry_model is not None:
        _check_entry_model(state.entry_model, state.entry_sums, p, d)


def _check_entry_model(model: Any, seen: Any, p: int, d: int) -> None:
    _require(isinstance(model, EntryModel), "the model of entries is of the wrong type")
    _require(isinstance(seen, EntrySums), "the sums over entries are of the wrong type")
    pattern = model.pattern
    _require(isinstance(pattern, Pattern), "the pattern of entries is of the wrong type")
    _require(
        isinstance(pattern.columns, np.ndarray) and pattern.columns.ndim == 2, "the pattern has no columns"
    )
    k = pattern.columns.shape[1]
    _check_array(pattern.columns, "the features of columns", p, k, dtype=np.float32)
    _check_array(pattern.row_scale, "the scales of features", k, least=0.0)
    _require(bool((pattern.row_scale > 0.0).all()), "a scale of a feature is not positive")
    _check_array(pattern.row_mean, "the means of features", k)
    _check_array(pattern.strength, "the strengths of features", k, least=0.0)
    if pattern.given_columns is not None:
        m = np.shape(pattern.given_columns)[-1]
        _check_array(pattern.given_columns, "the given features of columns", p, m)
    if pattern.row_units is not None:
        m = np.shape(pattern.row_units)[-1]
        _check_array(pattern.row_units, "the units of the given features of rows", 2, m)
        _require(bool((pattern.row_units[1] > 0.0).all()), "a scale of a given feature is not positive")
    q, size, n_features = d + 1, (d + 2) * (d + 3) // 2, pattern.n_features
    _check_gauge(model.gauge, p)
    _check_array(model.mean, "the factors of columns", p, q)
    precision = gram_type(p, d + 2)
    _check_array(model.covariance, "the covariances of columns", p, q * (q + 1) // 2, dtype=precision)
    _check_array(model.noise, "the noise variances", p, least=SMALLEST_NOISE)
    _check_array(model.row_precision, "the precision of rows", q, q)
    _check_array(model.column_precision, "the precision of columns", q, q)
    _check_array(model.row_weights, "the weights of features", n_features, q)
    _check_integer(model.n_rounds, "n_rounds", least=0)
    _check_number(model.gross_share, "the share of gross errors", least=0.0)
    _require(model.gross_share < 1.0, "all entries are gross errors")
    _check_number(model.gross_width, "the range of gross errors", least=0.0)
    _require(model.gross_width > 0.0, "the range of gross errors is empty")
    _check_number(seen.weight, "weight", least=0.0)
    _check_number(seen.entries, "entries", least=0.0)
    _check_array(seen.rows, "the moments of rows", size)
    _check_array(seen.features, "the products of features", n_features, n_features)
    _check_array(seen.features_rows, "the products of features and rows", n_features, q)
    _check_array(seen.counts, "counts", p, least=0.0)
    _check_array(seen.squares, "squares", p, least=0.0)
    _check_array(seen.products, "products", p, d + 2)
    _check_array(seen.grams, "grams", p, size, dtype=precision)


def _check_drift(drift: Any, p: int, d: int) -> None:
    _require(isinstance(drift, Drift), "what is known of changes is of the wrong type")
    for name in ("weight", "squares", "power", "batches", "excess", "spread", "spread_weight"):
        _check_number(getattr(drift, name), name, least=0.0)
    for name in ("level", "aligned", "alignment"):
        _check_number(getattr(drift, name), name)
    _require(abs(drift.level) <= LARGEST_LOG * drift.weight, "level is out of range")
    _require(isinstance(drift.is_drifting, bool), "is_drifting is not a truth value")
    if drift.increment is not None:
        _check_array(drift.increment, "the increment", p, d + 1)
    if drift.before is not None:
        _require(
            isinstance(drift.before, np.ndarray) and drift.before.ndim == 2 and len(drift.before) == p,
            "the basis before a change is not valid",
        )
        _check_array(drift.before, "the basis before a change", *drift.before.shape)
    _require(isinstance(drift.changes, tuple), "the changes are of the wrong type")
    for change in drift.changes:
        _require(isinstance(change, Change), "a change is of the wrong type")
        _check_integer(change.sample, "the sample of a change", least=0)
        _require(change.kind in get_args(Kind), f"the kind of a change is {change.kind!r}")
        _check_number(0.0 if change.angle is None else change.angle, "the angle of a change", least=0.0)


def _check_statistics(seen: Any, p: int, d: int) -> None:
    _require(isinstance(seen, SufficientStatistics), "the statistics are of the wrong type")
    _check_array(seen.A, "A", d, d)
    _check_array(seen.B, "B", p, d)
    _check_array(seen.r, "r", d)
    _check_number(seen.loss, "loss")
    for name in ("weight", "entries"):
        _check_number(getattr(seen, name), name, least=0.0)
    # Every sample that counts has an observed entry.
    _require(seen.entries >= 0.999 * seen.weight, "entries is smaller than weight")
    _require((seen.grams is None) == (seen.means is None), "a part of the statistics is missing")
    if seen.grams is not None:
        _check_array(seen.grams, "grams", p, d * (d + 1) // 2)
        _check_array(seen.means, "means", p, 2)
    if seen.t is not None:
        _check_array(seen.t, "t", p)
    if seen.residuals is not None:
        _check_array(seen.residuals, "residuals", p, 4, least=0.0)


def _check_scales(scales: Any, p: int) -> None:
    _require(isinstance(scales, Scales), "the scales are of the wrong type")
    for name in ("noisy", "seen"):
        value = getattr(scales, name)
        if isinstance(value, np.ndarray):
            _check_array(value, name, p, least=0.0)
        else:
            _check_number(value, name, least=0.0)
    signed = scales.signed_noisy  # which earlier versions did not write
    if isinstance(signed, np.ndarray):
        _check_array(signed, "signed_noisy", p)
    else:
        _check_number(signed, "signed_noisy")
    for name in ("weight", "recent_weight", "recent_noisy"):
        _check_number(getattr(scales, name), name, least=0.0)
    for name, weight in (
        ("entry", scales.weight),
        ("residual", scales.weight),
        ("recent_residual", scales.recent_weight),
    ):
        value = getattr(scales, name)
        _check_number(value, name)
        _require(abs(value) <= LARGEST_LOG * weight, f"{name} is out of range")
    _require((scales.weight > 0.0) == (scales.recent_weight > 0.0), "a weight of the scales is missing")
    _require(scales.recent_noisy <= 1.001 * scales.recent_weight, "recent_noisy is out of range")


def _check_gauge(gauge: Any, p: int) -> None:
    _require(isinstance(gauge, Gauge), "the gauge is of the wrong type")
    _check_array(gauge.centre, "centre", p)
    _check_array(gauge.scale, "scale", p)
    _require(bool((gauge.scale > 0.0).all()), "a scale is not positive")


def _check_factor_model(model: Any, gauge: Gauge | None, p: int, d: int) -> None:
    _require(isinstance(model, FactorModel), "the factor model is of the wrong type")
    _check_gauge(model.gauge, p)
    is_same = gauge is not None and all(
        np.array_equal(getattr(gauge, name), getattr(model.gauge, name)) for name in ("centre", "scale")
    )
    _require(is_same, "the factor model has another gauge")
    _check_array(model.basis, "the loadings", p, d + 1)
    _check_array(model.noise, "the noise variances", p, least=SMALLEST_NOISE)
    if model.covariances is not None:
        _check_array(model.covariances, "the covariances", p, d + 1, d + 1)
    if model.precisions is not None:
        _check_array(model.precisions, "the precisions", d, least=0.0)
    _check_number(model.gross_share, "the share of gross errors", least=LEAST_SHARE)
    _require(model.gross_share <= MOST_SHARE, "the share of gross errors is out of range")
    _check_number(model.gross_variance, "the variance of gross errors", least=0.0)
    _require(isinstance(model.center, bool), "center is not a truth value")


def _check_biases(biases: Any, p: int) -> None:
    _require(isinstance(biases, BiasModel), "the biases are of the wrong type")
    _check_number(biases.total, "total")
    _check_number(biases.count, "count", least=0.0)
    _check_array(biases.sums, "sums", p)
    _check_array(biases.counts, "counts", p, least=0.0)


def _check_selection(selection: Any, d: int) -> None:
    _require(isinstance(selection, Selection), "the selection is of the wrong type")
    _require(selection.n_components == d, "the number of components is not the one that was selected")
    rows = [(selection.n_components, selection.weight, selection.prior, 0.0), *selection.tried]
    for row in rows:
        _require(isinstance(row, tuple) and len(row) == 4, "an attempt of the selection is not valid")
        n_components, weight, prior, error = row
        _check_integer(n_components, "n_components", least=1)
        for value in (0.0 if weight is None else weight, prior, error):
            _check_number(value, "a number of the selection", least=0.0)


def _check_pursuit(learnt: dict[str, Any], p: int) -> None:
    for name, n_dimensions in (("components_", 2), ("singular_values_", 1), ("low_rank_", 2)):
        value = learnt[name]
        _require(isinstance(value, np.ndarray) and value.ndim == n_dimensions, f"{name} is not valid")
    d, n = len(learnt["components_"]), len(learnt["low_rank_"])
    _check_array(learnt["components_"], "components_", d, p)
    gram = learnt["components_"] @ learnt["components_"].T
    _require(np.allclose(gram, np.eye(d), atol=1e-6), "the components are not orthonormal")
    _check_array(learnt["singular_values_"], "singular_values_", d, least=0.0)
    _check_array(learnt["low_rank_"], "low_rank_", n, p)
    _check_array(learnt["noise_"], "noise_", n, p)
    _check_integer(learnt["n_iter_"], "n_iter_", least=0)


def _check_numbers(value: Any, title: str) -> None:
    """Check the fields of a noise model or a norm."""
    for field in fields(value):
        item, name = getattr(value, field.name), f"{field.name} of {title}"
        if field.name == "basis_update":
            _require(item in ("exact", "bcd"), f"{name} is not valid")
        elif field.name == "downweight":
            _require(isinstance(item, bool), f"{name} is not valid")
        elif field.name == "components":
            _check_integer(item, name, least=0)
        elif isinstance(item, np.ndarray):
            _check_array(item, name, *item.shape, least=0.0 if field.name == "leniency" else -math.inf)
        elif not (item is None and field.default is None) and not (item == math.inf == field.default):
            _check_number(item, name, least=0.0)


def _check_names(names: Any, n_features: int) -> None:
    if names is not None:
        _require(
            isinstance(names, np.ndarray)
            and names.shape == (n_features,)
            and all(isinstance(name, str) for name in names),
            "the names of the features are not valid",
        )


def _check_shape(shape: Any, n_features: int) -> None:
    _require(isinstance(shape, tuple), "feature_shape_ is not a shape")
    for size in shape:
        _check_integer(size, "feature_shape_", least=1)
    _require(math.prod(shape) == n_features, f"feature_shape_ is {shape} for {n_features} features")


def _check_output(config: Any) -> None:
    _require(
        isinstance(config, dict)
        and set(config) <= {"transform"}
        and config.get("transform", "default") in ("default", "pandas", "polars"),
        "the container for the output is not known",
    )


def _check_array(
    value: Any, name: str, *shape: int, dtype: Any = np.float64, least: float = -math.inf
) -> None:
    _require(
        isinstance(value, np.ndarray) and value.shape == shape and value.dtype == dtype,
        f"{name} is not an array of shape {shape}",
    )
    _require(bool(np.isfinite(value).all()), f"{name} is not finite")
    _require(bool((value >= least).all()), f"{name} has entries below {least}")


def _check_incomplete_array(value: Any, name: str, *shape: int) -> None:
    """Check an array in which NaN marks missing entries."""
    is_array = isinstance(value, np.ndarray) and value.shape == shape and value.dtype == np.float64
    _require(is_array, f"{name} is not an array of shape {shape}")
    _require(not np.isinf(value).any(), f"{name} is not finite")


def _check_number(value: Any, name: str, *, least: float = -math.inf) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    _require(is_number and math.isfinite(value) and value >= least, f"{name} is {value!r}")


def _check_integer(value: Any, name: str, *, least: int) -> None:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    _require(is_integer and least <= value < 2**63, f"{name} is {value!r}")


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
