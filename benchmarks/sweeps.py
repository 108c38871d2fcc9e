"""How many sweeps a sample costs OMRMD and OR-PCA as published, how long they take, and what a limit changes.

Run ``NUMBA_DISABLE_JIT=1 python benchmarks/sweeps.py``: compiled loops cannot be counted.
"""

import time
from unittest.mock import patch

import click
from threadpoolctl import threadpool_limits

from maxnorm.metrics import expressed_variance
from maxnorm.paper import reference as published
from maxnorm.paper.reproduce.cells import learner, samples

N_SAMPLES, SHARE_CORRUPTED, SEED = 300, 0.3, 0
VARIANTS = {
    "OMRMD": ("omrmd", published.MAX_SWEEPS),
    "OMRMD, up to 2000": ("omrmd", 2000),
    "OR-PCA": ("orpca", published.MAX_SWEEPS),
}


@click.command()
def main():
    """Count and time."""
    click.echo(f"{'p':>5} {'method':>18} {'sweeps':>7} {'ms a sample':>12} {'expressed variance':>19}")
    for p in (400, 1000):
        for name, (method, limit) in VARIANTS.items():
            basis, chunks = samples(p, p // 10, N_SAMPLES, SHARE_CORRUPTED, SEED)
            model, X = learner(method, p, p // 10, "orthonormal", SEED), next(chunks)
            with (
                patch.object(published, "_noise_step", wraps=published._noise_step) as sweep,
                patch.object(published, "MAX_SWEEPS", limit),
            ):
                begin = time.process_time()
                model.partial_fit(X)
                spent = 1e3 * (time.process_time() - begin) / len(X)
            found = expressed_variance(basis, model.components_.T)
            click.echo(f"{p:5} {name:>18} {sweep.call_count / len(X):7.0f} {spent:12.1f} {found:19.3f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
