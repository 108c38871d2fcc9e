"""How the time and the memory of our learner grow: with samples, features, components and threads."""

import multiprocessing
import time
import tracemalloc
from contextlib import contextmanager

import numpy as np
from measure import clock
from problems import film
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core import noise
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance

LEARNERS = (MaxNormDecomposition, OnlineRobustPCA)


def stream(p, d, n, chunk=1000, seed=0):
    """Yield chunks of an endless stream, so that no data set has to fit in memory."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((p, d)))[0]
    for start in range(0, n, chunk):
        rows = min(chunk, n - start)
        clean = rng.standard_normal((rows, d)) @ basis.T
        yield clean + np.where(rng.random((rows, p)) < 0.3, rng.uniform(-1000, 1000, (rows, p)), 0.0)


def with_samples(ends):
    """Milliseconds a sample between one number of samples and the next, and megabytes held up to there."""
    rows = []
    for Learner in LEARNERS:
        model, seconds, seen, ends_left = Learner(20, random_state=0), 0.0, 0, list(ends)
        since, tracked = 0, Learner(20, random_state=0)
        for chunk in stream(400, 20, ends[-1]):
            took, _ = clock(model.partial_fit, chunk)
            seconds, seen = seconds + took, seen + len(chunk)
            if seen >= ends_left[0]:
                tracemalloc.start()
                tracked.partial_fit(chunk)
                rows.append(
                    {
                        "learner": Learner.__name__,
                        "samples": seen,
                        "ms": 1e3 * seconds / (seen - since),
                        "megabytes": tracemalloc.get_traced_memory()[1] / 1e6,
                    }
                )
                tracemalloc.stop()
                since, seconds = seen, 0.0
                ends_left.pop(0)
            else:
                tracked.partial_fit(chunk)
    return rows


def with_sizes(sizes, n):
    """Milliseconds a sample for pairs of features and components."""
    rows = []
    for p, d in sizes:
        X = make_corrupted_low_rank(n, p, d, corruption=0.3, random_state=0).X
        for Learner in LEARNERS:
            best = min(clock(Learner(d, random_state=0).fit, X)[0] for _ in range(2))
            rows.append({"learner": Learner.__name__, "features": p, "components": d, "ms": 1e3 * best / n})
    return rows


@contextmanager
def busy_core():
    """Keep one core busy with something else."""
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


def with_threads(sizes, n):
    """Seconds of one pass with one BLAS thread, with all of them, and with all while a core is busy."""
    rows = []
    for p, d in sizes:
        X = make_corrupted_low_rank(n, p, d, corruption=0.3, random_state=0).X

        def fit(X=X, d=d):
            return min(clock(MaxNormDecomposition(d, random_state=0).fit, X)[0] for _ in range(3))

        with threadpool_limits(1):
            one = fit()
        row = {"features": p, "components": d, "one": one, "all": fit()}
        with busy_core():
            row["all, a core busy"] = fit()
            with threadpool_limits(1):
                row["one, a core busy"] = fit()
        rows.append(row)
    return rows


def large(p, d, goals=(0.6, 0.98)):
    """Seconds and samples to an expressed variance, where the paper reports 50 minutes to 0.6."""
    data = make_corrupted_low_rank(p, p, d, corruption=0.3, random_state=1)
    model, seconds, left, rows = MaxNormDecomposition(d, random_state=0), 0.0, list(goals), []
    for start in range(0, p, p // 12):
        chunk = data.X[start : start + p // 12]
        seconds += clock(model.partial_fit, chunk)[0]
        ev = expressed_variance(data.basis, model.components_.T)
        while left and ev >= left[0]:
            rows.append(
                {
                    "features": p,
                    "components": d,
                    "ev": left.pop(0),
                    "samples": start + len(chunk),
                    "s": seconds,
                }
            )
        if not left:
            break
    return rows


@contextmanager
def without_numba():
    """Take the NumPy path even if Numba is there."""
    compiled = noise.compiled
    noise.compiled = lambda: None
    try:
        yield
    finally:
        noise.compiled = compiled


def frames_a_second(n, p=76_800, d=5):
    """Single-precision frames that are learnt, after the first hundred, and read in a second."""
    X = film(n + 100, p)
    rows = []
    for Learner in LEARNERS:
        for extra in ("NumPy", "fast"):
            if extra == "fast" and noise.compiled() is None:
                continue
            with without_numba() if extra == "NumPy" else threadpool_limits(1):
                best, model = 0.0, None
                for _ in range(3):
                    model = Learner(d, random_state=0).partial_fit(X[:100])
                    best = max(best, n / clock(model.partial_fit, X[100:])[0])
                reading = max(100 / clock(model.decompose, X[:100])[0] for _ in range(3))
            rows.append({"learner": Learner.__name__, "with": extra, "learning": best, "reading": reading})
    return rows


def single_rows(n, p=50, d=5):
    """Microseconds for a ``partial_fit`` call with one row, validation included."""
    X = make_corrupted_low_rank(n + 200, p, d, corruption=0.05, random_state=1).X
    rows = []
    for Learner in LEARNERS:
        model = Learner(d, random_state=0).partial_fit(X[:200])
        seconds, _ = clock(lambda model=model: [model.partial_fit(row[None]) for row in X[200:]])
        rows.append({"learner": Learner.__name__, "microseconds": 1e6 * seconds / n})
    return rows
