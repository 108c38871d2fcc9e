"""Generated data with a known low-rank part, for experiments and tests."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from maxnorm.core.types import Array

__all__ = ["CorruptedLowRank", "make_corrupted_low_rank"]


@dataclass(frozen=True)
class CorruptedLowRank:
    """Data set whose low-rank part and noise are known.

    The samples are rows, and ``X = low_rank + noise`` wherever X is not missing.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Observed samples. NaN marks a missing entry.
    low_rank : ndarray of shape (n_samples, n_features)
        Clean low-rank part, which is known for missing entries as well.
    noise : ndarray of shape (n_samples, n_features)
        Gross errors plus dense noise.
    basis : ndarray of shape (n_features, rank)
        Orthonormal basis of the low-rank part, one vector per column.

    See Also
    --------
    make_corrupted_low_rank : Generate such a data set.

    Examples
    --------
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(50, 20, 3, random_state=0)
    >>> data.X.shape, data.basis.shape
    ((50, 20), (20, 3))
    >>> bool((data.X == data.low_rank + data.noise).all())
    True
    """

    X: Array
    low_rank: Array
    noise: Array
    basis: Array


def make_corrupted_low_rank(
    n_samples: int = 1000,
    n_features: int = 100,
    rank: int = 10,
    *,
    corruption: float = 0.1,
    magnitude: float = 1000.0,
    dense_noise: float = 0.0,
    missing: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
) -> CorruptedLowRank:
    """Generate low-rank samples with gross errors in some of their entries.

    The data are generated as in the experiments of [1]_, section 6: ``X = R U^T + E``, where U is a random
    orthonormal basis, the coefficients R are standard normal, and E has independent gross errors in a share
    of its entries. Dense Gaussian noise and missing entries are additions to that protocol.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of samples, which are the rows of X.
    n_features : int, default=100
        Number of features, which are the columns of X.
    rank : int, default=10
        Rank of the clean part, at most ``n_features``.
    corruption : float, default=0.1
        Probability with which a gross error is added to an entry. The error is uniformly distributed in
        ``[-magnitude, magnitude]``.
    magnitude : float, default=1000.0
        Largest gross error. For comparison, a clean entry has the standard deviation
        ``sqrt(rank / n_features)``.
    dense_noise : float, default=0.0
        Standard deviation of the Gaussian noise that is added to all entries.
    missing : float, default=0.0
        Probability with which an entry of X is missing, that is, NaN.
    random_state : int, RandomState instance or None, default=None
        Seed or random number generator. Pass an int for the same data in every call.

    Returns
    -------
    data : CorruptedLowRank
        Record with the arrays ``X``, ``low_rank``, ``noise`` and ``basis``.

    Raises
    ------
    ValueError
        If a size is below one, the rank is larger than the number of features, or a probability is not
        between 0 and 1.

    See Also
    --------
    maxnorm.metrics.expressed_variance : Compare a learnt basis with ``data.basis``.
    maxnorm.metrics.relative_error : Compare a reconstruction with ``data.low_rank``.

    Notes
    -----
    Four arrays of the shape of X are allocated.

    References
    ----------
    .. [1] J. Shen, H. Xu, P. Li. Online optimization for large-scale max-norm regularization. Machine
       Learning 106, 2017.

    Examples
    --------
    A tenth of the entries has a gross error, and a fifth is missing:

    >>> import numpy as np
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(200, 50, 3, corruption=0.1, missing=0.2, random_state=0)
    >>> data.X.shape, int(np.linalg.matrix_rank(data.low_rank))
    ((200, 50), 3)
    >>> round(float(np.mean(data.noise != 0)), 1), round(float(np.mean(np.isnan(data.X))), 1)
    (0.1, 0.2)
    """
    for name, count in (("n_samples", n_samples), ("n_features", n_features), ("rank", rank)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    if rank > n_features:
        raise ValueError(f"rank must be at most n_features={n_features}, got {rank}")
    for name, share in (("corruption", corruption), ("missing", missing)):
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} must be a share of the entries between 0 and 1, got {share}")
    rng = check_random_state(random_state)
    basis = np.linalg.qr(rng.standard_normal((n_features, rank)))[0]
    low_rank = rng.standard_normal((n_samples, rank)) @ basis.T
    shape = low_rank.shape
    corrupted = rng.random_sample(shape) < corruption
    noise = np.where(corrupted, rng.uniform(-magnitude, magnitude, shape), 0.0)
    if dense_noise:
        noise += dense_noise * rng.standard_normal(shape)
    X = low_rank + noise
    if missing:
        X[rng.random_sample(shape) < missing] = np.nan
    return CorruptedLowRank(X=X, low_rank=low_rank, noise=noise, basis=basis)
