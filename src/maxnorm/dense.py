"""The learner of decompositions: samples as dense arrays, with a mask of the observed entries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from maxnorm import crowded, selection
from maxnorm.changes import follow_drift, forget, has_settled, hold_noise_variances, start_anew
from maxnorm.core import defaults
from maxnorm.core.basis import include_median, random_basis
from maxnorm.core.batch import Batch
from maxnorm.core.drift import DRIFT, Drift, Watch, Watched
from maxnorm.core.encoding import Encoding, encode
from maxnorm.core.factor_model import FactorModel
from maxnorm.core.gauge import Gauge, Scaling
from maxnorm.core.linalg import quantile, row_norms, row_scales
from maxnorm.core.noise import (
    NOISES,
    CappedL1,
    Noise,
    WeightingNoise,
    applying_noise,
    learning_noise,
    within_precision,
)
from maxnorm.core.norms import NORMS, BasisUpdate, FactorNorm, weighted_max_norm
from maxnorm.core.precision import range_of
from maxnorm.core.scales import Scales
from maxnorm.core.state import Contribution, Decay, Selection, State, accumulate, remaining_weight
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array, Mask
from maxnorm.crowded import CROWDED, FINAL, ROUGH, FirstSamples
from maxnorm.factor_steps import NO_WATCH, change_after, encode_by_model, measure_by_model, score_by_model
from maxnorm.learner import OVERFLOW, Learner
from maxnorm.variational import ROUNDS, WORK_PER_ENTRY, Rounds, spread_rows, work_per_row

SLICE_ENTRIES = 2**19  # entries of a batch that are measured at a time where memory is short
# While learning, samples are explained by the factor model after this many samples per component, and if the
# work per sample, p (d^2 + 64), is at most this.
SETTLED, LEARNING_WORK = 10, 2**13
# Components per feature, with more of which a sample without uncertainty is fitted with its gross errors.
MANY_COMPONENTS = 0.125
MODEL_WORK = 2**16  # the same with many components
APPLYING_WORK = 2**17  # p d^2 of samples with covariances of their own, to which a model is applied
SOME_FEATURES = 1000  # whose rank is that of all features, if these are more
LEAST_CLEAN = 0.5  # share of the entries of a batch; with less, the stream has changed and the model is wrong
LEAST_FREE = 0.25  # share of the entries of samples that is left for the residual
Auto = Literal["auto"]


@dataclass(frozen=True, eq=False)
class DenseSettings:
    """What the settings of a :class:`DenseLearner` amount to for one batch."""

    norm: FactorNorm
    noise: Noise
    forgetting: float = 0.0
    noise_forgetting: float = 0.0  #: the power of t by which samples are weighted for the noise variances
    half_life: float | None = None
    tol: float = 1e-6
    learning_tol: float = 0.0  #: a step this small relative to the residual is also accepted
    max_iter: int = 1000
    missing_lambda2: float = 0.0
    per_feature: bool = False  #: whether every feature has a Gram matrix of its own
    gauge: Gauge | None = None  #: the units of the model
    location: Array | None = None  #: the location in these units, if it is learnt
    #: squared deviations that tell gross errors from dense noise, as far as the noise is known
    clean_limits: tuple[Array, Array] | None = None
    model: FactorModel | None = None  #: the model so far, if samples are explained by it
    is_shared: bool = False  #: whether the covariances that it gives them share their eigenvectors
    start: Array | None = None  #: coefficients in the model that the samples of the batch start from
    watch: Watch = NO_WATCH  #: compares the residuals of samples with those before, if changes are looked for


@dataclass(frozen=True, eq=False)
class DenseLearner(Learner):
    """A learner of samples that are nearly complete, for any noise model and norm.

    The attributes are those of :class:`maxnorm.MaxNormDecomposition`, which documents them. ``init`` is the
    first basis with components in rows, or None for a random one; ``missing_lambda2`` is the 1/c of Eq.
    (5.1).

    See Also
    --------
    maxnorm.learner.Learner : What every learner has, with an example.
    maxnorm.MaxNormDecomposition : The estimator, which makes such a learner from its parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.batch import Batch
    >>> from maxnorm.dense import DenseLearner
    >>> from maxnorm.learner import learn
    >>> X = np.random.default_rng(0).standard_normal((200, 2)) @ np.ones((2, 10))
    >>> X[5, 3] = 100.0
    >>> learner = DenseLearner(n_components=2)
    >>> state, _ = learn(learner, learner.start(10, X.dtype, seed=0), Batch(X))
    >>> np.argwhere(learner.encode(Batch(X), state).E > 50.0).tolist()
    [[5, 3]]
    """

    n_components: int | Auto | None = None
    norm: str | FactorNorm = "max"
    noise: str | Noise = "capped"
    lambda1: float | Auto = "auto"
    lambda2: float | Auto = "auto"
    batch_size: int | Auto = "auto"
    forgetting: float | Auto = "auto"
    half_life: float | None = None
    basis_update: BasisUpdate = "exact"
    max_iter: int | Auto = "auto"
    tol: float = 1e-6
    init: Array | None = None
    missing_lambda2: float = 0.0
    center: bool = False
    scale: bool = False
    drift: Auto | None = None

    # -- the first basis ------------------------------------------------------------------------------

    def start(self, n_features: int, dtype: np.dtype[Any], seed: int) -> State:
        given = self.n_components
        rank = defaults.default_components(n_features) if given is None or given == "auto" else int(given)
        return self.start_with_rank(rank, n_features, dtype, seed)

    def start_with_rank(self, rank: int, n_features: int, dtype: np.dtype[Any], seed: int) -> State:
        """Return the first state with a given number of components."""
        if self.init is None:
            return State.start(random_basis(n_features, rank, seed, dtype))
        init = self.init
        expected = (len(init) if self.n_components in (None, "auto") else rank, n_features)
        if init.shape != expected:
            raise ValueError(
                f"init must have shape (n_components, n_features) = {expected}, got {init.shape}; "
                "pass the components_ of another model or init='random'"
            )
        limits, largest = range_of(dtype), float(np.max(np.abs(init)))
        if not limits.smallest <= largest <= limits.largest / math.sqrt(rank):
            raise ValueError(
                f"init has a largest magnitude of {largest:.3g}, which is outside of the range of {dtype} "
                "arithmetic; rescale init to the scale of X"
            )
        return State.start(init.T.astype(dtype))

    # -- how rows are cut into batches ----------------------------------------------------------------

    def rows_needed(self, state: State) -> int:
        if self.is_choosing_gauge(state):
            return defaults.gauge_rows(len(state.L))
        if state.first_rows and not state.time:
            return state.first_rows
        if self.batch_size != "auto":
            return int(self.batch_size)
        size = defaults.batch_size(state, self.half_life)
        if state.drift is not None and state.drift.is_drifting:  # a batch is small beside what counts
            least = defaults.least_batch(state.L.shape[1])
            size = min(size, max(least, int(state.statistics.weight / DRIFT.batches)))
        return size

    def choose(self, state: State, rows: Batch, last: bool) -> State | None:
        chosen: State | None = state
        if self.is_choosing_rank(state) and self.is_everyday:
            needed = defaults.gauge_rows(rows.shape[1])
            chosen = self.choose_rank(state, rows[:needed]) if last or len(rows) >= needed else None
        elif self.is_choosing_rank(state):
            chosen = selection.choose_on_sample(
                state, rows, last, lambda sample: self.choose_rank(state, sample)
            )
        if chosen is None or not self.is_choosing_gauge(chosen):
            return chosen
        if len(rows) < self.rows_needed(chosen) and not last:
            return None
        first = rows[: self.rows_needed(chosen)]
        p, d = chosen.L.shape
        fixed = self.with_rank(d)  # which is given, or was chosen
        if is_affordable(p, d) and fixed.most_components(*first.shape) is not None:
            *_, found = fixed.learn_in_rounds(first, d)
            start = fixed.start_of_pass(found, chosen, first)
            return replace(start, selection=chosen.selection, drift=chosen.drift)
        kind: Scaling | None = "feature" if self.scale else None
        tolerant = self.scale and self.noise == "capped"
        gauge = Gauge.of(*first.dense(), center=self.center, scale=kind, tolerant=tolerant)
        chosen = replace(chosen, gauge=gauge.plausible(len(first)))
        return replace(chosen, first_rows=self.rows_of_rounds(chosen, rows, last))

    def rows_of_rounds(self, state: State, rows: Batch, last: bool) -> int:
        """Return the number of first samples over which rounds are made, once the units are known."""
        p, d = state.L.shape
        if not self.is_everyday or self.init is not None or self.batch_size != "auto" or d > p:
            return 0
        assert state.gauge is not None
        first = rows[: defaults.gauge_rows(p)]
        is_end = last and len(rows) < CROWDED.few * d
        if is_end or crowded.is_crowded(d, crowded.believed_entries(first, state.gauge)):
            return crowded.first_rows(p, d)
        n_first = min(len(first), crowded.first_rows(p, d))
        is_tracking = self.half_life is not None and n_first >= CROWDED.few * d
        return n_first if crowded.are_worthwhile(n_first, p, d) and not is_tracking else 0

    def choose_rank(self, state: State, sample: Batch) -> State:
        """Return the first state with the rank that a sample asks for.

        The factor model is fitted to the sample, and learning begins with it. If it would have even more
        components than can be tried, and for the paper's problem, entries are held out instead.
        """
        most = self.most_components(*sample.shape)
        if most is None:
            return self.choose_rank_by_some_features(state, sample)
        *_, found = self.learn_in_rounds(sample, most)
        return self.start_of_pass(found, state, sample)

    def choose_rank_by_some_features(self, state: State, sample: Batch) -> State:
        """Return the first state with the rank of some of the features, if they are too many for rounds."""
        n, p = sample.shape
        features = np.sort(np.random.default_rng(0).permutation(p)[:SOME_FEATURES])
        some = Batch(sample.dense()[0][:, features] if sample.is_sparse else sample.values[:, features])
        most = self.most_components(n, len(features)) if p > SOME_FEATURES else None
        if most is not None:
            *_, found = self.learn_in_rounds(some, most)
            if not self.is_rank_open(found, some):
                d = found.L.shape[1]
                first = State.start(random_basis(p, d, state.seed, state.L.dtype))
                chosen = Selection(d, None, ())
                return replace(first, n_samples=state.n_samples, n_steps=state.n_steps, selection=chosen)
        return selection.choose_rank(self.with_rank, state, sample)

    def start_of_pass(self, found: State, first: State, rows: Batch) -> State:
        """Return the state from which a pass starts, given what rounds over some of the samples have found.

        If the rank is still open, it is chosen for the first state ``first`` by holding out entries.
        """
        if self.is_rank_open(found, rows):
            sample = spread_rows(rows, selection.sample_size(rows))
            return selection.choose_rank(self.with_rank, first, sample)
        chosen = Selection(found.L.shape[1], None, ()) if self.n_components == "auto" else None
        return replace(found, n_samples=first.n_samples, n_steps=first.n_steps, selection=chosen)

    def is_rank_open(self, found: State, rows: Batch) -> bool:
        """Return whether rounds have found as many components as are affordable; there may be more."""
        most = ROUNDS.affordable_components(*rows.shape)
        return self.n_components == "auto" and found.L.shape[1] == most < min(rows.shape)

    def is_choosing_gauge(self, state: State) -> bool:
        """Return whether the units of the model are yet to be chosen."""
        return (self.center or self.scale) and state.gauge is None and not state.time

    def is_choosing_rank(self, state: State) -> bool:
        """Return whether the number of components is yet to be chosen."""
        chooses = self.n_components == "auto" and self.init is None
        return chooses and not state.time and state.selection is None

    def first_size(self, state: State, rows: Batch, size: int) -> int:
        # The first batch is small, unless its median is part of the first basis.
        if self.batch_size != "auto" or state.first_rows:
            return size
        if not self.center:
            Z, observed = standardised(rows, state.gauge, None)
            if defaults.large_median(without_negligible_rows(Z), observed) is not None:
                return size
        return defaults.least_batch(state.L.shape[1])

    def with_rank(self, rank: int) -> DenseLearner:
        """Return the same learner with a given number of components."""
        return replace(self, n_components=rank)

    # -- the three acts -------------------------------------------------------------------------------

    def begin(self, state: State, batch: Batch | None) -> tuple[State, DenseSettings]:
        if batch is not None and not state.time and state.first_rows:
            return self.begin_with_rounds(state, batch)
        known = state
        if batch is not None and not state.scales.weight:  # all samples so far were zero
            Z, observed = standardised(batch, state.gauge, None)
            Z = without_negligible_rows(Z)
            median = None if self.center else defaults.large_median(Z, observed)
            known = replace(state, scales=defaults.first_scales(Z, observed, median))
            scale = self.norm_at(known).first_scale(known)
            is_chosen = state.selection is not None and state.selection.weight is not None
            if self.init is None and scale > 0.0 and not is_chosen:
                state = replace(state, L=include_median(state.L, median) * state.L.dtype.type(scale))
        return state, self.settings_at(known)

    def begin_with_rounds(self, state: State, batch: Batch) -> tuple[State, DenseSettings]:
        """Return the state with the basis that rounds over the first samples find, and their settings."""
        assert state.gauge is not None
        is_robust = self.noise != "none"
        rank, is_end = state.L.shape[1], len(batch) < state.first_rows
        is_crowded = crowded.is_crowded(rank, crowded.believed_entries(batch, state.gauge))
        stop = FINAL if is_crowded or is_end else ROUGH
        samples = FirstSamples.of(batch, state.gauge, is_robust=is_robust, center=self.center, stop=stop)
        fit = samples.fit(rank)
        known = replace(state, scales=defaults.first_scales(samples.T, samples.observed, None))
        # The basis has the norm at which coefficients are well within the ball of the max-norm.
        scale = 2.0 * math.sqrt(rank) if self.norm == "max" else 1.0
        settings = self.settings_at(known)
        settings = replace(
            settings, model=fit.model, is_shared=True, start=fit.R, forgetting=0.0, noise_forgetting=0.0
        )
        # Later samples are learnt from in the usual way if the usual encoder suffices for the first ones.
        state = replace(state, is_shared=is_crowded or samples.need_model(fit))
        L = (scale * fit.model.loadings).astype(state.L.dtype)
        return replace(state, L=L if L.any() else state.L), settings  # a basis of zeros would stay zero

    def settings_at(self, state: State) -> DenseSettings:
        """Return the settings that follow from a state."""
        is_drifting = state.drift is not None and state.drift.is_drifting
        purity = state.purity if self.is_everyday and not is_drifting else 0.0
        noise, automatic = learning_noise(self.noise_at(state), purity), self.max_iter == "auto"
        forgetting = forgetting_at(self.forgetting, state, noise)
        is_auto = self.forgetting == "auto"
        is_explained = state.is_shared or (self.half_life is None and is_settled(state))
        may_improve = self.half_life is None and self.is_everyday and self.noise == "capped"
        if is_auto and may_improve and not is_explained:
            forgetting = max(forgetting, defaults.young_forgetting(state))
        return DenseSettings(
            norm=self.norm_at(state),
            noise=noise,
            forgetting=(1.0 - purity if is_auto else 1.0) * forgetting,  # in dense noise, all count alike
            noise_forgetting=forgetting,
            half_life=self.half_life,
            tol=self.tol,
            learning_tol=defaults.SWEEPS.learning_tol if automatic else 0.0,
            max_iter=defaults.learning_sweeps(state.scales, noise) if automatic else int(self.max_iter),
            missing_lambda2=self.missing_lambda2,
            per_feature=state.statistics.per_feature,
            gauge=state.gauge,
            location=self.location_at(state),
            clean_limits=state.clean_limits if self.is_everyday else None,
            model=state.learning_model if is_explained and self.is_everyday else None,
            is_shared=state.is_shared,
            watch=self.watch_at(state),
        )

    def location_at(self, state: State) -> Array | None:
        """Return the location in the units of the model; None if it is not learnt."""
        if not self.center:
            return None
        found = state.statistics.location(state.L.astype(np.float64, copy=False))
        return np.zeros(len(state.L)) if found is None else found

    def measure(self, batch: Batch, L: Array, settings: DenseSettings, time: int) -> Contribution:
        if settings.model is not None:
            added = measure_by_model(
                batch,
                L,
                settings.model,
                settings.location,
                time,
                settings.forgetting,
                settings.noise_forgetting,
                settings.half_life,
                is_robust=self.noise != "none",
                is_shared=settings.is_shared,
                start=settings.start,
                watch=settings.watch,
            )
            usual = 1.0 - settings.model.gross_share if settings.is_shared else 1.0
            if added.change or added.scales.clean_share >= LEAST_CLEAN * usual or not added.n_full:
                return added
        return measure(batch, L, settings, time)[0]

    def update(self, state: State, added: Contribution, settings: DenseSettings) -> State:
        if added.change == "new":
            return start_anew(state, added, has_chosen_rank=self.n_components == "auto")
        if added.change is not None:
            return forget(state, added)
        if settings.watch.drift is not None and added.n_full:
            state, added = follow_drift(state, added, settings.watch.drift, settings.location)
        new = accumulate(state, hold_noise_variances(state, added))
        if added.n_full:
            new = replace(new, L=settings.norm.update_basis(state.L, new.statistics.centred()))
        return settings.norm.prepare_basis(new, added)

    # -- changes of the stream ------------------------------------------------------------------------

    @property
    def is_watching(self) -> bool:
        """Whether changes of the stream are looked for."""
        is_untouched = (self.batch_size, self.forgetting, self.half_life) == ("auto", "auto", None)
        return self.drift == "auto" and self.is_everyday and is_untouched

    def watch_at(self, state: State) -> Watch:
        """Return what compares the residuals of samples with those before, once these are steady."""
        if not self.is_watching or not has_settled(state):
            return Watch()
        return Watch(state.drift or Drift(), state.signal_scale)

    # -- applying what was learnt ---------------------------------------------------------------------

    def encode(self, batch: Batch, state: State) -> Encoding:
        model, max_iter = self.model_at(state), self.applying_sweeps
        if model is not None:
            p, d = state.L.shape
            return encode_by_model(
                batch,
                model,
                max_iter,
                is_robust=self.noise != "none",
                is_own=has_own_covariances(state),
                is_wide=p * d**2 > MODEL_WORK,
            )
        location = self.location_at(state)
        Z, observed = standardised(batch, state.gauge, location)
        code = encode(
            Z,
            state.L.astype(Z.dtype, copy=False),
            observed,
            norm=self.norm_at(state),
            noise=applying_noise(self.noise_at(state), state.scales),
            tol=self.tol,
            max_iter=max_iter,
            missing_lambda2=self.missing_lambda2,
        )
        return code if state.gauge is None else in_data_units(code, state.L, state.gauge, location)

    def score(self, batch: Batch, state: State) -> Array | None:
        model = self.model_at(state)
        if model is None:
            return None
        is_own = has_own_covariances(state)
        return score_by_model(
            batch, model, self.applying_sweeps, is_robust=self.noise != "none", is_own=is_own
        )

    @property
    def applying_sweeps(self) -> int:
        """Most sweeps for a sample to which a learnt model is applied."""
        return defaults.SWEEPS.applying if self.max_iter == "auto" else int(self.max_iter)

    def model_at(self, state: State) -> FactorModel | None:
        return state.factor_model if self.is_everyday else None

    @property
    def is_everyday(self) -> bool:
        """Whether data are described by the factor model, and not by a problem with given weights."""
        has_weights = self.lambda1 != "auto" or self.lambda2 != "auto" or not isinstance(self.norm, str)
        is_usual = isinstance(self.noise, str) and self.noise in ("capped", "none")
        return (self.center or self.scale) and is_usual and not has_weights

    @property
    def may_make_rounds(self) -> bool:
        """Whether rounds solve the problem, and nothing is set that only the online learner knows."""
        is_untouched = (self.batch_size, self.forgetting, self.half_life) == ("auto", "auto", None)
        return self.is_everyday and is_untouched and self.init is None

    def most_components(self, n_samples: int, n_features: int) -> int | None:
        """Return the number of components of a model that is fitted in rounds.

        For "auto" it is the largest that is tried. None means that no rounds are made, because a round would
        take too long, because something is set that only the online learner knows, or because the problem is
        the paper's.
        """
        if not self.may_make_rounds:
            return None
        affordable = ROUNDS.affordable_components(n_samples, n_features)
        if self.n_components == "auto":
            few, many = (min(d, n_samples, n_features) for d in ROUNDS.components)
            return max(1, min(many, affordable)) if affordable >= few else None
        given = int(self.n_components or defaults.default_components(n_features))
        # With many components and few samples, rounds with shared covariances come further in the same time.
        are_few = n_samples < CROWDED.few * given <= CROWDED.few * n_features
        if are_few and given > ROUNDS.affordable_components(ROUNDS.rows, n_features):
            return None
        return given if given <= affordable else None

    def learn_in_rounds(self, rows: Batch, n_components: int) -> Iterator[State]:
        """Yield the states after rounds over the samples, of which the last one is the best.

        If the samples are many, a part of them is used. What is found then has fewer samples than there are,
        and is where one pass over all of them can start.
        """
        n, p = rows.shape
        make = partial(Rounds.of, is_robust=self.noise == "capped", center=self.center, scale=self.scale)
        prune, part = self.n_components == "auto", spread_rows(rows, ROUNDS.most_rows(p, n_components))
        rounds = make(part)
        for fit in rounds.fits(n_components, prune=prune):
            yield rounds.state(fit, rows.dtype, in_ball=self.norm == "max")
        is_open = prune and fit.model.n_components == n_components < min(n, p)
        more = min(ROUNDS.affordable_components(n, p), n, p)
        if is_open and n_components < more:  # all components have support, and there may be more
            yield from self.learn_in_rounds(rows, more)
        elif len(part) < n and not is_open and n * work_per_row(p, n_components) <= ROUNDS.all_work:
            rounds = make(rows)
            start = rounds.continued(fit, n_components, prune=prune)
            for later in rounds.late_rounds(start, prune=prune, work=ROUNDS.total_work):
                yield rounds.state(later, rows.dtype, in_ball=self.norm == "max")

    def noise_at(self, state: State) -> Noise:
        """Return the noise model with the thresholds that it has in a state."""
        if not isinstance(self.noise, str):
            return self.noise
        return NOISES[self.noise](state, None if self.lambda2 == "auto" else float(self.lambda2))

    def norm_at(self, state: State) -> FactorNorm:
        L = state.L.astype(np.float64, copy=False)
        return norm_at(self.norm, self.lambda1, self.basis_update, state, state.statistics, L)

    def rows_per_slice(self, batch: Batch, settings: DenseSettings) -> int:
        return max(1, SLICE_ENTRIES // batch.shape[1])


def norm_at(
    norm: str | FactorNorm,
    lambda1: float | Auto,
    basis_update: BasisUpdate,
    state: State,
    statistics: SufficientStatistics,
    L: Array,
) -> FactorNorm:
    """Return a norm with the weight that it has in a state.

    A weight per observed entry that was chosen on held-out entries applies to the given statistics and basis.
    """
    if not isinstance(norm, str):
        return norm
    chosen = state.selection
    if lambda1 == "auto" and chosen is not None and chosen.weight is not None:
        return weighted_max_norm(statistics, L, chosen.weight, chosen.prior, basis_update)
    return NORMS[norm](state, None if lambda1 == "auto" else float(lambda1), basis_update)


def forgetting_at(forgetting: float | Auto, state: State, noise: Noise) -> float:
    """Return the power of t by which samples are weighted."""
    return defaults.forgetting(state.scales, noise) if forgetting == "auto" else float(forgetting)


def standardised(batch: Batch, gauge: Gauge | None, location: Array | None) -> tuple[Array, Mask | None]:
    """Return a batch in the units of a gauge and without its location, and the mask of observed entries."""
    Z, observed = batch.dense()
    if gauge is None:
        return Z, observed
    T = gauge.standardise(Z, None, location)
    if observed is not None:
        T *= observed
    return T.astype(Z.dtype, copy=False), observed


def in_data_units(code: Encoding, L: Array, gauge: Gauge, location: Array | None) -> Encoding:
    """Return an encoding in the units of the data, with an offset for the location."""
    largest = float(row_norms(code.R).max(initial=0.0)) * float((row_norms(L) * gauge.scale).max())
    if not largest < float(np.finfo(code.R.dtype).max):
        raise ValueError(OVERFLOW)
    offset = gauge.centre if location is None else gauge.centre + location * gauge.scale
    E, residual = ((part * gauge.scale).astype(part.dtype, copy=False) for part in (code.E, code.residual))
    return replace(code, E=E, residual=residual, offset=offset, scale=gauge.scale)


def sum_residuals(
    squares: Array,
    is_noise: Mask,
    observed: Mask | None,
    rank: int,
    limits: tuple[Array, Array] | None,
    weight: Array,
) -> Array:
    """Return what noise variances are learnt from: per feature, four sums over the samples.

    Parameters
    ----------
    squares : array of shape (b, p)
        Squares of what the entries are off the low-rank part, in units of the model; zero if missing.
    is_noise : boolean array of shape (b, p)
        Which entries are gross errors, as far as is known without a model.
    observed : boolean array of shape (b, p) or None
        Which entries are observed.
    rank : int
        Numbers that were fitted to each sample, by which the residuals are too small.
    limits : tuple of two arrays of shape (p,), or None
        Squared deviations that tell gross errors from dense noise, and the share of the variance of the noise
        that is below them, as far as they are known.
    weight : array of shape (b,)
        Weights of the samples.
    """
    limit, kept = (None, 1.0) if limits is None else limits
    clean = ~is_noise if limit is None else squares <= limit.astype(squares.dtype)
    if observed is not None:
        clean &= observed
    free = max(1.0 - rank * len(clean) / max(int(np.count_nonzero(clean)), 1), LEAST_FREE)
    weight = weight.astype(squares.dtype, copy=False)
    total, small, n_clean = weight @ squares, weight @ (squares * clean), weight @ clean
    n_observed = weight.sum() if observed is None else weight @ observed
    sums = [
        small / (free * kept),
        n_clean,
        np.maximum(total - small, 0.0),
        np.maximum(n_observed - n_clean, 0.0),
    ]
    return np.column_stack(sums).astype(np.float64)


def is_affordable(n_features: int, n_components: int) -> bool:
    """Return whether samples can be explained by the factor model while learning, at a cost of O(p d^2) each.

    More work is allowed where the components are many.
    """
    is_needed = n_components > MANY_COMPONENTS * n_features
    work = n_features * (n_components**2 + WORK_PER_ENTRY)
    return work <= (MODEL_WORK if is_needed else LEARNING_WORK)


def has_own_covariances(state: State) -> bool:
    """Return whether samples to which a model is applied have covariances of their own.

    Otherwise their covariances share eigenvectors, because it would take too long to compute them.
    """
    p, d = state.L.shape
    return not state.is_shared and p * d**2 <= APPLYING_WORK


def is_full(Z: Array) -> Mask:
    """Return which samples are not negligible; those that are zero, or empty, are."""
    return row_norms(Z) > range_of(Z.dtype).negligible


def without_negligible_rows(Z: Array) -> Array:
    """Return samples with zeros in place of those that are negligible."""
    full = is_full(Z)
    return Z if full.all() else Z * full[:, None]


def is_settled(state: State) -> bool:
    """Return whether samples are explained by the factor model while learning.

    It must be so small that it costs little more than the paper's problem. Learning has then begun with
    rounds over the first samples, so that the model is good even if the residual goes on falling. The
    paper's encoder would fit gross errors with spare components.
    """
    p, d = state.L.shape
    return state.time >= SETTLED * d and is_affordable(p, d)


def measure(batch: Batch, L: Array, settings: DenseSettings, time: int) -> tuple[Contribution, Encoding]:
    """Encode a batch in the basis L; return its contribution and the encoding of its samples.

    Samples of which all observed entries are zero or negligible, or none is observed, change nothing and are
    left out of the encoding.
    """
    n_samples, (Z, observed) = len(batch), standardised(batch, settings.gauge, settings.location)
    center, full = settings.location is not None, is_full(Z)
    if center and not full.all():  # samples equal to the location count
        Z, full = Z * full[:, None], batch.n_observed > 0
    if not full.all():
        Z, observed = Z[full], None if observed is None else observed[full]
    code = encode(
        Z,
        L,
        observed,
        norm=settings.norm,
        noise=settings.noise,
        tol=settings.tol,
        learning_tol=settings.learning_tol,
        max_iter=settings.max_iter,
        missing_lambda2=settings.missing_lambda2,
    )
    if not len(Z):
        nothing = SufficientStatistics.zeros(*L.shape, per_feature=settings.per_feature)
        return Contribution(n_samples, 0, nothing, Scales(), Decay(), code.rank), code

    now = time + len(Z)
    weights = remaining_weight(np.arange(time + 1, now + 1), now, settings.forgetting, settings.half_life)
    weights = batch.weighted(weights, full)
    residual = code.residual + code.E
    noise = within_precision(settings.noise, Z.dtype)
    watched = Watched()
    if isinstance(noise, CappedL1):
        bulk = noise.bulk(residual)
        weights, watched = weights * noise.weight_at(bulk), settings.watch(bulk)
    elif isinstance(noise, WeightingNoise):
        weights = weights * noise.sample_weight(residual)
    elif settings.watch.drift is not None:
        watched = settings.watch(row_scales(residual)[0])
    if watched.change is not None:
        return change_after(int(np.flatnonzero(full)[watched.change]), watched.kind, L), code
    scales = Scales.from_batch(Z, code.E, residual, observed)
    squares = residual**2 if settings.gauge is not None else residual
    targets = np.subtract(Z, code.E, out=residual)
    if settings.per_feature:
        there = np.ones(Z.shape, dtype=np.bool_) if observed is None else observed
        targets *= there
        statistics = SufficientStatistics.from_batch(targets, code.R, code.penalty, weights, there)
    else:
        if observed is not None:  # missing entries count as the model predicts them
            targets = code.R @ L.T + code.residual
        if settings.location is not None and settings.location.any():
            targets = targets + settings.location
        statistics = SufficientStatistics.from_batch(targets, code.R, code.penalty, weights, center=center)
        if settings.gauge is not None:
            residuals = sum_residuals(
                squares, code.E != 0, observed, code.rank, settings.clean_limits, weights
            )
            statistics = replace(statistics, residuals=residuals)
    decay = Decay.after(time, now, settings.forgetting, settings.noise_forgetting, settings.half_life)
    free_norm = quantile(code.free_norm, 0.9)
    contribution = Contribution(
        n_samples,
        len(Z),
        statistics,
        scales,
        decay,
        code.rank,
        loss=float(code.loss.sum()),
        free_norm=len(Z) * math.log(free_norm) if free_norm else 0.0,
        free_norm_weight=float(len(Z)) if free_norm else 0.0,
        levels=watched.levels,
        excess=watched.excess,
    )
    return contribution, code
