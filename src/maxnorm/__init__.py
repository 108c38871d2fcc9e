"""Streaming robust low-rank decomposition and completion with the max-norm."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxnorm.estimators import (
        AnomalyDetector,
        Decomposition,
        Explanation,
        FilmParts,
        MaxNormDecomposition,
        OnlineRobustPCA,
        RecommendedItems,
        Recommender,
        SeriesImputer,
        VideoBackground,
    )
    from maxnorm.estimators.completion import MaxNormCompletion
    from maxnorm.estimators.pcp import PrincipalComponentPursuit
    from maxnorm.persistence import load
    from maxnorm.streams import Stream, open_stream
    from maxnorm.video import open_film

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
    "Stream",
    "VideoBackground",
    "load",
    "open_film",
    "open_stream",
]
__version__ = "0.2.0.dev0"


_HOMES = {
    "Stream": "streams",
    "load": "persistence",
    "open_film": "video",
    "open_stream": "streams",
}


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: the engine and the command line do without the rest."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"maxnorm.{_HOMES.get(name, 'estimators')}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
