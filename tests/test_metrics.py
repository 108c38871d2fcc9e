"""Measures of bases and reconstructions, and the max-norm against known values and a semidefinite program."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxnorm.metrics import (
    expressed_variance,
    max_norm,
    max_norm_bounds,
    relative_error,
    subspace_distance,
)


def test_expressed_variance_does_not_depend_on_the_choice_of_basis_vectors():
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((20, 4)))[0]
    mix = U @ rng.standard_normal((4, 4)) * [1e-9, 1.0, 1e9, -3.0]
    assert expressed_variance(U, mix) == pytest.approx(1.0, abs=1e-6)
    assert expressed_variance(7 * U, U) == pytest.approx(1.0)


def test_expressed_variance_agrees_with_the_formula_for_orthonormal_bases():
    rng = np.random.default_rng(1)
    U, L = (np.linalg.qr(rng.standard_normal((15, 3)))[0] for _ in range(2))
    assert expressed_variance(U, L) == pytest.approx(np.trace(L.T @ U @ U.T @ L) / np.trace(U @ U.T))
    assert 0 < expressed_variance(U, L) < 1


def test_expressed_variance_counts_the_recovered_dimensions():
    eye = np.eye(4)
    assert expressed_variance(eye[:, :2], eye[:, :1]) == 0.5
    assert expressed_variance(eye[:, :2], eye) == 1.0
    assert expressed_variance(eye[:, :2], np.zeros((4, 3))) == 0.0
    assert expressed_variance(eye[:, :2], eye[:, [0, 0]]) == pytest.approx(0.5)


def test_expressed_variance_rejects_invalid_bases():
    with pytest.raises(ValueError, match=r"U has 3 rows and L has 4.*components_\.T"):
        expressed_variance(np.eye(3), np.eye(4))
    with pytest.raises(ValueError, match="no subspace"):
        expressed_variance(np.zeros((3, 2)), np.eye(3))
    with pytest.raises(ValueError, match="NaN or infinity"):
        expressed_variance(np.full((3, 2), np.nan), np.eye(3))
    with pytest.raises(ValueError, match="2-D"):
        expressed_variance(np.ones(3), np.eye(3))


def test_subspace_distance_is_the_sine_of_the_largest_angle():
    angle = 0.3
    U, L = np.array([[1.0], [0.0]]), np.array([[np.cos(angle)], [np.sin(angle)]])
    assert subspace_distance(U, 5 * L) == pytest.approx(np.sin(angle))
    assert subspace_distance(U, np.eye(2)) == 0.0


def test_relative_error_is_relative_to_the_true_values_unless_they_are_zero():
    assert relative_error([[3.0, 4.0]], [[3.0, 4.5]]) == pytest.approx(0.1)
    assert relative_error([[0.0]], [[2.0]]) == 2.0


HADAMARD = np.array([[1.0, 1.0], [1.0, -1.0]])


@pytest.mark.parametrize(
    ("X", "value"),
    [
        (np.ones((5, 7)), 1.0),
        (np.eye(6), 1.0),
        (np.kron(HADAMARD, HADAMARD), 2.0),
        (np.kron(HADAMARD, np.kron(HADAMARD, HADAMARD)), 8**0.5),
        (1e-200 * np.outer([1.0, 2.0, -3.0], [4.0, -5.0]), 15e-200),
        (np.zeros((2, 3)), 0.0),
    ],
)
def test_max_norm_agrees_with_known_values(X, value):
    assert max_norm(X) == pytest.approx(value, rel=1e-4)


def test_max_norm_bounds_enclose_the_value_of_the_semidefinite_program():
    rng = np.random.default_rng(0)
    for shape, rank in (((8, 6), 6), ((5, 9), 2), ((7, 7), 3)):
        X = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
        W, bound = cp.Variable((sum(shape), sum(shape)), PSD=True), cp.Variable()
        constraints = [cp.diag(W) <= bound, W[: shape[0], shape[0] :] == X]
        exact = cp.Problem(cp.Minimize(bound), constraints).solve(solver=cp.CLARABEL)
        lower, upper = max_norm_bounds(X, tol=1e-6, max_iter=20_000)
        assert lower <= exact * (1 + 1e-6)
        assert upper >= exact * (1 - 1e-6)
        assert upper - lower <= 1e-6 * lower


def test_max_norm_warns_if_the_tolerance_is_not_reached():
    X = np.random.default_rng(0).standard_normal((9, 5))
    with pytest.warns(ConvergenceWarning, match=r"did not reach tol=0\.0001.*raise max_iter=2"):
        max_norm(X, max_iter=2)


def test_max_norm_rejects_vectors_and_missing_entries():
    with pytest.raises(ValueError, match="finite"):
        max_norm(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="shape"):
        max_norm(np.ones(3))
