"""What each entry of a row is off, compared with what the other entries of the row predict for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxnorm.core.factor_model import LARGEST_LEVERAGE, FactorModel
from maxnorm.core.types import Array

MAX_ITER = 100  # iterations until it is decided which entries of a row are gross errors
BLOCK_ROWS = 4096  # rows that are explained at a time
USUAL_QUANTILE, USUAL_DEVIATION = 0.95, 1.96  # of the absolute value of a normal variable


class Deviations(NamedTuple):
    """Entries and what the other entries of their rows predict."""

    expected: Array  #: b x p, the prediction in the units of the data, also where entries are missing
    deviation: Array  #: b x p, what entries are off in standard deviations of the prediction; zero if missing
    spread: Array  #: b x p, standard deviations of the predictions in the units of the data


def compute_deviations(model: FactorModel, X: Array) -> Deviations:
    """Compare each entry with the prediction from the other entries of its row that are not gross errors.

    Parameters
    ----------
    model : FactorModel
        The model.
    X : array of shape (b, p)
        The rows; NaN marks missing entries.

    Returns
    -------
    Deviations
        The predictions and the standardised deviations.
    """
    expected, deviation, spread = np.empty(X.shape), np.empty(X.shape), np.empty(X.shape)
    for start in range(0, len(X), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        observed = ~np.isnan(X[block])
        T = model.gauge.standardise(np.where(observed, X[block], model.gauge.centre), None)
        known, weights, *_ = model.encode(T, observed, MAX_ITER)
        leverage = np.minimum(weights * known.spread / model.noise, LARGEST_LEVERAGE)
        difference = (T - known.fitted) / (1.0 - leverage)
        predicted = np.where(observed, T - difference, known.fitted)
        expected[block] = model.gauge.centre + predicted * model.gauge.scale
        standard = np.sqrt(model.noise + known.spread / (1.0 - leverage))
        deviation[block] = np.where(observed, difference / standard, 0.0)
        spread[block] = standard * model.gauge.scale
    return Deviations(expected, deviation, spread)


def usual_deviations(deviation: Array, observed: Array) -> Array:
    """Return by how much the usual deviations of features exceed those of a normal variable, at least one.

    The noise of a feature may have heavier tails than the model assumes, or the model may miss something.
    """
    size = np.sort(np.where(observed, np.abs(deviation), -1.0), axis=0)  # missing entries come first
    there = observed.sum(axis=0)
    place = len(size) - 1 - ((1.0 - USUAL_QUANTILE) * there).astype(int)
    usual = size[np.maximum(place, 0), np.arange(size.shape[1])] if len(size) else 0.0
    return np.maximum(usual / USUAL_DEVIATION, np.ones(deviation.shape[1]))
