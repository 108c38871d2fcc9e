"""The estimator that fills in missing entries."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from maxnorm.completion import CompletionChoice, Recommendations, best_columns, predict, recommend
from maxnorm.core.batch import Batch
from maxnorm.core.linalg import row_norms
from maxnorm.core.noise import L1, Noise
from maxnorm.core.norms import BasisUpdate
from maxnorm.core.types import Array
from maxnorm.dask.blocks import Blocks
from maxnorm.entries import ROUNDS, EntryLearner
from maxnorm.estimators._base import (
    NUMBERS,
    OnlineFactorisation,
    RandomState,
    Samples,
    with_features,
)
from maxnorm.estimators.answers import CompletionAnswer, PredictionAnswer, Range, clip
from maxnorm.estimators.callbacks import FIT_FRAMES, Callback, Monitor, StopLearning, with_callbacks
from maxnorm.estimators.sampling import is_repeatable
from maxnorm.estimators.validation import (
    Number,
    check_choice,
    check_number,
    check_side_features,
    check_weight,
    invalid,
    warn_of_empty_columns,
)
from maxnorm.learner import Learner, Progress
from maxnorm.sparse import CompletionLearner, SparseLearner
from maxnorm.streams import Stream, open_stream

MORE_PASSES = 2  # over samples that can be read again, if they are too many to be used in every round
MAX_NORM_WITH_FEATURES = (
    "row_features and column_features need norm='auto'; leave norm and the settings of the max-norm at their "
    "defaults"
)


class MaxNormCompletion(OneToOneFeatureMixin, OnlineFactorisation):  # type: ignore[misc]
    """Completion of missing entries from a low-rank model, for tables with gaps and for ratings.

    ``transform`` returns X with its gaps filled, also for rows that were never seen before;
    ``predict_entries`` returns chosen entries with their standard deviations, and ``recommend`` the best
    columns of each row. Nothing need be set: units, location, noise, the number of components and the
    strength of the regularisation follow from the data.

    Of two models the one that suits the data is used. Tables are described by the factor model of
    :class:`MaxNormDecomposition`. Ratings, and other matrices with few observed entries, are described by
    factors and biases of rows and columns, which are known with uncertainty only; *which* entries are
    observed is taken into account as well. With ``norm="max"``, or with any of the settings that belong to
    it, the algorithm is OMRMC, online max-norm regularised matrix completion [1]_.

    X is an array with NaN for missing entries, or a SciPy sparse matrix of which every stored entry is
    observed, zeros included. A sparse matrix is never made dense. An entry that is stored more than once
    counts as its mean.

    Parameters
    ----------
    n_components : int, "auto" or None, default="auto"
        Number of components, which is the rank of the low-rank part or a bound on it. With "auto" it follows
        from the evidence for a table, and from held-out entries for the max-norm; for ratings it is at most
        20, of which those that are not needed vanish. None means 10, or half the number of features if there
        are fewer than 20.
    norm : {"auto", "max"}, default="auto"
        "auto" is the model that suits the data. "max" is the max-norm, the problem of the paper. It is also
        chosen by setting any of ``lambda1``, ``lambda2``, ``c``, ``gram``, ``forgetting``, ``basis_update``,
        ``max_iter`` and ``init``, which belong to it, or another noise than "none" and "capped".
    noise : {"none", "capped", "l1", "l21", "squared"} or Noise, default="none"
        What is unusual in the observed entries. "none" trusts them; "capped" fills and predicts robustly
        where some of them are grossly wrong, in tables and in ratings. The others are those of
        :class:`MaxNormDecomposition`.
    implicit : bool or "auto", default="auto"
        Whether it matters which entries are observed, whatever their values, as it does for ratings. "auto"
        takes it into account if less than half of the entries are observed.
    lambda1 : float or "auto", default="auto"
        Weight of the max-norm. "auto" chooses a weight per observed entry by the error on entries that are
        held out of the first samples; with another noise than "none" it is ``1 / sqrt(n_features)``.
    lambda2 : float or "auto", default="auto"
        Weight of the noise, in units of the data.
    c : float or None, default=None
        The c of Eq. (5.1) of the paper: observed entries may err at a cost of c per unit, and missing ones
        count as zeros at a cost of 1 / c per unit. None is the limit of large c, in which missing entries
        cost nothing; use it unless you study the paper. Other values need ``noise="none"``.
    biases : bool or "auto", default="auto"
        Whether rows have biases, as people who rate have. "auto" gives them biases if all columns have the
        same units and few entries are observed; with the max-norm it means False, and True needs
        ``noise="none"``.
    value_range : tuple (low, high) or None, default=None
        Bounds of the values that are filled in, predicted and recommended, for example ``(1, 5)`` for stars.
    gram : {"auto", "shared", "per-feature"}, default="auto"
        One Gram matrix for all features, as in the paper, or one per feature, in memory O(n_features x
        n_components^2). "auto" takes the latter if less than four fifths are observed. It belongs to the
        max-norm.
    batch_size : int or "auto", default="auto"
        Number of samples between two updates of the basis. "auto" grows to a tenth of the samples seen.
    forgetting : float or "auto", default="auto"
        The sample seen at time t has the weight ``t ** forgetting``: with 0 all samples have the same weight,
        with 10 the last tenth of them counts most. "auto" forgets fast while the residual is falling and
        slowly afterwards.
    half_life : float or None, default=None
        Number of samples after which the weight of a sample has halved, for streams that drift. None means
        that samples lose weight only by ``forgetting``.
    basis_update : {"exact", "bcd"}, default="exact"
        "exact" minimises the surrogate over the basis. "bcd" is Algorithm 4 of the paper as printed, which
        may diverge and then raises :class:`maxnorm.core.norms.DivergenceError`.
    max_iter : int or "auto", default="auto"
        Largest number of sweeps of the solver per sample. "auto" makes few while it learns from a poor basis,
        and up to 1000 in ``transform``.
    tol : float, default=1e-6
        Relative accuracy of the coefficients, as a KKT residual.
    n_epochs : int or "auto", default="auto"
        Number of passes of ``fit`` over the data. "auto" uses all samples in rounds if they are few, and
        makes a few passes over more of them if they can be read again; with the max-norm it means 1.
    init : "random" or array-like of shape (n_components, n_features), default="random"
        First basis. A random basis is orthonormal and is scaled to the data.
    random_state : int, RandomState or None, default=None
        Seed of the random first basis. Pass an int for results that can be repeated.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector per row, in the units of the data.
    n_components_ : int
        Number of components.
    n_samples_seen_ : int
        Number of samples learnt from, each counted once per pass.
    n_iter_ : int
        Number of updates of the basis.
    lambda1_ : float
        Weight of the norm in use, given or following the data.
    lambda2_ : float
        Weight of the noise in use, given or following the data.
    objective_ : float
        Weighted mean cost of the samples learnt from, the surrogate of Eq. (3.1).
    selection_ : dict of lists
        What was tried for "auto", with the error on held-out entries.
    state_ : maxnorm.core.state.State
        Everything that is carried from batch to batch; its arrays are read-only.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of str
        Names of the features, if the data have names.

    See Also
    --------
    MaxNormDecomposition : Decomposes data that are nearly complete.
    sklearn.impute.IterativeImputer : Imputation by regression on the other features, for small tables.

    References
    ----------
    .. [1] J. Shen, H. Xu, P. Li. Online optimization for large-scale max-norm regularization, section 5.
       Machine Learning 106, 2017.

    Examples
    --------
    Every third value of the second column is missing. The other columns determine it:

    >>> import numpy as np
    >>> from maxnorm import MaxNormCompletion
    >>> X = np.outer(np.arange(1.0, 41.0), [1.0, 2.0, 3.0, 4.0])
    >>> X[::3, 1] = np.nan
    >>> filled = MaxNormCompletion(random_state=0).fit_transform(X)
    >>> bool(abs(filled[6, 1] - 14.0) < 0.01)
    True
    """

    _keeps_sparse = True
    _norms = ("auto", "max")
    _numbers = NUMBERS | {"n_epochs": Number(Integral, 1, alternatives=("auto",))}

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = "auto",
        *,
        norm: Literal["auto", "max"] = "auto",
        noise: str | Noise = "none",
        implicit: bool | Literal["auto"] = "auto",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        c: float | None = None,
        biases: bool | Literal["auto"] = "auto",
        value_range: Range = None,
        gram: Literal["auto", "shared", "per-feature"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        forgetting: float | Literal["auto"] = "auto",
        half_life: float | None = None,
        basis_update: BasisUpdate = "exact",
        max_iter: int | Literal["auto"] = "auto",
        tol: float = 1e-6,
        n_epochs: int | Literal["auto"] = "auto",
        init: str | ArrayLike = "random",
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.norm = norm
        self.noise = noise
        self.implicit = implicit
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.c = c
        self.biases = biases
        self.value_range = value_range
        self.gram = gram
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.half_life = half_life
        self.basis_update = basis_update
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.init = init
        self.random_state = random_state

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Samples,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        row_features: ArrayLike | None = None,
        column_features: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the model to X, in rounds over all samples if they are few, or in passes over batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), sparse matrix, Stream, or Dask array or data frame
            Samples in rows. NaN marks missing entries; in a sparse matrix, entries that are not stored.
        y : object, default=None
            Ignored; present for compatibility with pipelines.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each sample counts, as if it were there so many times.
        row_features : array-like of shape (n_samples, n_row_features), default=None
            Features of the rows, such as the age of people who rate. NaN marks unknown values. They help to
            predict rows with few entries or none. X must be an array, a data frame or a sparse matrix.
        column_features : array-like of shape (n_features, n_column_features), default=None
            Features of the columns, such as the genres of films. NaN marks unknown values. They help to
            predict columns with few entries or none.
        callback : callable, default=None
            Called with a :class:`maxnorm.learner.StepResult` after every batch, or every round on Dask. If it
            returns True, fitting stops.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        row_features = check_side_features("row_features", row_features, X)
        self._column_features = check_side_features("column_features", column_features, X)
        try:
            return self._fit(X, sample_weight, callback, row_features)
        finally:
            del self._column_features

    def partial_fit(
        self,
        X: Samples,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        row_features: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from more samples; memory does not grow with their number.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), sparse matrix, Stream, or Dask array or data frame
            Samples in rows. NaN marks missing entries.
        y : object, default=None
            Ignored; present for compatibility with pipelines.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each sample counts, as in :meth:`fit`.
        row_features : array-like of shape (n_samples, n_row_features), default=None
            Features of the rows, as in :meth:`fit`.
        callback : callable, default=None
            Called after every batch that was learnt from, as in :meth:`fit`.

        Returns
        -------
        self : object
            The estimator.
        """
        features = check_side_features("row_features", row_features, X)
        if features is not None:
            self._check_more_row_features(features)
        return self._partial_fit(X, sample_weight, callback, features)

    def fit_transform(
        self, X: Samples, y: object = None, *, row_features: ArrayLike | None = None, **fit_params: Any
    ) -> Array:
        """Fit the model to X and fill in its missing entries.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries; in a sparse matrix, entries that are not stored.
        y : object, default=None
            Ignored; present for compatibility with pipelines.
        row_features : array-like of shape (n_samples, n_row_features), default=None
            Features of the rows, as in :meth:`fit`.
        **fit_params : dict
            Further arguments of :meth:`fit`.

        Returns
        -------
        X_filled : ndarray of shape (n_samples, n_features), or Dask array for a Dask collection
            The samples without gaps.
        """
        fitted = self.fit(X, y, row_features=row_features, **fit_params)
        return fitted.transform(X, row_features=row_features)

    def transform(self, X: Samples, *, row_features: ArrayLike | None = None) -> Array:
        """Fill in the missing entries; observed entries stay as they are.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries; in a sparse matrix, entries that are not stored.
        row_features : array-like of shape (n_samples, n_row_features), default=None
            Features of the rows, as in :meth:`fit`. None means that they are unknown.

        Returns
        -------
        X_filled : ndarray of shape (n_samples, n_features), or Dask array for a Dask collection
            The samples without gaps.
        """
        row_features = self._check_row_features(row_features, X)
        return self._apply(X, CompletionAnswer(self.value_range), row_features)[0]

    def predict_entries(
        self,
        X: Samples,
        rows: ArrayLike | None = None,
        columns: ArrayLike | None = None,
        *,
        return_std: bool = False,
        row_features: ArrayLike | None = None,
    ) -> Any:
        """Return the predicted values of chosen entries, from the observed entries of their rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The observed entries.
        rows : array-like of int, default=None
            Rows of the chosen entries. Nothing else is computed. None means all entries.
        columns : array-like of int, default=None
            Columns of the chosen entries, one for each row.
        return_std : bool, default=False
            Whether to return the standard deviations of the true values about the predictions as well. They
            are NaN with the max-norm, which has no statistical model.
        row_features : array-like of shape (n_samples, n_row_features), default=None
            Features of the rows of X, as in :meth:`fit`. None means that they are unknown.

        Returns
        -------
        values : ndarray
            The prediction of the model for each chosen entry, even where X is observed.
        deviations : ndarray
            The standard deviations, if they are asked for. The true value of an entry that is not observed is
            within 1.64 of them in nine cases out of ten.
        """
        row_features = self._check_row_features(row_features, X)
        if rows is None and columns is None and not return_std:
            return self._apply(X, PredictionAnswer(self.value_range), row_features)[0]
        (learner, state), Z = self._snapshot(), self._all_rows(X, row_features)
        if (rows is None) != (columns is None):
            raise ValueError("rows and columns are the two parts of positions; pass both of them or neither")
        shape: tuple[int, ...] = Z.shape
        if rows is None or columns is None:
            positions = tuple(index.ravel() for index in np.indices(shape))
        else:
            positions = _as_index(rows), _as_index(columns)
            shape = positions[0].shape
            _check_positions(positions, Z.shape)
        if not positions[0].size:
            return (np.empty(0), np.empty(0)) if return_std else np.empty(0)
        found = predict(learner, state, Z, positions)
        values = clip(found.values.reshape(shape), self.value_range)
        return (values, found.deviations.reshape(shape)) if return_std else values

    def recommend(
        self,
        X: Samples,
        k: int = 10,
        *,
        rank: Literal["auto", "value"] = "auto",
        row_features: ArrayLike | None = None,
    ) -> Recommendations:
        """Return the best columns of each row, observed columns excluded.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The observed entries.
        k : int, default=10
            Number of columns per row.
        rank : {"auto", "value"}, default="auto"
            What is best: with "auto" the columns that are most likely wanted *and* liked, going by what rows
            with similar columns have; with "value" those with the highest predicted values, many of which are
            columns that hardly anybody wants. The two are the same unless the model takes into account which
            entries are observed (see ``implicit``).
        row_features : array-like of shape (n_samples, n_row_features), default=None
            Features of the rows, as in :meth:`fit`. None means that they are unknown.

        Returns
        -------
        best : Recommendations
            A named tuple of ``columns`` and ``values``, both of shape (n_samples, k), best first; -1 and NaN
            where a row has fewer columns left. The values are predictions.
        """
        row_features = self._check_row_features(row_features, X)
        if not Number(Integral, 1).allows(k):
            raise ValueError(f"k must be an integer of at least 1, got {k!r}")
        if rank not in ("auto", "value"):
            raise ValueError(f"rank must be 'auto' or 'value', got {rank!r}")
        learner, state = self._snapshot()
        known = self._all_rows(X, row_features)
        columns, values = recommend(learner, state, known, k, by_value=rank == "value")
        return Recommendations(columns, clip(values, self.value_range))

    def similar_columns(self, columns: ArrayLike, k: int = 10) -> Recommendations:
        """Return the columns that are most like given ones, going by their factors.

        Parameters
        ----------
        columns : array-like of int of shape (n,)
            The given columns.
        k : int, default=10
            Number of similar columns for each.

        Returns
        -------
        similar : Recommendations
            A named tuple of ``columns`` and ``values``, both of shape (n, k), most similar first. The values
            are the cosines of the angles between the columns of ``components_``.
        """
        check_is_fitted(self)
        L = self.components_.T.astype(np.float64)
        given = np.atleast_1d(_as_index(columns))
        _check_positions((given, given), (len(L), len(L)))
        L /= np.maximum(row_norms(L), np.finfo(np.float64).tiny)[:, None]
        cosines = L[given] @ L.T
        cosines[np.arange(len(given)), given] = -np.inf
        best = best_columns(cosines, min(k, len(L) - 1))
        return Recommendations(best, np.take_along_axis(cosines, best, axis=1))

    @property
    def components_(self) -> Array:
        """Basis vectors in rows, an array of shape (n_components, n_features), in the units of the data."""
        state = self.state_
        if state.gauge is None:
            return state.L.T
        return (state.L * state.gauge.scale[:, None]).T.astype(state.L.dtype)

    def _all_rows(self, X: Samples, row_features: Array | None) -> Batch:
        """Return the observed entries of all rows, together with their features."""
        batches = [batch for _, batch in self._batches(self._rows(X))]
        found: Batch = with_features(Batch(Batch.join(batches).entries()), row_features)
        return found

    def _check_row_features(self, row_features: ArrayLike | None, X: Samples) -> Array | None:
        """Return the features of the rows of X, if they are those that the model has learnt from."""
        check_is_fitted(self)
        features = check_side_features("row_features", row_features, X)
        if features is not None:
            model = self._snapshot()[1].entry_model
            check_width(features, 0 if model is None else model.pattern.n_given)
        return features

    def _check_more_row_features(self, features: Array) -> None:
        """Raise an error if features of rows to learn from are not like those of earlier rows."""
        if self._has_max_norm:
            raise ValueError(MAX_NORM_WITH_FEATURES)
        if not self.__sklearn_is_fitted__():
            return
        state, waiting = self._progress.state, self._progress.waiting
        if state.entry_model is not None:
            check_width(features, state.entry_model.pattern.n_given)
        elif state.time:
            check_width(features, 0)
        else:
            for batch in waiting:
                if batch.features is not None:
                    check_width(features, batch.features.shape[1])

    def make_learner(self) -> Learner:
        """Return the learner that the parameters describe, after checking them.

        Override this method to wrap or replace the learner of an estimator.

        Returns
        -------
        learner : maxnorm.completion.CompletionChoice or maxnorm.sparse.CompletionLearner
            An immutable value, which knows nothing of what was learnt.
        """
        self._check_parameters()
        if not self._has_max_norm:
            return self._automatic_learner()
        if self.c is not None:
            dense = self._dense_learner(
                norm="max", noise=L1(float(self.c)), missing_lambda2=1.0 / float(self.c)
            )
            return CompletionLearner(dense, gram=self.gram)
        dense = self._dense_learner(norm="max")
        if not self._entries_are_exact:
            return CompletionLearner(dense, gram=self.gram)
        sparse = SparseLearner(
            self.lambda1, self.forgetting, self.half_life, biases=self.biases is True, init=dense.init
        )
        return CompletionLearner(dense, sparse, self.gram)

    def _automatic_learner(self, *, in_rounds: bool = False) -> CompletionChoice:
        """Return the learner that chooses a model, for data in memory or for a stream."""
        first_entries = ROUNDS.entries_in_memory if in_rounds else ROUNDS.entries
        table = self._dense_learner(norm="nuclear", center=True, scale=True)
        given = self.__dict__.get("_column_features")  # which exists only during fit
        entries = EntryLearner(
            self.n_components,
            self.implicit,
            self.biases,
            first_entries,
            self.batch_size,
            self.half_life,
            is_robust=self.noise == "capped",
            column_features=given,
        )
        return CompletionChoice(
            table,
            entries,
            only_entries=self.biases is True or given is not None,
            in_rounds=in_rounds,
        )

    @property
    def _has_max_norm(self) -> bool:
        """Whether the problem is the paper's, because it was asked for or one of its settings was given."""
        is_usual = isinstance(self.noise, str) and self.noise in ("none", "capped")
        given = (self.lambda1, self.lambda2, self.gram, self.forgetting, self.max_iter)
        is_untouched = all(isinstance(value, str) and value == "auto" for value in given)
        is_exact = self.c is None and self.basis_update == "exact" and isinstance(self.init, str)
        return self.norm == "max" or not (is_usual and is_untouched and is_exact)

    def _source(self, X: Samples, *, reset: bool) -> Batch | Stream | Blocks:
        if not sp.issparse(X):
            return super()._source(X, reset=reset)
        whole = open_stream(X, batch_size=max(X.shape[0], 1))  # which is in memory, and may have weights
        return Batch.join([batch for _, batch in self._batches(whole)])

    # -- passes ---------------------------------------------------------------------------------------

    def _fit_source(self, learner: Learner, source: Batch | Stream | Blocks, monitor: Monitor) -> None:
        if not isinstance(learner, CompletionChoice):
            if self._column_features is not None or getattr(source, "features", None) is not None:
                raise ValueError(MAX_NORM_WITH_FEATURES)
            super()._fit_source(learner, source, monitor)
            return
        if isinstance(source, Batch) and not source.is_sparse and self._column_features is None:
            warn_of_empty_columns(source.values, stacklevel=4 + FIT_FRAMES)
        chosen: Learner = learner
        if not isinstance(source, Blocks) and is_repeatable(source):
            choice = self._automatic_learner(in_rounds=(self.n_epochs, self.batch_size) == ("auto", "auto"))
            chosen = choice.settled(self._first_rows(choice, source))
        super()._fit_source(chosen, source, monitor)

    def _fit_automatically(self, learner: Learner, source: Batch | Stream | Blocks, monitor: Monitor) -> None:
        if not isinstance(learner, CompletionChoice):
            super()._fit_automatically(learner, source, monitor)
            return
        with monitor.fit(1 + MORE_PASSES), suppress(StopLearning):
            self._one_pass(learner, source, monitor)
            if is_repeatable(source) and self._progress.state.n_steps > 1:
                for _ in range(MORE_PASSES):
                    self._one_pass(learner, source, monitor)

    def _one_pass(self, learner: Learner, source: Batch | Stream | Blocks, monitor: Monitor) -> None:
        """Learn from all samples; in later passes each replaces what it was in the pass before."""
        progress = self.__dict__.get("_progress")
        if progress is not None and progress.state.entry_sums is not None:
            seen = progress.state.entry_sums.weight
            self._progress = Progress(replace(progress.state, repeated_weight=seen), progress.waiting)
        super()._one_pass(learner, source, monitor)
        self._progress = Progress(replace(self._progress.state, repeated_weight=0.0))

    def _first_rows(self, choice: CompletionChoice, source: Batch | Stream) -> Batch:
        """Return the rows of a source from which the model is chosen."""
        parts: list[Batch] = []
        for _, batch in self._batches(source):
            parts.append(batch)
            rows = Batch.join(parts)
            size = choice.sample_size(rows)
            if size is not None:
                return rows[:size]
        return rows

    @property
    def _entries_are_exact(self) -> bool:
        return isinstance(self.noise, str) and self.noise == "none" and self.c is None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "c", Number(Real, excluded=True, alternatives=(None,)))
        check_weight(self, "c")
        if self.c is not None and self.noise != "none":
            raise ValueError(
                f"c={self.c!r} is itself a noise model; leave noise at 'none', got {self.noise!r}"
            )
        check_choice(self, "biases", ("auto", True, False))
        check_choice(self, "implicit", ("auto", True, False))
        is_solved = self._entries_are_exact and self.basis_update == "exact"
        if self.biases is True and self._has_max_norm and not is_solved:
            raise ValueError(
                "biases=True needs noise='none', c=None and basis_update='exact' with the max-norm"
            )
        self._check_same_model()
        check_choice(self, "gram", ("auto", "shared", "per-feature"))
        check_choice(self, "norm", self._norms)
        bounds: Any = self.value_range
        if bounds is not None:
            is_pair = np.ndim(bounds) == 1 and len(bounds) == 2 and all(isinstance(x, Real) for x in bounds)
            if not (is_pair and bounds[0] < bounds[1]):
                raise invalid(self, "value_range", "a pair (low, high) with low < high or None")

    def _check_same_model(self) -> None:
        """Raise an error if the parameters describe another model than the one that was learnt."""
        learnt = self._progress.state if self.__sklearn_is_fitted__() else None
        if learnt is None or not learnt.time:
            return
        name = type(self).__name__
        has_max_norm = learnt.entry_model is None and learnt.gauge is None
        if has_max_norm != self._has_max_norm:
            was, now = ("max", "auto") if has_max_norm else ("auto", "max")
            raise ValueError(
                f"norm of {name} was {was!r} when it was fitted, and the parameters now mean {now!r}; "
                "call fit to start anew"
            )
        if has_max_norm and (self.biases is True) != (learnt.biases is not None):
            raise ValueError(
                f"biases of {name} was {self.biases is not True} when it was fitted and is now "
                f"{self.biases}; call fit to start anew"
            )


def _check_positions(positions: tuple[Any, Any], shape: tuple[int, int]) -> None:
    """Raise an error if positions are not pairs of a row and a column of a matrix."""
    if positions[0].shape != positions[1].shape or positions[0].ndim != 1:
        raise ValueError(
            "rows and columns must be one-dimensional and of the same length, got "
            f"{positions[0].shape} and {positions[1].shape}"
        )
    for name, index, length in zip(("rows", "columns"), positions, shape, strict=True):
        if index.size and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= length):
            raise ValueError(f"{name} must be integers from 0 to {length - 1}; got {index.dtype} {index}")


def _as_index(values: ArrayLike) -> Any:
    """Return an array of positions; an empty list is one of integers."""
    index = np.asarray(values)
    return index if index.size else index.astype(np.intp)


def check_width(features: Array, n_learnt: int) -> None:
    """Raise an error if features of rows are not as many as those that were learnt from."""
    if features.shape[1] != n_learnt:
        raise ValueError(
            f"row_features has {features.shape[1]} columns, but the model has learnt from {n_learnt}; pass "
            "the same features of rows as before"
        )
