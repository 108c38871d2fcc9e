"""The scikit-learn classes: validation, names, NaN to mask, ``"auto"`` to numbers; nothing numerical."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from maxnorm import auto
from maxnorm._threads import limited_blas
from maxnorm._typing import Array, Mask
from maxnorm.noise import L1, L21, Noise, NoNoise, Squared
from maxnorm.norms import FactorNorm, MaxNorm, NuclearNorm
from maxnorm.online import Encoding, State, encode, split_missing, step, surrogate
from maxnorm.statistics import Scales

BLOCK_ENTRIES = 2**21  # entries of X that transform and friends look at in one go

RandomState = int | np.random.RandomState | None


class Decomposition(NamedTuple):
    """``X = low_rank + noise + residual`` wherever X was observed."""

    low_rank: Array  #: the part in the span of the basis, complete even where X was missing
    noise: Array  #: gross errors found; zero where X was missing
    residual: Array  #: what neither explains; zero where X was missing
    coefficients: Array  #: coefficients of each sample in ``components_``
    converged: Mask  #: whether the solver met its tolerance, sample by sample


class _OnlineFactorisation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share; subclasses say which norm and which noise."""

    n_components: int | None
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
    state_: State

    _missing_lambda2 = 0.0

    # -- learning -----------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Forget everything and learn from X, in ``n_epochs`` passes over consecutive batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        Z = self._validated(X, reset=True)
        self.state_ = self._start(Z)
        for _ in range(self.n_epochs):
            self._learn(Z)
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from more samples; memory does not grow with their number.

        Any number of rows from one up will do. Larger chunks are split into batches of ``batch_size``;
        calling this with consecutive batches gives exactly what ``fit`` gives on all of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        first = not hasattr(self, "state_")
        Z = self._validated(X, reset=first)
        if first:
            self.state_ = self._start(Z)
        self._learn(Z.astype(self.state_.L.dtype, copy=False))
        return self

    def _start(self, Z: Array) -> State:
        p = Z.shape[1]
        d = auto.default_components(p) if self.n_components is None else int(self.n_components)
        if not isinstance(self.init, str):
            return State.start(self._given_basis(p, d).astype(Z.dtype))
        rng = check_random_state(self.random_state)
        # Orthonormal columns; orthonormal rows if there are more components than features.
        L = np.linalg.qr(rng.standard_normal((max(p, d), min(p, d))))[0]
        return State.start((L if p >= d else L.T).astype(Z.dtype))

    def _given_basis(self, p: int, d: int) -> Array:
        init = check_array(self.init, dtype=np.float64, input_name="init")
        expected = (len(init) if self.n_components is None else d, p)
        if init.shape != expected:
            raise ValueError(
                f"init must have shape (n_components, n_features) = {expected}, got {init.shape}; "
                "pass the components_ of another model or init='random'"
            )
        return init.T

    def _learn(self, Z: Array) -> None:
        d = self.state_.L.shape[1]
        size = auto.batch_size(d) if self.batch_size == "auto" else int(self.batch_size)
        with limited_blas(min(size, len(Z)) * Z.shape[1] * d):
            for rows in gen_batches(len(Z), size):
                self.state_, _ = self._step(self.state_, Z[rows])

    def _step(self, state: State, Z: Array) -> tuple[State, Encoding]:
        Z, observed = split_missing(Z)
        scales = state.scales
        if not scales.weight:  # nothing but zeros so far
            scales = auto.first_look(Z)
            size = self._basis_size(scales, *state.L.shape)
            if isinstance(self.init, str) and size > 0.0:
                state = replace(state, L=state.L * state.L.dtype.type(size))
        noise = self._noise(scales, *state.L.shape)
        return step(
            state,
            Z,
            observed,
            norm=self._norm(scales, *state.L.shape),
            noise=noise,
            forgetting=auto.forgetting(scales) if self.forgetting == "auto" else float(self.forgetting),
            half_life=self.half_life,
            tol=self.tol,
            max_iter=auto.fit_sweeps(scales, noise) if self.max_iter == "auto" else int(self.max_iter),
            missing_lambda2=self._missing_lambda2,
        )

    # -- settings -----------------------------------------------------------------------------------

    def _norm(self, scales: Scales, p: int, d: int) -> FactorNorm:
        raise NotImplementedError

    def _basis_size(self, scales: Scales, p: int, d: int) -> float:
        """Size to which a random orthonormal basis is brought when the first data are seen."""
        raise NotImplementedError

    def _noise(self, scales: Scales, p: int, d: int) -> Noise:
        if not isinstance(self.noise, str):
            return self.noise
        given = None if self.lambda2 == "auto" else float(self.lambda2)
        if self.noise == "l1":
            return L1(auto.l1_lambda2(scales, d) if given is None else given)
        if self.noise == "l21":
            return L21(auto.l21_lambda2(scales, p) if given is None else given)
        if self.noise == "squared":
            return Squared(1.0 if given is None else given)
        return NoNoise()

    def _check_parameters(self) -> None:
        name = type(self).__name__
        for parameter, kind, allowed, alternative in (
            ("n_components", Integral, "an integer of at least 1", None),
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
            least = 1 if kind is Integral else 0
            above = parameter == "half_life"
            if not _is_number(value, kind, least, above=above) and not _same(value, alternative):
                raise _invalid(name, parameter, value, allowed, alternative)
        known = {"l1", "l21", "squared", "none"}
        if self.noise not in known if isinstance(self.noise, str) else not isinstance(self.noise, Noise):
            raise _invalid(
                name,
                "noise",
                self.noise,
                "one of 'l1' (sparse errors), 'l21' (outlying samples), 'squared', 'none', or an object with "
                "the methods prox and value of maxnorm.noise.Noise",
            )
        if isinstance(self.init, str) and self.init != "random":
            raise _invalid(name, "init", self.init, "'random' or an array (n_components, n_features)")

    def _validated(self, X: ArrayLike, *, reset: bool) -> Array:
        Z = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False, order="C"
        )
        if np.isinf(Z).any():
            row, column = np.argwhere(np.isinf(Z))[0]
            raise ValueError(
                f"X contains infinity, first in row {row}, column {column}; "
                "mark entries that are not known as NaN, or clip them"
            )
        return Z

    # -- using what was learnt ----------------------------------------------------------------------

    def decompose(self, X: ArrayLike) -> Decomposition:
        """Split samples into a low-rank part, noise and a residual.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries; ``low_rank`` has a value there too.

        Returns
        -------
        Decomposition
            Named tuple ``low_rank, noise, residual, coefficients, converged``.
        """
        parts = []
        for _, observed, code in self._encoded(X):
            residual = code.residual if observed is None else np.where(observed, code.residual, 0)
            low_rank = code.R @ self.components_.astype(code.R.dtype, copy=False)
            parts.append(
                (low_rank, code.E, residual.astype(code.R.dtype, copy=False), code.R, code.converged)
            )
        return Decomposition(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def score_samples(self, X: ArrayLike) -> Array:
        """Minus the loss of each sample, Eq. (2.9): the higher, the more normal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.concatenate([-code.loss for _, _, code in self._encoded(X)])

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Mean of :meth:`score_samples`, for model selection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X)))

    def _encoded(self, X: ArrayLike) -> Iterator[tuple[Array, Mask | None, Encoding]]:
        """Encode X block by block, so that work space does not grow with the number of samples."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        L = self.state_.L.astype(X.dtype, copy=False)
        block = max(1, BLOCK_ENTRIES // X.shape[1])
        unfinished = 0
        with limited_blas(min(block, len(X)) * L.size):
            for rows in gen_batches(len(X), block):
                Z, observed = split_missing(X[rows])
                code = encode(
                    Z,
                    L,
                    observed,
                    norm=self._norm(self.state_.scales, *L.shape),
                    noise=self._noise(self.state_.scales, *L.shape),
                    tol=self.tol,
                    max_iter=auto.MAX_SWEEPS if self.max_iter == "auto" else int(self.max_iter),
                    missing_lambda2=self._missing_lambda2,
                )
                unfinished += int((~code.converged).sum())
                yield Z, observed, code
        if unfinished:
            warnings.warn(
                f"{unfinished} of {len(X)} samples did not reach tol={self.tol}; "
                "raise max_iter, or accept the result with a larger tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    # -- what was learnt ----------------------------------------------------------------------------

    @property
    def components_(self) -> Array:
        """Basis vectors in rows, of shape (n_components, n_features)."""
        return self.state_.L.T

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return int(self.state_.L.shape[1])

    @property
    def n_samples_seen_(self) -> int:
        """Number of samples learnt from, each counted once a pass."""
        return self.state_.n_samples

    @property
    def n_iter_(self) -> int:
        """Number of updates of the basis."""
        return self.state_.n_steps

    @property
    def lambda1_(self) -> float:
        """Weight of the norm in use."""
        return float(self._norm(self.state_.scales, *self.state_.L.shape).lambda1)

    @property
    def lambda2_(self) -> float:
        """Weight of the noise in use: given, or following the data; NaN if the noise has none."""
        noise = self._noise(self.state_.scales, *self.state_.L.shape)
        return float(getattr(noise, "lambda2", math.nan))

    @property
    def objective_(self) -> float:
        """The surrogate g_t(L), Eq. (3.1): average cost of the samples learnt from, as remembered."""
        return surrogate(self.state_, self._norm(self.state_.scales, *self.state_.L.shape))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class _OnlineDecomposition(ClassNamePrefixFeaturesOutMixin, _OnlineFactorisation):  # type: ignore[misc]
    """Estimators whose transform gives coefficients."""

    def transform(self, X: ArrayLike) -> Array:
        """Coefficients of samples in the learnt basis, solved to the tolerance ``tol``.

        A sample's coefficients do not depend on the others. Samples that do not reach the tolerance in
        ``max_iter`` sweeps are reported by a ``ConvergenceWarning``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return np.concatenate([code.R for _, _, code in self._encoded(X)])

    def inverse_transform(self, R: ArrayLike) -> Array:
        """Low-rank samples with the given coefficients.

        Parameters
        ----------
        R : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        coefficients = check_array(R, dtype=[np.float64, np.float32], input_name="R")
        if coefficients.shape[1] != self.state_.L.shape[1]:
            raise ValueError(
                f"R has {coefficients.shape[1]} columns, but this {type(self).__name__} has "
                f"{self.state_.L.shape[1]} components; pass what transform returned"
            )
        return coefficients @ self.components_

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


class MaxNormDecomposition(_OnlineDecomposition):
    """Robust low-rank decomposition of a stream of samples, regularised by the max-norm (OMRMD).

    Each sample is split as ``z = L r + e + residual`` with ``norm(r) <= 1``. Over all samples seen this
    minimises ::

        sum_i 1/2 |z_i - L r_i - e_i|^2 + lambda2 h(e_i)  +  lambda1 / 2 * max_j |row j of L|^2

    in one pass and in memory O(n_features x n_components), however many samples there are. With the
    default noise this is robust PCA: a few entries of a sample may be grossly wrong. NaN means missing,
    everywhere. There is no centring: data with a mean spend a component on it.

    Parameters
    ----------
    n_components : int or None
        Rank of the low-rank part, or a bound on it. None takes 10, or half the features if fewer than 20.
    noise : {"l1", "l21", "squared", "none"} or Noise
        What is unusual in the data: single entries ("l1"), whole samples ("l21"), nothing ("squared",
        "none"), or any object with the methods of :class:`maxnorm.noise.Noise`.
    lambda1 : float or "auto"
        Weight of the max-norm. "auto" is ``1 / sqrt(n_features)``; it has no unit.
    lambda2 : float or "auto"
        Weight of the noise, in units of the data: errors much smaller than this are left in the
        residual. "auto" follows robust scales of the data and of the residual.
    batch_size : int or "auto"
        Samples between two updates of the basis.
    forgetting : float or "auto"
        A sample seen at time t counts as ``t ** forgetting``: 0 never forgets, 10 remembers the last
        tenth. "auto" forgets fast while the basis improves and little afterwards.
    half_life : float or None
        For streams that drift: samples lose at least half their weight over this many samples.
    basis : {"exact", "bcd"}
        "exact" minimises over the basis; "bcd" is Algorithm 4 of the paper as printed, which may diverge
        and then raises :class:`maxnorm.norms.DivergenceError`.
    max_iter : int or "auto"
        Sweeps of the solver for a sample. "auto" spends few while learning from a poor basis, and up to
        1000 in ``transform``.
    tol : float
        Relative accuracy (KKT residual) to which coefficients are solved.
    n_epochs : int
        Passes of ``fit`` over the data.
    init : "random" or array of shape (n_components, n_features)
        First basis. A random one is orthonormal, brought to the size of the data.
    random_state : int, RandomState or None
        Seed of the random first basis.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector a row.
    n_samples_seen_ : int
        Samples learnt from.
    lambda1_, lambda2_ : float
        Weights in use, given or found.
    objective_ : float
        Average cost of the samples learnt from, as remembered.
    state_ : maxnorm.online.State
        All that is carried from batch to batch.

    Notes
    -----
    A batch of b samples costs O(b p d) a sweep and O(p d^2 + d^3) for the basis, for p features and d
    components. Multiplying the data by c multiplies the low-rank part by c.

    References
    ----------
    J. Shen, H. Xu, P. Li. Online optimization for large-scale max-norm regularization. Machine Learning
    106, 2017.

    Examples
    --------
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> from maxnorm.metrics import expressed_variance
    >>> data = make_corrupted_low_rank(1000, 100, 5, corruption=0.2, random_state=0)
    >>> model = MaxNormDecomposition(n_components=5, random_state=0).fit(data.X)
    >>> expressed_variance(data.basis, model.components_.T) > 0.99
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        noise: str | Noise = "l1",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
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
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.half_life = half_life
        self.basis = basis
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.init = init
        self.random_state = random_state

    def _norm(self, scales: Scales, p: int, d: int) -> MaxNorm:
        return _max_norm(self.lambda1, p, self.basis)

    def _basis_size(self, scales: Scales, p: int, d: int) -> float:
        return auto.unit(scales, p, d)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_basis(self)


class OnlineRobustPCA(_OnlineDecomposition):
    """Robust PCA of a stream, regularised by the nuclear norm (OR-PCA).

    The established method beside :class:`MaxNormDecomposition`, with the same solver, defaults and
    manners. Coefficients pay ``lambda1 / 2 |r|^2`` each, and the basis ``lambda1 / 2 |L|_F^2``, which
    together make the nuclear norm.

    Parameters
    ----------
    n_components : int or None
        Rank of the low-rank part, or a bound on it. None takes 10, or half the features if fewer than 20.
    noise : {"l1", "l21", "squared", "none"} or Noise
        What is unusual in the data: single entries, whole samples, or nothing.
    lambda1 : float or "auto"
        Weight of the nuclear norm, in units of the data.
    lambda2 : float or "auto"
        Weight of the noise, in units of the data.
    batch_size, forgetting, half_life, max_iter, tol, n_epochs, init, random_state
        As in :class:`MaxNormDecomposition`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector a row.
    n_samples_seen_ : int
        Samples learnt from.
    lambda1_, lambda2_ : float
        Weights in use, given or found.
    objective_ : float
        Average cost of the samples learnt from, as remembered.
    state_ : maxnorm.online.State
        All that is carried from batch to batch.

    References
    ----------
    J. Feng, H. Xu, S. Yan. Online robust PCA via stochastic optimization. NIPS 2013.

    Examples
    --------
    >>> from maxnorm import OnlineRobustPCA
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(500, 60, 3, random_state=0)
    >>> OnlineRobustPCA(n_components=3, random_state=0).fit_transform(data.X).shape
    (500, 3)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        noise: str | Noise = "l1",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        forgetting: float | Literal["auto"] = "auto",
        half_life: float | None = None,
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
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.half_life = half_life
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.init = init
        self.random_state = random_state

    def _norm(self, scales: Scales, p: int, d: int) -> NuclearNorm:
        if self.lambda1 == "auto":
            return NuclearNorm(auto.nuclear_lambda1(scales, d))
        return NuclearNorm(float(self.lambda1))

    def _basis_size(self, scales: Scales, p: int, d: int) -> float:
        # Basis and coefficients share the size of the data between them.
        return math.sqrt(auto.unit(scales, p, d))


class MaxNormCompletion(OneToOneFeatureMixin, _OnlineFactorisation):  # type: ignore[misc]
    """Fill in missing entries from a low-rank model of the stream, regularised by the max-norm (OMRMC).

    ``transform`` returns X with its NaN filled, for rows never seen before too. Learning minimises the
    squared error over observed entries plus the max-norm, in one pass and in memory
    O(n_features x n_components).

    Parameters
    ----------
    n_components : int or None
        Rank of the model, or a bound on it. None takes 10, or half the features if fewer than 20.
    noise : {"none", "l1", "l21", "squared"} or Noise
        "none" trusts the observed entries; "l1" fills robustly where some of them are grossly wrong.
    lambda1 : float or "auto"
        Weight of the max-norm.
    lambda2 : float or "auto"
        Weight of the noise, in units of the data.
    c : float or None
        The c of Eq. (5.1): observed entries may err at a cost of ``c`` a unit, missing ones count as zeros
        at a cost of ``1 / c``. None is the limit of large c, where missing entries cost nothing; it is
        what you want unless you study the paper. Only with ``noise="none"``.
    batch_size, forgetting, half_life, basis, max_iter, tol, n_epochs, init, random_state
        As in :class:`MaxNormDecomposition`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector a row.
    n_samples_seen_ : int
        Samples learnt from.
    lambda1_, lambda2_ : float
        Weights in use, given or found.
    objective_ : float
        Average cost of the samples learnt from, as remembered.
    state_ : maxnorm.online.State
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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        noise: str | Noise = "none",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        c: float | None = None,
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
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.half_life = half_life
        self.basis = basis
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.init = init
        self.random_state = random_state

    def transform(self, X: ArrayLike) -> Array:
        """Fill in what is missing; what was observed stays as it is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        blocks = []
        for Z, observed, code in self._encoded(X):
            low_rank = code.R @ self.components_.astype(Z.dtype, copy=False)
            blocks.append(Z.copy() if observed is None else np.where(observed, Z, low_rank))
        return np.concatenate(blocks)

    def _norm(self, scales: Scales, p: int, d: int) -> MaxNorm:
        return _max_norm(self.lambda1, p, self.basis)

    def _basis_size(self, scales: Scales, p: int, d: int) -> float:
        return auto.unit(scales, p, d)

    def _noise(self, scales: Scales, p: int, d: int) -> Noise:
        return super()._noise(scales, p, d) if self.c is None else L1(float(self.c))

    @property
    def _missing_lambda2(self) -> float:  # type: ignore[override]
        return 0.0 if self.c is None else 1.0 / float(self.c)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_basis(self)
        if self.c is not None:
            if not _is_number(self.c, Real, 0, above=True):
                raise _invalid(type(self).__name__, "c", self.c, "a finite number above 0", None)
            if self.noise != "none":
                raise ValueError(
                    f"c={self.c!r} is itself a noise model; leave noise at 'none', got {self.noise!r}"
                )


def _max_norm(lambda1: float | str, p: int, basis: Literal["exact", "bcd"]) -> MaxNorm:
    return MaxNorm(1.0 / math.sqrt(p) if lambda1 == "auto" else float(lambda1), basis)


def _check_basis(estimator: MaxNormDecomposition | MaxNormCompletion) -> None:
    if estimator.basis not in ("exact", "bcd"):
        raise _invalid(type(estimator).__name__, "basis", estimator.basis, "'exact' or 'bcd'")


def _is_number(value: object, kind: type, least: int, *, above: bool = False) -> bool:
    if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
        return False
    number = float(value)  # type: ignore[arg-type]
    return math.isfinite(number) and (number > least if above else number >= least)


def _same(value: object, alternative: object) -> bool:
    return value is None if alternative is None else isinstance(value, str) and value == alternative


def _invalid(
    estimator: str, parameter: str, value: object, allowed: str, alternative: object = ...
) -> ValueError:
    choice = "" if alternative is ... else f" or {alternative!r}"
    return ValueError(f"{parameter} of {estimator} must be {allowed}{choice}, got {value!r}")
