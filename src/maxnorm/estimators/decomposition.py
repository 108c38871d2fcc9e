"""The estimators that decompose samples: thin classes around one implementation with a choice of norm."""

from __future__ import annotations

from typing import Literal

from numpy.typing import ArrayLike

from maxnorm.core.noise import Noise
from maxnorm.core.norms import BasisUpdate, FactorNorm
from maxnorm.estimators._base import OnlineDecomposition, RandomState


class MaxNormDecomposition(OnlineDecomposition):
    """Robust low-rank decomposition of a stream of samples, regularised by the max-norm.

    Each sample is split as ``z = L r + e + residual`` with ``norm(r) <= 1``: a combination of a few
    components, gross errors, and a small residual. The model minimises ::

        sum_i 1/2 |z_i - L r_i - e_i|^2 + lambda2 h(e_i)  +  lambda1 / 2 * max_j |row j of L|^2

    with samples weighted by recency and reliability. It is learnt in one pass and in memory
    O(n_features x n_components), however many samples there are. With the default noise this is robust PCA:
    up to half of the entries of a sample may be grossly wrong. NaN marks missing entries. The algorithm is
    OMRMD, online max-norm regularised matrix decomposition [1]_.

    Parameters
    ----------
    n_components : int, "auto" or None, default="auto"
        Number of components, which is the rank of the low-rank part or a bound on it. "auto" keeps the
        components that the data support: those of a factor model of the samples, or of the first ones of a
        stream. If there are many, entries are held out instead. None means 10, or half the number of features
        if there are fewer than 20. Without ``center``, add one to n_components if the data have a mean.
    norm : {"max", "nuclear"} or FactorNorm, default="max"
        Norm of the low-rank part: the max-norm, the nuclear norm of :class:`OnlineRobustPCA`, or an
        instance of a subclass of :class:`maxnorm.core.norms.FactorNorm`.
    noise : {"capped", "l1", "l21", "squared", "none"} or Noise, default="capped"
        What is unusual in the data. "capped" and "l1" find gross errors in single entries: "capped" rejects
        them, "l1" limits their influence and is the paper's choice. "l21" finds samples that are entirely
        wrong. "squared" and "none" assume dense noise only. An object with the methods of
        :class:`maxnorm.core.noise.Noise` is a noise model of one's own.
    lambda1 : float or "auto", default="auto"
        Weight of the norm. For the max-norm, "auto" is ``1 / sqrt(n_features)``, which has no unit.
    lambda2 : float or "auto", default="auto"
        Weight of the noise, in units of the data: errors that are much smaller remain in the residual. "auto"
        follows robust scales of the data and of the residual. For "capped" it is the least threshold; samples
        that are fitted badly have larger ones.
    batch_size : int or "auto", default="auto"
        Number of samples between two updates of the basis. "auto" starts with two fifths of the number of
        components, at least 10, and grows to a tenth of the samples seen, more slowly while the model still
        improves.
    forgetting : float or "auto", default="auto"
        The sample seen at time t has the weight ``t ** forgetting``: with 0 all samples have the same weight,
        with 10 the last tenth of them counts most. "auto" forgets fast while the residual is falling and
        slowly afterwards.
    half_life : float or None, default=None
        Number of samples after which the weight of a sample has halved. None means that samples lose weight
        by ``forgetting`` and, if the stream changes, by ``drift``.
    drift : "auto" or None, default="auto"
        Whether ``partial_fit``, and ``fit`` with a given ``n_epochs``, follow a stream that changes: if the
        basis lags behind, earlier samples lose weight, and if the samples are of a new process, learning
        starts anew. ``changes_`` reports it. It needs the default settings of ``batch_size``, ``forgetting``,
        ``half_life`` and of the weights. ``fit`` with ``n_epochs="auto"`` describes all samples alike.
    basis_update : {"exact", "bcd"}, default="exact"
        "exact" minimises the surrogate over the basis. "bcd" is Algorithm 4 of the paper as printed, which
        may diverge and then raises :class:`maxnorm.core.norms.DivergenceError`.
    max_iter : int or "auto", default="auto"
        Largest number of sweeps of the solver per sample. "auto" makes few while it learns from a poor basis,
        and up to 1000 in ``transform``.
    tol : float, default=1e-6
        Relative accuracy of the coefficients, as a KKT residual.
    n_epochs : int or "auto", default="auto"
        Number of passes of ``fit`` over the data. "auto" makes rounds over all samples as long as they
        improve the factor model, if the samples are few; otherwise it makes one pass, which starts from
        rounds over some of the samples if they are in memory. ``partial_fit`` always makes one pass.
    center : bool, default=True
        Whether the location of the samples is learnt. If not, a mean needs a component of its own.
    scale : "auto" or None, default="auto"
        "auto" gives every feature its own scale, so that units do not matter; ``lambda1`` and ``lambda2``
        then refer to samples in units of these scales. None is for features of one unit.
    whiten : bool, default=False
        Whether ``transform`` divides the coefficients by their standard deviations.
    init : "random" or array-like of shape (n_components, n_features), default="random"
        First basis. A random basis is orthonormal and is scaled to the data.
    random_state : int, RandomState or None, default=None
        Seed of the random first basis. Pass an int for results that can be repeated.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector per row: the principal axes of the low-rank part, orthonormal and in decreasing
        order of variance. For the paper's problem, it is the basis that minimises the objective.
    mean_ : ndarray of shape (n_features,)
        Mean of the samples without gross errors; only with ``center``.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the low-rank part along each component. This and what follows until ``noise_variance_``
        need ``center`` or ``scale``, weights that are "auto", and the noise "capped" or "none".
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Share of each component in the variance of samples without gross errors.
    singular_values_ : ndarray of shape (n_components,)
        Singular values of the low-rank part of the samples learnt from.
    noise_variance_ : ndarray of shape (n_features,)
        Variance of the dense noise of each feature.
    changes_ : list of Change
        Changes of the stream that ``partial_fit`` has noticed, oldest first. Each has a ``sample``, which is
        the number of samples before it, a ``kind`` ("new" if learning has started anew, "turn" if the basis
        has turned suddenly, "drift" if it turns slowly), and the ``angle``, in radians, by which it has
        turned.
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
    feature_shape_ : tuple of int
        Shape of a sample, if the model was fitted on an array of images or of other samples of several
        dimensions. Files that are read as streams are folded before, and have no such shape.

    See Also
    --------
    OnlineRobustPCA : The same with the nuclear norm.
    MaxNormCompletion : Fills missing entries, of which there may be many.
    PrincipalComponentPursuit : Batch robust PCA, for data that fit in memory.
    sklearn.decomposition.PCA : The better choice for complete data without gross errors.

    Notes
    -----
    A batch of b samples costs O(b p d) per sweep and O(p d^2 + d^3) for the basis, for p features and d
    components. Multiplying the data by c multiplies the low-rank part by c.

    References
    ----------
    .. [1] J. Shen, H. Xu, P. Li. Online optimization for large-scale max-norm regularization.
       Machine Learning 106, 2017.

    Examples
    --------
    A fifth of the entries of low-rank data are grossly wrong. The subspace is recovered all the same:

    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> from maxnorm.metrics import expressed_variance
    >>> data = make_corrupted_low_rank(1000, 100, 5, corruption=0.2, random_state=0)
    >>> model = MaxNormDecomposition(n_components=5, random_state=0).fit(data.X)
    >>> expressed_variance(data.basis, model.components_.T) > 0.99
    True

    The errors are found where they are, and the clean data are in ``low_rank``:

    >>> parts = model.decompose(data.X)
    >>> bool(((abs(parts.noise) > 10) == (abs(data.noise) > 10)).mean() > 0.99)
    True
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = "auto",
        *,
        norm: str | FactorNorm = "max",
        noise: str | Noise = "capped",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        forgetting: float | Literal["auto"] = "auto",
        half_life: float | None = None,
        drift: Literal["auto"] | None = "auto",
        basis_update: BasisUpdate = "exact",
        max_iter: int | Literal["auto"] = "auto",
        tol: float = 1e-6,
        n_epochs: int | Literal["auto"] = "auto",
        center: bool = True,
        scale: Literal["auto"] | None = "auto",
        whiten: bool = False,
        init: str | ArrayLike = "random",
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.norm = norm
        self.noise = noise
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.batch_size = batch_size
        self.forgetting = forgetting
        self.half_life = half_life
        self.drift = drift
        self.basis_update = basis_update
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.center = center
        self.scale = scale
        self.whiten = whiten
        self.init = init
        self.random_state = random_state


class OnlineRobustPCA(OnlineDecomposition):
    """Robust PCA of a stream of samples, regularised by the nuclear norm.

    This is :class:`MaxNormDecomposition` with ``norm="nuclear"``, the established method beside it. A sample
    is split as ``z = L r + e + residual``. Its coefficients cost ``lambda1 / 2 |r|^2`` and the basis costs
    ``lambda1 / 2 |L|_F^2``, which together amount to the nuclear norm. The algorithm is OR-PCA, online robust
    PCA [1]_, with the solver and the defaults of this library.

    Parameters
    ----------
    n_components : int, "auto" or None, default="auto"
        Number of components, which is the rank of the low-rank part or a bound on it. "auto" keeps the
        components that the data support: those of a factor model of the samples, or of the first ones of a
        stream. If there are many, entries are held out instead. None means 10, or half the number of features
        if there are fewer than 20. Without ``center``, add one to n_components if the data have a mean.
    noise : {"capped", "l1", "l21", "squared", "none"} or Noise, default="capped"
        What is unusual in the data. "capped" and "l1" find gross errors in single entries: "capped" rejects
        them, "l1" limits their influence and is the paper's choice. "l21" finds samples that are entirely
        wrong. "squared" and "none" assume dense noise only. An object with the methods of
        :class:`maxnorm.core.noise.Noise` is a noise model of one's own.
    lambda1 : float or "auto", default="auto"
        Weight of the nuclear norm, in units of the data. "auto" follows robust scales of the data.
    lambda2 : float or "auto", default="auto"
        Weight of the noise, in units of the data: errors that are much smaller remain in the residual. "auto"
        follows robust scales of the data and of the residual. For "capped" it is the least threshold; samples
        that are fitted badly have larger ones.
    batch_size : int or "auto", default="auto"
        Number of samples between two updates of the basis. "auto" starts with two fifths of the number of
        components, at least 10, and grows to a tenth of the samples seen, more slowly while the model still
        improves.
    forgetting : float or "auto", default="auto"
        The sample seen at time t has the weight ``t ** forgetting``: with 0 all samples have the same weight,
        with 10 the last tenth of them counts most. "auto" forgets fast while the residual is falling and
        slowly afterwards.
    half_life : float or None, default=None
        Number of samples after which the weight of a sample has halved. None means that samples lose weight
        by ``forgetting`` and, if the stream changes, by ``drift``.
    drift : "auto" or None, default="auto"
        Whether ``partial_fit``, and ``fit`` with a given ``n_epochs``, follow a stream that changes: if the
        basis lags behind, earlier samples lose weight, and if the samples are of a new process, learning
        starts anew. ``changes_`` reports it. It needs the default settings of ``batch_size``, ``forgetting``,
        ``half_life`` and of the weights. ``fit`` with ``n_epochs="auto"`` describes all samples alike.
    max_iter : int or "auto", default="auto"
        Largest number of sweeps of the solver per sample. "auto" makes few while it learns from a poor basis,
        and up to 1000 in ``transform``.
    tol : float, default=1e-6
        Relative accuracy of the coefficients, as a KKT residual.
    n_epochs : int or "auto", default="auto"
        Number of passes of ``fit`` over the data. "auto" makes rounds over all samples as long as they
        improve the factor model, if the samples are few; otherwise it makes one pass, which starts from
        rounds over some of the samples if they are in memory. ``partial_fit`` always makes one pass.
    center : bool, default=True
        Whether the location of the samples is learnt. If not, a mean needs a component of its own.
    scale : "auto" or None, default="auto"
        "auto" gives every feature its own scale, so that units do not matter; ``lambda1`` and ``lambda2``
        then refer to samples in units of these scales. None is for features of one unit.
    whiten : bool, default=False
        Whether ``transform`` divides the coefficients by their standard deviations.
    init : "random" or array-like of shape (n_components, n_features), default="random"
        First basis. A random basis is orthonormal and is scaled to the data.
    random_state : int, RandomState or None, default=None
        Seed of the random first basis. Pass an int for results that can be repeated.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, one vector per row: the principal axes of the low-rank part, orthonormal and in decreasing
        order of variance. For the paper's problem, it is the basis that minimises the objective.
    mean_ : ndarray of shape (n_features,)
        Mean of the samples without gross errors; only with ``center``.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the low-rank part along each component. This and what follows until ``noise_variance_``
        need ``center`` or ``scale``, weights that are "auto", and the noise "capped" or "none".
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Share of each component in the variance of samples without gross errors.
    singular_values_ : ndarray of shape (n_components,)
        Singular values of the low-rank part of the samples learnt from.
    noise_variance_ : ndarray of shape (n_features,)
        Variance of the dense noise of each feature.
    changes_ : list of Change
        Changes of the stream that ``partial_fit`` has noticed, oldest first. Each has a ``sample``, which is
        the number of samples before it, a ``kind`` ("new" if learning has started anew, "turn" if the basis
        has turned suddenly, "drift" if it turns slowly), and the ``angle``, in radians, by which it has
        turned.
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
    feature_shape_ : tuple of int
        Shape of a sample, if the model was fitted on an array of images or of other samples of several
        dimensions. Files that are read as streams are folded before, and have no such shape.

    See Also
    --------
    MaxNormDecomposition : The same with the max-norm, which bounds the coefficients of every sample.
    PrincipalComponentPursuit : Batch robust PCA, for data that fit in memory.

    References
    ----------
    .. [1] J. Feng, H. Xu, S. Yan. Online robust PCA via stochastic optimization. NIPS 2013.

    Examples
    --------
    Learn from a stream in pieces of any length, and use the coefficients as features:

    >>> from maxnorm import OnlineRobustPCA
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(500, 60, 3, random_state=0)
    >>> model = OnlineRobustPCA(n_components=3, random_state=0)
    >>> for start in range(0, 500, 50):
    ...     model = model.partial_fit(data.X[start : start + 50])
    >>> model.n_samples_seen_, model.transform(data.X).shape
    (500, (500, 3))
    """

    norm = "nuclear"

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = "auto",
        *,
        noise: str | Noise = "capped",
        lambda1: float | Literal["auto"] = "auto",
        lambda2: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        forgetting: float | Literal["auto"] = "auto",
        half_life: float | None = None,
        drift: Literal["auto"] | None = "auto",
        max_iter: int | Literal["auto"] = "auto",
        tol: float = 1e-6,
        n_epochs: int | Literal["auto"] = "auto",
        center: bool = True,
        scale: Literal["auto"] | None = "auto",
        whiten: bool = False,
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
        self.drift = drift
        self.max_iter = max_iter
        self.tol = tol
        self.n_epochs = n_epochs
        self.center = center
        self.scale = scale
        self.whiten = whiten
        self.init = init
        self.random_state = random_state
