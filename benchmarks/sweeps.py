"""How many sweeps a sample costs OMRMD and OR-PCA as published, and how long they take.

Run ``NUMBA_DISABLE_JIT=1 python benchmarks/sweeps.py``: compiled loops cannot be counted.
"""

import time
from unittest.mock import patch

import click
from threadpoolctl import threadpool_limits

from maxnorm import published
from maxnorm.reproduce.cells import learner, samples

N_SAMPLES, SHARE_CORRUPTED, SEED = 300, 0.3, 0


@click.command()
def main():
    """Count and time."""
    click.echo(f"{'p':>5} {'method':>6} {'sweeps':>7} {'milliseconds a sample':>22}")
    for p in (400, 1000):
        for method in ("omrmd", "orpca"):
            _, chunks = samples(p, p // 10, N_SAMPLES, SHARE_CORRUPTED, SEED)
            model, X = learner(method, p, p // 10, "orthonormal", SEED), next(chunks)
            with patch.object(published, "_noise_step", wraps=published._noise_step) as sweep:
                begin = time.process_time()
                model.partial_fit(X)
                spent = time.process_time() - begin
            click.echo(f"{p:5} {method:>6} {sweep.call_count / len(X):7.0f} {1e3 * spent / len(X):22.1f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
