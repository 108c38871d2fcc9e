"""Print the tables of docs/defaults.md: the estimators with default settings on many kinds of data.

python benchmarks/defaults.py
"""

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from maxnorm.paper.measure import measure_curve
from maxnorm.paper.methods import METHODS, Setup
from maxnorm.paper.problems import Problem, random_orthonormal


class CleanPCA:
    """Batch PCA on all samples so far, for data without gross errors: an upper bound, unknown in practice."""

    def __init__(self, d):
        self.d, self.seen = d, []

    def partial_fit(self, X):
        """Store the samples and factorise all samples so far."""
        self.seen.append(X)
        self.components_ = np.linalg.svd(np.concatenate(self.seen), full_matrices=False)[2][: self.d]


class OraclePCA:
    """Batch PCA that knows which entries are corrupted, and fits the others by least squares."""

    def __init__(self, d, corrupted):
        self.d, self.corrupted, self.seen = d, corrupted, []

    def partial_fit(self, X):
        """Store the samples and factorise all samples so far, with corrupted entries imputed iteratively."""
        self.seen.append(X)
        X = np.concatenate(self.seen)
        corrupted = self.corrupted[: len(X)]
        filled = np.where(corrupted, 0.0, X)
        for _ in range(100):
            V = np.linalg.eigh(filled.T @ filled)[1][:, -self.d :]
            filled = np.where(corrupted, filled @ V @ V.T, X)
        self.components_ = V.T


# Column titles, and the keys of METHODS.
COMPARED = {
    "capped": "default-max",
    "capped, nuclear": "default-nuclear",
    "l1": "l1-auto-max",
    "l1, nuclear": "l1-auto-nuclear",
}
MARKS = (500, 1000, 2000, 5000)  # samples after which the expressed variance is printed

# Problems of the paper: rank, share of corrupted entries, magnitude of the errors, dense noise.
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


def format_curve(learner, X, basis):
    """Return the expressed variance after each of ``MARKS``, as text."""
    marks = [mark for mark in MARKS if mark <= len(X)]
    blocks = np.split(X[: marks[-1]], marks[:-1])
    return " ".join(f"{ev:.4f}" for ev in measure_curve(learner, blocks, basis).ev)


def format_comparison(X, basis, d):
    """Return one cell of text per method of ``COMPARED``."""
    setup = Setup(X.shape[1], d)
    return [format_curve(METHODS[name].make(setup), X, basis) for name in COMPARED.values()]


def make_situations(n=5000, p=200, d=10):
    """Yield name, samples, true basis and number of components of streams other than those of the paper."""
    rng = np.random.default_rng(0)
    basis = random_orthonormal(rng, p, d)
    clean = rng.standard_normal((n, d)) @ basis.T * np.sqrt(p / d)
    errors = np.where(rng.random((n, p)) < 0.2, rng.uniform(-50, 50, (n, p)), 0.0)
    X = clean + errors + 0.1 * rng.standard_normal((n, p))
    yield "20 % corrupted, dense noise", X, basis, d
    yield "twice as many components", X, basis, 2 * d
    mean = rng.uniform(50, 100, p)
    yield "a mean of 50 to 100", X + mean, basis, d
    scales = 10 ** rng.uniform(-1, 1, p)
    yield "features 0.1 to 10 times", X * scales, basis * scales[:, None], d
    bad = rng.random((n, 1)) < 0.1
    yield "10 % of samples wrong", np.where(bad, 20 * rng.standard_normal((n, p)), clean), basis, d
    early = np.arange(n)[:, None] < 2000
    yield "corruption after 2000", np.where(early, clean, X), basis, d
    yield "heavy-tailed samples", clean * np.abs(rng.standard_t(2, (n, 1))) + errors, basis, d
    parts = rng.exponential(1, (d, p)) * (rng.random((d, p)) < 0.2)
    yield "non-negative parts", rng.exponential(1, (n, d)) @ parts + errors, parts.T, d


def main():
    """Print the tables."""
    console = Console(width=240)
    marks = ", ".join(map(str, MARKS))
    table = Table(
        "rank, corrupted, magnitude, dense noise",
        *COMPARED,
        "PCA, errors removed",
        "PCA, errors known",
        title=f"the paper's protocol: expressed variance after {marks} samples",
    )
    for d, rho, magnitude, dense in PROTOCOL:
        data = Problem("corrupted", d, rho, magnitude, dense).make()
        cells = format_comparison(data.X, data.basis, d)
        clean = Problem("clean", d, 0.0, dense_noise=dense).make()
        cells.append(format_curve(CleanPCA(d), clean.X, data.basis) if dense else "")
        corrupted = np.abs(data.noise) > 5 * dense
        cells.append(format_curve(OraclePCA(d, corrupted), data.X, data.basis) if dense and rho else "")
        table.add_row(f"{d}, {rho}, {magnitude:g}, {dense}", *cells)
    console.print(table)
    table = Table("situation", *COMPARED, title=f"other streams: expressed variance after {marks} samples")
    for name, X, basis, d in make_situations():
        table.add_row(name, *format_comparison(X, basis, d))
    console.print(table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
