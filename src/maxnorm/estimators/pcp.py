"""Principal component pursuit (PCP): robust PCA as a convex problem over all samples at once.

It is the batch method with which the online estimators are compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from maxnorm.core.batch import Batch, complaint_about_tiny
from maxnorm.core.encoding import LARGEST_TOLERANCE
from maxnorm.core.types import Array, Mask
from maxnorm.estimators._base import CoefficientsMixin, Decomposition, SavedMixin, unfold
from maxnorm.estimators.reporting import ReportMixin
from maxnorm.estimators.validation import Number, all_or_nothing, check_number, check_weight, validate_array
from maxnorm.learner import APPLY_ENTRIES

CACHED_ENTRIES = 30_000
"""Entries of each array that are processed at a time, so that all arrays involved fit in the cache."""

LowRankStep = Callable[[Array, Array, Array], None]
"""Function ``step(M, t, out)`` that writes the proximal operator of the low-rank penalty at M to ``out``.

The weights ``t`` of the penalty have the shape (1, 1), or (n_samples, 1) if each row is a separate problem.
"""


class PenaltyRule(NamedTuple):
    """Constants of the augmented Lagrangian: how the penalty mu changes, and when the iterations may stop.

    The choice of mu does not change the solution, but how fast it is reached. In a first phase mu is raised
    while the constraint is violated by more than the noise changes; data that can be recovered exactly
    are recovered in this phase. Afterwards mu balances the relative primal error and the relative dual
    error, with over-relaxation, and is finally kept constant, because the method is guaranteed to
    converge only for a constant mu.

    Attributes
    ----------
    initial : float
        First value of mu, as a multiple of the inverse of the spectral norm of the data [1]_.
    factor : float
        Factor by which mu is multiplied or divided when it changes.
    eager_iterations : int
        Number of iterations in the first phase. Data that can be recovered exactly need fewer.
    imbalance : float
        Ratio of the two errors beyond which mu is changed in favour of the larger error [2]_.
    interval : int
        Number of iterations between two changes of mu after the first phase.
    last_change : int
        Iteration from which on mu is constant.
    relaxation : float
        Over-relaxation after the first phase. Values from 1.5 to 1.8 are recommended [2]_; on data that are
        hard to recover this one takes half to three quarters of the iterations that 1.0 takes.
    stationary : float
        Largest change of the multipliers, relative to their largest possible norm, at which the
        iterations may stop.

    References
    ----------
    .. [1] Z. Lin, M. Chen, Y. Ma. The augmented Lagrange multiplier method for exact recovery of corrupted
       low-rank matrices. arXiv:1009.5055, 2010.
    .. [2] S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein. Distributed optimization and statistical
       learning via the alternating direction method of multipliers. Foundations and Trends in Machine
       Learning 3, 2011, section 3.4.
    """

    initial: float = 1.25
    factor: float = 1.5
    eager_iterations: int = 50
    imbalance: float = 10.0
    interval: int = 5
    last_change: int = 500
    relaxation: float = 1.7
    stationary: float = 1e-4


PENALTY = PenaltyRule()


class Pursuit(NamedTuple):
    """Result of :func:`pursue`.

    Attributes
    ----------
    low_rank : ndarray of shape (n_samples, n_features)
        Low-rank part of Z.
    noise : ndarray of shape (n_samples, n_features)
        Sparse part of Z. The two parts add up to Z within the tolerance.
    dual : ndarray of shape (n_samples, n_features)
        Lagrange multipliers of the constraint. Their magnitudes are at most ``lambda2``. If the low-rank part
        is penalised by its nuclear norm, their spectral norm is at most one at the optimum.
    n_iter : int
        Number of iterations.
    converged : ndarray of bool
        Whether the tolerance was reached: one flag, or one per row if each row is a separate problem.
    """

    low_rank: Array
    noise: Array
    dual: Array
    n_iter: int
    converged: Mask


def shrink_singular_values(
    M: Array, threshold: float, out: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return M with its singular values reduced by a threshold, and those below the threshold removed.

    This is the proximal operator of ``threshold`` times the nuclear norm. It is computed from those
    eigenvectors of the smaller Gram matrix whose singular values remain. The cost is two products with M and
    a partial eigendecomposition, which is a small part of the cost of a full singular value decomposition.

    Parameters
    ----------
    M : ndarray of shape (n, p)
        Matrix.
    threshold : float
        Positive number that is subtracted from the singular values.
    out : ndarray of shape (n, p), optional
        Array that receives the shrunk matrix.

    Returns
    -------
    shrunk : ndarray of shape (n, p)
        The shrunk matrix, of rank k.
    sigma : ndarray of shape (k,)
        Its singular values, in increasing order.
    V : ndarray of shape (p, k)
        Its right singular vectors, one per column.
    """
    tall = M.shape[0] >= M.shape[1]
    above = (threshold * threshold, np.inf)
    try:
        gram = M.T @ M if tall else M @ M.T
        squares, W = eigh(gram, subset_by_value=above, driver="evr", overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:  # LAPACK cannot select eigenvalues of some graded matrices
        squares, W = np.linalg.eigh(M.T @ M if tall else M @ M.T)
        squares, W = squares[squares > above[0]], W[:, squares > above[0]]
    sigma = np.sqrt(squares)
    kept = 1.0 - threshold / sigma
    if tall:
        return np.matmul(M @ W * kept, W.T, out=out), sigma - threshold, W
    V = W.T @ M
    return np.matmul(W, V * kept[:, None], out=out), sigma - threshold, (V / sigma[:, None]).T


def spectral_norm(M: Array) -> float:
    """Return the largest singular value of M, computed from the smaller Gram matrix."""
    gram = M.T @ M if M.shape[0] >= M.shape[1] else M @ M.T
    last = len(gram) - 1
    try:
        top = eigh(gram, eigvals_only=True, subset_by_index=(last, last), check_finite=False)
    except np.linalg.LinAlgError:  # as in shrink_singular_values
        top = np.linalg.eigvalsh(gram)[last:]
    return float(np.sqrt(top[0]))


def pursue(
    Z: Array,
    observed: Mask | None,
    low_rank_step: LowRankStep,
    lambda2: float,
    tol: float,
    max_iter: int,
    *,
    by_row: bool = False,
) -> Pursuit:
    """Split Z into a low-rank part and sparse noise by the method of multipliers (inexact ALM, or ADMM).

    The function minimises ``f(low_rank) + lambda2 * sum |noise|`` subject to ``low_rank + noise = Z``, where
    ``f`` is given by its proximal operator. The noise of entries that are not observed costs nothing.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_features)
        Samples in double precision, with zeros for missing entries.
    observed : ndarray of bool of shape (n_samples, n_features) or None
        Which entries are observed. None means all.
    low_rank_step : callable
        Proximal operator of ``f``, see ``LowRankStep``.
    lambda2 : float
        Weight of the noise.
    tol : float
        Largest error of ``low_rank + noise = Z``, and largest change of the noise in an iteration, relative
        to the norm of the low-rank part. Relative to the norm of Z, gross errors would conceal how
        inaccurate the low-rank part is.
    max_iter : int
        Largest number of iterations.
    by_row : bool, default=False
        Whether each row is a separate problem, with a penalty and a stopping time of its own.

    Returns
    -------
    Pursuit
        The two parts, the multipliers, the number of iterations and whether the tolerance was reached.
    """

    tol = min(tol, LARGEST_TOLERANCE)

    def norm(squares: Array) -> Array:
        return np.asarray(np.sqrt(squares if by_row else squares.sum(keepdims=True)))

    data_norm = norm(_squared_row_norms(Z))
    data_norm = np.where(data_norm > 0.0, data_norm, 1.0)
    # The spectral norm is bounded away from zero, because mu is proportional to its inverse.
    spectral = data_norm if by_row else np.maximum(np.array([[spectral_norm(Z)]]), data_norm.min() * 1e-3)
    largest = np.abs(Z).max(axis=1, keepdims=True) if by_row else np.abs(Z).max(keepdims=True)
    mu, dual = PENALTY.initial / spectral, Z / np.maximum(spectral, largest / lambda2)
    dual_bound = lambda2 * (Z.shape[1] if by_row else Z.size) ** 0.5  # on the norm of the multipliers
    noise, target, low_rank, rows = np.zeros_like(Z), np.empty_like(Z), np.empty_like(Z), np.arange(len(Z))
    results, converged = np.zeros((3, *Z.shape)), np.zeros(len(Z), dtype=bool)
    for iteration in range(1, max_iter + 1):
        target, low_rank = target[: len(Z)], low_rank[: len(Z)]
        for part in gen_batches(len(Z), max(1, CACHED_ENTRIES // Z.shape[1])):
            np.divide(dual[part], _rows_of(mu, part), out=target[part])
            target[part] += Z[part]
            target[part] -= noise[part]
        low_rank_step(target, 1.0 / mu, low_rank)
        relaxation = 1.0 if iteration <= PENALTY.eager_iterations else PENALTY.relaxation
        squares = update_noise(Z, observed, low_rank, noise, dual, mu, lambda2, relaxation)
        violation, change, low_rank_norm = map(norm, squares)
        scale = np.where(low_rank_norm > 0.0, low_rank_norm, data_norm)
        primal_error, dual_error = violation / scale, mu * change / dual_bound
        done = (primal_error <= tol) & (change <= tol * scale) & (dual_error <= PENALTY.stationary)
        mu = _next_penalty(mu, iteration, (violation, change), (primal_error, dual_error))
        if done.any() or iteration == max_iter:
            if not by_row:
                return Pursuit(low_rank, noise, dual, iteration, done[0])
            results[:, rows], converged[rows] = (low_rank, noise, dual), done[:, 0]
            active = ~done[:, 0]
            rows = rows[active]
            Z, noise, dual, mu, data_norm = (M[active] for M in (Z, noise, dual, mu, data_norm))
            observed = None if observed is None else observed[active]
            if not len(rows):
                break
    return Pursuit(results[0], results[1], results[2], iteration, converged)


def _next_penalty(
    mu: Array, iteration: int, absolute: tuple[Array, Array], relative: tuple[Array, Array]
) -> Array:
    """Return the penalty for the next iteration by the rule of :class:`PenaltyRule`.

    ``absolute`` has the violation of the constraint and the change of the noise, ``relative`` the relative
    primal and dual errors.
    """
    if iteration <= PENALTY.eager_iterations:
        violation, change = absolute
        too_small, too_large = violation > change, change > PENALTY.imbalance * violation
    elif iteration <= PENALTY.last_change and iteration % PENALTY.interval == 0:
        primal, dual = relative
        too_small, too_large = primal > PENALTY.imbalance * dual, dual > PENALTY.imbalance * primal
    else:
        return mu
    return mu * np.where(too_small, PENALTY.factor, np.where(too_large, 1.0 / PENALTY.factor, 1.0))


def update_noise(
    Z: Array,
    observed: Mask | None,
    low_rank: Array,
    noise: Array,
    dual: Array,
    mu: Array,
    lambda2: float,
    relaxation: float,
) -> tuple[Array, Array, Array]:
    """Update the noise and the multipliers in place, given a new low-rank part.

    The noise is the soft-thresholded difference between Z and the low-rank part, after over-relaxation and
    with the multipliers added. A few rows are processed at a time, so that they stay in the cache.

    Returns
    -------
    violation, change, strength : ndarray of shape (n_samples, 1)
        Squared norms, for each row, of ``Z - low_rank - noise``, of the change of the noise, and of the
        low-rank part.
    """
    violation, change, strength = (np.empty((len(Z), 1)) for _ in range(3))
    for rows in gen_batches(len(Z), max(1, CACHED_ENTRIES // Z.shape[1])):
        weight = _rows_of(mu, rows)
        difference = Z[rows] - low_rank[rows]
        new = dual[rows] / weight
        new += difference if relaxation == 1.0 else relaxation * difference + (1.0 - relaxation) * noise[rows]
        clipped = np.clip(new, -lambda2 / weight, lambda2 / weight)
        if observed is not None:
            clipped *= observed[rows]
        np.multiply(clipped, weight, out=dual[rows])
        new -= clipped  # soft thresholding is the value minus the clipped value
        violation[rows] = _squared_row_norms(difference - new)
        change[rows] = _squared_row_norms(noise[rows] - new)
        strength[rows] = _squared_row_norms(low_rank[rows])
        noise[rows] = new
    return violation, change, strength


def _squared_row_norms(M: Array) -> Array:
    """Return the squared norms of the rows as a column."""
    return np.asarray(np.einsum("ij,ij->i", M, M)[:, None])


def _rows_of(mu: Array, rows: slice) -> Array:
    """Return the penalties of some rows, or the only penalty if all rows share one."""
    return mu if len(mu) == 1 else mu[rows]


class PrincipalComponentPursuit(SavedMixin, ReportMixin, CoefficientsMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Robust PCA by principal component pursuit (PCP), a batch method for data that fit in memory.

    X is split into a low-rank part L and sparse noise S, which solve the convex problem ::

        minimise    |L|_* + lambda2 * sum |S_ij|    subject to    L + S = X

    where ``|L|_*`` is the nuclear norm, the sum of the singular values. Missing entries (NaN) are left out
    of the sum and of the constraint. If the rank of L is low, the gross errors are few and in random places,
    and no single sample or feature dominates L, then both parts are recovered exactly [1]_. The number of
    components is found by the method. Data are not centred: a non-zero mean takes one component.

    Parameters
    ----------
    lambda2 : float or "auto", default="auto"
        Weight of the noise. A larger weight leaves more of X to the low-rank part and increases its rank.
        "auto" is ``1 / sqrt(max(n_samples, n_features))``, for which exact recovery is proved.
    tol : float, default=1e-7
        Largest error of ``low_rank + noise = X``, relative to the norm of the low-rank part. It applies to
        ``fit``, ``decompose`` and ``transform``.
    max_iter : int, default=1000
        Largest number of iterations. A ``ConvergenceWarning`` is given if they do not suffice.

    Attributes
    ----------
    low_rank_ : ndarray of shape (n_samples, n_features)
        Low-rank part of the training data, including estimates of missing entries.
    noise_ : ndarray of shape (n_samples, n_features)
        Sparse noise in the training data; zero for missing entries.
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal basis of the low-rank part, one vector per row, in decreasing order of the singular
        values.
    singular_values_ : ndarray of shape (n_components,)
        Non-zero singular values of the low-rank part, in decreasing order.
    n_components_ : int
        Rank of the low-rank part.
    n_iter_ : int
        Number of iterations of ``fit``.
    n_features_in_ : int
        Number of features of the training data.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the training data have names that are all strings.
    feature_shape_ : tuple of int
        Shape of a sample, if the model was fitted on an array of images or of other samples of several
        dimensions. Files that are read as streams are folded before, and have no such shape.

    See Also
    --------
    MaxNormDecomposition : Online robust decomposition for streams and data larger than memory.
    OnlineRobustPCA : The online method with the nuclear norm.

    Notes
    -----
    The problem is solved by the inexact augmented Lagrange multiplier method [2]_, a form of ADMM, with an
    adaptive penalty and over-relaxation. An iteration costs at most three products of X with matrices of
    at most ``m = min(n_samples, n_features)`` columns and a partial eigendecomposition of an m x m matrix,
    that is, O(n_samples * n_features * m). Data that can be recovered exactly take a few dozen iterations,
    others several hundred. The memory needed is about ten arrays of the size of X in double precision.

    References
    ----------
    .. [1] E. Candès, X. Li, Y. Ma, J. Wright. Robust principal component analysis? Journal of the ACM 58,
       2011.
    .. [2] Z. Lin, M. Chen, Y. Ma. The augmented Lagrange multiplier method for exact recovery of corrupted
       low-rank matrices. arXiv:1009.5055, 2010.

    Examples
    --------
    One entry in twenty has an error of up to 1000. The clean data, whose entries are below 2, and their rank
    are recovered:

    >>> from maxnorm import PrincipalComponentPursuit
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(200, 50, 3, corruption=0.05, random_state=0)
    >>> model = PrincipalComponentPursuit().fit(data.X)
    >>> model.n_components_
    3
    >>> bool(abs(model.low_rank_ - data.low_rank).max() < 1e-5)
    True

    The noise is not zero exactly where the entries are corrupted:

    >>> bool(((abs(model.noise_) > 1e-3) == (abs(data.noise) > 1e-3)).all())
    True
    """

    def __init__(
        self, *, lambda2: float | Literal["auto"] = "auto", tol: float = 1e-7, max_iter: int = 1000
    ) -> None:
        self.lambda2 = lambda2
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Split the training data into a low-rank part and sparse noise.

        If an error is raised, the estimator is left as it was before the call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.
        y : None
            Ignored. Present for compatibility with the scikit-learn API.

        Returns
        -------
        self : PrincipalComponentPursuit
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is invalid, or if X is not a numeric matrix without infinities.

        Warns
        -----
        ConvergenceWarning
            If ``tol`` is not reached in ``max_iter`` iterations.
        """
        with all_or_nothing(self):
            self._check_parameters()
            samples = validate_array(self, X, reset=True)
            complaint = complaint_about_tiny(samples)
            if complaint is not None:
                raise ValueError(complaint)
            self._split(samples.astype(np.dtype(np.float64)))
        return self

    def _split(self, samples: Batch) -> None:
        """Set the fitted attributes from validated samples in double precision."""
        Z, observed = samples.dense()
        lambda2 = max(Z.shape) ** -0.5 if self.lambda2 == "auto" else float(self.lambda2)

        sigma: Array = np.zeros(0)
        V: Array = np.zeros((Z.shape[1], 0))

        def step(M: Array, weight: Array, out: Array) -> None:
            nonlocal sigma, V
            _, sigma, V = shrink_singular_values(M, float(weight[0, 0]), out)

        found = pursue(Z, observed, step, lambda2, self.tol, self.max_iter)
        if not found.converged.all():
            self._warn_of_max_iter("fit", 4)
        self.components_ = V.T[::-1].copy()
        self.singular_values_ = sigma[::-1].copy()
        self.low_rank_ = found.low_rank
        self.noise_ = found.noise if observed is None else found.noise * observed
        self.n_iter_ = found.n_iter

    def decompose(self, X: ArrayLike) -> Decomposition:
        """Split new samples into a part in the learnt subspace and sparse noise.

        The coefficients r of a sample x minimise ``sum |x - components_.T @ r|`` over its observed entries:
        they are the least absolute deviations fit, which gross errors in some entries do not change.
        Samples do not depend on each other.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        parts : Decomposition
            Named tuple of the arrays ``low_rank``, ``noise``, ``residual``, ``coefficients`` and
            ``converged``. The first three add up to X wherever it is observed.

        Raises
        ------
        ValueError
            If X has another number of features than the training data, or has infinite entries.

        Warns
        -----
        ConvergenceWarning
            If ``tol`` is not reached in ``max_iter`` iterations for some samples.

        See Also
        --------
        transform : The coefficients alone.

        Notes
        -----
        An iteration costs O(n_features * n_components) for each sample that has not converged.

        Examples
        --------
        A gross error in a new sample does not disturb its low-rank part:

        >>> import numpy as np
        >>> from maxnorm import PrincipalComponentPursuit
        >>> model = PrincipalComponentPursuit().fit(np.outer(np.arange(1.0, 9.0), np.ones(5)))
        >>> parts = model.decompose([[2.0, 2.0, 99.0, 2.0, np.nan]])
        >>> parts.low_rank.round(4).tolist()
        [[2.0, 2.0, 2.0, 2.0, 2.0]]
        >>> round(float(parts.noise[0, 2]), 4)
        97.0
        """
        check_is_fitted(self)
        self._check_parameters()
        V = self.components_.T

        def step(M: Array, weight: Array, out: Array) -> None:
            np.matmul(M @ V, V.T, out=out)

        parts = []
        samples = validate_array(self, X, reset=False)
        for rows in gen_batches(len(samples), max(1, APPLY_ENTRIES // samples.shape[1])):
            Z, observed = samples[rows].astype(np.dtype(np.float64)).dense()
            found = pursue(Z, observed, step, 1.0, self.tol, self.max_iter, by_row=True)
            residual = Z - found.low_rank - found.noise
            noise = found.noise
            if observed is not None:
                noise, residual = noise * observed, residual * observed
            floats = (found.low_rank, noise, residual, found.low_rank @ V)
            parts.append((*(part.astype(samples.dtype, copy=False) for part in floats), found.converged))
        whole = Decomposition(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        if not whole.converged.all():
            self._warn_of_max_iter("decompose", 3)
        return unfold(whole, X)

    def transform(self, X: ArrayLike) -> Array:
        """Return the coefficients of samples in ``components_``.

        They are computed by least absolute deviations, see :meth:`decompose`, and are therefore robust to
        gross errors and defined for samples with missing entries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        coefficients : ndarray of shape (n_samples, n_components)
            Coefficients, one sample per row. Multiplied by ``components_`` they give the low-rank part.

        See Also
        --------
        inverse_transform : Return the low-rank samples with given coefficients.
        """
        return self.decompose(X).coefficients

    @property
    def n_components_(self) -> int:
        """Rank of the low-rank part."""
        return len(self.components_)

    def _check_parameters(self) -> None:
        check_number(self, "lambda2", Number(Real, excluded=True, alternatives=("auto",)))
        check_weight(self, "lambda2")
        check_number(self, "tol", Number(Real, excluded=True))
        check_number(self, "max_iter", Number(Integral, 1))

    def _warn_of_max_iter(self, method: str, stacklevel: int) -> None:
        warnings.warn(
            f"{type(self).__name__}.{method} did not reach tol={self.tol} in max_iter={self.max_iter} "
            "iterations; raise max_iter, or accept the result with a larger tol",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
