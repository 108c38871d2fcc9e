"""What the estimators return for a block of samples, given its encoding.

An answer is a small value that can be sent to Dask workers; it knows nothing of the estimator that gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxnorm.core.batch import Batch
from maxnorm.core.encoding import Encoding
from maxnorm.core.state import State
from maxnorm.core.types import Array
from maxnorm.dask.blocks import Output

Range = tuple[float, float] | None


class EncodedAnswer:
    """An answer that needs the encoding of the samples."""

    def needs_encoding(self, state: State) -> bool:
        """Return whether the samples must be encoded."""
        return True


@dataclass(frozen=True)
class DecompositionAnswer(EncodedAnswer):
    """The low-rank part, the noise, the residual, the coefficients, and whether each sample converged."""

    def __call__(self, block: Batch, code: Encoding, state: State) -> tuple[Any, ...]:
        """Return the parts of the samples."""
        _, observed = block.dense()
        residual = code.residual if observed is None else np.where(observed, code.residual, 0)
        residual = residual.astype(code.R.dtype, copy=False)
        return code.low_rank(state.L), code.E, residual, code.R, code.converged

    def outputs(self, state: State) -> tuple[Output, ...]:
        """Return the shapes of the results."""
        p, d = state.L.shape
        return (
            Output(None, p),
            Output(None, p),
            Output(None, p),
            Output(None, d),
            Output(bool, is_matrix=False),
        )


@dataclass(frozen=True, eq=False)
class CoefficientAnswer(EncodedAnswer):
    """The coefficients of the samples, divided by their standard deviations if these are given."""

    deviations: Array | None = None

    def __call__(self, block: Batch, code: Encoding, state: State) -> tuple[Any, ...]:
        """Return the coefficients of the samples."""
        return (code.R if self.deviations is None else (code.R / self.deviations).astype(code.R.dtype),)

    def outputs(self, state: State) -> tuple[Output, ...]:
        """Return the shape of the result."""
        return (Output(None, state.L.shape[1]),)


@dataclass(frozen=True)
class ScoreAnswer:
    """The score of each sample: its log-likelihood under the factor model or, without one, minus its loss."""

    learner: Any

    def __call__(self, block: Batch, code: Encoding, state: State) -> tuple[Any, ...]:
        """Return the scores of the samples."""
        scores = self.learner.score(block, state)
        return (-code.loss if scores is None else scores,)

    def needs_encoding(self, state: State) -> bool:
        """Return whether the samples must be encoded, which the factor model does not need."""
        return self.learner.model_at(state) is None

    def outputs(self, state: State) -> tuple[Output, ...]:
        """Return the shape of the result."""
        return (Output(np.float64, is_matrix=False),)


@dataclass(frozen=True)
class DistanceAnswer:
    """The squared Mahalanobis distance of each sample."""

    learner: Any

    def __call__(self, block: Batch, code: Encoding, state: State) -> tuple[Any, ...]:
        """Return the distances of the samples."""
        model = self.learner.model_at(state)
        return (model.distances(*model.standardised(block))[0],)

    def needs_encoding(self, state: State) -> bool:
        """Return that the samples need not be encoded."""
        return False

    def outputs(self, state: State) -> tuple[Output, ...]:
        """Return the shape of the result."""
        return (Output(np.float64, is_matrix=False),)


@dataclass(frozen=True)
class PredictionAnswer(EncodedAnswer):
    """All entries as the model predicts them, within a range if there is one."""

    value_range: Range = None

    def __call__(self, block: Batch, code: Encoding, state: State) -> tuple[Any, ...]:
        """Return the predicted samples."""
        return (clip(code.low_rank(state.L), self.value_range),)

    def outputs(self, state: State) -> tuple[Output, ...]:
        """Return the shape of the result."""
        return (Output(None, state.L.shape[0]),)


@dataclass(frozen=True)
class CompletionAnswer(PredictionAnswer):
    """Observed entries as they are, and missing entries as the model predicts them."""

    def __call__(self, block: Batch, code: Encoding, state: State) -> tuple[Any, ...]:
        """Return the completed samples."""
        Z, observed = block.dense()
        if observed is None:
            return (Z.copy(),)
        return (np.where(observed, Z, clip(code.low_rank(state.L), self.value_range)),)


def clip(values: Array, value_range: Range) -> Array:
    """Return values within a range, if there is one."""
    return values if value_range is None else np.clip(values, *value_range)
