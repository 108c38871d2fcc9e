"""Noise models: what the part of a sample that the basis does not explain costs.

A noise model is the regulariser ``lambda2 * h(e)`` of Eq. (1.1), given by its value and its proximal
operator. Any object with the two methods of :class:`Noise` can be passed to the estimators.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from maxnorm._linalg import row_norms, soft_threshold
from maxnorm._typing import Array


@runtime_checkable
class Noise(Protocol):
    """What the encoder needs of a noise model. Rows are samples, and each row is on its own."""

    def prox(self, V: Array) -> Array:
        """Return argmin over E of ``1/2 |V - E|^2 + lambda2 h(E)``, row by row; zero entries stay zero."""
        ...

    def value(self, E: Array) -> Array:
        """Return ``lambda2 h(e)`` for each row of E."""
        ...


@runtime_checkable
class RowNoise(Noise, Protocol):
    """A noise whose prox shrinks a row as a whole: ``prox(v) = (1 - weight(v)) v``.

    Then ``v`` points the way the coefficients must go whatever its size, and the encoder takes the whole
    step (one solve suffices for the max-norm) where the general alternation would creep.
    """

    def weight(self, V: Array) -> Array:
        """Return the share of each row that is left to the basis, between 0 and 1."""
        ...


@dataclass(frozen=True)
class L1:
    """``lambda2 * |e|_1``: a few entries of a sample are grossly wrong (robust PCA)."""

    lambda2: float

    def prox(self, V: Array) -> Array:
        return soft_threshold(V, self.lambda2)

    def value(self, E: Array) -> Array:
        return self.lambda2 * np.abs(E).sum(axis=1)


@dataclass(frozen=True)
class L21:
    """``lambda2 * |e|_2``: a few samples are wrong altogether (outlier PCA).

    The formula printed below Eq. (3.7) is inverted; the prox is ``(1 - lambda2 / |v|)_+ v``.
    """

    lambda2: float

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
