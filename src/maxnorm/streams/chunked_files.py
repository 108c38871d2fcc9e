"""Readers of arrays that are stored in chunks: HDF5, MATLAB v7.3 and Zarr."""

from __future__ import annotations

import itertools
import math
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maxnorm.core.types import Array
from maxnorm.streams.columns import select_columns
from maxnorm.streams.file_checks import (
    count_chunks,
    fold_shape,
    require_numeric_type,
    require_row_fits,
    resolve_key,
    samples_per_chunked_read,
)
from maxnorm.streams.stream import NUMERIC_KINDS, Columns, Stream, StreamError, needs, regroup, rows_per_read

SMALLEST_CACHE_BYTES = 2**20  # of the cache of decompressed chunks, the default of HDF5
LARGEST_CACHE_BYTES = 2**27
MOST_LINKS_FOLLOWED = 16  # on the way to one dataset, so that links in a circle come to an end


def open_hdf5(
    path: Path,
    *,
    batch_size: int | None,
    columns: Columns,
    key: str | None,
    transpose: bool,
    external: bool = False,
    n_sample_axes: int = 1,
) -> Stream:
    """Return a stream over one dataset of an HDF5 file, or one variable of a MATLAB v7.3 file.

    A MATLAB v7.3 file is an HDF5 file whose arrays are stored transposed. By default, whole chunks are read.
    If the first ``n_sample_axes`` axes of a dataset are samples, whole items of the first one are read.
    """
    h5py = needs("h5py", "reading HDF5")
    title = str(path)
    is_matlab = path.suffix.lower() == ".mat"
    samples_in_columns = transpose != is_matlab
    with h5py.File(path, "r") as file:
        name = _resolve_dataset(file, key, external, title, folds=not transpose and not is_matlab)
        data = file[name]
        if not external:
            _require_own_storage(data, f"{title}, dataset {name!r}")
        shape, chunks, dtype = data.shape, data.chunks, data.dtype
        stored_bytes = data.id.get_storage_size()
    n, p = fold_shape(shape, title, transpose=samples_in_columns)
    require_row_fits(p, title)
    n_per_item = math.prod(shape[1:n_sample_axes])
    selection = select_columns(columns, None, p // n_per_item, title)
    if samples_in_columns:
        shape, chunks = shape[::-1], chunks and chunks[::-1]
    n_items = batch_size and -(-batch_size // n_per_item)
    size = rows_per_read(n_items, p, 1 if chunks is None else chunks[0])
    cache_bytes = SMALLEST_CACHE_BYTES
    if chunks is not None:
        n_chunks = count_chunks(shape, chunks)
        chunk_bytes = math.prod(chunks) * dtype.itemsize
        if stored_bytes > CHUNK_TOLERANCE * n_chunks * (chunk_bytes + CHUNK_OVERHEAD):
            raise StreamError(
                f"{title}: its {n_chunks} chunks have {stored_bytes} bytes where {chunk_bytes} each are "
                "expected; the file is damaged"
            )
        size = samples_per_chunked_read(shape, chunks, dtype.itemsize, size, title)
        # The cache holds the chunks of a sample, so that they are not decompressed again for every batch.
        cache_bytes = max(cache_bytes, count_chunks(shape[1:], chunks[1:]) * chunk_bytes)

    def read(start: int) -> Iterator[Array]:
        with h5py.File(path, "r", rdcc_nbytes=min(cache_bytes, LARGEST_CACHE_BYTES)) as file:
            data = file[name]
            first, skipped = divmod(start, n_per_item)
            for i in range(first, n, size):
                batch = data[:, i : i + size].T if samples_in_columns else data[i : i + size]
                yield selection.take(batch.reshape(len(batch) * n_per_item, p // n_per_item)[skipped:])
                skipped = 0

    return Stream(
        lambda start: regroup(read(start), batch_size),
        title,
        n_samples=n * n_per_item,
        n_features=selection.n_features,
    )


def _resolve_dataset(file: Any, key: str | None, external: bool, title: str, *, folds: bool) -> str:
    """Return the path of the dataset to read within an HDF5 file.

    Without a key, datasets are searched for, but links are not followed.
    """
    h5py = needs("h5py", "reading HDF5")
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: Any) -> None:
        # MATLAB keeps internal data in groups whose names begin with "#". A null dataset has no shape.
        if isinstance(item, h5py.Dataset) and not name.startswith("#") and item.shape is not None:
            try:
                is_numeric = item.dtype.kind in NUMERIC_KINDS
            except (TypeError, ValueError, RuntimeError):
                is_numeric = False  # NumPy has no equivalent of the type
            if is_numeric:
                shapes[name] = item.shape

    if key is None:
        file.visititems(visit)
        return resolve_key(None, shapes, title, folds=folds)
    name = follow_links(file, key, external, title)
    item = file.get(name) if name else None
    if not isinstance(item, h5py.Dataset):
        file.visititems(visit)
        return resolve_key(key.strip("/"), shapes, title)  # raises an error that lists the datasets
    require_numeric_type(item.dtype, f"{title}, dataset {key!r}")
    return resolve_key(name, {name: item.shape or ()}, title, folds=folds)


def follow_links(file: Any, key: str, external: bool, title: str) -> str:
    """Return the path within an HDF5 file that a key leads to after its soft links.

    Raises
    ------
    StreamError
        If the path leads to another file and ``external`` is False.
    """
    h5py = needs("h5py", "reading HDF5")
    waiting, reached, n_links = [part for part in reversed(key.split("/")) if part], "", 0
    while waiting:
        here = posixpath.join(reached, waiting.pop())
        link = file.get(here, getlink=True) if reached == "" or reached in file else None
        if isinstance(link, h5py.ExternalLink):
            if not external:
                raise _refers(f"{title}, key {key!r}", "link", [link.filename])
            return "/".join([here, *reversed(waiting)])
        if isinstance(link, h5py.SoftLink):
            n_links += 1
            if n_links > MOST_LINKS_FOLLOWED:
                raise StreamError(
                    f"{title}: key={key!r} leads through links in a circle; the file is damaged"
                )
            target = posixpath.normpath(posixpath.join("/", reached, link.path))
            waiting += [part for part in reversed(target.split("/")) if part]
            here = ""
        reached = here
    return reached


def _require_own_storage(data: Any, title: str) -> None:
    """Raise a StreamError if the entries of a dataset are stored in other files."""
    if data.is_virtual:
        raise _refers(title, "virtual dataset", [source.file_name for source in data.virtual_sources()])
    if data.external:
        raise _refers(title, "external storage", [name for name, *_ in data.external])


def _refers(title: str, kind: str, files: list[str]) -> StreamError:
    shown = ", ".join(repr(name) for name in files[:3]) + (", ..." if len(files) > 3 else "")
    return StreamError(
        f"{title}: refers to other files ({kind}: {shown}); set external to True if you trust this file, or "
        "copy the data into one file"
    )


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
        arrays = _list_arrays(node, zarr)
        shapes = {name: item.shape for name, item in arrays.items()}
        name = resolve_key(None if key is None else key.strip("/"), shapes, title, folds=not transpose)
        node = arrays[name]
    n, p = fold_shape(node.shape, title, transpose=transpose)
    require_numeric_type(node.dtype, title)
    _require_no_pickle(node, title)
    require_row_fits(p, title)
    selection = select_columns(columns, None, p, title)
    sample_axis = 1 if transpose else 0
    shape, chunks = (node.shape[::-1], node.chunks[::-1]) if transpose else (node.shape, node.chunks)
    size = rows_per_read(batch_size, p, chunks[0])
    size = samples_per_chunked_read(shape, chunks, node.dtype.itemsize, size, title)

    def read(start: int) -> Iterator[Array]:
        for i in range(start, n, size):
            _require_honest_chunks(path, node, i, min(i + size, n), sample_axis, title)
            batch = np.asarray(node[:, i : i + size]).T if transpose else np.asarray(node[i : i + size])
            yield selection.take(batch.reshape(len(batch), p))

    return Stream(
        lambda start: regroup(read(start), batch_size), title, n_samples=n, n_features=selection.n_features
    )


def _list_arrays(group: Any, zarr: Any) -> Mapping[str, Any]:
    """Return the arrays in the groups of a Zarr store by name.

    Names come from the metadata of the store. Those that lead out of its folder are left out.
    """
    return {
        name: item
        for name, item in group.members(max_depth=None)
        if isinstance(item, zarr.Array) and ".." not in name.split("/")
    }


def _require_honest_chunks(
    path: Path, array: Any, start: int, stop: int, sample_axis: int, title: str
) -> None:
    """Raise a StreamError if a chunk of some samples has or declares far more bytes than a chunk can have.

    The decompressors of Blosc, Zstandard and LZ4 allocate what the first bytes of a chunk declare. Those of
    gzip and others are limited only by the compressed size.
    """
    metadata = array.metadata
    codecs = getattr(metadata, "codecs", None) or (metadata.compressor,)
    names = [getattr(codec, "codec_id", None) or type(codec).__name__.lower() for codec in codecs]
    codec = next((known for known in DECLARED_SIZES for name in names if name.startswith(known)), None)
    if array.shards is not None:  # chunks within shards have no files of their own
        return
    chunk_bytes = math.prod(array.chunks) * array.dtype.itemsize
    largest = CHUNK_TOLERANCE * (chunk_bytes + CHUNK_OVERHEAD)
    ranges = [range(-(-length // chunk)) for length, chunk in zip(array.shape, array.chunks, strict=True)]
    length = array.chunks[sample_axis]
    ranges[sample_axis] = range(start // length, -(-stop // length))
    for place in itertools.product(*ranges):
        key = metadata.encode_chunk_key(place)
        try:
            with (path / array.path / key).open("rb") as file:
                declared = os.fstat(file.fileno()).st_size
                if codec is not None and declared <= largest:
                    declared = DECLARED_SIZES[codec](file.read(CHUNK_HEADER_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            continue  # such a chunk holds the fill value
        if declared > largest:
            raise StreamError(
                f"{title}: the chunk {key!r} has {declared} bytes where {chunk_bytes} are expected; the file "
                "is damaged"
            )


def _zstd_size(header: bytes) -> int:
    """Return the size that the header of a Zstandard frame declares, or 0 if it declares none."""
    if len(header) < 5 or header[:4] != ZSTD_MAGIC:
        return 0
    is_single_segment = bool(header[4] & 0x20)
    n_bytes = (int(is_single_segment), 2, 4, 8)[header[4] >> 6]
    begin = 5 + (not is_single_segment) + (0, 1, 2, 4)[header[4] & 3]
    return int.from_bytes(header[begin : begin + n_bytes], "little") + 256 * (n_bytes == 2)


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
CHUNK_HEADER_BYTES = 18
CHUNK_TOLERANCE = 2  # filters may store a chunk in a wider type
CHUNK_OVERHEAD = 1024  # bytes that a compressed chunk may have more than its entries
DECLARED_SIZES: dict[str, Callable[[bytes], int]] = {  # decompressed size, from the first bytes of a chunk
    "blosc": lambda header: int.from_bytes(header[4:8], "little"),
    "zstd": _zstd_size,
    "lz4": lambda header: int.from_bytes(header[:4], "little"),
}


def _require_no_pickle(array: Any, title: str) -> None:
    """Raise a StreamError if the chunks of a Zarr array are pickles, which may execute code."""
    metadata = array.metadata
    codecs = [
        *(getattr(metadata, "filters", None) or ()),
        getattr(metadata, "compressor", None),
        *(getattr(metadata, "codecs", None) or ()),
    ]
    if any("pickle" in str(codec).lower() for codec in codecs):
        raise StreamError(
            f"{title}: its chunks are pickles, which can execute code and are not read; save an array of "
            "numbers"
        )
