"""Streams over Parquet and Arrow files, and folders of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxnorm.core.types import Array
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

    def tables(start: int, some: list[str], size: int) -> Iterator[Any]:
        for part, length in zip(paths, lengths, strict=True):
            if start < length:
                with parquet.ParquetFile(part) as file:
                    for batch in file.iter_batches(size, columns=some):
                        if start < batch.num_rows:
                            yield batch.slice(start)
                        start = max(0, start - batch.num_rows)
            else:
                start -= length

    return _stream(tables, schema, title, sum(lengths), batch_size, columns, transpose)


def arrow_stream(path: Path, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Rows of an Arrow file (.arrow, .feather version 2)."""
    pyarrow = needs("pyarrow", "reading Arrow")
    title = str(path)
    with pyarrow.memory_map(title) as mapped:
        file = pyarrow.ipc.open_file(mapped)
        schema = file.schema
        n = sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))

    def tables(start: int, some: list[str], size: int) -> Iterator[Any]:
        with pyarrow.OSFile(title) as opened:
            file = pyarrow.ipc.open_file(opened)
            for i in range(file.num_record_batches):
                batch = file.get_batch(i)
                while start < batch.num_rows:
                    part = batch.slice(start, size)
                    yield part
                    start += part.num_rows
                start -= batch.num_rows

    return _stream(tables, schema, title, n, batch_size, columns, transpose)


def _stream(
    tables: Callable[[int, list[str], int], Iterator[Any]],
    schema: Any,
    title: str,
    n: int,
    batch_size: int | None,
    columns: Columns,
    transpose: bool,
) -> Stream:
    labels = _row_labels(schema)
    names = _numeric_names(schema, None if transpose else columns, labels, title)
    plain = all(str(schema.field(name).type) in ("float", "halffloat") for name in names)
    kind = np.float32 if plain else np.float64  # the same for every batch, whether it has gaps or not
    left_out = labels if transpose or columns is None else []
    remarks = tuple(f"{title}: {name} holds row labels and is left out" for name in left_out)

    def read(start: int, some: list[str], size: int) -> Iterator[Array]:
        for table in tables(start, some, size):
            columns = [numeric(table.column(name).to_numpy(zero_copy_only=False), title) for name in some]
            yield np.column_stack(columns).astype(kind, copy=False)

    if not transpose:
        size = batch_rows(batch_size, len(names))
        return Stream(
            lambda start: regrouped(read(start, names, size), batch_size),
            title,
            n_samples=n,
            n_features=len(names),
            names=tuple(names),
            remarks=remarks,
        )
    size = batch_rows(batch_size, n)
    picked, _ = chosen(columns, None, n, title)

    def source(start: int) -> Iterator[Array]:
        for i in range(start, len(names), size):
            parts = list(read(0, names[i : i + size], 2**16))
            if not parts:
                raise StreamError(f"{title}: is empty")
            batch = np.concatenate(parts).T
            yield np.ascontiguousarray(batch if picked is None else batch[:, picked])

    return Stream(source, title, n_samples=len(names), n_features=n if picked is None else len(picked))


def _numeric_names(schema: Any, columns: Columns, labels: list[str], title: str) -> list[str]:
    types = needs("pyarrow.types", "reading columns")
    if len(set(schema.names)) < len(schema.names):
        raise StreamError(f"{title}: two of its columns have the same name; rename them")
    _, names = chosen(columns, schema.names, len(schema.names), title)
    assert names is not None
    if columns is None:
        names = tuple(name for name in names if name not in labels)
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


def _row_labels(schema: Any) -> list[str]:
    """Return the columns that pandas wrote for the index of a frame."""
    known = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in known if isinstance(name, str)]
