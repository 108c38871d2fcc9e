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

    __version__: str

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

_HOMES = {
    "Stream": "streams",
    "load": "persistence",
    "open_film": "video",
    "open_stream": "streams",
}


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: the engine and the command line do without the rest."""
    if name == "__version__":
        return _installed_version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"maxnorm.{_HOMES.get(name, 'estimators')}"), name)


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("maxnorm")
    except PackageNotFoundError:  # the sources are on the path, but the package is not installed
        return "0+unknown"


def __dir__() -> list[str]:
    return [*globals(), *__all__]
