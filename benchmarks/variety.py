"""Compare another version of the library with this one on many random streams of all kinds, in one run.

    python benchmarks/variety.py 478e157 --streams 300    # version 0.1, about ten minutes
    python benchmarks/variety.py HEAD~1

A change of a default that helps one kind of data often harms another. Streams differ in the numbers of their
features, components and samples, the distribution of their coefficients, in dense noise, gross errors,
samples that are wrong as a whole, gaps, units and precision. Both versions work at the same time, each in a
process of its own with one BLAS thread. They are given the number of components, and nothing else.
"""

import json
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from speed import ROOT, checkout, start_worker

METHODS = ("partial_fit", "fit")
NEGLIGIBLE = 1e-4  # errors below this, in standard deviations of the features, count as equal
# Reads the number of a stream per line, and prints the errors of each method.
WORKER = """
import sys
sys.path[:0] = sys.argv[1:]
from variety import work
work()
"""


def make_stream(seed):
    """Return a description of a stream, the stream, its low-rank part, and which samples are wrong."""
    rng = np.random.default_rng(seed)
    p, n = int(rng.choice([10, 20, 40, 80, 150, 300, 500])), int(rng.choice([100, 320, 600, 1500]))
    d = int(min(rng.choice([1, 2, 3, 5, 8, 12, 20, 40]), p // 2))
    t, kind = np.arange(n)[:, None], str(rng.choice(["normal", "heavy tails", "skewed", "walks", "waves"]))
    coefficients = {
        "normal": lambda: rng.standard_normal((n, d)),
        "heavy tails": lambda: rng.standard_t(3, (n, d)),
        "skewed": lambda: rng.gamma(1.0, 1.0, (n, d)),
        "walks": lambda: rng.standard_normal(d) + 0.05 * rng.standard_normal((n, d)).cumsum(axis=0),
        "waves": lambda: np.sin(2.0 * np.pi * t / rng.uniform(20, 200, d) + rng.uniform(0, 6, d)),
    }[kind]()
    clean = coefficients / np.arange(1, d + 1) ** rng.choice([0.0, 0.5, 1.0]) @ rng.standard_normal((d, p))
    unit = clean.std()
    clean += unit * rng.standard_normal(p) * rng.choice([0, 1, 10])
    noise, share = rng.choice([0.0, 0.01, 0.1, 0.5]), rng.choice([0.0, 0.05, 0.2, 0.4])
    X = clean + noise * unit * rng.standard_normal(clean.shape) * rng.uniform(0.3, 2.0, p)
    gaps = rng.choice([0.0, 0.2])
    size, one_sided = rng.choice([1.0, 10.0, 1000.0]), rng.random() < 0.2
    errors = rng.uniform(0.0 if one_sided else -size, size, X.shape)
    X += np.where(rng.random(X.shape) < share, unit * errors, 0.0)
    odd = rng.random(n) < rng.choice([0.0, 0.0, 0.01, 0.05])
    X[odd] += unit * rng.choice([3.0, 100.0]) * rng.standard_normal((odd.sum(), p))
    X[rng.random(X.shape) < gaps] = np.nan
    scale = 10.0 ** rng.uniform(-3, 3, p) if rng.random() < 0.5 else 1.0
    precision = np.float32 if rng.random() < 0.3 else np.float64
    about = f"{n} x {p}, rank {d}, {kind}, noise {noise:g}, {share:.0%} wrong by {size:g}, "
    return f"{about}{odd.mean():.0%} rows, {gaps:.0%} gaps", (X * scale).astype(precision), clean * scale, odd


def measure_errors(seed):
    """Return the error of the low-rank part of a typical sample, for each method."""
    from maxnorm import MaxNormDecomposition, OnlineRobustPCA

    _, X, clean, odd = make_stream(seed)
    deviations, rank = clean.std(axis=0), np.linalg.matrix_rank(clean - clean.mean(axis=0))
    found = []
    for method in METHODS:
        model = (MaxNormDecomposition, OnlineRobustPCA)[seed % 2](rank, random_state=0)
        try:
            low_rank = getattr(model, method)(X).decompose(X).low_rank
        except ValueError as error:
            click.echo(f"stream {seed}, {method}: {error}", err=True)
            found.append(float("inf"))
            continue
        squares = np.mean(((low_rank - clean) / deviations)[~odd] ** 2, axis=1)
        found.append(float(np.sqrt(np.median(squares))))
    return found


def work():
    """Print the errors for the numbers of streams that are read."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        click.echo(json.dumps(measure_errors(int(line))))


def ask(worker, seed):
    """Return the answer of a worker."""
    worker.stdin.write(f"{seed}\n")
    worker.stdin.flush()
    answer = worker.stdout.readline()
    if not answer:
        raise click.ClickException("a worker has stopped; its traceback is above")
    return json.loads(answer)


@click.command()
@click.argument("commit")
@click.option("--streams", default=100, show_default=True, help="Number of streams.")
@click.option("--first", default=0, show_default=True, help="Number of the first stream.")
@click.option("--show", default=10, show_default=True, help="Number of streams that are shown.")
def main(commit, streams, first, show):
    """Print the ratios of the errors of this version to those of COMMIT."""
    console, seeds = Console(width=130), range(first, first + streams)
    with checkout(commit) as source, ThreadPoolExecutor(2) as pool:
        workers = [start_worker(folder, WORKER) for folder in (source, ROOT / "src")]
        errors = np.array([list(pool.map(ask, workers, [seed] * 2)) for seed in track(seeds)])
        for worker in workers:
            worker.stdin.close()
            worker.wait()
    before, now = errors.swapaxes(0, 1) + NEGLIGIBLE
    for i, method in enumerate(METHODS):
        ratios = now[:, i] / before[:, i]
        known = np.isfinite(ratios)
        table = Table("stream", "about", commit, "this version", "ratio", title=f"{method}: largest ratios")
        for j in np.argsort(-ratios)[:show]:
            cells = (f"{value:.4f}" for value in (before[j, i], now[j, i], ratios[j]))
            table.add_row(str(seeds[j]), make_stream(seeds[j])[0], *cells)
        console.print(table)
        mean = np.exp(np.mean(np.log(ratios[known])))
        better, worse = np.sum(ratios < 1.0 / 1.1), np.sum(ratios > 1.1)
        console.print(
            f"{method}: geometric mean of the ratios {mean:.3f}; of {streams} streams, {better} are better "
            f"by more than a tenth, and {worse} are worse\n"
        )


if __name__ == "__main__":
    main()
