"""Noise models: what the part of a sample that the basis does not explain costs.

A noise model is the regulariser ``lambda2 * h(e)`` of Eq. (1.1), given by its value and its proximal
operator. Any object with the two methods of :class:`Noise` can be passed to the estimators.
"""

from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from maxnorm.core.linalg import row_norms, row_scales, soft_threshold
from maxnorm.core.types import Array


@runtime_checkable
class Noise(Protocol):
    """What the encoder needs of a noise model. Rows are samples, and each row is on its own."""

    def prox(self, V: Array) -> Array:
        """Return argmin over E of ``1/2 |V - E|^2 + lambda2 h(E)``, row by row; zero entries stay zero."""
        ...

    def value(self, E: Array) -> Array:
        """Return ``lambda2 h(e)`` for each row of E."""
        ...


class RowNoise(Noise, Protocol):
    """A noise whose prox shrinks a row as a whole: ``prox(v) = (1 - weight(v)) v``.

    Then ``v`` points the way the coefficients must go whatever its size, and the encoder takes the whole
    step (one solve suffices for the max-norm) where the general alternation would creep.
    """

    def weight(self, V: Array) -> Array:
        """Return the share of each row that is left to the basis, between 0 and 1."""
        ...


class AdaptiveNoise(Noise, Protocol):
    """A noise whose thresholds depend on the residual they are applied to.

    The encoder adapts them during the first sweeps and then leaves them, so that it can converge.
    """

    def thresholds(self, V: Array) -> Array:
        """Return the thresholds for each row of V, one row each."""
        ...

    def pull_at(self, V: Array, thresholds: Array, out: Array | None = None) -> Array:
        """Return what each row of V asks of the basis, V less its prox, at the given thresholds.

        ``out`` is memory that may be used for it.
        """
        ...

    def loss_at(self, V: Array, thresholds: Array) -> Array:
        """Return the minimum over E of ``1/2 |V - E|^2 + lambda2 h(E)`` for each row, at the thresholds."""
        ...


class DoubtingNoise(Noise, Protocol):
    """A noise that does not believe every sample."""

    def belief(self, V: Array) -> Array:
        """Return how much of each sample to believe, between 0 and 1, given its final residual."""
        ...


def is_row_noise(noise: Noise) -> TypeGuard[RowNoise]:
    """Whether the prox shrinks rows as a whole (an ``isinstance`` of the protocol, but fast)."""
    return callable(getattr(noise, "weight", None))


def is_adaptive(noise: Noise) -> TypeGuard[AdaptiveNoise]:
    """Whether the thresholds follow the residual."""
    return callable(getattr(noise, "pull_at", None))


def is_doubting(noise: Noise) -> TypeGuard[DoubtingNoise]:
    """Whether some samples are believed less than others."""
    return callable(getattr(noise, "belief", None))


@cache
def compiled() -> ModuleType | None:
    """Return the compiled loops of the extra ``fast``, or None without it."""
    try:
        from maxnorm.core import compiled as loops
    except ImportError:
        return None
    return loops


@dataclass(frozen=True)
class L1:
    """``lambda2 * |e|_1``: a few entries of a sample are grossly wrong (robust PCA)."""

    lambda2: float

    def prox(self, V: Array) -> Array:
        return soft_threshold(V, self.lambda2)

    def value(self, E: Array) -> Array:
        return self.lambda2 * np.abs(E).sum(axis=1)


@dataclass(frozen=True, eq=False)
class CappedL1:
    """``lambda2 * |e|`` that levels off beyond ``cut``: a gross error costs no more, and pulls no more.

    Under l1 a gross error still pulls the fit with force lambda2; here the pull fades from ``cut`` on and
    is nothing from ``2 * cut`` on (Hampel's function). The price is that the problem is not convex, and
    where one starts matters. Therefore the thresholds of a sample are no tighter than ``huber`` and
    ``reject`` times the size of the bulk of its residual: a sample that is fitted badly, as all are at
    first, is treated leniently, and as the fit gets better the thresholds close in on ``lambda2`` and
    ``cut``. A sample whose residual has a bulk beyond ``largest`` is wrong altogether, and counts for less.
    """

    lambda2: float
    cut: float  # at least lambda2
    huber: float = 1.0
    reject: float = 4.0
    components: int = 0  # a fit of d components to n entries leaves a residual too small by sqrt(1 - d / n)
    leniency: Array | float = 1.0  # what thresholds are multiplied by, feature by feature
    largest: float = np.inf

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

    def pull_at(self, V: Array, thresholds: Array, out: Array | None = None) -> Array:
        fast = compiled()
        if fast is not None:
            out = np.empty_like(V) if out is None else out
            fast.pull(V, thresholds, self._lenient(V), out)
            return out
        huber, reject = self._spread(thresholds)
        fading: Array = np.abs(V, out=out)
        fading /= -reject
        fading += V.dtype.type(2)
        np.clip(fading, 0.0, 1.0, out=fading)
        fading *= np.clip(V, -huber, huber)
        return fading

    def prox(self, V: Array) -> Array:
        return V - self.pull_at(V, self.thresholds(V))

    def belief(self, V: Array) -> Array:
        bulk = row_scales(V, reach=2.0 * self.reject)[0].astype(np.float64, copy=False)
        excess = np.divide(self.largest, bulk, out=np.full(len(V), np.inf), where=bulk > 0.0)
        return np.minimum(excess, 1.0) ** 2

    def loss_at(self, V: Array, thresholds: Array) -> Array:
        # The integral of the pull: quadratic up to huber, linear up to the cut, then levelling off.
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
        # E is the prox of V = E + pull(V), where the pull is huber up to the cut and then fades to nothing.
        cut = max(self.cut, np.finfo(E.dtype).tiny)
        fixed = np.repeat(np.array([[self.lambda2, cut]], dtype=E.dtype), len(E), axis=0)
        huber, reject = self._spread(fixed)
        size = np.abs(E)
        faded = 2.0 - np.minimum((size + 2.0 * huber) / (1.0 + huber / reject), 2.0 * reject) / reject
        pull = huber * np.where(size <= reject - huber, 1.0, faded) * (size > 0.0)
        return self.loss_at(size + pull, fixed) - 0.5 * np.einsum("ij,ij->i", pull, pull)


@dataclass(frozen=True)
class L21:
    """``lambda2 * |e|_2``: a few samples are wrong altogether (outlier PCA).

    The formula printed as Eq. (3.7) is inverted; the prox is ``(1 - lambda2 / |v|)_+ v``.

    An outlying sample has large coefficients, and with them a large say in the basis, which it holds where it
    is: coefficients count by their squares, and e takes the error out of the sample but not out of them.
    With ``doubt`` a sample counts in the basis by the share of its residual that is not called noise.
    """

    lambda2: float
    doubt: bool = False

    def belief(self, V: Array) -> Array:
        return self.weight(V) if self.doubt else np.ones(len(V), V.dtype)

    def weight(self, V: Array) -> Array:
        norms = row_norms(V)
        return self.lambda2 / np.maximum(norms, self.lambda2) if self.lambda2 else 0.0 * norms

    def prox(self, V: Array) -> Array:
        return V * (1 - self.weight(V))[:, None]

    def value(self, E: Array) -> Array:
        return self.lambda2 * row_norms(E)


@dataclass(frozen=True)
class Squared:
    """``lambda2 * |e|_2^2``: dense noise; with the max-norm, max-margin matrix factorisation."""

    lambda2: float

    def weight(self, V: Array) -> Array:
        return np.full(len(V), 2 * self.lambda2 / (1 + 2 * self.lambda2), dtype=V.dtype)

    def prox(self, V: Array) -> Array:
        return V / (1 + 2 * self.lambda2)

    def value(self, E: Array) -> Array:
        return self.lambda2 * np.einsum("ij,ij->i", E, E)


@dataclass(frozen=True)
class NoNoise:
    """``e = 0``: the basis must explain the sample up to a least-squares residual."""

    def weight(self, V: Array) -> Array:
        return np.ones(len(V), dtype=V.dtype)

    def prox(self, V: Array) -> Array:
        return np.zeros_like(V)

    def value(self, E: Array) -> Array:
        return np.zeros(len(E), dtype=E.dtype)
