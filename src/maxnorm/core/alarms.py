"""The limit of a score above which a row is an anomaly, for a stated rate of false alarms."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

from maxnorm.core.types import Array

ENOUGH_BEYOND = 2.0  # expected number of scores beyond the limit; with less it follows from chi-squared
# Scores are those of anomalies if they are this much farther from the median than one that the bulk of the
# scores suggests to be so rare.
FARTHER, RARE = 1.35, 1e-4
LARGEST_SHAPE = 0.5  # of the tail


def alarm_limit(scores: Array, alarm_rate: float, n_features: int) -> float:
    """Return the score that a usual row exceeds with a given probability.

    Some of the scores belong to anomalies. They are recognised by the tail that the bulk of the scores
    suggests (three quantiles determine a generalised Pareto distribution, Pickands 1975), and left out. The
    limit is a quantile of the rest. If there are too few scores for such a quantile, the limit is that of a
    chi-squared variable whose logarithm has the median and the upper decile of the scores.

    Parameters
    ----------
    scores : array of shape (n,)
        Scores of rows; those of usual rows have a median of about zero.
    alarm_rate : float
        Probability of a false alarm.
    n_features : int
        Number of features of the rows.

    Returns
    -------
    limit : float
        The limit; infinite if there are no scores.
    """
    scores = scores[np.isfinite(scores)]
    if not len(scores):
        return math.inf
    if len(scores) * alarm_rate < ENOUGH_BEYOND:
        middle, upper = np.quantile(scores, (0.5, 0.9))
        logs = np.log(chi2.isf((0.5, 0.1, alarm_rate), n_features))
        return float(middle + (upper - middle) * (logs[2] - logs[0]) / (logs[1] - logs[0]))
    middle, rare = float(np.median(scores)), tail_quantile(scores, RARE)
    usual = scores[scores <= middle + FARTHER * (rare - middle)]
    # With this method, the probability that a further score is larger is the rate, however few there are.
    return float(np.quantile(usual, 1.0 - alarm_rate, method="weibull"))


def tail_quantile(scores: Array, probability: float) -> float:
    """Return the score that is exceeded with a small probability, as the bulk of the scores suggests."""
    q = np.quantile(scores, (0.5, 0.75, 0.875))
    near, far = q[1] - q[0], q[2] - q[1]
    shape = math.log2(far / near) if near > 0.0 and far > 0.0 else 0.0
    shape = min(shape, LARGEST_SHAPE)
    # Beyond the median, an excess has the distribution function 1 - (1 + shape x / scale)^(-1 / shape).
    ratio = 0.5 / probability
    if abs(shape) < 1e-3:
        return float(q[0] + near / math.log(2.0) * math.log(ratio))
    scale = shape * near / (2.0**shape - 1.0)
    return float(q[0] + scale / shape * (ratio**shape - 1.0))
