"""The comparison in the README: accuracy and time of one pass over the paper's kind of data.

    python benchmarks/readme_table.py

Two thousand samples of 400 features; a share of the entries has errors up to 1000, where the clean ones
are below 1. Every method starts from a random basis and sees each sample once.
"""

import time
from itertools import islice

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import IncrementalPCA
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance
from maxnorm.published import run_published

N, P = 2000, 400
CASES = [(8, 0.26), (40, 0.3), (80, 0.5)]


def published(method):
    """Return a function that runs a published algorithm and returns its basis."""

    def run(X, d):
        L = np.linalg.qr(np.random.default_rng(0).standard_normal((P, d)))[0]
        states = run_published(X, L, P**-0.5, P**-0.5, method)
        return next(islice(states, N - 1, None)).L

    return run


METHODS = {
    "online PCA (scikit-learn IncrementalPCA)": lambda X, d: (
        IncrementalPCA(d, batch_size=200).fit(X).components_.T
    ),
    "OR-PCA as published": published("orpca"),
    "OMRMD as published": published("omrmd"),
    "`OnlineRobustPCA`": lambda X, d: OnlineRobustPCA(d, random_state=0).fit(X).components_.T,
    "`MaxNormDecomposition`": lambda X, d: MaxNormDecomposition(d, random_state=0).fit(X).components_.T,
}


def main():
    """Run every method on every case and print the table."""
    table = Table("method", *(f"rank {d}, {rho:.0%} corrupted" for d, rho in CASES))
    for name, method in METHODS.items():
        cells = []
        for d, rho in CASES:
            data = make_corrupted_low_rank(N, P, d, corruption=rho, random_state=0)
            start = time.perf_counter()
            basis = method(data.X, d)
            milliseconds = 1e3 * (time.perf_counter() - start) / N
            cells.append(f"{expressed_variance(data.basis, basis):.3f} ({milliseconds:.2g} ms)")
        table.add_row(name, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
