"""Pictures of samples: their gross errors, their parts and their scores."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from maxnorm.core.types import Array
from maxnorm.plot._figures import (
    BLUE,
    GREY,
    RED,
    as_image,
    axes_grid,
    check_shape,
    count_bins_on,
    is_image,
    labels_of,
    name_features,
    name_rows,
    new_axes,
    require,
    with_defaults,
)
from maxnorm.report_data import (
    Block,
    NoiseMap,
    decompose_blocks,
    feature_shape_of,
    model_deviations,
)

MOST_BINS = 400  # rows of a map of gross errors
MOST_COLUMNS = 600  # its columns
GAP = "#c8ccd1"  # colour of entries that are missing
PARTS = ("measured", "low-rank part", "gross errors")


class NoiseDisplay:
    """A map of the gross errors of samples, in standard deviations of each feature.

    Missing entries have a colour of their own. A few extreme errors do not determine the colour scale.

    Parameters
    ----------
    deviations : array of shape (n_rows, n_columns)
        The gross errors, in standard deviations; NaN where entries are missing.
    names : sequence of str or None, default=None
        Names of the features.
    rows_per_bin : int, default=1
        Number of samples in a row of the map, of which the largest error is shown.
    index : sequence or None, default=None
        Labels of the samples.
    columns_per_bin : int, default=1
        Number of features in a column of the map, of which the largest error is shown.

    Attributes
    ----------
    limit : float
        Deviation of the strongest colour, the 99th percentile of the errors and at least 3.
    figure_ : Figure
        The figure, after :meth:`plot`.
    ax_ : Axes
        The axes, after :meth:`plot`.

    See Also
    --------
    noise : Draws the picture of samples.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from maxnorm.plot import NoiseDisplay
    >>> display = NoiseDisplay(np.array([[0.0, 12.0], [np.nan, 0.0]]), names=["a", "b"]).plot()
    >>> display.ax_.images[0].get_array().mask.tolist()
    [[False, False], [True, False]]
    """

    figure_: Any
    ax_: Any

    def __init__(
        self,
        deviations: Any,
        *,
        names: Any = None,
        rows_per_bin: int = 1,
        index: Any = None,
        columns_per_bin: int = 1,
    ) -> None:
        self.deviations = np.asarray(deviations, dtype=np.float64)
        self.names = names
        self.rows_per_bin = rows_per_bin
        self.index = index
        self.columns_per_bin = columns_per_bin
        found = np.abs(self.deviations[np.nan_to_num(self.deviations) != 0.0])
        self.limit = max(3.0, float(np.quantile(found, 0.99))) if found.size else 3.0

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the picture of samples.

        Parameters
        ----------
        estimator : estimator
            A fitted decomposition, or a completion with ``noise="capped"``.
        X : array, data frame, sparse matrix, Dask collection or Stream
            Samples in rows. NaN marks missing entries.
        ax : Axes, default=None
            The axes to draw in. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.imshow`.

        Returns
        -------
        display : NoiseDisplay
            The picture.
        """
        require(estimator, "decompose", "gross errors")
        model_noise = getattr(estimator, "noise", None)
        if isinstance(model_noise, str) and model_noise in ("none", "squared"):
            raise ValueError(
                f"model has noise={model_noise!r} and finds no gross errors; fit a "
                f"{type(estimator).__name__} with noise='capped'"
            )
        found = NoiseMap(estimator.n_features_in_, MOST_BINS)
        for block in decompose_blocks(estimator, X):
            found.add(block)
        columns_per_bin = -(-estimator.n_features_in_ // MOST_COLUMNS)
        display = cls(
            join_columns(found.largest / feature_deviations(estimator, found), columns_per_bin),
            names=None if feature_shape_of(X) else getattr(estimator, "feature_names_in_", None),
            rows_per_bin=found.rows_per_bin,
            index=labels_of(X),
            columns_per_bin=columns_per_bin,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : Axes, default=None
            The axes to draw in. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.imshow`.

        Returns
        -------
        self : NoiseDisplay
            The picture.
        """
        ax = new_axes(ax)
        from matplotlib import colormaps
        from matplotlib.patches import Patch

        colours = colormaps["RdBu_r"].with_extremes(bad=GAP)
        defaults = {"cmap": colours, "vmin": -self.limit, "vmax": self.limit, "aspect": "auto"}
        options = with_defaults("image", defaults | {"interpolation": "nearest"}, kwargs)
        image = ax.imshow(np.ma.masked_invalid(self.deviations), **options)
        bar = ax.figure.colorbar(image, ax=ax, extend="both")
        bar.set_label("gross error, in deviations")
        if np.isnan(self.deviations).any():
            handle = Patch(facecolor=GAP, edgecolor="black", linewidth=0.5, label="missing")
            ax.legend(handles=[handle], loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)
        name_features(ax, self.names if self.columns_per_bin == 1 else None)
        count_bins_on(ax.xaxis, self.columns_per_bin)
        ax.set_ylabel("sample")
        name_rows(ax.yaxis, self.index, self.rows_per_bin)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def feature_deviations(model: Any, found: NoiseMap) -> Array:
    """Return the standard deviation of each feature, that of the samples where the model has none."""
    scales = model_deviations(model)
    return found.deviations if scales is None else np.where(scales > 0.0, scales, found.deviations)


def join_columns(values: Array, width: int) -> Array:
    """Return a map whose columns have the entries of largest magnitude of so many successive columns."""
    if width == 1:
        return values
    starts = np.arange(0, values.shape[1], width)
    high, low = np.fmax.reduceat(values, starts, axis=1), np.fmin.reduceat(values, starts, axis=1)
    return np.where(np.abs(low) > np.abs(high), low, high)


def noise(model: Any, X: Any, ax: Any = None) -> NoiseDisplay:
    """Draw a map of the gross errors of samples, in standard deviations of each feature.

    Positive errors are red and negative ones blue, and missing entries are grey. Of a large X, each row of
    the map is several samples, and shows the largest error among them; of many features, each column is
    several features. X is read in batches.

    Parameters
    ----------
    model : estimator
        A fitted decomposition, or a completion with ``noise="capped"``.
    X : array, data frame, sparse matrix, Dask collection or Stream
        Samples in rows. NaN marks missing entries.
    ax : Axes, default=None
        The axes to draw in. None means those of a new figure.

    Returns
    -------
    display : NoiseDisplay
        The picture, with the data in ``deviations``.

    See Also
    --------
    before_after : Draws the parts of single samples.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.plot import noise
    >>> X = np.random.default_rng(0).standard_normal((200, 2)) @ np.ones((2, 8))
    >>> X[40, 3] += 50.0
    >>> display = noise(MaxNormDecomposition(random_state=0).fit(X), X)
    >>> [int(i) for i in np.argwhere(np.abs(display.deviations) > 10)[0]]
    [40, 3]
    """
    return NoiseDisplay.from_estimator(model, X, ax=ax)


class BeforeAfterDisplay:
    """Samples as they were measured, their low-rank part and their gross errors.

    Images are drawn beside each other, other samples as lines over the features.

    Parameters
    ----------
    measured, low_rank, noise : array of shape (n_shown, n_features)
        The parts of the samples; NaN marks missing entries.
    samples : sequence of int
        Positions of the samples.
    feature_shape : tuple of int or None, default=None
        Shape of a sample. Two-dimensional samples are drawn as images.
    names : sequence of str or None, default=None
        Names of the features.
    labels : sequence or None, default=None
        Labels of the samples.

    Attributes
    ----------
    figure_ : Figure
        The figure, after :meth:`plot`.
    axes_ : array of Axes
        The axes, after :meth:`plot`: three for each image, or one for each line.

    See Also
    --------
    before_after : Draws the picture of samples.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from maxnorm.plot import BeforeAfterDisplay
    >>> zeros = np.zeros((1, 6))
    >>> display = BeforeAfterDisplay(zeros + 1, zeros, zeros + 1, samples=[0], feature_shape=(2, 3)).plot()
    >>> [ax.get_title() for ax in display.axes_]
    ['measured', 'low-rank part', 'gross errors']
    """

    figure_: Any
    axes_: Any

    def __init__(
        self,
        measured: Any,
        low_rank: Any,
        noise: Any,
        *,
        samples: Any,
        feature_shape: tuple[int, ...] | None = None,
        names: Any = None,
        labels: Any = None,
    ) -> None:
        self.measured = np.asarray(measured)
        self.low_rank = np.asarray(low_rank)
        self.noise = np.asarray(noise)
        self.samples = list(samples)
        self.feature_shape = check_shape(feature_shape, self.measured.shape[1])
        self.names = names
        self.labels = self.samples if labels is None else labels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sample: Any = None,
        feature_shape: tuple[int, ...] | None = None,
        axes: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the picture of samples.

        Parameters
        ----------
        estimator : estimator
            A fitted decomposition or completion.
        X : array, data frame, sparse matrix, Dask collection or Stream
            Samples in rows. NaN marks missing entries.
        sample : int or sequence of int, default=None
            Positions of the samples in X. None means the sample with the largest gross errors.
        feature_shape : tuple of int, default=None
            Shape of a sample. None means that of the samples if X, or what the estimator was fitted on, is an
            array of images.
        axes : array of Axes, default=None
            The axes to draw in: three for each image, or one for each line. None means a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.imshow` or :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : BeforeAfterDisplay
            The picture.
        """
        require(estimator, "decompose", "the parts of samples")
        if feature_shape is None:
            feature_shape = feature_shape_of(X) or getattr(estimator, "feature_shape_", None)
        shape = check_shape(feature_shape, estimator.n_features_in_)
        found = _worst(estimator, X) if sample is None else _chosen(estimator, X, np.atleast_1d(sample))
        samples = sorted(found) if sample is None else [int(i) for i in np.atleast_1d(sample)]
        index = labels_of(X)
        display = cls(
            *(np.array([found[i][k] for i in samples]) for k in range(3)),
            samples=samples,
            feature_shape=shape,
            names=getattr(estimator, "feature_names_in_", None),
            labels=None if index is None else [index[i] for i in samples],
        )
        return display.plot(axes=axes, **kwargs)

    def plot(self, axes: Any = None, **kwargs: Any) -> Self:
        """Draw the picture.

        Parameters
        ----------
        axes : array of Axes, default=None
            The axes to draw in: three for each image, or one for each line. None means a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.imshow` or :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : BeforeAfterDisplay
            The picture.
        """
        count = len(self.samples)
        if is_image(self.feature_shape):
            flat = axes_grid(axes, 3 * count, 3, (2.6, 2.6))[: 3 * count]
            for k in range(count):
                self._draw_images(flat[3 * k : 3 * k + 3], k, **kwargs)
        else:
            flat = axes_grid(axes, count, 1, (7.0, 3.0))[:count]
            for k, ax in enumerate(flat):
                self._draw_lines(ax, k, **kwargs)
        self.axes_, self.figure_ = flat, flat[0].figure
        return self

    def _draw_images(self, axes: Any, k: int, **kwargs: Any) -> None:
        measured, low_rank, errors = (
            as_image(part[k], self.feature_shape) for part in (self.measured, self.low_rank, self.noise)
        )
        # The scale is that of the clean image, so that gross errors do not make it invisible.
        limits = {"vmin": float(low_rank.min()), "vmax": float(low_rank.max())}
        largest = float(np.abs(errors).max()) or 1.0
        grey: dict[str, Any] = {"cmap": "gray"} | limits
        signed: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
        for ax, part, name, options in zip(
            axes,
            (measured, low_rank, errors),
            PARTS,
            (grey, grey, signed),
            strict=True,
        ):
            ax.imshow(np.ma.masked_invalid(part), **with_defaults("image", options, kwargs))
            ax.set(xticks=[], yticks=[], title=name)
        axes[0].set_ylabel(f"sample {self.labels[k]}")

    def _draw_lines(self, ax: Any, k: int, **kwargs: Any) -> None:
        measured, low_rank, errors = self.measured[k], self.low_rank[k], self.noise[k]
        wrong = np.flatnonzero((errors != 0.0) & ~np.isnan(measured))
        gaps = np.flatnonzero(np.isnan(measured))
        before = {"color": GREY, "linewidth": 1.0, "label": PARTS[0]}
        after = {"color": BLUE, "linewidth": 1.4, "linestyle": "--", "label": PARTS[1]}
        ax.plot(measured, **with_defaults("line", before, kwargs))
        ax.plot(low_rank, **with_defaults("line", after, kwargs))
        ax.plot(wrong, measured[wrong], "x", color=RED, label=PARTS[2])
        if gaps.size:
            ax.plot(gaps, low_rank[gaps], "o", mfc="none", color=BLUE, markersize=4, label="missing, filled")
        ax.set_title(f"sample {self.labels[k]}")
        ax.legend(frameon=False, fontsize=8)
        name_features(ax, self.names)


def _worst(model: Any, X: Any) -> dict[int, tuple[Array, Array, Array]]:
    """Return the parts of the sample with the largest gross errors, in deviations of the features."""
    scales, best, largest = None, {}, -1.0
    for block in decompose_blocks(model, X):
        if scales is None:  # the first block stands for all samples where the model has no deviations
            first = NoiseMap(block.values.shape[1], 2)
            first.add(block)
            scales = feature_deviations(model, first)
        row, total = block.worst(scales)
        if total > largest:
            best, largest = {row: _parts(block, row)}, total
    return best


def _chosen(model: Any, X: Any, rows: Any) -> dict[int, tuple[Array, Array, Array]]:
    """Return the parts of chosen samples."""
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not rows.size or (rows < 0).any():
        raise ValueError(f"sample must be one or several positions in X, from 0 on, got {rows.tolist()!r}")
    found: dict[int, tuple[Array, Array, Array]] = {}
    for block in decompose_blocks(model, X):
        stop = block.first + len(block.values)
        found |= {int(i): _parts(block, int(i)) for i in rows if block.first <= i < stop}
        if len(found) == len(set(rows.tolist())):
            return found
    raise ValueError(f"sample={max(rows.tolist())} is beyond X, which has {stop} samples")


def _parts(block: Block, row: int) -> tuple[Array, Array, Array]:
    i = row - block.first
    return block.values[i].copy(), block.low_rank[i].copy(), block.noise[i].copy()


def before_after(
    model: Any,
    X: Any,
    sample: Any = None,
    feature_shape: tuple[int, ...] | None = None,
    axes: Any = None,
) -> BeforeAfterDisplay:
    """Draw samples as they were measured, their low-rank part and their gross errors.

    Images are drawn beside each other. Other samples are drawn as lines over the features, in which crosses
    mark gross errors and circles the values that fill gaps.

    Parameters
    ----------
    model : estimator
        A fitted decomposition or completion.
    X : array, data frame, sparse matrix, Dask collection or Stream
        Samples in rows. NaN marks missing entries.
    sample : int or sequence of int, default=None
        Positions of the samples in X. None means the sample with the largest gross errors.
    feature_shape : tuple of int, default=None
        Shape of a sample. None means that of the samples if X, or what the model was fitted on, is an array
        of images.
    axes : array of Axes, default=None
        The axes to draw in: three for each image, or one for each line. None means a new figure.

    Returns
    -------
    display : BeforeAfterDisplay
        The picture, with the data in ``measured``, ``low_rank`` and ``noise``.

    See Also
    --------
    noise : Draws the gross errors of all samples.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.plot import before_after
    >>> X = np.random.default_rng(0).standard_normal((200, 2)) @ np.ones((2, 8))
    >>> X[40, 3] += 50.0
    >>> before_after(MaxNormDecomposition(random_state=0).fit(X), X).samples
    [40]
    """
    return BeforeAfterDisplay.from_estimator(model, X, sample=sample, feature_shape=feature_shape, axes=axes)


class ScoresDisplay:
    """The score of each sample, with the threshold of an anomaly detector.

    Samples below the threshold are marked by crosses.

    Parameters
    ----------
    scores : array of shape (n_samples,)
        The scores; the lower, the more unusual the sample.
    threshold : float or None, default=None
        The score below which a sample is an anomaly.
    index : sequence or None, default=None
        Labels of the samples.

    Attributes
    ----------
    anomalies : array of int
        Positions of the samples below the threshold; empty if there is none.
    figure_ : Figure
        The figure, after :meth:`plot`.
    ax_ : Axes
        The axes, after :meth:`plot`.

    See Also
    --------
    scores : Draws the picture of samples.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from maxnorm.plot import ScoresDisplay
    >>> ScoresDisplay([-0.5, -9.0, -0.7], threshold=-2.0).plot().anomalies.tolist()
    [1]
    """

    figure_: Any
    ax_: Any

    def __init__(self, scores: Any, *, threshold: float | None = None, index: Any = None) -> None:
        self.scores = np.asarray(scores, dtype=np.float64)
        self.threshold = threshold
        self.index = index
        limit = -np.inf if threshold is None else threshold
        self.anomalies = np.flatnonzero(self.scores < limit)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the picture of samples.

        Parameters
        ----------
        estimator : estimator
            A fitted anomaly detector, decomposition or completion.
        X : array, data frame, sparse matrix, Dask collection or Stream
            Samples in rows. NaN marks missing entries.
        ax : Axes, default=None
            The axes to draw in. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ScoresDisplay
            The picture.
        """
        require(estimator, "score_samples", "scores")
        values = np.asarray(estimator.score_samples(X))
        threshold = getattr(estimator, "offset_", None)
        return cls(values, threshold=threshold, index=labels_of(X)).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : Axes, default=None
            The axes to draw in. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : ScoresDisplay
            The picture.
        """
        ax = new_axes(ax)
        defaults = {"color": BLUE, "linewidth": 0.9, "label": "score"}
        ax.plot(self.scores, **with_defaults("line", defaults, kwargs))
        if self.threshold is not None:
            ax.axhline(self.threshold, color=GREY, linestyle="--", label="threshold")
            ax.plot(
                self.anomalies,
                self.scores[self.anomalies],
                "x",
                color=RED,
                label=f"anomalies: {len(self.anomalies):,}",
            )
            ax.legend(frameon=False)
        ax.set(xlabel="sample", ylabel="score (the lower, the more unusual)")
        name_rows(ax.xaxis, self.index)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def scores(model: Any, X: Any, ax: Any = None) -> ScoresDisplay:
    """Draw the score of each sample, with the threshold of an anomaly detector.

    Samples below the threshold are marked by crosses. Decompositions have no threshold.

    Parameters
    ----------
    model : estimator
        A fitted anomaly detector, decomposition or completion.
    X : array, data frame, sparse matrix, Dask collection or Stream
        Samples in rows. NaN marks missing entries.
    ax : Axes, default=None
        The axes to draw in. None means those of a new figure.

    Returns
    -------
    display : ScoresDisplay
        The picture, with the data in ``scores``, ``threshold`` and ``anomalies``.

    See Also
    --------
    maxnorm.AnomalyDetector : Finds the threshold for a stated rate of false alarms.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from maxnorm import AnomalyDetector
    >>> from maxnorm.plot import scores
    >>> X = np.random.default_rng(0).standard_normal((500, 3)) @ np.ones((3, 8))
    >>> X[7, 2] += 100.0
    >>> display = scores(AnomalyDetector(random_state=0).fit(X), X)
    >>> 7 in display.anomalies
    True
    """
    return ScoresDisplay.from_estimator(model, X, ax=ax)
