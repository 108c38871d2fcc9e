"""Checks of sparse matrices, whose indices compiled code trusts: a wrong one would crash the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxnorm.core.types import Array
from maxnorm.streams.stream import NUMERIC_KINDS, StreamError

SPARSE_PARTS = {"format", "shape", "data", "indices", "indptr", "row", "col", "coords", "offsets"}
"""The members of a file by ``scipy.sparse.save_npz`` that are read."""

EMPTY_ROWS = 10_000_000
EMPTY_ROWS_PER_ENTRY = 10
"""A matrix may have ``EMPTY_ROWS`` rows, and ``EMPTY_ROWS_PER_ENTRY`` more per stored entry. Conversion to
rows takes 16 bytes per row, whether it has entries or not."""

INDICES_OF_FORMAT = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}


def build_sparse(parts: Mapping[str, Array], title: str) -> Any:
    """Return the sparse matrix of a file by ``scipy.sparse.save_npz``, after checking its parts.

    Parameters
    ----------
    parts : mapping of str to ndarray
        The members of the file by name.
    title : str
        Name of the file in error messages.

    Returns
    -------
    sparse matrix

    Raises
    ------
    StreamError
        If a part is missing or of a wrong type, or if an index is out of range.
    """
    kind = str(parts["format"].astype(str).item()) if parts["format"].size == 1 else ""
    if kind == "coo" and "coords" in parts:
        coords = parts["coords"]
        parts = {**parts, "row": coords[0], "col": coords[1]} if coords.shape[:1] == (2,) else parts
    names = INDICES_OF_FORMAT.get(kind)
    if names is None:
        raise StreamError(
            f"{title}: holds a sparse matrix of the unknown format {kind!r}; save it as csr with "
            "scipy.sparse.save_npz"
        )
    absent = [name for name in names if name not in parts]
    if absent:
        raise StreamError(f"{title}: the member {absent[0]!r} of its sparse matrix is missing; save it again")
    for name in ("shape", *names):
        if parts[name].ndim != 1 or parts[name].dtype.kind not in "iu":
            raise _broken(title, f"{name} must be a vector of integers")
    if len(parts["shape"]) != 2 or min(parts["shape"].tolist()) < 0:
        raise _broken(title, f"its shape is {tuple(parts['shape'].tolist())}")
    n, p = (int(length) for length in parts["shape"])
    data, dimensions = parts["data"], {"bsr": 3, "dia": 2}.get(kind, 1)
    if data.ndim != dimensions or data.dtype.kind not in NUMERIC_KINDS:
        raise _broken(title, f"data must be an array of numbers with {dimensions} dimensions")
    first, second = parts[names[0]], parts[names[-1]]
    if kind == "dia":
        if len(data) != len(first):
            raise _broken(title, "offsets and data have different lengths")
        return sp.dia_array((data, first), shape=(n, p))
    if kind == "coo":
        _check_entries(first, second, len(data), (n, p), title)
        return sp.coo_array((data, (first, second)), shape=(n, p))
    block = data.shape[1:] if kind == "bsr" else (1, 1)
    _check_compressed(first, second, len(data), (n, p), block, kind == "csc", title)
    return {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[kind](
        (data, first, second), shape=(n, p)
    )


def require_valid_sparse(x: Any, title: str) -> None:
    """Raise a StreamError if compiled code cannot trust a sparse matrix that it is given.

    Matrices of scipy.io.loadmat, and matrices whose arrays were changed, may be invalid. The other formats
    than those that are checked here store no indices that compiled code uses.
    """
    n, p = x.shape
    if x.format in ("csr", "csc", "bsr"):
        block = x.data.shape[1:] if x.format == "bsr" else (1, 1)
        _check_compressed(x.indices, x.indptr, len(x.data), (n, p), block, x.format == "csc", title)
    elif x.format == "coo":
        _check_entries(x.row, x.col, len(x.data), (n, p), title)


def require_plausible_rows(n_rows: int, n_entries: int, title: str) -> None:
    """Raise a StreamError if a sparse matrix declares so many empty rows that they would fill the memory."""
    if n_rows > EMPTY_ROWS + EMPTY_ROWS_PER_ENTRY * n_entries:
        raise StreamError(
            f"{title}: a sparse matrix of {n_rows} rows has only {n_entries} entries; remove its empty rows"
        )


def _check_compressed(
    indices: Array,
    indptr: Array,
    n_data: int,
    shape: tuple[int, int],
    block: tuple[int, ...],
    is_by_columns: bool,
    title: str,
) -> None:
    """Check the indices of a matrix in CSR, CSC or BSR format."""
    if min(block) < 1 or shape[0] % block[0] or shape[1] % block[1]:
        raise _broken(title, f"blocks of shape {block} do not divide its shape {shape}")
    n_rows, n_columns = shape[0] // block[0], shape[1] // block[1]
    n_major, n_minor = (n_columns, n_rows) if is_by_columns else (n_rows, n_columns)
    if len(indptr) != n_major + 1:
        raise _broken(title, f"indptr has {len(indptr)} entries where {n_major + 1} are expected")
    if indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        raise _broken(title, "indptr must begin with 0 and must not decrease")
    if len(indices) != n_data or indptr[-1] > n_data:
        raise _broken(
            title, f"it has {len(indices)} indices and {n_data} entries, but indptr ends with {indptr[-1]}"
        )
    _check_range(indices[: indptr[-1]], n_minor, "row" if is_by_columns else "column", title)


def _check_entries(row: Array, col: Array, n_data: int, shape: tuple[int, int], title: str) -> None:
    """Check the indices of a matrix in COO format."""
    if not len(row) == len(col) == n_data:
        raise _broken(title, f"it has {len(row)} row indices, {len(col)} column indices and {n_data} entries")
    _check_range(row, shape[0], "row", title)
    _check_range(col, shape[1], "column", title)


def _check_range(indices: Array, length: int, axis: str, title: str) -> None:
    if len(indices) and not 0 <= indices.min() <= indices.max() < length:
        wrong = indices[(indices < 0) | (indices >= length)][0]
        raise _broken(title, f"the {axis} index {wrong} is not between 0 and {length - 1}")


def _broken(title: str, reason: str) -> StreamError:
    return StreamError(f"{title}: its sparse matrix is not valid: {reason}; build or save it again")
