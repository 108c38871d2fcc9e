"""The tables of docs/defaults.md: nothing tuned.

python benchmarks/defaults.py
"""

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance, relative_error


class CleanPCA:
    """Batch PCA on all samples so far, fed without the gross errors: what nobody has."""

    def __init__(self, d):
        self.d, self.seen = d, []

    def partial_fit(self, X):
        """Remember the samples and factor all of them."""
        self.seen.append(X)
        self.components_ = np.linalg.svd(np.concatenate(self.seen), full_matrices=False)[2][: self.d]


class Oracle:
    """Batch PCA that is told which entries are wrong: least squares over the others, iterated."""

    def __init__(self, d, wrong):
        self.d, self.wrong, self.seen = d, wrong, []

    def partial_fit(self, X):
        """Remember the samples and factor all of them, filling in what is wrong."""
        self.seen.append(X)
        X = np.concatenate(self.seen)
        wrong = self.wrong[: len(X)]
        filled = np.where(wrong, 0.0, X)
        for _ in range(100):
            V = np.linalg.eigh(filled.T @ filled)[1][:, -self.d :]
            filled = np.where(wrong, filled @ V @ V.T, X)
        self.components_ = V.T


METHODS = {
    "capped": lambda d: MaxNormDecomposition(d, random_state=0),
    "capped, nuclear": lambda d: OnlineRobustPCA(d, random_state=0),
    "l1": lambda d: MaxNormDecomposition(d, noise="l1", random_state=0),
    "l1, nuclear": lambda d: OnlineRobustPCA(d, noise="l1", random_state=0),
}
MARKS = (500, 1000, 2000, 5000)

# rank, share corrupted, magnitude, dense noise
PROTOCOL = [
    (8, 0.5, 1000.0, 0.0),
    (40, 0.3, 1000.0, 0.0),
    (40, 0.3, 3.0, 0.0),
    (40, 0.3, 1.0, 0.0),
    (40, 0.5, 1000.0, 0.0),
    (104, 0.5, 1000.0, 0.0),
    (152, 0.38, 1000.0, 0.0),
    (200, 0.26, 1000.0, 0.0),
    (8, 0.0, 0.0, 0.3),
    (8, 0.3, 1000.0, 0.3),
]


# Data of which there is little: rows, features and rank; and what is wrong with them.
LITTLE = [(50, 30, 3), (200, 50, 5), (1000, 100, 5)]
TROUBLE = {
    "10 % corrupted": {"corruption": 0.1, "magnitude": 10.0},
    "and dense noise": {"corruption": 0.1, "magnitude": 10.0, "dense_noise": 0.05},
}
PASSES = (1, 3, 30)


def curve(model, X, basis):
    """Return the expressed variance after each mark, as text."""
    seen, values = 0, []
    for mark in MARKS:
        if mark <= len(X):
            model.partial_fit(X[seen:mark])
            seen = mark
            values.append(f"{expressed_variance(basis, model.components_.T):.4f}")
    return " ".join(values)


def situations(n=5000, p=200, d=10):
    """Yield name, data, basis and number of components of streams that are not the paper's."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((p, d)))[0]
    clean = rng.standard_normal((n, d)) @ basis.T * np.sqrt(p / d)
    errors = np.where(rng.random((n, p)) < 0.2, rng.uniform(-50, 50, (n, p)), 0.0)
    X = clean + errors + 0.1 * rng.standard_normal((n, p))
    yield "20 % corrupted, dense noise", X, basis, d
    yield "twice as many components", X, basis, 2 * d
    mean = rng.uniform(50, 100, p)
    yield "a mean of 50 to 100", X + mean, np.column_stack([basis, mean]), d + 1
    sizes = 10 ** rng.uniform(-1, 1, p)
    yield "features 0.1 to 10 times", X * sizes, basis * sizes[:, None], d
    bad = rng.random((n, 1)) < 0.1
    yield "10 % of samples wrong", np.where(bad, 20 * rng.standard_normal((n, p)), clean), basis, d
    late = np.arange(n)[:, None] < 2000
    yield "corruption after 2000", np.where(late, clean, X), basis, d
    yield "heavy-tailed samples", clean * np.abs(rng.standard_t(2, (n, 1))) + errors, basis, d
    parts = rng.exponential(1, (d, p)) * (rng.random((d, p)) < 0.2)
    yield "non-negative parts", rng.exponential(1, (n, d)) @ parts + errors, parts.T, d


def little(n, p, d, spare, trouble):
    """Return the error of the low-rank part after some passes, as text; the median of three."""
    errors = {passes: [] for passes in PASSES}
    for seed in range(3):
        data = make_corrupted_low_rank(n, p, d, random_state=seed, **trouble)
        for passes, found in errors.items():
            model = MaxNormDecomposition(d + spare, n_epochs=passes, random_state=0).fit(data.X)
            found.append(relative_error(data.low_rank, model.decompose(data.X).low_rank))
    return " ".join(f"{np.median(found):.3f}" for found in errors.values())


def main():
    """Print the tables."""
    console = Console(width=240)
    marks = ", ".join(map(str, MARKS))
    table = Table(
        "rank, corrupted, magnitude, dense noise",
        *METHODS,
        "PCA, errors taken out",
        "PCA, errors known",
        title=f"paper's protocol: EV at {marks}",
    )
    for d, rho, magnitude, dense in PROTOCOL:
        data = make_corrupted_low_rank(
            5000, 400, d, corruption=rho, magnitude=magnitude, dense_noise=dense, random_state=1
        )
        cells = [curve(make(d), data.X, data.basis) for make in METHODS.values()]
        clean = make_corrupted_low_rank(5000, 400, d, corruption=0.0, dense_noise=dense, random_state=1)
        cells.append(curve(CleanPCA(d), clean.X, data.basis) if dense else "")
        wrong = np.abs(data.noise) > 5 * dense
        cells.append(curve(Oracle(d, wrong), data.X, data.basis) if dense and rho else "")
        table.add_row(f"{d}, {rho}, {magnitude:g}, {dense}", *cells)
    console.print(table)
    table = Table("situation", *METHODS, title=f"other streams: EV at {marks}")
    for name, X, basis, d in situations():
        table.add_row(name, *(curve(make(d), X, basis) for make in METHODS.values()))
    console.print(table)
    table = Table("rows, features, rank", "components", *TROUBLE, title=f"error after {PASSES} passes")
    for size in LITTLE:
        for spare in (0, 5):
            cells = (little(*size, spare, trouble) for trouble in TROUBLE.values())
            table.add_row(", ".join(map(str, size)), str(size[-1] + spare), *cells)
    console.print(table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
