"""Results written batch by batch, in the format that a file's name says."""

from __future__ import annotations

import gzip
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np

from maxnorm.core.types import Array
from maxnorm.streams.stream import StreamError, needs

NPY_HEADER = 128  # bytes: room for any shape


class Writer(ABC):
    """Takes batches; the file has its name only once everything is in it."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        self.path = path = path.resolve()  # through links, so that they stay links
        self.names = None if names is None else [str(name) for name in names]
        self.part = path.with_name(f".{os.getpid()}.{path.name}")
        self.rows = 0
        if not path.parent.is_dir():
            raise FileNotFoundError(f"cannot write {path}: {path.parent} is not a folder")

    def write(self, batch: Array) -> None:
        """Add rows."""
        if not self.rows:
            self.begin(batch)
        self.rows += len(batch)
        self.add(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.rows:
                self.end()
                if kind is None:
                    self.part.replace(self.path)
        finally:
            with suppress(FileNotFoundError):
                self.part.unlink()

    @abstractmethod
    def begin(self, batch: Array) -> None:
        """Open the file; the batch shows what will come."""

    @abstractmethod
    def add(self, batch: Array) -> None:
        """Write rows."""

    @abstractmethod
    def end(self) -> None:
        """Close the file."""


class NpyWriter(Writer):
    """A .npy file, whose header is written last: only then is its length known."""

    def begin(self, batch: Array) -> None:
        self.file = self.part.open("wb")
        self.shape, self.dtype = batch.shape[1:], batch.dtype
        self.file.write(b" " * NPY_HEADER)

    def add(self, batch: Array) -> None:
        self.file.write(np.ascontiguousarray(batch, self.dtype).data)

    def end(self) -> None:
        with self.file:
            shape = (self.rows, *self.shape)
            header = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
            self.file.seek(0)
            self.file.write(b"\x93NUMPY\x01\x00" + (NPY_HEADER - 10).to_bytes(2, "little"))
            self.file.write(header.encode().ljust(NPY_HEADER - 11) + b"\n")


class TextWriter(Writer):
    """CSV or TSV, compressed if the name ends in .gz; every number comes back exactly, NaN is empty."""

    def begin(self, batch: Array) -> None:
        zipped = self.path.suffix == ".gz"
        kind = (Path(self.path.stem) if zipped else self.path).suffix.lower()
        self.delimiter = "\t" if kind == ".tsv" else ","
        opened = gzip.open if zipped else open
        self.file: TextIO = opened(self.part, "wt", encoding="utf-8", newline="\n")
        if self.names:
            self.file.write(self.delimiter.join(map(self._quoted, self.names)) + "\n")

    def _quoted(self, name: str) -> str:
        plain = not set(name) & {self.delimiter, '"', "\n"}
        return name if plain else '"' + name.replace('"', '""') + '"'

    def add(self, batch: Array) -> None:
        shown = repr if batch.dtype == np.float64 else "{:.9g}".format
        for row in batch.reshape(len(batch), -1).tolist():
            self.file.write(self.delimiter.join("" if v != v else shown(v) for v in row) + "\n")

    def end(self) -> None:
        self.file.close()


class ParquetWriter(Writer):
    """Parquet, one row group a batch."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        super().__init__(path, names)
        self.pyarrow = needs("pyarrow", "writing Parquet")

    def begin(self, batch: Array) -> None:
        width = 1 if batch.ndim == 1 else batch.shape[1]
        self.names = self.names or [str(i) for i in range(width)]
        kind = self.pyarrow.from_numpy_dtype(batch.dtype)
        self.schema = self.pyarrow.schema([(name, kind) for name in self.names])
        self.file = needs("pyarrow.parquet", "writing Parquet").ParquetWriter(self.part, self.schema)

    def add(self, batch: Array) -> None:
        kind = self.schema.types[0].to_pandas_dtype()
        columns = [np.ascontiguousarray(column, kind) for column in batch.reshape(len(batch), -1).T]
        self.file.write_table(self.pyarrow.table(columns, schema=self.schema))

    def end(self) -> None:
        self.file.close()


class Hdf5Writer(Writer):
    """HDF5, in a data set called "data"."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        super().__init__(path, names)
        self.h5py = needs("h5py", "writing HDF5")

    def begin(self, batch: Array) -> None:
        self.file = self.h5py.File(self.part, "w")
        self.data: Any = self.file.create_dataset(
            "data",
            shape=(0, *batch.shape[1:]),
            maxshape=(None, *batch.shape[1:]),
            dtype=batch.dtype,
            chunks=batch.shape,
        )

    def add(self, batch: Array) -> None:
        self.data.resize(self.rows, axis=0)
        self.data[self.rows - len(batch) :] = batch

    def end(self) -> None:
        self.file.close()


WRITERS: dict[str, type[Writer]] = {
    ".npy": NpyWriter,
    ".csv": TextWriter,
    ".tsv": TextWriter,
    ".parquet": ParquetWriter,
    ".h5": Hdf5Writer,
    ".hdf5": Hdf5Writer,
}


def open_writer(path: Path, names: Sequence[str] | None = None) -> Writer:
    """Return a writer for a file by its name; use it in a ``with`` statement."""
    suffix = (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()
    if suffix not in WRITERS or (path.suffix == ".gz" and WRITERS[suffix] is not TextWriter):
        raise StreamError(
            f"{path}: cannot tell a format to write by its name; known are {', '.join(WRITERS)}"
        )
    return WRITERS[suffix](path, names)
