"""Readers of columnar files: Parquet files, folders of Parquet files, Arrow and Feather files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from maxnorm.core.types import Array
from maxnorm.streams import file_checks
from maxnorm.streams.columns import select_columns
from maxnorm.streams.file_checks import require_proportional, require_row_fits
from maxnorm.streams.memory import dates_message, to_numeric
from maxnorm.streams.stream import (
    Columns,
    NotInstalled,
    Stream,
    StreamError,
    needs,
    regroup,
    rows_per_read,
)

COLUMN_READ_ROWS = 2**16  # rows that are read at a time where whole columns are assembled

LARGEST_ALLOCATION = 1000  # times the size of a file; if pyarrow fails to allocate more, the file is damaged

ReadTables = Callable[[int, list[str], int], Iterator[Any]]
"""Function of a first row, column names and a number of rows; it yields Arrow record batches."""


def open_parquet(path: Path, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Return a stream over a Parquet file, or over all Parquet files of a folder, sorted by path.

    Only the selected columns are read. All files of a folder must have the same columns.
    """
    parquet = needs("pyarrow.parquet", "reading Parquet")
    title = str(path)
    paths = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
    if not paths:
        raise StreamError(f"{title}: this folder holds no .parquet files")
    lengths, schema = [], None
    for part in paths:
        with _named(part), parquet.ParquetFile(part) as file:
            _require_plausible_row_groups(file.metadata, str(part))
            if schema is not None and file.schema_arrow.names != schema.names:
                raise StreamError(
                    f"{part}: its columns differ from those of {paths[0]}; all files of a folder must have "
                    "the same columns"
                )
            schema = file.schema_arrow
            lengths.append(file.metadata.num_rows)

    def read_tables(start: int, names: list[str], size: int) -> Iterator[Any]:
        for part, length in zip(paths, lengths, strict=True):
            if start < length:
                with _named(part), parquet.ParquetFile(part) as file:
                    for batch in file.iter_batches(size, columns=names):
                        batch.validate()
                        if start < batch.num_rows:
                            yield batch.slice(start)
                        start = max(0, start - batch.num_rows)
            else:
                start -= length

    return _open_tables(read_tables, schema, title, sum(lengths), batch_size, columns, transpose)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Give errors of pyarrow the name of the file, which may be one of many in a folder."""
    try:
        yield
    except (StreamError, NotInstalled, FileNotFoundError, PermissionError):
        raise
    except MemoryError as error:
        wanted = re.search(r"of size (\d+) failed", str(error))
        is_absurd = wanted and int(wanted[1]) > LARGEST_ALLOCATION * path.stat().st_size
        if is_absurd or "capacity too large" in str(error):
            raise StreamError(
                f"{path}: is damaged: it declares a block that is far too large ({error}); write it again"
            ) from None
        raise
    except Exception as error:
        raise StreamError(
            f"{path}: is damaged, or its extension does not match its content: {error}"
        ) from error


def _require_plausible_row_groups(metadata: Any, title: str) -> None:
    """Raise a StreamError if a row group declares an impossible size, or expands enormously."""
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        if group.num_rows < 0 or group.total_byte_size < 0:
            raise StreamError(
                f"{title}: declares {group.num_rows} rows in row group {i}; the file is damaged"
            )
        if group.total_byte_size > file_checks.LARGEST_UNPROPORTIONAL_BYTES:
            stored = sum(group.column(j).total_compressed_size for j in range(group.num_columns))
            require_proportional(
                group.total_byte_size, stored, f"{title}, row group {i}", "write it with smaller row groups"
            )


def open_arrow(path: Path, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Return a stream over an Arrow IPC file (``.arrow``, or ``.feather`` version 2)."""
    pyarrow = needs("pyarrow", "reading Arrow")
    title = str(path)
    first_column = pyarrow.ipc.IpcReadOptions(included_fields=[0])
    with _named(path), pyarrow.memory_map(title) as mapped:
        schema = pyarrow.ipc.open_file(mapped).schema
        file = pyarrow.ipc.open_file(mapped, options=first_column if len(schema) else None)
        n = 0
        for i in range(file.num_record_batches):
            rows = file.get_batch(i).num_rows
            remedy = "write it in batches of fewer rows, for example with chunksize of pyarrow.feather"
            n_bytes = 8 * rows * len(schema)
            require_proportional(n_bytes, path.stat().st_size, f"{title}, record batch {i}", remedy)
            n += rows

    def read_tables(start: int, names: list[str], size: int) -> Iterator[Any]:
        fields = [schema.get_field_index(name) for name in names]
        with _named(path), pyarrow.OSFile(title) as opened:
            file = pyarrow.ipc.open_file(opened, options=pyarrow.ipc.IpcReadOptions(included_fields=fields))
            for i in range(file.num_record_batches):
                batch = file.get_batch(i)
                batch.validate()  # pyarrow does not, and a wrong length would crash the process
                while start < batch.num_rows:
                    part = batch.slice(start, size)
                    yield part
                    start += part.num_rows
                start -= batch.num_rows

    return _open_tables(read_tables, schema, title, n, batch_size, columns, transpose)


def _open_tables(
    read_tables: ReadTables,
    schema: Any,
    title: str,
    n_rows: int,
    batch_size: int | None,
    columns: Columns,
    transpose: bool,
) -> Stream:
    """Return a stream over the tables that ``read_tables`` yields.

    With ``transpose``, the samples are the columns of the table, and the whole file is read once per batch.
    """
    labels = _row_label_columns(schema)
    names = _select_numeric_columns(schema, None if transpose else columns, labels, title)
    is_single = all(str(schema.field(name).type) in ("float", "halffloat") for name in names)
    # The type follows from the schema, because pyarrow returns integers as floats in a batch with gaps.
    dtype = np.float32 if is_single else np.float64
    left_out = labels if transpose or columns is None else []
    remarks = tuple(f"{title}: column {name!r} holds row labels and is left out" for name in left_out)

    def read(start: int, some: list[str], size: int) -> Iterator[Array]:
        for table in read_tables(start, some, size):
            arrays = [
                to_numeric(table.column(name).to_numpy(zero_copy_only=False), f"{title}: column {name!r}")
                for name in some
            ]
            yield np.column_stack(arrays).astype(dtype, copy=False)

    if not transpose:
        size = rows_per_read(batch_size, len(names))
        return Stream(
            lambda start: regroup(read(start, names, size), batch_size),
            title,
            n_samples=n_rows,
            n_features=len(names),
            names=tuple(names),
            remarks=remarks,
        )
    require_row_fits(n_rows, title)
    size = rows_per_read(batch_size, n_rows)
    selection = select_columns(columns, None, n_rows, title)

    def source(start: int) -> Iterator[Array]:
        for i in range(start, len(names), size):
            some = names[i : i + size]
            batch = np.empty((len(some), n_rows), dtype)
            n_read = 0
            for part in read(0, some, COLUMN_READ_ROWS):
                if n_read + len(part) <= n_rows:
                    batch[:, n_read : n_read + len(part)] = part.T
                n_read += len(part)
            if n_read != n_rows:
                raise StreamError(f"{title}: has {n_read} rows, but declares {n_rows}; the file is damaged")
            yield selection.take(batch)

    return Stream(source, title, n_samples=len(names), n_features=selection.n_features, remarks=remarks)


def _select_numeric_columns(schema: Any, columns: Columns, labels: list[str], title: str) -> list[str]:
    """Return the names of the selected columns, or of all columns but the row labels if none are selected.

    Raises
    ------
    StreamError
        If two columns have the same name, or if a selected column is not numeric.
    """
    types = needs("pyarrow.types", "reading columns")
    if len(set(schema.names)) < len(schema.names):
        repeated = next(name for name in schema.names if schema.names.count(name) > 1)
        raise StreamError(f"{title}: two of its columns have the name {repeated!r}; rename one of them")
    names = select_columns(columns, schema.names, len(schema.names), title).names
    assert names is not None
    if columns is None:
        names = tuple(name for name in names if name not in labels)
        if not names:
            raise StreamError(f"{title}: has no features: all of its columns hold row labels")
    for name in names:
        kind = schema.field(name).type
        if types.is_temporal(kind):
            raise StreamError(dates_message(f"{title}: column {name!r}", kind))
        if not (
            types.is_integer(kind)
            or types.is_floating(kind)
            or types.is_boolean(kind)
            or types.is_decimal(kind)
        ):
            raise StreamError(
                f"{title}: column {name!r} has type {kind}, which is not numeric; select numeric columns "
                "with columns"
            )
    return list(names)


def _row_label_columns(schema: Any) -> list[str]:
    """Return the names of the columns in which pandas stored the index of a data frame."""
    index_columns = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in index_columns if isinstance(name, str)]
