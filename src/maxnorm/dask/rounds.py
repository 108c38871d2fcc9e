"""How estimators learn from Dask collections, and what they answer about them.

A round is one large batch: the basis goes out, blocks are measured where they live, their contributions
are added up, and the basis is updated here. Rounds grow with the samples seen (:func:`auto.round_size`).
As long as a round is no more than a block, and at the very beginning, a worker learns from the block as
the serial learner would.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

import maxnorm
from maxnorm.core import defaults as auto
from maxnorm.core.blas import one_blas_thread
from maxnorm.core.state import Progress
from maxnorm.core.statistics import Contribution
from maxnorm.dask.blocks import Blocks, Output, check_workers
from maxnorm.estimators.validation import check_features, in_precision, validated_batch
from maxnorm.learner import measured_in_slices
from maxnorm.streams import Stream, StreamError

MOST_BLOCKS = 10_000  # in a round: a graph that a scheduler takes in within seconds
SLICE_ENTRIES = 2**19  # entries of a block that are measured in one go: work space stays small


def learn(model: Any, blocks: Blocks, callback: Callable[[Any], object] | None) -> None:
    """Learn from all blocks; whatever happens, finished rounds are learnt from."""
    check_workers(maxnorm.__version__)
    if model.__sklearn_is_fitted__():
        check_features(model, blocks.names, blocks.n_features, "the Dask collection")
    done, seen = 0, n_seen(model)
    while done < len(blocks):
        # Lengths that are not known are taken to be those of the blocks so far; without any, to be large.
        usual = max(1, (n_seen(model) - seen) // done) if done else sys.maxsize // MOST_BLOCKS
        rows = [usual if n is None else n for n in blocks.rows[done : done + MOST_BLOCKS]]
        count = _blocks_in_round(model, n_seen(model), rows)
        if count == 1:
            closing = _blocks_in_round(model, n_seen(model) + rows[0], rows[1:]) > 1
            _learn_block(model, blocks, done, closing)
        else:
            _learn_round(model, blocks, done, rows[:count])
        done += count
        if callback is not None and model.__sklearn_is_fitted__():
            callback(model)
    if n_seen(model) == seen:
        raise StreamError("the Dask collection: has no samples")


def n_seen(model: Any) -> int:
    """Return the number of samples that a model has seen, fitted or not."""
    return int(model.n_samples_seen_) if model.__sklearn_is_fitted__() else 0


def _blocks_in_round(model: Any, seen: int, rows: list[int]) -> int:
    """Return how many of the blocks that are left make the next round: as many as fit, but at least one."""
    if not model.__sklearn_is_fitted__() or not model._progress.state.scales.weight:
        return 1
    size = auto.round_size(seen, model.half_life)
    if model.batch_size != "auto":
        size = int(model.batch_size)
    return max(1, int(np.searchsorted(np.cumsum(rows), size, side="right")))


def _learn_block(model: Any, blocks: Blocks, i: int, closing: bool) -> None:
    """Let a worker learn from a block as the serial learner would; if ``closing``, to its last row."""
    sent = copy.copy(model)
    if model.__sklearn_is_fitted__():
        known = model._progress
        sent._progress = Progress(known.state, known.waiting, known.batch)
    else:
        closing = model.batch_size != "auto"  # it may be more than a block, and rounds need a basis
        if isinstance(model.random_state, np.random.RandomState):  # goes on here as if it had been used here
            sent.random_state = copy.deepcopy(model.random_state)
            model.random_state.randint(2**31 - 1)
        elif model.random_state is None:  # so that a task that is done again does the same
            sent.random_state = check_random_state(None).randint(2**31 - 1)
    learnt = blocks.apply(_taken, i, sent, closing)
    for name in _learnt_names(model):
        delattr(model, name)
    model.__dict__.update(learnt)


def _taken(block: Stream, model: Any, closing: bool) -> dict[str, Any]:
    """Return what a model has learnt after one more block."""
    if block.n_samples:
        model.partial_fit(block)
        if closing:
            model.flush()
    return {name: getattr(model, name) for name in _learnt_names(model)}


def _learnt_names(model: Any) -> list[str]:
    """Return the names of all attributes that are not parameters."""
    return [name for name in vars(model) if name not in model.get_params(deep=False)]


def _learn_round(model: Any, blocks: Blocks, first: int, rows: list[int]) -> None:
    model.flush()
    state = model._progress.state
    since = (state.time + np.cumsum([0, *rows[:-1]])).tolist()
    shell = copy.copy(model)  # all that is needed to look at a block
    del shell._progress
    shell.init = "random"
    measure = model._measure(state.L, state)
    added = blocks.total(_contribution, first, since, shell, measure, state.L.dtype)
    if added is not None:
        with one_blas_thread():
            model._progress = Progress(model._updated(state, added, state))


def _contribution(
    block: Stream, since: int, shell: Any, measure: Callable[[Any, int], Contribution], dtype: np.dtype[Any]
) -> Contribution | None:
    """Return what there is to learn from a block, slice by slice; None if it is empty."""
    for batch in block:  # one, or none
        Z = validated_batch(shell, batch, block, reset=False, unstored=shell._unstored, row=block.first)
        Z = in_precision(Z, dtype, block.first)
        n, p = Z.shape
        whole = sp.issparse(Z) and shell._trusts_entries  # otherwise it is made dense
        return measured_in_slices(measure, Z, n if whole else max(1, SLICE_ENTRIES // p), since)
    return None


def lazily(model: Any, X: Any, method: str, *outputs: Output) -> list[Any]:
    """Return what a method says of a Dask collection, as Dask arrays that nobody has computed yet.

    The model is that of now, whatever it learns before they are computed.
    """
    blocks = Blocks.of(X)
    check_features(model, blocks.names, blocks.n_features, "the Dask collection")
    snapshot = copy.copy(model)
    snapshot._progress = Progress(model.state_)
    dtype = np.dtype(np.float64) if blocks.is_sparse and model._unstored is None else blocks.dtype
    kinds = [replace(o, dtype=o.dtype or dtype) for o in outputs]
    return blocks.lazily(_said_of, kinds, snapshot, method, kinds)


def _said_of(block: Stream, model: Any, method: str, outputs: list[Output]) -> tuple[Any, ...]:
    if not block.n_samples:
        return tuple(output.empty for output in outputs)
    answer = getattr(model, method)(block)
    return answer if isinstance(answer, tuple) else (np.asarray(answer),)  # or a frame, by set_output
