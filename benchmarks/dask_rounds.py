"""Measure learning on Dask: accuracy against the size of rounds, speed against workers, and a cost model.

    python benchmarks/dask_rounds.py rounds     # expressed variance for rounds of 1, 4, 16 and 64 blocks
    python benchmarks/dask_rounds.py speed      # samples per second with 1 and 2 workers, and bytes moved
    python benchmarks/dask_rounds.py model      # cost model of a round: fitted, checked, and extrapolated

``make bench-dask`` runs all three, in about ten minutes. Tables are written to docs/benchmarks/dask.json.
"""

import json
import pickle
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import click
import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from machine import describe
from scipy.optimize import nnls

from maxnorm import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core.batch import Batch
from maxnorm.dask.blocks import Blocks
from maxnorm.dask.rounds import BLOCKS_PER_ROUND, RoundSettings, learn_blocks
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.estimators.validation import BatchReader
from maxnorm.learner import Progress
from maxnorm.metrics import expressed_variance
from maxnorm.paper.measure import measure_seconds
from maxnorm.paper.problems import corrupted_stream

RESULTS = Path(__file__).parents[1] / "docs" / "benchmarks"
# Dask sets malloc to return memory to the system at once, so that every temporary array needs fresh pages.
# These thresholds let malloc keep the memory.
MALLOC_SETTINGS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**27,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}


@contextmanager
def start_cluster(workers, memory):
    """Start a cluster of processes on this machine, with a client; ``memory`` applies ``MALLOC_SETTINGS``."""
    with (
        dask.config.set(MALLOC_SETTINGS if memory else {}),
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local,
        Client(local) as client,
    ):
        yield client


def write_samples(path, rows, p, d, share=0.1):
    """Write samples with a share of corrupted entries to a .npy file, and return their true basis."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(rows, p))
    basis, blocks = corrupted_stream(p, d, rows, share, seed=0, block=1000)
    for i, block in enumerate(blocks):
        out[1000 * i : 1000 * i + len(block)] = block
    out.flush()
    return basis


def open_samples(path, block, count, p):
    """Return a Dask array of ``count`` blocks of samples; each worker reads the blocks that it needs."""

    def read(block_id=None):
        first = block_id[0] * block
        return np.array(np.load(path, mmap_mode="r")[first : first + block])

    return da.map_blocks(read, chunks=((block,) * count, (p,)), dtype=np.float64, meta=np.empty((0, 0)))


def save(name, table):
    """Save a table to dask.json; tables of other runs are kept."""
    path = RESULTS / "dask.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results[name] = {"machine": describe(), "rows": table}
    path.write_text(json.dumps(results, indent=1) + "\n")


@click.group(chain=True, invoke_without_command=True)
@click.pass_context
def main(context):
    """Run the given commands, or all of them."""
    if context.invoked_subcommand is None:
        for command in (rounds, speed, model):
            context.invoke(command)


# -- accuracy ---------------------------------------------------------------------------------------

PROBLEMS = {
    "p=400 d=40, 30 % wrong": (32_000, 400, 40, 0.3),
    "p=400 d=40, 50 % wrong": (32_000, 400, 40, 0.5),
    "p=400 d=120, 20 % wrong": (32_000, 400, 120, 0.2),
}
BLOCK = 250  # samples per block


@main.command()
def rounds():
    """Measure learning curves for rounds of fixed sizes, rounds of the default size, and without Dask."""
    import matplotlib.pyplot as plt

    table = []
    figure, axes = plt.subplots(
        2, len(PROBLEMS), figsize=(4 * len(PROBLEMS), 6.5), sharex=True, sharey=True, squeeze=False
    )
    for column, (title, (n, p, d, share)) in enumerate(PROBLEMS.items()):
        data = make_corrupted_low_rank(n, p, d, corruption=share, random_state=0)
        for row, kind in enumerate((MaxNormDecomposition, OnlineRobustPCA)):
            axis = axes[row, column]
            for name in ("serial", "default", 1, 4, 16, 64):
                curve = measure_rounds(kind, d, name, data)
                table.append({"problem": title, "estimator": kind.__name__, "rounds": name, "curve": curve})
                label = f"rounds of {name}" if isinstance(name, int) else name
                axis.loglog(*zip(*curve, strict=True), label=label, lw=2 if name == "default" else 1)
                click.echo(f"{title:25} {kind.__name__:22} {label:12} 1 - EV {curve[-1][1]:.1e}")
            axis.set_title(f"{kind.__name__}\n{title}", fontsize=8)
    axes[0, 0].set_ylabel("1 - expressed variance")
    axes[1, 0].set_ylabel("1 - expressed variance")
    axes[1, len(PROBLEMS) // 2].set_xlabel("samples")
    axes[0, 0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(RESULTS.parent / "images" / "rounds.png", dpi=110)
    save("rounds", table)


def measure_rounds(kind, d, name, data):
    """Return pairs of samples seen and 1 minus the expressed variance.

    Parameters
    ----------
    kind : type
        Estimator.
    d : int
        Number of components.
    name : {"serial", "default"} or int
        Without Dask, with rounds of the default size, or with rounds of this number of blocks.
    data : CorruptedLowRank
        Data set.
    """
    curve = []

    def record(_):
        missing = 1.0 - expressed_variance(data.basis, model.components_.T)
        curve.append((model.n_samples_seen_, max(missing, 1e-12)))

    model = kind(d, random_state=0)
    if name == "serial":
        for start in range(0, len(data.X), 4 * BLOCK):
            record(model.partial_fit(data.X[start : start + 4 * BLOCK]))
        return curve
    if name != "default":
        model.set_params(batch_size=name * BLOCK)
    with dask.config.set(scheduler="synchronous"):
        model.fit(da.from_array(data.X, chunks=(BLOCK, -1)), callback=record)
    return curve


# -- speed ------------------------------------------------------------------------------------------


@main.command()
@click.option("--rows", default=1000, help="Samples per block.")
@click.option("--blocks", default=400, help="Number of blocks.")
@click.option("--repetitions", default=3, help="Fits for each number of workers.")
def speed(rows, blocks, repetitions):
    """Measure samples per second at p = 1000 and d = 50, with one worker and with two."""
    p, d = 1000, 50
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npy"
        basis = write_samples(path, rows * blocks, p, d)
        X = open_samples(path, rows, blocks, p)
        for memory in (False, True):  # in this order, because the environment variables persist
            for _ in range(repetitions):
                for workers in (1, 2):
                    with start_cluster(workers, memory) as client:
                        MaxNormDecomposition(d, random_state=0).fit(X[: 6 * rows])  # compiles and connects
                        table.append({"workers": workers, "memory": memory, **measure_fit(client, X, basis)})
            print_speed(table, memory)
    save("speed", table)


def measure_fit(client, X, basis):
    """Return speed, accuracy and network traffic of a fit."""
    before, seen, begin = bytes_moved(client), [], time.perf_counter()
    model = MaxNormDecomposition(basis.shape[1], random_state=0)
    model.fit(X, callback=lambda result: seen.append((result.n_samples, time.perf_counter() - begin)))
    seconds = time.perf_counter() - begin
    late = [(n, t) for n, t in seen if n >= len(X) / 10]  # when rounds have many blocks
    learner = model.make_learner()
    state, settings = learner.begin(model.state_, None)
    message = len(pickle.dumps(learner.measure(Batch(np.ones((2, len(state.L)))), state.L, settings, 0)))
    return {
        "samples/s": len(X) / seconds,
        "samples/s in rounds": (late[-1][0] - late[0][0]) / (late[-1][1] - late[0][1]),
        "ev": expressed_variance(basis, model.components_.T),
        "rounds": len(seen),
        "bytes/sample between workers": (bytes_moved(client) - before) / len(X),
        "bytes/sample to and from the client": 2 * message * len(seen) / len(X),
    }


def bytes_moved(client):
    """Return the number of bytes that workers have sent to each other."""

    def sent(dask_worker):
        return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)

    return sum(client.run(sent).values())


def print_speed(table, memory):
    """Print medians over repetitions, and the gain of two workers over one."""
    click.echo(f"\np = 1000, d = 50, {'malloc keeps memory' if memory else 'malloc as set by Dask'}")
    medians = {}
    for workers in (1, 2):
        runs = [row for row in table if row["workers"] == workers and row["memory"] == memory]
        medians[workers] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        click.echo(f"  {workers} workers: " + ", ".join(f"{k} {v:.6g}" for k, v in medians[workers].items()))
    for key in ("samples/s", "samples/s in rounds"):
        click.echo(f"  gain in {key}: {medians[2][key] / medians[1][key]:.2f}")


# -- cost model -------------------------------------------------------------------------------------

# Features, components, rows per block, blocks per round. The model is fitted to the first list and predicts
# the second.
FITTED = [
    (p, d, rows, count)
    for p, d in ((300, 10), (1000, 10), (1000, 50))
    for rows, count in ((50, 16), (50, 128), (1000, 8), (1000, 32), (2000, 16))
]
CHECKED = [(600, 30, 1500, 16), (2000, 20, 500, 32), (1000, 50, 4000, 8), (600, 30, 100, 64)]
PRICES = ("entry", "entry x component", "block on a worker", "block at the centre", "round", "basis update")


def cost_terms(workers, p, d, rows, count):
    """Return the quantities on which the time of a round depends; the model has one price for each."""
    turns = -(-count // workers)
    return [turns * rows * p, turns * rows * p * d, turns, count, 1.0, p * d * d]


@main.command()
@click.option("--repetitions", default=5, help="Rounds of each size.")
def model(repetitions):
    """Fit the cost of a round on this machine, check it at other sizes, and extrapolate to large clusters."""
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npy"
        for workers in (1, 2):
            with start_cluster(workers, memory=True):
                for size in FITTED + CHECKED:
                    p, d, rows, count = size
                    write_samples(path, rows * count, p, d)
                    seconds = measure_round(path, p, d, rows, count, repetitions)
                    table.append({"workers": workers, "size": size, "seconds": seconds})
    fitted = [row for row in table if row["size"] in FITTED]
    terms = np.array([cost_terms(row["workers"], *row["size"]) for row in fitted])
    times = np.array([row["seconds"] for row in fitted])
    prices, _ = nnls(terms / times[:, None], np.ones(len(times)))  # minimises relative errors
    click.echo("\nprices: " + ", ".join(f"{name} {x:.3g} s" for name, x in zip(PRICES, prices, strict=True)))
    for row in table:
        p, d, rows, count = row["size"]
        row["model"] = float(prices @ cost_terms(row["workers"], *row["size"]))
        click.echo(
            f"{'fitted ' if row in fitted else 'checked'} {row['workers']} workers, p={p} d={d} rows={rows} "
            f"blocks={count}: {row['seconds']:.3f} s, model {row['model']:.3f} s"
        )
    for name, rows in (("fitted", fitted), ("checked", [row for row in table if row not in fitted])):
        errors = [abs(row["model"] / row["seconds"] - 1.0) for row in rows]
        click.echo(f"{name}: error {statistics.median(errors):.0%} at the median, {max(errors):.0%} at most")
    save("model", {"prices": dict(zip(PRICES, prices.tolist(), strict=True)), "rounds": table})
    for p, d in ((1000, 50), (10_000, 50)):
        extrapolate(prices, p, d)


def measure_round(path, p, d, rows, count, repetitions):
    """Return the median time of a round, always with the same basis."""
    X = open_samples(path, rows, count, p)
    first = np.load(path, mmap_mode="r")[: max(1000, 20 * d)]
    model = MaxNormDecomposition(d, random_state=0).fit(np.resize(first, (max(1000, 20 * d), p)))
    learner, progress, blocks = model.make_learner(), Progress(model.state_), Blocks.of(X)
    settings = RoundSettings(BatchReader(keeps_sparse=False), seed=0, batch_size=rows * count, half_life=None)

    def run_round():
        list(learn_blocks(learner, progress, blocks, settings))

    seconds = [measure_seconds(run_round)[0] for _ in range(repetitions + 1)]
    return statistics.median(seconds[1:])


def extrapolate(prices, p, d, samples=1e11, bandwidth=1e9):
    """Print what the model predicts for large clusters.

    Parameters
    ----------
    prices : array
        Fitted prices, in the order of ``PRICES``.
    p, d : int
        Features and components.
    samples : float, default=1e11
        Number of samples of the predicted run.
    bandwidth : float, default=1e9
        Bandwidth of the network in bytes per second.
    """
    entry, component, on_worker, at_centre, once, update = prices
    per_sample = max(entry * p + component * p * d, 1e-12)
    message = 8 * p * d / bandwidth
    click.echo(f"\np = {p}, d = {d}: {1 / per_sample:.0f} samples/s per worker")
    for workers in (10, 100, 1000):
        for rows in (1000, 10_000, 100_000):
            count = min(BLOCKS_PER_ROUND, 20 * workers)
            turns = -(-count // workers)
            work = turns * (
                rows * per_sample + on_worker + message
            )  # the sums of a block are sent by the worker
            centre = count * at_centre
            tail = (8 * np.ceil(np.log(count) / np.log(8)) + np.log2(workers)) * message
            seconds = max(work, centre) + tail + once + update * p * d * d
            rate = count * rows / seconds
            click.echo(
                f"  {workers:5} workers, blocks of {rows:6}: {work:7.1f} s of work and {centre:5.1f} s of "
                f"scheduling per round, {tail:5.2f} s to add up the sums; {rate:.2g} samples/s, "
                f"{rate * per_sample / workers:4.0%} busy, {samples:.0e} in {samples / rate / 3600:.3g} h"
            )


if __name__ == "__main__":
    main()
