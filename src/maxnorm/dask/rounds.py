"""Learning from Dask collections in rounds, and applying models to them block by block.

A round is one large batch: the basis is sent out, blocks are measured where they are, their contributions are
added, and the basis is updated on the client. Rounds grow with the number of samples seen
(:func:`maxnorm.core.defaults.round_size`). At the very beginning, and as long as a round is no larger than a
block, a worker learns from the block as the serial learner would. Workers receive a learner, its settings and
the basis; the state stays on the client.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

import maxnorm
from maxnorm.core.batch import Batch, in_precision
from maxnorm.core.blas import one_blas_thread
from maxnorm.core.defaults import round_size
from maxnorm.core.encoding import Encoding
from maxnorm.core.state import Contribution, State
from maxnorm.core.types import Array
from maxnorm.dask.blocks import Blocks, Output, check_workers
from maxnorm.learner import Learner, Progress, StepResult, apply, check_state, flush, refusing_overflow, take
from maxnorm.streams.stream import Stream, StreamError

BLOCKS_PER_ROUND = 10_000  # at most, which makes a graph that a scheduler accepts within seconds

Reader = Callable[[Any, int], Batch]  # converts a raw block that begins at some row


class Answer(Protocol):
    """What a model says of samples, as arrays with one row per sample."""

    def __call__(self, block: Batch, code: Encoding, state: State) -> tuple[Any, ...]:
        """Return the arrays for a block of samples, given its encoding."""
        ...

    def outputs(self, state: State) -> tuple[Output, ...]:
        """Return the shapes of the arrays."""
        ...

    def needs_encoding(self, state: State) -> bool:
        """Return whether the samples must be encoded for it."""
        ...


class RoundSettings(NamedTuple):
    """What the size of the rounds depends on, and how blocks are converted."""

    read: Reader
    seed: int  #: of the first basis
    batch_size: int | None  #: samples in a round; None to follow the samples seen
    half_life: float | None


def learn_blocks(
    learner: Learner, progress: Progress | None, blocks: Blocks, settings: RoundSettings
) -> Iterator[tuple[Progress, StepResult | None]]:
    """Learn from all blocks; yield the progress and the result of the last step after every round.

    ``progress`` is None before the first sample.
    """
    check_workers(maxnorm.__version__)
    done, seen = 0, n_seen(progress)
    while done < len(blocks):
        # A block of unknown length is taken to be as long as those before; the first one, to be very long.
        usual = max(1, (n_seen(progress) - seen) // done) if done else sys.maxsize // BLOCKS_PER_ROUND
        rows = [usual if n is None else n for n in blocks.rows[done : done + BLOCKS_PER_ROUND]]
        count = _blocks_in_round(progress, n_seen(progress), rows, settings)
        result: StepResult | None
        if count == 1 or progress is None:
            next_count = _blocks_in_round(progress, n_seen(progress) + rows[0], rows[1:], settings)
            is_first = progress is None  # its batch size may exceed the block, but rounds need a basis
            closing = settings.batch_size is not None if is_first else next_count > 1
            progress, result = blocks.apply(_learn_block, done, learner, progress, settings, closing)
        else:
            progress, result = _learn_round(learner, progress, blocks, done, rows[:count], settings)
            if result is not None and result.added.change is not None:
                count = 0  # the stream has changed, and the blocks are learnt from again, one by one
        done += count
        if progress is not None:
            yield progress, result
    if n_seen(progress) == seen:
        raise StreamError("the Dask collection: has no samples")


def n_seen(progress: Progress | None) -> int:
    """Return the number of samples seen, waiting rows included."""
    return 0 if progress is None else progress.state.n_samples + progress.n_waiting


def _blocks_in_round(progress: Progress | None, seen: int, rows: list[int], settings: RoundSettings) -> int:
    """Return how many of the remaining blocks make the next round: as many as fit, but at least one."""
    if progress is None or not progress.state.scales.weight:
        return 1
    size = round_size(seen, settings.half_life) if settings.batch_size is None else settings.batch_size
    return max(1, int(np.searchsorted(np.cumsum(rows), size, side="right")))


def _learn_block(
    block: Stream, learner: Learner, progress: Progress | None, settings: RoundSettings, closing: bool
) -> tuple[Progress | None, StepResult | None]:
    """Learn from a block as the serial learner would; if ``closing``, to its last row."""
    last: deque[StepResult] = deque(maxlen=1)  # earlier results would keep their states in memory
    for raw in block:  # one, or none if it is empty
        batch = settings.read(raw, block.first)
        if progress is None:
            progress = Progress(learner.start(batch.shape[1], batch.dtype, settings.seed))
        progress = take(
            learner, progress, in_precision(batch, progress.state.L.dtype, block.first), last.append
        )
        if closing:
            progress = flush(learner, progress, last.append)
    return progress, replace(last[0], batch=None) if last else None


def _learn_round(
    learner: Learner, progress: Progress, blocks: Blocks, first: int, rows: list[int], settings: RoundSettings
) -> tuple[Progress, StepResult | None]:
    """Measure blocks in one basis, wherever they are, and update the basis here."""
    state, measuring = learner.begin(flush(learner, progress).state, None)
    times = (state.time + np.cumsum([0, *rows[:-1]])).tolist()
    added = blocks.total(_measure_block, first, times, learner, state.L, measuring, settings.read)
    if added is None:  # all blocks are empty
        return Progress(state), None
    n_samples = state.n_samples
    with one_blas_thread(), refusing_overflow():
        state = learner.update(state, added, measuring)
        check_state(state)
    if added.change is not None:
        state = replace(state, n_samples=n_samples)
    return Progress(state), StepResult(state, added)


def _measure_block(
    block: Stream, time: int, learner: Learner, L: Array, settings: Any, read: Reader
) -> Contribution | None:
    """Return the contribution of a block, measured slice by slice; None if it is empty."""
    for raw in block:  # one, or none
        batch = in_precision(read(raw, block.first), L.dtype, block.first)
        size = learner.rows_per_slice(batch, settings)
        with refusing_overflow():
            total = learner.measure(batch[:size], L, settings, time)
            for start in range(size, len(batch), size):
                total += learner.measure(batch[start : start + size], L, settings, time + total.n_full)
        return total
    return None


def apply_lazily(
    learner: Learner,
    state: State,
    blocks: Blocks,
    read: Reader,
    answer: Answer,
    outputs: Sequence[Output],
    report: Callable[[int, int], object],
) -> list[Any]:
    """Return the answers for all samples as Dask arrays that are not computed yet.

    ``report`` is called for every block with the number of samples that did not converge, and of all samples.
    """
    check_workers(maxnorm.__version__)  # the sooner the better; workers check it again when they compute
    return blocks.map_lazily(_answer_block, outputs, learner, state, read, answer, list(outputs), report)


def _answer_block(
    block: Stream,
    learner: Learner,
    state: State,
    read: Reader,
    answer: Answer,
    outputs: list[Output],
    report: Callable[[int, int], object],
) -> tuple[Array, ...]:
    for raw in block:
        rows = read(raw, block.first)
        parts, n_unfinished = [], 0
        for piece, code in apply(learner, state, rows, encoding=answer.needs_encoding(state)):
            parts.append(answer(piece, code, state))
            n_unfinished += int((~code.converged).sum())
        report(n_unfinished, len(rows))
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return tuple(output.empty for output in outputs)
