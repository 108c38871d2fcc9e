"""Streams over Parquet and Arrow files, and folders of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxnorm._typing import Array
from maxnorm.streams.memory import numeric
from maxnorm.streams.stream import Columns, Stream, StreamError, batch_rows, chosen, needs, regrouped


def parquet_stream(path: Path, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Rows of a Parquet file, or of the Parquet files in a folder in the order of their names."""
    parquet = needs("pyarrow.parquet", "reading Parquet")
    title = str(path)
    paths = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
    if not paths:
        raise StreamError(f"{title}: there is no .parquet file in this folder")
    lengths, schema = [], None
    for part in paths:
        with parquet.ParquetFile(part) as file:
            if schema is not None and file.schema_arrow.names != schema.names:
                raise StreamError(f"{part}: its columns are not those of {paths[0]}")
            schema = file.schema_arrow
            lengths.append(file.metadata.num_rows)

    def read(start: int, some: list[str], size: int) -> Iterator[Array]:
        for part, length in zip(paths, lengths, strict=True):
            if start < length:
                with parquet.ParquetFile(part) as file:
                    for batch in file.iter_batches(size, columns=some):
                        if start < batch.num_rows:
                            yield _table(batch.slice(start), some, title)
                        start = max(0, start - batch.num_rows)
            else:
                start -= length

    return _stream(read, schema, title, sum(lengths), batch_size, columns, transpose)


def arrow_stream(path: Path, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Rows of an Arrow file (.arrow, .feather version 2)."""
    pyarrow = needs("pyarrow", "reading Arrow")
    title = str(path)
    with pyarrow.memory_map(title) as mapped:
        file = pyarrow.ipc.open_file(mapped)
        schema = file.schema
        n = sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))

    def read(start: int, some: list[str], size: int) -> Iterator[Array]:
        with pyarrow.OSFile(title) as opened:
            file = pyarrow.ipc.open_file(opened)
            for i in range(file.num_record_batches):
                batch = file.get_batch(i)
                while start < batch.num_rows:
                    part = batch.slice(start, size)
                    yield _table(part, some, title)
                    start += part.num_rows
                start -= batch.num_rows

    return _stream(read, schema, title, n, batch_size, columns, transpose)


def _stream(
    read: Callable[[int, list[str], int], Iterator[Array]],
    schema: Any,
    title: str,
    n: int,
    batch_size: int | None,
    columns: Columns,
    transpose: bool,
) -> Stream:
    names = _numeric_names(schema, None if transpose else columns, title)
    if not transpose:
        size = batch_rows(batch_size, len(names))
        return Stream(
            lambda start: regrouped(read(start, names, size), batch_size),
            title,
            n_samples=n,
            n_features=len(names),
            names=tuple(names),
        )
    size = batch_rows(batch_size, n)
    picked, _ = chosen(columns, None, n, title)

    def source(start: int) -> Iterator[Array]:
        for i in range(start, len(names), size):
            batch = np.concatenate(list(read(0, names[i : i + size], 2**16))).T
            yield np.ascontiguousarray(batch if picked is None else batch[:, picked])

    return Stream(source, title, n_samples=len(names), n_features=n if picked is None else len(picked))


def _numeric_names(schema: Any, columns: Columns, title: str) -> list[str]:
    types = needs("pyarrow.types", "reading columns")
    _, names = chosen(columns, schema.names, len(schema.names), title)
    assert names is not None
    for name in names:
        kind = schema.field(name).type
        if not (
            types.is_integer(kind)
            or types.is_floating(kind)
            or types.is_boolean(kind)
            or types.is_decimal(kind)
        ):
            raise StreamError(f"{title}: column {name!r} is {kind}, not numbers; choose columns that are")
    return list(names)


def _table(batch: Any, names: list[str], title: str) -> Array:
    columns = [batch.column(name) for name in names]
    return np.column_stack([numeric(c.to_numpy(zero_copy_only=False), title) for c in columns])
