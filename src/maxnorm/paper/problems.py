"""The data on which methods are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maxnorm.core.types import Array
from maxnorm.datasets import CorruptedLowRank, make_corrupted_low_rank

MAGNITUDE = 1000.0  # largest gross error in the experiments of section 6


@dataclass(frozen=True)
class Problem:
    """A data set of corrupted low-rank samples that fits in memory, with a name for reports.

    Parameters
    ----------
    name : str
        Description of the problem in tables and plots.
    rank : int
        Rank of the clean data.
    corruption : float
        Share of the entries to which a gross error is added.
    magnitude : float, default=1000.0
        Largest gross error. Clean entries are mostly below one.
    dense_noise : float, default=0.0
        Standard deviation of Gaussian noise on every entry.
    n_samples : int, default=5000
        Number of samples.
    n_features : int, default=400
        Number of features.
    """

    name: str
    rank: int
    corruption: float
    magnitude: float = MAGNITUDE
    dense_noise: float = 0.0
    n_samples: int = 5000
    n_features: int = 400

    def make(self, seed: int = 1) -> CorruptedLowRank:
        """Return the data set that belongs to a seed."""
        return make_corrupted_low_rank(
            self.n_samples,
            self.n_features,
            self.rank,
            corruption=self.corruption,
            magnitude=self.magnitude,
            dense_noise=self.dense_noise,
            random_state=seed,
        )


def random_orthonormal(rng: np.random.Generator, n_features: int, rank: int) -> Array:
    """Return a random matrix of shape (n_features, rank) with orthonormal columns.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    n_features, rank : int
        Shape of the matrix.

    Returns
    -------
    array of shape (n_features, rank)
        The Q factor of a standard normal matrix.
    """
    return np.linalg.qr(rng.standard_normal((n_features, rank)))[0]


def corrupted_stream(
    n_features: int, rank: int, n_samples: int, corruption: float, seed: int, block: int = 500
) -> tuple[Array, Iterator[Array]]:
    """Return a stream of corrupted low-rank samples, generated block by block, and its true basis.

    The data follow the protocol of section 6, as in :func:`maxnorm.datasets.make_corrupted_low_rank`, but the
    samples never have to fit in memory together.

    Parameters
    ----------
    n_features, rank, n_samples : int
        Number of features, rank of the clean data, and number of samples in the stream.
    corruption : float
        Share of the entries to which an error, uniform in [-1000, 1000], is added.
    seed : int
        Random seed.
    block : int, default=500
        Samples per block. The last block may be smaller.

    Returns
    -------
    basis : array of shape (n_features, rank)
        Orthonormal basis of the clean data.
    blocks : iterator of arrays of shape (block, n_features)
        The samples, in rows.
    """
    rng = np.random.default_rng(seed)
    basis = random_orthonormal(rng, n_features, rank)

    def generate() -> Iterator[Array]:
        for start in range(0, n_samples, block):
            shape = (min(block, n_samples - start), n_features)
            clean = rng.standard_normal((shape[0], rank)) @ basis.T
            corrupted = rng.random(shape) < corruption
            yield clean + np.where(corrupted, rng.uniform(-MAGNITUDE, MAGNITUDE, shape), 0.0)

    return basis, generate()
