"""Print the tables of docs/hard.md: many components and errors, few samples, and streams that change.

    python benchmarks/hard.py                 # everything, about a quarter of an hour on one core
    python benchmarks/hard.py errors --slow   # with GRASTA and batch PCP, most of an hour
    python benchmarks/hard.py change

All estimators are given the rank and nothing else. Every table has the mean over seeds (``--seeds``).
"""

import time
import warnings

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rivals import Grasta, OnlinePCA, TrimmedPCA
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.metrics import expressed_variance

console = Console(width=150)
N_FEATURES, N_SAMPLES = 400, 5000
OURS = {"max-norm": MaxNormDecomposition, "nuclear norm": OnlineRobustPCA}
# Rank, share of wrong entries, and how they are wrong.
ERRORS = [
    (152, 0.5, "±1000"),
    (200, 0.38, "±1000"),
    (200, 0.5, "±1000"),
    (80, 0.4, "+5"),
    (80, 0.45, "+5"),
    (80, 0.5, "+5"),
    (80, 0.5, "+1000"),
    (80, 0.5, "±3"),
    (152, 0.5, "±3"),
    (80, 0.5, "±1"),
    (200, 0.5, "±1"),
    (80, 0.5, "blocks"),
]


def make_low_rank(rng, n, p, d):
    """Return an orthonormal basis and samples with standard normal coefficients in it."""
    basis = np.linalg.qr(rng.standard_normal((p, d)))[0]
    return basis, rng.standard_normal((n, d)) @ basis.T


def make_wrong(rng, shape, share, kind):
    """Return gross errors up to a size, all of one size, or in blocks of features for ten samples each."""
    n, p = shape
    if kind == "blocks":
        wrong, width = np.zeros(shape, dtype=bool), int(share * p)
        for start in range(0, n, 10):
            wrong[start : start + 10, (rng.integers(p) + np.arange(width)) % p] = True
        return np.where(wrong, rng.uniform(-1000.0, 1000.0, shape), 0.0)
    size = float(kind[1:])
    errors = rng.uniform(-size, size, shape) if kind[0] == "±" else np.full(shape, size)
    return np.where(rng.random(shape) < share, errors, 0.0)


def make_corrupted(d, share, kind, seed, n=N_SAMPLES, p=N_FEATURES, missing=0.0):
    """Return a basis, corrupted samples, and the same with NaN in place of wrong entries."""
    rng = np.random.default_rng(seed)
    basis, clean = make_low_rank(rng, n, p, d)
    errors = make_wrong(rng, clean.shape, share, kind)
    X = clean + errors
    X[rng.random(X.shape) < missing] = np.nan
    return basis, X, np.where(errors == 0.0, X, np.nan)


def warm_up():
    """Load compiled code before the first measurement."""
    X = np.random.default_rng(0).standard_normal((400, 20))
    for estimator in OURS.values():
        estimator(3).fit(X)
        estimator(3).partial_fit(X).transform(X)


def score(learner, X, basis, method="partial_fit"):
    """Return the expressed variance of what a learner has learnt, and the milliseconds per sample."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that many entries are gross errors, as they are
        getattr(learner, method)(X)
        components = np.asarray(learner.components_)
    seconds = time.perf_counter() - start
    return expressed_variance(basis, components[: basis.shape[1]].T), 1e3 * seconds / len(X)


def mean(values):
    """Return means of pairs (expressed variance, milliseconds) as text."""
    ev, ms = np.mean(values, axis=0)
    return f"{ev:.4f} ({ms:.2f} ms)"


def sine(basis, components):
    """Return the sine of the largest angle between two subspaces, given orthonormal bases of them."""
    return float(np.linalg.norm(basis - components.T @ (components @ basis), 2))


RIVALS = {"PCA": OnlinePCA, "trimmed PCA": TrimmedPCA}
SLOW_RIVALS = {
    "GRASTA": lambda d: Grasta(N_FEATURES, d),
    "PCP": lambda d: PrincipalComponentPursuit(tol=1e-5, max_iter=300),
}


def print_errors(seeds, rivals=RIVALS):
    """Print the table of errors of many kinds."""
    titles = ["rank, share, errors", *OURS, *rivals, "told which are wrong"]
    table = Table(*titles, title="expressed variance (time per sample)")
    for d, share, kind in ERRORS:
        found = {title: [] for title in titles[1:]}
        for seed in range(seeds):
            basis, X, told = make_corrupted(d, share, kind, seed)
            for title, estimator in OURS.items():
                found[title].append(score(estimator(d, random_state=0), X, basis))
            for title, make in rivals.items():
                method = "fit" if title == "PCP" else "partial_fit"
                found[title].append(score(make(d), X, basis, method))
            oracle = OnlineRobustPCA(d, noise="none", random_state=0)
            found[titles[-1]].append(score(oracle, told, basis))
        table.add_row(f"{d}, {share}, {kind}", *map(mean, found.values()))
    console.print(table)


def print_few(seeds):
    """Print the tables of few samples, missing entries, dense noise, and a small problem with everything."""
    table = Table("data", *OURS, "PCA", title="expressed variance (time per sample)")
    for n in (80, 160):
        row = [
            [
                score(estimator(40, random_state=0), X, basis, "fit")
                for basis, X, _ in (make_corrupted(40, 0.3, "±1000", seed, n=n) for seed in range(seeds))
            ]
            for estimator in OURS.values()
        ]
        table.add_row(f"{n} samples, rank 40, 30 % wrong, fit", *map(mean, row), "")
    hidden = [make_corrupted(40, 0.2, "±1000", seed, missing=0.8) for seed in range(seeds)]
    row = [
        [score(make(), X, basis) for basis, X, _ in hidden]
        for make in (
            lambda: MaxNormDecomposition(40, random_state=0),
            lambda: OnlineRobustPCA(40, random_state=0),
            lambda: MaxNormCompletion(40, noise="capped", random_state=0),
        )
    ]
    table.add_row("rank 40, 80 % missing, 20 % of the rest wrong", *map(mean, row[:2]), "")
    table.add_row("the same, MaxNormCompletion", mean(row[2]), "", "")
    for n in (1000, 5000):
        noisy = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            basis, clean = make_low_rank(rng, n, N_FEATURES, 8)
            noisy.append((basis, clean + 0.3 * rng.standard_normal(clean.shape)))
        for method in ("fit", "partial_fit"):
            row = [
                mean([score(estimator(8, random_state=0), X, basis, method) for basis, X in noisy])
                for estimator in OURS.values()
            ]
            plain = mean([score(OnlinePCA(8), X, basis) for basis, X in noisy])
            table.add_row(f"dense noise of .3, rank 8, {n} samples, {method}", *row, plain)
    console.print(table)
    table = Table(
        "method", *OURS, title="(1 - EV) / EV: rank 5 of 50, 20 % wrong, 80 % observed, 20 dB, n = 1001"
    )
    for method in ("fit", "partial_fit"):
        row = []
        for estimator in OURS.values():
            errors = []
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                mixing = rng.standard_normal((50, 5))
                X = rng.standard_normal((1001, 5)) @ mixing.T
                X += np.sqrt(np.var(X) / 100.0) * rng.standard_normal(X.shape)
                X += np.where(rng.random(X.shape) < 0.2, rng.uniform(-10.0, 10.0, X.shape), 0.0)
                X[rng.random(X.shape) < 0.2] = np.nan
                ev, _ = score(estimator(5, random_state=0), X, np.linalg.qr(mixing)[0], method)
                errors.append((1.0 - ev) / ev)
            row.append(f"{np.mean(errors):.2e}")
        table.add_row(method, *row)
    console.print(table)


def make_turned(seed, p=1000, d=30, n=3000, turn=0.05):
    """Return samples whose subspace turns in the middle, with an object that moves over the features."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((p, 2 * d)))[0]
    before, after = Q[:, :d], np.sqrt(1.0 - turn**2) * Q[:, :d] + turn * Q[:, d:]
    coefficients = rng.uniform(-1.0, 1.0, (n, d)) * np.linspace(2.0, 1.0, d)
    X = np.vstack([coefficients[: n // 2] @ before.T, coefficients[n // 2 :] @ after.T])
    width = p // 20
    for i in range(n):
        X[i, (3 * i + np.arange(width)) % p] += rng.uniform(10.0, 20.0, width)
    return after, X


def make_rotation(seed, p=100, d=5, n=6000, rate=0.001, noise=0.1, share=0.1):
    """Return samples whose last component turns into another direction, and its basis at each time."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((p, d + 1)))[0]
    angles = rate * np.arange(n)
    turning = np.cos(angles)[:, None] * Q[:, d - 1] + np.sin(angles)[:, None] * Q[:, d]
    coefficients = rng.standard_normal((n, d)) * np.linspace(2.0, 1.0, d)
    X = coefficients[:, :-1] @ Q[:, : d - 1].T + coefficients[:, -1:] * turning
    X += noise * rng.standard_normal(X.shape)
    X += np.where(rng.random(X.shape) < share, rng.uniform(-10.0, 10.0, X.shape), 0.0)
    return X, lambda i: np.column_stack([Q[:, : d - 1], turning[i]])


def follow(model, X, basis_at, step=100, first=2000):
    """Return the root mean square of the sines of the largest angles while a stream is followed."""
    errors = []
    for start in range(0, len(X), step):
        model.partial_fit(X[start : start + step])
        if start + step >= first:
            errors.append(sine(basis_at(start + step - 1), model.components_))
    return float(np.sqrt(np.mean(np.square(errors))))


def print_turn(seeds):
    """Print the errors after a sudden turn by a sine of .05, of GRASTA as well."""
    table = Table("samples later", *OURS, "GRASTA", title="sine of the largest angle after a turn by .05")
    makes = [lambda e=e: e(30, random_state=0) for e in OURS.values()] + [lambda: Grasta(1000, 30)]
    found, changes = [], []
    for make in makes:
        errors = []
        for seed in range(seeds):
            after, X = make_turned(seed)
            model, row = make(), []
            model.partial_fit(X[:1600])
            row.append(sine(after, model.components_))
            model.partial_fit(X[1600:2100])
            row.append(sine(after, model.components_))
            errors.append(row)
            changes += getattr(model, "changes_", [])
        found.append(np.mean(errors, axis=0))
    for i, later in enumerate((100, 600)):
        table.add_row(str(later), *(f"{row[i]:.4f}" for row in found))
    console.print(table)
    console.print("changes:", *changes)


def print_change(seeds):
    """Print the expressed variance after a change to a new subspace."""
    table = Table("rank, features, share", "samples later", *OURS, title="EV after a change at 3000 samples")
    for d, p, share in ((40, 400, 0.3), (5, 100, 0.1), (3, 20, 0.05)):
        found = {title: [] for title in OURS}
        for title, estimator in OURS.items():
            for seed in range(seeds):
                _, first, _ = make_corrupted(d, share, "±1000", seed, n=3000, p=p)
                basis, second, _ = make_corrupted(d, share, "±1000", 100 + seed, n=1000, p=p)
                model, row = estimator(d, random_state=0).partial_fit(first), []
                for start, stop in ((0, 100), (100, 300), (300, 1000)):
                    model.partial_fit(second[start:stop])
                    row.append(expressed_variance(basis, model.components_.T))
                found[title].append(row)
        for i, later in enumerate((100, 300, 1000)):
            means = [f"{np.mean(rows, axis=0)[i]:.4f}" for rows in found.values()]
            table.add_row(f"{d}, {p}, {share}", str(later), *means)
    console.print(table)


def print_rotation(seeds):
    """Print the error while a stream turns slowly, and that of the best fixed half-life."""
    table = Table(
        "stream", *OURS, "best half-life", "ratios", title="root mean square sine of the largest angle"
    )
    cases = {
        "100 features, rank 5, noise .1, 10 % wrong": {},
        "the same, .0003 rad per sample": {"rate": 0.0003},
        "400 features": {"p": 400},
        "noise .02, nothing wrong": {"noise": 0.02, "share": 0.0},
    }
    for name, settings in cases.items():
        auto, best = {title: [] for title in OURS}, {title: [] for title in OURS}
        for seed in range(seeds):
            X, basis_at = make_rotation(seed, **settings)
            for title, estimator in OURS.items():
                auto[title].append(follow(estimator(5, random_state=0), X, basis_at))
                fixed = [
                    follow(estimator(5, half_life=h, random_state=0), X, basis_at)
                    for h in (12, 25, 50, 100, 200)
                ]
                best[title].append(min(fixed))
        ratios = [np.mean(auto[title]) / np.mean(best[title]) for title in OURS]
        cells = [f"{np.mean(values):.4f}" for values in auto.values()]
        lowest = " ".join(f"{np.mean(values):.4f}" for values in best.values())
        table.add_row(name, *cells, lowest, " ".join(f"{ratio:.2f}" for ratio in ratios))
    console.print(table)


def make_rhythm(seed, p=80, d=30, n=5400, period=108, noise=0.05, share=0.05):
    """Return a stream that repeats itself every day, at a strength that varies, and its low-rank part."""
    rng = np.random.default_rng(seed)
    phase, days = 2.0 * np.pi * np.arange(n)[:, None] / period, np.arange(n) // period
    waves = np.hstack([wave(k * phase) for k in range(1, 6) for wave in (np.sin, np.cos)])
    mixing = rng.standard_normal((waves.shape[1], d))
    strength = np.exp(0.3 * rng.standard_normal((days[-1] + 1, d)))[days]
    clean = (waves @ mixing) * strength / np.arange(1, d + 1) @ rng.standard_normal((d, p))
    unit = clean.std()
    X = clean + noise * unit * rng.standard_normal(clean.shape)
    return clean, X + np.where(rng.random(X.shape) < share, unit * rng.uniform(-10.0, 10.0, X.shape), 0.0)


def error_ahead(model, clean, X, step=54, first=1080):
    """Return the relative error of the low-rank part of samples that the model has not learnt from yet."""
    squares = total = 0.0
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        if start >= first:
            squares += np.sum((model.decompose(X[part]).low_rank - clean[part]) ** 2)
            total += np.sum(clean[part] ** 2)
        model.partial_fit(X[part])
    return float(np.sqrt(squares / total))


def print_rhythm(seeds):
    """Print what following changes costs in a stream with a rhythm, whose samples depend on each other."""
    table = Table("components", *OURS, "ratios", "changes", title="error ahead: daily rhythm, 30 components")
    for d in (5, 10, 20):
        auto, without, changes = {title: [] for title in OURS}, {title: [] for title in OURS}, []
        for seed in range(seeds):
            clean, X = make_rhythm(seed)
            for title, estimator in OURS.items():
                model = estimator(d, random_state=0)
                auto[title].append(error_ahead(model, clean, X))
                without[title].append(error_ahead(estimator(d, drift=None, random_state=0), clean, X))
                changes.append(len(model.changes_))
        ratios = [f"{np.mean(auto[title]) / np.mean(without[title]):.2f}" for title in OURS]
        means = [f"{np.mean(values):.4f}" for values in auto.values()]
        table.add_row(str(d), *means, " ".join(ratios), " ".join(map(str, changes)))
    console.print(table)


def print_still(seeds):
    """Print the changes that are reported for streams of 100,000 samples in which there are none."""
    table = Table(
        "stream", "changes reported", "expressed variance", title="100,000 samples without a change"
    )
    for p, d, noise, share in ((40, 5, 0.1, 0.1), (40, 5, 0.0, 0.1), (20, 3, 0.3, 0.0), (100, 10, 0.05, 0.3)):
        changes, evs = [], []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            basis = np.linalg.qr(rng.standard_normal((p, d)))[0]
            model = MaxNormDecomposition(d, random_state=0)
            for _ in range(20):
                X = rng.standard_normal((5000, d)) @ basis.T + noise * rng.standard_normal((5000, p))
                X += np.where(rng.random(X.shape) < share, rng.uniform(-10.0, 10.0, X.shape), 0.0)
                if share:  # some samples are entirely wrong
                    odd = rng.random(len(X)) < 0.02
                    X[odd] = 5.0 * rng.standard_normal((odd.sum(), p))
                model.partial_fit(X)
            changes.append(len(model.changes_))
            evs.append(expressed_variance(basis, model.components_.T))
        name = f"{p} features, rank {d}, noise {noise}, {share:.0%} wrong"
        table.add_row(name, " ".join(map(str, changes)), f"{np.mean(evs):.6f}")
    console.print(table)


TABLES = {
    "errors": print_errors,
    "few": print_few,
    "turn": print_turn,
    "change": print_change,
    "rotation": print_rotation,
    "rhythm": print_rhythm,
    "still": print_still,
}


@click.command()
@click.argument("tables", nargs=-1, type=click.Choice(list(TABLES)))
@click.option("--seeds", default=3, show_default=True, help="Number of seeds.")
@click.option("--slow", is_flag=True, help="Also run GRASTA and batch PCP on the errors.")
def main(tables, seeds, slow):
    """Print some tables, or all of them."""
    with threadpool_limits(1):
        warm_up()
        for name in tables or TABLES:
            if name == "errors" and slow:
                print_errors(seeds, RIVALS | SLOW_RIVALS)
            else:
                TABLES[name](seeds)


if __name__ == "__main__":
    main()
