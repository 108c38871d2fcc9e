"""``VideoBackground``: background and foreground of a film from a fixed camera, frame by frame."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import ndimage
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxnorm.core import scene as scenes
from maxnorm.core.types import AnyArray
from maxnorm.estimators._base import SavedMixin
from maxnorm.estimators.reporting import ReportMixin
from maxnorm.estimators.validation import Number, check_number

MOST_PIXELS = 640 * 480  # larger frames are reduced before they are looked at
CHANNELS = (1, 3)
RANGES = (1.0, 255.0, 1023.0, 4095.0, 16383.0, 65535.0)  # of the entries of frames, from zero


class FilmParts(NamedTuple):
    """The parts of a film, in the shape and type of its frames.

    It is a named tuple, so that the parts can be unpacked or read by name.

    Attributes
    ----------
    background : ndarray of shape (n_frames, height, width) or (n_frames, height, width, channels)
        The background of each frame, at the brightness of that frame.
    foreground : ndarray of the same shape
        The frames where there is foreground, and zero elsewhere.
    mask : bool ndarray of shape (n_frames, height, width)
        Whether a pixel is foreground.

    See Also
    --------
    VideoBackground.decompose : Returns the parts of a film.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import VideoBackground
    >>> film = np.full((40, 60, 80), 100, dtype=np.uint8)
    >>> film[30:, 20:40, 20:40] = 200
    >>> parts = VideoBackground().fit(film[:30]).decompose(film[30:])
    >>> parts.mask.shape, bool(parts.mask[-1, 22:38, 22:38].all())
    ((10, 60, 80), True)
    """

    background: AnyArray
    foreground: AnyArray
    mask: AnyArray


class VideoBackground(SavedMixin, ReportMixin, BaseEstimator):  # type: ignore[misc]
    """Background subtraction for films of a fixed camera.

    Every frame is split into the background, which is of rank one (a picture times the brightness of the
    frame), and the foreground, which is what moves in front of it. Frames are judged one by one, in the order
    of time, and memory does not grow with their number. Moving leaves and water, gradual and sudden changes
    of the light, noise and a shaking camera are followed. An object that stands still remains foreground for
    minutes, or for half a minute if it differs little from the background.

    Nothing needs to be set. Frames are arrays of shape (height, width) or (height, width, 3), of integers or
    of floating-point numbers. Whether these go up to 1, 255, 1023, 4095 or more is seen from the frames.

    Parameters
    ----------
    sensitivity : float, default=1.0
        Distances from the background beyond which a pixel is foreground are divided by this number. A larger
        value finds fainter objects and more false ones.
    min_area : float, default=0.001
        Share of the image below which connected foreground is dropped. Reduce it for objects that are smaller
        than about nine by nine pixels of 320 x 240.

    Attributes
    ----------
    background_ : ndarray of shape (height, width) or (height, width, channels)
        The background at the brightness of the last frame, in the type of the frames.
    brightness_ : float
        Brightness of the last frame, relative to the background when it was learnt.
    frame_shape_ : tuple of int
        Shape of the frames.
    n_frames_ : int
        Number of frames seen since the start, or since the whole scene has changed.

    See Also
    --------
    MaxNormDecomposition : Low-rank decomposition of any data, with any rank.

    Notes
    -----
    Frames of more than 640 x 480 pixels are reduced by a whole factor, and masks and backgrounds enlarged
    again. A frame of 320 x 240 pixels in colour takes 7 ms on one core with the extra ``fast``.

    If more than half of the image is foreground for ten frames, the scene has changed, and learning starts
    anew. The camera may shake by a few pixels, but must not pan or zoom.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import VideoBackground
    >>> film = np.random.default_rng(0).integers(100, 110, (60, 48, 64, 3), dtype=np.uint8)
    >>> film[50:, 10:30, 20:40] = 200  # an object appears
    >>> subtractor = VideoBackground()
    >>> masks = [subtractor.apply(frame) for frame in film]  # 255 where there is foreground
    >>> bool((masks[-1][12:28, 22:38] == 255).all())
    True
    """

    def __init__(self, *, sensitivity: float = 1.0, min_area: float = 0.001) -> None:
        self.sensitivity = sensitivity
        self.min_area = min_area

    def apply(self, frame: Any) -> AnyArray:
        """Judge one frame by what was learnt before it, learn from it, and return its foreground.

        Parameters
        ----------
        frame : array-like of shape (height, width) or (height, width, channels)
            The frame.

        Returns
        -------
        mask : ndarray of shape (height, width)
            255 where there is foreground and 0 elsewhere, as bytes. It is zero for the first frame.
        """
        self._check_parameters()
        return self._learn(np.asarray(frame)).astype(np.uint8) * np.uint8(255)

    def getBackgroundImage(self) -> AnyArray:
        """Return the background, under the name that OpenCV has for it.

        Returns
        -------
        ndarray of shape (height, width) or (height, width, channels)
            The background at the brightness of the last frame.
        """
        return self.background_

    def as_bytes(self, frame: Any) -> AnyArray:
        """Return a frame as bytes from 0 to 255, by the range that the frames so far have shown.

        Parameters
        ----------
        frame : array-like of shape (height, width) or (height, width, channels)
            The frame, or a background.

        Returns
        -------
        ndarray of the same shape
            The frame as bytes; 0 for missing pixels.
        """
        frame = np.asarray(frame)
        if frame.dtype == np.uint8:
            return frame
        check_is_fitted(self, "_scene")
        return np.clip(np.rint(np.nan_to_num(frame * self._unit)), 0, 255).astype(np.uint8)

    def fit(self, X: Any, y: None = None) -> Self:
        """Forget what was learnt, and learn from frames in the order of time.

        Parameters
        ----------
        X : array-like of shape (n_frames, height, width[, channels]) or iterable of frames
            The frames.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self
            The fitted estimator.
        """
        _check_film(X)
        for name in ("_scene", "frame_shape_", "_dtype", "_unit"):
            if hasattr(self, name):
                delattr(self, name)
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from more frames in the order of time.

        Parameters
        ----------
        X : array-like of shape (n_frames, height, width[, channels]) or iterable of frames
            The frames.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        _check_film(X)
        for frame in X:
            self._learn(np.asarray(frame))
        if "_scene" not in vars(self):
            raise ValueError("X has no frames: pass at least one")
        return self

    def decompose(self, X: Any) -> FilmParts:
        """Split frames into background and foreground, without learning from them.

        The frames are judged in the order of time. To learn from each frame after it was judged, call
        :meth:`apply`.

        Parameters
        ----------
        X : array-like of shape (n_frames, height, width[, channels]) or iterable of frames
            The frames.

        Returns
        -------
        FilmParts
            Background, foreground and mask of each frame.
        """
        check_is_fitted(self, "_scene")
        self._check_parameters()
        _check_film(X)
        scene = scenes.copy(self._scene)
        parts = []
        for frame in map(np.asarray, X):
            view = self._segment(scene, self._levels(frame))
            scene.covered, scene.ages = view.covered, view.ages
            scene.brightness, scene.offset = view.brightness, view.offset
            mask = self._enlarged(view.mask)
            shown = mask if frame.ndim == 2 else mask[..., None]
            parts.append((self._background(scene), np.where(shown, frame, frame.dtype.type(0)), mask))
        if not parts:
            raise ValueError("X has no frames: pass at least one")
        return FilmParts(*(np.stack(part) for part in zip(*parts, strict=True)))

    @property
    def background_(self) -> AnyArray:
        """The background at the brightness of the last frame, in the type of the frames."""
        check_is_fitted(self, "_scene")
        return self._background(self._scene)

    @property
    def brightness_(self) -> float:
        """Brightness of the last frame, relative to the background when it was learnt."""
        check_is_fitted(self, "_scene")
        return self._scene.brightness

    @property
    def n_frames_(self) -> int:
        """Number of frames seen since the start, or since the whole scene has changed."""
        check_is_fitted(self, "_scene")
        return self._scene.n_frames

    def _check_parameters(self) -> None:
        check_number(self, "sensitivity", Number(Real, 0, excluded=True))
        check_number(self, "min_area", Number(Real, 0))
        if self.min_area >= 1.0:
            raise ValueError(f"min_area={self.min_area!r} is a share of the image; use a number below 1")

    def _learn(self, frame: AnyArray) -> AnyArray:
        """Judge a frame and learn from it; return its mask."""
        levels = self._levels(frame)
        if "_scene" not in vars(self):
            self._scene = scenes.start(levels)
            return np.zeros(frame.shape[:2], dtype=bool)
        view = self._segment(self._scene, levels)
        self._scene = scenes.learn(self._scene, levels, view)
        return self._enlarged(view.mask)

    def _segment(self, scene: scenes.Scene, levels: AnyArray) -> scenes.View:
        return scenes.segment(scene, levels, sensitivity=self.sensitivity, min_area=self.min_area)

    def _levels(self, frame: AnyArray) -> AnyArray:
        """Return a frame of the size that is looked at, in grey levels of 0 to 255."""
        _check_frame(frame)
        if "frame_shape_" not in vars(self):
            self.frame_shape_, self._dtype, self._unit = frame.shape, frame.dtype.str, 255.0 / _range(frame)
        elif frame.shape != self.frame_shape_ or frame.dtype != np.dtype(self._dtype):
            raise ValueError(
                f"a frame has the shape {frame.shape} and the type {frame.dtype}, but earlier frames have "
                f"{self.frame_shape_} and {np.dtype(self._dtype)}: convert it, or use another "
                "VideoBackground for another film"
            )
        levels = frame.reshape(*frame.shape[:2], -1)
        if levels.dtype != np.uint8:
            self._widen(255.0 / _range(frame))
            levels = (levels * self._unit).astype(np.float32)
        if self._factor > 1:
            levels = scenes.loops().block_mean(levels, self._factor)
        if levels.dtype != np.uint8 and np.isnan(levels).any():
            levels = self._without_gaps(levels)
        return np.ascontiguousarray(levels)

    def _widen(self, unit: float) -> None:
        """Use fewer grey levels per unit of the entries, if a frame goes beyond the range of earlier ones."""
        if unit >= self._unit:
            return
        if "_scene" in vars(self):
            factor = np.float32(unit / self._unit)
            for array in (self._scene.background, self._scene.scales, self._scene.first):
                array *= factor
            self._scene.offset *= float(factor)
        self._unit = unit

    def _without_gaps(self, levels: AnyArray) -> AnyArray:
        """Return a frame whose missing pixels have the values of the background."""
        if "_scene" not in vars(self):
            typical = np.nanmedian(levels) if np.isfinite(levels).any() else 0.0
            return np.nan_to_num(levels, nan=float(typical))
        return np.where(np.isnan(levels), _expected(self._scene), levels)

    @property
    def _factor(self) -> int:
        height, width = self.frame_shape_[:2]
        return scenes.reduction(height, width, MOST_PIXELS)

    def _enlarged(self, mask: AnyArray) -> AnyArray:
        """Return a mask of the size of the frames."""
        factor, (height, width) = self._factor, self.frame_shape_[:2]
        return mask if factor == 1 else mask.repeat(factor, axis=0).repeat(factor, axis=1)[:height, :width]

    def _background(self, scene: scenes.Scene) -> AnyArray:
        """Return the background of a scene in the shape and type of the frames."""
        factor, dtype = self._factor, np.dtype(self._dtype)
        image: AnyArray = _expected(scene) * np.float32(1.0 / self._unit)
        if factor > 1:
            height, width = self.frame_shape_[:2]
            image = ndimage.zoom(image, (factor, factor, 1), order=1, grid_mode=True, mode="nearest")[
                :height, :width
            ]
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            image = np.clip(np.rint(image), limits.min, limits.max)
        elif dtype.kind == "b":
            image = image > 0.5
        return image.reshape(self.frame_shape_).astype(dtype)


def _expected(scene: scenes.Scene) -> AnyArray:
    """Return the background of the last frame, in grey levels and with the channels last."""
    image = np.float32(scene.brightness) * scene.background + np.float32(scene.offset)
    return np.moveaxis(image, 0, 2)


def _check_film(X: Any) -> None:
    """Raise an error if X is neither an array nor an iterable of frames."""
    shape = getattr(X, "shape", None)
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise TypeError(
            f"X={X!r} is no array and no iterable of frames: read a film with maxnorm.open_film, for example "
            "VideoBackground().fit(maxnorm.open_film('film.mp4'))"
        )
    if shape is not None and (len(shape) < 3 or (len(shape) == 3 and shape[-1] <= max(CHANNELS))):
        raise ValueError(
            f"X has the shape {tuple(shape)}, which is that of one frame: pass X[None], or frames in an "
            "array of shape (n_frames, height, width[, channels]); VideoBackground.apply takes single frames"
        )


def _check_frame(frame: AnyArray) -> None:
    """Raise an error if an array is not a frame."""
    if frame.dtype.kind not in "biuf":
        raise TypeError(
            f"a frame has entries of type {frame.dtype}: convert them to integers or real numbers"
        )
    if frame.ndim not in (2, 3) or frame.size == 0 or (frame.ndim == 3 and frame.shape[2] not in CHANNELS):
        raise ValueError(
            f"a frame has the shape {frame.shape}: it must be (height, width) or (height, width, 3); leave "
            "out an alpha channel with frame[..., :3]"
        )
    if frame.dtype.kind == "f" and np.isinf(frame).any():
        raise ValueError("a frame has infinite entries: replace them by NaN, which stands for missing pixels")


def _range(frame: AnyArray) -> float:
    """Return the end of the range, from zero, that the entries of a frame seem to have."""
    if frame.dtype == np.uint8:
        return 255.0
    entries = frame if frame.dtype.kind != "b" else frame.view(np.uint8)
    largest = float(np.nanmax(np.abs(entries.astype(np.float64)), initial=0.0))
    ends = RANGES if frame.dtype.kind in "bf" else RANGES[1:]
    return next((end for end in ends if largest <= end), largest)
