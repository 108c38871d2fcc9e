"""The scikit-learn estimators."""

from maxnorm.estimators._base import Decomposition
from maxnorm.estimators.anomaly import AnomalyDetector, Explanation
from maxnorm.estimators.completion import MaxNormCompletion
from maxnorm.estimators.decomposition import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.estimators.pcp import PrincipalComponentPursuit

__all__ = [
    "AnomalyDetector",
    "Decomposition",
    "Explanation",
    "MaxNormCompletion",
    "MaxNormDecomposition",
    "OnlineRobustPCA",
    "PrincipalComponentPursuit",
]
