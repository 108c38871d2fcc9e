"""``open_stream``: one way in for everything that holds samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxnorm.streams import array_files, columnar_files, memory, text_files
from maxnorm.streams.stream import Columns, NotInstalled, Stream, StreamError

KEYED = {
    ".npz": array_files.npz_stream,
    ".h5": array_files.hdf5_stream,
    ".hdf5": array_files.hdf5_stream,
    ".hdf": array_files.hdf5_stream,
    ".zarr": array_files.zarr_stream,
    ".mat": array_files.mat_stream,
}
PLAIN = {
    ".npy": array_files.npy_stream,
    ".csv": text_files.text_stream,
    ".tsv": text_files.text_stream,
    ".txt": text_files.text_stream,
    ".dat": text_files.text_stream,
    ".parquet": columnar_files.parquet_stream,
    ".pq": columnar_files.parquet_stream,
    ".arrow": columnar_files.arrow_stream,
    ".feather": columnar_files.arrow_stream,
}


def open_stream(
    x: Any,
    *,
    batch_size: int | None = None,
    columns: Columns = None,
    key: str | None = None,
    transpose: bool = False,
    header: bool | None = None,
) -> Stream:
    """Open anything that holds samples as a stream of batches.

    Nothing is read whole, apart from MATLAB files older than v7.3, which cannot be read otherwise, and
    arrays in a ``.npz`` whose samples do not lie one after the other.

    Parameters
    ----------
    x : path, array, data frame, sparse matrix, Dask collection, iterable or function
        A file (``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.txt``, each also ``.gz``; ``.parquet`` or a folder
        of these; ``.arrow``, ``.feather``; ``.h5``; ``.zarr``; ``.mat``), ``"-"`` for CSV on standard input,
        an array or memory-map, a pandas data frame, a SciPy sparse matrix, a Dask array or data frame, or an
        iterable of rows or batches. A function without arguments that returns an iterable can be read
        several times.
    batch_size : int or None
        Samples a batch. None takes about eight megabytes, or what an iterable yields. It has no influence
        on what is learnt.
    columns : slice, int, str or sequence of these, or None
        Features to take, by position or name; None takes all. Digits that are no name are a position. A
        first column without a name in a CSV file is taken for row labels, as pandas writes them, and left
        out.
    key : str or None
        Which array, in formats that hold several.
    transpose : bool
        Whether samples are columns. Text and Parquet are then read once for every batch.
    header : bool or None
        Whether the first line of text names the columns. None looks: it does if it has words where the second
        line has numbers, or counts 0, 1, 2.

    Returns
    -------
    Stream
        Yields batches; has ``n_samples``, ``n_features`` and ``names`` where they are known.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import open_stream
    >>> stream = open_stream(np.ones((5, 2)), batch_size=2)
    >>> [batch.shape for batch in stream]
    [(2, 2), (2, 2), (1, 2)]
    """
    if isinstance(x, Stream):
        return x
    if batch_size is not None and (not isinstance(batch_size, int | np.integer) or batch_size < 1):
        raise ValueError(f"batch_size must be an integer of at least 1 or None, got {batch_size!r}")
    options: dict[str, Any] = {"batch_size": batch_size, "columns": columns, "transpose": transpose}
    if isinstance(x, str | os.PathLike):
        return _open_path(x, key, header, options)
    if key is not None:
        raise ValueError(f"key={key!r} is for files that hold several arrays, not for a {type(x).__name__}")
    title = type(x).__name__
    if sp.issparse(x):
        return memory.sparse_stream(x, title, **options)
    if memory.is_dask(x):
        return memory.dask_stream(x, f"Dask {title}", **options)
    if hasattr(x, "iloc") and hasattr(x, "columns"):
        return memory.frame_stream(x, title, **options)
    if isinstance(x, np.ndarray):
        if isinstance(x, np.ma.MaskedArray):
            x = np.where(np.ma.getmaskarray(x), np.nan, x.data)
        memory.require_two_dimensions(x.shape, "array")
        return memory.array_stream(
            memory.numeric(x, "array"), "array", in_background=isinstance(x, np.memmap), **options
        )
    if transpose:
        raise ValueError("transpose=True needs samples that can be read by columns; an iterable yields rows")
    if isinstance(x, Iterable) or callable(x):
        return memory.iterable_stream(x, title, batch_size=batch_size, columns=columns)
    raise TypeError(
        f"cannot read samples from a {title}; pass a path, an array, a data frame, a sparse matrix, a Dask "
        "collection or an iterable of rows"
    )


def _open_path(
    x: str | os.PathLike[str], key: str | None, header: bool | None, options: dict[str, Any]
) -> Stream:
    if os.fspath(x) == "-":
        return text_files.text_stream(None, header=header, **options)
    path = Path(x)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    suffix = (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()
    if path.is_dir():
        suffix = ".zarr" if _is_zarr(path) else ".parquet"
    reader: Callable[..., Stream] | None = KEYED.get(suffix) or PLAIN.get(suffix)
    if reader is None and not path.is_file():  # a pipe
        reader = text_files.text_stream
    if reader is None:
        known = ", ".join([*PLAIN, *KEYED])
        raise StreamError(f"{path}: cannot tell its format by its name; known are {known}")
    if reader is text_files.text_stream:
        options["header"] = header
    if suffix in KEYED:
        options["key"] = key
    elif key is not None:
        raise ValueError(f"key={key!r} is for files that hold several arrays, which {path} is not")
    try:
        return reader(path, **options)
    except (StreamError, NotInstalled, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # each format's library has errors of its own
        raise StreamError(f"{path}: is damaged, or not what its name says: {error}") from error


def _is_zarr(path: Path) -> bool:
    return any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup"))
