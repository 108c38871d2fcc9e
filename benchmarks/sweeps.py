"""Count the sweeps per sample of OMRMD and OR-PCA as published, time them, and vary the limit on sweeps.

    NUMBA_DISABLE_JIT=1 python benchmarks/sweeps.py

Numba has to be disabled, because calls inside compiled loops cannot be counted.
"""

import time
from unittest.mock import patch

import click
from threadpoolctl import threadpool_limits

from maxnorm.metrics import expressed_variance
from maxnorm.paper import reference
from maxnorm.paper.measure import measure_seconds
from maxnorm.paper.methods import METHODS, Setup
from maxnorm.paper.problems import corrupted_stream

N_SAMPLES, CORRUPTION, SEED = 300, 0.3, 0
VARIANTS = {
    "OMRMD": ("omrmd", reference.MAX_SWEEPS),
    "OMRMD, up to 2000": ("omrmd", 2000),
    "OR-PCA": ("orpca", reference.MAX_SWEEPS),
}


@click.command()
def main():
    """Print sweeps and CPU milliseconds per sample, and the expressed variance after 300 samples."""
    click.echo(f"{'p':>5} {'method':>18} {'sweeps':>7} {'ms per sample':>14} {'expressed variance':>19}")
    for p in (400, 1000):
        for name, (method, limit) in VARIANTS.items():
            basis, blocks = corrupted_stream(p, p // 10, N_SAMPLES, CORRUPTION, SEED)
            learner, X = METHODS[method].make(Setup(p, p // 10, start_seed=(SEED, 1))), next(blocks)
            with (
                patch.object(reference, "_update_noise", wraps=reference._update_noise) as sweep,
                patch.object(reference, "MAX_SWEEPS", limit),
            ):
                seconds, _ = measure_seconds(learner.partial_fit, X, clock=time.process_time)
            ev = expressed_variance(basis, learner.components_.T)
            sweeps, milliseconds = sweep.call_count / len(X), 1e3 * seconds / len(X)
            click.echo(f"{p:5} {name:>18} {sweeps:7.0f} {milliseconds:14.1f} {ev:19.3f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
