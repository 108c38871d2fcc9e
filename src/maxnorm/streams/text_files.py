"""Reader of delimited text: CSV, TSV and numbers separated by blanks, from files and standard input."""

from __future__ import annotations

import csv
import gzip
import io
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from maxnorm.core.types import Array
from maxnorm.streams.columns import select_columns
from maxnorm.streams.stream import Columns, Stream, StreamError, rows_per_read

MISSING_WORDS = {"", "na", "nan", "n/a", "null", "none", "?"}  # cells that are read as NaN, in lower case
DELIMITERS = "\t;,"  # in the order in which they are tried; a line without any of them is split at blanks
LAYOUT_LINES = 100  # lines from which the layout is detected and the number of lines estimated
GZIP_MAGIC = b"\x1f\x8b"


class BatchLimits(NamedTuple):
    """Limits on a batch of lines; it ends as soon as one of the two is reached.

    Parameters
    ----------
    lines : int
        Largest number of lines.
    seconds : float, default=inf
        Time after which the next line ends the batch. A limit is only useful for live input.
    """

    lines: int
    seconds: float = math.inf


LIVE_LIMITS = BatchLimits(lines=1000, seconds=0.5)  # for pipes and standard input: no row waits for long
COLUMN_LIMITS = BatchLimits(lines=1000)  # for files whose columns are assembled from all their lines


def open_text(
    path: Path | None,
    *,
    batch_size: int | None,
    columns: Columns,
    transpose: bool,
    header: bool | None = None,
) -> Stream:
    """Return a stream over a text file, a pipe, or standard input if ``path`` is None.

    The delimiter (comma, tab, semicolon or blanks), the header and gzip compression are detected.
    """
    title = "standard input" if path is None else str(path)
    if path is None or not path.is_file():
        if transpose:
            raise StreamError(
                f"{title}: transpose=True needs a regular file, because every batch of columns is a pass "
                "over the data; save the data to a file first"
            )
        return _open_live_text(path, title, batch_size, columns, header)
    with _open_lines(path) as lines:
        first_lines = _read_first_lines(lines, LAYOUT_LINES)
    if transpose:
        layout = _TextLayout.detect(first_lines, title, None, header)
        return _open_transposed(path, layout, _estimate_lines(path, first_lines), batch_size, columns)
    layout = _TextLayout.detect(first_lines, title, columns, header)
    limits = BatchLimits(rows_per_read(batch_size, layout.n_columns))

    def source(start: int) -> Iterator[Array]:
        with _open_lines(path) as lines:
            yield from layout.read_batches(lines, start, limits)

    return layout.make_stream(source, n_expected=_estimate_lines(path, first_lines))


def _open_live_text(
    path: Path | None, title: str, batch_size: int | None, columns: Columns, header: bool | None
) -> Stream:
    """Return a stream over standard input or a pipe, which can be read once only."""
    lines = _open_lines(path)
    # Two lines are the fewest that show the layout. More of them may arrive late or never.
    first_lines = _read_first_lines(lines, 2)
    layout = _TextLayout.detect(first_lines, title, columns, header)
    limits = LIVE_LIMITS._replace(lines=batch_size or LIVE_LIMITS.lines)
    return layout.make_stream(
        lambda start: layout.read_batches(chain(first_lines, lines), start, limits),
        repeatable=False,
        in_background=False,  # a thread that waits for input cannot be stopped
    )


def _open_transposed(
    path: Path, layout: _TextLayout, n_lines: int | None, batch_size: int | None, columns: Columns
) -> Stream:
    """Return a stream whose samples are the columns of a text file, which is read once per batch."""
    if n_lines is None:
        with _open_lines(path) as lines:
            n_lines = sum(1 for _ in lines)
    size = rows_per_read(batch_size, n_lines)
    positions = np.arange(layout.n_columns) if layout.positions is None else layout.positions

    def source(start: int) -> Iterator[Array]:
        for i in range(start, len(positions), size):
            part = replace(layout, positions=positions[i : i + size])
            with _open_lines(path) as lines:
                batches = list(part.read_batches(lines, 0, COLUMN_LIMITS))
            if not batches:
                raise StreamError(f"{layout.title}: has no samples")
            batch = np.concatenate(batches).T
            selection = select_columns(columns, None, batch.shape[1], layout.title)
            yield np.ascontiguousarray(selection.take(batch))

    return Stream(source, layout.title, n_samples=len(positions), remarks=layout.remarks)


@dataclass(frozen=True)
class _TextLayout:
    """The layout of a text table, and the parser of its lines.

    Parameters
    ----------
    delimiter : str or None
        Character between two cells. None means any run of blanks.
    n_columns : int
        Number of cells in every line.
    n_skipped : int
        Number of lines before the first sample: empty lines and the header.
    positions : ndarray of int or None
        Positions of the columns to parse. None means all.
    title : str
        Name of the source in error messages.
    names : tuple of str or None
        Names of the columns to parse, or None if there is no header.
    remarks : tuple of str
        Decisions that the user should know, for ``Stream.remarks``.
    """

    delimiter: str | None
    n_columns: int
    n_skipped: int
    positions: NDArray[np.intp] | None
    title: str
    names: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def detect(
        cls, first_lines: Sequence[str], title: str, columns: Columns, header: bool | None
    ) -> _TextLayout:
        """Detect the layout from the first two lines that are not empty.

        A first column without a name is taken for row labels, as pandas writes them, and is left out unless
        ``columns`` selects it.
        """
        filled = [(i, line) for i, line in enumerate(first_lines) if line.strip()][:2]
        if not filled:
            raise StreamError(f"{title}: is empty")
        delimiter = _detect_delimiter([line for _, line in filled])
        cells = [_split_cells(line, delimiter) for _, line in filled]
        n_columns = len(cells[0])
        remarks = []
        if header is None:
            header = _is_header(*cells)
            if header and any(_parse_number(cell) is not None and cell.strip() for cell in cells[0]):
                remarks.append(
                    f"{title}: the first line is read as column names, although some of them are numbers; "
                    "set header to False if it is a sample"
                )
        names = [cell.strip() for cell in cells[0]] if header else None
        if columns is None and names and not names[0] and all(names[1:]) and n_columns > 1:
            columns = slice(1, None)
            remarks.append(
                f"{title}: the first column has no name; it is taken for row labels and is left out"
            )
        selection = select_columns(columns, names, n_columns, title)
        return cls(
            delimiter=delimiter,
            n_columns=n_columns,
            n_skipped=filled[0][0] + header,
            positions=selection.positions,
            title=title,
            names=selection.names,
            remarks=tuple(remarks),
        )

    @property
    def n_features(self) -> int:
        """Number of columns to parse."""
        return self.n_columns if self.positions is None else len(self.positions)

    def make_stream(self, source: Callable[[int], Iterator[Array]], **known: Any) -> Stream:
        """Return a stream over ``source`` with the features of this layout.

        Further keyword arguments are passed to ``Stream``.
        """
        return Stream(
            source, self.title, n_features=self.n_features, names=self.names, remarks=self.remarks, **known
        )

    def read_batches(self, lines: Iterable[str], start: int, limits: BatchLimits) -> Iterator[Array]:
        """Yield the samples of a table, parsed, from sample number ``start`` on.

        Parameters
        ----------
        lines : iterable of str
            All lines of the table, including the header.
        start : int
            Number of samples to skip.
        limits : BatchLimits
            Limits on the lines of a batch. Empty lines are counted, but are not samples.

        Yields
        ------
        ndarray of shape (rows, n_features)

        Raises
        ------
        StreamError
            If a line cannot be parsed. The samples before it are yielded first.
        """
        line_number = self.n_skipped + 1
        lines = islice(lines, self.n_skipped, None)
        failure: Exception | None = None
        while failure is None:
            block, failure = _read_lines(lines, limits)
            if not block:
                break
            try:
                samples = self._parse(block, line_number)
            except _InvalidLine as invalid:
                samples, failure = invalid.samples_before, StreamError(str(invalid))
            line_number += len(block)
            if start < len(samples):
                yield samples[start:]
            start = max(0, start - len(samples))
        if failure is not None:
            raise failure

    def _parse(self, lines: list[str], line_number: int) -> Array:
        """Return the samples in some lines, the first of which has the given number, counted from 1."""
        delimiter = self.delimiter
        if delimiter is not None and all(line.count(delimiter) == self.n_columns - 1 for line in lines):
            text = "".join(lines)
            if '"' not in text:
                try:
                    block = np.loadtxt(
                        _fill_empty_cells(text, delimiter).splitlines(),
                        delimiter=delimiter,
                        comments=None,
                        usecols=None if self.positions is None else self.positions.tolist(),
                        ndmin=2,
                    )
                except ValueError:
                    pass  # a word for a missing entry, or an error that the other parser locates
                else:
                    if len(block) == len(lines):  # NumPy drops empty lines
                        return block
        return self._parse_cell_by_cell(lines, line_number)

    def _parse_cell_by_cell(self, lines: list[str], line_number: int) -> Array:
        """Return the samples in some lines, or raise _InvalidLine with the place of the first error.

        This is much slower than ``numpy.loadtxt``, but accepts quotes, empty lines and the words for missing
        entries.
        """
        positions = range(self.n_columns) if self.positions is None else self.positions
        rows: list[list[float]] = []

        def invalid(number: int, message: str) -> _InvalidLine:
            return _InvalidLine(f"{self.title}, line {number}{message}", self._to_array(rows))

        for number, line in enumerate(lines, start=line_number):
            if not line.strip():
                continue
            cells = _split_cells(line, self.delimiter)
            if len(cells) != self.n_columns:
                raise invalid(number, f": {len(cells)} columns where {self.n_columns} are expected")
            row = []
            for j in positions:
                value = _parse_number(cells[j])
                if value is None:
                    raise invalid(
                        number,
                        f", column {j}: {cells[j].strip()!r} is not a number; leave missing entries empty, "
                        "or select numeric columns with columns",
                    )
                row.append(value)
            rows.append(row)
        return self._to_array(rows)

    def _to_array(self, rows: list[list[float]]) -> Array:
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.n_features)


class _InvalidLine(Exception):
    """A line cannot be parsed; ``samples_before`` holds the samples of the block before it."""

    def __init__(self, message: str, samples_before: Array) -> None:
        super().__init__(message)
        self.samples_before = samples_before


def _is_header(first: list[str], second: list[str] | None = None) -> bool:
    """Return whether the cells of the first line are column names.

    They are if one of them is a word where the second line has a number, or if they are the positions 0, 1,
    2 and so on, which pandas writes for columns without names. Without a second line, all must be words.
    """
    cells = [cell.strip() for cell in first]
    if cells[0] == "":  # pandas leaves the name of its row labels empty
        cells = cells[1:]
    if len(cells) > 1 and cells == [str(i) for i in range(len(cells))]:
        return True
    if second is None:
        return all(_parse_number(cell) is None for cell in first)
    return any(
        _parse_number(a) is None and _parse_number(b) is not None for a, b in zip(first, second, strict=False)
    )


def _read_lines(lines: Iterator[str], limits: BatchLimits) -> tuple[list[str], Exception | None]:
    """Return the next lines, and the exception that ended them, or None."""
    block: list[str] = []
    begin = time.monotonic()
    try:
        for line in islice(lines, limits.lines):
            block.append(line)
            if limits.seconds < math.inf and time.monotonic() > begin + limits.seconds:
                break
    except (OSError, EOFError, ValueError) as error:
        return block, error
    return block, None


def _read_first_lines(lines: Iterator[str], count: int) -> list[str]:
    """Return the first lines up to the one that is number ``count`` among those that are not empty."""
    first_lines = []
    for line in lines:
        first_lines.append(line)
        count -= bool(line.strip())
        if not count:
            break
    return first_lines


def _open_lines(path: Path | None) -> TextIO:
    """Open a text file, compressed or not, or standard input if ``path`` is None."""
    if path is None:
        return io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
    if _is_gzip(path):
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _is_gzip(path: Path) -> bool:
    """Return whether a regular file is compressed, by its first bytes; a pipe is not touched."""
    if not path.is_file():
        return False
    with path.open("rb") as raw:
        return raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def _detect_delimiter(lines: list[str]) -> str | None:
    """Return the delimiter that splits all lines into the same number of cells, which is at least two.

    If there is none, return the delimiter that occurs in the first line, or None, which stands for blanks.
    """
    for candidate in DELIMITERS:
        counts = {line.count(candidate) for line in lines if '"' not in line} or {
            len(_split_cells(line, candidate)) - 1 for line in lines
        }
        if 0 not in counts and len(counts) == 1:
            return candidate
    # The lines have different numbers of cells. The parser reports that later, with the line number.
    for candidate in DELIMITERS:
        if candidate in lines[0]:
            return candidate
    return None


def _split_cells(line: str, delimiter: str | None) -> list[str]:
    return line.split() if delimiter is None else next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter))


def _parse_number(cell: str) -> float | None:
    """Return the number in a cell, NaN if the cell marks a missing entry, or None if it is not a number."""
    cell = cell.strip()
    if cell.lower() in MISSING_WORDS:
        return float("nan")
    if "_" in cell or not cell.isascii():  # float() accepts "1_000" and digits of other scripts
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _fill_empty_cells(text: str, delimiter: str) -> str:
    """Return lines with ``nan`` in every empty cell, for ``numpy.loadtxt``."""
    text = "\n" + text.replace("\r", "").rstrip("\n") + "\n"
    for before, after in (
        (delimiter, delimiter),
        (delimiter, delimiter),  # twice, because of adjacent empty cells only every other one is found
        ("\n", delimiter),
        (delimiter, "\n"),
    ):
        text = text.replace(before + after, f"{before}nan{after}")
    return text[1:]


def _estimate_lines(path: Path, first_lines: Sequence[str]) -> int | None:
    """Estimate the number of lines of a file from the length of the first; None for compressed files."""
    if _is_gzip(path):
        return None
    return round(path.stat().st_size / (sum(map(len, first_lines)) / len(first_lines)))
