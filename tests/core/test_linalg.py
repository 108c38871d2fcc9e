"""The kernels of linear algebra, and robust estimates of scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxnorm.core.linalg import ball_multipliers, robust_scale, row_scales, soft_threshold, thin_svd
from reference import bisection


@given(st.integers(1, 6), st.integers(1, 8), st.floats(1e-3, 1e3), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_ball_multipliers_agree_with_bisection(rows, k, radius, seed):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((rows, k)) * 10.0 ** rng.uniform(-3, 3, (rows, 1))
    w = 10.0 ** rng.uniform(-6, 0, k)
    eta = ball_multipliers(C, w, radius)
    for c, found in zip(C, eta, strict=True):
        assert found == pytest.approx(bisection(w, c, radius), rel=1e-9, abs=1e-12)


def test_ball_multipliers_do_not_depend_on_the_starting_point():
    rng = np.random.default_rng(0)
    C, w = 5 * rng.standard_normal((50, 7)), rng.uniform(0.01, 1, 7)
    cold = ball_multipliers(C, w, 1.0)
    for factor in (0.0, 0.5, 1.0, 3.0, 1e3):
        np.testing.assert_allclose(ball_multipliers(C, w, 1.0, factor * cold), cold, rtol=1e-10)


def test_ball_multipliers_of_zero_rows_are_zero():
    assert ball_multipliers(np.zeros((2, 3)), np.ones(3), 1.0, np.array([0.0, 4.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e150])
@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4), (5, 1)])
def test_thin_svd_reproduces_matrices_of_any_shape_and_scale(shape, scale):
    L = scale * np.random.default_rng(0).standard_normal(shape)
    U, sigma, V = thin_svd(L)
    assert len(sigma) == min(shape)
    np.testing.assert_allclose(U * sigma @ V.T, L, atol=1e-12 * scale)
    np.testing.assert_allclose(U.T @ U, np.eye(len(sigma)), atol=1e-10)


def test_thin_svd_leaves_out_zero_singular_values():
    rng = np.random.default_rng(0)
    U, sigma, V = thin_svd(rng.standard_normal((9, 2)) @ rng.standard_normal((2, 5)))
    assert U.shape == (9, 2)
    assert sigma.shape == (2,)
    assert V.shape == (5, 2)
    assert thin_svd(np.zeros((4, 2)))[1].size == 0


def test_soft_threshold_is_the_proximal_operator_of_the_absolute_value():
    grid = np.linspace(-4, 4, 80_001)
    for v in (-2.0, -0.3, 0.0, 0.5, 3.0):
        best = grid[np.argmin(0.5 * (v - grid) ** 2 + 0.7 * np.abs(grid))]
        assert soft_threshold(np.array([v]), 0.7)[0] == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("gross", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_robust_scale_ignores_gross_errors(gross, scale):
    rng = np.random.default_rng(0)
    V = rng.standard_normal((100, 300))
    V = np.where(rng.random(V.shape) < gross, rng.uniform(-1000, 1000, V.shape), V)
    assert robust_scale(scale * V) == pytest.approx(scale, rel=0.08)


def test_robust_scale_of_zeros_is_zero():
    assert robust_scale(np.zeros((3, 4))) == 0.0


def test_robust_scale_uses_every_column():
    # Even and odd columns have different scales, and the number of columns is a power of two: with an even
    # stride only one kind of column would be used.
    V = np.random.default_rng(0).standard_normal((64, 4096)) * np.where(np.arange(4096) % 2, 1.0, 2.0)
    assert 1.1 < robust_scale(V) < 1.7


def test_robust_scale_of_a_matrix_with_few_nonzero_entries_is_positive():
    V = np.zeros((10, 200_000))
    V[:, 5] = 3.0
    assert robust_scale(V) > 0.0


def test_row_scales_ignore_gross_errors_and_a_dark_background():
    rng = np.random.default_rng(0)
    V = rng.standard_normal((3, 400)) * [[1.0], [10.0], [1.0]]
    V[2, :120] *= 1e-3  # a dark border in less than a third of the row
    V[0, ::2] = 1000.0  # gross errors in half of the row
    scales, entries = row_scales(V)
    np.testing.assert_allclose(scales, [2.0, 10.0, 0.8], rtol=0.4)
    assert entries.tolist() == [400, 400, 400]


def test_row_scales_of_an_image_use_more_than_one_column_of_pixels():
    image = 1.0 + np.random.default_rng(0).random((256, 60))
    image[:, 0] = 0.001
    assert row_scales(image.reshape(1, -1))[0][0] > 1.0


def test_row_scales_ignore_zeros():
    V = np.zeros((2, 40))
    V[0, :8] = 5.0
    scales, entries = row_scales(V)
    assert scales[0] > 1.0
    assert scales[1] == 0.0
    assert entries.tolist() == [8, 0]


def test_the_robust_scale_ignores_subnormal_numbers():
    V = np.random.default_rng(0).standard_normal((30, 10))
    scale = robust_scale(V)
    assert robust_scale(np.hstack([V, np.full((30, 20), 1e-310)])) == scale
    assert robust_scale(np.full((3, 4), 5e-324)) == 0.0
    np.testing.assert_array_equal(row_scales(np.hstack([V, np.full_like(V, 1e-310)]))[0], row_scales(V)[0])


def test_a_basis_that_is_negligible_in_its_precision_has_no_rank():
    L = np.random.default_rng(0).standard_normal((8, 3))
    assert len(thin_svd(1e-30 * L)[1]) == 3
    assert len(thin_svd((1e-30 * L).astype(np.float32))[1]) == 0
