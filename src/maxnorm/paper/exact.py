"""Algorithm 1 as the paper prints it, with every subproblem solved exactly."""

from __future__ import annotations

from dataclasses import dataclass

from maxnorm.core.batch import Batch
from maxnorm.core.encoding import Encoding, encode
from maxnorm.core.noise import Noise
from maxnorm.core.norms import FactorNorm, MaxNorm, NuclearNorm
from maxnorm.core.state import Contribution, State, surrogate
from maxnorm.core.types import Array
from maxnorm.dense import DenseLearner
from maxnorm.learner import step


@dataclass(frozen=True)
class PlainMaxNorm(MaxNorm):
    """The max-norm without the adjustments of the basis that the library makes between updates."""

    def prepare_basis(self, state: State, added: Contribution) -> State:
        return state


@dataclass(frozen=True)
class PlainNuclearNorm(NuclearNorm):
    """The nuclear norm without the adjustments of the basis that the library makes between updates."""

    def prepare_basis(self, state: State, added: Contribution) -> State:
        return state


def exact_learner(norm: FactorNorm, noise: Noise, L: Array, *, tol: float = 1e-6) -> DenseLearner:
    """Return the learner of Algorithm 1, with one sample per step and no forgetting.

    Parameters
    ----------
    norm : FactorNorm
        Regulariser of the basis and the coefficients, :class:`PlainMaxNorm` or :class:`PlainNuclearNorm`.
    noise : Noise
        Cost of the noise, with its weight lambda2.
    L : array of shape (n_features, n_components)
        Initial basis.
    tol : float, default=1e-6
        Relative accuracy of the coefficients.

    Returns
    -------
    DenseLearner
        The learner.
    """
    return DenseLearner(
        norm=norm, noise=noise, batch_size=1, forgetting=0.0, max_iter=1000, tol=tol, init=L.T
    )


@dataclass(frozen=True)
class ExactAlgorithm:
    """Algorithm 1 with one sample per step, exact solvers, and no forgetting.

    This class is the only place where the experiments call ``maxnorm.learner``.

    Parameters
    ----------
    norm : FactorNorm
        Regulariser of the basis and the coefficients, :class:`PlainMaxNorm` or :class:`PlainNuclearNorm`.
    noise : Noise
        Cost of the noise, with its weight lambda2.
    """

    norm: FactorNorm
    noise: Noise

    def step(self, state: State, z: Array) -> State:
        """Return the state after one more sample: lines 3 to 5 of Algorithm 1."""
        return step(exact_learner(self.norm, self.noise, state.L), state, Batch(z[None]))[0]

    def encode(self, Z: Array, L: Array) -> Encoding:
        """Return coefficients and noise of the samples in the rows of Z, given the basis L."""
        return encode(Z, L, norm=self.norm, noise=self.noise)

    def surrogate(self, state: State) -> float:
        """Return the surrogate g_t of Eq. (3.1) at the basis of the state."""
        return surrogate(state, self.norm)
