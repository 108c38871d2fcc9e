"""Compare all methods on all problems, measure how the estimators scale, and write a report.

    python benchmarks/bench.py            # the report in docs/benchmarks, about half an hour
    python benchmarks/bench.py --quick    # under two minutes, in build/benchmarks

One BLAS thread is used, except where numbers of threads are compared. Timings vary between runs, so compare
ratios rather than milliseconds.
"""

import json
import warnings
from pathlib import Path

import click
import numpy as np
import scaling
from machine import describe
from report import write_report
from rich.console import Console
from rich.progress import track
from rivals import Grasta, TrimmedPCA
from threadpoolctl import threadpool_limits

from maxnorm.paper.measure import measure_curve, measure_peak_memory
from maxnorm.paper.methods import METHODS, Method, Setup
from maxnorm.paper.problems import Problem

RIVALS = {
    "trimmed-pca": Method("trimmed PCA", lambda setup: TrimmedPCA(setup.rank)),
    "grasta": Method("GRASTA", lambda setup: Grasta(setup.n_features, setup.rank)),
}
ORDER = (
    "default-max",
    "default-nuclear",
    "trimmed-pca",
    "grasta",
    "omrmd",
    "orpca",
    "hyperspy",
    "pca",
    "dictionary",
    "pcp-tight",
    "tensorly",
    "rpca",
    "batch-pca",
)
# In the order of the report, which compares the others with the first.
COMPARED = [(METHODS | RIVALS)[name] for name in ORDER]
PROBLEMS = [
    Problem("rank 8, 26 % corrupted", 8, 0.26),
    Problem("rank 40, 30 % corrupted", 40, 0.3),
    Problem("rank 80, 30 % corrupted", 80, 0.3),
    Problem("rank 80, 50 % corrupted", 80, 0.5),
    Problem("rank 152, 50 % corrupted", 152, 0.5),
    Problem("rank 40, 30 % corrupted, errors the size of the signal", 40, 0.3, magnitude=1.0),
    Problem("rank 8, dense noise only", 8, 0.0, dense_noise=0.3),
    Problem("rank 8, dense noise, 30 % corrupted", 8, 0.3, dense_noise=0.3),
]
QUICK_PROBLEMS = [
    Problem("rank 40, 30 % corrupted", 40, 0.3, n_samples=1000),
    Problem("rank 8, dense noise only", 8, 0.0, dense_noise=0.3, n_samples=1000),
]
LEVELS = (0.5, 0.8, 0.95)  # expressed variances for which the report gives samples and seconds
MEMORY_SAMPLES = 1000  # samples of a memory measurement; the memory of a learner does not depend on more


def warm_up():
    """Load compiled code and BLAS before the first measurement."""
    X = np.random.default_rng(0).standard_normal((30, 20))
    for dtype in (np.float64, np.float32):
        for Learner in scaling.LEARNERS:
            Learner(2, random_state=0).fit(X.astype(dtype))
            Learner(2, random_state=0).partial_fit(X.astype(dtype)).decompose(X.astype(dtype))
    scaling.measure_sizes([(500, 40)], 100)  # large enough for sweeps in single precision


def compare(problems, methods, time_limit):
    """Return one record for each method on each problem.

    Parameters
    ----------
    problems : list of Problem
        The problems.
    methods : list of Method
        The methods.
    time_limit : float
        Seconds after which a stream is stopped.

    Returns
    -------
    list of dict
        Learning curve, the samples and seconds to each of ``LEVELS``, time per sample and peak memory.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries
        pairs = [(problem, method) for problem in problems for method in methods]
        return [compare_one(*pair, time_limit) for pair in track(pairs, "methods on problems")]


def compare_one(problem, method, time_limit):
    """Return the record of one method on one problem."""
    data, setup = problem.make(), Setup(problem.n_features, problem.rank)
    blocks = [data.X] if method.is_batch else split_rows(data.X, problem.rank)
    curve = measure_curve(method.make(setup), blocks, data.basis, time_limit=time_limit, digits=4)
    megabytes = None
    if len(curve.samples) > 1 or method.is_batch:  # a stream that is too slow for two blocks is not repeated
        rows = data.X if method.is_batch else data.X[:MEMORY_SAMPLES]
        megabytes = round(measure_peak_memory(method.make(setup), [rows]), 1)
    return {
        "problem": problem.name,
        "method": method.title,
        "stopped": not method.is_batch and curve.samples[-1] < len(data.X) - problem.rank,
        "samples": curve.samples[-1],
        "ms": 1e3 * curve.seconds[-1] / curve.samples[-1],
        "ev": curve.ev[-1],
        "reached": {str(level): curve.first_reaching(level) for level in LEVELS},
        "megabytes": megabytes,
        "curve": curve.points,
    }


def split_rows(X, rank):
    """Split samples into blocks of equal size, without a last block that IncrementalPCA would reject."""
    size = max(100, 2 * rank)
    blocks = [X[start : start + size] for start in range(0, len(X), size)]
    return [block for i, block in enumerate(blocks) if i == 0 or len(block) >= rank]


def measure_scaling(quick):
    """Return the tables of how time and memory of the estimators grow."""
    with threadpool_limits(1):
        tables = {
            "samples": scaling.measure_samples(
                [1000, 3000, 10_000] if quick else [1000, 3000, 10_000, 30_000, 100_000]
            ),
            "features": scaling.measure_sizes(
                [(p, 10) for p in ((100, 1000) if quick else (100, 300, 1000, 3000, 10_000))], 1000
            ),
            "components": scaling.measure_sizes(
                [(400, d) for d in ((5, 40) if quick else (5, 10, 20, 40, 80, 160))], 1000
            ),
            "large": scaling.measure_large(*((1000, 100) if quick else (3000, 300))),
            "film": scaling.measure_film(60 if quick else 300),
            "single": scaling.measure_single_rows(300 if quick else 1000),
        }
    tables["threads"] = scaling.measure_threads(
        [(400, 40)] if quick else [(50, 5), (400, 40), (1000, 50), (3000, 300)], 1000
    )
    return tables


@click.command()
@click.option("--quick", is_flag=True, help="Fewer and smaller problems: under two minutes.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder of the report.")
def main(quick, output):
    """Run all measurements and write the report."""
    console = Console()
    output = output or Path("build/benchmarks" if quick else "docs/benchmarks")
    output.mkdir(parents=True, exist_ok=True)
    missing = [method.title for method in COMPARED if not method.installed]
    if missing:
        console.print(f"not installed and therefore left out: {', '.join(missing)}")
    methods = [method for method in COMPARED if method.installed]
    warm_up()
    with threadpool_limits(1):
        records = compare(QUICK_PROBLEMS if quick else PROBLEMS, methods, time_limit=5.0 if quick else 60.0)
    results = {
        "machine": describe(),
        "quick": quick,
        "missing": missing,
        "compared": records,
        "scaling": measure_scaling(quick),
    }
    (output / "results.json").write_text(json.dumps(results, indent=1))
    write_report(results, output)
    console.print(f"report written to {output}/README.md")


if __name__ == "__main__":
    main()
