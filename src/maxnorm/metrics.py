"""How good a basis or a recovery is."""

import numpy as np
from numpy.typing import ArrayLike

from maxnorm._linalg import row_norms
from maxnorm._typing import Array


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
