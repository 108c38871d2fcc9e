"""The estimator that fills in what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from maxnorm import selection
from maxnorm.core import defaults as auto
from maxnorm.core.encoding import Encoding
from maxnorm.core.linalg import row_norms
from maxnorm.core.noise import L1, Noise
from maxnorm.core.norms import MaxNorm
from maxnorm.core.sparse_encoding import (
    EntriesEncoding,
    encode_entries,
    entries_of,
    measure_entries,
    predicted,
    prior_of,
    updated_entries,
)
from maxnorm.core.state import State
from maxnorm.core.statistics import Contribution, Selection, SufficientStatistics
from maxnorm.core.types import Array, Mask
from maxnorm.dask.blocks import Output
from maxnorm.estimators._base import BLOCK_ENTRIES, Measure, RandomState, Samples, n_rows, seed_of
from maxnorm.estimators.decomposition import MaxNormRules
from maxnorm.estimators.validation import invalid, is_number
from maxnorm.streams.memory import is_dask

MOSTLY_OBSERVED = 0.8  # share of the entries from which one Gram matrix serves all features
BATCH_NUMBERS = 2**18  # of coefficients in a batch: memory stays flat
BATCH_PER_FEATURE = 4  # an update of the basis costs as much as this fraction of a sample for each feature


class Recommendations(NamedTuple):
    """The best columns of each row, best first; -1 and NaN where there are not so many."""

    columns: NDArray[np.intp]
    values: Array


class MaxNormCompletion(OneToOneFeatureMixin, MaxNormRules):  # type: ignore[misc]
    """Fill in missing entries from a low-rank model of the stream, regularised by the max-norm (OMRMC).

    ``transform`` returns X with its gaps filled, for rows never seen before too; ``predict`` gives chosen
    entries, ``recommend`` the best ones of each row. Learning minimises the squared error over observed
    entries plus the max-norm, in one pass and in memory that does not grow with the number of rows.

    X is an array with NaN for what is missing, or a SciPy sparse matrix of which every stored entry is
    observed, zeros too; it is never made dense. An entry that is stored more than once counts as its mean.

    Parameters
    ----------
    n_components : int, "auto" or None
        Rank of the model, or a bound on it. "auto" chooses by entries that are held out of the first
        samples. None takes 10, or half the features if fewer than 20.
    noise : {"none", "capped", "l1", "l21", "squared"} or Noise
        "none" trusts the observed entries; "capped" fills robustly where some of them are grossly wrong.
    lambda1 : float or "auto"
        Weight of the max-norm. "auto" chooses a weight for each observed entry by entries that are held
        out of the first samples; with another noise than "none" it is ``1 / sqrt(n_features)``.
    lambda2 : float or "auto"
        Weight of the noise, in units of the data.
    c : float or None
        The c of Eq. (5.1): observed entries may err at a cost of ``c`` a unit, missing ones count as zeros
        at a cost of ``1 / c``. None is the limit of large c, where missing entries cost nothing; it is
        what you want unless you study the paper. Only with ``noise="none"``.
    biases : bool
        Whether entries are first explained by a mean and by how their row and their column differ from it,
        which suits ratings. Only with ``noise="none"``.
    value_range : (low, high) or None
        Bounds of what is filled in, predicted and recommended: ``(1, 5)`` for stars.
    statistics : {"auto", "shared", "per-feature"}
        One Gram matrix for all features, as the paper has it, or one for each, in memory
        O(n_features x n_components^2). "auto" takes the second if less than four fifths are observed.
    batch_size, forgetting, half_life, basis, max_iter, tol, n_epochs, init, random_state
        As in :class:`MaxNormDecomposition`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector a row.
    selection_ : dict
        What was tried for "auto", with the error in entries that were held out.
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
    J. Shen, H. Xu, P. Li. Online optimization for large-scale max-norm regularization, section 5. Machine
    Learning 106, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import MaxNormCompletion
    >>> X = np.outer(np.arange(1.0, 41.0), [1.0, 2.0, 3.0, 4.0])
    >>> X[::3, 1] = np.nan
    >>> filled = MaxNormCompletion(n_components=1, n_epochs=20, random_state=0).fit_transform(X)
    >>> bool(abs(filled[6, 1] - 14.0) < 0.5)
    True
    """

    _unstored = None  # sparse matrices stay sparse: they store what was observed

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = None,
        *,
        noise: str | Noise = "none",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        c: float | None = None,
        biases: bool = False,
        value_range: tuple[float, float] | None = None,
        statistics: Literal["auto", "shared", "per-feature"] = "auto",
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
        self.c = c
        self.biases = biases
        self.value_range = value_range
        self.statistics = statistics
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.half_life = half_life
        self.basis = basis
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.init = init
        self.random_state = random_state

    # -- using what was learnt ----------------------------------------------------------------------

    def transform(self, X: Samples) -> Array:
        """Fill in what is missing; what was observed stays as it is.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries; of a sparse matrix, what is not stored.

        Returns
        -------
        ndarray of shape (n_samples, n_features), or Dask array for a Dask collection
        """
        if is_dask(X):
            check_is_fitted(self)
            return self._lazily(X, "transform", Output(None, self.n_features_in_))[0]
        blocks = []
        for Z, observed, code in self._encode(X):
            filled = self._clipped(self._low_rank(Z, observed, code))
            blocks.append(Z.copy() if observed is None else np.where(observed, Z, filled))
        return np.concatenate(blocks)

    def predict(self, X: Samples, rows: ArrayLike | None = None, columns: ArrayLike | None = None) -> Array:
        """Values of chosen entries, from what is observed of their rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            What is observed.
        rows, columns : array-like of int, of the same length
            Places of the entries; nothing else is computed. Without them, all entries.

        Returns
        -------
        ndarray
            One value for each place, of the model even where X is observed.
        """
        check_is_fitted(self)
        if rows is None and columns is None:
            if is_dask(X):
                return self._lazily(X, "predict", Output(None, self.n_features_in_))[0]
            blocks = []
            for block in self._encode(X):
                blocks.append(self._clipped(self._low_rank(*block)))
            return np.concatenate(blocks)
        Z = self._all_entries(X)
        rows, columns = np.asarray(rows), np.asarray(columns)
        if rows.shape != columns.shape or rows.ndim != 1:
            raise ValueError(
                f"rows and columns must be one-dimensional and of the same length, got {rows.shape} and "
                f"{columns.shape}"
            )
        for name, index, length in (("rows", rows, Z.shape[0]), ("columns", columns, Z.shape[1])):
            if index.size and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= length):
                raise ValueError(f"{name} must be integers from 0 to {length - 1}; got {index.dtype} {index}")
        wanted, places = np.unique(rows, return_inverse=True)
        R, offsets = self._coefficients(Z[wanted])
        state = self.state_
        values = predicted(places, columns, R, state.L) + offsets[places]
        if state.biases is not None:
            values += state.biases.columns[columns]
        return self._clipped(values)

    def recommend(self, X: Samples, k: int = 10) -> Recommendations:
        """Columns with the highest predicted values in each row, without those that are observed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            What is observed.
        k : int
            How many columns.

        Returns
        -------
        Recommendations
            ``columns`` and ``values``, both of shape (n_samples, k), best first; -1 and NaN where there are
            fewer.
        """
        check_is_fitted(self)
        if not is_number(k, Integral, 1):
            raise ValueError(f"k must be an integer of at least 1, got {k!r}")
        Z = self._all_entries(X)
        n, p = Z.shape
        columns = np.full((n, k), -1, dtype=np.intp)
        values = np.full((n, k), np.nan)
        state = self.state_
        for part in gen_batches(n, max(1, BLOCK_ENTRIES // p)):
            block = Z[part]
            R, offsets = self._coefficients(block)
            scores = R @ state.L.T + offsets[:, None]
            if state.biases is not None:
                scores += state.biases.columns
            scores[np.repeat(np.arange(block.shape[0]), np.diff(block.indptr)), block.indices] = -np.inf
            best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            found = np.take_along_axis(scores, best, axis=1)
            there = np.isfinite(found)
            columns[part, : best.shape[1]] = np.where(there, best, -1)
            values[part, : best.shape[1]] = np.where(there, self._clipped(found), np.nan)
        return Recommendations(columns, values)

    def _clipped(self, values: Array) -> Array:
        return values if self.value_range is None else np.clip(values, *self.value_range)

    def _all_entries(self, X: Samples) -> sp.csr_array:
        """Return what is observed of X, without the gaps."""
        self._check_parameters()
        batches: list[Any] = [
            b if isinstance(b, sp.csr_array) else entries_of(b) for b in self._validated_batches(X)
        ]
        return sp.csr_array(sp.vstack(batches))

    def _coefficients(self, Z: sp.csr_array) -> tuple[Array, Array]:
        """Return coefficients of rows, and what the mean and the row's bias add to every entry."""
        if self._trusts_entries:
            code = self._encode_entries(Z)
            return code.R, code.rows + (0.0 if self.state_.biases is None else self.state_.biases.mean)
        R = np.concatenate([code.R for _, _, code in self._encoded(Z)])
        return R.astype(np.float64, copy=False), np.zeros(len(R))

    def _encode_entries(self, Z: sp.csr_array) -> EntriesEncoding:
        state = self.state_
        # A prior in place of the ball, which knows no difference between rows with few and with many entries.
        return encode_entries(Z, state.L.astype(np.float64, copy=False), None, state.biases, prior_of(state))

    def _encoded(self, X: Any) -> Iterator[tuple[Array, Mask | None, Encoding]]:
        block = max(1, BLOCK_ENTRIES // X.shape[1])
        for part in gen_batches(n_rows(X), block):
            rows = X[part]
            dense = _dense(rows) if isinstance(rows, sp.csr_array) else rows
            if not self._trusts_entries:
                yield from super()._encoded(dense)
                continue
            Z = rows if isinstance(rows, sp.csr_array) else entries_of(rows)
            code = self._encode_entries(Z)
            observed = ~np.isnan(dense)
            residual = np.zeros(dense.shape, dense.dtype)
            residual[observed] = code.residual
            b = len(dense)
            yield (
                np.where(observed, dense, dense.dtype.type(0)),
                None if observed.all() else observed,
                Encoding(
                    R=code.R.astype(dense.dtype, copy=False),
                    E=np.zeros_like(residual),
                    residual=residual,
                    loss=code.loss,
                    penalty=np.zeros(b),
                    demand=row_norms(code.G / code.sigma),
                    rank=code.rank,
                    n_iter=np.ones(b, dtype=np.int_),
                    converged=np.ones(b, dtype=np.bool_),
                ),
            )

    def _low_rank(self, Z: Array, observed: Mask | None, code: Encoding) -> Array:
        low_rank = super()._low_rank(Z, observed, code)
        biases = self.state_.biases
        if biases is None:
            return low_rank
        there = entries_of(Z if observed is None else np.where(observed, Z, np.nan))
        offset = biases.mean + biases.columns + biases.rows(there)[:, None]
        return low_rank + offset.astype(low_rank.dtype, copy=False)

    # -- learning -----------------------------------------------------------------------------------

    @property
    def _trusts_entries(self) -> bool:
        """Whether observed entries are exact, so that coefficients follow from them in one step."""
        return isinstance(self.noise, str) and self.noise == "none" and self.c is None

    def _is_undecided(self, state: State) -> bool:
        chooses = self.lambda1 == "auto" and self._trusts_entries
        return (chooses and not state.time and state.selection is None) or super()._is_undecided(state)

    def _decided(self, state: State, Z: Any) -> State:
        if not self._trusts_entries:
            return super()._decided(state, _dense(Z) if isinstance(Z, sp.csr_array) else Z)
        entries = Z if isinstance(Z, sp.csr_array) else entries_of(Z)
        n, p = Z.shape
        most = max(1, min(n // 2, p // 2, entries.nnz // (n + p)))  # no more numbers than there are entries
        ranks: tuple[int, ...] = (state.L.shape[1],)
        if self.n_components == "auto" and isinstance(self.init, str):
            ranks = tuple(rank for rank in selection.ENTRY_RANKS if rank <= most) or (1,)
        weights: tuple[float, ...] = selection.WEIGHTS
        if self.lambda1 != "auto":
            weights = (float(self.lambda1) / max(entries.nnz, 1),)
        found = selection.select_entries(
            entries, ranks=ranks, weights=weights, biases=bool(self.biases), seed=seed_of(state)
        )
        if found is None:  # too little to choose by
            rank = auto.default_components(p) if self.n_components == "auto" else ranks[0]
            return replace(
                self._with_rank(state.L.T, rank, seed_of(state)), selection=Selection(rank, None, ())
            )
        L = found.L.astype(state.L.dtype)
        if not isinstance(self.init, str):
            L = self._with_rank(state.L.T, L.shape[1]).L
        elif self._is_by_feature(Z):
            return replace(found, L=L)
        return replace(State.start(L), selection=found.selection)

    def _first_batch(self, state: State, Z: Any, size: int) -> int:
        if state.statistics.grams is not None or (self._trusts_entries and self._is_by_feature(Z)):
            return size
        return super()._first_batch(state, _dense(Z) if isinstance(Z, sp.csr_array) else Z, size)

    def _take(self, Z: Any, row: int = 0) -> None:
        waiting = self._progress.waiting if self.__sklearn_is_fitted__() else []
        if any(isinstance(piece, sp.csr_array) != isinstance(Z, sp.csr_array) for piece in waiting):
            waiting = [piece if isinstance(piece, sp.csr_array) else entries_of(piece) for piece in waiting]
            self._progress = replace(self._progress, waiting=waiting, ahead=None)
            Z = Z if isinstance(Z, sp.csr_array) else entries_of(Z)
        super()._take(Z, row)

    def _batch_size(self, state: State) -> int:
        size = super()._batch_size(state)
        if self.batch_size != "auto" or state.statistics.grams is None:
            return size
        p = len(state.L)
        parts = auto.BATCH_PARTS[0]
        return max(size, p // BATCH_PER_FEATURE, min(state.time // parts, BATCH_NUMBERS // state.L.shape[1]))

    def _step(self, state: State, Z: Any) -> State:
        if not state.time and self._is_by_feature(Z):
            state = replace(state, statistics=SufficientStatistics.zeros(*state.L.shape, per_feature=True))
        if not self._is_by_entries(state):
            return super()._step(state, _dense(Z) if isinstance(Z, sp.csr_array) else Z)
        entries = Z if isinstance(Z, sp.csr_array) else entries_of(Z)
        if not state.scales.weight and entries.nnz:
            state = self._begun(state, entries)
        return self._updated(state, self._measure(state.L, state)(entries, state.time), state)

    def _is_by_entries(self, state: State) -> bool:
        """Whether batches are sparse, and every feature has statistics of its own."""
        return state.statistics.grams is not None and self._trusts_entries

    def _measure(self, L: Array, known: State) -> Measure:
        if not self._is_by_entries(known):
            return partial(_measured_rows, super()._measure(L, known))
        return partial(
            _measured_entries,
            L,
            norm=self._norm_for(known, known.statistics, L),
            biases=known.biases,
            forgetting=self._forgetting(known),
            half_life=self.half_life,
            regauge=self._weight(known) < selection.STRONG,
        )

    def _updated(self, state: State, added: Contribution, known: State) -> State:
        if not self._is_by_entries(known):
            return super()._updated(state, added, known)
        new = updated_entries(state, added, lambda statistics, L: self._norm_for(known, statistics, L))
        return auto.revived(new, added.rank)

    def _begun(self, state: State, Z: sp.csr_array) -> State:
        """Return the state before the first entry: a basis of the size of the data, biases if asked for."""
        rng = np.random.default_rng(seed_of(state))
        fresh = selection.start_entries(Z, state.L.shape[1], bool(self.biases), rng)
        chosen = state.selection is not None and state.selection.weight is not None
        L = state.L if chosen or not isinstance(self.init, str) else fresh.L.astype(state.L.dtype)
        return replace(state, L=L, biases=fresh.biases)

    def _is_by_feature(self, Z: Any) -> bool:
        """Whether every feature has statistics of its own: if asked for, or if most entries are missing."""
        n, p = Z.shape
        observed = Z.nnz if isinstance(Z, sp.csr_array) else np.count_nonzero(~np.isnan(Z))
        mostly = observed >= MOSTLY_OBSERVED * n * p
        wanted = not mostly if self.statistics == "auto" else self.statistics == "per-feature"
        return self.c is None and self.basis == "exact" and (bool(self.biases) or wanted)

    def _weight(self, state: State) -> float:
        """Return the weight of the norm for each observed entry."""
        if self.lambda1 != "auto":
            return float(self.lambda1) / max(state.statistics.entries, 1.0)
        chosen = state.selection
        return 0.0 if chosen is None or chosen.weight is None else chosen.weight

    def _norm_for(self, state: State, statistics: SufficientStatistics, L: Array) -> MaxNorm:
        chosen = state.selection
        if self.lambda1 != "auto" or chosen is None or chosen.weight is None:
            return super()._norm(state)
        return selection.weighted_norm(statistics, L, chosen.weight, chosen.prior, self.basis)

    def _norm(self, state: State) -> MaxNorm:
        return self._norm_for(state, state.statistics, state.L.astype(np.float64, copy=False))

    # -- settings -----------------------------------------------------------------------------------

    def _noise(self, state: State) -> Noise:
        return super()._noise(state) if self.c is None else L1(float(self.c))

    @property
    def _missing_lambda2(self) -> float:  # type: ignore[override]
        return 0.0 if self.c is None else 1.0 / float(self.c)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        name = type(self).__name__
        if self.c is not None:
            if not is_number(self.c, Real, 0, above=True):
                raise invalid(name, "c", self.c, "a finite number above 0", None)
            if self.noise != "none":
                raise ValueError(
                    f"c={self.c!r} is itself a noise model; leave noise at 'none', got {self.noise!r}"
                )
        if not isinstance(self.biases, bool | np.bool_):
            raise invalid(name, "biases", self.biases, "True or False")
        if self.biases and not (self._trusts_entries and self.basis == "exact"):
            raise ValueError("biases=True needs noise='none', c=None and basis='exact'")
        learnt = self._progress.state if self.__sklearn_is_fitted__() else None
        if learnt is not None and learnt.time and bool(self.biases) != (learnt.biases is not None):
            raise ValueError(
                f"biases of {name} is now {self.biases}, but it was learnt otherwise; call fit to start anew"
            )
        if not isinstance(self.statistics, str) or self.statistics not in ("auto", "shared", "per-feature"):
            raise invalid(name, "statistics", self.statistics, "'auto', 'shared' or 'per-feature'")
        if self.value_range is not None:
            bounds = self.value_range
            fine = np.ndim(bounds) == 1 and len(bounds) == 2 and all(isinstance(x, Real) for x in bounds)
            if not (fine and bounds[0] < bounds[1]):
                raise invalid(name, "value_range", bounds, "a pair (low, high) with low < high", None)


def _measured_rows(measure: Measure, Z: Any, since: int) -> Contribution:
    return measure(_dense(Z) if isinstance(Z, sp.csr_array) else Z, since)


def _measured_entries(L: Array, Z: Any, since: int, **settings: Any) -> Contribution:
    return measure_entries(L, Z if isinstance(Z, sp.csr_array) else entries_of(Z), since=since, **settings)


def _dense(Z: sp.csr_array) -> Array:
    """Return a sparse matrix with NaN for what it does not store."""
    full = np.full(Z.shape, math.nan, dtype=np.float32 if Z.dtype == np.float32 else np.float64)
    full[np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr)), Z.indices] = Z.data
    return full
