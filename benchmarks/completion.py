"""Compare matrix completion with other libraries: ratings, synthetic and real matrices, and a large stream.

python benchmarks/completion.py movielens        # needs the recbole wheel; uses scikit-surprise if installed
python benchmarks/completion.py synthetic        # phase diagram, with and without gross errors
python benchmarks/completion.py peers            # soft-impute and the imputers of scikit-learn
python benchmarks/completion.py file X.mat --key tensor   # a given matrix, entries hidden in three ways
python benchmarks/completion.py million          # 1,000,000 x 20,000, 100 million ratings, one pass
"""

import importlib.util
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
from maxnorm.paper.measure import measure_resident_memory, measure_seconds
from maxnorm.streams.stream import Stream

RATINGS_PATH = "recbole/dataset_example/ml-100k/ml-100k.inter"


def rmse(a, b):
    """Return the root mean square error."""
    return float(np.sqrt(np.mean((a - b) ** 2)))


@click.group()
def main():
    """Compare matrix completion with other libraries."""
    threadpool_limits(1)


# -- ratings ------------------------------------------------------------------------------------------


def load_movielens():
    """Download MovieLens-100k with the recbole wheel, and return users, items, stars and times."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "recbole", "-d", folder],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel, wheel.open(RATINGS_PATH) as file:
            raw = np.loadtxt(file, skiprows=1, delimiter="\t")
    users, items = (np.unique(raw[:, i], return_inverse=True)[1] for i in (0, 1))
    return users, items, raw[:, 2], raw[:, 3]


def measure_ours(users, items, stars, test, shape, *, block=None, **settings):
    """Return the error on held-out ratings, and the seconds for fitting and predicting.

    Parameters
    ----------
    users, items, stars : array of shape (n_ratings,)
        The ratings.
    test : boolean array of shape (n_ratings,)
        Which ratings are held out.
    shape : tuple of int
        Number of users and of items.
    block : int, default=None
        Users per block of a Dask array. None means without Dask.
    **settings
        Parameters of ``MaxNormCompletion``.
    """
    known = sp.csr_array((stars[~test], (users[~test], items[~test])), shape=shape)

    def predict():
        model = MaxNormCompletion(biases=True, value_range=(1, 5), random_state=0, **settings)
        model.fit(known if block is None else split_rows(known, block))
        return model.predict(known, users[test], items[test])

    seconds, predicted = measure_seconds(predict)
    return rmse(stars[test], predicted), seconds


def split_rows(ratings, rows):
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


def measure_surprise(kind, users, items, stars, test):
    """Return the error on held-out ratings, and the seconds, for an algorithm of Surprise."""
    import pandas
    from surprise import Dataset, Reader
    from surprise.prediction_algorithms import matrix_factorization

    frame = pandas.DataFrame({"user": users[~test], "item": items[~test], "stars": stars[~test]})
    train = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()

    def predict():
        model = getattr(matrix_factorization, kind)(random_state=0).fit(train)
        pairs = zip(users[test], items[test], strict=True)
        return np.array([model.predict(user, item).est for user, item in pairs])

    seconds, predicted = measure_seconds(predict)
    return rmse(stars[test], predicted), seconds


def measure_online(users, items, stars, times):
    """Return the errors of predicting each rating before it is learnt: of running biases, and of the model.

    Ratings arrive in order of time, in batches of a thousand. The row of a user holds all ratings so far.
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
@click.option("--splits", default=5, show_default=True, help="Number of random splits.")
def movielens(splits):
    """Use MovieLens-100k: random splits, then one pass in order of time."""
    users, items, stars, times = load_movielens()
    shape = (users.max() + 1, items.max() + 1)
    methods = {
        "MaxNormCompletion(10), 3 passes": lambda test: measure_ours(
            users, items, stars, test, shape, n_components=10, n_epochs=3
        ),
        'MaxNormCompletion("auto"), 3 passes': lambda test: measure_ours(
            users, items, stars, test, shape, n_components="auto", n_epochs=3
        ),
        "MaxNormCompletion(10) on Dask": lambda test: measure_ours(
            users, items, stars, test, shape, n_components=10, n_epochs=3, block=100
        ),
    }
    if importlib.util.find_spec("surprise") is not None:
        for kind in ("SVD", "SVDpp"):
            methods[f"Surprise {kind}"] = lambda test, kind=kind: measure_surprise(
                kind, users, items, stars, test
            )
    else:
        click.echo("scikit-surprise is not installed and therefore left out")
    for name, method in methods.items():
        found = [method(np.random.default_rng(seed).random(len(stars)) < 0.2) for seed in range(splits)]
        errors, seconds = zip(*found, strict=True)
        click.echo(
            f"{name:38} RMSE {np.mean(errors):.4f} (+- {np.std(errors):.4f})  {np.mean(seconds):.2f} s"
        )
    for name, error in measure_online(users, items, stars, times).items():
        click.echo(f"next rating in order of time: {name:20} RMSE {error:.4f}")


# -- synthetic ----------------------------------------------------------------------------------------


def make_problem(rank, observed, corruption, n=2000, p=400, seed=0):
    """Return low-rank data with one per cent of dense noise, missing entries and a share of gross errors."""
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
    """Measure the error of missing entries over rank, share observed and corruption."""
    for corruption in (0.0, 0.1):
        noise = "capped" if corruption else "none"
        click.echo(f"\n{100 * corruption:.0f} % of the observed entries have gross errors, noise={noise!r}")
        click.echo("observed   " + "".join(f"{100 * share:9.0f} %" for share in np.arange(1, 10) / 10))
        for rank in (8, 20):
            for epochs in (1, 3):
                cells = []
                for share in np.arange(1, 10) / 10:
                    data = make_problem(rank, share, corruption)
                    missing = np.isnan(data.X)
                    model = MaxNormCompletion(rank, noise=noise, n_epochs=epochs, random_state=0)
                    filled = model.fit(data.X).transform(data.X)
                    cells.append(relative_error(data.low_rank[missing], filled[missing]))
                label = f"d = {rank}, {epochs}"
                click.echo(f"{label:11}" + "".join(f"{cell:11.4f}" for cell in cells))


def soft_impute(X, rank):
    """Impute by soft-impute (Mazumder, Hastie and Tibshirani 2010): decreasing thresholds, bounded rank."""
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


def make_imputers(rank):
    """Return functions that fill in missing entries, by name."""
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
    evaluated = hidden & np.isfinite(truth)
    cells = []
    for name, fill in make_imputers(rank).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds, filled = measure_seconds(fill, X)
        cells.append(f"{name} {relative_error(truth[evaluated], filled[evaluated]):.4f} ({seconds:.1f} s)")
    click.echo(f"{title}: " + ", ".join(cells))


@main.command()
def peers():
    """Compare with soft-impute and the imputers of scikit-learn on synthetic data, 1000 x 400."""
    for rank in (8, 20):
        for share in (0.2, 0.5, 0.8):
            data = make_problem(rank, share, 0.0, n=1000)
            compare(data.low_rank, np.isnan(data.X), rank, f"d = {rank}, {100 * share:.0f} % observed")


# -- files --------------------------------------------------------------------------------------------


def draw_hidden(shape, share, how, rng):
    """Draw a mask of hidden entries: at random, in runs along columns, or unequally over the columns."""
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
    "--key", default=None, help="Variable of a .mat file; the last axis of a tensor becomes the rows."
)
@click.option("--rank", default=10, show_default=True, help="Number of components.")
def file(path, key, rank):
    """Compare on a given matrix, with 20, 50 and 80 % of its entries hidden."""
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
            hidden = draw_hidden(truth.shape, share, how, rng)
            compare(truth, hidden, rank, f"{100 * share:.0f} % hidden, {how}")


# -- size ---------------------------------------------------------------------------------------------


@main.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Number of rows.")
@click.option("--columns", default=20_000, show_default=True, help="Number of columns.")
@click.option("--per-row", default=100, show_default=True, help="Observed entries per row.")
@click.option("--rank", default=10, show_default=True, help="Number of components.")
def million(rows, columns, per_row, rank):
    """Learn generated ratings in one pass; print time, memory and the error on unseen entries."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((columns, rank)) / np.sqrt(rank)
    generating = 0.0  # seconds

    def batches(start, count, size=10_000):
        nonlocal generating
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
            generating += time.perf_counter() - begin
            yield batch, coefficients

    stream = Stream(
        lambda start: (batch for batch, _ in batches(start, rows - start)), "ratings", in_background=False
    )
    peaks, reported = [], 0
    begin = time.perf_counter()

    def watch(result):
        nonlocal reported
        peaks.append(measure_resident_memory())
        if result.n_samples >= reported + 100_000:
            reported = result.n_samples
            click.echo(f"{reported:>10,} rows  {time.perf_counter() - begin:6.0f} s  {peaks[-1]:.0f} MB")

    model = MaxNormCompletion(rank, random_state=0).fit(stream, callback=watch)
    seconds = time.perf_counter() - begin
    Z, coefficients = next(batches(2 * rows, 1000))
    places = np.random.default_rng(2).integers(columns, size=20_000)
    who = np.arange(20_000) % 1000
    truth = np.einsum("id,id->i", coefficients[who], basis[places])
    error = relative_error(truth, model.predict(Z, who, places))
    click.echo(
        f"{rows:,} x {columns:,}, {rows * per_row:,} ratings: {seconds:.0f} s, of which {generating:.0f} s "
        f"to generate them; peak {max(peaks):.0f} MB; relative error of new rows {error:.3f}"
    )


if __name__ == "__main__":
    main()
