"""What the online estimators share: the scikit-learn API around a learner, and no numerics."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from operator import is_
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from maxnorm import persistence
from maxnorm.changes import changes_until
from maxnorm.core.batch import Batch, complaint_about_tiny, in_precision
from maxnorm.core.blas import limited_blas
from maxnorm.core.drift import Change
from maxnorm.core.noise import NOISES, Noise
from maxnorm.core.norms import NORMS, BasisUpdate, FactorNorm
from maxnorm.core.state import Contribution, State, surrogate
from maxnorm.core.types import Array, Mask
from maxnorm.dask.blocks import Blocks
from maxnorm.dask.rounds import Answer, RoundSettings, apply_lazily, learn_blocks
from maxnorm.dense import DenseLearner
from maxnorm.estimators.answers import CoefficientAnswer, DecompositionAnswer, ScoreAnswer
from maxnorm.estimators.callbacks import (
    FIT_FRAMES,
    Callback,
    CallbackSupportMixin,
    Monitor,
    StopLearning,
    with_callbacks,
)
from maxnorm.estimators.factor_attributes import FactorModelMixin
from maxnorm.estimators.frames import is_pandas, like
from maxnorm.estimators.reporting import ReportMixin
from maxnorm.estimators.sampling import Sample, is_repeatable, sample_rows
from maxnorm.estimators.validation import (
    BatchReader,
    Number,
    all_or_nothing,
    check_choice,
    check_features,
    check_number,
    check_plugin,
    check_weight,
    invalid,
    set_features,
    validate_array,
)
from maxnorm.learner import (
    Learner,
    Progress,
    StepResult,
    apply,
    check_state,
    flush,
    refusing_overflow,
    take,
    take_last,
)
from maxnorm.streams import Stream, StreamError, open_stream
from maxnorm.streams.memory import is_dask

MUCH_REJECTED = 0.25  # share of the entries of X that are classified as gross errors
# Of a sample, in single and double precision. Products with smaller ones, and with those beyond the inverse,
# are lost.
SMALLEST_WEIGHT = {"f": 1e-18, "d": 1e-100}
RandomState = int | np.random.RandomState | None
Samples = Any  # array-like, data frame, sparse matrix, Dask collection or Stream
Auto = Literal["auto"]

NUMBERS = {
    "n_components": Number(Integral, 1, alternatives=("auto", None)),
    "batch_size": Number(Integral, 1, alternatives=("auto",)),
    "max_iter": Number(Integral, 1, alternatives=("auto",)),
    "n_epochs": Number(Integral, 1),
    "lambda1": Number(Real, alternatives=("auto",)),
    "lambda2": Number(Real, alternatives=("auto",)),
    "forgetting": Number(Real, alternatives=("auto",)),
    "half_life": Number(Real, excluded=True, alternatives=(None,)),
    "tol": Number(Real),
}
NOISE_MEMBERS = ("prox", "value")
NORM_MEMBERS = (
    "lambda1",
    "multipliers",
    "coefficient_value",
    "basis_value",
    "update_basis",
    "first_scale",
    "prepare_basis",
)


class Decomposition(NamedTuple):
    """The parts of samples, ``X = low_rank + noise + residual`` wherever X was observed.

    It is a named tuple, so that the parts can be unpacked or read by name.

    Attributes
    ----------
    low_rank : ndarray of shape (n_samples, n_features)
        The part in the span of the basis, complete even where X was missing.
    noise : ndarray of shape (n_samples, n_features)
        The gross errors that were found; zero where X was missing. For films, where this is not zero is no
        mask of what moves: :class:`VideoBackground` makes masks.
    residual : ndarray of shape (n_samples, n_features)
        What neither of them explains; zero where X was missing.
    coefficients : ndarray of shape (n_samples, n_components)
        The coefficients of each sample in ``components_``.
    converged : ndarray of shape (n_samples,)
        Whether the solver reached its tolerance, for each sample.

    See Also
    --------
    MaxNormDecomposition.decompose : Returns a decomposition.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import MaxNormDecomposition
    >>> X = np.outer(np.arange(1.0, 41.0), [1.0, 2.0, 3.0, 4.0])
    >>> parts = MaxNormDecomposition(n_components=1, random_state=0).fit(X).decompose(X)
    >>> bool(np.allclose(parts.low_rank + parts.noise + parts.residual, X))
    True
    """

    low_rank: Array
    noise: Array
    residual: Array
    coefficients: Array
    converged: Mask


def unfold(parts: Decomposition, X: Any) -> Decomposition:
    """Return the parts of images or of other samples of several dimensions in the shape of X."""
    shape = np.shape(X) if isinstance(X, np.ndarray | list | tuple) else ()
    if len(shape) < 3:
        return parts
    low_rank, noise, residual = (part.reshape(shape) for part in parts[:3])
    return parts._replace(low_rank=low_rank, noise=noise, residual=residual)


class SavedMixin:
    """Estimators that can be saved to a file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, from which :func:`maxnorm.load` restores it.

        The file contains no pickle, so that nothing in it is executed when it is loaded. It is written to a
        temporary file and renamed when complete, so that a crash or a full disk leaves an existing file
        unchanged.

        Parameters
        ----------
        path : path-like
            The file to write; ``.maxnorm`` is the usual suffix.
        """
        persistence.save(self, path)


class Cache:
    """What an estimator has computed from its parameters and its progress, and can compute again.

    Values that belong together are set together, because several threads may ask one estimator.
    """

    def __init__(self) -> None:
        self.learner: tuple[list[Any], Learner] | None = None  #: with the parameters that it follows from
        self.ahead: tuple[Progress, Learner, State] | None = None  #: the state with the waiting rows learnt


class OnlineFactorisation(SavedMixin, ReportMixin, CallbackSupportMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The scikit-learn API around a learner; subclasses say which learner, and what ``transform`` returns."""

    n_components: int | Auto | None
    norm: str | FactorNorm = "max"
    noise: str | Noise
    lambda1: float | Auto
    lambda2: float | Auto
    batch_size: int | Auto
    forgetting: float | Auto
    half_life: float | None
    basis_update: BasisUpdate = "exact"
    max_iter: int | Auto
    tol: float
    n_epochs: int | Auto
    center: bool = False
    scale: Auto | None = None
    drift: Auto | None = None
    whiten: bool = False
    init: str | ArrayLike
    random_state: RandomState
    _progress: Progress

    _numbers = NUMBERS
    _norms: Collection[str] = NORMS
    _keeps_sparse = False  # whether the entries that a sparse matrix does not store are missing, not zero

    # -- learning -------------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Samples,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the model to X, in rounds over all samples if they are few, or in passes over batches.

        The parameter ``n_epochs`` sets the number of passes. Everything learnt before is forgotten. If X is
        an array and an error is raised, the model is left unchanged. If X is a sparse matrix, a stream or a
        Dask collection, which are learnt from piece by piece, the batches learnt before the error are kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), sparse matrix, Stream, or Dask array or data frame
            Samples in rows. NaN marks missing entries. The blocks of a Dask collection are learnt from where
            they are, in rounds.
        y : object, default=None
            Ignored; present for compatibility with pipelines.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each sample counts, as if it were there so many times; X must be an array or data frame.
            Samples of weight zero are left out. The robust scales of the features, from which the fit starts,
            treat all other samples alike.
        callback : callable, default=None
            Called with a :class:`maxnorm.learner.StepResult` after every batch, or every round on Dask. It
            has the attributes ``step``, ``n_samples``, ``loss`` and ``residual_scale``. If the callback
            returns True, fitting stops: what was learnt is kept and the rest of X is not used.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, sample_weight, callback)

    def _fit(
        self,
        X: Samples,
        sample_weight: ArrayLike | None,
        callback: Callback | None,
        row_features: Array | None = None,
    ) -> Self:
        with self._restoring(X):
            self.__dict__.pop("_progress", None)
            self._cache = Cache()
            learner = self._learner()
            source = with_features(self._source(X, reset=True), row_features)
            source = with_weights(source, X, sample_weight)
            warn_if_light(source)
            if isinstance(source, Batch) and (complaint := complaint_about_tiny(source)) is not None:
                raise ValueError(complaint)
            self._fit_source(learner, source, Monitor(self, callback, self._keep))
        self._warn_of_rejection(learner)
        return self

    def partial_fit(
        self,
        X: Samples,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from more samples; memory does not grow with their number.

        Any number of rows will do, and how they are divided into calls makes no difference: in the end the
        model is that of ``fit`` with ``n_epochs=1`` on all of them. Rows wait until they fill a batch of
        ``batch_size``, and the first ones until the units and the rank of the model can be chosen. Every
        answer of the model takes the waiting rows into account, at the cost of learning from them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), sparse matrix, Stream, or Dask array or data frame
            Samples in rows. NaN marks missing entries.
        y : object, default=None
            Ignored; present for compatibility with pipelines.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each sample counts, as in :meth:`fit`.
        callback : callable, default=None
            Called after every batch that was learnt from, as in :meth:`fit`.

        Returns
        -------
        self : object
            The estimator.
        """
        return self._partial_fit(X, sample_weight, callback)

    def _partial_fit(
        self,
        X: Samples,
        sample_weight: ArrayLike | None,
        callback: Callback | None,
        row_features: Array | None = None,
    ) -> Self:
        watch = None if callback is None else Monitor(self, callback, self._keep).watch
        with self._restoring(X), suppress(StopLearning):
            if "_cache" not in self.__dict__:
                self._cache = Cache()
            learner = self._learner()
            source = self._source(X, reset=not self.__sklearn_is_fitted__())
            source = with_weights(with_features(source, row_features), X, sample_weight)
            self._learn(learner, source, watch)
        return self

    def _restoring(self, X: Samples) -> AbstractContextManager[None]:
        """Return a context that undoes a failed call; what was learnt from a stream is kept."""
        return all_or_nothing(self, keep_fitted=is_streamed(X))

    def flush(self) -> Self:
        """Learn from the rows that wait for the rest of their batch, as ``fit`` does at its end.

        Returns
        -------
        self : object
            The estimator, without waiting rows.
        """
        check_is_fitted(self)
        self._progress = Progress(self.state_)
        return self

    def make_learner(self) -> Learner:
        """Return the learner that the parameters describe, after checking them.

        Override this method to wrap or replace the learner of an estimator.

        Returns
        -------
        learner : maxnorm.learner.Learner
            An immutable value, which knows nothing of what was learnt.
        """
        self._check_parameters()
        return self._dense_learner()

    def _learner(self) -> Any:
        """Return the learner, made anew only if a parameter has changed, which saves time on single rows."""
        cache = self.__dict__.get("_cache")
        if cache is None:
            return self.make_learner()
        parameters = [value for name, value in vars(self).items() if name[0] != "_"]
        parameters.append(self._has_data)
        known = cache.learner
        if known is None or len(parameters) != len(known[0]) or not all(map(is_, parameters, known[0])):
            cache.learner = known = (parameters, self.make_learner())
        return known[1]

    def _dense_learner(self, **changes: Any) -> DenseLearner:
        parameters: dict[str, Any] = {
            "n_components": self.n_components,
            "norm": self.norm,
            "noise": self.noise,
            "lambda1": self.lambda1,
            "lambda2": self.lambda2,
            "batch_size": self.batch_size,
            "forgetting": self.forgetting,
            "half_life": self.half_life,
            "basis_update": self.basis_update,
            "max_iter": self.max_iter,
            "tol": self.tol,
            "init": self._first_basis(),
            "center": bool(self.center),
            "scale": self.scale is not None,
            "drift": self.drift,
        }
        return DenseLearner(**parameters | changes)

    @property
    def _has_data(self) -> bool:
        """Whether samples that are not zero have been learnt from, after which the first basis is history."""
        return self.__sklearn_is_fitted__() and self._progress.state.scales.weight > 0.0

    def _first_basis(self) -> Array | None:
        """Return the first basis that was given; None if it is random or no longer needed."""
        if isinstance(self.init, str) or self._has_data:
            return None
        with np.errstate(all="ignore"):  # infinities in half precision, which are refused
            init: Array = check_array(self.init, dtype=np.float64, input_name="init")
        if not init.any():
            raise ValueError("init is zero, from which nothing can be learnt; pass init='random'")
        return init

    def _fit_source(self, learner: Learner, source: Batch | Stream | Blocks, monitor: Monitor) -> None:
        if self.n_epochs == "auto":
            self._fit_automatically(learner, source, monitor)
            return
        n_epochs = self.n_epochs
        if n_epochs > 1 and isinstance(source, Stream) and not source.repeatable:
            raise StreamError(
                f"{source.title}: can be read once only, but n_epochs={n_epochs}; pass a file, or a "
                "function that returns an iterator"
            )
        with monitor.fit(n_epochs), suppress(StopLearning):
            for _ in range(n_epochs):
                self._one_pass(learner, source, monitor)

    def start_fit(self, X: Samples, *, callback: Callback | None = None) -> bool:
        """Start a fit to samples that can be read again, which ``partial_fit`` and ``flush`` continue.

        Everything learnt before is forgotten. If the samples are few, the model is fitted to all of them, as
        by :meth:`fit`, and there is nothing to continue. Otherwise the units, the rank and a first basis are
        found from random ones, and no sample counts as learnt yet. ``fit`` is this method followed by a pass
        over all samples; use it for a pass of your own, for example one that saves the model now and then.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Stream
            Samples in rows.
        callback : callable, default=None
            Called after every round over all samples, as in :meth:`fit`.

        Returns
        -------
        is_finished : bool
            Whether the model is fitted to all samples. It is always False if ``n_epochs`` is a number.
        """
        with self._restoring(X), suppress(StopLearning):
            self.__dict__.pop("_progress", None)
            self._cache = Cache()
            learner, source = self._learner(), self._source(X, reset=True)
            sample = self._sample(learner, source) if self.n_epochs == "auto" else None
            return sample is not None and self._start_from(
                sample, learner, Monitor(self, callback, self._keep)
            )
        return True

    def _one_pass(self, learner: Learner, source: Batch | Stream | Blocks, monitor: Monitor) -> None:
        with monitor.one_pass():
            if isinstance(source, Batch):
                self._learn(learner, source, monitor.watch, take_last)
            else:
                self._learn(learner, source, monitor.watch)
                self._progress = flush(learner, self._progress, monitor.watch)

    def _fit_automatically(self, learner: Learner, source: Batch | Stream | Blocks, monitor: Monitor) -> None:
        """Fit the model in rounds over all samples if they are few, and otherwise in one pass."""
        if isinstance(learner, DenseLearner):  # the model is one of all samples, wherever they are
            learner = replace(learner, drift=None)
        sample = self._sample(learner, source)
        with monitor.fit(1), suppress(StopLearning):
            if sample is None or not self._start_from(sample, learner, monitor):
                self._one_pass(learner, source, monitor)
        if sample is not None and sample.is_all and self.noise == "capped":
            self._warn_of_zeros(sample.rows)

    def _sample(self, learner: Learner, source: Batch | Stream | Blocks) -> Sample | None:
        """Return the samples that a fit starts from; None if it starts from the first ones."""
        if isinstance(source, Batch):
            return Sample(source, is_all=True)
        if isinstance(source, Blocks) or not is_repeatable(source):
            return None
        if not isinstance(learner, DenseLearner) or not learner.may_make_rounds:
            return None
        return sample_rows(batch for _, batch in self._batches(source))

    def _start_from(self, sample: Sample, learner: Learner, monitor: Monitor) -> bool:
        """Make rounds if that is possible; return whether they have used all samples.

        Rounds over some of the samples find out where a pass over all of them starts.
        """
        rows = sample.rows
        most = learner.most_components(*rows.shape) if isinstance(learner, DenseLearner) else None
        if most is None or not isinstance(learner, DenseLearner):
            return False
        first = learner.start(rows.shape[1], rows.dtype, self._draw_seed())
        with monitor.one_pass(), refusing_overflow():
            state = self._learn_in_rounds(learner, sample, most, monitor)
            if learner.is_rank_open(state, rows):
                chosen = learner.start_of_pass(state, first, rows)
                learner, state = learner.with_rank(chosen.L.shape[1]), chosen
                most = learner.most_components(*rows.shape)
                if most is not None:
                    state = self._learn_in_rounds(learner, sample, most, monitor)
        if sample.is_all and state.n_samples == len(rows):
            return True
        self._progress = Progress(state if most is None else learner.start_of_pass(state, first, rows))
        return False

    def _learn_in_rounds(self, learner: DenseLearner, sample: Sample, most: int, monitor: Monitor) -> State:
        """Return the state after rounds; states to which all samples contributed are kept and reported."""
        for state in learner.learn_in_rounds(sample.rows, most):
            check_state(state)
            if sample.is_all and state.n_samples == len(sample.rows):
                self._progress = Progress(state)
                if monitor.watch is not None:
                    monitor.watch(StepResult(state, Contribution.of_all(state), sample.rows))
        return state

    def _warn_of_zeros(self, rows: Batch) -> None:
        """Warn if most entries are zero and most of the others, which may be the signal, were rejected."""
        values, scales = rows.entries().data, self._progress.state.scales
        n_other, n_rejected = np.count_nonzero(values), float(np.sum(scales.noisy))
        if n_other < 0.5 * values.size and n_rejected > 0.5 * n_other:
            warnings.warn(
                f"{1.0 - n_other / values.size:.0%} of the entries of X are zero, and most of the others "
                "were classified as gross errors. If they are the signal, as in counts, pass noise='none'",
                UserWarning,
                stacklevel=6 + FIT_FRAMES,
            )

    def _keep(self, result: StepResult) -> None:
        """Let the model be what it is after a step, so that nothing is lost and callbacks can use it."""
        if not self.__sklearn_is_fitted__() or self._progress.state is not result.state:
            self._progress = Progress(result.state)

    def _learn(
        self,
        learner: Learner,
        source: Batch | Stream | Blocks,
        watch: Callable[[StepResult], object] | None,
        learn_from: Callable[..., Progress] = take,
    ) -> None:
        """Learn from a source; what is learnt from a stream is kept after every step."""
        if isinstance(source, Blocks):
            self._learn_blocks(learner, source, watch)
            return
        if watch is None and isinstance(source, Stream):
            watch = self._keep
        for row, batch in self._batches(source):
            progress = self.__dict__.get("_progress")
            if progress is None:
                progress = Progress(learner.start(batch.shape[1], batch.dtype, self._draw_seed()))
            rows = in_precision(batch, progress.state.L.dtype, row)
            if not progress.state.scales.weight and not progress.waiting:
                warn_if_tiny(rows)
            self._progress = learn_from(learner, progress, rows, watch)

    def _learn_blocks(
        self, learner: Learner, blocks: Blocks, watch: Callable[[StepResult], object] | None
    ) -> None:
        is_fitted = self.__sklearn_is_fitted__()
        if is_fitted:
            check_features(self, blocks.names, blocks.n_features, "the Dask collection")
        settings = RoundSettings(
            BatchReader(self._keeps_sparse),
            seed=0 if is_fitted else self._draw_seed(),
            batch_size=None if self.batch_size == "auto" else int(self.batch_size),
            half_life=self.half_life,
        )
        before = self._progress if is_fitted else None
        for progress, result in learn_blocks(learner, before, blocks, settings):
            if not self.__sklearn_is_fitted__():
                set_features(self, blocks.names, blocks.n_features)
            self._progress = progress
            if watch is not None and result is not None:
                watch(StepResult(progress.state, result.added))

    def _draw_seed(self) -> int:
        """Return the seed of the first basis; nothing is drawn if the basis is given."""
        return check_random_state(self.random_state).randint(2**31 - 1) if isinstance(self.init, str) else 0

    def _source(self, X: Samples, *, reset: bool) -> Batch | Stream | Blocks:
        """Return X as a validated batch, a stream or Dask blocks."""
        return Blocks.of(X) if is_streamed(X) and is_dask(X) else self._rows(X, reset=reset)

    def _rows(self, X: Samples, *, reset: bool = False) -> Batch | Stream:
        return open_stream(X) if is_streamed(X) else validate_array(self, X, reset=reset)

    def _batches(self, source: Batch | Stream) -> Iterator[tuple[int, Batch]]:
        """Yield the validated batches of a source, and the row at which each begins.

        The first batch of an unfitted model sets its features.
        """
        if isinstance(source, Batch):
            yield 0, source
            return
        read, row = BatchReader(self._keeps_sparse), source.first
        for raw in source.ahead():
            if self.__sklearn_is_fitted__():
                check_features(self, source.names, raw.shape[1], source.title)
            batch = read(raw, row)
            if not self.__sklearn_is_fitted__():
                set_features(self, source.names, batch.shape[1])
            yield row, batch
            row += len(batch)
        if not row:
            raise StreamError(f"{source.title}: has no samples")

    def _warn_of_rejection(self, learner: Learner) -> None:
        """Warn if so many entries were rejected that the model may be one of the rest."""
        state = self._progress.state
        model = learner.model_at(state) or state.entry_model
        if model is not None:
            if model.gross_share > MUCH_REJECTED:
                warnings.warn(
                    f"{model.gross_share:.0%} of the entries of X were classified as gross errors. If they "
                    "are not errors, pass noise='none'",
                    UserWarning,
                    stacklevel=4 + FIT_FRAMES,
                )
            return
        with limited_blas(1, *state.L.shape):
            rejects_entries = isinstance(self.noise, str) and self.noise in ("capped", "l1")
            if not rejects_entries or not state.is_nearly_zero:
                return
        warnings.warn(
            "the low-rank part is nearly zero: most of X was classified as gross errors. If most entries of "
            "X are zero or background, pass noise='none'; otherwise try another n_components",
            UserWarning,
            stacklevel=4 + FIT_FRAMES,
        )

    def _check_parameters(self) -> None:
        name = type(self).__name__
        for parameter, allowed in self._numbers.items():
            check_number(self, parameter, allowed)
        check_weight(self, "lambda1")
        check_weight(self, "lambda2")
        check_plugin(self, "noise", NOISES, Noise, NOISE_MEMBERS)
        check_plugin(self, "norm", self._norms, FactorNorm, NORM_MEMBERS)
        check_choice(self, "basis_update", ("exact", "bcd"))
        check_choice(self, "center", (False, True))
        check_choice(self, "whiten", (False, True))
        check_choice(self, "scale", ("auto", None))
        check_choice(self, "drift", ("auto", None))
        for parameter, weight in (("noise", "lambda2"), ("norm", "lambda1")):
            if not isinstance(getattr(self, parameter), str) and getattr(self, weight) != "auto":
                raise ValueError(
                    f"{weight}={getattr(self, weight)!r} of {name} has no effect on a {parameter} object; "
                    f"set it on the {parameter}"
                )
        if self.init is None or (isinstance(self.init, str) and self.init != "random"):
            raise invalid(self, "init", "'random' or an array of shape (n_components, n_features)")
        fitted = self._progress.state.L.shape[1] if self.__sklearn_is_fitted__() else self.n_components
        if self.n_components not in (None, "auto", fitted):
            raise ValueError(
                f"n_components of {name} was {fitted} when it was fitted and is now {self.n_components}; "
                "call fit to start anew"
            )

    # -- applying what was learnt ---------------------------------------------------------------------

    def decompose(self, X: Samples) -> Decomposition:
        """Split samples into a low-rank part, noise and a residual.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries, for which ``low_rank`` has a value too.

        Returns
        -------
        parts : Decomposition
            A named tuple of ``low_rank``, ``noise``, ``residual``, ``coefficients`` and ``converged``; of
            data frames with the index of X if X is a data frame of pandas, and of Dask arrays that are not
            computed yet if X is a Dask collection. If X is an array of images or of other samples of several
            dimensions, the first three have its shape.
        """
        parts = Decomposition(*self._apply(X, DecompositionAnswer()))
        if not is_pandas(X):
            return unfold(parts, X)
        columns = [f"component{i}" for i in range(parts.coefficients.shape[1])]
        return Decomposition(
            like(X, parts.low_rank),
            like(X, parts.noise),
            like(X, parts.residual),
            like(X, parts.coefficients, columns),
            like(X, parts.converged),
        )

    def score_samples(self, X: Samples) -> Array:
        """Return the score of each sample.

        With ``center`` or ``scale`` it is the log-likelihood of the observed entries, as for scikit-learn's
        ``PCA``, except that entries may be gross errors; otherwise it is minus the loss in Eq. (2.9). The
        higher the score, the better the sample fits the model; unusual samples have low scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        scores : ndarray of shape (n_samples,), or Dask array for a Dask collection
            The score of each sample.
        """
        return self._apply(X, ScoreAnswer(self._learner()))[0]

    def score(self, X: Samples, y: object = None) -> float:
        """Return the mean of :meth:`score_samples`.

        The log-likelihood of held-out samples finds the rank, also if some of their entries are gross errors.
        The loss does not: it always falls with the rank, so that it compares samples only.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.
        y : object, default=None
            Ignored; present for compatibility with pipelines.

        Returns
        -------
        score : float
            The mean score of the samples.
        """
        return float(np.mean(self.score_samples(X)))

    def _apply(self, X: Samples, answer: Answer, row_features: Array | None = None) -> list[Any]:
        """Return an answer for all samples of X, computed block by block from one snapshot of the model."""
        check_is_fitted(self)
        learner, state = self._snapshot()
        if is_dask(X) and row_features is None:
            return self._apply_lazily(X, learner, state, answer)
        parts, n_samples, n_unfinished = [], 0, 0
        source = self._rows(X) if row_features is None else self._source(X, reset=False)
        for _, rows in self._batches(with_features(source, row_features)):
            for block, code in apply(learner, state, rows, encoding=answer.needs_encoding(state)):
                parts.append(answer(block, code, state))
                n_samples += len(block)
                n_unfinished += int((~code.converged).sum())
        warn_if_unfinished(n_unfinished, n_samples, tol=self.tol, stacklevel=4)
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _apply_lazily(self, X: Samples, learner: Learner, state: State, answer: Answer) -> list[Any]:
        blocks = Blocks.of(X)
        check_features(self, blocks.names, blocks.n_features, "the Dask collection")
        dtype = np.dtype(np.float64) if blocks.is_sparse and self._keeps_sparse else blocks.dtype
        outputs = [output.with_dtype(output.dtype or dtype) for output in answer.outputs(state)]
        report = partial(warn_if_unfinished, tol=self.tol)
        return apply_lazily(learner, state, blocks, BatchReader(self._keeps_sparse), answer, outputs, report)

    # -- what was learnt ------------------------------------------------------------------------------

    @property
    def state_(self) -> State:
        """Everything that was learnt, waiting rows included; its arrays are read-only."""
        return self._current_state()

    def _snapshot(self) -> tuple[Any, State]:
        """Return the learner and the state, which belong together; an unfitted model has neither."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        learner = self._learner()
        return learner, self._current_state(learner)

    def _current_state(self, learner: Learner | None = None) -> State:
        """Return the state with the waiting rows learnt, which is remembered until something changes."""
        progress = self._progress
        if not progress.waiting:
            return progress.state.locked
        learner = learner or self._learner()
        cache = self.__dict__.get("_cache", Cache())
        ahead = cache.ahead
        if ahead is None or ahead[0] is not progress or ahead[1] is not learner:
            cache.ahead = ahead = (progress, learner, flush(learner, progress).state.locked)
        return ahead[2]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_cache"}

    @property
    def components_(self) -> Array:
        """Basis vectors in rows, an array of shape (n_components, n_features)."""
        return self.state_.L.T

    @property
    def n_components_(self) -> int:
        """Number of components."""
        state = self.state_ if self.n_components == "auto" else self._progress.state
        return int(state.L.shape[1])

    @property
    def n_samples_seen_(self) -> int:
        """Number of samples learnt from, each counted once per pass."""
        return self._progress.state.n_samples + self._progress.n_waiting

    @property
    def n_iter_(self) -> int:
        """Number of updates of the basis, that of the waiting rows included."""
        return self.state_.n_steps

    @property
    def lambda1_(self) -> float:
        """Weight of the norm in use, given or following the data."""
        learner, state = self._snapshot()
        return float(learner.norm_at(state).lambda1)

    @property
    def lambda2_(self) -> float:
        """Weight of the noise in use, given or following the data; NaN if the noise has none."""
        learner, state = self._snapshot()
        return float(getattr(learner.noise_at(state), "lambda2", math.nan))

    @property
    def selection_(self) -> dict[str, list[Any]]:
        """What was tried for "auto": components, weight per entry, prior, and error on held-out entries."""
        chosen = self.state_.selection
        tried = () if chosen is None else chosen.tried
        names = ("n_components", "weight", "prior", "error")
        return {name: [row[i] for row in tried] for i, name in enumerate(names)}

    @property
    def objective_(self) -> float:
        """The surrogate g_t(L) of Eq. (3.1), the weighted mean cost of the samples learnt from."""
        learner, state = self._snapshot()
        return surrogate(state, learner.norm_at(state))

    def __sklearn_is_fitted__(self) -> bool:
        return "_progress" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class CoefficientsMixin(ClassNamePrefixFeaturesOutMixin):  # type: ignore[misc]
    """Estimators whose ``transform`` returns coefficients in ``components_``."""

    @property
    def _whitening(self) -> Array | None:
        """Standard deviations by which coefficients are divided; None if they are not whitened."""
        return None

    def inverse_transform(self, R: ArrayLike) -> Array:
        """Return the low-rank samples that have given coefficients.

        Parameters
        ----------
        R : array-like of shape (n_samples, n_components)
            Coefficients, as ``transform`` returns them.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The product of the coefficients with ``components_``, plus the mean if there is one.
        """
        check_is_fitted(self)
        coefficients = check_array(R, dtype=[np.float64, np.float32], ensure_min_features=0, input_name="R")
        basis: Array = self.components_
        if coefficients.shape[1] != len(basis):
            raise ValueError(
                f"R has {coefficients.shape[1]} columns, but this {type(self).__name__} has "
                f"{len(basis)} components; pass what transform returned"
            )
        deviations = self._whitening
        if deviations is not None:
            coefficients = (coefficients * deviations).astype(coefficients.dtype)
        low_rank = coefficients @ basis
        mean = getattr(self, "mean_", None)
        return low_rank if mean is None else low_rank + mean.astype(coefficients.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class OnlineDecomposition(FactorModelMixin, CoefficientsMixin, OnlineFactorisation):
    """Estimators that decompose samples; ``transform`` returns their coefficients."""

    _numbers = NUMBERS | {"n_epochs": Number(Integral, 1, alternatives=("auto",))}

    def transform(self, X: Samples) -> Array:
        """Return the coefficients of samples in the learnt basis, solved to the tolerance ``tol``.

        With ``whiten``, they are divided by their standard deviations.

        The coefficients of a sample do not depend on the other samples. Samples that do not reach the
        tolerance in ``max_iter`` sweeps are reported by a ``ConvergenceWarning``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        R : ndarray of shape (n_samples, n_components), or Dask array for a Dask collection
            The coefficients of each sample.
        """
        check_is_fitted(self)
        return self._apply(X, CoefficientAnswer(self._whitening))[0]

    @property
    def changes_(self) -> list[Change]:
        """Changes of the stream that were noticed, oldest first."""
        return list(changes_until(self.state_))


def warn_if_unfinished(n_unfinished: int, n_samples: int, *, tol: float, stacklevel: int = 2) -> None:
    """Warn of samples whose coefficients did not reach the tolerance."""
    if n_unfinished:
        warnings.warn(
            f"{n_unfinished} of {n_samples} samples did not reach tol={tol}; "
            "raise max_iter, or accept the result with a larger tol",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def warn_if_tiny(rows: Batch) -> None:
    """Warn of samples that are too small for the arithmetic, before any others set the scale."""
    complaint = complaint_about_tiny(rows)
    if complaint is not None:
        warnings.warn(f"{complaint}, or ignore this if samples that follow are larger", stacklevel=4)


def with_features(source: Batch | Stream | Blocks, row_features: Array | None) -> Any:
    """Return samples together with their features."""
    if row_features is None:
        return source
    if not isinstance(source, Batch):
        raise ValueError(
            "row_features needs X to be an array, a data frame or a sparse matrix; read other sources in "
            "parts, and pass each part as an array together with the features of its rows"
        )
    if len(row_features) != len(source):
        raise ValueError(
            f"row_features has {len(row_features)} rows, but X has {len(source)}; pass one row for each row "
            "of X"
        )
    return replace(source, features=row_features)


def with_weights(
    source: Batch | Stream | Blocks, X: Samples, sample_weight: ArrayLike | None
) -> Batch | Stream | Blocks:
    """Return samples with their weights, without those of weight zero."""
    if sample_weight is None:
        return source
    if not isinstance(source, Batch):
        raise ValueError(
            "sample_weight needs X to be an array or a data frame; pass the rows of other sources to "
            "partial_fit as arrays, with their weights"
        )
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    used = weight > 0.0
    if not used.any():
        raise ValueError("sample_weight is zero for all samples; at least one must be positive")
    least = SMALLEST_WEIGHT[source.dtype.char]
    extreme = weight[used & ((weight < least) | (weight > 1.0 / least))]
    if len(extreme):
        raise ValueError(
            f"sample_weight has the value {extreme[0]:.3g}, but positive weights must be between {least:.0e} "
            f"and {1.0 / least:.0e} in {source.dtype} arithmetic; they count as repetitions, so divide them "
            "by their mean, or pass zero for samples that do not count"
        )
    return replace(source, weight=weight) if used.all() else replace(source, weight=weight)[used]


def warn_if_light(source: Batch | Stream | Blocks) -> None:
    """Warn if all samples together count as hardly more than one."""
    if isinstance(source, Batch) and source.weight is not None and len(source) > 2:
        total = float(source.weight.sum())
        if total < 2.0:
            warnings.warn(
                f"the values of sample_weight add up to {total:.3g}. They count as repetitions, so that all "
                "samples together count as fewer than two. Divide sample_weight by its mean",
                UserWarning,
                stacklevel=4,
            )


def is_streamed(X: Any) -> bool:
    """Return whether X is learnt from piece by piece: a stream, a Dask collection, a sparse matrix, records.

    An iterable that is no array, such as a generator or a loader of batches, is a stream as well.
    """
    if type(X) is np.ndarray:  # the common case, which must be fast for single rows
        return False
    if isinstance(X, Stream) or sp.issparse(X) or is_dask(X):  # some sparse matrices are dictionaries, too
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and isinstance(X[0], Mapping)
    if isinstance(X, Mapping):
        raise TypeError(
            "X is a dictionary, in which the order of samples and features is not known; pass "
            "pandas.DataFrame(X), or a list of records with one dictionary per sample"
        )
    if isinstance(X, str | os.PathLike):
        raise TypeError(f"X is the path {str(X)!r}; to read a file, pass maxnorm.open_stream({str(X)!r})")
    is_array = any(hasattr(X, name) for name in ("__array__", "shape", "__dataframe__"))
    return isinstance(X, Iterable) and not is_array
