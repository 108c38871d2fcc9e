"""Fit on a Dask cluster while its workers are killed, and compare with a fit that is not disturbed.

    python benchmarks/dask_deaths.py --fits 100

Two worker processes on this machine are killed with SIGKILL at random moments, and Dask replaces them. Every
fit must end with the model of an undisturbed fit, bit by bit, or with an error that says that a block could
not be computed, if its workers died more often than they are replaced. No fit may hang. The exit status is 0
if all fits did so.
"""

import os
import random
import signal
import threading
import time
from collections import Counter

import click
import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from distributed.core import Status
from distributed.utils import get_mp_context

from maxnorm import MaxNormDecomposition
from maxnorm.dask.blocks import BlockError
from maxnorm.datasets import make_corrupted_low_rank

BLOCKS, ROWS, FEATURES, RANK = 40, 250, 60, 4
HANG_SECONDS = 300  # a fit that takes so long has failed


def worker_ids(cluster):
    """Return the process ids of the workers that have started."""
    processes = [nanny.process for nanny in list(cluster.workers.values())]
    running = [process for process in processes if process is not None and process.status == Status.running]
    return [process.pid for process in running if process.pid]


class Killer:
    """A thread that kills workers at random moments while a fit runs.

    If a worker dies while it starts, its nanny gives up, and Dask waits until somebody starts new workers.
    The thread does this too, like the manager of a real cluster.
    """

    def __init__(self, cluster, kills, seconds, rng):
        self.cluster = cluster
        self.moments = sorted(rng.uniform(0.0, seconds) for _ in range(kills))
        self.rng = rng
        self.killed = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        """Kill one worker at each of the moments, then replace nannies that have given up."""
        begin = time.monotonic()
        for moment in self.moments:
            if self.stopped.wait(max(0.0, begin + moment - time.monotonic())):
                return
            running = worker_ids(self.cluster)
            if running:
                try:
                    os.kill(self.rng.choice(running), signal.SIGKILL)
                except ProcessLookupError:  # it has just died
                    continue
                self.killed += 1
        while not self.stopped.wait(1.0):
            self.cluster.scale(2)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


class Hang(BaseException):
    """A fit has not ended in time. No fit catches this, because it is no Exception."""


def stop_hanging(*_):
    """Raise Hang, in a handler of signals."""
    raise Hang


def learnt(model):
    """Return what a model has learnt as bytes."""
    state = model.state_
    arrays = (state.L, state.statistics.A, state.statistics.B, np.array(state.n_samples))
    return b"".join(array.tobytes() for array in arrays)


def fit(X):
    """Return a model that was fitted to a Dask array."""
    return MaxNormDecomposition(RANK, random_state=0).fit(X)


@click.command()
@click.option("--fits", type=click.IntRange(1), default=100, show_default=True, help="Number of fits.")
@click.option("--kills", type=click.IntRange(1), default=4, show_default=True, help="Most kills in a fit.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the moments.")
def main(fits, kills, seed):
    """Run the experiment."""
    begin = time.monotonic()
    rng = random.Random(seed)
    data = make_corrupted_low_rank(BLOCKS * ROWS, FEATURES, RANK, corruption=0.15, random_state=0).X
    X = da.from_array(data, chunks=(ROWS, -1))
    with dask.config.set(scheduler="synchronous"):
        expected = learnt(fit(X))
    counts = Counter()
    signal.signal(signal.SIGALRM, stop_hanging)
    with start_cluster() as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        fit(X)  # compiles and connects
        started = time.monotonic()
        counts["identical without kills"] += learnt(fit(X)) == expected
        seconds = time.monotonic() - started
        for _ in range(fits):
            outcome, killed = run_fit(
                cluster, X, expected, Killer(cluster, rng.randint(1, kills), seconds, rng)
            )
            counts[outcome] += 1
            counts["kills"] += killed
            counts["disturbed"] += killed > 0
            cluster.scale(2)
            client.wait_for_workers(1)
    click.echo(f"{fits} fits of about {seconds:.1f} s, {counts['disturbed']} of them with kills")
    click.echo(f"  workers killed      {counts['kills']}")
    for outcome in ("identical", "clear error", "wrong model", "hang"):
        click.echo(f"  {outcome:18}  {counts[outcome]}")
    click.echo(f"{time.monotonic() - begin:.0f} seconds")
    fine = counts["identical"] + counts["clear error"] == fits and counts["identical without kills"]
    raise SystemExit(0 if fine else 1)


def start_cluster():
    """Start two workers, which are forked from a process that has imported the libraries."""
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context().set_forkserver_preload(["distributed", "dask.array", "maxnorm.estimators"])
    return LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")


def run_fit(cluster, X, expected, killer):
    """Fit once while workers are killed; return the outcome and the number of kills."""
    signal.alarm(HANG_SECONDS)
    try:
        with killer:
            model = fit(X)
        return "identical" if learnt(model) == expected else "wrong model", killer.killed
    except BlockError as error:
        click.echo(str(error))
        return "clear error", killer.killed
    except Hang:
        return "hang", killer.killed
    finally:
        signal.alarm(0)


if __name__ == "__main__":
    main()
