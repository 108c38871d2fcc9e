"""Print a digest of models and their answers for many ways of using the library.

Two versions that print the same digests on one machine compute the same numbers, bit for bit. Run it before
and after a change that must not alter results (20 seconds):

    python tools/fingerprint.py > before.txt python tools/fingerprint.py --compare before.txt

Digests differ between machines, because their BLAS libraries round differently.
"""

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click
import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, open_stream
from maxnorm.core.noise import L1
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.paper.methods import PAPER_PROBLEM

CORRUPTED = make_corrupted_low_rank(700, 40, 4, corruption=0.1, random_state=0)
GAPS = make_corrupted_low_rank(500, 30, 3, corruption=0.05, missing=0.3, random_state=1).X
CLEAN = make_corrupted_low_rank(400, 30, 3, corruption=0.0, dense_noise=0.05, missing=0.1, random_state=2).X
RATINGS = sp.csr_array(sp.random_array((600, 80), density=0.15, rng=0, format="csr"))
RATINGS.data = np.rint(1 + 4 * RATINGS.data)

COMPLETION = {
    "plain": {},
    "biases": {"biases": True},
    "given": {"lambda1": 2.0},
    "per-feature": {"gram": "per-feature"},
    "shared": {"gram": "shared"},
    "robust": {"noise": "capped"},
    "c": {"c": 50.0},
    "epochs": {"n_epochs": 2},
    "batch": {"batch_size": 64},
}
FIXED = {"half_life": 100, "batch_size": 20, "forgetting": 2.0, "max_iter": 7, "lambda1": 0.2, "lambda2": 0.5}


def digest(*arrays) -> str:
    """Return a digest of the bytes of arrays."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:12]


def fingerprint(model, X=None) -> str:
    """Return the digest of what a model has learnt and, if X is given, of its answers for fifty rows."""
    state = model.state_
    numbers = (state.n_samples, state.n_steps, state.time, model.lambda1_, model.lambda2_, model.objective_)
    arrays = [state.L, state.statistics.A, state.statistics.B, np.array(numbers)]
    if X is not None:
        parts = model.decompose(X[:50])
        arrays += [model.transform(X[:50]), model.score_samples(X[:50]), *parts[:3]]
    return digest(*arrays)


def decomposition_cases(kind, folder: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the cases of an estimator that decomposes."""
    X, blocks = CORRUPTED.X, da.from_array(CORRUPTED.X, chunks=(90, -1))
    default, kind = kind, partial(kind, **PAPER_PROBLEM)
    for noise in ("capped", "l1", "l21", "squared", "none", L1(0.3)):
        yield f"{noise}", lambda noise=noise: fingerprint(kind(4, noise=noise, random_state=0).fit(X), X)
    single = X.astype(np.float32)
    yield "single precision", lambda: fingerprint(kind(4, random_state=0).fit(single), single)
    twice = PAPER_PROBLEM | {"n_epochs": 2}
    yield "two epochs", lambda: fingerprint(default(3, random_state=0, **twice).fit(GAPS), GAPS)
    yield "fixed settings", lambda: fingerprint(kind(3, random_state=0, **FIXED).fit(GAPS), GAPS)
    file = open_stream(folder / "samples.npy", batch_size=33)
    yield "file", lambda: fingerprint(kind(4, random_state=0).fit(file), X)
    yield "init", lambda: fingerprint(kind(4, init=CORRUPTED.basis.T.copy()).fit(X), X)
    yield "rank chosen", lambda: fingerprint(kind("auto", random_state=0).fit(X), X)

    def in_pieces():
        model = kind(4, random_state=0)
        for i in range(0, 300, 7):
            model.partial_fit(X[i : i + 7])
        return model

    yield "pieces", lambda: fingerprint(in_pieces(), X)
    yield "dask", lambda: fingerprint(kind(4, random_state=0).fit(blocks), X)
    yield "dask, lazy", lambda: digest(in_pieces().transform(blocks).compute())
    yield "default", lambda: fingerprint(default(random_state=0).fit(X), X)
    yield "default, gaps", lambda: fingerprint(default(random_state=0).fit(GAPS), GAPS)
    yield "default, one pass", lambda: fingerprint(default(4, random_state=0).partial_fit(X), X)


def completion_cases(folder: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the cases of completion."""

    def fitted(X, rank=3, **settings):
        return MaxNormCompletion(rank, random_state=0, **settings).fit(X)

    for name, settings in COMPLETION.items():
        for label, X in (("gaps", GAPS), ("clean", CLEAN), ("csr", RATINGS)):
            yield f"{name}, {label}", lambda X=X, s=settings: fingerprint(fitted(X, **s), X)
    single = GAPS.astype(np.float32)
    yield "single precision", lambda: fingerprint(fitted(single), single)
    yield "rank chosen, csr", lambda: fingerprint(fitted(RATINGS, "auto"), RATINGS)
    yield "rank chosen, robust", lambda: fingerprint(fitted(CLEAN, "auto", noise="capped"), CLEAN)
    yield "rank chosen, dense", lambda: fingerprint(fitted(CLEAN, "auto"), CLEAN)
    chosen = [0, 5, 9], [1, 2, 3]
    yield "predict", lambda: digest(fitted(RATINGS, biases=True).predict_entries(RATINGS, *chosen))
    yield "recommend", lambda: digest(*fitted(RATINGS, biases=True).recommend(RATINGS[:20], 4))

    def mixed():
        model = MaxNormCompletion(3, random_state=0)
        for i in range(0, 600, 50):
            model.partial_fit(RATINGS[i : i + 50] if i % 100 else RATINGS[i : i + 50].toarray())
        return model

    def saved():
        mixed().save(folder / "model.maxnorm")
        return maxnorm.load(folder / "model.maxnorm")

    yield "dense and sparse rows", lambda: fingerprint(mixed(), RATINGS)
    yield "saved", lambda: fingerprint(saved(), RATINGS)
    blocks = da.from_array(GAPS, chunks=(60, -1))
    yield "dask", lambda: fingerprint(fitted(blocks), GAPS)
    sparse = blocks.map_blocks(
        lambda block: sp.csr_array(np.nan_to_num(block)), dtype=float, meta=sp.csr_array((0, 0))
    )
    yield "dask, biases", lambda: fingerprint(fitted(sparse, biases=True))


def cases(folder: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name of each case and the function that computes its digest."""
    np.save(folder / "samples.npy", CORRUPTED.X)
    for kind in (MaxNormDecomposition, OnlineRobustPCA):
        for name, compute in decomposition_cases(kind, folder):
            yield f"{kind.__name__}, {name}", compute
    as_printed = MaxNormDecomposition(
        3, basis_update="bcd", lambda1=1e-3, random_state=0, batch_size=50, **PAPER_PROBLEM
    )  # Algorithm 4
    yield "Algorithm 4", lambda: fingerprint(as_printed.fit(CLEAN), CLEAN)
    for name, compute in completion_cases(folder):
        yield f"MaxNormCompletion, {name}", compute


@click.command()
@click.option("--compare", type=click.Path(exists=True, path_type=Path), help="Digests printed before.")
def main(compare: Path | None) -> None:
    """Print the digests, or the cases whose digests differ from those printed before."""
    lines = [] if compare is None else compare.read_text().splitlines()
    before = dict(reversed(line.split("  ", 1)) for line in lines)
    n_cases, n_different = 0, 0
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set(scheduler="synchronous"),
        threadpool_limits(1),
    ):
        for name, compute in cases(Path(folder)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = compute()
            n_cases += 1
            if compare is None:
                click.echo(f"{found}  {name}")
            elif before.get(name) != found:
                n_different += 1
                click.echo(f"{name}: {before.get(name, 'missing')} before, {found} now")
    if compare is not None:
        click.echo(f"{n_cases - n_different} of {n_cases} digests agree")
        raise SystemExit(n_different > 0)


if __name__ == "__main__":
    main()
