"""What is carried from batch to batch, and how a contribution is added to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from maxnorm.core.norms import FactorNorm
from maxnorm.core.statistics import Biases, Contribution, Scales, Selection, SufficientStatistics
from maxnorm.core.types import Array, Mask


@dataclass(frozen=True, eq=False)
class State:
    """All that is carried from one batch to the next; its size does not depend on the samples seen."""

    L: Array  # p x d
    statistics: SufficientStatistics
    scales: Scales = field(default_factory=Scales)
    n_samples: int = 0
    n_steps: int = 0
    time: int = 0  # samples that had anything in them: those by which memory fades
    biases: Biases | None = None  # what is taken off the entries first, if anything is
    selection: Selection | None = None  # what was chosen by held-out entries, if anything was

    @classmethod
    def start(cls, L: Array) -> State:
        """Return the state before the first sample, with L as initial basis."""
        return cls(L=L, statistics=SufficientStatistics.zeros(*L.shape))


@dataclass(eq=False)
class Progress:
    """A state, and rows that do not fill a batch yet; only ``ahead`` ever changes."""

    state: State
    waiting: list[Array] = field(default_factory=list)
    batch: int = 0  # rows to wait for, if that is known
    ahead: State | None = None  # the state with the waiting rows learnt too, once somebody has asked for it


def accumulated(state: State, added: Contribution) -> State:
    """Return the state with a contribution added to its sums; the basis is still the old one."""
    counted = replace(state, n_samples=state.n_samples + added.n_samples, n_steps=state.n_steps + 1)
    if not added.n_full:
        return counted
    fades, biases = added.fades, state.biases
    if biases is not None and added.biases is not None:
        biases = biases.scaled(fades.biases) + added.biases
    return replace(
        counted,
        statistics=state.statistics.scaled(fades.statistics) + added.statistics,
        scales=state.scales.scaled(fades.past, fades.recent) + added.scales,
        time=state.time + added.n_full,
        biases=biases,
    )


def decay(then: ArrayLike, now: int, forgetting: float, half_life: float | None) -> Array:
    """Return what remains at time ``now`` of the weight that samples had at time ``then``."""
    fade = (np.asarray(then) / now) ** forgetting
    return fade if half_life is None else fade * 0.5 ** ((now - np.asarray(then)) / half_life)


def surrogate(state: State, norm: FactorNorm, L: Array | None = None) -> float:
    """Return g_t(L) of Eq. (3.1), at the state's own basis unless another is given."""
    L64 = (state.L if L is None else L).astype(np.float64, copy=False)
    seen = state.statistics
    if not seen.weight:
        return 0.0
    fit = seen.quadratic(L64) - float(np.vdot(L64, seen.B))
    return (fit + seen.loss + norm.basis_value(L64)) / seen.weight


def split_missing(Z: Array) -> tuple[Array, Mask | None]:
    """Return Z with zeros for NaN, and where it was observed; no mask if it was everywhere."""
    missing = np.isnan(Z)
    if not missing.any():
        return Z, None
    return np.where(missing, Z.dtype.type(0), Z), ~missing
