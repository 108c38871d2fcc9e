"""Compare ways to fill gaps of time series: single entries, blocks and whole periods that are missing.

python benchmarks/series.py                                                # generated loads of electricity
python benchmarks/series.py X.mat --key tensor --days --period 108         # series x days x times of day
python benchmarks/series.py X.mat --key tensor --period 24                 # the last axis is time
python benchmarks/series.py --gross 0.05                                   # with gross errors in the data
"""

import warnings
from pathlib import Path

import click
import numpy as np
from threadpoolctl import threadpool_limits

from maxnorm import SeriesImputer
from maxnorm.paper.measure import measure_seconds
from maxnorm.series import interpolate, repeat_period, usual_period

SHARES = (0.2, 0.5, 0.8)  # of the entries that are hidden
WEEK = 7  # days


# -- series and gaps ----------------------------------------------------------------------------------


def make_electricity(n_days, n_customers, rng):
    """Return hourly loads of customers: daily and weekly rhythm, weather, holidays and noise of their own."""
    hours, days = np.arange(24), np.arange(n_days)
    kinds = np.stack(
        [
            1.0
            + 0.8 * np.exp(-0.5 * ((hours - 19) / 2.5) ** 2)
            + 0.4 * np.exp(-0.5 * ((hours - 8) / 1.5) ** 2),
            1.0 + 1.5 / (1.0 + np.exp(-(hours - 7.5))) / (1.0 + np.exp(hours - 17.5)),
            np.full(24, 1.5),
        ]
    )
    is_free = (days % WEEK >= 5) | (rng.random(n_days) < 0.03)
    on_free_days = np.array([1.15, 0.55, 0.95])
    activity = np.where(is_free, on_free_days[:, None], 1.0)  # of kinds of customers, in days
    profile = (kinds[:, None, :] * activity[:, :, None]).reshape(len(kinds), -1)
    season = np.cumsum(0.05 * rng.standard_normal(n_days))
    passing = smooth_noise(24 * n_days, 12, rng)
    weather = np.repeat(season, 24) + 0.15 * passing
    mixture = rng.dirichlet(np.full(len(kinds), 0.5), n_customers)
    load = mixture @ profile + rng.gamma(2.0, 0.15, (n_customers, 1)) * weather
    own = np.stack([smooth_noise(24 * n_days, 5, rng) for _ in range(n_customers)])
    load += 0.08 * own + 0.06 * rng.standard_normal(load.shape)
    return (np.maximum(load, 0.02) * rng.lognormal(3.0, 0.8, (n_customers, 1))).T


def smooth_noise(n, width, rng):
    """Return noise of unit variance that is smooth over a number of times."""
    kernel = np.exp(-0.5 * (np.arange(-3 * width, 3 * width + 1) / width) ** 2)
    return np.convolve(rng.standard_normal(n + len(kernel) - 1), kernel / np.linalg.norm(kernel), "valid")


def read_series(path, key, days, n_series):
    """Return the largest series of a MATLAB file in columns."""
    import scipy.io

    tensor = np.asarray(scipy.io.loadmat(path)[key], dtype=np.float64)
    series = tensor.reshape(len(tensor), -1) if days else tensor.reshape(-1, tensor.shape[-1])
    return series[np.argsort(-series.sum(axis=1), kind="stable")[:n_series]].T


def draw_gaps(shape, period, rng):
    """Yield gaps by name: single entries, blocks of a thirtieth of the times, and whole periods."""
    n, p = shape
    for share in SHARES:
        yield f"{share:.0%} at random", rng.random(shape) < share
    for share in SHARES:
        hidden, length = np.zeros(shape, dtype=bool), max(n // 30, 6)
        while hidden.mean() < share:
            start = rng.integers(1 - length, n)
            hidden[max(start, 0) : start + length, rng.integers(p)] = True
        yield f"{share:.0%} in blocks", hidden
    for share in SHARES:
        periods = rng.random((-(-n // period), p)) < share
        periods[rng.integers(len(periods), size=p), np.arange(p)] = False  # no series is without entries
        yield f"{share:.0%} in whole periods", np.repeat(periods, period, axis=0)[:n]


def add_gross_errors(X, share, rng):
    """Return series in which a share of the entries are off by 5 to 20 standard deviations."""
    size = rng.uniform(5.0, 20.0, X.shape) * rng.choice([-1.0, 1.0], X.shape) * X.std(axis=0)
    return np.where(rng.random(X.shape) < share, X + size, X)


# -- ways to fill gaps --------------------------------------------------------------------------------


def soft_impute(X):
    """Fill gaps of standardised series by soft-impute, with the threshold that predicts a tenth best."""
    centre, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    Z = (X - centre) / np.where(scale > 0.0, scale, 1.0)
    observed = ~np.isnan(Z)
    held_out = observed & (np.random.default_rng(2).random(Z.shape) < 0.1)
    thresholds = np.linalg.norm(np.nan_to_num(Z), 2) * np.geomspace(0.5, 2e-3, 10)
    path = shrink_path(np.where(held_out, np.nan, Z), thresholds)
    errors = [np.mean((low_rank - Z)[held_out] ** 2) for low_rank in path]
    *_, low_rank = shrink_path(Z, thresholds[: int(np.argmin(errors)) + 1])
    return np.where(observed, X, low_rank * scale + centre)


def shrink_path(Z, thresholds):
    """Yield low-rank matrices for falling thresholds, each of which starts from the one before."""
    missing = np.isnan(Z)
    filled = np.where(missing, 0.0, Z)
    for threshold in thresholds:
        for _ in range(30):
            values, V = np.linalg.eigh(filled.T @ filled)
            s = np.sqrt(np.maximum(values, 1e-12))
            low_rank = filled @ (V * (np.maximum(s - threshold, 0.0) / s)) @ V.T
            change = np.linalg.norm((low_rank - filled)[missing])
            filled[missing] = low_rank[missing]
            if change < 1e-3 * np.linalg.norm(low_rank):
                break
        yield low_rank


def cut_at_quartiles(X):
    """Return series without entries that are more than three interquartile ranges off the quartiles."""
    low, high = np.nanquantile(X, [0.25, 0.75], axis=0)
    distance = np.maximum(low - X, X - high)
    return np.where(distance > 3.0 * (high - low), np.nan, X)


def make_methods(period, *, gross):
    """Return functions that fill gaps, by name."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer

    iterative = IterativeImputer(n_nearest_features=20, max_iter=5, random_state=0)
    peers = {
        "usual period": lambda X: repeat_period(usual_period(X, period), len(X)),
        "interpolation": interpolate,
        "KNN": KNNImputer().fit_transform,
        "soft-impute": soft_impute,
        "iterative": iterative.fit_transform,
    }
    if gross:
        peers["cut + soft-impute"] = lambda X: soft_impute(cut_at_quartiles(X))
    return peers | {"SeriesImputer": SeriesImputer(period=period, random_state=0).fit_transform}


def rmse(filled, truth, hidden):
    """Return the root mean square error of the hidden entries."""
    return float(np.sqrt(np.mean((filled - truth)[hidden] ** 2)))


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--key", help="Name of the array in the file, whose last axis is time unless --days is given.")
@click.option("--days", is_flag=True, help="The array is series x days x times of day.")
@click.option("--period", default=24, show_default=True, help="Number of times of a period.")
@click.option("--series", "n_series", default=80, show_default=True, help="Number of the largest series.")
@click.option("--gross", default=0.0, show_default=True, help="Share of the observed entries that are wrong.")
def main(path, key, days, period, n_series, gross):
    """Fill gaps of series, which are hidden in three ways; print RMSE and seconds."""
    threadpool_limits(1)
    truth = make_electricity(84, n_series, np.random.default_rng(0))
    if path is not None:
        truth = read_series(path, key, days, n_series)
    name = "electricity" if path is None else path.stem
    click.echo(f"{name}: {truth.shape[0]} times, {truth.shape[1]} series, {gross:.0%} gross errors")
    given = add_gross_errors(truth, gross, np.random.default_rng(1))
    methods = make_methods(period, gross=gross > 0.0)
    click.echo(f"{'hidden':22}" + "".join(f"{name:>19}" for name in methods))
    for kind, hidden in draw_gaps(truth.shape, period, np.random.default_rng(0)):
        cells = []
        for method in methods.values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the rounds of iterative imputation are limited
                seconds, filled = measure_seconds(method, np.where(hidden, np.nan, given))
            cells.append(f"{rmse(filled, truth, hidden):.4g} ({seconds:.0f} s)")
        click.echo(f"{kind:22}" + "".join(f"{cell:>19}" for cell in cells))


if __name__ == "__main__":
    main()
