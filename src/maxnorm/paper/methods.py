"""The methods that the experiments compare, by name.

Every method makes a learner with ``partial_fit`` and ``components_``. Batch methods need all samples in a
single call of ``partial_fit``. A method from another library is imported when it is made;
``Method.installed`` tells whether that library is available.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from sklearn.decomposition import PCA, IncrementalPCA, MiniBatchDictionaryLearning

from maxnorm import MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.core.noise import L1
from maxnorm.core.norms import FactorNorm
from maxnorm.core.state import State
from maxnorm.core.types import Array
from maxnorm.paper.exact import ExactAlgorithm, PlainMaxNorm, PlainNuclearNorm
from maxnorm.paper.problems import random_orthonormal
from maxnorm.paper.reference import published_step

Start = Literal["uniform", "orthonormal"]

# Parameters with which the decompositions of this library solve the paper's problem, in one pass.
PAPER_PROBLEM: dict[str, Any] = {"center": False, "scale": None, "n_epochs": 1}


class Learner(Protocol):
    """A learner of a basis, in the scikit-learn estimator API."""

    def partial_fit(self, X: Array) -> object:
        """Learn from more samples, in rows."""

    @property
    def components_(self) -> Array:
        """Basis learnt so far, one vector per row."""
        ...


@dataclass(frozen=True)
class Setup:
    """What a method is told before the first sample.

    Parameters
    ----------
    n_features : int
        Number of features.
    rank : int
        Number of components to learn.
    seed : int, default=0
        Random seed of the estimators.
    start : {"uniform", "orthonormal"}, default="orthonormal"
        Initial basis of the methods that do not choose one themselves: entries uniform in [0, 1], or
        orthonormal columns. The published experiments used both.
    start_seed : int or tuple of int, default=0
        Random seed of that initial basis.
    """

    n_features: int
    rank: int
    seed: int = 0
    start: Start = "orthonormal"
    start_seed: int | tuple[int, ...] = 0

    @property
    def weight(self) -> float:
        """Value of lambda1 and lambda2 in the experiments of the paper, 1 / sqrt(p)."""
        return self.n_features**-0.5

    def initial_basis(self, start: Start | None = None) -> Array:
        """Return the initial basis, of the kind ``self.start`` unless another kind is given."""
        rng = np.random.default_rng(self.start_seed)
        if (start or self.start) == "uniform":
            return rng.random((self.n_features, self.rank))
        return random_orthonormal(rng, self.n_features, self.rank)


@dataclass(frozen=True)
class Method:
    """A method under comparison.

    Parameters
    ----------
    title : str
        Name in tables and plots.
    make : callable
        Function that returns a new learner for a :class:`Setup`.
    is_batch : bool, default=False
        Whether the method needs all samples in one call of ``partial_fit``.
    package : str, default="sklearn"
        Package that the method is imported from.
    """

    title: str
    make: Callable[[Setup], Learner]
    is_batch: bool = False
    package: str = "sklearn"

    @property
    def installed(self) -> bool:
        """Whether the package of the method is installed."""
        return importlib.util.find_spec(self.package) is not None


class SequentialLearner:
    """A learner that takes one sample per step.

    Parameters
    ----------
    step : callable
        Function that returns the state after one more sample, given the state and the sample.
    L : array of shape (n_features, rank)
        Initial basis.
    """

    def __init__(self, step: Callable[[State, Array], State], L: Array) -> None:
        self._step, self._state = step, State.start(L)

    def partial_fit(self, X: Array) -> SequentialLearner:
        """Learn from the rows of X, one after the other."""
        for z in X:
            self._state = self._step(self._state, z)
        return self

    @property
    def components_(self) -> Array:
        """Basis learnt so far, one vector per row."""
        return self._state.L.T


class BatchLearner:
    """A batch estimator with the interface of a learner.

    Parameters
    ----------
    estimator : object
        Estimator with ``fit`` and ``components_``.
    rank : int
        Number of components to keep, the strongest first.
    """

    def __init__(self, estimator: Any, rank: int) -> None:
        self._estimator, self._rank = estimator, rank

    def partial_fit(self, X: Array) -> BatchLearner:
        """Fit the estimator to all samples."""
        self._estimator.fit(X)
        return self

    @property
    def components_(self) -> Array:
        """The strongest components, one per row."""
        return self._estimator.components_[: self._rank]


class LowRankLearner:
    """A batch function that returns the low-rank part of a matrix, with the interface of a learner.

    Parameters
    ----------
    function : callable
        Function from a matrix to its low-rank part.
    rank : int
        Number of components to keep.
    """

    def __init__(self, function: Callable[[Array], Array], rank: int) -> None:
        self._function, self._rank = function, rank

    def partial_fit(self, X: Array) -> LowRankLearner:
        """Compute the low-rank part of all samples."""
        self._low_rank = self._function(X)
        return self

    @property
    def components_(self) -> Array:
        """Leading right singular vectors of the low-rank part, one per row."""
        return np.linalg.eigh(self._low_rank.T @ self._low_rank)[1][:, -self._rank :].T


class HyperSpyLearner:
    """ORPCA of HyperSpy with its default solver and the weights of the paper, without its progress bar."""

    def __init__(self, setup: Setup) -> None:
        self._learner = importlib.import_module("hyperspy.learn._rpca").ORPCA(
            setup.rank,
            lambda1=setup.weight,
            lambda2=setup.weight,
            training_samples=2 * setup.rank,
            random_state=setup.seed,
        )

    def partial_fit(self, X: Array) -> HyperSpyLearner:
        """Learn from more samples."""
        with contextlib.redirect_stderr(io.StringIO()):
            self._learner.partial_fit(X)
        return self

    @property
    def components_(self) -> Array:
        """Basis learnt so far, one vector per row."""
        return self._learner.L.T


def _published(method: Literal["omrmd", "orpca"]) -> Callable[[Setup], Learner]:
    def make(setup: Setup) -> Learner:
        step = partial(published_step, lambda1=setup.weight, lambda2=setup.weight, method=method)
        return SequentialLearner(step, setup.initial_basis())

    return make


def _exact(norm: Callable[[float], FactorNorm], start: Start | None = None) -> Callable[[Setup], Learner]:
    def make(setup: Setup) -> Learner:
        algorithm = ExactAlgorithm(norm(setup.weight), L1(setup.weight))
        return SequentialLearner(algorithm.step, setup.initial_basis(start))

    return make


def _estimator(
    estimator: Callable[..., Learner], *, paper_weights: bool = False, **parameters: Any
) -> Callable[[Setup], Learner]:
    def make(setup: Setup) -> Learner:
        weights = {"lambda1": setup.weight, "lambda2": setup.weight} if paper_weights else {}
        return estimator(setup.rank, random_state=setup.seed, **parameters, **weights)

    return make


def _pursuit(**parameters: Any) -> Callable[[Setup], Learner]:
    return lambda setup: BatchLearner(PrincipalComponentPursuit(**parameters), setup.rank)


def _dictionary(setup: Setup) -> Learner:
    return MiniBatchDictionaryLearning(
        setup.rank, alpha=setup.weight, fit_algorithm="cd", random_state=setup.seed
    )


def _tensorly(setup: Setup) -> Learner:
    robust_pca = importlib.import_module("tensorly.decomposition").robust_pca

    def low_rank(X: Array) -> Array:
        weight = max(X.shape) ** -0.5
        return robust_pca(X, reg_E=weight, learning_rate=1.5, n_iter_max=100, tol=1e-7)[0]

    return LowRankLearner(low_rank, setup.rank)


def _alternating_projections(setup: Setup) -> Learner:
    estimator = importlib.import_module("rpca").RobustPCA(n_components=setup.rank, verbose=False)
    return BatchLearner(estimator, setup.rank)


METHODS: dict[str, Method] = {
    # The algorithms as the published code runs them.
    "omrmd": Method("OMRMD as published", _published("omrmd")),
    "orpca": Method("OR-PCA as published", _published("orpca")),
    # Algorithm 1 as printed, from the given start and from an orthonormal one.
    "exact-max": Method("Algorithm 1, max-norm", _exact(PlainMaxNorm)),
    "exact-nuclear": Method("Algorithm 1, nuclear norm", _exact(PlainNuclearNorm)),
    "orthonormal-max": Method(
        "Algorithm 1, max-norm, orthonormal start", _exact(PlainMaxNorm, "orthonormal")
    ),
    "orthonormal-nuclear": Method(
        "Algorithm 1, nuclear norm, orthonormal start", _exact(PlainNuclearNorm, "orthonormal")
    ),
    # The estimators of this library, with defaults.
    "default-max": Method("MaxNormDecomposition", _estimator(MaxNormDecomposition)),
    "default-nuclear": Method("OnlineRobustPCA", _estimator(OnlineRobustPCA)),
    # The same for the paper's problem: with l1 noise, and with the paper's weights too.
    "l1-auto-max": Method(
        "MaxNormDecomposition, l1", _estimator(MaxNormDecomposition, noise="l1", **PAPER_PROBLEM)
    ),
    "l1-auto-nuclear": Method(
        "OnlineRobustPCA, l1", _estimator(OnlineRobustPCA, noise="l1", **PAPER_PROBLEM)
    ),
    "l1-max": Method(
        "MaxNormDecomposition, l1 and the paper's weights",
        _estimator(MaxNormDecomposition, noise="l1", paper_weights=True, **PAPER_PROBLEM),
    ),
    "l1-nuclear": Method(
        "OnlineRobustPCA, l1 and the paper's weights",
        _estimator(OnlineRobustPCA, noise="l1", paper_weights=True, **PAPER_PROBLEM),
    ),
    "pcp": Method("PCP (batch)", _pursuit(tol=1e-5, max_iter=300), is_batch=True),
    "pcp-tight": Method("PrincipalComponentPursuit (batch)", _pursuit(tol=1e-6), is_batch=True),
    # Other libraries.
    "pca": Method("scikit-learn IncrementalPCA", lambda setup: IncrementalPCA(setup.rank)),
    "batch-pca": Method(
        "scikit-learn PCA (batch)", lambda setup: BatchLearner(PCA(setup.rank), setup.rank), is_batch=True
    ),
    "dictionary": Method("scikit-learn MiniBatchDictionaryLearning", _dictionary),
    "hyperspy": Method("HyperSpy ORPCA", HyperSpyLearner, package="hyperspy"),
    "tensorly": Method("TensorLy robust_pca (batch)", _tensorly, is_batch=True, package="tensorly"),
    "rpca": Method("rpca RobustPCA (batch)", _alternating_projections, is_batch=True, package="rpca"),
}
