"""By how many pixels a shaking camera has moved the background of a frame."""

import numpy as np
from scipy import ndimage

from maxnorm.core.types import AnyArray

GRID = 8  # every eighth pixel of every eighth row is looked at
LARGEST_SHIFT = 4.0  # in pixels
LEAST_SHIFT = 0.2  # smaller shifts are not worth the blur of an interpolation
LEAST_FIRST_STEP = 0.1  # of the Gauss-Newton method, below which the camera stands still
GAIN = 0.85  # share of the difference at no shift below which the difference at a shift must fall
ROUNDS = 5

Shift = tuple[float, float]
"""Pixels by which an image is moved down and to the right."""

STILL: Shift = (0.0, 0.0)


def find_shift(background: AnyArray, frame: AnyArray, free: AnyArray) -> Shift:
    """Return the shift of the background that explains a frame best, or none if none explains it better.

    The squared differences over a grid of pixels are minimised by the Gauss-Newton method, in which pixels
    count less the larger their difference is. Both images should be smoothed by a few pixels.

    Parameters
    ----------
    background, frame : ndarrays of shape (h, w)
        The images, at the same brightness.
    free : bool ndarray of shape (h, w)
        Pixels that are compared.

    Returns
    -------
    down, right : float
        The shift in pixels.
    """
    margin = int(LARGEST_SHIFT) + 2
    rows, columns = (np.arange(margin, size - margin, GRID) for size in frame.shape)
    points = np.stack(np.meshgrid(rows, columns, indexing="ij")).reshape(2, -1)
    points = points[:, free[points[0], points[1]]]
    if points.shape[1] < 20:
        return STILL
    values = frame[points[0], points[1]]
    differences = values - background[points[0], points[1]]
    limit = 2.0 * float(np.median(np.abs(differences))) + 1.0
    still, shift = _cost(differences, limit), np.zeros(2)
    for k in range(ROUNDS):
        places = points - shift[:, None]
        slopes = np.stack([_slope(background, places, axis) for axis in (0, 1)])
        weights = np.clip(2.0 - np.abs(differences) / limit, 0.0, 1.0)
        normal = (slopes * weights) @ slopes.T
        if np.linalg.det(normal) <= 1e-3 * np.trace(normal) ** 2 or not np.isfinite(normal).all():
            return STILL  # a background without edges, or with edges in one direction only
        step = np.linalg.solve(normal, (slopes * weights) @ differences)
        if k == 0 and np.abs(step).max() < LEAST_FIRST_STEP:
            return STILL  # most cameras, which need no further rounds
        shift = np.clip(shift - step, -LARGEST_SHIFT, LARGEST_SHIFT)
        differences = values - _sample(background, points - shift[:, None])
        if np.abs(step).max() < 0.02:
            break
    if np.abs(shift).max() < LEAST_SHIFT or _cost(differences, limit) > GAIN * still:
        return STILL
    return float(shift[0]), float(shift[1])


def _cost(differences: AnyArray, limit: float) -> float:
    """Return the mean of the differences, each up to a limit."""
    return float(np.minimum(np.abs(differences), limit).mean())


def _sample(image: AnyArray, places: AnyArray) -> AnyArray:
    """Return an image at places between its pixels, by linear interpolation."""
    return ndimage.map_coordinates(image, places, order=1, mode="nearest")


def _slope(image: AnyArray, places: AnyArray, axis: int) -> AnyArray:
    """Return the derivative of an image along an axis."""
    step = np.eye(2)[axis][:, None]
    slope: AnyArray = 0.5 * (_sample(image, places + step) - _sample(image, places - step))
    return slope
