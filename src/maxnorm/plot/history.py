"""A picture of the progress of a fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from maxnorm.plot._figures import BLUE, count_on, new_axes, with_defaults


class ConvergenceDisplay:
    """The loss of each batch or round of a fit.

    Steps are drawn over the number of samples, or over rounds if every step uses all samples.

    Parameters
    ----------
    n_samples : array of shape (n_steps,)
        Number of samples learnt from after each step.
    loss : array of shape (n_steps,)
        Mean loss of the samples of each step.

    Attributes
    ----------
    figure_ : Figure
        The figure, after :meth:`plot`.
    ax_ : Axes
        The axes, after :meth:`plot`.

    See Also
    --------
    convergence : Draws the picture of a fit.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from maxnorm.plot import ConvergenceDisplay
    >>> ConvergenceDisplay([100, 200, 300], [3.0, 2.0, 1.5]).plot().ax_.get_xlabel()
    'samples'
    """

    figure_: Any
    ax_: Any

    def __init__(self, n_samples: Any, loss: Any) -> None:
        self.n_samples = np.asarray(n_samples, dtype=np.float64)
        self.loss = np.asarray(loss, dtype=np.float64)

    @classmethod
    def from_history(cls, history: Iterable[Any], *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the picture of a fit.

        Parameters
        ----------
        history : iterable of StepResult or of pairs (n_samples, loss)
            What a callback was called with.
        ax : Axes, default=None
            The axes to draw in. None means those of a new figure.
        **kwargs : dict
            Arguments of :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ConvergenceDisplay
            The picture.
        """
        steps = [(step.n_samples, step.loss) if hasattr(step, "loss") else tuple(step) for step in history]
        if not steps:
            raise ValueError("history is empty; collect it by model.fit(X, callback=history.append)")
        if any(len(step) != 2 for step in steps):
            raise ValueError("history must have StepResults or pairs (n_samples, loss)")
        n_samples, loss = zip(*steps, strict=True)
        return cls(n_samples, loss).plot(ax=ax, **kwargs)

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
        self : ConvergenceDisplay
            The picture.
        """
        ax = new_axes(ax)
        is_pass = len(self.n_samples) == 1 or bool((np.diff(self.n_samples) > 0).any())
        x = self.n_samples if is_pass else np.arange(1, len(self.loss) + 1)
        defaults = {"color": BLUE, "marker": "o", "markersize": 3, "linewidth": 1.2}
        ax.plot(x, self.loss, **with_defaults("line", defaults, kwargs))
        ax.set(xlabel="samples" if is_pass else "round over all samples", ylabel="mean loss of the samples")
        if not is_pass:
            count_on(ax.xaxis)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def convergence(history: Iterable[Any], ax: Any = None) -> ConvergenceDisplay:
    """Draw the loss of each batch or round of a fit.

    The loss of a batch is measured before the model has learnt from it, and shows how well the model predicts
    samples that it has not seen. A fit in rounds, which uses all samples every time, is drawn over rounds.

    Parameters
    ----------
    history : iterable of StepResult or of pairs (n_samples, loss)
        What ``fit(X, callback=history.append)`` has collected. A StepResult refers to the samples of its
        batch; for a long stream, collect pairs instead.
    ax : Axes, default=None
        The axes to draw in. None means those of a new figure.

    Returns
    -------
    display : ConvergenceDisplay
        The picture, with the data in ``n_samples`` and ``loss``.

    See Also
    --------
    maxnorm.learner.StepResult : What a callback is called with.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.plot import convergence
    >>> X = np.random.default_rng(0).standard_normal((60, 2)) @ np.ones((2, 10))
    >>> history = []
    >>> model = MaxNormDecomposition(2, batch_size=20, random_state=0).fit(X, callback=history.append)
    >>> convergence(history).n_samples.tolist()
    [20.0, 40.0, 60.0]
    """
    return ConvergenceDisplay.from_history(history, ax=ax)
