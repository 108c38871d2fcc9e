"""Reader of MATLAB files.

Files since v7.3 are HDF5 files. The variables of files before v7.3 are read here and not with
``scipy.io.loadmat``, which allocates what a damaged file declares and returns sparse matrices unchecked.

The format of versions 5 to 7 is described in "MAT-File Format" by The MathWorks. A file is a header of 128
bytes and a sequence of elements: a type, a number of bytes, and data. A variable is an element of type
MATRIX, which is made of further elements: flags, dimensions, a name, and the values. It may be wrapped in an
element of type COMPRESSED.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxnorm.core.types import Array
from maxnorm.streams.file_checks import require_plausible_shape, require_proportional, resolve_key
from maxnorm.streams.memory import open_array, open_sparse
from maxnorm.streams.sparse_checks import build_sparse
from maxnorm.streams.stream import Columns, Stream, StreamError

HEADER_BYTES = 128
TAG_BYTES = 8
MATRIX, COMPRESSED = 14, 15  # types of elements
NUMBERS = {  # types of elements that hold numbers
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
CLASSES = {  # classes of variables that hold numbers
    5: "f8", 6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
SPARSE = 5  # class of sparse matrices
COMPLEX_FLAG, LOGICAL_FLAG = 0x800, 0x200
DESCRIPTION_BYTES = 4096  # of a variable, enough for its flags, dimensions and name
VERSION_4_HEADER_BYTES = 20
VERSION_4_NUMBERS = ("f8", "f4", "i4", "i2", "u2", "u1")
VERSION_4_SPARSE = 2  # type of sparse matrices
SAVE_IN_V73 = "save it in format v7.3, which can be read in parts"
LARGEST_NAME_BYTES = 2**16  # of a variable; MATLAB allows 63


def open_mat(
    path: Path,
    *,
    batch_size: int | None,
    columns: Columns,
    key: str | None,
    transpose: bool,
    external: bool = False,
) -> Stream:
    """Return a stream over one variable of a MATLAB file.

    A variable of a file before v7.3 is loaded as a whole, because that format cannot be read in parts. Such
    a variable has at most 2 GB.
    """
    version = _version(path)
    if version == 7.3:
        from maxnorm.streams.chunked_files import open_hdf5

        return open_hdf5(
            path, batch_size=batch_size, columns=columns, key=key, transpose=transpose, external=external
        )
    title = str(path)
    whole = _load_version_5(path, key, title) if version == 5 else _load_version_4(path, key, title)
    if sp.issparse(whole):
        return open_sparse(whole, title, batch_size=batch_size, columns=columns, transpose=transpose)
    return open_array(
        whole, title, batch_size=batch_size, columns=columns, transpose=transpose, in_background=False
    )


def _version(path: Path) -> float:
    """Return the version of a MATLAB file: 4, 5 (which stands for 5 to 7) or 7.3."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if len(header) < VERSION_4_HEADER_BYTES:
        raise StreamError(f"{path}: is too short for a MATLAB file; the file is truncated")
    if 0 in header[:4]:  # the header of version 5 begins with text
        return 4
    major = header[125 if header[126:] == b"IM" else 124] if len(header) == HEADER_BYTES else 0
    if major not in (1, 2):
        raise StreamError(f"{path}: is damaged, or is not a MATLAB file")
    return 5 if major == 1 else 7.3


@dataclass(frozen=True)
class _Variable:
    """A variable of a MATLAB file.

    Parameters
    ----------
    name : str
        Name of the variable.
    shape : tuple of int
        Its dimensions.
    dtype : str
        NumPy type of its entries.
    is_sparse : bool
        Whether it is a sparse matrix.
    is_complex : bool
        Whether it has imaginary parts.
    offset : int
        Position of its data in the file.
    stored_bytes : int
        Number of bytes of its data.
    is_compressed : bool, default=False
        Whether the data are compressed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_sparse: bool
    is_complex: bool
    offset: int
    stored_bytes: int
    is_compressed: bool = False


def _select(variables: Iterable[_Variable], key: str | None, title: str) -> _Variable:
    """Return the variable to read, after checking what it declares."""
    known = {variable.name: variable for variable in variables}
    variable = known[resolve_key(key, {name: v.shape for name, v in known.items()}, title)]
    title = f"{title}, variable {variable.name!r}"
    require_plausible_shape(variable.shape, title)
    if variable.is_complex:
        raise StreamError(f"{title}: is complex; save its real part or its absolute values")
    if not variable.is_sparse:
        n_bytes = math.prod(variable.shape) * np.dtype(variable.dtype).itemsize
        require_proportional(n_bytes, variable.stored_bytes, title, SAVE_IN_V73)
    return variable


def _load_version_5(path: Path, key: str | None, title: str) -> Any:
    """Return a numeric variable of a file of versions 5 to 7, an array or a sparse matrix."""
    with path.open("rb") as file:
        order = "<" if file.read(HEADER_BYTES)[126:] == b"IM" else ">"
        variable = _select(_list_version_5(file, order, title), key, title)
        title = f"{title}, variable {variable.name!r}"
        file.seek(variable.offset)
        content = file.read(variable.stored_bytes)
    if variable.is_compressed:
        content = _decompress(content, order, title)
    _, at = _read_element(content, 0, order, title)  # flags
    _, at = _read_element(content, at, order, title)  # dimensions
    _, at = _read_element(content, at, order, title)  # name
    if not variable.is_sparse:
        values, _ = _read_element(content, at, order, title)
        if len(values) != math.prod(variable.shape):
            raise _damaged(title, f"it has {len(values)} entries for the shape {variable.shape}")
        return values.astype(variable.dtype, copy=False).reshape(variable.shape, order="F")
    rows, at = _read_element(content, at, order, title)
    indptr, at = _read_element(content, at, order, title)
    # MATLAB marks the entries of a logical sparse matrix as float64, although each is a byte.
    values, _ = _read_element(content, at, order, title, "u1" if variable.dtype == "u1" else None)
    n_entries = int(indptr[-1]) if len(indptr) else 0
    parts = {  # MATLAB may reserve room for more entries than there are
        "format": np.array("csc"),
        "shape": np.array(variable.shape),
        "indices": rows[:n_entries],
        "indptr": indptr,
        "data": values[:n_entries],
    }
    return build_sparse(parts, title)


def _list_version_5(file: Any, order: str, title: str) -> Iterator[_Variable]:
    """Yield the numeric variables of a file of versions 5 to 7."""
    end = file.seek(0, 2)
    offset = HEADER_BYTES
    while offset + TAG_BYTES <= end:
        file.seek(offset)
        kind, size = np.frombuffer(file.read(TAG_BYTES), f"{order}u4").tolist()
        offset += TAG_BYTES
        if offset + size > end:
            raise StreamError(f"{title}: ends within the variable at byte {offset}; the file is truncated")
        begin = file.read(min(size, DESCRIPTION_BYTES))
        is_compressed = kind == COMPRESSED
        if is_compressed:
            begin = zlib.decompressobj().decompress(begin, DESCRIPTION_BYTES)
            if len(begin) < TAG_BYTES:
                raise _damaged(title, f"the variable at byte {offset} is empty")
            kind = int(np.frombuffer(begin[:4], f"{order}u4")[0])
            begin = begin[TAG_BYTES:]
        if kind == MATRIX and size:
            flags, at = _read_element(begin, 0, order, title)
            flag = int(flags[0]) if len(flags) else 0
            if flag & 0xFF in CLASSES:  # others hold text, structures and so on
                shape, at = _read_element(begin, at, order, title)
                name, _ = _read_element(begin, at, order, title)
                if len(name):  # MATLAB keeps internal data in variables without a name
                    yield _Variable(
                        name.tobytes().decode("latin-1"),
                        tuple(shape.tolist()),
                        "u1" if flag & LOGICAL_FLAG else CLASSES[flag & 0xFF],
                        flag & 0xFF == SPARSE,
                        bool(flag & COMPLEX_FLAG),
                        offset,
                        size,
                        is_compressed,
                    )
        offset += size


def _read_element(
    content: bytes, at: int, order: str, title: str, stored_as: str | None = None
) -> tuple[Array, int]:
    """Return the numbers of the element at a position, and the position of the next element.

    The bytes of elements that do not hold numbers are returned as they are. ``stored_as`` is the type of the
    numbers where the element does not tell the truth about it.
    """
    if at + TAG_BYTES > len(content):
        raise _damaged(title, "a part of the variable is missing")
    kind, size = np.frombuffer(content, f"{order}u4", 2, at).tolist()
    begin, following = at + TAG_BYTES, at + TAG_BYTES + size + -size % 8
    if kind >> 16:  # at most four bytes are stored within the tag
        kind, size = kind & 0xFFFF, kind >> 16
        begin, following = at + TAG_BYTES // 2, at + TAG_BYTES
    dtype = np.dtype(order + (stored_as or NUMBERS.get(kind, "u1")))
    if begin + size > len(content) or size % dtype.itemsize:
        raise _damaged(title, f"an element of {size} bytes exceeds the variable")
    return np.frombuffer(content, dtype, size // dtype.itemsize, begin), following


def _decompress(content: bytes, order: str, title: str) -> bytes:
    """Return the decompressed data of a variable, if their size is plausible."""
    stream = zlib.decompressobj()
    tag = stream.decompress(content, TAG_BYTES)
    size = int(np.frombuffer(tag, f"{order}u4")[1])
    require_proportional(size, len(content), title, SAVE_IN_V73)
    whole = stream.decompress(stream.unconsumed_tail, size) if size else b""
    rest = stream.decompress(stream.unconsumed_tail, 1)  # empty; this also verifies the checksum
    if len(whole) < size or rest or not stream.eof:
        raise _damaged(title, f"it does not decompress to {size} bytes")
    return whole


def _load_version_4(path: Path, key: str | None, title: str) -> Any:
    """Return a numeric variable of a file of version 4, an array or a sparse matrix."""
    with path.open("rb") as file:
        variable = _select(_list_version_4(file, title), key, title)
        file.seek(variable.offset)
        values = np.frombuffer(file.read(variable.stored_bytes), variable.dtype)
    title = f"{title}, variable {variable.name!r}"
    values = values.reshape(variable.shape, order="F").astype(values.dtype.newbyteorder("="), copy=False)
    if not variable.is_sparse:
        return values
    # A sparse matrix is a table of row, column and entry, both counted from 1. Its last line is the shape.
    if values.shape[1] != 3 or len(values) == 0 or not np.isfinite(values[:, :2]).all():
        raise _damaged(title, "a sparse matrix must be a table with three columns")
    rows, columns = values[:, :2].astype(np.int64).T
    parts = {"format": np.array("coo"), "shape": np.array([rows[-1], columns[-1]])}
    return build_sparse(
        {**parts, "row": rows[:-1] - 1, "col": columns[:-1] - 1, "data": values[:-1, 2]}, title
    )


def _list_version_4(file: Any, title: str) -> Iterator[_Variable]:
    """Yield the numeric variables of a file of version 4."""
    end = file.seek(0, 2)
    offset = 0
    while offset + VERSION_4_HEADER_BYTES <= end:
        file.seek(offset)
        header = file.read(VERSION_4_HEADER_BYTES)
        order = "<" if 0 <= int.from_bytes(header[:4], "little", signed=True) < 1000 else ">"
        kind, n_rows, n_columns, is_complex, name_bytes = np.frombuffer(header, f"{order}i4").tolist()
        precision, matrix_type = kind // 10 % 10, kind % 10
        if precision >= len(VERSION_4_NUMBERS) or min(n_rows, n_columns, name_bytes, kind) < 0:
            raise _damaged(title, f"the variable at byte {offset} has an impossible header")
        dtype = order + VERSION_4_NUMBERS[precision]
        offset += VERSION_4_HEADER_BYTES + name_bytes
        size = n_rows * n_columns * np.dtype(dtype).itemsize
        if offset + size * (1 + bool(is_complex)) > end:
            raise StreamError(f"{title}: ends within the variable at byte {offset}; the file is truncated")
        name = file.read(min(name_bytes, LARGEST_NAME_BYTES)).rstrip(b"\0").decode("latin-1")
        if matrix_type in (0, VERSION_4_SPARSE):  # others hold text
            is_sparse = matrix_type == VERSION_4_SPARSE
            yield _Variable(name, (n_rows, n_columns), dtype, is_sparse, bool(is_complex), offset, size)
        offset += size * (1 + bool(is_complex))


def _damaged(title: str, reason: str) -> StreamError:
    return StreamError(f"{title}: is damaged: {reason}; save it again")
