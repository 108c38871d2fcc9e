"""Checks of what a file declares about itself, made before memory is allocated or compiled code trusts it.

A small file can declare an enormous array, by damage or by intent. The limits are far above what ordinary
files hold, and none of them limits the number of samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxnorm.streams.memory import dates_message, require_two_dimensions
from maxnorm.streams.stream import NUMERIC_KINDS, StreamError

LARGEST_ROW_ENTRIES = 2**24
"""Largest number of features of a file: 128 MB of float64 in a single sample."""

LARGEST_CHUNK_BYTES = 2**28
"""Largest chunk of an HDF5 or Zarr array. A chunk is decompressed as a whole, even for a single sample;
chunks of 1 to 10 MB are usual."""

MOST_CHUNKS_PER_READ = 2**12
MOST_CHUNKS_PER_SAMPLE = 2**14
"""Number of chunks that are read at a time, and the largest number that a sample may touch. Zarr takes about
0.3 milliseconds for a chunk, and HDF5 a kilobyte of memory."""

LARGEST_UNPROPORTIONAL_BYTES = 2**28
LARGEST_EXPANSION = 20
"""Data that must be loaded as a whole may take ``LARGEST_UNPROPORTIONAL_BYTES`` (256 MB), or
``LARGEST_EXPANSION`` times their compressed size if that is more. Measurements compress by a factor of 1 to
10, and a file of zeros by a factor of 1000."""

MOST_ARRAYS_SHOWN = 10  # in an error message


def require_plausible_shape(shape: Sequence[Any], title: str) -> None:
    """Raise a StreamError if an array of a file has a shape that is not two-dimensional, or impossible."""
    _require_possible_lengths(shape, title)
    require_two_dimensions(tuple(shape), title)


def fold_shape(shape: Sequence[Any], title: str, *, transpose: bool) -> tuple[int, int]:
    """Return the numbers of samples and of features of an array of a file.

    An array of more than two dimensions, for example of images, has one sample per item of its first axis,
    whose entries in C order are the features. Such an array cannot be transposed.
    """
    _require_possible_lengths(shape, title)
    if len(shape) < 2 or transpose:
        require_two_dimensions(tuple(shape), title)
    return (shape[1], shape[0]) if transpose else (shape[0], math.prod(shape[1:]))


def _require_possible_lengths(shape: Sequence[Any], title: str) -> None:
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise StreamError(f"{title}: declares the impossible shape {tuple(shape)}; the file is damaged")


def count_chunks(shape: Sequence[int], chunks: Sequence[int]) -> int:
    """Return how many chunks of a shape cover an array."""
    return math.prod(-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True))


def require_row_fits(n_features: int, title: str) -> None:
    """Raise a StreamError if a single sample of a file would not fit into memory."""
    if n_features > LARGEST_ROW_ENTRIES:
        raise StreamError(
            f"{title}: declares {n_features} features per sample, more than the {LARGEST_ROW_ENTRIES} that "
            "can be read; set transpose to True if samples are columns, or divide the features among several "
            "files"
        )


def require_proportional(n_bytes: int, stored_bytes: int, title: str, remedy: str, n_copies: int = 1) -> None:
    """Raise a StreamError if data that must be loaded as a whole expand enormously.

    Parameters
    ----------
    n_bytes : int
        Size in memory.
    stored_bytes : int
        Size in the file.
    title : str
        Name of the file and of the data in it, for the error message.
    remedy : str
        How to write the file differently, for the error message.
    n_copies : int, default=1
        How often the data are in memory at the same time while they are converted.
    """
    if n_bytes > max(LARGEST_UNPROPORTIONAL_BYTES // n_copies, LARGEST_EXPANSION * stored_bytes):
        raise StreamError(
            f"{title}: {stored_bytes} bytes in the file would expand to {n_bytes} bytes in memory, because "
            f"this array can only be loaded as a whole; {remedy}"
        )


def samples_per_chunked_read(
    shape: Sequence[int], chunks: Sequence[int], itemsize: int, size: int, title: str
) -> int:
    """Return the number of samples of a chunked array to read at a time, which touch a bounded number of
    chunks.

    Parameters
    ----------
    shape, chunks : sequences of int
        Shape of the array and of its chunks, whose first axis is that of the samples.
    itemsize : int
        Bytes of an entry.
    size : int
        Number of samples to read if the number of chunks does not matter.
    title : str
        Name of the file in error messages.

    Returns
    -------
    int
        At least one.

    Raises
    ------
    StreamError
        If a chunk is too large, or if a single sample touches too many chunks.
    """
    chunk_bytes = math.prod(chunks) * itemsize
    shown = f"{chunks[0]} samples x {math.prod(chunks[1:])} features"
    if chunk_bytes > LARGEST_CHUNK_BYTES:
        raise StreamError(
            f"{title}: its chunks of {shown} take {chunk_bytes} bytes each, more than the "
            f"{LARGEST_CHUNK_BYTES} that are decompressed at once; write the array with smaller chunks, for "
            "example of 1000 samples"
        )
    chunks_per_sample = count_chunks(shape[1:], chunks[1:])
    if chunks_per_sample > MOST_CHUNKS_PER_SAMPLE:
        raise StreamError(
            f"{title}: its chunks of {shown} are too small, because every sample touches {chunks_per_sample} "
            "of them; write the array with chunks that hold more features"
        )
    bound = max(1, MOST_CHUNKS_PER_READ // chunks_per_sample) * chunks[0]
    return max(1, min(size, bound, shape[0]))


def require_numeric_type(dtype: np.dtype[Any], title: str) -> None:
    """Raise a StreamError if a NumPy type is not a type of numbers."""
    if dtype.kind in "mM":
        raise StreamError(dates_message(title, dtype))
    if dtype.kind not in NUMERIC_KINDS:
        raise StreamError(f"{title}: must be numeric, not {dtype}; convert it to numbers")


def resolve_key(
    key: str | None, shapes: Mapping[str, Sequence[int]], title: str, *, folds: bool = False
) -> str:
    """Return the name of the array to read from a file that may hold several.

    Parameters
    ----------
    key : str or None
        Name of the array. None selects the only array with two dimensions, or else, with ``folds``, the only
        one with more.
    shapes : mapping of str to sequence of int
        Name and shape of every array in the file.
    title : str
        Name of the file in error messages.
    folds : bool, default=False
        Whether an array may have more than two dimensions.

    Returns
    -------
    str

    Raises
    ------
    StreamError
        If the array does not exist or has another number of dimensions, or if ``key`` is None and the number
        of arrays with such a shape is not one.
    """
    if key is not None:
        if key not in shapes:
            raise StreamError(f"{title}: key={key!r} names no array; the file holds {_list_arrays(shapes)}")
        if not folds or len(shapes[key]) < 2:
            require_two_dimensions(tuple(shapes[key]), f"{title}, {key}")
        return key
    tables = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    if not tables and folds:
        tables = {name: shape for name, shape in shapes.items() if len(shape) > 2}
    if not tables:
        raise StreamError(
            f"{title}: holds no two-dimensional array of samples x features, but {_list_arrays(shapes)}"
        )
    if len(tables) > 1:
        raise StreamError(
            f"{title}: holds {len(tables)} arrays of samples x features; set key to one of "
            f"{_list_arrays(tables)}"
        )
    return next(iter(tables))


def _list_arrays(shapes: Mapping[str, Sequence[int]]) -> str:
    """Return names and shapes for an error message: ``'x' 37x5, 'y' scalar``."""
    if not shapes:
        return "no arrays"
    shown = [
        f"{name!r} {'x'.join(map(str, shape)) or 'scalar'}"
        for name, shape in list(shapes.items())[:MOST_ARRAYS_SHOWN]
    ]
    return ", ".join(shown + (["..."] if len(shapes) > MOST_ARRAYS_SHOWN else []))
