"""Callbacks of ``fit``: the argument ``callback=``, and the callbacks of scikit-learn where it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from maxnorm.learner import StepResult

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    FIT_FRAMES = 1  # frames that the decorator puts between a caller and fit, which warnings skip
except ImportError:  # scikit-learn before 1.9 has no callbacks
    FIT_FRAMES = 0

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for the class of later versions of scikit-learn."""

    def with_callbacks(method: Any) -> Any:
        """Return a method as it is."""
        return method


__all__ = [
    "FIT_FRAMES",
    "Callback",
    "CallbackSupportMixin",
    "Monitor",
    "StopLearning",
    "with_callbacks",
]

Callback = Callable[[StepResult], object]


class StopLearning(Exception):
    """A callback has asked to stop; what was learnt until then is kept."""


class StopPass(Exception):
    """A callback of scikit-learn has asked to stop the pass over the data."""


class Monitor:
    """Reports the steps of a fit to the callbacks, and stops the fit if one of them returns True.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted.
    callback : callable or None
        The argument ``callback=`` of the fit.
    keep : callable
        Called with the result of every step, so that the estimator has the state that callbacks see.
    """

    def __init__(self, estimator: Any, callback: Callback | None, keep: Callback) -> None:
        self._estimator, self._callback, self._keep = estimator, callback, keep
        self._context: Any = None

    @contextmanager
    def fit(self, n_passes: int) -> Iterator[None]:
        """Report the beginning and the end of a fit to the callbacks of scikit-learn."""
        if not hasattr(self._estimator, "_skl_callbacks"):
            yield
            return
        context = self._estimator._init_callback_context(max_subtasks=n_passes)
        context.call_on_fit_task_begin(estimator=self._estimator)
        self._context = context
        yield
        context.call_on_fit_task_end(estimator=self._estimator)

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """Report the beginning and the end of a pass over the data."""
        root = self._context
        if root is None:
            yield
            return
        self._context = root.subcontext(task_name="pass", max_subtasks=None)
        self._context.call_on_fit_task_begin(estimator=self._estimator)
        try:
            with suppress(StopPass):
                yield
        finally:
            stop = self._context.call_on_fit_task_end(estimator=self._estimator)
            self._context = root
        if stop:
            raise StopLearning

    @property
    def watch(self) -> Callback | None:
        """The function to call after every step; None if there is no callback."""
        return None if self._callback is None and self._context is None else self._report

    def _report(self, result: StepResult) -> None:
        self._keep(result)
        answer = None if self._callback is None else self._callback(result)
        if isinstance(answer, bool | np.bool_) and answer:  # other values, such as counts, mean nothing
            raise StopLearning
        if self._context is not None:
            task = self._context.subcontext(task_name="batch")
            task.call_on_fit_task_begin(estimator=self._estimator)
            rows = None if result.batch is None else result.batch.values
            stop = task.call_on_fit_task_end(
                estimator=self._estimator,
                X=rows,
                y=rows,  # scikit-learn's ScoringMonitor computes no score without a target
                reconstruction_attributes=lambda: {"_progress": self._estimator._progress},
            )
            if stop:
                raise StopPass
