"""Frames from film files, folders and patterns of images, NumPy files, cameras and network streams.

PyAV (the extra ``video``) decodes everything but NumPy files.
"""

from __future__ import annotations

import glob
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from maxnorm.core.types import AnyArray

IMAGES = frozenset({".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
IMAGE_RATE = Fraction(25)  # frames per second of sources that do not say
CAMERAS = {  # how FFmpeg names cameras
    "linux": ("v4l2", "/dev/video{}"),
    "darwin": ("avfoundation", "{}"),
    "win32": ("dshow", "video={}"),
}
MOST_DAMAGED = 100  # successive damaged parts of a film after which reading stops


class FilmError(ValueError):
    """A film cannot be read or written."""


@dataclass(frozen=True)
class Film:
    """A film that can be iterated over: each frame is an array of shape (height, width, 3) of RGB bytes.

    Frames of a NumPy file have the shape and type that they have there. :func:`open_film` opens a film.

    Attributes
    ----------
    title : str
        Name of the source in messages.
    rate : Fraction
        Frames per second.
    n_frames : int or None
        Number of frames, where the source tells it; it may be wrong for damaged files.
    read : callable
        Returns a new iterator over the frames.

    See Also
    --------
    open_film : Opens a film.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from maxnorm import open_film
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "film.npy", np.zeros((5, 48, 64), dtype=np.uint8))
    ...     film = open_film(Path(folder) / "film.npy")
    ...     print(film.n_frames, next(iter(film)).shape)
    5 (48, 64)
    """

    title: str
    rate: Fraction
    n_frames: int | None
    read: Callable[[], Iterator[AnyArray]]

    def __iter__(self) -> Iterator[AnyArray]:
        return self.read()


def open_film(source: str | os.PathLike[str] | int) -> Film:
    """Open a film for reading, frame by frame.

    Nothing is kept in memory but the frame that is read. Damaged parts of a film are passed over, and frames
    of another size than the first one are resized; both give a warning at the end.

    Parameters
    ----------
    source : path-like, str or int
        A film file (mp4, avi, mov, mkv, gif and whatever else FFmpeg reads), a folder of images or a pattern
        such as ``"frames/*.png"`` (in natural order: 2 before 10), a ``.npy`` file of shape
        (n_frames, height, width[, channels]), the number of a camera, or the address of a stream.

    Returns
    -------
    Film
        The film, which is opened anew whenever it is iterated over.

    Raises
    ------
    FilmError
        If there is nothing to read.

    See Also
    --------
    VideoBackground : Separates background and foreground of a film.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from maxnorm import VideoBackground, open_film
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "film.npy", np.full((5, 48, 64), 100, dtype=np.uint8))
    ...     subtractor = VideoBackground().fit(open_film(Path(folder) / "film.npy"))
    >>> int(subtractor.background_.mean())
    100
    """
    name = str(source)
    if name.isdecimal():
        return _open_camera(int(name))
    if re.match(r"[a-z0-9]+://", name):
        return Film(name, IMAGE_RATE, None, lambda: _decode(name))
    path = Path(name)
    if path.is_dir():
        return _open_images(sorted(path.iterdir(), key=natural_order), name)
    if glob.has_magic(name) and not path.exists():
        return _open_images(sorted(map(Path, glob.glob(name)), key=natural_order), name)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    if path.stat().st_size == 0:
        raise FilmError(f"{path}: the file is empty")
    if path.suffix == ".npy":
        return _open_array(path)
    return _open_file(path)


def natural_order(path: Path) -> list[tuple[int, int | str]]:
    """Return a key by which names sort with their numbers by value.

    Parameters
    ----------
    path : Path
        A path.

    Returns
    -------
    list
        The key.
    """
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts]


def crop(
    frames: Iterator[AnyArray], every: int, region: tuple[int, int, int, int] | None
) -> Iterator[AnyArray]:
    """Yield every n-th frame, cropped to a region.

    Parameters
    ----------
    frames : iterator of ndarray
        The frames.
    every : int
        One yields all frames, two every other one, and so on.
    region : tuple of int, or None
        Left, top, width and height of the region in pixels.

    Yields
    ------
    ndarray
        The frames.
    """
    for i, frame in enumerate(frames):
        if i % every:
            continue
        if region is None:
            yield frame
            continue
        left, top, width, height = region
        part = frame[top : top + height, left : left + width]
        if part.shape[:2] != (height, width):
            raise FilmError(
                f"the region {left},{top},{width},{height} is not inside of the frames, which have "
                f"{frame.shape[1]} x {frame.shape[0]} pixels"
            )
        yield part


def _open_array(path: Path) -> Film:
    """Open a film that is stored as a NumPy array."""
    try:
        frames = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise FilmError(f"{path}: not a NumPy file of numbers, or damaged ({error})") from error
    if frames.ndim not in (3, 4) or not frames.size or (frames.ndim == 3 and frames.shape[2] <= 4):
        raise FilmError(
            f"{path}: has the shape {frames.shape}, but a film has (n_frames, height, width[, channels])"
        )
    return Film(str(path), IMAGE_RATE, len(frames), lambda: iter(np.array(frame) for frame in frames))


def _open_images(paths: list[Path], title: str) -> Film:
    """Open images as a film; other files are passed over."""
    images = [path for path in paths if path.suffix.lower() in IMAGES]
    if not images:
        kinds = ", ".join(sorted(IMAGES))
        raise FilmError(f"{title}: there are no images in it ({kinds})")
    return Film(title, IMAGE_RATE, len(images), lambda: _same_size(_read_images(images), title))


def _read_images(paths: list[Path]) -> Iterator[Any]:
    for path in paths:
        with _open_container(str(path)) as container:
            yield from container.decode(video=0)


def _open_camera(number: int) -> Film:
    kind, device = CAMERAS.get(sys.platform, CAMERAS["linux"])
    title = f"camera {number}"
    return Film(title, IMAGE_RATE, None, lambda: _decode(device.format(number), kind, title))


def _open_file(path: Path) -> Film:
    """Open a film file, and find its rate and number of frames."""
    with _open_container(str(path)) as container:
        stream = _video_stream(container, str(path))
        rate = stream.average_rate or stream.guessed_rate or IMAGE_RATE
        n_frames = stream.frames or None
        if n_frames is None and container.duration:
            n_frames = int(container.duration / 1e6 * rate)
    return Film(str(path), Fraction(rate), n_frames, lambda: _decode(str(path)))


def _decode(address: str, kind: str | None = None, title: str | None = None) -> Iterator[AnyArray]:
    return _same_size(_decoded(address, kind, title or address), title or address)


def _decoded(address: str, kind: str | None, title: str) -> Iterator[Any]:
    """Yield the frames of a film; damaged parts are passed over, with a warning at the end."""
    av = load_av()
    n_damaged, successive = 0, 0
    with _open_container(address, kind, title) as container:
        stream = _video_stream(container, title)
        stream.thread_type = "AUTO"
        packets = container.demux(stream)
        while successive < MOST_DAMAGED:
            try:
                frames = next(packets).decode()
            except (StopIteration, EOFError):
                break
            except av.error.FFmpegError:
                n_damaged, successive = n_damaged + 1, successive + 1
                continue
            yield from frames
            successive = 0
    if n_damaged:
        warnings.warn(f"{title}: {n_damaged} damaged parts of the film were passed over", stacklevel=2)


def _same_size(frames: Iterator[Any], title: str) -> Iterator[AnyArray]:
    """Yield frames as arrays of RGB bytes, all of the size of the first one."""
    size: dict[str, int] = {}
    resized = 0
    for frame in frames:
        if size and (frame.width, frame.height) != (size["width"], size["height"]):
            resized += 1
        size = size or {"width": frame.width, "height": frame.height}
        yield frame.reformat(**size, format="rgb24").to_ndarray()
    if not size:
        raise FilmError(f"{title}: there are no frames in it, or the file is damaged")
    if resized:
        shape = f"{size['width']} x {size['height']}"
        warnings.warn(f"{title}: {resized} frames of other sizes were resized to {shape}", stacklevel=2)


def load_av() -> Any:
    """Return the module of PyAV, which is silenced, or raise an error that names the extra to install."""
    try:
        import av
        import av.error
        import av.logging
    except ImportError as error:
        raise ImportError("PyAV is required to read and write films: pip install 'maxnorm[video]'") from error
    av.logging.set_level(None)  # FFmpeg's own messages on standard error
    return av


def _open_container(address: str, kind: str | None = None, title: str | None = None) -> Any:
    av = load_av()
    try:
        return av.open(address, format=kind)
    except (av.error.FFmpegError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FilmError(f"{title or address}: cannot be read as a film ({reason})") from error


def _video_stream(container: Any, title: str) -> Any:
    if not container.streams.video:
        raise FilmError(f"{title}: there is no picture in it, only sound or data")
    return container.streams.video[0]
