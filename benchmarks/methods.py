"""The methods that are compared: something with ``partial_fit`` and a ``basis``, made for a rank.

Batch methods take all samples at once and have a result only then. A method whose package is not installed is
left out by name.
"""

import contextlib
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA, IncrementalPCA, MiniBatchDictionaryLearning

from maxnorm import MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.paper.reference import PublishedLearner


@dataclass(frozen=True)
class Method:
    """A way to make a learner of so many components for so many features."""

    name: str
    make: Callable
    batch: bool = False
    package: str = "sklearn"

    @property
    def installed(self):
        """Whether the package it comes from is there."""
        return importlib.util.find_spec(self.package) is not None


class Estimator:
    """Anything with the manners of scikit-learn."""

    def __init__(self, estimator, rank=None):
        self.estimator, self.rank = estimator, rank

    def partial_fit(self, X):
        """Learn from more samples, or from all of them."""
        online = hasattr(self.estimator, "partial_fit")
        (self.estimator.partial_fit if online else self.estimator.fit)(X)

    @property
    def basis(self):
        """The basis learnt so far, in columns."""
        return self.estimator.components_[: self.rank].T


class Batch(Estimator):
    """An estimator that wants all samples at once, although it could do without."""

    def partial_fit(self, X):
        """Learn from all samples."""
        self.estimator.fit(X)


def published(method, d, p):
    """Return the algorithm behind the paper's figures, one sample after the other."""
    first = np.linalg.qr(np.random.default_rng(0).standard_normal((p, d)))[0]
    return Estimator(PublishedLearner(method, first, p**-0.5, p**-0.5))


class HyperSpy:
    """HyperSpy's ORPCA with its own default solver and the paper's weights."""

    def __init__(self, d, p):
        from hyperspy.learn._rpca import ORPCA

        self.learner = ORPCA(d, lambda1=p**-0.5, lambda2=p**-0.5, training_samples=2 * d, random_state=0)

    def partial_fit(self, X):
        """Learn from more samples, without its progress bar."""
        with contextlib.redirect_stderr(io.StringIO()):
            self.learner.partial_fit(X)

    @property
    def basis(self):
        """The basis learnt so far, in columns."""
        return self.learner.L


class TopDirections:
    """A batch function that returns a low-rank matrix; its strongest directions are the basis."""

    def __init__(self, function, d):
        self.function, self.d = function, d

    def partial_fit(self, X):
        """Split all samples."""
        self.low_rank = self.function(X)

    @property
    def basis(self):
        """The strongest directions of the low-rank part, in columns."""
        return np.linalg.eigh(self.low_rank.T @ self.low_rank)[1][:, -self.d :]


def tensorly_pcp(X):
    """PCP by TensorLy."""
    from tensorly.decomposition import robust_pca

    return robust_pca(X, reg_E=max(X.shape) ** -0.5, learning_rate=1.5, n_iter_max=100, tol=1e-7)[0]


def alternating_projections(d):
    """Accelerated alternating projections by the package rpca; it is told the rank."""
    from rpca import RobustPCA

    return Batch(RobustPCA(n_components=d, verbose=False))


METHODS = [
    Method("MaxNormDecomposition", lambda d, p: Estimator(MaxNormDecomposition(d, random_state=0))),
    Method("OnlineRobustPCA", lambda d, p: Estimator(OnlineRobustPCA(d, random_state=0))),
    Method("OMRMD as published", lambda d, p: published("omrmd", d, p)),
    Method("OR-PCA as published", lambda d, p: published("orpca", d, p)),
    Method("HyperSpy ORPCA", HyperSpy, package="hyperspy"),
    Method("scikit-learn IncrementalPCA", lambda d, p: Estimator(IncrementalPCA(d))),
    Method(
        "scikit-learn MiniBatchDictionaryLearning",
        lambda d, p: Estimator(
            MiniBatchDictionaryLearning(d, alpha=p**-0.5, fit_algorithm="cd", random_state=0)
        ),
    ),
    Method(
        "PrincipalComponentPursuit (batch)",
        lambda d, p: Estimator(PrincipalComponentPursuit(tol=1e-6), d),
        True,
    ),
    Method("TensorLy robust_pca (batch)", lambda d, p: TopDirections(tensorly_pcp, d), True, "tensorly"),
    Method("rpca RobustPCA (batch)", lambda d, p: alternating_projections(d), True, "rpca"),
    Method("scikit-learn PCA (batch)", lambda d, p: Batch(PCA(d)), True),
]
