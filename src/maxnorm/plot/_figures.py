"""What the pictures share: figures, axes, colours and checks of arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxnorm.estimators.frames import is_pandas
from maxnorm.streams.stream import needs

BLUE, RED, GREY = "#1f6feb", "#d1242f", "#8c959f"
MOST_LABELS = 30  # names of features on an axis


def new_axes(ax: Any) -> Any:
    """Return the axes to draw in: those that are given, or those of a new figure."""
    pyplot = needs("matplotlib.pyplot", "drawing pictures", "plot")
    return pyplot.subplots(layout="constrained")[1] if ax is None else ax


def axes_grid(axes: Any, count: int, n_columns: int, size: tuple[float, float]) -> Any:
    """Return at least ``count`` axes as a flat array: those that are given, or the grid of a new figure."""
    pyplot = needs("matplotlib.pyplot", "drawing pictures", "plot")
    if axes is None:
        n_rows = math.ceil(count / n_columns)
        shape = (size[0] * n_columns, size[1] * n_rows)
        _, axes = pyplot.subplots(n_rows, n_columns, figsize=shape, squeeze=False, layout="constrained")
    flat = np.ravel(axes)
    if len(flat) < count:
        raise ValueError(
            f"axes has {len(flat)} axes, but the picture needs {count}; pass as many, or None for a new "
            "figure"
        )
    return flat


def with_defaults(artist: str, defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an artist: those that are given, and the defaults of the others.

    Short names of options, such as ``lw``, are replaced by the names that the defaults have.
    """
    from matplotlib import cbook, image, lines, patches

    kind = {"line": lines.Line2D, "bar": patches.Patch, "image": image.AxesImage}[artist]
    return defaults | cbook.normalize_kwargs(given, kind)


def count_on(axis: Any) -> None:
    """Give an axis ticks at integers, whatever ticks it had before."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    axis.set_major_locator(MaxNLocator(integer=True))
    axis.set_major_formatter(ScalarFormatter())


def count_bins_on(axis: Any, width: int) -> None:
    """Label an axis of bins by the number of the first item of each bin."""
    from matplotlib.ticker import FuncFormatter

    if width > 1:
        axis.set_major_formatter(FuncFormatter(lambda k, _: f"{round(k * width):,}"))


def require(model: Any, attribute: str, picture: str) -> None:
    """Raise an error if the model is not fitted or lacks what a picture shows."""
    if hasattr(model, "estimator_") and not hasattr(model, attribute):
        raise TypeError(
            f"model is a {type(model).__name__}, of which {picture} cannot be drawn; pass model.estimator_"
        )
    if not hasattr(type(model), "fit"):
        raise TypeError(f"model must be a fitted estimator, got {type(model).__name__}")
    check_is_fitted(model)
    if not hasattr(model, attribute):
        raise TypeError(
            f"model is a {type(model).__name__}, which has no {attribute}, so that {picture} cannot be "
            "drawn; pass a MaxNormDecomposition"
        )


def check_shape(feature_shape: Any, n_features: int) -> tuple[int, ...] | None:
    """Return the shape of a sample; raise an error if it does not fit the number of features."""
    if feature_shape is None:
        return None
    shape = tuple(int(size) for size in np.atleast_1d(feature_shape))
    if math.prod(shape) != n_features:
        raise ValueError(
            f"feature_shape={shape} has {math.prod(shape)} entries, but the model has {n_features} features"
        )
    return shape


def is_image(shape: tuple[int, ...] | None) -> bool:
    """Return whether samples of a shape are drawn as images, grey or with three or four colours."""
    return shape is not None and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (3, 4)))


def as_image(values: Any, shape: tuple[int, ...] | None) -> Any:
    """Return a sample as a matrix; of colours, the mean is drawn."""
    assert shape is not None
    image = np.reshape(values, shape)
    return image if image.ndim == 2 else image.mean(axis=2)


def name_features(ax: Any, names: Any) -> None:
    """Write the names of the features on the horizontal axis if they are few; otherwise their positions."""
    if names is not None and len(names) <= MOST_LABELS:
        ax.set_xticks(range(len(names)), [str(name) for name in names])
        if max((len(str(name)) for name in names), default=0) * len(names) > 40:
            ax.tick_params(axis="x", rotation=90)
    ax.set_xlabel("feature")


def name_rows(axis: Any, index: Any, rows_per_bin: int = 1) -> None:
    """Label the axis of the samples by the index of a data frame, or by their positions if that is None."""
    if index is None:
        count_bins_on(axis, rows_per_bin)
        return
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def label(position: float, _: object = None) -> str:
        row = round(position * rows_per_bin)
        return str(index[row]) if 0 <= row < len(index) else ""

    axis.set_major_formatter(FuncFormatter(label))
    axis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def labels_of(X: Any) -> Any:
    """Return the index of a data frame of pandas unless it only counts the rows; None for other data."""
    if not is_pandas(X):
        return None
    index = X.index
    counts_rows = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    return None if counts_rows else index
