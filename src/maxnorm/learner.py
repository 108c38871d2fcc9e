"""Online learning of a low-rank basis: what a learner is, and the loop that every learner runs.

The library splits samples into a low-rank part, gross errors and a small residual. What is learnt is the
basis of the low-rank part, by Algorithm 1 of J. Shen, H. Xu and P. Li, "Online optimization for large-scale
max-norm regularization" (2017): for each batch of samples, find their coefficients and errors in the
current basis, add up a few sums, and update the basis from the sums. No sample is kept.

A :class:`Learner` is an immutable value: it holds settings and no data. Everything that has been learnt is in
the :class:`~maxnorm.core.state.State`, which a learner takes and returns. The loop consists of five
functions:

- :func:`step` learns from one batch, in three acts: begin, measure, update;
- :func:`learn` cuts rows into batches and learns from one batch after the other;
- :func:`take` is :func:`learn` for rows that arrive in several calls; rows that do not fill a batch wait;
- :func:`flush` learns from the rows that wait; :func:`settle` does so unless a process has only begun.

:func:`apply` uses what was learnt. Estimators learn from arrays, files and streams through these functions.
On a cluster, a round (``maxnorm.dask.rounds``) is the same three acts, with ``measure`` on the workers. To
give an estimator another learner, override its method ``make_learner``; ``docs/extending.md`` shows how.

Rows are samples throughout; the paper has them as columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxnorm.core.batch import Batch
from maxnorm.core.blas import limited_blas
from maxnorm.core.defaults import BATCHES
from maxnorm.core.encoding import Encoding
from maxnorm.core.factor_model import FactorModel
from maxnorm.core.noise import Noise, NoNoise
from maxnorm.core.norms import FactorNorm
from maxnorm.core.precision import range_of
from maxnorm.core.state import Contribution, State
from maxnorm.core.types import Array

OVERFLOW = (
    "the arithmetic has overflowed: samples of X differ too much in scale from each other, from the first "
    "basis, or from lambda1 and lambda2. Clip or drop such samples, rescale X, or pass it in double precision"
)
APPLY_ENTRIES = 2**21  # entries that a model is applied to at a time, so that work space does not grow


class Learner(ABC):
    """Something that learns a basis from batches of samples.

    A step is made in three acts. :meth:`begin` determines the settings for a batch, :meth:`measure` turns the
    batch into sums, and :meth:`update` adds the sums to the state and updates the basis. Batches that are
    measured in the same basis may be measured anywhere, because contributions can be added.

    Subclasses are frozen dataclasses, so that they can be copied, sent to other processes and wrapped by
    other learners. They must implement the abstract methods. By default, batches have
    :attr:`rows_per_batch` rows; override :meth:`rows_needed` for another rule.

    See Also
    --------
    maxnorm.dense.DenseLearner : The learner of decompositions.
    maxnorm.sparse.CompletionLearner : The learner of completion.

    Examples
    --------
    A learner is used by the functions of this module, without an estimator:

    >>> import numpy as np
    >>> from maxnorm.core.batch import Batch
    >>> from maxnorm.dense import DenseLearner
    >>> X = np.random.default_rng(0).standard_normal((200, 2)) @ np.ones((2, 10))
    >>> learner = DenseLearner(n_components=2)
    >>> state = learner.start(n_features=10, dtype=X.dtype, seed=0)
    >>> state, _ = learn(learner, state, Batch(X))
    >>> state.n_samples, state.L.shape
    (200, (10, 2))
    """

    rows_per_batch = 100

    @abstractmethod
    def start(self, n_features: int, dtype: np.dtype[Any], seed: int) -> State:
        """Return the state before the first sample.

        Parameters
        ----------
        n_features : int
            Number of features of the samples.
        dtype : dtype
            Precision of the basis, float32 or float64.
        seed : int
            Seed of the random first basis.

        Returns
        -------
        State
            The first state.
        """

    @abstractmethod
    def begin(self, state: State, batch: Batch | None) -> tuple[State, Any]:
        """Return the state in which a batch is measured, and the settings for it as one value.

        Parameters
        ----------
        state : State
            What has been learnt so far.
        batch : Batch or None
            The samples to learn from. It is None on a cluster, where the samples are on the workers, but
            never while ``state.scales.weight`` is zero, which means that all samples so far were zero.

        Returns
        -------
        state : State
            The state; before the first batch its basis may be adapted to the data.
        settings : object
            The settings, which :meth:`measure` and :meth:`update` receive.
        """

    @abstractmethod
    def measure(self, batch: Batch, L: Array, settings: Any, time: int) -> Contribution:
        """Return what a batch adds to the state: lines 3 and 4 of Algorithm 1.

        Parameters
        ----------
        batch : Batch
            Samples that begin at time ``time``.
        L : array of shape (n_features, n_components)
            The basis.
        settings : object
            The settings from :meth:`begin`.
        time : int
            Number of samples before the batch that were not empty (``state.time``).

        Returns
        -------
        Contribution
            Sums that can be added, in the order of the samples, to those of other batches measured in the
            same basis.
        """

    @abstractmethod
    def update(self, state: State, added: Contribution, settings: Any) -> State:
        """Return the state with a contribution added and the basis updated: line 5 of Algorithm 1.

        Parameters
        ----------
        state : State
            The state from :meth:`begin`.
        added : Contribution
            What the batch adds to it.
        settings : object
            The settings from :meth:`begin`.

        Returns
        -------
        State
            The state after the batch.
        """

    @abstractmethod
    def encode(self, batch: Batch, state: State) -> Encoding:
        """Return the coefficients, noise and residual of samples in the learnt basis.

        Parameters
        ----------
        batch : Batch
            The samples.
        state : State
            What has been learnt.

        Returns
        -------
        Encoding
            The result for each sample, which does not depend on the other samples.
        """

    def score(self, batch: Batch, state: State) -> Array | None:
        """Return the log-likelihood of each sample.

        Parameters
        ----------
        batch : Batch
            The samples.
        state : State
            What has been learnt.

        Returns
        -------
        array of shape (n_samples,) or None
            The log-likelihoods; None if there is no model of which they are, and minus the loss of the
            encoding takes their place.
        """
        return None

    @abstractmethod
    def norm_at(self, state: State) -> FactorNorm:
        """Return the norm, with a weight that follows from the state if it is "auto".

        Parameters
        ----------
        state : State
            What has been learnt.

        Returns
        -------
        FactorNorm
            The norm.
        """

    def noise_at(self, state: State) -> Noise:
        """Return the noise model, with parameters that follow from the state if they are "auto".

        Parameters
        ----------
        state : State
            What has been learnt.

        Returns
        -------
        Noise
            The noise model; by default that of a learner without noise.
        """
        return NoNoise()

    def model_at(self, state: State) -> FactorModel | None:
        """Return the factor model by which samples are explained.

        Parameters
        ----------
        state : State
            What has been learnt.

        Returns
        -------
        FactorModel or None
            The model; None if the learner solves a problem that is not one of statistics.
        """
        return None

    def rows_needed(self, state: State) -> int:
        """Return the number of rows to wait for, so that single rows need not call :meth:`plan`.

        Parameters
        ----------
        state : State
            What has been learnt so far.

        Returns
        -------
        int
            The number of rows.
        """
        return self.rows_per_batch

    def plan(self, state: State, rows: Batch, last: bool) -> tuple[State, int]:
        """Return the state before the next batch, and the number of rows that make up that batch.

        Parameters
        ----------
        state : State
            What has been learnt so far.
        rows : Batch
            Rows that have not been learnt from.
        last : bool
            Whether all of these rows must be learnt from because no more follow.

        Returns
        -------
        state : State
            The state; choices that are made from the first rows are part of it.
        size : int
            The number of rows of the next batch; zero if more rows are needed first. If no more rows follow,
            it may exceed the number of rows, and the batch is smaller.
        """
        chosen = self.choose(state, rows, last)
        if chosen is None:
            return state, 0
        size = self.rows_needed(chosen)
        if len(rows) < size and not last:
            return chosen, 0
        return chosen, size if chosen.time else self.first_size(chosen, rows[:size], size)

    def choose(self, state: State, rows: Batch, last: bool) -> State | None:
        """Return the state with what is chosen once, from the first rows; None if more rows are needed.

        Parameters
        ----------
        state : State
            What has been learnt so far.
        rows : Batch
            Rows that have not been learnt from.
        last : bool
            Whether no more rows follow.

        Returns
        -------
        State or None
            The state; by default nothing is chosen.
        """
        return state

    def first_size(self, state: State, rows: Batch, size: int) -> int:
        """Return the size of the first batch, given the rows that would be in it.

        Parameters
        ----------
        state : State
            The state before the first sample.
        rows : Batch
            The first rows.
        size : int
            The number of rows that later batches would have.

        Returns
        -------
        int
            The number of rows; by default ``size``.
        """
        return size

    def rows_per_slice(self, batch: Batch, settings: Any) -> int:
        """Return how many rows of a block a Dask worker measures at a time, to save memory.

        Parameters
        ----------
        batch : Batch
            The samples.
        settings : object
            The settings from :meth:`begin`.

        Returns
        -------
        int
            The number of rows.
        """
        return len(batch)


@dataclass(frozen=True, eq=False)
class WrappedLearner(Learner):
    """A learner that passes every call on to another one, as a base for learners that change some of them.

    Further methods of the wrapped learner, such as the predictions of completion, are passed on as well.

    Attributes
    ----------
    learner : Learner
        The learner to which calls are passed on.

    See Also
    --------
    maxnorm.MaxNormDecomposition.make_learner : The method that an estimator overrides to wrap its learner.

    Examples
    --------
    A learner whose batches have at most ten rows, and an estimator that uses it:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from maxnorm import MaxNormDecomposition
    >>> from maxnorm.learner import WrappedLearner
    >>> @dataclass(frozen=True, eq=False)
    ... class SmallBatches(WrappedLearner):
    ...     def rows_needed(self, state):
    ...         return min(10, self.learner.rows_needed(state))
    ...
    ...     def plan(self, state, rows, last):
    ...         state, size = self.learner.plan(state, rows[:10], last or len(rows) >= 10)
    ...         return state, min(10, size)
    >>> class Careful(MaxNormDecomposition):
    ...     def make_learner(self):
    ...         return SmallBatches(super().make_learner())
    >>> X = np.random.default_rng(0).standard_normal((40, 2)) @ np.ones((2, 10))
    >>> Careful(2, random_state=0).partial_fit(X).n_iter_
    4
    """

    learner: Learner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "learner":  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self.learner, name)

    def start(self, n_features: int, dtype: np.dtype[Any], seed: int) -> State:
        return self.learner.start(n_features, dtype, seed)

    def begin(self, state: State, batch: Batch | None) -> tuple[State, Any]:
        return self.learner.begin(state, batch)

    def measure(self, batch: Batch, L: Array, settings: Any, time: int) -> Contribution:
        return self.learner.measure(batch, L, settings, time)

    def update(self, state: State, added: Contribution, settings: Any) -> State:
        return self.learner.update(state, added, settings)

    def encode(self, batch: Batch, state: State) -> Encoding:
        return self.learner.encode(batch, state)

    def score(self, batch: Batch, state: State) -> Array | None:
        return self.learner.score(batch, state)

    def norm_at(self, state: State) -> FactorNorm:
        return self.learner.norm_at(state)

    def noise_at(self, state: State) -> Noise:
        return self.learner.noise_at(state)

    def model_at(self, state: State) -> FactorModel | None:
        return self.learner.model_at(state)

    def rows_needed(self, state: State) -> int:
        return self.learner.rows_needed(state)

    def plan(self, state: State, rows: Batch, last: bool) -> tuple[State, int]:
        return self.learner.plan(state, rows, last)

    def rows_per_slice(self, batch: Batch, settings: Any) -> int:
        return self.learner.rows_per_slice(batch, settings)


@dataclass(frozen=True, eq=False)
class StepResult:
    """What a step has done, which is what callbacks receive.

    The loss and the residual scale are those of the batch in the basis before the update, so that they show
    how well the model predicts samples that it has not seen.

    See Also
    --------
    maxnorm.MaxNormDecomposition.fit : Calls a callback with such a result after every step.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import MaxNormDecomposition
    >>> X = np.random.default_rng(0).standard_normal((60, 2)) @ np.ones((2, 10))
    >>> seen = []
    >>> model = MaxNormDecomposition(2, batch_size=20, random_state=0)
    >>> model = model.fit(X, callback=lambda result: seen.append((result.step, result.n_samples)))
    >>> seen
    [(1, 20), (2, 40), (3, 60)]
    """

    state: State  #: the state after the step
    added: Contribution  #: what the batch has added to it
    batch: Batch | None = None  #: the samples of the batch, unless they are on other machines

    def __repr__(self) -> str:
        return (
            f"<step {self.step} after {self.n_samples} samples: loss {self.loss:.3g}, "
            f"residual scale {self.residual_scale:.3g}>"
        )

    @property
    def step(self) -> int:
        """Number of updates of the basis so far."""
        return self.state.n_steps

    @property
    def n_samples(self) -> int:
        """Number of samples learnt from so far."""
        return self.state.n_samples

    @property
    def loss(self) -> float:
        """Mean loss of the samples of the batch in the basis before the update; NaN if all were empty."""
        return self.added.loss / self.added.n_full if self.added.n_full else float("nan")

    @property
    def residual_scale(self) -> float:
        """Robust scale of the residuals of the batch; NaN if all of its samples were empty."""
        return self.added.scales.residual_scale if self.added.scales.recent_weight else float("nan")


Watcher = Callable[[StepResult], object]


@dataclass(frozen=True, eq=False)
class Progress:
    """A state, and the rows that have arrived since but do not fill a batch yet.

    It is immutable: :func:`take` and :func:`flush` return a new one.

    Attributes
    ----------
    state : State
        What has been learnt.
    waiting : list of Batch
        The rows that wait.

    See Also
    --------
    take : Learns from rows that have arrived.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.batch import Batch
    >>> from maxnorm.dense import DenseLearner
    >>> from maxnorm.learner import Progress, take
    >>> learner = DenseLearner(n_components=2, batch_size=20)
    >>> progress = Progress(learner.start(n_features=10, dtype=np.dtype(float), seed=0))
    >>> X = np.random.default_rng(0).standard_normal((50, 2)) @ np.ones((2, 10))
    >>> progress = take(learner, progress, Batch(X))
    >>> progress.state.n_samples, progress.n_waiting
    (40, 10)
    """

    state: State
    waiting: list[Batch] = field(default_factory=list)

    @property
    def n_waiting(self) -> int:
        """Number of rows that wait."""
        return sum(map(len, self.waiting))


def step(learner: Learner, state: State, batch: Batch) -> tuple[State, Contribution]:
    """Learn from one batch, and return the new state and what the batch has added to it."""
    state, settings = learner.begin(state, batch)  # resolves "auto" from the state
    added = learner.measure(batch, state.L, settings, state.time)  # coefficients and noise, then the sums
    return learner.update(state, added, settings), added  # the basis


@contextmanager
def refusing_overflow() -> Iterator[None]:
    """Report arithmetic that has overflowed as a ``ValueError``, not by warnings of NumPy.

    Data and weights have been checked to lie in a range that is safe unless they are combined in an extreme
    way. In the context NumPy is silent, and the results must be passed to :func:`check_finite`.
    """
    try:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            yield
    except np.linalg.LinAlgError as error:  # the eigenvectors of a matrix that is not finite
        raise ValueError(OVERFLOW) from error


def check_finite(*results: Array | float) -> None:
    """Raise an error if a result is not finite."""
    if not all(np.isfinite(result).all() for result in results):
        raise ValueError(OVERFLOW)


def check_state(state: State) -> None:
    """Raise an error if the basis, its squares, which the objective needs, or the sums are not finite."""
    squares = np.einsum("ij,ij->", state.L, state.L, dtype=np.float64)
    check_finite(squares, state.statistics.A, state.statistics.loss)
    check_finite(state.signal_scale)  # which the next step needs


def learn(
    learner: Learner,
    state: State,
    rows: Batch,
    *,
    last: bool = True,
    until_new: bool = False,
    watch: Watcher | None = None,
) -> tuple[State, Batch]:
    """Learn from rows batch by batch.

    The arguments are not changed. How the rows are cut into batches is decided by the learner.

    Parameters
    ----------
    learner : Learner
        The learner.
    state : State
        What has been learnt so far.
    rows : Batch
        The samples.
    last : bool, default=True
        Whether no more rows follow, so that all of these rows are learnt from.
    until_new : bool, default=False
        Whether to stop where a new process begins, if the stream changes.
    watch : callable, default=None
        Called with a :class:`StepResult` after every step.

    Returns
    -------
    state : State
        What has been learnt.
    rest : Batch
        The rows that do not fill a batch; none if the rows are the last ones, unless a new process has begun.

    See Also
    --------
    take : Learns from rows that arrive in several calls.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.batch import Batch
    >>> from maxnorm.dense import DenseLearner
    >>> from maxnorm.learner import learn
    >>> X = np.random.default_rng(0).standard_normal((50, 2)) @ np.ones((2, 10))
    >>> learner = DenseLearner(n_components=2, batch_size=20)
    >>> state = learner.start(n_features=10, dtype=X.dtype, seed=0)
    >>> state, rest = learn(learner, state, Batch(X), last=False)
    >>> state.n_samples, len(rest)
    (40, 10)
    """
    p, d = state.L.shape
    with limited_blas(max(BATCHES.entries // p, 10), p, d):
        while len(rows):
            with refusing_overflow():
                state, size = learner.plan(state, rows, last)
            if not size:
                break
            batch, before = rows[:size], state.n_samples
            with refusing_overflow():
                state, added = step(learner, state, batch)
                check_state(state)
            rows = rows[state.n_samples - before :]  # if the stream has changed, a part of the batch is left
            if watch is not None:
                watch(StepResult(state, added, batch))
            del added  # whose sums may be large, before there are those of the next batch
            if until_new and not state.time:
                break
    return state, rows


def take(learner: Learner, progress: Progress, rows: Batch, watch: Watcher | None = None) -> Progress:
    """Learn from rows that have arrived, in any number; those that do not fill a batch wait for more.

    How rows are divided into calls makes no difference in the end. Rows that wait are copied, so that the
    caller may reuse their memory.

    Parameters
    ----------
    learner : Learner
        The learner.
    progress : Progress
        What has been learnt so far, and the rows that wait.
    rows : Batch
        The samples that have arrived.
    watch : callable, default=None
        Called with a :class:`StepResult` after every step.

    Returns
    -------
    Progress
        What has been learnt, and the rows that wait now.

    See Also
    --------
    flush : Learns from the rows that wait.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.batch import Batch
    >>> from maxnorm.dense import DenseLearner
    >>> from maxnorm.learner import Progress, take
    >>> X = np.random.default_rng(0).standard_normal((50, 2)) @ np.ones((2, 10))
    >>> learner = DenseLearner(n_components=2, batch_size=20)
    >>> progress = Progress(learner.start(n_features=10, dtype=X.dtype, seed=0))
    >>> for rows in np.array_split(X, 7):
    ...     progress = take(learner, progress, Batch(rows))
    >>> progress.state.n_samples, progress.n_waiting
    (40, 10)
    """
    if progress.n_waiting + len(rows) >= learner.rows_needed(progress.state):
        rows = Batch.join([*progress.waiting, rows])
        state, rest = learn(learner, progress.state, rows, last=False, watch=watch)
        return Progress(state, [rest.copy()] if len(rest) else [])
    waiting = [*progress.waiting, rows.copy()]  # the caller may reuse the memory of the rows
    while len(waiting) > 1 and len(waiting[-2]) <= len(waiting[-1]):
        waiting[-2:] = [Batch.join(waiting[-2:])]  # keeps the number of pieces logarithmic
    return Progress(progress.state, waiting)


def flush(learner: Learner, progress: Progress, watch: Watcher | None = None) -> Progress:
    """Learn from the rows that wait for the rest of their batch, as if no more followed.

    This ends a pass over the data. More rows may follow nevertheless.

    Parameters
    ----------
    learner : Learner
        The learner.
    progress : Progress
        What has been learnt so far, and the rows that wait.
    watch : callable, default=None
        Called with a :class:`StepResult` after every step.

    Returns
    -------
    Progress
        What has been learnt; no rows wait.

    See Also
    --------
    take : Learns from rows that have arrived.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.batch import Batch
    >>> from maxnorm.dense import DenseLearner
    >>> from maxnorm.learner import Progress, flush, take
    >>> X = np.random.default_rng(0).standard_normal((50, 2)) @ np.ones((2, 10))
    >>> learner = DenseLearner(n_components=2, batch_size=20)
    >>> progress = Progress(learner.start(n_features=10, dtype=X.dtype, seed=0))
    >>> progress = flush(learner, take(learner, progress, Batch(X)))
    >>> progress.state.n_samples, progress.n_waiting
    (50, 0)
    """
    if not progress.waiting:
        return Progress(progress.state)
    rows = Batch.join(progress.waiting)
    return Progress(learn(learner, progress.state, rows, watch=watch)[0])


def settle(learner: Learner, progress: Progress) -> Progress:
    """Learn from the rows that wait, unless they are the first ones of the stream or of a new process.

    Unlike :func:`flush`, this may be called at any time: the first rows, from which units and a first basis
    are chosen, go on waiting until they suffice.

    Parameters
    ----------
    learner : Learner
        The learner.
    progress : Progress
        What has been learnt so far, and the rows that wait.

    Returns
    -------
    Progress
        What has been learnt, and the rows that go on waiting.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.batch import Batch
    >>> from maxnorm.dense import DenseLearner
    >>> from maxnorm.learner import Progress, settle, take
    >>> learner = DenseLearner(n_components=2, batch_size=20)
    >>> progress = Progress(learner.start(n_features=10, dtype=np.dtype(float), seed=0))
    >>> X = np.random.default_rng(0).standard_normal((50, 2)) @ np.ones((2, 10))
    >>> progress = settle(learner, take(learner, progress, Batch(X[:15])))
    >>> progress.state.n_samples, progress.n_waiting  # the first batch is not full
    (0, 15)
    >>> progress = settle(learner, take(learner, progress, Batch(X[15:])))
    >>> progress.state.n_samples, progress.n_waiting
    (50, 0)
    """
    if not progress.waiting or not progress.state.time:
        return progress
    state, rest = learn(learner, progress.state, Batch.join(progress.waiting), until_new=True)
    return Progress(state, [rest.copy()] if len(rest) else [])


def take_last(learner: Learner, progress: Progress, rows: Batch, watch: Watcher | None = None) -> Progress:
    """Learn from the last rows of a pass: :func:`take` and then :func:`flush`, without copies of the rows."""
    state, rows = progress.state, Batch.join([*progress.waiting, rows])
    if len(rows) >= learner.rows_needed(state):
        state, rows = learn(learner, state, rows, last=False, watch=watch)
    return Progress(learn(learner, state, rows, watch=watch)[0] if len(rows) else state)


def apply(
    learner: Learner, state: State, rows: Batch, *, encoding: bool = True
) -> Iterator[tuple[Batch, Encoding]]:
    """Yield blocks of the rows with their encodings, so that work space does not grow with their number.

    If no ``encoding`` is needed, the encodings are empty.
    """
    if rows.dtype != state.L.dtype:
        _check_precision(state, rows.dtype)
    size = max(1, APPLY_ENTRIES // rows.shape[1])
    with limited_blas(min(size, len(rows)), *state.L.shape):
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            with refusing_overflow():
                code = learner.encode(block, state) if encoding else Encoding.empty(len(block))
            check_finite(code.R, code.E, code.residual, code.loss)
            yield block, code


def _check_precision(state: State, dtype: np.dtype[Any]) -> None:
    """Raise an error if what was learnt is too large for the precision of the samples it is applied to."""
    largest = float(np.max(np.abs(state.L)))
    if state.gauge is not None:
        largest = float(np.max(np.maximum(np.abs(state.gauge.centre), state.gauge.scale)))
    if state.biases is not None:
        largest = max(largest, abs(state.biases.mean), float(np.max(np.abs(state.biases.columns))))
    if largest > range_of(dtype).largest:
        raise ValueError(
            f"X contains {dtype} numbers, but the model has magnitudes of {largest:.3g}, which are too large "
            "for their arithmetic; pass X in double precision"
        )
