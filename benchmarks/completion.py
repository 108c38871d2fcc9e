"""Compare matrix completion with other libraries: ratings, synthetic and real matrices, and a large stream.

python benchmarks/completion.py ratings          # needs the recbole wheel; uses peers that are installed
python benchmarks/completion.py synthetic        # phase diagram, with and without gross errors
python benchmarks/completion.py peers            # soft-impute and the imputers of scikit-learn
python benchmarks/completion.py file X.mat --key tensor   # a given matrix, entries hidden in three ways
python benchmarks/completion.py wrong            # MovieLens with wrong ratings
python benchmarks/completion.py wide             # 50,000 x 200,000, 5 million ratings in memory
python benchmarks/completion.py million          # 1,000,000 x 20,000, 100 million ratings, one pass
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from functools import partial
from pathlib import Path

import click
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormCompletion
from maxnorm.core.bias import fit_bias
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import relative_error
from maxnorm.paper.measure import measure_resident_memory, measure_seconds
from maxnorm.ratings import read_ratings
from maxnorm.streams.stream import Stream

RATINGS_PATH = "recbole/dataset_example/ml-100k/ml-100k.inter"
SURPRISE = ("SVD", "SVDpp", "KNNBaseline")
NINE_OF_TEN = 1.645  # standard deviations of a normal variable


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


def split_of(ratings, seed):
    """Return the ratings as a matrix without a fifth of them, and the positions and values of that fifth."""
    users, items, stars = ratings
    test = np.random.default_rng(seed).random(len(stars)) < 0.2
    shape = (users.max() + 1, items.max() + 1)
    known = sp.csr_array((stars[~test], (users[~test], items[~test])), shape=shape)
    return known, (users[test], items[test], stars[test])


def predict_ours(known, users, items, low, high, **settings):
    """Return the predictions of our model with default settings, and their standard deviations."""
    model = MaxNormCompletion(value_range=(low, high), random_state=0, **settings).fit(known)
    return model.predict_entries(known, users, items, return_std=True)


def predict_surprise(known, users, items, low, high, *, kind):
    """Return the predictions of an algorithm of Surprise with default settings."""
    import pandas
    import surprise

    entries = known.tocoo()
    frame = pandas.DataFrame({"user": entries.row, "item": entries.col, "stars": entries.data})
    train = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(low, high)))
    quiet = {"verbose": False} if "KNN" in kind else {"random_state": 0}
    model = getattr(surprise, kind)(**quiet).fit(train.build_full_trainset())
    pairs = zip(users.tolist(), items.tolist(), strict=True)
    return np.array([model.predict(user, item).est for user, item in pairs]), None


def predict_lenskit(known, users, items, low, high):
    """Return the predictions of LensKit's neighbours of items, with its biases where there are none."""
    import pandas
    from lenskit.basic import BiasScorer
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.knn import ItemKNNScorer

    entries = known.tocoo()
    frame = pandas.DataFrame({"user_id": entries.row, "item_id": entries.col, "rating": entries.data})
    data = from_interactions_df(frame)
    model, biases = ItemKNNScorer(k=20, feedback="explicit"), BiasScorer(damping=5.0)
    model.train(data)
    biases.train(data)
    values = np.full(len(users), np.nan)
    for user in np.unique(users):
        places = np.flatnonzero(users == user)
        query = RecQuery(user_id=int(user), user_items=data.user_row(int(user)))
        wanted = ItemList(item_ids=items[places])
        scores = np.asarray(model(query, wanted).scores(), dtype=float)
        usual = np.asarray(biases(query, wanted).scores(), dtype=float)
        values[places] = np.where(np.isnan(scores), usual, scores)
    return np.clip(values, low, high), None


def rating_peers():
    """Return the methods that predict ratings, by name; those that are not installed are left out."""
    peers = {
        "MaxNormCompletion()": predict_ours,
        'MaxNormCompletion(norm="max", biases=True, n_epochs=3)': partial(
            predict_ours, norm="max", n_components=10, biases=True, n_epochs=3
        ),
    }
    if importlib.util.find_spec("surprise") is not None:
        peers |= {f"Surprise {kind}": partial(predict_surprise, kind=kind) for kind in SURPRISE}
    if importlib.util.find_spec("lenskit") is not None:
        peers["LensKit ItemKNN"] = predict_lenskit
    return peers


def ranking_quality(columns, known, test, liked):
    """Return NDCG@10 and recall@10 of recommended columns; relevant are held-out ratings that are liked."""
    k = columns.shape[1]
    users, items, stars = test
    relevant = np.zeros(known.shape, dtype=bool)
    relevant[users[stars >= liked], items[stars >= liked]] = True
    hits = np.take_along_axis(relevant, columns, axis=1) & (columns >= 0)
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    count = relevant.sum(axis=1)
    ideal = np.array([discount[: min(c, k)].sum() for c in count])
    asked = count > 0
    ndcg = (hits @ discount)[asked] / ideal[asked]
    return float(ndcg.mean()), float((hits.sum(axis=1)[asked] / count[asked]).mean())


def rank_ease(known, k):
    """Return the items of EASE (Steck, 2019), which inverts the matrix of how often items occur together."""
    pattern = (known.toarray() != 0).astype(float)
    inverse = np.linalg.inv(pattern.T @ pattern + 500.0 * np.eye(known.shape[1]))
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return np.argsort(-np.where(pattern, -np.inf, pattern @ weights), axis=1)[:, :k]


def rank_als(known, k):
    """Return the items of the alternating least squares of implicit."""
    from implicit.als import AlternatingLeastSquares

    pattern = sp.csr_matrix((np.ones(known.nnz, np.float32), known.indices, known.indptr), known.shape)
    model = AlternatingLeastSquares(factors=50, random_state=0, num_threads=1)
    model.fit(pattern, show_progress=False)
    return model.recommend(np.arange(known.shape[0]), pattern, N=k)[0]


def rank_popular(known, k):
    """Return the items that have most ratings."""
    count = np.bincount(known.indices, minlength=known.shape[1])
    return np.argsort(-np.where(known.toarray() != 0, -np.inf, count), axis=1)[:, :k]


def rank_ours(known, k):
    """Return the items that our model recommends."""
    return MaxNormCompletion(random_state=0).fit(known).recommend(known, k).columns


def running_errors(ratings, times, step):
    """Return the errors of predicting the next ratings in time: of biases, and of a model fitted again."""
    users, items, stars = ratings
    order = np.argsort(times, kind="stable")
    shape = (users.max() + 1, items.max() + 1)
    low, high = stars.min(), stars.max()
    errors = {"biases": [], "MaxNormCompletion()": []}
    for start in range(step, len(order), step):
        past, now = order[:start], order[start : start + step]
        known = sp.csr_array((stars[past], (users[past], items[past])), shape=shape)
        biases = fit_bias(known)
        rows = biases.rows(known)
        usual = biases.mean + biases.columns[items[now]] + rows[users[now]]
        errors["biases"].append(stars[now] - np.clip(usual, low, high))
        model = MaxNormCompletion(biases=True, value_range=(low, high), random_state=0).fit(known)
        errors["MaxNormCompletion()"].append(
            stars[now] - model.predict_entries(known, users[now], items[now])
        )
    return {name: rmse(np.concatenate(parts), 0.0) for name, parts in errors.items()}


@main.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--splits", default=5, show_default=True, help="Number of random splits.")
@click.option("--step", default=5000, show_default=True, help="Ratings between two models in order of time.")
def ratings(files, splits, step):
    """Use MovieLens-100k, and FILES with one rating in each row: predictions and recommendations."""
    users, items, stars, times = load_movielens()
    sets = {"MovieLens-100k": (users, items, stars)}
    for path in files:
        entries = read_ratings(path).ratings.matrix.tocoo()
        sets[path.name] = (entries.row, entries.col, entries.data)
    for name, data in sets.items():
        click.echo(f"{name}: {len(data[2])} ratings, {splits} random splits")
        low, high = data[2].min(), data[2].max()
        for method, predict in rating_peers().items():
            found = []
            for seed in range(splits):
                known, test = split_of(data, seed)
                seconds, (values, deviations) = measure_seconds(
                    partial(predict, known, test[0], test[1], low, high)
                )
                inside = np.nan
                if deviations is not None:
                    inside = np.mean(np.abs(values - test[2]) < NINE_OF_TEN * deviations)
                found.append((rmse(values, test[2]), seconds, inside))
            error, seconds, inside = np.mean(found, axis=0)
            click.echo(
                f"  {method:55} RMSE {error:.4f}  {seconds:6.2f} s  within 90 % intervals {inside:.3f}"
            )
        liked = np.quantile(data[2], 0.5)
        rankers = {"MaxNormCompletion()": rank_ours, "popularity": rank_popular, "EASE": rank_ease}
        if importlib.util.find_spec("implicit") is not None:
            rankers["implicit ALS"] = rank_als
        for method, rank in rankers.items():
            known, test = split_of(data, 0)
            ndcg, recall = ranking_quality(rank(known, 10), known, test, liked)
            click.echo(f"  {method:55} NDCG@10 {ndcg:.3f}  recall@10 {recall:.3f}")
    for method, error in running_errors((users, items, stars), times, step).items():
        click.echo(f"next ratings in order of time: {method:25} RMSE {error:.4f}")


def spoil(known, share, how, rng):
    """Return ratings of which a share is wrong: random stars, or numbers that are far off."""
    spoilt, is_wrong = known.copy(), rng.random(known.nnz) < share
    choices = [1.0, 2.0, 3.0, 4.0, 5.0] if how == "random stars" else [-50.0, 55.0]
    spoilt.data[is_wrong] = rng.choice(choices, np.count_nonzero(is_wrong))
    return spoilt, is_wrong


@main.command()
@click.option("--splits", default=3, show_default=True, help="Number of random splits.")
def wrong(splits):
    """Spoil some ratings of MovieLens-100k, and predict others that are right."""
    data = load_movielens()[:3]
    for how, share in (("random stars", 0.0), ("random stars", 0.05), ("far off", 0.1)):
        errors = []
        for seed in range(splits):
            known, (users, items, stars) = split_of(data, seed)
            spoilt, is_wrong = spoil(known, share, how, np.random.default_rng([1, seed]))
            told = spoilt.copy()
            told.data[is_wrong] = np.nan
            ways = ((told, "none"), (spoilt, "none"), (spoilt, "capped"))
            errors.append(
                [rmse(predict_ours(Z, users, items, 1, 5, noise=noise)[0], stars) for Z, noise in ways]
            )
        without, trusted, robust = np.mean(errors, axis=0)
        click.echo(
            f"{share:.0%} {how}: RMSE without them {without:.4f}, noise='none' {trusted:.4f}, "
            f"noise='capped' {robust:.4f}"
        )


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
                    model = MaxNormCompletion(rank, norm="max", noise=noise, n_epochs=epochs, random_state=0)
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
        "MaxNormCompletion()": lambda X: MaxNormCompletion(random_state=0).fit_transform(X),
        "max-norm": lambda X: MaxNormCompletion(rank, norm="max", n_epochs=3, random_state=0).fit_transform(
            X
        ),
        "max-norm, auto": lambda X: MaxNormCompletion(
            "auto", norm="max", n_epochs=3, random_state=0
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
@click.option("--rows", default=50_000, show_default=True, help="Number of rows.")
@click.option("--columns", default=200_000, show_default=True, help="Number of columns.")
@click.option("--entries", default=5_000_000, show_default=True, help="Number of ratings.")
@click.option("--rank", default=10, show_default=True, help="Number of components.")
def wide(rows, columns, entries, rank):
    """Fit a wide sparse matrix in memory, and recommend columns for 1,000 rows."""
    rng = np.random.default_rng(0)
    draw = partial(rng.integers, size=entries)
    X = sp.csr_array((rng.standard_normal(entries), (draw(rows), draw(columns))), shape=(rows, columns))
    model = MaxNormCompletion(rank, random_state=0)
    seconds, _ = measure_seconds(model.fit, X)
    click.echo(f"fit {seconds:.0f} s, peak of all memory {measure_resident_memory():.0f} MB")
    seconds, _ = measure_seconds(model.recommend, X[:1000])
    click.echo(f"recommend for 1,000 rows {seconds:.1f} s")


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

    model = MaxNormCompletion(rank, norm="max", random_state=0).fit(stream, callback=watch)
    seconds = time.perf_counter() - begin
    Z, coefficients = next(batches(2 * rows, 1000))
    places = np.random.default_rng(2).integers(columns, size=20_000)
    who = np.arange(20_000) % 1000
    truth = np.einsum("id,id->i", coefficients[who], basis[places])
    error = relative_error(truth, model.predict_entries(Z, who, places))
    click.echo(
        f"{rows:,} x {columns:,}, {rows * per_row:,} ratings: {seconds:.0f} s, of which {generating:.0f} s "
        f"to generate them; peak {max(peaks):.0f} MB; relative error of new rows {error:.3f}"
    )


if __name__ == "__main__":
    main()
