"""Writers of results: arrays are written batch by batch, in a format chosen by the extension of the file."""

from __future__ import annotations

import gzip
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np

from maxnorm.core.types import Array
from maxnorm.files import check_replaceable, replacing
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
        The file to write. An existing file is replaced, unless it is a device or a pipe. A symbolic link
        stays, and its target is replaced.
    names : sequence of str or None, default=None
        Names of the columns, for formats that store them.

    Raises
    ------
    OSError
        If no file can be written to ``path``, for example because its folder does not exist.
    """

    temporary_path: Path

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        self.path = check_replaceable(path)
        self.names = None if names is None else [str(name) for name in names]
        self.rows = 0
        self._replacement = ExitStack()

    def write(self, batch: Array) -> None:
        """Append the rows of a batch.

        Parameters
        ----------
        batch : ndarray of shape (rows,) or (rows, n_columns)
            All batches of a file must have the same number of columns. The first determines the type.
        """
        if not self.rows:
            self.temporary_path = self._replacement.enter_context(replacing(self.path))
            self.open_file(batch)
        self.rows += len(batch)
        self.append(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            with suppress(Exception):  # the file is removed, so that errors on closing it do not matter
                self.close_file()
            self._replacement.__exit__(kind, error, trace)
            return
        with self._replacement:
            if self.rows:
                self.close_file()

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


class NamelessGzipFile(gzip.GzipFile):
    """A compressed file that holds neither its name, which is temporary, nor the time."""

    def __init__(self, path: Path) -> None:
        self._opened = path.open("wb")
        super().__init__("", "wb", fileobj=self._opened, mtime=0)

    def close(self) -> None:
        with self._opened:
            super().close()


class TextWriter(Writer):
    """Writer of CSV and TSV files, compressed with gzip if the name ends in ``.gz``.

    Floating-point numbers have enough digits to be read back exactly. NaN is written as an empty cell.
    """

    def open_file(self, batch: Array) -> None:
        is_gzip = self.path.suffix == ".gz"
        extension = (Path(self.path.stem) if is_gzip else self.path).suffix.lower()
        self.delimiter = "\t" if extension == ".tsv" else ","
        self.file: TextIO = io.TextIOWrapper(
            NamelessGzipFile(self.temporary_path) if is_gzip else self.temporary_path.open("wb"),
            encoding="utf-8",
            newline="\n",
        )
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


class _FileForHdf5(io.FileIO):
    """A file that remembers its first error and ignores what is written after it.

    The HDF5 library crashes the process if it cannot write to a file that it must close, for example because
    the disk is full. It is therefore told that writing has succeeded.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        n_bytes = len(view)
        try:
            while len(view) and self.error is None:
                view = view[super().write(view) :]
        except OSError as error:
            self.error = error
        self.seek(len(view), os.SEEK_CUR)
        return n_bytes

    def truncate(self, size: int | None = None) -> int:
        try:
            if self.error is None:
                return super().truncate(size)
        except OSError as error:
            self.error = error
        return self.tell() if size is None else size

    def check(self) -> None:
        """Raise the error that was remembered, if there is one."""
        if self.error is not None:
            raise self.error


class Hdf5Writer(Writer):
    """Writer of HDF5 files, with one dataset called ``data``."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        super().__init__(path, names)
        self.h5py = needs("h5py", "writing HDF5")

    def open_file(self, batch: Array) -> None:
        self.raw = _FileForHdf5(self.temporary_path)
        self.file = self.h5py.File(self.raw, "w")
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
        self.raw.check()

    def close_file(self) -> None:
        with self.raw:
            self.file.close()
        self.raw.check()


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
    OSError
        If no file can be written to ``path``, for example because its folder does not exist.
    """
    suffix = (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()
    if suffix not in WRITERS or (path.suffix == ".gz" and WRITERS[suffix] is not TextWriter):
        raise StreamError(
            f"{path}: the extension does not name a format that can be written; supported are "
            f"{', '.join(WRITERS)}, and .gz after .csv and .tsv"
        )
    return WRITERS[suffix](path, names)
