"""
A film
======

You have a film from a fixed camera in which things move, while clouds and the camera change the exposure.
What moves, and what does the place look like without it?
"""

# %%
# The film
# --------
# Two paper boats cross a photograph of a Chinese palace that comes with scikit-learn. Every frame has noise
# of its own, and the exposure swings by a fifth. Because we have put the boats there, we know the true
# masks.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from maxnorm import VideoBackground

scene = load_sample_image("china.jpg")[150:390:2, 40:520:2].astype(float)
height, width = scene.shape[:2]
y, x = np.mgrid[:height, :width]
rng = np.random.default_rng(0)
n = 120


def boat(centre, row, size):
    """Return the pixels of a boat: a hull and a sail."""
    hull = (np.abs(x - centre) < size - (y - row)) & (y >= row) & (y < row + size / 2)
    sail = (x >= centre) & (x - centre < (y - row + size) / 1.6) & (y < row) & (y > row - size)
    return hull | sail


film, truth = [], []
for t in range(n):
    frame = scene * (1.0 + 0.2 * np.sin(t / 6.0))
    here = np.zeros((height, width), dtype=bool)
    for centre, row, size, colour in (
        (2.6 * t - 70.0, 88, 20, (150, 30, 30)),
        (280.0 - 2.2 * t, 60, 13, (235, 225, 90)),
    ):
        pixels = boat(centre, row, size)
        frame[pixels] = colour
        here |= pixels
    film.append(np.clip(frame + rng.normal(0.0, 5.0, frame.shape), 0, 255).astype(np.uint8))
    truth.append(here)
film, truth = np.array(film), np.array(truth)
print(f"{n} frames of {height} x {width} pixels, {truth.mean():.1%} of the pixels belong to boats")

# %%
# Background and foreground
# -------------------------
# The subtractor sees each frame once, and answers before the next one comes.

subtractor = VideoBackground()
start = time.perf_counter()
masks = np.array([subtractor.apply(frame) for frame in film]) > 0
seconds = time.perf_counter() - start
background = subtractor.getBackgroundImage()
print(f"{n / seconds:.0f} frames per second")

# %%
# The usual tool without OpenCV is the difference from the median of all frames. It needs the whole film,
# and it does not know that the exposure changes. We give it the threshold that is best for this film.


def f_measure(found):
    """Return the harmonic mean of precision and recall, after the first 30 frames."""
    found, right = found[30:], truth[30:]
    return 2.0 * (found & right).sum() / (found.sum() + right.sum())


difference = np.abs(film.astype(float) - np.median(film, axis=0)).max(axis=-1)
by_median = max((difference > level for level in range(20, 121, 20)), key=f_measure)
print(f"F-measure of the masks: VideoBackground {f_measure(masks):.3f}, median {f_measure(by_median):.3f}")
exposure = np.vdot(background, scene) / np.vdot(scene, scene)
error = np.abs(background - exposure * scene).mean()
print(f"mean difference of the background and the photograph: {error:.1f} of 255 grey levels")

# %%
# A frame, its background, and the masks
# --------------------------------------

t = 75
fig, axes = plt.subplots(2, 2, figsize=(9.5, 5.2), layout="constrained")
pictures = {
    f"frame {t}": film[t],
    "background after the film": background,
    "mask of VideoBackground": masks[t],
    "mask by the median of the film": by_median[t],
}
for axis, (title, picture) in zip(axes.flat, pictures.items(), strict=True):
    axis.imshow(picture, cmap="gray")
    if title.startswith("mask"):
        axis.contour(truth[t], levels=[0.5], colors="tab:red", linewidths=0.8)
    axis.set(title=title, xticks=[], yticks=[])
plt.show()

# %%
# The red lines are the true outlines. With your own film, iterate over ``maxnorm.open_film("street.mp4")``,
# or call ``maxnorm video street.mp4`` in a shell. If the camera pans, stabilise the film first.
