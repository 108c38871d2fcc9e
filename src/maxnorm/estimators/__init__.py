"""The scikit-learn estimators."""

from maxnorm.estimators._base import Decomposition
from maxnorm.estimators.anomaly import AnomalyDetector, Explanation
from maxnorm.estimators.completion import MaxNormCompletion
from maxnorm.estimators.decomposition import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.estimators.pcp import PrincipalComponentPursuit
from maxnorm.estimators.recommender import RecommendedItems, Recommender
from maxnorm.estimators.series import SeriesImputer
from maxnorm.estimators.video import FilmParts, VideoBackground

__all__ = [
    "AnomalyDetector",
    "Decomposition",
    "Explanation",
    "FilmParts",
    "MaxNormCompletion",
    "MaxNormDecomposition",
    "OnlineRobustPCA",
    "PrincipalComponentPursuit",
    "RecommendedItems",
    "Recommender",
    "SeriesImputer",
    "VideoBackground",
]
