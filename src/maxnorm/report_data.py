"""What pictures and reports show of samples, gathered block by block in memory that does not grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from maxnorm.core.types import Array
from maxnorm.streams import Stream, open_stream

MOST_ENTRIES = 2**21  # entries of a map, so that the number of its bins falls with the number of features


class Block(NamedTuple):
    """Samples and their parts."""

    first: int  #: position of the first sample
    values: Array  #: the samples, NaN where they are missing
    low_rank: Array
    noise: Array

    def worst(self, deviations: Array) -> tuple[int, float]:
        """Return the position of the sample with the largest gross errors, and the sum of its deviations."""
        totals = np.abs(self.noise / deviations).sum(axis=1)
        row = int(np.argmax(totals))
        return self.first + row, float(totals[row])


def as_stream(X: Any) -> Stream:
    """Return samples as a stream of rows; images and other arrays are folded into rows."""
    if isinstance(X, str) or hasattr(X, "__fspath__"):
        raise TypeError(f"X is the path {str(X)!r}; to read a file, pass maxnorm.open_stream({str(X)!r})")
    if isinstance(X, list | tuple):
        X = np.asarray(X, dtype=np.float64)
    if isinstance(X, np.ndarray) and X.ndim > 2:
        X = X.reshape(len(X), -1)
    return open_stream(X)


def feature_shape_of(X: Any) -> tuple[int, ...] | None:
    """Return the shape of a sample if X is an array of images; None if samples are rows of a table."""
    return X.shape[1:] if isinstance(X, np.ndarray) and X.ndim > 2 else None


def decompose_blocks(model: Any, X: Any) -> Iterator[Block]:
    """Yield the samples of X with their parts, one batch after the other.

    Parameters
    ----------
    model : estimator
        A fitted decomposition, completion or anomaly detector.
    X : array, data frame, sparse matrix, Dask collection or Stream
        The samples.

    Yields
    ------
    Block
        The samples of a batch.
    """
    stream, first = as_stream(X), 0
    keeps_sparse = bool(getattr(model, "_keeps_sparse", False))
    for batch in stream.ahead():
        values = dense_values(batch, keeps_sparse)
        if hasattr(model, "deviations"):
            yield anomalous_entries(model, first, values)
            first += len(values)
            continue
        # Only the online estimators read streams, which name the rows of the source in messages.
        is_online = hasattr(model, "partial_fit")
        parts = model.decompose(stream.piece(batch, first) if is_online else values)
        yield Block(first, values, np.asarray(parts.low_rank), np.asarray(parts.noise))
        first += len(values)
    if not first:
        raise ValueError(f"X has no samples ({stream.title}); pass at least one row")


def anomalous_entries(detector: Any, first: int, values: Array) -> Block:
    """Return samples with what an anomaly detector expects, and what its anomalous entries are off."""
    found = detector.deviations(values)
    is_anomalous = np.nan_to_num(np.abs(found.deviation)) > detector.deviation_limit_
    return Block(first, values, found.expected, np.where(is_anomalous, values - found.expected, 0.0))


def dense_values(batch: Any, keeps_sparse: bool) -> Array:
    """Return a batch as an array of floats with NaN for missing entries.

    Entries that a sparse matrix does not store are missing if ``keeps_sparse``, and zero otherwise.
    """
    if not sp.issparse(batch):
        array = np.asarray(batch)
        return array if array.dtype.kind == "f" else array.astype(np.float64)
    entries = sp.coo_array(batch)
    values = np.full(entries.shape, np.nan if keeps_sparse else 0.0)
    values[entries.coords] = entries.data
    return values


def feature_names(model: Any) -> list[str]:
    """Return the names of the features, which are their positions if they have none."""
    names = getattr(model, "feature_names_in_", None)
    return [str(name) for name in (range(model.n_features_in_) if names is None else names)]


def model_deviations(model: Any) -> Array | None:
    """Return the standard deviation of each feature without gross errors; None if the model has none."""
    if not hasattr(model, "noise_variance_"):
        return None
    variance = model.explained_variance_ @ model.components_.astype(np.float64) ** 2 + model.noise_variance_
    return np.sqrt(np.asarray(variance, dtype=np.float64))


class NoiseMap:
    """The gross errors of a stream of samples, in bins of successive samples.

    A bin has one sample at first. Whenever there are too many bins, each two of them are joined, so that any
    number of samples fits into bounded memory.

    Parameters
    ----------
    n_features : int
        Number of features.
    most_bins : int
        Largest number of bins, which is reduced if there are many features.
    """

    def __init__(self, n_features: int, most_bins: int) -> None:
        self.most_bins = max(2, min(most_bins, MOST_ENTRIES // n_features))
        self.rows_per_bin = 1
        self.n_samples = 0
        self._largest = np.full((2 * self.most_bins, n_features), np.nan)  # of an empty bin: NaN
        self._wrong = np.zeros((2 * self.most_bins, n_features))
        self.n_wrong = np.zeros(n_features)
        self.n_missing = np.zeros(n_features)
        self._sum, self._squares = np.zeros(n_features), np.zeros(n_features)
        self._origin: Array | None = None

    def add(self, block: Block) -> None:
        """Add the next samples."""
        missing = np.isnan(block.values)
        noise = np.where(missing, np.nan, block.noise)
        clean = np.where(missing, 0.0, block.values - block.noise)
        if self._origin is None:  # subtracted so that squares do not cancel
            self._origin = clean[0].copy()
        clean = np.where(missing, 0.0, clean - self._origin)
        self._sum += clean.sum(axis=0)
        self._squares += (clean**2).sum(axis=0)
        self.n_wrong += (np.nan_to_num(noise) != 0.0).sum(axis=0)
        self.n_missing += missing.sum(axis=0)
        while self.n_samples + len(noise) > 2 * self.most_bins * self.rows_per_bin:
            self._halve()
        bins = np.arange(self.n_samples, self.n_samples + len(noise)) // self.rows_per_bin
        starts = np.flatnonzero(np.diff(bins, prepend=-1))
        used = bins[starts]
        high, low = np.fmax.reduceat(noise, starts), np.fmin.reduceat(noise, starts)
        self._largest[used] = _larger(self._largest[used], _larger(high, low))
        self._wrong[used] += np.add.reduceat((np.nan_to_num(noise) != 0.0).astype(float), starts)
        self.n_samples += len(noise)

    def _halve(self) -> None:
        """Join each two successive bins."""
        half = self.most_bins
        self._largest[:half] = _larger(self._largest[0::2], self._largest[1::2])
        self._wrong[:half] = self._wrong[0::2] + self._wrong[1::2]
        self._largest[half:], self._wrong[half:] = np.nan, 0.0
        self.rows_per_bin *= 2

    @property
    def n_bins(self) -> int:
        """Number of bins that have samples."""
        return -(-self.n_samples // self.rows_per_bin)

    @property
    def largest(self) -> Array:
        """The largest gross error of each feature in each bin; NaN if all of its entries are missing."""
        return self._largest[: self.n_bins]

    @property
    def shares(self) -> Array:
        """Share of the samples of each bin in which the entry of the feature is a gross error."""
        rows = np.full((self.n_bins, 1), float(self.rows_per_bin))
        rows[-1] = self.n_samples - (self.n_bins - 1) * self.rows_per_bin
        return self._wrong[: self.n_bins] / rows

    @property
    def deviations(self) -> Array:
        """Standard deviation of each feature of the samples without gross errors; one where it is zero."""
        n = np.maximum(self.n_samples - self.n_missing, 1.0)
        variance = np.maximum(self._squares / n - (self._sum / n) ** 2, 0.0)
        return np.sqrt(np.where(variance > 0.0, variance, 1.0))


def _larger(first: Array, second: Array) -> Array:
    """Return the entries of larger magnitude; NaN where both are NaN."""
    is_second = np.isnan(first) | (np.abs(second) > np.abs(first))
    return np.where(is_second, second, first)
