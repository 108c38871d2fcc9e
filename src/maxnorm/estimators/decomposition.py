"""The scikit-learn estimators."""

from __future__ import annotations

import math
from typing import Literal

from numpy.typing import ArrayLike

from maxnorm.core import defaults as auto
from maxnorm.core.noise import Noise
from maxnorm.core.norms import MaxNorm, NuclearNorm
from maxnorm.core.state import State
from maxnorm.core.statistics import Contribution
from maxnorm.estimators._base import (
    Decomposition,
    OnlineDecomposition,
    OnlineFactorisation,
    RandomState,
)
from maxnorm.estimators.validation import invalid

__all__ = ["Decomposition", "MaxNormDecomposition", "OnlineRobustPCA"]


class MaxNormRules(OnlineFactorisation):
    """Estimators with the max-norm: the norm, the size of its basis, and the choice of the update."""

    basis: Literal["exact", "bcd"]

    def _norm(self, state: State) -> MaxNorm:
        lambda1 = auto.max_norm_lambda1(state) if self.lambda1 == "auto" else float(self.lambda1)
        return MaxNorm(lambda1, self.basis)

    def _basis_size(self, state: State) -> float:
        return auto.unit(state)

    def _settled(self, state: State, added: Contribution) -> State:
        return auto.revived(auto.regauged(state, added), added.rank) if self.basis == "exact" else state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.basis, str) or self.basis not in ("exact", "bcd"):
            raise invalid(type(self).__name__, "basis", self.basis, "'exact' or 'bcd'")


class MaxNormDecomposition(MaxNormRules, OnlineDecomposition):
    """Robust low-rank decomposition of a stream of samples, regularised by the max-norm (OMRMD).

    Each sample is split as ``z = L r + e + residual`` with ``norm(r) <= 1``. The model is that of ::

        sum_i 1/2 |z_i - L r_i - e_i|^2 + lambda2 h(e_i)  +  lambda1 / 2 * max_j |row j of L|^2

    with samples weighted by how lately they came and how far they are believed. It is learnt in one pass
    and in memory O(n_features x n_components), however many samples there are. With the default noise this
    is robust PCA: entries of a sample, even half of them, may be grossly wrong. NaN means missing,
    everywhere. There is no centring: data with a mean spend a component on it.

    Parameters
    ----------
    n_components : int, "auto" or None
        Rank of the low-rank part, or a bound on it. "auto" chooses by entries that are held out of the first
        samples. None takes 10, or half the features if fewer than 20.
    noise : {"capped", "l1", "l21", "squared", "none"} or Noise
        What is unusual in the data: single entries ("capped" rejects them, "l1" limits their pull and is the
        paper's), whole samples ("l21"), nothing ("squared", "none"), or any object with the methods of
        :class:`maxnorm.core.noise.Noise`.
    lambda1 : float or "auto"
        Weight of the max-norm. "auto" is ``1 / sqrt(n_features)``; it has no unit.
    lambda2 : float or "auto"
        Weight of the noise, in units of the data: errors much smaller than this are left in the
        residual. "auto" follows robust scales of the data and of the residual. For "capped" it is the least
        threshold; that of a sample is larger if it is fitted badly.
    batch_size : int or "auto"
        Samples between two updates of the basis. "auto" begins with two fifths of the components, at least
        10, and grows to a tenth of the samples seen, more slowly while there is much to learn.
    forgetting : float or "auto"
        A sample seen at time t counts as ``t ** forgetting``: 0 never forgets, 10 remembers the last
        tenth. "auto" forgets fast while the basis improves and little afterwards.
    half_life : float or None
        For streams that drift: samples lose half their weight over this many samples.
    basis : {"exact", "bcd"}
        "exact" minimises over the basis; "bcd" is Algorithm 4 of the paper as printed, which may diverge
        and then raises :class:`maxnorm.core.norms.DivergenceError`.
    max_iter : int or "auto"
        Sweeps of the solver for a sample. "auto" spends few while learning from a poor basis, and up to
        1000 in ``transform``.
    tol : float
        Relative accuracy (KKT residual) to which coefficients are solved.
    n_epochs : int
        Passes of ``fit`` over the data.
    init : "random" or array of shape (n_components, n_features)
        First basis. A random one is orthonormal, brought to the size of the data.
    random_state : int, RandomState or None
        Seed of the random first basis.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector a row.
    selection_ : dict
        Ranks that were tried for "auto", and their errors.
    n_samples_seen_ : int
        Samples learnt from.
    lambda1_, lambda2_ : float
        Weights in use, given or found.
    objective_ : float
        Average cost of the samples learnt from, as remembered.
    state_ : maxnorm.learner.State
        All that is carried from batch to batch.

    Notes
    -----
    A batch of b samples costs O(b p d) a sweep and O(p d^2 + d^3) for the basis, for p features and d
    components. Multiplying the data by c multiplies the low-rank part by c.

    References
    ----------
    J. Shen, H. Xu, P. Li. Online optimization for large-scale max-norm regularization. Machine Learning
    106, 2017.

    Examples
    --------
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> from maxnorm.metrics import expressed_variance
    >>> data = make_corrupted_low_rank(1000, 100, 5, corruption=0.2, random_state=0)
    >>> model = MaxNormDecomposition(n_components=5, random_state=0).fit(data.X)
    >>> expressed_variance(data.basis, model.components_.T) > 0.99
    True
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = None,
        *,
        noise: str | Noise = "capped",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        forgetting: float | Literal["auto"] = "auto",
        half_life: float | None = None,
        basis: Literal["exact", "bcd"] = "exact",
        max_iter: int | Literal["auto"] = "auto",
        tol: float = 1e-6,
        n_epochs: int = 1,
        init: str | ArrayLike = "random",
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.noise = noise
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.half_life = half_life
        self.basis = basis
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.init = init
        self.random_state = random_state


class OnlineRobustPCA(OnlineDecomposition):
    """Robust PCA of a stream, regularised by the nuclear norm (OR-PCA).

    The established method beside :class:`MaxNormDecomposition`, with the same solver, defaults and
    manners. Coefficients pay ``lambda1 / 2 |r|^2`` each, and the basis ``lambda1 / 2 |L|_F^2``, which
    together make the nuclear norm.

    Parameters
    ----------
    n_components : int, "auto" or None
        Rank of the low-rank part, or a bound on it. "auto" chooses by entries that are held out of the first
        samples. None takes 10, or half the features if fewer than 20.
    noise : {"capped", "l1", "l21", "squared", "none"} or Noise
        What is unusual in the data: single entries, whole samples, or nothing.
    lambda1 : float or "auto"
        Weight of the nuclear norm, in units of the data.
    lambda2 : float or "auto"
        Weight of the noise, in units of the data.
    batch_size, forgetting, half_life, max_iter, tol, n_epochs, init, random_state
        As in :class:`MaxNormDecomposition`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector a row.
    selection_ : dict
        Ranks that were tried for "auto", and their errors.
    n_samples_seen_ : int
        Samples learnt from.
    lambda1_, lambda2_ : float
        Weights in use, given or found.
    objective_ : float
        Average cost of the samples learnt from, as remembered.
    state_ : maxnorm.learner.State
        All that is carried from batch to batch.

    References
    ----------
    J. Feng, H. Xu, S. Yan. Online robust PCA via stochastic optimization. NIPS 2013.

    Examples
    --------
    >>> from maxnorm import OnlineRobustPCA
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(500, 60, 3, random_state=0)
    >>> OnlineRobustPCA(n_components=3, random_state=0).fit_transform(data.X).shape
    (500, 3)
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = None,
        *,
        noise: str | Noise = "capped",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        forgetting: float | Literal["auto"] = "auto",
        half_life: float | None = None,
        max_iter: int | Literal["auto"] = "auto",
        tol: float = 1e-6,
        n_epochs: int = 1,
        init: str | ArrayLike = "random",
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.noise = noise
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.half_life = half_life
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.init = init
        self.random_state = random_state

    def _norm(self, state: State) -> NuclearNorm:
        if self.lambda1 == "auto":
            return NuclearNorm(auto.nuclear_lambda1(state))
        return NuclearNorm(float(self.lambda1))

    def _basis_size(self, state: State) -> float:
        # Basis and coefficients share the size of the data between them.
        return math.sqrt(auto.unit(state))
