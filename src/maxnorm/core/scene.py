"""The scene before a fixed camera: its background, and what moves in front of it.

A film without foreground is a matrix of rank one: each frame is the background times the brightness of that
frame, ``z = r l + e``, apart from an offset that cameras add when they adapt to the light. Both
coefficients are found robustly from a small part of the pixels, and the background l follows the frames
wherever no foreground covers it. What makes the mask is the comparison of the residual ``e`` with the scale
that each pixel had in the past, at several sizes of neighbourhood:

- a single pixel sees fine detail, but leaves and waves move by as much as objects do;
- in a mean over 9 x 9 pixels the flicker of leaves and waves cancels, and an object stays.

The scales are running quantiles of the residuals, one for what is brighter than the background and one for
what is darker: a white fountain does not hide a dark car behind it. They are not learnt under the mask and
beside it, because an object would raise them until it is no longer seen; where the mask blinks, it is no
object, and they are.

A region through which the texture of the background is visible is spray, a shadow or light, and no object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import ceil, exp
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage

from maxnorm.core import film_loops
from maxnorm.core.shaking import STILL, Shift, find_shift
from maxnorm.core.types import AnyArray


@dataclass(frozen=True)
class Rules:
    """The constants of the comparison and of learning, in grey levels of 0 to 255.

    They were chosen by the mean F-measure over three labelled sequences and others that were made from them
    and from films of water and of an escalator (shaken, dark, pale, with other light, with objects pasted
    in). The constants of contrast, noise and transparency were compared at a few values each, on parts of
    this set.
    ``benchmarks/video.py`` has such sequences.

    Attributes
    ----------
    halves : tuple of int
        Half widths of the neighbourhoods whose mean residual is looked at.
    offsets : tuple of float
        Distances that count as foreground if the scale of a pixel is zero, for each neighbourhood.
    usual_contrast, least_contrast : float
        Standard deviation of the background below which the offsets are smaller in proportion, because
        objects differ less from the background in a dark or pale film; and the smallest factor.
    slope : float
        Multiple of the scale that is added to the offset.
    slacks : tuple of float
        Share by which a shadow may darken the background, for each neighbourhood.
    fresh, followed : float
        Factors of the limits where there was no foreground in the last frame, and where it was all around.
    sharpness : float
        Component of a residual along the mean around it from which a pixel belongs to what the mean sees.
    noisy : float
        A film is noisy if the median scale of its pixels is a larger share of the contrast of the background.
        The component along a mean over 9 x 9 pixels is then that of means over 3 x 3 pixels.
    fringe : float
        Pixels whose distance is a smaller share of the mean distance of the foreground around them belong to
        the blurred outline.
    quantile, rate : float
        Which quantile of the distances the scale is, and the logarithm by which it moves per frame.
    first_rate, first_rate_frames : float
        Rate at the start, when the scales are a guess, and the number of frames in which it falls to a half.
    blinking : float
        Share of the latest frames with a change of a pixel's mask from which the pixel learns in any case.
    blink_rate : float
        Weight of a frame in that share.
    margin : int
        Pixels around the mask that do not learn scales.
    background_rate, covered_rate, largest_step : float
        Share of the residual by which the background moves per frame, the same under foreground, and the
        largest residual that counts. An object of a strong contrast becomes background in some 10,000 frames.
    n_first : int
        Number of first frames whose median is the background.
    kept_first : int
        Number of them that are kept at a time.
    transparency, certainty : float
        A blob is spray, a shadow or light rather than an object if the texture of the background is visible
        in it: if the regression of the gradients of the frame on those of the background has a larger slope
        than the first number, and their correlation is more standard errors above zero than the second.
    patience : int
        Frames for which a small blob must last.
    large_blob : float
        Share of the image from which a blob is shown at once.
    ghost : float
        A blob is a ghost if the background has edges along its outline that are this much stronger than
        those of the frame: it was an object when the background was learnt, and is gone.
    softness : float
        A blob is light rather than an object if the residual changes across its outline by less than this
        share of its mean inside.
    ghost_rate, ghost_limit, ghost_gain : float
        Weight of a frame in the suspicion that a blob is a ghost, the suspicion from which it is learnt from,
        and the share of the residual by which it is.
    flood, agreement, n_floods : float, float, int
        If more than the first share of the image is foreground, or less than the second near to the
        background, for so many frames, the scene has changed and is learnt anew.
    """

    halves: tuple[int, ...] = (0, 1, 4)
    offsets: tuple[float, ...] = (12.0, 8.0, 7.0)
    usual_contrast: float = 50.0
    least_contrast: float = 0.3
    slope: float = 1.3
    slacks: tuple[float, ...] = (0.07, 0.07, 0.04)
    fresh: float = 1.1
    followed: float = 0.7
    sharpness: float = 0.5
    noisy: float = 0.3
    fringe: float = 0.42
    quantile: float = 0.95
    rate: float = 0.1
    first_rate: float = 1.0
    first_rate_frames: float = 10.0
    blinking: float = 0.15
    blink_rate: float = 0.03
    margin: int = 8
    background_rate: float = 0.02
    covered_rate: float = 0.0004
    largest_step: float = 20.0
    n_first: int = 32
    kept_first: int = 9
    transparency: float = 0.6
    certainty: float = 3.0
    patience: int = 3
    large_blob: float = 0.005
    ghost: float = 1.5
    softness: float = 0.4
    ghost_rate: float = 0.1
    ghost_limit: float = 0.6
    ghost_gain: float = 0.3
    flood: float = 0.5
    agreement: float = 0.5
    n_floods: int = 10


RULES = Rules()
FIRST_SCALE = 3.0  # of a single pixel, before anything is known; larger neighbourhoods have less
LEAST_SCALE = 1.0
LARGEST_NOISE = 25.0  # median distance of the second frame beyond which the first was another scene, or black
NORMAL_QUANTILE = np.float32(2.9)  # 95 % quantile of the absolute value of normal noise, in medians
OLDEST = 100  # ages of blobs are counted up to this
FOLLOWED_HALF = 3  # half width of the square in which the foreground of the last frame is counted
FRINGE_HALF = 5  # half width of the square over which the distance of the foreground is averaged
OUTLINE_HALF = 1  # half width of the mean residual whose change across the outline of a blob is measured
GRID = 8  # the light is found from every eighth pixel of every eighth row
LIGHT_ROUNDS = 6
OFFSET_PENALTY = 0.01  # weight of the squared offset, in pixels


@dataclass
class Scene:
    """What is known of a scene after some frames. The arrays are changed in place by :func:`learn`.

    Attributes
    ----------
    background : ndarray of shape (c, h, w)
        The background at brightness one, in grey levels.
    scales : ndarray of shape (n_neighbourhoods, 2, h, w)
        Quantiles of the distances of each pixel above and below the background, for each neighbourhood.
    blinks : ndarray of shape (h, w)
        Share of the latest frames in which the raw mask of a pixel has changed.
    raw : bool ndarray of shape (h, w)
        Raw mask of the last frame.
    covered : bool ndarray of shape (h, w)
        Blobs of the last frame, with those that were not shown.
    ages : int ndarray of shape (h, w)
        For how many frames the blob of each pixel has lasted.
    suspicion : ndarray of shape (h, w)
        Evidence that the blob of a pixel is a ghost, from zero to one.
    brightness, offset : float
        Coefficients of the last frame.
    n_frames : int
        Number of frames seen.
    first : ndarray of shape (n_kept, h, w, c)
        The first frames, while the background is their median.
    stride : int
        Distance between the first frames that are kept.
    n_floods : int
        Number of successive frames that were mostly foreground.
    """

    background: AnyArray
    scales: AnyArray
    blinks: AnyArray
    raw: AnyArray
    covered: AnyArray
    ages: AnyArray
    suspicion: AnyArray
    brightness: float
    offset: float
    n_frames: int
    first: AnyArray
    stride: int
    n_floods: int


@dataclass(frozen=True)
class View:
    """A frame as :func:`segment` sees it.

    Attributes
    ----------
    mask : bool ndarray of shape (h, w)
        The foreground.
    residual : ndarray of shape (c, h, w)
        Frame minus background.
    distances : list of ndarray of shape (2, h, w)
        Distances above and below the background in each neighbourhood.
    shift : tuple of float
        Pixels by which the camera has moved the background.
    brightness, offset, agreement : float
        Coefficients of the frame, and the share of the image that is near to the background.
    raw, covered : bool ndarrays of shape (h, w)
        The mask before blobs were looked at, and all blobs that are large enough.
    ages : int ndarray of shape (h, w)
        For how many frames the blob of each pixel has lasted.
    ghosts : bool ndarray of shape (h, w)
        Blobs that are no objects: the background has the stronger edges along their outlines, or these are
        soft.
    """

    mask: AnyArray
    residual: AnyArray
    distances: list[AnyArray]
    shift: Shift
    brightness: float
    offset: float
    agreement: float
    raw: AnyArray
    covered: AnyArray
    ages: AnyArray
    ghosts: AnyArray


class Blobs(NamedTuple):
    """The connected regions of foreground in a frame, as images of shape (h, w).

    ``shown`` marks those of the mask, and ``covered`` all that are large enough. ``ages`` counts for how many
    frames the blob of each pixel has lasted, and ``ghosts`` marks blobs that are no objects.
    """

    shown: AnyArray
    covered: AnyArray
    ages: AnyArray
    ghosts: AnyArray


@cache
def loops() -> ModuleType:
    """Return the loops over pixels: compiled by Numba (the extra ``fast``) where it is installed."""
    try:
        from maxnorm.core import compiled_film
    except ImportError:
        return film_loops
    return compiled_film


def start(frame: AnyArray, rules: Rules = RULES) -> Scene:
    """Return the scene after its first frame, which is the first background.

    Parameters
    ----------
    frame : ndarray of shape (h, w, c)
        The frame, in grey levels of 0 to 255.
    rules : Rules
        The constants.

    Returns
    -------
    Scene
        The scene.
    """
    shape = frame.shape[:2]
    scales = [np.full((2, *shape), FIRST_SCALE / (2 * half + 1), dtype=np.float32) for half in rules.halves]
    return Scene(
        background=np.ascontiguousarray(np.moveaxis(frame, 2, 0), dtype=np.float32),
        scales=np.stack(scales),
        blinks=np.zeros(shape, dtype=np.float32),
        raw=np.zeros(shape, dtype=bool),
        covered=np.zeros(shape, dtype=bool),
        ages=np.zeros(shape, dtype=np.int32),
        suspicion=np.zeros(shape, dtype=np.float32),
        brightness=1.0,
        offset=0.0,
        n_frames=1,
        first=frame[None].astype(np.float32),
        stride=1,
        n_floods=0,
    )


def copy(scene: Scene) -> Scene:
    """Return a scene that shares no array with the given one."""
    arrays: dict[str, Any] = {
        name: value.copy() for name, value in vars(scene).items() if isinstance(value, np.ndarray)
    }
    return replace(scene, **arrays)


def find_light(scene: Scene, frame: AnyArray, planes: AnyArray) -> tuple[float, float, float]:
    """Return the brightness and the offset of a frame, robustly against foreground, and how well they fit.

    They minimise the squared distance of ``brightness * background + offset`` from the frame over a grid of
    pixels. Pixels count less if they are farther from the background than their scale says, and not at all if
    they are covered by a blob. A small penalty on the offset decides where both would explain the frame.

    Parameters
    ----------
    scene : Scene
        The scene.
    frame : ndarray of shape (h, w, c)
        The frame, in grey levels.
    planes : ndarray of shape (c, h, w)
        The background where it is in this frame.

    Returns
    -------
    brightness, offset : float
        The coefficients.
    agreement : float
        Share of the grid, with what is covered, that is near to the background.
    """
    first = tuple(min(GRID // 2, size - 1) for size in frame.shape[:2])
    grid = (slice(first[0], None, GRID), slice(first[1], None, GRID))
    free = ~scene.covered[grid]
    if not free.any():
        free[:] = True
    pixels = frame[grid].astype(np.float32)
    background = np.moveaxis(planes[:, *grid], 0, 2)
    limit = 4.0 + 2.0 * scene.scales[0].max(axis=0)[grid][..., None]
    brightness, offset = _fit_light(scene, pixels[free], background[free], limit[free])
    distance = np.abs(pixels - brightness * background - offset).max(axis=2, keepdims=True)
    return brightness, offset, float(np.mean(distance < 2.0 * limit))


def _fit_light(scene: Scene, pixels: AnyArray, background: AnyArray, limit: AnyArray) -> tuple[float, float]:
    """Return brightness and offset of some pixels by least squares that are repeatedly weighted."""
    brightness, offset = float(np.median(pixels.sum(axis=1) / np.maximum(background.sum(axis=1), 1.0))), 0.0
    for _ in range(LIGHT_ROUNDS):
        distance = np.abs(pixels - brightness * background - offset).max(axis=1, keepdims=True)
        weights = np.clip(2.0 - distance / limit, 0.0, 1.0) * np.ones_like(background)
        total, weighted = (1.0 + OFFSET_PENALTY) * float(weights.sum()), weights * background
        norm, mixed = float((weighted * background).sum()), float(weighted.sum())
        determinant = norm * total - mixed * mixed
        if norm <= 0.0 or determinant <= 0.0:  # nothing agrees with the background, or it is black
            return scene.brightness, scene.offset
        right = float((weighted * pixels).sum()), float((weights * pixels).sum())
        before, brightness = brightness, (right[0] * total - right[1] * mixed) / determinant
        offset = (right[1] * norm - right[0] * mixed) / determinant
        if abs(brightness - before) < 1e-4:
            break
    return brightness, offset


def segment(
    scene: Scene, frame: AnyArray, *, sensitivity: float = 1.0, min_area: float = 0.001, rules: Rules = RULES
) -> View:
    """Find the foreground of a frame. The scene is not changed.

    Parameters
    ----------
    scene : Scene
        The scene.
    frame : ndarray of shape (h, w, c)
        The frame, in grey levels.
    sensitivity : float
        Limits of the distances are divided by it.
    min_area : float
        Share of the image below which blobs are dropped.
    rules : Rules
        The constants.

    Returns
    -------
    View
        The foreground, and what :func:`learn` needs.
    """
    fast = loops()
    shift = _find_shift(scene, frame)
    background = scene.background if shift == STILL else fast.shift(scene.background, *shift)
    brightness, offset, agreement = find_light(scene, frame, background)
    expected = np.float32(brightness) * background + np.float32(offset)
    fine = fast.residual(frame, expected)
    means = {half: fast.box_mean(fine, half) if half else fine for half in {*rules.halves, OUTLINE_HALF}}
    strictness = _strictness(scene, rules) * np.float32(1.0 / sensitivity)
    scores, distances = _score_pixels(scene, means, expected, strictness, rules)
    raw = scores > 1.0
    raw &= ~_is_fringe(distances[0].max(axis=0), raw, rules.fringe)
    filled = fill_holes(fast.majority(raw, 2))
    blobs = _judge_blobs(scene, frame, expected, means[OUTLINE_HALF], filled, min_area, rules)
    return View(
        mask=blobs.shown,
        residual=fine,
        distances=distances,
        shift=shift,
        brightness=brightness,
        offset=offset,
        agreement=agreement,
        raw=raw,
        covered=blobs.covered,
        ages=blobs.ages,
        ghosts=blobs.ghosts,
    )


def learn(scene: Scene, frame: AnyArray, view: View, rules: Rules = RULES) -> Scene:
    """Learn from a frame, and return the scene, which is changed in place or started anew.

    Parameters
    ----------
    scene : Scene
        The scene.
    frame : ndarray of shape (h, w, c)
        The frame, in grey levels.
    view : View
        What :func:`segment` has found in this frame.
    rules : Rules
        The constants.

    Returns
    -------
    Scene
        The scene after the frame.
    """
    flooded = view.raw.mean() > rules.flood or view.agreement < rules.agreement
    scene.n_floods = scene.n_floods + 1 if flooded else 0
    is_false_start = scene.n_frames == 1 and np.median(view.distances[0].max(axis=0)) > LARGEST_NOISE
    if scene.n_floods >= rules.n_floods or is_false_start:
        return start(frame, rules)
    scene.brightness, scene.offset = view.brightness, view.offset
    scene.blinks += np.float32(rules.blink_rate) * ((view.raw != scene.raw) - scene.blinks)
    _learn_scales(scene, view, rules)
    _learn_background(scene, frame, view, rules)
    scene.suspicion += np.float32(rules.ghost_rate) * (view.ghosts - scene.suspicion)
    scene.raw, scene.covered, scene.ages = view.raw, view.covered, view.ages
    scene.n_frames += 1
    return scene


def fill_holes(mask: AnyArray) -> AnyArray:
    """Return a mask in which the background that foreground encloses is foreground, too.

    Parameters
    ----------
    mask : bool ndarray of shape (h, w)
        The mask.

    Returns
    -------
    bool ndarray of shape (h, w)
        The mask without holes.
    """
    regions, n_regions = ndimage.label(~mask)
    if n_regions < 2:
        return mask
    is_hole = np.ones(n_regions + 1, dtype=bool)
    is_hole[0] = False
    for edge in (regions[0], regions[-1], regions[:, 0], regions[:, -1]):
        is_hole[edge] = False
    filled: AnyArray = mask | is_hole[regions]
    return filled


def _score_pixels(
    scene: Scene, means: dict[int, AnyArray], expected: AnyArray, strictness: AnyArray, rules: Rules
) -> tuple[AnyArray, list[AnyArray]]:
    """Return the largest ratio of distance and limit of each pixel, and its distances in each neighbourhood.

    ``means`` has the mean residuals by the half widths of the neighbourhoods, and ``strictness`` the factors
    of the limits.
    """
    fine, scores = means[0], np.zeros(expected.shape[1:], dtype=np.float32)
    contrast = float(expected[:, ::4, ::4].std())  # a part of the pixels is enough
    reduction = np.float32(min(max(contrast / rules.usual_contrast, rules.least_contrast), 1.0))
    is_noisy = np.median(scene.scales[0][:, ::GRID, ::GRID]) > rules.noisy * contrast
    distances = []
    for k, half in enumerate(rules.halves):
        slack = rules.slacks[k] if len(expected) > 1 else 0.0  # grey has no colours to compare
        distance, lenient = loops().contrast(means[half], expected, slack)
        limits = np.float32(rules.slope) * _scales(scene, k, distance) + reduction * np.float32(
            rules.offsets[k]
        )
        limits *= strictness
        coarse = means[half] if half else None
        detail = means[OUTLINE_HALF] if is_noisy and half > OUTLINE_HALF else fine
        loops().score(lenient, limits, coarse, detail, rules.sharpness, scores)
        distances.append(distance)
    return scores, distances


def _scales(scene: Scene, k: int, distance: AnyArray) -> AnyArray:
    """Return the scales of a neighbourhood; for the second frame they follow from its distances.

    Then nothing is known of the noise but that most pixels are no foreground.
    """
    if scene.n_frames > 1:
        return scene.scales[k]
    return np.maximum(scene.scales[k], NORMAL_QUANTILE * np.median(distance.max(axis=0)))


def _find_shift(scene: Scene, frame: AnyArray) -> Shift:
    """Return by how many pixels the camera has moved the background of a frame."""
    channel = frame.shape[2] // 2  # green, if there are colours
    expected = np.float32(scene.brightness) * scene.background[channel] + np.float32(scene.offset)
    smooth = loops().box_mean(np.stack([expected, frame[..., channel].astype(np.float32)]), 2)
    return find_shift(smooth[0], smooth[1], ~scene.covered)


def _moved_back(planes: AnyArray, shift: Shift) -> AnyArray:
    """Return images of a frame where they are in the background."""
    if shift == STILL:
        return planes
    moved: AnyArray = loops().shift(planes, -shift[0], -shift[1])
    return moved


def _strictness(scene: Scene, rules: Rules) -> AnyArray:
    """Return the factor of the limits of each pixel, which is lower where an object was in the last frame."""
    if not scene.covered.any():
        return np.full(scene.covered.shape, rules.fresh, dtype=np.float32)
    share = loops().box_mean(scene.covered[None].astype(np.float32), FOLLOWED_HALF)[0]
    factors: AnyArray = np.float32(rules.fresh) - np.float32(rules.fresh - rules.followed) * share
    return factors


def _is_fringe(distance: AnyArray, raw: AnyArray, share: float) -> AnyArray:
    """Return which pixels are far less distant from the background than the foreground around them."""
    if not raw.any():
        return raw
    sums = loops().box_mean(np.stack([distance * raw, raw.astype(np.float32)]), FRINGE_HALF)
    fringe: AnyArray = distance * sums[1] < np.float32(share) * sums[0]
    return fringe


def _judge_blobs(
    scene: Scene,
    frame: AnyArray,
    expected: AnyArray,
    smooth: AnyArray,
    mask: AnyArray,
    min_area: float,
    rules: Rules,
) -> Blobs:
    """Return the blobs of a mask, with those that are shown and those that are ghosts.

    ``smooth`` is the residual averaged over a few pixels, whose change across an outline is measured. Blobs
    in which the texture of the background is visible are left out.
    """
    labels, n_blobs = ndimage.label(mask, structure=np.ones((3, 3)))
    sizes, oldest, edges = loops().measure_blobs(labels, n_blobs, scene.ages, frame, expected, smooth)
    textures = loops().compare_textures(labels, n_blobs, frame, expected)
    exists = (sizes >= max(min_area * labels.size, 1.0)) & ~_is_transparent(textures, rules)
    exists[0] = False
    ages = np.where(exists, np.minimum(oldest + 1, OLDEST), 0)
    shown = exists & ((ages >= rules.patience) | (sizes >= rules.large_blob * labels.size))
    is_ghost = edges[1] > rules.ghost * edges[0]
    is_soft = edges[2] * sizes < rules.softness * edges[4] * edges[3]
    ghosts = exists & (is_ghost | is_soft)
    return Blobs(
        shown=shown[labels],
        covered=exists[labels],
        ages=ages[labels].astype(np.int32),
        ghosts=ghosts[labels],
    )


def _is_transparent(textures: AnyArray, rules: Rules) -> AnyArray:
    """Return in which blobs the texture of the background is visible, from sums over their gradients."""
    mixed, background, own, counts = textures
    is_certain = mixed * mixed * counts > rules.certainty**2 * background * own
    visible: AnyArray = (mixed > rules.transparency * background) & is_certain
    return visible


def _learn_scales(scene: Scene, view: View, rules: Rules) -> None:
    """Move the scales of all pixels that are away from foreground, or blink."""
    rate = max(rules.rate, rules.first_rate / (1.0 + scene.n_frames / rules.first_rate_frames))
    up, down = exp(rate * rules.quantile), exp(-rate * (1.0 - rules.quantile))
    learns = scene.blinks > rules.blinking
    if view.covered.any():
        learns |= loops().box_mean(view.covered[None].astype(np.float32), rules.margin)[0] < 1e-6
    else:
        learns[:] = True
    for k, (distance, half) in enumerate(zip(view.distances, rules.halves, strict=True)):
        scene.scales[k] = scales = _scales(scene, k, distance)
        loops().follow_quantile(scales, distance, learns, up, down, LEAST_SCALE / (2 * half + 1))


def _learn_background(scene: Scene, frame: AnyArray, view: View, rules: Rules) -> None:
    """Move the background: to the median of the first frames, and later a little with every frame."""
    scale = 1.0 / max(view.brightness, 0.1)
    if scene.n_frames <= rules.n_first:
        if scene.n_frames % scene.stride == 0:
            level = _moved_back(
                (np.moveaxis(frame, 2, 0) - np.float32(view.offset)) * np.float32(scale), view.shift
            )
            kept = np.concatenate([scene.first, np.moveaxis(level, 0, 2)[None].astype(np.float32)])
            if len(kept) > rules.kept_first:
                kept, scene.stride = kept[::2], 2 * scene.stride
            scene.first = kept
            scene.background[:] = np.moveaxis(np.median(kept, axis=0), 2, 0)
        gains = np.zeros_like(scene.suspicion)
    else:
        scene.first = scene.first[:0]
        rates = np.where(view.covered, np.float32(rules.covered_rate), np.float32(rules.background_rate))
        gains = rates * np.float32(scale)
    residual = _moved_back(view.residual, view.shift)
    gains = _moved_back(gains[None], view.shift)[0]
    loops().follow_background(scene.background, residual, gains, rules.largest_step)
    ghosts = scene.suspicion > rules.ghost_limit
    if ghosts.any():
        gains = _moved_back((ghosts * np.float32(rules.ghost_gain * scale))[None], view.shift)[0]
        loops().follow_background(scene.background, residual, gains, 255.0)


def reduction(height: int, width: int, most_pixels: int) -> int:
    """Return by which factor an image is reduced so that it has at most so many pixels.

    Parameters
    ----------
    height, width : int
        Size of the image.
    most_pixels : int
        Number of pixels that is allowed.

    Returns
    -------
    int
        The factor, at least one.
    """
    factor = 1
    while ceil(height / factor) * ceil(width / factor) > most_pixels:
        factor += 1
    return factor
