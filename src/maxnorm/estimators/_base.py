"""What the estimators share: validation, names, NaN to mask, ``"auto"`` to numbers; nothing numerical."""

from __future__ import annotations

import math
import os
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from maxnorm import persistence, selection
from maxnorm.core import defaults as auto
from maxnorm.core.blas import limited_blas
from maxnorm.core.encoding import Encoding, encode
from maxnorm.core.noise import L1, L21, CappedL1, Noise, NoNoise, Squared
from maxnorm.core.norms import FactorNorm
from maxnorm.core.state import Progress, State, split_missing, surrogate
from maxnorm.core.statistics import Contribution, Selection
from maxnorm.core.types import Array, Mask
from maxnorm.dask import rounds as _rounds
from maxnorm.dask.blocks import Blocks, Output
from maxnorm.estimators.validation import (
    all_or_nothing,
    in_precision,
    invalid,
    is_alternative,
    is_number,
    validated,
    validated_batch,
)
from maxnorm.learner import measure, updated
from maxnorm.streams import Stream, StreamError, open_stream
from maxnorm.streams.memory import is_dask
from maxnorm.streams.stream import stacked

FIRST_BASIS = 1729  # sets the generator of the first basis apart from others with the same seed
TRIAL_EPOCHS = 2  # passes over a sample to try a rank
BLOCK_ENTRIES = 2**21  # entries of X that transform and friends look at in one go

RandomState = int | np.random.RandomState | None
Measure = Callable[[Any, int], Contribution]
Samples = Any  # array-like, data frame, sparse matrix, Dask collection or Stream


class Decomposition(NamedTuple):
    """``X = low_rank + noise + residual`` wherever X was observed."""

    low_rank: Array  #: the part in the span of the basis, complete even where X was missing
    noise: Array  #: gross errors found; zero where X was missing
    residual: Array  #: what neither explains; zero where X was missing
    coefficients: Array  #: coefficients of each sample in ``components_``
    converged: Mask  #: whether the solver met its tolerance, sample by sample


class SavedMixin:
    """Estimators that can be kept in a file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, from which :func:`maxnorm.load` makes it again.

        One file without pickle: nothing in it is executed. It replaces a file of that name in one move, so
        that a crash or a full disk leaves the one of before.

        Parameters
        ----------
        path : path
            Where; ``.maxnorm`` is a good ending.
        """
        persistence.save(self, path)


class OnlineFactorisation(SavedMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What the estimators share; subclasses say which norm and which noise."""

    n_components: int | Literal["auto"] | None
    noise: str | Noise
    lambda1: float | Literal["auto"]
    lambda2: float | Literal["auto"]
    batch_size: int | Literal["auto"]
    forgetting: float | Literal["auto"]
    half_life: float | None
    max_iter: int | Literal["auto"]
    tol: float
    n_epochs: int
    init: str | ArrayLike
    random_state: RandomState
    _progress: Progress

    _missing_lambda2 = 0.0
    _unstored: float | None = (
        0.0  # what an entry is that a sparse matrix does not store; None if it stays sparse
    )

    # -- learning -----------------------------------------------------------------------------------

    def fit(self, X: Samples, y: object = None, *, callback: Callable[[Self], object] | None = None) -> Self:
        """Forget everything and learn from X, in ``n_epochs`` passes over consecutive batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), sparse matrix, Stream, or Dask array or data frame
            Samples in rows. NaN marks missing entries. A stream or Dask collection that fails halfway raises
            its error, and what was learnt until then is kept. Blocks of a Dask collection are learnt from
            where they live, in rounds (docs/scaling.md).
        y : ignored
        callback : callable or None
            Called with the estimator after every batch that was read or every round, to show progress, save,
            or stop by raising an exception, which keeps what was learnt.

        Returns
        -------
        self
        """
        source = as_source(X, callback)
        if source is not None:
            self._fit_source(source, callback)
        else:
            with all_or_nothing(self):
                self.__dict__.pop("_progress", None)
                self._check_parameters()
                Z = validated(self, X, reset=True)
                state = self._start(Z)
                for _ in range(self.n_epochs):
                    state, _ = self._learnt(state, Z)
                self._progress = Progress(state)
        state = self._progress.state
        with limited_blas(1, *state.L.shape):
            nothing = self.noise in ("capped", "l1") and auto.finds_nothing(state)
        if nothing:
            warnings.warn(
                "the low-rank part is nearly zero: most of X was taken for errors. If most entries of X are "
                "zero or background, pass noise='none'; otherwise try another n_components",
                UserWarning,
                stacklevel=2,
            )
        return self

    def partial_fit(
        self, X: Samples, y: object = None, *, callback: Callable[[Self], object] | None = None
    ) -> Self:
        """Learn from more samples; memory does not grow with their number.

        Any number of rows from one up will do, and how they are cut into calls makes no difference: in the
        end the model is that of ``fit`` on all of them. Rows wait until they fill a batch of ``batch_size``.
        Whatever is asked of the model in between takes them into account, at the cost of a batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), sparse matrix, Stream, or Dask array or data frame
            Samples in rows. NaN marks missing entries.
        y : ignored
        callback : callable or None
            Called with the estimator after every batch that was read, or every round.

        Returns
        -------
        self
        """
        source = as_source(X, callback)
        if source is not None:
            self._take_source(source, callback)
        else:
            with all_or_nothing(self):
                self._check_parameters()
                self._take(validated(self, X, reset=not self.__sklearn_is_fitted__()))
        return self

    def flush(self) -> Self:
        """Learn for good from rows that wait for the rest of their batch, as ``fit`` does at its end.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._progress = Progress(self.state_)
        return self

    def _fit_source(self, source: Stream | Blocks, callback: Callable[[Self], object] | None) -> None:
        if self.n_epochs > 1 and isinstance(source, Stream) and not source.repeatable:
            raise StreamError(
                f"{source.title}: can be read once only, but n_epochs={self.n_epochs}; give a file, or a "
                "function that returns an iterator"
            )
        before = dict(self.__dict__)
        self.__dict__.pop("_progress", None)
        try:
            for _ in range(self.n_epochs):
                self._take_source(source, callback)
                self.flush()
        except BaseException:
            if not self.__sklearn_is_fitted__():  # not a sample was learnt from
                self.__dict__.update(before)
            raise

    def _take_source(self, source: Stream | Blocks, callback: Callable[[Self], object] | None) -> None:
        """Learn batch by batch or round by round; whatever happens, finished ones are learnt from."""
        self._check_parameters()
        if isinstance(source, Blocks):
            _rounds.learn(self, source, callback)
        else:
            self._take_stream(source, callback)

    def _take_stream(self, stream: Stream, callback: Callable[[Self], object] | None) -> None:
        row = stream.first
        for batch in stream.ahead():
            with all_or_nothing(self):
                self._check_parameters()
                self._take(self._validated_batch(batch, stream, row), row)
            row += batch.shape[0]
            if callback is not None:
                callback(self)
        if not row:
            raise StreamError(f"{stream.title}: has no samples")

    def _validated_batch(self, batch: Any, stream: Stream, row: int) -> Array:
        first = not self.__sklearn_is_fitted__()
        return validated_batch(self, batch, stream, reset=first, unstored=self._unstored, row=row)

    def _take(self, Z: Array, row: int = 0) -> None:
        """Learn from validated rows, which begin at some row of theirs, or let them wait for a full batch."""
        before = self._progress if self.__sklearn_is_fitted__() else Progress(self._start(Z))
        state = before.state
        Z = in_precision(Z, state.L.dtype, row)
        known = before.batch if self.batch_size == "auto" else 0
        batch = known or self._batch_size(state)
        if sum(map(n_rows, before.waiting)) + n_rows(Z) >= batch:
            state, rest = self._learnt(state, stacked([*before.waiting, Z]), whole_batches=True)
            self._progress = Progress(state, [rest.copy()] if n_rows(rest) else [])
        else:
            waiting = [*before.waiting, Z.copy()]  # the caller's memory is the caller's
            while len(waiting) > 1 and n_rows(waiting[-2]) <= n_rows(waiting[-1]):
                waiting[-2:] = [stacked(waiting[-2:])]  # so that there are never many pieces
            self._progress = Progress(state, waiting, batch)

    def _start(self, Z: Array) -> State:
        given = self.n_components
        return self._with_rank(
            Z, int(given) if isinstance(given, Integral) else auto.default_components(Z.shape[1])
        )

    def _with_rank(self, Z: Array, d: int, seed: int | None = None) -> State:
        p = Z.shape[1]
        if not isinstance(self.init, str):
            return State.start(self._given_basis(p, d).astype(Z.dtype))
        if seed is None:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
        # A generator of its own, so that data made from the same seed have nothing to do with the basis.
        rng = np.random.default_rng([FIRST_BASIS, seed])
        # Orthonormal columns; orthonormal rows if there are more components than features.
        with limited_blas(1, p, d):
            L = np.linalg.qr(rng.standard_normal((max(p, d), min(p, d))))[0]
        return State.start((L if p >= d else L.T).astype(Z.dtype))

    def _given_basis(self, p: int, d: int) -> Array:
        init = check_array(self.init, dtype=np.float64, input_name="init")
        expected = (len(init) if self.n_components is None or self.n_components == "auto" else d, p)
        if init.shape != expected:
            raise ValueError(
                f"init must have shape (n_components, n_features) = {expected}, got {init.shape}; "
                "pass the components_ of another model or init='random'"
            )
        if not init.any():
            raise ValueError("init is zero, from which nothing can be learnt; pass init='random'")
        return init.T

    def _batch_size(self, state: State) -> int:
        return auto.batch_size(state, self.half_life) if self.batch_size == "auto" else int(self.batch_size)

    def _learnt(self, state: State, Z: Array, *, whole_batches: bool = False) -> tuple[State, Array]:
        """Return the state after learning from Z batch by batch, and the rows that were not learnt from."""
        p, d = state.L.shape
        with limited_blas(max(auto.BATCH_ENTRIES // p, 10), p, d):
            while n_rows(Z):
                if self._is_undecided(state):
                    sample = selection.rows_for_a_sample(observed_entries(Z), state.L.size)
                    if whole_batches and sample is None:
                        break
                    state = self._decided(state, Z[:sample])
                size = self._batch_size(state)
                if whole_batches and n_rows(Z) < size:
                    break
                if not state.time and self.batch_size == "auto":
                    size = self._first_batch(state, Z[:size], size)
                batch, Z = Z[:size], Z[size:]
                state = self._step(state, batch)
        return state, Z

    def _first_batch(self, state: State, Z: Array, size: int) -> int:
        steady = auto.standing_median(*split_missing(Z)) is not None
        return size if steady else auto.least_batch(state.L.shape[1])

    def _is_undecided(self, state: State) -> bool:
        """Whether something is yet to be chosen by entries that are held out of the first samples."""
        chooses = self.n_components == "auto" and isinstance(self.init, str)
        return chooses and not state.time and state.selection is None

    def _decided(self, state: State, Z: Array) -> State:
        """Return the state before the first sample, with what was "auto" chosen on a sample."""
        Z, observed = split_missing(Z)
        there = np.ones(Z.shape, dtype=np.bool_) if observed is None else observed

        def low_rank_of(X: Array, rank: int) -> Array:
            trial = clone(self).set_params(n_components=rank, n_epochs=TRIAL_EPOCHS, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of ranks that are far too small
                return trial.fit(X).decompose(X).low_rank

        most = max(1, min(Z.shape) // 2)
        chosen = selection.select_rank(Z, there, low_rank_of, most=most, seed=0)
        rank = auto.default_components(Z.shape[1]) if chosen is None else chosen.n_components
        fallback = Selection(rank, None, ())
        return replace(self._with_rank(Z, rank, seed_of(state)), selection=chosen or fallback)

    def _step(self, state: State, Z: Array) -> State:
        """Return the state after one batch."""
        known = state
        if not state.scales.weight:  # nothing but zeros so far
            rows, observed = split_missing(Z)
            middle = auto.standing_median(rows, observed)
            known = replace(state, scales=auto.first_look(rows, observed, middle))
            size = self._basis_size(known)
            started = state.selection is not None and state.selection.weight is not None
            if isinstance(self.init, str) and size > 0.0 and not started:
                first = auto.first_basis(state.L, middle)
                state = replace(state, L=first * state.L.dtype.type(size))
        added = self._measure(state.L, known)(Z, state.time)
        return self._updated(state, added, known)

    def _measure(self, L: Array, known: State) -> Measure:
        """Return what turns a batch and the time at which it begins into its contribution.

        It has no more of the model than it needs, as it may be sent to other machines; settings follow from
        what is ``known``.
        """
        scales, noise = known.scales, self._noise(known)
        return partial(
            measured,
            L,
            norm=self._norm(known),
            noise=noise,
            forgetting=self._forgetting(known),
            half_life=self.half_life,
            tol=self.tol,
            loose=auto.LOOSE if self.max_iter == "auto" else 0.0,
            max_iter=auto.fit_sweeps(scales, noise) if self.max_iter == "auto" else int(self.max_iter),
            missing_lambda2=self._missing_lambda2,
            per_feature=known.statistics.grams is not None,
        )

    def _forgetting(self, known: State) -> float:
        if self.forgetting == "auto":
            return auto.forgetting(known.scales, self._noise(known))
        return float(self.forgetting)

    def _updated(self, state: State, added: Contribution, known: State) -> State:
        """Return the state after a contribution, put in order for the next."""
        return self._settled(updated(state, added, self._norm(known)), added)

    def _settled(self, state: State, added: Contribution) -> State:
        return auto.revived(state, added.rank)

    # -- settings -----------------------------------------------------------------------------------

    @abstractmethod
    def _norm(self, state: State) -> FactorNorm:
        """Return the norm, with its weight found if it is "auto"."""

    @abstractmethod
    def _basis_size(self, state: State) -> float:
        """Return the size to which a random orthonormal basis is brought when the first data are seen."""

    def _noise(self, state: State) -> Noise:
        if not isinstance(self.noise, str):
            return self.noise
        given = None if self.lambda2 == "auto" else float(self.lambda2)
        if self.noise == "l1":
            return L1(auto.l1_lambda2(state) if given is None else given)
        if self.noise == "capped":
            capped = auto.capped_l1(state)
            return capped if given is None else replace(capped, lambda2=given, cut=max(capped.cut, given))
        if self.noise == "l21":
            return L21(auto.l21_lambda2(state) if given is None else given, doubt=True)
        if self.noise == "squared":
            return Squared(1.0 if given is None else given)
        return NoNoise()

    def _reading_noise(self) -> Noise:
        """Return the noise with which samples are read: learning is cautious, reading is decisive."""
        noise = self._noise(self.state_)
        return replace(noise, huber=3.0 * noise.huber) if isinstance(noise, CappedL1) else noise

    def _check_parameters(self) -> None:
        name = type(self).__name__
        for parameter, kind, allowed, alternative in (
            ("n_components", Integral, "an integer of at least 1, 'auto'", None),
            ("batch_size", Integral, "an integer of at least 1", "auto"),
            ("max_iter", Integral, "an integer of at least 1", "auto"),
            ("n_epochs", Integral, "an integer of at least 1", ...),
            ("lambda1", Real, "a finite number of at least 0", "auto"),
            ("lambda2", Real, "a finite number of at least 0", "auto"),
            ("forgetting", Real, "a finite number of at least 0", "auto"),
            ("half_life", Real, "a finite number above 0", None),
            ("tol", Real, "a finite number of at least 0", ...),
        ):
            value = getattr(self, parameter)
            if parameter == "n_components" and is_alternative(value, "auto"):
                continue
            least = 1 if kind is Integral else 0
            above = parameter == "half_life"
            if not is_number(value, kind, least, above=above) and not is_alternative(value, alternative):
                raise invalid(name, parameter, value, allowed, alternative)
        known = {"l1", "capped", "l21", "squared", "none"}
        if isinstance(self.noise, str):
            fine = self.noise in known
        else:
            fine = isinstance(self.noise, Noise) and not isinstance(self.noise, type)
        if not fine:
            raise invalid(
                name,
                "noise",
                self.noise,
                "one of 'capped' or 'l1' (errors in single entries), 'l21' (outlying samples), 'squared', "
                "'none', or an instance with the methods prox and value of maxnorm.core.noise.Noise",
            )
        if not isinstance(self.noise, str) and self.lambda2 != "auto":
            raise ValueError(f"lambda2={self.lambda2!r} has no effect on a noise object; set it there")
        if self.init is None or (isinstance(self.init, str) and self.init != "random"):
            raise invalid(name, "init", self.init, "'random' or an array (n_components, n_features)")
        fitted = self._progress.state.L.shape[1] if self.__sklearn_is_fitted__() else self.n_components
        if self.n_components not in (None, "auto", fitted):
            raise ValueError(
                f"n_components of {name} was {fitted} when it was fitted and is now {self.n_components}; "
                "call fit to start anew"
            )

    # -- using what was learnt ----------------------------------------------------------------------

    def decompose(self, X: Samples) -> Decomposition:
        """Split samples into a low-rank part, noise and a residual.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries; ``low_rank`` has a value there too.

        Returns
        -------
        Decomposition
            Named tuple ``low_rank, noise, residual, coefficients, converged``; of Dask arrays, yet to be
            computed, if X is a Dask collection.
        """
        if is_dask(X):
            check_is_fitted(self)
            dense, d = Output(None, self.n_features_in_), Output(None, self.n_components_)
            return Decomposition(
                *self._lazily(X, "decompose", dense, dense, dense, d, Output(np.bool_, is_matrix=False))
            )
        parts = []
        for Z, observed, code in self._encode(X):
            residual = code.residual if observed is None else np.where(observed, code.residual, 0)
            parts.append(
                (
                    self._low_rank(Z, observed, code),
                    code.E,
                    residual.astype(code.R.dtype, copy=False),
                    code.R,
                    code.converged,
                )
            )
        return Decomposition(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _low_rank(self, Z: Array, observed: Mask | None, code: Encoding) -> Array:
        return code.R @ self.components_.astype(code.R.dtype, copy=False)

    def score_samples(self, X: Samples) -> Array:
        """Minus the loss of each sample, Eq. (2.9): the higher, the more normal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), or Dask array for a Dask collection
        """
        if is_dask(X):
            check_is_fitted(self)
            return self._lazily(X, "score_samples", Output(np.float64, is_matrix=False))[0]
        blocks = []
        for _, _, code in self._encode(X):
            blocks.append(-code.loss)  # not a comprehension: its frame would take the blame in warnings
        return np.concatenate(blocks)

    def score(self, X: Samples, y: object = None) -> float:
        """Mean of :meth:`score_samples`.

        A higher rank always explains held-out samples better: this compares samples, not ranks.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X)))

    def _lazily(self, X: Samples, method: str, *outputs: Output) -> list[Any]:
        """Return what a method says of a Dask collection, yet to be computed."""
        self._check_parameters()
        return _rounds.lazily(self, X, method, *outputs)

    def _encode(self, X: Samples) -> Iterator[tuple[Array, Mask | None, Encoding]]:
        """Encode X block by block, so that work space does not grow with the number of samples."""
        check_is_fitted(self)
        self._check_parameters()
        seen = unfinished = 0
        for batch in self._validated_batches(X):
            seen += n_rows(batch)
            for block in self._encoded(batch):
                unfinished += int((~block[2].converged).sum())
                yield block
        if unfinished:
            warnings.warn(
                f"{unfinished} of {seen} samples did not reach tol={self.tol}; "
                "raise max_iter, or accept the result with a larger tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _validated_batches(self, X: Samples) -> Iterator[Array]:
        stream = as_stream(X)
        if stream is None:
            yield validated(self, X, reset=False)
            return
        row = stream.first
        for batch in stream.ahead():
            yield self._validated_batch(batch, stream, row)
            row += batch.shape[0]
        if not row:
            raise StreamError(f"{stream.title}: has no samples")

    def _encoded(self, X: Array) -> Iterator[tuple[Array, Mask | None, Encoding]]:
        L = self.state_.L.astype(X.dtype, copy=False)
        block = max(1, BLOCK_ENTRIES // X.shape[1])
        with limited_blas(min(block, len(X)), *L.shape):
            for rows in gen_batches(len(X), block):
                Z, observed = split_missing(X[rows])
                code = encode(
                    Z,
                    L,
                    observed,
                    norm=self._norm(self.state_),
                    noise=self._reading_noise(),
                    tol=self.tol,
                    max_iter=auto.MAX_SWEEPS if self.max_iter == "auto" else int(self.max_iter),
                    missing_lambda2=self._missing_lambda2,
                )
                yield Z, observed, code

    # -- what was learnt ----------------------------------------------------------------------------

    @property
    def state_(self) -> State:
        """All that was learnt, rows that wait for the rest of their batch included."""
        progress = self._progress
        if progress.waiting and progress.ahead is None:
            self._check_parameters()
            progress.ahead, _ = self._learnt(progress.state, stacked(progress.waiting))
        return progress.ahead or progress.state

    @property
    def components_(self) -> Array:
        """Basis vectors in rows, of shape (n_components, n_features); a view that cannot be written to."""
        view = self.state_.L.T
        view.flags.writeable = False
        return view

    @property
    def n_components_(self) -> int:
        """Number of components."""
        known = self.state_ if self.n_components == "auto" else self._progress.state
        return int(known.L.shape[1])

    @property
    def n_samples_seen_(self) -> int:
        """Number of samples learnt from, each counted once a pass."""
        return self._progress.state.n_samples + sum(map(n_rows, self._progress.waiting))

    @property
    def n_iter_(self) -> int:
        """Number of updates of the basis."""
        return self.state_.n_steps

    @property
    def lambda1_(self) -> float:
        """Weight of the norm in use."""
        return float(self._norm(self.state_).lambda1)

    @property
    def lambda2_(self) -> float:
        """Weight of the noise in use: given, or following the data; NaN if the noise has none."""
        noise = self._noise(self.state_)
        return float(getattr(noise, "lambda2", math.nan))

    @property
    def selection_(self) -> dict[str, list[Any]]:
        """What was tried for "auto": components, weight of the norm an entry, prior, error held out."""
        chosen = self.state_.selection
        tried = () if chosen is None else chosen.tried
        names = ("n_components", "weight", "prior", "error")
        return {name: [row[i] for row in tried] for i, name in enumerate(names)}

    @property
    def objective_(self) -> float:
        """The surrogate g_t(L), Eq. (3.1): average cost of the samples learnt from, as remembered."""
        return surrogate(self.state_, self._norm(self.state_))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_progress")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class CoefficientsMixin(ClassNamePrefixFeaturesOutMixin):  # type: ignore[misc]
    """What estimators share whose transform gives coefficients in ``components_``."""

    components_: Array

    def inverse_transform(self, R: ArrayLike) -> Array:
        """Low-rank samples with the given coefficients.

        Parameters
        ----------
        R : array-like of shape (n_samples, n_components_)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        coefficients = check_array(R, dtype=[np.float64, np.float32], ensure_min_features=0, input_name="R")
        basis = self.components_
        if coefficients.shape[1] != len(basis):
            raise ValueError(
                f"R has {coefficients.shape[1]} columns, but this {type(self).__name__} has "
                f"{len(basis)} components; pass what transform returned"
            )
        return coefficients @ basis

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class OnlineDecomposition(CoefficientsMixin, OnlineFactorisation):
    """Estimators whose transform gives coefficients."""

    def transform(self, X: Samples) -> Array:
        """Coefficients of samples in the learnt basis, solved to the tolerance ``tol``.

        A sample's coefficients do not depend on the others. Samples that do not reach the tolerance in
        ``max_iter`` sweeps are reported by a ``ConvergenceWarning``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or Dask array for a Dask collection
        """
        if is_dask(X):
            check_is_fitted(self)
            return self._lazily(X, "transform", Output(None, self.n_components_))[0]
        blocks = []
        for _, _, code in self._encode(X):
            blocks.append(code.R)  # not a comprehension: its frame would take the blame in warnings
        return np.concatenate(blocks)


def measured(L: Array, Z: Array, since: int, **settings: Any) -> Contribution:
    """Return what there is to learn from rows with NaN that begin at some time."""
    return measure(L, *split_missing(Z), since=since, **settings)[0]


def as_source(X: Any, callback: object = None) -> Stream | Blocks | None:
    """Return X as what is learnt from piece by piece; None if it is an ordinary array."""
    return Blocks.of(X) if is_dask(X) else as_stream(X, callback)


def as_stream(X: Any, callback: object = None) -> Stream | None:
    """Return X as a stream if it is one, or is read like one; None if it is an ordinary array."""
    if isinstance(X, Stream):
        return X
    lazy = sp.issparse(X) or is_dask(X)
    return open_stream(X) if lazy or callback is not None else None


def n_rows(Z: Any) -> int:
    """Return the number of samples of a batch, sparse or not."""
    return int(Z.shape[0])


def observed_entries(Z: Any) -> Array:
    """Return how many entries of each sample are observed."""
    return np.diff(Z.indptr) if isinstance(Z, sp.csr_array) else np.count_nonzero(~np.isnan(Z), axis=1)


def seed_of(state: State) -> int:
    """Return a seed that follows from the first basis: choices are the same whenever they are made."""
    return zlib.crc32(np.ascontiguousarray(state.L).tobytes())
