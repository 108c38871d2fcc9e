"""Compare the time of one pass with that of another version of the library, in one run.

    python benchmarks/speed.py 478e157              # version 0.1, in two minutes
    python benchmarks/speed.py HEAD~1 --noise 1     # the last commit, with as much dense noise as signal

Both versions take turns, each in a process of its own with one BLAS thread, so that a busy machine slows both
down. Each of them does what ``partial_fit`` does by default, given the rank. The other version is checked out
into a temporary folder.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Features, components, share of wrong entries, samples.
CASES = [
    (400, 8, 0.02, 5000),
    (400, 8, 0.3, 5000),
    (400, 40, 0.02, 5000),
    (400, 40, 0.3, 5000),
    (100, 10, 0.1, 5000),
    (1000, 100, 0.3, 3000),
    (3000, 20, 0.3, 2000),
    (3000, 100, 0.3, 2000),
    (3000, 300, 0.3, 1500),
]
ESTIMATORS = {"max-norm": "MaxNormDecomposition", "nuclear norm": "OnlineRobustPCA"}
# Reads a case per line, and prints the processor time of a pass over its samples.
WORKER = """
import json, sys, time, warnings
sys.path[:0] = sys.argv[1:]
import numpy as np
import maxnorm
from hard import make_low_rank, make_wrong

warnings.simplefilter("ignore", UserWarning)
for line in sys.stdin:
    name, p, d, share, n, noise = json.loads(line)
    rng = np.random.default_rng(0)
    _, X = make_low_rank(rng, n, p, d)
    X += noise * X.std() * rng.standard_normal(X.shape)
    X += make_wrong(rng, X.shape, share, "±1000")
    start = time.process_time()
    model = getattr(maxnorm, name)(d, random_state=0).partial_fit(X)
    model.components_
    print(time.process_time() - start, flush=True)
"""


@contextmanager
def checkout(commit):
    """Yield a folder with the source code of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", folder, commit], check=True)
        try:
            yield Path(folder) / "src"
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def start_worker(source, program):
    """Return a process that runs a program with the version whose source code is given."""
    command = [sys.executable, "-c", program, str(source), str(ROOT / "benchmarks")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def time_pass(worker, case):
    """Return the seconds that one pass takes a worker."""
    worker.stdin.write(json.dumps(case) + "\n")
    worker.stdin.flush()
    answer = worker.stdout.readline()
    if not answer:
        raise click.ClickException("a pass has failed; its traceback is above")
    return float(answer)


@click.command()
@click.argument("commit")
@click.option("--repetitions", default=5, show_default=True, help="Passes of each version per case.")
@click.option("--noise", default=0.0, show_default=True, help="Dense noise, in units of the signal.")
def main(commit, repetitions, noise):
    """Print the median times per sample of COMMIT and of this version, and the ratio of the times."""
    table = Table("features, rank, share of wrong entries", "norm", commit, "this version", "ratio")
    table.title = "milliseconds per sample"
    with checkout(commit) as source:
        workers = [start_worker(folder, WORKER) for folder in (source, ROOT / "src")]
        for p, d, share, n in track(CASES):
            for norm, name in ESTIMATORS.items():
                case = [name, p, d, share, n, noise]
                for worker in workers:  # the first pass loads and compiles code
                    time_pass(worker, [name, p, d, share, 500, noise])
                seconds = [[time_pass(worker, case) for worker in workers] for _ in range(repetitions)]
                before, now = np.median(seconds, axis=0)
                cells = [f"{1e3 * t / n:.4f}" for t in (before, now)]
                table.add_row(f"{p}, {d}, {share}", norm, *cells, f"{now / before:.2f}")
        for worker in workers:
            worker.stdin.close()
            worker.wait()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
