"""The batch problem agrees with its semidefinite form, and the online learner approaches it."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from maxnorm.core.batch import Batch
from maxnorm.core.encoding import encode
from maxnorm.core.noise import L1, L21, Squared
from maxnorm.core.norms import MaxNorm, NuclearNorm
from maxnorm.core.state import State
from maxnorm.learner import learn
from maxnorm.metrics import max_norm
from maxnorm.paper.batch import objective, solve_batch
from maxnorm.paper.exact import PlainMaxNorm, exact_learner

NOISES = {
    "l1": (L1(0.3), lambda E: 0.3 * cp.sum(cp.abs(E))),
    "l21": (L21(0.6), lambda E: 0.6 * cp.sum(cp.norm2(E, axis=1))),
    "squared": (Squared(2.0), lambda E: 2.0 * cp.sum_squares(E)),
}


def problem(n, p, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    return Z + np.where(rng.random((n, p)) < 0.1, 5.0, 0.0), rng


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("norm", ["max", "nuclear"])
def test_value_is_that_of_the_convex_problem(norm, noise):
    (n, p), lambda1 = (10, 8), 0.5
    Z, rng = problem(n, p)
    ours, cost_of = NOISES[noise]
    E = cp.Variable((n, p))
    if norm == "max":
        W, bound = cp.Variable((n + p, n + p), PSD=True), cp.Variable()
        X, constraints = W[:n, n:], [cp.diag(W) <= bound]
        cost = 0.5 * lambda1 * cp.square(bound)
    else:
        X, constraints = cp.Variable((n, p)), []
        cost = lambda1 * cp.normNuc(X)
    best = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(Z - X - E) + cost + cost_of(E)), constraints).solve(
        solver=cp.CLARABEL
    )
    kind = MaxNorm(lambda1) if norm == "max" else NuclearNorm(lambda1)
    solution = solve_batch(Z, rng.standard_normal((p, 8)), norm=kind, noise=ours, tol=1e-9)
    assert solution.converged
    assert np.all(np.diff(solution.values) <= 1e-7 * solution.value)
    assert solution.value == pytest.approx(best, rel=2e-4)
    if norm == "max":
        low_rank = solution.code.R @ solution.L.T
        assert max_norm(low_rank) == pytest.approx(np.linalg.norm(solution.L, axis=1).max(), rel=0.02)


def test_the_online_learner_approaches_the_batch_optimum():
    """The empirical loss f_n at the basis of Algorithm 1 approaches that of the batch solution."""
    Z, rng = problem(400, 15)
    norm, noise, L0 = PlainMaxNorm(0.5), L1(0.3), rng.standard_normal((15, 4))
    best = solve_batch(Z, L0, norm=norm, noise=noise, tol=1e-6).value
    learner = replace(exact_learner(norm, noise, L0), batch_size=5, forgetting=2.0)
    state, gaps = State.start(L0), []
    for _ in range(8):
        state, _ = learn(learner, state, Batch(Z))
        code = encode(Z, state.L, norm=norm, noise=noise, tol=1e-8)
        gaps.append(objective(code, state.L, norm) / best - 1.0)
    assert gaps[-1] < 0.02
    assert gaps[-1] < 0.5 * gaps[0]
