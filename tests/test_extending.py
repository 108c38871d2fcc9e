"""The classes of docs/extending.md do what the page says, and satisfy the contracts of what they extend."""

import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from maxnorm import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core.batch import Batch
from maxnorm.core.noise import NOISES
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.dense import DenseLearner
from maxnorm.learner import Progress, flush, learn, take
from maxnorm.metrics import expressed_variance, relative_error
from maxnorm.streams.opening import READERS_OF_ONE_ARRAY

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Run the page and return its names; the tables that it extends are restored."""
    namespace = {}
    with (
        pytest.MonkeyPatch.context() as patch,
        mock.patch.dict(NOISES),
        mock.patch.dict(READERS_OF_ONE_ARRAY),
    ):
        patch.chdir(tmp_path_factory.mktemp("page"))
        for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
            exec(compile(code, str(PAGE), "exec"), namespace)
        yield namespace


def test_the_prox_of_positive_spikes_minimises_its_cost(page):
    noise = page["PositiveSpikes"](0.3)
    V = np.linspace(-3.0, 3.0, 61)[:, None]
    E = noise.prox(V)
    grid = np.linspace(0.0, 4.0, 4001)
    cost = 0.5 * (V - E)[:, 0] ** 2 + noise.value(E)
    others = 0.5 * (V - grid) ** 2 + noise.value(grid[:, None])
    assert (cost <= others.min(axis=1) + 1e-12).all()


def test_positive_spikes_recover_the_clean_spectra(page):
    spectra, clean = page["spectra"], page["clean"]
    for noise in (page["PositiveSpikes"](0.3), "positive"):
        model = MaxNormDecomposition(4, noise=noise, n_epochs=3, random_state=0).fit(spectra)
        assert relative_error(clean, model.decompose(spectra).low_rank) < 0.1


def test_the_basis_of_the_smooth_norm_minimises_the_surrogate(page):
    rng = np.random.default_rng(0)
    R, Z = rng.standard_normal((40, 3)), rng.standard_normal((40, 12))
    statistics = SufficientStatistics.from_batch(Z, R, np.zeros(40))
    norm = page["SmoothNorm"](0.5, smoothness=3.0)

    def surrogate(L):
        return statistics.quadratic(L) - np.vdot(L, statistics.B) + norm.basis_value(L)

    L = norm.update_basis(rng.standard_normal((12, 3)), statistics)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(50):
            assert surrogate(L + size * rng.standard_normal(L.shape)) >= surrogate(L)


def test_the_smooth_norm_gives_smoother_components_than_the_nuclear_norm(page):
    t = np.linspace(0.0, 1.0, 60)
    waves = np.stack([np.sin(2 * np.pi * k * t) for k in (1, 2, 3)])
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)) @ waves + 0.5 * rng.standard_normal((300, 60))
    norm = page["SmoothNorm"](0.1, smoothness=50.0)
    smooth = MaxNormDecomposition(3, norm=norm, noise="none", random_state=0).fit(X)
    plain = OnlineRobustPCA(3, lambda1=0.1, noise="none", random_state=0).fit(X)

    def roughness(model):
        return np.sum(np.diff(model.components_) ** 2) / np.sum(model.components_**2)

    assert roughness(smooth) < 0.7 * roughness(plain)
    assert expressed_variance(waves.T, smooth.components_.T) > expressed_variance(
        waves.T, plain.components_.T
    )


def test_a_fit_on_raw_frames_is_a_fit_on_the_array(page):
    model = MaxNormDecomposition(2, random_state=0).fit(page["stream"])
    same = MaxNormDecomposition(2, random_state=0).fit(page["counts"].astype(float))
    np.testing.assert_array_equal(model.components_, same.components_)


@pytest.mark.parametrize("norm", ["max", "nuclear"])
@pytest.mark.parametrize("seed", range(3))
def test_the_drift_aware_learner_follows_a_new_subspace(page, norm, seed):
    first, second = (make_corrupted_low_rank(3000, 100, 5, random_state=s) for s in (seed, seed + 100))
    model = page["DriftAwareDecomposition"](5, norm=norm, random_state=0).fit(first.X)
    assert expressed_variance(first.basis, model.components_.T) > 0.998
    model.partial_fit(second.X[:300])
    assert expressed_variance(second.basis, model.components_.T) > 0.9
    model.partial_fit(second.X[300:1000])
    assert expressed_variance(second.basis, model.components_.T) > 0.99
    assert model.n_samples_seen_ == 4000


@pytest.mark.parametrize(
    "kind", [{}, {"dense_noise": 0.05}, {"corruption": 0.5}, {"corruption": 0.0, "dense_noise": 0.1}]
)
def test_the_drift_aware_learner_raises_no_false_alarm_on_a_still_stream(page, kind):
    data = make_corrupted_low_rank(5000, 60, 5, random_state=0, **kind)
    times = []
    page["DriftAwareDecomposition"](5, random_state=0).partial_fit(
        data.X, callback=lambda result: times.append(result.state.time)
    )
    assert (np.diff(times) > 0).all()


def test_the_drift_aware_learner_does_not_depend_on_how_rows_are_cut(page):
    data = make_corrupted_low_rank(400, 30, 3, random_state=0).X
    learner = page["DriftAware"](DenseLearner(n_components=3))
    whole, _ = learn(learner, learner.start(30, data.dtype, 0), Batch(data))
    progress = Progress(learner.start(30, data.dtype, 0))
    for i in range(0, 400, 7):
        progress = take(learner, progress, Batch(data[i : i + 7]))
    np.testing.assert_array_equal(flush(learner, progress).state.L, whole.L)
