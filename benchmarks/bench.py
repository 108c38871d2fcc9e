"""All methods on all problems, and how ours scales: one command, one report.

    python benchmarks/bench.py            # what is in docs/benchmarks, about twenty minutes
    python benchmarks/bench.py --quick    # under two minutes, to a folder of its own

One BLAS thread, except where threads are compared. Machines are noisy: read ratios, not milliseconds.
"""

import json
from pathlib import Path

import click
import numpy as np
import scaling
from machine import describe
from measure import learn, peak_memory, summary
from methods import METHODS
from problems import PROBLEMS, QUICK
from report import write_report
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits


def warm_up():
    """Load what is loaded once: compiled loops, BLAS."""
    X = np.random.default_rng(0).standard_normal((30, 20))
    for dtype in (np.float64, np.float32):
        for Learner in scaling.LEARNERS:
            Learner(2, random_state=0).fit(X.astype(dtype))
    scaling.with_sizes([(500, 40)], 100)  # single precision inside


def compare(problems, methods, patience):
    """Return one record for each method on each problem."""
    records = []
    pairs = [(problem, method) for problem in problems for method in methods]
    for problem, method in track(pairs, "methods on problems"):
        X, basis = problem.make()
        curve = learn(method, X, basis, patience)
        megabytes = peak_memory(method, X, basis) if len(curve) > 1 or method.batch else None
        records.append(
            {
                "problem": problem.name,
                "method": method.name,
                "stopped": not method.batch and curve[-1][0] < len(X) - basis.shape[1],
                **summary(curve),
                "megabytes": megabytes,
                "curve": curve,
            }
        )
    return records


def scale(quick):
    """Return the tables of how our learner grows."""
    with threadpool_limits(1):
        tables = {
            "samples": scaling.with_samples(
                [1000, 3000, 10_000] if quick else [1000, 3000, 10_000, 30_000, 100_000]
            ),
            "features": scaling.with_sizes(
                [(p, 10) for p in ((100, 1000) if quick else (100, 300, 1000, 3000, 10_000))], 1000
            ),
            "components": scaling.with_sizes(
                [(400, d) for d in ((5, 40) if quick else (5, 10, 20, 40, 80, 160))], 1000
            ),
            "large": scaling.large(*((1000, 100) if quick else (3000, 300))),
            "film": scaling.frames_a_second(60 if quick else 300),
            "single": scaling.single_rows(300 if quick else 1000),
        }
    tables["threads"] = scaling.with_threads(
        [(400, 40)] if quick else [(50, 5), (400, 40), (1000, 50), (3000, 300)], 1000
    )
    return tables


@click.command()
@click.option("--quick", is_flag=True, help="Fewer, smaller problems: under two minutes.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder for the report.")
def main(quick, output):
    """Measure everything and write the report."""
    console = Console()
    output = output or Path("build/benchmarks" if quick else "docs/benchmarks")
    output.mkdir(parents=True, exist_ok=True)
    missing = [method.name for method in METHODS if not method.installed]
    if missing:
        console.print(f"not installed, left out: {', '.join(missing)}")
    methods = [method for method in METHODS if method.installed]
    warm_up()
    with threadpool_limits(1):
        records = compare(QUICK if quick else PROBLEMS, methods, patience=5.0 if quick else 60.0)
    results = {
        "machine": describe(),
        "quick": quick,
        "missing": missing,
        "compared": records,
        "scaling": scale(quick),
    }
    (output / "results.json").write_text(json.dumps(results, indent=1))
    write_report(results, output)
    console.print(f"report in {output}/README.md")


if __name__ == "__main__":
    main()
