"""Streams over text: CSV and TSV, compressed or not, from files and from standard input."""

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
from typing import Any, TextIO

import numpy as np

from maxnorm.core.types import Array
from maxnorm.streams.stream import Columns, Stream, StreamError, batch_rows, chosen

MISSING = {"", "na", "nan", "n/a", "null", "none", "?"}
LIVE_ROWS, LIVE_SECONDS = 1000, 0.5  # of standard input that is waited for before it is handed on
HEAD = 100  # lines from which the layout is told, and the number of lines estimated


def text_stream(
    path: Path | None,
    *,
    batch_size: int | None,
    columns: Columns,
    transpose: bool,
    header: bool | None = None,
) -> Stream:
    """A file of numbers separated by commas, tabs, semicolons or blanks; None is standard input."""
    title = "standard input" if path is None else str(path)
    if path is None or not path.is_file():  # it can be read once only, so that its beginning is kept
        if transpose:
            raise StreamError(
                f"{title}: can be read by rows only; save it as a file to take columns for samples"
            )
        lines = _opened(path)
        beginning = _beginning(lines, 2)
        table = _Table.of(beginning, title, columns, header)
        rows = batch_size or LIVE_ROWS
        return table.stream(
            lambda start: table.blocks(chain(beginning, lines), start, rows, LIVE_SECONDS),
            repeatable=False,
            in_background=False,  # a thread that waits for input cannot be stopped
        )

    with _opened(path) as lines:
        beginning = _beginning(lines, HEAD)
    if transpose:
        table = _Table.of(beginning, title, None, header)
        return _transposed(path, table, _count(path, beginning), batch_size, columns)
    table = _Table.of(beginning, title, columns, header)
    rows = batch_rows(batch_size, table.width)

    def source(start: int) -> Iterator[Array]:
        with _opened(path) as lines:
            yield from table.blocks(lines, start, rows)

    return table.stream(source, n_expected=_count(path, beginning))


def _transposed(
    path: Path, table: _Table, rows: int | None, batch_size: int | None, columns: Columns
) -> Stream:
    """Samples in columns: the file is read once for every batch of them."""
    if rows is None:
        with _opened(path) as lines:
            rows = sum(1 for _ in lines)
    size = batch_rows(batch_size, rows)
    positions = np.arange(table.width) if table.picked is None else table.picked

    def source(start: int) -> Iterator[Array]:
        for i in range(start, len(positions), size):
            part = replace(table, picked=positions[i : i + size])
            with _opened(path) as lines:
                parts = list(part.blocks(lines, 0, 1000))
            if not parts:
                raise StreamError(f"{table.title}: has no samples")
            batch = np.concatenate(parts).T
            picked, _ = chosen(columns, None, batch.shape[1], table.title)
            yield np.ascontiguousarray(batch if picked is None else batch[:, picked])

    return Stream(source, table.title, n_samples=len(positions), remarks=table.remarks)


@dataclass(frozen=True)
class _Table:
    """How a file of numbers is laid out."""

    delimiter: str | None  # None: any run of blanks
    width: int
    first: int  # lines before the first sample
    picked: np.ndarray | None
    title: str
    names: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, head: Sequence[str], title: str, columns: Columns, header: bool | None) -> _Table:
        filled = [(i, line) for i, line in enumerate(head) if line.strip()][:2]
        if not filled:
            raise StreamError(f"{title}: is empty")
        delimiter = _delimiter([line for _, line in filled])
        fields = [_split(line, delimiter) for _, line in filled]
        width = len(fields[0])
        remarks = []
        if header is None:
            header = _is_header(*fields)
            if header and any(_number(cell) is not None and cell.strip() for cell in fields[0]):
                remarks.append(f"{title}: the first line is taken for names, though some are numbers")
        names = [cell.strip() for cell in fields[0]] if header else None
        if columns is None and names and not names[0] and all(names[1:]) and width > 1:
            columns = slice(1, None)
            remarks.append(f"{title}: the first column has no name and is taken for row labels")
        picked, kept = chosen(columns, names, width, title)
        return cls(delimiter, width, filled[0][0] + header, picked, title, kept, tuple(remarks))

    def stream(self, source: Callable[[int], Iterator[Array]], **known: Any) -> Stream:
        """Return the stream of what ``source`` reads by this layout."""
        width = self.width if self.picked is None else len(self.picked)
        return Stream(source, self.title, n_features=width, names=self.names, remarks=self.remarks, **known)

    def blocks(
        self, lines: Iterable[str], start: int, size: int, seconds: float = math.inf
    ) -> Iterator[Array]:
        """Yield blocks of ``size`` lines, or of what comes in some seconds, without the first samples.

        If a line is wrong, those before it come first.
        """
        number = self.first + 1  # of the next line, counted from 1
        lines = islice(lines, self.first, None)
        problem: Exception | None = None
        while problem is None:
            block, problem = _some(lines, size, seconds)
            if not block:
                break
            try:
                samples = self._parsed(block, number)
            except _WrongLine as wrong:
                samples, problem = wrong.before, StreamError(str(wrong))
            number += len(block)
            if start < len(samples):
                yield samples[start:]
            start = max(0, start - len(samples))
        if problem is not None:
            raise problem

    def _parsed(self, lines: list[str], number: int) -> Array:
        delimiter = self.delimiter
        if delimiter is not None and all(line.count(delimiter) == self.width - 1 for line in lines):
            text = "".join(lines)
            if '"' not in text:
                try:
                    block = np.loadtxt(
                        _filled(text, delimiter).splitlines(),
                        delimiter=delimiter,
                        comments=None,
                        usecols=None if self.picked is None else self.picked.tolist(),
                        ndmin=2,
                    )
                except ValueError:
                    pass  # something is not a number: find out what
                else:
                    if len(block) == len(lines):
                        return block
        return self._parsed_with_care(lines, number)

    def _parsed_with_care(self, lines: list[str], number: int) -> Array:
        wanted = range(self.width) if self.picked is None else self.picked
        rows: list[list[float]] = []

        def wrong(line: int, message: str) -> _WrongLine:
            return _WrongLine(f"{self.title}, line {line}{message}", self._array(rows))

        for i, line in enumerate(lines, start=number):
            if not line.strip():
                continue
            cells = _split(line, self.delimiter)
            if len(cells) != self.width:
                raise wrong(i, f": {len(cells)} columns where {self.width} are expected")
            row = []
            for j in wanted:
                value = _number(cells[j])
                if value is None:
                    raise wrong(
                        i,
                        f", column {j}: {cells[j].strip()!r} is not a number; "
                        "leave missing entries empty, or choose columns that are numbers",
                    )
                row.append(value)
            rows.append(row)
        return self._array(rows)

    def _array(self, rows: list[list[float]]) -> Array:
        width = self.width if self.picked is None else len(self.picked)
        return np.array(rows, dtype=np.float64).reshape(len(rows), width)


class _WrongLine(Exception):
    """A line that cannot be read, and what could be read before it."""

    def __init__(self, message: str, before: Array) -> None:
        super().__init__(message)
        self.before = before


def _is_header(first: list[str], second: list[str] | None = None) -> bool:
    """Whether a line names columns: it has words where the next has numbers, or counts columns from 0."""
    cells = [cell.strip() for cell in first]
    if cells[0] == "":  # row labels, as pandas writes them
        cells = cells[1:]
    if len(cells) > 1 and cells == [str(i) for i in range(len(cells))]:
        return True
    if second is None:
        return all(_number(cell) is None for cell in first)
    return any(_number(a) is None and _number(b) is not None for a, b in zip(first, second, strict=False))


def _some(lines: Iterator[str], size: int, seconds: float) -> tuple[list[str], Exception | None]:
    """Return the next lines, and what went wrong after them if anything did."""
    block: list[str] = []
    begin = time.monotonic()
    try:
        for line in islice(lines, size):
            block.append(line)
            if seconds < math.inf and time.monotonic() > begin + seconds:
                break
    except (OSError, EOFError, ValueError) as error:
        return block, error
    return block, None


def _beginning(lines: Iterator[str], filled: int) -> list[str]:
    """Return lines up to so many that are not empty."""
    beginning = []
    for line in lines:
        beginning.append(line)
        filled -= bool(line.strip())
        if not filled:
            break
    return beginning


def _opened(path: Path | None) -> TextIO:
    """Return lines of a file, compressed or not, or of standard input."""
    if path is None:
        return io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
    if _is_zipped(path):
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _is_zipped(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as raw:
        return raw.read(2) == b"\x1f\x8b"


def _delimiter(lines: list[str]) -> str | None:
    for candidate in "\t;,":
        counts = {line.count(candidate) for line in lines if '"' not in line} or {
            len(_split(line, candidate)) - 1 for line in lines
        }
        if 0 not in counts and len(counts) == 1:
            return candidate
    for candidate in "\t;,":  # the lines disagree, which is found out when they are read
        if candidate in lines[0]:
            return candidate
    return None


def _split(line: str, delimiter: str | None) -> list[str]:
    return line.split() if delimiter is None else next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter))


def _number(cell: str) -> float | None:
    cell = cell.strip()
    if cell.lower() in MISSING:
        return float("nan")
    if "_" in cell or not cell.isascii():  # Python takes these for numbers
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _filled(text: str, delimiter: str) -> str:
    """Return the lines with nan in place of nothing."""
    text = "\n" + text.replace("\r", "").rstrip("\n") + "\n"
    for before, after in (
        (delimiter, delimiter),
        (delimiter, delimiter),
        ("\n", delimiter),
        (delimiter, "\n"),
    ):
        text = text.replace(before + after, f"{before}nan{after}")
    return text[1:]


def _count(path: Path, head: Sequence[str]) -> int | None:
    """Estimate the number of lines from the length of the first ones; not for compressed files."""
    return None if _is_zipped(path) else round(path.stat().st_size / (sum(map(len, head)) / len(head)))
