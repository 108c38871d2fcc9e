"""The estimator that fills in missing entries."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from maxnorm.core.batch import Batch
from maxnorm.core.noise import L1, Noise
from maxnorm.core.norms import BasisUpdate
from maxnorm.core.types import Array
from maxnorm.estimators._base import OnlineFactorisation, RandomState, Samples
from maxnorm.estimators.answers import CompletionAnswer, PredictionAnswer, Range, clip
from maxnorm.estimators.validation import Number, check_choice, check_number, check_weight, invalid
from maxnorm.sparse import CompletionLearner, Recommendations, SparseLearner


class MaxNormCompletion(OneToOneFeatureMixin, OnlineFactorisation):  # type: ignore[misc]
    """Completion of missing entries from a low-rank model of the stream, regularised by the max-norm.

    ``transform`` returns X with its gaps filled, also for rows that were never seen before; ``predict``
    returns chosen entries and ``recommend`` the best ones of each row. The model minimises the squared error
    of the observed entries plus the max-norm. It is learnt in one pass and in memory that does not grow with
    the number of rows. The algorithm is OMRMC, online max-norm regularised matrix completion [1]_.

    X is an array with NaN for missing entries, or a SciPy sparse matrix of which every stored entry is
    observed, zeros included. A sparse matrix is never made dense. An entry that is stored more than once
    counts as its mean.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of components, which is the rank of the low-rank part or a bound on it. "auto" chooses it by
        the error on entries that are held out of the first samples. None means 10, or half the number of
        features if there are fewer than 20.
    noise : {"none", "capped", "l1", "l21", "squared"} or Noise, default="none"
        What is unusual in the observed entries. "none" trusts them; "capped" fills robustly where some of
        them are grossly wrong. The others are those of :class:`MaxNormDecomposition`.
    lambda1 : float or "auto", default="auto"
        Weight of the max-norm. "auto" chooses a weight per observed entry by the error on entries that are
        held out of the first samples; with another noise than "none" it is ``1 / sqrt(n_features)``.
    lambda2 : float or "auto", default="auto"
        Weight of the noise, in units of the data.
    c : float or None, default=None
        The c of Eq. (5.1) of the paper: observed entries may err at a cost of c per unit, and missing ones
        count as zeros at a cost of 1 / c per unit. None is the limit of large c, in which missing entries
        cost nothing; use it unless you study the paper. Other values need ``noise="none"``.
    biases : bool, default=False
        Whether entries are first explained by a mean and by the biases of their row and column, which suits
        ratings. It needs ``noise="none"``.
    value_range : tuple (low, high) or None, default=None
        Bounds of the values that are filled in, predicted and recommended, for example ``(1, 5)`` for stars.
    gram : {"auto", "shared", "per-feature"}, default="auto"
        One Gram matrix for all features, as in the paper, or one per feature, in memory O(n_features x
        n_components^2). "auto" takes the latter if less than four fifths are observed.
    batch_size : int or "auto", default="auto"
        Number of samples between two updates of the basis. "auto" starts with two fifths of the number of
        components, at least 10, and grows to a tenth of the samples seen, more slowly while the model still
        improves.
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
    n_epochs : int, default=1
        Number of passes of ``fit`` over the data.
    init : "random" or array-like of shape (n_components, n_features), default="random"
        First basis. A random basis is orthonormal and is scaled to the data.
    random_state : int, RandomState or None, default=None
        Seed of the random first basis. Pass an int for results that can be repeated.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector per row; read-only.
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
    >>> filled = MaxNormCompletion(n_components=1, n_epochs=20, random_state=0).fit_transform(X)
    >>> bool(abs(filled[6, 1] - 14.0) < 0.5)
    True
    """

    _keeps_sparse = True

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = None,
        *,
        noise: str | Noise = "none",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        c: float | None = None,
        biases: bool = False,
        value_range: Range = None,
        gram: Literal["auto", "shared", "per-feature"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        forgetting: float | Literal["auto"] = "auto",
        half_life: float | None = None,
        basis_update: BasisUpdate = "exact",
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

    def transform(self, X: Samples) -> Array:
        """Fill in the missing entries; observed entries stay as they are.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries; in a sparse matrix, entries that are not stored.

        Returns
        -------
        X_filled : ndarray of shape (n_samples, n_features), or Dask array for a Dask collection
            The samples without gaps.
        """
        return self._apply(X, CompletionAnswer(self.value_range))[0]

    def predict(self, X: Samples, rows: ArrayLike | None = None, columns: ArrayLike | None = None) -> Array:
        """Return the predicted values of chosen entries, from the observed entries of their rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The observed entries.
        rows : array-like of int, default=None
            Rows of the chosen entries. Nothing else is computed. None means all entries.
        columns : array-like of int, default=None
            Columns of the chosen entries, one for each row.

        Returns
        -------
        values : ndarray
            The prediction of the model for each chosen entry, even where X is observed.
        """
        check_is_fitted(self)
        if rows is None and columns is None:
            return self._apply(X, PredictionAnswer(self.value_range))[0]
        (learner, state), Z = self._snapshot(), self._all_rows(X)
        if rows is None or columns is None:
            raise ValueError("rows and columns are the two parts of positions; pass both of them or neither")
        positions = _as_index(rows), _as_index(columns)
        if positions[0].shape != positions[1].shape or positions[0].ndim != 1:
            raise ValueError(
                "rows and columns must be one-dimensional and of the same length, got "
                f"{positions[0].shape} and {positions[1].shape}"
            )
        for name, index, length in zip(("rows", "columns"), positions, Z.shape, strict=True):
            if index.size and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= length):
                raise ValueError(f"{name} must be integers from 0 to {length - 1}; got {index.dtype} {index}")
        if not positions[0].size:
            return np.empty(0)
        return clip(learner.predict(Z, state, positions), self.value_range)

    def recommend(self, X: Samples, k: int = 10) -> Recommendations:
        """Return the columns with the highest predicted values in each row, observed columns excluded.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The observed entries.
        k : int, default=10
            Number of columns per row.

        Returns
        -------
        best : Recommendations
            A named tuple of ``columns`` and ``values``, both of shape (n_samples, k), best first; -1 and NaN
            where a row has fewer columns left.
        """
        check_is_fitted(self)
        if not Number(Integral, 1).allows(k):
            raise ValueError(f"k must be an integer of at least 1, got {k!r}")
        learner, state = self._snapshot()
        columns, values = learner.recommend(self._all_rows(X), state, k)
        return Recommendations(columns, clip(values, self.value_range))

    def _all_rows(self, X: Samples) -> Batch:
        """Return the observed entries of all rows."""
        batches = [batch for _, batch in self._batches(self._rows(X))]
        return Batch(Batch.join(batches).entries())

    def make_learner(self) -> CompletionLearner:
        """Return the learner that the parameters describe, after checking them.

        Override this method to wrap or replace the learner of an estimator.

        Returns
        -------
        learner : maxnorm.sparse.CompletionLearner
            An immutable value, which knows nothing of what was learnt.
        """
        self._check_parameters()
        if self.c is not None:
            dense = self._dense_learner(noise=L1(float(self.c)), missing_lambda2=1.0 / float(self.c))
            return CompletionLearner(dense, gram=self.gram)
        dense = self._dense_learner()
        if not self._entries_are_exact:
            return CompletionLearner(dense, gram=self.gram)
        sparse = SparseLearner(
            self.lambda1, self.forgetting, self.half_life, biases=bool(self.biases), init=dense.init
        )
        return CompletionLearner(dense, sparse, self.gram)

    @property
    def _entries_are_exact(self) -> bool:
        return isinstance(self.noise, str) and self.noise == "none" and self.c is None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        name = type(self).__name__
        check_number(self, "c", Number(Real, excluded=True, alternatives=(None,)))
        check_weight(self, "c")
        if self.c is not None and self.noise != "none":
            raise ValueError(
                f"c={self.c!r} is itself a noise model; leave noise at 'none', got {self.noise!r}"
            )
        if not isinstance(self.biases, bool | np.bool_):
            raise invalid(self, "biases", "True or False")
        if self.biases and not (self._entries_are_exact and self.basis_update == "exact"):
            raise ValueError("biases=True needs noise='none', c=None and basis_update='exact'")
        learnt = self._progress.state if self.__sklearn_is_fitted__() else None
        if learnt is not None and learnt.time and bool(self.biases) != (learnt.biases is not None):
            raise ValueError(
                f"biases of {name} was {not self.biases} when it was fitted and is now {self.biases}; call "
                "fit to start anew"
            )
        check_choice(self, "gram", ("auto", "shared", "per-feature"))
        bounds: Any = self.value_range
        if bounds is not None:
            is_pair = np.ndim(bounds) == 1 and len(bounds) == 2 and all(isinstance(x, Real) for x in bounds)
            if not (is_pair and bounds[0] < bounds[1]):
                raise invalid(self, "value_range", "a pair (low, high) with low < high or None")


def _as_index(values: ArrayLike) -> Any:
    """Return an array of positions; an empty list is one of integers."""
    index = np.asarray(values)
    return index if index.size else index.astype(np.intp)
