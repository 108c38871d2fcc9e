"""Readers of files that hold arrays: ``.npy``, ``.npz``, HDF5, Zarr and MATLAB."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxnorm.core.types import Array
from maxnorm.streams.columns import select_columns
from maxnorm.streams.memory import (
    NUMERIC_KINDS,
    open_array,
    open_sparse,
    require_two_dimensions,
    to_numeric,
)
from maxnorm.streams.stream import Columns, Stream, StreamError, needs, rows_per_read

SKIPPED_BYTES = 2**22  # bytes of a compressed file that are decompressed at a time to skip them
MOST_ARRAYS_SHOWN = 10  # in an error message
SPARSE_MEMBERS = {"format", "indptr", "data", "shape"}  # members of a file by scipy.sparse.save_npz


def open_npy(path: Path, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Return a stream over a ``.npy`` file.

    Each batch is read with a read call of its own. A memory map of the whole file would be simpler, but the
    pages that it has touched count as memory of the process. Only a file in the order opposite to the
    samples (Fortran order, or C order with ``transpose``) is mapped, because its rows are not contiguous.
    """
    title = str(path)
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    require_two_dimensions(mapped.shape, title)
    _require_numeric_type(mapped.dtype, title)
    n, p = mapped.shape[::-1] if transpose else mapped.shape
    dtype, offset = mapped.dtype, int(mapped.offset)
    rows_contiguous = mapped.flags.f_contiguous if transpose else mapped.flags.c_contiguous
    del mapped
    selection = select_columns(columns, None, p, title)
    size = rows_per_read(batch_size, p)

    def read_rows(start: int, count: int) -> Array:
        if rows_contiguous:
            flat = np.fromfile(path, dtype, count * p, offset=offset + start * p * dtype.itemsize)
            if len(flat) < count * p:
                raise _truncated(title, start + len(flat) // p, n)
            return flat.reshape(count, p)
        whole = np.load(path, mmap_mode="r")
        return np.array((whole.T if transpose else whole)[start : start + count], order="C")

    def source(start: int) -> Iterator[Array]:
        for i in range(start, n, size):
            yield selection.take(read_rows(i, min(size, n - i)))

    return Stream(source, title, n_samples=n, n_features=selection.n_features)


def open_npz(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool
) -> Stream:
    """Return a stream over one array of a ``.npz`` file, or over a matrix of ``scipy.sparse.save_npz``.

    An array is decompressed batch by batch if its samples are contiguous. Otherwise it is loaded as a whole.
    """
    title = str(path)
    with zipfile.ZipFile(path) as archive:
        headers = {}
        for member in archive.namelist():
            with archive.open(member) as file:
                headers[member.removesuffix(".npy")] = _read_npy_header(file)
        if set(headers) >= SPARSE_MEMBERS and key is None:
            return open_sparse(
                sp.load_npz(path), title, batch_size=batch_size, columns=columns, transpose=transpose
            )
        name = resolve_key(key, {k: shape for k, (shape, _, _) in headers.items()}, title)
    shape, is_fortran, dtype = headers[name]
    _require_numeric_type(dtype, f"{title}, array {name!r}")
    if is_fortran != transpose:  # the entries of a sample are scattered over the whole member
        with np.load(path, allow_pickle=False) as loaded:
            whole = loaded[name]
        return open_array(whole, title, batch_size=batch_size, columns=columns, transpose=transpose)
    n, p = shape[::-1] if transpose else shape
    selection = select_columns(columns, None, p, title)
    size = rows_per_read(batch_size, p)
    member = name if name.endswith(".npy") else f"{name}.npy"
    row_bytes = p * dtype.itemsize

    def source(start: int) -> Iterator[Array]:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            _read_npy_header(file)
            _skip_bytes(file, start * row_bytes)
            for i in range(start, n, size):
                rows = min(size, n - i)
                content = file.read(rows * row_bytes)
                if len(content) < rows * row_bytes:
                    raise _truncated(title, i + len(content) // row_bytes, n)
                yield selection.take(np.frombuffer(content, dtype).reshape(rows, p))

    return Stream(source, title, n_samples=n, n_features=selection.n_features)


def _read_npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, Fortran order and type of a ``.npy`` file; the array follows at the file's position."""
    is_version_1 = np.lib.format.read_magic(file) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_version_1 else np.lib.format.read_array_header_2_0
    return read(file)


def _skip_bytes(file: Any, count: int) -> None:
    """Read and drop ``count`` bytes, or as many as the file still has."""
    while count and (content := file.read(min(count, SKIPPED_BYTES))):
        count -= len(content)


def _truncated(title: str, row: int, n_rows: int) -> StreamError:
    return StreamError(f"{title}: ends within row {row} of {n_rows}; the file is truncated")


def _require_numeric_type(dtype: np.dtype[Any], title: str) -> None:
    if dtype.kind not in NUMERIC_KINDS:
        raise StreamError(f"{title}: must be numeric, not {dtype}; convert it to numbers")


def open_hdf5(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool
) -> Stream:
    """Return a stream over one dataset of an HDF5 file, or one variable of a MATLAB v7.3 file.

    A MATLAB v7.3 file is an HDF5 file whose arrays are stored transposed. By default, whole chunks are read.
    """
    h5py = needs("h5py", "reading HDF5")
    title = str(path)
    is_matlab = path.suffix.lower() == ".mat"
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: Any) -> None:
        # MATLAB keeps internal data in groups whose names begin with "#".
        if isinstance(item, h5py.Dataset) and item.dtype.kind in NUMERIC_KINDS and not name.startswith("#"):
            shapes[name] = item.shape

    with h5py.File(path, "r") as file:
        file.visititems(visit)
        name = resolve_key(None if key is None else key.strip("/"), shapes, title)
        shape, chunks = file[name].shape, file[name].chunks
    samples_in_columns = transpose != is_matlab
    n, p = shape[::-1] if samples_in_columns else shape
    selection = select_columns(columns, None, p, title)
    size = rows_per_read(batch_size, p, 1 if chunks is None else chunks[1 if samples_in_columns else 0])

    def source(start: int) -> Iterator[Array]:
        with h5py.File(path, "r") as file:
            data = file[name]
            for i in range(start, n, size):
                yield selection.take(data[:, i : i + size].T if samples_in_columns else data[i : i + size])

    return Stream(source, title, n_samples=n, n_features=selection.n_features)


def open_zarr(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool
) -> Stream:
    """Return a stream over a Zarr array, or over one array in the groups of a Zarr store.

    By default, whole chunks are read.
    """
    zarr = needs("zarr", "reading Zarr")
    title = str(path)
    node = zarr.open(path, mode="r")
    if isinstance(node, zarr.Group):
        shapes = {
            name: item.shape for name, item in node.members(max_depth=None) if isinstance(item, zarr.Array)
        }
        node = node[resolve_key(None if key is None else key.strip("/"), shapes, title)]
    require_two_dimensions(node.shape, title)
    _require_numeric_type(node.dtype, title)
    n, p = node.shape[::-1] if transpose else node.shape
    selection = select_columns(columns, None, p, title)
    size = rows_per_read(batch_size, p, node.chunks[1 if transpose else 0])

    def source(start: int) -> Iterator[Array]:
        for i in range(start, n, size):
            batch = np.asarray(node[:, i : i + size]).T if transpose else np.asarray(node[i : i + size])
            yield selection.take(batch)

    return Stream(source, title, n_samples=n, n_features=selection.n_features)


def open_mat(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool
) -> Stream:
    """Return a stream over one variable of a MATLAB file.

    A variable of a file before v7.3 is loaded as a whole, because that format cannot be read in parts. Such
    a variable has at most 2 GB.
    """
    import scipy.io
    from scipy.io.matlab import matfile_version

    title = str(path)
    is_hdf5 = matfile_version(path)[0] == 2
    if is_hdf5:
        return open_hdf5(path, batch_size=batch_size, columns=columns, key=key, transpose=transpose)
    name = resolve_key(key, {name: shape for name, shape, _ in scipy.io.whosmat(path)}, title)
    whole = scipy.io.loadmat(path, variable_names=[name])[name]
    if not hasattr(whole, "tocsr"):
        whole = to_numeric(whole, title)
    return open_array(
        whole, title, batch_size=batch_size, columns=columns, transpose=transpose, in_background=False
    )


def resolve_key(key: str | None, shapes: Mapping[str, Sequence[int]], title: str) -> str:
    """Return the name of the array to read from a file that may hold several.

    Parameters
    ----------
    key : str or None
        Name of the array. None selects the only array with two dimensions.
    shapes : mapping of str to sequence of int
        Name and shape of every array in the file.
    title : str
        Name of the file in error messages.

    Returns
    -------
    str

    Raises
    ------
    StreamError
        If the array does not exist or is not two-dimensional, or if ``key`` is None and the number of
        two-dimensional arrays is not one.
    """
    if key is not None:
        if key not in shapes:
            raise StreamError(f"{title}: key={key!r} names no array; the file holds {_list_arrays(shapes)}")
        require_two_dimensions(tuple(shapes[key]), f"{title}, {key}")
        return key
    tables = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    if not tables:
        raise StreamError(
            f"{title}: holds no two-dimensional array of samples x features, but {_list_arrays(shapes)}"
        )
    if len(tables) > 1:
        raise StreamError(
            f"{title}: holds {len(tables)} two-dimensional arrays; set key to one of {_list_arrays(tables)}"
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
