"""Streams over files of arrays: .npy, .npz, HDF5, Zarr and MATLAB."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxnorm.core.types import Array
from maxnorm.streams.memory import array_stream, numeric, require_two_dimensions, sparse_stream
from maxnorm.streams.stream import Columns, Stream, StreamError, batch_rows, chosen, needs


def npy_stream(path: Path, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """A .npy file, read piece by piece and never mapped as a whole: mapped pages count as memory."""
    title = str(path)
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    require_two_dimensions(mapped.shape, title)
    if mapped.dtype.kind not in "fiub":
        raise StreamError(f"{title}: must be numeric, not {mapped.dtype}")
    n, p = mapped.shape[::-1] if transpose else mapped.shape
    dtype, offset = mapped.dtype, int(mapped.offset)
    in_rows = mapped.flags.f_contiguous if transpose else mapped.flags.c_contiguous
    del mapped
    picked, _ = chosen(columns, None, p, title)
    size = batch_rows(batch_size, p)

    def rows(start: int, count: int) -> Array:
        if in_rows:
            flat = np.fromfile(path, dtype, count * p, offset=offset + start * p * dtype.itemsize)
            if len(flat) < count * p:
                raise StreamError(f"{title}: ends within row {start + len(flat) // p} of {n}")
            return flat.reshape(count, p)
        whole = np.load(path, mmap_mode="r")
        return np.array((whole.T if transpose else whole)[start : start + count], order="C")

    def source(start: int) -> Iterator[Array]:
        for i in range(start, n, size):
            batch = rows(i, min(size, n - i))
            yield batch if picked is None else batch[:, picked]

    return Stream(source, title, n_samples=n, n_features=p if picked is None else len(picked))


def npz_stream(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool
) -> Stream:
    """An array of a .npz file, decompressed as it is read."""
    title = str(path)
    with zipfile.ZipFile(path) as archive:
        headers = {}
        for member in archive.namelist():
            with archive.open(member) as file:
                headers[member.removesuffix(".npy")] = _npy_header(file)
        if {"format", "indptr", "data", "shape"} <= set(headers) and key is None:  # scipy.sparse.save_npz
            return sparse_stream(
                sp.load_npz(path), title, batch_size=batch_size, columns=columns, transpose=transpose
            )
        name = the_one(key, {k: shape for k, (shape, _, _) in headers.items()}, title)
    shape, fortran, dtype = headers[name]
    if dtype.kind not in "fiub":
        raise StreamError(f"{title}: array {name!r} must be numeric, not {dtype}")
    if fortran != transpose:  # samples do not lie one after the other, so that nothing can be skipped
        with np.load(path, allow_pickle=False) as loaded:
            whole = loaded[name]
        return array_stream(whole, title, batch_size=batch_size, columns=columns, transpose=transpose)
    n, p = shape[::-1] if transpose else shape
    picked, _ = chosen(columns, None, p, title)
    size = batch_rows(batch_size, p)
    member = name if name.endswith(".npy") else f"{name}.npy"

    def source(start: int) -> Iterator[Array]:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            _npy_header(file)
            _skip(file, start * p * dtype.itemsize)
            for i in range(start, n, size):
                rows = min(size, n - i)
                wanted = rows * p * dtype.itemsize
                content = file.read(wanted)
                if len(content) < wanted:
                    raise StreamError(
                        f"{title}: ends within row {i + len(content) // (p * dtype.itemsize)} of {n}"
                    )
                batch = np.frombuffer(content, dtype).reshape(rows, p)
                yield batch if picked is None else batch[:, picked]

    return Stream(source, title, n_samples=n, n_features=p if picked is None else len(picked))


def _npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    first = np.lib.format.read_magic(file) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    return read(file)


def _skip(file: Any, count: int) -> None:
    while count:
        count -= len(file.read(min(count, 2**22))) or count


def hdf5_stream(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool
) -> Stream:
    """A data set of an HDF5 file; MATLAB v7.3 files are that too, with the axes the other way round."""
    h5py = needs("h5py", "reading HDF5")
    title = str(path)
    matlab = path.suffix.lower() == ".mat"

    found: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiub" and not name.startswith("#"):
            found[name] = item.shape

    with h5py.File(path, "r") as file:
        file.visititems(visit)
        name = the_one(None if key is None else key.strip("/"), found, title)
        shape, chunks = file[name].shape, file[name].chunks
    flip = transpose != matlab
    n, p = shape[::-1] if flip else shape
    picked, _ = chosen(columns, None, p, title)
    size = batch_rows(batch_size, p, 1 if chunks is None else chunks[1 if flip else 0])

    def source(start: int) -> Iterator[Array]:
        with h5py.File(path, "r") as file:
            data = file[name]
            for i in range(start, n, size):
                batch = data[:, i : i + size].T if flip else data[i : i + size]
                yield batch if picked is None else batch[:, picked]

    return Stream(source, title, n_samples=n, n_features=p if picked is None else len(picked))


def zarr_stream(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool
) -> Stream:
    """An array of a Zarr store: the store itself, or one in its groups."""
    zarr = needs("zarr", "reading Zarr")
    title = str(path)
    node = zarr.open(path, mode="r")
    if isinstance(node, zarr.Group):
        arrays = {
            name: item.shape for name, item in node.members(max_depth=None) if isinstance(item, zarr.Array)
        }
        node = node[the_one(None if key is None else key.strip("/"), arrays, title)]
    require_two_dimensions(node.shape, title)
    if node.dtype.kind not in "fiub":
        raise StreamError(f"{title}: must be numeric, not {node.dtype}")
    n, p = node.shape[::-1] if transpose else node.shape
    picked, _ = chosen(columns, None, p, title)
    size = batch_rows(batch_size, p, node.chunks[1 if transpose else 0])

    def source(start: int) -> Iterator[Array]:
        for i in range(start, n, size):
            batch = np.asarray(node[:, i : i + size]).T if transpose else np.asarray(node[i : i + size])
            yield batch if picked is None else batch[:, picked]

    return Stream(source, title, n_samples=n, n_features=p if picked is None else len(picked))


def mat_stream(
    path: Path, *, batch_size: int | None, columns: Columns, key: str | None, transpose: bool
) -> Stream:
    """A variable of a MATLAB file. Those before v7.3 hold at most 2 GB each and can only be read whole."""
    import scipy.io
    from scipy.io.matlab import matfile_version

    title = str(path)
    if matfile_version(path)[0] == 2:  # v7.3 is HDF5
        return hdf5_stream(path, batch_size=batch_size, columns=columns, key=key, transpose=transpose)
    name = the_one(key, {name: shape for name, shape, _ in scipy.io.whosmat(path)}, title)
    whole = scipy.io.loadmat(path, variable_names=[name])[name]
    if not hasattr(whole, "tocsr"):
        whole = numeric(whole, title)
    return array_stream(
        whole, title, batch_size=batch_size, columns=columns, transpose=transpose, in_background=False
    )


def the_one(key: str | None, found: Mapping[str, Sequence[int]], title: str) -> str:
    """Return the array that is meant: the one named, or the only one with two dimensions."""
    if key is not None:
        if key not in found:
            raise StreamError(f"{title}: no array {key!r}; {_listed(found)}")
        require_two_dimensions(tuple(found[key]), f"{title}, {key}")
        return key
    tables = [name for name, shape in found.items() if len(shape) == 2]
    if len(tables) != 1:
        raise StreamError(f"{title}: say which array is meant by key; {_listed(found)}")
    return tables[0]


def _listed(found: Mapping[str, Sequence[int]]) -> str:
    shown = [f"{name!r} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in list(found.items())[:10]]
    return f"there are {', '.join(shown)}{', ...' if len(found) > 10 else ''}" if found else "there are none"
