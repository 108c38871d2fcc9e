"""Algorithm 1 as the paper prints it, with every subproblem solved exactly."""

from __future__ import annotations

from dataclasses import dataclass

from maxnorm.core.encoding import Encoding, encode
from maxnorm.core.noise import Noise
from maxnorm.core.norms import FactorNorm
from maxnorm.core.state import State, surrogate
from maxnorm.core.types import Array
from maxnorm.learner import step


@dataclass(frozen=True)
class ExactAlgorithm:
    """Algorithm 1 with one sample per step, exact solvers, and no forgetting.

    This class is the only place where the experiments call ``maxnorm.learner``.

    Parameters
    ----------
    norm : FactorNorm
        Regulariser of the basis and the coefficients, with its weight lambda1.
    noise : Noise
        Cost of the noise, with its weight lambda2.
    """

    norm: FactorNorm
    noise: Noise

    def step(self, state: State, z: Array) -> State:
        """Return the state after one more sample: lines 3 to 5 of Algorithm 1."""
        return step(state, z[None], norm=self.norm, noise=self.noise)[0]

    def encode(self, Z: Array, L: Array) -> Encoding:
        """Return coefficients and noise of the samples in the rows of Z, given the basis L."""
        return encode(Z, L, norm=self.norm, noise=self.noise)

    def surrogate(self, state: State) -> float:
        """Return the surrogate g_t of Eq. (3.1) at the basis of the state."""
        return surrogate(state, self.norm)
