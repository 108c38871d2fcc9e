"""Results with the labels of a data frame."""

from __future__ import annotations

import sys
from typing import Any


def is_pandas(X: Any) -> bool:
    """Return whether X is a data frame of pandas, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def like(X: Any, values: Any, columns: Any = None) -> Any:
    """Return values as a data frame with the index of X, and its columns unless others are given.

    Values of one dimension become a series.
    """
    pandas = sys.modules["pandas"]
    if values.ndim == 1:
        return pandas.Series(values, index=X.index)
    return pandas.DataFrame(values, index=X.index, columns=X.columns if columns is None else columns)
