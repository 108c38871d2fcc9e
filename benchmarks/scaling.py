"""Measure how time and memory of the estimators grow with samples, features, components and BLAS threads.

Each function returns a table: a list of rows, which are dictionaries. ``bench.py`` runs them.
"""

import multiprocessing
import time
from contextlib import contextmanager, nullcontext

import numpy as np
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core import noise
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.paper.measure import measure_curve, measure_peak_memory, measure_seconds
from maxnorm.paper.problems import corrupted_stream

LEARNERS = (MaxNormDecomposition, OnlineRobustPCA)


def measure_samples(ends):
    """Measure milliseconds per sample and peak memory on a growing stream of 400 features and rank 20.

    Parameters
    ----------
    ends : list of int
        Numbers of samples at which the measurements are taken, in increasing order.

    Returns
    -------
    list of dict
        For each estimator and number of samples: "ms" per sample since the previous row, and the "megabytes"
        that learning from the last 1000 samples has allocated.
    """
    rows = []
    for Learner in LEARNERS:
        # Tracing memory slows a learner down, so time and memory are measured on two equal learners.
        timed, traced = Learner(20, random_state=0), Learner(20, random_state=0)
        seconds, seen, previous, remaining = 0.0, 0, 0, list(ends)
        for block in corrupted_stream(400, 20, ends[-1], 0.3, seed=0, block=1000)[1]:
            seconds += measure_seconds(timed.partial_fit, block)[0]
            seen += len(block)
            if seen < remaining[0]:
                traced.partial_fit(block)
                continue
            rows.append(
                {
                    "learner": Learner.__name__,
                    "samples": seen,
                    "ms": 1e3 * seconds / (seen - previous),
                    "megabytes": measure_peak_memory(traced, [block]),
                }
            )
            previous, seconds = seen, 0.0
            remaining.pop(0)
    return rows


def measure_sizes(sizes, n):
    """Measure milliseconds per sample for pairs of features and components, on n samples each."""
    rows = []
    for p, d in sizes:
        X = make_corrupted_low_rank(n, p, d, corruption=0.3, random_state=0).X
        for Learner in LEARNERS:
            best = best_seconds(Learner, d, X, 2)
            rows.append({"learner": Learner.__name__, "features": p, "components": d, "ms": 1e3 * best / n})
    return rows


def best_seconds(Learner, d, X, repetitions):
    """Return the shortest time of one pass over some repetitions."""
    return min(measure_seconds(Learner(d, random_state=0).partial_fit, X)[0] for _ in range(repetitions))


@contextmanager
def busy_core():
    """Keep one core busy with another process."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _spin():
    while True:
        pass


def measure_threads(sizes, n):
    """Measure seconds of a fit with one BLAS thread and with all, on a free machine and with one core busy.

    Parameters
    ----------
    sizes : list of (int, int)
        Pairs of features and components.
    n : int
        Number of samples.
    """
    rows = []
    for p, d in sizes:
        X = make_corrupted_low_rank(n, p, d, corruption=0.3, random_state=0).X
        row = {"features": p, "components": d}
        for suffix, load in (("", nullcontext), (", a core busy", busy_core)):
            with load():
                with threadpool_limits(1):
                    row[f"one{suffix}"] = best_seconds(MaxNormDecomposition, d, X, 3)
                row[f"all{suffix}"] = best_seconds(MaxNormDecomposition, d, X, 3)
        rows.append(row)
    return rows


def measure_large(p, d, levels=(0.6, 0.98)):
    """Measure samples and seconds up to an expressed variance; the paper reports 50 minutes to 0.6.

    Parameters
    ----------
    p, d : int
        Features, which is also the number of samples, and components.
    levels : tuple of float, default=(0.6, 0.98)
        Expressed variances.
    """
    data = make_corrupted_low_rank(p, p, d, corruption=0.3, random_state=1)
    size = p // 12
    blocks = (data.X[start : start + size] for start in range(0, p, size))
    curve = measure_curve(MaxNormDecomposition(d, random_state=0), blocks, data.basis)
    reached = {level: curve.first_reaching(level) for level in levels}
    return [
        {"features": p, "components": d, "ev": level, "samples": point[0], "s": point[1]}
        for level, point in reached.items()
        if point is not None
    ]


def make_film(n_frames, n_pixels, seed=0):
    """Return single-precision frames: three backgrounds in varying light, a moving object, and noise."""
    rng = np.random.default_rng(seed)
    background = rng.uniform(0, 255, (3, n_pixels)).astype(np.float32)
    X = rng.uniform(0.3, 0.4, (n_frames, 3)).astype(np.float32) @ background
    X += 2 * rng.standard_normal(X.shape, dtype=np.float32)
    X[:, : n_pixels // 10] += np.float32(100) * (rng.random((n_frames, 1)) < 0.3).astype(np.float32)
    return X


@contextmanager
def without_numba():
    """Use the NumPy implementation even if Numba is installed."""
    compiled = noise.compiled
    noise.compiled = lambda: None
    try:
        yield
    finally:
        noise.compiled = compiled


def measure_film(n, p=76_800, d=5):
    """Measure frames per second, learnt (n frames after the first 100) and decomposed, by NumPy and Numba."""
    X = make_film(n + 100, p)
    rows = []
    for Learner in LEARNERS:
        for extra in ("NumPy", "fast"):
            if extra == "fast" and noise.compiled() is None:
                continue
            with without_numba() if extra == "NumPy" else threadpool_limits(1):
                best, model = 0.0, None
                for _ in range(3):
                    model = Learner(d, random_state=0).partial_fit(X[:100])
                    best = max(best, n / measure_seconds(model.partial_fit, X[100:])[0])
                reading = max(100 / measure_seconds(model.decompose, X[:100])[0] for _ in range(3))
            rows.append({"learner": Learner.__name__, "with": extra, "learning": best, "reading": reading})
    return rows


def measure_single_rows(n, p=50, d=5):
    """Measure microseconds per call of ``partial_fit`` with one row, validation included."""
    X = make_corrupted_low_rank(n + 200, p, d, corruption=0.05, random_state=1).X
    rows = []
    for Learner in LEARNERS:
        model = Learner(d, random_state=0).partial_fit(X[:200])
        seconds, _ = measure_seconds(lambda model=model: [model.partial_fit(row[None]) for row in X[200:]])
        rows.append({"learner": Learner.__name__, "microseconds": 1e6 * seconds / n})
    return rows
