"""Pictures show what the models have found."""

import numpy as np
import pytest

from maxnorm import AnomalyDetector, MaxNormDecomposition, plot


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 12)) + 0.05 * rng.standard_normal((200, 12))
    X[7, 4] = 90.0
    return X


@pytest.fixture(scope="module")
def model(rows):
    return MaxNormDecomposition(random_state=0).fit(rows)


def test_the_scree_has_one_mark_for_each_component(model):
    display = plot.scree(model)
    assert display.ax_.figure is display.figure_
    assert len(display.ax_.patches) + sum(len(line.get_xdata()) for line in display.ax_.lines) >= 3


def test_components_are_lines_or_images(model):
    as_lines = plot.components(model)
    assert not any(axes.images for axes in np.ravel(as_lines.axes_))
    as_images = plot.components(model, feature_shape=(3, 4))
    assert sum(len(axes.images) for axes in np.ravel(as_images.axes_)) >= model.n_components_


def test_noise_is_a_map(model, rows):
    display = plot.noise(model, rows)
    assert display.ax_.images or display.ax_.collections


def test_the_worst_sample_is_shown_before_and_after(model, rows):
    display = plot.before_after(model, rows)
    assert display.figure_ is not None


def test_convergence_shows_the_history_of_a_fit(rows):
    history = []
    MaxNormDecomposition(3, n_epochs=2, random_state=0).fit(rows, callback=history.append)
    display = plot.convergence(history)
    assert sum(len(line.get_xdata()) for line in display.ax_.lines) >= len(history) > 1


def test_scores_have_the_threshold_of_a_detector(rows):
    detector = AnomalyDetector(random_state=0).fit(rows)
    display = plot.scores(detector, rows)
    heights = [np.unique(line.get_ydata()) for line in display.ax_.lines]
    assert any(len(values) == 1 and np.isclose(values[0], detector.offset_) for values in heights)
