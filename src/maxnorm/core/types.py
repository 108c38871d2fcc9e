"""Type aliases for the arrays that the library works with."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
"""Array of floating-point numbers, in single or double precision."""

Mask: TypeAlias = NDArray[np.bool_]
"""Array of booleans; True marks the observed entries of a batch, or the rows that are selected."""

AnyArray: TypeAlias = NDArray[Any]
"""An array of numbers or truth values of any type, such as a frame of a film or a mask."""

Index: TypeAlias = NDArray[np.integer[Any]]
"""Array of positions."""
