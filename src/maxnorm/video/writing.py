"""Frames written to film files, folders of PNG images and NumPy files."""

from __future__ import annotations

import os
import secrets
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from maxnorm.core.types import AnyArray
from maxnorm.files import check_replaceable
from maxnorm.video.reading import FilmError, load_av

CODECS = {  # of each kind of file, the first that the installed FFmpeg has, with its format of pixels
    ".mp4": (("libx264", "yuv420p"), ("mpeg4", "yuv420p")),
    ".mov": (("libx264", "yuv420p"), ("mpeg4", "yuv420p")),
    ".mkv": (("libx264", "yuv420p"), ("mpeg4", "yuv420p")),
    ".avi": (("mpeg4", "yuv420p"),),
    ".gif": (("gif", "rgb8"),),
}


class FilmWriter:
    """Writer of frames to a film file, or to a folder of PNG images if the path has no suffix.

    A film file is written to a temporary file, which is renamed by :meth:`close`, so that the file is
    playable whenever it exists, also if fewer frames were written than intended. Films are compressed with
    loss, and sizes are made even; images are exact. Nothing is created or removed before the first frame.

    Parameters
    ----------
    path : path-like
        The file (mp4, mov, mkv, avi or gif), or a folder, which is created.
    rate : Fraction, int or float
        Frames per second.
    overwrite : bool, default=False
        Whether a folder may contain files already. Its images with the names that this class gives
        (``000001.png`` and so on) are then removed when the first frame is written, and other files stay.
        A film file is always replaced.

    Raises
    ------
    FilmError
        If the path cannot be written to, or is a folder with files in it and ``overwrite`` is False.

    See Also
    --------
    open_film : Reads a film.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from maxnorm.video import FilmWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with FilmWriter(Path(folder) / "images", 25) as writer:
    ...         writer.write(np.zeros((48, 64), dtype=np.uint8))
    ...     print([path.name for path in (Path(folder) / "images").iterdir()])
    ['000001.png']
    """

    def __init__(
        self, path: str | os.PathLike[str], rate: Fraction | int | float, *, overwrite: bool = False
    ) -> None:
        self.path = Path(path)
        if not rate > 0:
            raise FilmError(f"rate={rate!r} must be a number of frames per second above 0")
        self.rate = _simple_rate(Fraction(rate))
        self.n_frames = 0
        self._av = load_av()
        self._container: Any = None
        self._stream: Any = None
        self._png: Any = None
        self._size: tuple[int, ...] = ()
        check_film_path(self.path, overwrite=overwrite)
        name = f".{self.path.stem[:40]}.{secrets.token_hex(4)}.part{self.path.suffix}"
        self._part = self.path.with_name(name)

    def __enter__(self) -> FilmWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None or isinstance(error, KeyboardInterrupt):
            self.close()
        else:
            self.discard()

    def write(self, frame: AnyArray) -> None:
        """Append a frame.

        Parameters
        ----------
        frame : ndarray of shape (height, width) or (height, width, 3)
            The frame, of bytes.
        """
        frame = self._checked(np.asarray(frame))
        self.n_frames += 1
        if not self.path.suffix:
            self._write_png(frame)
            return
        frame = _even(frame)
        if self._container is None:
            self._open(frame)
        picture = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
        for packet in self._stream.encode(picture):
            self._container.mux(packet)

    def close(self) -> None:
        """Finish the file and give it its name."""
        if self._container is None:
            return
        for packet in self._stream.encode():
            self._container.mux(packet)
        self._container.close()
        self._container = None
        self._part.replace(self.path)

    def discard(self) -> None:
        """Remove what was written of a film; a file of the same name stays as it was."""
        if self._container is not None:
            self._container.close()
            self._container = None
            self._part.unlink(missing_ok=True)

    def _checked(self, frame: AnyArray) -> AnyArray:
        """Return a frame in colours, or raise an error if it does not fit."""
        if (
            frame.dtype != np.uint8
            or frame.ndim not in (2, 3)
            or (frame.ndim == 3 and frame.shape[2] not in (1, 3))
        ):
            raise FilmError(
                f"{self.path}: a frame of type {frame.dtype} and shape {frame.shape} cannot be written; "
                "convert it to bytes (uint8) of shape (height, width) or (height, width, 3)"
            )
        self._size = self._size or frame.shape[:2]
        if frame.shape[:2] != self._size:
            raise FilmError(f"{self.path}: a frame has the size {frame.shape[:2]}, earlier ones {self._size}")
        return np.broadcast_to(frame.reshape(*frame.shape[:2], -1), (*frame.shape[:2], 3))

    def _open(self, frame: AnyArray) -> None:
        codec, pixels = next(
            (pair for pair in CODECS[self.path.suffix.lower()] if pair[0] in self._av.codecs_available),
            CODECS[self.path.suffix.lower()][-1],
        )
        self._container = self._av.open(str(self._part), "w")
        self._stream = self._container.add_stream(codec, rate=self.rate)
        self._stream.height, self._stream.width = frame.shape[:2]
        self._stream.pix_fmt = pixels
        if codec == "mpeg4":
            self._stream.bit_rate = 4 * frame.shape[0] * frame.shape[1] * 8

    def _write_png(self, frame: AnyArray) -> None:
        if self._png is None:
            self._clear_folder()
            self._png = self._av.CodecContext.create("png", "w")
            self._png.height, self._png.width = frame.shape[:2]
            self._png.pix_fmt, self._png.time_base = "rgb24", Fraction(1, 25)
        picture = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
        picture.pts = self.n_frames
        content = b"".join(bytes(packet) for packet in self._png.encode(picture))
        (self.path / f"{self.n_frames:06d}.png").write_bytes(content)

    def _clear_folder(self) -> None:
        """Create the folder, or remove the images of an earlier run from it."""
        self.path.mkdir(parents=True, exist_ok=True)
        for old in self.path.glob("[0-9][0-9][0-9][0-9][0-9][0-9].png"):
            old.unlink()


def check_film_path(path: Path, *, overwrite: bool) -> None:
    """Raise an error if no film can be written to a path.

    Parameters
    ----------
    path : Path
        The file or folder.
    overwrite : bool
        Whether a folder may contain files already.
    """
    if path.suffix and path.suffix.lower() not in CODECS:
        kinds = ", ".join(CODECS)
        raise FilmError(f"{path}: films are written as {kinds}, or as images to a folder without a suffix")
    if path.suffix:
        check_replaceable(path)
    elif path.exists() and not path.is_dir():
        raise FilmError(f"{path}: a file has this name; name a folder, or a film with a suffix such as .mp4")
    elif path.exists() and any(path.iterdir()) and not overwrite:
        raise FilmError(
            f"{path}: the folder is not empty; set overwrite to True to replace its images, or name another "
            "folder"
        )


def _simple_rate(rate: Fraction) -> Fraction:
    """Return a rate near to the given one whose numerator or denominator is small, as the formats need.

    Rates above one have a denominator of up to 1001 (30000/1001 is that of NTSC). Rates below one are
    simplified as the time from one frame to the next, so that they do not become zero.
    """
    return rate.limit_denominator(1001) if rate >= 1 else 1 / (1 / rate).limit_denominator(1001)


def _even(frame: AnyArray) -> AnyArray:
    """Return a frame whose height and width are even, as the usual formats need; the last pixels repeat."""
    height, width = frame.shape[:2]
    if height % 2 == 0 and width % 2 == 0:
        return frame
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
