"""Noise models: what the part of a sample that the basis does not explain costs.

A noise model is the regulariser ``lambda2 * h(e)`` of Eq. (1.1), given by its value and its proximal
operator. An object with the two methods of :class:`Noise` can be passed to the estimators as ``noise=``.
The noise models with a name are listed in :data:`NOISES` at the end of this file, each with the rule that
sets its parameters from what has been seen of the data.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import sqrt
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from maxnorm.core.linalg import row_norms, row_scales, soft_threshold
from maxnorm.core.precision import UNBOUNDED
from maxnorm.core.scales import Scales
from maxnorm.core.state import State
from maxnorm.core.types import Array


@runtime_checkable
class Noise(Protocol):
    """The two methods that every noise model has. Rows are samples, and each row is treated on its own.

    A noise model sees zeros where an entry is missing, and must leave zeros as they are.

    See Also
    --------
    RowNoise : A noise model that shrinks whole rows, which the solver can use.
    AdaptiveNoise : A noise model whose thresholds follow the residual.
    WeightingNoise : A noise model that gives unreliable samples less weight.

    Notes
    -----
    The optional abilities are inherited from the three classes above. Methods of the same name alone have no
    effect, so that a noise model may have any other methods.

    Examples
    --------
    >>> import numpy as np
    >>> class Huber:  # the noise model behind Huber's loss
    ...     def prox(self, V):
    ...         return V - np.clip(V, -0.5, 0.5)
    ...
    ...     def value(self, E):
    ...         return 0.5 * np.abs(E).sum(axis=1)
    >>> isinstance(Huber(), Noise)
    True
    """

    def prox(self, V: Array) -> Array:
        """Return the minimiser E of ``1/2 |V - E|^2 + lambda2 h(E)``, row by row.

        Parameters
        ----------
        V : array of shape (n_samples, n_features)
            Residuals of the samples.

        Returns
        -------
        array of shape (n_samples, n_features)
            The noise of each sample; zero where V is zero.
        """
        ...

    def value(self, E: Array) -> Array:
        """Return the cost ``lambda2 h(e)`` of each row.

        Parameters
        ----------
        E : array of shape (n_samples, n_features)
            Noise of the samples.

        Returns
        -------
        array of shape (n_samples,)
            The cost of each sample.
        """
        ...


class RowNoise(ABC):
    """A noise model that shrinks a row as a whole: ``prox(v) = (1 - weight(v)) v``.

    The residual v then gives the direction of the gradient whatever its length, so that the encoder can take
    a full step (for the max-norm a single one suffices) where the general alternation makes small steps.

    Examples
    --------
    >>> from maxnorm.core.noise import L1, L21, RowNoise
    >>> isinstance(L21(1.0), RowNoise), isinstance(L1(1.0), RowNoise)
    (True, False)
    """

    @abstractmethod
    def weight(self, V: Array) -> Array:
        """Return the share of each row of V that is left to the basis, between 0 and 1."""


class AdaptiveNoise(ABC):
    """A noise model whose thresholds depend on the residual that they are applied to.

    The encoder adapts the thresholds during the first sweeps and then keeps them, so that it can converge.

    Examples
    --------
    >>> from maxnorm.core.noise import AdaptiveNoise, CappedL1, L1
    >>> isinstance(CappedL1(1.0, cut=4.0), AdaptiveNoise), isinstance(L1(1.0), AdaptiveNoise)
    (True, False)
    """

    @abstractmethod
    def thresholds(self, V: Array) -> Array:
        """Return the thresholds for each row of V, in one row each."""

    @abstractmethod
    def influence(self, V: Array, thresholds: Array, out: Array | None = None) -> Array:
        """Return the influence of V on the coefficients, V - prox(V), at the given thresholds.

        ``out`` is work space that may hold the result.
        """

    @abstractmethod
    def loss(self, V: Array, thresholds: Array) -> Array:
        """Return the minimum over E of ``1/2 |V - E|^2 + lambda2 h(E)`` for each row, at the thresholds."""


class WeightingNoise(ABC):
    """A noise model that gives unreliable samples less weight in the basis update.

    Examples
    --------
    >>> from maxnorm.core.noise import L1, L21, WeightingNoise
    >>> isinstance(L21(1.0), WeightingNoise), isinstance(L1(1.0), WeightingNoise)
    (True, False)
    """

    @abstractmethod
    def sample_weight(self, V: Array) -> Array:
        """Return the weight of each sample, between 0 and 1, given its final residual."""


@cache
def compiled() -> ModuleType | None:
    """Return the loops compiled by Numba (the extra ``fast``), or None if Numba is not installed."""
    try:
        from maxnorm.core import compiled as loops
    except ImportError:
        return None
    return loops


@dataclass(frozen=True)
class L1:
    """``lambda2 * |e|_1``: a few entries of a sample are grossly wrong (robust PCA), as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.noise import L1
    >>> L1(1.0).prox(np.array([[0.5, -3.0, 20.0]])).tolist()  # every error is shortened by lambda2
    [[0.0, -2.0, 19.0]]
    """

    lambda2: float

    def prox(self, V: Array) -> Array:
        return soft_threshold(V, self.lambda2)

    def value(self, E: Array) -> Array:
        return self.lambda2 * np.abs(E).sum(axis=1)


@dataclass(frozen=True, eq=False)
class CappedL1(AdaptiveNoise, WeightingNoise):
    """``lambda2 * |e|`` that levels off beyond ``cut``: gross errors are rejected.

    Under the l1 norm a gross error keeps an influence of lambda2 on the fit. Here the influence decreases
    from ``cut`` on and vanishes from ``2 * cut`` on (Hampel's function). The price is that the problem
    is not convex, so that the starting point matters. Therefore the thresholds of a sample are at least
    ``huber`` and ``reject`` times the robust scale of its residual: a sample that is fitted badly, as all
    samples are at first, is treated leniently, and as the fit improves the thresholds approach ``lambda2``
    and ``cut``. A sample whose residual has a robust scale above ``largest`` gets less weight.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.noise import CappedL1
    >>> noise = CappedL1(1.0, cut=4.0, huber=0.0, reject=0.0)
    >>> noise.prox(np.array([[0.5, -3.0, 20.0]])).tolist()  # a large error is rejected as a whole
    [[0.0, -2.0, 20.0]]
    """

    lambda2: float
    cut: float  #: at least lambda2
    huber: float = 1.0  #: least lambda2, in robust scales of the sample's residual
    reject: float = 4.0  #: least cut, in robust scales of the sample's residual
    components: int = 0  #: d components fitted to n entries shrink the residual by sqrt(1 - d / n)
    leniency: Array | float = 1.0  #: factor of the thresholds, per feature
    largest: float = np.inf  #: robust scale of the residual above which a sample loses weight

    def thresholds(self, V: Array) -> Array:
        bulk, entries = row_scales(V, reach=2.0 * self.reject)
        fit = np.sqrt(np.maximum(1.0 - self.components / np.maximum(entries, 1.0), 0.05))
        bulk = np.minimum(bulk, self.largest) / fit
        huber, reject = np.maximum(self.huber * bulk, self.lambda2), np.maximum(self.reject * bulk, self.cut)
        thresholds = np.empty((len(V), 2), V.dtype)
        thresholds[:, 0] = huber
        thresholds[:, 1] = np.maximum(np.maximum(reject, huber), np.finfo(V.dtype).tiny)  # a divisor
        return thresholds

    def _spread(self, thresholds: Array) -> tuple[Array, Array]:
        leniency = np.asarray(self.leniency, dtype=thresholds.dtype)
        if not leniency.ndim:
            return thresholds[:, :1], thresholds[:, 1:]
        return thresholds[:, :1] * leniency, thresholds[:, 1:] * leniency

    def _lenient(self, V: Array) -> Array:
        return np.broadcast_to(np.asarray(self.leniency, dtype=V.dtype), V.shape[1:]).copy()

    def influence(self, V: Array, thresholds: Array, out: Array | None = None) -> Array:
        fast = compiled()
        if fast is not None:
            out = np.empty_like(V) if out is None else out
            fast.influence(V, thresholds, self._lenient(V), out)
            return out
        huber, reject = self._spread(thresholds)
        fading: Array = np.abs(V, out=out)
        with np.errstate(over="ignore"):  # an infinite quotient fades to zero, as it should
            fading /= -reject
        fading += V.dtype.type(2)
        np.clip(fading, 0.0, 1.0, out=fading)
        fading *= np.clip(V, -huber, huber)
        return fading

    def prox(self, V: Array) -> Array:
        return V - self.influence(V, self.thresholds(V))

    def sample_weight(self, V: Array) -> Array:
        return self.weight_at(self.bulk(V))

    def bulk(self, V: Array) -> Array:
        """Return the robust scales of the residuals of samples."""
        return row_scales(V, reach=2.0 * self.reject)[0]

    def weight_at(self, bulk: Array) -> Array:
        """Return the weight of samples whose residuals have the given robust scales."""
        bulk = bulk.astype(np.float64, copy=False)
        excess = np.divide(self.largest, bulk, out=np.ones(len(bulk)), where=bulk > self.largest)
        return np.minimum(excess, 1.0) ** 2

    def loss(self, V: Array, thresholds: Array) -> Array:
        # The integral of the influence: quadratic up to huber, linear up to the cut, then levelling off.
        fast = compiled()
        if fast is not None:
            losses: Array = fast.loss(V, thresholds, self._lenient(V))
            return losses
        huber, cut = self._spread(thresholds)
        size = np.abs(V)
        small = np.minimum(size, huber)
        loss = 0.5 * np.einsum("ij,ij->i", small, small)
        linear = np.minimum(size, cut) - small
        size -= cut
        np.clip(size, 0.0, cut, out=size)
        linear += size
        size *= size
        size /= 2.0 * cut
        linear -= size
        if huber.shape[1] == 1:
            return loss + huber[:, 0] * linear.sum(axis=1)
        return loss + np.einsum("ij,ij->i", huber, linear)

    def value(self, E: Array) -> Array:
        # E is the prox of V = E + influence(V), which is huber up to the cut and then decreases to zero.
        cut = max(self.cut, np.finfo(E.dtype).tiny)
        fixed = np.repeat(np.array([[self.lambda2, cut]], dtype=E.dtype), len(E), axis=0)
        huber, reject = self._spread(fixed)
        size = np.abs(E)
        faded = 2.0 - np.minimum((size + 2.0 * huber) / (1.0 + huber / reject), 2.0 * reject) / reject
        influence = huber * np.where(size <= reject - huber, 1.0, faded) * (size > 0.0)
        return self.loss(size + influence, fixed) - 0.5 * np.einsum("ij,ij->i", influence, influence)


@dataclass(frozen=True)
class L21(RowNoise, WeightingNoise):
    """``lambda2 * |e|_2``: a few samples are entirely wrong (outlier PCA).

    The formula printed as Eq. (3.7) is inverted; the prox is ``(1 - lambda2 / |v|)_+ v``.

    An outlying sample has large coefficients and so a large weight in the basis update, because coefficients
    count by their squares and e removes the error from the sample only. With ``downweight`` a sample is
    weighted by the share of its residual that is not classified as noise.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.noise import L21
    >>> L21(2.5).prox(np.array([[3.0, 4.0], [0.3, 0.4]])).tolist()  # a whole sample is an error, or nothing
    [[1.5, 2.0], [0.0, 0.0]]
    """

    lambda2: float
    downweight: bool = False

    def sample_weight(self, V: Array) -> Array:
        return self.weight(V) if self.downweight else np.ones(len(V), V.dtype)

    def weight(self, V: Array) -> Array:
        norms = row_norms(V)
        lambda2 = norms.dtype.type(self.lambda2)  # may be zero in single precision
        return lambda2 / np.maximum(norms, lambda2) if lambda2 else 0.0 * norms

    def prox(self, V: Array) -> Array:
        return V * (1 - self.weight(V))[:, None]

    def value(self, E: Array) -> Array:
        return self.lambda2 * row_norms(E)


@dataclass(frozen=True)
class Squared(RowNoise):
    """``lambda2 * |e|_2^2``: dense noise; with the max-norm, max-margin matrix factorisation.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.noise import Squared
    >>> Squared(0.5).prox(np.array([[0.5, -3.0, 20.0]])).tolist()  # half of every residual is noise
    [[0.25, -1.5, 10.0]]
    """

    lambda2: float

    def weight(self, V: Array) -> Array:
        return np.full(len(V), 2 * self.lambda2 / (1 + 2 * self.lambda2), dtype=V.dtype)

    def prox(self, V: Array) -> Array:
        return V / (1 + 2 * self.lambda2)

    def value(self, E: Array) -> Array:
        return self.lambda2 * np.einsum("ij,ij->i", E, E)


@dataclass(frozen=True)
class NoNoise(RowNoise):
    """``e = 0``: no noise is separated, and the basis is fitted by least squares.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.noise import NoNoise
    >>> NoNoise().prox(np.array([[0.5, -3.0, 20.0]])).tolist()
    [[0.0, 0.0, 0.0]]
    """

    def weight(self, V: Array) -> Array:
        return np.ones(len(V), dtype=V.dtype)

    def prox(self, V: Array) -> Array:
        return np.zeros_like(V)

    def value(self, E: Array) -> Array:
        return np.zeros(len(E), dtype=E.dtype)


def within_precision(noise: Noise, dtype: np.dtype[Any]) -> Noise:
    """Return a noise model of the same effect, with thresholds that can be represented in a precision."""
    if dtype != np.float32 or not isinstance(noise, L1 | CappedL1 | L21 | Squared):
        return noise
    if isinstance(noise, CappedL1) and noise.cut > UNBOUNDED:
        noise = replace(noise, cut=UNBOUNDED)
    return replace(noise, lambda2=UNBOUNDED) if noise.lambda2 > UNBOUNDED else noise


@dataclass(frozen=True)
class CappedRule:
    """How the thresholds of the capped noise follow from scales of the data.

    ``benchmarks/defaults.py`` measures all of them together, on data with 0 to 50 % of the entries corrupted
    by errors of 1 to 1000 times the signal; ``docs/defaults.md`` has the results and the reasons.
    """

    influence: float = 0.1  #: lambda2, in scales of the low-rank part
    cut: float = 3.0  #: cut, in scales of the low-rank part
    largest: float = 2.5  #: robust scale of a reliable sample's residual, in scales of an entry
    leniency: float = 10.0  #: factor of the thresholds of a feature that is nearly always rejected
    rejected: float = 0.6  #: excess share of rejected entries from which a feature's thresholds are raised
    applying: float = 3.0  #: factor of ``huber`` when a learnt model is applied, and in dense noise alone

    def noise(self, state: State, lambda2: float | None) -> CappedL1:
        """Return the noise model for a state; ``lambda2`` is the threshold if it is given."""
        scale, entry = state.signal_scale, state.scales.entry_scale
        cut = self.cut * scale
        return CappedL1(
            self.influence * scale if lambda2 is None else lambda2,
            cut if lambda2 is None else max(cut, lambda2),
            components=state.L.shape[1],
            leniency=self.feature_leniency(state.scales, max(self.leniency, entry / scale if scale else 0.0)),
            largest=self.largest * entry,
        )

    def feature_leniency(self, scales: Scales, most: float) -> Array | float:
        """Return the factors of the thresholds, at most ``most``, per feature.

        A feature whose entries are nearly always rejected while those of others are not gets larger
        thresholds, and the longer that lasts, the larger. A basis that is wrong in a feature, for instance
        because an object stood still in the first frames of a film, makes all later values there look like
        gross errors, and rejecting them would keep the basis wrong forever.
        """
        if not scales.recent_weight:
            return 1.0
        excess, error = scales.excess_share(scales.noisy)
        lenient = np.clip((excess - self.rejected - 2.0 * error) / 0.2, 0.0, 1.0)
        if not lenient.any():
            return 1.0
        return 1.0 + (np.clip(0.2 * np.asarray(scales.seen), self.leniency, most) - 1.0) * lenient


CAPPED = CappedRule()


def l1_noise(state: State, lambda2: float | None) -> L1:
    """Return the l1 noise; lambda2 is by default ``1 / sqrt(d)`` in units of the data.

    Once the scale of the residual is smaller than that, it takes its place.
    """
    if lambda2 is not None:
        return L1(lambda2)
    entry = state.scales.entry_scale
    return L1(max(min(entry / sqrt(state.L.shape[1]), state.scales.residual_scale), 0.01 * entry))


def l21_noise(state: State, lambda2: float | None) -> L21:
    """Return the noise of whole samples; lambda2 is by default 1.5 times the norm of an ordinary residual."""
    if lambda2 is None:
        lambda2 = 1.5 * state.scales.residual_scale * sqrt(len(state.L))
    return L21(lambda2, downweight=True)


def squared_noise(state: State, lambda2: float | None) -> Squared:
    """Return the squared noise; lambda2 is one by default."""
    return Squared(1.0 if lambda2 is None else lambda2)


def no_noise(state: State, lambda2: float | None) -> NoNoise:
    """Return the absence of noise, whatever lambda2 is."""
    return NoNoise()


#: Noise models by name: functions of the state and of lambda2 (None if it is "auto") that make one.
NOISES: dict[str, Callable[[State, float | None], Noise]] = {
    "capped": CAPPED.noise,
    "l1": l1_noise,
    "l21": l21_noise,
    "squared": squared_noise,
    "none": no_noise,
}


def learning_noise(noise: Noise, purity: float) -> Noise:
    """Return the noise model with which a basis is learnt.

    Limiting the influence of every entry protects the basis from gross errors. If the residual is nothing but
    dense noise, which ``purity`` says from 0 to 1, it only wastes a tenth of the samples.
    """
    if not isinstance(noise, CappedL1):
        return noise
    return replace(noise, huber=(1.0 + (CAPPED.applying - 1.0) * purity) * noise.huber)


def applying_noise(noise: Noise, scales: Scales) -> Noise:
    """Return the noise model with which a learnt model is applied to samples.

    Learning is cautious, because a small error in every sample spoils the basis; a sample that is decomposed
    in a good basis is fitted better with more of its entries. Features that are nearly always rejected have
    larger thresholds. Where that is because the basis is yet to follow a new level, their entries are noise
    until it has, and the usual thresholds apply.
    """
    if not isinstance(noise, CappedL1):
        return noise
    leniency = noise.leniency
    if isinstance(leniency, np.ndarray):
        leniency = np.where(scales.is_one_sided, 1.0, leniency)
    return replace(noise, huber=CAPPED.applying * noise.huber, leniency=leniency)
