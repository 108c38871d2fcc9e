"""Measures of the quality of a basis or of a reconstruction, and the max-norm of a matrix."""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from maxnorm.core.linalg import row_norms
from maxnorm.core.types import Array

__all__ = [
    "expressed_variance",
    "max_norm",
    "max_norm_bounds",
    "orthonormal_basis",
    "relative_error",
    "subspace_distance",
]


class BoundRule(NamedTuple):
    """Constants of :func:`max_norm_bounds`, which refer to a matrix whose largest magnitude is one.

    Attributes
    ----------
    least_singular_value : float
        Singular values below this fraction of the largest one are rounding errors and are left out.
    largest_error : float
        A pair of factors counts as a factorisation, and gives an upper bound, if no entry of its product
        deviates by more. This is far above rounding errors and far below any reasonable ``tol``.
    uniform_share : float
        Share of ``tol`` that is distributed uniformly over the weights. A weight of zero would remove its
        row from the problem for good. The uniform part lowers the best lower bound by at most this share of
        ``tol``, which leaves the rest of ``tol`` to the optimisation.
    """

    least_singular_value: float = 1e-12
    largest_error: float = 1e-9
    uniform_share: float = 0.1


BOUNDS = BoundRule()


def orthonormal_basis(L: ArrayLike) -> Array:
    """Return an orthonormal basis of the column space of L.

    The columns are scaled to unit norm before the rank is determined, so that it does not depend on
    their scale.

    Parameters
    ----------
    L : array-like of shape (n_features, n_vectors)
        Vectors that span the subspace, one per column. They may be linearly dependent or zero.

    Returns
    -------
    basis : ndarray of shape (n_features, rank)
        Matrix with orthonormal columns, in double precision. Its number of columns is the numerical rank
        of L.

    Raises
    ------
    ValueError
        If L is not two-dimensional or has entries that are not finite.

    See Also
    --------
    expressed_variance : Compare two subspaces on average over their dimensions.
    subspace_distance : Compare two subspaces by their largest angle.

    Notes
    -----
    The cost is that of a singular value decomposition of L.

    Examples
    --------
    The third vector is the sum of the first two and does not add a dimension:

    >>> import numpy as np
    >>> from maxnorm.metrics import orthonormal_basis
    >>> basis = orthonormal_basis([[1, 0, 1], [0, 5, 5], [0, 0, 0]])
    >>> basis.shape
    (3, 2)
    >>> bool(np.allclose(basis.T @ basis, np.eye(2)))
    True
    """
    L64 = np.asarray(L, dtype=np.float64)
    if L64.ndim != 2:
        raise ValueError(
            "a basis must be a 2-D array of shape (n_features, n_vectors), "
            f"got {L64.ndim} dimension(s); reshape a single vector by v[:, None]"
        )
    if not np.isfinite(L64).all():
        raise ValueError("a basis must be finite, got NaN or infinity; remove the vectors that contain them")
    # Columns are divided by their largest magnitude first, so that no square overflows or underflows.
    largest = np.abs(L64).max(axis=0, initial=0.0)
    L64 = L64[:, largest > 0] / largest[largest > 0]
    L64 = L64 / row_norms(L64.T)
    U, sigma, _ = np.linalg.svd(L64, full_matrices=False)
    keep = sigma > max(L64.shape) * np.finfo(np.float64).eps * sigma.max(initial=0.0)
    return U[:, keep]


def expressed_variance(U: ArrayLike, L: ArrayLike) -> float:
    """Return the share of the variance in the true subspace that a learnt subspace expresses.

    For orthonormal U and L with d columns in U, the expressed variance is ::

        trace(L^T U U^T L) / d

    It is 1 if the column space of L contains that of U, and 0 if the two are orthogonal. It is the average
    of the squared cosines of the principal angles between the subspaces, if these have the same dimension.

    Parameters
    ----------
    U : array-like of shape (n_features, rank)
        Basis of the true subspace, one vector per column.
    L : array-like of shape (n_features, n_components)
        Basis of the learnt subspace, one vector per column. For a fitted estimator this is
        ``components_.T``.

    Returns
    -------
    share : float
        Expressed variance, between 0 and 1.

    Raises
    ------
    ValueError
        If U and L have different numbers of rows, if U is zero, or if one of them is not a finite
        two-dimensional array.

    See Also
    --------
    subspace_distance : The sine of the largest angle, which is sensitive to a single missed direction.
    relative_error : The error of a reconstruction instead of a basis.

    Notes
    -----
    This is Eq. (6.1) of [1]_, which is stated for an orthonormal L. Here U and L are orthonormalised first,
    so that their scale and the choice of basis vectors do not matter. The cost is that of a singular value
    decomposition of each.

    References
    ----------
    .. [1] J. Shen, H. Xu, P. Li. Online optimization for large-scale max-norm regularization. Machine
       Learning 106, 2017.

    Examples
    --------
    The true subspace is spanned by the first two axes. The learnt one contains only one of them:

    >>> import numpy as np
    >>> from maxnorm.metrics import expressed_variance
    >>> axes = np.eye(3)
    >>> expressed_variance(axes[:, [0, 1]], 7 * axes[:, [1, 2]])
    0.5

    Compare the components of a fitted model with the basis from which the data were generated:

    >>> from maxnorm import OnlineRobustPCA
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(500, 50, 3, corruption=0.1, random_state=0)
    >>> model = OnlineRobustPCA(n_components=3, random_state=0).fit(data.X)
    >>> expressed_variance(data.basis, model.components_.T) > 0.99
    True
    """
    true, learnt = orthonormal_basis(U), orthonormal_basis(L)
    if true.shape[0] != learnt.shape[0]:
        raise ValueError(
            f"U has {true.shape[0]} rows and L has {learnt.shape[0]}; both need one row per feature "
            "(for an estimator, pass components_.T)"
        )
    if not true.shape[1]:
        raise ValueError("U is zero and spans no subspace; pass at least one non-zero column")
    return min(1.0, float(np.sum((true.T @ learnt) ** 2)) / true.shape[1])


def subspace_distance(U: ArrayLike, L: ArrayLike) -> float:
    """Return the sine of the largest angle between a vector of the true subspace and a learnt subspace.

    For orthonormal U and L this is the spectral norm of ``U - L L^T U``. It is 0 if the column space of L
    contains that of U, and 1 if some vector of the true subspace is orthogonal to L.

    Parameters
    ----------
    U : array-like of shape (n_features, rank)
        Basis of the true subspace, one vector per column.
    L : array-like of shape (n_features, n_components)
        Basis of the learnt subspace, one vector per column. For a fitted estimator this is
        ``components_.T``.

    Returns
    -------
    distance : float
        Sine of the largest principal angle, between 0 and 1. It is 0 if U is zero.

    Raises
    ------
    ValueError
        If U or L is not a finite two-dimensional array.

    See Also
    --------
    expressed_variance : The average over the dimensions of the true subspace instead of the worst case.

    Notes
    -----
    U and L are orthonormalised first, so that their scale and the choice of basis vectors do not matter. The
    distance is not symmetric: extra vectors in L do not increase it. The cost is that of a singular value
    decomposition of each.

    Examples
    --------
    One of the two axes of the true subspace is missed by an angle of 0.1, the other not at all:

    >>> import numpy as np
    >>> from maxnorm.metrics import subspace_distance
    >>> true = np.eye(3)[:, :2]
    >>> learnt = [[1, 0], [0, np.cos(0.1)], [0, np.sin(0.1)]]
    >>> round(float(np.arcsin(subspace_distance(true, learnt))), 6)
    0.1
    """
    true, learnt = orthonormal_basis(U), orthonormal_basis(L)
    missed = true - learnt @ (learnt.T @ true)
    return min(1.0, float(np.linalg.norm(missed, ord=2))) if true.size else 0.0


def relative_error(X: ArrayLike, estimate: ArrayLike) -> float:
    """Return the relative error of an estimate of a matrix in the Frobenius norm.

    The error is ``norm(X - estimate) / norm(X)``. If X is zero, it is the absolute error
    ``norm(estimate)``.

    Parameters
    ----------
    X : array-like
        True values, for example the ``low_rank`` part of a generated data set.
    estimate : array-like
        Estimated values, in the shape of X.

    Returns
    -------
    error : float
        Relative error: 0 for a perfect estimate, 1 for an estimate of zeros.

    See Also
    --------
    expressed_variance : The quality of a basis instead of a reconstruction.

    Notes
    -----
    The cost is O(size of X), with temporary copies in double precision.

    Examples
    --------
    The true matrix has the norm 5, and one entry is wrong by 0.5:

    >>> from maxnorm.metrics import relative_error
    >>> relative_error([[3.0, 4.0]], [[3.0, 4.5]])
    0.1
    """
    X64, estimate64 = np.asarray(X, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    error = float(np.linalg.norm(X64 - estimate64))
    return error / norm if (norm := float(np.linalg.norm(X64))) else error


def max_norm_bounds(X: ArrayLike, *, tol: float = 1e-4, max_iter: int = 2000) -> tuple[float, float]:
    """Return a lower and an upper bound of the max-norm of a matrix.

    The max-norm of X is the minimum over all factorisations ``X = U V^T`` of ::

        max_i norm(u_i) * max_j norm(v_j)

    where ``u_i`` and ``v_j`` are the rows of U and V. Like the nuclear norm it is a convex surrogate of the
    rank [1]_. The nuclear norm limits the row norms of the factors on average, the max-norm their maximum.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Matrix without missing entries.
    tol : float, default=1e-4
        Largest relative difference between the two bounds at which the iteration stops.
    max_iter : int, default=2000
        Largest number of iterations. If they do not suffice, the bounds are valid but farther apart than
        ``tol``, and no warning is given.

    Returns
    -------
    lower : float
        Lower bound of the max-norm.
    upper : float
        Upper bound of the max-norm. It is infinite if ``max_iter`` iterations found no factorisation that
        is accurate up to rounding errors.

    Raises
    ------
    ValueError
        If X is not two-dimensional, is empty, or has entries that are not finite.

    See Also
    --------
    max_norm : The upper bound alone, with a warning if it is not accurate.

    Notes
    -----
    By semidefinite duality [2]_ the max-norm is also the largest nuclear norm of
    ``diag(a)^(1/2) X diag(b)^(1/2)`` over non-negative weights a and b that sum to one each, and this
    function is concave in (a, b). Every choice of weights gives a lower bound. The singular vectors of the
    weighted matrix give a factorisation of X, and with it an upper bound. The squared row norms of
    the factors are, up to a constant, the gradient with respect to the weights, which are increased where
    the rows are long. At the optimum all rows of positive weight have equal norms.

    An iteration costs a singular value decomposition of X. Between ten and two hundred iterations are
    typical.

    References
    ----------
    .. [1] N. Srebro, A. Shraibman. Rank, trace-norm and max-norm. Conference on Learning Theory, 2005.
    .. [2] T. Lee, A. Shraibman, R. Spalek. A direct product theorem for discrepancy. IEEE Conference on
       Computational Complexity, 2008.

    Examples
    --------
    The max-norm of an identity matrix is 1, whatever its size; its nuclear norm is the size:

    >>> import numpy as np
    >>> from maxnorm.metrics import max_norm_bounds
    >>> lower, upper = max_norm_bounds(np.eye(5))
    >>> bool(lower <= 1 + 1e-9 and 1 - 1e-9 <= upper <= 1 + 1e-4)
    True
    """
    X64 = np.asarray(X, dtype=np.float64)
    if X64.ndim != 2 or not X64.size:
        raise ValueError(f"X must be a matrix with at least one row and one column, got shape {X64.shape}")
    if not np.isfinite(X64).all():
        raise ValueError("X must be finite, got NaN or infinity; replace missing entries first")
    largest = float(np.abs(X64).max())
    if not largest:
        return 0.0, 0.0
    X64 = X64 / largest
    a, b = (np.full(n, 1.0 / n) for n in X64.shape)
    lower, upper = 0.0, np.inf
    for _ in range(max_iter):
        left, right = np.sqrt(a), np.sqrt(b)
        P, sigma, Qt = np.linalg.svd(left[:, None] * X64 * right, full_matrices=False)
        keep = sigma > BOUNDS.least_singular_value * sigma[0]
        P, root, Q = P[:, keep], np.sqrt(sigma[keep]), Qt[keep].T
        U, V = X64 @ (right[:, None] * Q / root), X64.T @ (left[:, None] * P / root)
        u, v = np.sum(U * U, axis=1), np.sum(V * V, axis=1)
        lower = max(lower, float(sigma.sum()))
        if np.abs(U @ V.T - X64).max() <= BOUNDS.largest_error:
            upper = min(upper, float(np.sqrt(u.max() * v.max())))
        if upper - lower <= tol * lower:
            break
        a, b = _increase_weights(a, u, tol), _increase_weights(b, v, tol)
    # Rounding errors may put the lower bound above the upper one.
    return largest * min(lower, upper), largest * upper


def _increase_weights(weights: Array, squared_norms: Array, tol: float) -> Array:
    """Return weights that sum to one, increased for rows of large norm and decreased for the others.

    Weights are multiplied by the square of the gradient, which changes nothing at the optimum, and mixed with
    uniform weights, so that none of them vanishes.
    """
    increased = weights * squared_norms**2
    uniform = BOUNDS.uniform_share * tol
    return (1.0 - uniform) * increased / increased.sum() + uniform / len(weights)


def max_norm(X: ArrayLike, *, tol: float = 1e-4, max_iter: int = 2000) -> float:
    """Return the max-norm of a matrix.

    The max-norm of X is the minimum of ``max_i norm(u_i) * max_j norm(v_j)`` over all factorisations
    ``X = U V^T`` with rows ``u_i`` and ``v_j``. The value is an upper bound that is attained by a
    factorisation, and exceeds the max-norm by at most the fraction ``tol``.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Matrix without missing entries.
    tol : float, default=1e-4
        Relative accuracy.
    max_iter : int, default=2000
        Largest number of iterations, each of which costs a singular value decomposition of X.

    Returns
    -------
    norm : float
        The max-norm.

    Raises
    ------
    ValueError
        If X is not two-dimensional, is empty, or has entries that are not finite.

    Warns
    -----
    ConvergenceWarning
        If the accuracy is not reached in ``max_iter`` iterations.

    See Also
    --------
    max_norm_bounds : The algorithm, and a lower bound as well.

    Examples
    --------
    Two rows of signs that are orthogonal to each other have a larger max-norm than two equal rows, although
    all entries have the magnitude 1:

    >>> from maxnorm.metrics import max_norm
    >>> round(max_norm([[1, 1], [1, -1]]), 6)
    1.414214
    >>> round(max_norm([[1, 1], [1, 1]]), 6)
    1.0
    """
    lower, upper = max_norm_bounds(X, tol=tol, max_iter=max_iter)
    if upper - lower > tol * lower:
        warnings.warn(
            f"max_norm did not reach tol={tol}: the value lies between {lower:.6g} and {upper:.6g}; "
            f"raise max_iter={max_iter}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return upper
