"""The generated data have the requested properties."""

import numpy as np
import pytest

from maxnorm.datasets import make_corrupted_low_rank


def test_parts_add_up_and_have_the_requested_shares_and_rank():
    data = make_corrupted_low_rank(400, 60, 5, corruption=0.3, magnitude=10.0, missing=0.2, random_state=0)
    observed = ~np.isnan(data.X)
    np.testing.assert_array_equal(data.X[observed], (data.low_rank + data.noise)[observed])
    assert observed.mean() == pytest.approx(0.8, abs=0.02)
    assert (data.noise != 0).mean() == pytest.approx(0.3, abs=0.02)
    assert 9.0 < np.abs(data.noise).max() <= 10.0
    assert np.linalg.matrix_rank(data.low_rank) == 5
    np.testing.assert_allclose(data.basis.T @ data.basis, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(data.low_rank @ data.basis @ data.basis.T, data.low_rank, atol=1e-12)


def test_the_same_seed_gives_the_same_data():
    first, second = (make_corrupted_low_rank(50, 20, 2, random_state=4) for _ in range(2))
    np.testing.assert_array_equal(first.X, second.X)


def test_dense_noise_has_the_requested_standard_deviation():
    data = make_corrupted_low_rank(50, 20, 2, corruption=0, dense_noise=0.3, random_state=4)
    assert data.noise.std() == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1, got 0"),
        ({"rank": 200}, "rank must be at most n_features=100, got 200"),
        ({"corruption": 1.5}, "corruption must be a share .* got 1.5"),
    ],
)
def test_errors_name_the_argument_and_its_value(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_corrupted_low_rank(**arguments)
