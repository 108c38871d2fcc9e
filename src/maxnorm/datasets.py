"""Data as in the paper's experiments."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from maxnorm.core.types import Array


@dataclass(frozen=True)
class CorruptedLowRank:
    """Samples in rows: ``X = low_rank + noise``, with NaN in X where an entry is missing."""

    X: Array
    low_rank: Array
    noise: Array
    basis: Array  # n_features x rank, orthonormal columns that span the low-rank part


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
    """Low-rank samples with gross errors in a share of their entries: the protocol of section 6.

    Parameters
    ----------
    n_samples, n_features, rank : int
        Shape of X and rank of its clean part. Coefficients are standard normal in an orthonormal basis.
    corruption : float
        Share of the entries to which an error, uniform in ``[-magnitude, magnitude]``, is added.
    magnitude : float
        Largest error. The clean entries have a standard deviation of ``sqrt(rank / n_features)``.
    dense_noise : float
        Standard deviation of Gaussian noise on every entry.
    missing : float
        Share of the entries of X that are NaN.
    random_state : int, RandomState or None
        Seed.

    Examples
    --------
    >>> data = make_corrupted_low_rank(50, 20, 3, random_state=0)
    >>> data.X.shape, data.basis.shape
    ((50, 20), (20, 3))
    """
    for name, count, least in (("n_samples", n_samples, 1), ("n_features", n_features, 1), ("rank", rank, 1)):
        if count < least:
            raise ValueError(f"{name} must be at least {least}, got {count}")
    if rank > n_features:
        raise ValueError(f"rank must be at most n_features = {n_features}, got {rank}")
    for name, share in (("corruption", corruption), ("missing", missing)):
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} is a share of the entries, between 0 and 1, got {share}")
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
