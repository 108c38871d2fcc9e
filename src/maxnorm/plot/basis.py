"""Pictures of a basis: the variance that its components explain, and the components themselves."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from maxnorm.plot._figures import (
    BLUE,
    GREY,
    RED,
    as_image,
    axes_grid,
    check_shape,
    count_on,
    is_image,
    name_features,
    new_axes,
    require,
    with_defaults,
)

MOST_COMPONENTS = 12  # components that are drawn unless more are asked for


class ScreeDisplay:
    """The variance that each component explains, and its cumulative sum.

    Where a model has no ``explained_variance_ratio_``, as for the problem of the paper, the picture shows the
    singular values of the low-rank part or, if these are not known, of ``components_``.

    Parameters
    ----------
    values : array of shape (n_components,)
        Shares of the variance, or singular values.
    is_ratio : bool
        Whether the values are shares of the variance.
    label : str
        What the values are.

    Attributes
    ----------
    cumulative : array of shape (n_components,) or None
        Cumulative shares; None if the values are singular values.
    figure_ : Figure
        The figure, after :meth:`plot`.
    ax_ : Axes
        The axes, after :meth:`plot`.

    See Also
    --------
    scree : Draws the picture of a model.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.plot import ScreeDisplay
    >>> X = np.random.default_rng(0).standard_normal((200, 3)) @ np.ones((3, 8))
    >>> model = MaxNormDecomposition(random_state=0).fit(X)
    >>> ScreeDisplay.from_estimator(model).values.round(3).tolist()
    [1.0]
    """

    figure_: Any
    ax_: Any

    def __init__(self, values: Any, *, is_ratio: bool, label: str) -> None:
        self.values = np.asarray(values, dtype=np.float64)
        self.is_ratio = is_ratio
        self.label = label
        self.cumulative = np.cumsum(self.values) if is_ratio else None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the picture of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted decomposition or completion.
        ax : Axes, default=None
            The axes to draw in. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.bar`.

        Returns
        -------
        display : ScreeDisplay
            The picture.
        """
        require(estimator, "components_", "a scree plot")
        if hasattr(estimator, "explained_variance_ratio_"):
            display = cls(estimator.explained_variance_ratio_, is_ratio=True, label="share of the variance")
        elif hasattr(estimator, "singular_values_"):
            display = cls(estimator.singular_values_, is_ratio=False, label="singular value")
        else:
            spectrum = np.linalg.svd(estimator.components_.astype(np.float64), compute_uv=False)
            display = cls(spectrum, is_ratio=False, label="singular value of the basis")
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : Axes, default=None
            The axes to draw in. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.bar`.

        Returns
        -------
        self : ScreeDisplay
            The picture.
        """
        ax = new_axes(ax)
        numbers = np.arange(1, len(self.values) + 1)
        defaults = {"color": BLUE, "label": "each component"}
        ax.bar(numbers, self.values, **with_defaults("bar", defaults, kwargs))
        if self.cumulative is not None:
            ax.plot(numbers, self.cumulative, "o--", color=RED, markersize=4, label="cumulative")
            ax.set_ylim(0.0, 1.05)
            ax.legend(frameon=False)
        count_on(ax.xaxis)
        ax.set(xlabel="component", ylabel=self.label)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def scree(model: Any, ax: Any = None) -> ScreeDisplay:
    """Draw the share of the variance that each component of a model explains.

    A sharp fall after a few components shows the rank of the data. Models without a statistical model show
    singular values instead.

    Parameters
    ----------
    model : estimator
        A fitted decomposition or completion.
    ax : Axes, default=None
        The axes to draw in. None means those of a new figure.

    Returns
    -------
    display : ScreeDisplay
        The picture, with the data in ``values`` and ``cumulative``.

    See Also
    --------
    components : Draws the components themselves.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> from maxnorm.plot import scree
    >>> X = make_corrupted_low_rank(300, 30, 3, random_state=0).X
    >>> model = MaxNormDecomposition(random_state=0).fit(X)
    >>> display = scree(model)
    >>> len(display.values), round(float(display.cumulative[-1]), 2)
    (3, 1.0)
    """
    return ScreeDisplay.from_estimator(model, ax=ax)


class ComponentsDisplay:
    """The components of a model, as images or as lines.

    The signs of components are arbitrary. Images have a colour scale that is symmetric about zero.

    Parameters
    ----------
    components : array of shape (n_components, n_features)
        The components.
    feature_shape : tuple of int or None, default=None
        Shape of a sample. Components of two-dimensional samples are drawn as images.
    names : sequence of str or None, default=None
        Names of the features.

    Attributes
    ----------
    figure_ : Figure
        The figure, after :meth:`plot`.
    axes_ : array of Axes
        The axes of each component, after :meth:`plot`.

    See Also
    --------
    components : Draws the picture of a model.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from maxnorm.plot import ComponentsDisplay
    >>> display = ComponentsDisplay(np.eye(2, 12), feature_shape=(3, 4)).plot()
    >>> display.axes_[0].images[0].get_array().shape
    (3, 4)
    """

    figure_: Any
    axes_: Any

    def __init__(
        self, components: Any, *, feature_shape: tuple[int, ...] | None = None, names: Any = None
    ) -> None:
        self.components = np.asarray(components)
        self.feature_shape = check_shape(feature_shape, self.components.shape[1])
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_shape: tuple[int, ...] | None = None,
        n_components: int | None = None,
        axes: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the picture of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted decomposition or completion.
        feature_shape : tuple of int, default=None
            Shape of a sample, for example the height and width of an image. None means the shape of the
            samples in the array that the estimator was fitted on, if they have several dimensions.
        n_components : int, default=None
            Number of components. None means all, and at most 12.
        axes : array of Axes, default=None
            The axes to draw in, one for each component. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.imshow` or :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ComponentsDisplay
            The picture.
        """
        require(estimator, "components_", "components")
        if n_components is not None and n_components < 1:
            raise ValueError(f"n_components must be an integer of at least 1, got {n_components!r}")
        shown = estimator.components_[: MOST_COMPONENTS if n_components is None else n_components]
        if feature_shape is None:
            feature_shape = getattr(estimator, "feature_shape_", None)
        names = getattr(estimator, "feature_names_in_", None)
        return cls(shown, feature_shape=feature_shape, names=names).plot(axes=axes, **kwargs)

    def plot(self, axes: Any = None, **kwargs: Any) -> Self:
        """Draw the picture.

        Parameters
        ----------
        axes : array of Axes, default=None
            The axes to draw in, one for each component. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.imshow` or :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : ComponentsDisplay
            The picture.
        """
        count = len(self.components)
        if not count:
            raise ValueError("the model has no components to draw; its low-rank part is zero")
        as_images = is_image(self.feature_shape)
        n_columns = min(4, count) if as_images else 1
        size = (2.4, 2.4) if as_images else (6.4, 1.6)
        flat = axes_grid(axes, count, n_columns, size)
        for k, (component, ax) in enumerate(zip(self.components, flat, strict=False)):
            if as_images:
                self._draw_image(ax, component, **kwargs)
                ax.set_title(f"component {k + 1}", fontsize=9)
            else:
                self._draw_line(ax, component, **kwargs)
                ax.set_ylabel(f"component {k + 1}", fontsize=8)
                ax.tick_params(labelbottom=k == count - 1)
        if not as_images:
            name_features(flat[count - 1], self.names)
        for ax in flat[count:] if axes is None else ():
            ax.set_visible(False)
        self.axes_, self.figure_ = flat[:count], flat[0].figure
        return self

    def _draw_image(self, ax: Any, component: Any, **kwargs: Any) -> None:
        limit = float(np.abs(component).max()) or 1.0
        defaults = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        ax.imshow(as_image(component, self.feature_shape), **with_defaults("image", defaults, kwargs))
        ax.set_axis_off()

    def _draw_line(self, ax: Any, component: Any, **kwargs: Any) -> None:
        ax.axhline(0.0, color=GREY, linewidth=0.8)
        defaults = {"color": BLUE, "linewidth": 1.2, "marker": "o" if len(component) <= 30 else None}
        ax.plot(component, **with_defaults("line", defaults, kwargs))


def components(
    model: Any,
    feature_shape: tuple[int, ...] | None = None,
    n_components: int | None = None,
    axes: Any = None,
) -> ComponentsDisplay:
    """Draw the components of a model, as images or as lines.

    The components of a model that was fitted on an array of images are drawn as images. Others are drawn over
    the features, like spectra, unless ``feature_shape`` is given.

    Parameters
    ----------
    model : estimator
        A fitted decomposition or completion.
    feature_shape : tuple of int, default=None
        Shape of a sample, for example the height and width of an image. None means the shape of the samples
        in the array that the model was fitted on, if they have several dimensions. With one dimension,
        ``(n_features,)``, components are drawn as lines.
    n_components : int, default=None
        Number of components. None means all, and at most 12.
    axes : array of Axes, default=None
        The axes to draw in, one for each component. None means those of a new figure.

    Returns
    -------
    display : ComponentsDisplay
        The picture, with the data in ``components``.

    See Also
    --------
    scree : Draws how much variance each of them explains.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> from maxnorm.plot import components
    >>> model = MaxNormDecomposition(3, random_state=0)
    >>> model = model.fit(make_corrupted_low_rank(300, 30, 3, random_state=0).X)
    >>> len(components(model, feature_shape=(5, 6)).axes_)
    3
    """
    return ComponentsDisplay.from_estimator(
        model, feature_shape=feature_shape, n_components=n_components, axes=axes
    )
