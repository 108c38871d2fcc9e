"""What pictures and reports show of samples, gathered block by block in memory that does not grow."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from maxnorm.core.noise import CappedL1
from maxnorm.core.types import Array
from maxnorm.estimators.validation import BatchReader, check_features
from maxnorm.streams import Stream, open_stream

MOST_ENTRIES = 2**21  # entries of a map, so that the number of its bins falls with the number of features
FIRST_ROWS, FIRST_ENTRIES = 1000, 2**20  # samples, or entries, from which units are measured
FEW_DEVIATIONS = 5.0  # of the usual difference from the low-rank part, beyond which an error is gross
NEGLIGIBLE_ERROR = 1e-3  # standard deviations of a feature
NEGLIGIBLE_DEVIATION = 1e-9  # of the magnitude of a feature, which is constant but for rounding
NORMAL = 1.4826  # standard deviation of normal numbers, over the median of their magnitudes


class Block(NamedTuple):
    """Samples and their parts."""

    first: int  #: position of the first sample
    values: Array  #: the samples, NaN where they are missing
    low_rank: Array
    noise: Array
    n_unfinished: int = 0  #: number of samples for which the solver did not converge
    deviation: Array | None = None  #: of an anomaly detector: what entries are off, in standard deviations
    scores: Array | None = None  #: of an anomaly detector: the score of each sample

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
    decompose = DetectorBlocks(model) if hasattr(model, "deviations") else decompose_batch
    for batch in stream.ahead():
        check_features(model, stream.names, batch.shape[1], stream.title)
        with warnings.catch_warnings():
            # The names have been checked above, but some models are given arrays without names.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            block = decompose(model, stream, batch, first)
        yield block
        first += len(block.values)
    if not first:
        raise ValueError(f"X has no samples ({stream.title}); pass at least one row")


def decompose_batch(model: Any, stream: Stream, batch: Any, first: int) -> Block:
    """Return a batch of a stream with the parts that a decomposition or completion finds."""
    values = dense_values(batch, bool(getattr(model, "_keeps_sparse", False)))
    # Only the online estimators read streams, which name the rows of the source in messages.
    is_online = hasattr(model, "partial_fit")
    parts = model.decompose(stream.piece(batch, first) if is_online else values)
    n_unfinished = int((~np.asarray(parts.converged)).sum())
    return Block(first, values, np.asarray(parts.low_rank), np.asarray(parts.noise), n_unfinished)


class DetectorBlocks:
    """Batches with what an anomaly detector expects, and what its anomalous entries are off.

    A detector with ``lags`` sees each row together with the rows before it, so that the last rows of a batch
    are kept for the next one.

    Parameters
    ----------
    detector : AnomalyDetector
        The fitted detector.
    """

    def __init__(self, detector: Any) -> None:
        self.before = np.empty((0, detector.n_features_in_))

    def __call__(self, detector: Any, stream: Stream, batch: Any, first: int) -> Block:
        """Return the block of the next batch."""
        values, n_before = dense_values(batch, keeps_sparse=False), len(self.before)
        rows = np.concatenate([self.before, values])
        self.before = rows[len(rows) - min(detector.lags, len(rows)) :]
        expected, deviation = (part[n_before:] for part in detector.deviations(rows)[:2])
        is_anomalous = np.nan_to_num(np.abs(deviation)) > detector.deviation_limit_
        noise = np.where(is_anomalous, values - expected, 0.0)
        scores = detector.score_samples(rows)[n_before:]
        return Block(first, values, expected, noise, deviation=deviation, scores=scores)


def dense_values(batch: Any, keeps_sparse: bool) -> Array:
    """Return a batch as an array of floats with NaN for missing entries.

    Entries that a sparse matrix does not store are missing if ``keeps_sparse``, and zero otherwise.
    """
    if not sp.issparse(batch):
        array = np.asarray(batch)
        return array if array.dtype.kind == "f" else array.astype(np.float64)
    values, observed = BatchReader(keeps_sparse)(batch, 0).dense()
    return values if observed is None else np.where(observed, values, np.nan)


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


class Units(NamedTuple):
    """What the errors of each feature are compared with."""

    deviations: Array  #: standard deviation of each feature without gross errors
    limits: Array  #: magnitude beyond which the noise of an entry is a gross error


def measure_units(model: Any, blocks: Sequence[Block]) -> Units:
    """Return the units of the features, as far as the model does not know them from some samples.

    A noise model that rejects entries, and a detector, leave zero for all other entries. The other noise
    models also absorb small residuals. Their gross errors are those beyond a few standard deviations of the
    difference between the samples and their low-rank part, as estimated from its median magnitude. A fit of
    d components may make the difference zero for d of the p entries of a sample, which the median leaves out.

    Parameters
    ----------
    model : estimator
        A fitted decomposition, completion or anomaly detector.
    blocks : sequence of Block
        The first samples.

    Returns
    -------
    Units
        One number per feature.
    """
    p = blocks[0].values.shape[1]
    seen = NoiseMap(p, 2)
    for block in blocks:
        seen.add(block)
    known = model_deviations(getattr(model, "estimator_", model))
    deviations = seen.deviations if known is None else np.where(known[:p] > 0.0, known[:p], seen.deviations)
    if rejects_entries(model):
        return Units(deviations, np.zeros(p))
    differences = np.concatenate([np.abs(block.values - block.low_rank) for block in blocks])
    differences[:, np.isnan(differences).all(axis=0)] = 0.0
    level = 0.5 + 0.5 * min(len(model.components_) / p, 1.0)
    spread = NORMAL * np.nanquantile(differences, level, axis=0)
    return Units(deviations, np.maximum(FEW_DEVIATIONS * spread, NEGLIGIBLE_ERROR * deviations))


def rejects_entries(model: Any) -> bool:
    """Return whether the noise that a model finds is zero except for gross errors."""
    noise = getattr(model, "noise", None)
    return hasattr(model, "deviations") or noise == "capped" or isinstance(noise, CappedL1)


def keep_gross_errors(model: Any, blocks: Iterable[Block]) -> Iterator[tuple[Block, Units]]:
    """Yield blocks whose noise consists of gross errors alone, and the units of the features.

    The first blocks are kept back until there are enough samples to measure the units.

    Parameters
    ----------
    model : estimator
        A fitted decomposition, completion or anomaly detector.
    blocks : iterable of Block
        The samples.

    Yields
    ------
    tuple of Block and Units
        The samples of a batch, and the units, which are the same for all.
    """
    units: Units | None = None
    waiting: list[Block] = []
    for block in blocks:
        waiting.append(block)
        n_rows = sum(len(one.values) for one in waiting)
        if units is None and (n_rows >= FIRST_ROWS or n_rows * block.values.shape[1] >= FIRST_ENTRIES):
            units = measure_units(model, waiting)
        if units is not None:
            yield from ((_gross(one, units.limits), units) for one in waiting)
            waiting = []
    if waiting:
        units = measure_units(model, waiting)
        yield from ((_gross(one, units.limits), units) for one in waiting)


def _gross(block: Block, limits: Array) -> Block:
    return block._replace(noise=np.where(np.abs(block.noise) > limits, block.noise, 0.0))


class NoiseMap:
    """The gross errors of a stream of samples, in bins of successive samples.

    A bin has one sample at first. Whenever there are too many bins, each two of them are joined, so that any
    number of samples fits into bounded memory.

    Parameters
    ----------
    n_features : int
        Number of features.
    most_bins : int
        Number of bins to which they are reduced if there are twice as many; fewer if there are many features.
    """

    def __init__(self, n_features: int, most_bins: int) -> None:
        self.most_bins = max(2, min(most_bins, MOST_ENTRIES // n_features))
        self.rows_per_bin = 1
        self.n_samples = 0
        shape = (2 * self.most_bins, n_features)
        self._largest = np.full(shape, np.nan)  # of an empty bin: NaN
        self._wrong, self._observed = np.zeros(shape), np.zeros(shape)
        self._origin: Array | None = None
        self._sum, self._squares = np.zeros(n_features), np.zeros(n_features)

    def add(self, block: Block) -> None:
        """Add the next samples."""
        missing = np.isnan(block.values)
        noise = np.where(missing, np.nan, block.noise)
        self._add_clean(np.where(missing, np.nan, block.values - block.noise))
        while self.n_samples + len(noise) > 2 * self.most_bins * self.rows_per_bin:
            self._halve()
        bins = np.arange(self.n_samples, self.n_samples + len(noise)) // self.rows_per_bin
        starts = np.flatnonzero(np.diff(bins, prepend=-1))
        used = bins[starts]
        high, low = np.fmax.reduceat(noise, starts), np.fmin.reduceat(noise, starts)
        self._largest[used] = _larger(self._largest[used], _larger(high, low))
        self._wrong[used] += np.add.reduceat((np.nan_to_num(noise) != 0.0).astype(float), starts)
        self._observed[used] += np.add.reduceat((~missing).astype(float), starts)
        self.n_samples += len(noise)

    def _add_clean(self, clean: Array) -> None:
        """Add samples without their gross errors to the sums that the deviations follow from."""
        if self._origin is None:  # subtracted so that squares do not cancel
            first = np.argmax(~np.isnan(clean), axis=0)
            self._origin = np.nan_to_num(np.take_along_axis(clean, first[None], axis=0)[0]).astype(np.float64)
        clean = np.nan_to_num(clean - self._origin)
        self._sum += clean.sum(axis=0)
        self._squares += (clean**2).sum(axis=0)

    def _halve(self) -> None:
        """Join each two successive bins."""
        half = self.most_bins
        self._largest[:half] = _larger(self._largest[0::2], self._largest[1::2])
        self._largest[half:] = np.nan
        for counts in (self._wrong, self._observed):
            counts[:half] = counts[0::2] + counts[1::2]
            counts[half:] = 0.0
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
        """Share of the observed entries of each feature in each bin that are gross errors."""
        return self._wrong[: self.n_bins] / np.maximum(self._observed[: self.n_bins], 1.0)

    @property
    def n_wrong(self) -> Array:
        """Number of gross errors of each feature."""
        return self._wrong.sum(axis=0)

    @property
    def n_observed(self) -> Array:
        """Number of observed entries of each feature."""
        return self._observed.sum(axis=0)

    @property
    def deviations(self) -> Array:
        """Standard deviation of each feature of the samples without gross errors.

        Of a feature that is constant, or observed once only, it is the magnitude, and one if that is zero.
        """
        n = np.maximum(self.n_observed, 1.0)
        mean = self._sum / n
        deviations = np.sqrt(np.maximum(self._squares / n - mean**2, 0.0))
        magnitudes = np.abs(mean if self._origin is None else mean + self._origin)
        varies = deviations > NEGLIGIBLE_DEVIATION * magnitudes
        return np.where(varies, deviations, np.where(magnitudes > 0.0, magnitudes, 1.0))


class ScoreMap:
    """The scores of a stream of samples, in bins of successive samples of which the lowest score is kept.

    Parameters
    ----------
    most_bins : int
        Number of bins to which they are reduced if there are twice as many.
    """

    def __init__(self, most_bins: int) -> None:
        self.most_bins, self.rows_per_bin, self.n_samples = most_bins, 1, 0
        self._lowest = np.full(2 * most_bins, np.inf)

    def add(self, scores: Array) -> None:
        """Add the scores of the next samples."""
        while self.n_samples + len(scores) > len(self._lowest) * self.rows_per_bin:
            self._lowest[: self.most_bins] = np.minimum(self._lowest[0::2], self._lowest[1::2])
            self._lowest[self.most_bins :] = np.inf
            self.rows_per_bin *= 2
        bins = np.arange(self.n_samples, self.n_samples + len(scores)) // self.rows_per_bin
        np.minimum.at(self._lowest, bins, scores)
        self.n_samples += len(scores)

    @property
    def lowest(self) -> Array:
        """The lowest score of each bin."""
        return self._lowest[: -(-self.n_samples // self.rows_per_bin)]


def _larger(first: Array, second: Array) -> Array:
    """Return the entries of larger magnitude; NaN where both are NaN."""
    is_second = np.isnan(first) | (np.abs(second) > np.abs(first))
    return np.where(is_second, second, first)
