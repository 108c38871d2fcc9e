"""One cell of an experiment: settings in, numbers out, both of them JSON."""

from __future__ import annotations

import hashlib
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.decomposition import IncrementalPCA

from maxnorm import (
    MaxNormCompletion,
    MaxNormDecomposition,
    OnlineRobustPCA,
    PrincipalComponentPursuit,
    __version__,
)
from maxnorm.core.encoding import encode
from maxnorm.core.noise import L1
from maxnorm.core.norms import FactorNorm, MaxNorm, NuclearNorm
from maxnorm.core.state import State, surrogate
from maxnorm.core.types import Array
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.learner import step
from maxnorm.metrics import expressed_variance, relative_error
from maxnorm.paper.reference import PublishedLearner

Result = dict[str, Any]
CHUNK = 500  # samples that are made and learnt from at a time


@dataclass(frozen=True)
class Cell:
    """An experiment of some kind with its settings."""

    kind: str
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, kind: str, **settings: Any) -> Cell:
        """Return the cell with these settings, in whatever order they are given."""
        return cls(kind, tuple(sorted(settings.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.settings)[name]

    @property
    def key(self) -> str:
        """Name under which the result is kept: it changes with every setting and with the version."""
        content = json.dumps([self.kind, self.settings, __version__], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    def run(self) -> Result:
        """Compute the cell."""
        return KINDS[self.kind](**dict(self.settings))


class Learner(Protocol):
    """What a curve needs of a method."""

    def partial_fit(self, X: Array) -> object:
        """Learn from more samples."""

    @property
    def components_(self) -> Array:
        """Basis learnt so far, in rows."""
        ...


class ExactLearner:
    """Algorithm 1 to the letter, with exact solvers: one sample at a time, ℓ₁, nothing forgotten."""

    def __init__(self, norm: FactorNorm, lambda2: float, L: Array) -> None:
        self._norm, self._noise, self._state = norm, L1(lambda2), State.start(L)

    def partial_fit(self, X: Array) -> ExactLearner:
        """Learn from more samples, one after the other."""
        for z in X:
            self._state, _ = step(self._state, z[None], norm=self._norm, noise=self._noise)
        return self

    @property
    def components_(self) -> Array:
        """Basis vectors in rows."""
        return self._state.L.T


def samples(p: int, d: int, n: int, rho: float, seed: int) -> tuple[Array, Iterator[Array]]:
    """Return the true basis, and the samples in chunks: a hundred thousand of them need not fit in memory."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((p, d)))[0]

    def chunks() -> Iterator[Array]:
        for start in range(0, n, CHUNK):
            shape = (min(CHUNK, n - start), p)
            clean = rng.standard_normal((shape[0], d)) @ basis.T
            corrupted = rng.random(shape) < rho
            yield clean + np.where(corrupted, rng.uniform(-1000.0, 1000.0, shape), 0.0)

    return basis, chunks()


def first_basis(start: str, p: int, d: int, seed: int) -> Array:
    """Return a random basis: uniform in [0, 1], as the published experiments have it, or orthonormal."""
    rng = np.random.default_rng([seed, 1])
    return rng.random((p, d)) if start == "uniform" else np.linalg.qr(rng.standard_normal((p, d)))[0]


def learner(method: str, p: int, d: int, start: str, seed: int) -> Learner:
    """Return a method by its name; all but the estimators start as the published experiments did."""
    weight = p**-0.5
    first, orthonormal = first_basis(start, p, d, seed), first_basis("orthonormal", p, d, seed)
    paper: dict[str, Any] = {"noise": "l1", "lambda1": weight, "lambda2": weight, "random_state": seed}
    made: dict[str, Callable[[], Learner]] = {
        "omrmd": lambda: PublishedLearner("omrmd", first, weight, weight),
        "orpca": lambda: PublishedLearner("orpca", first, weight, weight),
        "exact-max": lambda: ExactLearner(MaxNorm(weight), weight, first),
        "exact-nuclear": lambda: ExactLearner(NuclearNorm(weight), weight, first),
        "orthonormal-max": lambda: ExactLearner(MaxNorm(weight), weight, orthonormal),
        "orthonormal-nuclear": lambda: ExactLearner(NuclearNorm(weight), weight, orthonormal),
        "l1-max": lambda: MaxNormDecomposition(d, **paper),
        "l1-nuclear": lambda: OnlineRobustPCA(d, **paper),
        "ours": lambda: MaxNormDecomposition(d, random_state=seed),
        "nuclear": lambda: OnlineRobustPCA(d, random_state=seed),
        "pca": lambda: IncrementalPCA(d),
    }
    return made[method]()


def curve(
    method: str, p: int, d: int, n: int, rho: float, seed: int, start: str, patience: float = 1e9
) -> Result:
    """Expressed variance and seconds against samples; a method that runs out of patience ends early."""
    basis, chunks = samples(p, d, n, rho, seed)
    if method == "pcp":
        X = np.concatenate(list(chunks))
        begin = time.process_time()
        found = PrincipalComponentPursuit(tol=1e-5, max_iter=300).fit(X).components_[:d]
        seconds = time.process_time() - begin
        return {"samples": [n], "seconds": [seconds], "ev": [expressed_variance(basis, found.T)]}
    model, seen, seconds = learner(method, p, d, start, seed), 0, 0.0
    result: Result = {"samples": [], "seconds": [], "ev": []}
    for chunk in chunks:
        parts = np.array_split(chunk, 5) if seen < 5 * CHUNK and len(chunk) >= 5 * d else [chunk]
        for part in parts:  # early samples are looked at more closely
            begin = time.process_time()
            model.partial_fit(part)
            seconds += time.process_time() - begin
            seen += len(part)
            result["samples"].append(seen)
            result["seconds"].append(round(seconds, 4))
            result["ev"].append(round(expressed_variance(basis, model.components_.T), 6))
        if seconds > patience:
            break
    return result


def theory(p: int, d: int, n: int, rho: float, seed: int) -> Result:
    """The quantities of section 4, by Algorithm 1 with one sample at a time and nothing forgotten."""
    data = make_corrupted_low_rank(n, p, d, corruption=rho, magnitude=10.0, random_state=seed)
    norm, noise = MaxNorm(p**-0.5), L1(p**-0.5)
    first = np.linalg.qr(np.random.default_rng(seed).standard_normal((p, d)))[0]
    state = State.start(first)
    marks = np.unique(np.geomspace(10, n, 40).astype(int))
    result: Result = {name: [] for name in ("samples", "surrogate", "loss", "move", "gradient")}
    for t, z in enumerate(data.X, start=1):
        before = state.L
        state, _ = step(state, z[None], norm=norm, noise=noise)
        if t in marks:
            seen = data.X[:t]
            code = encode(seen, state.L, norm=norm, noise=noise)
            result["samples"].append(t)
            result["surrogate"].append(surrogate(state, norm))
            result["loss"].append((float(code.loss.sum()) + norm.basis_value(state.L)) / t)
            result["move"].append(t * float(np.linalg.norm(state.L - before)))
            # The cost of the basis is spread over t samples, so that only the data term is left in the limit.
            result["gradient"].append(float(np.linalg.norm(code.residual.T @ code.R)) / t)
    return result


def memory(method: str, p: int, d: int, n: int, seed: int) -> Result:
    """Megabytes held while learning from n samples, beside the chunk at hand."""
    _, chunks = samples(p, d, n, 0.3, seed)
    model = learner(method, p, d, "uniform", seed)
    learner(method, p, d, "uniform", seed).partial_fit(np.ones((1, p)))  # compiled loops are loaded once
    tracemalloc.start()
    peak = 0.0
    for chunk in chunks:
        tracemalloc.reset_peak()
        model.partial_fit(chunk)
        peak = max(peak, tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()
    return {"megabytes": peak}


def outliers(noise: str, share: float, p: int, d: int, n: int, seed: int) -> Result:
    """Expressed variance where a share of the samples is wrong altogether."""
    data = make_corrupted_low_rank(n, p, d, corruption=0.0, dense_noise=0.02, random_state=seed)
    rng = np.random.default_rng(seed)
    wrong = rng.random((n, 1)) < share
    X = np.where(wrong, 10.0 * np.sqrt(d / p) * rng.standard_normal((n, p)), data.X)
    model = MaxNormDecomposition(d, noise=noise, random_state=seed).fit(X)
    return {"ev": expressed_variance(data.basis, model.components_.T)}


def dense(noise: str, sigma: float, p: int, d: int, n: int, seed: int) -> Result:
    """Expressed variance under dense noise alone."""
    data = make_corrupted_low_rank(n, p, d, corruption=0.0, dense_noise=sigma, random_state=seed)
    model = MaxNormDecomposition(d, noise=noise, random_state=seed).fit(data.X)
    return {"ev": expressed_variance(data.basis, model.components_.T)}


def completion(observed: float, p: int, d: int, n: int, seed: int) -> Result:
    """Error in the missing entries, relative to their size, against the share that is observed."""
    data = make_corrupted_low_rank(
        n, p, d, corruption=0.0, dense_noise=0.02, missing=1.0 - observed, random_state=seed
    )
    filled = MaxNormCompletion(d, random_state=seed).fit(data.X).transform(data.X)
    missing = np.isnan(data.X)
    return {"error": relative_error(data.low_rank[missing], filled[missing])}


KINDS: dict[str, Callable[..., Result]] = {
    "curve": curve,
    "theory": theory,
    "memory": memory,
    "outliers": outliers,
    "dense": dense,
    "completion": completion,
}
