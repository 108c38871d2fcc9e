"""Readers of ``.npy`` and ``.npz`` files, and of sparse matrices that SciPy saves as ``.npz``."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxnorm.core.types import Array
from maxnorm.streams.columns import select_columns
from maxnorm.streams.file_checks import (
    fold_shape,
    require_numeric_type,
    require_proportional,
    require_row_fits,
    resolve_key,
)
from maxnorm.streams.memory import open_array, open_sparse
from maxnorm.streams.sparse_checks import SPARSE_PARTS, build_sparse
from maxnorm.streams.stream import Columns, Stream, StreamError, rows_per_read

SKIPPED_BYTES = 2**22  # bytes of a compressed file that are decompressed at a time to skip them
NPY_MAGIC = b"\x93NUMPY"
MOST_HEADER_BYTES = 2**16  # of an array in NumPy's format; NumPy itself refuses more than 10,000
SPARSE_COPIES = 5  # of a sparse matrix that are in memory while it is converted to rows
SPARSE_MEMBERS = {"format", "data", "shape"}  # members of every file by scipy.sparse.save_npz


@dataclass(frozen=True)
class _NpyHeader:
    """The header of an array in NumPy's format.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    is_fortran : bool
        Whether the first index varies fastest.
    dtype : numpy dtype
        Type of the entries.
    offset : int
        Bytes before the first entry.
    """

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def array_bytes(self) -> int:
        """Size of the array, as a Python integer, which cannot overflow."""
        return math.prod(self.shape) * self.dtype.itemsize


def open_npy(path: Path, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Return a stream over a ``.npy`` file.

    Each batch is read with a read call of its own. A memory map of the whole file would be simpler, but the
    pages that it has touched count as memory of the process. Only a file in the order opposite to the
    samples (Fortran order, or C order with ``transpose``) is mapped, because its rows are not contiguous.
    """
    title = str(path)
    with path.open("rb") as file:
        header = _read_npy_header(file, title)
    n, p = fold_shape(header.shape, title, transpose=transpose)
    require_numeric_type(header.dtype, title)
    require_row_fits(p, title)
    selection = select_columns(columns, None, p, title)
    row_bytes = p * header.dtype.itemsize
    available = path.stat().st_size - header.offset
    if available < header.array_bytes:
        complete = available // row_bytes if header.is_fortran == transpose else 0
        raise _truncated(title, complete, n)
    size = rows_per_read(batch_size, p)

    def read_rows(start: int, count: int) -> Array:
        if header.is_fortran == transpose:  # the entries of a sample are contiguous
            flat = np.fromfile(path, header.dtype, count * p, offset=header.offset + start * row_bytes)
            if len(flat) < count * p:
                raise _truncated(title, start + len(flat) // p, n)
            return flat.reshape(count, p)
        whole = np.load(path, mmap_mode="r", allow_pickle=False)
        return np.array((whole.T if transpose else whole)[start : start + count], order="C").reshape(count, p)

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
                if file.read(len(NPY_MAGIC)) == NPY_MAGIC:
                    file.seek(0)
                    headers[member.removesuffix(".npy")] = _read_npy_header(
                        file, f"{title}, member {member!r}"
                    )
        if set(headers) >= SPARSE_MEMBERS and key is None:
            _require_proportional_parts(archive, headers, title)
            parts = {
                name: _load_member(archive, name, headers[name], title)
                for name in sorted(SPARSE_PARTS & set(headers))
            }
            matrix = build_sparse(parts, title)
            require_row_fits(matrix.shape[0 if transpose else 1], title)
            return open_sparse(matrix, title, batch_size=batch_size, columns=columns, transpose=transpose)
        shapes = {name: header.shape for name, header in headers.items()}
        name = resolve_key(key, shapes, title, folds=not transpose)
        header, array_title = headers[name], f"{title}, array {name!r}"
        n, p = fold_shape(header.shape, array_title, transpose=transpose)
        require_numeric_type(header.dtype, array_title)
        if header.is_fortran != transpose:  # the entries of a sample are scattered over the whole member
            whole = _load_member(archive, name, header, title)
            whole = whole if transpose else whole.reshape(n, p)
            return open_array(whole, title, batch_size=batch_size, columns=columns, transpose=transpose)
        member = _member_name(archive, name)
        _require_complete(archive.getinfo(member), header, array_title)
    require_row_fits(p, array_title)
    selection = select_columns(columns, None, p, title)
    size = rows_per_read(batch_size, p)
    row_bytes = p * header.dtype.itemsize

    def source(start: int) -> Iterator[Array]:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            _skip_bytes(file, header.offset + start * row_bytes)
            for i in range(start, n, size):
                rows = min(size, n - i)
                content = file.read(rows * row_bytes)
                if len(content) < rows * row_bytes:
                    raise _truncated(title, i + len(content) // row_bytes, n)
                yield selection.take(np.frombuffer(content, header.dtype).reshape(rows, p))

    return Stream(source, title, n_samples=n, n_features=selection.n_features)


def _require_proportional_parts(
    archive: zipfile.ZipFile, headers: Mapping[str, _NpyHeader], title: str
) -> None:
    """Raise a StreamError if the parts of a sparse matrix together expand enormously."""
    names = SPARSE_PARTS & set(headers)
    require_proportional(
        sum(max(0, headers[name].array_bytes) for name in names),
        sum(archive.getinfo(_member_name(archive, name)).compress_size for name in names),
        f"{title}, sparse matrix",
        "save it without compression",
        n_copies=SPARSE_COPIES,
    )


def _read_npy_header(file: Any, title: str) -> _NpyHeader:
    """Return the header of an array in NumPy's format."""
    try:
        is_version_1 = np.lib.format.read_magic(file) == (1, 0)
        _check_header_size(file, 2 if is_version_1 else 4)
        read = np.lib.format.read_array_header_1_0 if is_version_1 else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError) as error:
        # MemoryError and RecursionError are raised for a header with deeply nested brackets.
        raise StreamError(f"{title}: is damaged, or is not a file of NumPy: {error}") from error
    return _NpyHeader(tuple(shape), is_fortran, dtype, file.tell())


def _check_header_size(file: Any, n_bytes: int) -> None:
    """Refuse a header that says it is long, for which NumPy would take the memory before it reads it."""
    position = file.tell()
    size = int.from_bytes(file.read(n_bytes), "little")
    file.seek(position)
    if size > MOST_HEADER_BYTES:
        raise ValueError(f"its header would have {size:,} bytes")


def _load_member(archive: zipfile.ZipFile, name: str, header: _NpyHeader, title: str) -> Array:
    """Return an array of an archive as a whole, if its size is plausible."""
    member, member_title = archive.getinfo(_member_name(archive, name)), f"{title}, array {name!r}"
    if header.dtype.hasobject:
        raise StreamError(
            f"{member_title}: holds Python objects, which are not read; save an array of numbers"
        )
    _require_complete(member, header, member_title)
    require_proportional(
        header.array_bytes,
        member.compress_size,
        member_title,
        "save a dense array in C order with numpy.ascontiguousarray, or either kind without compression",
    )
    with archive.open(member) as file:
        _skip_bytes(file, header.offset)
        content = file.read(header.array_bytes)
    if len(content) < header.array_bytes:
        raise StreamError(f"{member_title}: ends before its last entry; the file is truncated")
    return np.frombuffer(content, header.dtype).reshape(header.shape, order="F" if header.is_fortran else "C")


def _member_name(archive: zipfile.ZipFile, name: str) -> str:
    """Return the name that an array has in the archive."""
    return f"{name}.npy" if f"{name}.npy" in archive.namelist() else name


def _require_complete(member: zipfile.ZipInfo, header: _NpyHeader, title: str) -> None:
    """Raise a StreamError if a member of an archive is shorter than the array that it declares."""
    if any(length < 0 for length in header.shape) or header.offset + header.array_bytes > member.file_size:
        raise StreamError(
            f"{title}: declares an array of shape {header.shape} and type {header.dtype}, but has only "
            f"{member.file_size} bytes; the file is damaged or truncated"
        )


def _skip_bytes(file: Any, count: int) -> None:
    """Read and drop ``count`` bytes, or as many as the file still has."""
    while count and (content := file.read(min(count, SKIPPED_BYTES))):
        count -= len(content)


def _truncated(title: str, row: int, n_rows: int) -> StreamError:
    return StreamError(f"{title}: ends within row {row} of {n_rows}; the file is truncated")
