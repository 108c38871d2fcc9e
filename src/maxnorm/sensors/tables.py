"""Files of sensor logs: which columns are sensors, and how the file is written again with other values.

Columns of times and texts, counters and switches are passed through as they are. Text files keep their
delimiter, their header lines and every cell that is not replaced, character by character.
"""

from __future__ import annotations

import codecs
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from maxnorm.core.types import Array, Mask
from maxnorm.files import replacing
from maxnorm.streams import open_stream
from maxnorm.streams.stream import StreamError, needs
from maxnorm.streams.text_files import (
    BatchLimits,
    FileLines,
    TextLayout,
    explained,
    is_gzip,
    parse_number,
    read_first_lines,
    split_cells,
)
from maxnorm.streams.writing import NamelessGzipFile, open_writer

TIME_NAME = re.compile(r"(time|date|datum|zeit|stamp|uhrzeit|heure|fecha|^ts$|^utc)", re.IGNORECASE)
FIRST_ROWS = 1000  # from which it is decided what the columns are
NUMERIC_SHARE = 0.8  # of the cells of a column that must be numbers
LINES = BatchLimits(lines=10_000)
START_BYTES = 2**16  # by which line endings are recognised
MOST_DECIMALS = 10  # of new values; columns with more have the full precision of the arithmetic
DIGITS = 6  # significant digits of new values in columns with exponents or of binary formats


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are."""

    sensors: list[int]  #: positions of the sensors
    time: int | None  #: position of the column that tells the time of a row
    remarks: list[str] = field(default_factory=list)  #: decisions that the user should know


@dataclass(frozen=True)
class ColumnChoice:
    """What the user says of the columns; names or positions, as text."""

    columns: str | None = None  #: the sensors
    exclude: str | None = None  #: columns that are not sensors
    time: str | None = None  #: the time

    def find(self, text: str, names: Sequence[str], option: str) -> list[int]:
        """Return the positions of the columns that are named in a comma-separated text."""
        positions = []
        for part in text.split(","):
            name = part.strip()
            if name in names:
                positions.append(list(names).index(name))
            elif name.isdecimal() and int(name) < len(names):
                positions.append(int(name))
            else:
                known = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
                raise StreamError(f"{option}: there is no column {name!r}; the columns are {known}")
        return positions


def choose_roles(names: Sequence[str], first: Sequence[Array | None], choice: ColumnChoice) -> Roles:
    """Decide what the columns of a table are.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    first : sequence of arrays or None
        The first entries of each column, or None if the column does not hold numbers.
    choice : ColumnChoice
        What the user says.

    Returns
    -------
    Roles
        The sensors and the time.
    """
    remarks: list[str] = []
    time = choice.find(choice.time, names, "--time")[0] if choice.time else None
    if time is None:
        named = [j for j, name in enumerate(names) if TIME_NAME.search(name)]
        time = named[0] if named else (0 if first and first[0] is None else None)
    excluded = set(choice.find(choice.exclude, names, "--exclude")) if choice.exclude else set()
    if choice.columns:
        sensors = choice.find(choice.columns, names, "--columns")
        texts = [names[j] for j in sensors if first[j] is None]
        if texts:
            raise StreamError(f"--columns: {texts[0]!r} does not hold numbers; leave it out")
        return Roles([j for j in sensors if j not in excluded], time, remarks)
    sensors = []
    for j, values in enumerate(first):
        if j == time or j in excluded or values is None:
            continue
        there = values[~np.isnan(values)]
        if (
            len(there) > 2
            and len(there) == len(values)
            and np.ptp(np.diff(there)) == 0.0 != there[1] - there[0]
        ):
            remarks.append(f"{names[j]} counts the rows, and is passed through; --columns can include it")
        elif len(np.unique(there)) <= 2:
            remarks.append(
                f"{names[j]} has at most two values, and is passed through; --columns can include it"
            )
        else:
            sensors.append(j)
    return Roles(sensors, time, remarks)


class LogTable(ABC):
    """A file with a log of sensors, one row per time."""

    title: str
    names: list[str]  #: of all columns
    roles: Roles
    values: Array  #: n x p, the sensors; NaN marks missing entries
    labels: list[str]  #: the time of each row, or its number

    @property
    def sensor_names(self) -> list[str]:
        """Names of the sensors."""
        return [self.names[j] for j in self.roles.sensors]

    def choose(self, numbers: Sequence[Array | None], times: Sequence[Any], choice: ColumnChoice) -> None:
        """Decide what the columns are, given the numbers of each or None, and keep the sensors.

        Parameters
        ----------
        numbers : sequence of arrays or None
            The numbers of each column, or None if it holds something else.
        times : sequence
            The columns, one of which may tell the time.
        choice : ColumnChoice
            What the user says.
        """
        first = [None if column is None else column[:FIRST_ROWS] for column in numbers]
        self.roles = choose_roles(self.names, first, choice)
        n_rows = len(times[0])
        chosen = [column for j in self.roles.sensors if (column := numbers[j]) is not None]
        self.values = np.column_stack(chosen) if chosen else np.empty((n_rows, 0))
        time = self.roles.time
        self.labels = [str(label) for label in (range(1, n_rows + 1) if time is None else times[time])]

    @abstractmethod
    def write(self, path: Path, cleaned: Array, changed: Mask) -> None:
        """Write the table with new values in the entries that are changed; ``path`` has the same format."""


class TextTable(LogTable):
    """A log in a text file."""

    def __init__(self, path: Path, choice: ColumnChoice, header: bool | None) -> None:
        self.path, self.title = path, str(path)
        with FileLines(path) as lines:
            first_lines = read_first_lines(lines, self.title)
        # All columns are wanted, also one without a name, which other readers leave out.
        self.layout = TextLayout.detect(first_lines, self.title, slice(None), header)
        names = self.layout.names or tuple(f"column {j}" for j in range(self.layout.n_columns))
        self.names = [name or f"column {j}" for j, name in enumerate(names)]
        cells: list[list[str]] = []
        for _, row in self._rows():
            cells.append(row)
            if len(cells) == FIRST_ROWS:
                break
        if not cells:
            raise StreamError(f"{self.title}: has no rows")
        columns = list(zip(*cells, strict=True))
        self.roles = choose_roles(self.names, [self._numbers(column) for column in columns], choice)
        self.formats = [self._format(columns[j]) for j in self.roles.sensors]
        self.roles.remarks.extend(self.layout.remarks)
        values, self.labels = [], []
        for _, row in self._rows():
            values.append([self._number(row[j]) for j in self.roles.sensors])
            self.labels.append(
                row[self.roles.time].strip() if self.roles.time is not None else str(len(values))
            )
        self.values = np.array(values, dtype=np.float64).reshape(len(self.labels), len(self.roles.sensors))

    def _rows(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the lines of the rows, and their cells."""
        with FileLines(self.path) as lines:
            number = 0
            while True:
                block, failure = lines.read(LINES)
                for line in block:
                    number += 1
                    if number <= self.layout.n_skipped or not line.strip():
                        continue
                    cells = split_cells(line, self.layout.delimiter)
                    if len(cells) != self.layout.n_columns:
                        raise StreamError(
                            f"{self.title}, line {number}: has {len(cells)} cells, but the first row has "
                            f"{self.layout.n_columns}; correct the line"
                        )
                    yield line, cells
                if failure is not None:
                    raise explained(failure, self.title)
                if not block:
                    return

    def _number(self, cell: str) -> float:
        """Return the number in a cell; NaN if it is empty or not a number."""
        try:
            return float(cell)
        except ValueError:
            number = parse_number(cell, self.layout.has_decimal_commas)
            return float("nan") if number is None else number

    def _numbers(self, column: Sequence[str]) -> Array | None:
        """Return the numbers of a column, or None if most cells are something else."""
        numbers = [parse_number(cell, self.layout.has_decimal_commas) for cell in column]
        there = [number for number, cell in zip(numbers, column, strict=True) if cell.strip()]
        n_numbers = sum(number is not None for number in there)
        if not n_numbers or n_numbers < NUMERIC_SHARE * len(there):
            return None
        return np.array([np.nan if number is None else number for number in numbers])

    def _format(self, column: Sequence[str]) -> str:
        """Return the format of new values, which have as many decimals as the values of the column."""
        cells = [cell.strip() for cell in column if self._number(cell) == self._number(cell)]
        if any("e" in cell.lower() for cell in cells):
            return f".{DIGITS}g"
        point = "," if self.layout.has_decimal_commas else "."
        decimals = max((len(cell.partition(point)[2]) for cell in cells), default=DIGITS)
        return f".{decimals}f" if decimals <= MOST_DECIMALS else f".{MOST_DECIMALS}g"

    def write(self, path: Path, cleaned: Array, changed: Mask) -> None:
        with replacing(path) as part, self._open_for_writing(path, part) as file:
            with FileLines(self.path) as lines:
                head, _ = (
                    lines.read(BatchLimits(lines=self.layout.n_skipped)) if self.layout.n_skipped else ([], 0)
                )
            file.writelines(head)
            for i, (line, cells) in enumerate(self._rows()):
                if not changed[i].any():
                    file.write(line if line.endswith("\n") else line + "\n")
                    continue
                for k in np.flatnonzero(changed[i]):
                    text = format(cleaned[i, k], self.formats[k])
                    cells[self.roles.sensors[k]] = (
                        text.replace(".", ",") if self.layout.has_decimal_commas else text
                    )
                file.write((self.layout.delimiter or " ").join(map(self._quote, cells)) + "\n")

    def _open_for_writing(self, path: Path, part: Path) -> TextIO:
        raw = NamelessGzipFile(part) if path.suffix == ".gz" else part.open("wb")
        with self.path.open("rb") as file:
            start = b"" if is_gzip(self.path) else file.read(START_BYTES)
        encoding = "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"
        return io.TextIOWrapper(raw, encoding=encoding, newline="\r\n" if b"\r\n" in start else "\n")

    def _quote(self, cell: str) -> str:
        is_plain = not set(cell) & {self.layout.delimiter or " ", '"', "\n"}
        return cell if is_plain else '"' + cell.replace('"', '""') + '"'


class ArrowTable(LogTable):
    """A log in a Parquet, Arrow or Feather file."""

    def __init__(self, path: Path, choice: ColumnChoice) -> None:
        self.title, self.is_parquet = str(path), path.suffix.lower() in (".parquet", ".pq")
        if self.is_parquet:
            self.table = needs("pyarrow.parquet", "reading Parquet").read_table(path)
        else:
            self.table = needs("pyarrow.feather", "reading Arrow files").read_table(path)
        self.names = [str(name) for name in self.table.column_names]
        numbers = [self._numbers(column) for column in self.table.columns]
        self.choose(numbers, [column.to_pylist() for column in self.table.columns], choice)

    @staticmethod
    def _numbers(column: Any) -> Array | None:
        types = needs("pyarrow.types", "reading Parquet")
        if not (types.is_floating(column.type) or types.is_integer(column.type)):
            return None
        return np.asarray(column.cast("float64").to_numpy(), dtype=np.float64)

    def write(self, path: Path, cleaned: Array, changed: Mask) -> None:
        pyarrow = needs("pyarrow", "writing Parquet")
        table = self.table
        for k in np.flatnonzero(changed.any(axis=0)):
            j = self.roles.sensors[k]
            kind = table.schema.field(j).type
            values = (
                cleaned[:, k] if needs("pyarrow.types", "").is_floating(kind) else np.round(cleaned[:, k])
            )
            column = pyarrow.array(values, mask=np.isnan(values)).cast(kind)
            table = table.set_column(j, table.schema.field(j), column)
        with replacing(path) as part:
            if self.is_parquet:
                needs("pyarrow.parquet", "writing Parquet").write_table(table, part)
            else:
                needs("pyarrow.feather", "writing Arrow files").write_feather(table, part)


class ExcelTable(LogTable):
    """A log in the first sheet of an Excel file."""

    def __init__(self, path: Path, choice: ColumnChoice) -> None:
        self.title = str(path)
        self.book = needs("openpyxl", "reading Excel files").load_workbook(path, data_only=True)
        self.sheet = self.book.worksheets[0]
        rows = [list(row) for row in self.sheet.iter_rows(values_only=True)]
        while rows and all(cell is None for cell in rows[-1]):
            rows.pop()
        n_head = 0
        while n_head < min(len(rows), 2) and not any(isinstance(cell, int | float) for cell in rows[n_head]):
            n_head += 1  # names, and perhaps units
        if len(rows) <= n_head:
            raise StreamError(f"{self.title}: the first sheet has no rows of numbers")
        self.n_head = n_head
        head = rows[0] if n_head else [None] * len(rows[0])
        self.names = [f"column {j}" if cell is None else str(cell).strip() for j, cell in enumerate(head)]
        columns = list(zip(*rows[n_head:], strict=True))
        numbers = [self._numbers(column) for column in columns]
        self.choose(numbers, columns, choice)

    @staticmethod
    def _numbers(column: Sequence[Any]) -> Array | None:
        there = [cell for cell in column if cell is not None and cell != ""]
        is_number = [isinstance(cell, int | float) and not isinstance(cell, bool) for cell in there]
        if not sum(is_number) or sum(is_number) < NUMERIC_SHARE * len(there):
            return None
        usable = [
            cell if isinstance(cell, int | float) and not isinstance(cell, bool) else np.nan
            for cell in column
        ]
        return np.array(usable, dtype=np.float64)

    def write(self, path: Path, cleaned: Array, changed: Mask) -> None:
        for i, k in zip(*np.nonzero(changed), strict=True):
            cell = self.sheet.cell(int(i) + 1 + self.n_head, self.roles.sensors[k] + 1)
            cell.value = float(f"{cleaned[i, k]:.{DIGITS}g}")
        with replacing(path) as part:
            self.book.save(part)


class ArrayTable(LogTable):
    """A log in a file of numbers only."""

    def __init__(self, path: Path, choice: ColumnChoice, key: str | None) -> None:
        stream = open_stream(path, key=key)
        self.title = stream.title
        rows = np.concatenate([np.asarray(batch, dtype=np.float64) for batch in stream])
        self.names = list(stream.names or map(str, range(rows.shape[1])))
        self.rows = rows
        self.choose(list(rows.T), list(rows.T), choice)

    def write(self, path: Path, cleaned: Array, changed: Mask) -> None:
        rows = self.rows.copy()
        rows[:, self.roles.sensors] = np.where(changed, cleaned, self.values)
        with open_writer(path, self.names) as writer:
            writer.write(rows)


def open_table(
    path: Path, choice: ColumnChoice, *, header: bool | None = None, key: str | None = None
) -> LogTable:
    """Open the file of a sensor log.

    Parameters
    ----------
    path : Path
        The file: text (also compressed), Parquet, Arrow, Feather, Excel, or any other file of numbers that
        :func:`maxnorm.open_stream` reads.
    choice : ColumnChoice
        What the user says of the columns.
    header : bool or None, default=None
        Whether the first line of a text file names the columns; None detects it.
    key : str or None, default=None
        Name of the array to read from a file that holds several.

    Returns
    -------
    LogTable
        The table, with its sensors in memory.
    """
    suffix = (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()
    if suffix in (".csv", ".tsv", ".txt", ".dat"):
        table: LogTable = TextTable(path, choice, header)
    elif suffix in (".parquet", ".pq", ".arrow", ".feather"):
        table = ArrowTable(path, choice)
    elif suffix in (".xlsx", ".xlsm"):
        table = ExcelTable(path, choice)
    elif suffix == ".xls":
        raise StreamError(f"{path}: is an Excel file of the old format; save it as .xlsx or .csv")
    else:
        table = ArrayTable(path, choice, key)
    if not table.roles.sensors:
        raise StreamError(
            f"{table.title}: has no column that looks like a sensor; name the sensors with --columns"
        )
    return table
