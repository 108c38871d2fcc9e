"""Loops over the pixels of a frame, in NumPy and SciPy.

:mod:`maxnorm.core.compiled_film` has the same functions compiled by Numba (the extra ``fast``), with the same
arguments and results. Arrays of a frame have the shape (h, w, c), as films are stored; arrays of what was
computed have the channels first, (c, h, w), so that each channel is one block of memory.
"""

import numpy as np
from scipy import ndimage

from maxnorm.core.types import AnyArray


def block_mean(frame: AnyArray, factor: int) -> AnyArray:
    """Return the means over squares of ``factor`` x ``factor`` pixels; pixels at the border are repeated.

    Parameters
    ----------
    frame : ndarray of shape (h, w, c)
        The frame.
    factor : int
        Width of the squares.

    Returns
    -------
    ndarray of shape (ceil(h / factor), ceil(w / factor), c)
        The means, in single precision.
    """
    height, width = frame.shape[:2]
    border = ((0, -height % factor), (0, -width % factor), (0, 0))
    padded = np.pad(frame, border, mode="edge")
    sums = np.zeros(padded[::factor, ::factor].shape, dtype=np.float32)
    for y in range(factor):  # a sum over two axes at once is several times slower
        for x in range(factor):
            sums += padded[y::factor, x::factor]
    return sums * np.float32(1.0 / factor**2)


def residual(frame: AnyArray, expected: AnyArray) -> AnyArray:
    """Return ``frame - expected``, channels first.

    Parameters
    ----------
    frame : ndarray of shape (h, w, c)
        The frame.
    expected : ndarray of shape (c, h, w)
        The background at the brightness of the frame.

    Returns
    -------
    ndarray of shape (c, h, w)
        The residual, in single precision.
    """
    planes = np.moveaxis(frame, 2, 0).astype(np.float32)
    planes -= expected
    return planes


def shift(planes: AnyArray, down: float, right: float) -> AnyArray:
    """Return images moved by a part of pixels, by linear interpolation; the pixels at the border repeat.

    Parameters
    ----------
    planes : ndarray of shape (c, h, w)
        The images.
    down, right : float
        Number of pixels.

    Returns
    -------
    ndarray of shape (c, h, w)
        The moved images, in single precision.
    """
    moved: AnyArray = ndimage.shift(
        planes.astype(np.float32, copy=False), (0.0, down, right), order=1, mode="nearest"
    )
    return moved


def box_mean(planes: AnyArray, half: int) -> AnyArray:
    """Return the mean over the square of ``2 half + 1`` pixels around each pixel that are in the image.

    Parameters
    ----------
    planes : ndarray of shape (c, h, w)
        The images.
    half : int
        Pixels to each side.

    Returns
    -------
    ndarray of shape (c, h, w)
        The means, in single precision.
    """
    width = 2 * half + 1
    inside = np.ones(planes.shape[1:], dtype=np.float32)
    counts = ndimage.uniform_filter(inside, width, mode="constant")
    sums = ndimage.uniform_filter(planes.astype(np.float32, copy=False), (0, width, width), mode="constant")
    means: AnyArray = sums / counts
    return means


def contrast(residuals: AnyArray, expected: AnyArray, slack: float) -> tuple[AnyArray, AnyArray]:
    """Return how far a pixel is above and below the background, before and after an allowance for shadows.

    The distance above is the largest residual among the channels, and the one below the largest negative
    residual; neither is less than zero. A shadow multiplies all channels by the same factor; the second
    distances are those to the nearest colour that is up to ``slack`` darker than the background.

    Parameters
    ----------
    residuals : ndarray of shape (c, h, w)
        Residuals, or means of them.
    expected : ndarray of shape (c, h, w)
        The background at the brightness of the frame.
    slack : float
        Share by which the background may be darkened.

    Returns
    -------
    distance, lenient : ndarrays of shape (2, h, w)
        The distances above and below the background, without and with the allowance.
    """
    distance = _above_and_below(residuals)
    if slack <= 0.0:
        return distance, distance
    share = -(residuals * expected).sum(axis=0) / ((expected * expected).sum(axis=0) + np.float32(1e-3))
    share = np.clip(share, np.float32(0.0), np.float32(slack))
    return distance, _above_and_below(residuals + share * expected)


def _above_and_below(residuals: AnyArray) -> AnyArray:
    """Return the largest positive and the largest negative residual among the channels, as magnitudes."""
    both = np.stack([residuals.max(axis=0), -residuals.min(axis=0)])
    return np.maximum(both, np.float32(0.0), out=both)


def score(
    lenient: AnyArray,
    limits: AnyArray,
    coarse: AnyArray | None,
    fine: AnyArray,
    sharpness: float,
    scores: AnyArray,
) -> None:
    """Raise ``scores`` to the distances divided by their limits.

    A mean over several pixels also sees an object from pixels beside it. Where ``coarse`` is given, a pixel
    counts only if its own residual goes along with the mean around it, to the share ``sharpness``.

    Parameters
    ----------
    lenient, limits : ndarrays of shape (2, h, w)
        The distances above and below the background, and the limits beyond which they belong to the
        foreground.
    coarse : ndarray of shape (c, h, w) or None
        Means of the residuals that the distances were computed from, or None for the residuals themselves.
    fine : ndarray of shape (c, h, w)
        The residuals, or means over fewer pixels.
    sharpness : float
        Least component of a residual along the mean around it, as a share of that mean.
    scores : ndarray of shape (h, w)
        Scores, which are changed in place.
    """
    ratio = (lenient / limits).max(axis=0)
    if coarse is not None:
        along = (coarse * fine).sum(axis=0) > np.float32(sharpness) * (coarse * coarse).sum(axis=0)
        ratio = np.where(along, ratio, np.float32(0.0))
    np.maximum(scores, ratio, out=scores)


def majority(mask: AnyArray, half: int) -> AnyArray:
    """Return which pixels have more foreground than background in the square around them.

    Parameters
    ----------
    mask : bool ndarray of shape (h, w)
        The foreground.
    half : int
        Pixels to each side of the square; those outside of the image do not count.

    Returns
    -------
    bool ndarray of shape (h, w)
        The result of the vote.
    """
    ones = np.ones(2 * half + 1, dtype=np.int32)
    votes, voters = mask.astype(np.int32), np.ones(mask.shape, dtype=np.int32)
    for axis in (0, 1):
        votes = ndimage.convolve1d(votes, ones, axis=axis, mode="constant")
        voters = ndimage.convolve1d(voters, ones, axis=axis, mode="constant")
    return 2 * votes > voters


def follow_quantile(
    scales: AnyArray, distance: AnyArray, learns: AnyArray, up: float, down: float, least: float
) -> None:
    """Multiply the scale of a pixel by ``up`` where its distance is larger, and by ``down`` elsewhere.

    Parameters
    ----------
    scales : ndarray of shape (2, h, w)
        Running quantiles of the distances, which are changed in place.
    distance : ndarray of shape (2, h, w)
        Distances of a frame.
    learns : bool ndarray of shape (h, w)
        Pixels that are changed.
    up, down : float
        The factors.
    least : float
        Lower bound of the scales.
    """
    factor = np.where(distance > scales, np.float32(up), np.float32(down))
    followed = np.maximum(scales * factor, np.float32(least))
    np.copyto(scales, followed, where=learns)


def follow_background(background: AnyArray, residuals: AnyArray, gains: AnyArray, largest: float) -> None:
    """Move the background by ``gains`` times the residual, which counts up to ``largest``.

    Parameters
    ----------
    background : ndarray of shape (c, h, w)
        The background, which is changed in place.
    residuals : ndarray of shape (c, h, w)
        Residuals of a frame.
    gains : ndarray of shape (h, w)
        Share of the residual by which each pixel moves.
    largest : float
        Largest residual that counts.
    """
    background += gains * np.clip(residuals, np.float32(-largest), np.float32(largest))


def measure_blobs(
    labels: AnyArray, n_blobs: int, ages: AnyArray, frame: AnyArray, expected: AnyArray, smooth: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the sizes and ages of blobs, and how sharp their outlines are.

    Parameters
    ----------
    labels : int ndarray of shape (h, w)
        Number of the blob of each pixel, from one; zero outside of blobs.
    n_blobs : int
        Number of blobs.
    ages : ndarray of shape (h, w)
        For how many frames each pixel has belonged to a blob.
    frame : ndarray of shape (h, w, c)
        The frame.
    expected : ndarray of shape (c, h, w)
        The background at the brightness of the frame.
    smooth : ndarray of shape (c, h, w)
        Residuals, averaged over a few pixels.

    Returns
    -------
    sizes, oldest : int ndarrays of shape (n_blobs + 1,)
        Number of pixels of each blob, and the largest of their ages.
    edges : ndarray of shape (5, n_blobs + 1)
        Sums of the differences across the outline in the frame, the background and the smooth residual;
        number of these differences; and the sum of the magnitudes of the smooth residual inside of the blob.
    """
    sizes = np.bincount(labels.ravel(), minlength=n_blobs + 1)
    oldest = np.zeros(n_blobs + 1, dtype=np.int64)
    oldest[1:] = ndimage.maximum(ages, labels, np.arange(1, n_blobs + 1))
    edges = np.zeros((5, n_blobs + 1))
    edges[4] = np.bincount(labels.ravel(), np.abs(smooth).sum(axis=0).ravel(), minlength=n_blobs + 1)
    edges[4, 0] = 0.0
    images = (np.moveaxis(frame, 2, 0).astype(np.float32), expected, smooth)
    if min(labels.shape) > 4:
        inner = labels[2:-2, 2:-2]
        vertical = (inner > 0) & ((labels[1:-3, 2:-2] == 0) | (labels[3:-1, 2:-2] == 0))
        horizontal = (inner > 0) & ((labels[2:-2, 1:-3] == 0) | (labels[2:-2, 3:-1] == 0))
        for sums, image in zip(edges, images, strict=False):
            down = np.abs(image[:, 4:, 2:-2] - image[:, :-4, 2:-2]).sum(axis=0)
            across = np.abs(image[:, 2:-2, 4:] - image[:, 2:-2, :-4]).sum(axis=0)
            sums += np.bincount(inner[vertical], down[vertical], minlength=n_blobs + 1)
            sums += np.bincount(inner[horizontal], across[horizontal], minlength=n_blobs + 1)
        for outline in (vertical, horizontal):
            edges[3] += np.bincount(inner[outline], minlength=n_blobs + 1)
    return sizes, oldest, edges


def compare_textures(labels: AnyArray, n_blobs: int, frame: AnyArray, expected: AnyArray) -> AnyArray:
    """Return sums of products of the gradients of the frame and of the background inside blobs.

    Pixels that are less than two pixels away from the outline do not count.

    Parameters
    ----------
    labels : int ndarray of shape (h, w)
        Number of the blob of each pixel, from one; zero outside of blobs.
    n_blobs : int
        Number of blobs.
    frame : ndarray of shape (h, w, c)
        The frame.
    expected : ndarray of shape (c, h, w)
        The background at the brightness of the frame.

    Returns
    -------
    ndarray of shape (4, n_blobs + 1)
        Sums of the products of the gradients of frame and background, of the squared gradients of the
        background and of those of the frame; and the number of pixels.
    """
    sums = np.zeros((4, n_blobs + 1))
    rows, columns = np.nonzero(labels[2:-2, 2:-2])
    rows, columns = rows + 2, columns + 2
    is_inner = np.ones(len(rows), dtype=bool)
    for y, x in ((2, 0), (-2, 0), (0, 2), (0, -2)):
        is_inner &= labels[rows + y, columns + x] > 0
    rows, columns = rows[is_inner], columns[is_inner]
    blobs = labels[rows, columns]
    for y, x in ((1, 0), (0, 1)):
        ahead, back = frame[rows + y, columns + x], frame[rows - y, columns - x]
        slopes = ahead.astype(np.float32) - back
        behind = expected[:, rows + y, columns + x].T - expected[:, rows - y, columns - x].T
        for k, products in enumerate((slopes * behind, behind * behind, slopes * slopes)):
            sums[k] += np.bincount(blobs, products.sum(axis=1), minlength=n_blobs + 1)
    sums[3] = np.bincount(blobs, minlength=n_blobs + 1)
    return sums
