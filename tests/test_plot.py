"""Pictures show what the models have found."""

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from maxnorm import (
    AnomalyDetector,
    MaxNormCompletion,
    MaxNormDecomposition,
    PrincipalComponentPursuit,
    open_stream,
    plot,
)
from maxnorm.plot.samples import join_columns
from maxnorm.report_data import Block, NoiseMap

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((200, 3)) @ RNG.standard_normal((3, 12)) + 0.05 * RNG.standard_normal((200, 12))
ROWS[7, 4] = 90.0
LETTERS = list("abcdefghijkl")
FRAME = pd.DataFrame(ROWS, columns=LETTERS, index=pd.date_range("2024-05-01", periods=200, freq="h"))


@pytest.fixture(scope="module")
def model():
    return MaxNormDecomposition(3, random_state=0).fit(ROWS)


@pytest.fixture(scope="module")
def named_model():
    return MaxNormDecomposition(3, random_state=0).fit(FRAME)


@pytest.fixture(scope="module")
def pursuit():
    return PrincipalComponentPursuit(tol=1e-3).fit(FRAME)


def line(ax, label):
    """Return the line of a picture that has a label."""
    return next(line for line in ax.lines if line.get_label() == label)


def labels(axis):
    """Return the texts at the ticks of an axis by their places, without those beyond its ends."""
    axis.figure.canvas.draw()
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    return {float(place): text.get_text() for place, text in ticks if low <= place <= high}


def assert_labels(axis, expected):
    """Check the texts at the ticks of an axis, of which there must be several."""
    found = labels(axis)
    assert len(found) > 2
    assert found == {place: expected(int(place)) for place in found}


# -- the basis ----------------------------------------------------------------------------------------


def test_the_scree_has_a_bar_for_each_component_and_a_line_of_sums(model):
    display = plot.scree(model)
    assert display.figure_ is display.ax_.figure
    shares = model.explained_variance_ratio_
    assert_allclose([bar.get_height() for bar in display.ax_.patches], shares)
    assert_allclose(line(display.ax_, "cumulative").get_ydata(), np.cumsum(shares))
    assert display.ax_.get_ylabel() == "share of the variance"


def test_the_scree_has_singular_values_if_there_is_no_variance(pursuit):
    display = plot.scree(pursuit)
    assert_allclose([bar.get_height() for bar in display.ax_.patches], pursuit.singular_values_)
    assert not display.ax_.lines
    assert display.cumulative is None


def test_the_scree_of_the_problem_of_the_paper_is_that_of_the_basis():
    model = MaxNormDecomposition(3, center=False, scale=None, noise="l1", random_state=0).fit(ROWS)
    display = plot.scree(model)
    assert display.label == "singular value of the basis"
    assert_allclose(display.values, np.linalg.svd(model.components_, compute_uv=False))


def test_ticks_count_components_on_axes_that_had_names():
    ax = pyplot.subplots()[1]
    ax.set_xticks([0.5, 1.5], ["left", "right"])
    plot.ScreeDisplay([0.6, 0.3, 0.1], is_ratio=True, label="share").plot(ax=ax)
    assert labels(ax.xaxis) == {1.0: "1", 2.0: "2", 3.0: "3"}


def test_components_are_lines_over_the_features(model):
    display = plot.components(model)
    assert len(display.axes_) == 3
    for ax, component in zip(display.axes_, model.components_, strict=True):
        assert not ax.images
        assert_array_equal(ax.lines[-1].get_ydata(), component)


def test_the_names_of_features_are_below_the_last_component(named_model):
    *_, last = plot.components(named_model).axes_
    assert list(labels(last.xaxis).values()) == LETTERS


def test_components_are_images_if_a_shape_is_given(model):
    display = plot.components(model, feature_shape=(3, 4))
    for ax, component in zip(display.axes_, model.components_, strict=True):
        assert_array_equal(ax.images[0].get_array(), component.reshape(3, 4))
    assert plot.components(model, feature_shape=(2, 2, 3)).axes_[0].images[0].get_array().shape == (2, 2)


def test_components_of_images_are_images():
    model = MaxNormDecomposition(2, random_state=0).fit(ROWS.reshape(200, 3, 4))
    assert plot.components(model).axes_[0].images[0].get_array().shape == (3, 4)
    assert not plot.components(model, feature_shape=(12,)).axes_[0].images


def test_five_images_need_five_axes():
    _, axes = pyplot.subplots(1, 5)
    display = plot.ComponentsDisplay(np.eye(5, 12), feature_shape=(3, 4)).plot(axes=axes)
    assert [ax is given for ax, given in zip(display.axes_, axes, strict=True)] == [True] * 5
    with pytest.raises(ValueError, match="axes has 4 axes, but the picture needs 5"):
        display.plot(axes=axes[:4])


def test_a_new_figure_hides_the_rest_of_its_grid():
    display = plot.ComponentsDisplay(np.eye(5, 12), feature_shape=(3, 4)).plot()
    assert [ax.get_visible() for ax in display.figure_.axes] == [True] * 5 + [False] * 3


def test_the_number_of_components_can_be_chosen(model):
    assert len(plot.components(model, n_components=2).axes_) == 2
    with pytest.raises(ValueError, match="n_components must be an integer of at least 1, got 0"):
        plot.components(model, n_components=0)


def test_a_model_without_components_has_no_picture():
    with pytest.raises(ValueError, match="no components to draw"):
        plot.ComponentsDisplay(np.zeros((0, 12))).plot()


def test_a_shape_must_fit_the_features(model):
    with pytest.raises(ValueError, match=r"feature_shape=\(5, 5\) has 25 entries, but the model has 12"):
        plot.components(model, feature_shape=(5, 5))


# -- gross errors -------------------------------------------------------------------------------------


def test_noise_is_a_map_in_deviations(model):
    display = plot.noise(model, ROWS)
    (image,) = display.ax_.images
    noise = model.decompose(ROWS).noise
    assert_array_equal(image.get_array() != 0.0, noise != 0.0)
    spread = np.sqrt(model.explained_variance_ @ model.components_**2 + model.noise_variance_)
    assert_allclose(image.get_array(), noise / spread)


def test_missing_entries_of_the_map_have_a_colour_of_their_own(model):
    X = ROWS.copy()
    X[3, 2] = np.nan
    display = plot.noise(model, X)
    assert np.argwhere(display.ax_.images[0].get_array().mask).tolist() == [[3, 2]]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["missing"]


def test_a_map_of_many_samples_joins_them(model):
    X = np.tile(ROWS[20:], (10, 1))
    X[1500, 4] = 90.0
    display = plot.noise(model, open_stream(X, batch_size=130))
    assert (display.rows_per_bin, len(display.deviations)) == (4, 450)
    row, column = np.unravel_index(np.argmax(np.abs(display.deviations)), display.deviations.shape)
    assert (row, column) == (1500 // 4, 4)
    assert_labels(display.ax_.yaxis, lambda k: f"{4 * k:,}")


def test_joined_samples_keep_the_larger_error_of_either_sign():
    errors = np.array([[0.0], [1.0], [-3.0], [2.0], [np.nan], [np.nan], [np.nan], [-1.0], [5.0]])
    found = NoiseMap(1, 2)
    for i, row in enumerate(errors):
        values = row[None]
        found.add(Block(i, values, np.zeros((1, 1)), np.nan_to_num(values)))
    assert found.rows_per_bin == 4
    assert found.largest.tolist() == [[-3.0], [-1.0], [5.0]]
    assert found.shares.tolist() == [[0.75], [1.0], [1.0]]  # of the entries that are not missing


def test_a_map_of_many_features_joins_them_and_counts_features():
    X = np.outer(RNG.standard_normal(40), np.ones(3000)) + 0.01 * RNG.standard_normal((40, 3000))
    X[5, 2902] = -50.0
    display = plot.noise(MaxNormDecomposition(1, random_state=0).fit(X), X)
    assert (display.columns_per_bin, display.deviations.shape) == (5, (40, 600))
    row, column = np.unravel_index(np.argmin(display.deviations), display.deviations.shape)
    assert (row, column) == (5, 580)
    assert_labels(display.ax_.xaxis, lambda k: f"{5 * k:,}")


def test_joined_columns_keep_the_larger_error_of_either_sign():
    values = np.array([[1.0, -2.0, np.nan, np.nan, 0.5]])
    assert_array_equal(join_columns(values, 2), [[-2.0, np.nan, 0.5]])
    assert join_columns(values, 1) is values


def test_a_map_has_the_labels_of_a_data_frame(named_model):
    display = plot.noise(named_model, FRAME)
    assert_labels(display.ax_.yaxis, lambda k: str(FRAME.index[k]))
    assert list(labels(display.ax_.xaxis).values()) == LETTERS


def test_labels_of_joined_samples_are_those_of_the_first(named_model):
    frame = pd.DataFrame(np.tile(ROWS, (10, 1)), columns=LETTERS)
    frame.index = [f"s{i}" for i in range(2000)]
    assert_labels(plot.noise(named_model, frame).ax_.yaxis, lambda k: f"s{4 * k}")


def test_a_part_of_a_data_frame_keeps_its_row_numbers(named_model):
    frame = FRAME.reset_index(drop=True)
    assert plot.noise(named_model, frame).index is None
    assert_labels(plot.noise(named_model, frame.iloc[100:]).ax_.yaxis, lambda k: str(100 + k))


def test_a_model_without_gross_errors_has_no_map():
    model = MaxNormDecomposition(3, noise="none", random_state=0).fit(ROWS)
    with pytest.raises(ValueError, match=r"noise='none' and finds no gross errors; .* noise='capped'"):
        plot.noise(model, ROWS)


# -- before and after ---------------------------------------------------------------------------------


def test_the_worst_sample_is_shown_before_and_after(model):
    display = plot.before_after(model, ROWS)
    assert display.samples == [7]
    (ax,) = display.axes_
    assert_array_equal(line(ax, "measured").get_ydata(), ROWS[7])
    assert_allclose(line(ax, "low-rank part").get_ydata(), model.decompose(ROWS[7:8]).low_rank[0])
    assert line(ax, "gross errors").get_xydata().tolist() == [[4.0, 90.0]]


def test_only_deviations_that_are_zero_are_replaced(monkeypatch, model):
    found = NoiseMap(12, 2)
    found.add(Block(0, ROWS, ROWS, np.zeros_like(ROWS)))
    known = np.full(12, 7.0)
    known[2] = 0.0
    monkeypatch.setattr("maxnorm.plot.samples.model_deviations", lambda _: known)
    expected = known.copy()
    expected[2] = ROWS[:, 2].std()
    assert_allclose(plot.samples.feature_deviations(model, found), expected)


def test_samples_are_shown_in_the_order_that_is_asked_for(model):
    display = plot.before_after(model, open_stream(ROWS, batch_size=50), sample=[150, 7])
    assert_array_equal(display.measured, ROWS[[150, 7]])
    assert [ax.get_title() for ax in display.axes_] == ["sample 150", "sample 7"]
    assert plot.before_after(model, ROWS, sample=20).samples == [20]


@pytest.mark.parametrize("sample", [-1, 1.5, [], [[1]], "a"])
def test_a_sample_must_be_a_position(model, sample):
    with pytest.raises(ValueError, match="sample must be one or several positions"):
        plot.before_after(model, ROWS, sample=sample)


def test_a_sample_beyond_the_end_is_an_error(model):
    with pytest.raises(ValueError, match="sample=200 is beyond X, which has 200 samples"):
        plot.before_after(model, ROWS, sample=[3, 200])


def test_gaps_are_circles_at_the_values_that_fill_them(model):
    X = ROWS.copy()
    X[7, [1, 9]] = np.nan
    (ax,) = plot.before_after(model, X, sample=7).axes_
    filled = model.decompose(X[7:8]).low_rank[0]
    assert_allclose(line(ax, "missing, filled").get_xydata(), [[1, filled[1]], [9, filled[9]]])
    assert_array_equal(line(ax, "gross errors").get_xdata(), [4])


def test_a_sample_has_the_label_of_a_data_frame_and_names_of_features(named_model):
    (ax,) = plot.before_after(named_model, FRAME).axes_
    assert ax.get_title() == "sample 2024-05-01 07:00:00"
    assert list(labels(ax.xaxis).values()) == LETTERS


@pytest.mark.parametrize("shape", [None, (3, 4)])
def test_images_are_drawn_beside_each_other(model, shape):
    X = ROWS if shape else ROWS.reshape(200, 3, 4)
    display = plot.before_after(model, X, feature_shape=shape)
    assert [ax.get_title() for ax in display.axes_] == ["measured", "low-rank part", "gross errors"]
    parts = model.decompose(ROWS[7:8])
    for ax, part in zip(display.axes_, (ROWS[7], parts.low_rank, parts.noise), strict=True):
        assert_allclose(ax.images[0].get_array(), np.reshape(part, (3, 4)))


def test_rows_of_images_are_drawn_as_images():
    model = MaxNormDecomposition(3, random_state=0).fit(ROWS.reshape(200, 3, 4))
    assert plot.before_after(model, ROWS).axes_[0].images[0].get_array().shape == (3, 4)


# -- names of features, precision and collections -----------------------------------------------------


@pytest.mark.parametrize("draw", [plot.noise, plot.before_after])
@pytest.mark.parametrize("kind", ["named_model", "pursuit"])
def test_features_in_another_order_are_refused(draw, kind, request):
    with pytest.raises(ValueError, match="feature names"):
        draw(request.getfixturevalue(kind), FRAME[LETTERS[::-1]])


@pytest.mark.parametrize("draw", [plot.noise, plot.before_after])
def test_a_pursuit_takes_the_frame_that_it_was_fitted_on(draw, pursuit):
    draw(pursuit, FRAME)  # warnings are errors
    assert list(pursuit.feature_names_in_) == LETTERS


def test_names_of_a_model_are_not_asked_of_an_array(named_model, pursuit):
    assert plot.before_after(named_model, ROWS).samples == plot.before_after(pursuit, ROWS).samples == [7]


def test_single_precision_is_drawn_like_double_precision(model):
    X = ROWS.astype(np.float32)
    single = MaxNormDecomposition(3, random_state=0).fit(X)
    assert plot.before_after(single, X).samples == [7]
    assert plot.before_after(single, X).low_rank.dtype == np.float32
    assert plot.noise(single, X).deviations[7, 4] == pytest.approx(
        plot.noise(model, ROWS).deviations[7, 4], rel=0.01
    )
    assert_allclose(plot.scree(single).values, plot.scree(model).values, atol=0.01)


@pytest.mark.parametrize(
    "as_dask",
    [lambda: dask.dataframe.from_pandas(FRAME, npartitions=3), lambda: dask.array.from_array(ROWS, (70, 12))],
    ids=["data frame", "array"],
)
def test_dask_collections_are_drawn(model, as_dask):
    X = as_dask()
    assert plot.before_after(model, X).samples == [7]
    display = plot.noise(model, X)
    assert_allclose(display.deviations, plot.noise(model, ROWS).deviations)
    assert_labels(display.ax_.yaxis, str)
    scores = plot.scores(model, X)
    assert_allclose(scores.scores, model.score_samples(ROWS))
    assert_labels(scores.ax_.xaxis, str)


# -- scores and convergence ---------------------------------------------------------------------------


def test_scores_have_the_threshold_of_a_detector():
    detector = AnomalyDetector(random_state=0).fit(FRAME)
    display = plot.scores(detector, FRAME)
    assert_array_equal(line(display.ax_, "score").get_ydata(), detector.score_samples(FRAME))
    assert_allclose(line(display.ax_, "threshold").get_ydata(), detector.offset_)
    crosses = line(display.ax_, f"anomalies: {len(display.anomalies)}")
    assert_array_equal(crosses.get_xdata(), np.flatnonzero(detector.predict(FRAME) == -1))
    assert 7 in crosses.get_xdata()
    assert_labels(display.ax_.xaxis, lambda k: str(FRAME.index[k]) if 0 <= k < 200 else "")


def test_scores_of_a_decomposition_have_no_threshold(model):
    display = plot.scores(model, ROWS)
    assert [drawn.get_label() for drawn in display.ax_.lines] == ["score"]
    assert not display.anomalies.size


def test_convergence_shows_the_loss_of_each_batch():
    history = []
    MaxNormDecomposition(3, n_epochs=2, batch_size=50, random_state=0).fit(ROWS, callback=history.append)
    display = plot.convergence(history)
    (drawn,) = display.ax_.lines
    assert_array_equal(drawn.get_xdata(), [step.n_samples for step in history])
    assert_array_equal(drawn.get_ydata(), [step.loss for step in history])
    assert display.ax_.get_xlabel() == "samples"


def test_convergence_of_rounds_counts_them():
    ax = pyplot.subplots()[1]
    ax.set_xticks([0.5, 1.5], ["left", "right"])
    display = plot.convergence([(200, 3.0), (200, 2.0), (200, 1.5)], ax=ax)
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert display.ax_.get_xlabel() == "round over all samples"
    assert set(labels(ax.xaxis).values()) == {"1", "2", "3"}


def test_a_history_must_have_steps():
    with pytest.raises(ValueError, match=r"history is empty; collect it by model\.fit"):
        plot.convergence([])
    with pytest.raises(ValueError, match="StepResults or pairs"):
        plot.convergence([(1, 2, 3)])


# -- options and errors -------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"lw": 3, "c": "k", "ls": ":"}, {"linewidth": 3, "color": "k"}])
def test_options_of_lines_may_have_short_names(model, options):
    drawn = [
        plot.ScoresDisplay.from_estimator(model, ROWS, **options).ax_.lines[0],
        *plot.BeforeAfterDisplay.from_estimator(model, ROWS, **options).axes_[0].lines[:2],
        plot.ComponentsDisplay.from_estimator(model, **options).axes_[0].lines[-1],
        plot.ConvergenceDisplay([1, 2], [2.0, 1.0]).plot(**options).ax_.lines[0],
    ]
    assert {(item.get_linewidth(), item.get_color()) for item in drawn} == {(3, "k")}


def test_options_of_bars_and_images_are_used(model):
    scree = plot.ScreeDisplay.from_estimator(model, lw=3, fc="k")
    assert {bar.get_linewidth() for bar in scree.ax_.patches} == {3}
    assert {bar.get_facecolor() for bar in scree.ax_.patches} == {(0.0, 0.0, 0.0, 1.0)}
    noise = plot.NoiseDisplay.from_estimator(model, ROWS, cmap="gray")
    assert noise.ax_.images[0].get_cmap().name == "gray"


PICTURES = [
    plot.scree,
    plot.components,
    lambda model: plot.noise(model, ROWS),
    lambda model: plot.before_after(model, ROWS),
    lambda model: plot.scores(model, ROWS),
]


@pytest.mark.parametrize("draw", PICTURES)
def test_a_model_must_be_fitted(draw):
    with pytest.raises(NotFittedError):
        draw(MaxNormDecomposition())


@pytest.mark.parametrize("draw", PICTURES)
def test_a_model_must_be_an_estimator(draw):
    with pytest.raises(TypeError, match="model must be a fitted estimator, got ndarray"):
        draw(ROWS)


@pytest.mark.parametrize("draw", PICTURES[:4])
def test_the_model_within_a_detector_must_be_passed(draw):
    detector = AnomalyDetector(random_state=0).fit(ROWS)
    with pytest.raises(TypeError, match=r"is a AnomalyDetector, of which .* pass model\.estimator_"):
        draw(detector)
    draw(detector.estimator_)


def test_a_model_must_have_what_is_drawn(pursuit):
    with pytest.raises(TypeError, match="is a PrincipalComponentPursuit, which has no score_samples"):
        plot.scores(pursuit, ROWS)


def test_a_completion_is_drawn():
    X = np.where(RNG.random(ROWS.shape) < 0.2, np.nan, ROWS)
    model = MaxNormCompletion(3, random_state=0).fit(X)
    display = plot.before_after(model, X)
    assert_array_equal(display.measured[0], X[display.samples[0]])
    assert len(plot.components(model).axes_) == 3
