"""What a learner does when the stream changes: it starts anew, forgets, or lets earlier samples lose weight.

``maxnorm.core.drift`` decides whether the stream has changed. If only some features change, the learner keeps
their noise variances.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from maxnorm.core.basis import random_basis
from maxnorm.core.drift import DRIFT, Change, Drift, Kind, remaining_share
from maxnorm.core.linalg import RANK_TOLERANCE
from maxnorm.core.precision import DOUBLE
from maxnorm.core.state import Contribution, Decay, Selection, State
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array

NEGLIGIBLE_VARIANCE = 1e-10  # of a coefficient, in units of the largest


def has_settled(state: State) -> bool:
    """Return whether enough has been learnt for a change of the stream to be noticed."""
    least = max(DRIFT.least_samples, DRIFT.samples_per_component * state.L.shape[1])
    if state.time < least or state.statistics.residuals is None:
        return False
    if state.drift is not None and state.drift.is_drifting:  # the residual falls after every correction
        return True
    is_small = state.scales.residual_scale < DRIFT.smallest_level * state.signal_scale
    return is_small or state.scales.falling() < 0.5


def start_anew(state: State, added: Contribution, *, has_chosen_rank: bool) -> State:
    """Return the state before the first sample of a new process, with the same number of components.

    If the rank was chosen from the data, it is not chosen again.
    """
    return first_of_process(state, state.n_samples + added.n_samples, has_chosen_rank=has_chosen_rank)


def restart(state: State, n_samples: int) -> State:
    """Return the state before the last samples, which are of a new process, with nothing learnt of it.

    Parameters
    ----------
    state : State
        The state after these samples, which have been learnt from in vain.
    n_samples : int
        Number of these samples, which are to be learnt from again.
    """
    first, drift = state.n_samples - n_samples, state.drift or Drift()
    earlier = tuple(change for change in drift.changes if change.sample < first)
    state = replace(state, drift=replace(drift, changes=earlier))
    return first_of_process(state, first, has_chosen_rank=True)


def first_of_process(state: State, n_samples: int, *, has_chosen_rank: bool) -> State:
    """Return the state before the first sample of a new process, given a state before or after it."""
    p, d = state.L.shape
    return replace(
        State.start(random_basis(p, d, state.n_steps, state.L.dtype)),
        n_samples=n_samples,
        n_steps=state.n_steps + 1,
        selection=state.selection or (Selection(d, None, ()) if has_chosen_rank else None),
        drift=record_change(Drift(), state, n_samples, "new"),
    )


def forget(state: State, added: Contribution) -> State:
    """Return the state with the same basis, and next to no weight of the samples before a turn of it."""
    n_samples = state.n_samples + added.n_samples
    kept = DRIFT.kept * state.L.shape[1] / state.statistics.weight
    return replace(
        state,
        statistics=state.statistics.scaled(min(kept, 1.0)),
        n_samples=n_samples,
        n_steps=state.n_steps + 1,
        model=None,
        drift=record_change(Drift(is_drifting=True), state, n_samples, "turn"),
    )


def follow_drift(
    state: State, added: Contribution, drift: Drift, location: Array | None
) -> tuple[State, Contribution]:
    """Return the state and a contribution, before which earlier samples lose weight if the basis lags behind.

    Parameters
    ----------
    state : State
        The state in whose basis the batch was measured.
    added : Contribution
        What the batch adds to it.
    drift : Drift
        What was known of changes before the batch.
    location : array of shape (p,) or None
        The location that belongs to the basis, or None if none is learnt.
    """
    drift = drift.with_levels(np.asarray(added.levels), added.excess)
    seen, new, L = state.statistics, added.statistics, state.L.astype(np.float64, copy=False)
    increment = basis_increment(new, seen, L, location)
    is_improving = state.time < DRIFT.young or state.scales.falling() > DRIFT.improving
    share, drift = remaining_share(
        drift,
        increment,
        coefficient_metric(state.coefficient_root),
        new.weight,
        seen.weight,
        signal=len(L) * state.signal_scale**2,
        is_improving=is_improving and not drift.is_drifting,
    )
    much = 0.5 * min(state.time, DRIFT.memory)  # weight of the samples that count in a still stream, at least
    if not drift.is_drifting and share < 1.0 and share * seen.weight < much:
        drift = record_change(replace(drift, is_drifting=True), state, state.n_samples, "drift")
    elif drift.is_drifting and seen.weight > much:
        drift = replace(drift, is_drifting=False)
    decay = added.decay * Decay(statistics=share, residuals=share)
    return replace(state, drift=drift), replace(added, decay=decay)


def hold_noise_variances(state: State, added: Contribution) -> Contribution:
    """Return a contribution that raises no noise variance of a feature whose noise is on one side.

    An object that stands still in a film moves its pixels to one side. The low-rank part follows slowly, and
    meanwhile the entries nearest to it pass for dense noise. If they were learnt from, the noise variance
    would rise until no entry there is a gross error, although all of them are far from the low-rank part.
    Entries with more dense noise than before are on both sides, so that their noise variance rises.
    """
    known, new, is_held = state.statistics.residuals, added.statistics.residuals, state.scales.is_one_sided
    if known is None or new is None or not is_held.any():
        return added
    squares, counts = new[:, 0], new[:, 1]
    variance = known[:, 0] / np.maximum(known[:, 1], 1e-300)
    squares = np.where(is_held, np.minimum(squares, variance * counts), squares)
    residuals = np.column_stack([squares, new[:, 1:]])
    return replace(added, statistics=replace(added.statistics, residuals=residuals))


def basis_increment(
    new: SufficientStatistics, seen: SufficientStatistics, L: Array, location: Array | None
) -> Array:
    """Return the change of the basis, and in the last column of the location, that new samples suggest.

    It is the mean product of the residuals of samples with their coefficients and with one, of new samples
    less that of earlier ones. The products with the coefficients lack what is within the span of the basis:
    the norm keeps what the sums say of the basis from being zero, and moves the basis within its span.
    """
    increment = np.zeros((len(L), L.shape[1] + 1))
    products = np.divide(new.B, new.weight, out=increment[:, :-1])
    products -= seen.B / seen.weight
    if location is not None and new.t is not None and seen.t is not None:
        r = new.r / new.weight - seen.r / seen.weight
        products -= np.outer(location, r)
        increment[:, -1] = new.t / new.weight - seen.t / seen.weight - L @ r
    products -= L @ coordinates(products, L)
    return increment


def coordinates(X: Array, L: Array) -> Array:
    """Return the coefficients of the projections of the columns of X onto the span of the basis L."""
    gram = L.T @ L
    gram[np.diag_indices_from(gram)] += RANK_TOLERANCE**2 * max(float(np.trace(gram)), DOUBLE.negligible)
    solution: Array = np.linalg.solve(gram, L.T @ X)
    return solution


def coefficient_metric(root: Array) -> Array:
    """Return the inverse of the covariance of the coefficients, bordered by one for the location.

    Coefficients of negligible variance are left out. ``root`` is a square root of the covariance with
    orthogonal columns.
    """
    variances = np.einsum("ij,ij->j", root, root)
    used = variances > NEGLIGIBLE_VARIANCE * variances.max(initial=0.0)
    unit = np.divide(root, variances, out=np.zeros_like(root), where=used)
    metric = np.zeros((len(root) + 1,) * 2)
    metric[:-1, :-1] = unit @ unit.T
    metric[-1, -1] = 1.0
    return metric


def basis_in_data_units(state: State) -> Array:
    """Return an orthonormal basis of the low-rank part in the units of the data."""
    scale = 1.0 if state.gauge is None else state.gauge.scale[:, None]
    return np.linalg.qr(state.L.astype(np.float64) * scale)[0]


def record_change(drift: Drift, state: State, sample: int, kind: Kind) -> Drift:
    """Return ``drift`` with the changes until a state and another one, and with the basis before it."""
    changes = (*changes_until(state), Change(sample, kind))
    return replace(drift, before=basis_in_data_units(state), changes=changes)


def changes_until(state: State) -> tuple[Change, ...]:
    """Return the changes so far, with the angle by which the basis has turned since the last one."""
    drift = state.drift
    if drift is None or not drift.changes or drift.before is None or not state.time:
        return () if drift is None else drift.changes
    cosines = np.linalg.svd(drift.before.T @ basis_in_data_units(state), compute_uv=False)
    angle = math.acos(min(float(cosines.min()), 1.0))
    return (*drift.changes[:-1], replace(drift.changes[-1], angle=angle))
