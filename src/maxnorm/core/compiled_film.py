"""The loops of :mod:`maxnorm.core.film_loops` compiled by Numba, which is installed by the extra ``fast``.

The docstrings there hold here as well. Each loop reads its arrays once.
"""

import numba
import numpy as np

from maxnorm.core.types import AnyArray

_compiled = numba.njit(
    cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, nogil=True, error_model="numpy"
)


@_compiled
def block_mean(frame: AnyArray, factor: int) -> AnyArray:
    """Return the means over squares of ``factor`` x ``factor`` pixels; pixels at the border are repeated."""
    h, w, c = frame.shape
    out = np.zeros(((h + factor - 1) // factor, (w + factor - 1) // factor, c), np.float32)
    share = np.float32(1.0) / np.float32(factor * factor)
    for i in range(out.shape[0]):
        for y in range(factor):
            row = min(i * factor + y, h - 1)
            for j in range(out.shape[1]):
                for x in range(factor):
                    column = min(j * factor + x, w - 1)
                    for k in range(c):
                        out[i, j, k] += np.float32(frame[row, column, k])
    out *= share
    return out


@_compiled
def residual(frame: AnyArray, expected: AnyArray) -> AnyArray:
    """Return ``frame - expected``, channels first."""
    h, w, c = frame.shape
    out = np.empty((c, h, w), np.float32)
    for k in range(c):
        for i in range(h):
            for j in range(w):
                out[k, i, j] = np.float32(frame[i, j, k]) - expected[k, i, j]
    return out


@_compiled
def shift(planes: AnyArray, down: float, right: float) -> AnyArray:
    """Return images moved by a part of pixels, by linear interpolation; the pixels at the border repeat."""
    c, h, w = planes.shape
    out = np.empty((c, h, w), np.float32)
    i0, j0 = int(np.floor(-down)), int(np.floor(-right))
    y, x = np.float32(-down - i0), np.float32(-right - j0)
    one = np.float32(1.0)
    for k in range(c):
        for i in range(h):
            upper, lower = min(max(i + i0, 0), h - 1), min(max(i + i0 + 1, 0), h - 1)
            for j in range(w):
                a, b = min(max(j + j0, 0), w - 1), min(max(j + j0 + 1, 0), w - 1)
                above = (one - x) * planes[k, upper, a] + x * planes[k, upper, b]
                below = (one - x) * planes[k, lower, a] + x * planes[k, lower, b]
                out[k, i, j] = (one - y) * above + y * below
    return out


@_compiled
def box_mean(planes: AnyArray, half: int) -> AnyArray:
    """Return the mean over the square of ``2 half + 1`` pixels around each pixel that are in the image."""
    c, h, w = planes.shape
    out = np.empty((c, h, w), np.float32)
    column = np.empty(w, np.float32)
    row = np.empty(w, np.float32)
    shares = np.empty(w, np.float32)
    for j in range(w):
        shares[j] = np.float32(1.0) / np.float32(min(j + half, w - 1) - max(j - half, 0) + 1)
    for k in range(c):
        column[:] = np.float32(0.0)
        for i in range(min(half, h)):
            for j in range(w):
                column[j] += planes[k, i, j]
        for i in range(h):
            if i + half < h:
                for j in range(w):
                    column[j] += planes[k, i + half, j]
            if i - half - 1 >= 0:
                for j in range(w):
                    column[j] -= planes[k, i - half - 1, j]
            row[:] = column
            for m in range(1, min(half, w - 1) + 1):  # one loop per offset, over neighbours in memory
                for j in range(w - m):
                    row[j] += column[j + m]
                for j in range(w - m):
                    row[j + m] += column[j]
            share = np.float32(1.0) / np.float32(min(i + half, h - 1) - max(i - half, 0) + 1)
            for j in range(w):
                out[k, i, j] = row[j] * (share * shares[j])
    return out


@_compiled
def contrast(residuals: AnyArray, expected: AnyArray, slack: float) -> tuple[AnyArray, AnyArray]:
    """Return how far a pixel is above and below the background, before and after an allowance for shadows."""
    c, h, w = residuals.shape
    most = np.float32(slack)
    distance = np.zeros((2, h, w), np.float32)
    for k in range(c):
        for i in range(h):
            for j in range(w):
                distance[0, i, j] = max(distance[0, i, j], residuals[k, i, j])
                distance[1, i, j] = max(distance[1, i, j], -residuals[k, i, j])
    if slack <= 0.0:
        return distance, distance
    lenient = np.zeros((2, h, w), np.float32)
    norm, share = np.empty(w, np.float32), np.empty(w, np.float32)
    for i in range(h):
        norm[:] = np.float32(1e-3)
        share[:] = np.float32(0.0)
        for k in range(c):
            for j in range(w):
                shade = expected[k, i, j]
                norm[j] += shade * shade
                share[j] -= shade * residuals[k, i, j]
        for j in range(w):
            share[j] = min(max(share[j] / norm[j], np.float32(0.0)), most)
        for k in range(c):
            for j in range(w):
                darkened = residuals[k, i, j] + share[j] * expected[k, i, j]
                lenient[0, i, j] = max(lenient[0, i, j], darkened)
                lenient[1, i, j] = max(lenient[1, i, j], -darkened)
    return distance, lenient


@_compiled
def score(
    lenient: AnyArray,
    limits: AnyArray,
    coarse: AnyArray | None,
    fine: AnyArray,
    sharpness: float,
    scores: AnyArray,
) -> None:
    """Raise ``scores`` to the distances divided by their limits."""
    _, h, w = lenient.shape
    if coarse is None:
        for i in range(h):
            for j in range(w):
                ratio = max(lenient[0, i, j] / limits[0, i, j], lenient[1, i, j] / limits[1, i, j])
                scores[i, j] = max(scores[i, j], ratio)
    else:
        c, least = coarse.shape[0], np.float32(sharpness)
        along = np.empty(w, np.float32)
        for i in range(h):
            along[:] = np.float32(0.0)
            for k in range(c):
                for j in range(w):
                    along[j] += coarse[k, i, j] * (fine[k, i, j] - least * coarse[k, i, j])
            for j in range(w):
                ratio = max(lenient[0, i, j] / limits[0, i, j], lenient[1, i, j] / limits[1, i, j])
                ratio = ratio if along[j] > 0.0 else np.float32(0.0)
                scores[i, j] = max(scores[i, j], ratio)


@_compiled
def majority(mask: AnyArray, half: int) -> AnyArray:
    """Return which pixels have more foreground than background in the square around them."""
    h, w = mask.shape
    out = np.empty((h, w), np.bool_)
    column = np.zeros(w, np.int32)
    row = np.empty(w, np.int32)
    for i in range(min(half, h)):
        for j in range(w):
            column[j] += mask[i, j]
    for i in range(h):
        if i + half < h:
            for j in range(w):
                column[j] += mask[i + half, j]
        if i - half - 1 >= 0:
            for j in range(w):
                column[j] -= mask[i - half - 1, j]
        row[:] = column
        for m in range(1, min(half, w - 1) + 1):
            for j in range(w - m):
                row[j] += column[j + m]
            for j in range(w - m):
                row[j + m] += column[j]
        height = min(i + half, h - 1) - max(i - half, 0) + 1
        for j in range(w):
            out[i, j] = 2 * row[j] > height * (min(j + half, w - 1) - max(j - half, 0) + 1)
    return out


@_compiled
def follow_quantile(
    scales: AnyArray, distance: AnyArray, learns: AnyArray, up: float, down: float, least: float
) -> None:
    """Multiply the scale of a pixel by ``up`` where its distance is larger, and by ``down`` elsewhere."""
    n, h, w = scales.shape
    rise, fall, floor = np.float32(up), np.float32(down), np.float32(least)
    for k in range(n):
        for i in range(h):
            for j in range(w):
                if learns[i, j]:
                    factor = rise if distance[k, i, j] > scales[k, i, j] else fall
                    scales[k, i, j] = max(scales[k, i, j] * factor, floor)


@_compiled
def follow_background(background: AnyArray, residuals: AnyArray, gains: AnyArray, largest: float) -> None:
    """Move the background by ``gains`` times the residual, which counts up to ``largest``."""
    c, h, w = background.shape
    top = np.float32(largest)
    for k in range(c):
        for i in range(h):
            for j in range(w):
                background[k, i, j] += gains[i, j] * min(max(residuals[k, i, j], -top), top)


@_compiled
def measure_blobs(
    labels: AnyArray, n_blobs: int, ages: AnyArray, frame: AnyArray, expected: AnyArray, smooth: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the sizes and ages of blobs, and how sharp their outlines are."""
    h, w = labels.shape
    c = frame.shape[2]
    sizes, oldest = np.zeros(n_blobs + 1, np.int64), np.zeros(n_blobs + 1, np.int64)
    edges = np.zeros((5, n_blobs + 1))
    for i in range(h):
        for j in range(w):
            blob = labels[i, j]
            sizes[blob] += 1
            if blob == 0:
                continue
            oldest[blob] = max(oldest[blob], ages[i, j])
            for k in range(c):
                edges[4, blob] += abs(smooth[k, i, j])
            if i < 2 or j < 2 or i >= h - 2 or j >= w - 2:
                continue
            for axis in range(2):
                y, x = (1, 0) if axis == 0 else (0, 1)
                if labels[i - y, j - x] > 0 and labels[i + y, j + x] > 0:
                    continue
                y, x = 2 * y, 2 * x
                edges[3, blob] += 1.0
                for k in range(c):
                    step = np.float32(frame[i + y, j + x, k]) - np.float32(frame[i - y, j - x, k])
                    edges[0, blob] += abs(step)
                    edges[1, blob] += abs(expected[k, i + y, j + x] - expected[k, i - y, j - x])
                    edges[2, blob] += abs(smooth[k, i + y, j + x] - smooth[k, i - y, j - x])
    return sizes, oldest, edges


@_compiled
def compare_textures(labels: AnyArray, n_blobs: int, frame: AnyArray, expected: AnyArray) -> AnyArray:
    """Return sums of products of the gradients of the frame and of the background inside blobs."""
    h, w = labels.shape
    sums = np.zeros((4, n_blobs + 1))
    for i in range(2, h - 2):
        for j in range(2, w - 2):
            blob = labels[i, j]
            if blob == 0 or min(labels[i - 2, j], labels[i + 2, j], labels[i, j - 2], labels[i, j + 2]) == 0:
                continue
            for k in range(frame.shape[2]):
                for y, x in ((1, 0), (0, 1)):
                    slope = np.float32(frame[i + y, j + x, k]) - np.float32(frame[i - y, j - x, k])
                    behind = expected[k, i + y, j + x] - expected[k, i - y, j - x]
                    sums[0, blob] += slope * behind
                    sums[1, blob] += behind * behind
                    sums[2, blob] += slope * slope
            sums[3, blob] += 1.0
    return sums
