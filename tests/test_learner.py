"""The loop that every learner runs, with the learner of Algorithm 1 and with those of the library."""

from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp

from maxnorm.core.batch import Batch
from maxnorm.core.encoding import encode
from maxnorm.core.noise import L1
from maxnorm.core.state import State, remaining_weight, surrogate
from maxnorm.dense import DenseLearner, DenseSettings, measure
from maxnorm.learner import OVERFLOW, Progress, WrappedLearner, apply, flush, learn, settle, step, take
from maxnorm.paper.exact import PlainMaxNorm, exact_learner
from maxnorm.sparse import CompletionLearner, SparseLearner

NORM, NOISE = PlainMaxNorm(0.2), L1(0.4)
SETTINGS = DenseSettings(NORM, NOISE, tol=1e-10)


def samples(seed=0, n=120, p=15, d=3):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, d)) @ rng.standard_normal((d, p))
    Z[rng.random(Z.shape) < 0.05] += 30
    return Z, np.linalg.qr(rng.standard_normal((p, d)))[0]


def learnt(Z, L, batch_size, watch=None, **changes):
    """Return the state after learning from Z by Algorithm 1, in batches."""
    learner = replace(exact_learner(NORM, NOISE, L, tol=1e-10), batch_size=batch_size, **changes)
    return learn(learner, State.start(L), Batch(Z), watch=watch)[0]


# -- a step -----------------------------------------------------------------------------------------


def test_a_step_adds_the_statistics_of_algorithm_1():
    Z, L = samples()
    code = encode(Z[:7], L, norm=NORM, noise=NOISE, tol=1e-10)
    state = learnt(Z[:7], L, 7)
    np.testing.assert_allclose(state.statistics.A, code.R.T @ code.R, atol=1e-10)
    np.testing.assert_allclose(state.statistics.B, (Z[:7] - code.E).T @ code.R, atol=1e-7)


def test_a_step_decays_the_statistics_before_it():
    Z, L = samples()
    state = learnt(Z[:7], L, 7)
    learner = replace(exact_learner(NORM, NOISE, L, tol=1e-10), batch_size=2, forgetting=2.0)
    again, _ = step(learner, state, Batch(Z[7:9]))
    second = encode(Z[7:9], state.L, norm=NORM, noise=NOISE, tol=1e-10)
    weights = np.array([(8 / 9) ** 2, 1.0])
    expected = (7 / 9) ** 2 * state.statistics.A + (weights[:, None] * second.R).T @ second.R
    np.testing.assert_allclose(again.statistics.A, expected, atol=1e-10)
    assert again.n_samples == 9
    assert again.n_steps == 2


def test_flipping_the_sign_of_samples_does_not_change_the_statistics():
    Z, L = samples()
    signs = np.where(np.arange(10) % 3, 1, -1)[:, None]
    state, flipped = learnt(Z[:10], L, 10), learnt(Z[:10] * signs, L, 10)
    np.testing.assert_allclose(flipped.statistics.A, state.statistics.A, atol=1e-9)
    np.testing.assert_allclose(flipped.statistics.B, state.statistics.B, atol=1e-7)


def test_permuting_features_permutes_the_basis():
    Z, L = samples()
    order = np.random.default_rng(0).permutation(Z.shape[1])
    plain, moved = learnt(Z, L, 20).L, learnt(Z[:, order], L[order], 20).L
    np.testing.assert_allclose(moved @ moved.T, (plain @ plain.T)[np.ix_(order, order)], rtol=1e-4, atol=1e-6)


def test_the_surrogate_of_a_state_is_the_sum_of_eq_3_1():
    Z, L0 = samples()
    codes, L = [], L0

    def keep(result):
        nonlocal L
        codes.append(measure(result.batch, L, SETTINGS, 0)[1])
        L = result.state.L

    state = learnt(Z, L0, 10, watch=keep)
    R, E = np.concatenate([c.R for c in codes]), np.concatenate([c.E for c in codes])
    for basis in (state.L, L0, np.zeros_like(L0)):
        losses = 0.5 * ((Z - R @ basis.T - E) ** 2).sum(axis=1) + NOISE.value(E)
        expected = (losses.sum() + NORM.basis_value(basis)) / len(Z)
        assert surrogate(state, NORM, basis) == pytest.approx(expected, rel=1e-9)
    assert surrogate(state, NORM) <= surrogate(state, NORM, L0)


def test_the_surrogate_bounds_the_empirical_loss_and_approaches_it():
    Z, L = samples(n=1200)
    L = learnt(Z, L, 10, forgetting=10.0).L  # a good basis
    gaps = []

    def gap(result):
        seen = Z[: result.n_samples]
        loss = encode(seen, result.state.L, norm=NORM, noise=NOISE, tol=1e-10).loss.sum()
        value = surrogate(result.state, NORM)
        gaps.append((value - (loss + NORM.basis_value(result.state.L)) / len(seen)) / value)

    learnt(Z, L, 20, watch=gap)
    assert min(gaps) >= -1e-6
    assert max(gaps) < 0.02


def test_missing_entries_count_in_the_statistics_as_the_model_predicts_them():
    Z, L = samples()
    Z[0, :10] = np.nan
    added, code = measure(Batch(Z[:1]), L, SETTINGS, 0)
    target = (code.R @ L.T + code.residual)[0]
    np.testing.assert_allclose(target[:10], (code.R @ L.T)[0, :10])
    np.testing.assert_allclose(added.statistics.B, np.outer(target, code.R[0]), atol=1e-9)


def test_empty_samples_change_nothing():
    Z, L = samples()
    state = learnt(Z[:20], L, 20)
    learner = replace(exact_learner(NORM, NOISE, L, tol=1e-10), batch_size=8, forgetting=5.0, half_life=3.0)
    for empty in (np.zeros((5, 15)), np.full((5, 15), np.nan)):
        after, added = step(learner, state, Batch(empty))
        assert after.L is state.L
        assert after.statistics is state.statistics
        assert (after.n_samples, after.time, added.n_full) == (25, 20, 0)
    mixed, _ = step(learner, state, Batch(np.vstack([Z[20:25], np.zeros((3, 15))])))
    plain, _ = step(learner, state, Batch(Z[20:25]))
    np.testing.assert_array_equal(mixed.L, plain.L)


def test_single_precision_is_kept():
    Z, L = samples()
    single = learnt(Z[:9].astype(np.float32), L.astype(np.float32), 9)
    assert single.L.dtype == np.float32
    double = learnt(Z[:9], L, 9)
    np.testing.assert_allclose(single.L, double.L, atol=1e-3 * np.abs(double.L).max())


# -- weights of samples -----------------------------------------------------------------------------


def test_the_remaining_weight_does_not_depend_on_how_the_stream_is_cut():
    for forgetting, half_life in ((3.0, None), (0.0, 50.0)):
        once = remaining_weight(20, 100, forgetting, half_life)
        parts = np.prod([remaining_weight(k, k + 8, forgetting, half_life) for k in range(20, 100, 8)])
        assert once == pytest.approx(parts)


def test_the_remaining_weight_is_a_power_of_time_and_halves_every_half_life():
    assert remaining_weight(20, 100, 3.0, None) == pytest.approx((20 / 100) ** 3)
    assert remaining_weight(50, 100, 0.0, 50.0) == pytest.approx(0.5)
    assert remaining_weight(0, 10, 0.0, None) == 1.0
    np.testing.assert_allclose(remaining_weight(np.array([5, 10]), 10, 2.0, None), [0.25, 1.0])
    assert remaining_weight(50, 100, 1.0, 50.0) == pytest.approx(0.25)  # both together


def test_the_total_weight_does_not_depend_on_the_batch_size():
    Z, L = samples()
    for forgetting, half_life in ((3.0, None), (0.5, 20.0)):
        changes = {"forgetting": forgetting, "half_life": half_life}
        totals = [learnt(Z, L, size, **changes).statistics.weight for size in (120, 30, 1)]
        assert totals == pytest.approx([totals[0]] * 3)


# -- the contract of every learner ------------------------------------------------------------------

DENSE = DenseLearner(n_components=3)
LEARNERS = {
    "dense, max-norm": DENSE,
    "dense, nuclear norm": replace(DENSE, norm="nuclear"),
    "dense, fixed batches": replace(DENSE, batch_size=20),
    "completion": CompletionLearner(replace(DENSE, noise="none"), SparseLearner()),
    "completion, biases": CompletionLearner(replace(DENSE, noise="none"), SparseLearner(biases=True)),
    "completion, robust": CompletionLearner(DENSE),
    "sparse": SparseLearner(lambda1=0.5),
    "wrapped": WrappedLearner(DENSE),
}


@pytest.fixture(params=LEARNERS)
def learner(request):
    return LEARNERS[request.param]


@pytest.fixture(params=["array", "gaps", "sparse"])
def rows(request):
    Z, _ = samples(n=300)
    if request.param == "array":
        return Batch(Z)
    Z[np.random.default_rng(1).random(Z.shape) < 0.4] = np.nan
    return Batch(Z) if request.param == "gaps" else Batch(Batch(Z).entries())


def start(learner, rows):
    return learner.start(rows.shape[1], rows.dtype, 0)


def same_state(a, b):
    np.testing.assert_array_equal(a.L, b.L)
    np.testing.assert_array_equal(a.statistics.B, b.statistics.B)
    for f in fields(a.scales):
        np.testing.assert_array_equal(getattr(a.scales, f.name), getattr(b.scales, f.name))
    assert (a.n_samples, a.n_steps, a.time) == (b.n_samples, b.n_steps, b.time)


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_how_rows_are_cut_into_calls_makes_no_difference(learner, rows, chunk):
    rows = rows[:120] if chunk == 1 else rows
    whole, rest = learn(learner, start(learner, rows), rows)
    assert not len(rest)
    progress = Progress(start(learner, rows))
    for i in range(0, len(rows), chunk):
        progress = take(learner, progress, rows[i : i + chunk])
    same_state(flush(learner, progress).state, whole)


def test_the_state_does_not_grow_with_the_samples(learner, rows):
    def size(state):
        arrays = [*vars(state.statistics).values(), *vars(state.scales).values(), state.L]
        return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))

    state, _ = learn(learner, start(learner, rows), rows)
    more, _ = learn(learner, state, rows)
    assert size(more) == size(state)


def test_a_step_neither_changes_nor_keeps_what_it_is_given(learner, rows):
    values = rows.values.data if rows.is_sparse else rows.values
    before = values.copy()
    state, _ = learn(learner, start(learner, rows), rows)
    basis = state.L.copy()
    learn(learner, state, rows)
    np.testing.assert_array_equal(values, before)
    np.testing.assert_array_equal(state.L, basis)
    values[...] = 0.0
    np.testing.assert_array_equal(state.L, basis)


# With biases, the sums of a part follow from the biases that the part itself changes.
@pytest.mark.parametrize("name", [name for name in LEARNERS if "biases" not in name])
def test_contributions_measured_apart_add_up_to_that_of_all_rows(name, rows):
    learner = LEARNERS[name]
    state, _ = learn(learner, start(learner, rows), rows)
    state, settings = learner.begin(state, None)
    whole = learner.measure(rows, state.L, settings, state.time)
    total = learner.measure(rows[:90], state.L, settings, state.time)
    for i in (90, 200):
        part = rows[i : 200 if i == 90 else 300]
        total += learner.measure(part, state.L, settings, state.time + total.n_full)
    np.testing.assert_allclose(total.statistics.A, whole.statistics.A, rtol=1e-6)
    np.testing.assert_allclose(total.statistics.B, whole.statistics.B, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(total.multiplier_sums, whole.multiplier_sums, rtol=1e-6, atol=1e-8)
    assert total.decay.statistics == pytest.approx(whole.decay.statistics)
    assert total.n_full == whole.n_full
    assert total.loss == pytest.approx(whole.loss)


def test_rows_are_encoded_independently_of_each_other(learner, rows):
    state, _ = learn(learner, start(learner, rows), rows)
    (_, whole), *_ = apply(learner, state, rows)
    (_, alone), *_ = apply(learner, state, rows[17:18])
    np.testing.assert_allclose(alone.R[0], whole.R[17], atol=1e-6 * np.abs(whole.R).max())


def test_the_parts_of_an_encoding_add_up_to_the_samples(learner, rows):
    state, _ = learn(learner, start(learner, rows), rows)
    for block, code in apply(learner, state, rows):
        Z, observed = block.dense()
        total = code.low_rank(state.L) + code.E + code.residual
        there = slice(None) if observed is None else observed
        np.testing.assert_allclose(total[there], Z[there], atol=1e-8)


def test_a_watcher_sees_every_step(learner, rows):
    results = []
    state, _ = learn(learner, start(learner, rows), rows, watch=results.append)
    assert [result.step for result in results] == list(range(1, state.n_steps + 1))
    assert results[-1].n_samples == state.n_samples == 300
    assert sum(len(result.batch) for result in results) == 300
    assert all(result.loss >= 0.0 and result.residual_scale > 0.0 for result in results)


def test_blocks_in_which_a_model_is_applied_are_invisible(monkeypatch):
    Z, _ = samples(n=300)
    state, _ = learn(DENSE, DENSE.start(15, Z.dtype, 0), Batch(Z))
    (_, whole), *_ = apply(DENSE, state, Batch(Z))
    monkeypatch.setattr("maxnorm.learner.APPLY_ENTRIES", 15 * 7)
    blocks = [code.R for _, code in apply(DENSE, state, Batch(Z))]
    assert len(blocks) == 43
    np.testing.assert_allclose(np.concatenate(blocks), whole.R, atol=1e-6)


def test_waiting_rows_are_kept_in_few_pieces():
    learner = replace(DENSE, batch_size=10**6)
    progress = Progress(learner.start(4, np.dtype(float), 0))
    for _ in range(1000):
        progress = take(learner, progress, Batch(np.ones((1, 4))))
    assert progress.n_waiting == 1000
    assert len(progress.waiting) <= 10


def test_settling_learns_from_the_rows_that_wait_but_not_from_the_first_ones_of_a_process():
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal((3000, 3)) @ rng.standard_normal((3, 40)) for _ in range(2))
    learner = DenseLearner(n_components=3, center=True, scale=True, drift="auto")
    progress = take(learner, Progress(learner.start(40, first.dtype, 0)), Batch(first[:20]))
    assert settle(learner, progress).n_waiting == 20
    progress = settle(learner, take(learner, progress, Batch(first[20:])))
    assert (progress.state.n_samples, progress.n_waiting) == (3000, 0)
    progress = settle(learner, take(learner, progress, Batch(second[:30])))
    assert (progress.state.n_samples, progress.n_waiting) == (3000, 30)
    progress = take(learner, progress, Batch(second[30:]))
    assert [change.sample for change in progress.state.drift.changes] == [3000]


def test_dense_and_sparse_rows_may_alternate():
    Z, _ = samples(n=200)
    Z[np.random.default_rng(1).random(Z.shape) < 0.5] = np.nan
    learner = LEARNERS["completion"]
    whole, _ = learn(learner, start(learner, Batch(Z)), Batch(Z))
    progress = Progress(start(learner, Batch(Z)))
    for i in range(0, 200, 20):
        rows = Batch(Z[i : i + 20])
        progress = take(learner, progress, rows if i % 40 else Batch(sp.csr_array(rows.entries())))
    same_state(flush(learner, progress).state, whole)


def test_the_choice_of_the_rank_does_not_depend_on_how_rows_are_cut():
    Z, _ = samples(n=120)
    learner = replace(DENSE, n_components="auto")
    whole, _ = learn(learner, learner.start(15, Z.dtype, 0), Batch(Z))
    progress = Progress(learner.start(15, Z.dtype, 0))
    for i in range(0, 120, 40):
        progress = take(learner, progress, Batch(Z[i : i + 40]))
    same_state(flush(learner, progress).state, whole)
    assert whole.selection.n_components == whole.L.shape[1]


def test_arithmetic_that_overflows_is_refused():
    class Overflowing(WrappedLearner):
        def update(self, state, added, settings):
            return replace(self.learner.update(state, added, settings), L=state.L * np.inf)

    class Failing(WrappedLearner):
        def update(self, state, added, settings):
            raise np.linalg.LinAlgError("Eigenvalues did not converge")

    X = np.random.default_rng(0).standard_normal((20, 5))
    dense = DenseLearner(n_components=2)
    first = dense.start(5, X.dtype, seed=0)
    for learner in (Overflowing(dense), Failing(dense)):
        with pytest.raises(ValueError, match=OVERFLOW[:30]):
            learn(learner, first, Batch(X))


def test_the_shortest_half_life_leaves_nothing_of_earlier_samples():
    assert remaining_weight(np.array([1, 10**9]), 10**9, 0.0, 1e-320).tolist() == [0.0, 1.0]


def test_a_step_whose_scale_overflows_is_refused():
    class Vanishing(WrappedLearner):
        def update(self, state, added, settings):
            new = self.learner.update(state, added, settings)
            return replace(new, statistics=replace(new.statistics, weight=1e-320))

    learner = Vanishing(DenseLearner(n_components=2))
    X = np.random.default_rng(0).standard_normal((20, 5))
    with pytest.raises(ValueError, match=OVERFLOW[:30]):
        learn(learner, learner.start(5, X.dtype, seed=0), Batch(X))
