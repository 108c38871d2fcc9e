"""Samples from everywhere in a source that can be read again, from which a fit starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from maxnorm.core.batch import Batch
from maxnorm.core.defaults import gauge_rows
from maxnorm.core.types import Array
from maxnorm.dask.blocks import Blocks
from maxnorm.streams import Stream

SAMPLED_ENTRIES = 2**20  # samples x features, at most, unless the first step needs more samples: 8 MB


class Sample(NamedTuple):
    """Some rows of a source, in their order."""

    rows: Batch
    is_all: bool  #: whether the source has no other rows


def sample_rows(batches: Iterable[Batch]) -> Sample:
    """Return all rows of a source if they are few, and otherwise random ones.

    Each row is kept with the same chance, which is halved whenever there are too many. Memory is therefore
    bounded, and the rows come from everywhere in the source. If an error occurs after many rows, those before
    it are sampled: the pass that follows meets the error again, and keeps what it has learnt until then.
    """
    rng, share = np.random.default_rng(0), 1.0
    parts: list[Batch] = []
    draws: list[Array] = []
    try:
        for batch in batches:
            draw = rng.random(len(batch))
            parts.append(chosen(batch, draw, share))
            draws.append(draw[draw < share])
            most = max(gauge_rows(batch.shape[1]), SAMPLED_ENTRIES // batch.shape[1])
            while sum(map(len, parts)) > most:
                share /= 2.0
                joined, draw = Batch.join(parts), np.concatenate(draws)
                parts, draws = [chosen(joined, draw, share)], [draw[draw < share]]
    except (ValueError, OSError):
        if share == 1.0:
            raise
    return Sample(Batch.join(parts), is_all=share == 1.0)


def is_repeatable(source: Batch | Stream | Blocks) -> bool:
    """Return whether samples can be read again here; those of a Dask collection are elsewhere."""
    return isinstance(source, Batch) or (isinstance(source, Stream) and source.repeatable)


def chosen(rows: Batch, draw: Array, share: float) -> Batch:
    """Return a copy of the rows whose random numbers are below the share; the caller may reuse its memory."""
    return rows[np.flatnonzero(draw < share)]
