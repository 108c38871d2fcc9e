"""How good a basis or a recovery is."""

import warnings

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from maxnorm.core.linalg import row_norms
from maxnorm.core.types import Array


def orthonormal_basis(L: ArrayLike) -> Array:
    """Orthonormal columns that span the columns of L; fewer of them if L is rank deficient.

    Columns are brought to unit norm first, so that their scaling does not decide on the rank.
    """
    L64 = np.asarray(L, dtype=np.float64)
    if L64.ndim != 2:
        raise ValueError(f"a basis must be a 2-D array with one column a vector, got {L64.ndim} dimension(s)")
    if not np.isfinite(L64).all():
        raise ValueError("a basis must be finite, got NaN or infinity")
    sizes = np.abs(L64).max(axis=0, initial=0.0)
    L64 = L64[:, sizes > 0] / sizes[sizes > 0]
    L64 = L64 / row_norms(L64.T)
    U, sigma, _ = np.linalg.svd(L64, full_matrices=False)
    keep = sigma > max(L64.shape) * np.finfo(np.float64).eps * sigma.max(initial=0.0)
    return U[:, keep]


def expressed_variance(U: ArrayLike, L: ArrayLike) -> float:
    """Share of the variance in the span of U that the span of L expresses, Eq. (6.1).

    Both hold basis vectors as columns (an estimator's ``components_.T``), in any scaling. 1 means that
    the true subspace is recovered, 0 that it is missed altogether. The paper's formula needs an
    orthonormal L; the columns of both are orthonormalised here.

    Examples
    --------
    >>> import numpy as np
    >>> expressed_variance(np.eye(3)[:, :2], 7 * np.eye(3)[:, 1:])
    0.5
    """
    true, learnt = orthonormal_basis(U), orthonormal_basis(L)
    if true.shape[0] != learnt.shape[0]:
        raise ValueError(
            f"U has {true.shape[0]} rows and L has {learnt.shape[0]}; both need one row a feature "
            "(pass components_.T)"
        )
    if not true.shape[1]:
        raise ValueError("U is zero: there is no subspace to express")
    return min(1.0, float(np.sum((true.T @ learnt) ** 2)) / true.shape[1])


def subspace_distance(U: ArrayLike, L: ArrayLike) -> float:
    """Sine of the largest angle from the span of U to the span of L; 0 if U lies in L."""
    true, learnt = orthonormal_basis(U), orthonormal_basis(L)
    missed = true - learnt @ (learnt.T @ true)
    return min(1.0, float(np.linalg.norm(missed, ord=2))) if true.size else 0.0


def relative_error(X: ArrayLike, estimate: ArrayLike) -> float:
    """Frobenius norm of the error, relative to that of X."""
    X64, estimate64 = np.asarray(X, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    error = float(np.linalg.norm(X64 - estimate64))
    return error / size if (size := float(np.linalg.norm(X64))) else error


def max_norm_bounds(X: ArrayLike, *, tol: float = 1e-4, max_iter: int = 2000) -> tuple[float, float]:
    """Lower and upper bound of the max-norm, which lie within ``tol`` of each other unless rounds run out.

    The max-norm is the smallest ``max_i norm(u_i) * max_j norm(v_j)`` over factorisations ``X = U V^T``. By
    semidefinite duality it is also the largest nuclear norm of ``diag(a)^1/2 X diag(b)^1/2`` over weights
    a and b that sum to one, which is concave in (a, b). The singular vectors of that matrix give a
    factorisation, whose row norms say which weights to raise. Every round certifies both sides.

    Cost: a singular value decomposition a round, some ten to two hundred rounds.
    """
    X64 = np.asarray(X, dtype=np.float64)
    if X64.ndim != 2 or not X64.size:
        raise ValueError(f"X must be a matrix with entries, got shape {X64.shape}")
    if not np.isfinite(X64).all():
        raise ValueError("X must be finite, got NaN or infinity")
    size = float(np.abs(X64).max())
    if not size:
        return 0.0, 0.0
    X64 = X64 / size
    a, b = (np.full(n, 1.0 / n) for n in X64.shape)
    lower, upper = 0.0, np.inf
    for _ in range(max_iter):
        left, right = np.sqrt(a), np.sqrt(b)
        P, sigma, Qt = np.linalg.svd(left[:, None] * X64 * right, full_matrices=False)
        keep = sigma > 1e-12 * sigma[0]
        P, root, Q = P[:, keep], np.sqrt(sigma[keep]), Qt[keep].T
        U, V = X64 @ (right[:, None] * Q / root), X64.T @ (left[:, None] * P / root)
        u, v = np.sum(U * U, axis=1), np.sum(V * V, axis=1)
        lower = max(lower, float(sigma.sum()))
        if np.abs(U @ V.T - X64).max() <= 1e-9:  # a factorisation, up to rounding errors
            upper = min(upper, float(np.sqrt(u.max() * v.max())))
        if upper - lower <= tol * lower:
            break
        a, b = _raised(a, u, tol), _raised(b, v, tol)
    return size * min(lower, upper), size * upper


def _raised(weights: Array, squares: Array, tol: float) -> Array:
    """Return weights raised where rows are long; none vanishes, or the factorisation would lose its row."""
    raised = weights * squares**2
    return (1.0 - 0.1 * tol) * raised / raised.sum() + 0.1 * tol / len(weights)


def max_norm(X: ArrayLike, *, tol: float = 1e-4, max_iter: int = 2000) -> float:
    """Max-norm of a matrix: an upper bound that is at most ``tol`` too large, see :func:`max_norm_bounds`.

    Examples
    --------
    >>> import numpy as np
    >>> round(max_norm(np.array([[1.0, 1.0], [1.0, -1.0]])), 6)
    1.414214
    """
    lower, upper = max_norm_bounds(X, tol=tol, max_iter=max_iter)
    if upper - lower > tol * lower:
        warnings.warn(
            f"the max-norm is only known to lie between {lower:.6g} and {upper:.6g}; "
            f"raise max_iter={max_iter}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return upper
