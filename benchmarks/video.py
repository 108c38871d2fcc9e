"""Find the foreground of films, beside OpenCV's background subtractors.

    python benchmarks/video.py FOLDER                    labelled sequences, and the same made harder
    python benchmarks/video.py FOLDER --plain            the sequences as they are
    python benchmarks/video.py speed                     frames per second, without any data
    python benchmarks/video.py memory                    resident memory over 10,000 frames, without any data
    python benchmarks/video.py picture --film vtest.avi  the picture of docs/film.md

FOLDER holds one folder per sequence in the layout of CDnet 2014 (changedetection.net): ``input/`` with frames
and ``groundtruth/`` with masks, in which 255 is foreground, 0 and 50 are background, and 85 and 170 are not
counted. All methods have their default settings, see each frame once, and may use the first 150 frames to
learn. OpenCV's methods are also shown after a median filter of 9 x 9 pixels, which is what users add:

    python -m pip install opencv-contrib-python-headless
"""

import time
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import ndimage

from maxnorm import VideoBackground, open_film
from maxnorm.core import film_loops, scene
from maxnorm.paper.measure import measure_resident_memory

CONSOLE = Console(width=170)
FIRST = 150  # frames that are not counted
FOREGROUND, SHADOW, OUTSIDE = 255, 50, 85


# -- sequences ----------------------------------------------------------------------------------------


def read_sequence(folder):
    """Return the frames of a sequence and its ground truth."""
    frames = np.stack(list(open_film(folder / "input")))
    truth = np.stack([image[..., 0] for image in open_film(folder / "groundtruth")])
    return frames, truth


def shake(frames, truth, rng):
    """Shift each frame by up to two pixels, as a camera on a pole is shaken by wind."""
    frames, truth, shift = frames.copy(), truth.copy(), np.zeros(2)
    for t in range(len(frames)):
        shift = np.clip(0.7 * shift + rng.normal(0.0, 0.9, 2), -2.0, 2.0)
        frames[t] = ndimage.shift(frames[t], (*shift, 0.0), order=1, mode="nearest")
        truth[t] = ndimage.shift(truth[t], shift, order=0, mode="nearest")
    return frames, truth


def make_night(frames, truth, rng):
    """Return dark and noisy frames."""
    noisy = frames * 0.22 + 10.0 + rng.normal(0.0, 7.0, frames.shape)
    return np.clip(noisy, 0.0, 255.0).astype(np.uint8), truth


def switch_light(frames, truth, rng):
    """Make the light darker and brighter again; fifty frames after each switch are not counted."""
    frames, truth = frames.copy(), truth.copy()
    middle = slice(len(frames) // 2, 3 * len(frames) // 4)
    frames[middle] = (frames[middle] * 0.6).astype(np.uint8)
    for start in (middle.start, middle.stop):
        truth[start : start + 50] = OUTSIDE
    return frames, truth


def vary_exposure(frames, truth, rng):
    """Let the brightness of the frames swing by a fifth."""
    gains = 0.8 * (1.0 + 0.2 * np.sin(np.arange(len(frames)) / 25.0))
    return np.clip(frames * gains[:, None, None, None], 0.0, 255.0).astype(np.uint8), truth


def let_stand(frames, truth, rng):
    """Let the objects of the frame with most of them stand still for three hundred frames."""
    busiest = int(np.argmax((truth == FOREGROUND).sum(axis=(1, 2))))
    counts = (truth == FOREGROUND).sum(axis=(1, 2))
    empty = np.flatnonzero(counts == 0)
    empty = empty[empty < busiest][-100:]
    object_mask = ndimage.binary_dilation(truth[busiest] == FOREGROUND, iterations=1)
    backgrounds = frames[np.concatenate([empty, empty[::-1]])]
    n = 300
    still = backgrounds[np.arange(n) % len(backgrounds)].copy()
    still[:, object_mask] = frames[busiest][object_mask]
    label = np.where(truth[busiest] == FOREGROUND, FOREGROUND, np.where(object_mask, 170, 0))
    labels = np.broadcast_to(label.astype(np.uint8), (n, *label.shape))
    before = slice(0, busiest + 1)
    return np.concatenate([frames[before], still]), np.concatenate([truth[before], labels])


CONDITIONS = {
    "as it is": lambda frames, truth, rng: (frames, truth),
    "shaking": shake,
    "night": make_night,
    "light switched": switch_light,
    "exposure": vary_exposure,
    "standing": let_stand,
}


# -- methods ------------------------------------------------------------------------------------------


def opencv_methods():
    """Return the subtractors of OpenCV that are installed."""
    try:
        import cv2
    except ImportError:
        CONSOLE.print("OpenCV is not installed: its methods are left out")
        return {}
    cv2.setNumThreads(1)
    makers = {"MOG2": cv2.createBackgroundSubtractorMOG2, "KNN": cv2.createBackgroundSubtractorKNN}
    if hasattr(cv2, "bgsegm"):
        makers["GSOC"] = cv2.bgsegm.createBackgroundSubtractorGSOC
    return {name: lambda make=make: Shown(make()) for name, make in makers.items()}


class Shown:
    """A subtractor of OpenCV without the shadows that it marks."""

    def __init__(self, subtractor):
        self.subtractor = subtractor

    def apply(self, frame):
        """Return the mask of a frame."""
        return np.where(self.subtractor.apply(frame) > 200, np.uint8(255), np.uint8(0))


class Counts:
    """Pixels that were found rightly, wrongly, or not at all."""

    def __init__(self):
        self.hits = self.false = self.missed = 0

    def add(self, mask, truth):
        """Count a frame."""
        foreground, background = truth == FOREGROUND, (truth == 0) | (truth == SHADOW)
        self.hits += int((mask & foreground).sum())
        self.false += int((mask & background).sum())
        self.missed += int((~mask & foreground).sum())

    @property
    def f_measure(self):
        """The harmonic mean of precision and recall."""
        return 2 * self.hits / max(2 * self.hits + self.false + self.missed, 1)


def evaluate(subtractor, frames, truth, *, median):
    """Return the F-measures as found and after a median filter, and frames per second."""
    plain, smooth, seconds = Counts(), Counts(), 0.0
    for t, frame in enumerate(frames):
        start = time.perf_counter()
        mask = subtractor.apply(frame)
        seconds += time.perf_counter() - start
        if t >= FIRST:
            plain.add(mask > 0, truth[t])
            if median:
                import cv2

                smooth.add(cv2.medianBlur(mask, 9) > 0, truth[t])
    return plain.f_measure, smooth.f_measure, len(frames) / seconds


def run_sequences(folder, plain):
    """Print the F-measures of all methods on all sequences."""
    methods = opencv_methods()
    conditions = {"as it is": CONDITIONS["as it is"]} if plain else CONDITIONS
    table = Table(title="F-measure; OpenCV's methods as they are / after a 9 x 9 median; frames per second")
    for column in ("sequence", "condition", "VideoBackground", *methods):
        table.add_column(column)
    columns = []
    for path in sorted(path for path in folder.iterdir() if (path / "groundtruth").is_dir()):
        sequence = read_sequence(path)
        for name, change in conditions.items():
            frames, truth = change(*sequence, np.random.default_rng(0))
            ours, _, speed = evaluate(VideoBackground(), frames, truth, median=False)
            row, cells = [ours], [f"{ours:.3f}  ({speed:.0f}/s)"]
            for make in methods.values():
                raw, smooth, speed = evaluate(make(), frames, truth, median=True)
                row += [raw, smooth]
                cells.append(f"{raw:.3f} / {smooth:.3f}  ({speed:.0f}/s)")
            columns.append(row)
            table.add_row(path.name, name, *cells)
    means = np.mean(columns, axis=0)
    pairs = [f"{means[i]:.3f} / {means[i + 1]:.3f}" for i in range(1, len(means), 2)]
    table.add_row("mean", "", f"{means[0]:.3f}", *pairs)
    CONSOLE.print(table)


def make_frames(shape, n_frames, rng):
    """Yield frames of a textured background with noise, in front of which a bright box moves."""
    height, width, _ = shape
    picture = rng.integers(60, 200, shape)
    for t in range(n_frames):
        frame = np.clip(picture + rng.integers(-3, 4, shape), 0, 255).astype(np.uint8)
        left = width * (t % 80) // 80
        frame[height // 3 : 2 * height // 3, left : left + width // 10] = 250
        yield frame


def run_speed():
    """Print how many frames per second are judged, with and without Numba."""
    table = Table(title="frames per second on one core, a textured background with a moving object")
    for column in ("size", "with Numba", "NumPy and SciPy"):
        table.add_column(column)
    rng = np.random.default_rng(0)
    compiled = scene.loops()
    for height, width, channels in ((240, 320, 3), (240, 320, 1), (480, 640, 3), (1080, 1920, 3)):
        rates = []
        for loops in (compiled, film_loops):
            scene.loops = lambda loops=loops: loops
            subtractor, seconds = VideoBackground(), []
            for frame in make_frames((height, width, channels), 60, rng):
                start = time.perf_counter()
                subtractor.apply(frame)
                seconds.append(time.perf_counter() - start)
            rates.append(1.0 / np.mean(seconds[36:]))  # after the median of the first frames
        table.add_row(f"{width} x {height} x {channels}", *(f"{rate:.0f}" for rate in rates))
    scene.loops = lambda: compiled
    CONSOLE.print(table)


def run_memory():
    """Print the peak resident memory of this process after some and after many frames."""
    subtractor = VideoBackground()
    for frame in make_frames((240, 320, 3), 10_000, np.random.default_rng(0)):
        subtractor.apply(frame)
        if subtractor.n_frames_ in (1_000, 10_000):
            CONSOLE.print(f"{subtractor.n_frames_:6,} frames: {measure_resident_memory():.1f} MB")


def draw_picture(path, number=780):
    """Draw a frame of a film with its background and its foreground to docs/images/film.png."""
    import matplotlib.pyplot as plt

    subtractor = VideoBackground()
    for t, frame in enumerate(open_film(path)):
        mask = subtractor.apply(frame)
        if t == number:
            break
    parts = {
        "frame": frame,
        "background": subtractor.background_,
        "foreground": np.where(mask[..., None], frame, np.uint8(255)),
    }
    figure, axes = plt.subplots(1, 3, figsize=(12, 2.25), dpi=100)
    for axis, (title, image) in zip(axes, parts.items(), strict=True):
        axis.imshow(image[60:430])
        axis.set_title(title, fontsize=11)
        axis.axis("off")
    figure.tight_layout(pad=0.3)
    figure.savefig(Path(__file__).parent.parent / "docs/images/film.png")


@click.command()
@click.argument("folder")
@click.option("--plain", is_flag=True, help="Only the sequences as they are.")
@click.option("--film", type=click.Path(exists=True), help="The film of the picture.")
def main(folder, plain, film):
    """Measure background subtraction on the sequences of FOLDER, its speed or memory, or draw a picture."""
    if folder == "speed":
        run_speed()
    elif folder == "memory":
        run_memory()
    elif folder == "picture":
        draw_picture(film)
    else:
        run_sequences(Path(folder), plain)


if __name__ == "__main__":
    main()
