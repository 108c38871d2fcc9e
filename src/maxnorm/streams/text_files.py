"""Reader of delimited text: CSV, TSV and numbers separated by blanks, from files and standard input."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

import numpy as np
from numpy.typing import NDArray

from maxnorm.core.types import Array
from maxnorm.streams.columns import select_columns
from maxnorm.streams.file_checks import require_row_fits
from maxnorm.streams.live_lines import LiveLines, line_too_long
from maxnorm.streams.stream import Columns, Stream, StreamError, regroup, rows_per_read

MISSING_WORDS = {"", "na", "nan", "n/a", "null", "none", "?"}  # cells that are read as NaN, in lower case
DELIMITERS = "\t;,"  # in the order in which they are tried; a line without any of them is split at blanks
DELIMITER_LINE = re.compile(r'"?sep=(.)"?')  # the first line of files that are meant for Excel
COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
POINT_NUMBER = re.compile(r"[+-]?\d*\.\d*([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # a number such as 1,234, which has two meanings
LAYOUT_LINES = 100  # lines from which the layout is detected and the number of lines estimated
LAYOUT_CHARACTERS = 2**20  # after these, three lines are enough
GZIP_MAGIC = b"\x1f\x8b"

LONGEST_CELL_SHOWN = 80  # characters, in an error message
LONGEST_LINE = 2**25  # characters; a compressed file of a few megabytes can hold a line of gigabytes
MOST_COLUMNS = 2**21  # cells of a line, because a cell takes about sixty bytes while it is parsed
MOST_EMPTY_LINES = 2**17  # in sequence; a compressed file of a few megabytes can hold billions
BLOCK_CHARACTERS = 2**25  # characters that are parsed at a time


class BatchLimits(NamedTuple):
    """Limits on a batch of lines; it ends as soon as one of the two is reached.

    Parameters
    ----------
    lines : int
        Largest number of lines.
    seconds : float, default=inf
        Time from the arrival of the first line after which the batch ends. It applies to live input.
    """

    lines: int
    seconds: float = inf


LIVE_LIMITS = BatchLimits(lines=1000, seconds=0.5)  # for pipes and standard input: no row waits for long
COLUMN_LIMITS = BatchLimits(lines=1000)  # for files whose columns are assembled from all their lines


class Lines(Protocol):
    """A source of lines: ``FileLines`` or ``LiveLines``."""

    def read(self, limits: BatchLimits) -> tuple[list[str], BaseException | None]:
        """Return the next lines, none at the end, and the exception that ended them, or None."""
        ...


class FileLines:
    """The lines of a regular file, compressed with gzip or not; use it in a ``with`` statement."""

    def __init__(self, path: Path) -> None:
        self._title = str(path)
        open_file: Callable[..., TextIO] = gzip.open if is_gzip(path) else open
        self._file = open_file(path, "rt", encoding="utf-8-sig")

    def __enter__(self) -> FileLines:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, limits: BatchLimits) -> tuple[list[str], BaseException | None]:
        """Return the next lines, none at the end, and the exception that ended them, or None.

        There are fewer lines than the limit if they have very many characters.
        """
        block: list[str] = []
        n_characters = 0
        readline = partial(self._file.readline, LONGEST_LINE + 1)
        try:
            for line in iter(readline, ""):
                block.append(line)
                n_characters += len(line)
                if len(block) >= limits.lines or n_characters > BLOCK_CHARACTERS or len(line) > LONGEST_LINE:
                    break
        except (OSError, EOFError, ValueError, zlib.error) as error:
            return block, error
        if block and len(block[-1]) > LONGEST_LINE:
            return block[:-1], line_too_long(self._title, LONGEST_LINE)
        return block, None


def open_text(
    path: Path | None,
    *,
    batch_size: int | None,
    columns: Columns,
    transpose: bool,
    header: bool | None = None,
) -> Stream:
    """Return a stream over a text file, a pipe, or standard input if ``path`` is None.

    The delimiter (comma, tab, semicolon or blanks), the header, decimal commas and gzip compression are
    detected.
    """
    title = "standard input" if path is None else str(path)
    if path is None or not path.is_file():
        if transpose:
            raise StreamError(
                f"{title}: transpose=True needs a regular file, because every batch of columns is a pass "
                "over the data; save the data to a file first"
            )
        return _open_live_text(path, title, batch_size, columns, header)
    with FileLines(path) as lines:
        first_lines = read_first_lines(lines, title)
    if transpose:
        layout = TextLayout.detect(first_lines, title, None, header)
        return _open_transposed(path, layout, _estimate_lines(path, first_lines), batch_size, columns)
    layout = TextLayout.detect(first_lines, title, columns, header)
    limits = BatchLimits(rows_per_read(batch_size, layout.n_columns))

    def source(start: int) -> Iterator[Array]:
        with FileLines(path) as lines:
            yield from regroup(layout.read_batches(lines, start, limits), batch_size)

    return layout.make_stream(source, n_expected=_estimate_lines(path, first_lines))


def _open_live_text(
    path: Path | None, title: str, batch_size: int | None, columns: Columns, header: bool | None
) -> Stream:
    """Return a stream over standard input or a pipe, which can be read once only."""
    lines = LiveLines(path, title, LONGEST_LINE)
    first_lines = wait_for_first_lines(lines, title, header)
    layout = TextLayout.detect(first_lines, title, columns, header)
    limits = LIVE_LIMITS._replace(lines=batch_size or LIVE_LIMITS.lines)
    lines.put_back(first_lines)
    is_read = False

    def source(start: int) -> Iterator[Array]:
        nonlocal is_read
        if is_read:
            raise StreamError(f"{title}: can be read once only; for several passes, save the data to a file")
        is_read = True
        yield from layout.read_batches(lines, start, limits)

    return layout.make_stream(
        source,
        repeatable=False,
        in_background=False,  # a thread of its own waits for the input already
    )


def _open_transposed(
    path: Path, layout: TextLayout, n_lines: int | None, batch_size: int | None, columns: Columns
) -> Stream:
    """Return a stream whose samples are the columns of a text file, which is read once per batch."""
    if n_lines is None:
        n_lines = _count_lines(path, layout.title)
    size = rows_per_read(batch_size, n_lines)
    positions = np.arange(layout.n_columns) if layout.positions is None else layout.positions

    def source(start: int) -> Iterator[Array]:
        for i in range(start, len(positions), size):
            part = replace(layout, positions=positions[i : i + size])
            batches, n_features = [], 0
            with FileLines(path) as lines:
                for some in part.read_batches(lines, 0, COLUMN_LIMITS):
                    batches.append(some)
                    n_features += len(some)
                    require_row_fits(n_features, layout.title)
            if not batches:
                raise StreamError(f"{layout.title}: has no samples")
            batch = np.concatenate(batches).T
            del batches  # which take as much memory again
            selection = select_columns(columns, None, batch.shape[1], layout.title)
            yield np.ascontiguousarray(selection.take(batch))

    return Stream(source, layout.title, n_samples=len(positions), remarks=layout.remarks)


def _count_lines(path: Path, title: str) -> int:
    """Return the number of lines of a file whose lines are features."""
    n_lines = 0
    with FileLines(path) as lines:
        while True:
            block, failure = lines.read(COLUMN_LIMITS)
            n_lines += len(block)
            require_row_fits(n_lines, title)
            if failure is not None:
                raise explained(failure, title)
            if not block:
                return n_lines


@dataclass(frozen=True)
class TextLayout:
    """The layout of a text table, and the parser of its lines.

    Parameters
    ----------
    delimiter : str or None
        Character between two cells. None means any run of blanks.
    n_columns : int
        Number of cells in every line.
    n_skipped : int
        Number of lines before the first sample: empty lines, the header and a line of units.
    positions : ndarray of int or None
        Positions of the columns to parse. None means all.
    title : str
        Name of the source in error messages.
    names : tuple of str or None
        Names of the columns to parse, or None if there is no header.
    remarks : tuple of str
        Decisions that the user should know, for ``Stream.remarks``.
    has_decimal_commas : bool, default=False
        Whether numbers have a decimal comma instead of a decimal point.
    """

    delimiter: str | None
    n_columns: int
    n_skipped: int
    positions: NDArray[np.intp] | None
    title: str
    names: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()
    has_decimal_commas: bool = False

    @classmethod
    def detect(
        cls, first_lines: Sequence[str], title: str, columns: Columns, header: bool | None
    ) -> TextLayout:
        """Detect the layout from the first lines.

        A first column without a name is taken for row labels, as pandas writes them, and is left out unless
        ``columns`` selects it.
        """
        filled = [(i, line) for i, line in enumerate(first_lines) if line.strip()]
        if not filled:
            raise StreamError(f"{title}: is empty")
        declared = DELIMITER_LINE.fullmatch(filled[0][1].rstrip("\r\n"))
        if declared:
            filled = filled[1:]
            if not filled:
                raise StreamError(f"{title}: has no samples after its first line, which names the delimiter")
        delimiter = declared[1] if declared else _detect_delimiter([line for _, line in filled[:2]])
        cells: list[list[str]] = []
        for i, line in filled:
            if line.count(delimiter or " ") >= MOST_COLUMNS:
                raise StreamError(
                    f"{title}, line {i + 1}: has more than the {MOST_COLUMNS} columns that can be read from "
                    "text; use a binary format such as .npy"
                )
            if len(cells) < 3 and _is_quote_open(line, delimiter):
                raise StreamError(f"{title}, line {i + 1}: {OPEN_QUOTE}")
            cells.append(split_cells(line, delimiter))
        n_columns = len(cells[0])
        has_decimal_commas = delimiter != "," and _has_decimal_commas(cells)
        remarks = []
        if has_decimal_commas:
            remarks.append(f"{title}: commas are read as decimal commas")
        has_units = header is not False and _has_units(cells)
        if header is None:
            header = has_units or _is_header(*cells[:2])
            if header and any(parse_number(cell) is not None and cell.strip() for cell in cells[0]):
                remarks.append(
                    f"{title}: the first line is read as column names, although some of them are numbers; "
                    "set header to False if it is a sample"
                )
        if has_units:
            shown = ", ".join(repr(cell.strip()) for cell in cells[1][:3]) + (
                ", ..." if n_columns > 3 else ""
            )
            remarks.append(f"{title}: line {filled[1][0] + 1} holds units ({shown}) and is left out")
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
            n_skipped=filled[1][0] + 1 if has_units else filled[0][0] + header,
            positions=selection.positions,
            title=title,
            names=selection.names,
            remarks=tuple(remarks),
            has_decimal_commas=has_decimal_commas,
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

    def read_batches(self, lines: Lines, start: int, limits: BatchLimits) -> Iterator[Array]:
        """Yield the samples of a table, parsed, from sample number ``start`` on.

        Parameters
        ----------
        lines : Lines
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
        line_number, n_empty = 1, 0
        failure: BaseException | None = None
        while failure is None:
            is_before = line_number <= self.n_skipped
            block, failure = lines.read(
                BatchLimits(self.n_skipped + 1 - line_number) if is_before else limits
            )
            if not block:
                break
            if is_before:
                line_number += len(block)
                continue
            try:
                samples = self._parse(block, line_number)
            except _InvalidLine as invalid:
                samples, failure = invalid.samples_before, StreamError(str(invalid))
            line_number += len(block)
            n_empty = 0 if len(samples) else n_empty + len(block)
            if n_empty > MOST_EMPTY_LINES:
                raise _too_many_empty_lines(self.title, line_number - 1)
            if start < len(samples):
                yield samples[start:]
            start = max(0, start - len(samples))
        if failure is not None:
            raise explained(failure, self.title)

    def _parse(self, lines: list[str], line_number: int) -> Array:
        """Return the samples in some lines, the first of which has the given number, counted from 1."""
        delimiter = self.delimiter
        if delimiter is not None and all(line.count(delimiter) == self.n_columns - 1 for line in lines):
            text = "".join(lines)
            if '"' not in text and not (self.has_decimal_commas and "." in text):
                if self.has_decimal_commas:
                    text = text.replace(",", ".")
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
            try:
                cells = split_cells(line, self.delimiter)
            except csv.Error as error:
                raise invalid(number, f": {error}") from error
            if _is_quote_open(line, self.delimiter):
                raise invalid(number, f": {OPEN_QUOTE}")
            if len(cells) != self.n_columns:
                raise invalid(number, f": {len(cells)} columns where {self.n_columns} are expected")
            row = []
            for j in positions:
                value = parse_number(cells[j], self.has_decimal_commas)
                if value is None:
                    raise invalid(number, f", column {j}: {_why_not_a_number(cells[j].strip())}")
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


OPEN_QUOTE = (
    "a quoted cell contains a line break, or its closing quote is missing; remove line breaks from cells, "
    "because every line is a sample"
)


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
        return not any(map(_looks_numeric, first))
    return any(not _looks_numeric(a) and _looks_numeric(b) for a, b in zip(first, second, strict=False))


def _has_units(cells: Sequence[list[str]]) -> bool:
    """Return whether the second line holds units: words, where only the third line has numbers.

    Only cells that are not empty count as words and numbers.
    """
    if len(cells) < 3 or any(cell.strip() and _looks_numeric(cell) for cell in cells[1]):
        return False
    return any(
        not _looks_numeric(a) and not _looks_numeric(b) and c.strip() and _looks_numeric(c)
        for a, b, c in zip(*cells[:3], strict=False)
    )


def _has_decimal_commas(cells: Sequence[list[str]]) -> bool:
    """Return whether numbers have decimal commas, judged by cells that are not separated by commas.

    They have if a comma occurs in a place where it cannot separate thousands, and no number has a point.
    """
    numbers = [cell.strip() for line in cells for cell in line]
    with_comma = [cell for cell in numbers if COMMA_NUMBER.fullmatch(cell)]
    if not with_comma or all(THOUSANDS.fullmatch(cell) for cell in with_comma):
        return False
    return not any("." in cell and POINT_NUMBER.fullmatch(cell) for cell in numbers)


def read_first_lines(lines: FileLines, title: str) -> list[str]:
    """Return the first lines of a file: enough to detect its layout, and few if they are long."""
    first_lines: list[str] = []
    n_filled = n_characters = 0
    while n_filled < LAYOUT_LINES and (n_filled < 4 or n_characters < LAYOUT_CHARACTERS):
        block, failure = lines.read(BatchLimits(1))
        first_lines += block
        n_filled += sum(bool(line.strip()) for line in block)
        n_characters += sum(map(len, block))
        if failure is not None and not n_filled:
            raise explained(failure, title)
        if failure is not None or not block:  # a failure is raised when the stream gets there
            break
        if len(first_lines) > MOST_EMPTY_LINES and not n_filled:
            raise _too_many_empty_lines(title, len(first_lines))
    return first_lines


def wait_for_first_lines(lines: LiveLines, title: str, header: bool | None) -> list[str]:
    """Return the first lines of live input: as few as show the layout, because more may arrive late.

    If ``header`` is None, the line after the header is waited for as long as necessary, because a header
    alone cannot be told from a sample.
    """
    first_lines: list[str] = []
    filled: list[str] = []
    limits = BatchLimits(1) if header is None else BatchLimits(2, LIVE_LIMITS.seconds)
    while _is_layout_open(filled, header):
        block, failure = lines.read(limits)
        first_lines += block
        filled += [line for line in block if line.strip()]
        if failure is not None and not filled:
            raise explained(failure, title)
        if failure is not None or not block:
            lines.end_with(failure)
            break
    return first_lines


def _is_layout_open(filled: Sequence[str], header: bool | None) -> bool:
    """Return whether further lines are needed to detect the layout."""
    if filled and DELIMITER_LINE.fullmatch(filled[0].rstrip("\r\n")):
        filled = filled[1:]
    if header is not None:
        return not filled
    if len(filled) < 2:
        return True
    # The second line may be a line of units, which only the third line tells.
    delimiter = _detect_delimiter(list(filled[:2]))
    return len(filled) == 2 and not any(
        cell.strip() and _looks_numeric(cell) for cell in split_cells(filled[1], delimiter)
    )


def _too_many_empty_lines(title: str, line_number: int) -> StreamError:
    return StreamError(
        f"{title}, line {line_number}: more than {MOST_EMPTY_LINES} empty lines follow each other; remove "
        "them"
    )


def explained(failure: BaseException, title: str) -> BaseException:
    """Return the exception to raise if the lines of a source cannot be read."""
    if isinstance(failure, UnicodeDecodeError):
        return StreamError(
            f"{title}: is not text in UTF-8 (it has the byte {failure.object[failure.start]:#04x}); save it "
            "in UTF-8"
        )
    return failure


def is_gzip(path: Path) -> bool:
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
            len(split_cells(line, candidate)) - 1 for line in lines
        }
        if 0 not in counts and len(counts) == 1:
            return candidate
    # The lines have different numbers of cells. The parser reports that later, with the line number.
    for candidate in DELIMITERS:
        if candidate in lines[0]:
            return candidate
    return None


def split_cells(line: str, delimiter: str | None) -> list[str]:
    """Return the cells of a line."""
    if delimiter is None:
        return line.split()
    line = line.rstrip("\r\n")
    return next(csv.reader([line], delimiter=delimiter)) if '"' in line else line.split(delimiter)


def _is_quote_open(line: str, delimiter: str | None) -> bool:
    """Return whether a line ends within a quoted cell."""
    if line.count('"') % 2 == 0:
        return False
    return line.startswith('"') or (delimiter is not None and delimiter + '"' in line)


def _looks_numeric(cell: str) -> bool:
    """Return whether a cell is empty, marks a missing entry, or is a number, also with a comma."""
    return parse_number(cell) is not None or COMMA_NUMBER.fullmatch(cell.strip()) is not None


def parse_number(cell: str, has_decimal_commas: bool = False) -> float | None:
    """Return the number in a cell, NaN if the cell marks a missing entry, or None if it is not a number."""
    cell = cell.strip()
    if cell.lower() in MISSING_WORDS:
        return float("nan")
    if "_" in cell or not cell.isascii():  # float() accepts "1_000" and digits of other scripts
        return None
    if has_decimal_commas:
        if "." in cell:
            return None
        cell = cell.replace(",", ".")
    try:
        return float(cell)
    except ValueError:
        return None


def _why_not_a_number(cell: str) -> str:
    """Return the reason why a cell cannot be read, with a remedy."""
    if "," in cell and (COMMA_NUMBER.fullmatch(cell) or POINT_NUMBER.fullmatch(cell.replace(",", ""))):
        return (
            f"{cell!r} is not a number: its comma may separate decimals or thousands; write decimal points, "
            "and leave out separators of thousands"
        )
    return (
        f"{cell[:LONGEST_CELL_SHOWN]!r} is not a number; leave missing entries empty, or select numeric "
        "columns with columns"
    )


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
    if is_gzip(path):
        return None
    return round(path.stat().st_size / (sum(map(len, first_lines)) / len(first_lines)))
