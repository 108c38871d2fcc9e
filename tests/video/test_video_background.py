"""Background subtraction: what is foreground, what is not, and the habits of OpenCV and scikit-learn."""

import pickle
import threading
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import maxnorm
from maxnorm import VideoBackground
from maxnorm.core import film_loops, scene, shaking
from maxnorm.core.shaking import find_shift

H, W = 96, 128


def picture(seed=0):
    """Return a smooth picture with some edges."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:H, :W]
    base = 110.0 + 50.0 * np.sin(x / 20.0) * np.cos(y / 15.0)
    base[60:, :40] += 40.0
    return np.clip(base[..., None] + rng.normal(0.0, 8.0, 3) + rng.normal(0.0, 3.0, (H, W, 3)), 0, 255)


def film(n, *, objects=None, noise=2.0, light=None, seed=0):
    """Return a noisy film and its true foreground; objects(t) are boxes (top, left, height, width)."""
    rng = np.random.default_rng(seed)
    background = picture(seed)
    frames, truth = np.empty((n, H, W, 3), np.uint8), np.zeros((n, H, W), bool)
    for t in range(n):
        frame = background.copy()
        for top, left, height, width in objects(t) if objects else ():
            region = np.s_[max(top, 0) : top + height, max(left, 0) : left + width]
            frame[region] = (30, 60, 200)
            truth[t][region] = True
        frame = frame * (light(t) if light else 1.0) + rng.normal(0.0, noise, frame.shape)
        frames[t] = np.clip(np.rint(frame), 0, 255)
    return frames, truth


def run(frames, **parameters):
    subtractor = VideoBackground(**parameters)
    return np.stack([subtractor.apply(frame) for frame in frames]) > 0, subtractor


def f_measure(masks, truth):
    hits = (masks & truth).sum()
    return 2.0 * hits / max(masks.sum() + truth.sum(), 1)


def walking(t):
    return [(30, 2 * (t - 40), 30, 14)] if t >= 40 else []


def test_a_moving_object_is_found_and_the_background_is_what_is_behind_it():
    frames, truth = film(90, objects=walking)
    masks, subtractor = run(frames)
    assert f_measure(masks[45:], truth[45:]) > 0.93
    assert np.abs(subtractor.background_.astype(float) - picture()).mean() < 2.0


def test_an_empty_scene_has_an_empty_mask_also_if_it_is_noisy():
    for noise in (0.0, 2.0, 12.0):
        masks, _ = run(film(80, noise=noise)[0])
        assert masks.mean() < 1e-3


def test_an_object_that_stands_still_remains_foreground():
    def standing(t):
        return [(30, min(2 * (t - 40), 50), 30, 14)] if t >= 40 else []

    frames, truth = film(400, objects=standing)
    masks, _ = run(frames)
    assert f_measure(masks[-20:], truth[-20:]) > 0.9


def test_an_object_that_was_there_in_the_beginning_and_leaves_is_no_ghost_for_long():
    def leaving(t):
        return [(30, 40, 30, 14)] if t < 60 else []

    masks, _ = run(film(140, objects=leaving)[0])
    assert not masks[-20:].any()


@pytest.mark.parametrize("factor", [0.6, 1.4])
def test_the_brightness_follows_a_change_of_the_light_at_once(factor):
    frames, truth = film(100, objects=walking, light=lambda t: factor if t >= 70 else 1.0)
    masks, subtractor = run(frames)
    assert subtractor.brightness_ == pytest.approx(factor, rel=0.03)
    assert f_measure(masks[72:], truth[72:]) > 0.85


def test_another_scene_is_learnt_within_fifty_frames():
    first, second = film(60)[0], 255 - film(80, seed=5)[0]
    masks, subtractor = run(np.concatenate([first, second]))
    assert not masks[-30:].any()
    assert subtractor.n_frames_ < 80


def test_a_lamp_that_lights_a_part_of_the_scene_is_forgotten_within_fifty_frames():
    frames = film(120)[0].astype(float)
    y, x = np.mgrid[:H, :W]
    frames[60:] += 40.0 * np.exp(-((x - 60.0) ** 2 + (y - 40.0) ** 2) / 900.0)[..., None]
    masks, _ = run(np.clip(frames, 0, 255).astype(np.uint8))
    assert masks[110:].mean() < 1e-3


@pytest.mark.parametrize("factor", [0.95, 0.75])
def test_a_shadow_is_not_foreground(factor):
    frames, _ = film(60)
    frames = frames.astype(float)
    frames[40:, 40:70, 40:80] *= factor
    masks, _ = run(frames.astype(np.uint8))
    assert masks[45:].mean() < 1e-3


def test_spray_through_which_the_background_is_visible_is_no_object():
    frames = film(60)[0].astype(float)
    for t in range(40, 60):
        region = np.s_[t, t : t + 20, 60:75]
        frames[region] = 0.7 * frames[region] + 0.3 * 255.0
    masks, _ = run(frames.astype(np.uint8))
    assert masks[40:].mean() < 1e-3


def test_bright_flicker_does_not_hide_a_dark_object():
    rng = np.random.default_rng(0)
    frames, truth = film(150, objects=lambda t: [(60, 2 * (t - 100), 25, 14)] if t >= 100 else [])
    glints = rng.random((150, H - 50, W, 1)) < 0.1
    frames[:, 50:] = np.where(glints & ~truth[:, 50:, :, None], 255, frames[:, 50:])
    frames[truth] = (30, 30, 30)
    masks, _ = run(frames)
    assert masks[80:100].mean() < 1e-3
    assert f_measure(masks[105:], truth[105:]) > 0.9


def test_a_dark_and_noisy_film_has_a_mask():
    rng = np.random.default_rng(0)
    frames, truth = film(120, objects=walking, noise=0.0)
    dark = 0.15 * frames + 8.0 + rng.normal(0.0, 4.0, frames.shape)
    masks, _ = run(np.clip(dark, 0, 255).astype(np.uint8))
    assert not masks[20:40].any()
    assert f_measure(masks[50:], truth[50:]) > 0.8


def test_flicker_that_was_there_from_the_beginning_is_background():
    rng = np.random.default_rng(0)
    frames, truth = film(150, objects=lambda t: [(10, 2 * (t - 100), 30, 14)] if t >= 100 else [])
    water = np.clip(frames[:, 60:] + rng.normal(0.0, 30.0, (150, H - 60, W, 1)), 0, 255)
    frames[:, 60:] = water.astype(np.uint8)
    masks, _ = run(frames)
    assert masks[80:100].mean() < 1e-3
    assert f_measure(masks[105:], truth[105:]) > 0.9


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x / 255.0,
        lambda x: (x / 255.0).astype(np.float32),
        lambda x: x.astype(np.float64),
        lambda x: x.astype(np.uint16) * 257,
    ],
    ids=["0 to 1", "single", "0 to 255", "16 bit"],
)
def test_the_type_of_the_frames_does_not_matter(convert):
    frames = film(60, objects=walking)[0]
    frames[0, 0, 0] = 255  # so that the range of floating-point frames is known from the first one
    expected, subtractor = run(frames)
    masks, other = run(convert(frames))
    assert (masks != expected).mean() < 1e-3
    background = convert(subtractor.background_.astype(np.uint8)).astype(float)
    assert_allclose(other.background_.astype(float), background, atol=background.max() * 0.01)
    assert other.background_.dtype == convert(frames).dtype


def test_grey_frames_and_missing_pixels():
    frames, truth = film(70, objects=walking)
    grey = frames[..., 0].astype(float)
    grey[:, 5:9, 100:110] = np.nan
    masks, subtractor = run(grey / 255.0)
    assert subtractor.background_.shape == (H, W)
    assert f_measure(masks[45:], truth[45:]) > 0.85


def test_masks_are_bytes_and_the_first_frame_has_none():
    frame = film(1)[0][0]
    mask = VideoBackground().apply(frame)
    assert mask.dtype == np.uint8
    assert mask.shape == (H, W)
    assert not mask.any()


def test_fit_partial_fit_and_apply_learn_the_same():
    frames = film(50, objects=walking)[0]
    applied = run(frames)[1]
    fitted = VideoBackground().fit(frames)
    parts = VideoBackground().partial_fit(frames[:20]).partial_fit(iter(frames[20:]))
    assert_array_equal(fitted.background_, applied.background_)
    assert_array_equal(parts.background_, applied.background_)
    assert_array_equal(fitted.getBackgroundImage(), fitted.background_)


def test_decompose_does_not_learn_and_keeps_shape_and_type():
    frames = film(70, objects=walking)[0]
    subtractor = VideoBackground().fit(frames[:50])
    before = pickle.dumps(subtractor)
    parts = subtractor.decompose(frames[50:])
    assert pickle.dumps(subtractor) == before
    assert parts.background.shape == parts.foreground.shape == frames[50:].shape
    assert parts.background.dtype == parts.foreground.dtype == frames.dtype
    assert_array_equal(parts.foreground[parts.mask], frames[50:][parts.mask])
    assert not parts.foreground[~parts.mask].any()


def test_a_saved_and_a_pickled_model_continue_as_if_nothing_had_happened(tmp_path):
    frames = film(70, objects=walking)[0]
    for n_first in (0, 1, 10, 50):
        subtractor = VideoBackground(sensitivity=1.2)
        for frame in frames[:n_first]:
            subtractor.apply(frame)
        subtractor.save(tmp_path / "film.maxnorm")
        others = [maxnorm.load(tmp_path / "film.maxnorm"), pickle.loads(pickle.dumps(subtractor))]
        for frame in frames[n_first:]:
            mask = subtractor.apply(frame)
            for other in others:
                assert_array_equal(other.apply(frame), mask)


def test_a_model_file_with_arrays_of_another_shape_is_refused(tmp_path):
    subtractor = VideoBackground().fit(film(3)[0])
    subtractor._scene.blinks = subtractor._scene.blinks[1:]
    subtractor.save(tmp_path / "film.maxnorm")
    with pytest.raises(ValueError, match="blinks"):
        maxnorm.load(tmp_path / "film.maxnorm")


def test_memory_does_not_grow_with_the_number_of_frames():
    frames = film(60)[0]
    subtractor = VideoBackground().fit(frames)
    size = len(pickle.dumps(subtractor))
    subtractor.partial_fit(np.concatenate([frames] * 3))
    assert len(pickle.dumps(subtractor)) == size


def test_large_frames_are_reduced_and_results_have_their_size():
    frames, truth = film(50, objects=walking)
    large = frames.repeat(7, axis=1).repeat(7, axis=2)[:, :665, :893]
    masks, subtractor = run(large)
    assert masks.shape == large.shape[:3]
    assert subtractor.background_.shape == large.shape[1:]
    expected = truth.repeat(7, axis=1).repeat(7, axis=2)[:, :665, :893]
    assert f_measure(masks[45:], expected[45:]) > 0.9


def test_two_films_in_two_threads_do_not_disturb_each_other():
    films = [film(50, objects=walking, seed=seed)[0] for seed in (0, 1)]
    expected = [run(frames)[0] for frames in films]
    found = [None, None]

    def work(i):
        found[i] = run(films[i])[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(1, 1), (1, 50, 3), (7, 5), (3, 3, 1)])
def test_tiny_frames(shape):
    rng = np.random.default_rng(0)
    subtractor = VideoBackground()
    for _ in range(40):
        assert subtractor.apply(rng.integers(90, 110, shape, dtype=np.uint8)).shape == shape[:2]
    assert subtractor.background_.shape == shape


def test_black_frames_are_background():
    masks, _ = run(np.zeros((20, 30, 40), np.uint8))
    assert not masks.any()


def test_errors_name_the_remedy():
    frames = film(2)[0]
    subtractor = VideoBackground()
    with pytest.raises(NotFittedError):
        subtractor.decompose(frames)
    subtractor.apply(frames[0])
    with pytest.raises(ValueError, match="earlier frames have"):
        subtractor.apply(frames[0][1:])
    with pytest.raises(ValueError, match="takes single frames"):
        subtractor.partial_fit(frames[0])
    with pytest.raises(ValueError, match="no frames"):
        VideoBackground().fit(iter(()))
    with pytest.raises(TypeError, match="open_film"):
        VideoBackground().fit("film.mp4")
    with pytest.raises(ValueError, match="infinite"):
        VideoBackground().apply(np.full((5, 5), np.inf))
    with pytest.raises(TypeError, match="convert them"):
        VideoBackground().apply(np.array([["a", "b"]]))
    with pytest.raises(ValueError, match="leave out an alpha channel"):
        VideoBackground().apply(np.zeros((5, 5, 6)))
    with pytest.raises(ValueError, match="sensitivity"):
        VideoBackground(sensitivity=0.0).apply(frames[0])


def test_parameters_are_cloned_and_untouched():
    subtractor = VideoBackground(sensitivity=2.0, min_area=0.01).fit(film(3)[0])
    assert clone(subtractor).get_params() == subtractor.get_params() == {"sensitivity": 2.0, "min_area": 0.01}


def test_compiled_loops_and_numpy_loops_agree():
    compiled = pytest.importorskip("maxnorm.core.compiled_film")
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 256, (23, 31, 3), dtype=np.uint8)
    background = rng.uniform(0.0, 255.0, (3, 23, 31)).astype(np.float32)
    labels = np.repeat(np.repeat(rng.integers(0, 4, (6, 8)), 4, axis=0), 4, axis=1)[:23, :31].astype(np.int32)
    ages = rng.integers(0, 9, (23, 31), dtype=np.int32)
    mask = rng.random((23, 31)) < 0.5
    for factor in (2, 3, 7):
        assert_allclose(film_loops.block_mean(frame, factor), compiled.block_mean(frame, factor), rtol=1e-5)
    assert_allclose(film_loops.block_mean(frame, 3)[2, 4], frame[6:9, 12:15].mean(axis=(0, 1)), rtol=1e-5)
    first, second = (loops.residual(frame, background) for loops in (film_loops, compiled))
    assert_allclose(first, second, atol=1e-4)
    for half in (1, 4, 15, 40):
        assert_allclose(film_loops.box_mean(first, half), compiled.box_mean(first, half), atol=1e-3)
        assert_array_equal(film_loops.majority(mask, half), compiled.majority(mask, half))
    for shift in ((0.3, -1.7), (-2.0, 0.0), (30.0, 0.5)):
        assert_allclose(film_loops.shift(first, *shift), compiled.shift(first, *shift), atol=1e-3)
    coarse = film_loops.box_mean(first, 2)
    for slack in (0.0, 0.1):
        for one, other in zip(
            film_loops.contrast(coarse, background, slack),
            compiled.contrast(coarse, background, slack),
            strict=True,
        ):
            assert_allclose(one, other, atol=1e-3)
    distance = film_loops.contrast(coarse, background, 0.1)[1]
    limits = rng.uniform(5.0, 50.0, distance.shape).astype(np.float32)
    for seen in (None, coarse):
        scores = [np.full(mask.shape, 0.5, np.float32) for _ in range(2)]
        film_loops.score(distance, limits, seen, first, 0.5, scores[0])
        compiled.score(distance, limits, seen, first, 0.5, scores[1])
        assert_allclose(*scores, rtol=1e-4)
    scales = [np.full(distance.shape, 9.0, np.float32) for _ in range(2)]
    film_loops.follow_quantile(scales[0], distance, mask, 1.2, 0.9, 8.5)
    compiled.follow_quantile(scales[1], distance, mask, 1.2, 0.9, 8.5)
    assert_allclose(*scales, rtol=1e-6)
    moved = [background.copy(), background.copy()]
    gains = (0.1 * mask).astype(np.float32)
    film_loops.follow_background(moved[0], first, gains, 20.0)
    compiled.follow_background(moved[1], first, gains, 20.0)
    assert_allclose(*moved, atol=1e-3)
    for one, other in zip(
        film_loops.measure_blobs(labels, 3, ages, frame, background, first),
        compiled.measure_blobs(labels, 3, ages, frame, background, first),
        strict=True,
    ):
        assert_allclose(one, other, rtol=1e-4)
    assert_allclose(
        film_loops.compare_textures(labels, 3, frame, background),
        compiled.compare_textures(labels, 3, frame, background),
        rtol=1e-4,
    )


def test_without_numba_the_masks_are_the_same(monkeypatch):
    frames = film(50, objects=walking)[0]
    expected, _ = run(frames)
    monkeypatch.setattr(scene, "loops", lambda: film_loops)
    masks, _ = run(frames)
    assert (masks != expected).mean() < 1e-4


def test_the_scale_of_a_pixel_is_the_quantile_of_its_distances():
    rng = np.random.default_rng(0)
    scales = np.full((1, 2000), 3.0, np.float32)
    q, rate = scene.RULES.quantile, 0.01
    for _ in range(3000):
        distance = np.abs(rng.normal(0.0, 10.0, scales.shape)).astype(np.float32)
        film_loops.follow_quantile(
            scales, distance, np.ones(scales.shape, bool), np.exp(rate * q), np.exp(-rate * (1 - q)), 0.1
        )
    assert np.mean(scales) == pytest.approx(19.6, rel=0.03)  # the 95 % quantile of |N(0, 10)|


@pytest.mark.parametrize(("gain", "shift"), [(0.8, 0.0), (1.0, 12.0), (0.9, -8.0)])
def test_brightness_and_offset_of_a_frame_are_found_beside_an_object(gain, shift):
    known = VideoBackground().fit(film(40)[0])._scene
    frame = np.clip(picture() * gain + shift, 0, 255)
    frame[10:40, 20:60] = 255  # an object
    brightness, offset, agreement = scene.find_light(known, frame, known.background)
    assert brightness == pytest.approx(gain, rel=0.03)
    assert offset == pytest.approx(shift, abs=3.0)
    assert 0.8 < agreement < 0.95


def test_a_flat_frame_is_explained_by_its_brightness():
    known = VideoBackground().fit(np.full((40, 30, 40), 100, np.uint8))._scene
    brightness, offset, agreement = scene.find_light(
        known, np.full((30, 40, 1), 60, np.uint8), known.background
    )
    assert brightness == pytest.approx(0.6, rel=0.01)
    assert offset == pytest.approx(0.0, abs=1.0)
    assert agreement == 1.0


@pytest.mark.parametrize("shift", [(0.0, 0.0), (1.5, -2.0), (-0.7, 0.4), (0.0, 3.0)])
def test_the_shift_of_a_background_is_found_beside_an_object(shift):
    background = film_loops.box_mean(picture().mean(axis=2)[None].astype(np.float32), 2)[0]
    moved = film_loops.shift(background[None], *shift)[0]
    moved[20:50, 40:70] = 255.0  # an object
    assert_allclose(find_shift(background, moved, np.ones(moved.shape, bool)), shift, atol=0.15)


def test_a_still_camera_needs_a_single_round(monkeypatch):
    background = film_loops.box_mean(picture().mean(axis=2)[None].astype(np.float32), 2)[0]
    slope = Mock(wraps=shaking._slope)
    monkeypatch.setattr(shaking, "_slope", slope)
    noise = np.random.default_rng(0).normal(0.0, 0.5, background.shape)
    assert find_shift(background, background + noise, np.ones(background.shape, bool)) == (0.0, 0.0)
    assert slope.call_count == 2  # once per axis


def test_a_picture_without_edges_has_no_shift():
    flat = np.full((H, W), 100.0, np.float32)
    assert find_shift(flat, flat + 1.0, np.ones(flat.shape, bool)) == (0.0, 0.0)


def test_a_shaking_camera_costs_little():
    rng = np.random.default_rng(0)
    frames, truth = film(120, objects=walking)
    for t in range(1, 120):
        down, right = rng.integers(-2, 3, 2)
        frames[t] = np.roll(frames[t], (down, right), (0, 1))
        truth[t] = np.roll(truth[t], (down, right), (0, 1))
    masks, _ = run(frames)
    assert f_measure(masks[45:95], truth[45:95]) > 0.88


@pytest.mark.parametrize("factor", [1, 4, 16, 257])
def test_the_range_of_integers_is_seen_from_the_frames(factor):
    frames = film(60, objects=walking)[0]
    frames[0, 0, 0] = 255
    expected, _ = run(frames)
    masks, _ = run(frames.astype(np.int32) * factor)
    assert (masks != expected).mean() < 0.01


@pytest.mark.parametrize("first", [0.0, np.nan])
def test_a_black_or_empty_first_frame_does_not_matter(first):
    frames, truth = film(90, objects=walking)
    frames = frames.astype(float)
    frames[0] = first
    masks, _ = run(frames)
    assert f_measure(masks[45:], truth[45:]) > 0.9


def test_a_change_of_the_type_is_refused():
    frames = film(3)[0]
    subtractor = VideoBackground().fit(frames)
    with pytest.raises(ValueError, match="the type float64, but earlier frames have"):
        subtractor.apply(frames[0] / 255.0)
    with pytest.raises(TypeError, match="open_film"):
        subtractor.fit(None)
    assert subtractor.n_frames_ == 3
    with pytest.raises(ValueError, match="a share of the image"):
        subtractor.set_params(min_area=2.0).decompose(frames)


def test_the_background_of_large_frames_is_not_displaced():
    frames = np.zeros((3, 960, 1280), np.uint8)
    frames[:, :, 900:] = 200
    background = VideoBackground().fit(frames).background_.astype(int)
    assert abs(int(np.argmax(background[500] > 100)) - 900) <= 1


def test_frames_as_bytes():
    frames = film(3)[0]
    subtractor = VideoBackground().fit(frames / 255.0)
    assert_array_equal(subtractor.as_bytes(frames[0] / 255.0), frames[0])
