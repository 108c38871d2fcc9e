"""``open_stream``, which chooses the reader for a source of samples.

Readers are imported when they are needed, so that a wrong path is reported without waiting for NumPy, SciPy
and the libraries of file formats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import Any

from maxnorm.streams.stream import Columns, NotInstalled, Stream, StreamError, out_of_memory


def _reader(module: str, function: str) -> Callable[..., Stream]:
    """Return a reader that imports its module of this package when it is called."""

    def read(path: Path | None, **options: Any) -> Stream:
        return getattr(import_module(f"maxnorm.streams.{module}"), function)(path, **options)

    return read


_open_text = _reader("text_files", "open_text")
_open_parquet = _reader("columnar_files", "open_parquet")
_open_arrow = _reader("columnar_files", "open_arrow")
_open_hdf5 = _reader("chunked_files", "open_hdf5")
_open_mat = _reader("matlab_files", "open_mat")
_open_hspy = _reader("hyperspy_files", "open_hspy")

READERS_OF_ONE_ARRAY: dict[str, Callable[..., Stream]] = {
    ".npy": _reader("numpy_files", "open_npy"),
    ".csv": _open_text,
    ".tsv": _open_text,
    ".txt": _open_text,
    ".dat": _open_text,
    ".parquet": _open_parquet,
    ".pq": _open_parquet,
    ".arrow": _open_arrow,
    ".feather": _open_arrow,
}
READERS_OF_SEVERAL_ARRAYS: dict[str, Callable[..., Stream]] = {  # these take a key
    ".npz": _reader("numpy_files", "open_npz"),
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
    ".hdf": _open_hdf5,
    ".hspy": _open_hspy,
    ".zarr": _reader("chunked_files", "open_zarr"),
    ".mat": _open_mat,
}


def open_stream(
    x: Any,
    *,
    batch_size: int | None = None,
    columns: Columns = None,
    key: str | None = None,
    transpose: bool = False,
    header: bool | None = None,
    external: bool = False,
) -> Stream:
    """Open a file, an array or another source of samples as a stream of batches.

    Estimators accept the stream wherever they accept an array, and read it batch by batch, so that data may
    be larger than memory. Batches have shape (rows, n_features), and missing entries are NaN.

    Parameters
    ----------
    x : path, array, data frame, sparse matrix, Dask collection, iterable, callable or Stream
        The source of samples, one sample per row:

        - the path of a file: ``.npy``, ``.npz``; ``.csv``, ``.tsv``, ``.txt`` or ``.dat``, also compressed
          with gzip (``.csv.gz``); ``.parquet``, ``.pq``, ``.arrow``, ``.feather``; ``.h5``, ``.hdf5``,
          ``.hdf``; ``.hspy``; ``.zarr``; ``.mat``.
          An array of more dimensions in a NumPy, HDF5 or Zarr file has one sample per item of its first axis,
          whose entries in C order are the features. A signal of HyperSpy (``.hspy``) has one sample per
          position of its navigation axes;
        - the path of a folder of Parquet files, which are read in the order of their paths;
        - ``"-"`` for text on standard input, or the path of a pipe;
        - a NumPy array, masked array or memory map, a pandas data frame, or a SciPy sparse matrix;
        - a Dask array or data frame, which is computed block by block in this process;
        - an iterable of rows, of two-dimensional batches, or of records (dictionaries with one number per
          feature). An iterator can be read only once;
        - a function without arguments that returns such an iterable. It is called for every pass;
        - a Stream, which is returned unchanged. The other arguments are then ignored.

    batch_size : int or None, default=None
        Number of samples per batch. It does not influence the fitted model. None stands for about a million
        entries (8 MB of float64), in whole chunks of a chunked file; for the blocks of a Dask collection; and
        for the batches of an iterable, whose single rows are collected in groups of 100. A batch of standard
        input or of a pipe ends half a second after its first sample has arrived, even if it has fewer
        samples.
    columns : slice, int, str, sequence of int, str or bool, or None, default=None
        The features to read, by name or position, in this order. Positions are counted from 0, and negative
        ones from the end. A string of digits that is not a name is a position. None reads all features,
        without the row labels that pandas writes into CSV and Parquet files. If ``transpose`` is True, the
        features are the rows of the source.
    key : str or None, default=None
        Name of the array to read from a file that holds several (``.npz``, HDF5, Zarr, MATLAB), or of the
        signal (``.hspy``). None reads the only array with two dimensions. If there is none, it reads the only
        one with more, except from MATLAB files.
    transpose : bool, default=False
        Whether samples are the columns of the source instead of its rows. Text, Parquet and Arrow files are
        then read once per batch. Iterables, pipes and standard input cannot be transposed.
    header : bool or None, default=None
        Whether the first line of a text file holds the names of the columns. None detects it: the first line
        is a header if it has a word where the second line has a number, or if it counts 0, 1, 2 and so on.
        A second line of units, with words where the third line has numbers, is left out. Other formats
        ignore ``header``.
    external : bool, default=False
        Whether an HDF5 or MATLAB v7.3 file may refer to other files, by external links, external storage or
        virtual datasets. By default such a dataset is refused, because a file from an untrusted source could
        name any file that you can read. Other formats ignore ``external``.

    Returns
    -------
    Stream
        An iterable of batches, with attributes ``n_samples``, ``n_features`` and ``names``, which are None
        where they are unknown, and ``remarks``, the decisions that were made while opening the source.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    StreamError
        If the source is damaged, empty or not numeric, if its extension is not supported, or if ``columns``
        or ``key`` does not exist. It is a subclass of ValueError. Errors in the middle of a source are
        raised when the stream gets there.
    ImportError
        If the format needs a package that is not installed. The message names the command that installs it.
    TypeError
        If ``x`` is of a type that cannot be read.
    ValueError
        If ``batch_size`` is not a positive integer, or if ``key`` or ``transpose`` is set for a source that
        does not support it.

    See Also
    --------
    Stream : The type of the result.

    Notes
    -----
    No source is loaded as a whole, apart from variables of MATLAB files before v7.3, sparse matrices in
    ``.npz`` files, and arrays of ``.npz`` files whose samples are not contiguous (Fortran order, or C order
    with ``transpose=True``).

    Batches of a sparse matrix are sparse. For ``MaxNormCompletion``, entries that are not stored are
    missing; for the other estimators, they are zero.

    Examples
    --------
    Write a small CSV file with one missing entry, and read it two samples at a time:

    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from maxnorm import open_stream
    >>> folder = TemporaryDirectory()
    >>> path = Path(folder.name) / "readings.csv"
    >>> lines = ["time,inlet,outlet", "0,20.5,19.0", "1,21.0,", "2,20.0,18.5"]
    >>> _ = path.write_text("\\n".join(lines))
    >>> stream = open_stream(path, columns=["inlet", "outlet"], batch_size=2)
    >>> stream.names
    ('inlet', 'outlet')
    >>> for batch in stream:
    ...     print(batch)
    [[20.5 19. ]
     [21.   nan]]
    [[20.  18.5]]
    >>> folder.cleanup()

    Fit an estimator to samples that a function generates. The function is called once per pass:

    >>> from maxnorm import MaxNormDecomposition
    >>> def simulate():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(500):
    ...         yield rng.standard_normal() * np.arange(1.0, 11.0)
    >>> model = MaxNormDecomposition(n_components=1, n_epochs=2, random_state=0)
    >>> model.fit(open_stream(simulate)).n_samples_seen_
    1000
    """
    if isinstance(x, Stream):
        return x
    if not _is_batch_size(batch_size):
        raise ValueError(f"batch_size must be an integer of at least 1 or None, got {batch_size!r}")
    options: dict[str, Any] = {"batch_size": batch_size, "columns": columns, "transpose": transpose}
    if isinstance(x, str | os.PathLike):
        return _open_path(x, key, header, external, options)
    title = type(x).__name__
    if key is not None:
        raise ValueError(
            f"key={key!r} names an array in a file that holds several, but x is of type {title}; leave key "
            "at None"
        )
    return _open_object(x, title, options)


def _open_object(x: Any, title: str, options: dict[str, Any]) -> Stream:
    """Open an object in memory with the reader for its type."""
    import numpy as np
    import scipy.sparse as sp

    from maxnorm.streams import memory

    if sp.issparse(x):
        return memory.open_sparse(x, title, **options)
    if memory.is_dask(x):
        return memory.open_dask(x, f"Dask {title}", **options)
    if hasattr(x, "iloc") and hasattr(x, "columns"):
        return memory.open_frame(x, title, **options)
    if isinstance(x, np.ndarray):
        if isinstance(x, np.ma.MaskedArray):
            x = np.where(np.ma.getmaskarray(x), np.nan, x.data)
        memory.require_two_dimensions(x.shape, "array")
        return memory.open_array(
            memory.to_numeric(x, "array"), "array", in_background=isinstance(x, np.memmap), **options
        )
    if options.pop("transpose"):
        raise ValueError(
            f"transpose=True needs a source that can be read by columns, but a {title} yields rows; pass an "
            "array or a file"
        )
    if isinstance(x, Iterable) or callable(x):
        return memory.open_iterable(x, title, **options)
    raise TypeError(
        f"cannot read samples from x of type {title}; pass a path, an array, a data frame, a sparse matrix, "
        "a Dask collection or an iterable of rows"
    )


def _open_path(
    x: str | os.PathLike[str], key: str | None, header: bool | None, external: bool, options: dict[str, Any]
) -> Stream:
    """Open a file, a folder, a pipe or standard input with the reader for its extension."""
    if os.fspath(x) == "-":
        return _open_text(None, header=header, **options)
    path = Path(x)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    suffix = (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()
    if path.is_dir():
        suffix = ".zarr" if _is_zarr(path) else ".parquet"
    reader = READERS_OF_ONE_ARRAY.get(suffix) or READERS_OF_SEVERAL_ARRAYS.get(suffix)
    is_pipe = not path.is_file()
    if reader is None and is_pipe:
        reader = _open_text
    if reader is None:
        supported = ", ".join([*READERS_OF_ONE_ARRAY, *READERS_OF_SEVERAL_ARRAYS])
        raise StreamError(
            f"{path}: the extension {suffix!r} does not name a format that can be read; supported are "
            f"{supported}"
        )
    if reader is _open_text:
        options["header"] = header
    if reader in (_open_hdf5, _open_hspy, _open_mat):
        options["external"] = external
    if suffix in READERS_OF_SEVERAL_ARRAYS:
        options["key"] = key
    elif key is not None:
        raise ValueError(
            f"key={key!r} names an array in a file that holds several, but {path} holds only one; leave key "
            "at None"
        )
    try:
        return reader(path, **options)
    except (StreamError, NotInstalled, PermissionError):
        raise
    except MemoryError as error:
        raise out_of_memory(str(path), error) from error
    except Exception as error:  # each file library has exceptions of its own
        raise StreamError(
            f"{path}: is damaged, or its extension does not match its content: {error}"
        ) from error


def _is_batch_size(value: Any) -> bool:
    return value is None or (isinstance(value, Integral) and int(value) >= 1)


def _is_zarr(path: Path) -> bool:
    """Return whether a folder is a Zarr store, of version 3 or 2."""
    return any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup"))
