"""Measurements of a learner: time, expressed variance along a stream, and memory."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from maxnorm.core.types import Array
from maxnorm.metrics import expressed_variance
from maxnorm.paper.methods import Learner

T = TypeVar("T")


@dataclass
class LearningCurve:
    """Expressed variance of the learnt basis against samples and seconds.

    Parameters
    ----------
    samples : list of int
        Samples seen at each point of the curve.
    seconds : list of float
        Seconds that learning has taken up to each point.
    ev : list of float
        Expressed variance of the true subspace at each point.
    """

    samples: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    ev: list[float] = field(default_factory=list)

    @property
    def points(self) -> list[tuple[int, float, float]]:
        """Samples, seconds and expressed variance of each point."""
        return list(zip(self.samples, self.seconds, self.ev, strict=True))

    def first_reaching(self, level: float) -> tuple[int, float] | None:
        """Return samples and seconds at the first point with this expressed variance, or None."""
        return next(((samples, seconds) for samples, seconds, ev in self.points if ev >= level), None)


def measure_seconds(
    function: Callable[..., T], *arguments: object, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, T]:
    """Call a function and return how long the call took, with its result.

    Parameters
    ----------
    function : callable
        The function.
    *arguments : object
        Its positional arguments.
    clock : callable, default=time.perf_counter
        Clock in seconds: ``time.perf_counter`` for wall-clock time, ``time.process_time`` for CPU time.

    Returns
    -------
    seconds : float
        Duration of the call.
    result : object
        Return value of the call.
    """
    start = clock()
    result = function(*arguments)
    return clock() - start, result


def measure_curve(
    learner: Learner,
    blocks: Iterable[Array],
    basis: Array,
    *,
    time_limit: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
    digits: int = 6,
) -> LearningCurve:
    """Feed a stream to a learner and record the expressed variance after each block.

    The calls of ``partial_fit`` are timed, and the answer of ``components_`` that is evaluated, because rows
    that wait for more may be learnt from only then. Earlier answers do not count, and neither do the
    generation of the data and the evaluation.

    Parameters
    ----------
    learner : Learner
        Learner, which is modified.
    blocks : iterable of arrays of shape (n_samples, n_features)
        The stream.
    basis : array of shape (n_features, rank)
        True basis of the clean data.
    time_limit : float, default=inf
        Seconds after which the curve ends. The block under way is finished.
    clock : callable, default=time.perf_counter
        Clock in seconds, as in :func:`measure_seconds`.
    digits : int, default=6
        Decimal places to which the expressed variance is rounded.

    Returns
    -------
    LearningCurve
        One point per block.
    """
    curve, n_samples, seconds = LearningCurve(), 0, 0.0
    for block in blocks:
        seconds += measure_seconds(learner.partial_fit, block, clock=clock)[0]
        answering, components = measure_seconds(lambda: learner.components_, clock=clock)
        n_samples += len(block)
        curve.samples.append(n_samples)
        curve.seconds.append(round(seconds + answering, 4))
        curve.ev.append(round(expressed_variance(basis, components.T), digits))
        if seconds > time_limit:
            break
    return curve


def measure_peak_memory(learner: Learner, blocks: Iterable[Array]) -> float:
    """Return the peak of the memory that is allocated while a learner learns from a stream.

    A block counts as well if it is generated during the measurement, that is, if ``blocks`` is a generator.
    It does not count if ``blocks`` is a list of arrays that exist already.

    Parameters
    ----------
    learner : Learner
        Learner, which is modified.
    blocks : iterable of arrays of shape (n_samples, n_features)
        The stream.

    Returns
    -------
    float
        Megabytes (10^6 bytes) that Python and NumPy have allocated, at the peak of a call of ``partial_fit``.
    """
    peak = 0
    tracemalloc.start()
    try:
        for block in blocks:
            tracemalloc.reset_peak()
            learner.partial_fit(block)
            peak = max(peak, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    return peak / 1e6


def measure_resident_memory() -> float:
    """Return the peak resident memory of this process so far, in units of 1024 kilobytes (Linux)."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
