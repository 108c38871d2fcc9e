"""Streaming robust low-rank decomposition and completion with the max-norm."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxnorm.estimators import Decomposition, MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA
    from maxnorm.pursuit import PrincipalComponentPursuit

__all__ = [
    "Decomposition",
    "MaxNormCompletion",
    "MaxNormDecomposition",
    "OnlineRobustPCA",
    "PrincipalComponentPursuit",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the estimators when they are asked for: the engine and the command line do without them."""
    if name == "PrincipalComponentPursuit":
        from maxnorm import pursuit

        return pursuit.PrincipalComponentPursuit
    if name in __all__:
        from maxnorm import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
