"""The kinds of cells: each is a function from settings to numbers, both of which can be written as JSON.

The names of the settings are those of the stored results: p features, rank d, n samples, a share rho of
corrupted entries, and a random seed.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from maxnorm import MaxNormCompletion, MaxNormDecomposition, __version__
from maxnorm.core.noise import L1
from maxnorm.core.state import State
from maxnorm.core.types import Array
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance, relative_error
from maxnorm.paper.batch import objective
from maxnorm.paper.exact import ExactAlgorithm, PlainMaxNorm
from maxnorm.paper.measure import measure_curve, measure_peak_memory
from maxnorm.paper.methods import METHODS, PAPER_PROBLEM, Setup, Start
from maxnorm.paper.problems import corrupted_stream, random_orthonormal

Result = dict[str, Any]

BLOCK = 500  # samples that are generated and learnt at a time
EARLY_BLOCKS = 5  # number of blocks at the beginning of a curve that are divided
EARLY_PARTS = 5  # number of parts of such a block, hence points of the curve


@dataclass(frozen=True)
class Cell:
    """One run of an experiment: its kind and its settings.

    Parameters
    ----------
    kind : str
        A key of ``KINDS``.
    settings : tuple of (str, object) pairs
        Arguments of the function that computes cells of this kind, sorted by name.
    """

    kind: str
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, kind: str, **settings: Any) -> Cell:
        """Return the cell of a kind with these settings; their order does not matter."""
        return cls(kind, tuple(sorted(settings.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.settings)[name]

    @property
    def key(self) -> str:
        """Hash of the kind, the settings and the series of releases: the file name of the result."""
        series = ".".join(__version__.split(".")[:2])  # the same for all commits between two releases
        content = json.dumps([self.kind, self.settings, series], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    def run(self) -> Result:
        """Compute the cell."""
        return KINDS[self.kind](**dict(self.settings))


Results = dict[Cell, Result]


def repeated_ev(results: Results) -> dict[tuple[str, int, float], dict[int, float]]:
    """Return the expressed variance at the end of each run.

    Parameters
    ----------
    results : dict
        Results by cell. Only cells of the kinds "curve", "final" and "recovery" count.

    Returns
    -------
    dict
        By (method, rank, share of corrupted entries): the final expressed variance of each repetition, by
        its seed.
    """
    values: dict[tuple[str, int, float], dict[int, float]] = {}
    for cell, result in results.items():
        if cell.kind in ("curve", "final", "recovery"):
            end = result["ev"][-1] if cell.kind == "curve" else result["ev"]
            values.setdefault((cell["method"], cell["d"], cell["rho"]), {})[cell["seed"]] = end
    return values


def final_ev(results: Results) -> dict[tuple[str, int, float], float]:
    """Return the means over the repetitions of :func:`repeated_ev`.

    Parameters
    ----------
    results : dict
        Results by cell.

    Returns
    -------
    dict
        Mean of the final expressed variance, by (method, rank, share of corrupted entries).
    """
    return {key: float(np.mean(list(ends.values()))) for key, ends in repeated_ev(results).items()}


def _setup(p: int, d: int, seed: int, start: Start) -> Setup:
    return Setup(p, d, seed, start, start_seed=(seed, 1))  # the data already use default_rng(seed)


def curve(
    method: str, p: int, d: int, n: int, rho: float, seed: int, start: Start, patience: float = math.inf
) -> Result:
    """Measure a learning curve with CPU time; ``patience`` is the time limit in seconds.

    Returns
    -------
    dict
        Lists "samples", "seconds" and "ev" (expressed variance). A batch method has a single point.
    """
    basis, stream = corrupted_stream(p, d, n, rho, seed, BLOCK)
    blocks = [np.concatenate(list(stream))] if METHODS[method].is_batch else _divide_early_blocks(stream, d)
    learner = METHODS[method].make(_setup(p, d, seed, start))
    return asdict(measure_curve(learner, blocks, basis, time_limit=patience, clock=time.process_time))


def final(method: str, p: int, d: int, n: int, rho: float, seed: int, start: Start) -> Result:
    """Measure the expressed variance after one call of ``partial_fit`` with all samples of a curve.

    Returns
    -------
    dict
        The number "ev".
    """
    basis, stream = corrupted_stream(p, d, n, rho, seed, BLOCK)
    learner = METHODS[method].make(_setup(p, d, seed, start))
    return {"ev": measure_curve(learner, [np.concatenate(list(stream))], basis).ev[-1]}


def _divide_early_blocks(blocks: Iterable[Array], d: int) -> Iterator[Array]:
    """Divide the first blocks, because curves rise early. Online PCA needs at least d samples per part."""
    for i, block in enumerate(blocks):
        divided = i < EARLY_BLOCKS and len(block) >= EARLY_PARTS * d
        yield from np.array_split(block, EARLY_PARTS) if divided else [block]


def recovery(method: str, p: int, d: int, n: int, rho: float, seed: int) -> Result:
    """Measure the expressed variance after one pass over a data set; ``seed`` is that of the data.

    Returns
    -------
    dict
        The number "ev".
    """
    data = make_corrupted_low_rank(n, p, d, corruption=rho, random_state=seed)
    learner = METHODS[method].make(Setup(p, d))
    learner.partial_fit(data.X)
    return {"ev": expressed_variance(data.basis, learner.components_.T)}


def theory(p: int, d: int, n: int, rho: float, seed: int) -> Result:
    """Measure the quantities of section 4 along Algorithm 1 as printed, with the max-norm and l1 noise.

    Returns
    -------
    dict
        Lists "samples", "surrogate" (g_t at L_t), "loss" (the empirical loss f_t at L_t), "move" (t times the
        distance between L_t and L_{t-1}) and "gradient" (norm of the gradient of the data term of f_t).
    """
    data = make_corrupted_low_rank(n, p, d, corruption=rho, magnitude=10.0, random_state=seed)
    algorithm = ExactAlgorithm(PlainMaxNorm(p**-0.5), L1(p**-0.5))
    state = State.start(random_orthonormal(np.random.default_rng(seed), p, d))
    recorded = np.unique(np.geomspace(10, n, 40).astype(int))
    result: Result = {name: [] for name in ("samples", "surrogate", "loss", "move", "gradient")}
    for t, z in enumerate(data.X, start=1):
        before = state.L
        state = algorithm.step(state, z)
        if t in recorded:
            code = algorithm.encode(data.X[:t], state.L)
            result["samples"].append(t)
            result["surrogate"].append(algorithm.surrogate(state))
            result["loss"].append(objective(code, state.L, algorithm.norm) / t)
            result["move"].append(t * float(np.linalg.norm(state.L - before)))
            # The cost of the basis is divided by t, so that only the data term remains in the limit.
            result["gradient"].append(float(np.linalg.norm(code.residual.T @ code.R)) / t)
    return result


def memory(method: str, p: int, d: int, n: int, seed: int) -> Result:
    """Measure the peak memory of learning from n samples, including the block that is being learnt.

    Returns
    -------
    dict
        The number "megabytes".
    """
    setup = _setup(p, d, seed, "uniform")
    first = METHODS[method].make(setup)
    for block in corrupted_stream(p, d, 4 * BLOCK, 0.3, seed, BLOCK)[1]:
        first.partial_fit(block)  # loads compiled code before the measurement
    _, stream = corrupted_stream(p, d, n, 0.3, seed, BLOCK)
    return {"megabytes": measure_peak_memory(METHODS[method].make(setup), stream)}


def outliers(noise: str, share: float, p: int, d: int, n: int, seed: int) -> Result:
    """Measure the expressed variance if a share of the samples is replaced by noise.

    Returns
    -------
    dict
        The number "ev".
    """
    data = make_corrupted_low_rank(n, p, d, corruption=0.0, dense_noise=0.02, random_state=seed)
    rng = np.random.default_rng(seed)
    replaced = rng.random((n, 1)) < share
    X = np.where(replaced, 10.0 * np.sqrt(d / p) * rng.standard_normal((n, p)), data.X)
    model = MaxNormDecomposition(d, noise=noise, random_state=seed, **PAPER_PROBLEM).fit(X)
    return {"ev": expressed_variance(data.basis, model.components_.T)}


def dense(noise: str, sigma: float, p: int, d: int, n: int, seed: int) -> Result:
    """Measure the expressed variance under dense Gaussian noise of standard deviation ``sigma``.

    Returns
    -------
    dict
        The number "ev".
    """
    data = make_corrupted_low_rank(n, p, d, corruption=0.0, dense_noise=sigma, random_state=seed)
    model = MaxNormDecomposition(d, noise=noise, random_state=seed, **PAPER_PROBLEM).fit(data.X)
    return {"ev": expressed_variance(data.basis, model.components_.T)}


def completion(observed: float, p: int, d: int, n: int, seed: int) -> Result:
    """Measure the relative error of the missing entries if a share of the entries is observed.

    Returns
    -------
    dict
        The number "error".
    """
    data = make_corrupted_low_rank(
        n, p, d, corruption=0.0, dense_noise=0.02, missing=1.0 - observed, random_state=seed
    )
    filled = MaxNormCompletion(d, random_state=seed).fit(data.X).transform(data.X)
    missing = np.isnan(data.X)
    return {"error": relative_error(data.low_rank[missing], filled[missing])}


KINDS: dict[str, Callable[..., Result]] = {
    "curve": curve,
    "final": final,
    "recovery": recovery,
    "theory": theory,
    "memory": memory,
    "outliers": outliers,
    "dense": dense,
    "completion": completion,
}
