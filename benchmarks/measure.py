"""Expressed variance, time and memory of a method on a stream. Only the solve is timed."""

import time
import tracemalloc
import warnings

from maxnorm.metrics import expressed_variance

GOALS = (0.5, 0.8, 0.95)
MEMORY_SAMPLES = 1000  # of a stream: what a learner keeps does not depend on more


def clock(function, *arguments):
    """Return the seconds that a call takes, and its result."""
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def learn(method, X, basis, patience):
    """Return the curve (samples, seconds, expressed variance) of a method on a stream.

    A method that needs more than ``patience`` seconds is stopped, and its curve ends there.
    """
    d, p = basis.shape[1], X.shape[1]
    learner = method.make(d, p)
    chunk = len(X) if method.batch else max(100, 2 * d)
    curve, seconds = [], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers
        for start in range(0, len(X), chunk):
            rows = X[start : start + chunk]
            if len(rows) < d and start:
                break  # IncrementalPCA takes no fewer
            took, _ = clock(learner.partial_fit, rows)
            seconds += took
            ev = expressed_variance(basis, learner.basis)
            curve.append((start + len(rows), round(seconds, 4), round(ev, 4)))
            if seconds > patience:
                break
    return curve


def peak_memory(method, X, basis):
    """Return the most megabytes that learning holds at a time, beside the data."""
    d, p = basis.shape[1], X.shape[1]
    rows = X if method.batch else X[:MEMORY_SAMPLES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = method.make(d, p)
        tracemalloc.start()
        learner.partial_fit(rows)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return round(peak / 1e6, 1)


def summary(curve):
    """Return the end of a curve, and where it first reaches each goal: samples and seconds."""
    samples, seconds, ev = curve[-1]
    reached = {str(goal): next((point[:2] for point in curve if point[2] >= goal), None) for goal in GOALS}
    return {"samples": samples, "ms": 1e3 * seconds / samples, "ev": ev, "reached": reached}
