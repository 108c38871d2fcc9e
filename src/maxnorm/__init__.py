"""Streaming robust low-rank decomposition and completion with the max-norm."""

from maxnorm.estimators import Decomposition, MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA

__all__ = ["Decomposition", "MaxNormCompletion", "MaxNormDecomposition", "OnlineRobustPCA"]
__version__ = "0.1.0"
