"""Algorithm 1 of the paper with its problems solved exactly: one sample at a time, l1 noise, no forgetting."""

from dataclasses import dataclass

from maxnorm.core.noise import L1
from maxnorm.core.norms import FactorNorm, MaxNorm, NuclearNorm
from maxnorm.core.state import Contribution, State
from maxnorm.core.types import Array
from maxnorm.dense import DenseLearner


@dataclass(frozen=True)
class PlainMaxNorm(MaxNorm):
    """The max-norm without the adjustments of the basis that the library makes between updates."""

    def settle(self, state: State, added: Contribution) -> State:
        return state


@dataclass(frozen=True)
class PlainNuclearNorm(NuclearNorm):
    """The nuclear norm without the adjustments of the basis that the library makes between updates."""

    def settle(self, state: State, added: Contribution) -> State:
        return state


def exact_learner(norm: FactorNorm, lambda2: float, L: Array, *, tol: float = 1e-6) -> DenseLearner:
    """Return the learner of Algorithm 1, which starts from the basis L (features x components)."""
    return DenseLearner(
        norm=norm, noise=L1(lambda2), batch_size=1, forgetting=0.0, max_iter=1000, tol=tol, init=L.T
    )
