"""Writers of results: arrays are written batch by batch, in a format chosen by the extension of the file."""

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

NPY_HEADER_BYTES = 128  # large enough for the header of any shape, which is not known before the end
NPY_PREFIX_BYTES = 10  # magic string, version and length, which precede the text of the header


class Writer(ABC):
    """A file that is written batch by batch; use it in a ``with`` statement.

    Batches go to a temporary file in the same folder. It is renamed to ``path`` at the end of the ``with``
    statement, so that ``path`` is either complete or unchanged. If an exception is raised, or if no batch was
    written, the temporary file is removed and ``path`` is unchanged.

    Parameters
    ----------
    path : Path
        The file to write. An existing file is replaced. A symbolic link stays, and its target is replaced.
    names : sequence of str or None, default=None
        Names of the columns, for formats that store them.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.
    """

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        self.path = path = path.resolve()
        self.names = None if names is None else [str(name) for name in names]
        self.temporary_path = path.with_name(f".{os.getpid()}.{path.name}")
        self.rows = 0
        if not path.parent.is_dir():
            raise FileNotFoundError(f"cannot write {path}: {path.parent} is not a folder; create it first")

    def write(self, batch: Array) -> None:
        """Append the rows of a batch.

        Parameters
        ----------
        batch : ndarray of shape (rows,) or (rows, n_columns)
            All batches of a file must have the same number of columns. The first determines the type.
        """
        if not self.rows:
            self.open_file(batch)
        self.rows += len(batch)
        self.append(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.rows:
                self.close_file()
                if kind is None:
                    self.temporary_path.replace(self.path)
        finally:
            with suppress(FileNotFoundError):
                self.temporary_path.unlink()

    @abstractmethod
    def open_file(self, batch: Array) -> None:
        """Create the temporary file for batches with the columns and the type of ``batch``, the first one."""

    @abstractmethod
    def append(self, batch: Array) -> None:
        """Write the rows of a batch to the open file; ``self.rows`` already counts them."""

    @abstractmethod
    def close_file(self) -> None:
        """Complete and close the file."""


class NpyWriter(Writer):
    """Writer of ``.npy`` files.

    The header is written last, because it holds the number of rows. Its place is reserved at the beginning.
    """

    def open_file(self, batch: Array) -> None:
        self.file = self.temporary_path.open("wb")
        self.shape, self.dtype = batch.shape[1:], batch.dtype
        self.file.write(b" " * NPY_HEADER_BYTES)

    def append(self, batch: Array) -> None:
        self.file.write(np.ascontiguousarray(batch, self.dtype).data)

    def close_file(self) -> None:
        with self.file:
            shape = (self.rows, *self.shape)
            header = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
            self.file.seek(0)
            self.file.write(
                b"\x93NUMPY\x01\x00" + (NPY_HEADER_BYTES - NPY_PREFIX_BYTES).to_bytes(2, "little")
            )
            self.file.write(header.encode().ljust(NPY_HEADER_BYTES - NPY_PREFIX_BYTES - 1) + b"\n")


class TextWriter(Writer):
    """Writer of CSV and TSV files, compressed with gzip if the name ends in ``.gz``.

    Floating-point numbers have enough digits to be read back exactly. NaN is written as an empty cell.
    """

    def open_file(self, batch: Array) -> None:
        is_gzip = self.path.suffix == ".gz"
        extension = (Path(self.path.stem) if is_gzip else self.path).suffix.lower()
        self.delimiter = "\t" if extension == ".tsv" else ","
        open_text = gzip.open if is_gzip else open
        self.file: TextIO = open_text(self.temporary_path, "wt", encoding="utf-8", newline="\n")
        if self.names:
            self.file.write(self.delimiter.join(map(self._quote, self.names)) + "\n")

    def _quote(self, name: str) -> str:
        is_plain = not set(name) & {self.delimiter, '"', "\n"}
        return name if is_plain else '"' + name.replace('"', '""') + '"'

    def append(self, batch: Array) -> None:
        to_text = repr if batch.dtype == np.float64 else "{:.9g}".format
        for row in batch.reshape(len(batch), -1).tolist():
            self.file.write(self.delimiter.join("" if v != v else to_text(v) for v in row) + "\n")

    def close_file(self) -> None:
        self.file.close()


class ParquetWriter(Writer):
    """Writer of Parquet files, with one row group per batch."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        super().__init__(path, names)
        self.pyarrow = needs("pyarrow", "writing Parquet")

    def open_file(self, batch: Array) -> None:
        width = 1 if batch.ndim == 1 else batch.shape[1]
        self.names = self.names or [str(i) for i in range(width)]
        dtype = self.pyarrow.from_numpy_dtype(batch.dtype)
        self.schema = self.pyarrow.schema([(name, dtype) for name in self.names])
        self.file = needs("pyarrow.parquet", "writing Parquet").ParquetWriter(
            self.temporary_path, self.schema
        )

    def append(self, batch: Array) -> None:
        dtype = self.schema.types[0].to_pandas_dtype()
        columns = [np.ascontiguousarray(column, dtype) for column in batch.reshape(len(batch), -1).T]
        self.file.write_table(self.pyarrow.table(columns, schema=self.schema))

    def close_file(self) -> None:
        self.file.close()


class Hdf5Writer(Writer):
    """Writer of HDF5 files, with one dataset called ``data``."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        super().__init__(path, names)
        self.h5py = needs("h5py", "writing HDF5")

    def open_file(self, batch: Array) -> None:
        self.file = self.h5py.File(self.temporary_path, "w")
        self.data: Any = self.file.create_dataset(
            "data",
            shape=(0, *batch.shape[1:]),
            maxshape=(None, *batch.shape[1:]),
            dtype=batch.dtype,
            chunks=batch.shape,
        )

    def append(self, batch: Array) -> None:
        self.data.resize(self.rows, axis=0)
        self.data[self.rows - len(batch) :] = batch

    def close_file(self) -> None:
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
    """Return the writer for a file, chosen by the extension of its name.

    Parameters
    ----------
    path : Path
        The file to write: ``.npy``, ``.csv``, ``.tsv``, ``.csv.gz``, ``.tsv.gz``, ``.parquet``, ``.h5`` or
        ``.hdf5``.
    names : sequence of str or None, default=None
        Names of the columns. Text and Parquet files store them.

    Returns
    -------
    Writer
        A context manager with a method ``write``. No file is created before the first batch.

    Raises
    ------
    StreamError
        If the extension is not supported.
    NotInstalled
        If the format needs a package that is not installed.
    FileNotFoundError
        If the folder of ``path`` does not exist.
    """
    suffix = (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()
    if suffix not in WRITERS or (path.suffix == ".gz" and WRITERS[suffix] is not TextWriter):
        raise StreamError(
            f"{path}: the extension does not name a format that can be written; supported are "
            f"{', '.join(WRITERS)}, and .gz after .csv and .tsv"
        )
    return WRITERS[suffix](path, names)
